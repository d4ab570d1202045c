/*-------------------------------------------------------------------------
 *
 * digest_chain_test.c
 *	  src/tree/memtable/digest_index.c: nodes that share a digest, which come
 *	  and go without a place in the skiplist, or get one meanwhile.  TAP
 *	  output.
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

#include "digest_chain.h"

/* ----------------------------------------------------------------------
 * 1: at each point of what one process does, another one comes in
 * ---------------------------------------------------------------------- */

/* A group of so many keys; of each six these have died, as bits say */
static int	setup_keys = 6;
static int	setup_dead;
static uint64 other_seq;

static inline bool
setup_is_dead(int i)
{
	return (setup_dead & (1 << (i % 6))) != 0;
}

static void
setup_group(void)
{
	begin_table();
	for (int i = 0; i < setup_keys; i++)
		put_key(1, i, 3 * i + 3);
	for (int i = 0; i < setup_keys; i++)
		if (setup_is_dead(i))
			remove_key(1, i);
}

static void
hook_push(void)
{
	put_key(1, 500, other_seq);
	expect_key(1, 500, other_seq);
}

static void
hook_remove_one(void)
{
	remove_key(1, 2);
	expect_key(1, 2, 0);
}

static void
hook_remove_all_and_push(void)
{
	for (int i = 0; i < setup_keys; i++)
	{
		if (!setup_is_dead(i))
		{
			remove_key(1, i);
			expect_key(1, i, 0);
		}
	}
	put_key(1, 500, other_seq);
	expect_key(1, 500, other_seq);
}

/*
 * Many others, so that the index grows; the digest is then new to its newest
 * table.
 */
static void
hook_grow(void)
{
	uint32		before = M->nindexes;

	put_others(MEM_LOAD_FACTOR * MEM_FIRST_BUCKETS + 20);
	expect(M->nindexes > before, "the index grows");
	put_key(1, 500, other_seq);
	expect_key(1, 500, other_seq);
}

/*
 * One process inserts a key of a group of which some have died; at every point
 * of it another one changes the group.
 */
static void
test_push(void (*body) (void), uint64 seq, const char *what)
{
	int			at;

	for (setup_dead = 0; setup_dead < 64; setup_dead += body == hook_grow ? 21 : setup_keys > 6 ? 9 : 5)
	{
		if (body == hook_remove_one && (setup_dead & 4) != 0)
			continue;
		for (at = 1; wrong == NULL; at++)
		{
			int			nkeys = 1;

			setup_group();
			hook_at(at, body);
			put_key(1, 400, seq);
			race_countdown = 0;
			expect_key(1, 400, seq);
			for (int i = 0; i < setup_keys; i++)
			{
				bool		dead = setup_is_dead(i) ||
				(hook_ran && body == hook_remove_one && i == 2) ||
				(hook_ran && body == hook_remove_all_and_push);

				expect_key(1, i, dead ? 0 : 3 * i + 3);
				nkeys += !dead;
			}
			if (hook_ran && body != hook_remove_one)
			{
				expect_key(1, 500, other_seq);
				expect_key_ordered(1, 500, other_seq);
				nkeys++;
				if (body == hook_grow)
					nkeys += MEM_LOAD_FACTOR * MEM_FIRST_BUCKETS + 20;
			}
			expect_key_ordered(1, 400, seq);
			end_table(nkeys);
			if (!hook_ran)
				break;
		}
		expect(at > 2, "the hook ran");
	}
	report(true, what);
}

/*
 * One process looks for all of a group; at every point of that another one
 * changes it.
 */
