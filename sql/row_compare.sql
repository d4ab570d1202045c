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

-- the bound is that of the whole row: rows that are equal in the first columns are not read
CREATE TABLE kh (t int, d date, n text COLLATE "C", id int) USING heap;
INSERT INTO kh SELECT 1 + i % 2, CASE WHEN i % 101 = 0 THEN NULL ELSE date '2024-01-01' + i % 5 END, CASE WHEN i % 103 = 0 THEN NULL ELSE 'n' || i % 7 END, i FROM generate_series(1, 20000) i;
CREATE TABLE kl (LIKE kh) USING lsm;
INSERT INTO kl SELECT * FROM kh;
CREATE INDEX kl_asc ON kl USING lsm (t, d, n, id);
CREATE INDEX kl_desc ON kl USING lsm (t DESC, d DESC, n DESC, id DESC);
CREATE INDEX kl_mixed ON kl USING lsm (d, n DESC, id);
CREATE INDEX kl_expr ON kl USING lsm ((t * 10), (id % 100), id);
CREATE INDEX kh_asc ON kh (t, d, n, id);
CREATE INDEX kh_expr ON kh ((t * 10), (id % 100), id);
VACUUM ANALYZE kh, kl;
CREATE FUNCTION read_and_same(cond text) RETURNS TABLE (way text, same bool, exact bool) LANGUAGE plpgsql AS $$
DECLARE
	on_heap text;
	on_lsm text;
	line text;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true);
	EXECUTE 'SELECT count(*) || md5(array_agg(id ORDER BY id)::text) FROM kh WHERE ' || cond INTO on_heap;
	FOREACH way IN ARRAY ARRAY['indexscan', 'indexonlyscan', 'bitmapscan'] LOOP
		PERFORM set_config('enable_indexscan', (way <> 'bitmapscan')::text, true), set_config('enable_indexonlyscan', (way = 'indexonlyscan')::text, true),
			set_config('enable_bitmapscan', (way = 'bitmapscan')::text, true);
		exact := true;
		EXECUTE 'SELECT count(*) || md5(array_agg(id ORDER BY id)::text) FROM kl WHERE ' || cond INTO on_lsm;
		FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT id FROM kl WHERE ' || cond LOOP
			IF line ~ 'Rows Removed by (Filter|Index Recheck)' THEN
				exact := substring(line FROM ': (\d+)')::int <= 200;
			ELSIF line ~ 'Seq Scan' THEN
				exact := NULL;
			END IF;
		END LOOP;
		same := on_heap IS NOT DISTINCT FROM on_lsm;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT cond, op, array_agg(DISTINCT same) AS same, bool_and(exact) AS exact
FROM unnest(ARRAY['(t, id) @ (1, 700)', '(t, d) @ (1, ''2024-01-03'')', '(t, d, n) @ (2, ''2024-01-03'', ''n3'')', '(t, d, n, id) @ (2, ''2024-01-03'', ''n3'', 9000)',
	't = 2 AND (d, n, id) @ (''2024-01-02'', ''n4'', 5000)', '(''2024-01-02'', ''n4'') @ (d, n) AND t = 1', '(t, d) @ (1, NULL)', '(t, d, n) @ (1, ''2024-01-03'', NULL)', '(t, d) @ (1, ''infinity'')',
	'(t, d, n) @ (2::bigint, ''2024-01-03 12:00''::timestamp, ''n3'')', '(d, n) @ (''2024-01-03'', ''n3'')', '(d, n, id) @ (''2024-01-03'', ''n3'', 40)',
	't IN (1, 2) AND (d, n) @ (''2024-01-03'', ''n3'')', '(t, d) @ (1, ''2024-01-02'') AND (t, d) @ (1, ''2024-01-04'')', '(t, d) @ (1, ''2024-01-02'') AND t > 1', '(t * 10, id % 100) @ (10, 95)', '(t * 10, id % 100, id) @ (10, 95, 7000)',
	'(t, id % 100) @ (1, 3)', '(t, t) @ (1, 1)', '(t, d, n) @ (1, d, ''n3'')', '(t, d, n) @ (2, ''2024-01-05'', repeat(''x'', 9000))']) WITH ORDINALITY AS c (cond, i),
	unnest(ARRAY['<', '<=', '>', '>=']) AS op, read_and_same(replace(cond, '@', op))
GROUP BY i, cond, op ORDER BY i, op;
-- both ends
SELECT DISTINCT same, exact FROM read_and_same('(t, d, n) > (1, ''2024-01-03'', ''n3'') AND (t, d, n) <= (1, ''2024-01-03'', ''n5'')');
SELECT DISTINCT same, exact FROM read_and_same('(t, d, n) < (1, ''2024-01-03'', ''n3'') AND (t, d, n) >= (1, ''2024-01-03'', ''n5'')');
SELECT DISTINCT same FROM read_and_same('(t, d) > (1, ''2024-01-02'') AND (d, n) < (''2024-01-04'', ''n2'')');

