-- EXPLAIN (ANALYZE) of PostgreSQL 18 counts for each node of the plan; before, there are no such lines
CREATE TABLE en_a (id int PRIMARY KEY, v int) USING lsm;
CREATE TABLE en_b (id int PRIMARY KEY, a int) USING lsm;
INSERT INTO en_a SELECT g * 2, g FROM generate_series(1, 1000) g;
INSERT INTO en_b SELECT g, g FROM generate_series(1, 1000) g;
CREATE INDEX en_b_a ON en_b USING lsm (a);
SELECT lsm_flush('en_a'), lsm_flush('en_b');
VACUUM ANALYZE en_a;
VACUUM ANALYZE en_b;
CREATE FUNCTION en_explain(query text, options text DEFAULT '') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off' || options || ') ' || query
	LOOP
		-- what the nodes have, and the statement's total
		CONTINUE WHEN options = '' AND line ~ 'Index Searches|Heap Fetches|Heap Blocks|Memory|Disabled|Buckets|Cache|Hits';
		RETURN NEXT regexp_replace(regexp_replace(line, '\(actual .*\)', ''), ' (blocks read|memtable hits|negatives|false positives)=\d+', '', 'g');
	END LOOP;
END $$;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_seqscan = off;
SET enable_memoize = off;
SET max_parallel_workers_per_gather = 0;
-- each side of a join by itself
SELECT en_explain('SELECT * FROM en_b JOIN en_a ON en_a.id = en_b.a WHERE en_b.a BETWEEN 1 AND 40');
-- a bitmap's scan with the node that asks for it
SET enable_indexscan = off;
SELECT en_explain('SELECT * FROM en_b WHERE a = ANY (ARRAY[3, 5, 2000])');
RESET enable_indexscan;
-- subplans, and what a statement changes
SELECT en_explain('SELECT id, (SELECT v FROM en_a WHERE en_a.id = en_b.id) FROM en_b WHERE id <= 3');
SELECT en_explain('UPDATE en_b SET a = -a WHERE id = 7');
SELECT en_explain('INSERT INTO en_a VALUES (4, 4), (6, 6) ON CONFLICT (id) DO NOTHING');
-- functions count for the node that calls them
CREATE FUNCTION en_f(int) RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN (SELECT v FROM en_a WHERE id = $1); END $$;
SELECT en_explain('SELECT en_f(g) FROM generate_series(1, 3) g');
-- an error inside, caught and not
CREATE FUNCTION en_g(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM v / 0 FROM en_a WHERE id = $1; RETURN 1;
EXCEPTION WHEN division_by_zero THEN RETURN 0; END $$;
SELECT en_explain('SELECT en_g(id) FROM en_b WHERE id = 4');
SELECT en_explain('SELECT v / (v - 3) FROM en_a WHERE id BETWEEN 2 AND 10');
SELECT en_explain('SELECT * FROM en_b WHERE id = 5');
-- other formats
SELECT string_agg(line, E'\n') ~ '"LSM": \{' FROM en_explain('SELECT * FROM en_b WHERE id = 5', ', FORMAT json') line;
SELECT en_explain('SELECT count(*) FROM generate_series(1, 3)');
-- an error that a function has caught, amid statements of its own that are counted, too (auto_explain): what the nodes have is
-- the total
CREATE FUNCTION en_sums(query text, OUT of_nodes numeric, OUT total numeric) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off, FORMAT json) ' || query INTO plan;
	total := plan #>> '{0,LSM,Lookups}';
	SELECT sum(m[1]::numeric) - total INTO of_nodes FROM regexp_matches(plan::text, '"Lookups": (\d+)', 'g') m;
END $$;
LOAD 'auto_explain';
SET auto_explain.log_min_duration = 0;
SET auto_explain.log_analyze = on;
SET auto_explain.log_nested_statements = on;
SET auto_explain.log_level = debug5;
SELECT CASE WHEN current_setting('server_version_num')::int >= 180000 THEN total ELSE 0 END - of_nodes AS difference, total > 100 AS counted
FROM en_sums('SELECT * FROM en_b LEFT JOIN en_a ON en_a.id = en_b.a WHERE en_b.a BETWEEN 1 AND 200 AND en_g(coalesce(en_a.id, 4)) = 1');
RESET auto_explain.log_min_duration;
DROP TABLE en_a, en_b;
DROP FUNCTION en_explain, en_sums, en_f, en_g;
