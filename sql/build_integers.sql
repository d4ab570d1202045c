-- CREATE INDEX over integers, which are packed while they are sorted: in an index that was built over rows the entries
-- come in the order of the values, and are the entries that inserting one row after the other makes.
CREATE SCHEMA build_integers;
SET search_path = build_integers, public;
CREATE TYPE mood AS ENUM ('c', 'a', 'b');

-- around each number of bytes, of both signs
CREATE TABLE numbers AS
SELECT row_number() OVER (ORDER BY hashint8(n)) AS id, n FROM (
	SELECT DISTINCT n::bigint FROM (
		SELECT s * (2::numeric ^ b + d) n FROM generate_series(0, 63) b, generate_series(-2, 2) d, (VALUES (1), (-1)) v(s)
		UNION ALL VALUES (9223372036854775807), (-9223372036854775808), (0), (255), (-256)) x
	WHERE n BETWEEN -9223372036854775808 AND 9223372036854775807) y;
SELECT count(*) > 400, min(n), max(n) FROM numbers;

CREATE TABLE built (id int, i2 int2, i4 int4, i8 int8, d date, t time, ts timestamp, tz timestamptz, m money, o oid, l pg_lsn, x xid8, e mood, v text) USING heap;
INSERT INTO built
SELECT id, CASE WHEN n BETWEEN -32768 AND 32767 THEN n END, CASE WHEN n BETWEEN -2147483648 AND 2147483647 THEN n END, n,
	CASE WHEN n BETWEEN -2451545 AND 2145031948 THEN '2000-01-01'::date + n::int END,
	CASE WHEN n BETWEEN 0 AND 86400000000 THEN '00:00'::time + n * interval '1 microsecond' END,
	CASE WHEN abs(n) < 2::bigint ^ 52 THEN '2000-01-01'::timestamp + n * interval '1 microsecond' END,
	CASE WHEN abs(n) < 2::bigint ^ 52 THEN '2000-01-01 00:00Z'::timestamptz + n * interval '1 microsecond' END,
	CASE WHEN abs(n) < 2::bigint ^ 56 THEN n::money / 100 END, CASE WHEN n BETWEEN 0 AND 4294967295 THEN n::oid END,
	CASE WHEN n >= 0 THEN '0/0'::pg_lsn + n::numeric * 2 END, CASE WHEN n >= 0 THEN (n::numeric * 2)::text::xid8 END,
	(ARRAY['a', 'b', 'c']::mood[])[1 + id % 4], 'v' || id
FROM numbers WHERE abs(n::numeric) < 9223372036854775807;
INSERT INTO built (id, i8) VALUES (1001, 9223372036854775807), (1002, -9223372036854775808);
INSERT INTO built (id, d, ts, tz) VALUES (1003, 'infinity', 'infinity', 'infinity'), (1004, '-infinity', '-infinity', '-infinity');
INSERT INTO built (id, l, x) VALUES (1005, 'FFFFFFFF/FFFFFFFF', '18446744073709551615');
INSERT INTO built (id) VALUES (1006), (1007);
INSERT INTO built SELECT id + 2000, i2, i4, i8, d, t, ts, tz, m, o, l, x, e, v FROM built WHERE id % 3 = 0;