-- the plans are btree's
DROP INDEX kl_desc;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_indexonlyscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM kh WHERE (t, d, n) > (1, '2024-01-03', 'n3') ORDER BY t, d, n LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM kl WHERE (t, d, n) > (1, '2024-01-03', 'n3') ORDER BY t, d, n LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM kh WHERE ('2024-01-03', 'n3') < (d, n) AND t = 1 ORDER BY t, d, n LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM kl WHERE ('2024-01-03', 'n3') < (d, n) AND t = 1 ORDER BY t, d, n LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM kh WHERE (t, d, id + 0) < (1, '2024-01-03', 5) ORDER BY t DESC, d DESC LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM kl WHERE (t, d, id + 0) < (1, '2024-01-03', 5) ORDER BY t DESC, d DESC LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM kh WHERE (t * 10, id % 100) > (10, 95) ORDER BY t * 10 LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM kl WHERE (t * 10, id % 100) > (10, 95) ORDER BY t * 10 LIMIT 3;
RESET enable_indexonlyscan;
EXPLAIN (COSTS OFF) SELECT t, d FROM kh WHERE (t, d) >= (2, '2024-01-03') ORDER BY t, d LIMIT 3;
EXPLAIN (COSTS OFF) SELECT t, d FROM kl WHERE (t, d) >= (2, '2024-01-03') ORDER BY t, d LIMIT 3;
-- a page at a time, both ways, through the whole table; nested loops; a cursor back and forth
CREATE FUNCTION pages(tab regclass, ascending bool) RETURNS TABLE (npages int, seen text) LANGUAGE plpgsql AS $$
DECLARE
	r record;
	last record;
	text text := '';
	n int;
BEGIN
	npages := 0;
	EXECUTE format('SELECT t, d, n, id FROM %s WHERE d IS NOT NULL AND n IS NOT NULL ORDER BY t %2$s, d %2$s, n %2$s, id %2$s LIMIT 1', tab, CASE WHEN ascending THEN 'ASC' ELSE 'DESC' END) INTO last;
	LOOP
		n := 0;
		FOR r IN EXECUTE format('SELECT t, d, n, id FROM %s WHERE (t, d, n, id) %s ($1, $2, $3, $4) ORDER BY t %3$s, d %3$s, n %3$s, id %3$s LIMIT 300', tab, CASE WHEN ascending THEN '>' ELSE '<' END, CASE WHEN ascending THEN 'ASC' ELSE 'DESC' END)
			USING last.t, last.d, last.n, last.id LOOP
			text := text || r.id || ',';
			last := r;
			n := n + 1;
		END LOOP;
		EXIT WHEN n = 0;
		npages := npages + 1;
	END LOOP;
	seen := md5(text);
	RETURN NEXT;
END $$;
SELECT (SELECT p FROM pages('kh', true) p) = (SELECT p FROM pages('kl', true) p) AS up, (SELECT p FROM pages('kh', false) p) = (SELECT p FROM pages('kl', false) p) AS down, (SELECT npages FROM pages('kl', true)) AS pages;
EXPLAIN (COSTS OFF) SELECT y.* FROM kh x, LATERAL (SELECT * FROM kl y WHERE (y.t, y.d, y.n, y.id) > (x.t, x.d, x.n, x.id) ORDER BY t, d, n, id LIMIT 3) y WHERE x.id < 300;
SELECT (SELECT md5(string_agg(y::text, ',' ORDER BY x.id, y.d, y.n, y.id)) FROM kh x, LATERAL (SELECT * FROM kl y WHERE (y.t, y.d, y.n, y.id) > (x.t, x.d, x.n, x.id) ORDER BY t, d, n, id LIMIT 3) y WHERE x.id < 300) =
	(SELECT md5(string_agg(y::text, ',' ORDER BY x.id, y.d, y.n, y.id)) FROM kh x, LATERAL (SELECT * FROM kh y WHERE (y.t, y.d, y.n, y.id) > (x.t, x.d, x.n, x.id) ORDER BY t, d, n, id LIMIT 3) y WHERE x.id < 300) AS same;
PREPARE next_page(int, date) AS SELECT t, d FROM kl WHERE (t, d) > ($1, $2) ORDER BY t, d LIMIT 2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE next_page(1, '2024-01-03');
EXECUTE next_page(1, '2024-01-03');
CREATE FUNCTION condition_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Cond' THEN
			RETURN NEXT trim(line);
		END IF;
	END LOOP;
