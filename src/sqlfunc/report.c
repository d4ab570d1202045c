/*-------------------------------------------------------------------------
 *
 * report.c
 *	  lsm_report(): trees as one HTML page with figures.  This file collects
 *	  the facts, as the functions that show them in rows do, and puts the page
 *	  together.
 *
 * Rights and locks are those of lsm_filters(), and keys are for those to whom
 * lsm_files() shows them: see lsm_relation_open() and
 * lsm_relation_may_show_keys().  Relations are opened one after the other, so
 * an error about one leaves those behind it alone.
 *
 * Facts that are read one after the other need not be of one moment: a file
 * that came or went meanwhile has no filter here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/smgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "sqlfunc/functions.h"
#include "sqlfunc/report.h"

PG_FUNCTION_INFO_V1(lsm_report);

/* A row of the table of all trees */
typedef struct Summary
{
	int			number;			/* of the section */
	char	   *name;
	bool		is_table;
	uint64		entries;		/* in memory, too */
	uint64		bytes;
	uint64		memory;			/* of filters */
	LsmReportSums sums;
	uint64		flushed;
	uint64		compacted;
	uint64		stall_us;
} Summary;

typedef struct Report
{
	StringInfo	sections;
	List	   *summaries;
	uint32		explained;		/* LSM_EXPLAINED_* */
	List	   *seen;			/* OIDs of relations that are in it */
	LsmElasticUse *uses;
	int			nuses;
	MemoryContext context;		/* of one tree */
} Report;

/* ======================================================================
 * Facts
 * ====================================================================== */

static void
add_sums(LsmReportSums *sums, const LsmReportFile *file)
{
	const LsmFilterInfo *filter = &file->filter;

	sums->files++;
	sums->elastic_files += file->nsegments > 0;
	sums->entries += file->info.entries;
	sums->bytes += file->info.file_bytes + file->info.filter_bytes;
	sums->filter_bytes += file->info.filter_bytes;
	sums->keys += (double) filter->keys;
	sums->bits += filter->bits_per_key * filter->keys;
	sums->expected_keys += filter->keys * filter->expected_fpr;
	sums->expected += lsm_report_absent(&filter->counts) * filter->expected_fpr;
	sums->counts.negatives += filter->counts.negatives;
	sums->counts.true_positives += filter->counts.true_positives;
	sums->counts.false_positives += filter->counts.false_positives;
}

/* Files with their filters and segments, which come in the same order */
static void
collect_files(LsmReportTree *report, LsmTree *tree)
{
	LsmFileInfo *infos = lsm_tree_files(tree, &report->nfiles);
	int			nfilters;
	int			nsegments;
	int			next = 0;
	int			next_segment = 0;
	LsmFilterInfo *filters = lsm_tree_filters(tree, &nfilters);
	LsmSegmentInfo *segments = lsm_tree_segments(tree, &nsegments);

	report->files = palloc_extended(Max(report->nfiles, 1) * sizeof(LsmReportFile),
									MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (int i = 0; i < report->nfiles; i++)
	{
		LsmReportFile *file = &report->files[i];

		CHECK_FOR_INTERRUPTS();
		file->info = infos[i];
		if (next == nfilters || filters[next].number != infos[i].number)
		{
			/* unless the version has changed in between */
			next = 0;
			while (next < nfilters && filters[next].number != infos[i].number)
				next++;
		}
		if (next == nfilters)
			continue;
		file->filter = filters[next++];
		file->filter_known = true;
		file->nsegments = lsm_filter_take_segments(&file->filter, segments, nsegments,
												   &next_segment, &file->segments);
	}
	lsm_report_place_files(report);
}

static void
collect_sums(LsmReportTree *report)
{
	for (int i = 0; i < report->nfiles; i++)
	{
		const LsmReportFile *file = &report->files[i];
		LsmReportSums *level = &report->levels[file->info.level];

		if (i == 0 || file->info.level != file[-1].info.level || file->info.run != file[-1].info.run)
		{
			level->runs++;
			report->sums.runs++;
		}
		add_sums(level, file);
		add_sums(&report->sums, file);
	}
}

static void
collect_stats(LsmReportTree *report, LsmTree *tree)
{
	uint64		keyspace_id = lsm_tree_keyspace(tree);
	int			iter = 0;

	while (!report->has_stats && lsm_stats_next(&iter, &report->stats))
		report->has_stats = report->stats.keyspace_id == keyspace_id &&
			report->stats.dboid == MyDatabaseId;
	if (!report->has_stats)
		memset(&report->stats, 0, sizeof(LsmTreeStats));
}

static LsmReportTree *
collect_tree(const Report *page, Relation rel)
{
	LsmTree    *tree = lsm_relation_tree(rel);
	LsmReportTree *report = palloc0(sizeof(LsmReportTree));

	report->number = list_length(page->summaries) + 1;
	report->explained = page->explained;
	report->rel = rel;
	report->name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
											  RelationGetRelationName(rel));
	report->show_keys = lsm_relation_may_show_keys(rel);
	report->params = lsm_tree_filter_params(tree);
	report->bottom_scheme = lsm_tree_bottom_scheme(tree, report->params.scheme);
	report->averaged = lsm_tree_filter_allocation(tree) == LSM_ALLOCATION_MONKEY &&
		lsm_filter_scheme_allocates(report->params.scheme);
	collect_files(report, tree);
	collect_sums(report);
	lsm_tree_size(tree, &report->size);
	report->main_fork_bytes = (uint64) smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) * BLCKSZ;
	collect_stats(report, tree);
	report->elastic_bytes = lsm_elastic_tree_bytes(page->uses, page->nuses, lsm_tree_keyspace(tree));
	return report;
}

