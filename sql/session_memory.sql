-- A session that makes and drops trees all day keeps nothing of those that are gone, however busy the workers are that clean up
CREATE FUNCTION kept(OUT contexts bigint, OUT bytes bigint) LANGUAGE sql AS $$
	SELECT count(*), coalesce(sum(used_bytes), 0) FROM pg_backend_memory_contexts WHERE name ~ '^lsm' AND name !~ 'memtable' $$;
CREATE FUNCTION all_bytes() RETURNS bigint LANGUAGE sql AS $$
	SELECT sum(used_bytes) FROM pg_backend_memory_contexts WHERE name IN ('TopMemoryContext', 'CacheMemoryContext', 'smgr relation table') OR name ~ '^lsm' $$;
CREATE TABLE sm (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO sm SELECT i, i FROM generate_series(1, 100) i;
CREATE PROCEDURE again(n int) LANGUAGE plpgsql AS $$
DECLARE
	found int;
BEGIN
	FOR i IN 1..n LOOP
		REINDEX TABLE sm;
		COMMIT;
		SELECT count(*) INTO found FROM sm WHERE id = i % 100;
		COMMIT;
		TRUNCATE sm;
		INSERT INTO sm SELECT j, j FROM generate_series(1, 100) j;
		COMMIT;
		CREATE TABLE sm2 (id int PRIMARY KEY, v int) USING lsm;
		INSERT INTO sm2 VALUES (i, i);
		COMMIT;
		SELECT count(*) INTO found FROM sm2 WHERE id = i;
		DROP TABLE sm2;
		COMMIT;
	END LOOP;
END $$;
CALL again(20);
SELECT contexts AS contexts_before, bytes AS bytes_before, all_bytes() AS all_before FROM kept() \gset
CALL again(100);
SELECT contexts - :contexts_before < 10 AS few_contexts, bytes - :bytes_before < 20000 AS few_bytes,
	all_bytes() - :all_before < 100000 AS few_bytes_at_all FROM kept();
SELECT count(*) FROM sm WHERE id > 0;
DROP TABLE sm;
DROP PROCEDURE again;
DROP FUNCTION kept, all_bytes;
