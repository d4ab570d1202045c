/*-------------------------------------------------------------------------
 *
 * lsmam.c
 *	  Entry point.  Everything that must exist before the first backend (shared
 *	  memory, resource manager, workers) is asked for here, so the library
 *	  works only when it is preloaded.
 *
 * Portions Copyright (c) 2026, lsmam contributors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"

#include "am/am.h"
#include "ddl/ddl.h"
#include "executor/hooks.h"
#include "index/index.h"
#include "lsmam.h"
#include "table/table.h"
#include "tree/tree.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* Some libraries forget the hooks of those that were loaded before them. */
static bool shmem_requested = false;

static void
lsm_shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	lsm_tree_shmem_request();
	lsm_am_shmem_request();
	shmem_requested = true;
}

static void
lsm_shmem_startup(void)
{
	if (!shmem_requested && !IsUnderPostmaster)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lsmam could not request shared memory"),
				 errdetail("A library after lsmam in shared_preload_libraries does not call the shmem_request_hook that it finds."),
				 errhint("Name lsmam last in shared_preload_libraries.")));
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	lsm_tree_shmem_init();
	lsm_am_shmem_init();
}

/*
 * Called by the postmaster.  A backend that loads the library by itself (CREATE
 * EXTENSION or a function call without preloading) gets an error that says
 * what to do: by then it is too late for shared memory.
 */
void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lsmam must be loaded via shared_preload_libraries"),
				 errhint("Add lsmam to shared_preload_libraries in postgresql.conf and restart the server.")));

	lsm_guc_init();
	lsm_tree_rmgr_register();
	lsm_table_init();
	lsm_index_init();
	lsm_hooks_init();
	lsm_file_swap_init();
	lsm_explain_init();

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = lsm_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = lsm_shmem_startup;

	lsm_worker_register();
}
