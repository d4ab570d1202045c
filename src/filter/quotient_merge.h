/*-------------------------------------------------------------------------
 *
 * quotient_merge.h
 *	  Any number of quotient and cascade filters as one sorted stream of
 *	  fingerprints.  For src/filter and the benches.
 *
 * The inputs are kept as a heap in the caller's memory.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_QUOTIENT_MERGE_H
#define LSM_QUOTIENT_MERGE_H

#include "filter/quotient.h"

typedef struct LsmStreamMerge
{
	LsmFilterStream *streams;	/* heap: the least fingerprint first */
	int			nstreams;
	uint32_t	fingerprint_bits;
	bool		damaged;		/* an input was; what came out is of no use */
} LsmStreamMerge;

/* `work` needs room for all inputs that will be added. */
extern void lsm_stream_merge_open(LsmStreamMerge *merge, LsmFilterStream *work,
								  uint32_t fingerprint_bits);

/* False: the input's fingerprints are shorter than the output's. */
extern bool lsm_stream_merge_add_quotient(LsmStreamMerge *merge, const LsmQuotient *input);
/* REQUIRES: the whole image is in memory.  False also for other schemes. */
extern bool lsm_stream_merge_add_filter(LsmStreamMerge *merge, const LsmFilter *input);

/*
 * A cascade filter whose pages are not in memory: read_page() returns a page
 * that stays there until the next call, or NULL for one that cannot be read.
 */
typedef const uint8_t *(*LsmReadPage) (void *arg, uint64_t page_no);
extern bool lsm_stream_merge_add_pages(LsmStreamMerge *merge, const LsmFilter *input,
									   LsmReadPage read_page, void *arg);

/* False at the end, or as soon as damage is seen.  Duplicates are given out. */
extern bool lsm_stream_merge_next(LsmStreamMerge *merge, uint64_t *fingerprint);

/* ---- cascade.c ---- */

/*
 * Gives ascending fingerprints, cut to the length they are wanted in; false at
 * the end.
 */
typedef bool (*LsmFingerprintNext) (void *arg, uint64_t *fingerprint);

/*
 * Write a cascade filter page by page: place_page() returns zeroed memory for
 * a page, and the one before is finished then.  False: more fingerprints than
 * fit in the pages' range.
 */
typedef uint8_t *(*LsmPlacePage) (void *arg, uint64_t page_no);
extern bool lsm_cascade_write_pages(const LsmFilter *filter, LsmFingerprintNext next, void *arg,
									LsmPlacePage place_page, void *place_arg);

#endif							/* LSM_QUOTIENT_MERGE_H */
