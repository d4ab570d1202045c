-- Operator classes: every type against a btree index on heap
CREATE TYPE colour AS ENUM ('red', 'green', 'blue');
CREATE DOMAIN posint AS int CHECK (VALUE > 0);

-- For each type: the same values into heap and lsm, an index each, and every operator with
-- every value as argument, with each way to scan.  Result: number of comparisons that differ.
CREATE FUNCTION check_type(typ text, vals text[], ops text[] DEFAULT ARRAY['<', '<=', '=', '>=', '>'],
						   opts text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	val text;
	op text;
	bad bigint := 0;
	n bigint := 0;
	dh text;
	dl text;
	way text;
	sorted text := 'SELECT string_agg(coalesce((SELECT count(*) FROM th t WHERE t.x < s.x)::text || (s.x IS NULL)::text, ''null''), '','') FROM (SELECT x FROM @) s';
BEGIN
	EXECUTE format('CREATE TEMP TABLE th (i int, x %s) USING heap', typ);
	EXECUTE format('CREATE TABLE tl (i int, x %s) USING lsm', typ);
	FOR i IN 1 .. array_length(vals, 1) LOOP
		EXECUTE format('INSERT INTO th SELECT %s * 10 + g, %L FROM generate_series(1, 3) g', i, vals[i]);
	END LOOP;
	INSERT INTO tl SELECT * FROM th;
	EXECUTE format('CREATE INDEX tl_x ON tl USING lsm (x %s)', opts);
	-- half of it before a flush, half after
	PERFORM lsm_flush('tl');
	INSERT INTO th SELECT i + 5, x FROM th;
	INSERT INTO tl SELECT i + 5, x FROM tl;
	FOREACH way IN ARRAY ARRAY['enable_indexscan', 'enable_bitmapscan'] LOOP
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true),
			set_config('enable_bitmapscan', 'off', true), set_config('enable_indexonlyscan', 'off', true);
		PERFORM set_config(way, 'on', true), set_config('enable_sort', 'off', true);
		FOREACH op IN ARRAY ops LOOP
			FOREACH val IN ARRAY vals LOOP
				CONTINUE WHEN val IS NULL;
				EXECUTE format('SELECT string_agg(i::text, '','' ORDER BY i) FROM th WHERE x %s %L::%s', op, val, typ) INTO dh;
				EXECUTE format('SELECT string_agg(i::text, '','' ORDER BY i) FROM tl WHERE x %s %L::%s', op, val, typ) INTO dl;
				n := n + 1;
				IF dh IS DISTINCT FROM dl THEN
					bad := bad + 1;
					RAISE WARNING '% % %: heap %, lsm %', typ, op, val, dh, dl;
				END IF;
			END LOOP;
		END LOOP;
		FOREACH op IN ARRAY ARRAY['IS NULL', 'IS NOT NULL'] LOOP
			EXECUTE format('SELECT string_agg(i::text, '','' ORDER BY i) FROM th WHERE x %s', op) INTO dh;
			EXECUTE format('SELECT string_agg(i::text, '','' ORDER BY i) FROM tl WHERE x %s', op) INTO dl;
			n := n + 1;
			IF dh IS DISTINCT FROM dl THEN
				bad := bad + 1;
				RAISE WARNING '% %: heap %, lsm %', typ, op, dh, dl;
			END IF;
		END LOOP;
		IF '<' = ANY (ops) THEN
			-- in terms of how many are less, for equal values may come in any order
			EXECUTE replace(sorted, '@', 'th ORDER BY x') INTO dh;
			EXECUTE replace(sorted, '@', 'tl ORDER BY x') INTO dl;
			n := n + 1;
			IF dh IS DISTINCT FROM dl THEN
				bad := bad + 1;
				RAISE WARNING '% order: heap %, lsm %', typ, dh, dl;
			END IF;
			EXECUTE replace(sorted, '@', 'th ORDER BY x DESC') INTO dh;
			EXECUTE replace(sorted, '@', 'tl ORDER BY x DESC') INTO dl;
			n := n + 1;
			IF dh IS DISTINCT FROM dl THEN
				bad := bad + 1;
				RAISE WARNING '% descending: heap %, lsm %', typ, dh, dl;
			END IF;
		END IF;
	END LOOP;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'on', true),
		set_config('enable_bitmapscan', 'on', true), set_config('enable_indexonlyscan', 'on', true),
		set_config('enable_sort', 'on', true);
	SELECT bad + count(*) INTO bad FROM lsm_verify('tl');
	DROP TABLE th, tl;
	RETURN format('%s comparisons, %s differ', n, bad);
END $$;

