-- Sizes on disk, sorted files included: as PostgreSQL's functions for other tables
CREATE SCHEMA sizes;
CREATE TABLE sizes.l (id int, v text) USING lsm;
CREATE TABLE sizes.h (id int, v text) USING heap;
CREATE INDEX l_id ON sizes.l USING lsm (id);
CREATE INDEX l_b ON sizes.l USING btree (id);
CREATE INDEX h_id ON sizes.h USING lsm (id);
CREATE INDEX h_b ON sizes.h USING btree (id);
INSERT INTO sizes.l SELECT i, repeat(md5(i::text), 3) FROM generate_series(1, 5000) i;
INSERT INTO sizes.l SELECT 0, string_agg(md5(i::text), '') FROM generate_series(1, 3000) i;
INSERT INTO sizes.h SELECT * FROM sizes.l;
SELECT lsm_compact('sizes.l'), lsm_compact('sizes.h_id');
-- of a table: forks, TOAST, files
SELECT lsm_table_size('sizes.l') = pg_table_size('sizes.l') + lsm_relation_size('sizes.l') - pg_relation_size('sizes.l') AS sum,
	lsm_table_size('sizes.l') > pg_table_size('sizes.l') + 200000 AS files,
	pg_table_size('sizes.l') > pg_relation_size('sizes.l') + 90000 AS toast;
SELECT lsm_table_size('sizes.h') = pg_table_size('sizes.h') AS heap, lsm_table_size('sizes.h_b') = pg_table_size('sizes.h_b') AS btree,
	lsm_table_size('sizes.l_id') > pg_table_size('sizes.l_id') + 10000 AS lsm_index;
-- of a database: what pg_database_size() has, and the files
SELECT lsm_database_size(current_database()) > pg_database_size(current_database()) + 300000 AS files,
	lsm_database_size(current_database()) > lsm_total_relation_size('sizes.l') + lsm_total_relation_size('sizes.h') AS all,
	abs(lsm_database_size(current_database()) - lsm_database_size((SELECT oid FROM pg_database WHERE datname = current_database()))) < 1000000 AS by_oid,
	lsm_database_size('template0') = pg_database_size('template0') AS no_files, lsm_database_size(NULL::name) IS NULL AS null;
SELECT lsm_database_size('sizes_none');
CREATE ROLE lsm_regress_sizes;
DO $$ BEGIN EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database()); END $$;
SET ROLE lsm_regress_sizes;
DO $$ BEGIN PERFORM lsm_database_size(current_database()); EXCEPTION WHEN insufficient_privilege THEN RAISE NOTICE 'refused'; END $$;
RESET ROLE;
GRANT pg_read_all_stats TO lsm_regress_sizes;
SET ROLE lsm_regress_sizes;
SELECT lsm_database_size(current_database()) > 0 AS shown;
RESET ROLE;
DO $$ BEGIN EXECUTE format('GRANT CONNECT ON DATABASE %I TO PUBLIC', current_database()); END $$;
DROP ROLE lsm_regress_sizes;
-- with indexes, of any kind of table
SELECT t, lsm_indexes_size(t) = (SELECT sum(lsm_table_size(indexrelid)) FROM pg_index WHERE indrelid = t) AS indexes,
	lsm_indexes_size(t) > pg_indexes_size(t) + 10000 AS files,
	lsm_total_relation_size(t) = lsm_table_size(t) + lsm_indexes_size(t) AS total
