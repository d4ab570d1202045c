/*-------------------------------------------------------------------------
 *
 * tree.c
 *	  A backend's handles on trees, entering and leaving them, and what has to be
 *	  undone when a transaction, a worker's job or a process ends.
 *
 * Handles are kept in a hash by relfilenode.  A handle is right as long as its
 * control block carries the handle's keyspace id: the keyspace of a fork
 * changes only by lsm_tree_create() and lsm_tree_reset(), whose callers have
 * the relation to themselves and drop the old keyspace's block.  Otherwise
 * the metapage is read again.
 *
 * While a transaction uses a tree its handle pins the control block, so that it
 * cannot be given to another tree between two calls.  All pins are released at
 * the end of the transaction.
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
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "tree/job.h"

/* More handles than this are thrown away, those of the last transaction excepted. */
#define TREE_MAX_HANDLES	1000

/* A small cache in front of the hash: a query alternates between few trees. */
#define TREE_RECENT			16

typedef struct TreeKey
{
	RelFileLocator rlocator;
	ProcNumber	backend;
} TreeKey;

typedef struct TreeHandle
{
	LsmTree		tree;			/* first; begins with the hash key */
	LsmTreeShared *pinned;		/* block this handle pins, or NULL */
	dlist_node	pinned_node;	/* valid if pinned */
} TreeHandle;

StaticAssertDecl(offsetof(LsmTree, backend) == offsetof(TreeKey, backend) &&
				 offsetof(LsmTree, relpersistence) == sizeof(TreeKey),
				 "LsmTree must begin with its hash key");

static HTAB *tree_handles = NULL;
static TreeHandle *tree_recent[TREE_RECENT];
static dlist_head tree_pinned = DLIST_STATIC_INIT(tree_pinned);
static uint64 tree_drops_seen = 0;

/* ----------------------------------------------------------------------
 * server start
 * ---------------------------------------------------------------------- */

/*
 * Shared memory of the whole tree, bytes.
 */
Size
lsm_tree_shmem_bytes(void)
{
	Size		bytes = lsm_arena_shmem_bytes();

	bytes = add_size(bytes, lsm_epoch_shmem_bytes());
	bytes = add_size(bytes, lsm_memtable_shmem_bytes());
	bytes = add_size(bytes, lsm_control_shmem_bytes());
	bytes = add_size(bytes, lsm_keylock_shmem_bytes());
	bytes = add_size(bytes, lsm_newest_shmem_bytes());
	bytes = add_size(bytes, lsm_drop_shmem_bytes());
	bytes = add_size(bytes, lsm_worker_shmem_bytes());
	bytes = add_size(bytes, lsm_loghelp_shmem_bytes());
	bytes = add_size(bytes, lsm_repair_shmem_bytes());
	bytes = add_size(bytes, lsm_counters_shmem_bytes());
	bytes = add_size(bytes, lsm_filestats_shmem_bytes());
	bytes = add_size(bytes, lsm_elastic_shmem_bytes());

	/* ShmemInitStruct() aligns each of them */
	return add_size(bytes, 14 * PG_CACHE_LINE_SIZE);
}

/*
 * REQUIRES: called from shmem_request_hook.
 */
void
lsm_tree_shmem_request(void)
{
	RequestAddinShmemSpace(lsm_tree_shmem_bytes());
	RequestNamedLWLockTranche("lsmam", 1);
}

/*
 * REQUIRES: called from shmem_startup_hook.
 */
void
lsm_tree_shmem_init(void)
{
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	lsm_arena_shmem_init();
	lsm_epoch_shmem_init();
	lsm_memtable_shmem_init();
	lsm_control_shmem_init();
	lsm_keylock_shmem_init();
	lsm_newest_shmem_init();
	lsm_drop_shmem_init();
	lsm_worker_shmem_init();
	lsm_loghelp_shmem_init();
	lsm_repair_shmem_init();
	lsm_counters_shmem_init();
	lsm_filestats_shmem_init();
	lsm_elastic_shmem_init();
	LWLockRelease(AddinShmemInitLock);
}

/* ----------------------------------------------------------------------
 * pins and the end of things
 * ---------------------------------------------------------------------- */

