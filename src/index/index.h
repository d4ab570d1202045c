/*-------------------------------------------------------------------------
 *
 * index.h
 *	  The index access method "lsm_index": what its files share.
 *
 * An index is one tree (tree/tree.h).
 *
 *		key		code of column 1 | ... | code of column n | TID, 6 bytes
 *		value	tag byte | included columns (payload.c), if there are any
 *
 * A code is memory-comparable: memcmp() of two codes of one column orders them
 * as the column's operator class, DESC and NULLS FIRST/LAST do.  It is
 * prefix-free: no code of a column is a prefix of another one, so a key can be
 * cut into its columns and comparing keys compares column by column.  And it
 * is canonical: values that the operator class calls equal have the same
 * code, or filters, which are built over the codes, would lose rows.
 *
 * Text under a collation of ICU is ordered by ICU's sort keys.  What is equal to
 * a nondeterministic one has one sort key; there the entry's value keeps the
 * string itself.
 *
 * Two kinds of columns are ordered by their codes as far as groups of values
 * (LSM_ORDER_GROUPS): text under a collation of libc that does not compare
 * bytes (a group has the same primary weights; a string with weights on the
 * last level only is one of its own) and enums (code = the OID, for the sort
 * order may be rewritten by ALTER TYPE; all are one group).  Scans
 * sort within groups (groups.c), and ask the operator about values in the group
 * of a bound.  An index whose first column is an enum is walked label by label,
 * in the order that they have when a scan begins (labels.c).
 * Text in an index that was built before such codes were made serves equality
 * only: the metapage says so (LsmKeyRules).
 *
 * Locking: nothing in this room keeps a lock or pin between calls of the
 * access method; the tree's rules (tree.h) are obeyed within each call.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_INDEX_H
#define LSM_INDEX_H

#include "access/amapi.h"
#include "access/genam.h"
#include "access/skey.h"
#include "access/tupdesc.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "storage/itemptr.h"

#include "am/am.h"
#include "am/row_notes.h"
#include "index/column_types.h"
#include "tree/tree.h"

/* Longest encoded key columns of an entry (without TID), bytes */
#define LSM_INDEX_MAX_CODE_BYTES	(12 * 1024)

StaticAssertDecl(LSM_INDEX_MAX_CODE_BYTES + LSM_TID_BYTES <= LSM_MAX_KEY_BYTES,
				 "index keys must fit into tree keys");

/* First byte of a code.  On disk. */
#define LSM_CODE_NULL_FIRST		0x01
#define LSM_CODE_NOT_NULL		0x02
#define LSM_CODE_NULL_LAST		0x03

/* In codes of strings.  On disk. */
#define LSM_STRING_ESCAPE		0x00
#define LSM_STRING_ESCAPED_ZERO 0xFF	/* after LSM_STRING_ESCAPE */
#define LSM_STRING_END			0x01	/* after LSM_STRING_ESCAPE */

/* A value part of a code longer than this is packed from there on.  On disk. */
#define LSM_CODE_PLAIN_BYTES	4096

/*
 * Longest value part that new entries may have before it is packed.  Whoever
 * steps over a code unpacks it.  btree's keys are shorter, for what compresses
 * values there does not make less than 1/255 of them.
 */
#define LSM_CODE_MAX_RAW_BYTES	(4 * 1024 * 1024)

/*
 * A scan that pins this block of the main fork keeps VACUUM from freeing TIDs.
 */
#define LSM_INTERLOCK_BLOCK		0

/*
 * Support functions of operator classes.  In the catalogs.  PostgreSQL 18 gives
 * the numbers from 2 on, 6 the last of them now, the meaning that they have for
 * btree, whatever the ordered access method.
 */
#define LSM_PROC_COMPARE	1
#define LSM_PROC_CODE		11	/* makes codes in order */
#define LSM_PROC_EQUALITY_CODE 12	/* makes codes that are equal if values are */
#define LSM_PROC_NORMAL_TEXT 13 /* makes the text that stands for all values
								 * which are equal */
#define LSM_NPROCS			13

/*
 * What the code of a string is made of.  Strings of all types have one code
 * under one collation.
 */
