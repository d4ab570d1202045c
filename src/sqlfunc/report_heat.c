/*-------------------------------------------------------------------------
 *
 * report_heat.c
 *	  The heat map of lsm_report(): how often segments of elastic filters were
 *	  asked for keys that they do not have, and how many of their units are on.
 *
 * A tree may have hundreds of thousands of segments.  Neighbours are drawn as
 * one cell until the cell is wide enough to be seen.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "sqlfunc/report.h"

#define CELL_WIDTH		3.0		/* at least, if there are several segments */
#define UNITS_HEIGHT	18.0
#define HEAT_HEIGHT		14.0
#define LANE_HEIGHT		(UNITS_HEIGHT + 2 + HEAT_HEIGHT)
#define LANE_GAP		10.0
#define AXIS_HEIGHT		34.0

#define NCLASSES		6		/* of colours: h0 is no hotness at all */

/* Segments side by side, of one run */
typedef struct Cell
{
	double		from;			/* pixels */
	double		to;
	const LsmReportFile *first;
	const LsmReportFile *last;
	uint32		first_segment;
	uint32		last_segment;
	int			segments;
	int			tracked;		/* of these */
	double		accesses;		/* sums */
	double		units_on;
	double		units;
	double		keys;
	double		false_positives;	/* if each key were one question */
} Cell;

/* Upper bounds of the classes 1 to 5 */
typedef struct Scale
{
	double		bounds[NCLASSES];
} Scale;

/* ======================================================================
 * Cells
 * ====================================================================== */

static void
add_segment(Cell *cell, const LsmReportFile *file, const LsmSegmentInfo *segment, double from, double to)
{
	if (cell->segments == 0)
	{
		memset(cell, 0, sizeof(Cell));
		cell->from = from;
		cell->first = file;
		cell->first_segment = segment->segment;
	}
	cell->to = to;
	cell->last = file;
	cell->last_segment = segment->segment;
	cell->segments++;
	if (segment->tracked)
	{
		cell->tracked++;
		cell->accesses += segment->accesses;
	}
	cell->units_on += segment->units_on;
	cell->units += segment->units;
	cell->keys += segment->keys;
	cell->false_positives += segment->keys * segment->expected_fpr;
}

typedef void (*CellFunction) (void *arg, const Cell *cell);

/* Calls `work` for each cell of a run that begins with file `i`; its end. */
static int
walk_cells(const LsmReportTree *tree, int i, CellFunction work, void *arg)
{
	const LsmReportFile *first = &tree->files[i];
	Cell		cell = {0};

	for (; i < tree->nfiles && tree->files[i].info.level == first->info.level &&
		 tree->files[i].info.run == first->info.run; i++)
	{
		const LsmReportFile *file = &tree->files[i];
		double		from = lsm_svg_x(file->from);
		double		width = (lsm_svg_x(file->to) - from) / Max(file->nsegments, 1);

		/* a gap between files, or one of another scheme */
		if (cell.segments > 0 && (file->nsegments == 0 || from - cell.to > 1))
		{
			work(arg, &cell);
			cell.segments = 0;
		}
		for (int s = 0; s < file->nsegments; s++)
		{
			add_segment(&cell, file, &file->segments[s], from + s * width, from + (s + 1) * width);
			if (cell.to - cell.from >= CELL_WIDTH)
			{
				work(arg, &cell);
				cell.segments = 0;
			}
		}
		CHECK_FOR_INTERRUPTS();
	}
	if (cell.segments > 0)
		work(arg, &cell);
	return i;
}

static double
hotness(const Cell *cell)
{
	return cell->tracked > 0 ? cell->accesses / cell->tracked : 0;
}

/* ======================================================================
 * Colours
 * ====================================================================== */

static void
note_hottest(void *arg, const Cell *cell)
{
	double	   *hottest = arg;

	*hottest = Max(*hottest, hotness(cell));
}

