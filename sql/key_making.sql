-- What keys are made of changes behind an index's back: rows of the whole table that get a column with a value, support
-- functions that come and go, a row type whose order goes while a plan is kept.
SET client_min_messages = error;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;

-- an index of whole rows: a column without a value changes nothing
CREATE TABLE wl (id int, t text) USING lsm;
CREATE INDEX wl_row ON wl USING lsm ((wl));
CREATE INDEX wl_array ON wl USING lsm ((ARRAY[wl]));
INSERT INTO wl SELECT g, 'x' || g FROM generate_series(1, 20) g;
ALTER TABLE wl ADD COLUMN empty int;
SELECT id FROM wl WHERE wl = ROW(7, 'x7', NULL)::wl;
SELECT id FROM wl WHERE ARRAY[wl] = ARRAY[ROW(7, 'x7', NULL)::wl];
EXPLAIN (COSTS OFF) SELECT id FROM wl WHERE wl = ROW(7, 'x7', NULL)::wl;
SELECT * FROM lsm_verify('wl');
-- ... one with a value is in old rows, too; some releases refuse it
CREATE FUNCTION fails(command text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN EXECUTE command; RETURN false; EXCEPTION WHEN OTHERS THEN RETURN true; END $$;
SELECT CASE WHEN fails('ALTER TABLE wl ADD COLUMN five int DEFAULT 5') THEN '' ELSE ', 5' END AS five \gset
SELECT id FROM wl WHERE wl = ROW(7, 'x7', NULL:five)::wl;
SELECT id FROM wl WHERE ARRAY[wl] = ARRAY[ROW(7, 'x7', NULL:five)::wl];
SELECT fails('INSERT INTO wl VALUES (21, ''x21'')') = (:'five' <> '') AS as_it_should;
SELECT (count(*) = 2) = (:'five' <> '') AS as_it_should FROM lsm_verify('wl');
REINDEX TABLE wl;
INSERT INTO wl VALUES (22, 'x22');
SELECT id FROM wl WHERE wl = ROW(7, 'x7', NULL:five)::wl;
SELECT id FROM wl WHERE wl = ROW(22, 'x22', NULL:five)::wl;
SELECT * FROM lsm_verify('wl');
-- ... until the table is written anew, with the index
SELECT CASE WHEN fails('ALTER TABLE wl ADD COLUMN six int DEFAULT 6') THEN '' ELSE :'five' || ', 6' END AS six \gset
VACUUM FULL wl;
SELECT id FROM wl WHERE wl = ROW(7, 'x7', NULL:six)::wl;
ALTER TABLE wl ADD COLUMN last int;
SELECT id FROM wl WHERE wl = ROW(7, 'x7', NULL:six, NULL)::wl;
SELECT * FROM lsm_verify('wl');
DROP FUNCTION fails;
DROP INDEX wl_row, wl_array;
DROP TABLE wl;

-- support functions of a class that has indexes
CREATE FUNCTION making_code(int) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT RETURN int4send(-1 - $1);
CREATE OPERATOR CLASS making_ops FOR TYPE int USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int);
CREATE TABLE wl (id int, i int) USING lsm;
INSERT INTO wl SELECT g, g FROM generate_series(1, 20) g;
CREATE INDEX wl_i ON wl USING lsm (i making_ops);
SELECT id FROM wl WHERE i = 7;
PREPARE kept AS SELECT id FROM wl WHERE i = 7;
EXECUTE kept;
ALTER OPERATOR FAMILY making_ops USING lsm_index ADD FUNCTION 12 (int) making_code(int);
SELECT id FROM wl WHERE i = 7;
EXECUTE kept;
INSERT INTO wl VALUES (21, 21);
SET client_min_messages = warning;
SELECT id FROM wl WHERE i = 7;
\c -
SET client_min_messages = warning;
SELECT id FROM wl WHERE i = 7;
SET client_min_messages = error;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SELECT * FROM lsm_verify('wl');
REINDEX INDEX wl_i;
SELECT id FROM wl WHERE i = 7;
EXPLAIN (COSTS OFF) SELECT id FROM wl WHERE i = 7;
INSERT INTO wl VALUES (21, 21);
SELECT * FROM lsm_verify('wl');
ALTER OPERATOR FAMILY making_ops USING lsm_index DROP FUNCTION 12 (int);
SELECT id FROM wl WHERE i = 7;
INSERT INTO wl VALUES (22, 22);
ALTER OPERATOR FAMILY making_ops USING lsm_index ADD FUNCTION 12 (int) making_code(int);
INSERT INTO wl VALUES (22, 22);
SELECT id FROM wl WHERE i = 22;
SELECT * FROM lsm_verify('wl');
DROP TABLE wl;
DROP OPERATOR FAMILY making_ops USING lsm_index CASCADE;
-- ... of a part's
CREATE TYPE making_row AS (t text COLLATE "C", i int);
CREATE TABLE wl (id int, v making_row[]) USING lsm;
CREATE INDEX wl_v ON wl USING lsm (v);
INSERT INTO wl SELECT g, ARRAY[ROW('x', g)::making_row] FROM generate_series(1, 20) g;
BEGIN;
ALTER OPERATOR FAMILY integer_ops USING lsm_index ADD FUNCTION 12 (int) making_code(int);
SELECT id FROM wl WHERE v = ARRAY[ROW('x', 7)::making_row];
SAVEPOINT s;
INSERT INTO wl VALUES (21, ARRAY[ROW('x', 21)::making_row]);
ROLLBACK TO s;
REINDEX INDEX wl_v;
ALTER TYPE making_row ADD ATTRIBUTE again int;
INSERT INTO wl VALUES (21, ARRAY[ROW('x', 21, NULL)::making_row]);
SELECT id FROM wl WHERE v = ARRAY[ROW('x', 21, NULL)::making_row];
SELECT * FROM lsm_verify('wl');
ROLLBACK;
SELECT id FROM wl WHERE v = ARRAY[ROW('x', 7)::making_row];
INSERT INTO wl VALUES (21, ARRAY[ROW('x', 21)::making_row]);
SELECT * FROM lsm_verify('wl');
DROP TABLE wl;
DROP TYPE making_row;

