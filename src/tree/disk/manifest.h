/*-------------------------------------------------------------------------
 *
 * manifest.h
 *	  The list of sorted files, in pages of the main fork.
 *
 * A chain of manifest pages starting at meta->manifest_root: a sequence of
 * edit records, first of which is a snapshot.  An edit appends one record;
 * when the chain has grown past twice what a snapshot needs, a new chain is
 * written (pages not yet reachable, each its own WAL record) and the root
 * flips in one record.
 *
 * Locking: the metapage's content lock, exclusive for an edit (manifest.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_MANIFEST_H
#define LSM_MANIFEST_H

#include "access/xlogdefs.h"

#include "tree/disk/disk.h"

#define LSM_FENCE_BYTES		256

#define LSM_FILE_HAS_PARTIAL	0x01	/* holds values that may need what is below
										 * them: lsm_value_open() */
#define LSM_FILE_HAS_DELETE		0x02	/* holds DELETE values */
#define LSM_FILE_SMALLEST_CUT	0x04	/* fence truncated to LSM_FENCE_BYTES */
#define LSM_FILE_LARGEST_CUT	0x08	/* a key that equals the fence in its
										 * length and goes on may be inside */
#define LSM_FILE_HAS_DYING		0x10	/* holds values with
										 * LsmFateContext.dying */
#define LSM_FILE_HAS_CHECKS		0x20	/* sst_check, filter_check, written_as
										 * are set */

/* How data blocks are compressed: LsmCompression + 1, 0 in files of old */
#define LSM_FILE_COMPRESSION_SHIFT	6
#define LSM_FILE_COMPRESSION_MASK	0xC0

#define LSM_FILE_MANY_DELETES	0x100	/* many of its entries are DELETEs:
										 * plan.c */

struct LsmFileMeta
{
	uint64		number;
	uint64		run;			/* level 0: generation; else 0 */
	uint64		entries;
	uint64		file_bytes;
	uint64		filter_bytes;
	TransactionId min_xid;		/* invalid if none */
	uint8		level;
	uint8		filter_scheme;
	uint16		flags;
	uint32		sst_check;		/* of LsmSstProperties.tail_digest */
	uint32		filter_check;	/* of the filter's header, which has the
								 * payload's checksum */
	uint32		written_as;		/* lsm_tree_written_as() of its compression */
	uint16		smallest_bytes;
	uint16		largest_bytes;
	char		smallest[LSM_FENCE_BYTES];
	char		largest[LSM_FENCE_BYTES];
};

typedef struct LsmEdit
{
	int			nadded;
	LsmFileMeta *added;
	int			nremoved;		/* a file in both lists moves */
	uint64	   *removed;
	uint64		flushed_generation; /* 0: unchanged */
	TransactionId conflict_xid; /* newest xid dropped or frozen, or invalid */
	bool		rewrite;		/* a new chain in any case */
} LsmEdit;

/* File numbers in order, for qsort() and bsearch() */
static inline int
lsm_number_compare(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

/* All live files, palloc'd, any order. */
extern LsmFileMeta *lsm_manifest_read(LsmTree *tree, int *nfiles);

/*
 * Where a reader has come to: behind the last record of a chain.  All zeroes:
 * nothing was read yet.
 */
typedef struct LsmManifestPlace
{
	uint64		manifest_id;
	uint64		version_no;
	BlockNumber block;			/* the tail then */
	uint32		offset;			/* its pd_lower then */
	uint32		pages;			/* of the chain up to the tail */
	uint32		files;			/* live ones */
} LsmManifestPlace;

typedef struct LsmManifestChange
{
	bool		whole;			/* `files` are all live ones; else those that
								 * came */
	LsmFileMeta *files;
	int			nfiles;
	uint64	   *removed;		/* a file in both has moved */
	int			nremoved;
	LsmManifestPlace place;		/* now */
	uint64		flushed_generation; /* memtables up to it are in the files */
} LsmManifestChange;

/*
 * What has become of the list since it was read up to *since, or all of it if
 * there is another chain by now.  Everything is palloc'd.
 */
extern void lsm_manifest_read_change(LsmTree *tree, const LsmManifestPlace *since,
									 LsmManifestChange *change);

/*
 * Numbers for n more files, which no one else will be given: the metapage's
 * limit is raised and logged if need be.  REQUIRES: relation cannot go away;
 * block loaded, or being loaded by the caller.
 */
extern void lsm_manifest_reserve(LsmTree *tree, uint64 n);

/*
 * Write and log the edit, update the metapage (flushed generation, limits from
 * ctl, version_no + 1) in the same record.  Sets ctl->files.version_no under the
 * metapage's lock, and returns the record's LSN (Invalid if not logged).
 * REQUIRES: relation cannot go away; files complete and durable; what is
 * removed is in the list, and what is added is not (lsm_publish() looks).
 */
extern XLogRecPtr lsm_manifest_edit(LsmTree *tree, const LsmEdit *edit);

#endif
