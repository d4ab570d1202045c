/*-------------------------------------------------------------------------
 *
 * tree.h
 *	  The LSM tree: an ordered map of bytes to bytes, newest wins.  The rooms
 *	  above the tree include this header, rows.h and facts.h, and no other
 *	  header of src/tree (check-layers.sh).
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

struct LogicalDecodingContext;
struct XLogRecordBuffer;

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
	 * Bytes of the leading columns (LsmTreeOptions.leading) of a filter key,
	 * or of a part of one that has at least these columns; 0: they cannot be
	 * told from the rest.  The same for all keys that begin with these bytes.
	 * Never fails.  Index trees alone.
	 */
	uint32		(*leading_bytes) (uint64 leading, LsmSlice filter_key);

	/*
	 * One problem of a value's format for lsm_verify, or NULL (palloc'd
	 * text).
	 */
	char	   *(*check) (LsmSlice key, LsmSlice value);

	/*
	 * Logical decoding has come to an entry of `relation` that was logged with
	 * a note (LsmEntry.note): queue the change that it stands for.  `value` and
	 * `note` lie unaligned.  ERRORs if they are malformed.  Table trees alone.
	 */
	void		(*decode) (struct LogicalDecodingContext *ctx,
						   struct XLogRecordBuffer *record,
						   const RelFileLocator *relation, LsmSlice value,
						   LsmSlice note);

	/*
	 * Does the value, written by transaction `xid` without a note, insert,
	 * update or delete a row?  Table trees alone.
	 */
	bool		(*changes_row) (LsmSlice value, TransactionId xid);
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
	int			filter_allocation;	/* LsmFilterAllocation, -1 unset */
	int			bottom_filter;	/* as lsm_bottom_filter, -1 unset */
	int			bottom_compression; /* as lsm_bottom_compression, -1 unset */

	/*
	 * How the leading columns of a key are told from the rest, where filters
	 * are to know them, too: for LsmKindOps.leading_bytes, one byte per column
	 * from the lowest on.  0: filters know whole keys.  One word, so that
	 * whoever reads it without a lock has all of it.
	 */
	uint64		leading;
} LsmTreeOptions;

#define LSM_TREE_OPTIONS_UNSET {-1, 0.0, 0, 0, -1, -1, -1, -1, 0}

/* Of LsmTreeOptions.leading */
static inline uint32
lsm_leading_columns(uint64 leading)
{
	uint32		n = 0;

	for (; leading != 0; leading >>= 8)
		n++;
	return n;
}

/* lsm.compression by the kind of tree: lsm_tree_compression() */
#define LSM_COMPRESSION_AUTO	100

/* lsm.bottom_compression: the one of all files */
#define LSM_COMPRESSION_SAME	101

typedef enum LsmElasticPolicy
{
	LSM_ELASTIC_ON_ACCESS,
	LSM_ELASTIC_ON_COMPACTION
} LsmElasticPolicy;

/* How bits_per_key is shared among the files of a tree */
typedef enum LsmFilterAllocation
{
	LSM_ALLOCATION_UNIFORM,		/* all alike */
	LSM_ALLOCATION_MONKEY		/* by the size of their run (filter_plan.c) */
} LsmFilterAllocation;

extern bool lsm_hash_sharing;
extern int	lsm_filter_scheme;
extern double lsm_bits_per_key;
extern int	lsm_filter_allocation;
extern int	lsm_bottom_filter;	/* LSM_FILTER_RIBBON, or LSM_FILTER_NONE: no
								 * other than that of all files */
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
extern int	lsm_target_file_size_kb;
extern int	lsm_compression;	/* LsmCompression or LSM_COMPRESSION_AUTO */
extern int	lsm_bottom_compression; /* LsmCompression or LSM_COMPRESSION_SAME */
extern const char *lsm_compression_name(int compression);	/* or NULL */
extern int	lsm_max_open_files;
extern bool lsm_ignore_missing_files;	/* salvage.c */
extern char *lsm_pg_upgrade;	/* data directory of the old cluster, or "" */
extern int	lsm_compaction_workers;
extern int	lsm_max_trees;		/* control blocks (restart) */
extern int	lsm_compaction_rate_kb; /* of all compactions, per second; 0: no
									 * limit */
