-- INSERT of many rows: given to the table together where nothing can tell the difference
CREATE SCHEMA insert_select;
SET search_path = insert_select, public;

-- does the statement write fewer log records than rows?
CREATE FUNCTION together(statement text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, WAL, FORMAT JSON) ' || statement INTO plan;
	RETURN (plan -> 0 -> 'Plan' ->> 'WAL Records')::int < (plan -> 0 -> 'Plan' -> 'Plans' -> 0 ->> 'Actual Rows')::numeric;
END $$;

CREATE SEQUENCE numbers;
CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), a int DEFAULT nextval('numbers'),
	b text NOT NULL DEFAULT 'default', c int GENERATED ALWAYS AS (a * 2) STORED, CHECK (a <> -1)) USING lsm;
CREATE INDEX ON t USING lsm_index (a);
CREATE TABLE source USING heap AS SELECT gen_random_uuid() AS id, i AS a, md5(i::text) AS b FROM generate_series(1, 3000) i;
SELECT together('INSERT INTO t SELECT * FROM source');
SELECT count(*), count(DISTINCT id), sum(a), sum(c) FROM t;
SELECT count(*) FROM t JOIN source USING (id, a, b);
SET enable_seqscan = off;
SELECT count(*) FROM source s WHERE (SELECT t.a FROM t WHERE t.id = s.id) = s.a;
SELECT a, c, b = md5('77') FROM t WHERE a = 77;
RESET enable_seqscan;

-- sources of all kinds
SELECT together('INSERT INTO t (b) SELECT b FROM source ORDER BY a DESC');
SELECT together('INSERT INTO t (a) SELECT DISTINCT x.a + 10000 FROM source x JOIN source y USING (a)');
SELECT together('WITH w AS MATERIALIZED (SELECT a FROM source) INSERT INTO t (a, b) SELECT max(a) + 20000, ''w'' FROM w GROUP BY a % 500');
SELECT together('INSERT INTO t (a, b) SELECT random() * 100, clock_timestamp()::text FROM source LIMIT 1000');
SELECT together('INSERT INTO t (a) VALUES ' || string_agg(format('(%s)', i), ', ')) FROM generate_series(30001, 30100) i;
SELECT together('INSERT INTO t (a, b) SELECT a + 40000, b FROM t');
SELECT count(*), count(DISTINCT id) FROM t;
SELECT count(*) FROM t WHERE c IS DISTINCT FROM a * 2;
SELECT bool_and(last_value = 3000) FROM numbers;
SELECT together('INSERT INTO t SELECT gen_random_uuid(), a, b FROM source ORDER BY b || a, a % 10');

-- switched off, also for a plan that was made before
PREPARE batch AS INSERT INTO t (a, b) SELECT a + 60000, b FROM source WHERE a <= 500;
SET plan_cache_mode = force_generic_plan;
SELECT together('EXECUTE batch');
SET lsm.insert_batching = off;
SELECT together('EXECUTE batch');
SELECT together('INSERT INTO t (b) SELECT b FROM source');
RESET lsm.insert_batching;
SELECT together('EXECUTE batch');
RESET plan_cache_mode;
DEALLOCATE batch;

-- errors
CREATE TABLE u (id int PRIMARY KEY, a int CHECK (a < 5000), b text NOT NULL) USING lsm;
INSERT INTO u SELECT i, i, 'x' FROM generate_series(1, 2000) i;
INSERT INTO u SELECT i, 1, 'x' FROM generate_series(5000, 1500, -1) i;
INSERT INTO u SELECT 10000 + i % 700, 1, 'x' FROM generate_series(1, 1000) i;
INSERT INTO u SELECT 10000 + i, i, 'x' FROM generate_series(1, 6000) i;
INSERT INTO u SELECT 10000 + i, 1, nullif(i, 300)::text FROM generate_series(1, 1000) i;
INSERT INTO u SELECT 10000 + i, 1, (1 / (300 - i))::text FROM generate_series(1, 1000) i;
-- the first rows go one by one: which error is first does not change in short statements
INSERT INTO u VALUES (10001, 1, 'x'), (1, 1, 'x'), (10002, 1, NULL);
SELECT count(*), sum(a) FROM u;
DO $$
BEGIN
	INSERT INTO u SELECT i, 1, 'x' FROM generate_series(4000, 1500, -1) i;
