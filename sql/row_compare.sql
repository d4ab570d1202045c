-- Row comparisons are index ranges of lsm_index; the same rows as on heap with btree.
CREATE TABLE rh (id int, t int, a int, b text, c int) USING heap;
INSERT INTO rh SELECT i, i % 3, CASE WHEN i % 41 = 0 THEN NULL ELSE i * 7919 % 1000 END,
	CASE WHEN i % 37 = 0 THEN NULL ELSE 'v' || i * 31 % 50 END, CASE WHEN i % 29 = 0 THEN NULL ELSE i * 17 % 20 END
FROM generate_series(1, 6000) i;
CREATE TABLE rl (LIKE rh) USING lsm;
INSERT INTO rl SELECT * FROM rh;
CREATE INDEX rl_abc ON rl USING lsm (a, b COLLATE "C", c);
CREATE INDEX rl_ca ON rl USING lsm (c DESC, a);
CREATE INDEX rl_tac ON rl USING lsm (t, a, c);
CREATE INDEX rl_aid ON rl USING lsm (a, id);
VACUUM ANALYZE rh, rl;

-- each condition, by sequential scan of the heap and by every way on lsm
CREATE FUNCTION differences() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	cond text;
	op text;
	way text;
	on_heap text;
	on_lsm text;
BEGIN
	FOREACH op IN ARRAY ARRAY['<', '<=', '>', '>='] LOOP
		FOREACH cond IN ARRAY ARRAY['(a, c) @ (500, 7)', '(7, 500) @ (c, a)', '(a, b COLLATE "C", c) @ (3, ''v2'', 5)', '(c, a) @ (10, NULL)',
			'(a, c) @ (NULL, 3)', 't = 1 AND (a, c) @ (990, 7)', '(a, id) @ (id, a)', '(a, c) @ (20::bigint, 3::smallint)', 'NOT (a, c) @ (500, 7)',
			'((a, c) @ (995, 1) OR c = 3)', '(a, c) @ (SELECT 500, 7)', '(a, c) @ ((SELECT 500), 7)', '(a, a + c) @ (500, 7)', '(a, c) @ (500, 7) AND (c, a) @ (3, 5)'] LOOP
			EXECUTE 'SELECT md5(array_agg(id ORDER BY id)::text) FROM rh WHERE ' || replace(cond, '@', op) INTO on_heap;
			FOREACH way IN ARRAY ARRAY['seqscan', 'indexscan', 'bitmapscan'] LOOP
				PERFORM set_config('enable_seqscan', (way = 'seqscan')::text, true), set_config('enable_indexscan', (way = 'indexscan')::text, true),
					set_config('enable_bitmapscan', (way = 'bitmapscan')::text, true);
				EXECUTE 'SELECT md5(array_agg(id ORDER BY id)::text) FROM rl WHERE ' || replace(cond, '@', op) INTO on_lsm;
				IF on_lsm IS DISTINCT FROM on_heap THEN
					RETURN NEXT way || ': ' || replace(cond, '@', op);
				END IF;
			END LOOP;
		END LOOP;
	END LOOP;
END $$;
SELECT * FROM differences();

-- outer joins, with the comparison above and in the join
SELECT count(*), count(y.id) FROM (SELECT (SELECT count(*) FROM rh x LEFT JOIN rh y ON (y.a, y.c) > (x.a, x.c) AND y.t = 1 WHERE x.id < 50) AS id) y,
	(SELECT count(*) AS id FROM rl x LEFT JOIN rl y ON (y.a, y.c) > (x.a, x.c) AND y.t = 1 WHERE x.id < 50) z WHERE y.id = z.id;
SELECT (SELECT count(*) FROM rh x LEFT JOIN rh y ON y.id = x.a WHERE (x.a, y.c) > (900, 7)) =
	(SELECT count(*) FROM rl x LEFT JOIN rl y ON y.id = x.a WHERE (x.a, y.c) > (900, 7)) AS same;

