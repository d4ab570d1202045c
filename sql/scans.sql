-- Every way to scan: sequential, index, index-only, bitmap, TID, TABLESAMPLE, parallel
CREATE TABLE h (id int, k int, v text) USING heap;
CREATE TABLE l (id int, k int, v text) USING lsm;
SELECT twin('INSERT INTO @ SELECT i, i % 100, md5(i::text) FROM generate_series(1, 5000) i');
SELECT twin('DELETE FROM @ WHERE id % 10 = 0');
SELECT twin('UPDATE @ SET k = k + 1000 WHERE id % 9 = 0');
CREATE INDEX h_id ON h (id);
CREATE INDEX h_k ON h (k);
CREATE INDEX l_id ON l USING lsm (id);
CREATE INDEX l_k ON l USING lsm (k);
ANALYZE h;
ANALYZE l;

SELECT same_query('SELECT * FROM @ WHERE id = 77');
SELECT same_query('SELECT * FROM @ WHERE id = 70');
SELECT same_query('SELECT * FROM @ WHERE k = 5');
SELECT same_query('SELECT * FROM @ WHERE id BETWEEN 100 AND 200');
SELECT same_query('SELECT * FROM @ WHERE id > 4900 AND k < 50');
SELECT same_query('SELECT * FROM @ WHERE id = ANY (ARRAY[1, 5, 5, NULL, 70, 4999, 7777])');
SELECT same_query('SELECT * FROM @ WHERE k IN (1, 2, 3) AND id < 1000');
SELECT same_query('SELECT * FROM @ WHERE k = 5 OR id < 30');
SELECT same_query('SELECT id FROM @ WHERE id < 100');
SELECT same_query('SELECT * FROM @ WHERE id < 0');
SELECT same_query('SELECT a.id, b.id AS b FROM @ a JOIN @ b ON a.id = b.k');
SELECT same_query('SELECT count(*), min(id), max(id) FROM @');
SELECT same_query('SELECT DISTINCT k FROM @');

-- plans: lsm indexes are chosen where nbtree would be
SELECT plan_of('SELECT * FROM l WHERE id = 77');
SELECT plan_of('SELECT * FROM l ORDER BY id LIMIT 3');
SET enable_indexscan = off;
SET enable_seqscan = off;
SELECT plan_of('SELECT * FROM l WHERE id = 77');
SELECT plan_of('SELECT * FROM l WHERE id = 77 OR k = 3');
RESET enable_indexscan;
RESET enable_seqscan;

-- order
SET enable_seqscan = off;
SET enable_sort = off;
SELECT id FROM l ORDER BY id LIMIT 5;
SELECT id FROM l ORDER BY id DESC LIMIT 5;
SELECT id FROM l WHERE id > 100 ORDER BY id LIMIT 5;
SELECT id FROM l WHERE id < 100 ORDER BY id DESC LIMIT 5;
SELECT min(id), max(id) FROM l;
RESET enable_sort;
RESET enable_seqscan;

-- merge join with mark and restore
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_seqscan = off;
SELECT diff('SELECT a.id, b.id FROM h a JOIN h b ON a.k = b.k WHERE a.id < 400 AND b.id > 4800',
			'SELECT a.id, b.id FROM l a JOIN l b ON a.k = b.k WHERE a.id < 400 AND b.id > 4800');
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_seqscan;

-- scroll cursors over an index, with changes in between
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
DECLARE c SCROLL CURSOR FOR SELECT id FROM l WHERE id > 10 ORDER BY id;
FETCH 3 FROM c;
INSERT INTO l VALUES (12, 0, 'not seen');
SELECT lsm_flush('l');
FETCH 3 FROM c;
FETCH BACKWARD 4 FROM c;
SELECT lsm_compact('l');
FETCH 2 FROM c;
FETCH LAST FROM c;
FETCH PRIOR FROM c;
FETCH FIRST FROM c;
ROLLBACK;

