/*-------------------------------------------------------------------------
 *
 * verify.c
 *	  lsm_verify(): the trees by themselves, then each lsm index against its
 *	  table and the table against the index.
 *
 * Index against table, under one snapshot:
 *	- a complete index scan returns each visible row once, and no others;
 *	- each visible row is found by an index scan for its key (which is given up
 *	  after KEY_SCAN_ROWS rows of that key: many duplicates would make it
 *	  quadratic), and, in a unique index, no other row is;
 *	- entries are in the order of a collation of libc, as far as the keys say it;
 *	- each entry of the index tree carries a row identifier that the table has
 *	  given out.  Entries of rows that are gone are fine: VACUUM removes them
 *	  in its time.
 *
 * Index expressions and predicates are evaluated as the table's owner, in a
 * security-restricted operation: whoever calls lsm_verify() has not written
 * them.
 *
 * Locking: AccessShareLock on table and indexes.  Concurrent writers are fine:
 * what they do is invisible to the snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/relscan.h"
#include "access/stratnum.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

#include "am/am.h"
#include "index/index.h"
#include "sqlfunc/functions.h"
#include "tree/tree.h"

PG_FUNCTION_INFO_V1(lsm_verify);

/* Problems reported per index and check: one broken file could make millions */
#define MAX_PROBLEMS	100

#define KEY_SCAN_ROWS	32

typedef struct VerifyIndex
{
	Relation	table;
	Relation	index;
	IndexInfo  *info;
	ExprState  *predicate;
	EState	   *estate;
	Snapshot	snapshot;
	IndexScanDesc scan;
	TupleTableSlot *index_slot; /* row that the index scan returns */
	FmgrInfo	equal[INDEX_MAX_KEYS];
	Tuplesortstate *table_tids; /* of rows the index should have */
	Tuplesortstate *index_tids; /* of rows it has */
	int64		problems;
	ReturnSetInfo *rsinfo;
} VerifyIndex;

static void
put_problem(void *arg, const char *object, const char *problem)
{
	ReturnSetInfo *rsinfo = arg;
	Datum		values[2];
	bool		nulls[2] = {0};

	values[0] = CStringGetTextDatum(object);
	values[1] = CStringGetTextDatum(problem);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
put_index_problem(VerifyIndex *v, const char *problem)
{
	if (v->problems < MAX_PROBLEMS)
		put_problem(v->rsinfo, RelationGetRelationName(v->index), problem);
	else if (v->problems == MAX_PROBLEMS)
		put_problem(v->rsinfo, RelationGetRelationName(v->index),
					"more problems of this index are not listed");
	v->problems++;
}

static char *
tid_text(ItemPointer tid)
{
	return psprintf("(%u,%u)", ItemPointerGetBlockNumberNoCheck(tid),
					ItemPointerGetOffsetNumberNoCheck(tid));
}

/* The operators by which the index's keys are looked up; false: a problem. */
static bool
find_equality(VerifyIndex *v)
{
	for (int i = 0; i < v->info->ii_NumIndexKeyAttrs; i++)
	{
		Oid			op = get_opfamily_member(v->index->rd_opfamily[i],
											 v->index->rd_opcintype[i],
											 v->index->rd_opcintype[i],
											 BTEqualStrategyNumber);

		if (!OidIsValid(op))
		{
			put_index_problem(v, psprintf("operator family %u has no equality operator for type %u",
										  v->index->rd_opfamily[i],
										  v->index->rd_opcintype[i]));
			return false;
		}
		fmgr_info(get_opcode(op), &v->equal[i]);
	}
	return true;
}

static Tuplesortstate *
begin_tid_sort(void)
{
	return tuplesort_begin_datum(INT8OID, Int8LessOperator, InvalidOid, false,
								 maintenance_work_mem / 2, NULL, TUPLESORT_NONE);
}

static Datum
tid_datum(ItemPointer tid)
{
	return Int64GetDatum(((int64) ItemPointerGetBlockNumberNoCheck(tid) << 16) |
						 ItemPointerGetOffsetNumberNoCheck(tid));
}

static char *
packed_tid_text(int64 packed)
{
	return psprintf("(%u,%u)", (BlockNumber) (packed >> 16), (unsigned) (packed & 0xFFFF));
}

/* The keys by which the row would be looked up; true if one of them is NULL. */
static bool
make_scan_keys(VerifyIndex *v, TupleTableSlot *slot, ScanKey keys)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	bool		any_null = false;

	FormIndexDatum(v->info, slot, v->estate, values, isnull);
	for (int i = 0; i < v->info->ii_NumIndexKeyAttrs; i++)
	{
		if (isnull[i])
		{
			ScanKeyEntryInitialize(&keys[i], SK_ISNULL | SK_SEARCHNULL, i + 1,
								   InvalidStrategy, InvalidOid, InvalidOid,
								   InvalidOid, (Datum) 0);
			any_null = true;
		}
		else
			ScanKeyEntryInitializeWithInfo(&keys[i], 0, i + 1,
										   BTEqualStrategyNumber, InvalidOid,
										   v->index->rd_indcollation[i],
										   &v->equal[i], values[i]);
	}
	return any_null;
}

