-- Foreign keys, and other uses of a key that PostgreSQL 15 supports with btree only
SET lsm.constraint_index = lsm;
CREATE VIEW key_indexes AS
SELECT t.relname AS "table", c.relname AS index, a.amname, i.indisprimary AS pk, c.reloptions,
	k.conname AS constraint, i.indisreplident AS ri, i.indisclustered AS cl
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
	JOIN pg_am a ON a.oid = c.relam LEFT JOIN pg_constraint k ON k.conindid = c.oid AND k.contype IN ('p', 'u')
WHERE t.relnamespace = 'public'::regnamespace AND i.indisunique ORDER BY 1, 2;
SET default_table_access_method = lsm;

-- the key becomes btree when the foreign key comes, and what depends on the key stays
CREATE TABLE pk (id int PRIMARY KEY WITH (bits_per_key = 12), a int, b text, UNIQUE (a, b));
INSERT INTO pk SELECT i, i % 10, 'b' || i FROM generate_series(1, 100) i;
ALTER TABLE pk REPLICA IDENTITY USING INDEX pk_pkey;
ALTER TABLE pk CLUSTER ON pk_pkey;
COMMENT ON INDEX pk_pkey IS 'the key';
COMMENT ON CONSTRAINT pk_pkey ON pk IS 'the constraint';
CREATE VIEW pk_view AS SELECT id, a FROM pk GROUP BY id;
SELECT * FROM key_indexes;
CREATE TABLE fk (id int PRIMARY KEY, r int REFERENCES pk ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE fk2 (a int, b text, FOREIGN KEY (b, a) REFERENCES pk (b, a) MATCH FULL ON DELETE SET NULL ON UPDATE RESTRICT);
SELECT * FROM key_indexes;
SELECT obj_description('pk_pkey'::regclass, 'pg_class') AS index,
	obj_description((SELECT oid FROM pg_constraint WHERE conname = 'pk_pkey'), 'pg_constraint') AS constraint;
INSERT INTO fk SELECT i, i FROM generate_series(1, 50) i;
INSERT INTO fk VALUES (1000, 1000);
INSERT INTO fk2 VALUES (1, 'b1'), (2, 'b2'), (NULL, NULL);
INSERT INTO fk2 VALUES (1, 'b2');
INSERT INTO fk2 VALUES (1, NULL);
DELETE FROM pk WHERE id = 1;
UPDATE pk SET id = 200 WHERE id = 2;
UPDATE pk SET b = 'x' WHERE id = 200;
SELECT * FROM fk WHERE id < 4 ORDER BY id;
SELECT * FROM fk2 ORDER BY a;
INSERT INTO pk VALUES (200, 1, 'dup');
INSERT INTO pk VALUES (200, 1, 'dup') ON CONFLICT (id) DO UPDATE SET a = -1 RETURNING *;
SELECT * FROM pk_view WHERE id = 200;
SELECT * FROM lsm_verify('pk');
-- rolled back: nothing has happened
CREATE TABLE pk2 (id int PRIMARY KEY, u int UNIQUE, n int);
INSERT INTO pk2 SELECT i, i, i FROM generate_series(1, 10) i;
BEGIN;
ALTER TABLE fk ADD FOREIGN KEY (r) REFERENCES pk2 (u);
ROLLBACK;
BEGIN;
SAVEPOINT s;
ALTER TABLE fk2 ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES pk2;
ROLLBACK TO s;
INSERT INTO pk2 VALUES (11, 11, 11);
COMMIT;
INSERT INTO pk2 VALUES (11, 12, 12);
SELECT * FROM key_indexes WHERE "table" = 'pk2';
-- two indexes serve the same columns; a unique index without a constraint
CREATE UNIQUE INDEX pk2_u2 ON pk2 USING lsm (u);
CREATE UNIQUE INDEX pk2_n ON pk2 USING lsm (n);
CREATE TABLE fk3 (x int REFERENCES pk2 (u), y int REFERENCES pk2 (n) DEFERRABLE INITIALLY DEFERRED, z int DEFAULT 1);
ALTER TABLE fk3 ADD COLUMN w int REFERENCES pk2 ON DELETE SET DEFAULT, ADD FOREIGN KEY (z) REFERENCES pk2 ON DELETE SET DEFAULT;
SELECT * FROM key_indexes WHERE "table" = 'pk2';
BEGIN;
INSERT INTO fk3 VALUES (1, 77, 5, 6);
INSERT INTO pk2 VALUES (77, 77, 77);
COMMIT;
BEGIN;
INSERT INTO fk3 VALUES (1, 78, 5, 6);
COMMIT;
DELETE FROM pk2 WHERE id IN (5, 6);
SELECT * FROM fk3;
-- deferred checks of the referenced table are pending, a cursor reads it
CREATE TABLE pend (id int PRIMARY KEY, r int REFERENCES pk2 DEFERRABLE INITIALLY DEFERRED, d int UNIQUE DEFERRABLE INITIALLY DEFERRED);
INSERT INTO pend VALUES (8, 8, 1);
BEGIN;
INSERT INTO pend VALUES (1, 999, 1);
CREATE TABLE pend_fk (r int REFERENCES pend);
INSERT INTO pend_fk VALUES (1);
UPDATE pend SET r = 1, d = 2 WHERE id = 1;
COMMIT;
SELECT * FROM pend ORDER BY id;
CREATE TABLE pend2 (id int PRIMARY KEY, v int);
INSERT INTO pend2 VALUES (1, 1), (2, 2);
BEGIN;
DECLARE c CURSOR FOR SELECT v FROM pend2;
FETCH c;
ALTER TABLE pend_fk ADD FOREIGN KEY (r) REFERENCES pend2;
FETCH c;
COMMIT;
BEGIN;
SET LOCAL enable_seqscan = off;
CREATE TABLE pend3 (id int PRIMARY KEY);
INSERT INTO pend3 VALUES (1), (2);
DECLARE c CURSOR FOR SELECT id FROM pend3 WHERE id > 0;
FETCH c;
SAVEPOINT s;
ALTER TABLE pend_fk ADD FOREIGN KEY (r) REFERENCES pend3;
ROLLBACK TO s;
ALTER TABLE pend_fk ADD FOREIGN KEY (r) REFERENCES pend3;
INSERT INTO pend3 VALUES (3);
FETCH ALL c;
CLOSE c;
ALTER TABLE pend3 ALTER COLUMN id TYPE bigint;
COMMIT;
INSERT INTO pend3 VALUES (3);
SELECT relname FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'pend3'::regclass;
-- a loop over rows makes for each a table that references them
CREATE TABLE tenants (id int PRIMARY KEY);
INSERT INTO tenants VALUES (1), (2), (3);
DO $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT id FROM tenants ORDER BY id LOOP
		EXECUTE format('CREATE TABLE orders_%s (id int PRIMARY KEY, tenant int REFERENCES tenants)', r.id);
	END LOOP;
END $$;
SELECT count(*) FROM pg_constraint WHERE confrelid = 'tenants'::regclass;
-- but who writes has opened the indexes, and would not write to the new one
CREATE TABLE written (id int PRIMARY KEY);
CREATE FUNCTION make_reference() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE written_%s (id int REFERENCES written)', NEW.id);
	RETURN NEW;
END $$;
CREATE TRIGGER make_reference BEFORE INSERT ON written FOR EACH ROW EXECUTE FUNCTION make_reference();
BEGIN;
INSERT INTO written VALUES (1), (2);
ROLLBACK;
CREATE TABLE written_0 (id int REFERENCES written);
INSERT INTO written VALUES (1), (2);
DROP TABLE written_0, written_1, written_2, written, orders_1, orders_2, orders_3, tenants;
DROP FUNCTION make_reference;
DROP TABLE pend_fk, pend, pend2, pend3;
-- not for those who may not reference, not for what fails anyway
CREATE TABLE pk3 (id int PRIMARY KEY, d int UNIQUE DEFERRABLE);
CREATE ROLE lsm_fk_user;
GRANT CREATE ON SCHEMA public TO lsm_fk_user;
SET ROLE lsm_fk_user;
CREATE TABLE fk4 (r int REFERENCES pk3);
RESET ROLE;
GRANT REFERENCES (id) ON pk3 TO lsm_fk_user;
SET ROLE lsm_fk_user;
CREATE TABLE fk4 (r int REFERENCES pk3);
RESET ROLE;
CREATE TABLE fk4 (r int REFERENCES pk3);
CREATE TABLE fk5 (r int REFERENCES pk3 (d));
CREATE TABLE fk5 (r int REFERENCES pk3 (nosuch));
CREATE TABLE fk5 (r point REFERENCES pk3 (id));
SELECT * FROM key_indexes WHERE "table" = 'pk3';
DROP TABLE fk4, pk3;
REVOKE CREATE ON SCHEMA public FROM lsm_fk_user;
DROP ROLE lsm_fk_user;
-- a table that references itself
CREATE TABLE self (id int PRIMARY KEY, p int REFERENCES self ON DELETE CASCADE, u int UNIQUE);
INSERT INTO self VALUES (1, NULL, 1), (2, 1, 2), (3, 2, 3);
INSERT INTO self VALUES (4, 5, 4);
DELETE FROM self WHERE id = 1;
SELECT * FROM self;
CREATE TABLE self2 (id int, p int);
ALTER TABLE self2 ADD PRIMARY KEY (id), ADD FOREIGN KEY (p) REFERENCES self2;
CREATE TABLE self3 (id int PRIMARY KEY, p int);
ALTER TABLE self3 ADD FOREIGN KEY (p) REFERENCES self3;
CREATE SCHEMA sch CREATE TABLE b (id int PRIMARY KEY, r int REFERENCES sch.a) CREATE TABLE a (id int PRIMARY KEY);
CREATE SCHEMA sch CREATE TABLE a (id int PRIMARY KEY) CREATE TABLE b (id int PRIMARY KEY, r int REFERENCES a);
CREATE TEMP TABLE tmp (id int PRIMARY KEY, p int REFERENCES tmp);
SELECT * FROM key_indexes WHERE "table" LIKE 'self%';
-- partitioned on both sides
CREATE TABLE part (id int PRIMARY KEY, r int REFERENCES pk2) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE TABLE part2 (id int PRIMARY KEY, r int, UNIQUE (r));
INSERT INTO part2 VALUES (11, 1);
ALTER TABLE part ATTACH PARTITION part2 FOR VALUES FROM (10) TO (20);
CREATE TABLE fpart (r int REFERENCES part, id int) PARTITION BY LIST (r);
CREATE TABLE fpart1 PARTITION OF fpart FOR VALUES IN (1, 2);
CREATE TABLE fpart11 (r int, id int PRIMARY KEY);
ALTER TABLE fpart ATTACH PARTITION fpart11 FOR VALUES IN (11);
INSERT INTO part VALUES (1, 1), (12, 2);
INSERT INTO fpart VALUES (1, 1), (11, 1);
INSERT INTO fpart VALUES (2, 1);
DELETE FROM part WHERE id = 11;
CREATE TABLE fp2 (r int REFERENCES part2 (r), s int REFERENCES fpart11);
SELECT * FROM key_indexes WHERE "table" ~ 'part';
ALTER TABLE part ADD CONSTRAINT part_ur UNIQUE (r, id);
CREATE TABLE part3 (r int, id int PRIMARY KEY, UNIQUE (r, id), UNIQUE (id, r));
ALTER TABLE part ATTACH PARTITION part3 FOR VALUES FROM (20) TO (30);
SELECT * FROM key_indexes WHERE "table" ~ 'part3';
DROP TABLE part, fpart, fp2;
-- the key of the partitioned table comes after the partitions'
CREATE TABLE part (a int, b int) PARTITION BY LIST (a);
CREATE TABLE part1 (a int PRIMARY KEY, b int, UNIQUE (a, b), UNIQUE (b));
CREATE TABLE part2 (b int, a int PRIMARY KEY);
INSERT INTO part2 SELECT i, 2 FROM generate_series(1, 1) i;
ALTER TABLE part ATTACH PARTITION part1 FOR VALUES IN (1);
ALTER TABLE part ATTACH PARTITION part2 FOR VALUES IN (2);
CREATE UNIQUE INDEX part_ab ON part (a, b);
SELECT * FROM key_indexes WHERE "table" ~ 'part';
ALTER TABLE part ADD PRIMARY KEY (a);
SELECT * FROM key_indexes WHERE "table" ~ 'part';
INSERT INTO part VALUES (2, 2);
DROP TABLE part;
CREATE TABLE part (a int) PARTITION BY LIST (a);
CREATE TABLE part1 (a int PRIMARY KEY);
ALTER TABLE part ATTACH PARTITION part1 FOR VALUES IN (1);
ALTER TABLE ONLY part ADD PRIMARY KEY (a);
ALTER INDEX part_pkey ATTACH PARTITION part1_pkey;
SELECT indexrelid::regclass, indisvalid FROM pg_index WHERE indrelid = 'part'::regclass;
DROP TABLE part;

-- a constraint from an index
CREATE TABLE ui (id int NOT NULL, u int);
CREATE UNIQUE INDEX ui_id ON ui USING lsm (id);
CREATE UNIQUE INDEX ui_u ON ui USING lsm (u) WITH (bits_per_key = 12);
CREATE UNIQUE INDEX ui_e ON ui USING lsm ((u + 1));
INSERT INTO ui VALUES (1, 1);
ALTER TABLE ui ADD CONSTRAINT ui_key PRIMARY KEY USING INDEX ui_id;
ALTER TABLE ui ADD CONSTRAINT ui_u UNIQUE USING INDEX ui_u DEFERRABLE;
ALTER TABLE ui ADD CONSTRAINT ui_e UNIQUE USING INDEX ui_e;
INSERT INTO ui VALUES (1, 2);
CREATE TABLE ui2 (id int, p int);
CREATE UNIQUE INDEX ui2_id ON ui2 USING lsm (id);
CREATE UNIQUE INDEX ui2_p ON ui2 USING lsm (p);
ALTER TABLE ui2 ADD PRIMARY KEY USING INDEX ui2_id, ADD FOREIGN KEY (p) REFERENCES ui2 (id);
SET lsm.constraint_index = btree;
ALTER TABLE ui2 ADD UNIQUE USING INDEX ui2_p;
SET lsm.constraint_index = lsm;
SELECT * FROM key_indexes WHERE "table" ~ '^ui';
DROP TABLE ui, ui2;
-- statements prepared before
CREATE TABLE pp (id int PRIMARY KEY, v text, w int, UNIQUE (v) INCLUDE (w));
CREATE RULE pp_rule AS ON INSERT TO pk_view DO INSTEAD
	INSERT INTO pp VALUES (new.id, new.a) ON CONFLICT ON CONSTRAINT pp_pkey DO UPDATE SET v = excluded.v || '!';
PREPARE p AS INSERT INTO pp VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET v = excluded.v || '?' RETURNING *;
EXECUTE p (1, 'a');
EXECUTE p (1, 'b');
INSERT INTO pk_view VALUES (1, 2);
CREATE TABLE fpp (r int REFERENCES pp, s text REFERENCES pp (v));
EXECUTE p (1, 'c');
INSERT INTO pk_view VALUES (1, 3);
SELECT * FROM pp;
SELECT pg_get_indexdef('pp_v_w_key'::regclass);
DROP TABLE fpp, pp CASCADE;

-- ALTER COLUMN ... TYPE keeps the access method
CREATE TABLE at (id int PRIMARY KEY WITH (bits_per_key = 14, filter_scheme = bloom), u int, v text, CONSTRAINT at_u UNIQUE (u) DEFERRABLE, UNIQUE (v, u));
INSERT INTO at SELECT i, i, i FROM generate_series(1, 100) i;
CREATE TABLE at_child (PRIMARY KEY (id), UNIQUE (u)) INHERITS (at);
INSERT INTO at_child VALUES (1, 1, 1);
ALTER TABLE at ALTER id TYPE bigint;
ALTER TABLE at ALTER u TYPE numeric, ADD COLUMN w int UNIQUE;
SELECT * FROM key_indexes WHERE "table" ~ '^at';
INSERT INTO at VALUES (100);
UPDATE at SET u = u + 1 WHERE u < 50;
ALTER TABLE at ALTER v TYPE varchar(20), DROP CONSTRAINT at_u;
ALTER TABLE at ALTER v TYPE point USING NULL;
ALTER TABLE at DROP COLUMN v, ALTER id TYPE text;
SELECT * FROM key_indexes WHERE "table" ~ '^at';
SELECT * FROM lsm_verify('at');
CREATE TABLE at_fk (r text REFERENCES at);
ALTER TABLE at_fk ALTER r TYPE varchar;
ALTER TABLE at ALTER id TYPE varchar;
SELECT * FROM key_indexes WHERE "table" ~ '^at';
INSERT INTO at_fk VALUES ('1'), ('nosuch');
DROP TABLE IF EXISTS at_fk;
DROP TABLE at_child, at;

-- LIKE, inheritance, collations without an order of ours
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE li (id int PRIMARY KEY, c text COLLATE ci UNIQUE, p point, x int UNIQUE NULLS NOT DISTINCT, EXCLUDE USING gist (p WITH ~=));
CREATE TABLE li2 (LIKE li INCLUDING ALL);
CREATE TABLE li3 (LIKE li INCLUDING INDEXES, UNIQUE (x, id)) USING heap;
SELECT * FROM key_indexes WHERE "table" LIKE 'li%';
INSERT INTO li VALUES (1, 'a'), (2, 'A');
INSERT INTO li VALUES (1, 'a', NULL, NULL);
INSERT INTO li VALUES (2, 'b', NULL, NULL);
MERGE INTO li USING (VALUES (1, 'm'), (3, 'n')) s (id, c) ON li.id = s.id
	WHEN MATCHED THEN UPDATE SET c = s.c WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.c, NULL, 3);
SELECT * FROM li ORDER BY id;
DROP TABLE li, li2, li3;
DROP COLLATION ci;

-- rows that are frozen at once, and updated in the same transaction: the check waits for COMMIT
BEGIN;
CREATE TABLE fz (id int, pid int REFERENCES pk DEFERRABLE INITIALLY DEFERRED);
COPY fz FROM stdin WITH (FREEZE);
1	-999
\.
UPDATE fz SET id = 2;
COMMIT;
SELECT count(*) FROM pg_class WHERE relname = 'fz';
RESET default_table_access_method;
DROP TABLE fk, fk2, fk3, self, self2, self3;
DROP VIEW pk_view;
DROP TABLE pk, pk2;
DROP SCHEMA sch CASCADE;
DROP VIEW key_indexes;
