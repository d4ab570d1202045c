/*-------------------------------------------------------------------------
 *
 * elastic_queue_test.c
 *	  Unit test of src/tree/elastic/elastic_queue.c: the multi-queue of elastic
 *	  filters against a model that keeps plain arrays and looks at everything
 *	  each time, and what the policy achieves under uniform, skewed and
 *	  shifting access. Prints TAP; exit status 1 if a test failed.
 *
 * All data come from fixed seeds.
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tree/elastic/elastic_queue.c"
#include "tap.h"

#define ROUNDS	(SHORT_FORM ? 2 : 8)

#define MAX_SEGMENTS	3000
#define NFILES			7
#define LINES			2		/* of 64 bytes, per segment */

static uint64_t seed;

static uint64_t
next_random(void)
{
	uint64_t	z = seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static double
random_unit(void)
{
	return (double) (next_random() >> 11) * 0x1p-53;
}

/* ---- the queue under test ---- */

static LsmElasticQueue queue;
static LsmElasticRates rates[NFILES];
static char *memory;

static void
begin(uint32_t budget, uint64_t lifetime, double ratio)
{
	memory = realloc(memory, MAX_SEGMENTS * LINES * LSM_ELASTIC_LINE);
	memset(memory, 0, MAX_SEGMENTS * LINES * LSM_ELASTIC_LINE);
	lsm_elastic_queue_init(&queue, memory, rates, sizeof(LsmElasticRates));
	queue.budget = budget;
	queue.lifetime = lifetime;
	queue.ratio = ratio;
	queue.on_access = true;
}

static LsmElasticSegment *
segment_of(uint32_t n)
{
	return lsm_elastic_segment(&queue, n * LINES);
}

static void
add(uint32_t n, uint32_t file, uint32_t number, int limit, double accesses, int units)
{
	segment_of(n)->file = file;
	segment_of(n)->number = number;
	segment_of(n)->limit = (uint8_t) limit;
	lsm_elastic_queue_add(&queue, n * LINES, accesses, units);
}

/* ---- the model ---- */

typedef struct ModelSegment
{
	bool		alive;
	float		hotness;
	float		passed;
	float		stopped;
	uint64_t	last;
	uint64_t	moved;
	int			target;
	int			limit;
	double		fpr;
	uint64_t	order;			/* in its list: the larger, the nearer to the head */
} ModelSegment;

static struct
{
	ModelSegment segments[MAX_SEGMENTS];
	uint32_t	n;
	uint64_t	clock;
	double		weight;
	double		half_life;
	uint32_t	unclaimed;
	uint64_t	next_order;
	uint64_t	next_low_order; /* below all others */
} model;

static double
model_power(double q, int n)
{
	double		power = 1;

	for (int i = 0; i < n; i++)
		power *= q;
	return power;
}

static double
model_frequency(const ModelSegment *s)
{
	double		hotness = s->hotness;
	uint64_t	silence = model.clock - s->last;

	if (silence > queue.lifetime &&
		3.0 * model.half_life / (double) silence * model.weight < hotness)
		hotness = 3.0 * model.half_life / (double) silence * model.weight;
	return hotness + model.weight;
}

/*
 * Mean of gamma(1 + counted, 1 + expected): by how much a rate is higher than
 * expected.
 */
static double
model_ratio(double counted, double expected)
{
	return (model.weight + counted) / (model.weight + expected);
}

static double
model_passed_rate(const ModelSegment *s)
{
	double		prior = model_power(s->fpr, s->target);

	return prior * model_ratio(s->passed, s->hotness * prior);
}

static double
model_stopped_rate(const ModelSegment *s)
{
	double		prior = model_power(s->fpr, s->target - 1) * (1 - s->fpr);

	return prior * model_ratio(s->stopped, s->hotness * prior);
}

static double
model_extra_io(void)
{
	double		sum = 0;

	for (uint32_t i = 0; i < model.n; i++)
		if (model.segments[i].alive)
			sum += model_frequency(&model.segments[i]) * model_passed_rate(&model.segments[i]);
	return sum / model.weight;
}

static void
model_step(ModelSegment *s, int by)
{
	double		rate = model_passed_rate(s) * (by > 0 ? s->fpr : 1);
	double		stopped = by > 0 ? model_passed_rate(s) * (1 - s->fpr) : 0;
	double		prior;

	if (by < 0)
		rate += model_stopped_rate(s);
	s->target += by;
	prior = model_power(s->fpr, s->target);
	s->passed = (float) (rate / prior * (model.weight + s->hotness * prior) - model.weight);
	if (s->target == 0)
	{
		s->stopped = 0;
		return;
	}
	prior = model_power(s->fpr, s->target - 1) * (1 - s->fpr);
	if (by < 0)
		stopped = prior;
	s->stopped = (float) (stopped / prior * (model.weight + s->hotness * prior) - model.weight);
}

static void
model_count(ModelSegment *s, int asked, int admitted)
{
	float		w = (float) model.weight;

	if (admitted >= s->target)
		s->passed += w;
	else if (admitted < asked)
		s->stopped += admitted + 1 == s->target ? w : 0;
	else
	{
		s->passed += (float) (w * model_power(s->fpr, s->target - asked));
		s->stopped += (float) (w * model_power(s->fpr, s->target - asked - 1) * (1 - s->fpr));
	}
}

static uint32_t
model_targets(void)
{
	uint32_t	sum = 0;

	for (uint32_t i = 0; i < model.n; i++)
		if (model.segments[i].alive)
			sum += (uint32_t) model.segments[i].target;
	return sum;
}

/* Tail of list `units`, or -1. */
static int
model_tail(int units)
{
	int			tail = -1;

	for (uint32_t i = 0; i < model.n; i++)
		if (model.segments[i].alive && model.segments[i].target == units &&
			(tail < 0 || model.segments[i].order < model.segments[tail].order))
			tail = (int) i;
	return tail;
}

static bool
model_is_head(uint32_t n)
{
	for (uint32_t i = 0; i < model.n; i++)
		if (model.segments[i].alive && model.segments[i].target == model.segments[n].target &&
			model.segments[i].order > model.segments[n].order)
			return false;
	return true;
}

static int
model_victim(uint32_t n, double gain)
{
	double		cost[2] = {HUGE_VAL, HUGE_VAL};
	int			victim[2] = {-1, -1};

	for (int units = LSM_ELASTIC_MAX_UNITS; units > 0; units--)
	{
		int			tail = model_tail(units);
		double		worth;

		if (tail < 0)
			continue;
		worth = model_frequency(&model.segments[tail]) * model_stopped_rate(&model.segments[tail]);
		for (int unexpired = 0; unexpired < 2; unexpired++)
		{
			if (!unexpired && model.clock - model.segments[tail].last <= queue.lifetime)
				continue;
			if (worth < cost[unexpired])
			{
				cost[unexpired] = worth;
				victim[unexpired] = tail;
			}
		}
	}
	if (victim[0] >= 0 && victim[0] != (int) n && gain > cost[0] * (1 + queue.ratio))
		return victim[0];
	if (victim[1] >= 0 && victim[1] != (int) n && gain > cost[1] * (1 + queue.ratio) * 2)
		return victim[1];
	return -1;
}

/*
 * As lsm_elastic_queue_access(); numbers of segments, or -1.  Returns by how
 * much the move makes the expected extra I/O grow.
 */
static double
model_access(uint32_t n, int asked, int admitted, int *promoted, int *demoted)
{
	ModelSegment *s = &model.segments[n];
	double		before;

	*promoted = *demoted = -1;
	s->hotness += (float) model.weight;
	model_count(s, asked, admitted);
	s->last = model.clock;
	if (model.clock - s->moved > queue.lifetime / 16 && !model_is_head(n))
	{
		s->order = model.next_order++;
		s->moved = model.clock;
	}
	if (!queue.on_access || s->target >= s->limit)
		return 0;
	if (model_targets() >= queue.budget && admitted < s->target && ++model.unclaimed % 16 != 0)
		return 0;
	if (model_targets() > queue.budget)
		return 0;
	before = model_extra_io();
	if (model_targets() == queue.budget)
	{
		*demoted = model_victim(n, model_frequency(s) * model_passed_rate(s) * (1 - s->fpr));
		if (*demoted < 0)
			return 0;
		model_step(&model.segments[*demoted], -1);
		model.segments[*demoted].order = model.next_low_order--;
	}
	model_step(s, 1);
	s->order = model.next_order++;
	s->moved = model.clock;
	*promoted = (int) n;
	return model_extra_io() / before - 1;
}

static void
model_add(uint32_t n, uint32_t file, uint32_t number, int limit, double accesses, int units)
{
	ModelSegment *s = &model.segments[n];
	int			left = (int) queue.budget - (int) model_targets();

	s->alive = true;
	s->hotness = (float) (accesses * model.weight);
	s->last = model.clock;
	s->moved = model.clock;
	s->limit = limit;
	s->fpr = number + 1 < rates[file].segments ? rates[file].unit_fpr : rates[file].last_unit_fpr;
	s->target = units < limit ? units : limit;
	if (s->target > left)
		s->target = left > 0 ? left : 0;
	s->passed = (float) (s->hotness * model_power(s->fpr, s->target));
	s->stopped = s->target == 0 ? 0 :
		(float) (s->hotness * (model_power(s->fpr, s->target - 1) * (1 - s->fpr)));
	s->order = model.next_order++;
}

static uint32_t
model_alive(void)
{
	uint32_t	n = 0;

	for (uint32_t i = 0; i < model.n; i++)
		n += model.segments[i].alive;
	return n;
}

static void
model_advance(uint32_t n)
{
	model.half_life = 32.0 * model_alive();
	if (model.half_life < (double) queue.lifetime)
		model.half_life = (double) queue.lifetime;
	model.clock += n;
	model.weight *= exp2(n / model.half_life);
	if (model.weight > 0x1p40)
	{
		float		factor = (float) (1 / model.weight);

		for (uint32_t i = 0; i < model.n; i++)
		{
			model.segments[i].hotness *= factor;
			model.segments[i].passed *= factor;
			model.segments[i].stopped *= factor;
		}
		model.weight = 1;
	}
}

/* The same but for rounding; the sums are of thousands. */
static bool
close_to(double a, double b)
{
	return fabs(a - b) <= 1e-4 * (model.weight + fabs(a));
}

static bool
model_agrees(void)
{
	uint32_t	listed = 0;

	for (int units = 0; units <= LSM_ELASTIC_MAX_UNITS; units++)
	{
		uint64_t	order = UINT64_MAX;
		uint32_t	n = 0;

		for (uint32_t id = queue.lists[units].head; id != LSM_ELASTIC_NONE;
			 id = lsm_elastic_segment(&queue, id)->next)
		{
			ModelSegment *s = &model.segments[id / LINES];

			if (!s->alive || s->target != units || s->order >= order ||
				lsm_elastic_segment(&queue, id)->target != units ||
				lsm_elastic_segment(&queue, id)->hotness != s->hotness ||
				!close_to(lsm_elastic_segment(&queue, id)->passed, s->passed) ||
				!close_to(lsm_elastic_segment(&queue, id)->stopped, s->stopped))
				return false;
			order = s->order;
			n++;
		}
		if (n != queue.lists[units].n)
			return false;
		listed += n;
	}
	return listed == model_alive() && queue.targets == model_targets() &&
		queue.segments == listed;
}

static void
make_rates(void)
{
	for (int i = 0; i < NFILES; i++)
	{
		rates[i].segments = 20;
		rates[i].unit_fpr = (float) (0.1 + 0.5 * random_unit());
		rates[i].last_unit_fpr = (float) (0.05 + 0.5 * random_unit());
	}
}

/* Zipf over n by the inverse of the continuous distribution: 0 the hottest. */
static uint32_t
zipf(uint32_t n, double theta)
{
	double		u = random_unit();
	double		rank = theta == 1.0 ? pow(n + 1.0, u) :
		pow(u * (pow(n + 1.0, 1 - theta) - 1) + 1, 1 / (1 - theta));

	return rank >= n + 1.0 ? n - 1 : (uint32_t) rank - 1;
}

/*
 * Random accesses, arrivals, departures and changes of budget; after each step
 * the queue and the model have decided the same, and the budget holds.
 */
static void
test_model(uint64_t start)
{
	const uint32_t n = 120;
	uint32_t	over = 0;
	uint32_t	moves = 0;
	uint32_t	worse = 0;
	uint32_t	sum_differs = 0;
	bool		agree = true;

	seed = start;
	make_rates();
	memset(&model, 0, sizeof(model));
	model.n = n;
	model.weight = 1;
	model.next_order = UINT64_C(1) << 40;
	model.next_low_order = UINT64_C(1) << 40;
	model.next_low_order--;
	begin(200, 100 + start % 5 * 300, 0.1 * (double) (start % 4));

	for (int step = 0; step < 6000 && agree; step++)
	{
		uint32_t	x = (uint32_t) (next_random() % n);
		uint32_t	batch = 1 + (uint32_t) (next_random() % 20);

		if (next_random() % 30 == 0 && model.segments[x].alive)
		{
			lsm_elastic_queue_remove(&queue, x * LINES);
			model.segments[x].alive = false;
		}
		else if (next_random() % 4 == 0 && !model.segments[x].alive)
		{
			uint32_t	file = (uint32_t) (next_random() % NFILES);
			uint32_t	number = (uint32_t) (next_random() % 20);
			int			limit = 1 + (int) (next_random() % LSM_ELASTIC_MAX_UNITS);
			double		accesses = (double) (next_random() % 50);
			int			units = (int) (next_random() % 5);

			add(x, file, number, limit, accesses, units);
			model_add(x, file, number, limit, accesses, units);
		}
		else if (next_random() % 200 == 0)
		{
			queue.budget = 100 + (uint32_t) (next_random() % 200);
			for (;;)
			{
				uint32_t	id = lsm_elastic_queue_shrink(&queue);

				if (id == LSM_ELASTIC_NONE)
					break;
				model_step(&model.segments[id / LINES], -1);
				model.segments[id / LINES].order = model.next_low_order--;
			}
			over += queue.targets > queue.budget;
		}
		else if (next_random() % 100 == 0)
		{
			queue.on_access = !queue.on_access || next_random() % 4 != 0;
		}
		else if (model_alive() > 0)
		{
			lsm_elastic_queue_advance(&queue, batch);
			model_advance(batch);
			for (uint32_t i = 0; i < batch && agree; i++)
			{
				uint32_t	y = next_random() % 3 ? zipf(n, 1.1) : (uint32_t) (next_random() % n);
				int			asked = (int) (next_random() % 5);
				int			admitted = (int) (next_random() % (uint32_t) (asked + 1));
				double		growth;
				LsmElasticDecision decision;
				int			promoted;
				int			demoted;

				if (!model.segments[y].alive)
					continue;
				growth = model_access(y, asked, admitted, &promoted, &demoted);
				decision = lsm_elastic_queue_access(&queue, y * LINES, asked, admitted);
				agree &= decision.promoted == (promoted < 0 ? LSM_ELASTIC_NONE : (uint32_t) promoted * LINES);
				agree &= decision.demoted == (demoted < 0 ? LSM_ELASTIC_NONE : (uint32_t) demoted * LINES);
				moves += demoted >= 0;
				worse += growth > 1e-6;
				sum_differs += fabs(lsm_elastic_queue_extra_io(&queue) / model_extra_io() - 1) > 1e-4;
				over += queue.targets > queue.budget;
			}
		}
		agree &= model_agrees();
	}
	ok(agree, "queue and model agree, seed %" PRIu64 " (%u units moved, %" PRIu64 " promotions)",
	   start, moves, queue.promotions);
	ok(over == 0 && moves > 100, "the budget is never exceeded");
	ok(sum_differs == 0, "queue and model expect the same extra I/O");
	ok(worse == 0, "no move makes the expected extra I/O larger");
}

/* ---- what the policy achieves ---- */

/*
 * Extra I/O per access under the true frequencies, with the targets as they
 * are.
 */
static double
true_extra_io(const double *frequency, uint32_t n)
{
	double		sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += frequency[i] * lsm_elastic_queue_rate(&queue, i * LINES, segment_of(i)->target);
	return sum;
}

/* The least possible for the budget: units in order of what they save. */
static double
best_extra_io(const double *frequency, uint32_t n, uint32_t budget)
{
	LsmElasticShare *shares = calloc(n, sizeof(LsmElasticShare));
	double		sum = 0;

	for (uint32_t i = 0; i < n; i++)
		shares[i] = (LsmElasticShare) {frequency[i], rates[0].unit_fpr, segment_of(i)->limit, 0};
	lsm_elastic_share(shares, n, budget, 0);
	for (uint32_t i = 0; i < n; i++)
		sum += frequency[i] * rate_of(rates[0].unit_fpr, shares[i].target);
	free(shares);
	return sum;
}

static void
run_accesses(const uint32_t *place, uint32_t n, double theta, uint64_t accesses)
{
	for (uint64_t done = 0; done < accesses; done += 256)
	{
		lsm_elastic_queue_advance(&queue, 256);
		for (int i = 0; i < 256; i++)
		{
			uint32_t	id = place[zipf(n, theta)] * LINES;
			int			asked = lsm_elastic_segment(&queue, id)->target;
			int			admitted = 0;

			/* keys that are asked for once: as many pass as the rate says */
			while (admitted < asked && random_unit() < lsm_elastic_queue_rate(&queue, id, 1))
				admitted++;
			(void) lsm_elastic_queue_access(&queue, id, asked, admitted);
		}
	}
}

static void
zipf_frequencies(double *frequency, const uint32_t *place, uint32_t n, double theta)
{
	double		sum = 0;

	/* of the continuous distribution that zipf() draws from */
	for (uint32_t i = 0; i < n; i++)
	{
		double		low = i + 1.0;
		double		high = i + 2.0;
		double		f = theta == 1.0 ? log(high / low) :
			(pow(high, 1 - theta) - pow(low, 1 - theta)) / (1 - theta);

		frequency[place[i]] = f;
		sum += f;
	}
	for (uint32_t i = 0; i < n; i++)
		frequency[i] /= sum;
}

static void
test_policy(double theta, uint32_t units_each, float unit_fpr, int limit)
{
	const uint32_t n = 2000;
	uint32_t   *place = malloc(n * sizeof(uint32_t));
	double	   *frequency = malloc(n * sizeof(double));
	double		uniform;
	double		achieved;
	double		best;
	double		shifted;
	uint64_t	moves;

	seed = 42;
	for (uint32_t i = 0; i < n; i++)
		place[i] = i;
	for (uint32_t i = n - 1; i > 0; i--)
	{
		uint32_t	j = (uint32_t) (next_random() % (i + 1));
		uint32_t	t = place[i];

		place[i] = place[j];
		place[j] = t;
	}
	rates[0] = (LsmElasticRates) {n + 1, unit_fpr, unit_fpr};
	begin(n * units_each, 20000, 0.2);
	for (uint32_t i = 0; i < n; i++)
		add(i, 0, i, limit, 0, 2);
	zipf_frequencies(frequency, place, n, theta);
	uniform = rate_of(unit_fpr, (int) units_each);
	run_accesses(place, n, theta, 1000 * 1000);
	achieved = true_extra_io(frequency, n);
	best = best_extra_io(frequency, n, queue.budget);
	printf("# theta %.2f, %u units each of %.3f: uniform %.5f, achieved %.5f, best %.5f, "
		   "%" PRIu64 " promotions\n", theta, units_each, unit_fpr, uniform, achieved, best, queue.promotions);
	if (theta == 0)
	{
		ok(achieved <= 1.05 * uniform, "uniform access: within 5%% of equal shares");
		moves = queue.demotions;
		run_accesses(place, n, theta, 1000 * 1000);
		/* chance makes a few segments look hot */
		ok(queue.demotions - moves <= n / 5, "uniform access: units come to rest (%" PRIu64 " moved)",
		   queue.demotions - moves);
	}
	else
		ok(achieved <= 1.35 * best && achieved < uniform,
		   "theta %.2f: near the best distribution", theta);

	/* the hot ones become the cold ones */
	for (uint32_t i = 0; i < n / 2; i++)
	{
		uint32_t	t = place[i];

		place[i] = place[n - 1 - i];
		place[n - 1 - i] = t;
	}
	zipf_frequencies(frequency, place, n, theta);
	shifted = true_extra_io(frequency, n);
	run_accesses(place, n, theta, 1000 * 1000);
	achieved = true_extra_io(frequency, n);
	best = best_extra_io(frequency, n, queue.budget);
	printf("# theta %.2f after the shift: %.5f, at last %.5f, best %.5f\n",
		   theta, shifted, achieved, best);
	ok(achieved <= (theta == 0 ? 1.05 * uniform : 1.35 * best), "theta %.2f: follows a shifted hot set", theta);
	free(place);
	free(frequency);
}

/* The unit that stops the key, out of n; n: none. */
static int
stopping_unit(uint32_t key, float unit_fpr, int n)
{
	uint64_t	kept = seed;
	int			unit = 0;

	seed = key * UINT64_C(0xd1342543de82ef95);
	while (unit < n && random_unit() < unit_fpr)
		unit++;
	seed = kept;
	return unit;
}

/*
 * The same keys again and again, in segments of many keys: a key passes a unit
 * each time or never.  Counting outcomes has to beat every allocation that
 * knows but how often segments are asked.
 */
static void
test_outcomes(double theta, uint32_t units_each)
{
	const uint32_t n = 200;
	const uint32_t nkeys = 200 * 1000;
	const float unit_fpr = 0.4f;
	const int	limit = 12;
	double	   *frequency = calloc(n, sizeof(double));
	double		all = 0;
	double		achieved = 0;
	double		best;

	seed = 17;
	rates[0] = (LsmElasticRates) {n + 1, unit_fpr, unit_fpr};
	begin(n * units_each, 20000, 0.2);
	for (uint32_t i = 0; i < n; i++)
		add(i, 0, i, limit, 0, 2);
	for (uint64_t done = 0; done < 1000 * 1000; done += 256)
	{
		lsm_elastic_queue_advance(&queue, 256);
		for (int i = 0; i < 256; i++)
		{
			uint32_t	key = zipf(nkeys, theta);
			uint32_t	segment = (uint32_t) (key * UINT64_C(48271) % n);
			int			asked = segment_of(segment)->target;

			(void) lsm_elastic_queue_access(&queue, segment * LINES, asked, stopping_unit(key, unit_fpr, asked));
		}
	}
	for (uint32_t key = 0; key < nkeys; key++)
	{
		uint32_t	segment = (uint32_t) (key * UINT64_C(48271) % n);
		double		low = key + 1.0;
		double		f = (pow(low + 1, 1 - theta) - pow(low, 1 - theta)) / (1 - theta);

		frequency[segment] += f;
		all += f;
		if (stopping_unit(key, unit_fpr, limit) >= segment_of(segment)->target)
			achieved += f;
	}
	for (uint32_t i = 0; i < n; i++)
		frequency[i] /= all;
	best = best_extra_io(frequency, n, queue.budget);
	achieved /= all;
	printf("# outcomes, theta %.2f, %u units each: achieved %.5f, best without them %.5f\n",
		   theta, units_each, achieved, best);
	ok(achieved <= 0.9 * best, "outcomes: better than knowing frequencies");
	free(frequency);
}

/* lsm_elastic_share() against taking unit by unit whatever saves most. */
static void
test_share(void)
{
	bool		within = true;
	bool		best = true;
	bool		stays = true;

	seed = 7;
	for (int round = 0; round < 200; round++)
	{
		uint32_t	n = 1 + (uint32_t) (next_random() % 60);
		uint32_t	budget = (uint32_t) (next_random() % (4 * n));
		LsmElasticShare shares[60];
		int			greedy[60] = {0};
		double		sum = 0;
		double		greedy_sum = 0;
		uint32_t	used = 0;

		for (uint32_t i = 0; i < n; i++)
			shares[i] = (LsmElasticShare) {1 + 1000 * random_unit() * random_unit(),
				(float) (0.1 + 0.5 * random_unit()), (uint8_t) (1 + next_random() % 8), 0};
		for (uint32_t taken = 0; taken < budget; taken++)
		{
			int			next = -1;
			double		most = 0;

			for (uint32_t i = 0; i < n; i++)
			{
				double		worth = shares[i].hotness * rate_of(shares[i].unit_fpr, greedy[i]) *
					(1 - shares[i].unit_fpr);

				if (greedy[i] < shares[i].limit && worth > most)
				{
					most = worth;
					next = (int) i;
				}
			}
			if (next >= 0)
				greedy[next]++;
		}
		lsm_elastic_share(shares, n, budget, 0);
		for (uint32_t i = 0; i < n; i++)
		{
			used += shares[i].target;
			within &= shares[i].target <= shares[i].limit;
			sum += shares[i].hotness * rate_of(shares[i].unit_fpr, shares[i].target);
			greedy_sum += shares[i].hotness * rate_of(shares[i].unit_fpr, greedy[i]);
		}
		within &= used <= budget;
		best &= sum <= greedy_sum * 1.01;

		/* once shared out, small changes of hotness move nothing */
		for (uint32_t i = 0; i < n; i++)
			greedy[i] = shares[i].target;
		for (uint32_t i = 0; i < n; i++)
			shares[i].hotness *= 0.97 + 0.06 * random_unit();
		lsm_elastic_share(shares, n, budget, 0.5);
		for (uint32_t i = 0; i < n; i++)
			stays &= shares[i].target == greedy[i];
	}
	ok(within, "shares keep to budget and limits");
	ok(best, "shares are as good as taking the best unit each time");
	ok(stays, "what gains less than the ratio stays");
}

int
main(void)
{
	for (uint64_t i = 1; i <= ROUNDS; i++)
		test_model(i);
	test_share();
	test_policy(0, 3, 0.148f, 6);
	test_policy(0, 6, 0.45f, 16);
	test_policy(0.99, 3, 0.148f, 8);
	test_policy(0.99, 2, 0.148f, 8);
	test_policy(1.1, 3, 0.148f, 8);
	test_policy(1.2, 6, 0.45f, 16);
	test_outcomes(0.99, 3);
	test_outcomes(0.99, 5);
	test_outcomes(1.2, 3);
	free(memory);
	printf("1..%d\n", ntests);
	return nfailed > 0;
}
