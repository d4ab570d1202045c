-- tables
CREATE TABLE d@ (k int, id int, n bigint, v text, j jsonb, PRIMARY KEY (k, id)) USING AM;
CREATE TABLE e@ (k int PRIMARY KEY, id int, w numeric) USING AM;
CREATE TABLE r@ (id int PRIMARY KEY, name text UNIQUE) USING AM;
SELECT create_distributed_table('d@', 'k') IS NULL;
SELECT create_distributed_table('e@', 'k', colocate_with => 'd@') IS NULL;
SELECT create_reference_table('r@') IS NULL;
CREATE INDEX d_n@ ON d@ INDEX AM (n);
CREATE INDEX d_v@ ON d@ INDEX AM (v) WHERE id < 10;
---
-- COPY
COPY r@ FROM stdin WITH (FORMAT csv);
1,one
2,two
3,three
4,"four, with a comma"
5,
\.
COPY d@ (k, id, n) FROM PROGRAM 'seq 1 900 | while read i; do echo "$((i % 90)) $i $((i % 7))"; done' WITH (DELIMITER ' ');
COPY (SELECT k, id, n FROM d@ WHERE k < 5 ORDER BY 1, 2) TO stdout;
---
-- COPY of a key that is there is refused
COPY d@ (k, id, n) FROM PROGRAM 'echo 1000 1 1; echo 1 1 1' WITH (DELIMITER ' ');
---
-- COPY of a key of a reference table that is there is refused
INSERT INTO r@ VALUES (9, 'one');
---
-- INSERT of a query of no table
INSERT INTO d@ SELECT g % 200, 1000 + g, g, 'v' || g % 13, jsonb_build_object('g', g) FROM generate_series(1, 2000) g;
INSERT INTO d@ SELECT 5000 + g, 1, g, repeat(md5(g::text), 200), NULL FROM generate_series(1, 20) g;
---
-- INSERT of a query of the same distribution
INSERT INTO e@ SELECT k, count(*), sum(n) FROM d@ GROUP BY k;
INSERT INTO e@ SELECT DISTINCT k, 1, 1 FROM d@ ON CONFLICT (k) DO UPDATE SET w = e@.w + 1 WHERE e@.id > 3;
---
-- INSERT of a query of another distribution
INSERT INTO e@ SELECT 10000 + id, min(k), min(n) FROM d@ WHERE id < 100 AND k > 3 GROUP BY id;
---
-- INSERT by way of the coordinator
INSERT INTO e@ SELECT 20000 + id, min(k), min(n) FROM d@ WHERE k < 50 GROUP BY id ORDER BY id LIMIT 100;
---
-- ON CONFLICT
INSERT INTO d@ VALUES (1, 1, 0), (1, 2, 0), (700, 1, 0) ON CONFLICT DO NOTHING RETURNING k, id;
INSERT INTO d@ VALUES (1, 1, 5), (2, 2, 5), (701, 1, 5) ON CONFLICT (k, id) DO UPDATE SET n = d@.n + excluded.n RETURNING k, id, n;
INSERT INTO r@ VALUES (1, 'uno') ON CONFLICT (id) DO UPDATE SET name = r@.name || ' ' || excluded.name RETURNING *;
---
-- ON CONFLICT twice for one row is refused
INSERT INTO d@ VALUES (1, 1, 5), (1, 1, 6) ON CONFLICT (k, id) DO UPDATE SET n = 0;
---
-- UPDATE and DELETE
UPDATE d@ SET n = n + 1 WHERE k = 7 RETURNING id, n;
UPDATE d@ SET v = v || '!' WHERE n % 5 = 0;
UPDATE d@ SET v = e.w::text FROM e@ e WHERE e.k = d@.k AND e.id > 5;
UPDATE d@ SET j = j || '{"x": 1}' WHERE j ->> 'g' = '7' RETURNING j;
DELETE FROM d@ WHERE id % 17 = 3;
DELETE FROM d@ USING r@ r WHERE r.id = d@.n AND d@.k < 20;
DELETE FROM e@ WHERE k IN (SELECT k FROM d@ WHERE n = 6);
UPDATE r@ SET name = 'six' WHERE name IS NULL;
---
-- another key of distribution is refused
UPDATE d@ SET k = 3 WHERE k = 4;
---
-- joins
SELECT count(*), sum(d.n), sum(e.w) FROM d@ d JOIN e@ e USING (k);
SELECT count(*), sum(d.n) FROM d@ d LEFT JOIN e@ e USING (k) WHERE e.k IS NULL;
SELECT r.name, count(*) FROM d@ d JOIN r@ r ON r.id = d.n GROUP BY 1;
SELECT count(*), sum(e.w) FROM d@ d JOIN e@ e ON e.id = d.id;
SELECT count(*), sum(a.n * b.n) FROM d@ a, d@ b WHERE a.id = b.id AND a.k <> b.k + 1;
SELECT d.k, x.m FROM e@ d, LATERAL (SELECT max(n) m FROM d@ i WHERE i.k = d.k) x WHERE d.k < 20;
---
-- aggregates, windows, subqueries, sets
SELECT n, count(*), count(DISTINCT k), avg(id), min(v), max(v) FROM d@ GROUP BY n HAVING count(*) > 2;
SELECT k, id, rank() OVER (PARTITION BY k ORDER BY n DESC, id) FROM d@ WHERE k < 6;
SELECT k, sum(n) FROM (SELECT k, n FROM d@ ORDER BY n DESC, k, id LIMIT 50) x GROUP BY k;
WITH big AS (SELECT k, id FROM d@ WHERE n > 100), gone AS (DELETE FROM d@ WHERE k = 11 RETURNING id) SELECT (SELECT count(*) FROM big), (SELECT count(*) FROM gone);
SELECT count(*) FROM d@ WHERE k IN (SELECT k FROM e@ WHERE w > 10) AND id NOT IN (SELECT id FROM r@ WHERE id IS NOT NULL);
SELECT k FROM d@ WHERE k < 10 UNION SELECT id FROM r@ EXCEPT SELECT 3;
SELECT * FROM d@ WHERE n BETWEEN 20 AND 30 ORDER BY n DESC, k, id LIMIT 7;
SELECT min(n), max(n), percentile_disc(0.5) WITHIN GROUP (ORDER BY n) FROM d@;
SELECT k, EXISTS (SELECT FROM d@ d WHERE d.k = e.k AND d.n > 5) FROM e@ e WHERE k < 10;
---
-- one tenant
SET citus.log_remote_commands = off;
SELECT * FROM d@ WHERE k = 3 AND id = 1003;
SELECT id, n FROM d@ WHERE k = 3 AND (k, id) > (3, 1200) ORDER BY id LIMIT 5;
SELECT d.id, r.name FROM d@ d JOIN r@ r ON r.id = d.n WHERE d.k = 3;
PREPARE p (int, int) AS SELECT n FROM d@ WHERE k = $1 AND id = $2;
EXECUTE p (1, 1); EXECUTE p (2, 2); EXECUTE p (3, 3); EXECUTE p (4, 4); EXECUTE p (5, 5); EXECUTE p (6, 6); EXECUTE p (7, 7);
---
-- transactions
BEGIN;
UPDATE d@ SET n = -1 WHERE k = 21;
SAVEPOINT a;
DELETE FROM d@ WHERE k IN (22, 23);
INSERT INTO d@ VALUES (22, 22, 22), (23, 23, 23);
SELECT count(*), sum(n) FROM d@;
ROLLBACK TO a;
SELECT count(*), sum(n) FROM d@;
INSERT INTO e@ VALUES (60001, 1, 1), (60002, 1, 1);
SELECT k, id FROM d@ WHERE k = 24 FOR UPDATE;
COMMIT;
BEGIN;
TRUNCATE e@;
INSERT INTO e@ SELECT k, 0, sum(n) FROM d@ GROUP BY 1;
SELECT count(*) FROM e@;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM e@;
DELETE FROM e@ WHERE k > 60000;
COMMIT;
SELECT count(*) FROM e@;
---
-- a transaction with a key that is there is refused
BEGIN;
INSERT INTO d@ VALUES (800, 1), (801, 1), (802, 1);
INSERT INTO d@ VALUES (800, 1);
COMMIT;
SELECT count(*) FROM d@ WHERE k BETWEEN 800 AND 802;
---
-- columns, indexes, constraints
ALTER TABLE d@ ADD c int DEFAULT 5;
UPDATE d@ SET c = n WHERE n < 4;
ALTER TABLE d@ ALTER n TYPE numeric, ALTER v SET DEFAULT 'none';
ALTER TABLE d@ DROP c;
CREATE UNIQUE INDEX d_u@ ON d@ INDEX AM (k, n, id);
ALTER TABLE d@ ADD CONSTRAINT positive CHECK (id > 0);
INSERT INTO d@ (k, id, n) SELECT 900 + g, g, g FROM generate_series(1, 100) g;
SELECT v, count(*) FROM d@ WHERE k > 900 GROUP BY v;
DROP INDEX d_n@;
CREATE INDEX CONCURRENTLY d_n@ ON d@ INDEX AM (n, k);
REINDEX TABLE d@;
VACUUM (ANALYZE) d@;
VACUUM FULL e@;
SELECT count(*), sum(n) FROM d@;
---
-- a check is refused
INSERT INTO d@ (k, id, n) VALUES (1, -1, 1);
---
-- a foreign key to a reference table
DELETE FROM e@ WHERE id NOT IN (SELECT id FROM r@);
ALTER TABLE e@ ADD CONSTRAINT e_r@ FOREIGN KEY (id) REFERENCES r@ (id) ON DELETE CASCADE;
DELETE FROM r@ WHERE id = 2;
SELECT count(*), sum(w) FROM e@;
---
-- a reference to nothing is refused
INSERT INTO e@ VALUES (1000001, 77, 1);
---
-- what is distributed becomes local, and is distributed otherwise
ALTER TABLE e@ DROP CONSTRAINT e_r@;
SELECT undistribute_table('e@') IS NULL;
SELECT count(*), sum(w) FROM e@;
SELECT create_distributed_table('e@', 'k', colocate_with => 'd@') IS NULL;
SELECT alter_distributed_table('e@', shard_count => 4, cascade_to_colocated => false) IS NULL;
SELECT count(*), sum(w) FROM e@;
SELECT count(*), sum(e.w) FROM d@ d JOIN e@ e USING (k);
---
-- a local table beside them
CREATE TABLE o@ (k int PRIMARY KEY, x text) USING AM;
INSERT INTO o@ SELECT g, 'x' || g FROM generate_series(1, 50) g;
SELECT count(*), max(x) FROM o@ JOIN d@ USING (k);
UPDATE o@ SET x = 'seen' FROM e@ e WHERE e.k = o@.k;
SELECT x, count(*) FROM o@ GROUP BY x;
SELECT citus_add_local_table_to_metadata('o@') IS NULL;
SELECT count(*), max(x) FROM o@ JOIN d@ USING (k);
DROP TABLE o@;
---
-- columnar beside them
CREATE TABLE c@ (k int, id int, n numeric, v text) USING columnar;
SELECT create_distributed_table('c@', 'k', colocate_with => 'd@') IS NULL;
BEGIN;
INSERT INTO c@ SELECT k, id, n, v FROM d@ WHERE k < 100;
UPDATE d@ SET n = n + 1 WHERE k < 10;
INSERT INTO d@ (k, id, n) SELECT k, id + 1000000, n FROM c@ WHERE k < 10;
SELECT count(*), sum(d.n - c.n) FROM d@ d JOIN c@ c USING (k, id);
COMMIT;
BEGIN; INSERT INTO c@ SELECT k, id, n, v FROM d@ WHERE k > 100; ROLLBACK;
SELECT count(*), sum(d.n - c.n) FROM d@ d JOIN c@ c USING (k, id);
DROP TABLE c@;
---
-- columnar and back
CREATE TABLE c@ (k int, id int, v text) USING AM;
SELECT create_distributed_table('c@', 'k', colocate_with => 'd@') IS NULL;
INSERT INTO c@ SELECT k, id, v FROM d@ WHERE v IS NOT NULL;
SELECT alter_table_set_access_method('c@', 'columnar') IS NULL;
SELECT count(*), sum(hashtext(v)) FROM c@;
SELECT alter_table_set_access_method('c@', (SELECT amname FROM pg_am a JOIN pg_class c ON c.relam = a.oid WHERE c.oid = 'd@'::regclass)) IS NULL;
SELECT count(*), sum(hashtext(v)) FROM c@;
DELETE FROM c@ WHERE id % 2 = 0;
SELECT count(*), sum(hashtext(v)) FROM c@;
DROP TABLE c@;
---
-- a table of one shard, a schema that is distributed
CREATE TABLE s@ (id int PRIMARY KEY, v text) USING AM;
SELECT create_distributed_table('s@', NULL) IS NULL;
INSERT INTO s@ SELECT g, 'v' || g FROM generate_series(1, 500) g;
SELECT count(*), max(v) FROM s@ JOIN r@ USING (id);
DROP TABLE s@;
SET citus.enable_schema_based_sharding = on;
CREATE SCHEMA tenant@;
CREATE TABLE tenant@.t (id int PRIMARY KEY, v text) USING AM;
CREATE TABLE tenant@.u (id int REFERENCES tenant@.t, w int) USING AM;
INSERT INTO tenant@.t SELECT g, 'v' || g FROM generate_series(1, 500) g;
INSERT INTO tenant@.u SELECT g, g FROM generate_series(1, 500) g;
SELECT count(*), sum(w) FROM tenant@.t JOIN tenant@.u USING (id);
SET client_min_messages = warning;
DROP SCHEMA tenant@ CASCADE;
---
-- MERGE
MERGE INTO d@ d USING e@ e ON d.k = e.k AND d.id = 1 WHEN MATCHED THEN UPDATE SET n = e.w WHEN NOT MATCHED THEN INSERT (k, id, n) VALUES (e.k, 1, e.w);
SELECT count(*), sum(n) FROM d@;
