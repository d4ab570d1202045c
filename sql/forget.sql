-- Rows and index entries that scans took out of the memtables are, for a standby, removed by
-- the flush: its record has to carry the newest transaction id that deleted one of them
CREATE EXTENSION pg_walinspect;
SET enable_seqscan = off;
CREATE TABLE forget_l (id int PRIMARY KEY, v int) USING lsm;
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
-- sees the last dead version and its index entry
SELECT * FROM forget_l WHERE id = 1;
SELECT * FROM forget_l WHERE id = 1;
SELECT lsm_flush('forget_l');
-- if nothing is left of the dead, who made them so is in the record
SELECT relation, entries = 1 AS pruned FROM (
	SELECT 'table' AS relation, entries FROM lsm_files('forget_l')
	UNION ALL SELECT 'index', entries FROM lsm_files('forget_l_pkey')) f ORDER BY 1;
SELECT count(*) AS edits, bool_and((regexp_match(description, 'conflict xid (\d+)'))[1]::bigint >= :deleter) AS accounted
	FROM pg_get_wal_records_info_till_end_of_wal(:'start')
	WHERE resource_manager = 'lsmam' AND record_type = 'EDIT';
DROP TABLE forget_l;
DROP EXTENSION pg_walinspect;
RESET ALL;