typedef enum LsmStrings
{
	LSM_STRINGS_BYTES,			/* the bytes */
	LSM_STRINGS_PRIMARY_AND_BYTES,	/* libc's primary weights, and the bytes */
	LSM_STRINGS_WEIGHTS_AND_BYTES,	/* the same; of a string with weights on the
									 * last level only, these */
	LSM_STRINGS_KEY_AND_BYTES,	/* ICU's sort key, and the bytes for ties */
	LSM_STRINGS_KEY				/* ICU's sort key alone: the collation is
								 * nondeterministic; the entry's value keeps
								 * the string */
} LsmStrings;

/* Do libc's weights come before the bytes? */
static inline bool
lsm_strings_are_libc(LsmStrings strings)
{
	return strings == LSM_STRINGS_PRIMARY_AND_BYTES || strings == LSM_STRINGS_WEIGHTS_AND_BYTES;
}

/* What the order of codes, by memcmp(), says about that of values */
typedef enum LsmOrder
{
	LSM_ORDER_NONE,				/* nothing */
	LSM_ORDER_GROUPS,			/* that of groups of values: codes that begin
								 * alike (lsm_code_group) */
	LSM_ORDER_CODES				/* it is the operator class's order */
} LsmOrder;

/*
 * Rules by which keys are made, LsmKeyRules.version.  On disk.  0: codes of
 * strings are their bytes under all collations; 1: under those of libc; 2: those
 * of libc have primary weights only.
 */
#define LSM_KEY_RULES_BYTES		0
#define LSM_KEY_RULES_ICU		1
#define LSM_KEY_RULES_LIBC		2
#define LSM_KEY_RULES_WEIGHTS	3
#define LSM_KEY_RULES_CURRENT	LSM_KEY_RULES_WEIGHTS

typedef struct LsmColumnSpec LsmColumnSpec;

struct LsmColumnSpec
{
	LsmColumnType type;
	Oid			opcintype;
	LsmStrings	strings;
	struct pg_locale_struct *locale;	/* of sort keys and weights */
	bool		descending;
	bool		nulls_first;
	uint32		fixed_bytes;	/* of the code of a value; 0: it varies */
	Oid			enum_type;		/* of an enum's column */
	LsmOrder	order;
	Oid			collation;
	struct FmgrInfo *compare;	/* support function 1, the index's */
	bool		returnable;		/* the code, or what the entry's value keeps,
								 * gives back the very value */
	bool		kept;			/* the entry's value keeps the column's */
	bool		opaque;			/* the code cannot be decoded; it is kept */
	struct FmgrInfo *normal_text;	/* support function 13, the index's or the
									 * part's, or NULL */

	/* of composed types: compose.c */
	void		(*put) (const LsmColumnSpec *spec, Datum value, StringInfo out);
	struct LsmParts *parts;
};

/* How the entries of one index are made */
typedef struct LsmKeySpec
{
	int			nkeys;			/* key columns */
	int			nincluded;		/* INCLUDE columns */
	int			nkept;			/* key columns that are in the value, too */
	bool		unique;
	bool		nulls_distinct;
	TupleDesc	stored;			/* of what is in the value: the INCLUDE
								 * columns, then the kept ones; NULL if none */
	uint8		kept[INDEX_MAX_KEYS];	/* their numbers, from 0 */
	LsmColumnSpec columns[INDEX_MAX_KEYS];	/* allocated are the first nkeys */
} LsmKeySpec;

#define LSM_KEY_SPEC_BYTES(nkeys) \
	(offsetof(LsmKeySpec, columns) + (nkeys) * sizeof(LsmColumnSpec))

/* ---- opclass.c ---- */

/* LSM_COLUMN_INVALID for a type that has no operator class of ours. */
extern LsmColumnType lsm_column_type(Oid opcintype);

/* One of LSM_TYPE_... */
extern bool lsm_type_has(LsmColumnType type, uint8 trait);

/* lsm_column_type(), by a class of ours, which may have a support function for codes */
extern LsmColumnType lsm_class_column_type(Oid family, Oid opcintype);

/*
 * The type by whose rules values are encoded and in order: TEXTOID for a class
 * with support function 13, or opcintype.  What is said below about
 * `opcintype` is meant of this one.
 */
extern Oid	lsm_class_code_type(Oid family, Oid opcintype);

/* LSM_PROC_..., that of the class by which codes are made; 0: it has none */
extern int	lsm_class_function(Oid family, Oid opcintype);

