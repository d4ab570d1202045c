/*-------------------------------------------------------------------------
 *
 * verify.c
 *	  lsm_verify(): the trees by themselves, then each lsm index against its
 *	  table and the table against the index.
 *
 * All files of all trees are looked at first.  An index is compared with its
 * table (verify_index.c) only if both can be read: comparing would end in an
 * error about the first damage, without the rows.  What is found is put in the
 * order of the relations at the end.
 *
 * Index expressions and predicates are evaluated as the table's owner, in a
 * security-restricted operation: whoever calls lsm_verify() has not written
 * them.  A caller without the owner's rights looks at all as himself, and
 * evaluates what is PostgreSQL's or a superuser's only (lsm_may_become_owner()
 * says why).
 *
 * Locking: AccessShareLock on table and indexes.  Concurrent writers are fine:
 * what they do is invisible to the snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am/am.h"
#include "sqlfunc/functions.h"
#include "sqlfunc/verify.h"
#include "tree/tree.h"

PG_FUNCTION_INFO_V1(lsm_verify);

/* ---- the result ---- */

static int
compare_notes(const void *a, const void *b)
{
	const LsmVerifyNote *x = a;
	const LsmVerifyNote *y = b;

	return x->relation != y->relation ? x->relation - y->relation : x->number - y->number;
}

