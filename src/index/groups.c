/*-------------------------------------------------------------------------
 *
 * groups.c
 *	  Scans in the order of values, where that of codes says it of groups only.
 *
 * Codes of text under a collation of libc begin with its primary weights, and
 * those of enums are OIDs (LSM_ORDER_GROUPS).  Of two values in different groups
 * the codes tell which is first.  What is in one group the operator class's
 * function has to sort: upper and lower case of a word, say, or all labels of an
 * enum.
 *
 * The entries of a group, with the same columns before, lie next to each other.
 * Most groups are small, mostly a single string: they are read to their end and
 * sorted in memory.  Of a group with more entries than that, which may be many
 * rows with one string, the different values are sorted (value_sort.c); for
 * each of them its entries are walked, in which the columns before and this one
 * are fixed.  If a column behind has groups, too, those entries are sorted in
 * the same way: that is the next level.
 *
 * A row comparison, (tenant, id) > ('x', 5), says of the values where they begin
 * or end, and of the rows of 'x', if it is a value of a large group, too: they
 * are walked from 5 on.
 *
 * The position of a scan stays the key of the entry returned last.  After a
 * change of direction or a restored mark the group of that key is read again.
 *
 * Entries are read before they are returned.  That is for MVCC snapshots, which
 * do not care.  What comes into a group after it was read belongs to no row that
 * they see.
 *
 * No lock or pin is held between calls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "index/scan.h"

/* A larger group is walked value by value. */
#define SMALL_GROUP_ENTRIES	256

/* After this many entries of one value the others are jumped over. */
#define SAME_VALUE_STEPS	4

typedef struct GroupEntry
{
	uint32		key;			/* offsets into bytes */
	uint32		value;
	uint32		key_bytes;
	uint32		value_bytes;
} GroupEntry;

/* What comes first in the codes of a scan is fixed on a level. */
typedef struct GroupLevel
{
	int			column;			/* whose groups are sorted; nkeys: none */
	StringInfoData prefix;		/* which the level's entries begin with */
	const LsmRowEnd *row_lower; /* what they are limited by behind it, */
	const LsmRowEnd *row_upper; /* or NULL */
	LsmValueSort *values;		/* of a large group; else NULL */
	StringInfoData group;		/* what its entries begin with */
	uint32		start;			/* of the column's code in them */
} GroupLevel;

struct LsmGroups
{
	LsmScan    *so;
	Relation	index;
	MemoryContext sorts;		/* of sorts of values */
	MemoryContext work;			/* of comparisons; reset after each group */
	int			nlevels;		/* with groups; the one behind has none */
	int			depth;			/* level that is read */
	GroupLevel *levels;
	bool		ended;			/* the level has no more entries */

	/* the entry that was one too many */
	bool		has_pending;
	uint32		pending_key_bytes;
	StringInfoData pending;

	/* a small group, sorted */
	int			n;
	int			next;
	ScanDirection direction;
	uint32		start;			/* of the column's code */
	StringInfoData bytes;
	GroupEntry	entries[SMALL_GROUP_ENTRIES];
};

/* ======================================================================
 * Entries of a level
 * ====================================================================== */

static inline const LsmColumnSpec *
level_spec(const LsmGroups *groups)
{
	return &groups->so->spec->columns[groups->levels[groups->depth].column];
}

/*
 * What the key has from the code of the level's column on; *start: where that
 * is
 */
static inline LsmSlice
from_code(const LsmGroups *groups, LsmSlice key, uint32 *start)
{
	const LsmColumnSpec *columns = groups->so->spec->columns;
	const GroupLevel *level = &groups->levels[groups->depth];
	int			i = groups->depth > 0 ? level[-1].column + 1 : 0;
	LsmSlice	rest = lsm_key_columns(key);

	Assert(level->prefix.len <= rest.len);
	rest.data += level->prefix.len;
	rest.len -= level->prefix.len;
	for (; i < level->column; i++)
	{
		uint32		len = lsm_code_length(&columns[i], rest);

		rest.data += len;
		rest.len -= len;
	}
	*start = rest.data - key.data;
	return rest;
}

