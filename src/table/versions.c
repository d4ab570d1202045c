/*-------------------------------------------------------------------------
 *
 * versions.c
 *	  The versions of a row: which there are, who ended each, and which one is
 *	  meant.
 *
 * An update that stays in its row writes one value, a VERSION, on top of those
 * that the row has.  It does not touch the version that it ends: that one's end
 * is found when it is read.  Here is what that rests on.
 *
 * Order.  Values of a row are written under its key's lock, by who has found out
 * under the key's stamp that nothing has been written since it has read.  All
 * readers have them in the order in which they were written, newest first.
 *
 * 1. Valid is a version whose maker has committed, runs, or is ours.  The others
 *	  have come to nothing: rolled back, lost in a crash, or killed.  An update
 *	  replaces the newest valid version, after that one's maker has committed, or
 *	  as a part of it.  So
 *	  a) of two valid versions the older one's maker had ended well when the newer
 *		 one was written, or is part of the newer one's transaction;
 *	  b) if a version comes to nothing, so does each that was written over it while
 *		 it was valid.  With subtransactions: the newer one's maker was the innermost
 *		 one of a stack on which all were that can still take back the older one;
 *	  c) nothing that came to nothing becomes valid again.  (A prepared
 *		 transaction runs until it is resolved, across restarts, too.)
 *
 * 2. A version's end is the beginning of the next newer valid version: xmin, cmin
 *	  and TID of that one are its xmax, cmax and next.  A stored xmax is older than
 *	  such a successor, and has come to nothing, for else the successor could not
 *	  have been made.  Without a successor the stored xmax counts.
 *
 *	  It is asked twice whether the successor's maker has ended: here, and of the
 *	  xmax that it has become, by visibility.c.  If it was running here, and has
 *	  ended in between, visibility.c finds what it would find if the xmax had been
 *	  stored: of one that was rolled back it takes no notice.  What has ended here
 *	  does not change.  Which version is the successor cannot change otherwise:
 *	  by b) a valid one that comes to nothing takes with it all that are newer.
 *
 *	  So lifetimes meet, without a gap and without overlapping, for each snapshot:
 *	  who takes a version's maker for ended well takes all makers of older ones for
 *	  that, by a), though their xids do not ascend.  cmin is forgotten where
 *	  the maker is known to have committed (XMIN_COMMITTED), and then the xmax is
 *	  marked as committed, so that nobody looks at cmax.
 *
 *	  An xid is compared with others, and looked up, as long as it is not frozen.
 *	  The xmin that a frozen version keeps is good for nothing but to be shown: its
 *	  number may be another transaction's by now.  So it cannot be an xmax.  Nor is
 *	  it needed: all see what is frozen, and nothing that is older.  A frozen version
 *	  is the last one.
 *
 * 3. Locks are the row's.  Who writes the newest value, whichever version it is
 *	  about, carries on all that run; so the newest value has the list, though its
 *	  version came to nothing.
 *
 * 4. An override names the version that it is about: the newest valid one when it
 *	  was written.  It may meet (kind.c, merge_row())
 *	  - that version: same number and xmin.  It has its new header.
 *	  - a version of a higher number, or of the same number and another xmin: that
 *		one had come to nothing by then, for it was older than the override, and
 *		not the newest valid version.  It goes.
 *	  - a version of a lower number: then the override's own one is gone, which
 *		would have been met first.  It has come to nothing: nothing else lets the
 *		newest valid version go before a newer one is written over the override, or
 *		the row as a whole.  Its header goes, its locks stay.
 *	  Numbers tell: each version has one more than the valid one that it replaces,
 *	  so valid versions ascend, and one that came to nothing can only have the
 *	  number of a newer one, or a higher one.  An xmin that is frozen was not taken
 *	  back, so it is not that of a version which another of the same number has
 *	  replaced.
 *	  A killed row (KILLED) has no number: it is about all that is below.
 *	  No clog is asked, so all who merge two values do it alike, whenever they do.
 *
 * 5. A valid version closes the row for who respects a horizon if its maker has
 *	  committed and precedes it: all snapshots take the maker for ended, so by 2.
 *	  they see nothing that is older.  A snapshot of the standby that does must have
 *	  been taken before the closing version's maker ended: its xmin is not after
 *	  that xid.  So this is the xid to tell standbys of when older versions go, and
 *	  not one of theirs.  MVCC snapshots stop earlier, at the first version whose
 *	  maker they take for ended well.
 *
 * Locks: none.  A value is a copy, or stays while it is looked at.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"

#include "table/versions.h"

void
lsm_versions_begin(LsmVersions *versions, Relation rel, uint64 row, LsmSlice value)
{
	versions->rel = rel;
	versions->row = row;
	lsm_chain_begin(&versions->chain, value);
	versions->begun = false;
	versions->closed = false;
	versions->followed = false;
}

static void
versions_corrupt(const LsmVersions *versions, const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("row (%u,%u) of table \"%s\" is corrupt: %s",
					(BlockNumber) (versions->row >> 16), (OffsetNumber) versions->row,
					RelationGetRelationName(versions->rel), problem),
			 errhint("Run lsm_verify() on the table.")));
}

/*
 * The next version, valid or not, with the row's locks, as it was stored.  Who
 * wants what is left of a table does without those whose data are lost.
 */
