/*-------------------------------------------------------------------------
 *
 * chunk.c
 *	  Packing a piece of a file for WAL, and the way back.
 *
 * Redo trusts nothing of what it reads but that the record's checksum was
 * right when it was written: a record of another build may say anything.
 *
 * Locking: none, all state is the caller's.
 *
 *-------------------------------------------------------------------------
 */
#include "tree/disk/chunk.h"

#include <lz4.h>

/* As many of a piece are compressed to see whether the rest is worth it */
#define LSM_CHUNK_SAMPLE_BYTES	(32 * 1024)

/*
 * See chunk.h.  Blocks of index files are not compressed, and become half of
 * what they were or less; blocks of tables and filters stay as they are, at
 * the price of a sample.  Where little is saved, for keys are random, half of
 * the time is: matches are looked for at fewer places, at the price of 3 to 5%
 * more bytes.
 */
uint32_t
lsm_chunk_pack(const char *data, uint32_t bytes, char *out)
{
	uint32_t	sample = bytes < LSM_CHUNK_SAMPLE_BYTES ? bytes : LSM_CHUNK_SAMPLE_BYTES;
	int			n = LZ4_compress_default(data, out, sample, sample - sample / 10);

	if (n > 0 && sample < bytes)
		n = LZ4_compress_fast(data, out, bytes, bytes - bytes / 10,
							  (uint32_t) n > sample / 5 * 3 ? 8 : 1);
	return n > 0 ? n : 0;
}

bool
lsm_chunk_sound(const LsmWalChunk *chunk, uint64_t logged_bytes)
{
	uint32_t	known = LSM_CHUNK_FILTER | LSM_CHUNK_LAST | LSM_CHUNK_LZ4 | LSM_CHUNK_TOGETHER;
	bool		last = (chunk->flags & LSM_CHUNK_LAST) != 0;

	if ((chunk->flags & ~known) != 0 || chunk->file_bytes > INT64_MAX ||
		chunk->offset > chunk->file_bytes ||
		chunk->bytes > chunk->file_bytes - chunk->offset ||
		last != (chunk->bytes == chunk->file_bytes - chunk->offset))
		return false;
	if ((chunk->flags & LSM_CHUNK_LZ4) == 0)
		return logged_bytes == chunk->bytes;
	return chunk->bytes <= LSM_CHUNK_PIECE_BYTES && logged_bytes > 0 &&
		logged_bytes < chunk->bytes;
}

bool
lsm_chunk_unpack(const LsmWalChunk *chunk, const char *logged, uint64_t logged_bytes, char *out)
{
	return LZ4_decompress_safe(logged, out, (int) logged_bytes, (int) chunk->bytes) ==
		(int) chunk->bytes;
}
