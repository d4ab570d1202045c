/*-------------------------------------------------------------------------
 *
 * build.h
 *	  What the files of CREATE INDEX share: entries in a sort, and the team of
 *	  processes that fill it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_INDEX_BUILD_H
#define LSM_INDEX_BUILD_H

#include "access/tableam.h"
#include "storage/buffile.h"
#include "storage/sharedfileset.h"

#include "index/index.h"

/* ---- sorted runs in temporary files (sort_runs.c) ---- */

/* In shared memory: the runs that the processes of a team have written */
/* How often an entry is written at most, but for the last merge of a reader */
#define LSM_RUN_LEVELS	8

typedef struct LsmSharedRuns
{
	SharedFileSet files;
	int			participants;
	int			nruns[FLEXIBLE_ARRAY_MEMBER][LSM_RUN_LEVELS];	/* of each participant,
																 * who alone changes them */
} LsmSharedRuns;

extern Size lsm_shared_runs_bytes(int participants);
extern void lsm_shared_runs_init(LsmSharedRuns *shared, int participants, dsm_segment *seg);
extern void lsm_shared_runs_attach(LsmSharedRuns *shared, dsm_segment *seg);

/* This process's part of a sort by several */
typedef struct LsmSortPart
{
	LsmSharedRuns *runs;
	int			number;			/* -1: reads what all have sorted */
} LsmSortPart;

/* The runs that a process writes, or those that it reads */
typedef struct LsmSortRuns
{
	MemoryContext context;
	LsmSharedRuns *shared;		/* NULL: this process sorts alone */
	int			participant;	/* whose runs are written; -1: of none */
	int			order;			/* how many are merged at a time */
	List	   *runs;			/* those that there are */
	List	   *merged;			/* names of those that are being merged */
	int			level;			/* of the run that is written */
	char		name[NAMEDATALEN];
} LsmSortRuns;

/*
 * `part`: NULL if this process sorts alone.  A run that is read takes so many
 * bytes, and a block.
 */
extern void lsm_runs_begin(LsmSortRuns *runs, int sort_kb, size_t run_bytes,
						   const LsmSortPart *part);

/*
 * A file to write a run into, which is then given to lsm_run_finish(); of level
 * 0 if it does not come from others.  Those that it does come from are gone
 * then.
 */
extern BufFile *lsm_run_create(LsmSortRuns *runs, int level);
extern void lsm_run_finish(LsmSortRuns *runs, BufFile *file);

/*
 * After a run has been written: those that are to be merged to one of *level,
 * at their beginnings, as a list of BufFile, which the reader closes; NIL:
 * none.
 */
extern List *lsm_runs_due(LsmSortRuns *runs, int *level);

/*
 * At the end: likewise, again and again, until *level is -1.  Then these are
 * all that there are.  REQUIRES: a team's have all been finished.
 */
extern List *lsm_runs_read(LsmSortRuns *runs, int *level);

/* ---- an entry in a sort ---- */

#define LSM_ITEM_ALIVE	0x01	/* not a row that is dead but still visible to
								 * some */
#define LSM_ITEM_EXEMPT	0x02	/* has NULLs that are distinct */

typedef struct LsmItem
{
	LsmSlice	key;
	LsmSlice	value;
	uint8		flags;
} LsmItem;

/* ---- entries with short keys (short_sort.c) ---- */

/* Has the index one column, of a type whose codes have eight bytes at most? */
extern bool lsm_sorts_short(const LsmKeySpec *spec);

typedef struct LsmShortSort LsmShortSort;

/* As lsm_build_sort_begin() and so on.  REQUIRES: lsm_sorts_short(). */
extern LsmShortSort *lsm_short_sort_begin(const LsmKeySpec *spec, int sort_kb,
										  const LsmSortPart *part);
extern void lsm_short_sort_put(LsmShortSort *sort, LsmSlice key, uint8 flags);
extern void lsm_short_sort_perform(LsmShortSort *sort);
extern bool lsm_short_sort_next(LsmShortSort *sort, LsmItem *entry);
extern void lsm_short_sort_end(LsmShortSort *sort);

/* ---- entries of any length (long_sort.c) ---- */

typedef struct LsmLongSort LsmLongSort;

extern LsmLongSort *lsm_long_sort_begin(int sort_kb, const LsmSortPart *part);
extern void lsm_long_sort_put(LsmLongSort *sort, LsmSlice key, LsmSlice value, uint8 flags);
extern void lsm_long_sort_perform(LsmLongSort *sort);
extern bool lsm_long_sort_next(LsmLongSort *sort, LsmItem *entry);
extern void lsm_long_sort_end(LsmLongSort *sort);

/* ---- the sort of an index's entries (build_sort.c) ---- */

typedef struct LsmBuildSort LsmBuildSort;

/* `sort_kb` of memory; `part`: NULL if this process sorts alone */
extern LsmBuildSort *lsm_build_sort_begin(const LsmKeySpec *spec, int sort_kb,
										  const LsmSortPart *part);
extern void lsm_build_sort_put(LsmBuildSort *sort, LsmSlice key, LsmSlice value, uint8 flags);

/* One of a team that only writes runs ends its sort then. */
extern void lsm_build_sort_perform(LsmBuildSort *sort);

/*
 * The entries in the order of their keys; false at the end.  An entry is good
 * until the call after the next one.
 */
extern bool lsm_build_sort_next(LsmBuildSort *sort, LsmItem *entry);
extern void lsm_build_sort_end(LsmBuildSort *sort);

/* ---- entries of the table in a sort (build_entries.c) ---- */

/* One process's part of the table */
typedef struct LsmBuildPart
{
	double		rows;			/* live ones */
	double		entries;
	uint64		bytes;			/* of all entries */
	bool		broken_hot_chain;	/* as IndexInfo's */
} LsmBuildPart;

/*
 * Put the entries of all rows into the sort.  `scan`: this process's part of a
 * parallel scan, which is ended here; NULL: the whole table.
 */
extern void lsm_build_scan(Relation table, Relation index, IndexInfo *info,
						   LsmBuildSort *sort, TableScanDesc scan, bool progress,
						   LsmBuildPart *part);

/* ---- several processes (parallel_build.c) ---- */

typedef struct LsmBuildTeam LsmBuildTeam;

/*
 * Launch workers, and take part in the scan.  Returns when this process has
 * nothing left to scan.  NULL: there are no workers, and nothing was done.
 */
extern LsmBuildTeam *lsm_build_team_begin(Relation table, Relation index,
										  IndexInfo *info, int workers);

/*
 * Wait for the others.  Returns the sort in which what all have sorted is
 * merged; *all: what they have found.
 */
extern LsmBuildSort *lsm_build_team_join(LsmBuildTeam *team, const LsmKeySpec *spec,
										 LsmBuildPart *all);

/* REQUIRES: the sort was ended. */
extern void lsm_build_team_end(LsmBuildTeam *team);

#endif							/* LSM_INDEX_BUILD_H */
