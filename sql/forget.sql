-- Rows and index entries that scans took out of the memtables are, for a standby, removed by
-- the flush: its record has to carry the newest transaction id that deleted one of them.
-- An index whose predicate has the column that changes lets rows move, for updates would stay in them.
CREATE EXTENSION pg_walinspect;
-- what has been logged since, by a function that has another name in each version
CREATE FUNCTION forget_logged(since pg_lsn) RETURNS TABLE (start_lsn pg_lsn, resource_manager text, record_type text, description text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'SELECT start_lsn, resource_manager, record_type, description FROM ' ||
		CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'pg_get_wal_records_info_till_end_of_wal($1)'
		ELSE 'pg_get_wal_records_info($1, ''FFFFFFFF/FFFFFFFF'')' END USING since;
END $$;
SET enable_seqscan = off;
CREATE TABLE forget_l (id int PRIMARY KEY, v int) USING lsm;
CREATE INDEX ON forget_l (v) WHERE v < 0;
INSERT INTO forget_l VALUES (1, 0);
SELECT pg_current_wal_insert_lsn() AS start \gset
DO $$
BEGIN
	FOR i IN 1..20 LOOP
		UPDATE forget_l SET v = v + 1 WHERE id = 1;
		COMMIT;
	END LOOP;
END $$;
SELECT xmin AS deleter FROM forget_l \gset
-- sees the last dead version and its index entry, where a lookup of the key would begin with the newest
SET enable_bitmapscan = off;
SELECT * FROM forget_l WHERE id > 0;
SELECT * FROM forget_l WHERE id > 0;
RESET enable_bitmapscan;
SELECT lsm_flush('forget_l');
-- if nothing is left of the dead, who made them so is in the record
SELECT relation, entries = 1 AS pruned FROM (
	SELECT 'table' AS relation, entries FROM lsm_files('forget_l')
	UNION ALL SELECT 'index', entries FROM lsm_files('forget_l_pkey')) f ORDER BY 1;
-- what is counted has to be on disk
SELECT pg_logical_emit_message(true, 'forget', '') IS NOT NULL AS flushed;
SELECT count(*) AS edits, bool_and((regexp_match(description, 'conflict xid (\d+)'))[1]::bigint >= :deleter) AS accounted
	FROM forget_logged(:'start')
	WHERE resource_manager = 'lsmam' AND record_type = 'EDIT';
DROP TABLE forget_l;
-- the same of versions: nothing goes from the index
CREATE TABLE forget_l (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO forget_l VALUES (1, 0);
SELECT lsm_flush('forget_l');
SELECT pg_current_wal_insert_lsn() AS start \gset
DO $$
BEGIN
	FOR i IN 1..20 LOOP
		UPDATE forget_l SET v = v + 1 WHERE id = 1;
		COMMIT;
	END LOOP;
END $$;
SELECT xmin AS replacer FROM forget_l \gset
SELECT lsm_flush('forget_l');
SELECT pg_logical_emit_message(true, 'forget', '') IS NOT NULL AS flushed;
SELECT count(*) AS edits, bool_and((regexp_match(description, 'conflict xid (\d+)'))[1]::bigint >= :replacer) AS accounted
	FROM forget_logged(:'start')
	WHERE resource_manager = 'lsmam' AND record_type = 'EDIT';
DROP TABLE forget_l;

-- dead rows in sorted files cannot be forgotten: the first sequential scan that meets them
-- deletes them, those that follow have nothing to do
CREATE TABLE forget_k (id int, v int) USING lsm;
CREATE INDEX ON forget_k (v) WHERE v < 0;
INSERT INTO forget_k SELECT i, 0 FROM generate_series(1, 5) i;
SELECT lsm_flush('forget_k');
UPDATE forget_k SET v = 1;
BEGIN;
INSERT INTO forget_k SELECT i, 0 FROM generate_series(6, 8) i;
ROLLBACK;
SELECT lsm_flush('forget_k');
UPDATE forget_k SET v = 2 WHERE id > 3;
SELECT pg_current_wal_insert_lsn() AS start \gset
SELECT count(*), sum(v) FROM forget_k;
SELECT pg_current_wal_insert_lsn() AS middle \gset
SELECT count(*), sum(v) FROM forget_k;
-- in a file, too, the deletions hide the rows and are no damage
SELECT lsm_flush('forget_k');
SELECT pg_logical_emit_message(true, 'forget', '') IS NOT NULL AS flushed;
SELECT start_lsn < :'middle' AS first_scan, count(*) FROM forget_logged(:'start')
	WHERE resource_manager = 'lsmam' AND record_type LIKE 'LOG_APPEND%' GROUP BY 1;
SELECT * FROM forget_k ORDER BY id;
SELECT * FROM forget_k WHERE ctid = '(0,1)';
SELECT * FROM lsm_verify('forget_k');
-- two scans find the same row, one deletes it
UPDATE forget_k SET v = 3 WHERE id = 5;
SELECT pg_current_wal_insert_lsn() AS start \gset
BEGIN;
DECLARE a CURSOR FOR SELECT count(*), sum(v) FROM forget_k;
DECLARE b CURSOR FOR SELECT count(*), sum(v) FROM forget_k;
FETCH a;
FETCH b;
CLOSE a;
CLOSE b;
COMMIT;
SELECT lsm_flush('forget_k');
SELECT pg_logical_emit_message(true, 'forget', '') IS NOT NULL AS flushed;
SELECT count(*) FROM forget_logged(:'start')
	WHERE resource_manager = 'lsmam' AND record_type LIKE 'LOG_APPEND%';
-- they go when they have met what they delete
SELECT lsm_compact('forget_k');
SELECT sum(entries) FROM lsm_files('forget_k');
SELECT * FROM lsm_verify('forget_k');
SELECT * FROM forget_k ORDER BY id;
DROP TABLE forget_k;

-- VACUUM forgets index entries that are in memory, and deletes those in files; nothing is left of either
CREATE TABLE forget_v (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO forget_v SELECT i, 0 FROM generate_series(1, 10) i;
DELETE FROM forget_v WHERE id > 4;
SELECT pg_current_wal_insert_lsn() AS start \gset
VACUUM forget_v;
SELECT pg_logical_emit_message(true, 'forget', '') IS NOT NULL AS flushed;
SELECT count(*) FROM forget_logged(:'start')
	WHERE resource_manager = 'lsmam' AND record_type LIKE 'LOG_APPEND%';
SELECT lsm_flush('forget_v');
SELECT sum(entries) FROM lsm_files('forget_v_pkey');
DELETE FROM forget_v WHERE id > 2;
VACUUM forget_v;
SELECT lsm_flush('forget_v');
SELECT lsm_compact('forget_v');
SELECT sum(entries) FROM lsm_files('forget_v_pkey');
SELECT * FROM lsm_verify('forget_v');
SET enable_bitmapscan = off;
SELECT * FROM forget_v WHERE id > 0;
INSERT INTO forget_v VALUES (4, 1), (10, 1);
SELECT * FROM forget_v WHERE id > 0;
RESET enable_bitmapscan;
DROP TABLE forget_v;

CREATE TEMP TABLE forget_t (id int, v int) USING lsm;
CREATE INDEX ON forget_t (v) WHERE v < 0;
INSERT INTO forget_t SELECT i, 0 FROM generate_series(1, 5) i;
SELECT lsm_flush('forget_t');
UPDATE forget_t SET v = 1;
SELECT count(*), sum(v) FROM forget_t;
SELECT lsm_flush('forget_t');
SELECT count(*), sum(v) FROM forget_t;
SELECT lsm_compact('forget_t');
SELECT count(*), sum(v) FROM forget_t;
DROP TABLE forget_t;

-- whatever the transaction may not do, deleting what is dead is no change of data
CREATE TABLE forget_m (id int, v int) USING lsm;
CREATE INDEX forget_m_id ON forget_m USING lsm (id);
CREATE INDEX ON forget_m (v) WHERE v < 0;
CREATE FUNCTION forget_kill() RETURNS void LANGUAGE sql AS $$
	UPDATE forget_m SET v = v + 1;
	DELETE FROM forget_m WHERE id > 2;
	INSERT INTO forget_m SELECT i, 1 FROM generate_series(3, 200) i;
$$;
INSERT INTO forget_m SELECT i, 1 FROM generate_series(1, 200) i;
SELECT lsm_flush('forget_m');
SELECT forget_kill();
BEGIN READ ONLY;
SELECT count(*), sum(v) FROM forget_m WHERE id > 0;
COMMIT;
SELECT lsm_flush('forget_m'), forget_kill();
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
DECLARE c CURSOR FOR SELECT * FROM forget_m ORDER BY id;
SET LOCAL enable_seqscan = off;
SELECT count(*), sum(v) FROM forget_m WHERE id > 0;
MOVE ALL IN c;
COMMIT;
SELECT lsm_flush('forget_m'), forget_kill();
SET default_transaction_read_only = on;
SELECT count(*), sum(v) FROM forget_m;
RESET default_transaction_read_only;
SELECT lsm_flush('forget_m'), forget_kill();
\o /dev/null
EXPLAIN ANALYZE SELECT * FROM forget_m WHERE id > 100;
\o
SELECT CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'force_parallel_mode' ELSE 'debug_parallel_query' END AS parallel \gset
SET :parallel = on;
SELECT count(*), sum(v) FROM forget_m WHERE id > 0;
RESET :parallel;
SELECT lsm_flush('forget_m'), forget_kill();
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SELECT count(*), sum(v) FROM forget_m WHERE id > 0;
RESET enable_indexscan;
RESET enable_bitmapscan;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
-- cursors: closed by what ends the transaction, also in two phases
SELECT lsm_flush('forget_m'), forget_kill();
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM forget_m WHERE id > 0 ORDER BY id;
MOVE 150 FROM c;
SAVEPOINT s;
DECLARE d CURSOR FOR SELECT * FROM forget_m;
MOVE 150 FROM d;
ROLLBACK TO s;
FETCH c;
PREPARE TRANSACTION 'forget';
COMMIT PREPARED 'forget';
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM forget_m;
MOVE ALL FROM c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT * FROM forget_m WHERE id > 0 ORDER BY id;
MOVE 5 FROM c;
COMMIT;
FETCH c;
CLOSE c;
SELECT count(*), sum(v) FROM forget_m;
SELECT count(*), count(DISTINCT id), sum(v) FROM forget_m WHERE id > 0;
SELECT * FROM lsm_verify('forget_m');
SELECT lsm_flush('forget_m'), lsm_compact('forget_m');
SELECT count(*), count(DISTINCT id), sum(v) FROM forget_m WHERE id > 0;
SELECT * FROM lsm_verify('forget_m');
DROP TABLE forget_m;
DROP FUNCTION forget_kill();

-- the planner knows that few rows left of many are slow to walk; if updates stay in their rows, there are few
RESET enable_seqscan;
CREATE TABLE forget_h (id int PRIMARY KEY, v int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO forget_h SELECT i, 0 FROM generate_series(1, 60) i;
ANALYZE forget_h;
EXPLAIN (COSTS OFF) SELECT * FROM forget_h WHERE id = 7;
SET synchronous_commit = off;
CREATE PROCEDURE forget_update() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..9000 LOOP
		UPDATE forget_h SET v = v + 1 WHERE id = i % 60 + 1;
		COMMIT;
	END LOOP;
END $$;
CALL forget_update();
EXPLAIN (COSTS OFF) SELECT * FROM forget_h WHERE id = 7;
SELECT count(*), sum(v) FROM forget_h;
CREATE INDEX ON forget_h (v) WHERE v < 0;
SET enable_seqscan = off;
CALL forget_update();
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT * FROM forget_h WHERE id = 7;
SELECT count(*), sum(v) FROM forget_h;
SELECT lsm_flush('forget_h');
EXPLAIN (COSTS OFF) SELECT * FROM forget_h WHERE id = 7;
DROP TABLE forget_h;
DROP PROCEDURE forget_update;
DROP FUNCTION forget_logged;
DROP EXTENSION pg_walinspect;
RESET ALL;
