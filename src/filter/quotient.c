/*-------------------------------------------------------------------------
 *
 * quotient.c
 *	  The quotient filter: lookup, insert, delete.  See quotient.h for the
 *	  layout.
 *
 * The words that hold three bits of 64 slots let a probe find its way with a
 * few instructions: the start of the cluster is the last zero of is-shifted,
 * the rank of a quotient in it a population count of is-occupied, and its run
 * the slot of that rank among the zeroes of is-continuation.  The compiler's
 * baseline has no instruction for a population count, so lookups and inserts
 * are compiled twice, and a constructor chooses.
 *
 * No locks: see quotient.h.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "filter/quotient_private.h"

#define INLINE static inline __attribute__((always_inline))

/* ---- finding ---- */

INLINE uint64_t
find_cluster(const LsmQuotient *filter, uint64_t slot)
{
	uint64_t	nblocks = filter->nslots / 64;
	uint64_t	block = slot / 64;
	uint64_t	word = ~lsm_quotient_word(filter, block, LSM_SHIFTED) &
		lsm_ones_to((uint32_t) (slot % 64));

	for (uint64_t i = 0; i <= nblocks; i++)
	{
		if (word != 0)
			return block * 64 + lsm_log2(word);
		block = block > 0 ? block - 1 : nblocks - 1;
		word = ~lsm_quotient_word(filter, block, LSM_SHIFTED);
	}
	return LSM_QUOTIENT_NOWHERE;
}

INLINE uint64_t
count_occupied(const LsmQuotient *filter, uint64_t from, uint64_t to)
{
	uint64_t	nblocks = filter->nslots / 64;
	uint64_t	block = from / 64;
	uint64_t	last = to / 64;
	uint64_t	count = 0;
	uint64_t	word = lsm_quotient_word(filter, block, LSM_OCCUPIED) &
		(UINT64_MAX << (from % 64));

	/* a range that goes once around ends in the block it starts in */
	if (block == last && from > to)
	{
		count += (uint64_t) __builtin_popcountll(word);
		block = block + 1 < nblocks ? block + 1 : 0;
		word = lsm_quotient_word(filter, block, LSM_OCCUPIED);
	}
	while (block != last)
	{
		count += (uint64_t) __builtin_popcountll(word);
		block = block + 1 < nblocks ? block + 1 : 0;
		word = lsm_quotient_word(filter, block, LSM_OCCUPIED);
	}
	word &= lsm_ones_to((uint32_t) (to % 64));
	return count + (uint64_t) __builtin_popcountll(word);
}

/* Position of the n-th one, n >= 1.  REQUIRES: there are that many. */
INLINE uint32_t
select_one(uint64_t word, uint64_t n)
{
	uint32_t	at = 0;

	/* halve the word three times, then go from one to one */
	for (uint32_t width = 32; width >= 8; width /= 2)
	{
		uint64_t	low = (uint64_t) __builtin_popcountll((word >> at) & lsm_ones_to(width - 1));

		if (low < n)
		{
			n -= low;
			at += width;
		}
	}
	word >>= at;
	while (--n > 0)
		word &= word - 1;
	return at + (uint32_t) __builtin_ctzll(word);
}

INLINE uint64_t
find_run(const LsmQuotient *filter, uint64_t slot, uint64_t n)
{
	uint64_t	nblocks = filter->nslots / 64;
	uint64_t	block = slot / 64;
	uint64_t	word = ~lsm_quotient_word(filter, block, LSM_CONTINUATION) &
		(UINT64_MAX << (slot % 64));

	for (uint64_t i = 0; i <= nblocks; i++)
	{
		uint64_t	found = (uint64_t) __builtin_popcountll(word);

		if (found >= n)
			return block * 64 + select_one(word, n);
		n -= found;
		block = block + 1 < nblocks ? block + 1 : 0;
		word = ~lsm_quotient_word(filter, block, LSM_CONTINUATION);
	}
	return LSM_QUOTIENT_NOWHERE;
}

