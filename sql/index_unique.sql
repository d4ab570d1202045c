-- Uniqueness through lsm_index, on lsm and heap tables.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS lsmam;
CREATE SCHEMA index_unique;
SET search_path = index_unique, public;
SET TimeZone = 'UTC';

-- immediate
CREATE TABLE t (a int, b text COLLATE "C", c int) USING lsm;
CREATE UNIQUE INDEX t_key ON t USING lsm_index (a, b) INCLUDE (c);
INSERT INTO t VALUES (1, 'x', 1), (1, 'y', 2), (2, 'x', 3);
INSERT INTO t VALUES (1, 'x', 4);
INSERT INTO t VALUES (3, 'x', 1), (3, 'x', 2);
INSERT INTO t VALUES (NULL, 'x', 1), (NULL, 'x', 2), (1, NULL, 3), (1, NULL, 4), (NULL, NULL, 5), (NULL, NULL, 6);
UPDATE t SET b = 'x' WHERE a = 1 AND b = 'y';
UPDATE t SET c = c + 1;
UPDATE t SET c = c + 1;
SELECT a, b, c FROM t ORDER BY a, b, c;

-- within one transaction
BEGIN;
DELETE FROM t WHERE a = 1 AND b = 'x';
INSERT INTO t VALUES (1, 'x', 10);
SAVEPOINT s;
INSERT INTO t VALUES (1, 'x', 11);
ROLLBACK TO s;
DELETE FROM t WHERE a = 1 AND b = 'x';
ROLLBACK TO s;
INSERT INTO t VALUES (1, 'x', 12);
ROLLBACK;
INSERT INTO t VALUES (1, 'x', 13);
BEGIN;
INSERT INTO t VALUES (9, 'x', 1);
ROLLBACK;
INSERT INTO t VALUES (9, 'x', 2);
SELECT a, b, c FROM t WHERE a = 9;

-- a key that is updated back and forth collects versions
DO $$
BEGIN
	FOR i IN 1..200 LOOP
		UPDATE t SET c = i WHERE a = 2 AND b = 'x';
		UPDATE t SET b = CASE b WHEN 'p' THEN 'q' ELSE 'p' END WHERE a = 9;
	END LOOP;
END $$;
INSERT INTO t VALUES (2, 'x', 0);
SELECT c FROM t WHERE a = 2 AND b = 'x';
SELECT a, b FROM t WHERE a = 9;
VACUUM t;
INSERT INTO t VALUES (2, 'x', 0);
INSERT INTO t SELECT 9, b FROM t WHERE a = 9;

-- values that are equal but not the same
CREATE TABLE n (k numeric, f float8, p char(5) COLLATE "C", i interval) USING lsm;
CREATE UNIQUE INDEX n_k ON n USING lsm_index (k);
CREATE UNIQUE INDEX n_f ON n USING lsm_index (f);
CREATE UNIQUE INDEX n_p ON n USING lsm_index (p DESC);
CREATE UNIQUE INDEX n_i ON n USING lsm_index (i);
INSERT INTO n VALUES (1.0, 0, 'a', '1 month');
INSERT INTO n (k) VALUES (1.00);
INSERT INTO n (f) VALUES ('-0');
INSERT INTO n (p) VALUES ('a  ');
INSERT INTO n (i) VALUES ('30 days');
INSERT INTO n VALUES ('NaN', 'NaN', 'b', '31 days');
INSERT INTO n (k) VALUES ('NaN');
INSERT INTO n (f) VALUES ('NaN');
SELECT * FROM n ORDER BY k;

-- NULLS NOT DISTINCT
CREATE TABLE nn (a int, b int) USING lsm;
CREATE UNIQUE INDEX nn_key ON nn USING lsm_index (a, b) NULLS NOT DISTINCT;
INSERT INTO nn VALUES (1, NULL), (NULL, 1), (NULL, NULL);
INSERT INTO nn VALUES (1, NULL);
INSERT INTO nn VALUES (NULL, NULL);
INSERT INTO nn VALUES (2, NULL);
SELECT * FROM nn ORDER BY a, b;

