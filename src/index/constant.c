/*-------------------------------------------------------------------------
 *
 * constant.c
 *	  Constants of other types of the operator family, in terms of a column.
 *
 * A scan compares codes of the column's type, so a constant is converted
 * first.  Where the column cannot hold it (10^10 for an int4 column,
 * 0.1::float8 for a float4 one, noon for a date), there are the nearest values
 * below and above.
 *
 * timestamptz constants for columns of type date and timestamp depend on the
 * time zone, by a mapping of local time to UTC that is neither monotone nor
 * injective where clocks are set forward; but it never moves a time by more
 * than the greatest offset a zone can have.  These become a range and the
 * operator is asked for each entry.  The other way round (timestamp constants
 * for a timestamptz column) the operators convert the constant, exactly.
 *
 * Codes are allocated in the current memory context.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type_d.h"
#include "common/int.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/timestamp.h"

#include "index/compose.h"

/*
 * No time zone is further from UTC: POSIX zone specifications allow up to 167
 * hours.
 */
#define MAX_ZONE_DAYS	8

static LsmSlice
make_code(const LsmColumnSpec *spec, Datum value)
{
	StringInfoData buf;

	lsm_buffer_init(&buf, 32);
	lsm_encode_column(spec, value, false, &buf);
	return lsm_slice(buf.data, buf.len);
}

static void
set_exact(const LsmColumnSpec *spec, Datum value, LsmConstant *constant)
{
	constant->kind = LSM_CONSTANT_EXACT;
	constant->value = make_code(spec, value);
}

static void
set_below(const LsmColumnSpec *spec, Datum value, LsmConstant *constant)
{
	constant->has_below = true;
	constant->below = make_code(spec, value);
}

static void
set_above(const LsmColumnSpec *spec, Datum value, LsmConstant *constant)
{
	constant->has_above = true;
	constant->above = make_code(spec, value);
}

/* ======================================================================
 * Integers
 * ====================================================================== */

static bool
is_integer(LsmColumnType type)
{
	return type == LSM_COLUMN_INT2 || type == LSM_COLUMN_INT4 || type == LSM_COLUMN_INT8;
}

static Datum
integer_datum(LsmColumnType type, int64 n)
{
	switch (type)
	{
		case LSM_COLUMN_INT2:
			return Int16GetDatum((int16) n);
		case LSM_COLUMN_INT4:
			return Int32GetDatum((int32) n);
		default:
			return Int64GetDatum(n);
	}
}

static void
convert_integer(const LsmColumnSpec *spec, LsmColumnType type, Datum value,
				LsmConstant *constant)
{
	int64		n;
	int64		min = PG_INT64_MIN;
	int64		max = PG_INT64_MAX;

	if (type == LSM_COLUMN_INT2)
		n = DatumGetInt16(value);
	else if (type == LSM_COLUMN_INT4)
		n = DatumGetInt32(value);
	else
		n = DatumGetInt64(value);

	if (spec->type == LSM_COLUMN_INT2)
	{
		min = PG_INT16_MIN;
		max = PG_INT16_MAX;
	}
	else if (spec->type == LSM_COLUMN_INT4)
	{
		min = PG_INT32_MIN;
		max = PG_INT32_MAX;
	}

	if (n >= min && n <= max)
	{
		set_exact(spec, integer_datum(spec->type, n), constant);
		return;
	}
	constant->kind = LSM_CONSTANT_GAP;
	if (n > max)
		set_below(spec, integer_datum(spec->type, max), constant);
	else
		set_above(spec, integer_datum(spec->type, min), constant);
}

/* ======================================================================
 * Floats
 * ====================================================================== */

/* A float8 for a float4 column; the operators compare as float8. */
static void
convert_float8_to_float4(const LsmColumnSpec *spec, float8 d, LsmConstant *constant)
{
	float4		f;

	if (isnan(d))
	{
		set_exact(spec, Float4GetDatum(get_float4_nan()), constant);
		return;
	}
	f = (float4) d;
	if ((float8) f == d)
	{
		set_exact(spec, Float4GetDatum(f), constant);
		return;
	}

	/* rounded one way; infinite neighbours are values like any other */
	constant->kind = LSM_CONSTANT_GAP;
	if ((float8) f < d)
	{
		set_below(spec, Float4GetDatum(f), constant);
		set_above(spec, Float4GetDatum(nextafterf(f, INFINITY)), constant);
	}
	else
	{
		set_below(spec, Float4GetDatum(nextafterf(f, -INFINITY)), constant);
		set_above(spec, Float4GetDatum(f), constant);
	}
}

/* ======================================================================
 * Dates and times
 * ====================================================================== */

/* Day of a finite timestamp, rounded down. */
static int64
timestamp_day(int64 t)
{
	int64		day = t / USECS_PER_DAY;

	return t % USECS_PER_DAY < 0 ? day - 1 : day;
}

/* `value` is a timestamp without time zone. */
static void
convert_timestamp_to_date(const LsmColumnSpec *spec, Timestamp t, LsmConstant *constant)
{
	DateADT		day;

	if (TIMESTAMP_IS_NOBEGIN(t))
		set_exact(spec, DateADTGetDatum(DATEVAL_NOBEGIN), constant);
	else if (TIMESTAMP_IS_NOEND(t))
		set_exact(spec, DateADTGetDatum(DATEVAL_NOEND), constant);
	else
	{
		day = (DateADT) timestamp_day(t);
		if (t % USECS_PER_DAY == 0)
			set_exact(spec, DateADTGetDatum(day), constant);
		else
		{
			constant->kind = LSM_CONSTANT_GAP;
			set_below(spec, DateADTGetDatum(day), constant);
			set_above(spec, DateADTGetDatum(day + 1), constant);
		}
	}
}

