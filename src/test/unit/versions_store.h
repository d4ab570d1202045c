/*-------------------------------------------------------------------------
 *
 * versions_store.h
 *	  The values of one row, as a tree has them, for versions_test.c: those in a
 *	  memtable, one after the other, and one in each file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef VERSIONS_STORE_H
#define VERSIONS_STORE_H

#define MAX_VALUES		1024

typedef struct StoredValue
{
	char	   *data;			/* of the exact length, so that sanitizers see a
								 * step beyond the end */
	uint32		len;
} StoredValue;

static StoredValue memory[MAX_VALUES];	/* oldest first */
static int	nmemory;

static StoredValue
stored_copy(LsmSlice value)
{
	StoredValue copy = {alloc_or_die(value.len), value.len};

	memcpy(copy.data, value.data, value.len);
	return copy;
}

static void
store_clear(void)
{
	while (nmemory > 0)
		free(memory[--nmemory].data);
}

/*
 * An override replaces one that is the newest, or may: memtables do it.
 */
static void
store_write(LsmSlice value, bool replace)
{
	if (replace && nmemory > 0 && lsm_value_tag(value) == LSM_TAG_PARTIAL &&
		memory[nmemory - 1].data[0] == LSM_TAG_PARTIAL)
		free(memory[--nmemory].data);
	Assert(nmemory < MAX_VALUES);
	memory[nmemory++] = stored_copy(value);
}

/* ---- folding ---- */

typedef struct Fold
{
	StringInfo	value;			/* what is complete */
	StringInfo	part;			/* an override behind it, or empty */
	const LsmEnough *enough;
	bool		complete;
} Fold;

static void
fold_append(Fold *fold, LsmSlice element)
{
	int			tag = lsm_value_tag(element);

	lsm_chain_append(fold->value, element);
	if (tag != LSM_TAG_VERSION ||
		(fold->enough != NULL && fold->enough->is(fold->enough->arg, element)))
		fold->complete = true;
}

static void
fold_add(Fold *fold, LsmSlice older)
{
	LsmChain	chain;
	LsmSlice	element;
	StringInfoData merged;

	initStringInfo(&merged);
	lsm_chain_begin(&chain, older);
	while (!fold->complete && lsm_chain_next(&chain, &element))
	{
		int			tag = lsm_value_tag(element);

		if (fold->part->len > 0 && tag != LSM_TAG_DELETE)
		{
			resetStringInfo(&merged);
			lsm_table_kind_ops.merge(lsm_slice(fold->part->data, fold->part->len), element, &merged);
			element = lsm_slice(merged.data, merged.len);
			tag = lsm_value_tag(element);
		}
		resetStringInfo(fold->part);
		if (tag == LSM_TAG_PARTIAL)
			lsm_buffer_append(fold->part, element.data, element.len);
		else
			fold_append(fold, element);
	}
	Assert(chain.at != NULL);
	pfree(merged.data);
}

/*
 * What a lookup returns, in memory that the next call uses again; false: there is
 * no row.
 */
static bool
store_read(const LsmEnough *enough, LsmSlice *value)
{
	static StringInfo folded = NULL;
	static StringInfo part = NULL;
	Fold		fold;

	if (folded == NULL)
	{
		folded = makeStringInfo();
		part = makeStringInfo();
	}
	resetStringInfo(folded);
	resetStringInfo(part);
	fold = (Fold) {folded, part, enough};
	for (int i = nmemory - 1; i >= 0 && !fold.complete; i--)
		fold_add(&fold, lsm_slice(memory[i].data, memory[i].len));
	*value = lsm_chain_rows(lsm_slice(folded->data, folded->len));
	return value->len > 0;
}

#endif							/* VERSIONS_STORE_H */
