/*-------------------------------------------------------------------------
 *
 * elastic_queue.c
 *	  Which filter units are to be switched on: n + 1 LRU lists, where list i
 *	  has the segments with i units, after ElasticBF (Li et al., USENIX ATC
 *	  2019, section 3: "multi-queue", "cost-benefit analysis").
 *
 * The aim is to make
 *
 *		E[extra I/O] = sum over segments of f_i * r_i
 *
 * small, f_i being how often the segment is asked for a key that it does not
 * have (other accesses cost their I/O whatever the filter says) and r_i the
 * false positive rate of the units that are on.  With i units of rate q each,
 * r = q^i is expected; the next unit gains f r (1 - q), the last one, given
 * up, costs f q^(i-1) (1 - q).
 *
 * An access puts the segment at the head of its list and asks for one unit
 * more; once the budget is used up, one that was stopped does so only now and
 * then, as it is those that pass which make a unit worth more.  If the budget
 * has none left, one is taken from the tail of another list: from the top list
 * down, the first tail that has expired (no access in `lifetime` accesses) and
 * costs less than the unit gains, by more than the ratio.  If none has expired
 * the cheapest tail will do, but the gain has to be twice as large. Without
 * that second rule the units would stay where the first accesses after the
 * start had put them as long as everything is accessed now and then.
 *
 * What differs from the paper:
 *	- r_i is what accesses have shown, where there are enough of them.  Skewed
 *	  access asks for few keys again and again, and a key passes a filter each
 *	  time or never: units stop what they can at once, and what a hot segment
 *	  needs next is nothing (its hot keys were stopped) or much (one was not).
 *	  So accesses that passed all units, and those that only the last one
 *	  stopped, are counted.  Counts are noisy, so the expected rate is
 *	  corrected by (EVIDENCE + counted) / (EVIDENCE + expected), the mean of a
 *	  gamma distribution after Poisson counts: few accesses change little.
 *	  When a unit comes or goes, what was learned goes with it: so that the sum
 *	  changes by just what was said to be gained.
 *	- f_i decays: an access counts half after a half-life, which is the
 *	  lifetime or 32 accesses per segment, whichever is longer.  A shorter
 *	  memory than that cannot tell uniform access from a skewed one, and would
 *	  move units to and fro.  Instead of decaying all counts, the weight of an
 *	  access grows.
 *	- every segment is credited with one access for lack of evidence, and an
 *	  expired one with no more accesses than its silence allows.
 *	- a segment is put at the head of its list only if it has not been there
 *	  for a sixteenth of the lifetime: the order of the hottest does not
 *	  matter, and they would be moved all the time.
 *
 * The best victim is kept until a tail changes, or the next tail expires, so
 * that most accesses touch nothing but their segment.
 *
 * No locks: the caller serializes.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "tree/elastic/elastic_queue.h"

#define HALF_LIFE_ACCESSES	32.0	/* per segment */
#define UNEXPIRED_FACTOR	2.0
#define SILENCE_ACCESSES	3.0
#define EVIDENCE			1.0
#define CLAIM_EVERY			16	/* accesses that were stopped */
#define WEIGHT_MAX			0x1p40

#define SEGMENT(queue, id)	lsm_elastic_segment(queue, id)

/* ======================================================================
 * Rates
 * ====================================================================== */

static inline double
unit_rate(const LsmElasticQueue *queue, const LsmElasticSegment *segment)
{
	const LsmElasticRates *rates = (const LsmElasticRates *)
		(queue->rates + (uint64_t) segment->file * queue->rates_stride);

	return segment->number + 1 < rates->segments ? rates->unit_fpr : rates->last_unit_fpr;
}

static inline double
rate_of(double unit_fpr, int units)
{
	double		rate = 1;

	for (int i = 0; i < units; i++)
		rate *= unit_fpr;
	return rate;
}

/*
 * Accesses since the last one of the segment, modulo 2^32: then it looks young
 * for a moment.
 */
