#!/bin/bash
# bench/run.sh NAME...: rows of the table of targets, each on a throwaway
# server.  "all": every row at a size that makes about 20 minutes together, and the table.
# "table": the table of what has been measured.  "publish": the table into bench/RESULTS.md, the plots
# into bench/plots.  Without a name: the list.
set -uo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
results=${BENCH_RESULTS:-$top/build/bench}

# Rows in the order of the table, with BENCH_SCALE and BENCH_ROUNDS for "all"
rows="absent:0.25:7 found:0.25:7 select:0.5:7 points:0.5:3 tpcb:1:5 any1000:0.2:7 uuid-insert:0.5:3 copy:1:3
seqscan:1:9 range100:0.2:7 size:1:1 vacuum:0.1:3 sharing:0.25:15 tree-alone:0.5:9 larger-than-memory:0.2:7 memory:1:3
allocation:1:1"

list() {
	local file
	echo "usage: bench/run.sh all | table | publish | NAME...; names:"
	for file in "$top"/bench/rows/*.sh; do
		printf '  %-18s %s\n' "$(basename "$file" .sh)" "$(sed -n '1s/^# *//p' "$file")"
	done
}

# run ROW: in a shell of its own; the time it took goes to its summary
run() {
	local start=$SECONDS status=0
	row=$1
	if [ ! -f "$top/bench/rows/$row.sh" ]; then
		echo "bench: there is no row \"$row\"" >&2
		return 1
	fi
	(
		. "$top/bench/lib.sh"
		. "$top/bench/rows/$row.sh"
	) || status=1
	echo "   $row took $((SECONDS - start)) s"
	[ $status -ne 0 ] || echo "# seconds=$((SECONDS - start))" >>"$results/$row.summary"
	return $status
}

table() {
	"$top/bench/table.py" "$results" >"$results/table.md" && echo "== $results/table.md"
}

[ $# -gt 0 ] || {
	list
	exit 1
}
status=0
for name in "$@"; do
	case $name in
		all)
			for entry in $rows; do
				IFS=: read -r row row_scale row_rounds <<<"$entry"
				BENCH_SCALE=$(awk -v a="$row_scale" -v b="${BENCH_SCALE:-1}" 'BEGIN { print a * b }') \
					BENCH_ROUNDS=${BENCH_ROUNDS:-$row_rounds} BENCH_SECONDS=${BENCH_SECONDS:-3} run "$row" || status=1
			done
			table || status=1
			;;
		table) table || status=1 ;;
		publish)
			mkdir -p "$top/bench/plots"
			"$top/bench/table.py" "$results" "$top/bench/RESULTS.md" &&
				"$top/bench/plot.py" -o "$top/bench/plots" "$results" || status=1
			;;
		*) run "$name" || status=1 ;;
	esac
done
exit $status