static inline bool
lsm_class_has_normal_text(Oid family, Oid opcintype)
{
	return lsm_class_function(family, opcintype) == LSM_PROC_NORMAL_TEXT;
}

/* Another number when what classes say may have changed */
extern uint64 lsm_classes_stamp(void);
extern bool lsm_class_has_collation(Oid opcintype);
extern bool lsm_compares_by_pattern(Oid order_proc);

/* `order_proc`: support function 1 of the operator class */
extern LsmStrings lsm_strings_of(Oid opcintype, Oid collation, Oid order_proc,
								 uint32 rules);

/* Could it be anything but LSM_STRINGS_BYTES, here or on another system? */
extern bool lsm_strings_vary(Oid opcintype, Oid collation, Oid order_proc);

/* Of types that are not composed */
extern LsmOrder lsm_scalar_order(Oid opcintype, Oid collation, Oid order_proc,
								 LsmStrings strings);

/*
 * That order, or none: groups of values are sorted by the operators of the
 * class, which one with support function 13 may not have, or which core does not
 * sort by.
 */
extern LsmOrder lsm_class_order(Oid family, Oid opcintype, LsmOrder order);

/* ---- class_check.c ---- */

/*
 * Do scans return an index in the order of such a column, by an operator class
 * of ours, if the index is built now?
 */
extern bool lsm_opclass_is_ordered(Oid opclass, Oid type, Oid collation);

/*
 * Can a column of the type have this operator class of ours, and, if `in_order`,
 * does the index keep its order?
 */
extern bool lsm_opclass_fits(Oid opclass, Oid type, Oid collation, bool in_order);

/* Is there a default operator class that fits? */
extern bool lsm_type_fits(Oid type, Oid collation, bool in_order);

/* ERROR if they are not for a key column. */
extern void lsm_check_operator_classes(Relation index);

/* ERROR if a column's collation is nondeterministic, and cannot be. */
extern void lsm_check_collations(Relation index);

/* ---- compose.c ---- */

/*
 * A code of the string, by whose bytes strings are ordered under the collation;
 * palloc'd.  ERROR if it has none.
 */
extern bytea *lsm_compose_text(Oid collation, const char *data, int len);

/* ---- rules.c ---- */

/*
 * What codes of strings consist of in a column (from 0) of an open index, as
 * its metapage has it; a look at that the first time.  LSM_STRINGS_BYTES for
 * columns of others.  False: a newer build has made the index.
 */
extern bool lsm_index_strings(Relation index, int column, LsmStrings *strings);

/* ERROR: so it is. */
pg_noreturn extern void lsm_index_newer(Relation index);

/*
 * Do collations make other keys of strings than when the index was built, or
 * other support functions codes?  A WARNING of it, once while the relcache has
 * the index; an ERROR.
 */
extern bool lsm_index_making_changed(Relation index);
extern void lsm_index_warn_of_making(Relation index);
extern void lsm_index_require_making(Relation index);

/* ERROR, that of PostgreSQL, if the locale of a collation is not installed. */
extern void lsm_index_require_locales(Relation index);

/*
 * Were columns dropped from row types since the index was built, or have rows of
 * a table, which it has as a whole, got a column with a value?
 */
extern bool lsm_row_types_changed(Relation index);

/*
 * OIDs of relations whose columns the order of the index depends on: those of
 * row types in it
 */
extern List *lsm_index_row_types(Relation index);

/* Of an index that is built now; forgets what was known of it. */
extern void lsm_index_new_making(Relation index, LsmKeyMaking *making);

/* ---- keyspec.c ---- */

/* `column` counts from 0.  ERROR for an operator class of someone else's. */
extern void lsm_column_spec(Relation index, int column, LsmColumnSpec *spec);

/*
 * Can all columns be encoded as they were when the index was built?  Not if the
 * types they consist of have changed, or the collations have.
 */
extern bool lsm_columns_have_codes(Relation index);

/* Allocated in the current memory context. */
extern LsmKeySpec *lsm_key_spec(Relation index);

/*
 * ERROR if keys are made in another way now than when the index was built.
 * REQUIRES: room for LSM_KEY_SPEC_BYTES() of the index's key columns.
 */
extern void lsm_key_spec_fill(Relation index, LsmKeySpec *spec);

