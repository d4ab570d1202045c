/*-------------------------------------------------------------------------
 *
 * table.h
 *	  The table access method "lsm": row versions in a tree keyed by TID.
 *
 * row_tid.h has the TIDs of rows and their versions, row.h the values, and
 * versions.h says how the versions of a row are read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TABLE_H
#define LSM_TABLE_H

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "replication/logicalworker.h"
#include "utils/snapmgr.h"

#include "am/am.h"
#include "am/row_notes.h"
#include "table/row.h"
#include "tree/tree.h"

extern PGDLLEXPORT const TableAmRoutine lsm_table_methods;

/* From _PG_init: registers the kind LSM_KIND_TABLE. */
extern void lsm_table_init(void);

/* The table's tree.  See lsm_tree_open. */
static inline LsmTree *
lsm_table_tree(Relation rel)
{
	return lsm_tree_open(rel, LSM_KIND_TABLE, NULL);
}

/* ---- logical decoding (logical.c) ---- */

/* What happens to a row.  In WAL records. */
typedef enum LsmChange
{
	LSM_CHANGE_INSERT = 1,
	LSM_CHANGE_UPDATE = 2,
	LSM_CHANGE_DELETE = 3,
	LSM_CHANGE_SPECULATIVE = 4, /* insertion that waits for its completion */
	LSM_CHANGE_CONFIRM = 5,
	LSM_CHANGE_ABORT = 6
} LsmChange;

/* Notes (LsmEntry.note) of changes; empty if the table is not decoded. */
extern LsmSlice lsm_note_plain(Relation rel, LsmChange change);
extern LsmSlice lsm_note_insert_more(Relation rel);
extern LsmSlice lsm_note_change(Relation rel, HeapTuple oldtup, HeapTuple newtup);
extern void lsm_note_free(LsmSlice note);

extern void lsm_row_decode_change(struct LogicalDecodingContext *ctx,
								  struct XLogRecordBuffer *buf,
								  const RelFileLocator *relation, LsmSlice value,
								  LsmSlice note);
extern bool lsm_row_is_changed(LsmSlice value, TransactionId xid);

/* ---- rows of subscribers (replica_key.c) ---- */

extern void lsm_prepare_replica_key(Relation rel);

/* ---- one row version about to be changed (row_change.c) ---- */

/*
 * The protocol for changing an existing version: read it under a stamp, decide
 * (waiting if need be), begin the write, then apply it under the key's lock
 * only if the stamp still holds; else read again.
 */
typedef struct LsmRowChange
{
	Relation	rel;
	LsmTree    *tree;
	ItemPointerData tid;		/* the version's */
	uint64		packed;			/* the same */
	uint64		row_tid;		/* the row's, packed */
	char		key[LSM_TID_BYTES];
	LsmDigest	lock_digest;
	LsmProbe	probe;
	LsmStamp	stamp;
	StringInfoData value;
	LsmRow		row;			/* the version */
	const LsmRow *newest;		/* the newest valid one: `row` or `newer` */
	bool		crowded;		/* many values were passed over to find it */
	LsmRow		newer;
} LsmRowChange;

extern void lsm_row_change_init(LsmRowChange *target, Relation rel, LsmTree *tree,
							const ItemPointerData *tid);

/* False: no such version, or it was rolled back.  Else target->row is decoded. */
extern bool lsm_row_change_read(LsmRowChange *target);

/*
 * Apply a begun write.  False: someone was faster, it was cancelled; read
 * again.
 */
extern bool lsm_row_change_apply(LsmRowChange *target, LsmWrite *write);

/*
 * Had the version no successor when it was read?  If the successor that it had
 * came to nothing meanwhile (TM_Ok), read again: the change is written on top.
 */
static inline bool
lsm_row_change_is_newest(const LsmRowChange *target)
{
	return target->newest == &target->row;
}

/*
 * Begin and apply the write of one override with this header.  `note`: for
 * logical decoding; empty for all but changes of the row itself.
 */
extern bool lsm_row_change_override(LsmRowChange *target, const LsmRow *header,
									LsmSlice note);
