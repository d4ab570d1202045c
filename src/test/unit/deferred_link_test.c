/*-------------------------------------------------------------------------
 *
 * deferred_link_test.c
 *	  src/tree/memtable/deferred_link.c: nodes that enter the skiplist later.
 *	  TAP output.
 *
 * How it is built: memtable_test.c.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "postgres.h"

#include <stdlib.h>

/* few, so that writers link often, and sort */
#define MEM_MAX_UNLINKED	40
#define MEM_MOST_UNLINKED	UINT64CONST(600)
#define SORT_FROM			50

/* what is sorted needs memory, which there may not be */
static bool no_memory = false;

#define malloc(bytes) (no_memory ? NULL : (malloc) (bytes))

#include "memtable_harness.h"

#define M ((SkipList *) table)

static int
nunlinked(void)
{
	return unlinked_count(M->unlinked);
}

/* Something that is in the list, and greater than all other keys. */
static void
begin_table(void)
{
	table = lsm_memtable_create(1, false);
	put(table, lsm_slice("z", 1), digest_of("z", 1), 3, LSM_TAG_PUT);
	expect(nunlinked() == 0, "what comes at the end is linked at once");
}

static LsmDigest
text_digest(const char *text)
{
	return digest_of(text, strlen(text));
}

/* Sequence numbers that 3 divides are those of fresh entries. */
static void
put_text(const char *text, uint64 seq, LsmTag tag)
{
	put(table, lsm_slice(text, strlen(text)), text_digest(text), seq, tag);
}

/* An entry of which no one else writes the key: its lock is held. */
static void
put_alone(LsmSlice key, LsmDigest digest, uint64 seq, LsmTag tag)
{
	char		data[1 + 8];
	LsmEntry	entry = {.key = key,.value = lsm_slice(data, sizeof(data)),.digest = digest,.key_locked = true};

	data[0] = (char) tag;
	memcpy(data + 1, &seq, 8);
	expect(lsm_memtable_reserve_many(table, &entry, 1), "reserve");
	lsm_memtable_insert_many(table, &entry, 1, seq);
}

static LsmMemNode *
find_text(const char *text)
{
	return lsm_memtable_find(table, text_digest(text), lsm_slice(text, strlen(text)));
}

static bool
seq_is(LsmMemNode *node, uint64 seq)
{
	return node != NULL && lsm_memnode_value(node)->seq == seq;
}

static bool
node_is_text(LsmMemNode *node, const char *text)
{
	return node != NULL &&
		lsm_slice_compare(lsm_memnode_key(node), lsm_slice(text, strlen(text))) == 0;
}

/* ---- 1: each ordered operation finds what was to be linked ---- */

static LsmMemNode *
op_first(void)
{
	return lsm_memtable_first(table);
}

static LsmMemNode *
op_last(void)
{
	(void) lsm_memtable_last(table);
	return find_text("b");
}

static LsmMemNode *
op_seek(void)
{
	return lsm_memtable_seek(table, lsm_slice("a", 1));
}

static LsmMemNode *
op_seek_last(void)
{
	return lsm_memtable_seek_last(table, lsm_slice("c", 1));
}

static LsmMemNode *
op_next(void)
{
	return lsm_memtable_next(table, find_text("a"));
}

static LsmMemNode *
op_prev(void)
{
	return lsm_memtable_prev(table, find_text("z"));
}

static LsmMemNode *(*const ops[]) (void) =
{
	op_first, op_last, op_seek, op_seek_last, op_next, op_prev
};

static void
test_operations(void)
{
	for (int i = 0; i < lengthof(ops); i++)
	{
		LsmMemNode *node;

		begin_table();
		if (ops[i] == op_next)
		{
			put_text("a", 2, LSM_TAG_PUT);
			expect(nunlinked() == 0, "an entry that is not fresh is linked at once");
		}
		put_text("b", 6, LSM_TAG_PUT);
		expect(nunlinked() == 1, "a fresh one is not");
		node = find_text("b");
		expect(seq_is(node, 6) && nunlinked() == 1, "found by its digest, for that needs no order");
		expect(lsm_memtable_has_digest(table, text_digest("b"), lsm_slice("b", 1)) &&
			   lsm_memtable_may_hold(table, lsm_slice("b", 1)) && nunlinked() == 1,
			   "and in index and range");
		expect(ops[i] () == node && nunlinked() == 0, "an ordered operation links and finds it");
		expect(!M->linking && M->link_lock.state.value == 0, "and leaves no lock");
		lsm_memtable_destroy(table);
	}
	ok(wrong == NULL, wrong ? wrong : "ordered operations link first");
}

