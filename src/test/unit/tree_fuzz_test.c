/*-------------------------------------------------------------------------
 *
 * tree_fuzz_test.c
 *	  A tree against a sorted array: entries are written, memtables are sealed and
 *	  flushed, files compacted as plans have it, and lookups and cursors, which stay
 *	  open meanwhile, return what the array has.  TAP output.
 *
 * Two compactions run at a time as claims allow it: both are planned and
 * made from one version, and published one after the other.
 *
 * Keys of a table have versions.  Each has a stamp, which stands for the
 * transaction that has made it, and some of these were rolled back.  A reader may
 * have a snapshot, which sees what was stamped up to it: it wants versions up to
 * the first that it sees.  Below the horizon, which no snapshot precedes, flush
 * and compaction keep one version; those that were rolled back they drop.
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
#include "tree_model.h"

/* insert.c has one, too */
#define range_add plan_range_add
#include "tree/compaction/plan.c"
#include "tree/compaction/job_entry.c"

#define NCURSORS	3

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
	uint32		snapshot;
	LsmEnough	enough;
} TestCursor;

static TestCursor cursors[NCURSORS];

static const LsmSlice no_key = {0};

/* The horizon comes nearer, up to the oldest snapshot. */
static void
advance_horizon(void)
{
	uint32		limit = last_stamp;

	for (int i = 0; i < NCURSORS; i++)
	{
		if (cursors[i].snapshot != 0)
			limit = Min(limit, cursors[i].snapshot);
	}
	horizon += below(limit - horizon + 1);
}

static void
take_snapshot(TestCursor *c)
{
	c->snapshot = random_snapshot();
	c->enough.is = sees;
	c->enough.arg = &c->snapshot;
	lsm_cursor_enough(c->cursor, c->snapshot != 0 ? &c->enough : NULL);
}

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
	for (;;)
	{
		expected = next_of(c->place, forward);
		if (!lsm_cursor_step(c->cursor, direction(forward), &key, &value))
			key.data = NULL;
		else if (is_nothing(value) && !model_has(index_of(key)))
		{
			c->place = 2 * index_of(key) + 1;
			c->forward = forward;
			continue;
		}
		break;
	}
	expect_entry(forward ? "next" : "prev", expected, key, value, c->snapshot);
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
		if (is_nothing(value) && !model_has(index_of(key)))
			expected = index_of(key);
		else
			expect_entry(forward ? "fill" : "fill back", expected, key, value, c->snapshot);
		if (batch.entries[i].value_offset < batch.entries[i].key_offset + key.len + batch.headroom ||
			(batch.entries[i].value_offset + batch.aligned) % 8 != 0)
			differ("a value's place", key, value, expected);
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
		expect_entry(point ? "point" : "limited", i < NKEYS ? i : -1, found ? key : no_key, value, 0);
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
		LsmSlice	key = n > 0 ? model[below(NKEYS)].key : random_key();
		int			i = index_of(key);
		uint32		snapshot = random_snapshot();
		LsmEnough	enough = {sees, &snapshot};
		LsmProbe	probe;
		bool		found;

		lsm_probe_begin(&tree, &probe, lsm_filter_key(&tree, key));
		found = lsm_tree_get_until(&tree, key, &probe, snapshot != 0 ? &enough : NULL, &value, NULL);
		if (found && is_nothing(slice_of(&value)))
			found = false;
		expect_entry("lookup", i < NKEYS && model_has(i) ? i : -1, found ? key : no_key,
					 slice_of(&value), snapshot);
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
	take_snapshot(c);
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

/* What job_entry.c adds goes there. */
static Job *current;

void
lsm_job_add(LsmJob *job, LsmSlice key, LsmSlice value)
{
	if (current->n > 0 && lsm_slice_compare(current->entries[current->n - 1].key, key) >= 0)
		differ("out of order", key, value, -1);
	current->entries[current->n++] = copy_entry(key, value);
}

void
lsm_opinion_bottom(LsmTree *tree, const LsmRun *const *runs, int n, LsmSlice key)
{
}

