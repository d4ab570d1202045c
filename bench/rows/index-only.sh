# index-only scans, lsm_index of an lsm table against btree of heap: one run, and several that alternate
bench_start "
lsm.memtable_size = 64MB
lsm.compaction_by_scans = off
"
say "index-only scans"

n=$(scaled 1000000)
sql heap <<-SQL
	CREATE TABLE h (id int, w int, s text COLLATE "C", v text);
	INSERT INTO h SELECT hashint4(i), i % 1000, md5(i::text), 'row ' || i FROM generate_series(1, $n) i;
	CREATE INDEX ON h (id); CREATE INDEX ON h (w, id) INCLUDE (v); CREATE INDEX ON h (s);
	VACUUM (FREEZE, ANALYZE) h;
	CREATE TABLE l (LIKE h) USING lsm;
	CREATE INDEX ON l USING lsm_index (id); CREATE INDEX ON l USING lsm_index (w, id) INCLUDE (v);
	CREATE INDEX ON l USING lsm_index (s);
SQL

# scans WHAT TARGET
scans() {
	local order='ORDER BY s'
	show_levels heap l_id_idx
	interleave_sql "count(*) of all, $1" "$n" us/row "$2" lsm heap heap "$plans" \
		"SELECT count(id) FROM l;" "SELECT count(id) FROM h;"
	interleave_sql "INCLUDE of a range, $1" "$((n * 3 / 10))" us/row "$2" lsm heap heap "$plans" \
		"SELECT count(v) FROM l WHERE w BETWEEN 100 AND 400;" "SELECT count(v) FROM h WHERE w BETWEEN 100 AND 400;"
	interleave_sql "text in order, $1" "$n" us/row "$2" lsm heap heap "$plans" \
		"SELECT count(s) FROM (SELECT s FROM l $order OFFSET 0) x;" "SELECT count(s) FROM (SELECT s FROM h $order OFFSET 0) x;"
}
plans="SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;"

for part in 0 1 2; do
	sql heap -c "INSERT INTO l SELECT * FROM h WHERE w % 3 = $part" -c "SELECT lsm_flush('l'::regclass)" >/dev/null
done
sql heap -c "VACUUM (FREEZE, ANALYZE) l"
settle heap l
scans "several runs" ""
sql heap -o /dev/null -c "SELECT lsm_compact('l'::regclass)"
settle heap l
scans "one run" 1.0x
