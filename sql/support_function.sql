-- Types of extensions, by a support function that makes codes, or the text that is compared.  The first two examples are those of docs/usage.md.
SET client_min_messages = warning;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
CREATE EXTENSION hstore;

-- citext, by the text that it compares
CREATE FUNCTION citext_text(citext) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN lower($1::text COLLATE "default");

CREATE OPERATOR CLASS citext_ops DEFAULT FOR TYPE citext USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 citext_cmp(citext, citext),
	FUNCTION 13 citext_text(citext);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'citext_ops';

-- ltree: labels by their bytes, what is above before what is below
CREATE FUNCTION ltree_code(ltree) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN lsm_text_code(replace(ltree2text($1), '.', E'\x01') COLLATE "C");

CREATE OPERATOR CLASS ltree_ops DEFAULT FOR TYPE ltree USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 ltree_cmp(ltree, ltree),
	FUNCTION 11 ltree_code(ltree);

-- hstore: equality only.  Its own send function makes the same bytes of what is equal.
CREATE FUNCTION hstore_code(hstore) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN hstore_send($1);
CREATE OPERATOR CLASS hstore_ops DEFAULT FOR TYPE hstore USING lsm_index AS
	OPERATOR 1 #<#, OPERATOR 2 #<=#, OPERATOR 3 =, OPERATOR 4 #>=#, OPERATOR 5 #>#,
	FUNCTION 1 hstore_cmp(hstore, hstore),
	FUNCTION 12 hstore_code(hstore);

SELECT ops_twin('citext', '{a,A,b,B,"",ab,Ab,"a ",Bob,bob,BOB,ä,Ä,NULL}');
SELECT ops_twin('citext', '{a,A,b,B,"",ab,Ab,"a ",Bob,bob,BOB,ä,Ä,NULL}', 'COLLATE "POSIX"');
SELECT ops_twin('citext[]', '{"{}","{a}","{A}","{a,b}","{A,B}","{a,NULL}","{Ab}",NULL}');
CREATE DOMAIN mail AS citext;
SELECT ops_twin('mail', '{a,A,b,B,"",Bob,bob,NULL}');
SELECT ops_twin('ltree', '{"",Top,Top.Science,Top_Science,Top.Hobbies,top,Top.Science.Astronomy,TopS,T,A.B,AB,A.B.C,A_B,NULL}');
SELECT ops_twin('hstore', ARRAY['', 'a=>1', 'a=>2', 'a=>1,b=>2', 'b=>2,a=>1', 'a=>NULL', 'a=>1,b=>NULL', NULL]);

-- keys
CREATE TABLE people (e citext PRIMARY KEY, m mail UNIQUE, path ltree UNIQUE, h hstore UNIQUE) USING lsm;
SELECT c.relname, a.amname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam WHERE i.indrelid = 'people'::regclass ORDER BY 1;
INSERT INTO people VALUES ('Bob', 'Bob@example.org', 'a.b', 'a=>1');
INSERT INTO people VALUES ('bob', 'x', 'a.c', 'a=>2');
INSERT INTO people VALUES ('alice', 'BOB@EXAMPLE.ORG', 'a.c', 'a=>2');
INSERT INTO people VALUES ('BOB', 'y', 'a.c', 'a=>2') ON CONFLICT (e) DO UPDATE SET m = excluded.m RETURNING *;
SELECT lsm_flush('people');
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT e FROM people WHERE e = 'BOB';
SELECT e FROM people WHERE e = 'BOB';
EXPLAIN (COSTS OFF) SELECT * FROM people WHERE e > 'a' ORDER BY e LIMIT 1;
EXPLAIN (COSTS OFF) SELECT path FROM people WHERE path >= 'a' ORDER BY path LIMIT 1;
DROP TABLE people;
RESET enable_seqscan;

