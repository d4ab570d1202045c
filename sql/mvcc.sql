-- Transactions: rollback, savepoints, command ids, cursors, snapshots
CREATE TABLE h (id int PRIMARY KEY, v text) USING heap;
CREATE TABLE l (id int PRIMARY KEY, v text) USING lsm;
-- as long as there is an index that has the column, updates make new rows (for the others see row_versions, too)
CREATE INDEX l_moves ON l (v) WHERE v IS NULL;

BEGIN;
SELECT twin('INSERT INTO @ SELECT i, ''a'' FROM generate_series(1, 1000) i');
ROLLBACK;
SELECT count(*) FROM l;
SELECT same();

SELECT twin('INSERT INTO @ SELECT i, ''a'' FROM generate_series(1, 1000) i');
BEGIN;
SELECT twin('UPDATE @ SET v = ''b'' WHERE id <= 500');
SELECT twin('DELETE FROM @ WHERE id > 900');
SELECT same();
ROLLBACK;
SELECT v, count(*) FROM l GROUP BY v;
SELECT same();

-- savepoints
BEGIN;
SELECT twin('UPDATE @ SET v = ''s0'' WHERE id = 1');
SAVEPOINT s1;
SELECT twin('UPDATE @ SET v = ''s1'' WHERE id IN (1, 2)');
SAVEPOINT s2;
SELECT twin('DELETE FROM @ WHERE id IN (1, 3)');
SELECT twin('INSERT INTO @ VALUES (2001, ''s2'')');
SELECT id, v FROM l WHERE id IN (1, 2, 3, 2001) ORDER BY id;
ROLLBACK TO s2;
SELECT id, v FROM l WHERE id IN (1, 2, 3, 2001) ORDER BY id;
SELECT twin('UPDATE @ SET v = v || ''+'' WHERE id = 1');
ROLLBACK TO s1;
SELECT twin('DELETE FROM @ WHERE id = 4');
RELEASE s1;
COMMIT;
SELECT id, v FROM l WHERE id IN (1, 2, 3, 4, 2001) ORDER BY id;
SELECT same();

-- savepoints around a flush: unresolved rows are in sorted files
BEGIN;
SELECT twin('UPDATE @ SET v = ''outer'' WHERE id BETWEEN 10 AND 19');
SAVEPOINT s1;
SELECT twin('UPDATE @ SET v = ''inner'' WHERE id BETWEEN 15 AND 24');
SELECT twin('INSERT INTO @ SELECT i, ''inner'' FROM generate_series(3001, 3010) i');
SELECT lsm_flush('l');
SELECT same();
SELECT twin('DELETE FROM @ WHERE id = 12 OR id = 17');
ROLLBACK TO s1;
SELECT lsm_flush('l');
SELECT same();
SELECT twin('UPDATE @ SET v = v || ''2'' WHERE id BETWEEN 10 AND 19');
COMMIT;
SELECT id, v FROM l WHERE id BETWEEN 10 AND 24 ORDER BY id;
SELECT same();
SELECT lsm_compact('l');
SELECT same();

-- a statement does not see its own changes; the next one does
BEGIN;
INSERT INTO l SELECT id + 10000, v FROM l WHERE id < 10;
SELECT count(*) FROM l WHERE id >= 10000;
UPDATE l SET id = id + 10 WHERE id >= 10000;
SELECT min(id), max(id) FROM l WHERE id >= 10000;
ROLLBACK;

-- cursors keep their snapshot and command id
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, v FROM l WHERE id <= 9 ORDER BY id;
FETCH 2 FROM c;
UPDATE l SET v = 'changed' WHERE id <= 9;
DELETE FROM l WHERE id = 5;
SELECT lsm_flush('l');
FETCH ALL FROM c;
FETCH BACKWARD 3 FROM c;
MOVE ABSOLUTE 1 IN c;
FETCH 1 FROM c;
CLOSE c;
ROLLBACK;

BEGIN;
DECLARE c CURSOR FOR SELECT id FROM l WHERE id <= 5 ORDER BY id FOR UPDATE;
FETCH 2 FROM c;
UPDATE l SET v = 'current' WHERE CURRENT OF c;
FETCH 1 FROM c;
DELETE FROM l WHERE CURRENT OF c;
COMMIT;
SELECT id, v FROM l WHERE id <= 5 ORDER BY id;

BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT id FROM l WHERE id BETWEEN 100 AND 103 ORDER BY id;
COMMIT;
DELETE FROM l WHERE id = 101;
FETCH ALL FROM c;
CLOSE c;

-- a function with its own snapshots
CREATE FUNCTION count_l() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT count(*) FROM l';
CREATE FUNCTION count_l_stable() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM l';
BEGIN;
WITH i AS (INSERT INTO l VALUES (50001, 'x') RETURNING count_l() AS volatile, count_l_stable() AS stable)
SELECT volatile - stable AS seen_by_volatile_only FROM i;
ROLLBACK;
DROP FUNCTION count_l(), count_l_stable();

DROP INDEX l_moves;

-- row locks and their upgrade within a transaction
BEGIN;
SELECT id FROM l WHERE id = 20 FOR KEY SHARE;
SELECT id FROM l WHERE id = 20 FOR SHARE;
SELECT id FROM l WHERE id = 20 FOR NO KEY UPDATE;
SELECT id FROM l WHERE id = 20 FOR UPDATE;
SAVEPOINT s;
UPDATE l SET v = 'locked' WHERE id = 20;
ROLLBACK TO s;
SELECT id, v FROM l WHERE id = 20 FOR UPDATE NOWAIT;
DELETE FROM l WHERE id = 20;
COMMIT;
SELECT count(*) FROM l WHERE id = 20;

-- locks whose holders have ended, and deletes that were taken back, leave nothing in files
CREATE TABLE locked (id int, v text) USING lsm;
INSERT INTO locked SELECT i, 'v' FROM generate_series(1, 1000) i;
SELECT lsm_flush('locked');
SELECT count(*) FROM (SELECT FROM locked FOR KEY SHARE) x;
BEGIN;
DELETE FROM locked WHERE id <= 10;
SELECT lsm_flush('locked');
ROLLBACK;
SELECT sum(entries) FROM lsm_levels('locked');
SELECT count(*) FROM (SELECT FROM locked WHERE id <= 20 FOR UPDATE) x;
SELECT lsm_flush('locked');
SELECT sum(entries) FROM lsm_levels('locked');
SELECT count(*), min(xmax::text), max(xmax::text) = '0' FROM locked WHERE id > 10;
UPDATE locked SET v = 'w' WHERE id BETWEEN 5 AND 15;
DELETE FROM locked WHERE id > 20;
SELECT v, count(*) FROM locked GROUP BY v ORDER BY v;
SELECT * FROM lsm_verify('locked');
DROP TABLE locked;

-- two-phase commit
BEGIN;
UPDATE l SET v = 'prepared' WHERE id = 30;
INSERT INTO l VALUES (60001, 'prepared');
PREPARE TRANSACTION 'lsm1';
SELECT v FROM l WHERE id = 30;
SELECT count(*) FROM l WHERE id = 60001;
SELECT lsm_flush('l');
SELECT id FROM l WHERE id = 30 FOR UPDATE SKIP LOCKED;
COMMIT PREPARED 'lsm1';
SELECT id, v FROM l WHERE id IN (30, 60001) ORDER BY id;
BEGIN;
DELETE FROM l WHERE id = 30;
PREPARE TRANSACTION 'lsm2';
SELECT lsm_flush('l');
ROLLBACK PREPARED 'lsm2';
SELECT id, v FROM l WHERE id = 30 FOR UPDATE NOWAIT;
SELECT * FROM lsm_verify('l');
DROP TABLE h, l;

-- what a subtransaction was building when it failed is nobody's job afterwards
CREATE TABLE twice (a int) USING lsm;
INSERT INTO twice SELECT i / 2 FROM generate_series(1, 100) i;
BEGIN;
SAVEPOINT a;
CREATE UNIQUE INDEX twice_a ON twice USING lsm (a);
ROLLBACK TO a;
SELECT command FROM pg_stat_lsm_progress WHERE pid = pg_backend_pid();
COMMIT;
DROP TABLE twice;