/* ======================================================================
 * A tree's section
 * ====================================================================== */

static const char *
persistence(Relation rel)
{
	switch (rel->rd_rel->relpersistence)
	{
		case RELPERSISTENCE_UNLOGGED:
			return "unlogged ";
		case RELPERSISTENCE_TEMP:
			return "temporary ";
		default:
			return "";
	}
}

static void
put_heading(StringInfo out, const LsmReportTree *tree)
{
	Relation	rel = tree->rel;
	bool		is_table = lsm_relation_is_table(rel);

	appendStringInfo(out, "<section id=\"t%d\">\n<h2><bdi>", tree->number);
	lsm_html_text(out, tree->name, 0);
	appendStringInfo(out, "</bdi></h2>\n<p class=\"sub\">%s%s", persistence(rel), is_table ? "table" : "index of ");
	if (!is_table)
	{
		Oid			table = rel->rd_index->indrelid;
		char	   *namespace = get_namespace_name(get_rel_namespace(table));
		char	   *name = get_rel_name(table);

		appendStringInfoString(out, "<bdi>");
		if (namespace != NULL && name != NULL)
			lsm_html_text(out, quote_qualified_identifier(namespace, name), 0);
		appendStringInfoString(out, "</bdi>");
	}
	appendStringInfo(out, ". New files get filters of scheme %s",
					 lsm_filter_scheme_name(tree->params.scheme));
	if (!lsm_filter_scheme_has(tree->params.scheme, LSM_FILTER_EMPTY))
		appendStringInfo(out, ", %g bits per key%s", tree->params.bits_per_key,
						 tree->averaged ? " on average" : "");
	if (tree->bottom_scheme != tree->params.scheme)
		appendStringInfo(out, ", those of the deepest level of scheme %s",
						 lsm_filter_scheme_name(tree->bottom_scheme));
	appendStringInfoString(out, ".</p>\n");
}

static void
put_figure(StringInfo out, const char *name, const char *value, const char *note)
{
	appendStringInfo(out, "<div><dt>%s</dt><dd>%s<small>%s</small></dd></div>\n", name, value, note);
}

/* Writes that waited, and those that were only delayed */
static void
put_stalls(StringInfo out, const LsmTreeStats *stats)
{
	uint64		stalls = 0;
	uint64		delays = 0;
	uint64		delay_us = 0;
	const char *delayed = "";

	for (int reason = 0; reason < LSM_NSTALLS; reason++)
		stalls += stats->counts.stalls[reason];
	for (int reason = 0; reason < LSM_NDELAYS; reason++)
	{
		delays += stats->counts.delays[reason];
		delay_us += stats->counts.delay_us[reason];
	}
	if (delays > 0)
		delayed = psprintf("; %s delayed, %s in all", lsm_text_of(delays, "write"),
						   lsm_text_us(delay_us));
	put_figure(out, "stalls",
			   stalls == 0 ? "none" : lsm_text_us(stats->counts.counters[LSM_COUNT_STALL_US]),
			   psprintf("%s%s", stalls == 0 ? "no writer stood still" :
						psprintf("%s waited", lsm_text_of(stalls, "write")), delayed));
}

