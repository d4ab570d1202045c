-- What 070_logical_twins runs in a database of heap tables and in one of lsm tables, each scenario in a
-- schema of its own, behind lines "--- NAME": first what is there before, then, behind "--- body",
-- what is decoded.  "sorted": the order of rows within a transaction is nobody's promise.  "--- peek"
-- looks at slots in the middle.  "streamed": with a memory of 64 kB it is streamed.  "inserts": the publication
-- is of inserts only, so that tables may do without an identity.  "rewrites": rewritten rows are looked at.  :index is btree or lsm, :other the other table access method,
-- :db the database.  Rows are changed one after the other, by key, wherever their order is to be the same:
-- each() runs a statement for each of some numbers, $1.  churn() flushes and compacts lsm tables.

--- types
CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s fine');
CREATE TYPE pair AS (x int, y text);
CREATE DOMAIN cents AS int CHECK (VALUE >= 0);
CREATE TABLE t (id int PRIMARY KEY, a text, b bigint, c numeric(12,3), d bool, e timestamptz, f bytea, g int[], h jsonb, i uuid, j date, k interval, l mood, m pair, n cents, o char(5), p varchar(9), q float8, r bit varying, s int4range, u name, "odd ""Name" text, v real, w "char", x smallint, y inet, z tsvector);
--- body
INSERT INTO t VALUES (1, 'it''s', -5, 12.5, true, '2026-01-02 03:04:05+00', '\x00ff27', '{1,NULL,3}', '{"a": [1, 2, {"b": null}]}', '00000000-0000-0000-0000-0000000000ff', '2026-02-03', '1 mon 2 days', 'it''s fine', '(1,"a b")', 5, 'ab', 'cd', 1.5e-300, B'1010', '[1,5)', 'n', E'x\ny\\z', 'NaN', 'c', -3, '10.0.0.1/8', 'fat:1 cat:2');
INSERT INTO t (id) VALUES (2);
UPDATE t SET a = 'z', q = 'Infinity', c = 'NaN' WHERE id = 1;
UPDATE t SET id = 3, m = NULL WHERE id = 1;
UPDATE t SET m = (7, NULL), l = 'sad', g = '{{1,2},{3,4}}' WHERE id = 2;
DELETE FROM t WHERE id = 2;
DELETE FROM t WHERE id = 3;

--- identity default
CREATE TABLE t (id int PRIMARY KEY, a text, b int);
CREATE TABLE two (b int, x text, a text, PRIMARY KEY (a, b));
INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 20) g;
INSERT INTO two SELECT g, 'x', 'a' || g FROM generate_series(1, 20) g;
--- body
INSERT INTO t VALUES (100, 'x', NULL), (101, NULL, 5);
UPDATE t SET a = 'y' WHERE id = 100;
UPDATE t SET id = 200 WHERE id = 100;
UPDATE t SET id = 7, a = 'swap' WHERE id = 200 AND false;
UPDATE t SET id = 300, a = NULL, b = NULL WHERE id = 7;
UPDATE two SET x = 'y' WHERE a = 'a3' AND b = 3;
UPDATE two SET b = 33 WHERE a = 'a3' AND b = 3;
UPDATE two SET a = 'a33' WHERE a = 'a3' AND b = 33;
DELETE FROM two WHERE a = 'a33';
DELETE FROM t WHERE id = 300;
DELETE FROM t WHERE id = 8;
INSERT INTO t VALUES (8, 'again', 8);

--- identity full
CREATE TABLE t (id int PRIMARY KEY, a text, b int);
CREATE TABLE none (id int, a text, b text);
ALTER TABLE t REPLICA IDENTITY FULL;
ALTER TABLE none REPLICA IDENTITY FULL;
INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 20) g;
INSERT INTO none SELECT g, 'v' || g, NULL FROM generate_series(1, 20) g;
--- body
UPDATE t SET a = 'y' WHERE id = 10;
UPDATE t SET id = 200 WHERE id = 10;
UPDATE t SET a = NULL WHERE id = 200;
UPDATE t SET a = 'n' WHERE id = 200;
DELETE FROM t WHERE id = 200;
UPDATE none SET a = 'w' WHERE id = 4;
UPDATE none SET a = a WHERE id = 5;
DELETE FROM none WHERE id = 4;
INSERT INTO none VALUES (NULL, NULL, NULL);
DELETE FROM none WHERE id IS NULL;

--- identity nothing inserts
CREATE TABLE t (id int PRIMARY KEY, a text);
CREATE TABLE none (id int, a text);
CREATE TABLE empty ();
CREATE TABLE gone (id int NOT NULL, n int NOT NULL);
CREATE UNIQUE INDEX gone_i ON gone USING :index (n);
ALTER TABLE gone REPLICA IDENTITY USING INDEX gone_i;
INSERT INTO t SELECT g, noise(g, CASE WHEN g < 5 THEN 3000 ELSE 10 END) FROM generate_series(1, 20) g;
INSERT INTO none SELECT g, 'v' || g FROM generate_series(1, 20) g;
INSERT INTO gone SELECT g, g FROM generate_series(1, 20) g;
ALTER TABLE t REPLICA IDENTITY NOTHING;
--- body
INSERT INTO t VALUES (100, 'x');
UPDATE t SET a = 'y' WHERE id = 10;
UPDATE t SET id = 200 WHERE id = 10;
UPDATE t SET id = 201 WHERE id = 3;
DELETE FROM t WHERE id = 200;
DELETE FROM t WHERE id = 2;
UPDATE none SET a = 'w' WHERE id = 4;
UPDATE none SET id = 44 WHERE id = 4;
DELETE FROM none WHERE id = 44;
INSERT INTO none VALUES (NULL, NULL);
INSERT INTO empty DEFAULT VALUES;
INSERT INTO empty DEFAULT VALUES;
DELETE FROM empty;
DROP INDEX gone_i;
UPDATE gone SET n = 77 WHERE id = 7;
DELETE FROM gone WHERE id = 7;

--- identity missing
CREATE TABLE t (id int PRIMARY KEY, a text);
CREATE TABLE none (id int, a text);
INSERT INTO t VALUES (1, 'a');
INSERT INTO none VALUES (1, 'a');
ALTER TABLE t REPLICA IDENTITY NOTHING;
--- body
INSERT INTO t VALUES (2, 'b');
UPDATE t SET a = 'c';
DELETE FROM t;
INSERT INTO none VALUES (2, 'b');
UPDATE none SET a = 'c';
DELETE FROM none;
TRUNCATE none;

