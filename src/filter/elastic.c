/*-------------------------------------------------------------------------
 *
 * elastic.c
 *	  Elastic filters: segments of a run of keys, each with several small
 *	  filters ("units") that can be switched on one by one.
 *
 * After Li, Tian, Guo, Li and Xu, "ElasticBF: Elastic Bloom Filter with
 * Hotness Awareness for Boosting Read Performance in Large Key-Value Stores",
 * USENIX ATC
 * 2019.  What makes it work is separability: units of b_1 .. b_i bits per key
 *   that err independently have together the false positive rate of one filter
 *   of b_1 + .. + b_i bits per key.
 *
 * A unit is a blocked filter (blocked.c): one cache line per key.  The loss of
 * blocked against standard filters comes from lines that happen to hold many
 * keys, so it is small where a line holds many keys anyway; a unit has few
 * bits per key, hence a hundred keys or more per line.  As each unit draws its
 * own line the losses do not add up for the same unlucky key either: i units
 * are better than one blocked filter of the same bits.
 *
 * All units derive from the one digest h: unit i takes
 *
 *		x = h * M^(i+1) mod 2^64,  h_i = x XOR (x >> 32)
 *
 * as its digest.  The line comes from the high bits of h_i, which depend on
 * all of h; the bits within the line from the low half, where the
 * multiplication alone would leave the low half of h multiplied by a constant:
 * two keys that agree in a unit there would agree in all.  The XOR brings the
 * upper half in.
 *
 * Payload, behind the image's header; numbers are little-endian:
 *
 *		 0	 4	units per segment
 *		 4	 4	bytes from one unit to the next (a multiple of 64)
 *		 8	 4	segments
 *		12	 4	keys of each segment but the last
 *		16	 4	bytes that all fences share at their beginning
 *		20	 4	bytes of all fences together
 *		24	 4	cache lines of the filter of leading parts; 0: there is none
 *		28	 4	its probes
 *		32	 8	leading parts in it
 *		40	24	0
 *		64		one word per segment: the 8 bytes of its fence behind the shared
 *				ones, as an integer, first byte highest; 0 for segment 0
 *				one number of 4 bytes per segment: end of its fence
 *				one checksum of 4 bytes per unit: low half of XXH3_64bits
 *				the fences
 *				0, up to the next cache line
 *				filter of leading parts (blocked.c)
 *				0, up to where the units are aligned
 *				units: unit 0 of all segments, unit 1 of all segments, ..
 *
 * Everything before the units is under the image's checksum.
 *
 * Immutable once built; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "filter/filter_private.h"

#define OFF_UNITS			0
#define OFF_UNIT_BYTES		4
#define OFF_SEGMENTS		8
#define OFF_SEGMENT_KEYS	12
#define OFF_PREFIX_BYTES	16
#define OFF_FENCE_BYTES		20
#define OFF_LEADING_LINES	24
#define OFF_LEADING_PROBES	28
#define OFF_LEADING_KEYS	32
#define OFF_WORDS			64

#define LEADING_BITS_MAX	10.0	/* per leading part */

#define ELASTIC_SEGMENT_KEYS_MAX	65536
#define ELASTIC_SEGMENTS_MAX		(UINT32_C(1) << 24)

/* M^1 .. M^16 mod 2^64, M as in bloom.c */
static const uint64_t elastic_multiplier[LSM_ELASTIC_UNITS_MAX] = {
	UINT64_C(0xd1342543de82ef95), UINT64_C(0xb1b9d47c9f8b8cb9),
	UINT64_C(0x739d9fcd088b9ead), UINT64_C(0x49136017ec40ddb1),
	UINT64_C(0xe7fc1700229b4705), UINT64_C(0x2d320d22823800e9),
	UINT64_C(0x35f577dd97c40e9d), UINT64_C(0xce3a3efbf07b1461),
	UINT64_C(0xee0b12b556eb6b75), UINT64_C(0xc348830c67c1c619),
	UINT64_C(0x79400ad1926ba38d), UINT64_C(0xce38d51109f0d411),
	UINT64_C(0x6c66c4d80dc94ce5), UINT64_C(0xa2921075973d8c49),
	UINT64_C(0xe375cda707dccd7d), UINT64_C(0x6913f39876d54cc1)
};

