/*-------------------------------------------------------------------------
 *
 * level_sizes.h
 *	  How large levels are to be, as a unit test says.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_LEVEL_SIZES_H
#define LSM_LEVEL_SIZES_H

#include "tree/tree.h"

static double base_bytes;
static int	size_ratio;

double
lsm_tree_base_bytes(LsmTree *tree)
{
	return base_bytes;
}

int
lsm_tree_size_ratio(LsmTree *tree)
{
	return size_ratio;
}

#endif							/* LSM_LEVEL_SIZES_H */
