-- Rows and index entries read ahead: what a scan returns is what its snapshot
-- sees, whatever happens between two fetches.  h is heap, l is lsm.
CREATE TABLE ra_h (id int PRIMARY KEY, g int, v text);
CREATE TABLE ra_l (id int PRIMARY KEY, g int, v text) USING lsm;
INSERT INTO ra_h SELECT i, i % 7, repeat(chr(97 + i % 26), 1 + i % 90) FROM generate_series(1, 3000) i;
INSERT INTO ra_l SELECT * FROM ra_h;
SELECT lsm_flush('ra_l');
CREATE INDEX ON ra_h (g, id);
CREATE INDEX ON ra_l USING lsm (g, id);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;

-- neighbouring rows are not looked up one by one
SELECT pg_stat_lsm_reset();
SELECT count(v), sum(length(v)) FROM ra_l WHERE id BETWEEN 1001 AND 1500;
SELECT lookups < 50 AS few_lookups FROM pg_stat_lsm WHERE relname = 'ra_l';

-- the same with dead, updated, locked and new rows, own and committed, before and after a flush
UPDATE ra_h SET v = v || 'x' WHERE id % 5 = 0;
UPDATE ra_l SET v = v || 'x' WHERE id % 5 = 0;
DELETE FROM ra_h WHERE id % 11 = 3;
DELETE FROM ra_l WHERE id % 11 = 3;
BEGIN;
UPDATE ra_h SET g = g + 1 WHERE id % 13 = 0;
UPDATE ra_l SET g = g + 1 WHERE id % 13 = 0;
SAVEPOINT s;
DELETE FROM ra_h WHERE id BETWEEN 200 AND 260;
DELETE FROM ra_l WHERE id BETWEEN 200 AND 260;
ROLLBACK TO s;
SELECT count(*) FROM (SELECT * FROM ra_h WHERE id >= 100 EXCEPT SELECT * FROM ra_l WHERE id >= 100) d;
SELECT count(*) FROM (SELECT * FROM ra_l WHERE id >= 100 EXCEPT SELECT * FROM ra_h WHERE id >= 100) d;
COMMIT;
SELECT lsm_flush('ra_l');
SELECT count(*) FROM (SELECT * FROM ra_h WHERE g >= 3 EXCEPT SELECT * FROM ra_l WHERE g >= 3) d;
SELECT count(*) FROM (SELECT * FROM ra_l WHERE g >= 3 EXCEPT SELECT * FROM ra_h WHERE g >= 3) d;

