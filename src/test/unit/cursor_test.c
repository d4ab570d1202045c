/*-------------------------------------------------------------------------
 *
 * cursor_test.c
 *	  src/tree/read: cursors over memtables and sorted files, and the merge of
 *	  compactions.  Cases: cases/cursor.  TAP output.
 *
 *	tree kind=table|index
 *		memtable | sealed ENTRY ...			the newest sealed one comes first
 *		L0 RUN ENTRY ... [| ENTRY ...]		files of a run
 *		L1 ENTRY ... [| ENTRY ...]
 *	cursor [gaps]		a line of output for each of
 *		seek | seek-after | seek-last | seek-before [KEY]
 *		point | point-last KEY
 *		limit [KEY]
 *		next | prev [N]
 *		fill | fill-back N [limit=KEY]
 *		write ENTRY, seal, flush			while the cursor is open
 *		enough | all		of each key's versions those up to the first with an "E"
 *		places				where iterators have stood since the last time
 *	get [enough]		lines of keys: what a lookup of each returns
 *	merge				all files, as a compaction reads them
 *	version				the runs, newest data first
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "tree_harness.h"
#include "cases.h"

/* ---- tree ---- */

static void
read_files(char *line, int level)
{
	uint64		run = level == 0 ? strtoull(next_word(&line), NULL, 10) : 0;
	FileEntry	entries[256];
	int			n = 0;
	char	   *word;

	while ((word = next_word(&line)) != NULL)
	{
		LsmSlice	key;
		LsmSlice	value;

		if (strcmp(word, "|") == 0)
		{
			add_file(level, run, entries, n);
			n = 0;
			continue;
		}
		parse_entry(word, &key, &value);
		entries[n++] = copy_entry(key, value);
	}
	add_file(level, run, entries, n);
}

static void
read_memtable(char *line)
{
	char	   *word;

	while ((word = next_word(&line)) != NULL)
	{
		LsmSlice	key;
		LsmSlice	value;

		parse_entry(word, &key, &value);
		write_value(key, value);
	}
}

static void
do_tree(Case *c)
{
	char	   *kind = case_value(c, "kind");
	char	   *lines[64];
	int			n = 0;

	init_tree(kind != NULL && strcmp(kind, "index") == 0 ? LSM_KIND_INDEX : LSM_KIND_TABLE);
	free(kind);
	while ((lines[n] = case_line(c)) != NULL)
		n++;

	/* the oldest first */
	for (int i = n - 1; i >= 0; i--)
	{
		char	   *line = lines[i];
		char	   *word = next_word(&line);

		if (word[0] == 'L')
			read_files(line, atoi(word + 1));
		else
		{
			/* generations of memtables are newer than those of runs */
			ctl.memory.active_generation = Max(ctl.memory.active_generation, 1000);
			read_memtable(line);
			if (strcmp(word, "sealed") == 0)
				(void) seal();
		}
	}
}

/* ---- cursor ---- */

static void
say_entry(LsmSlice key, LsmSlice value)
{
	print_entry(case_output, key, value);
}

static void
do_step(LsmCursor *cursor, bool forward, const char *times)
{
	int			n = times != NULL ? atoi(times) : 1;
	LsmSlice	key;
	LsmSlice	value;

	for (int i = 0; i < n; i++)
	{
		if (i > 0)
			say(" ");
		if (!lsm_cursor_step(cursor, forward ? ForwardScanDirection : BackwardScanDirection,
							 &key, &value))
		{
			say("end");
			break;
		}
		say_entry(key, value);
	}
	say("\n");
}

static void
do_fill(LsmCursor *cursor, bool forward, char *words)
{
	int			max = atoi(next_word(&words));
	char	   *limit = next_word(&words);
	LsmBatch	batch = {0};

	initStringInfo(&batch.bytes);
	if (!lsm_cursor_fill(cursor, forward ? ForwardScanDirection : BackwardScanDirection,
						 limit != NULL ? parse_key_word(limit + strlen("limit=")) :
						 lsm_slice("", 0), max, &batch))
		say("end");
	for (int i = 0; i < batch.n; i++)
	{
		LsmSlice	key;
		LsmSlice	value;

		lsm_batch_entry(&batch, i, &key, &value);
		say("%s", i > 0 ? " " : "");
		say_entry(key, value);
	}
	say("\n");
	pfree(batch.bytes.data);
}

static void
do_seek(LsmCursor *cursor, const char *how, LsmSlice key)
{
	LsmProbe	probe;

	if (strcmp(how, "seek") == 0 || strcmp(how, "seek-after") == 0)
		lsm_cursor_seek(cursor, key, strcmp(how, "seek-after") == 0, ForwardScanDirection);
	else if (strcmp(how, "seek-last") == 0 || strcmp(how, "seek-before") == 0)
		lsm_cursor_seek(cursor, key, strcmp(how, "seek-before") == 0, BackwardScanDirection);
	else if (strcmp(how, "limit") == 0)
		lsm_cursor_limit(cursor, key, key.len > 0 ? 1 : 0);
	else
	{
		lsm_probe_begin(&tree, &probe, key);
		if (strcmp(how, "point") == 0)
			lsm_cursor_seek_point(cursor, &probe);
		else if (strcmp(how, "point-last") == 0)
			lsm_cursor_seek_point_last(cursor, &probe);
		else
			elog(ERROR, "unknown command %s", how);
	}
}

