/*-------------------------------------------------------------------------
 *
 * tree_model.h
 *	  A sorted array of what a tree has, versions of rows included, for
 *	  tree_fuzz_test.c: what readers with a snapshot see of it, and which values a
 *	  flush or a compaction may leave.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_TREE_MODEL_H
#define LSM_TREE_MODEL_H

#include "tree_harness.h"

#define NKEYS		120

/* ---- random numbers ---- */

static uint32
below(uint32 n)
{
	return (uint32) ((random_next() >> 11) % n);
}

static bool
one_in(uint32 n)
{
	return below(n) == 0;
}

/* ---- the array ---- */

#define MAX_VERSIONS	32

typedef struct ModelEntry
{
	LsmSlice	key;
	int			n;				/* 0: no row */
	struct
	{
		uint32		stamp;
		uint32		part;		/* of the last override; 0: none */
	}			versions[MAX_VERSIONS];	/* oldest first */
	uint32		undone;			/* stamp of what was written last, if that was
								 * rolled back */
} ModelEntry;

static ModelEntry model[NKEYS];
static uint32 last_stamp;
static uint32 horizon;			/* versions stamped before it may close a row */
static uint64 nwrites;

/* Versions and what was written about them by who made them */
static bool
was_undone(uint32 stamp)
{
	return tree.kind == LSM_KIND_TABLE && stamp % 5 == 0;
}

/* Values are a tag and two numbers. */
typedef struct Stamped
{
	int			tag;
	uint32		stamp;
	uint32		part;
} Stamped;

#define STAMPED_BYTES	9

static Stamped
read_stamped(LsmSlice element)
{
	Stamped		s = {lsm_value_tag(element)};

	if (s.tag == LSM_TAG_DELETE)
		return s;
	Assert(element.len == STAMPED_BYTES);
	memcpy(&s.stamp, element.data + 1, 4);
	memcpy(&s.part, element.data + 5, 4);
	return s;
}

static LsmSlice
put_stamped(Stamped s)
{
	static char room[STAMPED_BYTES];

	room[0] = (char) s.tag;
	memcpy(room + 1, &s.stamp, 4);
	memcpy(room + 5, &s.part, 4);
	return lsm_slice(room, s.tag == LSM_TAG_DELETE ? 1 : STAMPED_BYTES);
}

/* ---- the kind ---- */

/*
 * An override is about the version with its stamp.  A newer one below it had come
 * to nothing when the override was written; if an older one is below it, then
 * what it is about came to nothing, and is gone.
 */
static void
merge_stamped(LsmSlice newer, LsmSlice older, StringInfo out)
{
	Stamped		part = read_stamped(newer);
	Stamped		below = read_stamped(older);
	Stamped		result = below;

	if (below.stamp == part.stamp)
		result.part = part.part;
	else if (below.stamp > part.stamp)
		result = part;
	newer = put_stamped(result);
	append_bytes(out, newer.data, newer.len);
}

static bool
closes_stamped(LsmFateContext *cx, LsmSlice element)
{
	uint32		stamp = read_stamped(element).stamp;

	return stamp < cx->oldest_xid && !was_undone(stamp);
}

static LsmFate
fate_stamped(LsmFateContext *cx, LsmSlice key, LsmSlice value, StringInfo out)
{
	Stamped		kept[2 * MAX_VERSIONS];
	LsmChain	chain;
	LsmSlice	element;
	int			n = 0;

	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
	{
		Stamped		s = read_stamped(element);

		Assert(!cx->bottom || lsm_tag_is_row(s.tag));
		Assert(n < lengthof(kept));
		if ((s.tag == LSM_TAG_VERSION || s.tag == LSM_TAG_PARTIAL) && was_undone(s.stamp))
			continue;
		kept[n++] = s;
		if (s.tag == LSM_TAG_VERSION && closes_stamped(cx, element))
		{
			kept[n - 1].tag = LSM_TAG_PUT;
			break;
		}
	}
	if (n > 0 && cx->bottom && kept[n - 1].tag == LSM_TAG_VERSION && kept[n - 1].stamp % 2 == 0)
		kept[n - 1].tag = LSM_TAG_PUT;
	for (int i = 0; i < n; i++)
		lsm_chain_append(out, put_stamped(kept[i]));
	cx->dying = n > 1;
	return n > 0 ? LSM_FATE_REWRITE : LSM_FATE_DROP;
}

static const LsmKindOps stamped_ops = {
	.merge = merge_stamped,
	.closes = closes_stamped,
	.fate = fate_stamped
};

/* Bytes that words, prefixes and fences are made of; some keys share much. */
static LsmSlice
random_key(void)
{
	static const char *const starts[] = {"", "a", "common prefix ", "\377\377\377\377\377\377\377"};
	char		key[400];
	uint32		n = 0;
	int			start = below(6);
	int			tail = below(5);

	if (start < 4)
	{
		n = strlen(starts[start]);
		memcpy(key, starts[start], n);
	}
	else if (start == 4)
	{
		/* about as long as fences are */
		n = LSM_FENCE_BYTES - 2 + below(5);
		memset(key, 'k', n);
	}
	for (int i = 0; i < tail || n == 0; i++)
		key[n++] = "\000ab\377"[below(4)];
	if (tree.kind == LSM_KIND_INDEX)
	{
		memset(key + n, 0, LSM_TID_BYTES);
		key[n + LSM_TID_BYTES - 1] = (char) below(4);
		n += LSM_TID_BYTES;
	}
	return lsm_slice(copy_bytes(key, n), n);
}

static int
compare_model(const void *a, const void *b)
{
	return lsm_slice_compare(((const ModelEntry *) a)->key, ((const ModelEntry *) b)->key);
}