--- identity index
CREATE TABLE t (id int PRIMARY KEY, v text NOT NULL, n int NOT NULL, x text);
CREATE UNIQUE INDEX t_i ON t USING :index (v, n);
ALTER TABLE t REPLICA IDENTITY USING INDEX t_i;
CREATE TABLE nopk (x text, n int NOT NULL, y text);
CREATE UNIQUE INDEX nopk_i ON nopk USING :index (n) INCLUDE (x);
ALTER TABLE nopk REPLICA IDENTITY USING INDEX nopk_i;
INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 20) g;
INSERT INTO nopk SELECT 'x' || g, g FROM generate_series(1, 20) g;
--- body
UPDATE t SET x = 'y' WHERE id = 10;
UPDATE t SET id = 100 WHERE id = 10;
UPDATE t SET v = 'w' WHERE id = 100;
UPDATE t SET n = 5000, x = NULL WHERE id = 100;
DELETE FROM t WHERE id = 100;
UPDATE nopk SET x = 'z' WHERE n = 3;
UPDATE nopk SET n = 333 WHERE n = 3;
DELETE FROM nopk WHERE n = 333;

--- identity changes inserts
CREATE TABLE t (id int PRIMARY KEY, a text, b int NOT NULL);
CREATE UNIQUE INDEX t_b ON t USING :index (b);
INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 20) g;
--- body
BEGIN;
UPDATE t SET b = 100 WHERE id = 1;
ALTER TABLE t REPLICA IDENTITY FULL;
UPDATE t SET b = 101 WHERE id = 1;
ALTER TABLE t REPLICA IDENTITY USING INDEX t_b;
UPDATE t SET b = 102 WHERE id = 1;
SAVEPOINT a;
ALTER TABLE t REPLICA IDENTITY NOTHING;
DELETE FROM t WHERE id = 2;
ROLLBACK TO a;
DELETE FROM t WHERE id = 2;
ALTER TABLE t REPLICA IDENTITY DEFAULT;
DELETE FROM t WHERE id = 3;
COMMIT;
BEGIN;
ALTER TABLE t DROP CONSTRAINT t_pkey;
INSERT INTO t VALUES (50, 'no key', 50);
ALTER TABLE t ADD CONSTRAINT t_pkey PRIMARY KEY (b);
UPDATE t SET b = 51 WHERE b = 50;
UPDATE t SET id = 52 WHERE b = 51;
DELETE FROM t WHERE b = 51;
COMMIT;

--- toast streamed
CREATE TABLE t (id int PRIMARY KEY, a text, b text, n int);
ALTER TABLE t ALTER a SET STORAGE EXTERNAL;
CREATE TABLE f (id int PRIMARY KEY, a text, b text COMPRESSION pglz, n int);
ALTER TABLE f REPLICA IDENTITY FULL;
ALTER TABLE f ALTER a SET STORAGE EXTERNAL;
CREATE TABLE m (id int PRIMARY KEY, a text, b text, c text, n int);
ALTER TABLE m ALTER a SET STORAGE MAIN, ALTER b SET STORAGE EXTENDED, ALTER c SET STORAGE PLAIN;
CREATE TABLE low (id int PRIMARY KEY, a text, n int) WITH (toast_tuple_target = 256);
INSERT INTO t SELECT g, noise(g, 3000 * g), noise(-g, 100), g FROM generate_series(1, 9) g;
INSERT INTO f SELECT g, noise(g, 3000 * g), noise(-g, 5000), g FROM generate_series(1, 9) g;
--- body
SELECT each('INSERT INTO t VALUES ($1, noise($1, 700 * ($1 - 50)), repeat(''long '', 100 * ($1 - 50)), 1)', 50, 62);
UPDATE t SET n = n + 1 WHERE id = 9;
UPDATE t SET a = 'short' WHERE id = 9;
UPDATE t SET a = noise(77, 9000) WHERE id = 9;
UPDATE t SET a = a WHERE id = 8;
UPDATE t SET a = a || '' WHERE id = 8;
UPDATE t SET a = a || 'x' WHERE id = 8;
UPDATE t SET b = repeat('compressed', 5000) WHERE id = 7;
UPDATE t SET n = n + 1 WHERE id = 7;
UPDATE t SET a = NULL WHERE id = 7;
UPDATE t SET id = 1000 WHERE id = 6;
DELETE FROM t WHERE id = 1000;
DELETE FROM t WHERE id = 5;
UPDATE f SET n = n + 1 WHERE id = 9;
UPDATE f SET a = 'short' WHERE id = 9;
UPDATE f SET b = noise(78, 9000), a = NULL WHERE id = 9;
UPDATE f SET id = 1000 WHERE id = 6;
DELETE FROM f WHERE id = 1000;
DELETE FROM f WHERE id = 5;
BEGIN;
INSERT INTO t VALUES (200, noise(1, 20000), noise(2, 20000), 1);
UPDATE t SET n = 2 WHERE id = 200;
SAVEPOINT a;
UPDATE t SET b = noise(3, 20000) WHERE id = 200;
ROLLBACK TO a;
UPDATE t SET a = noise(4, 20000) WHERE id = 200;
DELETE FROM t WHERE id = 200;
COMMIT;
INSERT INTO m VALUES (1, noise(1, 2500), noise(2, 2500), noise(3, 1500), 1);
INSERT INTO m VALUES (2, repeat('main', 2000), repeat('ext', 4000), 'plain', 1);
INSERT INTO m VALUES (3, noise(1, 1900), noise(2, 1900), noise(3, 1900), 1);
SELECT each('UPDATE m SET n = n + 1 WHERE id = $1', 1, 3);
SELECT each('UPDATE m SET c = noise(9, 1000) WHERE id = $1', 1, 3);
SELECT each('INSERT INTO low VALUES ($1, noise($1, 40 * $1), 1)', 1, 20);
SELECT each('UPDATE low SET n = n + 1 WHERE id = $1', 1, 20);
ALTER TABLE low SET (toast_tuple_target = 2048);
SELECT each('UPDATE low SET n = n + 1 WHERE id = $1', 1, 20);