static void
tree_unpin(TreeHandle *handle)
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
tree_unpin_all(void)
{
	while (!dlist_is_empty(&tree_pinned))
		tree_unpin(dlist_container(TreeHandle, pinned_node,
								   dlist_head_node(&tree_pinned)));
}

/*
 * Pin the handle's control block, if it is the keyspace's (in this fork).
 */
static bool
tree_pin(TreeHandle *handle)
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
	handle->pinned = tree->ctl;
	dlist_push_tail(&tree_pinned, &handle->pinned_node);
	return true;
}

/*
 * Is the handle fit for use as it is?  The test of every call.
 */
static inline bool
tree_current(TreeHandle *handle)
{
	return handle->pinned != NULL &&
		pg_atomic_read_u64(&handle->pinned->keyspace_id) == handle->tree.keyspace_id;
}

bool
lsm_tree_is_pinned(LsmTree *tree)
{
	return tree_current((TreeHandle *) tree);
}

static void
tree_forget(TreeHandle *handle)
{
	TreeHandle **recent = &tree_recent[handle->tree.rlocator.relNumber % TREE_RECENT];

	Assert(handle->pinned == NULL);
	if (*recent == handle)
		*recent = NULL;
	lsm_counters_forget(&handle->tree);
	if (handle->tree.version != NULL)
		lsm_version_release(&handle->tree);
	(void) hash_search(tree_handles, &handle->tree, HASH_REMOVE, NULL);
}

/*
 * End of a committed transaction: release what handles of dropped trees hold
 * (their version may map files that are unlinked), and keep the number of handles bounded.
 * Handles that the transaction used (pinned) stay.
 */
static void
tree_trim(void)
{
	bool		too_many;
	uint64		drops;
	HASH_SEQ_STATUS seq;
	TreeHandle *handle;

	if (tree_handles == NULL)
		return;
	too_many = hash_get_num_entries(tree_handles) > TREE_MAX_HANDLES;
	drops = lsm_control_drops();
	if (!too_many && drops == tree_drops_seen)
		return;
	tree_drops_seen = drops;

	hash_seq_init(&seq, tree_handles);
	while ((handle = (TreeHandle *) hash_seq_search(&seq)) != NULL)
	{
		LsmTree    *tree = &handle->tree;

		/* removing the entry just returned is allowed during a scan */
		if (handle->pinned == NULL &&
			(too_many || tree->ctl == NULL ||
			 pg_atomic_read_u64(&tree->ctl->keyspace_id) != tree->keyspace_id))
			tree_forget(handle);
	}
}

/*
 * Transactions that are rolled back leave their handles, since cursors may still refer to them
 * when the callback runs.  A session that does nothing else trims here: what an earlier transaction
 * has left is not pinned, and all of this one's is.
 */
static void
tree_trim_rolled_back(void)
{
	static long limit = TREE_MAX_HANDLES;

	if (hash_get_num_entries(tree_handles) <= limit)
		return;
	tree_trim();

	/* so that a transaction with very many trees does not look at all of them for each */
	limit = Max(TREE_MAX_HANDLES, 2 * hash_get_num_entries(tree_handles));
}

/* See tree_private.h.  Never fails. */
void
lsm_tree_forget_fork(RelFileLocator rlocator, ProcNumber backend)
{
	TreeHandle *handle;
	TreeKey		key;

	if (tree_handles == NULL)
		return;
	memset(&key, 0, sizeof(key));
	key.rlocator = rlocator;
	key.backend = backend;
	handle = (TreeHandle *) hash_search(tree_handles, &key, HASH_FIND, NULL);
	if (handle == NULL)
		return;
	tree_unpin(handle);
	tree_forget(handle);
}

static void
tree_cleanup(void)
{
	lsm_epoch_abort();
	lsm_write_abort();
	lsm_flush_abort();
}

/*
 * Undo what an error left behind: epochs, writer registrations, ownership of
 * flushes, compactions and loads; outside a transaction also the pin.
 * Idempotent.  REQUIRES: no LWLock held.
 */
void
lsm_tree_abort_cleanup(void)
{
	tree_cleanup();
	if (!IsTransactionOrTransactionBlock())
		tree_unpin_all();
}

