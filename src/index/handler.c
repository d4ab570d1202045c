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
	IndexAmRoutine *routine = makeNode(IndexAmRoutine);

	lsm_tree_require_memory();
	routine->amstrategies = BTMaxStrategyNumber;
	routine->amsupport = LSM_NPROCS;
	routine->amoptsprocnum = 0;
	routine->amcanorder = true; /* except as lsm_index_adjust_info says */
	routine->amcanorderbyop = false;
	routine->amcanbackward = true;
	routine->amcanunique = true;
	routine->amcanmulticol = true;
	routine->amoptionalkey = true;
	routine->amsearcharray = true;
	routine->amsearchnulls = true;
	routine->amstorage = false;
	routine->amclusterable = true;
	routine->ampredlocks = true;
	routine->amcanparallel = true;
#if PG_VERSION_NUM >= 170000
	routine->amcanbuildparallel = true;
#endif
#if PG_VERSION_NUM >= 180000
	routine->amconsistentequality = true;
	routine->amconsistentordering = true;
	routine->amtranslatestrategy = translate_strategy;
	routine->amtranslatecmptype = translate_cmptype;
#endif
	routine->amcaninclude = true;
	routine->amusemaintenanceworkmem = false;
	routine->amparallelvacuumoptions = 0;
	routine->amkeytype = InvalidOid;

	routine->ambuild = lsm_index_build;
	routine->ambuildempty = lsm_index_build_empty;
	routine->aminsert = lsm_index_insert;
	routine->ambulkdelete = lsm_index_bulk_delete;
	routine->amvacuumcleanup = lsm_index_vacuum_cleanup;
	routine->amcanreturn = lsm_index_can_return;
	routine->amcostestimate = lsm_index_cost_estimate;
	routine->amoptions = lsm_index_options;
	routine->amproperty = NULL;
	routine->ambuildphasename = lsm_index_build_phase_name;
	routine->amvalidate = lsm_index_validate;
	routine->amadjustmembers = NULL;
	routine->ambeginscan = lsm_index_begin_scan;
	routine->amrescan = lsm_index_rescan;
	routine->amgettuple = lsm_index_get_tuple;
	routine->amgetbitmap = lsm_index_get_bitmap;
	routine->amendscan = lsm_index_end_scan;
	routine->ammarkpos = lsm_index_mark_position;
	routine->amrestrpos = lsm_index_restore_position;
	routine->amestimateparallelscan = shared_scan_bytes;
	routine->aminitparallelscan = lsm_shared_scan_init;
	routine->amparallelrescan = lsm_index_parallel_rescan;

	PG_RETURN_POINTER(routine);
}
