/*-------------------------------------------------------------------------
 *
 * verify_index.c
 *	  lsm_verify(): an lsm index against its table and the table against the
 *	  index, under one snapshot.
 *
 *	- A complete index scan returns each visible row once, and no others, and
 *	  values that the rows have.
 *	- Each visible row is found by an index scan for its key (which is given up
 *	  after KEY_SCAN_ROWS rows or KEY_SCAN_ENTRIES entries of that key, and not
 *	  begun for a key that took KEY_SCAN_BLOCKS blocks before: many duplicates
 *	  would make it quadratic, and so would many entries of dead rows), and, in
 *	  a unique index, no other row is.  If rows of an lsm table may have equal
 *	  keys, the scan has to find one of them, and the row's own entry is looked
 *	  up.
 *	- Entries are in the order of a collation of libc, as far as the keys say it.
 *	- Each entry of the index tree carries a row identifier that the table has
 *	  given out.  Entries of rows that are gone are fine: VACUUM removes them
 *	  in its time.
 *
 * Locking: table and index are locked by who calls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/stratnum.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "catalog/index.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

#include "am/am.h"
#include "index/index.h"
#include "sqlfunc/functions.h"
#include "sqlfunc/verify.h"

#define KEY_SCAN_ROWS		32
#define KEY_SCAN_ENTRIES	1024
#define KEY_SCAN_BLOCKS		64

/* Keys that are remembered as long, each in the place of its hash */
#define LONG_KEYS			256

typedef struct LsmIndexCheck
{
	LsmVerifyNotes *notes;
	int			relation;		/* number of the index there */
	Relation	table;
	Relation	index;
	IndexInfo  *info;
	ExprState  *predicate;
	EState	   *estate;
	Snapshot	snapshot;
	LsmVerifyStage stage;
	IndexScanDesc scan;
	TupleTableSlot *index_slot; /* row that the index scan returns */
	FmgrInfo	equal[INDEX_MAX_KEYS];
	uint32		long_keys[LONG_KEYS];	/* hashes; 0: none */
	MemoryContext problem_cxt;	/* for a problem's text */
	StringInfoData entry;		/* key of the row's entry */
	StringInfoData entry_value;
	Tuplesortstate *table_tids; /* of rows the index should have */
	Tuplesortstate *index_tids; /* of rows it has */
} LsmIndexCheck;

/*
 * A problem, in words.  Nothing stays but the note, of which there are not many:
 * an index may be wrong in each of its entries.
 */
static void pg_attribute_printf(2, 3)
put_index_problem(LsmIndexCheck *v, const char *format,...)
{
	MemoryContext old = MemoryContextSwitchTo(v->problem_cxt);
	StringInfoData text;

	initStringInfo(&text);
	for (;;)
	{
		va_list		args;
		int			needed;

		va_start(args, format);
		needed = appendStringInfoVA(&text, format, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&text, needed);
	}
	MemoryContextSwitchTo(old);
	lsm_verify_note(v->notes, v->relation, v->stage, RelationGetRelationName(v->index), text.data);
	MemoryContextReset(v->problem_cxt);
}

/* A row's identifier in words, "(%u,%u)" */
#define TID_ARGS(tid) \
	ItemPointerGetBlockNumberNoCheck(tid), ItemPointerGetOffsetNumberNoCheck(tid)
#define PACKED_TID_ARGS(packed) \
	(BlockNumber) ((packed) >> 16), (unsigned) ((packed) & 0xFFFF)

/* The operator by which a column of the index is looked up */
static Oid
equality_operator(Relation index, int column)
{
	return get_opfamily_member(index->rd_opfamily[column], index->rd_opcintype[column],
							   index->rd_opcintype[column], BTEqualStrategyNumber);
}

static Tuplesortstate *
begin_tid_sort(void)
{
	return tuplesort_begin_datum(INT8OID, Int8LessOperator, InvalidOid, false,
								 maintenance_work_mem / 2, NULL, TUPLESORT_NONE);
}

