/*-------------------------------------------------------------------------
 *
 * memtable_values_test.c
 *	  src/tree/memtable/node.c: the values of one key, whatever the order in
 *	  which they come, and whoever comes in between; what merge.c makes of them.
 *	  TAP output.
 *
 * A value is a letter and a digit, its sequence number: P for PUT, D for
 * DELETE, o for PARTIAL (an override), V for VERSION.
 *
 * How it is built: memtable_test.c.  LSM_SEED repeats a run.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

/* few, so that short lists have such places */
static int	late_near = 0;
static int	late_far = 2;

#define LATE_NEAR	late_near
#define LATE_FAR	late_far

#define MEM_RACE_POINT() values_race_point()
static void values_race_point(void);

#include "tree_harness.h"

#define M ((SkipList *) table)

#define MAX_VALUES	12

static const LsmTag tags[4] = {LSM_TAG_PUT, LSM_TAG_DELETE, LSM_TAG_PARTIAL, LSM_TAG_VERSION};

typedef struct Value
{
	LsmMemValue value;
	char		data[16];
} Value;

static bool
tag_is_closed(int tag)
{
	return tag == LSM_TAG_PUT || tag == LSM_TAG_DELETE;
}

/* A new node without values; node.c needs no more of it. */
typedef struct KeyNode
{
	LsmMemNode	node;
	Value		room[MAX_VALUES];
	int			n;
} KeyNode;

static Value *
new_value(KeyNode *node, uint64 seq, LsmTag tag)
{
	Value	   *value = &node->room[node->n++];

	value->value.seq = seq;
	value->value.base = NULL;
	value->value.len = 9;
	value->value.data[0] = (char) tag;
	memcpy(value->value.data + 1, &seq, 8);
	return value;
}

static void
add_value(KeyNode *node, uint64 seq, LsmTag tag)
{
	Value	   *value = new_value(node, seq, tag);

	if (node->node.value == 0)
		node->node.value = mem_word(value);
	else
		lsm_memnode_add_value(&node->node, &value->value);
}

/* ---- what is there ---- */

typedef struct Values
{
	int			n;
	uint64		seq[MAX_VALUES];
	int			tag[MAX_VALUES];
} Values;

/* From this value on; what a list must be is found out. */
static void
read_list(LsmMemValue *value, Values *list)
{
	list->n = 0;
	for (; value != NULL; value = lsm_memvalue_older(value))
	{
		if (list->n == MAX_VALUES)
		{
			expect(false, "a list ends");
			return;
		}
		expect(list->n == 0 || list->seq[list->n - 1] > value->seq, "values come newest first");
		expect(list->n == 0 || !tag_is_closed(list->tag[list->n - 1]), "nothing is behind what hides it");
		list->seq[list->n] = value->seq;
		list->tag[list->n++] = value->data[0];
	}
}

static bool
list_has(const Values *list, uint64 seq)
{
	for (int i = 0; i < list->n; i++)
	{
		if (list->seq[i] == seq)
			return true;
	}
	return false;
}

/*
 * A value that was added must be there, or hidden: by a PUT or DELETE; if it is
 * a PARTIAL, by anything that is newer.
 */
static bool
list_keeps(const Values *list, uint64 seq, int tag)
{
	if (list->n == 0)
		return false;
	if (list_has(list, seq))
		return true;
	return list->seq[0] > seq &&
		(tag == LSM_TAG_PARTIAL ||
		 (tag_is_closed(list->tag[list->n - 1]) && list->seq[list->n - 1] > seq));
}

/* ---- the model: a sorted array ---- */

static void
model_add(Values *list, uint64 seq, int tag)
{
	int			at = 0;

	if (list_has(list, seq))
		return;
	while (at < list->n && list->seq[at] > seq)
		at++;
	if (at > 0 && (tag_is_closed(list->tag[at - 1]) ||
				   (tag == LSM_TAG_PARTIAL && list->tag[at - 1] == LSM_TAG_PARTIAL)))
		return;
	if (at == 0 && list->n > 0 && tag == LSM_TAG_PARTIAL && list->tag[0] == LSM_TAG_PARTIAL)
		list->n--;				/* it takes the other one's place */
	else if (list->n > at)
	{
		memmove(&list->seq[at + 1], &list->seq[at], (list->n - at) * sizeof(list->seq[0]));
		memmove(&list->tag[at + 1], &list->tag[at], (list->n - at) * sizeof(list->tag[0]));
	}
	list->seq[at] = seq;
	list->tag[at] = tag;
	list->n = tag_is_closed(tag) ? at + 1 : list->n + 1;
}

