-- lsm_index: multi-column, INCLUDE, expression, partial, builds, REINDEX; on lsm and on heap
CREATE TABLE h (a int, b text COLLATE "C", c date, d text) USING heap;
CREATE TABLE l (a int, b text COLLATE "C", c date, d text) USING lsm;
SELECT twin('INSERT INTO @ SELECT NULLIF(i % 50, 0), NULLIF(''b'' || i % 7, ''b3''), ''2020-01-01''::date + i % 11, ''d'' || i FROM generate_series(1, 3000) i');
CREATE INDEX l_abc ON l USING lsm (a, b DESC, c NULLS FIRST);
SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.relname = 'l_abc';
SELECT pg_get_indexdef('l_abc'::regclass);
SELECT lsm_flush('l');
SELECT twin('INSERT INTO @ SELECT NULLIF(i % 50, 0), NULLIF(''b'' || i % 7, ''b3''), ''2020-01-01''::date + i % 11, ''e'' || i FROM generate_series(1, 3000) i');
SELECT same_query('SELECT * FROM @ WHERE a = 5 AND b = ''b2'' AND c = ''2020-01-05''');
SELECT same_query('SELECT * FROM @ WHERE a = 5 AND b = ''b2''');
SELECT same_query('SELECT * FROM @ WHERE a = 5 AND b > ''b2''');
SELECT same_query('SELECT * FROM @ WHERE a = 5 AND b <= ''b2'' AND c > ''2020-01-05''');
SELECT same_query('SELECT * FROM @ WHERE a = 5 AND b IS NULL');
SELECT same_query('SELECT * FROM @ WHERE a IS NULL AND b IS NULL AND c = ''2020-01-05''');
SELECT same_query('SELECT * FROM @ WHERE a IS NULL AND b IS NOT NULL');
SELECT same_query('SELECT * FROM @ WHERE a IS NOT NULL AND b = ''b2''');
SELECT same_query('SELECT * FROM @ WHERE b = ''b2'' AND c = ''2020-01-05''');
SELECT same_query('SELECT * FROM @ WHERE a > 45 AND b = ''b2''');
SELECT same_query('SELECT * FROM @ WHERE a IN (1, 2, 3) AND b IN (''b1'', ''b2'', NULL) AND c IN (''2020-01-03'', ''2020-01-05'')');
SELECT same_query('SELECT * FROM @ WHERE (a, b) > (45, ''b2'')');
SELECT same_query('SELECT * FROM @ WHERE a = NULL');
SELECT same_query('SELECT * FROM @ WHERE a = 5 AND a > 6');
SELECT same_query('SELECT * FROM @ WHERE a >= 5 AND a > 5 AND a <= 7 AND a < 9');
SET enable_seqscan = off;
SET enable_sort = off;
SELECT plan_of('SELECT a, b, c FROM l ORDER BY a, b DESC, c NULLS FIRST');
SELECT plan_of('SELECT a, b, c FROM l ORDER BY a DESC NULLS FIRST, b, c DESC NULLS LAST');
RESET enable_sort;
-- row order compared as text
SELECT diff('SELECT row_number() OVER (), s.* FROM (SELECT a, b, c FROM h ORDER BY a, b DESC, c NULLS FIRST) s',
			'SELECT row_number() OVER (), s.* FROM (SELECT a, b, c FROM l ORDER BY a, b DESC, c NULLS FIRST) s');
SELECT diff('SELECT row_number() OVER (), s.* FROM (SELECT a, b, c FROM h ORDER BY a DESC NULLS FIRST, b, c DESC NULLS LAST) s',
			'SELECT row_number() OVER (), s.* FROM (SELECT a, b, c FROM l ORDER BY a DESC NULLS FIRST, b, c DESC NULLS LAST) s');
RESET enable_seqscan;
DROP INDEX l_abc;

