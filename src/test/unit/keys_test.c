/*-------------------------------------------------------------------------
 *
 * keys_test.c
 *	  src/index: codes of values (encode.c, order_preserving_pack.c), and scan keys
 *	  as points and bounds (scankeys.c, constant.c, match.c).  Cases: cases/keys.
 *	  Then random values and scan keys against what SQL means, and the TIDs of rows
 *	  and versions.  TAP output.
 *
 *	codes TYPE[:desc][:nulls-first]
 *		lines of values: the code of each, and how it lies to the one before
 *	keys NAME:TYPE[:desc][:nulls-first][:groups|:unordered] ...
 *		lines of keys: a < 5, a = 5::int8, a in 1,2,null, a > any 1,2, a is null,
 *		a is not null, row a,b < 1,2.  What they leave of each column.
 *
 * Types are bool, int2, int4, int8, oid, float4, float8, date (days), timestamp
 * (microseconds), uuid, text and bytea.  The strings of :groups have a collation
 * in which the case of letters decides ties.
 *
 * Not here: types whose values the server's own functions take apart (numeric,
 * inet, documents, composed ones), and the catalogs.
 *
 * LSM_SEED repeats a run.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#define USE_ASSERT_CHECKING 1

#include "server.h"

#include <ctype.h>
#include <math.h>

#include "access/htup_details.h"
#include "access/skey.h"
#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/datetime.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "tap.h"
#include "cases.h"

#include "index/error.c"
#include "index/encode.c"
#include "index/order_preserving_pack.c"
#include "index/multi_point.c"
#include "index/match.c"
#include "index/constant.c"
#include "index/scankeys.c"

/* ---- the types ---- */

/* How the tests write, make and compare values of a type */
typedef enum Form
{
	BOOL,
	INT2,
	INT4,
	INT8,
	OID,
	FLOAT4,
	FLOAT8,
	UUID,
	STRING
} Form;

static const struct
{
	const char *name;
	LsmColumnType type;
	Oid			oid;
	Form		form;
}			types[] = {
	{"bool", LSM_COLUMN_BOOL, BOOLOID, BOOL},
	{"int2", LSM_COLUMN_INT2, INT2OID, INT2},
	{"int4", LSM_COLUMN_INT4, INT4OID, INT4},
	{"int8", LSM_COLUMN_INT8, INT8OID, INT8},
	{"oid", LSM_COLUMN_OID, OIDOID, OID},
	{"float4", LSM_COLUMN_FLOAT4, FLOAT4OID, FLOAT4},
	{"float8", LSM_COLUMN_FLOAT8, FLOAT8OID, FLOAT8},
	{"date", LSM_COLUMN_DATE, DATEOID, INT4},
	{"timestamp", LSM_COLUMN_TIMESTAMP, TIMESTAMPOID, INT8},
	{"timestamptz", LSM_COLUMN_TIMESTAMPTZ, TIMESTAMPTZOID, INT8},
	{"uuid", LSM_COLUMN_UUID, UUIDOID, UUID},
	{"bytea", LSM_COLUMN_BYTEA, BYTEAOID, STRING},
	{"text", LSM_COLUMN_TEXT, TEXTOID, STRING},
};

static int
type_number(const char *name, int length)
{
	for (int i = 0; i < lengthof(types); i++)
	{
		if (strlen(types[i].name) == length && strncmp(types[i].name, name, length) == 0)
			return i;
	}
	printf("Bail out! unknown type %.*s\n", length, name);
	exit(1);
}

static Form
form_of(LsmColumnType type)
{
	int			i = 0;

	while (types[i].type != type)
		i++;
	return types[i].form;
}

LsmColumnType
lsm_column_type(Oid opcintype)
{
	for (int i = 0; i < lengthof(types); i++)
	{
		if (types[i].oid == opcintype)
			return types[i].type;
	}
	return LSM_COLUMN_INVALID;
}

static Datum
text_datum(const char *data, int bytes)
{
	struct varlena *value = palloc(VARHDRSZ + bytes);

	SET_VARSIZE(value, VARHDRSZ + bytes);
	memcpy(VARDATA(value), data, bytes);
	return PointerGetDatum(value);
}

/* "\00" and "{x300}" as in cases of trees */
static Datum
parse_string(const char *text)
{
	char	   *data = palloc(10000);
	int			n = 0;

	for (const char *at = text; *at != '\0'; at++)
	{
		if (*at == '\\')
		{
			char		hex[3] = {at[1], at[2], 0};

			data[n++] = (char) strtol(hex, NULL, 16);
			at += 2;
		}
		else if (*at == '{')
		{
			char	   *end;
			long		times = strtol(at + 2, &end, 10);

			memset(data + n, at[1], times);
			n += times;
			at = end;
		}
		else if (*at != '\'')
			data[n++] = *at;
	}
	return text_datum(data, n);
}

