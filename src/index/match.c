/*-------------------------------------------------------------------------
 *
 * match.c
 *	  Whether an entry, or a code of one column, is what the quals of a scan ask
 *	  for.
 *
 * No locks; what operators allocate stays in the caller's memory context.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"

#include "index/quals.h"

static int
compare_slices(const void *a, const void *b)
{
	return lsm_slice_compare(*(const LsmSlice *) a, *(const LsmSlice *) b);
}

/* Bounds may be groups, which codes begin with. */
bool
lsm_code_within(const LsmColumnQuals *column, LsmSlice code)
{
	int			c;

	if (column->not_null && code.data[0] != LSM_CODE_NOT_NULL)
		return false;
	if (column->has_lower)
	{
		c = lsm_bound_compare(code, column->lower);
		if (c < 0 || (c == 0 && !column->lower_inclusive))
			return false;
	}
	if (column->has_upper)
	{
		c = lsm_bound_compare(code, column->upper);
		if (c > 0 || (c == 0 && !column->upper_inclusive))
			return false;
	}
	return true;
}

bool
lsm_is_point(const LsmColumnQuals *column, LsmSlice code)
{
	return bsearch(&code, column->points, column->npoints, sizeof(LsmSlice),
				   compare_slices) != NULL;
}

static bool
operator_holds(LsmOperatorQual *qual, Datum value)
{
	for (int i = 0; i < qual->nargs; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (DatumGetBool(FunctionCall2Coll(&qual->key->sk_func,
										   qual->key->sk_collation,
										   value, qual->args[i])))
			return true;
	}
	return false;
}

bool
lsm_operators_hold(const LsmColumnQuals *column, const LsmColumnSpec *spec, LsmSlice code)
{
	LsmOperatorQual *qual;
	bool		decoded = false;
	Datum		value = (Datum) 0;

	if (code.data[0] != LSM_CODE_NOT_NULL)
		return false;
	for (qual = column->operators; qual != NULL; qual = qual->next)
	{
		/* another group than the argument's is before it, or behind it */
		int			c = lsm_bound_compare(code, qual->group);
		bool		holds;

		if (c == 0)
		{
			bool		isnull;

			if (!decoded)
				value = lsm_decode_column(spec, code, &isnull);
			decoded = true;
			holds = operator_holds(qual, value);
		}
		else
			holds = ((c < 0) != spec->descending) ==
				(qual->key->sk_strategy <= BTLessEqualStrategyNumber);
		if (!holds)
			return false;
	}
	return true;
}

bool
lsm_row_ends_admit(const LsmRowEnd *lower, const LsmRowEnd *upper,
				   const LsmColumnSpec *spec, LsmSlice code)
{
	bool		has_lower = lower != NULL && lower->value.len > 0;
	bool		has_upper = upper != NULL && upper->value.len > 0;

	if ((has_lower || has_upper) && code.data[0] != LSM_CODE_NOT_NULL)
		return false;
	return (!has_lower || lsm_code_compare(spec, code, lower->value) >= 0) &&
		(!has_upper || lsm_code_compare(spec, code, upper->value) <= 0);
}

bool
lsm_quals_match(const LsmQuals *quals, const LsmKeySpec *spec, LsmSlice key)
{
	LsmSlice	rest;

	if (quals->nwalk == 0)
		return true;
	rest = lsm_key_columns(key);
	for (int i = 0; i < quals->nwalk; i++)
	{
		const LsmColumnQuals *column = &quals->columns[i];
		LsmSlice	code = {rest.data, lsm_code_length(&spec->columns[i], rest)};

		/* the walk takes care of the prefix and of the next column's bounds */
		if (i >= quals->nprefix && column->has_points)
		{
			if (!lsm_is_point(column, code))
				return false;
		}
		else if (i > quals->nprefix && !lsm_code_within(column, code))
			return false;
		if (column->operators != NULL &&
			!lsm_operators_hold(column, &spec->columns[i], code))
			return false;
		if (quals->row_group_walk && i == quals->row_group_column &&
			!lsm_row_admits(quals, &spec->columns[i], code))
			return false;
		rest.data += code.len;
		rest.len -= code.len;
	}
	return true;
}