END $$;
SELECT condition_of('EXECUTE next_page(1, ''2024-01-05'')');
EXECUTE next_page(1, '2024-01-05');
RESET plan_cache_mode;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM kl WHERE (t, d, n, id) > (1, '2024-01-03', 'n3', 40) ORDER BY t, d, n, id;
FETCH 3 c;
FETCH BACKWARD 3 c;
FETCH LAST c;
FETCH PRIOR c;
ROLLBACK;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM kl WHERE (t, d) > (1, '2024-01-03');
SELECT condition_of('SELECT count(*), sum(id) FROM kl WHERE (t, d) > (1, ''2024-01-03'')');
SELECT (SELECT (count(*), sum(id)) FROM kl WHERE (t, d) > (1, '2024-01-03')) = (SELECT (count(*), sum(id)) FROM kh WHERE (t, d) > (1, '2024-01-03')) AS same;
SELECT (SELECT (count(*), sum(id)) FROM kl WHERE (t, d) > (1, '2024-01-03') AND (t, d) < (1, '2024-01-02')) = (SELECT (count(*), sum(id)) FROM kh WHERE false) AS same;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_index_scan_size; RESET min_parallel_table_scan_size;
-- row-level security: leakproof operators pass, as with btree; others wait
CREATE ROLE row_reader;
GRANT SELECT ON kh, kl TO row_reader;
CREATE POLICY p ON kh USING (id % 2 = 0);
CREATE POLICY p ON kl USING (id % 2 = 0);
ALTER TABLE kh ENABLE ROW LEVEL SECURITY;
ALTER TABLE kl ENABLE ROW LEVEL SECURITY;
SET ROLE row_reader;
EXPLAIN (COSTS OFF) SELECT * FROM kh WHERE (t, d) > (1, '2024-01-03') ORDER BY t, d LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM kl WHERE (t, d) > (1, '2024-01-03') ORDER BY t, d LIMIT 3;
SELECT (SELECT array_agg(id ORDER BY id) FROM kl WHERE (t, d) > (1, '2024-01-03')) = (SELECT array_agg(id ORDER BY id) FROM kh WHERE (t, d) > (1, '2024-01-03')) AS same;
EXPLAIN (COSTS OFF) SELECT * FROM kl WHERE (t, d) > (1, '2024-01-03 12:00'::timestamp) ORDER BY t, d LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM kl WHERE (t * 10, id % 100) > (10, 95) ORDER BY t * 10 LIMIT 3;
RESET ROLE;
SELECT lsmam_row_bound_leakproof(1, 2, '<=(int4,int4)'::regoperator::oid) AS t, lsmam_row_bound_leakproof(3, 2, '<=(int4,int4)'::regoperator::oid) AS f;
SELECT lsmam_row_bound_leakproof(1::numeric, 2::numeric, '<=(numeric,numeric)'::regoperator::oid);
SELECT lsmam_row_bound_leakproof(1, 2, 0::oid);
SELECT lsmam_row_bound(1, 2, 0::oid);
SELECT lsmam_row_bound_leakproof(1, 2, NULL::oid);
-- what is wrong with a call is said before a row is seen, and tells nothing of rows that are not to be seen
CREATE TABLE rc_pay (who name, salary int, wage numeric) USING heap;
INSERT INTO rc_pay VALUES ('somebody', 81234, 7), ('row_reader', 3, 5);
CREATE INDEX rc_pay_wage ON rc_pay USING lsm (wage);
ALTER TABLE rc_pay ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON rc_pay USING (who = current_user);
CREATE VIEW rc_pay_barrier WITH (security_barrier) AS SELECT * FROM rc_pay WHERE salary < 100;
GRANT SELECT ON rc_pay, rc_pay_barrier TO row_reader;
CREATE FUNCTION rc_answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE query INTO answer;
	RETURN answer;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;
SET ROLE row_reader;
SELECT q, rc_answer('SELECT count(*) FROM rc_pay WHERE ' || q) AS by_policy, rc_answer('SELECT count(*) FROM rc_pay_barrier WHERE ' || q) AS by_view
FROM unnest(ARRAY['lsmam_row_bound_leakproof(1, 2, salary)', 'lsmam_row_bound_leakproof(1, 2, salary - 81234 + ''<=(numeric,numeric)''::regoperator::int)',
	-- an error from a row would tell what quals before it say of the row
	'salary <= 80000 OR lsmam_row_bound_leakproof(salary, 2, salary)', 'salary <= 90000 OR lsmam_row_bound_leakproof(salary, 2, salary)',
	'salary <= 80000 OR lsmam_row_bound_leakproof(salary, 2, 0)', 'salary <= 90000 OR lsmam_row_bound_leakproof(salary, 2, 0)',
	'salary <= 80000 OR lsmam_row_bound_leakproof(salary, 2, ''=(int4,int4)''::regoperator)', 'salary <= 90000 OR lsmam_row_bound_leakproof(salary, 2, ''=(int4,int4)''::regoperator)',
	'salary <= 80000 OR lsmam_row_bound_leakproof(wage, 2, ''<=(int4,int4)''::regoperator)', 'salary <= 90000 OR lsmam_row_bound_leakproof(wage, 2, ''<=(int4,int4)''::regoperator)',
	'lsmam_row_bound_leakproof(wage, 6::numeric, ''<=(numeric,numeric)''::regoperator)',
	'salary <= 80000 OR lsmam_row_bound_leakproof(salary, 2, NULL)', 'lsmam_row_bound_leakproof(NULL::int, NULL::int, salary)',
	'lsmam_row_bound_leakproof(salary, 3, ''<=(int4,int4)''::regoperator)']) q;
