#!/bin/bash
# bench/run.sh NAME...: rows of the table in bench/README.md, each on a
# throwaway server.  Without a name: the list.
set -uo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if [ $# -eq 0 ]; then
	echo "usage: bench/run.sh NAME...; names:"
	for file in "$top"/bench/rows/*.sh; do
		printf '  %-14s %s\n' "$(basename "$file" .sh)" "$(sed -n '1s/^# *//p' "$file")"
	done
	exit 1
fi
status=0
for row in "$@"; do
	if [ ! -f "$top/bench/rows/$row.sh" ]; then
		echo "bench: there is no row \"$row\"" >&2
		exit 1
	fi
	(
		. "$top/bench/lib.sh"
		. "$top/bench/rows/$row.sh"
	) || status=1
done
exit $status
