-- Hash sharing: one digest per lookup; off: one per filter probed; results are the same
SET lsm.memtable_size = '64kB';
SET lsm.target_file_size = '64kB';
SET lsm.size_ratio = 2;
CREATE TABLE l (id int, v text) USING lsm WITH (autovacuum_enabled = off);
CREATE INDEX l_id ON l USING lsm (id) WITH (size_ratio = 2);
-- keys in random order so that files of all levels overlap
DO $$
BEGIN
	FOR r IN 0..24 LOOP
		INSERT INTO l SELECT (i * 7919 + r * 104729) % 1000003, 'value ' || i
		FROM generate_series(1, 2000) i;
		PERFORM lsm_flush('l_id');
	END LOOP;
END $$;
SELECT sum(runs) >= 2 AS several_runs FROM lsm_levels('l_id');
CREATE TABLE probes AS SELECT (i * 7919 + (i % 30) * 104729) % 1000003 AS k FROM generate_series(1, 3000) i;
ANALYZE probes;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT pg_stat_lsm_reset();
CREATE TEMP TABLE shared AS SELECT count(*) AS found, sum(l.id) AS ids, sum(length(v)) AS lengths
FROM probes CROSS JOIN LATERAL (SELECT * FROM l WHERE l.id = k OFFSET 0) l;
CREATE TEMP TABLE shared_counters AS SELECT * FROM pg_stat_lsm WHERE relname IN ('l', 'l_id');
SELECT pg_stat_lsm_reset();
SET lsm.hash_sharing = off;
CREATE TEMP TABLE unshared AS SELECT count(*) AS found, sum(l.id) AS ids, sum(length(v)) AS lengths
FROM probes CROSS JOIN LATERAL (SELECT * FROM l WHERE l.id = k OFFSET 0) l;
CREATE TEMP TABLE unshared_counters AS SELECT * FROM pg_stat_lsm WHERE relname IN ('l', 'l_id');
RESET lsm.hash_sharing;
SELECT diff('SELECT * FROM shared', 'SELECT * FROM unshared');
SELECT found > 0 AS found FROM shared;
SELECT relname, lookups >= 1000 AS lookups, digests = lookups AS one_digest_per_lookup,
	filter_probes >= lookups AS filters_probed,
	filter_negatives + filter_true_positives + filter_false_positives = filter_probes AS adds_up
FROM shared_counters WHERE relname = 'l_id';
SELECT digests = lookups AS one_digest_per_row_fetch FROM shared_counters WHERE relname = 'l';
SELECT relname, digests = filter_probes AS one_digest_per_filter FROM unshared_counters ORDER BY relname;
-- (t/009_sharing.pl compares the other counters, too: here workers may compact meanwhile)
SELECT s.lookups = u.lookups AS lookups
FROM shared_counters s JOIN unshared_counters u USING (relname) WHERE relname = 'l_id';
-- each element of = ANY and each rescan is a lookup of its own
SELECT pg_stat_lsm_reset();
SELECT count(*) >= 0 AS ok FROM l WHERE id = ANY (ARRAY[1, 2, 3, 4, 5, 5]);
SELECT lookups, digests FROM pg_stat_lsm WHERE relname = 'l_id';
-- an absent key, and constants no int can equal
SELECT pg_stat_lsm_reset();
SELECT count(*) FROM l WHERE id = -1;
SELECT count(*) FROM l WHERE id = 3000000000;
SELECT lookups, digests, filter_true_positives FROM pg_stat_lsm WHERE relname = 'l_id';
RESET ALL;
DROP TABLE l, probes, shared, shared_counters, unshared, unshared_counters;