/* What follows from parameters and numbers. */
typedef struct ElasticLayout
{
	uint32_t	segments;
	uint32_t	segment_keys;
	uint32_t	stride;
	uint32_t	full_lines;
	uint32_t	last_lines;
	uint32_t	leading_lines;
	uint64_t	leading_at;		/* in the payload */
	uint64_t	directory_bytes;
	uint64_t	payload_bytes;
} ElasticLayout;

/* The digest as the unit sees it. */
static inline LsmDigest
elastic_remix(LsmDigest digest, uint32_t unit)
{
	uint64_t	x = digest * elastic_multiplier[unit];

	return x ^ (x >> 32);
}

static bool
elastic_params_valid(const LsmFilterParams *params)
{
	return params->bits_per_key >= LSM_FILTER_BITS_PER_KEY_MIN &&
		params->bits_per_key <= LSM_FILTER_BITS_PER_KEY_MAX &&
		params->units >= 1 && params->units <= LSM_ELASTIC_UNITS_MAX &&
		params->unit_bytes >= LSM_FILTER_LINE_BYTES &&
		params->unit_bytes <= LSM_ELASTIC_UNIT_BYTES_MAX &&
		(params->unit_bytes & (params->unit_bytes - 1)) == 0;
}

static uint32_t
elastic_segment_keys(const LsmFilterParams *params)
{
	double		keys;
	uint32_t	n;

	if (!elastic_params_valid(params))
		return 0;
	keys = params->unit_bytes * 8.0 / (params->bits_per_key / params->units);
	n = keys > ELASTIC_SEGMENT_KEYS_MAX ? ELASTIC_SEGMENT_KEYS_MAX : (uint32_t) keys;

	/* rounding must not make a full unit one line too long */
	while (n > 1 && lsm_filter_lines(n, params->bits_per_key / params->units) *
		   LSM_FILTER_LINE_BYTES > params->unit_bytes)
		n--;
	return n;
}

/* The first cache line at or behind a place in the payload. */
static inline uint64_t
elastic_align_line(uint64_t at)
{
	return (at + LSM_FILTER_LINE_BYTES - 1) / LSM_FILTER_LINE_BYTES * LSM_FILTER_LINE_BYTES;
}

/* Cache lines of the filter of leading parts; UINT64_MAX: too many. */
static uint64_t
elastic_leading_lines(const LsmFilterParams *params, uint64_t nkeys, uint64_t nleading)
{
	double		bits = params->bits_per_key < LEADING_BITS_MAX ? params->bits_per_key :
		LEADING_BITS_MAX;

	if (params->leading == 0 ||
		(nleading > LSM_ELASTIC_LEADING_FREE && nleading > nkeys / 4))
		return 0;
	return nleading <= LSM_FILTER_KEYS_MAX ? lsm_filter_lines(nleading, bits) : UINT64_MAX;
}

static bool
elastic_layout(const LsmFilterParams *params, uint64_t nkeys,
			   const LsmFilterNotes *notes, ElasticLayout *layout)
{
	uint32_t	segment_keys = elastic_segment_keys(params);
	double		unit_bits = params->bits_per_key / params->units;
	uint64_t	leading_lines = elastic_leading_lines(params, nkeys, notes->nleading);
	uint64_t	segments;
	uint64_t	last_keys;
	uint64_t	units_at;
	uint32_t	alignment;

	if (segment_keys == 0 || nkeys > LSM_FILTER_KEYS_MAX || leading_lines > UINT32_MAX)
		return false;
	segments = nkeys > 0 ? (nkeys + segment_keys - 1) / segment_keys : 1;
	if (segments > ELASTIC_SEGMENTS_MAX || notes->n != segments - 1)
		return false;
	last_keys = nkeys - (segments - 1) * segment_keys;

	layout->segments = (uint32_t) segments;
	layout->segment_keys = segment_keys;
	layout->last_lines = (uint32_t) lsm_filter_lines(last_keys, unit_bits);
	layout->full_lines = segments > 1 ?
		(uint32_t) lsm_filter_lines(segment_keys, unit_bits) : layout->last_lines;
	layout->stride = segments > 1 ? params->unit_bytes :
		layout->last_lines * LSM_FILTER_LINE_BYTES;

	/* a unit shall not lie across two pages if it can lie in one */
	alignment = segments > 1 ? layout->stride : LSM_FILTER_LINE_BYTES;
	layout->leading_lines = (uint32_t) leading_lines;
	layout->leading_at = elastic_align_line(OFF_WORDS + segments * 12 +
											segments * params->units * 4 +
											(notes->n > 0 ? notes->ends[notes->n - 1] : 0));
	units_at = LSM_FILTER_HEADER_BYTES + layout->leading_at +
		leading_lines * LSM_FILTER_LINE_BYTES;
	units_at = (units_at + alignment - 1) / alignment * alignment;
	layout->directory_bytes = units_at - LSM_FILTER_HEADER_BYTES;
	layout->payload_bytes = layout->directory_bytes +
		segments * params->units * layout->stride;
	return layout->directory_bytes / LSM_FILTER_LINE_BYTES <= UINT32_MAX &&
		layout->payload_bytes <= SIZE_MAX - LSM_FILTER_HEADER_BYTES;
}

