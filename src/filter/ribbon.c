/*-------------------------------------------------------------------------
 *
 * ribbon.c
 *	  Scheme ribbon: the homogeneous ribbon filter of Dillinger, Huebschle-
 *	  Schneider, Sanders and Walzer, "Fast Succinct Retrieval and Approximate
 *	  Membership using Ribbon" (SEA 2022), sections 2, 3 and 6.
 *
 * The filter is a table of slots with r bits each, the columns.  A digest
 * stands for a row: a slot where it starts, and 128 coefficients for that slot
 * and those behind it, the first of which is 1.  The filter says maybe if in
 * each column the bits of the slots with coefficient 1 add up to an even
 * number.  So the table is a solution of one linear equation per key over the
 * field of two elements, with right side 0: that is what "homogeneous" means.
 *
 * Why that one.  Such equations always have a solution.  So building cannot
 * fail, with any number of keys, with digests that are equal (a row that the
 * others add up to says nothing new) and with those that somebody has chosen.
 * There is no seed, and nothing to try again: rows are made from the shared
 * digest as it is.  The price is that the absent keys whose row is a sum of
 * rows of keys are false positives in all columns.  They are as rare as slots
 * to spare make them, see ribbon_dependent().
 *
 * Building.  Digests are sorted, hence rows by their start.  Each row is added
 * to by those that have the same first slot until there is none that has, as
 * Gauss does it.  Then slots are filled from the last one backwards: one in
 * which a row begins with what makes its sum even, others at random.  (All
 * zeroes would be a solution, too, of a filter that always says maybe.)
 *
 * Parts.  Slots are divided into parts of equal size, at most PART_BLOCKS
 * blocks of 128, and rows do not reach across their ends.  So building takes
 * memory for the rows of one part, which stays in the cache, whatever the
 * number of keys is.  The 127 slots at the end of a part where no row starts
 * cost 0.2%.
 *
 * Layout.  A block of 128 slots is its columns one by one, 16 bytes each; bit
 * i of a column, in the order of little-endian words, is slot i.  A row lies in
 * one block or two neighbours.  Most absent keys are known after a few columns,
 * which are next to each other.  Fractions of a column: blocks from wide_block
 * on have one column more than those before, and a row has as many as the block
 * where it starts.
 *
 * What bits_per_key b buys.  With e slots more than keys, a share, r = b / (1 + e)
 * columns remain: more slots make one of the two rates of ribbon_expected_fpr()
 * smaller and the other one larger.  With x = 256 e, their sum is least where
 *
 *		x = r ln 2 + ln(256 x / (r ln 2))
 *
 * Rows that are sums come in clusters, though: a part has none, or some thousand
 * slots of them.  So that they are rare in each file and not only on the mean,
 * there are to be three times fewer than that: e is 0.048 for r = 7.
 *
 * Immutable once built; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "filter/filter_private.h"

#define WIDTH			128		/* coefficients of a row, slots of a block */
#define COLUMN_BYTES	16
#define COLUMNS_MAX		64
#define PART_BLOCKS		512

/* Up to this many keys, blocks that are not full do not count. */
#define FEW_KEYS		512

/* This many fit in one block, where all rows start in the same slot. */
#define ONE_BLOCK_KEYS	96

/* So much rarer than best for the mean are dependent rows. */
#define RARER			3

#define LN2				0.69314718055994530942

/* Coefficients, or the bits of a column: bit i of the word i / 64 is slot i. */
typedef struct Row
{
	uint64_t	low;
	uint64_t	high;
} Row;

/* ---- rows ---- */

/* Stafford's variant 13 of the finalizer of MurmurHash3. */
static inline uint64_t
remix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static inline Row
ribbon_row(LsmDigest digest)
{
	Row			row;

	row.low = remix(digest) | 1;
	row.high = remix(digest + UINT64_C(0x9e3779b97f4a7c15));
	return row;
}

