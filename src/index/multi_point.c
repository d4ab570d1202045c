/*-------------------------------------------------------------------------
 *
 * multi_point.c
 *	  The points of = ANY, looked for in groups.
 *
 * A lookup of an absent key does little but wait for memory: the lines of
 * filters that its digest leads to.  For a list of keys these waits overlap,
 * if the fences of all keys are looked at first (lsm_tree_multi_lookup).  Keys
 * that some filter or memtable may have are then looked up one by one, with
 * the digest and the filters' answers that are already there.
 *
 * That a key was absent is believed as long as the scan lasts.  So this is for
 * MVCC snapshots only: what is inserted later they do not see.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bswap.h"

#include "index/quals.h"

/* Points of the first group: a LIMIT may be satisfied by a few */
#define FIRST_POINTS	8
/*
 * Groups that are not looked for ahead when one had hardly an absent key:
 * nothing is gained
 */
#define RESTING_GROUPS	8

/* ======================================================================
 * Sorting a list
 * ====================================================================== */

typedef struct SortPoint
{
	uint64		word;			/* first bytes behind what all have in common */
	LsmSlice	code;
} SortPoint;

static inline int
compare_points(const SortPoint *a, const SortPoint *b)
{
	if (a->word != b->word)
		return a->word < b->word ? -1 : 1;
	return lsm_slice_compare(a->code, b->code);
}

#define ST_SORT sort_points
#define ST_ELEMENT_TYPE SortPoint
#define ST_COMPARE(a, b) compare_points(a, b)
#define ST_SCOPE static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DEFINE
#include "lib/sort_template.h"

/* Shorter codes are padded: equal words say nothing. */
static uint64
word_at(LsmSlice code, uint32 offset)
{
	uint64		word = 0;

	if (code.len >= offset + sizeof(word))
		memcpy(&word, code.data + offset, sizeof(word));
	else if (code.len > offset)
		memcpy(&word, code.data + offset, code.len - offset);
	return pg_ntoh64(word);
}

static uint32
common_prefix(const LsmSlice *points, int n)
{
	uint32		bytes = points[0].len;

	for (int i = 1; i < n && bytes > 0; i++)
	{
		uint32		most = Min(bytes, points[i].len);

		for (bytes = 0; bytes < most && points[i].data[bytes] == points[0].data[bytes];)
			bytes++;
	}
	return bytes;
}

int
lsm_points_sort(LsmSlice *points, int n)
{
	SortPoint  *sorted;
	uint32		prefix_bytes;
	int			distinct = 0;

	if (n < 2)
		return n;
	sorted = palloc_extended(n * sizeof(SortPoint), MCXT_ALLOC_HUGE);
	prefix_bytes = common_prefix(points, n);
	for (int i = 0; i < n; i++)
	{
		sorted[i].word = word_at(points[i], prefix_bytes);
		sorted[i].code = points[i];
	}
	sort_points(sorted, n);
	for (int i = 0; i < n; i++)
	{
		if (i == 0 || compare_points(&sorted[i - 1], &sorted[i]) != 0)
			points[distinct++] = sorted[i].code;
	}
	pfree(sorted);
	return distinct;
}

int
lsm_points_find(const LsmSlice *points, int n, LsmSlice code)
{
	int			low = 0;
	int			high = n;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (lsm_slice_compare(points[middle], code) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ======================================================================
 * Groups
 * ====================================================================== */

/*
 * Is the prefix the whole key, and its last column's list long enough, and in
 * the order of codes?
 */
bool
lsm_points_pay(const LsmQuals *quals, const LsmKeySpec *spec)
{
	return quals->nprefix == spec->nkeys && !(quals->by_labels && quals->nprefix == 1) &&
		!quals->by_groups &&
		quals->columns[quals->nprefix - 1].npoints >= FIRST_POINTS;
}

LsmPoints *
lsm_points_create(void)
{
	LsmPoints  *group = palloc0(sizeof(LsmPoints));

	lsm_buffer_init(&group->keys, 512);
	return group;
}

static bool
group_has(const LsmPoints *group, int nouter, const int *point)
{
	return point[nouter] >= group->first && point[nouter] < group->first + group->n &&
		memcmp(group->outer, point, nouter * sizeof(int)) == 0;
}

/*
 * Look for the points of the last column from point[last] on, twice as many as
 * the last time.
 */
static void
begin_group(LsmPoints *group, LsmTree *tree, const LsmQuals *quals, const int *point)
{
	int			last = quals->nprefix - 1;
	const LsmColumnQuals *column = &quals->columns[last];
	int			size = group->n == 0 ? FIRST_POINTS : Min(2 * group->n, LSM_GROUP_KEYS);
	int			ends[LSM_GROUP_KEYS];
	int			start = 0;

	group->first = point[last];
	group->n = Min(size, column->npoints - group->first);
	memcpy(group->outer, point, last * sizeof(int));
	resetStringInfo(&group->keys);
	for (int i = 0; i < group->n; i++)
	{
		for (int c = 0; c <= last; c++)
		{
			const LsmColumnQuals *each = &quals->columns[c];
			LsmSlice	code = each->points[c < last ? point[c] : group->first + i];

			appendBinaryStringInfo(&group->keys, code.data, code.len);
		}
		ends[i] = group->keys.len;
	}
	for (int i = 0; i < group->n; i++)
	{
		group->probes[i].filter_key = lsm_slice(group->keys.data + start, ends[i] - start);
		start = ends[i];
	}
	lsm_probe_begin_group(tree, group->probes, group->n);
	if (group->resting > 0)
	{
		group->resting--;
		memset(group->absent, 0, sizeof(group->absent));
	}
	else if (lsm_tree_multi_lookup(tree, group->probes, group->n, group->absent) < group->n / 4)
		group->resting = RESTING_GROUPS;
}

/*
 * lsm_points_probe - what to look up for this combination of points; NULL:
 * nothing is there.
 *
 * REQUIRES: lsm_points_pay(), an MVCC snapshot.  The probe is valid until the
 * next call.
 */
const LsmProbe *
lsm_points_probe(LsmPoints *group, LsmTree *tree, const LsmQuals *quals, const int *point)
{
	int			last = quals->nprefix - 1;
	int			at;

	if (!group_has(group, last, point))
		begin_group(group, tree, quals, point);
	at = point[last] - group->first;

	/* a longer key would have been refused */
	if (group->absent[at] || group->probes[at].filter_key.len > LSM_INDEX_MAX_CODE_BYTES)
		return NULL;
	return &group->probes[at];
}