static void
tree_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PREPARE:
			Assert(!lsm_epoch_inside());
			lsm_counters_publish();
			lsm_filestats_publish();
			tree_trim();
			tree_unpin_all();
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			tree_cleanup();
			lsm_counters_publish();
			lsm_filestats_publish();

			/*
			 * Handles stay: cursors are freed with their memory contexts,
			 * later than this, and may still refer to them.
			 */
			tree_unpin_all();
			break;
		default:
			break;
	}
}

static void
tree_subxact_callback(SubXactEvent event, SubTransactionId mySubid,
					  SubTransactionId parentSubid, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		tree_cleanup();
		lsm_temporary_note_abort();
	}
}

static void
tree_at_exit(int code, Datum arg)
{
	/* FATAL may come with locks held; the transaction is aborted later */
	LWLockReleaseAll();
	tree_cleanup();
	lsm_counters_publish();
	lsm_filestats_publish();
	tree_unpin_all();
	lsm_temporary_release_all();
}

/*
 * First use of a tree in this process.
 */
static void
tree_prepare_process(void)
{
	HASHCTL		info;
	HTAB	   *handles;

	if (tree_handles != NULL)
		return;

	if (!lsm_control_ready())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lsmam must be loaded via shared_preload_libraries"),
				 errhint("Add \"lsmam\" to the configuration parameter \"shared_preload_libraries\" and restart the server.")));

	memset(&info, 0, sizeof(info));
	info.keysize = sizeof(TreeKey);
	info.entrysize = sizeof(TreeHandle);
	info.hcxt = TopMemoryContext;
	handles = hash_create("lsmam trees of this backend", 32, &info,
						  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	/* last what may run out of memory: callbacks rely on the hash */
	RegisterXactCallback(tree_xact_callback, NULL);
	RegisterSubXactCallback(tree_subxact_callback, NULL);
	before_shmem_exit(tree_at_exit, (Datum) 0);
	tree_handles = handles;
	tree_drops_seen = lsm_control_drops();
}

/* ----------------------------------------------------------------------
 * handles
 * ---------------------------------------------------------------------- */

static TreeHandle *
tree_lookup(RelFileLocator rlocator, ProcNumber backend)
{
	TreeHandle **recent = &tree_recent[rlocator.relNumber % TREE_RECENT];
	TreeHandle *handle = *recent;
	TreeKey		key;

	if (handle != NULL && RelFileLocatorEquals(handle->tree.rlocator, rlocator) &&
		handle->tree.backend == backend)
		return handle;

	tree_prepare_process();
	memset(&key, 0, sizeof(key));
	key.rlocator = rlocator;
	key.backend = backend;
	handle = (TreeHandle *) hash_search(tree_handles, &key, HASH_FIND, NULL);
	if (handle == NULL)
	{
		static const LsmTreeOptions unset = LSM_TREE_OPTIONS_UNSET;

		tree_trim_rolled_back();
		handle = (TreeHandle *) hash_search(tree_handles, &key, HASH_ENTER, NULL);
		memset((char *) handle + sizeof(TreeKey), 0,
			   sizeof(TreeHandle) - sizeof(TreeKey));
		handle->tree.options = unset;
	}
	*recent = handle;
	return handle;
}

/*
 * The fork has another keyspace than the handle thought.
 */
static void
tree_set_keyspace(TreeHandle *handle, uint64 keyspace_id)
{
	LsmTree    *tree = &handle->tree;

	Assert(handle->pinned == NULL && keyspace_id != 0);
	if (tree->keyspace_id == keyspace_id)
		return;
	lsm_counters_forget(tree);
	if (tree->version != NULL)
		lsm_version_release(tree);
	tree->ctl = NULL;
	tree->keyspace_id = keyspace_id;
	lsm_keyspace_dir(keyspace_id, tree->dir);
}

/*
 * The metapage names another database than the relation is in.
 */
static void
tree_report_clone(LsmTree *tree)
{
	if (tree->rel != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("relation \"%s\" was copied from another database by CREATE DATABASE",
						RelationGetRelationName(tree->rel)),
				 errdetail("Its sorted files belong to the original relation and cannot be shared."),
				 tree->kind == LSM_KIND_INDEX
				 ? errhint("Rebuild the index with REINDEX.")
				 : errhint("Drop the table here, and copy its content with pg_dump and pg_restore.")));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("LSM tree of relation %s was copied from another database",
					lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM))));
}

