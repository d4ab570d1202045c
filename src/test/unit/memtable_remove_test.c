/*-------------------------------------------------------------------------
 *
 * memtable_remove_test.c
 *	  Test of lsm_memtable_remove(): by itself, at every point of another
 *	  operation, and by many at once.  TAP output.
 *
 *	 gcc -std=gnu11 -O1 -g -fsanitize=thread -isystem `pg_config --includedir-server`
 *		 -Isrc src/test/unit/memtable_remove_test.c -o memtable_remove_test -lpthread -lxxhash
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "memtable_harness.h"

/* ---- 4: removal ---- */

/*
 * At rest: every level ascends and is a part of the one below, and no removed
 * node is linked anywhere.  Returns the number of nodes, or -1.
 */
static int64
count_sound(LsmMemtable *memtable)
{
	SkipList   *m = (SkipList *) memtable;
	int64		nodes = 0;

	for (int level = 0; level < MEM_MAX_HEIGHT; level++)
	{
		LsmMemNode *below = m->head;
		LsmMemNode *before = NULL;
		LsmMemNode *node;

		for (node = mem_link(m->head, level); node != NULL; node = mem_link(node, level))
		{
			if (link_marked(node) || level >= node->height ||
				level >= m->max_height || link_marked(mem_link(node, level)))
				return -1;
			if (before != NULL &&
				lsm_slice_compare(lsm_memnode_key(before), lsm_memnode_key(node)) >= 0)
				return -1;
			while (level > 0 && below != NULL && below != node)
				below = mem_link(below, level - 1);
			if (below == NULL)
				return -1;
			before = node;
			if (level == 0)
				nodes++;
		}
	}
	return nodes;
}

static LsmSlice
text_key(const char *text)
{
	return lsm_slice(text, strlen(text));
}

static LsmMemNode *
find_text(const char *text)
{
	return lsm_memtable_find(table, digest_of(text, strlen(text)), text_key(text));
}

static LsmMemNode *
put_text(const char *text, uint64 seq)
{
	put(table, text_key(text), digest_of(text, strlen(text)), seq, LSM_TAG_PUT);
	return find_text(text);
}

static bool
node_is(LsmMemNode *node, const char *text)
{
	return node != NULL && lsm_slice_compare(lsm_memnode_key(node), text_key(text)) == 0;
}

static uint64
removed_count(LsmMemtable *memtable)
{
	return pg_atomic_read_u64(&memtable->removed);
}

static void
test_remove_middle(void)
{
	LsmMemNode *old = find_text("k05");

	lsm_memtable_remove(table, old);
	ok(find_text("k05") == NULL, "removed key is not found by digest");
	ok(node_is(lsm_memtable_seek(table, text_key("k05")), "k06") &&
	   node_is(lsm_memtable_seek_last(table, text_key("k05")), "k04"),
	   "nor by seek and seek_last");
	ok(node_is(lsm_memtable_next(table, find_text("k04")), "k06") &&
	   node_is(lsm_memtable_prev(table, find_text("k06")), "k04"),
	   "nor from its neighbours");
	ok(node_is(lsm_memtable_next(table, old), "k06") &&
	   node_is(lsm_memtable_prev(table, old), "k04"),
	   "who stands on it finds both neighbours");
	ok(node_is(old, "k05") && lsm_memnode_value(old)->seq == 6, "and can still read it");
	ok(removed_count(table) == 1 && count_sound(table) == 19, "one node less");
	lsm_memtable_remove(table, old);
	ok(removed_count(table) == 1 && count_sound(table) == 19, "removed twice: counted once");
}

static void
test_remove_ends(void)
{
	LsmMemNode *first = find_text("k00");
	LsmMemNode *last = find_text("k19");

	lsm_memtable_remove(table, first);
	lsm_memtable_remove(table, last);
	ok(node_is(lsm_memtable_first(table), "k01") &&
	   node_is(lsm_memtable_last(table), "k18"), "first and last without the removed ones");
	ok(lsm_memtable_prev(table, find_text("k01")) == NULL &&
	   lsm_memtable_next(table, find_text("k18")) == NULL, "nothing beyond them");
	ok(lsm_memtable_prev(table, first) == NULL && lsm_memtable_next(table, last) == NULL &&
	   node_is(lsm_memtable_next(table, first), "k01") &&
	   node_is(lsm_memtable_prev(table, last), "k18"), "on from removed ends");
	ok(lsm_memtable_seek(table, text_key("k19")) == NULL &&
	   lsm_memtable_seek_last(table, text_key("k00")) == NULL, "seeks at removed ends");
}

