-- lsm_filters() and lsm_advise(): what filters cost and gain, measured on constructed workloads
CREATE TABLE f (id int, v text) USING lsm WITH (autovacuum_enabled = off);
CREATE INDEX f_id ON f USING lsm (id) WITH (filter_scheme = blocked, bits_per_key = 4);
CREATE TABLE h (id int);
SELECT * FROM lsm_filters('f_id');
SELECT setting, statement, reason FROM lsm_advise('f_id');
INSERT INTO f SELECT i * 2, 'v' || i FROM generate_series(1, 20000) i;
SELECT lsm_compact('f');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE PROCEDURE look_up(first int, last int, step int) LANGUAGE plpgsql AS $$
BEGIN
	FOR key IN first .. last BY step LOOP
		PERFORM v FROM f WHERE id = key;
	END LOOP;
END $$;

-- no question asked yet
SELECT level, segment, filter_scheme, sum(keys) AS keys, bool_and(bits_per_key BETWEEN 4 AND 6) AS bits_per_key,
	bool_and(filter_bytes > 0) AS filter_bytes, bool_and(expected_fpr BETWEEN 0.05 AND 0.2) AS expected_fpr,
	sum(probes) AS probes, avg(measured_fpr) AS measured_fpr
FROM lsm_filters('f_id') GROUP BY 1, 2, 3;
SELECT setting, wasted_reads, statement, reason FROM lsm_advise('f_id');

-- absent keys between those that are there
CALL look_up(1, 19999, 2);
SELECT sum(probes) AS probes, sum(negatives) + sum(false_positives) AS absent, sum(true_positives) AS present,
	abs(sum(false_positives) - sum(probes * expected_fpr)) < 200 AS as_expected,
	bool_and(measured_fpr IS NULL OR measured_fpr = false_positives::float8 / (negatives + false_positives)) AS measured
FROM lsm_filters('f_id');
-- the same questions as in the view
SELECT s.filter_probes = f.probes AS probes, s.filter_negatives = f.negatives AS negatives,
	s.filter_true_positives = f.true_positives AS true_positives, s.filter_false_positives = f.false_positives AS false_positives
FROM pg_stat_lsm s, (SELECT sum(probes) AS probes, sum(negatives) AS negatives, sum(true_positives) AS true_positives,
	sum(false_positives) AS false_positives FROM lsm_filters('f_id')) f
WHERE s.relname = 'f_id';
-- too many reads in vain: more bits, and as many wasted reads as promised
SELECT tree, setting, current, suggested, wasted_reads BETWEEN 50 AND 200 AS wasted_reads,
	expected_wasted_reads BETWEEN 0.5 AND 5 AS expected, filter_bytes_change > 0 AS grows, statement, reason ~ 'false positives' AS reason
FROM lsm_advise('f_id');
CREATE TEMP TABLE promised AS SELECT * FROM lsm_advise('f_id');
DO $$
DECLARE
	s text;
BEGIN
	-- a statement at a time, as psql sends them
	FOR s IN SELECT trim(part) FROM promised, string_to_table(statement, ';') part WHERE trim(part) <> '' LOOP
		EXECUTE s;
	END LOOP;
END $$;
SELECT filter_scheme, bool_and(bits_per_key > 9) AS larger, sum(keys) AS keys FROM lsm_filters('f_id') GROUP BY 1;
SELECT pg_stat_lsm_reset();
SELECT sum(probes) AS probes FROM lsm_filters('f_id');
CALL look_up(1, 19999, 2);
SELECT a.setting, abs(a.wasted_reads - p.expected_wasted_reads) < 4 AS promise_kept, a.reason ~ 'Nothing would help' AS reason
FROM lsm_advise('f_id') a, promised p;

