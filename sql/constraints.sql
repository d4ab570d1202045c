-- Constraints of lsm tables: which index serves them, and what PostgreSQL 15 cannot do with lsm_index
SET lsm.constraint_index = lsm;
CREATE VIEW key_indexes AS
SELECT t.relname AS "table", c.relname AS index, a.amname, i.indisprimary AS pk, i.indisunique AS uniq
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
	JOIN pg_am a ON a.oid = c.relam
WHERE t.relnamespace = 'public'::regnamespace ORDER BY 1, 2;

CREATE TABLE t1 (id bigint PRIMARY KEY, u text UNIQUE, a int, b int, UNIQUE (a, b)) USING lsm;
CREATE TABLE t2 (id int, p point, j tsquery) USING lsm;
ALTER TABLE t2 ADD PRIMARY KEY (id);
ALTER TABLE t2 ADD CONSTRAINT t2_j UNIQUE (j);
ALTER TABLE t2 ADD COLUMN x uuid UNIQUE, ADD COLUMN y serial, ADD UNIQUE (y);
CREATE TABLE t3 (id int PRIMARY KEY) USING heap;
CREATE TABLE t4 (id int PRIMARY KEY WITH (fillfactor = 70)) USING lsm;
CREATE TABLE t5 (id int PRIMARY KEY WITH (bits_per_key = 12)) USING lsm;
CREATE TABLE t6 (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED) USING lsm;
CREATE TABLE t7 (id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&)) USING lsm;
SET default_table_access_method = lsm;
CREATE TABLE t8 (id int, UNIQUE (id) INCLUDE (id));
RESET default_table_access_method;
SET lsm.constraint_index = btree;
CREATE TABLE t9 (id int PRIMARY KEY) USING lsm;
ALTER TABLE t9 ADD COLUMN u int UNIQUE;
SET lsm.constraint_index = lsm;
CREATE SCHEMA s1 CREATE TABLE t10 (id int PRIMARY KEY) USING lsm;
SELECT * FROM key_indexes;

INSERT INTO t1 VALUES (1, 'a', 1, 1), (2, 'b', 1, 2);
INSERT INTO t1 VALUES (1, 'c', 2, 2);
INSERT INTO t1 VALUES (3, 'a', 2, 2);
INSERT INTO t1 VALUES (3, 'c', 1, 2);
INSERT INTO t1 VALUES (NULL, 'c', 1, 3);

-- deferred uniqueness
INSERT INTO t6 SELECT generate_series(1, 5);
UPDATE t6 SET id = id + 1;
SELECT * FROM t6 ORDER BY id;
BEGIN;
INSERT INTO t6 VALUES (3);
DELETE FROM t6 WHERE id = 3;
INSERT INTO t6 VALUES (3);
COMMIT;
BEGIN;
INSERT INTO t6 VALUES (3);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
BEGIN;
INSERT INTO t6 VALUES (3);
COMMIT;
SELECT * FROM t6 ORDER BY id;

-- foreign keys make keys btree
CREATE TABLE f1 (r text REFERENCES t1 (u)) USING heap;
INSERT INTO t9 VALUES (1, 1), (2, 2);
INSERT INTO t9 VALUES (1, 10) ON CONFLICT (id) DO UPDATE SET u = excluded.u RETURNING *;
INSERT INTO t9 VALUES (2, 20) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO t9 SELECT i, i + 100 FROM generate_series(1, 10) i ON CONFLICT (id) DO UPDATE SET u = excluded.u;
SELECT * FROM t9 ORDER BY id;
CREATE TABLE f2 (r int REFERENCES t9 ON DELETE CASCADE ON UPDATE CASCADE, s int) USING lsm;
INSERT INTO f2 VALUES (1, 1), (2, 2), (2, 3);
INSERT INTO f2 VALUES (99, 1);
DELETE FROM t9 WHERE id = 1;
UPDATE t9 SET id = 200 WHERE id = 2;
SELECT * FROM f2 ORDER BY s;
-- from lsm_index to btree in place
ALTER TABLE t1 DROP CONSTRAINT t1_pkey;
SET lsm.constraint_index = btree;
ALTER TABLE t1 ADD PRIMARY KEY (id);
SET lsm.constraint_index = lsm;
ALTER TABLE f1 ADD COLUMN r2 bigint REFERENCES t1;
SELECT amname FROM key_indexes WHERE index = 't1_pkey';
-- USING lsm in an exclusion constraint means lsm_index
CREATE TABLE e1 (id int, EXCLUDE USING lsm (id WITH =)) USING lsm;
INSERT INTO e1 VALUES (1), (2);
INSERT INTO e1 VALUES (1);
DROP TABLE e1, f1, f2, t1, t2, t3, t4, t5, t6, t7, t8, t9;
DROP SCHEMA s1 CASCADE;
-- REFRESH MATERIALIZED VIEW CONCURRENTLY wants a btree key
CREATE TABLE src AS SELECT i AS id, i % 7 AS v FROM generate_series(1, 100) i;
CREATE MATERIALIZED VIEW mv USING lsm AS SELECT * FROM src;
CREATE UNIQUE INDEX mv_part ON mv USING lsm (id) WHERE v > 3;
CREATE UNIQUE INDEX mv_expr ON mv USING lsm ((id + 1));
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
CREATE UNIQUE INDEX mv_id ON mv USING lsm (id) WITH (bits_per_key = 12);
CREATE UNIQUE INDEX mv_other ON mv USING lsm (id, v);
COMMENT ON INDEX mv_id IS 'stays';
UPDATE src SET v = 70 WHERE id % 10 = 0;
DELETE FROM src WHERE id = 5;
INSERT INTO src VALUES (101, 1), (102, NULL);
REFRESH MATERIALIZED VIEW CONCURRENTLY mv WITH NO DATA;
CREATE ROLE lsm_stranger;
SET ROLE lsm_stranger;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
RESET ROLE;
-- 17 only: who may maintain the view is told who can have its key rebuilt
DO $$
DECLARE answer text; expected text := 'must be owner of table "mv" to have its index "mv_id" rebuilt as btree, The owner can make one: CREATE UNIQUE INDEX ... USING btree.';
BEGIN
	IF current_setting('server_version_num')::int / 10000 <> 17 THEN RETURN; END IF;
	EXECUTE 'GRANT MAINTAIN ON mv TO lsm_stranger';
	SET LOCAL ROLE lsm_stranger;
	BEGIN
		REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS answer = PG_EXCEPTION_HINT;
		answer := SQLERRM || ', ' || answer;
	END;
	RESET ROLE;
	EXECUTE 'REVOKE MAINTAIN ON mv FROM lsm_stranger';
	IF answer IS DISTINCT FROM expected THEN RAISE WARNING '%', answer; END IF;
