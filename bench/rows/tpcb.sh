# pgbench TPC-B: scale 20, 4 clients, fsync on; scale 5, synchronous_commit = off
# BENCH_DECAY=1: also BENCH_DECAY_SECONDS (600) of each, in turns of 30 s, first minute against last
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

# half_minutes AM: of its series, the first minute, the last one, and the mean
half_minutes() {
	awk -v am="$1" '$1 == am { t[++n] = $2; sum += $2; series = series sprintf(" %.0f", $2) }
		END {
			if (n < 4)
				exit 1
			first = (t[1] + t[2]) / 2
			last = (t[n - 1] + t[n]) / 2
			printf "   %s: %.0f tps; first minute %.0f, last minute %.0f: %.2fx;%s\n", am, sum / n, first, last, last / first, series
		}' "$2" || die "half minutes"
}

# in turns of half a minute, since the machine has phases that are longer
if [ -n "${BENCH_DECAY:-}" ]; then
	say "TPC-B, scale 5, synchronous_commit off: decay over ${BENCH_DECAY_SECONDS:-600} s each, in turns of 30 s"
	load 5
	series=$(mktemp)
	for ((i = 0; i < ${BENCH_DECAY_SECONDS:-600} / 30; i++)); do
		for am in heap lsm; do
			echo "$am $(tps $am -n -M prepared -c 4 -j 4 -T 30)" >>"$series"
		done
	done
	half_minutes heap "$series"
	half_minutes lsm "$series"
	rm -f "$series"
fi
