-- Statements that make keys and unique indexes anew, as btree or for core's sake, and what they must not trip over
SET client_min_messages = warning;
CREATE FUNCTION kr_keys(tables text) RETURNS TABLE (key text, am name, options text[]) LANGUAGE sql AS $$
	SELECT c.relname::text, a.amname, c.reloptions
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
	WHERE i.indrelid::regclass::text ~ tables ORDER BY c.relname COLLATE "C" $$;

-- a table becomes a partitioned one
CREATE TABLE kr_like (id int, ts date, v text, PRIMARY KEY (id, ts) WITH (bits_per_key = 12), UNIQUE (ts, id, v)) USING lsm;
CREATE TABLE kr_part (LIKE kr_like INCLUDING ALL) PARTITION BY RANGE (ts);
CREATE TABLE kr_part1 PARTITION OF kr_part FOR VALUES FROM ('2026-01-01') TO ('2027-01-01') USING lsm;
INSERT INTO kr_part VALUES (1, '2026-02-03', 'x'), (2, '2026-02-03', 'x');
INSERT INTO kr_part VALUES (1, '2026-02-03', 'y');
SELECT * FROM kr_part ORDER BY id;
DROP TABLE kr_part, kr_like;

CREATE TABLE kr_like (ts date, c text) USING lsm;
CREATE UNIQUE INDEX ON kr_like USING lsm (ts, c text_pattern_ops);
CREATE TABLE kr_part (LIKE kr_like INCLUDING INDEXES) PARTITION BY RANGE (ts);
CREATE TABLE kr_part1 PARTITION OF kr_part FOR VALUES FROM ('2026-01-01') TO ('2027-01-01') USING lsm;
INSERT INTO kr_part VALUES ('2026-02-03', 'x'), ('2026-02-03', 'x');
DROP TABLE kr_part, kr_like;

-- the type of an INCLUDE column
CREATE TABLE kr_include (id int, v int, w int, PRIMARY KEY (id) INCLUDE (v) WITH (bits_per_key = 12),
	UNIQUE (w) INCLUDE (v), CONSTRAINT kr_other UNIQUE (id, w)) USING lsm;
INSERT INTO kr_include VALUES (1, 2, 3);
ALTER TABLE kr_include ALTER v TYPE bigint;
SELECT * FROM kr_keys('^kr_include');
INSERT INTO kr_include VALUES (1, 20000000000, 4);
INSERT INTO kr_include VALUES (2, 20000000000, 3);
INSERT INTO kr_include VALUES (2, 20000000000, 4);
SELECT * FROM kr_include ORDER BY id;
SELECT * FROM lsm_verify('kr_include');
DROP TABLE kr_include;

-- the expression of a generated column, which PostgreSQL 17 can change
CREATE TABLE kr_generated (id int, g int GENERATED ALWAYS AS (id * 2) STORED, PRIMARY KEY (id) INCLUDE (g) WITH (bits_per_key = 12),
	UNIQUE (g)) USING lsm;
INSERT INTO kr_generated SELECT generate_series(1, 1000);
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 170000 THEN
		EXECUTE 'ALTER TABLE kr_generated ALTER g SET EXPRESSION AS (id * 3)';
		ASSERT (SELECT count(*) FROM kr_generated WHERE g = 300 AND id = 100) = 1;
	END IF;
END $$;
SELECT * FROM kr_keys('^kr_generated');
DROP TABLE kr_generated;

-- operator classes that are not the type's own
CREATE MATERIALIZED VIEW kr_mv USING lsm AS SELECT i::text AS c FROM generate_series(1, 9) i;
CREATE UNIQUE INDEX ON kr_mv USING lsm (c text_pattern_ops);
REFRESH MATERIALIZED VIEW CONCURRENTLY kr_mv;
SELECT count(*) FROM kr_mv;
DROP MATERIALIZED VIEW kr_mv;
CREATE TABLE kr_classes (c text) PARTITION BY LIST (c);
CREATE TABLE kr_classes1 (c text) USING lsm;
CREATE UNIQUE INDEX ON kr_classes1 USING lsm (c text_pattern_ops);
ALTER TABLE kr_classes ATTACH PARTITION kr_classes1 FOR VALUES IN ('a');
ALTER TABLE kr_classes ADD PRIMARY KEY (c);
INSERT INTO kr_classes VALUES ('a');
INSERT INTO kr_classes VALUES ('a');
DROP TABLE kr_classes;

