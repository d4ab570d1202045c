/*-------------------------------------------------------------------------
 *
 * gaps_test.c
 *	  src/tree/control/gaps.c: what scans learn about keys without entries, and
 *	  how writers end it.  TAP output.
 *
 * A tree is an array of flags here: whether the key has an entry.  Scans and
 * writers follow the protocol of gaps.h; threads stand for processes.  Against
 * a model, one after the other; then all at once, where each writer must find
 * what it has written, wherever a scan begins.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "postgres.h"

#include <pthread.h>
#include <sched.h>

#include "storage/lwlock.h"

#undef printf
#undef vprintf
#undef sprintf
#include "tap.h"
#include "yield.h"
#include "assertion.h"

#include "compat.h"

/* what the server supplies: a lock the sanitizer understands, a clock, memory */
#undef LWLockNewTrancheId
#define LWLockNewTrancheId(name) 1
#define LWLockInitialize(l, id) __atomic_store_n(&(l)->state.value, 0, __ATOMIC_RELEASE)
#define LWLockAcquire(l, mode) \
	do { while (__atomic_exchange_n(&(l)->state.value, 1, __ATOMIC_ACQUIRE) != 0) sched_yield(); } while (0)
#define LWLockRelease(l) __atomic_store_n(&(l)->state.value, 0, __ATOMIC_RELEASE)

#undef pg_memory_barrier
static int	barrier;
#define pg_memory_barrier() ((void) __atomic_fetch_add(&barrier, 1, __ATOMIC_SEQ_CST))
#define pg_atomic_read_u32(p) __atomic_load_n(&(p)->value, __ATOMIC_SEQ_CST)
#define pg_atomic_write_u32(p, v) __atomic_store_n(&(p)->value, v, __ATOMIC_SEQ_CST)
#define pg_atomic_read_u64(p) __atomic_load_n(&(p)->value, __ATOMIC_RELAXED)

#include "tree/control/gaps.c"

static int64 now_us = INT64CONST(1000000000);

TimestampTz
GetCurrentTimestamp(void)
{
	return __atomic_load_n(&now_us, __ATOMIC_RELAXED);
}

bool
TimestampDifferenceExceeds(TimestampTz start, TimestampTz stop, int msec)
{
	return stop - start >= msec * INT64CONST(1000);
}

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	*found = false;
	return calloc(1, size);
}

/* ---- a tree ---- */

#define NKEYS	512

static LsmTreeShared blocks[2];
static LsmTree trees[2];
static bool has_entry[NKEYS];
static bool long_keys = false;

/* scans give way to other threads, now and then */
static bool yields = false;
static __thread uint64_t yield_seed = 3;

static void
tree_init(int i, uint64 keyspace_id)
{
	memset(&blocks[i], 0, sizeof(blocks[i]));
	memset(&trees[i], 0, sizeof(trees[i]));
	blocks[i].keyspace_id.value = keyspace_id;
	trees[i].ctl = &blocks[i];
	trees[i].keyspace_id = keyspace_id;
	trees[i].kind = LSM_KIND_INDEX;
}

/* Of various lengths, in the order of their numbers; some too long for a gap */
static LsmSlice
make_key(char *buffer, int n)
{
	int			len = sprintf(buffer, "%04d", n);

	while (n % 3 != 0 && len < (long_keys && n % 5 == 0 ? LSM_GAP_KEY_BYTES + 4 : 4 + n % 7))
		buffer[len++] = 'x';
	return lsm_slice(buffer, len);
}

static int
number_of(const LsmGapKey *key)
{
	char		digits[5] = {0};

	memcpy(digits, key->data, Min(key->len, 4));
	return atoi(digits);
}

static void
write_key(LsmTree *tree, int n, bool delete)
{
	char		buffer[LSM_GAP_KEY_BYTES * 2];
	char		tag = delete ? LSM_TAG_DELETE : LSM_TAG_PUT;
	LsmEntry	entry = {.key = make_key(buffer, n), .value = lsm_slice(&tag, 1)};

	__atomic_store_n(&has_entry[n], !delete, __ATOMIC_SEQ_CST);
	lsm_gaps_written(tree, &entry, 1);
}

static inline bool
read_key(int n)
{
	return __atomic_load_n(&has_entry[n], __ATOMIC_SEQ_CST);
}

/* The first key with an entry from `start` on, as a cursor finds it. */
static int
scan(LsmTree *tree, int start, bool learns, int *skipped)
{
	char		buffer[LSM_GAP_KEY_BYTES * 2];
	LsmGapKey	high;
	uint64		watch = 0;
	int			at = start;

	if (lsm_gaps_find(tree, make_key(buffer, start), &high))
		at = number_of(&high);
	if (learns)
		watch = lsm_gaps_watch(tree, make_key(buffer, at));
	for (*skipped = 0; at < NKEYS && !read_key(at); at++)
	{
		(*skipped)++;
		if (yields && random_next(&yield_seed) % 32 == 0)
			yield_to_others();
	}
	if (watch != 0)
		lsm_gaps_learn(tree, watch, make_key(buffer, at));
	return at;
}

