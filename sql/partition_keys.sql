-- keys of partitioned tables and of their partitions: btree before PostgreSQL 18; since then lsm_index if all
-- partitions are lsm tables
CREATE FUNCTION pk_keys(tables text) RETURNS TABLE (key text, am name, parent text) LANGUAGE sql AS $$
	SELECT i.indexrelid::regclass::text, a.amname, h.inhparent::regclass::text
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
		LEFT JOIN pg_inherits h ON h.inhrelid = i.indexrelid
	WHERE i.indrelid::regclass::text ~ tables ORDER BY i.indexrelid::regclass::text COLLATE "C" $$;
SET default_table_access_method = lsm;

-- declared with the table, and partitions that come later
CREATE TABLE pk_a (id int, t text, v int, PRIMARY KEY (id, t), UNIQUE (v, id, t)) PARTITION BY RANGE (id);
CREATE TABLE pk_a1 PARTITION OF pk_a FOR VALUES FROM (0) TO (100);
CREATE TABLE pk_a2 PARTITION OF pk_a FOR VALUES FROM (100) TO (200) PARTITION BY LIST (t);
CREATE TABLE pk_a2x PARTITION OF pk_a2 FOR VALUES IN ('x', 'y');
SELECT * FROM pk_keys('^pk_a');
INSERT INTO pk_a SELECT g, 'x', -g FROM generate_series(1, 199) g;
SELECT lsm_flush('pk_a1'), lsm_flush('pk_a2x');
INSERT INTO pk_a VALUES (5, 'x', 7);
INSERT INTO pk_a VALUES (150, 'x', 7);
INSERT INTO pk_a VALUES (5, 'y', -5);
INSERT INTO pk_a VALUES (5, 'x', 50), (150, 'x', 50) ON CONFLICT (id, t) DO UPDATE SET v = excluded.v;
INSERT INTO pk_a VALUES (5, 'y', 50), (150, 'y', 51) ON CONFLICT DO NOTHING;
UPDATE pk_a SET id = 150 WHERE id = 5;
UPDATE pk_a SET id = id + 95, t = 'y' WHERE id = 5;
SELECT * FROM pk_a WHERE v > 0 ORDER BY id, t;
EXPLAIN (COSTS OFF) SELECT * FROM pk_a WHERE id = 42 AND t = 'x';
SELECT * FROM pk_a WHERE id = 42 AND t = 'x';

-- partitions that bring keys of their own
CREATE TABLE pk_h (id int, t text, v int, PRIMARY KEY (id, t), UNIQUE (v, id, t)) USING heap;
INSERT INTO pk_h VALUES (201, 'h', 1);
ALTER TABLE pk_a ATTACH PARTITION pk_h FOR VALUES FROM (200) TO (300);
CREATE TABLE pk_l (id int, t text, v int, PRIMARY KEY (id, t), UNIQUE (v, id, t));
INSERT INTO pk_l VALUES (301, 'l', 1);
ALTER TABLE pk_a ATTACH PARTITION pk_l FOR VALUES FROM (300) TO (400);
SELECT * FROM pk_keys('^pk_[hl]');
INSERT INTO pk_a VALUES (201, 'h', 2);
INSERT INTO pk_a VALUES (301, 'l', 2);
SELECT tableoid::regclass, * FROM pk_a WHERE id > 200;
ALTER TABLE pk_a DETACH PARTITION pk_l;
SELECT * FROM pk_keys('^pk_l');

-- keys that come later, where the partitions have some; a heap partition among them
CREATE TABLE pk_b (id int, t text) PARTITION BY LIST (id);
CREATE TABLE pk_b1 (id int PRIMARY KEY, t text UNIQUE);
CREATE TABLE pk_b2 (id int, t text);
ALTER TABLE pk_b ATTACH PARTITION pk_b1 FOR VALUES IN (1);
ALTER TABLE pk_b ATTACH PARTITION pk_b2 FOR VALUES IN (2);
INSERT INTO pk_b VALUES (1, 'a'), (2, 'b');
ALTER TABLE pk_b ADD PRIMARY KEY (id);
ALTER TABLE pk_b ADD UNIQUE (id, t) WITH (filter_columns = 1);
SELECT * FROM pk_keys('^pk_b');
CREATE TABLE pk_b3 PARTITION OF pk_b FOR VALUES IN (3) USING heap;
ALTER TABLE pk_b ADD CONSTRAINT pk_b_again UNIQUE (id);
SELECT * FROM pk_keys('^pk_b') WHERE key ~ 'again|b3';
DROP TABLE pk_b;