/* Rows of the result, in order; of a relation, not more than are worth it. */
static void
put_notes(ReturnSetInfo *rsinfo, const LsmVerify *verify)
{
	const LsmVerifyNotes *notes = &verify->notes;
	int			compared = 0;	/* problems of comparing the present relation */

	if (notes->n > 0)
		qsort(notes->notes, notes->n, sizeof(LsmVerifyNote), compare_notes);
	for (int i = 0; i < notes->n; i++)
	{
		const LsmVerifyNote *note = &notes->notes[i];
		const char *problem = note->problem;
		Datum		values[2];
		bool		nulls[2] = {0};

		if (i > 0 && note->relation != note[-1].relation)
			compared = 0;
		if (note->stage >= LSM_VERIFY_DEFINITION && ++compared > LSM_VERIFY_MAX_PROBLEMS)
		{
			if (compared > LSM_VERIFY_MAX_PROBLEMS + 1)
				continue;
			problem = "more problems of this relation are not listed";
		}
		values[0] = CStringGetTextDatum(note->object);
		values[1] = CStringGetTextDatum(problem);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

/* ---- trees by themselves ---- */

/* The log and the list of files of each tree */
static void
list_files(LsmVerify *verify)
{
	ListCell   *lc;

	foreach(lc, verify->relations)
	{
		Relation	rel = lfirst(lc);
		LsmFileNotes to = {&verify->notes, foreach_current_index(lc), LSM_VERIFY_LIST};
		uint64	   *numbers;
		LsmTree    *tree = lsm_relation_tree(rel);
		Size		bytes;
		int			n;

		/* the list of files cannot be had if the log cannot be read */
		if (!lsm_tree_verify_log(tree, lsm_verify_note_file, &to))
			continue;
		n = lsm_tree_verify_list(tree, lsm_verify_note_file, &to, &numbers);
		bytes = (verify->nfiles + n) * sizeof(LsmVerifyFile);
		if (n > 0)
			verify->files = verify->files == NULL ? palloc(bytes) :
				repalloc(verify->files, bytes);
		for (int i = 0; i < n; i++)
			verify->files[verify->nfiles++] = (LsmVerifyFile)
			{
				to.relation, numbers[i]
			};
	}
}

/* All these files, of which some may be gone */
static void
verify_files(LsmVerify *verify)
{
	lsm_verify_progress_files(&verify->notes.progress, verify->nfiles);
	for (int i = 0; i < verify->nfiles; i++)
	{
		const LsmVerifyFile *file = &verify->files[i];
		Relation	rel = list_nth(verify->relations, file->relation);
		LsmFileNotes to = {&verify->notes, file->relation, LSM_VERIFY_FILES};

		CHECK_FOR_INTERRUPTS();
		lsm_tree_verify_file(lsm_relation_tree(rel), file->number, lsm_verify_note_file, &to);
		lsm_verify_progress_file(&verify->notes.progress, RelationGetRelid(rel));
	}
}

/* Can the tree be read without meeting what is damaged? */
static bool
is_readable(const LsmVerify *verify, int relation)
{
	for (int i = 0; i < verify->notes.n; i++)
	{
		const LsmVerifyNote *note = &verify->notes.notes[i];
		size_t		len = strlen(note->object);

		/* reading does without a filter */
		if (note->relation == relation && note->stage <= LSM_VERIFY_FILES &&
			(len < 4 || strcmp(note->object + len - 4, ".flt") != 0))
			return false;
	}
	return true;
}

/* ---- indexes ---- */

/* False, with a warning: the caller may not have it evaluated. */
static bool
may_evaluate(const LsmVerify *verify, Relation index)
{
	if (verify->as_owner || !lsm_index_has_foreign_code(index))
		return true;
	ereport(WARNING,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("index \"%s\" was not compared with its table",
					RelationGetRelationName(index)),
			 errdetail("It calls functions that would run with the rights of the owner of table \"%s\".",
					   RelationGetRelationName(verify->table)),
			 errhint("Call lsm_verify() as a role that has these rights.")));
	return false;
}

static void
compare_indexes(LsmVerify *verify, bool with_table)
{
	int			nrelations = list_length(verify->relations);
	bool		table_readable = !with_table || is_readable(verify, 0);

	verify->snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(verify->snapshot);
	for (int i = with_table ? 1 : 0; i < nrelations; i++)
	{
		Relation	index = list_nth(verify->relations, i);

		if (!table_readable || !is_readable(verify, i))
			lsm_verify_note(&verify->notes, i, LSM_VERIFY_NOT_COMPARED,
							RelationGetRelationName(index),
							"was not compared with the table because of the problems above");
		else if (lsm_index_is_comparable(index, verify->snapshot) &&
				 may_evaluate(verify, index) &&
				 lsm_index_check_definition(&verify->notes, i, index))
			lsm_verify_index(verify, i);
	}
	if (with_table && table_readable)
	{
		lsm_verify_rows(verify);
		lsm_verify_map(verify);
	}
	PopActiveSnapshot();
	UnregisterSnapshot(verify->snapshot);
}

Datum
lsm_verify(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LsmVerify	verify = {.notes.context = CurrentMemoryContext};
	Relation	rel;
	List	   *indexes = NIL;
	List	   *not_open;
	bool		with_table = false;
	LsmFormerUser caller;

	InitMaterializedSRF(fcinfo, 0);
	rel = lsm_relation_open(PG_GETARG_OID(0), LSM_RELATION_TREES, LSM_RIGHT_ROWS,
							AccessShareLock);
	verify.table = rel;
	if (rel->rd_rel->relkind == RELKIND_INDEX)
		verify.table = relation_open(rel->rd_index->indrelid, AccessShareLock);

	lsm_verify_progress_begin(&verify.notes.progress, RelationGetRelid(rel));

	/* expressions and predicates of the indexes are the owner's */
	verify.as_owner = lsm_may_become_owner(verify.table);
	if (verify.as_owner)
		lsm_become_owner(verify.table, &caller);
	if (verify.table != rel)
		verify.relations = list_make1(rel);
	else
	{
		if (rel->rd_rel->relkind == RELKIND_RELATION ||
			rel->rd_rel->relkind == RELKIND_MATVIEW)
			indexes = lsm_relation_open_indexes(rel, AccessShareLock);
		if (indexes == NIL)
			lsm_relation_check_kind(rel);
		with_table = lsm_relation_is_table(rel);
		if (with_table)
			verify.relations = list_make1(rel);
		verify.relations = list_concat(verify.relations, indexes);
	}

	not_open = lsm_relations_not_open(list_append_unique_ptr(list_copy(verify.relations), verify.table));
	list_files(&verify);
	verify_files(&verify);
	compare_indexes(&verify, with_table);
	put_notes(rsinfo, &verify);
	if (verify.as_owner)
		lsm_become_caller(&caller);
	lsm_verify_progress_end(&verify.notes.progress);

	lsm_relations_let_go(not_open);
	if (verify.table != rel)
		relation_close(verify.table, AccessShareLock);
	else
		lsm_relation_close_indexes(indexes, AccessShareLock);
	lsm_relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
