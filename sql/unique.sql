-- Uniqueness through lsm_index
CREATE TABLE l (id int, v text, n int) USING lsm;
CREATE UNIQUE INDEX l_id ON l USING lsm (id);
INSERT INTO l VALUES (1, 'one'), (2, 'two');
INSERT INTO l VALUES (1, 'again');
INSERT INTO l VALUES (3, 'a'), (3, 'b');
UPDATE l SET id = 2 WHERE id = 1;
SELECT * FROM l ORDER BY id;
-- after flush and compaction
SELECT lsm_flush('l');
INSERT INTO l VALUES (1, 'again');
SELECT lsm_compact('l');
INSERT INTO l VALUES (1, 'again');
-- NULLs are distinct, unless told otherwise
INSERT INTO l VALUES (NULL, 'n1'), (NULL, 'n2');
CREATE UNIQUE INDEX l_n ON l USING lsm (n) NULLS NOT DISTINCT WHERE n IS NULL AND id > 100;
INSERT INTO l VALUES (101, 'x', NULL);
INSERT INTO l VALUES (102, 'x', NULL);
DROP INDEX l_n;
-- delete and insert again, in one transaction and in two
DELETE FROM l WHERE id = 1;
INSERT INTO l VALUES (1, 'back');
BEGIN;
DELETE FROM l WHERE id = 1;
INSERT INTO l VALUES (1, 'back again');
COMMIT;
-- update that does not change the key
UPDATE l SET v = v || '!' WHERE id = 1;
UPDATE l SET v = v || '!' WHERE id = 1;
SELECT * FROM l WHERE id = 1;
-- rolled back: the key is free
BEGIN;
INSERT INTO l VALUES (7, 'rolled back');
ROLLBACK;
INSERT INTO l VALUES (7, 'committed');
BEGIN;
SAVEPOINT s;
INSERT INTO l VALUES (8, 'rolled back');
ROLLBACK TO s;
INSERT INTO l VALUES (8, 'committed, too');
SAVEPOINT s2;
INSERT INTO l VALUES (8, 'duplicate');
ROLLBACK TO s2;
COMMIT;
SELECT * FROM l WHERE id IN (7, 8) ORDER BY id;
-- building on duplicates fails and leaves nothing behind
INSERT INTO l VALUES (20, 'dup'), (21, 'dup');
CREATE UNIQUE INDEX l_v ON l USING lsm (v);
SELECT count(*) FROM pg_class WHERE relname = 'l_v';
DELETE FROM l WHERE id = 21;
CREATE UNIQUE INDEX l_v ON l USING lsm (v);
INSERT INTO l VALUES (22, 'dup');
-- dead duplicates do not matter to a build
UPDATE l SET id = id + 1000 WHERE id IS NOT NULL;
UPDATE l SET id = id - 1000 WHERE id IS NOT NULL;
REINDEX INDEX l_id;
-- multi-column, expression
CREATE UNIQUE INDEX l_vi ON l USING lsm (lower(v), id);
INSERT INTO l VALUES (20, 'DUP');
DROP INDEX l_id, l_v;
INSERT INTO l VALUES (20, 'DUP');
INSERT INTO l VALUES (21, 'DUP');
SELECT * FROM lsm_verify('l');
DROP TABLE l;

-- equal keys with different bits are duplicates
CREATE TABLE l (n numeric, f float8, c char(4)) USING lsm;
CREATE UNIQUE INDEX ON l USING lsm (n);
CREATE UNIQUE INDEX ON l USING lsm (f);
CREATE UNIQUE INDEX ON l USING lsm (c);
INSERT INTO l VALUES (1.0, 0.0, 'a');
INSERT INTO l VALUES (1.00, 1, 'b');
INSERT INTO l VALUES (2, -0.0, 'b');
INSERT INTO l VALUES (2, 1, 'a ');
INSERT INTO l VALUES (2, 1, 'b');
SELECT count(*) FROM l;
DROP TABLE l;

