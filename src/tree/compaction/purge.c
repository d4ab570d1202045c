/*-------------------------------------------------------------------------
 *
 * purge.c
 *	  Taking condemned entries out of sorted files.
 *
 * VACUUM of an index asks about each entry.  A DELETE for each condemned one
 * would be logged, flushed, and merged with what it deletes later.  So files
 * that hold many of them are written anew without them, at their level, and
 * files that hold none are read and left alone.  (DELETE entries at the bottom,
 * which hide nothing, are as good a reason.)  Only where they are few the
 * caller is told their keys, for DELETE entries.
 *
 * Every file is looked at that was part of the tree when the purge began.
 * Flushes go on, and add what the caller has seen in memory.  The purge owns
 * the tree's compaction, so files change by its hands only: number by number
 * they are looked at, written by the purge, or newer than it.  Where level 0
 * becomes deep meanwhile, the purge does the step that is due, and leaves
 * condemned entries out there as well.
 *
 * That an entry goes from its place, while older ones of the same key may lie
 * below, is right for this reason: the older ones have the same row identifier,
 * hence are condemned, too.  Until the purge has come to them, scans find what
 * they found before: an entry of a dead row.
 *
 * Locking: that of a compaction (compact.c).  The caller holds a lock on the
 * relation.  No lock is held while an entry is asked about.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/compaction/plan.h"
#include "tree/control/control.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/*
 * Files are written anew if more than this part of their entries would go:
 * docs/decisions.md
 */
#define REWRITE_FRACTION	0.15

/*
 * Neighbouring files are dealt with together up to this many bytes, so that small
 * remainders become one file
 */
#define GROUP_FILES			4

typedef struct Purge
{
	LsmTree    *tree;
	LsmPurge   *what;
	uint64		start;			/* files from this number on are ours or newer */
	HTAB	   *done;			/* numbers of older files that were looked at */
	int			behind;			/* files at the version's end that need not be
								 * looked at again, as far as is known */
	int			reliefs;		/* steps in a row that are not the purge's */
	Size		left_bytes;		/* of keys in what->left */
	uint64		max_left;		/* room in what->left */
} Purge;

/* Some files of a run, and which of their entries are condemned */
typedef struct PurgeGroup
{
	Purge	   *purge;
	uint64		entries;		/* of all files */
	uint64		nasked;			/* of them, from the first: what follows knows */
	uint64		ncondemned;
	uint64		ngarbage;		/* DELETE entries with nothing to hide, besides */
	uint64		next;			/* entry that comes next when they are read again */
	uint64	   *condemned;		/* a bit per entry; NULL: none is */
} PurgeGroup;

static bool
purge_wants(const Purge *purge, const LsmFile *file)
{
	return file->number < purge->start &&
		hash_search(purge->done, &file->number, HASH_FIND, NULL) == NULL;
}

static LsmRun *
run_of(LsmVersion *version, int at)
{
	for (int r = 0; r < version->nruns; r++)
	{
		LsmRun	   *run = &version->runs[r];

		if (at < run->first + run->nfiles)
			return run;
	}
	pg_unreachable();
}

/*
 * The next files to look at: some neighbours of a level, or a run of level 0.
 * The oldest first, so that DELETE entries above have nothing to hide any more
 * when their turn comes.  NULL: there are none left.
 */
static LsmPlan *
purge_plan(Purge *purge, LsmVersion *version)
{
	for (int at = version->nfiles - purge->behind - 1; at >= 0; at--)
	{
		LsmRun	   *run = run_of(version, at);
		int			first = at - run->first;
		int			last = first;

		if (!purge_wants(purge, &run->files[first]))
			continue;
		purge->behind = version->nfiles - at - 1;
		while (first > 0 && first > last - GROUP_FILES + 1 &&
			   purge_wants(purge, &run->files[first - 1]))
			first--;
		return lsm_plan_rewrite(version, run, first, last);
	}
	if (purge->behind == 0)
		return NULL;
	purge->behind = 0;
	return purge_plan(purge, version);
}

/*
 * Keep a copy of the key.  False: there is no room for it, so the file had
 * better be written anew.
 */
static bool
purge_leave(Purge *purge, LsmSlice key)
{
	LsmPurge   *what = purge->what;
	Size		bytes = key.len + sizeof(LsmSlice);
	char	   *copy;

	if (purge->left_bytes + bytes > what->max_bytes)
		return false;
	if (what->nleft == purge->max_left)
	{
		uint64		max = Max(1024, 2 * purge->max_left);

		if (what->left == NULL)
			what->left = MemoryContextAllocHuge(what->context, max * sizeof(LsmSlice));
		else
			what->left = repalloc_huge(what->left, max * sizeof(LsmSlice));
		purge->max_left = max;
	}
	copy = MemoryContextAlloc(what->context, key.len);
	memcpy(copy, key.data, key.len);
	what->left[what->nleft++] = lsm_slice(copy, key.len);
	purge->left_bytes += bytes;
	return true;
}

/* The entries of the group that were left for the caller are not, after all. */
static void
purge_unleave(Purge *purge, uint64 nleft)
{
	LsmPurge   *what = purge->what;

	while (what->nleft > nleft)
	{
		LsmSlice	key = what->left[--what->nleft];

		purge->left_bytes -= key.len + sizeof(LsmSlice);
		pfree(unconstify(char *, key.data));
	}
}