static void
test_find_all(void (*body) (void), const char *what)
{
	int			at;

	for (setup_dead = 0; setup_dead < 64; setup_dead++)
	{
		for (at = 1; wrong == NULL; at++)
		{
			LsmMemNode *nodes[LSM_MEMTABLE_MAX_SAME];
			char		buffer[KEY_ROOM];
			int			n;

			if (body == hook_remove_one && (setup_dead & 4) != 0)
				break;
			setup_group();
			hook_at(at, body);
			n = lsm_memtable_find_all(table, group_digest(1), group_filter_key(buffer, 1), nodes);
			race_countdown = 0;
			for (int i = 0; i < setup_keys && n >= 0; i++)
			{
				bool		dead = setup_is_dead(i);
				bool		dies = hook_ran && (body == hook_remove_all_and_push ||
												(body == hook_remove_one && i == 2));
				int			found = 0;

				for (int j = 0; j < n; j++)
					found += lsm_slice_compare(lsm_memnode_key(nodes[j]), group_key(buffer, 1, i)) == 0;
				expect(found == !dead || (dies && found == 0), "what lives all the time is found once");
			}
			lsm_memtable_destroy(table);
			if (!hook_ran)
				break;
		}
	}
	report(true, what);
}

/* Too many to be gone through, but of which a sixth is not too many */
#define LONG_KEYS		138

StaticAssertDecl(LONG_KEYS > SAME_WALKED && LONG_KEYS / 6 < LSM_MEMTABLE_MAX_SAME, "a long list");

/*
 * A long list of which most have died: who finds it so drops them, and at
 * every point of that another one comes in.
 */
static void
test_long_list(void (*body) (void), const char *what)
{
	int			npruned = 0;

	setup_keys = LONG_KEYS;
	setup_dead = 62;
	for (int at = 1; wrong == NULL; at++)
	{
		LsmMemNode *nodes[LSM_MEMTABLE_MAX_SAME];
		char		buffer[KEY_ROOM];
		int			nkeys = 0;
		int			n = -1;

		setup_group();
		hook_at(at, body);
		for (int calls = 0; n < 0 && calls < 1000; calls++)
			n = lsm_memtable_find_all(table, group_digest(1), group_filter_key(buffer, 1), nodes);
		race_countdown = 0;
		npruned += n >= 0;
		for (int i = 0; i < setup_keys; i++)
		{
			bool		dead = setup_is_dead(i) || (hook_ran && body != hook_push);

			expect_key(1, i, dead ? 0 : 3 * i + 3);
			nkeys += !dead;
		}
		if (hook_ran)
		{
			expect_key(1, 500, other_seq);
			nkeys++;
		}
		put_key(1, 600, 3);
		expect_key(1, 600, 3);
		expect_key_ordered(1, 600, 3);
		end_table(nkeys + 1);
		if (!hook_ran)
			break;
	}
	setup_keys = 6;
	report(npruned > 10, what);
}

/*
 * Keys of a long list get another value, which only the skiplist finds them
 * for; then most of them die.
 */
static void
test_long_list_values(bool linked)
{
	LsmMemNode *nodes[LSM_MEMTABLE_MAX_SAME];
	char		buffer[KEY_ROOM];
	int			n = -1;

	begin_table();
	for (int i = 0; i < LONG_KEYS; i++)
		put_key(1, i, 3 * i + (linked ? 1 : 3));
	for (int i = 0; i < LONG_KEYS; i += 7)
		put_key(1, i, 1000 + 3 * i);
	for (int i = 0; i < LONG_KEYS; i++)
		expect_key(1, i, i % 7 == 0 ? 1000 + 3 * i : 3 * i + (linked ? 1 : 3));
	expect(!chain_given_up(lsm_digest_index_search(M, group_digest(1))), "it is not given up");
	for (int i = 20; i < LONG_KEYS; i++)
		remove_key(1, i);
	for (int calls = 0; n < 0 && calls < 10000; calls++)
		n = lsm_memtable_find_all(table, group_digest(1), group_filter_key(buffer, 1), nodes);
	expect(n == 20, "when most are gone the digest tells all");
	for (int i = 0; i < LONG_KEYS; i++)
		expect_key_ordered(1, i, i >= 20 ? 0 : i % 7 == 0 ? 1000 + 3 * i : 3 * i + (linked ? 1 : 3));
	end_table(20);
	report(true, linked ? "more values for keys of a long list" : "the same for keys that were linked later");
}