/* The row of a slot's version: slots name versions, entries of indexes rows. */
static int64
pack_row_tid(ItemPointer tid)
{
	ItemPointerData row;

	lsm_row_tid(tid, &row);
	return ((int64) ItemPointerGetBlockNumberNoCheck(&row) << 16) |
		ItemPointerGetOffsetNumberNoCheck(&row);
}

/* The keys by which the row would be looked up; true if one of them is NULL. */
static bool
make_scan_keys(LsmIndexCheck *v, TupleTableSlot *slot, ScanKey keys)
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

/* Should the index have an entry of the row? */
static bool
row_is_indexed(LsmIndexCheck *v, TupleTableSlot *slot)
{
	ExprContext *econtext = GetPerTupleExprContext(v->estate);

	econtext->ecxt_scantuple = slot;
	return v->predicate == NULL || ExecQual(v->predicate, econtext);
}

/* Of the key's bytes: equal keys with other bytes count as different ones. */
static uint32
hash_keys(LsmIndexCheck *v, ScanKey keys)
{
	uint32		hash = 1;

	for (int i = 0; i < v->info->ii_NumIndexKeyAttrs; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(v->index), i);

		if (!(keys[i].sk_flags & SK_ISNULL))
			hash = hash_combine(hash, datum_image_hash(keys[i].sk_argument, att->attbyval,
													   att->attlen));
	}
	return Max(hash, 1);
}

static uint64
blocks_read(void)
{
	uint64		counters[LSM_NCOUNTERS];

	lsm_counters_own(counters);
	return counters[LSM_COUNT_BLOCKS_READ];
}

/* Rows of heap tables are found by the first one of their HOT chain. */
static bool
has_own_entry(LsmIndexCheck *v, TupleTableSlot *slot)
{
	LsmTree    *tree = lsm_relation_tree(v->index);
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	LsmProbe	probe;
	LsmSlice	key;
	ItemPointerData row;
	MemoryContext old = MemoryContextSwitchTo(GetPerTupleMemoryContext(v->estate));

	FormIndexDatum(v->info, slot, v->estate, values, isnull);

	/* what is there may be older than the limits of lsm_encode_columns() */
	resetStringInfo(&v->entry);
	(void) lsm_append_columns(lsm_key_spec(v->index), values, isnull, &v->entry);
	MemoryContextSwitchTo(old);
	lsm_row_tid(&slot->tts_tid, &row);
	lsm_encode_tid(&row, &v->entry);
	key = lsm_slice(v->entry.data, v->entry.len);
	lsm_probe_begin(tree, &probe, lsm_key_columns(key));
	return lsm_tree_get(tree, key, &probe, &v->entry_value);
}

/* Look the row up in the index. */
static void
look_up_row(LsmIndexCheck *v, TupleTableSlot *slot)
{
	ScanKeyData keys[INDEX_MAX_KEYS];
	uint64		blocks = blocks_read();
	uint32		hash;
	bool		any_null;
	bool		unique;
	bool		own_entry;
	bool		found = false;
	int			nrows = 0;
	int			nentries = 0;
	bool		more = true;

	any_null = make_scan_keys(v, slot, keys);
	unique = v->info->ii_Unique && v->index->rd_index->indimmediate &&
		(!any_null || v->info->ii_NullsNotDistinct);
	own_entry = !unique && lsm_relation_is_table(v->table);
	hash = hash_keys(v, keys);
	if (v->long_keys[hash % LONG_KEYS] == hash)
		return;
	index_rescan(v->scan, keys, v->info->ii_NumIndexKeyAttrs, NULL, 0);
	while ((unique || !found) && nrows < KEY_SCAN_ROWS && nentries < KEY_SCAN_ENTRIES)
	{
		CHECK_FOR_INTERRUPTS();
		more = index_getnext_tid(v->scan, ForwardScanDirection) != NULL;
		if (!more)
			break;
		nentries++;
		if (!index_fetch_heap(v->scan, v->index_slot))
			continue;
		nrows++;
		if (own_entry)
			break;
		if (lsm_same_row(&v->index_slot->tts_tid, &slot->tts_tid))
			found = true;
		else if (unique && !v->scan->xs_recheck)
			put_index_problem(v, "rows (%u,%u) and (%u,%u) have the same key in a unique index",
							  TID_ARGS(&slot->tts_tid), TID_ARGS(&v->index_slot->tts_tid));
	}
	if (blocks_read() - blocks > KEY_SCAN_BLOCKS)
		v->long_keys[hash % LONG_KEYS] = hash;
	if (own_entry && more)
		more = has_own_entry(v, slot);
	if (!found && !more)
		put_index_problem(v, "row (%u,%u) is not found by its key", TID_ARGS(&slot->tts_tid));
}