/* A job whose output lies above the version's runs from `below` on */
static void
begin_job(LsmJob *job, LsmVersion *version, int below, Job *output)
{
	memset(job, 0, sizeof(*job));
	job->tree = &tree;
	job->version = version;
	job->cxt = CurrentMemoryContext;
	job->entry_cxt = AllocSetContextCreate(CurrentMemoryContext, "entries", ALLOCSET_DEFAULT_SIZES);
	job->entry.fate.oldest_xid = horizon;
	job->output.files = palloc0(sizeof(LsmFileMeta));
	initStringInfo(&job->entry.rewritten);
	lsm_job_set_below(job, below);
	current = output;
	output->n = 0;
}

static void
add_files(int level, uint64 run, Job *output, int per_file)
{
	for (int i = 0; i < output->n; i += per_file)
		add_file(level, run, &output->entries[i], Min(per_file, output->n - i));
}

/*
 * The oldest sealed memtable becomes a run.  It may stay in the set for a while:
 * the publisher changes the set after the list.
 */
static void
flush_oldest(void)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "flush",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext outer = MemoryContextSwitchTo(context);
	Job		   *output = palloc(sizeof(Job));
	LsmMemtable *memtable;
	StringInfoData scratch;
	LsmJob		job;

	if (ctl.memory.nsealed > 0 && ctl.memory.sealed[0]->generation == flushed_generation)
		flush_retired();
	else if (ctl.memory.nsealed > 0)
	{
		memtable = ctl.memory.sealed[0];
		initStringInfo(&scratch);
		begin_job(&job, lsm_version_refresh(&tree), 0, output);
		for (LsmMemNode *node = lsm_memtable_first(memtable); node != NULL;
			 node = lsm_memtable_next(memtable, node))
			lsm_job_node(&job, node, &scratch);
		add_files(0, memtable->generation, output, 1 + below(30));
		flush_published();
		if (one_in(2))
			flush_retired();
	}
	MemoryContextSwitchTo(outer);
	MemoryContextDelete(context);
}

static void
make_output(LsmVersion *version, Job *job)
{
	LsmPlan    *plan = job->plan;
	LsmMerge   *merge;
	LsmJob		output;
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
	begin_job(&output, version, plan->below, job);
	while (lsm_merge_next(merge, &key, &value))
		lsm_job_entry(&output, key, value);
	if (lsm_merge_entries(merge) != inputs)
		differ("entries are left", no_key, no_key, -1);
}

static void
publish(Job *job)
{
	LsmPlan    *plan = job->plan;

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
	add_files(plan->out_level, plan->out_run, job, 1 + below(20));
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
	{
		make_output(version, &jobs[i]);
		if (one_in(2))
			advance_horizon();
	}
	for (int i = 0; i < n; i++)
	{
		/* either may end first */
		publish(&jobs[n == 2 && jobs[0].n % 2 == 0 ? 1 - i : i]);
		if (one_in(2))
			flush_oldest();
		if (one_in(2))
			advance_horizon();
	}
	MemoryContextSwitchTo(outer);
	lsm_version_unpin(version);
	MemoryContextDelete(context);
}

/* ---- rounds ---- */

static LsmTag
random_tag(int i)
{
	uint32		what = below(8);

	if (tree.kind == LSM_KIND_TABLE && what >= 4 && model[i].n < MAX_VERSIONS)
		return LSM_TAG_VERSION;
	return what < 1 ? LSM_TAG_DELETE : what < 3 ? LSM_TAG_PARTIAL : LSM_TAG_PUT;
}

/* One key again and again */
static void
write_often(void)
{
	int			i = below(NKEYS);

	for (int n = below(20); n > 0; n--)
	{
		LsmTag		tag = random_tag(i);

		write_key(i, tag == LSM_TAG_DELETE ? LSM_TAG_PARTIAL : tag);
	}
}

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
		int			k = one_in(2) ? i : below(NKEYS);

		write_key(k, all_deleted ? LSM_TAG_DELETE : random_tag(k));
	}
}

