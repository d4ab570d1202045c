/*-------------------------------------------------------------------------
 *
 * quotient_stream.c
 *	  Quotient filters as sorted streams of fingerprints: reading one, writing
 *	  one.
 *
 * No locks: see quotient.h.
 *
 *-------------------------------------------------------------------------
 */
#include "filter/quotient_private.h"

/* ---- fingerprints from slots ---- */

/*
 * The smallest f with f m / 2^p >= Q + R / 2^r.  No other one has this
 * quotient and remainder, since 2^(p-r) <= m makes the step from f to f + 1, m
 * / 2^p, at least 2^-r.
 */
uint64_t
lsm_fingerprint_join(const LsmQuotient *filter, uint64_t quotient, uint64_t remainder)
{
#ifdef __SIZEOF_INT128__
	uint32_t	p = filter->fingerprint_bits;
	uint64_t	m = filter->scale;
	unsigned __int128 least = ((unsigned __int128) quotient << p) +
		((unsigned __int128) remainder << (p - filter->remainder_bits));

	if ((m & (m - 1)) == 0)
		return (uint64_t) ((least + (m - 1)) >> lsm_log2(m));
	if ((uint64_t) (least >> 64) == 0 && (uint64_t) least <= UINT64_MAX - m)
		return ((uint64_t) least + m - 1) / m;
	return (uint64_t) ((least + m - 1) / m);
#else
	/* splitting is monotonous: search */
	uint64_t	low = 0;
	uint64_t	high = lsm_ones_to(filter->fingerprint_bits - 1);

	while (low < high)
	{
		uint64_t	middle = low + (high - low) / 2;
		uint64_t	r;
		uint64_t	q = lsm_fingerprint_split(filter, middle, &r);

		if (q < quotient || (q == quotient && r < remainder))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
#endif
}

/* ---- reading ---- */

/*
 * Where the fingerprints of slot 0's quotient and the next ones begin: behind
 * those of the last quotients, which may have gone around the end.
 */
static uint64_t
first_slot(const LsmQuotient *filter)
{
	uint64_t	cluster;

	if (!lsm_quotient_bit(filter, 0, LSM_SHIFTED))
		return 0;
	cluster = lsm_quotient_cluster(filter, 0);
	if (cluster == LSM_QUOTIENT_NOWHERE || cluster == 0)
		return LSM_QUOTIENT_NOWHERE;
	return lsm_quotient_run(filter, cluster,
							lsm_quotient_count_occupied(filter, cluster,
														filter->nslots - 1) + 1);
}

void
lsm_quotient_cursor_open(LsmQuotientCursor *cursor, const LsmQuotient *filter)
{
	cursor->filter = filter;
	cursor->slot = first_slot(filter);
	cursor->left = filter->nslots;
	cursor->quotient = 0;
	cursor->damaged = cursor->slot == LSM_QUOTIENT_NOWHERE;
}

/* The occupied quotient at or behind `from`, or NOWHERE. */
static uint64_t
occupied_from(const LsmQuotient *filter, uint64_t from)
{
	uint64_t	nblocks = filter->nslots / 64;

	if (from >= filter->nslots)
		return LSM_QUOTIENT_NOWHERE;
	for (uint64_t block = from / 64; block < nblocks; block++)
	{
		uint64_t	word = lsm_quotient_word(filter, block, LSM_OCCUPIED);

		if (block == from / 64)
			word &= UINT64_MAX << (from % 64);
		if (word != 0)
			return block * 64 + (uint64_t) __builtin_ctzll(word);
	}
	return LSM_QUOTIENT_NOWHERE;
}

bool
lsm_quotient_cursor_next(LsmQuotientCursor *cursor, uint64_t *fingerprint)
{
	const LsmQuotient *filter = cursor->filter;

	while (cursor->left > 0 && !cursor->damaged)
	{
		uint64_t	slot = cursor->slot;
		bool		continuation = lsm_quotient_bit(filter, slot, LSM_CONTINUATION);
		bool		shifted = lsm_quotient_bit(filter, slot, LSM_SHIFTED);

		cursor->slot = lsm_quotient_after(filter, slot);
		cursor->left--;
		if (!shifted)
		{
			if (!lsm_quotient_bit(filter, slot, LSM_OCCUPIED))
				continue;
			cursor->quotient = slot;
		}
		else if (!continuation)
		{
			/* the first run of all may belong to quotient 0 itself */
			bool		first = cursor->left == filter->nslots - 1;

			cursor->quotient = occupied_from(filter, first ? 0 : cursor->quotient + 1);
			if (cursor->quotient == LSM_QUOTIENT_NOWHERE)
			{
				cursor->damaged = true;
				break;
			}
		}
		*fingerprint = lsm_fingerprint_join(filter, filter->first + cursor->quotient,
											lsm_quotient_remainder(filter, slot));
		return true;
	}
	return false;
}

/* ---- writing ---- */

void
lsm_quotient_builder_open(LsmQuotientBuilder *builder, LsmQuotient *filter)
{
	builder->filter = filter;
	builder->next = 0;
	builder->quotient = 0;
}

bool
lsm_quotient_builder_add(LsmQuotientBuilder *builder, uint64_t fingerprint)
{
	LsmQuotient *filter = builder->filter;
	uint64_t	remainder;
	uint64_t	slot = lsm_fingerprint_split(filter, fingerprint, &remainder) - filter->first;
	uint64_t	position = slot > builder->next ? slot : builder->next;

	/* what goes around the end pushes the first ones aside */
	if (position >= filter->nslots)
		return lsm_quotient_insert_fingerprint(filter, fingerprint);

	lsm_quotient_set_remainder(filter, position, remainder);
	if (slot == builder->quotient && filter->count > 0)
		lsm_quotient_set_bit(filter, position, LSM_CONTINUATION, true);
	else
		lsm_quotient_set_bit(filter, slot, LSM_OCCUPIED, true);
	if (position != slot)
		lsm_quotient_set_bit(filter, position, LSM_SHIFTED, true);
	builder->quotient = slot;
	builder->next = position + 1;
	filter->count++;
	return true;
}