/* ---- 2: writes of a key whose node is to be linked ---- */

static void
test_same_key(void)
{
	LsmMemNode *node;

	begin_table();
	put_text("b", 6, LSM_TAG_PUT);
	node = find_text("b");
	put_text("b", 7, LSM_TAG_PARTIAL);
	ok(find_text("b") == node && seq_is(node, 7) && lsm_memnode_value(node)->base->seq == 6 &&
	   nunlinked() == 1, "a change goes to the node that is to be linked");
	put_text("b", 8, LSM_TAG_DELETE);
	put_text("b", 9, LSM_TAG_PUT);
	ok(find_text("b") == node && seq_is(node, 9) && nunlinked() == 1,
	   "so do a deletion and a fresh entry behind it");
	put_text("c", 12, LSM_TAG_DELETE);
	ok(count_nodes() == 3, "one node per key, deletions too");
	lsm_memtable_destroy(table);

	/* changes of rows that are in files */
	begin_table();
	put_alone(lsm_slice("b", 1), text_digest("b"), 4, LSM_TAG_PARTIAL);
	node = find_text("b");
	ok(seq_is(node, 4) && nunlinked() == 1, "a change under the key's lock waits to be linked");
	put_alone(lsm_slice("b", 1), text_digest("b"), 5, LSM_TAG_PARTIAL);
	ok(find_text("b") == node && seq_is(node, 5) && nunlinked() == 1, "the next one finds its node");
	put_text("c", 7, LSM_TAG_PARTIAL);
	ok(nunlinked() == 1 && count_nodes() == 3, "without the lock it is linked at once");
	lsm_memtable_destroy(table);

	/* the digest is another key's */
	begin_table();
	put(table, lsm_slice("m", 1), 77, 3, LSM_TAG_PUT);
	put(table, lsm_slice("k", 1), 77, 6, LSM_TAG_PUT);
	ok(nunlinked() == 2, "a second key of a digest waits, too");
	ok(seq_is(lsm_memtable_find(table, 77, lsm_slice("k", 1)), 6) &&
	   lsm_memtable_find(table, 77, lsm_slice("l", 1)) == NULL, "both are found");
	put_text("b", 9, LSM_TAG_PUT);
	put(table, lsm_slice("k", 1), 77, 12, LSM_TAG_PUT);
	ok(seq_is(lsm_memtable_find(table, 77, lsm_slice("k", 1)), 12) && count_nodes() == 4,
	   "and written");
	lsm_memtable_destroy(table);
}

/* ---- 3: removal ---- */

/* Fresh entries before all others, in no order. */
static void
put_others(int n)
{
	char		buffer[16];

	for (uint32 i = 0; i < n; i++)
	{
		sprintf(buffer, "A%08x", i * 2654435761u);
		put_text(buffer, 3, LSM_TAG_PUT);
	}
}

static void
test_removal(void)
{
	begin_table();
	put_text("b", 6, LSM_TAG_PUT);
	put_text("c", 9, LSM_TAG_PUT);
	lsm_memtable_remove(table, find_text("b"));
	ok(find_text("b") == NULL && count_nodes() == 2, "a node to be linked is removed");
	put_text("b", 12, LSM_TAG_PUT);
	ok(seq_is(find_text("b"), 12) && count_nodes() == 3, "and its key comes back");
	ok(pg_atomic_read_u64(&table->entries) == 4 && pg_atomic_read_u64(&table->removed) == 1,
	   "entries are counted");
	lsm_memtable_destroy(table);
}

static void
hook_remove(void)
{
	LsmMemNode *node = find_text("b");

	if (node != NULL)
		lsm_memtable_remove(table, node);
}

/* At every point of linking it. */
static void
test_removal_while_linking(int others)
{
	int			nlinked = 0;
	int			at = 1;

	yield_rate = 1000000;
	do
	{
		LsmMemNode *node;

		begin_table();
		put_others(others);
		put_text("b", 6, LSM_TAG_PUT);
		node = find_text("b");
		race_hook = hook_remove;
		race_countdown = at++;
		(void) lsm_memtable_first(table);
		expect(nunlinked() == 0, "all are linked");
		nlinked += (node->state & MEM_LINKED) != 0;
		expect(find_text("b") == (race_countdown > 0 ? node : NULL), "it is found until it is removed");
		if (race_countdown > 0)
			break;
		expect(node_is_text(lsm_memtable_seek(table, lsm_slice("b", 1)), "z"), "gone from the order");
		expect(count_nodes() == 1 + others, "the others are there");
		for (int level = 0; level < MEM_MAX_HEIGHT; level++)
		{
			for (LsmMemNode *n = M->head; n != NULL; n = link_node(mem_link(n, level)))
				expect(n != node, "on every level");
		}
		expect(pg_atomic_read_u64(&table->removed) == 1, "one removal is counted");
		lsm_memtable_destroy(table);
	} while (wrong == NULL);
	race_countdown = 0;
	lsm_memtable_destroy(table);
	ok(wrong == NULL && nlinked > 0 && nlinked < at - 1, wrong ? wrong : "removed while it is linked");
}

