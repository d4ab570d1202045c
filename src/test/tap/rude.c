/*
 * A library as other extensions have them that think of themselves and of heap:
 * with LSM_RUDE=request or startup in the environment it forgets the hooks of those
 * that were loaded before it; rude_insert() goes past the access method.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/rel.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);
PG_FUNCTION_INFO_V1(rude_insert);

static void
nothing(void)
{
}

void
_PG_init(void)
{
	const char *what = getenv("LSM_RUDE");

	if (!process_shared_preload_libraries_in_progress || what == NULL)
		return;
	if (strcmp(what, "request") == 0)
		shmem_request_hook = nothing;
	if (strcmp(what, "startup") == 0)
		shmem_startup_hook = nothing;
}

/* rude_insert(table regclass, value text, together bool): as into a heap table */
Datum
rude_insert(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), RowExclusiveLock);
	Datum		value = PG_GETARG_DATUM(1);
	bool		isnull = false;
	HeapTuple	tuple = heap_form_tuple(RelationGetDescr(rel), &value, &isnull);

	if (PG_GETARG_BOOL(2))
	{
		TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsHeapTuple);
		BulkInsertState bistate = GetBulkInsertState();

		ExecStoreHeapTuple(tuple, slot, false);
		heap_multi_insert(rel, &slot, 1, GetCurrentCommandId(true), 0, bistate);
		FreeBulkInsertState(bistate);
		ExecDropSingleTupleTableSlot(slot);
	}
	else
		simple_heap_insert(rel, tuple);
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}
