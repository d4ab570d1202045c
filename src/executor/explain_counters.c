/*-------------------------------------------------------------------------
 *
 * explain_counters.c
 *	  What EXPLAIN shows of the counters, for a statement and for a node.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

#include "executor/explain_counters.h"

typedef struct ExplainCounter
{
	LsmCounter	counter;
	const char *text;			/* in text format */
	const char *label;			/* in the others */
	bool		if_any;			/* in text not if it is 0 */
} ExplainCounter;

static const ExplainCounter explain_counters[] = {
	{LSM_COUNT_LOOKUPS, "lookups", "Lookups"},
	{LSM_COUNT_DIGESTS, "digests", "Digests"},
	{LSM_COUNT_FILTER_PROBES, "filter probes", "Filter Probes"},
	{LSM_COUNT_FILTER_NEGATIVES, "negatives", "Filter Negatives"},
	{LSM_COUNT_FILTER_TRUE_POSITIVES, "true positives", "Filter True Positives"},
	{LSM_COUNT_FILTER_FALSE_POSITIVES, "false positives", "Filter False Positives"},
	{LSM_COUNT_UNIT_PROBES, "unit probes", "Filter Unit Probes"},
	{LSM_COUNT_BLOCKS_READ, "blocks read", "Blocks Read"},
	{LSM_COUNT_MEMTABLE_HITS, "memtable hits", "Memtable Hits"},
	{LSM_COUNT_DIRECTORY_HITS, "directory hits", "Directory Hits", true},
	{LSM_COUNT_DIRECTORY_MISLED, "directory misled", "Directory Misled", true},
};

bool
lsm_explain_any(const uint64 *counters)
{
	for (int i = 0; i < lengthof(explain_counters); i++)
		if (counters[explain_counters[i].counter] != 0)
			return true;
	return false;
}

void
lsm_explain_text(ExplainState *es, const char *title, const uint64 *counters, bool all)
{
	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfoString(es->str, title);
	for (int i = 0; i < lengthof(explain_counters); i++)
	{
		uint64		n = counters[explain_counters[i].counter];

		if (n != 0 || (all && !explain_counters[i].if_any))
			appendStringInfo(es->str, " %s=" UINT64_FORMAT, explain_counters[i].text, n);
	}
	appendStringInfoChar(es->str, '\n');
}

void
lsm_explain_properties(ExplainState *es, const uint64 *counters)
{
	for (int i = 0; i < lengthof(explain_counters); i++)
		ExplainPropertyUInteger(explain_counters[i].label, NULL,
								counters[explain_counters[i].counter], es);
}
