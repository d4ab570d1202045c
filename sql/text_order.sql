-- Text in order, by lsm_index as by btree, under collations of ICU and such that compare bytes.

-- so many strings that are hard to order, the same every time: few characters of many kinds
CREATE FUNCTION to_strings(n int) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT (SELECT string_agg(CASE WHEN i % 9 < 5 THEN ascii[1 + b % 19] ELSE every[1 + b % cardinality(every)] END, '' ORDER BY j)
			FROM (SELECT j, ('x' || left(md5(i || '/' || j), 7))::bit(28)::int AS b FROM generate_series(1, 1 + i % 13) j) s)
	FROM (SELECT string_to_array('a|b|c|A|B|C|0|1|9|10| |-|_|.|,|''|!|@|ab', '|') AS ascii,
			string_to_array('a|b|A|0| |-|ä|ö|ü|ß|é|è|Ä|ñ|ç|æ|œ|ł|ø|Å|å|ss|一|二|日|本|語|ア|ぁ|к|и|р|Ж|я|α|β|Ω|😀|🎉|א|ב|ג|ก|ข|ค|เ|ﬁ|Ⅳ|①|', '|')
				|| ARRAY[chr(769), chr(776), chr(8203), chr(173), chr(1), chr(8205), chr(65533), chr(1114109)] AS every) a,
		generate_series(1, n) i
	UNION ALL VALUES (''), (' '), ('  '), ('a '), ('a  '), ('-'), ('--'), ('é'), ('e' || chr(769)), ('e'), ('E'), ('9'), ('10'), ('09'), ('2'),
		(chr(173)), (chr(173) || chr(173)), (chr(8203)), ('co-op'), ('coop'), ('COOP'), ('co op'), ('straße'), ('strasse'), ('côte'), ('coté'), ('cote'), ('côté'),
		(repeat('long and longer ', 200)), (repeat('long and longer ', 200) || 'a'), (repeat('long and longer ', 200) || 'A'), (repeat('long and longer ', 200) || 'b'),
		(repeat('äbc', 2000)), (repeat('äbc', 2000) || chr(173)), (repeat('Äbc', 2000)), (repeat('abc', 2000)), (repeat('x', 20000)), (repeat('x', 20000) || 'X')
$$;
CREATE TABLE strings AS SELECT row_number() OVER () AS id, s FROM to_strings(1200) s;

