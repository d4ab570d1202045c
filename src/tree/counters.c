/*-------------------------------------------------------------------------
 *
 * counters.c
 *	  Statistics of trees: counted privately, published to the control blocks at
 *	  the end of a statement or transaction.
 *
 * Locking: none but atomics; the control table lock (shared) to list trees.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "port/atomics.h"

#include "tree/tree_private.h"

/* handles with something to publish */
static dlist_head counters_pending = DLIST_STATIC_INIT(counters_pending);

/* all this backend has counted since it started */
static uint64 counters_session[LSM_NCOUNTERS];

/*
 * Count an event of the tree n times.
 */
void
lsm_count(LsmTree *tree, LsmCounter counter, uint64 n)
{
	Assert(counter < LSM_NCOUNTERS);

	tree->counters[counter] += n;
	counters_session[counter] += n;
	if (unlikely(!tree->counters_pending))
	{
		tree->counters_pending = true;
		dlist_push_tail(&counters_pending, &tree->counters_node);
	}
}

/*
 * Publish one handle's counts.  Without its control block (dropped, or recycled for another tree)
 * they are lost.
 */
static void
counters_publish_tree(LsmTree *tree)
{
	LsmTreeShared *ctl = tree->ctl;
	bool		keep = ctl != NULL && lsm_control_pin(ctl, tree->keyspace_id);

	for (int i = 0; i < LSM_NCOUNTERS; i++)
	{
		if (tree->counters[i] != 0)
		{
			if (keep)
				pg_atomic_fetch_add_u64(&ctl->counters[i], tree->counters[i]);
			tree->counters[i] = 0;
		}
	}
	if (keep)
		lsm_control_unpin(ctl);
	dlist_delete(&tree->counters_node);
	tree->counters_pending = false;
}

void
lsm_counters_publish(void)
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

/*
 * Everything this backend has counted, published or not.
 */
void
lsm_counters_session(uint64 totals[LSM_NCOUNTERS])
{
	memcpy(totals, counters_session, sizeof(counters_session));
}

/*
 * Next tree: first those in shared memory, then (negative *iter) the temporary ones
 * of this backend.
 */
static LsmTreeShared *
stats_next_block(int *iter)
{
	LsmTreeShared *ctl;

	if (*iter >= 0)
	{
		ctl = lsm_control_nth(*iter);
		if (ctl != NULL)
		{
			(*iter)++;
			return ctl;
		}
		*iter = -1;
	}
	ctl = lsm_control_nth_local(-1 - *iter);
	if (ctl != NULL)
		(*iter)--;
	return ctl;
}

/*
 * Statistics of the next tree that has a control block; false at the end.  *iter
 * starts at 0.
 */
bool
lsm_stats_next(int *iter, LsmTreeStats *stats)
{
	LsmTreeShared *ctl;

	if (!lsm_control_ready())
		return false;
	while ((ctl = stats_next_block(iter)) != NULL)
	{
		uint64		keyspace_id;
		RelFileNode rnode;
		LsmKind		kind;
		char		relpersistence;

		if (!lsm_control_identity(ctl, &keyspace_id, &rnode, &kind, &relpersistence))
			continue;
		stats->dboid = rnode.dbNode;
		stats->relfilenode = rnode.relNode;
		stats->spcoid = rnode.spcNode;
		for (int i = 0; i < LSM_NCOUNTERS; i++)
			stats->counters[i] = pg_atomic_read_u64(&ctl->counters[i]);
		return true;
	}
	return false;
}

/*
 * Set the counters of all trees of a database (InvalidOid: of all) to zero.
 */
void
lsm_stats_reset(Oid dboid)
{
	LsmTreeShared *ctl;
	int			iter = 0;

	if (!lsm_control_ready())
		return;

	/* what we have counted so far belongs to the time before */
	lsm_counters_publish();
	while ((ctl = stats_next_block(&iter)) != NULL)
	{
		uint64		keyspace_id;
		RelFileNode rnode;
		LsmKind		kind;
		char		relpersistence;

		if (!lsm_control_identity(ctl, &keyspace_id, &rnode, &kind, &relpersistence) ||
			(OidIsValid(dboid) && rnode.dbNode != dboid))
			continue;
		for (int i = 0; i < LSM_NCOUNTERS; i++)
			pg_atomic_write_u64(&ctl->counters[i], 0);
	}
}
