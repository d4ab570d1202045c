/*-------------------------------------------------------------------------
 *
 * handle.c
 *	  A backend's handles on trees; entering and leaving a tree.
 *
 * Handles are kept in a hash by relfilenode.  A handle is right as long as its
 * control block carries the handle's keyspace id: the keyspace of a fork
 * changes only by lsm_tree_create() and lsm_tree_reset(), whose callers have
 * the relation to themselves and drop the old keyspace's block.  Otherwise
 * the metapage is read again (LsmHandleOps.resolve).
 *
 * While a transaction uses a tree its handle pins the control block, so that
 * it cannot be given to another tree between two calls.  A pin lives as a pin
 * of a buffer would: it belongs to the subtransaction of the resource owner
 * that opens the tree, which is an outer one if a cursor of an outer
 * subtransaction is fetched from.  A rollback releases the subtransaction's
 * pins, its parent takes them over at its commit, and the end of the
 * transaction releases all (tree.c).  The handle itself stays until then:
 * cursors of what was rolled back, whose memory goes later, point to it.
 *
 * What the rooms above do for handles, they register: LsmHandleOps.
 *
 * Locking: the functions here are called without any lock of src/tree and
 * outside of epochs, but for lsm_tree_enter() (which nests) and
 * lsm_tree_exit().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "tree/control/control.h"
#include "tree/control/handle.h"
#include "tree/memtable/memtable.h"

/*
 * More handles than this are thrown away, those of the last transaction
 * excepted.
 */
#define MAX_HANDLES	1000

/* A small cache in front of the hash: a query alternates between few trees. */
#define RECENT_HANDLES			16

typedef struct HandleKey
{
	RelFileLocator rlocator;
	ProcNumber	backend;
} HandleKey;

StaticAssertDecl(offsetof(LsmTree, backend) == offsetof(HandleKey, backend) &&
				 offsetof(LsmTree, relpersistence) == sizeof(HandleKey),
				 "LsmTree must begin with its hash key");

static HTAB *handles = NULL;
static LsmHandle *recent_handles[RECENT_HANDLES];
static dlist_head pinned_handles = DLIST_STATIC_INIT(pinned_handles);	/* by level */
static dlist_head outlived_handles = DLIST_STATIC_INIT(outlived_handles);
static uint64 drops_seen = 0;
static const LsmHandleOps *ops = NULL;

void
lsm_handle_register(const LsmHandleOps *handle_ops)
{
	ops = handle_ops;
}

