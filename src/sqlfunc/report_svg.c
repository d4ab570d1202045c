/*-------------------------------------------------------------------------
 *
 * report_svg.c
 *	  Figures of lsm_report(): files by level and key range, and what their
 *	  filters let through.  The heat map is in report_heat.c.
 *
 * All figures of a tree have the same axis, so that what is below each other
 * has the same keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "sqlfunc/report.h"

/* Columns of a key in a tooltip */
#define TITLE_COLUMNS	60

/* Files narrower than this have no gap after them, but two shades. */
#define NARROW			3.0

/* Files that share so many pixels are drawn as one. */
#define TOGETHER		0.4

#define RATE_HEIGHT		84.0	/* of a level */
#define RATE_GAP		22.0
#define RATE_ZERO		13.0		/* above the lane's end: no false positive */
#define MEMORY_HEIGHT	20.0
#define LANE_GAP		3.0
#define LEVEL_GAP		12.0
#define AXIS_HEIGHT		34.0

void
lsm_svg_begin(StringInfo out, double height, const char *label)
{
	appendStringInfo(out,
					 "<div class=\"wide\"><svg class=\"fig\" viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"",
					 LSM_SVG_WIDTH, height);
	lsm_html_text(out, label, 0);
	appendStringInfoString(out, "\">\n");
}

/* Keys below the figure, or what the axis is without them */
void
lsm_svg_axis(StringInfo out, const LsmReportTree *tree, double y)
{
	appendStringInfo(out, "<path class=\"ax\" d=\"M%d %.1fH%d\"/>", LSM_SVG_LEFT, y,
					 LSM_SVG_LEFT + LSM_SVG_PLOT);
	for (int i = 0; i < LSM_REPORT_TICKS; i++)
	{
		double		x = lsm_svg_x(tree->tick_at[i]);

		if (tree->ticks[i] == NULL)
			continue;
		appendStringInfo(out, "<path class=\"ax\" d=\"M%.1f %.1fv5\"/><text class=\"k%s\" x=\"%.1f\" y=\"%.1f\">",
						 x, y, i == 0 ? "" : i == LSM_REPORT_TICKS - 1 ? " e" : " m", x, y + 18);
		lsm_html_text(out, tree->ticks[i], tree->tick_columns);
		appendStringInfoString(out, "<title>");
		lsm_html_text(out, tree->ticks[i], 0);
		appendStringInfoString(out, "</title></text>");
	}
	appendStringInfo(out, "<text class=\"k\" x=\"%d\" y=\"%.1f\">%s</text>\n",
					 LSM_SVG_LEFT + LSM_SVG_PLOT + 14, y + 4,
					 tree->show_keys ? "keys, in their order" : "entries");
}

/* ======================================================================
 * Files by level and key range
 * ====================================================================== */

static void
put_key_range(StringInfo out, const LsmReportFile *first, const LsmReportFile *last)
{
	if (first->smallest == NULL)
		return;
	appendStringInfoString(out, "&#10;keys ");
	lsm_html_text(out, first->smallest, TITLE_COLUMNS);
	appendStringInfoString(out, " &#x2013; ");
	lsm_html_text(out, last->largest, TITLE_COLUMNS);
}

static void
put_rates(StringInfo out, const LsmFilterCounts *counts, double expected)
{
	uint64		absent = lsm_report_absent(counts);

	appendStringInfo(out, "&#10;false positives: %s expected, ", lsm_text_rate(expected));
	if (absent == 0)
		appendStringInfoString(out, "no absent key was asked for");
	else
		appendStringInfo(out, "%s measured (%s of %s)",
						 lsm_text_rate((double) counts->false_positives / absent),
						 lsm_text_count(counts->false_positives), lsm_text_count(absent));
}

/* Tooltip of one file */
static void
put_file_title(StringInfo out, const LsmReportFile *file)
{
	const LsmFileInfo *info = &file->info;

	appendStringInfo(out, "<title>file " UINT64_FORMAT ", level %d, run " UINT64_FORMAT "&#10;%s, %s",
					 info->number, info->level, info->run,
					 lsm_text_of_entries(info->entries),
					 lsm_text_bytes(info->file_bytes));
	if (lsm_compression_name(info->compression) != NULL)
		appendStringInfo(out, ", %s", lsm_compression_name(info->compression));
	put_key_range(out, file, file);
	appendStringInfo(out, "&#10;filter: %s", lsm_report_scheme(file));
	if (info->filter_bytes > 0)
		appendStringInfo(out, ", %s", lsm_text_bytes(info->filter_bytes));
	if (file->filter_known)
	{
		if (info->filter_bytes > 0)
			appendStringInfo(out, ", %s bits per key", lsm_text_number(file->filter.bits_per_key));
		put_rates(out, &file->filter.counts, file->filter.expected_fpr);
	}
	appendStringInfoString(out, "</title>");
}

