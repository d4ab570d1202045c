/*-------------------------------------------------------------------------
 *
 * repair.c
 *	  Filters that are missing or damaged are built again from their sorted
 *	  files.
 *
 * A process that cannot use a file's filter warns of it, and reads the file
 * without.  lsm_compact() looks at the filters of all files of its tree: of one
 * that is damaged it reads the sorted file's keys, writes the filter under
 * another name, makes it durable and renames it: readers meanwhile see the
 * damaged file or the new one.
 *
 * It is a step of compaction that claims the file's level (claim.c): files of
 * that level stay meanwhile, nobody else works on the same file, and it ends
 * with an edit of the list of files, in which the file takes its own place.
 * The edit is needed for what the list says of the filter, which may be another
 * one if settings have changed since the first was built (scheme and file stay
 * as they are), and it makes all sessions open the file anew
 * (lsm_version_refresh).
 *
 * Crash rules: the new filter is durable under its name before its bytes are
 * logged, and these come before the edit, so redo that begins in between finds
 * it in place.  A crash between the rename and the edit leaves a filter that
 * may not be the one the list means: damaged, as before. Never a false
 * negative: a filter is believed only if it is the one that the list means.
 *
 * A disk that is full is a WARNING, a damaged sorted file an error.
 *
 * Locking: none of its own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "tree/compaction/output_job.h"
#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/elastic/elastic.h"
#include "tree/read/filecache.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

static bool
units_are_sound(const LsmFilter *filter)
{
	LsmElastic	elastic;
	const char *why;

	if (lsm_elastic_open(filter, &elastic, &why) != LSM_FILTER_OK)
		return false;
	for (uint32 i = 0; i < elastic.segments; i++)
	{
		for (uint32 unit = 0; unit < elastic.units; unit++)
		{
			if (lsm_elastic_unit(&elastic, i, unit, true) == NULL)
				return false;
		}
	}
	return true;
}

/*
 * All of it is read.  One that cannot be read for want of memory or file
 * handles is not damaged.
 */
static bool
filter_is_damaged(LsmTree *tree, const LsmFile *file)
{
	char		path[MAXPGPATH];
	LsmSstBlob	blob;
	LsmSstError err;
	LsmFilter	filter;
	LsmFilterStatus status;
	const char *why;
	bool		damaged;

	/* scheme none has a filter file, too, which says so: lsm_verify looks for it */
	lsm_file_path(tree, file->number, true, path);
	if (lsm_sst_map_blob(path, &blob, &err) != LSM_SST_OK)
		return !lsm_sst_lacks_resources(&err);
	status = lsm_filter_open(blob.data, blob.bytes, true, &filter, &why);
	damaged = (status != LSM_FILTER_OK && status != LSM_FILTER_UNKNOWN) ||
		lsm_filter_mismatch(file, &blob) != NULL;
	if (!damaged && status == LSM_FILTER_OK &&
		lsm_filter_scheme_has(filter.scheme, LSM_FILTER_UNITS))
		damaged = !units_are_sound(&filter);
	damaged = damaged || lsm_sst_blob_faulted(&blob);
	lsm_sst_unmap_blob(&blob);
	return damaged;
}

static uint32
common_bytes(LsmSlice a, LsmSlice b)
{
	uint32		n = 0;

	while (n < a.len && n < b.len && a.data[n] == b.data[n])
		n++;
	return n;
}

/* The keys of the sorted file go to the job. */
static void
collect_keys(LsmJob *job, const LsmFile *file, LsmSstIter *iter)
{
	LsmSstError err;
	uint64		entries = 0;

	lsm_sst_check(lsm_sst_iter_first(iter, &err), &err);
	while (lsm_sst_iter_valid(iter))
	{
		size_t		len;
		const void *data = lsm_sst_iter_key(iter, &len);
		LsmSlice	key = lsm_slice(data, (uint32) len);
		LsmSlice	last = lsm_slice(job->output.last_key.data, job->output.last_key.len);

		lsm_filter_builder_add(&job->output.filter, lsm_filter_key(job->tree, key),
							   common_bytes(last, key), entries == 0);
		resetStringInfo(&job->output.last_key);
		appendBinaryStringInfo(&job->output.last_key, key.data, key.len);
		if (++entries % 1000 == 0)
		{
			CHECK_FOR_INTERRUPTS();
			lsm_job_report_entries(job, (int64) entries);
		}
		lsm_sst_check(lsm_sst_iter_next(iter, &err), &err);
	}
	if (entries != file->entries)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("sorted file " UINT64_FORMAT " of LSM tree \"%s\" has " UINT64_FORMAT " entries, expected " UINT64_FORMAT,
						file->number, job->tree->dir, entries, file->entries)));
}