/*
 * Read from the metapage which keyspace the fork has, making one if it has none
 * and taking over a moved one.  The caller loops: false if it
 * is to be called again.
 */
static bool
tree_read_identity(TreeHandle *handle)
{
	LsmTree    *tree = &handle->tree;
	LsmMetaPage *page;
	LsmMetaPage meta;
	Buffer		buffer;

	if (tree->rel != NULL)
		lsm_fork_check(tree->rel, tree->kind);
	buffer = lsm_meta_read(tree, BUFFER_LOCK_SHARE, &page);
	meta = *page;
	UnlockReleaseBuffer(buffer);

	if (meta.kind != (uint32) tree->kind)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("LSM tree of relation %s is of kind %u, expected %u",
						lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM),
						meta.kind, (uint32) tree->kind)));

	if (meta.keyspace_id == 0)
	{
		/* an unlogged relation after a crash: a copy of its init fork */
		if (tree->relpersistence != RELPERSISTENCE_UNLOGGED)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("LSM tree of relation %s has no keyspace, as if it were that of an unlogged relation after a crash",
							lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM)),
					 errhint("Restore the relation from a backup, or rebuild it with REINDEX if it is an index.")));
		if (tree->rel == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("LSM tree of relation %s has been reset",
							lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM))));
		lsm_meta_assign(tree);
		return false;
	}

	if (meta.dboid != tree->rlocator.dbOid &&
		!lsm_keyspace_exists(lsm_meta_keyspace(&meta, tree->rlocator.dbOid)))
		tree_report_clone(tree);
	if (meta.dboid != tree->rlocator.dbOid || meta.spcoid != tree->rlocator.spcOid || meta.relfilenode != tree->rlocator.relNumber)
	{
		if (tree->rel == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("LSM tree of relation %s has been moved",
							lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM))));
		lsm_meta_adopt(tree);
		return false;
	}

	tree_set_keyspace(handle, meta.keyspace_id);
	return true;
}

/*
 * Make the handle current: keyspace as the metapage says, control block found
 * or taken, and pinned.  REQUIRES: a lock on the relation, or a caller
 * that can cope with its being dropped (worker); outside of epochs.
 */
static void
tree_resolve(TreeHandle *handle)
{
	LsmTree    *tree = &handle->tree;

	Assert(!lsm_epoch_inside());
	if (lsm_job_uses(tree))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation %s has been replaced while it was in use",
						lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM))));

	for (int tries = 0;; tries++)
	{
		if (handle->pinned != NULL)
		{
			Relation	rel = tree->rel;

			tree_unpin(handle);
			tree->rel = rel;
		}
		if (tree_pin(handle))
			return;

		CHECK_FOR_INTERRUPTS();
		if (tries > 1000)
			elog(ERROR, "could not settle the keyspace of LSM tree %s",
				 lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM));

		if (!tree_read_identity(handle))
			continue;
		lsm_control_move(tree->keyspace_id, tree->rlocator);
		tree->ctl = lsm_control_get(tree->keyspace_id, tree->rlocator, tree->kind,
									tree->relpersistence);
	}
}

static inline bool
tree_options_equal(const LsmTreeOptions *a, const LsmTreeOptions *b)
{
	return a->filter_scheme == b->filter_scheme &&
		a->bits_per_key == b->bits_per_key &&
		a->elastic_units == b->elastic_units &&
		a->size_ratio == b->size_ratio &&
		a->compression == b->compression;
}

/*
 * Tell other processes which relation the tree belongs to, and its options.
 * `options` NULL leaves those as they are (a new block's are unset).
 */
static void
tree_share_identity(LsmTree *tree, Relation rel, const LsmTreeOptions *options)
{
	LsmTreeShared *ctl = tree->ctl;
	Oid			relid = RelationGetRelid(rel);
	bool		confirmed;

	confirmed = rel->rd_createSubid == InvalidSubTransactionId &&
		rel->rd_newRelfilelocatorSubid == InvalidSubTransactionId &&
		rel->rd_firstRelfilelocatorSubid == InvalidSubTransactionId;

	/* unlocked: whoever changes it has opened the same relation */
	if (likely(ctl->relid == relid && (ctl->relid_confirmed || !confirmed) &&
			   (options == NULL || tree_options_equal(&ctl->options, options))))
		return;

	LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&ctl->keyspace_id) == tree->keyspace_id)
	{
		if (ctl->relid != relid)
		{
			ctl->relid = relid;
			ctl->relid_confirmed = confirmed;
		}
		else if (confirmed)
			ctl->relid_confirmed = true;
		if (options != NULL)
			ctl->options = *options;
	}
	LWLockRelease(&ctl->lock);
}

