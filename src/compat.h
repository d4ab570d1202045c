/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  One vocabulary for all versions of PostgreSQL.
 *
 * The code speaks PostgreSQL 19's names, and older versions are taught them
 * here.  A name that PostgreSQL 19 has means what it means there and takes the
 * arguments it takes there.  A name of our own (lsm_) stands where 19's cannot
 * be had for older versions.  Callbacks of ours, too, are written with the
 * parameters of 19: for older versions a macro with the callback's name leaves
 * out, where it is declared and defined, what those do not pass.
 *
 * Most of them are macros, and a macro must not meet the server's declaration
 * that it changes.  Therefore this header includes the server's headers that declare
 * such a name, and it comes after all server headers where it is included:
 * last in a file, or in the header of a room, which comes last itself.
 *
 * What a version does not have of the names that came after it stands in
 * src/compat/, a file for each version that brought some, which is deleted
 * with the last version before it.
 *
 * PG_VERSION_NUM is looked at here.  Elsewhere it is looked at only by files
 * that implement an interface which differs as a whole: access method
 * handlers, scans, samples, EXPLAIN.  src/test/check-layers.sh sees to it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COMPAT_H
#define LSM_COMPAT_H

#include <inttypes.h>

#include "access/attmap.h"
#include "access/genam.h"
#include "access/heapam_xlog.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/valid.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "commands/defrem.h"
#include "commands/explain.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "common/relpath.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "postmaster/autovacuum.h"
#include "postmaster/bgworker_internals.h"
#include "pgstat.h"
#include "replication/reorderbuffer.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/smgr.h"
#include "storage/standby.h"
#include "utils/acl.h"
#include "utils/date.h"
#include "utils/guc_tables.h"
#include "utils/lsyscache.h"
#include "utils/pg_locale.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/selfuncs.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplesort.h"
#include "utils/tuplestore.h"
#include "utils/wait_event.h"
#if PG_VERSION_NUM >= 170000
#include "common/file_utils.h"
#endif
#if PG_VERSION_NUM >= 190000
#include "commands/repack.h"
#include "nodes/miscnodes.h"
#include "optimizer/pathnode.h"
#endif
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#if PG_VERSION_NUM >= 170000
#include "storage/procnumber.h"
#else
#include "storage/backendid.h"
#endif
#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
#else
#include "storage/relfilenode.h"
#endif

/*
 * Structs of the server that we fill, as far as their fields differ between
 * versions.  A field that a version adds, and that we do not name, is 0 only if
 * the whole struct was zeroed: a new version's headers are held against this
 * list.
 *
 * IndexVacuumInfo	lsm_vacuum_info(), nobody else.  16: heaprel, which index
 *					methods look at without asking whether it is there.  19:
 *					is_autovacuum.
 * IndexInfo		BuildIndexInfo() only, in parallel_build.c, build.c of the
 *					table, verify_index.c; on_conflict_indexes.c adds ii_Unique*
 *					before 18.  16: ii_Summarizing, 18: ii_WithoutOverlaps.
 * IndexAmRoutine	index/handler.c, zeroed.  16: amsummarizing, 17:
 *					amcanbuildparallel, aminsertcleanup (nothing of ours outlives
 *					an insert), 18: amcanhash (there is no hash support
 *					function), amconsistent*, amgettreeheight (asked by cost
 *					functions of core's methods only), amtranslate*.  19: never
 *					copied, so static.
 * TableAmRoutine	table/handler.c, zeroed; the callbacks' types are compared by
 *					the compiler.
 * TableScanDesc	table/scan.c, zeroed.  18: rs_tbmiterator, which the executor
 *					fills and ends.  19: rs_instrument, which stays NULL: blocks
 *					that a scan's stream has read ahead are what it counts.
 * ParallelTableScanDesc	table/scan.c.  18: phs_locator for phs_relid.
 * IndexScanDesc	RelationGetIndexScan(), index/scan.c adds opaque.
 *					18: instrument, set by index_beginscan(), NULL elsewhere.
 * SnapshotData		InitDirtySnapshot() in table/lock.c, index/unique.c: core,
 *					too, sets nothing but the type, and so reads nothing else.
 * TM_FailureData	table/row_change.c, table/modify.c, table/lock.c: the same
 *					fields in all versions.
 * TupleTableSlot	table_slot_create() and its like; slots are core's heap
 *					slots.  17: is_current_xact_tuple, which those have.  19: a
 *					slot may believe NOT NULL; rows are whole heap tuples.
 * VacuumCutoffs	vacuum_get_cutoffs(), below for 15.
 * VacuumParams, ReindexParams, ClusterParams, CopyFromState	made by core only.
 * ReorderBufferChange	table/logical.c, from ReorderBufferAllocChange(), zeroed.
 *					16: rlocator for relnode, 17: tuples, 18: no subxid (never
 *					set for a tuple's change).
 * ArrayExpr		executor/row_range.c, zeroed.  18: list_start, list_end, read
 *					when a query's text is jumbled, which is before.
 * IndexOptInfo, IndexPath, IndexClause, RowCompareExpr, PlannedStmt,
 * ExplainStmt, ModifyTable, ModifyTableState	copies of core's as a whole.
 * Query			executor/explain.c, zeroed, before 17.
 * OnConflictSetState	on_conflict_indexes.c, zeroed, before 18.
 * AlterTableCmd	ddl/constraints.c, zeroed: the same fields in all versions.
 * BackgroundWorker	worker.c, zeroed.  17: a longer bgw_library_name.
 * BufferUsage, WalUsage	zeroed, or copies.
 * xl_smgr_truncate, xl_dbase_drop_rec	disk/create.c, truncate.c, clone.c: the
 *					same fields, by their names since 16.
 * IndexFetchTableData	table/fetch.c, zeroed.  19: flags, which only heap reads.
 * HASHCTL			zeroed.  19: alloc_arg, for the allocator.
 * IndexBulkDeleteResult, IndexBuildResult, HeapTupleData, SortSupportData,
 * RmgrData, LOCKTAG	the same fields in all versions.
 */

