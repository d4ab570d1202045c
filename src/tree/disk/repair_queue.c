/*-------------------------------------------------------------------------
 *
 * repair_queue.c
 *	  Filter files to be looked at, and built again if they are damaged.
 *
 * Whoever opens such a file asks; a worker does it (repair.c).  A spinlock
 * protects the requests.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "tree/control/clock.h"
#include "tree/control/control.h"
#include "tree/disk/repair_queue.h"


#define REPAIR_REQUESTS		128
#define REPAIR_TRIES		8
#define RETRY_AFTER_LOCK_MS		500
#define RETRY_AFTER_ERROR_MS	10000

typedef struct RepairShared
{
	slock_t		mutex;
	pg_atomic_uint32 n;			/* to see without the lock that there is
								 * nothing */
	LsmRepairRequest requests[REPAIR_REQUESTS];
} RepairShared;

static RepairShared *shared = NULL;

Size
lsm_repair_shmem_bytes(void)
{
	return MAXALIGN(sizeof(RepairShared));
}

/* REQUIRES: AddinShmemInitLock held. */
void
lsm_repair_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("lsmam filters to build again", lsm_repair_shmem_bytes(), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(RepairShared));
	SpinLockInit(&shared->mutex);
	pg_atomic_init_u32(&shared->n, 0);
}

/* REQUIRES: spinlock. */
static LsmRepairRequest *
find_request(uint64 keyspace_id, uint64 number)
{
	for (int i = 0; i < REPAIR_REQUESTS; i++)
	{
		if (shared->requests[i].keyspace_id == keyspace_id &&
			shared->requests[i].number == number)
			return &shared->requests[i];
	}
	return NULL;
}

/* If there is no room, the next process that opens the file asks again. */
void
lsm_repair_request(uint64 keyspace_id, uint64 number)
{
	LsmRepairRequest *request;
	bool		added = false;

	SpinLockAcquire(&shared->mutex);
	if (find_request(keyspace_id, number) == NULL &&
		(request = find_request(0, 0)) != NULL)
	{
		request->keyspace_id = keyspace_id;
		request->number = number;
		request->after = 0;
		request->tries = 0;
		pg_atomic_fetch_add_u32(&shared->n, 1);
		added = true;
	}
	SpinLockRelease(&shared->mutex);
	if (added)
		lsm_worker_wake();
}

bool
lsm_repair_take(LsmRepairRequest *taken)
{
	TimestampTz now = lsm_monotonic_now();
	bool		found = false;

	if (pg_atomic_read_u32(&shared->n) == 0)
		return false;
	SpinLockAcquire(&shared->mutex);
	for (int i = 0; i < REPAIR_REQUESTS && !found; i++)
	{
		LsmRepairRequest *request = &shared->requests[i];

		if (request->keyspace_id == 0 || request->after > now)
			continue;
		*taken = *request;
		found = true;
		request->after = TimestampTzPlusMilliseconds(now, RETRY_AFTER_ERROR_MS << request->tries);
		if (++request->tries > REPAIR_TRIES)
		{
			memset(request, 0, sizeof(LsmRepairRequest));
			pg_atomic_fetch_sub_u32(&shared->n, 1);
		}
	}
	SpinLockRelease(&shared->mutex);
	return found;
}

void
lsm_repair_done(const LsmRepairRequest *taken)
{
	LsmRepairRequest *request;

	SpinLockAcquire(&shared->mutex);
	request = find_request(taken->keyspace_id, taken->number);
	if (request != NULL)
	{
		memset(request, 0, sizeof(LsmRepairRequest));
		pg_atomic_fetch_sub_u32(&shared->n, 1);
	}
	SpinLockRelease(&shared->mutex);
}

void
lsm_repair_postpone(const LsmRepairRequest *taken)
{
	TimestampTz after = TimestampTzPlusMilliseconds(lsm_monotonic_now(), RETRY_AFTER_LOCK_MS);
	LsmRepairRequest *request;

	SpinLockAcquire(&shared->mutex);
	request = find_request(taken->keyspace_id, taken->number);
	if (request != NULL)
	{
		request->tries = taken->tries;
		request->after = after;
	}
	SpinLockRelease(&shared->mutex);
}
