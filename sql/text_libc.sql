-- Text in order under a collation of libc; where the server has no en_US.UTF-8, nothing
\set VERBOSITY terse
DO $$
BEGIN
	CREATE COLLATION libc_en (provider = libc, locale = 'en_US.UTF-8');
EXCEPTION WHEN OTHERS THEN
	NULL;
END $$;
SELECT count(*) = 0 AS skip FROM pg_collation WHERE collname = 'libc_en' AND current_setting('server_encoding') = 'UTF8' \gset
\if :skip
\quit
\endif
CREATE TABLE lc (id int, k text COLLATE libc_en, g int) USING lsm;
INSERT INTO lc (k, id) SELECT * FROM unnest('{resume,Resume,résumé,Résumé,RESUME,resumes,"a b",ab,"A b",b,B,Zebra,zebra,Äpfel,apfel,10,9,"",z,Z}'::text[]) WITH ORDINALITY u (k, id) ORDER BY id DESC;
UPDATE lc SET g = id % 3;
INSERT INTO lc VALUES (21, NULL, 0), (22, 'zebra', 1);
CREATE INDEX lc_k ON lc USING lsm (k);
CREATE INDEX lc_g_k ON lc USING lsm (g, k DESC, id);
CREATE TABLE lc_key (k text COLLATE libc_en PRIMARY KEY) USING lsm;
SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 'lc_key_pkey';
CREATE TABLE lc_heap USING heap AS SELECT * FROM lc;
SET enable_seqscan = off;
SET enable_sort = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT k FROM lc ORDER BY k;
EXPLAIN (COSTS OFF) SELECT k FROM lc WHERE k > 'b' AND k <= 'z' ORDER BY k DESC LIMIT 3;
EXPLAIN (COSTS OFF) SELECT id FROM lc WHERE g = 1 ORDER BY k DESC, id;
EXPLAIN (COSTS OFF) SELECT k FROM lc WHERE k LIKE 're%';
SELECT string_agg(coalesce(k, 'NULL'), '|') FROM (SELECT k FROM lc ORDER BY k) q;
SELECT string_agg(k, '|') FROM (SELECT k FROM lc WHERE k > 'b' AND k <= 'z' ORDER BY k DESC LIMIT 3) q;
SELECT min(k), max(k) FROM lc;
SELECT string_agg(id::text, '|') FROM (SELECT id FROM lc WHERE g = 1 ORDER BY k DESC, id) q;
SELECT k FROM lc WHERE k LIKE 're%' ORDER BY k;
SELECT count(*) FROM lc a JOIN lc b USING (k);
SELECT string_agg(k, '|') FROM (SELECT k FROM lc WHERE k < ANY ('{B,b,"a b"}') AND k >= ANY ('{Apfel,apfel,résumé}') ORDER BY k) q;
SELECT string_agg(k, '|') FROM (SELECT k FROM lc WHERE g = 1 AND k > ANY ('{résumé,Z,Resume}') ORDER BY k DESC) q;
-- as without an index: all in order, and each range from string to string
CREATE FUNCTION lc_differences() RETURNS TABLE (low text, high text) LANGUAGE sql AS $$
	SELECT 'order', l FROM (SELECT string_agg(k, '|') l FROM (SELECT k FROM lc ORDER BY k) q) l,
		(SELECT string_agg(k, '|') h FROM (SELECT k FROM lc_heap ORDER BY k) q) h
	WHERE l <> h
	UNION ALL
	SELECT a.k, b.k FROM lc_heap a, lc_heap b
	WHERE (SELECT count(*) FROM lc WHERE k >= a.k AND k < b.k) <> (SELECT count(*) FROM lc_heap WHERE k >= a.k AND k < b.k)
