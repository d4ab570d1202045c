/*-------------------------------------------------------------------------
 *
 * am.c
 *	  Which relations are ours; what this room keeps in shared memory; what
 *	  indexes ask of tables, and tables of indexes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tableam.h"
#include "catalog/pg_am.h"
#include "commands/defrem.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "am/row_notes.h"

static Oid
am_oid(const char *name, char amtype)
{
	HeapTuple	tuple = SearchSysCache1(AMNAME, CStringGetDatum(name));
	Form_pg_am	form;
	Oid			oid = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		form = (Form_pg_am) GETSTRUCT(tuple);
		if (form->amtype == amtype)
			oid = form->oid;
		ReleaseSysCache(tuple);
	}
	return oid;
}

Oid
lsm_table_am_oid(void)
{
	return am_oid(LSM_TABLE_AM_NAME, AMTYPE_TABLE);
}

Oid
lsm_index_am_oid(void)
{
	return am_oid(LSM_INDEX_AM_NAME, AMTYPE_INDEX);
}

Oid
lsm_relation_am(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			am = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		am = ((Form_pg_class) GETSTRUCT(tuple))->relam;
		ReleaseSysCache(tuple);
	}
	return am;
}

void
lsm_report_concurrent_repack(const char *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("REPACK (CONCURRENTLY) does not support lsm tables, of which \"%s\" is one", table),
			 errhint("lsm_compact() frees space while the table is used. REPACK without CONCURRENTLY locks the table.")));
}

/* Since 17 a partitioned table has an access method, and still no tree. */
bool
lsm_relation_is_table(Relation rel)
{
	return rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE &&
		OidIsValid(rel->rd_rel->relam) &&
		rel->rd_rel->relam == lsm_table_am_oid();
}

bool
lsm_relation_is_index(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_INDEX &&
		OidIsValid(rel->rd_rel->relam) &&
		rel->rd_rel->relam == lsm_index_am_oid();
}

/* The table's, set when the library is loaded */
static const LsmTableOps *table_ops = NULL;

void
lsm_table_register(const LsmTableOps *ops)
{
	table_ops = ops;
}

bool
lsm_row_fetch_hides(IndexFetchTableData *fetch, ItemPointer tid, ItemPointer ahead,
					Snapshot snapshot)
{
	return table_ops->fetch_hides(fetch, tid, ahead, snapshot);
}

bool
lsm_table_prune(Relation table, const ItemPointerData *row, TransactionId *xid)
{
	return table_ops->prune(table, row, xid);
}

#ifdef USE_ASSERT_CHECKING
void
lsm_table_doubt_visible(Relation table, const ItemPointerData *tid, Snapshot snapshot,
						bool visible, const char *shortcut)
{
	table_ops->doubt_visible(table, tid, snapshot, visible, shortcut);
}

void
lsm_table_doubt_dead(Relation table, const ItemPointerData *tid, const char *shortcut)
{
	table_ops->doubt_dead(table, tid, shortcut);
}
#endif

/* The index's, likewise */
static const LsmIndexOps *index_ops = NULL;

void
lsm_index_register(const LsmIndexOps *ops)
{
	index_ops = ops;
}

void
lsm_index_flush(Relation index)
{
	index_ops->flush(index);
}

void
lsm_am_shmem_request(void)
{
	RequestAddinShmemSpace(add_size(lsm_row_directory_shmem_bytes(), PG_CACHE_LINE_SIZE));
}

void
lsm_am_shmem_init(void)
{
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	lsm_row_directory_shmem_init();
	LWLockRelease(AddinShmemInitLock);
}

/*
 * Known by the name of the access method, which is part of the contract with
 * the user.  The name is looked up once; later the access method is known by
 * its functions.
 */
bool
lsm_tids_are_stable(Relation table)
{
	static const TableAmRoutine *ours = NULL;
	char	   *name;

	if (table->rd_rel->relam == HEAP_TABLE_AM_OID || table->rd_tableam == NULL)
		return false;
	if (likely(table->rd_tableam == ours))
		return true;
	name = get_am_name(table->rd_rel->relam);
	if (name == NULL)
		return false;
	if (strcmp(name, LSM_TABLE_AM_NAME) == 0)
		ours = table->rd_tableam;
	pfree(name);
	return table->rd_tableam == ours;
}