/* Of files that are too narrow to be told apart */
static void
put_files_title(StringInfo out, const LsmReportFile *files, int n)
{
	uint64		entries = 0;
	uint64		bytes = 0;

	for (int i = 0; i < n; i++)
	{
		entries += files[i].info.entries;
		bytes += files[i].info.file_bytes;
	}
	appendStringInfo(out, "<title>%d files, level %d, run " UINT64_FORMAT "&#10;%s, %s",
					 n, files[0].info.level, files[0].info.run, lsm_text_of_entries(entries), lsm_text_bytes(bytes));
	put_key_range(out, &files[0], &files[n - 1]);
	appendStringInfoString(out, "</title>");
}

static void
put_title(StringInfo out, const LsmReportFile *files, int n)
{
	if (n == 1)
		put_file_title(out, files);
	else
		put_files_title(out, files, n);
}

/* Files from this one on that are drawn as one: of one run and one scheme */
static int
count_together(const LsmReportTree *tree, int i)
{
	const LsmReportFile *first = &tree->files[i];
	int			n = 1;

	while (i + n < tree->nfiles)
	{
		const LsmReportFile *next = &tree->files[i + n];

		if (next->info.level != first->info.level || next->info.run != first->info.run ||
			next->info.filter_scheme != first->info.filter_scheme ||
			(next->to - first->from) * LSM_SVG_PLOT > TOGETHER)
			break;
		n++;
	}
	return n;
}

static double
lane_height(int runs)
{
	return runs <= 3 ? 20 : runs <= 8 ? 13 : 8;
}

/* Of a level with all its lanes, and the gap after it */
static double
level_height(int runs)
{
	return Max(runs * (lane_height(runs) + LANE_GAP), 20) + LEVEL_GAP;
}

static double
levels_height(const LsmReportTree *tree)
{
	double		height = MEMORY_HEIGHT + LEVEL_GAP + AXIS_HEIGHT;

	for (int level = 0; level < LSM_MAX_LEVELS; level++)
	{
		if (tree->levels[level].runs > 0)
			height += level_height(tree->levels[level].runs);
	}
	return height;
}

static void
put_memory(StringInfo out, const LsmReportTree *tree)
{
	char	   *entries = lsm_text_of_entries(tree->size.memtable_entries);
	char	   *bytes = lsm_text_bytes(tree->size.memtable_bytes);

	appendStringInfo(out, "<text class=\"l\" x=\"0\" y=\"%.0f\">memory</text>", MEMORY_HEIGHT - 5);
	if (tree->size.memtable_entries > 0)
		appendStringInfo(out, "<rect class=\"mem\" x=\"%d.5\" y=\"1\" width=\"%d\" height=\"%.0f\"><title>memtables: %s, %s&#10;"
						 "written last, not yet in files</title></rect><text x=\"%d\" y=\"%.0f\">%s, %s</text>\n",
						 LSM_SVG_LEFT, LSM_SVG_PLOT - 1, MEMORY_HEIGHT - 2, entries, bytes,
						 LSM_SVG_LEFT + LSM_SVG_PLOT + 14, MEMORY_HEIGHT - 5, entries, bytes);
	else
		appendStringInfo(out, "<text x=\"%d\" y=\"%.0f\">empty</text>\n",
						 LSM_SVG_LEFT, MEMORY_HEIGHT - 5);
}

static void
put_level_labels(StringInfo out, const LsmReportSums *sums, int level, double y)
{
	StringInfoData text;

	initStringInfo(&text);
	if (sums->runs > 1)
		appendStringInfo(&text, "%s, ", lsm_text_of(sums->runs, "run"));
	appendStringInfo(&text, "%s, %s", lsm_text_of(sums->files, "file"), lsm_text_bytes(sums->bytes));
	appendStringInfo(out, "<text class=\"l\" x=\"0\" y=\"%.1f\">level %d</text><text x=\"%d\" y=\"%.1f\">%s</text>\n",
					 y + 14, level, LSM_SVG_LEFT + LSM_SVG_PLOT + 14, y + 14, text.data);
}

/* One or several files, `n` of them; `shade` alternates. */
static void
put_file_mark(StringInfo out, const LsmReportFile *files, int n, double y, double height, int shade)
{
	double		from = lsm_svg_x(files[0].from);
	double		to = lsm_svg_x(files[n - 1].to);
	double		gap = to - from >= NARROW ? 1 : 0;

	if (to - from < 1.2)
	{
		/* a single key, or next to nothing, is seen, too */
		from = Min(from, lsm_svg_x(1) - 1.2);
		to = from + 1.2;
	}
	appendStringInfo(out, "<rect class=\"%s%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\">",
					 lsm_report_scheme(&files[0]), shade % 2 == 1 && gap == 0 ? " o" : "",
					 from, y, to - from - gap, height);
	put_title(out, files, n);
	appendStringInfoString(out, "</rect>\n");
}

