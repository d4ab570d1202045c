/*-------------------------------------------------------------------------
 *
 * rules.h
 *	  What is known of an index as long as its relcache entry is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_RULES_H
#define LSM_RULES_H

#include "index/index.h"

/* Why what is made of strings now is not what the index was built with */
typedef enum LsmMismatch
{
	LSM_MISMATCH_NONE,
	LSM_MISMATCH_UNKNOWN,		/* types are not what they were */
	LSM_MISMATCH_NOT_THERE,		/* the locale of a collation is not installed */
	LSM_MISMATCH_LAYOUT,		/* codes of the kind that a column has cannot be
								 * made */
	LSM_MISMATCH_VERSION,		/* another version of ICU or of the C library */
	LSM_MISMATCH_SAMPLE,		/* other keys of some strings */
	LSM_MISMATCH_FUNCTIONS		/* other support functions make codes */
} LsmMismatch;

/* In rd_amcache.  Reading catalogs may empty that. */
typedef struct LsmIndexCache
{
	bool		has_making;
	bool		has_mismatch;	/* while lsm_classes_stamp() is */
	bool		has_leading;
	bool		warned;
	LsmMismatch mismatch;
	uint64		classes_stamp;
	LsmKeyMaking making;
	uint64		leading;
} LsmIndexCache;

extern LsmIndexCache *lsm_index_cache(Relation index);

#endif							/* LSM_RULES_H */
