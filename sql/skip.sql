-- Quals behind a gap of leading columns: walks pass over what cannot match; the same rows as without an index.
CREATE TABLE sk (a int, b int, c text COLLATE "C", d int, id int) USING lsm;
INSERT INTO sk SELECT g % 5, CASE WHEN g % 97 = 0 THEN NULL ELSE g / 5 % 3000 END, 'c' || g % 3, g / 100, g FROM generate_series(1, 60000) g;
CREATE INDEX sk_ab ON sk USING lsm (a, b, id);
CREATE INDEX sk_acd ON sk USING lsm (a DESC, c, d DESC, id);
CREATE INDEX sk_db ON sk USING lsm (d, b, id);
VACUUM ANALYZE sk;
CREATE FUNCTION plan_and_blocks(query text, OUT plan text, OUT few bool) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Scan' THEN
			plan := trim(regexp_replace(line, '\(.*', ''));
		ELSIF line ~ 'blocks read=' THEN
			few := substring(line FROM 'blocks read=(\d+)')::int < 100;
		END IF;
	END LOOP;
END $$;
SET max_parallel_workers_per_gather = 0;
-- by the planner's own choice, and not where every row is a group
SELECT (plan_and_blocks('SELECT a, b, id FROM sk WHERE b = 77')).*;
SELECT (plan_and_blocks('SELECT a, b, id FROM sk WHERE b BETWEEN 77 AND 79 ORDER BY a, b')).*;
SELECT (plan_and_blocks('SELECT a, c, d, id FROM sk WHERE d = 77')).*;
SELECT (plan_and_blocks('SELECT a, c, d, id FROM sk WHERE d = 77 ORDER BY a, c DESC, d')).*;
SELECT (plan_and_blocks('SELECT a, b, id FROM sk WHERE id = 77 AND a = 2')).plan;
-- the same rows, by each way
CREATE FUNCTION differences_skip(conditions text[]) RETURNS TABLE (way text, cond text) LANGUAGE plpgsql AS $$
DECLARE
	expected text;
	found text;
	c text;
BEGIN
	FOREACH c IN ARRAY conditions LOOP
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
		EXECUTE 'SELECT count(*) || md5(array_agg(id ORDER BY id)::text) FROM sk WHERE ' || c INTO expected;
		PERFORM set_config('enable_seqscan', 'off', true);
		FOREACH way IN ARRAY ARRAY['forward', 'backward', 'only', 'bitmap', 'cursor'] LOOP
			PERFORM set_config('enable_indexscan', (way <> 'bitmap')::text, true), set_config('enable_indexonlyscan', (way = 'only')::text, true),
				set_config('enable_bitmapscan', (way = 'bitmap')::text, true);
			EXECUTE 'SELECT count(*) || md5(array_agg(id ORDER BY id)::text) FROM (SELECT id FROM sk WHERE ' || c ||
				CASE way WHEN 'forward' THEN ' ORDER BY a, b, id OFFSET 0' WHEN 'backward' THEN ' ORDER BY a DESC, b DESC, id DESC OFFSET 0' ELSE '' END || ') s' INTO found;
			IF found IS DISTINCT FROM expected THEN
				cond := c;
				RETURN NEXT;
			END IF;
		END LOOP;
	END LOOP;
END $$;
SELECT * FROM differences_skip(ARRAY['b = 77', 'b IS NULL', 'b IS NOT NULL AND b < 3', 'b < 10', 'b > 2990', 'b >= 2990 AND b < 2995', 'b IN (5, 1700, 2999, 9999)', 'b IN (-5, 9999)', 'b = 5 AND id > 30000',
	'id = 4711', 'id BETWEEN 100 AND 130', 'a > 1 AND b = 1234', 'a IN (1, 3) AND id IN (6, 8, 59998)', 'a = 2 AND id = 7002', 'd = 77', 'd > 590 AND c > ''c0''', 'd IN (3, 500)', 'd < 2 AND a < 4', 'c = ''c1'' AND d = 55',
	'c IN (''c0'', ''c2'') AND d < 4', '(b, id) > (2990, 14990)', '(d, id) <= (3, 320) AND c = ''c1''', 'b > 5 AND b < 3', 'b > 100000']);
