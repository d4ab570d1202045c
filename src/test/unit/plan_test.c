/*-------------------------------------------------------------------------
 *
 * plan_test.c
 *	  src/tree/compaction: plan.c, which files to compact next, and claim.c, which
 *	  levels a process may.  Cases: cases/plan, cases/claim.  TAP output.
 *
 *	version [base=BYTES] [ratio=N] [target=KB]
 *		L0 RUN FILE ...		newest first; FILE is LOW-HIGH, with
 *		L1 FILE ...			:BYTES (default 100), ! many DELETEs; a "+" behind
 *							a fence: it is cut
 *	due [others=LEVEL,...] [times=N] [cursor=LEVEL:NUMBER]
 *	level0 SEED [rewrite] | level0-moves | push LEVEL FIRST LAST |
 *	rewrite RUN FIRST LAST | relief IN-A-ROW
 *		the plan: what it takes, run by run, where to, and from which run on older
 *		entries may lie
 *	score			of the tree, and bytes that are pending
 *	overlaps		each file with what lies below it
 *
 *	claims			lines of WHO WHAT, where WHAT is plan, keep LEVEL,..., whole,
 *					flush, release; or "clock MS", "gone", "loaded"
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "tree_harness.h"
#include "cases.h"
#include "level_sizes.h"

/* insert.c has one, too */
#define range_add plan_range_add
#include "tree/compaction/plan.c"
#include "tree/compaction/claim.c"

/* ---- version ---- */

/* "low+" and the like */
static uint16
read_fence(char *text, char *fence, uint16 *bytes, uint16 cut)
{
	int			length = strlen(text);
	bool		is_cut = length > 0 && text[length - 1] == '+';
	LsmSlice	key = parse_key(text, length - is_cut);

	memcpy(fence, key.data, key.len);
	*bytes = key.len;
	return is_cut ? cut : 0;
}

static void
read_file(char *word, int level, uint64 run)
{
	LsmFileMeta *meta = &metas[nmetas++];
	char	   *flag = strchr(word, '!');
	char	   *bytes;
	char	   *high;

	memset(meta, 0, sizeof(*meta));
	if (flag != NULL)
		*flag = '\0';
	bytes = strchr(word, ':');
	if (bytes != NULL)
		*bytes++ = '\0';
	high = strchr(word, '-');
	*high++ = '\0';
	meta->number = next_number++;
	meta->level = level;
	meta->run = run;
	meta->entries = 1;
	meta->file_bytes = bytes != NULL ? strtoull(bytes, NULL, 10) : 100;
	meta->flags = flag != NULL ? LSM_FILE_MANY_DELETES : 0;
	meta->flags |= read_fence(word, meta->smallest, &meta->smallest_bytes, LSM_FILE_SMALLEST_CUT);
	meta->flags |= read_fence(high, meta->largest, &meta->largest_bytes, LSM_FILE_LARGEST_CUT);
}

static void
do_version(Case *c)
{
	char	   *line;

	next_number = 1;
	init_tree(LSM_KIND_TABLE);
	base_bytes = case_number(c, "base", 1000);
	size_ratio = case_number(c, "ratio", 10);
	lsm_target_file_size_kb = case_number(c, "target", 1);
	while ((line = case_line(c)) != NULL)
	{
		char	   *word = next_word(&line);
		int			level = atoi(word + 1);
		uint64		run = level == 0 ? strtoull(next_word(&line), NULL, 10) : 0;

		while ((word = next_word(&line)) != NULL)
			read_file(word, level, run);
	}
}

/* ---- plans ---- */

static void
say_file(const LsmFile *file)
{
	print_key(case_output, file->smallest);
	say("%s-", (file->flags & LSM_FILE_SMALLEST_CUT) ? "+" : "");
	print_key(case_output, file->largest);
	say("%s", (file->flags & LSM_FILE_LARGEST_CUT) ? "+" : "");
}

static void
say_run(const LsmRun *run)
{
	say("L%d", run->level);
	if (run->level == 0)
		say(" %llu", (unsigned long long) run->run);
}

