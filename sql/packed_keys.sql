-- Codes of values over 4 kB are packed (src/index/long_code.c): order, equality, limits
CREATE FUNCTION noise(seed int, bytes int) RETURNS text LANGUAGE sql IMMUTABLE
	AS $$ SELECT left(string_agg(md5(seed || ':' || i), '' ORDER BY i), bytes)
	FROM generate_series(1, bytes / 32 + 1) i $$;
-- values of all lengths around 4 kB, and their relatives: longer, shorter, one character changed
CREATE TABLE packed_l (id int, k text COLLATE "C", b bytea, n numeric) USING lsm;
INSERT INTO packed_l (id, k)
	SELECT row_number() OVER (), v
	FROM (SELECT left(repeat('1234567890', 2000), len) AS v FROM generate_series(4091, 4098) len
		UNION ALL
		SELECT noise(7, len) FROM generate_series(4091, 4098) len
		UNION ALL
		SELECT noise(seed, 4000) || repeat(noise(seed, 50), 30 * seed) FROM generate_series(1, 5) seed
		UNION ALL
		SELECT repeat('a', len) FROM generate_series(3000, 30000, 3000) len
		UNION ALL
		SELECT repeat(noise(3, 37), 200) || repeat('b', len * 10) || noise(len, 40) FROM generate_series(1, 10) len) s;
INSERT INTO packed_l (id, k)
	SELECT id + 1000 * j, CASE j
			WHEN 1 THEN left(k, -1)
			WHEN 2 THEN k || right(k, 10)
			WHEN 3 THEN overlay(k PLACING '!' FROM length(k) - 3)
			WHEN 4 THEN overlay(k PLACING '~' FROM length(k) - 3)
			WHEN 5 THEN overlay(k PLACING '!' FROM 4097 + id)
			WHEN 6 THEN overlay(k PLACING '~' FROM 4097 + id)
			WHEN 7 THEN overlay(k PLACING '5' FROM 4090 + id)
			WHEN 8 THEN k
		END
	FROM packed_l, generate_series(1, 8) j;
UPDATE packed_l SET
	b = decode(replace(replace(encode(convert_to(k, 'UTF8'), 'hex'), '61', '00'), '62', 'ff'), 'hex'),
	n = ((ARRAY['', '-'])[1 + id % 2] || translate(k, 'abcdef!~', '01100010') || (ARRAY['', '.5', '.000'])[1 + id % 3])::numeric;
SELECT count(*), count(DISTINCT k), count(*) FILTER (WHERE length(k) > 4096) AS packed, max(length(k)) FROM packed_l;
SET enable_bitmapscan = off;
SET jit = off;
-- every order by an index and by sorting, every value by itself, ranges between values
CREATE FUNCTION compare_plans() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	q text;
	results text[];
BEGIN
	FOREACH q IN ARRAY ARRAY[
		'SELECT k, id FROM packed_l ORDER BY k, id',
		'SELECT k, id FROM packed_l ORDER BY k DESC, id DESC',
		'SELECT k FROM packed_l ORDER BY k',
		'SELECT b, id FROM packed_l ORDER BY b DESC, id',
		'SELECT b FROM packed_l ORDER BY b',
		'SELECT trim_scale(n) FROM packed_l ORDER BY n',
		'SELECT trim_scale(n) FROM packed_l ORDER BY n DESC',
		'SELECT a.id, count(*) FROM packed_l a JOIN packed_l b ON b.k = a.k GROUP BY 1 ORDER BY 1',
		'SELECT a.id, count(*) FROM packed_l a JOIN packed_l b ON b.n = a.n GROUP BY 1 ORDER BY 1',
		'SELECT a.id, (SELECT count(*) FROM packed_l b WHERE b.k >= a.k AND b.k < a.k || ''5'') FROM packed_l a WHERE a.id % 9 = 0 ORDER BY 1',
		'SELECT a.id, (SELECT min(b.k) FROM packed_l b WHERE b.k > a.k) FROM packed_l a WHERE a.id % 9 = 0 ORDER BY 1',
		'SELECT a.id, (SELECT b.b FROM packed_l b WHERE b.b < a.b ORDER BY b.b DESC LIMIT 1) FROM packed_l a WHERE a.id % 9 = 0 ORDER BY 1',
		'SELECT a.id, (SELECT trim_scale(min(b.n)) FROM packed_l b WHERE b.n > a.n) FROM packed_l a WHERE a.id % 9 = 0 ORDER BY 1']
	LOOP
		results := NULL;
		FOR i IN 0..1 LOOP
			PERFORM set_config('enable_seqscan', (i = 0)::text, true),
				set_config('enable_sort', (i = 0)::text, true),
				set_config('enable_hashjoin', (i = 0)::text, true),
				set_config('enable_mergejoin', (i = 0)::text, true),
				set_config('enable_indexscan', (i = 1)::text, true),
				set_config('enable_indexonlyscan', (i = 1)::text, true);
			EXECUTE 'SELECT array_append($1, string_agg(md5(q::text), '','')) FROM (' || q || ') q'
				INTO results USING results;
		END LOOP;
		IF results[1] IS DISTINCT FROM results[2] THEN
			RETURN NEXT q;
		END IF;
	END LOOP;