/* ---- collation.c ---- */

struct pg_locale_struct;

typedef enum LsmCollationKind
{
	LSM_COLLATION_BYTES,		/* compares bytes, like "C" */
	LSM_COLLATION_ICU,			/* deterministic */
	LSM_COLLATION_ICU_NONDETERMINISTIC,
	LSM_COLLATION_LIBC,			/* of glibc, with rules */
	LSM_COLLATION_OTHER			/* we have no order for it, or its locale is not
								 * there */
} LsmCollationKind;

/*
 * Is its locale installed on this system?  If not, PostgreSQL raises an error
 * when it is asked for the locale, and PostgreSQL 18 when it is asked whether
 * the collation is "C".
 */
extern bool lsm_collation_is_there(Oid collation);

extern LsmCollationKind lsm_collation_kind(Oid collation);
extern struct pg_locale_struct *lsm_collation_locale(Oid collation);
extern void lsm_collation_put_sort_key(struct pg_locale_struct *locale,
									   const char *data, int len, StringInfo out,
									   void (*put) (StringInfo out, const char *data, int len));
extern void lsm_collation_put_weights(struct pg_locale_struct *locale, LsmStrings strings,
									  const char *data, int len, StringInfo out,
									  void (*put) (StringInfo out, const char *data, int len));

/* Between the levels of libc's weights, and in none of them */
#define LSM_WEIGHTS_SEPARATOR	'\1'

/* Can codes of strings under the collation be of this kind now? */
extern bool lsm_collation_makes(Oid collation, LsmStrings strings);

/*
 * What sort keys or weights of the collation are made by now.  REQUIRES:
 * lsm_collation_makes().
 */
extern uint32 lsm_collation_version(Oid collation, LsmStrings strings);

/* ---- collation_sample.c ---- */

/* A digest of those of a fixed sample of strings.  REQUIRES: likewise */
extern uint32 lsm_collation_sample(Oid collation, LsmStrings strings);

/* ---- encode.c, encode_numeric.c ---- */

/* Append the column's code; bytes of its value part before it is packed. */
extern Size lsm_encode_column(const LsmColumnSpec *spec, Datum value, bool isnull,
							  StringInfo out);
extern void lsm_encode_tid(ItemPointer tid, StringInfo out);

/* Bytes of the value part of the type's codes, or LSM_EXTENT_... */
extern uint8 lsm_value_extent(LsmColumnType type, LsmStrings strings);

/*
 * Length of a value part of this extent at the start of `bytes`, `mask` XORed to
 * it; may be more than `len`.  0: it does not end within `len`, or is packed.
 */
extern uint32 lsm_value_length(uint8 extent, const uint8 *bytes, uint32 len, uint8 mask);

#define LSM_VALUE_CORRUPT	PG_UINT32_MAX	/* ... it is none */

/*
 * Append the value part of a code alone, neither packed nor inverted; a string
 * that ends; a string as the collation has it.
 */
extern void lsm_put_value(const LsmColumnSpec *spec, Datum value, StringInfo out);
extern void lsm_put_string(StringInfo out, const char *data, int len);
extern void lsm_put_text(StringInfo out, const LsmColumnSpec *spec, const char *data,
						 int len);
extern void lsm_encode_numeric(Datum value, StringInfo out);

/* Bytes of the code at the start of `rest`; ERROR (data corrupted) if none. */
extern uint32 lsm_measure_code(const LsmColumnSpec *spec, LsmSlice rest);

static inline uint32
lsm_code_length(const LsmColumnSpec *spec, LsmSlice rest)
{
	if (likely(spec->fixed_bytes > 0 && rest.len >= spec->fixed_bytes &&
			   rest.data[0] == LSM_CODE_NOT_NULL))
		return spec->fixed_bytes;
	return lsm_measure_code(spec, rest);
}

/*
 * The same in a key that was cut after less than LSM_CODE_PLAIN_BYTES; 0: the
 * code does not end in what is left.
 */
extern uint32 lsm_cut_code_length(const LsmColumnSpec *spec, LsmSlice rest);

/*
 * Codes of a column whose order is that of groups: those of the group of the
 * code at the start of `rest` begin with this many bytes of it, and no others
 * do.
 */
