/*-------------------------------------------------------------------------
 *
 * sst.h
 *	  Sorted files (RocksDB's block-based table format) and their filter files,
 *	  behind a C door.
 *
 * Every function is noexcept and catches everything: no exception and no
 * longjmp crosses this header in either direction.  Failures are a status
 * with a message that names the file.  No PostgreSQL here; no threads.
 *
 * A handle belongs to one process and one user at a time.  Files are
 * immutable once finished; any number of processes may read them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_SST_H
#define LSM_SST_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

typedef enum LsmSstStatus
{
	LSM_SST_OK = 0,
	LSM_SST_MISSING,			/* ENOENT */
	LSM_SST_IO_ERROR,			/* sys_errno says which */
	LSM_SST_DISK_FULL,			/* ENOSPC, EDQUOT */
	LSM_SST_CORRUPT,			/* checksum, structure, truncated */
	LSM_SST_UNSUPPORTED,		/* a valid file of a kind we do not read */
	LSM_SST_INVALID,			/* misuse: keys out of order, bad argument */
	LSM_SST_NO_MEMORY
} LsmSstStatus;

typedef struct LsmSstError
{
	LsmSstStatus status;
	int			sys_errno;		/* 0 if none */
	char		message[512];	/* names the file; no trailing period */
	uint64_t	tail_digest;	/* of lsm_sst_open(), LSM_SST_UNSUPPORTED: as
								 * in LsmSstProperties */
} LsmSstError;

/* Memory or descriptors are short: that says nothing about the file. */
static inline bool
lsm_sst_lacks_resources(const LsmSstError *err)
{
	return err->status == LSM_SST_NO_MEMORY ||
		err->sys_errno == EMFILE || err->sys_errno == ENFILE;
}

typedef enum LsmCompression
{
	LSM_COMPRESSION_NONE = 0,
	LSM_COMPRESSION_LZ4 = 1,
	LSM_COMPRESSION_ZSTD = 2
} LsmCompression;

typedef struct LsmSstProperties
{
	uint64_t	entries;
	uint64_t	file_bytes;
	uint64_t	data_bytes;		/* compressed data blocks */
	uint64_t	raw_key_bytes;
	uint64_t	raw_value_bytes;
	uint64_t	data_blocks;

	/*
	 * Digest of the last 4 kB of the file (of all of it, if it is shorter).
	 * They hold the properties, with an identifier that each writer draws
	 * anew, so that no two files have the same.
	 */
	uint64_t	tail_digest;
} LsmSstProperties;

/* ---- writing ---- */

typedef struct LsmSstWriter LsmSstWriter;

/*
 * Creates the file with permissions `mode`; one that exists is an error
 * (EEXIST) and stays.  4 kB blocks, restart interval 16, format_version 5,
 * XXH3 block checksums, no in-file filter.
 */
extern LsmSstStatus lsm_sst_writer_open(const char *path, int mode,
										LsmCompression compression,
										LsmSstWriter **writer, LsmSstError *err);

/*
 * REQUIRES: key strictly greater (memcmp order) than the one before.
 * `*common_bytes` (may be NULL): how many bytes the two have in common.
 */
extern LsmSstStatus lsm_sst_writer_add(LsmSstWriter *writer,
									   const void *key, size_t key_bytes,
									   const void *value, size_t value_bytes,
									   size_t *common_bytes, LsmSstError *err);

/*
 * The last key that was added.  REQUIRES: one was.  Good until the next call.
 */
extern const void *lsm_sst_writer_last_key(const LsmSstWriter *writer,
										   size_t *key_bytes);

/* Estimate of the file's size so far, in bytes. */
extern uint64_t lsm_sst_writer_bytes(const LsmSstWriter *writer);

/* Finishes and fsyncs the file, frees the writer (also on failure, then the
 * file is removed).  REQUIRES: at least one entry was added. */
extern LsmSstStatus lsm_sst_writer_finish(LsmSstWriter *writer,
										  LsmSstProperties *props, LsmSstError *err);

/* Frees the writer and removes the unfinished file.  NULL is allowed. */
extern void lsm_sst_writer_abandon(LsmSstWriter *writer);

/* Writes `bytes` to a new file with permissions `mode` (EEXIST if there is one)
 * and fsyncs it: filter files. */
