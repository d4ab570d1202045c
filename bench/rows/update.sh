# updates of a column in no index, by key: one index and six, btree and lsm; WAL, entries of indexes, sizes
#
# BENCH_SECONDS: of a turn (5).  BENCH_UPDATES: how many more before sizes are compared (3,000,000, scaled).
bench_start "
autovacuum = on
synchronous_commit = off
max_wal_size = 8GB
"
say "updates of a column in no index"
n=$(scaled 300000)
# make DATABASE TABLE AM_OF_INDEXES
make() {
	sql "$1" -o /dev/null <<-SQL
		CREATE TABLE $2 (id int NOT NULL, a int, b int, c int, d int, e int, n int, pad text);
		CREATE UNIQUE INDEX ON $2 USING $3 (id);
		CREATE INDEX ON $2 USING $3 (a); CREATE INDEX ON $2 USING $3 (b); CREATE INDEX ON $2 USING $3 (c);
		CREATE INDEX ON $2 USING $3 (d); CREATE INDEX ON $2 USING $3 (e);
		INSERT INTO $2 SELECT i, i::bigint * 7919 % $n, i::bigint * 104729 % $n, i::bigint * 31 % $n, i::bigint * 17 % $n,
			i::bigint * 13 % $n, 0, repeat('x', 120) FROM generate_series(1, $n) i;
		CREATE TABLE one_$2 (id int NOT NULL, n int, pad text);
		CREATE UNIQUE INDEX ON one_$2 USING $3 (id);
		INSERT INTO one_$2 SELECT i, 0, repeat('x', 140) FROM generate_series(1, $n) i;
	SQL
}
make heap heap btree
make lsm btree btree
make lsm lsm lsm
# update NAME [pgbench arguments]: NAME is a table's; that of heap's is "heap"
update() {
	local table=$1 database=lsm
	shift
	[ "${table#one_}" != heap ] || database=heap
	printf '%s\n' "\\set id random(1, $n)" "UPDATE $table SET n = n + 1 WHERE id = :id;" >"$sandbox/update.$table.sql"
	tps $database -n -M prepared -f "$sandbox/update.$table.sql" "$@"
}
for am in heap lsm; do
	sql $am -c "VACUUM ANALYZE" -c CHECKPOINT
done
for clients in 1 2; do
	one() { update "$1" -c $clients -j $clients -T "${BENCH_SECONDS:-5}"; }
	for index in btree lsm; do
		interleave "one index, $index, $clients clients" higher tps 1.0x one_$index one_heap one
		interleave "six indexes, $index, $clients clients" higher tps 1.0x $index heap one
	done
done

# what one costs, without full pages
say "WAL of an update, sizes of six indexes"
for am in heap lsm; do
	sql $am -c "ALTER SYSTEM SET full_page_writes = off" -o /dev/null -c "SELECT pg_reload_conf()"
done
# sizes DATABASE TABLE: of its indexes
sizes() {
	sql "$1" -c "SELECT pg_size_pretty(sum(CASE amname WHEN 'btree' THEN pg_relation_size(c.oid)
			ELSE lsm_relation_size(c.oid::regclass) END))
		FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
		WHERE indrelid = '$2'::regclass"
}
updates=$(scaled "${BENCH_UPDATES:-3000000}")
for table in heap btree lsm; do
	am=lsm
	[ $table != heap ] || am=heap
	before=$(sql $am -c CHECKPOINT -c "SELECT pg_current_wal_insert_lsn()")
	update $table -c 1 -t 50000 >/dev/null
	sql $am -c "SELECT '   $table: ' || round(pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$before') / 50000)
		|| ' bytes of WAL per update'"
	update $table -c 2 -t $((updates / 2)) >/dev/null
	sql $am -c "VACUUM $table"
	grown=$(sizes $am $table)
	sql $am -c "REINDEX TABLE $table"
	echo "   $table: indexes after $updates updates $grown, made anew $(sizes $am $table)"
done