/* The code itself */
static LsmSlice
find_code(const LsmGroups *groups, LsmSlice key, uint32 *start)
{
	LsmSlice	rest = from_code(groups, key, start);

	return lsm_slice(rest.data, lsm_code_length(level_spec(groups), rest));
}

static LsmSlice
entry_key(const LsmGroups *groups, int i)
{
	return lsm_slice(groups->bytes.data + groups->entries[i].key,
					 groups->entries[i].key_bytes);
}

static void
add_entry(LsmGroups *groups, LsmSlice key, LsmSlice value)
{
	GroupEntry *entry = &groups->entries[groups->n++];

	entry->key = groups->bytes.len;
	entry->key_bytes = key.len;
	lsm_buffer_append(&groups->bytes, key.data, key.len);
	entry->value = groups->bytes.len;
	entry->value_bytes = value.len;
	lsm_buffer_append(&groups->bytes, value.data, value.len);
}

/* The entry was one too many.  In a batch it can stay where it is. */
static void
give_back(LsmGroups *groups, LsmSlice key, LsmSlice value)
{
	LsmScan    *so = groups->so;
	LsmSlice	last;
	LsmSlice	unused;

	if (so->ahead.plain && so->ahead.next > 0)
	{
		lsm_batch_entry(so->ahead.batch, so->ahead.next - 1, &last, &unused);
		if (last.data == key.data)
		{
			so->ahead.next--;
			return;
		}
	}
	resetStringInfo(&groups->pending);
	lsm_buffer_append(&groups->pending, key.data, key.len);
	lsm_buffer_append(&groups->pending, value.data, value.len);
	groups->pending_key_bytes = key.len;
	groups->has_pending = true;
}

/* Is the key behind the end that a row comparison gives to the level? */
static inline bool
is_beyond_row(const LsmGroups *groups, LsmSlice key)
{
	const GroupLevel *level = &groups->levels[groups->depth];
	bool		forward = ScanDirectionIsForward(groups->direction);
	const LsmRowEnd *end = forward ? level->row_upper : level->row_lower;
	int			c;

	if (end == NULL)
		return false;
	c = lsm_bound_compare(lsm_slice(key.data + level->prefix.len, key.len - level->prefix.len),
						  end->rest);
	return c == 0 ? !end->inclusive : (c > 0) == forward;
}

/* The level's next entry, in the order of codes */
static bool
level_step(LsmGroups *groups, LsmSlice *key, LsmSlice *value)
{
	if (groups->has_pending)
	{
		uint32		key_bytes = groups->pending_key_bytes;

		*key = lsm_slice(groups->pending.data, key_bytes);
		*value = lsm_slice(groups->pending.data + key_bytes, groups->pending.len - key_bytes);
		groups->has_pending = false;
		return true;
	}
	if (groups->ended)
		return false;

	/* what does not match may go on for long behind the level */
	groups->so->walk.within = lsm_buffer_slice(&groups->levels[groups->depth].prefix);
	groups->ended = !lsm_walk_step(groups->so, groups->direction, key, value);
	groups->so->walk.within.len = 0;
	if (!groups->ended)
		groups->ended = is_beyond_row(groups, *key);
	return !groups->ended;
}

/* The cursor goes elsewhere. */
static void
level_seek(LsmGroups *groups, LsmSlice prefix, bool beyond)
{
	groups->ended = false;
	groups->has_pending = false;
	lsm_walk_seek(groups->so, prefix, beyond, groups->direction);
}

/* ======================================================================
 * Small groups
 * ====================================================================== */

/* Of entries of one group, which are the same before groups->start */
static int
compare_keys(const LsmGroups *groups, LsmSlice a, LsmSlice b)
{
	const LsmKeySpec *spec = groups->so->spec;
	int			c;

	a = lsm_slice(a.data + groups->start, a.len - groups->start);
	b = lsm_slice(b.data + groups->start, b.len - groups->start);
	for (int i = groups->levels[groups->depth].column; i < spec->nkeys; i++)
	{
		const LsmColumnSpec *column = &spec->columns[i];
		LsmSlice	x = lsm_slice(a.data, lsm_code_length(column, a));
		LsmSlice	y = lsm_slice(b.data, lsm_code_length(column, b));

		c = lsm_code_compare(column, x, y);
		if (c != 0)
			return ScanDirectionIsForward(groups->direction) ? c : -c;
		a = lsm_slice(a.data + x.len, a.len - x.len);
		b = lsm_slice(b.data + y.len, b.len - y.len);
	}
	c = lsm_slice_compare(a, b);
	return ScanDirectionIsForward(groups->direction) ? c : -c;
}