static void
put_activity(StringInfo out, const LsmReportTree *tree)
{
	const LsmTreeStats *stats = &tree->stats;
	uint64		flushed = stats->counts.counters[LSM_COUNT_BYTES_FLUSHED];
	uint64		compacted = stats->counts.counters[LSM_COUNT_BYTES_COMPACTED];

	put_figure(out, "point lookups", lsm_text_count(stats->counts.counters[LSM_COUNT_LOOKUPS]),
			   psprintf("%s read", lsm_text_of(stats->counts.counters[LSM_COUNT_BLOCKS_READ], "block")));
	put_figure(out, "write amplification",
			   flushed > 0 ? psprintf("%.2f", (double) (flushed + compacted) / flushed) : "&#x2013;",
			   psprintf("%s flushed, %s compacted", lsm_text_bytes(flushed), lsm_text_bytes(compacted)));
	put_stalls(out, stats);
	if (stats->known)
		put_figure(out, "to be compacted", lsm_text_bytes(stats->pending_bytes),
				   psprintf("%s in level 0", lsm_text_of(tree->levels[0].runs, "run")));
}

static uint64
filter_memory(const LsmReportTree *tree)
{
	return (tree->stats.known ? tree->stats.mapped_filter_bytes : 0) + tree->elastic_bytes;
}

static void
put_figures(StringInfo out, const LsmReportTree *tree)
{
	const LsmReportSums *sums = &tree->sums;
	double		measured = lsm_report_measured(sums);
	double		expected = lsm_report_expected(sums);
	bool		bad = lsm_report_sums_are_bad(sums);

	appendStringInfoString(out, "<dl>\n");
	put_figure(out, "on disk", lsm_text_bytes(tree->size.file_bytes + tree->main_fork_bytes),
			   psprintf("%s in %s", lsm_text_of_entries(sums->entries),
						lsm_text_of(sums->files, "file")));
	put_figure(out, "memtables", lsm_text_bytes(tree->size.memtable_bytes),
			   lsm_text_of_entries(tree->size.memtable_entries));
	put_figure(out, "filters in memory", lsm_text_bytes(filter_memory(tree)),
			   psprintf("%s on disk", lsm_text_bytes(sums->filter_bytes)));
	if (expected >= 0)
		put_figure(out, "false positives, measured",
				   measured < 0 ? "&#x2013;" : psprintf("<span%s>%s</span>", bad ? " class=\"bad\"" : "", lsm_text_rate(measured)),
				   psprintf("%s expected", lsm_text_rate(expected)));
	put_activity(out, tree);
	appendStringInfoString(out, "</dl>\n");
}

/* The caption of a figure, unless a section before has it */
static void
put_caption(StringInfo out, LsmReportTree *tree, uint32 what, const char *text)
{
	if ((tree->explained & what) == 0)
		appendStringInfo(out, "<p class=\"cap\">%s</p>\n", text);
	tree->explained |= what;
}

static void
put_rates(StringInfo out, LsmReportTree *tree)
{
	appendStringInfoString(out, "<h3>False positives of filters</h3>\n");
	if (lsm_report_absent(&tree->sums.counts) == 0)
	{
		appendStringInfo(out, "<p>No filter was asked for a key that is absent. Of such questions, %s are expected to pass.</p>\n",
						 lsm_text_rate(Max(lsm_report_expected(&tree->sums), 0)));
		return;
	}
	put_caption(out, tree, LSM_EXPLAINED_RATES,
				"Of the questions about keys that a file does not have, how many its filter lets through, so that the file is read in vain. "
				"The scale is logarithmic. Expected is what the size of the filter promises; of elastic filters, what the units promise that are on now.");
	lsm_svg_rates(out, tree);
}

static void
put_heat(StringInfo out, LsmReportTree *tree)
{
	LsmElasticStats stats;

	lsm_elastic_read_stats(&stats);
	appendStringInfoString(out, "<h3>Elastic filters: hotness and units of segments</h3>\n");
	put_caption(out, tree, LSM_EXPLAINED_HEAT,
				"A segment is hot if it is often asked for keys that it does not have; older questions count less. "
				"Memory goes to units where that saves most reads.");
	appendStringInfo(out, "<p class=\"cap\">Units of this tree take %s of memory, those of all trees %s of the %s of <code>lsm.elastic_memory</code>.</p>\n",
					 lsm_text_bytes(tree->elastic_bytes), lsm_text_bytes(stats.used_bytes),
					 lsm_text_bytes(stats.budget_bytes));
	lsm_svg_heat(out, tree);
}

