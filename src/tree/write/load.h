/*-------------------------------------------------------------------------
 *
 * load.h
 *	  What the loader's files share: reading log pages back (log_read.c), and
 *	  the part of a load that is done in recovery (load_standby.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_LOAD_H
#define LSM_LOAD_H

#include "storage/buf.h"
#include "storage/bufmgr.h"

#include "tree/disk/log_entry.h"
#include "tree/memtable/memtable.h"
#include "tree/tree.h"

typedef struct LsmLogPageRef
{
	uint64		generation;
	BlockNumber block;
	bool		headed;
	bool		follows;		/* another page of the generation names it */
	LsmLogHead	head;			/* if headed */
} LsmLogPageRef;

typedef struct LsmLogScan
{
	BufferAccessStrategy strategy;
	bool		lenient;		/* what is damaged is left out */
	bool		incomplete;		/* something was */
	StringInfoData spanning;	/* an entry that is longer than a page */

	/* pages of generations that are not flushed, in order */
	LsmLogPageRef *pages;
	Size		npages;
	Size		room;
} LsmLogScan;

/* ---- log_read.c ---- */

/* Pinned and locked shared. */
extern Buffer lsm_load_read_page(LsmTree *tree, BlockNumber block,
								 BufferAccessStrategy strategy);

/*
 * Find the log pages that are not flushed, in the order of generations.  Pages
 * that continue an entry are left out: they are reached from its first page.
 */
extern void lsm_load_scan(LsmTree *tree, BlockNumber nblocks, LsmLogScan *scan);

/* All entries of a page (and of those that continue it); false: no memory. */
extern bool lsm_load_page(LsmTree *tree, LsmMemtable *memtable, const LsmLogPageRef *ref,
						  LsmLogScan *scan);

/* The header of the entry at `data`; false: there is none that can be right. */
extern bool lsm_log_read_header(const LsmTree *tree, const char *data, const char *end,
								LsmLogHeader *header);

/* Does the page begin with an entry that is longer than the page? */
extern bool lsm_log_page_spans(const LsmTree *tree, Page page, LsmLogHeader *header);

/*
 * Is what the page holds as it was written?  `entries`: all of an entry that is
 * longer than the page.  True if the page has no head.
 */
extern bool lsm_log_page_intact(Page page, BlockNumber block);
extern bool lsm_log_entries_intact(Page page, BlockNumber block, const char *entries, Size bytes);

/* Does it continue an entry of this generation? */
extern bool lsm_log_page_continues(Page page, uint64 generation);

/* ERROR (DATA_CORRUPTED); of a lenient scan a WARNING, and it is incomplete. */
extern void lsm_log_corrupt(LsmTree *tree, BlockNumber block, const char *what);
extern void lsm_log_damage(LsmTree *tree, LsmLogScan *scan, BlockNumber block, const char *what);

/* ---- log_list.c ---- */

/* Is any page lost, or not as it was written last? */
extern void lsm_log_check_lists(LsmTree *tree, LsmLogScan *scan);

/* The ends of a generation's list, as far as there is one. */
extern void lsm_log_list_ends(const LsmLogPageRef *pages, Size npages, BlockNumber *first,
							  BlockNumber *last);

/* ---- load_standby.c ---- */

/*
 * What has been replayed before redo feeds the tree is on pages: add it.
 * REQUIRES: ctl->fed set and counted, counters loaded.
 */
extern void lsm_load_standby(LsmTree *tree);

#endif							/* LSM_LOAD_H */
