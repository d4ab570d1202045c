/*-------------------------------------------------------------------------
 *
 * memtable_test.c
 *	  Stress test of src/tree/memtable.c and memstore.c by themselves: concurrent writers and
 *	  readers on one memtable.  TAP output.
 *
 * The product has no threads; here they stand for processes, which lets the
 * thread sanitizer look at the lock-free code.  The files under test are included
 * and what it needs of the server is replaced below.
 *
 *	 gcc -std=gnu11 -O1 -g -fsanitize=thread -isystem `pg_config --includedir-server`
 *		 -Isrc src/test/unit/memtable_test.c -o memtable_test -lpthread
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")

/* built without the server's headers: nothing to test */
#include <stdio.h>

int
main(void)
{
	printf("1..0 # SKIP no PostgreSQL server headers in the include path\n");
	return 0;
}

#else

#include "postgres.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "storage/spin.h"

/* the real ones: libpgport is not linked */
#undef printf
#undef sprintf

/* ---- what the server supplies ---- */

/* spinlocks the sanitizer understands */
#undef SpinLockInit
#undef SpinLockAcquire
#undef SpinLockRelease
#define SpinLockInit(l) __atomic_store_n((l), 0, __ATOMIC_RELEASE)
#define SpinLockAcquire(l) \
	do { while (__atomic_exchange_n((l), 1, __ATOMIC_ACQUIRE) != 0) sched_yield(); } while (0)
#define SpinLockRelease(l) __atomic_store_n((l), 0, __ATOMIC_RELEASE)

/* give way at random, so that rare interleavings happen within seconds */
static void race_point(void);

#define MEM_RACE_POINT() race_point()

#include "tree/memstore.c"
#include "tree/memtable.c"

MemoryContext TopMemoryContext = NULL;
pg_prng_state pg_global_prng_state;

static __thread uint64 random_state = UINT64CONST(88172645463325252);

static uint64
random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static int	yield_rate = 8;

/* with one thread: what "another process" does at the n-th race point from now */
static void (*race_hook) (void);
static int	race_countdown = 0;

static void
race_point(void)
{
	if (race_countdown > 0 && --race_countdown == 0)
		race_hook();
	if (random_next() % yield_rate != 0)
		return;

	/* now and then for long enough that others do much meanwhile */
	for (int n = random_next() % 8 == 0 ? 30 : 1; n > 0; n--)
		sched_yield();
}

/* half of the nodes go one level up, instead of a quarter */
static bool tall_nodes = false;

uint64
pg_prng_uint64(pg_prng_state *state)
{
	uint64		bits = random_next() * UINT64CONST(0x9E3779B97F4A7C15);

	if (tall_nodes)
	{
		bits &= UINT64CONST(0x5555555555555555);
		bits |= bits << 1;
	}
	return bits;
}

void
ExceptionalCondition(const char *condition, const char *type,
					 const char *file, int line)
{
	printf("Bail out! assertion failed: %s (%s:%d)\n", condition, file, line);
	abort();
}

/* local memtables: a context is a list of blocks */
typedef struct TestBlock
{
	struct TestBlock *next;
	uint64		pad;
} TestBlock;

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name,
							  Size minContextSize, Size initBlockSize,
							  Size maxBlockSize)
{
	return (MemoryContext) calloc(1, sizeof(TestBlock));
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	TestBlock  *first = (TestBlock *) context;
	TestBlock  *block = malloc(sizeof(TestBlock) + size);

	block->next = first->next;
	first->next = block;
	return block + 1;
}

void
MemoryContextDelete(MemoryContext context)
{
	TestBlock  *block = (TestBlock *) context;

	while (block != NULL)
	{
		TestBlock  *next = block->next;

		free(block);
		block = next;
	}
}

void
pfree(void *pointer)
{
	/* the context's list still has it */
}

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	*found = false;
	return calloc(1, size);
}

/* the arena: counted malloc */
static int	arena_used = 0;
static int	arena_limit = 16384;

