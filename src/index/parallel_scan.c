/*-------------------------------------------------------------------------
 *
 * parallel_scan.c
 *	  Index scans that several processes share: units, handed out in key order.
 *
 * A scan is a sequence of walks (scan.c).  A unit is a number of walks that
 * follow one another, or a piece of one walk: the entries from its fence up to
 * the fence of the next unit.  The first process that comes makes the units;
 * whoever has nothing to do takes the next one.  So what one process returns is
 * in the order of the scan, and Gather Merge can merge.  A scan backward takes
 * the units from the last to the first; all processes go the same way.
 *
 * Each process reads its units by a cursor, that is a view of the tree, of its
 * own, and flush and compaction may come between two views.  That neither loses
 * nor doubles an entry:
 *
 *		A unit is a range of keys, not of blocks or files, and units are the same
 *		for all, as they are made once.  Each key of the scan's range is in one
 *		unit.
 *
 *		Every view has every entry that the snapshot needs.  Flush and compaction
 *		move entries; what they, VACUUM or a scan take away belongs to rows that
 *		are dead to everyone, and this snapshot is held by all processes.  What is
 *		inserted later belongs to rows that it does not see.
 *
 * A fence is the beginning of a key that was in the tree when units were made.
 * As no key is the beginning of another one, a key either begins with a fence,
 * or is on one side of it at a byte that both have.  Fences lie between groups
 * of values, never within one (groups.c).
 *
 * The walks of an enum's labels are numbered by the labels that the first
 * process has read; the others take its list.
 *
 * Locks: a spinlock for the state and the next unit.  Nothing else is written
 * once the units are made.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "utils/memutils.h"

#include "index/scan.h"

#define MAX_UNITS		64
#define FENCES_BYTES	(8 * 1024)
#define MAX_LABELS		128

/* Scans with more walks hand out walks, not pieces of them. */
#define MAX_SPLIT_WALKS	16

/* Less than this is not worth a seek in each level. */
#define MIN_UNIT_BYTES	(32 * 1024)

/*
 * Bytes of a fence behind those that tell it from the one before: a fence that
 * is cut is moved to the front.
 */
#define FENCE_TAIL		4

typedef enum UnitsState
{
	UNITS_NONE,
	UNITS_BEING_MADE,
	UNITS_MADE
} UnitsState;

typedef struct Unit
{
	uint64		walk;			/* the first one's number */
	uint64		walks;			/* 1 if it, or the next one, has a fence */
	uint32		fence;			/* offset into bytes */
	uint32		fence_bytes;	/* 0: it begins with the walk */
} Unit;

struct LsmSharedScan
{
	slock_t		mutex;			/* for state and next */
	ConditionVariable made;
	UnitsState	state;
	int			next;			/* how many have been handed out */
	int			nunits;
	int			nprefix;		/* columns of the walks' prefix */
	int			nlabels;		/* -1: not known */
	uint32		used;			/* of bytes */
	Unit		units[MAX_UNITS];
	Oid			labels[MAX_LABELS];
	char		bytes[FENCES_BYTES];
};

Size
lsm_shared_scan_bytes(void)
{
	return sizeof(LsmSharedScan);
}

void
lsm_shared_scan_init(void *target)
{
	LsmSharedScan *shared = target;

	memset(shared, 0, sizeof(LsmSharedScan));
	SpinLockInit(&shared->mutex);
	ConditionVariableInit(&shared->made);
	shared->nlabels = -1;
}

LsmSharedScan *
lsm_shared_scan(IndexScanDesc scan)
{
	if (scan->parallel_scan == NULL)
		return NULL;
	return (LsmSharedScan *) OffsetToPointer(scan->parallel_scan,
											 scan->parallel_scan->ps_offset_am);
}

/* The leader has shut the workers down: no one else looks. */
void
lsm_index_parallel_rescan(IndexScanDesc scan)
{
	LsmSharedScan *shared = lsm_shared_scan(scan);

	shared->state = UNITS_NONE;
	shared->next = shared->nunits = 0;
	shared->nlabels = -1;
	shared->used = 0;
}

/* ======================================================================
 * Making units
 * ====================================================================== */

