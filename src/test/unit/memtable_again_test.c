/*-------------------------------------------------------------------------
 *
 * memtable_again_test.c
 *	  src/tree/memtable/digest_index.c, deferred_link.c: keys that get two
 *	  nodes, that come back while their node is linked or removed, or go before
 *	  it is.  TAP output.
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

static uint64 other_seq;

/* ----------------------------------------------------------------------
 * 1: two nodes of a key
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
 * While one process has linked a node of the key, or is about to, and not yet
 * added it to the index: another one's insertion is over, and then its node is
 * merged while a third one looks for the key.
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

/*
 * Two processes link a node of the key at the same time; one of them has only
 * an entry of height 0.
 */
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
 * 2: a key comes back
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

/*
 * Two remove it at the same time, and the one who is done first puts it again.
 */
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
 * 3: all die before they are linked
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
 * 4: DELETE entries are remembered
 * ---------------------------------------------------------------------- */

static void
delete_key(int group, int n, uint64 seq)
{
	char		buffer[KEY_ROOM];

	put(table, group_key(buffer, group, n), group_digest(group), seq, LSM_TAG_DELETE);
}

static void
expect_deleted_once(int n, bool had)
{
	LsmMemNode *node = find_key(1, n);

	expect(node != NULL && lsm_memnode_value(node)->data[0] == LSM_TAG_PUT, "there is a PUT");
	expect(node != NULL && lsm_memnode_had_delete(node) == had, "and a DELETE before it, or none");
}

static void
test_had_delete(void)
{
	begin_table();
	put_key(1, 0, 4);
	put_key(1, 0, 5);
	put_key(1, 1, 6);			/* linked later */
	delete_key(1, 2, 4);
	put_key(1, 2, 5);
	delete_key(1, 3, 6);		/* linked later */
	put_key(1, 3, 7);
	put_key(1, 4, 4);
	delete_key(1, 4, 5);
	put_key(1, 4, 7);
	put_key(1, 5, 7);
	delete_key(1, 5, 5);		/* comes late */
	for (int linked = 0; linked < 2; linked++)
	{
		for (int n = 0; n < 6; n++)
			expect_deleted_once(n, n >= 2);
		(void) lsm_memtable_first(table);
	}
	end_table(6);
	report(true, "a node knows that it had a DELETE");
}

static void
hook_delete(void)
{
	delete_key(1, 1, 6);
}

/* While one process PUTs a key, another one's DELETE is in a node of its own. */
static void
test_merged_delete(void)
{
	int			nfound = 0;
	int			at;

	for (at = 1; wrong == NULL; at++)
	{
		begin_table();
		put_key(1, 0, 3);
		hook_at(at, hook_delete);
		put_key(1, 1, 7);
		race_countdown = 0;
		if (hook_ran)
		{
			expect_deleted_once(1, true);
			(void) lsm_memtable_first(table);
			expect_deleted_once(1, true);
			nfound++;
		}
		end_table(2);
		if (!hook_ran)
			break;
	}
	report(nfound > 2, "a DELETE in another node is remembered");
}

int
main(void)
{
	lsm_memtable_shmem_init();
	yield_rate = 1000000;
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
	test_had_delete();
	test_merged_delete();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