-- functions that will not do
CREATE FUNCTION bad_code(ltree) RETURNS bytea LANGUAGE sql STABLE RETURN '\x00'::bytea;
CREATE OPERATOR CLASS bad_ops FOR TYPE ltree USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 ltree_cmp(ltree, ltree), FUNCTION 11 bad_code(ltree);
CREATE TABLE t (l ltree) USING lsm;
CREATE INDEX ON t USING lsm (l bad_ops);
CREATE OR REPLACE FUNCTION bad_code(ltree) RETURNS bytea LANGUAGE sql IMMUTABLE RETURN NULL::bytea;
CREATE INDEX ON t USING lsm (l bad_ops);
INSERT INTO t VALUES ('a');
CREATE FUNCTION worse_code(ltree) RETURNS int LANGUAGE sql IMMUTABLE RETURN 1;
CREATE OPERATOR CLASS worse_ops FOR TYPE ltree USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 ltree_cmp(ltree, ltree), FUNCTION 11 worse_code(ltree);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'worse_ops';
CREATE INDEX ON t USING lsm (l worse_ops);
CREATE OPERATOR CLASS none_ops FOR TYPE ltree USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 ltree_cmp(ltree, ltree);
CREATE INDEX ON t USING lsm (l none_ops);
DROP TABLE t;
DROP FUNCTION bad_code, worse_code CASCADE;
-- an order of one's own needs codes of one's own
CREATE FUNCTION reversed_cmp(int, int) RETURNS int LANGUAGE sql IMMUTABLE RETURN btint4cmp($2, $1);
CREATE OPERATOR CLASS reversed_ops FOR TYPE int USING lsm_index AS
	OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 reversed_cmp(int, int);
CREATE TABLE t (i int) USING lsm;
CREATE INDEX ON t USING lsm (i reversed_ops);
CREATE FUNCTION reversed_code(int) RETURNS bytea LANGUAGE sql IMMUTABLE RETURN int4send(-1 - $1 # (-2147483648));
ALTER OPERATOR FAMILY reversed_ops USING lsm_index ADD FUNCTION 11 (int) reversed_code(int);
CREATE INDEX t_i ON t USING lsm (i reversed_ops);
INSERT INTO t SELECT generate_series(-9, 9);
SET enable_seqscan = off;
SELECT count(*) FROM t WHERE i < 3;
SELECT string_agg(i::text, ' ' ORDER BY i) FROM t WHERE i >= 7 OR i BETWEEN -2 AND 1;
SELECT * FROM lsm_verify('t');
RESET enable_seqscan;
DROP TABLE t;
DROP OPERATOR FAMILY reversed_ops USING lsm_index;
DROP FUNCTION reversed_cmp, reversed_code;

-- codes of strings
SELECT lsm_text_code('a' COLLATE "C") < lsm_text_code('ab' COLLATE "C") AS before;
CREATE TABLE strings AS SELECT s COLLATE "de-x-icu" FROM unnest('{a,A,b,B,ä,Ä,z,"",a b,a-b,ab}'::text[]) s;
SELECT count(*) AS differ FROM strings a, strings b WHERE (a.s < b.s) <> (lsm_text_code(a.s) < lsm_text_code(b.s)) OR (a.s = b.s) <> (lsm_text_code(a.s) = lsm_text_code(b.s));
SELECT lsm_text_code(s COLLATE "C" || t) FROM (SELECT 'a' COLLATE "POSIX" AS t, 'b'::text AS s) x;
SELECT lsm_text_code(a.s || b.s) FROM strings a, (SELECT 'x'::text COLLATE "fr-x-icu" AS s) b LIMIT 1;
DROP TABLE strings;
DROP EXTENSION citext, ltree, hstore CASCADE;

-- whose family ORDER BY goes by (18): of two, the one that was made first, and a dump makes them by their names
CREATE TYPE class_order AS (a int);
CREATE FUNCTION class_order_code(class_order) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT int4send(($1).a) $$;
CREATE FUNCTION class_order_cmp(class_order, class_order) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT ($1).a - ($2).a $$;
CREATE FUNCTION class_order_lt(class_order, class_order) RETURNS bool LANGUAGE sql IMMUTABLE AS $$ SELECT ($1).a < ($2).a $$;
CREATE FUNCTION class_order_eq(class_order, class_order) RETURNS bool LANGUAGE sql IMMUTABLE AS $$ SELECT ($1).a = ($2).a $$;
CREATE OPERATOR <<<< (FUNCTION = class_order_lt, LEFTARG = class_order, RIGHTARG = class_order);
CREATE OPERATOR ==== (FUNCTION = class_order_eq, LEFTARG = class_order, RIGHTARG = class_order);
SET client_min_messages = notice;
CREATE OPERATOR CLASS class_order_alone FOR TYPE class_order USING lsm_index AS
	OPERATOR 1 <<<<, OPERATOR 3 ====, FUNCTION 1 class_order_cmp(class_order, class_order), FUNCTION 11 class_order_code(class_order);
SET client_min_messages = warning;
DROP OPERATOR FAMILY class_order_alone USING lsm_index CASCADE;
SET client_min_messages = notice;
CREATE OPERATOR CLASS class_order_btree FOR TYPE class_order USING btree AS
	OPERATOR 1 <<<<, OPERATOR 3 ====, FUNCTION 1 class_order_cmp(class_order, class_order);
CREATE OPERATOR CLASS class_order_after FOR TYPE class_order USING lsm_index AS
	OPERATOR 1 <<<<, OPERATOR 3 ====, FUNCTION 1 class_order_cmp(class_order, class_order), FUNCTION 11 class_order_code(class_order);
CREATE OPERATOR CLASS class_order_lsm FOR TYPE class_order USING lsm_index AS
	OPERATOR 1 <<<<, OPERATOR 3 ====, FUNCTION 1 class_order_cmp(class_order, class_order), FUNCTION 11 class_order_code(class_order);
CREATE OPERATOR CLASS class_order_int FOR TYPE int USING lsm_index AS
	OPERATOR 1 <, OPERATOR 3 =, FUNCTION 1 btint4cmp(int, int);
SET client_min_messages = warning;
DROP OPERATOR FAMILY class_order_after USING lsm_index CASCADE;
DROP OPERATOR FAMILY class_order_lsm USING lsm_index CASCADE;
DROP OPERATOR FAMILY class_order_int USING lsm_index CASCADE;
DROP OPERATOR FAMILY class_order_btree USING btree CASCADE;
DROP OPERATOR <<<< (class_order, class_order);
DROP OPERATOR ==== (class_order, class_order);
DROP FUNCTION class_order_code(class_order), class_order_cmp(class_order, class_order), class_order_lt(class_order, class_order), class_order_eq(class_order, class_order);
DROP TYPE class_order;
-- of a type that has codes of its own: codes for equality are no order, and values of another type are not the function's
CREATE FUNCTION own_code(int) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT RETURN int4send($1);
CREATE FUNCTION own_code(bigint) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT RETURN int8send($1);
CREATE FUNCTION own_code(uuid) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT RETURN decode(md5($1::text), 'hex');
CREATE OPERATOR FAMILY own_ops USING lsm_index;
CREATE OPERATOR CLASS own_int FOR TYPE int USING lsm_index FAMILY own_ops AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int), FUNCTION 12 own_code(int);
CREATE OPERATOR CLASS own_bigint FOR TYPE bigint USING lsm_index FAMILY own_ops AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint8cmp(bigint, bigint), FUNCTION 12 own_code(bigint);
ALTER OPERATOR FAMILY own_ops USING lsm_index ADD OPERATOR 1 < (int, bigint), OPERATOR 2 <= (int, bigint), OPERATOR 3 = (int, bigint),
	OPERATOR 4 >= (int, bigint), OPERATOR 5 > (int, bigint), FUNCTION 1 (int, bigint) btint48cmp(int, bigint);
