/*-------------------------------------------------------------------------
 *
 * tree_fuzz_test.c
 *	  A tree against a sorted array: entries are written, memtables are sealed and
 *	  flushed, files compacted as plans have it, and cursors that stay open
 *	  meanwhile return what the array has.  TAP output.
 *
 * Two compactions run at a time as claims allow it: both are planned and
 * made from one version, and published one after the other.
 *
 * LSM_SEED repeats a run.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "tree_harness.h"
#include "level_sizes.h"

/* insert.c has one, too */
#define range_add plan_range_add
#include "tree/compaction/plan.c"

#define NKEYS		120
#define NCURSORS	3

/* ---- random numbers ---- */

static uint32
below(uint32 n)
{
	return (uint32) ((random_next() >> 11) % n);
}

static bool
one_in(uint32 n)
{
	return below(n) == 0;
}

/* ---- the array ---- */

typedef struct ModelEntry
{
	LsmSlice	key;
	char		tag;			/* 0: never written */
	int			body;
	int			part;			/* 0: none */
} ModelEntry;

static ModelEntry model[NKEYS];
static int	last_value;
static uint64 nwrites;

/* Bytes that words, prefixes and fences are made of; some keys share much. */
static LsmSlice
random_key(void)
{
	static const char *const starts[] = {"", "a", "common prefix ", "\377\377\377\377\377\377\377"};
	char		key[400];
	uint32		n = 0;
	int			start = below(6);
	int			tail = below(5);

	if (start < 4)
	{
		n = strlen(starts[start]);
		memcpy(key, starts[start], n);
	}
	else if (start == 4)
	{
		/* about as long as fences are */
		n = LSM_FENCE_BYTES - 2 + below(5);
		memset(key, 'k', n);
	}
	for (int i = 0; i < tail || n == 0; i++)
		key[n++] = "\000ab\377"[below(4)];
	if (tree.kind == LSM_KIND_INDEX)
	{
		memset(key + n, 0, LSM_TID_BYTES);
		key[n + LSM_TID_BYTES - 1] = (char) below(4);
		n += LSM_TID_BYTES;
	}
	return lsm_slice(copy_bytes(key, n), n);
}

static int
compare_model(const void *a, const void *b)
{
	return lsm_slice_compare(((const ModelEntry *) a)->key, ((const ModelEntry *) b)->key);
}

static void
make_model(void)
{
	for (int n = 0; n < NKEYS;)
	{
		bool		known = false;

		free(unconstify(char *, model[n].key.data));
		memset(&model[n], 0, sizeof(ModelEntry));
		model[n].key = random_key();
		for (int i = 0; i < n; i++)
			known |= compare_model(&model[i], &model[n]) == 0;
		n += !known;
	}
	qsort(model, NKEYS, sizeof(ModelEntry), compare_model);
}

static bool
model_has(int i)
{
	return model[i].tag == LSM_TAG_PUT;
}

static void
write_key(int i, LsmTag tag)
{
	ModelEntry *entry = &model[i];
	char		value[32];
	int			number = ++last_value;

	value[0] = tag;
	sprintf(value + 1, "%d", number);
	write_value(entry->key, lsm_slice(value, tag == LSM_TAG_DELETE ? 1 : strlen(value)));
	nwrites++;
	if (tag == LSM_TAG_PARTIAL && entry->tag != 0)
		entry->part = number;	/* of a DELETE it makes nothing */
	else
	{
		entry->tag = tag;
		entry->body = number;
		entry->part = 0;
	}
}

/* ---- what goes wrong ---- */

static bool failed;

static void
differ(const char *what, LsmSlice key, LsmSlice value, int expected)
{
	if (failed)
		return;
	failed = true;
	printf("# %s: got ", what);
	if (key.data == NULL)
		printf("the end");
	else if (value.data == NULL)
		print_key(stdout, key);
	else
		print_entry(stdout, key, value);
	printf(", expected ");
	if (expected >= 0 && expected < NKEYS)
	{
		print_key(stdout, model[expected].key);
		printf("=%d/%d", model[expected].body, model[expected].part);
	}
	else
		printf("the end");
	printf("\n");
}

