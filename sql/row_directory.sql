-- The row directory: what it says is a hint, and only rows that are seen and have the key count
SET client_min_messages = warning;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_indexonlyscan = off;
SET lsm.constraint_index = lsm;
SET plan_cache_mode = force_generic_plan;
CREATE TABLE d (id int PRIMARY KEY, v int) USING lsm;
INSERT INTO d SELECT g, 10 * g FROM generate_series(1, 1000) g;
PREPARE get(int) AS SELECT * FROM d WHERE id = $1;
CREATE FUNCTION asked(rel regclass, OUT lookups int8, OUT hits int8, OUT misled int8) AS $$
	SELECT directory_lookups, directory_hits, directory_misled FROM pg_stat_lsm WHERE relid = rel
$$ LANGUAGE sql;

-- the first lookup notes, the second one finds
SELECT pg_stat_lsm_reset();
EXECUTE get(7);
SELECT * FROM asked('d_pkey');
EXECUTE get(7);
SELECT * FROM asked('d_pkey');
-- no filter, block or memtable of the index was asked
SELECT lsm_flush('d_pkey'), lsm_flush('d');
SELECT pg_stat_lsm_reset();
EXECUTE get(7);
SELECT lookups, digests, filter_probes, blocks_read, memtable_hits, directory_hits FROM pg_stat_lsm WHERE relname = 'd_pkey';
CREATE FUNCTION explained(query text) RETURNS text AS $$
DECLARE line text; hits text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
		hits := coalesce(substring(line FROM 'directory hits=\d+'), hits);
	END LOOP;
	RETURN hits;
END $$ LANGUAGE plpgsql;
SELECT explained('SELECT * FROM d WHERE id = 7'), explained('SELECT * FROM d WHERE id IN (7, 70)');
DROP FUNCTION explained;

-- an update that stays in its row
UPDATE d SET v = 1 WHERE id = 7;
EXECUTE get(7);
-- a row that goes, one that comes with its key
DELETE FROM d WHERE id = 7;
EXECUTE get(7);
INSERT INTO d VALUES (7, 2);
EXECUTE get(7);
EXECUTE get(7);
-- keys that change places
EXECUTE get(8);
EXECUTE get(9);
BEGIN;
UPDATE d SET id = -8 WHERE id = 8;
UPDATE d SET id = 8 WHERE id = 9;
UPDATE d SET id = 9 WHERE id = -8;
EXECUTE get(8);
EXECUTE get(9);
SAVEPOINT s;
UPDATE d SET id = -8 WHERE id = 8;
EXECUTE get(8);
EXECUTE get(-8);
ROLLBACK TO s;
EXECUTE get(8);
EXECUTE get(-8);
ROLLBACK;
EXECUTE get(8);
EXECUTE get(9);

-- a row that moves: the new one is known at once
CREATE INDEX d_v ON d (v);
EXECUTE get(10);
UPDATE d SET v = -10 WHERE id = 10;
SELECT pg_stat_lsm_reset();
EXECUTE get(10);
SELECT * FROM asked('d_pkey');

-- an old snapshot sees the old row
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE old CURSOR FOR SELECT n, d.* FROM generate_series(1, 20) n LEFT JOIN d ON d.id = n;
FETCH 1 FROM old;
UPDATE d SET v = v + 1 WHERE id BETWEEN 2 AND 20;
UPDATE d SET v = v + 1 WHERE id BETWEEN 2 AND 20;
EXECUTE get(11);
FETCH ALL FROM old;
COMMIT;

-- back and forth
BEGIN;
EXECUTE get(12);
DECLARE both_ways SCROLL CURSOR FOR SELECT * FROM d WHERE id IN (12, 13, 14);
FETCH 2 FROM both_ways;
FETCH PRIOR FROM both_ways;
FETCH ALL FROM both_ways;
FETCH BACKWARD ALL FROM both_ways;
FETCH 1 FROM both_ways;
COMMIT;
DECLARE held SCROLL CURSOR WITH HOLD FOR SELECT * FROM d WHERE id = 12;
FETCH 1 FROM held;
FETCH 1 FROM held;
FETCH BACKWARD 1 FROM held;
CLOSE held;

-- rows with other numbers, or other columns
TRUNCATE d;
EXECUTE get(12);
INSERT INTO d SELECT g, 20 * g FROM generate_series(1, 1000) g;
EXECUTE get(12);
EXECUTE get(12);
VACUUM FULL d;
EXECUTE get(12);
DELETE FROM d WHERE id < 12;
VACUUM FULL d;
EXECUTE get(12);
EXECUTE get(13);
ALTER TABLE d ADD COLUMN w int DEFAULT 5;
EXECUTE get(12);
ALTER TABLE d ALTER id TYPE bigint;
SELECT * FROM d WHERE id = 12;
SELECT * FROM d WHERE id = 12::smallint;
SELECT * FROM d WHERE id = 12;
REINDEX TABLE d;
SELECT * FROM d WHERE id = 12;
DROP TABLE d;