uint64_t
lsm_quotient_cluster(const LsmQuotient *filter, uint64_t slot)
{
	return find_cluster(filter, slot);
}

uint64_t
lsm_quotient_count_occupied(const LsmQuotient *filter, uint64_t from, uint64_t to)
{
	return count_occupied(filter, from, to);
}

uint64_t
lsm_quotient_run(const LsmQuotient *filter, uint64_t slot, uint64_t n)
{
	return find_run(filter, slot, n);
}

/* Where the run of an occupied quotient starts. */
INLINE uint64_t
run_of(const LsmQuotient *filter, uint64_t slot)
{
	uint64_t	cluster;

	if (!lsm_quotient_bit(filter, slot, LSM_SHIFTED))
		return slot;
	cluster = find_cluster(filter, slot);
	if (cluster == LSM_QUOTIENT_NOWHERE)
		return LSM_QUOTIENT_NOWHERE;
	return find_run(filter, cluster, count_occupied(filter, cluster, slot));
}

/*
 * Walk the run from `at` to the first remainder >= the one given, or the slot
 * behind the run.  *found: it is equal.
 */
INLINE uint64_t
search_run(const LsmQuotient *filter, uint64_t at, uint64_t remainder, bool *found)
{
	*found = false;
	for (uint64_t i = 0; i < filter->nslots; i++)
	{
		uint64_t	present = lsm_quotient_remainder(filter, at);

		if (present >= remainder)
		{
			*found = present == remainder;
			return at;
		}
		at = lsm_quotient_after(filter, at);
		if (!lsm_quotient_bit(filter, at, LSM_CONTINUATION))
			return at;
	}
	*found = true;				/* a run without end: damage */
	return at;
}

INLINE bool
contains(const LsmQuotient *filter, uint64_t slot, uint64_t remainder)
{
	uint64_t	run;
	bool		found;

	if (!lsm_quotient_bit(filter, slot, LSM_OCCUPIED))
		return false;
	run = run_of(filter, slot);
	if (run == LSM_QUOTIENT_NOWHERE)
		return true;
	(void) search_run(filter, run, remainder, &found);
	return found;
}

bool
lsm_quotient_contains_baseline(const LsmQuotient *filter, uint64_t slot, uint64_t remainder)
{
	return contains(filter, slot, remainder);
}

#ifdef LSM_FILTER_X86
__attribute__((target("popcnt")))
static bool
contains_popcnt(const LsmQuotient *filter, uint64_t slot, uint64_t remainder)
{
	return contains(filter, slot, remainder);
}
#endif

static bool (*contains_best) (const LsmQuotient *filter, uint64_t slot, uint64_t remainder) =
	lsm_quotient_contains_baseline;

bool
lsm_quotient_contains(const LsmQuotient *filter, uint64_t slot, uint64_t remainder)
{
	return contains_best(filter, slot, remainder);
}

bool
lsm_quotient_lookup(const LsmQuotient *filter, LsmDigest digest)
{
	uint64_t	remainder;
	uint64_t	quotient = lsm_fingerprint_split(filter,
												 lsm_fingerprint_of(digest, filter->fingerprint_bits),
												 &remainder);

	return contains_best(filter, quotient - filter->first, remainder);
}

/*
 * The block's words are side by side; the remainder of a slot near its own is
 * what will be looked at.
 */
void
lsm_quotient_prefetch(const LsmQuotient *filter, LsmDigest digest)
{
	uint64_t	remainder;
	uint64_t	slot = lsm_fingerprint_split(filter,
											 lsm_fingerprint_of(digest, filter->fingerprint_bits),
											 &remainder) - filter->first;
	const uint8_t *block = lsm_quotient_block(filter, slot / 64);

	__builtin_prefetch(block);
	__builtin_prefetch(block + (3 + slot % 64 * filter->remainder_bits / 64) * 8);
}

/* ---- inserting ---- */