static void
test_remove_reinsert(void)
{
	LsmMemNode *old = find_text("k10");
	LsmMemNode *neighbour = find_text("k11");
	LsmMemNode *new;

	lsm_memtable_remove(table, old);
	put_text("k10a", 101);
	ok(node_is(lsm_memtable_next(table, old), "k10a"),
	   "a removed node's successor may be younger than the removal");
	new = put_text("k10", 102);
	ok(new != NULL && new != old && lsm_memnode_value(new)->seq == 102,
	   "the key again: a new node, found by digest");
	ok(lsm_memtable_seek(table, text_key("k10")) == new &&
	   lsm_memtable_seek_last(table, text_key("k10")) == new &&
	   lsm_memtable_next(table, find_text("k09")) == new, "and by key");
	ok(node_is(lsm_memtable_next(table, old), "k10a") &&
	   node_is(lsm_memtable_prev(table, old), "k09"), "the old node does not lead to its own key");
	ok(put_text("k10", 103) == new && lsm_memnode_value(new)->seq == 103 &&
	   lsm_memnode_value(old)->seq == 11, "updates reach the new node");

	/* a chain of removed nodes, each frozen at another time */
	lsm_memtable_remove(table, find_text("k10a"));
	lsm_memtable_remove(table, neighbour);
	lsm_memtable_remove(table, new);
	put_text("k11a", 104);
	ok(node_is(lsm_memtable_next(table, old), "k11a") &&
	   node_is(lsm_memtable_next(table, new), "k11a") &&
	   node_is(lsm_memtable_next(table, neighbour), "k11a"), "past several removed ones");
	ok(find_text("k10") == NULL && find_text("k10a") == NULL && find_text("k11") == NULL,
	   "removed again");
}

static void
test_remove_all(void)
{
	LsmMemNode *node;
	uint64		entries = pg_atomic_read_u64(&table->entries);

	while ((node = lsm_memtable_first(table)) != NULL)
		lsm_memtable_remove(table, node);
	ok(lsm_memtable_last(table) == NULL && lsm_memtable_seek(table, text_key("a")) == NULL &&
	   lsm_memtable_seek_last(table, text_key("z")) == NULL && count_sound(table) == 0,
	   "all removed");
	ok(pg_atomic_read_u64(&table->entries) == entries && removed_count(table) == entries,
	   "entries ever made stay counted: the log has them");
	ok(put_text("k07", 200) != NULL && count_sound(table) == 1, "and one again");
}

static void
test_remove(void)
{
	char		text[16];

	table = lsm_memtable_create(1, false);
	for (int i = 0; i < 20; i++)
	{
		sprintf(text, "k%02d", i);
		put_text(text, i + 1);
	}
	test_remove_middle();
	test_remove_ends();
	test_remove_reinsert();
	test_remove_all();
	lsm_memtable_destroy(table);
	ok(arena_used == 0, "removal: all chunks freed");
}

