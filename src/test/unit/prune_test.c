/*-------------------------------------------------------------------------
 *
 * prune_test.c
 *	  src/tree/write/prune.c: a dead row leaves the memtables, and nothing of it
 *	  rises.  TAP output.
 *
 * One key, whose values are written as in tree_harness.h: "=a" PUT, "+b"
 * VERSION, "~x" PARTIAL, "-" DELETE.  "S" seals the memtable, "F" flushes the
 * oldest sealed one.  LSM_SEED repeats a run.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "tree_harness.h"

/* ---- what prune.c needs besides ---- */

bool
TransactionIdFollows(TransactionId a, TransactionId b)
{
	return (int32) (a - b) > 0;
}

void
lsm_epoch_enter(void)
{
	abort();
}

void
lsm_epoch_exit(void)
{
	abort();
}

void
lsm_horizon_log(LsmTree *tree, TransactionId xid, bool vacuumed)
{
	abort();
}

void
lsm_write_apply(LsmWrite *write)
{
	abort();
}

void
lsm_opinion_whole(LsmTree *tree, LsmSlice key)
{
	abort();
}

#include "tree/write/prune.c"

static const LsmSlice the_key = {"000001", 6};

static void
do_word(const char *word)
{
	if (*word == 'S')
		expect(seal(), "there is something to seal");
	else if (*word == 'F')
		expect(flush(1), "there is something to flush");
	else
		write_value(the_key, element_of(word, strlen(word)));
}

static void
do_words(const char *text)
{
	char		word[64];
	int			length;

	for (; sscanf(text, " %63s%n", word, &length) == 1; text += length)
		do_word(word);
}

/* The key's value as readers have it, or "" */
static const char *
read_key(StringInfo value)
{
	LsmMemtableSet set;
	LsmFold		fold;

	lsm_fold_begin(&fold, &kind_ops, value);
	resetStringInfo(value);
	lsm_tree_enter(&tree);
	lsm_set_take(&ctl, &set);
	for (int i = 0; i < set.n && !lsm_fold_complete(&fold); i++)
	{
		LsmMemNode *node = lsm_memtable_find(set.tables[i], entry_digest(&tree, the_key), the_key);

		if (node != NULL)
			(void) lsm_fold_add_memvalue(&fold, lsm_memnode_value(node));
	}
	lsm_tree_exit(&tree);
	for (uint64 run = ctl.memory.active_generation; run > 0 && !lsm_fold_complete(&fold); run--)
	{
		for (int i = 0; i < nmetas; i++)
		{
			if (metas[i].run == run)
				(void) lsm_fold_add(&fold, files[metas[i].number]->entries[0].value);
		}
	}
	return lsm_fold_end(&fold) ? text_of(slice_of(value), ' ') : "";
}

/* ---- examples ---- */

static void
test_prune(const char *words, bool pruned, const char *after)
{
	StringInfoData value;
	const char *got;
	char		what[200];
	bool		result;

	initStringInfo(&value);
	init_tree(LSM_KIND_TABLE);
	do_words(words);
	result = lsm_tree_prune(&tree, the_key, 77);
	got = read_key(&value);
	if (strcmp(got, after) != 0)
		printf("# got:      %s\n# expected: %s\n", got, after);
	snprintf(what, sizeof(what), "%s: %s, then \"%s\"", words, pruned ? "pruned" : "not whole in memory", after);
	ok(wrong == NULL && result == pruned && strcmp(got, after) == 0 &&
	   pg_atomic_read_u32(&ctl.rows.pruned_xid) == (pruned ? 77 : 0), what);
	pfree(value.data);
}

static void
test_examples(void)
{
	test_prune("=a", true, "");
	test_prune("=a ~x", true, "");
	test_prune("=a +b", true, "");
	test_prune("=a +b +c ~x", true, "");
	test_prune("=a ~x +b ~y +c", true, "");
	test_prune("+b", false, "+b");
	test_prune("+b ~x", false, "+b/x");
	test_prune("=a S F +b", false, "+b =a");
	test_prune("=a S F +b +c", false, "+c +b =a");
	test_prune("=a - +b", false, "+b");
	test_prune("=a -", false, "");

	/*
	 * What is in a newer memtable stays: the older one may be on its way to a
	 * file
	 */
	test_prune("=a S ~x", true, "");
	test_prune("=a +b S ~x", true, "");
	test_prune("=a S F +b S +c", false, "+c +b =a");

	/*
	 * nor goes what a version in a newer memtable differs from, there or in the
	 * log
	 */
	test_prune("=a S +b", false, "+b =a");
	test_prune("=a +b S +c ~x", false, "+c/x +b =a");
	test_prune("=a S +b S ~x", false, "+b/x =a");
	test_prune("=a ^b<a ~x", true, "");
	test_prune("=a ^b<a S ~x", true, "");
	test_prune("=a S ^b<a", false, "+b =a");
	test_prune("=a S ^b<a S ~x", false, "+b/x =a");
	test_prune("=a S ^b<a ^c<b +d S ~x", false, "+d/x +c +b =a");
}