static void
read_sorted_file(LsmJob *job, const LsmFile *file)
{
	LsmSstReader *reader = lsm_file_open_sorted(job->tree, file);
	LsmSstIter *volatile iter = NULL;
	LsmSstIter *opened;
	LsmSstError err;

	PG_TRY();
	{
		lsm_sst_check(lsm_sst_iter_open(reader, &opened, &err), &err);
		iter = opened;
		collect_keys(job, file, opened);
	}
	PG_FINALLY();
	{
		if (iter != NULL)
			lsm_sst_iter_close(iter);
		lsm_sst_close(reader);
	}
	PG_END_TRY();
}

/* In the damaged one's place, durably.  False, with a WARNING: that failed. */
static bool
write_filter(LsmTree *tree, uint64 number, const void *image, Size bytes)
{
	char		path[MAXPGPATH];
	char		temporary[MAXPGPATH];
	LsmSstError err;
	struct stat st;

	lsm_file_path(tree, number, true, path);
	lsm_filter_temporary_path(tree, number, temporary);
	(void) unlink(temporary);	/* what a crash left */
	if (lsm_sst_write_blob(temporary, pg_file_create_mode, image, bytes, &err) != LSM_SST_OK)
	{
		lsm_sst_report(WARNING, &err);
		return false;
	}
	LSM_CRASH_POINT("repair_written");
	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
		(void) rmdir(path);
	if (rename(temporary, path) < 0)
	{
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not rename file \"%s\" to \"%s\": %m", temporary, path)));
		(void) unlink(temporary);
		return false;
	}
	lsm_sync_dir(tree->dir);
	LSM_CRASH_POINT("repair_renamed");
	return true;
}

/*
 * REQUIRES: a job of this process has claimed the file's level; the file is in
 * the job's version.
 */
static void
rebuild_filter(LsmJob *job, const LsmFile *file)
{
	LsmTree    *tree = job->tree;
	LsmFileMeta meta;
	LsmEdit		edit = {0};
	uint64		number = file->number;
	const LsmJobInput input = {file->level, 1, file->entries, file->file_bytes};
	Size		bytes;
	LsmFilterScheme scheme;
	void	   *chunk;
	void	   *image;

	Assert(lsm_claim_covers(job->ctl, LSM_LEVEL_BIT(file->level)) && job->version != NULL);
	LSM_CRASH_POINT("repair_started");
	lsm_job_report_begin(job, LSM_PROGRESS_REPAIR, &input);
	lsm_job_report_phase(job, LSM_PHASE_READING);
	lsm_filter_builder_set_scheme(&job->output.filter, tree, (LsmFilterScheme) file->filter_scheme);
	job->output.keeps_scheme = true;
	read_sorted_file(job, file);
	lsm_file_meta(file, &meta);
	image = lsm_job_filter_image(job, &meta, &scheme, &bytes, &chunk);
	Assert(scheme == file->filter_scheme);
	meta.filter_bytes = bytes;
	meta.filter_check = lsm_filter_check(image, bytes);
	lsm_job_report_phase(job, LSM_PHASE_WRITING);
	if (!write_filter(tree, number, image, bytes))
		return;
	pfree(chunk);
	lsm_file_log(tree, number, true);

	edit.nremoved = edit.nadded = 1;
	edit.removed = &number;
	edit.added = &meta;
	if (!lsm_publish(job, &edit, NULL))
		return;

	/* what was loaded of the damaged one */
	lsm_elastic_forget(tree->keyspace_id, number);
	ereport(LOG,
			(errmsg("built the filter of sorted file " UINT64_FORMAT " of LSM tree \"%s\" again",
					number, tree->dir)));
}

void
lsm_repair_file(LsmTree *tree, uint64 number)
{
	LsmJob	   *job = lsm_job_begin(tree, LSM_JOB_COMPACT, 1, 0);
	MemoryContext old = MemoryContextSwitchTo(job->cxt);
	const LsmFile *file;

	lsm_job_set_version(job, lsm_version_refresh(tree));
	file = lsm_version_find_file(job->version, number);
	if (file != NULL && filter_is_damaged(tree, file))
		rebuild_filter(job, file);
	MemoryContextSwitchTo(old);
	lsm_job_end(job);
}