static int
compare_entries(const void *a, const void *b, void *arg)
{
	const LsmGroups *groups = arg;
	const GroupEntry *x = a;
	const GroupEntry *y = b;

	return compare_keys(groups, lsm_slice(groups->bytes.data + x->key, x->key_bytes),
						lsm_slice(groups->bytes.data + y->key, y->key_bytes));
}

typedef enum GroupSize
{
	GROUP_NONE,					/* the level is at its end */
	GROUP_SMALL,				/* its entries were read and sorted */
	GROUP_LARGE					/* the level's `group` says which one it is */
} GroupSize;

/* Read the level's next group. */
static GroupSize
read_group(LsmGroups *groups)
{
	GroupLevel *level = &groups->levels[groups->depth];
	LsmSlice	key;
	LsmSlice	value;
	LsmSlice	code;
	uint32		group_bytes;

	groups->n = groups->next = 0;
	resetStringInfo(&groups->bytes);
	if (!level_step(groups, &key, &value))
		return GROUP_NONE;
	code = find_code(groups, key, &groups->start);
	group_bytes = groups->start + lsm_code_group(level_spec(groups), code);
	add_entry(groups, key, value);
	while (level_step(groups, &key, &value))
	{
		LsmSlice	group = lsm_slice(entry_key(groups, 0).data, group_bytes);

		if (lsm_bound_compare(key, group) != 0)
		{
			give_back(groups, key, value);
			break;
		}
		if (groups->n == SMALL_GROUP_ENTRIES)
		{
			level->start = groups->start;
			resetStringInfo(&level->group);
			lsm_buffer_append(&level->group, group.data, group.len);
			groups->n = 0;
			return GROUP_LARGE;
		}
		add_entry(groups, key, value);
	}
	if (groups->n > 1)
	{
		MemoryContext old = MemoryContextSwitchTo(groups->work);

		qsort_arg(groups->entries, groups->n, sizeof(GroupEntry), compare_entries, groups);
		MemoryContextSwitchTo(old);
		MemoryContextReset(groups->work);
	}
	return GROUP_SMALL;
}

/* ======================================================================
 * Large groups
 * ====================================================================== */

static LsmValueSort *
begin_sort(LsmGroups *groups)
{
	int			column = groups->levels[groups->depth].column;
	const LsmColumnSpec *spec = &groups->so->spec->columns[column];
	Oid			type = groups->index->rd_opcintype[column];
	bool		ascending = ScanDirectionIsForward(groups->direction) != spec->descending;
	Oid			op = get_opfamily_member(groups->index->rd_opfamily[column], type, type,
										 ascending ? BTLessStrategyNumber : BTGreaterStrategyNumber);

	if (spec->type == LSM_COLUMN_ENUM)
		type = getBaseType(spec->enum_type);
	return lsm_value_sort_begin(groups->sorts, type, op, spec->collation);
}

/*
 * The end of a row comparison whose members before the level's column are codes,
 * if the level's large group has them; or NULL.
 */
static const LsmRowEnd *
inner_row_end(const LsmGroups *groups, bool lower)
{
	const LsmScan *so = groups->so;
	const GroupLevel *level = &groups->levels[groups->depth];
	const LsmRowEnd *end = lower ? &so->quals.row_inner_lower : &so->quals.row_inner_upper;
	LsmSlice	members;

	if (groups->depth > 0 || end->value.len == 0 || end->column != level->column)
		return NULL;
	members = lsm_buffer_slice(&level->group);
	for (int i = 0; i < end->first; i++)
	{
		uint32		len = lsm_code_length(&so->spec->columns[i], members);

		members.data += len;
		members.len -= len;
	}
	members.len = level->group.data + level->start - members.data;
	return lsm_slice_compare(end->before, members) == 0 ? end : NULL;
}

/*
 * The end of a row comparison that counts for the values of the level's large
 * group, or NULL: what is before them is as in the row.
 */