extern int	lsm_log_compaction_min_duration;	/* ms; -1: never */

/* Keyspaces are directories in this one, in the data directory. */
#define LSM_DIR		"pg_lsm"

/* ---- life cycle (tree.c, keyspace.c) ---- */

/*
 * How the keys of a tree are made, for those who make them; the tree keeps it.
 * On disk, in the metapage.
 */
typedef struct LsmKeyRules
{
	uint32		version;		/* 0: before there were rules */
	uint32		collations;		/* digest of what else keys depend on; 0: none */
} LsmKeyRules;

/*
 * Give the (empty, existing) main fork of `rlocator` a new keyspace: directory,
 * owner file, metapage.  `relid` is the relation the tree will belong to.
 * `rules` may be NULL: zeroes.  Logged if permanent.  Called by
 * relation_set_new_filelocator, ambuild, and truncation.  ERRORs if the
 * directory cannot be made.
 */
extern void lsm_tree_create(RelFileLocator rlocator, ProcNumber backend, Oid relid,
							char relpersistence, LsmKind kind,
							const LsmKeyRules *rules);

/* Write and log the init fork of an unlogged relation: metapage with id 0. */
extern void lsm_tree_create_init_fork(RelFileLocator rlocator, LsmKind kind,
									  const LsmKeyRules *rules);

/*
 * What the tree was created with; a look at the metapage.  REQUIRES: a handle
 * with its relation, outside of epochs.
 */
extern void lsm_tree_key_rules(LsmTree *tree, LsmKeyRules *rules);

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
 * `rel` has taken over the file of another relation in this transaction.
 * Workers keep off the tree until somebody opens it again, and lock `rel` from
 * then on.  The call waits for workers that are about to publish under the
 * other relation's lock.  REQUIRES: AccessExclusiveLock on `rel`, or on its
 * table.
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
 * `begins`: CREATE DATABASE has checked all rights and begins to copy.  Else:
 * CREATE DATABASE has finished copying; without a call that began it, nothing
 * happens.  If the copy fails, the abort of the transaction ends it.
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
 * Fetch ahead what a lookup of the key will need of the memtables.  For a
 * caller that has something else to do before that lookup.
 */
extern void lsm_tree_prefetch(LsmTree *tree, LsmSlice filter_key, LsmDigest digest);

/*
 * True: no entry has the filter key; the memtables' digest indexes and the
 * files' filters all say so.  False: an entry may have it.  Then a cursor will
 * tell, and only the filter probes of that cursor are counted.
 */
extern bool lsm_tree_definitely_absent(LsmTree *tree, const LsmProbe *probe);

/* Most keys for lsm_tree_multi_lookup() */
#define LSM_GROUP_KEYS	32

/*
 * The same for n keys at once: all fences, then all prefetches, then the
 * filters, so that the waits for memory overlap.  absent[i]: key i is surely
 * absent.  For the other keys, the probes keep what the filters have said: a
 * later lookup or cursor asks no filter again as long as the list of files is
 * the same.  What such a lookup reads first is fetched ahead.  Returns how
 * many keys are absent.
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
extern void lsm_cursor_close(LsmCursor *cursor);

/*
 * Until the next call: the caller wants nothing but entries whose keys begin
 * with `leading`, the bytes of so many leading columns (of
 * LsmTreeOptions.leading), so that others may be left out.  Filters that know
 * leading columns are asked with one digest, which is computed here.  0 columns:
 * all entries, as at the beginning.  To be followed by a seek unless the limit
 * is what it was.
 */
extern void lsm_cursor_limit(LsmCursor *cursor, LsmSlice leading, uint32 columns);

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
 * A new cursor reads nothing but memtables.  What was in one when the scan
 * began is found there or, once the scan is over, in a sorted file.
 */
extern void lsm_cursor_memory_only(LsmCursor *cursor);

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

/* ---- fences (fences.c) ---- */

/*
 * Keys that cut the tree's entries from `low` up to `high` (empty: from the
 * first, to the last) into pieces of about the same size, each of at least
 * min_bytes as far as that is known: at most max_fences of them, ascending, in
 * the current memory context.  They need not be keys of the tree; who opens the
 * tree later gets others.
 */
