/*-------------------------------------------------------------------------
 *
 * metapage.c
 *	  Block 0 of a main fork: reading and writing it, and which keyspace it names.
 *
 * Locking: the metapage's content lock, as the caller of lsm_meta_read() asks.
 * What reads the file instead of the buffer takes none, and may see an older
 * state.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xloginsert.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/page.h"
#include "tree/disk/wal.h"

/* ---- the keyspace it names ---- */

/* See disk.h. */
uint64
lsm_keyspace_derive(uint64 keyspace_id, Oid dboid)
{
	uint64		id = hash_bytes_extended((const unsigned char *) &keyspace_id,
										 sizeof(keyspace_id), dboid);

	if (id >= LSM_TEMPORARY_KEYSPACES)
		id -= LSM_TEMPORARY_KEYSPACES;
	return id != 0 ? id : 1;
}

/* See disk.h. */
uint64
lsm_meta_keyspace(const LsmMetaPage *meta, Oid dboid)
{
	if (meta->keyspace_id == 0 || meta->dboid == dboid)
		return meta->keyspace_id;
	return lsm_keyspace_derive(meta->keyspace_id, dboid);
}

/* See disk.h. */
bool
lsm_meta_is_own(const LsmTree *tree, const LsmMetaPage *meta)
{
	return meta->dboid == tree->rlocator.dbOid &&
		meta->spcoid == tree->rlocator.spcOid &&
		meta->relfilenode == tree->rlocator.relNumber;
}

/* See disk.h. */
bool
lsm_meta_names(const LsmMetaPage *meta, const LsmTree *tree, bool recovery)
{
	return meta->keyspace_id == tree->keyspace_id ||
		(recovery &&
		 lsm_meta_keyspace(meta, tree->rlocator.dbOid) == tree->keyspace_id);
}

/* ---- checks ---- */

/* REQUIRES: LSM_META_BYTES at `content`. */
static pg_crc32c
lsm_meta_crc(const char *content)
{
	static const char zeroes[sizeof(((LsmMetaPage *) NULL)->crc)] = {0};
	Size		behind = offsetof(LsmMetaPage, crc) + sizeof(zeroes);
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, content, offsetof(LsmMetaPage, crc));
	COMP_CRC32C(crc, zeroes, sizeof(zeroes));
	COMP_CRC32C(crc, content + behind, LSM_META_BYTES - behind);
	FIN_CRC32C(crc);
	return crc;
}

/*
 * See page.h.  Releases to come keep the checksum where it is.  Of those before
 * it, the rest of the page is as they left it, so that a version that has lost a
 * bit is not believed to be one of theirs.
 */
bool
lsm_meta_intact(const char *content)
{
	const LsmMetaPage *meta = (const LsmMetaPage *) content;
	Size		used = meta->format_version < 4 ? LSM_META_OLD_BYTES : offsetof(LsmMetaPage, crc);

	if (meta->format_version >= LSM_META_CHECKED)
		return EQ_CRC32C(lsm_meta_crc(content), meta->crc);
	for (Size i = used; i < LSM_META_BYTES; i++)
	{
		if (content[i] != 0)
			return false;
	}
	return true;
}

static inline bool
lsm_meta_known(const LsmMetaPage *meta)
{
	return meta->format_version >= LSM_META_OLDEST && meta->format_version <= LSM_META_VERSION;
}

/* It may be of a version that is not known. */
static bool
lsm_meta_recognized(Page page)
{
	const LsmMetaPage *meta = (const LsmMetaPage *) PageGetContents(page);

	return !PageIsNew(page) &&
		((PageHeader) page)->pd_lower >= MAXALIGN(SizeOfPageHeaderData) + LSM_META_OLD_BYTES &&
		meta->magic == LSM_META_MAGIC && lsm_meta_intact(PageGetContents(page)) &&
		(meta->kind == LSM_KIND_TABLE || meta->kind == LSM_KIND_INDEX ||
		 !lsm_meta_known(meta));
}

/* See page.h. */
bool
lsm_meta_valid(Page page)
{
	return lsm_meta_recognized(page) &&
		lsm_meta_known((LsmMetaPage *) PageGetContents(page));
}

/* See page.h. */
void
lsm_meta_check(Page page, RelFileLocator rlocator, ProcNumber backend)
{
	const LsmMetaPage *meta = (const LsmMetaPage *) PageGetContents(page);

	if (!lsm_meta_recognized(page))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block 0 of relation %s is not a valid lsm metapage",
						lsm_relpath(rlocator, backend, MAIN_FORKNUM)),
				 errhint("Rebuild the index with REINDEX, or restore the table from a backup.")));
	if (!lsm_meta_known(meta))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("relation %s has lsm format version %u, but this server reads versions %u to %u",
						lsm_relpath(rlocator, backend, MAIN_FORKNUM),
						meta->format_version, LSM_META_OLDEST, LSM_META_VERSION),
				 errhint("Install the release of lsmam that wrote the relation.")));
}

