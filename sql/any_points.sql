-- = ANY with long lists: points are looked for in groups
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET lsm.size_ratio = 4;
SET lsm.target_file_size = '64kB';
CREATE TABLE ap_h (id bigint, k text, g int);
CREATE TABLE ap_l (LIKE ap_h) USING lsm;
ALTER TABLE ap_l SET (autovacuum_enabled = off);
CREATE INDEX ON ap_h (id);
CREATE INDEX ON ap_h (k);
CREATE INDEX ON ap_h (k, g);
CREATE INDEX ON ap_h (g);
CREATE INDEX ap_id ON ap_l USING lsm (id);
CREATE INDEX ap_k ON ap_l USING lsm (k);
CREATE INDEX ap_kg ON ap_l USING lsm (k, g);
CREATE INDEX ap_g ON ap_l USING lsm (g);

CREATE PROCEDURE ap_add(first int, last int) LANGUAGE plpgsql AS $$
DECLARE
	rel text;
BEGIN
	FOREACH rel IN ARRAY ARRAY['ap_h', 'ap_l'] LOOP
		EXECUTE format($q$INSERT INTO %I SELECT i::bigint * 7919 %% 100003 * 2,
			CASE i %% 4 WHEN 0 THEN repeat('same', i %% 5) WHEN 1 THEN 'common prefix of all ' || i * 31 %% 5003 ELSE i::text END,
			i %% 40 FROM generate_series(%s, %s) i$q$, rel, first, last);
	END LOOP;
END $$;
CALL ap_add(1, 6000);
SELECT lsm_flush('ap_l');
CALL ap_add(6001, 8000);
SELECT lsm_flush('ap_l');
CALL ap_add(8001, 9000);
SELECT lsm_flush('ap_l');
DELETE FROM ap_h WHERE id % 11 = 0;
DELETE FROM ap_l WHERE id % 11 = 0;
CALL ap_add(9001, 9300);

