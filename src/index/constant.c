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
convert_integer(const LsmColumnSpec *spec, LsmColumnType type, Datum value,
				LsmConstant *constant)
{
	int			missing = 64 - 8 * lsm_value_extent(spec->type, spec->strings);
	int64		min = PG_INT64_MIN >> missing;
	int64		max = PG_INT64_MAX >> missing;
	int64		n;

	if (type == LSM_COLUMN_INT2)
		n = DatumGetInt16(value);
	else if (type == LSM_COLUMN_INT4)
		n = DatumGetInt32(value);
	else if (type == LSM_COLUMN_INT8)
		n = DatumGetInt64(value);
	else
		return false;

	if (n >= min && n <= max)
		set_exact(spec, Int64GetDatum(n), constant);
	else
	{
		constant->kind = LSM_CONSTANT_GAP;
		if (n > max)
			set_below(spec, Int64GetDatum(max), constant);
		else
			set_above(spec, Int64GetDatum(min), constant);
	}
	return true;
}

/* ======================================================================
 * Floats
 * ====================================================================== */

/* A float8 for a float4 column; the operators compare as float8. */
static bool
convert_float4(const LsmColumnSpec *spec, LsmColumnType type, Datum value,
			   LsmConstant *constant)
{
	float8		d = DatumGetFloat8(value);
	float4		f;

	if (type != LSM_COLUMN_FLOAT8)
		return false;
	f = isnan(d) ? get_float4_nan() : (float4) d;
	if (isnan(d) || (float8) f == d)
		set_exact(spec, Float4GetDatum(f), constant);
	else
	{
		/* rounded one way; infinite neighbours are values like any other */
		constant->kind = LSM_CONSTANT_GAP;
		set_below(spec, Float4GetDatum((float8) f < d ? f : nextafterf(f, -INFINITY)), constant);
		set_above(spec, Float4GetDatum((float8) f < d ? nextafterf(f, INFINITY) : f), constant);
	}
	return true;
}

static bool
convert_float8(const LsmColumnSpec *spec, LsmColumnType type, Datum value,
			   LsmConstant *constant)
{
	if (type != LSM_COLUMN_FLOAT4)
		return false;
	set_exact(spec, Float8GetDatum((float8) DatumGetFloat4(value)), constant);
	return true;
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

/* For a column of type date or timestamp */
static bool
convert_local(const LsmColumnSpec *spec, LsmColumnType type, Datum value, LsmConstant *constant)
{
	int			overflow = 0;
	int64		t;

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
}

static bool
convert_timestamptz(const LsmColumnSpec *spec, LsmColumnType type, Datum value,
					LsmConstant *constant)
{
	int			overflow = 0;
	int64		t;

	if (type == LSM_COLUMN_DATE)
		t = lsm_datetime_convert(date2timestamptz, DatumGetDateADT(value), &overflow);
	else if (type == LSM_COLUMN_TIMESTAMP)
		t = lsm_datetime_convert(timestamp2timestamptz, DatumGetTimestamp(value), &overflow);
	else
		return false;
	set_timestamp(spec, t, overflow, constant);
	return true;
}

/* ======================================================================
 * Others
 * ====================================================================== */

/* text and name are encoded by their bytes: no need to fit into the other */
static bool
convert_string(const LsmColumnSpec *spec, LsmColumnType type, Datum value, LsmConstant *constant)
{
	LsmColumnSpec other = *spec;

	if (type != LSM_COLUMN_TEXT && type != LSM_COLUMN_NAME)
		return false;
	other.type = type;
	set_exact(&other, value, constant);
	return true;
}

/* The operators of enums are polymorphic: the type may be the enum's own. */
static bool
convert_any(const LsmColumnSpec *spec, LsmColumnType type, Datum value, LsmConstant *constant)
{
	set_exact(spec, value, constant);
	return true;
}

static bool
convert_none(const LsmColumnSpec *spec, LsmColumnType type, Datum value, LsmConstant *constant)
{
	return false;
}

#define PICK_CONVERT(name, oid, extent, put, get, convert, ...) \
	[LSM_COLUMN_##name] = convert_##convert,

/* False: not a pair of types we know. */
static bool (*const conversions[LSM_NTYPES]) (const LsmColumnSpec *spec, LsmColumnType type,
											  Datum value, LsmConstant *constant) = {
	LSM_SCALAR_TYPES(PICK_CONVERT)
};

void
lsm_constant_convert(const LsmColumnSpec *spec, Oid type, Datum value,
					 LsmConstant *constant)
{
	LsmColumnType from = OidIsValid(type) && type != spec->opcintype ?
		lsm_column_type(type) : spec->type;

	memset(constant, 0, sizeof(*constant));
	constant->kind = LSM_CONSTANT_OPAQUE;

	/*
	 * Only values of the type itself have a normal form, or are what a support
	 * function takes.  Arrays and their like tell what they consist of.
	 */
	if (OidIsValid(type) && type != spec->opcintype &&
		(spec->normal_text != NULL ||
		 (lsm_type_is_composed(spec->type) && !lsm_type_is_polymorphic(spec->type))))
		return;
	if (lsm_type_is_composed(spec->type))
	{
		if (lsm_compose_fits(spec, value))
			set_exact(spec, value, constant);
	}
	else if (from == spec->type)
		set_exact(spec, value, constant);
	else
		(void) conversions[spec->type] (spec, from, value, constant);
}
