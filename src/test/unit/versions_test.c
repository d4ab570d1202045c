/*-------------------------------------------------------------------------
 *
 * versions_test.c
 *	  Rows with several versions: src/table/versions.c and row.c, what kind.c makes
 *	  of them in flushes, compactions and salvage, and what lsm_verify says of them.
 *	  TAP output.
 *
 * Sessions insert, update, lock and delete one row, and commit or roll back, in
 * random order (versions_world.h), while its values are flushed and compacted
 * (versions_store.h), and as they are after a reload, in part.  What they say to each snapshot, of each kind, is compared
 * with a model that stores each version's xmax.  Cases: cases/versions.
 *
 * LSM_SEED repeats a run.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#define USE_ASSERT_CHECKING 1

#include "server.h"
#include <ctype.h>

#include "tap.h"

#include "versions_world.h"
#include "versions_stand_ins.h"

#include "table/row.c"
#define SAVES_AT_LEAST	1
#include "table/row_delta.c"
#include "table/visibility.c"
#include "table/versions.c"
#include "table/verify_row.c"
#include "table/kind.c"
#include "tree/read/merge.c"

#include "versions_store.h"

static RelationData relation;
static FormData_pg_class class_form;
static uint64_t random_state;
static char what[256];			/* is being checked */
static int	nwrong;

static uint32
below(uint32 n)
{
	return (uint32) (random_next(&random_state) % n);
}

static void
check(bool good, const char *text)
{
	if (good)
		return;
	nwrong++;
	if (nwrong <= 10)
		printf("# wrong: %s: %s\n", what, text);
}

static uint32
body_of(const LsmRow *row)
{
	uint32		body;

	Assert(row->body_bytes == sizeof(uint16) + sizeof(body));
	memcpy(&body, row->body + sizeof(uint16), sizeof(body));
	return body;
}

/* One attribute, an integer: the number of the body */
static TupleDesc
one_integer(void)
{
	/* since 18, something of each attribute stands before it */
	TupleDesc	desc = calloc(1, sizeof(TupleDescData) + 2 * sizeof(FormData_pg_attribute));

	desc->natts = 1;
	TupleDescAttr(desc, 0)->attlen = sizeof(uint32);
	TupleDescAttr(desc, 0)->attalign = TYPALIGN_INT;
	TupleDescAttr(desc, 0)->attnum = 1;
	return desc;
}

/* ---- what sessions do ---- */

/* The row's newest valid version as the store has it, with all that is older read */
static bool
read_newest(LsmRow *row, uint64 *tid)
{
	LsmSlice	value;

	return store_read(NULL, &value) &&
		lsm_versions_newest(&relation, ROW, value, row, tid);
}

/* Finished transactions go from a header, as lsm_row_change_header() has it. */
static void
settle_header(LsmRow *header, char *lockers)
{
	int			n = 0;

	if (!(header->flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN)) &&
		state_of(header->xmin) == COMMITTED && below(3) > 0)
	{
		header->flags |= LSM_ROW_XMIN_COMMITTED;
		header->cmin = 0;
	}
	if ((header->flags & LSM_ROW_XMIN_COMMITTED) && below(3) == 0 &&
		TransactionIdPrecedes(header->xmin, horizon()))
	{
		TransactionId newest = horizon();

		/* as lsm_tree_note_freeze_limit() tells standbys */
		TransactionIdRetreat(newest);
		cancel_standby(newest);
		lsm_row_freeze(header);
	}
	if ((header->flags & LSM_ROW_HAS_XMAX) && state_of(header->xmax) == ABORTED)
	{
		header->flags &= ~LSM_ROW_XMAX_FLAGS;
		header->xmax = InvalidTransactionId;
	}
	for (int i = 0; i < header->nlockers; i++)
	{
		TransactionId xid;
		LockTupleMode mode;

		lsm_row_locker(header, i, &xid, &mode);
		if (state_of(xid) == RUNNING)
			lsm_locker_put(lockers + n++ * LSM_LOCKER_BYTES, xid, mode);
	}
	header->lockers = lockers;
	header->nlockers = n;
}