extern uint32 lsm_code_group(const LsmColumnSpec *spec, LsmSlice rest);

/*
 * Compare two codes of the column as the operator class, DESC and NULLS FIRST
 * do.  Leaks into the current memory context.
 */
extern int	lsm_code_compare(const LsmColumnSpec *spec, LsmSlice a, LsmSlice b);

/* The value (palloc'd if by reference); canonical: 1.0 for 1.00. */
extern Datum lsm_decode_column(const LsmColumnSpec *spec, LsmSlice code, bool *isnull);

/* As lsm_value_length().  REQUIRES: one byte is there. */
extern uint32 lsm_numeric_code_length(const uint8 *bytes, uint32 len, uint8 mask);

/* Does a numeric's code end with the last of these bytes? */
extern bool lsm_numeric_code_ends(const uint8 *bytes, uint32 len);
extern Datum lsm_decode_numeric(const uint8 *bytes, uint32 len);

/* ---- encode_network.c ---- */

extern void lsm_put_inet(StringInfo out, Datum value);
extern Datum lsm_get_inet(const uint8 *bytes);

/* As it begins, `mask` XORed to it */
extern uint32 lsm_inet_code_length(const uint8 *bytes, uint8 mask);

/* ---- leading.c ---- */

/*
 * Which leading columns filters are to know (LsmTreeOptions.leading); -1: all
 * but the last.  `filter_columns` is the storage parameter.
 */
extern uint64 lsm_leading_word(Relation index, int filter_columns);

/* The same, as it was the first time */
extern uint64 lsm_leading_known(Relation index, int filter_columns);

/* LsmKindOps.leading_bytes */
extern uint32 lsm_leading_bytes(uint64 leading, LsmSlice filter_key);

/* ---- order_preserving_pack.c ---- */

/* Pack the value part that starts there and is the last thing in `out`. */
extern void lsm_pack_code(StringInfo out, int start);

/*
 * Unpack the value part at the start of `bytes`, to which `mask` is XORed
 * first, into `raw`.  It has this many strings; 0: it is a numeric.  Returns
 * its packed length; ERROR (data corrupted) if it is none.
 */
extern uint32 lsm_unpack_code(const uint8 *bytes, uint32 len, uint8 mask,
							  int nstrings, StringInfo raw);

/* ---- encode.c ---- */

/*
 * Replace the content of `out` by the codes of all key columns.  ERROR if they
 * are longer than LSM_INDEX_MAX_CODE_BYTES, or one than LSM_CODE_MAX_RAW_BYTES
 * before it is packed.
 */
extern void lsm_encode_columns(Relation index, const LsmKeySpec *spec,
							   const Datum *values, const bool *isnull,
							   StringInfo out);

/* Append them, however long.  Returns the longest one's bytes before packing. */
extern Size lsm_append_columns(const LsmKeySpec *spec, const Datum *values,
							   const bool *isnull, StringInfo out);
extern bool lsm_any_null(const LsmKeySpec *spec, const bool *isnull);

/* ---- error.c ---- */

/* ERROR: a key that is in the tree cannot be taken apart. */
pg_noreturn extern void lsm_code_corrupt(void);

/* The columns' part of a key: what filters and locks are about. */
static inline LsmSlice
lsm_key_columns(LsmSlice key)
{
	if (unlikely(key.len <= LSM_TID_BYTES))
		lsm_code_corrupt();
	return lsm_slice(key.data, key.len - LSM_TID_BYTES);
}

/* Its TID */
static inline void
lsm_decode_tid(LsmSlice key, ItemPointer tid)
{
	uint32		block;
	uint16		offset;

	if (key.len <= LSM_TID_BYTES)
		lsm_code_corrupt();
	lsm_tid_read(key.data + key.len - LSM_TID_BYTES, &block, &offset);
	ItemPointerSet(tid, block, offset);
	if (!ItemPointerIsValid(tid))
		lsm_code_corrupt();
}

/*
 * How `key` lies to a bound made of codes of leading columns: 0 if it begins
 * with them.  So for a code and the group that a bound stands for.
 */
static inline int
lsm_bound_compare(LsmSlice key, LsmSlice bound)
{
	return lsm_bytes_compare(key.data, bound.data, Min(key.len, bound.len));
}