/* The entry is the i-th of the array; -1: the end. */
static void
expect_entry(const char *what, int i, LsmSlice key, LsmSlice value)
{
	char		text[32];

	if (i < 0 || key.data == NULL)
	{
		if (i >= 0 || key.data != NULL)
			differ(what, key, value, i);
		return;
	}
	if (model[i].part != 0)
		sprintf(text, "%d/%d", model[i].body, model[i].part);
	else
		sprintf(text, "%d", model[i].body);
	if (lsm_slice_compare(key, model[i].key) != 0 || value.len != 1 + strlen(text) ||
		value.data[0] != LSM_TAG_PUT || memcmp(value.data + 1, text, value.len - 1) != 0)
		differ(what, key, value, i);
}

/* ---- cursors ---- */

typedef struct TestCursor
{
	LsmCursor  *cursor;
	int			place;			/* 2 * i + 1: at the i-th key; 2 * i: before it */
	bool		forward;		/* the last time */
	bool		vague;			/* it may have passed keys that have no entry */
	uint64		nwrites;		/* by then */
	uint32		headroom;		/* of all its batches */
	uint32		aligned;
} TestCursor;

static TestCursor cursors[NCURSORS];

static const LsmSlice no_key = {0};

static ScanDirection
direction(bool forward)
{
	return forward ? ForwardScanDirection : BackwardScanDirection;
}

/* The place before the first key of the array that is not less. */
static int
place_before(LsmSlice key)
{
	int			i = 0;

	while (i < NKEYS && lsm_slice_compare(model[i].key, key) < 0)
		i++;
	return 2 * i;
}

static void
seek(TestCursor *c)
{
	bool		forward = one_in(2);
	bool		after = one_in(2);
	int			i = below(NKEYS);
	LsmSlice	key = no_key;

	if (one_in(8))
	{
		lsm_cursor_seek(c->cursor, lsm_slice("", 0), after, direction(forward));
		c->place = forward ? 0 : 2 * NKEYS;
	}
	else if (one_in(3))
	{
		bool		known;

		key = random_key();
		c->place = place_before(key);
		known = c->place < 2 * NKEYS && lsm_slice_compare(model[c->place / 2].key, key) == 0;
		lsm_cursor_seek(c->cursor, key, after, direction(forward));
		if (known && forward == after)
			c->place += 2;
	}
	else
	{
		lsm_cursor_seek(c->cursor, model[i].key, after, direction(forward));
		c->place = 2 * i + (forward == after ? 2 : 0);
	}
	free(unconstify(char *, key.data));
	c->vague = false;
	c->nwrites = nwrites;
	c->forward = forward;
}

/*
 * Backward, what is written while the cursor goes on need not be seen.  Nor
 * what is written where it has passed keys without entries.  A batch may end
 * behind such keys: who turns round then has to seek, as all do who read batches.
 */
static void
seek_again(TestCursor *c, bool forward)
{
	bool		turns = c->vague && c->place % 2 == 1 && forward != c->forward;
	bool		misses = c->nwrites != nwrites && (c->vague || !(forward || c->forward));

	if (!turns && !misses)
		return;
	if (c->place == 0 || c->place == 2 * NKEYS)
		lsm_cursor_seek(c->cursor, lsm_slice("", 0), false, direction(c->place == 0));
	else if (c->place % 2 == 1)
		lsm_cursor_seek(c->cursor, model[c->place / 2].key, true, direction(forward));
	else
		lsm_cursor_seek(c->cursor, model[c->place / 2].key, false, ForwardScanDirection);
	c->vague = false;
}

/* The next key of the array with an entry from the place on, or -1. */
static int
next_of(int place, bool forward)
{
	int			i = forward ? (place + 1) / 2 : place / 2 - 1;

	while (i >= 0 && i < NKEYS && !model_has(i))
		i += forward ? 1 : -1;
	return i < NKEYS ? i : -1;
}

static void
ended(TestCursor *c, bool forward)
{
	if (c->place % 2 == 1)
		c->place += forward ? 1 : -1;
	c->vague = true;
}

static void
step_cursor(TestCursor *c)
{
	bool		forward = one_in(3) ? !c->forward : c->forward;
	LsmSlice	key = no_key;
	LsmSlice	value = no_key;
	int			expected;

	seek_again(c, forward);
	expected = next_of(c->place, forward);
	if (!lsm_cursor_step(c->cursor, direction(forward), &key, &value))
		key.data = NULL;
	expect_entry(forward ? "next" : "prev", expected, key, value);
	if (expected >= 0)
	{
		c->place = 2 * expected + 1;
		c->vague = false;
	}
	else
		ended(c, forward);
	c->forward = forward;
	c->nwrites = nwrites;
}