/* The node that is the digest's index entry goes; the digest's others stay. */
static void
test_remove_shared_digest(void)
{
	char		buffer[64];
	bool		good = true;
	LsmMemNode *old;

	table = lsm_memtable_create(1, false);
	for (uint32 n = 0; n < 50; n++)
		put(table, make_key(buffer, n), 4711, n + 1, LSM_TAG_PUT);
	old = lsm_memtable_find(table, 4711, make_key(buffer, 0));
	ok(old == lsm_digest_index_search((SkipList *) table, 4711), "the first one is the index entry");
	lsm_memtable_remove(table, old);
	ok(lsm_memtable_find(table, 4711, make_key(buffer, 0)) == NULL, "it is removed");
	for (uint32 n = 1; n < 50; n++)
	{
		LsmMemNode *node = lsm_memtable_find(table, 4711, make_key(buffer, n));

		good &= node != NULL && lsm_memnode_value(node)->seq == n + 1;
	}
	ok(good && lsm_memtable_has_digest(table, 4711, make_key(buffer, 1)),
	   "the others with its digest are found");
	put(table, make_key(buffer, 0), 4711, 100, LSM_TAG_PUT);
	put(table, make_key(buffer, 60), 4711, 101, LSM_TAG_PUT);
	ok(lsm_memtable_find(table, 4711, make_key(buffer, 0)) != old &&
	   lsm_memnode_value(lsm_memtable_find(table, 4711, make_key(buffer, 0)))->seq == 100 &&
	   lsm_memtable_find(table, 4711, make_key(buffer, 60)) != NULL,
	   "a new node of the key, and another key, beside the removed entry");
	lsm_deferred_link_all((SkipList *) table);
	ok(((SkipList *) table)->index_entries == 1 && count_sound(table) == 51,
	   "still one index entry");
	lsm_memtable_destroy(table);
}

/*
 * Every place where another process may come between, one after the other, with
 * everything that it may do there.
 */
static bool hook_removed;		/* by the hook: the key being inserted */

static void
remove_text(const char *text)
{
	LsmMemNode *node = lsm_memtable_seek(table, text_key(text));

	if (node_is(node, text))
		lsm_memtable_remove(table, node);
}

static void
hook_remove_inserted(void)
{
	hook_removed = node_is(lsm_memtable_seek(table, text_key("k25")), "k25");
	remove_text("k25");
}

static void
hook_replace_inserted(void)
{
	remove_text("k25");
	put_text("k25", 300);
}

static void
hook_insert_around(void)
{
	put_text("k24", 301);
	put_text("k26", 302);
}

static void
hook_remove_around(void)
{
	remove_text("k20");
	remove_text("k30");
}

static void
hook_replace_before(void)
{
	remove_text("k20");
	put_text("k20", 303);
	put_text("k21", 304);
}

static void (*const hooks[]) (void) =
{
	hook_remove_inserted, hook_replace_inserted, hook_insert_around,
	hook_remove_around, hook_replace_before
};

static void
check_interleaved(int h, bool inserting)
{
	static const char *const keys[] = {"k10", "k20", "k21", "k24", "k25", "k26", "k30", "k40"};
	int64		live = 0;
	bool		there[lengthof(keys)];

	for (int i = 0; i < lengthof(keys); i++)
	{
		LsmMemNode *node = find_text(keys[i]);

		there[i] = node != NULL;
		live += there[i];
		expect(node_is(lsm_memtable_seek(table, text_key(keys[i])), keys[i]) == there[i],
			   "interleaved: found by digest if and only if by key");
	}
	expect(count_sound(table) == live, "interleaved: levels in order, no removed node");
	expect(live == (int64) (pg_atomic_read_u64(&table->entries) - removed_count(table)),
		   "interleaved: entries and removals are counted");
	expect(there[0] && there[7], "interleaved: bystanders stay");
	expect(there[6] == (hooks[h] != hook_remove_around), "interleaved: k30");
	expect(there[3] == (hooks[h] == hook_insert_around) && there[5] == there[3] &&
		   there[2] == (hooks[h] == hook_replace_before), "interleaved: what was inserted");
	if (inserting)
	{
		expect(there[4] == !hook_removed, "interleaved: k25");
		expect(there[1] == (hooks[h] != hook_remove_around), "interleaved: k20");
	}
	else
	{
		expect(there[4] == (hooks[h] == hook_replace_inserted), "interleaved: no k25");
		expect(there[1] == (hooks[h] == hook_replace_before), "interleaved: k20 removed");
	}
}