extern int	lsm_tree_fences(LsmTree *tree, LsmSlice low, LsmSlice high,
							int max_fences, uint64 min_bytes, LsmSlice *fences);

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

	/*
	 * What logical decoding is told of the entry (LsmKindOps.decode); empty:
	 * nothing.  It is in the WAL record of the entry, and nowhere else: the
	 * tree does not look at it.  Set before lsm_write_begin().
	 */
	LsmSlice	note;
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
	char	   *notes;			/* tree's: room for those of the entries, or
								 * NULL */
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
 * As lsm_write_begin(), for entries that need not be written.  Neither waits
 * nor flushes nor takes disk space.  False: nothing was begun.  True:
 * lsm_write_apply() will write the first entries, as many as have room in log
 * pages that exist.
 */
extern bool lsm_write_begin_optional(LsmTree *tree, LsmWrite *write, LsmEntry *entries,
									 int nentries);

/* Log (WAL, log page) and insert into the memtable; ends the write.  The bytes
 * are copied, those of notes, too.  No memory failure, no wait but for buffer locks. */
extern void lsm_write_apply(LsmWrite *write);
extern void lsm_write_cancel(LsmWrite *write);

/* begin + apply of one entry that no one else can know of yet */
extern void lsm_write_one(LsmTree *tree, LsmSlice key, LsmSlice value);

/*
 * Write the index entry of a new row version that keeps the key of the version
 * it replaces.  The entry is certainly new (LsmEntry.known_new).  The change
 * is counted without the key lock (lsm_key_changed), so the stamps of
 * uniqueness checks of this key fail.  `brief`: LsmEntry.short_lived.
 */
extern void lsm_write_kept_key(LsmTree *tree, LsmSlice key, LsmSlice value, bool brief);

/* Most keys for lsm_write_if_absent(): their locks are held together */
#define LSM_MAX_ABSENT	64

/*
 * Insert entries in order, up to the first one whose filter key may be in the
 * tree already (lsm_tree_definitely_absent() is not sure).  Each is inserted
 * as if it were checked and inserted under its key's lock.  Returns how many
 * entries were inserted.  The next entry, which may be absent after all, is
 * the caller's: the caller may have to wait for another transaction.  The
 * entries behind it are the caller's, too: inserted before that wait, their
 * keys could make the other transaction wait for us.  Of two entries with the
 * same filter key, the second counts as present.  Entries together at most
 * LSM_MAX_ENTRY_BYTES.  May load the tree, stall, flush and compact.
 * (insert_absent.c)
 */
extern int	lsm_write_if_absent(LsmTree *tree, const LsmEntry *entries, int n);

/*
 * Take an entry that is dead to everyone out of the memtables, unlogged
 * (prune.c).  False: it is not there as a whole.  REQUIRES: the key was PUT
 * once and will not be written again.
 */
extern bool lsm_tree_prune(LsmTree *tree, LsmSlice key, TransactionId xid);

/*
 * *xid: every row that is dead to everyone, as this process sees it, was
 * deleted by *xid or by an older xid.  False: this process has no snapshot, so
 * there is no such bound.  *xid may be far newer than the deletion, so that
 * queries on a standby are canceled which lose nothing: it is for callers that
 * do not know the row's deleter (lsm_notes_get_deleter).
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
 * ask whether the stamp holds.  If the stamp holds, then since it was taken no
 * change of the key's lock partition was counted, and the tree's memtables and
 * files are the same.  Otherwise unlock, cancel and start over.  A writer that
 * holds the key lock counts its change before it unlocks.  A writer without
 * the lock counts its change once the entry can be found (lsm_write_kept_key).
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
 * As lsm_stamp_take(), but without waiting and without an epoch, for a tree
 * that this transaction has opened.  False: no stamp can be had now.  If two
 * stamps, taken one after the other, are equal, then no writer that takes the
 * key lock has changed what was read between them.
 */
extern bool lsm_stamp_peek(LsmTree *tree, LsmDigest lock_digest, LsmStamp *stamp);