--- toast thresholds
CREATE TABLE t (id int PRIMARY KEY, a text, n int);
CREATE TABLE w (id int PRIMARY KEY, a text, b text, c text, d text, n int);
--- body
SELECT each('INSERT INTO t VALUES ($1, noise($1, $1), 1)', 1970, 2050);
SELECT each('UPDATE t SET n = n + 1 WHERE id = $1', 1970, 2050);
SELECT each('INSERT INTO w VALUES ($1, noise($1, 7 * $1), noise(-$1, 5 * $1), repeat(''c'', 90 * $1), noise(2 * $1, 3 * $1), 1)', 80, 200);
SELECT each('UPDATE w SET n = n + 1 WHERE id = $1', 80, 200);
SELECT each('UPDATE w SET d = d || ''!'' WHERE id = $1', 80, 200);

--- toasted keys
CREATE TABLE t (k text PRIMARY KEY, a text, n int);
ALTER TABLE t ALTER k SET STORAGE EXTERNAL;
CREATE TABLE i (id int PRIMARY KEY, k text NOT NULL, a text, n int);
CREATE UNIQUE INDEX i_k ON i USING :index (k);
ALTER TABLE i REPLICA IDENTITY USING INDEX i_k;
INSERT INTO t SELECT noise(g, 2300), noise(-g, 5000), g FROM generate_series(1, 6) g;
INSERT INTO i SELECT g, noise(g, 2300), noise(-g, 5000), g FROM generate_series(1, 6) g;
--- body
UPDATE t SET n = 100 WHERE k = noise(1, 2300);
UPDATE t SET k = noise(10, 2300) WHERE k = noise(1, 2300);
UPDATE t SET a = 'short' WHERE k = noise(2, 2300);
UPDATE t SET k = 'short' WHERE k = noise(2, 2300);
UPDATE t SET a = 'x' WHERE k = 'short';
DELETE FROM t WHERE k = noise(10, 2300);
DELETE FROM t WHERE k = noise(3, 2300);
UPDATE i SET n = 100 WHERE id = 1;
UPDATE i SET a = 'short' WHERE id = 1;
UPDATE i SET id = 100 WHERE id = 1;
UPDATE i SET k = noise(20, 2300) WHERE id = 100;
DELETE FROM i WHERE id = 100;
DELETE FROM i WHERE id = 2;

--- copy inserts streamed
CREATE TABLE t (id int PRIMARY KEY, a text, b numeric);
CREATE INDEX ON t USING :index (a);
--- body
COPY t FROM PROGRAM 'seq 1 3000 | sed ''s/.*/&\tvalue &\t\\N/''';
BEGIN;
COPY t FROM PROGRAM 'seq 3001 3100 | sed ''s/.*/&\tvalue &\t1.&/''';
SAVEPOINT a;
COPY t FROM PROGRAM 'seq 3101 3200 | sed ''s/.*/&\tvalue &\t1.&/''';
ROLLBACK TO a;
COPY t FROM PROGRAM 'seq 3201 3210 | sed ''s/.*/&\tvalue &\t1.&/''';
COMMIT;
COPY t FROM PROGRAM 'seq 4000 -1 3000 | sed ''s/.*/&\ta duplicate, soon\t1.&/''';
BEGIN;
CREATE TABLE fresh (id int, a text);
COPY fresh FROM PROGRAM 'seq 1 500 | sed ''s/.*/&\tvalue &/''';
COMMIT;
BEGIN;
CREATE TABLE frozen (id int, a text);
COPY frozen FROM PROGRAM 'seq 1 500 | sed ''s/.*/&\tvalue &/''' (FREEZE);
COMMIT;
BEGIN;
TRUNCATE fresh;
COPY fresh FROM PROGRAM 'seq 1 50 | sed ''s/.*/&\tvalue &/''' (FREEZE);
INSERT INTO fresh VALUES (0, noise(1, 5000));
COMMIT;
CREATE TABLE w (id int, a text);
COPY w FROM PROGRAM 'perl -e ''foreach (1 .. 40) { print "$_\t", join("", map { chr(97 + ($_ * 7 + $_ * $_ * 13) % 26) } 1 .. 150 * $_), "\n" }''';

--- insert select inserts
CREATE TABLE t (id int PRIMARY KEY, a text);
CREATE TABLE u (LIKE t INCLUDING ALL);
--- body
INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 4000) g;
INSERT INTO u SELECT * FROM t WHERE id % 2 = 0 ORDER BY id DESC;
INSERT INTO t VALUES (10001, 'a'), (10002, 'b'), (10003, NULL), (10004, 'd') RETURNING *;
INSERT INTO u TABLE u EXCEPT TABLE u;
CREATE TABLE made AS SELECT g AS id, 'm' || g AS v FROM generate_series(1, 700) g;
SELECT g AS id INTO made2 FROM generate_series(1, 7) g;
CREATE MATERIALIZED VIEW mv AS SELECT g AS id FROM generate_series(1, 5) g;
REFRESH MATERIALIZED VIEW mv;
CREATE UNLOGGED TABLE ul (id int PRIMARY KEY);
INSERT INTO ul SELECT generate_series(1, 50);
CREATE TEMP TABLE tmp (id int PRIMARY KEY);
INSERT INTO tmp SELECT generate_series(1, 50);
UPDATE tmp SET id = id + 100;
INSERT INTO ul SELECT id FROM tmp;
BEGIN;
INSERT INTO ul VALUES (1001);
INSERT INTO t VALUES (20000, 'beside unlogged');
ALTER TABLE ul SET LOGGED;
INSERT INTO ul VALUES (1002);
COMMIT;
UPDATE ul SET id = 1003 WHERE id = 1002;
ALTER TABLE ul SET UNLOGGED;
INSERT INTO ul VALUES (1004);
DROP TABLE tmp;

