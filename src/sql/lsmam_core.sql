/* lsmam 1.0: access methods, functions and views */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION lsmam" to load this file. \quit

-- The target schema may be one in which others have made objects.  Names are looked up
-- in pg_catalog first, but an operator or function there with types that match better
-- wins.  So all that is not ours is named with its schema, and arguments have exactly
-- the types of what is meant.

---- access methods ----

CREATE FUNCTION lsm_table_handler(pg_catalog.internal)
RETURNS pg_catalog.table_am_handler
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

CREATE ACCESS METHOD lsm TYPE TABLE HANDLER lsm_table_handler;
COMMENT ON ACCESS METHOD lsm IS 'table in an LSM tree';

CREATE FUNCTION lsm_index_handler(pg_catalog.internal)
RETURNS pg_catalog.index_am_handler
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

CREATE ACCESS METHOD lsm_index TYPE INDEX HANDLER lsm_index_handler;
COMMENT ON ACCESS METHOD lsm_index IS 'index in an LSM tree (CREATE INDEX ... USING lsm)';

---- planning ----

CREATE FUNCTION lsm_row_bound_support(pg_catalog.internal)
RETURNS pg_catalog.internal
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

CREATE FUNCTION lsm_row_bound(pg_catalog."any", pg_catalog."any", pg_catalog.oid)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 0.000001
SUPPORT lsm_row_bound_support;
COMMENT ON FUNCTION lsm_row_bound(pg_catalog."any", pg_catalog."any", pg_catalog.oid) IS
'column and value compared by this operator, <= or >=; the planner adds it to row comparisons, for lsm indexes';

CREATE FUNCTION lsm_row_bound_leakproof(pg_catalog."any", pg_catalog."any", pg_catalog.oid)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME'
LANGUAGE C IMMUTABLE LEAKPROOF PARALLEL SAFE COST 0.000001
SUPPORT lsm_row_bound_support;
COMMENT ON FUNCTION lsm_row_bound_leakproof(pg_catalog."any", pg_catalog."any", pg_catalog.oid) IS
'lsm_row_bound for leakproof operators';

-- for support functions of operator classes
CREATE FUNCTION lsm_text_code(string pg_catalog.text)
RETURNS pg_catalog.bytea
AS 'MODULE_PATHNAME'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION lsm_text_code(pg_catalog.text) IS
'bytes in whose order strings are under the collation of the call, for support functions of lsm_index';

---- maintenance ----

CREATE FUNCTION lsm_flush(relation pg_catalog.regclass)
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION lsm_flush(pg_catalog.regclass) IS
'write the memtables of a table and its lsm indexes, or of one index, to sorted files';

CREATE FUNCTION lsm_compact(relation pg_catalog.regclass)
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION lsm_compact(pg_catalog.regclass) IS
'flush, then merge all files of a table and its lsm indexes, or of one index, into the last level';

---- facts ----

CREATE FUNCTION lsm_relation_size(relation pg_catalog.regclass)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION lsm_relation_size(pg_catalog.regclass) IS
'bytes of a tree on disk: sorted files, filter files and the main fork';

-- PostgreSQL's own see the forks only.  Of other access methods the answers are theirs.
CREATE FUNCTION lsm_table_size(relation pg_catalog.regclass)
RETURNS pg_catalog.int8
LANGUAGE SQL VOLATILE STRICT PARALLEL RESTRICTED
BEGIN ATOMIC
	SELECT pg_catalog.pg_table_size(c.oid::pg_catalog.regclass) OPERATOR(pg_catalog.+)
		CASE WHEN a.amname OPERATOR(pg_catalog.=) 'lsm'::pg_catalog.name OR a.amname OPERATOR(pg_catalog.=) 'lsm_index'::pg_catalog.name
			AND c.relkind OPERATOR(pg_catalog.=) 'i'::pg_catalog."char"
		THEN lsm_relation_size(c.oid::pg_catalog.regclass) OPERATOR(pg_catalog.-)
			pg_catalog.pg_relation_size(c.oid::pg_catalog.regclass, 'main'::pg_catalog.text)
		ELSE 0::pg_catalog.int8 END
	FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
	WHERE c.oid OPERATOR(pg_catalog.=) relation::pg_catalog.oid;
