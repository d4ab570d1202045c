/*-------------------------------------------------------------------------
 *
 * digest_chain.h
 *	  What the tests of nodes that share a digest have in common: groups of
 *	  keys, looked at in every way, and someone who comes in at a point of what
 *	  another one does.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_MEMTABLE_SAME_H
#define LSM_MEMTABLE_SAME_H

/* few, so that writers link often, and sort */
#define MEM_MAX_UNLINKED	40
#define MEM_MOST_UNLINKED	UINT64CONST(600)
#define SORT_FROM			50

#include "memtable_harness.h"

#define M ((SkipList *) table)

/* Keys of a group share its digest and begin with its filter key. */
#define KEY_ROOM	32

static inline LsmSlice
group_filter_key(char *buffer, int group)
{
	return lsm_slice(buffer, sprintf(buffer, "g%05d/", group));
}

static inline LsmSlice
group_key(char *buffer, int group, int n)
{
	return lsm_slice(buffer, sprintf(buffer, "g%05d/%06d", group, n));
}

static inline bool
key_begins_with(LsmSlice key, LsmSlice prefix)
{
	return key.len >= prefix.len && memcmp(key.data, prefix.data, prefix.len) == 0;
}

static inline LsmDigest
group_digest(int group)
{
	char		buffer[KEY_ROOM];
	LsmSlice	key = group_filter_key(buffer, group);

	return digest_of(key.data, key.len);
}

/*
 * Sequence numbers that 3 divides are those of fresh entries, which are linked
 * later.
 */
static inline void
put_key(int group, int n, uint64 seq)
{
	char		buffer[KEY_ROOM];

	put(table, group_key(buffer, group, n), group_digest(group), seq, LSM_TAG_PUT);
}

static inline LsmMemNode *
find_key(int group, int n)
{
	char		buffer[KEY_ROOM];

	return lsm_memtable_find(table, group_digest(group), group_key(buffer, group, n));
}

static inline void
remove_key(int group, int n)
{
	LsmMemNode *node = find_key(group, n);

	expect(node != NULL, "what is to be removed is found");
	if (node != NULL)
		lsm_memtable_remove(table, node);
}

static inline LsmMemNode *
seek_key(int group, int n)
{
	char		buffer[KEY_ROOM];
	LsmSlice	key = group_key(buffer, group, n);
	LsmMemNode *node = lsm_memtable_seek(table, key);

	return node != NULL && lsm_slice_compare(lsm_memnode_key(node), key) == 0 ? node : NULL;
}

static inline bool
seq_is(LsmMemNode *node, uint64 seq)
{
	return node != NULL && lsm_memnode_value(node)->seq == seq;
}

/*
 * How often the digest index names the key; -1: it does not know all of the
 * group.
 */
static inline int
find_among_all(int group, int n)
{
	LsmMemNode *nodes[LSM_MEMTABLE_MAX_SAME];
	char		buffer[KEY_ROOM];
	char		filter_buffer[KEY_ROOM];
	LsmSlice	key = group_key(buffer, group, n);
	int			nnodes = lsm_memtable_find_all(table, group_digest(group),
											   group_filter_key(filter_buffer, group), nodes);
	int			found = 0;

	if (nnodes < 0)
		return -1;
	for (int i = 0; i < nnodes; i++)
		found += lsm_slice_compare(lsm_memnode_key(nodes[i]), key) == 0;
	return found;
}

/* a key may have two nodes until the order is asked */
static bool two_nodes = false;

/*
 * A key that is there with this sequence number, or (0) not, whoever looks and
 * in what way.
 */
static inline void
expect_key(int group, int n, uint64 seq)
{
	int			found = find_among_all(group, n);

	expect(seq == 0 ? find_key(group, n) == NULL : seq_is(find_key(group, n), seq),
		   seq == 0 ? "what is gone is not found" : "what is there is found");
	expect(found == (seq == 0 ? 0 : 1) || found == -1 || (two_nodes && found == 2), "and known to the digest index, or that says so");
}

/* The same in order, which links it. */
static inline void
expect_key_ordered(int group, int n, uint64 seq)
{
	expect(seq == 0 ? seek_key(group, n) == NULL : seq_is(seek_key(group, n), seq),
		   seq == 0 ? "what is gone is not found in order" : "what is there is found in order");
	expect_key(group, n, seq);
}

/* The next part begins anew. */
static inline void
report(bool good, const char *what)
{
	char		both[200];

	if (wrong != NULL)
		sprintf(both, "%s: %s", what, wrong);
	ok(good && wrong == NULL, wrong != NULL ? both : what);
	wrong = NULL;
}

/* With something that is greater than all other keys. */
static inline void
begin_table(void)
{
	table = lsm_memtable_create(1, false);
	put(table, lsm_slice("z", 1), digest_of("z", 1), 3, LSM_TAG_PUT);
}

/* So many keys are there now, and counted. */
static inline void
end_table(int nkeys)
{
	expect(count_nodes() == nkeys + 1, "the order has what lives");
	expect(pg_atomic_read_u64(&table->entries) - pg_atomic_read_u64(&table->removed) == nkeys + 1,
		   "and that is counted");
	for (int level = 0; level < MEM_MAX_HEIGHT; level++)
	{
		for (LsmMemNode *node = link_node(mem_link(M->head, level)); node != NULL;
			 node = link_node(mem_link(node, level)))
			expect(!node_dead(node), "on every level");
	}
	lsm_memtable_destroy(table);
}

/*
 * Fresh entries of groups behind these, each of which has a digest of its own.
 */
static inline void
put_others(int n)
{
	for (int i = 0; i < n; i++)
		put_key(50000 + (int) (i * UINT64CONST(7919) % 40000), 0, 3);
}

static bool hook_ran;
static void (*hook_body) (void);

static inline void
run_hook(void)
{
	hook_ran = true;
	hook_body();
}

/* Arms the hook for the n-th point from now. */
static inline void
hook_at(int n, void (*body) (void))
{
	hook_ran = false;
	hook_body = body;
	race_hook = run_hook;
	race_countdown = n;
}

#endif							/* LSM_MEMTABLE_SAME_H */
