/* lsmam 1.0 to 1.1 */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION lsmam UPDATE TO '1.1'" to load this file. \quit

-- The rules of lsmam_core.sql hold here: all that is not ours is named with its schema.

---- names ----

-- What only PostgreSQL and our views call is out of the way of \df lsm_*.  lsm_stat_trees()
-- keeps its name, for views of users that were made with version 1.0.
ALTER FUNCTION lsm_table_handler(pg_catalog.internal) RENAME TO lsmam_table_handler;
ALTER FUNCTION lsm_index_handler(pg_catalog.internal) RENAME TO lsmam_index_handler;
ALTER FUNCTION lsm_row_bound_support(pg_catalog.internal) RENAME TO lsmam_row_bound_support;
ALTER FUNCTION lsm_row_bound(pg_catalog."any", pg_catalog."any", pg_catalog.oid) RENAME TO lsmam_row_bound;
ALTER FUNCTION lsm_row_bound_leakproof(pg_catalog."any", pg_catalog."any", pg_catalog.oid) RENAME TO lsmam_row_bound_leakproof;
COMMENT ON FUNCTION lsmam_row_bound_leakproof(pg_catalog."any", pg_catalog."any", pg_catalog.oid) IS
'lsmam_row_bound for leakproof operators';
COMMENT ON FUNCTION lsm_stat_trees() IS
'counters of the trees known to shared memory, all databases, as version 1.0 had them; see view pg_stat_lsm';

---- facts ----

-- A partitioned table or index has nothing on disk, and an access method perhaps (tables
-- since PostgreSQL 17).  Its size is that of all its parts.  NULL of a relation that is
-- not there, as pg_table_size().
CREATE OR REPLACE FUNCTION lsm_table_size(relation pg_catalog.regclass)
RETURNS pg_catalog.int8
LANGUAGE SQL VOLATILE STRICT PARALLEL RESTRICTED
BEGIN ATOMIC
	SELECT pg_catalog.sum(pg_catalog.pg_table_size(c.oid::pg_catalog.regclass) OPERATOR(pg_catalog.+)
		CASE WHEN a.amname OPERATOR(pg_catalog.=) 'lsm'::pg_catalog.name
				AND c.relkind OPERATOR(pg_catalog.<>) 'p'::pg_catalog."char"
			OR a.amname OPERATOR(pg_catalog.=) 'lsm_index'::pg_catalog.name
				AND c.relkind OPERATOR(pg_catalog.=) 'i'::pg_catalog."char"
		THEN lsm_relation_size(c.oid::pg_catalog.regclass) OPERATOR(pg_catalog.-)
			pg_catalog.pg_relation_size(c.oid::pg_catalog.regclass, 'main'::pg_catalog.text)
		ELSE 0::pg_catalog.int8 END)::pg_catalog.int8
	FROM pg_catalog.pg_class r
		LEFT JOIN LATERAL pg_catalog.pg_partition_tree(r.oid::pg_catalog.regclass) t
			ON r.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['p', 'I']::pg_catalog."char"[])
		JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) COALESCE(t.relid::pg_catalog.oid, r.oid)
		LEFT JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
	WHERE r.oid OPERATOR(pg_catalog.=) relation::pg_catalog.oid;
END;
COMMENT ON FUNCTION lsm_table_size(pg_catalog.regclass) IS
'bytes on disk of a table without its indexes, or of an index: as pg_table_size(), with sorted files; of what is partitioned, of all parts';

-- Of a partitioned table, those of all parts, whether they belong to an index of the whole
-- or not.  NULL of a relation that is not there, as pg_indexes_size().
CREATE OR REPLACE FUNCTION lsm_indexes_size(relation pg_catalog.regclass)
RETURNS pg_catalog.int8
LANGUAGE SQL VOLATILE STRICT PARALLEL RESTRICTED
BEGIN ATOMIC
	SELECT COALESCE(pg_catalog.sum(lsm_table_size(c.oid::pg_catalog.regclass)), 0::pg_catalog.numeric)::pg_catalog.int8
	FROM pg_catalog.pg_class r
		LEFT JOIN LATERAL pg_catalog.pg_partition_tree(r.oid::pg_catalog.regclass) t
			ON r.relkind OPERATOR(pg_catalog.=) 'p'::pg_catalog."char"
		LEFT JOIN pg_catalog.pg_index i
			ON i.indrelid OPERATOR(pg_catalog.=) COALESCE(t.relid::pg_catalog.oid, r.oid)
		LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.indexrelid
			AND c.relkind OPERATOR(pg_catalog.=) 'i'::pg_catalog."char"
	WHERE r.oid OPERATOR(pg_catalog.=) relation::pg_catalog.oid
	GROUP BY r.oid;
