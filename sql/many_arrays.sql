-- Several = ANY at once: what there is in the index counts, not the product of the lists' lengths.
SET max_parallel_workers_per_gather = 0;
-- all conditions in the index, whatever that costs: rows are dear, walks cost nothing
SET cpu_tuple_cost = 100;
SET cpu_index_tuple_cost = 0;
SET cpu_operator_cost = 0;
SET random_page_cost = 0;
SET seq_page_cost = 0;
DO $$ BEGIN
	IF EXISTS (SELECT FROM pg_settings WHERE name = 'lsm.second_opinion') THEN
		PERFORM set_config('lsm.second_opinion', '5', false);
	END IF;
END $$;
CREATE TYPE ma_enum AS ENUM ('b', 'a', 'd', 'c');
ALTER TYPE ma_enum ADD VALUE 'aa' AFTER 'a';
CREATE TABLE ma_h (a int, b int, c bigint, t text, e ma_enum) USING heap;
CREATE TABLE ma_l (LIKE ma_h) USING lsm;
ALTER TABLE ma_l SET (autovacuum_enabled = off);
INSERT INTO ma_h SELECT NULLIF(i * 7 % 61, 60), NULLIF(i * 13 % 53, 52), NULLIF(i * 17 % 47, 46),
	CASE WHEN i % 31 > 0 THEN (ARRAY['x', 'X', 'y-', 'Y', 'zz', 'Zz', ''])[1 + i % 7] || i % 9 END,
	CASE WHEN i % 11 > 0 THEN (ARRAY['a', 'aa', 'b', 'c', 'd'])[1 + i % 5]::ma_enum END FROM generate_series(1, 600) i;
INSERT INTO ma_l SELECT * FROM ma_h;
CREATE INDEX ma_abc ON ma_l USING lsm_index (a, b, c);
CREATE INDEX ma_cba ON ma_l USING lsm_index (c DESC, b NULLS FIRST, a DESC NULLS LAST);
CREATE INDEX ma_tab ON ma_l USING lsm_index (t, a, b DESC);
CREATE INDEX ma_ate ON ma_l USING lsm_index (a, t DESC, e, b);
CREATE INDEX ma_eab ON ma_l USING lsm_index (e, a, b) INCLUDE (t);
INSERT INTO ma_h SELECT a, c::int, b, t, e FROM ma_h WHERE a > 50;
INSERT INTO ma_l SELECT * FROM ma_h WHERE ctid >= (SELECT max(ctid) FROM (SELECT ctid FROM ma_h LIMIT 601) x);
SELECT count(*) = (SELECT count(*) FROM ma_h) AS same FROM ma_l;
VACUUM ANALYZE ma_l;
DELETE FROM ma_l WHERE b = 7;
DELETE FROM ma_h WHERE b = 7;
ANALYZE ma_h;

-- bounded by what there is: 27,000,000 and 10^15 combinations
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM ma_l WHERE a = ANY (ARRAY(SELECT generate_series(-250, 49))) AND b = ANY (ARRAY(SELECT generate_series(-250, 49)))
	AND c = ANY (ARRAY(SELECT generate_series(-250, 49)));
SELECT count(*) FROM ma_h WHERE a <= 49 AND b <= 49 AND c <= 49;
PREPARE ma_p(int[], int[], bigint[]) AS SELECT count(*) FROM ma_l WHERE a = ANY ($1) AND b = ANY ($2) AND c = ANY ($3);
SET plan_cache_mode = force_generic_plan;
SELECT array_agg(i) AS list FROM generate_series(-99951, 49) i \gset
EXECUTE ma_p(:'list', :'list', :'list');
RESET plan_cache_mode;
SELECT count(*) FROM ma_l WHERE e = ANY ('{a,b,c,d}') AND a = ANY (:'list') AND b = ANY (:'list');
SELECT count(*) FROM ma_h WHERE e = ANY ('{a,b,c,d}') AND a <= 49 AND b <= 49;
-- few seeks, where PostgreSQL counts them (18); few combinations are looked up one by one
CREATE FUNCTION ma_searches(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS off, FORMAT json) ' || query INTO plan;
	RETURN coalesce(jsonb_path_query_first(plan::jsonb, '$.**."Index Searches"')::text, 'none');