static void
test_interleaved(void)
{
	int			fired = 0;

	yield_rate = 1000000;
	tall_nodes = true;
	for (int round = 0; round < 400; round++)
	{
		int			h = round % lengthof(hooks);
		bool		inserting = round / lengthof(hooks) % 4 != 0;
		bool		more = true;

		for (int at = 1; more; at++)
		{
			LsmMemNode *node;

			table = lsm_memtable_create(1, false);
			put_text("k10", 1);
			node = put_text("k20", 2);
			put_text("k30", 3);
			put_text("k40", 4);
			hook_removed = false;
			race_hook = hooks[h];
			race_countdown = at;
			if (inserting)
				put(table, text_key("k25"), digest_of("k25", 3), 5, LSM_TAG_PUT);
			else
				lsm_memtable_remove(table, node);
			more = race_countdown == 0;
			race_countdown = 0;
			if (more)
			{
				fired++;
				check_interleaved(h, inserting);
			}
			lsm_memtable_destroy(table);
		}
	}
	ok(wrong == NULL && fired > 1000, wrong ? wrong : "removal at every point of an insertion or removal");
}

/* ---- 5: removal while others read and write ---- */

/*
 * Groups of six neighbouring keys: one of each writer, which inserts and
 * removes it again and again, and two that are inserted some time and stay.
 */
#define CHURN_GROUPS	48
#define CHURN_KEYS		(CHURN_GROUPS * 6)
#define CHURN_READERS	3
#define CHURN_STEPS		(getenv("LSM_UNIT_SHORT") ? 6000 : 30000)
#define CHURN_ROUNDS	4

static int	churn_round;
static int	churn_running;
static uint64 churn_passes;
static bool stays[CHURN_KEYS];	/* inserted for good */

static bool
is_staying(int n)
{
	return n % 6 == 1 || n % 6 == 4;
}

static LsmSlice
churn_key(char *buffer, int n)
{
	uint32		big = pg_hton32(n);
	int			len = 0;

	/* decided by the prefix, or not */
	if (churn_round % 2 == 1)
		len = sprintf(buffer, "a long prefix");
	memcpy(buffer + len, &big, 4);
	return lsm_slice(buffer, len + 4);
}

static int
churn_number(LsmMemNode *node)
{
	LsmSlice	key = lsm_memnode_key(node);
	uint32		big;

	memcpy(&big, key.data + key.len - 4, 4);
	return pg_ntoh32(big);
}

/* Many keys with one digest in the later rounds */
static LsmDigest
churn_digest(int n)
{
	uint32		key = churn_round >= 2 ? n % 7 : n;

	return digest_of((char *) &key, sizeof(key));
}

static LsmMemNode *
churn_find(int n)
{
	char		buffer[32];
	LsmMemNode *node = lsm_memtable_find(table, churn_digest(n), churn_key(buffer, n));

	expect(node == NULL || churn_number(node) == n, "the right key is found");
	return node;
}

static void
churn_put(int n, uint64 seq)
{
	char		buffer[32];

	put(table, churn_key(buffer, n), churn_digest(n), seq, LSM_TAG_PUT);
}

/* Insert or remove the writer's own key of a group. */
static void
churn_toggle(int n, LsmMemNode **mine, uint64 seq)
{
	char		buffer[32];
	LsmSlice	key = churn_key(buffer, n);
	LsmMemNode *node;

	if (*mine == NULL)
	{
		churn_put(n, seq);
		node = *mine = churn_find(n);
		expect(node != NULL && lsm_memnode_value(node)->seq == seq, "own insert found");
		expect(lsm_memtable_seek(table, key) == node, "own insert found by seek");
		return;
	}
	expect(churn_find(n) == *mine, "own key is there until removed");
	lsm_memtable_remove(table, *mine);
	expect(churn_find(n) == NULL, "own removed key is gone");
	node = lsm_memtable_seek(table, key);
	expect(node == NULL || churn_number(node) > n, "own removed key is gone for seek");
	node = lsm_memtable_seek_last(table, key);
	expect(node == NULL || churn_number(node) < n, "own removed key is gone for seek_last");
	node = lsm_memtable_next(table, *mine);
	expect(node == NULL || churn_number(node) > n, "on from the removed node");
	*mine = NULL;
}