END;
COMMENT ON FUNCTION lsm_indexes_size(pg_catalog.regclass) IS
'bytes on disk of all indexes of a table: as pg_indexes_size(), with sorted files; of a partitioned table, of all parts';
COMMENT ON FUNCTION lsm_total_relation_size(pg_catalog.regclass) IS
'bytes on disk of a table with its indexes and TOAST: as pg_total_relation_size(), with sorted files; of a partitioned table, of all parts';

CREATE FUNCTION lsm_database_size(database pg_catalog.oid)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'lsm_database_size_oid'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION lsm_database_size(pg_catalog.oid) IS
'bytes on disk of a database, sorted files included';

CREATE FUNCTION lsm_database_size(database pg_catalog.name)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'lsm_database_size_name'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION lsm_database_size(pg_catalog.name) IS
'bytes on disk of a database, sorted files included';

---- statistics ----

CREATE FUNCTION lsmam_tree_stats(former pg_catalog.bool,
	OUT dbid pg_catalog.oid,
	OUT spcid pg_catalog.oid,
	OUT relfilenode pg_catalog.oid,
	OUT relid pg_catalog.oid,
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
	OUT stall_ms pg_catalog.float8,
	OUT stalls_level0 pg_catalog.int8,
	OUT stall_level0_ms pg_catalog.float8,
	OUT stalls_flush pg_catalog.int8,
	OUT stall_flush_ms pg_catalog.float8,
	OUT stalls_memory pg_catalog.int8,
	OUT stall_memory_ms pg_catalog.float8,
	OUT memtable_bytes pg_catalog.int8,
	OUT delays_level0 pg_catalog.int8,
	OUT delay_level0_ms pg_catalog.float8,
	OUT delays_flush pg_catalog.int8,
	OUT delay_flush_ms pg_catalog.float8,
	OUT delays_memory pg_catalog.int8,
	OUT delay_memory_ms pg_catalog.float8,
	OUT delays_pending pg_catalog.int8,
	OUT delay_pending_ms pg_catalog.float8,
	OUT filter_bytes pg_catalog.int8,
	OUT level0_runs pg_catalog.int4,
	OUT pending_compaction_bytes pg_catalog.int8,
	OUT workers_help pg_catalog.bool,
	OUT directory_lookups pg_catalog.int8,
	OUT directory_hits pg_catalog.int8,
	OUT directory_misled pg_catalog.int8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'lsm_tree_stats'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION lsmam_tree_stats(pg_catalog.bool) IS
'what is known of the trees in shared memory, or what former trees of relations have counted, all databases; see view pg_stat_lsm';

-- The columns of version 1.0 keep their places.  What is counted is the relation's, whose
-- tree may be another one since TRUNCATE or VACUUM FULL.
CREATE OR REPLACE VIEW pg_stat_lsm AS
SELECT c.oid AS relid,
	c.relname,
	CASE WHEN a.amname OPERATOR(pg_catalog.=) 'lsm'::pg_catalog.name
		THEN 'table'::pg_catalog.text ELSE 'index'::pg_catalog.text END AS kind,
	coalesce(s.lookups, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.lookups, '0'::pg_catalog.int8) AS lookups,
	coalesce(s.digests, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.digests, '0'::pg_catalog.int8) AS digests,
	coalesce(s.filter_probes, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.filter_probes, '0'::pg_catalog.int8) AS filter_probes,
	coalesce(s.filter_negatives, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.filter_negatives, '0'::pg_catalog.int8) AS filter_negatives,
	coalesce(s.filter_true_positives, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.filter_true_positives, '0'::pg_catalog.int8) AS filter_true_positives,
	coalesce(s.filter_false_positives, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.filter_false_positives, '0'::pg_catalog.int8) AS filter_false_positives,
	coalesce(s.unit_probes, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.unit_probes, '0'::pg_catalog.int8) AS unit_probes,
	coalesce(s.blocks_read, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.blocks_read, '0'::pg_catalog.int8) AS blocks_read,
	coalesce(s.memtable_hits, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.memtable_hits, '0'::pg_catalog.int8) AS memtable_hits,
	coalesce(s.flushes, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.flushes, '0'::pg_catalog.int8) AS flushes,
	coalesce(s.compactions, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.compactions, '0'::pg_catalog.int8) AS compactions,
	coalesce(s.bytes_flushed, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.bytes_flushed, '0'::pg_catalog.int8) AS bytes_flushed,
	coalesce(s.bytes_compacted, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.bytes_compacted, '0'::pg_catalog.int8) AS bytes_compacted,
	coalesce(s.stall_ms, '0'::pg_catalog.float8) OPERATOR(pg_catalog.+) coalesce(f.stall_ms, '0'::pg_catalog.float8) AS stall_ms,
	coalesce(s.stalls_level0, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.stalls_level0, '0'::pg_catalog.int8) AS stalls_level0,
	coalesce(s.stall_level0_ms, '0'::pg_catalog.float8) OPERATOR(pg_catalog.+) coalesce(f.stall_level0_ms, '0'::pg_catalog.float8) AS stall_level0_ms,
	coalesce(s.stalls_flush, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.stalls_flush, '0'::pg_catalog.int8) AS stalls_flush,
	coalesce(s.stall_flush_ms, '0'::pg_catalog.float8) OPERATOR(pg_catalog.+) coalesce(f.stall_flush_ms, '0'::pg_catalog.float8) AS stall_flush_ms,
	coalesce(s.stalls_memory, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.stalls_memory, '0'::pg_catalog.int8) AS stalls_memory,
	coalesce(s.stall_memory_ms, '0'::pg_catalog.float8) OPERATOR(pg_catalog.+) coalesce(f.stall_memory_ms, '0'::pg_catalog.float8) AS stall_memory_ms,
	coalesce(s.memtable_bytes, '0'::pg_catalog.int8) AS memtable_bytes,
	s.filter_bytes,
	s.level0_runs,
	s.pending_compaction_bytes,
	w.bytes_out::pg_catalog.float8 OPERATOR(pg_catalog./) w.bytes_flushed::pg_catalog.float8 AS write_amplification,
	coalesce(s.delays_level0, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.delays_level0, '0'::pg_catalog.int8) AS delays_level0,
	coalesce(s.delay_level0_ms, '0'::pg_catalog.float8) OPERATOR(pg_catalog.+) coalesce(f.delay_level0_ms, '0'::pg_catalog.float8) AS delay_level0_ms,
	coalesce(s.delays_flush, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.delays_flush, '0'::pg_catalog.int8) AS delays_flush,
	coalesce(s.delay_flush_ms, '0'::pg_catalog.float8) OPERATOR(pg_catalog.+) coalesce(f.delay_flush_ms, '0'::pg_catalog.float8) AS delay_flush_ms,
	coalesce(s.delays_memory, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.delays_memory, '0'::pg_catalog.int8) AS delays_memory,
	coalesce(s.delay_memory_ms, '0'::pg_catalog.float8) OPERATOR(pg_catalog.+) coalesce(f.delay_memory_ms, '0'::pg_catalog.float8) AS delay_memory_ms,
	coalesce(s.delays_pending, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.delays_pending, '0'::pg_catalog.int8) AS delays_pending,
	coalesce(s.delay_pending_ms, '0'::pg_catalog.float8) OPERATOR(pg_catalog.+) coalesce(f.delay_pending_ms, '0'::pg_catalog.float8) AS delay_pending_ms,
	s.workers_help,
	n.nspname AS schemaname,
	coalesce(s.directory_lookups, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.directory_lookups, '0'::pg_catalog.int8) AS directory_lookups,
	coalesce(s.directory_hits, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.directory_hits, '0'::pg_catalog.int8) AS directory_hits,
	coalesce(s.directory_misled, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.directory_misled, '0'::pg_catalog.int8) AS directory_misled
FROM pg_catalog.pg_class c
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
		AND (a.amname OPERATOR(pg_catalog.=) 'lsm'::pg_catalog.name
			OR a.amname OPERATOR(pg_catalog.=) 'lsm_index'::pg_catalog.name)
	JOIN pg_catalog.pg_database d
		ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	LEFT JOIN lsmam_tree_stats(false) s
		ON s.dbid OPERATOR(pg_catalog.=) d.oid
			AND s.relfilenode OPERATOR(pg_catalog.=) c.relfilenode
			AND s.spcid OPERATOR(pg_catalog.=)
				CASE WHEN c.reltablespace OPERATOR(pg_catalog.=) '0'::pg_catalog.oid
					THEN d.dattablespace ELSE c.reltablespace END
	LEFT JOIN lsmam_tree_stats(true) f
		ON f.dbid OPERATOR(pg_catalog.=) d.oid AND f.relid OPERATOR(pg_catalog.=) c.oid,
	LATERAL (SELECT
		nullif(coalesce(s.bytes_flushed, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+)
			coalesce(f.bytes_flushed, '0'::pg_catalog.int8), '0'::pg_catalog.int8) AS bytes_flushed,
		coalesce(s.bytes_flushed, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(s.bytes_compacted, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+)
			coalesce(f.bytes_flushed, '0'::pg_catalog.int8) OPERATOR(pg_catalog.+) coalesce(f.bytes_compacted, '0'::pg_catalog.int8) AS bytes_out) w
WHERE c.relfilenode OPERATOR(pg_catalog.<>) '0'::pg_catalog.oid;
COMMENT ON VIEW pg_stat_lsm IS
'lsm tables and indexes of this database: what was counted since the start or pg_stat_lsm_reset()';

CREATE FUNCTION lsmam_level_stats(former pg_catalog.bool,
	OUT dbid pg_catalog.oid,
	OUT spcid pg_catalog.oid,
	OUT relfilenode pg_catalog.oid,
	OUT relid pg_catalog.oid,
	OUT level pg_catalog.int4,
	OUT files pg_catalog.int8,
	OUT bytes pg_catalog.int8,
	OUT flushes pg_catalog.int8,
	OUT bytes_flushed pg_catalog.int8,
	OUT flush_ms pg_catalog.float8,
	OUT compactions pg_catalog.int8,
	OUT files_moved pg_catalog.int8,
	OUT bytes_in pg_catalog.int8,
	OUT bytes_out pg_catalog.int8,
	OUT entries_dropped pg_catalog.int8,
	OUT compaction_ms pg_catalog.float8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'lsm_level_stats'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 300;
COMMENT ON FUNCTION lsmam_level_stats(pg_catalog.bool) IS
'levels of the trees in shared memory, or what former trees of relations have counted, all databases; see view pg_stat_lsm_levels';

CREATE VIEW pg_stat_lsm_levels AS
SELECT c.oid AS relid,
	n.nspname AS schemaname,
	c.relname,
	CASE WHEN a.amname OPERATOR(pg_catalog.=) 'lsm'::pg_catalog.name
		THEN 'table'::pg_catalog.text ELSE 'index'::pg_catalog.text END AS kind,
	s.level,
	pg_catalog.max(s.files) AS files,
	pg_catalog.max(s.bytes) AS bytes,
	pg_catalog.sum(s.flushes)::pg_catalog.int8 AS flushes,
	pg_catalog.sum(s.bytes_flushed)::pg_catalog.int8 AS bytes_flushed,
	pg_catalog.sum(s.flush_ms) AS flush_ms,
	pg_catalog.sum(s.compactions)::pg_catalog.int8 AS compactions,
	pg_catalog.sum(s.files_moved)::pg_catalog.int8 AS files_moved,
	pg_catalog.sum(s.bytes_in)::pg_catalog.int8 AS bytes_in,
	pg_catalog.sum(s.bytes_out)::pg_catalog.int8 AS bytes_out,
	pg_catalog.sum(s.entries_dropped)::pg_catalog.int8 AS entries_dropped,
	pg_catalog.sum(s.compaction_ms) AS compaction_ms
FROM pg_catalog.pg_class c
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
		AND (a.amname OPERATOR(pg_catalog.=) 'lsm'::pg_catalog.name
			OR a.amname OPERATOR(pg_catalog.=) 'lsm_index'::pg_catalog.name)
	JOIN (SELECT t.oid AS relid, s.level, s.files, s.bytes,
			s.flushes, s.bytes_flushed, s.flush_ms, s.compactions, s.files_moved, s.bytes_in, s.bytes_out, s.entries_dropped, s.compaction_ms
		FROM pg_catalog.pg_class t
			JOIN pg_catalog.pg_database d
				ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
			JOIN lsmam_level_stats(false) s
				ON s.dbid OPERATOR(pg_catalog.=) d.oid
					AND s.relfilenode OPERATOR(pg_catalog.=) t.relfilenode
					AND s.spcid OPERATOR(pg_catalog.=)
						CASE WHEN t.reltablespace OPERATOR(pg_catalog.=) '0'::pg_catalog.oid
							THEN d.dattablespace ELSE t.reltablespace END
		UNION ALL
		SELECT f.relid, f.level, NULL::pg_catalog.int8, NULL::pg_catalog.int8,
			f.flushes, f.bytes_flushed, f.flush_ms, f.compactions, f.files_moved, f.bytes_in, f.bytes_out, f.entries_dropped, f.compaction_ms
		FROM lsmam_level_stats(true) f
			JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) f.dbid
				AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()) s
		ON s.relid OPERATOR(pg_catalog.=) c.oid
WHERE c.relfilenode OPERATOR(pg_catalog.<>) '0'::pg_catalog.oid
GROUP BY c.oid, n.nspname, c.relname, a.amname, s.level;
COMMENT ON VIEW pg_stat_lsm_levels IS
'levels of lsm tables and indexes of this database, and the flushes and compactions that wrote to them';
GRANT SELECT ON pg_stat_lsm_levels TO PUBLIC;

---- jobs in progress ----

CREATE FUNCTION lsmam_progress(
	OUT pid pg_catalog.int4,
	OUT leader_pid pg_catalog.int4,
	OUT datid pg_catalog.oid,
	OUT command pg_catalog.text,
	OUT relid pg_catalog.oid,
	OUT phase pg_catalog.text,
	OUT level_from pg_catalog.int4,
	OUT level_to pg_catalog.int4,
	OUT files_total pg_catalog.int8,
	OUT files_done pg_catalog.int8,
	OUT entries_total pg_catalog.int8,
	OUT entries_done pg_catalog.int8,
	OUT bytes_total pg_catalog.int8,
	OUT bytes_done pg_catalog.int8,
	OUT files_written pg_catalog.int8,
	OUT bytes_written pg_catalog.int8,
	OUT started_at pg_catalog.timestamptz)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'lsm_progress'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 10;
COMMENT ON FUNCTION lsmam_progress() IS
'jobs of trees in progress, all databases; see view pg_stat_lsm_progress';

CREATE VIEW pg_stat_lsm_progress AS
SELECT p.pid,
	p.leader_pid,
	p.datid,
	d.datname,
	n.nspname AS schemaname,
	c.relname,
	p.relid,
	p.command,
	p.phase,
	p.level_from,
	p.level_to,
	p.files_total,
	p.files_done,
	p.entries_total,
	p.entries_done,
	p.bytes_total,
	p.bytes_done,
	p.files_written,
	p.bytes_written,
	p.started_at
FROM lsmam_progress() p
	LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) p.datid
	LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) p.relid
		AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace;
