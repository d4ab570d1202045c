/*-------------------------------------------------------------------------
 *
 * page.h
 *	  Pages of a tree's main fork: formats, access, allocation (page.c), the
 *	  metapage (metapage.c).
 *
 * Block 0 is the metapage.  Every other page carries an LsmPageOpaque in its
 * special space which, together with the metapage, tells whether the page is
 * free: a log page is free when its generation <= flushed generation, a
 * manifest page when its manifest id differs from the metapage's.  A new
 * (zero) page is free.
 *
 * Locking: the lock order stands in disk.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_PAGE_H
#define LSM_PAGE_H

#include "storage/block.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

#include "tree/disk/log_entry.h"
#include "tree/tree.h"

#define LSM_META_MAGIC		0x4C534D54	/* "LSMT" */

/*
 * Formats of what hangs on a metapage: log pages, manifest, values.  3: table
 * trees have DELETE values.  4: keys are made by rules that the metapage
 * names.  5: so is what the environment did to them; the metapage has a
 * checksum, log pages have heads, and frozen rows may keep their xmin.  6: rows
 * may have several versions (tags VERSION and CHAIN); before the first one is
 * logged, lsm_tree_require_format() has made the metapage's version this one.
 * Read from OLDEST on; whoever writes the metapage makes it VERSION.
 */
#define LSM_META_VERSION	6
#define LSM_META_OLDEST		2
#define LSM_META_CHECKED	5	/* from here on, whatever else will follow */

/*
 * The first page of a generation that is not flushed yet.  One may be missing,
 * after a crash, but none is wrong.
 */
typedef struct LsmLogRoot
{
	uint64		generation;
	BlockNumber block;
	uint32		unused;
} LsmLogRoot;

#define LSM_LOG_ROOTS		6

typedef struct LsmMetaPage
{
	uint32		magic;
	uint32		format_version;
	uint64		keyspace_id;	/* 0 in an init fork */
	Oid			dboid;
	Oid			spcoid;
	Oid			relfilenode;
	uint32		kind;			/* LsmKind */
	uint64		flushed_generation;
	uint64		seq_limit;		/* every seq of a flushed generation is below */
	uint64		row_limit;		/* every row number in a flushed generation is
								 * below */
	uint64		next_file;		/* every file number ever handed out is below */
	uint64		version_no;		/* counts edits */
	uint64		manifest_id;	/* current manifest */
	BlockNumber manifest_root;	/* first page; Invalid: no files */
	BlockNumber manifest_tail;	/* page the next edit appends to */
	uint32		manifest_pages;
	uint32		manifest_files; /* live files */
	LsmKeyRules rules;			/* zeroes up to version 3 */
	uint32		crc;			/* zero up to version 4, as is what follows */
	LsmLogRoot	log_roots[LSM_LOG_ROOTS];	/* of generations that are flushed,
											 * places are free */
	LsmKeyOrigin origin;
} LsmMetaPage;

/* Up to version 3.  Behind it the page has zeroes. */
#define LSM_META_OLD_BYTES	offsetof(LsmMetaPage, rules)

/*
 * The checksum, CRC-32C, is that of this many bytes of the page's content, taken
 * with zeroes in place of the checksum.  Behind LsmMetaPage they are zeroes.
 */
#define LSM_META_BYTES		1000

StaticAssertDecl(sizeof(LsmMetaPage) <= LSM_META_BYTES, "the checksum covers the metapage");

#define LSM_PAGE_LOG		0x4C47
#define LSM_PAGE_MANIFEST	0x4D46

typedef struct LsmPageOpaque
{
	uint64		owner;			/* generation (log) or manifest id */
	BlockNumber next;			/* manifest: next page; log: continuation of
								 * the last entry, else Invalid */
	uint16		flags;
	uint16		type;			/* LSM_PAGE_*; last, like other AMs' page ids */
} LsmPageOpaque;

#define LSM_PAGE_CONTINUES	0x0001	/* log: page begins in the middle of an
									 * entry */
#define LSM_PAGE_HEADED		0x0002	/* log: page begins with an LsmLogHead */

extern Buffer lsm_page_read(LsmTree *tree, BlockNumber block);

/*
 * An exclusively locked, pinned page that is free: found or by extension.
 * Content undefined: initialise it with WILL_INIT.  REQUIRES: no content lock
 * held.
 */
extern Buffer lsm_page_allocate(LsmTree *tree);

/*
 * The same without waiting for others who allocate, and without disk space: or
 * invalid.
 */
extern Buffer lsm_page_reuse(LsmTree *tree);

/*
 * Add n free pages to the fork, if none are known to be free.  ERRORs with disk
 * full; what was added by then stays.  REQUIRES: a lock on the relation; no
 * content lock held.
 */
extern void lsm_page_add_free(LsmTree *tree, int n);
extern bool lsm_tree_needs_wal(const LsmTree *tree);

/* Pinned metapage, locked in `mode`, checked. */
extern Buffer lsm_meta_read(LsmTree *tree, int mode, LsmMetaPage **meta);

/* Bytes of a log or manifest page that hold content */
#define LSM_PAGE_BYTES \
	(BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - MAXALIGN(sizeof(LsmPageOpaque)))
