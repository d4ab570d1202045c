/*-------------------------------------------------------------------------
 *
 * output_job.c
 *	  A flush, compaction or build in progress: output files with their
 *	  filters, ownership, and cleaning up after an error.
 *
 * A job lives in its own context below TopMemoryContext, and in a list of the
 * process's jobs.  It is ended by its function or, after an error, by
 * lsm_flush_abort() from the abort of the (sub)transaction it was begun in,
 * when LWLocks and buffers have been released.  Ending one that was not
 * published removes its files: nothing refers to them, and no one else has
 * files of their numbers (control.c).  What was logged of them goes on
 * standbys, too, by a record that says so.
 *
 * Only ctl->lock is taken here, and only to give up ownership.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/transam.h"
#include "access/xact.h"
#include "common/file_perm.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/read/filecache.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/*
 * DELETEs of a file that are worth a compaction, if they are such a part of it
 * (as in purge.c)
 */
#define MANY_DELETES		1000
#define DELETES_FRACTION	0.15

/*
 * An output file's size is looked at whenever so much was added: it grows by
 * blocks
 */
#define MEASURE_EVERY_BYTES	1024


/* ======================================================================
 * Life cycle
 * ====================================================================== */

/*
 * Nothing was published.  The files were made by us, with numbers that no one
 * else has.  Never fails.
 */
static void
job_remove_files(LsmJob *job)
{
	uint64		numbers[64];
	int			n = 0;

	for (int i = 0; job->output.logged && i < job->output.nstarted; i++)
	{
		numbers[n++] = job->output.files[i].number;
		if (n == lengthof(numbers) || i + 1 == job->output.nstarted)
		{
			lsm_files_log_removal(job->keyspace_id, numbers, n);
			n = 0;
		}
	}
	for (int i = 0; i < job->output.nstarted; i++)
		lsm_keyspace_unlink_file(job->keyspace_id, job->output.files[i].number);
}

/* Context callback: everything a job holds goes here.  Never fails. */
static void
job_release(void *arg)
{
	LsmJob	   *job = arg;

	lsm_control_job_release(&job->mark);
	lsm_job_report_end(job);
	if (job->output.writer != NULL)
		lsm_sst_writer_abandon(job->output.writer);
	job->output.writer = NULL;
	lsm_wal_offload_end(job);
	if (!job->published)
		job_remove_files(job);
	if (job->version != NULL)
		lsm_version_unpin(job->version);
	if (job->claim != NULL)
	{
		LsmTreeShared *ctl = job->ctl;

		/*
		 * also if the keyspace was dropped: our pin keeps the block from
		 * others
		 */
		LWLockAcquire(&ctl->lock, LW_EXCLUSIVE);
		lsm_claim_give_up(&job->claim);
		LWLockRelease(&ctl->lock);
		ConditionVariableBroadcast(&ctl->cv);

		/* who looked meanwhile may have found a level taken */
		if (!ctl->local && pg_atomic_read_u32(&ctl->files.compaction_due) != 0)
			lsm_worker_wake();
	}

	/* last: from here on the keyspace may get another block */
	lsm_control_job_end(job->ctl);
}

LsmJob *
lsm_job_begin(LsmTree *tree, LsmJobType type, int level, uint64 run)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "lsm job",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	LsmJob	   *job = palloc0(sizeof(LsmJob));
	LsmFilterParams params;

	lsm_unlink_register();
	job->cxt = cxt;
	job->nest_level = GetCurrentTransactionNestLevel();
	job->type = type;
	job->tree = tree;
	job->ctl = tree->ctl;
	job->keyspace_id = tree->keyspace_id;
	job->output.level = level;
	job->output.run = run;
	job->report.number = LSM_PROGRESS_UNKNOWN;
	lsm_control_job_begin(&job->mark, tree);
	job->callback.func = job_release;
	job->callback.arg = job;
	MemoryContextRegisterResetCallback(cxt, &job->callback);

	job->entry_cxt = AllocSetContextCreate(cxt, "lsm job entries",
										   ALLOCSET_DEFAULT_SIZES);
	initStringInfo(&job->entry.rewritten);
	initStringInfo(&job->output.last_key);
	params = lsm_tree_filter_params(tree);
	lsm_filter_builder_begin(&job->output.filter, tree, &params);
	job->output.compression = lsm_tree_compression(tree);
	job->output.bottom_compression = lsm_tree_bottom_compression(tree);
	job->output.written_as = lsm_tree_written_as(tree, job->output.compression);
	job->output.bottom_written_as = lsm_tree_written_as(tree, job->output.bottom_compression);
	job->output.target_bytes = job->output.cut_bytes = (uint64) lsm_target_file_size_kb * 1024;

	job->entry.fate.flush = type == LSM_JOB_FLUSH;
	job->entry.fate.freeze_limit = InvalidTransactionId;
	job->entry.fate.newest_removed_xid = InvalidTransactionId;

	job->entry.fate.database = tree->ctl->local ? InvalidOid : tree->rlocator.dbOid;
	job->entry.fate.oldest_xid = lsm_control_later_horizon(tree, lsm_tree_horizon_now(tree));
	MemoryContextSwitchTo(old);
	return job;
}

