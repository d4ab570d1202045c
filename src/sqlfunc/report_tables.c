/*-------------------------------------------------------------------------
 *
 * report_tables.c
 *	  Tables of lsm_report(): levels and the work that went into them, stalls,
 *	  files.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "sqlfunc/report.h"

/* Columns of a key in a table */
#define KEY_COLUMNS		22

/* With more files the whole list is folded away. */
#define FEW_FILES		12

/* The list has no more of them. */
#define MOST_FILES		5000

/* Of those that waste reads */
#define WORST_FILES		10

#define BAR_WIDTH		70

/* A bar of this share of the column's width */
static void
put_bar(StringInfo out, double share)
{
	appendStringInfo(out, "<svg width=\"%d\" height=\"5\"><rect class=\"q\" x=\"%.1f\" width=\"%.1f\" height=\"5\"/></svg>",
					 BAR_WIDTH, BAR_WIDTH * (1 - share), BAR_WIDTH * share);
}

static void
put_cell(StringInfo out, const char *text)
{
	appendStringInfo(out, "<td>%s</td>", text);
}

static const char *
rate_or_dash(double rate)
{
	return rate < 0 ? "&#x2013;" : lsm_text_rate(rate);
}

/* ======================================================================
 * Levels
 * ====================================================================== */

/* Bytes that flushes and compactions wrote to the level, and their time */
static void
level_work(const LsmReportTree *tree, int level, uint64 *bytes, uint64 *us, uint64 *jobs)
{
	const LsmTreeStats *stats = &tree->stats;

	*bytes = *us = *jobs = 0;
	if (!tree->has_stats)
		return;
	*bytes = stats->counts.work[level][LSM_WORK_BYTES_OUT];
	*us = stats->counts.work[level][LSM_WORK_US];
	*jobs = stats->counts.work[level][LSM_WORK_JOBS];
	if (level == 0)
	{
		*bytes += stats->counts.work[LSM_WORK_FLUSHES][LSM_WORK_BYTES_OUT];
		*us += stats->counts.work[LSM_WORK_FLUSHES][LSM_WORK_US];
		*jobs += stats->counts.work[LSM_WORK_FLUSHES][LSM_WORK_JOBS];
	}
}

static void
put_filter_cells(StringInfo out, const LsmReportSums *sums)
{
	put_cell(out, lsm_text_bytes(sums->filter_bytes));
	put_cell(out, sums->keys > 0 && sums->filter_bytes > 0 ?
			 lsm_text_number(sums->bits / sums->keys) : "&#x2013;");
	put_cell(out, rate_or_dash(lsm_report_expected(sums)));
	appendStringInfo(out, "<td%s>%s</td>",
					 lsm_report_sums_are_bad(sums) ? " class=\"bad\"" : "",
					 rate_or_dash(lsm_report_measured(sums)));
	put_cell(out, lsm_text_count(lsm_filter_counts_probes(&sums->counts)));
}

static void
put_level(StringInfo out, const LsmReportTree *tree, int level, uint64 most_bytes, uint64 most_written)
{
	const LsmReportSums *sums = &tree->levels[level];
	uint64		flushed = tree->stats.counts.counters[LSM_COUNT_BYTES_FLUSHED];
	uint64		written;
	uint64		us;
	uint64		jobs;

	level_work(tree, level, &written, &us, &jobs);
	if (sums->files == 0 && jobs == 0)
		return;
	appendStringInfo(out, "<tr><td class=\"t\">%d</td>", level);
	put_cell(out, lsm_text_count(sums->runs));
	put_cell(out, lsm_text_count(sums->files));
	put_cell(out, lsm_text_count(sums->entries));
	appendStringInfo(out, "<td>%s", lsm_text_bytes(sums->bytes));
	put_bar(out, most_bytes > 0 ? (double) sums->bytes / most_bytes : 0);
	appendStringInfoString(out, "</td>");
	put_filter_cells(out, sums);
	appendStringInfo(out, "<td>%s", lsm_text_bytes(written));
	put_bar(out, most_written > 0 ? (double) written / most_written : 0);
	appendStringInfoString(out, "</td>");
	put_cell(out, flushed > 0 ? psprintf("%.2f", (double) written / flushed) : "&#x2013;");
	put_cell(out, lsm_text_us(us));
	appendStringInfoString(out, "</tr>\n");
}

