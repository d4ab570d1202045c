/*-------------------------------------------------------------------------
 *
 * upgrade.c
 *	  pg_upgrade is told at its first step that it cannot transfer lsm
 *	  relations.
 *
 * The upgrade itself ends in lsm_tree_create(), in the new cluster.  That is
 * too late for --check, which creates nothing and said that the clusters were
 * compatible.  But it asks the old cluster, and the answer here is an error:
 *
 *	- The old server that pg_upgrade has started is in binary upgrade mode: a
 *	  database with lsm relations answers no query.  (The new one has none.)
 *	- The server that --check finds running is as always.  pg_upgrade is known
 *	  by its question, in each database, for the libraries of C functions: its
 *	  text has been the same in all releases so far.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "am/am.h"
#include "executor/hooks.h"

#define LIBRARIES_QUESTION_1	"SELECT DISTINCT probin"
#define LIBRARIES_QUESTION_2	"FROM pg_catalog.pg_proc WHERE prolang ="

static bool
asks_for_libraries(const char *query)
{
	return strncmp(query, LIBRARIES_QUESTION_1, strlen(LIBRARIES_QUESTION_1)) == 0 &&
		strstr(query, LIBRARIES_QUESTION_2) != NULL;
}

/* An lsm table or index of this database, or InvalidOid */
static Oid
find_lsm_relation(void)
{
	Oid			table_am = lsm_table_am_oid();
	Oid			index_am = lsm_index_am_oid();
	Oid			found = InvalidOid;
	Relation	pg_class;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!OidIsValid(table_am) && !OidIsValid(index_am))
		return InvalidOid;
	pg_class = table_open(RelationRelationId, AccessShareLock);
	scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 0, NULL);
	while (!OidIsValid(found) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (OidIsValid(form->relam) && RELKIND_HAS_STORAGE(form->relkind) &&
			(form->relam == table_am || form->relam == index_am))
			found = form->oid;
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return found;
}

void
lsm_upgrade_check(const char *query_string)
{
	static bool checked = false;
	Oid			relid;

	if (likely(!IsBinaryUpgrade))
	{
		if (likely(query_string == NULL || !asks_for_libraries(query_string)))
			return;
	}
	else if (checked)
		return;
	relid = find_lsm_relation();
	checked = true;
	if (!OidIsValid(relid))
		return;
	checked = false;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("pg_upgrade cannot transfer lsm tables and indexes"),
			 errdetail("Database \"%s\" has %s \"%s.%s\".", get_database_name(MyDatabaseId),
					   get_rel_relkind(relid) == RELKIND_INDEX ? "lsm index" : "lsm table",
					   get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid)),
			 errhint("Use pg_dumpall or pg_dump, or change the tables to heap and drop the lsm indexes in the old cluster first.")));
}