static inline uint32_t
silence_of(const LsmElasticQueue *queue, const LsmElasticSegment *segment)
{
	return (uint32_t) queue->clock - segment->last;
}

/*
 * f of the aim, in weights of now.  Of a segment that has expired: at most
 * what does not contradict its long silence, whatever it was in the past (with
 * a rate of 3 per that time it would have been silent once in 20 times).
 */
static inline double
frequency(const LsmElasticQueue *queue, const LsmElasticSegment *segment)
{
	uint32_t	silence = silence_of(queue, segment);
	double		hotness = segment->hotness;

	if (silence > queue->lifetime)
	{
		double		most = SILENCE_ACCESSES * queue->half_life / (double) silence * queue->weight;

		if (most < hotness)
			hotness = most;
	}
	return hotness + LSM_ELASTIC_PRIOR * queue->weight;
}

/* Accesses that were to be expected to pass `units` units; a weight. */
static inline double
expected_passed(const LsmElasticSegment *segment, double q, int units)
{
	return segment->hotness * rate_of(q, units);
}

/* ... to be stopped by the last of them.  REQUIRES: units > 0. */
static inline double
expected_stopped(const LsmElasticSegment *segment, double q, int units)
{
	return segment->hotness * rate_of(q, units - 1) * (1 - q);
}

/*
 * By how much the expected rate is wrong: counted against expected, both
 * weights.
 */
static inline double
correction(const LsmElasticQueue *queue, double counted, double expected)
{
	double		evidence = EVIDENCE * queue->weight;

	return (evidence + counted) / (evidence + expected);
}

/* The count from which correction() is `ratio`. */
static inline float
count_for(const LsmElasticQueue *queue, double ratio, double expected)
{
	double		evidence = EVIDENCE * queue->weight;

	return (float) (ratio * (evidence + expected) - evidence);
}

static double
passed_correction(const LsmElasticQueue *queue, const LsmElasticSegment *segment, double q)
{
	return correction(queue, segment->passed, expected_passed(segment, q, segment->target));
}

/* Share of accesses that pass the units of the target. */
static double
passed_rate(const LsmElasticQueue *queue, const LsmElasticSegment *segment)
{
	double		q = unit_rate(queue, segment);

	return rate_of(q, segment->target) * passed_correction(queue, segment, q);
}

/* Share of accesses that only the last unit stops.  REQUIRES: target > 0. */
static double
stopped_rate(const LsmElasticQueue *queue, const LsmElasticSegment *segment)
{
	double		q = unit_rate(queue, segment);

	return rate_of(q, segment->target - 1) * (1 - q) *
		correction(queue, segment->stopped, expected_stopped(segment, q, segment->target));
}

/* What one unit more would save. */
static double
next_unit_worth(const LsmElasticQueue *queue, const LsmElasticSegment *segment)
{
	return frequency(queue, segment) * passed_rate(queue, segment) *
		(1 - unit_rate(queue, segment));
}

/* What the last unit saves.  REQUIRES: target > 0. */
static double
last_unit_worth(const LsmElasticQueue *queue, const LsmElasticSegment *segment)
{
	return frequency(queue, segment) * stopped_rate(queue, segment);
}

/* Nothing is known of accesses but their number. */
static void
expect_counts(LsmElasticSegment *segment, double q)
{
	segment->passed = (float) expected_passed(segment, q, segment->target);
	segment->stopped = segment->target == 0 ? 0 :
		(float) expected_stopped(segment, q, segment->target);
}

/* The counts as they would be with one unit more. */
static void
learn_unit_more(const LsmElasticQueue *queue, LsmElasticSegment *segment)
{
	double		q = unit_rate(queue, segment);
	double		ratio = passed_correction(queue, segment, q);

	segment->target++;
	segment->passed = count_for(queue, ratio, expected_passed(segment, q, segment->target));
	segment->stopped = count_for(queue, ratio, expected_stopped(segment, q, segment->target));
}

