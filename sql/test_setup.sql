-- Helpers of the other tests.  Most of them do the same to a heap table and
-- to an lsm table and compare, so that the expected output is small and its
-- truth does not depend on us.
-- enable_seqscan = off makes costs that are worth compiling for
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET jit = off', current_database()); END $$;
SELECT extname FROM pg_extension WHERE extname = 'lsmam';
SELECT amname, amtype FROM pg_am WHERE amname LIKE 'lsm%' ORDER BY 1;

-- rows that one query returns and the other does not, duplicates counted
CREATE FUNCTION diff(a text, b text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM ((%1$s EXCEPT ALL %2$s) UNION ALL (%2$s EXCEPT ALL %1$s)) d', a, b)
	INTO n;
	RETURN n;
END $$;

-- twin('... @ ...'): run with @ replaced by h, then by l; the number of rows, or how they differ
CREATE FUNCTION twin(cmd text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	nh bigint;
	nl bigint;
	eh text;
	el text;
BEGIN
	BEGIN
		EXECUTE replace(cmd, '@', 'h');
		GET DIAGNOSTICS nh = ROW_COUNT;
	EXCEPTION WHEN others THEN eh := sqlstate;
	END;
	BEGIN
		EXECUTE replace(cmd, '@', 'l');
		GET DIAGNOSTICS nl = ROW_COUNT;
	EXCEPTION WHEN others THEN el := sqlstate || ' ' || sqlerrm;
	END;
	IF eh IS NOT NULL AND left(el, 5) = eh THEN
		RETURN 'both fail with ' || eh;
	ELSIF eh IS NOT NULL OR el IS NOT NULL THEN
		RETURN format('heap: %s, lsm: %s', coalesce(eh, nh::text), coalesce(el, nl::text));
	ELSIF nh <> nl THEN
		RETURN format('heap: %s rows, lsm: %s rows', nh, nl);
	END IF;
	RETURN nh || ' rows';
END $$;

-- do tables h and l hold the same rows?
CREATE FUNCTION same() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	m bigint;
BEGIN
	n := diff('SELECT * FROM h', 'SELECT * FROM l');
	IF n <> 0 THEN
		RETURN n || ' rows differ';
	END IF;
	SELECT count(*) INTO m FROM lsm_verify('l');
	IF m <> 0 THEN
		RETURN (SELECT string_agg(object || ': ' || problem, '; ') FROM lsm_verify('l'));
	END IF;
	RETURN 'same';
END $$;

-- does a query return the same for h and l, with every way to scan them?
CREATE FUNCTION same_query(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	ways text[] := ARRAY['enable_seqscan', 'enable_indexscan', 'enable_indexonlyscan', 'enable_bitmapscan'];
	way text;
	bad text := '';
BEGIN
	EXECUTE 'CREATE TEMP TABLE truth AS ' || replace(query, '@', 'h');
	FOREACH way IN ARRAY ways LOOP
		PERFORM set_config(w, CASE WHEN w = way OR (w = 'enable_indexscan' AND way = 'enable_indexonlyscan') THEN 'on' ELSE 'off' END, true)
		FROM unnest(ways) w;
		n := diff('SELECT * FROM truth', replace(query, '@', 'l'));
		IF n <> 0 THEN
			bad := bad || format(' %s: %s rows differ', way, n);
		END IF;
	END LOOP;
	PERFORM set_config(w, 'on', true) FROM unnest(ways) w;
	EXECUTE 'SELECT count(*) FROM truth' INTO n;
	DROP TABLE truth;
	IF bad <> '' THEN
		RETURN bad;
	END IF;
	RETURN n || ' rows';
END $$;

-- the top nodes of a plan that scan something, without costs
CREATE FUNCTION plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		RETURN NEXT line;
	END LOOP;
END $$;

-- for the tests of operator classes
CREATE FUNCTION opc_plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	result text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		result := result || line || E'\n';
	END LOOP;
	RETURN result;
END $$;

CREATE FUNCTION opc_same(what text, qh text, ql text, INOUT n int, INOUT bad int) LANGUAGE plpgsql AS $$
DECLARE
	dh text;
	dl text;
BEGIN
	BEGIN
		EXECUTE qh INTO dh;
	EXCEPTION WHEN others THEN dh := sqlstate;
	END;
	BEGIN
		EXECUTE ql INTO dl;
	EXCEPTION WHEN others THEN
		dl := sqlstate;
		IF dh IS DISTINCT FROM dl THEN
			dl := dl || ' ' || sqlerrm;
		END IF;
	END;
	n := n + 1;
	IF dh IS DISTINCT FROM dl THEN
		bad := bad + 1;
		RAISE WARNING '%: btree %, lsm %', what, dh, dl;
	END IF;
END $$;

-- Every operator with every value, every order, every way to scan.  rk: the rank of the value by btree's order.
-- The result says what plans there were.
CREATE FUNCTION ops_twin(typ text, vals text[], coll text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n int := 0;
	bad int := 0;
	i int;
	way text;
	op text;
	val text;
	other text;
	ord text;
	plan text;
	says text;
	ranks constant text := 'SELECT string_agg(rk::text, '' '') FROM (SELECT rk FROM %s) s';
	ids constant text := 'SELECT string_agg(id::text, '' '' ORDER BY id) FROM %s';
BEGIN
	PERFORM set_config('enable_seqscan', 'on', true);
	EXECUTE format('CREATE TABLE h (id int, v %s %s, w int, rk int) USING heap', typ, coll);
	FOR i IN 1 .. array_length(vals, 1) LOOP
		EXECUTE format('INSERT INTO h SELECT %s * 10 + g, %L, g FROM generate_series(1, 3) g', i, vals[i]);
	END LOOP;
	UPDATE h SET rk = r FROM (SELECT id, dense_rank() OVER (ORDER BY v) r FROM h) s WHERE s.id = h.id AND h.v IS NOT NULL;
	EXECUTE format('CREATE TABLE l (id int, v %s %s, w int, rk int) USING lsm', typ, coll);
	CREATE TABLE l2 (LIKE l) USING lsm;
	CREATE TABLE l3 (LIKE l) USING lsm;
	CREATE INDEX h_v ON h (v);
	-- one is built, others are inserted into; runs of several ages
	INSERT INTO l SELECT * FROM h WHERE w = 1;
	CREATE INDEX l_v ON l USING lsm (v) INCLUDE (id, rk);
	CREATE INDEX l2_v ON l2 USING lsm (v DESC NULLS LAST);
	CREATE INDEX l3_v ON l3 USING lsm (w, v NULLS FIRST, id);
	PERFORM lsm_flush('l');
	INSERT INTO l SELECT * FROM h WHERE w = 2;
	INSERT INTO l2 SELECT * FROM h WHERE w < 3;
	INSERT INTO l3 SELECT * FROM h ORDER BY id DESC;
	PERFORM lsm_flush('l');
	PERFORM lsm_flush('l2');
	INSERT INTO l SELECT * FROM h WHERE w = 3;
	INSERT INTO l2 SELECT * FROM h WHERE w = 3;
	PERFORM lsm_compact('l3');

	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true);
	FOREACH way IN ARRAY ARRAY['enable_indexscan', 'enable_bitmapscan', 'enable_indexonlyscan'] LOOP
		PERFORM set_config('enable_indexscan', (way <> 'enable_bitmapscan')::text, true),
			set_config('enable_bitmapscan', (way = 'enable_bitmapscan')::text, true),
			set_config('enable_indexonlyscan', (way = 'enable_indexonlyscan')::text, true);
		FOREACH val IN ARRAY vals LOOP
			CONTINUE WHEN val IS NULL;
			other := vals[1 + (array_position(vals, val) + 2) % array_length(vals, 1)];
			FOREACH op IN ARRAY ARRAY['<', '<=', '=', '>=', '>'] LOOP
				FOREACH ord IN ARRAY ARRAY['l', 'l2', 'l3'] LOOP
					CONTINUE WHEN way = 'enable_indexonlyscan' AND ord = 'l2';
					says := CASE ord WHEN 'l3' THEN ' WHERE w = 2 AND v ' ELSE ' WHERE v ' END || format('%s %L::%s', op, val, typ);
					SELECT * FROM opc_same(typ || ' ' || way || says, format(ids, 'h' || says), format(ids, ord || says), n, bad) INTO n, bad;
				END LOOP;
			END LOOP;
			says := format(' WHERE v BETWEEN SYMMETRIC %1$L::%3$s AND %2$L::%3$s', val, other, typ);
			SELECT * FROM opc_same(typ || says, format(ids, 'h' || says), format(ids, 'l' || says), n, bad) INTO n, bad;
			says := format(' WHERE v IN (%1$L::%3$s, %2$L::%3$s)', val, other, typ);
			SELECT * FROM opc_same(typ || says, format(ids, 'h' || says), format(ids, 'l' || says), n, bad) INTO n, bad;
			says := format(' WHERE (v, id) > (%L::%s, 20)', val, typ);
			SELECT * FROM opc_same(typ || says, format(ids, 'h' || says), format(ids, 'l' || says), n, bad) INTO n, bad;
		END LOOP;
		FOREACH op IN ARRAY ARRAY[' WHERE v IS NULL', ' WHERE v IS NOT NULL'] LOOP
			SELECT * FROM opc_same(typ || op, format(ids, 'h' || op), format(ids, 'l' || op), n, bad) INTO n, bad;
		END LOOP;
		FOREACH ord IN ARRAY ARRAY['v', 'v DESC', 'v NULLS FIRST', 'v DESC NULLS LAST'] LOOP
			SELECT * FROM opc_same(typ || ' ORDER BY ' || ord, format(ranks, 'h ORDER BY ' || ord), format(ranks, 'l ORDER BY ' || ord), n, bad) INTO n, bad;
			SELECT * FROM opc_same(typ || ' ORDER BY ' || ord, format(ranks, 'h ORDER BY ' || ord), format(ranks, 'l2 ORDER BY ' || ord), n, bad) INTO n, bad;
			says := ' WHERE w = 2 ORDER BY ' || ord;
			SELECT * FROM opc_same(typ || says, format(ranks, 'h' || says), format(ranks, 'l3' || says), n, bad) INTO n, bad;
		END LOOP;
	END LOOP;
	-- the very values, from the index
	SELECT * FROM opc_same(typ || ' index only', 'SELECT string_agg(id || '' '' || coalesce(v::text, ''null''), '','' ORDER BY id) FROM h',
		'SELECT string_agg(id || '' '' || coalesce(v::text, ''null''), '','' ORDER BY id) FROM l', n, bad) INTO n, bad;
	PERFORM set_config('enable_bitmapscan', 'off', true);
	says := CASE WHEN opc_plan('SELECT v, id FROM l') ~ 'Index Only Scan using l_v' THEN ', returned' ELSE ', not returned' END;
	says := says || CASE WHEN opc_plan('SELECT * FROM l2 ORDER BY v DESC NULLS LAST') ~ 'Sort' THEN ', unordered' ELSE ', ordered' END;
	says := says || CASE WHEN opc_plan(format('SELECT * FROM l2 WHERE v = %L::%s', vals[1], typ)) ~ 'Index Scan using l2_v on l2\n  Index Cond'
		THEN ', found' ELSE ', not found' END;
	-- joins
	PERFORM set_config('enable_hashjoin', 'off', true), set_config('enable_nestloop', 'off', true);
	SELECT * FROM opc_same(typ || ' merge join', 'SELECT count(*) || '' '' || sum(a.id * b.id::bigint) FROM h a JOIN h b USING (v)',
		'SELECT count(*) || '' '' || sum(a.id * b.id::bigint) FROM l a JOIN l2 b USING (v)', n, bad) INTO n, bad;
	PERFORM set_config('enable_mergejoin', 'off', true), set_config('enable_nestloop', 'on', true);
	SELECT * FROM opc_same(typ || ' nested loop', 'SELECT count(*) || '' '' || sum(a.id * b.id::bigint) FROM h a JOIN h b USING (v)',
		'SELECT count(*) || '' '' || sum(a.id * b.id::bigint) FROM l3 a JOIN l2 b USING (v)', n, bad) INTO n, bad;
	PERFORM set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'on', true);
	-- of equal values one
	DELETE FROM h;
	DELETE FROM l;
	DELETE FROM l2;
	DROP INDEX h_v, l_v, l2_v;
	CREATE UNIQUE INDEX h_v ON h (v);
	CREATE UNIQUE INDEX l_v ON l USING lsm (v DESC);
	CREATE UNIQUE INDEX l2_v ON l2 USING lsm (v);
	FOR i IN 1 .. array_length(vals, 1) LOOP
		SELECT * FROM opc_same(format('%s insert %s', typ, vals[i]), format('INSERT INTO h VALUES (%s, %L) RETURNING 1', i, vals[i]),
			format('INSERT INTO l VALUES (%s, %L) RETURNING 1', i, vals[i]), n, bad) INTO n, bad;
		EXECUTE format('INSERT INTO l2 VALUES (%s, %L) ON CONFLICT (v) DO NOTHING', i, vals[i]);
		IF i % 5 = 0 THEN
			PERFORM lsm_flush('l');
		END IF;
	END LOOP;
	SELECT * FROM opc_same(typ || ' ON CONFLICT', format(ids, 'h'), format(ids, 'l2'), n, bad) INTO n, bad;
	IF EXISTS (SELECT FROM lsm_verify('l')) OR EXISTS (SELECT FROM lsm_verify('l2')) OR EXISTS (SELECT FROM lsm_verify('l3')) THEN
		RAISE WARNING '%: lsm_verify finds problems', typ;
	END IF;
	DROP TABLE h, l, l2, l3;
	RETURN format('%s %s: %s differ of %s', typ, coll, bad, n) || says;
END $$;