/*
 * The slot where the digest's row starts: the part is the product's upper half,
 * and its lower half, which is left, is the place in the part.
 */
static inline uint64_t
ribbon_start(const LsmFilter *filter, LsmDigest digest, uint64_t *part)
{
	*part = lsm_fast_range(digest, filter->parts);
	return lsm_fast_range(digest * filter->parts, filter->starts);
}

static inline uint32_t
ribbon_columns(const LsmFilter *filter, uint64_t block)
{
	return (filter->probes & 0xff) + (block >= filter->wide_block);
}

static inline uint64_t
ribbon_part_blocks(const LsmFilter *filter)
{
	return (filter->starts + (WIDTH - 1)) / WIDTH;
}

/* The block's place in the payload, in columns. */
static inline uint64_t
ribbon_offset(const LsmFilter *filter, uint64_t block)
{
	return block * (filter->probes & 0xff) +
		(block > filter->wide_block ? block - filter->wide_block : 0);
}

/* ---- asking ---- */

/* A row in the blocks where it lies. */
typedef struct Question
{
	const uint8_t *first;
	const uint8_t *second;
	Row			in_first;
	Row			in_second;
	uint32_t	columns;
} Question;

/*
 * The last start of a part is the first slot of its last block: a row that
 * reaches into a second block has one.
 */
static inline void
ribbon_ask(const LsmFilter *filter, LsmDigest digest, Question *question)
{
	uint64_t	part;
	uint64_t	start = ribbon_start(filter, digest, &part);
	uint64_t	block = part * ribbon_part_blocks(filter) + start / WIDTH;
	uint32_t	shift = start % WIDTH;
	Row			row = ribbon_row(digest);

	question->columns = ribbon_columns(filter, block);
	question->first = filter->bits + ribbon_offset(filter, block) * COLUMN_BYTES;
	question->second = question->first +
		(shift > 0 ? question->columns * COLUMN_BYTES : 0);
	if (shift >= 64)
	{
		/* shift - 64 may be 0 */
		shift -= 64;
		question->in_first.low = 0;
		question->in_first.high = row.low << shift;
		question->in_second.low = row.low >> 1 >> (63 - shift) | row.high << shift;
		question->in_second.high = row.high >> 1 >> (63 - shift);
	}
	else
	{
		question->in_first.low = row.low << shift;
		question->in_first.high = row.high << shift | row.low >> 1 >> (63 - shift);
		question->in_second.low = row.high >> 1 >> (63 - shift);
		question->in_second.high = 0;
	}
}

/* Of column `column`: 1 for an odd number. */
static inline uint32_t
ribbon_sum(const Question *question, uint32_t column)
{
	const uint8_t *first = question->first + column * COLUMN_BYTES;
	const uint8_t *second = question->second + column * COLUMN_BYTES;
	uint64_t	bits = (lsm_load_word(first) & question->in_first.low) ^
		(lsm_load_word(first + 8) & question->in_first.high) ^
		(lsm_load_word(second) & question->in_second.low) ^
		(lsm_load_word(second + 8) & question->in_second.high);

	return (uint32_t) __builtin_parityll(bits);
}

/*
 * Four columns before the first branch, which then goes one way for all but a
 * sixteenth of the absent keys.
 */
static bool
ribbon_probe(const LsmFilter *filter, LsmDigest digest)
{
	Question	question;
	uint32_t	column = 0;

	if (__builtin_expect(filter->nkeys == 0, 0))
		return false;
	ribbon_ask(filter, digest, &question);
	for (; column + 4 <= question.columns; column += 4)
	{
		if (ribbon_sum(&question, column) | ribbon_sum(&question, column + 1) |
			ribbon_sum(&question, column + 2) | ribbon_sum(&question, column + 3))
			return false;
	}
	for (; column < question.columns; column++)
	{
		if (ribbon_sum(&question, column))
			return false;
	}
	return true;
}

