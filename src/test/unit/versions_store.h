/*-------------------------------------------------------------------------
 *
 * versions_store.h
 *	  The values of one row, as a tree has them, for versions_test.c: those in a
 *	  memtable, one after the other, and one in each file.  Flushes and compactions
 *	  are as output_job.c has them.
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

static StoredValue files[MAX_VALUES];	/* newest first; data NULL: no entry */
static int	nfiles;

/* what has been replaced: files that nobody has removed yet */
static StoredValue stale[MAX_VALUES];
static int	nstale;

static inline LsmSlice
stored_slice(const StoredValue *stored)
{
	return lsm_slice(stored->data, stored->len);
}

static void
store_clear(void)
{
	while (nmemory > 0)
		free(memory[--nmemory].data);
	while (nfiles > 0)
		free(files[--nfiles].data);
	while (nstale > 0)
		free(stale[--nstale].data);
}

static void
set_aside(StoredValue stored)
{
	if (stored.data == NULL)
		return;
	if (nstale < MAX_VALUES)
		stale[nstale++] = stored;
	else
		free(stored.data);
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

/*
 * What a lookup returns, in memory that the next call uses again; false: there is
 * no row.
 */
static bool
store_read(const LsmEnough *enough, LsmSlice *value)
{
	static StringInfo folded = NULL;
	LsmFold		fold;

	if (folded == NULL)
		folded = makeStringInfo();
	lsm_fold_begin(&fold, &lsm_table_kind_ops, folded);
	fold.enough = enough;
	for (int i = nmemory - 1; i >= 0 && !lsm_fold_complete(&fold); i--)
		(void) lsm_fold_add(&fold, stored_slice(&memory[i]));
	for (int i = 0; i < nfiles && !lsm_fold_complete(&fold); i++)
	{
		if (files[i].data != NULL)
			(void) lsm_fold_add(&fold, stored_slice(&files[i]));
	}
	if (fold.tag == 0 || !lsm_fold_end(&fold))
		return false;
	*value = lsm_slice(folded->data, folded->len);
	return true;
}

/* ---- jobs ---- */

static LsmFateContext job;
static int	fates[LSM_FATE_DROP + 1];
static int	rows_gone;

static void
begin_job(TransactionId oldest_xid, TransactionId freeze_limit)
{
	memset(&job, 0, sizeof(job));
	job.database = 1;
	job.oldest_xid = oldest_xid;
	job.freeze_limit = freeze_limit;
}

static bool
job_closes(void *arg, LsmSlice element)
{
	return lsm_table_kind_ops.closes(arg, element);
}

/* What is written of a value, by a job with nothing older below: if `bottom` */
static StoredValue
job_entry(LsmSlice value, bool bottom)
{
	char		key[LSM_TID_BYTES];
	StringInfoData rewritten;
	StoredValue written = {NULL, 0};
	LsmFate		fate;

	job.bottom = bottom;
	job.dying = job.gone = false;
	if (bottom)
		value = lsm_chain_rows(value);
	if (value.len == 0)
		return written;
	lsm_key_encode(ROW, key);
	initStringInfo(&rewritten);
	fate = lsm_table_kind_ops.fate(&job, lsm_slice(key, sizeof(key)), value, &rewritten);
	fates[fate]++;
	rows_gone += job.gone;
	if (fate == LSM_FATE_KEEP)
		written = stored_copy(value);
	else if (fate == LSM_FATE_REWRITE)
		written = stored_copy(lsm_slice(rewritten.data, rewritten.len));
	pfree(rewritten.data);
	Assert(!bottom || written.data == NULL || !lsm_value_open(stored_slice(&written)));
	return written;
}

static void
store_flush(void)
{
	LsmEnough	enough = {job_closes, &job};
	StringInfo	folded = makeStringInfo();
	StoredValue written = {NULL, 0};
	bool		bottom = true;
	LsmFold		fold;

	for (int i = 0; i < nfiles; i++)
		bottom &= files[i].data == NULL;
	lsm_fold_begin(&fold, &lsm_table_kind_ops, folded);
	fold.enough = &enough;
	for (int i = nmemory - 1; i >= 0 && !lsm_fold_complete(&fold); i--)
		(void) lsm_fold_add(&fold, stored_slice(&memory[i]));
	if (fold.tag != 0)
		written = job_entry(lsm_slice(folded->data, folded->len), bottom);
	pfree(folded->data);
	pfree(folded);
	while (nmemory > 0)
		set_aside(memory[--nmemory]);
	Assert(nfiles < MAX_VALUES);
	memmove(files + 1, files, nfiles * sizeof(StoredValue));
	files[0] = written;
	nfiles++;
}

/* Files first .. last become one. */
static void
store_compact(int first, int last)
{
	LsmEnough	enough = {job_closes, &job};
	StringInfo	folded = makeStringInfo();
	StoredValue written = {NULL, 0};
	bool		bottom = true;
	LsmFold		fold;

	for (int i = last + 1; i < nfiles; i++)
		bottom &= files[i].data == NULL;
	lsm_fold_begin(&fold, &lsm_table_kind_ops, folded);
	fold.enough = job.flush ? &enough : NULL;
	for (int i = first; i <= last && !lsm_fold_complete(&fold); i++)
	{
		if (files[i].data != NULL)
			(void) lsm_fold_add(&fold, stored_slice(&files[i]));
	}
	if (fold.tag != 0)
		written = job_entry(lsm_slice(folded->data, folded->len), bottom);
	pfree(folded->data);
	pfree(folded);
	for (int i = first; i <= last; i++)
		set_aside(files[i]);
	files[first] = written;
	memmove(files + first + 1, files + last + 1, (nfiles - last - 1) * sizeof(StoredValue));
	nfiles -= last - first;
}

/* ---- salvage ---- */

/*
 * What is left of the row if nobody knows the order of what there is, and files that
 * were replaced are there, too.  pick(n): random, below n
 */
static bool
store_salvage(uint32 (*pick) (uint32 n), LsmSlice *value)
{
	static StringInfo folded = NULL;
	const StoredValue *all[3 * MAX_VALUES];
	int			n = 0;
	LsmFold		fold;

	for (int i = 0; i < nmemory; i++)
		all[n++] = &memory[i];
	for (int i = 0; i < nfiles; i++)
		all[n++] = &files[i];
	for (int i = 0; i < nstale; i++)
	{
		if (pick(2) == 0)
			all[n++] = &stale[i];
	}
	if (folded == NULL)
		folded = makeStringInfo();
	lsm_fold_begin(&fold, &lsm_table_kind_ops, folded);
	fold.disordered = true;
	while (n > 0)
	{
		uint32		i = pick(n);

		if (all[i]->data != NULL)
			(void) lsm_fold_add(&fold, stored_slice(all[i]));
		all[i] = all[--n];
	}
	if (fold.tag == 0 || !lsm_fold_end(&fold))
		return false;
	*value = lsm_slice(folded->data, folded->len);
	return true;
}

#endif							/* VERSIONS_STORE_H */
