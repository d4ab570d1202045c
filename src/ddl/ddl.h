/*-------------------------------------------------------------------------
 *
 * ddl.h
 *	  Statements that make and change tables, where ours need something else.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_DDL_H
#define LSM_DDL_H

#include "access/attnum.h"
#include "catalog/namespace.h"
#include "nodes/parsenodes.h"
#include "storage/lockdefs.h"
#include "utils/palloc.h"

#include "compat.h"

/* A unique index, from pg_index, or one that is to be made */
typedef struct LsmUniqueIndex
{
	Oid			table;
	Oid			index;			/* InvalidOid: to be made */
	Oid			am;
	bool		valid;
	bool		constraint;
	bool		primary;
	bool		immediate;
	bool		nulls_not_distinct;
	bool		plain;			/* neither expressions nor predicate */
	int			nkeys;
	int			ncolumns;		/* with those of INCLUDE */
	AttrNumber	keys[INDEX_MAX_KEYS];	/* the keys, then the others */
	Oid			collations[INDEX_MAX_KEYS];
	Oid			classes[INDEX_MAX_KEYS];
} LsmUniqueIndex;

/* ---- constraints.c ---- */

/*
 * Are all tables of the tree of partitions that the table, of access method
 * `its_am`, is in of access method `am`?
 */
extern bool lsm_partitions_are_lsm(Oid relid, Oid its_am, Oid am);
extern bool lsm_constraints_concern(Node *stmt);
extern List *lsm_constraints_before(Node *stmt);
extern void lsm_constraints_after(List *former_keys);

/* ---- upgrade.c ---- */

/*
 * Before the statement at `location` of the string (-1: at its beginning) is
 * executed: is it pg_upgrade, and may it go on?
 */
extern void lsm_upgrade_check(const char *query_string, int location);

/*
 * A server that pg_upgrade has started, and that is told which keys were
 * lsm_index in the old cluster.
 */
extern bool lsm_upgrade_has_list(void);

/*
 * In such a server: was the index with this OID, of a constraint of this table,
 * an lsm_index in the old cluster?  ERROR if there is no list and should be.
 */
extern bool lsm_upgrade_is_key(Oid table, Oid index);

/* ---- default_index.c ---- */

/* lsm.default_index */
typedef enum LsmDefaultIndex
{
	LSM_DEFAULT_INDEX_BTREE,
	LSM_DEFAULT_INDEX_LSM
} LsmDefaultIndex;

extern int	lsm_default_index;

/*
 * Before a utility statement: CREATE INDEX without USING may become one with
 * it.  Returns what is to be run, the statement or a copy.  `part_of_other`:
 * of another statement, whose text this is.
 */
extern PlannedStmt *lsm_default_index_before(PlannedStmt *pstmt, const char *query_string,
											 bool part_of_other);

/* ---- extension_tables.c ---- */

/* Around a utility statement: which default_table_access_method it sees */
extern int	lsm_extension_tables_begin(Node *stmt);
extern void lsm_extension_tables_end(int nest_level);

/* ---- name_locks.c ---- */

/* Does the statement need a key of the table rebuilt?  May raise an error. */
typedef bool (*LsmNeedsRebuild) (Oid table, void *arg);

/*
 * May the user lock the relation of this name?  False: core will refuse the
 * statement, and will have the relation locked no longer than that takes.  May
 * raise an error.
 */
typedef bool (*LsmMayLock) (const RangeVar *name, Oid relid, void *arg);

/* ERROR, that of core, if it is not his. */
extern bool lsm_owns_named(const RangeVar *name, Oid relid, void *arg);

/*
 * Locks the relation of this name, with AccessExclusiveLock if a key has to be
 * rebuilt (NULL: never).  Returns the relation, which may be another one than
 * had the name before; InvalidOid: there is none that may be locked, which core
 * will report.  Nothing is locked without the right to it.
 */
extern Oid	lsm_lock_named(const RangeVar *name, LOCKMODE lockmode, LsmMayLock may_lock,
						   LsmNeedsRebuild needs_rebuild, void *arg);

/* ... the table with this OID; returns whether a key has to be rebuilt. */
extern bool lsm_lock_table(Oid table, LOCKMODE lockmode,
						   LsmNeedsRebuild needs_rebuild, void *arg);

/*
 * The partitions of a partitioned table, which is locked, in the order in which
 * core goes through them for an index or a foreign key.
 */
extern List *lsm_partitions(Oid table);

/* Locks them, and theirs, in that order. */
extern void lsm_lock_partitions(Oid table, LOCKMODE lockmode);

/* ---- alter_order.c ---- */

/*
 * ADD COLUMN IF NOT EXISTS of one that does: nothing is done.  What the same
 * statement drops is gone by then.
 */
extern bool lsm_column_is_there(Oid relid, const AlterTableStmt *stmt, const AlterTableCmd *cmd);

/*
 * The constraints that the statement adds to the table, in the order in which
 * core adds the foreign keys among them.
 */