extern void lsm_row_change_free(LsmRowChange *target);

/*
 * Header to start a change from, of the row's newest version: an xmax that came
 * to nothing is gone, finished lockers too.  With `xid` valid, its locks up to
 * `mode` as well: its xmax will stand for them.  The list of lockers is palloc'd
 * (NULL if empty): lsm_header_free() when done.
 */
extern void lsm_row_change_header(const LsmRowChange *target, TransactionId xid,
							  LockTupleMode mode, LsmRow *header);
extern void lsm_header_free(LsmRow *header);
extern void lsm_row_change_failure(const LsmRowChange *target, TM_Result result,
							   TM_FailureData *tmfd);

/* ---- updates and deletions (modify.c) ---- */

extern TM_Result lsm_tuple_delete(Relation rel, ItemPointer tid, CommandId cid,
								  uint32 options, Snapshot snapshot,
								  Snapshot crosscheck, bool wait,
								  TM_FailureData *tmfd);
extern TM_Result lsm_tuple_update(Relation rel, ItemPointer otid,
								  TupleTableSlot *slot, CommandId cid, uint32 options,
								  Snapshot snapshot, Snapshot crosscheck, bool wait,
								  TM_FailureData *tmfd, LockTupleMode *lockmode,
								  TU_UpdateIndexes *update_indexes);

/* ---- new rows (insert.c) ---- */

extern void lsm_header_of_new_row(LsmRow *header, TransactionId xid, CommandId cid,
								  bool frozen);
extern void lsm_label_tuple(Relation rel, HeapTuple tuple, TupleTableSlot *slot,
							const LsmRow *header, uint64 packed);

extern void lsm_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid,
							 uint32 options, BulkInsertState bistate);
extern void lsm_tuple_insert_speculative(Relation rel, TupleTableSlot *slot,
										 CommandId cid, uint32 options,
										 BulkInsertState bistate, uint32 token);
extern void lsm_tuple_complete_speculative(Relation rel, TupleTableSlot *slot,
										   uint32 token, bool succeeded);
extern void lsm_multi_insert(Relation rel, TupleTableSlot **slots, int nslots,
							 CommandId cid, uint32 options, BulkInsertState bistate);

/* ---- row locks (lock.c) ---- */

/* What a change of strength `mode` must wait for */
typedef struct LsmConflict
{
	TransactionId xid;			/* a running conflicting locker, or invalid */
	bool		own;			/* our transaction is among the lockers */
	bool		own_enough;		/* ... with a lock at least as strong */
} LsmConflict;

extern void lsm_row_find_conflict(const LsmRow *row, LockTupleMode mode,
								  LsmConflict *conflict);
extern bool lsm_lock_modes_conflict(LockTupleMode a, LockTupleMode b);

/* The strength of the lock that xmax amounts to. */
extern LockTupleMode lsm_row_xmax_mode(const LsmRow *row);

/*
 * The heavyweight lock that queues those who wait for a row.  False: policy is
 * skip.
 */
extern bool lsm_tuplock_acquire(Relation rel, ItemPointer tid, LockTupleMode mode,
								LockWaitPolicy policy, bool *held);
extern void lsm_tuplock_release(Relation rel, ItemPointer tid, LockTupleMode mode,
								bool held);

/* Add (or strengthen) the current transaction's lock in a settled header. */
extern void lsm_header_add_locker(LsmRow *header, TransactionId xid,
								  LockTupleMode mode);

extern TM_Result lsm_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot,
								TupleTableSlot *slot, CommandId cid,
								LockTupleMode mode, LockWaitPolicy wait_policy,
								uint8 flags, TM_FailureData *tmfd);

/* ---- rows read ahead (readahead.c) ---- */

typedef struct LsmAhead
{
	LsmBatch   *batch;			/* NULL until needed */
	int			next;			/* first entry still to be used */
	int			size;			/* of the next batch, entries */
	LsmRowModel models[2];		/* for the snapshot: of two kinds of rows */
	LsmRowModel *model;			/* one of them: the last row's whose data were
								 * aligned */
	int			nmodels;		/* how many were made */
	int			moved;			/* rows of the batch whose data were not aligned */
	uint32		moved_offset;	/* where those of the last one began */
	LsmEnough	enough;			/* the versions that the snapshot wants */
	StringInfoData again;		/* a row that was read once more */
} LsmAhead;