-- two indexes of one table, two tables with one key
CREATE TABLE pair (a int UNIQUE, b int UNIQUE) USING lsm;
CREATE TABLE other (a int UNIQUE, b int) USING lsm;
INSERT INTO pair SELECT g, 101 - g FROM generate_series(1, 100) g;
INSERT INTO other SELECT g, g FROM generate_series(1, 100) g;
SELECT count(*), bool_and(pair.a = n AND o.b = n AND p.b = n)
FROM generate_series(1, 100) n JOIN pair ON pair.a = n JOIN other o ON o.a = n JOIN pair p ON p.b = n;
SELECT count(*), bool_and(pair.a = n AND o.b = n AND p.b = n)
FROM generate_series(1, 100) n JOIN pair ON pair.a = n JOIN other o ON o.a = n JOIN pair p ON p.b = n;
DROP TABLE pair, other;

-- a merge join goes back to a mark on a row that the directory has given
CREATE TABLE inner_u (id int PRIMARY KEY, y int) USING lsm;
INSERT INTO inner_u SELECT g, 9 FROM generate_series(1, 9) g;
CREATE TABLE outer_o (a int, x int);
INSERT INTO outer_o VALUES (1, 1), (1, 2), (2, 1), (2, 3), (3, 10);
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
SELECT a, x, y FROM outer_o o JOIN inner_u u ON o.a = u.id AND o.x < u.y WHERE u.id IN (1, 2, 3) ORDER BY a, x;
SELECT a, x, y FROM outer_o o JOIN inner_u u ON o.a = u.id AND o.x < u.y WHERE u.id IN (1, 2, 3) ORDER BY a, x;
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_material;
DROP TABLE inner_u, outer_o;

-- what is equal to a key is not always the same
CREATE COLLATION d_ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE words (t text COLLATE d_ignore_case PRIMARY KEY, n numeric UNIQUE, f float8 UNIQUE, c char(8) UNIQUE) USING lsm;
INSERT INTO words VALUES ('Word', 1.50, -0.0, 'ab'), ('other', 2.5, 'NaN', 'abc ');
SELECT t FROM words WHERE t = 'WORD';
SELECT t FROM words WHERE t = 'wOrD';
SELECT n FROM words WHERE n = 1.5;
SELECT n FROM words WHERE n = 1.500;
SELECT f FROM words WHERE f = 0;
SELECT f FROM words WHERE f = -0.0::float8;
SELECT f FROM words WHERE f = 'NaN';
SELECT f FROM words WHERE f = 'NaN';
SELECT n FROM words WHERE c = 'ab';
SELECT n FROM words WHERE c = 'ab   ';
SELECT relname, directory_hits, directory_misled FROM pg_stat_lsm WHERE relname LIKE 'words%' ORDER BY relname;
DROP TABLE words;
DROP COLLATION d_ignore_case;

-- several columns, NULLs, long keys
CREATE TABLE many (a int, b text, c date, v int, UNIQUE (a, b, c)) USING lsm;
INSERT INTO many SELECT g % 10, repeat(md5((g % 100)::text), 1 + g % 40), '2026-01-01'::date + g, g FROM generate_series(1, 1000) g;
INSERT INTO many VALUES (1, NULL, '2026-01-01', -1), (1, NULL, '2026-01-01', -2);
SELECT count(*) FROM many m JOIN many o USING (a, b, c);
SELECT count(*) FROM many m, LATERAL (SELECT * FROM many WHERE a = m.a AND b = m.b AND c = m.c OFFSET 0) o WHERE o.v = m.v;
SELECT count(*) FROM many m, LATERAL (SELECT * FROM many WHERE a = m.a AND b = m.b AND c = m.c OFFSET 0) o WHERE o.v = m.v;
SELECT v FROM many WHERE a = 1 AND b IS NULL AND c = '2026-01-01' ORDER BY v;
SELECT directory_hits > 900 AS hits FROM pg_stat_lsm WHERE relname = 'many_a_b_c_key';
DROP TABLE many;

-- lists of keys, long and short: the same rows as of a heap, in the same order
CREATE TABLE listed (id int PRIMARY KEY, a int, b int, v int, UNIQUE (a, b)) USING lsm;
CREATE TABLE listed_heap (id int PRIMARY KEY, a int, b int, v int) USING heap;
INSERT INTO listed SELECT g, g % 30, g / 30, g FROM generate_series(1, 2100) g WHERE g % 3 > 0;
INSERT INTO listed_heap SELECT * FROM listed;
CREATE FUNCTION rows_of(rel text, query text, keys int[], others int[] DEFAULT NULL) RETURNS text AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT string_agg(r::text, '' '') FROM (SELECT * FROM %I WHERE %s) r', rel, query)
	INTO result USING keys, others;
	RETURN result;
