/*-------------------------------------------------------------------------
 *
 * chain.h
 *	  Part of tree.h: values of one key strung together, newest first.
 *
 * A value tagged CHAIN:
 *		tag				1 byte
 *		then at least twice
 *			bytes		varint
 *			element		so many
 * Elements are VERSIONs or DELTAs.  The last one may be a PUT or a DELETE, then
 * nothing older counts, or a PARTIAL, which what is older has to complete.  On
 * disk.
 *
 * A value that is no CHAIN is a chain of one.  What lookups and cursors return
 * ends with a VERSION or a PUT.  A DELTA is left in it only if what that differs
 * from is gone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TREE_CHAIN_H
#define LSM_TREE_CHAIN_H

#ifndef LSM_TREE_H
#error "tree/tree.h includes this header"
#endif

/* Where a walk over the elements is */
typedef struct LsmChain
{
	const char *at;				/* NULL: the chain is malformed */
	const char *end;
	bool		framed;			/* a CHAIN; else the only element is next */
} LsmChain;

static inline int
lsm_value_tag(LsmSlice value)
{
	return value.len > 0 ? (uint8) value.data[0] : 0;
}

/* A tag that is not CHAIN */
static inline bool
lsm_tag_is_element(int tag)
{
	return (tag >= LSM_TAG_PUT && tag <= LSM_TAG_VERSION) || tag == LSM_TAG_DELTA;
}

static inline void
lsm_chain_begin(LsmChain *chain, LsmSlice value)
{
	chain->framed = lsm_value_tag(value) == LSM_TAG_CHAIN;
	chain->at = value.data + chain->framed;
	chain->end = value.data + value.len;
}

static inline LsmSlice
lsm_chain_frame(LsmChain *chain)
{
	uint64		bytes;
	const char *p = lsm_varint_get(chain->at, chain->end, &bytes);

	if (p != NULL && bytes > 0 && bytes <= (uint64) (chain->end - p))
	{
		int			tag = (uint8) p[0];
		bool		last = p + bytes == chain->end;

		if (tag == LSM_TAG_VERSION || tag == LSM_TAG_DELTA ||
			(last && (tag == LSM_TAG_PUT || tag == LSM_TAG_DELETE || tag == LSM_TAG_PARTIAL)))
		{
			chain->at = p + bytes;
			return lsm_slice(p, (uint32) bytes);
		}
	}
	chain->at = NULL;
	return lsm_slice(NULL, 0);
}

/* False: the end, or malformed (chain->at == NULL). */
static inline bool
lsm_chain_next(LsmChain *chain, LsmSlice *element)
{
	if (chain->at == chain->end || chain->at == NULL)
		return false;
	if (likely(!chain->framed))
	{
		*element = lsm_slice(chain->at, (uint32) (chain->end - chain->at));
		chain->at = chain->end;
		return true;
	}
	*element = lsm_chain_frame(chain);
	return chain->at != NULL;
}

/*
 * Append an element, or all those of a chain, which is well formed; none of
 * `value`'s memory.  REQUIRES: `value` is empty or ends with a VERSION or DELTA.
 */
static inline void
lsm_chain_append(StringInfo value, LsmSlice element)
{
	char		frame[1 + LSM_VARINT32_BYTES];
	char	   *end;

	if (value->len == 0)
	{
		lsm_buffer_append(value, element.data, element.len);
		return;
	}
	if (value->data[0] != LSM_TAG_CHAIN)
	{
		int			bytes;

		frame[0] = LSM_TAG_CHAIN;
		end = lsm_varint_put(frame + 1, (uint32) value->len);
		bytes = (int) (end - frame);
		enlargeStringInfo(value, bytes);
		memmove(value->data + bytes, value->data, value->len + 1);
		memcpy(value->data, frame, bytes);
		value->len += bytes;
	}
	if (lsm_value_tag(element) == LSM_TAG_CHAIN)
	{
		lsm_buffer_append(value, element.data + 1, element.len - 1);
		return;
	}
	end = lsm_varint_put(frame, element.len);
	lsm_buffer_append(value, frame, (uint32) (end - frame));
	lsm_buffer_append(value, element.data, element.len);
}

/* All elements, in palloc'd memory; returns how many.  REQUIRES: well formed. */
static inline int
lsm_chain_elements(LsmSlice value, LsmSlice **elements)
{
	LsmChain	chain;
	LsmSlice	element;
	int			n = 0;

	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
		n++;
	*elements = palloc(n * sizeof(LsmSlice));
	n = 0;
	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
		(*elements)[n++] = element;
	return n;
}

/*
 * The newest elements that are versions of a row: the chain without a DELETE or
 * PARTIAL at its end, as a part of `value`; empty, if nothing is left.  What is
 * malformed is returned as it is.
 */
static inline LsmSlice
lsm_chain_rows(LsmSlice value)
{
	LsmChain	chain;
	LsmSlice	element = {0};
	LsmSlice	first = {0};
	const char *last = value.data;
	int			n = 0;

	lsm_chain_begin(&chain, value);
	while (chain.at != chain.end)
	{
		last = chain.at;
		if (!lsm_chain_next(&chain, &element))
			return value;
		if (n++ == 0)
			first = element;
	}
	if (lsm_tag_is_row(lsm_value_tag(element)))
		return value;
	return n == 2 ? first : lsm_slice(value.data, n > 2 ? (uint32) (last - value.data) : 0);
}

/* Has it a tag that there is, and the format of that? */
static inline bool
lsm_chain_is_sound(LsmSlice value)
{
	LsmChain	chain;
	LsmSlice	element;
	int			n = 0;

	lsm_chain_begin(&chain, value);
	if (!chain.framed)
		return lsm_tag_is_element(lsm_value_tag(value));
	while (lsm_chain_next(&chain, &element))
		n++;
	return chain.at != NULL && n > 1;
}

/* May something older count, too? */
static inline bool
lsm_value_open(LsmSlice value)
{
	LsmChain	chain;
	LsmSlice	element = value;

	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
		 /* to the last one */ ;
	return lsm_value_tag(element) == LSM_TAG_VERSION ||
		lsm_value_tag(element) == LSM_TAG_PARTIAL ||
		lsm_value_tag(element) == LSM_TAG_DELTA;
}

#endif							/* LSM_TREE_CHAIN_H */
