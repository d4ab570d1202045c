/*-------------------------------------------------------------------------
 *
 * elastic.h
 *	  Elastic filters in shared memory: which segments are known, which of
 *	  their units are on, and what sessions do with them.
 *
 *		elastic_queue.c		what should be on (policy, no PostgreSQL)
 *		elastic_pool.c		memory
 *		elastic.c			the table of files
 *		elastic_load.c		units come from filter files into memory
 *		elastic_view.c		what a backend knows of an open file
 *		elastic_probe.c		asking; noting accesses
 *		elastic_facts.c		what SQL functions show
 *		elastic_inherit.c	new files take over from those that they replace
 *
 * Locking.  One LWLock, lsm_elastic->lock, a leaf: nothing is locked and no
 * file is touched under it, and it is held for microseconds.  Asking takes no
 * lock. A reader inside an epoch compares the serial of its file's slot with
 * the one it knows; if they agree, the file's segments and the units that are
 * on stay where they are until it leaves the epoch.  Whoever takes something
 * away first changes the serial or lowers `on`, then retires the memory
 * (elastic_pool.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_ELASTIC_H
#define LSM_ELASTIC_H

#include "tree/disk/disk.h"
#include "tree/elastic/elastic_queue.h"

/* ---- elastic_pool.c ---- */

#define LSM_ELASTIC_LIMBO		32

typedef struct LsmElasticChain
{
	uint64		epoch;
	uint32		first;
	uint32		last;
	uint32		n;
} LsmElasticChain;

typedef struct LsmElasticPool
{
	uint32		n;
	uint32		taken;			/* handed out and not free again */
	uint32		used;			/* the first ones were handed out at least
								 * once */
	uint32		free_first;
	uint32	   *next;
	LsmElasticChain pending;
	int			first_limbo;
	int			nlimbo;
	LsmElasticChain limbo[LSM_ELASTIC_LIMBO];
} LsmElasticPool;

extern void lsm_elastic_pool_init(LsmElasticPool *pool, uint32 n, uint32 *next);
extern uint32 lsm_elastic_pool_take(LsmElasticPool *pool, uint32 limit);
extern void lsm_elastic_pool_give(LsmElasticPool *pool, uint32 piece);
extern void lsm_elastic_pool_retire(LsmElasticPool *pool, uint32 piece);
extern void lsm_elastic_pool_seal(LsmElasticPool *pool, uint64 epoch);
extern uint32 lsm_elastic_pool_reclaim(LsmElasticPool *pool);
extern bool lsm_elastic_pool_waiting(const LsmElasticPool *pool);

/* ---- elastic.c ---- */

/* Segments' states are handed out in extents of one file each. */
#define LSM_ELASTIC_EXTENT_LINES	16
#define LSM_ELASTIC_EXTENT_BYTES	(LSM_ELASTIC_EXTENT_LINES * LSM_ELASTIC_LINE)

/* A file with state. */
typedef struct LsmElasticFile
{
	LsmElasticRates rates;		/* first: elastic_queue.c */
	pg_atomic_uint64 serial;	/* never the same twice; 0: free */
	uint64		keyspace_id;
	uint64		number;
	uint64		last_access;	/* clock */
	uint32		check;			/* of the filter that units come from */
	uint16		units;			/* per segment */
	uint16		lines;			/* of one segment's state */
	uint32		first_extent;
	uint32		next;			/* in the bucket, or of the free ones */
} LsmElasticFile;

/* readers look at the serial, others write last_access */
StaticAssertDecl(sizeof(LsmElasticFile) == LSM_ELASTIC_LINE, "one cache line each");

/* LsmElasticSegment.flags */
#define LSM_ELASTIC_LOADING		0x01	/* in the hands of a loader */

