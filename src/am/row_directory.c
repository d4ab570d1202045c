/*-------------------------------------------------------------------------
 *
 * row_directory.c
 *	  Which row has a key: an array of words, each of which has some bits of a
 *	  key's digest and the number of a row.
 *
 * A lookup of a whole unique key asks here before it asks the index, with the
 * digest that it has computed anyway: one cache line is read.  If a word's bits
 * are the digest's, its row is fetched from the table and compared with the key
 * (lsm_directory_find()).  So a word is a hint, and may say anything: a row that
 * is visible and has the key is the row that is looked for, whoever has noted
 * it, for whatever index, and however long ago.  What makes hints good is that
 * rows of lsm tables keep their numbers, and that numbers are not used again.
 *
 * A line is eight words.  A key has one line, and in it two words at most, of rows
 * with the highest numbers: while a transaction runs, only it sees the row that it
 * has made, and others the one before.  Rows of keys whose bits are the same count
 * as the key's.  Else a word is taken in turn, from where the digest says; a word
 * that has been of use since it was passed over last is left alone once (second
 * chance).
 *
 * Trees share the lines.  A digest is mixed with the keyspace's id, so that equal
 * keys of several trees lie in several places.  That of a copied database comes
 * again with its OID: these trees' keys take each other's words.
 *
 * Locking: none.  A word is read and written as a whole; of two that are written
 * at the same time one is lost.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/shmem.h"

#include "am/row_notes.h"

#define WORDS_PER_LINE	8

/* A word, from the lowest bit on: offset, block, used, tag.  0: none. */
#define OFFSET_BITS		9
#define ROW_BITS		(32 + OFFSET_BITS)
#define USED			(UINT64CONST(1) << ROW_BITS)
#define TAG_SHIFT		(ROW_BITS + 1)

/* Tests have few bits, and are misled all the time. */
StaticAssertDecl(LSM_DIRECTORY_TAG_BITS == 64 - TAG_SHIFT, "a word is full");
#ifdef LSM_TESTING
int			lsm_directory_tag_bits = LSM_DIRECTORY_TAG_BITS;
#else
#define lsm_directory_tag_bits	LSM_DIRECTORY_TAG_BITS
#endif

/*
 * After MISSES_IN_VAIN lookups of a tree in vain, one by one, only one in
 * ASK_AGAIN looks here: where keys are absent, or rows are many more than words,
 * it is not worth a wait for memory.
 */
#define MISSES_IN_VAIN	64
#define ASK_AGAIN		16

typedef struct DirectoryLine
{
	pg_atomic_uint64 words[WORDS_PER_LINE];
} DirectoryLine;

int			lsm_row_directory_kb = 32 * 1024;

static DirectoryLine *lines = NULL;
static uint64 nlines = 0;

Size
lsm_row_directory_shmem_bytes(void)
{
	return add_size((Size) lsm_row_directory_kb * 1024, PG_CACHE_LINE_SIZE);
}

void
lsm_row_directory_shmem_init(void)
{
	bool		found;
	char	   *memory;

	nlines = (Size) lsm_row_directory_kb * 1024 / sizeof(DirectoryLine);
	if (nlines == 0)
		return;
	memory = ShmemInitStruct("lsmam row directory", lsm_row_directory_shmem_bytes(), &found);
	lines = (DirectoryLine *) TYPEALIGN(sizeof(DirectoryLine), memory);
	if (found)
		return;

	/*
	 * The server's memory comes from the kernel, as zeros, also after a crash: it
	 * is not written to here, or all of it would be touched at once.
	 */
#ifdef PG_HAVE_ATOMIC_U64_SIMULATION
	for (uint64 i = 0; i < nlines; i++)
		for (int k = 0; k < WORDS_PER_LINE; k++)
			pg_atomic_init_u64(&lines[i].words[k], 0);
#endif
}

/* A key's place: its line, and its bits where a word has them */
typedef struct DirectoryPlace
{
	DirectoryLine *line;
	uint64		tag;
	int			first;			/* word that is looked at first for a place */
} DirectoryPlace;

static inline DirectoryPlace
place_of(const LsmTree *tree, LsmDigest digest)
{
	uint64		hash = digest ^ (lsm_tree_keyspace(tree) * UINT64CONST(0x9E3779B97F4A7C15));
	DirectoryPlace place;

	place.line = &lines[((hash >> 32) * nlines) >> 32];
	place.tag = (hash & ((UINT64CONST(1) << lsm_directory_tag_bits) - 1)) << TAG_SHIFT;
	place.first = (hash >> 24) % WORDS_PER_LINE;
	return place;
}

static inline bool
word_has_tag(uint64 word, uint64 tag)
{
	return word != 0 && (word >> TAG_SHIFT) == (tag >> TAG_SHIFT);
}

