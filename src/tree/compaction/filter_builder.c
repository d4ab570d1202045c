/*-------------------------------------------------------------------------
 *
 * filter_builder.c
 *	  The filter of the file that a job writes: what is noted of its keys, and
 *	  the image that is made of that.
 *
 * Keys come in their order, so equal ones stand together, as do those of one
 * leading part and those of one segment.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "tree/compaction/filter_builder.h"
#include "tree/control/control.h"

void
lsm_filter_builder_begin(LsmFilterBuilder *builder, LsmTree *tree, const LsmFilterParams *params)
{
	memset(builder, 0, sizeof(*builder));
	builder->cxt = CurrentMemoryContext;
	builder->params = *params;
	builder->leading_bytes = tree->ops->leading_bytes;
	initStringInfo(&builder->fence_bytes);
	lsm_filter_builder_set_scheme(builder, tree, params->scheme);
}

void
lsm_filter_builder_set_scheme(LsmFilterBuilder *builder, LsmTree *tree, LsmFilterScheme scheme)
{
	/* read once: another process may set the options meanwhile */
	builder->leading = lsm_filter_scheme_leads(scheme) && builder->leading_bytes != NULL ?
		tree->ctl->options.leading : 0;
	builder->params.scheme = scheme;
	builder->params.leading = lsm_leading_columns(builder->leading);
	builder->empty = lsm_filter_scheme_has(scheme, LSM_FILTER_EMPTY);
	builder->segment_keys = lsm_filter_segment_keys(&builder->params);
}

/* ---- noting ---- */

/* The digest of the bytes, in an array that grows */
static void
append_digest(LsmFilterBuilder *builder, LsmDigests *to, LsmSlice bytes)
{
	if (to->n == to->room)
	{
		to->room = Max(UINT64CONST(65536), to->room * 2);
		if (to->digests == NULL)
			to->digests = MemoryContextAllocHuge(builder->cxt, to->room * sizeof(LsmDigest));
		else
			to->digests = repalloc_huge(to->digests, to->room * sizeof(LsmDigest));
	}
	to->digests[to->n++] = lsm_digest_key(bytes.data, bytes.len);
}

/*
 * A segment begins with the filter key: note what tells it from the one before,
 * with which it has this many bytes in common.
 */
static void
add_fence(LsmFilterBuilder *builder, LsmSlice filter_key, uint32 common_bytes)
{
	if (builder->nfences == builder->max_fences)
	{
		uint32		max = Max(64, builder->max_fences * 2);

		if (builder->fence_ends == NULL)
			builder->fence_ends = MemoryContextAlloc(builder->cxt, max * sizeof(uint32));
		else
			builder->fence_ends = repalloc_huge(builder->fence_ends, max * sizeof(uint32));
		builder->max_fences = max;
	}
	appendBinaryStringInfo(&builder->fence_bytes, filter_key.data,
						   Min(common_bytes + 1, filter_key.len));
	builder->fence_ends[builder->nfences++] = builder->fence_bytes.len;
}

/*
 * The key's leading part, if it is not the one of the key before.  No leading
 * part is the beginning of another one.
 */
static void
add_leading(LsmFilterBuilder *builder, LsmSlice filter_key, uint32 common_bytes, bool first)
{
	LsmSlice	part;

	if (!first && builder->last_part_bytes > 0 && common_bytes >= builder->last_part_bytes)
		return;
	part = lsm_slice(filter_key.data, builder->leading_bytes(builder->leading, filter_key));
	builder->last_part_bytes = part.len;
	if (part.len > 0)
		append_digest(builder, builder->segment_keys > 0 ? &builder->parts : &builder->keys, part);
}

void
lsm_filter_builder_add(LsmFilterBuilder *builder, LsmSlice filter_key, uint32 common_bytes,
					   bool first)
{
	LsmDigests *keys = &builder->keys;
	bool		same = !first && common_bytes >= filter_key.len &&
		builder->last_key_bytes == filter_key.len;

	if (!same && !builder->empty)
	{
		if (builder->segment_keys > 0 && keys->n > 0 && keys->n % builder->segment_keys == 0)
			add_fence(builder, filter_key, Min(common_bytes, builder->last_key_bytes));
		append_digest(builder, keys, filter_key);
		if (builder->leading != 0)
			add_leading(builder, filter_key, common_bytes, first);
	}
	builder->last_key_bytes = filter_key.len;
}

void
lsm_filter_builder_clear(LsmFilterBuilder *builder)
{
	builder->keys.n = builder->parts.n = 0;
	builder->nfences = 0;
	resetStringInfo(&builder->fence_bytes);
}

/* ---- the image ---- */

static LsmFilterNotes
builder_notes(const LsmFilterBuilder *builder)
{
	LsmFilterNotes notes;

	notes.bytes = (const uint8 *) builder->fence_bytes.data;
	notes.ends = builder->fence_ends;
	notes.n = builder->nfences;
	notes.leading = builder->parts.digests;
	notes.nleading = builder->parts.n;
	return notes;
}

pg_noreturn static void
fail(const LsmFilterBuilder *builder, const LsmFilterParams *params, const char *what)
{
	elog(ERROR, "cannot %s an lsm filter: scheme %d, %g bits per key, " UINT64_FORMAT " keys",
		 what, (int) params->scheme, params->bits_per_key, builder->keys.n);
}

Size
lsm_filter_builder_bytes(const LsmFilterBuilder *builder, const LsmFilterParams *params)
{
	LsmFilterNotes notes = builder_notes(builder);
	Size		bytes = lsm_filter_image_bytes(params, builder->keys.n, &notes);

	if (bytes == 0)
		fail(builder, params, "size");
	return bytes;
}

void
lsm_filter_builder_write(LsmFilterBuilder *builder, const LsmFilterParams *params,
						 void *image, Size image_bytes)
{
	LsmFilterNotes notes = builder_notes(builder);
	void	   *work = palloc(Max(lsm_filter_work_bytes(params, builder->keys.n), 1));

	if (lsm_filter_build(params, builder->keys.digests, builder->keys.n, &notes, work,
						 image, image_bytes) != LSM_FILTER_OK)
		fail(builder, params, "build");
	pfree(work);
}
