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

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/memtable/memtable.h"
#include "tree/read/filecache.h"
#include "tree/read/merge.h"
#include "tree/read/version.h"

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

static pg_noinline void
report_malformed(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a value in an lsm tree is a malformed chain of versions")));
}

/* The last element of the result, a PARTIAL */
static LsmSlice
last_element(const LsmFold *fold)
{
	const char *p = fold->value->data + fold->last;
	const char *end = fold->value->data + fold->value->len;
	uint64		bytes;

	if (fold->tag == LSM_TAG_CHAIN)
		p = lsm_varint_get(p, end, &bytes);
	Assert((uint8) *p == LSM_TAG_PARTIAL);
	return lsm_slice(p, (uint32) (end - p));
}

/*
 * Restore, oldest first, what differs from an element that is older and whole.
 * Returns how many there are that cannot be restored.  What is restored lies in
 * palloc'd memory.
 */
static int
restore_elements(const LsmKindOps *ops, LsmSlice *elements, int n, bool ordered)
{
	int			nleft = 0;

	for (int i = n - 1; i >= 0; i--)
	{
		LsmRestored result = LSM_RESTORE_OTHER;
		StringInfoData whole;

		if (lsm_value_tag(elements[i]) != LSM_TAG_DELTA)
			continue;
		initStringInfo(&whole);
		for (int j = ordered ? i + 1 : 0; j < n && result != LSM_RESTORED; j++)
		{
			if (j != i && lsm_value_tag(elements[j]) != LSM_TAG_PARTIAL &&
				lsm_value_tag(elements[j]) != LSM_TAG_DELETE)
				result = ops->restore(elements[i], elements[j], &whole);
			if (result == LSM_RESTORE_NOT && ordered)
				break;
		}
		if (result == LSM_RESTORED)
			elements[i] = lsm_slice(whole.data, whole.len);
		else
			nleft++;
	}
	return nleft;
}

/*
 * A whole element has come below DELTAs.  When all are restored, it is asked of all
 * versions whether they are enough: they have not been asked for so far.
 */
static pg_noinline void
fold_restore(LsmFold *fold)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm fold",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	char	   *copy = palloc(fold->value->len);
	LsmSlice   *elements;
	int			n;

	memcpy(copy, fold->value->data, fold->value->len);
	n = lsm_chain_elements(lsm_slice(copy, fold->value->len), &elements);
	fold->ndeltas = restore_elements(fold->ops, elements, n, true);
	resetStringInfo(fold->value);
	for (int i = 0; i < n; i++)
	{
		lsm_chain_append(fold->value, elements[i]);
		if (fold->ndeltas == 0 && !fold->complete && fold->enough != NULL &&
			lsm_value_tag(elements[i]) == LSM_TAG_VERSION)
			fold->complete = fold->enough->is(fold->enough->arg, elements[i]);
	}
	fold->last = fold->value->len - (int) elements[n - 1].len -
		lsm_varint_bytes(elements[n - 1].len);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* REQUIRES: the result is not complete. */
static void
fold_element(LsmFold *fold, LsmSlice element)
{
	fold->nelements++;
	if (fold->tag != 0 && fold->last_tag == LSM_TAG_PARTIAL)
	{
		if (lsm_value_tag(element) != LSM_TAG_DELETE)
		{
			StringInfo	merged = fold_scratch();

			fold->ops->merge(last_element(fold), element, merged);
			element = lsm_slice(merged->data, merged->len);
		}
		fold->value->len = fold->last;
	}
	fold->last_tag = lsm_value_tag(element);
	lsm_chain_append(fold->value, element);
	fold->tag = (uint8) fold->value->data[0];
	fold->last = fold->tag != LSM_TAG_CHAIN ? 0 :
		fold->value->len - (int) element.len - lsm_varint_bytes(element.len);
	if (unlikely(fold->last_tag == LSM_TAG_DELTA))
		fold->ndeltas++;
	else if (fold->last_tag != LSM_TAG_VERSION)
		fold->complete = fold->last_tag != LSM_TAG_PARTIAL;
	else if (likely(fold->ndeltas == 0))
		fold->complete = fold->enough != NULL && fold->enough->is(fold->enough->arg, element);
	if (unlikely(fold->ndeltas > 0) &&
		(fold->last_tag == LSM_TAG_VERSION || fold->last_tag == LSM_TAG_PUT))
		fold_restore(fold);
}