static const LsmRowEnd *
level_row_end(const LsmGroups *groups, bool lower)
{
	const LsmScan *so = groups->so;
	const LsmQuals *quals = &so->quals;
	const GroupLevel *level = &groups->levels[groups->depth];
	const LsmRowEnd *first = lower ? &quals->row_group_lower : &quals->row_group_upper;
	const LsmRowEnd *before = lower ? level->row_lower : level->row_upper;
	int			last = quals->nprefix - 1;
	uint32		start = groups->depth > 0 ? level->prefix.len : so->walk.prefix_bytes;

	if (first->value.len > 0 && level->column == first->column)
		return first;
	if (groups->depth == 0 && first->value.len == 0)
		return inner_row_end(groups, lower);
	if (groups->depth == 0)
		before = last == first->column &&
			lsm_slice_compare(quals->columns[last].points[so->position.point[last]],
							  first->value) == 0 ? first : NULL;
	if (before == NULL || before->next == NULL || before->next->column != level->column ||
		lsm_slice_compare(before->rest, lsm_slice(level->group.data + start,
												  level->group.len - start)) != 0)
		return NULL;
	return before->next;
}

/* May entries with this code of the level's column match? */
static bool
value_matches(const LsmGroups *groups, LsmSlice code)
{
	const LsmQuals *quals = &groups->so->quals;
	const LsmColumnSpec *spec = level_spec(groups);
	int			column = groups->levels[groups->depth].column;

	if (!lsm_row_ends_admit(level_row_end(groups, true), level_row_end(groups, false), spec, code))
		return false;
	return column >= quals->nwalk || quals->columns[column].operators == NULL ||
		lsm_operators_hold(&quals->columns[column], spec, code);
}

/*
 * Sort the values that the level's group has, as seen in the direction, and
 * that the quals let in.
 */
static void
sort_values(LsmGroups *groups)
{
	GroupLevel *level = &groups->levels[groups->depth];
	LsmScan    *so = groups->so;
	LsmSlice	group = lsm_buffer_slice(&level->group);
	MemoryContext old = MemoryContextSwitchTo(groups->work);
	StringInfo	last = &groups->pending;
	int			same = 0;
	LsmSlice	key;
	LsmSlice	unused;

	level->values = begin_sort(groups);
	groups->has_pending = false;
	resetStringInfo(last);
	lsm_walk_seek(so, group, false, ForwardScanDirection);
	while (lsm_cursor_step(so->cursor, ForwardScanDirection, &key, &unused) &&
		   lsm_bound_compare(key, group) == 0)
	{
		uint32		start;
		LsmSlice	code = find_code(groups, key, &start);

		CHECK_FOR_INTERRUPTS();
		if (last->len > 0 && lsm_bound_compare(key, lsm_buffer_slice(last)) == 0)
		{
			if (++same == SAME_VALUE_STEPS)
			{
				lsm_walk_seek(so, lsm_buffer_slice(last), true, ForwardScanDirection);
				same = 0;
			}
		}
		else
		{
			if (value_matches(groups, code))
			{
				bool		isnull;
				Datum		value = lsm_decode_column(level_spec(groups), code, &isnull);

				lsm_value_sort_put(level->values, value, isnull);
			}
			resetStringInfo(last);
			lsm_buffer_append(last, key.data, start + code.len);
			same = 0;
			MemoryContextReset(groups->work);
		}
	}
	lsm_value_sort_perform(level->values);
	MemoryContextSwitchTo(old);
}

/* The rest of the row, if the value is its first member's */
static const LsmRowEnd *
find_row_end(LsmSlice code, const LsmRowEnd *end)
{
	return end != NULL && end->rest.len > 0 && lsm_slice_compare(code, end->value) == 0 ?
		end : NULL;
}

static void
find_row_ends(LsmGroups *groups)
{
	GroupLevel *level = &groups->levels[groups->depth];
	LsmSlice	code = lsm_slice(level[1].prefix.data + level->start,
								 level[1].prefix.len - level->start);

	level[1].row_lower = find_row_end(code, level_row_end(groups, true));
	level[1].row_upper = find_row_end(code, level_row_end(groups, false));
}