-- TID scans
SELECT count(*) FROM l a WHERE ctid IN (SELECT ctid FROM l WHERE id <= 9);
SELECT count(*) FROM l WHERE ctid = ANY (ARRAY(SELECT ctid FROM l WHERE id <= 9));
SELECT plan_of('SELECT count(*) FROM l WHERE ctid < ''(1,1)''');
SELECT (SELECT count(*) FROM l WHERE ctid < '(1,1)') + (SELECT count(*) FROM l WHERE ctid >= '(1,1)') = (SELECT count(*) FROM l) AS ranges_add_up;
SELECT count(*) FROM l WHERE ctid = '(0,0)';
SELECT count(*) FROM l WHERE ctid = '(4000000000,1)';
SELECT count(*) FROM l WHERE ctid > '(4000000000,1)';

-- TABLESAMPLE
SELECT count(*) = (SELECT count(*) FROM l) AS all_rows FROM l TABLESAMPLE SYSTEM (100);
SELECT count(*) = (SELECT count(*) FROM l) AS all_rows FROM l TABLESAMPLE BERNOULLI (100);
SELECT count(*) FROM l TABLESAMPLE SYSTEM (0);
SELECT count(*) BETWEEN 1500 AND 3000 AS about_half FROM l TABLESAMPLE BERNOULLI (50) REPEATABLE (1);
SELECT count(*) = count(DISTINCT id) AS no_duplicates FROM l TABLESAMPLE SYSTEM (50) REPEATABLE (2);

-- parallel sequential scan
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_bitmapscan = off;
SELECT diff('SELECT count(*), sum(id), sum(k) FROM h', 'SELECT count(*), sum(id), sum(k) FROM l');
SELECT diff('SELECT * FROM h', 'SELECT * FROM l');
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_bitmapscan;

-- index of every core AM on an lsm table
CREATE INDEX l_btree ON l USING btree (v);
CREATE INDEX l_hash ON l USING hash (v);
CREATE INDEX l_brin ON l USING brin (id);
CREATE INDEX l_gin ON l USING gin ((ARRAY[k]));
CREATE INDEX l_gist ON l USING gist (int4range(id, id + 10));
CREATE INDEX l_spgist ON l USING spgist (v);
DROP INDEX l_id, l_k;
SELECT same_query('SELECT * FROM @ WHERE v = md5(''42'')');
SELECT same_query('SELECT * FROM @ WHERE v > ''f''');
SELECT same_query('SELECT * FROM @ WHERE id BETWEEN 1000 AND 1010');
SELECT same_query('SELECT * FROM @ WHERE ARRAY[k] && ARRAY[5, 6]');
SELECT same_query('SELECT * FROM @ WHERE int4range(id, id + 10) && int4range(500, 501)');
SELECT twin('UPDATE @ SET v = md5(v) WHERE id % 4 = 0');
SELECT twin('DELETE FROM @ WHERE id % 6 = 0');
VACUUM l;
SELECT twin('INSERT INTO @ SELECT i, i % 100, md5(i::text) FROM generate_series(6000, 7000) i');
SELECT same_query('SELECT * FROM @ WHERE v > ''f''');
SELECT same_query('SELECT * FROM @ WHERE id BETWEEN 1000 AND 6100');
SELECT same_query('SELECT * FROM @ WHERE ARRAY[k] && ARRAY[5, 6]');
SELECT same_query('SELECT * FROM @ WHERE int4range(id, id + 10) && int4range(500, 501)');
SELECT same();
DROP TABLE h, l;

