-- The planner treats lsm_index as it treats btree
SET lsm.constraint_index = lsm;
SET enable_bitmapscan = off;
CREATE TABLE p (id int PRIMARY KEY, grp int, flag bool, name text COLLATE "C", v text) USING lsm;
CREATE TABLE q (id int, p_id int, v text) USING lsm;
CREATE INDEX p_grp ON p USING lsm (grp);
CREATE INDEX p_flag ON p USING lsm (flag) WHERE id % 100 = 0;
CREATE INDEX p_name ON p USING lsm (name);
CREATE INDEX p_pattern ON p USING lsm (v text_pattern_ops);
CREATE INDEX q_p_id ON q USING lsm (p_id);
INSERT INTO p SELECT i, i % 1000, i % 500 = 0, 'name' || lpad(i::text, 5, '0'), 'v' || lpad(i::text, 5, '0') FROM generate_series(1, 10000) i;
INSERT INTO q SELECT i, i, 'q' || i FROM generate_series(1, 10000) i;
SELECT lsm_flush('p'), lsm_flush('p_pkey');
VACUUM ANALYZE p, q;

-- uniqueness proves that the join changes nothing
EXPLAIN (COSTS OFF) SELECT q.id FROM q LEFT JOIN p ON p.id = q.p_id;
-- point, range, order, ends
EXPLAIN (COSTS OFF) SELECT v FROM p WHERE id = 42;
EXPLAIN (COSTS OFF) SELECT v FROM p WHERE id BETWEEN 42 AND 50;
EXPLAIN (COSTS OFF) SELECT v FROM p WHERE grp = 42;
EXPLAIN (COSTS OFF) SELECT v FROM p ORDER BY id LIMIT 10;
EXPLAIN (COSTS OFF) SELECT v FROM p ORDER BY id DESC LIMIT 10;
EXPLAIN (COSTS OFF) SELECT min(id), max(id) FROM p;
-- most rows: not by an index
EXPLAIN (COSTS OFF) SELECT v FROM p WHERE id > 10;

-- quals made from others: booleans, patterns
EXPLAIN (COSTS OFF) SELECT id FROM p WHERE flag AND id % 100 = 0;
SELECT id FROM p WHERE flag AND id % 100 = 0 ORDER BY id LIMIT 3;
SELECT count(*) FROM p WHERE NOT flag AND id % 100 = 0;
EXPLAIN (COSTS OFF) SELECT id FROM p WHERE name LIKE 'name0123%';
SELECT id FROM p WHERE name LIKE 'name0123%' ORDER BY id;
EXPLAIN (COSTS OFF) SELECT id FROM p WHERE v LIKE 'v0004%';
SELECT id FROM p WHERE v LIKE 'v0004%' ORDER BY id;
EXPLAIN (COSTS OFF) SELECT id FROM p WHERE v ~ '^v00123$';
SELECT id FROM p WHERE v ~ '^v00123$';

-- merge join without a sort
SET enable_hashjoin = off;
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM p JOIN q ON p.id = q.p_id;
SELECT count(*), sum(p.id) FROM p JOIN q ON p.id = q.p_id;
RESET enable_hashjoin;
RESET enable_nestloop;

-- an operator that only btree's family has is no scan key of ours
CREATE FUNCTION int4_text_eq(int, text) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN $1::text = $2; END';
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = text, FUNCTION = int4_text_eq);
ALTER OPERATOR FAMILY integer_ops USING btree ADD OPERATOR 3 === (int, text);
EXPLAIN (COSTS OFF) SELECT grp FROM p WHERE id === '42';
SELECT grp FROM p WHERE id === '42';
EXPLAIN (COSTS OFF) SELECT grp FROM p WHERE id = 42;
ALTER OPERATOR FAMILY integer_ops USING btree DROP OPERATOR 3 (int, text);
DROP OPERATOR === (int, text);
DROP FUNCTION int4_text_eq;
EXPLAIN (COSTS OFF) SELECT q.id FROM q LEFT JOIN p ON p.id = q.p_id;