/* ---- reading ---- */

/*
 * Needs only rlocator, backend, relpersistence (and rel if temporary) of the
 * handle: lsm_tree_open() learns the keyspace id through it.
 */
Buffer
lsm_meta_read(LsmTree *tree, int mode, LsmMetaPage **meta)
{
	Buffer		buffer = lsm_page_read(tree, 0);

	LockBuffer(buffer, mode);
	lsm_meta_check(BufferGetPage(buffer), tree->rlocator, tree->backend);
	*meta = (LsmMetaPage *) PageGetContents(BufferGetPage(buffer));
	return buffer;
}

bool
lsm_meta_current(LsmTree *tree)
{
	LsmMetaPage *meta;
	Buffer		buffer;
	bool		current;

	/*
	 * The relation lock held by the caller keeps the fork as it is; a dropped
	 * one is empty until the next checkpoint and missing after it.
	 */
	if (!lsm_fork_exists(tree->rlocator, tree->backend))
		return false;
	buffer = lsm_page_read(tree, 0);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	meta = (LsmMetaPage *) PageGetContents(BufferGetPage(buffer));
	if (!PageIsNew(BufferGetPage(buffer)) && meta->magic == LSM_META_MAGIC)
		lsm_meta_check(BufferGetPage(buffer), tree->rlocator, tree->backend);
	current = lsm_meta_valid(BufferGetPage(buffer)) &&
		meta->keyspace_id == tree->keyspace_id && lsm_meta_is_own(tree, meta);
	UnlockReleaseBuffer(buffer);
	return current;
}

/* ---- the file, past the buffers ---- */

bool
lsm_fork_exists(RelFileLocator rlocator, ProcNumber backend)
{
	char	   *path = lsm_relpath(rlocator, backend, MAIN_FORKNUM);
	struct stat st;
	bool		there = stat(path, &st) == 0 ? st.st_size > 0 :
		errno != ENOENT && errno != ENOTDIR;

	pfree(path);
	return there;
}

/* See disk.h. */
bool
lsm_fork_read_keyspace(const char *path, Oid dboid, uint64 *keyspace_id)
{
	union
	{
		char		data[MAXALIGN(SizeOfPageHeaderData) + LSM_META_BYTES];
		int64		align;
	}			head;
	const char *content = head.data + MAXALIGN(SizeOfPageHeaderData);
	LsmMetaPage meta;
	int			fd = open(path, O_RDONLY | PG_BINARY);
	ssize_t		got;

	if (fd < 0)
		return false;
	got = pg_pread(fd, head.data, sizeof(head.data), 0);
	if (got < 0)
	{
		int			save_errno = errno;

		close(fd);
		errno = save_errno;
		return false;
	}
	close(fd);
	errno = 0;
	if (got != sizeof(head.data))
		return false;
	memcpy(&meta, content, sizeof(meta));
	if (meta.magic != LSM_META_MAGIC)
		return false;
	if (!lsm_meta_intact(content))
	{
		/* damaged, or being written: it may name any keyspace */
		errno = EIO;
		return false;
	}
	if (meta.keyspace_id == 0)
		return false;
	*keyspace_id = lsm_meta_keyspace(&meta, dboid);
	return true;
}

/* ---- writing ---- */

/* See page.h.  Redo writes what older releases have logged as they did. */
void
lsm_meta_init(Page page, const LsmMetaPage *meta)
{
	LsmMetaPage *stored = (LsmMetaPage *) PageGetContents(page);

	PageInit(page, BLCKSZ, 0);
	memcpy(stored, meta, sizeof(LsmMetaPage));
	stored->crc = meta->format_version >= LSM_META_CHECKED ?
		lsm_meta_crc(PageGetContents(page)) : 0;
	((PageHeader) page)->pd_lower =
		((char *) PageGetContents(page) + sizeof(LsmMetaPage)) - (char *) page;
}

/*
 * Log the metapage together with the keyspace it names.  REQUIRES: critical
 * section; `buffer` invalid: without metapage.
 */
