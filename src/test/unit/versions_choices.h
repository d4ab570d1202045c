/*-------------------------------------------------------------------------
 *
 * versions_choices.h
 *	  A few updates of a row, with all that may become of each, for
 *	  versions_test.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef VERSIONS_CHOICES_H
#define VERSIONS_CHOICES_H

/* What becomes of an update: of a transaction, or of a part of one that runs */
#define UPDATE_FATES	4		/* commits, is rolled back, runs on, runs on as ours */
#define LOCKS			3		/* of another session: none, before that, after */
#define DELETIONS		2		/* one that is rolled back comes first, or not */
#define JOBS			3		/* none, a flush, and a compaction of all */
#define UPDATE_CHOICES	(UPDATE_FATES * LOCKS * DELETIONS * JOBS)

static void
begin_level(int s)
{
	viewer = s;
	if (sessions[s].depth == 0)
		sessions[s].cid = FirstCommandId;
	Assert(sessions[s].depth < MAX_DEPTH);
	sessions[s].levels[sessions[s].depth++] = -1;
}

/* False: it would have to wait. */
static bool
update_once(int choice)
{
	int			fate = choice % UPDATE_FATES;
	int			lock = choice / UPDATE_FATES % LOCKS;
	bool		deletion = choice / (UPDATE_FATES * LOCKS) % DELETIONS != 0;
	int			jobs = choice / (UPDATE_FATES * LOCKS * DELETIONS);
	int			s = fate == 3 ? 0 : fate == 2 || sessions[1].depth > 0 ? 1 :
		sessions[0].depth > 0 ? 0 : 1;
	int			before = nmodel;

	if (sessions[1 - s].depth > 0)
		return false;
	if (sessions[s].depth == 0 || fate < 2)
		begin_level(s);
	viewer = s;
	if (deletion)
	{
		begin_level(s);
		do_delete(s);
		do_end(s, ABORTED);
	}
	do_update(s);
	check(nmodel == before + 1, "an update takes place");
	if (lock == 1)
	{
		begin_level(2);
		do_lock(2);
	}
	if (fate < 2)
		do_end(s, fate == 0 ? COMMITTED : ABORTED);
	if (lock == 2)
	{
		begin_level(2);
		do_lock(2);
	}
	if (jobs > 0)
	{
		begin_job(horizon(), pick_freeze_limit());
		store_flush();
		if (jobs > 1)
			store_compact(0, nfiles - 1);
		cancel_standby(job.newest_removed_xid);
	}
	return true;
}

/* Three updates, and a snapshot of each session before and behind each */
static bool
run_choices(const int *choices, int n)
{
	begin_world();
	begin_level(0);
	do_insert(0);
	do_end(0, COMMITTED);
	for (int i = 0; i < n; i++)
	{
		take_snapshot(i % 2);
		fill_snapshot(&standby[i], STANDBY);
		if (!update_once(choices[i]))
			return false;
		check_everything();
	}
	end_world();
	return true;
}

static void
test_choices(void)
{
	int			every = getenv("LSM_UNIT_SHORT") != NULL ? 97 : 7;
	int			all = UPDATE_CHOICES * UPDATE_CHOICES * UPDATE_CHOICES;
	int			runs = 0;

	nwrong = 0;
	for (int i = below(every); i < all && nwrong == 0; i += every)
	{
		int			choices[] = {i % UPDATE_CHOICES, i / UPDATE_CHOICES % UPDATE_CHOICES,
		i / UPDATE_CHOICES / UPDATE_CHOICES};

		snprintf(what, sizeof(what), "choices %d %d %d", choices[0], choices[1], choices[2]);
		runs += run_choices(choices, lengthof(choices));
	}
	ok(nwrong == 0, "three updates, with what may become of them, in %d ways", runs);
}

#endif							/* VERSIONS_CHOICES_H */
