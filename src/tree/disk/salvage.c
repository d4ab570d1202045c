/*-------------------------------------------------------------------------
 *
 * salvage.c
 *	  Reading what is left of a table whose list of files names some that are
 *	  gone.
 *
 * That comes about when WAL is thrown away (pg_resetwal): the list on disk is
 * that of the last checkpoint, the files are those of the crash.  What flushes
 * and compactions have done in between is in files that the list does not
 * name, and may be the only copy, since they unlinked what they had read.
 *
 *	- A load that finds listed files missing removes no strays, and numbers new
 *	  files and rows behind what is in them.
 *	- With lsm.ignore_missing_files = on a session reads such a table from all
 *	  the files that are there, listed or not, as far as they are whole, with a
 *	  WARNING for each that it misses or finds.
 *
 * Levels of unlisted files are unknown, so it is unknown what is newer.  For
 * rows that does not matter: versions of a row are numbered, of two with the same
 * number one was rolled back, a version's body is written once, and the states of
 * its header come one after the other; ops->settle takes the latest of them
 * whatever the order.  Older versions are for snapshots from before the crash,
 * of which there are none, and for who sees a prepared transaction running: its
 * versions count when it is committed.  Entries of indexes have no such states:
 * an index has to be rebuilt.
 *
 * Nothing is written to such a table by such a session, and no job works on
 * it: what they would leave behind would look as if it was all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "miscadmin.h"
#include "storage/fd.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"

static bool
file_is_missing(const LsmTree *tree, uint64 number)
{
	char		path[MAXPGPATH];
	struct stat st;

	lsm_file_path(tree, number, false, path);
	if (stat(path, &st) == 0)
		return false;
	if (errno != ENOENT)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat file \"%s\": %m", path)));
	return true;
}

/* See disk.h. */
int
lsm_salvage_count_missing(const LsmTree *tree, const LsmFileMeta *files, int nfiles)
{
	int			missing = 0;

	for (int i = 0; i < nfiles; i++)
		if (file_is_missing(tree, files[i].number))
			missing++;
	return missing;
}

/* ---- files that the list does not name ---- */

static bool
put_fence(LsmSstIter *iter, char *fence, uint16 *bytes)
{
	size_t		len;
	const void *key;

	if (!lsm_sst_iter_valid(iter))
		return false;
	key = lsm_sst_iter_key(iter, &len);
	if (len != LSM_TID_BYTES)
		return false;
	memcpy(fence, key, len);
	*bytes = (uint16) len;
	return true;
}

/*
 * What the list would say of it.  False: it is not whole, as a job leaves it
 * that was killed.
 */
static bool
describe_file(const LsmTree *tree, uint64 number, LsmFileMeta *meta)
{
	char		path[MAXPGPATH];
	LsmSstReader *reader;
	LsmSstIter *iter;
	LsmSstError err;
	bool		good;

	memset(meta, 0, sizeof(*meta));
	lsm_file_path(tree, number, false, path);
	if (lsm_sst_open(path, &reader, &err) != LSM_SST_OK)
		return false;
	meta->number = number;
	meta->entries = lsm_sst_properties(reader)->entries;
	meta->file_bytes = lsm_sst_properties(reader)->file_bytes;
	meta->filter_scheme = LSM_FILTER_NONE;
	meta->flags = LSM_FILE_HAS_PARTIAL | LSM_FILE_HAS_DELETE | LSM_FILE_HAS_DYING;
	if (lsm_sst_iter_open(reader, &iter, &err) != LSM_SST_OK)
	{
		lsm_sst_close(reader);
		return false;
	}
	good = lsm_sst_iter_first(iter, &err) == LSM_SST_OK &&
		put_fence(iter, meta->smallest, &meta->smallest_bytes) &&
		lsm_sst_iter_last(iter, &err) == LSM_SST_OK &&
		put_fence(iter, meta->largest, &meta->largest_bytes);
	lsm_sst_iter_close(iter);
	lsm_sst_close(reader);
	return good;
}