static size_t
elastic_image_bytes(const LsmFilterParams *params, uint64_t nkeys,
					const LsmFilterNotes *notes)
{
	ElasticLayout layout;

	if (!elastic_layout(params, nkeys, notes, &layout))
		return 0;
	return (size_t) (LSM_FILTER_HEADER_BYTES + layout.payload_bytes);
}

/* The first 8 bytes as an integer; its order is theirs, but for ties. */
static inline uint64_t
elastic_word(const uint8_t *key, size_t key_bytes)
{
	uint64_t	word = 0;

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	if (key_bytes >= 8)
	{
		memcpy(&word, key, 8);
		return __builtin_bswap64(word);
	}
#endif
	for (size_t i = 0; i < 8 && i < key_bytes; i++)
		word |= (uint64_t) key[i] << (56 - 8 * i);
	return word;
}

/* As get_le(), for numbers at multiples of their size. */
static inline uint64_t
elastic_load64(const uint8_t *from)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	uint64_t	value;

	memcpy(&value, from, 8);
	return value;
#else
	return get_le(from, 8);
#endif
}

/* ---- building ---- */

/* Fences are in order: what the first and the last share, all share. */
static uint32_t
elastic_shared_prefix(const LsmFilterNotes *notes)
{
	const uint8_t *first = notes->bytes;
	const uint8_t *last;
	uint32_t	first_bytes;
	uint32_t	last_bytes;
	uint32_t	shared = 0;

	if (notes->n == 0)
		return 0;
	last = notes->bytes + (notes->n > 1 ? notes->ends[notes->n - 2] : 0);
	first_bytes = notes->ends[0];
	last_bytes = (uint32_t) (notes->bytes + notes->ends[notes->n - 1] - last);
	while (shared < first_bytes && shared < last_bytes && first[shared] == last[shared])
		shared++;
	return shared;
}

static void
elastic_write_directory(const LsmFilterParams *params, const ElasticLayout *layout,
						const LsmFilterNotes *notes, uint8_t *payload)
{
	uint32_t	prefix_bytes = elastic_shared_prefix(notes);
	uint32_t	start = 0;
	uint8_t    *words = payload + OFF_WORDS;
	uint8_t    *ends = words + (size_t) layout->segments * 8;
	uint8_t    *fence_bytes = ends + (size_t) layout->segments * 4 +
		(size_t) layout->segments * params->units * 4;

	for (uint32_t i = 0; i < notes->n; i++)
	{
		put_le(words + (size_t) (i + 1) * 8,
			   elastic_word(notes->bytes + start + prefix_bytes,
							notes->ends[i] - start - prefix_bytes), 8);
		put_le(ends + (size_t) (i + 1) * 4, notes->ends[i], 4);
		start = notes->ends[i];
	}
	if (start > 0)
		memcpy(fence_bytes, notes->bytes, start);
	put_le(payload + OFF_UNITS, params->units, 4);
	put_le(payload + OFF_UNIT_BYTES, layout->stride, 4);
	put_le(payload + OFF_SEGMENTS, layout->segments, 4);
	put_le(payload + OFF_SEGMENT_KEYS, layout->segment_keys, 4);
	put_le(payload + OFF_PREFIX_BYTES, prefix_bytes, 4);
	put_le(payload + OFF_FENCE_BYTES, start, 4);
}