static Datum
parse_value(LsmColumnType type, const char *text)
{
	switch (form_of(type))
	{
		case BOOL:
			return BoolGetDatum(text[0] == 't');
		case INT2:
			return Int16GetDatum((int16) atoi(text));
		case INT4:
			return Int32GetDatum((int32) strtoll(text, NULL, 10));
		case INT8:
			return Int64GetDatum(strtoll(text, NULL, 10));
		case OID:
			return ObjectIdGetDatum((Oid) strtoull(text, NULL, 10));
		case FLOAT4:
			return Float4GetDatum((float4) strtod(text, NULL));
		case FLOAT8:
			return Float8GetDatum(strtod(text, NULL));
		case UUID:
			{
				pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));

				for (int i = 0; i < UUID_LEN; i++)
				{
					char		hex[3] = {text[2 * i], text[2 * i + 1], 0};

					uuid->data[i] = (unsigned char) strtol(hex, NULL, 16);
				}
				return UUIDPGetDatum(uuid);
			}
		default:
			return parse_string(text);
	}
}

static void
say_bytes(const char *data, uint32 bytes)
{
	for (uint32 i = 0; i < bytes; i++)
	{
		uint32		same = 1;

		while (i + same < bytes && data[i + same] == data[i])
			same++;
		if (data[i] < ' ' || data[i] > '~')
			say("\\%02x", (uint8) data[i]);
		else if (same >= 8)
		{
			say("{%c%u}", data[i], same);
			i += same - 1;
		}
		else
			say("%c", data[i]);
	}
}

static void
say_value(LsmColumnType type, Datum value)
{
	switch (form_of(type))
	{
		case BOOL:
			say("%s", DatumGetBool(value) ? "t" : "f");
			break;
		case INT2:
			say("%d", DatumGetInt16(value));
			break;
		case INT4:
			say("%d", DatumGetInt32(value));
			break;
		case INT8:
			say("%lld", (long long) DatumGetInt64(value));
			break;
		case OID:
			say("%u", DatumGetObjectId(value));
			break;
		case FLOAT4:
			say("%.9g", DatumGetFloat4(value));
			break;
		case FLOAT8:
			say("%.17g", DatumGetFloat8(value));
			break;
		case UUID:
			for (int i = 0; i < UUID_LEN; i++)
				say("%02x", DatumGetUUIDP(value)->data[i]);
			break;
		default:
			say("'");
			say_bytes(VARDATA_ANY(DatumGetPointer(value)), VARSIZE_ANY_EXHDR(DatumGetPointer(value)));
			say("'");
	}
}

/* ---- the server ---- */

struct varlena *
pg_detoast_datum(struct varlena *datum)
{
	return datum;
}

struct varlena *
pg_detoast_datum_packed(struct varlena *datum)
{
	return datum;
}

/* An array of the tests: its header, and where the elements are */
typedef struct TestArray
{
	ArrayType	head;
	int			n;
	Datum	   *elements;
	bool	   *nulls;
} TestArray;

void
deconstruct_array(ArrayType *array, Oid elmtype, int elmlen, bool elmbyval, char elmalign,
				  Datum **elems, bool **nulls, int *nelems)
{
	TestArray  *test = (TestArray *) array;

	*nelems = test->n;
	*elems = palloc(Max(test->n, 1) * sizeof(Datum));
	*nulls = palloc(Max(test->n, 1) * sizeof(bool));
	memcpy(*elems, test->elements, test->n * sizeof(Datum));
	memcpy(*nulls, test->nulls, test->n * sizeof(bool));
}

void
get_typlenbyvalalign(Oid typid, int16 *typlen, bool *typbyval, char *typalign)
{
	*typlen = 0;
	*typbyval = false;
	*typalign = 0;
}

static int
compare_strings(Datum a, Datum b, bool by_case)
{
	struct varlena *x = (struct varlena *) DatumGetPointer(a);
	struct varlena *y = (struct varlena *) DatumGetPointer(b);
	int			n = Min(VARSIZE_ANY_EXHDR(x), VARSIZE_ANY_EXHDR(y));
	int			c = 0;

	for (int i = 0; i < n && c == 0; i++)
		c = by_case ? (uint8) VARDATA_ANY(x)[i] - (uint8) VARDATA_ANY(y)[i] :
			tolower((uint8) VARDATA_ANY(x)[i]) - tolower((uint8) VARDATA_ANY(y)[i]);
	return c != 0 ? c : (int) VARSIZE_ANY_EXHDR(x) - (int) VARSIZE_ANY_EXHDR(y);
}

/* support function 1 of the strings in groups; nothing else is called */
Datum
FunctionCall2Coll(FmgrInfo *flinfo, Oid collation, Datum a, Datum b)
{
	int			c = compare_strings(a, b, false);

	return Int32GetDatum(c != 0 ? c : compare_strings(a, b, true));
}

/* primary weights are lower-case letters */
void
lsm_collation_put_weights(struct pg_locale_struct *locale, LsmStrings strings,
						  const char *data, int len, StringInfo out,
						  void (*put) (StringInfo out, const char *data, int len))
{
	char	   *lower = palloc(len + 1);

	for (int i = 0; i < len; i++)
		lower[i] = (char) tolower((uint8) data[i]);
	put(out, lower, len);
}

#include "keys_absent.h"
#include "keys_cases.h"
#include "keys_fuzz.h"
#include "keys_tids.h"

int
main(void)
{
	run_cases("keys", run_keys_case);
	fuzz_codes();
	fuzz_keys();
	check_tids();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
