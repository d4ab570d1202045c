# one tenant's newest rows, of runs that all overlap: filters that know leading columns against those that do not
bench_start "lsm.compaction_by_scans = off"
say "leading columns"

each=$(scaled 100000)
for t in known unknown; do
	sql heap <<-SQL
		CREATE TABLE $t (tenant int, at timestamp, n int) USING lsm;
		CREATE INDEX ${t}_i ON $t USING lsm_index (tenant, at) WITH (filter_columns = $([ $t = known ] && echo 1 || echo 0));
		CREATE FUNCTION ask_$t(first int, step int) RETURNS int LANGUAGE plpgsql AS \$\$
		BEGIN
			FOR g IN 1 .. 1000 LOOP
				PERFORM at FROM $t WHERE tenant = first + g * step ORDER BY at DESC LIMIT 10;
			END LOOP;
			RETURN 1000;
		END \$\$;
	SQL
	# three runs in level 0 are not merged yet; tenants 0 to 997; tenant 1000 + run is of this run alone; from 2001 on every second one is absent
	for run in 0 1 2; do
		sql heap -o /dev/null -c "INSERT INTO $t SELECT CASE WHEN i % 1000 = 999 THEN 1000 + $run WHEN i % 1000 = 998 THEN 2000 + i / 1000 * 40 ELSE i % 998 END,
				'2026-01-01'::timestamp + i * interval '1 second' + $run * interval '100 milliseconds', i FROM generate_series(1, $each) i" \
			-c "SELECT lsm_flush('$t'::regclass)"
	done
	sql heap -c "VACUUM ANALYZE $t"
	show_levels heap ${t}_i
done
# one WHAT FIRST STEP TARGET
one() {
	interleave_sql "newest rows of a tenant, $1" 1000 us "$4" known unknown heap \
		"SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;" \
		"SELECT ask_known($2, $3);" "SELECT ask_unknown($2, $3);"
}
one absent 2001 2 1.0x
one "of one run" 1001 0 1.0x
one "of all runs" 0 0 ""
