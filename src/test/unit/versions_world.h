/*-------------------------------------------------------------------------
 *
 * versions_world.h
 *	  Transactions, snapshots and a row, for versions_test.c: sessions with
 *	  subtransactions change one row, through the product's code, while a model
 *	  keeps what a heap would, each version with its xmax.
 *
 * Xids cross the end of their range.  One session at a time is "we" (viewer).
 *
 *-------------------------------------------------------------------------
 */
#ifndef VERSIONS_WORLD_H
#define VERSIONS_WORLD_H

#include "access/transam.h"
#include "access/xact.h"
#include "storage/predicate.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"

#include "table/versions.h"

/* ---- transactions ---- */

#define FIRST_XID		((TransactionId) 0xFFFFFFF0)
#define MAX_XACTS		512
#define NSESSIONS		3
#define MAX_DEPTH		4

typedef enum XactState
{
	RUNNING,
	COMMITTED,
	ABORTED,
	RELEASED					/* a subtransaction: its parent decides */
} XactState;

typedef struct Xact
{
	XactState	state;
	int			session;
	int			parent;			/* -1: none */
} Xact;

typedef struct Session
{
	int			depth;			/* 0: no transaction */
	int			levels[MAX_DEPTH];	/* numbers of xacts, or -1: no xid yet */
	CommandId	cid;
} Session;

static Xact xacts[MAX_XACTS];
static int	nxacts;
static Session sessions[NSESSIONS];
static int	viewer;

/* special xids are left out */
static TransactionId
xid_of(int number)
{
	TransactionId xid = FIRST_XID + number;

	return xid < FIRST_XID ? xid + FirstNormalTransactionId : xid;
}

static int
number_of(TransactionId xid)
{
	Assert(TransactionIdIsNormal(xid));
	return (int) (xid < FIRST_XID ? xid - FirstNormalTransactionId - FIRST_XID : xid - FIRST_XID);
}

static TransactionId
next_xid(void)
{
	return xid_of(nxacts);
}

static XactState
state_of(TransactionId xid)
{
	int			number = number_of(xid);

	Assert(number >= 0 && number < nxacts);
	while (xacts[number].state == RELEASED)
		number = xacts[number].parent;
	return xacts[number].state;
}

/* A released subtransaction of one that is rolled back is rolled back. */
static TransactionId
assign_xid(int s)
{
	Session    *session = &sessions[s];

	Assert(session->depth > 0);
	for (int i = 0; i < session->depth; i++)
	{
		if (session->levels[i] >= 0)
			continue;
		Assert(nxacts < MAX_XACTS);
		xacts[nxacts] = (Xact) {RUNNING, s, i > 0 ? session->levels[i - 1] : -1};
		session->levels[i] = nxacts++;
	}
	return xid_of(session->levels[session->depth - 1]);
}

/* The innermost transaction of the session ends. */
static void
end_level(int s, XactState state)
{
	Session    *session = &sessions[s];
	int			number = session->levels[--session->depth];

	if (number < 0)
		return;
	xacts[number].state = state == COMMITTED && session->depth > 0 ? RELEASED : state;
}

/* ---- what the server knows of them ---- */

TransactionId TransactionXmin;
static __typeof__(*TransamVariables) transam;
__typeof__(TransamVariables) TransamVariables = &transam;

bool
TransactionIdDidCommit(TransactionId xid)
{
	return state_of(xid) == COMMITTED;
}

/*
 * Somebody else's transaction may end whenever it is asked for: then the test ends
 * it, before the answer.
 */
static TransactionId ends_when_asked = InvalidTransactionId;
static XactState ends_as;
static int	ends_after;			/* so many questions */

static void
maybe_end(TransactionId xid)
{
	if (xid != ends_when_asked || ends_after-- > 0)
		return;
	ends_when_asked = InvalidTransactionId;
	xacts[number_of(xid)].state = ends_as;
}

