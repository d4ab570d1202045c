/*-------------------------------------------------------------------------
 *
 * verify.h
 *	  What the files of lsm_verify() share: verify.c (the function),
 *	  verify_notes.c (what was found), verify_index.c (an index against its
 *	  table), verify_rows.c (the table), verify_progress.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_VERIFY_H
#define LSM_VERIFY_H

#include "nodes/pg_list.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

#include "tree/tree.h"

/* Problems reported per index and stage: one broken file could make millions */
#define LSM_VERIFY_MAX_PROBLEMS	100

/* Of a relation, in their order */
typedef enum LsmVerifyStage
{
	LSM_VERIFY_LIST,			/* list of files */
	LSM_VERIFY_FILES,			/* each of them */
	LSM_VERIFY_NOT_COMPARED,
	LSM_VERIFY_DEFINITION,		/* of an index, as are those that follow */
	LSM_VERIFY_ROWS,			/* of the table, looked up */
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
	int			number;
	char	   *object;
	char	   *problem;
} LsmVerifyNote;

/* Its row in pg_stat_lsm_progress (verify_progress.c) */
typedef struct LsmVerifyProgress
{
	LsmProgress job;
	int			number;
} LsmVerifyProgress;

extern void lsm_verify_progress_begin(LsmVerifyProgress *progress, Oid relid);
extern void lsm_verify_progress_end(LsmVerifyProgress *progress);

/* `files` are to be looked at; one has been. */
extern void lsm_verify_progress_files(LsmVerifyProgress *progress, int files);
extern void lsm_verify_progress_file(LsmVerifyProgress *progress, Oid relid);

/* Something is to be done with an index; a row or entry of it was. */
extern void lsm_verify_progress_index(LsmVerifyProgress *progress, Oid index,
									  LsmProgressPhase phase);
extern void lsm_verify_progress_entry(LsmVerifyProgress *progress);

typedef struct LsmVerifyNotes
{
	MemoryContext context;
	LsmVerifyProgress progress;
	LsmVerifyNote *notes;
	int			n;
	int			allocated;

	/* how many of the last relation and stage */
	int			relation;
	LsmVerifyStage stage;
	int			count;
} LsmVerifyNotes;

/* Beyond LSM_VERIFY_MAX_PROBLEMS + 1 of a stage of an index, nothing is noted. */
extern void lsm_verify_note(LsmVerifyNotes *notes, int relation, LsmVerifyStage stage,
							const char *object, const char *problem);

/* An LsmProblem; arg: where problems of files go */
typedef struct LsmFileNotes
{
	LsmVerifyNotes *notes;
	int			relation;
	LsmVerifyStage stage;
} LsmFileNotes;

extern void lsm_verify_note_file(void *arg, const char *object, const char *problem);

/* ---- the whole (verify.c) ---- */

/* A file to be looked at */
typedef struct LsmVerifyFile
{
	int			relation;
	uint64		number;
} LsmVerifyFile;

typedef struct LsmVerify
{
	LsmVerifyNotes notes;
	Relation	table;
	bool		as_owner;		/* of the table; else the user is the caller */
	List	   *relations;		/* of Relation; the table first, if it is lsm's
								 * and asked for */
	LsmVerifyFile *files;
	int			nfiles;
	Snapshot	snapshot;		/* active */
} LsmVerify;

/*
 * The rows of the table; its visibility map.  REQUIRES: it is lsm's and can be
 * read; the snapshot is active.  (verify_rows.c)
 */
extern void lsm_verify_rows(LsmVerify *verify);
extern void lsm_verify_map(LsmVerify *verify);

/* ---- an index (verify_index.c) ---- */

/* Can it be compared with its table under this snapshot? */
extern bool lsm_index_is_comparable(Relation index, Snapshot snapshot);

/* False: it cannot be scanned, as is noted. */
extern bool lsm_index_check_definition(LsmVerifyNotes *notes, int relation, Relation index);

/*
 * Compare it with the table, and the table with it.  REQUIRES: the snapshot is
 * active; lsm_index_is_comparable(), lsm_index_check_definition().
 */
extern void lsm_verify_index(LsmVerify *verify, int relation);

#endif							/* LSM_VERIFY_H */