-- keyset pagination: no sort, no leftovers
EXPLAIN (COSTS OFF) SELECT a, id FROM rl WHERE (a, id) > (500, 7) ORDER BY a, id LIMIT 10;
EXPLAIN (COSTS OFF) SELECT * FROM rl WHERE (a, id) < (500, 7) ORDER BY a DESC, id DESC LIMIT 10;
EXPLAIN (COSTS OFF) SELECT * FROM rl WHERE t = 1 AND (a, c) > (500, 7) ORDER BY a, c LIMIT 10;
CREATE FUNCTION rows_read(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Rows Removed by Filter' THEN
			RETURN substring(line FROM 'Filter: (\d+)')::int <= 7;
		END IF;
	END LOOP;
	RETURN true;
END $$;
SELECT rows_read('SELECT * FROM rl WHERE (a, id) > (500, 4000) ORDER BY a, id LIMIT 10') AS few,
	rows_read('SELECT * FROM rl WHERE (a, id) < (500, 4000) ORDER BY a DESC, id DESC LIMIT 10') AS few_backward;
DROP FUNCTION rows_read(text);
CREATE VIEW rv AS SELECT id AS i, a AS x FROM rl;
EXPLAIN (COSTS OFF) SELECT * FROM rv WHERE (x, i) > (500, 7) ORDER BY x, i LIMIT 10;
EXPLAIN (COSTS OFF) SELECT * FROM rl WHERE (b COLLATE "C", a) > ('v1', 7) AND a = 5 ORDER BY b COLLATE "C" LIMIT 3;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM rh x JOIN rl y ON (y.a, y.id) > (x.a, x.id) WHERE x.id = 5;
-- the function called by hand is what it says, by index or not
SELECT count(*) FROM rl WHERE lsm_row_bound(a, 990, '>=(int4,int4)'::regoperator::oid);
SELECT count(*) FROM rl WHERE lsm_row_bound(a, 990, '>=(int4,int4)'::regoperator::oid) AND (a, id) > (5, 5);
SELECT count(*) = (SELECT count(*) FROM rh WHERE a >= 990) AS same FROM rl WHERE lsm_row_bound(a + 0, 990, '>=(int4,int4)'::regoperator::oid);
SELECT lsm_row_bound(1, 2, '<=(int4,int4)'::regoperator::oid) AS t, lsm_row_bound(3, 2, '<=(int4,int4)'::regoperator::oid) AS f, lsm_row_bound(1, NULL::int, '<=(int4,int4)'::regoperator::oid) AS n;
SELECT lsm_row_bound(a, 'x'::text, '>=(int4,int4)'::regoperator::oid) FROM rl LIMIT 1;
SELECT lsm_row_bound(1, 2, '=(int4,int4)'::regoperator::oid);
SELECT lsm_row_bound(1, 2, '+(int4,int4)'::regoperator::oid);
SELECT lsm_row_bound(1, 2, 0);
-- and asks for the right to call the operator's function
CREATE FUNCTION my_le(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1 < $2 OR $1 = $2';
CREATE OPERATOR <<=! (FUNCTION = my_le, LEFTARG = int, RIGHTARG = int);
SELECT lsm_row_bound(1, 2, '<<=!(int4,int4)'::regoperator::oid);
DROP OPERATOR <<=! (int, int);
DROP FUNCTION my_le(int, int);
RESET enable_seqscan;
RESET enable_bitmapscan;
SET plan_cache_mode = force_generic_plan;
PREPARE page(int, int) AS SELECT * FROM rl WHERE (a, id) > ($1, $2) ORDER BY a, id LIMIT 3;
EXPLAIN (COSTS OFF) EXECUTE page(500, 7);
EXECUTE page(500, 7);
EXECUTE page(500, NULL);
RESET plan_cache_mode;
SET enable_seqscan = off;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM rl WHERE (a, id) > (990, 7);
RESET enable_indexscan;
RESET enable_indexonlyscan;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) DELETE FROM rl WHERE (a, id) > (998, 7);
UPDATE rl SET t = 9 WHERE (a, id) > (998, 7);
UPDATE rh SET t = 9 WHERE (a, id) > (998, 7);
DELETE FROM rl WHERE (5, 70) > (a, id);
DELETE FROM rh WHERE (5, 70) > (a, id);
SELECT (SELECT md5(array_agg(rl ORDER BY id)::text) FROM rl) = (SELECT md5(array_agg(rh ORDER BY id)::text) FROM rh) AS same, (SELECT count(*) FROM rl WHERE t = 9) > 0 AS updated;
-- behind a security barrier it bounds no scan, and nothing is left over
CREATE VIEW rsb WITH (security_barrier) AS SELECT * FROM rl WHERE t = 1;
EXPLAIN (COSTS OFF) SELECT * FROM rsb WHERE (a, id) > (990, 7) ORDER BY a, id LIMIT 3;
DROP VIEW rsb;
CREATE TABLE rp (a int, id int) PARTITION BY RANGE (a);
CREATE TABLE rp1 PARTITION OF rp FOR VALUES FROM (0) TO (500) USING lsm;
CREATE TABLE rp2 PARTITION OF rp FOR VALUES FROM (500) TO (1000) USING lsm;
CREATE INDEX ON rp USING lsm (a, id);
EXPLAIN (COSTS OFF) SELECT * FROM rp WHERE (a, id) > (400, 7) ORDER BY a, id LIMIT 3;
DROP TABLE rp;
DROP VIEW rv;
DROP TABLE rh, rl;
DROP FUNCTION differences();
