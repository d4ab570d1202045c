/* lsmam 1.0: access methods, functions and views */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION lsmam" to load this file. \quit

---- access methods ----

CREATE FUNCTION lsm_table_handler(internal)
RETURNS table_am_handler
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

CREATE ACCESS METHOD lsm TYPE TABLE HANDLER lsm_table_handler;
COMMENT ON ACCESS METHOD lsm IS 'table in an LSM tree';

CREATE FUNCTION lsm_index_handler(internal)
RETURNS index_am_handler
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

CREATE ACCESS METHOD lsm_index TYPE INDEX HANDLER lsm_index_handler;
COMMENT ON ACCESS METHOD lsm_index IS 'index in an LSM tree (CREATE INDEX ... USING lsm)';

---- maintenance ----

CREATE FUNCTION lsm_flush(relation regclass)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION lsm_flush(regclass) IS
'write the memtables of a table and its lsm indexes, or of one index, to sorted files';

CREATE FUNCTION lsm_compact(relation regclass)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION lsm_compact(regclass) IS
'flush, then merge all files of a table and its lsm indexes, or of one index, into the last level';

---- facts ----

CREATE FUNCTION lsm_relation_size(relation regclass)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION lsm_relation_size(regclass) IS
'bytes of a tree on disk: sorted files, filter files and the main fork';

CREATE FUNCTION lsm_levels(relation regclass,
	OUT level int,
	OUT runs bigint,
	OUT files bigint,
	OUT entries bigint,
	OUT bytes bigint,
	OUT filter_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 8;
COMMENT ON FUNCTION lsm_levels(regclass) IS
'levels of a tree that hold files; memtables are not part of it';

CREATE FUNCTION lsm_files(relation regclass,
	OUT level int,
	OUT run bigint,
	OUT file bigint,
	OUT entries bigint,
	OUT bytes bigint,
	OUT filter_bytes bigint,
	OUT filter_scheme text,
	OUT min_xid xid,
	OUT smallest bytea,
	OUT largest bytea)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION lsm_files(regclass) IS
'sorted files of a tree, newest level first; needs SELECT on the table, for it shows keys';

CREATE FUNCTION lsm_filters(relation regclass,
	OUT level int,
	OUT file bigint,
	OUT segment int,
	OUT filter_scheme text,
	OUT keys bigint,
	OUT bits_per_key double precision,
	OUT filter_bytes bigint,
	OUT units int,
	OUT units_on int,
	OUT hotness double precision,
	OUT expected_fpr double precision,
	OUT probes bigint,
	OUT negatives bigint,
	OUT true_positives bigint,
	OUT false_positives bigint,
	OUT measured_fpr double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION lsm_filters(regclass) IS
'filters of a tree by file, elastic ones also by segment, with expected and measured false positive rate';

CREATE FUNCTION lsm_advise(relation regclass,
	OUT tree regclass,
	OUT setting text,
	OUT current text,
	OUT suggested text,
	OUT wasted_reads double precision,
	OUT expected_wasted_reads double precision,
	OUT filter_bytes_change bigint,
	OUT statement text,
	OUT reason text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 3;
COMMENT ON FUNCTION lsm_advise(regclass) IS
'what the accesses counted since pg_stat_lsm_reset() say about the filters of a tree, or of a table and its lsm indexes; wasted reads are per 1000 lookups';

CREATE FUNCTION lsm_verify(relation regclass,
	OUT object text,
	OUT problem text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION lsm_verify(regclass) IS
'check a tree, and a table against its lsm indexes; one row per problem, none if all is well';

CREATE FUNCTION lsm_full_version()
RETURNS text
AS 'MODULE_PATHNAME'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION lsm_full_version() IS
'versions of lsmam and of the libraries it runs with';

---- statistics ----

CREATE FUNCTION lsm_stat_trees(
	OUT dbid oid,
	OUT spcid oid,
	OUT relfilenode oid,
	OUT lookups bigint,
	OUT digests bigint,
	OUT filter_probes bigint,
	OUT filter_negatives bigint,
	OUT filter_true_positives bigint,
	OUT filter_false_positives bigint,
	OUT unit_probes bigint,
	OUT blocks_read bigint,
	OUT memtable_hits bigint,
	OUT flushes bigint,
	OUT compactions bigint,
	OUT bytes_flushed bigint,
	OUT bytes_compacted bigint,
	OUT stall_ms double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION lsm_stat_trees() IS
'counters of the trees known to shared memory, all databases; see view pg_stat_lsm';

CREATE VIEW pg_stat_lsm AS
SELECT c.oid AS relid,
	c.relname,
	CASE WHEN a.amname = 'lsm' THEN 'table' ELSE 'index' END AS kind,
	coalesce(s.lookups, 0) AS lookups,
	coalesce(s.digests, 0) AS digests,
	coalesce(s.filter_probes, 0) AS filter_probes,
	coalesce(s.filter_negatives, 0) AS filter_negatives,
	coalesce(s.filter_true_positives, 0) AS filter_true_positives,
	coalesce(s.filter_false_positives, 0) AS filter_false_positives,
	coalesce(s.unit_probes, 0) AS unit_probes,
	coalesce(s.blocks_read, 0) AS blocks_read,
	coalesce(s.memtable_hits, 0) AS memtable_hits,
	coalesce(s.flushes, 0) AS flushes,
	coalesce(s.compactions, 0) AS compactions,
	coalesce(s.bytes_flushed, 0) AS bytes_flushed,
	coalesce(s.bytes_compacted, 0) AS bytes_compacted,
	coalesce(s.stall_ms, 0) AS stall_ms
FROM pg_catalog.pg_class c
	JOIN pg_catalog.pg_am a ON a.oid = c.relam AND a.amname IN ('lsm', 'lsm_index')
	JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
	LEFT JOIN lsm_stat_trees() s
		ON s.dbid = d.oid
			AND s.relfilenode = c.relfilenode
			AND s.spcid = CASE WHEN c.reltablespace = 0 THEN d.dattablespace
				ELSE c.reltablespace END
WHERE c.relfilenode <> 0;

GRANT SELECT ON pg_stat_lsm TO PUBLIC;

CREATE FUNCTION lsm_elastic_stats(
	OUT budget_bytes bigint,
	OUT used_bytes bigint,
	OUT taken_bytes bigint,
	OUT reserved_bytes bigint,
	OUT state_bytes bigint,
	OUT units_on bigint,
	OUT units_wanted bigint,
	OUT segments bigint,
	OUT accesses bigint,
	OUT promotions bigint,
	OUT demotions bigint,
	OUT loads bigint,
	OUT extra_io double precision)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION lsm_elastic_stats() IS
'units of elastic filters in memory, all trees together';

CREATE FUNCTION pg_stat_lsm_reset()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION pg_stat_lsm_reset() IS
'set the counters of all trees of the current database to zero';
REVOKE ALL ON FUNCTION pg_stat_lsm_reset() FROM PUBLIC;

