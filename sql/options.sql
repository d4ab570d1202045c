-- Settings and index options
SELECT name, setting, unit, context, vartype, enumvals FROM pg_settings WHERE name LIKE 'lsm.%'
	AND name NOT IN ('lsm.crash_point', 'lsm.second_opinion', 'lsm.memtable_memory') ORDER BY name;
SET lsm.filter_scheme = 'cuckoo';
SET lsm.bits_per_key = 0.5;
SET lsm.bits_per_key = 65;
SET lsm.size_ratio = 1;
SET lsm.size_ratio = 101;
SET lsm.memtable_size = '1kB';
SET lsm.compression = 'gzip';
SET lsm.constraint_index = 'hash';
SET lsm.memtable_memory = '1GB';
SET lsm.compaction_workers = 2;
SET lsm.no_such_setting = 1;

CREATE TABLE l (id int, v text) USING lsm;
INSERT INTO l SELECT i, 'v' || i FROM generate_series(1, 2000) i;
-- reloptions of an index
CREATE INDEX l_none ON l USING lsm (id) WITH (filter_scheme = none);
CREATE INDEX l_bloom ON l USING lsm (id) WITH (filter_scheme = bloom, bits_per_key = 12.5);
CREATE INDEX l_blocked ON l USING lsm (id) WITH (filter_scheme = blocked, bits_per_key = 16, size_ratio = 4, compression = zstd);
CREATE INDEX l_default ON l USING lsm (id);
SELECT c.relname, f.filter_scheme, f.filter_bytes > 0 AS has_filter,
	round(f.filter_bytes * 8.0 / f.entries) AS bits
FROM pg_class c, LATERAL lsm_files(c.oid) f WHERE c.relname IN ('l_none', 'l_bloom', 'l_blocked', 'l_default') ORDER BY 1;
SELECT relname, reloptions FROM pg_class WHERE relname LIKE 'l\_%' ORDER BY 1;
CREATE INDEX l_bad ON l USING lsm (id) WITH (filter_scheme = cuckoo);
CREATE INDEX l_bad ON l USING lsm (id) WITH (bits_per_key = 100);
CREATE INDEX l_bad ON l USING lsm (id) WITH (size_ratio = 1);
CREATE INDEX l_bad ON l USING lsm (id) WITH (compression = gzip);
-- btree's are taken and do nothing
ALTER INDEX l_blocked SET (fillfactor = 40, deduplicate_items = off);
SELECT reloptions FROM pg_class WHERE relname = 'l_blocked';
ALTER INDEX l_blocked SET (fillfactor = 4);
ALTER INDEX l_blocked RESET (fillfactor, deduplicate_items);
CREATE INDEX l_bad ON l USING lsm (id) WITH (fastupdate = on);
-- changed for files written from then on
ALTER INDEX l_default SET (filter_scheme = bloom, bits_per_key = 6);
SELECT filter_scheme FROM lsm_files('l_default');
INSERT INTO l VALUES (5000, 'x');
SELECT lsm_compact('l_default');
SELECT filter_scheme FROM lsm_files('l_default') ORDER BY file DESC LIMIT 1;
INSERT INTO l SELECT i, 'y' FROM generate_series(1, 2000) i;
SELECT lsm_compact('l_default');
SELECT DISTINCT filter_scheme, round(filter_bytes * 8.0 / entries) AS bits FROM lsm_files('l_default') WHERE entries > 1000;
ALTER INDEX l_default RESET (filter_scheme, bits_per_key);
INSERT INTO l VALUES (5001, 'x');
SELECT lsm_flush('l_default');
SELECT filter_scheme FROM lsm_files('l_default') ORDER BY file DESC LIMIT 1;
-- settings shape what the session writes
SET lsm.filter_scheme = bloom;
SET lsm.compression = none;
SELECT lsm_compact('l');
INSERT INTO l VALUES (5002, 'x');
SELECT lsm_compact('l');
SELECT DISTINCT filter_scheme FROM lsm_files('l');
SET lsm.compression = zstd;
SET lsm.filter_scheme = none;
INSERT INTO l VALUES (5003, 'x');
SELECT lsm_flush('l');
SELECT filter_scheme FROM lsm_files('l') ORDER BY file DESC LIMIT 1;
SET enable_seqscan = off;
SELECT * FROM l WHERE id = 5002;
SELECT * FROM lsm_verify('l');
RESET ALL;
SELECT relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE relname LIKE 'l\_b%' ORDER BY 1;
DROP TABLE l;
-- tables have no lsm options in PostgreSQL 15
CREATE TABLE l (id int) USING lsm WITH (bits_per_key = 10);
CREATE TABLE l (id int) USING lsm WITH (fillfactor = 70, autovacuum_enabled = off);
DROP TABLE l;