-- rows read ahead: turning back, and changes while the scan is open
CREATE TABLE h (id int, k int, v text) USING heap;
CREATE TABLE l (id int, k int, v text) USING lsm;
SELECT twin('INSERT INTO @ SELECT i, 0, repeat(''x'', i % 50) FROM generate_series(1, 600) i');
SELECT lsm_flush('l');
SELECT twin('DELETE FROM @ WHERE id % 7 = 0');
SELECT twin('INSERT INTO @ SELECT i, 0, ''memtable'' FROM generate_series(601, 700) i');
CREATE FUNCTION walk(meddle text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	r record;
	all_rows text[] := (SELECT array_agg(a::text) FROM (SELECT id, k FROM l) a);
	total int := array_length(all_rows, 1);
	at int := 0;
	bad int := 0;
	n int;
BEGIN
	OPEN c SCROLL FOR SELECT id, k FROM l;
	FOREACH n IN ARRAY '{1,-1,2,-1,5,-3,64,-64,65,-66,130,-5,4,-1,1,300,-20,25,900,-3,2,-900,3}'::int[] LOOP
		FOR i IN 1..abs(n) LOOP
			IF n > 0 THEN FETCH NEXT FROM c INTO r; ELSE FETCH PRIOR FROM c INTO r; END IF;
			at := least(greatest(at + sign(n)::int, 0), total + 1);
			bad := bad + (coalesce(r.id, 0) <> 0 AND r::text <> all_rows[at] OR
				(r.id IS NULL) <> (at NOT BETWEEN 1 AND total))::int;
		END LOOP;
		EXECUTE meddle;
	END LOOP;
	CLOSE c;
	RETURN bad || ' wrong';
END $$;
SET enable_indexscan = off;
SELECT walk('SELECT 1');
-- updates that stay in their rows; of another column, in whose index nothing is, they make new ones
CREATE INDEX ON l (k) WHERE k < -1;
SELECT walk('UPDATE l SET v = v || ''.'' WHERE id % 4 = 1');
UPDATE h SET v = v || repeat('.', 23) WHERE id % 4 = 1;
SELECT walk('UPDATE l SET k = k + 1 WHERE id % 3 = 0');
UPDATE h SET k = k + 23 WHERE id % 3 = 0;
SELECT same();
SELECT walk('SELECT lsm_flush(''l''), lsm_compact(''l'')');
SELECT walk('UPDATE l SET k = k + 1 WHERE id % 50 = 1');
UPDATE h SET k = k + 23 WHERE id % 50 = 1;
SELECT same();

-- rolled back in between
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, k FROM l;
MOVE 3 FROM c;
SAVEPOINT s;
DELETE FROM l;
SELECT lsm_flush('l');
FETCH 2 FROM c;
ROLLBACK TO s;
MOVE FORWARD 1 FROM c;
UPDATE l SET k = -1;
FETCH 2 FROM c;
FETCH BACKWARD 3 FROM c;
MOVE FORWARD ALL FROM c;
ROLLBACK;

-- a scan that changes what it is about to return
CREATE FUNCTION drop_next(tab text, i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('DELETE FROM %I WHERE id = $1', tab) USING i + 1;
	RETURN i;
END $$;
SELECT (SELECT md5(array_agg(i ORDER BY i)::text) FROM (SELECT drop_next('l', id) AS i FROM l) a) =
	(SELECT md5(array_agg(i ORDER BY i)::text) FROM (SELECT drop_next('h', id) AS i FROM h) a) AS same_rows;
SELECT same();
SELECT twin('INSERT INTO @ SELECT i, 0, ''again'' FROM generate_series(1, 200) i');
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('UPDATE %I SET k = 77 WHERE id = $1', TG_RELNAME) USING OLD.id + 3;
	RETURN NEW;
END $$;
CREATE TRIGGER meddle BEFORE UPDATE ON h FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION meddle();
CREATE TRIGGER meddle BEFORE UPDATE ON l FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION meddle();
UPDATE h SET k = 5 WHERE id < 50;
UPDATE l SET k = 5 WHERE id < 50;
DROP TRIGGER meddle ON h;
DROP TRIGGER meddle ON l;
CREATE TRIGGER meddle AFTER UPDATE ON h FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION meddle();
CREATE TRIGGER meddle AFTER UPDATE ON l FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION meddle();
SELECT twin('UPDATE @ SET k = 5 WHERE id < 50');
SELECT same();
SELECT twin('INSERT INTO @ SELECT * FROM @');
SELECT same();

-- rows of which few make a batch
ALTER TABLE h ALTER v SET STORAGE PLAIN;
ALTER TABLE l ALTER v SET STORAGE PLAIN;
SELECT twin('INSERT INTO @ SELECT i, 0, repeat(chr(65 + i % 26), 7000) FROM generate_series(1001, 1100) i');
SELECT same();
SELECT walk('SELECT 1');
SET default_transaction_isolation = serializable;
SELECT walk('SELECT 1');
RESET default_transaction_isolation;
RESET enable_indexscan;
DROP TABLE h, l;
DROP FUNCTION walk, drop_next, meddle;