bool
lsm_row_directory_worth(LsmTree *tree)
{
	int		   *misses = lsm_tree_directory_misses(tree);

	if (nlines == 0)
		return false;
	if (*misses < MISSES_IN_VAIN)
		return true;
	*misses = MISSES_IN_VAIN + (*misses + 1) % ASK_AGAIN;
	return *misses == MISSES_IN_VAIN;
}

/* Sorts the rows of a key, of which there are not many: the highest number first. */
static int
rows_add(ItemPointerData rows[LSM_DIRECTORY_ROWS], int n, uint64 word)
{
	ItemPointerData row;
	int			at;

	ItemPointerSet(&row, (BlockNumber) (word >> OFFSET_BITS), word & ((1 << OFFSET_BITS) - 1));
	for (at = n; at > 0 && ItemPointerCompare(&row, &rows[at - 1]) > 0; at--)
	{
		if (at < LSM_DIRECTORY_ROWS)
			rows[at] = rows[at - 1];
	}
	if (at < LSM_DIRECTORY_ROWS)
		rows[at] = row;
	return Min(n + 1, LSM_DIRECTORY_ROWS);
}

int
lsm_row_directory_peek(LsmTree *tree, LsmDigest digest, ItemPointerData rows[LSM_DIRECTORY_ROWS])
{
	DirectoryPlace place;
	int			n = 0;

	if (nlines == 0)
		return 0;
	place = place_of(tree, digest);
	for (int i = 0; i < WORDS_PER_LINE; i++)
	{
		uint64		word = pg_atomic_read_u64(&place.line->words[i]);

		if (!word_has_tag(word, place.tag))
			continue;
		/* a line that all processes read is not to be written each time */
		if (!(word & USED))
			pg_atomic_write_u64(&place.line->words[i], word | USED);
		n = rows_add(rows, n, word);
	}
	return n;
}

int
lsm_row_directory_get(LsmTree *tree, LsmDigest digest, ItemPointerData rows[LSM_DIRECTORY_ROWS])
{
	int			n = lsm_row_directory_peek(tree, digest, rows);
	int		   *misses = lsm_tree_directory_misses(tree);

	lsm_count(tree, LSM_COUNT_DIRECTORY_LOOKUPS, 1);
	*misses = n > 0 ? 0 : Min(*misses + 1, MISSES_IN_VAIN);
	return n;
}

static inline uint64
word_of(const DirectoryPlace *place, const ItemPointerData *row)
{
	Assert(lsm_is_row_tid(row));
	return place->tag | ((uint64) ItemPointerGetBlockNumberNoCheck(row) << OFFSET_BITS) |
		ItemPointerGetOffsetNumberNoCheck(row);
}

/* Where a word with the tag goes */
static int
find_room(const DirectoryPlace *place)
{
	int			lowest = -1;
	int			empty = -1;
	int			nrows = 0;
	uint64		least = 0;

	for (int i = 0; i < WORDS_PER_LINE; i++)
	{
		uint64		there = pg_atomic_read_u64(&place->line->words[i]);

		if (there == 0)
			empty = i;
		if (!word_has_tag(there, place->tag))
			continue;
		nrows++;
		if (lowest < 0 || (there & (USED - 1)) < least)
		{
			lowest = i;
			least = there & (USED - 1);
		}
	}
	if (nrows >= LSM_DIRECTORY_ROWS)
		return lowest;
	if (empty >= 0)
		return empty;
	for (int k = 0; k < WORDS_PER_LINE; k++)
	{
		int			i = (place->first + k) % WORDS_PER_LINE;
		uint64		there = pg_atomic_read_u64(&place->line->words[i]);

		if (!(there & USED))
			return i;
		pg_atomic_write_u64(&place->line->words[i], there & ~USED);
	}
	return place->first;
}

/* The word is that of the row, whether it was of use or not; -1: none is. */
static int
find_word(const DirectoryPlace *place, uint64 word)
{
	for (int i = 0; i < WORDS_PER_LINE; i++)
	{
		if ((pg_atomic_read_u64(&place->line->words[i]) & ~USED) == word)
			return i;
	}
	return -1;
}

void
lsm_row_directory_note(LsmTree *tree, LsmDigest digest, const ItemPointerData *row)
{
	DirectoryPlace place;
	uint64		word;

	if (nlines == 0)
		return;
	place = place_of(tree, digest);
	word = word_of(&place, row);
	if (find_word(&place, word) < 0)
		pg_atomic_write_u64(&place.line->words[find_room(&place)], word);
}

void
lsm_row_directory_forget(LsmTree *tree, LsmDigest digest, const ItemPointerData *row)
{
	DirectoryPlace place;
	int			at;

	if (nlines == 0)
		return;
	place = place_of(tree, digest);
	at = find_word(&place, word_of(&place, row));
	if (at >= 0)
		pg_atomic_write_u64(&place.line->words[at], 0);
}