/* ---- names of our own ---- */

/* The table that an index to be vacuumed belongs to, and for whom it is */
static inline void
lsm_vacuum_info_set_table(IndexVacuumInfo *info, Relation table)
{
#if PG_VERSION_NUM >= 190000
	info->is_autovacuum = AmAutoVacuumWorkerProcess();
#endif
#if PG_VERSION_NUM >= 160000
	info->heaprel = table;
#else
	(void) info;
	(void) table;
#endif
}

/*
 * The path of a fork, in the current memory context.  PostgreSQL 18's
 * relpathbackend() returns it in a struct.
 */
#if PG_VERSION_NUM >= 180000
#define lsm_relpath(rlocator, backend, forknum) \
	pstrdup(relpathbackend(rlocator, backend, forknum).str)
#else
#define lsm_relpath(rlocator, backend, forknum) \
	relpathbackend(rlocator, backend, forknum)
#endif

/*
 * Is the page of a fork, as it was read from the database's disk, new or sound?
 * A wrong checksum is logged and counted.
 */
static inline bool
lsm_page_is_verified(Page page, BlockNumber block, Oid dboid)
{
#if PG_VERSION_NUM >= 180000
	bool		wrong_checksum;
	bool		verified = PageIsVerified(page, block, PIV_LOG_WARNING,
										  &wrong_checksum);

	if (wrong_checksum)
	{
		pgstat_prepare_report_checksum_failure(dboid);
		pgstat_report_checksum_failures_in_db(dboid, 1);
	}
	return verified;
#else
	return PageIsVerifiedExtended(page, block,
								  PIV_LOG_WARNING | PIV_REPORT_STAT);
#endif
}

/* Sort keys of strings come from pg_strnxfrm(). */
#if PG_VERSION_NUM >= 160000
#define LSM_HAVE_STRNXFRM
#endif

/* The planner looks up where a column's values end in btree indexes only. */
#if PG_VERSION_NUM < 180000
#define LSM_ENDS_FROM_BTREE_ONLY
#endif

/* Is the collation, a valid one, "C"? */
#if PG_VERSION_NUM >= 180000
#define lsm_collation_is_c(collation) \
	(pg_newlocale_from_collation(collation)->collate_is_c)
#else
#define lsm_collation_is_c(collation)	lc_collate_is_c(collation)
#endif

/*
 * The library's object that stands for a locale, which is not "C", and which
 * library it is of
 */
#if PG_VERSION_NUM >= 190000
#define lsm_locale_libc(locale)	((locale)->lt)
#define lsm_locale_ucol(locale)	((locale)->icu.ucol)