/* Go to the level's first entry. */
static void
level_enter(LsmGroups *groups)
{
	GroupLevel *level = &groups->levels[groups->depth];
	const LsmRowEnd *end = ScanDirectionIsForward(groups->direction) ?
		level->row_lower : level->row_upper;
	uint32		bytes = level->prefix.len;

	if (end == NULL)
	{
		level_seek(groups, lsm_buffer_slice(&level->prefix), false);
		return;
	}
	lsm_buffer_append(&level->prefix, end->rest.data, end->rest.len);
	level_seek(groups, lsm_buffer_slice(&level->prefix), !end->inclusive);
	level->prefix.len = bytes;
}

/*
 * The next level gets the next value of the large group; false: there is none.
 */
static bool
next_value(LsmGroups *groups)
{
	GroupLevel *level = &groups->levels[groups->depth];
	MemoryContext old = MemoryContextSwitchTo(groups->work);
	Datum		value;
	bool		isnull;
	bool		found;

	found = lsm_value_sort_next(level->values, &value, &isnull);
	if (found)
	{
		resetStringInfo(&level[1].prefix);
		lsm_buffer_append(&level[1].prefix, level->group.data, level->start);
		lsm_encode_column(level_spec(groups), value, isnull, &level[1].prefix);
		find_row_ends(groups);
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(groups->work);
	return found;
}

/* Go down to the entries of the next value, or on behind the group. */
static void
enter_value(LsmGroups *groups)
{
	GroupLevel *level = &groups->levels[groups->depth];

	if (next_value(groups))
	{
		groups->depth++;
		level_enter(groups);
		return;
	}
	lsm_value_sort_end(level->values);
	level->values = NULL;
	level_seek(groups, lsm_buffer_slice(&level->group), true);
}

/* ======================================================================
 * Scans
 * ====================================================================== */

LsmGroups *
lsm_groups_create(LsmScan *so, Relation index)
{
	MemoryContext old = MemoryContextSwitchTo(so->context);
	LsmGroups  *groups = palloc0(sizeof(LsmGroups));
	int			nlevels = so->spec->nkeys + 1;

	groups->so = so;
	groups->index = index;
	groups->sorts = AllocSetContextCreate(so->context, "lsm_index groups",
										  ALLOCSET_DEFAULT_SIZES);
	groups->work = AllocSetContextCreate(so->context, "lsm_index group",
										 ALLOCSET_SMALL_SIZES);
	groups->levels = palloc0(sizeof(GroupLevel) * nlevels);
	for (int i = 0; i < nlevels; i++)
	{
		lsm_buffer_init(&groups->levels[i].prefix, 64);
		lsm_buffer_init(&groups->levels[i].group, 64);
	}
	lsm_buffer_init(&groups->pending, 64);
	lsm_buffer_init(&groups->bytes, 256);
	MemoryContextSwitchTo(old);
	return groups;
}

bool
lsm_groups_prepare(LsmGroups *groups)
{
	const LsmKeySpec *spec = groups->so->spec;

	lsm_groups_reset(groups);
	groups->nlevels = 0;
	for (int i = groups->so->quals.nprefix; i < spec->nkeys; i++)
	{
		if (spec->columns[i].order == LSM_ORDER_NONE)
			return false;		/* no order is asked for */
		if (spec->columns[i].order == LSM_ORDER_GROUPS)
			groups->levels[groups->nlevels++].column = i;
	}
	groups->levels[groups->nlevels].column = spec->nkeys;
	return groups->nlevels > 0;
}

void
lsm_groups_reset(LsmGroups *groups)
{
	for (int i = 0; i <= groups->depth; i++)
	{
		if (groups->levels[i].values != NULL)
			lsm_value_sort_end(groups->levels[i].values);
		groups->levels[i].values = NULL;
	}
	groups->depth = 0;
	groups->n = groups->next = 0;
	groups->has_pending = false;
	groups->ended = false;
}

bool
lsm_groups_step(LsmGroups *groups, ScanDirection direction, LsmSlice *key, LsmSlice *value)
{
	groups->direction = direction;
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (groups->next < groups->n)
		{
			const GroupEntry *entry = &groups->entries[groups->next];

			*key = entry_key(groups, groups->next++);
			*value = lsm_slice(groups->bytes.data + entry->value, entry->value_bytes);
			return true;
		}
		if (groups->depth == groups->nlevels)
		{
			if (level_step(groups, key, value))
				return true;
		}
		else
		{
			GroupSize	size = read_group(groups);

			if (size == GROUP_SMALL)
				continue;
			if (size == GROUP_LARGE)
			{
				sort_values(groups);
				enter_value(groups);
				continue;
			}
		}
		if (groups->depth == 0)
			return false;
		groups->depth--;
		enter_value(groups);
	}
}