static void
put_files(StringInfo out, LsmReportTree *tree)
{
	appendStringInfoString(out, "<h3>Files by level and key range</h3>\n");
	if (tree->show_keys)
		put_caption(out, tree, LSM_EXPLAINED_FILES,
					"Each mark is a sorted file, from its smallest to its largest key. Equal widths hold about as many entries. "
					"A lookup asks one file of each run, the newest first.");
	else
		appendStringInfoString(out, "<p class=\"cap\">Each mark is a sorted file, as wide as it has entries, in the order of file numbers. "
							   "Key ranges are for roles that may read all rows of the table.</p>\n");
	lsm_svg_files(out, tree);
	put_rates(out, tree);
	if (tree->sums.elastic_files > 0)
		put_heat(out, tree);
}

static void
put_tree(StringInfo out, LsmReportTree *tree)
{
	bool		stalled = false;

	for (int reason = 0; reason < LSM_NSTALLS; reason++)
		stalled |= tree->stats.counts.stalls[reason] > 0;
	put_heading(out, tree);
	put_figures(out, tree);
	if (tree->nfiles > 0)
		put_files(out, tree);
	else
		appendStringInfoString(out, "<p>There are no sorted files yet: what there is, is in memory.</p>\n");
	if (tree->nfiles > 0 || tree->stats.counts.counters[LSM_COUNT_BYTES_FLUSHED] > 0)
	{
		appendStringInfoString(out, "<h3>Levels, and the work that went into them</h3>\n");
		put_caption(out, tree, LSM_EXPLAINED_WORK,
					"Written is what flushes and compactions wrote to the level. Per byte flushed, it adds up to the write amplification.");
		lsm_table_levels(out, tree);
	}
	if (stalled)
	{
		appendStringInfoString(out, "<h3>Stalls</h3>\n");
		lsm_table_stalls(out, tree);
	}
	if (tree->nfiles > 0)
		lsm_table_files(out, tree);
	appendStringInfoString(out, "</section>\n");
}

/* ======================================================================
 * The page
 * ====================================================================== */

static void
add_tree(Report *page, Relation rel)
{
	MemoryContext former;
	LsmReportTree *tree;
	Summary    *summary;

	if (list_member_oid(page->seen, RelationGetRelid(rel)))
		return;
	page->seen = lappend_oid(page->seen, RelationGetRelid(rel));
	former = MemoryContextSwitchTo(page->context);
	tree = collect_tree(page, rel);
	put_tree(page->sections, tree);
	page->explained = tree->explained;
	MemoryContextSwitchTo(former);

	summary = palloc0(sizeof(Summary));
	summary->number = tree->number;
	summary->name = pstrdup(tree->name);
	summary->is_table = lsm_relation_is_table(rel);
	summary->entries = tree->sums.entries + tree->size.memtable_entries;
	summary->bytes = tree->size.file_bytes + tree->main_fork_bytes;
	summary->memory = filter_memory(tree);
	summary->sums = tree->sums;
	summary->flushed = tree->stats.counts.counters[LSM_COUNT_BYTES_FLUSHED];
	summary->compacted = tree->stats.counts.counters[LSM_COUNT_BYTES_COMPACTED];
	summary->stall_us = tree->stats.counts.counters[LSM_COUNT_STALL_US];
	page->summaries = lappend(page->summaries, summary);
	MemoryContextReset(page->context);
}

/* A tree, or a table with its indexes */
static void
add_relation(Report *page, Oid relid)
{
	Relation	rel = lsm_relation_open(relid, LSM_RELATION_TREES, LSM_RIGHT_FACTS, AccessShareLock);
	List	   *indexes = NIL;
	List	   *not_open;
	ListCell   *lc;

	if (!lsm_relation_is_index(rel))
		indexes = lsm_relation_open_indexes(rel, AccessShareLock);
	if (indexes == NIL)
		lsm_relation_check_kind(rel);
	not_open = lsm_relations_not_open(lcons(rel, list_copy(indexes)));
	if (lsm_relation_is_index(rel) || lsm_relation_is_table(rel))
		add_tree(page, rel);
	foreach(lc, indexes)
	{
		add_tree(page, (Relation) lfirst(lc));
	}
	lsm_relations_let_go(not_open);
	lsm_relation_close_indexes(indexes, AccessShareLock);
	lsm_relation_close(rel, AccessShareLock);
}