static void
group_condemn(PurgeGroup *group, uint64 entry)
{
	if (group->condemned == NULL)
		group->condemned =
			MemoryContextAllocExtended(CurrentMemoryContext,
									   (group->entries / 64 + 1) * sizeof(uint64),
									   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	group->condemned[entry / 64] |= UINT64CONST(1) << (entry % 64);
	group->ncondemned++;
}

/*
 * Ask about each entry, until enough are condemned.  Are the files to be written
 * anew?
 */
static bool
group_read(LsmJob *job, PurgeGroup *group, LsmPlan *plan, bool bottom)
{
	Purge	   *purge = group->purge;
	LsmPurge   *what = purge->what;
	LsmMerge   *merge;
	LsmSlice	key;
	LsmSlice	value;
	uint64		read_bytes = 0;
	uint64		nleft = what->nleft;
	bool		rewrite = false;

	for (int i = 0; i < plan->nfiles; i++)
		group->entries += plan->files[i]->entries;
	merge = lsm_merge_open(purge->tree, plan->sequences, plan->nsequences);
	while (!rewrite && lsm_merge_next(merge, &key, &value))
	{
		uint64		entry = group->nasked++;

		if (entry >= group->entries)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("sorted files of an lsm tree have more entries than their list says"),
					 errhint("Run lsm_verify().")));
		read_bytes += key.len + value.len;
		if (entry % 1000 == 0)
		{
			CHECK_FOR_INTERRUPTS();
			lsm_job_pace(job, read_bytes);
			read_bytes = 0;
		}
		if ((uint8) value.data[0] != LSM_TAG_PUT)
			group->ngarbage += bottom;
		else if (!what->condemned(what->state, key))
			what->nkept++;
		else
		{
			group_condemn(group, entry);
			rewrite = !purge_leave(purge, key);
		}
		rewrite = rewrite ||
			group->ncondemned + group->ngarbage > REWRITE_FRACTION * group->entries;
	}
	if (rewrite)
		purge_unleave(purge, nleft);
	what->ncondemned += group->ncondemned;
	return rewrite;
}

/* LsmJobDrops, of files that group_read() has begun to go through. */
static bool
group_drops(void *state, LsmSlice key, LsmSlice value)
{
	PurgeGroup *group = (PurgeGroup *) state;
	LsmPurge   *what = group->purge->what;
	uint64		entry = group->next++;

	if (entry < group->nasked)
		return group->condemned != NULL &&
			((group->condemned[entry / 64] >> (entry % 64)) & 1) != 0;
	if ((uint8) value.data[0] != LSM_TAG_PUT)
		return false;
	if (!what->condemned(what->state, key))
	{
		what->nkept++;
		return false;
	}
	what->ncondemned++;
	return true;
}

/* LsmJobDrops, of files that it has not seen. */
static bool
purge_drops(void *state, LsmSlice key, LsmSlice value)
{
	Purge	   *purge = (Purge *) state;

	return (uint8) value.data[0] == LSM_TAG_PUT &&
		purge->what->condemned(purge->what->state, key);
}

static void
purge_run(LsmJob *job, LsmPlan *plan, LsmJobDrops drops, void *state)
{
	job->input.drops = drops;
	job->input.drops_state = state;
	/* the failsafe does without indexes */
	job->pace.limited = (MyProc->statusFlags & PROC_VACUUM_FOR_WRAPAROUND) == 0;
	if (!lsm_compact_run(job, plan))
		elog(ERROR, "could not lock the relation of an lsm tree for a compaction");
}

/* Look at some files, and write them anew if that is worth it. */
static void
purge_group(LsmJob *job, Purge *purge, LsmPlan *plan)
{
	PurgeGroup		group = {.purge = purge};

	if (group_read(job, &group, plan, plan->below == job->version->nruns))
		purge_run(job, plan, group_drops, &group);
	for (int i = 0; i < plan->nfiles; i++)
		(void) hash_search(purge->done, &plan->files[i]->number, HASH_ENTER, NULL);
}

/* One step; false at the end. */
static bool
purge_step(Purge *purge)
{
	LsmJob	   *job = lsm_job_begin(purge->tree, LSM_JOB_COMPACT, 1, 0);
	MemoryContext old = MemoryContextSwitchTo(job->cxt);
	LsmPlan    *plan;

	lsm_job_set_version(job, lsm_version_refresh(purge->tree));
	plan = lsm_plan_relief(job->version, &purge->reliefs);
	if (plan != NULL)
	{
		purge->behind = 0;
		purge_run(job, plan, purge_drops, purge);
	}
	else
	{
		plan = purge_plan(purge, job->version);
		if (plan != NULL)
			purge_group(job, purge, plan);
	}
	MemoryContextSwitchTo(old);
	lsm_job_end(job);
	return plan != NULL;
}

void
lsm_tree_purge(LsmTree *tree, LsmPurge *what)
{
	Purge		purge = {.tree = tree,.what = what};
	HASHCTL		control = {.keysize = sizeof(uint64),.entrysize = sizeof(uint64)};
	LsmJob	   *owner;

	control.hcxt = what->context;
	purge.done = hash_create("lsm files looked at", 64, &control,
							 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	owner = lsm_compact_own(tree, LSM_JOB_COMPACT);
	purge.start = pg_atomic_read_u64(&tree->ctl->files.next_file);
	while (purge_step(&purge))
		CHECK_FOR_INTERRUPTS();
	lsm_job_end(owner);
	hash_destroy(purge.done);
}