--- savepoints
CREATE TABLE t (id int PRIMARY KEY, a text);
--- body
BEGIN;
INSERT INTO t VALUES (1, 'kept');
SAVEPOINT a;
INSERT INTO t VALUES (2, 'gone');
SAVEPOINT b;
UPDATE t SET a = 'gone' WHERE id = 1;
RELEASE b;
ROLLBACK TO a;
INSERT INTO t VALUES (2, 'kept');
SAVEPOINT b;
DELETE FROM t WHERE id = 1;
RELEASE a;
COMMIT;
BEGIN;
INSERT INTO t VALUES (3, 'rolled back');
SAVEPOINT a;
INSERT INTO t VALUES (4, 'rolled back');
RELEASE a;
ROLLBACK;
DO $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		BEGIN
			INSERT INTO t VALUES (100 + i / 2, 'sub ' || i);
			UPDATE t SET a = a || '!' WHERE id = 100 + i / 2;
			IF i % 7 = 0 THEN RAISE EXCEPTION 'no'; END IF;
		EXCEPTION WHEN OTHERS THEN
			INSERT INTO t VALUES (1000 + i, 'handled');
		END;
	END LOOP;
END $$;
CREATE FUNCTION nest(depth int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO t VALUES (5000 + depth, 'deep');
	IF depth < 80 THEN PERFORM nest(depth + 1); END IF;
	UPDATE t SET a = a || depth WHERE id = 5000 + depth;
	IF depth % 20 = 13 THEN RAISE EXCEPTION 'back'; END IF;
EXCEPTION WHEN raise_exception THEN
	INSERT INTO t VALUES (6000 + depth, 'back');
END $$;
SELECT nest(0);
BEGIN;
SAVEPOINT alone;
INSERT INTO t VALUES (7000, 'in a subtransaction only');
RELEASE alone;
COMMIT;

--- on conflict
CREATE TABLE t (id int PRIMARY KEY, u text UNIQUE, n int);
CREATE TABLE parts (id int PRIMARY KEY, n int) PARTITION BY RANGE (id);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
INSERT INTO t SELECT g, 'u' || g, 0 FROM generate_series(1, 10) g;
--- body
INSERT INTO t VALUES (1, 'x', 1) ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (11, 'u1', 1) ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (12, 'u12', 1) ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (1, 'y', 1), (13, 'u13', 1), (2, 'y', 2) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n;
INSERT INTO t VALUES (20, 'u5', 9) ON CONFLICT (u) DO UPDATE SET id = excluded.id;
INSERT INTO t VALUES (3, 'z', 1) ON CONFLICT (id) DO UPDATE SET n = 5 WHERE t.n > 100;
INSERT INTO t SELECT g, 'w' || g, g FROM generate_series(5, 15) g ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (4, 'u6', 1) ON CONFLICT (id) DO UPDATE SET u = 'u6';
BEGIN;
INSERT INTO t VALUES (30, 'u30', 1) ON CONFLICT (id) DO NOTHING;
SAVEPOINT a;
INSERT INTO t VALUES (30, 'u30', 1) ON CONFLICT (id) DO UPDATE SET n = 2;
ROLLBACK TO a;
INSERT INTO t VALUES (30, 'u31', 1) ON CONFLICT (id) DO UPDATE SET n = 3;
INSERT INTO t VALUES (31, 'u30', 1) ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (31, 'u1', 1) ON CONFLICT (id) DO NOTHING;
ROLLBACK TO a;
COMMIT;
INSERT INTO parts VALUES (1, 1), (11, 1), (1, 2), (11, 2) ON CONFLICT DO NOTHING;
INSERT INTO parts VALUES (1, 3) ON CONFLICT (id) DO UPDATE SET n = excluded.n;
INSERT INTO t SELECT 100, noise(1, 2000), 1 ON CONFLICT (u) DO UPDATE SET n = 7;
INSERT INTO t SELECT 101, noise(1, 2000), 1 ON CONFLICT (u) DO UPDATE SET n = 7;

--- prepared streamed
CREATE TABLE t (id int PRIMARY KEY, a text);
INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 20) g;
--- body
BEGIN;
INSERT INTO t VALUES (100, 'prepared');
UPDATE t SET a = 'prepared' WHERE id = 1;
SAVEPOINT a;
DELETE FROM t WHERE id = 2;
ROLLBACK TO a;
DELETE FROM t WHERE id = 3;
PREPARE TRANSACTION :'gid1';
--- peek
INSERT INTO t VALUES (101, 'between');
BEGIN;
INSERT INTO t VALUES (102, 'to be rolled back');
UPDATE t SET id = 500 WHERE id = 5;
PREPARE TRANSACTION :'gid2';
--- peek
COMMIT PREPARED :'gid1';
ROLLBACK PREPARED :'gid2';
INSERT INTO t VALUES (102, 'after');
BEGIN;
INSERT INTO t SELECT g, noise(g, 300) FROM generate_series(1000, 1999) g;
SAVEPOINT b;
INSERT INTO t SELECT g, noise(g, 300) FROM generate_series(2000, 2199) g;
ROLLBACK TO b;
UPDATE t SET a = 'x' WHERE id = 1500;
PREPARE TRANSACTION :'gid3';
--- peek
COMMIT PREPARED :'gid3';
BEGIN;
ALTER TABLE t ADD c int DEFAULT 7;
INSERT INTO t VALUES (3000, 'with ddl', 8);
UPDATE t SET c = 9 WHERE id = 6;
PREPARE TRANSACTION :'gid4';
COMMIT PREPARED :'gid4';

--- large streamed
CREATE TABLE t (id int PRIMARY KEY, a text, b text);
ALTER TABLE t ALTER b SET STORAGE EXTERNAL;
CREATE TABLE u (id int, a text);
--- body
BEGIN;
INSERT INTO t SELECT g, noise(g, 100) FROM generate_series(1, 1500) g;
SAVEPOINT a;
INSERT INTO t SELECT g, noise(g, 100) FROM generate_series(2001, 3500) g;
ROLLBACK TO a;
SELECT each('UPDATE t SET a = a || $1 WHERE id = $1', 100, 700);
INSERT INTO u SELECT g, 'u' FROM generate_series(1, 500) g;
SAVEPOINT b;
SELECT each('INSERT INTO t VALUES ($1, ''b'', noise($1, 4000))', 4000, 4060);
SELECT each('UPDATE t SET a = ''kept'' WHERE id = $1', 4000, 4060);
RELEASE b;
SELECT each('DELETE FROM t WHERE id = $1', 1, 99);
COMMIT;
BEGIN;
INSERT INTO t SELECT g, noise(g, 100) FROM generate_series(10001, 11500) g;
ROLLBACK;
INSERT INTO t VALUES (20000, 'after');