$$;
SELECT * FROM lc_differences();
SELECT lsm_flush('lc');
SELECT * FROM lc_differences();
SELECT lsm_verify('lc');
-- a unique key tells apart what differs in case or accents only
INSERT INTO lc_key VALUES ('resume'), ('Resume'), ('résumé');
INSERT INTO lc_key VALUES ('Resume');
INSERT INTO lc_key VALUES ('résumé'), ('RESUME') ON CONFLICT DO NOTHING;
SELECT string_agg(k, '|') FROM (SELECT k FROM lc_key ORDER BY k) q;
-- a group of many values, sorted in memory or value by value
CREATE TABLE lc_group (k text COLLATE libc_en) USING lsm;
INSERT INTO lc_group SELECT string_agg(CASE WHEN i >> b & 1 = 1 THEN upper(c) ELSE c END, '') FROM generate_series(0, 1023) i, unnest('{q,w,e,r,t,y,u,i,o,p}'::text[]) WITH ORDINALITY u (c, b1), LATERAL (SELECT b1::int - 1 AS b) b GROUP BY i;
CREATE TABLE lc_group_heap USING heap AS SELECT k, row_number() OVER (ORDER BY k) n FROM lc_group;
CREATE INDEX lc_group_k ON lc_group USING lsm (k);
EXPLAIN (COSTS OFF) SELECT k FROM lc_group ORDER BY k;
SELECT count(*) FROM (SELECT k, row_number() OVER () n FROM (SELECT k FROM lc_group ORDER BY k) q) l JOIN lc_group_heap h USING (k) WHERE l.n = h.n;
SET work_mem = '64kB';
SELECT count(*) FROM (SELECT k, row_number() OVER () n FROM (SELECT k FROM lc_group ORDER BY k) q) l JOIN lc_group_heap h USING (k) WHERE l.n = h.n;
RESET work_mem;
-- points that are sorted by value, in little memory
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT (SELECT count(k) FROM lc_group WHERE k = ANY (ARRAY(SELECT CASE WHEN i % 2 = 0 THEN md5((i / 2)::text) ELSE upper(md5((i / 2)::text)) END FROM generate_series(1, 20000) i UNION ALL SELECT 'qwertyuiop'))),
	(SELECT sum(used_bytes) < 10e6 AS little FROM pg_backend_memory_contexts WHERE name LIKE 'lsm_index%');
-- a class of one's own with function 13, whose < is no btree's: there is no order to sort groups in before 18
CREATE FUNCTION lc_lt(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN lower($1) < lower($2); END $$;
CREATE FUNCTION lc_eq(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN lower($1) = lower($2); END $$;
CREATE FUNCTION lc_cmp(text, text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN bttextcmp(lower($1), lower($2)); END $$;
CREATE FUNCTION lc_normal(text) RETURNS text LANGUAGE sql IMMUTABLE RETURN lower($1);
CREATE OPERATOR <<<< (FUNCTION = lc_lt, LEFTARG = text, RIGHTARG = text, RESTRICT = scalarltsel);
CREATE OPERATOR ==== (FUNCTION = lc_eq, LEFTARG = text, RIGHTARG = text, RESTRICT = eqsel);
SET client_min_messages = warning;
CREATE OPERATOR CLASS lc_ops FOR TYPE text USING lsm_index AS
	OPERATOR 1 <<<<, OPERATOR 3 ====, FUNCTION 1 lc_cmp(text, text), FUNCTION 13 (text, text) lc_normal(text);
DROP INDEX lc_group_k;
CREATE INDEX lc_group_own ON lc_group USING lsm (k lc_ops);
EXPLAIN (COSTS OFF) SELECT count(*) FROM lc_group WHERE k <<<< 'qx';
SELECT count(*) - (SELECT count(*) FROM lc_group_heap WHERE lower(k) < 'qx') AS too_many FROM lc_group WHERE k <<<< 'qx';
SELECT count(*) FROM lc_group WHERE k ==== 'Qwertyuiop';
SELECT * FROM lsm_verify('lc_group');
DROP OPERATOR FAMILY lc_ops USING lsm_index CASCADE;
RESET client_min_messages;
DROP OPERATOR <<<< (text, text);
DROP OPERATOR ==== (text, text);
DROP FUNCTION lc_lt, lc_eq, lc_cmp, lc_normal;
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP FUNCTION lc_differences;
DROP TABLE lc, lc_key, lc_heap, lc_group, lc_group_heap;