bool
lsm_shared_scan_begin(LsmScan *so)
{
	LsmSharedScan *shared = so->shared;
	UnitsState	state;

	memset(&so->unit, 0, sizeof(LsmScanUnit));
	for (;;)
	{
		SpinLockAcquire(&shared->mutex);
		state = shared->state;
		if (state == UNITS_NONE)
			shared->state = UNITS_BEING_MADE;
		SpinLockRelease(&shared->mutex);
		if (state != UNITS_BEING_MADE)
			break;
		ConditionVariableSleep(&shared->made, LSM_WAIT_EVENT("LsmParallelScan"));
	}
	ConditionVariableCancelSleep();
	if (state == UNITS_NONE)
		return true;
	if (shared->nlabels >= 0)
	{
		so->labels.oids = MemoryContextAlloc(so->labels.context,
											 sizeof(Oid) * Max(shared->nlabels, 1));
		memcpy(so->labels.oids, shared->labels, sizeof(Oid) * shared->nlabels);
		so->labels.n = shared->nlabels;
	}
	return false;
}

int
lsm_shared_scan_prefix(const LsmScan *so)
{
	return so->shared->nprefix;
}

/* How many walks the scan has; UINT64_MAX: too many to be numbered. */
static uint64
count_walks(const LsmScan *so)
{
	uint64		n = 1;

	for (int i = 0; i < so->quals.nprefix; i++)
	{
		uint64		points = so->quals.columns[i].npoints;

		if (n > PG_INT32_MAX)
			return PG_UINT64_MAX;
		n *= points;
	}
	return n;
}

static Unit *
add_unit(LsmSharedScan *shared, uint64 walk, uint64 walks)
{
	Unit	   *unit = &shared->units[shared->nunits++];

	Assert(shared->nunits <= MAX_UNITS);
	unit->walk = walk;
	unit->walks = walks;
	unit->fence = unit->fence_bytes = 0;
	return unit;
}

bool
lsm_shared_scan_splits(const LsmScan *so)
{
	return so->quals.nprefix < so->spec->nkeys && count_walks(so) <= MAX_SPLIT_WALKS;
}

/*
 * How much of the key may be in a fence: all, or what the entries of its group
 * begin with.
 */
static uint32
whole_groups(const LsmScan *so, LsmSlice key)
{
	LsmSlice	rest = lsm_key_columns(key);

	if (!so->sorts)
		return key.len;
	for (int i = 0; i < so->spec->nkeys; i++)
	{
		const LsmColumnSpec *column = &so->spec->columns[i];
		uint32		bytes = lsm_code_length(column, rest);

		if (i >= so->quals.nprefix && column->order == LSM_ORDER_GROUPS)
			return rest.data - key.data +
				lsm_code_group(column, lsm_slice(rest.data, bytes));
		rest.data += bytes;
		rest.len -= bytes;
	}
	return key.len;
}

/* The present walk's next unit begins with this key, or a little before. */
static bool
add_fence(LsmScan *so, uint64 walk, LsmSlice key, LsmSlice *last)
{
	LsmSharedScan *shared = so->shared;
	uint32		most = whole_groups(so, key);
	uint32		common = 0;
	Unit	   *unit;

	while (common < Min(most, last->len) && key.data[common] == last->data[common])
		common++;
	if (common == most ||
		(common < last->len && (uint8) key.data[common] < (uint8) last->data[common]))
		return true;			/* not behind the last one */
	most = Min(most, common + 1 + FENCE_TAIL);
	if (shared->nunits == MAX_UNITS || most > FENCES_BYTES - shared->used)
		return false;
	unit = add_unit(shared, walk, 1);
	unit->fence = shared->used;
	unit->fence_bytes = most;
	lsm_bytes_copy(shared->bytes + shared->used, key.data, most);
	shared->used += most;
	*last = lsm_slice(shared->bytes + unit->fence, most);
	return true;
}

/*
 * A key of the sample need not be one of the tree: the next one that is decides.
 */