/* May rows be read ahead for this snapshot, in this transaction? */
extern bool lsm_snapshot_reads_ahead(Snapshot snapshot);

/* Forget what was read; the next batch is a small one. */
extern void lsm_ahead_reset(LsmAhead *ahead);
extern void lsm_ahead_free(LsmAhead *ahead);

/* Memory comes from `context`. */
extern bool lsm_ahead_fill(LsmAhead *ahead, LsmCursor *cursor, uint64 high,
						   MemoryContext context);

typedef enum LsmAheadResult
{
	LSM_AHEAD_STORED,			/* the slot has the row */
	LSM_AHEAD_HIDDEN,			/* the snapshot does not see it; *value is it,
								 * or empty, if it is gone */
	LSM_AHEAD_MALFORMED,		/* the key is no TID */
	LSM_AHEAD_END				/* for scan.c: there is none */
} LsmAheadResult;

/* The next row, which stays the next one: the version that the snapshot sees. */
extern LsmAheadResult lsm_ahead_store(LsmAhead *ahead, Relation rel, Snapshot snapshot,
									  TupleTableSlot *slot, LsmSlice *value,
									  LsmRow *version);

static inline bool
lsm_ahead_empty(const LsmAhead *ahead)
{
	return ahead->batch == NULL || ahead->next >= ahead->batch->n;
}

static inline uint64
lsm_ahead_key(const LsmAhead *ahead, int i)
{
	return lsm_key_decode(ahead->batch->bytes.data + ahead->batch->entries[i].key_offset);
}

/*
 * Where core asks for all versions, and takes the page of one that it is given
 * for a buffer's, as of a heap table: a subscriber that looks for when a row was
 * deleted (RelationFindDeletedTupleInfoSeq(), ...ByIndex()).  It has to find
 * none.  All versions for us are those of lsm_snapshot_any.
 */
extern SnapshotData lsm_snapshot_any;

static inline bool
lsm_reads_dead_heap_row(Snapshot snapshot)
{
	return LSM_CORE_READS_DEAD_ROWS && unlikely(snapshot == SnapshotAny) && IsLogicalWorker();
}

/* Of an index scan; starts as zeros */
typedef struct LsmFetchAhead
{
	LsmAhead	ahead;
	LsmCursor  *cursor;			/* NULL until needed */
	uint64		last;			/* row of the last fetch */
	int			run;			/* fetches of neighbours in a row; negative:
								 * so many to come before that counts again */
	int			hits;			/* uses of the batch */

	/* the snapshot the batch is good for */
	Snapshot	snapshot;
	CommandId	curcid;
	TransactionId xmin;
	TransactionId xmax;
} LsmFetchAhead;

extern bool lsm_fetch_from_ahead(LsmFetchAhead *fetch, Relation rel, LsmTree *tree,
								 uint64 row, Snapshot snapshot, MemoryContext context,
								 TupleTableSlot *slot);
extern void lsm_fetch_ahead_free(LsmFetchAhead *fetch);

/* ---- scans (scan.c, bitmap_scan.c, sample.c) ---- */