-- no filter: reads of files that do not have the key
ALTER INDEX f_id SET (filter_scheme = none);
SELECT tree, setting, current ~ 'of \d+ files' AS current, suggested, statement FROM lsm_advise('f_id');
SELECT lsm_compact('f_id');
SELECT filter_scheme, sum(keys) AS keys, max(bits_per_key) AS bits, min(expected_fpr) AS fpr FROM lsm_filters('f_id') GROUP BY 1;
SELECT pg_stat_lsm_reset();
CALL look_up(1, 9999, 2);
SELECT sum(false_positives) AS wasted, min(measured_fpr) AS measured_fpr FROM lsm_filters('f_id');
SELECT setting, current, suggested, wasted_reads, expected_wasted_reads < 20 AS expected, statement FROM lsm_advise('f_id');
-- ... and all keys there
SELECT pg_stat_lsm_reset();
CALL look_up(2, 10000, 2);
SELECT setting, wasted_reads, statement, reason FROM lsm_advise('f_id');
-- the same with a filter too small to be worth the trouble; a table, too, is asked for rows that it has
ALTER INDEX f_id SET (filter_scheme = blocked, bits_per_key = 10);
SELECT lsm_compact('f');
SELECT pg_stat_lsm_reset();
CALL look_up(2, 10000, 2);
SELECT tree, setting, wasted_reads, statement, reason FROM lsm_advise('f');
-- what is proposed for a table leaves its indexes alone
SET effective_cache_size = '16kB';
SELECT statement AS propose FROM lsm_advise('f') WHERE tree = 'f'::regclass \gset
SELECT :'propose' AS statement;
:propose
SELECT DISTINCT filter_scheme AS "table" FROM lsm_filters('f');
SELECT DISTINCT filter_scheme AS index FROM lsm_filters('f_id');
RESET effective_cache_size;
RESET lsm.filter_scheme;
RESET lsm.bits_per_key;
ALTER INDEX f_id RESET (elastic_units);
SELECT lsm_compact('f');
-- filters that do not fit in memory
SET effective_cache_size = '16kB';
SELECT pg_stat_lsm_reset();
CALL look_up(1, 9999, 2);
SELECT setting, current, suggested, statement, reason FROM lsm_advise('f_id');
RESET effective_cache_size;
-- a setting that is not applied to the files there are
ALTER INDEX f_id SET (bits_per_key = 11);
SELECT setting, current ~ 'files have another' AS current, suggested, statement FROM lsm_advise('f_id');
SELECT lsm_compact('f_id');
SELECT count(*) AS left FROM lsm_advise('f_id') WHERE statement IS NOT NULL;
-- hashing once per filter
SELECT pg_stat_lsm_reset();
INSERT INTO f VALUES (0, 'below'), (100000, 'above');
SELECT lsm_flush('f_id');
SET lsm.hash_sharing = off;
CALL look_up(1, 19999, 2);
RESET lsm.hash_sharing;
SELECT setting, current, suggested, statement, reason ~ '^2.0 digests' AS reason FROM lsm_advise('f_id') WHERE setting = 'lsm.hash_sharing';

-- accesses that concentrate on few files
ALTER INDEX f_id SET (bits_per_key = 6);
SET lsm.target_file_size = '64kB';
SELECT lsm_compact('f_id');
RESET lsm.target_file_size;
SELECT count(*) > 3 AS files FROM lsm_filters('f_id');
SELECT pg_stat_lsm_reset();
CALL look_up(1, 3999, 2);
SELECT setting, current, suggested, wasted_reads > 10 AS wasted, expected_wasted_reads < wasted_reads / 2 AS expected,
	statement, reason ~ 'concentrate' AS reason FROM lsm_advise('f_id');
-- spread evenly: more bits
SELECT pg_stat_lsm_reset();
CALL look_up(1, 39999, 2);
SELECT setting, current FROM lsm_advise('f_id');
-- elastic filters say something sensible about themselves
ALTER INDEX f_id SET (filter_scheme = elastic, bits_per_key = 12, elastic_units = 12);
SELECT lsm_compact('f_id');
SELECT pg_stat_lsm_reset();
CALL look_up(1, 3999, 2);
SELECT count(*) AS rows, count(reason) AS reasons FROM lsm_advise('f_id');
SELECT bool_and(units = 12) AS units, bool_and(units_on <= units) AS units_on, sum(keys) AS keys, bool_or(hotness > 0) AS hot,
	bool_and((measured_fpr IS NOT NULL) = (hotness IS NOT NULL AND hotness >= 1)) AS measured, bool_and(coalesce(measured_fpr, 0) BETWEEN 0 AND 1) AS rates
FROM lsm_filters('f_id') WHERE segment IS NOT NULL;
SELECT * FROM lsm_verify('f_id');

-- wrong objects; privileges as for the other functions
SELECT * FROM lsm_filters('h');
SELECT * FROM lsm_advise('h');
SELECT * FROM lsm_advise('pg_stat_lsm');
SELECT * FROM lsm_filters(0);
SELECT count(*) FROM lsm_filters(NULL);
CREATE INDEX h_id ON h USING lsm (id) WITH (bits_per_key = 64);
SELECT tree, reason FROM lsm_advise('h');
-- filters of a megabyte and more, of which all probes find the key, or hardly any need so many bits
INSERT INTO h SELECT i * 2 FROM generate_series(1, 200000) i;
REINDEX INDEX h_id;
SELECT pg_stat_lsm_reset();
SELECT count(*) FROM generate_series(1, 2000) i, LATERAL (SELECT id FROM h WHERE id = i * 2 OFFSET 0) q;
SELECT setting, current, suggested, wasted_reads, expected_wasted_reads, filter_bytes_change < -1000000 AS saves, statement, reason
FROM lsm_advise('h');
SELECT pg_stat_lsm_reset();
SELECT count(*) FROM generate_series(1, 2000) i, LATERAL (SELECT id FROM h WHERE id = i OFFSET 0) q;
SELECT setting, current, suggested, expected_wasted_reads < 1 AS expected, filter_bytes_change < -1000000 AS saves, statement, reason
FROM lsm_advise('h');
CREATE ROLE lsm_regress_user IN ROLE pg_stat_scan_tables;
SET ROLE lsm_regress_user;
SELECT count(*) > 0 AS visible FROM lsm_filters('f_id');
SELECT count(*) > 0 AS visible FROM lsm_advise('f_id');
RESET ROLE;
DROP ROLE lsm_regress_user;
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP PROCEDURE look_up;
DROP TABLE f, h, promised;
