/*-------------------------------------------------------------------------
 *
 * sort_runs.c
 *	  CREATE INDEX: sorted runs in temporary files, of this process alone or of
 *	  a team.
 *
 * A process writes a run when its memory is full.  Alone it keeps the files
 * open.  As one of a team it gives them names in a set that all share, where
 * the leader finds them: run N of level L of participant P.
 *
 * Runs that are read each have a buffer and an open file.  So only a few are
 * merged at a time as half of the memory has room for.  When a process has
 * written that many runs of one level, it merges them to one of the next level.
 * Whoever reads at the end merges the shortest runs until no more are left than
 * that.
 *
 * No locks.  A team's runs are opened when all have written theirs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index/build.h"

/* Fewer are merged only if there are no more. */
#define MIN_ORDER	4

/* A run that has been written */
typedef struct SortRun
{
	int			level;			/* of merges that it comes from */
	BufFile    *file;			/* NULL: it is in the team's set, by its name */
	char		name[NAMEDATALEN];
} SortRun;

Size
lsm_shared_runs_bytes(int participants)
{
	return offsetof(LsmSharedRuns, nruns) + participants * sizeof(int[LSM_RUN_LEVELS]);
}

void
lsm_shared_runs_init(LsmSharedRuns *shared, int participants, dsm_segment *seg)
{
	memset(shared, 0, lsm_shared_runs_bytes(participants));
	shared->participants = participants;
	SharedFileSetInit(&shared->files, seg);
}

void
lsm_shared_runs_attach(LsmSharedRuns *shared, dsm_segment *seg)
{
	SharedFileSetAttach(&shared->files, seg);
}

static SortRun *
add_run(LsmSortRuns *runs, int level, BufFile *file)
{
	SortRun    *run = palloc0(sizeof(SortRun));

	run->level = level;
	run->file = file;
	runs->runs = lappend(runs->runs, run);
	return run;
}

static void
run_name(char *name, int participant, int level, int number)
{
	snprintf(name, NAMEDATALEN, "lsm%d.%d.%d", participant, level, number);
}

/* See build.h. */
void
lsm_runs_begin(LsmSortRuns *runs, int sort_kb, size_t run_bytes, const LsmSortPart *part)
{
	memset(runs, 0, sizeof(LsmSortRuns));
	runs->context = CurrentMemoryContext;
	runs->shared = part != NULL ? part->runs : NULL;
	runs->participant = part != NULL ? part->number : -1;
	runs->order = Max((size_t) sort_kb * 1024 / 2 / (run_bytes + BLCKSZ), MIN_ORDER);
	if (runs->shared == NULL || runs->participant >= 0)
		return;
	for (int i = 0; i < runs->shared->participants; i++)
	{
		for (int level = 0; level < LSM_RUN_LEVELS; level++)
		{
			for (int n = 0; n < runs->shared->nruns[i][level]; n++)
				run_name(add_run(runs, level, NULL)->name, i, level, n);
		}
	}
}

/* See build.h. */
BufFile *
lsm_run_create(LsmSortRuns *runs, int level)
{
	MemoryContext old = MemoryContextSwitchTo(runs->context);
	BufFile    *file;

	Assert(level >= 0 && level < LSM_RUN_LEVELS);
	runs->level = level;
	if (runs->participant >= 0)
	{
		run_name(runs->name, runs->participant, level,
				 runs->shared->nruns[runs->participant][level]);
		file = BufFileCreateFileSet(&runs->shared->files.fs, runs->name);
	}
	else
		file = BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
	return file;
}

/* See build.h. */
void
lsm_run_finish(LsmSortRuns *runs, BufFile *file)
{
	MemoryContext old = MemoryContextSwitchTo(runs->context);
	ListCell   *lc;

	foreach(lc, runs->merged)
		BufFileDeleteFileSet(&runs->shared->files.fs, lfirst(lc), false);
	list_free_deep(runs->merged);
	runs->merged = NIL;

	if (runs->participant >= 0)
	{
		BufFileExportFileSet(file);
		BufFileClose(file);
		strlcpy(add_run(runs, runs->level, NULL)->name, runs->name, NAMEDATALEN);
		runs->shared->nruns[runs->participant][runs->level]++;
	}
	else
	{
		if (BufFileSeek(file, 0, 0, SEEK_SET) != 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not rewind a temporary file of an index build")));
		(void) add_run(runs, runs->level, file);
	}
	MemoryContextSwitchTo(old);
}

/* The first n runs of the level (-1: of any) leave the list, and are opened. */
static List *
take_runs(LsmSortRuns *runs, int level, int n)
{
	MemoryContext old = MemoryContextSwitchTo(runs->context);
	List	   *files = NIL;
	ListCell   *lc;

	foreach(lc, runs->runs)
	{
		SortRun    *run = lfirst(lc);

		if (list_length(files) == n)
			break;
		if (level >= 0 && run->level != level)
			continue;
		if (run->file == NULL)
		{
			run->file = BufFileOpenFileSet(&runs->shared->files.fs, run->name, O_RDONLY, false);
			runs->merged = lappend(runs->merged, pstrdup(run->name));
		}
		files = lappend(files, run->file);
		runs->runs = foreach_delete_current(runs->runs, lc);
		pfree(run);
	}
	MemoryContextSwitchTo(old);
	return files;
}

/* See build.h. */
List *
lsm_runs_due(LsmSortRuns *runs, int *level)
{
	int			n[LSM_RUN_LEVELS] = {0};
	ListCell   *lc;

	foreach(lc, runs->runs)
		n[((SortRun *) lfirst(lc))->level]++;
	for (int i = 0; i < LSM_RUN_LEVELS - 1; i++)
	{
		if (n[i] < runs->order)
			continue;
		*level = i + 1;

		/* their names are free once the merged run is finished */
		if (runs->participant >= 0)
			runs->shared->nruns[runs->participant][i] = 0;
		return take_runs(runs, i, n[i]);
	}
	return NIL;
}

static int
compare_levels(const ListCell *a, const ListCell *b)
{
	return ((SortRun *) lfirst(a))->level - ((SortRun *) lfirst(b))->level;
}

/* See build.h. */
List *
lsm_runs_read(LsmSortRuns *runs, int *level)
{
	int			n = list_length(runs->runs);

	*level = -1;
	if (n > runs->order)
	{
		SortRun    *last;

		n = Min(runs->order, n - runs->order + 1);
		list_sort(runs->runs, compare_levels);
		last = list_nth(runs->runs, n - 1);
		*level = Min(last->level + 1, LSM_RUN_LEVELS - 1);
	}
	return take_runs(runs, -1, n);
}
