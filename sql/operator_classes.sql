-- Operator classes of types whose codes are put together from others, or that are rarely keys: each
-- type on a heap table with a btree beside an lsm table, with values that are hard to tell apart.
SET client_min_messages = warning;
SET timezone = 'UTC';

SELECT ops_twin('money', '{0,-0.01,0.01,1,-1,92233720368547758.07,-92233720368547758.08,NULL}');
SELECT ops_twin('pg_lsn', '{0/0,0/1,0/FFFFFFFF,1/0,1/1,FFFFFFFF/FFFFFFFF,80000000/0,7FFFFFFF/FFFFFFFF,NULL}');
SELECT ops_twin('xid8', '{0,1,3,4294967295,4294967296,9223372036854775807,9223372036854775808,18446744073709551615,NULL}');
SELECT ops_twin('tid', '{"(0,0)","(0,1)","(0,65535)","(1,0)","(1,1)","(2147483648,1)","(4294967295,0)","(4294967295,65535)",NULL}');
SELECT ops_twin('macaddr', '{00:00:00:00:00:00,ff:ff:ff:ff:ff:ff,08:00:2b:01:02:03,08-00-2b-01-02-04,80:00:00:00:00:00,7f:ff:ff:00:00:00,00:00:00:80:00:00,NULL}');
SELECT ops_twin('macaddr8', '{00:00:00:00:00:00:00:00,ff:ff:ff:ff:ff:ff:ff:ff,08:00:2b:01:02:03,08:00:2b:ff:fe:01:02:03,80:00:00:00:00:00:00:00,00:00:00:00:80:00:00:00,00:00:00:00:7f:00:00:00,NULL}');
SELECT ops_twin('inet', '{0.0.0.0,0.0.0.0/0,255.255.255.255,10.0.0.0/8,10.0.0.1/8,10.0.0.1,10.0.0.1/31,10.0.0.0/31,10.0.0.0/24,10.128.0.0/9,10.1.0.0/16,10.1.2.3/16,11.0.0.0/7,::,::/0,::1,::1/0,10::/8,fe80::1/64,fe80::1,fe80::/64,::ffff:10.0.0.1,ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff,NULL}');
SELECT ops_twin('cidr', '{0.0.0.0/0,255.255.255.255/32,10.0.0.0/8,10.0.0.0/9,10.0.0.0/32,10.0.0.0/24,10.128.0.0/9,10.1.0.0/16,::/0,::/128,::1/128,fe80::/64,fe80::/10,NULL}');
SELECT ops_twin('bit(9)', '{000000000,000000001,111111111,100000000,011111111,010101010,NULL}');
SELECT ops_twin('varbit', '{"",0,1,00,01,10,000,0000000,00000000,000000000,0000000000000000,00000000000000000,000000001,1111111,11111111,111111111,1111111100000000,11111111000000000,NULL}');
SELECT ops_twin('oidvector', '{"",0,1,"0 0","0 1","1 0",4294967295,2147483648,"1 2 3","256 1","1 256",NULL}');
SELECT ops_twin('tsvector', ARRAY['', 'a', 'a:1', 'a:1A', 'a:1,2', 'a:2', 'a:1B', 'b', 'b:1', 'aa', 'ab', 'a b', 'a:1 b', 'a b:1', 'a:1 b:2', '''a b''', 'abc', 'abd:3C,4', 'a:16383', NULL]);

