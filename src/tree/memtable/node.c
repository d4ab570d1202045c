/*-------------------------------------------------------------------------
 *
 * node.c
 *	  A node of a memtable: its key, and the values that it has had.
 *
 * A node's word leads to its newest value, that one's base to the next older
 * one that counts, and so on: a list, newest first, which ends with a PUT or
 * DELETE, since these hide what is older, or in nothing.  A PARTIAL hides a
 * PARTIAL that is directly below it.  What a PARTIAL says is about the values
 * below it, so there is no harm in a PARTIAL that goes because a newer one was
 * there first, even if a VERSION comes between the two later: the writer of that
 * VERSION knew what the older PARTIAL said.
 *
 * Values of one key are written one after the other, and mostly come like that:
 * each takes the newest one's place.  A load and redo bring them in any order:
 * an older one gets its place in the list.
 *
 * Locking: none.  A proof says why no value is lost (node_add_older).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/memtable/memtable.h"
#include "tree/memtable/memtable_private.h"

LsmSlice
lsm_memnode_key(LsmMemNode *node)
{
	return lsm_slice(node_key_data(node), node->key_bytes);
}

LsmDigest
lsm_memnode_digest(LsmMemNode *node)
{
	return node->digest;
}

LsmMemValue *
lsm_memnode_value(LsmMemNode *node)
{
	return mem_pointer(mem_load_seq(&node->value));
}

bool
lsm_memnode_had_delete(LsmMemNode *node)
{
	return (mem_load(&node->state) & MEM_DELETED) != 0;
}

bool
lsm_memnode_removed(const LsmMemNode *node)
{
	return node_dead(node);
}

static inline LsmTag
value_tag(const LsmMemValue *value)
{
	return (LsmTag) (unsigned char) value->data[0];
}

/* Does it hide all that is older? */
static inline bool
value_closed(const LsmMemValue *value)
{
	StaticAssertStmt(LSM_TAG_PUT <= LSM_TAG_DELETE && LSM_TAG_PARTIAL > LSM_TAG_DELETE &&
					 LSM_TAG_VERSION > LSM_TAG_DELETE && LSM_TAG_DELTA > LSM_TAG_DELETE,
					 "tags are in this order");
	Assert(lsm_tag_is_element(value_tag(value)));
	return value_tag(value) <= LSM_TAG_DELETE;
}

bool
lsm_memnode_is_whole(LsmMemNode *node)
{
	LsmMemValue *value = lsm_memnode_value(node);

	while (value != NULL && !value_closed(value))
		value = lsm_memvalue_older(value);
	return value != NULL && value_tag(value) == LSM_TAG_PUT;
}

bool
lsm_memnode_has_version(LsmMemNode *node)
{
	LsmMemValue *value = lsm_memnode_value(node);

	while (value != NULL && value_tag(value) != LSM_TAG_VERSION &&
		   value_tag(value) != LSM_TAG_DELTA)
		value = lsm_memvalue_older(value);
	return value != NULL;
}

/* ----------------------------------------------------------------------
 * values that come late
 * ---------------------------------------------------------------------- */

/*
 * A row that is written often has very many values in a memtable.  Those that
 * come late come in pages of the log, so the places of the next ones are not
 * far from this one's, but may be far from the newest value: the node remembers
 * where a long search has ended.  While searches from there are not long, they
 * go on beginning there: pages that were filled at the same time alternate.
 */
#ifndef LATE_NEAR
#define LATE_NEAR	64
#define LATE_FAR	2048
#endif

/* The remembered value if it is newer than `value`, or NULL */
static LsmMemValue *
late_place(LsmMemNode *node, const LsmMemValue *value)
{
	LsmMemValue *place;

	if ((mem_load(&node->state) & MEM_LATE) == 0)
		return NULL;
	place = (LsmMemValue *) ((char *) node + (int64) mem_load(&node->late) * MAXIMUM_ALIGNOF);
	return place->seq > value->seq ? place : NULL;
}

static void
remember_place(LsmMemNode *node, LsmMemValue *place)
{
	int64		distance = ((char *) place - (char *) node) / MAXIMUM_ALIGNOF;

	Assert((char *) node + distance * MAXIMUM_ALIGNOF == (char *) place);
	if (distance != (int32) distance)
		return;
	mem_store(&node->late, (int32) distance);
	(void) node_set_state(node, MEM_LATE);
}

/*
 * Link the value where it belongs in the list from `place` on, which is newer,
 * unless it is there or something hides it.  Returns what it belongs behind.
 *
 * It may have been linked before, in vain (node_add_older).
 */