static bool
decode_next(LsmVersions *versions, LsmRow *row, uint64 *tid)
{
	LsmSlice	element;

	if (versions->closed)
		return false;
	if (!lsm_chain_next(&versions->chain, &element))
	{
		if (versions->chain.at == NULL)
			versions_corrupt(versions, "chain of versions is malformed");
		if (!versions->begun)
			versions_corrupt(versions, "chain of versions is empty");
		return false;
	}
	if (lsm_value_tag(element) == LSM_TAG_DELETE)
		return false;
	lsm_row_decode(versions->rel, versions->row, element, row);
	if (row->partial)
		versions_corrupt(versions, "it has lost its data");
	*tid = lsm_tid_of(versions->row, row->version);
	if (!versions->begun)
	{
		versions->nlockers = row->nlockers;
		versions->lockers = row->lockers;
		versions->begun = true;
	}
	else
	{
		row->nlockers = versions->nlockers;
		row->lockers = versions->lockers;
		row->flags &= ~LSM_ROW_HAS_LOCKERS;
		if (row->nlockers > 0)
			row->flags |= LSM_ROW_HAS_LOCKERS;
	}
	if (likely(!row->delta) || lsm_row_maker(row) == LSM_MAKER_DEAD)
		return true;
	if (!lsm_ignore_missing_files)
		versions_corrupt(versions, "it has lost the version that it differs from");
	return decode_next(versions, row, tid);
}

/* The valid version that was met last ends this one. */
static void
end_version(const LsmVersions *versions, LsmRow *row)
{
	if (!versions->followed)
		return;
	row->flags = (row->flags & ~LSM_ROW_XMAX_FLAGS) | versions->end_flags;
	row->xmax = versions->xmax;
	row->cmax = versions->cmax;
	row->next = versions->next;
}

/* The version is valid: it ends the next one. */
static void
follow(LsmVersions *versions, const LsmRow *row, uint64 tid)
{
	versions->followed = true;
	versions->closed = (row->flags & LSM_ROW_XMIN_FROZEN) != 0;
	versions->end_flags = LSM_ROW_HAS_XMAX | LSM_ROW_HAS_NEXT;
	if (row->flags & LSM_ROW_XMIN_COMMITTED)
		versions->end_flags |= LSM_ROW_XMAX_COMMITTED;
	if (row->flags & LSM_ROW_STRONG)
		versions->end_flags |= LSM_ROW_KEYS_UPDATED;
	versions->xmax = row->xmin;
	versions->cmax = row->cmin;
	lsm_tid_unpack(tid, &versions->next);
}

bool
lsm_versions_next(LsmVersions *versions, bool any, LsmRow *row, uint64 *tid)
{
	while (decode_next(versions, row, tid))
	{
		if (lsm_row_maker(row) != LSM_MAKER_DEAD)
		{
			end_version(versions, row);
			follow(versions, row, *tid);
			return true;
		}
		if (any && !row->delta)
			return true;
	}
	return false;
}

/*
 * False: *version, *tid are the newest valid version.  *running: its maker, if
 * it was running before it was asked whether the snapshot sees it.
 */