-- unique indexes, and keys attached one by one, as a dump does
CREATE TABLE pk_c (id int, t text) PARTITION BY RANGE (id);
CREATE TABLE pk_c1 PARTITION OF pk_c FOR VALUES FROM (0) TO (10);
CREATE UNIQUE INDEX pk_c_u ON pk_c USING lsm (id, t);
INSERT INTO pk_c VALUES (1, 'a'), (1, 'b');
INSERT INTO pk_c VALUES (1, 'a');
ALTER TABLE ONLY pk_c ADD CONSTRAINT pk_c_key UNIQUE (id, t);
ALTER TABLE ONLY pk_c1 ADD CONSTRAINT pk_c1_key UNIQUE (id, t);
ALTER INDEX pk_c_key ATTACH PARTITION pk_c1_key;
SET lsm.constraint_index = btree;
ALTER TABLE ONLY pk_c1 ADD CONSTRAINT pk_c1_pkey PRIMARY KEY (id, t);
RESET lsm.constraint_index;
ALTER TABLE ONLY pk_c ADD CONSTRAINT pk_c_pkey PRIMARY KEY (id, t);
ALTER INDEX pk_c_pkey ATTACH PARTITION pk_c1_pkey;
SELECT * FROM pk_keys('^pk_c');
SELECT indexrelid::regclass, indisvalid FROM pg_index WHERE indrelid IN ('pk_c'::regclass, 'pk_c1'::regclass) ORDER BY indexrelid::regclass::text COLLATE "C";

-- referenced by a foreign key, and by itself
CREATE TABLE pk_d (id int PRIMARY KEY, above int REFERENCES pk_d) PARTITION BY HASH (id);
CREATE TABLE pk_d0 PARTITION OF pk_d FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE pk_d1 PARTITION OF pk_d FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE pk_f (r int REFERENCES pk_d ON DELETE CASCADE);
SELECT * FROM pk_keys('^pk_d');
INSERT INTO pk_d VALUES (1, NULL), (2, 1), (3, 2);
INSERT INTO pk_f VALUES (1), (3);
INSERT INTO pk_f VALUES (4);
DELETE FROM pk_d WHERE id = 2;
DELETE FROM pk_d WHERE id = 3;
SELECT * FROM pk_f;

-- a column that changes its type
CREATE TABLE pk_e (id int, v int, UNIQUE (id, v)) PARTITION BY LIST (id);
CREATE TABLE pk_e1 PARTITION OF pk_e FOR VALUES IN (1);
INSERT INTO pk_e VALUES (1, 1), (1, 2);
ALTER TABLE pk_e ALTER v TYPE bigint;
SELECT * FROM pk_keys('^pk_e');
INSERT INTO pk_e VALUES (1, 2);

-- no partitions yet
CREATE TABLE pk_i (id int PRIMARY KEY) PARTITION BY LIST (id);
SET default_table_access_method = heap;
CREATE TABLE pk_j (id int PRIMARY KEY) PARTITION BY LIST (id);
CREATE TABLE pk_j1 PARTITION OF pk_j FOR VALUES IN (1) USING lsm;
SELECT * FROM pk_keys('^pk_[ij]');

SELECT relid::regclass, v.* FROM (SELECT c.oid AS relid FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE relname ~ '^pk_' AND amname = 'lsm' AND relkind = 'r') t, lsm_verify(relid::regclass) v;
DROP TABLE pk_a, pk_c, pk_d, pk_e, pk_f, pk_i, pk_j, pk_l CASCADE;
DROP FUNCTION pk_keys;