/* Does the one bound, lower or upper, leave less than the other? */
static inline bool
lsm_bound_is_narrower(bool is_lower, LsmSlice one, bool one_inclusive,
					  LsmSlice other, bool other_inclusive)
{
	int			c = lsm_bound_compare(one, other);

	if (c != 0)
		return (c > 0) == is_lower;

	/* of keys that begin with the shorter one, it takes all or none */
	if (one.len == other.len)
		return !one_inclusive && other_inclusive;
	return one.len < other.len ? !one_inclusive : other_inclusive;
}

/* ---- payload.c ---- */

/* Replace the content of `out` by the value of a PUT entry. */
extern void lsm_form_value(const LsmKeySpec *spec, Datum *values, bool *isnull,
						   StringInfo out);

/*
 * Fill in the INCLUDE columns, which come behind the key columns, and those key
 * columns that are kept; by-reference ones are palloc'd.
 */
extern void lsm_deform_value(const LsmKeySpec *spec, LsmSlice value,
							 Datum *values, bool *isnull);
extern void lsm_check_entry_bytes(Relation index, int key_bytes, int value_bytes);

/* ---- constant.c ---- */

/*
 * What a constant, possibly of another type of the operator family, means for
 * a column.  Codes are complete (marker, DESC).
 */
typedef enum LsmConstantKind
{
	LSM_CONSTANT_EXACT,			/* the column can hold it: `value` */
	LSM_CONSTANT_GAP,			/* it cannot: `below` is the greatest value
								 * less than it, `above` the least one greater */
	LSM_CONSTANT_NEAR,			/* what compares equal to it lies within
								 * below..above; ask the operator */
	LSM_CONSTANT_OPAQUE			/* ask the operator */
} LsmConstantKind;

typedef struct LsmConstant
{
	LsmConstantKind kind;
	bool		has_below;
	bool		has_above;
	LsmSlice	value;
	LsmSlice	below;
	LsmSlice	above;
} LsmConstant;

/* `type`: of the constant; InvalidOid: the operator class's. */
extern void lsm_constant_convert(const LsmColumnSpec *spec, Oid type, Datum value,
								 LsmConstant *constant);

/* ---- order_check.c ---- */

typedef struct LsmOrderCheck LsmOrderCheck;

/*
 * Is the order of groups that of values?  Begin a look at entries in the order
 * of codes; NULL: no column has groups by a collation.
 */
extern LsmOrderCheck *lsm_order_check_begin(const LsmKeySpec *spec);

/* The columns of the next key; false: it should have come before others. */
extern bool lsm_order_check_next(LsmOrderCheck *check, LsmSlice columns);

/* ---- predicate.c ---- */

/*
 * Before a scan reads: it will look for entries that begin with these codes of
 * leading columns (none: for others, too).
 */
extern void lsm_predicate_lock(Relation index, LsmSlice prefix, Snapshot snapshot);

/*
 * After an entry has been written: ERROR (serialization failure) if a scan that
 * should have seen it makes that necessary.
 */
extern void lsm_predicate_check(Relation index, const LsmKeySpec *spec, LsmSlice columns);

/* ---- unique.c ---- */

typedef struct LsmUniqueInsert
{
	Relation	index;
	Relation	table;
	LsmTree    *tree;
	const LsmKeySpec *spec;
	bool		stable_tids;
	IndexUniqueCheck check;
	ItemPointer tid;
	Datum	   *values;
	bool	   *isnull;
	LsmSlice	key;
	LsmSlice	value;
} LsmUniqueInsert;

/*
 * Check uniqueness as ->check says and insert (unless UNIQUE_CHECK_EXISTING).
 * Returns what aminsert returns.  May wait for other transactions.
 */
extern bool lsm_insert_unique(LsmUniqueInsert *insert);

/* ---- group_insert.c ---- */

/* Kept with the IndexInfo for the statement */
typedef struct LsmGroupInsert LsmGroupInsert;

/*
 * Is the row's entry in the index already?  If the row is the first of those
 * that COPY has written together, inserts their entries up to the first that
 * may be in conflict; if it is the one behind such a row, goes on from there.
 * *group: NULL at first.  REQUIRES: current memory context is reset
 * afterwards.
 */
extern bool lsm_group_inserted(LsmGroupInsert **group, Relation index, Relation table,
							   const LsmKeySpec *spec, ItemPointer tid,
							   IndexUniqueCheck check, IndexInfo *info);