/* ---- at random ---- */

/* The row's newest version, with what has been written over it */
static void
first_element(const char *text, char *out)
{
	size_t		n = strcspn(text, " ");

	memcpy(out, text, n);
	out[n] = '\0';
}

/* A row is made, changed and ended; what was done is in *words. */
static void
make_row(char *words)
{
	init_tree(LSM_KIND_TABLE);
	words[0] = '\0';
	for (int n = 0, last = random_next() % 8; n <= last; n++)
	{
		char		word[16] = "=a";
		uint64		what = random_next() % 16;

		if (n > 0 && what < 4 && ctl.memory.active != NULL && ctl.memory.nsealed < LSM_MAX_SEALED)
			strcpy(word, "S");
		else if (n > 0 && what < 8 && ctl.memory.nsealed > 0)
			strcpy(word, "F");
		else if (n > 0)
			sprintf(word, what < 12 ? "+%c" : "~%c", 'a' + n);
		do_word(word);
		sprintf(words + strlen(words), "%s ", word);
	}
	do_word("~end");
	strcat(words, "~end");
}

/* The memtable's value of the key, as a flush takes it; false: none. */
static bool
take_value(LsmMemtable *memtable, StringInfo value)
{
	LsmMemNode *node = lsm_memtable_find(memtable, entry_digest(&tree, the_key), the_key);
	LsmFold		fold;

	if (node == NULL)
		return false;
	lsm_fold_begin(&fold, &kind_ops, value);
	(void) lsm_fold_add_memvalue(&fold, lsm_memnode_value(node));
	return true;
}

/*
 * The row is found dead.  Perhaps the oldest memtable is being flushed, and that
 * has taken the row's value already.
 */
static bool
random_row(char *words)
{
	StringInfoData value;
	StringInfoData taken;
	uint64		generation = 0;
	char		before[400];
	char		after[400];
	bool		result;

	initStringInfo(&value);
	initStringInfo(&taken);
	make_row(words);
	first_element(read_key(&value), before);
	if (ctl.memory.nsealed > 0 && random_next() % 2 == 0 && take_value(ctl.memory.sealed[0], &taken))
	{
		generation = ctl.memory.sealed[0]->generation;
		strcat(words, ", on its way to a file");
	}
	result = lsm_tree_prune(&tree, the_key, 77);
	first_element(read_key(&value), after);
	expect(after[0] == '\0' || strcmp(before, after) == 0, "nothing rises when a row is pruned");
	expect(!result || ctl.memory.nsealed > 0 || after[0] == '\0', "it is gone");
	if (generation != 0)
	{
		bool		left = take_value(ctl.memory.sealed[0], &value);

		(void) flush(1);
		if (!left)
		{
			FileEntry	entry = copy_entry(the_key, slice_of(&taken));

			add_file(0, generation, &entry, 1);
			note_version();
		}
		first_element(read_key(&value), after);
		expect(after[0] == '\0' || strcmp(before, after) == 0, "nor by a flush that has its value");
	}
	pfree(value.data);
	pfree(taken.data);
	return result;
}

static void
test_random(void)
{
	char		words[200];
	int			npruned = 0;
	int			round;

	for (round = 0; round < 100000 && wrong == NULL; round++)
		npruned += random_row(words);
	if (wrong != NULL)
		printf("# %s\n", words);
	ok(wrong == NULL && npruned > round / 20 && npruned < round * 19 / 20,
	   wrong != NULL ? wrong : "nothing of a pruned row rises");
}

int
main(void)
{
	random_state = test_seed() * UINT64CONST(0x9E3779B97F4A7C15) + 1;
	yield_rate = 1000000;
	lsm_memtable_shmem_init();
	test_examples();
	test_random();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
