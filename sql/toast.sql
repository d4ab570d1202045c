-- Large values: inline, compressed, out of line
CREATE TABLE h (id int, v text, b bytea) USING heap;
CREATE TABLE l (id int, v text, b bytea) USING lsm;
ALTER TABLE h ALTER b SET STORAGE external;
ALTER TABLE l ALTER b SET STORAGE external;
SELECT reltoastrelid <> 0 AS has_toast,
	(SELECT amname FROM pg_am a JOIN pg_class t ON a.oid = t.relam WHERE t.oid = c.reltoastrelid) AS toast_am
FROM pg_class c WHERE oid = 'l'::regclass;
SELECT twin('INSERT INTO @ SELECT i, repeat(md5(i::text), i * 3), decode(repeat(md5(i::text), i), ''hex'') FROM generate_series(1, 300) i');
SELECT same();
SELECT max(length(v)), max(length(b)) FROM l;
SELECT twin('UPDATE @ SET id = id + 1000 WHERE id % 2 = 0');
SELECT same();
SELECT twin('UPDATE @ SET v = v || v WHERE id % 5 = 0');
SELECT twin('UPDATE @ SET b = NULL WHERE id % 7 = 0');
SELECT twin('DELETE FROM @ WHERE id % 11 = 0');
SELECT lsm_flush('l');
SELECT same();
BEGIN;
SELECT twin('UPDATE @ SET b = decode(repeat(''ab'', 20000), ''hex'')');
ROLLBACK;
SELECT same();
SELECT substr(v, 100, 10) = substr(repeat(md5('299'), 3000), 100, 10) FROM l WHERE id = 299;
SELECT twin('INSERT INTO @ VALUES (5000, repeat(''x'', 5000000), decode(repeat(''00ff'', 500000), ''hex''))');
SELECT length(v), length(b) FROM l WHERE id = 5000;
SELECT same();
VACUUM l;
SELECT same();
VACUUM FULL l;
SELECT same();
SELECT lsm_compact('l');
SELECT same();
-- rows near and above the size of a page, all inline
ALTER TABLE h ALTER v SET STORAGE plain;
ALTER TABLE l ALTER v SET STORAGE plain;
SELECT twin('INSERT INTO @ SELECT i, repeat(''y'', i * 500), NULL FROM generate_series(1, 16) i');
SELECT same();
DROP TABLE h, l;
-- a row that the transaction has locked, updated in a thousand subtransactions: one lock, not a thousand
CREATE TABLE l (id int PRIMARY KEY, n int, v text) USING lsm;
ALTER TABLE l ALTER v SET STORAGE external;
INSERT INTO l VALUES (1, 0, repeat('x', 10000));
BEGIN;
SELECT id FROM l WHERE id = 1 FOR UPDATE;
DO $$ BEGIN FOR i IN 1..1000 LOOP BEGIN UPDATE l SET n = n + 1 WHERE id = 1; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$;
COMMIT;
SELECT id, n, length(v) FROM l;
SELECT * FROM lsm_verify('l');
DROP TABLE l;