/* ---- options.c ---- */

extern void lsm_index_define_options(void);
extern bytea *lsm_index_options(Datum reloptions, bool validate);

/* The tree, with the index's storage parameters.  See lsm_tree_open. */
extern LsmTree *lsm_index_open_tree(Relation index);

/* LsmTreeOptions.leading of the index's tree, without a look at the scheme */
extern uint64 lsm_index_leading(Relation index);

/* ---- handler.c ---- */

extern void lsm_index_init(void);

/* ---- access method callbacks ---- */

extern IndexBuildResult *lsm_index_build(Relation table, Relation index,
										 IndexInfo *info);
extern void lsm_index_build_empty(Relation index);
extern char *lsm_index_build_phase_name(int64 phase);
extern bool lsm_index_insert(Relation index, Datum *values, bool *isnull,
							 ItemPointer tid, Relation table,
							 IndexUniqueCheck check, bool unchanged,
							 IndexInfo *info);
extern IndexBulkDeleteResult *lsm_index_bulk_delete(IndexVacuumInfo *info,
													IndexBulkDeleteResult *stats,
													IndexBulkDeleteCallback callback,
													void *callback_state);
extern IndexBulkDeleteResult *lsm_index_vacuum_cleanup(IndexVacuumInfo *info,
													   IndexBulkDeleteResult *stats);
extern bool lsm_index_can_return(Relation index, int attno);
extern void lsm_index_cost_estimate(PlannerInfo *root, IndexPath *path,
									double loop_count, Cost *startup_cost,
									Cost *total_cost, Selectivity *selectivity,
									double *correlation, double *pages);
extern bool lsm_index_validate(Oid opclass);
extern IndexScanDesc lsm_index_begin_scan(Relation index, int nkeys, int norderbys);
extern void lsm_index_rescan(IndexScanDesc scan, ScanKey keys, int nkeys,
							 ScanKey orderbys, int norderbys);
extern bool lsm_index_get_tuple(IndexScanDesc scan, ScanDirection direction);

/* The scan looks at all entries of a key, though the index is unique. */
extern void lsm_index_doubt_unique(IndexScanDesc scan);

/*
 * An index-only scan: the columns of the next row in the direction, none of
 * which is NULL, which need not be looked at in the table.  They may point to
 * what the next call changes.  False: lsm_index_get_tuple() has to be asked.
 */
extern bool lsm_index_next_row(IndexScanDesc scan, ScanDirection direction, Datum *values);

extern int64 lsm_index_get_bitmap(IndexScanDesc scan, TIDBitmap *tbm);
extern void lsm_index_end_scan(IndexScanDesc scan);
extern void lsm_index_mark_position(IndexScanDesc scan);
extern void lsm_index_restore_position(IndexScanDesc scan);

/* ---- parallel_scan.c ---- */

/* What a scan by several processes needs in shared memory */
extern Size lsm_shared_scan_bytes(void);
extern void lsm_shared_scan_init(void *target);
extern void lsm_index_parallel_rescan(IndexScanDesc scan);

/* ---- row_cost.c ---- */

/*
 * What tells clauses and conditions that stand for row comparisons from a
 * user's (executor/row_compare.c): no place in a query.  Copies keep it, and
 * nobody else looks at it but to show the place of an error.
 */
#define LSM_ADDED_LOCATION (-1000)
/* the same of a condition, if nothing of the comparison leaks */
#define LSM_ADDED_LEAKPROOF_LOCATION (-1001)
#define LSM_IS_ADDED(location) \
	((location) == LSM_ADDED_LOCATION || (location) == LSM_ADDED_LEAKPROOF_LOCATION)

/*
 * The path with whole row comparisons as its index conditions, where the index
 * will be asked these; the path itself if there are none.  For estimates.
 */
extern IndexPath *lsm_path_of_whole_rows(PlannerInfo *root, IndexPath *path);

/* ---- cost.c ---- */

/* Of a build_simple_rel_hook, for a table */
extern void lsm_index_adjust_info(PlannerInfo *root, RelOptInfo *rel);

/* ---- kind.c ---- */

extern const LsmKindOps lsm_index_kind_ops;

#endif							/* LSM_INDEX_H */