-- a dump's storage parameters, where the key will be btree
RESET client_min_messages;
CREATE TABLE kr_options (id int NOT NULL, u int) USING heap;
ALTER TABLE kr_options ADD CONSTRAINT kr_options_pkey PRIMARY KEY (id) WITH (bits_per_key = '12', fillfactor = '80');
ALTER TABLE kr_options ADD UNIQUE (u) WITH (nonsense = 1);
SELECT * FROM kr_keys('^kr_options');
DROP TABLE kr_options;
SET lsm.constraint_index = btree;
CREATE TABLE kr_options (id int NOT NULL, u int) USING lsm;
ALTER TABLE kr_options ADD CONSTRAINT kr_options_pkey PRIMARY KEY (id) WITH (filter_scheme = 'elastic');
SELECT * FROM kr_keys('^kr_options');
DROP TABLE kr_options;
RESET lsm.constraint_index;

-- a column that is there already
CREATE TABLE kr_there (id int PRIMARY KEY, c circle) USING lsm;
ALTER TABLE kr_there ADD COLUMN IF NOT EXISTS id text UNIQUE, ADD COLUMN IF NOT EXISTS c text, ADD COLUMN d text UNIQUE;
SELECT * FROM kr_keys('^kr_there');
ALTER TABLE kr_there ADD COLUMN IF NOT EXISTS c text, ADD COLUMN e int, ADD UNIQUE (d, c);
ALTER TABLE kr_there DROP COLUMN d, ADD COLUMN IF NOT EXISTS d int UNIQUE;
SELECT * FROM kr_keys('^kr_there');
CREATE TABLE kr_child (r int) USING lsm;
ALTER TABLE kr_child ADD COLUMN IF NOT EXISTS r int REFERENCES kr_there;
SELECT * FROM kr_keys('^kr_there');
DROP TABLE kr_child, kr_there;
-- a typed table and the children of a foreign table, whose keys are made anew by a statement about something else
CREATE TYPE kr_type AS (a int, b text COLLATE "C");
CREATE TABLE kr_typed OF kr_type (PRIMARY KEY (a) WITH (bits_per_key = 12), UNIQUE (b, a)) USING lsm;
INSERT INTO kr_typed VALUES (1, 'x');
ALTER TYPE kr_type ALTER ATTRIBUTE a TYPE bigint;
ALTER TYPE kr_type ALTER ATTRIBUTE a TYPE bigint CASCADE;
INSERT INTO kr_typed VALUES (20000000000, 'x');
INSERT INTO kr_typed VALUES (1, 'y');
SELECT * FROM kr_keys('^kr_typed');
SELECT * FROM lsm_verify('kr_typed');
CREATE ROLE kr_stranger;
CREATE TYPE kr_type2 AS (a int);
ALTER TYPE kr_type2 OWNER TO kr_stranger;
CREATE TABLE kr_typed2 OF kr_type2 (PRIMARY KEY (a) WITH (bits_per_key = 12)) USING lsm;
SET ROLE kr_stranger;
ALTER TYPE kr_type2 ALTER ATTRIBUTE a TYPE bigint CASCADE;
RESET ROLE;
DROP TABLE kr_typed, kr_typed2;
DROP TYPE kr_type, kr_type2;
DROP ROLE kr_stranger;
CREATE FOREIGN DATA WRAPPER kr_fdw;
CREATE SERVER kr_server FOREIGN DATA WRAPPER kr_fdw;
CREATE FOREIGN TABLE kr_foreign (a int, b int) SERVER kr_server;
CREATE TABLE kr_local (PRIMARY KEY (a) WITH (bits_per_key = 12)) INHERITS (kr_foreign) USING lsm;
INSERT INTO kr_local VALUES (1, 1);
ALTER FOREIGN TABLE kr_foreign ALTER a TYPE bigint;
ALTER TABLE kr_foreign ALTER a TYPE numeric;
SELECT * FROM kr_keys('^kr_local');
INSERT INTO kr_local VALUES (1.0, 1);
DROP FOREIGN TABLE kr_foreign CASCADE;
DROP FOREIGN DATA WRAPPER kr_fdw CASCADE;

