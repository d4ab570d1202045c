-- CREATE INDEX over one column of at most eight bytes: entries are sorted in memory, in runs in temporary files, and
-- by several processes.  The index has every row once, in the order of a sort.
CREATE SCHEMA build_short;
SET search_path = build_short, public;
SET client_min_messages = warning;

CREATE TABLE few (b bool, c "char", i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, d date, t time, ts timestamp, tz timestamptz, m money, o oid, l pg_lsn, x xid8) USING heap;
INSERT INTO few
SELECT i % 2 = 0, chr(i % 120 + 1)::"char", i * 655 % 32000 - 16000, i * 7919 % 1000003 - 500000, (i * 7919 % 1000003 - 500000)::int8 * 1000000007,
	sin(i)::float4, sin(i) * 1e300, '2000-01-01'::date + (i * 37 % 5000 - 2500), '00:00'::time + i * interval '17 seconds',
	'2000-01-01'::timestamp + (i - 500) * interval '40 days', '2000-01-01 00:00Z'::timestamptz + (500 - i) * interval '40 days',
	(i * 31 % 1000 - 500)::money, (i::int8 * 4294967 % 4294967296)::oid, '0/0'::pg_lsn + (i * 1000003)::numeric, (i * 77777 % 100000)::text::xid8
FROM generate_series(1, 1000) i;
INSERT INTO few (i2, i4, i8, f4, f8, d, ts, tz) VALUES (-32768, -2147483648, -9223372036854775808, '-infinity', 'nan', '-infinity', '-infinity', 'infinity'),
	(32767, 2147483647, 9223372036854775807, 'nan', '-0', 'infinity', 'infinity', '-infinity'), (0, 0, 0, '-0', 0, NULL, NULL, NULL);
INSERT INTO few SELECT (NULL::few).* FROM generate_series(1, 20);
INSERT INTO few SELECT * FROM few;

-- what is wrong with an index of the table over this, built with these processes besides; nothing
CREATE FUNCTION wrong(tab text, col text, spec text, workers int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	sorted text;
	scanned text;
	plan text;
BEGIN
	PERFORM set_config('max_parallel_maintenance_workers', workers::text, true);
	EXECUTE format('CREATE INDEX short ON %I USING lsm_index (%I %s)', tab, col, spec);
	RETURN QUERY EXECUTE format('SELECT %L || object || problem FROM lsm_verify(''short'')', col || ' ' || spec || ': ');
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true);
	EXECUTE format('SELECT md5(string_agg(coalesce(v::text, ''-''), '','')) FROM (SELECT %I AS v FROM %I ORDER BY %1$I %3$s) s', col, tab, spec) INTO sorted;
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true), set_config('enable_sort', 'off', true);
	-- 0 and -0 are equal: either may come first
	EXECUTE format('SELECT md5(string_agg(coalesce(v::text, ''-''), '','')) FROM (SELECT %I AS v FROM %I ORDER BY %1$I %3$s) s', col, tab, spec) INTO scanned;
	IF sorted <> scanned AND col NOT IN ('f4', 'f8') THEN RETURN NEXT col || ' ' || spec || ': another order'; END IF;
	EXECUTE format('EXPLAIN (COSTS OFF) SELECT %I FROM %I ORDER BY %1$I %3$s', col, tab, spec) INTO plan;
	IF plan !~ 'Index.* Scan' THEN RETURN NEXT plan; END IF;
	DROP INDEX short;
END $$;
SET min_parallel_table_scan_size = 0;
SELECT count(*) AS indexes FROM pg_attribute WHERE attrelid = 'few'::regclass AND attnum > 0;
SELECT w FROM pg_attribute, unnest(ARRAY['', 'DESC', 'NULLS FIRST', 'DESC NULLS LAST']) s, unnest(ARRAY[0, 2]) n, wrong('few', attname, s, n) w
WHERE attrelid = 'few'::regclass AND attnum > 0;

-- runs: 1 MB of entries at a time, of which four are merged; a process alone writes entries twice therefore
CREATE TABLE many (a int, b int8, u int8) USING lsm;
INSERT INTO many SELECT CASE WHEN i % 1000 > 0 THEN hashint4(i) END, hashint8(i % 10000)::int8 * 1000003, i FROM generate_series(1, 270000) i;
SET maintenance_work_mem = '1MB';
SELECT w FROM (VALUES ('a', 'DESC', 0), ('a', 'NULLS FIRST', 2), ('b', 'DESC', 2)) AS v (c, s, n), wrong('many', c, s, n) w;

SET max_parallel_maintenance_workers = 0;
SELECT pg_stat_force_next_flush();
SELECT pg_stat_get_db_temp_bytes(oid) AS temp_bytes FROM pg_database WHERE datname = current_database() \gset
CREATE INDEX many_u ON many USING lsm_index (u);
SELECT pg_stat_force_next_flush();
SELECT pg_stat_get_db_temp_bytes(oid) - :temp_bytes BETWEEN 1.5 * 270000 * 16 AND 3 * 270000 * 16 AS twice FROM pg_database WHERE datname = current_database();
DROP INDEX many_u;
RESET max_parallel_maintenance_workers;

-- uniqueness is decided where runs meet
CREATE UNIQUE INDEX unique_u ON many USING lsm_index (u);
SELECT * FROM lsm_verify('unique_u');
DROP INDEX unique_u;
INSERT INTO many VALUES (1, 1, 200000);
SET max_parallel_maintenance_workers = 0;
CREATE UNIQUE INDEX unique_u ON many USING lsm_index (u);
SET max_parallel_maintenance_workers = 2;
CREATE UNIQUE INDEX unique_u ON many USING lsm_index (u);
CREATE UNIQUE INDEX unique_u ON many USING lsm_index (u DESC);
DELETE FROM many WHERE a = 1 AND b = 1 AND u = 200000;
CREATE UNIQUE INDEX CONCURRENTLY unique_u ON many USING lsm_index (u);
SELECT * FROM lsm_verify('unique_u');
-- NULLs are distinct, or not
CREATE UNIQUE INDEX unique_a ON few USING lsm_index (o);
DELETE FROM few WHERE ctid <> ALL (SELECT min(ctid) FROM few GROUP BY o) AND o IS NOT NULL;
CREATE UNIQUE INDEX unique_a ON few USING lsm_index (o);
CREATE UNIQUE INDEX unique_b ON few USING lsm_index (o) NULLS NOT DISTINCT;
-- no rows, one row, no other row than NULL
CREATE TABLE none (a int) USING heap;
CREATE INDEX none_1 ON none USING lsm_index (a);
INSERT INTO none VALUES (NULL);
CREATE INDEX none_2 ON none USING lsm_index (a);
CREATE INDEX none_3 ON none USING lsm_index (a DESC);
SELECT i, v.* FROM unnest(ARRAY['none_1', 'none_2', 'none_3']) i, lsm_verify(i::regclass) v;
-- a partial index, and one on an expression
CREATE INDEX many_p ON many USING lsm_index (u) WHERE a IS NULL;
CREATE INDEX many_x ON many USING lsm_index ((u % 1000));
SELECT i, v.* FROM unnest(ARRAY['many_p', 'many_x']) i, lsm_verify(i::regclass) v;
SET enable_seqscan = off;
SELECT count(*) FROM many WHERE a IS NULL AND u > 200000;
SELECT count(*) FROM many WHERE u % 1000 = 7;
DROP SCHEMA build_short CASCADE;
