/*-------------------------------------------------------------------------
 *
 * before_17.h
 *	  Versions before PostgreSQL 17 learn the names that 17 has.  Part of
 *	  compat.h, which alone includes it; goes with the last version before 17.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COMPAT_BEFORE_17_H
#define LSM_COMPAT_BEFORE_17_H

/*
 * A backend id numbers sessions from 1, a PGPROC from 0; 17 has the latter
 * only.  A ProcNumber stands here for the former, in 17's sense: the number in
 * the file names of a session's temporary relations, of which there is none if
 * the relation is not temporary.  MyProcNumber and GetNumberFromPGProc() are
 * about PGPROCs, so never compare them with such a number; what has to be is
 * ProcNumberForTempRelations().
 */
typedef BackendId ProcNumber;

#define INVALID_PROC_NUMBER		InvalidBackendId
#define ProcNumberForTempRelations()	BackendIdForTempRelations()

#define MyProcNumber			(MyProc->pgprocno)
#define GetNumberFromPGProc(proc)	((proc)->pgprocno)

#define AmAutoVacuumWorkerProcess()	IsAutoVacuumWorkerProcess()

/* guc.h: for the GUC nest level of who runs code of another role */
#define RestrictSearchPath() \
	((void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, \
							  PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false))

#define LockHeldByMe(tag, mode, or_stronger)	LockHeldByMe(tag, mode)
#define estimate_array_length(root, array)	estimate_array_length(array)

#define F_RANDOM_				F_RANDOM	/* random() without arguments */

#endif							/* LSM_COMPAT_BEFORE_17_H */
