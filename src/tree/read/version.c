/*-------------------------------------------------------------------------
 *
 * version.c
 *	  A backend's copy of the list of sorted files: reading it from the
 *	  manifest, keeping it while ctl->files.version_no does not change.
 *	  Finding the file of a run that may hold a key: find.c.
 *
 * No lock: a version is private to the process.  What makes a lookup safe is
 * the order epoch, memtable set, version_no (lsm_version_enter): the publisher
 * changes version_no before a flushed memtable leaves the set, and unlinks a
 * file only after the epochs that may have seen the old version_no have
 * passed.  So a set may have a memtable of which the version has all entries in
 * files.  It is left out: versions of a row would be met twice.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/memtable/memtable.h"
#include "tree/read/filecache.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/* The last one given */
static uint64 version_serial = 0;

/* ======================================================================
 * Making a version
 * ====================================================================== */

/* A cut fence stands for a longer key, which comes after the fence itself. */
static int
compare_fences(LsmSlice a, LsmSlice b, uint16 a_flags, uint16 b_flags, uint16 cut)
{
	int			c = lsm_slice_compare(a, b);

	return c != 0 ? c : ((a_flags & cut) != 0) - ((b_flags & cut) != 0);
}

/*
 * Newest data first: level 0 by generation descending, then by level; within a
 * run by fences.  Files whose fences are all equal (and cut) were written by
 * one job, so their numbers are in key order: compaction takes touching
 * files together.
 */
static int
compare_files(const void *a, const void *b)
{
	const LsmFile *x = a;
	const LsmFile *y = b;
	int			c;

	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	if (x->run != y->run)
		return x->run > y->run ? -1 : 1;
	c = compare_fences(x->smallest, y->smallest, x->flags, y->flags,
					   LSM_FILE_SMALLEST_CUT);
	if (c == 0)
		c = compare_fences(x->largest, y->largest, x->flags, y->flags,
						   LSM_FILE_LARGEST_CUT);
	if (c == 0)
		c = (x->number > y->number) - (x->number < y->number);
	return c;
}

/*
 * `fences` is where its fences go; returns what is behind them.
 */
static char *
copy_file(LsmFile *file, const LsmFileMeta *meta, char *fences)
{
	file->number = meta->number;
	file->run = meta->level == 0 ? meta->run : 0;
	file->entries = meta->entries;
	file->file_bytes = meta->file_bytes;
	file->filter_bytes = meta->filter_bytes;
	file->min_xid = meta->min_xid;
	file->level = meta->level;
	file->filter_scheme = meta->filter_scheme;
	file->flags = meta->flags;
	file->sst_check = meta->sst_check;
	file->filter_check = meta->filter_check;
	file->written_as = meta->written_as;
	memcpy(fences, meta->smallest, meta->smallest_bytes);
	file->smallest = lsm_slice(fences, meta->smallest_bytes);
	fences += meta->smallest_bytes;
	memcpy(fences, meta->largest, meta->largest_bytes);
	file->largest = lsm_slice(fences, meta->largest_bytes);
	file->open = NULL;
	file->open_serial = 0;
	return fences + meta->largest_bytes;
}

/*
 * The files that came, in the order of compare_files(); in one chunk, like
 * their fences.
 */
static LsmFile *
copy_files(const LsmFileMeta *metas, int n)
{
	LsmFile    *files = MemoryContextAllocHuge(CurrentMemoryContext,
											   Max(n, 1) * sizeof(LsmFile));
	Size		bytes = 1;
	char	   *fences;

	for (int i = 0; i < n; i++)
	{
		const LsmFileMeta *meta = &metas[i];

		if (meta->level >= LSM_MAX_LEVELS ||
			meta->smallest_bytes > LSM_FENCE_BYTES ||
			meta->largest_bytes > LSM_FENCE_BYTES)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("invalid entry in the file list of an lsm tree: file number " UINT64_FORMAT,
							meta->number)));
		bytes += meta->smallest_bytes + meta->largest_bytes;
	}
	fences = MemoryContextAllocHuge(CurrentMemoryContext, bytes);
	for (int i = 0; i < n; i++)
		fences = copy_file(&files[i], &metas[i], fences);
	qsort(files, n, sizeof(LsmFile), compare_files);
	return files;
}