-- expressions and predicates
CREATE TABLE e (t text COLLATE "C", live bool) USING lsm;
CREATE UNIQUE INDEX e_lower ON e USING lsm_index (lower(t)) WHERE live;
INSERT INTO e VALUES ('a', true), ('A', false), ('A', false);
INSERT INTO e VALUES ('A', true);
UPDATE e SET live = true WHERE t = 'A';
UPDATE e SET live = false WHERE t = 'a';
INSERT INTO e VALUES ('A', true);

-- building
CREATE TABLE h (k int, v text) USING heap;
INSERT INTO h SELECT i, 'v' || i FROM generate_series(1, 1000) i;
INSERT INTO h VALUES (500, 'again'), (NULL, 'x'), (NULL, 'y');
CREATE UNIQUE INDEX h_key ON h USING lsm_index (k);
CREATE UNIQUE INDEX h_key ON h USING lsm_index (k) WHERE v <> 'again';
DROP INDEX h_key;
DELETE FROM h WHERE v = 'again';
CREATE UNIQUE INDEX h_key ON h USING lsm_index (k);
INSERT INTO h VALUES (500, 'again');
INSERT INTO h VALUES (1001, 'new');
CREATE UNIQUE INDEX h_nulls ON h USING lsm_index (k) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX h_many ON h USING lsm_index ((k % 10));
-- rows that are dead by now do not count, those deleted in this transaction neither
BEGIN;
UPDATE h SET v = 'changed' WHERE k <= 100;
DELETE FROM h WHERE k IS NULL;
CREATE UNIQUE INDEX h_nulls ON h USING lsm_index (k) NULLS NOT DISTINCT;
ROLLBACK;
CREATE UNIQUE INDEX CONCURRENTLY h_later ON h USING lsm_index (v);
INSERT INTO h VALUES (2000, 'v5');
REINDEX INDEX h_later;
INSERT INTO h VALUES (2000, 'v5');
SELECT indisvalid FROM pg_index WHERE indexrelid = 'h_later'::regclass;
INSERT INTO h VALUES (3000, 'v1000');
CREATE UNIQUE INDEX CONCURRENTLY h_fails ON h USING lsm_index ((k % 7));
SELECT indisvalid FROM pg_index WHERE indexrelid = 'h_fails'::regclass;
DROP INDEX h_fails;

-- a heap table whose TIDs are used again
DELETE FROM h WHERE k > 100;
VACUUM h;
INSERT INTO h SELECT i, 'w' || i FROM generate_series(101, 1000) i;
INSERT INTO h VALUES (700, 'again');
SET enable_seqscan = off;
SELECT count(*), min(v), max(v) FROM h WHERE k BETWEEN 100 AND 102;
SELECT count(*) FROM h WHERE k = 700;
RESET enable_seqscan;

-- constraints
CREATE TABLE c (id int PRIMARY KEY, k int UNIQUE DEFERRABLE INITIALLY DEFERRED, v int UNIQUE DEFERRABLE) USING lsm;
SELECT relname, amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE relname IN ('c_pkey', 'c_k_key', 'c_v_key') ORDER BY 1;
INSERT INTO c SELECT i, i, i FROM generate_series(1, 10) i;
UPDATE c SET id = id + 1;
UPDATE c SET k = k + 1;
UPDATE c SET v = v + 1;
BEGIN;
UPDATE c SET k = 5 WHERE id = 1;
SELECT count(*) FROM c WHERE k = 5;
UPDATE c SET k = 100 WHERE id = 4;
COMMIT;
BEGIN;
UPDATE c SET k = 5 WHERE id = 2;
COMMIT;
BEGIN;
UPDATE c SET k = 6 WHERE id = 2;
SET CONSTRAINTS c_k_key IMMEDIATE;
ROLLBACK;
BEGIN;
INSERT INTO c VALUES (11, 100, 100);
DELETE FROM c WHERE id = 11;
COMMIT;
BEGIN;
INSERT INTO c VALUES (11, 100, 100);
DELETE FROM c WHERE id = 4;
COMMIT;
SELECT * FROM c ORDER BY id;
INSERT INTO c VALUES (NULL, 50, 50);