-- a partition that is partitioned itself brings no key of the other kind: only 18 makes one
SET default_table_access_method = heap;
CREATE TABLE ap_top (id int PRIMARY KEY) PARTITION BY RANGE (id);
SET default_table_access_method = lsm;
CREATE TABLE ap_sub (id int PRIMARY KEY) PARTITION BY RANGE (id);
RESET default_table_access_method;
DO $$
DECLARE
	is_18 bool := current_setting('server_version_num')::int >= 180000;
BEGIN
	ALTER TABLE ap_top ATTACH PARTITION ap_sub FOR VALUES FROM (0) TO (10);
	IF is_18 THEN RAISE 'attached'; END IF;
EXCEPTION WHEN feature_not_supported THEN
	IF NOT is_18 OR sqlerrm !~ '^cannot attach table "ap_sub" as a partition of table "ap_top" with a primary key of another access method$' THEN RAISE; END IF;
	ALTER TABLE ap_sub DROP CONSTRAINT ap_sub_pkey;
	ALTER TABLE ap_top ATTACH PARTITION ap_sub FOR VALUES FROM (0) TO (10);
END $$;
SELECT c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.relname ~ '^ap_' ORDER BY 1;
DROP TABLE ap_top;

-- which keys of a partition serve those of the partitioned table, and how many it has in the end: as with heap tables and
-- btree.  Which are rebuilt: those alone.  (On 18 constraints of the partition are btree here, and lsm_index afterwards.)
CREATE FUNCTION mk_try(am text, attach_last bool, of_partition text, of_parent text,
					   OUT keys text, OUT rebuilt text) LANGUAGE plpgsql AS $$
DECLARE
	attach text;
	oids oid[];
	names text[];
BEGIN
	PERFORM set_config('default_table_access_method', am, true);
	PERFORM set_config('lsm.constraint_index', CASE WHEN current_setting('server_version_num')::int < 180000 THEN 'auto' ELSE 'btree' END, true);
	CREATE TABLE mk_p (id int NOT NULL, t text, v int) PARTITION BY RANGE (id);
	CREATE TABLE mk_c (v int, id int NOT NULL, t text);
	CREATE TABLE mk_m (t text, id int NOT NULL, v int) PARTITION BY RANGE (id);
	EXECUTE CASE am WHEN 'heap' THEN replace(of_partition, 'USING lsm', 'USING btree') ELSE of_partition END;
	PERFORM set_config('lsm.constraint_index', 'auto', true);
	SELECT format('ALTER TABLE mk_p ATTACH PARTITION %I DEFAULT', CASE WHEN relispartition THEN 'mk_m' ELSE 'mk_c' END)
	INTO attach FROM pg_class WHERE oid = 'mk_c'::regclass;
	SELECT array_agg(indexrelid), array_agg(indexrelid::regclass::text) INTO oids, names
	FROM pg_index WHERE indrelid = 'mk_c'::regclass;
	EXECUTE CASE WHEN attach_last THEN of_parent || '; ' || attach ELSE attach || '; ' || of_parent END;
	SELECT string_agg(concat_ws(' < ', index, inhparent::regclass), ', ' ORDER BY index COLLATE "C"),
		string_agg(index, ', ' ORDER BY index COLLATE "C") FILTER (WHERE index = ANY (names) AND NOT i.oid = ANY (oids))
	INTO keys, rebuilt
	FROM (SELECT indexrelid AS oid, indexrelid::regclass::text AS index FROM pg_index WHERE indrelid = 'mk_c'::regclass) i
		LEFT JOIN pg_inherits ON inhrelid = i.oid;
	DROP TABLE mk_p;
	DROP TABLE IF EXISTS mk_m;
EXCEPTION WHEN invalid_table_definition OR datatype_mismatch THEN
	keys := sqlerrm;