CREATE OPERATOR CLASS own_uuid FOR TYPE uuid USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 uuid_cmp(uuid, uuid), FUNCTION 12 own_code(uuid);
CREATE TABLE own (a int, u uuid) USING lsm;
INSERT INTO own SELECT g, lpad(to_hex(g + 5), 32, '0')::uuid FROM generate_series(-3, 3) g;
CREATE INDEX own_a ON own USING lsm_index (a own_int);
CREATE INDEX own_u ON own USING lsm_index (u own_uuid);
SET enable_seqscan = off;
SELECT array_agg(a) FROM (SELECT a FROM own ORDER BY a) q;
SELECT min(a), max(a) FROM own;
SELECT array_agg(a) FROM (SELECT a FROM own ORDER BY u) q;
SELECT (SELECT a FROM own ORDER BY u LIMIT 1), (SELECT a FROM own ORDER BY u DESC LIMIT 1);
SELECT count(*) FILTER (WHERE a = 4294967297), count(*) FILTER (WHERE a < 4294967297) FROM own;
SELECT count(*) FROM own WHERE a = 4294967297;
SELECT count(*) FROM own WHERE a < 4294967297;
SELECT count(*) FROM own WHERE a = 1::bigint;
SELECT count(*) FROM own WHERE a = ANY (ARRAY[1, 2, 4294967297]::bigint[]);
RESET enable_seqscan;
DROP TABLE own;
DROP OPERATOR FAMILY own_ops USING lsm_index CASCADE;
DROP OPERATOR FAMILY own_uuid USING lsm_index CASCADE;
DROP FUNCTION own_code(int), own_code(bigint), own_code(uuid);
-- a default class for a type without codes, and without a function: keys stay btree's
CREATE EXTENSION citext;
CREATE OPERATOR CLASS bare_ops DEFAULT FOR TYPE citext USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 citext_cmp(citext, citext);
CREATE TABLE bare (c citext PRIMARY KEY) USING lsm;
SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.relname = 'bare_pkey';
DROP TABLE bare;
DROP EXTENSION citext CASCADE;
RESET client_min_messages;