END $$;
CREATE INDEX packed_k ON packed_l USING lsm (k, id);
CREATE INDEX packed_kd ON packed_l USING lsm (k DESC) WITH (filter_scheme = elastic);
CREATE INDEX packed_b ON packed_l USING lsm (b DESC, id) WITH (filter_scheme = cascade);
CREATE INDEX packed_ba ON packed_l USING lsm (b);
CREATE INDEX packed_n ON packed_l USING lsm (n);
SET enable_seqscan = off;
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT k, id FROM packed_l ORDER BY k, id;
EXPLAIN (COSTS OFF) SELECT b FROM packed_l ORDER BY b;
RESET enable_seqscan;
RESET enable_sort;
SELECT * FROM compare_plans();
-- the same from memory: entries inserted one by one
TRUNCATE packed_l;
INSERT INTO packed_l (id, k) SELECT i, repeat(noise(i % 50, 20 + i % 7), 300) || i % 9 FROM generate_series(1, 200) i;
UPDATE packed_l SET b = convert_to(k, 'UTF8') || '\x0000'::bytea || convert_to(k, 'UTF8'), n = translate(k, 'abcdef', '123456')::numeric;
SELECT * FROM compare_plans();
SELECT lsm_flush('packed_k'), lsm_flush('packed_kd'), lsm_flush('packed_b'), lsm_flush('packed_n');
UPDATE packed_l SET id = id + 1000 WHERE id % 3 = 0;
DELETE FROM packed_l WHERE id % 7 = 0;
SELECT * FROM compare_plans();
SELECT lsm_compact('packed_k'), lsm_compact('packed_kd'), lsm_compact('packed_b'), lsm_compact('packed_n');
VACUUM packed_l;
SELECT * FROM compare_plans();
SELECT i, v.* FROM unnest(ARRAY['packed_l', 'packed_k', 'packed_kd', 'packed_b', 'packed_ba', 'packed_n']::regclass[]) i, lsm_verify(i) v;
-- columns behind a packed one, which has to be skipped
SET enable_seqscan = off;
SELECT count(*) FROM packed_l WHERE k > 'd' AND id = 1003;
SELECT count(*) FROM packed_l WHERE k > 'd' AND id < 100;
DROP TABLE packed_l;
-- unique
CREATE TABLE packed_u (k text COLLATE "C" PRIMARY KEY, id int) USING lsm;
INSERT INTO packed_u SELECT repeat('x', 5000 + i), i FROM generate_series(1, 20) i;
\set VERBOSITY terse
INSERT INTO packed_u SELECT repeat('x', 5007), 0;
\set VERBOSITY default
INSERT INTO packed_u SELECT repeat('x', 5000 + i), 100 + i FROM generate_series(18, 23) i
	ON CONFLICT (k) DO UPDATE SET id = excluded.id;
SELECT count(*), min(length(k)), max(length(k)), sum(id) FROM packed_u;
SELECT id FROM packed_u WHERE k = repeat('x', 5021);
SELECT id FROM packed_u WHERE k > repeat('x', 5021) ORDER BY k;
-- a value of 2 MB
INSERT INTO packed_u SELECT repeat('long', 500000), -1;
SELECT length(k) FROM packed_u WHERE id = -1;
SELECT id FROM packed_u WHERE k = repeat('long', 500000);
SELECT count(*) FROM packed_u WHERE k = repeat('long', 499999);
SELECT min(id) FROM packed_u WHERE k >= repeat('long', 499999) AND k < repeat('long', 500001);
SELECT * FROM lsm_verify('packed_u_pkey');
DROP TABLE packed_u;
-- the limit: noise cannot be packed, and neither can several columns of 4 kB
CREATE TABLE packed_m (k text COLLATE "C", k2 text COLLATE "C", k3 text COLLATE "C") USING lsm;
CREATE INDEX packed_mk ON packed_m USING lsm (k);
CREATE INDEX packed_mkk ON packed_m USING lsm (k2, k3 DESC);
INSERT INTO packed_m SELECT string_agg(chr(32 + (('x' || left(md5(i::text), 6))::bit(24)::int) % 95), '' ORDER BY i) FROM generate_series(1, 12200) i;
SELECT length(k) FROM packed_m WHERE k > ' ';
INSERT INTO packed_m SELECT k || right(k, 6) || reverse(right(k, 400)) FROM packed_m;
INSERT INTO packed_m (k2, k3) SELECT noise(1, 4090), noise(2, 4090);
INSERT INTO packed_m (k2, k3) SELECT noise(1, 4000) || repeat('a', 30000), noise(2, 4000) || repeat('b', 30000);
SELECT length(k2), length(k3) FROM packed_m WHERE k2 > ' ' AND k3 > ' ' ORDER BY k2, k3 DESC;
SELECT length(k2), length(k3) FROM packed_m WHERE k2 = noise(1, 4000) || repeat('a', 30000) AND k3 = noise(2, 4000) || repeat('b', 30000);
INSERT INTO packed_m (k2, k3) SELECT noise(1, 7000), noise(2, 7000);
SELECT count(*) FROM packed_m WHERE k2 = noise(1, 7000) AND k3 = noise(2, 7000);
SELECT count(*) FROM packed_m WHERE k < noise(1, 70000);
SELECT lsm_flush('packed_mk'), lsm_flush('packed_mkk');
SELECT length(k) FROM packed_m WHERE k > ' ';
SELECT i, v.* FROM unnest(ARRAY['packed_mk', 'packed_mkk']::regclass[]) i, lsm_verify(i) v;
DROP TABLE packed_m;
DROP FUNCTION compare_plans, noise;
RESET ALL;
