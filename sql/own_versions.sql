-- A transaction that changes one row again and again finds its newest version without a look at all the others.
CREATE TABLE own (id int PRIMARY KEY, n int, name text UNIQUE) USING lsm;
CREATE TABLE own_wide (id text COLLATE "C" PRIMARY KEY, n int) USING lsm;
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