static void
lsm_keyspace_log(uint8 info, uint64 keyspace_id, RelFileLocator rlocator,
				 ProcNumber backend, Buffer buffer, const LsmMetaPage *meta)
{
	LsmWalKeyspace record;
	XLogRecPtr	lsn;

	Assert(CritSectionCount > 0 || !BufferIsValid(buffer));
	memset(&record, 0, sizeof(record));
	record.keyspace_id = keyspace_id;
	record.rlocator = rlocator;
	record.backend = backend;
	XLogBeginInsert();
	XLogRegisterData((char *) &record, sizeof(record));
	if (BufferIsValid(buffer))
	{
		XLogRegisterBuffer(0, buffer, REGBUF_WILL_INIT | REGBUF_STANDARD);
		XLogRegisterBufData(0, (char *) meta, sizeof(*meta));
	}
	lsn = XLogInsert(LSM_RMGR_ID, info);
	if (BufferIsValid(buffer))
		PageSetLSN(BufferGetPage(buffer), lsn);
}

/* See disk.h. */
void
lsm_keyspace_log_new(uint64 keyspace_id, RelFileLocator rlocator)
{
	START_CRIT_SECTION();
	lsm_keyspace_log(XLOG_LSM_KEYSPACE_CREATE, keyspace_id, rlocator, INVALID_PROC_NUMBER,
					 InvalidBuffer, NULL);
	END_CRIT_SECTION();
}

/*
 * See page.h.  An unlogged tree's goes to the file at once: checkpoints leave
 * unlogged buffers alone, and the sweep reads block 0 from the file.
 */
void
lsm_meta_store(Buffer buffer, LsmMetaPage *meta, uint8 info,
			   RelFileLocator rlocator, ProcNumber backend, char relpersistence)
{
	meta->format_version = LSM_META_VERSION;
	START_CRIT_SECTION();
	lsm_meta_init(BufferGetPage(buffer), meta);
	MarkBufferDirty(buffer);
	if (relpersistence == RELPERSISTENCE_PERMANENT)
		lsm_keyspace_log(info, meta->keyspace_id, rlocator, backend, buffer, meta);
	END_CRIT_SECTION();
	if (relpersistence == RELPERSISTENCE_UNLOGGED)
		FlushOneBuffer(buffer);
}

/*
 * See writes.h.  The record goes before those of the versions, so whoever has
 * replayed one of these has a metapage that says so.
 */
void
lsm_tree_require_format(LsmTree *tree)
{
	LsmMetaPage *page;
	Buffer		buffer;
	bool		known;

	lsm_tree_enter(tree);
	known = pg_atomic_read_u32(&tree->ctl->format_version) == LSM_META_VERSION;
	lsm_tree_exit(tree);
	if (likely(known))
		return;

	buffer = lsm_meta_read(tree, BUFFER_LOCK_EXCLUSIVE, &page);
	if (page->format_version != LSM_META_VERSION)
	{
		LsmMetaPage meta = *page;

		lsm_meta_store(buffer, &meta, XLOG_LSM_META, tree->rlocator, tree->backend,
					   tree->relpersistence);
	}
	UnlockReleaseBuffer(buffer);

	lsm_tree_enter(tree);
	pg_atomic_write_u32(&tree->ctl->format_version, LSM_META_VERSION);
	lsm_tree_exit(tree);
}

/* ---- first pages of generations ---- */

/* See page.h. */
BlockNumber
lsm_meta_root(const LsmMetaPage *meta, uint64 generation)
{
	StaticAssertStmt(LSM_LOG_ROOTS > LSM_MAX_SEALED + 1,
					 "each generation that is not flushed needs a place");

	for (int i = 0; i < LSM_LOG_ROOTS; i++)
	{
		if (meta->log_roots[i].generation == generation)
			return meta->log_roots[i].block;
	}
	return InvalidBlockNumber;
}

/*
 * See page.h.  The page is logged before the metapage says so: never does a
 * metapage name one that a crash has taken away.
 */
void
lsm_meta_note_root(LsmTree *tree, uint64 generation, BlockNumber block)
{
	LsmMetaPage *page;
	LsmMetaPage meta;
	Buffer		buffer = lsm_meta_read(tree, BUFFER_LOCK_EXCLUSIVE, &page);

	meta = *page;
	if (lsm_meta_is_own(tree, &meta) && lsm_meta_root(&meta, generation) == InvalidBlockNumber)
	{
		Assert(generation > meta.flushed_generation);
		for (int i = 0; i < LSM_LOG_ROOTS; i++)
		{
			if (meta.log_roots[i].generation > meta.flushed_generation)
				continue;
			meta.log_roots[i] = (LsmLogRoot)
			{
				.generation = generation,.block = block
			};
			lsm_meta_store(buffer, &meta, XLOG_LSM_META, tree->rlocator, tree->backend,
						   tree->relpersistence);
			break;
		}
	}
	UnlockReleaseBuffer(buffer);
	LSM_CRASH_POINT("root_noted");
}