static bool
same_list(const Values *a, const Values *b)
{
	return a->n == b->n && memcmp(a->seq, b->seq, a->n * sizeof(a->seq[0])) == 0 &&
		memcmp(a->tag, b->tag, a->n * sizeof(a->tag[0])) == 0;
}

/* ---- saying what is wrong ---- */

static void
print_values(const char *what, const uint64 *seq, const int *tag, int n)
{
	printf("# %s:", what);
	for (int i = 0; i < n; i++)
		printf(" %c%d", "?PDoV"[tag[i]], (int) seq[i]);
	printf("\n");
}

/* The next part begins anew. */
static void
report(bool good, const char *what)
{
	char		both[200];

	if (wrong != NULL)
		snprintf(both, sizeof(both), "%s: %s", what, wrong);
	ok(good && wrong == NULL, wrong != NULL ? both : what);
	wrong = NULL;
}

/* ----------------------------------------------------------------------
 * 1: all orders of six values
 * ---------------------------------------------------------------------- */

#define SIX			6

static bool
next_order(int *order, int n)
{
	int			i = n - 2;
	int			j = n - 1;

	while (i >= 0 && order[i] > order[i + 1])
		i--;
	if (i < 0)
		return false;
	while (order[j] < order[i])
		j--;
	for (int swap = order[i]; swap != -1; swap = -1)
	{
		order[i] = order[j];
		order[j] = swap;
	}
	for (int a = i + 1, b = n - 1; a < b; a++, b--)
	{
		int			swap = order[a];

		order[a] = order[b];
		order[b] = swap;
	}
	return true;
}

/* Every value but PARTIALs, from the newest to the first that hides the rest */
static void
expect_all(const Values *list, const int *tag, int n)
{
	bool		hidden = false;

	for (int i = n - 1; i >= 0; i--)
	{
		if (i == n - 1 || tag[i] != LSM_TAG_PARTIAL)
			expect(list_has(list, i + 1) == !hidden, "whatever the order, what counts is there");
		hidden |= tag_is_closed(tag[i]);
	}
}

/* What a reader makes of the list, and of the model's values one by one */
static void
expect_folded(LsmMemNode *node, const Values *model)
{
	static StringInfoData got;
	static StringInfoData expected;
	LsmFold		fold;
	bool		complete;

	if (got.data == NULL)
	{
		initStringInfo(&got);
		initStringInfo(&expected);
	}
	lsm_fold_begin(&fold, &kind_ops, &expected);
	for (int i = 0; i < model->n; i++)
	{
		char		data[9];

		data[0] = (char) model->tag[i];
		memcpy(data + 1, &model->seq[i], 8);
		(void) lsm_fold_add(&fold, lsm_slice(data, sizeof(data)));
	}
	complete = lsm_fold_complete(&fold);
	lsm_fold_begin(&fold, &kind_ops, &got);
	expect(lsm_fold_add_memvalue(&fold, lsm_memnode_value(node)) == complete, "folded to the end");
	expect(got.len == expected.len && memcmp(got.data, expected.data, got.len) == 0,
		   "the values of the list are folded");
}

static void
test_one_order(const int *tag, const int *order)
{
	KeyNode		node = {0};
	Values		model = {0};
	Values		list;

	for (int i = 0; i < SIX; i++)
	{
		uint64		seq = order[i] + 1;
		bool		whole;

		add_value(&node, seq, tag[order[i]]);
		model_add(&model, seq, tag[order[i]]);
		read_list(lsm_memnode_value(&node.node), &list);
		expect(same_list(&list, &model), "as in a sorted array");
		whole = list.tag[list.n - 1] == LSM_TAG_PUT;
		expect(lsm_memnode_is_whole(&node.node) == whole, "whole down to a PUT, or not");

		/* once more: a load and redo both bring it */
		if (list_has(&list, seq))
		{
			add_value(&node, seq, tag[order[i]]);
			read_list(lsm_memnode_value(&node.node), &list);
			expect(same_list(&list, &model), "the same value twice");
		}
	}
	expect_all(&list, tag, SIX);
	expect_folded(&node.node, &model);
	if (wrong != NULL)
	{
		uint64		seqs[SIX];
		int			tags_in_order[SIX];

		for (int i = 0; i < SIX; i++)
		{
			seqs[i] = order[i] + 1;
			tags_in_order[i] = tag[order[i]];
		}
		print_values("came", seqs, tags_in_order, SIX);
		print_values("expected", model.seq, model.tag, model.n);
		print_values("got", list.seq, list.tag, list.n);
	}
}