/* ---- 4: keys that share a digest ---- */

/*
 * How many nodes the digest index knows, all with this digest and different
 * keys; -1: it does not.
 */
static int
find_all(LsmDigest digest)
{
	LsmMemNode *nodes[LSM_MEMTABLE_MAX_SAME];
	int			n = lsm_memtable_find_all(table, digest, lsm_slice("k", 1), nodes);

	for (int i = 0; i < n; i++)
	{
		expect(nodes[i]->digest == digest, "with this digest");
		for (int j = 0; j < i; j++)
			expect(lsm_slice_compare(lsm_memnode_key(nodes[i]), lsm_memnode_key(nodes[j])) != 0,
				   "each once");
	}
	return n;
}

static LsmSlice
same_key(char *buffer, int n)
{
	return lsm_slice(buffer, sprintf(buffer, "k%06d", n));
}

static void
test_same_digest(void)
{
	char		buffer[16];
	int			n = 0;

	begin_table();
	expect(find_all(77) == 0, "none");
	for (; find_all(77) == n && n < 1000; n++)
		put(table, same_key(buffer, n), 77, 3 * n + 3, LSM_TAG_PUT);
	ok(wrong == NULL && n == LSM_MEMTABLE_MAX_SAME + 1 && find_all(77) == -1,
	   wrong ? wrong : "all of a digest are known, up to a bound");
	for (; n < 300; n++)
		put(table, same_key(buffer, n), 77, 3 * n + 3, LSM_TAG_PUT);
	expect(find_all(78) == 0, "of others none");
	for (int i = 0; i < n; i++)
		expect(seq_is(lsm_memtable_find(table, 77, same_key(buffer, i)), 3 * i + 3), "found beyond it");
	expect(lsm_memtable_find(table, 77, same_key(buffer, n)) == NULL, "an absent one is not");
	put(table, same_key(buffer, 0), 77, 9999, LSM_TAG_PUT);
	expect(seq_is(lsm_memtable_find(table, 77, same_key(buffer, 0)), 9999) && count_nodes() == n + 1,
		   "and written");
	ok(wrong == NULL, wrong ? wrong : "beyond the bound the order is asked");
	for (int i = 0; i < n - 2; i++)
		lsm_memtable_remove(table, lsm_memtable_find(table, 77, same_key(buffer, i)));
	for (int i = 0; find_all(77) == -1 && i < 2000; i++)
		 /* someone will look */ ;
	ok(wrong == NULL && find_all(77) == 2, wrong ? wrong : "as long as they live");
	lsm_memtable_destroy(table);

	/* a row that is updated often: a few versions live */
	begin_table();
	for (int i = 0; i < 500; i++)
	{
		put(table, same_key(buffer, (i * 7919) % 1000), 77, 3 * i + 3, LSM_TAG_PUT);
		expect(find_all(77) == Min(i + 1, 4), "what lives is known");
		if (i >= 3)
		{
			LsmMemNode *node = lsm_memtable_find(table, 77, same_key(buffer, ((i - 3) * 7919) % 1000));

			expect(node != NULL && !(node->state & MEM_LINKED), "never linked");
			lsm_memtable_remove(table, node);
			expect(find_all(77) == 3, "what is removed is not");
		}
	}
	expect(count_nodes() == 4, "the order has what is left");
	expect(pg_atomic_read_u64(&table->removed) == 497, "removals are counted");
	ok(wrong == NULL, wrong ? wrong : "versions that come and go need no order");
	lsm_memtable_destroy(table);
}

/* ---- 5: two nodes of a key, which the access methods never bring about ---- */

static void
hook_same_key(void)
{
	put_text("b", 3, LSM_TAG_PUT);
}