/*
 * lsm_tree_get(), and a stamp that was taken before the value was read.  For
 * table trees only: there probe->digest is the lock digest, too.
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

/*
 * REQUIRES: the tree is empty and exclusively ours.  Entries in key order.
 * `expected_bytes` of keys and values together; 0: not known.
 */
extern LsmBuild *lsm_build_begin(LsmTree *tree, uint64 expected_bytes);
extern void lsm_build_add(LsmBuild *build, LsmSlice key, LsmSlice value);

/* Publishes the files; from here they are part of the tree. */
extern void lsm_build_finish(LsmBuild *build);

/* ---- maintenance (flush.c, compact.c) ---- */

/* Seal and write out every memtable.  REQUIRES: lock on the relation. */
extern void lsm_tree_flush(LsmTree *tree);

/*
 * lsm_tree_flush() in steps, for several trees together.  First
 * lsm_tree_flush_start() for each tree: it seals the active memtable, and the
 * flush worker begins.  Then lsm_tree_flush_idle() for each: it flushes
 * memtables that no other process is flushing.  Last lsm_tree_flush() for
 * each: it waits for the rest.
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

typedef struct LsmPurge
{
	/* Is the entry to go?  May be asked twice about some. */
	bool		(*condemned) (void *state, LsmSlice key);
	void	   *state;
	MemoryContext context;		/* of what is below */
	Size		max_bytes;		/* of it, about */

	/* result */
	uint64		nkept;			/* entries */
	uint64		ncondemned;
	LsmSlice   *left;			/* keys of condemned entries that are still in
								 * files: the caller has to delete them */
	uint64		nleft;
} LsmPurge;

/*
 * Ask about every entry that is in a sorted file, and take those that are
 * condemned out of the files that hold many.  An entry goes by its key, from
 * all files: REQUIRES: an entry is condemned with all older ones of its key.
 * Entries that are deleted already are asked about, too.  `condemned` may
 * read other trees, but write to none.  REQUIRES: lock on the relation.
 */
extern void lsm_tree_purge(LsmTree *tree, LsmPurge *purge);

/*
 * Give free pages at the end of the main fork back to the file system, if they
 * are at least `least` and nobody else uses the relation; returns how many they
 * were.  `patient`: wait for others, 5 s at most, as VACUUM does with a heap.
 * Only pages of flushed memtables are free.  REQUIRES: VACUUM's lock on the
 * relation.
 */
extern BlockNumber lsm_fork_truncate(LsmTree *tree, BlockNumber least, bool patient);

/*
 * As heap's.  Less is not worth the lock, which is replayed on standbys and
 * cancels queries there.
 */
#define LSM_TRUNCATE_PAGES	1000

/* Smallest xid in all files (not memtables: flush first), invalid if none. */
extern TransactionId lsm_tree_min_xid(LsmTree *tree);

/* ---- server start and workers ---- */

extern Size lsm_tree_shmem_bytes(void); /* shmem_request_hook */
extern void lsm_tree_shmem_request(void);	/* asks for memory and LWLocks */
extern void lsm_tree_shmem_init(void);	/* shmem_startup_hook */

/*
 * ERRORs if that hook was not called.  The access methods' handlers call this:
 * no relation of ours is opened then.  So does what shows or uses shared memory
 * without a relation.
 */
extern void lsm_tree_require_memory(void);
extern void lsm_tree_rmgr_register(void);	/* _PG_init, preload only */

/*
 * One round of background work over all trees: flush what is sealed, compact
 * what is due, sweep orphans now and then.  `worker_no` 0 prefers flushes;
 * others only compact.  Returns true if something was done (call again soon).
 */
extern bool lsm_worker_round(int worker_no);

/*
 * To be called when an error has ended a round.  Returns the error's context
 * ("while flushing ..."), or NULL if no attempt was in progress.
 * *rest_seconds: for how long that attempt is left alone (0: the next round
 * does not try the same thing anyway).
 */
extern const char *lsm_worker_failed(int *rest_seconds);

/*
 * Latch of worker i, for writers to wake it; called by the worker itself at
 * start.
 */
extern bool lsm_worker_register_latch(int worker_no);

#include "tree/facts.h"
#include "tree/rows.h"

#endif							/* LSM_TREE_H */
