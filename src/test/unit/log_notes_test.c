/*-------------------------------------------------------------------------
 *
 * log_notes_test.c
 *	  Unit test of src/tree/disk/log_notes.h: notes come back as they were
 *	  written, equal neighbours are written once, within the room that was
 *	  promised; of damaged ones nothing is read beyond their end.  Prints TAP;
 *	  exit status 1 if a test failed.
 *
 * What is written and read ends at a page that nobody may touch, so that a step
 * too far is a crash, with and without a sanitizer.  All data come from fixed
 * seeds.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tree/disk/log_notes.h"

#undef printf
#undef vprintf
#include "tap.h"

#define MOST_ENTRIES	200
#define MOST_NOTE		300
#define ROOM			(64 * 1024)
#define ROUNDS			(SHORT_FORM ? 2000 : 20000)

static uint64_t seed;
static char *guarded;			/* ROOM bytes before the page that is guarded */
static LsmEntry entries[MOST_ENTRIES];
static char notes[MOST_ENTRIES][MOST_NOTE];

static uint32_t
below(uint32_t n)
{
	return (uint32_t) (random_next(&seed) % n);
}

static void
make_guard(void)
{
	char	   *memory = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || mprotect(memory + ROOM, ROOM, PROT_NONE) != 0)
	{
		printf("Bail out! no memory\n");
		exit(1);
	}
	guarded = memory;
}

/* Where `bytes` end at the guard. */
static char *
place(Size bytes)
{
	return guarded + ROOM - bytes;
}

static void
set_note(int i, const void *data, uint32_t bytes)
{
	memset(&entries[i], 0, sizeof(entries[i]));
	memcpy(notes[i], data, bytes);
	entries[i].note = lsm_slice(notes[i], bytes);
}

/* Some entries with notes, many of them like the one before. */
static int
make_entries(void)
{
	int			n = (int) below(MOST_ENTRIES + 1);
	uint32_t	repeats = below(4);

	for (int i = 0; i < n; i++)
	{
		char		note[MOST_NOTE];
		uint32_t	bytes = below(3) == 0 ? 0 : below(below(8) == 0 ? MOST_NOTE : 12);

		for (uint32_t j = 0; j < bytes; j++)
			note[j] = (char) below(3);
		if (i > 0 && below(4) < repeats)
			set_note(i, notes[i - 1], entries[i - 1].note.len);
		else
			set_note(i, note, bytes);
	}
	return n;
}

static bool
note_is(LsmSlice note, LsmSlice expected)
{
	return note.len == expected.len && (note.len == 0 || memcmp(note.data, expected.data, note.len) == 0);
}

/* Whether the notes are those of the first n entries, and nothing comes behind. */
static bool
reads_back(LsmSlice written, int n)
{
	LsmNoteReader reader;
	LsmSlice	note;

	lsm_note_reader_init(&reader, written);
	for (int i = 0; i < n; i++)
	{
		if (!lsm_note_next(&reader, &note) || !note_is(note, entries[i].note))
			return false;
	}
	return reader.next == reader.end && reader.left == 0 &&
		lsm_note_next(&reader, &note) && note.len == 0;
}

/* The notes of n entries, with their end at the guard. */
static LsmSlice
write_notes(int n)
{
	Size		room = lsm_log_notes_room(entries, n);
	char	   *start = place(room);
	uint32_t	bytes = (uint32_t) (lsm_log_notes_put(start, entries, n) - start);

	memmove(place(bytes), start, bytes);
	return lsm_slice(place(bytes), bytes);
}

static void
written_and_read(void)
{
	bool		good = true;
	int			with_notes = 0;

	seed = 1;
	for (int round = 0; round < ROUNDS && good; round++)
	{
		int			n = make_entries();
		bool		any = false;

		for (int i = 0; i < n; i++)
			any = any || entries[i].note.len > 0;
		if (any)
			good = reads_back(write_notes(n), n);
		else
			good = lsm_log_notes_room(entries, n) == 0;
		with_notes += any;
	}
	ok(good && with_notes > ROUNDS / 2, "notes come back as they were written, in the room that was promised");
}

/* The bytes themselves: WAL of one build is decoded by the next one. */
static void
format(void)
{
	LsmSlice	written;

	for (int i = 0; i < 150; i++)
		set_note(i, "same", 4);
	set_note(150, "", 0);
	set_note(151, "", 0);
	set_note(152, "x", 1);
	set_note(153, "", 0);
	written = write_notes(154);
	ok(written.len == 12 && memcmp(written.data, "\x96\x01\x04same\x02\x00\x01\x01x", 12) == 0,
	   "150 equal notes are one run, those without one another, none at the end");
	for (int i = 0; i < 10; i++)
		set_note(i, "", 0);
	ok(lsm_log_notes_room(entries, 10) == 0 && lsm_log_notes_put(guarded, entries, 10) == guarded,
	   "entries without notes take no room");
	set_note(3, "abc", 3);
	ok(lsm_log_notes_put(guarded, entries + 4, 6) == guarded && lsm_log_notes_put(guarded, entries, 0) == guarded,
	   "nor do those of a part that has none");
}

static bool
refused(const char *bytes, uint32_t n)
{
	LsmNoteReader reader;
	LsmSlice	note;

	memcpy(place(n), bytes, n);
	lsm_note_reader_init(&reader, lsm_slice(place(n), n));
	return !lsm_note_next(&reader, &note);
}

static void
malformed(void)
{
	ok(refused("\x01", 1), "a run without a length");
	ok(refused("\x81", 1), "a count without an end");
	ok(refused("\x01\x80", 2), "a length without an end");
	ok(refused("\x00\x01x", 3), "a run of no entries");
	ok(refused("\x01\x03xy", 4), "a note that is too short");
	ok(refused("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x", 12), "a note of more bytes than there are addresses");
	ok(refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x", 13), "a count of more bits than there are");
}

/* Notes cut off or with bytes exchanged: what is read is inside, or it is refused. */
static void
damaged(void)
{
	bool		inside = true;
	int			nrefused = 0;

	seed = 2;
	for (int round = 0; round < ROUNDS && inside; round++)
	{
		int			n = make_entries();
		LsmSlice	written = write_notes(n);
		LsmNoteReader reader;
		LsmSlice	note;
		char	   *bytes = place(written.len);

		if (written.len == 0)
			continue;
		for (uint32_t hits = 1 + below(3); hits > 0; hits--)
			bytes[below(written.len)] = (char) random_next(&seed);
		if (below(2) == 0)
		{
			uint32_t	kept = below(written.len);

			memmove(place(kept), bytes, kept);
			written = lsm_slice(place(kept), kept);
		}
		lsm_note_reader_init(&reader, written);
		for (int i = 0; i < 2 * MOST_ENTRIES && inside; i++)
		{
			if (!lsm_note_next(&reader, &note))
			{
				nrefused++;
				break;
			}
			inside = note.len == 0 ||
				(note.data >= written.data && note.data + note.len <= written.data + written.len);
		}
	}
	ok(inside, "nothing is read beyond the end of damaged notes");
	ok(nrefused > ROUNDS / 20, "many of them are refused");
}

int
main(void)
{
	make_guard();
	written_and_read();
	format();
	malformed();
	damaged();
	printf("1..%d\n", ntests);
	return nfailed > 0;
}

#endif							/* has postgres.h */
