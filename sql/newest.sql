-- Rows with one unique key: a lookup begins with the newest, and ends with the one that is visible.  Indexes whose predicates have
-- the column that changes let updates make new rows.
SET lsm.constraint_index = lsm;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE TABLE newest (id int PRIMARY KEY, v int, filler text) USING lsm;
CREATE INDEX ON newest (v) WHERE v IS NULL;
INSERT INTO newest SELECT i, 0, 'x' FROM generate_series(1, 20) i;

-- own changes, undone ones, and what follows them
BEGIN;
UPDATE newest SET v = v + 1 WHERE id = 1;
SELECT id, v FROM newest WHERE id = 1;
SAVEPOINT a;
UPDATE newest SET v = v + 10 WHERE id = 1;
UPDATE newest SET v = v + 10 WHERE id = 1;
SELECT id, v FROM newest WHERE id = 1;
ROLLBACK TO a;
SELECT id, v FROM newest WHERE id = 1;
UPDATE newest SET v = v + 100 WHERE id = 1;
SELECT id, v FROM newest WHERE id = 1;
COMMIT;
SELECT id, v FROM newest WHERE id = 1;
BEGIN;
UPDATE newest SET v = -1 WHERE id = 1;
ROLLBACK;
SELECT id, v FROM newest WHERE id = 1;
UPDATE newest SET v = v + 1 WHERE id = 1;
SELECT id, v FROM newest WHERE id = 1;
-- an undone update between two that are not: nothing of the living is forgotten
DO $$
BEGIN
	FOR i IN 1..60 LOOP
		UPDATE newest SET v = v + 1 WHERE id = 2;
		BEGIN
			UPDATE newest SET v = -1 WHERE id = 2;
			IF i % 3 = 0 THEN
				UPDATE newest SET v = -2 WHERE id = 2;
			END IF;
			RAISE EXCEPTION 'undo';
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
		IF i % 2 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END $$;
SELECT id, v FROM newest WHERE id = 2;
SELECT count(*) FROM newest WHERE id BETWEEN 2 AND 2;

-- the key goes elsewhere and comes back
UPDATE newest SET v = 7 WHERE id = 3;
UPDATE newest SET id = 103 WHERE id = 3;
SELECT id, v FROM newest WHERE id = 3;
SELECT id, v FROM newest WHERE id = 103;
INSERT INTO newest VALUES (3, 8);
SELECT id, v FROM newest WHERE id = 3;
UPDATE newest SET v = 9 WHERE id = 3;
DELETE FROM newest WHERE id = 3;
SELECT id, v FROM newest WHERE id = 3;
INSERT INTO newest VALUES (3, 10);
INSERT INTO newest VALUES (3, 11);
SELECT id, v FROM newest WHERE id = 3;
UPDATE newest SET v = 1 WHERE id = 4;
UPDATE newest SET v = 1 WHERE id = 5;
BEGIN;
UPDATE newest SET id = CASE id WHEN 4 THEN 104 ELSE 4 END WHERE id IN (4, 5) AND v = 1;
SELECT id, v FROM newest WHERE id = 4;
SELECT id, v FROM newest WHERE id = 5;
ROLLBACK;
SELECT id, v FROM newest WHERE id IN (4, 5) ORDER BY id;

-- an older snapshot sees the older version, however many there are since
BEGIN;
DECLARE old CURSOR FOR SELECT id, v FROM newest WHERE id = 6;
UPDATE newest SET v = v + 1 WHERE id = 6;
UPDATE newest SET v = v + 1 WHERE id = 6;
UPDATE newest SET v = v + 1 WHERE id = 6;
FETCH ALL old;
SELECT id, v FROM newest WHERE id = 6;
COMMIT;

-- back and forth, and more than one point
UPDATE newest SET v = 70 WHERE id = 7;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, v FROM newest WHERE id = 7;
FETCH c;
FETCH c;
FETCH BACKWARD c;
FETCH BACKWARD c;
FETCH c;
FETCH BACKWARD c;
MOVE FORWARD ALL c;
FETCH BACKWARD c;
CLOSE c;
UPDATE newest SET v = v + 1 WHERE id IN (8, 9);
DECLARE c SCROLL CURSOR FOR SELECT id, v FROM newest WHERE id = ANY ('{7, 8, 9, 9, 77}') ORDER BY id;
FETCH 2 c;
FETCH BACKWARD c;
FETCH ALL c;
FETCH BACKWARD ALL c;
COMMIT;
SELECT id, v FROM newest WHERE id = ANY ('{9, 8}') AND id = 8;
SELECT id, v FROM newest WHERE id = 8 AND id <> 8;
SELECT id, v FROM newest WHERE id = 8 AND v = 0;
SELECT id FROM newest WHERE id = 8;
SELECT count(*) FROM newest WHERE id = 8 AND ctid IS NOT NULL;