void
lsm_handle_prepare_process(void)
{
	HASHCTL		info;
	HTAB	   *table;

	if (handles != NULL)
		return;

	(void) lsm_control_require(ERROR);

	memset(&info, 0, sizeof(info));
	info.keysize = sizeof(HandleKey);
	info.entrysize = sizeof(LsmHandle);
	info.hcxt = TopMemoryContext;
	table = hash_create("lsmam trees of this backend", 32, &info,
						HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	/* last what may run out of memory: callbacks rely on the hash */
	ops->prepare();
	handles = table;
	drops_seen = lsm_control_drops();
}

void
lsm_handle_unpin(LsmHandle *handle)
{
	if (handle->pinned != NULL)
	{
		LsmTreeShared *ctl = handle->pinned;

		handle->pinned = NULL;
		dlist_delete(&handle->pinned_node);
		lsm_control_unpin(ctl);
	}
	/* the relcache entry may go away with the transaction */
	handle->tree.rel = NULL;
}

static void
handle_end_outlived(LsmHandle *handle)
{
	if (handle->outlived)
		dlist_delete(&handle->outlived_node);
	handle->outlived = false;
}

void
lsm_handle_unpin_all(void)
{
	while (!dlist_is_empty(&pinned_handles))
	{
		LsmHandle *handle = dlist_tail_element(LsmHandle, pinned_node, &pinned_handles);

		Assert(handle->level <= GetCurrentTransactionNestLevel());
		lsm_handle_unpin(handle);
	}
	while (!dlist_is_empty(&outlived_handles))
		handle_end_outlived(dlist_head_element(LsmHandle, outlived_node, &outlived_handles));
}

/* See handle.h.  Never fails. */
void
lsm_handle_end_subxact(bool commit)
{
	int			level = GetCurrentTransactionNestLevel();
	dlist_iter	iter;

	if (commit)
	{
		dlist_reverse_foreach(iter, &pinned_handles)
		{
			LsmHandle *handle = dlist_container(LsmHandle, pinned_node, iter.cur);

			Assert(handle->level <= level);
			if (handle->level < level)
				break;
			handle->level--;
		}
		return;
	}
	while (!dlist_is_empty(&pinned_handles))
	{
		LsmHandle *handle = dlist_tail_element(LsmHandle, pinned_node, &pinned_handles);

		Assert(handle->level <= level);
		if (handle->level < level)
			break;
		lsm_handle_unpin(handle);
		if (!handle->outlived)
			dlist_push_head(&outlived_handles, &handle->outlived_node);
		handle->outlived = true;
	}
}

/*
 * Nest level of the subtransaction that the current resource owner is of.  An
 * owner that is of none, as workers have, is the transaction's.
 */
static int
owner_level(void)
{
	ResourceOwner of = CurTransactionResourceOwner;
	int			level = GetCurrentTransactionNestLevel();

	for (; level > 1; level--)
	{
		for (ResourceOwner owner = CurrentResourceOwner; owner != NULL;
			 owner = ResourceOwnerGetParent(owner))
		{
			if (owner == of)
				return level;
		}
		of = ResourceOwnerGetParent(of);
	}
	return level;
}

/* Mostly the last one. */
static void
list_by_level(LsmHandle *handle, int level)
{
	dlist_node *after = &pinned_handles.head;
	dlist_iter	iter;

	handle->level = level;
	dlist_reverse_foreach(iter, &pinned_handles)
	{
		if (dlist_container(LsmHandle, pinned_node, iter.cur)->level <= level)
		{
			after = iter.cur;
			break;
		}
	}
	dlist_insert_after(after, &handle->pinned_node);
}

/* See handle.h. */
void
lsm_handle_keep(LsmHandle *handle)
{
	int			level = owner_level();

	Assert(handle->pinned != NULL);
	if (level >= handle->level)
		return;
	dlist_delete(&handle->pinned_node);
	list_by_level(handle, level);
}

/*
 * Pin the handle's control block, if it is the keyspace's (in this fork).
 */
bool
lsm_handle_pin(LsmHandle *handle)
{
	LsmTree    *tree = &handle->tree;

	Assert(handle->pinned == NULL);
	if (tree->ctl == NULL || tree->keyspace_id == 0 ||
		!lsm_control_pin(tree->ctl, tree->keyspace_id))
		return false;
	if (!RelFileLocatorEquals(tree->ctl->rlocator, tree->rlocator))
	{
		lsm_control_unpin(tree->ctl);
		return false;
	}

	/*
	 * A session outlives no database that it is in.  A worker does, and knows
	 * files of a copied one whose names may come again: docs/recovery.md.
	 */
	if (handle->life != tree->ctl->life && lsm_in_worker())
		ops->release(tree);
	handle->life = tree->ctl->life;
	handle->pinned = tree->ctl;
	list_by_level(handle, owner_level());
	return true;
}

bool
lsm_tree_is_pinned(LsmTree *tree)
{
	return lsm_handle_current((LsmHandle *) tree);
}

static void
handle_forget(LsmHandle *handle)
{
	LsmHandle **recent = &recent_handles[handle->tree.rlocator.relNumber % RECENT_HANDLES];

	Assert(handle->pinned == NULL);
	if (*recent == handle)
		*recent = NULL;
	handle_end_outlived(handle);
	ops->release(&handle->tree);
	(void) hash_search(handles, &handle->tree, HASH_REMOVE, NULL);
}

/*
 * End of a committed transaction: release what handles of dropped trees hold
 * (their version may map files that are unlinked), and keep the number of
 * handles bounded.  Handles that the transaction used (pinned, or outlived)
 * stay.
 */
void
lsm_handle_trim(void)
{
	bool		too_many;
	bool		left = false;
	uint64		drops;
	HASH_SEQ_STATUS seq;
	LsmHandle *handle;

	if (handles == NULL)
		return;
	too_many = hash_get_num_entries(handles) > MAX_HANDLES;
	drops = lsm_control_drops();
	if (!too_many && drops == drops_seen)
		return;

	hash_seq_init(&seq, handles);
	while ((handle = (LsmHandle *) hash_seq_search(&seq)) != NULL)
	{
		LsmTree    *tree = &handle->tree;
		bool		lost = tree->ctl == NULL ||
			pg_atomic_read_u64(&tree->ctl->keyspace_id) != tree->keyspace_id;

		/* removing the entry just returned is allowed during a scan */
		if (handle->pinned == NULL && !handle->outlived && (too_many || lost))
			handle_forget(handle);
		else
			left |= lost;
	}

	/* what is pinned goes the next time */
	drops_seen = left ? drops - 1 : drops;
}

/*
 * Transactions that are rolled back leave their handles, since cursors may
 * still refer to them when the callback runs.  A session that does nothing
 * else trims here: what an earlier transaction has left is neither pinned nor
 * outlived, and all of this one's is.
 */
static void
handle_trim_rolled_back(void)
{
	static long limit = MAX_HANDLES;

	if (hash_get_num_entries(handles) <= limit)
		return;
	lsm_handle_trim();

	/*
	 * so that a transaction with very many trees does not look at all of them
	 * for each
	 */
	limit = Max(MAX_HANDLES, 2 * hash_get_num_entries(handles));
}

/* See control.h.  Never fails. */
void
lsm_tree_forget_fork(RelFileLocator rlocator, ProcNumber backend)
{
	LsmHandle *handle;
	HandleKey		key;

	if (handles == NULL)
		return;
	memset(&key, 0, sizeof(key));
	key.rlocator = rlocator;
	key.backend = backend;
	handle = (LsmHandle *) hash_search(handles, &key, HASH_FIND, NULL);
	if (handle == NULL)
		return;
	lsm_handle_unpin(handle);
	handle_forget(handle);
}

LsmHandle *
lsm_handle_lookup(RelFileLocator rlocator, ProcNumber backend)
{
	LsmHandle **recent = &recent_handles[rlocator.relNumber % RECENT_HANDLES];
	LsmHandle *handle = *recent;
	HandleKey		key;

	if (handle != NULL && RelFileLocatorEquals(handle->tree.rlocator, rlocator) &&
		handle->tree.backend == backend)
		return handle;

	lsm_handle_prepare_process();
	memset(&key, 0, sizeof(key));
	key.rlocator = rlocator;
	key.backend = backend;
	handle = (LsmHandle *) hash_search(handles, &key, HASH_FIND, NULL);
	if (handle == NULL)
	{
		static const LsmTreeOptions unset = LSM_TREE_OPTIONS_UNSET;

		handle_trim_rolled_back();
		handle = (LsmHandle *) hash_search(handles, &key, HASH_ENTER, NULL);
		memset((char *) handle + sizeof(HandleKey), 0,
			   sizeof(LsmHandle) - sizeof(HandleKey));
		handle->tree.options = unset;
	}
	*recent = handle;
	return handle;
}

/*
 * The fork has another keyspace than the handle thought.
 */
void
lsm_handle_set_keyspace(LsmHandle *handle, uint64 keyspace_id)
{
	LsmTree    *tree = &handle->tree;

	Assert(handle->pinned == NULL && keyspace_id != 0);
	if (tree->keyspace_id == keyspace_id)
		return;
	ops->release(tree);
	tree->ctl = NULL;
	tree->keyspace_id = keyspace_id;
	lsm_keyspace_dir(keyspace_id, tree->dir);
}

/*
 * See control.h.  The handle's own keyspace may turn out dropped later:
 * lsm_tree_enter() then raises an error.
 */
LsmTree *
lsm_tree_attach(LsmTreeShared *ctl)
{
	LsmHandle *handle;
	LsmTree    *tree;
	uint64		keyspace_id;
	RelFileLocator rlocator;
	LsmKind		kind;
	char		relpersistence;

	lsm_handle_prepare_process();
	if (!IsTransactionOrTransactionBlock())
	{
		ops->publish();
		lsm_handle_trim();
		lsm_handle_unpin_all();
	}

	if (!lsm_control_identity(ctl, &keyspace_id, &rlocator, &kind, &relpersistence))
		return NULL;
	Assert(!ctl->local);

	handle = lsm_handle_lookup(rlocator, INVALID_PROC_NUMBER);
	tree = &handle->tree;
	if (handle->pinned != NULL && (handle->pinned != ctl || !lsm_handle_current(handle)))
	{
		/* a job that has lost its tree is about to end */
		if (lsm_job_uses(tree))
			return NULL;
		lsm_handle_unpin(handle);
	}
	if (handle->pinned == NULL)
	{
		tree->relpersistence = relpersistence;
		tree->kind = kind;
		tree->ops = lsm_kind_ops(kind);
		lsm_handle_set_keyspace(handle, keyspace_id);
		tree->ctl = ctl;
		if (!lsm_handle_pin(handle))
			return NULL;
	}
	tree->relid = ctl->relid;
	return tree;
}

/* What redo feeds is not for those who write. */
static inline bool
can_be_read(LsmTreeShared *ctl)
{
	LsmTreeState state = *(volatile LsmTreeState *) &ctl->state;

	return likely(state == LSM_STATE_LOADED) ||
		(state == LSM_STATE_STANDBY && RecoveryInProgress()) ||
		(state == LSM_STATE_INCOMPLETE && lsm_ignore_missing_files);
}

/*
 * See control.h.  ERRORs as lsm_tree_open() and lsm_tree_load().
 */
void
lsm_tree_enter(LsmTree *tree)
{
	LsmHandle *handle = (LsmHandle *) tree;

	/* nested: what the outer call saw is protected, and we must not wait */
	if (lsm_epoch_inside())
	{
		Assert(handle->pinned != NULL);
		lsm_epoch_enter();
		return;
	}

	for (;;)
	{
		if (likely(lsm_handle_current(handle)))
		{
			lsm_epoch_enter();
			if (likely(can_be_read(tree->ctl) && lsm_handle_current(handle)))
			{
				pg_read_barrier();
				lsm_control_touch(tree->ctl);
				return;
			}
			lsm_epoch_exit();
		}

		/* whoever still uses the tree has kept the pin: lsm_handle_keep() */
		Assert(handle->pinned != NULL || !handle->outlived);

		CHECK_FOR_INTERRUPTS();
		if (!lsm_handle_current(handle))
			ops->resolve(handle);
		else
			ops->load(tree);
	}
}

void
lsm_tree_exit(LsmTree *tree)
{
	lsm_epoch_exit();
}

uint64
lsm_tree_keyspace(const LsmTree *tree)
{
	return tree->keyspace_id;
}

uint64
lsm_tree_life(const LsmTree *tree)
{
	const LsmHandle *handle = (const LsmHandle *) tree;

	Assert(handle->life != 0);
	return handle->life;
}

int *
lsm_tree_directory_misses(LsmTree *tree)
{
	return &tree->directory_misses;
}

void
lsm_keyspace_dir(uint64 keyspace_id, char *path)
{
	StaticAssertStmt(sizeof(LSM_DIR) + sizeof(PG_TEMP_FILE_PREFIX) + 16 <= LSM_KEYSPACE_DIR_BYTES,
					 "directories' names fit");
	snprintf(path, LSM_KEYSPACE_DIR_BYTES, "%s/%s%016" PRIx64, LSM_DIR,
			 keyspace_id >= LSM_TEMPORARY_KEYSPACES ? PG_TEMP_FILE_PREFIX : "",
			 keyspace_id);
}