-- What a condition finds in heap's table and in ours: the same, in the same order
CREATE FUNCTION ap_compare(qual text, keys text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	found text[];
	r record;
BEGIN
	FOR i IN 1..2 LOOP
		EXECUTE format('SELECT count(*) AS n, md5(string_agg(t::text, '' '')) AS rows FROM (SELECT * FROM %I WHERE %s) t',
			(ARRAY['ap_h', 'ap_l'])[i], qual) INTO r USING keys;
		found[i] := r.rows;
	END LOOP;
	RETURN CASE WHEN found[1] IS NOT DISTINCT FROM found[2] THEN 'same' ELSE 'different' END || ', ' ||
		CASE WHEN r.n > 0 THEN 'some' ELSE 'none' END;
END $$;
CREATE FUNCTION ap_lists() RETURNS TABLE (list text, result text) LANGUAGE plpgsql AS $$
DECLARE
	kind text;
	ids text[];
	texts text[];
BEGIN
	FOREACH kind IN ARRAY ARRAY['absent', 'present', 'mixed', 'absent, then present', 'present, then absent', 'few', 'twice and null'] LOOP
		SELECT array_agg(id::text) INTO ids FROM (
			SELECT CASE kind WHEN 'absent' THEN i * 2 - 1 WHEN 'present' THEN i * 7919 % 100003 * 2
				WHEN 'mixed' THEN i * 7919 % 100003 * 2 + i % 2
				WHEN 'absent, then present' THEN CASE WHEN i < 1000 THEN i * 20 + 1 ELSE 100000 + i * 2 END
				WHEN 'present, then absent' THEN CASE WHEN i < 1000 THEN i * 20 ELSE 100001 + i * 2 END
				WHEN 'few' THEN CASE WHEN i <= 9 THEN i * 7919 % 100003 * 2 + i / 6 END
				ELSE CASE WHEN i % 5 > 0 THEN i / 2 * 7919 % 100003 * 2 END END AS id
			FROM generate_series(1::bigint, 2000) i) x;
		SELECT array_agg(k ORDER BY hashtext(k)) INTO texts FROM (
			SELECT CASE WHEN kind ~ 'absent' AND i % 3 > 0 THEN 'common prefix of all' || repeat('!', i % 17)
				WHEN kind = 'twice and null' AND i % 7 = 0 THEN NULL
				WHEN i % 4 = 0 THEN repeat('same', i % 6) WHEN i % 4 = 1 THEN 'common prefix of all ' || i * 31 % 5003 ELSE i::text END AS k
			FROM generate_series(1, CASE kind WHEN 'few' THEN 9 ELSE 1500 END) i) x;
		list := kind;
		result := ap_compare('id = ANY ($1::bigint[]) ORDER BY id, k, g', ids) || '; ' ||
			ap_compare('k = ANY ($1) ORDER BY k COLLATE "C" DESC, id, g', texts) || '; ' ||
			ap_compare('k = ANY ($1[1:9]) AND g = ANY (ARRAY(SELECT generate_series(-20, 60, 3))) ORDER BY k COLLATE "C", g, id', texts) || '; ' ||
			ap_compare('g = ANY (ARRAY(SELECT generate_series(-20, 60, 3))) AND id = ANY ($1::bigint[]) ORDER BY g, id, k', ids);
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM ap_lists();

-- every scheme; `none`: all keys may be there
CREATE TABLE ap_schemes (scheme text, n int);
INSERT INTO ap_schemes SELECT s, i FROM unnest('{bloom,quotient,elastic,cascade,ribbon,none,blocked}'::text[]) WITH ORDINALITY u (s, i);
CREATE FUNCTION ap_rebuild(scheme text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('ALTER INDEX ap_id SET (filter_scheme = %s)', scheme);
	EXECUTE format('ALTER INDEX ap_k SET (filter_scheme = %s)', scheme);
	PERFORM lsm_compact('ap_l');
	CALL ap_add(10000, 10200);
	PERFORM lsm_flush('ap_l');
	CALL ap_add(10201, 10300);
	RETURN (SELECT string_agg(DISTINCT split_part(result, ';', 1) || ' /' || split_part(result, ';', 2), ' | '
			ORDER BY split_part(result, ';', 1) || ' /' || split_part(result, ';', 2)) FROM ap_lists());
END $$;
SELECT scheme, ap_rebuild(scheme) FROM (SELECT * FROM ap_schemes ORDER BY n) s;

-- counters: one digest per key, nothing read for keys that are not there
SELECT lsm_compact('ap_l');
SELECT pg_stat_lsm_reset();
SELECT count(*) FROM ap_l WHERE id = ANY (ARRAY(SELECT i * 2 + 1 FROM generate_series(1::bigint, 1000) i));
SELECT lookups, digests, filter_probes = filter_negatives + filter_false_positives AS all_absent, filter_negatives >= 900 AS told,
	filter_negatives + filter_false_positives <= lookups AS once, blocks_read <= filter_false_positives AS unread
	FROM pg_stat_lsm WHERE relname = 'ap_id';
SELECT pg_stat_lsm_reset();
SELECT count(*) FROM ap_l WHERE id = ANY (ARRAY(SELECT DISTINCT id FROM ap_h WHERE id % 11 > 0 ORDER BY id LIMIT 1000));
SELECT lookups, digests, filter_true_positives > 800 AS found, filter_probes <= lookups AS once FROM pg_stat_lsm WHERE relname = 'ap_id';
SET lsm.hash_sharing = off;
SELECT pg_stat_lsm_reset();
SELECT count(*) FROM ap_l WHERE id = ANY (ARRAY(SELECT i * 2 + 1 FROM generate_series(1::bigint, 1000) i));
SELECT lookups, digests = filter_probes AS one_each FROM pg_stat_lsm WHERE relname = 'ap_id';
RESET lsm.hash_sharing;

-- what comes while a cursor is open is not seen, what was there is; backwards, too
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM ap_l WHERE id = ANY (ARRAY(SELECT 300001 + i FROM generate_series(0::bigint, 200) i)) ORDER BY id;
INSERT INTO ap_l SELECT 300001 + i, 'late', 0 FROM generate_series(0, 200, 2) i;
FETCH 2 FROM c;
CLOSE c;
DECLARE c SCROLL CURSOR FOR SELECT id FROM ap_l WHERE id = ANY (ARRAY(SELECT 300001 + i FROM generate_series(0::bigint, 200) i)) ORDER BY id;
FETCH 2 FROM c;
INSERT INTO ap_l SELECT 300001 + i, 'later', 0 FROM generate_series(1, 200, 2) i;
SELECT lsm_flush('ap_l');
FETCH 2 FROM c;
MOVE ABSOLUTE 99 FROM c;
FETCH ALL FROM c;
FETCH BACKWARD 2 FROM c;
MOVE BACKWARD ALL FROM c;
FETCH 1 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH FORWARD 3 FROM c;
ROLLBACK;

-- what filters have said holds for the files of that time: these are others when the group goes on
CREATE TABLE ap_files (id bigint) USING lsm;
CREATE INDEX ap_files_id ON ap_files USING lsm (id);
INSERT INTO ap_files SELECT i * 3 FROM generate_series(1, 2000) i;
SELECT lsm_flush('ap_files');
INSERT INTO ap_files SELECT i * 3 + 1 FROM generate_series(1, 2000, 2) i;
SELECT lsm_flush('ap_files');
INSERT INTO ap_files SELECT i * 3 + 1 FROM generate_series(2, 2000, 2) i;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM ap_files WHERE id = ANY (ARRAY(SELECT generate_series(0::bigint, 100))) ORDER BY id;
FETCH 2 FROM c;
SELECT lsm_flush('ap_files');
FETCH 3 FROM c;
SELECT lsm_compact('ap_files');
FETCH 3 FROM c;
INSERT INTO ap_files SELECT i * 3 + 2 FROM generate_series(1, 2000) i;
SELECT lsm_flush('ap_files');
MOVE FORWARD 40 FROM c;
FETCH ALL FROM c;
COMMIT;
SELECT count(*) FROM ap_files WHERE id = ANY (ARRAY(SELECT generate_series(0::bigint, 1000)));
SELECT pg_stat_lsm_reset();
SELECT count(*) FROM ap_files WHERE id = ANY (ARRAY(SELECT generate_series(3::bigint, 999)));
SELECT lookups, digests, filter_probes = filter_negatives + filter_true_positives + filter_false_positives AS each_once
	FROM pg_stat_lsm WHERE relname = 'ap_files_id';
DROP TABLE ap_files;

-- lists of an inner side that is scanned again and again
SELECT count(*), sum(l.id) FROM generate_series(1, 50) o, LATERAL (SELECT * FROM ap_l WHERE id = ANY (ARRAY(SELECT (o + i * 50) * 7919 % 100003 * 2 + i % 2 FROM generate_series(1::bigint, 20) i))) l;
SELECT count(*), sum(l.id) FROM generate_series(1, 50) o, LATERAL (SELECT * FROM ap_h WHERE id = ANY (ARRAY(SELECT (o + i * 50) * 7919 % 100003 * 2 + i % 2 FROM generate_series(1::bigint, 20) i))) l;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT list, split_part(result, ';', 1) FROM ap_lists();
COMMIT;
SELECT * FROM lsm_verify('ap_l');
DROP TABLE ap_h, ap_l, ap_schemes;
