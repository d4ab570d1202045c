-- lsm_index for every type: what queries find through the index is compared with
-- a copy of the table that has no index.  Queries named "no rows" are expected
-- to return none.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS lsmam;
CREATE SCHEMA index_types;
SET search_path = index_types, public;
SET TimeZone = 'America/New_York';
SET datestyle = 'ISO';

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
ALTER TYPE mood ADD VALUE 'meh' BEFORE 'ok';

-- run a query under some planner settings, return its ids
CREATE FUNCTION ids(query text, settings text[]) RETURNS int[]
LANGUAGE plpgsql AS $$
DECLARE
	setting text;
	result int[];
BEGIN
	FOREACH setting IN ARRAY ARRAY['enable_seqscan', 'enable_indexscan',
		'enable_indexonlyscan', 'enable_bitmapscan', 'enable_sort'] LOOP
		PERFORM set_config(setting, CASE WHEN setting = ANY (settings) THEN 'off' ELSE 'on' END, true);
	END LOOP;
	EXECUTE format('SELECT array_agg(id ORDER BY id) FROM (%s) s', query) INTO result;
	RETURN coalesce(result, '{}');
END $$;

CREATE FUNCTION uses_index(query text, settings text[]) RETURNS bool
LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM ids('SELECT 1 AS id', settings);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		-- a condition that cannot be true needs no scan
		IF line ~ 'Index.* (using|on) ' OR line ~ 'One-Time Filter: false' THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END $$;

-- each condition, by index scan and by bitmap scan, on both tables
CREATE FUNCTION check_quals(quals text[]) RETURNS TABLE (problem text)
LANGUAGE plpgsql AS $$
DECLARE
	qual text;
	tab text;
	way text;
	off text[];
	query text;
	found int[];
	expected int[];
BEGIN
	FOREACH qual IN ARRAY quals LOOP
		expected := ids(format('SELECT id FROM copy WHERE %s', qual), '{}');
		FOREACH tab IN ARRAY ARRAY['on_lsm', 'on_heap'] LOOP
			FOREACH way IN ARRAY ARRAY['index', 'bitmap'] LOOP
				off := CASE way WHEN 'index' THEN ARRAY['enable_seqscan', 'enable_bitmapscan']
					ELSE ARRAY['enable_seqscan', 'enable_indexscan', 'enable_indexonlyscan'] END;
				query := format('SELECT id FROM %I WHERE %s', tab, qual);
				found := ids(query, off);
				IF found <> expected THEN
					problem := format('%s, %s scan: %s instead of %s', query, way, found, expected);
					RETURN NEXT;
				END IF;
				IF NOT uses_index(query, off) THEN
					problem := format('%s: no %s scan', query, way);
					RETURN NEXT;
				END IF;
			END LOOP;
		END LOOP;
	END LOOP;
END $$;