static int	ndeltas;			/* were written */

/*
 * A version that replaces `base` may be as a reload has it: whole, or a difference.
 */
static void
write_row(const LsmRow *row, const uint32 *body, const LsmRow *base)
{
	StringInfoData value;
	LsmRow		whole = *row;
	char		bytes[sizeof(uint16) + sizeof(uint32)] = {1, 0};

	initStringInfo(&value);
	if (body != NULL)
	{
		memcpy(bytes + sizeof(uint16), body, sizeof(*body));
		whole.body = bytes;
		whole.body_bytes = sizeof(bytes);
	}
	if (base != NULL && below(3) > 0 &&
		lsm_delta_encode(&value, &whole, lsm_slice(bytes, sizeof(bytes)), base))
		ndeltas++;
	else
		lsm_row_encode(&value, &whole, body != NULL);
	store_write(lsm_slice(value.data, value.len), below(2) == 0);
	pfree(value.data);
}

static void
do_insert(int s)
{
	uint32		body = 1;
	LsmRow		row;

	memset(&row, 0, sizeof(row));
	row.xmin = assign_xid(s);
	row.cmin = sessions[s].cid++;
	model[nmodel++] = (ModelVersion) {0, body, row.xmin, row.cmin, InvalidTransactionId, 0, -1};
	write_row(&row, &body, NULL);
}

/* A version whose TID names a newer one, by now: an update would have moved. */
static bool
has_room(const LsmRow *newest)
{
	return newest->version < 60;
}

static void
do_update(int s)
{
	char		lockers[MAX_MODEL * LSM_LOCKER_BYTES];
	LsmRow		old;
	LsmRow		new;
	uint64		tid;
	uint32		body = nmodel + 1;
	int			v = model_newest();
	bool		strong = below(2) == 0;

	if (nmodel >= MAX_MODEL || !read_newest(&old, &tid) || !has_room(&old) ||
		lsm_row_changeable(&old, sessions[s].cid) != TM_Ok)
		return;
	check(body_of(&old) == model[v].body, "an update finds the newest valid version");
	new = old;
	settle_header(&new, lockers);
	new.flags = strong ? LSM_ROW_STRONG : 0;
	new.xmin = assign_xid(s);
	new.frozen_xmin = InvalidTransactionId;
	new.cmin = sessions[s].cid++;
	new.xmax = InvalidTransactionId;
	new.open = true;
	new.version = old.version + 1;
	new.span = new.version;
	new.kept = 17;
	model[v].xmax = new.xmin;
	model[v].cmax = new.cmin;
	model[v].next = nmodel;
	model[v].strong = strong;
	model[nmodel++] = (ModelVersion) {new.version, body, new.xmin, new.cmin, InvalidTransactionId, 0, -1};
	write_row(&new, &body, &old);
}

static void
do_delete(int s)
{
	char		lockers[MAX_MODEL * LSM_LOCKER_BYTES];
	LsmRow		header;
	uint64		tid;
	int			v = model_newest();

	if (!read_newest(&header, &tid) ||
		lsm_row_changeable(&header, sessions[s].cid) != TM_Ok)
		return;
	settle_header(&header, lockers);
	header.flags = (header.flags & ~LSM_ROW_XMAX_FLAGS) | LSM_ROW_HAS_XMAX | LSM_ROW_KEYS_UPDATED;
	header.xmax = assign_xid(s);
	header.cmax = sessions[s].cid++;
	model[v].xmax = header.xmax;
	model[v].cmax = header.cmax;
	model[v].next = -1;
	model[v].strong = true;
	write_row(&header, NULL, NULL);
}