/* See disk.h.  The counters are the loader's alone until the tree is loaded. */
void
lsm_salvage_keep(LsmTree *tree)
{
	DIR		   *dir = AllocateDir(tree->dir);
	struct dirent *de;

	while ((de = ReadDirExtended(dir, tree->dir, LOG)) != NULL)
	{
		uint64		number;
		bool		filter;
		LsmFileMeta meta;

		if (!lsm_file_parse(de->d_name, &number, &filter))
			continue;
		lsm_counter_raise(&tree->ctl->files.next_file, number + 1);
		if (!filter && tree->kind == LSM_KIND_TABLE && describe_file(tree, number, &meta))
			lsm_counter_raise(&tree->ctl->row_limit,
					 lsm_row_key_limit(lsm_slice(meta.largest, meta.largest_bytes)));
	}
	FreeDir(dir);
	ereport(LOG,
			(errmsg("files of \"%s\" that are not in the list of files are kept, because listed ones are missing",
					tree->dir)));
}

static bool
is_listed(const LsmFileMeta *files, int nfiles, uint64 number)
{
	for (int i = 0; i < nfiles; i++)
		if (files[i].number == number)
			return true;
	return false;
}

/* ---- the list ---- */

typedef struct Salvage
{
	LsmFileMeta *files;
	int			n;
	int			room;
} Salvage;

static LsmFileMeta *
salvage_add(Salvage *salvage)
{
	if (salvage->n == salvage->room)
	{
		salvage->room = Max(salvage->room * 2, 16);
		salvage->files = salvage->files == NULL ?
			MemoryContextAllocHuge(CurrentMemoryContext, salvage->room * sizeof(LsmFileMeta)) :
			repalloc_huge(salvage->files, salvage->room * sizeof(LsmFileMeta));
	}
	return &salvage->files[salvage->n++];
}

static void
salvage_listed(LsmTree *tree, const LsmFileMeta *files, int nfiles, Salvage *salvage)
{
	for (int i = 0; i < nfiles; i++)
	{
		if (!file_is_missing(tree, files[i].number))
			*salvage_add(salvage) = files[i];
		else
		{
			char		path[MAXPGPATH];

			lsm_file_path(tree, files[i].number, false, path);
			ereport(WARNING,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("sorted file \"%s\" is missing, and reading goes on without it", path),
					 errdetail("The file had " UINT64_FORMAT " entries.", files[i].entries)));
		}
	}
}

static void
salvage_unlisted(LsmTree *tree, const LsmFileMeta *files, int nfiles, Salvage *salvage)
{
	DIR		   *dir = AllocateDir(tree->dir);
	struct dirent *de;

	while ((de = ReadDir(dir, tree->dir)) != NULL)
	{
		uint64		number;
		bool		filter;
		LsmFileMeta *meta;

		CHECK_FOR_INTERRUPTS();
		if (!lsm_file_parse(de->d_name, &number, &filter) || filter ||
			is_listed(files, nfiles, number))
			continue;
		meta = salvage_add(salvage);
		if (describe_file(tree, number, meta))
			ereport(WARNING,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("reading sorted file \"%s/%s\", which is not in the list of files",
							tree->dir, de->d_name)));
		else
		{
			salvage->n--;
			ereport(WARNING,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("sorted file \"%s/%s\" is not in the list of files and cannot be read",
							tree->dir, de->d_name)));
		}
	}
	FreeDir(dir);
}

/* See disk.h. */
bool
lsm_salvage_list(LsmTree *tree, LsmFileMeta **files, int *nfiles)
{
	Salvage		salvage = {0};

	if (tree->kind != LSM_KIND_TABLE ||
		lsm_salvage_count_missing(tree, *files, *nfiles) == 0)
		return false;
	salvage_listed(tree, *files, *nfiles, &salvage);
	salvage_unlisted(tree, *files, *nfiles, &salvage);

	/* a run each: their ranges overlap in any way */
	for (int i = 0; i < salvage.n; i++)
	{
		salvage.files[i].level = 0;
		salvage.files[i].run = salvage.files[i].number;
	}
	pfree(*files);
	*files = salvage.files;
	*nfiles = salvage.n;
	return true;
}