static void
say_plan(const LsmVersion *version, const LsmPlan *plan)
{
	const LsmFile *before = NULL;

	if (plan == NULL)
	{
		say("nothing\n");
		return;
	}
	for (int i = 0; i < plan->nfiles; i++)
	{
		const LsmFile *file = plan->files[i];

		if (before == NULL || before->level != file->level || before->run != file->run)
		{
			say("%sL%d", before != NULL ? ", " : plan->move ? "move " : "merge ", file->level);
			if (file->level == 0)
				say(" %llu", (unsigned long long) file->run);
		}
		say(" ");
		say_file(file);
		before = file;
	}
	say(" to L%d", plan->out_level);
	if (plan->out_level == 0)
		say(" %llu", (unsigned long long) plan->out_run);
	if (!plan->move)
	{
		int			n = 0;

		for (int i = 0; i < plan->nsequences; i++)
			n += plan->sequences[i].nfiles;
		if (n != plan->nfiles)
			say(", %d files in sequences", n);
		say(", below: ");
		if (plan->below < version->nruns)
			say_run(&version->runs[plan->below]);
		else
			say("nothing");
	}
	say("\n");
}

/* "0,3" */
static uint32
read_levels(const char *text)
{
	uint32		levels = 0;

	for (; text != NULL && *text != '\0'; text += text[1] == ',' ? 2 : 1)
		levels |= LSM_LEVEL_BIT(*text - '0');
	return levels;
}

static void
do_due(Case *c, LsmVersion *version)
{
	char	   *others = case_value(c, "others");
	char	   *cursor = case_value(c, "cursor");
	uint32		levels = read_levels(others);

	if (cursor != NULL)
		ctl.jobs.compact_cursor[cursor[0] - '0'] = atoi(cursor + 2);
	for (int i = case_number(c, "times", 1); i > 0; i--)
		say_plan(version, lsm_plan_due(&tree, version, levels));
	free(others);
	free(cursor);
}

static LsmRun *
find_run(LsmVersion *version, const char *name)
{
	for (int i = 0; i < version->nruns; i++)
	{
		LsmRun	   *run = &version->runs[i];

		if (name[0] == 'L' ? run->level == atoi(name + 1) :
			run->level == 0 && run->run == (uint64) atoi(name))
			return run;
	}
	abort();
}

static void
do_plan(Case *c, LsmVersion *version)
{
	char	   *words = strdup(c->words);
	char	   *at = words;
	char	   *args[3] = {0};
	int			in_a_row;

	for (int i = 0; i < 3; i++)
		args[i] = next_word(&at);
	if (strcmp(c->command, "level0") == 0)
		say_plan(version, lsm_plan_level0(version, atoi(args[0]), args[1] != NULL));
	else if (strcmp(c->command, "level0-moves") == 0)
		say_plan(version, lsm_plan_level0_moves(version));
	else if (strcmp(c->command, "push") == 0)
		say_plan(version, lsm_plan_push(version, atoi(args[0]), atoi(args[1]), atoi(args[2])));
	else if (strcmp(c->command, "rewrite") == 0)
		say_plan(version, lsm_plan_rewrite(version, find_run(version, args[0]), atoi(args[1]),
										   atoi(args[2])));
	else if (strcmp(c->command, "relief") == 0)
	{
		in_a_row = atoi(args[0]);
		say_plan(version, lsm_plan_relief(version, &in_a_row));
		say("%d in a row\n", in_a_row);
	}
	else
		elog(ERROR, "unknown command %s", c->command);
	free(words);
}

static void
do_overlaps(const LsmVersion *version)
{
	for (int i = 0; i < version->nfiles; i++)
	{
		const LsmFile *file = lsm_version_file(version, i);

		say_file(file);
		say(" of L%d: %s\n", file->level,
			lsm_plan_overlaps_below(version, file->level, file) ? "yes" : "no");
	}
}

/* ---- claims ---- */

#define MAX_JOBS	4

static LsmJob jobs[MAX_JOBS];
static int	nwakes;
int			MyProcPid;

void
lsm_worker_wake(void)
{
	nwakes++;
}

void
ConditionVariableBroadcast(ConditionVariable *cv)
{
}

static void
say_levels(uint32 levels)
{
	bool		any = false;

	for (int i = 0; i < LSM_MAX_LEVELS; i++)
	{
		if (levels & LSM_LEVEL_BIT(i))
		{
			say("%s%d", any ? "," : "", i);
			any = true;
		}
	}
	if (levels & LSM_MEMTABLES_BIT)
	{
		say("%smemtables", any ? "," : "");
		any = true;
	}
	say(any ? "" : "none");
}