static void
test_orders(void)
{
	int			step = getenv("LSM_UNIT_SHORT") ? 23 : 1;
	int			nruns = 0;

	for (int which = 0; which < 4 * 4 * 4 * 4 * 4 * 4; which += step)
	{
		int			order[SIX] = {0, 1, 2, 3, 4, 5};
		int			tag[SIX];

		for (int i = 0; i < SIX; i++)
			tag[i] = tags[(which >> (2 * i)) % 4];
		do
		{
			if (wrong == NULL)
				test_one_order(tag, order);
			nruns++;
		} while (next_order(order, SIX));
	}
	report(nruns >= 4096 / step * 720, "six values in all 720 orders");
}

/* ----------------------------------------------------------------------
 * 2: others come in between
 *
 * One process adds a value.  At some point of that another one adds one, and
 * at some point of that a third one; or others come at random, one after the
 * other, and amid each other.  Readers begin at any point, and go on after any
 * other.
 * ---------------------------------------------------------------------- */

#define MAX_READERS 400

typedef struct Reader
{
	LsmMemValue *at;
	uint32		added;			/* what it must see */
} Reader;

static bool counting;
static uint64 nsteps;

static struct
{
	bool		on;
	KeyNode	   *node;
	int			next;			/* number of the value that comes next */
	int			points[2];		/* of the second and third one, from the last
								 * one's beginning; 0: at random */
	int			npoints;		/* that are over */
	int			countdown;
	uint32		added;			/* values whose addition is over */
	int			nreaders;
	Reader		readers[MAX_READERS];
} between;

static void
check_reader(const Reader *reader, const char *what)
{
	Values		list;

	read_list(reader->at, &list);
	for (int i = 0; i < between.node->n; i++)
	{
		const LsmMemValue *value = &between.node->room[i].value;

		if ((reader->added & (UINT32_C(1) << i)) != 0)
			expect(list_keeps(&list, value->seq, value->data[0]), what);
	}
}

static void
check_now(const char *what)
{
	Reader		reader = {lsm_memnode_value(&between.node->node), between.added};

	check_reader(&reader, what);
}

static void
add_coming(void)
{
	int			i = between.next++;

	between.countdown = between.npoints < 2 ? between.points[between.npoints++] : 0;
	lsm_memnode_add_value(&between.node->node, &between.node->room[i].value);
	between.added |= UINT32_C(1) << i;
	check_now("what was added is there");
}

static void
values_race_point(void)
{
	if (!between.on)
	{
		if (counting)
			nsteps++;
		else
			race_point();
		return;
	}
	check_now("what was added is there all the time");
	if (between.nreaders < MAX_READERS)
	{
		between.readers[between.nreaders].at = lsm_memnode_value(&between.node->node);
		between.readers[between.nreaders++].added = between.added;
	}
	while (between.next < between.node->n &&
		   (between.points[0] == 0 ? random_next() % 4 == 0 : --between.countdown == 0))
	{
		add_coming();
		for (int i = 0; i < between.nreaders; i++)
			check_reader(&between.readers[i], "who reads finds all that was there");
	}
}

/* The first `nsettled` values are there, the others come; how many did. */
static int
run_between(KeyNode *node, int nsettled, int point1, int point2)
{
	between.on = true;
	between.node = node;
	between.next = nsettled;
	between.nreaders = 0;
	between.added = (UINT32_C(1) << nsettled) - 1;
	between.points[0] = point1;
	between.points[1] = point2;
	between.npoints = 0;
	add_coming();
	while (point1 == 0 && between.next < node->n)
		add_coming();
	for (int i = 0; i < between.nreaders; i++)
		check_reader(&between.readers[i], "who read found all that was there");
	between.on = false;
	return between.next - nsettled;
}

static void
explain_between(const KeyNode *node, int nsettled, int point1, int point2)
{
	uint64		seq[MAX_VALUES];
	int			tag[MAX_VALUES];
	Values		list;

	for (int i = 0; i < node->n; i++)
	{
		seq[i] = node->room[i].value.seq;
		tag[i] = node->room[i].value.data[0];
	}
	read_list(lsm_memnode_value((LsmMemNode *) &node->node), &list);
	print_values("values", seq, tag, node->n);
	print_values("at last", list.seq, list.tag, list.n);
	printf("# %d were there, points %d and %d\n", nsettled, point1, point2);
}

