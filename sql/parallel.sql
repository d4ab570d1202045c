-- Several processes: index scans, bitmap scans and sequential scans of lsm tables, builds of lsm indexes; as on heap and btree.

CREATE FUNCTION in_worker() RETURNS bool LANGUAGE sql STABLE PARALLEL SAFE AS
	$$SELECT pg_backend_pid()::text <> current_setting('par.leader')$$;
SELECT set_config('par.leader', pg_backend_pid()::text, false) IS NOT NULL AS set;

-- ======== builds ========

CREATE TYPE mood AS ENUM ('c', 'a', 'e');
ALTER TYPE mood ADD VALUE 'b' BEFORE 'c';
ALTER TYPE mood ADD VALUE 'd' BEFORE 'e';
CREATE TABLE l (id int, r int, v text, e mood, g int, pad text) USING lsm WITH (parallel_workers = 2);
INSERT INTO l SELECT i, hashint4(i) & 16383, md5(i::text), ('{a,b,c,d,e}'::mood[])[1 + i % 5],
	CASE WHEN i % 5 = 0 THEN NULL ELSE i % 20 END FROM generate_series(1, 20000) i;
SELECT lsm_flush('l');
INSERT INTO l SELECT i, hashint4(i) & 16383, md5(i::text), ('{a,b,c,d,e}'::mood[])[1 + i % 5],
	CASE WHEN i % 5 = 0 THEN NULL ELSE i % 20 END FROM generate_series(20001, 30000) i;
DELETE FROM l WHERE id % 11 = 3;
UPDATE l SET g = g + 1 WHERE id % 7 = 2;
CREATE TABLE h (LIKE l) USING heap WITH (parallel_workers = 2);
INSERT INTO h SELECT * FROM l;

SET min_parallel_table_scan_size = 0;
SET maintenance_work_mem = '128MB';
CREATE INDEX l_r ON l USING lsm (r, id);
CREATE INDEX l_v ON l USING lsm (v DESC);
CREATE INDEX l_e ON l USING lsm (e, r);
CREATE INDEX l_g ON l USING lsm (g, e, r) INCLUDE (id);
CREATE INDEX h_r ON h (r, id);
CREATE INDEX h_v ON h (v DESC);
CREATE INDEX h_e ON h (e, r);
CREATE INDEX h_g ON h (g, e, r) INCLUDE (id);
CREATE INDEX h_lsm ON h USING lsm (r, v);
SELECT * FROM lsm_verify('l');
SELECT * FROM lsm_verify('h_lsm');