-- arrays: elements first, then how many, then dimensions and lower bounds
SELECT ops_twin('int[]', '{"{}","{NULL}","{0}","{1}","{-1}","{1,NULL}","{NULL,1}","{1,2}","{1,2,3}","{1,2,3,4}","{{1,2},{3,4}}","{{1,2,3,4}}","{{1},{2},{3},{4}}","[0:1]={1,2}","[2:3]={1,2}","[-1:0]={1,2}","{256}","{2147483647}","{-2147483648}","{{{1}}}","{{1}}","[5:5][6:6]={{1}}",NULL}');
SELECT ops_twin('numeric[]', '{"{}","{1}","{1.0}","{1.00,NULL}","{1.000,NULL}","{NaN}","{Infinity}","{-Infinity}","{0}","{0.00}","{-1}","{1.0,2.0}","{1,2}","{10000}","{0.0001}",NULL}');
SELECT ops_twin('float8[]', '{"{0}","{-0}","{0,-0}","{-0,0}","{NaN}","{Infinity}","{-Infinity}","{1e-300}","{-1e-300}","{NaN,1}","{}",NULL}');
SELECT ops_twin('text[]', ARRAY['{}', '{""}', '{NULL}', '{a}', '{A}', '{a,""}', '{a,NULL}', '{ab}', '{a,b}', '{"a b"}', '{a,b,c}', E'{"\x01"}', E'{"\x01\x01"}', E'{"a\x01"}', '{ä}', '{z}', '{{a,b}}', '[0:1]={a,b}', NULL]);
SELECT ops_twin('bpchar[]', ARRAY['{}', '{a}', '{"a "}', '{"a  ",b}', '{a,b}', '{ab}', '{""}', '{" "}', '{NULL}', NULL]);
SELECT ops_twin('varchar(3)[]', ARRAY['{}', '{a}', '{"a "}', '{abc,b}', '{a,b}', NULL]);
SELECT ops_twin('bytea[]', ARRAY['{}', '{"\\x"}', '{"\\x00"}', '{"\\x0000"}', '{"\\x00","\\x00"}', '{"\\x01"}', '{"\\x00ff"}', '{"\\xff","\\x00"}', '{"\\x0001"}', NULL]);
SELECT ops_twin('interval[]', '{"{1 month}","{30 days}","{720 hours}","{31 days}","{-1 day}","{}",NULL}');
SELECT ops_twin('timestamptz[]', '{"{2020-01-01}","{infinity}","{-infinity}","{2020-01-01 00:00+01}","{2019-12-31 23:00}","{}",NULL}');
SELECT ops_twin('uuid[]', '{"{}","{00000000-0000-0000-0000-000000000000}","{ffffffff-ffff-ffff-ffff-ffffffffffff,NULL}",NULL}');
SELECT ops_twin('int2vector', '{"1","1 2","2","-1",NULL}');
SELECT ops_twin('int4range[]', ARRAY['{}', '{empty}', '{"[1,2)","[3,4)"}', '{"[1,2)"}', '{"(,)"}', NULL]);
CREATE COLLATION opc_nd (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION opc_icu (provider = icu, locale = 'de');
SELECT ops_twin('text[]', ARRAY['{a}', '{A}', '{a,b}', '{B}', '{b}', '{a,B}', '{ä}', '{NULL}', '{}', '{az}', NULL], 'COLLATE opc_nd');
SELECT ops_twin('text[]', ARRAY['{a}', '{A}', '{a,b}', '{B}', '{b}', '{a,B}', '{ä}', '{NULL}', '{}', '{az}', NULL], 'COLLATE opc_icu');

-- ranges
SELECT ops_twin('int4range', '{empty,"(,)","[1,2)","[1,1]","(0,2)","[1,)","(,1)","(,1]","[1,3)","[2,3)","[-5,3)","[,5]",NULL}');
SELECT ops_twin('numrange', '{empty,"(,)","[1,2)","[1.0,2.00)","[1,2]","(1,2)","(1,2]","[1,1]","(1,)","[1,)","(,1)","(,1]","[1,NaN]","[-Infinity,1]","(-Infinity,1]",NULL}');
SELECT ops_twin('tstzrange', '{empty,"[2020-01-01,)","[2020-01-01,2020-01-02)","(2020-01-01,2020-01-02)","[-infinity,2020-01-01)","(,2020-01-01)","[,infinity]","(,)",NULL}');
SELECT ops_twin('int8range', '{empty,"[1,2)","[1,9223372036854775807)","[-9223372036854775808,1)",NULL}');
SELECT ops_twin('daterange', '{empty,"[2020-01-01,2020-01-02]","[2020-01-01,2020-01-03)","[2020-01-01,infinity]",NULL}');
SELECT ops_twin('nummultirange', '{"{}","{[1,2)}","{[1.0,2.0)}","{[1,2),[3,4)}","{[1,2]}","{(,)}","{(,1),(2,)}","{[1,2),[3,)}",NULL}');
CREATE TYPE opc_textrange AS RANGE (subtype = text, collation = "C");
CREATE TYPE opc_patternrange AS RANGE (subtype = text, subtype_opclass = text_pattern_ops);
SELECT ops_twin('opc_textrange', ARRAY['empty', '[a,b)', '[a,b]', '(a,b)', '["",b)', '(,a)', '[a,)', '[a,ab)', '[B,a)', NULL]);
SELECT ops_twin('opc_patternrange', ARRAY['empty', '[a,b)', '[a,b]', '["",b)', '(,a)', '[B,a)', NULL]);

-- records
CREATE TYPE colour2 AS ENUM ('red', 'green', 'blue');
ALTER TYPE colour2 ADD VALUE 'black' BEFORE 'red';
CREATE DOMAIN opc_positive AS numeric CHECK (VALUE > 0);
CREATE TYPE opc_inner AS (n numeric, t text COLLATE "C");
CREATE TYPE opc_row AS (a int, b text COLLATE "C", c opc_inner, d int[], p opc_positive);
SELECT ops_twin('opc_row', ARRAY['(,,,,)', '(1,,,,)', '(1,a,,,)', '(1,a,"(1,x)",,)', '(1,a,"(1.0,x)",,)', '(1,a,"(1.00,)",,)', '(1,a,"(,)",,)', '(1,,"(1,x)",,)', '(0,b,,"{1,2}",)',
	'(0,b,,"{1,2}",1)', '(0,b,,"{1,2}",1.0)', '(0,b,,"{1}",)', '(0,b,,"{}",)', '(-1,b,,,)', '(1,"",,,)', '(,x,,,)', NULL]);
SELECT ops_twin('opc_inner[]', ARRAY['{}', '{"(1,a)"}', '{"(1.0,a)"}', '{"(1,)"}', '{"(1,a)","(2,b)"}', '{"(,)"}', '{NULL}', NULL]);
CREATE TYPE opc_enums AS (e colour2, i int);
SELECT ops_twin('opc_enums', ARRAY['(red,1)', '(black,1)', '(blue,)', '(,1)', '(green,2)', NULL]);
SELECT ops_twin('colour2[]', ARRAY['{red}', '{black}', '{blue,red}', '{NULL}', '{}', NULL]);

-- jsonb
SELECT ops_twin('jsonb', ARRAY['null', 'true', 'false', '0', '0.0', '1', '1.0', '1.00', '-1', '1e3', '""', '"a"', '"A"', '"ab"', '"ä"', '[]', '{}', '[null]', '[1]', '[1.0]', '[1,2]', '[[]]', '[[1]]', '[{}]',
	'{"a":1}', '{"a":1.0}', '{"b":1}', '{"a":1,"b":2}', '{"b":2,"a":1.0}', '{"a":[1,2]}', '{"a":{"b":null}}', '{"aa":1}', '{"a":null}', '["1"]', '[true]', '"\u0001"', '{"a":[]}', '{"a":{}}', NULL]);

-- a record that another row type makes: as record_cmp() takes it
CREATE TABLE rh (id int, v opc_inner) USING heap;
CREATE TABLE rl (LIKE rh) USING lsm;
INSERT INTO rh SELECT g, ROW(g % 5, 'x' || g % 3)::opc_inner FROM generate_series(1, 30) g;
INSERT INTO rl TABLE rh;
CREATE INDEX ON rl USING lsm (v);
SET enable_seqscan = off;
SELECT twin($$SELECT * FROM r@ WHERE v = ROW(1::numeric, 'x1'::text COLLATE "C")$$);
SELECT twin($$SELECT * FROM r@ WHERE v >= ROW(3::numeric, 'x1'::text COLLATE "C") AND v < ROW(4::numeric, NULL::text COLLATE "C")$$);
SELECT twin($$SELECT * FROM r@ WHERE v = ROW(1, 'x1')$$);
SELECT twin($$SELECT * FROM r@ WHERE v = ROW(1::numeric)$$);
SELECT twin($$SELECT * FROM r@ WHERE v > ROW(1::numeric, 'x1'::text COLLATE "C", 3)$$);
SELECT twin($$SELECT * FROM r@ WHERE v IN (ROW(1::numeric, 'x1'::text COLLATE "C"), ROW(2::numeric, 'x2'::text COLLATE "C"))$$);
SELECT twin($$SELECT * FROM r@ WHERE v IS NULL$$);

-- row types that change: old values have no new attribute, or NULL
ALTER TYPE opc_inner ADD ATTRIBUTE z int;
INSERT INTO rh VALUES (100, ROW(1, 'x1', 5)), (101, ROW(1, 'x1', NULL)), (102, ROW(1, NULL, 5)), (103, ROW(1, NULL, NULL));
INSERT INTO rl SELECT * FROM rh WHERE id >= 100;
SELECT twin($$SELECT id FROM r@ WHERE v = ROW(1, 'x1', NULL)::opc_inner$$);
SELECT twin($$SELECT id FROM r@ WHERE v > ROW(1, 'x1', 4)::opc_inner AND v < ROW(1, 'x2', 5)::opc_inner$$);
SELECT twin($$SELECT id FROM r@ WHERE v >= ROW(1, NULL, 5)::opc_inner AND v < ROW(2, 'x', 5)::opc_inner$$);
SELECT (SELECT array_agg(v) FROM (SELECT v FROM rl ORDER BY v) s) = (SELECT array_agg(v) FROM (SELECT v FROM rh ORDER BY v) s) AS same_order;
SELECT * FROM lsm_verify('rl');
ALTER TYPE opc_inner DROP ATTRIBUTE t CASCADE;
SELECT count(*) FROM rl WHERE v = ROW(1, NULL)::opc_inner;
INSERT INTO rl VALUES (200, ROW(1, 1));
PREPARE stale AS SELECT count(*) FROM rl WHERE v = ROW(1, NULL)::opc_inner;
EXECUTE stale;
DELETE FROM rl WHERE id = 30;
DELETE FROM rh WHERE id = 30;
VACUUM rl;
SELECT count(*) > 0 AS problems FROM lsm_verify('rl');
REINDEX TABLE rl;
SET enable_seqscan = off;
SELECT twin($$SELECT id FROM r@ WHERE v = ROW(1, NULL)::opc_inner$$);
INSERT INTO rl VALUES (200, ROW(1, 1));
INSERT INTO rh VALUES (200, ROW(1, 1));
SELECT twin($$SELECT id FROM r@ WHERE v = ROW(1, 1)::opc_inner$$);
SELECT * FROM lsm_verify('rl');
DROP TABLE rh, rl;

-- arrays of another element type
CREATE TABLE rl (v varchar[]) USING lsm;
CREATE INDEX rl_v ON rl USING lsm (v);
INSERT INTO rl VALUES ('{a,b}'), (ARRAY['c'::text]);
SELECT v FROM rl WHERE v = '{c}'::varchar[];
SELECT v FROM rl WHERE v = '{c}'::text[];
DROP TABLE rl;

-- what has no codes
CREATE TYPE opc_point AS (p point, i int);
CREATE TABLE rl (a point[], b opc_point, c tsquery, d tsquery[]) USING lsm;
CREATE INDEX ON rl USING lsm (a);
CREATE INDEX ON rl USING lsm (b);
CREATE INDEX ON rl USING lsm (c);
CREATE INDEX ON rl USING lsm (d);
DROP TABLE rl;
-- ... any more
CREATE TABLE rl (v opc_inner) USING lsm;
CREATE INDEX rl_v ON rl USING lsm (v);
INSERT INTO rl VALUES (ROW(1, 2));
ALTER TYPE opc_inner ADD ATTRIBUTE pp point;
SELECT * FROM rl;
INSERT INTO rl VALUES (ROW(1, 2, '(1,2)'));
DROP INDEX rl_v;
INSERT INTO rl VALUES (ROW(1, 2, '(1,2)'));
DROP TABLE rl;

-- long values: packed, and too long
CREATE TABLE rl (id int, a int[], b varbit, j jsonb) USING lsm;
CREATE INDEX rl_a ON rl USING lsm (a DESC);
CREATE INDEX rl_b ON rl USING lsm (b);
CREATE INDEX rl_j ON rl USING lsm (j DESC);
INSERT INTO rl SELECT g, array_agg(i % 7 + g), repeat('01011' || (g % 2)::text, 10000 + g)::varbit, jsonb_agg(i % 7 + g / 10.0) FROM generate_series(1, 6) g, generate_series(1, 2000) i GROUP BY g;
SELECT lsm_flush('rl');
SELECT id FROM rl ORDER BY a DESC;
SELECT id FROM rl WHERE b = repeat('010111', 10003)::varbit;
SELECT id FROM rl ORDER BY j;
SELECT * FROM lsm_verify('rl');
INSERT INTO rl SELECT 7, array_agg(hashint4(i)), NULL, NULL FROM generate_series(1, 4000) i;
DROP TABLE rl;

-- keys of lsm tables are lsm, foreign keys and partitions apart
CREATE TABLE rl (a inet PRIMARY KEY, b int[] UNIQUE, c int4range UNIQUE, d money UNIQUE, e jsonb UNIQUE, f opc_enums UNIQUE, g point[] , UNIQUE (d, c, b), EXCLUDE USING gist (c WITH &&)) USING lsm;
SELECT c.relname, a.amname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam WHERE i.indrelid = 'rl'::regclass ORDER BY 1;
INSERT INTO rl VALUES ('10.0.0.1', '{1}', '[1,2)', 1, '1');
INSERT INTO rl VALUES ('10.0.0.1', '{2}', '[2,3)', 2, '2');
INSERT INTO rl VALUES ('10.0.0.2', '{1}', '[2,3)', 2, '2');
INSERT INTO rl VALUES ('10.0.0.2', '{2}', '[1,2)', 2, '2');
INSERT INTO rl VALUES ('10.0.0.2', '{2}', '[2,3)', 2, '1.0');
INSERT INTO rl VALUES ('10.0.0.1', '{2}', '[2,3)', 2, '2') ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING a, b;
CREATE TABLE rf (a inet REFERENCES rl, b int[] REFERENCES rl (b)) USING lsm;
SELECT c.relname, a.amname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam WHERE i.indrelid = 'rl'::regclass ORDER BY 1;
INSERT INTO rf VALUES ('10.0.0.1', '{2}');
INSERT INTO rf VALUES ('10.0.0.3', NULL);
EXPLAIN (COSTS OFF) SELECT max(a), min(a) FROM rl WHERE a << '10.0.0.0/8';
EXPLAIN (COSTS OFF) SELECT a FROM rl WHERE a << '10.0.0.0/8';
DROP TABLE rf, rl;
RESET enable_seqscan;
