/*-------------------------------------------------------------------------
 *
 * rewrite.c
 *	  CLUSTER, VACUUM FULL and REPACK: copy what anyone can see into a new table.
 *
 * Everything is written by a bulk build, in the order of the new TIDs.  The
 * caller holds AccessExclusiveLock on both tables, so there are no concurrent
 * changes and no row locks but our own transaction's, which are dropped with
 * the old table.
 *
 * Versions that are only seen by old snapshots keep their xids.  The link from
 * such a version to its successor has to follow the successor to its new
 * TID.  If the successor was copied first, its TID is known; else the link is
 * added, as an override, when the build is done.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heaptoast.h"
#include "access/relscan.h"
#include "access/transam.h"
#include "access/xact.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "table/table.h"

/* A version that others may link to, by its old TID */
typedef struct CopiedVersion
{
	uint64		old;			/* hash key: packed TID in the old table */
	uint64		new;
} CopiedVersion;

/* A link that waits for the version at `old_next` to be copied */
typedef struct PendingLink
{
	uint64		old_next;		/* hash key: packed TID in the old table */
	uint64		new;			/* the version with the link, in the new table */
	uint64		new_next;		/* 0 until known */
	LsmRow		header;			/* its header; no lockers, no body */
} PendingLink;

typedef struct LsmRewrite
{
	Relation	old;
	Relation	new;
	LsmTree    *tree;			/* of the new table */
	LsmBuild   *build;
	TransactionId OldestXmin;
	TransactionId freeze_limit;
	MemoryContext row_context;
	HTAB	   *copied;
	HTAB	   *pending;
	Datum	   *values;
	bool	   *isnull;
	StringInfoData value;
} LsmRewrite;

static HTAB *
make_hash(const char *name, Size entry_bytes)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(uint64);
	ctl.entrysize = entry_bytes;
	ctl.hcxt = CurrentMemoryContext;
	return hash_create(name, 128, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static void
begin_rewrite(LsmRewrite *rw, Relation old, Relation new, TransactionId OldestXmin,
			  TransactionId freeze_limit)
{
	int			natts = RelationGetDescr(new)->natts;

	rw->old = old;
	rw->new = new;
	rw->OldestXmin = OldestXmin;
	rw->freeze_limit = freeze_limit;
	rw->row_context = AllocSetContextCreate(CurrentMemoryContext, "lsm rewrite row",
											ALLOCSET_DEFAULT_SIZES);
	rw->copied = make_hash("lsm copied versions", sizeof(CopiedVersion));
	rw->pending = make_hash("lsm pending links", sizeof(PendingLink));
	rw->values = palloc(Max(natts, RelationGetDescr(old)->natts) * sizeof(Datum));
	rw->isnull = palloc(Max(natts, RelationGetDescr(old)->natts) * sizeof(bool));
	initStringInfo(&rw->value);
	rw->tree = lsm_table_tree(new);
	rw->build = lsm_build_begin(rw->tree, 0);
}

/*
 * The header for the copy: hints set, what came to nothing removed, xids
 * before the freeze limit frozen.  `ended`: some transaction's xmax counts.
 */
static void
header_of_copy(LsmRewrite *rw, LsmRow *row, bool ended)
{
	if (!(row->flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN)) &&
		!lsm_xid_running(row->xmin))
	{
		Assert(TransactionIdDidCommit(row->xmin));
		row->flags |= LSM_ROW_XMIN_COMMITTED;
	}
	if (row->flags & LSM_ROW_XMIN_COMMITTED)
	{
		row->cmin = 0;
		if (TransactionIdPrecedes(row->xmin, rw->freeze_limit))
			lsm_row_freeze(row);
	}
	if (!ended)
	{
		row->flags &= ~LSM_ROW_XMAX_FLAGS;
		row->xmax = InvalidTransactionId;
		ItemPointerSetInvalid(&row->next);
	}
	else if (!lsm_xid_running(row->xmax))
		row->flags |= LSM_ROW_XMAX_COMMITTED;
}