static inline char
lsm_locale_provider(pg_locale_t locale, Oid collation)
{
	bool		is_default = locale->is_default;
	HeapTuple	tuple = is_default ?
		SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId)) :
		SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	char		provider;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	provider = is_default ? ((Form_pg_database) GETSTRUCT(tuple))->datlocprovider :
		((Form_pg_collation) GETSTRUCT(tuple))->collprovider;
	ReleaseSysCache(tuple);
	return provider;
}
#else
#define lsm_locale_libc(locale)	((locale)->info.lt)
#define lsm_locale_ucol(locale)	((locale)->info.icu.ucol)
#define lsm_locale_provider(locale, collation)	((locale)->provider)
#endif

/*
 * The value that a function of date.h or timestamp.h converts to; *overflow: it
 * would be before or behind all that are finite (-1, 1).
 */
#if PG_VERSION_NUM >= 190000
#define lsm_datetime_convert(function, value, overflow) \
	__extension__ ({ \
		ErrorSaveContext soft_ = {T_ErrorSaveContext}; \
		int64		converted_ = function##_safe(value, (Node *) &soft_); \
		*(overflow) = !soft_.error_occurred ? 0 : \
			TIMESTAMP_IS_NOEND(converted_) ? 1 : -1; \
		converted_; \
	})
#else
#define lsm_datetime_convert(function, value, overflow) \
	function##_opt_overflow(value, overflow)
#endif

/* What an index access method's handler returns: before 19, the caller's own */
#if PG_VERSION_NUM >= 190000
#define LSM_INDEX_AM_RESULT(methods)	(methods)
#else
#define LSM_INDEX_AM_RESULT(methods) \
	memcpy(palloc(sizeof(IndexAmRoutine)), methods, sizeof(IndexAmRoutine))
#endif

/*
 * With which snapshot relation_copy_for_cluster() is to copy, or NULL.
 * PostgreSQL 19 has one for REPACK (CONCURRENTLY).
 */
#if PG_VERSION_NUM >= 190000
#define LSM_COPY_SNAPSHOT(snapshot)	(snapshot)
#else
#define LSM_COPY_SNAPSHOT(snapshot)	((Snapshot) NULL)
#endif

/*
 * The table that the statement rewrites while others change it, or NULL:
 * REPACK (CONCURRENTLY) of PostgreSQL 19, which learns of their changes from the
 * log, as a logical decoder does.
 */
static inline RangeVar *
lsm_repacked_concurrently(Node *stmt)
{
#if PG_VERSION_NUM >= 190000
	RepackStmt *repack = (RepackStmt *) stmt;

	if (!IsA(stmt, RepackStmt) || repack->relation == NULL)
		return NULL;
	foreach_node(DefElem, option, repack->params)
	{
		if (strcmp(option->defname, "concurrently") == 0 && defGetBoolean(option))
			return repack->relation->relation;
	}
#endif
	return NULL;
}

/*
 * The executor is to read no blocks ahead for a bitmap scan.  PostgreSQL 18's
 * leaves that to the table's access method.
 */
#if PG_VERSION_NUM >= 180000
#define lsm_stop_bitmap_prefetch(scan)	((void) (scan))
#else
#define lsm_stop_bitmap_prefetch(scan)	((scan)->prefetch_maximum = 0)
#endif

/*
 * With how many workers is the index to be built?  PostgreSQL 17 has asked its
 * planner already, older versions do for btree only.  REQUIRES: the planner can
 * look at the index.
 */
static inline int
lsm_plan_build_workers(Relation table, Relation index, struct IndexInfo *info)
{
#if PG_VERSION_NUM >= 170000
	return info->ii_ParallelWorkers;
#else
	if (!IsNormalProcessingMode())
		return 0;
	return plan_create_index_workers(RelationGetRelid(table), RelationGetRelid(index));
#endif
}

#if PG_VERSION_NUM < 170000
#define TransamVariables	ShmemVariableCache
#endif

#if PG_VERSION_NUM < 170000
#define PROGRESS_VACUUM_NUM_DEAD_ITEM_IDS	PROGRESS_VACUUM_NUM_DEAD_TUPLES
#endif

/*
 * VACUUM comes to this many indexes, or has been through with them (0); one of
 * them is done, by a worker perhaps.  PostgreSQL 17 shows it.
 */