END $$ LANGUAGE plpgsql;
CREATE FUNCTION different_lists() RETURNS bigint AS $$
	SELECT count(*) FROM (
		SELECT seed, (SELECT array_agg((g * 7919 + seed * 31) % 2200) FROM generate_series(1, seed) g) AS keys,
			(SELECT array_agg((g * 13 + seed) % 75) FROM generate_series(1, seed % 20 + 1) g) AS others
		FROM generate_series(1, 120, 7) seed) lists,
		(VALUES ('id = ANY ($1) ORDER BY id'), ('id = ANY ($1) ORDER BY id DESC'), ('id = ANY ($1) ORDER BY id LIMIT 9'),
		 ('id = ANY ($1 || NULL::int || $1) AND v % 2 = 0 ORDER BY id'),
		 ('a = 7 AND b = ANY ($1) ORDER BY a, b'), ('a = ANY ($2) AND b = ANY ($2) ORDER BY a, b'),
		 ('a = ANY ($2) AND b = ANY ($1) ORDER BY a DESC, b DESC')) queries (query)
	WHERE rows_of('listed', query, keys, others) IS DISTINCT FROM rows_of('listed_heap', query, keys, others)
$$ LANGUAGE sql;
SELECT different_lists();
SELECT lsm_flush(rel) FROM unnest('{listed, listed_pkey, listed_a_b_key}'::regclass[]) rel;
SELECT pg_stat_lsm_reset();
SELECT different_lists();
SELECT relname, directory_hits > 0 AS hits, directory_misled FROM pg_stat_lsm WHERE relname LIKE 'listed%key' ORDER BY relname;
-- rows that stay, move, go and come back
CREATE FUNCTION change_both(query text) RETURNS void AS $$
BEGIN
	EXECUTE replace(query, 'LIST', 'listed');
	EXECUTE replace(query, 'LIST', 'listed_heap');
END $$ LANGUAGE plpgsql;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT different_lists();
SELECT change_both(query) FROM unnest('{UPDATE LIST SET v = -v WHERE id % 5 = 0, UPDATE LIST SET id = -id WHERE id % 7 = 0,
	DELETE FROM LIST WHERE id % 11 = 0, UPDATE LIST SET id = -id WHERE id < -1000,
	INSERT INTO LIST SELECT g\, g % 30 + 30\, g % 70\, 0 FROM generate_series(11\, 990\, 33) g ON CONFLICT DO NOTHING}'::text[]) query;
SELECT different_lists();
SAVEPOINT s;
SELECT change_both('DELETE FROM LIST WHERE id % 2 = 0');
SELECT different_lists();
ROLLBACK TO s;
SELECT different_lists();
COMMIT;
SELECT different_lists();
SET lsm.hash_sharing = off;
SELECT different_lists();
RESET lsm.hash_sharing;
-- back and forth
BEGIN;
DECLARE both_ways SCROLL CURSOR FOR SELECT id, v FROM listed WHERE id IN (1, 2, 4, 5, 8, 10, 11, 13, 14, 16) ORDER BY id;
FETCH 3 FROM both_ways;
FETCH BACKWARD 2 FROM both_ways;
FETCH 3 FROM both_ways;
MOVE ALL FROM both_ways;
FETCH BACKWARD ALL FROM both_ways;
COMMIT;
DROP TABLE listed, listed_heap;
DROP FUNCTION rows_of, different_lists, change_both;

-- not for these
CREATE TABLE not_for (id int, part int, late int, UNIQUE (late) DEFERRABLE) USING lsm;
CREATE UNIQUE INDEX not_for_part ON not_for USING lsm (part) WHERE id > 0;
CREATE UNIQUE INDEX not_for_sum ON not_for USING lsm ((id + part));
INSERT INTO not_for VALUES (-1, 1, 1), (1, 1, 2), (2, 2, 3);
SELECT * FROM not_for WHERE part = 1 AND id > 0;
SELECT * FROM not_for WHERE part = 1 AND id > 0;
SELECT * FROM not_for WHERE id + part = 2;
SELECT * FROM not_for WHERE late = 1;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE not_for SET late = 1 WHERE late = 2;
SELECT * FROM not_for WHERE late = 1 ORDER BY id;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM not_for WHERE part = 2 AND id > 0;
COMMIT;
SELECT sum(directory_lookups) FROM pg_stat_lsm WHERE relname LIKE 'not_for%';
DROP TABLE not_for;
DROP FUNCTION asked;