/* ---- one after the other ---- */

static int
first_entry(int start)
{
	while (start < NKEYS && !has_entry[start])
		start++;
	return start;
}

static void
test_model(uint64_t seed)
{
	bool		good = true;
	int			skipped;
	int64_t		in_all = 0;
	int			nscans = 0;

	tree_init(0, 1);
	memset(has_entry, 0, sizeof(has_entry));
	for (int i = 0; i < 200000; i++)
	{
		int			n = random_next(&seed) % NKEYS;

		now_us += 10;
		switch (random_next(&seed) % 8)
		{
			case 0:
				if (random_next(&seed) % 4 == 0)
					write_key(&trees[0], n, false);
				break;
			case 1:
			case 2:
			case 3:
				write_key(&trees[0], n, true);
				break;
			case 4:
				if (random_next(&seed) % 1000 == 0)
					lsm_gaps_forget(&trees[0]);
				break;
			default:
				n = random_next(&seed) % 4 == 0 ? n : 0;
				good = good && scan(&trees[0], n, true, &skipped) == first_entry(n);
				in_all += skipped;
				nscans++;
				break;
		}
	}
	ok(good, "scans find the first entry%s", long_keys ? ", with long keys" : "");
	ok(in_all < nscans * 20, "and skip few (%.1f each)", (double) in_all / nscans);
}

static void
test_cases(void)
{
	char		buffer[LSM_GAP_KEY_BYTES * 2];
	char		other[LSM_GAP_KEY_BYTES * 2];
	LsmGapKey	high;
	uint64		watch;
	uint64		stolen;

	tree_init(0, 1);
	ok(lsm_gaps_find(&trees[0], make_key(buffer, 1), &high) == false, "nothing is known at first");
	watch = lsm_gaps_watch(&trees[0], make_key(buffer, 10));
	ok(watch != 0 && lsm_gaps_any(&blocks[0]), "a watch");
	ok(lsm_gaps_watch(&trees[0], make_key(buffer, 10)) == 0, "no second one");
	write_key(&trees[0], 15, false);
	write_key(&trees[0], 30, false);
	write_key(&trees[0], 9, false);
	lsm_gaps_learn(&trees[0], watch, make_key(buffer, 20));
	ok(lsm_gaps_find(&trees[0], make_key(buffer, 12), &high) && number_of(&high) == 15,
	   "the gap ends before what was written meanwhile");
	ok(!lsm_gaps_find(&trees[0], make_key(buffer, 15), &high), "that is not in it");
	ok(!lsm_gaps_find(&trees[0], make_key(buffer, 9), &high), "nor what was before the watch");
	write_key(&trees[0], 12, true);
	ok(lsm_gaps_find(&trees[0], make_key(buffer, 12), &high), "a DELETE changes nothing");
	write_key(&trees[0], 12, false);
	ok(!lsm_gaps_find(&trees[0], make_key(buffer, 12), &high), "an entry does");
	ok(lsm_gaps_find(&trees[0], make_key(buffer, 10), &high) && number_of(&high) == 12 &&
	   lsm_gaps_find(&trees[0], make_key(buffer, 13), &high) && number_of(&high) == 15,
	   "and leaves a gap on either side");

	watch = lsm_gaps_watch(&trees[0], make_key(buffer, 12));
	lsm_gaps_learn(&trees[0], watch, make_key(other, 18));
	ok(lsm_gaps_find(&trees[0], make_key(buffer, 10), &high) && number_of(&high) == 18,
	   "gaps that touch are one");

	watch = lsm_gaps_watch(&trees[0], make_key(buffer, 40));
	now_us += WATCH_MS * 1000;
	stolen = lsm_gaps_watch(&trees[0], make_key(buffer, 60));
	ok(stolen != 0, "a watch that lasts is taken");
	lsm_gaps_learn(&trees[0], watch, make_key(buffer, 50));
	ok(!lsm_gaps_find(&trees[0], make_key(buffer, 45), &high), "and comes to nothing");
	lsm_gaps_learn(&trees[0], stolen, make_key(buffer, 70));
	ok(lsm_gaps_find(&trees[0], make_key(buffer, 65), &high), "the new one does not");

	watch = lsm_gaps_watch(&trees[0], make_key(buffer, 80));
	lsm_gaps_forget(&trees[0]);
	lsm_gaps_learn(&trees[0], watch, make_key(buffer, 90));
	ok(!lsm_gaps_find(&trees[0], make_key(buffer, 65), &high) &&
	   !lsm_gaps_find(&trees[0], make_key(buffer, 85), &high), "all is forgotten, watches, too");

	/* the slot becomes another tree's */
	watch = lsm_gaps_watch(&trees[0], make_key(buffer, 10));
	lsm_gaps_learn(&trees[0], watch, make_key(buffer, 20));
	tree_init(1, 1 ^ UINT64CONST(0x500000005));
	ok(slot_of(&trees[0]) == slot_of(&trees[1]), "two trees share a slot");
	ok(lsm_gaps_watch(&trees[1], make_key(buffer, 10)) == 0, "it is the first one's");
	now_us += SLOT_IDLE_MS * 1000;
	watch = lsm_gaps_watch(&trees[1], make_key(buffer, 10));
	ok(watch != 0, "until it is idle");
	ok(!lsm_gaps_find(&trees[0], make_key(buffer, 15), &high), "then the first one knows nothing");
	write_key(&trees[0], 15, false);
	ok(!lsm_gaps_any(&blocks[0]), "its writers look no more");
	lsm_gaps_learn(&trees[1], watch, make_key(buffer, 20));
	now_us += SLOT_IDLE_MS * 1000;
	watch = lsm_gaps_watch(&trees[0], make_key(buffer, 30));
	ok(watch != 0 && !lsm_gaps_find(&trees[0], make_key(buffer, 15), &high), "it comes back with nothing");
	write_key(&trees[1], 15, false);
	now_us += SLOT_IDLE_MS * 1000;
	(void) lsm_gaps_watch(&trees[1], make_key(buffer, 30));
	ok(!lsm_gaps_find(&trees[1], make_key(buffer, 12), &high), "so does the other");

	/* a control block is given away and taken again: what was written meanwhile was not noted */
	tree_init(0, 77);
	watch = lsm_gaps_watch(&trees[0], make_key(buffer, 10));
	lsm_gaps_learn(&trees[0], watch, make_key(buffer, 20));
	tree_init(0, 77);
	ok(!lsm_gaps_find(&trees[0], make_key(buffer, 15), &high), "a new control block: nothing is known");
	watch = lsm_gaps_watch(&trees[0], make_key(buffer, 30));
	ok(watch != 0 && !lsm_gaps_find(&trees[0], make_key(buffer, 15), &high), "not after a watch either");

	for (int i = 0; i < WRITES_UNASKED + 2; i++)
		write_key(&trees[0], 40, false);
	ok(!lsm_gaps_any(&blocks[0]), "many writes and no scan: given up");
	memset(buffer, 'k', sizeof(buffer));
	ok(lsm_gaps_watch(&trees[0], lsm_slice(buffer, LSM_GAP_KEY_BYTES + 1)) == 0, "no watch from a key too long");
}

