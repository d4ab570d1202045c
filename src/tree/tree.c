/*-------------------------------------------------------------------------
 *
 * tree.c
 *	  Opening trees, and what has to be undone when a transaction, a worker's
 *	  job or a process ends.
 *
 * Locking: the functions here are called without any lock of src/tree and
 * outside of epochs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_namespace.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "tree/compaction/compaction.h"
#include "tree/control/control.h"
#include "tree/control/gaps.h"
#include "tree/control/handle.h"
#include "tree/control/progress.h"
#include "tree/disk/disk.h"
#include "tree/disk/page.h"
#include "tree/elastic/elastic.h"
#include "tree/memtable/memtable.h"
#include "tree/read/read.h"
#include "tree/write/write.h"

static void tree_register_callbacks(void);
static void tree_resolve(LsmHandle *handle);
static void tree_release(LsmTree *tree);

static const LsmHandleOps tree_handle_ops = {
	.prepare = tree_register_callbacks,
	.resolve = tree_resolve,
	.load = lsm_tree_load,
	.release = tree_release,
	.publish = lsm_counters_publish
};

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
	bytes = add_size(bytes, lsm_former_shmem_bytes());
	bytes = add_size(bytes, lsm_keylock_shmem_bytes());
	bytes = add_size(bytes, lsm_gaps_shmem_bytes());
	bytes = add_size(bytes, lsm_drop_shmem_bytes());
	bytes = add_size(bytes, lsm_worker_shmem_bytes());
	bytes = add_size(bytes, lsm_wal_offload_shmem_bytes());
	bytes = add_size(bytes, lsm_rate_shmem_bytes());
	bytes = add_size(bytes, lsm_counters_shmem_bytes());
	bytes = add_size(bytes, lsm_filestats_shmem_bytes());
	bytes = add_size(bytes, lsm_elastic_shmem_bytes());
	bytes = add_size(bytes, lsm_progress_shmem_bytes());

	/* ShmemInitStruct() aligns each of them */
	return add_size(bytes, 16 * PG_CACHE_LINE_SIZE);
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
	lsm_handle_register(&tree_handle_ops);
	lsm_publish_register();
	lsm_sync_init();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	lsm_arena_shmem_init();
	lsm_epoch_shmem_init();
	lsm_memtable_shmem_init();
	lsm_control_shmem_init();
	lsm_former_shmem_init();
	lsm_keylock_shmem_init();
	lsm_gaps_shmem_init();
	lsm_drop_shmem_init();
	lsm_worker_shmem_init();
	lsm_wal_offload_shmem_init();
	lsm_rate_shmem_init();
	lsm_counters_shmem_init();
	lsm_filestats_shmem_init();
	lsm_elastic_shmem_init();
	lsm_progress_shmem_init();
	LWLockRelease(AddinShmemInitLock);
}

void
lsm_tree_require_memory(void)
{
	(void) lsm_control_require(ERROR);
}

void
lsm_tree_prepare_process(void)
{
	lsm_handle_prepare_process();
	lsm_unlink_register();
}

/* ----------------------------------------------------------------------
 * pins and the end of things
 * ---------------------------------------------------------------------- */

static void
tree_cleanup(void)
{
	lsm_epoch_abort();
	lsm_write_abort();
	lsm_flush_abort();
	lsm_progress_abort();
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
		lsm_handle_unpin_all();
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
			lsm_handle_trim();
			lsm_handle_unpin_all();
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
			lsm_handle_unpin_all();
			break;
		default:
			break;
	}
}

static void
tree_subxact_callback(SubXactEvent event, SubTransactionId mySubid,
					  SubTransactionId parentSubid, void *arg)
{
	switch (event)
	{
		case SUBXACT_EVENT_COMMIT_SUB:
			lsm_handle_end_subxact(true);
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			tree_cleanup();
			lsm_handle_end_subxact(false);
			lsm_temporary_note_abort();
			break;
		default:
			break;
	}
}

