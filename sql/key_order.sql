-- Which index serves a key whose order lsm_index cannot keep, and what CREATE INDEX ... USING lsm says of one.
-- The database's collation is not "C", but compares bytes, too.
SHOW lsm.constraint_index;
CREATE VIEW key_order AS
SELECT t.relname AS "table", c.relname AS index, a.amname, c.reloptions
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
	JOIN pg_am a ON a.oid = c.relam
WHERE t.relname LIKE 'ko%' AND i.indisunique ORDER BY t.relname COLLATE "C", c.relname COLLATE "C";

-- a text key is read in order, by range and by prefix of its columns, as on heap
CREATE TABLE ko (k text PRIMARY KEY, a int, b text, v int, UNIQUE (a, b)) USING lsm;
CREATE TABLE ko_h (k text PRIMARY KEY, a int, b text, v int, UNIQUE (a, b)) USING heap;
INSERT INTO ko_h SELECT md5(i::text), i % 100, 'b' || i, i FROM generate_series(1, 5000) i;
INSERT INTO ko SELECT * FROM ko_h;
VACUUM ANALYZE ko, ko_h;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT k FROM ko WHERE k >= 'user5' ORDER BY k LIMIT 100;
EXPLAIN (COSTS OFF) SELECT k FROM ko WHERE k > '77' AND k < '78';
EXPLAIN (COSTS OFF) SELECT * FROM ko WHERE a = 5 ORDER BY b LIMIT 3;
EXPLAIN (COSTS OFF) SELECT max(k) FROM ko;
(SELECT * FROM ko WHERE k >= 'c' ORDER BY k LIMIT 100) EXCEPT ALL (SELECT * FROM ko_h WHERE k >= 'c' ORDER BY k LIMIT 100);
RESET enable_bitmapscan;
DROP TABLE ko, ko_h;

-- column types, domains, collations
CREATE TYPE ko_mood AS ENUM ('sad', 'ok');
CREATE DOMAIN ko_text AS text;
CREATE DOMAIN ko_c AS text COLLATE "C";
CREATE DOMAIN ko_enum AS ko_mood;
CREATE DOMAIN ko_int AS int;
CREATE TABLE ko_order (i int UNIQUE, u uuid UNIQUE, n name UNIQUE, c text COLLATE "C" UNIQUE, p varchar(9) COLLATE "POSIX" UNIQUE,
	b bytea UNIQUE, bp char(3) COLLATE "C" UNIQUE, dc ko_c UNIQUE, di ko_int UNIQUE, s serial UNIQUE, num numeric UNIQUE,
	UNIQUE (c, i), PRIMARY KEY (n, u)) USING lsm;
CREATE TABLE ko_none (t text UNIQUE, v varchar(9) UNIQUE, bp char(3) UNIQUE, m ko_mood UNIQUE, dt ko_text UNIQUE, dm ko_enum UNIQUE,
	icu text COLLATE "en-x-icu" UNIQUE, nm name COLLATE "en-x-icu" UNIQUE, a tsquery UNIQUE, i int, UNIQUE (i, t), PRIMARY KEY (i, m)) USING lsm;
SELECT * FROM key_order;

-- LIKE: heap's keys as for new columns, lsm's as they were
CREATE TABLE ko_heap (i int PRIMARY KEY, t text UNIQUE, c text COLLATE "C" UNIQUE) USING heap;
CREATE TABLE ko_like (LIKE ko_heap INCLUDING ALL) USING lsm;
SET lsm.constraint_index = lsm;
CREATE TABLE ko_asked (t text PRIMARY KEY WITH (bits_per_key = 14), m ko_mood UNIQUE) USING lsm;
RESET lsm.constraint_index;
CREATE TABLE ko_like_asked (LIKE ko_asked INCLUDING ALL) USING lsm;
SELECT * FROM key_order WHERE "table" IN ('ko_heap', 'ko_like', 'ko_asked', 'ko_like_asked');

-- ALTER TABLE: columns as they will be
CREATE TABLE ko_alter (i int PRIMARY KEY WITH (bits_per_key = 14), j int UNIQUE, t text) USING lsm;
ALTER INDEX ko_alter_pkey SET (fillfactor = 80);
INSERT INTO ko_alter SELECT i, i, 't' || i FROM generate_series(1, 100) i;
ALTER TABLE ko_alter ADD UNIQUE (t);
ALTER TABLE ko_alter ALTER t TYPE text COLLATE "C", ADD CONSTRAINT ko_alter_c UNIQUE (t);
ALTER TABLE ko_alter ADD x text UNIQUE, ADD y text COLLATE "C" UNIQUE;
-- order is not lost by a new type
ALTER TABLE ko_alter ALTER i TYPE text, ALTER j TYPE text COLLATE "C";
SELECT * FROM key_order WHERE "table" = 'ko_alter';
SELECT i FROM ko_alter WHERE i < '11' ORDER BY i;
-- what had none was asked for
ALTER TABLE ko_asked ALTER t TYPE varchar(20);
-- and under "lsm" everything is lsm_index
SET lsm.constraint_index = lsm;
ALTER TABLE ko_alter ALTER j TYPE text COLLATE "default";
RESET lsm.constraint_index;
SELECT * FROM key_order WHERE "table" IN ('ko_asked', 'ko_alter') AND (index LIKE '%pkey' OR index LIKE '%j_key');