/* The first slot from `slot` on that holds nothing. */
INLINE uint64_t
find_empty(const LsmQuotient *filter, uint64_t slot)
{
	uint64_t	nblocks = filter->nslots / 64;
	uint64_t	block = slot / 64;
	uint64_t	mask = UINT64_MAX << (slot % 64);

	for (uint64_t i = 0; i <= nblocks; i++)
	{
		uint64_t	word = ~(lsm_quotient_word(filter, block, LSM_OCCUPIED) |
							 lsm_quotient_word(filter, block, LSM_CONTINUATION) |
							 lsm_quotient_word(filter, block, LSM_SHIFTED)) & mask;

		if (word != 0)
			return block * 64 + (uint64_t) __builtin_ctzll(word);
		mask = UINT64_MAX;
		block = block + 1 < nblocks ? block + 1 : 0;
	}
	return LSM_QUOTIENT_NOWHERE;
}

/* Slots low+1..high of the block get the remainders of low..high-1. */
static void
shift_remainders(LsmQuotient *filter, uint64_t block, uint32_t low, uint32_t high)
{
	uint32_t	r = filter->remainder_bits;
	uint8_t    *words = lsm_quotient_block(filter, block) + 3 * 8;
	uint32_t	first_bit = (low + 1) * r;
	uint32_t	last_bit = (high + 1) * r - 1;

	for (uint32_t w = last_bit / 64 + 1; w-- > first_bit / 64;)
	{
		uint64_t	old = lsm_load_word(words + w * 8);
		uint64_t	new = old << r;
		uint64_t	mask = UINT64_MAX;

		if (w > 0)
			new |= lsm_load_word(words + (w - 1) * 8) >> (64 - r);
		if (w == first_bit / 64)
			mask &= UINT64_MAX << (first_bit % 64);
		if (w == last_bit / 64)
			mask &= lsm_ones_to(last_bit % 64);
		lsm_store_word(words + w * 8, (old & ~mask) | (new & mask));
	}
}

/*
 * What the slots from `from` on hold moves up by one, to and including the
 * empty slot `to`.  Slot `from` then has its bit is-shifted as before, to be
 * set.
 */
static void
shift_up(LsmQuotient *filter, uint64_t from, uint64_t to)
{
	uint64_t	at = from;
	uint64_t	remainder = 0;
	bool		continuation = false;
	bool		carry = false;

	/* block by block, carrying what leaves one at its end into the next */
	for (;;)
	{
		uint64_t	block = at / 64;
		uint32_t	low = (uint32_t) (at % 64);
		bool		last = block == to / 64 && at <= to;
		uint32_t	high = last ? (uint32_t) (to % 64) : 63;
		uint64_t	moved = lsm_ones_to(high) & ~lsm_ones_to(low);	/* low+1..high */
		uint64_t	word = lsm_quotient_word(filter, block, LSM_CONTINUATION);
		uint64_t	next_remainder = lsm_quotient_remainder(filter, block * 64 + 63);
		bool		next_continuation = (word >> 63) != 0;

		lsm_quotient_set_word(filter, block, LSM_CONTINUATION,
							  (word & ~moved) | ((word << 1) & moved));
		lsm_quotient_set_word(filter, block, LSM_SHIFTED,
							  lsm_quotient_word(filter, block, LSM_SHIFTED) | moved);
		if (high > low)
			shift_remainders(filter, block, low, high);
		if (carry)
		{
			lsm_quotient_set_remainder(filter, at, remainder);
			lsm_quotient_set_bit(filter, at, LSM_CONTINUATION, continuation);
			lsm_quotient_set_bit(filter, at, LSM_SHIFTED, true);
		}
		if (last)
			return;
		remainder = next_remainder;
		continuation = next_continuation;
		carry = true;
		at = block * 64 + 64 < filter->nslots ? block * 64 + 64 : 0;
	}
}

/*
 * Where the fingerprint has to go in a slot that is taken: *start tells
 * whether it will be the first of its run, which may be there already
 * (*run_exists).
 */