/* Note the row in `slot` and look it up in the index. */
static void
verify_row(VerifyIndex *v, TupleTableSlot *slot)
{
	ExprContext *econtext = GetPerTupleExprContext(v->estate);
	ScanKeyData keys[INDEX_MAX_KEYS];
	bool		any_null;
	bool		unique;
	bool		found = false;
	int			nrows = 0;

	econtext->ecxt_scantuple = slot;
	if (v->predicate != NULL && !ExecQual(v->predicate, econtext))
		return;
	tuplesort_putdatum(v->table_tids, tid_datum(&slot->tts_tid), false);

	any_null = make_scan_keys(v, slot, keys);
	unique = v->info->ii_Unique && v->index->rd_index->indimmediate &&
		(!any_null || v->info->ii_NullsNotDistinct);
	index_rescan(v->scan, keys, v->info->ii_NumIndexKeyAttrs, NULL, 0);
	while ((unique || !found) && nrows < KEY_SCAN_ROWS &&
		   index_getnext_slot(v->scan, ForwardScanDirection, v->index_slot))
	{
		CHECK_FOR_INTERRUPTS();
		nrows++;
		if (ItemPointerEquals(&v->index_slot->tts_tid, &slot->tts_tid))
			found = true;
		else if (unique && !v->scan->xs_recheck)
			put_index_problem(v, psprintf("rows %s and %s have the same key in a unique index",
										  tid_text(&slot->tts_tid),
										  tid_text(&v->index_slot->tts_tid)));
	}
	if (!found && nrows < KEY_SCAN_ROWS)
		put_index_problem(v, psprintf("row %s is not found by its key",
									  tid_text(&slot->tts_tid)));
}

/*
 * Note the rows that a complete scan of the index returns.  Of an lsm table it
 * is an index-only scan, as the executor does it: a bit too many in the
 * visibility map would show rows that are not there.  (Entries of heap tables
 * name the first row of a HOT chain.)
 */