-- some in the memtable, some in several files; deleted rows
SELECT lsm_flush('sk');
INSERT INTO sk SELECT g % 5, g / 5 % 3000, 'c' || g % 3, g / 100, g FROM generate_series(60001, 75000) g;
DELETE FROM sk WHERE id % 7 = 0;
SELECT * FROM differences_skip(ARRAY['b = 77', 'b IS NULL', 'b < 10', 'b IN (5, 1700, 2999, 9999)', 'id BETWEEN 100 AND 130', 'd = 77', 'd > 590 AND c > ''c0''', 'a > 1 AND b = 1234']);
-- back and forth over a skip; several processes; a transaction that checks predicates
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
SET LOCAL enable_bitmapscan = off;
DECLARE c SCROLL CURSOR FOR SELECT a, b, id FROM sk WHERE b = 1500 ORDER BY a, b, id;
FETCH 7 c;
FETCH BACKWARD 4 c;
FETCH 3 c;
FETCH LAST c;
FETCH BACKWARD 2 c;
ROLLBACK;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_index_scan_size = 0;
SELECT * FROM differences_skip(ARRAY['b = 77', 'b < 10', 'id BETWEEN 100 AND 130', 'd = 77']);
BEGIN ISOLATION LEVEL SERIALIZABLE;
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM sk WHERE b = 1500;
COMMIT;
DROP TABLE sk;
RESET max_parallel_workers_per_gather;
-- many groups of leading columns of each kind, from the first value that does not match to the next group's place
CREATE TYPE sk_enum AS ENUM ('z', 'y', 'x', 'w', 'v', 'u', 't');
CREATE FUNCTION differences_by_type(types text[], conditions text[]) RETURNS TABLE (type text, way text, cond text) LANGUAGE plpgsql AS $$
DECLARE
	direction text;
BEGIN
	FOR type, direction IN SELECT t, d FROM unnest(types) t, unnest('{ASC NULLS LAST, DESC NULLS LAST, ASC NULLS FIRST}'::text[]) WITH ORDINALITY AS u (d, n)
		WHERE n = 1 OR t IN ('int', 'float8', 'text') LOOP
		EXECUTE format('CREATE TABLE sk (a %s, b int, id int) USING lsm', split_part(type, ':', 1));
		EXECUTE format('INSERT INTO sk SELECT %s, CASE WHEN g %% 191 = 0 THEN NULL ELSE g %% 390 END, g FROM (SELECT g, g / 400 AS k FROM generate_series(1, 14000) g) s',
			CASE type
				WHEN 'int' THEN '(CASE k WHEN 3 THEN 2147483647 WHEN 4 THEN -2147483648 WHEN 5 THEN NULL ELSE k * (k % 3 - 1) END)'
				WHEN 'bool' THEN 'k % 3 = 0'
				WHEN 'date' THEN '(''epoch''::date + (k - 10) * 30)'
				WHEN 'float8' THEN '(ARRAY[''NaN'', ''inf'', ''-inf'', ''-0'', NULL]::float8[] || ARRAY(SELECT i / 7.0::float8 - 2 FROM generate_series(1, 40) i))[k + 1]'
				WHEN 'uuid' THEN '(repeat(to_hex(k % 16), 31) || ''f'')::uuid'
				WHEN 'numeric' THEN 'k::numeric / 3 - 5'
				WHEN 'sk_enum' THEN '(enum_range(NULL::sk_enum))[k % 8]'
				WHEN 'text' THEN 'repeat(chr(97 + k % 5), k)'
				ELSE 'CASE WHEN k % 6 = 0 THEN NULL ELSE (''x'' || k) END' END);
		EXECUTE format('CREATE INDEX ON sk USING lsm (a %s, b %s, id)', direction, CASE WHEN direction LIKE 'DESC%' THEN 'DESC' ELSE '' END);
		FOR way, cond IN SELECT * FROM differences_skip(conditions) LOOP
			RETURN NEXT;
		END LOOP;
		DROP TABLE sk;
	END LOOP;
END $$;
SELECT * FROM differences_by_type('{int, bool, date, float8, uuid, numeric, text, name, sk_enum}', ARRAY['b = 77', 'b = 0', 'b = 189', 'b = 389', 'b IN (3, 77, 150)', 'b IN (-1, 77, 500)', 'b > 380', 'b < 5', 'b >= 77 AND b < 79', 'b IS NULL', 'b IS NOT NULL AND b > 387', 'b = 77 AND id > 3000', 'b IN (3, 4) AND id IN (393, 394, 7804, 13653)', 'b = 500', 'a IS NOT NULL AND b = 77', 'a IS NULL AND id < 2000', 'id IN (393, 13653)', '(b, id) >= (388, 3000)']);
DROP FUNCTION differences_by_type;
DROP TYPE sk_enum;
DROP FUNCTION differences_skip, plan_and_blocks;