/* Schemes that there are */
static void
put_schemes(StringInfo out, const LsmReportTree *tree)
{
	const char *seen[8] = {0};
	int			nseen = 0;

	appendStringInfoString(out, "<ul class=\"key\"><li>filter:</li>");
	for (int i = 0; i < tree->nfiles; i++)
	{
		const char *scheme = lsm_report_scheme(&tree->files[i]);
		int			j = 0;

		while (j < nseen && strcmp(seen[j], scheme) != 0)
			j++;
		if (j < nseen || nseen == lengthof(seen))
			continue;
		seen[nseen++] = scheme;
		appendStringInfo(out, "<li><svg width=\"11\" height=\"11\"><rect class=\"%s\" width=\"11\" height=\"11\"/></svg>%s</li>",
						 scheme, scheme);
	}
	appendStringInfoString(out, "</ul>\n");
}

void
lsm_svg_files(StringInfo out, const LsmReportTree *tree)
{
	double		next_level = MEMORY_HEIGHT + LEVEL_GAP;
	double		y = 0;
	double		height = 0;
	int			shade = 0;

	put_schemes(out, tree);
	lsm_svg_begin(out, levels_height(tree), "Files of each level and run by key range");
	put_memory(out, tree);
	for (int i = 0, n; i < tree->nfiles; i += n, shade++)
	{
		const LsmReportFile *file = &tree->files[i];
		const LsmReportSums *sums = &tree->levels[file->info.level];
		bool		is_level = i == 0 || file->info.level != file[-1].info.level;

		CHECK_FOR_INTERRUPTS();
		if (is_level)
		{
			y = next_level;
			next_level += level_height(sums->runs);
			height = lane_height(sums->runs);
			put_level_labels(out, sums, file->info.level, y);
		}
		else if (file->info.run != file[-1].info.run)
			y += height + LANE_GAP;
		if (is_level || file->info.run != file[-1].info.run)
		{
			appendStringInfo(out, "<rect class=\"lane\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.0f\"/>\n",
							 LSM_SVG_LEFT, y, LSM_SVG_PLOT, height);
			shade = 0;
		}
		n = count_together(tree, i);
		put_file_mark(out, file, n, y, height, shade);
	}
	lsm_svg_axis(out, tree, levels_height(tree) - AXIS_HEIGHT + 4);
	appendStringInfoString(out, "</svg></div>\n");
}

/* ======================================================================
 * False positive rates
 * ====================================================================== */

/* Powers of ten from 1 down to what is the smallest rate */
static int
count_decades(const LsmReportTree *tree)
{
	double		smallest = 0.01;

	for (int i = 0; i < tree->nfiles; i++)
	{
		const LsmFilterInfo *filter = &tree->files[i].filter;
		uint64		absent = lsm_report_absent(&filter->counts);

		if (!tree->files[i].filter_known)
			continue;
		if (filter->expected_fpr > 0)
			smallest = Min(smallest, filter->expected_fpr);
		if (filter->counts.false_positives > 0)
			smallest = Min(smallest, (double) filter->counts.false_positives / absent);
	}
	return Min((int) ceil(-log10(smallest) - 1e-9), 6);
}

static double
rate_y(double rate, double top, int decades)
{
	double		height = RATE_HEIGHT - RATE_ZERO;

	if (rate <= 0)
		return top + RATE_HEIGHT;
	return top + Min(-log10(Min(rate, 1)) / decades, 1) * height;
}

static void
put_rate_lane(StringInfo out, const LsmReportSums *sums, int level, double y, int decades)
{
	double		measured = lsm_report_measured(sums);
	double		expected = lsm_report_expected(sums);
	int			step = decades > 3 ? 2 : 1;
	int			x = LSM_SVG_LEFT + LSM_SVG_PLOT + 14;
	bool		bad = lsm_report_sums_are_bad(sums);

	appendStringInfo(out, "<text class=\"l\" x=\"0\" y=\"%.1f\">level %d</text>", y + RATE_HEIGHT / 2 + 4, level);
	for (int i = 0; i <= decades; i++)
	{
		double		at = rate_y(pow(10, -i), y, decades);

		appendStringInfo(out, "<path class=\"gr\" d=\"M%d %.1fh%d\"/>", LSM_SVG_LEFT, at, LSM_SVG_PLOT);
		if (i % step == 0)
			appendStringInfo(out, "<text class=\"g\" x=\"%d\" y=\"%.1f\">%s</text>", LSM_SVG_LEFT - 5, at + 3.5,
							 psprintf("%g%%", pow(10, 2 - i)));
	}
	appendStringInfo(out, "<path class=\"gr z\" d=\"M%d %.1fh%d\"/><text class=\"g\" x=\"%d\" y=\"%.1f\">0</text>",
					 LSM_SVG_LEFT, y + RATE_HEIGHT, LSM_SVG_PLOT, LSM_SVG_LEFT - 5, y + RATE_HEIGHT + 3.5);
	if (expected >= 0)
		appendStringInfo(out, "<text x=\"%d\" y=\"%.1f\">%s expected</text>", x, y + 32, lsm_text_rate(expected));
	if (measured >= 0)
		appendStringInfo(out, "<text%s x=\"%d\" y=\"%.1f\">%s measured,</text><text x=\"%d\" y=\"%.1f\">%s of %s</text>\n",
						 bad ? " class=\"bad\"" : "", x, y + 48, lsm_text_rate(measured),
						 x, y + 64, lsm_text_count(sums->counts.false_positives),
						 lsm_text_count(lsm_report_absent(&sums->counts)));
	else
		appendStringInfo(out, "<text x=\"%d\" y=\"%.1f\">nothing measured</text>\n", x, y + 48);
}

