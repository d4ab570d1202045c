/*-------------------------------------------------------------------------
 *
 * report.h
 *	  What the files of lsm_report() share: report.c collects the facts of a
 *	  tree and puts the page together, the others write parts of it.
 *
 * The page is ASCII: what is not is a character reference.  So it is the same
 * whatever the encodings of database, client and file are.  It is HTML and
 * well-formed XML, too.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_REPORT_H
#define LSM_REPORT_H

#include "lib/stringinfo.h"
#include "utils/rel.h"

#include "tree/tree.h"

/* ---- facts ---- */

typedef struct LsmReportFile
{
	LsmFileInfo info;
	LsmFilterInfo filter;		/* zeros if !filter_known */
	bool		filter_known;	/* false: the file came or went just now */
	LsmSegmentInfo *segments;	/* elastic */
	int			nsegments;
	double		from;			/* its key range on the axis, 0..1 */
	double		to;
	const char *smallest;		/* NULL: not to be shown */
	const char *largest;
} LsmReportFile;

/* Of a level, or of the whole tree */
typedef struct LsmReportSums
{
	int			runs;
	int			files;
	int			elastic_files;
	uint64		entries;
	uint64		bytes;
	uint64		filter_bytes;
	double		keys;			/* of filters */
	double		bits;			/* that they are asked in */
	LsmFilterCounts counts;
	double		expected;		/* false positives, of so many questions */
	double		expected_keys;	/* the same, if each key were one question */
} LsmReportSums;

#define LSM_REPORT_TICKS	5

/* Longest labels, all five or those at the ends and in the middle */
#define LSM_REPORT_TICK_COLUMNS	14
#define LSM_REPORT_LONG_TICK_COLUMNS	34

/* What is explained once in a page */
#define LSM_EXPLAINED_FILES		0x01
#define LSM_EXPLAINED_RATES		0x02
#define LSM_EXPLAINED_HEAT		0x04
#define LSM_EXPLAINED_WORK		0x08

typedef struct LsmReportTree
{
	int			number;			/* from 1 */
	Relation	rel;
	char	   *name;			/* as SQL has it, schema included */
	bool		show_keys;		/* else nothing depends on any key */
	LsmReportFile *files;		/* by level, run (newest first), key */
	int			nfiles;
	LsmReportSums levels[LSM_MAX_LEVELS];
	LsmReportSums sums;
	LsmTreeSize size;
	LsmFilterParams params;		/* what new files get */
	LsmFilterScheme bottom_scheme;	/* ... in the deepest level */
	bool		averaged;		/* bits per key are those of the tree's average */
	uint64		main_fork_bytes;
	LsmTreeStats stats;
	bool		has_stats;
	uint64		elastic_bytes;	/* of units that are on */
	uint32		explained;		/* LSM_EXPLAINED_*: by a section before */
	const char *ticks[LSM_REPORT_TICKS];	/* keys below the axis; NULL: none */
	double		tick_at[LSM_REPORT_TICKS];
	int			tick_columns;
} LsmReportTree;

static inline uint64
lsm_report_absent(const LsmFilterCounts *counts)
{
	return counts->negatives + counts->false_positives;
}

/* ---- report_sums.c ---- */

/*
 * Measured and expected false positive rate of the sums; negative: nothing was
 * asked, or there is no file.
 */
extern double lsm_report_measured(const LsmReportSums *sums);
extern double lsm_report_expected(const LsmReportSums *sums);

/*
 * Well above what is expected?  Sums with elastic filters never are: what is
 * expected of these follows from the units that are on now, and their false
 * positives may be of times with fewer.
 */
extern bool lsm_report_is_bad(double false_positives, double expected);
extern bool lsm_report_sums_are_bad(const LsmReportSums *sums);
extern bool lsm_report_file_is_bad(const LsmReportFile *file);

/* Too few questions to say anything? */
extern bool lsm_report_is_vague(double false_positives, double expected);

extern const char *lsm_report_scheme(const LsmReportFile *file);

/* ---- report_keys.c ---- */

/*
 * Fill in what depends on keys: texts of keys, ranges on the axis, ticks; if
 * keys may not be shown, ranges that follow from what anyone may see.  Sorts
 * the files.
 */
extern void lsm_report_place_files(LsmReportTree *tree);

/* ---- report_html.c ---- */

extern void lsm_html_begin(StringInfo out, const char *title);
extern void lsm_html_end(StringInfo out);

/*
 * Append text that anyone may have written, for element content and quoted
 * attributes.  What is invisible becomes visible.  Cut after so many columns;
 * 0: not cut.
 */
extern void lsm_html_text(StringInfo out, const char *text, int max_columns);

/* Numbers in words, palloc'd: 1,234,567; 12.3 MB; 0.84%; 3.4 s; 12.3 */
extern char *lsm_text_count(uint64 n);
extern char *lsm_text_bytes(uint64 bytes);
extern char *lsm_text_rate(double rate);
extern char *lsm_text_us(uint64 us);
extern char *lsm_text_number(double number);

/* "1 file", "2 files" */
extern char *lsm_text_of(uint64 n, const char *noun);
extern char *lsm_text_of_entries(uint64 n);

/* ---- report_svg.c, report_heat.c ---- */

/* Pixels of all figures: labels, plot, labels */
#define LSM_SVG_WIDTH	1120
#define LSM_SVG_LEFT	104
#define LSM_SVG_PLOT	820

static inline double
lsm_svg_x(double share)
{
	return LSM_SVG_LEFT + share * LSM_SVG_PLOT;
}

extern void lsm_svg_begin(StringInfo out, double height, const char *label);
extern void lsm_svg_axis(StringInfo out, const LsmReportTree *tree, double y);
extern void lsm_svg_files(StringInfo out, const LsmReportTree *tree);
extern void lsm_svg_rates(StringInfo out, const LsmReportTree *tree);
extern void lsm_svg_heat(StringInfo out, const LsmReportTree *tree);

/* ---- report_tables.c ---- */

extern void lsm_table_levels(StringInfo out, const LsmReportTree *tree);
extern void lsm_table_stalls(StringInfo out, const LsmReportTree *tree);
extern void lsm_table_files(StringInfo out, const LsmReportTree *tree);

#endif							/* LSM_REPORT_H */
