-- A transaction that changes one row again and again finds its newest version without a look at all the others: of rows, which
-- updates make because an index's predicate has the column, and of one row.
CREATE TABLE own (id int PRIMARY KEY, n int, name text UNIQUE) USING lsm;
CREATE TABLE own_wide (id text COLLATE "C" PRIMARY KEY, n int) USING lsm;
CREATE INDEX own_moves ON own (n) WHERE n IS NULL;
CREATE INDEX own_wide_moves ON own_wide (n) WHERE n IS NULL;
INSERT INTO own SELECT g, 0, 'row ' || g FROM generate_series(1, 5) g;
INSERT INTO own_wide SELECT repeat('wide', 20) || g, 0 FROM generate_series(1, 5) g;

-- Entries that scans have returned in this transaction.  (A transaction of somebody else that ends between a statement's snapshot
-- and its scan makes that scan look at all versions.)
CREATE FUNCTION looked_at(index regclass) RETURNS bigint LANGUAGE sql VOLATILE AS
'SELECT pg_stat_get_xact_tuples_returned(index)';
SET enable_seqscan = off;
SET enable_bitmapscan = off;

BEGIN;
DO $$ BEGIN FOR i IN 1 .. 2000 LOOP UPDATE own SET n = n + 1 WHERE id = 1; END LOOP; END $$;
SELECT looked_at('own_pkey') BETWEEN 2000 AND 100000 AS few;
SELECT n FROM own WHERE id = 1;
COMMIT;

-- ON CONFLICT, by either index
BEGIN;
DO $$ BEGIN FOR i IN 1 .. 2000 LOOP INSERT INTO own VALUES (2, 0, 'x') ON CONFLICT (id) DO UPDATE SET n = own.n + 1; END LOOP; END $$;
SELECT looked_at('own_pkey') BETWEEN 2000 AND 100000 AS few;
DO $$ BEGIN FOR i IN 1 .. 2000 LOOP INSERT INTO own VALUES (-2, 0, 'row 2') ON CONFLICT (name) DO UPDATE SET n = own.n + 1; END LOOP; END $$;
SELECT looked_at('own_name_key') BETWEEN 2000 AND 100000 AS few;
SELECT * FROM own WHERE id = 2;
COMMIT;

-- Subtransactions that are rolled back
BEGIN;
DO $$
BEGIN
	FOR i IN 1 .. 2000 LOOP
		UPDATE own SET n = n + 1 WHERE id = 3;
		BEGIN
			UPDATE own SET n = n + 1000 WHERE id = 3;
			RAISE EXCEPTION 'back';
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT * FROM own WHERE id = 3;
SELECT * FROM own WHERE name = 'row 3';
COMMIT;

-- Deleted and inserted again, moved to other keys and back
BEGIN;
DO $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		DELETE FROM own WHERE id = 4;
		INSERT INTO own VALUES (4, i, 'row 4');
		UPDATE own SET id = 40, name = 'row 40' WHERE name = 'row 4';
		INSERT INTO own VALUES (4, -1, 'again') ON CONFLICT DO NOTHING;
		DELETE FROM own WHERE name = 'again';
		UPDATE own SET id = 4, name = 'row 4' WHERE id = 40;
		INSERT INTO own VALUES (4, -1, 'row 40') ON CONFLICT (id) DO UPDATE SET n = own.n;
	END LOOP;
END $$;
SELECT * FROM own WHERE id = 4;
SELECT * FROM own WHERE name IN ('row 4', 'row 40', 'again');
ROLLBACK;
SELECT * FROM own WHERE id IN (4, 40);

-- What a cursor sees stays what it was
BEGIN;
DO $$ BEGIN FOR i IN 1 .. 20 LOOP UPDATE own SET n = n + 1 WHERE id = 5; END LOOP; END $$;
DECLARE c CURSOR FOR SELECT id, n, name FROM own WHERE id = 5;
DO $$ BEGIN FOR i IN 1 .. 20 LOOP UPDATE own SET n = n + 1 WHERE id = 5; END LOOP; END $$;
FETCH ALL FROM c;
SELECT id, n FROM own WHERE id = 5;
COMMIT;