INLINE uint64_t
insert_position(const LsmQuotient *filter, uint64_t slot, uint64_t remainder,
				bool *start, bool *run_exists)
{
	uint64_t	cluster = find_cluster(filter, slot);
	uint64_t	run;
	uint64_t	position;
	uint64_t	rank;
	bool		found;

	if (cluster == LSM_QUOTIENT_NOWHERE)
		return LSM_QUOTIENT_NOWHERE;
	*run_exists = lsm_quotient_bit(filter, slot, LSM_OCCUPIED);
	rank = count_occupied(filter, cluster, slot) + (*run_exists ? 0 : 1);

	/* a new run goes where the next one starts, or the cluster ends */
	run = find_run(filter, cluster, rank);
	if (run == LSM_QUOTIENT_NOWHERE)
		return LSM_QUOTIENT_NOWHERE;
	*start = true;
	if (!*run_exists)
		return run;
	position = search_run(filter, run, remainder, &found);
	*start = position == run;
	return position;
}

INLINE bool
insert_slot(LsmQuotient *filter, uint64_t slot, uint64_t remainder)
{
	uint64_t	position = slot;
	bool		start = true;
	bool		run_exists = false;

	if (filter->count >= filter->nslots)
		return false;
	if (!lsm_quotient_slot_empty(filter, slot))
	{
		uint64_t	empty;

		position = insert_position(filter, slot, remainder, &start, &run_exists);
		if (position == LSM_QUOTIENT_NOWHERE)
			return false;
		empty = find_empty(filter, position);
		if (empty == LSM_QUOTIENT_NOWHERE)
			return false;
		if (empty != position)
			shift_up(filter, position, empty);
		/* the run's first one so far is that no more */
		if (start && run_exists)
			lsm_quotient_set_bit(filter, lsm_quotient_after(filter, position),
								 LSM_CONTINUATION, true);
	}
	lsm_quotient_set_remainder(filter, position, remainder);
	lsm_quotient_set_bit(filter, position, LSM_CONTINUATION, !start);
	lsm_quotient_set_bit(filter, position, LSM_SHIFTED, position != slot);
	lsm_quotient_set_bit(filter, slot, LSM_OCCUPIED, true);
	filter->count++;
	return true;
}

bool
lsm_quotient_insert_baseline(LsmQuotient *filter, uint64_t slot, uint64_t remainder)
{
	return insert_slot(filter, slot, remainder);
}

#ifdef LSM_FILTER_X86
__attribute__((target("popcnt")))
static bool
insert_popcnt(LsmQuotient *filter, uint64_t slot, uint64_t remainder)
{
	return insert_slot(filter, slot, remainder);
}
#endif

static bool (*insert_best) (LsmQuotient *filter, uint64_t slot, uint64_t remainder) =
	lsm_quotient_insert_baseline;

/*
 * What is called before this ran takes the baseline code, with the same answer.
 */
__attribute__((constructor))
static void
quotient_dispatch(void)
{
#ifdef LSM_FILTER_X86
	__builtin_cpu_init();
	if (__builtin_cpu_supports("popcnt"))
	{
		contains_best = contains_popcnt;
		insert_best = insert_popcnt;
	}
#endif
}

bool
lsm_quotient_insert_fingerprint(LsmQuotient *filter, uint64_t fingerprint)
{
	uint64_t	remainder;
	uint64_t	quotient = lsm_fingerprint_split(filter, fingerprint, &remainder);

	return insert_best(filter, quotient - filter->first, remainder);
}

bool
lsm_quotient_insert(LsmQuotient *filter, LsmDigest digest)
{
	return lsm_quotient_insert_fingerprint(filter,
										   lsm_fingerprint_of(digest, filter->fingerprint_bits));
}

/* ---- deleting ---- */

/* The quotient that follows `quotient` among the occupied ones. */
static uint64_t
next_occupied(const LsmQuotient *filter, uint64_t quotient)
{
	for (uint64_t i = 0; i < filter->nslots; i++)
	{
		quotient = lsm_quotient_after(filter, quotient);
		if (lsm_quotient_bit(filter, quotient, LSM_OCCUPIED))
			return quotient;
	}
	return quotient;
}

