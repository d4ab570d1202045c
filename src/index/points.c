/*-------------------------------------------------------------------------
 *
 * points.c
 *	  Looking up many keys at once: the points of = ANY, in groups.
 *
 * A lookup spends most of its time waiting for memory.  So the digests of all
 * keys of a group are computed first, then their fences are looked at and
 * what they lead to is fetched, for the whole group; only then the filters are asked and
 * entries are read, which finds most of what it needs in the cache.  The
 * entries' rows are announced to the table in the same way, before the first is asked for.
 *
 * Entries are read ahead of the scan, which is for MVCC snapshots only, as in
 * scan.c.  Which point an entry belongs to is kept, so that the scan's
 * position is as if points were looked up one by one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/rel.h"

#include "index/index.h"

/* Points of the first group: a LIMIT may be satisfied by a few */
#define FIRST_POINTS	4

LsmPoints *
lsm_points_create(void)
{
	LsmPoints  *group = palloc0(sizeof(LsmPoints));

	lsm_buffer_init(&group->batch.bytes, 1024);
	lsm_buffer_init(&group->keys, 256);
	return group;
}

/*
 * lsm_points_begin - announce the points of the last column of the prefix, from
 * point[nprefix - 1] on.
 *
 * `more`: goes on where the last group ended, and may be larger.
 */
void
lsm_points_begin(LsmPoints *group, LsmTree *tree, const LsmQuals *quals, const int *point,
				 bool more)
{
	int			last = quals->nprefix - 1;
	const LsmColumnQuals *column = &quals->columns[last];
	int			ends[LSM_POINTS_AT_ONCE];
	int			start = 0;

	group->size = more ? Min(group->size * 2, LSM_POINTS_AT_ONCE) : FIRST_POINTS;
	group->first = point[last];
	group->n = Min(group->size, column->npoints - group->first);
	group->looked_up = 0;
	group->open = false;
	group->batch.n = 0;
	group->next = 0;

	resetStringInfo(&group->keys);
	for (int i = 0; i < group->n; i++)
	{
		for (int c = 0; c < last; c++)
			appendBinaryStringInfo(&group->keys, quals->columns[c].points[point[c]].data,
								   quals->columns[c].points[point[c]].len);
		appendBinaryStringInfo(&group->keys, column->points[group->first + i].data,
							   column->points[group->first + i].len);
		ends[i] = group->keys.len;
	}
	for (int i = 0; i < group->n; i++)
	{
		lsm_probe_begin(tree, &group->probes[i],
						lsm_slice(group->keys.data + start, ends[i] - start));
		start = ends[i];
	}
	lsm_tree_announce_probes(tree, group->probes, group->n);
}

/* Read entries of the points not looked up yet; false: there are none. */
static bool
read_entries(LsmPoints *group, LsmCursor *cursor, LsmTree *table)
{
	LsmBatch   *batch = &group->batch;
	LsmSlice	key;
	LsmSlice	value;

	batch->n = 0;
	group->next = 0;
	resetStringInfo(&batch->bytes);
	while (batch->n < LSM_BATCH_ENTRIES && batch->bytes.len < LSM_BATCH_BYTES)
	{
		if (!group->open)
		{
			if (group->looked_up == group->n)
				break;
			/* a longer key would have been refused */
			if (group->probes[group->looked_up++].filter_key.len > LSM_INDEX_MAX_CODE_BYTES)
				continue;
			lsm_cursor_seek_point(cursor, &group->probes[group->looked_up - 1]);
			group->open = true;
		}
		if (!lsm_cursor_step(cursor, ForwardScanDirection, &key, &value))
		{
			group->open = false;
			continue;
		}
		group->point_of[batch->n] = group->looked_up - 1;
		lsm_batch_append(batch, key, value);
		if (table != NULL)
			lsm_tree_announce_key(table, lsm_slice(key.data + key.len - LSM_INDEX_TID_BYTES,
												   LSM_INDEX_TID_BYTES));
	}
	return batch->n > 0;
}

/*
 * lsm_points_step - the next entry of the group; *point tells of which point.
 *
 * `table`: the tree that the rows will be looked up in, or NULL.
 */
bool
lsm_points_step(LsmPoints *group, LsmCursor *cursor, LsmTree *table,
				LsmSlice *key, LsmSlice *value, int *point)
{
	if (group->next >= group->batch.n && !read_entries(group, cursor, table))
	{
		*point = group->first + group->n - 1;
		return false;
	}
	*point = group->first + group->point_of[group->next];
	lsm_batch_entry(&group->batch, group->next++, key, value);
	return true;
}