static inline void
lsm_progress_vacuum_indexes(int total)
{
#if PG_VERSION_NUM >= 170000
	pgstat_progress_update_param(PROGRESS_VACUUM_INDEXES_PROCESSED, 0);
	pgstat_progress_update_param(PROGRESS_VACUUM_INDEXES_TOTAL, total);
#endif
}

static inline void
lsm_progress_vacuum_index_done(void)
{
#if PG_VERSION_NUM >= 170000
	pgstat_progress_parallel_incr_param(PROGRESS_VACUUM_INDEXES_PROCESSED, 1);
#endif
}

/* What scan_analyze_next_block() learns of the block, beside the scan */
#if PG_VERSION_NUM >= 170000
#define LSM_ANALYZE_BLOCK_PARAMETERS	ReadStream *stream
#else
#define LSM_ANALYZE_BLOCK_PARAMETERS \
	BlockNumber blockno, BufferAccessStrategy bstrategy
#endif

/*
 * What a process waits for.  Before PostgreSQL 17 all that extensions wait for
 * is one event, "Extension".
 */
#if PG_VERSION_NUM >= 170000
#define LSM_WAIT_EVENT(name) \
	__extension__ ({ \
		static uint32 wait_event_ = 0; \
		if (wait_event_ == 0) \
			wait_event_ = WaitEventExtensionNew(name); \
		wait_event_; \
	})
#else
#define LSM_WAIT_EVENT(name)	PG_WAIT_EXTENSION
#endif

/* A nap of a process that waits for something with no latch to set */
#define LSM_NAP(us, name) \
	do \
	{ \
		pgstat_report_wait_start(LSM_WAIT_EVENT(name)); \
		pg_usleep(us); \
		pgstat_report_wait_end(); \
	} while (0)

/* JSON_VALUE() and its kind, which convert to a type without another node */
#if PG_VERSION_NUM >= 170000
#define LSM_IS_JSON_EXPR(node)	IsA(node, JsonExpr)
#else
#define LSM_IS_JSON_EXPR(node)	false
#endif

/* JSON_ARRAY() and its kind, which call casts to json */
#if PG_VERSION_NUM >= 160000
#define LSM_IS_JSON_CONSTRUCTOR(node)	IsA(node, JsonConstructorExpr)
#else
#define LSM_IS_JSON_CONSTRUCTOR(node)	false
#endif

/*
 * What atomics promise, a full barrier, GCC's exchanges and additions are not on
 * ARM64 before LSE: a later read may pass the store.  For who reads next what
 * others write before they look at what he has written.
 */
#if defined(__x86_64__) || defined(__i386__)
#define LSM_FULL_BARRIER_AFTER_ATOMIC()	pg_compiler_barrier()
#else
#define LSM_FULL_BARRIER_AFTER_ATOMIC()	pg_memory_barrier()
#endif

/*
 * May a foreign key reference a unique index of any access method that says
 * which operator is its equality, and REFRESH MATERIALIZED VIEW CONCURRENTLY
 * use it?
 */
#define LSM_CORE_TAKES_ANY_KEY	(PG_VERSION_NUM >= 180000)

/*
 * Does ON CONFLICT ask the access method of a unique index which operator is
 * its equality?
 */
#define LSM_CORE_ASKS_FOR_EQUALITY	(PG_VERSION_NUM >= 180000)

/* Does a subscriber look for rows that were deleted (retain_dead_tuples)? */
#define LSM_CORE_READS_DEAD_ROWS	(PG_VERSION_NUM >= 190000)

/*
 * Does a subscriber find rows by a unique index of any access method with
 * btree's strategy numbers?
 */
#define LSM_CORE_APPLIES_BY_ANY_KEY \
	(PG_VERSION_NUM < 170000 || PG_VERSION_NUM >= 180000)

/*
 * Where an index scan counts its searches: for EXPLAIN ANALYZE of PostgreSQL
 * 18, or in `own`.
 */
#if PG_VERSION_NUM >= 180000
#define lsm_index_searches(scan, own) \
	((scan)->instrument ? &(scan)->instrument->nsearches : (own))
#else
#define lsm_index_searches(scan, own)	(own)
#endif

/* What scan_bitmap_next_tuple() takes beside the scan */
#if PG_VERSION_NUM >= 180000
#define LSM_BITMAP_TUPLE_PARAMETERS \
	TupleTableSlot *slot, bool *recheck, \
	uint64 *lossy_pages, uint64 *exact_pages
