#!/bin/bash
# Stands before initdb in a sandbox: a cluster of the same options, in the same
# surroundings, is made once and copied from then on.  All copies have one
# system identifier.  check.sh puts it at initdb's place; initdb itself is
# initdb.real beside it, and the made clusters are in LSM_INITDB_CACHE, which
# the caller's user may write.
real=$0.real
really() { exec -a "$0" "$real" "$@"; }
[ -n "${LSM_INITDB_CACHE:-}" ] || really "$@"

all=("$@")
options=()
data=
while [ $# -gt 0 ]; do
	case $1 in
		-D | --pgdata) data=$2 && shift ;;
		-D*) data=${1#-D} ;;
		--pgdata=*) data=${1#*=} ;;
		# directories and files of one's own, and what makes nothing
		-X* | --waldir* | --pwfile* | -W | -S | --sync-only | -V | --version | -\? | --help | -s | --show | -L*) really "${all[@]}" ;;
		-*) options+=("$1") ;;
		# an option's value; else the directory
		*) case ${options[-1]:-} in
				-[AETUgc] | --auth | --encoding | --username | --set) options+=("$1") ;;
				*) really "${all[@]}" ;;
			esac ;;
	esac
	shift
done
[ -n "$data" ] || really "${all[@]}"
[ ! -e "$data" ] || rmdir "$data" 2>/dev/null || really "${all[@]}"

key=$({
	printf '%s\n' "${options[@]}"
	env | grep -E '^(LC_|LANG|LOCPATH|TZ|LD_PRELOAD|PG[A-Z]*OPTIONS)' | sort
} | md5sum | cut -c1-32)
made=$LSM_INITDB_CACHE/$key
if [ ! -d "$made" ]; then
	exec 8>"$made.lock"
	flock 8
	if [ ! -d "$made" ]; then
		rm -rf "$made.new"
		(exec -a "$0" "$real" -D "$made.new" "${options[@]}" >"$made.log" 2>&1 8>&-) || {
			status=$?
			cat "$made.log"
			exit $status
		}
		mv "$made.new" "$made"
	fi
	exec 8>&-
fi
cat "$made.log"
mkdir -p "$(dirname "$data")"
exec cp -a --reflink=auto "$made" "$data"