/* Is the key within the limit of a batch? */
static bool
within(LsmSlice key, LsmSlice limit, bool forward)
{
	int			c = lsm_slice_compare(key, limit);

	return forward ? c <= 0 || lsm_slice_has_prefix(key, limit) : c >= 0;
}

static void
fill_batch(TestCursor *c)
{
	bool		forward = one_in(4) ? !c->forward : c->forward;
	int			max = 1 + below(one_in(2) ? 4 : LSM_BATCH_ENTRIES);
	LsmSlice	limit = lsm_slice("", 0);
	LsmBatch	batch = {.headroom = c->headroom,.aligned = c->aligned};

	if (one_in(2))
	{
		limit = model[below(NKEYS)].key;
		limit.len = 1 + below(limit.len);
	}
	seek_again(c, forward);
	initStringInfo(&batch.bytes);
	if (!lsm_cursor_fill(c->cursor, direction(forward), limit, max, &batch))
	{
		int			expected = next_of(c->place, forward);

		if (expected >= 0 && within(model[expected].key, limit, forward))
			differ("fill", no_key, no_key, expected);
		c->vague = true;
	}
	for (int i = 0; i < batch.n; i++)
	{
		int			expected = next_of(c->place, forward);
		LsmSlice	key;
		LsmSlice	value;

		lsm_batch_entry(&batch, i, &key, &value);
		if (batch.entries[i].value_offset < batch.entries[i].key_offset + key.len + batch.headroom ||
			(batch.entries[i].value_offset + batch.aligned) % 8 != 0)
			differ("a value's place", key, value, expected);
		expect_entry(forward ? "fill" : "fill back", expected, key, value);
		/* backward, a shorter key that the limit begins with is free to come */
		if (!within(key, limit, forward) && !lsm_slice_has_prefix(limit, key))
			differ("beyond the limit", key, value, -1);
		c->place = 2 * expected + 1;
	}
	if (batch.n > 0)
		c->vague = lsm_slice_compare(model[c->place / 2].key,
									 lsm_slice(c->cursor->key.data, c->cursor->key.len)) != 0;
	c->forward = forward;
	c->nwrites = nwrites;
	pfree(batch.bytes.data);
}

/*
 * All entries that begin with the bytes, or are of that key, and the end.
 */
static void
scan_part(LsmCursor *cursor, LsmSlice part, bool point, bool forward)
{
	int			i = forward ? -1 : NKEYS;
	LsmSlice	key;
	LsmSlice	value;

	for (;;)
	{
		bool		found = lsm_cursor_step(cursor, direction(forward), &key, &value);

		if (found && !point && !lsm_slice_has_prefix(key, part))
			found = false;
		do
			i += forward ? 1 : -1;
		while (i >= 0 && i < NKEYS &&
			   !(model_has(i) && lsm_slice_has_prefix(model[i].key, part) &&
				 (!point || model[i].key.len == part.len + LSM_TID_BYTES)));
		expect_entry(point ? "point" : "limited", i < NKEYS ? i : -1, found ? key : no_key, value);
		if (!found || failed)
			return;
	}
}

static void
scan_point(void)
{
	LsmCursor  *cursor = lsm_cursor_open(&tree);
	LsmSlice	key = lsm_filter_key(&tree, model[below(NKEYS)].key);
	bool		forward = one_in(2);
	LsmProbe	probe;

	if (one_in(2))
		lsm_cursor_pass_gaps(cursor);
	lsm_probe_begin(&tree, &probe, key);
	if (forward)
		lsm_cursor_seek_point(cursor, &probe);
	else
		lsm_cursor_seek_point_last(cursor, &probe);
	scan_part(cursor, key, true, forward);
	lsm_cursor_close(cursor);
}

static void
scan_limited(void)
{
	LsmCursor  *cursor = lsm_cursor_open(&tree);
	LsmSlice	leading = model[below(NKEYS)].key;
	bool		forward = one_in(2);
	char		behind[LEADING_BYTES + 20];

	leading.len = LEADING_BYTES;
	memcpy(behind, leading.data, LEADING_BYTES);
	memset(behind + LEADING_BYTES, 0xff, 20);
	lsm_cursor_limit(cursor, leading, 1);
	if (forward)
		lsm_cursor_seek(cursor, leading, false, ForwardScanDirection);
	else
		lsm_cursor_seek(cursor, lsm_slice(behind, sizeof(behind)), false, BackwardScanDirection);
	scan_part(cursor, leading, false, forward);
	lsm_cursor_close(cursor);
}

