-- Filters that know leading columns: WHERE tenant = ... ORDER BY ts asks them first
CREATE FUNCTION lf_counts(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'LSM:' THEN
			RETURN regexp_replace(substring(line FROM 'lookups.*false positives=\d+'), ' true positives.*', '');
		END IF;
	END LOOP;
	RETURN 'nothing';
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE TABLE lf (tenant int, ts timestamp, note text) USING lsm;
CREATE INDEX lf_i ON lf USING lsm (tenant, ts) WITH (bits_per_key = 20, size_ratio = 100);
-- three runs in which all tenants but 50 and 500 are: their fences admit these
INSERT INTO lf SELECT CASE WHEN i % 100 = 50 THEN 1 ELSE i % 100 END, timestamp '2026-01-01' + i * interval '1 s', 'a' FROM generate_series(1, 2000) i;
SELECT lsm_flush('lf_i');
INSERT INTO lf SELECT CASE WHEN i % 100 = 50 THEN 1 ELSE i % 100 END, timestamp '2026-02-01' + i * interval '1 s', 'b' FROM generate_series(1, 2000) i;
SELECT lsm_flush('lf_i');
INSERT INTO lf SELECT CASE WHEN i % 100 = 50 THEN 1 ELSE i % 100 END, timestamp '2026-03-01' + i * interval '1 s', 'c' FROM generate_series(1, 2000) i;
INSERT INTO lf VALUES (50, '2026-03-02', 'rare');
SELECT lsm_flush('lf_i');
SELECT count(*) AS files, min(filter_columns), max(filter_columns) FROM lsm_filters('lf_i');
-- absent, rare, common; every direction; one digest each
SELECT lf_counts('SELECT * FROM lf WHERE tenant = 50 ORDER BY ts LIMIT 10');
SELECT lf_counts('SELECT * FROM lf WHERE tenant = 50 ORDER BY ts DESC LIMIT 10');
SELECT lf_counts('SELECT tenant, ts FROM lf WHERE tenant = 50');
SELECT lf_counts('SELECT * FROM lf WHERE tenant = 50 AND ts > ''2026-03-01''');
SELECT lf_counts('SELECT * FROM lf WHERE tenant = 7 ORDER BY ts LIMIT 10');
SELECT lf_counts('SELECT * FROM lf WHERE tenant = 500 ORDER BY ts LIMIT 10');
SELECT lf_counts('SELECT * FROM lf WHERE tenant > 98 ORDER BY tenant, ts LIMIT 10');
SET enable_bitmapscan = on;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT lf_counts('SELECT * FROM lf WHERE tenant = 50 AND ts > ''2026-03-01''');
RESET enable_indexscan;
RESET enable_indexonlyscan;
SET enable_bitmapscan = off;
SELECT note FROM lf WHERE tenant = 50 ORDER BY ts DESC LIMIT 10;
SELECT lsm_verify('lf_i');
-- files of another number of columns are read; the next ones have it, and lsm_compact() writes all
ALTER INDEX lf_i SET (filter_columns = 0);
SELECT lf_counts('SELECT * FROM lf WHERE tenant = 50 ORDER BY ts LIMIT 10');
INSERT INTO lf VALUES (51, '2026-03-02', 'x');
SELECT lsm_compact('lf_i');
SELECT DISTINCT filter_columns FROM lsm_filters('lf_i');
ALTER INDEX lf_i RESET (filter_columns);
SELECT lf_counts('SELECT * FROM lf WHERE tenant = 50 ORDER BY ts LIMIT 10');
SELECT note FROM lf WHERE tenant = 50 ORDER BY ts DESC LIMIT 10;
SELECT lsm_compact('lf_i');
SELECT DISTINCT filter_columns FROM lsm_filters('lf_i');
ALTER INDEX lf_i SET (filter_columns = 9);
ALTER INDEX lf_i SET (filter_columns = -2);
-- more than there are columns before the last; single columns
ALTER INDEX lf_i SET (filter_columns = 8);
REINDEX INDEX lf_i;
SELECT DISTINCT filter_columns FROM lsm_filters('lf_i');
CREATE INDEX lf_one ON lf USING lsm (tenant);
CREATE INDEX lf_elastic ON lf USING lsm (tenant, ts) WITH (filter_scheme = elastic, filter_columns = 1);
SELECT DISTINCT filter_columns FROM lsm_filters('lf_one');
SELECT filter_columns FROM lsm_filters('lf_elastic') WHERE segment IS NULL;
-- by default, up to the first column of an instant or a real number; more if asked for
CREATE TABLE lf_types (a int, t timestamptz, f float8, d date, b bigint) USING lsm;
CREATE INDEX lf_a_t ON lf_types USING lsm (a, t, b);
CREATE INDEX lf_t_a ON lf_types USING lsm (t, a);
CREATE INDEX lf_d_f ON lf_types USING lsm (a, d DESC, f, b);
CREATE INDEX lf_asked ON lf_types USING lsm (a, t, b) WITH (filter_columns = 2);
INSERT INTO lf_types SELECT i % 10, timestamptz '2026-01-01 UTC' + i * interval '1 s', i / 7.0, date '2026-01-01' + i % 5, i FROM generate_series(1, 100) i;
SELECT lsm_flush('lf_types');
SELECT i.name, f.filter_columns, f.keys FROM (VALUES ('lf_a_t'), ('lf_t_a'), ('lf_d_f'), ('lf_asked')) i (name), LATERAL lsm_filters(i.name::regclass) f;
DROP TABLE lf_types;
-- keys take the parameter, too, and keep it when a column changes its type
CREATE TABLE lf_key (a int, b int, UNIQUE (a, b) WITH (filter_columns = 1)) USING lsm;
ALTER TABLE lf_key ADD PRIMARY KEY (b, a) WITH (filter_columns = 0);
ALTER TABLE lf_key ALTER b TYPE bigint;
SELECT relname, amname, reloptions FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname ~ '^lf_key_' ORDER BY 1;
DROP TABLE lf_key;
DROP TABLE lf;
DROP FUNCTION lf_counts;
