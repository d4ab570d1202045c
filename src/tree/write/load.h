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
} LsmLogPageRef;

typedef struct LsmLogScan
{
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
extern void lsm_load_scan(LsmTree *tree, BlockNumber nblocks, LsmLogScan *scan,
						  BufferAccessStrategy strategy);

/* All entries of a page (and of those that continue it); false: no memory. */
extern bool lsm_load_page(LsmTree *tree, LsmMemtable *memtable, LsmLogPageRef ref,
						  BufferAccessStrategy strategy, StringInfo spanning);

/* The header of the entry at `data`, checked. */
extern void lsm_log_read_header(LsmTree *tree, BlockNumber block, const char *data,
								const char *end, LsmLogHeader *header);
extern void lsm_log_corrupt(LsmTree *tree, BlockNumber block, const char *what);

/* ---- load_standby.c ---- */

/*
 * What has been replayed before redo feeds the tree is on pages: add it.
 * REQUIRES: ctl->fed set and counted, counters loaded.
 */
extern void lsm_load_standby(LsmTree *tree);

#endif							/* LSM_LOAD_H */