/* Some keys, and one that the array has not, perhaps. */
static void
look_up(void)
{
	StringInfoData value;

	initStringInfo(&value);
	for (int n = 0; n < 5 && !failed; n++)
	{
		int			i = below(NKEYS);
		LsmSlice	key = n > 0 ? model[i].key : random_key();
		LsmProbe	probe;
		bool		found;

		if (n == 0)
		{
			for (i = 0; i < NKEYS && lsm_slice_compare(model[i].key, key) != 0;)
				i++;
		}
		lsm_probe_begin(&tree, &probe, lsm_filter_key(&tree, key));
		found = lsm_tree_get(&tree, key, &probe, &value);
		expect_entry("lookup", i < NKEYS && model_has(i) ? i : -1, found ? key : no_key,
					 slice_of(&value));
		if (n == 0)
			free(unconstify(char *, key.data));
	}
	pfree(value.data);
}

static void
open_cursor(TestCursor *c)
{
	if (c->cursor != NULL)
		lsm_cursor_close(c->cursor);
	memset(c, 0, sizeof(*c));
	c->cursor = lsm_cursor_open(&tree);
	c->forward = true;
	c->headroom = below(9);
	c->aligned = below(3);
	if (one_in(2))
		lsm_cursor_pass_gaps(c->cursor);
}

/* ---- compactions ---- */

typedef struct Job
{
	LsmPlan    *plan;
	FileEntry	entries[NKEYS];
	int			n;
} Job;

/* As job_at_bottom() of output_job.c. */
static bool
at_bottom(const LsmVersion *version, const LsmPlan *plan, LsmSlice key)
{
	for (int i = plan->below; i < version->nruns; i++)
	{
		const LsmRun *run = &version->runs[i];
		int			at = lsm_run_find(run, key);

		if (at < run->nfiles && !lsm_file_after(&run->files[at], key))
			return false;
	}
	return true;
}

static void
make_output(const LsmVersion *version, Job *job)
{
	LsmPlan    *plan = job->plan;
	LsmMerge   *merge;
	LsmSlice	key;
	LsmSlice	value;
	uint64		inputs = 0;

	job->n = 0;
	for (int i = 0; i < plan->nfiles; i++)
	{
		inputs += plan->files[i]->entries;
		for (int j = 0; j < i; j++)
		{
			if (plan->files[i] == plan->files[j])
				differ("a file is in the plan twice", plan->files[i]->smallest, no_key, -1);
		}
	}
	if (plan->move)
		return;
	merge = lsm_merge_open(&tree, plan->sequences, plan->nsequences);
	while (lsm_merge_next(merge, &key, &value))
	{
		if (job->n > 0 && lsm_slice_compare(job->entries[job->n - 1].key, key) >= 0)
			differ("out of order", key, value, -1);
		if (value.data[0] == LSM_TAG_PUT || !at_bottom(version, plan, key))
			job->entries[job->n++] = copy_entry(key, value);
	}
	if (lsm_merge_entries(merge) != inputs)
		differ("entries are left", no_key, no_key, -1);
}

static void
publish(Job *job)
{
	LsmPlan    *plan = job->plan;
	int			per_file = 1 + below(20);

	for (int i = 0; i < plan->nfiles; i++)
	{
		if (plan->move)
		{
			LsmFileMeta *meta = &metas[meta_of(plan->files[i]->number)];

			meta->level = plan->out_level;
			meta->run = 0;
		}
		else
			remove_file(plan->files[i]->number);
	}
	for (int i = 0; i < job->n; i += per_file)
		add_file(plan->out_level, plan->out_run, &job->entries[i], Min(per_file, job->n - i));
	note_version();
}

static LsmPlan *
random_plan(LsmVersion *version)
{
	LsmRun	   *run = &version->runs[below(version->nruns)];
	int			first = below(run->nfiles);
	int			last = first + below(run->nfiles - first);
	int			in_a_row = 0;

	switch (below(6))
	{
		case 0:
			return lsm_plan_rewrite(version, run, first, last);
		case 1:
			return run->level == 0 || run->level == LSM_MAX_LEVELS - 1 ? NULL :
				lsm_plan_push(version, run->level, first, last);
		case 2:
			return version->level0_runs == 0 ? NULL :
				lsm_plan_level0(version, below(version->level_files[0]), one_in(2));
		case 3:
			return lsm_plan_relief(version, &in_a_row);
		case 4:
			return version->level0_runs < 2 ? NULL :
				plan_level0_together(version, 2 + below(version->level0_runs - 1));
		default:
			return lsm_plan_due(&tree, version, 0);
	}
}

