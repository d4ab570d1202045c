/*-------------------------------------------------------------------------
 *
 * fileset.c
 *	  The live files while a manifest is read or edited, and its records.
 *
 * Record: LsmManifestRecord, then varints (7 bits per byte, least significant
 * first):
 *
 *	  nremoved, number * nremoved,
 *	  nadded, { number, run, entries, file_bytes, filter_bytes, min_xid, level,
 *				filter_scheme, flags, smallest_bytes, smallest, largest_bytes,
 *				largest, and with LSM_FILE_HAS_CHECKS among the flags sst_check,
 *				filter_check, written_as } * nadded
 *
 * A snapshot is a record that removes nothing, at the start of a chain.
 *
 * Locking: none, all state is the caller's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_crc32c.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/disk/fileset.h"
#include "tree/disk/manifest.h"

typedef struct LsmManifestRecord
{
	uint32		bytes;			/* of the payload that follows */
	pg_crc32c	crc;			/* of the payload */
} LsmManifestRecord;

typedef struct LsmFileSetEntry
{
	uint64		number;			/* key */
	int			at;
} LsmFileSetEntry;

/* ---- the set ---- */

void
lsm_fileset_init(LsmFileSet *set, uint32 expected, bool base)
{
	HASHCTL		ctl;

	memset(set, 0, sizeof(*set));
	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(LsmFileSetEntry);
	ctl.hcxt = CurrentMemoryContext;
	set->base = base;
	set->index = hash_create("lsm files", Max(expected, 64), &ctl,
							 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	set->room = Max(expected, 64);
	set->files = MemoryContextAllocHuge(CurrentMemoryContext,
										(Size) set->room * sizeof(LsmFileRecord));
}

/* False if the number is there already. */
static bool
lsm_fileset_add(LsmFileSet *set, const LsmFileRecord *file)
{
	LsmFileSetEntry *entry;
	bool		found;

	entry = hash_search(set->index, &file->number, HASH_ENTER, &found);
	if (found)
		return false;
	if (set->nfiles == set->room)
	{
		set->room *= 2;
		set->files = repalloc_huge(set->files, (Size) set->room * sizeof(LsmFileRecord));
	}
	entry->at = set->nfiles;
	set->files[set->nfiles++] = *file;
	return true;
}

/* The number is in the list that the set builds upon, we believe. */
static void
lsm_fileset_remove_from_base(LsmFileSet *set, uint64 number)
{
	if (set->nremoved == set->removed_room)
	{
		set->removed_room = Max(64, set->removed_room * 2);
		set->removed = set->removed == NULL ?
			palloc(set->removed_room * sizeof(uint64)) :
			repalloc_huge(set->removed, (Size) set->removed_room * sizeof(uint64));
	}
	set->removed[set->nremoved++] = number;
}

/* False if there is no such number. */
static bool
lsm_fileset_remove(LsmFileSet *set, uint64 number)
{
	LsmFileSetEntry *entry = hash_search(set->index, &number, HASH_FIND, NULL);
	int			at;

	if (entry == NULL)
	{
		if (set->base)
			lsm_fileset_remove_from_base(set, number);
		return set->base;
	}
	at = entry->at;
	hash_search(set->index, &number, HASH_REMOVE, NULL);
	set->nfiles--;
	if (at != set->nfiles)
	{
		set->files[at] = set->files[set->nfiles];
		entry = hash_search(set->index, &set->files[at].number, HASH_FIND, NULL);
		Assert(entry != NULL);
		entry->at = at;
	}
	return true;
}

/* ---- encoding ---- */

static void
lsm_put_varint(StringInfo out, uint64 value)
{
	while (value >= 0x80)
	{
		appendStringInfoCharMacro(out, (char) (value | 0x80));
		value >>= 7;
	}
	appendStringInfoCharMacro(out, (char) value);
}

static void
lsm_put_file(StringInfo out, const LsmFileMeta *file)
{
	Assert(file->smallest_bytes <= LSM_FENCE_BYTES);
	Assert(file->largest_bytes <= LSM_FENCE_BYTES);
	lsm_put_varint(out, file->number);
	lsm_put_varint(out, file->run);
	lsm_put_varint(out, file->entries);
	lsm_put_varint(out, file->file_bytes);
	lsm_put_varint(out, file->filter_bytes);
	lsm_put_varint(out, file->min_xid);
	lsm_put_varint(out, file->level);
	lsm_put_varint(out, file->filter_scheme);
	lsm_put_varint(out, file->flags);
	lsm_put_varint(out, file->smallest_bytes);
	appendBinaryStringInfo(out, file->smallest, file->smallest_bytes);
	lsm_put_varint(out, file->largest_bytes);
	appendBinaryStringInfo(out, file->largest, file->largest_bytes);
	if (file->flags & LSM_FILE_HAS_CHECKS)
	{
		lsm_put_varint(out, file->sst_check);
		lsm_put_varint(out, file->filter_check);
		lsm_put_varint(out, file->written_as);
	}
}

/* Begin a record; returns where. */
static int
lsm_record_begin(StringInfo out)
{
	LsmManifestRecord header;
	int			start = out->len;

	memset(&header, 0, sizeof(header));
	appendBinaryStringInfo(out, (char *) &header, sizeof(header));
	return start;
}

/* End the record that begins at `start`. */
static void
lsm_record_end(StringInfo out, int start)
{
	LsmManifestRecord header;

	header.bytes = out->len - start - sizeof(header);
	INIT_CRC32C(header.crc);
	COMP_CRC32C(header.crc, out->data + start + sizeof(header), header.bytes);
	FIN_CRC32C(header.crc);
	memcpy(out->data + start, &header, sizeof(header));
}

void
lsm_fileset_put_record(StringInfo out, const uint64 *removed, int nremoved,
			   const LsmFileMeta *added, int nadded)
{
	int			start = lsm_record_begin(out);
	int			i;

	lsm_put_varint(out, nremoved);
	for (i = 0; i < nremoved; i++)
		lsm_put_varint(out, removed[i]);
	lsm_put_varint(out, nadded);
	for (i = 0; i < nadded; i++)
		lsm_put_file(out, &added[i]);
	lsm_record_end(out, start);
}

/* Files keep the bytes that they came with. */
void
lsm_fileset_put_snapshot(StringInfo out, const LsmFileSet *set)
{
	int			start = lsm_record_begin(out);
	int			i;

	lsm_put_varint(out, 0);
	lsm_put_varint(out, set->nfiles);
	for (i = 0; i < set->nfiles; i++)
		appendBinaryStringInfo(out, set->files[i].data, set->files[i].bytes);
	lsm_record_end(out, start);
}

/* ---- decoding ---- */

void
lsm_manifest_corrupt(const LsmTree *tree, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("corrupted file list of lsm relation %s: %s",
					lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM), what),
			 errhint("Rebuild the index with REINDEX, or restore the table from a backup.")));
}