/*
 * See tree.h.
 */
LsmTree *
lsm_tree_open(Relation rel, LsmKind kind, const LsmTreeOptions *options)
{
	TreeHandle *handle = tree_lookup(rel->rd_locator, rel->rd_backend);
	LsmTree    *tree = &handle->tree;

	tree->rel = rel;
	if (unlikely(!tree_current(handle)))
	{
		if (RecoveryInProgress())
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("LSM trees cannot be read during recovery"),
					 errhint("Query the primary server.")));
		if (RELATION_IS_OTHER_TEMP(rel))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot access temporary tables of other sessions")));

		tree->relpersistence = rel->rd_rel->relpersistence;
		tree->kind = kind;
		tree->ops = lsm_kind_ops(kind);
		tree_resolve(handle);
	}
	Assert(tree->kind == kind);

	tree->relid = RelationGetRelid(rel);
	if (options != NULL)
		tree->options = *options;
	tree_share_identity(tree, rel, options);
	return tree;
}

/*
 * See tree_private.h.  The handle's own keyspace may turn out dropped later:
 * lsm_tree_enter() then raises an error.
 */
LsmTree *
lsm_tree_attach(LsmTreeShared *ctl)
{
	TreeHandle *handle;
	LsmTree    *tree;
	uint64		keyspace_id;
	RelFileLocator rlocator;
	LsmKind		kind;
	char		relpersistence;

	tree_prepare_process();
	if (!IsTransactionOrTransactionBlock())
	{
		lsm_counters_publish();
		tree_trim();
		tree_unpin_all();
	}

	if (!lsm_control_identity(ctl, &keyspace_id, &rlocator, &kind, &relpersistence))
		return NULL;
	Assert(!ctl->local);

	handle = tree_lookup(rlocator, INVALID_PROC_NUMBER);
	tree = &handle->tree;
	if (handle->pinned != NULL && (handle->pinned != ctl || !tree_current(handle)))
	{
		/* a job that has lost its tree is about to end */
		if (lsm_job_uses(tree))
			return NULL;
		tree_unpin(handle);
	}
	if (handle->pinned == NULL)
	{
		tree->relpersistence = relpersistence;
		tree->kind = kind;
		tree->ops = lsm_kind_ops(kind);
		tree_set_keyspace(handle, keyspace_id);
		tree->ctl = ctl;
		if (!tree_pin(handle))
			return NULL;
	}
	tree->relid = ctl->relid;
	return tree;
}

/*
 * See tree_private.h.  ERRORs as lsm_tree_open() and lsm_tree_load().
 */
void
lsm_tree_enter(LsmTree *tree)
{
	TreeHandle *handle = (TreeHandle *) tree;

	/* nested: what the outer call saw is protected, and we must not wait */
	if (lsm_epoch_inside())
	{
		lsm_epoch_enter();
		return;
	}

	for (;;)
	{
		if (likely(tree_current(handle)))
		{
			lsm_epoch_enter();
			if (likely(*(volatile LsmTreeState *) &tree->ctl->state == LSM_STATE_LOADED &&
					   tree_current(handle)))
			{
				pg_read_barrier();
				lsm_control_touch(tree->ctl);
				return;
			}
			lsm_epoch_exit();
		}

		CHECK_FOR_INTERRUPTS();
		if (!tree_current(handle))
			tree_resolve(handle);
		else
			lsm_tree_load(tree);
	}
}

void
lsm_tree_exit(LsmTree *tree)
{
	lsm_epoch_exit();
}

/*
 * See tree.h.  Jobs in progress notice that their block is gone, and end.
 */
void
lsm_tree_forget_database(Oid dboid)
{
	if (lsm_control_ready())
		lsm_control_drop_database(dboid);
}

uint64
lsm_tree_keyspace(LsmTree *tree)
{
	return tree->keyspace_id;
}
