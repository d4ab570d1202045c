-- Insert, COPY, update, delete, select on a table USING lsm
CREATE TABLE h (id int, v text, n numeric) USING heap;
CREATE TABLE l (id int, v text, n numeric) USING lsm;
SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = 'l'::regclass;

-- an empty table
SELECT * FROM l;
SELECT count(*) FROM l;
DELETE FROM l;
UPDATE l SET id = 1;
SELECT same();

INSERT INTO l VALUES (1, 'one', 1.5), (2, 'two', NULL), (3, NULL, 3) RETURNING *;
INSERT INTO h VALUES (1, 'one', 1.5), (2, 'two', NULL), (3, NULL, 3);
SELECT * FROM l ORDER BY id;
UPDATE l SET v = 'zwei' WHERE id = 2 RETURNING *;
UPDATE h SET v = 'zwei' WHERE id = 2;
DELETE FROM l WHERE id = 3 RETURNING id;
DELETE FROM h WHERE id = 3;
SELECT * FROM l ORDER BY id;
SELECT same();

-- many rows, several memtables
SET lsm.memtable_size = '64kB';
SELECT twin('INSERT INTO @ SELECT i, ''value '' || i, i * 1.25 FROM generate_series(10, 20000) i');
SELECT same();
SELECT twin('UPDATE @ SET v = v || ''!'' WHERE id % 3 = 0');
SELECT same();
SELECT twin('UPDATE @ SET n = n + 1 WHERE id BETWEEN 100 AND 5000');
SELECT twin('DELETE FROM @ WHERE id % 7 = 0');
SELECT same();
SELECT lsm_flush('l');
SELECT same();
SELECT twin('UPDATE @ SET v = upper(v) WHERE id % 5 = 0');
SELECT twin('DELETE FROM @ WHERE id BETWEEN 3000 AND 3500');
SELECT twin('INSERT INTO @ SELECT i, ''again'', 0 FROM generate_series(3000, 3100) i');
SELECT same();
SELECT lsm_compact('l');
SELECT same();
SELECT count(*) > 0 AS has_levels FROM lsm_levels('l');
RESET lsm.memtable_size;

-- update the same rows over and over, before and after a flush
DO $$
BEGIN
	FOR i IN 1..50 LOOP
		UPDATE h SET n = coalesce(n, 0) + 1 WHERE id < 20;
		UPDATE l SET n = coalesce(n, 0) + 1 WHERE id < 20;
	END LOOP;
END $$;
SELECT same();
SELECT lsm_flush('l');
DO $$
BEGIN
	FOR i IN 1..50 LOOP
		UPDATE h SET n = n + 1 WHERE id < 20;
		UPDATE l SET n = n + 1 WHERE id < 20;
	END LOOP;
END $$;
SELECT same();

-- COPY in and out
COPY l FROM stdin;
100001	copied	1
100002	\N	\N
100003	tab\there	3.25
\.
COPY h FROM stdin;
100001	copied	1
100002	\N	\N
100003	tab\there	3.25
\.
COPY (SELECT * FROM l WHERE id > 100000 ORDER BY id) TO stdout;
SELECT same();

-- system columns
SELECT tableoid::regclass, ctid IS NOT NULL AS has_ctid, xmin::text::bigint > 0 AS has_xmin, cmin
FROM l WHERE id = 100001;
SELECT l.id FROM l WHERE ctid = (SELECT ctid FROM l WHERE id = 100002);
SELECT count(*) = count(DISTINCT ctid) AS ctids_are_unique FROM l;

-- joins, self-modification, INSERT ... SELECT of itself
SELECT twin('INSERT INTO @ SELECT id + 200000, v, n FROM @ WHERE id < 1000');
SELECT twin('UPDATE @ SET v = o.v FROM @ o WHERE o.id = @.id - 200000 AND @.id > 200500');
SELECT twin('DELETE FROM @ USING @ o WHERE o.id = @.id - 200000 AND o.id % 2 = 0');
SELECT twin('WITH d AS (DELETE FROM @ WHERE id BETWEEN 50 AND 99 RETURNING *) INSERT INTO @ SELECT id + 300000, v, n FROM d');
SELECT twin('UPDATE @ SET id = id + 1');
SELECT twin('MERGE INTO @ USING generate_series(1, 60) g ON g = @.id WHEN MATCHED AND g % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = ''merged'' WHEN NOT MATCHED THEN INSERT VALUES (g, ''new'', 0)');
SELECT same();

-- aggregates over everything
SELECT diff('SELECT count(*), sum(id), sum(n), min(v), max(v) FROM h',
			'SELECT count(*), sum(id), sum(n), min(v), max(v) FROM l');

-- no columns, dropped and added columns, wide rows
CREATE TABLE l0 () USING lsm;
INSERT INTO l0 DEFAULT VALUES;
INSERT INTO l0 DEFAULT VALUES;
SELECT count(*) FROM l0;
ALTER TABLE l0 ADD COLUMN a int DEFAULT 7;
SELECT * FROM l0;
ALTER TABLE l0 DROP COLUMN a, ADD COLUMN b text;
INSERT INTO l0 VALUES ('b');
SELECT * FROM l0 ORDER BY b;
DROP TABLE l0;

TRUNCATE l, h;
SELECT count(*) FROM l;
SELECT twin('INSERT INTO @ VALUES (1, ''after'', 0)');
SELECT same();
DROP TABLE l, h;