static void
tree_at_exit(int code, Datum arg)
{
	/*
	 * FATAL may come with locks held, and in a job's memory; the transaction is
	 * aborted later
	 */
	MemoryContextSwitchTo(TopMemoryContext);
	LWLockReleaseAll();
	tree_cleanup();
	lsm_counters_publish();
	lsm_filestats_publish();
	lsm_handle_unpin_all();
	lsm_temporary_release_all();
}

/* Handles: see LsmHandleOps. */
static void
tree_release(LsmTree *tree)
{
	lsm_counters_forget(tree);
	if (tree->version != NULL)
		lsm_version_release(tree);
}

static void
tree_register_callbacks(void)
{
	RegisterXactCallback(tree_xact_callback, NULL);
	RegisterSubXactCallback(tree_subxact_callback, NULL);
	before_shmem_exit(tree_at_exit, (Datum) 0);
}

/* ----------------------------------------------------------------------
 * handles
 * ---------------------------------------------------------------------- */

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

static void
tree_report_unadopted(LsmTree *tree)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("relation \"%s\" cannot be read during recovery",
					tree->rel != NULL ? RelationGetRelationName(tree->rel) :
					lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM)),
			 errdetail("It was copied by CREATE DATABASE and moved to another tablespace, and the primary server has not opened it since."),
			 errhint("Query it on the primary server once.")));
}

/*
 * Read from the metapage which keyspace the fork has, making one if it has none
 * and taking over a moved one.  The caller loops: false if it
 * is to be called again.
 */
static bool
tree_read_identity(LsmHandle *handle)
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
		if (RecoveryInProgress())
		{
			uint64		named = lsm_meta_keyspace(&meta, tree->rlocator.dbOid);

			/*
			 * The primary's to write down; until then the fork says it.  A
			 * fork that was moved within a copied database gets files of its
			 * own then.
			 */
			if (named != meta.keyspace_id && meta.relfilenode != tree->rlocator.relNumber)
				tree_report_unadopted(tree);
			lsm_handle_set_keyspace(handle, named);
			return true;
		}
		if (tree->rel == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("LSM tree of relation %s has been moved",
							lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM))));
		lsm_meta_adopt(tree);
		return false;
	}

	lsm_handle_set_keyspace(handle, meta.keyspace_id);
	return true;
}

void
lsm_tree_key_making(LsmTree *tree, LsmKeyMaking *making)
{
	LsmMetaPage *page;
	Buffer		buffer;

	Assert(tree->rel != NULL && !lsm_epoch_inside());
	lsm_fork_check(tree->rel, tree->kind);
	buffer = lsm_meta_read(tree, BUFFER_LOCK_SHARE, &page);
	making->rules = page->rules;
	making->origin = page->origin;
	UnlockReleaseBuffer(buffer);
}

/*
 * Make the handle current: keyspace as the metapage says, control block found
 * or taken, and pinned.  REQUIRES: a lock on the relation, or a caller
 * that can cope with its being dropped (worker); outside of epochs.
 */
static void
tree_resolve(LsmHandle *handle)
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

			lsm_handle_unpin(handle);
			tree->rel = rel;
		}
		if (lsm_handle_pin(handle))
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
		a->compression == b->compression &&
		a->filter_allocation == b->filter_allocation &&
		a->bottom_filter == b->bottom_filter &&
		a->bottom_compression == b->bottom_compression &&
		a->leading == b->leading;
}

/*
 * Tell other processes which relation the tree belongs to, and its options.
 * `options` NULL leaves those as they are (a new block's are unset).
 *
 * Of an index that has taken over the fork of another one, the relcache does
 * not say that it is new, since the fork is not: if that is rolled back, it is
 * the other index whose lock counts.
 */