-- INCLUDE, expression, partial
CREATE INDEX l_inc ON l USING lsm (a) INCLUDE (b, d);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT plan_of('SELECT a, b, d FROM l WHERE a = 7');
SELECT diff('SELECT a, b, d FROM h WHERE a = 7', 'SELECT a, b, d FROM l WHERE a = 7');
SELECT twin('UPDATE @ SET d = d || ''x'' WHERE a = 7');
SELECT twin('DELETE FROM @ WHERE a = 7 AND c = ''2020-01-05''');
SELECT diff('SELECT a, b, d FROM h WHERE a = 7', 'SELECT a, b, d FROM l WHERE a = 7');
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT same();
DROP INDEX l_inc;
CREATE INDEX l_expr ON l USING lsm (lower(d), (a * 2));
SELECT same_query('SELECT * FROM @ WHERE lower(d) = ''d77''');
SELECT same_query('SELECT * FROM @ WHERE lower(d) = ''d77'' AND a * 2 = 54');
CREATE INDEX l_part ON l USING lsm (c) WHERE a < 10;
SELECT plan_of('SELECT * FROM l WHERE c = ''2020-01-05'' AND a < 10');
SELECT same_query('SELECT * FROM @ WHERE c = ''2020-01-05'' AND a < 10');
SELECT twin('UPDATE @ SET a = a + 5 WHERE a BETWEEN 6 AND 12');
SELECT same_query('SELECT * FROM @ WHERE c = ''2020-01-05'' AND a < 10');
SELECT same();

-- builds on populated tables, REINDEX, CONCURRENTLY
CREATE INDEX CONCURRENTLY l_conc ON l USING lsm (d);
SELECT same_query('SELECT * FROM @ WHERE d = ''e100''');
REINDEX INDEX l_conc;
SELECT same_query('SELECT * FROM @ WHERE d = ''e100''');
REINDEX INDEX CONCURRENTLY l_conc;
SELECT same_query('SELECT * FROM @ WHERE d = ''e100''');
REINDEX TABLE l;
SELECT same_query('SELECT * FROM @ WHERE lower(d) = ''d77''');
SELECT same();
-- a build cut into many files
SET lsm.target_file_size = '64kB';
CREATE INDEX l_many ON l USING lsm (d, a, b, c);
RESET lsm.target_file_size;
SELECT sum(files) > 1 AS many_files, sum(entries) = (SELECT count(*) FROM l) AS all_entries FROM lsm_levels('l_many');
SELECT same_query('SELECT * FROM @ WHERE d > ''e28''');
SELECT same();

-- lsm indexes on a heap table
CREATE INDEX h_a ON h USING lsm (a);
CREATE INDEX h_d ON h USING lsm (d) INCLUDE (a);
CREATE TABLE truth AS SELECT * FROM h;
SELECT diff('SELECT * FROM h WHERE a = 9', 'SELECT * FROM truth WHERE a = 9');
UPDATE h SET a = a + 1 WHERE a > 40;
UPDATE truth SET a = a + 1 WHERE a > 40;
UPDATE h SET c = c + 1 WHERE a = 9;
UPDATE truth SET c = c + 1 WHERE a = 9;
DELETE FROM h WHERE a = 41;
DELETE FROM truth WHERE a = 41;
SET enable_seqscan = off;
SELECT diff('SELECT * FROM h WHERE a = 9', 'SELECT * FROM truth WHERE a = 9');
SELECT diff('SELECT * FROM h WHERE a BETWEEN 39 AND 45', 'SELECT * FROM truth WHERE a BETWEEN 39 AND 45');
VACUUM h;
SELECT diff('SELECT a, d FROM h WHERE d > ''e2''', 'SELECT a, d FROM truth WHERE d > ''e2''');
SELECT plan_of('SELECT a, d FROM h WHERE d > ''e2''');
SELECT lsm_compact('h');
SELECT diff('SELECT a, d FROM h WHERE d > ''e2''', 'SELECT a, d FROM truth WHERE d > ''e2''');
RESET enable_seqscan;
SELECT * FROM lsm_verify('h');
INSERT INTO h SELECT * FROM truth;
INSERT INTO truth SELECT * FROM truth;
REINDEX TABLE h;
VACUUM FULL h;
SELECT * FROM lsm_verify('h');
SELECT diff('SELECT * FROM h', 'SELECT * FROM truth');

