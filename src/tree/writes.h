/*-------------------------------------------------------------------------
 *
 * writes.h
 *	  Part of tree.h: writing entries, taking dead ones out, and the locks of
 *	  keys with the stamps by which a reader knows that nothing has changed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TREE_WRITES_H
#define LSM_TREE_WRITES_H

#ifndef LSM_TREE_H
#error "tree/tree.h includes this header"
#endif

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

	/*
	 * What logical decoding is told of the entry (LsmKindOps.decode); empty:
	 * nothing.  It is in the WAL record of the entry, and nowhere else: the
	 * tree does not look at it.  Set before lsm_write_begin().
	 */
	LsmSlice	note;

	/*
	 * What is logged in place of the value; empty: the value.  With what lies
	 * below the key it says the same (LSM_TAG_DELTA).  Set before
	 * lsm_write_begin().
	 */
	LsmSlice	logged;
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

/*
 * Log (WAL, log page) and insert into the memtable; ends the write.  The bytes
 * are copied, those of notes, too.  No memory failure, no wait but for buffer
 * locks.
 */
extern void lsm_write_apply(LsmWrite *write);
extern void lsm_write_cancel(LsmWrite *write);

/*
 * When this process last wrote, no transaction after this one had ended.  Read
 * without a lock (PostgreSQL knows 64 bits of it, and writes them at once).
 */
extern TransactionId lsm_last_write_completed_xid;

/* begin + apply of one entry that no one else can know of yet */
extern void lsm_write_one(LsmTree *tree, LsmSlice key, LsmSlice value);

/*
 * Write the index entry of a new row version that keeps the key of the version
 * it replaces.  The entry is certainly new (LsmEntry.known_new).  The change
 * is counted without the key lock (lsm_key_changed), so the stamps of
 * uniqueness checks of this key fail.
 */
extern void lsm_write_kept_key(LsmTree *tree, LsmSlice key, LsmSlice value);

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
 * For who has just looked for an entry that must once have been there, and has
 * missed it: not older than the deletion that took it out of a memtable.
 */
extern TransactionId lsm_tree_pruned_xid(LsmTree *tree);

/*
 * If that xid, or the one that a memtable's flush would log, precedes `before`,
 * log it for standbys one last time, and forget it: with 2^31 xids after it, it
 * would seem to be one to come.
 */
extern void lsm_tree_age_pruned_xid(LsmTree *tree, TransactionId before);

/*
 * VACUUM freezes in files.  A change of a row copies its header, so a row that
 * is locked or updated again and again would keep its inserter's xid for good,
 * and relfrozenxid with it: changes that come while VACUUM is at work, or after
 * it, freeze inserters before its limit themselves.  All snapshots see these as
 * committed; those of standbys conflict, here and now.  Each VACUUM of a table
 * has to call this.  Invalid: changes freeze nothing.
 */
extern void lsm_tree_note_freeze_limit(LsmTree *tree, TransactionId limit);

/* Is the committed inserter of a row that is being changed to be frozen? */
extern bool lsm_tree_freezes(LsmTree *tree, TransactionId xid);

/*
 * To be called before DELETE entries of rows that were deleted by `xid`, or
 * before, are written to the tree: snapshots of standbys that may see the rows
 * conflict.  An invalid xid: no snapshot ever saw them.  `vacuumed`: VACUUM
 * has deleted its last entry of this index.
 */
extern void lsm_horizon_log(LsmTree *tree, TransactionId xid, bool vacuumed);

/*
 * To be called before a VERSION is written: older builds, which cannot read it,
 * refuse the tree from then on.  REQUIRES: a lock on the relation; no content
 * lock held; not inside an epoch; not in recovery.
 */
extern void lsm_tree_require_format(LsmTree *tree);

/* ---- what may be removed (removable.c) ---- */

/*
 * Rows whose committed deleter precedes it are dead to everyone, for ever: as
 * is known now of what is running.
 */
extern TransactionId lsm_tree_horizon_now(LsmTree *tree);

/*
 * Horizons go backward: VACUUM takes no notice of other databases, the snapshot
 * of who builds an index or rewrites the table does.  What was dead to all once
 * is so for ever, and VACUUM may have removed what belongs to it elsewhere (its
 * index entries, its values in the TOAST table) though the row is still there.
 * (Where the TOAST table is vacuumed alone, nobody notes it; so it is with heap.)
 * VACUUM notes its horizon, as does a writer who seals a table's memtable (who
 * flushes it may be in no database, and know a horizon of all databases only).
 * lsm_tree_horizon() is the later of what was noted and of the one of now.  The
 * note is lost with the tree's control block.
 */
extern void lsm_tree_note_horizon(LsmTree *tree, TransactionId horizon);
extern TransactionId lsm_tree_horizon(LsmTree *tree);

/*
 * Does the xid precede a horizon of the table?  Mostly without a look at what
 * is running: false may be out of date.  REQUIRES: a snapshot.
 */
extern bool lsm_xid_removable(Relation table, TransactionId xid);

/*
 * What `xid` of this database has deleted is about to be removed: nobody needs
 * it.
 */
#ifdef USE_ASSERT_CHECKING
extern void lsm_assert_removable(Oid database, TransactionId xid);
#endif

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
	bool		tids_reused;	/* they are entries of a heap table's index: */
	uint64		vacuums;		/* counter of LSM_INDEX_VACUUM_DIGEST before
								 * they were read */
} LsmTombstones;

#define LSM_MAX_TOMBSTONES	64

/* Fewer of a heap table's index cost less to look up again than to delete. */
#define LSM_MIN_REUSED_TOMBSTONES	8

/*
 * Remember a copy of the key in tombstones->context.  `xid`: who deleted the
 * row, or a later one; invalid if no snapshot ever saw it.
 */
extern void lsm_tombstones_add(LsmTombstones *tombstones, LsmSlice key, TransactionId xid);
extern bool lsm_tombstones_full(const LsmTombstones *tombstones);
extern void lsm_tombstones_forget(LsmTombstones *tombstones);

/* Is the entry still there?  `scratch`: initialized. */
extern bool lsm_tombstone_needed(LsmTree *tree, LsmSlice key, StringInfo scratch);

/*
 * Write DELETE entries as far as that is possible without stalling and without
 * disk space, and empty the list.  REQUIRES: as lsm_tree_prune(), or
 * tids_reused.
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
static inline bool
lsm_tree_get_stamped(LsmTree *tree, LsmSlice key, const LsmProbe *probe, StringInfo value,
					 LsmStamp *stamp)
{
	return lsm_tree_get_until(tree, key, probe, NULL, value, stamp);
}

extern void lsm_key_lock(LsmTree *tree, LsmDigest lock_digest);
extern bool lsm_key_lock_conditional(LsmTree *tree, LsmDigest lock_digest);

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

#endif							/* LSM_TREE_WRITES_H */