-- ON CONFLICT finds either
INSERT INTO ko_heap VALUES (1, 'a', 'a');
INSERT INTO ko_like VALUES (1, 'a', 'a') ON CONFLICT (t) DO NOTHING;
INSERT INTO ko_like VALUES (2, 'a', 'b') ON CONFLICT (t text_ops) DO UPDATE SET c = excluded.c RETURNING *;
INSERT INTO ko_like VALUES (3, 'b', 'b') ON CONFLICT (c COLLATE "C" text_ops) DO UPDATE SET t = excluded.t RETURNING *;
INSERT INTO ko_like VALUES (1, 'c', 'c') ON CONFLICT DO NOTHING RETURNING *;

-- CREATE INDEX says what it cannot do, once
CREATE INDEX ON ko_like USING lsm (t);
CREATE INDEX ON ko_like USING lsm_index (t, c, lower(t), i DESC) INCLUDE (t);
CREATE UNIQUE INDEX CONCURRENTLY ko_conc ON ko_heap USING lsm (t);
CREATE INDEX IF NOT EXISTS ko_like_t_idx ON ko_like USING lsm (t);
CREATE INDEX "ko ""m""" ON ko_asked USING lsm (m, (t || '')) WHERE t <> '';
CREATE TABLE ko_part (i int, t text, m ko_mood) PARTITION BY RANGE (i);
CREATE TABLE ko_part_1 PARTITION OF ko_part FOR VALUES FROM (0) TO (10) USING lsm;
CREATE TABLE ko_part_2 PARTITION OF ko_part FOR VALUES FROM (10) TO (20) USING heap;
CREATE INDEX ON ko_part USING lsm (t);
DO $$ BEGIN CREATE INDEX ko_do ON ko_part_1 USING lsm (t, m); END $$;
CREATE TEMP TABLE ko_temp (t text) USING lsm;
CREATE INDEX CONCURRENTLY ON ko_temp USING lsm (t);
-- nothing to say: order is kept, or nobody asked
CREATE INDEX ON ko_like USING lsm (i, c) INCLUDE (t);
CREATE INDEX ON ko_like USING lsm (t COLLATE "C");
CREATE INDEX ON ko_like USING lsm (t text_pattern_ops);
CREATE INDEX ON ko_like USING lsm ((lower(t) COLLATE "POSIX"));
CREATE INDEX ON ko_like (t);
REINDEX TABLE ko_like;
REINDEX INDEX CONCURRENTLY ko_conc;
ALTER TABLE ko_like ALTER t TYPE varchar;
CREATE TABLE ko_part_3 PARTITION OF ko_part FOR VALUES FROM (20) TO (30) USING lsm;
CREATE TABLE ko_copy (LIKE ko_like INCLUDING ALL) USING lsm;
CLUSTER ko_part_1 USING ko_do;
VACUUM FULL ko_like;
ALTER TABLE ko_heap ADD CONSTRAINT ko_ex EXCLUDE USING lsm_index (t WITH =);
-- an index that fails says nothing
INSERT INTO ko_like VALUES (10, 'x', 'x'), (11, 'y', 'y');
CREATE UNIQUE INDEX ON ko_like USING lsm (left(t, 0));
-- an event trigger's own indexes are its own
CREATE FUNCTION ko_trigger() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	IF to_regclass('ko_event') IS NULL THEN
		CREATE TABLE ko_event (t text PRIMARY KEY) USING lsm;
		CREATE INDEX ko_event_c ON ko_event USING lsm (t COLLATE "C");
		CREATE INDEX ko_event_t ON ko_event USING lsm (t);
	END IF;
END $$;
CREATE EVENT TRIGGER ko_trigger ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION ko_trigger();
CREATE INDEX ko_event_i ON ko_like USING lsm (t);
DROP EVENT TRIGGER ko_trigger;
-- a key from an index that was asked for stays what it is
CREATE TABLE ko_using (t text NOT NULL) USING lsm;
CREATE UNIQUE INDEX ko_using_t ON ko_using USING lsm (t);
ALTER TABLE ko_using ADD PRIMARY KEY USING INDEX ko_using_t;
SELECT * FROM key_order WHERE "table" = 'ko_using';

SET client_min_messages = warning;
DROP TABLE ko_order, ko_none, ko_heap, ko_like, ko_asked, ko_like_asked, ko_alter, ko_part, ko_copy, ko_event, ko_using, ko_temp;
DROP FUNCTION ko_trigger;
DROP VIEW key_order;
DROP DOMAIN ko_text, ko_c, ko_enum, ko_int;
DROP TYPE ko_mood;