-- keys: 4000 bytes go in, much longer ones are refused with a hint
DROP INDEX l_many;
CREATE INDEX l_long ON l USING lsm (b);
INSERT INTO l VALUES (1, repeat('x', 4000), NULL, 'long');
SET enable_seqscan = off;
SELECT d FROM l WHERE b = repeat('x', 4000);
RESET enable_seqscan;
INSERT INTO l SELECT 1, string_agg(md5(i::text), '' ORDER BY i), NULL, 'too long' FROM generate_series(1, 500) i;
DROP TABLE h, l, truth;

-- progress is reported
SELECT count(*) FROM pg_stat_progress_create_index;
-- REFRESH and other users of index names
CREATE MATERIALIZED VIEW mv USING lsm AS SELECT i AS id, i % 10 AS k FROM generate_series(1, 100) i;
CREATE UNIQUE INDEX ON mv USING btree (id);
CREATE INDEX ON mv USING lsm (k);
REFRESH MATERIALIZED VIEW mv;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT count(*) FROM mv WHERE k = 3;
SELECT * FROM lsm_verify('mv');
DROP MATERIALIZED VIEW mv;
-- rows of index-only scans: every kind of column, key and INCLUDE, short and long, NULL or not
CREATE TABLE ir (a int, b bigint, c date, d text COLLATE "C", e uuid, f macaddr, g bool, h oid, i int2, j timestamptz, k text COLLATE "C", l numeric, m name, n float8) USING lsm;
INSERT INTO ir SELECT x * 7919 % 501 - 250, (x - 200) * 3000000000, date '1999-12-31' + x * 37 % 500 - 250, repeat(chr(97 + x % 26), x % 7 * x % 200), md5(x::text)::uuid,
	macaddr '08:00:2b:01:02:03', x % 2 = 0, x, x - 200, timestamptz '2000-01-01 00:00Z' + (x - 200) * interval '1 day', repeat('k', x * 5 % 300), x / 7.0, 'n' || x % 9, x / 4.0
FROM generate_series(1, 400) x;
INSERT INTO ir SELECT CASE x % 3 WHEN 1 THEN x END, x, NULL, CASE x % 2 WHEN 1 THEN 'd' || x END, NULL, NULL, x % 2 = 0, x, x, NULL, CASE x % 4 WHEN 1 THEN 'k' || x END, NULL, NULL, NULL FROM generate_series(500, 560) x;
INSERT INTO ir (a, d) VALUES (-2147483648, ''), (2147483647, repeat('long ', 900));
CREATE INDEX ON ir USING lsm (a, d) INCLUDE (b, k, c, l, n);
CREATE INDEX ON ir USING lsm (a DESC, b DESC, c DESC, j DESC, h DESC) INCLUDE (g, e, m);
CREATE INDEX ON ir USING lsm (e, f, g, h, i, j, d);
CREATE INDEX ON ir USING lsm (d, k, a);
CREATE INDEX ON ir USING lsm (g, i, a) INCLUDE (d, i, k, h, n, f);
SELECT lsm_flush('ir');
VACUUM ANALYZE ir;
CREATE FUNCTION index_rows(columns text, first text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT md5(string_agg(r::text, '','' ORDER BY r::text)), count(*) FROM (SELECT %s FROM ir WHERE %s ORDER BY %s) r', columns, 'true', first);
	by_index record;
	by_table record;
	line text;
	how text;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		how := coalesce(how, substring(line FROM 'Index Only Scan'));
	END LOOP;
	EXECUTE query INTO by_index;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true);
	EXECUTE query INTO by_table;
	PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true);
	RETURN concat_ws(' ', how, by_index = by_table, by_table.count);
END $$;
SELECT index_rows('a, d, b, k, c, l, n', 'a, d'), index_rows('a, b, c, j, h, g, e, m', 'a DESC, b DESC'), index_rows('e, f, g, h, i, j, d', 'e, f'),
	index_rows('d, k, a', 'd, k'), index_rows('g, i, a, d, k, h, n, f', 'g, i');
DROP FUNCTION index_rows(text, text);
DROP TABLE ir;
