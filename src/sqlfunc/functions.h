/*-------------------------------------------------------------------------
 *
 * functions.h
 *	  Helpers that the files of the SQL functions share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_FUNCTIONS_H
#define LSM_FUNCTIONS_H

#include "nodes/pg_list.h"
#include "storage/lockdefs.h"
#include "utils/rel.h"

#include "am/am.h"
#include "tree/tree.h"

/* REQUIRES: the relation is one of ours (am.h), and locked. */
extern LsmTree *lsm_relation_tree(Relation rel);

/*
 * For functions that are done with a tree when they return, so that a statement
 * can call them for more trees than there are control blocks: those of the
 * relations whose trees the transaction has not opened yet; let go of them.
 */
extern List *lsm_relations_not_open(List *relations);
extern void lsm_relations_let_go(List *relations);

extern List *lsm_relation_open_indexes(Relation table, LOCKMODE lockmode);
extern void lsm_relation_close_indexes(List *indexes, LOCKMODE lockmode);

/* ---- stats.c ---- */

/* Bytes of units of the tree's elastic filters that are on */
extern uint64 lsm_elastic_tree_bytes(const LsmElasticUse *uses, int nuses, uint64 keyspace_id);

/* ---- rights.c ---- */

/* What a function works on */
typedef enum LsmRelationKind
{
	LSM_RELATION_TREE,			/* an lsm table or index */
	LSM_RELATION_TREES			/* that, or another table with an lsm index */
} LsmRelationKind;

/* What it asks of its caller, for the table of an index */
typedef enum LsmRight
{
	LSM_RIGHT_MAINTAIN,			/* what VACUUM asks: ownership of table or
								 * database, or MAINTAIN */
	LSM_RIGHT_ROWS,				/* SELECT on the table */
	LSM_RIGHT_FACTS				/* SELECT on a column, what VACUUM asks, or
								 * pg_stat_scan_tables */
} LsmRight;

/*
 * Opens and locks, the table of an index first.  ERRORs before it asks for a
 * lock if kind or right are missing, or the relation is another session's
 * temporary one; then, if it is gone, or an index has not been built.
 */
extern Relation lsm_relation_open(Oid relid, LsmRelationKind kind, LsmRight right,
								  LOCKMODE lockmode);
/*
 * The same, but NULL if the relation is not there, or another session's
 * temporary one, and of an index that has not been built, too.
 */
extern Relation lsm_relation_try_open(Oid relid, LsmRelationKind kind, LsmRight right,
									  LOCKMODE lockmode);

/*
 * Lets go of what these have locked, the table of an index, too: for functions
 * that only look, so that nobody waits for the end of the transaction.
 */
extern void lsm_relation_close(Relation rel, LOCKMODE lockmode);

/*
 * False: the build of the index has failed, and its fork may have been left
 * without a tree.
 */
extern bool lsm_index_has_tree(Relation index);

/* ERRORs unless it is an lsm table or index. */
extern void lsm_relation_check_kind(Relation rel);

/* May the user see keys of any row? */
extern bool lsm_relation_may_show_keys(Relation rel);

typedef struct LsmFormerUser
{
	Oid			userid;
	int			sec_context;
	int			guc_level;
} LsmFormerUser;

/*
 * May the caller let what others have written run as the table's owner?  Names
 * are not all that a session can give to such code: it also keeps the types that
 * functions in PL/pgSQL name, and constraints of domains, as they were found
 * with another search_path, and pg_temp has tables of its own.
 */
extern bool lsm_may_become_owner(Relation table);

/*
 * REQUIRES: lsm_may_become_owner().
 *
 * From here on, and until lsm_become_caller() or an error, functions in index
 * expressions, predicates and the like run as the table's owner, can change no
 * setting for good, and find names in pg_catalog only: search_path is the
 * caller's.  Before anything looks at an expression: simplifying it calls
 * functions.
 */
extern void lsm_become_owner(Relation table, LsmFormerUser *former);
extern void lsm_become_caller(const LsmFormerUser *former);

/*
 * What the owner's rights may evaluate of an index.  The relation cache has
 * expressions and predicate as the session simplified them when it first met
 * the index: functions in SQL have been inlined, with the names that the
 * caller's search_path gave them then.
 */
extern List *lsm_owner_expressions(Relation index);
extern List *lsm_owner_predicate(Relation index);

/*
 * Do expressions or predicate run what others than superusers may have written,
 * or what the user may not execute?
 */
extern bool lsm_index_has_foreign_code(Relation index);

#endif							/* LSM_FUNCTIONS_H */