#define LSM_PAGE_START	MAXALIGN(SizeOfPageHeaderData)

static inline LsmPageOpaque *
lsm_page_opaque(Page page)
{
	return (LsmPageOpaque *) PageGetSpecialPointer(page);
}

/* The head of a log page that has one, and where entries begin */
static inline LsmLogHead *
lsm_page_head(Page page)
{
	return lsm_page_opaque(page)->flags & LSM_PAGE_HEADED ?
		(LsmLogHead *) ((char *) page + LSM_PAGE_START) : NULL;
}

static inline char *
lsm_page_entries(Page page)
{
	return (char *) page + LSM_PAGE_START +
		(lsm_page_head(page) != NULL ? sizeof(LsmLogHead) : 0);
}

/* n pages at once: none of them is handed out twice. */
extern void lsm_page_allocate_many(LsmTree *tree, int n, Buffer *buffers);

/*
 * Is the page free, if the tree's metapage and the rewrite of its manifest that
 * is under way (0: none) say so?  A page of another type or with a broken
 * header is not: leave it for lsm_verify and for whoever reads it to complain.
 */
extern bool lsm_page_is_free(Page page, uint64 flushed_generation, uint64 manifest_id,
							 uint64 manifest_pending);

/* Empty log or manifest page (critical section or redo). */
extern void lsm_page_init(Page page, uint16 type, uint64 owner, uint16 flags,
						  BlockNumber next);

extern bool lsm_page_valid(Page page, uint16 type);

/* ERROR (DATA_CORRUPTED) unless it is a sound page of this type. */
extern LsmPageOpaque *lsm_page_check(const LsmTree *tree, Page page,
									 BlockNumber block, uint16 type);

/* Metapage with this content, and its checksum (critical section or redo). */
extern void lsm_meta_init(Page page, const LsmMetaPage *meta);

/*
 * Write the metapage back with new content, `info` being the record that says
 * so.  REQUIRES: buffer exclusively locked.
 */
extern void lsm_meta_store(Buffer buffer, LsmMetaPage *meta, uint8 info,
						   RelFileLocator rlocator, ProcNumber backend, char relpersistence);

/*
 * Say in the metapage that this page is the first of its generation.  REQUIRES:
 * the generation cannot be flushed meanwhile; no content lock held.
 */
extern void lsm_meta_note_root(LsmTree *tree, uint64 generation, BlockNumber block);

/* The first page of a generation that is not flushed, as far as it is known. */
extern BlockNumber lsm_meta_root(const LsmMetaPage *meta, uint64 generation);

/* A new lap of the search for free pages: an edit has freed some. */
extern void lsm_page_restart_search(LsmTree *tree);

/* The same, from this block on. */
extern void lsm_page_search_from(LsmTree *tree, BlockNumber block);

/*
 * True if the main fork exists, is not empty and its metapage carries the
 * handle's keyspace id and relfilenode: for a worker that has just locked a
 * relation which may have been dropped, truncated or moved.
 */
extern bool lsm_meta_current(LsmTree *tree);

/*
 * Is it a metapage that this build reads, and as it was written?  Of a damaged
 * one nothing is to be believed.
 */
extern bool lsm_meta_valid(Page page);

/*
 * Is a metapage's content as it was written, by whatever build?  REQUIRES:
 * LSM_META_BYTES at `content`; the magic number is right.
 */
extern bool lsm_meta_intact(const char *content);

/*
 * ERROR if it is not: it is damaged (DATA_CORRUPTED), or of a format that
 * another release has written.
 */
extern void lsm_meta_check(Page page, RelFileLocator rlocator, ProcNumber backend);

/*
 * For lsm_tree_open, when the metapage's relfilenode (not its database) is not
 * the relation's: ALTER INDEX SET TABLESPACE copied the fork.  If the fork it
 * was copied from is gone (committed), the tree takes over its keyspace; if it
 * is still there, or this transaction has made the copy and may roll back, the
 * tree gets a keyspace of its own with copies of the files.  Read the
 * metapage again afterwards: the keyspace id may have changed.  REQUIRES: a lock
 * on the relation; tree's rlocator, backend, relpersistence, kind, rel set; not
 * inside an epoch.
 */
extern void lsm_meta_adopt(LsmTree *tree);

/*
 * For lsm_tree_open, when an unlogged tree's metapage carries id 0 (reset by a
 * crash): makes a keyspace; any number of backends may try at once.  Read the
 * metapage again afterwards.  Same REQUIRES.
 */
extern void lsm_meta_assign(LsmTree *tree);

/*
 * create.c: say in the WAL where a permanent tree's fork ends, when it becomes
 * the tree's.  What it is extended by is not logged, so whoever replays that
 * could have something else there: pages of a relation that had this fork's
 * place before, below wal_level replica in a transaction that core does not
 * log the truncation of; or, behind pg_rewind, of an unlogged one that had its
 * number on a server which has gone its own way.  REQUIRES: nobody else extends
 * the fork.
 */
extern void lsm_log_fork_end(RelFileLocator rlocator);

#endif							/* LSM_PAGE_H */
