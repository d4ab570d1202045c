/*-------------------------------------------------------------------------
 *
 * tree.h
 *	  The LSM tree: an ordered map of bytes to bytes, newest wins.  This is the
 *	  door that src/table and src/index use; everything else in src/tree is
 *	  behind control.h.
 *
 * Keys compare by memcmp, shorter first.  The first byte of a value is its
 * tag (LsmTag); what follows belongs to the access method.  The tree knows
 * nothing of tuples, SQL types or visibility: the two kinds of trees supply
 * callbacks (LsmKindOps).
 *
 * Rules of the house
 *	- Nothing here is called with a buffer content lock held.
 *	- Between lsm_key_lock() and lsm_key_unlock() only lsm_stamp_holds() and
 *	  lsm_write_apply()/lsm_write_cancel() may be called: no wait, no file
 *	  I/O, no memory stall under a key lock.
 *	- Reads announce an epoch inside each call and leave it before they
 *	  return; nothing stays pinned between calls.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TREE_H
#define LSM_TREE_H

#include "access/sdir.h"
#include "lib/stringinfo.h"
#include "port/pg_bswap.h"
#include "utils/rel.h"

#include "compat.h"

#include "filter/filter.h"
#include "sst/sst.h"

typedef struct LsmTree LsmTree;

typedef struct LsmSlice
{
	const char *data;
	uint32		len;
} LsmSlice;

/* appendBinaryStringInfo(), where there is nearly always room */
static inline void
lsm_buffer_append(StringInfo buf, const char *data, uint32 bytes)
{
	if (unlikely((Size) buf->len + bytes >= (Size) buf->maxlen))
		enlargeStringInfo(buf, bytes);
	memcpy(buf->data + buf->len, data, bytes);
	buf->len += bytes;
	buf->data[buf->len] = '\0';
}

static inline LsmSlice
lsm_slice(const void *data, uint32 len)
{
	LsmSlice	s = {(const char *) data, len};

	return s;
}