/*
 * Are rows, or arrays of them, that have other bytes the same?  One that was
 * written before its type got a column is a NULL shorter.
 */
static bool
rows_read_the_same(Oid type, Datum a, Datum b)
{
	Oid			element = get_element_type(getBaseType(type));
	Oid			output;
	bool		is_varlena;

	if (!type_is_rowtype(OidIsValid(element) ? element : type))
		return false;
	getTypeOutputInfo(type, &output, &is_varlena);
	return strcmp(OidOutputFunctionCall(output, a), OidOutputFunctionCall(output, b)) == 0;
}

/* What an index-only scan returns of the row must be what the row has. */
static void
compare_values(LsmIndexCheck *v, TupleTableSlot *slot)
{
	TupleDesc	desc = v->scan->xs_hitupdesc;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	ExprContext *econtext = GetPerTupleExprContext(v->estate);
	MemoryContext old;

	if (v->scan->xs_hitup == NULL)
		return;
	econtext->ecxt_scantuple = slot;
	FormIndexDatum(v->info, slot, v->estate, values, isnull);
	old = MemoryContextSwitchTo(GetPerTupleMemoryContext(v->estate));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		bool		null;
		Datum		value;

		if (!index_can_return(v->index, i + 1))
			continue;
		value = heap_getattr(v->scan->xs_hitup, i + 1, desc, &null);
		if (null == isnull[i] &&
			(null || datum_image_eq(value, values[i], att->attbyval, att->attlen) ||
			 rows_read_the_same(att->atttypid, value, values[i])))
			continue;

		put_index_problem(v, "column %d of row (%u,%u) is not what an index-only scan returns",
						  i + 1, TID_ARGS(&slot->tts_tid));
	}
	MemoryContextSwitchTo(old);
	ResetPerTupleExprContext(v->estate);
}

/*
 * Note the rows that a complete scan of the index returns.  Of an lsm table it
 * is an index-only scan, as the executor does it: a bit too many in the
 * visibility map would show rows that are not there.  (Entries of heap tables
 * name the first row of a HOT chain.)
 */
