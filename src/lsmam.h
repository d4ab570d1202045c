/*-------------------------------------------------------------------------
 *
 * lsmam.h
 *	  What the files directly in src share: start-up pieces and the doors of
 *	  the two access methods that the start-up opens.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSMAM_H
#define LSMAM_H

#include "executor/execdesc.h"
#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"

#include "tree/tree.h"

#define LSM_TABLE_AM_NAME	"lsm"
#define LSM_INDEX_AM_NAME	"lsm_index"

/* ---- guc.c ---- */

typedef enum LsmConstraintIndex
{
	LSM_CONSTRAINT_AUTO,
	LSM_CONSTRAINT_LSM,
	LSM_CONSTRAINT_BTREE
} LsmConstraintIndex;

extern int	lsm_constraint_index;

extern void lsm_guc_init(void);
extern bool lsm_settings_are_servers(void);

/* ---- worker.c ---- */

extern void lsm_worker_register(void);
extern PGDLLEXPORT void lsm_worker_main(Datum main_arg);

/* ---- hooks.c ---- */

extern void lsm_hooks_init(void);

/* ---- constraints.c ---- */

extern bool lsm_constraints_concern(Node *stmt);
extern List *lsm_constraints_before(Node *stmt);
extern void lsm_constraints_after(List *former_keys);

/* ---- index_order.c ---- */

/* Relations that a statement has made */
typedef struct LsmCreated
{
	MemoryContext context;		/* of the list */
	List	   *relations;
} LsmCreated;

extern void lsm_index_order_init(void);
extern bool lsm_index_is_ordered(Oid index);
extern bool lsm_index_is_asked_for(Node *stmt);
extern LsmCreated *lsm_watch_created(LsmCreated *created);
extern void lsm_notice_unordered(IndexStmt *stmt, const LsmCreated *created);

/* ---- publications.c ---- */

extern void lsm_publications_init(void);

/* After a statement: ERROR if it has brought an lsm table into a publication. */
extern void lsm_publications_check(void);

/* ---- file_swap.c ---- */

extern void lsm_file_swap_init(void);
extern void lsm_file_swap_prepare_copy(CreateTableAsStmt *stmt);

/* ---- upgrade.c ---- */

extern void lsm_upgrade_check(const char *query_string);

/* ---- swap_index.c ---- */

extern Oid	lsm_swap_index(Oid index, const char *am, List *options);
extern List *lsm_index_options_list(Oid index);

/* ---- on_conflict.c ---- */

extern void lsm_on_conflict_plan(Query *query);
extern void lsm_on_conflict_prepare(QueryDesc *query_desc, int eflags);

/* ---- insert_select.c ---- */

extern bool lsm_insert_select_plan(Query *query);
extern void lsm_insert_select_mark(PlannedStmt *plan);
extern void lsm_insert_select_prepare(QueryDesc *query_desc, int eflags);

/* ---- explain.c ---- */

extern void lsm_explain_init(void);

/* ---- functions.c ---- */

/* OIDs of our access methods; InvalidOid if the extension is not in this database */
extern Oid	lsm_table_am_oid(void);
extern Oid	lsm_index_am_oid(void);

/* ---- src/table, src/index ---- */

extern void lsm_table_init(void);
extern void lsm_index_init(void);
extern void lsm_index_adjust_info(PlannerInfo *root, Oid relid, bool inhparent,
								  RelOptInfo *rel);

#endif							/* LSMAM_H */