static void
scan_complete_index(VerifyIndex *v)
{
	Buffer		vm_buffer = InvalidBuffer;
	ItemPointer tid;

	v->scan->xs_want_itup = lsm_relation_is_table(v->table);
	index_rescan(v->scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(v->scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (v->scan->xs_want_itup &&
			VM_ALL_VISIBLE(v->table, ItemPointerGetBlockNumber(tid), &vm_buffer))
			tuplesort_putdatum(v->index_tids, tid_datum(tid), false);
		else if (index_fetch_heap(v->scan, v->index_slot))
			tuplesort_putdatum(v->index_tids, tid_datum(&v->index_slot->tts_tid), false);
	}
	v->scan->xs_want_itup = false;
	if (BufferIsValid(vm_buffer))
		ReleaseBuffer(vm_buffer);
}

/* Next of a sorted list; false at its end. */
static bool
next_tid(Tuplesortstate *sort, int64 *tid)
{
	Datum		value;
	bool		isnull;

	CHECK_FOR_INTERRUPTS();
	if (!tuplesort_getdatum(sort, true, true, &value, &isnull, NULL))
		return false;
	*tid = DatumGetInt64(value);
	return true;
}

/*
 * The rows of the table and those of the complete index scan must be the same.
 */
static void
compare_tids(VerifyIndex *v)
{
	int64		t = 0;
	int64		i = 0;
	int64		previous = -1;
	bool		more_t;
	bool		more_i;

	tuplesort_performsort(v->table_tids);
	tuplesort_performsort(v->index_tids);
	more_t = next_tid(v->table_tids, &t);
	more_i = next_tid(v->index_tids, &i);
	while (more_t || more_i)
	{
		if (more_i && i == previous)
		{
			put_index_problem(v, psprintf("a complete index scan returns row %s more than once",
										  packed_tid_text(i)));
			more_i = next_tid(v->index_tids, &i);
		}
		else if (!more_i || (more_t && t < i))
		{
			put_index_problem(v, psprintf("a complete index scan does not return row %s",
										  packed_tid_text(t)));
			more_t = next_tid(v->table_tids, &t);
		}
		else if (!more_t || i < t)
		{
			put_index_problem(v, psprintf("a complete index scan returns row %s, which should not be in the index",
										  packed_tid_text(i)));
			previous = i;
			more_i = next_tid(v->index_tids, &i);
		}
		else
		{
			previous = i;
			more_t = next_tid(v->table_tids, &t);
			more_i = next_tid(v->index_tids, &i);
		}
	}
}

static uint64
table_row_limit(Relation table)
{
	if (lsm_relation_is_table(table))
		return lsm_tree_row_limit(lsm_relation_tree(table));
	return (uint64) RelationGetNumberOfBlocks(table) * LSM_TID_OFFSETS;
}

/*
 * Row identifiers of the entries: the last six bytes of each key, big-endian.
 * The limit is read after the entries were, for both grow meanwhile.
 */
static void
verify_entries(VerifyIndex *v)
{
	LsmCursor  *cursor = lsm_cursor_open(lsm_relation_tree(v->index));
	LsmOrderCheck *order = lsm_order_check_begin(lsm_key_spec(v->index));
	bool		in_order = true;
	LsmSlice	key;
	LsmSlice	value;
	uint64		highest = 0;

	lsm_cursor_seek(cursor, lsm_slice(NULL, 0), false, ForwardScanDirection);
	while (lsm_cursor_step(cursor, ForwardScanDirection, &key, &value))
	{
		uint32		block;
		uint16		offset;

		CHECK_FOR_INTERRUPTS();
		if (key.len < LSM_TID_BYTES)
		{
			put_index_problem(v, psprintf("key of %u bytes has no row identifier", key.len));
			continue;
		}
		lsm_tid_read(key.data + key.len - LSM_TID_BYTES, &block, &offset);
		if (offset < 1 || offset > LSM_TID_OFFSETS)
			put_index_problem(v, psprintf("entry points to row (%u,%u), which cannot exist",
										  block, offset));
		else
			highest = Max(highest, (uint64) block * LSM_TID_OFFSETS + offset);
		if (order != NULL && in_order)
			in_order = lsm_order_check_next(order, lsm_key_columns(key));
	}
	lsm_cursor_close(cursor);
	if (!in_order)
		put_index_problem(v, "the order of entries is not that of the collation");

	if (highest > table_row_limit(v->table))
		put_index_problem(v, psprintf("entry points to row (%u,%u), which was never given out",
									  (BlockNumber) ((highest - 1) / LSM_TID_OFFSETS),
									  (unsigned) ((highest - 1) % LSM_TID_OFFSETS + 1)));
}

/*
 * An index whose heap-only chains are broken for old snapshots cannot be
 * compared under the present one (see indcheckxmin in pg_index); nor one that
 * is not ready.
 */
static bool
index_is_comparable(Relation index, Snapshot snapshot)
{
	if (!index->rd_index->indisvalid || !index->rd_index->indisready)
		return false;
	return !index->rd_index->indcheckxmin ||
		TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data),
							  snapshot->xmin);
}