-- joins: rescans, marks
SET enable_hashjoin = off;
SET enable_mergejoin = off;
UPDATE newest SET v = v + 1 WHERE id < 4;
SELECT a.n, b.v FROM unnest('{1, 2, 2, 3, 1, 99}'::int[]) WITH ORDINALITY a (n, o) LEFT JOIN newest b ON b.id = a.n ORDER BY o;
RESET enable_mergejoin;
SET enable_nestloop = off;
SELECT a.n, b.v FROM unnest('{1, 2, 2, 3, 1}'::int[]) a (n) JOIN newest b ON b.id = a.n AND b.id = 2;
RESET enable_nestloop;
RESET enable_hashjoin;

-- other scans run between two calls of the same scan: its row comes once
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
CREATE TABLE newest_o (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO newest_o SELECT i, i * i FROM generate_series(1, 20) i;
UPDATE newest SET v = 2 WHERE id = 10;
UPDATE newest SET v = 3 WHERE id = 10;
SELECT a.id, a.v, b.v FROM newest a JOIN newest_o b ON b.id = a.v WHERE a.id = 10;
SELECT a.id, a.v, b.id FROM newest a JOIN newest_o b ON b.id BETWEEN a.v AND a.v + 2 WHERE a.id = 10;
SELECT a.id, (SELECT count(*) FROM newest_o b WHERE b.id <= a.v) FROM newest a WHERE a.id = 10;
SELECT lsm_flush('newest');
SELECT a.id, a.v, b.v FROM newest a JOIN newest_o b ON b.id = a.v WHERE a.id = 10;
BEGIN;
UPDATE newest SET v = 4 WHERE id = 10;
SELECT a.id, a.v, b.v FROM newest a JOIN newest_o b ON b.id = a.v WHERE a.id = 10;
DECLARE c SCROLL CURSOR FOR SELECT id, v FROM newest WHERE id = 10;
FETCH c;
SELECT v FROM newest_o WHERE id = 1;
FETCH c;
SELECT v FROM newest_o WHERE id = 1;
FETCH BACKWARD c;
SELECT v FROM newest_o WHERE id = 1;
FETCH BACKWARD c;
SELECT v FROM newest_o WHERE id = 1;
FETCH c;
SELECT v FROM newest_o WHERE id = 1;
FETCH BACKWARD c;
FETCH ALL c;
CLOSE c;
-- the same where the newest two are not to be seen
DECLARE c SCROLL CURSOR FOR SELECT id, v FROM newest WHERE id = 10;
UPDATE newest SET v = 5 WHERE id = 10;
UPDATE newest SET v = 6 WHERE id = 10;
FETCH c;
SELECT v FROM newest_o WHERE id = 1;
FETCH c;
SELECT v FROM newest_o WHERE id = 1;
FETCH BACKWARD c;
UPDATE newest SET v = 7 WHERE id = 10;
FETCH BACKWARD c;
FETCH c;
UPDATE newest SET v = 8 WHERE id = 10;
FETCH BACKWARD c;
FETCH ALL c;
ROLLBACK;
DROP TABLE newest_o;
RESET enable_material;
RESET enable_mergejoin;
RESET enable_hashjoin;

-- keys of several columns, long ones, partial and deferrable ones, NULLs
CREATE TABLE newest_k (a int, b text, c int, d int UNIQUE, e int, v int,
	UNIQUE (a, b), UNIQUE (c) DEFERRABLE INITIALLY DEFERRED) USING lsm;
CREATE UNIQUE INDEX newest_p ON newest_k (e) WHERE v > 0;
INSERT INTO newest_k SELECT i, repeat('k', i * 8), i, nullif(i, 3), i, i FROM generate_series(1, 9) i;
INSERT INTO newest_k VALUES (NULL, 'null', 10, NULL, 10, 0), (NULL, 'null', 11, NULL, 11, 0);
UPDATE newest_k SET v = v + 1;
UPDATE newest_k SET v = v - 1;
SELECT a, length(b), v FROM newest_k WHERE a = 2 AND b = repeat('k', 16);
SELECT a, length(b), v FROM newest_k WHERE a = 9 AND b = repeat('k', 72);
SELECT a, v FROM newest_k WHERE a = 2 ORDER BY 1;
SELECT count(*) FROM newest_k WHERE a IS NULL AND b = 'null';
SELECT count(*) FROM newest_k WHERE d IS NULL;
SELECT e, v FROM newest_k WHERE e = 5 AND v > 0;
BEGIN;
INSERT INTO newest_k (c, v) VALUES (4, 44);
SELECT c, v FROM newest_k WHERE c = 4 ORDER BY v;
DELETE FROM newest_k WHERE v = 44;
COMMIT;

-- what is forgotten: of a row that is updated often neither rows nor entries are left
DO $$
BEGIN
	FOR i IN 1..300 LOOP
		UPDATE newest SET v = v + 1 WHERE id = 11 + i % 2;
		COMMIT;
	END LOOP;
END $$;
CREATE VIEW newest_entries AS SELECT t::regclass AS tree, memtable_entries < 100 AS few
	FROM (VALUES ('newest'), ('newest_pkey')) x (t), LATERAL (SELECT sum(entries) AS memtable_entries FROM lsm_files(t)) f;
SELECT lsm_flush('newest');
SELECT * FROM newest_entries ORDER BY 1;
SELECT id, v FROM newest WHERE id IN (11, 12) ORDER BY id;

-- other trees, same keys
TRUNCATE newest;
SELECT id, v FROM newest WHERE id = 11;
INSERT INTO newest VALUES (11, 1);
UPDATE newest SET v = 2 WHERE id = 11;
SELECT id, v FROM newest WHERE id = 11;
BEGIN;
TRUNCATE newest;
INSERT INTO newest VALUES (11, 5);
UPDATE newest SET v = 6 WHERE id = 11;
SELECT id, v FROM newest WHERE id = 11;
ROLLBACK;
SELECT id, v FROM newest WHERE id = 11;
VACUUM FULL newest;
UPDATE newest SET v = 3 WHERE id = 11;
SELECT id, v FROM newest WHERE id = 11;
REINDEX TABLE newest;
SELECT id, v FROM newest WHERE id = 11;
-- emptied in place: row numbers begin anew
CREATE TEMP TABLE newest_t (id int PRIMARY KEY, v int) USING lsm ON COMMIT DELETE ROWS;
CREATE INDEX ON newest_t (v) WHERE v IS NULL;
BEGIN;
INSERT INTO newest_t SELECT i, 0 FROM generate_series(1, 9) i;
UPDATE newest_t SET v = 1 WHERE id < 3;
COMMIT;
BEGIN;
INSERT INTO newest_t SELECT i, 2 FROM generate_series(101, 120) i;
SELECT * FROM newest_t WHERE id = 1;
INSERT INTO newest_t VALUES (1, 3);
SELECT * FROM newest_t WHERE id = 1;
SELECT * FROM newest_t WHERE id = 2;
COMMIT;
BEGIN;
CREATE TABLE newest_c (id int PRIMARY KEY, v int) USING lsm;
CREATE INDEX ON newest_c (v) WHERE v IS NULL;
INSERT INTO newest_c SELECT i, 0 FROM generate_series(1, 9) i;
UPDATE newest_c SET v = 1 WHERE id < 3;
TRUNCATE newest_c;
INSERT INTO newest_c SELECT i, 2 FROM generate_series(101, 120) i;
SELECT * FROM newest_c WHERE id = 1;
INSERT INTO newest_c VALUES (1, 3);
SELECT * FROM newest_c WHERE id = 1;
SELECT * FROM newest_c WHERE id = 2;
COMMIT;
SELECT count(*) FROM newest_c WHERE id BETWEEN 1 AND 200;
DROP TABLE newest_c, newest_t;

-- notes of many keys have the same place: each lookup finds its own
CREATE TABLE newest_many (id int PRIMARY KEY, v int) USING lsm;
CREATE INDEX ON newest_many (v) WHERE v IS NULL;
INSERT INTO newest_many SELECT i, 0 FROM generate_series(1, 2000) i;
UPDATE newest_many SET v = v + 1;
UPDATE newest_many SET v = v + 1;
SELECT count(*), min(v) FROM generate_series(1, 2000) k, LATERAL (SELECT * FROM newest_many WHERE id = k OFFSET 0) n WHERE n.id = k;
DROP TABLE newest_many;
SELECT * FROM lsm_verify('newest');
SELECT * FROM lsm_verify('newest_k');

DROP VIEW newest_entries;
DROP TABLE newest, newest_k;
RESET enable_bitmapscan;
RESET enable_seqscan;
