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
 * A version's row is written once, by the PUT or VERSION that made it.  A VERSION
 * becomes a PUT when nobody needs what is older (versions.c, 5), which then is
 * hidden, and goes when the two meet.  So a PUT of a row's first version has
 * nothing older below it, at the bottom or not: it may be dropped as soon as no
 * one can see it.  A PUT of a later version may hide older ones: in its place
 * comes a DELETE, which goes at the bottom.
 *
 * A version whose maker was rolled back is dropped, and the row is what is below.
 * Only if that was the row's first version, is there no row.
 *
 * An override whose version is not among the inputs must stay in front of it, if
 * it says more than what is below.
 * When no one can see that row any more the override shrinks to the mark KILLED,
 * which carries no xid; so freezing never has to bring the two together.
 *
 * A DELETE hides a row in a sorted file that a scan has found dead to everyone
 * (scan.c), too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "storage/procarray.h"

#include "table/table.h"

static pg_noinline void
corrupt(const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("value of an lsm table is corrupt: %s", problem),
			 errhint("Run lsm_verify() on the table.")));
}

static void
parse(LsmSlice value, LsmRow *row)
{
	const char *problem = lsm_row_parse(value, row);

	if (unlikely(problem != NULL))
		corrupt(problem);
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
 * See versions.c, 4.  A PUT is never below an override that is not about it, but
 * about an older version: nothing older than a PUT is valid.  If it were, the row
 * would go by the PUT's header.
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
		if (below.delta)
		{
			lsm_row_encode(out, &row, false);
			return;
		}
		if (!below.partial)
			row.version = below.version;
	}
	else if (is_about(&row, &below))
	{
		row.open = below.open;
		row.delta = below.delta;
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
 * Two states of the same version.  An xmax of a transaction that was rolled back
 * may win over a later state without: it is looked up, so that does no harm.
 */
static void
settle_states(LsmRow *row, const LsmRow *another)
{
	LsmRow		other = *another;

	if (header_rank(&other) > header_rank(row) ||
		(header_rank(&other) == 1 && header_rank(row) == 1 &&
		 row->xmax != other.xmax && xmax_was_undone(row)))
	{
		LsmRow		swap = *row;

		*row = other;
		other = swap;
	}
	if (row->partial && !other.partial)
	{
		row->body = other.body;
		row->body_bytes = other.body_bytes;
		row->partial = false;
		row->open = other.open && !(row->flags & LSM_ROW_KILLED);
		row->span = other.span;
		row->kept = other.kept;
		row->version = other.version;	/* the mark KILLED has none */
	}
	take_xmin_hints(row, &other);
}

/* What is known of a row whose versions come in no order */
typedef struct Settled
{
	bool		any;
	bool		gone;			/* a DELETE was among them */
	LsmRow		best;			/* the newest committed version, or the best there is */
	bool		spared;
	LsmRow		spare;			/* if best has no body yet: one that has */
} Settled;

/* How far a version's maker has come */
static int
maker_rank(const LsmRow *row)
{
	if (row->flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN))
		return 2;
	if (lsm_xid_running(row->xmin))
		return 1;
	return TransactionIdDidCommit(row->xmin) ? 2 : 0;
}

/*
 * Of different versions: one that was committed, and of these the newest.  A
 * prepared transaction runs on: until it is committed all see what it has replaced,
 * and they will if it is rolled back.
 */
static bool
is_better(const LsmRow *a, const LsmRow *b)
{
	int			rank = maker_rank(a);
	int			other = maker_rank(b);

	return rank != other ? rank > other : a->version > b->version;
}

static inline bool
is_same(const LsmRow *a, const LsmRow *b)
{
	return ((a->flags | b->flags) & LSM_ROW_KILLED) || is_about(a, b);
}

/* Not the best one, but the best body that there is may be this one's. */
static void
settle_spare(Settled *settled, const LsmRow *row)
{
	if (settled->spared && is_same(&settled->spare, row))
		settle_states(&settled->spare, row);
	else if (!row->partial && (!settled->spared || is_better(row, &settled->spare)))
	{
		settled->spare = *row;
		settled->spared = true;
	}
}

static void
settle_value(Settled *settled, LsmSlice value)
{
	LsmChain	chain;
	LsmSlice	element;
	LsmRow		row;

	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
	{
		if (is_delete(element))
		{
			settled->gone = true;
			return;
		}
		parse(element, &row);
		if (!settled->any)
			settled->best = row;
		else if (is_same(&settled->best, &row))
			settle_states(&settled->best, &row);
		else if (is_better(&row, &settled->best))
		{
			settle_spare(settled, &settled->best);
			settled->best = row;
		}
		else
			settle_spare(settled, &row);
		settled->any = true;
	}
	if (chain.at == NULL)
		corrupt("chain of versions is malformed");
}

