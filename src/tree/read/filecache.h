/*-------------------------------------------------------------------------
 *
 * filecache.h
 *	  Sorted files and filters this process has open.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_FILECACHE_H
#define LSM_FILECACHE_H

#include "storage/fd.h"

#include "tree/read/version.h"

/*
 * Never freed, only reused: LsmFile.open may point to one that was closed
 * since, which the serial tells.
 */
typedef struct LsmOpenFile
{
	uint64		keyspace_id;
	uint64		number;
	uint64		life;			/* lsm_tree_life() when it was opened */
	uint64		serial;			/* changes when the file is closed or
								 * forgotten */
	uint64		last_operation; /* lsm_filecache_operation at the last use */
	uint64		seen_operation; /* last_operation when the hand came by */
	int			at;				/* in the array of open files */
	int			pins;			/* iterators handed out */
	uint32		filter_check;	/* as the list had it */
	uint8		level;			/* of the file in the version that used it
								 * last */
	bool		forgotten;		/* no longer found; closed with the last pin */
	bool		has_filter;		/* a filter that can say no */
	bool		filter_damaged; /* there should be one, and it is of no use */
	int			hit_rate;		/* of lookups, see candidates.h */
	uint64		blocks_counted; /* of lsm_sst_blocks_read(reader) */
	uint64		pages_counted;	/* of lsm_sst_pages_read(reader) */
	LsmSstReader *reader;
	LsmSstIter *idle_iter;		/* one kept for the next user; or NULL */
	LsmSstBlob	blob;
	uint64		faults_seen;	/* lsm_sst_blob_faults() when last looked at */
	LsmFilter	filter;

	/* filestats.c: what became of questions to the filter, not yet published */
	LsmFilterCounts counts;
	bool		counts_pending;
	dlist_node	counts_node;
	struct FileStat *counts_entry;	/* perhaps another file's by now; or NULL */
	Oid			dboid;
	bool		ones_say_no;	/* to this filter, a page that cannot be read
								 * (all ones) is no "maybe" */
	bool		paged;			/* filter is read page by page from page_file,
								 * not mapped */
	File		page_file;
	ino_t		page_inode;		/* of it, when its header was looked at */
	struct LsmElasticView *elastic; /* elastic filter: elastic.h; else NULL */
} LsmOpenFile;

/*
 * Counts calls of the tree's door that use files.  What was used by the present
 * one is not closed to make room, so that pointers stay good until its end.
 */
extern uint64 lsm_filecache_operation;

static inline void
lsm_filecache_begin(void)
{
	lsm_filecache_operation++;
}

/* ERRORs naming the file: missing, corrupt, unreadable. */
extern LsmOpenFile *lsm_file_open_slow(LsmTree *tree, LsmFile *file);

/*
 * The open file, good until the next lsm_filecache_begin() or, with an iterator
 * acquired, until that is released.  REQUIRES: inside the epoch with
 * `file` of the current version (or owner of the compaction).
 */
static inline LsmOpenFile *
lsm_file_open(LsmTree *tree, LsmFile *file)
{
	LsmOpenFile *open = file->open;

	if (likely(open != NULL && open->serial == file->open_serial))
	{
		open->last_operation = lsm_filecache_operation;
		return open;
	}
	return lsm_file_open_slow(tree, file);
}

/*
 * The file could not be opened.  If it is not the one that the list means, it
 * is not one of another format, but damaged.
 */
extern void lsm_file_settle_error(const LsmFile *file, LsmSstError *err);

/*
 * NULL, or what tells that the file of this name is not the one that the file
 * list means: another file has been copied in its place.
 */
extern const char *lsm_file_mismatch(const LsmFile *file, const LsmSstReader *reader);
extern const char *lsm_filter_mismatch(const LsmFile *file, const LsmSstBlob *blob);
extern uint32 lsm_filter_check(const void *image, size_t bytes);

/* Open a sorted file without the cache.  ERRORs as lsm_file_open(). */
extern LsmSstReader *lsm_file_open_sorted(LsmTree *tree, const LsmFile *file);

/* An iterator of one's own; pins the file. */
extern LsmSstIter *lsm_file_acquire_iter(LsmOpenFile *open);

/* Never fails. */
extern void lsm_file_release_iter(LsmOpenFile *open, LsmSstIter *iter);

/*
 * The filter was found to be missing or damaged: from now on the file is read
 * without it, until lsm_compact() builds it again.  A WARNING says why (`why` may be
 * NULL), once.
 */
extern void lsm_file_filter_damaged(LsmOpenFile *open, const char *message, const char *why);

/*
 * Open again, when next used, those files of a keyspace whose filters were
 * damaged.
 */
extern void lsm_filecache_forget_damaged(uint64 keyspace_id);

/*
 * Ask a paged filter, by reading the one page that knows, which counts as a
 * block.  If that is unreadable or corrupt, the filter is damaged.
 */
extern bool lsm_file_probe_page(LsmTree *tree, LsmOpenFile *open, LsmDigest digest);

/*
 * After a probe of a mapped filter that said maybe, or has ones_say_no: were pages
 * of it found unreadable?  Then it is not used any more.
 */
extern bool lsm_file_look_for_faults(LsmTree *tree, LsmOpenFile *open);

static inline bool
lsm_file_filter_faulted(LsmTree *tree, LsmOpenFile *open)
{
	return unlikely(lsm_sst_blob_faults() != open->faults_seen) &&
		lsm_file_look_for_faults(tree, open);
}

/* Count the blocks read since the last call. */
extern void lsm_file_count_blocks(LsmTree *tree, LsmOpenFile *open);

/* ---- filestats.c ---- */

extern void lsm_filestats_pend(LsmOpenFile *open);
extern void lsm_filestats_publish_file(LsmOpenFile *open);
extern void lsm_filestats_read(uint64 keyspace_id, uint64 number,
							   LsmFilterCounts *counts);

/* Where to count; published at the end of the transaction. */
static inline LsmFilterCounts *
lsm_file_counts(LsmOpenFile *open)
{
	if (unlikely(!open->counts_pending))
		lsm_filestats_pend(open);
	return &open->counts;
}

/* The file is no longer part of the tree: close it when no one uses it. */
extern void lsm_filecache_forget(uint64 keyspace_id, uint64 number);

/*
 * The same, if the filter may be another one than the list has now.  `edited`:
 * the file was taken from the list and put into it again.
 */
extern void lsm_filecache_forget_other(const LsmFile *file, uint64 keyspace_id, bool edited);

/*
 * The open files, in an order that changes: their number; whether the i-th
 * belongs to the keyspace, and its number then.
 */
extern int	lsm_filecache_count(void);
extern bool lsm_filecache_nth(int i, uint64 keyspace_id, uint64 *number);

static inline void
lsm_sst_check(LsmSstStatus status, const LsmSstError *err)
{
	if (unlikely(status != LSM_SST_OK))
		lsm_sst_report(ERROR, err);
}

#endif							/* LSM_FILECACHE_H */