-- on a heap table
CREATE TABLE h (id int, v text) USING heap;
CREATE UNIQUE INDEX h_id ON h USING lsm (id);
INSERT INTO h SELECT i, 'v' FROM generate_series(1, 100) i;
INSERT INTO h VALUES (50, 'dup');
UPDATE h SET v = 'w' WHERE id = 50;
UPDATE h SET id = 51 WHERE id = 50;
DELETE FROM h WHERE id = 50;
INSERT INTO h VALUES (50, 'new');
SELECT * FROM h WHERE id = 50;
SELECT * FROM lsm_verify('h');
DROP TABLE h;

-- rows that are announced to the index before the table writes them: from a statement's third on
CREATE TABLE announced (a int, b text COLLATE "C", c int, PRIMARY KEY (a, b), UNIQUE (c)) USING lsm;
CREATE TABLE source USING heap AS SELECT (i * 7919) % 10007 AS a, repeat('b', i % 90) AS b, i AS c FROM generate_series(1, 6000) i;
-- files of level 0 and the memtable in which keys of the rest may be
INSERT INTO announced SELECT * FROM source WHERE c <= 2000;
SELECT lsm_flush('announced');
INSERT INTO announced SELECT * FROM source WHERE c > 2000 AND c <= 4000;
SELECT lsm_flush('announced');
INSERT INTO announced SELECT * FROM source WHERE c > 4000 AND c <= 5000;
-- duplicates in each of them, after rows that are none; of a key that is too long to be announced, and of the other index
INSERT INTO announced SELECT a + 20000, b, -c FROM source WHERE c < 9 UNION ALL SELECT a, b, -100 FROM source WHERE c = 725;
INSERT INTO announced SELECT a + 20000, b, -c FROM source WHERE c < 9 UNION ALL SELECT a, b, -100 FROM source WHERE c = 2795;
INSERT INTO announced SELECT a + 20000, b, -c FROM source WHERE c < 9 UNION ALL SELECT a, b, -100 FROM source WHERE c = 4777;
INSERT INTO announced SELECT a + 20000, b, -c FROM source WHERE c < 9 UNION ALL SELECT a, b, -100 FROM source WHERE c = 777;
INSERT INTO announced SELECT a + 20000, b, -c FROM source WHERE c < 9 UNION ALL SELECT 20001, 'x', 3777;
-- of the statement's own rows
INSERT INTO announced SELECT a + 20000, b, -c FROM source WHERE c < 9 UNION ALL SELECT a + 20000, b, -100 FROM source WHERE c = 8;
INSERT INTO announced SELECT * FROM source WHERE c > 3990 ORDER BY c DESC ON CONFLICT DO NOTHING;
SELECT count(*), count(DISTINCT (a, b)), count(DISTINCT c), sum(c) FROM announced;
-- a row that a trigger changes or that another statement writes between two of them; and files that change meanwhile
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.c = -3 THEN
		INSERT INTO announced VALUES (30004, 'inner', -1000);
		PERFORM lsm_flush('announced');
	ELSIF NEW.c = -4 THEN
		NEW.a := 30004;
		NEW.b := 'outer';
	ELSIF NEW.c = -7 THEN
		NEW.b := NULL;
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER change BEFORE INSERT ON announced FOR EACH ROW EXECUTE FUNCTION change();
INSERT INTO announced SELECT 30000 + i, 'x', -i FROM generate_series(1, 6) i;
SELECT * FROM announced WHERE c < 0 ORDER BY c;
INSERT INTO announced SELECT 30004, 'x', -i FROM generate_series(8, 10) i;
INSERT INTO announced SELECT 30000 + i, 'y', -i FROM generate_series(7, 10) i;
-- an error ends what it began: the index is another one afterwards
DO $$
BEGIN
	BEGIN
		INSERT INTO announced SELECT 40000 + i, 'z', -i - 100 + i / 5 * 4 FROM generate_series(1, 6) i;
	EXCEPTION WHEN unique_violation THEN
		RAISE NOTICE '%', SQLERRM;
	END;
	ALTER TABLE announced DROP CONSTRAINT announced_c_key;
	INSERT INTO announced SELECT 40000 + i, 'z', -i - 100 + i / 5 * 4 FROM generate_series(1, 6) i;
END $$;
SELECT a, c FROM announced WHERE a > 40000 ORDER BY a;
SELECT * FROM lsm_verify('announced');
DROP TABLE announced, source;
DROP FUNCTION change();
