-- Elastic filters
CREATE TABLE e (id int, k text) USING lsm;
CREATE INDEX e_id ON e USING lsm (id) WITH (filter_scheme = elastic, bits_per_key = 12, elastic_units = 6);
CREATE INDEX e_k ON e USING lsm (k, id) WITH (filter_scheme = elastic, bits_per_key = 24, elastic_units = 16);
CREATE TABLE h (id int, k text);
INSERT INTO h SELECT i * 2, 'a long common prefix of all keys ' || i % 7 || '/' || i FROM generate_series(1, 20000) i;
INSERT INTO e SELECT * FROM h;
-- duplicates, so that a key has many entries
INSERT INTO e SELECT 40, 'x' FROM generate_series(1, 500);
SELECT lsm_flush('e');
-- one file for each, also if a worker has flushed before
DO $$ BEGIN PERFORM lsm_compact('e_id'), lsm_compact('e_k'); END $$;
SELECT DISTINCT filter_scheme FROM lsm_files('e_id') UNION ALL SELECT DISTINCT filter_scheme FROM lsm_files('e_k');
SELECT * FROM lsm_verify('e');

-- every row is found, keys that are not there are not
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SET enable_material = off; SET enable_memoize = off; SET max_parallel_workers_per_gather = 0;
ANALYZE h;
SELECT pg_stat_lsm_reset();
SELECT count(*), sum(x.id) FROM h CROSS JOIN LATERAL (SELECT * FROM e WHERE id = h.id OFFSET 0) x;
SELECT count(*) FROM h CROSS JOIN LATERAL (SELECT * FROM e WHERE id = h.id + 1 OFFSET 0) x;
-- one digest for all units ...
SELECT lookups, digests = lookups AS shared, filter_probes > 0.9 * lookups AS probes, unit_probes > filter_probes AS units,
	filter_negatives + filter_true_positives + filter_false_positives = filter_probes AS complete,
	filter_true_positives, filter_false_positives < 0.25 * 20000 AS few
FROM pg_stat_lsm WHERE relname = 'e_id';
SELECT pg_stat_lsm_reset();
SELECT count(*), sum(x.id) FROM h CROSS JOIN LATERAL (SELECT * FROM e WHERE k = h.k AND id = h.id OFFSET 0) x;
SELECT count(*) FROM h CROSS JOIN LATERAL (SELECT * FROM e WHERE k = h.k AND id = h.id + 1 OFFSET 0) x;
SELECT lookups, digests = lookups AS shared, unit_probes > 0 AS units,
	filter_negatives + filter_true_positives + filter_false_positives = filter_probes AS complete, filter_true_positives
FROM pg_stat_lsm WHERE relname = 'e_k';
-- ... or one for each
SET lsm.hash_sharing = off;
SELECT pg_stat_lsm_reset();
SELECT count(*), sum(x.id) FROM h CROSS JOIN LATERAL (SELECT * FROM e WHERE id = h.id OFFSET 0) x;
SELECT count(*) FROM h CROSS JOIN LATERAL (SELECT * FROM e WHERE id = h.id + 1 OFFSET 0) x;
SELECT digests = unit_probes AS one_per_unit, digests > lookups AS more FROM pg_stat_lsm WHERE relname = 'e_id';
RESET lsm.hash_sharing;
SELECT used_bytes <= taken_bytes AND taken_bytes <= budget_bytes AS within, units_on > 0 AS units_on,
	units_on <= units_wanted AS wanted, accesses > 0 AS accesses FROM lsm_elastic_stats();

SELECT filter_scheme, segment IS NULL AS file, count(*) > 0 AS rows, sum(keys) AS keys, min(units) AS units, bool_and(units_on BETWEEN 0 AND 6) AS units_on,
	bool_and(hotness >= 0) AS hotness, bool_and(expected_fpr > 0 AND expected_fpr <= 1) AS expected,
	bool_and(abs(bits_per_key - units_on * 2) <= 0.3 * units_on) AS bits
FROM lsm_filters('e_id') WHERE keys > 1000 GROUP BY 1, 2 ORDER BY 2;

-- other schemes and back: for files written from then on
ALTER INDEX e_id SET (filter_scheme = blocked);
INSERT INTO e SELECT id, 'second' FROM h;
SELECT lsm_compact('e_id');
SELECT DISTINCT filter_scheme FROM lsm_files('e_id');
SELECT count(*), sum(x.id) FROM h CROSS JOIN LATERAL (SELECT * FROM e WHERE id = h.id OFFSET 0) x;
ALTER INDEX e_id SET (filter_scheme = elastic, elastic_units = 2);
DELETE FROM e WHERE k = 'second';
INSERT INTO e SELECT id, 'third' FROM h;
SELECT lsm_compact('e_id');
SELECT DISTINCT filter_scheme FROM lsm_files('e_id');
SELECT count(*), sum(x.id) FROM h CROSS JOIN LATERAL (SELECT * FROM e WHERE id = h.id OFFSET 0) x;
SELECT * FROM lsm_verify('e');

-- tables and temporary ones
SET lsm.filter_scheme = elastic;
CREATE TEMP TABLE t (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 5000) i;
SELECT lsm_flush('t');
SELECT count(*) FROM h CROSS JOIN LATERAL (SELECT * FROM t WHERE id = h.id OFFSET 0) x;
SELECT * FROM lsm_verify('t');
TRUNCATE t;
INSERT INTO t VALUES (1, 'one');
SELECT * FROM t WHERE id = 1;
RESET lsm.filter_scheme;

-- values out of range
CREATE INDEX e_bad ON e USING lsm (id) WITH (filter_scheme = elastic, elastic_units = 17);
SET lsm.elastic_units = 17;
SET lsm.elastic_unit_size = 1024;
SET lsm.elastic_policy = 'compaction';
DROP TABLE e, h, t;
