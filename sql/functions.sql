-- SQL functions and the view
SELECT lsm_full_version() ~ '^lsmam 1\.1, PostgreSQL 1[5-9].*RocksDB [0-9.]+.*hashing with' AS version_ok;
CREATE TABLE l (id int PRIMARY KEY, v text) USING lsm;
CREATE INDEX l_v ON l USING lsm (v);
CREATE TABLE h (id int) USING heap;

-- nothing yet
SELECT count(*) FROM lsm_levels('l');
SELECT count(*) FROM lsm_files('l_v');
SELECT * FROM lsm_verify('l');
SELECT lsm_flush('l');
SELECT lsm_compact('l');

INSERT INTO l SELECT i, 'v' || i % 10 FROM generate_series(1, 1000) i;
SELECT count(*) FROM lsm_levels('l');
SELECT lsm_flush('l_v');
SELECT level, runs, files, entries, bytes > 0 AS bytes, filter_bytes > 0 AS filter_bytes FROM lsm_levels('l_v');
SELECT count(*) FROM lsm_levels('l');
SELECT lsm_flush('l');
SELECT level, runs, files, entries, bytes > 0 AS bytes, filter_bytes > 0 AS filter_bytes FROM lsm_levels('l');
SELECT level, files, entries FROM lsm_levels('l_pkey');
INSERT INTO l SELECT i, 'v' || i % 10 FROM generate_series(1001, 2000) i;
SELECT lsm_compact('l');
-- files that do not overlap move without being rewritten
SELECT count(*) AS levels, sum(entries) AS entries FROM lsm_levels('l');
SELECT count(*) AS levels, sum(entries) AS entries FROM lsm_levels('l_v');
SELECT run IS NOT NULL AS run, file > 0 AS file, entries, bytes > 0 AS bytes, filter_scheme,
	encode(smallest, 'hex') AS smallest, length(largest) FROM lsm_files('l') LIMIT 1;
SELECT lsm_relation_size('l') > 8192 AS table_size, lsm_relation_size('l_v') > 8192 AS index_size;
SELECT pg_table_size('l') > 0 AS sized;
SELECT * FROM lsm_verify('l');
SELECT * FROM lsm_verify('l_v');

-- wrong objects
SELECT lsm_flush('h');
SELECT lsm_compact('h');
SELECT lsm_relation_size('h');
SELECT * FROM lsm_levels('h');
SELECT * FROM lsm_files('pg_class_oid_index');
SELECT * FROM lsm_verify('h');
SELECT lsm_flush('pg_stat_lsm');
SELECT lsm_flush(0);
SELECT lsm_flush(NULL);
CREATE INDEX h_lsm ON h USING lsm (id);
SELECT lsm_flush('h');
SELECT * FROM lsm_verify('h');
SELECT lsm_relation_size('h_lsm') > 0 AS sized;

-- permissions
CREATE ROLE lsm_regress_user;
SET ROLE lsm_regress_user;
SELECT lsm_flush('l');
SELECT lsm_compact('l_v');
SELECT * FROM lsm_files('l');
SELECT * FROM lsm_verify('l_v');
SELECT count(*) FROM lsm_levels('l');
SELECT count(*) >= 3 AS visible FROM pg_stat_lsm;
SELECT pg_stat_lsm_reset();
RESET ROLE;
DROP ROLE lsm_regress_user;

-- the view
SELECT relname, kind FROM pg_stat_lsm WHERE relname IN ('l', 'l_v', 'l_pkey', 'h_lsm', 'h') ORDER BY relname;
SELECT flushes > 0 AS flushes, compactions > 0 AS compactions, bytes_flushed > 0 AS bytes_flushed,
	bytes_compacted >= 0 AS bytes_compacted, stall_ms >= 0 AS stall_ms FROM pg_stat_lsm WHERE relname = 'l';
SELECT pg_stat_lsm_reset();
SELECT lookups, digests, filter_probes, flushes FROM pg_stat_lsm WHERE relname = 'l_pkey';
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT * FROM l WHERE id = 77;
SELECT relname, lookups, digests, filter_probes, filter_negatives, filter_true_positives, filter_false_positives, memtable_hits
FROM pg_stat_lsm WHERE relname IN ('l', 'l_pkey') ORDER BY relname;
INSERT INTO l VALUES (3000, 'in memory');
SELECT pg_stat_lsm_reset();
SELECT * FROM l WHERE id = 3000;
SELECT relname, lookups, digests, memtable_hits FROM pg_stat_lsm WHERE relname IN ('l', 'l_pkey') ORDER BY relname;

RESET enable_seqscan;
RESET enable_bitmapscan;
DROP TABLE l, h;
SELECT count(*) FROM pg_stat_lsm;

-- an index whose concurrent build failed before there was a tree
CREATE COLLATION lsm_ci (provider = icu, locale = 'und', deterministic = false);
CREATE TABLE l (v text COLLATE lsm_ci) USING lsm;
INSERT INTO l VALUES ('a');
CREATE INDEX CONCURRENTLY l_v ON l USING lsm (v text_pattern_ops);
SELECT lsm_flush('l');
SELECT lsm_compact('l');
SELECT * FROM lsm_verify('l');
SELECT lsm_flush('l_v');
SELECT * FROM lsm_verify('l_v');
SELECT count(*) FROM lsm_files('l_v');
INSERT INTO l VALUES ('b');
VACUUM l;
DROP INDEX l_v;
DROP TABLE l;
DROP COLLATION lsm_ci;

-- a partitioned table and its index have no tree; their leaves have
CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (10) USING lsm;
SELECT lsm_flush('p');
SELECT * FROM lsm_verify('p_pkey');
SELECT relid, lsm_flush(relid) FROM pg_partition_tree('p') WHERE isleaf;
DROP TABLE p;

-- lsm_verify() looks each row up, among rows with the same key, too, and not through all of them
CREATE FUNCTION vd_key(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 % 5; END';
CREATE TABLE vd (id int) USING lsm;
INSERT INTO vd SELECT generate_series(1, 1000);
CREATE INDEX vd_i ON vd USING lsm_index (vd_key(id));
SET max_parallel_maintenance_workers = 0;
BEGIN;
SELECT * FROM lsm_verify('vd_i');
SELECT pg_stat_get_xact_tuples_returned('vd_i'::regclass) BETWEEN 2000 AND 3000 AS few;
COMMIT;
CREATE OR REPLACE FUNCTION vd_key(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN CASE $1 WHEN 3 THEN 4 ELSE $1 % 5 END; END';
SELECT * FROM lsm_verify('vd_i') WHERE problem LIKE '%not found%';
RESET max_parallel_maintenance_workers;
DROP TABLE vd;
DROP FUNCTION vd_key(int);

-- rows of who has added a column and was rolled back
CREATE TABLE rolled_back_column (i int) USING lsm;
BEGIN;
ALTER TABLE rolled_back_column ADD c int;
INSERT INTO rolled_back_column VALUES (1, 2);
ROLLBACK;
SELECT * FROM lsm_verify('rolled_back_column');
DROP TABLE rolled_back_column;