static void
put_level_sums(StringInfo out, const LsmReportTree *tree)
{
	const LsmReportSums *sums = &tree->sums;
	uint64		flushed = tree->stats.counts.counters[LSM_COUNT_BYTES_FLUSHED];
	uint64		written = 0;
	uint64		us = 0;

	for (int level = 0; level < LSM_MAX_LEVELS; level++)
	{
		uint64		level_bytes;
		uint64		level_us;
		uint64		jobs;

		level_work(tree, level, &level_bytes, &level_us, &jobs);
		written += level_bytes;
		us += level_us;
	}
	appendStringInfoString(out, "</tbody>\n<tfoot><tr><td class=\"t\">all</td>");
	put_cell(out, lsm_text_count(sums->runs));
	put_cell(out, lsm_text_count(sums->files));
	put_cell(out, lsm_text_count(sums->entries));
	put_cell(out, lsm_text_bytes(sums->bytes));
	put_filter_cells(out, sums);
	put_cell(out, lsm_text_bytes(written));
	put_cell(out, flushed > 0 ? psprintf("%.2f", (double) written / flushed) : "&#x2013;");
	put_cell(out, lsm_text_us(us));
	appendStringInfoString(out, "</tr></tfoot></table></div>\n");
}

void
lsm_table_levels(StringInfo out, const LsmReportTree *tree)
{
	uint64		most_bytes = 0;
	uint64		most_written = 0;

	for (int level = 0; level < LSM_MAX_LEVELS; level++)
	{
		uint64		written;
		uint64		us;
		uint64		jobs;

		level_work(tree, level, &written, &us, &jobs);
		most_bytes = Max(most_bytes, tree->levels[level].bytes);
		most_written = Max(most_written, written);
	}
	appendStringInfoString(out, "<div class=\"wide\"><table><thead><tr><th class=\"t\">level</th><th>runs</th><th>files</th>"
						   "<th>entries</th><th>size</th><th>filters</th><th>bits per key</th><th>expected</th>"
						   "<th>measured</th><th>questions</th><th>written</th><th>per byte<br/>flushed</th><th>time</th></tr></thead>\n<tbody>");
	for (int level = 0; level < LSM_MAX_LEVELS; level++)
		put_level(out, tree, level, most_bytes, most_written);
	put_level_sums(out, tree);
}

/* ======================================================================
 * Stalls
 * ====================================================================== */

void
lsm_table_stalls(StringInfo out, const LsmReportTree *tree)
{
	static const char *const reasons[LSM_NSTALLS] = {
		[LSM_STALL_LEVEL0] = "level 0 had as many runs as it may have",
		[LSM_STALL_FLUSH] = "memtables waited for a flush",
		[LSM_STALL_MEMORY] = "lsm.memtable_memory was used up",
	};

	appendStringInfoString(out, "<div class=\"wide\"><table><thead><tr><th class=\"t\">writers waited because</th>"
						   "<th>times</th><th>together</th><th>on average</th></tr></thead>\n<tbody>");
	for (int reason = 0; reason < LSM_NSTALLS; reason++)
	{
		uint64		n = tree->stats.counts.stalls[reason];
		uint64		us = tree->stats.counts.stall_us[reason];

		appendStringInfo(out, "<tr><td class=\"t\">%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", reasons[reason],
						 lsm_text_count(n), lsm_text_us(us), n > 0 ? lsm_text_us(us / n) : "&#x2013;");
	}
	appendStringInfoString(out, "</tbody></table></div>\n");
}

/* ======================================================================
 * Files
 * ====================================================================== */

static void
put_key(StringInfo out, const char *key)
{
	appendStringInfoString(out, "<td class=\"i\" title=\"");
	lsm_html_text(out, key, 0);
	appendStringInfoString(out, "\">");
	lsm_html_text(out, key, KEY_COLUMNS);
	appendStringInfoString(out, "</td>");
}

