# pgbench -S -M prepared, 1 and 4 clients
bench_start
say "point select by primary key"

for am in heap lsm; do
	bench_pgbench $am -i -q -s "$(scaled 20)" >/dev/null 2>&1 || die "pgbench -i"
done
settle lsm pgbench_accounts
for clients in 1 4; do
	one() { tps "$1" -n -S -M prepared -c $clients -j $clients -T "${BENCH_SECONDS:-5}"; }
	one lsm >/dev/null
	one heap >/dev/null
	interleave "pgbench -S, $clients clients" higher tps 1.0x lsm heap one
done
