/*-------------------------------------------------------------------------
 *
 * verify_notes.c
 *	  lsm_verify(): what was found wrong.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "sqlfunc/verify.h"

/* See verify.h. */
void
lsm_verify_note(LsmVerifyNotes *notes, int relation, LsmVerifyStage stage, const char *object,
				const char *problem)
{
	MemoryContext old;

	if (notes->relation != relation || notes->stage != stage)
		notes->count = 0;
	notes->relation = relation;
	notes->stage = stage;
	if (stage >= LSM_VERIFY_DEFINITION && notes->count++ > LSM_VERIFY_MAX_PROBLEMS)
		return;
	old = MemoryContextSwitchTo(notes->context);
	if (notes->n == notes->allocated)
	{
		notes->allocated = Max(2 * notes->allocated, 16);
		notes->notes = notes->notes == NULL ?
			palloc(notes->allocated * sizeof(LsmVerifyNote)) :
			repalloc(notes->notes, notes->allocated * sizeof(LsmVerifyNote));
	}
	notes->notes[notes->n] = (LsmVerifyNote)
	{
		relation, stage, notes->n, pstrdup(object), pstrdup(problem)
	};
	notes->n++;
	MemoryContextSwitchTo(old);
}

/* See verify.h. */
void
lsm_verify_note_file(void *arg, const char *object, const char *problem)
{
	const LsmFileNotes *to = arg;

	lsm_verify_note(to->notes, to->relation, to->stage, object, problem);
}