void
lsm_job_end(LsmJob *job)
{
	/* a warning about a file would look for interrupts amid job_release() */
	HOLD_INTERRUPTS();
	MemoryContextDelete(job->cxt);
	RESUME_INTERRUPTS();
}

/*
 * After an error: end the jobs of the transaction level that is being aborted
 * (all of them, outside of a transaction).  Jobs of outer levels go on.
 */
void
lsm_flush_abort(void)
{
	int			level = GetCurrentTransactionNestLevel();
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &lsm_job_marks)
	{
		LsmJob	   *job = dlist_container(LsmJob, mark.node, iter.cur);

		if (job->nest_level >= level)
			lsm_job_end(job);
	}
	lsm_publish_abort();
}

void
lsm_job_set_version(LsmJob *job, LsmVersion *version)
{
	Assert(job->version == NULL);
	lsm_salvage_forbid(job->tree, version, false);
	job->version = lsm_version_pin(version);
}

/* ======================================================================
 * Output
 * ====================================================================== */

/* n times 64-byte aligned; freed with *chunk. */
static void *
alloc_aligned(Size bytes, void **chunk)
{
	*chunk = MemoryContextAllocHuge(CurrentMemoryContext, bytes + 64);
	return (void *) TYPEALIGN(64, *chunk);
}

/* See output_job.h. */
void *
lsm_job_filter_image(LsmJob *job, const LsmFileMeta *meta, LsmFilterScheme *scheme,
					 Size *image_bytes, void **chunk)
{
	LsmFilterBuilder *builder = &job->output.filter;
	LsmFilterParams params = builder->params;
	Size		bytes;
	Size		merged;
	void	   *image;

	lsm_job_plan_filter(job, meta, &params);
	*scheme = params.scheme;

	/* keys of a file of full size, should this one be merged into such */
	params.merge_keys = meta->file_bytes >= job->output.target_bytes ? 0 :
		(uint64) ((double) builder->keys.n * job->output.target_bytes / meta->file_bytes);
	bytes = lsm_filter_builder_bytes(builder, &params);
	image = alloc_aligned(bytes, chunk);
	merged = lsm_job_merge_filters(job, meta, &params, image, bytes);
	if (merged > 0)
		bytes = merged;
	else
		lsm_filter_builder_write(builder, &params, image, bytes);
	*image_bytes = bytes;
	return image;
}

static void
job_write_filter(LsmJob *job, LsmFileMeta *meta)
{
	char		path[MAXPGPATH];
	LsmSstError err;
	LsmSstStatus status;
	Size		bytes;
	void	   *chunk;
	LsmFilterScheme scheme;
	void	   *image = lsm_job_filter_image(job, meta, &scheme, &bytes, &chunk);

	lsm_file_path(job->tree, meta->number, true, path);
	meta->filter_check = lsm_filter_check(image, bytes);
	status = lsm_sst_write_blob(path, pg_file_create_mode, image, bytes, &err);
	pfree(chunk);
	lsm_sst_check(status, &err);
	meta->filter_scheme = scheme;
	meta->filter_bytes = bytes;
}

static void
set_fence(LsmSlice key, char *fence, uint16 *bytes, uint16 *flags, uint16 cut)
{
	*bytes = Min(key.len, LSM_FENCE_BYTES);
	memcpy(fence, key.data, *bytes);
	if (key.len > LSM_FENCE_BYTES)
		*flags |= cut;
}