static void
elastic_fill_units(const LsmFilterParams *params, const ElasticLayout *layout,
				   uint32_t probes, const LsmDigest *digests, uint64_t n,
				   LsmDigest *scratch, uint8_t *payload)
{
	uint8_t    *checksums = payload + OFF_WORDS + (size_t) layout->segments * 12;
	uint8_t    *units = payload + layout->directory_bytes;
	LsmFilter	part = {.probes = probes};

	for (uint32_t segment = 0; segment < layout->segments; segment++)
	{
		uint64_t	first = (uint64_t) segment * layout->segment_keys;
		uint64_t	nkeys = n - first < layout->segment_keys ? n - first : layout->segment_keys;
		uint32_t	lines = segment + 1 < layout->segments ? layout->full_lines :
			layout->last_lines;

		for (uint32_t unit = 0; unit < params->units; unit++)
		{
			uint8_t    *bits = units +
				((size_t) unit * layout->segments + segment) * layout->stride;

			for (uint64_t i = 0; i < nkeys; i++)
				scratch[i] = elastic_remix(digests[first + i], unit);
			part.nblocks = lines;
			lsm_blocked_fill(&part, scratch, nkeys, bits);
			put_le(checksums + ((size_t) segment * params->units + unit) * 4,
				   lsm_filter_checksum(bits, (size_t) lines * LSM_FILTER_LINE_BYTES) &
				   UINT32_MAX, 4);
		}
	}
}

static void
elastic_fill_leading(const ElasticLayout *layout, const LsmFilterNotes *notes, uint8_t *payload)
{
	LsmFilter	part = {0};

	if (layout->leading_lines == 0)
		return;
	part.nblocks = layout->leading_lines;
	part.probes = lsm_blocked_probes(notes->nleading, layout->leading_lines);
	lsm_blocked_fill(&part, notes->leading, notes->nleading, payload + layout->leading_at);
	put_le(payload + OFF_LEADING_LINES, layout->leading_lines, 4);
	put_le(payload + OFF_LEADING_PROBES, part.probes, 4);
	put_le(payload + OFF_LEADING_KEYS, notes->nleading, 8);
}

static LsmFilterStatus
elastic_build(const LsmFilterParams *params, const LsmDigest *digests, uint64_t n,
			  const LsmFilterNotes *notes, LsmDigest *scratch, void *image, size_t image_bytes)
{
	ElasticLayout layout;
	LsmFilter	filter = {0};
	uint8_t    *payload = (uint8_t *) image + LSM_FILTER_HEADER_BYTES;

	if (!elastic_layout(params, n, notes, &layout) ||
		image_bytes < LSM_FILTER_HEADER_BYTES + layout.payload_bytes)
		return LSM_FILTER_INVALID;
	filter.scheme = LSM_FILTER_ELASTIC;
	filter.leading = params->leading;
	filter.nkeys = n;
	filter.bits_per_key = params->bits_per_key;
	filter.probes = lsm_blocked_probes(layout.segments > 1 ? layout.segment_keys : n,
									   layout.full_lines);
	filter.payload_bytes = layout.payload_bytes;
	filter.checked_bytes = layout.directory_bytes;
	filter.nbits = (layout.payload_bytes - layout.directory_bytes) * 8;

	memset(payload, 0, layout.payload_bytes);
	elastic_write_directory(params, &layout, notes, payload);
	elastic_fill_leading(&layout, notes, payload);
	elastic_fill_units(params, &layout, filter.probes, digests, n, scratch, payload);
	lsm_filter_write_header(&filter, image);
	return LSM_FILTER_OK;
}

/* ---- opening ---- */

static const char *
elastic_parse_leading(const LsmFilter *filter, uint64_t leading_at, LsmElastic *elastic)
{
	const uint8_t *payload = filter->bits;

	elastic->leading_lines = (uint32_t) get_le(payload + OFF_LEADING_LINES, 4);
	elastic->leading_probes = (uint32_t) get_le(payload + OFF_LEADING_PROBES, 4);
	elastic->nleading = get_le(payload + OFF_LEADING_KEYS, 8);
	elastic->leading = payload + leading_at;
	if (elastic->leading_lines == 0)
		return NULL;
	if (filter->leading == 0 ||
		elastic->leading_probes < 1 || elastic->leading_probes > LSM_BLOCKED_PROBES_MAX ||
		leading_at + (uint64_t) elastic->leading_lines * LSM_FILTER_LINE_BYTES >
		filter->checked_bytes)
		return "leading parts of an elastic filter are out of range";
	return NULL;
}

