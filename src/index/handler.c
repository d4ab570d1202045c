/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The access method's routine, and the start-up of this room.  Nothing
 *	  else in the room calls this file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "fmgr.h"

#include "index/index.h"

PG_FUNCTION_INFO_V1(lsm_index_handler);

static void
flush_index(Relation index)
{
	lsm_tree_flush(lsm_index_open_tree(index));
}

static const LsmIndexOps index_ops = {
	.flush = flush_index
};

static Size
#if PG_VERSION_NUM >= 180000
shared_scan_bytes(Relation index, int nkeys, int norderbys)
#elif PG_VERSION_NUM >= 170000
shared_scan_bytes(int nkeys, int norderbys)
#else
shared_scan_bytes(void)
#endif
{
	return lsm_shared_scan_bytes();
}

#if PG_VERSION_NUM >= 180000
/* Strategies are btree's, and so are the numbers of their meanings. */
static CompareType
translate_strategy(StrategyNumber strategy, Oid opfamily)
{
	return strategy >= BTLessStrategyNumber && strategy <= BTMaxStrategyNumber ?
		(CompareType) strategy : COMPARE_INVALID;
}

static StrategyNumber
translate_cmptype(CompareType cmptype, Oid opfamily)
{
	return cmptype >= COMPARE_LT && cmptype <= COMPARE_GT ?
		(StrategyNumber) cmptype : InvalidStrategy;
}
#endif

static const IndexAmRoutine lsm_index_methods = {
	.type = T_IndexAmRoutine,

	.amstrategies = BTMaxStrategyNumber,
	.amsupport = LSM_NPROCS,
	.amoptsprocnum = 0,
	.amcanorder = true, /* except as lsm_index_adjust_info says */
	.amcanorderbyop = false,
	.amcanbackward = true,
	.amcanunique = true,
	.amcanmulticol = true,
	.amoptionalkey = true,
	.amsearcharray = true,
	.amsearchnulls = true,
	.amstorage = false,
	.amclusterable = true,
	.ampredlocks = true,
	.amcanparallel = true,
#if PG_VERSION_NUM >= 170000
	.amcanbuildparallel = true,
#endif
#if PG_VERSION_NUM >= 180000
	.amconsistentequality = true,
	.amconsistentordering = true,
	.amtranslatestrategy = translate_strategy,
	.amtranslatecmptype = translate_cmptype,
#endif
	.amcaninclude = true,
	.amusemaintenanceworkmem = false,
	.amparallelvacuumoptions = 0,
	.amkeytype = InvalidOid,

	.ambuild = lsm_index_build,
	.ambuildempty = lsm_index_build_empty,
	.aminsert = lsm_index_insert,
	.ambulkdelete = lsm_index_bulk_delete,
	.amvacuumcleanup = lsm_index_vacuum_cleanup,
	.amcanreturn = lsm_index_can_return,
	.amcostestimate = lsm_index_cost_estimate,
	.amoptions = lsm_index_options,
	.amproperty = NULL,
	.ambuildphasename = lsm_index_build_phase_name,
	.amvalidate = lsm_index_validate,
	.amadjustmembers = NULL,
	.ambeginscan = lsm_index_begin_scan,
	.amrescan = lsm_index_rescan,
	.amgettuple = lsm_index_get_tuple,
	.amgetbitmap = lsm_index_get_bitmap,
	.amendscan = lsm_index_end_scan,
	.ammarkpos = lsm_index_mark_position,
	.amrestrpos = lsm_index_restore_position,
	.amestimateparallelscan = shared_scan_bytes,
	.aminitparallelscan = lsm_shared_scan_init,
	.amparallelrescan = lsm_index_parallel_rescan,
};

/* From _PG_init, once */
void
lsm_index_init(void)
{
	lsm_kind_register(LSM_KIND_INDEX, &lsm_index_kind_ops);
	lsm_index_register(&index_ops);
	lsm_index_define_options();
}

Datum
lsm_index_handler(PG_FUNCTION_ARGS)
{
	lsm_tree_require_memory();
	PG_RETURN_POINTER(LSM_INDEX_AM_RESULT(&lsm_index_methods));
}
