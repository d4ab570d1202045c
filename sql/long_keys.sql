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
RESET ALL;
