-- EXPLAIN (ANALYZE) of PostgreSQL 18 says how often an index was searched
CREATE TABLE se (a int, b int, c text, PRIMARY KEY (a, b)) USING lsm;
INSERT INTO se SELECT g % 5, g, 'c' || g FROM generate_series(1, 5000) g;
SELECT lsm_compact('se');
VACUUM ANALYZE se;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE FUNCTION se_searches(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS off, FORMAT json) ' || query INTO plan;
	RETURN coalesce(jsonb_path_query_first(plan::jsonb, '$.**."Index Searches"')::text, 'none');
END $$;
SELECT se_searches('SELECT * FROM se WHERE a = 1 AND b = 6');
SELECT se_searches('SELECT * FROM se WHERE a = 1 AND b = 6');
SELECT se_searches('SELECT * FROM se WHERE a = 1 AND b < 1000');
SELECT se_searches('SELECT * FROM se WHERE a = 1 AND b = ANY (ARRAY[1, 6, 11, 12])');
SELECT se_searches('SELECT * FROM se WHERE a = 1 AND b < 0');
-- skipping over the five values of a: some searches, not one per entry
SELECT n = 'none' OR n::int BETWEEN 4 AND 20 AS ok FROM se_searches('SELECT * FROM se WHERE b = 77') n;
DROP TABLE se;
DROP FUNCTION se_searches;