END $$;
CREATE TABLE mk_cases (id serial, of_partition text, of_parent text) USING heap;
INSERT INTO mk_cases (of_partition, of_parent) VALUES
	('ALTER TABLE mk_c ADD UNIQUE (id)', 'ALTER TABLE mk_p ADD UNIQUE (id)'),
	('ALTER TABLE mk_c ADD UNIQUE (id)', 'ALTER TABLE mk_p ADD PRIMARY KEY (id)'),
	('ALTER TABLE mk_c ADD PRIMARY KEY (id)', 'ALTER TABLE mk_p ADD UNIQUE (id)'),
	('ALTER TABLE mk_c ADD UNIQUE (id) INCLUDE (v)', 'ALTER TABLE mk_p ADD UNIQUE (id)'),
	('ALTER TABLE mk_c ADD UNIQUE (id)', 'ALTER TABLE mk_p ADD UNIQUE (id) INCLUDE (v)'),
	('ALTER TABLE mk_c ADD UNIQUE (id) INCLUDE (v)', 'ALTER TABLE mk_p ADD UNIQUE (id) INCLUDE (v)'),
	('ALTER TABLE mk_c ADD UNIQUE (id) INCLUDE (v, t)', 'ALTER TABLE mk_p ADD UNIQUE (id) INCLUDE (t, v)'),
	('ALTER TABLE mk_c ADD UNIQUE (id) INCLUDE (v)', 'ALTER TABLE mk_p ADD UNIQUE (id, v)'),
	('ALTER TABLE mk_c ADD UNIQUE (id) INCLUDE (v), ADD UNIQUE (id)', 'ALTER TABLE mk_p ADD UNIQUE (id)'),
	('ALTER TABLE mk_c ADD PRIMARY KEY (id) INCLUDE (v)', 'ALTER TABLE mk_p ADD UNIQUE (id)'),
	('ALTER TABLE mk_c ADD PRIMARY KEY (id) INCLUDE (v)', 'ALTER TABLE mk_p ADD PRIMARY KEY (id)'),
	('ALTER TABLE mk_c ADD PRIMARY KEY (id) INCLUDE (v)', 'ALTER TABLE mk_p ADD PRIMARY KEY (id) INCLUDE (v)'),
	('ALTER TABLE mk_c ADD UNIQUE NULLS NOT DISTINCT (id, v)', 'ALTER TABLE mk_p ADD UNIQUE (id, v), ADD UNIQUE NULLS NOT DISTINCT (id, v)'),
	-- one of two equal ones, that which is btree before others
	('ALTER TABLE mk_c ADD UNIQUE (id); ALTER TABLE mk_c ADD UNIQUE (id)', 'ALTER TABLE mk_p ADD UNIQUE (id)'),
	('ALTER TABLE mk_c ADD UNIQUE (id)', 'ALTER TABLE mk_p ADD UNIQUE (id); ALTER TABLE mk_p ADD PRIMARY KEY (id)'),
	('CREATE UNIQUE INDEX mk_1 ON mk_c USING lsm (id); CREATE UNIQUE INDEX mk_2 ON mk_c USING btree (id)', 'CREATE UNIQUE INDEX ON mk_p USING btree (id)'),
	-- a column that changes its type in the same statement (which cannot be attached afterwards)
	('SET LOCAL lsm.constraint_index = auto; ALTER TABLE mk_c ADD UNIQUE (id, v), ADD UNIQUE (id) INCLUDE (v)', 'ALTER TABLE mk_p ALTER v TYPE bigint, ADD UNIQUE (id, v), ADD UNIQUE (id) INCLUDE (v)'),
	-- indexes that serve no constraint: collations, operator classes
	('CREATE UNIQUE INDEX ON mk_c USING lsm (id) INCLUDE (v)', 'CREATE UNIQUE INDEX ON mk_p USING btree (id)'),
	('CREATE UNIQUE INDEX ON mk_c USING lsm (id) INCLUDE (v)', 'CREATE UNIQUE INDEX ON mk_p USING btree (id) INCLUDE (v)'),
	('CREATE UNIQUE INDEX ON mk_c USING lsm (id)', 'ALTER TABLE mk_p ADD UNIQUE (id)'),
	('CREATE UNIQUE INDEX ON mk_c USING lsm (id, t COLLATE "C")', 'CREATE UNIQUE INDEX ON mk_p USING btree (id, t COLLATE "POSIX")'),
	('CREATE UNIQUE INDEX ON mk_c USING lsm (id, t COLLATE "C")', 'CREATE UNIQUE INDEX ON mk_p USING btree (id, t COLLATE "C")'),
	('CREATE UNIQUE INDEX ON mk_c USING lsm (id, t text_pattern_ops)', 'CREATE UNIQUE INDEX ON mk_p USING btree (id, t)'),
	('CREATE UNIQUE INDEX ON mk_c USING lsm (id, t)', 'CREATE UNIQUE INDEX ON mk_p USING btree (id, t text_pattern_ops)'),
	('CREATE UNIQUE INDEX ON mk_c USING lsm (id, t text_pattern_ops)', 'CREATE UNIQUE INDEX ON mk_p USING btree (id, t text_pattern_ops)'),
	-- a partitioned table in between
	('ALTER TABLE mk_c ADD UNIQUE (id); ALTER TABLE mk_m ATTACH PARTITION mk_c DEFAULT', 'ALTER TABLE mk_p ADD UNIQUE (id)'),
	('ALTER TABLE mk_c ADD UNIQUE (id); ALTER TABLE mk_m ATTACH PARTITION mk_c DEFAULT; SET LOCAL lsm.constraint_index = auto; ALTER TABLE mk_m ADD UNIQUE (id) INCLUDE (v)', 'ALTER TABLE mk_p ADD UNIQUE (id)'),
	('ALTER TABLE mk_c ADD UNIQUE (id); ALTER TABLE mk_m ATTACH PARTITION mk_c DEFAULT; SET LOCAL lsm.constraint_index = auto; ALTER TABLE mk_m ADD UNIQUE (id)', 'ALTER TABLE mk_p ADD UNIQUE (id); ALTER TABLE mk_p ADD UNIQUE (id)'),
	('ALTER TABLE mk_c ADD UNIQUE (id); ALTER TABLE mk_c ADD UNIQUE (id); ALTER TABLE mk_m ATTACH PARTITION mk_c DEFAULT; SET LOCAL lsm.constraint_index = auto; ALTER TABLE mk_m ADD UNIQUE (id)', 'ALTER TABLE mk_p ADD UNIQUE (id), ADD UNIQUE (id)');