static void
put_rate_mark(StringInfo out, const LsmReportFile *file, double top, int decades)
{
	const LsmFilterInfo *filter = &file->filter;
	double		absent = (double) lsm_report_absent(&filter->counts);
	double		false_positives = (double) filter->counts.false_positives;
	double		expected = absent * filter->expected_fpr;
	double		from = lsm_svg_x(file->from);
	double		to = Max(lsm_svg_x(file->to), from + 1.2);
	const char *bad = lsm_report_file_is_bad(file) ? " b" : "";
	const char *vague = lsm_report_is_vague(false_positives, expected) ? " v" : "";

	appendStringInfo(out, "<g><path class=\"x\" d=\"M%.2f %.1fH%.2f\"/>", from,
					 rate_y(filter->expected_fpr, top, decades), to - (to - from >= NARROW ? 1 : 0));
	if (absent > 0)
	{
		double		y = rate_y(false_positives / absent, top, decades);

		if (to - from > 12)
			appendStringInfo(out, "<path class=\"ms%s%s\" d=\"M%.2f %.1fH%.2f\"/>", bad, vague, from, y, to - 1);
		else
			appendStringInfo(out, "<circle class=\"p%s%s\" cx=\"%.2f\" cy=\"%.1f\" r=\"2.2\"/>", bad, vague,
							 (from + to) / 2, y);
	}
	put_file_title(out, file);
	appendStringInfoString(out, "</g>\n");
}

void
lsm_svg_rates(StringInfo out, const LsmReportTree *tree)
{
	int			decades = count_decades(tree);
	double		y = 6 - RATE_HEIGHT - RATE_GAP;
	int			nlevels = 0;
	int			level = -1;

	for (int i = 0; i < LSM_MAX_LEVELS; i++)
		nlevels += tree->levels[i].files > 0;
	appendStringInfoString(out, "<ul class=\"key\"><li><svg width=\"22\" height=\"11\"><path class=\"x\" d=\"M0 6h22\"/></svg>expected</li>"
						   "<li><svg width=\"22\" height=\"11\"><path class=\"ms\" d=\"M0 6h12\"/><circle cx=\"18\" cy=\"6\" r=\"2.2\"/></svg>measured</li>"
						   "<li><svg width=\"22\" height=\"11\"><path class=\"ms v\" d=\"M0 6h12\"/><circle class=\"v\" cx=\"18\" cy=\"6\" r=\"2.2\"/></svg>measured with too few questions to tell</li>"
						   "<li><svg width=\"22\" height=\"11\"><path class=\"ms b\" d=\"M0 6h12\"/><circle class=\"b\" cx=\"18\" cy=\"6\" r=\"2.2\"/></svg>well above expected</li></ul>\n");
	lsm_svg_begin(out, 6 + nlevels * (RATE_HEIGHT + RATE_GAP) + AXIS_HEIGHT - 8,
				  "False positive rate of each file's filter, expected and measured, by level and key range");
	for (int i = 0, n; i < tree->nfiles; i += n)
	{
		const LsmReportFile *file = &tree->files[i];

		CHECK_FOR_INTERRUPTS();
		if (file->info.level != level)
		{
			level = file->info.level;
			y += RATE_HEIGHT + RATE_GAP;
			put_rate_lane(out, &tree->levels[level], level, y, decades);
		}
		/* where files cannot be told apart the first stands for them */
		n = count_together(tree, i);
		if (file->filter_known)
			put_rate_mark(out, file, y, decades);
	}
	lsm_svg_axis(out, tree, y + RATE_HEIGHT + RATE_GAP - 4);
	appendStringInfoString(out, "</svg></div>\n");
}