/* Returns NULL, or what is wrong; then *elastic is not to be used. */
static const char *
elastic_parse(const LsmFilter *filter, LsmElastic *elastic)
{
	const uint8_t *payload = filter->bits;
	double		unit_bits;
	uint64_t	directory_bytes;

	if (filter->probes < 1 || filter->probes > LSM_BLOCKED_PROBES_MAX)
		return "number of probes of an elastic filter is out of range";
	if (filter->checked_bytes < OFF_WORDS || filter->checked_bytes > filter->payload_bytes)
		return "directory of an elastic filter is missing";
	elastic->units = (uint32_t) get_le(payload + OFF_UNITS, 4);
	elastic->unit_bytes = (uint32_t) get_le(payload + OFF_UNIT_BYTES, 4);
	elastic->segments = (uint32_t) get_le(payload + OFF_SEGMENTS, 4);
	elastic->segment_keys = (uint32_t) get_le(payload + OFF_SEGMENT_KEYS, 4);
	elastic->prefix_bytes = (uint32_t) get_le(payload + OFF_PREFIX_BYTES, 4);
	elastic->fence_bytes = (uint32_t) get_le(payload + OFF_FENCE_BYTES, 4);
	elastic->nkeys = filter->nkeys;
	elastic->probes = filter->probes;
	elastic->check = (uint32_t) lsm_digest_key(payload - LSM_FILTER_HEADER_BYTES,
											   LSM_FILTER_HEADER_BYTES);

	if (elastic->units < 1 || elastic->units > LSM_ELASTIC_UNITS_MAX ||
		elastic->segments < 1 || elastic->segments > ELASTIC_SEGMENTS_MAX ||
		elastic->segment_keys < 1 || elastic->segment_keys > ELASTIC_SEGMENT_KEYS_MAX ||
		elastic->unit_bytes < LSM_FILTER_LINE_BYTES ||
		elastic->unit_bytes > LSM_ELASTIC_UNIT_BYTES_MAX ||
		elastic->unit_bytes % LSM_FILTER_LINE_BYTES != 0)
		return "directory of an elastic filter is out of range";
	if (elastic->nkeys > (uint64_t) elastic->segments * elastic->segment_keys ||
		elastic->nkeys < (uint64_t) (elastic->segments - 1) * elastic->segment_keys)
		return "number of keys of an elastic filter does not match its segments";
	directory_bytes = OFF_WORDS + (uint64_t) elastic->segments * 12 +
		(uint64_t) elastic->segments * elastic->units * 4 + elastic->fence_bytes;
	if (directory_bytes > filter->checked_bytes ||
		filter->payload_bytes - filter->checked_bytes !=
		(uint64_t) elastic->segments * elastic->units * elastic->unit_bytes)
		return "payload of an elastic filter does not match its directory";

	unit_bits = filter->bits_per_key / elastic->units;
	elastic->last_lines = (uint32_t)
		lsm_filter_lines(lsm_elastic_keys(elastic, elastic->segments - 1), unit_bits);
	elastic->full_lines = elastic->segments > 1 ?
		(uint32_t) lsm_filter_lines(elastic->segment_keys, unit_bits) : elastic->last_lines;
	if ((uint64_t) elastic->full_lines * LSM_FILTER_LINE_BYTES > elastic->unit_bytes ||
		(uint64_t) elastic->last_lines * LSM_FILTER_LINE_BYTES > elastic->unit_bytes)
		return "units of an elastic filter are too small for its keys";

	elastic->words = payload + OFF_WORDS;
	elastic->ends = elastic->words + (size_t) elastic->segments * 8;
	elastic->checksums = elastic->ends + (size_t) elastic->segments * 4;
	elastic->fences = elastic->checksums + (size_t) elastic->segments * elastic->units * 4;
	elastic->bits = payload + filter->checked_bytes;
	return elastic_parse_leading(filter, elastic_align_line(directory_bytes), elastic);
}

LsmFilterStatus
lsm_elastic_open(const LsmFilter *filter, LsmElastic *elastic, const char **why)
{
	const char *reason;

	memset(elastic, 0, sizeof(*elastic));
	if (filter->scheme != LSM_FILTER_ELASTIC)
		return LSM_FILTER_INVALID;
	reason = elastic_parse(filter, elastic);
	if (why != NULL)
		*why = reason;
	return reason == NULL ? LSM_FILTER_OK : LSM_FILTER_CORRUPT;
}