SET plan_cache_mode = force_generic_plan;
PREPARE rc_pay_bound(oid) AS SELECT count(*) FROM rc_pay WHERE lsmam_row_bound_leakproof(salary, 3, $1);
EXECUTE rc_pay_bound('<=(int4,int4)'::regoperator);
SET plan_cache_mode = force_custom_plan;
EXECUTE rc_pay_bound('<=(int4,int4)'::regoperator);
DEALLOCATE rc_pay_bound;
RESET plan_cache_mode;
RESET ROLE;
-- without the right to the operator's function, neither
BEGIN;
REVOKE EXECUTE ON FUNCTION int4ge FROM PUBLIC;
SET ROLE row_reader;
SELECT q, rc_answer('SELECT count(*) FROM rc_pay WHERE ' || q)
FROM unnest(ARRAY['salary <= 80000 OR lsmam_row_bound_leakproof(salary, 1, ''>=(int4,int4)''::regoperator)', 'salary <= 90000 OR lsmam_row_bound_leakproof(salary, 1, ''>=(int4,int4)''::regoperator)',
	'lsmam_row_bound_leakproof(1, 2, ''>=(int4,int4)''::regoperator)']) q;
ROLLBACK;
-- a function of the comparison that leaks is not called for rows that a policy hides, whatever the operators are
CREATE FUNCTION rc_tell(t text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE NOTICE 'saw %', t; RETURN length(t); END $$;
SET client_min_messages = warning;
CREATE TABLE rc_told (a int, b text, who name) USING lsm;
CREATE INDEX ON rc_told USING lsm (a, rc_tell(b));
INSERT INTO rc_told VALUES (1, 'secret', 'somebody'), (1, 'mine', 'row_reader'), (2, 'hidden', 'somebody'), (2, 'own', 'row_reader');
ALTER TABLE rc_told ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON rc_told USING (who = current_user);
CREATE VIEW rc_told_barrier WITH (security_barrier) AS SELECT * FROM rc_told WHERE a < 2;
GRANT SELECT ON rc_told, rc_told_barrier TO row_reader;
RESET client_min_messages;
SET ROLE row_reader;
SET enable_seqscan = off;
SELECT b FROM rc_told WHERE (a, rc_tell(b)) > (1, 0) ORDER BY b;
-- nor because another comparison begins with the same column
SELECT b FROM rc_told WHERE (a, rc_tell(b)) > (1, 0) AND (a, a) > (1, 0) ORDER BY b;
SELECT b FROM rc_told_barrier WHERE (a, a) > (1, 0) AND (a, rc_tell(b)) > (1, 0) ORDER BY b;
RESET ROLE;
SET client_min_messages = warning;
DROP TABLE rc_told CASCADE;
RESET client_min_messages;
DROP FUNCTION rc_tell(text);
-- operators may be stable: what a plan knows does not hold in another time zone
CREATE TABLE rc_day (d date, id int) USING lsm;
CREATE INDEX ON rc_day USING lsm (d, id);
SET TimeZone = 'Europe/Berlin';
PREPARE rc_days AS SELECT count(*) FROM (SELECT d, id FROM rc_day UNION ALL SELECT date '2024-01-01', 5) s WHERE (d, id) > (timestamptz '2024-01-01 00:00+00', 3);
EXECUTE rc_days;
SET TimeZone = 'UTC';
EXECUTE rc_days;
DEALLOCATE rc_days;
RESET TimeZone;
DROP TABLE rc_day;
DROP FUNCTION rc_answer;
DROP VIEW rc_pay_barrier;
DROP TABLE rc_pay;
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP TABLE kh, kl;
DROP ROLE row_reader;
DROP FUNCTION pages, read_and_same, condition_of;

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
SELECT count(*) FROM rl WHERE lsmam_row_bound(a, 990, '>=(int4,int4)'::regoperator::oid);
SELECT count(*) FROM rl WHERE lsmam_row_bound(a, 990, '>=(int4,int4)'::regoperator::oid) AND (a, id) > (5, 5);
SELECT count(*) = (SELECT count(*) FROM rh WHERE a >= 990) AS same FROM rl WHERE lsmam_row_bound(a + 0, 990, '>=(int4,int4)'::regoperator::oid);
SELECT lsmam_row_bound(1, 2, '<=(int4,int4)'::regoperator::oid) AS t, lsmam_row_bound(3, 2, '<=(int4,int4)'::regoperator::oid) AS f, lsmam_row_bound(1, NULL::int, '<=(int4,int4)'::regoperator::oid) AS n;
SELECT lsmam_row_bound(a, 'x'::text, '>=(int4,int4)'::regoperator::oid) FROM rl LIMIT 1;
SELECT lsmam_row_bound(1, 2, '=(int4,int4)'::regoperator::oid);
SELECT lsmam_row_bound(1, 2, '+(int4,int4)'::regoperator::oid);
SELECT lsmam_row_bound(1, 2, 0);
-- and asks for the right to call the operator's function
CREATE FUNCTION my_le(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1 < $2 OR $1 = $2';
CREATE OPERATOR <<=! (FUNCTION = my_le, LEFTARG = int, RIGHTARG = int);
SELECT lsmam_row_bound(1, 2, '<<=!(int4,int4)'::regoperator::oid);
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
-- WITH queries and functions that become subqueries amid planning, and ORs in them
CREATE FUNCTION rl_page(int, int) RETURNS SETOF rl LANGUAGE sql STABLE AS 'SELECT * FROM rl WHERE (a, id) > ($1, $2) ORDER BY a, id LIMIT 3';
EXPLAIN (COSTS OFF) WITH w AS (SELECT a, id FROM rl) SELECT * FROM w WHERE (a, id) > (500, 7) ORDER BY a, id LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM rl_page(500, 7);
SELECT a, id FROM rl_page(500, 7);
SET enable_indexscan = off;
SET enable_bitmapscan = on;
EXPLAIN (COSTS OFF) WITH w AS (SELECT a, t, id FROM rl) SELECT count(t) FROM w WHERE (a, id) < (5, 7) OR (a, id) > (990, 7) AND id > 5;
WITH w AS (SELECT a, t, id FROM rl) SELECT count(t) = (SELECT count(t) FROM rh WHERE (a, id) < (5, 7) OR (a, id) > (990, 7) AND id > 5) AS same FROM w
WHERE (a, id) < (5, 7) OR (a, id) > (990, 7) AND id > 5;
SET enable_bitmapscan = off;
RESET enable_indexscan;
DROP FUNCTION rl_page(int, int);
EXPLAIN (COSTS OFF) DELETE FROM rl WHERE (a, id) > (998, 7);
UPDATE rl SET t = 9 WHERE (a, id) > (998, 7);
UPDATE rh SET t = 9 WHERE (a, id) > (998, 7);
DELETE FROM rl WHERE (5, 70) > (a, id);
DELETE FROM rh WHERE (5, 70) > (a, id);
SELECT (SELECT md5(array_agg(rl ORDER BY id)::text) FROM rl) = (SELECT md5(array_agg(rh ORDER BY id)::text) FROM rh) AS same, (SELECT count(*) FROM rl WHERE t = 9) > 0 AS updated;
-- a leakproof operator bounds a scan behind a security barrier, too
CREATE VIEW rsb WITH (security_barrier) AS SELECT * FROM rl WHERE t = 1;
EXPLAIN (COSTS OFF) SELECT * FROM rsb WHERE (a, id) > (990, 7) ORDER BY a, id LIMIT 3;
DROP VIEW rsb;
CREATE TABLE rp (a int, id int) PARTITION BY RANGE (a);
CREATE TABLE rp1 PARTITION OF rp FOR VALUES FROM (0) TO (500) USING lsm;
CREATE TABLE rp2 PARTITION OF rp FOR VALUES FROM (500) TO (1000) USING lsm;
CREATE INDEX ON rp USING lsm (a, id);
EXPLAIN (COSTS OFF) SELECT * FROM rp WHERE (a, id) > (400, 7) ORDER BY a, id LIMIT 3;
DROP TABLE rp;
-- inheritance: the children's indexes, whose columns stand elsewhere
CREATE TABLE ri (a int, id int);
CREATE TABLE ri1 (t text, id int, a int) USING lsm;
ALTER TABLE ri1 INHERIT ri;
CREATE TABLE ri2 () INHERITS (ri);
CREATE INDEX ON ri1 USING lsm (a, id);
INSERT INTO ri1 SELECT 'x', i, i / 10 FROM generate_series(1, 2000) i;
INSERT INTO ri2 SELECT i / 10, i FROM generate_series(1, 20) i;
EXPLAIN (COSTS OFF) SELECT * FROM ri WHERE (a, id) > (198, 1985);
SELECT * FROM ri WHERE (a, id) > (198, 1985) ORDER BY a, id LIMIT 3;
SELECT count(*) FROM ri WHERE (a, id) > (1, 15);
SELECT count(*) FROM ONLY ri WHERE (a, id) > (1, 15);
DELETE FROM ri WHERE (a, id) > (1, 15);
SELECT count(*) FROM ri;
DROP TABLE ri CASCADE;
-- subqueries that are evaluated once: their values bound the scan, as with btree
CREATE FUNCTION comparisons(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'ROW\((y\.)?a, (y\.)?id\)' THEN
			RETURN NEXT regexp_replace(line, '^ *([A-Z][A-Za-z ]*):.*', '\1');
		END IF;
	END LOOP;
END $$;
SET enable_seqscan = off;
-- an index over (a, b, c) would cost the same
DROP INDEX rl_abc;
SELECT * FROM comparisons('SELECT * FROM rl WHERE (a, id) > (SELECT 990, 7)');
SELECT * FROM comparisons('SELECT * FROM rl WHERE (a, id) <= ((SELECT 9), 7)');
SELECT * FROM comparisons('SELECT * FROM rl WHERE ((SELECT 990), (SELECT 7)) < (a, id)');
SELECT * FROM comparisons('SELECT * FROM rl WHERE (a, id) >= (SELECT a, id FROM rh WHERE id = 77)');
SELECT * FROM comparisons('SELECT * FROM rh x LEFT JOIN rl y ON (y.a, y.id) < (SELECT 9, 7)');
SELECT * FROM comparisons('SELECT (SELECT count(*) FROM rl WHERE (a, id) > (SELECT x.a, x.id)) FROM rh x');
SELECT count(*), count(*) FILTER (WHERE l <> h) AS other, sum(l) > 0 AS some FROM (SELECT x.id, (SELECT count(*) FROM rl WHERE (a, id) > (SELECT x.a, x.id)) AS l,
	(SELECT count(*) FROM rh WHERE (a, id) > (SELECT x.a, x.id)) AS h FROM rh x WHERE x.id % 100 = 3) q;
SELECT count(*) FROM rl WHERE (a, id) > (SELECT a, id FROM rh WHERE id < 0);
SELECT count(*) FROM rl WHERE (a, id) > (SELECT a, id FROM rh);
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_bitmapscan = on;
SELECT count(*), count(*) FILTER (WHERE l <> h) AS other FROM (SELECT x.id, (SELECT count(t) FROM rl WHERE (a, id) > ((SELECT 990), (SELECT x.id))) AS l,
	(SELECT count(t) FROM rh WHERE (a, id) > ((SELECT 990), (SELECT x.id))) AS h FROM rh x WHERE x.id % 100 = 3) q;
RESET enable_seqscan;
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_bitmapscan;
DROP FUNCTION comparisons(text);
DROP VIEW rv;
DROP TABLE rh, rl;
DROP FUNCTION differences();

-- at the ends of the first column, and with other indexes that begin with it: the plans of heap and btree
CREATE TABLE el (id int, a int, b int, c int, t text) USING lsm;
INSERT INTO el SELECT g, g % 20, g % 1000, g, 'k' || (g % 20) FROM generate_series(1, 50000) g;
CREATE TABLE eh USING heap AS SELECT * FROM el;
CREATE INDEX el_ab ON el USING lsm (a, b);
CREATE INDEX el_ac ON el USING lsm (a, c);
CREATE INDEX el_tc ON el USING lsm (t COLLATE "C", c);
CREATE INDEX eh_ab ON eh (a, b);
CREATE INDEX eh_ac ON eh (a, c);
CREATE INDEX eh_tc ON eh (t COLLATE "C", c);
VACUUM ANALYZE el, eh;
CREATE FUNCTION plan_with(q text, t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text = '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(q, 'TT', t) LOOP
		plan = plan || line || E'\n';
	END LOOP;
	RETURN regexp_replace(regexp_replace(plan, t || '_(\w+) on ' || t, 'TT_\1 on TT', 'g'), '\y' || t || '(_\w+)?\y', 'TT\1', 'g');
END $$;
SELECT q, plan_with(q, 'el') = plan_with(q, 'eh') AS same, plan_with(q, 'el') ~ 'Seq Scan|Sort' AS sorts
FROM unnest(ARRAY[
	'SELECT * FROM TT WHERE (a, c) > (19, 24000) ORDER BY a, c LIMIT 10',
	'SELECT * FROM TT WHERE (a, c) < (0, 500) ORDER BY a DESC, c DESC LIMIT 10',
	'SELECT * FROM TT WHERE (19, 24000) < (a, c) ORDER BY a, c LIMIT 10',
	'SELECT * FROM TT WHERE (a, c) > (10, 500) ORDER BY a, c LIMIT 10',
	'SELECT * FROM TT WHERE (a, c) > (19, 24000)',
	'SELECT * FROM TT WHERE (t COLLATE "C", c) > (''k9'', 24000) ORDER BY t COLLATE "C", c LIMIT 10',
	'SELECT * FROM TT WHERE a = 19 AND (a, c) > (19, 24000) ORDER BY a, c LIMIT 10',
	'SELECT i.* FROM TT o JOIN TT i ON (i.a, i.c) > (o.a, o.c) WHERE o.id = 24999']) q;
SELECT plan_with('SELECT * FROM TT WHERE (a, c) > (19, 24000) ORDER BY a, c LIMIT 10', 'el');

-- two comparisons with one first member, in the index as a whole or with what it has of them
SELECT q, plan_with(q, 'el') = plan_with(q, 'eh') AS same
FROM unnest(ARRAY[
	'SELECT * FROM TT WHERE (a, c) >= (0, 100) AND (a, c) < (0, 200) ORDER BY a, c',
	'SELECT * FROM TT WHERE (a, c) < (19, 24100) AND (19, 24000) < (a, c) ORDER BY a, c']) q;
SET enable_seqscan = off;
DROP INDEX el_ab;
SELECT substring(plan_with(q, 'el') FROM 'Index Cond[^\n]*') AS cond
FROM unnest(ARRAY[
	'SELECT a, c FROM TT WHERE (a, c, id) <= (10, 14100, 5) AND (a, c, id) >= (10, 14000, 1) ORDER BY a, c',
	'SELECT a, c FROM TT WHERE (a, c, id) >= (10, 14000, 1) AND (a, c, id) <= (10, 14100, 5) ORDER BY a, c',
	'SELECT a, c FROM TT WHERE (a, c, id) >= (10, 100, 5) AND (a, c, id) > (10, 14000, 1) ORDER BY a, c LIMIT 5']) q;
-- in the arms of an OR the first members
SELECT plan_with(q, 'el')
FROM unnest(ARRAY[
	'SELECT * FROM TT WHERE (a, c) < (0, 200) OR (a, c) > (19, 24900)',
	'SELECT * FROM TT WHERE (a, c) BETWEEN SYMMETRIC (5, 900) AND (5, 300)']) q;
SELECT count(*), sum(id) FROM el WHERE (a, c) < (0, 200) OR (a, c) > (19, 24900) OR NOT ((a, c) > (2, 90) OR a IS NULL);
SELECT count(*), sum(id) FROM eh WHERE (a, c) < (0, 200) OR (a, c) > (19, 24900) OR NOT ((a, c) > (2, 90) OR a IS NULL);
RESET enable_seqscan;
DROP TABLE el, eh;
DROP FUNCTION plan_with;

-- first members of types that are made of others: arrays, ranges, records
CREATE TYPE rc_pair AS (a int, b int);
CREATE TABLE rc_made_h AS SELECT array[g % 30, g % 7] v, int4range(g % 50, g % 50 + g % 9) r, row(g % 40, g % 5)::rc_pair c,
	int4multirange(int4range(g % 30, g % 30 + 1 + g % 9)) m, g id FROM generate_series(1, 5000) g;
CREATE TABLE rc_made USING lsm AS SELECT * FROM rc_made_h;
CREATE INDEX ON rc_made USING lsm (v, id);
CREATE INDEX ON rc_made USING lsm (r, id);
CREATE INDEX ON rc_made USING lsm (c, id);
CREATE INDEX ON rc_made USING lsm (m, id);
CREATE INDEX ON rc_made USING lsm (id, v);
VACUUM ANALYZE rc_made;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT v, id FROM rc_made WHERE (v, id) > (array[25, 3], 70) ORDER BY v, id LIMIT 10;
EXPLAIN (COSTS OFF) SELECT r, id FROM rc_made WHERE (r, id) <= (int4range(40, 45), 70) ORDER BY r DESC, id DESC LIMIT 10;
EXPLAIN (COSTS OFF) SELECT c, id FROM rc_made WHERE (c, id) > (row(30, 3)::rc_pair, 70) ORDER BY c, id LIMIT 10;
EXPLAIN (COSTS OFF) SELECT m, id FROM rc_made WHERE (m, id) >= ('{[20,25)}'::int4multirange, 70) ORDER BY m, id LIMIT 10;
EXPLAIN (COSTS OFF) SELECT id, v FROM rc_made WHERE (id, v) < (500, array[25, 3]) ORDER BY id, v LIMIT 10;
-- rows that are compared with the constant row of an arm, of a type of its own
SELECT count(*), min(id) FROM (SELECT c, id FROM rc_made UNION ALL SELECT ROW(1, 2)::rc_pair, 5) s WHERE (c, id) > (ROW(39, 4), 4990);
DO $$
DECLARE
	sets text[] := ARRAY['v, id', 'r, id', 'c, id', 'm, id', 'id, v'];
	members text;
	query text;
	rows text;
	wanted text;
BEGIN
	PERFORM setseed(0.3);
	FOR i IN 1..200 LOOP
		members := sets[1 + i % 5];
		query := format('SELECT string_agg(x::text, '','') FROM (SELECT %s FROM %%s WHERE (%s) %s (SELECT %s FROM rc_made_h WHERE id = %s)'
			' ORDER BY %s LIMIT 20) x',
			members, members, (ARRAY['<', '<=', '>', '>='])[1 + i % 4],
			replace(members, 'id', CASE i % 3 WHEN 0 THEN 'id' WHEN 1 THEN 'id + 1' ELSE 'nullif(id, id)' END), 1 + (random() * 4999)::int,
			CASE i % 2 WHEN 0 THEN members ELSE replace(members, ',', ' DESC,') || ' DESC' END);
		EXECUTE format(query, 'rc_made_h') INTO wanted;
		EXECUTE format(query, 'rc_made') INTO rows;
		IF rows IS DISTINCT FROM wanted THEN
			RAISE WARNING 'differs: %', query;
		END IF;
	END LOOP;
END
$$;
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP TABLE rc_made, rc_made_h;
DROP TYPE rc_pair;

-- an enum behind the first column: what is before the row is passed over label by label
CREATE TYPE rc_mood AS ENUM ('bad', 'meh', 'good');
ALTER TYPE rc_mood ADD VALUE 'worst' BEFORE 'bad';
CREATE TABLE rc_inner_h AS SELECT g % 3 t, (ARRAY['meh', 'worst', 'good', 'bad'])[1 + g / 3 % 4]::rc_mood e, g % 5 n, g id FROM generate_series(1, 12000) g;
CREATE TABLE rc_inner USING lsm AS SELECT * FROM rc_inner_h;
CREATE INDEX ON rc_inner USING lsm (t, e, id);
CREATE INDEX ON rc_inner USING lsm (n DESC, e DESC, id DESC);
VACUUM ANALYZE rc_inner;
CREATE FUNCTION rc_removed(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	line text;
	result int := 0;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ' || query LOOP
		result := result + coalesce(substring(line FROM 'Rows Removed by .*: (\d+)')::int, 0);
		IF line ~ 'Sort|Seq Scan' THEN
			RAISE WARNING '%', line;
		END IF;
	END LOOP;
	RETURN result;
END
$$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT q, rc_removed(q) < 10 AS few FROM unnest(ARRAY[
	$$SELECT t, e, id FROM rc_inner WHERE (t, e, id) > (1, 'good', 6000) ORDER BY t, e, id LIMIT 10$$,
	$$SELECT t, e, id FROM rc_inner WHERE t = 1 AND (t, e, id) > (1, 'good', 6000) ORDER BY t, e, id LIMIT 10$$,
	$$SELECT t, e, id FROM rc_inner WHERE (t, e, id) <= (1, 'bad', 6000) ORDER BY t DESC, e DESC, id DESC LIMIT 10$$,
	$$SELECT n, e, id FROM rc_inner WHERE (n, e, id) < (3, 'bad', 6000) ORDER BY n DESC, e DESC, id DESC LIMIT 10$$,
	$$SELECT n, e, id FROM rc_inner WHERE (n, e, id) > (3, 'meh', 6000) ORDER BY n, e, id LIMIT 10$$]) q;
DO $$
DECLARE
	members text;
	query text;
	rows text;
	wanted text;
BEGIN
	FOR i IN 1..240 LOOP
		members := (ARRAY['t, e, id', 'n, e, id', 't, e'])[1 + i % 3];
		query := format('SELECT string_agg(x::text, '','') FROM (SELECT %s FROM %%s WHERE %s(%s) %s (%s, %L%s) ORDER BY %s LIMIT 20) x',
			members, CASE i % 5 WHEN 0 THEN left(members, 1) || ' = ANY (ARRAY[1, 2]) AND ' WHEN 1 THEN left(members, 1) || ' = 1 AND ' ELSE '' END, members, (ARRAY['<', '<=', '>', '>='])[1 + i % 4], i % 4, (enum_range(NULL::rc_mood))[1 + i / 12 % 4],
			CASE WHEN members ~ 'id' THEN ', ' || i * 50 ELSE '' END,
			CASE i % 2 WHEN 0 THEN members ELSE replace(members, ',', ' DESC,') || ' DESC' END);
		EXECUTE format(query, 'rc_inner_h') INTO wanted;
		EXECUTE format(query, 'rc_inner') INTO rows;
		IF rows IS DISTINCT FROM wanted THEN
			RAISE WARNING 'differs: %', query;
		END IF;
	END LOOP;
END
$$;
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP TABLE rc_inner, rc_inner_h;
DROP FUNCTION rc_removed;
DROP TYPE rc_mood;

-- an error that is caught amid planning does not change what is planned around it
CREATE TABLE rc_caught (a int, b int) USING lsm;
CREATE INDEX ON rc_caught USING lsm (a, b);
CREATE FUNCTION rc_catches() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	EXECUTE 'SELECT 1 / 0 FROM rc_caught';
EXCEPTION WHEN division_by_zero THEN RETURN 5;
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM rc_caught WHERE (a, b) > (rc_catches(), 7);
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP TABLE rc_caught;
DROP FUNCTION rc_catches;
