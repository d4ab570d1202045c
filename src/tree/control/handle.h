/*-------------------------------------------------------------------------
 *
 * handle.h
 *	  A backend's handles on trees, for tree.c, which settles what they stand
 *	  for and ends their pins.  Others use lsm_tree_open(), lsm_tree_enter().
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_HANDLE_H
#define LSM_HANDLE_H

#include "tree/control/control.h"

typedef struct LsmHandle
{
	LsmTree		tree;			/* first; begins with the hash key */
	LsmTreeShared *pinned;		/* block this handle pins, or NULL */
	uint64		life;			/* of the block that was pinned last */
	dlist_node	pinned_node;	/* valid if pinned */
	int			level;			/* nest level of the subtransaction whose pin it
								 * is */
	bool		outlived;		/* a pin went with its subtransaction, in this
								 * transaction */
	dlist_node	outlived_node;	/* valid if outlived */
} LsmHandle;

/* What rooms above do for handles.  Registered before the first is made. */
typedef struct LsmHandleOps
{
	/* First handle of this process: register callbacks. */
	void		(*prepare) (void);

	/*
	 * Make the handle current: keyspace as the metapage says, control block
	 * found or taken, and pinned.
	 */
	void		(*resolve) (LsmHandle *handle);

	/* Load the tree if it is not loaded. */
	void		(*load) (LsmTree *tree);

	/*
	 * The handle goes away, or gets another keyspace, or its keyspace may be
	 * another one of the same id: let go of its version and counts.
	 */
	void		(*release) (LsmTree *tree);

	/* Hand over what this process has counted. */
	void		(*publish) (void);
} LsmHandleOps;

extern void lsm_handle_register(const LsmHandleOps *handle_ops);

/* Found or made. */
extern LsmHandle *lsm_handle_lookup(RelFileLocator rlocator, ProcNumber backend);

/*
 * The fork has another keyspace than the handle thought.  REQUIRES: not pinned.
 */
extern void lsm_handle_set_keyspace(LsmHandle *handle, uint64 keyspace_id);

/*
 * Pin the handle's control block; false if it is not the keyspace's in this
 * fork.
 */
extern bool lsm_handle_pin(LsmHandle *handle);
extern void lsm_handle_unpin(LsmHandle *handle);
extern void lsm_handle_unpin_all(void);

/* The current subtransaction is committed, or rolled back: whose pins go. */
extern void lsm_handle_end_subxact(bool commit);

/*
 * The handle is pinned, and used by the current resource owner: that may be one
 * of an outer subtransaction than the pin's.
 */
extern void lsm_handle_keep(LsmHandle *handle);

/* Before the first use of a tree in this process; later calls do nothing. */
extern void lsm_handle_prepare_process(void);

/*
 * End of a committed transaction: handles of dropped trees, and too many of
 * them, go.
 */
extern void lsm_handle_trim(void);

/*
 * Is the handle fit for use as it is?  The test of every call.
 */
static inline bool
lsm_handle_current(LsmHandle *handle)
{
	return handle->pinned != NULL &&
		pg_atomic_read_u64(&handle->pinned->keyspace_id) == handle->tree.keyspace_id;
}

#endif							/* LSM_HANDLE_H */