static void
split_walk(LsmScan *so, uint64 walk, int max_fences)
{
	LsmSlice	fences[MAX_UNITS];
	LsmSlice	low;
	LsmSlice	high;
	LsmSlice	last = lsm_buffer_slice(&so->walk.lower);
	int			n;

	lsm_walk_ends(so, &low, &high);
	n = lsm_tree_fences(so->tree, low, high, max_fences, MIN_UNIT_BYTES, fences);
	for (int i = 0; i < n; i++)
	{
		LsmSlice	key;
		LsmSlice	value;

		CHECK_FOR_INTERRUPTS();
		lsm_cursor_seek(so->cursor, fences[i], false, ForwardScanDirection);
		if (!lsm_cursor_step(so->cursor, ForwardScanDirection, &key, &value) ||
			lsm_walk_is_beyond(so, key, ForwardScanDirection))
			break;
		if (lsm_walk_is_beyond(so, key, BackwardScanDirection))
			continue;
		if (!add_fence(so, walk, key, &last))
			break;
	}
}

void
lsm_shared_scan_add_walk(LsmScan *so)
{
	LsmSharedScan *shared = so->shared;
	uint64		walk = shared->nunits == 0 ? 0 : shared->units[shared->nunits - 1].walk + 1;
	int			max_fences = MAX_UNITS / (int) count_walks(so) - 1;
	MemoryContext work;
	MemoryContext old;

	add_unit(shared, walk, 1);
	work = AllocSetContextCreate(CurrentMemoryContext, "lsm_index fences",
								 ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(work);
	split_walk(so, walk, max_fences);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
}

void
lsm_shared_scan_add_all(LsmScan *so)
{
	LsmSharedScan *shared = so->shared;
	uint64		walks = count_walks(so);
	uint64		n = walks == PG_UINT64_MAX ? walks : (walks + MAX_UNITS - 1) / MAX_UNITS;

	for (uint64 walk = 0; walk < walks;)
	{
		add_unit(shared, walk, Min(n, walks - walk));
		walk += Min(n, walks - walk);
	}
}

/*
 * More labels than there is room for: this process scans alone.
 */
static void
take_everything(LsmScan *so)
{
	so->shared->nunits = 0;
	so->unit.alone = true;
}

void
lsm_shared_scan_publish(LsmScan *so)
{
	LsmSharedScan *shared = so->shared;

	if (so->labels.n > MAX_LABELS)
		take_everything(so);
	else if (so->labels.n >= 0)
	{
		memcpy(shared->labels, so->labels.oids, sizeof(Oid) * so->labels.n);
		shared->nlabels = so->labels.n;
	}
	shared->nprefix = so->quals.nprefix;
	SpinLockAcquire(&shared->mutex);
	shared->state = UNITS_MADE;
	SpinLockRelease(&shared->mutex);
	ConditionVariableBroadcast(&shared->made);
}

/* ======================================================================
 * Taking units
 * ====================================================================== */

static LsmSlice
unit_fence(const LsmSharedScan *shared, int i)
{
	const Unit *unit = &shared->units[i];

	return lsm_slice(shared->bytes + unit->fence, unit->fence_bytes);
}

static void
go_to_walk(LsmScan *so, uint64 walk)
{
	for (int i = so->quals.nprefix - 1; i >= 0; i--)
	{
		uint64		points = so->quals.columns[i].npoints;

		so->position.point[i] = (int) (walk % points);
		walk /= points;
	}
}

/* The only unit, and all walks */
static void
go_to_end(LsmScan *so, bool first)
{
	for (int i = 0; i < so->quals.nprefix; i++)
		so->position.point[i] = first ? 0 : so->quals.columns[i].npoints - 1;
}

bool
lsm_shared_scan_next(LsmScan *so, ScanDirection direction)
{
	LsmSharedScan *shared = so->shared;
	bool		forward = ScanDirectionIsForward(direction);
	const Unit *unit;
	int			i;

	if (so->unit.alone)
	{
		so->unit.alone = false;
		so->unit.walks = count_walks(so);
		go_to_end(so, forward);
		return true;
	}
	SpinLockAcquire(&shared->mutex);
	i = shared->next;
	if (i < shared->nunits)
		shared->next++;
	SpinLockRelease(&shared->mutex);
	if (i >= shared->nunits)
		return false;
	if (!forward)
		i = shared->nunits - 1 - i;
	unit = &shared->units[i];
	so->unit.walks = unit->walks;
	so->unit.low = unit_fence(shared, i);
	so->unit.high = i + 1 < shared->nunits ? unit_fence(shared, i + 1) : lsm_slice(NULL, 0);
	if (unit->walks == PG_UINT64_MAX)
		go_to_end(so, forward);
	else
		go_to_walk(so, forward ? unit->walk : unit->walk + unit->walks - 1);
	return true;
}