static bool
find_visible(LsmVersions *versions, Snapshot snapshot, LsmRow *version, uint64 *tid,
			 TransactionId *running)
{
	bool		mvcc = snapshot->snapshot_type == SNAPSHOT_MVCC;
	LsmRow		newest;
	uint64		newest_tid = 0;

	*running = InvalidTransactionId;
	while (decode_next(versions, version, tid))
	{
		LsmMaker	maker = LSM_MAKER_DEAD;

		end_version(versions, version);
		if (!mvcc)
			maker = lsm_row_maker(version);
		if (lsm_row_visible(version, snapshot))
			return true;
		if (mvcc)
			maker = lsm_row_maker(version);
		if (maker == LSM_MAKER_DEAD)
			continue;
		if (!versions->followed)
		{
			newest = *version;
			newest_tid = *tid;
			if (maker == LSM_MAKER_RUNNING)
				*running = version->xmin;
		}
		follow(versions, version, *tid);
		if (mvcc && lsm_row_made_for(version, snapshot))
			break;
	}
	if (versions->followed)
	{
		*version = newest;
		*tid = newest_tid;
	}
	return false;
}

/*
 * See versions.h.  Mostly the newest version is seen.
 *
 * An MVCC snapshot says of each transaction, once and for all, whether it has
 * ended.  SnapshotSelf asks each time: it must not take a maker for running, so
 * that it does not see the newest version, and for committed where it has ended
 * the one before.  Only the newest valid version's maker may be running, and not
 * be ours.
 */
bool
lsm_chain_for_snapshot(Relation rel, uint64 row, LsmSlice value, Snapshot snapshot,
					   LsmRow *version, uint64 *tid)
{
	for (;;)
	{
		LsmVersions versions;
		TransactionId running;

		lsm_versions_begin(&versions, rel, row, value);
		if (find_visible(&versions, snapshot, version, tid, &running))
			return true;
		if (snapshot->snapshot_type == SNAPSHOT_MVCC ||
			!TransactionIdIsValid(running) || lsm_xid_running(running))
			return false;
	}
}

/* See versions.h. */
bool
lsm_chain_newest(Relation rel, uint64 row, LsmSlice value, LsmRow *version, uint64 *tid)
{
	LsmVersions versions;

	lsm_versions_begin(&versions, rel, row, value);
	while (decode_next(&versions, version, tid))
	{
		if (lsm_row_maker(version) != LSM_MAKER_DEAD)
			return true;
	}
	return false;
}

/* See versions.h.  Each maker is asked for once. */
HTSV_Result
lsm_chain_vacuum_horizon(Relation rel, uint64 row, LsmSlice value, LsmRow *version,
						 uint64 *tid, TransactionId *dead_after)
{
	LsmVersions versions;

	lsm_versions_begin(&versions, rel, row, value);
	while (decode_next(&versions, version, tid))
	{
		HTSV_Result status = lsm_row_vacuum_horizon(version, dead_after);

		if (status != HEAPTUPLE_DEAD)
			return status;
	}
	return HEAPTUPLE_DEAD;
}

/* See versions.h. */
HTSV_Result
lsm_versions_vacuum_status(Relation rel, uint64 row, LsmSlice value, TransactionId oldest_xmin,
						   LsmRow *version, TransactionId *deleter)
{
	uint64		tid;
	HTSV_Result status = lsm_versions_vacuum_horizon(rel, row, value, version, &tid, deleter);

	if (status == HEAPTUPLE_RECENTLY_DEAD && TransactionIdPrecedes(*deleter, oldest_xmin))
		status = HEAPTUPLE_DEAD;
	return status;
}

/* See versions.h. */
bool
lsm_versions_surely_dead(Relation rel, uint64 row, LsmSlice value, TransactionId *deleter)
{
	LsmRow		version;
	uint64		tid;
	HTSV_Result status = lsm_versions_vacuum_horizon(rel, row, value, &version, &tid, deleter);

	return status == HEAPTUPLE_DEAD ||
		(status == HEAPTUPLE_RECENTLY_DEAD && lsm_xid_removable(rel, *deleter));
}