#else
#define LSM_BITMAP_TUPLE_PARAMETERS \
	struct TBMIterateResult *tbmres, TupleTableSlot *slot
#endif

/* The fields of RowCompareExpr and OpIndexInterpretation that tell the kind */
#if PG_VERSION_NUM >= 180000
#define lsm_row_cmptype			cmptype
#define lsm_op_cmptype			cmptype
#else
#define lsm_row_cmptype			rctype
#define lsm_op_cmptype			strategy
#endif

/*
 * A tuple of t_len bytes for a decoded change, old or new; its t_data is set.
 * PostgreSQL 17 has done away with a struct around it.
 */
static inline HeapTuple
lsm_change_alloc_tuple(ReorderBuffer *rb, ReorderBufferChange *change, bool old, Size t_len)
{
	Size		bytes = t_len - SizeofHeapTupleHeader;
#if PG_VERSION_NUM >= 180000
	HeapTuple	tuple = ReorderBufferAllocTupleBuf(rb, bytes);
#elif PG_VERSION_NUM >= 170000
	HeapTuple	tuple = ReorderBufferGetTupleBuf(rb, bytes);
#else
	ReorderBufferTupleBuf *tuple = ReorderBufferGetTupleBuf(rb, bytes);
#endif

	if (old)
		change->data.tp.oldtuple = tuple;
	else
		change->data.tp.newtuple = tuple;
#if PG_VERSION_NUM >= 170000
	return tuple;
#else
	return &tuple->tuple;
#endif
}

/* The last parameter of ExecutorRun() and its hook, with the comma before it */
#if PG_VERSION_NUM >= 180000
#define EXECUTE_ONCE_PARAMETER
#define EXECUTE_ONCE
#else
#define EXECUTE_ONCE_PARAMETER	, bool execute_once
#define EXECUTE_ONCE			, execute_once
#endif

/* ---- new names, the newest first ---- */

#if PG_VERSION_NUM < 190000
#include "compat/before_19.h"
#endif
#if PG_VERSION_NUM < 180000
#include "compat/before_18.h"
#endif
#if PG_VERSION_NUM < 170000
#include "compat/before_17.h"
#endif
#if PG_VERSION_NUM < 160000
#include "compat/before_16.h"
#endif

/* ---- names of our own that need those above ---- */

/* Which relation a decoded change belongs to */
static inline void
lsm_change_set_relation(ReorderBufferChange *change, const RelFileLocator *locator_)
{
#if PG_VERSION_NUM >= 160000
	change->data.tp.rlocator = *locator_;
#else
	change->data.tp.relnode = *locator_;
#endif
}

/* ALTER COLUMN ... SET EXPRESSION, which makes indexes anew, too */
#if PG_VERSION_NUM >= 170000
#define LSM_SETS_EXPRESSION(cmd)	((cmd)->subtype == AT_SetExpression)
#else
#define LSM_SETS_EXPRESSION(cmd)	false
#endif

/*
 * Does ATTACH PARTITION match unique constraints with unique constraints, and
 * primary keys with primary keys?
 */
#define LSM_ATTACH_COMPARES_CONSTRAINTS	(PG_VERSION_NUM >= 170000)

/* Are identity columns of partitioned tables their partitions', too? */
#define LSM_PARTITIONS_HAVE_IDENTITY	(PG_VERSION_NUM >= 170000)

/* Does ADD CONSTRAINT lock all children, whatever the constraint? */
#define LSM_ADD_CONSTRAINT_LOCKS_CHILDREN	(PG_VERSION_NUM >= 180000)

/* The privilege to maintain a table; false: it is gone. */
static inline bool
lsm_has_maintain(Oid table, Oid user)
{
#if PG_VERSION_NUM >= 170000
	bool		is_missing = false;

	return pg_class_aclcheck_ext(table, user, ACL_MAINTAIN, &is_missing) == ACLCHECK_OK;
#else
	return false;
#endif
}

static inline bool
lsm_owns_database(Oid user)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, MyDatabaseId, user);
#else
	return pg_database_ownercheck(MyDatabaseId, user);
#endif
}

/* Is it a key that gist serves? */
#if PG_VERSION_NUM >= 180000
#define LSM_WITHOUT_OVERLAPS(constraint)	((constraint)->without_overlaps)
#else
#define LSM_WITHOUT_OVERLAPS(constraint)	false
#endif