typedef struct LsmTableScan
{
	TableScanDescData base;		/* must be first */
	MemoryContext context;		/* of the scan's own memory */
	LsmTree    *tree;			/* good for the transaction, so for the scan */
	LsmCursor  *cursor;			/* NULL until needed */
	bool		batched;		/* read ahead in batches when going forward */
	uint64		row_limit;		/* row numbers at or above came after the
								 * start */
	BlockNumber nblocks;		/* TID blocks below row_limit */
	bool		met_hidden;		/* a row that a snapshot of the present did not
								 * see */

	/* what is being walked: rows, inclusive */
	uint64		low;
	uint64		high;
	bool		positioned;		/* cursor is inside the range */
	BlockNumber block;			/* of the last row, for progress */

	/* of a parallel scan: what all of them divide among them, inclusive */
	uint64		first_shared;
	uint64		last_shared;

	/* rows from start_block on come first, those before in a second round */
	BlockNumber start_block;
	bool		in_second;
	bool		synchronized;	/* tell others where we are */
	BlockNumber told_block;		/* what we have told last */

	LsmAhead	ahead;			/* if batched */
	LsmTombstones	tombstones;			/* if batched: dead rows in sorted files */

	/* a snapshot that may see several versions of a row: those still to come */
	bool		in_row;
	struct LsmVersions *versions;

	/* TID range scan: the first and the last TID, packed */
	uint64		first_tid;
	uint64		last_tid;

	/* bitmap scan: the block at hand */
	StringInfoData value;
	BlockNumber bitmap_block;
	const OffsetNumber *bitmap_offsets;
	int			bitmap_ntids;	/* -1: all of the block's */
	int			bitmap_next;
	bool		bitmap_walk;	/* walk the range, else fetch one by one */
	bool		bitmap_recheck; /* since 18: the executor is to recheck */
	OffsetNumber bitmap_room[LSM_TID_OFFSETS];	/* since 18 */

	/* TABLESAMPLE and ANALYZE: the block at hand */
	BlockNumber sample_block;	/* InvalidBlockNumber before the first */
	MemoryContext sample_context;
	HeapTuple  *sample_rows;	/* visible rows by offset - 1 */
	double		sample_scale;	/* ANALYZE: blocks that a sample stands for */
} LsmTableScan;

/*
 * Blocks that ANALYZE may be told of.  It prefetches the blocks of its sample
 * from the main fork, where a block beyond the first segment may be an error.
 */
#define LSM_ANALYZE_MAX_BLOCKS	((BlockNumber) RELSEG_SIZE)

extern TableScanDesc lsm_scan_begin(Relation rel, Snapshot snapshot, int nkeys,
									struct ScanKeyData *key,
									ParallelTableScanDesc pscan, uint32 flags);
extern void lsm_scan_end(TableScanDesc sscan);
extern void lsm_scan_rescan(TableScanDesc sscan, struct ScanKeyData *key,
							bool set_params, bool allow_strat, bool allow_sync,
							bool allow_pagemode);

extern bool lsm_scan_getnextslot(TableScanDesc sscan, ScanDirection direction,
								 TupleTableSlot *slot);
extern void lsm_scan_set_tidrange(TableScanDesc sscan, ItemPointer mintid,
								  ItemPointer maxtid);
extern bool lsm_scan_getnextslot_tidrange(TableScanDesc sscan,
										  ScanDirection direction,
										  TupleTableSlot *slot);
extern Size lsm_parallelscan_estimate(Relation rel);
extern Size lsm_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan);
extern void lsm_parallelscan_reinitialize(Relation rel, ParallelTableScanDesc pscan);
extern BlockNumber lsm_scan_total_blocks(LsmTableScan *scan);
extern BlockNumber lsm_scan_blocks_done(LsmTableScan *scan);

/*
 * Next row of the range, whatever its visibility; false at the end.  *value: its
 * versions, those that the scan's snapshot wants; SnapshotAny: all, no snapshot:
 * the newest valid one and those that are newer.  It is the scan's memory, good
 * until the next call.
 */
extern bool lsm_scan_step(LsmTableScan *scan, ScanDirection direction,
						  uint64 *row, LsmSlice *value);

/*
 * The version of that row which the snapshot sees, with serializable bookkeeping;
 * *packed: its TID.  False: there is none.
 */
extern bool lsm_scan_visible(LsmTableScan *scan, Snapshot snapshot, uint64 row, LsmSlice value,
							 LsmRow *version, uint64 *packed);

/* Walk the TIDs low .. high from now on. */
extern void lsm_scan_set_range(LsmTableScan *scan, uint64 low, uint64 high);

extern bool lsm_scan_bitmap_next_block(TableScanDesc sscan,
									   struct TBMIterateResult *tbmres);
extern bool lsm_scan_bitmap_next_tuple(TableScanDesc sscan,
									   LSM_BITMAP_TUPLE_PARAMETERS);
