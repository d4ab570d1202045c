/*-------------------------------------------------------------------------
 *
 * before_18.h
 *	  Versions before PostgreSQL 18 learn the names that 18 has.  Part of
 *	  compat.h, which alone includes it; goes with the last version before 18.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COMPAT_BEFORE_18_H
#define LSM_COMPAT_BEFORE_18_H

/* minor releases of February 2025 gave older versions 18's arguments */
#if PG_VERSION_NUM >= 170003 || \
	(PG_VERSION_NUM >= 160007 && PG_VERSION_NUM < 170000) || \
	(PG_VERSION_NUM >= 150011 && PG_VERSION_NUM < 160000)
#define smgrtruncate			smgrtruncate2
#else
#define smgrtruncate(reln, forks, nforks, old_nblocks, nblocks) \
	smgrtruncate(reln, forks, nforks, nblocks)
#endif

#undef index_beginscan
#define index_beginscan(table, index, snapshot, instrument, nkeys, norderbys, flags) \
	index_beginscan(table, index, snapshot, nkeys, norderbys)

#undef pgstat_report_vacuum
#define pgstat_report_vacuum(rel, live, dead, starttime) \
	pgstat_report_vacuum(RelationGetRelid(rel), (rel)->rd_rel->relisshared, \
						 live, dead)

#define vac_update_relstats(rel, num_pages, num_tuples, num_all_visible, \
							num_all_frozen, hasindex, frozenxid, minmulti, \
							frozenxid_updated, minmulti_updated, in_outer_xact) \
	vac_update_relstats(rel, num_pages, num_tuples, num_all_visible, \
						hasindex, frozenxid, minmulti, \
						frozenxid_updated, minmulti_updated, in_outer_xact)

#define vacuum_delay_point(is_analyze)	vacuum_delay_point()

#define ConditionalLockTuple(rel, tid, mode, log_failure) \
	ConditionalLockTuple(rel, tid, mode)
#define ConditionalXactLockTableWait(xid, log_failure) \
	ConditionalXactLockTableWait(xid)

#define log_lock_failures		false

#define RelationGetPrimaryKeyIndex(rel, deferrable_ok) \
	RelationGetPrimaryKeyIndex(rel)

#define ReorderBufferAllocChange(rb)	ReorderBufferGetChange(rb)

#define heap_form_minimal_tuple(desc, values, isnull, extra) \
	heap_form_minimal_tuple(desc, values, isnull)

#define ExplainOneUtility(stmt, into, es, pstate, params) \
	ExplainOneUtility(stmt, into, es, (pstate)->p_sourcetext, params, \
					  (pstate)->p_queryEnv)

#define ps_offset_am			ps_offset	/* of ParallelIndexScanDescData */

/* get_ordering_op_properties() tells btree's strategy */
typedef int16 CompareType;

/* REQUIRES: get_ordering_op_properties() has named it, so it is btree's */
#define get_opfamily_method(opfid) BTREE_AM_OID

#define COMPARE_LT				BTLessStrategyNumber
#define COMPARE_LE				BTLessEqualStrategyNumber
#define COMPARE_EQ				BTEqualStrategyNumber
#define COMPARE_GE				BTGreaterEqualStrategyNumber
#define COMPARE_GT				BTGreaterStrategyNumber
#define COMPARE_NE				ROWCOMPARE_NE

#define OpIndexInterpretation	OpBtreeInterpretation
#define get_op_index_interpretation(opno) get_op_btree_interpretation(opno)

#define pg_noreturn				pg_attribute_noreturn()

#endif							/* LSM_COMPAT_BEFORE_18_H */
