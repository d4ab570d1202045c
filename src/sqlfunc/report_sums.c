/*-------------------------------------------------------------------------
 *
 * report_sums.c
 *	  What lsm_report() says of false positives: rates, and whether they are
 *	  as expected.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "sqlfunc/report.h"

double
lsm_report_measured(const LsmReportSums *sums)
{
	uint64		absent = lsm_report_absent(&sums->counts);

	return absent > 0 ? (double) sums->counts.false_positives / absent : -1;
}

/* As the questions were spread over the files, if there were any */
double
lsm_report_expected(const LsmReportSums *sums)
{
	uint64		absent = lsm_report_absent(&sums->counts);

	if (absent > 0)
		return sums->expected / absent;
	return sums->keys > 0 ? sums->expected_keys / sums->keys : -1;
}

/*
 * By more than a half, and more than chance explains: three standard
 * deviations, and one.
 */
bool
lsm_report_is_bad(double false_positives, double expected)
{
	return false_positives > Max(1.5 * expected, expected + 3 * sqrt(expected) + 1);
}

bool
lsm_report_sums_are_bad(const LsmReportSums *sums)
{
	return sums->elastic_files == 0 &&
		lsm_report_is_bad(sums->counts.false_positives, sums->expected);
}

bool
lsm_report_file_is_bad(const LsmReportFile *file)
{
	const LsmFilterCounts *counts = &file->filter.counts;

	return file->nsegments == 0 &&
		lsm_report_is_bad(counts->false_positives, lsm_report_absent(counts) * file->filter.expected_fpr);
}

bool
lsm_report_is_vague(double false_positives, double expected)
{
	return Max(false_positives, expected) < 5;
}

const char *
lsm_report_scheme(const LsmReportFile *file)
{
	const char *name = lsm_filter_scheme_name(file->info.filter_scheme);

	return name != NULL && (!file->filter_known || file->filter.known) ? name : "unknown";
}
