-- Filter schemes quotient, cascade and ribbon: written by build, flush and compaction, probed by lookups
CREATE TABLE fs (id int, v text) USING lsm;
INSERT INTO fs SELECT i, 'v' || i FROM generate_series(2, 40000, 2) i;
CREATE INDEX fs_quotient ON fs USING lsm (id) WITH (filter_scheme = quotient, bits_per_key = 32);
CREATE INDEX fs_cascade ON fs USING lsm (id) WITH (filter_scheme = cascade, bits_per_key = 32);
CREATE INDEX fs_few ON fs USING lsm (id) WITH (filter_scheme = quotient, bits_per_key = 1);
CREATE INDEX fs_ten ON fs USING lsm (id) WITH (filter_scheme = cascade);
SELECT c.relname, f.filter_scheme, f.entries,
	round(f.filter_bytes * 8.0 / f.entries) AS bits, f.filter_bytes % 4096 = 0 AS pages
FROM pg_class c, LATERAL lsm_files(c.oid) f WHERE c.relname LIKE 'fs\_%' ORDER BY 1;
SELECT c.relname, p.* FROM pg_class c, LATERAL lsm_verify(c.oid) p WHERE c.relname LIKE 'fs%';
DROP INDEX fs_few, fs_ten;

-- 32 bits per key: never wrong here.  Absent keys cost one block each with cascade, a page of the
-- filter, and none with quotient
CREATE FUNCTION fs_ask(first int, last int, step int, sharing bool) RETURNS TABLE (found bigint) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('lsm.hash_sharing', sharing::text, true);
	RETURN QUERY EXECUTE format('SELECT count(*) FROM generate_series(%s, %s, %s) g, LATERAL (SELECT 1 FROM fs WHERE id = g OFFSET 0) s', first, last, step);
END $$;
CREATE VIEW fs_stats AS
SELECT relname, lookups, digests, filter_probes AS probes, filter_negatives AS negatives,
	filter_true_positives AS true_positives, filter_false_positives AS false_positives, blocks_read
FROM pg_stat_lsm WHERE relname LIKE 'fs\_%' AND lookups > 0 ORDER BY 1;

BEGIN;
DROP INDEX fs_quotient;
SELECT pg_stat_lsm_reset();
SELECT * FROM fs_ask(10001, 16000, 2, true);
SELECT * FROM fs_stats;
SELECT pg_stat_lsm_reset();
SELECT * FROM fs_ask(20001, 22000, 1, false);
SELECT relname, lookups, digests, probes, negatives, true_positives, false_positives FROM fs_stats;
ROLLBACK;
BEGIN;
DROP INDEX fs_cascade;
SELECT pg_stat_lsm_reset();
SELECT * FROM fs_ask(10001, 16000, 2, true);
SELECT * FROM fs_stats;
SELECT pg_stat_lsm_reset();
SELECT * FROM fs_ask(20001, 22000, 1, false);
SELECT relname, lookups, digests, probes, negatives, true_positives, false_positives FROM fs_stats;
ROLLBACK;

-- three runs: three pages
INSERT INTO fs SELECT i, 'x' FROM generate_series(10000, 16000, 1000) i;
SELECT lsm_flush('fs_quotient'), lsm_flush('fs_cascade');
INSERT INTO fs SELECT i, 'y' FROM generate_series(10000, 16000, 1000) i;
SELECT lsm_flush('fs_quotient'), lsm_flush('fs_cascade');
BEGIN;
DROP INDEX fs_quotient;
SELECT pg_stat_lsm_reset();
SELECT * FROM fs_ask(10001, 16000, 2, true);
SELECT * FROM fs_stats;
ROLLBACK;

