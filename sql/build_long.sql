-- CREATE INDEX over several columns, or over values of more than eight bytes: entries are sorted in memory by what
-- their keys do not share, in runs in temporary files, and by several processes.
CREATE SCHEMA build_long;
SET search_path = build_long, public;
SET client_min_messages = warning;
SET min_parallel_table_scan_size = 0;

-- strings that begin alike, that are prefixes of others, with zero bytes; keys with much and with nothing in common
CREATE TABLE t (n int, s text COLLATE "C", v bytea, u uuid, d numeric, i int8, wide text) USING heap;
INSERT INTO t
SELECT i, repeat('x', i % 40) || CASE i % 3 WHEN 0 THEN '' WHEN 1 THEN 'tail' ELSE md5(i::text) END,
	decode(repeat('00', i % 21) || CASE i % 4 WHEN 0 THEN '' WHEN 1 THEN 'ff' WHEN 2 THEN '0001' ELSE md5(i::text) END, 'hex'),
	(repeat('0', i % 30) || substr(md5(i::text), i % 30 + 1))::uuid, (i % 700 - 350) * 1.000001, i % 10 - 5,
	repeat(md5(i::text), i % 60)
FROM generate_series(1, 3000) i;
INSERT INTO t (n) SELECT NULL FROM generate_series(1, 20);
INSERT INTO t SELECT * FROM t;

-- what is wrong with an index of the table over this, built with these workers; nothing
CREATE FUNCTION wrong(tab text, cols text, more text, workers int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	sorted text;
	scanned text;
	plan text;
	names text := regexp_replace(cols, ' (DESC|NULLS FIRST|NULLS LAST)', '', 'g');
BEGIN
	PERFORM set_config('max_parallel_maintenance_workers', workers::text, true);
	EXECUTE format('CREATE INDEX long ON %I USING lsm_index (%s) %s', tab, cols, more);
	RETURN QUERY EXECUTE format('SELECT %L || object || problem FROM lsm_verify(''long'')', cols || ': ');
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true),
		set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
	EXECUTE format('SELECT md5(string_agg(r::text, '','')) FROM (SELECT ROW(%s) AS r FROM %I ORDER BY %s) s', names, tab, cols) INTO sorted;
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true),
		set_config('enable_indexonlyscan', 'on', true), set_config('enable_sort', 'off', true);
	EXECUTE format('SELECT md5(string_agg(r::text, '','')) FROM (SELECT ROW(%s) AS r FROM %I ORDER BY %s) s', names, tab, cols) INTO scanned;
	IF sorted <> scanned THEN RETURN NEXT cols || ': another order'; END IF;
	EXECUTE format('EXPLAIN (COSTS OFF) SELECT %s FROM %I ORDER BY %s', names, tab, cols) INTO plan;
	IF plan !~ 'Index.* Scan' THEN RETURN NEXT plan; END IF;
	DROP INDEX long;
END $$;
SELECT w FROM (VALUES ('s'), ('s DESC'), ('v'), ('v DESC NULLS LAST'), ('u'), ('d'), ('d DESC'), ('n, i'), ('i, n DESC'), ('i DESC, s NULLS FIRST'),
	('s, v, u'), ('i, i, i'), ('d, i DESC, v')) AS c (cols), unnest(ARRAY['', 'INCLUDE (wide)']) more,
	unnest(ARRAY[0, 2]) workers, wrong('t', cols, more, workers) w;

-- rows with one key, but for their TIDs
CREATE TABLE same (s text COLLATE "C", i int) USING lsm;
INSERT INTO same SELECT 'the same', 1 FROM generate_series(1, 5000);
SELECT w FROM unnest(ARRAY[0, 2]) n, wrong('same', 's, i', '', n) w;

-- runs: 1 MB of entries at a time, of which four are merged, and these again; keys share less in each than in all
CREATE TABLE many (s text COLLATE "C", u uuid, a int8, b int8, wide text) USING lsm;
INSERT INTO many SELECT 'prefix ' || i / 30000 || lpad(hashint4(i)::text, 12), md5((i % 50000)::text)::uuid, i % 11, i, CASE WHEN i % 5000 = 0 THEN repeat('wide', 25000) END
FROM generate_series(1, 150000) i;
SET maintenance_work_mem = '1MB';
SELECT w FROM (VALUES ('s', '', 0), ('s DESC', '', 2), ('u', 'INCLUDE (wide)', 0), ('u, s', 'INCLUDE (wide)', 2), ('a, b', '', 0), ('a DESC, b', '', 2)) AS v (c, more, n),
	wrong('many', c, more, n) w;
SET max_parallel_maintenance_workers = 0;
SELECT pg_stat_force_next_flush();
SELECT pg_stat_get_db_temp_bytes(oid) AS temp_bytes FROM pg_database WHERE datname = current_database() \gset
CREATE INDEX many_b ON many USING lsm_index (a, b);
SELECT pg_stat_force_next_flush();
SELECT pg_stat_get_db_temp_bytes(oid) - :temp_bytes > 1.5 * 150000 * 33 AS twice FROM pg_database WHERE datname = current_database();
DROP INDEX many_b;
RESET max_parallel_maintenance_workers;
-- uniqueness is decided where runs meet
CREATE UNIQUE INDEX long ON many USING lsm_index (a, b);
SELECT * FROM lsm_verify('long');
DROP INDEX long;
INSERT INTO many VALUES ('twice', NULL, 77777 % 11, 77777);
SET max_parallel_maintenance_workers = 0;
CREATE UNIQUE INDEX long ON many USING lsm_index (a, b);
SET max_parallel_maintenance_workers = 2;
CREATE UNIQUE INDEX long ON many USING lsm_index (b, a DESC);
DELETE FROM many WHERE s = 'twice';
CREATE UNIQUE INDEX CONCURRENTLY long ON many USING lsm_index (b, a DESC);
SELECT * FROM lsm_verify('long');
-- NULLs are distinct, or not
INSERT INTO many VALUES ('null'), ('null');
CREATE UNIQUE INDEX nulls ON many USING lsm_index (b, u);
CREATE UNIQUE INDEX no_nulls ON many USING lsm_index (b, u) NULLS NOT DISTINCT;
-- no room for temporary files
SET temp_file_limit = '1MB';
\set VERBOSITY sqlstate
CREATE INDEX limited ON many USING lsm_index (s);
\set VERBOSITY default
RESET temp_file_limit;
SELECT count(*) FROM many WHERE b = 77777;
DROP SCHEMA build_long CASCADE;