/*
 * Nobody has a snapshot from before the crash, and nobody writes, so one version is
 * all that is wanted.  As long as only an override of it has been found, the best
 * one that is whole stays in front of that: if no other is found, the row is what
 * it says.
 */
static void
settle_rows(LsmSlice a, LsmSlice b, StringInfo out)
{
	Settled		settled = {0};
	StringInfoData part;

	settle_value(&settled, a);
	settle_value(&settled, b);
	if (settled.gone)
	{
		appendStringInfoChar(out, LSM_TAG_DELETE);
		return;
	}
	if (!settled.best.partial || !settled.spared)
	{
		lsm_row_encode(out, &settled.best, !settled.best.partial);
		return;
	}
	settled.spare.open = true;
	lsm_row_encode(out, &settled.spare, true);
	initStringInfo(&part);
	lsm_row_encode(&part, &settled.best, false);
	lsm_chain_append(out, lsm_slice(part.data, part.len));
	pfree(part.data);
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

/* What is below is hidden by a DELETE, if there may be something. */
static LsmFate
hide_fate(LsmFateContext *cx, StringInfo rewritten)
{
	if (cx->bottom)
		return LSM_FATE_DROP;
	resetStringInfo(rewritten);
	appendStringInfoChar(rewritten, LSM_TAG_DELETE);
	return LSM_FATE_REWRITE;
}

/*
 * No one can see the row: drop it, or hide what may be below, or mark the override
 * that stands for it.  `oldest`: the oldest value that is here.
 */
static LsmFate
dead_fate(LsmFateContext *cx, const LsmRow *row, const LsmRow *oldest, StringInfo rewritten)
{
	LsmRow		mark;

	if (!row->partial)
	{
		cx->gone = true;
		return oldest->version == 0 && !oldest->open && !oldest->partial ?
			LSM_FATE_DROP : hide_fate(cx, rewritten);
	}
	if (row->flags == LSM_ROW_KILLED)
		return LSM_FATE_KEEP;
	memset(&mark, 0, sizeof(mark));
	mark.flags = LSM_ROW_KILLED;
	mark.partial = true;
	resetStringInfo(rewritten);
	lsm_row_encode(rewritten, &mark, false);
	return LSM_FATE_REWRITE;
}

typedef enum Outcome
{
	OUTCOME_STAYS,
	OUTCOME_ROLLED_BACK,		/* no one ever saw the version */
	OUTCOME_DEAD				/* the row is dead to everyone */
} Outcome;

/*
 * What has become of those who made and ended a version?  Its header is brought up
 * to date; *changed if that has changed it.  DEAD is only said of the newest valid
 * version: the stored xmax of another has come to nothing (versions.c, 2).
 */
static Outcome
bring_up_to_date(LsmFateContext *cx, LsmRow *row, bool *changed)
{
	bool		committed = (row->flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN)) != 0;

	if (row->flags & LSM_ROW_KILLED)
		return OUTCOME_DEAD;
	if (!committed && !running(cx, row->xmin))
	{
		if (!TransactionIdDidCommit(row->xmin))
			return OUTCOME_ROLLED_BACK;
		committed = true;
		row->flags |= LSM_ROW_XMIN_COMMITTED;
		row->flags &= ~LSM_ROW_SPECULATIVE;
		row->cmin = 0;
		*changed = true;
	}

	if ((row->flags & (LSM_ROW_HAS_XMAX | LSM_ROW_XMAX_COMMITTED)) == LSM_ROW_HAS_XMAX &&
		!running(cx, row->xmax))
	{
		*changed = true;
		if (TransactionIdDidCommit(row->xmax))
			row->flags |= LSM_ROW_XMAX_COMMITTED;
		else
		{
			row->flags &= ~LSM_ROW_XMAX_FLAGS;
			row->xmax = InvalidTransactionId;
		}
	}
	if ((row->flags & LSM_ROW_XMAX_COMMITTED) &&
		TransactionIdPrecedes(row->xmax, cx->oldest_xid))
	{
#ifdef USE_ASSERT_CHECKING
		if (OidIsValid(cx->database))
			lsm_assert_removable(cx->database, row->xmax);
#endif
		note_removed(cx, row->xmax);
		return OUTCOME_DEAD;
	}

	if (committed && !(row->flags & LSM_ROW_XMIN_FROZEN) &&
		TransactionIdIsValid(cx->freeze_limit) &&
		TransactionIdPrecedes(row->xmin, cx->freeze_limit))
	{
		note_removed(cx, row->xmin);
		lsm_row_freeze(row);
		*changed = true;
	}
	return OUTCOME_STAYS;
}

/* Is a later job to look at the row again, as it may be dead by then? */
static inline bool
is_dying(const LsmRow *row)
{
	return !(row->flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN)) ||
		(row->flags & LSM_ROW_HAS_XMAX) != 0;
}