static void
compact(void)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "job",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext outer = MemoryContextSwitchTo(context);
	LsmVersion *version = lsm_version_pin(lsm_version_refresh(&tree));
	Job		   *jobs = palloc0(2 * sizeof(Job));
	int			n = 0;

	if (version->nruns > 0)
		jobs[0].plan = random_plan(version);
	n = jobs[0].plan != NULL;
	if (n > 0)
	{
		jobs[1].plan = lsm_plan_due(&tree, version, lsm_plan_levels(jobs[0].plan));
		n += jobs[1].plan != NULL;
	}
	for (int i = 0; i < n; i++)
		make_output(version, &jobs[i]);
	for (int i = 0; i < n; i++)
	{
		/* either may end first */
		publish(&jobs[n == 2 && jobs[0].n % 2 == 0 ? 1 - i : i]);
		if (one_in(2))
			(void) flush(1 + below(30));
	}
	MemoryContextSwitchTo(outer);
	lsm_version_unpin(version);
	MemoryContextDelete(context);
}

/* ---- rounds ---- */

static void
write_some(void)
{
	int			first = below(NKEYS);
	int			n = one_in(4) ? below(40) : below(4);
	bool		all_deleted = one_in(4);

	/* so many that scans look for a gap */
	if (one_in(20))
	{
		n = LSM_SKIPS_PER_GAP + below(NKEYS / 3);
		first = below(NKEYS - n);
		for (int i = first; i < first + n; i++)
			write_key(i, LSM_TAG_DELETE);
		return;
	}
	for (int i = first; i < Min(first + n, NKEYS); i++)
	{
		int			what = below(4);

		write_key(one_in(2) ? i : below(NKEYS),
				  all_deleted || what == 0 ? LSM_TAG_DELETE :
				  what == 1 ? LSM_TAG_PARTIAL : LSM_TAG_PUT);
	}
}

static void
do_something(void)
{
	TestCursor *c = &cursors[below(NCURSORS)];
	uint32		what = below(100);

	if (what < 25)
		write_some();
	else if (what < 30)
		(void) seal();
	else if (what < 35)
		(void) flush(1 + below(30));
	else if (what < 40)
		compact();
	else if (what < 48)
		seek(c);
	else if (what < 68)
		step_cursor(c);
	else if (what < 88)
		fill_batch(c);
	else if (what < 90)
		open_cursor(c);
	else if (what < 94)
		look_up();
	else if (tree.kind == LSM_KIND_INDEX && what < 97)
		scan_point();
	else if (tree.kind == LSM_KIND_INDEX)
		scan_limited();
}

static bool
run_round(uint64 seed, LsmKind kind)
{
	random_state = seed * UINT64CONST(0x9E3779B97F4A7C15) + 1;
	init_tree(kind);
	base_bytes = 50 << below(6);
	size_ratio = 2 + below(9);
	lsm_target_file_size_kb = 1;
	make_model();
	for (int i = 0; i < NCURSORS; i++)
		open_cursor(&cursors[i]);
	for (int i = 0; i < 2000 && !failed && next_number < MAX_FILES - 4 * NKEYS; i++)
		do_something();
	for (int i = 0; i < NCURSORS; i++)
	{
		lsm_cursor_close(cursors[i].cursor);
		cursors[i].cursor = NULL;
	}
	if (iterators_left() != 0)
	{
		printf("# %d iterators are left open\n", iterators_left());
		failed = true;
	}
	if (failed)
		printf("# LSM_SEED=%llu repeats it\n", (unsigned long long) seed);
	return !failed;
}

int
main(void)
{
	uint64		seed = test_seed();
	int			rounds = getenv("LSM_UNIT_SHORT") != NULL ? 10 : 40;

	yield_rate = 1000000000;
	for (int i = 0; i < rounds && !failed; i++)
	{
		(void) run_round(seed + i, LSM_KIND_TABLE);
		if (!failed)
			(void) run_round(seed + i, LSM_KIND_INDEX);
	}
	ok(!failed, "cursors return what a sorted array has, whatever is flushed and compacted");
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
