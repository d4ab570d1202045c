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

/* ---- entries of the table in a sort (build_entries.c) ---- */

/* One process's part of the table */
typedef struct LsmBuildPart
{
	double		rows;			/* live ones */
	double		entries;
	uint64		bytes;			/* of all entries */
	bool		broken_hot_chain;	/* as IndexInfo's */
} LsmBuildPart;

/* `sort_kb` of memory; `coordinate`: NULL if this process sorts alone */
extern Tuplesortstate *lsm_build_sort_begin(int sort_kb, SortCoordinate coordinate);

/*
 * Put the entries of all rows into the sort.  `scan`: this process's part of a
 * parallel scan, which is ended here; NULL: the whole table.
 */
extern void lsm_build_scan(Relation table, Relation index, IndexInfo *info,
						   Tuplesortstate *sort, TableScanDesc scan, bool progress,
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
extern Tuplesortstate *lsm_build_team_join(LsmBuildTeam *team, LsmBuildPart *all);

/* REQUIRES: the sort was ended. */
extern void lsm_build_team_end(LsmBuildTeam *team);

#endif							/* LSM_INDEX_BUILD_H */
