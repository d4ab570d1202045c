/*-------------------------------------------------------------------------
 *
 * file_swap.c
 *	  Tools that rewrite a table beside its users and then exchange files.
 *
 * pg_repack creates a copy of the table (repack.table_<oid>, by CREATE TABLE
 * AS), keeps it up to date by a trigger, and at last exchanges relfilenodes in
 * pg_class.  It says no access method and exchanges none.
 *
 *	- The copy gets the access method of the original, whatever
 *	  default_table_access_method says, if one of the two is ours.
 *	- Whatever the tool: a transaction that has given a relation a file of
 *	  another access method is refused when it is about to commit.  (Heap
 *	  crashes on our pages.)
 *	- REPACK (CONCURRENTLY), which does the same in core, is refused.
 *	- The background workers lock a tree's relation by the OID that the control
 *	  block knows.  That has changed, too.
 *
 * Which relations.  An update of a pg_class row invalidates the relation's
 * cache entry, in the transaction that made it as well, and a callback takes a
 * note.  Of these only those count that this transaction has locked against
 * everyone (other's invalidations come in between, and nothing else would keep
 * the file as it is), and that core has not given a new file. Whoever writes
 * to pg_class without a lock has himself to blame; what he gets when he reads
 * the table is tree/disk/fork.c's error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "am/am.h"
#include "ddl/ddl.h"
#include "tree/tree.h"

/*
 * Relations whose cache entry was invalidated while this transaction had an
 * xid.  No allocation: the callback must not fail.  Others' invalidations count,
 * too, so there may be any number: then all relations are looked at.
 */
#define MAX_NOTED	512

static Oid	noted[MAX_NOTED];
static int	nnoted = 0;
static bool too_many = false;

/* ======================================================================
 * The copy
 * ====================================================================== */

/* The OID in the name of pg_repack's copy, or InvalidOid. */
static Oid
copied_table(const RangeVar *copy)
{
	static const char prefix[] = "table_";
	const char *digits;
	char	   *end;
	unsigned long oid;

	if (copy->schemaname == NULL || strcmp(copy->schemaname, "repack") != 0 ||
		strncmp(copy->relname, prefix, strlen(prefix)) != 0)
		return InvalidOid;
	digits = copy->relname + strlen(prefix);
	if (*digits < '1' || *digits > '9')
		return InvalidOid;
	errno = 0;
	oid = strtoul(digits, &end, 10);
	return errno == 0 && *end == '\0' && oid <= PG_UINT32_MAX ? (Oid) oid : InvalidOid;
}

/*
 * CREATE TABLE ... AS of pg_repack: `stmt` gets the original's access method.
 */
void
lsm_file_swap_prepare_copy(CreateTableAsStmt *stmt)
{
	Oid			original = copied_table(stmt->into->rel);
	Oid			ours;
	Oid			am;
	Oid			usual;

	if (!OidIsValid(original) || stmt->into->accessMethod != NULL ||
		!OidIsValid(ours = lsm_table_am_oid()) ||
		get_rel_relkind(original) != RELKIND_RELATION)
		return;
	am = lsm_relation_am(original);
	usual = get_table_am_oid(default_table_access_method, true);
	if (am != usual && (am == ours || usual == ours))
		stmt->into->accessMethod = get_am_name(am);
}

/*
 * REPACK (CONCURRENTLY) copies what one snapshot sees and applies later changes,
 * so that older snapshots find none of the rows.  The table is looked up without
 * a lock: if it is ours a moment later, rewrite.c says the same.  A heap table
 * may have indexes of ours.
 */
void
lsm_before_concurrent_repack(Node *stmt)
{
	RangeVar   *name = lsm_repacked_concurrently(stmt);
	Oid			table;

	if (name == NULL || !OidIsValid(lsm_table_am_oid()))
		return;
	table = RangeVarGetRelid(name, NoLock, true);
	if (OidIsValid(table) && lsm_relation_am(table) == lsm_table_am_oid() &&
		get_rel_relkind(table) != RELKIND_PARTITIONED_TABLE)
		lsm_report_concurrent_repack(name->relname);
	lsm_tree_prepare_process();
}

/* ======================================================================
 * The exchange
 * ====================================================================== */

