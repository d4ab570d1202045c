/*-------------------------------------------------------------------------
 *
 * elastic_queue.h
 *	  Which filter units are to be switched on: the multi-queue of ElasticBF.
 *
 * A policy over numbers, without memory of its own, locks, files or
 * PostgreSQL: src/test/unit/elastic_queue_test.c holds it against a model.
 * The caller serializes all calls and does what they decide (elastic.c,
 * elastic_load.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_ELASTIC_QUEUE_H
#define LSM_ELASTIC_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#define LSM_ELASTIC_MAX_UNITS	16
#define LSM_ELASTIC_NONE		UINT32_MAX
#define LSM_ELASTIC_LINE		64	/* segments begin at multiples of this, bytes */

/*
 * State of one segment; its id is its distance from the base in lines.  The
 * queue owns everything but `on` and `chunks`: what is in memory and asked by
 * readers without a lock follows `target` with a delay.
 */
typedef struct LsmElasticSegment
{
	uint32_t	prev;			/* in the queue of its target, towards the most
								 * recently used */
	uint32_t	next;
	uint32_t	file;			/* index of its LsmElasticRates */
	uint32_t	number;			/* in the file */
	float		hotness;		/* accesses, each with the weight of its time */
	float		passed;			/* ... of these that `target` units admit */
	float		stopped;		/* ... that the last of them stops */
	uint32_t	moved;			/* clock when put at the head, low half */
	uint32_t	last;			/* clock of the last access noted, low half */
	uint8_t		target;			/* units that shall be on: the queue it is in */
	uint8_t		limit;			/* units that can be on */
	uint8_t		flags;			/* the caller's */
	volatile uint8_t on;		/* the caller's: units that are on */
	uint32_t	chunks[];		/* the caller's: memory of each unit */
} LsmElasticSegment;

/* False positive rates of the units of a file's segments. */
typedef struct LsmElasticRates
{
	uint32_t	segments;
	float		unit_fpr;		/* of all segments but the last */
	float		last_unit_fpr;
} LsmElasticRates;

typedef struct LsmElasticList
{
	uint32_t	head;			/* most recently used */
	uint32_t	tail;
	uint32_t	n;
} LsmElasticList;

/* The segment that a unit would be taken from. */
typedef struct LsmElasticVictim
{
	uint32_t	id;
	double		cost;			/* what E[extra I/O] would grow by */
} LsmElasticVictim;

typedef struct LsmElasticQueue
{
	/* set by the caller, any time */
	uint64_t	lifetime;		/* accesses until an untouched segment is expired */
	double		ratio;			/* a unit moves only if it gains this much more */
	bool		on_access;		/* false: accesses are only counted */
	uint32_t	budget;			/* units on, all together */

	/* private */
	char	   *base;
	const char *rates;			/* of files: array of structs that begin with
								 * LsmElasticRates */
	uint32_t	rates_stride;
	uint32_t	segments;
	uint32_t	targets;		/* sum of the targets */
	uint32_t	unclaimed;		/* accesses that could have asked for a unit */
	uint64_t	clock;			/* accesses so far */
	double		weight;			/* of an access now; doubles in a half-life */
	double		half_life;		/* accesses */
	LsmElasticList lists[LSM_ELASTIC_MAX_UNITS + 1];

	bool		victims_known;
	uint64_t	victims_until;	/* ... up to this clock */
	LsmElasticVictim expired;
	LsmElasticVictim any;

	uint64_t	promotions;
	uint64_t	demotions;
} LsmElasticQueue;

/* What a call has decided, for the caller to do. */
typedef struct LsmElasticDecision
{
	uint32_t	promoted;		/* its target grew by one, or NONE */
	uint32_t	demoted;		/* its target fell by one, or NONE */
} LsmElasticDecision;

static inline LsmElasticSegment *
lsm_elastic_segment(const LsmElasticQueue *queue, uint32_t id)
{
	return (LsmElasticSegment *) (queue->base + (uint64_t) id * LSM_ELASTIC_LINE);
}

extern void lsm_elastic_queue_init(LsmElasticQueue *queue, void *base,
								   const void *rates, uint32_t rates_stride);

/*
 * A segment with file, number and limit set comes in, with this many accesses
 * in its past and at most `units` on (fewer if the budget does not allow it).
 */
extern void lsm_elastic_queue_add(LsmElasticQueue *queue, uint32_t id,
								  double accesses, int units);
/* It is gone; its memory may be used for something else. */
extern void lsm_elastic_queue_remove(LsmElasticQueue *queue, uint32_t id);

/* n accesses are about to be noted: time passes. */
extern void lsm_elastic_queue_advance(LsmElasticQueue *queue, uint32_t n);
/*
 * One of them, in which `asked` units were asked, and the first `admitted` of
 * them said maybe.  Decides about a unit more for the segment.
 */
extern LsmElasticDecision lsm_elastic_queue_access(LsmElasticQueue *queue, uint32_t id,
												   int asked, int admitted);

/*
 * Without an access: a unit more for the segment if the budget is used up and
 * another can give one.
 */
extern LsmElasticDecision lsm_elastic_queue_claim(LsmElasticQueue *queue, uint32_t id);

/*
 * Beyond the budget (it was lowered): the segment that has lost a unit, or
 * NONE.
 */
extern uint32_t lsm_elastic_queue_shrink(LsmElasticQueue *queue);

/*
 * As many units of the segment as `units` if the budget allows; no
 * cost-benefit.
 */
extern void lsm_elastic_queue_set(LsmElasticQueue *queue, uint32_t id, int units);
/* The unit beyond the target cannot be had (damaged): limit and target fall. */
extern void lsm_elastic_queue_limit(LsmElasticQueue *queue, uint32_t id, int limit);

/* Accesses of the segment, older ones counting less. */
extern double lsm_elastic_queue_hotness(const LsmElasticQueue *queue, uint32_t id);
extern bool lsm_elastic_queue_expired(const LsmElasticQueue *queue, uint32_t id);
/* False positive rate with this many units on, by the closed form. */
extern double lsm_elastic_queue_rate(const LsmElasticQueue *queue, uint32_t id, int units);
/* ... with the target on, as far as accesses have shown it. */
extern double lsm_elastic_queue_measured_rate(const LsmElasticQueue *queue, uint32_t id);
/* Sum of f_i * r_i over all segments, with the targets on, r_i as measured. */
extern double lsm_elastic_queue_extra_io(const LsmElasticQueue *queue);

/*
 * The policy that moves units at compactions only: find for all segments at
 * once the targets that make the sum least within the budget, but leave alone
 * what gains less than the ratio.
 */
typedef struct LsmElasticShare
{
	double		hotness;		/* prior included */
	float		unit_fpr;
	uint8_t		limit;
	uint8_t		target;			/* in: as it is; out: as it shall be */
} LsmElasticShare;

extern void lsm_elastic_share(LsmElasticShare *shares, uint32_t n, uint32_t budget,
							  double ratio);

/* Accesses that every segment is credited with, for lack of evidence. */
#define LSM_ELASTIC_PRIOR	1.0

#endif							/* LSM_ELASTIC_QUEUE_H */
