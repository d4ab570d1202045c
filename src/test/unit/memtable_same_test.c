/*-------------------------------------------------------------------------
 *
 * memtable_same_test.c
 *	  src/tree/memindex.c: nodes that share a digest, which come and go without a place in the
 *	  skiplist, or get one meanwhile.  TAP output.
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

#include "memtable_harness.h"

#define M ((Memtable *) table)

/* Keys of a group share its digest and begin with its filter key. */
#define KEY_ROOM	32

static LsmSlice
group_filter_key(char *buffer, int group)
{
	return lsm_slice(buffer, sprintf(buffer, "g%05d/", group));
}

static LsmSlice
group_key(char *buffer, int group, int n)
{
	return lsm_slice(buffer, sprintf(buffer, "g%05d/%06d", group, n));
}

static bool
key_begins_with(LsmSlice key, LsmSlice prefix)
{
	return key.len >= prefix.len && memcmp(key.data, prefix.data, prefix.len) == 0;
}

static LsmDigest
group_digest(int group)
{
	char		buffer[KEY_ROOM];
	LsmSlice	key = group_filter_key(buffer, group);

	return digest_of(key.data, key.len);
}

/* Sequence numbers that 3 divides are those of fresh entries, which are linked later. */
static void
put_key(int group, int n, uint64 seq)
{
	char		buffer[KEY_ROOM];

	put(table, group_key(buffer, group, n), group_digest(group), seq, LSM_TAG_PUT);
}

static LsmMemNode *
find_key(int group, int n)
{
	char		buffer[KEY_ROOM];

	return lsm_memtable_find(table, group_digest(group), group_key(buffer, group, n));
}

static void
remove_key(int group, int n)
{
	LsmMemNode *node = find_key(group, n);

	expect(node != NULL, "what is to be removed is found");
	if (node != NULL)
		lsm_memtable_remove(table, node);
}

static LsmMemNode *
seek_key(int group, int n)
{
	char		buffer[KEY_ROOM];
	LsmSlice	key = group_key(buffer, group, n);
	LsmMemNode *node = lsm_memtable_seek(table, key);

	return node != NULL && lsm_slice_compare(lsm_memnode_key(node), key) == 0 ? node : NULL;
}

static bool
seq_is(LsmMemNode *node, uint64 seq)
{
	return node != NULL && lsm_memnode_value(node)->seq == seq;
}

/* How often the digest index names the key; -1: it does not know all of the group. */
static int
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

/* A key that is there with this sequence number, or (0) not, whoever looks and in what way. */
static void
expect_key(int group, int n, uint64 seq)
{
	int			found = find_among_all(group, n);

	expect(seq == 0 ? find_key(group, n) == NULL : seq_is(find_key(group, n), seq),
		   seq == 0 ? "what is gone is not found" : "what is there is found");
	expect(found == (seq == 0 ? 0 : 1) || found == -1 || (two_nodes && found == 2), "and known to the digest index, or that says so");
}

/* The same in order, which links it. */
static void
expect_key_ordered(int group, int n, uint64 seq)
{
	expect(seq == 0 ? seek_key(group, n) == NULL : seq_is(seek_key(group, n), seq),
		   seq == 0 ? "what is gone is not found in order" : "what is there is found in order");
	expect_key(group, n, seq);
}

/* The next part begins anew. */
static void
report(bool good, const char *what)
{
	char		both[200];

	if (wrong != NULL)
		sprintf(both, "%s: %s", what, wrong);
	ok(good && wrong == NULL, wrong != NULL ? both : what);
	wrong = NULL;
}

/* With something that is greater than all other keys. */
static void
begin_table(void)
{
	table = lsm_memtable_create(1, false);
	put(table, lsm_slice("z", 1), digest_of("z", 1), 3, LSM_TAG_PUT);
}

/* So many keys are there now, and counted. */
static void
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

/* Fresh entries of groups behind these, each of which has a digest of its own. */
static void
put_others(int n)
{
	for (int i = 0; i < n; i++)
		put_key(50000 + (int) (i * UINT64CONST(7919) % 40000), 0, 3);
}

