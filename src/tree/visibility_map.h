/*-------------------------------------------------------------------------
 *
 * visibility_map.h
 *	  Part of tree.h: the visibility map of a table tree.
 *
 * The map is that of PostgreSQL, in the relation's fork of that name: the
 * executor asks visibilitymap_get_status() of any relation.  Its blocks are
 * those of row identifiers (rows.h).
 *
 * A block's bit says: every index entry that names a row of this block names
 * one of which each snapshot that may use the index sees a version with the
 * entry's columns.  VACUUM sets bits, who ends a row clears its block's; an update
 * that stays in its row ends none.  The argument why no bit is wrong stands in
 * docs/read-path.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TREE_VISIBILITY_MAP_H
#define LSM_TREE_VISIBILITY_MAP_H

#include "storage/block.h"
#include "utils/rel.h"

#include "tree/tree.h"

/*
 * Row numbers below it do not come again after a crash.  REQUIRES: no lock of
 * src/tree held.
 */
extern uint64 lsm_tree_logged_row_limit(LsmTree *tree);

/*
 * VACUUM begins: mark the blocks below `nblocks`.  A mark goes when a row of
 * the block is ended.  The caller calls lsm_tree_flush() next, and reads rows
 * after that: then no change is under way that has not seen the mark.
 * REQUIRES: the relation's lock of VACUUM; no temporary relation.
 */
extern void lsm_vm_mark(Relation rel, LsmTree *tree, BlockNumber nblocks);

/*
 * VACUUM ends: of the blocks below `nblocks` that are marked still, those in
 * the bitmap `wanted` become all-visible; all marks go.  `newest_xmin`: of the
 * rows in these blocks, for the snapshots of standbys.
 */
extern void lsm_vm_set(Relation rel, LsmTree *tree, BlockNumber nblocks,
					   const uint8 *wanted, TransactionId newest_xmin);

/*
 * All marks go: of a VACUUM that was cancelled, or died.  REQUIRES: the
 * relation's lock of VACUUM; no temporary relation.
 */
extern void lsm_vm_unmark(Relation rel);

/*
 * A row of this block is about to be ended: the block is neither all-visible
 * nor marked any more.  Harmless if nothing comes of it.  REQUIRES: a write to
 * the tree has begun that will end the row, no key lock held.
 */
extern void lsm_vm_clear(Relation rel, LsmTree *tree, BlockNumber block);

#endif							/* LSM_TREE_VISIBILITY_MAP_H */