-- Keys that are too long for a hint
BEGIN;
DO $$ BEGIN FOR i IN 1 .. 300 LOOP UPDATE own_wide SET n = n + 1 WHERE id = repeat('wide', 20) || '1'; END LOOP; END $$;
DO $$ BEGIN FOR i IN 1 .. 300 LOOP INSERT INTO own_wide VALUES (repeat('wide', 20) || '1', 0) ON CONFLICT (id) DO UPDATE SET n = own_wide.n + 1; END LOOP; END $$;
SELECT right(id, 5), n FROM own_wide ORDER BY id;
COMMIT;
-- In their rows, more often, for a row takes many versions
DROP INDEX own_moves, own_wide_moves;
BEGIN;
DO $$ BEGIN FOR i IN 1 .. 20000 LOOP UPDATE own SET n = n + 1 WHERE id = 1; END LOOP; END $$;
SELECT looked_at('own_pkey') BETWEEN 20000 AND 400000 AS few;
DO $$ BEGIN FOR i IN 1 .. 20000 LOOP INSERT INTO own VALUES (2, 0, 'x') ON CONFLICT (id) DO UPDATE SET n = own.n + 1; END LOOP; END $$;
SELECT looked_at('own_pkey') BETWEEN 40000 AND 800000 AS few;
DO $$ BEGIN FOR i IN 1 .. 300 LOOP UPDATE own_wide SET n = n + 1 WHERE id = repeat('wide', 20) || '1'; END LOOP; END $$;
SELECT id, n FROM own WHERE id < 3 ORDER BY id;
SELECT right(id, 5), n FROM own_wide ORDER BY id;
COMMIT;
SELECT * FROM lsm_verify('own');
SELECT * FROM lsm_verify('own_wide');
DROP FUNCTION looked_at(regclass);
DROP TABLE own, own_wide;

-- CLUSTER keeps both command ids of a row that its own transaction has made and ended: older cursors see the same as before
CREATE TABLE own_cluster (id int PRIMARY KEY) USING lsm;
CREATE FUNCTION own_ids() RETURNS text LANGUAGE plpgsql STABLE AS
$$ BEGIN RETURN (SELECT string_agg(id::text, ' ' ORDER BY id) FROM own_cluster); END $$;
BEGIN;
INSERT INTO own_cluster VALUES (1), (2), (3), (4);
DELETE FROM own_cluster WHERE id = 1;
DECLARE own_c CURSOR FOR SELECT own_ids() FROM generate_series(1, 5);
FETCH own_c;
INSERT INTO own_cluster VALUES (5), (6), (7);
DELETE FROM own_cluster WHERE id IN (2, 5);
SAVEPOINT s;
DELETE FROM own_cluster WHERE id IN (3, 6);
ROLLBACK TO s;
FETCH own_c;
CLUSTER own_cluster USING own_cluster_pkey;
FETCH own_c;
DELETE FROM own_cluster WHERE id = 4;
SET LOCAL enable_indexscan = off;
CLUSTER own_cluster USING own_cluster_pkey;
FETCH own_c;
SELECT own_ids();
COMMIT;
SELECT own_ids();
DROP FUNCTION own_ids();
DROP TABLE own_cluster;

-- The first row, again and again, that the transaction deletes or moves away: rows that it has ended are passed over without a look.
CREATE TABLE own_queue (id int PRIMARY KEY, k int NOT NULL, state text NOT NULL) USING lsm;
CREATE INDEX own_queue_k ON own_queue USING lsm_index (k);
CREATE INDEX own_queue_state ON own_queue USING lsm_index (state, id);
CREATE TABLE own_heap (id int PRIMARY KEY, k int, state text) USING heap;
INSERT INTO own_queue SELECT g, g, 'ready' FROM generate_series(1, 3000) g;
INSERT INTO own_heap SELECT * FROM own_queue;
CREATE FUNCTION looked_at(index regclass) RETURNS bigint LANGUAGE sql VOLATILE AS
'SELECT pg_stat_get_xact_tuples_returned(index)';
BEGIN;
DO $$
DECLARE next int;
BEGIN
	FOR i IN 1 .. 500 LOOP
		SELECT id INTO next FROM own_queue ORDER BY id LIMIT 1;
		ASSERT next = i;
		DELETE FROM own_queue WHERE id = next;
	END LOOP;
END $$;
SELECT looked_at('own_queue_pkey') BETWEEN 500 AND 20000 AS few;
DO $$
DECLARE next int;
BEGIN
	FOR i IN 501 .. 1000 LOOP
		SELECT id INTO next FROM own_queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
		ASSERT next = i;
		DELETE FROM own_queue WHERE id = next;
	END LOOP;
END $$;
SELECT looked_at('own_queue_pkey') BETWEEN 1000 AND 40000 AS few;
DO $$
DECLARE next int;
BEGIN
	FOR i IN 1001 .. 1500 LOOP
		SELECT min(k) INTO next FROM own_queue;
		ASSERT next = i;
		DELETE FROM own_queue WHERE k = next;
	END LOOP;
END $$;
SELECT looked_at('own_queue_k') BETWEEN 500 AND 20000 AS few;
DO $$
DECLARE next int;
BEGIN
	FOR i IN 1501 .. 2000 LOOP
		SELECT id INTO next FROM own_queue WHERE state = 'ready' ORDER BY id LIMIT 1;
		ASSERT next = i;
		UPDATE own_queue SET state = 'done' WHERE id = next;
	END LOOP;
