/*-------------------------------------------------------------------------
 *
 * kind.c
 *	  What flush and compaction ask the table: how an override completes a row,
 *	  and what becomes of a version.
 *
 * Runs in workers that belong to no database, and in backends inside a
 * transaction: clog and procarray only.  No locks.  (What logical decoding asks:
 * logical.c.)
 *
 * A version's row is written once, by the PUT that made it, so a value tagged
 * PUT has nothing older below it, at the bottom or not: it may be dropped as
 * soon as no one can see it.  An override whose row is not among the inputs
 * must stay in front of it.  When no one can see that row any more the
 * override shrinks to the mark KILLED, which carries no xid; so freezing never
 * has to bring the two together.
 *
 * A DELETE hides a row in a sorted file that a scan has found dead to everyone
 * (scan.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "storage/procarray.h"

#include "table/table.h"

static void
parse(LsmSlice value, LsmRow *row)
{
	const char *problem = lsm_row_parse(value, row);

	if (unlikely(problem != NULL))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("value of an lsm table is corrupt: %s", problem),
				 errhint("Run lsm_verify() on the table.")));
}

static inline bool
is_delete(LsmSlice value)
{
	return value.len > 0 && value.data[0] == LSM_TAG_DELETE;
}

/*
 * Is the override about this version (versions.c, 4)?  Builds before those that
 * write versions kept no xmin in a frozen row.
 */
static bool
is_about(const LsmRow *override, const LsmRow *version)
{
	TransactionId a = lsm_row_shown_xmin(override);
	TransactionId b = lsm_row_shown_xmin(version);

	return override->version == version->version &&
		(a == b || !TransactionIdIsNormal(a) || !TransactionIdIsNormal(b));
}

/*
 * See versions.c, 4.  A PUT is never older than an override that has not been
 * about it: its maker had ended well for everyone.  If it were, the row would
 * go by its own header.
 */
static void
merge_row(LsmSlice newer, LsmSlice older, StringInfo out)
{
	LsmRow		row;
	LsmRow		below;

	parse(newer, &row);
	parse(older, &below);
	Assert(row.partial);
	if (row.flags & LSM_ROW_KILLED)
	{
		/* about all that is older, of which there may be more below */
		if (!below.partial)
			row.version = below.version;
	}
	else if (is_about(&row, &below))
	{
		row.open = below.open;
		row.span = below.span;
		row.kept = below.kept;
	}
	else if (below.version >= row.version && (below.open || below.partial))
	{
		lsm_row_encode(out, &row, false);
		return;
	}
	else
	{
		below.lockers = row.lockers;
		below.nlockers = row.nlockers;
		lsm_row_encode(out, &below, !below.partial);
		return;
	}
	row.body = below.body;
	row.body_bytes = below.body_bytes;
	lsm_row_encode(out, &row, !below.partial);
}

/*
 * How far a row's header has come: what came before is of no interest any more.
 */
static int
header_rank(const LsmRow *row)
{
	if (row->flags & LSM_ROW_KILLED)
		return 3;
	if (row->flags & LSM_ROW_XMAX_COMMITTED)
		return 2;
	return (row->flags & LSM_ROW_HAS_XMAX) ? 1 : 0;
}

/* That the inserter has committed stays true. */
static void
take_xmin_hints(LsmRow *row, const LsmRow *other)
{
	int			hints = LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN;

	if ((row->flags & (hints | LSM_ROW_KILLED)) || !(other->flags & hints))
		return;
	if (other->flags & LSM_ROW_XMIN_FROZEN)
	{
		lsm_row_freeze(row);
		return;
	}
	row->flags |= LSM_ROW_XMIN_COMMITTED;
	row->flags &= ~LSM_ROW_SPECULATIVE;
	row->cmin = 0;
}

/* Of two states with an xmax that is not known to have committed */
static bool
xmax_was_undone(const LsmRow *row)
{
	return (row->flags & LSM_ROW_HAS_XMAX) && !lsm_xid_running(row->xmax) &&
		!TransactionIdDidCommit(row->xmax);
}

/*
 * Two states of the same row.  An xmax of a transaction that was rolled back
 * may win over a later state without: it is looked up, so that does no harm.
 */
static void
settle_rows(LsmSlice a, LsmSlice b, StringInfo out)
{
	LsmRow		row;
	LsmRow		other;

	if (is_delete(a) || is_delete(b))
	{
		appendStringInfoChar(out, LSM_TAG_DELETE);
		return;
	}
	parse(a, &row);
	parse(b, &other);
	if (header_rank(&other) > header_rank(&row) ||
		(header_rank(&other) == 1 && header_rank(&row) == 1 &&
		 row.xmax != other.xmax && xmax_was_undone(&row)))
	{
		LsmRow		swap = row;

		row = other;
		other = swap;
	}
	if (row.partial && !other.partial)
	{
		row.body = other.body;
		row.body_bytes = other.body_bytes;
		row.partial = false;
	}
	take_xmin_hints(&row, &other);
	lsm_row_encode(out, &row, !row.partial);
}

/* Is the transaction still running?  All before the horizon have ended. */
static bool
running(LsmFateContext *cx, TransactionId xid)
{
	if (xid == cx->running_xid)
		return true;
	if (TransactionIdPrecedes(xid, cx->oldest_xid))
	{
		Assert(!lsm_xid_running(xid));
		return false;
	}
	if (!lsm_xid_running(xid))
		return false;
	cx->running_xid = xid;
	return true;
}