/* memcmp order, shorter first: the order of every tree */
static inline int
lsm_slice_compare(LsmSlice a, LsmSlice b)
{
	int			c = memcmp(a.data, b.data, Min(a.len, b.len));

	return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

/*
 * A row's TID in a key: block (4 bytes) and offset (2 bytes), both big-endian.
 * The key of a table tree is one, that of an index tree ends with one.
 */
#define LSM_TID_BYTES		6

static inline void
lsm_tid_read(const char *bytes, uint32 *block, uint16 *offset)
{
	StaticAssertStmt(LSM_TID_BYTES == sizeof(*block) + sizeof(*offset), "parts of a TID");
	memcpy(block, bytes, sizeof(*block));
	memcpy(offset, bytes + sizeof(*block), sizeof(*offset));
	*block = pg_bswap32(*block);
	*offset = pg_bswap16(*offset);
}

/* Numbers are on disk (metapage). */
typedef enum LsmKind
{
	LSM_KIND_TABLE = 1,			/* key = TID; filters over the whole key */
	LSM_KIND_INDEX = 2			/* key = encoded columns + 6-byte TID; filters
								 * over the columns */
} LsmKind;

/* First byte of every value.  On disk. */
typedef enum LsmTag
{
	LSM_TAG_PUT = 1,			/* complete */
	LSM_TAG_DELETE = 2,			/* the key is gone; a value like any other */
	LSM_TAG_PARTIAL = 3			/* newer part of a value; completed by
								 * LsmKindOps.merge with the PUT below it */
} LsmTag;

/* Longest key and longest (key + value) of one entry, bytes */
#define LSM_MAX_KEY_BYTES		(12 * 1024 + 100)
#define LSM_MAX_ENTRY_BYTES		(28 * 1024)

/* ---- kinds: what flush and compaction ask of the access method ---- */

typedef enum LsmFate
{
	LSM_FATE_KEEP,
	LSM_FATE_REWRITE,			/* write what the callback put into
								 * `rewritten` */
	LSM_FATE_DROP				/* write nothing */
} LsmFate;

typedef struct LsmFateContext
{
	/* set by the tree before the job starts */
	bool		bottom;			/* no older entry of this key can lie below
								 * the output */
	bool		flush;			/* a flush; else a compaction */
	TransactionId oldest_xid;	/* GetOldestNonRemovableTransactionId(): a row
								 * whose committed deleter precedes it is seen
								 * by no one */
	TransactionId freeze_limit; /* xids before it may be frozen; invalid =
								 * none */

	/* accumulated by the callback over the job */
	TransactionId running_xid;	/* the last one found running: it may have
								 * ended since, which the next job will see */
	TransactionId newest_removed_xid;	/* newest xid whose row was dropped or
										 * frozen: standby conflict horizon */

	/*
	 * set by the callback for this entry (false on entry): the value is kept,
	 * but will be dropped by a later job once its deleter is old enough (so
	 * that VACUUM's drop_dead finds the file)
	 */
	bool		dying;
} LsmFateContext;

typedef struct LsmKindOps
{
	/*
	 * A PUT says all there is to say: neither fate() nor min_xid() is asked
	 * about one, it is kept as it is and has no xid.
	 */
	bool		puts_stay;

	/*
	 * Complete `newer` (tag PARTIAL) with `older` (PUT or PARTIAL); append
	 * the result, tag byte included, to `out` (empty on entry).  Result is
	 * PUT if older is, else PARTIAL.
	 */
	void		(*merge) (LsmSlice newer, LsmSlice older, StringInfo out);

	/*
	 * Of two values of which it is unknown which is newer, the one that holds,
	 * with what only the other has; append it to `out`.  Table trees alone.
	 */
	void		(*settle) (LsmSlice a, LsmSlice b, StringInfo out);

	/*
	 * Decide about the newest value of a key, partial ones already merged as
	 * far as the inputs allow.  A PARTIAL at the bottom never reaches the
	 * callback: it has lost its row and the tree drops it.  Runs in a worker
	 * without database: clog and procarray only, no catalog access.
	 */
	LsmFate		(*fate) (LsmFateContext *cx, LsmSlice key, LsmSlice value,
						 StringInfo rewritten);

	/*
	 * Smallest normal xid in the value that still matters, or invalid.
	 * Allocates nothing.
	 */
	TransactionId (*min_xid) (LsmSlice value);

	/*
	 * One problem of a value's format for lsm_verify, or NULL (palloc'd
	 * text).
	 */
	char	   *(*check) (LsmSlice key, LsmSlice value);
} LsmKindOps;

/* From _PG_init, once per kind. */
extern void lsm_kind_register(LsmKind kind, const LsmKindOps *ops);

/* ---- settings (GUC variables live in options.c, registered by src/guc.c) ---- */

/* What an index's reloptions override; "unset" means: follow the GUC. */
typedef struct LsmTreeOptions
{
	int			filter_scheme;	/* LsmFilterScheme, -1 unset */
	double		bits_per_key;	/* 0 unset */
	int			elastic_units;	/* 0 unset */
	int			size_ratio;		/* 0 unset */
	int			compression;	/* LsmCompression, -1 unset */
} LsmTreeOptions;

#define LSM_TREE_OPTIONS_UNSET {-1, 0.0, 0, 0, -1}

/* lsm.compression by the kind of tree: lsm_tree_compression() */
#define LSM_COMPRESSION_AUTO	100

typedef enum LsmElasticPolicy
{
	LSM_ELASTIC_ON_ACCESS,
	LSM_ELASTIC_ON_COMPACTION
} LsmElasticPolicy;

extern bool lsm_hash_sharing;
extern int	lsm_filter_scheme;
extern double lsm_bits_per_key;
extern int	lsm_elastic_units;
extern int	lsm_elastic_initial_units;
extern int	lsm_elastic_memory_kb;
extern int	lsm_elastic_lifetime;
extern int	lsm_elastic_unit_size;	/* bytes */
extern int	lsm_elastic_policy; /* LsmElasticPolicy */
extern double lsm_elastic_ratio;
extern bool lsm_elastic_inheritance;
extern int	lsm_memtable_memory_kb; /* whole arena */
extern int	lsm_memtable_size_kb;	/* one tree's memtable */
extern int	lsm_size_ratio;
extern int	lsm_row_change_file_size_kb;
extern int	lsm_compression;	/* LsmCompression or LSM_COMPRESSION_AUTO */
extern int	lsm_max_open_files;
extern bool lsm_ignore_missing_files;	/* salvage.c */
extern int	lsm_compaction_workers;
extern int	lsm_max_trees;		/* control blocks (restart) */

/* ---- life cycle (tree.c, keyspace.c) ---- */

/*
 * Give the (empty, existing) main fork of `rlocator` a new keyspace: directory,
 * owner file, metapage.  `relid` is the relation the tree will belong to.
 * Logged if permanent.  Called by relation_set_new_filelocator, ambuild, and
 * truncation.  ERRORs if the directory cannot be made.
 */
extern void lsm_tree_create(RelFileLocator rlocator, ProcNumber backend, Oid relid,
							char relpersistence, LsmKind kind);

/* Write and log the init fork of an unlogged relation: metapage with id 0. */
extern void lsm_tree_create_init_fork(RelFileLocator rlocator, LsmKind kind);

/*
 * Throw away the tree's content in place (TRUNCATE in the creating
 * transaction, ON COMMIT DELETE ROWS, index about to be rebuilt): truncates
 * the main fork to zero and creates a new keyspace.  REQUIRES: exclusive use.
 */
extern void lsm_tree_reset(Relation rel, LsmKind kind);

/*
 * The backend's handle on the relation's tree; cached, cheap after the first
 * time (kept in a backend hash by relfilenode and checked against
 * the keyspace id in shared memory).  Valid until the end of the transaction;
 * REQUIRES a lock on the relation.  `options` NULL = follow the GUCs.
 * The first use after a server start loads the memtable from the log.
 * ERRORs: corrupt metapage (ERRCODE_DATA_CORRUPTED), cloned tree
 * (ERRCODE_FEATURE_NOT_SUPPORTED).
 */
extern LsmTree *lsm_tree_open(Relation rel, LsmKind kind,
							  const LsmTreeOptions *options);

/*
 * Copy the tree to a new relfilenode (SET TABLESPACE of a table): flushes,
 * copies the main fork, and lets the copy adopt the sorted files.
 * REQUIRES: AccessExclusiveLock.
 */
extern void lsm_tree_copy(Relation rel, LsmKind kind, RelFileLocator new_rlocator);

/* What the first page of a relation's main fork says (fork.c) */
typedef enum LsmForkContent
{
	LSM_FORK_EMPTY,				/* there is none */
	LSM_FORK_ZERO,
	LSM_FORK_OURS,
	LSM_FORK_HEAP,
	LSM_FORK_BTREE,
	LSM_FORK_UNKNOWN
} LsmForkContent;

/* Of any relation with storage.  REQUIRES a lock on it. */
extern LsmForkContent lsm_fork_content(Relation rel);

/*
 * The relation has come by its file in this transaction, from another one:
 * workers lock this one from now on.  Waits for those that are about to
 * publish under the other's lock.  REQUIRES: AccessExclusiveLock on it, or on
 * its table.
 */
extern void lsm_tree_take_over(Relation rel);

/* Undo what an error left: epochs, writer registrations, flush ownership.
 * Transaction callbacks call it; a worker's error handler must. */
extern void lsm_tree_abort_cleanup(void);

/*
 * Core may copy main forks of this backend's temporary relations: ALTER INDEX
 * SET TABLESPACE.
 */
extern void lsm_tree_note_fork_copies(void);

/* This transaction drops a relation of any kind. */
extern void lsm_tree_note_drop(Oid relid);

/*
 * CREATE DATABASE begins to copy, all rights checked, or has copied if it had
 * begun.  The end of a transaction by an error ends a copy that has failed.
 */
extern void lsm_tree_database_copy(bool begins);

/*
 * The database was moved to another tablespace, or dropped: nothing known of
 * its trees holds any more.
 */
extern void lsm_tree_forget_database(Oid dboid);

/*
 * A database was copied in this transaction, which still has the source locked:
 * give the copies of its trees keyspaces of their own (clone.c).
 */
extern void lsm_tree_clone_database(Oid from_dboid, Oid to_dboid);

/* ---- lookups (lookup.c) ---- */

/*
 * A point lookup's key and its digest, computed once and reused by the
 * memtables and every filter.  With lsm.hash_sharing off every filter asked
 * counts a digest, and all but the first compute it anew.
 */
typedef struct LsmProbe
{
	LsmSlice	filter_key;		/* points to the caller's memory */
	LsmDigest	digest;
	bool		shared;			/* filters use it, too */

	/* what lsm_tree_multi_lookup() has asked already */
	bool		asked;			/* some filter, of whatever version */
	uint64		filters_version;			/* serial of the version; 0: none */
	uint32		maybe_runs;		/* bit i: the filter of run i was asked and does not object */
	uint32		unprobed_runs;		/* bit i: run i is to be asked still */
} LsmProbe;

/*
 * Counts one lookup (and its digest if shared: else filters count theirs).
 * `filter_key`: the TID of a table tree; the encoded columns, without TID, of
 * an index tree.
 */
extern void lsm_probe_begin(LsmTree *tree, LsmProbe *probe, LsmSlice filter_key);

/* The same for who has the filter key's digest (lsm_lock_digest) already. */
extern void lsm_probe_begin_hashed(LsmTree *tree, LsmProbe *probe, LsmSlice filter_key,
								   LsmDigest digest);

/* The same for n probes whose filter_key is set. */
extern void lsm_probe_begin_group(LsmTree *tree, LsmProbe *probes, int n);

/*
 * There is something else to do before the lookup: fetch ahead what it will
 * need of memtables.
 */
extern void lsm_tree_prefetch(LsmTree *tree, LsmSlice filter_key, LsmDigest digest);

/*
 * There is much else to do: of files, too, and of the key's lock.  ERRORs as a
 * lookup.
 */
extern void lsm_tree_prefetch_early(LsmTree *tree, LsmSlice filter_key, LsmDigest digest);

/*
 * No entry has the filter key: not in the memtables by their digest indexes,
 * not in the files by their filters.  False: maybe; a cursor will tell, and
 * only what it asks is counted then.
 */
extern bool lsm_tree_definitely_absent(LsmTree *tree, const LsmProbe *probe);

/* Most keys for lsm_tree_multi_lookup() */
#define LSM_GROUP_KEYS	32

/*
 * The same for n keys at once: all fences, then all prefetches, then the
 * filters, so that the waits for memory overlap.  absent[i]: surely.  What
 * filters have said of the others the probes keep: a lookup or cursor asks no
 * filter again as long as the list of files is the same.  Of these what comes
 * first is fetched ahead.  Returns how many are absent.
 */
extern int	lsm_tree_multi_lookup(LsmTree *tree, LsmProbe *probes, int n, bool *absent);

/*
 * Newest complete value of `key`.  Replaces the content of `value` (tag byte
 * first).  False: no such key, a deleted one, or a PARTIAL without a row.
 * REQUIRES: probe begun with the key's filter key.
 */
extern bool lsm_tree_get(LsmTree *tree, LsmSlice key, const LsmProbe *probe,
						 StringInfo value);

/* ---- cursors (cursor.c) ---- */

typedef struct LsmCursor LsmCursor;

/* Allocated in the current memory context. */
extern LsmCursor *lsm_cursor_open(LsmTree *tree);

/*
 * As cheap as can be: its memory is only freed with the current memory
 * context, closed or not.
 */
extern LsmCursor *lsm_cursor_open_within(LsmTree *tree);
extern void lsm_cursor_close(LsmCursor *cursor);

/*
 * Position before the first entry >= key (forward) or after the last entry
 * <= key (backward); with `after`, strictly beyond it.  Empty key (len 0):
 * the very first / very last entry.  The next lsm_cursor_step() in
 * either direction returns the entry on that side.  Drops a prefix set before.
 */
extern void lsm_cursor_seek(LsmCursor *cursor, LsmSlice key, bool after,
							ScanDirection direction);

/*
 * Point mode of an index: only entries whose filter key is probe->filter_key,
 * filters consulted with the probe's digest.  Positioned before the first.
 * The probe's key is copied.
 */
extern void lsm_cursor_seek_point(LsmCursor *cursor, const LsmProbe *probe);

/* As seek_point, but positioned after the last entry. */
extern void lsm_cursor_seek_point_last(LsmCursor *cursor, const LsmProbe *probe);

/*
 * Next entry in the direction; false at the end (a later step in the other
 * direction returns the last entry again).  Newest value of each key, merged;
 * DELETEs are skipped, PARTIALs without a row too.  key and value point to the
 * cursor's memory, good until its next call.
 */
extern bool lsm_cursor_step(LsmCursor *cursor, ScanDirection direction,
							LsmSlice *key, LsmSlice *value);

/* Most entries of a batch, and the bytes after which it is full */
#define LSM_BATCH_ENTRIES	64
#define LSM_BATCH_BYTES		(32 * 1024)

/*
 * Entries copied by one call.  The caller owns it and initializes bytes,
 * headroom (bytes left free before each value) and aligned (the byte of each
 * value that lies at a multiple of 8 bytes).
 */
typedef struct LsmBatch
{
	int			n;
	uint32		headroom;
	uint32		aligned;
	StringInfoData bytes;
	LsmSstEntry entries[LSM_BATCH_ENTRIES]; /* offsets into bytes */
} LsmBatch;

static inline void
lsm_batch_entry(const LsmBatch *batch, int i, LsmSlice *key, LsmSlice *value)
{
	*key = lsm_slice(batch->bytes.data + batch->entries[i].key_offset,
					 batch->entries[i].key_bytes);
	*value = lsm_slice(batch->bytes.data + batch->entries[i].value_offset,
					   batch->entries[i].value_bytes);
}

/*
 * Replace the batch's content by copies of the next entries forward, at least
 * one and at most max_entries, up to the last that begins with `limit` (empty:
 * without end); false: there is none.  The entries are those at some moment
 * during the call, and the cursor stands at the last of them.  For readers
 * that may take an entry's older state: MVCC snapshots.
 */
extern bool lsm_cursor_fill(LsmCursor *cursor, LsmSlice limit, int max_entries,
							LsmBatch *batch);

/* ---- writes (write.c) ---- */

/*
 * One entry to write.  `value_bytes` may be smaller at apply than at begin.
 */
typedef struct LsmEntry
{
	LsmSlice	key;			/* only its len matters at begin */
	LsmSlice	value;			/* tag byte first; only its len matters at
								 * begin */
	LsmDigest	digest;			/* of the filter key, if `hashed`; the tree's
								 * from lsm_write_apply on */
	void	   *node;			/* tree's: reserved memory */
	bool		hashed;			/* the caller has computed the digest */
	bool		probably_new;	/* the key is most likely a new one, and no
								 * one else writes it at the same time */
	bool		known_new;		/* besides, the key is certainly new */
	bool		key_locked;		/* no one else writes the key at the same
								 * time: its lock is held at apply */
	bool		short_lived;	/* likely to be pruned soon: not worth a place
								 * in any order before one is asked for */
} LsmEntry;

#define LSM_MAX_WRITE_ENTRIES	128

typedef struct LsmWrite
{
	LsmTree    *tree;
	LsmEntry   *entries;
	int			nentries;
	void	   *memtable;		/* tree's: generation registered in */
	uint64		generation;
	bool		active;
	bool		optional;		/* lsm_write_begin_optional() */
} LsmWrite;

/*
 * Reserve memory for n entries (at most LSM_MAX_WRITE_ENTRIES, together at
 * most LSM_MAX_ENTRY_BYTES unless n = 1) and register in the active
 * generation.  May load the tree, stall, flush and compact (so: may ERROR with
 * disk full).  NOT under a key lock.  One write is active per backend; it must
 * be applied or cancelled before anything that waits; an ERROR cancels it.
 */
extern void lsm_write_begin(LsmTree *tree, LsmWrite *write, LsmEntry *entries,
							int nentries);

/*
 * The same for entries that need not be written, if that needs nothing new: no
 * waiting, no flush, no disk space.  False: nothing was begun.
 * lsm_write_apply() then writes as many of them, from the first on, as there
 * is room for in log pages that exist.
 */
extern bool lsm_write_begin_optional(LsmTree *tree, LsmWrite *write, LsmEntry *entries,
									 int nentries);

/* Log (WAL, log page) and insert into the memtable; ends the write.  The bytes
 * are copied.  No memory failure, no wait but for buffer locks. */
extern void lsm_write_apply(LsmWrite *write);
extern void lsm_write_cancel(LsmWrite *write);

/* begin + apply of one entry that no one else can know of yet */
extern void lsm_write_one(LsmTree *tree, LsmSlice key, LsmSlice value);

/*
 * The same for the index entry of a row that has the key of the row which it
 * replaces.  The entry is certainly new (LsmEntry.known_new), and who checks
 * the key's uniqueness learns of it (lsm_key_changed).
 */
extern void lsm_write_kept_key(LsmTree *tree, LsmSlice key, LsmSlice value, bool brief);

/* Most keys for lsm_write_if_absent(): their locks are held together */
#define LSM_MAX_ABSENT	64

/*
 * Insert those of n entries that come before the first whose filter key
 * someone may have, as lsm_tree_definitely_absent() sees it: as if each were
 * checked and inserted under its key's lock.  Returns how many.  The next one
 * is left to the caller, who may have to wait for another transaction; so are
 * those behind it, since nothing must be inserted before such a wait that
 * would be inserted after it.  It may be absent for all that.  Of two with the
 * same filter key, the second counts as present.  Entries together at most
 * LSM_MAX_ENTRY_BYTES.  May load the tree, stall, flush and compact.
 * (insert_batch.c)
 */
extern int	lsm_write_if_absent(LsmTree *tree, const LsmEntry *entries, int n);

/*
 * Take an entry that is dead to everyone out of the memtables, unlogged
 * (prune.c).  False: it is not there as a whole.  REQUIRES: the key was PUT
 * once and will not be written again.
 */
extern bool lsm_tree_prune(LsmTree *tree, LsmSlice key, TransactionId xid);

/*
 * An xid not older than the deletion of any row that this process sees dead to
 * everyone; false if there is no telling (no snapshot).  It may be far newer
 * than that, so that queries on a standby are canceled which lose nothing: for
 * who does not know the row's deleter (lsm_rows_deleter).
 */
extern bool lsm_prune_bound(TransactionId *xid);

/*
 * For who has just looked for an entry that must once have been there, and has
 * missed it: not older than the deletion that took it out of a memtable.
 */
extern TransactionId lsm_tree_pruned_xid(LsmTree *tree);

/*
 * To be called before DELETE entries of rows that were deleted by `xid`, or
 * before, are written to the tree: snapshots of standbys that may see the rows
 * conflict.  An invalid xid: no snapshot ever saw them.  `vacuumed`: VACUUM
 * has deleted its last entry of this index.
 */
extern void lsm_horizon_log(LsmTree *tree, TransactionId xid, bool vacuumed);

/* ---- tombstone.c ---- */

/*
 * Entries found dead to everyone that cannot be forgotten, to be deleted
 * together
 */
typedef struct LsmTombstones
{
	MemoryContext context;
	int			n;
	int			bytes;			/* of entries */
	TransactionId xid;			/* newest deleter of them */
	LsmSlice   *keys;			/* LSM_MAX_TOMBSTONES of them; NULL until needed */
} LsmTombstones;

#define LSM_MAX_TOMBSTONES	64

/*
 * Remember a copy of the key in tombstones->context.  `xid`: who deleted the
 * row, or a later one; invalid if no snapshot ever saw it.
 */
extern void lsm_tombstones_add(LsmTombstones *tombstones, LsmSlice key, TransactionId xid);
extern bool lsm_tombstones_full(const LsmTombstones *tombstones);

/* Is the entry still there?  `scratch`: initialized. */
extern bool lsm_tombstone_needed(LsmTree *tree, LsmSlice key, StringInfo scratch);

/*
 * Write DELETE entries as far as that is possible without stalling and without
 * disk space, and empty the list.  REQUIRES: as lsm_tree_prune().
 */
extern void lsm_tombstones_write(LsmTombstones *tombstones, LsmTree *tree);

/* The value of a DELETE entry */
extern const char lsm_delete_value[1];

/*
 * The lock (lsm_key_lock) whose counter VACUUM bumps when it has removed
 * index entries and before their TIDs can be used again: readers that must
 * know whether an entry they have read can still be trusted compare it.
 */
#define LSM_INDEX_VACUUM_DIGEST	((LsmDigest) 0)

/*
 * Conflict checks.  Take the stamp, read, begin the write, lock the key, and
 * see whether the stamp holds: if it does, no change of this key's lock
 * partition was counted since and no file of the tree was rewritten; else
 * unlock, cancel and start over.  Who writes under the key's lock counts
 * before he gives it back.  Who writes without it counts when the entry can be
 * found (lsm_write_kept_key).
 */
typedef struct LsmStamp
{
	uint64		set_stamp;		/* memtables and files */
	uint64		key_counter;	/* changes of the key's partition */
} LsmStamp;

/*
 * The digest that picks a key's lock; same function of the bytes for everyone.
 */
extern LsmDigest lsm_lock_digest(LsmSlice filter_key);
extern void lsm_stamp_take(LsmTree *tree, LsmDigest lock_digest, LsmStamp *stamp);

/*
 * The same without waiting and without an epoch, for a tree that this
 * transaction has opened.  False: no stamp can be had now.  Two equal stamps,
 * taken one after the other, tell that what was read between them is still so,
 * as far as writers that lock are concerned.
 */
extern bool lsm_stamp_peek(LsmTree *tree, LsmDigest lock_digest, LsmStamp *stamp);

/*
 * lsm_tree_get(), and a stamp from before it.  The lock digest is that of the
 * key: table trees only.
 */
extern bool lsm_tree_get_stamped(LsmTree *tree, LsmSlice key, const LsmProbe *probe,
								 StringInfo value, LsmStamp *stamp);
extern void lsm_key_lock(LsmTree *tree, LsmDigest lock_digest);

/* REQUIRES: key locked. */
extern bool lsm_stamp_holds(LsmTree *tree, LsmDigest lock_digest, const LsmStamp *stamp);

/*
 * The same without the lock, for who will not write: false if a change was
 * counted before this call.
 */
extern bool lsm_stamp_held(LsmTree *tree, LsmDigest lock_digest, const LsmStamp *stamp);

/*
 * Count a change that was made without the lock.  REQUIRES: its transaction
 * has not ended.
 */
extern void lsm_key_changed(LsmTree *tree, LsmDigest lock_digest);

/* `changed`: something was applied under the lock. */
extern void lsm_key_unlock(LsmTree *tree, LsmDigest lock_digest, bool changed);

/* ---- bulk build (build.c): sorted entries straight into files ---- */

typedef struct LsmBuild LsmBuild;

/* REQUIRES: the tree is empty and exclusively ours.  Entries in key order. */
extern LsmBuild *lsm_build_begin(LsmTree *tree);
extern void lsm_build_add(LsmBuild *build, LsmSlice key, LsmSlice value);

/* Publishes the files; from here they are part of the tree. */
extern void lsm_build_finish(LsmBuild *build);

/* ---- maintenance (flush.c, compact.c) ---- */

/* Seal and write out every memtable.  REQUIRES: lock on the relation. */
extern void lsm_tree_flush(LsmTree *tree);

/*
 * The same in steps, for several trees together: seal what is in memory, and
 * the worker begins to flush; flush what no one is at.  lsm_tree_flush() waits
 * for the rest.
 */
extern void lsm_tree_flush_start(LsmTree *tree);
extern void lsm_tree_flush_idle(LsmTree *tree);

typedef struct LsmCompactRequest
{
	bool		full;			/* everything into the last level */
	TransactionId freeze_limit; /* valid: rewrite every file whose minimum xid
								 * precedes it, freezing */
	bool		drop_dead;		/* rewrite every file that may hold dead
								 * entries (has partial, deleted or dying
								 * ones) */
} LsmCompactRequest;

/* Runs in this process until done.  REQUIRES: lock on the relation. */
extern void lsm_tree_compact(LsmTree *tree, const LsmCompactRequest *request);

/* Smallest xid in all files (not memtables: flush first), invalid if none. */
extern TransactionId lsm_tree_min_xid(LsmTree *tree);

/* ---- facts (for SQL functions, planner) ---- */

typedef struct LsmFileInfo
{
	int			level;
	uint64		run;
	uint64		number;
	uint64		entries;
	uint64		file_bytes;
	uint64		filter_bytes;
	int			filter_scheme;
	TransactionId min_xid;
	LsmSlice	smallest;
	LsmSlice	largest;
} LsmFileInfo;

/* Files of the current version, newest level first; palloc'd copy. */
extern LsmFileInfo *lsm_tree_files(LsmTree *tree, int *nfiles);

/*
 * One segment of a file with an elastic filter; files of other schemes have
 * none.  What the units cost and gain is in shared memory, the same for all
 * sessions.
 */
typedef struct LsmSegmentInfo
{
	uint64		file;			/* number, as in LsmFileInfo */
	int			level;
	uint32		segment;		/* 0-based, in key order */
	uint64		keys;			/* distinct filter keys */
	int			units;			/* in the filter file */
	int			units_on;		/* in memory and asked; 0 also if not tracked */
	bool		tracked;		/* it has state in shared memory; false: no
								 * session has used the file since the start,
								 * or there is no room (lsm.elastic_memory) */
	double		accesses;		/* its hotness f: how often it was asked for a
								 * key, older accesses counting less and less */
	double		bits_per_key;	/* of the units that are on */
	double		expected_fpr;	/* of the units that are on; 1 with none */
	double		measured_fpr;	/* the same, as far as accesses have shown it:
								 * what the policy reckons with; if there were
								 * any */
} LsmSegmentInfo;

/* Segments of the current version, in the order of lsm_tree_files(); palloc'd.
 * (elastic_facts.c) */
extern LsmSegmentInfo *lsm_tree_segments(LsmTree *tree, int *nsegments);

/* Elastic filters of all trees together. */
typedef struct LsmElasticStats
{
	uint64		budget_bytes;	/* lsm.elastic_memory, as far as it is
								 * reserved */
	uint64		used_bytes;		/* units on */
	uint64		taken_bytes;	/* these, and units that are coming or going */
	uint64		reserved_bytes; /* at the start: what the budget can grow to */
	uint64		state_bytes;	/* of segments, not part of the budget */
	uint64		units_on;
	uint64		units_wanted;
	uint64		segments;		/* tracked */
	uint64		accesses;		/* keys asked for that segments did not have */
	uint64		promotions;
	uint64		demotions;
	uint64		loads;
	double		extra_io;		/* sum of f_i * r_i, with the units wanted */
} LsmElasticStats;

extern void lsm_elastic_read_stats(LsmElasticStats *stats);

typedef struct LsmTreeSize
{
	uint64		file_bytes;		/* .sst and .flt */
	uint64		file_entries;
	uint64		memtable_entries;
	uint64		memtable_bytes;
	uint64		levels;
} LsmTreeSize;

extern void lsm_tree_size(LsmTree *tree, LsmTreeSize *size);

/* Smallest keys of the tree's files and sampled block boundaries are not needed
 * by anyone yet; `lsm_verify` walks everything: */
typedef void (*LsmProblem) (void *arg, const char *object, const char *problem);
extern void lsm_tree_verify(LsmTree *tree, LsmProblem report, void *arg);

extern uint64 lsm_tree_keyspace(LsmTree *tree);

/* ---- statistics ---- */

typedef enum LsmCounter
{
	LSM_COUNT_LOOKUPS,
	LSM_COUNT_DIGESTS,
	LSM_COUNT_FILTER_PROBES,
	LSM_COUNT_FILTER_NEGATIVES,
	LSM_COUNT_FILTER_TRUE_POSITIVES,
	LSM_COUNT_FILTER_FALSE_POSITIVES,
	LSM_COUNT_UNIT_PROBES,
	LSM_COUNT_BLOCKS_READ,
	LSM_COUNT_MEMTABLE_HITS,
	LSM_COUNT_FLUSHES,
	LSM_COUNT_COMPACTIONS,
	LSM_COUNT_BYTES_FLUSHED,
	LSM_COUNT_BYTES_COMPACTED,
	LSM_COUNT_STALL_US,
	LSM_NCOUNTERS
} LsmCounter;

#define LSM_MAX_LEVELS		8	/* 0..7 */

/* What became of the questions asked of filters. */
typedef struct LsmFilterCounts
{
	uint64		negatives;		/* "no": the file was not read */
	uint64		true_positives;
	uint64		false_positives;	/* "maybe", and the file was read for
									 * nothing */
} LsmFilterCounts;

static inline uint64
lsm_filter_counts_probes(const LsmFilterCounts *counts)
{
	return counts->negatives + counts->true_positives + counts->false_positives;
}

/* Counts over all trees */
typedef struct LsmTotals
{
	uint64		counters[LSM_NCOUNTERS];
	LsmFilterCounts levels[LSM_MAX_LEVELS]; /* filters by level of their file */
} LsmTotals;

/* Add what this backend counted since the last call to shared memory: at
 * statement end (executor hooks, utility hook, transaction end). */
extern void lsm_counters_publish(void);

/*
 * Running totals of this backend and of the parallel workers that have worked
 * for it (for EXPLAIN: take, run, take again, subtract).
 */
extern void lsm_counters_session(LsmTotals *totals);

/* The filter of a file and what became of the questions asked of it. */
typedef struct LsmFilterInfo
{
	int			level;
	uint64		number;			/* of the file */
	bool		known;			/* false: of a newer release, says "maybe" */
	bool		current;		/* it is what the tree's settings ask for now */
	uint32		scheme;
	uint64		keys;			/* distinct filter keys; scheme none: entries */
	uint64		filter_bytes;
	double		bits_per_key;	/* as it came out */
	double		expected_fpr;	/* elastic: with all units on */
	LsmFilterCounts counts;		/* of all sessions since the start, the last
								 * reset, or since the file had to take
								 * another's place (filestats.c).  Scheme
								 * none: reads */
} LsmFilterInfo;

/*
 * In the order of lsm_tree_files(); palloc'd.  ERRORs naming a damaged filter.
 */
extern LsmFilterInfo *lsm_tree_filters(LsmTree *tree, int *nfilters);

/* Published counts of the tree. */
extern void lsm_tree_counters(LsmTree *tree, uint64 counters[LSM_NCOUNTERS]);

/* What files written from now on get. */
extern LsmFilterParams lsm_tree_filter_params(LsmTree *tree);

/* One row of pg_stat_lsm per tree known to shared memory; *iter starts at 0. */
typedef struct LsmTreeStats
{
	Oid			dboid;
	Oid			relfilenode;
	Oid			spcoid;
	uint64		counters[LSM_NCOUNTERS];
} LsmTreeStats;
extern bool lsm_stats_next(int *iter, LsmTreeStats *stats);
extern void lsm_stats_reset(Oid dboid);

/* ---- server start and workers ---- */

extern Size lsm_tree_shmem_bytes(void); /* shmem_request_hook */
extern void lsm_tree_shmem_request(void);	/* asks for memory and LWLocks */
extern void lsm_tree_shmem_init(void);	/* shmem_startup_hook */
extern void lsm_tree_rmgr_register(void);	/* _PG_init, preload only */

/*
 * One round of background work over all trees: flush what is sealed, compact
 * what is due, sweep orphans now and then.  `worker_no` 0 prefers flushes;
 * others only compact.  Returns true if something was done (call again soon).
 */
extern bool lsm_worker_round(int worker_no);

/*
 * An error ended the round: what it was about, and for how long that is left
 * alone now (0: the same will not be tried at once anyway).  NULL: it is not
 * known.
 */
extern const char *lsm_worker_failed(int *rest_seconds);

/*
 * Latch of worker i, for writers to wake it; called by the worker itself at
 * start.
 */
extern void lsm_worker_register_latch(int worker_no);

#include "tree/rows.h"

#endif							/* LSM_TREE_H */
