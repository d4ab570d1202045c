/*-------------------------------------------------------------------------
 *
 * present.c
 *	  Scans under snapshots that see what is there now, and not what was there
 *	  when they were taken: SnapshotDirty and SnapshotSelf.
 *
 * Such a scan finds the entries that were there when it was put in place, but
 * looks at each row later.  If the row has been updated in between, and that has
 * been committed, the row is gone, and its successor's entry may be where the
 * scan will not come: in a memtable that had nothing for the scan, or behind
 * it.  A subscriber would not find the row that it has to change, and skip the
 * change.  In a btree this may happen, too.  An update that stays in its row does
 * no such thing: the row is found, and so is its newest version.
 *
 * So a scan that has met a row which was not to be seen begins once more, and
 * returns what it has not returned yet, until that brings no such row:
 *
 * 1. Whoever ends a row by an update has inserted the successor's entry before
 *   his transaction ends.
 * 2. We have found the row ended, so his transaction had ended, and we begin
 *   once more after that: we find the entry.
 * 3. The same holds for the successor.
 * 4. A pass that returns nothing new meets no row.  So there are no more passes
 *   than versions that were made beside the scan, and two.
 *
 * MVCC snapshots need nothing of this: of the versions that they may see, all
 * entries were there before they were taken.  SnapshotAny sees the row itself.
 * Uniqueness has a stamp (unique.c).  On heap tables the table does not say what
 * it met, and there is btree's window.
 *
 * Locking: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "utils/snapmgr.h"

#include "index/scan.h"

#define FIRST_ROOM	16

/* See scan.h. */
void
lsm_present_prepare(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	so->present.nrows = so->present.nsorted = 0;
	so->present.wanted = so->dead.stable_tids && scan->xs_snapshot != NULL &&
		(scan->xs_snapshot->snapshot_type == SNAPSHOT_DIRTY ||
		 scan->xs_snapshot->snapshot_type == SNAPSHOT_SELF);
	if (so->present.wanted)
		(void) lsm_row_fetch_met_hidden(scan->xs_heapfetch);
}

void
lsm_present_note(LsmScan *so, const ItemPointerData *tid)
{
	Assert(so->present.wanted);
	if (so->present.rows == NULL)
	{
		so->present.room = FIRST_ROOM;
		so->present.rows = MemoryContextAlloc(so->context, FIRST_ROOM * sizeof(ItemPointerData));
	}
	else if (so->present.nrows == so->present.room)
	{
		so->present.room *= 2;
		so->present.rows = repalloc_huge(so->present.rows,
									 so->present.room * sizeof(ItemPointerData));
	}
	so->present.rows[so->present.nrows++] = *tid;
}

static int
compare_tids(const void *a, const void *b)
{
	return ItemPointerCompare(unconstify(void *, a), unconstify(void *, b));
}

bool
lsm_present_was_returned(const LsmScan *so, const ItemPointerData *tid)
{
	return so->present.nsorted > 0 &&
		bsearch(tid, so->present.rows, so->present.nsorted, sizeof(ItemPointerData), compare_tids) != NULL;
}

bool
lsm_present_again(IndexScanDesc scan)
{
	LsmScan    *so = scan->opaque;

	if (!so->present.wanted || !lsm_row_fetch_met_hidden(scan->xs_heapfetch))
		return false;
	Assert(so->shared == NULL);
	qsort(so->present.rows, so->present.nrows, sizeof(ItemPointerData), compare_tids);
	so->present.nsorted = so->present.nrows;
	return true;
}