static void
note_removed(LsmFateContext *cx, TransactionId xid)
{
	if (!TransactionIdIsValid(cx->newest_removed_xid) ||
		TransactionIdFollows(xid, cx->newest_removed_xid))
		cx->newest_removed_xid = xid;
}

/* Bring the list of lockers up to date in place; returns whether it changed. */
static bool
prune_lockers(LsmFateContext *cx, LsmRow *row, char *lockers)
{
	int			kept = 0;
	int			i;

	for (i = 0; i < row->nlockers; i++)
	{
		TransactionId xid;
		LockTupleMode mode;

		lsm_row_locker(row, i, &xid, &mode);
		if (running(cx, xid))
			lsm_locker_put(lockers + kept++ * LSM_LOCKER_BYTES, xid, mode);
	}
	if (kept == row->nlockers)
		return false;
	row->lockers = lockers;
	row->nlockers = kept;
	return true;
}

/* No one can see the row: drop it, or mark the override that stands for it. */
static LsmFate
dead_fate(const LsmRow *row, StringInfo rewritten)
{
	LsmRow		mark;

	if (!row->partial)
		return LSM_FATE_DROP;
	if (row->flags == LSM_ROW_KILLED)
		return LSM_FATE_KEEP;
	memset(&mark, 0, sizeof(mark));
	mark.flags = LSM_ROW_KILLED;
	mark.partial = true;
	resetStringInfo(rewritten);
	lsm_row_encode(rewritten, &mark, false);
	return LSM_FATE_REWRITE;
}

static LsmFate
decide_fate(LsmFateContext *cx, LsmSlice key, LsmSlice value, StringInfo rewritten)
{
	char		lockers[LSM_MAX_LOCKERS * LSM_LOCKER_BYTES];
	LsmRow		row;
	bool		changed = false;
	bool		committed;

	if (is_delete(value))
		return cx->bottom ? LSM_FATE_DROP : LSM_FATE_KEEP;
	parse(value, &row);
	if (row.flags & LSM_ROW_KILLED)
		return dead_fate(&row, rewritten);

	committed = (row.flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN)) != 0;
	if (!committed && !running(cx, row.xmin))
	{
		if (!TransactionIdDidCommit(row.xmin))
			return dead_fate(&row, rewritten);	/* no one ever saw it */
		committed = true;
		row.flags |= LSM_ROW_XMIN_COMMITTED;
		row.flags &= ~LSM_ROW_SPECULATIVE;
		row.cmin = 0;
		changed = true;
	}

	if (row.flags & LSM_ROW_HAS_XMAX)
	{
		if (!(row.flags & LSM_ROW_XMAX_COMMITTED) && !running(cx, row.xmax))
		{
			changed = true;
			if (TransactionIdDidCommit(row.xmax))
				row.flags |= LSM_ROW_XMAX_COMMITTED;
			else
			{
				row.flags &= ~LSM_ROW_XMAX_FLAGS;
				row.xmax = InvalidTransactionId;
			}
		}
		if ((row.flags & LSM_ROW_XMAX_COMMITTED) &&
			TransactionIdPrecedes(row.xmax, cx->oldest_xid))
		{
#ifdef USE_ASSERT_CHECKING
			if (OidIsValid(cx->database))
				lsm_assert_removable(cx->database, row.xmax);
#endif
			note_removed(cx, row.xmax);
			return dead_fate(&row, rewritten);
		}
	}

	if (committed && !(row.flags & LSM_ROW_XMIN_FROZEN) &&
		TransactionIdIsValid(cx->freeze_limit) &&
		TransactionIdPrecedes(row.xmin, cx->freeze_limit))
	{
		note_removed(cx, row.xmin);
		lsm_row_freeze(&row);
		changed = true;
	}

	if (row.nlockers > 0 && prune_lockers(cx, &row, lockers))
		changed = true;

	/* VACUUM comes back for what may be dead by then */
	cx->dying = !committed || (row.flags & LSM_ROW_HAS_XMAX) != 0;

	if (!changed)
		return LSM_FATE_KEEP;
	resetStringInfo(rewritten);
	lsm_row_encode(rewritten, &row, !row.partial);
	return LSM_FATE_REWRITE;
}

static inline void
take_min(TransactionId *min, TransactionId xid)
{
	if (!TransactionIdIsValid(*min) || TransactionIdPrecedes(xid, *min))
		*min = xid;
}

static TransactionId
min_xid(LsmSlice value)
{
	TransactionId min = InvalidTransactionId;
	LsmRow		row;
	int			i;

	if (is_delete(value))
		return InvalidTransactionId;
	parse(value, &row);
	if (!(row.flags & (LSM_ROW_XMIN_FROZEN | LSM_ROW_KILLED)))
		take_min(&min, row.xmin);
	if (row.flags & LSM_ROW_HAS_XMAX)
		take_min(&min, row.xmax);
	for (i = 0; i < row.nlockers; i++)
	{
		TransactionId xid;
		LockTupleMode mode;

		lsm_row_locker(&row, i, &xid, &mode);
		take_min(&min, xid);
	}
	return min;
}

const LsmKindOps lsm_table_kind_ops = {
	.merge = merge_row,
	.settle = settle_rows,
	.fate = decide_fate,
	.min_xid = min_xid,
	.check = lsm_value_check,
	.check_row = lsm_row_check,
	.decode = lsm_row_decode_change,
	.changes_row = lsm_row_is_changed,
};
