-- What the catalog says that an index depends on, and what on it, after every statement that replaces it by one of the
-- other access method: schema dp, against the same made anew, schema dp_fresh.
SET client_min_messages = warning;
CREATE EXTENSION citext;
CREATE FUNCTION dp_citext(citext) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN lower($1::text COLLATE "default");
CREATE OPERATOR CLASS dp_citext_ops DEFAULT FOR TYPE citext USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 citext_cmp(citext, citext), FUNCTION 13 dp_citext(citext);
CREATE COLLATION dp_collation (provider = icu, locale = 'de');
CREATE SCHEMA dp;
CREATE SCHEMA dp_fresh;
CREATE VIEW dp_indexes AS
SELECT c.oid, n.nspname AS schema, c.relname, a.amname
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_am a ON a.oid = c.relam
WHERE n.nspname IN ('dp', 'dp_fresh') AND c.relkind IN ('i', 'I');
-- rows of pg_depend in words
CREATE VIEW dp_rows AS
SELECT i.schema, i.relname, r.row
FROM dp_indexes i, LATERAL (
	SELECT 'uses access method ' || i.amname
	UNION ALL SELECT format('depends (%s) on %s', deptype, pg_describe_object(refclassid, refobjid, refobjsubid))
	FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = i.oid
	UNION ALL SELECT format('needed (%s) by %s', deptype, pg_describe_object(classid, objid, objsubid))
	FROM pg_depend WHERE refclassid = 'pg_class'::regclass AND refobjid = i.oid) r (row);
CREATE FUNCTION dp_compare() RETURNS TABLE (key name, which text, what text) LANGUAGE sql AS $$
	WITH rows AS (SELECT schema, relname, regexp_replace(row, '\mdp(_fresh)?\.', '') AS row FROM dp_rows),
		swapped AS (SELECT relname, row FROM rows WHERE schema = 'dp'),
		fresh AS (SELECT relname, row FROM rows WHERE schema = 'dp_fresh')
	(SELECT relname, 'only if replaced', row FROM (TABLE swapped EXCEPT ALL TABLE fresh) s
	UNION ALL SELECT relname, 'only if made anew', row FROM (TABLE fresh EXCEPT ALL TABLE swapped) f
	UNION ALL SELECT NULL, 'compared', format('%s indexes', count(DISTINCT relname)) FROM fresh)
	ORDER BY 1, 2, 3 $$;
CREATE PROCEDURE dp_clear() LANGUAGE plpgsql AS $$
BEGIN
	DROP SCHEMA dp, dp_fresh CASCADE;
	CREATE SCHEMA dp;
	CREATE SCHEMA dp_fresh;
END $$;
-- what keys are where PostgreSQL wants btree before 18
SELECT CASE WHEN current_setting('server_version_num')::int < 180000 THEN 'btree' ELSE 'lsm' END AS for_core \gset
SET default_table_access_method = lsm;

-- ALTER COLUMN ... TYPE, of keys of every kind
SET search_path = dp_fresh, public;
CREATE TABLE t (id bigint PRIMARY KEY, a bigint, b text COLLATE dp_collation, c citext UNIQUE, d bigint, e int, f varchar(9) UNIQUE NULLS NOT DISTINCT,
	UNIQUE (a, b), CONSTRAINT t_include UNIQUE (e) INCLUDE (d, c), CONSTRAINT t_defer UNIQUE (d) DEFERRABLE INITIALLY DEFERRED);
CREATE INDEX t_plain ON t USING lsm (a, lower(b)) WHERE d > 0;
SET search_path = dp, public;
CREATE TABLE t (id int PRIMARY KEY, a int, b text COLLATE "C", c text UNIQUE, d int, e int, f varchar(5) UNIQUE NULLS NOT DISTINCT,
	UNIQUE (a, b), CONSTRAINT t_include UNIQUE (e) INCLUDE (d, c), CONSTRAINT t_defer UNIQUE (d) DEFERRABLE INITIALLY DEFERRED);
CREATE INDEX t_plain ON t USING lsm (a, lower(b)) WHERE d > 0;
INSERT INTO t SELECT g, g, g, g, g, g, g FROM generate_series(1, 9) g;
ALTER TABLE t ALTER id TYPE bigint, ALTER a TYPE bigint, ALTER b TYPE text COLLATE dp_collation, ALTER c TYPE citext, ALTER d TYPE bigint, ALTER f TYPE varchar(9);
SELECT * FROM dp_compare();
-- the class of a key stays
DROP TABLE dp_fresh.t;
DROP OPERATOR CLASS dp_citext_ops USING lsm_index;
CALL dp_clear();