/* ----------------------------------------------------------------------
 * 1: at each point of what one process does, another one comes in
 * ---------------------------------------------------------------------- */

static bool hook_ran;
static void (*hook_body) (void);

static void
run_hook(void)
{
	hook_ran = true;
	hook_body();
}

/* Arms the hook for the n-th point from now. */
static void
hook_at(int n, void (*body) (void))
{
	hook_ran = false;
	hook_body = body;
	race_hook = run_hook;
	race_countdown = n;
}

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

/* Many others, so that the index grows; the digest is then new to its newest table. */
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
 * One process inserts a key of a group of which some have died; at every point of it another one changes the
 * group.
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

/* One process looks for all of a group; at every point of that another one changes it. */
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
 * A long list of which most have died: who finds it so drops them, and at every point of that another one comes
 * in.
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

/* Keys of a long list get another value, which only the skiplist finds them for; then most of them die. */
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
	expect(!same_given_up(lsm_memindex_search(M, group_digest(1))), "it is not given up");
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
	expect(same_given_up(lsm_memindex_search(M, group_digest(1))), "it is given up");
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
 * 2: two nodes of a key
 * ---------------------------------------------------------------------- */

static int	inner_at;
static bool inner_ran;
static bool inner_all;

static void
hook_link(void)
{
	inner_ran = true;
	(void) lsm_memtable_first(table);
}

/*
 * While one process has linked a node of the key, or is about to, and not yet added it to the index: another
 * one's insertion is over, and then its node is merged while a third one looks for the key.
 */
static void
hook_second_node(void)
{
	bool		found;

	put_key(1, 1, 6);
	inner_ran = false;
	race_hook = hook_link;
	race_countdown = inner_at;
	found = inner_all ? find_among_all(1, 1) != 0 : find_key(1, 1) != NULL;
	race_countdown = 0;
	expect(found, "a finished insertion is found while its node is merged");
	expect_key(1, 1, 6);
}

static void
test_merge_and_find(bool all, const char *what)
{
	int			nruns = 0;

	inner_all = all;
	for (int at = 1; wrong == NULL; at++)
	{
		bool		outer_ran = false;

		for (inner_at = 1; wrong == NULL; inner_at++)
		{
			begin_table();
			put_key(1, 0, 3);
			put_key(1, 2, 3);
			inner_ran = false;
			hook_at(at, hook_second_node);
			put_key(1, 1, 4);
			race_countdown = 0;
			outer_ran = hook_ran;
			expect_key_ordered(1, 1, hook_ran ? 6 : 4);
			end_table(3);
			nruns += inner_ran;
			if (!inner_ran)
				break;
		}
		if (!outer_ran)
			break;
	}
	report(nruns > 0, what);
}

static void
hook_same_key(void)
{
	put_key(1, 1, other_seq);
	expect_key(1, 1, Max(other_seq, 4));
	expect(find_key(1, 1) != NULL, "found by who inserted it");
}

/* Two processes link a node of the key at the same time; one of them has only an entry of height 0. */
static void
test_same_key(uint64 seq, int before, const char *what)
{
	int			at;

	other_seq = seq;
	for (at = 1; wrong == NULL; at++)
	{
		begin_table();
		two_nodes = true;
		for (int i = 0; i < before; i++)
			put_key(1, 10 + i, 3);
		hook_at(at, hook_same_key);
		put_key(1, 1, 4);
		race_countdown = 0;
		if (seq % 3 != 0)
			expect_key(1, 1, hook_ran ? seq : 4);
		expect(find_key(1, 1) != NULL, "there is one at any time");
		put_key(1, 2, 6);
		expect_key(1, 2, 6);
		(void) lsm_memtable_first(table);
		two_nodes = false;
		expect_key_ordered(1, 1, hook_ran ? seq : 4);
		expect_key_ordered(1, 2, 6);
		end_table(before + 2);
		if (!hook_ran)
			break;
	}
	report(at > 5, what);
}