extern List *lsm_added_constraints(const AlterTableStmt *stmt, Oid relid);

/*
 * Locks what the statement about the table, which is locked, locks before it
 * adds keys and foreign keys.
 */
extern void lsm_lock_before_constraints(const AlterTableStmt *stmt, Oid relid);

/* ---- btree_keys.c ---- */

extern List *lsm_unique_indexes(Oid table, Oid am);

/*
 * Rebuild a unique index with another access method, btree or lsm_index.  The
 * table has been locked by the caller.  `reason` NULL: not worth telling.
 */
extern void lsm_rebuild_as(Oid index, const char *am, const char *reason);

/*
 * ERROR unless the user owns the table.  One that is gone is core's to report.
 */
extern void lsm_check_may_rebuild(Oid table, Oid index, const char *am, const char *reason);

/*
 * Does one of these constraints, a foreign key that references the table, need
 * one of the table's keys rebuilt?  ERROR if the user may not have that done.
 */
extern bool lsm_references_need_btree(Oid table, void *constraints);
extern void lsm_prepare_foreign_keys(const AlterTableStmt *stmt, Oid relid, List *constraints);
extern bool lsm_prepare_using_index(Oid relid, Oid index, bool for_now);
extern void lsm_prepare_refresh(RefreshMatViewStmt *stmt);

/* ---- partition_keys.c ---- */

extern void lsm_prepare_attach(Oid parent, RangeVar *partition);
extern LsmUniqueIndex *lsm_new_parent_key(Oid parent, const char *am, bool constraint,
										  bool nulls_not_distinct, List *columns, List *included);
extern void lsm_prepare_parent_index(Oid parent, LOCKMODE lockmode, LsmUniqueIndex *key);
extern void lsm_prepare_parent_constraints(Oid parent, List *keys);
extern void lsm_prepare_attach_index(RangeVar *parent, RangeVar *partition);

/* ---- index_order.c ---- */

/* Relations that a statement has made */
typedef struct LsmCreated
{
	MemoryContext context;		/* of the list */
	List	   *relations;
} LsmCreated;

/* A relation was made. */
extern void lsm_index_order_note_created(Oid relid);
extern bool lsm_index_is_ordered(Oid index);
extern bool lsm_index_is_asked_for(Node *stmt);
extern LsmCreated *lsm_watch_created(LsmCreated *created);
extern void lsm_notice_unordered(IndexStmt *stmt, const LsmCreated *created);
extern void lsm_check_altered(const LsmCreated *created);

/* ---- file_swap.c ---- */

extern void lsm_file_swap_init(void);
extern void lsm_file_swap_prepare_copy(CreateTableAsStmt *stmt);

/* Before a utility statement */
extern void lsm_before_concurrent_repack(Node *stmt);

/* ---- class_order.c ---- */

extern void lsm_notice_class_order(const CreateOpClassStmt *stmt);

/* ---- former_keys.c ---- */

/* lsm.constraint_index */
typedef enum LsmConstraintIndex
{
	LSM_CONSTRAINT_AUTO,
	LSM_CONSTRAINT_LSM,
	LSM_CONSTRAINT_BTREE
} LsmConstraintIndex;

extern int	lsm_constraint_index;

/*
 * A key that is served by lsm_index before the statement, and shall be after it
 */
typedef struct LsmFormerKey
{
	Oid			relid;
	char	   *constraint;
	List	   *options;
	bool		ordered;
} LsmFormerKey;

/* Are indexes that have the column, INCLUDE columns too, made anew? */
extern bool lsm_rebuilds_indexes(const AlterTableCmd *cmd);
extern bool lsm_index_has_column(const LsmUniqueIndex *u, AttrNumber attnum);
extern List *lsm_former_keys(AlterTableStmt *stmt, Oid relid);
extern void lsm_restore_key(const LsmFormerKey *key);

/* ---- dependencies.c ---- */

extern bool lsm_index_record_classes(Oid index);
extern List *lsm_repair_index_dependencies(void);

/* ---- swap_index.c ---- */

/*
 * The statement was about an lsm_index, and will make a btree: operator classes
 * that it names are ours.  btree has those of the same name, in pg_catalog.
 */
extern void lsm_name_btree_classes(IndexStmt *stmt);

extern Oid	lsm_swap_index(Oid index, const char *am, List *options);

/*
 * Before ALTER TABLE and DROP: indexes that lsm_swap_index() has left to queries
 * of this session, and that these do not read any more, go.  ALTER COLUMN ...
 * TYPE would make them anew, and they need the extension.
 */
extern void lsm_drop_dead_indexes(void);

/* Storage parameters of an index as in WITH (...). */
extern List *lsm_index_options_list(Oid index);

/* ... those that are not lsm_index's */
extern List *lsm_other_options(List *options);

/* Does lsm_index take all of them? */
extern bool lsm_options_fit(List *options);

#endif							/* LSM_DDL_H */