END;
COMMENT ON FUNCTION lsm_table_size(pg_catalog.regclass) IS
'bytes on disk of a table without its indexes, or of an index: as pg_table_size(), with sorted files';

CREATE FUNCTION lsm_indexes_size(relation pg_catalog.regclass)
RETURNS pg_catalog.int8
LANGUAGE SQL VOLATILE STRICT PARALLEL RESTRICTED
BEGIN ATOMIC
	SELECT COALESCE(pg_catalog.sum(lsm_table_size(indexrelid::pg_catalog.regclass)), 0::pg_catalog.numeric)::pg_catalog.int8
	FROM pg_catalog.pg_index WHERE indrelid OPERATOR(pg_catalog.=) relation::pg_catalog.oid;
END;
COMMENT ON FUNCTION lsm_indexes_size(pg_catalog.regclass) IS
'bytes on disk of all indexes of a table: as pg_indexes_size(), with sorted files';

CREATE FUNCTION lsm_total_relation_size(relation pg_catalog.regclass)
RETURNS pg_catalog.int8
LANGUAGE SQL VOLATILE STRICT PARALLEL RESTRICTED
BEGIN ATOMIC
	SELECT lsm_table_size(relation) OPERATOR(pg_catalog.+) lsm_indexes_size(relation);
END;
COMMENT ON FUNCTION lsm_total_relation_size(pg_catalog.regclass) IS
'bytes on disk of a table with its indexes and TOAST: as pg_total_relation_size(), with sorted files';

CREATE VIEW lsm_sizes AS
SELECT n.nspname AS schemaname, c.relname, a.amname,
	CASE WHEN s.may THEN lsm_table_size(c.oid::pg_catalog.regclass) END AS table_bytes,
	CASE WHEN s.may THEN lsm_indexes_size(c.oid::pg_catalog.regclass) END AS indexes_bytes,
	CASE WHEN s.may THEN lsm_total_relation_size(c.oid::pg_catalog.regclass) END AS total_bytes
FROM pg_catalog.pg_class c
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam,
	LATERAL (SELECT pg_catalog.has_any_column_privilege(c.oid, 'SELECT'::pg_catalog.text) OR
		pg_catalog.pg_has_role(c.relowner, 'USAGE'::pg_catalog.text) OR
		pg_catalog.pg_has_role('pg_stat_scan_tables'::pg_catalog.name, 'USAGE'::pg_catalog.text) AS may) s
WHERE c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'm']::pg_catalog."char"[]) AND
	n.nspname OPERATOR(pg_catalog.<>) ALL (ARRAY['pg_catalog', 'information_schema', 'pg_toast']::pg_catalog.name[]) AND
	(c.relpersistence OPERATOR(pg_catalog.<>) 't'::pg_catalog."char" OR
	 c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema());
COMMENT ON VIEW lsm_sizes IS
'bytes on disk of all tables, lsm or not; NULL of those that the reader may not look at';
GRANT SELECT ON lsm_sizes TO PUBLIC;

CREATE VIEW lsm_schema_sizes AS
SELECT schemaname, pg_catalog.count(*) AS tables,
	pg_catalog.sum(table_bytes)::pg_catalog.int8 AS table_bytes,
	pg_catalog.sum(indexes_bytes)::pg_catalog.int8 AS indexes_bytes,
	pg_catalog.sum(total_bytes)::pg_catalog.int8 AS total_bytes
FROM lsm_sizes GROUP BY schemaname;
COMMENT ON VIEW lsm_schema_sizes IS
'lsm_sizes summed up by schema';
GRANT SELECT ON lsm_schema_sizes TO PUBLIC;

