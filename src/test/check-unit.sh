#!/bin/bash
# Unit tests: every src/test/unit/*.c and *.cc is a program that prints TAP.  Those of the
# filter and sst libraries are linked with these; one that includes postgres.h brings its
# own stand-in for the server and threads for processes.
#
# check-unit.sh plain|sanitize    sanitize: address and undefined behaviour, threads for
#                                 programs that use them
# LSM_UNIT="memtable"             these only, by prefix
# LSM_UNIT_REWRITE=1              what the cases of src/test/unit/cases are expected to say
#                                 becomes what they say: to be read before it is committed
set -uo pipefail
. "$(dirname "$0")/lib.sh"
cd "$top"

flavour=${1:-plain}
out=$top/build/unit-$flavour
mkdir -p "$out"

# as in the Makefile
dialect=-std=gnu11
[ "$("$(find_pg_config)" --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')" -lt 19 ] || dialect=

common=(-g -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare
	-Wno-missing-field-initializers -D_GNU_SOURCE -Isrc -MMD -MP)
case $flavour in
	plain) common+=(-O2) ;;
	sanitize)
		common+=(-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
			-fno-omit-frame-pointer)
		# the long forms are for the plain build
		export LSM_UNIT_SHORT=1
		;;
esac

# the sources of the chosen programs
unit_sources() {
	local source prefix
	for source in src/test/unit/*.c src/test/unit/*.cc; do
		[ -e "$source" ] || continue
		for prefix in ${LSM_UNIT:-""}; do
			[[ $(basename "$source") != "$prefix"* ]] || echo "$source"
		done
	done
}

make_rules() {
	local source object objects=() programs=()
	echo 'all: programs'
	for source in src/filter/*.c src/sst/*.cc; do
		[ -e "$source" ] || continue
		object=$out/$(echo "$source" | tr / _).o
		objects+=("$object")
		rule "$object" "$source"
	done
	for source in $(unit_sources); do
		object=$out/$(echo "$source" | tr / _).o
		program=$out/$(basename "${source%.*}")
		programs+=("$program")
		if needs_server "$source"; then
			flags=($dialect "${common[@]}" -Wno-declaration-after-statement
				-isystem "$("$(find_pg_config)" --includedir-server)")
			[ "$flavour" = plain ] || flags+=(-fno-sanitize=all -fsanitize=thread)
			printf '%s: %s\n\tgcc %s -o $@ $< -lpthread -lxxhash -lm\n' \
				"$program" "$source" "${flags[*]}"
			continue
		fi
		rule "$object" "$source"
		printf '%s: %s %s\n\tg++ %s -o $@ $^ -lrocksdb -lxxhash -llz4 -lzstd -lm\n' \
			"$program" "$object" "${objects[*]}" "${common[*]}"
	done
	echo "programs: ${programs[*]}"
	echo "-include $out/*.d"
}
needs_server() {
	grep -q '"postgres.h"' "$1"
}
rule() {
	local compiler="gcc -std=gnu11"
	case $2 in *.cc) compiler="g++ -std=c++17" ;; esac
	printf '%s: %s\n\t%s %s -c -o $@ $<\n' "$1" "$2" "$compiler" "${common[*]}"
}

make_rules >"$out/Makefile.unit"
make -s -j"$(nproc)" -f "$out/Makefile.unit" || {
	echo "not ok 1 - unit tests ($flavour) compile"
	exit 1
}

export LSM_UNIT_CASES=$top/src/test/unit/cases
status=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for source in $(unit_sources); do
	name=$(basename "${source%.*}")
	echo "# unit test $name ($flavour)"
	runner=()
	if [ "$flavour" = sanitize ] && needs_server "$source"; then
		# the thread sanitizer cannot cope with much randomisation of addresses
		runner=(setarch "$(uname -m)" -R)
	fi
	(cd "$scratch" && timeout 3600 "${runner[@]}" "$out/$name")
	rc=$?
	if [ $rc -eq 0 ]; then
		echo "ok - $name ($flavour) exits with 0"
	else
		echo "not ok - $name ($flavour) exits with $rc"
		status=1
	fi
done
exit $status
