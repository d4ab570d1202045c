/*-------------------------------------------------------------------------
 *
 * facts.c
 *	  What a tree consists of: files, sizes, oldest xid.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "storage/smgr.h"

#include "tree/control/control.h"
#include "tree/read/filecache.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

LsmFileInfo *
lsm_tree_files(LsmTree *tree, int *nfiles)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);
	LsmFileInfo *infos;

	/* memory of this process only: no need to stay inside */
	version = lsm_version_pin(version);
	lsm_tree_exit(tree);

	infos = palloc_extended(Max(version->nfiles, 1) * sizeof(LsmFileInfo),
							MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (int i = 0; i < version->nfiles; i++)
	{
		const LsmFile *file = lsm_version_file(version, i);
		LsmFileInfo *info = &infos[i];
		char	   *fences = palloc(file->smallest.len + file->largest.len + 1);

		memcpy(fences, file->smallest.data, file->smallest.len);
		memcpy(fences + file->smallest.len, file->largest.data, file->largest.len);
		info->level = file->level;
		info->run = file->run;
		info->number = file->number;
		info->entries = file->entries;
		info->file_bytes = file->file_bytes;
		info->filter_bytes = file->filter_bytes;
		info->filter_scheme = file->filter_scheme;
		info->compression = ((file->flags & LSM_FILE_COMPRESSION_MASK) >> LSM_FILE_COMPRESSION_SHIFT) - 1;
		info->min_xid = file->min_xid;
		info->smallest = lsm_slice(fences, file->smallest.len);
		info->largest = lsm_slice(fences + file->smallest.len, file->largest.len);
		info->smallest_cut = (file->flags & LSM_FILE_SMALLEST_CUT) != 0;
		info->largest_cut = (file->flags & LSM_FILE_LARGEST_CUT) != 0;
	}
	*nfiles = version->nfiles;
	lsm_version_unpin(version);
	return infos;
}

void
lsm_tree_size(LsmTree *tree, LsmTreeSize *size)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);

	memset(size, 0, sizeof(LsmTreeSize));
	for (int i = 0; i < set.n; i++)
	{
		uint64		removed = pg_atomic_read_u64(&set.tables[i]->removed);
		uint64		entries = pg_atomic_read_u64(&set.tables[i]->entries);

		/* an entry may be removed before its maker has counted it */
		size->memtable_entries += entries - Min(entries, removed);
		size->memtable_bytes += pg_atomic_read_u64(&set.tables[i]->bytes);
	}
	for (int i = 0; i < version->nruns; i++)
	{
		size->file_bytes += version->runs[i].file_bytes + version->runs[i].filter_bytes;
		size->file_entries += version->runs[i].entries;
	}
	for (int i = 0; i < LSM_MAX_LEVELS; i++)
	{
		if (version->level_files[i] > 0)
			size->levels++;
	}
	lsm_tree_exit(tree);
}

bool
lsm_fork_wants_flush(LsmTree *tree)
{
	BlockNumber pages = smgrnblocks(RelationGetSmgr(tree->rel), MAIN_FORKNUM);
	LsmTreeSize size;

	if (pages < LSM_TRUNCATE_PAGES)
		return false;
	lsm_tree_size(tree, &size);
	return size.memtable_bytes > 0 && size.memtable_bytes / BLCKSZ < pages / 2;
}

TransactionId
lsm_tree_min_xid(LsmTree *tree)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);
	TransactionId result = InvalidTransactionId;

	for (int i = 0; i < version->nruns; i++)
	{
		TransactionId xid = version->runs[i].min_xid;

		if (TransactionIdIsNormal(xid) &&
			(!TransactionIdIsValid(result) || TransactionIdPrecedes(xid, result)))
			result = xid;
	}
	lsm_tree_exit(tree);
	return result;
}

/* REQUIRES: inside the epoch, the file is of the current version. */
static void
read_filter_info(LsmTree *tree, LsmFile *file, LsmFilterInfo *info)
{
	LsmFilterParams params = lsm_tree_filter_params(tree);
	LsmOpenFile *open;

	/* filters of files differ: the settings are compared, not what came of them */
	bool		by_place = lsm_tree_bottom_scheme(tree, params.scheme) != params.scheme ||
		(lsm_filter_scheme_allocates(params.scheme) &&
		 lsm_tree_filter_allocation(tree) != LSM_ALLOCATION_UNIFORM);

	Assert(lsm_epoch_inside());
	lsm_filecache_begin();
	open = lsm_file_open(tree, file);
	info->level = file->level;
	info->run = file->run;
	info->number = file->number;
	info->filter_bytes = file->filter_bytes;
	info->scheme = file->filter_scheme;
	info->known = open->has_filter ||
		lsm_filter_scheme_has(file->filter_scheme, LSM_FILTER_EMPTY);
	if (by_place || lsm_filter_scheme_has(params.scheme, LSM_FILTER_UNITS))
		info->current =
			file->written_as == lsm_tree_written_as(tree, lsm_tree_compression(tree)) ||
			file->written_as == lsm_tree_written_as(tree, lsm_tree_bottom_compression(tree));
	else
		info->current = info->scheme == params.scheme;
	if (!by_place)
		info->current &= !open->has_filter || lsm_filter_built_with(&open->filter, &params);
	info->keys = file->entries;
	info->expected_fpr = 1.0;
	if (open->has_filter)
	{
		info->keys = open->filter.nkeys;
		info->leading = open->filter.leading;
		info->expected_fpr = lsm_filter_expected_fpr(&open->filter);
	}
	if (open->has_filter && info->keys > 0)
		info->bits_per_key = info->filter_bytes * 8.0 / info->keys;
	lsm_filestats_read(tree->keyspace_id, file->number, &info->counts);
}

LsmFilterInfo *
lsm_tree_filters(LsmTree *tree, int *nfilters)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);
	LsmFilterInfo *volatile infos = NULL;

	version = lsm_version_pin(version);
	lsm_tree_exit(tree);
	lsm_filestats_publish();
	*nfilters = 0;
	PG_TRY();
	{
		infos = palloc_extended(Max(version->nfiles, 1) * sizeof(LsmFilterInfo),
								MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
		for (int i = 0; i < version->nfiles; i++)
		{
			LsmFile    *file = lsm_version_file(version, i);
			LsmVersion *current;

			CHECK_FOR_INTERRUPTS();
			current = lsm_version_enter(tree, &set);

			/* its filter may have been built again */
			if (current != version)
				file = lsm_version_find_file(current, file->number);
			if (file != NULL)
				read_filter_info(tree, file, &infos[(*nfilters)++]);
			lsm_tree_exit(tree);
		}
	}
	PG_FINALLY();
	{
		lsm_version_unpin(version);
	}
	PG_END_TRY();
	return infos;
}
