/*-------------------------------------------------------------------------
 *
 * publications.c
 *	  Lsm tables stay out of publications.
 *
 * Logical decoding makes nothing of our WAL records: subscribers of an lsm
 * table would get its first copy and then nothing, without an error anywhere.
 * So a statement after which a publication has an lsm table is refused,
 * whichever of the two came last.
 *
 * How it is seen.  A table gets into a publication by many ways: CREATE and
 * ALTER PUBLICATION, anything that creates tables, SET ACCESS METHOD, SET
 * LOGGED, SET SCHEMA (also of an extension), partitions created and attached,
 * C code of extensions.  All of them call object_access_hook.  It only takes a
 * note, for the rows that were written are not visible yet; the check follows
 * when the utility statement ends, and for C code outside of one, when the
 * transaction is about to commit.
 *
 * What a statement leaves as it was is no concern: a table that an older
 * release let into a publication can be altered, rewritten and vacuumed.
 *
 * Locks.  Two transactions, one that creates the table and one that creates
 * the publication, do not see each other's rows.  Both lock the access method,
 * a table in RowExclusiveLock, a publication in ShareLock, after they have
 * written and before they look: the second waits for the end of the first, and
 * then sees what that one did.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_publication_namespace.h"
#include "catalog/pg_publication_rel.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "ddl/ddl.h"

/* An object that this transaction has touched since the last check */
typedef struct Touched
{
	SubTransactionId subxact;
	Oid			class;			/* RelationRelationId, or a publication's catalog */
	Oid			object;

	/* a relation before the change, unless it is to be checked in any case */
	bool		anew;
	Oid			am;
	Oid			schema;
	char		persistence;
} Touched;

/* In TopTransactionContext */
static List *touched = NIL;


/* ======================================================================
 * Taking notes
 * ====================================================================== */

static Touched *
find_touched(Oid class, Oid object)
{
	ListCell   *lc;

	foreach(lc, touched)
	{
		Touched    *t = lfirst(lc);

		if (t->class == class && t->object == object)
			return t;
	}
	return NULL;
}

static Touched *
touch(Oid class, Oid object)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	Touched    *t = palloc0(sizeof(Touched));

	t->subxact = GetCurrentSubTransactionId();
	t->class = class;
	t->object = object;
	touched = lappend(touched, t);
	MemoryContextSwitchTo(old);
	return t;
}

/* A relation is changed; the caches still have it as it was. */
static void
touch_relation(Oid relid)
{
	HeapTuple	tuple;
	Form_pg_class form;
	Touched    *t;

	if (find_touched(RelationRelationId, relid) != NULL)
		return;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (form->relkind == RELKIND_RELATION || form->relkind == RELKIND_PARTITIONED_TABLE)
	{
		t = touch(RelationRelationId, relid);
		t->am = form->relam;
		t->schema = form->relnamespace;
		t->persistence = form->relpersistence;
	}
	ReleaseSysCache(tuple);
}

/* A relation is new, or a new partition: check it whatever it was before. */
static void
touch_anew(Oid relid)
{
	Touched    *t = find_touched(RelationRelationId, relid);

	if (t == NULL)
		t = touch(RelationRelationId, relid);
	t->anew = true;
}

void
lsm_publications_note_access(ObjectAccessType access, Oid class, Oid object, int sub)
{
	if (access == OAT_POST_CREATE)
	{
		if (class == RelationRelationId && sub == 0)
			touch_anew(object);
		else if (class == PublicationRelationId || class == PublicationRelRelationId ||
				 class == PublicationNamespaceRelationId)
			(void) touch(class, object);
	}
	else if (access == OAT_POST_ALTER)
	{
		if (class == RelationRelationId && sub == 0)
			touch_relation(object);
		else if (class == InheritsRelationId)
			touch_anew(object);
	}
}

/* ======================================================================
 * Checks
 * ====================================================================== */

static bool
permanent_lsm_table(Form_pg_class form, Oid am)
{
	return form->relam == am && form->relkind == RELKIND_RELATION &&
		form->relpersistence == RELPERSISTENCE_PERMANENT &&
		form->oid >= FirstNormalObjectId;
}

/* The first of the publications, or `wanted` if that is among them. */
static Oid
pick(List *publications, Oid wanted)
{
	if (publications == NIL)
		return InvalidOid;
	if (!OidIsValid(wanted))
		return linitial_oid(publications);
	return list_member_oid(publications, wanted) ? wanted : InvalidOid;
}

/*
 * A publication (`wanted`, if that is valid) that has the table.  `via`: only
 * through this table or schema.
 */
static Oid
find_publication(Oid relid, Oid wanted, Oid via)
{
	List	   *lineage = list_make1_oid(relid);
	Oid			found = InvalidOid;
	ListCell   *lc;

	if (!OidIsValid(via))
		found = pick(GetAllTablesPublications(), wanted);
	if (get_rel_relispartition(relid))
		lineage = list_concat(lineage, get_partition_ancestors(relid));
	foreach(lc, lineage)
	{
		Oid			rel = lfirst_oid(lc);
		Oid			schema = get_rel_namespace(rel);

		if (!OidIsValid(found) && (!OidIsValid(via) || via == rel))
			found = pick(GetRelationPublications(rel), wanted);
		if (!OidIsValid(found) && (!OidIsValid(via) || via == schema))
			found = pick(GetSchemaPublications(schema), wanted);
	}
	list_free(lineage);
	return found;
}