/* ... with one less; of what the unit before it stops nothing is known. */
static void
learn_unit_less(const LsmElasticQueue *queue, LsmElasticSegment *segment)
{
	double		q = unit_rate(queue, segment);
	double		rate = passed_rate(queue, segment) + stopped_rate(queue, segment);

	segment->target--;
	expect_counts(segment, q);

	/* of many units over few keys the rate is too small for a number */
	if (rate_of(q, segment->target) > 0)
		segment->passed = count_for(queue, rate / rate_of(q, segment->target),
									expected_passed(segment, q, segment->target));
}

double
lsm_elastic_queue_rate(const LsmElasticQueue *queue, uint32_t id, int units)
{
	return rate_of(unit_rate(queue, SEGMENT(queue, id)), units);
}

double
lsm_elastic_queue_measured_rate(const LsmElasticQueue *queue, uint32_t id)
{
	return passed_rate(queue, SEGMENT(queue, id));
}

double
lsm_elastic_queue_hotness(const LsmElasticQueue *queue, uint32_t id)
{
	return SEGMENT(queue, id)->hotness / queue->weight;
}

bool
lsm_elastic_queue_expired(const LsmElasticQueue *queue, uint32_t id)
{
	return silence_of(queue, SEGMENT(queue, id)) > queue->lifetime;
}

double
lsm_elastic_queue_extra_io(const LsmElasticQueue *queue)
{
	double		sum = 0;

	for (int i = 0; i <= LSM_ELASTIC_MAX_UNITS; i++)
	{
		for (uint32_t id = queue->lists[i].head; id != LSM_ELASTIC_NONE;
			 id = SEGMENT(queue, id)->next)
			sum += frequency(queue, SEGMENT(queue, id)) *
				passed_rate(queue, SEGMENT(queue, id));
	}
	return sum / queue->weight;
}

/* ======================================================================
 * Lists
 * ====================================================================== */

void
lsm_elastic_queue_init(LsmElasticQueue *queue, void *base, const void *rates,
					   uint32_t rates_stride)
{
	memset(queue, 0, sizeof(*queue));
	queue->base = base;
	queue->rates = rates;
	queue->rates_stride = rates_stride;
	queue->weight = 1;
	queue->half_life = 1;
	for (int i = 0; i <= LSM_ELASTIC_MAX_UNITS; i++)
		queue->lists[i].head = queue->lists[i].tail = LSM_ELASTIC_NONE;
}

static void
list_push(LsmElasticQueue *queue, uint32_t id)
{
	LsmElasticSegment *segment = SEGMENT(queue, id);
	LsmElasticList *list = &queue->lists[segment->target];

	segment->prev = LSM_ELASTIC_NONE;
	segment->next = list->head;
	if (list->head != LSM_ELASTIC_NONE)
		SEGMENT(queue, list->head)->prev = id;
	else
	{
		list->tail = id;
		queue->victims_known = false;
	}
	list->head = id;
	list->n++;
	segment->moved = (uint32_t) queue->clock;
}

/*
 * At the other end: a segment that has lost a unit is the first to lose more.
 */
static void
list_append(LsmElasticQueue *queue, uint32_t id)
{
	LsmElasticSegment *segment = SEGMENT(queue, id);
	LsmElasticList *list = &queue->lists[segment->target];

	segment->next = LSM_ELASTIC_NONE;
	segment->prev = list->tail;
	if (list->tail != LSM_ELASTIC_NONE)
		SEGMENT(queue, list->tail)->next = id;
	else
		list->head = id;
	list->tail = id;
	list->n++;
	queue->victims_known = false;
}

static void
list_unlink(LsmElasticQueue *queue, uint32_t id)
{
	LsmElasticSegment *segment = SEGMENT(queue, id);
	LsmElasticList *list = &queue->lists[segment->target];

	if (segment->prev != LSM_ELASTIC_NONE)
		SEGMENT(queue, segment->prev)->next = segment->next;
	else
		list->head = segment->next;
	if (segment->next != LSM_ELASTIC_NONE)
		SEGMENT(queue, segment->next)->prev = segment->prev;
	else
	{
		list->tail = segment->prev;
		queue->victims_known = false;
	}
	list->n--;
}

