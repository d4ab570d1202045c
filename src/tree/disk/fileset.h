/*-------------------------------------------------------------------------
 *
 * fileset.h
 *	  A set of files by number, and the records of a manifest that add and
 *	  remove them.
 *
 * Memory: the context that is current at lsm_fileset_init().
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_FILESET_H
#define LSM_FILESET_H

#include "lib/stringinfo.h"
#include "utils/hsearch.h"

#include "tree/disk/manifest.h"

/* index by number */
typedef struct LsmFileSet
{
	LsmFileMeta *files;
	int			nfiles;
	int			room;
	HTAB	   *index;
} LsmFileSet;

extern void lsm_fileset_init(LsmFileSet *set);

/* False if the number is there already. */
extern bool lsm_fileset_add(LsmFileSet *set, const LsmFileMeta *file);

/* False if there is no such number. */
extern bool lsm_fileset_remove(LsmFileSet *set, uint64 number);

/* Append one record to `out`. */
extern void lsm_fileset_put_record(StringInfo out, const uint64 *removed, int nremoved,
								   const LsmFileMeta *added, int nadded);

/* What the records of a chain say, in their order.  ERRORs: DATA_CORRUPTED. */
extern void lsm_fileset_decode(const LsmTree *tree, StringInfo chain, LsmFileSet *set);

/* ERROR: the manifest is corrupt. */
extern void lsm_manifest_corrupt(const LsmTree *tree, const char *what);

#endif							/* LSM_FILESET_H */