static void
do_something(void)
{
	TestCursor *c = &cursors[below(NCURSORS)];
	uint32		what = below(100);

	if (what < 21)
		write_some();
	else if (what < 23)
		write_often();
	else if (what < 24)
		advance_horizon();
	else if (what < 25)
		take_snapshot(c);
	else if (what < 30)
		(void) seal();
	else if (what < 35)
		flush_oldest();
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
	tree.ops = &stamped_ops;
	last_stamp = horizon = 1;
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
		cursors[i].snapshot = 0;
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

/* ---- single entries ---- */

static LsmFate next_fate;
static const char *next_value;
static bool next_gone;

static LsmFate
fate_given(LsmFateContext *cx, LsmSlice key, LsmSlice value, StringInfo out)
{
	cx->dying = next_fate != LSM_FATE_DROP && value.data[0] == LSM_TAG_CHAIN;
	cx->gone = next_gone;
	if (next_fate == LSM_FATE_REWRITE)
		value_of(next_value, out);
	return next_fate;
}

/*
 * Which entries count as rows that no one can see any more, and what file holds
 * some that will go.
 */
static bool
test_entries(void)
{
	static const LsmKindOps given_ops = {.merge = merge_stamped,.fate = fate_given};
	static const struct
	{
		const char *value;
		LsmFate		fate;
		const char *rewritten;
		const char *written;	/* NULL: nothing */
		int			dropped;
		bool		dying;
	}			cases[] = {
		{"=a", LSM_FATE_KEEP, NULL, "=a", 0, false},
		{"=a", LSM_FATE_DROP, NULL, NULL, 1, false},
		{"+a", LSM_FATE_DROP, NULL, NULL, 1, false},
		{"+b +a", LSM_FATE_DROP, NULL, NULL, 1, false},
		{"~a", LSM_FATE_DROP, NULL, NULL, 0, false},
		{"-", LSM_FATE_DROP, NULL, NULL, 0, false},
		{"-", LSM_FATE_KEEP, NULL, "-", 0, false},
		{"+a", LSM_FATE_REWRITE, "=a", "=a", 0, false},
		{"=a", LSM_FATE_REWRITE, "-", "-", 1, false},
		{"+b =a", LSM_FATE_REWRITE, "-", "-", 1, true},
		{"~a", LSM_FATE_REWRITE, "~b", "~b", 0, false},
		{"+b ~a", LSM_FATE_KEEP, NULL, "+b ~a", 0, true},
	};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "test", ALLOCSET_DEFAULT_SIZES);
	MemoryContext outer = MemoryContextSwitchTo(context);
	Job		   *output = palloc0(sizeof(Job));
	bool		good = true;

	init_tree(LSM_KIND_TABLE);
	tree.ops = &given_ops;
	write_value(lsm_slice("k", 1), lsm_slice("\001", 1));
	(void) seal();
	(void) flush(1);
	for (int i = 0; i < lengthof(cases); i++)
	{
		StringInfoData value;
		LsmJob		job;

		initStringInfo(&value);
		value_of(cases[i].value, &value);
		next_fate = cases[i].fate;
		next_value = cases[i].rewritten;
		next_gone = cases[i].dropped > 0;
		begin_job(&job, lsm_version_refresh(&tree), 0, output);
		lsm_job_entry(&job, lsm_slice("k", 1), slice_of(&value));
		good &= job.input.nvalues_dropped == cases[i].dropped && output->n == (cases[i].written != NULL) &&
			job.input.dropped == (cases[i].written == NULL) &&
			(job.output.files[0].flags == LSM_FILE_HAS_DYING) == cases[i].dying;
		if (output->n > 0)
			good &= strcmp(text_of(output->entries[0].value, ' '), cases[i].written) == 0;
		if (!good)
		{
			printf("# of %s\n", cases[i].value);
			break;
		}
	}
	MemoryContextSwitchTo(outer);
	MemoryContextDelete(context);
	return good;
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
	ok(test_entries(), "rows that a job drops are counted");
	ok(!failed, "cursors return what a sorted array has, whatever is flushed and compacted");
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