void
lsm_file_meta(const LsmFile *file, LsmFileMeta *meta)
{
	memset(meta, 0, sizeof(LsmFileMeta));
	meta->number = file->number;
	meta->run = file->run;
	meta->entries = file->entries;
	meta->file_bytes = file->file_bytes;
	meta->filter_bytes = file->filter_bytes;
	meta->min_xid = file->min_xid;
	meta->level = file->level;
	meta->filter_scheme = file->filter_scheme;
	meta->flags = file->flags;
	meta->sst_check = file->sst_check;
	meta->filter_check = file->filter_check;
	meta->written_as = file->written_as;
	meta->smallest_bytes = file->smallest.len;
	meta->largest_bytes = file->largest.len;
	memcpy(meta->smallest, file->smallest.data, file->smallest.len);
	memcpy(meta->largest, file->largest.data, file->largest.len);
}

/* What a run's pointers point to; shared by versions. */
typedef struct LsmRunBody
{
	MemoryContext cxt;
	int			refcount;
} LsmRunBody;

typedef struct NumberAt
{
	uint64		number;
	uint32		at;
} NumberAt;

/* The run's files by number.  REQUIRES: current context is the body's. */
static void
arrange_numbers(LsmRun *run)
{
	NumberAt   *sorted = MemoryContextAllocHuge(CurrentMemoryContext,
												run->nfiles * sizeof(NumberAt));
	bool		ascending = true;

	for (int i = 0; i < run->nfiles; i++)
	{
		sorted[i].number = run->files[i].number;
		sorted[i].at = i;
		ascending = ascending && (i == 0 || sorted[i - 1].number < sorted[i].number);
	}
	if (!ascending)
		qsort(sorted, run->nfiles, sizeof(NumberAt), lsm_number_compare);
	run->numbers = MemoryContextAllocHuge(CurrentMemoryContext, run->nfiles * sizeof(uint64));
	run->number_at = MemoryContextAllocHuge(CurrentMemoryContext, run->nfiles * sizeof(uint32));
	for (int i = 0; i < run->nfiles; i++)
	{
		run->numbers[i] = sorted[i].number;
		run->number_at[i] = sorted[i].at;
	}
	pfree(sorted);
}

/* units are counted for themselves, filters that are read by pages not at all */
static bool
filter_is_mapped(const LsmFile *file)
{
	return !lsm_filter_scheme_has(file->filter_scheme,
								  LSM_FILTER_EMPTY | LSM_FILTER_UNITS | LSM_FILTER_PAGES);
}

static void
sum_up(LsmRun *run)
{
	run->min_xid = InvalidTransactionId;
	for (int i = 0; i < run->nfiles; i++)
	{
		const LsmFile *file = &run->files[i];

		run->entries += file->entries;
		run->file_bytes += file->file_bytes;
		run->filter_bytes += file->filter_bytes;
		run->many_deletes |= (file->flags & LSM_FILE_MANY_DELETES) != 0;
		if (filter_is_mapped(file))
			run->mapped_filter_bytes += file->filter_bytes;
		if (TransactionIdIsNormal(file->min_xid) &&
			(!TransactionIdIsValid(run->min_xid) ||
			 TransactionIdPrecedes(file->min_xid, run->min_xid)))
			run->min_xid = file->min_xid;
	}
}

/* Copy a file with its fences; returns what is behind them. */
static char *
keep_file(LsmFile *to, const LsmFile *from, char *fences)
{
	*to = *from;
	memcpy(fences, from->smallest.data, from->smallest.len);
	to->smallest.data = fences;
	fences += from->smallest.len;
	memcpy(fences, from->largest.data, from->largest.len);
	to->largest.data = fences;
	return fences + from->largest.len;
}

/*
 * A run of those files of `old` (or NULL) that are not among the removed
 * numbers (ascending), and of those that came, in order.  False: it has no
 * files.
 */