/*
 * Take out what is in slot `hole`, of the run of `quotient`: all that follows
 * in the cluster moves down, as far as it was shifted.  `start`: what comes
 * next is the run's first one from now on.
 */
static void
close_hole(LsmQuotient *filter, uint64_t hole, uint64_t quotient, bool start)
{
	for (uint64_t i = 0; i < filter->nslots; i++)
	{
		uint64_t	next = lsm_quotient_after(filter, hole);
		bool		continuation = lsm_quotient_bit(filter, next, LSM_CONTINUATION);

		if (!lsm_quotient_bit(filter, next, LSM_SHIFTED))
			break;
		if (!continuation)
			quotient = next_occupied(filter, quotient);
		else if (start)
			continuation = false;
		start = false;
		lsm_quotient_set_remainder(filter, hole, lsm_quotient_remainder(filter, next));
		lsm_quotient_set_bit(filter, hole, LSM_CONTINUATION, continuation);
		lsm_quotient_set_bit(filter, hole, LSM_SHIFTED, continuation || hole != quotient);
		hole = next;
	}
	lsm_quotient_set_remainder(filter, hole, 0);
	lsm_quotient_set_bit(filter, hole, LSM_CONTINUATION, false);
	lsm_quotient_set_bit(filter, hole, LSM_SHIFTED, false);
}

bool
lsm_quotient_delete(LsmQuotient *filter, LsmDigest digest)
{
	uint64_t	remainder;
	uint64_t	slot = lsm_fingerprint_split(filter,
											 lsm_fingerprint_of(digest, filter->fingerprint_bits),
											 &remainder) - filter->first;
	uint64_t	run;
	uint64_t	position;
	bool		run_goes_on;
	bool		found;

	if (!lsm_quotient_bit(filter, slot, LSM_OCCUPIED))
		return false;
	run = run_of(filter, slot);
	if (run == LSM_QUOTIENT_NOWHERE)
		return false;
	position = search_run(filter, run, remainder, &found);
	if (!found)
		return false;

	run_goes_on = lsm_quotient_bit(filter, lsm_quotient_after(filter, position),
								   LSM_CONTINUATION);
	if (position == run && !run_goes_on)
		lsm_quotient_set_bit(filter, slot, LSM_OCCUPIED, false);
	close_hole(filter, position, slot, position == run && run_goes_on);
	filter->count--;
	return true;
}

/* ---- geometry ---- */

#define QUOTIENT_BITS_MIN	6	/* a block */
#define QUOTIENT_BITS_MAX	40

uint64_t
lsm_quotient_size(uint32_t quotient_bits, uint32_t remainder_bits)
{
	if (quotient_bits < QUOTIENT_BITS_MIN || quotient_bits > QUOTIENT_BITS_MAX ||
		remainder_bits < 1 || remainder_bits > LSM_QUOTIENT_REMAINDER_MAX ||
		quotient_bits + remainder_bits > LSM_QUOTIENT_FINGERPRINT_MAX)
		return 0;
	return lsm_quotient_bytes(UINT64_C(1) << quotient_bits, remainder_bits);
}

bool
lsm_quotient_init(LsmQuotient *filter, uint32_t quotient_bits, uint32_t remainder_bits,
				  void *data)
{
	uint64_t	bytes = lsm_quotient_size(quotient_bits, remainder_bits);

	if (bytes == 0)
		return false;
	memset(filter, 0, sizeof(*filter));
	filter->data = data;
	filter->nslots = UINT64_C(1) << quotient_bits;
	filter->scale = filter->nslots;
	filter->fingerprint_bits = quotient_bits + remainder_bits;
	filter->remainder_bits = remainder_bits;
	memset(data, 0, bytes);
	return true;
}

double
lsm_quotient_expected_fpr(uint64_t count, uint32_t fingerprint_bits)
{
	return -expm1(-ldexp((double) count, -(int) fingerprint_bits));
}