static void
job_close_file(LsmJob *job)
{
	LsmFileMeta *meta = &job->output.files[job->output.nfiles];
	LsmSstProperties props;
	LsmSstWriter *writer = job->output.writer;
	const void *last;
	size_t		last_bytes;
	LsmSstError err;

	Assert(job->output.nstarted == job->output.nfiles + 1);
	last = lsm_sst_writer_last_key(writer, &last_bytes);
	resetStringInfo(&job->output.last_key);
	appendBinaryStringInfo(&job->output.last_key, last, last_bytes);
	set_fence(lsm_slice(job->output.last_key.data, job->output.last_key.len), meta->largest,
			  &meta->largest_bytes, &meta->flags, LSM_FILE_LARGEST_CUT);

	job->output.writer = NULL;			/* freed in any case */
	lsm_sst_check(lsm_sst_writer_finish(writer, &props, &err), &err);
	meta->file_bytes = props.file_bytes;
	meta->sst_check = (uint32) props.tail_digest;
	meta->flags |= LSM_FILE_HAS_CHECKS;
	if (job->output.ndeletes >= MANY_DELETES && job->output.ndeletes >= DELETES_FRACTION * meta->entries)
		meta->flags |= LSM_FILE_MANY_DELETES;
	Assert(props.entries == meta->entries);
	if (job->type == LSM_JOB_FLUSH)
		LSM_CRASH_POINT("flush_file_written");
	else if (job->type == LSM_JOB_COMPACT)
		LSM_CRASH_POINT("compact_file_written");
	else
		LSM_CRASH_POINT("build_file_written");

	job_write_filter(job, meta);
	if (job->type == LSM_JOB_FLUSH)
		LSM_CRASH_POINT("flush_filter_written");
	job->output.nfiles++;
	job->output.bytes += meta->file_bytes + meta->filter_bytes;
	if (!job->input.finishing)
		lsm_wal_offload_offer(job, job->output.nfiles - 1);
	job->input.dropped = false;
	lsm_filter_builder_clear(&job->output.filter);
}

/*
 * Output is as large as input, unless it is no longer compressed: then perhaps
 * this many times as large
 */
#define GROWTH				4

void
lsm_job_reserve(LsmJob *job, uint64 bytes)
{
	if (!lsm_job_current(job))
		lsm_job_report_replaced(job);
	lsm_manifest_reserve(job->tree, 1 + GROWTH * bytes / job->output.target_bytes);
}

/*
 * A number for an output file.  Workers have reserved what they need when they
 * began, under the relation's lock.  Should it not be enough, the lock is
 * needed once more.
 */
static uint64
job_take_number(LsmJob *job)
{
	LsmTreeShared *ctl = job->ctl;
	uint64		number = pg_atomic_read_u64(&ctl->files.next_file);

	for (;;)
	{
		if (number < pg_atomic_read_u64(&ctl->files.file_limit))
		{
			if (pg_atomic_compare_exchange_u64(&ctl->files.next_file, &number, number + 1))
				return number;
			continue;
		}
		if (!lsm_publish_lock(job->tree))
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("could not lock the relation of an lsm tree to number its files")));
		if (!lsm_job_current(job))
			lsm_job_report_replaced(job);
		lsm_manifest_reserve(job->tree, 1);
		lsm_publish_unlock(job->tree);
		number = pg_atomic_read_u64(&ctl->files.next_file);
	}
}

void
lsm_job_report_replaced(LsmJob *job)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("relation %s has been replaced while it was in use",
					lsm_relpath(job->tree->rlocator, job->tree->backend, MAIN_FORKNUM))));
}

/*
 * Open a new sorted file, under a number that has neither a sorted nor a filter
 * file.  None should have; what a broken file system has brought back, or a
 * removal has left, is no one's to write over.
 */
static uint64
job_make_file(LsmJob *job, LsmCompression compression)
{
	for (;;)
	{
		uint64		number = job_take_number(job);
		char		path[MAXPGPATH];
		LsmSstError err;

		lsm_file_path(job->tree, number, true, path);
		if (access(path, F_OK) != 0)
		{
			lsm_file_path(job->tree, number, false, path);
			if (lsm_sst_writer_open(path, pg_file_create_mode, compression,
									&job->output.writer, &err) == LSM_SST_OK)
				return number;
			job->output.writer = NULL;
			if (err.sys_errno != EEXIST)
				lsm_sst_report(ERROR, &err);
		}
		ereport(LOG,
				(errmsg("file \"%s\" exists, and is left alone", path)));
	}
}

/*
 * A file that begins with the key: whatever else it will hold, does nothing lie
 * below it?  Then it is moved down as it is, if at all: rows that are only
 * added are written once.
 */
static bool
job_file_at_bottom(const LsmJob *job, LsmSlice key)
{
	for (int i = 0; i < job->entry.nbelow; i++)
	{
		const LsmRun *run = job->entry.below[i];

		if (run->nfiles > 0 && !lsm_file_before(&run->files[run->nfiles - 1], key))
			return false;
	}
	return true;
}