typedef struct LsmDecoder
{
	const LsmTree *tree;
	const char *at;
	const char *end;
} LsmDecoder;

static uint64
lsm_get_varint(LsmDecoder *d, uint64 max)
{
	uint64		value = 0;
	int			shift;

	for (shift = 0; shift < 64; shift += 7)
	{
		unsigned char byte;

		if (d->at >= d->end)
			lsm_manifest_corrupt(d->tree, "a record is cut off");
		byte = (unsigned char) *d->at++;
		value |= (uint64) (byte & 0x7f) << shift;
		if (byte < 0x80)
		{
			if (value > max)
				break;
			return value;
		}
	}
	lsm_manifest_corrupt(d->tree, "a number is out of range");
	return 0;					/* not reached */
}

static void
lsm_get_bytes(LsmDecoder *d, char *out, uint32 bytes)
{
	if (d->end - d->at < bytes)
		lsm_manifest_corrupt(d->tree, "a record is cut off");
	memcpy(out, d->at, bytes);
	d->at += bytes;
}

static void
lsm_get_file(LsmDecoder *d, LsmFileMeta *file)
{
	memset(file, 0, sizeof(*file));
	file->number = lsm_get_varint(d, PG_UINT64_MAX);
	file->run = lsm_get_varint(d, PG_UINT64_MAX);
	file->entries = lsm_get_varint(d, PG_UINT64_MAX);
	file->file_bytes = lsm_get_varint(d, PG_UINT64_MAX);
	file->filter_bytes = lsm_get_varint(d, PG_UINT64_MAX);
	file->min_xid = (TransactionId) lsm_get_varint(d, PG_UINT32_MAX);
	file->level = (uint8) lsm_get_varint(d, LSM_MAX_LEVELS - 1);
	file->filter_scheme = (uint8) lsm_get_varint(d, PG_UINT8_MAX);
	file->flags = (uint16) lsm_get_varint(d, PG_UINT16_MAX);
	file->smallest_bytes = (uint16) lsm_get_varint(d, LSM_FENCE_BYTES);
	lsm_get_bytes(d, file->smallest, file->smallest_bytes);
	file->largest_bytes = (uint16) lsm_get_varint(d, LSM_FENCE_BYTES);
	lsm_get_bytes(d, file->largest, file->largest_bytes);
	if (file->flags & LSM_FILE_HAS_CHECKS)
	{
		file->sst_check = (uint32) lsm_get_varint(d, PG_UINT32_MAX);
		file->filter_check = (uint32) lsm_get_varint(d, PG_UINT32_MAX);
		file->written_as = (uint32) lsm_get_varint(d, PG_UINT32_MAX);
	}
}