-- three tables with the same rows: an lsm table whose index grows by inserts, a
-- heap table whose index is built at once, and the copy
CREATE FUNCTION make_tables(type text, index_columns text, vals text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	v text;
	i int := 0;
BEGIN
	DROP TABLE IF EXISTS on_lsm, on_heap, copy;
	EXECUTE format('CREATE TABLE copy (id int, k %s) USING heap', type);
	EXECUTE format('CREATE TABLE on_lsm (id int, k %s) USING lsm', type);
	EXECUTE format('CREATE TABLE on_heap (id int, k %s) USING heap', type);
	EXECUTE format('CREATE INDEX ON on_lsm USING lsm_index (%s)', index_columns);
	FOREACH v IN ARRAY vals || vals[1:3] || ARRAY['NULL', 'NULL'] LOOP
		i := i + 1;
		EXECUTE format('INSERT INTO copy VALUES (%s, %s)', i, v);
	END LOOP;
	INSERT INTO on_lsm SELECT * FROM copy;
	INSERT INTO on_heap SELECT * FROM copy;
	-- and some that go away
	INSERT INTO on_lsm SELECT id + 1000, k FROM copy;
	INSERT INTO on_heap SELECT id + 1000, k FROM copy;
	UPDATE on_lsm SET id = id + 1000 WHERE id > 1000;
	DELETE FROM on_lsm WHERE id > 1000;
	DELETE FROM on_heap WHERE id > 1000;
	EXECUTE format('CREATE INDEX ON on_heap USING lsm_index (%s)', index_columns);
END $$;

-- all operators with all constants, arrays of them, and NULLs
CREATE FUNCTION check_type(type text, index_columns text, vals text[], constants text[])
RETURNS TABLE (problem text)
LANGUAGE plpgsql AS $$
DECLARE
	quals text[];
	op text;
	c text;
BEGIN
	PERFORM make_tables(type, index_columns, vals);
	quals := ARRAY['k IS NULL', 'k IS NOT NULL', 'k = NULL', 'k > NULL'];
	FOREACH op IN ARRAY ARRAY['<', '<=', '=', '>=', '>'] LOOP
		FOREACH c IN ARRAY constants LOOP
			quals := quals || format('k %s %s', op, c);
		END LOOP;
		quals := quals
			|| format('k %s ANY (ARRAY[%s, NULL, %s, %s])', op,
				constants[1], constants[array_length(constants, 1)], constants[1])
			|| format('k %s %s AND k IS NOT NULL AND k >= %s', op, constants[2], constants[1])
			|| format('k %s ANY (ARRAY[%s, NULL]) AND k IS NULL', op, constants[1]);
	END LOOP;
	RETURN QUERY SELECT * FROM check_quals(quals);
END $$;

-- index order, forwards and backwards, without a sort
CREATE FUNCTION check_order(columns text) RETURNS TABLE (problem text)
LANGUAGE plpgsql AS $$
DECLARE
	tab text;
	query text;
	bad bigint;
	n bigint;
	clause text;
BEGIN
	FOREACH tab IN ARRAY ARRAY['on_lsm', 'on_heap'] LOOP
		FOREACH clause IN ARRAY ARRAY['k', 'k DESC', columns] LOOP
			query := format('SELECT id, k FROM %I ORDER BY %s', tab, clause);
			PERFORM ids('SELECT 1 AS id', ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_sort']);
			EXECUTE format('SELECT count(*), count(*) FILTER (WHERE CASE
					WHEN i = 1 THEN false
					WHEN k IS NULL OR p IS NULL THEN (k IS NULL) <> (p IS NULL) AND (k IS NULL) = %L
					WHEN %L THEN k > p
					ELSE k < p END)
				FROM (SELECT k, lag(k) OVER () AS p, row_number() OVER () AS i FROM (%s) s) t',
				clause ~ 'FIRST' OR (clause ~ 'DESC' AND clause !~ 'LAST'), clause ~ 'DESC',
				query) INTO n, bad;
			IF bad > 0 THEN
				problem := format('%s: %s rows out of order', query, bad);
				RETURN NEXT;
			END IF;
			IF n <> (SELECT count(*) FROM copy) THEN
				problem := format('%s: %s rows', query, n);
				RETURN NEXT;
			END IF;
		END LOOP;
	END LOOP;
END $$;

-- plan of a query that wants an order, with sorts discouraged
CREATE FUNCTION sorts(query text) RETURNS bool
LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM ids('SELECT 1 AS id', ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_sort']);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Sort' THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END $$;

-- operator classes are complete and valid
SELECT opcname FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
WHERE a.amname = 'lsm_index' AND NOT amvalidate(c.oid); -- no rows
SELECT opfname, amoplefttype::regtype, amoprighttype::regtype, amopstrategy, amopopr::regoperator
FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily JOIN pg_am a ON a.oid = f.opfmethod
WHERE a.amname = 'btree' AND opfname IN (SELECT opfname FROM pg_opfamily f JOIN pg_am a ON a.oid = f.opfmethod WHERE amname = 'lsm_index')
EXCEPT
SELECT opfname, amoplefttype::regtype, amoprighttype::regtype, amopstrategy, amopopr::regoperator
FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily JOIN pg_am a ON a.oid = f.opfmethod
WHERE a.amname = 'lsm_index'; -- no rows

-- bool; PostgreSQL 15 turns "k = true" into "k" and knows only its own boolean operator
-- families then, so these are filters, not index conditions
SELECT * FROM check_type('bool', 'k', '{true, false}', '{true, false}') WHERE problem !~ '= (true|false): no ';
SELECT * FROM check_quals('{k, NOT k, k IS TRUE, k IS NOT FALSE AND k IS NOT NULL}') WHERE problem !~ ': no ';
SELECT * FROM check_quals('{"k = ANY (''{t}'')", "k = ANY (''{f,f}'')", "k = ANY (''{f,t,NULL}'')", "k = (id > -1)", "k = (SELECT true)"}') WHERE problem !~ 'id >.*: no ';
SELECT * FROM check_order('k');

-- integers, each with constants of all three
SELECT t, p.* FROM unnest('{int2, int4, int8}'::text[]) t,
	check_type(t, 'k', '{0, 1, -1, 32767, -32768, 255, 256, 42}',
		'{1, 0::int2, -1::int8, 32767, -32768, 32768, -32769, 2147483648, -2147483649, 9223372036854775807, -9223372036854775808}') p;
SELECT * FROM check_type('int8', 'k', '{0, 9223372036854775807, -9223372036854775808, 2147483648, -2147483649}',
	'{0, 9223372036854775807, -9223372036854775808, 2147483648, -1}');
SELECT * FROM check_order('k');
SELECT * FROM check_type('int4', 'k DESC', '{0, 1, -1, 2147483647, -2147483648, 65536, 42}', '{1, -1, 42, 41, 2147483648}');
SELECT * FROM check_order('k DESC');
SELECT * FROM check_type('int4', 'k DESC NULLS LAST', '{0, 1, -1, 2147483647, 42}', '{1, -1, 42, 41}');
SELECT * FROM check_order('k DESC NULLS LAST');
SELECT * FROM check_type('int4', 'k NULLS FIRST', '{0, 1, -1, 2147483647, 42}', '{1, -1, 42, 41}');
SELECT * FROM check_order('k NULLS FIRST');

-- oid, "char"
SELECT * FROM check_type('oid', 'k', '{0, 1, 4294967295, 2147483648}', '{1, 4294967295, 2147483647}');
SELECT * FROM check_order('k');
SELECT * FROM check_type('"char"', 'k', ARRAY[$$'a'$$, $$'b'$$, $$''$$, $$(-1)::"char"$$, $$127::"char"$$, $$(-128)::"char"$$],
	ARRAY[$$'a'::"char"$$, $$(-1)::"char"$$, $$(-128)::"char"$$, $$''::"char"$$]);
SELECT * FROM check_order('k');

-- floats
SELECT t, p.* FROM unnest('{float4, float8}'::text[]) t,
	check_type(t, 'k', ARRAY['0', $$'-0'$$, '1', '-1', '0.1', '-0.1', '1e-40', '3.4028235e38', $$'NaN'$$, $$'Infinity'$$, $$'-Infinity'$$, '16777217'],
		ARRAY['0::float8', '0.1::float8', '0.1::float4', $$'-0'::float4$$, $$'NaN'::float8$$, $$'NaN'::float4$$, '1e300::float8', '-1e300::float8',
			'1e-300::float8', '-1e-300::float8', $$'Infinity'::float8$$, $$'-Infinity'::float4$$, '16777217::float8', '16777216::float4']) p;
SELECT * FROM check_order('k');
SELECT * FROM check_type('float4', 'k DESC', ARRAY['0', '0.1', '-5', $$'NaN'$$, $$'-Infinity'$$], ARRAY['0.1::float8', '0::float8', '1e300::float8', '-5::float4']);
SELECT * FROM check_order('k DESC');

-- numeric
SELECT * FROM check_type('numeric', 'k', ARRAY['0', '0.00', '1', '1.0', '1.00', '-1', '1.5', '1.5001', '10000', '9999', '10001', '0.0001', '0.00001',
		'-1.5', '-1.5001', '-10000', '1e100', '-1e100', '1e-100', '1e-1000', '123456789012345678901234567890.123', $$'NaN'$$, $$'Infinity'$$, $$'-Infinity'$$],
	ARRAY['0', '1.000', '1.5', '-1.5', '10000.0', '9999.9999', '1e100', '1e99', '-1e100', '0.00001', '1e-100', $$'NaN'::numeric$$, $$'Infinity'::numeric$$, $$'-Infinity'::numeric$$]);
SELECT * FROM check_order('k');
SELECT * FROM check_type('numeric', 'k DESC', ARRAY['0', '1.0', '-1', '1.5', '1.5001', '-1.5001', $$'NaN'$$, $$'Infinity'$$], ARRAY['0', '1.00', '-1.5', '1.5', $$'NaN'::numeric$$]);
SELECT * FROM check_order('k DESC');
-- 300 pseudo-random ones
SELECT * FROM make_tables('numeric', 'k', (SELECT array_agg((((i * 7919) % 1000 - 500) * 10.0 ^ ((i * 31) % 23 - 11))::text) FROM generate_series(1, 300) i));
SELECT * FROM check_order('k');

-- strings under "C": ordered
SELECT t, p.* FROM unnest('{text, varchar, varchar(20)}'::text[]) t,
	check_type(t || ' COLLATE "C"', 'k', ARRAY[$$''$$, $$'a'$$, $$'ab'$$, $$'abc'$$, $$'b'$$, $$'B'$$, $$'é'$$, $$'a '$$, $$'a'||chr(1)$$, $$'zzzzzzzzzzzzzzzzzzz'$$],
		ARRAY[$$'a'$$, $$''$$, $$'ab'$$, $$'abb'$$, $$'é'$$, $$'a '$$, $$'ab'::name$$, $$'c'::varchar$$]) p;
SELECT * FROM check_order('k COLLATE "C"');
SELECT * FROM check_type('text COLLATE "C"', 'k DESC', ARRAY[$$''$$, $$'a'$$, $$'ab'$$, $$'abc'$$, $$'a'||chr(1)$$, $$'b'$$], ARRAY[$$'a'$$, $$''$$, $$'ab'$$, $$'abb'$$]);
SELECT * FROM check_order('k COLLATE "C" DESC');
SELECT * FROM check_type('bpchar COLLATE "C"', 'k', ARRAY[$$''$$, $$'a'$$, $$'a  '$$, $$'ab'$$, $$'a b'$$, $$' a'$$], ARRAY[$$'a'::bpchar$$, $$'a   '::bpchar$$, $$''::bpchar$$, $$'a b '::bpchar$$]);
SELECT * FROM check_order('k COLLATE "C"');
SELECT * FROM check_type('char(5) COLLATE "C"', 'k', ARRAY[$$''$$, $$'a'$$, $$'ab'$$, $$'a b'$$], ARRAY[$$'a'::bpchar$$, $$'a   '::char(5)$$, $$''::bpchar$$]);
SELECT * FROM check_order('k COLLATE "C"');
SELECT * FROM check_type('name', 'k', ARRAY[$$''$$, $$'a'$$, $$'ab'$$, $$'b'$$, $$repeat('x', 63)$$], ARRAY[$$'a'::name$$, $$'ab'::text$$, $$repeat('x', 63)$$, $$repeat('x', 64)$$, $$'aa'$$]);
SELECT * FROM check_order('k');
SELECT * FROM check_type('bytea', 'k', ARRAY[$$''$$, $$'\x00'$$, $$'\x0000'$$, $$'\x0001'$$, $$'\x00ff'$$, $$'\x01'$$, $$'\xff'$$, $$'\xff00'$$, $$'\xffff'$$],
	ARRAY[$$'\x00'::bytea$$, $$''::bytea$$, $$'\x0000'::bytea$$, $$'\x00fe'::bytea$$, $$'\xff'::bytea$$, $$'\xff01'::bytea$$]);
SELECT * FROM check_order('k');
SELECT * FROM check_type('bytea', 'k DESC', ARRAY[$$''$$, $$'\x00'$$, $$'\x0000'$$, $$'\x00ff'$$, $$'\x01'$$, $$'\xff'$$, $$'\xff00'$$], ARRAY[$$'\x00'::bytea$$, $$''::bytea$$, $$'\xff'::bytea$$]);
SELECT * FROM check_order('k DESC');

-- a collation of ICU: in order
CREATE COLLATION german (provider = icu, locale = 'de');
SELECT t, p.* FROM unnest('{text, varchar(20)}'::text[]) t,
	check_type(t || ' COLLATE german', 'k', ARRAY[$$''$$, $$'a'$$, $$'ab'$$, $$'A'$$, $$'b'$$, $$'B'$$, $$'ä'$$, $$'a '$$, $$'z'$$],
		ARRAY[$$'a'$$, $$'B'$$, $$'ä'$$, $$''$$, $$'aa'$$]) p;
SELECT sorts('SELECT k FROM on_lsm ORDER BY k'), sorts('SELECT k FROM on_heap ORDER BY k');
SELECT * FROM check_type('bpchar COLLATE german', 'k', ARRAY[$$''$$, $$'a '$$, $$'ab'$$, $$'A'$$, $$'ä'$$], ARRAY[$$'a'::bpchar$$, $$'B'::bpchar$$, $$'ä  '::bpchar$$]);
SELECT (SELECT array_agg(k) FROM (SELECT k FROM on_lsm ORDER BY k) s) = (SELECT array_agg(k) FROM (SELECT k FROM copy ORDER BY k) s) AS same_order;
SELECT (SELECT (min(k), max(k)) FROM on_lsm) = (SELECT (min(k), max(k)) FROM copy) AS same_extremes;
-- and by bytes
SELECT * FROM make_tables('text COLLATE german', 'k text_pattern_ops', ARRAY[$$'a'$$, $$'B'$$, $$'ä'$$, $$'b'$$]);
SELECT * FROM check_quals(ARRAY[$$k ~<~ 'b'$$, $$k ~<=~ 'b'$$, $$k = 'B'$$, $$k ~>=~ 'b'$$, $$k ~>~ 'B'$$, $$k ~>~ 'B' AND k ~<~ 'b'$$]);
SELECT * FROM make_tables('bpchar COLLATE german', 'k bpchar_pattern_ops', ARRAY[$$'a  '$$, $$'B'$$, $$'ä'$$, $$'b '$$]);
SELECT * FROM check_quals(ARRAY[$$k ~<~ 'b'::bpchar$$, $$k ~<=~ 'b'::bpchar$$, $$k = 'B '::bpchar$$, $$k ~>=~ 'b '::bpchar$$, $$k ~>~ 'B'::bpchar$$]);

-- uuid
SELECT * FROM check_type('uuid', 'k', ARRAY[$$'00000000-0000-0000-0000-000000000000'$$, $$'ffffffff-ffff-ffff-ffff-ffffffffffff'$$, $$'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'$$],
	ARRAY[$$'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid$$, $$'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12'::uuid$$]);
SELECT * FROM check_order('k');

-- dates and times, with each other; clocks were set forward on 2024-03-10 and back on 2024-11-03
SELECT t, p.* FROM unnest('{date, timestamp, timestamptz}'::text[]) t,
	check_type(t, 'k', ARRAY[$$'2024-03-09'$$, $$'2024-03-10'$$, $$'2024-03-10 01:59:59'$$, $$'2024-03-10 02:30'$$, $$'2024-03-10 03:00'$$, $$'2024-03-10 03:30'$$,
			$$'2024-11-03 00:30'$$, $$'2024-11-03 01:30'$$, $$'2024-11-03 02:00'$$, $$'1999-12-31 23:59:59.999999'$$, $$'2000-01-01'$$, $$'infinity'$$, $$'-infinity'$$, $$'4713-01-01 BC'$$, $$'294276-12-31'$$],
		ARRAY[$$'2024-03-10'::date$$, $$'2024-03-10 02:30'::timestamp$$, $$'2024-03-10 03:30'::timestamptz$$, $$'2024-03-10 03:00-04'::timestamptz$$, $$'2024-11-03 01:30-04'::timestamptz$$, $$'2024-11-03 01:30-05'::timestamptz$$,
			$$'2024-11-03 05:00+00'::timestamptz$$, $$'2024-03-10 03:30'::timestamp$$, $$'infinity'::date$$, $$'infinity'::timestamp$$, $$'-infinity'::timestamptz$$, $$'5874897-12-31'::date$$, $$'1999-12-31'::date$$,
			$$'1999-12-31 23:59:59.999999'::timestamp$$, $$'2000-01-01'::timestamptz$$, $$'294276-12-31 23:59:59.999999'::timestamp$$, $$'4714-11-24 BC'::date$$]) p;
SELECT * FROM check_order('k');
SELECT * FROM check_type('date', 'k', ARRAY[$$'5874897-12-31'$$, $$'2024-03-10'$$, $$'infinity'$$, $$'4714-11-24 BC'$$],
	ARRAY[$$'2024-03-10 00:00:00.000001'::timestamp$$, $$'294276-12-31 23:59:59.999999'::timestamp$$, $$'294276-12-31 23:59:59.999999+00'::timestamptz$$, $$'infinity'::timestamptz$$, $$'4714-11-24 00:00:00+00 BC'::timestamptz$$]);
SELECT * FROM check_order('k');
SELECT * FROM check_type('timestamp', 'k DESC', ARRAY[$$'2024-03-10'$$, $$'2024-03-10 02:30'$$, $$'2024-03-10 03:30'$$, $$'infinity'$$],
	ARRAY[$$'2024-03-10'::date$$, $$'2024-03-10 03:30'::timestamptz$$, $$'5874897-12-31'::date$$, $$'2024-03-10 02:30'::timestamp$$]);
SELECT * FROM check_order('k DESC');
-- another zone, same index
SET TimeZone = 'Pacific/Kiritimati';
SELECT * FROM check_quals(ARRAY[$$k = '2024-03-10 03:30'::timestamptz$$, $$k < '2024-03-10 03:30'::timestamptz$$, $$k >= '2024-03-10 02:30'::timestamptz$$,
	$$k = ANY (ARRAY['2024-03-10 02:30'::timestamptz, '2024-03-10'::timestamptz])$$]);
SET TimeZone = 'America/New_York';
SELECT * FROM check_type('time', 'k', ARRAY[$$'00:00'$$, $$'24:00'$$, $$'12:34:56.789'$$, $$'23:59:59.999999'$$], ARRAY[$$'12:34:56.789'::time$$, $$'24:00'::time$$, $$'00:00:01'::time$$]);
SELECT * FROM check_order('k');
SELECT * FROM check_type('timetz', 'k', ARRAY[$$'00:00+00'$$, $$'24:00-12'$$, $$'12:00+00'$$, $$'13:00+01'$$, $$'11:00-01'$$, $$'00:00+14'$$], ARRAY[$$'12:00+00'::timetz$$, $$'13:00+01'::timetz$$, $$'12:30+00'::timetz$$, $$'24:00-12'::timetz$$]);
SELECT * FROM check_order('k');
SELECT * FROM check_type('interval', 'k', ARRAY[$$'0'$$, $$'1 month'$$, $$'30 days'$$, $$'720 hours'$$, $$'-1 day'$$, $$'1 day -24 hours'$$, $$'178000000 years'$$, $$'-178000000 years'$$, $$'1 us'$$],
	ARRAY[$$'30 days'::interval$$, $$'0'::interval$$, $$'1 month 1 us'::interval$$, $$'-24 hours'::interval$$, $$'178000000 years'::interval$$]);
SELECT * FROM check_order('k');

-- enums: in the order of labels
SELECT * FROM check_type('mood', 'k', ARRAY[$$'sad'$$, $$'meh'$$, $$'ok'$$, $$'happy'$$], ARRAY[$$'meh'::mood$$, $$'ok'::mood$$, $$'happy'::mood$$]);
SELECT sorts('SELECT k FROM on_lsm ORDER BY k'), sorts('SELECT k FROM on_heap ORDER BY k');
SELECT (SELECT array_agg(k) FROM (SELECT k FROM on_lsm ORDER BY k) s) = (SELECT array_agg(k) FROM (SELECT k FROM copy ORDER BY k) s) AS same_order;

-- domains
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
SELECT * FROM check_type('positive', 'k', '{1, 2, 3}', '{1, 2, 4}');
SELECT * FROM check_order('k');

-- several columns
CREATE TABLE many_copy (id int, a int, b text COLLATE "C", c numeric, d mood) USING heap;
INSERT INTO many_copy
SELECT i, nullif(i % 7, 6), nullif('b' || i % 5, 'b4'), nullif((i % 4)::numeric / 2, 1.5), (enum_range(NULL::mood))[1 + i % 4]
FROM generate_series(1, 1000) i;
CREATE TABLE many (LIKE many_copy) USING lsm;
CREATE INDEX many_key ON many USING lsm_index (a, b DESC, c NULLS FIRST, d) INCLUDE (id);
INSERT INTO many SELECT * FROM many_copy;
ANALYZE many;

CREATE FUNCTION check_many(quals text[]) RETURNS TABLE (problem text)
LANGUAGE plpgsql AS $$
DECLARE
	qual text;
	off text[];
	expected int[];
	found int[];
BEGIN
	FOREACH qual IN ARRAY quals LOOP
		expected := ids('SELECT id FROM many_copy WHERE ' || qual, '{}');
		FOREACH off SLICE 1 IN ARRAY ARRAY[['enable_seqscan', 'enable_bitmapscan', 'enable_indexonlyscan'],
			['enable_seqscan', 'enable_bitmapscan', 'enable_bitmapscan'],
			['enable_seqscan', 'enable_indexscan', 'enable_indexonlyscan']] LOOP
			found := ids('SELECT id FROM many WHERE ' || qual, off);
			IF found <> expected THEN
				problem := format('%s without %s: %s rows instead of %s', qual, off,
					cardinality(found), cardinality(expected));
				RETURN NEXT;
			END IF;
		END LOOP;
	END LOOP;
END $$;

SELECT * FROM check_many(ARRAY[
	'a = 3',
	$$a = 3 AND b = 'b2'$$,
	$$a = 3 AND b = 'b2' AND c = 0.50 AND d = 'sad'$$,
	$$a = 3 AND b = 'b2' AND c = 0.50 AND d = ANY ('{sad, happy, meh, ok}')$$,
	$$a = ANY ('{1, 3, 5, 3, 99, NULL}') AND b = ANY ('{b1, b2, x}') AND c = ANY ('{0, 1.0}') AND d = ANY ('{sad, happy}')$$,
	$$a = 3 AND b < 'b2'$$, $$a = 3 AND b <= 'b2'$$, $$a = 3 AND b > 'b2'$$, $$a = 3 AND b >= 'b2'$$,
	$$a = 3 AND b > 'b0' AND b < 'b3' AND c > 0$$,
	$$a > 2 AND a < 5$$, $$a >= 2 AND a <= 5 AND b = 'b1'$$, $$a > 2 AND c = 0.5 AND d = 'ok'$$,
	$$a IS NULL$$, $$a IS NULL AND b IS NULL AND c IS NULL$$, $$a IS NULL AND b = 'b1' AND c IS NULL AND d = 'sad'$$,
	$$a IS NOT NULL AND b IS NULL$$, $$a = 2 AND b IS NOT NULL AND c IS NULL$$, $$c IS NULL$$, $$c < 1$$, $$b = 'b3'$$,
	$$b = ANY ('{b0, b3}') AND d > 'meh'$$, $$a = 1 AND d < 'ok'$$, $$a = 1 AND b = 'b1' AND d >= 'ok'$$,
	$$a > 5 AND a < 3$$, $$a = 1 AND a = 2$$, $$a = 1 AND a IS NULL$$, $$a = ANY ('{}'::int[])$$, $$a = ANY (NULL::int[])$$,
	$$a = ANY ('{1,2,3}') AND a = ANY ('{2,3,4}') AND a > 2$$, $$a < ANY ('{1,3}')$$, $$a > ANY ('{1,3,NULL}') AND b = 'b1'$$,
	$$(a, b) > (3, 'b2')$$, $$(a, b) <= (3, 'b2') AND c = 0$$, $$(a, c) >= (4, 0.5)$$, $$a = 10000000000$$, $$a < 10000000000 AND b = 'b0'$$]);

-- index-only scans give back what is in the table
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT a, b, d, id FROM many WHERE a = 3 AND b >= 'b2';
-- an enum behind the first column
EXPLAIN (COSTS OFF) SELECT a FROM many WHERE a < 3 ORDER BY a;
SELECT a, b, d, id FROM many WHERE a = 3 AND b >= 'b2' EXCEPT SELECT a, b, d, id FROM many_copy WHERE a = 3 AND b >= 'b2';
SELECT count(*) FROM (SELECT a, b, d, id FROM many WHERE a = 3 AND b >= 'b2') s;
SELECT count(*) FROM (SELECT a, b, d, id FROM many_copy WHERE a = 3 AND b >= 'b2') s;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- types whose values come back from the index
CREATE TABLE back_copy (b bool, i2 int2, i4 int4, i8 int8, o oid, c "char", t text, n name, y bytea, u uuid,
	d date, tm time, tz timetz, ts timestamp, tstz timestamptz, m mood, x numeric, v varchar(10), a int[]) USING heap;
INSERT INTO back_copy VALUES
	(true, -5, 5, -5, 5, 'x', 'täxt', 'näme', '\x00ff0001', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
		'2024-02-29', '12:34:56.789', '12:34:56+05:30', '2024-02-29 12:34', '2024-02-29 12:34+00', 'meh', 1.500, 'varchar', '{1,2,3}'),
	(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(false, 32767, -1, 1, 0, '', '', '', '', 'ffffffff-ffff-ffff-ffff-ffffffffffff',
		'-infinity', '24:00', '00:00-12', 'infinity', '-infinity', 'sad', -0.00, '', NULL);
CREATE TABLE back (LIKE back_copy) USING lsm;
CREATE INDEX back_up ON back USING lsm_index (b, i2, i4, i8, o, c, t, n, y, u) INCLUDE (x, v, a);
CREATE INDEX back_down ON back USING lsm_index (d DESC, tm DESC, tz DESC, ts DESC, tstz DESC, m DESC, t DESC, y DESC, n DESC, i8 DESC) INCLUDE (x);
INSERT INTO back SELECT * FROM back_copy;
VACUUM ANALYZE back;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT b, i2, i4, i8, o, c, t, n, y, u, x, v, a FROM back;
EXPLAIN (COSTS OFF) SELECT d, tm, tz, ts, tstz, m, t, y, n, i8, x FROM back;
SELECT b, i2, i4, i8, o, c, t, n, y, u, x::text, v, a FROM back EXCEPT SELECT b, i2, i4, i8, o, c, t, n, y, u, x::text, v, a FROM back_copy;
SELECT d, tm, tz::text, ts, tstz, m, t, y, n, i8, x::text FROM back EXCEPT SELECT d, tm, tz::text, ts, tstz, m, t, y, n, i8, x::text FROM back_copy;
SELECT count(*) FROM (SELECT b, i2, i4, i8, o, c, t, n, y, u, x, v, a FROM back) s;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- index-only scans of a heap table, before and after VACUUM
CREATE TABLE visible (k int, v text) USING heap;
CREATE INDEX visible_key ON visible USING lsm_index (k) INCLUDE (v);
INSERT INTO visible SELECT i % 100, 'v' || i FROM generate_series(1, 2000) i;
DELETE FROM visible WHERE k % 3 = 0;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*), sum(k), min(v), max(v) FROM visible WHERE k BETWEEN 10 AND 50;
VACUUM visible;
EXPLAIN (COSTS OFF) SELECT k, v FROM visible WHERE k BETWEEN 10 AND 50;
SELECT count(*), sum(k), min(v), max(v) FROM visible WHERE k BETWEEN 10 AND 50;
INSERT INTO visible SELECT i % 100, 'w' || i FROM generate_series(1, 2000) i;
SELECT count(*), sum(k), min(v), max(v) FROM visible WHERE k BETWEEN 10 AND 50;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- scrolling: forwards, backwards, past the ends
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
BEGIN;
DECLARE scroll SCROLL CURSOR FOR SELECT k FROM visible WHERE k = ANY ('{1, 4, 7}') AND v = ANY ('{v1, v4, v7, w1, w4}') ORDER BY k;
FETCH FORWARD 2 FROM scroll;
FETCH BACKWARD 1 FROM scroll;
FETCH FORWARD ALL FROM scroll;
FETCH BACKWARD 2 FROM scroll;
FETCH BACKWARD ALL FROM scroll;
FETCH FORWARD 1 FROM scroll;
FETCH LAST FROM scroll;
FETCH PRIOR FROM scroll;
COMMIT;
BEGIN;
DECLARE scroll SCROLL CURSOR FOR SELECT k, v FROM visible WHERE k > 96 AND v < 'v4' ORDER BY k DESC;
FETCH FORWARD 3 FROM scroll;
FETCH BACKWARD 2 FROM scroll;
FETCH ABSOLUTE -1 FROM scroll;
COMMIT;

-- merge joins restore marks; MIN, MAX
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
CREATE TABLE left_side (k int, v int) USING lsm;
CREATE TABLE right_side (k int, v int) USING lsm;
CREATE INDEX ON left_side USING lsm_index (k);
CREATE INDEX ON right_side USING lsm_index (k);
INSERT INTO left_side SELECT i % 50, i FROM generate_series(1, 500) i;
INSERT INTO right_side SELECT i % 70, i FROM generate_series(1, 700) i;
INSERT INTO right_side VALUES (NULL, 1), (NULL, 2);
ANALYZE left_side;
ANALYZE right_side;
SELECT sorts('SELECT count(*), sum(l.v * r.v) FROM left_side l JOIN right_side r USING (k)');
SELECT count(*), sum(l.v * r.v) FROM left_side l JOIN right_side r USING (k);
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_material;
SELECT count(*), sum(l.v * r.v) FROM (SELECT * FROM left_side OFFSET 0) l JOIN (SELECT * FROM right_side OFFSET 0) r USING (k);
EXPLAIN (COSTS OFF) SELECT min(k), max(k) FROM right_side;
SELECT min(k), max(k) FROM right_side;
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET enable_sort;

-- expressions and predicates
CREATE INDEX many_expression ON many USING lsm_index ((a * 10 + 1), lower(b)) WHERE c IS NOT NULL;
ANALYZE many;
SELECT * FROM check_many(ARRAY[
	$$a * 10 + 1 = 31 AND lower(b) = 'b2' AND c IS NOT NULL$$,
	$$a * 10 + 1 > 31 AND c IS NOT NULL$$,
	$$a * 10 + 1 = ANY ('{11, 51}') AND lower(b) > 'b1' AND c IS NOT NULL$$]);

-- rows come and go
DELETE FROM many WHERE id % 3 = 0;
DELETE FROM many_copy WHERE id % 3 = 0;
UPDATE many SET a = a + 1, b = b || 'x' WHERE id % 5 = 0;
UPDATE many_copy SET a = a + 1, b = b || 'x' WHERE id % 5 = 0;
SELECT * FROM check_many(ARRAY['a = 3', $$a = 3 AND b = 'b2'$$, 'a > 3', 'a IS NULL', $$b = 'b0x'$$, 'c = 0.5', $$a * 10 + 1 > 31 AND c IS NOT NULL$$]);
VACUUM many;
SELECT * FROM check_many(ARRAY['a = 3', $$a = 3 AND b = 'b2'$$, 'a > 3', 'a IS NULL', $$b = 'b0x'$$, 'c = 0.5', $$a * 10 + 1 > 31 AND c IS NOT NULL$$]);
REINDEX INDEX many_key;
REINDEX INDEX CONCURRENTLY many_expression;
SELECT * FROM check_many(ARRAY['a = 3', $$a = 3 AND b = 'b2'$$, 'a > 3', 'a IS NULL', $$b = 'b0x'$$, 'c = 0.5', $$a * 10 + 1 > 31 AND c IS NOT NULL$$]);
CREATE INDEX CONCURRENTLY many_later ON many USING lsm_index (c, a);
SELECT * FROM check_many(ARRAY['a = 3', 'c = 0.5 AND a = 2', 'c > 0.5 AND a = 2', 'c IS NULL']);
CLUSTER many USING many_key;
SELECT * FROM check_many(ARRAY['a = 3', 'c = 0.5 AND a = 2', 'c > 0.5 AND a = 2', 'c IS NULL']);
TRUNCATE many;
SELECT * FROM check_many(ARRAY['a = 3 AND false']);
SELECT count(*) FROM many WHERE a = 3;

-- what is refused
CREATE TABLE refused (t text, p point, big text COLLATE "C") USING heap;
CREATE COLLATION ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE INDEX ON refused USING lsm_index (t COLLATE ignore_case text_pattern_ops);
CREATE INDEX ON refused USING lsm_index (p);
CREATE INDEX refused_big ON refused USING lsm_index (big);
CREATE FUNCTION noise(bytes int) RETURNS text LANGUAGE sql IMMUTABLE
	AS $$ SELECT left(string_agg(md5(i::text), '' ORDER BY i), bytes) FROM generate_series(1, 1000) i $$;
INSERT INTO refused (big) VALUES (noise(12285));
INSERT INTO refused (big) VALUES (noise(12286));
SELECT count(*) FROM refused WHERE big = noise(12285);
SELECT count(*) FROM refused WHERE big = noise(20000);
SET enable_seqscan = off;
SELECT count(*) FROM refused WHERE big = noise(12285);
SELECT count(*) FROM refused WHERE big = noise(20000);
SELECT count(*) FROM refused WHERE big < noise(20000);
SELECT count(*) FROM refused WHERE big >= noise(20000);
RESET enable_seqscan;
DROP FUNCTION noise;
CREATE INDEX ON refused USING lsm_index (big) WITH (bits_per_key = 0.5);
CREATE INDEX ON refused USING lsm_index (big) WITH (filter_scheme = cuckoo);
CREATE INDEX ON refused USING lsm_index (big) WITH (size_ratio = 1);
CREATE INDEX ON refused USING lsm_index (big) WITH (compression = gzip);
CREATE INDEX refused_set ON refused USING lsm_index (big) WITH (filter_scheme = bloom, bits_per_key = 12.5, size_ratio = 4, compression = none);
ALTER INDEX refused_set SET (bits_per_key = 65);
ALTER INDEX refused_set SET (bits_per_key = 8, compression = lz4);
ALTER INDEX refused_set RESET (filter_scheme);
SELECT reloptions FROM pg_class WHERE relname = 'refused_set';

DROP SCHEMA index_types CASCADE;