/* So many live that nobody goes through them again. */
static void
test_longest_list(void)
{
	int			n = SAME_MOST + 100;
	char		buffer[KEY_ROOM];
	LsmMemNode *nodes[LSM_MEMTABLE_MAX_SAME];

	begin_table();
	for (int i = 0; i < n; i++)
		put_key(1, i, 3 * i + 3);
	expect(chain_given_up(lsm_digest_index_search(M, group_digest(1))), "it is given up");
	for (int i = 0; i < n; i += 97)
		expect_key(1, i, 3 * i + 3);
	for (int i = 10; i < n; i++)
		remove_key(1, i);
	for (int i = 0; i < 1000; i++)
		expect(lsm_memtable_find_all(table, group_digest(1), group_filter_key(buffer, 1), nodes) == -1,
			   "for good");
	expect_key_ordered(1, 5, 18);
	expect_key_ordered(1, 10, 0);
	end_table(10);
	report(true, "very many keys of a digest");
}

/* ----------------------------------------------------------------------
 * 2: many processes
 * ---------------------------------------------------------------------- */

#define STRESS_STEPS	(getenv("LSM_UNIT_SHORT") ? 2000 : 15000)
#define STRESS_GROUPS	24
#define STRESS_KEYS		5		/* of a writer, in a group */
#define STRESS_OTHERS	3		/* readers, and who removes what is being removed */

/* of each writer, who alone writes its keys */
static struct
{
	uint64		seqs[STRESS_GROUPS][STRESS_KEYS];	/* 0: the key is not there */
	LsmMemNode *dying;			/* for others to remove, too */
	uint64		nput;
}			stress[NTHREADS];
static int	stress_running;

static inline int
stress_n(int me, int k)
{
	return me * 1000 + k;
}

/* Few keys of most groups live, more than the bound of some others. */
static inline int
stress_width(int group)
{
	return group % 8 == 7 ? STRESS_KEYS : 2;
}

static void
stress_check_group(int me, int group)
{
	for (int k = 0; k < STRESS_KEYS; k++)
		expect_key(group, stress_n(me, k), stress[me].seqs[group][k]);
}

static void
stress_writer(int me)
{
	uint64		seq = 3;

	for (int step = 0; step < STRESS_STEPS; step++)
	{
		int			group = random_next() % STRESS_GROUPS;
		int			k = random_next() % stress_width(group);
		uint64	   *there = &stress[me].seqs[group][k];

		/* the index grows, and the order has something to do */
		if (step % 4 == 0)
			put_key(100 + me * 100000 / NTHREADS + (int) (random_next() % 20000), 0, 3);
		seq++;
		if (*there != 0 && random_next() % 4 != 0)
		{
			LsmMemNode *node = find_key(group, stress_n(me, k));

			expect(seq_is(node, *there), "own insertion is found");
			if (node == NULL)
				break;
			__atomic_store_n(&stress[me].dying, node, __ATOMIC_RELEASE);
			if (random_next() % 2 == 0)
				yield_to_others();
			lsm_memtable_remove(table, node);
			*there = 0;
			expect_key(group, stress_n(me, k), 0);
			if (random_next() % 2 == 0)
				continue;
		}
		put_key(group, stress_n(me, k), seq);
		stress[me].nput++;
		*there = seq;
		expect_key(group, stress_n(me, k), seq);
		if (random_next() % 8 == 0)
			stress_check_group(me, group);
		if (random_next() % 32 == 0)
			expect_key_ordered(group, stress_n(me, k), seq);
	}
	__atomic_sub_fetch(&stress_running, 1, __ATOMIC_ACQ_REL);
}

/* Each key once in what is said to be all; in order, too. */
static void
stress_reader(void)
{
	while (__atomic_load_n(&stress_running, __ATOMIC_ACQUIRE) > 0)
	{
		LsmMemNode *nodes[LSM_MEMTABLE_MAX_SAME];
		LsmMemNode *before = NULL;
		char		buffer[KEY_ROOM];
		int			group = random_next() % STRESS_GROUPS;
		LsmSlice	filter_key = group_filter_key(buffer, group);
		int			n = lsm_memtable_find_all(table, group_digest(group), filter_key, nodes);

		for (int i = 0; i < n; i++)
		{
			check_value(lsm_memnode_value(nodes[i]));
			expect(key_begins_with(lsm_memnode_key(nodes[i]), filter_key), "a key of the group");
		}
		if (random_next() % 4 == 0)
		{
			for (LsmMemNode *node = lsm_memtable_seek(table, filter_key);
				 node != NULL && key_begins_with(lsm_memnode_key(node), filter_key);
				 node = lsm_memtable_next(table, node))
			{
				expect(before == NULL ||
					   lsm_slice_compare(lsm_memnode_key(before), lsm_memnode_key(node)) < 0,
					   "keys ascend");
				before = node;
			}
		}
		for (int i = random_next() % 200; i > 0; i--)
			yield_to_others();
	}
}