/* ---- segments ---- */

uint64_t
lsm_elastic_keys(const LsmElastic *elastic, uint32_t segment)
{
	if (segment + 1 < elastic->segments)
		return elastic->segment_keys;
	return elastic->nkeys - (uint64_t) (elastic->segments - 1) * elastic->segment_keys;
}

static inline uint32_t
elastic_lines(const LsmElastic *elastic, uint32_t segment)
{
	return segment + 1 < elastic->segments ? elastic->full_lines : elastic->last_lines;
}

uint32_t
lsm_elastic_unit_bytes(const LsmElastic *elastic, uint32_t segment)
{
	return elastic_lines(elastic, segment) * LSM_FILTER_LINE_BYTES;
}

const void *
lsm_elastic_fence(const LsmElastic *elastic, uint32_t segment, size_t *fence_bytes)
{
	uint32_t	start = segment > 1 ?
		(uint32_t) get_le(elastic->ends + (size_t) (segment - 1) * 4, 4) : 0;
	uint32_t	end = segment > 0 ?
		(uint32_t) get_le(elastic->ends + (size_t) segment * 4, 4) : 0;

	/* only if damaged and not verified: stay inside */
	if (start > end || end > elastic->fence_bytes)
		start = end = 0;
	*fence_bytes = end - start;
	return elastic->fences + start;
}

/* Is the fence at most the key?  Their words are equal. */
static bool
elastic_fence_tie(const LsmElastic *elastic, uint32_t segment,
				  const uint8_t *key, size_t key_bytes)
{
	size_t		fence_bytes;
	const void *fence = lsm_elastic_fence(elastic, segment, &fence_bytes);
	size_t		n = fence_bytes < key_bytes ? fence_bytes : key_bytes;
	int			c = n > 0 ? memcmp(fence, key, n) : 0;

	return c < 0 || (c == 0 && fence_bytes <= key_bytes);
}

/* The last segment whose fence is at most the key; some have the key's word. */
static uint32_t
elastic_find_tied(const LsmElastic *elastic, uint64_t word,
				  const uint8_t *key, size_t key_bytes)
{
	uint32_t	low = 0;		/* the last one known to be not behind the key */
	uint32_t	high = elastic->segments;

	while (high - low > 1)
	{
		uint32_t	middle = low + (high - low) / 2;
		uint64_t	fence = elastic_load64(elastic->words + (size_t) middle * 8);

		if (fence < word ||
			(fence == word && elastic_fence_tie(elastic, middle, key, key_bytes)))
			low = middle;
		else
			high = middle;
	}
	return low;
}

uint32_t
lsm_elastic_find_segment(const LsmElastic *elastic, const void *key, size_t key_bytes)
{
	const uint8_t *bytes = key;
	uint32_t	prefix_bytes = elastic->prefix_bytes;
	uint32_t	low = 0;
	uint32_t	n = elastic->segments;
	uint64_t	word;

	if (n == 1)
		return 0;
	if (prefix_bytes > 0)
	{
		size_t		shared = key_bytes < prefix_bytes ? key_bytes : prefix_bytes;
		int			c = prefix_bytes <= elastic->fence_bytes ?
			memcmp(bytes, elastic->fences, shared) : 0;

		if (c > 0)
			return n - 1;
		if (c < 0 || key_bytes < prefix_bytes)
			return 0;
	}
	word = elastic_word(bytes + prefix_bytes, key_bytes - prefix_bytes);

	/* no branch depends on the key but the last */
	while (n > 1)
	{
		uint32_t	half = n / 2;

		low += elastic_load64(elastic->words + (size_t) (low + half) * 8) <= word ? half : 0;
		n -= half;
	}
	if (low > 0 && elastic_load64(elastic->words + (size_t) low * 8) == word)
		return elastic_find_tied(elastic, word, bytes, key_bytes);
	return low;
}

/* ---- units ---- */