static void
scan_complete_index(LsmIndexCheck *v)
{
	Buffer		vm_buffer = InvalidBuffer;
	ItemPointer tid;

	v->scan->xs_want_itup = true;
	index_rescan(v->scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(v->scan, ForwardScanDirection)) != NULL)
	{
		ItemPointerData its = *tid;
		bool		trusted = lsm_relation_is_table(v->table) &&
			VM_ALL_VISIBLE(v->table, ItemPointerGetBlockNumber(tid), &vm_buffer);
		bool		found;

		CHECK_FOR_INTERRUPTS();
		lsm_verify_progress_entry(&v->notes->progress);
		found = index_fetch_heap(v->scan, v->index_slot);
		if (trusted)
			tuplesort_putdatum(v->index_tids, Int64GetDatum(pack_row_tid(&its)), false);
		else if (found)
			tuplesort_putdatum(v->index_tids, Int64GetDatum(pack_row_tid(&v->index_slot->tts_tid)), false);
		if (found)
			compare_values(v, v->index_slot);
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
compare_tids(LsmIndexCheck *v)
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
			put_index_problem(v, "a complete index scan returns row (%u,%u) more than once",
							  PACKED_TID_ARGS(i));
			more_i = next_tid(v->index_tids, &i);
		}
		else if (!more_i || (more_t && t < i))
		{
			put_index_problem(v, "a complete index scan does not return row (%u,%u)",
							  PACKED_TID_ARGS(t));
			more_t = next_tid(v->table_tids, &t);
		}
		else if (!more_t || i < t)
		{
			put_index_problem(v, "a complete index scan returns row (%u,%u), which should not be in the index",
							  PACKED_TID_ARGS(i));
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
check_entries(LsmIndexCheck *v)
{
	LsmCursor  *cursor = lsm_cursor_open(lsm_relation_tree(v->index));
	LsmOrderCheck *order = lsm_order_check_begin(lsm_key_spec(v->index));
	bool		in_order = true;
	LsmSlice	key;
	LsmSlice	value;
	uint64		highest = 0;

	v->stage = LSM_VERIFY_ENTRIES;
	lsm_verify_progress_index(&v->notes->progress, RelationGetRelid(v->index),
							  LSM_PHASE_COMPARING_ENTRIES);
	lsm_cursor_seek(cursor, lsm_slice(NULL, 0), false, ForwardScanDirection);
	while (lsm_cursor_step(cursor, ForwardScanDirection, &key, &value))
	{
		uint32		block;
		uint16		offset;

		CHECK_FOR_INTERRUPTS();
		lsm_verify_progress_entry(&v->notes->progress);
		if (key.len < LSM_TID_BYTES)
		{
			put_index_problem(v, "key of %u bytes has no row identifier", key.len);
			continue;
		}
		lsm_tid_read(key.data + key.len - LSM_TID_BYTES, &block, &offset);
		if (offset < 1 || offset > LSM_TID_OFFSETS)
			put_index_problem(v, "entry points to row (%u,%u), which cannot exist",
							  block, offset);
		else
			highest = Max(highest, (uint64) block * LSM_TID_OFFSETS + offset);
		if (order != NULL && in_order)
			in_order = lsm_order_check_next(order, lsm_key_columns(key));
	}
	lsm_cursor_close(cursor);
	if (!in_order)
		put_index_problem(v, "the order of entries is not that of the collation");

	if (highest > table_row_limit(v->table))
		put_index_problem(v, "entry points to row (%u,%u), which was never given out",
						  (BlockNumber) ((highest - 1) / LSM_TID_OFFSETS),
						  (unsigned) ((highest - 1) % LSM_TID_OFFSETS + 1));
}

/*
 * See verify.h.  An index whose heap-only chains are broken for old snapshots
 * cannot be compared under the present one (see indcheckxmin in pg_index); nor
 * one that is not ready.
 */
bool
lsm_index_is_comparable(Relation index, Snapshot snapshot)
{
	if (!index->rd_index->indisvalid || !index->rd_index->indisready)
		return false;
	return !index->rd_index->indcheckxmin ||
		TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data),
							  snapshot->xmin);
}

/* See verify.h. */
bool
lsm_index_check_definition(LsmVerifyNotes *notes, int relation, Relation index)
{
	const char *name = RelationGetRelationName(index);

	if (lsm_index_making_changed(index))
	{
		lsm_verify_note(notes, relation, LSM_VERIFY_DEFINITION, name,
						"the index was built with another version of a collation, or other support functions");
		return false;
	}
	if (!lsm_columns_have_codes(index))
	{
		lsm_verify_note(notes, relation, LSM_VERIFY_DEFINITION, name,
						"types of its columns have changed since the index was built");
		return false;
	}
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		if (OidIsValid(equality_operator(index, i)))
			continue;
		lsm_verify_note(notes, relation, LSM_VERIFY_DEFINITION, name,
						psprintf("operator family %u has no equality operator for type %u",
								 index->rd_opfamily[i], index->rd_opcintype[i]));
		return false;
	}
	return true;
}