/* Of a column; negative or 0: none of its own, or no statistics */
static inline int
lsm_statistics_target(Relation rel, AttrNumber attnum)
{
#if PG_VERSION_NUM >= 170000
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(RelationGetRelid(rel)),
										Int16GetDatum(attnum));
	Datum		target;
	bool		isnull = true;

	if (!HeapTupleIsValid(tuple))
		return -1;
	target = SysCacheGetAttr(ATTNUM, tuple, Anum_pg_attribute_attstattarget, &isnull);
	ReleaseSysCache(tuple);
	return isnull ? -1 : DatumGetInt16(target);
#else
	return TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attstattarget;
#endif
}

/* Without an error where there is no room for the lock */
static inline LockAcquireResult
lsm_lock_if_free(const LOCKTAG *tag, LOCKMODE mode)
{
#if PG_VERSION_NUM >= 180000
	return LockAcquireExtended(tag, mode, false, true, false, NULL, false);
#else
	return LockAcquireExtended(tag, mode, false, true, false, NULL);
#endif
}

/* How many workers of the library the postmaster will start */
static inline int
lsm_bgworkers_registered(const char *library)
{
	int			n = 0;
#if PG_VERSION_NUM >= 180000
	dlist_iter	iter;

	dlist_foreach(iter, &BackgroundWorkerList)
		n += strcmp(dlist_container(RegisteredBgWorker, rw_lnode,
									iter.cur)->rw_worker.bgw_library_name, library) == 0;
#else
	slist_iter	iter;

	slist_foreach(iter, &BackgroundWorkerList)
		n += strcmp(slist_container(RegisteredBgWorker, rw_lnode,
									iter.cur)->rw_worker.bgw_library_name, library) == 0;
#endif
	return n;
}

/* Since 16, vacuum_delay_point() looks at the settings again, unless told. */
static inline void
lsm_vacuum_failsafe(bool active)
{
#if PG_VERSION_NUM >= 160000
	VacuumFailsafeActive = active;
#endif
}

/*
 * A new last page of the main fork, zeroed and locked.  The relation is not
 * temporary; it may have no entry in the relation cache.  REQUIRES: nobody
 * else extends the fork meanwhile.
 */
static inline Buffer
lsm_extend_fork(RelFileLocator rlocator, char relpersistence)
{
#if PG_VERSION_NUM >= 160000
	return ExtendBufferedRel(BMR_SMGR(smgropen(rlocator, INVALID_PROC_NUMBER),
									  relpersistence),
							 MAIN_FORKNUM, NULL,
							 EB_SKIP_EXTENSION_LOCK | EB_LOCK_FIRST);
#else
	return ReadBufferWithoutRelcache(rlocator, MAIN_FORKNUM, P_NEW,
									 RBM_ZERO_AND_LOCK, NULL,
									 relpersistence == RELPERSISTENCE_PERMANENT);
#endif
}

/*
 * As pgstat_count_buffer_read() and pgstat_count_buffer_hit(), which count one
 */
#if PG_VERSION_NUM >= 160000
#define lsm_relation_counts		counts
#define lsm_blocks_fetched		blocks_fetched
#define lsm_blocks_hit			blocks_hit
#else
#define lsm_relation_counts		t_counts
#define lsm_blocks_fetched		t_blocks_fetched
#define lsm_blocks_hit			t_blocks_hit
#endif

static inline void
lsm_pgstat_count_buffer_hits(Relation rel, uint64 n)
{
	if (pgstat_should_count_relation(rel))
	{
		rel->pgstat_info->lsm_relation_counts.lsm_blocks_fetched += n;
		rel->pgstat_info->lsm_relation_counts.lsm_blocks_hit += n;
	}
}

/* pg_stat_io */
static inline void
lsm_pgstat_count_io_hits(bool local, uint64 n)
{
#if PG_VERSION_NUM >= 180000
	pgstat_count_io_op(local ? IOOBJECT_TEMP_RELATION : IOOBJECT_RELATION,
					   IOCONTEXT_NORMAL, IOOP_HIT, (uint32) n, 0);
#elif PG_VERSION_NUM >= 160000
	pgstat_count_io_op_n(local ? IOOBJECT_TEMP_RELATION : IOOBJECT_RELATION,
						 IOCONTEXT_NORMAL, IOOP_HIT, (uint32) n);
#endif
}

#endif							/* LSM_COMPAT_H */