static void
make_model(void)
{
	for (int n = 0; n < NKEYS;)
	{
		bool		known = false;

		free(unconstify(char *, model[n].key.data));
		memset(&model[n], 0, sizeof(ModelEntry));
		model[n].key = random_key();
		for (int i = 0; i < n; i++)
			known |= compare_model(&model[i], &model[n]) == 0;
		n += !known;
	}
	qsort(model, NKEYS, sizeof(ModelEntry), compare_model);
}

static bool
model_has(int i)
{
	return model[i].n > 0;
}

static int
index_of(LsmSlice key)
{
	int			i = 0;

	while (i < NKEYS && lsm_slice_compare(model[i].key, key) != 0)
		i++;
	return i;
}

/* Of what an override is made: the newest version, mostly. */
static uint32
stamp_to_override(const ModelEntry *entry)
{
	if (entry->undone != 0 && one_in(2))
		return entry->undone;
	return entry->n > 0 ? entry->versions[entry->n - 1].stamp : 1;
}

static void
write_key(int i, LsmTag tag)
{
	ModelEntry *entry = &model[i];
	Stamped		s = {tag, ++last_stamp};

	if (tag == LSM_TAG_PARTIAL)
	{
		s.part = last_stamp;
		s.stamp = stamp_to_override(entry);
	}
	else if (tag == LSM_TAG_PUT && was_undone(last_stamp))
		s.stamp = ++last_stamp;
	write_value(entry->key, put_stamped(s));
	nwrites++;

	if (tag == LSM_TAG_PARTIAL && s.stamp == entry->undone)
		return;
	entry->undone = 0;
	if (tag == LSM_TAG_PARTIAL)
	{
		/* of a DELETE it makes nothing */
		if (entry->n > 0)
			entry->versions[entry->n - 1].part = s.part;
		return;
	}
	if (tag == LSM_TAG_VERSION && was_undone(s.stamp))
	{
		entry->undone = s.stamp;
		return;
	}
	if (tag != LSM_TAG_VERSION)
		entry->n = 0;
	if (tag != LSM_TAG_DELETE)
	{
		entry->versions[entry->n].stamp = s.stamp;
		entry->versions[entry->n++].part = 0;
	}
}

/* ---- what goes wrong ---- */

static bool failed;

static void
print_value(LsmSlice value)
{
	LsmChain	chain;
	LsmSlice	element;

	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
	{
		Stamped		s = read_stamped(element);

		printf(" %c%u/%u%s", element_letters[s.tag], s.stamp, s.part,
			   s.tag != LSM_TAG_DELETE && was_undone(s.stamp) ? "(undone)" : "");
	}
}

static void
differ(const char *what, LsmSlice key, LsmSlice value, int expected)
{
	if (failed)
		return;
	failed = true;
	printf("# %s, horizon %u: got ", what, horizon);
	if (key.data == NULL)
		printf("the end");
	else
		print_key(stdout, key);
	if (value.data != NULL)
		print_value(value);
	printf(", expected ");
	if (expected >= 0 && expected < NKEYS)
	{
		print_key(stdout, model[expected].key);
		for (int i = model[expected].n - 1; i >= 0; i--)
			printf(" %u/%u", model[expected].versions[i].stamp, model[expected].versions[i].part);
	}
	else
		printf("the end");
	printf("\n");
}

/* Are all of the value's versions rolled back? */
static bool
is_nothing(LsmSlice value)
{
	LsmChain	chain;
	LsmSlice	element;

	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
	{
		Stamped		s = read_stamped(element);

		if (s.tag != LSM_TAG_VERSION || !was_undone(s.stamp))
			return false;
	}
	return true;
}

/*
 * Has the value the entry's versions, up to the first that the snapshot sees, and
 * no more?  Without a snapshot (0) up to one before the horizon, and perhaps more.
 */
static bool
has_versions(const ModelEntry *entry, LsmSlice value, uint32 snapshot)
{
	int			left = entry->n;
	bool		enough = false;
	LsmChain	chain;
	LsmSlice	element;

	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
	{
		Stamped		s = read_stamped(element);

		if (!lsm_tag_is_row(s.tag) || (enough && snapshot != 0))
			return false;
		if (s.tag == LSM_TAG_VERSION && was_undone(s.stamp))
			continue;
		if (left-- == 0 || s.stamp != entry->versions[left].stamp ||
			s.part != entry->versions[left].part)
			return false;
		enough |= snapshot != 0 ? s.stamp <= snapshot : s.stamp < horizon;
	}
	return chain.at != NULL && (enough || left == 0);
}

/* The entry is the i-th of the array; -1: the end. */
static void
expect_entry(const char *what, int i, LsmSlice key, LsmSlice value, uint32 snapshot)
{
	if (i < 0 || key.data == NULL)
	{
		if (i >= 0 || key.data != NULL)
			differ(what, key, value, i);
		return;
	}
	if (lsm_slice_compare(key, model[i].key) != 0 || !has_versions(&model[i], value, snapshot))
		differ(what, key, value, i);
}

/* A snapshot that a reader may have; 0: none */
static uint32
random_snapshot(void)
{
	return one_in(3) ? 0 : horizon + below(last_stamp - horizon + 1);
}

/* LsmEnough */
static bool
sees(void *arg, LsmSlice element)
{
	uint32		stamp = read_stamped(element).stamp;

	Assert(element.data[0] == LSM_TAG_VERSION);
	return stamp <= *(uint32 *) arg && !was_undone(stamp);
}

#endif							/* LSM_TREE_MODEL_H */
