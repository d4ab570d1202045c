/*-------------------------------------------------------------------------
 *
 * tree.h
 *	  The LSM tree: an ordered map of bytes to bytes, newest wins.  The rooms
 *	  above the tree include this header and its parts (chain.h, facts.h,
 *	  reads.h, writes.h, rows.h), and no other header of src/tree
 *	  (check-layers.sh).
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

/*
 * A slice without bytes may have no data: NULL, which memcpy() and memcmp() do not
 * take even with a length of 0, for the compiler may conclude that it is none.
 */
static inline int
lsm_bytes_compare(const char *a, const char *b, uint32 bytes)
{
	return bytes > 0 ? memcmp(a, b, bytes) : 0;
}

static inline void
lsm_bytes_copy(char *to, const char *from, uint32 bytes)
{
	if (bytes > 0)
		memcpy(to, from, bytes);
}

/* appendBinaryStringInfo(), where there is nearly always room */
static inline void
lsm_buffer_append(StringInfo buf, const char *data, uint32 bytes)
{
	if (unlikely((Size) buf->len + bytes >= (Size) buf->maxlen))
		enlargeStringInfo(buf, bytes);
	lsm_bytes_copy(buf->data + buf->len, data, bytes);
	buf->len += bytes;
	buf->data[buf->len] = '\0';
}

/* Numbers of 7 bits per byte, the least significant first */
#define LSM_VARINT32_BYTES	5

static inline char *
lsm_varint_put(char *out, uint64 value)
{
	while (value >= 0x80)
	{
		*out++ = (char) (value | 0x80);
		value >>= 7;
	}
	*out++ = (char) value;
	return out;
}

static inline int
lsm_varint_bytes(uint64 value)
{
	int			bytes = 1;

	while ((value >>= 7) != 0)
		bytes++;
	return bytes;
}

/* The byte behind it, or NULL if there is no end before `end`. */
static inline const char *
lsm_varint_get(const char *in, const char *end, uint64 *value)
{
	uint64		v = 0;

	for (int shift = 0; in < end && shift < 64; shift += 7)
	{
		uint8		byte = (uint8) *in++;

		v |= (uint64) (byte & 0x7F) << shift;
		if (byte < 0x80)
		{
			*value = v;
			return in;
		}
	}
	return NULL;
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
	int			c = lsm_bytes_compare(a.data, b.data, Min(a.len, b.len));

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
	LSM_TAG_PUT = 1,			/* complete: what is older does not count */
	LSM_TAG_DELETE = 2,			/* the key is gone; a value like any other */
	LSM_TAG_PARTIAL = 3,		/* newer part of a value; completed by
								 * LsmKindOps.merge with what is below it */
	LSM_TAG_VERSION = 4,		/* complete, and newer than values below it that
								 * may still matter */
	LSM_TAG_CHAIN = 5,			/* several of them, see chain.h */
	LSM_TAG_DELTA = 6			/* a VERSION that a value below it is needed
								 * for: LsmKindOps.restore */
} LsmTag;

/* Is there something of the key, and not just a part? */
static inline bool
lsm_tag_is_row(int tag)
{
	return likely(tag == LSM_TAG_PUT) || tag >= LSM_TAG_VERSION;
}

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
	Oid			database;		/* whose snapshots may see the rows; invalid:
								 * a temporary tree */
	TransactionId oldest_xid;	/* lsm_tree_horizon(): a row whose committed
								 * deleter precedes it is seen by no one */
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

	/*
	 * likewise: a row goes with this entry, dropped or hidden by a DELETE, that
	 * was there for readers until now, or dead
	 */
	bool		gone;
} LsmFateContext;

typedef enum LsmRestored
{
	LSM_RESTORED,
	LSM_RESTORE_OTHER,			/* it differs from another, older one */
	LSM_RESTORE_NOT				/* it differs from this one, which is a DELTA
								 * itself, or does not fit */
} LsmRestored;

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
	 * Complete `newer` (tag PARTIAL) with `older` (PUT, VERSION, DELTA or PARTIAL);
	 * append the result, tag byte included, to `out` (empty on entry).  Result
	 * is what older is, or PARTIAL if `newer` is not about `older`, which goes
	 * then; or PUT in place of a VERSION, if `newer` is about all that is older
	 * (of a DELTA nothing can be made then, and `newer` is the result).
	 */
	void		(*merge) (LsmSlice newer, LsmSlice older, StringInfo out);

	/*
	 * Make a VERSION of `delta`, if `older` (VERSION, PUT or DELTA) is what it
	 * differs from; append it to `out`.  Table trees alone.
	 */
	LsmRestored (*restore) (LsmSlice delta, LsmSlice older, StringInfo out);

	/*
	 * Of two values of which it is unknown which is newer, the one that holds,
	 * with what only the other has; append it to `out`.  Table trees alone.
	 */
	void		(*settle) (LsmSlice a, LsmSlice b, StringInfo out);

	/*
	 * Nobody needs what is older than this VERSION: it may become a PUT, by
	 * fate().  NULL: never.  cx->bottom is of another key.  Table trees alone.
	 */
	bool		(*closes) (LsmFateContext *cx, LsmSlice element);

	/*
	 * Decide about the newest value of a key, partial ones already merged as
	 * far as the inputs allow, and so versions strung together.  A PARTIAL at
	 * the bottom never reaches the callback, nor one that ends a CHAIN there: it
	 * has lost its row and the tree drops it.  A VERSION may be the last there, if
	 * what was below it was pruned: it stays, or becomes a PUT.  Runs in a worker
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
	 * As check(), of a whole value: does it fit the relation, and the
	 * transactions that there have been?  *hidden: the snapshot proves that not
	 * all see the row.  Table trees alone.
	 */
	char	   *(*check_row) (Relation rel, LsmSlice key, LsmSlice value, Snapshot snapshot,
							  bool *hidden);

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
extern int	lsm_bottom_filter;	/* a scheme, or that of all files: */
#define LSM_BOTTOM_SAME		LSM_FILTER_NONE
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