bool
TransactionIdIsInProgress(TransactionId xid)
{
	maybe_end(xid);
	return state_of(xid) == RUNNING;
}

bool
TransactionIdIsCurrentTransactionId(TransactionId xid)
{
	return TransactionIdIsNormal(xid) && state_of(xid) == RUNNING &&
		xacts[number_of(xid)].session == viewer;
}

bool
TransactionIdFollows(TransactionId a, TransactionId b)
{
	return (int32) (a - b) > 0;
}

TransactionId
GetTopTransactionIdIfAny(void)
{
	abort();
}

TransactionId
SubTransGetTopmostTransaction(TransactionId xid)
{
	abort();
}

bool
CheckForSerializableConflictOutNeeded(Relation relation, Snapshot snapshot)
{
	abort();
}

void
CheckForSerializableConflictOut(Relation relation, TransactionId xid, Snapshot snapshot)
{
	abort();
}

bool
GlobalVisTestIsRemovableXid(GlobalVisState *state, TransactionId xid, bool allow_update)
{
	abort();
}

/* ---- snapshots ---- */

#define MAX_SNAPSHOTS	6

typedef struct TestSnapshot
{
	SnapshotData data;
	bool		used;
	int			session;
	int			depth;			/* goes with this subtransaction */
	TransactionId xip[MAX_XACTS];
} TestSnapshot;

static TestSnapshot snapshots[MAX_SNAPSHOTS];

bool
XidInMVCCSnapshot(TransactionId xid, Snapshot snapshot)
{
	if (TransactionIdPrecedes(xid, snapshot->xmin))
		return false;
	if (!TransactionIdPrecedes(xid, snapshot->xmax))
		return true;
	for (uint32 i = 0; i < snapshot->xcnt; i++)
	{
		if (snapshot->xip[i] == xid)
			return true;
	}
	return false;
}

/* The oldest xid that runs, or the next one */
static TransactionId
oldest_running(void)
{
	for (int i = 0; i < nxacts; i++)
	{
		if (state_of(xid_of(i)) == RUNNING)
			return xid_of(i);
	}
	return next_xid();
}

/* The session's transactions from this depth on have ended. */
static void
drop_snapshots(int s, int depth)
{
	for (int i = 0; i < MAX_SNAPSHOTS; i++)
	{
		if (snapshots[i].used && snapshots[i].session == s && snapshots[i].depth >= depth)
			snapshots[i].used = false;
	}
}

/*
 * Snapshots of a standby: nothing is kept for them.  Who removes something says an
 * xid, and those that take it for running, or may, are canceled.
 */
#define STANDBY			(-1)

static TestSnapshot standby[MAX_SNAPSHOTS];

static void
fill_snapshot(TestSnapshot *snapshot, int s)
{
	memset(&snapshot->data, 0, sizeof(snapshot->data));
	snapshot->used = true;
	snapshot->session = s;
	snapshot->data.snapshot_type = SNAPSHOT_MVCC;
	snapshot->data.xmin = oldest_running();
	snapshot->data.xmax = next_xid();
	snapshot->data.xip = snapshot->xip;
	for (int n = 0; n < nxacts; n++)
	{
		if (state_of(xid_of(n)) == RUNNING)
			snapshot->xip[snapshot->data.xcnt++] = xid_of(n);
	}
}

static void
take_snapshot(int s)
{
	for (int i = 0; i < MAX_SNAPSHOTS; i++)
	{
		TestSnapshot *snapshot = &snapshots[i];

		if (snapshot->used)
			continue;
		fill_snapshot(snapshot, s);
		snapshot->depth = sessions[s].depth;
		snapshot->data.curcid = sessions[s].cid;
		return;
	}
}

static void
cancel_standby(TransactionId removed)
{
	for (int i = 0; i < MAX_SNAPSHOTS; i++)
	{
		if (TransactionIdIsValid(removed) && standby[i].used &&
			!TransactionIdFollows(standby[i].data.xmin, removed))
			standby[i].used = false;
	}
}

