/*-------------------------------------------------------------------------
 *
 * repair_queue.h
 *	  Filter files to be looked at, and built again if they are damaged.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_REPAIR_QUEUE_H
#define LSM_REPAIR_QUEUE_H

#include "datatype/timestamp.h"

typedef struct LsmRepairRequest
{
	uint64		keyspace_id;	/* 0: free */
	uint64		number;
	TimestampTz after;			/* not before */
	int			tries;
} LsmRepairRequest;

extern Size lsm_repair_shmem_bytes(void);
extern void lsm_repair_shmem_init(void);

/* Have the file's filter looked at.  Never fails. */
extern void lsm_repair_request(uint64 keyspace_id, uint64 number);

/*
 * The next one whose turn it is; false: none.  Until it is settled, it has
 * failed.
 */
extern bool lsm_repair_take(LsmRepairRequest *taken);

/* Done, or nobody needs it. */
extern void lsm_repair_done(const LsmRepairRequest *taken);

/* Not possible now: that is no failure. */
extern void lsm_repair_postpone(const LsmRepairRequest *taken);

#endif							/* LSM_REPAIR_QUEUE_H */