static void
verify_index(ReturnSetInfo *rsinfo, Relation table, Relation index)
{
	VerifyIndex v = {0};
	TableScanDesc scan;
	TupleTableSlot *slot;

	v.rsinfo = rsinfo;
	v.table = table;
	v.index = index;
	v.snapshot = RegisterSnapshot(GetLatestSnapshot());
	if (!index_is_comparable(index, v.snapshot))
	{
		UnregisterSnapshot(v.snapshot);
		return;
	}
	PushActiveSnapshot(v.snapshot); /* index expressions may need it */
	v.info = BuildIndexInfo(index);
	v.estate = CreateExecutorState();
	v.predicate = v.info->ii_Predicate == NIL ? NULL :
		ExecPrepareQual(v.info->ii_Predicate, v.estate);

	if (lsm_index_collations_changed(index))
		put_index_problem(&v, "the index was built with another version of a collation");
	if (!lsm_columns_have_codes(index))
		put_index_problem(&v, "types of its columns have changed since the index was built");
	else if (find_equality(&v))
	{
		slot = table_slot_create(table, NULL);
		v.index_slot = table_slot_create(table, NULL);
		v.scan = index_beginscan(table, index, v.snapshot, NULL,
								 v.info->ii_NumIndexKeyAttrs, 0);
		v.scan->ignore_killed_tuples = false;	/* do not trust in the key's
												 * uniqueness */
		v.table_tids = begin_tid_sort();
		v.index_tids = begin_tid_sort();
		scan = table_beginscan_strat(table, v.snapshot, 0, NULL, true, false);
		while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
		{
			CHECK_FOR_INTERRUPTS();
			verify_row(&v, slot);
			ResetPerTupleExprContext(v.estate);
		}
		table_endscan(scan);
		index_endscan(v.scan);

		v.scan = index_beginscan(table, index, v.snapshot, NULL, 0, 0);
		scan_complete_index(&v);
		index_endscan(v.scan);
		ExecDropSingleTupleTableSlot(v.index_slot);
		ExecDropSingleTupleTableSlot(slot);

		compare_tids(&v);
		tuplesort_end(v.table_tids);
		tuplesort_end(v.index_tids);
		verify_entries(&v);
	}
	FreeExecutorState(v.estate);
	PopActiveSnapshot();
	UnregisterSnapshot(v.snapshot);
}

/* Problems of one tree by itself */
typedef struct TreeProblems
{
	ReturnSetInfo *rsinfo;
	int64		n;
} TreeProblems;

static void
put_tree_problem(void *arg, const char *object, const char *problem)
{
	TreeProblems *problems = (TreeProblems *) arg;
	size_t		len = strlen(object);

	/* reading does without a filter */
	if (len < 4 || strcmp(object + len - 4, ".flt") != 0)
		problems->n++;
	put_problem(problems->rsinfo, object, problem);
}

/* True if the tree can be read without meeting what is damaged. */
static bool
verify_tree(ReturnSetInfo *rsinfo, Relation rel)
{
	TreeProblems problems = {rsinfo, 0};

	lsm_tree_verify(lsm_relation_tree(rel), put_tree_problem, &problems);
	return problems.n == 0;
}

Datum
lsm_verify(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel;
	Relation	table;
	List	   *indexes = NIL;
	ListCell   *lc;
	bool		table_readable = true;
	LsmFormerUser caller;

	InitMaterializedSRF(fcinfo, 0);
	rel = lsm_relation_open(PG_GETARG_OID(0), LSM_RELATION_TREES, LSM_RIGHT_ROWS,
							AccessShareLock);
	if (rel->rd_rel->relkind == RELKIND_INDEX)
		table = relation_open(rel->rd_index->indrelid, AccessShareLock);
	else
		table = rel;

	/* expressions and predicates of the indexes are the owner's */
	lsm_become_owner(table, &caller);
	if (table != rel)
		indexes = list_make1(rel);
	else
	{
		if (rel->rd_rel->relkind == RELKIND_RELATION ||
			rel->rd_rel->relkind == RELKIND_MATVIEW)
			indexes = lsm_relation_open_indexes(rel, AccessShareLock);
		if (lsm_relation_is_table(rel))
			table_readable = verify_tree(rsinfo, rel);
	}
	if (indexes == NIL)
		lsm_relation_check_kind(rel);

	foreach(lc, indexes)
	{
		Relation	index = lfirst(lc);

		/*
		 * comparing would end in an error about the first damage, without the
		 * rows
		 */
		if (verify_tree(rsinfo, index) && table_readable)
			verify_index(rsinfo, table, index);
		else
			put_problem(rsinfo, RelationGetRelationName(index),
						"was not compared with the table because of the problems above");
	}
	lsm_become_caller(&caller);

	if (table != rel)
		relation_close(table, NoLock);
	else
		lsm_relation_close_indexes(indexes);
	relation_close(rel, NoLock);
	return (Datum) 0;
}
