-- lsm_compact() leaves every file as the present settings would write it
CREATE TABLE rewrite_h (id int, v text);
INSERT INTO rewrite_h SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
CREATE INDEX rewrite_i ON rewrite_h USING lsm (v) WITH (filter_scheme = bloom, bits_per_key = 10, compression = lz4);
CREATE VIEW rewrite_f AS
	SELECT filter_scheme, entries, round(filter_bytes * 8 / entries) AS bits_per_key
	FROM lsm_files('rewrite_i') ORDER BY level, file;
SELECT * FROM rewrite_f;
-- another scheme, other bits
ALTER INDEX rewrite_i SET (filter_scheme = blocked, bits_per_key = 20);
SELECT lsm_compact('rewrite_i');
SELECT * FROM rewrite_f;
-- nothing changed: nothing written
SELECT min(file) AS before FROM lsm_files('rewrite_i') \gset
SELECT lsm_compact('rewrite_i');
SELECT min(file) = :before AS kept FROM lsm_files('rewrite_i');
-- another compression, also for a file that only has to move down
SELECT sum(bytes) AS bytes FROM lsm_files('rewrite_i') \gset
ALTER INDEX rewrite_i SET (compression = none);
INSERT INTO rewrite_h SELECT i, 'zz' || i FROM generate_series(20001, 20100) i;
SELECT lsm_flush('rewrite_i');
ALTER INDEX rewrite_i SET (filter_scheme = none, compression = zstd);
SELECT lsm_compact('rewrite_i');
SELECT filter_scheme, entries FROM rewrite_f;
SELECT sum(bytes) <> :bytes AS rewritten FROM lsm_files('rewrite_i');
SELECT * FROM lsm_verify('rewrite_i');
SET enable_seqscan = off;
SELECT count(*) FROM rewrite_h a WHERE EXISTS (SELECT FROM rewrite_h b WHERE b.v = a.v);
DROP VIEW rewrite_f;
DROP TABLE rewrite_h;
RESET ALL;

-- what is counted is the relation's, whatever becomes of its files: as in pg_stat_user_tables
CREATE SCHEMA counts_a;
CREATE SCHEMA counts_b;
CREATE TABLE counts_a.users (id int PRIMARY KEY, v text) USING lsm;
CREATE TABLE counts_b.users (id int PRIMARY KEY, v text) USING lsm;
CREATE TABLE before (relid oid, lookups int8, digests int8, flushes int8, bytes_flushed int8, level_flushes numeric);
CREATE VIEW now AS SELECT s.relid, s.lookups, s.digests, s.flushes, s.bytes_flushed,
	(SELECT sum(l.flushes) FROM pg_stat_lsm_levels l WHERE l.relid = s.relid) AS level_flushes
	FROM pg_stat_lsm s WHERE schemaname LIKE 'counts__';
CREATE FUNCTION note() RETURNS void LANGUAGE sql AS 'TRUNCATE before; INSERT INTO before SELECT * FROM now';
-- relations that count less than before, or another number
CREATE FUNCTION less() RETURNS SETOF regclass LANGUAGE sql AS
$$SELECT b.relid::regclass FROM before b LEFT JOIN now n USING (relid)
	WHERE (n.lookups >= b.lookups AND n.digests >= b.digests AND n.flushes >= b.flushes AND n.bytes_flushed >= b.bytes_flushed AND n.level_flushes >= b.level_flushes) IS NOT TRUE$$;
CREATE FUNCTION other() RETURNS SETOF regclass LANGUAGE sql AS
$$SELECT coalesce(b.relid, n.relid)::regclass FROM before b FULL JOIN now n USING (relid) WHERE b IS DISTINCT FROM n$$;
INSERT INTO counts_a.users SELECT i, 'v' || i FROM generate_series(1, 1000) i;
INSERT INTO counts_b.users SELECT i, 'v' || i FROM generate_series(1, 10) i;
SELECT lsm_flush('counts_a.users'), lsm_flush('counts_b.users');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT v FROM counts_a.users WHERE id = 7;
SELECT v FROM counts_a.users WHERE id = 8;
SELECT schemaname, relname, lookups, flushes FROM pg_stat_lsm WHERE schemaname LIKE 'counts__' ORDER BY 1, 2;
SELECT schemaname, relname, level, flushes FROM pg_stat_lsm_levels WHERE schemaname LIKE 'counts__' ORDER BY 1, 2, 3;
SELECT note();
TRUNCATE counts_a.users;
SELECT other();
-- nobody has used the new files: there is a row all the same
SELECT schemaname, relname, level, files, flushes FROM pg_stat_lsm_levels WHERE schemaname LIKE 'counts__' ORDER BY 1, 2, 3;
INSERT INTO counts_a.users SELECT i, 'w' || i FROM generate_series(1, 1000) i;
SELECT less();
SELECT note();
BEGIN;
TRUNCATE counts_a.users;
ROLLBACK;
SELECT other();
BEGIN;
SAVEPOINT s;
TRUNCATE counts_a.users;
ROLLBACK TO s;
DROP TABLE counts_b.users;
ROLLBACK;
SELECT other();
SELECT lsm_flush('counts_a.users');
SELECT note();
VACUUM FULL counts_a.users;
SELECT less();
SELECT v FROM counts_a.users WHERE id = 9;
SELECT b.relid::regclass, n.lookups > b.lookups AS goes_on FROM before b JOIN now n USING (relid) WHERE b.relid = 'counts_a.users_pkey'::regclass;
SELECT note();
CLUSTER counts_a.users USING users_pkey;
SELECT less();
ALTER TABLE counts_a.users ALTER v TYPE varchar(9);
SELECT less();
REINDEX TABLE counts_a.users;
SELECT less();
BEGIN;
CLUSTER counts_a.users;
ROLLBACK;
SELECT less();
SELECT lsm_compact('counts_a.users');
BEGIN;
TRUNCATE counts_a.users;
TRUNCATE counts_a.users;
COMMIT;
SELECT less();
BEGIN;
SAVEPOINT s;
DROP TABLE counts_a.users;
ROLLBACK TO s;
TRUNCATE counts_a.users;
COMMIT;
SELECT less();
-- what is dropped is gone with its counts, and the next of its name begins with zero
DROP TABLE counts_a.users;
CREATE TABLE counts_a.users (id int PRIMARY KEY, v text) USING lsm;
SELECT schemaname, relname, lookups, flushes FROM pg_stat_lsm WHERE schemaname = 'counts_a' ORDER BY 1, 2;
-- all of them
INSERT INTO counts_a.users VALUES (1, 'v');
SELECT lsm_flush('counts_a.users');
TRUNCATE counts_a.users;
SELECT pg_stat_lsm_reset();
SELECT schemaname, relname, lookups, flushes, write_amplification FROM pg_stat_lsm WHERE schemaname LIKE 'counts__' ORDER BY 1, 2;
SELECT sum(flushes) FROM pg_stat_lsm_levels WHERE schemaname LIKE 'counts__';
RESET enable_seqscan;
RESET enable_bitmapscan;
SET client_min_messages = warning;
DROP SCHEMA counts_a, counts_b CASCADE;
DROP VIEW now CASCADE;
DROP TABLE before;
DROP FUNCTION note(), less(), other();
RESET client_min_messages;
