/*-------------------------------------------------------------------------
 *
 * keyset.h
 *	  Stamps and locks of several keys of one tree, as LsmStamp and
 *	  lsm_key_lock() of one (keylock.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_KEYSET_H
#define LSM_KEYSET_H

#include "tree/tree.h"

typedef struct LsmKeySet
{
	int			n;
	LsmDigest	digests[LSM_MAX_ABSENT];
	uint16		partitions[LSM_MAX_ABSENT];
	uint64		counters[LSM_MAX_ABSENT];
	uint64		set_stamp;
	int			nlocked;
	uint16		locked[LSM_MAX_ABSENT]; /* partitions, ascending */
} LsmKeySet;

extern void lsm_keyset_take(LsmTree *tree, LsmKeySet *set);
extern bool lsm_keyset_lock(LsmTree *tree, LsmKeySet *set);
extern void lsm_keyset_unlock(LsmKeySet *set, bool changed);

#endif							/* LSM_KEYSET_H */
