/*-------------------------------------------------------------------------
 *
 * constraints.h
 *	  Between constraints.c and btree_keys.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_CONSTRAINTS_H
#define LSM_CONSTRAINTS_H

#include "nodes/parsenodes.h"

/* A unique index, from pg_index */
typedef struct LsmUniqueIndex
{
	Oid			index;
	Oid			am;
	bool		valid;
	bool		primary;
	bool		immediate;
	bool		nulls_not_distinct;
	bool		plain;			/* neither expressions nor predicate */
	int			nkeys;
	AttrNumber	keys[INDEX_MAX_KEYS];
} LsmUniqueIndex;

/* ---- constraints.c ---- */

extern List *lsm_other_options(List *options);

/* ---- btree_keys.c ---- */

extern Oid	lsm_relation_am(Oid relid);
extern List *lsm_unique_indexes(Oid table, Oid am);
extern void lsm_prepare_foreign_key(Oid relid, Constraint *constraint);
extern bool lsm_prepare_using_index(Oid relid, Oid index, bool for_now);
extern void lsm_prepare_attach(Oid parent, RangeVar *partition);
extern void lsm_prepare_parent_key(Oid parent, bool primary,
								   bool nulls_not_distinct, List *columns);
extern void lsm_prepare_refresh(RefreshMatViewStmt *stmt);
extern void lsm_prepare_attach_index(Oid parent, RangeVar *partition);

#endif							/* LSM_CONSTRAINTS_H */