--- truncate inserts
CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a text);
CREATE TABLE r (id int PRIMARY KEY, t int REFERENCES t);
CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
INSERT INTO t (a) VALUES ('a'), ('b');
INSERT INTO r VALUES (1, 1), (2, 2);
INSERT INTO parts VALUES (1), (11);
--- body
INSERT INTO t (a) VALUES ('c');
TRUNCATE t;
TRUNCATE t CASCADE;
INSERT INTO t (a) VALUES ('d');
TRUNCATE t, r RESTART IDENTITY;
INSERT INTO t (a) VALUES ('e');
BEGIN;
INSERT INTO t (a) VALUES ('f');
TRUNCATE r, t;
INSERT INTO t (a) VALUES ('g');
SAVEPOINT a;
TRUNCATE t CASCADE;
INSERT INTO t (a) VALUES ('gone');
ROLLBACK TO a;
INSERT INTO t (a) VALUES ('h');
UPDATE t SET a = 'i' WHERE a = 'g';
TRUNCATE t CASCADE;
TRUNCATE t CASCADE;
INSERT INTO t (a) VALUES (noise(5, 9000));
UPDATE t SET id = DEFAULT;
COMMIT;
TRUNCATE parts;
INSERT INTO parts VALUES (2), (12);
TRUNCATE ONLY parts1;
BEGIN;
CREATE TABLE fresh (id int);
INSERT INTO fresh VALUES (1);
TRUNCATE fresh;
INSERT INTO fresh VALUES (2);
COMMIT;
BEGIN;
TRUNCATE parts;
ROLLBACK;

--- partitions streamed
CREATE TABLE p (id int, k int, a text, PRIMARY KEY (id, k)) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 (a text, dropped int, k int NOT NULL, id int NOT NULL);
ALTER TABLE p2 DROP dropped;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (40) PARTITION BY LIST (k);
CREATE TABLE p3a PARTITION OF p3 FOR VALUES IN (20, 21);
CREATE TABLE p3b PARTITION OF p3 DEFAULT;
INSERT INTO p SELECT g, g, 'v' || g FROM generate_series(0, 39) g;
CREATE PUBLICATION root FOR TABLE p WITH (publish_via_partition_root);
--- body
INSERT INTO p VALUES (100, 5, 'a'), (101, 15, 'b'), (102, 21, 'c'), (103, 33, noise(1, 5000));
UPDATE p SET a = 'x' WHERE id = 100;
UPDATE p SET k = 6 WHERE id = 100;
UPDATE p SET k = 16 WHERE id = 100;
UPDATE p SET k = 20, a = 'moved' WHERE id = 101;
UPDATE p SET k = 7 WHERE id = 103;
UPDATE p SET id = 1000 WHERE id = 102;
DELETE FROM p WHERE id = 102;
DELETE FROM p WHERE id = 100;
BEGIN;
ALTER TABLE p DETACH PARTITION p2;
INSERT INTO p2 (id, k, a) VALUES (200, 12, 'detached');
UPDATE p2 SET a = 'y' WHERE id = 11;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
UPDATE p SET a = 'z' WHERE id = 12;
CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (40) TO (50);
INSERT INTO p VALUES (300, 44, 'new partition');
UPDATE p SET k = 1 WHERE id = 300;
COMMIT;
ALTER TABLE p REPLICA IDENTITY FULL;
ALTER TABLE p1 REPLICA IDENTITY FULL;
UPDATE p SET k = 15 WHERE id = 300;
UPDATE p SET a = 'full' WHERE id = 5;
UPDATE p SET k = 3 WHERE id = 5;
DROP TABLE p3;
INSERT INTO p1 VALUES (400, 4, 'to the partition');

--- origins
CREATE TABLE t (id int PRIMARY KEY, a text);
INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 20) g;
SELECT pg_replication_origin_create(:'origin');
--- body
INSERT INTO t VALUES (100, 'of here');
SELECT pg_replication_origin_session_setup(:'origin');
INSERT INTO t VALUES (101, 'of there');
BEGIN;
SELECT pg_replication_origin_xact_setup('1/2345678', '2026-01-01 00:00+00');
UPDATE t SET a = 'there' WHERE id = 1;
UPDATE t SET id = 500 WHERE id = 2;
DELETE FROM t WHERE id = 3;
INSERT INTO t SELECT g, 'many' FROM generate_series(1000, 1200) g;
INSERT INTO t VALUES (1000, 'x') ON CONFLICT (id) DO UPDATE SET a = 'conflict';
COMMIT;
TRUNCATE t;
SELECT pg_replication_origin_session_reset();
INSERT INTO t VALUES (102, 'of here, again');

--- rewrites rewrites
CREATE TABLE t (id int PRIMARY KEY, a text, n int);
CREATE TABLE f (id int PRIMARY KEY, a text, n int);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO t SELECT g, noise(g, CASE WHEN g % 10 = 0 THEN 5000 ELSE 50 END), g FROM generate_series(1, 50) g;
INSERT INTO f SELECT * FROM t;
--- body
INSERT INTO t VALUES (100, 'before', 1);
VACUUM FULL t;
UPDATE t SET n = n + 1 WHERE id = 10;
CLUSTER t USING t_pkey;
DELETE FROM t WHERE id = 10;
BEGIN;
UPDATE t SET n = 1000 WHERE id = 20;
INSERT INTO t VALUES (101, noise(1, 5000), 1);
ALTER TABLE t ALTER n TYPE bigint;
UPDATE t SET n = 5000000000 WHERE id = 20;
UPDATE t SET id = 2000 WHERE id = 30;
ALTER TABLE t ALTER n TYPE text;
UPDATE t SET n = 'text' WHERE id = 2000;
DELETE FROM t WHERE id = 101;
SAVEPOINT a;
ALTER TABLE t ALTER n TYPE bytea USING n::bytea;
UPDATE t SET n = '\x00' WHERE id = 1;
ROLLBACK TO a;
UPDATE t SET n = 'kept' WHERE id = 1;
COMMIT;
BEGIN;
UPDATE f SET a = 'before' WHERE id = 10;
CLUSTER f USING f_pkey;
UPDATE f SET a = 'after' WHERE id = 10;
UPDATE f SET n = 7 WHERE id = 20;
ALTER TABLE f ADD v float8 DEFAULT random() * 0;
UPDATE f SET v = 8 WHERE id = 20;
INSERT INTO f VALUES (200, 'x', 1, 1);
CLUSTER f;
DELETE FROM f WHERE id = 200;
COMMIT;
BEGIN;
INSERT INTO f VALUES (300, 'x', 1, 1);
ALTER TABLE f ALTER v TYPE numeric;
ROLLBACK;
VACUUM FULL f;
REINDEX TABLE f;
UPDATE f SET v = 1 WHERE id = 1;