EXCEPTION WHEN unique_violation THEN
	INSERT INTO u SELECT i, 1, 'x' FROM generate_series(4000, 2001, -1) i;
END $$;
SELECT count(*), sum(a) FROM u;

-- what looks at the table sees the rows before, as it does with heap
CREATE TABLE h (id int PRIMARY KEY, seen int) USING heap;
CREATE TABLE v (id int PRIMARY KEY, seen int) USING lsm;
CREATE FUNCTION rows_of_h() RETURNS int LANGUAGE sql AS 'SELECT count(*)::int FROM h';
CREATE FUNCTION rows_of_v() RETURNS int LANGUAGE sql AS 'SELECT count(*)::int FROM insert_select.v';
INSERT INTO h SELECT i, rows_of_h() FROM generate_series(1, 100) i;
SELECT together('INSERT INTO v SELECT i, rows_of_v() FROM generate_series(1, 100) i');
SELECT count(*) FROM h JOIN v USING (id, seen);
-- also behind a default, a condition, a view, a set-returning function, an aggregate, a domain, a check
ALTER TABLE v ALTER seen SET DEFAULT rows_of_v();
SELECT together('INSERT INTO v SELECT i FROM generate_series(101, 200) i');
ALTER TABLE v ALTER seen DROP DEFAULT;
SELECT together('INSERT INTO v SELECT i, 0 FROM generate_series(201, 300) i WHERE rows_of_v() = i - 1');
CREATE VIEW looking AS SELECT i, rows_of_v() FROM generate_series(301, 400) i;
SELECT together('INSERT INTO v SELECT * FROM looking');
CREATE FUNCTION numbers_of_v() RETURNS SETOF int LANGUAGE plpgsql AS 'BEGIN RETURN QUERY SELECT i FROM generate_series(401, 500) i; END';
SELECT together('INSERT INTO v SELECT * FROM numbers_of_v()');
CREATE FUNCTION step(int, int) RETURNS int LANGUAGE sql AS 'SELECT insert_select.rows_of_v()';
CREATE AGGREGATE looks(int) (SFUNC = step, STYPE = int);
SELECT together('INSERT INTO v SELECT 500 + i, looks(i) FROM generate_series(1, 100) i GROUP BY i');
CREATE DOMAIN looked AS int CHECK (insert_select.rows_of_v() >= 0);
SELECT together('INSERT INTO v SELECT 600 + i, i::looked FROM generate_series(1, 100) i');
ALTER TABLE v ADD CONSTRAINT looks CHECK (seen IS NULL OR rows_of_v() > 0);
SELECT together('INSERT INTO v SELECT i FROM generate_series(701, 800) i');
ALTER TABLE v DROP CONSTRAINT looks;
-- domains within what casts and functions return, in computed columns, indexes, conditions of partitions
CREATE TYPE pair AS (a int, b looked);
CREATE TABLE x (a int, b pair, c looked[], d int) USING lsm;
SELECT together('INSERT INTO x (b) SELECT format(''(1,%s)'', i)::pair FROM generate_series(1, 100) i');
SELECT together('INSERT INTO x (c) SELECT format(''{%s}'', i)::looked[] FROM generate_series(1, 100) i');
SELECT together('INSERT INTO x (b) SELECT json_populate_record(NULL::pair, ''{"b": 1}'') FROM generate_series(1, 100) i');
SELECT together('INSERT INTO x (a) SELECT b FROM generate_series(1, 100) i, json_to_record(format(''{"b": %s}'', i)::json) AS r(b looked)');
SELECT together('INSERT INTO x (a) SELECT b FROM generate_series(1, 100) i, xmltable(''/a'' PASSING (format(''<a>%s</a>'', i)::xml) COLUMNS b looked PATH ''.'')');
SELECT together('INSERT INTO x (a, b) SELECT i, (i, 1)::pair FROM generate_series(1, 100) i');
SELECT together('INSERT INTO x (a) SELECT i FROM generate_series(1, 100) i');
ALTER TABLE x ADD e looked GENERATED ALWAYS AS (a) STORED;
SELECT together('INSERT INTO x (a) SELECT i FROM generate_series(1, 100) i');
ALTER TABLE x DROP e;
CREATE INDEX looks ON x USING lsm_index (abs(a::looked)) WHERE a < 0;
SELECT together('INSERT INTO x (a) SELECT i FROM generate_series(1, 100) i');
DROP INDEX looks;
CREATE INDEX looks ON x USING lsm_index (a) WHERE a::looked < 0;
SELECT together('INSERT INTO x (a) SELECT i FROM generate_series(1, 100) i');
DROP INDEX looks;
CREATE INDEX ON x USING lsm_index (abs(a)) WHERE a + 1 < 0;
SELECT together('INSERT INTO x (a) SELECT i FROM generate_series(1, 100) i');
CREATE TABLE y (a int) PARTITION BY RANGE (abs(a::looked));
CREATE TABLE y1 PARTITION OF y FOR VALUES FROM (0) TO (1000) USING lsm;
SELECT together('INSERT INTO y1 SELECT i FROM generate_series(1, 100) i');
DROP TABLE x, y;
-- a column that is left out
CREATE TABLE z (id int) USING lsm;
CREATE FUNCTION rows_of_z() RETURNS int LANGUAGE sql AS 'SELECT count(*)::int FROM insert_select.z';
CREATE DOMAIN few AS int CHECK (insert_select.rows_of_z() < 20);
ALTER TABLE z ADD d few;
INSERT INTO z (id) SELECT generate_series(1, 100);
SELECT count(*) FROM z;
DROP TABLE z;
DROP DOMAIN few;
-- stable functions see what was there before
CREATE FUNCTION stable_rows_of_v() RETURNS int LANGUAGE sql STABLE AS 'SELECT count(*)::int FROM insert_select.v';
SELECT together('INSERT INTO v SELECT i, stable_rows_of_v() FROM generate_series(801, 900) i');
SELECT id / 100, min(seen), max(seen), count(*) FROM (SELECT id - 1 AS id, seen FROM v) v GROUP BY 1 ORDER BY 1;

