-- Keys longer than a fence (256 bytes) that begin alike: the fences of several
-- files of a run are the same, so only the files tell where a key belongs
SET lsm.target_file_size = '1MB';
SET lsm.compression = none;
CREATE TABLE long_l (i int, k text COLLATE "C") USING lsm;
CREATE INDEX long_k ON long_l USING lsm (k);
INSERT INTO long_l
	SELECT i, repeat('p', 300) || to_char(i, 'FM00000') ||
		(SELECT string_agg(md5(i || ':' || j), '') FROM generate_series(1, 40) j)
	FROM generate_series(1, 2500) i;
SELECT lsm_flush('long_k');
SELECT lsm_compact('long_k');
SELECT files > 2 AS several FROM lsm_levels('long_k');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE FUNCTION long_key(i int) RETURNS text LANGUAGE sql IMMUTABLE
	AS $$ SELECT repeat('p', 300) || to_char(i, 'FM00000') $$;
-- a bound in the middle of such files, in both directions
SELECT count(*), min(i), max(i) FROM (SELECT i FROM long_l WHERE k >= long_key(1800) ORDER BY k) s;
SELECT count(*), min(i), max(i) FROM (SELECT i FROM long_l WHERE k < long_key(700) ORDER BY k DESC) s;
SELECT count(*), min(i), max(i) FROM (SELECT i FROM long_l WHERE k > long_key(1000) AND k < long_key(1010) ORDER BY k) s;
SELECT array_agg(i) FROM (SELECT i FROM long_l WHERE k < long_key(1010) ORDER BY k DESC LIMIT 3) s;
SELECT array_agg(i) FROM (SELECT i FROM long_l WHERE k > long_key(2400) ORDER BY k LIMIT 3) s;
-- a turn, and a flush in the middle of a scan
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT i FROM long_l ORDER BY k;
MOVE 1900 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH 2 FROM c;
INSERT INTO long_l VALUES (0, 'zz');
SELECT lsm_flush('long_k');
FETCH 2 FROM c;
MOVE ALL FROM c;
ROLLBACK;
-- every key by itself
SELECT count(*) FROM long_l a WHERE EXISTS (SELECT FROM long_l b WHERE b.k = a.k);
SELECT * FROM lsm_verify('long_k');
DROP TABLE long_l;
DROP FUNCTION long_key;
-- Points in groups: what the keys of a run share ends before, at and behind the
-- end of its fences
SET lsm.target_file_size = '64kB';
CREATE FUNCTION long_points(bytes int) RETURNS TABLE (files bigint, points bigint, both_ends bigint, absent bigint, bitmap bigint, gone bigint)
	LANGUAGE plpgsql AS $$
DECLARE
	here text[];
	away text[];
BEGIN
	CREATE TABLE long_p (i int, k text COLLATE "C") USING lsm;
	INSERT INTO long_p SELECT i, repeat('p', bytes) || to_char(i * 2, 'FM00000') ||
		(SELECT string_agg(md5(i || ':' || j), '') FROM generate_series(1, 12) j) FROM generate_series(1, 1500) i;
	CREATE INDEX long_pk ON long_p USING lsm (k);
	here := ARRAY(SELECT k FROM long_p ORDER BY hashint4(i));
	away := ARRAY(SELECT repeat('p', bytes) || to_char(i * 2 + 1, 'FM00000') FROM generate_series(1, 1500) i);
	files := (SELECT l.files FROM lsm_levels('long_pk') l);
	points := (SELECT count(DISTINCT k) FROM long_p WHERE k = ANY (here));
	both_ends := (SELECT count(*) FROM long_p WHERE k = ANY (here[1:700] || repeat('p', bytes - 1) || repeat('p', bytes + 1) || repeat('q', bytes)));
	absent := (SELECT count(*) FROM long_p WHERE k = ANY (away));
	SET enable_indexscan = off;
	SET enable_bitmapscan = on;
	bitmap := (SELECT count(*) FROM long_p WHERE k = ANY (here[1:1000]));
	DELETE FROM long_p WHERE k = ANY (here[1:1000]);
	GET DIAGNOSTICS gone = ROW_COUNT;
	SET enable_indexscan = on;
	SET enable_bitmapscan = off;
	DROP TABLE long_p;
	files := (files > 5)::int;
	RETURN NEXT;
END $$;
SELECT bytes, p.* FROM unnest(ARRAY[100, 247, 248, 249, 250, 252, 254, 255, 256, 257, 290]) bytes, long_points(bytes) p;
DROP FUNCTION long_points;
RESET ALL;