static LsmMemValue *
link_older(LsmMemValue *place, LsmMemValue *value, int *nsteps)
{
	*nsteps = 0;
	while (!value_closed(place))
	{
		LsmMemValue *older = mem_load_seq(&place->base);

		MEM_RACE_POINT();
		if (older != NULL && older->seq > value->seq)
		{
			place = older;
			++*nsteps;
			continue;
		}
		if ((older != NULL && older->seq == value->seq) ||
			(value_tag(value) == LSM_TAG_PARTIAL && value_tag(place) == LSM_TAG_PARTIAL))
			break;
		if (!value_closed(value))
			mem_store(&value->base, older);
		MEM_RACE_POINT();
		if (mem_cas(&place->base, &older, value))
			break;
	}
	return place;
}

/*
 * Give a value that is older than the node's newest its place.
 *
 * Values are only ever linked into the list, none is taken out but by one that
 * hides it.  So what can be reached from a VERSION stays, since whatever takes
 * its place as the newest value leads to it.  The difficulty is the newest value
 * P if it is a PARTIAL, and a process B that at this moment replaces it by a
 * newer PARTIAL Q: B copies P's base to Q's before it swaps the node's word, and
 * could miss ours.  So the word carries a counter beside the pointer, and we
 * raise it after our value has been linked.  If B read the word before that, its
 * swap fails and it starts over, now finding our value.  If B's swap comes
 * first, our raising fails and we repeat with Q.  We return only after the raise
 * has succeeded (also if we found that another process has linked the same
 * value, or one that hides ours: its own raise may still be to come) or the
 * newest value is no PARTIAL; hence from our return on, our value is in the
 * list, or hidden, for whoever begins at the node's word.  The counter wraps: B
 * would have to be held between two instructions for exactly 65536 raises, or a
 * multiple of that, which does not happen.
 *
 * When we repeat, our value may hang in P's list, which is not the node's any
 * more, with others behind it.  Only if it is not in Q's list, too, we link it
 * there and overwrite its base.  Who is behind it and not in Q's list has yet to
 * raise, will fail, and link itself anew, as we do; who raised before us made
 * sure that all of P's list is in Q's.  Readers who stand on it get to Q's list.
 *
 * A remembered place is one that was in the list for good, so a search that
 * begins there need not raise.
 */
static pg_noinline void
node_add_older(LsmMemNode *node, uint64 word, LsmMemValue *value)
{
	for (;;)
	{
		LsmMemValue *newest = mem_pointer(word);
		LsmMemValue *first = late_place(node, value);
		bool		remembered = first != NULL;
		LsmMemValue *place;
		int			nsteps;

		/* the newest value never gets older */
		Assert(newest->seq > value->seq);
		if (value_closed(newest))
			return;
		place = link_older(remembered ? first : newest, value, &nsteps);
		MEM_RACE_POINT();

		/* on failure, word is reread by the swap */
		if (!remembered && value_tag(newest) == LSM_TAG_PARTIAL &&
			!mem_cas(&node->value, &word, word + (UINT64CONST(1) << MEM_POINTER_BITS)))
			continue;
		if (nsteps > (remembered ? LATE_FAR : LATE_NEAR))
		{
			/* a PARTIAL may go with the values that it hides */
			Assert(place != newest);
			remember_place(node, place);
		}
		return;
	}
}

/*
 * Give the value its place among the node's values.
 *
 * Newer than the node's newest: it takes its place, that of a PARTIAL over a
 * PARTIAL with what is below.  The same sequence number: the same entry,
 * replayed twice.  That it had a DELETE is known before that can be hidden by a
 * newer value.
 */
void
lsm_memnode_add_value(LsmMemNode *node, LsmMemValue *value)
{
	uint64		word = mem_load_seq(&node->value);

	if (value_tag(value) == LSM_TAG_DELETE)
		(void) node_set_state(node, MEM_DELETED);
	for (;;)
	{
		LsmMemValue *newest = mem_pointer(word);

		if (newest->seq == value->seq)
			return;
		if (newest->seq > value->seq)
		{
			node_add_older(node, word, value);
			return;
		}

		if (!value_closed(value))
		{
			/* after the word was read: see node_add_older() */
			if (value_tag(value) == LSM_TAG_PARTIAL && value_tag(newest) == LSM_TAG_PARTIAL)
				value->base = mem_load_seq(&newest->base);
			else
				value->base = newest;
		}
		MEM_RACE_POINT();
		if (mem_cas(&node->value, &word, mem_word(value)))
			return;
	}
}
