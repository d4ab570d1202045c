/*-------------------------------------------------------------------------
 *
 * before_19.h
 *	  Versions before PostgreSQL 19 learn the names that 19 has.  Part of
 *	  compat.h, which alone includes it; goes with the last version before 19.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COMPAT_BEFORE_19_H
#define LSM_COMPAT_BEFORE_19_H

/* the server's */
#define pg_fallthrough			__attribute__((fallthrough))

typedef RepOriginId ReplOriginId;

#define CHECKPOINT_FAST			CHECKPOINT_IMMEDIATE
#define TupleDescFinalize(desc) ((void) 0)
#define log_vacuum_min_duration log_min_duration	/* of VacuumParams */
#define PageSetChecksum			PageSetChecksumInplace

#define PROGRESS_REPACK_PHASE					PROGRESS_CLUSTER_PHASE
#define PROGRESS_REPACK_INDEX_RELID				PROGRESS_CLUSTER_INDEX_RELID
#define PROGRESS_REPACK_HEAP_TUPLES_SCANNED		PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED
#define PROGRESS_REPACK_HEAP_TUPLES_INSERTED	PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN
#define PROGRESS_REPACK_TOTAL_HEAP_BLKS			PROGRESS_CLUSTER_TOTAL_HEAP_BLKS
#define PROGRESS_REPACK_HEAP_BLKS_SCANNED		PROGRESS_CLUSTER_HEAP_BLKS_SCANNED
#define PROGRESS_REPACK_PHASE_SEQ_SCAN_HEAP		PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP
#define PROGRESS_REPACK_PHASE_INDEX_SCAN_HEAP	PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP
#define PROGRESS_REPACK_PHASE_SORT_TUPLES		PROGRESS_CLUSTER_PHASE_SORT_TUPLES
#define PROGRESS_REPACK_PHASE_WRITE_NEW_HEAP	PROGRESS_CLUSTER_PHASE_WRITE_NEW_HEAP

/* shared memory is set up by the postmaster, whose children have the name, too */
static inline int
lsm_new_tranche(const char *name)
{
	int			id = LWLockNewTrancheId();

	LWLockRegisterTranche(id, name);
	return id;
}

#define LWLockNewTrancheId(name)	lsm_new_tranche(name)

#define ShmemInitHash(name, nelems, info, flags) \
	ShmemInitHash(name, nelems, nelems, info, flags)

#define GlobalVisTestIsRemovableXid(state, xid, allow_update) \
	GlobalVisTestIsRemovableXid(state, xid)

#define SO_NONE					0

#define index_beginscan(table, index, snapshot, instrument, nkeys, norderbys, flags) \
	index_beginscan(table, index, snapshot, instrument, nkeys, norderbys)
#define table_beginscan(table, snapshot, nkeys, keys, flags) \
	table_beginscan(table, snapshot, nkeys, keys)
#define table_beginscan_parallel(table, pscan, flags) \
	table_beginscan_parallel(table, pscan)
#define table_index_fetch_begin(table, flags) \
	table_index_fetch_begin(table)

#define DefineIndex(pstate, table, stmt, index, parent_index, parent_constraint, \
					total_parts, is_alter_table, check_rights, \
					check_not_in_use, skip_build, quiet) \
	DefineIndex(table, stmt, index, parent_index, parent_constraint, \
				total_parts, is_alter_table, check_rights, \
				check_not_in_use, skip_build, quiet)

#define EIIT_IS_UPDATE			(1 << 0)
#define EIIT_NO_DUPE_ERROR		(1 << 1)
#define EIIT_ONLY_SUMMARIZING	(1 << 2)

#define ExecInsertIndexTuples(rri, estate, flags, slot, arbiters, spec_conflict) \
	ExecInsertIndexTuples(rri, slot, estate, ((flags) & EIIT_IS_UPDATE) != 0, \
						  ((flags) & EIIT_NO_DUPE_ERROR) != 0, spec_conflict, \
						  arbiters, ((flags) & EIIT_ONLY_SUMMARIZING) != 0)

#define pgstat_report_vacuum(rel, live, dead, starttime) \
	pgstat_report_vacuum(RelationGetRelid(rel), (rel)->rd_rel->relisshared, \
						 live, dead, starttime)

#define standard_planner(parse, text, options, params, es) \
	standard_planner(parse, text, options, params)

#define build_simple_rel_hook_type get_relation_info_hook_type
#define build_simple_rel_hook	get_relation_info_hook

#define AmRepackWorker()		false

/* our callbacks, and who calls the former holders of hooks */
#define prev_planner(parse, text, options, params, es) \
	prev_planner(parse, text, options, params)
#define next_planner(parse, text, options, params, es) \
	next_planner(parse, text, options, params)
#define lsm_planner(parse, text, options, params, es) \
	lsm_planner(parse, text, options, params)

#define prev_build_simple_rel(root, rel, rte) \
	prev_build_simple_rel(root, relid, inhparent, rel)
#define lsm_build_simple_rel(root, rel, rte) \
	lsm_build_simple_rel(root, Oid relid, bool inhparent, rel)

#define lsm_allocate_entries(size, arg) \
	lsm_allocate_entries(size)

#define lsm_table_fetch_begin(rel, flags) \
	lsm_table_fetch_begin(rel)
#define lsm_tuple_insert(rel, slot, cid, options_, bistate) \
	lsm_tuple_insert(rel, slot, cid, int options, bistate)
#define lsm_tuple_insert_speculative(rel, slot, cid, options_, bistate, token) \
	lsm_tuple_insert_speculative(rel, slot, cid, int options, bistate, token)
#define lsm_multi_insert(rel, slots, nslots, cid, options_, bistate) \
	lsm_multi_insert(rel, slots, nslots, cid, int options, bistate)
#define lsm_tuple_update(rel, tid, slot, cid, options, snapshot, crosscheck, \
						 wait, tmfd, lockmode, update_indexes) \
	lsm_tuple_update(rel, tid, slot, cid, snapshot, crosscheck, \
					 wait, tmfd, lockmode, update_indexes)

/* its only option */
#define lsm_tuple_delete(rel, tid, cid, options_, snapshot, crosscheck, wait, tmfd) \
	lsm_tuple_delete(rel, tid, cid, snapshot, crosscheck, wait, tmfd, bool options)
#define TABLE_DELETE_CHANGING_PARTITION true

#define lsm_relation_copy_for_cluster(old, new, index, use_sort, oldest_xmin, \
									  snapshot, xid_cutoff, multi_cutoff, \
									  num_tuples, vacuumed, recently_dead) \
	lsm_relation_copy_for_cluster(old, new, index, use_sort, oldest_xmin, \
								  xid_cutoff, multi_cutoff, \
								  num_tuples, vacuumed, recently_dead)
#define lsm_relation_vacuum(rel, params_, bstrategy) \
	lsm_relation_vacuum(rel, VacuumParams *params, bstrategy)
#define lsm_scan_analyze_next_tuple(scan, liverows, deadrows, slot) \
	lsm_scan_analyze_next_tuple(scan, TransactionId OldestXmin, liverows, \
								deadrows, slot)

#endif							/* LSM_COMPAT_BEFORE_19_H */
