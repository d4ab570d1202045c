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

/* False at the end, or as soon as damage is seen.  Duplicates are given out. */
extern bool lsm_stream_merge_next(LsmStreamMerge *merge, uint64_t *fingerprint);

#endif							/* LSM_QUOTIENT_MERGE_H */