/* Resolve the copy's links: to its successor, and from its predecessor. */
static void
link_versions(LsmRewrite *rw, LsmRow *row, uint64 old, uint64 new)
{
	bool		found;

	/* a predecessor is only copied if its end, our xmin, is recent */
	if ((row->flags & LSM_ROW_UPDATED) && !(row->flags & LSM_ROW_XMIN_FROZEN) &&
		!TransactionIdPrecedes(row->xmin, rw->OldestXmin))
	{
		PendingLink *link = hash_search(rw->pending, &old, HASH_FIND, NULL);

		if (link)
			link->new_next = new;
		else
		{
			CopiedVersion *copied = hash_search(rw->copied, &old, HASH_ENTER, &found);

			copied->new = new;
		}
	}

	if (row->flags & LSM_ROW_HAS_NEXT)
	{
		uint64		old_next = lsm_tid_pack(&row->next);
		CopiedVersion *copied = hash_search(rw->copied, &old_next, HASH_FIND, NULL);

		if (copied)
			lsm_tid_unpack(copied->new, &row->next);
		else
		{
			PendingLink *link = hash_search(rw->pending, &old_next, HASH_ENTER, &found);

			link->new = new;
			link->new_next = 0;
			link->header = *row;
			/* until then it looks deleted */
			row->flags &= ~LSM_ROW_HAS_NEXT;
			ItemPointerSetInvalid(&row->next);
		}
	}
}

/*
 * The header of a version from the old table.  Its tuple has one command id;
 * where the version needs both, the row is read once more.
 */
static void
header_of_old(LsmRewrite *rw, HeapTuple tuple, LsmRow *row)
{
	LsmRow		old;

	lsm_row_from_tuple(tuple, row);
	if (!(row->flags & LSM_ROW_HAS_XMAX) ||
		(row->flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN)) ||
		!TransactionIdIsCurrentTransactionId(row->xmin))
		return;
	if (!lsm_fetch_row(rw->old, lsm_table_tree(rw->old), lsm_tid_pack(&tuple->t_self),
					   &rw->value, &old))
		elog(ERROR, "row (%u,%u) of table \"%s\" is gone",
			 ItemPointerGetBlockNumber(&tuple->t_self),
			 ItemPointerGetOffsetNumber(&tuple->t_self),
			 RelationGetRelationName(rw->old));
	row->cmin = old.cmin;
}

/* Copy one version; dropped columns are nulled, large values toasted anew. */
static void
copy_version(LsmRewrite *rw, HeapTuple tuple, LsmRow *row)
{
	TupleDesc	new_desc = RelationGetDescr(rw->new);
	MemoryContext old_context = MemoryContextSwitchTo(rw->row_context);
	HeapTuple	copy;
	char		key[LSM_TID_BYTES];
	uint64		packed;
	int			i;

	heap_deform_tuple(tuple, RelationGetDescr(rw->old), rw->values, rw->isnull);
	for (i = 0; i < new_desc->natts; i++)
	{
		if (TupleDescAttr(new_desc, i)->attisdropped)
			rw->isnull[i] = true;
	}
	copy = heap_form_tuple(new_desc, rw->values, rw->isnull);
	copy->t_tableOid = RelationGetRelid(rw->new);
	if (HeapTupleHasExternal(copy) || copy->t_len > TOAST_TUPLE_THRESHOLD)
		copy = heap_toast_insert_or_update(rw->new, copy, NULL,
										   TABLE_INSERT_SKIP_FSM |
										   TABLE_INSERT_NO_LOGICAL);
	lsm_row_check_size(copy);
	MemoryContextSwitchTo(old_context);

	packed = lsm_number_pack(lsm_tree_allocate_rows(rw->tree, 1));
	link_versions(rw, row, lsm_tid_pack(&tuple->t_self), packed);
	lsm_key_encode(packed, key);
	resetStringInfo(&rw->value);
	lsm_row_encode_tuple(&rw->value, row, copy);
	lsm_build_add(rw->build, lsm_slice(key, sizeof(key)),
				  lsm_slice(rw->value.data, rw->value.len));
	MemoryContextReset(rw->row_context);
}

