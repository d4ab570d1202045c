/*-------------------------------------------------------------------------
 *
 * chunk.h
 *	  A piece of a file in a WAL record: its header and its bytes, LZ4 or
 *	  plain.
 *
 * Needs no PostgreSQL: src/test/unit/chunk_test.c feeds it damaged records.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_CHUNK_H
#define LSM_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

/* Most bytes of a file in one record */
#define LSM_CHUNK_PIECE_BYTES	(1024 * 1024)

#define LSM_CHUNK_FILTER	0x01	/* of the .flt, else of the .sst */
#define LSM_CHUNK_LAST		0x02
#define LSM_CHUNK_LZ4		0x04	/* an LZ4 block of them follows */
#define LSM_CHUNK_TOGETHER	0x08	/* older builds': not looked at */

/*
 * FILE_CHUNK, FILE_CHUNK_LZ4: the bytes follow.  The record type only keeps
 * builds that know no compression from writing the block to the file as it is;
 * the flag decides.
 */
typedef struct LsmWalChunk
{
	uint64_t	keyspace_id;
	uint64_t	number;
	uint64_t	offset;
	uint64_t	file_bytes;		/* whole file */
	uint32_t	bytes;			/* of the file, in this record */
	uint32_t	flags;
} LsmWalChunk;

/*
 * Compress at most LSM_CHUNK_PIECE_BYTES; returns the compressed size, 0 if
 * that would not save a tenth.  `out`: room for `bytes`.
 */
extern uint32_t lsm_chunk_pack(const char *data, uint32_t bytes, char *out);

/* The header says what it can say of `logged_bytes` that follow it. */
extern bool lsm_chunk_sound(const LsmWalChunk *chunk, uint64_t logged_bytes);

/*
 * Decompress into out, room for chunk->bytes; false if these are not what
 * comes out of it.  REQUIRES: lsm_chunk_sound(), LSM_CHUNK_LZ4.
 */
extern bool lsm_chunk_unpack(const LsmWalChunk *chunk, const char *logged,
							 uint64_t logged_bytes, char *out);

#endif							/* LSM_CHUNK_H */