CREATE FUNCTION in_order(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := plan || line || E'\n';
	END LOOP;
	RETURN CASE WHEN plan ~ 'Index' AND plan !~ 'Sort|Seq Scan' THEN '' ELSE plan END;
END $$;

-- Rows of a query on btree and on lsm_index, both without a sort; what is wrong.  Strings that are equal to a nondeterministic collation come in
-- any order: there each row is compared with the one before.
CREATE FUNCTION compare(query text, exact bool) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	on_heap text[];
	on_lsm text[];
	plan text;
BEGIN
	EXECUTE 'SELECT array_agg(k) FROM (' || replace(query, '@', 'th') || ') q' INTO on_heap;
	EXECUTE 'SELECT array_agg(k) FROM (' || replace(query, '@', 'tl') || ') q' INTO on_lsm;
	plan := in_order(replace(query, '@', 'tl'));
	IF plan <> '' THEN
		RETURN NEXT query || ': ' || plan;
	END IF;
	IF cardinality(on_heap) <> cardinality(on_lsm) THEN
		RETURN NEXT query || ': ' || cardinality(on_lsm) || ' rows instead of ' || cardinality(on_heap);
	ELSIF exact AND on_heap IS DISTINCT FROM on_lsm THEN
		RETURN NEXT query || ': other rows, or another order';
	END IF;
END $$;

CREATE FUNCTION check_collation(locale text, type text, exact bool) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	bound text;
	other text;
	wrong bigint;
	op text;
	t text;
BEGIN
	EXECUTE format('CREATE TABLE th (id int, g int, k %s COLLATE %s) USING heap', type, locale);
	EXECUTE format('CREATE TABLE tl (id int, g int, k %s COLLATE %s) USING lsm', type, locale);
	EXECUTE format('INSERT INTO th SELECT id, id %% 7, s::%s FROM strings WHERE octet_length(s) < %s', type, CASE WHEN type = 'name' THEN 64 ELSE 1000000 END);
	INSERT INTO th SELECT 10000 + i, i, NULL FROM generate_series(1, 5) i;
	-- what is built and what is inserted later
	INSERT INTO tl SELECT * FROM th WHERE id % 2 = 0;
	CREATE INDEX tl_k ON tl USING lsm (k);
	CREATE INDEX tl_g_k_id ON tl USING lsm (g, k DESC NULLS FIRST, id);
	INSERT INTO tl SELECT * FROM th WHERE id % 2 = 1;
	CREATE INDEX th_k ON th (k);
	CREATE INDEX th_g_k_id ON th (g, k DESC NULLS FIRST, id);
	ANALYZE th, tl;
	FOREACH t IN ARRAY ARRAY['SELECT k FROM @ ORDER BY k', 'SELECT k FROM @ ORDER BY k DESC', 'SELECT k FROM @ WHERE k IS NOT NULL ORDER BY k DESC LIMIT 100',
		'SELECT k FROM @ WHERE k IS NULL ORDER BY k', 'SELECT DISTINCT k FROM @', 'SELECT k FROM @ WHERE g = 3 ORDER BY k DESC, id',
		'SELECT k FROM @ WHERE g = 3 ORDER BY k, id DESC', 'SELECT min(k) AS k FROM @', 'SELECT max(k) AS k FROM @',
		'SELECT k FROM @ ORDER BY g, k DESC, id', 'SELECT k FROM @ ORDER BY g DESC, k NULLS LAST, id DESC'] LOOP
		RETURN QUERY SELECT compare(t, exact);
	END LOOP;
	FOR bound, other IN SELECT format('%L COLLATE %s', s, locale), format('%L COLLATE %s', coalesce(lead(s, 9) OVER (ORDER BY id), 'm'), locale)
			FROM strings WHERE id % 200 = 0 OR id > 1200 AND id % 3 = 0 LOOP
		FOREACH op IN ARRAY ARRAY['<', '<=', '=', '>=', '>'] LOOP
			RETURN QUERY SELECT compare(format('SELECT k FROM @ WHERE k %s %s ORDER BY k', op, bound), exact);
			RETURN QUERY SELECT compare(format('SELECT k FROM @ WHERE g = 2 AND k %s %s ORDER BY k, id DESC LIMIT 9', op, bound), exact);
		END LOOP;
		RETURN QUERY SELECT compare(format('SELECT k FROM @ WHERE k > %s AND k <= %s ORDER BY k DESC', bound, other), exact);
		RETURN QUERY SELECT compare(format('SELECT k FROM @ WHERE k = ANY (ARRAY[%s, %s, ''a'']) ORDER BY k', bound, other), exact);
		RETURN QUERY SELECT compare(format('SELECT k FROM @ WHERE (k, id) > (%s, 1000) ORDER BY k', bound), exact);
	END LOOP;
	-- neighbours, by the operator
	SELECT count(*) INTO wrong FROM (SELECT k, lag(k) OVER () AS before FROM (SELECT k FROM tl ORDER BY k) s) s WHERE k < before;
	IF wrong > 0 THEN
		RETURN NEXT wrong || ' rows come after greater ones';
	END IF;
	SET LOCAL enable_hashjoin = off;
	SET LOCAL enable_nestloop = off;
	SELECT (SELECT count(*) FROM th a JOIN th b USING (k)) - (SELECT count(*) FROM tl a JOIN tl b USING (k)) INTO wrong;
	IF wrong <> 0 THEN
		RETURN NEXT wrong || ' more rows of a merge join on btree';
	END IF;
	RETURN QUERY SELECT object || ': ' || problem FROM lsm_verify('tl');
	DROP TABLE th, tl;
END $$;
SET enable_seqscan = off;
SET enable_sort = off;
SET enable_bitmapscan = off;
SET enable_hashagg = off;

CREATE COLLATION upper_first (provider = icu, locale = 'und-u-kf-upper');
CREATE COLLATION by_number (provider = icu, locale = 'en-u-kn-true');
CREATE COLLATION shifted (provider = icu, locale = 'en-u-ka-shifted');
CREATE COLLATION level1 (provider = icu, locale = 'und-u-ks-level1');
CREATE COLLATION identic (provider = icu, locale = 'de-u-ks-identic');
CREATE COLLATION back_accents (provider = icu, locale = 'fr-CA');
CREATE COLLATION ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION ignore_accents (provider = icu, locale = 'und-u-ks-level1-kc-true', deterministic = false);
CREATE COLLATION ignore_punctuation (provider = icu, locale = 'und-u-ka-shifted', deterministic = false);
SELECT c, type, check_collation(c, type, true)
FROM unnest(ARRAY['"C.utf8"', '"en-x-icu"', '"de-x-icu"', '"ja-x-icu"', 'upper_first', 'by_number', 'shifted', 'level1', 'identic', 'back_accents']) c,
	unnest(CASE WHEN c = '"en-x-icu"' THEN ARRAY['text', 'bpchar', 'name'] ELSE ARRAY['text'] END) type;
SELECT c, type, check_collation(c, type, false)
FROM unnest(ARRAY['ignore_case', 'ignore_accents', 'ignore_punctuation']) c,
	unnest(CASE WHEN c = 'ignore_case' THEN ARRAY['varchar', 'bpchar', 'name'] ELSE ARRAY['text'] END) type;

-- equal strings of a nondeterministic collation: one key, each row's own string
CREATE TABLE nd (id int PRIMARY KEY, k text COLLATE ignore_case UNIQUE, v text, n name COLLATE ignore_case) USING lsm;
CREATE INDEX nd_include ON nd USING lsm (v, k) INCLUDE (id);
SELECT relname, amname FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE indrelid = 'nd'::regclass ORDER BY 1;
INSERT INTO nd VALUES (1, 'Apple', 'x', 'N'), (2, 'pear', 'y', 'n'), (3, NULL, 'x', NULL), (4, repeat('Long ', 2000), 'x', 'o');
INSERT INTO nd VALUES (5, 'aPPLE', 'x', 'p');
INSERT INTO nd VALUES (5, repeat('lONG ', 2000), 'x', 'p') ON CONFLICT (k) DO UPDATE SET v = nd.v || excluded.id;
INSERT INTO nd VALUES (6, 'PEAR', 'z', 'q') ON CONFLICT (k) DO UPDATE SET k = excluded.k, v = excluded.v RETURNING id, k, v;
UPDATE nd SET k = 'APPLE' WHERE k = 'apple';
VACUUM nd;
EXPLAIN (COSTS OFF) SELECT k FROM nd WHERE k >= 'A' AND k < 'm' ORDER BY k;
SELECT left(k, 7) AS k FROM nd WHERE k >= 'A' ORDER BY k;
EXPLAIN (COSTS OFF) SELECT v, k, id FROM nd WHERE v = 'x' AND k = 'aPPle';
SELECT v, k, id FROM nd WHERE v = 'x' AND k = 'aPPle';
SELECT v, length(k), id FROM nd WHERE v LIKE 'x%' ORDER BY v, k;
CREATE UNIQUE INDEX ON nd USING lsm (n);
UPDATE nd SET n = 'N2' WHERE id = 2;
CREATE UNIQUE INDEX nd_n ON nd USING lsm (n);
EXPLAIN (COSTS OFF) SELECT n FROM nd WHERE n IS NOT NULL ORDER BY n DESC;
SELECT n FROM nd WHERE n IS NOT NULL ORDER BY n DESC;
SELECT n FROM nd WHERE n = 'n2'::text COLLATE ignore_case;
CREATE INDEX ON nd USING lsm (k text_pattern_ops);
SELECT count(*) FROM lsm_verify('nd');

-- a filter is asked by one digest, whatever the key's code is made of
CREATE TABLE probes (k text COLLATE "de-x-icu" PRIMARY KEY, n int) USING lsm;
INSERT INTO probes SELECT 'Schlüssel ' || i, i FROM generate_series(1, 1000) i;
SELECT lsm_flush('probes');
INSERT INTO probes SELECT 'Schlüssel ' || i, i FROM generate_series(1001, 2000) i;
SELECT lsm_flush('probes');
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT * FROM probes WHERE k = 'Schlüssel 500b';
SELECT * FROM probes WHERE k IN ('Schlüssel 500', 'Schlüssel 1500', 'schlüssel 1500') ORDER BY k;

-- LIKE: where btree does it
EXPLAIN (COSTS OFF) SELECT * FROM probes WHERE k LIKE 'Schl%' ORDER BY k;
CREATE INDEX ON probes USING lsm (k text_pattern_ops);
EXPLAIN (COSTS OFF) SELECT n FROM probes WHERE k LIKE 'Schlüssel 99%';

-- unlogged, temporary, partitioned
CREATE UNLOGGED TABLE unlogged_text (k text COLLATE "en-x-icu" PRIMARY KEY) USING lsm;
CREATE TEMP TABLE temp_text (k text COLLATE ignore_case PRIMARY KEY) USING lsm;
CREATE TABLE parts (k text COLLATE "en-x-icu", n int) PARTITION BY LIST (n);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1) USING lsm;
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2) USING lsm;
CREATE INDEX ON parts USING lsm (k);
INSERT INTO unlogged_text SELECT DISTINCT s FROM strings WHERE octet_length(s) < 1000;
INSERT INTO temp_text SELECT DISTINCT lower(s) FROM strings WHERE id < 40 ON CONFLICT DO NOTHING;
INSERT INTO parts SELECT s, 1 + id % 2 FROM strings WHERE octet_length(s) < 1000;
SELECT count(*) FROM (SELECT k, lag(k) OVER () AS before FROM (SELECT k FROM unlogged_text ORDER BY k) s) s WHERE k <= before;
SELECT count(*) FROM (SELECT k, lag(k) OVER () AS before FROM (SELECT k FROM temp_text ORDER BY k) s) s WHERE k <= before;
ANALYZE parts;
EXPLAIN (COSTS OFF) SELECT k FROM parts WHERE k > 'b' ORDER BY k LIMIT 5;
SELECT count(*) FROM (SELECT k, lag(k) OVER () AS before FROM (SELECT k FROM parts ORDER BY k) s) s WHERE k < before;
TRUNCATE unlogged_text;
INSERT INTO unlogged_text VALUES ('b'), ('A'), ('a');
SELECT * FROM unlogged_text ORDER BY k;

DROP TABLE strings, nd, probes, unlogged_text, temp_text, parts;
DROP FUNCTION to_strings, in_order, compare, check_collation;
DROP COLLATION upper_first, by_number, shifted, level1, identic, back_accents, ignore_case, ignore_accents, ignore_punctuation;
