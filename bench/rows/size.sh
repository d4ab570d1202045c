# size on disk of pgbench_accounts with its key, after compaction
bench_start
say "size on disk"

for am in heap lsm; do
	bench_pgbench $am -i -q -s "$(scaled 100)" >/dev/null 2>&1 || die "pgbench -i"
done
sql lsm -o /dev/null -c "SELECT lsm_compact('pgbench_accounts'::regclass)" -c "SELECT lsm_compact('pgbench_accounts_pkey'::regclass)" -c CHECKPOINT
one() {
	if [ "$1" = lsm ]; then
		sql lsm -c "SELECT (lsm_relation_size('pgbench_accounts'::regclass) + lsm_relation_size('pgbench_accounts_pkey'::regclass)) / 1048576"
	else
		sql heap -c "SELECT (pg_table_size('pgbench_accounts') + pg_relation_size('pgbench_accounts_pkey')) / 1048576"
	fi
}
rounds=1 interleave "pgbench_accounts scale $(scaled 100) with its key" lower MB 2x lsm heap one
sql lsm -c "SELECT format('   %s: %s MB in sorted files, %s MB of filters, %s MB in the main fork (its free pages are those of the log)',
		tree, round(sum(bytes) / 1048576), round(sum(filter_bytes) / 1048576), pg_relation_size(tree::regclass) / 1048576)
	FROM (VALUES ('pgbench_accounts'), ('pgbench_accounts_pkey')) t(tree), lsm_files(tree::regclass) GROUP BY tree"
