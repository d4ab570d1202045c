/*-------------------------------------------------------------------------
 *
 * elastic_probe.c
 *	  Elastic filters in a lookup: asking the units that are on, and noting
 *	  accesses.
 *
 * Asking (lsm_elastic_ask) takes no lock: see elastic.h.  An access, which
 * means a key asked for that the segment does not have, is noted in this
 * backend and given to the queue with many others, by whoever gets the lock
 * without waiting; notes that find no room are lost, as they are but a sample
 * anyway.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/elastic/elastic.h"
#include "tree/elastic/elastic_queue.h"
#include "tree/memtable/memtable.h"
#include "tree/read/candidates.h"
#include "tree/read/elastic_probe.h"
#include "tree/read/filecache.h"

#define NOTES_PER_BATCH		256
#define NOTES_MAX			1024
#define NOTES_AT_END		32	/* of a statement, worth a look at the lock */

typedef struct Note
{
	uint64		serial;
	uint32		file;
	uint32		segment;		/* id */
	uint8		asked;			/* units */
	uint8		admitted;
} Note;

static Note notes[NOTES_MAX];
static int	nnotes = 0;

/* accesses of segments without state: time passes all the same */
static uint32 unplaced = 0;

/* ======================================================================
 * A backend's view of a file
 * ====================================================================== */

static inline bool
view_valid(LsmElasticView *view)
{
	if (likely(view->serial != 0 &&
			   pg_atomic_read_u64(&lsm_elastic->files[view->file].serial) == view->serial))
	{
		pg_read_barrier();		/* what the serial stands for is there */
		return true;
	}
	return lsm_elastic_view_attach(view);
}

static inline uint32
view_segment_id(const LsmElasticView *view, uint32 segment)
{
	return lsm_elastic_extent_id(view->extents[segment >> view->shift],
								 segment & ((1U << view->shift) - 1), view->lines);
}

static inline uint32
view_find_segment(LsmElasticView *view, const LsmProbe *probe)
{
	if (view->operation != lsm_filecache_operation)
	{
		view->segment = lsm_elastic_find_segment(&view->shape, probe->filter_key.data,
												 probe->filter_key.len);
		view->operation = lsm_filecache_operation;
	}
	return view->segment;
}

/* ======================================================================
 * Asking
 * ====================================================================== */

/* Fetch the state of the key's segment. */
void
lsm_elastic_prefetch_segment(const LsmProbe *probe, const LsmOpenFile *open)
{
	LsmElasticView *view = open->elastic;
	uint32		segment = view_find_segment(view, probe);

	if (view->serial != 0)
		__builtin_prefetch(lsm_elastic_segment(&lsm_elastic->queue,
											   view_segment_id(view, segment)));
}

/* Fetch the key's line of the first unit: the segment's state is there now. */
void
lsm_elastic_prefetch_unit(const LsmProbe *probe, const LsmOpenFile *open)
{
	LsmElasticView *view = open->elastic;
	LsmElasticSegment *segment;

	if (view->operation != lsm_filecache_operation || view->serial == 0 ||
		pg_atomic_read_u64(&lsm_elastic->files[view->file].serial) != view->serial)
		return;
	segment = lsm_elastic_segment(&lsm_elastic->queue, view_segment_id(view, view->segment));
	if (segment->on > 0)
	{
		uint32		chunk = *(volatile uint32 *) &segment->chunks[0];

		lsm_elastic_prefetch(&view->shape, view->segment, 0, lsm_elastic_chunk(chunk),
							 probe->digest);
	}
}

/* The segment was asked for a key that it does not have. */
void
lsm_elastic_note(const LsmOpenFile *open)
{
	LsmElasticView *view = open->elastic;

	if (view->serial == 0)
	{
		if (++unplaced % NOTES_PER_BATCH == 0)
			lsm_elastic_hand_over(false);
		return;
	}
	if (nnotes == NOTES_MAX)
	{
		/* nobody lets us have the lock: the newer half is as good a sample */
		memmove(notes, notes + NOTES_MAX / 2, NOTES_MAX / 2 * sizeof(Note));
		nnotes = NOTES_MAX / 2;
	}
	notes[nnotes].serial = view->serial;
	notes[nnotes].file = view->file;
	notes[nnotes].segment = view_segment_id(view, view->segment);
	notes[nnotes].asked = view->asked;
	notes[nnotes].admitted = view->admitted;
	if (++nnotes % NOTES_PER_BATCH == 0)
		lsm_elastic_hand_over(false);
}