static void
churn_writer(int me)
{
	LsmMemNode *mine[CHURN_GROUPS] = {NULL};
	int			steps = CHURN_STEPS;
	int			stayed = 0;

	for (int i = 0; i < steps; i++)
	{
		/* a few groups at a time, so that the writers meet */
		int			group = (i * CHURN_GROUPS / steps + random_next() % 4) % CHURN_GROUPS;
		int			n = group * 6 + (me < 1 ? 0 : me < 3 ? me + 1 : 5);

		churn_toggle(n, &mine[group], 1 + i);

		/* every writer lets some keys of the groups it is at stay */
		if (random_next() % 16 == 0)
		{
			n = group * 6 + (me % 2 == 0 ? 1 : 4);
			if (group % 2 == me / 2 && !stays[n])
			{
				churn_put(n, n + 1);
				__atomic_store_n(&stays[n], true, __ATOMIC_RELEASE);
				stayed++;
			}
		}
	}
	expect(stayed > 0, "some keys stay");
	for (int group = 0; group < CHURN_GROUPS; group++)
	{
		int			n = group * 6 + (me < 1 ? 0 : me < 3 ? me + 1 : 5);

		expect(churn_find(n) == mine[group], "own key as left");
	}
}

/* The node before; several are found at a time, as many as it comes. */
static LsmMemNode *
churn_prev(LsmMemNode *node, LsmMemNode **nodes, int *at, int *n)
{
	if (*at == *n)
	{
		*at = 0;
		*n = lsm_memtable_prev_many(table, node, random_next() % 7, nodes,
									1 + random_next() % LSM_MEMTABLE_MAX_PREV);
		if (*n == 0)
			return NULL;
	}
	return nodes[(*at)++];
}

/*
 * A pass meets every key once, in order, and all that stayed before it began.
 */
static void
churn_pass(bool forward)
{
	bool		must[CHURN_KEYS];
	int			last = forward ? -1 : CHURN_KEYS;
	LsmMemNode *nodes[LSM_MEMTABLE_MAX_PREV];
	int			at = 0;
	int			found = 0;
	LsmMemNode *node;

	for (int n = 0; n < CHURN_KEYS; n++)
		must[n] = __atomic_load_n(&stays[n], __ATOMIC_ACQUIRE);
	node = forward ? lsm_memtable_first(table) : lsm_memtable_last(table);
	while (node != NULL)
	{
		int			n = churn_number(node);

		check_value(lsm_memnode_value(node));
		expect(forward ? n > last : n < last, "a pass is strictly ordered");
		if (forward ? n <= last : n >= last)
			return;
		must[n] = false;
		last = n;
		node = forward ? lsm_memtable_next(table, node) : churn_prev(node, nodes, &at, &found);
	}
	for (int n = 0; n < CHURN_KEYS; n++)
		expect(!must[n], forward ? "a pass meets every key that stays" :
			   "a backward pass meets every key that stays");
}

static void
churn_lookup(int n)
{
	char		buffer[32];
	LsmSlice	key = churn_key(buffer, n);
	LsmMemNode *node;

	if (!__atomic_load_n(&stays[n], __ATOMIC_ACQUIRE))
		return;
	node = churn_find(n);
	expect(node != NULL && lsm_memnode_value(node)->seq == n + 1, "key that stays is found");
	expect(lsm_memtable_seek(table, key) == node, "by seek too");
	expect(lsm_memtable_seek_last(table, key) == node, "by seek_last too");

	/* from where others come and go */
	node = lsm_memtable_seek(table, churn_key(buffer, n - 1));
	expect(node != NULL && churn_number(node) <= n, "a seek does not pass over it");
	node = lsm_memtable_seek_last(table, churn_key(buffer, n + 1));
	expect(node != NULL && churn_number(node) >= n, "a seek_last does not pass over it");
}

/* Stand on a node while it may be removed, and what comes after it inserted. */
static void
churn_stand(int n)
{
	LsmMemNode *node = churn_find(n);
	LsmMemNode *next;
	bool		must;
	int			neighbour = n + 1;

	if (node == NULL || neighbour >= CHURN_KEYS || !is_staying(neighbour))
		return;
	for (int i = 0; i < 4; i++)
	{
		yield_to_others();
		must = __atomic_load_n(&stays[neighbour], __ATOMIC_ACQUIRE);
		next = lsm_memtable_next(table, node);
		expect(next == NULL || churn_number(next) > n, "next is behind");
		if (must)
			expect(next != NULL && churn_number(next) == neighbour,
				   "next is not behind a key that stays");
	}
}