/*
 * Are all settings whose names begin so those of the server, which the workers
 * have, too?
 */
extern bool lsm_settings_are_servers(const char *prefix);
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
extern bool lsm_compaction_by_scans;	/* scans that merge runs pay for theirs */
extern int	lsm_compaction_rate_kb; /* of all compactions, per second; 0: no
									 * limit */
extern int	lsm_background_share;	/* percent, where sessions want processors */
extern int	lsm_log_compaction_min_duration;	/* ms; -1: never */

/* Keyspaces are directories in this one, in the data directory. */
#define LSM_DIR		"pg_lsm"
/* "pg_lsm/0123456789abcdef", or with pgsql_tmp before the number */
#define LSM_KEYSPACE_DIR_BYTES	40

/* ---- life cycle (tree.c, keyspace.c) ---- */

/*
 * How the keys of a tree are made, for those who make them; the tree keeps it.
 * On disk, in the metapage.
 */
typedef struct LsmKeyRules
{
	uint32		version;		/* 0: before there were rules */
	uint32		collations;		/* digest of the versions of what else keys
								 * depend on; 0: none */
} LsmKeyRules;

/*
 * What the environment of those who have made the tree did to keys.  On disk,
 * in the metapage; zeroes in those of older builds.
 */
#define LSM_KEY_COLUMNS		32
#define LSM_KEY_ORIGIN_CURRENT	2

typedef struct LsmKeyOrigin
{
	uint32		known;			/* 0: nothing, by an older build; 1: what
								 * stands up to `layouts`; 2: all */
	uint32		sample;			/* digest of keys of a sample; 0: none */
	uint8		layouts[LSM_KEY_COLUMNS];	/* of a column's codes, counted from 1 */
	uint32		functions;		/* digest of the support functions that make
								 * codes */
	uint16		row_columns[LSM_KEY_COLUMNS];	/* that the row type of a
												 * column had; 0: it is none */
} LsmKeyOrigin;

typedef struct LsmKeyMaking
{
	LsmKeyRules rules;
	LsmKeyOrigin origin;
} LsmKeyMaking;

/*
 * Give the (empty, existing) main fork of `rlocator` a new keyspace: directory,
 * owner file, metapage.  `relid` is the relation the tree will belong to.
 * `making` may be NULL: zeroes.  Logged if permanent.  Called by
 * relation_set_new_filelocator, ambuild, and truncation.  ERRORs if the
 * directory cannot be made.
 */
extern void lsm_tree_create(RelFileLocator rlocator, ProcNumber backend, Oid relid,
							char relpersistence, LsmKind kind,
							const LsmKeyMaking *making);

/*
 * ERROR if files of the tree are missing, and the session reads it without them
 * (lsm.ignore_missing_files): for who takes what is not there for gone.
 * REQUIRES: as a read.
 */
extern void lsm_tree_require_files(LsmTree *tree);

/* Write and log the init fork of an unlogged relation: metapage with id 0. */
extern void lsm_tree_create_init_fork(RelFileLocator rlocator, LsmKind kind,
									  const LsmKeyMaking *making);

/*
 * What the tree was created with; a look at the metapage.  REQUIRES: a handle
 * with its relation, outside of epochs.
 */
extern void lsm_tree_key_making(LsmTree *tree, LsmKeyMaking *making);

/*
 * Throw away the tree's content in place (TRUNCATE in the creating
 * transaction, ON COMMIT DELETE ROWS, index about to be rebuilt): truncates
 * the main fork to zero and creates a new keyspace.  REQUIRES: exclusive use.
 */
extern void lsm_tree_reset(Relation rel, LsmKind kind);

