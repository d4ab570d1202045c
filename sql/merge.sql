-- Compaction merges runs whose keys are alike where the merge looks first: long common
-- beginnings, equal ones with differences far behind, keys that begin others, bytes of ones;
-- the same keys in several runs, deleted and put again; runs of one entry

CREATE TABLE merged (run int, k bytea) USING heap;
CREATE INDEX merged_k ON merged USING lsm_index (k);
-- every key comes in several runs, in another order in each
CREATE FUNCTION merge_run(r int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO merged SELECT r, k FROM (
		SELECT convert_to('a long beginning that all of them have ' || i, 'UTF8') AS k FROM generate_series(r, 900, 2) i
		UNION ALL SELECT decode(repeat('ff', i), 'hex') FROM generate_series(0, 40) i
		UNION ALL SELECT decode(repeat('ff', i) || '00', 'hex') FROM generate_series(0, 40) i
		UNION ALL SELECT decode(repeat('00', i), 'hex') FROM generate_series(0, 40) i
		UNION ALL SELECT sha256(int4send(i)) FROM generate_series(r * 10, r * 10 + 200) i
		UNION ALL SELECT '\xffffffffffffffffff'::bytea || sha256(int4send(i)) FROM generate_series(r * 10, r * 10 + 200) i
	) keys ORDER BY md5(k || int4send(r));
	PERFORM lsm_flush('merged_k');
END $$;
CREATE FUNCTION merge_check(OUT sorted bool, OUT complete bool, OUT problems bigint) LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_bitmapscan = off;
	SET LOCAL enable_sort = off;
	CREATE TEMP TABLE by_index AS SELECT run, k, row_number() OVER () AS n FROM (SELECT * FROM merged ORDER BY k) s;
	SET LOCAL enable_seqscan = on;
	SET LOCAL enable_sort = on;
	SELECT coalesce(bool_and(before <= k), true) INTO sorted FROM (SELECT k, lag(k) OVER (ORDER BY n) AS before FROM by_index) s;
	SET LOCAL enable_indexscan = off;
	SET LOCAL enable_indexonlyscan = off;
	SELECT NOT EXISTS (SELECT run, k FROM merged EXCEPT ALL SELECT run, k FROM by_index) AND
		NOT EXISTS (SELECT run, k FROM by_index EXCEPT ALL SELECT run, k FROM merged) INTO complete;
	DROP TABLE by_index;
	SELECT count(*) INTO problems FROM lsm_verify('merged_k');
END $$;
SELECT merge_run(1), merge_run(2), merge_run(3);
INSERT INTO merged VALUES (4, '\xff');
SELECT lsm_flush('merged_k');
SELECT * FROM merge_check();
SELECT lsm_compact('merged_k');
SELECT count(DISTINCT level) AS levels, sum(entries) = (SELECT count(*) FROM merged) AS all_entries FROM lsm_files('merged_k');
SELECT * FROM merge_check();
-- entries of what is gone meet their own in the runs below
SELECT merge_run(5), merge_run(6);
DELETE FROM merged WHERE run IN (2, 5) OR length(k) = 9;
VACUUM merged;
SELECT lsm_flush('merged_k');
SELECT * FROM merge_check();
SELECT lsm_compact('merged_k');
SELECT sum(entries) = (SELECT count(*) FROM merged) AS all_entries FROM lsm_files('merged_k');
SELECT * FROM merge_check();
-- a file alone, written again
ALTER INDEX merged_k SET (compression = zstd);
SELECT lsm_compact('merged_k');
SELECT sum(entries) = (SELECT count(*) FROM merged) AS all_entries FROM lsm_files('merged_k');
SELECT * FROM merge_check();
-- keys that have nothing in common, and all of them
DELETE FROM merged;
VACUUM merged;
INSERT INTO merged VALUES (7, '\x00'), (7, '\xff');
SELECT lsm_compact('merged_k');
SELECT sum(entries) AS entries FROM lsm_files('merged_k');
SELECT * FROM merge_check();

-- rows: several versions of one, in several runs, some not complete
CREATE TABLE merged_rows (a int, b text) USING lsm;
INSERT INTO merged_rows SELECT i, 'first' FROM generate_series(1, 1000) i;
SELECT lsm_flush('merged_rows');
UPDATE merged_rows SET b = 'second' WHERE a % 3 = 0;
SELECT lsm_flush('merged_rows');
DELETE FROM merged_rows WHERE a % 5 = 0;
SELECT lsm_flush('merged_rows');
BEGIN;
SELECT count(*) FROM (SELECT FROM merged_rows WHERE a % 7 = 0 FOR UPDATE) s;
COMMIT;
SELECT lsm_compact('merged_rows');
SELECT b, count(*), sum(a) FROM merged_rows GROUP BY b ORDER BY b;
SELECT * FROM lsm_verify('merged_rows');
DROP TABLE merged, merged_rows;
DROP FUNCTION merge_run, merge_check;