/* Locks wait for nobody here: two may have any. */
static void
do_lock(int s)
{
	char		lockers[MAX_MODEL * LSM_LOCKER_BYTES];
	LsmRow		header;
	uint64		tid;
	TransactionId xid;
	LockTupleMode mode = below(4);

	TM_Result	result;

	if (nmodel_locks >= MAX_MODEL || !read_newest(&header, &tid) || header.nlockers > 200)
		return;
	/* the newest version may be that of somebody who is not in the way */
	result = lsm_row_changeable(&header, sessions[s].cid);
	if (result != TM_Ok && result != TM_BeingModified &&
		lsm_row_maker(&header) != LSM_MAKER_RUNNING)
		return;
	xid = assign_xid(s);
	if (model_lock(xid) != -1)
		return;
	settle_header(&header, lockers);
	lsm_locker_put(lockers + header.nlockers++ * LSM_LOCKER_BYTES, xid, mode);
	model_locks[nmodel_locks++] = (ModelLock) {xid, mode};
	write_row(&header, NULL, NULL);
}

static void
do_end(int s, XactState state)
{
	end_level(s, state);
	if (state == ABORTED || sessions[s].depth == 0)
		drop_snapshots(s, sessions[s].depth + 1);
}

static TransactionId
pick_freeze_limit(void)
{
	return below(4) == 0 ? horizon() : InvalidTransactionId;
}

/* A job's horizon may be an old one, and older than what has been removed. */
static TransactionId
pick_horizon(void)
{
	TransactionId oldest = horizon();

	return below(4) == 0 && number_of(oldest) > 0 ? xid_of(below(number_of(oldest) + 1)) : oldest;
}

static void
do_job(void)
{
	begin_job(pick_horizon(), pick_freeze_limit());
	if (nfiles >= 2 && below(2) == 0)
	{
		int			first = below(nfiles);
		int			last = first + below(nfiles - first);

		store_compact(first, last);
	}
	else
		store_flush();
	cancel_standby(job.newest_removed_xid);
}

static void
do_something(int s)
{
	Session    *session = &sessions[s];

	viewer = s;
	if (session->depth == 0)
	{
		session->levels[session->depth++] = -1;
		session->cid = FirstCommandId;
		if (below(2) == 0)
			(void) assign_xid(s);
	}
	switch (below(20))
	{
		case 16:
		case 17:
		case 18:
			do_job();
			break;
		case 19:
			fill_snapshot(&standby[below(MAX_SNAPSHOTS)], STANDBY);
			break;
		case 0:
		case 1:
		case 2:
		case 3:
		case 4:
			do_update(s);
			break;
		case 5:
		case 6:
			do_lock(s);
			break;
		case 7:
			if (below(3) == 0)
				do_delete(s);
			break;
		case 8:
			if (session->depth < MAX_DEPTH)
				session->levels[session->depth++] = -1;
			break;
		case 9:
			do_end(s, ABORTED);
			break;
		case 10:
		case 11:
			do_end(s, COMMITTED);
			break;
		case 12:
			session->cid++;
			break;
		default:
			take_snapshot(s);
			break;
	}
}

/* ---- what is found ---- */

/* The row is the model's version, and has its end. */
static void
check_row(const LsmRow *row, uint64 tid, int v)
{
	LsmRow		expected = model_row(v);
	bool		ended = (expected.flags & LSM_ROW_HAS_XMAX) != 0;

	check(body_of(row) == model[v].body, "body");
	if (body_of(row) != model[v].body)
		printf("# got %u, expected %u\n", body_of(row), model[v].body);
	check(lsm_row_shown_xmin(row) == expected.xmin, "xmin");
	check(row->version == expected.version && tid == lsm_tid_of(ROW, expected.version), "TID");
	if (row->cmin != expected.cmin)
		check(row->cmin == 0 && (row->flags & XMIN_KNOWN_GOOD), "cmin");
	if (!(row->flags & LSM_ROW_HAS_XMAX))
		check(!ended, "it has been ended");
	else if (!ended)
		check(state_of(row->xmax) == ABORTED, "it has not been ended");
	else
	{
		check(row->xmax == expected.xmax, "xmax");
		check((row->flags & (LSM_ROW_HAS_NEXT | LSM_ROW_KEYS_UPDATED)) ==
			  (expected.flags & (LSM_ROW_HAS_NEXT | LSM_ROW_KEYS_UPDATED)), "flags of xmax");
		if (!(row->flags & LSM_ROW_XMAX_COMMITTED))
			check(row->cmax == expected.cmax, "cmax");
		else
			check(state_of(row->xmax) == COMMITTED, "xmax has committed");
		if (row->flags & LSM_ROW_HAS_NEXT)
			check(lsm_tid_pack(&row->next) == lsm_tid_pack(&expected.next), "next");
	}
}