static void
do_cursor(Case *c)
{
	LsmCursor  *cursor = lsm_cursor_open(&tree);
	char	   *line;

	places = 0;
	if (strcmp(c->words, "gaps") == 0)
		lsm_cursor_pass_gaps(cursor);
	while ((line = case_line(c)) != NULL)
	{
		char	   *how = next_word(&line);
		char	   *word;

		if (strcmp(how, "next") == 0 || strcmp(how, "prev") == 0)
			do_step(cursor, how[0] == 'n', next_word(&line));
		else if (strcmp(how, "fill") == 0 || strcmp(how, "fill-back") == 0)
			do_fill(cursor, strcmp(how, "fill") == 0, line);
		else if (strcmp(how, "enough") == 0 || strcmp(how, "all") == 0)
			lsm_cursor_enough(cursor, how[0] == 'e' ? &enough_e : NULL);
		else if (strcmp(how, "places") == 0)
		{
			say("%d places\n", places);
			places = 0;
		}
		else if (strcmp(how, "write") == 0)
			read_memtable(line);
		else if (strcmp(how, "seal") == 0)
			(void) seal();
		else if (strcmp(how, "flush") == 0)
			(void) flush(2);
		else
		{
			word = next_word(&line);
			do_seek(cursor, how, word != NULL ? parse_key_word(word) : lsm_slice("", 0));
		}
	}
	lsm_cursor_close(cursor);
	if (iterators_left() != 0)
		say("%d iterators are left open\n", iterators_left());
}

/* ---- lookups ---- */

static void
do_get(Case *c)
{
	const LsmEnough *enough = strcmp(c->words, "enough") == 0 ? &enough_e : NULL;
	StringInfoData value;
	char	   *line;

	initStringInfo(&value);
	while ((line = case_line(c)) != NULL)
	{
		LsmSlice	key = parse_key_word(line);
		LsmProbe	probe;

		lsm_probe_begin(&tree, &probe, lsm_filter_key(&tree, key));
		if (lsm_tree_get_until(&tree, key, &probe, enough, &value, NULL))
			say_entry(key, slice_of(&value));
		else
			say("%s: nothing", line);
		say("\n");
	}
	pfree(value.data);
}

/* ---- merge, version ---- */

static void
do_merge(void)
{
	LsmVersion *version = lsm_version_refresh(&tree);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "merge",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext outer = MemoryContextSwitchTo(context);
	LsmSequence *sequences = palloc(version->nruns * sizeof(LsmSequence));
	LsmMerge   *merge;
	LsmSlice	key;
	LsmSlice	value;

	for (int i = 0; i < version->nruns; i++)
	{
		sequences[i].nfiles = version->runs[i].nfiles;
		sequences[i].files = palloc(sequences[i].nfiles * sizeof(LsmFile *));
		for (int j = 0; j < sequences[i].nfiles; j++)
			sequences[i].files[j] = &version->runs[i].files[j];
	}
	merge = lsm_merge_open(&tree, sequences, version->nruns);
	while (lsm_merge_next(merge, &key, &value))
	{
		say_entry(key, value);
		say("\n");
	}
	say("of %llu entries\n", (unsigned long long) lsm_merge_entries(merge));
	MemoryContextSwitchTo(outer);
	MemoryContextDelete(context);
	if (iterators_left() != 0)
		say("%d iterators are left open\n", iterators_left());
}

static void
do_version(void)
{
	LsmVersion *version = lsm_version_refresh(&tree);

	for (int i = 0; i < version->nruns; i++)
	{
		const LsmRun *run = &version->runs[i];

		say("L%d", run->level);
		if (run->level == 0)
			say(" %llu", (unsigned long long) run->run);
		for (int j = 0; j < run->nfiles; j++)
		{
			const LsmFile *file = &run->files[j];

			say("%s%llu:[", j > 0 ? " | " : ": ", (unsigned long long) file->number);
			print_key(case_output, file->smallest);
			say("%s ", (file->flags & LSM_FILE_SMALLEST_CUT) ? "+" : "");
			print_key(case_output, file->largest);
			say("%s]", (file->flags & LSM_FILE_LARGEST_CUT) ? "+" : "");
		}
		say("\n");
	}
}

static void
run(Case *c)
{
	if (strcmp(c->command, "tree") == 0)
		do_tree(c);
	else if (strcmp(c->command, "cursor") == 0)
		do_cursor(c);
	else if (strcmp(c->command, "get") == 0)
		do_get(c);
	else if (strcmp(c->command, "merge") == 0)
		do_merge();
	else if (strcmp(c->command, "version") == 0)
		do_version();
	else
		elog(ERROR, "unknown command %s", c->command);
}

int
main(void)
{
	yield_rate = 1000000000;
	run_cases("cursor", run);
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
