/*-------------------------------------------------------------------------
 *
 * node.c
 *	  A node of a memtable: its key, and the values that it has had.
 *
 * Locking: none.  The newest value is one word, and a proof says why no base
 * of a PARTIAL is lost (node_raise_base).
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

/*
 * The newest value.  For a PARTIAL, value->base is to be read once: it may be
 * replaced by a newer one.
 */
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

/*
 * `value`, a PUT or DELETE, is older than a PARTIAL that is the node's newest
 * value: make it the PARTIAL's base unless that has a newer one.
 *
 * The difficulty is a process B that at this moment replaces the PARTIAL P by
 * a newer PARTIAL Q: it copies P's base to Q's before it swaps the node's
 * pointer, and could miss ours.  So the node's word carries a counter beside
 * the pointer, and we raise it after P's base has been set.  If B read the
 * word before that, its swap fails and it starts over, now finding our base.
 * If B's swap comes first, our raising fails and we repeat with Q.  We return
 * only after the raise has succeeded (also if another process has set a newer
 * base: its own raise may still be to come) or the newest value no longer
 * needs a base; hence from our return on, every PARTIAL in place has a base
 * not older than `value`.  The counter wraps after 65536 late PUTs within one
 * such window of B, each with a lower sequence number than P, which cannot
 * happen.
 */
static void
node_raise_base(LsmMemNode *node, LsmMemValue *value)
{
	uint64		word = mem_load_seq(&node->value);

	for (;;)
	{
		LsmMemValue *newest = mem_pointer(word);
		LsmMemValue *base;

		/* the newest value never gets older */
		Assert(newest->seq >= value->seq);
		if (value_tag(newest) != LSM_TAG_PARTIAL || newest->seq == value->seq)
			return;

		base = mem_load_seq(&newest->base);
		MEM_RACE_POINT();
		while ((base == NULL || base->seq < value->seq) &&
			   !mem_cas(&newest->base, &base, value))
			 /* try again */ ;

		MEM_RACE_POINT();
		/* on failure, word is reread by the swap */
		if (mem_cas(&node->value, &word,
					word + (UINT64CONST(1) << MEM_POINTER_BITS)))
			return;
	}
}

/*
 * Give the value its place among the node's values.
 *
 * Newer than the node's newest: it takes its place, a PARTIAL inheriting the
 * newest PUT or DELETE as its base.  Older: PUT and DELETE may be the base of
 * the newest; a PARTIAL is hidden by any newer value.  The same sequence
 * number: the same entry, replayed twice.  That it had a DELETE is known before
 * that can be hidden by a newer value.
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
			if (value_tag(value) != LSM_TAG_PARTIAL)
				node_raise_base(node, value);
			return;
		}

		if (value_tag(value) == LSM_TAG_PARTIAL)
		{
			/* after the word was read: see node_raise_base() */
			if (value_tag(newest) == LSM_TAG_PARTIAL)
				value->base = mem_load_seq(&newest->base);
			else
				value->base = newest;
		}
		MEM_RACE_POINT();
		if (mem_cas(&node->value, &word, mem_word(value)))
			return;
	}
}