-- ADD CONSTRAINT ... USING INDEX: there and back on a table of ours
SET search_path = dp_fresh, public;
CREATE TABLE t (id int CONSTRAINT t_u PRIMARY KEY, c citext, d int, CONSTRAINT t_v UNIQUE (c, d));
CREATE TABLE h (id int, c citext) USING heap;
ALTER TABLE h ADD CONSTRAINT h_u UNIQUE (id, c);
SET search_path = dp, public;
CREATE TABLE t (id int NOT NULL, c citext, d int);
CREATE UNIQUE INDEX t_u ON t USING lsm (id);
CREATE UNIQUE INDEX t_v ON t USING lsm (c, d);
ALTER TABLE t ADD CONSTRAINT t_u PRIMARY KEY USING INDEX t_u, ADD CONSTRAINT t_v UNIQUE USING INDEX t_v;
CREATE TABLE h (id int, c citext) USING heap;
CREATE UNIQUE INDEX h_u ON h USING lsm (id, c);
ALTER TABLE h ADD CONSTRAINT h_u UNIQUE USING INDEX h_u;
SELECT * FROM dp_compare();
DROP TABLE dp_fresh.t, dp_fresh.h;
DROP OPERATOR CLASS dp_citext_ops USING lsm_index;
CALL dp_clear();

-- foreign keys
SET lsm.constraint_index = :for_core;
SET search_path = dp_fresh, public;
CREATE TABLE t (id int PRIMARY KEY, c citext UNIQUE, a int, b text COLLATE dp_collation, UNIQUE (a, b));
RESET lsm.constraint_index;
CREATE TABLE u (id int PRIMARY KEY, r int REFERENCES t, c citext REFERENCES t (c), a int, b text COLLATE dp_collation, FOREIGN KEY (a, b) REFERENCES t (a, b));
CREATE INDEX t_plain ON t USING lsm (c);
SET search_path = dp, public;
CREATE TABLE t (id int PRIMARY KEY, c citext UNIQUE, a int, b text COLLATE dp_collation, UNIQUE (a, b));
CREATE TABLE u (id int PRIMARY KEY, r int REFERENCES t, c citext REFERENCES t (c), a int, b text COLLATE dp_collation);
ALTER TABLE u ADD FOREIGN KEY (a, b) REFERENCES t (a, b);
CREATE INDEX t_plain ON t USING lsm (c);
SELECT * FROM dp_compare();
CALL dp_clear();