static void
set_target(LsmElasticQueue *queue, uint32_t id, int target, bool at_head)
{
	LsmElasticSegment *segment = SEGMENT(queue, id);

	list_unlink(queue, id);
	queue->targets = queue->targets - segment->target + (uint32_t) target;
	while (segment->target < target)
		learn_unit_more(queue, segment);
	while (segment->target > target)
		learn_unit_less(queue, segment);
	if (at_head)
		list_push(queue, id);
	else
		list_append(queue, id);
}

/* As many units more as the budget has left, up to `wanted`. */
static int
affordable(const LsmElasticQueue *queue, int wanted)
{
	uint32_t	left = queue->targets < queue->budget ? queue->budget - queue->targets : 0;

	if (wanted <= 0)
		return 0;
	return (uint32_t) wanted <= left ? wanted : (int) left;
}

void
lsm_elastic_queue_add(LsmElasticQueue *queue, uint32_t id, double accesses, int units)
{
	LsmElasticSegment *segment = SEGMENT(queue, id);

	segment->hotness = (float) (accesses * queue->weight);
	segment->last = (uint32_t) queue->clock;
	segment->target = (uint8_t) affordable(queue, units < segment->limit ? units : segment->limit);
	queue->targets += segment->target;
	expect_counts(segment, unit_rate(queue, segment));
	queue->segments++;
	list_push(queue, id);
}

void
lsm_elastic_queue_remove(LsmElasticQueue *queue, uint32_t id)
{
	list_unlink(queue, id);
	queue->targets -= SEGMENT(queue, id)->target;
	queue->segments--;
}

void
lsm_elastic_queue_set(LsmElasticQueue *queue, uint32_t id, int units)
{
	LsmElasticSegment *segment = SEGMENT(queue, id);
	int			target = segment->target;

	if (units > segment->limit)
		units = segment->limit;
	if (units > target)
		units = target + affordable(queue, units - target);
	if (units != target)
		set_target(queue, id, units, true);
}

void
lsm_elastic_queue_limit(LsmElasticQueue *queue, uint32_t id, int limit)
{
	LsmElasticSegment *segment = SEGMENT(queue, id);

	segment->limit = (uint8_t) limit;
	if (segment->target > limit)
		set_target(queue, id, limit, true);
}

/* ======================================================================
 * Victims
 * ====================================================================== */

/*
 * Look at the tails, from the top list down.  `expired`: the cheapest one that
 * has expired; the paper takes the first that pays, which is the same as long
 * as the segments' rates are alike, and never better.
 */
static void
find_victims(LsmElasticQueue *queue)
{
	const LsmElasticVictim none = {LSM_ELASTIC_NONE, HUGE_VAL};

	queue->expired = queue->any = none;
	queue->victims_until = UINT64_MAX;
	for (int i = LSM_ELASTIC_MAX_UNITS; i > 0; i--)
	{
		uint32_t	id = queue->lists[i].tail;
		double		cost;

		if (id == LSM_ELASTIC_NONE)
			continue;
		cost = last_unit_worth(queue, SEGMENT(queue, id));
		if (cost < queue->any.cost)
			queue->any = (LsmElasticVictim) {id, cost};
		if (lsm_elastic_queue_expired(queue, id))
		{
			if (cost < queue->expired.cost)
				queue->expired = (LsmElasticVictim) {id, cost};
		}
		else
		{
			uint64_t	until = queue->clock + queue->lifetime -
				silence_of(queue, SEGMENT(queue, id));

			if (until < queue->victims_until)
				queue->victims_until = until;
		}
	}
	queue->victims_known = true;
}

