/*-------------------------------------------------------------------------
 *
 * memtable_harness.h
 *	  What the memtable_*test.c share: src/tree/memtable/memtable.c and its
 *	  neighbours by themselves, stand-ins for what they need of the server, and
 *	  the checks.
 *
 * The product has no threads; here they stand for processes, which lets the
 * thread sanitizer look at the lock-free code.  The files under test are
 * included.
 *
 *-------------------------------------------------------------------------
 */
#ifndef MEMTABLE_HARNESS_H
#define MEMTABLE_HARNESS_H

#include "server.h"

#include <pthread.h>
#include <sched.h>

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#include "yield.h"
#include "compat.h"

/* ---- what the server supplies ---- */

/* spinlocks the sanitizer understands */
#undef SpinLockInit
#undef SpinLockAcquire
#undef SpinLockRelease
#define SpinLockInit(l) __atomic_store_n((l), 0, __ATOMIC_RELEASE)
#define SpinLockAcquire(l) \
	do { while (__atomic_exchange_n((l), 1, __ATOMIC_ACQUIRE) != 0) sched_yield(); } while (0)
#define SpinLockRelease(l) __atomic_store_n((l), 0, __ATOMIC_RELEASE)

/* the same for an LWLock: its state is the lock */
#undef LWLockNewTrancheId
#define LWLockNewTrancheId(name) 1
#define LWLockInitialize(l, id) __atomic_store_n(&(l)->state.value, 0, __ATOMIC_RELEASE)
#define LWLockConditionalAcquire(l, mode) \
	(__atomic_exchange_n(&(l)->state.value, 1, __ATOMIC_ACQUIRE) == 0)
#define LWLockAcquire(l, mode) \
	do { while (!LWLockConditionalAcquire(l, mode)) sched_yield(); } while (0)
#define LWLockRelease(l) __atomic_store_n(&(l)->state.value, 0, __ATOMIC_RELEASE)

/*
 * an atomic read is a plain one in PostgreSQL, which the sanitizer takes for a
 * race
 */
#define pg_atomic_read_u64(p) __atomic_load_n(&(p)->value, __ATOMIC_RELAXED)

/* give way at random, so that rare interleavings happen within seconds */
static void race_point(void);

#ifndef MEM_RACE_POINT
#define MEM_RACE_POINT() race_point()
#endif

#include "tree/memtable/retire.c"
#include "tree/memtable/alloc.c"
#include "tree/memtable/node.c"
#include "tree/memtable/skiplist.c"
#include "tree/memtable/digest_index.c"
#include "tree/memtable/deferred_link.c"
#include "tree/memtable/insert.c"
#include "tree/memtable/memtable.c"

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

/*
 * with one thread: what "another process" does at the n-th race point from now
 */
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
		yield_to_others();
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

static inline void
run_threads(void *(*body) (void *), int n)
{
	pthread_t	threads[2 * NTHREADS];

	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, body, (void *) (intptr_t) i);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static inline LsmDigest
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
static inline LsmSlice
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

/*
 * every third entry is said to be fresh: then no other thread may write its
 * key meanwhile
 */
static bool put_fresh = true;

static inline void
put(LsmMemtable *m, LsmSlice key, LsmDigest digest, uint64 seq, LsmTag tag)
{
	char		data[1 + 8];
	void	   *reserved;

	data[0] = (char) tag;
	memcpy(data + 1, &seq, 8);
	reserved = lsm_memtable_reserve(m, key.len, sizeof(data) + 3);
	expect(reserved != NULL, "reserve");
	lsm_memtable_insert(m, reserved, seq, key, lsm_slice(data, sizeof(data)), digest,
						put_fresh && seq % 3 == 0);
}

static inline void
check_value(LsmMemValue *v)
{
	uint64		seq;

	memcpy(&seq, v->data + 1, 8);
	expect(v->len == 9 && seq == v->seq, "value and its sequence number agree");
}

static LsmMemtable *table;

/* Nodes of the table in order, all of which are linked by this. */
static inline int
count_nodes(void)
{
	int			n = 0;
	LsmMemNode *before = NULL;

	for (LsmMemNode *node = lsm_memtable_first(table); node; node = lsm_memtable_next(table, node))
	{
		expect(before == NULL || lsm_slice_compare(lsm_memnode_key(before), lsm_memnode_key(node)) < 0,
			   "keys ascend");
		before = node;
		n++;
	}
	return n;
}

#endif							/* MEMTABLE_HARNESS_H */
