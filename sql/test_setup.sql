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