static void
tree_share_identity(LsmTree *tree, Relation rel, const LsmTreeOptions *options)
{
	LsmTreeShared *ctl = tree->ctl;
	Oid			relid = RelationGetRelid(rel);
	bool		confirmed = !lsm_fork_may_roll_back(rel);

	/* unlocked: whoever changes it has opened the same relation */
	if (likely(ctl->relid == relid && (ctl->relid_confirmed || !confirmed) &&
			   (options == NULL || tree_options_equal(&ctl->options, options))))
		return;

	if (ctl->relid != relid)
		lsm_publish_note_taken(relid);
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
 * Tell other processes the names of the relation and of its schema, for messages
 * of workers, which are in no database.  Once per transaction, so that new names
 * come around.
 *
 * Looked at without the lock: what are not these names, even half of what is
 * being written, lead to the lock, under which they are written again.
 */
static void
tree_share_name(LsmTree *tree, Relation rel)
{
	LsmTreeWork *work = &tree->ctl->work;
	const char *name = RelationGetRelationName(rel);
	HeapTuple	tuple = SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(RelationGetNamespace(rel)));
	const char *schema;

	if (!HeapTupleIsValid(tuple))
		return;
	schema = NameStr(((Form_pg_namespace) GETSTRUCT(tuple))->nspname);
	if (unlikely(strncmp(NameStr(work->relname), name, NAMEDATALEN) != 0 ||
				 strncmp(NameStr(work->schemaname), schema, NAMEDATALEN) != 0))
	{
		LWLockAcquire(&tree->ctl->lock, LW_EXCLUSIVE);
		if (pg_atomic_read_u64(&tree->ctl->keyspace_id) == tree->keyspace_id)
		{
			namestrcpy(&work->relname, name);
			namestrcpy(&work->schemaname, schema);
		}
		LWLockRelease(&tree->ctl->lock);
	}
	ReleaseSysCache(tuple);
}

/*
 * See tree.h.
 */
LsmTree *
lsm_tree_open(Relation rel, LsmKind kind, const LsmTreeOptions *options)
{
	LsmHandle *handle = lsm_handle_lookup(rel->rd_locator, rel->rd_backend);
	LsmTree    *tree = &handle->tree;

	tree->rel = rel;
	if (unlikely(!lsm_handle_current(handle)))
	{
		if (RecoveryInProgress() && rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot access temporary or unlogged relation \"%s\" during recovery",
							RelationGetRelationName(rel))));
		if (RELATION_IS_OTHER_TEMP(rel))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot access temporary tables of other sessions")));

		tree->relpersistence = rel->rd_rel->relpersistence;
		tree->kind = kind;
		tree->ops = lsm_kind_ops(kind);
		tree_resolve(handle);
		tree_share_name(tree, rel);
	}
	else if (unlikely(handle->level > 1))
		lsm_handle_keep(handle);
	Assert(tree->kind == kind);

	tree->relid = RelationGetRelid(rel);
	if (options != NULL)
		tree->options = *options;
	tree_share_identity(tree, rel, options);
	return tree;
}

bool
lsm_tree_is_open(Relation rel)
{
	return lsm_handle_current(lsm_handle_lookup(rel->rd_locator, rel->rd_backend));
}

void
lsm_tree_let_go(Relation rel)
{
	Assert(!lsm_epoch_inside());
	lsm_handle_unpin(lsm_handle_lookup(rel->rd_locator, rel->rd_backend));
}

/*
 * See tree.h.  Jobs in progress notice that their block is gone, and end.
 */
void
lsm_tree_note_database_move(Oid dboid)
{
	if (lsm_control_ready())
		lsm_control_drop_database(dboid);
}

/* See tree.h. */
void
lsm_tree_note_drop(Oid relid)
{
	lsm_publish_note_drop(relid);
	lsm_temporary_note_drop();
}

/* See tree.h. */
void
lsm_tree_note_database_drop(Oid dboid)
{
	lsm_publish_note_database_drop(dboid);
}
