/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The table access method's callbacks, and its handler.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "fmgr.h"
#include "replication/logicalworker.h"

#include "table/table.h"

PG_FUNCTION_INFO_V1(lsm_table_handler);

/*
 * Heap tuple slots: core's system columns, triggers and EvalPlanQual work with
 * them as they are.
 */
static const TupleTableSlotOps *
slot_callbacks(Relation rel)
{
	if (!LSM_CORE_APPLIES_BY_ANY_KEY && IsLogicalWorker())
		lsm_prepare_replica_key(rel);
	lsm_refuse_pglogical(rel);
	return &TTSOpsHeapTuple;
}

const TableAmRoutine lsm_table_methods = {
	.type = T_TableAmRoutine,

	.slot_callbacks = slot_callbacks,

	.scan_begin = lsm_scan_begin,
	.scan_end = lsm_scan_end,
	.scan_rescan = lsm_scan_rescan,
	.scan_getnextslot = lsm_scan_getnextslot,
	.scan_set_tidrange = lsm_scan_set_tidrange,
	.scan_getnextslot_tidrange = lsm_scan_getnextslot_tidrange,

	.parallelscan_estimate = lsm_parallelscan_estimate,
	.parallelscan_initialize = lsm_parallelscan_initialize,
	.parallelscan_reinitialize = lsm_parallelscan_reinitialize,

	.index_fetch_begin = lsm_table_fetch_begin,
	.index_fetch_reset = lsm_table_fetch_reset,
	.index_fetch_end = lsm_table_fetch_end,
	.index_fetch_tuple = lsm_table_fetch_tuple,

	.tuple_fetch_row_version = lsm_tuple_fetch_row_version,
	.tuple_tid_valid = lsm_tuple_tid_valid,
	.tuple_get_latest_tid = lsm_tuple_get_latest_tid,
	.tuple_satisfies_snapshot = lsm_tuple_satisfies_snapshot,
	.index_delete_tuples = lsm_index_delete_tuples,

	.tuple_insert = lsm_tuple_insert,
	.tuple_insert_speculative = lsm_tuple_insert_speculative,
	.tuple_complete_speculative = lsm_tuple_complete_speculative,
	.multi_insert = lsm_multi_insert,
	.tuple_delete = lsm_tuple_delete,
	.tuple_update = lsm_tuple_update,
	.tuple_lock = lsm_tuple_lock,

	.relation_set_new_filelocator = lsm_relation_set_new_filelocator,
	.relation_nontransactional_truncate = lsm_relation_nontransactional_truncate,
	.relation_copy_data = lsm_relation_copy_data,
	.relation_copy_for_cluster = lsm_relation_copy_for_cluster,
	.relation_vacuum = lsm_relation_vacuum,
	.scan_analyze_next_block = lsm_scan_analyze_next_block,
	.scan_analyze_next_tuple = lsm_scan_analyze_next_tuple,
	.index_build_range_scan = lsm_index_build_range_scan,
	.index_validate_scan = lsm_index_validate_scan,

	.relation_size = lsm_table_size,
	.relation_needs_toast_table = lsm_relation_needs_toast_table,
	.relation_toast_am = lsm_relation_toast_am,

	/*
	 * of the TOAST table's access method, which is heap: never called through
	 * us
	 */
	.relation_fetch_toast_slice = heap_fetch_toast_slice,

	.relation_estimate_size = lsm_relation_estimate_size,

#if PG_VERSION_NUM < 180000
	.scan_bitmap_next_block = lsm_scan_bitmap_next_block,
#endif
	.scan_bitmap_next_tuple = lsm_scan_bitmap_next_tuple,
	.scan_sample_next_block = lsm_scan_sample_next_block,
	.scan_sample_next_tuple = lsm_scan_sample_next_tuple,
};

static const LsmTableOps table_ops = {
	.prune = lsm_table_prune_row,
	.fetch_hides = lsm_table_fetch_hides,
#ifdef USE_ASSERT_CHECKING
	.doubt_visible = lsm_row_doubt_visible,
	.doubt_dead = lsm_row_doubt_dead
#endif
};

void
lsm_table_init(void)
{
	lsm_kind_register(LSM_KIND_TABLE, &lsm_table_kind_ops);
	lsm_table_register(&table_ops);
	lsm_relation_init();
}

Datum
lsm_table_handler(PG_FUNCTION_ARGS)
{
	lsm_tree_require_memory();
	PG_RETURN_POINTER(&lsm_table_methods);
}