CREATE FUNCTION lsm_levels(relation pg_catalog.regclass,
	OUT level pg_catalog.int4,
	OUT runs pg_catalog.int8,
	OUT files pg_catalog.int8,
	OUT entries pg_catalog.int8,
	OUT bytes pg_catalog.int8,
	OUT filter_bytes pg_catalog.int8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 8;
COMMENT ON FUNCTION lsm_levels(pg_catalog.regclass) IS
'levels of a tree that hold files; memtables are not part of it';

CREATE FUNCTION lsm_files(relation pg_catalog.regclass,
	OUT level pg_catalog.int4,
	OUT run pg_catalog.int8,
	OUT file pg_catalog.int8,
	OUT entries pg_catalog.int8,
	OUT bytes pg_catalog.int8,
	OUT filter_bytes pg_catalog.int8,
	OUT filter_scheme pg_catalog.text,
	OUT min_xid pg_catalog.xid,
	OUT smallest pg_catalog.bytea,
	OUT largest pg_catalog.bytea)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION lsm_files(pg_catalog.regclass) IS
'sorted files of a tree, newest level first; keys are null for those who may not read all rows';

CREATE FUNCTION lsm_filters(relation pg_catalog.regclass,
	OUT level pg_catalog.int4,
	OUT file pg_catalog.int8,
	OUT segment pg_catalog.int4,
	OUT filter_scheme pg_catalog.text,
	OUT keys pg_catalog.int8,
	OUT bits_per_key pg_catalog.float8,
	OUT filter_bytes pg_catalog.int8,
	OUT units pg_catalog.int4,
	OUT units_on pg_catalog.int4,
	OUT hotness pg_catalog.float8,
	OUT expected_fpr pg_catalog.float8,
	OUT probes pg_catalog.int8,
	OUT negatives pg_catalog.int8,
	OUT true_positives pg_catalog.int8,
	OUT false_positives pg_catalog.int8,
	OUT measured_fpr pg_catalog.float8,
	OUT filter_columns pg_catalog.int4)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION lsm_filters(pg_catalog.regclass) IS
'filters of a tree by file, elastic ones also by segment, with expected and measured false positive rate';

CREATE FUNCTION lsm_advise(relation pg_catalog.regclass,
	OUT tree pg_catalog.regclass,
	OUT setting pg_catalog.text,
	OUT current pg_catalog.text,
	OUT suggested pg_catalog.text,
	OUT wasted_reads pg_catalog.float8,
	OUT expected_wasted_reads pg_catalog.float8,
	OUT filter_bytes_change pg_catalog.int8,
	OUT statement pg_catalog.text,
	OUT reason pg_catalog.text)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 3;
COMMENT ON FUNCTION lsm_advise(pg_catalog.regclass) IS
'what the accesses counted since pg_stat_lsm_reset() say about the filters of a tree, or of a table and its lsm indexes; wasted reads are per 1000 lookups';

CREATE FUNCTION lsm_verify(relation pg_catalog.regclass,
	OUT object pg_catalog.text,
	OUT problem pg_catalog.text)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION lsm_verify(pg_catalog.regclass) IS
'check a tree, and a table against its lsm indexes; one row per problem, none if all is well';

CREATE FUNCTION lsm_full_version()
RETURNS pg_catalog.text
AS 'MODULE_PATHNAME'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION lsm_full_version() IS
'versions of lsmam and of the libraries it runs with';

---- statistics ----

CREATE FUNCTION lsm_stat_trees(
	OUT dbid pg_catalog.oid,
	OUT spcid pg_catalog.oid,
	OUT relfilenode pg_catalog.oid,
	OUT lookups pg_catalog.int8,
	OUT digests pg_catalog.int8,
	OUT filter_probes pg_catalog.int8,
	OUT filter_negatives pg_catalog.int8,
	OUT filter_true_positives pg_catalog.int8,
	OUT filter_false_positives pg_catalog.int8,
	OUT unit_probes pg_catalog.int8,
	OUT blocks_read pg_catalog.int8,
	OUT memtable_hits pg_catalog.int8,
	OUT flushes pg_catalog.int8,
	OUT compactions pg_catalog.int8,
	OUT bytes_flushed pg_catalog.int8,
	OUT bytes_compacted pg_catalog.int8,
	OUT stall_ms pg_catalog.float8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION lsm_stat_trees() IS
'counters of the trees known to shared memory, all databases; see view pg_stat_lsm';

CREATE VIEW pg_stat_lsm AS
SELECT c.oid AS relid,
	c.relname,
	CASE WHEN a.amname OPERATOR(pg_catalog.=) 'lsm'::pg_catalog.name
		THEN 'table'::pg_catalog.text ELSE 'index'::pg_catalog.text END AS kind,
	coalesce(s.lookups, '0'::pg_catalog.int8) AS lookups,
	coalesce(s.digests, '0'::pg_catalog.int8) AS digests,
	coalesce(s.filter_probes, '0'::pg_catalog.int8) AS filter_probes,
	coalesce(s.filter_negatives, '0'::pg_catalog.int8) AS filter_negatives,
	coalesce(s.filter_true_positives, '0'::pg_catalog.int8) AS filter_true_positives,
	coalesce(s.filter_false_positives, '0'::pg_catalog.int8) AS filter_false_positives,
	coalesce(s.unit_probes, '0'::pg_catalog.int8) AS unit_probes,
	coalesce(s.blocks_read, '0'::pg_catalog.int8) AS blocks_read,
	coalesce(s.memtable_hits, '0'::pg_catalog.int8) AS memtable_hits,
	coalesce(s.flushes, '0'::pg_catalog.int8) AS flushes,
	coalesce(s.compactions, '0'::pg_catalog.int8) AS compactions,
	coalesce(s.bytes_flushed, '0'::pg_catalog.int8) AS bytes_flushed,
	coalesce(s.bytes_compacted, '0'::pg_catalog.int8) AS bytes_compacted,
	coalesce(s.stall_ms, '0'::pg_catalog.float8) AS stall_ms
FROM pg_catalog.pg_class c
	JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
		AND (a.amname OPERATOR(pg_catalog.=) 'lsm'::pg_catalog.name
			OR a.amname OPERATOR(pg_catalog.=) 'lsm_index'::pg_catalog.name)
	JOIN pg_catalog.pg_database d
		ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	LEFT JOIN lsm_stat_trees() s
		ON s.dbid OPERATOR(pg_catalog.=) d.oid
			AND s.relfilenode OPERATOR(pg_catalog.=) c.relfilenode
			AND s.spcid OPERATOR(pg_catalog.=)
				CASE WHEN c.reltablespace OPERATOR(pg_catalog.=) '0'::pg_catalog.oid
					THEN d.dattablespace ELSE c.reltablespace END
WHERE c.relfilenode OPERATOR(pg_catalog.<>) '0'::pg_catalog.oid;

GRANT SELECT ON pg_stat_lsm TO PUBLIC;

CREATE FUNCTION lsm_elastic_stats(
	OUT budget_bytes pg_catalog.int8,
	OUT used_bytes pg_catalog.int8,
	OUT taken_bytes pg_catalog.int8,
	OUT reserved_bytes pg_catalog.int8,
	OUT state_bytes pg_catalog.int8,
	OUT units_on pg_catalog.int8,
	OUT units_wanted pg_catalog.int8,
	OUT segments pg_catalog.int8,
	OUT accesses pg_catalog.int8,
	OUT promotions pg_catalog.int8,
	OUT demotions pg_catalog.int8,
	OUT loads pg_catalog.int8,
	OUT extra_io pg_catalog.float8)
RETURNS pg_catalog.record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION lsm_elastic_stats() IS
'units of elastic filters in memory, all trees together';

CREATE FUNCTION pg_stat_lsm_reset()
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION pg_stat_lsm_reset() IS
'set the counters of all trees of the current database to zero';
REVOKE ALL ON FUNCTION pg_stat_lsm_reset() FROM PUBLIC;