-- What is wrong with an index of built over these columns, and with the same made before the rows came; nothing
CREATE FUNCTION wrong(columns text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	by_rows bigint[];
	by_index bigint[];
	k text;
	rest text := regexp_replace(columns, ' (DESC|NULLS (FIRST|LAST))', '', 'g');
BEGIN
	FOREACH k IN ARRAY ARRAY['after', 'before'] LOOP
		DROP TABLE IF EXISTS copy;
		CREATE TABLE copy (LIKE built) USING heap;
		IF k = 'before' THEN EXECUTE format('CREATE INDEX copied ON copy USING lsm_index (%s, id)', columns); END IF;
		INSERT INTO copy SELECT * FROM built;
		IF k = 'after' THEN EXECUTE format('CREATE INDEX copied ON copy USING lsm_index (%s, id)', columns); END IF;
		RETURN QUERY SELECT k || ': ' || columns || ': ' || w FROM lsm_verify('copied') w;
		SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on;
		EXECUTE format('SELECT array_agg(id ORDER BY %s, id) FROM copy', columns) INTO by_rows;
		SET LOCAL enable_indexscan = on; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off;
		EXECUTE format('SELECT array_agg(id) FROM (SELECT id FROM copy ORDER BY %s, id OFFSET 0) x', columns) INTO by_index;
		IF by_rows IS DISTINCT FROM by_index THEN RETURN NEXT k || ': ' || columns || ': order'; END IF;
		-- each value is found
		SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;
		EXECUTE format('SELECT array_agg(DISTINCT c.id) FROM built b JOIN copy c ON (c.%s) = (b.%s)',
			(string_to_array(rest, ', '))[1], (string_to_array(rest, ', '))[1]) INTO by_index;
		EXECUTE format('SELECT array_agg(id ORDER BY id) FROM built WHERE %s IS NOT NULL', (string_to_array(rest, ', '))[1]) INTO by_rows;
		IF by_rows IS DISTINCT FROM by_index THEN RETURN NEXT k || ': ' || columns || ': lookups'; END IF;
	END LOOP;
END $$;

SET client_min_messages = warning;
SELECT w FROM unnest(ARRAY['i2', 'i4', 'i8', 'd', 't', 'ts', 'tz', 'm', 'o', 'l', 'x', 'e', 'v COLLATE "C"',
	'i2 DESC', 'i4 DESC', 'i8 DESC', 'd DESC', 'tz DESC', 'm DESC', 'o DESC', 'l DESC', 'x DESC', 'e DESC',
	'i8 NULLS FIRST', 'i4 DESC NULLS LAST', 'x NULLS FIRST', 'o DESC NULLS LAST',
	'i2, i4', 'i4 DESC, i8', 'e, i8 DESC', 'd, v COLLATE "C"', 'i2 NULLS FIRST, v COLLATE "C" DESC, i8', 'o, x, l, m, tz, t, i8',
	'v COLLATE "C", i8', 'i4, (i8 / 2) DESC']) c, wrong(c) w;

RESET client_min_messages;

-- by several processes, and with a value behind the key
SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
ALTER TABLE built SET (parallel_workers = 2);
CREATE INDEX built_parallel ON built USING lsm_index (i8 DESC, i4) INCLUDE (v, tz);
SELECT * FROM lsm_verify('built_parallel');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
VACUUM built;
EXPLAIN (COSTS OFF) SELECT i8, i4, v FROM built ORDER BY i8 DESC, i4;
SELECT md5(string_agg(concat_ws(' ', i8, i4, v, extract(epoch FROM tz)), ';')) = (SELECT md5(string_agg(concat_ws(' ', i8, i4, v, extract(epoch FROM tz)), ';' ORDER BY i8 DESC, i4, id)) FROM built)
FROM (SELECT i8, i4, v, tz FROM built ORDER BY i8 DESC, i4 OFFSET 0) x;
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET enable_sort;

-- uniqueness is seen by what was packed
CREATE TABLE twice (a bigint, b int) USING heap;
INSERT INTO twice VALUES (-9223372036854775808, -1), (9223372036854775807, 256), (0, 0), (NULL, 1), (NULL, 1);
CREATE UNIQUE INDEX ON twice USING lsm_index (a, b);
CREATE UNIQUE INDEX ON twice USING lsm_index (a DESC, b) NULLS NOT DISTINCT;
INSERT INTO twice VALUES (-9223372036854775808, -1);
DROP INDEX twice_a_b_idx;
INSERT INTO twice VALUES (-9223372036854775808, -1);
CREATE UNIQUE INDEX ON twice USING lsm_index (a, b);
DELETE FROM twice WHERE a < 0;
CREATE UNIQUE INDEX ON twice USING lsm_index (a, b);
INSERT INTO twice VALUES (9223372036854775807, 256);

SET client_min_messages = warning;
DROP SCHEMA build_integers CASCADE;
