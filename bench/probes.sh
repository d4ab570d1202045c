# Tables for the rows that probe an index in a nested loop: h (heap, btree) and
# l (lsm), the same rows; absent and present, keys to look for in random order.  Nothing is left in
# the index's memtable.  Slices of h are taken by OFFSET, so its scans must begin at its beginning.

# Small memtables and a small ratio make 5 levels of a few million rows, and of fewer at a smaller scale
probes_kb=$(awk -v s="$scale" 'BEGIN { kb = 1024 * s; printf "%d", kb < 64 ? 64 : kb }')
probes_conf="
lsm.memtable_size = ${probes_kb}kB
lsm.size_ratio = 3
lsm.target_file_size = $((4 * probes_kb))kB
synchronize_seqscans = off
"
probes_nested="SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;
SET enable_material = off; SET enable_memoize = off; SET enable_indexonlyscan = off;"

# probes_load KEY_BYTES ROWS PROBES: absent keys lie between present ones.  Not ORDER BY random(): it is
# the random() of the key, and rows would arrive in the key's order, in levels that do not overlap.
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
			ORDER BY md5('order' || i) ON CONFLICT DO NOTHING;
		CREATE TABLE absent AS SELECT $key AS k FROM generate_series(1, $probes) i, (VALUES (1)) s(odd);
		CREATE TABLE present AS SELECT k FROM h ORDER BY random() LIMIT $probes;
		VACUUM ANALYZE h, absent, present;
		CREATE TABLE l (k $type PRIMARY KEY, v text) USING lsm;
		INSERT INTO l SELECT * FROM h LIMIT $((n - n / 500));
	SQL
	probes_level0 "$n"
	sql heap -c "ANALYZE l"
	show_levels heap l_pkey
	# how many filters a lookup of an absent key asks
	sql heap -o /dev/null -c "SELECT pg_stat_lsm_reset()" -c "$probes_nested" -c "SELECT count(l.v) FROM absent JOIN l USING (k)"
	sql heap -c "SELECT '   filters asked for an absent key: ' || round(filter_probes::numeric / lookups, 2)
		FROM pg_stat_lsm WHERE relname = 'l_pkey'"
}

# probes_level0 ROWS: what l lacks, in as many flushes as leave three runs in level 0, where four are
# compacted; so that lookups do not depend on what the last compaction happened to leave
probes_level0() {
	local runs flushes i slice
	sql heap -o /dev/null -c "SELECT lsm_flush('l_pkey'::regclass)"
	settle heap l
	runs=$(sql heap -c "SELECT coalesce(sum(runs), 0) FROM lsm_levels('l_pkey'::regclass) WHERE level = 0")
	flushes=$((runs < 3 ? 3 - runs : 4))
	slice=$(($1 / 500 / flushes + 1))
	for ((i = 0; i < flushes; i++)); do
		sql heap -o /dev/null -c "INSERT INTO l SELECT * FROM h OFFSET (SELECT count(*) FROM l) LIMIT $slice" \
			-c "SELECT lsm_flush('l_pkey'::regclass)"
		settle heap l
	done
}