-- cursors: changes between fetches, both directions
CREATE FUNCTION ra_fetch(rel text, qual text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	r record;
	out text := '';
BEGIN
	OPEN c SCROLL FOR EXECUTE format('SELECT id, g, length(v) AS n FROM %I WHERE %s', rel, qual);
	FOR step IN 1..120 LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		out := out || ' ' || r.id || ':' || r.g || ':' || r.n;
		IF step % 10 = 0 THEN
			EXECUTE format('UPDATE %I SET v = v || ''yy'', g = g + 1 WHERE id BETWEEN %s AND %s', rel, r.id - 3, r.id + 12);
			EXECUTE format('DELETE FROM %I WHERE id = %s', rel, r.id + 5);
			EXECUTE format('INSERT INTO %I VALUES (%s, 0, ''new'')', rel, 100000 + r.id * 1000 + step);
		END IF;
		IF step % 17 = 0 THEN
			IF rel = 'ra_l' THEN PERFORM lsm_flush('ra_l'); END IF;
			MOVE BACKWARD 7 FROM c;
		END IF;
		IF step = 50 THEN
			BEGIN
				EXECUTE format('DELETE FROM %I WHERE id >= %s', rel, r.id);
				RAISE division_by_zero;
			EXCEPTION WHEN division_by_zero THEN NULL;
			END;
		END IF;
	END LOOP;
	CLOSE c;
	RETURN md5(out) || ' ' || length(out);
END $$;
SELECT ra_fetch('ra_l', 'id > 300 ORDER BY id') = ra_fetch('ra_h', 'id > 300 ORDER BY id') AS same;
SELECT ra_fetch('ra_l', 'g = 2 ORDER BY g, id') = ra_fetch('ra_h', 'g = 2 ORDER BY g, id') AS same;
SELECT ra_fetch('ra_l', 'g BETWEEN 1 AND 4 ORDER BY g, id') = ra_fetch('ra_h', 'g BETWEEN 1 AND 4 ORDER BY g, id') AS same;
SELECT ra_fetch('ra_l', 'g = ANY (''{0,3,5}'') AND id < 900 ORDER BY id') = ra_fetch('ra_h', 'g = ANY (''{0,3,5}'') AND id < 900 ORDER BY id') AS same;

-- = ANY, point after point: cursors, keys that are not there, many entries per key, two columns
SELECT ra_fetch('ra_l', format('id = ANY (%L) ORDER BY id', k)) = ra_fetch('ra_h', format('id = ANY (%L) ORDER BY id', k)) AS same
	FROM (SELECT array_agg(i * 3 % 4001) AS k FROM generate_series(1, 900) i) a;
CREATE INDEX ON ra_h (v, g);
CREATE INDEX ON ra_l USING lsm (v, g);
CREATE INDEX ON ra_h ((g % 5));
CREATE INDEX ON ra_l USING lsm ((g % 5));
SELECT count(*), sum(id), sum(length(v)) FROM ra_h WHERE g % 5 = ANY ('{4,1,9,0,-1,null}');
SELECT count(*), sum(id), sum(length(v)) FROM ra_l WHERE g % 5 = ANY ('{4,1,9,0,-1,null}');
SELECT v, g, id FROM ra_h WHERE v = ANY ('{b,cccc,new,nn}') AND g = ANY ('{0,1,2,3,4,5}') ORDER BY v DESC, g DESC, id LIMIT 5;
SELECT v, g, id FROM ra_l WHERE v = ANY ('{b,cccc,new,nn}') AND g = ANY ('{0,1,2,3,4,5}') ORDER BY v DESC, g DESC, id LIMIT 5;
SELECT v, g, count(*) FROM ra_h WHERE v = ANY ('{b,cccc,new,nn}') AND g = ANY ('{0,1,2,3,4,5}') GROUP BY v, g ORDER BY v, g;
SELECT v, g, count(*) FROM ra_l WHERE v = ANY ('{b,cccc,new,nn}') AND g = ANY ('{0,1,2,3,4,5}') GROUP BY v, g ORDER BY v, g;
SELECT count(*) FROM ra_l WHERE v = ANY (ARRAY['b', repeat('long', 2000)]) AND g = ANY ('{0,1,2,3,4,5}');
-- as the inner side of a merge join: marks; index-only
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT count(*), sum(x.id), sum(y.id) FROM ra_h x JOIN ra_h y ON x.g % 5 = y.g % 5 WHERE y.g % 5 = ANY ('{3,1,2}') AND x.id < 50;
SELECT count(*), sum(x.id), sum(y.id) FROM ra_l x JOIN ra_l y ON x.g % 5 = y.g % 5 WHERE y.g % 5 = ANY ('{3,1,2}') AND x.id < 50;
SELECT count(*), sum(x.id) FROM ra_h x JOIN ra_h y USING (id) WHERE y.id = ANY ('{3,1,2,77,78,79,80,81,82,83,84,999}');
SELECT count(*), sum(x.id) FROM ra_l x JOIN ra_l y USING (id) WHERE y.id = ANY ('{3,1,2,77,78,79,80,81,82,83,84,999}');
RESET enable_hashjoin;
RESET enable_nestloop;
SELECT count(*) FROM (TABLE ra_h EXCEPT TABLE ra_l) d;
SELECT count(*) FROM (TABLE ra_l EXCEPT TABLE ra_h) d;

-- an update that moves rows ahead of its own scan changes each once
UPDATE ra_h SET g = g + 100 WHERE g >= 2;
UPDATE ra_l SET g = g + 100 WHERE g >= 2;
SELECT (SELECT sum(g) FROM ra_h) = (SELECT sum(g) FROM ra_l) AS same, max(g) < 300 AS once FROM ra_l;

-- slots: rows of two scans of one table at a time, nulls, wide rows, merge join with marks
CREATE TABLE ra_n (id int PRIMARY KEY, a text, b int, c numeric) USING lsm;
INSERT INTO ra_n SELECT i, CASE WHEN i % 3 > 0 THEN repeat('w', i * 7 % 2500) END, nullif(i % 4, 0), i / 3.0 FROM generate_series(1, 500) i;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT count(*), count(x.a), sum(length(y.a)), sum(x.b + y.b), sum(x.c) FROM ra_n x JOIN ra_n y ON x.id = y.id + 1;
SELECT count(*), sum(length(x.v)) FROM ra_l x JOIN ra_l y USING (g) WHERE x.id < 200 AND y.id < 200;
SELECT count(*), sum(length(x.v)) FROM ra_h x JOIN ra_h y USING (g) WHERE x.id < 200 AND y.id < 200;
RESET enable_hashjoin;
RESET enable_nestloop;
SELECT sum(hashtext(t::text)) = (SELECT sum(hashtext(t::text)) FROM (SELECT * FROM ra_n OFFSET 0) t) AS same FROM ra_n t;
INSERT INTO ra_n SELECT id + 1000, a, b, c FROM ra_n WHERE id >= 1;
CREATE TABLE ra_c USING lsm AS SELECT * FROM ra_n;
SELECT count(*) FROM (TABLE ra_n EXCEPT TABLE ra_c) d;
SELECT count(*), min(id), max(id) FROM ra_c;
-- rows whose headers differ from their neighbours': transactions, nulls, numbers of columns
CREATE TABLE ra_m (id int, a int, b text, c int) USING lsm WITH (autovacuum_enabled = off);
DO $$
BEGIN
	FOR i IN 1..200 LOOP
		BEGIN
			INSERT INTO ra_m VALUES (i, nullif(i % 3, 0), CASE WHEN i % 5 > 0 THEN repeat('b', i) END, nullif(i % 2, 0));
			IF i % 7 = 0 THEN
				RAISE division_by_zero;
			END IF;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END LOOP;
END $$;
ALTER TABLE ra_m ADD COLUMN d int;
INSERT INTO ra_m SELECT i FROM generate_series(201, 220) i;
INSERT INTO ra_m SELECT i, 1, 'x', 1, 1 FROM generate_series(221, 400) i;
SELECT count(DISTINCT xmin::text) FROM ra_m;
SELECT count(*), sum(id), sum(a), sum(length(b)), sum(c), sum(d), count(DISTINCT ctid) FROM ra_m;
SELECT lsm_flush('ra_m');
SELECT count(*), sum(id), sum(a), sum(length(b)), sum(c), sum(d), count(DISTINCT ctid) FROM ra_m;
DELETE FROM ra_m WHERE id % 11 = 0;
SELECT lsm_flush('ra_m');
SELECT count(*), sum(id), sum(a), sum(length(b)), sum(c), sum(d), count(DISTINCT ctid) FROM ra_m;
SELECT count(*) FROM ra_m x JOIN ra_m y ON x.ctid = y.ctid AND x.id = y.id AND x.b IS NOT DISTINCT FROM y.b;
-- rows with versions in every state: each way of scanning says what heap says, and a TID is that of the version that was seen
CREATE TABLE ra_vh (id int PRIMARY KEY, n int, a int, b text) WITH (autovacuum_enabled = off);
CREATE TABLE ra_vl (id int PRIMARY KEY, n int, a int, b text) USING lsm WITH (autovacuum_enabled = off);
CREATE FUNCTION ra_both(command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(command, '@', 'ra_vh');
	EXECUTE replace(command, '@', 'ra_vl');
END $$;
CREATE FUNCTION ra_tidy() RETURNS void LANGUAGE sql AS $$ SELECT lsm_flush('ra_vl'); SELECT lsm_compact('ra_vl') $$;
CREATE FUNCTION ra_ways() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	way text;
	h text;
	l text;
	tids bigint;
	said text := '';
BEGIN
	FOREACH way IN ARRAY ARRAY['enable_seqscan', 'enable_indexscan', 'enable_bitmapscan'] LOOP
		PERFORM set_config(w, (w = way)::text, true) FROM unnest(ARRAY['enable_seqscan', 'enable_indexscan', 'enable_bitmapscan']) w;
		EXECUTE 'SELECT md5(string_agg(format(''%s %s %s %s %s'', id, n, a, b, xmin), '','' ORDER BY id)) FROM ra_vh WHERE id > 0' INTO h;
		EXECUTE 'SELECT md5(string_agg(format(''%s %s %s %s %s'', id, n, a, b, xmin), '','' ORDER BY id)) FROM ra_vl WHERE id > 0' INTO l;
		EXECUTE 'SELECT count(*) FROM ra_vl x, LATERAL (SELECT n FROM ra_vl WHERE ctid = x.ctid) y WHERE x.id > 0 AND x.n = y.n' INTO tids;
		said := said || CASE WHEN h = l THEN ' same' ELSE ' ' || way || ' differs' END ||
			CASE WHEN tids = (SELECT count(*) FROM ra_vh) THEN '' ELSE format(' TIDs of %s', tids) END;
	END LOOP;
	PERFORM set_config(w, 'on', true) FROM unnest(ARRAY['enable_seqscan', 'enable_indexscan', 'enable_bitmapscan']) w;
	RETURN said;
END $$;
-- what a cursor that was opened before sees, from its middle to the end and back
CREATE FUNCTION ra_rest(c refcursor) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	said text := '';
BEGIN
	FOR direction IN 1 .. 2 LOOP
		LOOP
			IF direction = 1 THEN FETCH NEXT FROM c INTO r; ELSE FETCH PRIOR FROM c INTO r; END IF;
			EXIT WHEN NOT FOUND;
			said := said || r::text;
		END LOOP;
	END LOOP;
	RETURN md5(said);
END $$;
SELECT ra_both('INSERT INTO @ SELECT i, 0, nullif(i % 4, 0), CASE WHEN i % 3 > 0 THEN repeat(chr(97 + i % 26), i % 300) END FROM generate_series(1, 500) i');
SELECT ra_ways() AS loaded, ra_tidy(), ra_ways() AS in_files;
SELECT ra_both('UPDATE @ SET n = n + 1');
SELECT ra_ways() AS in_memory, ra_tidy(), ra_ways() AS in_files;
-- numbers differ from row to row
SELECT ra_both('UPDATE @ SET n = n + 1, a = nullif(a, 1) WHERE hashint4(id) % 3 = 0');
SELECT ra_both('UPDATE @ SET n = n + 1, b = b || ''b'' WHERE hashint4(id) % 4 = 0');
SELECT ra_ways() AS in_memory, ra_tidy(), ra_ways() AS in_files;
-- each has its own transaction
DO $$
BEGIN
	FOR i IN 1 .. 500 LOOP
		BEGIN
			PERFORM ra_both(format('UPDATE @ SET n = n + 1 WHERE id = %s', i * 7 % 500 + 1));
			IF i % 5 = 0 THEN RAISE division_by_zero; END IF;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END LOOP;
END $$;
SELECT ra_ways() AS in_memory, ra_tidy(), ra_ways() AS in_files;
-- an old snapshot wants older versions: in memory, in files of their own, in one file
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
DECLARE hi SCROLL CURSOR FOR SELECT * FROM ra_vh WHERE id > 0 ORDER BY id;
DECLARE li SCROLL CURSOR FOR SELECT * FROM ra_vl WHERE id > 0 ORDER BY id;
DECLARE hs SCROLL CURSOR FOR SELECT * FROM ra_vh WHERE id > 0 ORDER BY id;
SET LOCAL enable_seqscan = on;
SET LOCAL enable_indexscan = off;
DECLARE ls SCROLL CURSOR FOR SELECT * FROM ra_vl;
SET LOCAL enable_indexscan = on;
SET LOCAL enable_bitmapscan = on;
MOVE 50 FROM hi; MOVE 50 FROM li; MOVE 50 FROM hs; MOVE 50 FROM ls;
SELECT ra_both('UPDATE @ SET n = n + 1 WHERE id % 2 = 0');
SELECT ra_ways() AS in_memory, lsm_flush('ra_vl'), ra_ways() AS two_files;
SELECT ra_rest('hi') = ra_rest('li') AS same, ra_rest('hs') = ra_rest('ls') AS same_in_order;
SELECT ra_both('UPDATE @ SET n = n + 1 WHERE id % 3 = 0');
SELECT ra_tidy(), ra_ways() AS chains;
SELECT ra_rest('hi') = ra_rest('li') AS same, ra_rest('hs') = ra_rest('ls') AS same_in_order;
SAVEPOINT s;
SELECT ra_both('UPDATE @ SET n = n + 1 WHERE id % 5 = 0');
SELECT ra_ways() AS in_memory, ra_tidy(), ra_ways() AS chains;
ROLLBACK TO s;
SELECT ra_ways() AS after_rollback, ra_rest('hi') = ra_rest('li') AS same, ra_rest('hs') = ra_rest('ls') AS same_in_order;
COMMIT;
SELECT ra_ways() AS committed, ra_tidy(), ra_ways() AS in_files;
BEGIN;
SELECT ra_both('UPDATE @ SET n = n + 1');
SELECT lsm_flush('ra_vl');
ROLLBACK;
SELECT ra_ways() AS rolled_back, ra_tidy(), ra_ways() AS in_files;
-- locked and deleted rows are among them
BEGIN;
SELECT count(*) FROM (SELECT FROM ra_vl WHERE id % 6 = 0 FOR SHARE) q;
SELECT ra_both('UPDATE @ SET n = n + 1 WHERE id % 4 = 0');
SELECT ra_both('DELETE FROM @ WHERE id % 7 = 0');
SELECT ra_ways() AS in_memory, ra_tidy(), ra_ways() AS in_files;
COMMIT;
SELECT ra_ways() AS committed, ra_tidy(), ra_ways() AS in_files;
VACUUM FREEZE ra_vl;
VACUUM FREEZE ra_vh;
SELECT ra_ways() AS frozen, ra_both('UPDATE @ SET n = n + 1 WHERE id % 2 = 0'), ra_ways() AS in_memory, ra_tidy(), ra_ways() AS in_files;
SELECT * FROM lsm_verify('ra_vl');
DROP FUNCTION ra_both, ra_tidy, ra_ways, ra_rest;
DROP TABLE ra_vh, ra_vl;
SELECT * FROM lsm_verify('ra_m');
SELECT * FROM lsm_verify('ra_l');
DROP TABLE ra_h, ra_l, ra_n, ra_c, ra_m;
DROP FUNCTION ra_fetch;
