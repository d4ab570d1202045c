-- lsm.default_index: CREATE INDEX without USING on lsm tables
CREATE TABLE di (a int, b text, c text COLLATE "C", d jsonb, e tsquery) USING lsm;
CREATE TABLE di_heap (a int) USING heap;
INSERT INTO di SELECT g, 'b' || g, 'c' || g, '{}', 'a' FROM generate_series(1, 100) g;

-- by default a btree
CREATE INDEX di_btree ON di (a);
SET lsm.default_index = lsm;
CREATE INDEX di_plain ON di (a);
CREATE UNIQUE INDEX di_unique ON di (a DESC NULLS LAST) INCLUDE (b) WHERE a > 0;
CREATE INDEX di_expression ON di ((a % 10), c);
CREATE INDEX CONCURRENTLY di_concurrent ON di (c);
CREATE INDEX IF NOT EXISTS di_plain ON di (a);
-- what the user asked for, however it is written
CREATE INDEX di_using ON di USING btree (a);
CREATE INDEX di_comment ON di /* USING ( */ uSiNg -- (
	hash (a);
CREATE INDEX "di using (" ON di (a);
PREPARE gone AS SELECT 1; CREATE INDEX di_second ON di (a); CREATE INDEX di_third ON di USING btree (a);
DO $$ BEGIN CREATE INDEX di_do ON di (a); EXECUTE 'CREATE INDEX di_execute ON di (a)'; END $$;
CREATE FUNCTION di_function() RETURNS void LANGUAGE sql AS
	'CREATE INDEX di_sql1 ON di USING btree (a); CREATE INDEX di_sql2 ON di (a)';
SELECT di_function();
-- btree's storage parameters, which lsm_index takes, too
CREATE INDEX di_fastupdate ON di (a) WITH (deduplicate_items = off);
-- what lsm_index could not serve in order stays btree
CREATE INDEX di_tsquery ON di (e);
CREATE INDEX di_opclass ON di (b text_pattern_ops);
-- parts of other statements, other tables
CREATE TABLE di_like (LIKE di INCLUDING INDEXES) USING lsm;
CREATE SCHEMA di_schema CREATE TABLE s (a int) CREATE INDEX s_a ON s (a);
CREATE INDEX di_heap_a ON di_heap (a);
CREATE TABLE di_parent (a int) PARTITION BY RANGE (a);
CREATE INDEX di_parent_a ON di_parent (a);
-- with partitions that are lsm tables, all or some: what is built of a partition is attached
CREATE TABLE di_all (a int) PARTITION BY RANGE (a);
CREATE TABLE di_all1 PARTITION OF di_all DEFAULT USING lsm;
CREATE INDEX di_all_a ON ONLY di_all (a);
CREATE INDEX CONCURRENTLY di_all1_a ON di_all1 (a);
ALTER INDEX di_all_a ATTACH PARTITION di_all1_a;
CREATE INDEX di_all_b ON ONLY di_all USING btree (a);
CREATE INDEX di_all1_b ON di_all1 (a);
ALTER INDEX di_all_b ATTACH PARTITION di_all1_b;
CREATE TABLE di_some (a int) PARTITION BY RANGE (a);
CREATE TABLE di_some1 PARTITION OF di_some DEFAULT USING lsm;
CREATE TABLE di_some2 PARTITION OF di_some FOR VALUES FROM (0) TO (9) USING heap;
CREATE INDEX di_some_a ON ONLY di_some (a);
CREATE INDEX di_some1_a ON di_some1 (a);
ALTER INDEX di_some_a ATTACH PARTITION di_some1_a;
-- USING behind the parenthesis of ONLY
CREATE INDEX di_only ON ONLY (di) USING btree (a);
CREATE INDEX di_only_too ON ONLY (di) (a);
-- an operator class that lsm_index has, but not for the type
CREATE EXTENSION citext;
CREATE TABLE di_citext (c citext) USING lsm;
CREATE INDEX di_citext_c ON di_citext (c text_ops);
DROP EXTENSION citext CASCADE;
-- errors are core's
CREATE INDEX ON di (nosuch);
CREATE INDEX ON di_nosuch (a);
CREATE INDEX ON di ((sum(a)));
CREATE INDEX ON di ((nosuch(a)));
CREATE ROLE regress_di;
SET ROLE regress_di;
CREATE INDEX ON di (a);
RESET ROLE;
DROP ROLE regress_di;

SELECT c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE c.relkind IN ('i', 'I') AND (c.relname ~ '^di' OR c.relname = 's_a') AND c.relname !~ '^di_like'
ORDER BY c.relname COLLATE "C";
SELECT count(*) FILTER (WHERE amname = 'lsm_index') > 5 AS kept FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE c.relname ~ '^di_like.*idx';

-- it is used, and a dump says what it is
SET enable_seqscan = off;
SELECT b FROM di WHERE a % 10 = 3 AND c = 'c3';
SELECT pg_get_indexdef('di_plain'::regclass);
RESET lsm.default_index;
CREATE INDEX di_again ON di (a);
SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.relname = 'di_again';
RESET enable_seqscan;
DROP TABLE di, di_heap, di_like, di_parent, di_all, di_some;
DROP SCHEMA di_schema CASCADE;
DROP FUNCTION di_function;
