/*-------------------------------------------------------------------------
 *
 * column_types.h
 *	  The types of index columns: a line each, with all that this room knows of
 *	  them.
 *
 * A new type is a line and what the line names.  Who needs a column of the table
 * picks it by a macro, as an array by type:
 *
 *		#define PICK_EXTENT(name, oid, extent, ...) [LSM_COLUMN_##name] = extent,
 *		static const uint8 extents[LSM_NTYPES] = {LSM_SCALAR_TYPES(PICK_EXTENT)};
 *
 * So functions stay in the files that they belong to, and none of these calls
 * one that stands above it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COLUMN_TYPES_H
#define LSM_COLUMN_TYPES_H

/* Traits */
#define LSM_TYPE_LOSSY		0x01	/* values that differ but compare equal share
									 * a code, which gives back one of them: 0
									 * and -0, 1.0 and 1.00, trailing blanks, 1
									 * month and 30 days */
#define LSM_TYPE_COLLATED	0x02
#define LSM_TYPE_RANGES		0x04	/* columns are asked for ranges, and nearly
									 * all of their values differ */

/*
 * Extents of value parts whose extent is not a number of bytes.  In shared memory
 * (leading.c), and below 0x80.
 */
#define LSM_EXTENT_VARIES		0x40	/* this, or more */
#define LSM_EXTENT_NUMERIC		0x40
#define LSM_EXTENT_STRING		0x41
#define LSM_EXTENT_TWO_STRINGS	0x42
#define LSM_EXTENT_INET			0x43

/* Strings that the value part consists of, where it may be packed; 0: a numeric */
#define lsm_extent_strings(extent)	((extent) - LSM_EXTENT_NUMERIC)

/*
 * name		LSM_COLUMN_...
 * oid		input type of its operator classes
 * extent	bytes of the value part of a code, or LSM_EXTENT_...: how its end is
 *			found
 * put, get	put_... and get_... of encode.c: a value as value part, and back
 * convert	convert_... of constant.c: a constant of another type
 * row		ROW_... of index_row.c: how the value part becomes a part of a row
 * traits	LSM_TYPE_...
 */