DROP SCHEMA index_unique CASCADE;

-- the index of a failed concurrent build does not keep VACUUM FULL from working
CREATE TABLE f (k int) USING heap;
INSERT INTO f VALUES (1), (1), (2);
CREATE UNIQUE INDEX CONCURRENTLY f_key ON f USING lsm_index (k);
VACUUM FULL f;
REINDEX TABLE f;
-- scans are counted
DROP INDEX f_key;
CREATE INDEX f_scan ON f USING lsm_index (k);
SET enable_seqscan = off;
SELECT count(*) FROM f WHERE k = 1;
RESET enable_seqscan;
SELECT pg_stat_force_next_flush();
SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'f_scan';
DROP TABLE f;

-- a type that can be read as another one, but knows other values as equal: keys are btree's, and
-- an index that would admit both is refused
CREATE EXTENSION citext;
CREATE DOMAIN mail AS citext;
SET lsm.constraint_index = lsm;
CREATE TABLE like_text (e citext PRIMARY KEY, m mail UNIQUE, n int UNIQUE) USING lsm;
SELECT c.relname, a.amname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
WHERE i.indrelid = 'like_text'::regclass ORDER BY 1;
INSERT INTO like_text VALUES ('Bob@x', 'a', 1), ('bob@X', 'b', 2);
INSERT INTO like_text VALUES ('Bob@x', 'a', 1);
INSERT INTO like_text VALUES ('BOB@x', 'b', 2) ON CONFLICT (e) DO NOTHING;
SELECT * FROM like_text;
CREATE UNIQUE INDEX ON like_text USING lsm (e);
CREATE INDEX ON like_text USING lsm (n, m);
CREATE INDEX ON like_text USING lsm (e text_ops);
CREATE UNIQUE INDEX ON like_text USING lsm ((lower(e::text) COLLATE "C"));
ALTER TABLE like_text ADD COLUMN f citext, ADD UNIQUE (f, n);
INSERT INTO like_text VALUES ('x', 'x', 3, 'F'), ('y', 'y', 4, 'f');
DROP TABLE like_text;
CREATE TABLE like_text (e citext) USING heap;
CREATE UNIQUE INDEX ON like_text USING lsm (e);
DROP TABLE like_text;
-- nor may a column become one beneath an index: ALTER TABLE would not even read the values
CREATE TABLE like_text (e text, n int UNIQUE) USING lsm;
CREATE UNIQUE INDEX like_text_e ON like_text USING lsm (e);
CREATE TABLE like_text_child () INHERITS (like_text);
CREATE INDEX like_text_child_e ON like_text_child USING lsm (n, e);
INSERT INTO like_text VALUES ('Bob', 1), ('bob', 2);
ALTER TABLE like_text ALTER COLUMN e TYPE citext;
DROP INDEX like_text_e;
ALTER TABLE like_text ALTER COLUMN e TYPE mail;
DROP INDEX like_text_child_e;
ALTER TABLE like_text ALTER COLUMN e TYPE mail;
CREATE UNIQUE INDEX like_text_e ON like_text USING btree (e);
DELETE FROM like_text WHERE n = 1;
CREATE INDEX like_text_e ON like_text USING lsm ((e::text));
-- without a change of meaning, the index's files are kept
ALTER TABLE like_text ALTER COLUMN e TYPE text;
CREATE INDEX like_text_kept ON like_text USING lsm (e);
SELECT pg_relation_filenode('like_text_kept') AS before \gset
ALTER TABLE like_text ALTER COLUMN e TYPE varchar;
SELECT pg_relation_filenode('like_text_kept') = :before AS kept;
SELECT * FROM like_text WHERE e = 'bob';
DROP TABLE like_text CASCADE;
RESET lsm.constraint_index;
DROP EXTENSION citext CASCADE;
