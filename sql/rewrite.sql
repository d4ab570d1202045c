-- lsm_compact() leaves every file as the present settings would write it
CREATE TABLE rewrite_h (id int, v text);
INSERT INTO rewrite_h SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
CREATE INDEX rewrite_i ON rewrite_h USING lsm (v) WITH (filter_scheme = bloom, bits_per_key = 10, compression = lz4);
CREATE VIEW rewrite_f AS
	SELECT filter_scheme, entries, round(filter_bytes * 8 / entries) AS bits_per_key
	FROM lsm_files('rewrite_i') ORDER BY level, file;
SELECT * FROM rewrite_f;
-- another scheme, other bits
ALTER INDEX rewrite_i SET (filter_scheme = blocked, bits_per_key = 20);
SELECT lsm_compact('rewrite_i');
SELECT * FROM rewrite_f;
-- nothing changed: nothing written
SELECT min(file) AS before FROM lsm_files('rewrite_i') \gset
SELECT lsm_compact('rewrite_i');
SELECT min(file) = :before AS kept FROM lsm_files('rewrite_i');
-- another compression, also for a file that only has to move down
SELECT sum(bytes) AS bytes FROM lsm_files('rewrite_i') \gset
ALTER INDEX rewrite_i SET (compression = none);
INSERT INTO rewrite_h SELECT i, 'zz' || i FROM generate_series(20001, 20100) i;
SELECT lsm_flush('rewrite_i');
ALTER INDEX rewrite_i SET (filter_scheme = none, compression = zstd);
SELECT lsm_compact('rewrite_i');
SELECT filter_scheme, entries FROM rewrite_f;
SELECT sum(bytes) <> :bytes AS rewritten FROM lsm_files('rewrite_i');
SELECT * FROM lsm_verify('rewrite_i');
SET enable_seqscan = off;
SELECT count(*) FROM rewrite_h a WHERE EXISTS (SELECT FROM rewrite_h b WHERE b.v = a.v);
DROP VIEW rewrite_f;
DROP TABLE rewrite_h;
RESET ALL;