static void
check_locks(const LsmRow *row)
{
	int			running = 0;

	for (int i = 0; i < row->nlockers; i++)
	{
		TransactionId xid;
		LockTupleMode mode;

		lsm_row_locker(row, i, &xid, &mode);
		if (state_of(xid) != RUNNING)
			continue;
		running++;
		check(model_lock(xid) == mode, "a lock that runs");
	}
	for (int i = 0; i < nmodel_locks; i++)
	{
		if (state_of(model_locks[i].xid) == RUNNING)
			running--;
	}
	check(running == 0, "all locks that run");
}

/* It has been deleted, and nobody sees it: it may be gone, or be marked as dead. */
static bool
model_is_dead(void)
{
	int			v = model_newest();

	return v < 0 ||
		(TransactionIdIsValid(model[v].xmax) && state_of(model[v].xmax) == COMMITTED &&
		 lsm_xid_removable(NULL, model[v].xmax));
}

static void
check_snapshot(Snapshot snapshot)
{
	LsmEnough	enough = lsm_enough_for_snapshot(snapshot);
	SnapshotData expected;
	int			v = model_seen(snapshot);

	expected = *snapshot;
	for (int with_enough = 0; with_enough < 2; with_enough++)
	{
		LsmSlice	value;
		LsmRow		row;
		uint64		tid;
		bool		found = store_read(with_enough ? &enough : NULL, &value);
		bool		seen = found &&
			lsm_versions_for_snapshot(&relation, ROW, value, snapshot, &row, &tid);

		check(seen == (v >= 0), seen ? "a version is seen" : "no version is seen");
		if (seen && v >= 0)
		{
			check_row(&row, tid, v);
			check_locks(&row);
		}
		if (found && snapshot->snapshot_type == SNAPSHOT_DIRTY)
			check(snapshot->xmin == expected.xmin && snapshot->xmax == expected.xmax,
				  "who has to be waited for");
		if (found && !seen && !model_is_dead() && snapshot->snapshot_type == SNAPSHOT_MVCC)
			check(body_of(&row) == model[model_newest()].body, "the newest valid version, if none is seen");
	}
}

static void
check_exact(int v, Snapshot snapshot, bool snapshot_sees)
{
	uint64		tid = lsm_tid_of(ROW, model[v].number);
	LsmExact	exact = {tid, snapshot};
	LsmEnough	enough = lsm_enough_exact(&exact);

	for (int with_enough = 0; with_enough < 2; with_enough++)
	{
		LsmSlice	value;
		LsmRow		row;
		LsmRow		newest;
		bool		found = store_read(with_enough ? &enough : NULL, &value) &&
			lsm_versions_exact(&relation, tid, value, snapshot, &row, &newest);

		check(found == snapshot_sees, found ? "a version is there" : "a version is not there");
		if (found && snapshot_sees)
		{
			check_row(&row, tid, v);
			check_locks(&row);
			check_row(&newest, lsm_tid_of(ROW, newest.version), model_newest());
		}
	}
}