static void
begin_check(LsmIndexCheck *v)
{
	PushActiveSnapshot(v->snapshot);	/* index expressions may need it */
	v->info = BuildIndexInfo(v->index);
	v->info->ii_Expressions = lsm_owner_expressions(v->index);
	v->info->ii_Predicate = lsm_owner_predicate(v->index);
	v->estate = CreateExecutorState();
	v->predicate = v->info->ii_Predicate == NIL ? NULL :
		ExecPrepareQual(v->info->ii_Predicate, v->estate);
	v->index_slot = table_slot_create(v->table, NULL);
	initStringInfo(&v->entry);
	initStringInfo(&v->entry_value);
	for (int i = 0; i < v->info->ii_NumIndexKeyAttrs; i++)
		fmgr_info(get_opcode(equality_operator(v->index, i)), &v->equal[i]);
	v->problem_cxt = AllocSetContextCreate(CurrentMemoryContext, "lsm verify problem",
										   ALLOCSET_SMALL_SIZES);
	v->table_tids = begin_tid_sort();
	v->index_tids = begin_tid_sort();
}

static void
end_check(LsmIndexCheck *v)
{
	tuplesort_end(v->table_tids);
	tuplesort_end(v->index_tids);
	MemoryContextDelete(v->problem_cxt);
	ExecDropSingleTupleTableSlot(v->index_slot);
	FreeExecutorState(v->estate);
	PopActiveSnapshot();
}

/* Each row of the table, from its beginning on: the first problems are those that are listed. */
static void
check_rows(LsmIndexCheck *v)
{
	TupleTableSlot *slot = table_slot_create(v->table, NULL);
	TableScanDesc scan = table_beginscan_strat(v->table, v->snapshot, 0, NULL, true, false);

	v->stage = LSM_VERIFY_ROWS;
	lsm_verify_progress_index(&v->notes->progress, RelationGetRelid(v->index),
							  LSM_PHASE_COMPARING_ROWS);
	v->scan = index_beginscan(v->table, v->index, v->snapshot, NULL,
							  v->info->ii_NumIndexKeyAttrs, 0, SO_NONE);
	lsm_index_doubt_unique(v->scan);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		lsm_verify_progress_entry(&v->notes->progress);
		if (row_is_indexed(v, slot))
		{
			tuplesort_putdatum(v->table_tids, Int64GetDatum(pack_row_tid(&slot->tts_tid)), false);
			look_up_row(v, slot);
		}
		ResetPerTupleExprContext(v->estate);
	}
	table_endscan(scan);
	index_endscan(v->scan);
	ExecDropSingleTupleTableSlot(slot);
}

/* REQUIRES: check_rows() has noted the table's rows. */
static void
check_scan(LsmIndexCheck *v)
{
	v->stage = LSM_VERIFY_SCAN;
	lsm_verify_progress_index(&v->notes->progress, RelationGetRelid(v->index),
							  LSM_PHASE_COMPARING_SCAN);
	v->scan = index_beginscan(v->table, v->index, v->snapshot, NULL, 0, 0, SO_NONE);
	scan_complete_index(v);
	index_endscan(v->scan);
	compare_tids(v);
}

/* See verify.h. */
void
lsm_verify_index(LsmVerify *verify, int relation)
{
	LsmIndexCheck *v = palloc0(sizeof(LsmIndexCheck));

	v->notes = &verify->notes;
	v->relation = relation;
	v->table = verify->table;
	v->index = list_nth(verify->relations, relation);
	v->snapshot = verify->snapshot;
	begin_check(v);
	check_rows(v);
	check_scan(v);
	check_entries(v);
	end_check(v);
	pfree(v);
}