/* Bounds 1, 3, 10, 30 ...: the last is at or above the hottest cell. */
static void
make_scale(const LsmReportTree *tree, Scale *scale)
{
	double		hottest = 0;
	double		bound = 0.1;
	bool		three = true;	/* the next bound is three times the last */

	for (int i = 0; i < tree->nfiles;)
		i = walk_cells(tree, i, note_hottest, &hottest);
	memset(scale, 0, sizeof(Scale));
	for (int n = 0; n < NCLASSES - 1 || bound < hottest; n++)
	{
		if (n > 0)
		{
			bound *= three ? 3 : 10.0 / 3;
			three = !three;
		}
		memmove(&scale->bounds[1], &scale->bounds[2], (NCLASSES - 2) * sizeof(double));
		scale->bounds[NCLASSES - 1] = bound;
	}
}

static int
class_of(const Scale *scale, double value)
{
	int			class = 0;

	/* what has nearly died away is not hot */
	if (value < scale->bounds[1] / 100)
		return 0;
	while (class < NCLASSES - 1 && value > scale->bounds[class])
		class++;
	return class;
}

static void
put_legend(StringInfo out, const Scale *scale)
{
	appendStringInfoString(out, "<ul class=\"key\"><li>questions per segment:</li>");
	for (int class = 0; class < NCLASSES; class++)
		appendStringInfo(out, "<li><svg width=\"18\" height=\"11\"><rect class=\"h%d\" width=\"18\" height=\"11\"/></svg>%s%s</li>",
						 class, class == 0 ? "none" : "to ", class == 0 ? "" : scale->bounds[class] < 1 ? psprintf("%.3g", scale->bounds[class]) : lsm_text_count((uint64) rint(scale->bounds[class])));
	appendStringInfoString(out, "<li><svg width=\"18\" height=\"11\"><rect class=\"hu\" y=\"5\" width=\"18\" height=\"2\"/></svg>not tracked</li>"
						   "<li><svg width=\"18\" height=\"11\"><rect class=\"lane\" width=\"18\" height=\"11\"/><rect class=\"u\" y=\"5\" width=\"18\" height=\"6\"/></svg>units on, of those in the file</li></ul>\n");
}

/* ======================================================================
 * The figure
 * ====================================================================== */

typedef struct Lane
{
	StringInfo	out;
	const Scale *scale;
	double		y;
	int			level;			/* of the lane before; -1: none */
	double		units_on;
	double		units;
} Lane;

static void
put_cell_title(StringInfo out, const Cell *cell)
{
	appendStringInfo(out, "<title>file " UINT64_FORMAT ", segment %u", cell->first->info.number, cell->first_segment);
	if (cell->segments > 1)
	{
		if (cell->last != cell->first)
			appendStringInfo(out, " &#x2013; file " UINT64_FORMAT ", segment %u", cell->last->info.number, cell->last_segment);
		else
			appendStringInfo(out, "&#x2013;%u", cell->last_segment);
	}
	if (cell->tracked == 0)
		appendStringInfoString(out, "&#10;hotness: not tracked, for it was not asked since the start, or there is no room");
	else
		appendStringInfo(out, "&#10;hotness %s%s", lsm_text_number(hotness(cell)),
						 cell->segments > 1 ? " on average" : "");
	appendStringInfo(out, "&#10;units on: %s of %s", lsm_text_count((uint64) cell->units_on), lsm_text_count((uint64) cell->units));
	if (cell->keys > 0)
		appendStringInfo(out, "&#10;false positives: %s expected",
						 lsm_text_rate(cell->false_positives / cell->keys));
	appendStringInfoString(out, "</title>");
}