/*
 * The group of a string ends with its primary weights, however long what
 * follows them is.
 */
bool
lsm_groups_step_alone(LsmGroups *groups, LsmSlice *key, LsmSlice *value)
{
	LsmScan    *so = groups->so;
	LsmSlice	code;
	LsmSlice	next;
	LsmSlice	unused;
	uint32		start;

	Assert(so->ahead.plain);
	if (groups->next < groups->n || groups->has_pending || groups->ended ||
		groups->depth > 0 || groups->direction != so->direction ||
		so->ahead.next + 1 >= so->ahead.batch->n)
		return false;
	lsm_batch_entry(so->ahead.batch, so->ahead.next, key, value);
	lsm_batch_entry(so->ahead.batch, so->ahead.next + 1, &next, &unused);
	code = from_code(groups, *key, &start);
	if (lsm_bound_compare(next, lsm_slice(key->data,
										  start + lsm_code_group(level_spec(groups), code))) == 0)
		return false;
	so->ahead.next++;
	return true;
}

/* Within a small group that `key` is, or was, in. */
static void
skip_entries(LsmGroups *groups, LsmSlice key)
{
	MemoryContext old = MemoryContextSwitchTo(groups->work);

	while (groups->next < groups->n &&
		   compare_keys(groups, entry_key(groups, groups->next), key) <= 0)
		groups->next++;
	MemoryContextSwitchTo(old);
	MemoryContextReset(groups->work);
}

/*
 * Within a large group that `key` is, or was, in: go down to its value, or to
 * the one behind it.  True: to its value itself, where the cursor is not yet.
 */
static bool
skip_values(LsmGroups *groups, LsmSlice code)
{
	const LsmColumnSpec *spec = level_spec(groups);
	GroupLevel *level = &groups->levels[groups->depth];
	int			sign = ScanDirectionIsForward(groups->direction) ? 1 : -1;

	while (next_value(groups))
	{
		MemoryContext old = MemoryContextSwitchTo(groups->work);
		int			c = sign * lsm_code_compare(spec,
												lsm_slice(level[1].prefix.data + level->start,
														  level[1].prefix.len - level->start),
												code);

		MemoryContextSwitchTo(old);
		MemoryContextReset(groups->work);
		CHECK_FOR_INTERRUPTS();
		if (c < 0)
			continue;
		groups->depth++;
		if (c > 0)
			level_enter(groups);
		return c == 0;
	}
	lsm_value_sort_end(level->values);
	level->values = NULL;
	level_seek(groups, lsm_buffer_slice(&level->group), true);
	return false;
}

void
lsm_groups_restart(LsmGroups *groups, LsmSlice key, ScanDirection direction)
{
	bool		down = true;

	lsm_groups_reset(groups);
	groups->direction = direction;
	while (down && groups->depth < groups->nlevels)
	{
		uint32		start;
		LsmSlice	code = find_code(groups, key, &start);
		LsmSlice	group = lsm_slice(key.data, start + lsm_code_group(level_spec(groups), code));
		GroupSize	size;

		level_seek(groups, group, false);
		down = false;
		size = read_group(groups);
		if (size == GROUP_SMALL && lsm_bound_compare(entry_key(groups, 0), group) == 0)
			skip_entries(groups, key);
		else if (size == GROUP_LARGE)
		{
			bool		is_ours = lsm_slice_compare(lsm_buffer_slice(&groups->levels[groups->depth].group), group) == 0;

			sort_values(groups);
			if (is_ours)
				down = skip_values(groups, code);
			else
				enter_value(groups);
		}
	}
	if (down)
	{
		groups->ended = false;
		groups->has_pending = false;
		lsm_walk_seek_key(groups->so, key, direction);
	}
}