/* What may be removed precedes it. */
static TransactionId
horizon(void)
{
	TransactionId oldest = oldest_running();

	for (int i = 0; i < MAX_SNAPSHOTS; i++)
	{
		if (snapshots[i].used && TransactionIdPrecedes(snapshots[i].data.xmin, oldest))
			oldest = snapshots[i].data.xmin;
	}
	return oldest;
}

bool
lsm_xid_removable(Relation table, TransactionId xid)
{
	return TransactionIdPrecedes(xid, horizon());
}

/* ---- the model: versions as a heap has them ---- */

#define MAX_MODEL		256
#define ROW				(((uint64) 5 << 16) | 7)

typedef struct ModelVersion
{
	uint32		number;
	uint32		body;
	TransactionId xmin;
	CommandId	cmin;
	TransactionId xmax;			/* or invalid */
	CommandId	cmax;
	int			next;			/* the version that replaced it; -1: it was
								 * deleted */
	bool		strong;
} ModelVersion;

typedef struct ModelLock
{
	TransactionId xid;
	LockTupleMode mode;
} ModelLock;

static ModelVersion model[MAX_MODEL];
static int	nmodel;
static ModelLock model_locks[MAX_MODEL];
static int	nmodel_locks;

/* Its header, if it was stored whole */
static LsmRow
model_row(int v)
{
	const ModelVersion *version = &model[v];
	LsmRow		row;

	memset(&row, 0, sizeof(row));
	row.xmin = version->xmin;
	row.cmin = version->cmin;
	row.version = version->number;
	ItemPointerSetInvalid(&row.next);
	if (!TransactionIdIsValid(version->xmax) ||
		(state_of(version->xmax) == ABORTED))
		return row;
	row.flags |= LSM_ROW_HAS_XMAX;
	row.xmax = version->xmax;
	row.cmax = version->cmax;
	if (version->strong)
		row.flags |= LSM_ROW_KEYS_UPDATED;
	if (version->next >= 0)
	{
		row.flags |= LSM_ROW_HAS_NEXT;
		lsm_tid_unpack(lsm_tid_of(ROW, model[version->next].number), &row.next);
	}
	return row;
}

/* The newest version whose maker has not come to nothing; -1: none */
static int
model_newest(void)
{
	int			v = nmodel - 1;

	while (v >= 0 && state_of(model[v].xmin) == ABORTED)
		v--;
	return v;
}

/* What the snapshot sees, from the newest on; -1: nothing */
static int
model_seen(Snapshot snapshot)
{
	for (int v = nmodel - 1; v >= 0; v--)
	{
		LsmRow		row = model_row(v);

		if (lsm_row_visible(&row, snapshot))
			return v;
	}
	return -1;
}

/* Whoever holds a snapshot, or runs, may ask for the version by its TID. */
static bool
model_wanted(int v)
{
	if (state_of(model[v].xmin) == RUNNING ||
		(TransactionIdIsValid(model[v].xmax) && state_of(model[v].xmax) == RUNNING))
		return true;
	for (int i = 0; i < MAX_SNAPSHOTS; i++)
	{
		LsmRow		row = model_row(v);

		if (!snapshots[i].used)
			continue;
		viewer = snapshots[i].session;
		if (lsm_row_visible(&row, &snapshots[i].data))
			return true;
	}
	return v == model_newest() &&
		!(TransactionIdIsValid(model[v].xmax) && state_of(model[v].xmax) == COMMITTED);
}

static LockTupleMode
model_lock(TransactionId xid)
{
	for (int i = 0; i < nmodel_locks; i++)
	{
		if (model_locks[i].xid == xid)
			return model_locks[i].mode;
	}
	return -1;
}

#endif							/* VERSIONS_WORLD_H */