END $$;
SELECT n = 'none' OR n::int BETWEEN 1 AND 400 AS few FROM ma_searches('SELECT count(*) FROM ma_l WHERE
	a = ANY (ARRAY(SELECT generate_series(-250, 49))) AND b = ANY (ARRAY(SELECT generate_series(-250, 49)))
	AND c = ANY (ARRAY(SELECT generate_series(-250, 49)))') n;
SELECT n = 'none' OR n::int BETWEEN 900 AND 1000 AS each FROM ma_searches('SELECT count(*) FROM ma_l WHERE a = 5
	AND b = ANY (ARRAY(SELECT generate_series(0, 30))) AND c = ANY (ARRAY(SELECT generate_series(0, 30)))') n;

-- Random lists, whose lengths the planner does not know, and other quals, against heap's sequential scan
CREATE FUNCTION ma_list(n int, bottom int, top int, type text) RETURNS text LANGUAGE sql VOLATILE AS $$
SELECT format('ARRAY(SELECT unnest(%L::%s[]))', array_agg(CASE WHEN random() < 0.04 THEN NULL ELSE bottom + floor(random() * (top - bottom + 1))::int END), type)
FROM generate_series(1, n) $$;
CREATE FUNCTION ma_qual(col text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	r float8 := random();
	n int := (ARRAY[1, 2, 12, 40, 40, 50, 400])[1 + floor(random() * 7)];
	top int := (ARRAY[20, 60, 60, 3000])[1 + floor(random() * 4)];
BEGIN
	IF col = 't' THEN
		RETURN CASE WHEN r < 0.3 THEN 'true' WHEN r < 0.35 THEN 't IS NULL' WHEN r < 0.45 THEN 't > ''X5'''
			ELSE format('t = ANY (ARRAY(SELECT unnest(%L::text[])))', (SELECT array_agg(CASE WHEN random() < 0.05 THEN NULL ELSE
				(ARRAY['x', 'X', 'y-', 'Y', 'zz', 'Zz', '', 'q'])[1 + floor(random() * 8)] || floor(random() * 11) END) FROM generate_series(1, n))) END;
	ELSIF col = 'e' THEN
		RETURN CASE WHEN r < 0.4 THEN 'true' WHEN r < 0.5 THEN 'e IS NULL' WHEN r < 0.6 THEN 'e >= ''a'''
			ELSE format('e = ANY (ARRAY(SELECT unnest(%L::ma_enum[])))', (ARRAY['{a,b,aa,NULL,a}', '{d}', '{c,d,a,aa,b}'])[1 + floor(random() * 3)]) END;
	END IF;
	RETURN CASE WHEN r < 0.15 THEN 'true' WHEN r < 0.2 THEN col || ' IS NULL' WHEN r < 0.25 THEN col || ' IS NOT NULL'
		WHEN r < 0.3 THEN format('%s BETWEEN %s AND %s', col, top / 5, top / 2) WHEN r < 0.35 THEN format('%s = %s', col, floor(random() * 40))
		WHEN r < 0.4 THEN format('%s < ANY (%s)', col, ma_list(n, 0, top, 'bigint'))
		WHEN r < 0.45 THEN format('%s = ANY (%s) AND %s = ANY (%s)', col, ma_list(n, 0, 60, 'int'), col, ma_list(150, 0, 60, 'bigint'))
		ELSE format('%s = ANY (%s)', col, ma_list(n, -5, top, (ARRAY['int', 'bigint', 'int', 'smallint'])[1 + floor(random() * 4)])) END;
END $$;
CREATE FUNCTION ma_where() RETURNS text LANGUAGE sql VOLATILE AS $$
SELECT string_agg(ma_qual(col), ' AND ') || (ARRAY['', '', '', ' AND (a, b) > (20, 5)', ' AND (b, a) <= (30, 30)', ' AND (t, a) >= (''x'', 12)',
	' AND (a, b, c) < (40, NULL, 3)', ' AND (c, b) < (40, 20)', ' AND (e, a) > (''a'', 8)'])[1 + floor(random() * 9)]
FROM unnest('{a,b,c,t,e}'::text[]) col $$;
CREATE FUNCTION ma_rows(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	found text;
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(q::text, '' '')), '''') FROM (%s) q', query) INTO found;
	RETURN found;
END $$;
-- one query after the other; a cursor that goes to and fro; a merge join, which restores marks; a nested loop
CREATE FUNCTION ma_compare(n int) RETURNS TABLE (kind text, queries bigint, found_some bool) LANGUAGE plpgsql AS $$
DECLARE
	quals text;
	cols text;
	expected text;
	got text;
	shape text;
	nsome int := 0;
	all_rows text[];
	c refcursor;
	r record;
	at int;
	step int;
BEGIN
	FOREACH shape IN ARRAY ARRAY['index', 'bitmap', 'order', 'cursor', 'merge', 'nested', 'parallel'] LOOP
		nsome := 0;
		PERFORM set_config('enable_bitmapscan', (shape = 'bitmap')::text, true), set_config('enable_indexscan', (shape <> 'bitmap')::text, true),
			set_config('enable_hashjoin', 'off', true), set_config('enable_nestloop', (shape = 'nested')::text, true),
			set_config('enable_mergejoin', (shape <> 'nested')::text, true), set_config('enable_material', 'off', true),
			set_config('enable_sort', (shape = 'bitmap' OR shape = 'index')::text, true),
			set_config('max_parallel_workers_per_gather', CASE WHEN shape = 'parallel' THEN '2' ELSE '0' END, true),
			set_config('parallel_setup_cost', '0', true), set_config('parallel_tuple_cost', '0', true),
			set_config('min_parallel_index_scan_size', '0', true);
		FOR i IN 1 .. n LOOP
			quals := ma_where();
			cols := (ARRAY['a, b, c', 'c DESC, b NULLS FIRST, a DESC NULLS LAST', 't, a, b DESC', 'a, t DESC, e, b', 'e, a, b'])[1 + floor(random() * 5)];
			IF shape = 'cursor' THEN
				EXECUTE format('SELECT array_agg(q::text) FROM (SELECT %s FROM ma_h WHERE %s ORDER BY %s) q',
					regexp_replace(cols, ' (DESC|NULLS \w+)', '', 'g'), quals, cols) INTO all_rows;
				OPEN c SCROLL FOR EXECUTE format('SELECT q::text AS row FROM (SELECT %s FROM ma_l WHERE %s ORDER BY %s) q',
					regexp_replace(cols, ' (DESC|NULLS \w+)', '', 'g'), quals, cols);
				at := 0;
				FOR j IN 1 .. 12 LOOP
					step := floor(random() * 9) - 3;
					at := least(greatest(at + step, 0), coalesce(array_length(all_rows, 1), 0) + 1);
					FETCH RELATIVE step FROM c INTO r;
					IF r.row IS DISTINCT FROM all_rows[at] THEN
						RAISE WARNING 'cursor over % ordered by %: % at %, not %', quals, cols, r.row, at, all_rows[at];
						EXIT;
					END IF;
				END LOOP;
				CLOSE c;
				CONTINUE;
			END IF;
			quals := CASE shape
				WHEN 'merge' THEN format('SELECT x.a, y.b, y.c, y.t FROM (SELECT * FROM %%1$s WHERE a < 30 AND b < 9) x JOIN (SELECT * FROM %%1$s WHERE %s) y USING (a) %%2$s',
					quals)
				WHEN 'nested' THEN format('SELECT x.a, y.b, y.c, y.t FROM (SELECT * FROM ma_h WHERE a < 30 AND b < 3) x, LATERAL (SELECT * FROM %%1$s q WHERE
					q.b = ANY (ARRAY[x.b, x.c, NULL, 5, x.a, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35]) AND %s) y %%2$s',
					quals)
				ELSE format('SELECT a, b, c, t, e FROM %%1$s WHERE %s %%2$s', quals) END;
			IF shape = 'order' THEN
				expected := ma_rows(format('SELECT %s FROM (%s) q', regexp_replace(cols, ' (DESC|NULLS \w+)', '', 'g'), format(quals, 'ma_h', 'ORDER BY ' || cols)));
				got := ma_rows(format('SELECT %s FROM (%s) q', regexp_replace(cols, ' (DESC|NULLS \w+)', '', 'g'), format(quals, 'ma_l', 'ORDER BY ' || cols)));
			ELSE
				expected := ma_rows(format('SELECT * FROM (%s) q ORDER BY q', format(quals, 'ma_h', '')));
				got := ma_rows(format('SELECT * FROM (%s) q ORDER BY q', format(quals, 'ma_l', '')));
			END IF;
			IF got IS DISTINCT FROM expected THEN
				RAISE WARNING '%: %, not %: %', shape, got, expected, quals;
			END IF;
			nsome := nsome + (expected NOT LIKE '0 %')::int;
		END LOOP;
		kind := shape;
		queries := n;
		found_some := shape = 'cursor' OR nsome > n / 5;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT setseed(0.41);
SET client_min_messages = warning;
SELECT * FROM ma_compare(80);
RESET client_min_messages;
DROP TABLE ma_h, ma_l;
DROP TYPE ma_enum;
DROP FUNCTION ma_compare(int), ma_rows(text), ma_where(), ma_qual(text), ma_list(int, int, int, text), ma_searches(text);