static void
note_relation(Datum arg, Oid relid)
{
	if (relid < FirstNormalObjectId || too_many ||
		!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	for (int i = 0; i < nnoted; i++)
		if (noted[i] == relid)
			return;
	too_many = nnoted == MAX_NOTED;
	if (!too_many)
		noted[nnoted++] = relid;
}

static bool
locked_by_me(Oid relid)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	return LockHeldByMe(&tag, AccessExclusiveLock, false);
}

/*
 * Nobody else can use the relation: its file, or that of its table, is this
 * transaction's alone.
 */
static bool
relation_is_locked(Oid relid)
{
	Oid			table;

	if (locked_by_me(relid))
		return true;
	if (get_rel_relkind(relid) != RELKIND_INDEX)
		return false;
	table = IndexGetRelation(relid, true);
	return OidIsValid(table) && locked_by_me(table);
}

static void
report_exchange(Relation rel, bool ours)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("relation \"%s\" cannot be given the file of a relation with another access method",
					RelationGetRelationName(rel)),
			 ours ? errdetail("The relation is an lsm relation, and the file is none of an lsm relation.") :
			 errdetail("The file is that of an lsm relation, and the relation is none."),
			 errhint("A tool that exchanges files has to create its copy with the relation's access method (default_table_access_method).")));
}

static bool
relation_is_ours(Relation rel)
{
	return lsm_relation_is_table(rel) || lsm_relation_is_index(rel);
}

/*
 * May its file be another relation's?  Core's own new files are what they
 * should be.
 */
static bool
file_is_in_question(Relation rel)
{
	return RELKIND_HAS_STORAGE(rel->rd_rel->relkind) &&
		rel->rd_rel->relkind != RELKIND_SEQUENCE &&
		rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		rel->rd_createSubid == InvalidSubTransactionId &&
		rel->rd_newRelfilelocatorSubid == InvalidSubTransactionId &&
		rel->rd_firstRelfilelocatorSubid == InvalidSubTransactionId &&
	/* of an index that is not ready it may be anything */
		(rel->rd_rel->relkind != RELKIND_INDEX || rel->rd_index->indisready);
}

/* An lsm relation, or one that may have exchanged files with one. */
static void
check_file(Relation rel)
{
	bool		ours = relation_is_ours(rel);
	LsmForkContent content;

	if (!file_is_in_question(rel))
		return;
	content = lsm_fork_content(rel);
	if (ours && (content == LSM_FORK_HEAP || content == LSM_FORK_BTREE))
		report_exchange(rel, ours);
	if (!ours && content == LSM_FORK_OURS)
		report_exchange(rel, ours);
	if (ours && content == LSM_FORK_OURS)
		lsm_tree_take_over(rel);
}

/* Relations that are not locked are not even opened: somebody may be dropping them. */
static void
check_relation(Oid relid)
{
	Relation	rel;

	if (!relation_is_locked(relid))
		return;
	rel = RelationIdGetRelation(relid);
	if (rel == NULL)
		return;					/* dropped */
	check_file(rel);
	RelationClose(rel);
}

/*
 * An exchange with an lsm relation changes the row of that one, too.  Where no
 * such row has changed, no file is looked at.
 */
static void
check_noted(void)
{
	Oid			table_am = lsm_table_am_oid();
	Oid			index_am = lsm_index_am_oid();
	bool		concerned = false;

	for (int i = 0; i < nnoted && !concerned; i++)
	{
		Oid			am = lsm_relation_am(noted[i]);

		concerned = OidIsValid(am) && (am == table_am || am == index_am);
	}
	for (int i = 0; i < nnoted && concerned; i++)
		check_relation(noted[i]);
}

/* The notes were too many: all relations of the database */
static void
check_all(void)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Oid			relid = ((Form_pg_class) GETSTRUCT(tuple))->oid;

		CHECK_FOR_INTERRUPTS();
		if (relid >= FirstNormalObjectId)
			check_relation(relid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

static void
file_swap_xact_callback(XactEvent event, void *arg)
{
	if (nnoted == 0)
		return;
	if ((event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE) &&
		OidIsValid(MyDatabaseId) && OidIsValid(lsm_table_am_oid()))
	{
		if (too_many)
			check_all();
		else
			check_noted();
	}
	nnoted = 0;
	too_many = false;
}

void
lsm_file_swap_init(void)
{
	CacheRegisterRelcacheCallback(note_relation, (Datum) 0);
	RegisterXactCallback(file_swap_xact_callback, NULL);
}
