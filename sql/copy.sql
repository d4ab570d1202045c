-- COPY writes the index entries of up to 1,000 rows together
SET client_min_messages = warning;
CREATE TABLE copied (id int8 PRIMARY KEY, a int, b text, c int) USING lsm;
CREATE INDEX copied_a ON copied USING lsm (a) INCLUDE (c);
CREATE UNIQUE INDEX copied_c ON copied USING lsm (c);
CREATE INDEX copied_part ON copied USING lsm (b) WHERE a = 3;
CREATE INDEX copied_expr ON copied USING lsm ((id % 7));
CREATE INDEX copied_btree ON copied USING btree (a);
COPY copied FROM PROGRAM 'seq 1 2500 | awk ''{ print $1 "\t" $1 % 5 "\tt" $1 % 11 "\t" ($1 % 2 ? $1 : "\\N") }''';
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM copied WHERE id BETWEEN 1 AND 2500;
SELECT count(*), count(c), sum(c) FROM copied WHERE a = 3;
SELECT count(*) FROM copied WHERE a = 3 AND b = 't4';
SELECT count(*) FROM copied WHERE id % 7 = 2;
SELECT id FROM copied WHERE c = 1235;
SELECT count(*) FROM copied WHERE c IS NULL;
RESET enable_seqscan;
SELECT * FROM lsm_verify('copied');
SELECT * FROM lsm_verify('copied_pkey');
SELECT * FROM lsm_verify('copied_a');
SELECT * FROM lsm_verify('copied_c');

-- errors come with the row that they are about: a key that is there, twice
-- the same key, in the batch and across batches, in the second index
COPY copied FROM PROGRAM 'seq 2498 2600 | awk ''{ print $1 + (NR < 3) * 1000 "\t1\tx\t\\N" }''';
COPY copied FROM PROGRAM 'seq 3001 3100 | awk ''{ print ($1 == 3042 ? 3007 : $1) "\t1\tx\t\\N" }''';
COPY copied FROM PROGRAM 'seq 3001 5000 | awk ''{ print ($1 == 4242 ? 3007 : $1) "\t1\tx\t\\N" }''';
COPY copied FROM PROGRAM 'seq 3001 3100 | awk ''{ print $1 "\t1\tx\t" ($1 == 3050 ? 1235 : $1) }''';
SET lsm.constraint_index = lsm;
CREATE TABLE copied_long (t text PRIMARY KEY) USING lsm;
COPY copied_long FROM PROGRAM 'seq 1 76; head -c 30000 /dev/urandom | base64 -w0; echo; seq 78 300';
SELECT count(*) FROM copied;
SELECT count(*) FROM copied_long;
SELECT * FROM lsm_verify('copied_pkey');

-- a failed COPY in a subtransaction leaves nothing behind
DO $$
BEGIN
	BEGIN
		COPY copied FROM PROGRAM 'seq 6001 6300 | awk ''{ print ($1 == 6222 ? 1 : $1) "\t1\tx\t\\N" }''';
	EXCEPTION WHEN unique_violation THEN
		RAISE INFO 'caught';
	END;
	COPY copied FROM PROGRAM 'seq 6001 6300 | awk ''{ print $1 "\t1\tx\t\\N" }''';
END;
$$;
SELECT count(*) FROM copied WHERE id > 6000;

-- deferred: checked at the end, by row
CREATE TABLE copied_later (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED) USING lsm;
COPY copied_later FROM PROGRAM 'seq 1 300';
BEGIN;
COPY copied_later FROM PROGRAM 'seq 300 400';
DELETE FROM copied_later WHERE id = 300;
INSERT INTO copied_later VALUES (300);
COMMIT;
COPY copied_later FROM PROGRAM 'seq 400 500';
SELECT count(*), sum(id) FROM copied_later;

-- triggers: before each row (rows one by one), after each row, one that copies itself
CREATE TABLE copied_log (id int8 PRIMARY KEY) USING lsm;
CREATE FUNCTION copied_after() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.id = 8100 THEN
		COPY copied_log FROM PROGRAM 'seq 1 200';
	END IF;
	IF (SELECT count(*) FROM copied WHERE id = NEW.id) <> 1 THEN
		RAISE 'row is missing';
	END IF;
	RETURN NULL;
END;
$$;
CREATE TRIGGER copied_after AFTER INSERT ON copied FOR EACH ROW EXECUTE FUNCTION copied_after();
COPY copied FROM PROGRAM 'seq 8001 8300 | awk ''{ print $1 "\t1\tx\t\\N" }''';
SELECT count(*) FROM copied_log WHERE id > 100;
DROP TRIGGER copied_after ON copied;
CREATE FUNCTION copied_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.id = NEW.id + 1000;
	RETURN NEW;
END;
$$;
CREATE TRIGGER copied_before BEFORE INSERT ON copied FOR EACH ROW EXECUTE FUNCTION copied_before();
COPY copied FROM PROGRAM 'seq 8001 8300 | awk ''{ print $1 "\t1\tx\t\\N" }''';
SELECT min(id), max(id), count(*) FROM copied WHERE id > 8500;

-- partitions, and a memtable that is flushed meanwhile
CREATE TABLE copied_parts (id int8 NOT NULL, t text) PARTITION BY HASH (id);
CREATE TABLE copied_part0 PARTITION OF copied_parts FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING lsm;
CREATE TABLE copied_part1 PARTITION OF copied_parts FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING lsm;
CREATE UNIQUE INDEX copied_part0_id ON copied_part0 USING lsm (id);
CREATE UNIQUE INDEX copied_part1_id ON copied_part1 USING lsm (id);
SET lsm.memtable_size = '1MB';
COPY copied_parts FROM PROGRAM 'seq 1 20000 | awk ''{ print ($1 * 7919) % 20011 "\tsome text here " $1 }''';
RESET lsm.memtable_size;
SELECT count(*), sum(id) = sum((SELECT p.id FROM copied_parts p WHERE p.id = c.id)) AS same FROM copied_parts c;
SELECT * FROM lsm_verify('copied_part0_id');
SELECT * FROM lsm_verify('copied_part1');
-- batches that end next to keys that are there, in memory and in a file, or at them
CREATE TABLE copied_edge (id int8 PRIMARY KEY, t text UNIQUE) USING lsm;
DO $$
DECLARE
	flushed bool;
	least int;
	greatest int;
	result text;
BEGIN
	FOREACH flushed IN ARRAY ARRAY[false, true] LOOP
		FOR least, greatest IN VALUES (90, 99), (90, 100), (100, 105), (110, 120), (111, 120),
			(90, 120), (104, 106) LOOP
			TRUNCATE copied_edge;
			INSERT INTO copied_edge SELECT i, 'x' || i FROM generate_series(100, 110) i;
			IF flushed THEN
				PERFORM lsm_flush('copied_edge');
			END IF;
			BEGIN
				EXECUTE format('COPY copied_edge FROM PROGRAM %L',
					format('seq %s %s | awk ''{ print $1 "\tx" $1 }''', least, greatest));
				SELECT count(*) || ' rows' INTO result FROM copied_edge;
			EXCEPTION WHEN unique_violation THEN
				result := SQLERRM;
			END;
			RAISE INFO 'flushed %, % to %: %', flushed, least, greatest, result;
		END LOOP;
	END LOOP;
END;
$$;
SELECT * FROM lsm_verify('copied_edge_pkey');
DROP TABLE copied_edge;

DROP TABLE copied, copied_long, copied_later, copied_log, copied_parts;
DROP FUNCTION copied_after, copied_before;