/*
 * The constant as converted by the operators; a date or local time may not fit.
 */
static void
set_timestamp(const LsmColumnSpec *spec, int64 t, int overflow, LsmConstant *constant)
{
	if (overflow == 0)
		set_exact(spec, TimestampGetDatum(t), constant);
	else
	{
		/* beyond all finite timestamps, but not infinite */
		constant->kind = LSM_CONSTANT_GAP;
		set_below(spec, TimestampGetDatum(overflow > 0 ? DT_NOEND - 1 : DT_NOBEGIN), constant);
		set_above(spec, TimestampGetDatum(overflow > 0 ? DT_NOEND : DT_NOBEGIN + 1), constant);
	}
}

/* A timestamptz for a column of type date or timestamp. */
static void
convert_timestamptz_to_local(const LsmColumnSpec *spec, TimestampTz t,
							 LsmConstant *constant)
{
	bool		is_date = spec->type == LSM_COLUMN_DATE;
	int64		limit;

	if (TIMESTAMP_NOT_FINITE(t))
	{
		if (is_date)
			convert_timestamp_to_date(spec, t, constant);
		else
			set_exact(spec, TimestampGetDatum(t), constant);
		return;
	}

	constant->kind = LSM_CONSTANT_NEAR;
	if (!pg_sub_s64_overflow(t, MAX_ZONE_DAYS * USECS_PER_DAY, &limit))
		set_below(spec, is_date ? DateADTGetDatum((DateADT) timestamp_day(limit)) :
				  TimestampGetDatum(limit), constant);
	if (!pg_add_s64_overflow(t, MAX_ZONE_DAYS * USECS_PER_DAY, &limit))
		set_above(spec, is_date ? DateADTGetDatum((DateADT) timestamp_day(limit) + 1) :
				  TimestampGetDatum(limit), constant);
}

/* False: not a pair of types we know. */
static bool
convert_datetime(const LsmColumnSpec *spec, LsmColumnType type, Datum value,
				 LsmConstant *constant)
{
	int			overflow = 0;
	int64		t;

	switch (spec->type)
	{
		case LSM_COLUMN_DATE:
		case LSM_COLUMN_TIMESTAMP:
			if (type == LSM_COLUMN_TIMESTAMPTZ)
				convert_timestamptz_to_local(spec, DatumGetTimestampTz(value), constant);
			else if (type == LSM_COLUMN_TIMESTAMP)
				convert_timestamp_to_date(spec, DatumGetTimestamp(value), constant);
			else if (type == LSM_COLUMN_DATE)
			{
				t = lsm_datetime_convert(date2timestamp, DatumGetDateADT(value), &overflow);
				set_timestamp(spec, t, overflow, constant);
			}
			else
				return false;
			return true;
		case LSM_COLUMN_TIMESTAMPTZ:
			if (type == LSM_COLUMN_DATE)
				t = lsm_datetime_convert(date2timestamptz, DatumGetDateADT(value), &overflow);
			else if (type == LSM_COLUMN_TIMESTAMP)
				t = lsm_datetime_convert(timestamp2timestamptz, DatumGetTimestamp(value),
										 &overflow);
			else
				return false;
			set_timestamp(spec, t, overflow, constant);
			return true;
		default:
			return false;
	}
}

/* ======================================================================
 * All
 * ====================================================================== */

void
lsm_constant_convert(const LsmColumnSpec *spec, Oid type, Datum value,
					 LsmConstant *constant)
{
	LsmColumnType from = OidIsValid(type) && type != spec->opcintype ?
		lsm_column_type(type) : spec->type;

	memset(constant, 0, sizeof(*constant));
	constant->kind = LSM_CONSTANT_OPAQUE;

	/* only values of the type itself have a normal form */
	if (spec->normal_text != NULL && OidIsValid(type) && type != spec->opcintype)
		return;
	if (lsm_type_is_composed(spec->type))
	{
		if (lsm_compose_fits(spec, value))
			set_exact(spec, value, constant);
	}

	/* the operators of enums are polymorphic: the type may be the enum's own */
	else if (from == spec->type || spec->type == LSM_COLUMN_ENUM)
		set_exact(spec, value, constant);
	else if (is_integer(spec->type) && is_integer(from))
		convert_integer(spec, from, value, constant);
	else if (spec->type == LSM_COLUMN_FLOAT4 && from == LSM_COLUMN_FLOAT8)
		convert_float8_to_float4(spec, DatumGetFloat8(value), constant);
	else if (spec->type == LSM_COLUMN_FLOAT8 && from == LSM_COLUMN_FLOAT4)
		set_exact(spec, Float8GetDatum((float8) DatumGetFloat4(value)), constant);
	else if ((spec->type == LSM_COLUMN_TEXT && from == LSM_COLUMN_NAME) ||
			 (spec->type == LSM_COLUMN_NAME && from == LSM_COLUMN_TEXT))
	{
		/* both are encoded by their bytes: no need to fit into the other */
		LsmColumnSpec other = *spec;

		other.type = from;
		set_exact(&other, value, constant);
	}
	else if (!convert_datetime(spec, from, value, constant))
		constant->kind = LSM_CONSTANT_OPAQUE;
}