/* ----------------------------------------------------------------------
 * 3: a key comes back
 * ---------------------------------------------------------------------- */

static void
hook_remove_and_put(void)
{
	LsmMemNode *node = find_key(1, 1);

	/* nothing that would wait for who links: we are in its place */
	if (node != NULL)
		lsm_memtable_remove(table, node);
	expect_key(1, 1, 0);
	put_key(1, 1, other_seq);
}

/* While its node is linked, among others, it is removed, and put again. */
static void
test_back_while_linking(uint64 seq, int others, const char *what)
{
	int			at;

	other_seq = seq;
	for (at = 1; wrong == NULL; at++)
	{
		begin_table();
		put_others(others);
		put_key(1, 0, 3);
		put_key(1, 1, 3);
		put_key(1, 2, 3);
		hook_at(at, hook_remove_and_put);
		(void) lsm_memtable_first(table);
		race_countdown = 0;
		expect_key(1, 1, hook_ran ? seq : 3);
		expect_key_ordered(1, 1, hook_ran ? seq : 3);
		end_table(3 + others);
		if (!hook_ran)
			break;
	}
	report(at > 5, what);
}

static LsmMemNode *removed_node;

static void
hook_remove_again_and_put(void)
{
	lsm_memtable_remove(table, removed_node);
	expect_key(1, 1, 0);
	put_key(1, 1, other_seq);
	expect_key_ordered(1, 1, other_seq);
}

/* Two remove it at the same time, and the one who is done first puts it again. */
static void
test_back_while_removing(uint64 seq, const char *what)
{
	int			at;

	other_seq = seq;
	for (at = 1; wrong == NULL; at++)
	{
		begin_table();
		put_key(1, 0, 3);
		put_key(1, 1, 3);
		put_key(1, 2, 3);
		(void) lsm_memtable_first(table);
		M->at_once = 0;
		removed_node = find_key(1, 1);
		hook_at(at, hook_remove_again_and_put);
		lsm_memtable_remove(table, removed_node);
		race_countdown = 0;
		expect_key(1, 1, hook_ran ? seq : 0);
		expect_key_ordered(1, 1, hook_ran ? seq : 0);
		end_table(hook_ran ? 3 : 2);
		if (!hook_ran)
			break;
	}
	report(at > 2, what);
}

/* ----------------------------------------------------------------------
 * 4: all die before they are linked
 * ---------------------------------------------------------------------- */

static void
test_all_dead(int n)
{
	begin_table();
	M->link_at = PG_UINT64_MAX;
	for (int i = 0; i < n; i++)
	{
		put_key(i % 7, i, 3);
		remove_key(i % 7, i);
	}
	expect(unlinked_count(M->unlinked) == n, "none is linked");
	expect(lsm_memtable_last(table) == lsm_memtable_first(table), "nothing but the end is left");
	expect(M->unlinked == 0, "the list is empty");
	expect(pg_atomic_read_u64(&table->entries) == n + 1, "entries stay counted");
	end_table(0);
}

/* ----------------------------------------------------------------------
 * 5: many processes
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
				sched_yield();
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
			sched_yield();
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
	test_merge_and_find(false, "nodes of a key are merged while it is looked for");
	test_merge_and_find(true, "nodes of a key are merged during a look for all");
	test_same_key(5, 0, "a key is inserted twice at the same time");
	test_same_key(5, 3, "the same where its digest has an entry");
	test_same_key(6, 0, "by someone who links it later");
	test_same_key(6, 3, "where its digest has an entry");
	test_back_while_linking(7, 0, "a key comes back while its node is linked");
	test_back_while_linking(9, 0, "to be linked later");
	test_back_while_linking(7, 2 * SORT_FROM, "a key comes back while its node is linked among many");
	test_back_while_linking(9, 2 * SORT_FROM, "to be linked later, too");
	test_back_while_removing(7, "a key comes back while another one removes it, too");
	test_back_while_removing(9, "to be linked later, where it was linked");
	test_all_dead(20);
	test_all_dead(1000);
	report(true, "all nodes die before they are linked");
	test_stress();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