static void
end_rewrite(LsmRewrite *rw)
{
	HASH_SEQ_STATUS status;
	PendingLink *link;

	lsm_build_finish(rw->build);

	hash_seq_init(&status, rw->pending);
	while ((link = hash_seq_search(&status)) != NULL)
	{
		char		key[LSM_TID_BYTES];

		if (link->new_next == 0)
			continue;			/* the successor is gone: it was deleted */
		lsm_tid_unpack(link->new_next, &link->header.next);
		lsm_key_encode(link->new, key);
		resetStringInfo(&rw->value);
		lsm_row_encode(&rw->value, &link->header, false);
		lsm_write_one(rw->tree, lsm_slice(key, sizeof(key)),
					  lsm_slice(rw->value.data, rw->value.len));
	}
	hash_destroy(rw->pending);
	hash_destroy(rw->copied);
	pfree(rw->values);
	pfree(rw->isnull);
	pfree(rw->value.data);
	MemoryContextDelete(rw->row_context);
}

/*
 * Whether to copy a version; *ended: its xmax counts.
 *
 * A version that our own transaction has both made and ended is copied, too:
 * a cursor's older snapshot may see it, and chains lead over it from versions
 * that others see to those that they have to change.
 */
static bool
must_copy(LsmRewrite *rw, const LsmRow *row, bool *ended, double *recently_dead)
{
	*ended = false;
	switch (lsm_row_vacuum_status(row, rw->OldestXmin))
	{
		case HEAPTUPLE_DEAD:
			return false;
		case HEAPTUPLE_LIVE:
			return true;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			if (!TransactionIdIsCurrentTransactionId(row->xmin))
				elog(WARNING, "concurrent insert in progress within table \"%s\"",
					 RelationGetRelationName(rw->old));
			return true;
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			if (!TransactionIdIsCurrentTransactionId(row->xmax))
				elog(WARNING, "concurrent delete in progress within table \"%s\"",
					 RelationGetRelationName(rw->old));
			pg_fallthrough;
		case HEAPTUPLE_RECENTLY_DEAD:
			*recently_dead += 1;
			*ended = true;
			return true;
	}
	return false;				/* keep compiler quiet */
}

static void
copy_sorted(LsmRewrite *rw, Tuplesortstate *sort)
{
	double		ntuples = 0;
	HeapTuple	tuple;

	pgstat_progress_update_param(PROGRESS_REPACK_PHASE,
								 PROGRESS_REPACK_PHASE_SORT_TUPLES);
	tuplesort_performsort(sort);
	pgstat_progress_update_param(PROGRESS_REPACK_PHASE,
								 PROGRESS_REPACK_PHASE_WRITE_NEW_HEAP);
	while ((tuple = tuplesort_getheaptuple(sort, true)) != NULL)
	{
		LsmRow		row;
		double		ignored = 0;
		bool		ended;

		CHECK_FOR_INTERRUPTS();
		header_of_old(rw, tuple, &row);
		(void) must_copy(rw, &row, &ended, &ignored);
		header_of_copy(rw, &row, ended);
		copy_version(rw, tuple, &row);
		pgstat_progress_update_param(PROGRESS_REPACK_HEAP_TUPLES_INSERTED, ++ntuples);
	}
	tuplesort_end(sort);
}

/* The old table's versions, in the order wanted unless they are sorted later */
typedef struct RewriteSource
{
	IndexScanDesc index_scan;	/* or NULL: table_scan */
	TableScanDesc table_scan;
	TupleTableSlot *slot;
} RewriteSource;

static void
begin_source(RewriteSource *source, Relation table, Relation index)
{
	memset(source, 0, sizeof(RewriteSource));
	source->slot = table_slot_create(table, NULL);
	if (index != NULL)
	{
		pgstat_progress_update_param(PROGRESS_REPACK_PHASE,
									 PROGRESS_REPACK_PHASE_INDEX_SCAN_HEAP);
		pgstat_progress_update_param(PROGRESS_REPACK_INDEX_RELID,
									 RelationGetRelid(index));
		source->index_scan = index_beginscan(table, index, &lsm_snapshot_any, NULL, 0, 0, SO_NONE);
		index_rescan(source->index_scan, NULL, 0, NULL, 0);
		return;
	}
	pgstat_progress_update_param(PROGRESS_REPACK_PHASE,
								 PROGRESS_REPACK_PHASE_SEQ_SCAN_HEAP);
	source->table_scan = table_beginscan(table, &lsm_snapshot_any, 0, (ScanKey) NULL, SO_NONE);
	pgstat_progress_update_param(PROGRESS_REPACK_TOTAL_HEAP_BLKS,
								 lsm_scan_total_blocks((LsmTableScan *) source->table_scan));
}

