-- EXPLAIN (ANALYZE): what a statement has cost in the trees, in all four formats
CREATE TABLE e (id int PRIMARY KEY, v text) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO e SELECT i, 'v' || i FROM generate_series(1, 1000) i WHERE i <> 500;
SELECT lsm_compact('e');
CREATE TABLE h (id int, v text);
INSERT INTO h SELECT i, 'h' || i FROM generate_series(1, 10) i;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
-- the number of blocks depends on what the session has in its cache
CREATE FUNCTION explain_text(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
		CONTINUE WHEN line ~ '^ *(Index Searches|Disabled):';	-- PostgreSQL 18's, as rows=1.00 is
		RETURN NEXT regexp_replace(regexp_replace(line, 'blocks read=\d+', 'blocks read=N'), ' rows=(\d+)\.00 ', ' rows=\1 ');
	END LOOP;
END $$;
CREATE FUNCTION explain_json(query text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
	result json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO result;
	RETURN result;
END $$;
CREATE FUNCTION explain_yaml(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT yaml) ' || query INTO result;
	RETURN QUERY SELECT regexp_replace(line, 'Blocks Read: \d+', 'Blocks Read: N')
		FROM string_to_table(substr(result, strpos(result, E'\n  LSM:') + 1), E'\n') line
		WHERE line !~ 'Execution Time';
END $$;
CREATE FUNCTION explain_xml(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT xml) ' || query INTO result;
	RETURN result;
END $$;

-- text: a key that is there, one that is not, nothing of ours, and no ANALYZE
SELECT explain_text('SELECT * FROM e WHERE id = 78');
SELECT explain_text('SELECT * FROM e WHERE id = 500');
SELECT explain_text('SELECT * FROM h WHERE id = 5');
EXPLAIN (COSTS OFF) SELECT * FROM e WHERE id = 78;
-- rows in memory
INSERT INTO e VALUES (2000, 'in memory');
SELECT explain_text('SELECT * FROM e WHERE id = 2000');
-- two levels; one digest per filter without hash sharing
INSERT INTO e VALUES (0, 'flushed');
SELECT lsm_flush('e');
SELECT explain_text('SELECT * FROM e WHERE id = 78');
-- of a key that the row directory does not know: who asks first computes the digest, the others compute it again
SELECT explain_text('SELECT * FROM e WHERE id = 178');
SET lsm.hash_sharing = off;
SELECT explain_text('SELECT * FROM e WHERE id = 179');
RESET lsm.hash_sharing;
SELECT lsm_compact('e');
-- joins look up once per outer row
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT j->0->'LSM'->'Lookups' AS lookups FROM explain_json('SELECT * FROM h JOIN e ON e.id = h.id * 10') j;
RESET enable_hashjoin;
RESET enable_mergejoin;
-- writers
SELECT explain_text('UPDATE e SET v = v || ''!'' WHERE id = 79');

-- JSON: inside the query's object
SELECT json_array_length(j) AS queries, json_object_keys(j->0) AS key FROM explain_json('SELECT * FROM e WHERE id = 80') j;
SELECT key, value FROM explain_json('SELECT * FROM e WHERE id = 80') j, json_each(j->0->'LSM')
WHERE key NOT IN ('Blocks Read', 'Levels');
SELECT level.* FROM explain_json('SELECT * FROM e WHERE id IN (80, 500)') j,
	json_to_recordset(j->0->'LSM'->'Levels') AS level("Level" int, "Filter Probes" int, "Filter Negatives" int,
		"Filter True Positives" int, "Filter False Positives" int);
SELECT j->0->'LSM' IS NULL AS nothing_for_heap FROM explain_json('SELECT * FROM h') j;
-- YAML
SELECT explain_yaml('SELECT * FROM e WHERE id = 81');
-- XML
SELECT substring(x FROM '<LSM>.*</LSM>\s+<Execution-Time>') IS NOT NULL AS in_query,
	regexp_count(x, '<Level>') AS level_tags, regexp_count(x, '</Level>') AS level_ends
FROM explain_xml('SELECT * FROM e WHERE id = 82') x;
SELECT x IS DOCUMENT AS document FROM (SELECT xmlparse(DOCUMENT explain_xml('SELECT * FROM e WHERE id = 82')) AS x) q;

-- statements that do not come through ExplainOneQuery's hook by themselves
PREPARE by_id(int) AS SELECT * FROM e WHERE id = $1;
SELECT explain_text('EXECUTE by_id(83)');
SELECT explain_text('EXECUTE by_id(500)');
EXPLAIN (COSTS OFF) EXECUTE by_id(83);
SELECT j->0->'LSM'->'Filter True Positives' AS hits FROM explain_json('EXECUTE by_id(84)') j;
SELECT xmlparse(DOCUMENT explain_xml('EXECUTE by_id(84)')) IS DOCUMENT AS document;
SELECT explain_yaml('EXECUTE by_id(84)');
SET plan_cache_mode = force_generic_plan;
SELECT explain_text('EXECUTE by_id(84)');
RESET plan_cache_mode;
SELECT j->0->'LSM'->'Lookups' AS lookups FROM explain_json('CREATE TABLE x AS SELECT * FROM e WHERE id = 85') j;
SELECT j->0->'LSM'->'Lookups' AS lookups FROM explain_json('CREATE TABLE y AS EXECUTE by_id(86)') j;
SELECT * FROM x UNION ALL SELECT * FROM y;
SELECT j->0->'LSM'->'Lookups' AS lookups FROM explain_json('CREATE MATERIALIZED VIEW z AS SELECT * FROM e WHERE id = 85') j;
SELECT j->0->'LSM'->'Lookups' AS lookups FROM explain_json('DECLARE c CURSOR FOR SELECT * FROM e WHERE id = 85') j;
PREPARE no_plan AS VALUES (1);
EXPLAIN (COSTS OFF) EXECUTE no_plan;
SELECT explain_json('EXECUTE missing(1)');
SELECT explain_json('CREATE TABLE x AS EXECUTE by_id(86)');

-- a rule makes two plans, each with counters of its own
CREATE TABLE log (id int);
CREATE RULE log_update AS ON UPDATE TO e DO ALSO INSERT INTO log SELECT id FROM e WHERE id = old.id;
SELECT json_array_length(j) AS queries, j->0->'LSM' IS NOT NULL AS first, j->1->'LSM' IS NOT NULL AS second
FROM explain_json('UPDATE e SET v = ''new'' WHERE id = 87') j;
DROP RULE log_update ON e;

-- functions count for the statement that calls them, also those that explain
CREATE FUNCTION value_of(key int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM explain_json('SELECT * FROM e WHERE id = ' || key);
	RETURN (SELECT v FROM e WHERE id = key);
END $$;
SELECT j->0->'LSM'->'Lookups' AS lookups FROM explain_json('SELECT value_of(88), value_of(89)') j;
-- an error leaves nothing behind
SELECT explain_json('SELECT 1 / (id - 90) FROM e WHERE id = 90');
SELECT explain_text('SELECT * FROM e WHERE id = 91');

-- parallel workers count for their leader
SELECT CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'force_parallel_mode' ELSE 'debug_parallel_query' END AS parallel \gset
SET :parallel = on;
SELECT j->0->'Plan'->>'Node Type' AS node, j->0->'LSM'->'Lookups' AS lookups, j->0->'LSM'->'Levels'->0->'Filter True Positives' AS hits
FROM explain_json('SELECT * FROM e WHERE id = 92') j;
SELECT pg_stat_lsm_reset();
SELECT * FROM e WHERE id = 93;
RESET :parallel;
SELECT relname, lookups, digests FROM pg_stat_lsm WHERE relname IN ('e', 'e_pkey') ORDER BY relname;

RESET enable_seqscan;
RESET enable_bitmapscan;
DEALLOCATE by_id;
DEALLOCATE no_plan;
DROP MATERIALIZED VIEW z;
DROP TABLE e, h, x, y, log;
DROP FUNCTION explain_text, explain_json, explain_yaml, explain_xml, value_of;
