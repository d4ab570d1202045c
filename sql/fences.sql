-- Which files may have a key: short keys, keys that begin with one another, and zeros at their ends, against
-- fences of many files
\set VERBOSITY terse
SET client_min_messages = warning;
SET lsm.memtable_size = '64kB';
SET lsm.target_file_size = '64kB';
SET lsm.compression = none;

CREATE FUNCTION fe_key(i int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substr(decode('0000010161626100', 'hex'), 1 + i % 3, i % 5) || substr(decode(md5(i::text), 'hex'), 1, (i / 5) % 5)
		|| CASE WHEN i % 7 = 0 THEN '\x00'::bytea WHEN i % 7 = 1 THEN '\x0000'::bytea ELSE ''::bytea END
$$;

CREATE TABLE fe_h (id int, k bytea, n int2, c text COLLATE "C");
CREATE TABLE fe_l (LIKE fe_h) USING lsm;
INSERT INTO fe_h SELECT i, fe_key(i), i % 30000 - 15000, 'longer than a word: ' || encode(fe_key(i), 'hex')
	FROM generate_series(1, 20000) i;
CREATE INDEX ON fe_l USING lsm_index (k);
CREATE INDEX ON fe_l USING lsm_index (n);
CREATE INDEX ON fe_l USING lsm_index (c);
CREATE INDEX ON fe_l USING lsm_index (n, k);
CREATE UNIQUE INDEX ON fe_l USING lsm_index (k, id);

-- several runs, each over all keys
INSERT INTO fe_l SELECT * FROM fe_h WHERE id % 2 = 0;
SELECT lsm_flush('fe_l');
INSERT INTO fe_l SELECT * FROM fe_h WHERE id % 4 = 1;
SELECT lsm_flush('fe_l');
INSERT INTO fe_l SELECT * FROM fe_h WHERE id % 8 = 3;
SELECT lsm_flush('fe_l');
INSERT INTO fe_l SELECT * FROM fe_h WHERE id % 8 = 7;

-- present keys, and absent ones: a byte less or more, at either end
CREATE TABLE fe_q AS SELECT DISTINCT q.* FROM (SELECT * FROM fe_h WHERE id % 25 = 0) h, LATERAL (VALUES
	(k, n, c), (k || '\x00', n + 1, c || '0'), (substr(k, 1, greatest(length(k) - 1, 0)), n + 15000, substr(c, 1, length(c) - 1)),
	('\x00' || k, n - 15000, 'a' || c), (k || '\xff', -n, c || 'f')) q (k, n, c);
ANALYZE fe_h, fe_l, fe_q;
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;
SET enable_material = off; SET enable_memoize = off; SET enable_indexonlyscan = off;

EXPLAIN (COSTS OFF) SELECT h.id FROM fe_q q, fe_l h WHERE h.k = q.k;
SELECT count(*), sum(h.id) FROM fe_q q, fe_l h WHERE h.k = q.k;
SELECT count(*), sum(h.id) FROM fe_q q, fe_l h WHERE h.n = q.n;
SELECT count(*), sum(h.id) FROM fe_q q, fe_l h WHERE h.c = q.c;
SELECT count(*), sum(h.id) FROM fe_q q, fe_l h WHERE h.n = q.n AND h.k = q.k;
SELECT lsm_compact('fe_l');
-- written by this session, whatever workers have done to the runs: a worker's compaction may leave nothing to do
REINDEX INDEX fe_l_k_id_idx;
SELECT sum(files) > 1 AS many_files FROM lsm_levels('fe_l_k_id_idx');
SELECT count(*), sum(h.id) FROM fe_q q, fe_l h WHERE h.k = q.k;
SELECT count(*), sum(h.id) FROM fe_q q, fe_l h WHERE h.n = q.n;
SELECT count(*), sum(h.id) FROM fe_q q, fe_l h WHERE h.c = q.c;
SELECT count(*), sum(h.id) FROM fe_q q, fe_l h WHERE h.n = q.n AND h.k = q.k;

-- the same points in groups
SELECT count(*), sum(id) FROM fe_l WHERE k = ANY (ARRAY(SELECT k FROM fe_q));
RESET enable_seqscan; RESET enable_hashjoin;
SELECT count(*), sum(id) FROM fe_h WHERE k IN (SELECT k FROM fe_q);
SELECT count(*), sum(h.id) FROM fe_q q, fe_h h WHERE h.k = q.k;
SELECT count(*), sum(h.id) FROM fe_q q, fe_h h WHERE h.n = q.n;
SELECT count(*), sum(h.id) FROM fe_q q, fe_h h WHERE h.c = q.c;
SELECT count(*), sum(h.id) FROM fe_q q, fe_h h WHERE h.n = q.n AND h.k = q.k;
DROP TABLE fe_h, fe_l, fe_q;
DROP FUNCTION fe_key;