END $$;
DROP ROLE lsm_stranger;
BEGIN;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT index, amname FROM key_indexes WHERE "table" = 'mv';
ROLLBACK;
SELECT index, amname FROM key_indexes WHERE "table" = 'mv';
SELECT diff('SELECT * FROM src', 'SELECT * FROM mv');
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT diff('SELECT * FROM src', 'SELECT * FROM mv');
UPDATE src SET v = v + 1 WHERE id < 50;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT diff('SELECT * FROM src', 'SELECT * FROM mv');
SELECT index, amname, obj_description(index::regclass) FROM key_indexes WHERE "table" = 'mv';
SELECT * FROM lsm_verify('mv');
REFRESH MATERIALIZED VIEW mv WITH NO DATA;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
REFRESH MATERIALIZED VIEW mv;
SELECT diff('SELECT * FROM src', 'SELECT * FROM mv');
-- a heap one
CREATE MATERIALIZED VIEW mvh USING heap AS SELECT * FROM src;
CREATE UNIQUE INDEX mvh_id ON mvh USING lsm (id);
REFRESH MATERIALIZED VIEW CONCURRENTLY mvh;
SELECT index, amname FROM key_indexes WHERE "table" = 'mvh';
DROP MATERIALIZED VIEW mv, mvh;
DROP TABLE src;
-- a unique index of a partitioned table
CREATE TABLE pq (id int, k int, v int) PARTITION BY RANGE (id);
CREATE TABLE pq1 PARTITION OF pq FOR VALUES FROM (0) TO (10) USING lsm;
CREATE UNIQUE INDEX pq_u ON pq USING lsm (id) WITH (bits_per_key = 12);
CREATE UNIQUE INDEX pq_o ON ONLY pq USING lsm (id, k);
CREATE UNIQUE INDEX pq1_o ON pq1 USING lsm (id, k);
ALTER INDEX pq_o ATTACH PARTITION pq1_o;
CREATE UNIQUE INDEX ON pq USING lsm (k);
CREATE INDEX pq_n ON pq USING lsm (k);
SELECT index, amname, uniq FROM key_indexes WHERE "table" ~ '^pq';
INSERT INTO pq VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET k = 9;
INSERT INTO pq VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET k = 9 RETURNING *;
DROP TABLE pq;
DROP VIEW key_indexes;

-- a transaction that is read-only, as all are on a standby: nothing is locked or rebuilt before core says no
CREATE TABLE ro (id int PRIMARY KEY, v text) USING lsm;
CREATE UNIQUE INDEX ro_v ON ro USING lsm (v);
BEGIN READ ONLY;
ALTER TABLE ro ADD CONSTRAINT ro_v_key UNIQUE USING INDEX ro_v, ALTER COLUMN id TYPE bigint;
ROLLBACK;
SET lsm.constraint_index = btree;
BEGIN READ ONLY;
ALTER TABLE ro ADD CONSTRAINT ro_v_key UNIQUE USING INDEX ro_v;
ROLLBACK;
RESET lsm.constraint_index;
DROP TABLE ro;