static void
lsm_decode_record(LsmDecoder *d, LsmFileSet *set)
{
	uint64		n = lsm_get_varint(d, PG_INT32_MAX);

	for (; n > 0; n--)
	{
		if (!lsm_fileset_remove(set, lsm_get_varint(d, PG_UINT64_MAX)))
			lsm_manifest_corrupt(d->tree, "a file is removed that is not there");
	}
	for (n = lsm_get_varint(d, PG_INT32_MAX); n > 0; n--)
	{
		LsmFileRecord record = {.data = d->at};
		LsmFileMeta file;

		lsm_get_file(d, &file);
		record.number = file.number;
		record.bytes = d->at - record.data;
		if (!lsm_fileset_add(set, &record))
			lsm_manifest_corrupt(d->tree, "a file is added twice");
	}
	if (d->at != d->end)
		lsm_manifest_corrupt(d->tree, "a record has excess bytes");
}

void
lsm_fileset_decode(const LsmTree *tree, StringInfo chain, LsmFileSet *set)
{
	const char *at = chain->data;
	const char *end = chain->data + chain->len;

	while (at < end)
	{
		LsmManifestRecord header;
		LsmDecoder	d;
		pg_crc32c	crc;

		if (end - at < sizeof(header))
			lsm_manifest_corrupt(tree, "a record is cut off");
		memcpy(&header, at, sizeof(header));
		at += sizeof(header);
		if (header.bytes > end - at)
			lsm_manifest_corrupt(tree, "a record is cut off");
		INIT_CRC32C(crc);
		COMP_CRC32C(crc, at, header.bytes);
		FIN_CRC32C(crc);
		if (!EQ_CRC32C(crc, header.crc))
			lsm_manifest_corrupt(tree, "wrong checksum");
		d.tree = tree;
		d.at = at;
		d.end = at + header.bytes;
		lsm_decode_record(&d, set);
		at = d.end;
	}
}

LsmFileMeta *
lsm_fileset_files(const LsmTree *tree, const LsmFileSet *set)
{
	LsmFileMeta *files = MemoryContextAllocHuge(CurrentMemoryContext,
												Max(set->nfiles, 1) * sizeof(LsmFileMeta));

	for (int i = 0; i < set->nfiles; i++)
	{
		LsmDecoder	d = {tree, set->files[i].data, set->files[i].data + set->files[i].bytes};

		lsm_get_file(&d, &files[i]);
	}
	return files;
}