-- workers take part: the leader waits for them
CREATE FUNCTION fails_in_worker(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	IF public.in_worker() THEN RAISE EXCEPTION 'this is a worker'; END IF;
	PERFORM pg_sleep(0.002);
	RETURN $1;
END $$;
\set VERBOSITY terse
\set SHOW_CONTEXT never
CREATE INDEX l_fails ON l USING lsm (fails_in_worker(id));
CREATE INDEX h_fails ON h USING lsm (fails_in_worker(id));
CREATE INDEX CONCURRENTLY l_fails ON l USING lsm (fails_in_worker(id));
DROP INDEX l_fails;
\set VERBOSITY default
\set SHOW_CONTEXT errors

-- and do not, where they must not
CREATE TABLE few (id int) USING lsm WITH (parallel_workers = 2);
INSERT INTO few SELECT generate_series(1, 100);
CREATE FUNCTION unsafe(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE AS
	'BEGIN IF public.in_worker() THEN RAISE EXCEPTION ''this is a worker''; END IF; RETURN $1; END';
CREATE INDEX few_unsafe ON few USING lsm (unsafe(id));
CREATE INDEX few_partly ON few USING lsm (id) WHERE unsafe(id) > 10;
CREATE TEMP TABLE mine (id int) USING lsm WITH (parallel_workers = 2);
INSERT INTO mine SELECT generate_series(1, 100);
CREATE INDEX mine_id ON mine USING lsm (fails_in_worker(id));
SET max_parallel_maintenance_workers = 0;
CREATE INDEX few_alone ON few USING lsm (fails_in_worker(id));
RESET max_parallel_maintenance_workers;
SET max_parallel_workers = 0;	-- none can be launched
CREATE INDEX few_alone_2 ON few USING lsm (fails_in_worker(id));
RESET max_parallel_workers;
SET max_parallel_maintenance_workers = 0;
SELECT * FROM lsm_verify('few');
RESET max_parallel_maintenance_workers;
DROP INDEX few_alone, few_alone_2;
SELECT * FROM lsm_verify('few');
SELECT * FROM lsm_verify('mine');

-- unique keys: of live rows, once; NULLs; rows that are dead but still visible to some
CREATE UNIQUE INDEX l_unique ON l USING lsm (r);
CREATE UNIQUE INDEX l_unique ON l USING lsm (r) WHERE r = 6;
CREATE UNIQUE INDEX l_unique ON l USING lsm (id);
INSERT INTO l (id) VALUES (1);
BEGIN;
DELETE FROM l WHERE id % 2 = 0;
INSERT INTO l (id) SELECT i FROM generate_series(2, 30000, 2) i;
CREATE UNIQUE INDEX l_again ON l USING lsm (id);
INSERT INTO l (id) VALUES (20);
ROLLBACK;

-- old versions of a heap's rows that no entry leads to: old snapshots must not use the index
CREATE TABLE hot (id int, n int) USING heap WITH (parallel_workers = 2, fillfactor = 50);
INSERT INTO hot SELECT i, i FROM generate_series(1, 2000) i;
BEGIN;
UPDATE hot SET n = n + 1;
CREATE INDEX hot_lsm ON hot USING lsm (n);
CREATE INDEX hot_btree ON hot (n);
SELECT indexrelid::regclass, indcheckxmin FROM pg_index WHERE indrelid = 'hot'::regclass ORDER BY 1;
ROLLBACK;
DROP TABLE hot;

-- again, and again
REINDEX INDEX l_r;
REINDEX TABLE CONCURRENTLY l;
CREATE INDEX CONCURRENTLY l_concurrently ON l USING lsm (id) INCLUDE (v);
CLUSTER l USING l_unique;
VACUUM FULL h;
SELECT * FROM lsm_verify('l');
SELECT * FROM lsm_verify('h_lsm');
DROP INDEX l_concurrently, l_unique;
BEGIN;
TRUNCATE few;
INSERT INTO few VALUES (1);
TRUNCATE few;
COMMIT;
SELECT * FROM lsm_verify('few');

-- ======== scans ========

VACUUM ANALYZE l, h;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_index_scan_size = 0;
SET cpu_operator_cost = 0;
SET cpu_tuple_cost = 1;
SET max_parallel_workers_per_gather = 2;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET enable_incremental_sort = off;

EXPLAIN (COSTS OFF) SELECT r, id FROM l WHERE r > 100 ORDER BY r, id;
EXPLAIN (COSTS OFF) SELECT g, e, r, pad FROM l WHERE g > 4 ORDER BY g DESC, e DESC, r DESC;
EXPLAIN (COSTS OFF) SELECT count(*) FROM l WHERE e IN ('d', 'b');

-- the same rows in the same order as on heap and btree, by a parallel scan
CREATE FUNCTION differs(q text, node text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text := '';
	on_heap text;
	on_lsm text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(q, '@', 'l') LOOP
		plan := plan || line || E'\n';
	END LOOP;
	IF plan !~ node THEN RETURN q || E': its plan is\n' || plan; END IF;
	EXECUTE 'SELECT count(*) || md5(array_agg(rows::text)::text) FROM (' || replace(q, '@', 'h') || ') rows' INTO on_heap;
	EXECUTE 'SELECT count(*) || md5(array_agg(rows::text)::text) FROM (' || replace(q, '@', 'l') || ') rows' INTO on_lsm;
	IF on_heap IS DISTINCT FROM on_lsm THEN RETURN q || ': ' || on_heap || ' on heap, ' || on_lsm || ' on lsm'; END IF;
	RETURN NULL;
END $$;
CREATE TABLE queries (query text);
INSERT INTO queries VALUES
	('SELECT r, id FROM @ ORDER BY r, id'),
	('SELECT r, id, pad FROM @ ORDER BY r DESC, id DESC'),
	('SELECT r, id, v FROM @ WHERE r > 5000 AND r <= 16000 ORDER BY r, id'),
	('SELECT r, id, v FROM @ WHERE r >= 5000 AND r < 16000 ORDER BY r DESC, id DESC'),
	('SELECT r, id, v FROM @ WHERE r > 5000 AND r < 5010 ORDER BY r, id'),
	('SELECT r, id, v FROM @ WHERE r > 5000 AND r < 4000 ORDER BY r, id'),
	('SELECT r, id, v FROM @ WHERE r IN (1, 5, 77, 1000, 3, 5000) ORDER BY r, id'),
	('SELECT r, id, v FROM @ WHERE r = ANY (ARRAY(SELECT generate_series(1, 16000, 7))) ORDER BY r, id'),
	('SELECT r, id, v FROM @ WHERE r = ANY (ARRAY(SELECT generate_series(1, 16000, 7))) ORDER BY r DESC, id DESC'),
	('SELECT r, id FROM @ WHERE r IN (1, 5, 77, 1000, 3, 5000) AND id > 1000 ORDER BY r, id'),
	('SELECT r, id FROM @ WHERE r = ANY (ARRAY(SELECT generate_series(1, 3000))) AND id = ANY (ARRAY(SELECT generate_series(1, 20000, 3))) ORDER BY r, id'),
	('SELECT v FROM @ ORDER BY v'),
	('SELECT v, pad FROM @ ORDER BY v DESC'),
	('SELECT v FROM @ WHERE v LIKE ''a%'' AND v > ''a4'' ORDER BY v DESC'),
	('SELECT e, r FROM @ ORDER BY e, r'),
	('SELECT e, r, pad FROM @ ORDER BY e DESC, r DESC'),
	('SELECT e, r FROM @ WHERE e > ''b'' ORDER BY e, r'),
	('SELECT e, r FROM @ WHERE e IN (''b'', ''e'', ''d'') ORDER BY e DESC, r DESC'),
	('SELECT g, e, r FROM @ ORDER BY g, e, r'),
	('SELECT g, e, r FROM @ ORDER BY g DESC, e DESC, r DESC'),
	('SELECT g, e, r FROM @ WHERE g IS NULL ORDER BY g, e, r'),
	('SELECT g, e, r FROM @ WHERE g = 3 ORDER BY g, e, r'),
	('SELECT g, e, r FROM @ WHERE g = 3 AND e > ''c'' ORDER BY g, e, r'),
	('SELECT g, e, r FROM @ WHERE g IN (4, 3, 9) ORDER BY g DESC, e DESC, r DESC'),
	('SELECT g, e, r FROM @ WHERE g IS NOT NULL AND r < 1000 ORDER BY g, e, r'),
	('SELECT g, e, r FROM @ WHERE g > 3 ORDER BY g, e, r LIMIT 100'),
	('SELECT count(*), sum(id), min(v) FROM @ WHERE r BETWEEN 100 AND 16000');
SELECT d FROM queries, differs(query, 'Parallel Index') d WHERE d <> '';
SET parallel_leader_participation = off;
SELECT d FROM queries, differs(query, 'Parallel Index') d WHERE d <> '';
SET max_parallel_workers = 0;
RESET parallel_leader_participation;
SELECT d FROM queries, differs(query, 'Parallel Index') d WHERE d <> '';
RESET max_parallel_workers;

-- every process has a part
CREATE FUNCTION slowly(int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS
	'BEGIN PERFORM pg_sleep(0.001); RETURN pg_backend_pid(); END';
SELECT count(*) > 1 AS several FROM (SELECT slowly(id) AS pid FROM l WHERE r < 4000 GROUP BY 1) s;

SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(b.id) FROM l a JOIN l b ON b.r = a.id WHERE a.r < 2000;
SELECT differs('SELECT count(*), sum(b.id) FROM @ a JOIN @ b ON b.r = a.id WHERE a.r < 2000', 'Parallel Index');
-- scanned again for each row
EXPLAIN (COSTS OFF) SELECT count(*), sum(id * x) FROM generate_series(1, 3) x, (SELECT r, id FROM l WHERE r < 3000 OFFSET 0) s WHERE id % 4 <> x;
SELECT differs('SELECT count(*), sum(id * x) FROM generate_series(1, 3) x, (SELECT r, id FROM @ WHERE r < 3000 OFFSET 0) s WHERE id % 4 <> x', 'Parallel Index');
SELECT differs('SELECT count(*), sum(id * x) FROM generate_series(1, 3) x, (SELECT e, id FROM @ WHERE e >= ''d'' AND r < 3000 OFFSET 0) s WHERE id % 4 <> x', 'Parallel Index');
SET enable_nestloop = off;
SET enable_mergejoin = on;
EXPLAIN (COSTS OFF) SELECT count(*), sum(b.id) FROM l a JOIN l b ON b.r = a.r WHERE a.r < 9000;
SELECT differs('SELECT count(*), sum(b.id) FROM @ a JOIN @ b ON b.r = a.r WHERE a.r < 9000', 'Parallel Index');
RESET enable_nestloop;
RESET enable_hashjoin;
RESET enable_material;

-- errors end the statement, and nothing else
\set SHOW_CONTEXT never
SELECT sum(1 / (id - 777)) FROM l WHERE r >= 0;
SELECT r, id FROM l WHERE r >= 0 ORDER BY r, id LIMIT 3;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT d FROM queries, differs(query, 'Index') d WHERE query ~ 'r >' AND d <> '';
INSERT INTO l (id) VALUES (0);
SELECT count(*) FROM l WHERE r >= 0 OR r IS NULL;
ROLLBACK;

-- bitmaps, exact and lossy; rows of lsm tables
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_bitmapscan = on;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id), min(v) FROM l WHERE r BETWEEN 100 AND 9000;
SELECT differs('SELECT count(*), sum(id), min(v) FROM @ WHERE r BETWEEN 100 AND 9000', 'Parallel Bitmap Heap Scan');
SELECT differs('SELECT count(*), sum(id), min(v) FROM @ WHERE r < 4000 OR g = 5', 'Parallel Bitmap Heap Scan');
SELECT differs('SELECT count(*), sum(id), min(v) FROM @ WHERE r = ANY (ARRAY(SELECT generate_series(1, 16000, 7))) AND g IS NULL', 'Parallel Bitmap Heap Scan');
SET work_mem = '64kB';
SELECT differs('SELECT count(*), sum(id), min(v) FROM @ WHERE r BETWEEN 100 AND 9000', 'Parallel Bitmap Heap Scan');
SET max_parallel_workers = 0;
SELECT differs('SELECT count(*), sum(id), min(v) FROM @ WHERE r BETWEEN 100 AND 9000', 'Parallel Bitmap Heap Scan');
RESET max_parallel_workers;
RESET work_mem;
SET enable_material = off;
SELECT differs('SELECT count(*), sum(id * x) FROM generate_series(1, 3) x, (SELECT r, id FROM @ WHERE r < 3000 OFFSET 0) s WHERE id % 4 <> x', 'Parallel Bitmap Heap Scan');
SET enable_bitmapscan = off;
SET enable_seqscan = on;
SELECT differs('SELECT count(*), sum(id), min(v) FROM @ WHERE r BETWEEN 100 AND 9000', 'Parallel Seq Scan');

-- ranges of TIDs, which PostgreSQL 19 reads with several processes
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET enable_seqscan = off;
SELECT ctid AS middle FROM l WHERE id = 15000 \gset
SELECT current_setting('server_version_num')::int < 190000 OR EXISTS (SELECT FROM plan_of(format('SELECT count(*) FROM l WHERE ctid < %L', :'middle')) p WHERE p ~ 'Parallel Tid Range Scan') AS parallel;
SELECT (SELECT count(*) FROM l WHERE ctid < :'middle') + (SELECT count(*) FROM l WHERE ctid >= :'middle') - (SELECT count(*) FROM l) AS too_many;
SELECT count(*) - count(DISTINCT id) AS twice, count(*) > 10000 AS many FROM l WHERE ctid >= '(0,100)' AND ctid < :'middle';
SELECT count(*) FROM l WHERE ctid > :'middle' AND ctid < :'middle';

-- as the planner is by itself: small indexes are read by one process
RESET ALL;
EXPLAIN (COSTS OFF) SELECT count(*) FROM l WHERE r BETWEEN 100 AND 120;

DROP TABLE l, h, few, mine, queries;
DROP TYPE mood;
DROP FUNCTION in_worker, fails_in_worker, unsafe, differs, slowly;
