/*-------------------------------------------------------------------------
 *
 * quotient_merge.c
 *	  Any number of quotient and cascade filters as one sorted stream;
 *	  quotient filters merged in memory, or with a bit moved between quotient
 *	  and remainder.
 *
 * No locks, no allocation: the heap lives in the caller's LsmFilterStreams,
 * where the i-th one holds input i and, in `heap`, the number of the input
 * that is in place i of the heap.
 *
 *-------------------------------------------------------------------------
 */
#include "filter/quotient_private.h"

/* What LsmFilterStream.words is. */
typedef struct StreamState
{
	LsmQuotient quotient;
	LsmQuotientCursor cursor;
} StreamState;

_Static_assert(sizeof(StreamState) <= sizeof(((LsmFilterStream *) 0)->words),
			   "LsmFilterStream.words is too small");

/* ---- one input ---- */

static inline StreamState *
stream_state(LsmFilterStream *stream)
{
	return (StreamState *) stream->words;
}

/* Go to the next page of a cascade filter; false at the end or if damaged. */
static bool
stream_next_page(LsmStreamMerge *merge, LsmFilterStream *stream)
{
	StreamState *state = stream_state(stream);
	const uint8_t *page;

	if (stream->page >= stream->paged->nblocks)
		return false;
	page = stream->read_page != NULL ? stream->read_page(stream->read_arg, stream->page) :
		lsm_cascade_page(stream->paged, stream->page);
	if (page == NULL || lsm_cascade_page_state(page, stream->page) != LSM_CASCADE_GOOD)
	{
		merge->damaged = true;
		return false;
	}
	lsm_cascade_view(stream->paged, page, stream->page, &state->quotient);
	lsm_quotient_cursor_open(&state->cursor, &state->quotient);
	stream->page++;
	return true;
}

/* Set stream->fingerprint; false at the end or if damaged. */
static bool
stream_advance(LsmStreamMerge *merge, LsmFilterStream *stream)
{
	StreamState *state = stream_state(stream);
	uint64_t	last = stream->fingerprint;

	while (!lsm_quotient_cursor_next(&state->cursor, &stream->fingerprint))
	{
		if (state->cursor.damaged)
		{
			merge->damaged = true;
			return false;
		}
		if (stream->paged == NULL || !stream_next_page(merge, stream))
			return false;
	}
	stream->fingerprint >>= stream->cut_bits;
	if (stream->fingerprint < last)
	{
		merge->damaged = true;
		return false;
	}
	return true;
}

/* ---- the heap ---- */

static inline uint64_t
heap_key(const LsmStreamMerge *merge, int place)
{
	return merge->streams[merge->streams[place].heap].fingerprint;
}

static inline void
heap_swap(LsmStreamMerge *merge, int a, int b)
{
	int			stream = merge->streams[a].heap;

	merge->streams[a].heap = merge->streams[b].heap;
	merge->streams[b].heap = stream;
}

static void
heap_sift_down(LsmStreamMerge *merge)
{
	int			at = 0;

	for (;;)
	{
		int			least = at;

		for (int child = 2 * at + 1; child <= 2 * at + 2; child++)
		{
			if (child < merge->nstreams && heap_key(merge, child) < heap_key(merge, least))
				least = child;
		}
		if (least == at)
			return;
		heap_swap(merge, at, least);
		at = least;
	}
}