SET client_min_messages = warning;
SELECT id, last, h.keys, CASE WHEN l.keys IS DISTINCT FROM h.keys THEN l.keys END AS other, l.rebuilt
FROM mk_cases, (VALUES (false), (true)) a(last), mk_try('heap', last, of_partition, of_parent) h,
	mk_try('lsm', last, of_partition, of_parent) l ORDER BY id, last;
RESET client_min_messages;
DROP TABLE mk_cases;
DROP FUNCTION mk_try;

-- an index whose concurrent build has failed serves no key of the parent
CREATE TABLE inv (id int NOT NULL, v int) PARTITION BY RANGE (id);
CREATE UNIQUE INDEX inv_i ON inv USING btree (id);
CREATE TABLE inv_heap (id int NOT NULL, v int) USING heap;
CREATE TABLE inv_lsm (id int NOT NULL, v int) USING lsm;
INSERT INTO inv_heap VALUES (1, 1), (1, 2);
INSERT INTO inv_lsm VALUES (11, 1), (11, 2);
\set VERBOSITY terse
CREATE UNIQUE INDEX CONCURRENTLY inv_heap_i ON inv_heap (id);
CREATE UNIQUE INDEX CONCURRENTLY inv_lsm_i ON inv_lsm USING lsm (id);
\set VERBOSITY default
DELETE FROM inv_heap WHERE v = 2;
DELETE FROM inv_lsm WHERE v = 2;
ALTER TABLE inv ATTACH PARTITION inv_heap FOR VALUES FROM (0) TO (10);
ALTER TABLE inv ATTACH PARTITION inv_lsm FOR VALUES FROM (10) TO (20);
SELECT indrelid::regclass, indexrelid::regclass, amname, indisvalid, relispartition
FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
WHERE indrelid IN ('inv_heap'::regclass, 'inv_lsm'::regclass) ORDER BY 1, 2;
DROP TABLE inv;
