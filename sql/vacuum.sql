-- VACUUM, ANALYZE, freezing
CREATE TABLE h (id int, v text) USING heap;
CREATE TABLE l (id int, v text) USING lsm WITH (autovacuum_enabled = off);
CREATE INDEX l_id ON l USING lsm (id);
CREATE INDEX l_v ON l (v);
SELECT twin('INSERT INTO @ SELECT i, ''v'' || i FROM generate_series(1, 10000) i');
SELECT twin('UPDATE @ SET v = v || ''x'' WHERE id % 2 = 0');
SELECT twin('DELETE FROM @ WHERE id % 3 = 0');
VACUUM l;
SELECT relname, reltuples = (SELECT count(*) FROM l) AS counted FROM pg_class WHERE relname IN ('l', 'l_id', 'l_v') ORDER BY 1;
SELECT same();
SELECT lsm_compact('l');
-- nothing dead is left, in the table or in its indexes
SELECT sum(entries) = (SELECT count(*) FROM l) AS table_is_clean FROM lsm_levels('l');
SELECT sum(entries) = (SELECT count(*) FROM l) AS index_is_clean FROM lsm_levels('l_id');
SELECT same_query('SELECT * FROM @ WHERE id BETWEEN 500 AND 520');
SELECT same_query('SELECT * FROM @ WHERE v = ''v500x''');
-- space comes back
-- (of the sorted files: the log pages of the main fork are reused, not given back)
SELECT sum(bytes) AS before FROM lsm_levels('l') \gset
DELETE FROM l;
VACUUM l;
SELECT lsm_compact('l');
SELECT coalesce(sum(bytes), 0) < :before / 5 AS shrunk FROM lsm_levels('l');
SELECT count(*) FROM l;
TRUNCATE h;
SELECT twin('INSERT INTO @ SELECT i, ''w'' || i FROM generate_series(1, 1000) i');
SELECT same();

-- freezing
SELECT relfrozenxid AS old_frozen FROM pg_class WHERE oid = 'l'::regclass \gset
SELECT twin('UPDATE @ SET v = v || ''y'' WHERE id < 100');
VACUUM (FREEZE) l;
SELECT relfrozenxid::text::bigint > :'old_frozen'::text::bigint AS advanced FROM pg_class WHERE oid = 'l'::regclass;
SELECT age(relfrozenxid) < 20 AS young FROM pg_class WHERE oid = 'l'::regclass;
SELECT bool_and(min_xid IS NULL) AS no_old_xid FROM lsm_files('l');
SELECT same();
SELECT twin('UPDATE @ SET v = v || ''z'' WHERE id < 50 OR id BETWEEN 301 AND 310');
SELECT twin('DELETE FROM @ WHERE id BETWEEN 501 AND 600');
SELECT same();
-- no block with such rows is all-visible
SELECT * FROM lsm_verify('l');

-- statistics
ANALYZE l;
SELECT reltuples FROM pg_class WHERE oid = 'l'::regclass;
SELECT n_distinct, null_frac FROM pg_stats WHERE tablename = 'l' AND attname = 'id';
VACUUM ANALYZE l;
SELECT reltuples FROM pg_class WHERE oid = 'l'::regclass;
CREATE TABLE big USING lsm AS SELECT i AS id, i % 20 AS k FROM generate_series(1, 100000) i;
SET default_statistics_target = 10;
ANALYZE big;
SELECT reltuples BETWEEN 95000 AND 105000 AS about_right FROM pg_class WHERE oid = 'big'::regclass;
SELECT n_distinct FROM pg_stats WHERE tablename = 'big' AND attname = 'k';
RESET default_statistics_target;

-- rows that died after a compaction had put row and deletion together, and
-- rows whose inserter was still running then
CREATE TABLE late (id int) USING lsm;
INSERT INTO late SELECT generate_series(1, 1000);
BEGIN;
DELETE FROM late WHERE id % 2 = 0;
SAVEPOINT s;
INSERT INTO late SELECT generate_series(2001, 3000);
SELECT lsm_compact('late');
ROLLBACK TO s;
COMMIT;
SELECT sum(entries) AS with_dead_rows FROM lsm_levels('late');
VACUUM late;
SELECT sum(entries) AS after_vacuum, (SELECT count(*) FROM late) AS live FROM lsm_levels('late');
DROP TABLE late;

-- options
VACUUM (VERBOSE off, INDEX_CLEANUP off) l;
VACUUM (DISABLE_PAGE_SKIPPING, TRUNCATE off, PARALLEL 0) l;
VACUUM (INDEX_CLEANUP on) l;
SELECT same();
DROP TABLE h, l, big;

-- as for heap
CREATE TEMP TABLE l (id int PRIMARY KEY, v int UNIQUE) USING lsm;
VACUUM (PARALLEL 1) l;
DROP TABLE l;

-- ANALYZE reads 16 rows for each of its sample, and counts them for all; not of a sample that is as large as the table
CREATE TABLE l (id int, v int) USING lsm;
INSERT INTO l SELECT i, i % 7 FROM generate_series(1, 200000) i;
SET default_statistics_target = 1;
ANALYZE l;
SELECT reltuples BETWEEN 180000 AND 220000 AS right FROM pg_class WHERE relname = 'l';
DELETE FROM l WHERE id / 1000 % 2 = 0;
VACUUM l;
ANALYZE l;
SELECT reltuples BETWEEN 70000 AND 130000 AS right FROM pg_class WHERE relname = 'l';
ALTER TABLE l ALTER v SET STATISTICS 1000;
ANALYZE l;
SELECT reltuples AS all, n_distinct FROM pg_class, pg_stats WHERE relname = 'l' AND tablename = 'l' AND attname = 'v';
RESET default_statistics_target;
DROP TABLE l;