SELECT check_type('bool', '{t,f,NULL}');
SELECT check_type('int2', '{0,1,-1,255,256,-256,32767,-32768,NULL}');
SELECT check_type('int4', '{0,1,-1,255,65536,-65536,2147483647,-2147483648,NULL}');
SELECT check_type('int8', '{0,1,-1,4294967296,-4294967296,9223372036854775807,-9223372036854775808,NULL}');
SELECT check_type('oid', '{0,1,4294967295,2147483648,NULL}');
SELECT check_type('float4', '{0,-0,1,-1,1e-30,-1e-30,1e30,-1e30,Infinity,-Infinity,NaN,NULL}');
SELECT check_type('float8', '{0,-0,1,-1,1e-300,-1e-300,1e300,-1e300,Infinity,-Infinity,NaN,0.1,NULL}');
SELECT check_type('numeric', '{0,0.0,1,1.0,1.00,-1,-1.000,10,100,1000,9999,10000,99999,0.1,0.01,0.0001,0.00001,-0.00001,123456789012345678901234567890.123456789,-123456789012345678901234567890.123456789,1e100,1e-100,-1e100,Infinity,-Infinity,NaN,NULL}');
SELECT check_type('text COLLATE "C"', '{"",a,b,aa,ab,A,"a ",ä,zz,"a\\b",NULL}');
SELECT check_type('text', '{"",a,b,aa,ab,A,"a ",ä,zz,NULL}');
SELECT check_type('varchar(20) COLLATE "C"', '{"",a,b,aa,ab,A,"a ",ä,zz,NULL}');
SELECT check_type('char(5) COLLATE "C"', '{"",a,b,aa,ab,"a ","a    ",ä,zz,NULL}');
SELECT check_type('bytea', '{"","\\x00","\\x0000","\\x01","\\x00ff","\\xff","\\xff00","\\xffff",NULL}');
SELECT check_type('uuid', '{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}');
SELECT check_type('date', '{2000-01-01,1999-12-31,0001-01-01,"4713-01-01 BC",infinity,-infinity,NULL}');
SELECT check_type('time', '{00:00,24:00,12:34:56.789012,NULL}');
SELECT check_type('timestamp', '{2000-01-01,1999-12-31 23:59:59.999999,2038-01-19,infinity,-infinity,NULL}');
SELECT check_type('timestamptz', '{2000-01-01 00:00+00,1999-12-31 23:59:59.999999+00,2000-01-01 00:00+01,infinity,-infinity,NULL}');
SELECT check_type('name', '{"",a,b,pg_class,PG,NULL}');
SELECT check_type('"char"', '{"",a,b,A,~,NULL}');
SELECT check_type('colour', '{red,green,blue,NULL}', ARRAY['=']);
SELECT check_type('posint', '{1,2,2147483647,NULL}');
SELECT check_type('int4', '{0,1,-1,255,65536,NULL}', opts => 'DESC');
SELECT check_type('int4', '{0,1,-1,255,65536,NULL}', opts => 'NULLS FIRST');
SELECT check_type('numeric', '{0,1,-1,255,65536.5,1e50,NaN,NULL}', opts => 'DESC NULLS LAST');
SELECT check_type('text COLLATE "C"', '{"",a,b,aa,ab,A,NULL}', opts => 'DESC');
SELECT check_type('bytea', '{"","\\x00","\\x0000","\\x01","\\x00ff","\\xff","\\xff00",NULL}', opts => 'DESC');

-- keys that are equal but differ in bits
CREATE TABLE l (n numeric, f float8, c char(5)) USING lsm;
CREATE INDEX ON l USING lsm (n);
CREATE INDEX ON l USING lsm (f);
CREATE INDEX ON l USING lsm (c);
INSERT INTO l VALUES (1.0, 0.0, 'a'), (1.00, -0.0, 'a  ');
SELECT lsm_flush('l');
INSERT INTO l VALUES (1, 0, 'a');
SET enable_seqscan = off;
SELECT count(*) FROM l WHERE n = 1.000;
SELECT count(*) FROM l WHERE f = -0.0;
SELECT count(*) FROM l WHERE c = 'a ';
-- cross-type comparisons, and constants out of the column's range
CREATE TABLE x (i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, d date, ts timestamp, tz timestamptz, t text, nm name) USING lsm;
CREATE INDEX ON x USING lsm (i2);
CREATE INDEX ON x USING lsm (i4);
CREATE INDEX ON x USING lsm (i8);
CREATE INDEX ON x USING lsm (f4);
CREATE INDEX ON x USING lsm (f8);
CREATE INDEX ON x USING lsm (d);
CREATE INDEX ON x USING lsm (ts);
CREATE INDEX ON x USING lsm (tz);
CREATE INDEX ON x USING lsm (t);
CREATE INDEX ON x USING lsm (nm);
SET timezone = 'UTC';
INSERT INTO x SELECT i, i, i, i, i, '2000-01-01'::date + i, '2000-01-01'::timestamp + i * interval '1 day',
	'2000-01-01'::timestamptz + i * interval '1 day', 'k' || i, 'k' || i FROM generate_series(-300, 300) i;