void *
lsm_arena_allocate_chunk(void)
{
	if (__atomic_add_fetch(&arena_used, 1, __ATOMIC_RELAXED) > arena_limit)
	{
		__atomic_sub_fetch(&arena_used, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	return aligned_alloc(64, LSM_CHUNK_BYTES);
}

void
lsm_arena_free_chunk(void *chunk)
{
	__atomic_sub_fetch(&arena_used, 1, __ATOMIC_RELAXED);
	free(chunk);
}

int
lsm_arena_free_chunks(void)
{
	return arena_limit - __atomic_load_n(&arena_used, __ATOMIC_RELAXED);
}

static uint64 epoch_now = 1;
static uint64 epoch_safe = 0;
static bool epoch_is_inside = false;

uint64
lsm_epoch_advance(void)
{
	return epoch_now++;
}

uint64
lsm_epoch_safe(void)
{
	return epoch_safe;
}

bool
lsm_epoch_inside(void)
{
	return epoch_is_inside;
}

/* ---- test harness ---- */

static int	ntests = 0;
static int	nfailed = 0;

static void
ok(bool good, const char *what)
{
	ntests++;
	if (!good)
		nfailed++;
	printf("%sok %d - %s\n", good ? "" : "not ", ntests, what);
	fflush(stdout);
}

/* set by threads that see something wrong; a failing run reports it */
static const char *volatile wrong = NULL;

static void
expect(bool good, const char *what)
{
	if (!good)
		wrong = what;
}

#define NTHREADS	4

static void
run_threads(void *(*body) (void *), int n)
{
	pthread_t	threads[2 * NTHREADS];

	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, body, (void *) (intptr_t) i);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static LsmDigest
digest_of(const char *key, uint32 len)
{
	uint64		h = UINT64CONST(14695981039346656037);

	for (uint32 i = 0; i < len; i++)
		h = (h ^ (unsigned char) key[i]) * UINT64CONST(1099511628211);
	h ^= h >> 32;
	h *= UINT64CONST(0x9E3779B97F4A7C15);
	return h ^ (h >> 29);
}

/* Keys of several lengths, many with a common prefix of more than 8 bytes */
static LsmSlice
make_key(char *buffer, uint32 n)
{
	uint32		len;

	if (n % 3 == 0)
		len = sprintf(buffer, "a common prefix %u", n);
	else
	{
		uint32		big = pg_hton32(n * 2654435761u);

		memcpy(buffer, &big, 4);
		memcpy(buffer + 4, &n, 2);
		len = 6;
	}
	return lsm_slice(buffer, len);
}

static void
put(LsmMemtable *m, LsmSlice key, LsmDigest digest, uint64 seq, LsmTag tag)
{
	char		data[1 + 8];
	void	   *reserved;

	data[0] = (char) tag;
	memcpy(data + 1, &seq, 8);
	reserved = lsm_memtable_reserve(m, key.len, sizeof(data) + 3);
	expect(reserved != NULL, "reserve");
	lsm_memtable_insert(m, reserved, seq, key, lsm_slice(data, sizeof(data)), digest);
}

static void
check_value(LsmMemValue *v)
{
	uint64		seq;

	memcpy(&seq, v->data + 1, 8);
	expect(v->len == 9 && seq == v->seq, "value and its sequence number agree");
}

/* ---- 1: distinct keys, readers beside ---- */

#define NKEYS		120000

static LsmMemtable *table;
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
	ok(((Memtable *) table)->nindexes == 4, "the index has grown");
	ok(pg_atomic_read_u64(&table->bytes) == (uint64) arena_used * LSM_CHUNK_BYTES,
	   "counts its memory");
	for (node = lsm_memtable_first(table); node; node = lsm_memtable_next(table, node))
		forward++;
	ok(forward == NKEYS, "all nodes forward");
	for (node = lsm_memtable_last(table); node; node = lsm_memtable_prev(table, node))
		backward++;
	ok(backward == NKEYS, "all nodes backward");
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
			lsm_memtable_has_digest(table, digest_of(key.data, key.len)))
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
	ok(((Memtable *) table)->index_entries == 1, "one index entry per digest");
	ok(lsm_memtable_has_digest(table, 4711) && !lsm_memtable_has_digest(table, 4711 + 256),
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
								digest_of(key.data, key.len));
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

/* ---- 4: removal ---- */

/*
 * At rest: every level ascends and is a part of the one below, and no removed node
 * is linked anywhere.  Returns the number of nodes, or -1.
 */
static int64
count_sound(LsmMemtable *memtable)
{
	Memtable   *m = (Memtable *) memtable;
	int64		nodes = 0;

	for (int level = 0; level < MEM_MAX_HEIGHT; level++)
	{
		LsmMemNode *below = m->head;
		LsmMemNode *before = NULL;
		LsmMemNode *node;

		for (node = m->head->next[level]; node != NULL; node = node->next[level])
		{
			if (link_marked(node) || level >= node->height ||
				level >= m->max_height || link_marked(node->next[level]))
				return -1;
			if (before != NULL &&
				lsm_slice_compare(lsm_memnode_key(before), lsm_memnode_key(node)) >= 0)
				return -1;
			while (level > 0 && below != NULL && below != node)
				below = below->next[level - 1];
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
	ok(old == index_search((Memtable *) table, 4711), "the first one is the index entry");
	lsm_memtable_remove(table, old);
	ok(lsm_memtable_find(table, 4711, make_key(buffer, 0)) == NULL, "it is removed");
	for (uint32 n = 1; n < 50; n++)
	{
		LsmMemNode *node = lsm_memtable_find(table, 4711, make_key(buffer, n));

		good &= node != NULL && lsm_memnode_value(node)->seq == n + 1;
	}
	ok(good && lsm_memtable_has_digest(table, 4711), "the others with its digest are found");
	put(table, make_key(buffer, 0), 4711, 100, LSM_TAG_PUT);
	put(table, make_key(buffer, 60), 4711, 101, LSM_TAG_PUT);
	ok(lsm_memtable_find(table, 4711, make_key(buffer, 0)) != old &&
	   lsm_memnode_value(lsm_memtable_find(table, 4711, make_key(buffer, 0)))->seq == 100 &&
	   lsm_memtable_find(table, 4711, make_key(buffer, 60)) != NULL,
	   "a new node of the key, and another key, beside the removed entry");
	ok(((Memtable *) table)->index_entries == 1 && count_sound(table) == 51,
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
 * Groups of six neighbouring keys: one of each writer, which inserts and removes
 * it again and again, and two that are inserted some time and stay.
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

/* A pass meets every key once, in order, and all that stayed before it began. */
static void
churn_pass(bool forward)
{
	bool		must[CHURN_KEYS];
	int			last = forward ? -1 : CHURN_KEYS;
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
		node = forward ? lsm_memtable_next(table, node) : lsm_memtable_prev(table, node);
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
		sched_yield();
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

static void *
contend_body(void *arg)
{
	random_state += ((intptr_t) arg + 1) * UINT64CONST(32452843);
	pthread_barrier_wait(&hot_barrier);
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
	pthread_barrier_init(&hot_barrier, NULL, NTHREADS);
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
	pthread_barrier_destroy(&hot_barrier);
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
	yield_rate = 8;
	tall_nodes = false;
	test_order();
	test_values();
	test_shared_digest();
	test_memory();
	test_hot();
	test_unique();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