/*
 * Values in no order: they are strung together as they come, whatever they are,
 * and settled when all are there.
 */
static void
fold_disordered(LsmFold *fold, LsmSlice value)
{
	char		frame[LSM_VARINT32_BYTES];
	LsmChain	chain;
	LsmSlice	element;

	if (fold->tag == 0)
	{
		resetStringInfo(fold->value);
		appendStringInfoChar(fold->value, LSM_TAG_CHAIN);
		fold->tag = LSM_TAG_CHAIN;
	}
	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
	{
		char	   *end = lsm_varint_put(frame, element.len);

		fold->nelements++;
		lsm_buffer_append(fold->value, frame, (uint32) (end - frame));
		lsm_buffer_append(fold->value, element.data, element.len);
	}
	if (chain.at == NULL)
		report_malformed();
}

/* What is left of the values.  A DELTA whose base is missing is lost with it. */
static void
settle_disordered(LsmFold *fold)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm fold",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	LsmSlice   *elements = palloc(fold->nelements * sizeof(LsmSlice));
	char	   *p = palloc(fold->value->len);
	char	   *end = p + fold->value->len;
	int			n = 0;
	int			left;
	int			before;

	memcpy(p, fold->value->data, fold->value->len);
	for (p++; p < end; p += elements[n++].len)
	{
		uint64		bytes = 0;

		p = unconstify(char *, lsm_varint_get(p, end, &bytes));
		elements[n] = lsm_slice(p, (uint32) bytes);
	}
	left = n;
	do
	{
		before = left;
		left = restore_elements(fold->ops, elements, n, false);
	} while (left > 0 && left < before);

	resetStringInfo(fold->value);
	for (int i = 0; i < n; i++)
	{
		StringInfo	settled = fold_scratch();

		if (lsm_value_tag(elements[i]) == LSM_TAG_DELTA)
			continue;
		if (fold->value->len > 0)
		{
			fold->ops->settle(lsm_slice(fold->value->data, fold->value->len), elements[i], settled);
			elements[i] = lsm_slice(settled->data, settled->len);
		}
		resetStringInfo(fold->value);
		lsm_buffer_append(fold->value, elements[i].data, elements[i].len);
	}
	fold->tag = lsm_value_tag(lsm_slice(fold->value->data, fold->value->len));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

bool
lsm_fold_add_value(LsmFold *fold, LsmSlice older)
{
	int			tag = lsm_value_tag(older);
	LsmChain	chain;
	LsmSlice	element;
	int			n = 0;

	if (tag != LSM_TAG_CHAIN && !lsm_tag_is_element(tag))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("unexpected tag %d of a value in an lsm tree", tag)));
	if (unlikely(fold->disordered))
	{
		fold_disordered(fold, older);
		return false;
	}
	if (fold->tag == 0)
		resetStringInfo(fold->value);
	lsm_chain_begin(&chain, older);
	while (!fold->complete && lsm_chain_next(&chain, &element))
	{
		fold_element(fold, element);
		n++;
	}
	if (chain.at == NULL || (tag == LSM_TAG_CHAIN && n < 2 && !fold->complete))
		report_malformed();
	return fold->complete;
}