/* See versions.h. */
bool
lsm_versions_exact(Relation rel, uint64 tid, LsmSlice value, Snapshot snapshot,
				   LsmRow *version, LsmRow *newest)
{
	bool		any = snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_ANY;
	bool		have_newest = false;
	LsmVersions versions;
	uint64		at;

	Assert(!any || newest == NULL);
	lsm_versions_begin(&versions, rel, lsm_tid_row(tid), value);
	while (lsm_versions_next(&versions, any, version, &at))
	{
		if (newest != NULL && !have_newest)
			*newest = *version;
		have_newest = true;
		if (at == tid && (snapshot == NULL || lsm_row_visible(version, snapshot)))
			return true;
		if (snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_MVCC &&
			lsm_row_made_for(version, snapshot))
			break;
	}
	return false;
}

/* ---- when a lookup has enough ---- */

/*
 * A maker that nobody could look up is not asked for: who decodes the row will
 * find another way (readahead.c).
 */
static inline bool
outlived_clog(const LsmRow *row)
{
	return !(row->flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN | LSM_ROW_KILLED)) &&
		TransactionIdPrecedes(row->xmin, TransamVariables->oldestClogXid);
}

/*
 * Its maker has ended well, or it is ours: nobody else can change that between
 * two looks.
 */
static inline bool
is_settled(const LsmRow *row)
{
	LsmMaker	maker = lsm_row_maker(row);

	return maker == LSM_MAKER_COMMITTED || maker == LSM_MAKER_OURS;
}

/* What cannot be decoded is enough: who decodes it will say so. */
static bool
has_newest(void *arg, LsmSlice element)
{
	LsmRow		row;

	if (lsm_row_parse_maker(element, &row) != NULL)
		return true;
	return !outlived_clog(&row) && is_settled(&row);
}

static bool
has_seen(void *arg, LsmSlice element)
{
	Snapshot	snapshot = arg;
	LsmRow		row;

	if (lsm_row_parse_maker(element, &row) != NULL)
		return true;
	if (outlived_clog(&row))
		return false;
	switch (snapshot->snapshot_type)
	{
		case SNAPSHOT_MVCC:
			return lsm_row_made_for(&row, snapshot);
		case SNAPSHOT_ANY:
			return true;
		default:
			/* it sees this one, or none that is older */
			return is_settled(&row);
	}
}

static bool
has_exact(void *arg, LsmSlice element)
{
	const LsmExact *exact = arg;
	Snapshot	snapshot = exact->snapshot;
	LsmRow		row;

	if (lsm_row_parse_maker(element, &row) != NULL)
		return true;
	if (outlived_clog(&row))
		return false;
	if (snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_MVCC)
		return lsm_row_made_for(&row, snapshot);
	if (lsm_tid_of(lsm_tid_row(exact->tid), row.version) != exact->tid)
		return (row.flags & LSM_ROW_XMIN_FROZEN) != 0;
	return is_settled(&row) ||
		(snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_ANY);
}

static bool
has_closed(void *arg, LsmSlice element)
{
	const TransactionId *oldest_xmin = arg;
	LsmRow		row;

	if (lsm_row_parse_maker(element, &row) != NULL)
		return true;
	return !outlived_clog(&row) && lsm_row_closes(&row, *oldest_xmin);
}

LsmEnough
lsm_enough_for_snapshot(Snapshot snapshot)
{
	return (LsmEnough) {has_seen, snapshot};
}

LsmEnough
lsm_enough_newest(void)
{
	return (LsmEnough) {has_newest, NULL};
}

LsmEnough
lsm_enough_exact(LsmExact *exact)
{
	return (LsmEnough) {has_exact, exact};
}

LsmEnough
lsm_enough_closed(TransactionId *oldest_xmin)
{
	return (LsmEnough) {has_closed, oldest_xmin};
}

bool
lsm_row_closes(const LsmRow *version, TransactionId oldest_xmin)
{
	return (version->flags & LSM_ROW_XMIN_FROZEN) ||
		(TransactionIdIsNormal(version->xmin) &&
		 TransactionIdPrecedes(version->xmin, oldest_xmin) &&
		 lsm_row_maker(version) == LSM_MAKER_COMMITTED);
}
