/*-------------------------------------------------------------------------
 *
 * merge.c
 *	  Folding the values of one key, and the k-way merge of whole files.
 *
 * No locks.  The merge opens files without the file cache (a compaction would
 * push out what lookups need) and reads each once from front to end.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "tree/filecache.h"
#include "tree/merge.h"

/* ======================================================================
 * Fold
 * ====================================================================== */

/* Output of ops->merge; kept, since merging is never nested. */
static StringInfo
fold_scratch(void)
{
	static StringInfo scratch = NULL;

	if (scratch == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		scratch = makeStringInfo();
		MemoryContextSwitchTo(old);
	}
	resetStringInfo(scratch);
	return scratch;
}

static void
replace_value(LsmFold *fold, const char *data, int len)
{
	resetStringInfo(fold->value);
	appendBinaryStringInfo(fold->value, data, len);
}

bool
lsm_fold_add(LsmFold *fold, LsmSlice older)
{
	int			tag = older.len > 0 ? (uint8) older.data[0] : 0;

	Assert(!lsm_fold_complete(fold));
	if (tag != LSM_TAG_PUT && tag != LSM_TAG_DELETE && tag != LSM_TAG_PARTIAL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("unexpected tag %d of a value in an lsm tree", tag)));

	if (fold->tag == 0 || tag == LSM_TAG_DELETE)
	{
		replace_value(fold, older.data, older.len);
		fold->tag = tag;
	}
	else
	{
		StringInfo	merged = fold_scratch();

		fold->ops->merge(lsm_slice(fold->value->data, fold->value->len), older,
						 merged);
		replace_value(fold, merged->data, merged->len);
		fold->tag = tag;
		Assert(merged->len > 0 && (uint8) merged->data[0] == tag);
	}
	return lsm_fold_complete(fold);
}

bool
lsm_fold_add_memvalue(LsmFold *fold, LsmMemValue *value)
{
	LsmMemValue *base;

	if (lsm_fold_add(fold, lsm_slice(value->data, value->len)))
		return true;
	base = *(LsmMemValue *volatile *) &value->base;
	if (base == NULL)
		return false;
	pg_read_barrier();
	return lsm_fold_add(fold, lsm_slice(base->data, base->len));
}

/* ======================================================================
 * Merge
 * ====================================================================== */

typedef struct MergeInput
{
	LsmSequence sequence;
	int			at;				/* file being read; nfiles: end */
	LsmSstReader *reader;
	LsmSstIter *iter;
	bool		consumed;		/* its entry was returned */
	LsmSlice	key;
	uint64		word;
} MergeInput;

struct LsmMerge
{
	LsmTree    *tree;
	MemoryContextCallback callback;
	int			ninputs;
	MergeInput *inputs;			/* newest first */
	int		   *ties;
	StringInfoData key;
	StringInfoData value;
};

static void
input_close(MergeInput *input)
{
	if (input->iter != NULL)
		lsm_sst_iter_close(input->iter);
	if (input->reader != NULL)
		lsm_sst_close(input->reader);
	input->iter = NULL;
	input->reader = NULL;
}

static void
merge_release(void *arg)
{
	LsmMerge   *merge = arg;

	for (int i = 0; i < merge->ninputs; i++)
		input_close(&merge->inputs[i]);
}

/* Take the iterator's entry, going on to the next file at the end of one. */
static void
input_settle(LsmMerge *merge, MergeInput *input)
{
	LsmSstError err;

	for (;;)
	{
		if (input->iter != NULL && lsm_sst_iter_valid(input->iter))
		{
			size_t		len;

			input->key.data = lsm_sst_iter_key(input->iter, &len);
			input->key.len = (uint32) len;
			input->word = lsm_word(input->key.data, input->key.len, 0);
			return;
		}
		if (input->iter != NULL)
		{
			input_close(input);
			input->at++;
		}
		if (input->at >= input->sequence.nfiles)
			return;
		else
		{
			input->reader = lsm_file_open_sorted(merge->tree,
												 input->sequence.files[input->at]);
			if (lsm_sst_iter_open(input->reader, &input->iter, &err) != LSM_SST_OK)
			{
				input->iter = NULL;
				lsm_sst_report(ERROR, &err);
			}
			lsm_sst_check(lsm_sst_iter_first(input->iter, &err), &err);
		}
	}
}

LsmMerge *
lsm_merge_open(LsmTree *tree, const LsmSequence *sequences, int nsequences)
{
	LsmMerge   *merge = palloc0(sizeof(LsmMerge));

	merge->tree = tree;
	merge->inputs = palloc0(Max(nsequences, 1) * sizeof(MergeInput));
	merge->ties = palloc(Max(nsequences, 1) * sizeof(int));
	initStringInfo(&merge->key);
	initStringInfo(&merge->value);
	merge->callback.func = merge_release;
	merge->callback.arg = merge;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &merge->callback);

	for (int i = 0; i < nsequences; i++)
	{
		merge->inputs[i].sequence = sequences[i];
		merge->ninputs++;
		input_settle(merge, &merge->inputs[i]);
	}
	return merge;
}

static inline int
input_compare(const MergeInput *a, const MergeInput *b)
{
	if (a->word != b->word)
		return a->word < b->word ? -1 : 1;
	return lsm_slice_compare(a->key, b->key);
}

/* Step every input whose entry was returned, past keys equal to it. */
static void
merge_advance(LsmMerge *merge)
{
	LsmSstError err;

	for (int i = 0; i < merge->ninputs; i++)
	{
		MergeInput *input = &merge->inputs[i];

		if (!input->consumed)
			continue;
		input->consumed = false;
		lsm_sst_check(lsm_sst_iter_next(input->iter, &err), &err);
		input_settle(merge, input);
	}
}

bool
lsm_merge_next(LsmMerge *merge, LsmSlice *key, LsmSlice *value)
{
	LsmFold		fold;
	int			nties = 0;

	merge_advance(merge);
	for (int i = 0; i < merge->ninputs; i++)
	{
		MergeInput *input = &merge->inputs[i];
		int			c;

		if (input->at >= input->sequence.nfiles)
			continue;
		c = nties == 0 ? -1 :
			input_compare(input, &merge->inputs[merge->ties[0]]);
		if (c < 0)
			nties = 0;
		if (c <= 0)
			merge->ties[nties++] = i;
	}
	if (nties == 0)
		return false;

	lsm_fold_begin(&fold, merge->tree->ops, &merge->value);
	for (int i = 0; i < nties; i++)
	{
		MergeInput *input = &merge->inputs[merge->ties[i]];
		size_t		len;
		const void *data;

		input->consumed = true;
		if (lsm_fold_complete(&fold))
			continue;
		data = lsm_sst_iter_value(input->iter, &len);
		(void) lsm_fold_add(&fold, lsm_slice(data, (uint32) len));
	}

	resetStringInfo(&merge->key);
	appendBinaryStringInfo(&merge->key, merge->inputs[merge->ties[0]].key.data,
						   merge->inputs[merge->ties[0]].key.len);
	*key = lsm_slice(merge->key.data, merge->key.len);
	*value = lsm_slice(merge->value.data, merge->value.len);
	return true;
}
