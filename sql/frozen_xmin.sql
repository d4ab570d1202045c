-- A frozen row goes on showing who made it, as in heap tables: programs take xmin for the version of a row.
SET lsm.memtable_size = '64kB';
CREATE TABLE fx_h (id int PRIMARY KEY, v text, g int) USING heap;
CREATE TABLE fx_l (id int PRIMARY KEY, v text, g int) USING lsm;
CREATE INDEX fx_l_g ON fx_l USING lsm (g);
-- rows of several transactions, a subtransaction's among them, with and without null flags, one too wide for a model
DO $$
BEGIN
	FOR i IN 1..60 LOOP
		INSERT INTO fx_h VALUES (i, 'row ' || i, CASE WHEN i % 3 > 0 THEN i % 7 END);
		INSERT INTO fx_l VALUES (i, 'row ' || i, CASE WHEN i % 3 > 0 THEN i % 7 END);
		COMMIT;
	END LOOP;
END $$;
INSERT INTO fx_h SELECT i, repeat('r', 100), i % 7 FROM generate_series(61, 1500) i;
INSERT INTO fx_l SELECT i, repeat('r', 100), i % 7 FROM generate_series(61, 1500) i;
BEGIN;
UPDATE fx_h SET v = v || '+' WHERE id % 100 = 1;
UPDATE fx_l SET v = v || '+' WHERE id % 100 = 1;
SAVEPOINT s;
UPDATE fx_h SET v = v || '-', g = g + 1 WHERE id % 100 = 2;
UPDATE fx_l SET v = v || '-', g = g + 1 WHERE id % 100 = 2;
RELEASE s;
COMMIT;
-- locks and undone changes, whose headers are written anew
BEGIN; SELECT count(*) FROM (SELECT FROM fx_l WHERE id % 100 = 3 FOR SHARE) x; DELETE FROM fx_l WHERE id % 100 = 4; ROLLBACK;
CREATE TABLE fx_seen AS SELECT 'h' AS t, id, xmin::text AS x FROM fx_h UNION ALL SELECT 'l', id, xmin::text FROM fx_l;

-- rows whose xmin is another one now, by each plan; heap: none
CREATE FUNCTION fx_changed(OUT heap bigint, OUT seq bigint, OUT index bigint, OUT bitmap bigint, OUT tid bigint) LANGUAGE plpgsql AS $$
BEGIN
	SELECT count(*) INTO heap FROM fx_seen s LEFT JOIN fx_h h USING (id) WHERE t = 'h' AND x IS DISTINCT FROM h.xmin::text;
	SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off;
	SELECT count(*) INTO seq FROM fx_seen s LEFT JOIN (SELECT id, xmin FROM fx_l) l USING (id) WHERE t = 'l' AND x IS DISTINCT FROM l.xmin::text;
	SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = on;
	SELECT count(*) INTO index FROM fx_seen s WHERE t = 'l' AND x IS DISTINCT FROM (SELECT xmin::text FROM fx_l WHERE id = s.id);
	SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = on;
	SELECT count(*) INTO bitmap FROM fx_seen s WHERE t = 'l' AND x IS DISTINCT FROM (SELECT xmin::text FROM fx_l WHERE id = s.id);
	SET LOCAL enable_seqscan = on;
	SELECT count(*) INTO tid FROM fx_seen s WHERE t = 'l' AND x IS DISTINCT FROM
		(SELECT xmin::text FROM fx_l WHERE ctid = (SELECT ctid FROM fx_l WHERE id = s.id));
	RESET enable_seqscan; RESET enable_indexscan; RESET enable_bitmapscan;
END $$;
SELECT * FROM fx_changed();
VACUUM (FREEZE) fx_h, fx_l;
SELECT * FROM fx_changed();
SELECT count(*) > 0 AS files, count(min_xid) AS with_xids FROM lsm_files('fx_l');
-- a header written anew: locks, changes that come to nothing
BEGIN; SELECT count(*) FROM (SELECT FROM fx_l WHERE id % 10 = 3 FOR UPDATE) x; COMMIT;
BEGIN; UPDATE fx_l SET g = 0 WHERE id % 10 = 4; DELETE FROM fx_l WHERE id % 10 = 5; ROLLBACK;
SELECT * FROM fx_changed();
SELECT lsm_flush('fx_l');
SELECT lsm_compact('fx_l');
SELECT * FROM fx_changed();
VACUUM (FREEZE) fx_l;
SELECT * FROM fx_changed();
-- copies of the table
VACUUM FULL fx_h;
VACUUM FULL fx_l;
SELECT * FROM fx_changed();
CLUSTER fx_l USING fx_l_pkey;
SELECT * FROM fx_changed();
CLUSTER fx_l USING fx_l_g;
SELECT * FROM fx_changed();
VACUUM (FREEZE) fx_l;
SELECT * FROM fx_changed();

