/*-------------------------------------------------------------------------
 *
 * before_16.h
 *	  Versions before PostgreSQL 16 learn the names that 16 has.  Part of
 *	  compat.h, which alone includes it; goes with the last version before 16.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COMPAT_BEFORE_16_H
#define LSM_COMPAT_BEFORE_16_H

/* c.h: what is handed to smgr is aligned for direct I/O since 16 */
#define PGIOAlignedBlock		PGAlignedBlock

/* heapam_xlog.h: the name since 16 */
#define HeapTupleHeaderAdvanceConflictHorizon(tuple, xid) \
	HeapTupleHeaderAdvanceLatestRemovedXid(tuple, xid)

typedef RelFileNode RelFileLocator;

/* commands/vacuum.h: what is in force, GUC or autovacuum's share */
#define vacuum_cost_limit		VacuumCostLimit

#define relNumber				relNode
#define dbOid					dbNode
#define spcOid					spcNode
#define RelFileLocatorEquals	RelFileNodeEquals

#define rd_locator				rd_node
#define rd_newRelfilelocatorSubid	rd_newRelfilenodeSubid
#define rd_firstRelfilelocatorSubid rd_firstRelfilenodeSubid
#define smgr_rlocator			smgr_rnode
#define locator					node	/* of smgr_rlocator */
#define rlocator				rnode	/* of xl_smgr_truncate */
#define relation_set_new_filelocator	relation_set_new_filenode
#define RelationSetNewRelfilenumber	RelationSetNewRelfilenode

/* Which indexes need an entry for the new version of a row */
typedef bool TU_UpdateIndexes;

#define TU_None					false
#define TU_Summarizing			true
#define TU_All					true

/* Columns whose change makes entries necessary; those of BRIN are among them */
#define INDEX_ATTR_BITMAP_HOT_BLOCKING	INDEX_ATTR_BITMAP_ALL
#define INDEX_ATTR_BITMAP_SUMMARIZED	INDEX_ATTR_BITMAP_ALL

struct VacuumCutoffs
{
	TransactionId relfrozenxid; /* as VACUUM has found them */
	MultiXactId relminmxid;
	TransactionId OldestXmin;
	MultiXactId OldestMxact;
	TransactionId FreezeLimit;
	MultiXactId MultiXactCutoff;
};

static inline bool
vacuum_get_cutoffs(Relation rel, const VacuumParams *params,
				   struct VacuumCutoffs *cutoffs)
{
	cutoffs->relfrozenxid = rel->rd_rel->relfrozenxid;
	cutoffs->relminmxid = rel->rd_rel->relminmxid;
	return vacuum_set_xid_limits(rel,
								 params->freeze_min_age,
								 params->freeze_table_age,
								 params->multixact_freeze_min_age,
								 params->multixact_freeze_table_age,
								 &cutoffs->OldestXmin, &cutoffs->OldestMxact,
								 &cutoffs->FreezeLimit,
								 &cutoffs->MultiXactCutoff);
}

#define vacuum_xid_failsafe_check(cutoffs) \
	vacuum_xid_failsafe_check((cutoffs)->relfrozenxid, (cutoffs)->relminmxid)

#undef DefineIndex
#define DefineIndex(pstate, table, stmt, index, parent_index, parent_constraint, \
					total_parts, is_alter_table, check_rights, \
					check_not_in_use, skip_build, quiet) \
	DefineIndex(table, stmt, index, parent_index, parent_constraint, \
				is_alter_table, check_rights, \
				check_not_in_use, skip_build, quiet)

#undef ExecInsertIndexTuples
#define ExecInsertIndexTuples(rri, estate, flags, slot, arbiters, spec_conflict) \
	ExecInsertIndexTuples(rri, slot, estate, ((flags) & EIIT_IS_UPDATE) != 0, \
						  ((flags) & EIIT_NO_DUPE_ERROR) != 0, spec_conflict, \
						  arbiters)

/* It copied always. */
#define tuplesort_getdatum(state, forward, copy, value, isnull, abbrev) \
	tuplesort_getdatum(state, forward, value, isnull, abbrev)

#define build_attrmap_by_name(in, out, missing_ok) \
	build_attrmap_by_name(in, out)

#define ExecGetRootToChildMap(rri, estate)	((rri)->ri_RootToPartitionMap)

#define get_guc_variables(num_vars) \
	(*(num_vars) = GetNumConfigOptions(), get_guc_variables())

static inline bool
lsm_heap_key_test(HeapTuple tuple, TupleDesc desc, int nkeys, ScanKey keys)
{
	bool		passes;

	HeapKeyTest(tuple, desc, nkeys, keys, passes);
	return passes;
}

#undef HeapKeyTest
#define HeapKeyTest				lsm_heap_key_test

#define dead_tuples				n_dead_tuples	/* of PgStat_StatTabEntry */
#define ins_since_vacuum		inserts_since_vacuum

#define pgstat_count_heap_update(rel, hot, newpage) \
	pgstat_count_heap_update(rel, hot)

#define ResolveRecoveryConflictWithSnapshot(xid, is_catalog, rlocator) \
	ResolveRecoveryConflictWithSnapshot(xid, rlocator)

/* REQUIRES: classid is RelationRelationId */
#define object_ownercheck(classid, objectid, roleid) \
	pg_class_ownercheck(objectid, roleid)

/* REQUIRES: classid is ProcedureRelationId */
#define object_aclcheck(classid, objectid, roleid, mode) \
	pg_proc_aclcheck(objectid, roleid, mode)

#endif							/* LSM_COMPAT_BEFORE_16_H */