static void
test_two_nodes(int others)
{
	int			merged = 0;

	yield_rate = 1000000;
	for (int at = 1; at < 6; at++)
	{
		begin_table();
		put_others(others);
		race_hook = hook_same_key;
		race_countdown = at;
		put_text("b", 6, LSM_TAG_PUT);
		race_countdown = 0;
		merged += nunlinked() == 2 + others;
		expect(count_nodes() == 2 + others && seq_is(find_text("b"), 6), "the newest value wins");
		expect(seq_is(lsm_memtable_seek(table, lsm_slice("b", 1)), 6), "in the skiplist, too");
		expect(pg_atomic_read_u64(&table->entries) == 2 + others, "one is counted");
		lsm_memtable_destroy(table);
	}
	ok(wrong == NULL && merged > 0, wrong ? wrong : "two nodes of a key become one");
}

/* ---- 6: how many, and who links ---- */

/*
 * Fresh entries from a number on; returns the most that were to be linked
 * behind one of them.
 */
static int
put_scattered(uint32 first, int n)
{
	char		buffer[64];
	int			most = 0;

	for (uint32 i = first; i < first + n; i++)
	{
		LsmSlice	key = lsm_slice(buffer, sprintf(buffer, "%08x", i * 2654435761u));

		put(table, key, digest_of(key.data, key.len), 3 * i, LSM_TAG_PUT);
		most = Max(most, nunlinked());
	}
	return most;
}

static void
test_bound(void)
{
	const int	many = 3 * MEM_MOST_UNLINKED;

	begin_table();
	ok(put_scattered(0, many) == many && nunlinked() == many,
	   "without readers no writer links");
	ok(count_nodes() == many + 1 && nunlinked() == 0, "then a reader links");
	ok(put_scattered(3000, 40) == MEM_MAX_UNLINKED - 1 && nunlinked() == 0,
	   "behind it writers link when there are some");
	ok(put_scattered(4000, 80) == 2 * MEM_MAX_UNLINKED - 1 && nunlinked() == 0,
	   "then when there are twice as many");
	ok(put_scattered(5000, 20) == 20 && count_nodes() == many + 141 &&
	   put_scattered(6000, 40) == MEM_MAX_UNLINKED - 1, "a reader has them begin anew");
	ok(put_scattered(10000, many) < MEM_MOST_UNLINKED + MEM_MOST_UNLINKED / 2 + many / 2 &&
	   nunlinked() > MEM_MOST_UNLINKED,
	   "when it would be more than one of them should pay for, they leave it to others");
	ok(count_nodes() == 2 * many + 181 && nunlinked() == 0, "to the next reader");
	lsm_memtable_destroy(table);
	ok(arena_used == 0, "all chunks freed");
}

/* ---- 7: many are sorted ---- */

/*
 * Keys of various forms: their first 8 bytes in no order, in few groups, or
 * all the same.
 */