static uint32_t
ribbon_probe_group(const LsmFilter *filter, const LsmDigest *digests, uint32_t n)
{
	uint32_t	answer = 0;

	for (uint32_t i = 0; i < n; i++)
		answer |= (uint32_t) ribbon_probe(filter, digests[i]) << i;
	return answer;
}

/* The first four columns of both blocks. */
static void
ribbon_prefetch(const LsmFilter *filter, LsmDigest digest)
{
	uint64_t	part;
	uint64_t	start = ribbon_start(filter, digest, &part);
	uint64_t	block = part * ribbon_part_blocks(filter) + start / WIDTH;
	const uint8_t *first = filter->bits + ribbon_offset(filter, block) * COLUMN_BYTES;
	const uint8_t *second = first + ribbon_columns(filter, block) * COLUMN_BYTES;

	__builtin_prefetch(first);
	__builtin_prefetch(first + 3 * COLUMN_BYTES);
	__builtin_prefetch(second);
	__builtin_prefetch(second + 3 * COLUMN_BYTES);
}

/* ---- building ---- */

static inline uint32_t
trailing_zeroes(const Row *row)
{
	return (uint32_t) (row->low != 0 ? __builtin_ctzll(row->low) :
					   64 + __builtin_ctzll(row->high));
}

/* REQUIRES: n < 128 */
static inline void
shift_down(Row *row, uint32_t n)
{
	if (n >= 64)
	{
		row->low = row->high >> (n - 64);
		row->high = 0;
	}
	else if (n > 0)
	{
		row->low = row->low >> n | row->high << (64 - n);
		row->high >>= n;
	}
}

/*
 * Adds a row to those of a part, at most one of which begins in each slot.  A
 * row moves on until it finds a slot of its own, or adds up to nothing.
 */
static inline void
ribbon_add_row(Row *rows, uint64_t start, Row row)
{
	for (;;)
	{
		Row		   *at = &rows[start];
		uint32_t	zeroes;

		if (at->low == 0)
		{
			*at = row;
			return;
		}
		row.low ^= at->low;
		row.high ^= at->high;
		if (row.low == 0 && row.high == 0)
			return;
		zeroes = trailing_zeroes(&row);
		start += zeroes;
		shift_down(&row, zeroes);
	}
}

/*
 * Slot before those in `window`, whose bit 0 is the slot behind it: the bit that
 * makes the row's sum even, or one of `chance` if there is no row.
 */
static inline void
ribbon_solve_slot(const Row *row, uint64_t chance, Row *windows, uint32_t columns)
{
	uint64_t	low = row->low >> 1 | row->high << 63;
	uint64_t	high = row->high >> 1;
	bool		free_slot = row->low == 0;

	for (uint32_t i = 0; i < columns; i++)
	{
		Row		   *window = &windows[i];
		uint64_t	bit = free_slot ? chance >> i & 1 :
			(uint64_t) __builtin_parityll((window->low & low) ^ (window->high & high));

		window->high = window->high << 1 | window->low >> 63;
		window->low = window->low << 1 | bit;
	}
}

/* Fills the blocks of a part, from the last one backwards. */
static void
ribbon_solve_part(const LsmFilter *filter, uint64_t part, const Row *rows, uint8_t *bits)
{
	uint64_t	blocks = ribbon_part_blocks(filter);
	Row			windows[COLUMNS_MAX] = {{0}};

	for (uint64_t i = blocks; i > 0; i--)
	{
		uint64_t	block = part * blocks + i - 1;
		uint32_t	columns = ribbon_columns(filter, block);
		uint8_t    *to = bits + ribbon_offset(filter, block) * COLUMN_BYTES;

		for (uint32_t slot = WIDTH; slot > 0; slot--)
			ribbon_solve_slot(&rows[(i - 1) * WIDTH + slot - 1],
							  remix(block * WIDTH + slot), windows, columns);
		for (uint32_t j = 0; j < columns; j++)
		{
			lsm_store_word(to + j * COLUMN_BYTES, windows[j].low);
			lsm_store_word(to + j * COLUMN_BYTES + 8, windows[j].high);
		}
	}
}

