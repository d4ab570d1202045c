-- Keys that were updated and then deleted: what was noted of them is given up once its rows are
-- dead to everyone, and a lookup costs what it costs for a key that never was.  The index lets updates make new rows.
CREATE EXTENSION pg_walinspect;
SET lsm.constraint_index = lsm;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE TABLE deleted_l (id int PRIMARY KEY, v int) USING lsm;
CREATE INDEX ON deleted_l (v) WHERE v IS NULL;
INSERT INTO deleted_l SELECT i, 0 FROM generate_series(1, 20) i;
CREATE FUNCTION deleted_look(n int, key int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	got int;
BEGIN
	FOR i IN 1..n LOOP
		SELECT v INTO got FROM deleted_l WHERE id = key;
	END LOOP;
	RETURN got;
END $$;
CREATE VIEW deleted_lookups AS SELECT relname, lookups FROM pg_stat_lsm
	WHERE relname IN ('deleted_l', 'deleted_l_pkey') ORDER BY relname;
-- DELETE entries that scans have logged; the function has another name in each version
CREATE FUNCTION deleted_logged(since pg_lsn) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE 'SELECT count(*) FROM ' ||
		CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'pg_get_wal_records_info_till_end_of_wal($1)'
		ELSE 'pg_get_wal_records_info($1, ''FFFFFFFF/FFFFFFFF'')' END ||
		' WHERE resource_manager = ''lsmam'' AND record_type LIKE ''LOG_APPEND%''' INTO n USING since;
	RETURN n;
END $$;

-- in memory
UPDATE deleted_l SET v = v + 1 WHERE id = 1;
UPDATE deleted_l SET v = v + 1 WHERE id = 1;
DELETE FROM deleted_l WHERE id = 1;
SELECT deleted_look(1, 1);
SELECT pg_stat_lsm_reset();
SELECT pg_current_wal_insert_lsn() AS start \gset
SELECT deleted_look(10, 1);
SELECT * FROM deleted_lookups;
SELECT pg_logical_emit_message(true, 'deleted', '') IS NOT NULL AS flushed;
SELECT deleted_logged(:'start');

-- the key comes back, and what is noted of it later counts again
UPDATE deleted_l SET v = v + 1 WHERE id = 2;
BEGIN;
DELETE FROM deleted_l WHERE id = 2;
INSERT INTO deleted_l VALUES (2, 10);
COMMIT;
SELECT deleted_look(1, 2);
SELECT pg_stat_lsm_reset();
SELECT deleted_look(10, 2);
SELECT * FROM deleted_lookups;
UPDATE deleted_l SET v = v + 1 WHERE id = 2;
SELECT deleted_look(2, 2);
UPDATE deleted_l SET v = v + 1 WHERE id = 2;
SELECT deleted_look(2, 2);
INSERT INTO deleted_l VALUES (1, 20);
UPDATE deleted_l SET v = v + 1 WHERE id = 1;
SELECT deleted_look(2, 1);

-- in a file: the walk that comes next deletes the entries, once
UPDATE deleted_l SET v = v + 1 WHERE id = 3;
SELECT lsm_flush('deleted_l');
DELETE FROM deleted_l WHERE id = 3;
SELECT pg_current_wal_insert_lsn() AS start \gset
SELECT deleted_look(2, 3);
SELECT pg_logical_emit_message(true, 'deleted', '') IS NOT NULL AS flushed;
SELECT deleted_logged(:'start') > 0 AS logged;
SELECT pg_stat_lsm_reset();
SELECT pg_current_wal_insert_lsn() AS start \gset
SELECT deleted_look(10, 3);
SELECT * FROM deleted_lookups;
SELECT pg_logical_emit_message(true, 'deleted', '') IS NOT NULL AS flushed;
SELECT deleted_logged(:'start');

-- an update that was undone is dead, too; the row before it is not
UPDATE deleted_l SET v = v + 1 WHERE id = 4;
BEGIN;
UPDATE deleted_l SET v = 100 WHERE id = 4;
ROLLBACK;
SELECT deleted_look(3, 4);
UPDATE deleted_l SET v = v + 1 WHERE id = 4;
SELECT deleted_look(3, 4);
-- as long as somebody may see the row, it stays noted
UPDATE deleted_l SET v = v + 1 WHERE id = 5;
BEGIN;
DELETE FROM deleted_l WHERE id = 5;
SELECT deleted_look(3, 5);
ROLLBACK;
SELECT deleted_look(3, 5);

SELECT * FROM deleted_l WHERE id BETWEEN 1 AND 6 ORDER BY id;
SELECT * FROM lsm_verify('deleted_l');
DROP VIEW deleted_lookups;
DROP FUNCTION deleted_look, deleted_logged;
DROP TABLE deleted_l;
DROP EXTENSION pg_walinspect;
RESET ALL;
