/*-------------------------------------------------------------------------
 *
 * insert.c
 *	  aminsert.
 *
 * Entries of non-unique indexes, and those with NULLs in a unique index where
 * NULLs are distinct, are no one else's business: they are written without a
 * key lock.  The others: unique.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/rel.h"

#include "index/index.h"

/* Kept in IndexInfo for the statement */
typedef struct InsertState
{
	Relation	index;
	IndexInfo  *info;
	LsmKeySpec *spec;
	bool		stable_tids;
	LsmGroupInsert *group;
	MemoryContext context;		/* reset after each insertion */
	StringInfoData key;
	StringInfoData value;
} InsertState;

static InsertState *
insert_state(Relation index, Relation table, IndexInfo *info)
{
	InsertState *state = info->ii_AmCache;
	MemoryContext old;

	if (state != NULL)
		return state;
	old = MemoryContextSwitchTo(info->ii_Context);
	state = palloc0(sizeof(InsertState));
	state->index = index;
	state->info = info;
	state->spec = lsm_key_spec(index);
	state->stable_tids = lsm_tids_are_stable(table);
	state->context = AllocSetContextCreate(info->ii_Context, "lsm_index insert",
										   ALLOCSET_SMALL_SIZES);
	lsm_buffer_init(&state->key, 64);
	lsm_buffer_init(&state->value, 32);
	MemoryContextSwitchTo(old);
	info->ii_AmCache = state;
	return state;
}

/*
 * Is this the entry of an update that has left the key of a unique index as it
 * was, bit by bit?  The executor's hint alone will not do, since it knows
 * nothing of triggers.
 */
static const LsmReplaced *
key_is_kept(Relation index, Relation table, ItemPointer tid, IndexInfo *info)
{
	if (index->rd_index->indisunique && index->rd_index->indisvalid &&
		info->ii_Expressions == NIL && info->ii_Predicate == NIL)
		return lsm_notes_get_replaced(table, tid);
	return NULL;
}

/*
 * A lookup of the key by the row directory finds the new row from now on.  What
 * the directory has from before, but for the row that has just been replaced, was
 * replaced itself.  Once such a row is dead to everyone, it and its entry leave the
 * memtables: whoever looks for the key does not come by.
 */
static void
note_moved_row(InsertState *state, LsmTree *tree, Relation table, const LsmReplaced *replaced,
			   ItemPointer tid)
{
	StringInfo	key = &state->key;
	LsmSlice	columns = lsm_key_columns(lsm_slice(key->data, key->len));
	LsmDigest	digest = lsm_digest_key(columns.data, columns.len);
	ItemPointerData rows[LSM_DIRECTORY_ROWS];
	int			n = lsm_row_directory_peek(tree, digest, rows);

	for (int i = 0; i < n; i++)
	{
		TransactionId xid;

		if (lsm_same_row(&rows[i], &replaced->tid) || lsm_same_row(&rows[i], tid) ||
			!lsm_table_prune(table, &rows[i], &xid))
			continue;
		key->len = columns.len;
		lsm_encode_tid(&rows[i], key);
		(void) lsm_tree_prune(tree, lsm_slice(key->data, key->len), xid);
		lsm_row_directory_forget(tree, digest, &rows[i]);
	}
	lsm_row_directory_note(tree, digest, tid);
}

#ifdef USE_ASSERT_CHECKING
/* The old version has an entry of the same key. */
static void
doubt_kept_key(const InsertState *state, LsmTree *tree, const LsmReplaced *kept)
{
	LsmSlice	columns = lsm_key_columns(lsm_slice(state->key.data, state->key.len));
	StringInfoData key;

	lsm_buffer_init(&key, columns.len + LSM_TID_BYTES + 1);
	lsm_buffer_append(&key, columns.data, columns.len);
	lsm_encode_tid(unconstify(ItemPointerData *, &kept->tid), &key);
	lsm_opinion_entry(tree, lsm_slice(key.data, key.len), "lsm_notes_get_replaced()");
	pfree(key.data);
}
#endif

/*
 * An update that keeps the key cannot make a duplicate: the old version holds
 * the key, its entry is in the index, and whoever wants to insert the key
 * finds that and waits for us.  Who has read the index before our entry came,
 * and looks at the old version after we have committed, finds neither: so the
 * change is counted (unique.c).
 */
static inline bool
cannot_conflict(const LsmKeySpec *spec, const bool *isnull, IndexUniqueCheck check, bool kept)
{
	return !spec->unique || (spec->nulls_distinct && lsm_any_null(spec, isnull)) ||
		(check == UNIQUE_CHECK_YES && kept);
}

bool
lsm_index_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
				 Relation table, IndexUniqueCheck check, bool unchanged,
				 IndexInfo *info)
{
	InsertState *state = insert_state(index, table, info);
	LsmKeySpec *spec = state->spec;
	LsmTree    *tree;
	MemoryContext old = MemoryContextSwitchTo(state->context);
	const LsmReplaced *kept = unchanged && state->stable_tids ?
		key_is_kept(index, table, tid, info) : NULL;
	bool		result = true;

	if (state->stable_tids &&
		lsm_group_inserted(&state->group, index, table, spec, tid, check, info))
	{
		MemoryContextSwitchTo(old);
		return true;
	}

	tree = lsm_index_open_tree(index);
	lsm_encode_columns(index, spec, values, isnull, &state->key);
	lsm_encode_tid(tid, &state->key);
	lsm_form_value(spec, values, isnull, &state->value);
	lsm_check_entry_bytes(index, state->key.len, state->value.len);

	if (cannot_conflict(spec, isnull, check, kept != NULL))
	{
		/* a row that cannot conflict with anything needs no second check */
		LsmSlice	key = lsm_slice(state->key.data, state->key.len);
		LsmSlice	value = lsm_slice(state->value.data, state->value.len);

		Assert(check == UNIQUE_CHECK_NO || spec->unique);
		LSM_DOUBT(spec->unique && kept != NULL, doubt_kept_key(state, tree, kept));

		/* of a valid index, no one else inserts the entry of a row just made */
		if (check != UNIQUE_CHECK_EXISTING && kept)
			lsm_write_kept_key(tree, key, value);
		else if (check != UNIQUE_CHECK_EXISTING)
			lsm_write_one(tree, key, value);
	}
	else
	{
		LsmUniqueInsert insert = {
			.index = index,
			.table = table,
			.tree = tree,
			.spec = spec,
			.stable_tids = state->stable_tids,
			.check = check,
			.tid = tid,
			.values = values,
			.isnull = isnull,
			.key = lsm_slice(state->key.data, state->key.len),
			.value = lsm_slice(state->value.data, state->value.len)
		};

		result = lsm_insert_unique(&insert);
	}

	/*
	 * A transaction that has looked for this key and found the old version is
	 * in conflict with the update itself; as with HOT, the new entry adds
	 * nothing.
	 */
	if (check != UNIQUE_CHECK_EXISTING && !kept)
		lsm_predicate_check(index, spec,
							lsm_key_columns(lsm_slice(state->key.data, state->key.len)));

	if (kept && check == UNIQUE_CHECK_YES && !lsm_any_null(spec, isnull))
		note_moved_row(state, tree, table, kept, tid);

	MemoryContextSwitchTo(old);
	MemoryContextReset(state->context);
	return result;
}