FROM unnest(ARRAY['sizes.l', 'sizes.h']::regclass[]) t;
SELECT lsm_total_relation_size('pg_class') = pg_total_relation_size('pg_class') AS catalog;
SELECT lsm_table_size(NULL) IS NULL AS null, lsm_table_size(0) IS NULL AS none, lsm_indexes_size(0) IS NULL AS no_indexes, lsm_indexes_size('sizes.l_id') AS of_index;
CREATE TABLE sizes.p (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE sizes.p1 PARTITION OF sizes.p FOR VALUES FROM (0) TO (10) USING lsm;
CREATE INDEX p_id ON sizes.p USING lsm (id);
-- a partitioned table is as large as its parts: of several kinds and levels, with indexes that are not the whole's
CREATE TABLE sizes.p2 PARTITION OF sizes.p FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
CREATE TABLE sizes.p21 PARTITION OF sizes.p2 FOR VALUES FROM (10) TO (15) USING lsm;
CREATE TABLE sizes.p22 PARTITION OF sizes.p2 FOR VALUES FROM (15) TO (20) USING heap;
CREATE INDEX p1_own ON sizes.p1 USING lsm (id);
INSERT INTO sizes.p SELECT generate_series(0, 19);
SELECT lsm_flush(relid) FROM pg_partition_tree('sizes.p') WHERE isleaf;
SELECT r, count(*) AS parts, lsm_table_size(r) = sum(lsm_table_size(t.relid)) AND lsm_table_size(r) > 0 AS table,
	lsm_indexes_size(r) = sum(lsm_indexes_size(t.relid)) AND lsm_indexes_size(r) > 0 AS indexes,
	lsm_total_relation_size(r) = sum(lsm_total_relation_size(t.relid)) AS total,
	lsm_total_relation_size(r) > sum(pg_total_relation_size(t.relid)) AS files
FROM unnest(ARRAY['sizes.p', 'sizes.p2']::regclass[]) r, pg_partition_tree(r) t WHERE t.isleaf GROUP BY r ORDER BY r;
SELECT lsm_indexes_size('sizes.p1') = (SELECT sum(lsm_table_size(indexrelid)) FROM pg_index WHERE indrelid = 'sizes.p1'::regclass) AS own,
	lsm_table_size('sizes.p_id') = (SELECT sum(lsm_table_size(relid)) FROM pg_partition_tree('sizes.p_id') WHERE isleaf) AS index, lsm_table_size('sizes.p_id') > 0 AS is_some;
SELECT sum(total_bytes) = lsm_total_relation_size('sizes.p') AS once FROM lsm_sizes WHERE schemaname = 'sizes' AND relname LIKE 'p%';
-- one with an access method, which it can have since 17, is no different
DO $$
BEGIN
	EXECUTE 'CREATE TABLE sizes.pam (id int) PARTITION BY RANGE (id)' || CASE WHEN current_setting('server_version_num')::int >= 170000 THEN ' USING lsm' ELSE '' END;
END $$;
CREATE TABLE sizes.pam1 PARTITION OF sizes.pam FOR VALUES FROM (0) TO (10) USING lsm;
CREATE INDEX pam_id ON sizes.pam USING lsm (id);
INSERT INTO sizes.pam SELECT generate_series(0, 9);
SELECT lsm_table_size('sizes.pam') = lsm_table_size('sizes.pam1') AS table, lsm_indexes_size('sizes.pam') = lsm_indexes_size('sizes.pam1') AS indexes, lsm_total_relation_size('sizes.pam') = lsm_total_relation_size('sizes.pam1') AS total;
SELECT lsm_relation_size('sizes.pam');
SELECT lsm_flush('sizes.pam');
SELECT * FROM lsm_levels('sizes.pam');
SELECT * FROM lsm_verify('sizes.pam');
SELECT * FROM lsm_advise('sizes.pam');
SELECT lsm_report(ARRAY['sizes.pam']::regclass[]);
VACUUM sizes.pam;
ANALYZE sizes.pam;
SELECT count(*) FROM sizes.pam;
DROP TABLE sizes.pam;
-- what is not there, as pg_relation_size() says it; what is not there yet
SELECT lsm_relation_size(0) IS NULL AS none, lsm_relation_size(NULL) IS NULL AS null, lsm_total_relation_size(0) IS NULL AS total, pg_relation_size(0) IS NULL AS core;
CREATE TABLE sizes.twice (id int) USING lsm;
INSERT INTO sizes.twice VALUES (1), (1);
CREATE UNIQUE INDEX CONCURRENTLY twice_id ON sizes.twice USING lsm (id);
UPDATE pg_index SET indisready = false WHERE indexrelid = 'sizes.twice_id'::regclass;
SELECT lsm_table_size('sizes.twice_id') = pg_table_size('sizes.twice_id') AS not_built, lsm_relation_size('sizes.twice_id') = pg_relation_size('sizes.twice_id') AS fork;
SELECT count(*) FROM lsm_sizes WHERE schemaname = 'sizes' AND total_bytes IS NULL;
DROP TABLE sizes.twice;
CREATE VIEW sizes.v AS SELECT 1;
SELECT lsm_total_relation_size('sizes.v');
CREATE TEMP TABLE sizes_t (id int) USING lsm;
INSERT INTO sizes_t SELECT generate_series(1, 1000);
SELECT relname FROM lsm_sizes WHERE relname = 'sizes_t' AND total_bytes > 0;
-- the views
SELECT relname, amname, table_bytes = lsm_table_size(('sizes.' || relname)::regclass) AS table, total_bytes = table_bytes + indexes_bytes AS total
FROM lsm_sizes WHERE schemaname = 'sizes' ORDER BY relname;
SELECT tables, total_bytes = table_bytes + indexes_bytes AS total,
	total_bytes = (SELECT sum(total_bytes) FROM lsm_sizes WHERE schemaname = 'sizes') AS sum
FROM lsm_schema_sizes WHERE schemaname = 'sizes';
-- who may look at nothing sees that there is something, as in pg_class, and an error if he asks for more
CREATE ROLE lsm_regress_sizes;
GRANT USAGE ON SCHEMA sizes TO lsm_regress_sizes;
GRANT SELECT (id) ON sizes.h TO lsm_regress_sizes;
SET ROLE lsm_regress_sizes;
SELECT relname, total_bytes IS NULL AS hidden FROM lsm_sizes WHERE schemaname = 'sizes' ORDER BY relname;
SELECT lsm_total_relation_size('sizes.l');
SELECT lsm_total_relation_size('sizes.h') > 0 AS allowed;
RESET ROLE;
SET client_min_messages = warning;
DROP SCHEMA sizes CASCADE;
DROP TABLE sizes_t;
RESET client_min_messages;
DROP ROLE lsm_regress_sizes;
