/*-------------------------------------------------------------------------
 *
 * chunk_test.c
 *	  Unit test of src/tree/disk/chunk.c: pieces of files come back from WAL as
 *	  they were, and damaged ones are refused, or at least never touch memory
 *	  beyond their own (the sanitizers watch: every buffer has exactly the size
 *	  that is promised). Prints TAP; exit status 1 if a test failed.
 *
 * All data come from fixed seeds.
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <string.h>

#include "tree/disk/chunk.c"
#include "tap.h"

#define ROUNDS	(SHORT_FORM ? 3000 : 30000)

static uint64_t seed;

static uint32_t
below(uint32_t n)
{
	return (uint32_t) (random_next(&seed) % n);
}

/* What files are made of: ascending keys, repetitions, noise, all three. */
static char *
make_piece(uint32_t bytes, int kind)
{
	char	   *data = alloc_or_die(bytes);

	for (uint32_t i = 0; i < bytes; i++)
	{
		int			now = kind < 3 ? kind : (int) (i / 997 % 3);

		if (now == 0)
			data[i] = i % 8 < 5 ? 0 : (char) (i / 8 >> (8 * (7 - i % 8)));
		else if (now == 1)
			data[i] = "all the same rows "[i % 18];
		else
			data[i] = (char) random_next(&seed);
	}
	return data;
}

/* A copy of exactly `bytes`. */
static char *
copy_of(const char *data, uint32_t bytes)
{
	char	   *copy = alloc_or_die(bytes);

	memcpy(copy, data, bytes);
	return copy;
}

/*
 * The piece as it is logged: header and packed bytes, NULL if it is not worth
 * it.
 */
static char *
make_record(LsmWalChunk *chunk, const char *data, uint32_t bytes, uint32_t *packed_bytes)
{
	char	   *room = alloc_or_die(bytes);
	char	   *packed;

	memset(chunk, 0, sizeof(*chunk));
	chunk->file_bytes = bytes;
	chunk->bytes = bytes;
	chunk->flags = LSM_CHUNK_LAST | LSM_CHUNK_LZ4;
	*packed_bytes = lsm_chunk_pack(data, bytes, room);
	packed = *packed_bytes > 0 ? copy_of(room, *packed_bytes) : NULL;
	free(room);
	return packed;
}

/* As redo does it; the content or NULL. */
static char *
replay(const LsmWalChunk *chunk, const char *logged, uint64_t logged_bytes)
{
	char	   *out;

	if (!lsm_chunk_sound(chunk, logged_bytes))
		return NULL;
	if ((chunk->flags & LSM_CHUNK_LZ4) == 0)
		return copy_of(logged, chunk->bytes);
	out = alloc_or_die(chunk->bytes);
	if (lsm_chunk_unpack(chunk, logged, logged_bytes, out))
		return out;
	free(out);
	return NULL;
}

static void
test_round_trip(void)
{
	static const uint32_t sizes[] = {0, 1, 2, 11, 12, 13, 100, 4096, 32767, 32768, 32769, 300000,
	LSM_CHUNK_PIECE_BYTES};
	bool		same = true;
	int			npacked = 0;

	for (int kind = 0; kind < 4; kind++)
	{
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		{
			char	   *data = make_piece(sizes[i], kind);
			LsmWalChunk chunk;
			uint32_t	packed_bytes;
			char	   *packed = make_record(&chunk, data, sizes[i], &packed_bytes);

			if (packed != NULL)
			{
				char	   *back = replay(&chunk, packed, packed_bytes);

				same = same && back != NULL && memcmp(back, data, sizes[i]) == 0 &&
					packed_bytes <= sizes[i] - sizes[i] / 10;
				npacked++;
				free(back);
			}
			free(packed);
			free(data);
		}
	}
	ok(same, "pieces come back as they were");
	ok(npacked >= 20, "of 52, %d were packed", npacked);
}