const void *
lsm_elastic_unit(const LsmElastic *elastic, uint32_t segment, uint32_t unit,
				 bool verify_checksum)
{
	const uint8_t *bits = elastic->bits +
		((size_t) unit * elastic->segments + segment) * elastic->unit_bytes;
	uint64_t	wanted = get_le(elastic->checksums +
								((size_t) segment * elastic->units + unit) * 4, 4);

	if (verify_checksum &&
		(lsm_filter_checksum(bits, lsm_elastic_unit_bytes(elastic, segment)) & UINT32_MAX) != wanted)
		return NULL;
	return bits;
}

bool
lsm_elastic_probe(const LsmElastic *elastic, uint32_t segment, uint32_t unit,
				  const void *bits, LsmDigest digest)
{
	LsmFilter	part;

	/* units of about 2 bits per key: nothing to do in parallel */
	if (elastic->probes == 1)
		return lsm_blocked_probe_one(bits, elastic_lines(elastic, segment),
									 elastic_remix(digest, unit));

	/* all that the probe looks at */
	part.bits = bits;
	part.nblocks = elastic_lines(elastic, segment);
	part.probes = elastic->probes;
	return lsm_blocked.probe(&part, elastic_remix(digest, unit));
}

void
lsm_elastic_prefetch(const LsmElastic *elastic, uint32_t segment, uint32_t unit,
					 const void *bits, LsmDigest digest)
{
	__builtin_prefetch((const uint8_t *) bits +
					   lsm_fast_range(elastic_remix(digest, unit),
									  elastic_lines(elastic, segment)) *
					   LSM_FILTER_LINE_BYTES);
}

/* ---- leading parts ---- */

bool
lsm_elastic_probe_leading(const LsmElastic *elastic, LsmDigest digest)
{
	LsmFilter	part;

	/* all that the probe looks at */
	part.bits = elastic->leading;
	part.nblocks = elastic->leading_lines;
	part.probes = elastic->leading_probes;
	return lsm_blocked.probe(&part, digest);
}

void
lsm_elastic_prefetch_leading(const LsmElastic *elastic, LsmDigest digest)
{
	__builtin_prefetch(elastic->leading +
					   lsm_fast_range(digest, elastic->leading_lines) * LSM_FILTER_LINE_BYTES);
}

double
lsm_elastic_leading_fpr(const LsmElastic *elastic)
{
	return lsm_blocked_fpr(elastic->nleading, elastic->leading_lines, elastic->leading_probes);
}

double
lsm_elastic_unit_fpr(const LsmElastic *elastic, uint32_t segment)
{
	return lsm_blocked_fpr(lsm_elastic_keys(elastic, segment),
						   elastic_lines(elastic, segment), elastic->probes);
}

/* ---- as a scheme ---- */

static const char *
elastic_check(LsmFilter *filter)
{
	LsmElastic	elastic;

	memset(&elastic, 0, sizeof(elastic));
	return elastic_parse(filter, &elastic);
}

static bool
elastic_maybe(const LsmFilter *filter, LsmDigest digest)
{
	(void) filter;
	(void) digest;
	return true;
}

static void
elastic_no_prefetch(const LsmFilter *filter, LsmDigest digest)
{
	(void) filter;
	(void) digest;
}

/* An absent key meets each segment as often as this has keys. */
static double
elastic_expected_fpr(const LsmFilter *filter)
{
	LsmElastic	elastic;
	uint64_t	last_keys;
	double		last;
	double		full;

	if (lsm_elastic_open(filter, &elastic, NULL) != LSM_FILTER_OK || elastic.nkeys == 0)
		return filter->nkeys == 0 ? 0.0 : 1.0;
	last_keys = lsm_elastic_keys(&elastic, elastic.segments - 1);
	last = pow(lsm_elastic_unit_fpr(&elastic, elastic.segments - 1), elastic.units);
	full = elastic.segments > 1 ? pow(lsm_elastic_unit_fpr(&elastic, 0), elastic.units) : 0;
	return (full * (double) (elastic.nkeys - last_keys) + last * (double) last_keys) /
		(double) elastic.nkeys;
}

const LsmFilterOps lsm_elastic_ops = {
	.check = elastic_check,
	.probe = elastic_maybe,
	.prefetch = elastic_no_prefetch,
	.expected_fpr = elastic_expected_fpr,
	.segment_keys = elastic_segment_keys,
	.image_bytes = elastic_image_bytes,
	.build = elastic_build,
	.checksums_parts = true,
	.traits = LSM_FILTER_UNITS,
};