static void
heap_sift_up(LsmStreamMerge *merge, int at)
{
	while (at > 0 && heap_key(merge, at) < heap_key(merge, (at - 1) / 2))
	{
		heap_swap(merge, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
}

/* ---- the merge ---- */

void
lsm_stream_merge_open(LsmStreamMerge *merge, LsmFilterStream *work, uint32_t fingerprint_bits)
{
	merge->streams = work;
	merge->nstreams = 0;
	merge->fingerprint_bits = fingerprint_bits;
	merge->damaged = false;
}

/*
 * Input `nstreams` is set up but for its first fingerprint.  An empty one is
 * not kept, and its place taken by the next.
 */
static void
merge_add(LsmStreamMerge *merge)
{
	int			at = merge->nstreams;
	LsmFilterStream *stream = &merge->streams[at];

	stream->fingerprint = 0;
	if (!stream_advance(merge, stream))
		return;
	stream->heap = at;
	merge->nstreams++;
	heap_sift_up(merge, at);
}

bool
lsm_stream_merge_add_quotient(LsmStreamMerge *merge, const LsmQuotient *input)
{
	LsmFilterStream *stream = &merge->streams[merge->nstreams];
	StreamState *state = stream_state(stream);

	if (input->fingerprint_bits < merge->fingerprint_bits)
		return false;
	stream->cut_bits = input->fingerprint_bits - merge->fingerprint_bits;
	stream->paged = NULL;
	state->quotient = *input;
	lsm_quotient_cursor_open(&state->cursor, &state->quotient);
	merge_add(merge);
	return true;
}

bool
lsm_stream_merge_add_pages(LsmStreamMerge *merge, const LsmFilter *input,
						   LsmReadPage read_page, void *arg)
{
	LsmFilterStream *stream = &merge->streams[merge->nstreams];

	if (input->scheme != LSM_FILTER_CASCADE ||
		lsm_filter_fingerprint_bits(input) < merge->fingerprint_bits)
		return false;
	stream->cut_bits = lsm_filter_fingerprint_bits(input) - merge->fingerprint_bits;
	stream->paged = input;
	stream->page = 0;
	stream->read_page = read_page;
	stream->read_arg = arg;
	if (stream_next_page(merge, stream))
		merge_add(merge);
	return true;
}

bool
lsm_stream_merge_add_filter(LsmStreamMerge *merge, const LsmFilter *input)
{
	if (input->scheme == LSM_FILTER_QUOTIENT)
	{
		LsmQuotient quotient;

		lsm_quotient_view(input, &quotient);
		return lsm_stream_merge_add_quotient(merge, &quotient);
	}
	return lsm_stream_merge_add_pages(merge, input, NULL, NULL);
}

bool
lsm_stream_merge_next(LsmStreamMerge *merge, uint64_t *fingerprint)
{
	LsmFilterStream *stream;

	if (merge->nstreams == 0 || merge->damaged)
		return false;
	stream = &merge->streams[merge->streams[0].heap];
	*fingerprint = stream->fingerprint;
	if (!stream_advance(merge, stream))
		heap_swap(merge, 0, --merge->nstreams);
	heap_sift_down(merge);
	return true;
}

/* ---- quotient filters from it ---- */

bool
lsm_quotient_merge(const LsmQuotient *inputs, int ninputs, LsmFilterStream *work,
				   LsmQuotient *output)
{
	LsmStreamMerge merge;
	LsmQuotientBuilder builder;
	uint64_t	fingerprint;

	lsm_stream_merge_open(&merge, work, output->fingerprint_bits);
	for (int i = 0; i < ninputs; i++)
	{
		if (!lsm_stream_merge_add_quotient(&merge, &inputs[i]))
			return false;
	}
	lsm_quotient_builder_open(&builder, output);
	while (lsm_stream_merge_next(&merge, &fingerprint))
	{
		if (!lsm_quotient_builder_add(&builder, fingerprint))
			return false;
	}
	return !merge.damaged;
}

bool
lsm_quotient_resize(const LsmQuotient *filter, bool grow, LsmQuotient *output, void *data)
{
	uint32_t	quotient_bits = lsm_log2(filter->nslots);
	LsmFilterStream work;

	if (!grow && filter->count > filter->nslots / 2)
		return false;
	if (!lsm_quotient_init(output,
						   grow ? quotient_bits + 1 : quotient_bits - 1,
						   grow ? filter->remainder_bits - 1 : filter->remainder_bits + 1,
						   data))
		return false;
	return lsm_quotient_merge(filter, 1, &work, output);
}
