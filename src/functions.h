/*-------------------------------------------------------------------------
 *
 * functions.h
 *	  Helpers that the SQL functions in functions.c, verify.c and stats.c share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_FUNCTIONS_H
#define LSM_FUNCTIONS_H

#include "nodes/pg_list.h"
#include "storage/lockdefs.h"
#include "utils/rel.h"

#include "tree/tree.h"

extern bool lsm_relation_is_table(Relation rel);
extern bool lsm_relation_is_index(Relation rel);

/* REQUIRES: one of the two above holds, and a lock on the relation. */
extern LsmTree *lsm_relation_tree(Relation rel);

/* Opens and locks, the table of an index first.  ERRORs for another session's
 * temporary relations. */
extern Relation lsm_relation_open(Oid relid, LOCKMODE lockmode);
/* ERRORs unless it is an lsm table or index. */
extern void lsm_relation_check_tree(Relation rel);
/* The same for an lsm table or index, AccessShareLock; ERRORs for others. */
extern Relation lsm_relation_open_tree(Oid relid);
extern List *lsm_relation_open_indexes(Relation table, LOCKMODE lockmode);
extern void lsm_relation_close_indexes(List *indexes);

/* ERRORs unless the user may SELECT from the (index's) table. */
extern void lsm_check_select(Relation rel);

#endif							/* LSM_FUNCTIONS_H */
