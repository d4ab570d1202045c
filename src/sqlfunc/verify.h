/*-------------------------------------------------------------------------
 *
 * verify.h
 *	  What the files of lsm_verify() share: verify.c (the function),
 *	  verify_notes.c (what was found), verify_index.c (an index against its
 *	  table), verify_rows.c (the table), verify_team.c (several processes).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_VERIFY_H
#define LSM_VERIFY_H

#include "access/tableam.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"
#include "utils/sharedtuplestore.h"
#include "utils/snapshot.h"

#include "tree/tree.h"

/* Problems reported per index and stage: one broken file could make millions */
#define LSM_VERIFY_MAX_PROBLEMS	100

/* Of a relation, in the order of what is reported about it */
typedef enum LsmVerifyStage
{
	LSM_VERIFY_LIST,			/* list of files */
	LSM_VERIFY_FILES,			/* each of them; its place is that in the list */
	LSM_VERIFY_NOT_COMPARED,
	LSM_VERIFY_DEFINITION,		/* of an index, as are those that follow */
	LSM_VERIFY_ROWS,			/* of the table, looked up; packed row identifier */
	LSM_VERIFY_SCAN,
	LSM_VERIFY_ENTRIES,
	LSM_VERIFY_TABLE,			/* rows of the table by themselves */
	LSM_VERIFY_MAP				/* visibility map, against indexes of others */
} LsmVerifyStage;

/* ---- what was found (verify_notes.c) ---- */

typedef struct LsmVerifyNote
{
	int			relation;		/* number in LsmVerify */
	LsmVerifyStage stage;
	int64		place;
	int64		seq;			/* those of one place come from one process */
	char	   *object;
	char	   *problem;
} LsmVerifyNote;

/* Of one process (verify_progress.c) */
typedef struct LsmVerifyProgress
{
	LsmProgress job;
	int			number;
} LsmVerifyProgress;

extern void lsm_verify_progress_begin(LsmVerifyProgress *progress, Oid relid);
extern void lsm_verify_progress_end(LsmVerifyProgress *progress);

/* So many files are to be looked at, by all processes; this one has done one. */
extern void lsm_verify_progress_files(LsmVerifyProgress *progress, int files);
extern void lsm_verify_progress_file(LsmVerifyProgress *progress, Oid relid);

/* Something is to be done with an index; a row or entry of it was. */
extern void lsm_verify_progress_index(LsmVerifyProgress *progress, Oid index,
									  LsmProgressPhase phase);
extern void lsm_verify_progress_entry(LsmVerifyProgress *progress);

/* Of one process */
typedef struct LsmVerifyNotes
{
	MemoryContext context;
	LsmVerifyProgress progress;
	SharedTuplestoreAccessor *shared;	/* of a worker: they go there */
	LsmVerifyNote *notes;
	int			n;
	int			allocated;
	int64		seq;

	/* how many of the last relation and stage */
	int			relation;
	LsmVerifyStage stage;
	int			count;
} LsmVerifyNotes;

/* Beyond LSM_VERIFY_MAX_PROBLEMS + 1 of a stage of an index, nothing is noted. */
extern void lsm_verify_note(LsmVerifyNotes *notes, int relation, LsmVerifyStage stage,
							int64 place, const char *object, const char *problem);

/* An LsmProblem; arg: where problems of files go */
typedef struct LsmFileNotes
{
	LsmVerifyNotes *notes;
	int			relation;
	LsmVerifyStage stage;
	int			place;
} LsmFileNotes;

extern void lsm_verify_note_file(void *arg, const char *object, const char *problem);

/* Add what workers have put into `shared`, in any order. */
extern void lsm_verify_take_notes(LsmVerifyNotes *notes, SharedTuplestoreAccessor *shared);

/* A file to be looked at */
typedef struct LsmVerifyFile
{
	Oid			relid;
	int			relation;
	int			place;
	uint64		number;
} LsmVerifyFile;

/* Look at it; it may be gone. */
extern void lsm_verify_one_file(LsmVerifyNotes *notes, const LsmVerifyFile *file, Relation rel);

/* ---- the whole (verify.c, verify_team.c) ---- */

typedef struct LsmVerify
{
	LsmVerifyNotes notes;
	Relation	table;
	bool		as_owner;		/* of the table; else the user is the caller */
	List	   *relations;		/* of Relation; the table first, if it is lsm's
								 * and asked for */
	LsmVerifyFile *files;
	int			nfiles;
	uint64		file_bytes;

	/* indexes to be compared, numbers in `relations` */
	int		   *indexes;
	int			nindexes;
	Snapshot	snapshot;		/* active */
} LsmVerify;

/*
 * Look at all files; compare all indexes.  By this process and as many workers
 * as it gets.  REQUIRES: not in parallel mode already, or no workers are asked
 * for; verify->as_owner says who the user is.
 */
extern void lsm_verify_files(LsmVerify *verify);
extern void lsm_verify_indexes(LsmVerify *verify);

/*
 * The rows of the table; its visibility map.  REQUIRES: it is lsm's and can be
 * read; the snapshot is active.  (verify_rows.c)
 */
extern void lsm_verify_rows(LsmVerify *verify);
extern void lsm_verify_map(LsmVerify *verify);

/* ---- an index (verify_index.c) ---- */

typedef struct LsmIndexCheck LsmIndexCheck;

/* Can it be compared with its table under this snapshot? */
extern bool lsm_index_is_comparable(Relation index, Snapshot snapshot);

/* False: it cannot be scanned, as is noted. */
extern bool lsm_index_check_definition(LsmVerifyNotes *notes, int relation, Relation index);

/*
 * sort_kb: memory for sorting.  The snapshot is active from here to the end.
 * REQUIRES: lsm_index_is_comparable(), lsm_index_check_definition().
 */
extern LsmIndexCheck *lsm_index_check_begin(LsmVerifyNotes *notes, int relation, Relation table,
											Relation index, Snapshot snapshot, int sort_kb);
extern void lsm_index_check_end(LsmIndexCheck *check);

/* The rows that a scan of the table returns, which ends here. */
extern void lsm_index_check_rows(LsmIndexCheck *check, TableScanDesc scan);
extern void lsm_index_check_scan(LsmIndexCheck *check);
extern void lsm_index_check_entries(LsmIndexCheck *check);

#endif							/* LSM_VERIFY_H */