typedef struct LsmElasticShared
{
	LWLock		lock;
	int			tranche;
	uint32		unit_bytes;		/* of a piece of `chunks` */
	uint32		nfiles;
	uint32		free_file;
	uint32		nbuckets;		/* a power of two */
	uint64		last_serial;
	LsmElasticQueue queue;
	LsmElasticPool chunks;
	LsmElasticPool extents;
	uint32		loaded;			/* units on */
	uint32		nload;			/* bits set in load_bits */
	uint32		load_cursor;
	uint64		loads;			/* units loaded so far */

	/* read without the lock */
	pg_atomic_uint64 freed;		/* counts extents and files that came free */
	pg_atomic_uint32 woken;		/* the worker was told to load */

	/* arrays, in the same piece of shared memory */
	uint32	   *buckets;
	LsmElasticFile *files;
	char	   *segments;		/* extents */
	char	   *units;			/* chunks */
	uint64	   *load_bits;		/* one per line of `segments`: unit wanted */
} LsmElasticShared;

extern LsmElasticShared *lsm_elastic;

static inline uint32
lsm_elastic_extent_id(uint32 extent, uint32 at, uint32 lines)
{
	return extent * LSM_ELASTIC_EXTENT_LINES + at * lines;
}

/* Of the state of one segment. */
static inline uint32
lsm_elastic_segment_lines(uint32 units)
{
	return (offsetof(LsmElasticSegment, chunks) + units * sizeof(uint32) +
			LSM_ELASTIC_LINE - 1) / LSM_ELASTIC_LINE;
}

/* Of the state of one file. */
static inline uint32
lsm_elastic_extents(const LsmElastic *shape)
{
	uint32		per_extent = LSM_ELASTIC_EXTENT_LINES / lsm_elastic_segment_lines(shape->units);

	return (shape->segments + per_extent - 1) / per_extent;
}

static inline char *
lsm_elastic_chunk(uint32 chunk)
{
	return lsm_elastic->units + (Size) chunk * lsm_elastic->unit_bytes;
}

/* A handle for going through a file's segments in order, under the lock. */
typedef struct LsmElasticWalk
{
	const LsmElasticFile *file;
	uint32		extent;
	uint32		at;
	uint32		per_extent;
} LsmElasticWalk;

/* All of these: lock held; exclusively if they change something. */
extern uint32 lsm_elastic_find_file(uint64 keyspace_id, uint64 number);

/* NONE: no room.  `hotness` and `units` of each segment; NULL: new ones. */
extern uint32 lsm_elastic_add_file(uint64 keyspace_id, uint64 number,
								   const LsmElastic *shape, const double *hotness,
								   const uint8 *units);
extern void lsm_elastic_drop_file(uint32 file);
extern void lsm_elastic_walk_begin(LsmElasticWalk *walk, uint32 file);

/* Id of the next segment. */
extern uint32 lsm_elastic_walk_next(LsmElasticWalk *walk);

/* The target of the segment was changed: take units back, or ask for them. */
extern void lsm_elastic_follow(uint32 id);

/* Take settings over. */
extern void lsm_elastic_configure(void);

/* After changes: memory that was retired on its way back. */
extern void lsm_elastic_sealed(void);

/* Take back what a lowered budget has no room for. */
extern void lsm_elastic_shrink_to_budget(void);

/* ---- elastic.c, for all ---- */

extern Size lsm_elastic_shmem_bytes(void);
extern void lsm_elastic_shmem_init(void);

/* The file (number 0: the keyspace) is gone: drop its state.  Never fails. */
extern void lsm_elastic_forget(uint64 keyspace_id, uint64 number);

/* ---- elastic_load.c ---- */

/* Load what is wanted; true if anything was. */
extern bool lsm_elastic_load(void);

/* The worker's part: settings, then units to load; true if there were any. */
extern bool lsm_elastic_round(void);

/* The lock is released: wake who is to load. */
extern void lsm_elastic_wake(void);

/*
 * What is wanted of one file, from the caller's mapping, as far as there is
 * memory.  Waits for nothing.
 */
extern void lsm_elastic_load_file(uint32 file, uint64 serial, const LsmElastic *shape);

#endif							/* LSM_ELASTIC_H */