/*
 * The backend's handle on the relation's tree; cached, cheap after the first
 * time (kept in a backend hash by relfilenode and checked against
 * the keyspace id in shared memory).  Valid as long as what the current
 * resource owner takes, so to the end of the transaction, or to the rollback of
 * a subtransaction; REQUIRES a lock on the relation.  `options` NULL = follow the GUCs.
 * The first use after a server start loads the memtable from the log.
 * ERRORs: corrupt metapage (ERRCODE_DATA_CORRUPTED), cloned tree
 * (ERRCODE_FEATURE_NOT_SUPPORTED).
 */
extern LsmTree *lsm_tree_open(Relation rel, LsmKind kind,
							  const LsmTreeOptions *options);

/* Has this transaction opened the relation's tree, and not rolled that back? */
extern bool lsm_tree_is_open(Relation rel);

/*
 * The transaction opened the tree for one look, and may look at more trees than
 * there are control blocks: another tree may have this one's.  Handles of the
 * tree are not valid any more.  REQUIRES: no cursor and no job of this
 * transaction uses the tree; outside of epochs.
 */
extern void lsm_tree_let_go(Relation rel);

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
 * CREATE DATABASE has checked all rights and begins to copy; what it copies is
 * removed if its transaction aborts, whenever that is.
 */
extern void lsm_tree_database_copy(Oid dboid);

/*
 * The database is being moved to another tablespace: its forks are copied, and
 * what is known of them in the old place does not hold any more.  If the move is
 * rolled back, that is read again.  REQUIRES: core's exclusive lock on the
 * database, and that nobody is in it.
 */
extern void lsm_tree_note_database_move(Oid dboid);

/*
 * This transaction begins to drop the database, unless somebody is in it.  What
 * is known of it is forgotten when the transaction commits.  REQUIRES: core's
 * exclusive lock on the database.
 */
extern void lsm_tree_note_database_drop(Oid dboid);

/*
 * A database was copied in this transaction, which still has the source locked:
 * give the copies of its trees keyspaces of their own (clone.c).
 */
extern void lsm_tree_clone_database(Oid from_dboid, Oid to_dboid);

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
 * Each write that had been given row numbers before the call is in the tree, as
 * after lsm_tree_flush().  False: that cannot be said, as writers come all the
 * time.
 */
extern bool lsm_tree_writers_left(LsmTree *tree);

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
	bool		urgent;			/* lsm.compaction_rate is no limit */
} LsmCompactRequest;

/* Runs in this process until done.  REQUIRES: lock on the relation. */
extern void lsm_tree_compact(LsmTree *tree, const LsmCompactRequest *request);

/*
 * Dead rows that flushes and compactions have dropped, or hidden by a DELETE, by
 * all processes.  Differences count, of a tree that has been open.
 */
extern uint64 lsm_tree_values_dropped(LsmTree *tree);

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
 * VACUUM, ANALYZE: this many bytes of a tree have been read by a cursor.  They
 * are charged like pages of a heap; may sleep (vacuum_cost_delay).
 */
extern void lsm_vacuum_pay(uint64 read_bytes);

/*
 * Give free pages at the end of the main fork back to the file system, if they
 * are at least `least` and nobody else uses the relation; returns how many they
 * were.  `patient`: wait for others, 5 s at most, as VACUUM does with a heap.
 * Only pages of flushed memtables are free.  REQUIRES: VACUUM's lock on the
 * relation.
 */
extern BlockNumber lsm_fork_truncate(LsmTree *tree, BlockNumber least, bool patient);

/*
 * What is in memory has log pages that are not free, anywhere in the fork: would
 * most of the fork go if it were flushed?
 */
extern bool lsm_fork_wants_flush(LsmTree *tree);

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

/*
 * For trees that are opened and built within a section of core's that has a
 * callback for the exit of the process (PG_ENSURE_ERROR_CLEANUP): it has to be
 * the latest at the section's end, so ours come before.
 */
extern void lsm_tree_prepare_process(void);
extern void lsm_tree_rmgr_register(void);	/* _PG_init, preload only */

/*
 * Files of trees that earlier transactions have dropped go, if no worker is
 * there to remove them.  REQUIRES: a transaction, outside of epochs.
 */
extern void lsm_tree_remove_dropped(void);

/*
 * One round of background work over all trees: flush what is sealed, compact
 * what is due, sweep orphans now and then.  `worker_no` 0 prefers flushes;
 * others only compact.  Returns true if something was done (call again soon).
 */
extern bool lsm_worker_round(int worker_no);

/*
 * To be called when an error has ended a round.  False if no attempt was in
 * progress.  Else whatever failed rests, and with `report` a WARNING takes the
 * place of the error: with what failed, and for how long it is left alone.
 * Memory: `context`.
 */
extern bool lsm_worker_failed(MemoryContext context, bool report);

/*
 * Latch of worker i, for writers to wake it; called by the worker itself at
 * start.
 */
extern bool lsm_worker_register_latch(int worker_no);

#include "tree/chain.h"
#include "tree/facts.h"
#include "tree/reads.h"
#include "tree/writes.h"
#include "tree/rows.h"

#endif							/* LSM_TREE_H */