-- a plan that is kept, for an order that goes
CREATE TYPE making_label AS ENUM ('b');
ALTER TYPE making_label ADD VALUE 'a' BEFORE 'b';
CREATE TYPE making_pair AS (i int);
CREATE TABLE wl (v making_pair) USING lsm;
CREATE INDEX ON wl USING lsm (v);
INSERT INTO wl SELECT ROW(g)::making_pair FROM generate_series(1, 3) g;
SET plan_cache_mode = force_generic_plan;
PREPARE ordered AS SELECT v FROM wl ORDER BY v;
EXECUTE ordered;
EXPLAIN (COSTS OFF) EXECUTE ordered;
ALTER TYPE making_pair ADD ATTRIBUTE l making_label;
INSERT INTO wl VALUES (ROW(2, 'a')), (ROW(2, 'b')), (ROW(2, 'a'));
EXECUTE ordered;
DEALLOCATE ordered;
DROP TABLE wl;
DROP TYPE making_pair;

-- constants of two row types in one scan
CREATE TYPE making_pair AS (i int, t text COLLATE "C");
CREATE TABLE wl (v making_pair) USING lsm;
CREATE INDEX ON wl USING lsm (v);
INSERT INTO wl SELECT ROW(g, 'x')::making_pair FROM generate_series(1, 30) g;
BEGIN;
DECLARE c CURSOR FOR SELECT FROM generate_series(1, 20000) g,
	LATERAL (SELECT FROM wl WHERE v >= ROW(g % 30, 'x'::text COLLATE "C") AND v <= ROW(g % 30, 'x')::making_pair OFFSET 0) s;
MOVE 10 IN c;
SELECT sum(total_bytes) AS before FROM pg_backend_memory_contexts \gset
MOVE ALL IN c;
SELECT sum(total_bytes) - :before < 1000000 AS no_more FROM pg_backend_memory_contexts;
COMMIT;
DROP TABLE wl;
DROP TYPE making_pair, making_label;
DROP FUNCTION making_code(int);