bool
lsm_fold_end_versions(LsmFold *fold)
{
	if (unlikely(fold->disordered))
		settle_disordered(fold);
	if (fold->tag == LSM_TAG_CHAIN)
	{
		StringInfo	value = fold->value;
		LsmSlice	rows = lsm_chain_rows(lsm_slice(value->data, value->len));

		memmove(value->data, rows.data, rows.len);
		value->len = (int) rows.len;
		value->data[rows.len] = '\0';
		fold->tag = (uint8) value->data[0];
	}
	return lsm_tag_is_row(fold->tag);
}

bool
lsm_fold_add_memvalue(LsmFold *fold, LsmMemValue *value)
{
	do
	{
		if (lsm_fold_add(fold, lsm_slice(value->data, value->len)))
			return true;
	} while ((value = lsm_memvalue_older(value)) != NULL);
	return false;
}

/* ======================================================================
 * Merge
 * ====================================================================== */

int
lsm_merge_ties(const LsmMergeEntry *entries, size_t stride, int n, uint64 word, bool forward,
			   int *ties, bool *differ)
{
	const LsmMergeEntry *first = NULL;
	int			nties = 0;

	*differ = false;
	for (int i = 0; i < n; i++)
	{
		const LsmMergeEntry *entry = (const LsmMergeEntry *) ((const char *) entries + i * stride);
		int			c = -1;

		if (entry->word != word || !entry->valid)
			continue;
		if (first != NULL)
		{
			c = lsm_slice_compare(entry->key, first->key);
			c = forward ? c : -c;
			*differ |= c != 0;
		}
		if (c < 0)
		{
			first = entry;
			nties = 0;
		}
		if (c <= 0)
			ties[nties++] = i;
	}
	return nties;
}

typedef struct MergeInput
{
	LsmMergeEntry entry;
	LsmSequence sequence;
	int			at;				/* file being read; nfiles: end */
	LsmSstReader *reader;
	LsmSstIter *iter;
	LsmSstView	view;			/* of the entry; key NULL: end */
} MergeInput;

/* Words are behind what all keys have in common. */
struct LsmMerge
{
	LsmTree    *tree;
	MemoryContextCallback callback;
	uint32		common_bytes;	/* all keys begin with the same */
	int			ninputs;
	MergeInput *inputs;			/* newest first */
	int			nties;			/* whose entries were returned, newest first */
	int		   *ties;
	uint64		entries;		/* left behind */
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

/* Take the first entry of the input's next file that has one. */
static void
input_open_file(LsmMerge *merge, MergeInput *input)
{
	LsmSstError err;

	while (input->view.key == NULL && input->at < input->sequence.nfiles)
	{
		if (input->iter != NULL)
		{
			input_close(input);
			if (++input->at >= input->sequence.nfiles)
				return;
		}
		input->reader = lsm_file_open_sorted(merge->tree,
											 input->sequence.files[input->at]);
		if (lsm_sst_iter_open(input->reader, &input->iter, &err) != LSM_SST_OK)
		{
			input->iter = NULL;
			lsm_sst_report(ERROR, &err);
		}
		lsm_sst_check(lsm_sst_iter_first(input->iter, &err), &err);
		if (lsm_sst_iter_valid(input->iter))
		{
			input->view.key = lsm_sst_iter_key(input->iter, &input->view.key_bytes);
			input->view.value = lsm_sst_iter_value(input->iter, &input->view.value_bytes);
		}
	}
}

/* The input's entry is another. */
static inline void
merge_note_word(LsmMerge *merge, int i)
{
	MergeInput *input = &merge->inputs[i];

	if (unlikely(input->view.key == NULL))
		input_open_file(merge, input);
	input->entry.word = PG_UINT64_MAX;
	input->entry.valid = input->view.key != NULL;
	if (!input->entry.valid)
		return;
	input->entry.key = lsm_slice(input->view.key, (uint32) input->view.key_bytes);
	if (unlikely(input->entry.key.len < merge->common_bytes))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a sorted file of an lsm tree holds a key that is not in its range"),
				 errhint("Run lsm_verify().")));
	input->entry.word = lsm_word(input->entry.key.data + merge->common_bytes,
								 input->entry.key.len - merge->common_bytes, 0);
}