/* The next version; it belongs to the slot.  NULL: no more. */
static HeapTuple
next_version(RewriteSource *source)
{
	CHECK_FOR_INTERRUPTS();
	if (source->index_scan != NULL)
	{
		if (!index_getnext_slot(source->index_scan, ForwardScanDirection, source->slot))
			return NULL;
		if (source->index_scan->xs_recheck)
			elog(ERROR, "CLUSTER does not support lossy index conditions");
	}
	else
	{
		if (!table_scan_getnextslot(source->table_scan, ForwardScanDirection,
									source->slot))
			return NULL;
		pgstat_progress_update_param(PROGRESS_REPACK_HEAP_BLKS_SCANNED,
									 lsm_scan_blocks_done((LsmTableScan *) source->table_scan));
	}
	return ExecFetchSlotHeapTuple(source->slot, false, NULL);
}

static void
end_source(RewriteSource *source)
{
	if (source->index_scan != NULL)
		index_endscan(source->index_scan);
	else
		table_endscan(source->table_scan);
	ExecDropSingleTupleTableSlot(source->slot);
}

/*
 * lsm_relation_copy_for_cluster - copy OldTable to NewTable, in the order of
 * OldIndex if there is one, else in TID order.
 *
 * The copies have no xid before *xid_cutoff, which may come back lower, nor any
 * multixact.
 */
void
lsm_relation_copy_for_cluster(Relation OldTable, Relation NewTable, Relation OldIndex,
							  bool use_sort, TransactionId OldestXmin,
							  Snapshot snapshot, TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
							  double *num_tuples, double *tups_vacuumed,
							  double *tups_recently_dead)
{
	LsmRewrite	rw;
	RewriteSource source;
	Tuplesortstate *sort = NULL;
	HeapTuple	tuple;

	if (LSM_COPY_SNAPSHOT(snapshot) != NULL)
		lsm_report_concurrent_repack(RelationGetRelationName(OldTable));
	lsm_tree_require_files(lsm_table_tree(OldTable));
	lsm_table_limit_horizons(OldTable, &OldestXmin, xid_cutoff);
	OldestXmin = lsm_tree_horizon(lsm_table_tree(OldTable));

	/* of two horizons the later one may be older: a standby has come back */
	if (TransactionIdPrecedes(OldestXmin, *xid_cutoff))
		*xid_cutoff = OldestXmin;
	begin_rewrite(&rw, OldTable, NewTable, OldestXmin, *xid_cutoff);
	if (use_sort)
		sort = tuplesort_begin_cluster(RelationGetDescr(OldTable), OldIndex,
									   maintenance_work_mem, NULL, TUPLESORT_NONE);
	begin_source(&source, OldTable, use_sort ? NULL : OldIndex);
	while ((tuple = next_version(&source)) != NULL)
	{
		LsmRow		row;
		bool		ended;

		header_of_old(&rw, tuple, &row);
		if (!must_copy(&rw, &row, &ended, tups_recently_dead))
		{
			*tups_vacuumed += 1;
			continue;
		}
		*num_tuples += 1;
		pgstat_progress_update_param(PROGRESS_REPACK_HEAP_TUPLES_SCANNED, *num_tuples);
		if (sort != NULL)
		{
			tuplesort_putheaptuple(sort, tuple);
			continue;
		}
		header_of_copy(&rw, &row, ended);
		copy_version(&rw, tuple, &row);
		pgstat_progress_update_param(PROGRESS_REPACK_HEAP_TUPLES_INSERTED, *num_tuples);
	}
	end_source(&source);

	if (sort != NULL)
		copy_sorted(&rw, sort);
	end_rewrite(&rw);
}
