/*-------------------------------------------------------------------------
 *
 * verify_notes.c
 *	  lsm_verify(): what a process has found wrong.
 *
 * The leader keeps its notes in memory.  A worker writes them to a shared
 * tuplestore, from where the leader takes them when the worker has ended.
 *
 * Locking: none; a tuplestore is not read before its writers have ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "sqlfunc/functions.h"
#include "sqlfunc/verify.h"

static TupleDesc
note_desc(void)
{
	TupleDesc	desc = CreateTemplateTupleDesc(6);

	TupleDescInitEntry(desc, 1, "relation", INT4OID, -1, 0);
	TupleDescInitEntry(desc, 2, "stage", INT4OID, -1, 0);
	TupleDescInitEntry(desc, 3, "place", INT8OID, -1, 0);
	TupleDescInitEntry(desc, 4, "seq", INT8OID, -1, 0);
	TupleDescInitEntry(desc, 5, "object", TEXTOID, -1, 0);
	TupleDescInitEntry(desc, 6, "problem", TEXTOID, -1, 0);
	return desc;
}

static void
share_note(SharedTuplestoreAccessor *shared, const LsmVerifyNote *note)
{
	Datum		values[] = {
		Int32GetDatum(note->relation), Int32GetDatum(note->stage),
		Int64GetDatum(note->place), Int64GetDatum(note->seq),
		CStringGetTextDatum(note->object), CStringGetTextDatum(note->problem)
	};
	bool		nulls[lengthof(values)] = {0};

	sts_puttuple(shared, NULL,
				 heap_form_minimal_tuple(note_desc(), values, nulls, 0));
}

static void
keep_note(LsmVerifyNotes *notes, const LsmVerifyNote *note)
{
	MemoryContext old = MemoryContextSwitchTo(notes->context);

	if (notes->n == notes->allocated)
	{
		notes->allocated = Max(2 * notes->allocated, 16);
		notes->notes = notes->notes == NULL ?
			palloc(notes->allocated * sizeof(LsmVerifyNote)) :
			repalloc(notes->notes, notes->allocated * sizeof(LsmVerifyNote));
	}
	notes->notes[notes->n] = *note;
	notes->notes[notes->n].object = pstrdup(note->object);
	notes->notes[notes->n].problem = pstrdup(note->problem);
	notes->n++;
	MemoryContextSwitchTo(old);
}

/* See verify.h. */
void
lsm_verify_note(LsmVerifyNotes *notes, int relation, LsmVerifyStage stage, int64 place,
				const char *object, const char *problem)
{
	LsmVerifyNote note = {relation, stage, place, notes->seq++,
	unconstify(char *, object), unconstify(char *, problem)};

	if (notes->relation != relation || notes->stage != stage)
		notes->count = 0;
	notes->relation = relation;
	notes->stage = stage;
	if (stage >= LSM_VERIFY_DEFINITION && notes->count++ > LSM_VERIFY_MAX_PROBLEMS)
		return;
	if (notes->shared != NULL)
		share_note(notes->shared, &note);
	else
		keep_note(notes, &note);
}

/* See verify.h. */
void
lsm_verify_take_notes(LsmVerifyNotes *notes, SharedTuplestoreAccessor *shared)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(note_desc(),
													&TTSOpsMinimalTuple);
	MinimalTuple tuple;

	sts_begin_parallel_scan(shared);
	while ((tuple = sts_parallel_scan_next(shared, NULL)) != NULL)
	{
		LsmVerifyNote note;

		ExecStoreMinimalTuple(tuple, slot, false);
		slot_getallattrs(slot);
		note.relation = DatumGetInt32(slot->tts_values[0]);
		note.stage = (LsmVerifyStage) DatumGetInt32(slot->tts_values[1]);
		note.place = DatumGetInt64(slot->tts_values[2]);
		note.seq = DatumGetInt64(slot->tts_values[3]);
		note.object = TextDatumGetCString(slot->tts_values[4]);
		note.problem = TextDatumGetCString(slot->tts_values[5]);
		keep_note(notes, &note);
	}
	sts_end_parallel_scan(shared);
	ExecDropSingleTupleTableSlot(slot);
}

/* See verify.h. */
void
lsm_verify_note_file(void *arg, const char *object, const char *problem)
{
	const LsmFileNotes *to = arg;

	lsm_verify_note(to->notes, to->relation, to->stage, to->place, object, problem);
}

/* See verify.h. */
void
lsm_verify_one_file(LsmVerifyNotes *notes, const LsmVerifyFile *file, Relation rel)
{
	LsmFileNotes to = {notes, file->relation, LSM_VERIFY_FILES, file->place};

	lsm_tree_verify_file(lsm_relation_tree(rel), file->number, lsm_verify_note_file, &to);
}