static void
test_headers(void)
{
	LsmWalChunk good = {.file_bytes = 1000, .offset = 900, .bytes = 100, .flags = LSM_CHUNK_LAST};
	LsmWalChunk chunk;

	ok(lsm_chunk_sound(&good, 100), "plain: sound");
	ok(!lsm_chunk_sound(&good, 99) && !lsm_chunk_sound(&good, 101) && !lsm_chunk_sound(&good, 0), "plain: length");
	chunk = good;
	chunk.flags = 0;
	ok(!lsm_chunk_sound(&chunk, 100), "the end, but not said to be the last");
	chunk = good;
	chunk.bytes = 99;
	ok(!lsm_chunk_sound(&chunk, 99), "the last, but not the end");
	chunk = good;
	chunk.offset = 901;
	ok(!lsm_chunk_sound(&chunk, 100), "beyond the end");
	chunk.offset = UINT64_MAX - 49;
	ok(!lsm_chunk_sound(&chunk, 100), "an offset that overflows");
	chunk = good;
	chunk.file_bytes = UINT64_MAX;
	chunk.flags = 0;
	ok(!lsm_chunk_sound(&chunk, 100), "a file longer than files can be");
	chunk = good;
	chunk.flags |= LSM_CHUNK_TOGETHER | LSM_CHUNK_FILTER;
	ok(lsm_chunk_sound(&chunk, 100), "all flags of a plain piece");
	chunk.flags |= 0x10;
	ok(!lsm_chunk_sound(&chunk, 100), "an unknown flag");
	chunk = good;
	chunk.flags |= LSM_CHUNK_LZ4;
	ok(lsm_chunk_sound(&chunk, 50), "packed: sound");
	ok(!lsm_chunk_sound(&chunk, 0) && !lsm_chunk_sound(&chunk, 100) &&
	   !lsm_chunk_sound(&chunk, UINT64_C(1) << 32), "packed: length");
	chunk.file_bytes = UINT64_C(1) << 40;
	chunk.flags &= ~LSM_CHUNK_LAST;
	chunk.bytes = LSM_CHUNK_PIECE_BYTES + 1;
	ok(!lsm_chunk_sound(&chunk, 50), "packed: longer than a piece");
}

/* Bytes, header and length changed in every way. */
static void
test_damage(void)
{
	int			nrefused = 0;
	int			nother = 0;
	bool		whole = true;

	for (int round = 0; round < ROUNDS; round++)
	{
		uint32_t	bytes = 1 + below(round % 50 == 0 ? 200000 : 6000);
		char	   *data = make_piece(bytes, (int) below(4));
		LsmWalChunk chunk;
		uint32_t	packed_bytes;
		char	   *packed = make_record(&chunk, data, bytes, &packed_bytes);

		if (packed != NULL)
		{
			int			what = (int) below(5);
			uint32_t	logged_bytes = packed_bytes;
			char	   *logged;
			char	   *back;

			if (what == 0)		/* cut off */
				logged_bytes = below(packed_bytes);
			else if (what == 1) /* says something else about the content */
			{
				chunk.bytes = below(2 * bytes + 2);
				chunk.file_bytes = chunk.bytes;
			}
			else if (what == 2)
				((char *) &chunk)[below(sizeof(chunk))] ^= 1 << below(8);
			else
			{
				int			n = what == 3 ? 1 : 1 + (int) below(40);

				while (n-- > 0)
					packed[below(packed_bytes)] = (char) random_next(&seed);
			}
			logged = copy_of(packed, logged_bytes);
			back = replay(&chunk, logged, logged_bytes);
			if (back == NULL)
				nrefused++;
			else if (what <= 1 && (logged_bytes != packed_bytes || chunk.bytes != bytes))
				whole = false;	/* these cannot be right */
			else if (what > 2 && memcmp(back, data, bytes) != 0)
				nother++;
			free(back);
			free(logged);
		}
		free(packed);
		free(data);
	}
	ok(whole, "no piece that was cut, or has another length, is taken for whole");
	ok(nrefused > ROUNDS / 4, "of %d damaged pieces %d were refused", ROUNDS, nrefused);
	ok(nother > 0, "other content of the right length is left to the record's checksum (%d)", nother);
}

/* Nothing but noise. */
static void
test_noise(void)
{
	int			nrefused = 0;

	for (int round = 0; round < ROUNDS; round++)
	{
		uint32_t	logged_bytes = 1 + below(600);
		char	   *logged = make_piece(logged_bytes, 2);
		uint32_t	bytes = logged_bytes + 1 + below(5000);
		LsmWalChunk chunk = {.file_bytes = bytes, .bytes = bytes, .flags = LSM_CHUNK_LAST | LSM_CHUNK_LZ4};
		char	   *back = replay(&chunk, logged, logged_bytes);

		nrefused += back == NULL;
		free(back);
		free(logged);
	}
	ok(nrefused > ROUNDS * 9 / 10, "noise: %d of %d refused", nrefused, ROUNDS);
}

int
main(void)
{
	seed = 20261122;
	test_round_trip();
	test_headers();
	test_damage();
	test_noise();
	printf("1..%d\n", ntests);
	return nfailed > 0;
}
