-- Small runs of level 0 are merged among themselves while level 1 is much larger.  Temporary
-- trees, for these are compacted by the session that flushes.
SET lsm.memtable_size = '512kB';
CREATE TEMP TABLE level0 (id int PRIMARY KEY, v int, w text) USING lsm;
CREATE INDEX ON level0 (w) WHERE w = '';
INSERT INTO level0 SELECT (i::bigint * 7919 % 100003)::int, 0, 'first' FROM generate_series(1, 95000) i;
CREATE TEMP TABLE level0_heap USING heap AS SELECT * FROM level0;
DO $$ BEGIN PERFORM lsm_compact('level0'), lsm_compact('level0_pkey'); END $$;

-- which of a row's versions is seen depends on the order of the runs.  An update of v alone stays in its row,
-- one of w makes another.
CREATE FUNCTION pg_temp.change(part int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE level0 SET v = v + 1, w = 'part ' || part WHERE id % 97 = part OR id % 89 = 3;
	UPDATE level0_heap SET v = v + 1, w = 'part ' || part WHERE id % 97 = part OR id % 89 = 3;
	UPDATE level0 SET v = v + 10 WHERE id % 83 IN (part, part / 2) OR id % 89 = 3;
	UPDATE level0_heap SET v = v + 10 WHERE id % 83 IN (part, part / 2) OR id % 89 = 3;
	DELETE FROM level0 WHERE id % 211 = part;
	DELETE FROM level0_heap WHERE id % 211 = part;
	INSERT INTO level0 SELECT i * 200, part, 'new' FROM generate_series(1, 500) i ON CONFLICT (id) DO UPDATE SET w = 'again';
	INSERT INTO level0_heap SELECT i * 200, part, 'new' FROM generate_series(1, 500) i
		WHERE NOT EXISTS (SELECT FROM level0_heap h WHERE h.id = i * 200);
	UPDATE level0_heap SET w = 'again' WHERE id % 200 = 0 AND id BETWEEN 200 AND 100000 AND NOT (v = part AND w = 'new');
	PERFORM lsm_flush('level0'), lsm_flush('level0_pkey');
END $$;
CREATE FUNCTION pg_temp.differences() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM ((TABLE level0 EXCEPT ALL TABLE level0_heap) UNION ALL (TABLE level0_heap EXCEPT ALL TABLE level0)) d
$$;

-- three runs stay, the fourth makes one of them
SELECT pg_temp.change(1), pg_temp.change(2), pg_temp.change(3);
SELECT level, runs FROM lsm_levels('level0_pkey') WHERE level = 0;
SELECT pg_temp.differences();
SELECT pg_temp.change(4);
SELECT level, runs FROM lsm_levels('level0_pkey') WHERE level = 0;
SELECT pg_temp.differences();

-- a run that has become large keeps out of it; what hides entries of it, and of level 1, survives
SELECT pg_temp.change(5), pg_temp.change(6), pg_temp.change(7);
SELECT pg_temp.change(8), pg_temp.change(9), pg_temp.change(10);
SELECT level, runs FROM lsm_levels('level0_pkey') WHERE level <= 1 ORDER BY level;
SELECT pg_temp.change(11);
SELECT level, runs FROM lsm_levels('level0_pkey') WHERE level <= 1 ORDER BY level;
SELECT pg_temp.differences();

-- the same by index
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM (SELECT id FROM level0_heap WHERE id % 5 = 1 UNION SELECT generate_series(1, 20000, 9)) k
	LEFT JOIN LATERAL (SELECT v, w FROM level0 l WHERE l.id = k.id OFFSET 0) a ON true
	LEFT JOIN level0_heap h ON h.id = k.id
	WHERE (a.v, a.w) IS DISTINCT FROM (h.v, h.w);
SELECT (SELECT count(*) FROM (SELECT id FROM level0 ORDER BY id) l) = (SELECT count(*) FROM level0_heap) AS all_in_order;
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT * FROM lsm_verify('level0');
SELECT * FROM lsm_verify('level0_pkey');

-- and once everything has met in one level
DO $$ BEGIN PERFORM lsm_compact('level0'), lsm_compact('level0_pkey'); END $$;
SELECT pg_temp.differences();
SELECT count(*) AS levels FROM lsm_levels('level0_pkey');
RESET lsm.memtable_size;