/* The segment that gives up a unit for one that saves `gain`, or NONE. */
static uint32_t
pick_victim(LsmElasticQueue *queue, uint32_t id, double gain)
{
	if (!queue->victims_known || queue->clock > queue->victims_until)
		find_victims(queue);
	if (queue->expired.id != LSM_ELASTIC_NONE && queue->expired.id != id &&
		gain > queue->expired.cost * (1 + queue->ratio))
		return queue->expired.id;
	if (queue->any.id != LSM_ELASTIC_NONE && queue->any.id != id &&
		gain > queue->any.cost * (1 + queue->ratio) * UNEXPIRED_FACTOR)
		return queue->any.id;
	return LSM_ELASTIC_NONE;
}

uint32_t
lsm_elastic_queue_shrink(LsmElasticQueue *queue)
{
	uint32_t	id;

	if (queue->targets <= queue->budget)
		return LSM_ELASTIC_NONE;
	find_victims(queue);
	id = queue->expired.id != LSM_ELASTIC_NONE ? queue->expired.id : queue->any.id;
	if (id == LSM_ELASTIC_NONE)
		return LSM_ELASTIC_NONE;
	set_target(queue, id, SEGMENT(queue, id)->target - 1, false);
	queue->demotions++;
	return id;
}

/* ======================================================================
 * Accesses
 * ====================================================================== */

/* Divide all weights, long before they overflow. */
static void
rescale(LsmElasticQueue *queue)
{
	float		factor = (float) (1 / queue->weight);

	for (int i = 0; i <= LSM_ELASTIC_MAX_UNITS; i++)
	{
		for (uint32_t id = queue->lists[i].head; id != LSM_ELASTIC_NONE;
			 id = SEGMENT(queue, id)->next)
		{
			SEGMENT(queue, id)->hotness *= factor;
			SEGMENT(queue, id)->passed *= factor;
			SEGMENT(queue, id)->stopped *= factor;
		}
	}
	queue->weight = 1;
	queue->victims_known = false;
}

void
lsm_elastic_queue_advance(LsmElasticQueue *queue, uint32_t n)
{
	queue->half_life = HALF_LIFE_ACCESSES * queue->segments;
	if (queue->half_life < (double) queue->lifetime)
		queue->half_life = (double) queue->lifetime;
	queue->clock += n;
	queue->weight *= exp2(n / queue->half_life);
	if (queue->weight > WEIGHT_MAX)
		rescale(queue);

	/* costs are in weights of now: the credit of a single access has grown */
	queue->victims_known = false;
}

/*
 * A unit more for the segment, if it is to be had.  REQUIRES: target below
 * limit.
 */
static LsmElasticDecision
promote(LsmElasticQueue *queue, uint32_t id)
{
	LsmElasticSegment *segment = SEGMENT(queue, id);
	LsmElasticDecision decision = {LSM_ELASTIC_NONE, LSM_ELASTIC_NONE};

	if (queue->targets > queue->budget)
		return decision;
	if (queue->targets == queue->budget)
	{
		decision.demoted = pick_victim(queue, id, next_unit_worth(queue, segment));
		if (decision.demoted == LSM_ELASTIC_NONE)
			return decision;
		set_target(queue, decision.demoted,
				   SEGMENT(queue, decision.demoted)->target - 1, false);
		queue->demotions++;
	}
	set_target(queue, id, segment->target + 1, true);
	queue->promotions++;
	decision.promoted = id;
	return decision;
}

/* What became of an access, as if the units of the target had been asked. */
static void
count_outcome(LsmElasticQueue *queue, LsmElasticSegment *segment, int asked, int admitted)
{
	int			target = segment->target;
	float		weight = (float) queue->weight;

	if (admitted >= target)
		segment->passed += weight;
	else if (admitted < asked)
	{
		if (admitted == target - 1)
			segment->stopped += weight;
	}
	else
	{
		/* units that are not there yet */
		double		q = unit_rate(queue, segment);

		segment->passed += (float) (weight * rate_of(q, target - asked));
		segment->stopped += (float) (weight * rate_of(q, target - asked - 1) * (1 - q));
	}
}