-- triggers, RETURNING, ON CONFLICT, options to check
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% %', TG_WHEN, (SELECT count(*) FROM v);
	RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT ON v EXECUTE FUNCTION note();
SELECT together('INSERT INTO v SELECT i FROM generate_series(901, 1000) i');
DROP TRIGGER note ON v;
CREATE TRIGGER note BEFORE INSERT ON v FOR EACH ROW WHEN (NEW.id % 50 = 0) EXECUTE FUNCTION note();
SELECT together('INSERT INTO v SELECT i FROM generate_series(1001, 1100) i');
DROP TRIGGER note ON v;
CREATE TRIGGER note AFTER UPDATE ON v EXECUTE FUNCTION note();
SELECT together('INSERT INTO v SELECT i FROM generate_series(1101, 1200) i');
WITH inserted AS (INSERT INTO v SELECT i FROM generate_series(1201, 1300) i RETURNING id) SELECT count(*), max(id) FROM inserted;
SELECT together('INSERT INTO v SELECT i FROM generate_series(1101, 1400) i ON CONFLICT DO NOTHING');
CREATE VIEW small AS SELECT * FROM v WHERE id < 1500 WITH CHECK OPTION;
INSERT INTO small SELECT i FROM generate_series(1401, 1600) i;
SELECT together('INSERT INTO small SELECT i FROM generate_series(1401, 1499) i');
UPDATE v SET seen = NULL;
ALTER TABLE v ADD UNIQUE (seen) DEFERRABLE INITIALLY DEFERRED;
INSERT INTO v SELECT 2000 + i, i % 70 FROM generate_series(1, 100) i;
ALTER TABLE v DROP CONSTRAINT v_seen_key;
SELECT count(*), count(DISTINCT id), max(id) FROM v;

