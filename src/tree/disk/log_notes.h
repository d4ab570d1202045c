/*-------------------------------------------------------------------------
 *
 * log_notes.h
 *	  The format of notes in the WAL records of appends: what logical decoding
 *	  is told about entries, by whoever wrote them.  Log pages do not have them.
 *
 * Notes are a sequence of runs, in the order of the record's entries:
 *
 *		count			varint, at least 1: entries that have the same note
 *		note bytes		varint; 0: logical decoding ignores the entries
 *		note
 *
 * Entries behind the last run have no note.
 *
 * Locking: none, pure functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_LOG_NOTES_H
#define LSM_LOG_NOTES_H

#include "tree/disk/log_entry.h"

/* Most bytes that the notes of these entries can take; 0: there are none. */
static inline Size
lsm_log_notes_room(const LsmEntry *entries, int n)
{
	Size		room = 0;
	bool		any = false;

	for (int i = 0; i < n; i++)
	{
		any = any || entries[i].note.len > 0;
		room += 2 * LSM_VARINT_MAX_BYTES + entries[i].note.len;
	}
	return any ? room : 0;
}

/*
 * Write the notes of n entries; returns the end (`out`: there are none).
 * REQUIRES: lsm_log_notes_room() bytes.
 */
static inline char *
lsm_log_notes_put(char *out, const LsmEntry *entries, int n)
{
	int			same;

	while (n > 0 && entries[n - 1].note.len == 0)
		n--;
	for (int i = 0; i < n; i += same)
	{
		LsmSlice	note = entries[i].note;

		for (same = 1; i + same < n; same++)
		{
			if (lsm_slice_compare(entries[i + same].note, note) != 0)
				break;
		}
		out = lsm_varint_put(out, same);
		out = lsm_varint_put(out, note.len);
		if (note.len > 0)
			memcpy(out, note.data, note.len);
		out += note.len;
	}
	return out;
}

/* Reads notes, entry by entry. */
typedef struct LsmNoteReader
{
	const char *next;			/* run */
	const char *end;
	uint64		left;			/* entries of this run */
	LsmSlice	note;			/* of this run */
} LsmNoteReader;

static inline void
lsm_note_reader_init(LsmNoteReader *reader, LsmSlice notes)
{
	memset(reader, 0, sizeof(*reader));
	reader->next = notes.data;
	reader->end = notes.data + notes.len;
}

/* The note of the next entry, in the reader's input; false: malformed. */
static inline bool
lsm_note_next(LsmNoteReader *reader, LsmSlice *note)
{
	const char *p = reader->next;
	uint64		bytes;

	if (reader->left == 0 && p < reader->end)
	{
		if ((p = lsm_varint_get(p, reader->end, &reader->left)) == NULL ||
			(p = lsm_varint_get(p, reader->end, &bytes)) == NULL ||
			reader->left == 0 || bytes > (uint64) (reader->end - p))
			return false;
		reader->note = lsm_slice(p, (uint32) bytes);
		reader->next = p + bytes;
	}
	if (reader->left == 0)
		*note = lsm_slice(NULL, 0);
	else
	{
		*note = reader->note;
		reader->left--;
	}
	return true;
}

#endif							/* LSM_LOG_NOTES_H */