/*
 * Do the units that are on admit the key?  One digest for all of them, or one
 * for each with lsm.hash_sharing off.  REQUIRES: inside the epoch.
 */
bool
lsm_elastic_ask(LsmTree *tree, const LsmProbe *probe, LsmOpenFile *open,
				LsmProbeCounts *counts)
{
	LsmElasticView *view = open->elastic;
	uint32		number = view_find_segment(view, probe);
	LsmElasticSegment *segment;
	uint32		on;

	Assert(lsm_epoch_inside());
	/* in a directory, ones would lead to the wrong segment */
	if (lsm_file_filter_faulted(tree, open))
		return true;
	if (!view_valid(view))
		return true;
	segment = lsm_elastic_segment(&lsm_elastic->queue, view_segment_id(view, number));
	on = segment->on;
	view->asked = view->admitted = on;
	pg_read_barrier();			/* a unit is there before it counts as on */
	for (uint32 unit = 0; unit < on; unit++)
	{
		uint32		chunk = *(volatile uint32 *) &segment->chunks[unit];
		LsmDigest	digest = lsm_probe_digest(probe, counts);

		counts->unit_probes++;
		if (!lsm_elastic_probe(&view->shape, number, unit, lsm_elastic_chunk(chunk), digest))
		{
			view->admitted = unit;
			lsm_elastic_note(open);
			return false;
		}
	}
	return true;
}

/*
 * Does the file have a key with this leading part?  No units are asked, and
 * nothing is noted.  REQUIRES: the file's filter knows leading parts.
 */
bool
lsm_elastic_ask_leading(LsmTree *tree, const LsmProbe *probe, LsmOpenFile *open,
						LsmProbeCounts *counts)
{
	LsmElasticView *view = open->elastic;
	bool		maybe;

	Assert(lsm_epoch_inside());
	maybe = lsm_elastic_probe_leading(&view->shape, lsm_probe_digest(probe, counts));
	return maybe || lsm_file_filter_faulted(tree, open);
}

/* ======================================================================
 * Noting
 * ====================================================================== */

static void
settle_note(const Note *note)
{
	LsmElasticFile *slot = &lsm_elastic->files[note->file];
	LsmElasticDecision decision;

	if (pg_atomic_read_u64(&slot->serial) != note->serial)
		return;
	slot->last_access = lsm_elastic->queue.clock;
	decision = lsm_elastic_queue_access(&lsm_elastic->queue, note->segment,
										note->asked, note->admitted);
	if (decision.demoted != LSM_ELASTIC_NONE)
		lsm_elastic_follow(decision.demoted);
	if (decision.promoted != LSM_ELASTIC_NONE)
		lsm_elastic_follow(decision.promoted);
}

void
lsm_elastic_hand_over(bool wait)
{
	if (nnotes + unplaced == 0 || lsm_elastic == NULL)
		return;
	if (wait)
		LWLockAcquire(&lsm_elastic->lock, LW_EXCLUSIVE);
	else if (!LWLockConditionalAcquire(&lsm_elastic->lock, LW_EXCLUSIVE))
		return;
	lsm_elastic_queue_advance(&lsm_elastic->queue, nnotes + unplaced);
	lsm_elastic_shrink_to_budget();
	for (int i = 0; i < nnotes; i++)
		settle_note(&notes[i]);
	lsm_elastic_sealed();
	LWLockRelease(&lsm_elastic->lock);
	nnotes = 0;
	unplaced = 0;
	lsm_elastic_wake();
}

/* The end of a statement. */
void
lsm_elastic_end_statement(void)
{
	if (nnotes + unplaced >= NOTES_AT_END)
		lsm_elastic_hand_over(false);
}
