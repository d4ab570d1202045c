# Tables for the rows that probe an index in a nested loop: h (heap, btree) and
# l (lsm), the same rows; absent and present, keys to look for in random order.

# Small memtables and a small ratio make 5 levels of a few million rows
probes_conf="
lsm.memtable_size = 1MB
lsm.size_ratio = 3
lsm.target_file_size = 4MB
"
probes_nested="SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;
SET enable_material = off; SET enable_memoize = off; SET enable_indexonlyscan = off;"

# probes_load KEY_BYTES ROWS PROBES: absent keys lie between present ones
probes_load() {
	local bytes=$1 n=$2 probes=$3 type key
	if [ "$bytes" = 8 ]; then
		type=bigint key="(random() * 9e15)::bigint * 2 + odd"
	else
		type='text COLLATE "C"' key="md5(i::text || odd) || repeat('x', $bytes - 33) || odd::text"
	fi
	sql heap <<-SQL
		DROP TABLE IF EXISTS h, l, absent, present;
		CREATE TABLE h (k $type PRIMARY KEY, v text);
		INSERT INTO h SELECT $key, md5(i::text) FROM generate_series(1, $n) i, (VALUES (0)) s(odd)
			ORDER BY random() ON CONFLICT DO NOTHING;
		CREATE TABLE absent AS SELECT $key AS k FROM generate_series(1, $probes) i, (VALUES (1)) s(odd);
		CREATE TABLE present AS SELECT k FROM h ORDER BY random() LIMIT $probes;
		VACUUM ANALYZE h, absent, present;
		CREATE TABLE l (k $type PRIMARY KEY, v text) USING lsm;
		INSERT INTO l SELECT * FROM h;
		ANALYZE l;
	SQL
	settle heap l
	show_levels heap l_pkey
}