LsmElasticDecision
lsm_elastic_queue_access(LsmElasticQueue *queue, uint32_t id, int asked, int admitted)
{
	const LsmElasticDecision nothing = {LSM_ELASTIC_NONE, LSM_ELASTIC_NONE};
	LsmElasticSegment *segment = SEGMENT(queue, id);
	LsmElasticList *list = &queue->lists[segment->target];

	segment->hotness += (float) queue->weight;
	count_outcome(queue, segment, asked, admitted);
	segment->last = (uint32_t) queue->clock;
	if (id == list->tail)
		queue->victims_known = false;
	if ((uint32_t) queue->clock - segment->moved > queue->lifetime / 16 && id != list->head)
	{
		list_unlink(queue, id);
		list_push(queue, id);
	}
	if (!queue->on_access || segment->target >= segment->limit)
		return nothing;
	if (queue->targets >= queue->budget && admitted < segment->target &&
		++queue->unclaimed % CLAIM_EVERY != 0)
		return nothing;
	return promote(queue, id);
}

LsmElasticDecision
lsm_elastic_queue_claim(LsmElasticQueue *queue, uint32_t id)
{
	const LsmElasticDecision nothing = {LSM_ELASTIC_NONE, LSM_ELASTIC_NONE};
	LsmElasticSegment *segment = SEGMENT(queue, id);

	if (segment->target >= segment->limit || queue->targets != queue->budget)
		return nothing;
	return promote(queue, id);
}

/* ======================================================================
 * All at once
 * ====================================================================== */

/*
 * Units whose worth is at least `price`: they come in falling order of worth.
 */
static int
units_at_price(const LsmElasticShare *share, double price)
{
	double		worth = share->hotness * (1 - share->unit_fpr);
	int			units = 0;

	while (units < share->limit && worth >= price)
	{
		worth *= share->unit_fpr;
		units++;
	}
	return units;
}

static uint64_t
demand_at_price(const LsmElasticShare *shares, uint32_t n, double price)
{
	uint64_t	units = 0;

	for (uint32_t i = 0; i < n; i++)
		units += (uint64_t) units_at_price(&shares[i], price);
	return units;
}

/*
 * As the worths of a segment's units fall by the constant q, taking units in
 * order of worth until the budget is used up is optimal; the worth of the last
 * one is a price, found by bisection.  Segments whose target costs no more
 * than (1 + ratio) times what it should stay as they are, if the budget
 * allows.
 */
void
lsm_elastic_share(LsmElasticShare *shares, uint32_t n, uint32_t budget, double ratio)
{
	double		low = 0;
	double		high = 0;
	uint64_t	used = 0;

	for (uint32_t i = 0; i < n; i++)
		if (shares[i].hotness > high)
			high = shares[i].hotness;
	if (demand_at_price(shares, n, 0) <= budget)
		high = 0;
	else
	{
		high = high * 2 + 1;	/* nobody pays this */
		for (int i = 0; i < 60; i++)
		{
			double		middle = (low + high) / 2;

			if (demand_at_price(shares, n, middle) <= budget)
				high = middle;
			else
				low = middle;
		}
	}
	for (uint32_t i = 0; i < n; i++)
	{
		int			most = units_at_price(&shares[i], high / (1 + ratio));
		int			least = units_at_price(&shares[i], high * (1 + ratio));

		if (shares[i].target > most)
			shares[i].target = (uint8_t) most;
		else if (shares[i].target < least)
			shares[i].target = (uint8_t) least;
		used += shares[i].target;
	}

	/* what tolerance has left over: strictly by price */
	for (uint32_t i = 0; i < n && used > budget; i++)
	{
		int			fair = units_at_price(&shares[i], high);

		if (shares[i].target > fair)
		{
			used -= (uint64_t) (shares[i].target - fair);
			shares[i].target = (uint8_t) fair;
		}
	}
	for (uint32_t i = 0; i < n && used < budget; i++)
	{
		int			most = units_at_price(&shares[i], high / (1 + ratio));

		if (shares[i].target < most)
		{
			shares[i].target++;
			used++;
		}
	}
}
