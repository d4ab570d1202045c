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
#include "storage/sharedfileset.h"
#include "utils/tuplesort.h"

#include "index/index.h"

/* ---- an entry in a sort (build_item.c) ---- */

#define LSM_ITEM_ALIVE	0x01	/* not a row that is dead but still visible to
								 * some */
#define LSM_ITEM_EXEMPT	0x02	/* has NULLs that are distinct */

/* An integer column, packed */
typedef struct LsmPackedColumn
{
	int			bytes;			/* of the value part of its code */
	uint64		zero;			/* value part of the number 0 */
	uint8		mask;			/* FF: inverted, for DESC */
} LsmPackedColumn;

/* How the entries of an index are packed, and memory for two unpacked keys */
typedef struct LsmItemForm
{
	int			npacked;		/* columns, the first ones */
	int			current;
	StringInfoData buffers[2];
	LsmPackedColumn columns[INDEX_MAX_KEYS];
} LsmItemForm;

typedef struct LsmItem
{
	LsmSlice	key;
	LsmSlice	value;
	uint8		flags;
} LsmItem;

extern void lsm_item_form_init(LsmItemForm *form, const LsmKeySpec *spec);

/* Make `item` a bytea value whose order is that of keys. */
extern void lsm_item_form(const LsmItemForm *form, LsmSlice key, LsmSlice value,
						  uint8 flags, StringInfo item);

/*
 * `item`: what was made so, not toasted.  The value points into it; the key,
 * too, or into memory that the call after the next one uses again.
 */
extern void lsm_item_read(LsmItemForm *form, const bytea *item, LsmItem *entry);

/* ---- entries with short keys (short_sort.c) ---- */

/* In shared memory: runs that the processes of a team have written */
typedef struct LsmShortRuns
{
	SharedFileSet files;
	int			participants;
	int			nruns[FLEXIBLE_ARRAY_MEMBER];	/* each changes its own */
} LsmShortRuns;

static inline Size
lsm_short_runs_bytes(int participants)
{
	return offsetof(LsmShortRuns, nruns) + participants * sizeof(int);
}

/* Has the index one column, of a type whose codes have eight bytes at most? */
extern bool lsm_sorts_short(const LsmKeySpec *spec);

typedef struct LsmShortSort LsmShortSort;

/*
 * `shared`: NULL if this process sorts alone.  `participant` writes its entries
 * as runs there; -1 reads all runs.  REQUIRES: lsm_sorts_short().
 */
extern LsmShortSort *lsm_short_sort_begin(const LsmKeySpec *spec, int sort_kb,
										  LsmShortRuns *shared, int participant);
extern void lsm_short_sort_put(LsmShortSort *sort, LsmSlice key, uint8 flags);
extern void lsm_short_sort_perform(LsmShortSort *sort);
extern bool lsm_short_sort_next(LsmShortSort *sort, LsmItem *entry);
extern void lsm_short_sort_end(LsmShortSort *sort);

/* ---- the sort of an index's entries (build_sort.c) ---- */

typedef struct LsmBuildSort LsmBuildSort;
typedef struct LsmSharedSort LsmSharedSort; /* in shared memory */

extern Size lsm_shared_sort_bytes(int participants);
extern void lsm_shared_sort_init(LsmSharedSort *shared, const LsmKeySpec *spec,
								 int participants, dsm_segment *seg);
extern void lsm_shared_sort_attach(LsmSharedSort *shared, dsm_segment *seg);

/* This process's part of a sort by several */
typedef struct LsmSortPart
{
	LsmSharedSort *shared;
	int			number;			/* -1: reads what all have sorted */
	int			participants;	/* those that have, for -1 */
} LsmSortPart;

/* `sort_kb` of memory; `part`: NULL if this process sorts alone */
extern LsmBuildSort *lsm_build_sort_begin(const LsmKeySpec *spec, int sort_kb,
										  const LsmSortPart *part);
extern void lsm_build_sort_put(LsmBuildSort *sort, LsmSlice key, LsmSlice value, uint8 flags);

/* Who does not read ends its sort then. */
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