extern LsmSstStatus lsm_sst_write_blob(const char *path, int mode, const void *data,
									   size_t bytes, LsmSstError *err);

/* Called before and after an fsync, if set: whoever waits may say so. */
extern void (*lsm_sst_sync_hook)(bool begins);

/* ---- reading ---- */

typedef struct LsmSstReader LsmSstReader;
typedef struct LsmSstIter LsmSstIter;

/*
 * Maps the file and reads footer, properties and index; keeps no descriptor.
 * The reader lives as long as it is not closed, also if the file is unlinked.
 * A media error under the mapping (SIGBUS) is reported as LSM_SST_IO_ERROR.
 */
extern LsmSstStatus lsm_sst_open(const char *path, LsmSstReader **reader,
								 LsmSstError *err);
/* REQUIRES: no iterator over it is left. */
extern void lsm_sst_close(LsmSstReader *reader);
extern const LsmSstProperties *lsm_sst_properties(const LsmSstReader *reader);
/* Private memory the reader holds, bytes (index etc., not the mapping). */
extern size_t lsm_sst_reader_memory(const LsmSstReader *reader);
/* Data blocks read (and verified/decompressed) through this reader so far. */
extern uint64_t lsm_sst_blocks_read(const LsmSstReader *reader);
/*
 * The pages of LSM_SST_PAGE_BYTES of the file in which they lie.  A page with
 * several blocks counts once for who reads them one after the other.
 */
extern uint64_t lsm_sst_pages_read(const LsmSstReader *reader);
#define LSM_SST_PAGE_BYTES	8192

/*
 * A seek of the key may follow: the memory that it will read first is fetched
 * meanwhile.  Does nothing for a file from which little was read.
 */
extern void lsm_sst_prefetch(LsmSstReader *reader, const void *key, size_t key_bytes);

/*
 * The data block in which the key is, or would be; the number of blocks if it
 * is behind all of them.
 */
extern LsmSstStatus lsm_sst_find_block(LsmSstReader *reader, const void *key,
									   size_t key_bytes, uint32_t *block,
									   LsmSstError *err);

/*
 * Copies what separates the block from the next one: at or behind every key of
 * the block, and before every key of the next.  At most `room` bytes of it.
 */
extern LsmSstStatus lsm_sst_separator(LsmSstReader *reader, uint32_t block,
									  void *key, size_t room, size_t *key_bytes,
									  LsmSstError *err);

extern LsmSstStatus lsm_sst_iter_open(LsmSstReader *reader, LsmSstIter **iter,
									  LsmSstError *err);
extern void lsm_sst_iter_close(LsmSstIter *iter);

/*
 * Positioning.  Each returns LSM_SST_OK whether or not it found an entry:
 * lsm_sst_iter_valid() tells.  Seek: first entry with key >= the argument;
 * seek_last: last entry with key <= the argument.
 */
extern LsmSstStatus lsm_sst_iter_seek(LsmSstIter *iter, const void *key,
									  size_t key_bytes, LsmSstError *err);
/*
 * As seek, but an entry that does not begin with the first prefix_bytes of the
 * key is as good as none, and costs less than one.
 */
extern LsmSstStatus lsm_sst_iter_seek_prefix(LsmSstIter *iter, const void *key,
											 size_t key_bytes, size_t prefix_bytes,
											 LsmSstError *err);
extern LsmSstStatus lsm_sst_iter_seek_last(LsmSstIter *iter, const void *key,
										   size_t key_bytes, LsmSstError *err);
extern LsmSstStatus lsm_sst_iter_first(LsmSstIter *iter, LsmSstError *err);
extern LsmSstStatus lsm_sst_iter_last(LsmSstIter *iter, LsmSstError *err);
/* REQUIRES: valid. */
extern LsmSstStatus lsm_sst_iter_next(LsmSstIter *iter, LsmSstError *err);
extern LsmSstStatus lsm_sst_iter_prev(LsmSstIter *iter, LsmSstError *err);
extern bool lsm_sst_iter_valid(const LsmSstIter *iter);
/* REQUIRES: valid.  Point into the iterator; good until it moves. */
extern const void *lsm_sst_iter_key(const LsmSstIter *iter, size_t *key_bytes);
/* Behind the key this many more bytes can be read, whatever they are. */
#define LSM_SST_KEY_SLACK 8
extern const void *lsm_sst_iter_value(const LsmSstIter *iter, size_t *value_bytes);