static LsmSlice
sorted_key(char *buffer, int form, uint32 i)
{
	uint32		scattered = i * 2654435761u;

	switch (form)
	{
		case 0:
			return lsm_slice(buffer, sprintf(buffer, "%08x", scattered));
		case 1:
			return lsm_slice(buffer, sprintf(buffer, "group %d, number %u", scattered % 7, i));
		case 2:
			return lsm_slice(buffer, sprintf(buffer, "number %u", scattered));
		default:				/* some begin with another one */
			return lsm_slice(buffer, sprintf(buffer, "%.*s", 1 + (int) (i % 60),
											 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
	}
}

static void
test_sorted(int form, int nlinked, int n)
{
	char		buffer[96];
	int			total = form == 3 ? Min(nlinked + n, 60) : nlinked + n;

	begin_table();
	for (uint32 i = 0; i < nlinked + n; i++)
	{
		LsmSlice	key = sorted_key(buffer, form, i);

		if (i == nlinked)
			(void) lsm_memtable_first(table);
		M->link_at = PG_UINT64_MAX;
		put(table, key, digest_of(key.data, key.len), 3 * i + 3, LSM_TAG_PUT);
	}
	expect(nunlinked() == Min(n, total - Min(nlinked, total)), "all are to be linked");
	expect(count_nodes() == total + 1 && nunlinked() == 0, "all are linked, in their order");
	for (uint32 i = 0; i < total; i++)
	{
		LsmSlice	key = sorted_key(buffer, form, i);

		expect(lsm_memtable_find(table, digest_of(key.data, key.len), key) ==
			   lsm_memtable_seek(table, key), "each is found by a search");
		if (i % 16 == 3)
		{
			lsm_memtable_remove(table, lsm_memtable_seek(table, key));
			expect(lsm_memtable_find(table, digest_of(key.data, key.len), key) == NULL,
				   "and removed");
		}
	}
	lsm_memtable_destroy(table);
}

static void
test_all_sorted(void)
{
	yield_rate = 1000000;
	for (int i = 0; i < 8; i++)
	{
		no_memory = i >= 4;
		test_sorted(i % 4, 0, 5000);
		test_sorted(i % 4, 0, SORT_FROM);
		test_sorted(i % 4, 1000, 500);
		test_sorted(i % 4, 2000, 500);
		test_sorted(i % 4, 30, 25);
	}
	no_memory = false;
	ok(wrong == NULL, wrong ? wrong : "many nodes are linked in their order, with memory to sort them and without");
	ok(arena_used == 0, "sorted: all chunks freed");
}

/* ---- 8: writers and readers at the same time ---- */

#define STRESS_KEYS		(getenv("LSM_UNIT_SHORT") ? 20000 : 100000)

static uint64 stress_done[NTHREADS];
static int	stress_running;

static LsmSlice
stress_key(char *buffer, uint64 n)
{
	uint64		big = pg_hton64(n * UINT64CONST(0x9E3779B97F4A7C15) >> 1);

	memcpy(buffer, &big, 8);
	memset(buffer + 8, 7, 6);
	return lsm_slice(buffer, 14);
}

static void
stress_writer(int me)
{
	char		buffer[16];

	random_state += me * UINT64CONST(7919);
	for (uint64 n = me; n < STRESS_KEYS; n += NTHREADS)
	{
		LsmSlice	key = stress_key(buffer, n);
		LsmDigest	digest = digest_of(key.data, key.len);

		if (n % 8 < NTHREADS)
			put(table, key, digest, 3 * n + 3, LSM_TAG_PUT);
		else
			put_alone(key, digest, 3 * n + 3, LSM_TAG_PARTIAL);
		expect(seq_is(lsm_memtable_find(table, digest, key), 3 * n + 3), "own insertion found");

		/* now and then in the order, and taken out again */
		if (n % 64 == me)
			expect(seq_is(lsm_memtable_seek(table, key), 3 * n + 3), "own insertion found by a seek");
		if (n % 16 == 1)
			lsm_memtable_remove(table, lsm_memtable_find(table, digest, key));
		__atomic_store_n(&stress_done[me], n + 1, __ATOMIC_RELEASE);
	}
	__atomic_sub_fetch(&stress_running, 1, __ATOMIC_ACQ_REL);
}

static void
stress_reader(int me)
{
	char		buffer[16];
	uint64		passes = 0;

	random_state += me * UINT64CONST(104729);
	while (__atomic_load_n(&stress_running, __ATOMIC_ACQUIRE) > 0)
	{
		int			writer = random_next() % NTHREADS;
		uint64		limit = __atomic_load_n(&stress_done[writer], __ATOMIC_ACQUIRE);
		uint64		n = limit == 0 ? 0 : limit - 1 - NTHREADS * (random_next() % Min(64, (limit + 3) / NTHREADS));
		LsmSlice	key = stress_key(buffer, n);

		if (limit == 0 || n % 16 == 1)
			continue;
		expect(seq_is(lsm_memtable_seek(table, key), 3 * n + 3), "finished insertion found by a seek");
		expect(seq_is(lsm_memtable_seek_last(table, key), 3 * n + 3), "and by the other one");

		/* writers get some time without a reader that keeps the list empty */
		if (++passes % 8 == 0)
			for (int i = 0; i < 100; i++)
				yield_to_others();
	}
}

static void *
stress_body(void *arg)
{
	int			me = (int) (intptr_t) arg;

	if (me < NTHREADS)
		stress_writer(me);
	else
		stress_reader(me);
	return NULL;
}

static void
test_stress(void)
{
	uint64		removed;
	int			keys = STRESS_KEYS;

	yield_rate = 256;
	begin_table();
	put(table, lsm_slice("\377", 1), 1, 6, LSM_TAG_PUT);
	stress_running = NTHREADS;
	run_threads(stress_body, NTHREADS + 2);
	removed = pg_atomic_read_u64(&table->removed);
	ok(wrong == NULL, wrong ? wrong : "writers, removers and readers of the order");
	ok(removed == keys / 16 && count_nodes() == keys + 2 - keys / 16, "all nodes are there");
	ok(pg_atomic_read_u64(&table->entries) == keys + 2, "and counted");
	lsm_memtable_destroy(table);
	ok(arena_used == 0, "stress: all chunks freed");
}

int
main(void)
{
	lsm_memtable_shmem_init();
	test_operations();
	test_same_key();
	test_removal();
	test_removal_while_linking(0);
	test_removal_while_linking(2 * SORT_FROM);
	test_same_digest();
	test_two_nodes(0);
	test_two_nodes(2 * SORT_FROM);
	test_bound();
	test_all_sorted();
	test_stress();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