extern bool lsm_scan_sample_next_block(TableScanDesc sscan,
									   struct SampleScanState *scanstate);
extern bool lsm_scan_sample_next_tuple(TableScanDesc sscan,
									   struct SampleScanState *scanstate,
									   TupleTableSlot *slot);
extern bool lsm_scan_analyze_next_block(TableScanDesc sscan,
										LSM_ANALYZE_BLOCK_PARAMETERS);
extern bool lsm_scan_analyze_next_tuple(TableScanDesc sscan,
										double *liverows, double *deadrows,
										TupleTableSlot *slot);

/* ---- rows by TID (fetch.c) ---- */

/*
 * The value of the row that an index scan of this backend found visible last,
 * if that is this one and it has not changed since; good until the next row is
 * found.  `digest`: of its key.
 */
extern bool lsm_fetch_last_row(LsmTree *tree, uint64 row, LsmDigest digest, LsmStamp *stamp,
							   LsmSlice *value);

/*
 * Read the version at a TID, as the row has it: the newest one of that number
 * that was not rolled back.  False: there is none, or the row is dead to all.
 * (Who made a row's only version is not asked.)
 */
extern bool lsm_fetch_row(Relation rel, LsmTree *tree, uint64 packed,
						  StringInfo value, LsmRow *version);

/*
 * Read what says whether the row is dead: see lsm_versions_vacuum_horizon().
 * False: no such row.
 */
extern bool lsm_fetch_newest(LsmTree *tree, uint64 row, StringInfo value);

/* Read all versions of the row.  False: no such row. */
extern bool lsm_fetch_versions(LsmTree *tree, uint64 row, StringInfo value);

typedef enum LsmPruned
{
	LSM_PRUNE_NOT_YET,			/* someone may still see the row */
	LSM_PRUNE_DONE,				/* no one, and the memtables have lost it */
	LSM_PRUNE_IN_FILE			/* no one, but it would have to be deleted */
} LsmPruned;

/* `value`: as lsm_fetch_newest() has it.  *deleter: unless NOT_YET. */
extern LsmPruned lsm_row_prune(Relation rel, LsmTree *tree, uint64 row, LsmSlice value,
							   TransactionId *deleter);

/* See lsm_table_prune(). */
extern bool lsm_table_prune_row(Relation rel, const ItemPointerData *tid, TransactionId *xid);

#ifdef USE_ASSERT_CHECKING
/* row_opinion.c */
extern void lsm_row_doubt_visible(Relation rel, const ItemPointerData *tid, Snapshot snapshot,
								  bool visible, const char *shortcut);
extern void lsm_row_doubt_dead(Relation rel, const ItemPointerData *tid, const char *shortcut);
extern void lsm_row_doubt_kept(LsmTree *tree, uint64 row, LsmDigest digest,
							   const LsmStamp *stamp, LsmSlice kept);
#endif

/*
 * The version of the row that the snapshot sees, with serializable bookkeeping;
 * *packed: its TID; *found: the row exists.  False: as
 * lsm_versions_for_snapshot().
 */
extern bool lsm_fetch_visible(Relation rel, LsmTree *tree, uint64 row,
							  Snapshot snapshot, StringInfo value, LsmRow *version,
							  uint64 *packed, bool *found);
extern void lsm_check_row_conflict_out(Relation rel, uint64 row, LsmSlice value,
									   const LsmRow *seen, bool visible, Snapshot snapshot);

extern struct IndexFetchTableData *lsm_table_fetch_begin(Relation rel, uint32 flags);
extern void lsm_table_fetch_reset(struct IndexFetchTableData *data);
extern void lsm_table_fetch_end(struct IndexFetchTableData *data);
extern bool lsm_table_fetch_tuple(struct IndexFetchTableData *data, ItemPointer tid,
								  Snapshot snapshot, TupleTableSlot *slot,
								  bool *call_again, bool *all_dead);

/* See lsm_row_fetch_hides(). */
extern bool lsm_table_fetch_hides(struct IndexFetchTableData *data, ItemPointer tid,
								  ItemPointer ahead, Snapshot snapshot);
