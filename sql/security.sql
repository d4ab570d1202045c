-- Whose code runs with whose rights, who may do what to a relation, and what is shown to whom.
\set VERBOSITY default
CREATE ROLE lsm_regress_owner;
CREATE ROLE lsm_regress_member IN ROLE lsm_regress_owner;
CREATE ROLE lsm_regress_reader;
CREATE ROLE lsm_regress_nobody;
CREATE SCHEMA lsm_sec AUTHORIZATION lsm_regress_owner;
GRANT USAGE ON SCHEMA lsm_sec TO PUBLIC;
CREATE SCHEMA lsm_own AUTHORIZATION lsm_regress_nobody;
GRANT CREATE ON SCHEMA lsm_sec TO lsm_regress_nobody;

---- user code: who runs it ----

SET SESSION AUTHORIZATION lsm_regress_owner;
CREATE TABLE lsm_sec.ran (step text COLLATE "C", what text COLLATE "C", who name, super bool) USING heap;
GRANT SELECT, INSERT ON lsm_sec.ran TO PUBLIC;
-- says who runs it, and tries what a superuser could do for the owner
CREATE FUNCTION lsm_sec.note(what text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	INSERT INTO lsm_sec.ran SELECT current_setting('lsm_sec.step', true), $1, current_user,
		(SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
	BEGIN
		EXECUTE 'ALTER ROLE lsm_regress_owner SUPERUSER';
	EXCEPTION WHEN OTHERS THEN NULL;
	END;
	BEGIN
		EXECUTE 'SET ROLE lsm_regress_nobody';
		INSERT INTO lsm_sec.ran VALUES (current_setting('lsm_sec.step', true), 'has set the role', current_user, false);
	EXCEPTION WHEN OTHERS THEN NULL;
	END;
	BEGIN
		EXECUTE 'CREATE TEMP TABLE lsm_sec_temp ()';
		INSERT INTO lsm_sec.ran VALUES (current_setting('lsm_sec.step', true), 'has made a temporary table', current_user, false);
	EXCEPTION WHEN OTHERS THEN NULL;
	END;
	PERFORM set_config('work_mem', '12345kB', false);
END $$;
-- immutable, it says, and calls what is not
CREATE FUNCTION lsm_sec.f(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM lsm_sec.note('expression'); RETURN i; END $$;
CREATE FUNCTION lsm_sec.c(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM lsm_sec.note('constant'); RETURN i; END $$;
CREATE FUNCTION lsm_sec.p(i int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM lsm_sec.note('predicate'); RETURN true; END $$;
CREATE FUNCTION lsm_sec.d(i int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM lsm_sec.note('domain'); RETURN true; END $$;
CREATE DOMAIN lsm_sec.dom AS int CHECK (lsm_sec.d(VALUE));
CREATE TABLE lsm_sec.t (id int PRIMARY KEY, n int, dom lsm_sec.dom) USING lsm;
INSERT INTO lsm_sec.t VALUES (1, 1, 1), (2, 2, 2);
CREATE UNIQUE INDEX t_f ON lsm_sec.t USING lsm (lsm_sec.f(n));
CREATE INDEX t_p ON lsm_sec.t USING lsm (n) WHERE lsm_sec.p(n);
CREATE INDEX t_d ON lsm_sec.t USING lsm ((n::lsm_sec.dom));
CREATE INDEX t_c ON lsm_sec.t USING lsm ((n + lsm_sec.c(1)));
CREATE TABLE lsm_sec.h (id int, n int) USING heap;
INSERT INTO lsm_sec.h VALUES (1, 1), (2, 2);
CREATE INDEX h_f ON lsm_sec.h USING lsm (lsm_sec.f(n)) WHERE lsm_sec.p(n);
-- operator classes are superusers' business
CREATE OPERATOR CLASS lsm_sec.mine FOR TYPE int USING lsm_index AS OPERATOR 1 <;
GRANT SELECT ON lsm_sec.t, lsm_sec.h TO lsm_regress_reader;
-- of the owner's own statements
DROP TABLE lsm_sec_temp;
RESET work_mem;
RESET SESSION AUTHORIZATION;

TRUNCATE lsm_sec.ran;
SET lsm_sec.step = 'lsm_verify';
SELECT * FROM lsm_verify('lsm_sec.t');
SELECT * FROM lsm_verify('lsm_sec.t_f');
SELECT * FROM lsm_verify('lsm_sec.h');
SHOW work_mem;
SET lsm_sec.step = 'lsm_verify by a reader';
SET ROLE lsm_regress_reader;
SELECT * FROM lsm_verify('lsm_sec.t');
SELECT * FROM lsm_verify('lsm_sec.h_f');
RESET ROLE;
SHOW work_mem;
RESET work_mem;
-- all that ran, ran as the owner
-- (constants are simplified once per session)
SELECT step, who, super, array_agg(DISTINCT what) FILTER (WHERE what <> 'constant') AS what FROM lsm_sec.ran GROUP BY 1, 2, 3 ORDER BY 1, 2;
SELECT rolname FROM pg_roles WHERE rolname LIKE 'lsm_regress%' AND rolsuper;
TRUNCATE lsm_sec.ran;

-- a function in C of an extension calls the input function of a domain, and that a function of the owner's
SET client_min_messages = warning;
CREATE EXTENSION hstore;
SET ROLE lsm_regress_owner;
CREATE FUNCTION lsm_sec.watch(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM lsm_sec.note('domain of a record'); RETURN true; END $$;
CREATE DOMAIN lsm_sec.watched AS int CHECK (lsm_sec.watch(VALUE));
CREATE TYPE lsm_sec.pop AS (x lsm_sec.watched);
CREATE TABLE lsm_sec.pop_l (h hstore) USING lsm;
INSERT INTO lsm_sec.pop_l VALUES ('x=>1'), ('x=>2');
CREATE INDEX pop_x ON lsm_sec.pop_l USING lsm (((populate_record(NULL::lsm_sec.pop, h)).x));
GRANT SELECT ON lsm_sec.pop_l TO lsm_regress_reader;
RESET ROLE;
SET lsm_sec.step = 'lsm_verify, a record of a domain';
SET ROLE lsm_regress_reader;
SELECT * FROM lsm_verify('lsm_sec.pop_l');
RESET ROLE;
SELECT DISTINCT what, who FROM lsm_sec.ran WHERE step = 'lsm_verify, a record of a domain';
SELECT * FROM lsm_verify('lsm_sec.pop_l');
DROP TABLE lsm_sec.pop_l;
DROP TYPE lsm_sec.pop;
DROP EXTENSION hstore;
RESET client_min_messages;
SELECT count(*) FROM lsmam_filter_plan('lsm_sec.t', array_fill('none'::text, ARRAY[101]), array_fill(10::float8, ARRAY[101]), 0);
TRUNCATE lsm_sec.ran;

-- names that the owner's functions leave open are not the caller's to fill
SET ROLE lsm_regress_owner;
CREATE FUNCTION lsm_sec.w(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN lower(t); END $$;
CREATE FUNCTION lsm_sec.wi(t text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT lower($1) $$;
CREATE FUNCTION lsm_sec.wp(t text) RETURNS bool LANGUAGE sql IMMUTABLE AS $$ SELECT upper($1) <> 'X' $$;
CREATE TABLE lsm_sec.open_l (t text COLLATE "C") USING lsm;
CREATE TABLE lsm_sec.open_h (t text COLLATE "C") USING heap;
INSERT INTO lsm_sec.open_l VALUES ('A'), ('b');
INSERT INTO lsm_sec.open_h VALUES ('A'), ('b');
CREATE INDEX open_l1 ON lsm_sec.open_l USING lsm (lsm_sec.w(t));
CREATE INDEX open_l2 ON lsm_sec.open_l USING lsm (lsm_sec.wi(t)) WHERE lsm_sec.wp(t);
CREATE INDEX open_h1 ON lsm_sec.open_h USING lsm (lsm_sec.w(t));
CREATE INDEX open_h2 ON lsm_sec.open_h USING lsm (lsm_sec.wi(t)) WHERE lsm_sec.wp(t);
GRANT SELECT ON lsm_sec.open_l, lsm_sec.open_h TO lsm_regress_nobody;
SET ROLE lsm_regress_nobody;
GRANT USAGE ON SCHEMA lsm_own TO PUBLIC;
CREATE FUNCTION lsm_own.lower(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM lsm_sec.note('lower'); RETURN pg_catalog.lower(t); END $$;
CREATE FUNCTION lsm_own.upper(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM lsm_sec.note('upper'); RETURN pg_catalog.upper(t); END $$;
SET ROLE lsm_regress_member;
SET lsm_sec.step = 'open names';
SET search_path = lsm_own, pg_catalog, public;
SELECT * FROM lsm_verify('lsm_sec.open_l'::regclass);
SELECT * FROM lsm_verify('lsm_sec.open_h'::regclass);
-- a session keeps an index's expressions as it has first simplified them
\c -
SET ROLE lsm_regress_member;
SET lsm_sec.step = 'open names';
SET search_path = lsm_own, pg_catalog, public;
SELECT count(*) FROM lsm_sec.open_l, lsm_sec.open_h WHERE open_l.t = 'A' AND open_h.t = 'A';
SELECT * FROM lsm_verify('lsm_sec.open_l'::regclass);
SELECT * FROM lsm_verify('lsm_sec.open_h'::regclass);
RESET search_path;
RESET ROLE;
SELECT DISTINCT what, who FROM lsm_sec.ran WHERE who <> 'lsm_regress_member' ORDER BY 1, 2;
DROP TABLE lsm_sec.open_l, lsm_sec.open_h;
TRUNCATE lsm_sec.ran;

-- a session keeps more: types that a function in PL/pgSQL names, what a domain's constraints call, temporary relations;
-- so whoever has not the owner's rights makes nothing run with them
SET ROLE lsm_regress_owner;
CREATE FUNCTION lsm_sec.typed(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ DECLARE x text; BEGIN x := t; RETURN x; END $$;
CREATE FUNCTION lsm_sec.asks(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM FROM lsm_setup; RETURN t; END $$;
CREATE DOMAIN pg_temp.lsm_code AS text COLLATE "C";
CREATE FUNCTION lsm_sec.coded(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ DECLARE x lsm_code := t; BEGIN RETURN x; END $$;
CREATE FUNCTION lsm_sec.positive(i int) RETURNS bool LANGUAGE sql IMMUTABLE AS $$ SELECT abs($1) >= 0 $$;
CREATE DOMAIN lsm_sec.number AS int CHECK (lsm_sec.positive(VALUE));
CREATE TABLE lsm_sec.kept (t text COLLATE "C", i int) USING lsm;
CREATE TEMP TABLE lsm_setup ();
CREATE INDEX kept_typed ON lsm_sec.kept USING lsm (lsm_sec.typed(t));
CREATE INDEX kept_asks ON lsm_sec.kept USING lsm (lsm_sec.asks(t));
CREATE INDEX kept_coded ON lsm_sec.kept USING lsm (lsm_sec.coded(t));
CREATE INDEX kept_domain ON lsm_sec.kept USING lsm (i) WHERE i::lsm_sec.number > 0;
CREATE INDEX kept_own ON lsm_sec.kept USING lsm (lower(t)) WHERE abs(i) > 0;
INSERT INTO lsm_sec.kept VALUES ('A', 1), ('b', 2);
DROP TABLE lsm_setup;
DROP DOMAIN pg_temp.lsm_code;
GRANT SELECT ON lsm_sec.kept TO lsm_regress_nobody;
\c -
SET ROLE lsm_regress_nobody;
CREATE FUNCTION lsm_own.seen(pg_catalog.text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM lsm_sec.note('type'); RETURN true; END $$;
CREATE DOMAIN lsm_own.text AS pg_catalog.text CHECK (lsm_own.seen(VALUE));
CREATE FUNCTION lsm_own.abs(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM lsm_sec.note('domain'); RETURN $1; END $$;
CREATE FUNCTION lsm_own.row() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM lsm_sec.note('view'); RETURN true; END $$;
CREATE TEMP VIEW lsm_setup AS SELECT WHERE lsm_own.row();
GRANT SELECT ON lsm_setup TO PUBLIC;
CREATE DOMAIN pg_temp.lsm_code AS pg_catalog.text CHECK (lsm_own.seen(VALUE));
SET search_path = lsm_own, pg_catalog, public;
SET lsm_sec.step = 'kept names';
SELECT lsm_sec.typed('a' COLLATE "C"), 1::lsm_sec.number;
SELECT * FROM lsm_verify('lsm_sec.kept'::regclass);
SELECT * FROM lsm_verify('lsm_sec.kept_typed'::regclass);
\c -
SELECT DISTINCT what, who FROM lsm_sec.ran WHERE who <> 'lsm_regress_nobody' ORDER BY 1, 2;
-- who has those rights looks at all of them
SET ROLE lsm_regress_member;
CREATE TEMP TABLE lsm_setup ();
GRANT SELECT ON lsm_setup TO PUBLIC;
CREATE DOMAIN pg_temp.lsm_code AS text COLLATE "C";
GRANT USAGE ON DOMAIN pg_temp.lsm_code TO PUBLIC;
SELECT * FROM lsm_verify('lsm_sec.kept'::regclass);
DROP TABLE lsm_setup;
DROP DOMAIN pg_temp.lsm_code;
RESET ROLE;
DROP TABLE lsm_sec.kept;
TRUNCATE lsm_sec.ran;

-- these need none of it
SET lsm_sec.step = 'maintenance';
SELECT lsm_flush('lsm_sec.t'), lsm_flush('lsm_sec.h'), lsm_compact('lsm_sec.t'), lsm_compact('lsm_sec.h');
SELECT count(*) FROM lsm_levels('lsm_sec.t'), lsm_files('lsm_sec.t_f'), lsm_filters('lsm_sec.t_f');
SELECT count(*) > 0 AS advice FROM lsm_advise('lsm_sec.t');
SELECT lsm_relation_size('lsm_sec.t') > 0 AS size;
SELECT count(*) >= 6 AS trees FROM pg_stat_lsm;
VACUUM lsm_sec.t, lsm_sec.h;
SELECT * FROM lsm_sec.ran;

-- these do, in PostgreSQL's care
SET lsm_sec.step = 'analyze';
ANALYZE lsm_sec.t, lsm_sec.h;
SET lsm_sec.step = 'rebuilds';
REINDEX TABLE lsm_sec.t;
REINDEX TABLE CONCURRENTLY lsm_sec.t;
REINDEX INDEX lsm_sec.h_f;
VACUUM (FULL, ANALYZE) lsm_sec.t;
CLUSTER lsm_sec.t USING t_pkey;
CREATE INDEX t_f2 ON lsm_sec.t USING lsm (lsm_sec.f(n), n);
CREATE INDEX CONCURRENTLY t_f3 ON lsm_sec.t USING lsm (lsm_sec.f(n)) WHERE lsm_sec.p(n);
ALTER TABLE lsm_sec.t SET ACCESS METHOD heap;
ALTER TABLE lsm_sec.t SET ACCESS METHOD lsm;
TRUNCATE lsm_sec.h;
SHOW work_mem;
SELECT step, who, super, array_agg(DISTINCT what) FILTER (WHERE what <> 'constant') AS what FROM lsm_sec.ran GROUP BY 1, 2, 3 ORDER BY 1, 2;
SELECT rolname FROM pg_roles WHERE rolname LIKE 'lsm_regress%' AND rolsuper;
RESET lsm_sec.step;
DROP TABLE lsm_sec.t, lsm_sec.h;

---- rights ----

CREATE TABLE lsm_sec.l (id int PRIMARY KEY, v text) USING lsm;
ALTER TABLE lsm_sec.l OWNER TO lsm_regress_owner;
CREATE INDEX l_v ON lsm_sec.l USING lsm (v);
INSERT INTO lsm_sec.l SELECT i, 'v' || i FROM generate_series(1, 10) i;
SELECT lsm_flush('lsm_sec.l');
CREATE TABLE lsm_sec.plain (id int PRIMARY KEY) USING heap;
CREATE VIEW lsm_sec.vw AS SELECT 1 AS one;
CREATE ROLE lsm_regress_column;
GRANT SELECT (id) ON lsm_sec.l TO lsm_regress_column;
GRANT SELECT ON lsm_sec.l TO lsm_regress_reader;
GRANT INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON lsm_sec.l TO lsm_regress_nobody;
CREATE ROLE lsm_regress_monitor IN ROLE pg_monitor;

-- what a call answers: SQLSTATE, or ok
CREATE FUNCTION lsm_sec.try(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'SELECT count(*) FROM ' || call;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN RETURN sqlstate || ' ' || sqlerrm;
END $$;
CREATE VIEW lsm_sec.calls AS
SELECT f || '(' || r || ')' AS call, lsm_sec.try(format('%s(%L)', f, 'lsm_sec.' || r)) AS answer
FROM unnest(ARRAY['lsm_flush', 'lsm_compact', 'lsm_verify', 'lsm_levels', 'lsm_files', 'lsm_filters', 'lsm_advise', 'lsm_relation_size', 'lsm_compression'])
	WITH ORDINALITY AS f(f, n), unnest(ARRAY['l', 'l_v', 'plain', 'plain_pkey', 'vw']) WITH ORDINALITY AS r(r, m)
WHERE r IN ('l', 'l_v') OR f IN ('lsm_compact', 'lsm_levels')
ORDER BY n, m;
GRANT SELECT ON lsm_sec.calls TO PUBLIC;
-- a view's functions run as its reader, but this one is asked with the rights of each
SET ROLE lsm_regress_nobody;
SELECT * FROM lsm_sec.calls;
SET ROLE lsm_regress_column;
SELECT * FROM lsm_sec.calls WHERE call ~ '\(l';
SET ROLE lsm_regress_reader;
SELECT * FROM lsm_sec.calls WHERE call ~ '\(l';
SET ROLE lsm_regress_monitor;
SELECT * FROM lsm_sec.calls WHERE call ~ '\(l';
SET ROLE lsm_regress_member;
SELECT DISTINCT answer FROM lsm_sec.calls WHERE call ~ '\(l';
RESET ROLE;
SELECT * FROM lsm_sec.calls WHERE call !~ '\(l';
-- who may VACUUM may flush and compact: the owner of the database; with MAINTAIN (17), here by ownership before
CREATE ROLE lsm_regress_keeper;
DO $$ BEGIN EXECUTE CASE WHEN current_setting('server_version_num')::int >= 170000 THEN 'GRANT MAINTAIN ON lsm_sec.l TO lsm_regress_keeper' ELSE 'GRANT lsm_regress_owner TO lsm_regress_keeper' END; END $$;
SET ROLE lsm_regress_keeper;
SELECT * FROM lsm_sec.calls WHERE call ~ '\(l' AND call !~ 'verify';
RESET ROLE;
DO $$ BEGIN EXECUTE CASE WHEN current_setting('server_version_num')::int >= 170000 THEN 'REVOKE MAINTAIN ON lsm_sec.l FROM lsm_regress_keeper' ELSE 'REVOKE lsm_regress_owner FROM lsm_regress_keeper' END; END $$;
SELECT current_user AS su, current_database() AS db \gset
ALTER DATABASE :"db" OWNER TO lsm_regress_keeper;
SET ROLE lsm_regress_keeper;
SELECT * FROM lsm_sec.calls WHERE call ~ '\(l';
RESET ROLE;
ALTER DATABASE :"db" OWNER TO :"su";
DROP ROLE lsm_regress_keeper;
DROP VIEW lsm_sec.calls;
DROP FUNCTION lsm_sec.try;

---- keys that row security hides ----

CREATE VIEW lsm_sec.keys AS
SELECT current_user AS who, 'table' AS of, bool_and(smallest IS NOT NULL AND largest IS NOT NULL) AS shown,
	bool_or(smallest IS NOT NULL OR largest IS NOT NULL) AS any, sum(entries) AS entries FROM lsm_files('lsm_sec.l')
UNION ALL
SELECT current_user, 'index', bool_and(smallest IS NOT NULL AND largest IS NOT NULL),
	bool_or(smallest IS NOT NULL OR largest IS NOT NULL), sum(entries) FROM lsm_files('lsm_sec.l_v');
GRANT SELECT ON lsm_sec.keys TO PUBLIC;
SET ROLE lsm_regress_reader;
SELECT * FROM lsm_sec.keys;
SET ROLE lsm_regress_column;
SELECT * FROM lsm_sec.keys;
RESET ROLE;
CREATE POLICY few ON lsm_sec.l USING (id = 1);
ALTER TABLE lsm_sec.l ENABLE ROW LEVEL SECURITY;
SELECT * FROM lsm_sec.keys;
SET ROLE lsm_regress_reader;
SELECT * FROM lsm_sec.keys;
SET row_security = off;
SELECT * FROM lsm_sec.keys;
RESET row_security;
SET ROLE lsm_regress_owner;
SELECT * FROM lsm_sec.keys;
SET ROLE lsm_regress_member;
SELECT * FROM lsm_sec.keys;
RESET ROLE;
ALTER TABLE lsm_sec.l FORCE ROW LEVEL SECURITY;
SELECT * FROM lsm_sec.keys;
SET ROLE lsm_regress_owner;
SELECT * FROM lsm_sec.keys;
SET ROLE lsm_regress_member;
SELECT * FROM lsm_sec.keys;
RESET ROLE;
-- reading all data is not reading past row security
CREATE ROLE lsm_regress_all IN ROLE pg_read_all_data;
SET ROLE lsm_regress_all;
SELECT * FROM lsm_sec.keys;
RESET ROLE;
ALTER ROLE lsm_regress_all BYPASSRLS;
SET ROLE lsm_regress_all;
SELECT * FROM lsm_sec.keys;
RESET ROLE;
DROP ROLE lsm_regress_all;
-- error messages do not show them either
GRANT INSERT ON lsm_sec.l TO lsm_regress_reader;
CREATE UNIQUE INDEX l_u ON lsm_sec.l USING lsm (v);
CREATE POLICY ins ON lsm_sec.l FOR INSERT WITH CHECK (true);
SET ROLE lsm_regress_reader;
INSERT INTO lsm_sec.l VALUES (100, 'v5');
SELECT * FROM lsm_verify('lsm_sec.l');
RESET ROLE;
DROP TABLE lsm_sec.l CASCADE;

---- foreign keys: rebuilding another owner's key ----

SET ROLE lsm_regress_owner;
CREATE TABLE lsm_sec.pk (id int PRIMARY KEY, u int UNIQUE) USING lsm;
GRANT REFERENCES (id) ON lsm_sec.pk TO lsm_regress_nobody;
GRANT REFERENCES ON lsm_sec.pk TO lsm_regress_reader;
CREATE VIEW lsm_sec.ams AS SELECT c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE c.relnamespace = 'lsm_sec'::regnamespace AND c.relkind = 'i' AND c.relname ~ '^p' ORDER BY 1;
SET ROLE lsm_regress_nobody;
CREATE TABLE lsm_own.fk (id int PRIMARY KEY, r int REFERENCES lsm_sec.pk);
CREATE TABLE lsm_own.fk (r int, FOREIGN KEY (r) REFERENCES lsm_sec.pk (id));
CREATE TABLE lsm_own.fk (id int PRIMARY KEY, r int);
ALTER TABLE lsm_own.fk ADD FOREIGN KEY (r) REFERENCES lsm_sec.pk;
ALTER TABLE lsm_own.fk ADD COLUMN s int REFERENCES lsm_sec.pk (id);
-- not even asked for: the privilege is missing
ALTER TABLE lsm_own.fk ADD FOREIGN KEY (r) REFERENCES lsm_sec.pk (u);
RESET ROLE;
SELECT * FROM lsm_sec.ams;
-- a btree that core would choose needs no rebuilding
SET ROLE lsm_regress_owner;
CREATE TABLE lsm_sec.pkb (id int NOT NULL) USING lsm;
CREATE UNIQUE INDEX pkb_first ON lsm_sec.pkb USING btree (id);
ALTER TABLE lsm_sec.pkb ADD PRIMARY KEY (id);
GRANT REFERENCES ON lsm_sec.pkb TO lsm_regress_nobody;
SET ROLE lsm_regress_nobody;
CREATE TABLE lsm_own.fkb (r int REFERENCES lsm_sec.pkb (id));
CREATE TABLE lsm_own.fkb2 (r int REFERENCES lsm_sec.pkb);
RESET ROLE;
SELECT * FROM lsm_sec.ams;
DROP TABLE lsm_own.fkb, lsm_sec.pkb;
-- two that would do: both are rebuilt, for the second comes first then
SET ROLE lsm_regress_owner;
CREATE TABLE lsm_sec.pk4 (id int PRIMARY KEY) USING lsm;
CREATE UNIQUE INDEX pk4_id ON lsm_sec.pk4 USING lsm (id);
CREATE TABLE lsm_sec.fk5 (r int REFERENCES lsm_sec.pk4 (id));
RESET ROLE;
SELECT * FROM lsm_sec.ams;
DROP TABLE lsm_sec.fk5, lsm_sec.pk4;
-- the way that the hint tells
SET ROLE lsm_regress_owner;
CREATE UNIQUE INDEX pk_new ON lsm_sec.pk USING btree (id);
ALTER TABLE lsm_sec.pk DROP CONSTRAINT pk_pkey, ADD CONSTRAINT pk_pkey PRIMARY KEY USING INDEX pk_new;
SET ROLE lsm_regress_nobody;
ALTER TABLE lsm_own.fk ADD FOREIGN KEY (r) REFERENCES lsm_sec.pk;
RESET ROLE;
SELECT * FROM lsm_sec.ams;
-- the owner, a member of the owner, a superuser
SET ROLE lsm_regress_member;
CREATE TABLE lsm_sec.fk2 (r int REFERENCES lsm_sec.pk (u));
RESET ROLE;
SELECT * FROM lsm_sec.ams;
SET ROLE lsm_regress_owner;
CREATE TABLE lsm_sec.pk2 (id int PRIMARY KEY) USING lsm;
CREATE TABLE lsm_sec.fk3 (r int REFERENCES lsm_sec.pk2);
CREATE TABLE lsm_sec.pk3 (id int PRIMARY KEY) USING lsm;
RESET ROLE;
CREATE TABLE lsm_sec.fk4 (r int REFERENCES lsm_sec.pk3);
SELECT * FROM lsm_sec.ams;

-- partitions that have another owner than their parent
SET ROLE lsm_regress_owner;
CREATE TABLE lsm_sec.parent (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE lsm_sec.part1 PARTITION OF lsm_sec.parent FOR VALUES FROM (0) TO (10) USING lsm;
CREATE UNIQUE INDEX part1_id ON lsm_sec.part1 USING lsm (id);
RESET ROLE;
ALTER TABLE lsm_sec.part1 OWNER TO lsm_regress_nobody;
SET ROLE lsm_regress_owner;
CREATE UNIQUE INDEX parent_id ON lsm_sec.parent (id);
RESET ROLE;
SELECT * FROM lsm_sec.ams WHERE relname LIKE 'pa%';
ALTER TABLE lsm_sec.part1 OWNER TO lsm_regress_owner;
SET ROLE lsm_regress_owner;
CREATE UNIQUE INDEX parent_id ON lsm_sec.parent (id);
RESET ROLE;
SELECT * FROM lsm_sec.ams WHERE relname LIKE 'pa%';

---- DDL within DDL, with event triggers about ----

CREATE FUNCTION lsm_sec.et() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM count(*) FROM pg_event_trigger_ddl_commands(); END $$;
CREATE TABLE lsm_sec.e (id int, u int UNIQUE) USING lsm;
ALTER TABLE lsm_sec.e ADD PRIMARY KEY (id) WITH (bits_per_key = 12);
CREATE TABLE lsm_sec.e2 (id int PRIMARY KEY) USING lsm;
CREATE EVENT TRIGGER lsm_sec_et ON ddl_command_end EXECUTE FUNCTION lsm_sec.et();
CREATE FUNCTION lsm_sec.ddl() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	ALTER TABLE lsm_sec.e ALTER id TYPE bigint, ALTER u TYPE bigint;
	CREATE TABLE lsm_sec.e_fk (r int REFERENCES lsm_sec.e2);
	RETURN 1;
END $$;
CREATE TABLE lsm_sec.ctas AS SELECT lsm_sec.ddl();
DROP EVENT TRIGGER lsm_sec_et;
SELECT c.relname, a.amname, c.reloptions FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.relname ~ '^e2?_(pkey|u_key)$' ORDER BY 1;

---- what our objects depend on ----

-- pg_stat_lsm, functions, operator classes: nothing outside of pg_catalog and the extension itself
SELECT DISTINCT pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid) AS outside
FROM pg_depend e
	JOIN pg_depend d ON d.classid = e.classid AND d.objid = e.objid
		OR d.classid = 'pg_rewrite'::regclass AND e.classid = 'pg_class'::regclass
			AND d.objid IN (SELECT oid FROM pg_rewrite WHERE ev_class = e.objid)
WHERE e.deptype = 'e' AND e.refclassid = 'pg_extension'::regclass
	AND e.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'lsmam')
	AND NOT (d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.refobjid)
	AND NOT (d.refclassid = 'pg_namespace'::regclass AND d.refobjid = (SELECT extnamespace FROM pg_extension WHERE extname = 'lsmam'))
	AND d.refobjid >= 16384
	AND NOT EXISTS (SELECT FROM pg_depend m WHERE m.deptype = 'e' AND m.classid = d.refclassid AND m.objid = d.refobjid
		AND m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.refobjid);
-- who may call what
SELECT proname, coalesce(proacl::text !~ '[{,]=', false) AS restricted, prosecdef FROM pg_proc p
WHERE EXISTS (SELECT FROM pg_depend m WHERE m.deptype = 'e' AND m.classid = 'pg_proc'::regclass AND m.objid = p.oid
	AND m.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'lsmam')) ORDER BY 1;
-- settings that are not the session's to change
SELECT name, context FROM pg_settings WHERE name LIKE 'lsm.%' AND context <> 'user' AND name NOT IN ('lsm.crash_point', 'lsm.second_opinion') ORDER BY 1;

SET client_min_messages = warning;
DROP SCHEMA lsm_sec, lsm_own CASCADE;
RESET client_min_messages;
DROP ROLE lsm_regress_member, lsm_regress_reader, lsm_regress_nobody, lsm_regress_column, lsm_regress_monitor, lsm_regress_owner;