static size_t
ribbon_work_bytes(const LsmFilter *filter)
{
	return (size_t) ribbon_part_blocks(filter) * WIDTH * sizeof(Row);
}

static void
ribbon_fill(const LsmFilter *filter, LsmDigest *digests, uint64_t n, uint8_t *bits)
{
	Row		   *rows = filter->work;
	uint64_t	next = 0;

	if (n == 0)
		return;
	lsm_digest_sort(digests, n);
	for (uint64_t part = 0; part < filter->parts; part++)
	{
		memset(rows, 0, ribbon_work_bytes(filter));
		for (; next < n; next++)
		{
			uint64_t	own;
			uint64_t	start = ribbon_start(filter, digests[next], &own);

			if (own != part)
				break;
			ribbon_add_row(rows, start, ribbon_row(digests[next]));
		}
		ribbon_solve_part(filter, part, rows, bits);
	}
}

/* ---- geometry ---- */

/* What follows from nbits (slots) and probes. */
static void
ribbon_derive(LsmFilter *filter)
{
	filter->nblocks = filter->nbits / WIDTH;
	filter->parts = (uint32_t) ((filter->nblocks + PART_BLOCKS - 1) / PART_BLOCKS);
	filter->starts = (uint32_t) (filter->nblocks / filter->parts * WIDTH - (WIDTH - 1));
	filter->wide_block = filter->nblocks - (filter->nblocks * (filter->probes >> 8) >> 8);
}

static uint64_t
ribbon_payload_bytes(const LsmFilter *filter)
{
	uint64_t	columns = ribbon_offset(filter, filter->nblocks);
	uint64_t	lines = (columns * COLUMN_BYTES + LSM_FILTER_LINE_BYTES - 1) / LSM_FILTER_LINE_BYTES;

	return (lines > 0 ? lines : 1) * LSM_FILTER_LINE_BYTES;
}

/* Slots to spare, as a share of the keys; see the head of the file. */
static double
ribbon_spare(double bits_per_key)
{
	double		x = 0.05 * 2 * WIDTH;

	for (int i = 0; i < 8; i++)
	{
		double		exponent = bits_per_key / (1 + x / (2 * WIDTH)) * LN2;

		x = exponent + log(RARER * 2 * WIDTH * x / exponent);
	}
	return x / (2 * WIDTH);
}

static void
ribbon_plan(LsmFilter *filter)
{
	double		spare = ribbon_spare(filter->bits_per_key);
	double		starts = (double) filter->nkeys * (1 + spare);
	double		part_starts = PART_BLOCKS * WIDTH - (WIDTH - 1);
	double		parts = ceil(starts / part_starts);
	double		blocks;
	double		columns = filter->bits_per_key / (1 + spare);

	if (parts < 1)
		parts = 1;
	blocks = ceil((starts / parts + (WIDTH - 1)) / WIDTH);
	if (blocks > PART_BLOCKS)
		blocks = PART_BLOCKS;
	if (filter->nkeys <= ONE_BLOCK_KEYS)
		blocks = 1;
	if (filter->nkeys > FEW_KEYS)
		columns = (double) filter->nkeys * filter->bits_per_key / (parts * blocks * WIDTH);
	if (filter->nkeys == 0)
		columns = 0;
	filter->nbits = (uint64_t) (parts * blocks) * WIDTH;
	filter->probes = (uint32_t) columns | (uint32_t) ((columns - floor(columns)) * 256) << 8;
	ribbon_derive(filter);
	filter->payload_bytes = ribbon_payload_bytes(filter);
}

