/*-------------------------------------------------------------------------
 *
 * versions_races.h
 *	  Makers of versions that end between two looks at them, for versions_test.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef VERSIONS_RACES_H
#define VERSIONS_RACES_H

/*
 * Session 0 inserts and commits, session 1 updates, and session 2 locks, if it is
 * to.  Session 1 ends after so many questions about it.
 */
static void
begin_race(bool lock, XactState end, int after)
{
	begin_world();
	for (int s = 0; s < NSESSIONS; s++)
		sessions[s].levels[sessions[s].depth++] = -1;
	viewer = 0;
	do_insert(0);
	do_end(0, COMMITTED);
	viewer = 2;
	take_snapshot(2);
	viewer = 1;
	do_update(1);
	viewer = 2;
	if (lock)
		do_lock(2);
	ends_when_asked = model[1].xmin;
	ends_as = end;
	ends_after = after;
}

/*
 * What is answered was true before or is true after.  What there is of the row is
 * a version that can be seen, and it is not dead.
 */
static void
race_once(bool lock, XactState end, int after, SnapshotType type)
{
	SnapshotData snapshot;
	Snapshot	asked = type == SNAPSHOT_MVCC ? &snapshots[0].data : &snapshot;
	TransactionId dead_after;
	LsmSlice	value;
	LsmRow		row;
	uint64		tid;

	snprintf(what, sizeof(what), "maker %s after %d questions, snapshot %d%s",
			 end == ABORTED ? "is rolled back" : "commits", after, type, lock ? ", locked" : "");
	memset(&snapshot, 0, sizeof(snapshot));
	snapshot.snapshot_type = type;

	begin_race(lock, end, after);
	store_read(NULL, &value);
	check(lsm_versions_for_snapshot(&relation, ROW, value, asked, &row, &tid), "a version is seen");
	if (type == SNAPSHOT_MVCC)
		check(body_of(&row) == 1, "an MVCC snapshot goes on to see what it did");
	if (body_of(&row) == 2)
		check(end == COMMITTED || snapshot.xmin == model[1].xmin, "the new version is seen if it is one");

	begin_race(lock, end, after);
	store_read(NULL, &value);
	check(lsm_versions_vacuum_horizon(&relation, ROW, value, &row, &tid, &dead_after) !=
			  HEAPTUPLE_DEAD,
		  "the row is not dead");

	/* with as much as a lookup has found enough */
	begin_race(lock, end, after);
	{
		LsmEnough	enough = lsm_enough_for_snapshot(asked);

		store_read(&enough, &value);
		check(lsm_versions_for_snapshot(&relation, ROW, value, asked, &row, &tid),
			  "a version is seen in a part of the value");
	}
	begin_race(lock, end, after);
	{
		LsmEnough	enough = lsm_enough_newest();

		store_read(&enough, &value);
		check(lsm_versions_vacuum_horizon(&relation, ROW, value, &row, &tid, &dead_after) !=
				  HEAPTUPLE_DEAD,
			  "the row is not dead for what is a part of the value");
		check(lsm_versions_newest(&relation, ROW, value, &row, &tid),
			  "a part of the value has a valid version");
	}
	begin_race(lock, end, after);
	{
		LsmExact	exact = {ROW, NULL};
		LsmEnough	enough = lsm_enough_exact(&exact);
		LsmRow		newest;

		store_read(&enough, &value);
		check(lsm_versions_exact(&relation, ROW, value, NULL, &row, &newest), "the first version is there");
		check(lsm_row_shown_xmin(&row) == model[0].xmin, "it is the one that was asked for");
		check(!(row.flags & LSM_ROW_HAS_XMAX) || row.xmax == model[1].xmin, "it has its end");
	}
	ends_when_asked = InvalidTransactionId;
}

static void
test_races(void)
{
	static const SnapshotType types[] = {SNAPSHOT_MVCC, SNAPSHOT_SELF, SNAPSHOT_DIRTY};

	nwrong = 0;
	for (int after = 0; after < 8; after++)
	{
		for (int i = 0; i < lengthof(types); i++)
		{
			for (int lock = 0; lock < 2; lock++)
			{
				race_once(lock, COMMITTED, after, types[i]);
				race_once(lock, ABORTED, after, types[i]);
			}
		}
	}
	ok(nwrong == 0, "a maker ends while the row is decoded");
}

#endif							/* VERSIONS_RACES_H */
