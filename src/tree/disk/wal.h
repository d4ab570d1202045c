/*-------------------------------------------------------------------------
 *
 * wal.h
 *	  WAL records of the resource manager "lsmam".  These structs are an
 *	  on-disk format: only append fields, and only together with a new record
 *	  type.
 *
 * The metapage is always registered with REGBUF_WILL_INIT and its whole
 * content (LsmMetaPage) as block data, so that no record needs an image of it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_WAL_H
#define LSM_WAL_H

#include "storage/block.h"

#include "compat.h"

#include "tree/disk/chunk.h"

#define LSM_RMGR_ID			153
#define LSM_RMGR_NAME		"lsmam"

#define XLOG_LSM_LOG_APPEND			0x00
#define XLOG_LSM_EDIT				0x10
#define XLOG_LSM_MANIFEST_PAGE		0x20
#define XLOG_LSM_FILE_CHUNK			0x30
#define XLOG_LSM_KEYSPACE_CREATE	0x40
#define XLOG_LSM_KEYSPACE_REMOVE	0x50
#define XLOG_LSM_META				0x60
#define XLOG_LSM_FILE_CHUNK_LZ4		0x70
#define XLOG_LSM_HORIZON			0x80
#define XLOG_LSM_VISIBLE			0x90
#define XLOG_LSM_INVISIBLE			0xA0
#define XLOG_LSM_MEMORY				0xB0
#define XLOG_LSM_LOG_APPEND_LOGICAL	0xC0
#define XLOG_LSM_FILES_REMOVE		0xD0
#define XLOG_LSM_LOG_APPEND_HEADED	0xE0
#define XLOG_LSM_CUT				0xF0

/*
 * LOG_APPEND.  Blocks 0..npages-1 are the log pages; either one page that may
 * have entries before `offset`, or fresh ones (WILL_INIT) filled one after the
 * other and chained in the order of the references.  Entry bytes (log_entry.h)
 * end the main data, exactly as they lie in the page(s).  Of a fresh page, the
 * generation (uint64) comes before them; else it is known from the page.
 */
typedef struct LsmWalAppend
{
	uint16		offset;			/* in the first page */
	uint8		nentries;
	uint8		fresh;			/* pages are initialised by this record */
} LsmWalAppend;

/*
 * LOG_APPEND_LOGICAL: the same, with wal_level = logical.  Behind LsmWalAppend
 * come this struct and the notes of the entries (log_notes.h), which are for
 * logical decoding alone; then whatever comes there in LOG_APPEND.
 */
typedef struct LsmWalNotes
{
	uint32		bytes;
} LsmWalNotes;

/*
 * LOG_APPEND_HEADED: fresh pages, the first of which has a head (LsmLogHead),
 * which begins what the page holds.  LsmWalNotes always follow, and may say that
 * there are no notes.  With LSM_APPEND_LINKED, one more block reference is the
 * page whose head now names the first as the one that comes next.
 */
#define LSM_APPEND_FRESH	0x01	/* of LsmWalAppend.fresh */
#define LSM_APPEND_LINKED	0x02

/*
 * EDIT.  Block 0 is the metapage, blocks 1.. are manifest pages, each with a
 * LsmWalManifestBlock and content as block data.  The numbers of files that
 * are no longer part of the tree follow the header in the main data.
 */
typedef struct LsmWalEdit
{
	uint64		keyspace_id;
	uint64		manifest_id;	/* owner of new pages */
	uint64		flushed_generation; /* as in the metapage after it */
	TransactionId conflict_xid;
	uint32		nunlink;
	/* uint64 numbers follow */
} LsmWalEdit;

typedef struct LsmWalManifestBlock
{
	BlockNumber next;
	uint16		offset;			/* of the new content in the page */
	uint16		bytes;
} LsmWalManifestBlock;

/*
 * MANIFEST_PAGE: one page (WILL_INIT) of a manifest that is not reachable yet
 */
typedef struct LsmWalManifestPage
{
	uint64		keyspace_id;
	uint64		manifest_id;
} LsmWalManifestPage;

/* FILE_CHUNK, FILE_CHUNK_LZ4: LsmWalChunk (chunk.h) */

extern char *lsm_chunk_content(const LsmWalChunk *chunk, char *logged, uint32 logged_bytes);

/*
 * KEYSPACE_CREATE (block 0, if there is one: the metapage) and META (block 0:
 * the metapage; the fork becomes an owner of the keyspace)
 */
typedef struct LsmWalKeyspace
{
	uint64		keyspace_id;
	RelFileLocator rlocator;
	int32		backend;
} LsmWalKeyspace;

/* KEYSPACE_REMOVE */
typedef struct LsmWalRemove
{
	uint64		keyspace_id;
} LsmWalRemove;

/*
 * FILES_REMOVE: files that are in no list, and never will be again: those of a
 * job that was not published, or strays.
 */
typedef struct LsmWalFilesRemove
{
	uint64		keyspace_id;
	uint32		nfiles;
	uint32		unused;
	/* uint64 numbers follow */
} LsmWalFilesRemove;

/*
 * CUT: the main fork ends before block 0 of the record.  Its blocks, all
 * WILL_INIT and without data, are the last ones of the fork, which go.
 */
typedef struct LsmWalCut
{
	uint64		keyspace_id;
} LsmWalCut;

/*
 * HORIZON: entries of rows that were deleted by `xid` or before are about to
 * be deleted by entries of their own, or by an index of another kind.  On a
 * standby, snapshots that may see such rows conflict with what comes next.
 */
typedef struct LsmWalHorizon
{
	uint64		keyspace_id;
	RelFileLocator rlocator;
	TransactionId xid;			/* may be invalid */
	uint32		flags;
} LsmWalHorizon;

/*
 * VACUUM has deleted all entries of an index that it was told to delete:
 * row identifiers may be used again (LSM_INDEX_VACUUM_DIGEST).
 */
#define LSM_HORIZON_VACUUMED	0x0001

/* MEMORY: the primary's lsm.memtable_memory, from now on */
typedef struct LsmWalMemory
{
	uint64		memtable_memory_kb;
} LsmWalMemory;

/*
 * VISIBLE: block 0 is a page of the visibility map, its block data the bytes
 * from `first` on.  Snapshots of standbys that do not see newest_xmin conflict.
 */
typedef struct LsmWalVisible
{
	uint64		keyspace_id;
	TransactionId newest_xmin;	/* may be invalid */
	uint16		first;
	uint16		bytes;
} LsmWalVisible;

/*
 * INVISIBLE: a block's bits in a page of the visibility map (block 0) are
 * cleared.  The record that ends a row of the block comes behind it.
 */
typedef struct LsmWalInvisible
{
	uint64		keyspace_id;
	uint32		number;			/* of the block, among those of the page */
	uint32		unused;
} LsmWalInvisible;

/*
 * sync.c: with our resource manager; with rm_startup and rm_cleanup.  Between
 * these what lsm_sync_file() and lsm_sync_dir() are asked for is put off.
 */
extern void lsm_sync_rmgr_register(void);
extern void lsm_sync_redo_begins(void);
extern void lsm_sync_redo_ends(void);

struct XLogReaderState;
extern void lsm_redo_visible(struct XLogReaderState *record, const LsmWalVisible *visible);
extern void lsm_redo_invisible(struct XLogReaderState *record,
							   const LsmWalInvisible *invisible);

#endif							/* LSM_WAL_H */