static bool
make_run(LsmVersion *version, const LsmRun *old, const uint64 *removed, int nremoved,
		 const LsmFile *came, int ncame, LsmRun *run)
{
	MemoryContext cxt = AllocSetContextCreate(version->cxt, "lsm run",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext outer = MemoryContextSwitchTo(cxt);
	int			nold = old != NULL ? old->nfiles : 0;
	int			i = 0;
	int			j = 0;
	Size		bytes = 1;
	char	   *fences;

	memset(run, 0, sizeof(*run));
	for (int k = 0; k < nold; k++)
		bytes += old->files[k].smallest.len + old->files[k].largest.len;
	for (int k = 0; k < ncame; k++)
		bytes += came[k].smallest.len + came[k].largest.len;
	run->files = MemoryContextAllocHuge(cxt, Max(nold + ncame, 1) * sizeof(LsmFile));
	fences = MemoryContextAllocHuge(cxt, bytes);

	while (i < nold || j < ncame)
	{
		const LsmFile *next;

		if (i < nold && nremoved > 0 &&
			bsearch(&old->files[i].number, removed, nremoved, sizeof(uint64),
					lsm_number_compare) != NULL)
		{
			i++;
			continue;
		}
		if (j == ncame || (i < nold && compare_files(&old->files[i], &came[j]) < 0))
			next = &old->files[i++];
		else
			next = &came[j++];
		fences = keep_file(&run->files[run->nfiles++], next, fences);
	}
	if (run->nfiles > 0)
	{
		run->level = run->files[0].level;
		run->run = run->files[0].run;
		lsm_run_arrange(run);
		arrange_numbers(run);
		sum_up(run);
		run->body = palloc0(sizeof(LsmRunBody));
		run->body->cxt = cxt;
	}
	MemoryContextSwitchTo(outer);
	if (run->nfiles == 0)
		MemoryContextDelete(cxt);
	return run->nfiles > 0;
}

/* Is any of the numbers one of the run's? */
static bool
run_loses(const LsmRun *run, const uint64 *removed, int nremoved)
{
	for (int i = 0; i < nremoved; i++)
	{
		if (bsearch(&removed[i], run->numbers, run->nfiles, sizeof(uint64),
					lsm_number_compare) != NULL)
			return true;
	}
	return false;
}

/* How many of the files belong to the first one's run. */
static int
files_of_run(const LsmFile *files, int n)
{
	int			count = 0;

	while (count < n && files[count].level == files[0].level && files[count].run == files[0].run)
		count++;
	return count;
}

/*
 * The order of runs: negative if that of the old version comes first, 0 if the
 * files that came belong to it.
 */
static int
compare_runs(const LsmRun *run, const LsmFile *file)
{
	if (run->level != file->level)
		return run->level < file->level ? -1 : 1;
	if (run->run != file->run)
		return run->run > file->run ? -1 : 1;
	return 0;
}

/*
 * The runs of `old` (or NULL) as the files that went and came (in order) make
 * them; a run that nothing has happened to is taken over.
 */
static void
make_runs(LsmVersion *version, const LsmVersion *old, const LsmManifestChange *change,
		  const LsmFile *came)
{
	int			nold = old != NULL ? old->nruns : 0;
	int			nnew = 0;
	int			i = 0;
	int			j = 0;

	for (int n = 0; n < change->nfiles; n += files_of_run(&came[n], change->nfiles - n))
		nnew++;
	version->runs = palloc0((nold + nnew + 1) * sizeof(LsmRun));
	while (i < nold || j < change->nfiles)
	{
		int			c = i == nold ? 1 : j == change->nfiles ? -1 :
			compare_runs(&old->runs[i], &came[j]);
		const LsmRun *before = c <= 0 ? &old->runs[i++] : NULL;
		int			n = c >= 0 ? files_of_run(&came[j], change->nfiles - j) : 0;
		LsmRun	   *run = &version->runs[version->nruns];

		if (n == 0 && !run_loses(before, change->removed, change->nremoved))
		{
			*run = *before;
			version->nruns++;
		}
		else if (make_run(version, before, change->removed, change->nremoved,
						  &came[j], n, run))
			version->nruns++;
		j += n;
	}
}

/* What is known of the version from its runs. */
static void
arrange_runs(LsmVersion *version)
{
	for (int i = 0; i < version->nruns; i++)
	{
		LsmRun	   *run = &version->runs[i];

		run->first = version->nfiles;
		version->nfiles += run->nfiles;
		version->level_files[run->level] += run->nfiles;
		version->level_bytes[run->level] += run->file_bytes;
		if (run->level == 0)
			version->level0_runs++;
		else
			version->levels[run->level] = run;
		version->deepest = run->level;
	}
}

/* It is complete: nothing fails from here on. */
static void
keep_version(LsmVersion *version)
{
	MemoryContextSetParent(version->cxt, TopMemoryContext);
	for (int i = 0; i < version->nruns; i++)
	{
		LsmRunBody *body = version->runs[i].body;

		if (body->refcount++ == 0)
			MemoryContextSetParent(body->cxt, TopMemoryContext);
	}
}

/*
 * Close the file if the version does not have it, or has it with a filter that
 * was built again.
 */
static void
forget_changed(uint64 keyspace_id, const LsmVersion *version, uint64 number, bool edited)
{
	const LsmFile *file = version != NULL ? lsm_version_find_file(version, number) : NULL;

	if (file == NULL)
		lsm_filecache_forget(keyspace_id, number);
	else
		lsm_filecache_forget_other(file, keyspace_id, edited);
}

/*
 * Files of the keyspace that are open, and not in the version (or NULL): let go
 * of their mappings.
 */
static void
forget_files(uint64 keyspace_id, const LsmVersion *version)
{
	uint64		number;

	/* backwards: what is closed leaves its place to the last one */
	for (int i = lsm_filecache_count() - 1; i >= 0; i--)
	{
		if (lsm_filecache_nth(i, keyspace_id, &number))
			forget_changed(keyspace_id, version, number, false);
	}
}

/* The same after a change. */
static void
forget_removed(const LsmVersion *version, const LsmManifestChange *change)
{
	if (change->whole)
	{
		forget_files(version->keyspace_id, version);
		return;
	}
	for (int i = 0; i < change->nremoved; i++)
		forget_changed(version->keyspace_id, version, change->removed[i], true);
}

/* `old`: what to go on from, if the list allows; or NULL. */
static LsmVersion *
read_version(LsmTree *tree, const LsmVersion *old)
{
	const LsmManifestPlace nowhere = {0};
	MemoryContext cxt;
	MemoryContext scratch;
	MemoryContext outer;
	LsmManifestChange change;
	LsmVersion *version;
	LsmFile    *came;
	bool		lenient = lsm_ignore_missing_files;
	bool		salvaged;

	if (lenient)
		old = NULL;

	/* below the current context until it is complete */
	cxt = AllocSetContextCreate(CurrentMemoryContext, "lsm version",
								ALLOCSET_SMALL_SIZES);
	scratch = AllocSetContextCreate(cxt, "lsm version change", ALLOCSET_SMALL_SIZES);
	outer = MemoryContextSwitchTo(scratch);
	lsm_manifest_read_change(tree, old != NULL ? &old->place : &nowhere, &change);
	salvaged = lenient && lsm_salvage_list(tree, &change.files, &change.nfiles);
	if (change.whole)
		old = NULL;
	qsort(change.removed, change.nremoved, sizeof(uint64), lsm_number_compare);
	came = copy_files(change.files, change.nfiles);

	version = MemoryContextAllocZero(cxt, sizeof(LsmVersion));
	version->cxt = cxt;
	version->serial = ++version_serial;
	version->refcount = 1;
	version->keyspace_id = tree->keyspace_id;
	version->place = change.place;
	version->flushed_generation = change.flushed_generation;
	version->lenient = lenient;
	version->salvaged = salvaged;
	version->deepest = -1;
	MemoryContextSwitchTo(cxt);
	make_runs(version, old, &change, came);
	arrange_runs(version);
	if (!salvaged && version->nfiles != change.place.files)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file list of an lsm tree removes files that are not there")));
	MemoryContextSwitchTo(outer);
	keep_version(version);
	forget_removed(version, &change);
	MemoryContextDelete(scratch);
	return version;
}

/* ======================================================================
 * Keeping versions
 * ====================================================================== */

LsmVersion *
lsm_version_pin(LsmVersion *version)
{
	Assert(version->refcount > 0);
	version->refcount++;
	return version;
}

/* Never fails: memory context callbacks call it. */
void
lsm_version_unpin(LsmVersion *version)
{
	Assert(version->refcount > 0);
	if (--version->refcount > 0)
		return;
	for (int i = 0; i < version->nruns; i++)
	{
		LsmRunBody *body = version->runs[i].body;

		Assert(body->refcount > 0);
		if (--body->refcount == 0)
			MemoryContextDelete(body->cxt);
	}
	MemoryContextDelete(version->cxt);
}

LsmFile *
lsm_version_find_file(const LsmVersion *version, uint64 number)
{
	for (int i = 0; i < version->nruns; i++)
	{
		const LsmRun *run = &version->runs[i];
		const uint64 *found = bsearch(&number, run->numbers, run->nfiles, sizeof(uint64),
									  lsm_number_compare);

		if (found != NULL)
			return &run->files[run->number_at[found - run->numbers]];
	}
	return NULL;
}

LsmFile *
lsm_version_file(const LsmVersion *version, int i)
{
	int			low = 0;
	int			high = version->nruns - 1;

	Assert(i >= 0 && i < version->nfiles);
	/* the last run that does not begin behind it */
	while (low < high)
	{
		int			middle = (low + high + 1) / 2;

		if (version->runs[middle].first <= i)
			low = middle;
		else
			high = middle - 1;
	}
	return &version->runs[low].files[i - version->runs[low].first];
}

int
lsm_run_number_after(const LsmRun *run, uint64 number)
{
	int			low = 0;
	int			high = run->nfiles;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (run->numbers[middle] <= number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void
lsm_version_release(LsmTree *tree)
{
	LsmVersion *version = tree->version;

	if (version == NULL)
		return;
	tree->version = NULL;
	forget_files(version->keyspace_id, NULL);
	lsm_version_unpin(version);
}

LsmVersion *
lsm_version_refresh(LsmTree *tree)
{
	LsmVersion *old = tree->version;
	LsmVersion *version;
	bool		same;

	Assert(!lsm_epoch_inside());
	same = old != NULL && old->keyspace_id == tree->keyspace_id &&
		old->lenient == lsm_ignore_missing_files;
	if (same && old->place.version_no == pg_atomic_read_u64(&tree->ctl->files.version_no))
		return old;

	version = read_version(tree, same ? old : NULL);
	tree->version = version;
	lsm_level_facts_seen(tree->ctl, version);

	if (old != NULL)
	{
		if (old->keyspace_id != version->keyspace_id)
			forget_files(old->keyspace_id, NULL);
		lsm_filecache_forget_damaged(version->keyspace_id);
		lsm_version_unpin(old);
	}
	return version;
}

/*
 * The tree was loaded without damaged log pages, of which its loader was
 * warned.  What a client is told is not for epochs.
 */
static void
warn_of_incomplete(LsmTree *tree)
{
	lsm_tree_exit(tree);
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("log pages of relation %s are missing, and reading goes on without them",
					lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM))));
}