static void
put_file(StringInfo out, const LsmReportTree *tree, const LsmReportFile *file)
{
	const LsmFileInfo *info = &file->info;
	const LsmFilterInfo *filter = &file->filter;
	uint64		absent = lsm_report_absent(&filter->counts);
	bool		known = file->filter_known;
	const char *compression = lsm_compression_name(info->compression);

	appendStringInfo(out, "<tr><td class=\"t\">%d</td><td>" UINT64_FORMAT "</td><td>" UINT64_FORMAT "</td>",
					 info->level, info->run, info->number);
	put_cell(out, lsm_text_count(info->entries));
	put_cell(out, lsm_text_bytes(info->file_bytes));
	appendStringInfo(out, "<td class=\"t\">%s</td>", compression != NULL ? compression : "&#x2013;");
	appendStringInfo(out, "<td class=\"t\">%s</td>", lsm_report_scheme(file));
	put_cell(out, info->filter_bytes > 0 ? lsm_text_bytes(info->filter_bytes) : "&#x2013;");
	put_cell(out, known && info->filter_bytes > 0 ? lsm_text_number(filter->bits_per_key) : "&#x2013;");
	put_cell(out, rate_or_dash(known ? filter->expected_fpr : -1));
	appendStringInfo(out, "<td%s>%s</td>",
					 lsm_report_file_is_bad(file) ? " class=\"bad\"" : "",
					 rate_or_dash(absent > 0 ? (double) filter->counts.false_positives / absent : -1));
	put_cell(out, lsm_text_count(filter->counts.false_positives));
	put_cell(out, lsm_text_count(lsm_filter_counts_probes(&filter->counts)));
	if (tree->show_keys)
	{
		put_key(out, file->smallest);
		put_key(out, file->largest);
	}
	appendStringInfoString(out, "</tr>\n");
}

static void
begin_files(StringInfo out, const LsmReportTree *tree)
{
	appendStringInfo(out, "<div class=\"wide\"><table class=\"f\"><thead><tr><th class=\"t\">level</th><th>run</th><th>file</th>"
					 "<th>entries</th><th>size</th><th class=\"t\">compression</th><th class=\"t\">filter</th><th>filter<br/>size</th><th>bits<br/>per key</th>"
					 "<th>expected</th><th>measured</th><th>false<br/>positives</th><th>questions</th>%s</tr></thead>\n<tbody>",
					 tree->show_keys ? "<th class=\"t\">smallest key</th><th class=\"t\">largest key</th>" : "");
}

static void
end_files(StringInfo out)
{
	appendStringInfoString(out, "</tbody></table></div>\n");
}

static int
compare_waste(const void *a, const void *b)
{
	const LsmReportFile *x = *(const LsmReportFile *const *) a;
	const LsmReportFile *y = *(const LsmReportFile *const *) b;
	uint64		m = x->filter.counts.false_positives;
	uint64		n = y->filter.counts.false_positives;

	if (m != n)
		return m > n ? -1 : 1;
	return (x->info.number > y->info.number) - (x->info.number < y->info.number);
}

/* Files that were read in vain most often */
static void
put_worst_files(StringInfo out, const LsmReportTree *tree)
{
	const LsmReportFile **files = palloc_extended(tree->nfiles * sizeof(LsmReportFile *), MCXT_ALLOC_HUGE);

	if (tree->sums.counts.false_positives > 0)
	{
		for (int i = 0; i < tree->nfiles; i++)
			files[i] = &tree->files[i];
		qsort(files, tree->nfiles, sizeof(LsmReportFile *), compare_waste);
		appendStringInfoString(out, "<h3>Files that were read in vain most often</h3>\n");
		begin_files(out, tree);
		for (int i = 0; i < Min(tree->nfiles, WORST_FILES) && files[i]->filter.counts.false_positives > 0; i++)
			put_file(out, tree, files[i]);
		end_files(out);
	}
	pfree(files);
}

void
lsm_table_files(StringInfo out, const LsmReportTree *tree)
{
	bool		few = tree->nfiles <= FEW_FILES;

	if (few)
		appendStringInfoString(out, "<h3>Files</h3>\n");
	else
	{
		put_worst_files(out, tree);
		appendStringInfo(out, "<details><summary>%s %s files</summary>\n",
						 tree->nfiles <= MOST_FILES ? "All" : psprintf("The first %d of", MOST_FILES),
						 lsm_text_count(tree->nfiles));
	}
	begin_files(out, tree);
	for (int i = 0; i < Min(tree->nfiles, MOST_FILES); i++)
	{
		CHECK_FOR_INTERRUPTS();
		put_file(out, tree, &tree->files[i]);
	}
	end_files(out);
	if (!few)
		appendStringInfoString(out, "</details>\n");
}