COMMENT ON VIEW pg_stat_lsm_progress IS
'flushes, compactions, builds, loads and lsm_verify() in progress, all databases; names of relations are of this one';
GRANT SELECT ON pg_stat_lsm_progress TO PUBLIC;

---- compression ----

CREATE FUNCTION lsm_compression(relation pg_catalog.regclass,
	OUT level pg_catalog.int4,
	OUT compression pg_catalog.text,
	OUT files pg_catalog.int8,
	OUT entries pg_catalog.int8,
	OUT bytes pg_catalog.int8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'lsm_compression_by_level'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 8;
COMMENT ON FUNCTION lsm_compression(pg_catalog.regclass) IS
'sorted files of a tree by level and compression, null for files that version 1.0 has written';

---- a picture ----

CREATE FUNCTION lsm_report(trees pg_catalog.regclass[])
RETURNS pg_catalog.text
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 10000;
COMMENT ON FUNCTION lsm_report(pg_catalog.regclass[]) IS
'lsm tables with their lsm indexes, or lsm indexes, as one HTML page: levels, files, filters, work';

---- repair ----

-- Version 1.0 let an index that had taken the place of another depend on that one's operator classes.
CREATE FUNCTION lsm_repair_dependencies()
RETURNS SETOF pg_catalog.regclass
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION lsm_repair_dependencies() IS
'let all indexes depend on their own operator classes; returns those that did not';
REVOKE ALL ON FUNCTION lsm_repair_dependencies() FROM PUBLIC;
SELECT lsm_repair_dependencies();