/* False: not all came. */
static bool
test_points(const uint64 *seq, const LsmTag *tag, int n, int nsettled, int point1, int point2,
			int *ncame)
{
	KeyNode		node = {0};

	for (int i = 0; i < n; i++)
	{
		if (i < nsettled)
			add_value(&node, seq[i], tag[i]);
		else
			(void) new_value(&node, seq[i], tag[i]);
	}
	*ncame = run_between(&node, nsettled, point1, point2);
	if (wrong != NULL)
		explain_between(&node, nsettled, point1, point2);
	return wrong == NULL && nsettled + *ncame == n;
}

/* All pairs of points; returns in how many all three came. */
static int
test_all_points(const uint64 *seq, const LsmTag *tag, int n)
{
	int			nruns = 0;
	int			ncame;

	for (int point1 = 1; wrong == NULL; point1++)
	{
		for (int point2 = 1; test_points(seq, tag, n, n - 3, point1, point2, &ncame); point2++)
			nruns++;
		if (ncame < 2)
			break;
	}
	return nruns;
}

/* Any order; now and then the same value comes twice. */
static int
random_values(uint64 *seq, LsmTag *tag, int least, int most)
{
	int			n = least + random_next() % (most - least + 1);

	for (int i = 0; i < n; i++)
	{
		int			j = random_next() % (i + 1);

		seq[i] = seq[j];
		tag[i] = tag[j];
		seq[j] = i + 1;
		tag[j] = random_next() % 8 == 0 ? tags[random_next() % 2] : tags[2 + random_next() % 2];
	}
	if (random_next() % 4 == 0)
	{
		int			i = random_next() % n;
		int			j = random_next() % n;

		seq[i] = seq[j];
		tag[i] = tag[j];
	}
	return n;
}

static void
test_between(int most, int nrounds, bool at_random, const char *what)
{
	uint64		seq[MAX_VALUES];
	LsmTag		tag[MAX_VALUES];
	int			nruns = 0;
	int			ncame;

	for (int round = 0; round < nrounds && wrong == NULL; round++)
	{
		int			n = random_values(seq, tag, 4, most);

		if (at_random)
			nruns += test_points(seq, tag, n, 1 + random_next() % (n - 1), 0, 0, &ncame);
		else
			nruns += test_all_points(seq, tag, n);
	}
	report(nruns >= nrounds, what);
}

/* ----------------------------------------------------------------------
 * 3: the same by threads, through the memtable
 * ---------------------------------------------------------------------- */

#define HOT_KEYS	40
#define HOT_ROUNDS	(getenv("LSM_UNIT_SHORT") ? 8 : 30)
#define HOT_VALUES	(NTHREADS * 16)

static uint64 hot_order[HOT_VALUES];
static pthread_barrier_t hot_barrier;

/* of each writer, how many it has added of the key */
static int	hot_added[HOT_KEYS][NTHREADS];

static LsmTag
hot_tag(uint64 seq)
{
	uint64		r = (seq * UINT64CONST(0x9E3779B97F4A7C15)) >> 40;

	return r % 16 < 6 ? LSM_TAG_PARTIAL : r % 16 < 14 ? LSM_TAG_VERSION :
		r % 16 == 14 ? LSM_TAG_PUT : LSM_TAG_DELETE;
}

static LsmMemNode *
hot_find(int k)
{
	char		buffer[64];
	LsmSlice	key = make_key(buffer, k);

	return lsm_memtable_find(table, digest_of(key.data, key.len), key);
}

