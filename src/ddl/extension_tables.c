/*-------------------------------------------------------------------------
 *
 * extension_tables.c
 *	  Tables of extensions are heap tables, whatever default_table_access_method
 *	  says.
 *
 * C code of extensions treats the extension's own tables as core does system
 * catalogs: it writes with heap_insert() and its company, past the access
 * method.  (pglogical and pg_cron are two of many.)  Rows that it inserts into
 * an lsm table are lost, and destroy log pages.  A script that was written for
 * heap gets heap, unless it names an access method.
 *
 * Locks: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "commands/defrem.h"
#include "nodes/parsenodes.h"
#include "utils/guc.h"

#include "am/am.h"
#include "ddl/ddl.h"

/*
 * Before a statement that may run an extension's script.  The result is for
 * lsm_extension_tables_end(); after an error, the end of the transaction does
 * its work.
 */
int
lsm_extension_tables_begin(Node *stmt)
{
	Oid			ours;
	int			nest_level;

	if (!IsA(stmt, CreateExtensionStmt) && !IsA(stmt, AlterExtensionStmt))
		return 0;
	ours = lsm_table_am_oid();
	if (!OidIsValid(ours) || get_table_am_oid(default_table_access_method, true) != ours)
		return 0;
	nest_level = NewGUCNestLevel();
	(void) set_config_option("default_table_access_method", "heap",
							 PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	return nest_level;
}

void
lsm_extension_tables_end(int nest_level)
{
	if (nest_level != 0)
		AtEOXact_GUC(true, nest_level);
}
