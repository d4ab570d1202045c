-- An index whose first column is an enum is read in the order of labels.
CREATE TYPE eo_state AS ENUM ('new', 'done');
CREATE DOMAIN eo_domain AS eo_state;
CREATE TABLE eo_h (id int PRIMARY KEY, e eo_state, d eo_domain, n int) USING heap;
CREATE TABLE eo_l (id int, e eo_state, d eo_domain, n int) USING lsm;
CREATE INDEX eo_l_e ON eo_l USING lsm (e, n);
CREATE UNIQUE INDEX eo_l_d ON eo_l USING lsm (d DESC NULLS LAST, n DESC);
CREATE INDEX eo_l_n ON eo_l USING lsm (n, e);
SET enable_seqscan = off;
SET enable_sort = off;
SET enable_bitmapscan = off;
SET plan_cache_mode = force_generic_plan;
PREPARE eo_first AS SELECT e::text AS label, n FROM eo_l WHERE e IS NOT NULL ORDER BY e, n LIMIT 5;
PREPARE eo_next (eo_state) AS SELECT e::text AS label, count(*) FROM (SELECT e, n FROM eo_l WHERE e > $1 ORDER BY e, n) s GROUP BY e;
INSERT INTO eo_h SELECT i, (ARRAY['new', 'done', NULL])[1 + i % 3]::eo_state, (ARRAY['new', 'done', NULL])[1 + i % 3]::eo_state, i FROM generate_series(1, 300) i;
INSERT INTO eo_l SELECT * FROM eo_h;
EXECUTE eo_first;
EXECUTE eo_next ('new');
ALTER TYPE eo_state ADD VALUE 'queued' BEFORE 'new';
ALTER TYPE eo_state ADD VALUE 'running' BEFORE 'done';
ALTER TYPE eo_state ADD VALUE 'failed' AFTER 'done';
INSERT INTO eo_h SELECT 300 + i, s::eo_state, s::eo_state, 300 + i FROM generate_series(1, 90) i, LATERAL (SELECT (ARRAY['queued', 'running', 'failed'])[1 + i % 3] AS s) s;
INSERT INTO eo_l SELECT * FROM eo_h WHERE id > 300;
EXECUTE eo_first;
EXECUTE eo_next ('new');
EXECUTE eo_next ('failed');
-- so often before one that all are numbered anew
DO $$ BEGIN FOR i IN 1 .. 60 LOOP EXECUTE format('ALTER TYPE eo_state ADD VALUE %L BEFORE %L', 'r' || i, CASE i WHEN 1 THEN 'running' ELSE 'r' || i - 1 END); END LOOP; END $$;
SELECT count(*) FROM pg_enum WHERE enumtypid = 'eo_state'::regtype AND enumsortorder = floor(enumsortorder) AND enumsortorder > 40;
INSERT INTO eo_h SELECT 400 + i, ('r' || i)::eo_state, ('r' || i)::eo_state, i FROM generate_series(1, 60) i;
INSERT INTO eo_l SELECT * FROM eo_h WHERE id > 400;
EXECUTE eo_first;
EXECUTE eo_next ('r3');
EXPLAIN (COSTS OFF) SELECT e, n FROM eo_l ORDER BY e, n;
EXPLAIN (COSTS OFF) SELECT d, n FROM eo_l ORDER BY d DESC NULLS LAST, n DESC;
EXPLAIN (COSTS OFF) SELECT e FROM eo_l WHERE e >= 'r2' AND e < 'failed' ORDER BY e;
EXPLAIN (COSTS OFF) SELECT min(e), max(e) FROM eo_l;
CREATE FUNCTION eo_compare(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	on_heap text[];
	on_lsm text[];
BEGIN
	EXECUTE 'SELECT array_agg(q::text) FROM (' || replace(query, '@', 'eo_l') || ') q' INTO on_lsm;
	SET LOCAL enable_sort = on;
	EXECUTE 'SELECT array_agg(q::text) FROM (' || replace(query, '@', 'eo_h') || ') q' INTO on_heap;
	RETURN CASE WHEN on_heap IS DISTINCT FROM on_lsm THEN 'not as on heap' ELSE coalesce(cardinality(on_lsm), 0)::text END;
END $$;
SELECT q, eo_compare(q) FROM unnest(ARRAY['SELECT e, n FROM @ ORDER BY e, n', 'SELECT e, n FROM @ ORDER BY e DESC, n DESC', 'SELECT d, n FROM @ ORDER BY d DESC NULLS LAST, n DESC',
	'SELECT d, n FROM @ ORDER BY d NULLS FIRST, n', 'SELECT e FROM @ WHERE e > ''r2'' ORDER BY e', 'SELECT e FROM @ WHERE e <= ''r2'' AND e <> ''new'' ORDER BY e DESC',
	'SELECT e, n FROM @ WHERE e = ANY (''{failed,r5,queued,done,r60}'') ORDER BY e, n', 'SELECT e, n FROM @ WHERE e = ANY (''{failed,r5,r7,r9,r1,r2,r3,r4,r8,r10,r11,queued,done,r60}'') AND n = 5',
	'SELECT e, n FROM @ WHERE e = ANY (''{failed,r5,queued}'') AND e < ''failed'' ORDER BY e, n', 'SELECT e, n FROM @ WHERE e IS NULL ORDER BY e, n', 'SELECT d, n FROM @ WHERE n = 33 ORDER BY d',
	'SELECT min(e), max(e), min(d::eo_state), max(d::eo_state) FROM @', 'SELECT count(*) FROM @ WHERE e >= ''queued''', 'SELECT a.e, count(*) FROM @ a JOIN @ b USING (e) GROUP BY a.e ORDER BY a.e',
	'SELECT e FROM @ WHERE e < ANY (''{r2,queued,NULL}'') ORDER BY e', 'SELECT e FROM @ WHERE e >= ANY (''{r2,failed,r9}'') ORDER BY e DESC', 'SELECT d FROM @ WHERE d::eo_state <= ANY (''{r2,failed}'') AND d::eo_state > ANY (''{r1,done}'') ORDER BY d DESC NULLS LAST',
	'SELECT e FROM @ WHERE e > ''failed''', 'SELECT DISTINCT e FROM @ ORDER BY e', 'SELECT n, e FROM @ WHERE n < 20 ORDER BY n, e']) q;
-- forward and back
BEGIN;
DECLARE eo_cursor SCROLL CURSOR FOR SELECT e::text AS label, n FROM eo_l WHERE n IN (1, 2, 3) ORDER BY e, n;
FETCH 4 FROM eo_cursor;
FETCH BACKWARD 2 FROM eo_cursor;
FETCH LAST FROM eo_cursor;
FETCH BACKWARD 2 FROM eo_cursor;
ROLLBACK;
SELECT count(*) FROM lsm_verify('eo_l');
DEALLOCATE eo_first;
DEALLOCATE eo_next;
RESET plan_cache_mode;
RESET enable_sort;
DROP TABLE eo_h, eo_l;
DROP FUNCTION eo_compare;
DROP DOMAIN eo_domain;
DROP TYPE eo_state;
-- a large group of labels, of which few or none match: each entry is looked at once, or passed over
DO $$ BEGIN EXECUTE 'CREATE TYPE eo_many AS ENUM (' || (SELECT string_agg(quote_literal('l' || 59 - i), ', ') FROM generate_series(0, 59) i) || ')'; END $$;
CREATE TABLE eo_large (k int, e eo_many, n int) USING lsm;
CREATE INDEX eo_large_i ON eo_large USING lsm (k, e, n);
INSERT INTO eo_large SELECT i % 2, ('l' || i % 60)::eo_many, CASE WHEN i % 60 < 30 THEN i ELSE -i END FROM generate_series(1, 60000) i;
SELECT lsm_compact('eo_large_i');
VACUUM ANALYZE eo_large;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET max_parallel_workers_per_gather = 0;
CREATE FUNCTION eo_blocks(condition text, options text) RETURNS TABLE (n bigint, first text, blocks text) LANGUAGE plpgsql AS $$
DECLARE
	query text := 'SELECT e, n FROM eo_large WHERE k = 0 AND ' || condition || ' ORDER BY k, e ' || options || ', n ' || options;
	line text;
	read int;
BEGIN
	EXECUTE 'SELECT count(*), (array_agg(e::text || n))[1] FROM (' || query || ' OFFSET 0) q' INTO n, first;
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		read := coalesce(substring(line FROM 'blocks read=(\d+)')::int, read);
	END LOOP;
	blocks := CASE WHEN read < 1000 THEN 'few' ELSE read::text END;
	RETURN NEXT;
END $$;
SELECT c, o, b.* FROM unnest(ARRAY['e >= ''l2''', 'e < ''l57''', 'e > ''l0''', 'e < ''l30''', 'n > 0', 'n < 0 AND e > ''l32''', 'n > 59900', 'e <> ''l7''']) c,
	unnest(ARRAY['ASC', 'DESC']) o, LATERAL eo_blocks(c, o) b;
DROP FUNCTION eo_blocks;
DROP TABLE eo_large;
DROP TYPE eo_many;
RESET enable_bitmapscan;
RESET enable_sort;
RESET max_parallel_workers_per_gather;