/* REQUIRES: the version's maker has committed, and the header says so. */
static bool
closes_row(LsmFateContext *cx, const LsmRow *row)
{
	if (row->flags & LSM_ROW_XMIN_FROZEN)
		return true;
	if (!(row->flags & LSM_ROW_XMIN_COMMITTED) ||
		!TransactionIdPrecedes(row->xmin, cx->oldest_xid))
		return false;
#ifdef USE_ASSERT_CHECKING
	if (OidIsValid(cx->database))
		lsm_assert_removable(cx->database, row->xmin);
#endif
	return true;
}

/* See LsmKindOps.closes.  decide_fate() finds the same. */
static bool
element_closes(LsmFateContext *cx, LsmSlice element)
{
	LsmRow		row;

	parse(element, &row);
	if (row.flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN))
		return closes_row(cx, &row);
	return !(row.flags & LSM_ROW_KILLED) && TransactionIdPrecedes(row.xmin, cx->oldest_xid) &&
		TransactionIdDidCommit(row.xmin);
}

/*
 * All versions that are here have come to nothing, and the row is what is below.
 * If it is locked, the newest one's header stays for that: `row`, whose list of
 * lockers has been brought up to date.
 */
static LsmFate
rolled_back_fate(LsmFateContext *cx, LsmRow *row, StringInfo rewritten)
{
	if (row->nlockers == 0 || cx->bottom)
		return LSM_FATE_DROP;
	row->flags &= ~LSM_ROW_XMAX_FLAGS;
	row->xmax = InvalidTransactionId;
	resetStringInfo(rewritten);
	lsm_row_encode(rewritten, row, false);
	return LSM_FATE_REWRITE;
}

/*
 * Versions as they go through chain_fate(), newest first
 */
typedef struct ChainFate
{
	LsmRow		newest;			/* of all: has the row's locks */
	char		lockers[LSM_MAX_LOCKERS * LSM_LOCKER_BYTES];
	int			nseen;
	int			nkept;
	LsmRow		oldest;			/* of those that are kept: not written yet */
	StringInfoData element;
} ChainFate;

static void
write_oldest(ChainFate *state, StringInfo rewritten)
{
	resetStringInfo(&state->element);
	lsm_row_encode(&state->element, &state->oldest, !state->oldest.partial);
	lsm_chain_append(rewritten, lsm_slice(state->element.data, state->element.len));
}

/* A version stays.  Returns whether nobody needs what is older. */
static bool
keep_version(LsmFateContext *cx, ChainFate *state, LsmRow *row, StringInfo rewritten)
{
	if (row->open && !row->delta && closes_row(cx, row))
	{
		/* a frozen one was told of when it was frozen */
		if (!(row->flags & LSM_ROW_XMIN_FROZEN))
			note_removed(cx, row->xmin);
		row->open = false;
		row->flags &= ~LSM_ROW_STRONG;	/* about the one before */
	}
	row->lockers = state->newest.lockers;
	row->nlockers = state->nkept == 0 ? state->newest.nlockers : 0;
	if (state->nkept++ > 0)
		write_oldest(state, rewritten);
	state->oldest = *row;
	cx->dying |= state->nkept > 1 || row->open || is_dying(row);
	return !row->open;
}

/* All have been met; `hide`: a DELETE was the last.  At the bottom nothing is older. */
static LsmFate
end_chain(LsmFateContext *cx, ChainFate *state, bool hide, StringInfo rewritten)
{
	if (state->nkept == 0)
		return hide ? hide_fate(cx, rewritten) :
			rolled_back_fate(cx, &state->newest, rewritten);
	if (cx->bottom && !state->oldest.delta)
		state->oldest.open = false;
	write_oldest(state, rewritten);
	if (hide && !cx->bottom)
		lsm_chain_append(rewritten, lsm_slice(lsm_delete_value, sizeof(lsm_delete_value)));
	return LSM_FATE_REWRITE;
}

/* The version `row` ends the row; the chain goes on behind it. */
static LsmFate
dead_chain_fate(LsmFateContext *cx, LsmChain *chain, const LsmRow *row, StringInfo rewritten)
{
	LsmRow		oldest = *row;
	LsmSlice	element;

	while (lsm_chain_next(chain, &element))
	{
		if (is_delete(element))
			return hide_fate(cx, rewritten);
		parse(element, &oldest);
	}
	return dead_fate(cx, row, &oldest, rewritten);
}

/*
 * Several versions, or one that is open: those that came to nothing go, and those
 * that are older than one that closes the row.  `state`: newly begun.
 */