-- partitions: attached, a key that comes later, an index that is attached, all of which follow a key of the parent, btree or ours
SET lsm.constraint_index = :for_core;
SET search_path = dp_fresh, public;
CREATE TABLE p (id int, c citext, PRIMARY KEY (id, c), UNIQUE (c, id)) PARTITION BY LIST (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE q (id int, c citext) PARTITION BY LIST (id);
CREATE TABLE q1 PARTITION OF q FOR VALUES IN (1);
ALTER TABLE q ADD PRIMARY KEY (id, c);
CREATE TABLE r (id int, c citext) PARTITION BY LIST (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES IN (1);
CREATE UNIQUE INDEX r_u ON ONLY r USING lsm (id, c);
CREATE UNIQUE INDEX r1_u ON r1 USING :for_core (id, c);
ALTER INDEX r_u ATTACH PARTITION r1_u;
SET lsm.constraint_index = btree;
CREATE TABLE h (id int, c citext, PRIMARY KEY (id, c)) PARTITION BY LIST (id);
CREATE TABLE h1 PARTITION OF h FOR VALUES IN (1);
RESET lsm.constraint_index;
SET search_path = dp, public;
CREATE TABLE p (id int, c citext, PRIMARY KEY (id, c), UNIQUE (c, id)) PARTITION BY LIST (id);
CREATE TABLE p1 (id int, c citext, PRIMARY KEY (id, c));
SET lsm.constraint_index = btree;
ALTER TABLE p1 ADD UNIQUE (c, id);
RESET lsm.constraint_index;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1);
CREATE TABLE q (id int, c citext) PARTITION BY LIST (id);
CREATE TABLE q1 (id int, c citext, PRIMARY KEY (id, c));
ALTER TABLE q ATTACH PARTITION q1 FOR VALUES IN (1);
ALTER TABLE q ADD PRIMARY KEY (id, c);
CREATE TABLE r (id int, c citext) PARTITION BY LIST (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES IN (1);
CREATE UNIQUE INDEX r_u ON ONLY r USING lsm (id, c);
CREATE UNIQUE INDEX r1_u ON r1 USING lsm (id, c);
ALTER INDEX r_u ATTACH PARTITION r1_u;
SET lsm.constraint_index = btree;
CREATE TABLE h (id int, c citext, PRIMARY KEY (id, c)) PARTITION BY LIST (id);
RESET lsm.constraint_index;
CREATE TABLE h1 (id int, c citext, PRIMARY KEY (id, c));
ALTER TABLE h ATTACH PARTITION h1 FOR VALUES IN (1);
SELECT * FROM dp_compare();
-- and detached again
ALTER TABLE dp.p DETACH PARTITION dp.p1;
ALTER TABLE dp_fresh.p DETACH PARTITION dp_fresh.p1;
SELECT * FROM dp_compare();
CALL dp_clear();

-- REFRESH MATERIALIZED VIEW CONCURRENTLY
SET search_path = dp_fresh, public;
CREATE MATERIALIZED VIEW m AS SELECT 'a'::citext AS c, 1 AS i;
CREATE UNIQUE INDEX m_u ON m USING :for_core (c, i);
CREATE INDEX m_plain ON m USING lsm (c);
SET search_path = dp, public;
CREATE MATERIALIZED VIEW m AS SELECT 'a'::citext AS c, 1 AS i;
CREATE UNIQUE INDEX m_u ON m USING lsm (c, i);
CREATE INDEX m_plain ON m USING lsm (c);
REFRESH MATERIALIZED VIEW CONCURRENTLY m;
SELECT * FROM dp_compare();
CALL dp_clear();

-- what 1.0 has left is repaired by a function, which the update of the extension calls
SET lsm.constraint_index = lsm;
SET search_path = dp_fresh, public;
CREATE TABLE t (id int PRIMARY KEY, c citext, d int, UNIQUE (c, d, id));
CREATE TABLE h (id int, c citext, UNIQUE (c, id)) USING heap;
CREATE INDEX h_plain ON h (id, lower(c));
SET search_path = dp, public;
CREATE TABLE t (id int PRIMARY KEY, c citext, d int, UNIQUE (c, d, id));
CREATE TABLE h (id int, c citext, UNIQUE (c, id)) USING heap;
CREATE INDEX h_plain ON h (id, lower(c));
RESET lsm.constraint_index;
SELECT * FROM dp_compare();
SELECT * FROM lsm_repair_dependencies();
CREATE FUNCTION dp_exchange(a regclass, b regclass) RETURNS void LANGUAGE sql AS $$
	WITH gone AS (DELETE FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid IN (a, b) AND refclassid = 'pg_opclass'::regclass RETURNING *)
	INSERT INTO pg_depend SELECT DISTINCT classid, CASE WHEN objid = a THEN b ELSE a END, objsubid, refclassid, refobjid, refobjsubid, deptype FROM gone $$;
SELECT dp_exchange('t_pkey', 'h_plain'), dp_exchange('t_c_d_id_key', 'h_c_id_key');
SELECT * FROM dp_compare();
BEGIN READ ONLY;
SELECT * FROM lsm_repair_dependencies();
ROLLBACK;
CREATE ROLE dp_stranger;
SET ROLE dp_stranger;
SELECT * FROM lsm_repair_dependencies();
RESET ROLE;
DROP ROLE dp_stranger;
SELECT * FROM lsm_repair_dependencies() i ORDER BY i::text COLLATE "C";
SELECT * FROM dp_compare();
SELECT * FROM lsm_repair_dependencies();

RESET search_path;
RESET default_table_access_method;
DROP FUNCTION dp.dp_exchange;
DROP SCHEMA dp, dp_fresh CASCADE;
DROP PROCEDURE dp_clear;
DROP FUNCTION dp_compare;
DROP VIEW dp_rows, dp_indexes;
DROP COLLATION dp_collation;
DROP EXTENSION citext CASCADE;