--- other access method
CREATE TABLE t (id int PRIMARY KEY, a text, n int);
INSERT INTO t SELECT g, noise(g, CASE WHEN g % 10 = 0 THEN 5000 ELSE 50 END), g FROM generate_series(1, 50) g;
--- body
UPDATE t SET n = n + 1 WHERE id = 10;
BEGIN;
UPDATE t SET n = n + 1 WHERE id = 20;
ALTER TABLE t SET ACCESS METHOD :other;
UPDATE t SET n = n + 1 WHERE id = 20;
UPDATE t SET a = 'x' WHERE id = 20;
COMMIT;
UPDATE t SET n = n + 1 WHERE id = 30;
UPDATE t SET id = 1000 WHERE id = 30;

--- tablespace
CREATE TABLE t (id int PRIMARY KEY, a text);
INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 50) g;
--- body
UPDATE t SET a = 'x' WHERE id = 1;
ALTER TABLE t SET TABLESPACE elsewhere;
UPDATE t SET a = 'y' WHERE id = 1;
BEGIN;
UPDATE t SET a = 'z' WHERE id = 1;
ALTER TABLE t SET TABLESPACE pg_default;
UPDATE t SET id = 100 WHERE id = 1;
ALTER INDEX t_pkey SET TABLESPACE elsewhere;
DELETE FROM t WHERE id = 100;
COMMIT;
CREATE TABLE there (id int PRIMARY KEY, a text) TABLESPACE elsewhere;
INSERT INTO there VALUES (1, noise(1, 4000));
UPDATE there SET id = 2;

--- ddl amid a transaction
CREATE TABLE t (id int PRIMARY KEY, a text, b int);
CREATE TABLE f (id int, a text);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 30) g;
INSERT INTO f SELECT g, 'v' || g FROM generate_series(1, 30) g;
--- body
BEGIN;
INSERT INTO t VALUES (100, 'two', 2);
ALTER TABLE t ADD c text DEFAULT 'default';
INSERT INTO t VALUES (101, 'three', 3);
UPDATE t SET b = 5 WHERE id = 1;
ALTER TABLE t DROP b;
UPDATE t SET a = 'x' WHERE id = 2;
INSERT INTO t VALUES (102, 'dropped', 'c');
ALTER TABLE t RENAME a TO z;
UPDATE t SET z = 'renamed' WHERE id = 3;
SAVEPOINT a;
ALTER TABLE t ADD d int DEFAULT 9;
UPDATE t SET d = 10 WHERE id = 4;
ROLLBACK TO a;
UPDATE t SET c = 'no d' WHERE id = 4;
ALTER TABLE t RENAME TO t2;
DELETE FROM t2 WHERE id = 5;
CREATE SCHEMA other_schema;
ALTER TABLE t2 SET SCHEMA other_schema;
UPDATE other_schema.t2 SET c = 'moved' WHERE id = 6;
ALTER TABLE other_schema.t2 SET SCHEMA :schema;
DROP SCHEMA other_schema;
COMMIT;
ALTER TABLE f ADD c int DEFAULT 42, ADD d text;
UPDATE f SET a = 'x' WHERE id = 1;
DELETE FROM f WHERE id = 2;
ALTER TABLE f ALTER c SET DEFAULT 43;
ALTER TABLE f ADD e timestamp DEFAULT '2026-01-01';
UPDATE f SET d = 'd' WHERE id = 1;
DELETE FROM f WHERE id = 3;
ALTER TABLE f DROP c;
UPDATE f SET d = 'e' WHERE id = 4;
DELETE FROM f WHERE id = 4;
BEGIN;
CREATE TABLE shortlived (id int PRIMARY KEY, a text);
INSERT INTO shortlived VALUES (1, noise(1, 6000)), (2, 'b');
UPDATE shortlived SET id = 3 WHERE id = 1;
DROP TABLE shortlived;
COMMIT;
BEGIN;
CREATE TABLE never (id int);
INSERT INTO never VALUES (1);
ROLLBACK;
CREATE TABLE dropped (id int PRIMARY KEY, a text);
INSERT INTO dropped SELECT g, noise(g, 4000) FROM generate_series(1, 10) g;
UPDATE dropped SET id = 100 WHERE id = 5;
DELETE FROM dropped WHERE id = 6;
DROP TABLE dropped;
CREATE TABLE dropped (id text);
INSERT INTO dropped VALUES ('another of this name');
TRUNCATE f;
CREATE INDEX ON t2 USING :index (z);
DROP TABLE t2;

--- generated columns
CREATE TABLE t (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED, b text);
CREATE TABLE f (id int, a int, twice int GENERATED ALWAYS AS (a * 2) STORED, seq int GENERATED BY DEFAULT AS IDENTITY);
ALTER TABLE f REPLICA IDENTITY FULL;
CREATE TABLE k (a int, k int GENERATED ALWAYS AS (a + 1) STORED PRIMARY KEY, b int);
--- body
INSERT INTO t (id, a) VALUES (1, 5), (2, NULL);
UPDATE t SET a = 6 WHERE id = 1;
UPDATE t SET b = 'x' WHERE id = 1;
DELETE FROM t WHERE id = 1;
INSERT INTO f (id, a) VALUES (1, 5), (2, NULL);
UPDATE f SET a = 6 WHERE id = 1;
DELETE FROM f WHERE id = 1;
INSERT INTO k (a) VALUES (1), (5);
UPDATE k SET b = 3 WHERE a = 1;
UPDATE k SET a = 2 WHERE a = 1;
DELETE FROM k WHERE a = 2;

