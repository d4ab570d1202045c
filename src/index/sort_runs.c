/*-------------------------------------------------------------------------
 *
 * sort_runs.c
 *	  CREATE INDEX: sorted runs in temporary files, of this process alone or of
 *	  a team.
 *
 * A process writes a run when its memory is full.  Alone it keeps the files
 * open.  As one of a team it gives them names in a set that all share, where
 * the leader finds them: run R of participant P.
 *
 * No locks.  A team's runs are opened when all have written theirs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index/build.h"

Size
lsm_shared_runs_bytes(int participants)
{
	return offsetof(LsmSharedRuns, nruns) + participants * sizeof(int);
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

/* See build.h. */
void
lsm_runs_begin(LsmSortRuns *runs, const LsmSortPart *part)
{
	runs->context = CurrentMemoryContext;
	runs->shared = part != NULL ? part->runs : NULL;
	runs->participant = part != NULL ? part->number : -1;
	runs->files = NIL;
}

static void
run_name(char *name, int participant, int number)
{
	snprintf(name, MAXPGPATH, "lsm%d.%d", participant, number);
}

/* See build.h. */
BufFile *
lsm_run_create(LsmSortRuns *runs)
{
	MemoryContext old = MemoryContextSwitchTo(runs->context);
	BufFile    *file;

	if (runs->shared != NULL)
	{
		char		name[MAXPGPATH];

		Assert(runs->participant >= 0);
		run_name(name, runs->participant, runs->shared->nruns[runs->participant]);
		file = BufFileCreateFileSet(&runs->shared->files.fs, name);
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

	if (runs->shared != NULL)
	{
		BufFileExportFileSet(file);
		BufFileClose(file);
		runs->shared->nruns[runs->participant]++;
	}
	else
	{
		if (BufFileSeek(file, 0, 0, SEEK_SET) != 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not rewind a temporary file of an index build")));
		runs->files = lappend(runs->files, file);
	}
	MemoryContextSwitchTo(old);
}

/* See build.h. */
List *
lsm_runs_open(LsmSortRuns *runs)
{
	List	   *files = runs->files;

	for (int i = 0; runs->shared != NULL && i < runs->shared->participants; i++)
	{
		for (int number = 0; number < runs->shared->nruns[i]; number++)
		{
			char		name[MAXPGPATH];

			run_name(name, i, number);
			files = lappend(files, BufFileOpenFileSet(&runs->shared->files.fs, name,
													  O_RDONLY, false));
		}
	}
	runs->files = NIL;
	return files;
}