-- a key that the statement drops has nothing to do with one of its name that the statement adds
CREATE TABLE kr_named (a int, b int, c int, CONSTRAINT kr_key UNIQUE (a) WITH (bits_per_key = 12), CONSTRAINT kr_key2 UNIQUE (c, a)) USING lsm;
ALTER TABLE kr_named SET ACCESS METHOD heap;
ALTER TABLE kr_named DROP CONSTRAINT kr_key, ADD CONSTRAINT kr_key UNIQUE (b), ALTER a TYPE bigint;
SELECT * FROM kr_keys('^kr_named');
ALTER TABLE kr_named DROP COLUMN c, ADD CONSTRAINT kr_key2 UNIQUE (a, b), ALTER a TYPE int;
SELECT * FROM kr_keys('^kr_named');
DROP TABLE kr_named;

-- the access method that the table gets in the same statement
CREATE TABLE kr_moves (a int, b int) USING heap;
INSERT INTO kr_moves SELECT g, g FROM generate_series(1, 100) g;
ALTER TABLE kr_moves SET ACCESS METHOD lsm, ADD PRIMARY KEY (a);
SELECT * FROM kr_keys('^kr_moves');
SELECT * FROM lsm_verify('kr_moves');
SELECT * FROM kr_moves WHERE a = 42;
ALTER TABLE kr_moves SET ACCESS METHOD heap, ADD UNIQUE (b);
SELECT * FROM kr_keys('^kr_moves');
DROP TABLE kr_moves;

-- ADD UNIQUE of a partitioned table alone leaves its partitions in peace, and their keys; so does one whose keys are gist
CREATE TABLE kr_only (a int NOT NULL, b int) PARTITION BY LIST (a);
CREATE TABLE kr_only1 (a int PRIMARY KEY, b int, UNIQUE (a, b)) USING lsm;
ALTER TABLE kr_only ATTACH PARTITION kr_only1 FOR VALUES IN (1);
BEGIN;
ALTER TABLE ONLY kr_only ADD UNIQUE (a, b);
SELECT mode FROM pg_locks WHERE relation = 'kr_only1'::regclass AND mode = 'AccessExclusiveLock';
COMMIT;
SELECT * FROM kr_keys('^kr_only1');
-- nor does a constraint take an index that is none
DROP TABLE kr_only;
CREATE TABLE kr_plain (a int, b int, PRIMARY KEY (a), UNIQUE (a, b)) PARTITION BY LIST (a);
CREATE TABLE kr_plain1 (a int NOT NULL, b int) USING lsm;
CREATE UNIQUE INDEX kr_plain_u ON kr_plain1 USING lsm (a);
CREATE UNIQUE INDEX kr_plain_v ON kr_plain1 USING lsm (a, b);
ALTER TABLE kr_plain ATTACH PARTITION kr_plain1 FOR VALUES IN (1);
SELECT key, am FROM kr_keys('^kr_plain1') WHERE key ~ '_[uv]$';
CREATE TABLE kr_plain2 (a int NOT NULL, b int, c int) USING lsm;
CREATE UNIQUE INDEX kr_plain2_u ON kr_plain2 USING lsm (a, c);
CREATE TABLE kr_later (a int NOT NULL, b int, c int) PARTITION BY LIST (a);
ALTER TABLE kr_later ATTACH PARTITION kr_plain2 FOR VALUES IN (2);
ALTER TABLE kr_later ADD UNIQUE (a, c);
SELECT key, am FROM kr_keys('^kr_plain2') WHERE key ~ '_u$';
DROP TABLE kr_plain, kr_later;
-- WITHOUT OVERLAPS, since PostgreSQL 18
CREATE EXTENSION btree_gist;
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 180000 THEN
		CREATE TABLE kr_period (a int, p daterange, UNIQUE (a, p)) USING lsm;
		CREATE TABLE kr_periods (a int, p daterange) PARTITION BY LIST (a);
		ALTER TABLE kr_periods ATTACH PARTITION kr_period FOR VALUES IN (1);
		PERFORM set_config('lsm.constraint_index', 'btree', true);
		EXECUTE 'ALTER TABLE kr_periods ADD PRIMARY KEY (a, p WITHOUT OVERLAPS)';
		EXECUTE 'ALTER TABLE kr_period ADD CONSTRAINT kr_period_second UNIQUE (a, p WITHOUT OVERLAPS)';
		ASSERT (SELECT am FROM kr_keys('^kr_period$') WHERE key = 'kr_period_a_p_key') = 'lsm_index';
		ASSERT (SELECT array_agg(am ORDER BY key) FROM kr_keys('^kr_period$') WHERE key IN ('kr_period_pkey', 'kr_period_second')) = '{gist,gist}';
		DROP TABLE kr_periods;
	END IF;
END $$;
DROP EXTENSION btree_gist;
DROP FUNCTION kr_keys(text);
