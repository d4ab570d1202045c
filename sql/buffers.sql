-- EXPLAIN (BUFFERS), pg_statio_* and pg_stat_io (16 and later) count pages of sorted files
SET track_io_timing = off;
CREATE FUNCTION pages(query text, what text DEFAULT 'Shared Hit Blocks') RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> what;
END $$;
-- bytes do not compress: as many pages as the files have
CREATE TABLE buf (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO buf SELECT g, string_agg(md5((g * 100 + s)::text), '') FROM generate_series(1, 20000) g, generate_series(1, 10) s GROUP BY g ORDER BY g;
CREATE TABLE buf_heap (id int PRIMARY KEY, v text) USING heap;
INSERT INTO buf_heap SELECT * FROM buf;
VACUUM FULL buf;
VACUUM ANALYZE buf;
VACUUM ANALYZE buf_heap;
SET max_parallel_workers_per_gather = 0;
SET enable_indexonlyscan = off;
-- each page once
SELECT pages('SELECT count(v) FROM buf') * 8192.0 / (SELECT sum(bytes) FROM lsm_files('buf')) BETWEEN 0.9 AND 1.1 AS scan;
SELECT pages('SELECT count(v) FROM buf') BETWEEN pages('SELECT count(v) FROM buf_heap') / 3 AND pages('SELECT count(v) FROM buf_heap') * 3 AS as_heap;
-- a handful for a key, each time another one
SET enable_seqscan = off;
SELECT pages('SELECT v FROM buf WHERE id = 4711') BETWEEN 2 AND 20 AS point,
	pages('SELECT v FROM buf WHERE id = 11147') BETWEEN 2 AND 20 AS another_point;
SELECT pages('SELECT v FROM buf WHERE id BETWEEN 1000 AND 1999') BETWEEN 20 AND 200 AS range;
SELECT pages('SELECT v FROM buf WHERE id BETWEEN 1000 AND 1999 ORDER BY id DESC') BETWEEN 20 AND 200 AS backwards;
RESET enable_seqscan;
-- the relation's, too
SELECT pg_stat_force_next_flush();
SELECT heap_blks_read < 10 AS read, heap_blks_hit > 1000 AS rows, idx_blks_read < 10 AS keys_read, idx_blks_hit BETWEEN 2 AND 1000 AS keys FROM pg_statio_user_tables WHERE relname = 'buf';
SELECT idx_blks_hit BETWEEN 2 AND 1000 AS keys FROM pg_statio_user_indexes WHERE indexrelname = 'buf_pkey';
CREATE FUNCTION io_hits() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint := 0;
BEGIN
	PERFORM pg_stat_force_next_flush();
	IF current_setting('server_version_num')::int >= 160000 THEN
		EXECUTE $q$SELECT sum(hits) FROM pg_stat_io WHERE backend_type = 'client backend' AND object = 'relation' AND context = 'normal'$q$ INTO n;
	END IF;
	RETURN n;
END $$;
SELECT io_hits() AS before \gset
SELECT count(v) FROM buf;
SELECT current_setting('server_version_num')::int < 160000 OR io_hits() - :before > 500 AS io;
-- pages of the log, of what is written
CREATE TABLE buf_log (id int PRIMARY KEY) USING lsm;
DO $$ BEGIN FOR i IN 1 .. 100 LOOP INSERT INTO buf_log VALUES (i); END LOOP; END $$;
SELECT pg_stat_force_next_flush();
SELECT heap_blks_hit BETWEEN 100 AND 300 AS rows, idx_blks_hit BETWEEN 100 AND 300 AS keys FROM pg_statio_user_tables WHERE relname = 'buf_log';
DROP TABLE buf_log;
-- temporary tables have local blocks
CREATE TEMP TABLE buf_temp (id int, v text) USING lsm;
INSERT INTO buf_temp SELECT * FROM buf;
SELECT lsm_flush('buf_temp');
SELECT pages('SELECT count(v) FROM buf_temp', 'Local Hit Blocks') > 700 AS local, pages('SELECT count(v) FROM buf_temp') < 100 AS shared;
DROP TABLE buf_temp, buf, buf_heap;
DROP FUNCTION pages, io_hits;
