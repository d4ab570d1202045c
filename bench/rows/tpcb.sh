# pgbench TPC-B: scale 20, 4 clients, fsync on; scale 5, synchronous_commit = off
# BENCH_DECAY=1: also one run of BENCH_DECAY_SECONDS (600) each, first minute against last
bench_start "autovacuum = on"
say "TPC-B"

# load SCALE
load() {
	local am
	for am in heap lsm; do
		bench_pgbench $am -i -q -s "$1" >/dev/null 2>&1 || die "pgbench -i"
	done
	settle lsm pgbench_accounts
}
# longer than other rows' chunks: in the first seconds memtables fit into the processor's caches
one() { tps "$1" -n -M prepared -c 4 -j 4 -T $((3 * ${BENCH_SECONDS:-3})); }

load "$(scaled 20)"
interleave "TPC-B, scale 20, fsync on" higher tps 1.0x lsm heap one
load 5
for am in heap lsm; do
	sql $am -c "ALTER DATABASE $am SET synchronous_commit = off"
done
interleave "TPC-B, scale 5, synchronous_commit off" higher tps 1.0x lsm heap one

# what a transaction costs in WAL
for am in heap lsm; do
	before=$(sql $am -c "CHECKPOINT" -c "SELECT pg_current_wal_insert_lsn()")
	bench_pgbench $am -n -M prepared -c 4 -j 4 -t 5000 >/dev/null 2>&1
	sql $am -c "SELECT '   $am: ' || round(pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$before') / 20000)
		|| ' bytes of WAL per transaction, full pages included'"
done

# decay DATABASE: transactions per second by half minutes, and of the first and the last minute
decay() {
	bench_pgbench "$1" -n -M prepared -c 4 -j 4 -T "${BENCH_DECAY_SECONDS:-600}" -P 30 2>&1 >/dev/null |
		awk -v am="$1" '$1 == "progress:" { t[++n] = $4; series = series sprintf(" %.0f", $4) }
			END {
				if (n < 4)
					exit 1
				first = (t[1] + t[2]) / 2
				last = (t[n - 1] + t[n]) / 2
				printf "   %s: first minute %.0f tps, last minute %.0f tps: %.2fx;%s\n", am, first, last, last / first, series
			}' || die "pgbench -P"
}

if [ -n "${BENCH_DECAY:-}" ]; then
	say "TPC-B, scale 5, synchronous_commit off: decay over ${BENCH_DECAY_SECONDS:-600} s (-P 30)"
	load 5
	decay heap
	decay lsm
fi