/* What all keys of the files begin with, as far as their fences tell. */
static uint32
find_common_bytes(const LsmSequence *sequences, int nsequences)
{
	LsmSlice	smallest = {0};
	LsmSlice	largest = {0};
	uint32		common = 0;

	for (int i = 0; i < nsequences; i++)
	{
		for (int j = 0; j < sequences[i].nfiles; j++)
		{
			const LsmFile *file = sequences[i].files[j];

			if (smallest.data == NULL || lsm_slice_compare(file->smallest, smallest) < 0)
				smallest = file->smallest;
			if (largest.data == NULL || lsm_slice_compare(file->largest, largest) > 0)
				largest = file->largest;
		}
	}
	while (common < smallest.len && common < largest.len &&
		   smallest.data[common] == largest.data[common])
		common++;
	return common;
}

LsmMerge *
lsm_merge_open(LsmTree *tree, const LsmSequence *sequences, int nsequences)
{
	LsmMerge   *merge = palloc0(sizeof(LsmMerge));

	merge->tree = tree;
	merge->common_bytes = find_common_bytes(sequences, nsequences);
	merge->inputs = palloc0(Max(nsequences, 1) * sizeof(MergeInput));
	merge->ties = palloc(Max(nsequences, 1) * sizeof(int));
	initStringInfo(&merge->value);
	merge->callback.func = merge_release;
	merge->callback.arg = merge;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &merge->callback);

	for (int i = 0; i < nsequences; i++)
	{
		merge->inputs[i].sequence = sequences[i];
		merge->ninputs++;
		merge_note_word(merge, i);
	}
	return merge;
}

/* Step the inputs whose entries were returned. */
static inline void
merge_advance(LsmMerge *merge)
{
	LsmSstError err;

	for (int i = 0; i < merge->nties; i++)
	{
		MergeInput *input = &merge->inputs[merge->ties[i]];

		merge->entries++;
		if (unlikely(lsm_sst_iter_step(input->iter, &input->view, &err) != LSM_SST_OK))
			lsm_sst_report(ERROR, &err);
		merge_note_word(merge, merge->ties[i]);
	}
}

/* Entries of the same key, newest first. */
static LsmSlice
merge_fold(LsmMerge *merge)
{
	LsmFold		fold;

	lsm_fold_begin(&fold, merge->tree->ops, &merge->value);
	for (int i = 0; i < merge->nties && !lsm_fold_complete(&fold); i++)
	{
		const LsmSstView *view = &merge->inputs[merge->ties[i]].view;

		(void) lsm_fold_add(&fold, lsm_slice(view->value, (uint32) view->value_bytes));
	}
	return lsm_slice(merge->value.data, merge->value.len);
}

uint64
lsm_merge_entries(const LsmMerge *merge)
{
	return merge->entries;
}

bool
lsm_merge_next(LsmMerge *merge, LsmSlice *key, LsmSlice *value)
{
	const MergeInput *input;
	uint64		word;
	uint64		next_word;
	bool		differ;
	int			tag;

	merge_advance(merge);
	merge->ties[0] = lsm_merge_least(&merge->inputs->entry, sizeof(MergeInput), merge->ninputs,
									 &word, &next_word);
	merge->nties = 1;
	if (unlikely(next_word == word))
	{
		merge->nties = lsm_merge_ties(&merge->inputs->entry, sizeof(MergeInput), merge->ninputs,
									  word, true, merge->ties, &differ);
		if (merge->nties == 0)
			return false;
	}

	input = &merge->inputs[merge->ties[0]];
	*key = input->entry.key;
	*value = lsm_slice(input->view.value, (uint32) input->view.value_bytes);
	tag = value->len > 0 ? (uint8) value->data[0] : 0;
	if (unlikely(tag != LSM_TAG_PUT && tag != LSM_TAG_DELETE))
		*value = merge_fold(merge);
	return true;
}
