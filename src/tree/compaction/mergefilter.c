/*-------------------------------------------------------------------------
 *
 * mergefilter.c
 *	  Filters that a compaction makes from those of its inputs, by a merge of
 *	  sorted streams, instead of from the digests: of schemes that merge.
 *
 * That is right if what goes into the output file is all of some input files
 * and nothing else: every input is inside the output's range or outside of it,
 * and no entry in the range was dropped.  (Entries that were folded into a
 * newer one of the same key do no harm, their key is still there.) An input
 * too many would only make for false positives, an input too few would lose
 * keys: so when in doubt, the filter is built.
 *
 * Takes no locks.  Between mapping and unmapping there is nothing that can
 * raise an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "tree/compaction/output_job.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/read/filecache.h"
#include "tree/read/version.h"

static inline bool
can_merge(uint8 scheme)
{
	return lsm_filter_scheme_has(scheme, LSM_FILTER_MERGES);
}

/* Everything in the source is in the output.  REQUIRES: nothing was dropped. */
static bool
source_inside(const LsmJob *job, const LsmFileMeta *meta, const LsmFile *file)
{
	/* one output: there is no other place to be */
	if (job->input.finishing && job->output.nfiles == 0)
		return true;
	if ((meta->flags & LSM_FILE_SMALLEST_CUT) || (file->flags & LSM_FILE_LARGEST_CUT))
		return false;
	return lsm_slice_compare(file->smallest,
							 lsm_slice(meta->smallest, meta->smallest_bytes)) >= 0 &&
		lsm_slice_compare(file->largest,
						  lsm_slice(job->output.last_key.data, job->output.last_key.len)) <= 0;
}

/* Nothing in the source is in the output. */
static bool
source_outside(const LsmJob *job, const LsmFileMeta *meta, const LsmFile *file)
{
	return lsm_file_before(file, lsm_slice(meta->smallest, meta->smallest_bytes)) ||
		lsm_file_after(file, lsm_slice(job->output.last_key.data, job->output.last_key.len));
}

/* The files that make up the output, or NIL. */
static List *
find_sources(const LsmJob *job, const LsmFileMeta *meta, LsmFilterScheme scheme)
{
	List	   *sources = NIL;

	if (job->input.dropped || job->input.nfiles == 0 || !can_merge(scheme))
		return NIL;
	for (int i = 0; i < job->input.nfiles; i++)
	{
		LsmFile    *file = job->input.files[i];

		if (source_inside(job, meta, file))
		{
			if (!can_merge(file->filter_scheme))
				return NIL;
			sources = lappend(sources, file);
		}
		else if (!source_outside(job, meta, file))
			return NIL;
	}
	return sources;
}

Size
lsm_job_merge_filters(LsmJob *job, const LsmFileMeta *meta,
					  const LsmFilterParams *params, void *image, Size image_bytes)
{
	List	   *sources = find_sources(job, meta, params->scheme);
	int			n = list_length(sources);
	LsmSstBlob *blobs = palloc0(Max(n, 1) * sizeof(LsmSstBlob));
	LsmFilter  *filters = palloc0(Max(n, 1) * sizeof(LsmFilter));
	LsmFilterStream *work = palloc(Max(n, 1) * sizeof(LsmFilterStream));
	LsmFilterStatus status = n > 0 ? LSM_FILTER_OK : LSM_FILTER_INVALID;
	size_t		used = 0;

	/* pages are verified one by one as they are read */
	for (int i = 0; i < n && status == LSM_FILTER_OK; i++)
	{
		LsmFile    *file = list_nth(sources, i);
		char		path[MAXPGPATH];
		LsmSstError err;
		const char *why;

		lsm_file_path(job->tree, file->number, true, path);
		if (lsm_sst_map_blob(path, &blobs[i], &err) != LSM_SST_OK)
		{
			blobs[i].data = NULL;
			status = LSM_FILTER_CORRUPT;
		}
		else
			status = lsm_filter_open(blobs[i].data, blobs[i].bytes,
									 !lsm_filter_scheme_has(file->filter_scheme, LSM_FILTER_PAGES),
									 &filters[i], &why);
		if (status == LSM_FILTER_OK && lsm_filter_mismatch(file, &blobs[i]) != NULL)
			status = LSM_FILTER_CORRUPT;
	}
	if (status == LSM_FILTER_OK)
		status = lsm_filter_merge(params, job->output.filter.keys.n, filters, n, work,
								  image, image_bytes, &used);
	for (int i = 0; i < n; i++)
	{
		/* pages that could not be read were ones to the merge */
		if (lsm_sst_blob_faulted(&blobs[i]))
			status = LSM_FILTER_CORRUPT;
		if (blobs[i].data != NULL)
			lsm_sst_unmap_blob(&blobs[i]);
	}
	list_free(sources);
	pfree(blobs);
	pfree(filters);
	pfree(work);

	if (status != LSM_FILTER_OK)
		used = 0;
#ifdef USE_ASSERT_CHECKING
	if (used > 0)
	{
		LsmFilter	filter;

		Assert(lsm_filter_open(image, used, true, &filter, NULL) == LSM_FILTER_OK);
		for (uint64 i = 0; i < job->output.filter.keys.n; i++)
			Assert(lsm_filter_probe(&filter, job->output.filter.keys.digests[i]));
	}
#endif
	if (job->input.nfiles > 0 && can_merge(params->scheme))
		ereport(DEBUG1,
				(used > 0 ?
				 errmsg_internal("lsm filter merged from %d filters", n) :
				 errmsg_internal("lsm filter built from digests")));
	return used;
}