extern bool lsm_tuple_fetch_row_version(Relation rel, ItemPointer tid,
										Snapshot snapshot, TupleTableSlot *slot);
extern bool lsm_tuple_tid_valid(TableScanDesc sscan, ItemPointer tid);
extern void lsm_tuple_get_latest_tid(TableScanDesc sscan, ItemPointer tid);
extern bool lsm_tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot,
										 Snapshot snapshot);
extern TransactionId lsm_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate);

/* ---- rows that have been ended (ended_rows.c) ---- */

extern void lsm_ended_note(LsmTree *tree, uint64 row, const LsmRow *newest, Snapshot snapshot);
extern void lsm_ended_prefetch(LsmTree *tree, uint64 row);
extern bool lsm_ended_hides(Relation rel, LsmTree *tree, uint64 row, Snapshot snapshot);

/* ---- row numbers of a moved table (moved_rows.c) ---- */

/*
 * ERROR if a table that SET TABLESPACE moved in this transaction has no room
 * for n more rows.
 */
extern void lsm_relation_check_room(Relation rel, LsmTree *tree, int n);

/*
 * SET TABLESPACE: row numbers that the copy may use in this transaction, and
 * the original (`tree`, already copied) never.
 */
extern void lsm_reserve_moved_rows(Relation rel, LsmTree *tree, const RelFileLocator *copy);

/* ---- code that takes the table for heap (caller.c) ---- */

extern bool lsm_main_fork_is_read(Relation rel);
extern void lsm_refuse_pglogical(Relation rel);

/* ---- the table as a whole (relation.c, vacuum.c, rewrite.c, build.c) ---- */

extern void lsm_table_limit_horizons(Relation rel, TransactionId *OldestXmin,
									 TransactionId *FreezeLimit);
extern void lsm_relation_vacuum(Relation rel, const VacuumParams *params,
								BufferAccessStrategy bstrategy);

extern void lsm_relation_set_new_filelocator(Relation rel, const RelFileLocator *newrlocator,
											 char persistence,
											 TransactionId *freezeXid,
											 MultiXactId *minmulti);
extern void lsm_relation_nontransactional_truncate(Relation rel);
extern void lsm_relation_copy_data(Relation rel, const RelFileLocator *newrlocator);

extern void lsm_relation_copy_for_cluster(Relation OldTable, Relation NewTable,
										  Relation OldIndex, bool use_sort,
										  TransactionId OldestXmin,
										  Snapshot snapshot,
										  TransactionId *xid_cutoff,
										  MultiXactId *multi_cutoff,
										  double *num_tuples,
										  double *tups_vacuumed,
										  double *tups_recently_dead);
extern uint64 lsm_table_size(Relation rel, ForkNumber forkNumber);

/*
 * ANALYZE is about to choose among the blocks of a table, of whose TIDs there
 * are so many blocks: returns how many it is told of (sample.c).
 */
extern BlockNumber lsm_analyze_tell_blocks(Relation rel, BlockNumber nblocks);
extern bool lsm_relation_needs_toast_table(Relation rel);
extern Oid	lsm_relation_toast_am(Relation rel);
extern void lsm_relation_init(void);
extern void lsm_relation_estimate_size(Relation rel, int32 *attr_widths,
									   BlockNumber *pages, double *tuples,
									   double *allvisfrac);
extern void lsm_relation_note_update(Relation rel, LsmTree *tree, uint64 packed);

extern double lsm_index_build_range_scan(Relation table_rel, Relation index_rel,
										 struct IndexInfo *index_info,
										 bool allow_sync, bool anyvisible,
										 bool progress, BlockNumber start_blockno,
										 BlockNumber numblocks,
										 IndexBuildCallback callback,
										 void *callback_state, TableScanDesc sscan);
extern void lsm_index_validate_scan(Relation table_rel, Relation index_rel,
									struct IndexInfo *index_info,
									Snapshot snapshot,
									struct ValidateIndexState *state);

/* ---- what flush and compaction ask (kind.c) ---- */

extern const LsmKindOps lsm_table_kind_ops;

#endif							/* LSM_TABLE_H */