-- plans that are older than the table's columns
CREATE TABLE w (a int, b int, c int) USING lsm;
PREPARE fill AS INSERT INTO w (a, c) SELECT i, i FROM generate_series(1, 100) i;
EXECUTE fill;
ALTER TABLE w DROP COLUMN b;
ALTER TABLE w ADD COLUMN d int DEFAULT 7;
EXECUTE fill;
DEALLOCATE fill;
PREPARE fill(int) AS INSERT INTO w SELECT i, i, i FROM generate_series(1, $1) i;
EXECUTE fill(100);
EXECUTE fill(50);
CREATE FUNCTION fill() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	n int;
BEGIN
	INSERT INTO w SELECT i, i, i FROM generate_series(1, 100) i;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
END $$;
SELECT fill(), fill();
SELECT together('INSERT INTO w SELECT i, i, i FROM generate_series(1, 100) i');
SELECT count(*), sum(a), sum(c), sum(d) FROM w;

-- partitions
CREATE TABLE p (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000) USING lsm;
SELECT together('INSERT INTO p1 SELECT i, i FROM generate_series(0, 999) i');
INSERT INTO p1 SELECT i, i FROM generate_series(900, 1000) i;
INSERT INTO p SELECT i, i FROM generate_series(0, 999) i;
SELECT count(*) FROM p;

-- several unique indexes
CREATE TABLE s (a int PRIMARY KEY, b int UNIQUE, c int) USING lsm;
CREATE INDEX ON s USING lsm_index (c);
SELECT together('INSERT INTO s SELECT i, -i, i % 10 FROM generate_series(1, 500) i');
INSERT INTO s SELECT i, i - 700, i FROM generate_series(501, 1000) i;
SELECT count(*), sum(a), sum(b) FROM s;
SELECT count(*) FROM s WHERE c = 7;
CREATE TABLE e (a int PRIMARY KEY, b int, EXCLUDE USING hash (b WITH =)) USING lsm;
INSERT INTO e SELECT i, -i FROM generate_series(1, 500) i;
INSERT INTO e SELECT i, i - 700 FROM generate_series(501, 1000) i;
SELECT count(*), sum(a), sum(b) FROM e;

-- long rows, temporary and unlogged tables, serializable transactions
CREATE TABLE l (a int PRIMARY KEY, b text) USING lsm;
ALTER TABLE l ALTER b SET STORAGE EXTERNAL;
INSERT INTO l SELECT i, repeat(i::text, i * 20) FROM generate_series(1, 300) i;
INSERT INTO l SELECT a + 300, b FROM l;
SELECT count(*) FROM l WHERE b = repeat(((a - 1) % 300 + 1)::text, ((a - 1) % 300 + 1) * 20);
CREATE TEMP TABLE temporary (a int PRIMARY KEY, b int) USING lsm;
INSERT INTO temporary SELECT i, i FROM generate_series(1, 1000) i;
CREATE UNLOGGED TABLE unlogged (a int PRIMARY KEY, b int) USING lsm;
INSERT INTO unlogged SELECT i, i FROM temporary i(i);
SELECT count(*), sum(a), sum(b) FROM unlogged JOIN temporary USING (a, b);
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO unlogged SELECT i, i FROM generate_series(1001, 2000) i;
COMMIT;
SELECT count(*), sum(a) FROM unlogged;

SELECT relname, v FROM pg_class c, lsm_verify(c.oid) v
	WHERE relnamespace = 'insert_select'::regnamespace AND relam IN (SELECT oid FROM pg_am WHERE amname LIKE 'lsm%');
SET client_min_messages = warning;
DROP SCHEMA insert_select CASCADE;