/* Of the row as a whole */
static void
check_horizon_status(void)
{
	LsmEnough	enough = lsm_enough_newest();
	int			v = model_newest();

	for (int with_enough = 0; with_enough < 2; with_enough++)
	{
		LsmSlice	value;
		LsmRow		row;
		LsmRow		expected;
		uint64		tid;
		TransactionId dead_after;
		TransactionId expected_after;
		HTSV_Result status;
		bool		valid;

		if (!store_read(with_enough ? &enough : NULL, &value))
		{
			check(model_is_dead(), "the row is gone");
			continue;
		}
		status = lsm_versions_vacuum_horizon(&relation, ROW, value, &row, &tid, &dead_after);
		if (v < 0 || status == HEAPTUPLE_DEAD)
		{
			check(status == HEAPTUPLE_DEAD && model_is_dead(), "a row that came to nothing is dead");
			continue;
		}
		expected = model_row(v);
		check(status == lsm_row_vacuum_horizon(&expected, &expected_after), "the row's status");
		check(dead_after == expected_after, "whom the row is dead after");
		valid = lsm_versions_newest(&relation, ROW, value, &row, &tid);
		check(valid, "there is a newest valid version");
		if (valid)
		{
			check_row(&row, tid, v);
			check_locks(&row);
		}
	}
}

/* One after the other, as SnapshotAny has them */
static void
check_all(void)
{
	LsmVersions versions;
	LsmSlice	value;
	LsmRow		row;
	uint64		tid;
	int			v = nmodel;

	if (!store_read(NULL, &value))
		return;
	lsm_versions_begin(&versions, &relation, ROW, value);
	while (lsm_versions_next(&versions, true, &row, &tid))
	{
		int			at = (int) body_of(&row) - 1;

		check(at < v, "versions come newest first");
		v = at;
		if (row.flags & LSM_ROW_KILLED)
			check(model_is_dead(), "it is marked as dead");
		else if (state_of(model[v].xmin) == ABORTED)
			check(lsm_row_maker(&row) == LSM_MAKER_DEAD, "what came to nothing is dead");
		else
			check_row(&row, tid, v);
	}
}

/* lsm_verify has nothing to say. */
static void
check_verify(void)
{
	char		key[LSM_TID_BYTES];
	LsmSlice	key_slice = lsm_slice(key, sizeof(key));
	LsmSlice	value;
	SnapshotData snapshot;
	bool		hidden;

	lsm_key_encode(ROW, key);
	for (int i = 0; i < nmemory + nfiles; i++)
	{
		const StoredValue *stored = i < nmemory ? &memory[i] : &files[i - nmemory];

		check(stored->data == NULL || lsm_value_check(key_slice, stored_slice(stored)) == NULL,
			  "lsm_verify finds a value malformed");
	}
	memset(&snapshot, 0, sizeof(snapshot));
	snapshot.snapshot_type = SNAPSHOT_SELF;
	if (store_read(NULL, &value))
		check(lsm_row_check(&relation, key_slice, value, &snapshot, &hidden) == NULL,
			  "lsm_verify finds a row wrong");
}

static void
check_everything(void)
{
	check_horizon_status();
	check_verify();
	check_all();
	for (int s = 0; s < NSESSIONS; s++)
	{
		SnapshotData snapshot;

		viewer = s;
		for (int i = 0; i < MAX_SNAPSHOTS; i++)
		{
			if (!snapshots[i].used || snapshots[i].session != s)
				continue;
			check_snapshot(&snapshots[i].data);
			for (int v = 0; v < nmodel; v++)
			{
				if (v == model_seen(&snapshots[i].data))
					check_exact(v, &snapshots[i].data, true);
			}
		}
		memset(&snapshot, 0, sizeof(snapshot));
		snapshot.snapshot_type = SNAPSHOT_DIRTY;
		check_snapshot(&snapshot);
		snapshot.snapshot_type = SNAPSHOT_SELF;
		check_snapshot(&snapshot);
	}
	viewer = STANDBY;
	for (int i = 0; i < MAX_SNAPSHOTS; i++)
	{
		if (standby[i].used)
			check_snapshot(&standby[i].data);
	}
	for (int v = 0; v < nmodel; v++)
	{
		if (state_of(model[v].xmin) != ABORTED && model_wanted(v))
			check_exact(v, NULL, true);
	}
}