END $$;
SELECT looked_at('own_queue_state') BETWEEN 500 AND 20000 AS few;
SELECT count(*), min(id), count(*) FILTER (WHERE state = 'done') AS done FROM own_queue;
ROLLBACK;
SELECT count(*), min(id), count(*) FILTER (WHERE state = 'done') AS done FROM own_queue;

-- What each snapshot sees of such rows is what it sees of heap's.
CREATE FUNCTION own_seen() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
	l text;
	h text;
BEGIN
	SELECT count(*) || ' from ' || min(id) INTO l FROM (SELECT id FROM own_queue ORDER BY id LIMIT 10) q;
	SELECT count(*) || ' from ' || min(id) INTO h FROM (SELECT id FROM own_heap ORDER BY id LIMIT 10) q;
	IF l IS DISTINCT FROM h THEN
		RAISE WARNING 'lsm %, heap %', l, h;
	END IF;
	RETURN l;
END $$;
BEGIN;
DECLARE own_before CURSOR WITH HOLD FOR SELECT own_seen() FROM generate_series(1, 9);
DELETE FROM own_queue WHERE id <= 100;
DELETE FROM own_heap WHERE id <= 100;
SELECT own_seen(), own_seen();
FETCH own_before;
DECLARE own_between CURSOR FOR SELECT own_seen() FROM generate_series(1, 9);
SAVEPOINT a;
DELETE FROM own_queue WHERE id <= 200;
DELETE FROM own_heap WHERE id <= 200;
SELECT own_seen(), own_seen();
SAVEPOINT b;
DELETE FROM own_queue WHERE id <= 300;
DELETE FROM own_heap WHERE id <= 300;
SELECT own_seen(), own_seen();
FETCH own_between;
FETCH own_before;
ROLLBACK TO b;
SELECT own_seen(), own_seen();
DELETE FROM own_queue WHERE id <= 250;
DELETE FROM own_heap WHERE id <= 250;
SELECT own_seen(), own_seen();
RELEASE b;
FETCH own_between;
ROLLBACK TO a;
SELECT own_seen(), own_seen();
UPDATE own_queue SET id = id + 10000 WHERE id <= 150;
UPDATE own_heap SET id = id + 10000 WHERE id <= 150;
SELECT own_seen(), own_seen();
FETCH own_between;
FETCH own_before;
INSERT INTO own_queue VALUES (7, 7, 'again');
INSERT INTO own_heap VALUES (7, 7, 'again');
SELECT own_seen(), own_seen();
COMMIT;
FETCH own_before;
CLOSE own_before;
SELECT own_seen(), own_seen();
-- a trigger's view of what its statement has deleted so far
CREATE FUNCTION own_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF OLD.id % 50 = 0 THEN
		RAISE NOTICE '%: %', OLD.id, own_seen();
	END IF;
	DELETE FROM own_heap WHERE id = OLD.id;
	RETURN OLD;
END $$;
CREATE TRIGGER own_trigger BEFORE DELETE ON own_queue FOR EACH ROW EXECUTE FUNCTION own_trigger();
BEGIN;
DELETE FROM own_queue WHERE id <= 300;
SELECT own_seen(), own_seen();
ROLLBACK;
SELECT own_seen(), own_seen();
DROP TRIGGER own_trigger ON own_queue;
-- rows that were deleted by one subtransaction after the other, all rolled back
DO $$
BEGIN
	FOR i IN 1 .. 30 LOOP
		BEGIN
			DELETE FROM own_queue WHERE id < 300;
			DELETE FROM own_heap WHERE id < 300;
			PERFORM own_seen(), own_seen();
			RAISE EXCEPTION 'back';
		EXCEPTION WHEN raise_exception THEN
			PERFORM own_seen(), own_seen();
		END;
	END LOOP;
END $$;
-- TRUNCATE of a table that is as new as the transaction: its row numbers begin anew
BEGIN;
CREATE TABLE own_new (id int PRIMARY KEY) USING lsm;
INSERT INTO own_new SELECT generate_series(1, 50);
DELETE FROM own_new WHERE id <= 40;
SELECT min(id) FROM own_new;
SELECT min(id) FROM own_new;
TRUNCATE own_new;
INSERT INTO own_new SELECT generate_series(1, 50);
SELECT min(id) FROM own_new;
COMMIT;
SELECT min(id) FROM own_new;
DROP FUNCTION looked_at(regclass);
DROP TABLE own_queue, own_heap, own_new;
DROP FUNCTION own_seen(), own_trigger();