static void
put_summary(StringInfo out, const Summary *summary)
{
	double		measured = lsm_report_measured(&summary->sums);
	double		expected = lsm_report_expected(&summary->sums);
	bool		bad = lsm_report_sums_are_bad(&summary->sums);

	appendStringInfo(out, "<tr><td class=\"n\"><a href=\"#t%d\"><bdi>", summary->number);
	lsm_html_text(out, summary->name, 0);
	appendStringInfo(out, "</bdi></a></td><td class=\"t\">%s</td><td class=\"opt\">%s</td><td>%s</td><td>%s</td><td class=\"opt\">%s</td>",
					 summary->is_table ? "table" : "index", lsm_text_count(summary->sums.files),
					 lsm_text_count(summary->entries), lsm_text_bytes(summary->bytes),
					 lsm_text_bytes(summary->memory));
	appendStringInfo(out, "<td class=\"opt\">%s</td><td%s>%s</td><td class=\"opt\">%s</td><td>%s</td></tr>\n",
					 expected < 0 ? "&#x2013;" : lsm_text_rate(expected), bad ? " class=\"bad\"" : "",
					 measured < 0 ? "&#x2013;" : lsm_text_rate(measured),
					 summary->flushed == 0 ? "&#x2013;" :
					 psprintf("%.2f", (double) (summary->flushed + summary->compacted) / summary->flushed),
					 summary->stall_us == 0 ? "none" : lsm_text_us(summary->stall_us));
}

/* The largest first */
static int
compare_summaries(const ListCell *a, const ListCell *b)
{
	const Summary *x = lfirst(a);
	const Summary *y = lfirst(b);

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->number - y->number;
}

/* On a narrow page without the columns of class opt */
static void
put_summaries(StringInfo out, const Report *page)
{
	List	   *sorted = list_copy(page->summaries);
	ListCell   *lc;

	if (list_length(sorted) < 2)
		return;
	appendStringInfoString(out, "<div class=\"wide\"><table><thead><tr><th class=\"t\">tree</th><th class=\"t\">kind</th><th class=\"opt\">files</th>"
						   "<th>entries</th><th>on disk</th><th class=\"opt\">filters<br/>in memory</th><th class=\"opt\">false positives,<br/>expected</th>"
						   "<th>false positives,<br/>measured</th><th class=\"opt\">write<br/>amplification</th><th>stalls</th></tr></thead>\n<tbody>");
	list_sort(sorted, compare_summaries);
	foreach(lc, sorted)
	{
		put_summary(out, lfirst(lc));
	}
	appendStringInfoString(out, "</tbody></table></div>\n");
}

/* To the second */
static void
put_time(StringInfo out, TimestampTz time)
{
	appendStringInfoString(out, "<span class=\"w\">");
	lsm_html_text(out, timestamptz_to_str(time - time % USECS_PER_SEC), 0);
	appendStringInfoString(out, "</span>");
}

static void
put_page(StringInfo out, const Report *page)
{
	const char *database = get_database_name(MyDatabaseId);
	char	   *title = psprintf("LSM trees of database %s", database != NULL ? database : "?");
	int			n = list_length(page->summaries);

	lsm_html_begin(out, title);
	appendStringInfoString(out, "<header>\n<h1>LSM trees of database <bdi>");
	lsm_html_text(out, database != NULL ? database : "?", 0);
	appendStringInfo(out, "</bdi></h1>\n<p class=\"sub\">%s%s at ", lsm_text_of(n, "tree"),
					 RecoveryInProgress() ? ", on a standby," : "");
	put_time(out, GetCurrentTimestamp());
	appendStringInfoString(out, ". Counts are since the start of the server at ");
	put_time(out, PgStartTime);
	appendStringInfoString(out, ", or the last <code>pg_stat_lsm_reset()</code>.</p>\n");
	put_summaries(out, page);
	appendStringInfoString(out, "</header>\n<main>\n");
	appendBinaryStringInfo(out, page->sections->data, page->sections->len);
	appendStringInfo(out, "</main>\n<footer><p>lsmam %s, PostgreSQL %s. Point at a mark to see what it is. "
					 "What the filters could do better: <code>lsm_advise()</code>.</p></footer>\n", LSM_VERSION, PG_VERSION);
	lsm_html_end(out);
}

Datum
lsm_report(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	Report		page = {0};
	StringInfoData out;
	Datum	   *relids;
	bool	   *nulls;
	int			nrelids;

	deconstruct_array(array, REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT, &relids, &nulls, &nrelids);
	for (int i = 0; i < nrelids; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("array of relations must not contain nulls")));
	}
	/* what this session counted in statements before this one */
	lsm_counters_publish();
	page.sections = makeStringInfo();
	page.uses = lsm_elastic_uses(&page.nuses);
	page.context = AllocSetContextCreate(CurrentMemoryContext, "lsm_report", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < nrelids; i++)
	{
		/* one that has been seen does nothing else that would ask */
		CHECK_FOR_INTERRUPTS();
		add_relation(&page, DatumGetObjectId(relids[i]));
	}
	initStringInfo(&out);
	put_page(&out, &page);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}
