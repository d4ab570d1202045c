-- Rows that are updated again and again, where no column of an index changes: what a query, a cursor, a constraint or a rebuild of the
-- table says of their versions.  h is a heap table, l an lsm table: both must say the same.
CREATE TABLE h (id int PRIMARY KEY, v int, k text, u int, CONSTRAINT h_u UNIQUE (u) DEFERRABLE) USING heap;
CREATE TABLE l (id int PRIMARY KEY, v int, k text, u int, CONSTRAINT l_u UNIQUE (u) DEFERRABLE) USING lsm;
CREATE INDEX h_k ON h (k);
CREATE INDEX l_k ON l USING lsm (k);
SELECT twin('INSERT INTO @ SELECT g, 0, ''k'' || g % 10, g FROM generate_series(1, 100) g');

-- what a query returns, as text, if it is the same for both; else what it returns for each
CREATE FUNCTION agree(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	x text;
	y text;
BEGIN
	BEGIN
		EXECUTE format('SELECT string_agg(q::text, '' '') FROM (%s) q', replace(query, '@', 'h')) INTO x;
	EXCEPTION WHEN others THEN x := sqlstate;
	END;
	BEGIN
		EXECUTE format('SELECT string_agg(q::text, '' '') FROM (%s) q', replace(query, '@', 'l')) INTO y;
	EXCEPTION WHEN others THEN y := sqlstate;
	END;
	RETURN CASE WHEN x IS NOT DISTINCT FROM y THEN x ELSE format('heap: %s lsm: %s', x, y) END;
END $$;
CREATE PROCEDURE tidy() LANGUAGE plpgsql AS $$ BEGIN PERFORM lsm_flush('l'); PERFORM lsm_compact('l'); END $$;
CREATE FUNCTION times(n int, one int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		UPDATE h SET v = v + 1 WHERE id = one;
		UPDATE l SET v = v + 1 WHERE id = one;
	END LOOP;
END $$;

-- many versions by one transaction, by many, in between those that are rolled back
SELECT times(5, 1), times(300, 2);
SELECT twin('UPDATE @ SET v = v + 1') FROM generate_series(1, 3);
BEGIN;
DO $$
BEGIN
	FOR i IN 1 .. 100 LOOP
		UPDATE h SET v = v + 1 WHERE id = 3; UPDATE l SET v = v + 1 WHERE id = 3;
		BEGIN
			UPDATE h SET v = v + 1000 WHERE id = 3; UPDATE l SET v = v + 1000 WHERE id = 3;
			IF i % 3 = 0 THEN RAISE EXCEPTION 'back'; END IF;
		EXCEPTION WHEN raise_exception THEN
		END;
	END LOOP;
END $$;
SELECT agree('SELECT v FROM @ WHERE id = 3');
CALL tidy();
SELECT agree('SELECT v FROM @ WHERE id = 3');
SAVEPOINT s;
SELECT times(10, 3);
CALL tidy();
SELECT agree('SELECT v FROM @ WHERE id = 3');
ROLLBACK TO s;
SELECT agree('SELECT v FROM @ WHERE id = 3');
SELECT times(1, 3);
COMMIT;
BEGIN; SELECT times(20, 4); CALL tidy(); ROLLBACK;
SELECT agree('SELECT v FROM @ WHERE id IN (1, 2, 3, 4) ORDER BY id');
SELECT same_query('SELECT id, v FROM @ WHERE k = ''k3''');
SELECT same();
-- 30 subtransactions, one in the other
DO $$
DECLARE
	body text := 'UPDATE @ SET v = v + 1 WHERE id = 5;';
BEGIN
	FOR i IN 1 .. 30 LOOP
		body := format('BEGIN UPDATE @ SET v = v + 1 WHERE id = 5; %s %s EXCEPTION WHEN raise_exception THEN UPDATE @ SET v = v + 10 WHERE id = 5; END;',
			body, CASE WHEN i % 4 = 0 THEN 'RAISE EXCEPTION ''back'';' END);
	END LOOP;
	EXECUTE 'DO $d$ BEGIN ' || replace(body, '@', 'h') || ' END $d$';
	EXECUTE 'DO $d$ BEGIN ' || replace(body, '@', 'l') || ' END $d$';
END $$;
SELECT agree('SELECT v FROM @ WHERE id = 5');

-- cursors: what they see stays, in both directions, and over the end of the transaction
BEGIN;
DECLARE hs SCROLL CURSOR FOR SELECT id, v FROM h WHERE id < 4 ORDER BY id;
DECLARE ls SCROLL CURSOR FOR SELECT id, v FROM l WHERE id < 4 ORDER BY id;
SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off;
DECLARE hb SCROLL CURSOR WITH HOLD FOR SELECT id, v FROM h WHERE id < 4;
DECLARE lb SCROLL CURSOR WITH HOLD FOR SELECT id, v FROM l WHERE id < 4;
FETCH 2 FROM hs; FETCH 2 FROM ls; FETCH 1 FROM hb; FETCH 1 FROM lb;
SELECT times(3, 1), times(3, 2), times(200, 3);
CALL tidy();
FETCH ALL FROM hs; FETCH ALL FROM ls; FETCH ALL FROM hb; FETCH ALL FROM lb;
FETCH BACKWARD ALL FROM hs; FETCH BACKWARD ALL FROM ls; FETCH BACKWARD ALL FROM hb; FETCH BACKWARD ALL FROM lb;
COMMIT;
FETCH ALL FROM hb; FETCH ALL FROM lb;
CLOSE hb; CLOSE lb;

-- WHERE CURRENT OF, by a sequential, an index, an index-only and a TID scan
CREATE PROCEDURE current_of(setting text, condition text) LANGUAGE plpgsql AS $$
DECLARE
	way text;
	t text;
	said text;
	r text[];
BEGIN
	FOREACH way IN ARRAY ARRAY['enable_seqscan', 'enable_indexscan', 'enable_indexonlyscan', 'enable_bitmapscan'] LOOP
		PERFORM set_config(way, (way = setting OR way = 'enable_indexscan' AND setting = 'enable_indexonlyscan')::text, true);
	END LOOP;
	FOREACH t IN ARRAY ARRAY['h', 'l'] LOOP
		EXECUTE format('DECLARE c CURSOR FOR SELECT id FROM %s WHERE %s', t, replace(condition, '@', t));
		EXECUTE 'MOVE c';
		EXECUTE format('UPDATE %s SET v = v + 1 WHERE CURRENT OF c RETURNING id || '' '' || v', t) INTO said;
		r := r || said;
		-- the row has another version by now, which is the one
		EXECUTE format('UPDATE %s SET v = v + 1 WHERE CURRENT OF c RETURNING id || '' '' || v', t) INTO said;
		r := r || coalesce(said, 'none');
		EXECUTE format('DELETE FROM %s WHERE CURRENT OF c RETURNING id || '' '' || v', t) INTO said;
		r := r || coalesce(said, 'none');
		EXECUTE 'CLOSE c';
	END LOOP;
	PERFORM set_config(w, 'on', true) FROM unnest(ARRAY['enable_seqscan', 'enable_indexscan', 'enable_indexonlyscan', 'enable_bitmapscan']) w;
	RAISE NOTICE '%: %', setting, CASE WHEN r[1:3] = r[4:6] THEN r[1:3]::text ELSE r::text END;
END $$;
BEGIN; CALL current_of('enable_seqscan', 'id = 2'); ROLLBACK;
BEGIN; CALL current_of('enable_indexscan', 'id = 2'); ROLLBACK;
BEGIN; CALL current_of('enable_indexonlyscan', 'id = 2'); COMMIT;
BEGIN; CALL current_of('enable_tidscan', 'ctid = (SELECT ctid FROM @ WHERE id = 3)'); ROLLBACK;

-- TIDs name versions
SELECT twin('UPDATE @ SET v = v + 1 WHERE ctid = (SELECT ctid FROM @ WHERE id = 1)');
SELECT agree('SELECT count(*) FROM @ a JOIN @ b ON a.ctid = b.ctid');
SELECT agree('SELECT count(*) FROM @ WHERE ctid >= (SELECT min(ctid) FROM @) AND ctid <= (SELECT max(ctid) FROM @)');
SELECT agree('SELECT count(*) FROM @ WHERE ctid >= ''(0,0)'' AND ctid <= ''(4294967295,65535)''');
SELECT agree('SELECT id FROM @ WHERE ctid >= (SELECT ctid FROM @ WHERE id = 7) AND ctid <= (SELECT ctid FROM @ WHERE id = 7)');
SELECT agree('SELECT count(*) FROM @ x, LATERAL (SELECT 1 FROM @ y WHERE y.ctid = x.ctid) z');

-- one transaction's versions: which command made and ended each
BEGIN;
DECLARE h1 CURSOR FOR SELECT v FROM h WHERE id = 6; DECLARE l1 CURSOR FOR SELECT v FROM l WHERE id = 6;
SELECT times(1, 6);
DECLARE h2 CURSOR FOR SELECT v FROM h WHERE id = 6; DECLARE l2 CURSOR FOR SELECT v FROM l WHERE id = 6;
SELECT times(1, 6);
DECLARE h3 CURSOR FOR SELECT v FROM h WHERE id = 6; DECLARE l3 CURSOR FOR SELECT v FROM l WHERE id = 6;
DELETE FROM h WHERE id = 6; DELETE FROM l WHERE id = 6;
CALL tidy();
FETCH h1; FETCH l1; FETCH h2; FETCH l2; FETCH h3; FETCH l3;
SELECT agree('SELECT v FROM @ WHERE id = 6');
ROLLBACK;
-- a row is changed twice by one command
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('UPDATE %I SET v = v + 100 WHERE id = %s', TG_TABLE_NAME, OLD.id);
	RETURN NEW;
END $$;
CREATE TRIGGER again BEFORE UPDATE ON h FOR EACH ROW WHEN (NEW.v = OLD.v) EXECUTE FUNCTION again();
CREATE TRIGGER again BEFORE UPDATE ON l FOR EACH ROW WHEN (NEW.v = OLD.v) EXECUTE FUNCTION again();
SELECT twin('UPDATE @ SET v = v WHERE id = 8');
DROP TRIGGER again ON h; DROP TRIGGER again ON l;
SELECT twin('UPDATE @ SET v = x FROM generate_series(1, 3) x WHERE id = 8');
SELECT twin('INSERT INTO @ VALUES (8, 1, ''k8'', 8), (8, 2, ''k8'', 8) ON CONFLICT (id) DO UPDATE SET v = excluded.v');
SELECT twin('MERGE INTO @ t USING (VALUES (8), (8)) s (id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + 1');
SELECT twin('WITH a AS (UPDATE @ SET v = v + 1 WHERE id = 8 RETURNING v), b AS (UPDATE @ SET v = v + 10 WHERE id = 8 RETURNING v) SELECT FROM a, b');

-- constraints: a check of uniqueness that is deferred finds the version that there is by then
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE h SET u = 10 WHERE id = 9; UPDATE l SET u = 10 WHERE id = 9;
SELECT times(3, 9), times(3, 10);
UPDATE h SET u = 9 WHERE id = 10; UPDATE l SET u = 9 WHERE id = 10;
SELECT times(3, 9), times(3, 10);
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
SELECT twin('UPDATE @ SET u = 11 WHERE id = 9'), twin('INSERT INTO @ VALUES (1, 1, ''k'', 1000)');
SELECT twin('INSERT INTO @ VALUES (9, 5, ''k'', 1000) ON CONFLICT (id) DO UPDATE SET v = @.v + excluded.v');
-- an expression, a predicate, a summary: these columns are columns of an index, too
CREATE INDEX h_e ON h ((v % 7)); CREATE INDEX l_e ON l USING lsm ((v % 7));
SELECT times(2, 11);
SELECT same_query('SELECT id, v FROM @ WHERE v % 7 = 5');
DROP INDEX h_e, l_e;
CREATE INDEX h_p ON h (id) WHERE v > 5; CREATE INDEX l_p ON l USING lsm (id) WHERE v > 5;
SELECT times(4, 12), times(2, 13);
SELECT same_query('SELECT id, v FROM @ WHERE v > 5 AND id > 0');
DROP INDEX h_p, l_p;
CREATE INDEX h_b ON h USING brin (v); CREATE INDEX l_b ON l USING brin (v);
SELECT times(7, 14);
SELECT same_query('SELECT id, v FROM @ WHERE v BETWEEN 10 AND 20');
DROP INDEX h_b, l_b;
-- a whole row, in an expression and in a predicate
CREATE FUNCTION v_of(h) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1.v; END $$;
CREATE FUNCTION v_of(l) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1.v; END $$;
SET enable_seqscan = off;
CREATE INDEX h_w ON h (v_of(h)); CREATE INDEX l_w ON l USING lsm (v_of(l));
SELECT times(3, 14);
SELECT same_query('SELECT id, v FROM @ WHERE v_of(@) BETWEEN 10 AND 20');
DROP INDEX h_w, l_w;
CREATE INDEX h_w ON h (id) WHERE v_of(h) > 11; CREATE INDEX l_w ON l USING lsm (id) WHERE v_of(l) > 11;
SELECT times(3, 14);
SELECT same_query('SELECT id, v FROM @ WHERE v_of(@) > 11 AND id > 0');
DROP INDEX h_w, l_w;
RESET enable_seqscan;
DROP FUNCTION v_of(h), v_of(l);
-- values that are equal and not the same: what an index-only scan returns is the row's own
CREATE TABLE h_num (id int PRIMARY KEY, x numeric, f float8, c char(3)) USING heap;
CREATE TABLE l_num (id int PRIMARY KEY, x numeric, f float8, c char(3)) USING lsm;
INSERT INTO h_num VALUES (1, 1.0, 0, 'a'), (2, 2.0, 0, 'a'); INSERT INTO l_num SELECT * FROM h_num;
CREATE INDEX h_num_x ON h_num (id, x) INCLUDE (f, c); CREATE INDEX l_num_x ON l_num USING lsm (id, x) INCLUDE (x, f, c);
VACUUM h_num, l_num;
UPDATE h_num SET x = 1.00 WHERE id = 1; UPDATE l_num SET x = 1.00 WHERE id = 1;
UPDATE h_num SET f = '-0' WHERE id = 2; UPDATE l_num SET f = '-0' WHERE id = 2;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT agree('SELECT id, x, f, c FROM @_num WHERE id IN (1, 2) AND x > 0 ORDER BY id');
RESET enable_seqscan; RESET enable_bitmapscan;
DROP TABLE h_num, l_num;

-- an index that is made when there are versions which its users must not see, and rows whose newest one was rolled back
BEGIN; SELECT times(3, 15); ROLLBACK;
SELECT times(3, 16);
CREATE INDEX h_v ON h (v); CREATE INDEX l_v ON l USING lsm (v);
SELECT same_query('SELECT id, v FROM @ WHERE v > 2');
REINDEX INDEX l_v;
SELECT same_query('SELECT id, v FROM @ WHERE v > 2');
DROP INDEX h_v, l_v;

-- CLUSTER and VACUUM FULL copy versions that somebody sees, and the links between them
BEGIN; SELECT times(3, 17); ROLLBACK;
SELECT times(3, 18);
-- those that came to nothing have numbers of the later one, and higher ones
BEGIN; SELECT times(3, 19); ROLLBACK;
SELECT times(1, 19);
SET statement_timeout = '5min';
CLUSTER h USING h_pkey; CLUSTER l USING l_k;
CLUSTER l USING l_pkey;
RESET statement_timeout;
SELECT same();
BEGIN;
SELECT times(3, 18);
CLUSTER l USING l_k;
SELECT agree('SELECT v FROM @ WHERE id = 18');
SELECT times(3, 18);
COMMIT;
VACUUM FULL h; VACUUM FULL l;
SELECT same();

-- samples, statistics
SELECT agree('SELECT count(*) FROM @ TABLESAMPLE BERNOULLI (100)'), agree('SELECT count(*) FROM @ TABLESAMPLE SYSTEM (100)');
SELECT times(10, 19);
ANALYZE h, l;
SELECT relname, reltuples FROM pg_class WHERE relname IN ('h', 'l') ORDER BY 1;
BEGIN; SELECT times(3, 20); ANALYZE h, l; COMMIT;
SELECT relname, reltuples FROM pg_class WHERE relname IN ('h', 'l') ORDER BY 1;
VACUUM l;
SELECT same();

-- Statistics: they count as updates, and as HOT ones; VACUUM has nothing to do for them, whether they are committed or not.
CREATE TABLE counted (id int PRIMARY KEY, v int, k int) USING lsm WITH (autovacuum_enabled = off);
CREATE INDEX ON counted (k);
INSERT INTO counted SELECT g, 0, g FROM generate_series(1, 100) g;
UPDATE counted SET v = v + 1;
UPDATE counted SET v = v + 1;
BEGIN; UPDATE counted SET v = v + 1; ROLLBACK;
BEGIN; UPDATE counted SET v = v + 1 WHERE id <= 10; SAVEPOINT a; UPDATE counted SET v = v + 1 WHERE id <= 10; ROLLBACK TO a; COMMIT;
UPDATE counted SET k = -k WHERE id <= 5;
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins, n_tup_upd, n_tup_hot_upd, n_live_tup, n_dead_tup, n_mod_since_analyze FROM pg_stat_user_tables WHERE relname = 'counted';
DROP TABLE counted;

-- Updates that are rolled back again and again do not pile up in their row: they move.
SELECT pg_stat_force_next_flush();
BEGIN;
SELECT pg_stat_get_xact_tuples_hot_updated('l'::regclass) AS before \gset
DO $$
BEGIN
	FOR i IN 1 .. 1000 LOOP
		BEGIN
			UPDATE l SET v = v + 1 WHERE id = 50;
			RAISE EXCEPTION 'back';
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
	END LOOP;
END $$;
SELECT pg_stat_get_xact_tuples_hot_updated('l'::regclass) - :before BETWEEN 1 AND 100 AS few;
COMMIT;
SELECT twin('UPDATE @ SET v = 0 WHERE id = 50');
SELECT same();
DROP TABLE h, l;
DROP FUNCTION agree, times, again;
DROP PROCEDURE tidy, current_of;