-- the version that a program has read, two freezes ago
CREATE FUNCTION fx_optimistic(t regclass, wanted int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	version text;
	now text;
	n int;
BEGIN
	EXECUTE format('SELECT x FROM fx_seen WHERE t = %L AND id = %s', right(t::text, 1), wanted) INTO version;
	EXECUTE format('UPDATE %s SET v = ''mine'' WHERE id = %s AND xmin = %L::xid', t, wanted, version);
	GET DIAGNOSTICS n = ROW_COUNT;
	EXECUTE format('SELECT xmin::text FROM %s WHERE id = %s', t, wanted) INTO now;
	RETURN n || CASE WHEN now = version THEN ' same' ELSE ' other' END;
END $$;
SELECT fx_optimistic('fx_h', 20), fx_optimistic('fx_l', 20);
-- somebody else was there meanwhile, and his version is frozen, too: a conflict
UPDATE fx_h SET v = 'theirs' WHERE id = 21;
UPDATE fx_l SET v = 'theirs' WHERE id = 21;
VACUUM (FREEZE) fx_h, fx_l;
SELECT fx_optimistic('fx_h', 21), fx_optimistic('fx_l', 21);
SELECT count(*) FROM fx_l WHERE xmin::text = '2';

-- what RETURNING, triggers and locks see
CREATE TABLE fx_log (t text, what text, x text);
CREATE FUNCTION fx_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO fx_log SELECT right(TG_RELNAME, 1), TG_WHEN || ' ' || TG_OP, (SELECT CASE WHEN x = OLD.xmin::text THEN 'same' ELSE 'other' END
		FROM fx_seen WHERE t = right(TG_RELNAME, 1) AND id = OLD.id);
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER b BEFORE UPDATE OR DELETE ON fx_h FOR EACH ROW EXECUTE FUNCTION fx_trigger();
CREATE TRIGGER b BEFORE UPDATE OR DELETE ON fx_l FOR EACH ROW EXECUTE FUNCTION fx_trigger();
CREATE TRIGGER a AFTER UPDATE OR DELETE ON fx_h FOR EACH ROW EXECUTE FUNCTION fx_trigger();
CREATE TRIGGER a AFTER UPDATE OR DELETE ON fx_l FOR EACH ROW EXECUTE FUNCTION fx_trigger();
UPDATE fx_h SET v = 'again' WHERE id = 30;
UPDATE fx_l SET v = 'again' WHERE id = 30;
WITH d AS (DELETE FROM fx_h WHERE id = 31 RETURNING id, xmin) SELECT x = d.xmin::text AS same FROM d JOIN fx_seen s USING (id) WHERE t = 'h';
WITH d AS (DELETE FROM fx_l WHERE id = 31 RETURNING id, xmin) SELECT x = d.xmin::text AS same FROM d JOIN fx_seen s USING (id) WHERE t = 'l';
SELECT what, string_agg(t || ': ' || x, ', ' ORDER BY t) FROM fx_log GROUP BY what ORDER BY what;
SELECT l.xmin::text = x AS same FROM fx_l l JOIN fx_seen s USING (id) WHERE t = 'l' AND id = 32 FOR UPDATE OF l;

-- a frozen row's maker is not asked for, though it is shown: serializable reads
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM fx_l WHERE id > 0;
UPDATE fx_l SET g = 1 WHERE id = 40;
COMMIT;

-- COPY FREEZE: the copying transaction, with and without triggers
CREATE TABLE fx_parent (id int PRIMARY KEY);
INSERT INTO fx_parent VALUES (1), (2);
BEGIN;
CREATE TABLE fx_c (id int, p int REFERENCES fx_parent DEFERRABLE INITIALLY DEFERRED) USING lsm;
COPY fx_c FROM stdin WITH (FREEZE);
1	1
2	2
\.
SELECT count(*) FROM fx_c WHERE xmin = pg_current_xact_id()::xid;
-- the check of the new row is due, though the transaction has inserted it
UPDATE fx_c SET p = 3 WHERE id = 2;
COMMIT;
BEGIN;
CREATE TABLE fx_c (id int, p int REFERENCES fx_parent DEFERRABLE INITIALLY DEFERRED) USING lsm;
COPY fx_c FROM stdin WITH (FREEZE);
1	1
2	3
\.
-- and that of the first one is not
UPDATE fx_c SET p = 2 WHERE id = 2;
COMMIT;
SELECT count(*), count(DISTINCT xmin::text) FROM fx_c;
SELECT lsm_flush('fx_c');
SELECT count(*) > 0 AS files, count(DISTINCT min_xid::text) AS xids FROM lsm_files('fx_c');
SELECT * FROM lsm_verify('fx_l');
-- parts, heap's and ours, through their parent
CREATE TABLE fx_p (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE fx_p_h PARTITION OF fx_p FOR VALUES FROM (1) TO (51) USING heap;
CREATE TABLE fx_p_l PARTITION OF fx_p FOR VALUES FROM (51) TO (101) USING lsm;
DO $$ BEGIN FOR i IN 1..50 LOOP INSERT INTO fx_p VALUES (i, 'row'), (i + 50, 'row'); COMMIT; END LOOP; END $$;
CREATE TABLE fx_p_seen AS SELECT id, xmin::text AS x FROM fx_p;
VACUUM (FREEZE) fx_p;
SELECT lsm_compact('fx_p_l');
VACUUM (FREEZE) fx_p;
SELECT p.tableoid::regclass AS part, count(*) FROM fx_p p JOIN fx_p_seen USING (id) WHERE p.xmin::text = x GROUP BY 1 ORDER BY 1;
UPDATE fx_p p SET v = 'mine' FROM fx_p_seen s WHERE p.id = s.id AND p.xmin = x::xid AND p.id % 50 = 2 RETURNING p.id;
VACUUM (FREEZE) fx_p;
UPDATE fx_p p SET v = 'mine' FROM fx_p_seen s WHERE p.id = s.id AND p.xmin = x::xid AND p.id % 50 = 2 RETURNING p.id;
DROP TABLE fx_p, fx_p_seen;

DROP TABLE fx_h, fx_l, fx_seen, fx_log, fx_c, fx_parent;
DROP FUNCTION fx_changed, fx_optimistic, fx_trigger;