static const char *
ribbon_check(LsmFilter *filter)
{
	uint32_t	columns = filter->probes & 0xff;

	if (columns > COLUMNS_MAX - 1 && filter->probes != COLUMNS_MAX)
		return "number of columns of a ribbon filter is out of range";
	if (filter->nbits == 0 || filter->nbits > LSM_FILTER_NBITS_MAX ||
		filter->nbits % WIDTH != 0)
		return "number of slots of a ribbon filter is out of range";
	ribbon_derive(filter);
	if (filter->nblocks % filter->parts != 0)
		return "parts of a ribbon filter are of different size";
	if (filter->payload_bytes != ribbon_payload_bytes(filter))
		return "payload of a ribbon filter does not match its number of slots";
	return NULL;
}

/* ---- false positives ---- */

/*
 * The share of absent keys whose row is a sum of keys' rows, if there are `load`
 * keys for each slot where rows may start.
 *
 * Go through the slots in order, with the keys whose rows start there.  A row
 * that finds its slot taken moves on: a slot serves one key, and those that are
 * left wait, as in a queue with random arrivals and a service of fixed length.
 * The chance that more than x wait falls as e^(-tx) for large x, where t > 0
 * solves
 *
 *		load (e^t - 1) = t,		t = 2 e - (4/3) e^2 + .. for load = 1 / (1 + e)
 *
 * Rows have w coefficients.  If w wait, then there are as many rows as slots
 * since the queue was empty, and all other rows that lie there are sums of them.
 * With this drift it took the queue w / e slots to grow so long, where it stays
 * so long for some 1 / (t e), which is tw times less.  So the share is that of
 * the time when w wait, e^(-tw), times tw.
 */
static double
ribbon_dependent(double load)
{
	double		t = 2 * (1 / load - 1);

	if (load >= 1)
		return 1;
	if (load < 0.1)
		return 0;
	for (int i = 0; i < 50; i++)
		t -= (load * (exp(t) - 1) - t) / (load * exp(t) - 1);
	return t * WIDTH > 1 ? t * WIDTH * exp(-t * WIDTH) : 1;
}

/*
 * An absent key whose row is not a sum of the keys' finds any bit in each
 * column: with r of them it is a false positive with probability 2^-r.  A share
 * s of rows start in blocks with one more, and a share d of rows are sums:
 *
 *		FPR = p + (1 - p) d,	p = (1 - s) 2^-r + s 2^-(r + 1)
 */
static double
ribbon_expected_fpr(const LsmFilter *filter)
{
	double		keys = (double) filter->nkeys;
	double		starts = (double) filter->parts * filter->starts;
	uint64_t	part = filter->wide_block / ribbon_part_blocks(filter);
	double		in_part = (double) (filter->wide_block % ribbon_part_blocks(filter)) * WIDTH;
	double		wide = 1 - ((double) part * filter->starts + in_part) / starts;
	double		by_chance = ldexp(1 - wide / 2, -(int) (filter->probes & 0xff));
	double		dependent;

	if (filter->nkeys == 0)
		return 0;

	/* rows of one block: n of them add up to 2^n of the 2^128 */
	dependent = filter->nblocks > 1 ? ribbon_dependent(keys / starts) :
		keys < WIDTH ? ldexp(1, (int) keys - WIDTH) : 1;
	return by_chance + (1 - by_chance) * dependent;
}

/* 2^-r, with b / 1.05 columns, about */
const LsmFilterOps lsm_ribbon_ops = {
	.plan = ribbon_plan,
	.fill = ribbon_fill,
	.work_bytes = ribbon_work_bytes,
	.check = ribbon_check,
	.probe = ribbon_probe,
	.prefetch = ribbon_prefetch,
	.probe_group = ribbon_probe_group,
	.expected_fpr = ribbon_expected_fpr,
	.traits = LSM_FILTER_ONES_SAY_NO,
	.factor = 1,
	.slope = LSM_FILTER_LN2 / 1.05,
};
