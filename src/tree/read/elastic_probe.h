/*-------------------------------------------------------------------------
 *
 * elastic_probe.h
 *	  Asking elastic filters, and noting what was asked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_ELASTIC_PROBE_H
#define LSM_ELASTIC_PROBE_H

#include "tree/elastic/elastic.h"
#include "tree/read/filecache.h"

/* A backend's view of an open file with an elastic filter. */
typedef struct LsmElasticView
{
	LsmElastic	shape;
	uint64		keyspace_id;
	uint64		number;
	uint64		serial;			/* of the slot; 0: no state */
	uint32		file;			/* slot */
	uint32		shift;			/* segments per extent, log2 */
	uint32		lines;
	uint64		tried_clock;	/* when state was refused */
	uint64		tried_freed;
	uint64		operation;		/* the segment below is its key's */
	uint32		segment;
	uint8		asked;			/* units of it, when last asked */
	uint8		admitted;		/* ... that said maybe, up to the first that
								 * did not */
	uint32		nextents;
	uint32		extents[FLEXIBLE_ARRAY_MEMBER];
} LsmElasticView;

/* ---- elastic_view.c ---- */

/* False: out of memory. */
extern bool lsm_elastic_view_open(LsmOpenFile *open, const LsmElastic *shape,
								  uint64 keyspace_id, uint64 number);

/* Never fails. */
extern void lsm_elastic_view_close(LsmOpenFile *open);

/*
 * Learn where the file's segments are, and give them state if they have none.
 * False: there is no room.
 */
extern bool lsm_elastic_view_attach(LsmElasticView *view);

/* ---- elastic_probe.c ---- */

/* Give what this backend has noted to the queue, if the lock is to be had. */
extern void lsm_elastic_hand_over(bool wait);

/* Hand over what this backend has noted, at the end of a statement. */
extern void lsm_elastic_end_statement(void);

#endif							/* LSM_ELASTIC_PROBE_H */