static void
job_open_file(LsmJob *job, LsmSlice key)
{
	bool		bottom = job_file_at_bottom(job, key);
	LsmCompression compression = bottom ? job->output.bottom_compression : job->output.compression;
	LsmFileMeta *meta;

	Assert(job->tree->ctl == job->ctl && job->tree->keyspace_id == job->keyspace_id);
	if (job->output.nstarted == job->output.max_files)
	{
		int			n = Max(4, job->output.max_files * 2);

		if (job->output.files == NULL)
			job->output.files = MemoryContextAlloc(job->cxt, n * sizeof(LsmFileMeta));
		else
			job->output.files = repalloc_huge(job->output.files, n * sizeof(LsmFileMeta));
		job->output.max_files = n;
	}
	meta = &job->output.files[job->output.nstarted];
	memset(meta, 0, sizeof(LsmFileMeta));
	meta->number = job_make_file(job, compression);
	meta->written_as = bottom ? job->output.bottom_written_as : job->output.written_as;
	meta->flags = (uint16) ((compression + 1) << LSM_FILE_COMPRESSION_SHIFT);
	meta->level = job->output.level;
	meta->run = job->output.level == 0 ? job->output.run : 0;
	meta->min_xid = InvalidTransactionId;
	set_fence(key, meta->smallest, &meta->smallest_bytes, &meta->flags,
			  LSM_FILE_SMALLEST_CUT);
	job->output.nstarted++;
	job->output.ndeletes = 0;
}

/*
 * A file may end between entries of the same filter key: cutting only elsewhere
 * would let files grow without bound.
 */
void
lsm_job_cut(LsmJob *job)
{
	if (job->output.unmeasured_bytes < MEASURE_EVERY_BYTES || job->output.writer == NULL)
		return;
	job->output.unmeasured_bytes = 0;
	if (lsm_sst_writer_bytes(job->output.writer) >= job->output.cut_bytes)
		job_close_file(job);
}

void
lsm_job_add(LsmJob *job, LsmSlice key, LsmSlice value)
{
	LsmFileMeta *meta;
	LsmSlice	filter_key = lsm_filter_key(job->tree, key);
	LsmSstError err;
	TransactionId xid;
	size_t		common_bytes;

	Assert(value.len > 0);
	Assert(job->tree->kind != LSM_KIND_INDEX || key.len >= 6);

	/* a flush does it between its visits to the epoch */
	if (!lsm_epoch_inside())
		lsm_job_cut(job);
	job->output.unmeasured_bytes += key.len + value.len;
	if (job->output.writer == NULL)
		job_open_file(job, key);
	meta = &job->output.files[job->output.nfiles];

	if (unlikely(lsm_sst_writer_add(job->output.writer, key.data, key.len, value.data, value.len,
									&common_bytes, &err) != LSM_SST_OK))
		lsm_sst_report(ERROR, &err);
	lsm_filter_builder_add(&job->output.filter, filter_key, (uint32) common_bytes, meta->entries == 0);

	meta->entries++;
	if ((uint8) value.data[0] == LSM_TAG_PUT)
	{
		if (job->tree->ops->puts_stay)
			return;
	}
	else if (lsm_value_open(value))
		meta->flags |= LSM_FILE_HAS_PARTIAL;
	else if ((uint8) value.data[0] == LSM_TAG_DELETE)
	{
		meta->flags |= LSM_FILE_HAS_DELETE;
		job->output.ndeletes++;
	}
	xid = job->tree->ops->min_xid(value);
	if (TransactionIdIsNormal(xid) &&
		(!TransactionIdIsValid(meta->min_xid) ||
		 TransactionIdPrecedes(xid, meta->min_xid)))
		meta->min_xid = xid;
}

static void
job_log_file(LsmJob *job, uint64 number)
{
	lsm_file_log(job->tree, number, false);
	lsm_file_log(job->tree, number, true);
}

/*
 * Workers that help begin with the first file, so we begin with the last.
 */
static void
job_log_files(LsmJob *job)
{
	bool	   *helped = MemoryContextAllocZero(job->cxt, job->output.nfiles * sizeof(bool));

	job->output.logged |= lsm_file_needs_log(job->tree);
	for (int i = job->output.nfiles - 1; i >= 0; i--)
	{
		/* nothing will be published */
		if (!lsm_job_current(job))
			return;
		helped[i] = !lsm_wal_offload_reclaim(job, i);
		if (!helped[i])
			job_log_file(job, job->output.files[i].number);
	}
	for (int i = 0; i < job->output.nfiles; i++)
	{
		if (helped[i] && !lsm_wal_offload_wait(job, i))
			job_log_file(job, job->output.files[i].number);
	}
	lsm_wal_offload_end(job);
}

void
lsm_job_finish(LsmJob *job)
{
	job->input.finishing = true;
	if (job->output.writer != NULL)
		job_close_file(job);
	if (job->output.nfiles == 0)
		return;
	Assert(job->output.nstarted == job->output.nfiles);
	lsm_sync_dir(job->tree->dir);
	if (job->type == LSM_JOB_FLUSH)
		LSM_CRASH_POINT("flush_dir_synced");
	lsm_job_report_phase(job, LSM_PHASE_LOGGING);
	job_log_files(job);
}
