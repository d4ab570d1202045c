# pgbench TPC-B, scale 20, synchronous_commit off, 10 minutes of each, autovacuum on, in turns of 30 s
#
# BENCH_ROUNDS: turns of each (20).  BENCH_SECONDS: of a turn (30).
bench_start "
autovacuum = on
autovacuum_naptime = 10s
synchronous_commit = off
max_wal_size = 4GB
"
rounds=${BENCH_ROUNDS:-20}
turn=${BENCH_SECONDS:-30}
say "TPC-B, $((rounds * turn)) s of each"
for am in heap lsm; do
	bench_pgbench $am -i -q -s "$(scaled 20)" >/dev/null 2>&1 || die "pgbench -i"
done
one() { tps "$1" -n -M prepared -c 4 -j 2 -T "$turn"; }
interleave "TPC-B, asynchronous, $((rounds * turn)) s" higher tps 1.0x lsm heap one