--- row locks
CREATE TABLE t (id int PRIMARY KEY, a text);
CREATE TABLE r (id int PRIMARY KEY, t int REFERENCES t);
INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 20) g;
--- body
SELECT * FROM t WHERE id = 1 FOR UPDATE;
SELECT * FROM t FOR KEY SHARE;
BEGIN;
SELECT * FROM t WHERE id < 5 FOR SHARE;
SAVEPOINT a;
SELECT * FROM t WHERE id < 5 FOR UPDATE;
SAVEPOINT b;
UPDATE t SET a = 'locked' WHERE id = 2;
SELECT * FROM t WHERE id = 2 FOR UPDATE;
UPDATE t SET id = 1000 WHERE id = 2;
RELEASE b;
ROLLBACK TO a;
UPDATE t SET a = 'x' WHERE id = 3;
COMMIT;
INSERT INTO r VALUES (1, 10), (2, 11);
BEGIN;
SELECT * FROM t WHERE id = 10 FOR NO KEY UPDATE;
UPDATE t SET a = 'referenced' WHERE id = 10;
COMMIT;
DELETE FROM t WHERE id = 11;
BEGIN;
LOCK TABLE t;
SELECT * FROM t WHERE id = 4 FOR UPDATE;
COMMIT;

--- of one row
CREATE TABLE t (id int PRIMARY KEY, a text, n int);
CREATE INDEX ON t USING :index (a);
CREATE INDEX ON t USING :index (n) WHERE n > 5;
INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 20) g;
--- body
UPDATE t SET a = a WHERE id = 1;
UPDATE t SET id = id WHERE id = 1;
BEGIN;
UPDATE t SET n = 100 WHERE id = 1;
UPDATE t SET n = 101 WHERE id = 1;
UPDATE t SET id = 50 WHERE id = 1;
UPDATE t SET id = 1 WHERE id = 50;
DELETE FROM t WHERE id = 1;
INSERT INTO t VALUES (1, 'again', 1);
DELETE FROM t WHERE id = 1;
INSERT INTO t VALUES (1, 'and again', 1);
UPDATE t SET id = 0 WHERE id = 2;
UPDATE t SET id = 2 WHERE id = 3;
UPDATE t SET id = 3 WHERE id = 0;
INSERT INTO t VALUES (60, 'short', 1);
DELETE FROM t WHERE id = 60;
COMMIT;
WITH d AS (DELETE FROM t WHERE id = 4 RETURNING *) INSERT INTO t SELECT id + 100, a, n FROM d;
WITH u AS (UPDATE t SET n = 0 WHERE id = 5 RETURNING *), i AS (INSERT INTO t SELECT 500, a, n FROM u RETURNING *) SELECT * FROM i;
MERGE INTO t USING (VALUES (6, 'merged'), (700, 'new')) s(id, a) ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = s.a WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.a);
MERGE INTO t USING (VALUES (6)) s(id) ON t.id = s.id WHEN MATCHED THEN DELETE;
UPDATE t SET a = o.a FROM t o WHERE t.id = 7 AND o.id = 8;
DELETE FROM t USING t o WHERE t.id = 7 AND o.id = 8;
INSERT INTO t VALUES (8, 'duplicate', 1);
BEGIN;
INSERT INTO t VALUES (800, 'x', 1);
INSERT INTO t VALUES (8, 'duplicate', 1);
COMMIT;

--- triggers
CREATE TABLE t (id int PRIMARY KEY, a text, n int DEFAULT 0);
CREATE TABLE log (id serial PRIMARY KEY, what text);
CREATE TABLE c (id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE s (id int PRIMARY KEY, t int REFERENCES t ON DELETE SET NULL ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED);
CREATE FUNCTION before() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := NEW.n + 1; IF NEW.a = 'skip' THEN RETURN NULL; END IF; RETURN NEW; END $$;
CREATE FUNCTION after() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (what) VALUES (TG_OP || coalesce(OLD.id, 0) || coalesce(NEW.id, 0)); RETURN NULL; END $$;
ALTER FUNCTION after() SET search_path FROM CURRENT;
CREATE TRIGGER b BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION before();
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION after();
INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 10) g;
INSERT INTO c VALUES (1, 1), (2, 2);
INSERT INTO s VALUES (1, 1), (2, 2), (3, 3);
--- body
INSERT INTO t VALUES (20, 'x'), (21, 'skip'), (22, 'y');
UPDATE t SET a = 'u' WHERE id = 20;
UPDATE t SET id = 100 WHERE id = 1;
DELETE FROM t WHERE id = 2;
BEGIN;
DELETE FROM t WHERE id = 3;
INSERT INTO t VALUES (3, 'back');
COMMIT;
DELETE FROM t WHERE id = 100;
COPY t (id, a) FROM PROGRAM 'seq 50 70 | sed ''s/.*/&\tv&/''';

--- churn
CREATE TABLE t (id int PRIMARY KEY, a text, n int);
CREATE TABLE f (id int PRIMARY KEY, a text, n int);
ALTER TABLE f REPLICA IDENTITY FULL;
CREATE INDEX ON t USING :index (a, n);
INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 2000) g;
INSERT INTO f SELECT g, noise(g, CASE WHEN g % 50 = 0 THEN 3000 ELSE 20 END), g FROM generate_series(1, 500) g;
SELECT churn('t', 'f');
--- body
SELECT each('UPDATE t SET a = a || ''u'' WHERE id = $1', 100, 150);
SELECT churn('t');
SELECT each('UPDATE t SET n = n + 1 WHERE id = $1', 100, 150);
VACUUM t;
BEGIN;
SELECT each('DELETE FROM t WHERE id = $1', 100, 120);
SELECT each('UPDATE f SET n = n + 1 WHERE id = $1', 40, 60);
SELECT churn('t', 'f');
SELECT each('UPDATE t SET n = n + 1 WHERE id = $1', 121, 150);
SAVEPOINT a;
SELECT each('UPDATE f SET n = n + 1 WHERE id = $1', 40, 60);
SELECT churn('t', 'f');
ROLLBACK TO a;
SELECT each('DELETE FROM f WHERE id = $1', 40, 60);
SELECT each('INSERT INTO t VALUES ($1, ''again'', 1)', 100, 120);
COMMIT;
VACUUM (FREEZE) t, f;
SELECT each('UPDATE t SET id = id + 10000 WHERE id = $1', 100, 130);
SELECT churn('t', 'f');
VACUUM FULL t;
CHECKPOINT;
SELECT each('DELETE FROM t WHERE id = $1', 10100, 10110);
REINDEX TABLE t;
CREATE INDEX CONCURRENTLY ON t USING :index (n);
SELECT each('DELETE FROM t WHERE id = $1', 10111, 10115);
ANALYZE t;

