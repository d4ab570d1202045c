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
DROP FUNCTION kr_keys(text);
