-- Compression of files that have nothing below them: bottom_compression, lsm_compression()
SET client_min_messages = warning;
SET lsm.memtable_size = '1MB';
-- workers have settings of their own; temporary trees are flushed and compacted by their session
CREATE TEMP TABLE bc (id int PRIMARY KEY, v text) USING lsm;
CREATE INDEX bc_v ON bc USING lsm (v) WITH (bottom_compression = zstd);
CREATE FUNCTION bc_written(tree regclass, OUT compression text, OUT entries int8) RETURNS SETOF record LANGUAGE sql
AS 'SELECT coalesce(compression, ''?''), sum(entries) FROM lsm_compression($1) GROUP BY 1 ORDER BY 1';
CREATE FUNCTION bc_sum(OUT rows int8, OUT digest text) LANGUAGE sql AS $$ SELECT count(*), md5(string_agg(id || v, ',' ORDER BY id)) FROM bc $$;
INSERT INTO bc SELECT i, md5(i::text) || repeat('x', 60) FROM generate_series(1, 3000) i;
SELECT lsm_flush('bc');
SELECT * FROM bc_written('bc');
SELECT * FROM bc_sum();
-- a tree without files below: what is flushed is at the bottom
SELECT lsm_flush('bc_v');
SELECT * FROM bc_written('bc_v');
-- the setting applies to what is written from now on; lsm_compact writes anew what was written otherwise
SET lsm.bottom_compression = zstd;
SELECT * FROM bc_written('bc');
SELECT lsm_compact('bc');
SELECT * FROM bc_written('bc');
SELECT * FROM bc_sum();
SELECT * FROM lsm_verify('bc');
SELECT file AS before FROM lsm_files('bc') \gset
SELECT lsm_compact('bc');
SELECT file = :before AS not_again FROM lsm_files('bc');
-- rows that are only added lie at the bottom at once; changes of old ones are above it
INSERT INTO bc SELECT i, md5(i::text) || repeat('x', 60) FROM generate_series(3001, 4000) i;
SELECT lsm_flush('bc');
SELECT * FROM bc_written('bc');
UPDATE bc SET v = 'new' || v WHERE id % 20 = 0;
SELECT lsm_flush('bc');
SELECT level = 0 AS level0, compression, sum(files) AS files FROM lsm_compression('bc') GROUP BY 1, 2 ORDER BY 1, 2;
SELECT * FROM bc_sum();
SELECT lsm_compact('bc');
SELECT * FROM bc_written('bc');
SELECT * FROM bc_sum();
-- of the index, too
SELECT lsm_compact('bc_v');
SELECT * FROM bc_written('bc_v');
SET enable_seqscan = off;
SELECT count(*) FROM generate_series(1, 4100) g, LATERAL (SELECT 1 FROM bc WHERE id = g OFFSET 0) s;
SELECT count(*) FROM generate_series(1, 4100) g, LATERAL (SELECT 1 FROM bc WHERE v = md5(g::text) || repeat('x', 60) OFFSET 0) s;
SELECT count(*), min(id), max(id) FROM (SELECT id FROM bc ORDER BY id DESC OFFSET 10) s;
-- storage parameters go before the setting
ALTER INDEX bc_v SET (bottom_compression = same);
SELECT lsm_compact('bc_v');
SELECT * FROM bc_written('bc_v');
ALTER INDEX bc_v SET (bottom_compression = lz4, compression = zstd);
SELECT lsm_compact('bc_v');
SELECT * FROM bc_written('bc_v');
ALTER INDEX bc_v RESET (bottom_compression, compression);
SELECT lsm_compact('bc_v');
SELECT * FROM bc_written('bc_v');
-- builds write to the bottom
REINDEX INDEX bc_pkey;
SELECT * FROM bc_written('bc_pkey');
VACUUM FULL bc;
SELECT * FROM bc_written('bc');
SELECT * FROM bc_sum();
SELECT * FROM lsm_verify('bc');
-- back
RESET lsm.bottom_compression;
SELECT lsm_compact('bc');
SELECT * FROM bc_written('bc');
SET lsm.compression = none;
SELECT lsm_compact('bc');
SELECT * FROM bc_written('bc');
SET lsm.bottom_compression = lz4;
SELECT lsm_compact('bc');
SELECT * FROM bc_written('bc');
SELECT * FROM bc_sum();
RESET lsm.compression;
RESET lsm.bottom_compression;
-- lsm_compact of a table that workers flush
SET lsm.bottom_compression = zstd;
CREATE TABLE bc_t (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO bc_t SELECT * FROM bc;
SELECT lsm_compact('bc_t');
SELECT * FROM bc_written('bc_t');
SELECT count(*), sum(length(v)) FROM bc_t;
RESET lsm.bottom_compression;
-- a changed statement keeps the parameter: it is lsm_index's
ALTER TABLE bc ADD CONSTRAINT bc_u UNIQUE (v, id) WITH (bottom_compression = zstd);
SELECT reloptions FROM pg_class WHERE relname = 'bc_u';
-- wrong values
SET lsm.bottom_compression = auto;
SET lsm.bottom_compression = 'gzip';
ALTER INDEX bc_v SET (bottom_compression = auto);
CREATE INDEX ON bc USING lsm (v) WITH (bottom_compression = snappy);
SELECT * FROM lsm_compression('pg_class');
DROP FUNCTION bc_written(regclass), bc_sum();
DROP TABLE bc, bc_t;