static void
stress_remover(void)
{
	while (__atomic_load_n(&stress_running, __ATOMIC_ACQUIRE) > 0)
	{
		LsmMemNode *node = __atomic_exchange_n(&stress[random_next() % NTHREADS].dying, NULL,
											   __ATOMIC_ACQ_REL);

		if (node != NULL)
			lsm_memtable_remove(table, node);
		else
			sched_yield();
	}
}

static void *
stress_body(void *arg)
{
	int			me = (int) (intptr_t) arg;

	random_state += me * UINT64CONST(104729);
	if (me < NTHREADS)
		stress_writer(me);
	else if (me < NTHREADS + STRESS_OTHERS - 1)
		stress_reader();
	else
		stress_remover();
	return NULL;
}

static void
test_stress(void)
{
	uint64		nothers;
	int			nkeys = 0;

	yield_rate = 128;
	begin_table();
	memset(stress, 0, sizeof(stress));
	stress_running = NTHREADS;
	run_threads(stress_body, NTHREADS + STRESS_OTHERS);
	for (int me = 0; me < NTHREADS; me++)
	{
		for (int group = 0; group < STRESS_GROUPS; group++)
		{
			stress_check_group(me, group);
			for (int k = 0; k < STRESS_KEYS; k++)
			{
				expect_key_ordered(group, stress_n(me, k), stress[me].seqs[group][k]);
				nkeys += stress[me].seqs[group][k] != 0;
			}
		}
	}
	report(true, "writers, removers and readers of keys that share digests");
	ok(M->nindexes > 1, "the index has grown");
	nothers = 0;
	for (LsmMemNode *node = lsm_memtable_first(table); node; node = lsm_memtable_next(table, node))
		nothers += lsm_memnode_key(node).data[0] == 'g' && lsm_memnode_key(node).len > 0 &&
			memcmp(lsm_memnode_key(node).data, "g00100/", 7) >= 0;
	end_table(nkeys + (int) nothers);
	report(true, "all are in order, and counted");
	ok(arena_used == 0, "all chunks freed");
}

int
main(void)
{
	lsm_memtable_shmem_init();
	yield_rate = 1000000;
	for (int fresh = 1; fresh >= 0; fresh--)
	{
		uint64		seq = fresh ? 99 : 100;

		for (int other_fresh = 1; other_fresh >= 0; other_fresh--)
		{
			other_seq = other_fresh ? 201 : 202;
			test_push(hook_push, seq, "an insertion during an insertion of the same digest");
			test_push(hook_remove_all_and_push, seq, "removals and an insertion during one");
			test_push(hook_grow, seq, "a digest that is added to two tables");
		}
		test_push(hook_remove_one, seq, "a removal during an insertion of the same digest");
	}
	other_seq = 201;
	test_find_all(hook_push, "an insertion during a look for all");
	test_find_all(hook_remove_one, "a removal during a look for all");
	test_find_all(hook_remove_all_and_push, "removals and an insertion during a look for all");
	test_find_all(hook_grow, "the index grows during a look for all");
	setup_keys = 64;
	test_push(hook_push, 99, "an insertion while a long list is cleaned by one");
	test_push(hook_remove_all_and_push, 99, "removals and an insertion while a long list is cleaned");
	setup_keys = 6;
	test_long_list(hook_push, "an insertion while a reader cleans a long list");
	test_long_list(hook_remove_all_and_push, "removals and an insertion while a reader cleans a long list");
	test_long_list_values(false);
	test_long_list_values(true);
	test_longest_list();
	test_stress();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