-- compaction: filters are merged where all keys survive, built where some do not
CREATE TABLE fm (id int PRIMARY KEY, v text);
CREATE INDEX fm_lsm ON fm USING lsm (id) WITH (filter_scheme = quotient);
INSERT INTO fm SELECT i, 'a' FROM generate_series(1, 6000, 2) i;
SELECT lsm_flush('fm_lsm');
INSERT INTO fm SELECT i, 'b' FROM generate_series(2, 6000, 2) i;
SELECT lsm_flush('fm_lsm');
-- and of both schemes into one
ALTER INDEX fm_lsm SET (filter_scheme = cascade);
INSERT INTO fm SELECT i, 'c' FROM generate_series(6001, 12000) i;
SELECT lsm_flush('fm_lsm');
SET client_min_messages = debug1;
SELECT lsm_compact('fm_lsm');
RESET client_min_messages;
SELECT filter_scheme, entries FROM lsm_files('fm_lsm');
SELECT * FROM lsm_verify('fm_lsm');
-- entries that go: the filter is built
DELETE FROM fm WHERE id % 3 = 0;
SET client_min_messages = debug1;
VACUUM fm;
RESET client_min_messages;
INSERT INTO fm SELECT i, 'd' FROM generate_series(12001, 13000) i;
SELECT lsm_flush('fm_lsm');
SET client_min_messages = debug1;
SELECT lsm_compact('fm_lsm');
RESET client_min_messages;
SELECT filter_scheme, entries FROM lsm_files('fm_lsm');
SELECT * FROM lsm_verify('fm_lsm');
-- from another scheme's files, too
ALTER INDEX fm_lsm SET (filter_scheme = blocked);
INSERT INTO fm SELECT i, 'e' FROM generate_series(3, 12000, 6) i;
SELECT lsm_flush('fm_lsm');
ALTER INDEX fm_lsm SET (filter_scheme = quotient, bits_per_key = 6);
INSERT INTO fm SELECT i, 'f' FROM generate_series(6, 12000, 6) i;
SELECT lsm_flush('fm_lsm');
SELECT DISTINCT filter_scheme FROM lsm_files('fm_lsm') ORDER BY 1;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*), count(DISTINCT f.id) FROM generate_series(1, 14000) g, LATERAL (SELECT id FROM fm WHERE id = g OFFSET 0) f;
SET client_min_messages = debug1;
SELECT lsm_compact('fm_lsm');
RESET client_min_messages;
SELECT count(*), count(DISTINCT f.id) FROM generate_series(1, 14000) g, LATERAL (SELECT id FROM fm WHERE id = g OFFSET 0) f;
SELECT DISTINCT filter_scheme FROM lsm_files('fm_lsm') ORDER BY 1;
SELECT * FROM lsm_verify('fm_lsm');
RESET enable_seqscan;
RESET enable_bitmapscan;

-- tables follow the setting; rows are found by TID
SET lsm.filter_scheme = cascade;
CREATE TABLE ft (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO ft SELECT i, md5(i::text) FROM generate_series(1, 5000) i;
SELECT lsm_flush('ft');
SET lsm.filter_scheme = quotient;
INSERT INTO ft SELECT i, md5(i::text) FROM generate_series(5001, 10000) i;
SELECT lsm_flush('ft');
UPDATE ft SET v = 'new' WHERE id % 100 = 0;
SELECT lsm_flush('ft');
RESET lsm.filter_scheme;
SELECT filter_scheme, count(*) FROM lsm_files('ft') GROUP BY 1 ORDER BY 1;
SELECT count(*), sum(id), count(*) FILTER (WHERE v = 'new') FROM ft;
SELECT lsm_compact('ft');
SELECT count(*), sum(id), count(*) FILTER (WHERE v = 'new') FROM ft;
SELECT * FROM lsm_verify('ft');

-- ribbon: never wrong with 32 bits, by build, flush and compaction; one key at a time and in groups
CREATE TABLE fs_r (id int, v text) USING lsm;
INSERT INTO fs_r SELECT i, 'v' || i FROM generate_series(2, 40000, 2) i;
CREATE INDEX fs_ribbon ON fs_r USING lsm (id) WITH (filter_scheme = ribbon, bits_per_key = 32);
SELECT filter_scheme, entries, filter_bytes * 8.0 / entries BETWEEN 31.5 AND 32.5 AS bits FROM lsm_files('fs_ribbon');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT pg_stat_lsm_reset();
SELECT count(*) FROM generate_series(10001, 16000) g, LATERAL (SELECT 1 FROM fs_r WHERE id = g OFFSET 0) s;
SELECT lookups, digests, probes, negatives, true_positives, false_positives FROM fs_stats WHERE relname = 'fs_ribbon';
SELECT pg_stat_lsm_reset();
SELECT count(*) FROM fs_r WHERE id = ANY (ARRAY(SELECT generate_series(20001, 26000)));
SELECT probes, negatives, true_positives, false_positives FROM fs_stats WHERE relname = 'fs_ribbon';
INSERT INTO fs_r SELECT i, 'x' FROM generate_series(1, 4001, 4) i;
SELECT lsm_flush('fs_ribbon');
SELECT filter_scheme, sum(entries) FROM lsm_files('fs_ribbon') GROUP BY 1;
SELECT count(*), count(DISTINCT f.id) FROM generate_series(1, 41000) g, LATERAL (SELECT id FROM fs_r WHERE id = g OFFSET 0) f;
ALTER INDEX fs_ribbon SET (bits_per_key = 7);
SELECT lsm_compact('fs_ribbon');
SELECT filter_scheme, round(bits_per_key) AS bits, keys, expected_fpr BETWEEN 0.009 AND 0.012 AS rate FROM lsm_filters('fs_ribbon');
SELECT count(*), count(DISTINCT f.id) FROM generate_series(1, 41000) g, LATERAL (SELECT id FROM fs_r WHERE id = g OFFSET 0) f;
SELECT false_positives BETWEEN 100 AND 350 AS rate FROM fs_stats WHERE relname = 'fs_ribbon';
SELECT * FROM lsm_verify('fs_ribbon');
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP VIEW fs_stats;
DROP TABLE fs, fs_r;
DROP TABLE fm, ft;
DROP FUNCTION fs_ask;