static void
begin_world(void)
{
	nxacts = nmodel = nmodel_locks = 0;
	memset(sessions, 0, sizeof(sessions));
	memset(snapshots, 0, sizeof(snapshots));
	memset(standby, 0, sizeof(standby));
	store_clear();
}

/* In any order, the newest version that did not come to nothing is left. */
static void
check_salvage(void)
{
	int			v = model_newest();
	LsmSlice	value;
	LsmRow		row;
	uint64		tid;

	/* a row that is dead may be gone, and come back with what was replaced */
	if (v < 0 || (TransactionIdIsValid(model[v].xmax) && state_of(model[v].xmax) == COMMITTED))
		return;
	check(store_salvage(below, &value), "the row is salvaged");
	check(lsm_versions_newest(&relation, ROW, value, &row, &tid), "a valid version is salvaged");
	check_row(&row, tid, v);
}

/* All end, and what is left of the row is one value, or nothing. */
static void
end_world(void)
{
	int			v;
	bool		alive;

	for (int s = 0; s < NSESSIONS; s++)
	{
		while (sessions[s].depth > 0)
			do_end(s, below(2) == 0 ? COMMITTED : ABORTED);
		drop_snapshots(s, 0);
	}
	memset(standby, 0, sizeof(standby));
	viewer = 0;
	check_everything();
	check_salvage();
	v = model_newest();
	alive = v >= 0 && !(model_row(v).flags & LSM_ROW_HAS_XMAX);
	begin_job(horizon(), pick_freeze_limit());
	store_flush();
	check_everything();
	store_compact(0, nfiles - 1);
	check_everything();
	check((files[0].data != NULL) == alive, alive ? "the row is there" : "nothing is left of the row");
	if (alive && files[0].data != NULL)
	{
		LsmRow		row;

		check(files[0].data[0] == LSM_TAG_PUT && lsm_row_parse(stored_slice(&files[0]), &row) == NULL,
			  "one version is left");
		check(row.nlockers == 0 && (row.flags & (LSM_ROW_XMIN_COMMITTED | LSM_ROW_XMIN_FROZEN)),
			  "no transaction is left in it");
	}
}

static void
run_random(int nops)
{
	begin_world();
	viewer = 0;
	sessions[0].levels[sessions[0].depth++] = -1;
	do_insert(0);
	for (int op = 0; op < nops && nxacts < MAX_XACTS - 2 * MAX_DEPTH && nmodel < MAX_MODEL - 1; op++)
	{
		do_something(below(NSESSIONS));
		check_everything();
		if (nwrong > 0)
			return;
	}
	end_world();
}

static void
test_random(void)
{
	int			runs = getenv("LSM_UNIT_SHORT") != NULL ? 300 : 5000;

	nwrong = 0;
	for (int run = 0; run < runs && nwrong == 0; run++)
	{
		uint64_t	seed = random_state;

		snprintf(what, sizeof(what), "run with state %llu", (unsigned long long) seed);
		run_random(20 + below(100));
	}
	ok(nwrong == 0 && ndeltas > runs, "random transactions on one row, %d times", runs);
}

#include "versions_choices.h"
#include "versions_cases.h"
#include "versions_races.h"
#include "versions_format.h"

int
main(void)
{
	random_state = test_seed();
	relation.rd_rel = &class_form;
	relation.rd_att = one_integer();
	strcpy(NameStr(class_form.relname), "t");
	test_format();
	test_old_format();
	test_malformed();
	run_cases("versions", run_versions_case);
	test_races();
	test_choices();
	test_random();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