/* Leave memtables out of the set that the version has in files. */
static inline void
leave_flushed(LsmMemtableSet *set, const LsmVersion *version)
{
	while (set->n > 0 &&
		   set->tables[set->n - 1]->generation <= version->flushed_generation)
		set->n--;
}

LsmVersion *
lsm_version_enter(LsmTree *tree, LsmMemtableSet *set)
{
	for (;;)
	{
		LsmVersion *version;

		lsm_tree_enter(tree);
		lsm_set_take(tree->ctl, set);
		LSM_CRASH_POINT("standby_set_taken");
		pg_read_barrier();
		version = tree->version;
		if (likely(version != NULL &&
				   version->place.version_no == pg_atomic_read_u64(&tree->ctl->files.version_no) &&
				   version->keyspace_id == tree->keyspace_id &&
				   version->lenient == lsm_ignore_missing_files))
		{
			if (likely(!lsm_ignore_missing_files) ||
				*(volatile LsmTreeState *) &tree->ctl->state != LSM_STATE_INCOMPLETE ||
				!lsm_warn_about_file(tree->keyspace_id, LSM_LOST_LOG_PAGES))
			{
				leave_flushed(set, version);
				return version;
			}
			warn_of_incomplete(tree);
			continue;
		}
		lsm_tree_exit(tree);
		CHECK_FOR_INTERRUPTS();
		(void) lsm_version_refresh(tree);
	}
}

/* See tree.h. */
void
lsm_tree_require_files(LsmTree *tree)
{
	LsmTreeState state;

	if (likely(!lsm_ignore_missing_files))
		return;

	/* another session may unload what is not whole, but not inside the epoch */
	do
	{
		lsm_tree_enter(tree);
		state = *(volatile LsmTreeState *) &tree->ctl->state;
		lsm_tree_exit(tree);
	} while (!lsm_state_is_loaded(state));
	lsm_salvage_forbid(tree, lsm_version_refresh(tree), state == LSM_STATE_INCOMPLETE);
}

/* See read.h. */
void
lsm_salvage_forbid(LsmTree *tree, const LsmVersion *version, bool incomplete)
{
	if (!version->salvaged && !incomplete)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot write to LSM tree of relation %s, of which files or log pages are missing",
					lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM)),
			 errhint("With lsm.ignore_missing_files the table can only be read. Copy it to another one.")));
}