/* What the writers had added before is there. */
static void
hot_check(int k, const int *added)
{
	LsmMemNode *node = hot_find(k);
	LsmMemValue *value;
	uint64		closed = 0;
	uint64		newest = 0;
	uint64		before = PG_UINT64_MAX;
	static __thread uint64 there[HOT_VALUES];
	int			n = 0;

	for (value = node != NULL ? lsm_memnode_value(node) : NULL; value != NULL;
		 value = lsm_memvalue_older(value))
	{
		check_value(value);
		expect(value->seq < before, "newest first");
		expect(closed == 0, "nothing behind what hides it");
		before = value->seq;
		newest = Max(newest, value->seq);
		if (tag_is_closed(value->data[0]))
			closed = value->seq;
		if (n == HOT_VALUES)
		{
			expect(false, "each once");
			return;
		}
		there[n++] = value->seq;
	}
	for (int writer = 0; writer < NTHREADS; writer++)
	{
		for (int i = 0; i < added[writer]; i++)
		{
			uint64		seq = hot_order[i * NTHREADS + writer];
			bool		found = seq < closed;

			for (int j = 0; j < n && !found; j++)
				found = there[j] == seq;
			expect(found || (hot_tag(seq) == LSM_TAG_PARTIAL && newest > seq),
				   "what was added is there");
		}
	}
}

static void
hot_check_now(int k)
{
	int			added[NTHREADS];

	for (int i = 0; i < NTHREADS; i++)
		added[i] = __atomic_load_n(&hot_added[k][i], __ATOMIC_ACQUIRE);
	hot_check(k, added);
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

		pthread_barrier_wait(&hot_barrier);
		for (int i = 0; i < HOT_VALUES / NTHREADS && me < NTHREADS; i++)
		{
			uint64		seq = hot_order[i * NTHREADS + me];

			put(table, key, digest_of(key.data, key.len), seq, hot_tag(seq));
			__atomic_store_n(&hot_added[k][me], i + 1, __ATOMIC_RELEASE);
			if (i % 4 == 0)
				hot_check_now(k);
		}
		for (int i = 0; i < 10 && me >= NTHREADS; i++)
			hot_check_now(k);
	}
	return NULL;
}

static void
test_hot(void)
{
	put_fresh = false;
	yield_rate = 8;
	pthread_barrier_init(&hot_barrier, NULL, NTHREADS + 2);
	for (int round = 0; round < HOT_ROUNDS && wrong == NULL; round++)
	{
		uint64		from = 1 + round * UINT64CONST(1000);
		int			mixed = round % 4;

		/* as they are made; in pages; in any order */
		for (int i = 0; i < HOT_VALUES; i++)
			hot_order[i] = from + (mixed == 1 ? (i / 8 * 24 + i % 8) % HOT_VALUES : i);
		for (int i = HOT_VALUES - 1; mixed >= 2 && i > 0; i--)
		{
			int			j = random_next() % (i + 1);
			uint64		swap = hot_order[i];

			hot_order[i] = hot_order[j];
			hot_order[j] = swap;
		}
		memset(hot_added, 0, sizeof(hot_added));
		table = lsm_memtable_create(round, false);
		run_threads(hot_body, NTHREADS + 2);
		for (int k = 0; k < HOT_KEYS; k++)
			hot_check_now(k);
		lsm_memtable_destroy(table);
	}
	pthread_barrier_destroy(&hot_barrier);
	put_fresh = true;
	report(arena_used == 0, "versions of hot keys by several writers, and readers");
}

/* ----------------------------------------------------------------------
 * 4: two nodes of a key become one
 * ---------------------------------------------------------------------- */

static LsmMemNode *
second_node(LsmSlice key, uint64 seq, LsmTag tag)
{
	char		data[9];
	LsmMemNode *node = lsm_memtable_reserve(table, key.len, sizeof(data));

	data[0] = (char) tag;
	memcpy(data + 1, &seq, 8);
	node_fill(node, seq, key, lsm_slice(data, sizeof(data)), digest_of(key.data, key.len));
	insert_unlinked(M, node);
	return node;
}

static void
add_to_node(LsmMemNode *node, uint64 seq, LsmTag tag)
{
	LsmMemNode *room = lsm_memtable_reserve(table, 1, 9);
	char		data[9];

	data[0] = (char) tag;
	memcpy(data + 1, &seq, 8);
	node_fill(room, seq, lsm_slice("k", 1), lsm_slice(data, sizeof(data)), 1);
	lsm_memnode_add_value(node, mem_pointer(room->value));
}