SELECT lsm_flush('x');
SELECT count(*) FROM x WHERE i2 = 5::int8;
SELECT count(*) FROM x WHERE i2 = 70000::int4;
SELECT count(*) FROM x WHERE i2 < 70000::int4;
SELECT count(*) FROM x WHERE i2 > 70000::int4;
SELECT count(*) FROM x WHERE i2 > (-70000)::int8;
SELECT count(*) FROM x WHERE i4 = 5::int2;
SELECT count(*) FROM x WHERE i4 <= 9223372036854775807;
SELECT count(*) FROM x WHERE i4 >= 5::int8;
SELECT count(*) FROM x WHERE i8 = 5::int2;
SELECT count(*) FROM x WHERE i8 BETWEEN -5::int2 AND 5::int4;
SELECT count(*) FROM x WHERE i4 = ANY ('{1,2,3000000000}'::int8[]);
SELECT count(*) FROM x WHERE f4 = 5::float8;
SELECT count(*) FROM x WHERE f4 = 0.1::float8;
SELECT count(*) FROM x WHERE f4 < 0.1::float8;
SELECT count(*) FROM x WHERE f8 = 5::float4;
SELECT count(*) FROM x WHERE d = '2000-01-06'::timestamp;
SELECT count(*) FROM x WHERE d < '2000-01-06 12:00'::timestamp;
SELECT count(*) FROM x WHERE d >= '2000-01-06 12:00'::timestamptz;
SELECT count(*) FROM x WHERE ts = '2000-01-06'::date;
SELECT count(*) FROM x WHERE ts > '2000-01-06 00:00'::timestamptz;
SELECT count(*) FROM x WHERE tz = '2000-01-06'::date;
SELECT count(*) FROM x WHERE tz <= '2000-01-06 00:00'::timestamp;
SELECT count(*) FROM x WHERE t = 'k5'::name;
SELECT count(*) FROM x WHERE nm = 'k5'::text;
RESET enable_seqscan;
RESET timezone;
DROP TABLE l, x;

-- what a composed column consists of is looked up once, not in each statement, and again when it has changed
CREATE TYPE inner_type AS (a text COLLATE "C", b int[]);
CREATE TYPE outer_type AS (a inner_type, b inner_type[], c int4range);
CREATE TABLE composed (id int, k outer_type, i int4range[]) USING lsm;
CREATE INDEX composed_k ON composed USING lsm (k, i);
CREATE FUNCTION classes_read() RETURNS bigint LANGUAGE sql AS $$ SELECT idx_scan + seq_scan FROM pg_stat_xact_sys_tables WHERE relname = 'pg_opclass' $$;
SET enable_seqscan = off;
INSERT INTO composed VALUES (1, ROW(ROW('x', '{1}'), '{}', '[1,2)'), '{"[1,2)"}');
SELECT id FROM composed WHERE k = ROW(ROW('x', '{1}'), '{}', '[1,2)')::outer_type;
SELECT id FROM composed WHERE k > ROW(ROW('x', '{1}'), '{}', '[1,2)')::outer_type ORDER BY k, i;
BEGIN;
SELECT classes_read() AS before \gset
INSERT INTO composed VALUES (2, ROW(ROW('y', '{1}'), '{}', '[1,2)'), '{"[1,2)"}');
SELECT id FROM composed WHERE id = 2;
SELECT id FROM composed WHERE k = ROW(ROW('y', '{1}'), '{}', '[1,2)')::outer_type;
SELECT id FROM composed WHERE k > ROW(ROW('x', '{1}'), '{}', '[1,2)')::outer_type ORDER BY k, i;
SELECT classes_read() - :before AS classes_read;
COMMIT;
ALTER TYPE inner_type ADD ATTRIBUTE c int;
INSERT INTO composed VALUES (3, ROW(ROW('y', '{1}', 5), '{}', '[1,2)'), '{"[1,2)"}');
SELECT id FROM composed WHERE k = ROW(ROW('y', '{1}', 5), '{}', '[1,2)')::outer_type;
SELECT id FROM composed WHERE k <= ROW(ROW('y', '{1}', NULL), '{}', '[1,2)')::outer_type ORDER BY k, i;
SELECT * FROM lsm_verify('composed');
BEGIN;
ALTER TYPE inner_type ADD ATTRIBUTE d point;
INSERT INTO composed VALUES (4, ROW(ROW('y', '{1}', 5, NULL), '{}', '[1,2)'), NULL);
ROLLBACK;
INSERT INTO composed VALUES (5, ROW(ROW('y', '{1}', 6), '{}', '[1,2)'), NULL);
ALTER TYPE inner_type DROP ATTRIBUTE a;
INSERT INTO composed VALUES (6, ROW(ROW('{1}', 5), '{}', '[1,2)'), NULL);
REINDEX INDEX composed_k;
SELECT id FROM composed WHERE k = ROW(ROW('{1}', 5), '{}', '[1,2)')::outer_type;
SELECT * FROM lsm_verify('composed');
RESET enable_seqscan;
DROP TABLE composed;
DROP TYPE outer_type, inner_type;
DROP FUNCTION classes_read();

-- types and collations that are refused, or fall back
CREATE TABLE l (p point, j tsquery, t text) USING lsm;
CREATE INDEX ON l USING lsm (p);
CREATE INDEX ON l USING lsm (j);
CREATE COLLATION nd (provider = icu, locale = 'und', deterministic = false);
CREATE INDEX ON l USING lsm (t COLLATE nd text_pattern_ops);
DROP TABLE l;
DROP FUNCTION check_type(text, text[], text[], text);
DROP COLLATION nd;
DROP TYPE colour;
DROP DOMAIN posint;