/* ---- all at once ---- */

#define NTHREADS	4

static int	rounds;
static const char *volatile wrong = NULL;

/*
 * Keys of the thread's number modulo NTHREADS are its own: it writes one, must
 * not miss it, and deletes it.
 */
static void *
stress_body(void *arg)
{
	int			self = (int) (intptr_t) arg;
	uint64_t	seed = 1000 + self;
	int			skipped;

	for (int i = 0; i < rounds; i++)
	{
		int			n = (int) (random_next(&seed) % (NKEYS / NTHREADS)) * NTHREADS + self;
		int			start = random_next(&seed) % 2 == 0 ? 0 : (int) (random_next(&seed) % (n + 1));

		write_key(&trees[0], n, false);
		if (random_next(&seed) % 16 == 0)
			yield_to_others();
		if (scan(&trees[0], start, random_next(&seed) % 2 == 0, &skipped) > n)
			wrong = "an entry was passed over";
		write_key(&trees[0], n, true);
		(void) scan(&trees[0], 0, true, &skipped);
		if (self == 0 && random_next(&seed) % 5000 == 0)
			lsm_gaps_forget(&trees[0]);
		__atomic_fetch_add(&now_us, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void
test_stress(void)
{
	pthread_t	threads[NTHREADS];

	tree_init(0, 1);
	memset(has_entry, 0, sizeof(has_entry));
	yields = true;
	for (int i = 0; i < NTHREADS; i++)
		pthread_create(&threads[i], NULL, stress_body, (void *) (intptr_t) i);
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(threads[i], NULL);
	ok(wrong == NULL, "%s", wrong ? wrong : "writers find what they have written, beside scans that learn");
}

int
main(void)
{
	rounds = getenv("LSM_UNIT_SHORT") != NULL ? 30000 : 100000;
	lsm_gaps_shmem_init();
	test_cases();
	test_model(1);
	long_keys = true;
	test_model(2);
	test_stress();
	long_keys = false;
	test_stress();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
