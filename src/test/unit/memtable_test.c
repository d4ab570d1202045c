/*-------------------------------------------------------------------------
 *
 * memtable_test.c
 *	  Stress test of src/tree/memtable/memtable.c and alloc.c: concurrent
 *	  writers and readers on one memtable, values, memory.  TAP output.
 *
 *	 gcc -std=gnu11 -O1 -g -fsanitize=thread -isystem `pg_config --includedir-server`
 *		 -Isrc src/test/unit/memtable_test.c -o memtable_test -lpthread -lxxhash
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "memtable_harness.h"

/* ---- 1: distinct keys, readers beside ---- */

#define NKEYS		120000

static uint64 inserted[NTHREADS];	/* progress of each writer */
static bool writers_done;

static void *
unique_writer(int me)
{
	char		buffer[64];

	random_state += me * UINT64CONST(7919);
	for (uint32 n = me; n < NKEYS; n += NTHREADS)
	{
		LsmSlice	key = make_key(buffer, n);
		LsmDigest	digest = digest_of(key.data, key.len);
		LsmMemNode *node;

		put(table, key, digest, n + 1, LSM_TAG_PUT);
		node = lsm_memtable_find(table, digest, key);
		expect(node != NULL && lsm_memnode_value(node)->seq == n + 1, "own insert found");
		__atomic_store_n(&inserted[me], n + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void
unique_scan(void)
{
	LsmMemNode *node = lsm_memtable_first(table);
	LsmMemNode *next;

	for (; node != NULL; node = next)
	{
		next = lsm_memtable_next(table, node);
		check_value(lsm_memnode_value(node));
		if (next != NULL)
			expect(lsm_slice_compare(lsm_memnode_key(node), lsm_memnode_key(next)) < 0,
				   "keys ascend");
	}
}

static void *
unique_reader(int me)
{
	char		buffer[64];

	random_state += me * UINT64CONST(104729);
	while (!__atomic_load_n(&writers_done, __ATOMIC_ACQUIRE))
	{
		for (int i = 0; i < 2000; i++)
		{
			int			writer = random_next() % NTHREADS;
			uint64		limit = __atomic_load_n(&inserted[writer], __ATOMIC_ACQUIRE);
			uint32		n;
			LsmSlice	key;
			LsmMemNode *node;

			if (limit == 0)
				continue;
			n = random_next() % limit;
			n -= n % NTHREADS;
			n += writer;
			if (n >= limit)
				continue;
			key = make_key(buffer, n);
			node = lsm_memtable_find(table, digest_of(key.data, key.len), key);
			expect(node != NULL && lsm_memnode_value(node)->seq == n + 1,
				   "finished insert found by digest");
			expect(lsm_memtable_seek(table, key) == node, "seek finds it");
			expect(lsm_memtable_seek_last(table, key) == node, "seek_last finds it");
		}
		unique_scan();
	}
	return NULL;
}

static void *
unique_body(void *arg)
{
	int			me = (int) (intptr_t) arg;
	static int	running = NTHREADS;

	if (me >= NTHREADS)
		return unique_reader(me);
	unique_writer(me);
	if (__atomic_sub_fetch(&running, 1, __ATOMIC_ACQ_REL) == 0)
		__atomic_store_n(&writers_done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void
test_unique(void)
{
	uint64		forward = 0;
	uint64		backward = 0;
	uint64		found = 0;
	char		buffer[64];
	LsmMemNode *node;

	yield_rate = 256;
	table = lsm_memtable_create(7, false);
	ok(table->generation == 7 && !table->local && arena_used == 1, "created");
	run_threads(unique_body, NTHREADS + 2);
	ok(wrong == NULL, wrong ? wrong : "concurrent writers and readers");

	ok(pg_atomic_read_u64(&table->entries) == NKEYS, "counts its nodes");
	ok(((SkipList *) table)->nindexes == 4, "the index has grown");
	ok(pg_atomic_read_u64(&table->bytes) == (uint64) arena_used * LSM_CHUNK_BYTES,
	   "counts its memory");
	for (node = lsm_memtable_first(table); node; node = lsm_memtable_next(table, node))
		forward++;
	ok(forward == NKEYS, "all nodes forward");
	for (node = lsm_memtable_last(table); node; node = lsm_memtable_prev(table, node))
		backward++;
	ok(backward == NKEYS, "all nodes backward");
	for (int level = 2; level <= 6; level += 2)
	{
		LsmMemNode *nodes[LSM_MEMTABLE_MAX_PREV];
		uint64		searches = 0;
		int			n;

		backward = 1;
		node = lsm_memtable_last(table);
		for (; (n = lsm_memtable_prev_many(table, node, level, nodes, 16)) > 0; node = nodes[n - 1])
		{
			searches++;
			backward += n;
			for (int i = 0; i < n; i++)
				expect(lsm_memtable_next(table, nodes[i]) == (i == 0 ? node : nodes[i - 1]),
					   "the nearest first");
		}
		/* a node has neighbours on its level after 2^level others, on average */
		expect(backward == NKEYS && searches >= NKEYS / 16 - 1 &&
			   searches < NKEYS * 3 / Min(1 << level, 16), "and not by as many searches");
	}
	ok(wrong == NULL, wrong ? wrong : "several backward at a time");
	for (uint32 n = 0; n < NKEYS; n++)
	{
		LsmSlice	key = make_key(buffer, n);

		node = lsm_memtable_find(table, digest_of(key.data, key.len), key);
		if (node != NULL && lsm_slice_compare(lsm_memnode_key(node), key) == 0 &&
			lsm_memnode_digest(node) == digest_of(key.data, key.len))
			found++;
	}
	ok(found == NKEYS, "all keys by digest");

	found = 0;
	for (uint32 n = NKEYS; n < 2 * NKEYS; n++)
	{
		LsmSlice	key = make_key(buffer, n);

		if (lsm_memtable_find(table, digest_of(key.data, key.len), key) != NULL ||
			lsm_memtable_has_digest(table, digest_of(key.data, key.len), key))
			found++;
	}
	ok(found == 0, "no key that was not inserted");
	lsm_memtable_destroy(table);
	ok(arena_used == 0, "all chunks freed");
}

/* ---- 2: few keys, all tags, any order of sequence numbers ---- */

#define HOT_KEYS	50
#define HOT_ROUNDS	(getenv("LSM_UNIT_SHORT") ? 12 : 24)
#define HOT_VALUES	(NTHREADS * 24)

static uint64 hot_order[HOT_VALUES];
static pthread_barrier_t hot_barrier;

static LsmTag
hot_tag(uint64 seq)
{
	uint64		r = (seq * UINT64CONST(0x9E3779B97F4A7C15)) >> 40;

	return r % 10 < 7 ? LSM_TAG_PARTIAL : r % 10 < 9 ? LSM_TAG_PUT : LSM_TAG_DELETE;
}

/* What a reader may see once `seq` is in: it, or something that hides it. */
static void
hot_check_visible(LsmMemNode *node, uint64 seq)
{
	LsmMemValue *v = lsm_memnode_value(node);
	LsmMemValue *base = __atomic_load_n(&v->base, __ATOMIC_ACQUIRE);

	check_value(v);
	expect(v->seq >= seq, "newest value is not older than a finished insert");
	if (base != NULL)
	{
		check_value(base);
		expect(value_tag(v) == LSM_TAG_PARTIAL, "only a PARTIAL has a base");
		expect(value_tag(base) != LSM_TAG_PARTIAL, "a base is complete");
		expect(base->seq < v->seq, "a base is older");
	}
	if (hot_tag(seq) != LSM_TAG_PARTIAL && v->seq != seq && value_tag(v) == LSM_TAG_PARTIAL)
		expect(base != NULL && base->seq >= seq,
			   "a finished PUT is the base of a newer PARTIAL");
}

static void *
hot_body(void *arg)
{
	int			me = (int) (intptr_t) arg;
	char		buffer[64];

	random_state += me * UINT64CONST(15485863);
	for (int k = 0; k < HOT_KEYS; k++)
	{
		LsmSlice	key = make_key(buffer, k);
		LsmDigest	digest = digest_of(key.data, key.len);

		pthread_barrier_wait(&hot_barrier);
		for (int i = me; i < HOT_VALUES; i += NTHREADS)
		{
			LsmMemNode *node;

			put(table, key, digest, hot_order[i], hot_tag(hot_order[i]));
			node = lsm_memtable_find(table, digest, key);
			expect(node != NULL, "updated key found");
			if (node != NULL)
				hot_check_visible(node, hot_order[i]);
		}
	}
	return NULL;
}

static void
hot_check_final(void)
{
	char		buffer[64];
	uint64		newest = 0;
	uint64		complete = 0;

	for (int i = 0; i < HOT_VALUES; i++)
		newest = Max(newest, hot_order[i]);
	for (int i = 0; i < HOT_VALUES; i++)
	{
		if (hot_tag(hot_order[i]) != LSM_TAG_PARTIAL)
			complete = Max(complete, hot_order[i]);
	}
	expect(pg_atomic_read_u64(&table->entries) == HOT_KEYS, "one node per key");
	for (int k = 0; k < HOT_KEYS; k++)
	{
		LsmSlice	key = make_key(buffer, k);
		LsmMemNode *node = lsm_memtable_find(table, digest_of(key.data, key.len), key);
		LsmMemValue *v;

		if (node == NULL)
		{
			wrong = "hot key found";
			continue;
		}
		v = lsm_memnode_value(node);
		expect(v->seq == newest, "newest value wins");
		if (value_tag(v) == LSM_TAG_PARTIAL)
			expect(complete == 0 ? v->base == NULL :
				   v->base != NULL && v->base->seq == complete, "base is the newest PUT");
		else
			expect(v->base == NULL, "a PUT has no base");
	}
}

static void
test_hot(void)
{
	put_fresh = false;
	pthread_barrier_init(&hot_barrier, NULL, NTHREADS);
	for (int round = 0; round < HOT_ROUNDS; round++)
	{
		uint64		from = 1 + round * UINT64CONST(1000);

		/* ascending for a while (the normal case), later in any order */
		for (int i = 0; i < HOT_VALUES; i++)
			hot_order[i] = from + i;
		for (int i = HOT_VALUES - 1; round >= 8 && i > 0; i--)
		{
			int			j = random_next() % (i + 1);
			uint64		swap = hot_order[i];

			hot_order[i] = hot_order[j];
			hot_order[j] = swap;
		}
		table = lsm_memtable_create(round, false);
		run_threads(hot_body, NTHREADS);
		hot_check_final();
		lsm_memtable_destroy(table);
	}
	pthread_barrier_destroy(&hot_barrier);
	put_fresh = true;
	ok(wrong == NULL, wrong ? wrong : "hot keys: newest value and base, any order");
	ok(arena_used == 0, "hot keys: all chunks freed");
}

/* ---- 3: the smaller things ---- */

static void
test_values(void)
{
	LsmSlice	key = lsm_slice("key", 3);
	LsmMemValue *v;

	table = lsm_memtable_create(1, false);
	put(table, key, 42, 10, LSM_TAG_PARTIAL);
	put(table, key, 42, 4, LSM_TAG_PUT);
	put(table, key, 42, 6, LSM_TAG_PARTIAL);
	v = lsm_memnode_value(lsm_memtable_find(table, 42, key));
	ok(v->seq == 10 && v->base != NULL && v->base->seq == 4, "late PUT becomes the base");
	put(table, key, 42, 5, LSM_TAG_DELETE);
	put(table, key, 42, 3, LSM_TAG_PUT);
	v = lsm_memnode_value(lsm_memtable_find(table, 42, key));
	ok(v->seq == 10 && v->base->seq == 5, "the newest of late ones is the base");
	put(table, key, 42, 12, LSM_TAG_PARTIAL);
	v = lsm_memnode_value(lsm_memtable_find(table, 42, key));
	ok(v->seq == 12 && v->base->seq == 5, "a newer PARTIAL inherits the base");
	put(table, key, 42, 12, LSM_TAG_PUT);
	v = lsm_memnode_value(lsm_memtable_find(table, 42, key));
	ok(v->seq == 12 && value_tag(v) == LSM_TAG_PARTIAL, "a repeated sequence number is ignored");
	put(table, key, 42, 20, LSM_TAG_DELETE);
	v = lsm_memnode_value(lsm_memtable_find(table, 42, key));
	ok(v->seq == 20 && v->base == NULL, "a newer DELETE hides everything");
	lsm_memtable_destroy(table);
}

static void
test_shared_digest(void)
{
	char		buffer[64];
	int			found = 0;

	/* an index tree: one digest for many keys */
	table = lsm_memtable_create(1, false);
	for (uint32 n = 0; n < 20000; n++)
		put(table, make_key(buffer, n), 4711, n + 1, LSM_TAG_PUT);
	for (uint32 n = 0; n < 20000; n++)
	{
		LsmSlice	key = make_key(buffer, n);
		LsmMemNode *node = lsm_memtable_find(table, 4711, key);

		found += node != NULL && lsm_memnode_value(node)->seq == n + 1;
	}
	ok(found == 20000, "keys that share a digest");
	ok(((SkipList *) table)->index_entries == 1, "one index entry per digest");
	ok(lsm_memtable_has_digest(table, 4711, make_key(buffer, 5)) &&
	   !lsm_memtable_has_digest(table, 4711 + 256, make_key(buffer, 5)),
	   "has_digest");
	ok(lsm_memtable_find(table, 4711, lsm_slice("no", 2)) == NULL, "absent key, known digest");
	lsm_memtable_destroy(table);
}

static void
test_order(void)
{
	static const char *const keys[] = {"a", "a\0", "ab", "abcdefgh", "abcdefgh\0", "abcdefghi", "b", "\xff"};
	static const int lens[] = {1, 2, 2, 8, 9, 9, 1, 1};
	LsmMemNode *node;
	int			i = 0;
	bool		good = true;

	table = lsm_memtable_create(1, false);
	for (int k = 7; k >= 0; k--)
		put(table, lsm_slice(keys[k], lens[k]), digest_of(keys[k], lens[k]), k + 1, LSM_TAG_PUT);
	for (node = lsm_memtable_first(table); node; node = lsm_memtable_next(table, node))
		good &= lsm_memnode_value(node)->seq == ++i;
	ok(good && i == 8, "memcmp order, shorter first");
	ok(lsm_memtable_seek(table, lsm_slice("abc", 3)) ==
	   lsm_memtable_seek(table, lsm_slice("abcdefgh", 8)), "seek to the next larger");
	ok(lsm_memtable_seek_last(table, lsm_slice("abc", 3)) ==
	   lsm_memtable_seek(table, lsm_slice("ab", 2)), "seek_last to the next smaller");
	ok(lsm_memtable_seek_last(table, lsm_slice("A", 1)) == NULL &&
	   lsm_memtable_seek(table, lsm_slice("\xff\xff", 2)) == NULL, "beyond both ends");
	ok(lsm_memtable_seek(table, lsm_slice("", 0)) == lsm_memtable_first(table),
	   "empty key is before all");
	ok(lsm_memtable_may_hold(table, lsm_slice("a", 1)) &&
	   lsm_memtable_may_hold(table, lsm_slice("abcdefgh", 8)) &&
	   lsm_memtable_may_hold(table, lsm_slice("\xff", 1)), "the range has what is there");
	ok(lsm_memtable_may_hold(table, lsm_slice("b0", 2)), "and what is between");
	ok(!lsm_memtable_may_hold(table, lsm_slice("Z", 1)), "but nothing below");
	lsm_memtable_destroy(table);

	/* a filter key is a prefix of the keys it stands for */
	table = lsm_memtable_create(1, false);
	ok(!lsm_memtable_may_hold(table, lsm_slice("k", 1)), "an empty one holds nothing");
	put(table, lsm_slice("key 5/tid", 9), 1, 1, LSM_TAG_PUT);
	ok(lsm_memtable_may_hold(table, lsm_slice("key 5", 5)), "filter key of the only key");
	ok(!lsm_memtable_may_hold(table, lsm_slice("key 4", 5)) &&
	   !lsm_memtable_may_hold(table, lsm_slice("key 6", 5)) &&
	   !lsm_memtable_may_hold(table, lsm_slice("key 6 and more than it", 22)),
	   "filter keys beside it");
	put(table, lsm_slice("key 3", 5), 2, 2, LSM_TAG_PUT);
	put(table, lsm_slice("key 7/tid", 9), 3, 3, LSM_TAG_PUT);
	ok(lsm_memtable_may_hold(table, lsm_slice("key 4", 5)) &&
	   lsm_memtable_may_hold(table, lsm_slice("key 6", 5)) &&
	   !lsm_memtable_may_hold(table, lsm_slice("key 2", 5)) &&
	   !lsm_memtable_may_hold(table, lsm_slice("key 8", 5)), "the range grows both ways");
	ok(!lsm_memtable_may_hold_between(table, lsm_slice("key 1", 5), lsm_slice("key 2", 5)) &&
	   lsm_memtable_may_hold_between(table, lsm_slice("key 2", 5), lsm_slice("key 3", 5)) &&
	   lsm_memtable_may_hold_between(table, lsm_slice("key 1", 5), lsm_slice("key 9", 5)) &&
	   lsm_memtable_may_hold_between(table, lsm_slice("key 7", 5), lsm_slice("key 9", 5)) &&
	   !lsm_memtable_may_hold_between(table, lsm_slice("key 8", 5), lsm_slice("key 9", 5)),
	   "keys between two others");
	lsm_memtable_remove(table, lsm_memtable_find(table, 3, lsm_slice("key 7/tid", 9)));
	ok(lsm_memtable_find(table, 3, lsm_slice("key 7/tid", 9)) == NULL &&
	   lsm_memtable_find(table, 1, lsm_slice("key 5/tid", 9)) != NULL,
	   "a removed bound does not hide the others");
	lsm_memtable_destroy(table);
}

static void
test_memory(void)
{
	char		buffer[64];
	uint32		n = 0;
	bool		full = false;

	/* a small tree is one chunk */
	table = lsm_memtable_create(1, false);
	ok(lsm_memtable_reserve(table, 100, LSM_MAX_ENTRY_BYTES - 100) != NULL && arena_used == 1,
	   "the largest entry fits into the first chunk");
	ok(lsm_memtable_reserve(table, 100, LSM_MAX_ENTRY_BYTES - 100) != NULL && arena_used == 2,
	   "the next one takes a second chunk");
	ok(lsm_memtable_reserve(table, 10, 100) != NULL && arena_used == 2, "small ones fill gaps");
	lsm_memtable_destroy(table);

	arena_limit = 40;
	table = lsm_memtable_create(1, false);
	while (!full && n < 100000)
	{
		LsmSlice	key = make_key(buffer, n);
		void	   *reserved = lsm_memtable_reserve(table, key.len, 50);

		if (reserved == NULL)
			full = true;
		else
		{
			char		data[50] = {LSM_TAG_PUT};

			lsm_memtable_insert(table, reserved, ++n, key, lsm_slice(data, sizeof(data)),
								digest_of(key.data, key.len), false);
		}
	}
	ok(full && arena_used == 40 && n > 5000, "a full arena is reported");

	/* retired: stays until the epoch has passed */
	lsm_memtable_retire(table);
	ok(arena_used == 40, "retired memtable waits for its epoch");
	epoch_safe = table->retire_epoch;
	ok(lsm_memtable_reclaim() == 40 && arena_used == 0, "and is destroyed after it");
	arena_limit = 16384;

	table = lsm_memtable_create(1, true);
	for (n = 0; n < 20000; n++)
	{
		LsmSlice	key = make_key(buffer, n);

		put(table, key, digest_of(key.data, key.len), n + 1, LSM_TAG_PUT);
	}
	ok(pg_atomic_read_u64(&table->entries) == 20000 && arena_used == 0, "local memtable");
	epoch_is_inside = true;
	lsm_memtable_retire(table);
	ok(lsm_memtable_first(table) != NULL, "local memtable retired inside an epoch is readable");
	epoch_is_inside = false;
	lsm_memtable_reclaim_local();
	ok(mem_retired_local == NULL, "and destroyed after it");
}

/* ---- 4: many at once ---- */

#define MANY_BLOCKS	4000
#define MANY_KEYS	24			/* of a block; the first of them comes twice */

static int	block_done[MANY_BLOCKS];
static bool many_done;

/*
 * Some blocks ascend and are written at the end of the list, some lie all over
 * it.
 */
static LsmSlice
many_key(char *buffer, uint32 block, uint32 i)
{
	uint32		n = block * MANY_KEYS + i;

	if (block % 2 == 0)
		return make_key(buffer, n);
	return lsm_slice(buffer, sprintf(buffer, "z%08u", n));
}

static uint64
many_seq(uint32 block, uint32 i)
{
	return (uint64) block * (MANY_KEYS + 1) + i + 1;
}

static void
many_check(uint32 block)
{
	char		buffer[64];

	for (uint32 i = 0; i < MANY_KEYS; i++)
	{
		LsmSlice	key = many_key(buffer, block, i);
		LsmMemNode *node = lsm_memtable_find(table, digest_of(key.data, key.len), key);

		expect(node != NULL && lsm_memnode_value(node)->seq ==
			   many_seq(block, i == 0 ? MANY_KEYS : i), "each of many is found");
		expect(node != NULL && lsm_memtable_seek(table, key) == node, "and by a search");
		expect(lsm_memtable_may_hold(table, key), "and is in the range");
	}
}

static void
many_put(uint32 block)
{
	char		keys[MANY_KEYS + 1][64];
	char		values[MANY_KEYS + 1][9];
	LsmEntry	entries[MANY_KEYS + 1] = {0};

	for (uint32 i = 0; i <= MANY_KEYS; i++)
	{
		LsmEntry   *entry = &entries[i];
		uint64		seq = many_seq(block, i);

		values[i][0] = LSM_TAG_PUT;
		memcpy(values[i] + 1, &seq, 8);
		entry->key = many_key(keys[i], block, i % MANY_KEYS);
		entry->value = lsm_slice(values[i], 9);
		entry->digest = digest_of(entry->key.data, entry->key.len);
		entry->probably_new = block % 5 != 0;
	}
	expect(lsm_memtable_reserve_many(table, entries, MANY_KEYS + 1), "reserve many");
	lsm_memtable_insert_many(table, entries, MANY_KEYS + 1, many_seq(block, 0));
	many_check(block);
	__atomic_store_n(&block_done[block], 1, __ATOMIC_RELEASE);
}

static void *
many_body(void *arg)
{
	int			me = (int) (intptr_t) arg;
	static int	running = NTHREADS;

	random_state += me * UINT64CONST(15485863);
	if (me < NTHREADS)
	{
		for (uint32 block = me; block < MANY_BLOCKS; block += NTHREADS)
			many_put(block);
		if (__atomic_sub_fetch(&running, 1, __ATOMIC_ACQ_REL) == 0)
			__atomic_store_n(&many_done, true, __ATOMIC_RELEASE);
		return NULL;
	}
	while (!__atomic_load_n(&many_done, __ATOMIC_ACQUIRE))
	{
		for (int i = 0; i < 100; i++)
		{
			uint32		block = random_next() % MANY_BLOCKS;

			if (__atomic_load_n(&block_done[block], __ATOMIC_ACQUIRE))
				many_check(block);
		}
		unique_scan();
	}
	return NULL;
}

static void
test_many(void)
{
	uint32		n = 0;
	LsmEntry	entries[3] = {0};

	yield_rate = 256;
	table = lsm_memtable_create(3, false);
	run_threads(many_body, NTHREADS + 2);
	ok(wrong == NULL, wrong ? wrong : "writers of many entries, and readers");
	ok(pg_atomic_read_u64(&table->entries) == MANY_BLOCKS * MANY_KEYS, "one node for each key");

	/* but for keys that came again when the index had just grown */
	ok(((SkipList *) table)->index_entries >= MANY_BLOCKS * MANY_KEYS &&
	   ((SkipList *) table)->index_entries <= MANY_BLOCKS * MANY_KEYS + NTHREADS * MEM_MAX_INDEXES,
	   "one index entry for each key");
	ok(pg_atomic_read_u64(&table->bytes) == (uint64) arena_used * LSM_CHUNK_BYTES,
	   "memory is counted");
	for (LsmMemNode *node = lsm_memtable_first(table); node != NULL;
		 node = lsm_memtable_next(table, node))
		n++;
	ok(n == MANY_BLOCKS * MANY_KEYS, "all of them in a scan");
	lsm_memtable_destroy(table);

	/*
	 * what fits goes into the present chunk, the rest into others, until there
	 * are no more
	 */
	arena_limit = 2;
	table = lsm_memtable_create(4, false);
	for (int i = 0; i < 3; i++)
	{
		entries[i].key.len = 10;
		entries[i].value.len = 12000;
	}
	ok(lsm_memtable_reserve_many(table, entries, 3) && arena_used == 2 &&
	   (char *) entries[1].node - (char *) entries[0].node < 12500,
	   "large entries go to two chunks");
	ok(!lsm_memtable_reserve_many(table, entries, 3) && arena_used == 2,
	   "and no further ones to any");
	lsm_memtable_destroy(table);
	arena_limit = 16384;
}

/* Keys that lie close together, but for two */
static void
test_crowded(void)
{
	char		buffer[64];
	LsmMemNode *node;
	uint64		n = 0;
	bool		ascend = true;

	table = lsm_memtable_create(1, false);
	put(table, lsm_slice("a", 1), 1, 1, LSM_TAG_PUT);
	put(table, lsm_slice("z", 1), 2, 2, LSM_TAG_PUT);
	for (uint32 i = 0; i < 20000; i++)
	{
		LsmSlice	key = lsm_slice(buffer, sprintf(buffer, "crowd %05u", (i * 7919) % 20000));

		put(table, key, digest_of(key.data, key.len), i + 3, LSM_TAG_PUT);
		ascend &= lsm_memtable_seek(table, key) == lsm_memtable_seek_last(table, key);
	}
	for (node = lsm_memtable_first(table); node; node = lsm_memtable_next(table, node))
	{
		LsmMemNode *next = lsm_memtable_next(table, node);

		n++;
		ascend &= next == NULL ||
			lsm_slice_compare(lsm_memnode_key(node), lsm_memnode_key(next)) < 0;
	}
	ok(ascend && n == 20002, "crowded keys in order");
	lsm_memtable_destroy(table);

	/* all with the same prefix */
	table = lsm_memtable_create(1, false);
	for (uint32 i = 0; i < 5000; i++)
	{
		LsmSlice	key = lsm_slice(buffer, sprintf(buffer, "a common prefix %05u",
													(i * 7919) % 20000));

		put(table, key, digest_of(key.data, key.len), i + 1, LSM_TAG_PUT);
	}
	ok(pg_atomic_read_u64(&table->entries) == 5000, "keys with a long prefix in common");
	lsm_memtable_destroy(table);
	ok(arena_used == 0, "all chunks freed");
}

/*
 * The range against all keys, short and long ones with many prefixes in common.
 */
static void
test_range(void)
{
	static const char letters[] = "\0\1a\377";
	char		keys[40][12];
	int			lens[40];
	int			admitted = 0;
	int			rejected = 0;

	yield_rate = 1000000;
	for (int round = 0; round < 2000; round++)
	{
		int			nkeys = 1 + random_next() % 3;

		table = lsm_memtable_create(1, false);
		for (int k = 0; k < 40; k++)
		{
			lens[k] = 1 + random_next() % 12;
			for (int i = 0; i < lens[k]; i++)
				keys[k][i] = letters[random_next() % (i < 7 ? 1 + round % 4 : 4)];
			if (k < nkeys)
				put(table, lsm_slice(keys[k], lens[k]), digest_of(keys[k], lens[k]), k + 1, LSM_TAG_PUT);
		}
		for (int k = 0; k < 40; k++)
		{
			int			above = 0;
			int			below = 0;
			int			equal = 0;
			bool		held = lsm_memtable_may_hold(table, lsm_slice(keys[k], lens[k]));

			for (int i = 0; i < nkeys; i++)
			{
				int			c = memcmp(keys[i], keys[k], Min(lens[i], lens[k]));

				above += c > 0;
				below += c < 0;
				equal += c == 0;
				expect(held || c != 0 || lens[i] < lens[k], "what begins with it is admitted");
			}
			expect(held || above == 0 || below == 0, "so is what lies between two");
			expect(!held || equal > 0 || (above > 0 && below > 0), "what lies outside is not");
			*(held ? &admitted : &rejected) += 1;
		}
		lsm_memtable_destroy(table);
	}
	ok(wrong == NULL && admitted > 1000 && rejected > 1000, wrong ? wrong : "range of the keys");
}

int
main(void)
{
	lsm_memtable_shmem_init();
	test_order();
	test_crowded();
	test_values();
	test_shared_digest();
	test_memory();
	test_hot();
	test_unique();
	test_many();
	test_range();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