#define LSM_SCALAR_TYPES(TYPE) \
	TYPE(BOOL, BOOLOID, 1, bool, bool, none, DECODED, 0) \
	TYPE(INT2, INT2OID, 2, signed, int2, integer, DECODED, 0) \
	TYPE(INT4, INT4OID, 4, signed, int4, integer, SIGNED, 0) \
	TYPE(INT8, INT8OID, 8, signed, int8, integer, SIGNED, 0) \
	TYPE(OID, OIDOID, 4, unsigned, oid, none, UNSIGNED, 0) \
	TYPE(CHAR, CHAROID, 1, unsigned, char, none, DECODED, 0) \
	TYPE(FLOAT4, FLOAT4OID, 4, float4, float4, float4, DECODED, LSM_TYPE_LOSSY | LSM_TYPE_RANGES) \
	TYPE(FLOAT8, FLOAT8OID, 8, float8, float8, float8, DECODED, LSM_TYPE_LOSSY | LSM_TYPE_RANGES) \
	TYPE(NUMERIC, NUMERICOID, LSM_EXTENT_NUMERIC, numeric, numeric, none, DECODED, LSM_TYPE_LOSSY) \
	TYPE(TEXT, TEXTOID, LSM_EXTENT_STRING, text, string, string, STRING, LSM_TYPE_COLLATED) \
	TYPE(BPCHAR, BPCHAROID, LSM_EXTENT_STRING, bpchar, string, none, DECODED, \
		 LSM_TYPE_COLLATED | LSM_TYPE_LOSSY) \
	TYPE(NAME, NAMEOID, LSM_EXTENT_STRING, name, name, string, DECODED, LSM_TYPE_COLLATED) \
	TYPE(BYTEA, BYTEAOID, LSM_EXTENT_STRING, bytea, string, none, DECODED, 0) \
	TYPE(UUID, UUIDOID, UUID_LEN, bytes, bytes, none, BYTES, 0) \
	TYPE(DATE, DATEOID, 4, signed, int4, local, SIGNED, 0) \
	TYPE(TIME, TIMEOID, 8, signed, int8, none, SIGNED, LSM_TYPE_RANGES) \
	TYPE(TIMETZ, TIMETZOID, 12, timetz, timetz, none, DECODED, LSM_TYPE_RANGES) \
	TYPE(TIMESTAMP, TIMESTAMPOID, 8, signed, int8, local, SIGNED, LSM_TYPE_RANGES) \
	TYPE(TIMESTAMPTZ, TIMESTAMPTZOID, 8, signed, int8, timestamptz, SIGNED, LSM_TYPE_RANGES) \
	TYPE(INTERVAL, INTERVALOID, 16, interval, interval, none, DECODED, \
		 LSM_TYPE_LOSSY | LSM_TYPE_RANGES) \
	TYPE(ENUM, ANYENUMOID, 4, unsigned, oid, any, DECODED, 0) \
	TYPE(MONEY, MONEYOID, 8, signed, int8, none, SIGNED, 0) \
	TYPE(PG_LSN, PG_LSNOID, 8, unsigned, lsn, none, UNSIGNED, 0) \
	TYPE(XID8, XID8OID, 8, unsigned, lsn, none, UNSIGNED, 0) \
	TYPE(TID, TIDOID, LSM_TID_BYTES, tid, tid, none, DECODED, 0) \
	TYPE(MACADDR, MACADDROID, 6, bytes, bytes, none, BYTES, 0) \
	TYPE(MACADDR8, MACADDR8OID, 8, bytes, bytes, none, BYTES, 0) \
	TYPE(INET, INETOID, LSM_EXTENT_INET, inet, inet, none, DECODED, 0)	/* cidr, too */ \
	TYPE(BIT, BITOID, LSM_EXTENT_TWO_STRINGS, bits, bits, none, DECODED, 0)	/* varbit, too */

/*
 * The code is one string, made of the codes of others, and is not decoded.
 *
 * put		the string's bytes: compose.c, encode_document.c
 * parts	..._parts of compose.c: finds what the type consists of
 */
#define LSM_COMPOSED_TYPES(TYPE) \
	TYPE(OIDVECTOR, OIDVECTOROID, lsm_put_oidvector, no) \
	TYPE(TSVECTOR, TSVECTOROID, lsm_put_tsvector, no) \
	TYPE(JSONB, JSONBOID, lsm_put_jsonb, jsonb) \
	TYPE(ARRAY, ANYARRAYOID, put_array, array) \
	TYPE(RANGE, ANYRANGEOID, put_range, range) \
	TYPE(MULTIRANGE, ANYMULTIRANGEOID, put_multirange, range) \
	TYPE(RECORD, RECORDOID, put_record, record)

#define LSM_COLUMN_TYPE_NAME(name, ...) LSM_COLUMN_##name,

/* How the values of a column are encoded: by the operator class's input type */
typedef enum LsmColumnType
{
	LSM_COLUMN_INVALID = 0,
	LSM_SCALAR_TYPES(LSM_COLUMN_TYPE_NAME)
	LSM_COMPOSED_TYPES(LSM_COLUMN_TYPE_NAME)
	LSM_COLUMN_FUNCTION			/* composed; a support function makes the code */
} LsmColumnType;

#define LSM_NTYPES	(LSM_COLUMN_FUNCTION + 1)

static inline bool
lsm_type_is_composed(LsmColumnType type)
{
	return type >= LSM_COLUMN_OIDVECTOR;
}

/* Composed, and of one operator class for many types */
static inline bool
lsm_type_is_polymorphic(LsmColumnType type)
{
	return type >= LSM_COLUMN_ARRAY && type <= LSM_COLUMN_RECORD;
}

#endif							/* LSM_COLUMN_TYPES_H */
