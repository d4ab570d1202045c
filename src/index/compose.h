/*-------------------------------------------------------------------------
 *
 * compose.h
 *	  Composed types: those whose codes are made of the codes of other types.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COMPOSE_H
#define LSM_COMPOSE_H

#include "fmgr.h"
#include "utils/typcache.h"

#include "index/index.h"

/* What the code of a composed type is made of.  Lives as long as its spec. */
typedef struct LsmParts
{
	MemoryContext context;
	Oid			type;			/* the column's, not a domain */
	LsmColumnSpec *element;		/* of an array, a range's bounds, jsonb's
								 * strings */
	Oid			element_type;	/* of an array */
	int16		typlen;
	bool		typbyval;
	char		typalign;
	TypeCacheEntry *range;		/* of a range or multirange */
	FmgrInfo	function;		/* of LSM_COLUMN_FUNCTION */
	int			function_number;	/* LSM_PROC_... */

	/* of a record: of the row type that was met last */
	uint64		row_type;
	int			nattributes;
	LsmColumnSpec *attributes;	/* LSM_COLUMN_INVALID: it is dropped */
	MemoryContext row_context;	/* what they are in, if a value had another
								 * row type than the column; else NULL */

	/* for walks over specs, whose parts may be shared */
	uint64		walk;			/* the last one that was here */
	struct LsmParts *copy;		/* that it has made */
	uint64		columns;		/* what lsm_compose_dropped() found: of all */
	uint32		dropped;		/* parts; digest of dropped columns */
} LsmParts;

/* ---- encode_document.c ---- */

extern void lsm_put_oidvector(const LsmColumnSpec *spec, Datum value, StringInfo out);
extern void lsm_put_tsvector(const LsmColumnSpec *spec, Datum value, StringInfo out);
extern void lsm_put_jsonb(const LsmColumnSpec *spec, Datum value, StringInfo out);

/* ---- known_specs.c ---- */

/*
 * How a column of such a type is encoded by an operator class of ours; in the
 * current memory context.  What the index says of the column (order, support
 * function 1) stays as it is.  False: a type that it consists of, *culprit, has
 * no codes.
 */
extern bool lsm_compose_spec(Oid family, Oid opcintype, Oid type, Oid collation,
							 LsmColumnSpec *spec, Oid *culprit);

/* ---- compose.c ---- */

/* The same, from the catalogs */
extern bool lsm_compose_make_spec(Oid family, Oid opcintype, Oid type, Oid collation,
								  LsmColumnSpec *spec, Oid *culprit);

/* The number of a walk over a spec that looks at shared parts once */
extern uint64 lsm_compose_next_walk(void);

/*
 * Can a constant of the class's input type be encoded?  It cannot if it is an
 * array or a record of other types: the operator has the last word then.
 */
extern bool lsm_compose_fits(const LsmColumnSpec *spec, Datum value);

/* Collations that codes depend on; each once, in the current memory context */
typedef struct LsmCollationUse
{
	Oid			collation;
	LsmStrings	strings;		/* not LSM_STRINGS_BYTES */
	bool		by_function;	/* a support function may ask for it */
} LsmCollationUse;

typedef struct LsmCollations
{
	LsmCollationUse *uses;
	int			n;
	int			room;
} LsmCollations;

extern void lsm_collations_add(LsmCollations *all, Oid collation, LsmStrings strings,
							   bool by_function);

/* Add those of a composed type's parts. */
extern void lsm_compose_collations(const LsmColumnSpec *spec, LsmCollations *all);

/*
 * What stands for the support functions that make a column's codes, or those of
 * its parts, each once: a list of integers.
 */
extern List *lsm_compose_functions(const LsmColumnSpec *spec);

/* OIDs of the relations of row types in a column, each once */
extern List *lsm_compose_row_types(const LsmColumnSpec *spec);

/*
 * How many columns has the row type whose values the column has, alone or in
 * arrays, dropped ones included?  0: there is none.
 */
extern int	lsm_compose_row_columns(const LsmColumnSpec *spec);

/*
 * Has a column that was added to it behind so many a value in rows that are
 * older?  Their codes have none.
 */
extern bool lsm_compose_row_has_grown(const LsmColumnSpec *spec, int columns);

/*
 * Adds what stands for the columns dropped from row types; modulo 2^16 a column
 * adds something.  False: there is no row type.
 */
extern bool lsm_compose_dropped(const LsmColumnSpec *spec, uint32 *digest);

/* ---- support_function.c ---- */

/* How a column is encoded whose class has support function 11 or 12 */
extern void lsm_function_spec(LsmColumnSpec *spec, Oid family);

/* ERROR if the function cannot be support function 13 of a class for the type. */
extern void lsm_check_normal_text(Oid function, Oid opcintype);

/* The value's normal form, a text, by support function 13 */
extern Datum lsm_normal_text(const LsmColumnSpec *spec, Datum value);

#endif							/* LSM_COMPOSE_H */