-- parallel scan, with rows in files and in memory
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
INSERT INTO q SELECT i, i, 'q' || i FROM generate_series(10001, 12000) i;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM q WHERE v <> '';
SELECT count(*), sum(id) FROM q WHERE v <> '';
DROP TABLE p, q;

-- a small table in memory costs what it does as heap
SET max_parallel_workers_per_gather = 0;
CREATE TABLE p (id int PRIMARY KEY) USING lsm;
CREATE TABLE q (id int PRIMARY KEY) USING lsm;
INSERT INTO p VALUES (1), (2), (3);
INSERT INTO q VALUES (1), (2), (3);
ANALYZE p, q;
EXPLAIN SELECT * FROM p;
EXPLAIN (COSTS OFF) SELECT * FROM p JOIN q USING (id);
DROP TABLE p, q;

-- A compressed table is read in the way that heap's is: rows are not cheaper for being small on disk.
-- plan_kinds: the nodes that decide, without names; as in a queue, LIMIT rows are locked, then joined with the table
CREATE FUNCTION plan_kinds(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := concat_ws(' ', plan, (regexp_match(line, '((Seq|Index|Bitmap Heap|Bitmap Index) Scan|Nested Loop|(Hash|Merge) (Semi |Anti )?Join)'))[1]);
	END LOOP;
	RETURN btrim(plan);
END $$;
CREATE FUNCTION queue(am text, name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %s (id bigint PRIMARY KEY, state text COLLATE "C" NOT NULL, attempt smallint NOT NULL, queue text COLLATE "C" NOT NULL,
		priority smallint NOT NULL, scheduled_at timestamptz NOT NULL, args jsonb NOT NULL, errors jsonb[], finalized_at timestamptz) USING %s', name, am);
	EXECUTE format($q$INSERT INTO %s SELECT i, CASE WHEN i %% 10 = 0 THEN 'completed' ELSE 'available' END, 0, 'default', 1 + i %% 4,
		'2026-01-01'::timestamptz + (hashint4(i) %% 1000) * interval '1 s',
		jsonb_build_object('customer_id', i, 'text', 'sort these strings, please: ' || repeat('strings ', 8)) FROM generate_series(1, 30000) i$q$, name);
	EXECUTE format('CREATE INDEX %s_fetch ON %1$s (state, queue, priority, scheduled_at, id)', name);
	EXECUTE format('CREATE INDEX %s_scheduled ON %1$s (scheduled_at)', name);
END $$;
SELECT queue('heap', 'jobs_h'), queue('lsm', 'jobs_l');
SELECT lsm_flush('jobs_l');
VACUUM ANALYZE jobs_h, jobs_l;
-- lsm has no visibility map
SET enable_indexonlyscan = off;
SELECT sum(bytes) < pg_relation_size('jobs_h') / 3 AS compressed FROM lsm_levels('jobs_l');
-- the whole table costs about as much
DO $$
DECLARE
	h text;
	l text;
	ratio float;
BEGIN
	EXECUTE 'EXPLAIN SELECT * FROM jobs_h' INTO h;
	EXECUTE 'EXPLAIN SELECT * FROM jobs_l' INTO l;
	ratio := (regexp_match(l, '\.\.([0-9.]+)'))[1]::float / (regexp_match(h, '\.\.([0-9.]+)'))[1]::float;
	RAISE NOTICE 'scan of all: %', CASE WHEN ratio BETWEEN 0.7 AND 1.2 THEN 'as heap' ELSE ratio || ' of heap' END;
END $$;
SELECT n, plan_kinds(replace(q, '@', 'jobs_l')) AS lsm, plan_kinds(replace(q, '@', 'jobs_l')) = plan_kinds(replace(q, '@', 'jobs_h')) AS as_heap
FROM (SELECT n, format($$WITH locked AS (SELECT * FROM @ WHERE state = 'available' AND queue = 'default' AND scheduled_at <= now()
	ORDER BY priority, scheduled_at, id LIMIT %s FOR UPDATE SKIP LOCKED)
	UPDATE @ SET state = 'running', attempt = @.attempt + 1 FROM locked WHERE @.id = locked.id RETURNING @.*$$, n) AS q
	FROM unnest(ARRAY[1, 10, 100, 200, 300, 10000]) n) f;
-- other queries
SELECT query, plan_kinds(replace(query, '@', 'jobs_l')) AS lsm, plan_kinds(replace(query, '@', 'jobs_h')) AS heap
FROM unnest(ARRAY['SELECT * FROM @ WHERE id = 42', 'SELECT * FROM @ WHERE id BETWEEN 42 AND 100', 'SELECT * FROM @ WHERE id < 15000',
	'SELECT count(args) FROM @ WHERE id < 29000', 'SELECT * FROM @ WHERE attempt = 1', 'SELECT * FROM @ ORDER BY id LIMIT 10',
	$$SELECT * FROM @ WHERE scheduled_at BETWEEN '2026-01-01' AND '2026-01-01 00:00:01'$$,
	$$SELECT * FROM @ WHERE scheduled_at BETWEEN '2026-01-01' AND '2026-01-01 00:01:40'$$,
	'SELECT * FROM @ a JOIN @ b ON a.id = b.attempt', 'SELECT * FROM @ a JOIN @ b USING (id)',
	'SELECT * FROM generate_series(1, 100) g JOIN @ ON id = g', 'SELECT * FROM @ WHERE id IN (SELECT id FROM @ WHERE attempt = 9)',
	'SELECT * FROM @ a WHERE NOT EXISTS (SELECT FROM @ b WHERE b.id = a.id + 1)']) query
WHERE plan_kinds(replace(query, '@', 'jobs_l')) <> plan_kinds(replace(query, '@', 'jobs_h'));
-- never analyzed: as far as types tell
CREATE TABLE jobs_n (LIKE jobs_l INCLUDING ALL) USING lsm;
INSERT INTO jobs_n SELECT * FROM jobs_l;
SELECT lsm_flush('jobs_n');
SELECT plan_kinds('SELECT * FROM generate_series(1, 100) g JOIN jobs_n ON id = g');
-- sizes that are on record, and samples, stay those of row identifiers
SELECT relpages = ceil(reltuples / 291) AS relpages, reltuples FROM pg_class WHERE relname = 'jobs_l';
ANALYZE jobs_l;
SELECT relpages = ceil(reltuples / 291) AS relpages, reltuples FROM pg_class WHERE relname = 'jobs_l';
RESET enable_indexonlyscan;
DROP TABLE jobs_h, jobs_l, jobs_n;
DROP FUNCTION queue, plan_kinds;

-- a table in which rows come and go is read by index, also by plans that were made before
RESET enable_bitmapscan;
CREATE TABLE hot (id int PRIMARY KEY, v int) USING lsm;
CREATE INDEX hot_moves ON hot (v) WHERE v < 0;
INSERT INTO hot SELECT i, 0 FROM generate_series(1, 5) i;
VACUUM ANALYZE hot;
PREPARE hot_row(int) AS SELECT v FROM hot WHERE id = $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE hot_row(3);
EXPLAIN SELECT * FROM hot;
DO $$
DECLARE
	line text;
BEGIN
	FOR i IN 1..10000 LOOP
		UPDATE hot SET v = v + 1 WHERE id = 3;
		COMMIT;
		IF i % 100 = 0 THEN
			EXECUTE 'EXPLAIN EXECUTE hot_row(3)' INTO line;
			EXIT WHEN line LIKE 'Index Scan%';
		END IF;
	END LOOP;
END $$;
EXPLAIN (COSTS OFF) EXECUTE hot_row(3);
-- as many rows as before
DO $$
DECLARE
	line text;
BEGIN
	EXECUTE 'EXPLAIN SELECT * FROM hot' INTO line;
	RAISE NOTICE '%', (regexp_match(line, 'rows=\d+'))[1];
END $$;
-- also while none of the old versions can be forgotten, and still as few rows
TRUNCATE hot;
INSERT INTO hot SELECT i, 0 FROM generate_series(1, 5) i;
VACUUM ANALYZE hot;
EXPLAIN (COSTS OFF) EXECUTE hot_row(3);
DO $$
DECLARE
	line text;
BEGIN
	FOR i IN 1..2000 LOOP
		UPDATE hot SET v = v + 1 WHERE id = 3;
	END LOOP;
	EXECUTE 'EXPLAIN SELECT * FROM hot' INTO line;
	RAISE NOTICE '%', (regexp_match(line, 'rows=\d+'))[1];
END $$;
EXPLAIN (COSTS OFF) EXECUTE hot_row(3);
-- updates that stay in their row let nothing come or go
DROP INDEX hot_moves;
TRUNCATE hot;
INSERT INTO hot SELECT i, 0 FROM generate_series(1, 5) i;
VACUUM ANALYZE hot;
DO $$
BEGIN
	FOR i IN 1..10000 LOOP
		UPDATE hot SET v = v + 1 WHERE id = 3;
		COMMIT;
	END LOOP;
END $$;
EXPLAIN (COSTS OFF) EXECUTE hot_row(3);
SELECT lsm_flush('hot'), lsm_flush('hot_pkey');
EXPLAIN (COSTS OFF) EXECUTE hot_row(3);
EXPLAIN SELECT * FROM hot;
RESET plan_cache_mode;
DROP TABLE hot;
-- where a column ends by now is looked up in the index: beyond the histogram there is more than one row
CREATE TABLE ends (id bigint, t text COLLATE "C") USING lsm;
INSERT INTO ends SELECT i, 'k' || i FROM generate_series(100001, 110000) i;
ANALYZE ends;
INSERT INTO ends SELECT i, 'k' || i FROM generate_series(110001, 120000) i;
CREATE FUNCTION estimated_rows(query text) RETURNS float LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN (plan -> 0 -> 'Plan' ->> 'Plan Rows')::float;
END $$;
SELECT estimated_rows('SELECT FROM ends WHERE id > 115000') < 5 AS id, estimated_rows('SELECT FROM ends WHERE t > ''k115000''') < 5 AS t;
CREATE INDEX ends_id ON ends USING lsm (id DESC, t);
CREATE INDEX ends_t ON ends USING lsm (t);
SELECT estimated_rows('SELECT FROM ends WHERE id > 115000') BETWEEN 20 AND 500 AS id, estimated_rows('SELECT FROM ends WHERE t > ''k115000''') BETWEEN 20 AND 500 AS t;
-- nor does that make a plan: not a scan more, no index twice
SELECT count(*) FROM ends WHERE id > 119990;
EXPLAIN (COSTS OFF) SELECT * FROM ends WHERE id > 119990 ORDER BY id;
CLUSTER ends USING ends_id;
SELECT id FROM ends LIMIT 1;
DROP TABLE ends;
-- many dead rows at the end: the planner gives up after a hundred blocks, whoever holds them back
CREATE TABLE ends (id bigint) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO ends SELECT i FROM generate_series(1, 200000) i;
CREATE INDEX ends_id ON ends USING lsm (id);
SELECT lsm_flush('ends');
ANALYZE ends;
DELETE FROM ends WHERE id <= 190000;
SELECT lsm_flush('ends'), lsm_flush('ends_id');
SELECT lookups AS before FROM pg_stat_lsm WHERE relname = 'ends' \gset
SELECT estimated_rows('SELECT FROM ends WHERE id < 10') >= 1;
SELECT lookups - :before < 100 * 291 + 1000 AS few FROM pg_stat_lsm WHERE relname = 'ends';
DROP TABLE ends;
DROP FUNCTION estimated_rows;