--- messages
CREATE TABLE t (id int PRIMARY KEY, a text);
--- body
BEGIN;
INSERT INTO t VALUES (1, 'a');
SELECT pg_logical_emit_message(true, 'prefix', 'first');
INSERT INTO t VALUES (2, 'b');
SELECT pg_logical_emit_message(false, 'prefix', 'at once');
SAVEPOINT a;
SELECT pg_logical_emit_message(true, 'prefix', 'rolled back');
DELETE FROM t WHERE id = 1;
ROLLBACK TO a;
UPDATE t SET id = 3 WHERE id = 1;
SELECT pg_logical_emit_message(true, 'prefix', '\x0001ff'::bytea);
COMMIT;

--- column lists and row filters
CREATE TABLE t (id int PRIMARY KEY, a text, b text, n int);
CREATE TABLE w (id int, a text, n int, PRIMARY KEY (id, n));
CREATE TABLE f (id int, a text, n int);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO t SELECT g, 'v' || g, noise(g, 3000), g FROM generate_series(1, 30) g;
INSERT INTO w SELECT g, 'v' || g, g FROM generate_series(1, 30) g;
INSERT INTO f SELECT g, noise(g, CASE WHEN g > 20 THEN 3000 ELSE 5 END), g FROM generate_series(1, 30) g;
CREATE PUBLICATION part FOR TABLE t (id, b), w WHERE (n > 10), f WHERE (n > 10 AND a <> 'never');
CREATE PUBLICATION filtered FOR TABLE w (id, n) WHERE (n % 2 = 0 AND id < 1000), f WHERE (a LIKE 'v%' OR n IS NULL);
--- body
INSERT INTO t VALUES (100, 'x', 'y', 1);
UPDATE t SET a = 'not in the list' WHERE id = 1;
UPDATE t SET b = 'in the list' WHERE id = 1;
UPDATE t SET id = 1000 WHERE id = 2;
DELETE FROM t WHERE id = 3;
INSERT INTO w VALUES (100, 'in', 50), (101, 'out', 5);
UPDATE w SET a = 'x' WHERE id = 5;
UPDATE w SET n = 50 WHERE id = 5;
UPDATE w SET n = 52 WHERE id = 5;
UPDATE w SET n = 6 WHERE id = 5;
DELETE FROM w WHERE id = 15;
DELETE FROM w WHERE id = 4;
UPDATE f SET n = 40 WHERE id = 5;
UPDATE f SET n = 4 WHERE id = 25;
UPDATE f SET n = 41 WHERE id = 26;
UPDATE f SET a = 'never' WHERE id = 27;
UPDATE f SET a = 'v', n = NULL WHERE id = 28;
DELETE FROM f WHERE id = 29;
DELETE FROM f WHERE id = 1;
TRUNCATE w;

--- wide
SELECT format('CREATE TABLE t (id int PRIMARY KEY, %s)', string_agg(format('c%s int', g), ', ')) FROM generate_series(1, 300) g \gexec
--- body
INSERT INTO t (id) VALUES (1);
INSERT INTO t (id, c1, c150, c300) VALUES (2, 1, 2, 3);
SELECT format('ALTER TABLE t %s', string_agg(format('DROP c%s', g), ', ')) FROM generate_series(100, 200) g \gexec
UPDATE t SET c1 = 5 WHERE id = 1;
INSERT INTO t (id, c99, c201) VALUES (3, 7, 8);
SELECT format('ALTER TABLE t %s', string_agg(format('ADD d%s text DEFAULT %L', g, 'd' || g), ', ')) FROM generate_series(1, 60) g \gexec
UPDATE t SET id = 20 WHERE id = 2;
INSERT INTO t (id, d60) VALUES (4, NULL);
DELETE FROM t WHERE id = 3;

--- inheritance and views inserts
CREATE TABLE parent (id int PRIMARY KEY, a text);
CREATE TABLE child (n int) INHERITS (parent);
CREATE VIEW v AS SELECT * FROM child WHERE n > 0;
CREATE RULE r AS ON DELETE TO parent WHERE id = 5 DO INSTEAD UPDATE parent SET a = 'not deleted' WHERE id = 5;
--- body
INSERT INTO parent VALUES (1, 'p'), (5, 'q');
INSERT INTO child VALUES (2, 'c', 3);
UPDATE parent SET a = 'u' WHERE id = 2;
INSERT INTO v VALUES (3, 'v', 4);
UPDATE v SET n = 5 WHERE id = 3;
DELETE FROM parent WHERE id = 5;
DELETE FROM parent WHERE id = 3;

--- many rows sorted
CREATE TABLE t (id int PRIMARY KEY, a text, n int);
CREATE TABLE f (id int, a text, n int);
ALTER TABLE f REPLICA IDENTITY FULL;
CREATE INDEX ON t USING :index (n);
INSERT INTO t SELECT g, 'v' || g, g % 10 FROM generate_series(1, 1500) g;
INSERT INTO f SELECT * FROM t;
--- body
UPDATE t SET n = n + 1;
UPDATE t SET n = n + 1 WHERE id % 3 = 0;
UPDATE t SET id = id + 10000 WHERE n = 5;
SELECT churn('t', 'f');
BEGIN;
UPDATE f SET a = a || '!' WHERE n < 5;
SAVEPOINT a;
DELETE FROM f WHERE n < 3;
ROLLBACK TO a;
DELETE FROM f WHERE n > 7;
DELETE FROM t WHERE n BETWEEN 3 AND 6;
UPDATE t SET a = 'x' WHERE n = 7;
COMMIT;
VACUUM t;
UPDATE t SET n = n - 1;
DELETE FROM f;
DELETE FROM t WHERE id > 500;

--- many rows in their order
CREATE TABLE t (id int PRIMARY KEY, a text, n int);
INSERT INTO t SELECT g, 'v' || g, g % 10 FROM generate_series(1, 1500) g;
--- body
SET enable_indexscan = off; SET enable_bitmapscan = off;
UPDATE t SET n = n + 1;
RESET enable_indexscan; RESET enable_bitmapscan;