static void
test_merged(void)
{
	LsmSlice	key = lsm_slice("key", 3);
	int			nlong = 0;

	yield_rate = 1000000;
	for (int round = 0; round < 20000 && wrong == NULL; round++)
	{
		LsmMemNode *nodes[2] = {NULL, NULL};
		int			n = 2 + random_next() % (MAX_VALUES - 2);
		int			tag[MAX_VALUES];
		int			order[MAX_VALUES];
		Values		list;

		table = lsm_memtable_create(1, false);
		for (int i = 0; i < n; i++)
		{
			int			j = random_next() % (i + 1);

			tag[i] = random_next() % 4 != 0 ? LSM_TAG_VERSION : tags[random_next() % 4];
			order[i] = order[j];
			order[j] = i;
		}
		for (int i = 0; i < n; i++)
		{
			int			which = i < 2 ? i : random_next() % 2;
			int			at = round % 2 == 0 ? i : order[i];

			if (nodes[which] == NULL)
				nodes[which] = second_node(key, at + 1, tag[at]);
			else
				add_to_node(nodes[which], at + 1, tag[at]);
		}
		(void) lsm_memtable_first(table);
		expect(node_dead(nodes[0]) != node_dead(nodes[1]), "one of two nodes is left");
		expect(lsm_memtable_find(table, digest_of("key", 3), key) ==
			   nodes[node_dead(nodes[0]) ? 1 : 0], "and found");
		read_list(lsm_memnode_value(nodes[node_dead(nodes[0]) ? 1 : 0]), &list);
		expect_all(&list, tag, n);
		nlong += list.n > 4;
		lsm_memtable_destroy(table);
	}
	report(nlong > 1000 && arena_used == 0, "two nodes of a key become one with the values of both");
}

/* ----------------------------------------------------------------------
 * 5: a log is read in the order of its pages
 *
 * Pages are written by several processes at the same time, each its own, and
 * pages of old generations are used again, so they are in no order.
 * ---------------------------------------------------------------------- */

#define PAGES		200
#define PER_PAGE	50

typedef enum PageOrder
{
	PAGES_ASCEND,
	PAGES_TURNED,				/* the second half first */
	PAGES_DESCEND
} PageOrder;

/* `ahead`: so many newer values are there already, fed by redo. */
static void
test_load(PageOrder order, int nslots, int ahead, uint64 most, const char *what)
{
	LsmSlice	key = lsm_slice("key", 3);
	int			total = PAGES * PER_PAGE;
	int			n = 0;
	LsmMemNode *node;

	yield_rate = 1000000;
	table = lsm_memtable_create(1, false);
	for (int i = 0; i < ahead; i++)
		put(table, key, 42, 3 * (total + i) + 1, LSM_TAG_VERSION);
	counting = true;
	nsteps = 0;
	for (int i = 0; i < PAGES; i++)
	{
		int			page = i;

		if (order == PAGES_TURNED)
			page = (i + PAGES / 2) % PAGES;
		else if (order == PAGES_DESCEND)
			page = PAGES - 1 - i;

		/* pages of as many slots were filled at the same time */
		for (int j = 0; j < PER_PAGE; j++)
		{
			int			group = page / nslots * nslots;
			uint64		seq = group * PER_PAGE + j * nslots + page - group;

			put(table, key, 42, 3 * seq + 1, seq == 0 ? LSM_TAG_PUT : LSM_TAG_VERSION);
		}
	}
	counting = false;
	node = lsm_memtable_find(table, 42, key);
	for (LsmMemValue *value = lsm_memnode_value(node); value != NULL; value = lsm_memvalue_older(value))
		n++;
	expect(n == total + ahead, "all of them are there");
	expect(lsm_memnode_is_whole(node), "down to the first");
	expect(nsteps <= most * total, "none searches long for its place");
	lsm_memtable_destroy(table);
	report(arena_used == 0, what);
}

int
main(void)
{
	bool		few = getenv("LSM_UNIT_SHORT") != NULL;

	random_state += test_seed();
	lsm_memtable_shmem_init();
	test_orders();
	test_between(5, few ? 1000 : 20000, false, "others add values meanwhile");
	test_between(MAX_VALUES, few ? 500 : 5000, false, "to longer lists, too");
	test_between(MAX_VALUES, few ? 20000 : 500000, true, "many add values at the same time");
	test_hot();
	test_merged();

	late_near = 64;
	late_far = 2048;
	for (int ahead = 0; ahead <= 20000; ahead += 10000)
	{
		test_load(PAGES_ASCEND, 1, ahead, 100, "a log is read");
		test_load(PAGES_ASCEND, 4, ahead, 100, "that was written by several at the same time");
		test_load(PAGES_TURNED, 4, ahead, 100, "the older half last");
		test_load(PAGES_DESCEND, 4, ahead, late_far, "the newest first");
	}
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
