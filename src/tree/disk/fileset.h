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

/* A file as records say it: bytes of the chain, which outlives the set */
typedef struct LsmFileRecord
{
	uint64		number;
	const char *data;
	uint32		bytes;
} LsmFileRecord;

/*
 * What records make of a list of files.  With `base`, the list before the
 * first record is not at hand: numbers that the set does not know are taken to
 * be in that list, and noted as removed from it.
 */
typedef struct LsmFileSet
{
	LsmFileRecord *files;
	int			nfiles;
	int			room;
	HTAB	   *index;			/* by number */
	bool		base;
	uint64	   *removed;		/* of the list before the first record */
	int			nremoved;
	int			removed_room;
} LsmFileSet;

/* Bytes of the shortest record of a file: a varint for each of its fields */
#define LSM_FILE_RECORD_LEAST	11

/* About how many files will be in it. */
extern void lsm_fileset_init(LsmFileSet *set, uint32 expected, bool base);

/* Decoded files, palloc'd. */
extern LsmFileMeta *lsm_fileset_files(const LsmTree *tree, const LsmFileSet *set);

/* Append one record that adds all files of the set. */
extern void lsm_fileset_put_snapshot(StringInfo out, const LsmFileSet *set);

/* Append one record to `out`. */
extern void lsm_fileset_put_record(StringInfo out, const uint64 *removed, int nremoved,
								   const LsmFileMeta *added, int nadded);

/* What the records of a chain say, in their order.  ERRORs: DATA_CORRUPTED. */
extern void lsm_fileset_decode(const LsmTree *tree, StringInfo chain, LsmFileSet *set);

/* ERROR: the manifest is corrupt. */
extern void lsm_manifest_corrupt(const LsmTree *tree, const char *what);

#endif							/* LSM_FILESET_H */