static void
put_cell(void *arg, const Cell *cell)
{
	Lane	   *lane = arg;
	double		from = cell->from;
	double		width = Max(cell->to - from, 1.2);
	double		gap = width >= 6 ? 0.8 : 0;
	double		height = cell->units > 0 ? UNITS_HEIGHT * cell->units_on / cell->units : 0;
	double		heat_y = lane->y + UNITS_HEIGHT + 2;

	appendStringInfoString(lane->out, "<g>");
	if (height > 0)
		appendStringInfo(lane->out, "<rect class=\"u\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>",
						 from, lane->y + UNITS_HEIGHT - height, width - gap, height);
	if (cell->tracked == 0)
		appendStringInfo(lane->out, "<rect class=\"hu\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"2\"/>",
						 from, heat_y + HEAT_HEIGHT / 2 - 1, width - gap);
	else
		appendStringInfo(lane->out, "<rect class=\"h%d\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\"/>",
						 class_of(lane->scale, hotness(cell)), from, heat_y, width - gap, HEAT_HEIGHT);
	put_cell_title(lane->out, cell);
	appendStringInfoString(lane->out, "</g>\n");
	lane->units_on += cell->units_on;
	lane->units += cell->units;
}

/* Runs that have a segment */
static int
count_lanes(const LsmReportTree *tree)
{
	int			lanes = 0;
	bool		counted = false;

	for (int i = 0; i < tree->nfiles; i++)
	{
		if (i == 0 || tree->files[i].info.level != tree->files[i - 1].info.level ||
			tree->files[i].info.run != tree->files[i - 1].info.run)
			counted = false;
		if (!counted && tree->files[i].nsegments > 0)
		{
			lanes++;
			counted = true;
		}
	}
	return lanes;
}

/* Moves on to the next run; false if this one has no segment. */
static bool
put_lane(const LsmReportTree *tree, int *i, Lane *lane)
{
	const LsmReportFile *first = &tree->files[*i];
	StringInfo	out = lane->out;
	StringInfoData cells;
	int			x = LSM_SVG_LEFT + LSM_SVG_PLOT + 14;

	initStringInfo(&cells);
	lane->out = &cells;
	lane->units = lane->units_on = 0;
	*i = walk_cells(tree, *i, put_cell, lane);
	lane->out = out;
	if (cells.len == 0)
		return false;
	appendStringInfo(out, "<rect class=\"lane\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.0f\"/>\n",
					 LSM_SVG_LEFT, lane->y, LSM_SVG_PLOT, UNITS_HEIGHT);
	appendBinaryStringInfo(out, cells.data, cells.len);
	appendStringInfo(out, "<text x=\"%d\" y=\"%.1f\">%s of %s</text><text x=\"%d\" y=\"%.1f\">%s on</text>\n",
					 x, lane->y + 12, lsm_text_count((uint64) lane->units_on), lsm_text_of((uint64) lane->units, "unit"),
					 x, lane->y + 28, lsm_text_rate(lane->units > 0 ? lane->units_on / lane->units : 0));
	if (lane->level != first->info.level)
		appendStringInfo(out, "<text class=\"l\" x=\"0\" y=\"%.1f\">level %d</text>\n", lane->y + 14, first->info.level);
	lane->level = first->info.level;
	pfree(cells.data);
	return true;
}

void
lsm_svg_heat(StringInfo out, const LsmReportTree *tree)
{
	int			nlanes = count_lanes(tree);
	Scale		scale;
	Lane		lane = {.out = out, .scale = &scale, .level = -1};

	make_scale(tree, &scale);
	put_legend(out, &scale);
	lsm_svg_begin(out, nlanes * (LANE_HEIGHT + LANE_GAP) + AXIS_HEIGHT,
				  "Hotness and units of the segments of elastic filters, by level, run and key range");
	for (int i = 0; i < tree->nfiles;)
	{
		if (put_lane(tree, &i, &lane))
			lane.y += LANE_HEIGHT + LANE_GAP;
	}
	lsm_svg_axis(out, tree, nlanes * (LANE_HEIGHT + LANE_GAP));
	appendStringInfoString(out, "</svg></div>\n");
}