/* An entry where it lies in the iterator */
typedef struct LsmSstView
{
	const void *key;			/* NULL: none */
	size_t		key_bytes;
	const void *value;
	size_t		value_bytes;
} LsmSstView;

/*
 * Next, and what is there, in one call: for those who read all of a file.
 * REQUIRES: valid.  Good until the iterator moves.
 */
extern LsmSstStatus lsm_sst_iter_step(LsmSstIter *iter, LsmSstView *view,
									  LsmSstError *err);

/* Where the copy of an entry lies */
typedef struct LsmSstEntry
{
	uint32_t	key_offset;
	uint32_t	key_bytes;
	uint32_t	value_offset;
	uint32_t	value_bytes;
} LsmSstEntry;

typedef struct LsmSstBatch
{
	/*
	 * which entries: keys below `bound`, if bound_prefix also those that begin
	 * with it (so all, if it is empty); and values whose first byte is this one
	 */
	const void *bound;
	size_t		bound_bytes;
        size_t bound_readable; /* bytes that may be read there: a comparison
								 * of words is faster */
        bool		bound_prefix;
	uint8_t		first_byte;

	/* where to: entries are appended */
	LsmSstEntry *entries;
	int			n;
	int			max;
	char	   *bytes;
	uint32_t	used;
	uint32_t	capacity;
	uint32_t	headroom;		/* bytes left free before each value */
	uint32_t	aligned;		/* this byte of each value has an offset that is a
								 * multiple of 8 */
} LsmSstBatch;

/*
 * Copies the current entry and those behind it in the same block, as long as
 * they are wanted and there is room.  `*taken`: the iterator stands at the
 * last entry copied; otherwise it stands at the first that was not.  REQUIRES:
 * valid, n < max.
 */
extern LsmSstStatus lsm_sst_iter_read_batch(LsmSstIter *iter, LsmSstBatch *take,
									  bool *taken, LsmSstError *err);

/*
 * The same backward: the current entry and those before it in the same block,
 * in this order.  Wanted are keys greater than `bound`, if bound_prefix also
 * the bound itself.  Bytes of entries that find no place may be used up.
 * REQUIRES: valid, n < max.
 */
extern LsmSstStatus lsm_sst_iter_read_batch_back(LsmSstIter *iter, LsmSstBatch *take,
										   bool *taken, LsmSstError *err);

/*
 * Reads the whole file twice, with our reader alone, and beside RocksDB's
 * SstFileReader, checks every block checksum, the key order and that both
 * agree.  goes_on (may be NULL) is asked at each entry; once it says no, both
 * walks are over (status OK).
 */
typedef bool (*LsmSstGoesOn) (void *arg);
extern LsmSstStatus lsm_sst_verify(const char *path, LsmSstGoesOn goes_on, void *arg,
								   LsmSstProperties *props, LsmSstError *err);

/* Read-only mapping of a filter file (page aligned). */
typedef struct LsmSstBlob
{
	const void *data;
	size_t		bytes;
	size_t		slot;			/* mapping.cc's */
} LsmSstBlob;
extern LsmSstStatus lsm_sst_map_blob(const char *path, LsmSstBlob *blob, LsmSstError *err);
extern void lsm_sst_unmap_blob(LsmSstBlob *blob);
/*
 * Pages of mapped filter files that could not be read (media error, truncated
 * file) since the process started.  Such a page reads as all ones, "maybe" to
 * a Bloom filter; a checksum over the image fails.  Files that are no longer
 * part of a tree are truncated, and may be mapped for a moment all the same: so
 * a caller that sees the count grow asks whose page it was, and warns if it is
 * of a file that counts.
 */
extern uint64_t lsm_sst_blob_faults(void);

/* Is a page of this one among them?  REQUIRES: mapped, or data NULL. */
extern bool lsm_sst_blob_faulted(const LsmSstBlob *blob);

/* "RocksDB 7.8.3" and the like. */
extern const char *lsm_sst_library_version(void);

#ifdef __cplusplus
}
#endif

#endif							/* LSM_SST_H */