static void
say_claims(void)
{
	say(" (");
	for (int i = 0, n = 0; i < LSM_MAX_CLAIMS; i++)
	{
		if (ctl.jobs.claims[i].pid == 0)
			continue;
		say("%s%c: ", n++ > 0 ? "; " : "", 'A' + ctl.jobs.claims[i].pid - 1);
		say_levels(ctl.jobs.claims[i].levels);
	}
	say(")\n");
}

static void
do_claim(LsmJob *job, char *line)
{
	char	   *what = next_word(&line);
	char	   *levels = next_word(&line);

	if (strcmp(what, "plan") == 0 || strcmp(what, "whole") == 0)
	{
		/* a request is not limited; who asks for all levels is one */
		job->pace.limited = levels == NULL;
		if (what[0] == 'p' ? lsm_claim_plan(job) : lsm_claim_whole(job))
		{
			say("yes, others have ");
			say_levels(job->others_levels);
		}
		else
			say("no");
	}
	else if (strcmp(what, "keep") == 0)
	{
		nwakes = 0;
		lsm_claim_keep(job, read_levels(levels));
		say("%s", nwakes > 0 ? "workers wake" : "kept");
	}
	else if (strcmp(what, "flush") == 0)
	{
		/* flush_claim(), of a sealed memtable */
		LWLockAcquire(&ctl.lock, LW_EXCLUSIVE);
		if ((lsm_claimed_levels(&ctl) & LSM_MEMTABLES_BIT) != 0)
			say("no");
		else
		{
			job->claim = lsm_claim_take(&ctl, LSM_MEMTABLES_BIT);
			say("yes");
		}
		LWLockRelease(&ctl.lock);
	}
	else if (strcmp(what, "covers") == 0)
		say("%s", lsm_claim_covers(&ctl, read_levels(levels)) ? "yes" : "no");
	else
	{
		LWLockAcquire(&ctl.lock, LW_EXCLUSIVE);
		if (job->claim != NULL)
			lsm_claim_give_up(&job->claim);
		LWLockRelease(&ctl.lock);
		say("released");
	}
	say_claims();
}

static void
do_claims(Case *c)
{
	char	   *line;

	init_tree(LSM_KIND_TABLE);
	memset(jobs, 0, sizeof(jobs));
	for (int i = 0; i < MAX_JOBS; i++)
	{
		jobs[i].ctl = &ctl;
		jobs[i].keyspace_id = KEYSPACE;
	}
	pg_atomic_write_u32(&ctl.files.compaction_due, case_number(c, "due", 0));
	while ((line = case_line(c)) != NULL)
	{
		char	   *who = next_word(&line);

		if (strcmp(who, "clock") == 0)
			now_us += atoi(next_word(&line)) * INT64CONST(1000);
		else if (strcmp(who, "gone") == 0)
			ctl.keyspace_id.value = KEYSPACE + 1;
		else if (strcmp(who, "unloaded") == 0)
			ctl.state = LSM_STATE_UNLOADED;
		else
		{
			MyProcPid = 1 + who[0] - 'A';
			do_claim(&jobs[who[0] - 'A'], line);
		}
	}
}

static void
run(Case *c)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "case",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext outer = MemoryContextSwitchTo(context);
	LsmVersion *version;

	if (strcmp(c->command, "version") == 0)
		do_version(c);
	version = lsm_version_refresh(&tree);
	if (strcmp(c->command, "due") == 0)
		do_due(c, version);
	else if (strcmp(c->command, "score") == 0)
		say("%.2f, %llu bytes\n", lsm_compaction_score(&tree, version),
			(unsigned long long) lsm_pending_bytes(&tree, version));
	else if (strcmp(c->command, "overlaps") == 0)
		do_overlaps(version);
	else if (strcmp(c->command, "claims") == 0)
		do_claims(c);
	else if (strcmp(c->command, "version") != 0)
		do_plan(c, version);
	MemoryContextSwitchTo(outer);
	MemoryContextDelete(context);
}

int
main(void)
{
	yield_rate = 1000000000;
	init_tree(LSM_KIND_TABLE);
	run_cases("plan", run);
	run_cases("claim", run);
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