static void
refuse(Oid relid, Oid publication)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("lsm table \"%s\" cannot be in publication \"%s\"",
					get_rel_name(relid), get_publication_name(publication, false)),
			 errdetail("Logical decoding does not see what is written to lsm tables: subscribers would never get it."),
			 errhint("Make the table a heap table (USING heap, or ALTER TABLE ... SET ACCESS METHOD heap), or use a publication that names its tables and not this one.")));
}

/* A table that may have come into a publication */
static void
check_table(Oid relid, Oid am)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		concerned;
	Oid			publication;

	if (!HeapTupleIsValid(tuple))
		return;
	concerned = permanent_lsm_table((Form_pg_class) GETSTRUCT(tuple), am);
	ReleaseSysCache(tuple);
	if (!concerned)
		return;
	LockDatabaseObject(AccessMethodRelationId, am, 0, RowExclusiveLock);
	publication = find_publication(relid, InvalidOid, InvalidOid);
	if (OidIsValid(publication))
		refuse(relid, publication);
}

/* A relation that was created, attached somewhere, or changed. */
static void
check_relation(const Touched *before, Oid am)
{
	Oid			relid = before->object;
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	List	   *tables = NIL;
	ListCell   *lc;

	if (!HeapTupleIsValid(tuple))
		return;					/* dropped again */
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (before->anew || before->am != form->relam ||
		before->schema != form->relnamespace ||
		before->persistence != form->relpersistence)
		tables = form->relkind == RELKIND_PARTITIONED_TABLE ?
			find_all_inheritors(relid, NoLock, NULL) : list_make1_oid(relid);
	ReleaseSysCache(tuple);
	foreach(lc, tables)
	{
		check_table(lfirst_oid(lc), am);
	}
	list_free(tables);
}

/* `via`: as in find_publication() */
static void
check_publication(Oid publication, Oid via, Oid am)
{
	Relation	pg_class;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	List	   *tables = NIL;
	ListCell   *lc;

	LockDatabaseObject(AccessMethodRelationId, am, 0, ShareLock);
	pg_class = table_open(RelationRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_class_relam, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(am));
	scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (permanent_lsm_table(form, am))
			tables = lappend_oid(tables, form->oid);
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);

	/* the oldest is named */
	list_sort(tables, list_oid_cmp);
	foreach(lc, tables)
	{
		if (OidIsValid(find_publication(lfirst_oid(lc), publication, via)))
			refuse(lfirst_oid(lc), publication);
	}
	list_free(tables);
}

/* A table or a schema was added to a publication. */
static void
check_member(const Touched *t, Oid am)
{
	bool		is_table = t->class == PublicationRelRelationId;
	HeapTuple	tuple = SearchSysCache1(is_table ? PUBLICATIONREL : PUBLICATIONNAMESPACE,
										ObjectIdGetDatum(t->object));
	Oid			publication;
	Oid			via;

	if (!HeapTupleIsValid(tuple))
		return;
	if (is_table)
	{
		publication = ((Form_pg_publication_rel) GETSTRUCT(tuple))->prpubid;
		via = ((Form_pg_publication_rel) GETSTRUCT(tuple))->prrelid;
	}
	else
	{
		publication = ((Form_pg_publication_namespace) GETSTRUCT(tuple))->pnpubid;
		via = ((Form_pg_publication_namespace) GETSTRUCT(tuple))->pnnspid;
	}
	ReleaseSysCache(tuple);
	check_publication(publication, via, am);
}

/* See lsmam.h. */
void
lsm_publications_check(void)
{
	List	   *list = touched;
	Oid			am;
	ListCell   *lc;

	if (likely(list == NIL))
		return;
	touched = NIL;
	am = lsm_table_am_oid();
	if (!OidIsValid(am))
		return;
	CommandCounterIncrement();
	foreach(lc, list)
	{
		Touched    *t = lfirst(lc);

		if (t->class == PublicationRelationId)
			check_publication(t->object, InvalidOid, am);
		else if (t->class == RelationRelationId)
			check_relation(t, am);
		else
			check_member(t, am);
	}
	list_free_deep(list);
}

/* ======================================================================
 * Ends of transactions
 * ====================================================================== */

static void
publications_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			lsm_publications_check();
			break;
		default:
			touched = NIL;
			break;
	}
}

static void
publications_subxact_callback(SubXactEvent event, SubTransactionId subxact,
							  SubTransactionId parent, void *arg)
{
	ListCell   *lc;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	foreach(lc, touched)
	{
		Touched    *t = lfirst(lc);

		if (t->subxact != subxact)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			t->subxact = parent;
		else
			touched = foreach_delete_current(touched, lc);
	}
}

void
lsm_publications_init(void)
{
	RegisterXactCallback(publications_xact_callback, NULL);
	RegisterSubXactCallback(publications_subxact_callback, NULL);
}
