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
-- The operator may be stable: a bound is not to be evaluated in planning.
ALTER FUNCTION lsmam_row_bound(pg_catalog."any", pg_catalog."any", pg_catalog.oid) STABLE;
ALTER FUNCTION lsmam_row_bound_leakproof(pg_catalog."any", pg_catalog."any", pg_catalog.oid) STABLE;
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

---- trees ----

CREATE FUNCTION lsmam_trees(relations pg_catalog.regclass[],
	OUT tree pg_catalog.regclass,
	OUT dbid pg_catalog.oid,
	OUT spcid pg_catalog.oid,
	OUT relfilenode pg_catalog.oid,
	OUT name pg_catalog.text,
	OUT persistence pg_catalog."char",
	OUT table_name pg_catalog.text,
	OUT scheme pg_catalog.text,
	OUT bottom_scheme pg_catalog.text,
	OUT bits_per_key pg_catalog.float8,
	OUT units pg_catalog.int4,
	OUT allocation pg_catalog.text,
	OUT memtable_entries pg_catalog.int8,
	OUT memtable_bytes pg_catalog.int8,
	OUT elastic_bytes pg_catalog.int8,
	OUT lookups pg_catalog.int8,
	OUT digests pg_catalog.int8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 10;
COMMENT ON FUNCTION lsmam_trees(pg_catalog.regclass[]) IS
'lsm tables with their lsm indexes, or lsm indexes, once each: filters of new files, what is in memory, lookups; see lsm_report() and lsm_advise()';

---- advice ----

-- The measure is the wasted read: a file that was searched for a key that it does not have.
-- Counted are, per file, the questions about absent keys.  What another filter would do with
-- the same questions is computed from closed forms: the sum over the files of questions about
-- absent keys * false positive rate of the filter that the file would have.  So the advice
-- holds as long as the accesses stay what they were since pg_stat_lsm_reset().

CREATE FUNCTION lsmam_filter_plan(tree pg_catalog.regclass, schemes pg_catalog.text[],
	bits_per_key pg_catalog.float8[], monkey pg_catalog.int4,
	OUT file pg_catalog.int8,
	OUT is_current pg_catalog.bool,
	OUT keys pg_catalog.float8,
	OUT absent pg_catalog.float8,
	OUT fpr pg_catalog.float8[])
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION lsmam_filter_plan(pg_catalog.regclass, pg_catalog.text[], pg_catalog.float8[], pg_catalog.int4) IS
'files of a tree, whether their filters are what is set, questions about absent keys, and the false positive rates of filters of these schemes and sizes, one of them with bits by the size of runs; see lsm_advise()';

-- Below 1000 lookups nothing is said.  Beyond a hundredth of them (many) wasted reads ask for
-- more bits, below a thousandth (few) for less.  What saves less than a megabyte is not worth a
-- rewrite.  A tree has the first of the rules that holds, and hash_sharing beside it.  Numbers in
-- quotes have the type of the other operand, so that operators are pg_catalog's.
CREATE OR REPLACE FUNCTION lsm_advise(relation pg_catalog.regclass,
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
LANGUAGE SQL VOLATILE STRICT PARALLEL RESTRICTED ROWS 3
BEGIN ATOMIC
	WITH facts AS MATERIALIZED (
		SELECT t.ordinality, t.tree, t.name, t.table_name IS NULL AS is_table, t.scheme, t.bits_per_key AS bits, t.units, t.allocation,
			t.lookups::pg_catalog.float8 AS lookups, t.digests::pg_catalog.float8 AS digests,
			'0.01' * t.lookups::pg_catalog.float8 AS many, '0.001' * t.lookups::pg_catalog.float8 AS few,
			'1000' / nullif(t.lookups::pg_catalog.float8, '0') AS per_1000, f.*,
			u.elastic_units, greatest(t.bits_per_key / u.elastic_units::pg_catalog.float8, '1') AS unit_bits,
			pg_catalog.pg_size_bytes(pg_catalog.current_setting('effective_cache_size'))::pg_catalog.float8 AS cache,
			(SELECT pg_catalog.format('SELECT %I.lsm_compact(%L::regclass);', n.nspname, t.name)
				FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
				WHERE p.oid = 'lsm_compact(pg_catalog.regclass)'::pg_catalog.regprocedure::pg_catalog.oid) AS compact
		FROM lsmam_trees(ARRAY[relation]) WITH ORDINALITY t,
			LATERAL (SELECT greatest(least(t.units, 8, pg_catalog.trunc(t.bits_per_key)::pg_catalog.int4), 1) AS elastic_units) u,
			LATERAL (SELECT pg_catalog.count(*) FILTER (WHERE segment IS NULL) AS files,
				coalesce(pg_catalog.sum(probes)::pg_catalog.float8, '0') AS probes,
				coalesce(pg_catalog.sum(negatives + false_positives)::pg_catalog.float8, '0') AS absent,
				coalesce(pg_catalog.sum(false_positives)::pg_catalog.float8, '0') AS wasted,
				coalesce(pg_catalog.sum(l.filter_bytes)::pg_catalog.float8, '0') AS filter_bytes,
				coalesce((pg_catalog.sum(keys) FILTER (WHERE segment IS NULL))::pg_catalog.float8, '0') AS keys,
				pg_catalog.floor(pg_catalog.sum(keys::pg_catalog.float8 * l.bits_per_key) FILTER (WHERE segment IS NOT NULL) /
					nullif(pg_catalog.sum(keys::pg_catalog.float8) FILTER (WHERE segment IS NOT NULL), '0')) AS bits_on
				FROM lsm_filters(t.tree) l) f),
	-- What is planned, by scheme and bits; no bits: not wanted, for no rule would look at it.  The
	-- ladder has more bits where many reads are wasted, else fewer.
	wanted AS MATERIALIZED (
		SELECT f.*, ARRAY[CASE WHEN lookups >= '1000' THEN bits ELSE '0' END, CASE WHEN wasted > few THEN bits ELSE '0' END,
				CASE WHEN wasted > few THEN bits ELSE '0' END, CASE WHEN filter_bytes >= cache / '2' THEN bits ELSE '0' END,
				coalesce(bits_on, '0'), CASE WHEN wasted > few THEN unit_bits ELSE '0' END] AS steps,
			ARRAY(SELECT l.bits FROM pg_catalog.generate_series(-30, 10) k, LATERAL (SELECT f.bits + '2' * k::pg_catalog.float8 AS bits) l
				WHERE lookups >= '1000' AND scheme <> 'none' AND scheme <> 'elastic' AND CASE WHEN wasted > many THEN k = '0' OR k > '0' AND l.bits <= '20'
					ELSE k < '0' AND l.bits >= '4' AND keys * (f.bits - l.bits) / '8' >= '1048576' END ORDER BY k) AS ladder
		FROM facts f),
	plan AS MATERIALIZED (
		SELECT f.ordinality, f.elastic_units, f.unit_bits, p.* FROM wanted f, lsmam_filter_plan(f.tree,
			pg_catalog.array_cat(ARRAY[f.scheme, f.scheme, 'blocked', 'cascade', 'blocked', 'elastic'],
				pg_catalog.array_fill(f.scheme, ARRAY[pg_catalog.cardinality(f.ladder)])),
			pg_catalog.array_cat(f.steps, f.ladder), 2) p),
	-- Elastic filters in the memory that blocked ones of these bits take: each next unit where it
	-- saves most, which is what ElasticBF's rule (sum of f * r must fall) converges to.  Twice the
	-- units in the filter files, so that hot spots can have more than their share.  Files stand for
	-- segments: what is uneven within files is not seen.
	unit AS MATERIALIZED (
		SELECT p.ordinality, s.saved, pg_catalog.sum(p.keys * p.unit_bits) OVER (PARTITION BY p.ordinality ORDER BY s.saved / p.keys DESC, p.file, k) AS bits
		FROM plan p, pg_catalog.generate_series(0, '2' * p.elastic_units - '1') k,
			LATERAL (SELECT p.absent * pg_catalog.power(p.fpr[6], k::pg_catalog.float8) * ('1' - p.fpr[6]) AS saved) s
		WHERE p.keys > '0' AND s.saved > '0'),
	plans AS (
		SELECT f.*, w.*, f.files > '0' AND f.lookups >= '1000' AND f.digests >= '1.1' * f.lookups AS hashes_again,
			f.keys * f.bits / '8' AS bytes, f.absent * f.per_1000 AS absent_1000, f.wasted * f.per_1000 AS wasted_1000,
			pg_catalog.to_char(f.wasted * f.per_1000, '9.99EEEE')::pg_catalog.float8 AS wasted_3,
			w.asked - (SELECT coalesce(pg_catalog.sum(u.saved), '0') FROM unit u WHERE u.ordinality = f.ordinality AND
				u.bits <= least(f.keys * f.bits, '8' * pg_catalog.pg_size_bytes(pg_catalog.current_setting('lsm.elastic_memory'))::pg_catalog.float8)) AS elastic,
			b.bits AS better_bits, b.wasted AS better
		FROM wanted f
			CROSS JOIN LATERAL (SELECT pg_catalog.count(*) FILTER (WHERE NOT p.is_current) AS stale, pg_catalog.sum(p.absent) AS asked, pg_catalog.sum(p.absent * p.fpr[1]) AS uniform,
				pg_catalog.sum(p.absent * p.fpr[2]) AS monkey, pg_catalog.sum(p.absent * p.fpr[3]) AS blocked,
				pg_catalog.sum(p.absent * p.fpr[4]) AS cascade, pg_catalog.sum(p.absent * p.fpr[5]) AS blocked_on
				FROM plan p WHERE p.ordinality = f.ordinality) w
			-- more bits until half of many is reached, or fewer as long as few are wasted
			LEFT JOIN LATERAL (SELECT c.bits, c.wasted
				FROM (SELECT l.bits, pg_catalog.sum(p.absent * p.fpr['6' + l.n::pg_catalog.int4]) AS wasted
					FROM plan p, pg_catalog.unnest(f.ladder) WITH ORDINALITY l(bits, n) WHERE p.ordinality = f.ordinality GROUP BY l.bits) c
				WHERE f.wasted > f.many OR c.wasted < f.few
				ORDER BY c.wasted > f.many / '2', CASE WHEN c.wasted > f.many / '2' THEN -c.bits ELSE c.bits END LIMIT 1) b ON true),
	rules AS (
		SELECT p.*, r.*, pg_catalog.min(r.rank) FILTER (WHERE r.rank > '0') OVER (PARTITION BY p.ordinality) AS first
		FROM plans p, LATERAL (SELECT e.used_bytes::pg_catalog.float8 >= '0.9' * e.budget_bytes::pg_catalog.float8 AS is_full, e.reserved_bytes,
				CASE WHEN e.budget_bytes < e.reserved_bytes THEN least('2' * e.budget_bytes, e.reserved_bytes) ELSE '2' * e.budget_bytes END AS bytes,
				pg_catalog.pg_size_bytes(pg_catalog.current_setting('lsm.elastic_memory')) AS memory
				FROM lsm_elastic_stats() e) e,
			LATERAL (VALUES
			(0, hashes_again, 'lsm.hash_sharing', 'off', 'on', NULL, NULL, NULL, wasted, filter_bytes, 'SET lsm.hash_sharing = on;', pg_catalog.concat(
				pg_catalog.round((digests / nullif(lookups, '0'))::pg_catalog.numeric, 1), ' digests were computed per point lookup where one is enough; the longer the keys, the more that costs.')),
			(1, files = '0', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'All rows are in memory: there are no sorted files to filter.'),
			(2, stale > '0', 'filter_scheme', pg_catalog.concat(stale, ' of ', files, ' files have another'),
				pg_catalog.concat(scheme, CASE WHEN scheme <> 'none' THEN pg_catalog.concat(', ', bits, ' bits per key') END), NULL, NULL, NULL,
				uniform, CASE WHEN scheme = 'none' THEN '0' ELSE p.bytes END, compact,
				'Files get the filter that is set when they are written; these are older than the setting.'),
			(3, lookups < '1000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
				pg_catalog.concat('Too little data: ', lookups, ' point lookups were counted, 1000 are needed.')),
			(4, probes = '0', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
				'Filters were hardly asked: lookups ended in memory, or key ranges excluded the files.'),
			-- no filter, and reads in vain
			(5, scheme = 'none' AND absent <= many, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
				'No filter is needed: nearly all files that are read have the key.'),
			(6, scheme = 'none', 'filter_scheme', NULL, NULL, 'blocked', bits, NULL, blocked, p.bytes, NULL,
				pg_catalog.concat(wasted_3, ' of 1000 lookups'' reads are of files that do not have the key, and there is no filter.')),
			-- nothing is gained by filters that (nearly) always say maybe, and rightly so
			(7, absent <= many AND filter_bytes >= '1048576', 'filter_scheme', NULL, NULL, 'none', NULL, NULL, absent, '0', NULL, pg_catalog.concat(
				pg_catalog.to_char('100' * (probes - absent) / nullif(probes, '0'), '9.999EEEE')::pg_catalog.float8,
				'% of the filter probes find the key: the filters save ',
				pg_catalog.to_char(absent_1000 - wasted_1000, '9.99EEEE')::pg_catalog.float8, ' reads per 1000 lookups.')),
			-- would uniform filters of the same memory do as well?  With memory left, units come as
			-- segments are asked: measured is what was before that
			(8, scheme = 'elastic' AND wasted > few AND is_full AND bits_on >= '4' AND blocked_on < '0.8' * wasted,
				'filter_scheme', NULL, NULL, 'blocked', bits_on, NULL, blocked_on, keys * bits_on / '8', NULL,
				'Filters that are all the same would waste less with the memory that the units take now: accesses have no hot spots that stay.'),
			(9, scheme = 'elastic' AND wasted > many AND is_full, 'lsm.elastic_memory', pg_catalog.concat(e.memory / '1024', ' kB'),
				pg_catalog.concat(e.bytes / '1024', ' kB'), NULL, NULL, NULL, NULL, NULL, pg_catalog.format('ALTER SYSTEM SET lsm.elastic_memory = ''%s kB'';', e.bytes / '1024'),
				pg_catalog.concat('The budget is used up, and false positives are many. ', CASE WHEN e.bytes <= e.reserved_bytes
					THEN 'The server has reserved as much when it started: reloading the configuration will do.'
					ELSE 'All that was reserved at the start of the server is in use, so that the setting takes effect at the next start.' END)),
			-- filters larger than what memory can be expected to cache: leave them on storage
			(10, scheme <> 'elastic' AND scheme <> 'cascade' AND filter_bytes >= cache / '2', 'filter_scheme', NULL, NULL, 'cascade', bits, NULL, cascade, p.bytes, NULL,
				'The filters take more than half of effective_cache_size; cascade reads one page of them per file and keeps nothing in memory.'),
			-- several runs of different size, and all filters alike.  Elastic filters would have the
			-- memory in small runs, too, but cost lookups time: they have to promise much more
			(11, allocation = 'uniform' AND wasted > few AND monkey <= '0.6' * uniform AND elastic >= monkey / '2',
				'filter_allocation', 'uniform', 'monkey', NULL, NULL, NULL, monkey, p.bytes, CASE WHEN is_table THEN 'SET lsm.filter_allocation = monkey;'
					ELSE pg_catalog.format('ALTER INDEX %s SET (filter_allocation = monkey);', name) END,
				'Small runs would get more bits per key and the largest one less, in the same memory: files get theirs when they are written.'),
			-- accesses concentrate on few files: give their filters the memory
			(12, scheme <> 'elastic' AND wasted > few AND elastic <= '0.6' * blocked, 'filter_scheme', NULL, NULL, 'elastic',
				least('2' * bits, '64'), '2' * elastic_units, elastic, p.bytes, NULL,
				pg_catalog.concat('Accesses concentrate on few files. Their filters would get the memory that cold ones give up, within ',
					pg_catalog.to_char(least(p.bytes, e.memory::pg_catalog.float8) / '1048576', '9.99EEEE')::pg_catalog.float8, ' MB of lsm.elastic_memory.')),
			(13, scheme <> 'elastic' AND better_bits <> bits,
				'bits_per_key', NULL, NULL, scheme, better_bits, NULL, better, keys * better_bits / '8', NULL,
				CASE WHEN wasted > many THEN pg_catalog.concat(wasted_3, ' reads of 1000 lookups are false positives.')
					ELSE 'False positives would stay below one of 1000 lookups with smaller filters.' END),
			(14, NOT hashes_again, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
				pg_catalog.concat('Nothing would help much: ', wasted_3, ' reads of 1000 lookups are false positives.')))
			r(rank, holds, setting, current, suggested, to_scheme, to_bits, to_units, expected, to_bytes, statement, reason)
		WHERE r.holds)
	SELECT r.tree, r.setting, CASE WHEN r.to_scheme IS NULL THEN r.current ELSE
			pg_catalog.concat(r.scheme, CASE WHEN r.scheme <> 'none' THEN pg_catalog.concat(', ', r.bits, ' bits per key') END) END,
		CASE WHEN r.to_scheme IS NULL THEN r.suggested ELSE pg_catalog.concat(r.to_scheme, ', ' || r.to_bits::pg_catalog.text || ' bits per key') END,
		CASE WHEN r.lookups >= '1000' THEN pg_catalog.round('1000' * r.wasted_1000) / '1000' END,
		CASE WHEN r.lookups >= '1000' THEN pg_catalog.round('1000' * r.expected * r.per_1000) / '1000' END,
		pg_catalog.trunc(r.to_bytes - r.filter_bytes)::pg_catalog.int8,
		CASE WHEN r.to_scheme IS NULL THEN r.statement
			WHEN r.is_table THEN pg_catalog.concat(
				-- the table's lsm indexes keep the filters that they have: the settings of the
				-- statement's session would be theirs, too; and what it writes next is another matter
				(SELECT pg_catalog.string_agg(pg_catalog.format('ALTER INDEX %s SET (filter_scheme = %s, bits_per_key = %s, elastic_units = %s); ',
					i.name, i.scheme, i.bits, i.units), '' ORDER BY i.ordinality) FROM facts i WHERE NOT i.is_table),
				'SET lsm.filter_scheme = ', r.to_scheme, '; ', 'SET lsm.bits_per_key = ' || r.to_bits::pg_catalog.text || '; ',
				'SET lsm.elastic_units = ' || r.to_units::pg_catalog.text || '; ', r.compact, ' RESET lsm.filter_scheme;',
				CASE WHEN r.to_bits IS NOT NULL THEN ' RESET lsm.bits_per_key;' END, CASE WHEN r.to_units IS NOT NULL THEN ' RESET lsm.elastic_units;' END)
			ELSE pg_catalog.concat('ALTER INDEX ', r.name, ' SET (filter_scheme = ', r.to_scheme, ', bits_per_key = ' || r.to_bits::pg_catalog.text,
				', elastic_units = ' || r.to_units::pg_catalog.text, '); ', r.compact) END,
		pg_catalog.concat(r.reason, CASE WHEN r.is_table AND (r.to_scheme IS NOT NULL OR r.setting = 'filter_allocation') THEN
			' Set it in postgresql.conf, too: files of tables follow the settings of the process that writes them, as do those of indexes without storage parameters of their own.' END)
	FROM rules r WHERE r.rank = '0' OR r.rank = r.first ORDER BY r.ordinality, r.rank;
END;

---- a picture ----

CREATE FUNCTION lsmam_files(tree pg_catalog.regclass,
	OUT file pg_catalog.int8,
	OUT compression pg_catalog.text,
	OUT smallest pg_catalog.text,
	OUT largest pg_catalog.text)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION lsmam_files(pg_catalog.regclass) IS
'compression of sorted files, and their keys in words, null for those who may not read all rows; see lsm_report()';

CREATE FUNCTION lsmam_page(facts pg_catalog.json)
RETURNS pg_catalog.text
AS 'MODULE_PATHNAME'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION lsmam_page(pg_catalog.json) IS
'the HTML page that draws the facts of lsm_report()';

-- The facts; the page draws them.  Of keys they have the places among all keys that files begin
-- and end with.  Whoever may not see keys has NULL of all keys, one place for all, and files in
-- the order of their numbers.  Of very many segments neighbours are summed up.
CREATE FUNCTION lsm_report(trees pg_catalog.regclass[])
RETURNS pg_catalog.text
LANGUAGE SQL VOLATILE STRICT PARALLEL RESTRICTED COST 10000
BEGIN ATOMIC
	SELECT lsmam_page(pg_catalog.json_build_object(
		'database', pg_catalog.current_database(), 'version', lsm_full_version(), 'standby', pg_catalog.pg_is_in_recovery(),
		'made', pg_catalog.to_char(pg_catalog.clock_timestamp(), 'YYYY-MM-DD HH24:MI:SSOF'),
		'started', pg_catalog.to_char(pg_catalog.pg_postmaster_start_time(), 'YYYY-MM-DD HH24:MI:SSOF'),
		'elastic', (SELECT pg_catalog.row_to_json(e) FROM lsm_elastic_stats() e),
		'trees', (SELECT pg_catalog.json_agg(pg_catalog.json_build_object('tree', pg_catalog.row_to_json(t), 'stats', pg_catalog.row_to_json(s),
				'bytes', lsm_relation_size(t.tree), 'work', w.levels, 'files', x.files, 'segments', x.segments) ORDER BY t.ordinality)
			FROM lsmam_trees(trees) WITH ORDINALITY t
				LEFT JOIN lsmam_tree_stats(false) s ON s.dbid = t.dbid AND s.spcid = t.spcid AND s.relfilenode = t.relfilenode
				LEFT JOIN (SELECT dbid, spcid, relfilenode, pg_catalog.json_agg(pg_catalog.json_build_object('level', level,
						'written', bytes_flushed + bytes_out, 'ms', flush_ms + compaction_ms, 'jobs', flushes + compactions)) AS levels
					FROM lsmam_level_stats(false) GROUP BY dbid, spcid, relfilenode) w
					ON w.dbid = t.dbid AND w.spcid = t.spcid AND w.relfilenode = t.relfilenode
				CROSS JOIN LATERAL (
					WITH l AS MATERIALIZED (SELECT * FROM lsm_filters(t.tree)),
					f AS MATERIALIZED (SELECT * FROM lsm_files(t.tree)),
					place AS (SELECT file, pg_catalog.min(n) AS first, pg_catalog.max(n) AS last
						FROM (SELECT f.file, pg_catalog.dense_rank() OVER (ORDER BY key) AS n FROM f, pg_catalog.unnest(ARRAY[f.smallest, f.largest]) key) k
						GROUP BY file),
					cells AS (SELECT file, pg_catalog.min(segment) AS first, pg_catalog.max(segment) AS last, pg_catalog.count(*) AS n,
							pg_catalog.count(hotness) AS tracked, coalesce(pg_catalog.sum(hotness), '0') AS hotness, pg_catalog.sum(units_on) AS units_on,
							pg_catalog.sum(units) AS units, pg_catalog.sum(keys) AS keys, pg_catalog.sum(keys::pg_catalog.float8 * expected_fpr) AS false_positives
						FROM l WHERE segment IS NOT NULL
						GROUP BY file, segment::pg_catalog.int8 / (SELECT pg_catalog.count(*) / '4000' + '1' FROM l)),
					files AS (SELECT f.level, f.run, f.file, f.entries, f.bytes, f.filter_bytes, k.compression, coalesce(l.filter_scheme, f.filter_scheme) AS filter_scheme,
							l.keys, l.bits_per_key, l.expected_fpr, l.negatives, l.true_positives, l.false_positives, p.first, p.last, k.smallest, k.largest
						FROM f JOIN place p ON p.file = f.file LEFT JOIN l ON l.file = f.file AND l.segment IS NULL
							LEFT JOIN lsmam_files(t.tree) k ON k.file = f.file)
					SELECT (SELECT pg_catalog.json_agg(pg_catalog.row_to_json(c) ORDER BY c.file, c.first) FROM cells c) AS segments,
						(SELECT pg_catalog.json_agg(pg_catalog.row_to_json(f) ORDER BY f.level, f.run DESC, f.first, f.file) FROM files f) AS files) x)));
END;
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