static LsmFate
walk_chain(LsmFateContext *cx, LsmSlice value, ChainFate *state, StringInfo rewritten)
{
	LsmChain	chain;
	LsmSlice	element;
	LsmRow		row;

	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
	{
		bool		changed = false;

		if (is_delete(element))
			return end_chain(cx, state, true, rewritten);
		parse(element, &row);
		if (state->nseen++ == 0)
		{
			(void) prune_lockers(cx, &row, state->lockers);
			state->newest = row;
		}
		switch (bring_up_to_date(cx, &row, &changed))
		{
			case OUTCOME_STAYS:
				if (keep_version(cx, state, &row, rewritten))
					return end_chain(cx, state, false, rewritten);
				break;
			case OUTCOME_DEAD:
				if (state->nkept == 0)
					return dead_chain_fate(cx, &chain, &row, rewritten);
				break;
			case OUTCOME_ROLLED_BACK:
				if (state->nkept == 0 && row.version == 0)
					return dead_fate(cx, &row, &row, rewritten);
				break;
		}
	}
	if (chain.at == NULL || state->nseen == 0)
		corrupt("chain of versions is malformed");
	return end_chain(cx, state, false, rewritten);
}

static LsmFate
chain_fate(LsmFateContext *cx, LsmSlice value, StringInfo rewritten)
{
	ChainFate	state;
	LsmFate		fate;

	state.nseen = state.nkept = 0;
	initStringInfo(&state.element);
	resetStringInfo(rewritten);
	fate = walk_chain(cx, value, &state, rewritten);
	pfree(state.element.data);
	if (fate == LSM_FATE_REWRITE && rewritten->len == value.len &&
		memcmp(rewritten->data, value.data, value.len) == 0)
		fate = LSM_FATE_KEEP;
	return fate;
}

/*
 * An override that is left of locks whose holders have ended, or of an xmax that
 * was undone: what is below says as much.  Who made the version is told by clog,
 * for as long as the file below has his xid; and so is an xmax there that this
 * override has taken back.  In front of its row it would cost each reader the
 * search of a second file: foreign keys lock rows that nobody changes.
 *
 * REQUIRES: brought up to date, so that a flag says that the maker has committed.
 */
static bool
says_nothing(const LsmRow *row)
{
	return row->partial && row->nlockers == 0 && (row->flags & LSM_ROW_HAS_XMAX) == 0 &&
		!is_dying(row);
}

static LsmFate
decide_fate(LsmFateContext *cx, LsmSlice key, LsmSlice value, StringInfo rewritten)
{
	char		lockers[LSM_MAX_LOCKERS * LSM_LOCKER_BYTES];
	LsmRow		row;
	bool		changed = false;
	Outcome		outcome;

	if (is_delete(value))
		return cx->bottom ? LSM_FATE_DROP : LSM_FATE_KEEP;
	if (lsm_value_tag(value) >= LSM_TAG_VERSION)
		return chain_fate(cx, value, rewritten);
	parse(value, &row);
	outcome = bring_up_to_date(cx, &row, &changed);
	if (outcome == OUTCOME_DEAD ||
		(outcome == OUTCOME_ROLLED_BACK && (row.version == 0 || !row.partial)))
		return dead_fate(cx, &row, &row, rewritten);
	if (row.nlockers > 0 && prune_lockers(cx, &row, lockers))
		changed = true;
	if (outcome == OUTCOME_ROLLED_BACK)
		return rolled_back_fate(cx, &row, rewritten);

	/* VACUUM comes back for what may be dead by then */
	cx->dying = is_dying(&row);
	if (says_nothing(&row))
		return LSM_FATE_DROP;

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

static void
take_min_of(TransactionId *min, const LsmRow *row)
{
	if (!(row->flags & (LSM_ROW_XMIN_FROZEN | LSM_ROW_KILLED)))
		take_min(min, row->xmin);
	if (row->flags & LSM_ROW_HAS_XMAX)
		take_min(min, row->xmax);
	for (int i = 0; i < row->nlockers; i++)
	{
		TransactionId xid;
		LockTupleMode mode;

		lsm_row_locker(row, i, &xid, &mode);
		take_min(min, xid);
	}
}

static TransactionId
min_xid(LsmSlice value)
{
	TransactionId min = InvalidTransactionId;
	LsmChain	chain;
	LsmSlice	element;

	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
	{
		LsmRow		row;

		if (is_delete(element))
			break;
		parse(element, &row);
		take_min_of(&min, &row);
	}
	return min;
}

const LsmKindOps lsm_table_kind_ops = {
	.merge = merge_row,
	.restore = lsm_delta_restore,
	.settle = settle_rows,
	.closes = element_closes,
	.fate = decide_fate,
	.min_xid = min_xid,
	.check = lsm_value_check,
	.check_row = lsm_row_check,
	.decode = lsm_row_decode_change,
	.changes_row = lsm_row_is_changed,
};