static void *
churn_body(void *arg)
{
	int			me = (int) (intptr_t) arg;

	random_state += (churn_round * 16 + me + 1) * UINT64CONST(15485863);
	if (me < NTHREADS)
	{
		churn_writer(me);
		__atomic_sub_fetch(&churn_running, 1, __ATOMIC_ACQ_REL);
		return NULL;
	}
	while (__atomic_load_n(&churn_running, __ATOMIC_ACQUIRE) > 0)
	{
		churn_pass(me != NTHREADS);
		for (int i = 0; i < 100; i++)
		{
			churn_lookup((random_next() % CHURN_GROUPS) * 6 + (random_next() % 2 ? 1 : 4));
			churn_stand(random_next() % CHURN_KEYS);
		}
		__atomic_add_fetch(&churn_passes, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void
test_churn(void)
{
	yield_rate = 64;
	for (churn_round = 0; churn_round < CHURN_ROUNDS; churn_round++)
	{
		int64		live;

		tall_nodes = churn_round % 2 == 0;
		memset(stays, 0, sizeof(stays));
		churn_running = NTHREADS;
		table = lsm_memtable_create(churn_round, false);
		run_threads(churn_body, NTHREADS + CHURN_READERS);
		live = count_sound(table);
		expect(live >= 0, "every level in order, without removed nodes");
		expect(live == (int64) (pg_atomic_read_u64(&table->entries) - removed_count(table)),
			   "entries and removals are counted");
		churn_pass(true);
		churn_pass(false);
		lsm_memtable_destroy(table);
	}
	ok(wrong == NULL, wrong ? wrong : "removal under readers and writers");
	ok(churn_passes > 0, "with passes beside");
	ok(arena_used == 0, "removal under readers and writers: all chunks freed");
}

/* All threads insert and remove the same keys. */

#define CONTEND_KEYS	6
#define CONTEND_ROUNDS	(getenv("LSM_UNIT_SHORT") ? 300 : 3000)
#define CONTEND_STEPS	24

static pthread_barrier_t contend_barrier;

static void *
contend_body(void *arg)
{
	random_state += ((intptr_t) arg + 1) * UINT64CONST(32452843);
	pthread_barrier_wait(&contend_barrier);
	for (int i = 0; i < CONTEND_STEPS; i++)
	{
		int			n = random_next() % CONTEND_KEYS;
		LsmMemNode *node = churn_find(n);

		if (node == NULL)
			churn_put(n, random_next() >> 16);
		else
			lsm_memtable_remove(table, node);
		if (i % 8 == 0)
			churn_pass(i % 16 == 0);
	}
	return NULL;
}

static void
test_contend(void)
{
	int			rounds = CONTEND_ROUNDS;

	yield_rate = 16;
	tall_nodes = true;
	memset(stays, 0, sizeof(stays));
	pthread_barrier_init(&contend_barrier, NULL, NTHREADS);
	for (int round = 0; round < rounds; round++)
	{
		int64		live = 0;

		churn_round = round % 4;
		table = lsm_memtable_create(round, false);
		random_state += round;
		run_threads(contend_body, NTHREADS);
		for (int n = 0; n < CONTEND_KEYS; n++)
		{
			char		buffer[32];
			LsmSlice	key = churn_key(buffer, n);
			LsmMemNode *node = lsm_memtable_seek(table, key);

			if (node != NULL && churn_number(node) != n)
				node = NULL;
			live += node != NULL;
			expect(churn_find(n) == node, "found by digest if and only if by key");
		}
		expect(count_sound(table) == live, "contended: levels in order, one node per key");
		expect(live == (int64) (pg_atomic_read_u64(&table->entries) - removed_count(table)),
			   "contended: entries and removals are counted");
		lsm_memtable_destroy(table);
	}
	pthread_barrier_destroy(&contend_barrier);
	ok(wrong == NULL, wrong ? wrong : "the same keys inserted and removed by all");
	ok(arena_used == 0, "contended: all chunks freed");
}
int
main(void)
{
	lsm_memtable_shmem_init();
	test_remove();
	test_remove_shared_digest();
	test_interleaved();
	test_churn();
	test_contend();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
