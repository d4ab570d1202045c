/*-------------------------------------------------------------------------
 *
 * counters.c
 *	  Counting what happens in trees: privately, handle by handle.
 *
 * At the end of a statement or transaction the counts go to the control blocks
 * (statistics.c).
 *
 * Locking: none but atomics.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "port/atomics.h"

#include "tree/control/control.h"
#include "tree/read/read.h"

/* handles with something to publish */
static dlist_head counters_pending = DLIST_STATIC_INIT(counters_pending);

uint64		lsm_session_counters[LSM_NCOUNTERS];

/* See facts.h. */
void
lsm_count(LsmTree *tree, LsmCounter counter, uint64 n)
{
	Assert(counter < LSM_NCOUNTERS);

	tree->counters[counter] += n;
	lsm_session_counters[counter] += n;
	if (unlikely(!tree->counters_pending))
	{
		tree->counters_pending = true;
		dlist_push_tail(&counters_pending, &tree->counters_node);
	}
}

/* This many are counted before others hear of them. */
#define MERGED_AT_ONCE	4096

bool		lsm_compaction_by_scans = true;

void
lsm_count_merged(LsmTree *tree, int n)
{
	LsmTreeShared *ctl = tree->ctl;
	uint64		price;
	uint64		merged;

	tree->merged += n;
	if (likely(tree->merged < MERGED_AT_ONCE))
		return;
	merged = pg_atomic_add_fetch_u64(&ctl->merged, tree->merged);
	tree->merged = 0;
	price = pg_atomic_read_u64(&ctl->files.scan_price);
	if (price == 0 || merged < price || !lsm_compaction_by_scans ||
		pg_atomic_read_u32(&ctl->files.compaction_due) != 0)
		return;
	pg_atomic_write_u32(&ctl->files.compaction_due, 100);
	lsm_worker_wake();
}

void
lsm_counters_own(uint64 *counters)
{
	memcpy(counters, lsm_session_counters, sizeof(lsm_session_counters));
}

/*
 * Publish one handle's counts.  Without its control block (dropped, or
 * recycled for another tree) they are lost.
 */
static void
counters_publish_tree(LsmTree *tree)
{
	LsmTreeShared *ctl = tree->ctl;
	bool		pinned = lsm_tree_is_pinned(tree);
	bool		keep = pinned || (ctl != NULL && lsm_control_pin(ctl, tree->keyspace_id));

	for (int i = 0; i < LSM_NCOUNTERS; i++)
	{
		if (tree->counters[i] != 0)
		{
			if (keep)
				pg_atomic_fetch_add_u64(&ctl->counters[i], tree->counters[i]);
			tree->counters[i] = 0;
		}
	}
	if (keep && !pinned)
		lsm_control_unpin(ctl);
	dlist_delete(&tree->counters_node);
	tree->counters_pending = false;
}

/* All handles' counts. */
void
lsm_counters_publish_trees(void)
{
	while (!dlist_is_empty(&counters_pending))
		counters_publish_tree(dlist_container(LsmTree, counters_node,
											  dlist_head_node(&counters_pending)));
}

/*
 * The handle is about to go away or to change its keyspace.
 */
void
lsm_counters_forget(LsmTree *tree)
{
	if (tree->counters_pending)
		counters_publish_tree(tree);
}
