/*-------------------------------------------------------------------------
 *
 * filter_builder.h
 *	  The filter of the file that a job writes: what is noted of its keys, and
 *	  the image that is made of that.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_FILTER_BUILDER_H
#define LSM_FILTER_BUILDER_H

#include "lib/stringinfo.h"

#include "tree/tree.h"

typedef struct LsmDigests
{
	LsmDigest  *digests;
	uint64		n;
	uint64		room;
} LsmDigests;

typedef struct LsmFilterBuilder
{
	MemoryContext cxt;
	LsmFilterParams params;
	uint64		leading;		/* LsmTreeOptions.leading if the filter is to
								 * know leading columns, else 0 */
	uint32		(*leading_bytes) (uint64 leading, LsmSlice filter_key);
	bool		empty;			/* nothing needs to be noted */
	uint32		segment_keys;	/* 0: there are no segments */
	LsmDigests	keys;			/* the file's distinct filter keys, and without
								 * segments their distinct leading parts */
	LsmDigests	parts;			/* leading parts, with segments */
	StringInfoData fence_bytes; /* where segments begin */
	uint32	   *fence_ends;
	uint32		nfences;
	uint32		max_fences;
	uint32		last_key_bytes; /* of the entry added last */
	uint32		last_part_bytes;
} LsmFilterBuilder;

/* In the current memory context, which may go without further ado */
extern void lsm_filter_builder_begin(LsmFilterBuilder *builder, LsmTree *tree,
									 const LsmFilterParams *params);

/*
 * Filters are to be of this scheme: with leading columns, if the tree's are
 * and the scheme allows it.  REQUIRES: no key was added.
 */
extern void lsm_filter_builder_set_scheme(LsmFilterBuilder *builder, LsmTree *tree,
										  LsmFilterScheme scheme);

/*
 * The key of the file's next entry, which has this many bytes in common with
 * the entry before, if this is not the `first`.
 */
extern void lsm_filter_builder_add(LsmFilterBuilder *builder, LsmSlice filter_key,
								   uint32 common_bytes, bool first);

/*
 * Bytes of the image of a filter with these parameters; and the image, which has
 * them.  `params` are those of the builder, but for bits per key, or another
 * scheme without segments.
 */
extern Size lsm_filter_builder_bytes(const LsmFilterBuilder *builder,
									 const LsmFilterParams *params);
extern void lsm_filter_builder_write(LsmFilterBuilder *builder, const LsmFilterParams *params,
									 void *image, Size image_bytes);

/* The file is finished: for the next one. */
extern void lsm_filter_builder_clear(LsmFilterBuilder *builder);

#endif							/* LSM_FILTER_BUILDER_H */
