/*-------------------------------------------------------------------------
 *
 * strays.c
 *	  Files in a keyspace's directory that its list of files does not name: what
 *	  jobs have left that a crash cut short.
 *
 * Locking: none but the metapage's, for reading the list.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "storage/fd.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"

static bool
lsm_is_filter_temporary(const char *name)
{
	size_t		digits = strspn(name, "0123456789");

	return digits >= 6 &&
		(strcmp(name + digits, ".flt.tmp") == 0 ||
		 strcmp(name + digits, ".flt" LSM_REDO_SUFFIX) == 0);
}

static int
lsm_number_compare(const void *a, const void *b)
{
	uint64		l = *(const uint64 *) a;
	uint64		r = *(const uint64 *) b;

	return (l > r) - (l < r);
}

/*
 * The list names files, and the keyspace is not there at all: the cluster was
 * upgraded without pg_lsm, or restored without it.  Nothing has been written.
 */
static void
require_directory(const LsmTree *tree)
{
	struct stat st;

	if (lsm_ignore_missing_files || stat(tree->dir, &st) == 0 || errno != ENOENT)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("directory \"%s\" of lsm relation with OID %u is missing", tree->dir,
					tree->ctl->relid),
			 errhint("If pg_upgrade was run without lsm_pg_upgrade, stop the server and run \"lsm_pg_upgrade --transfer\". If the cluster was restored, its backup lacks the directory.")));
}

/*
 * See disk.h.  REQUIRES: state LOADING in a control block just taken,
 * so no flush, compaction or build of this tree is in progress anywhere:
 * when the block was taken, the last job of the keyspace's former one had ended
 * (control.c).
 *
 * If listed files are missing, the list is not what it should be, and
 * strays may be all there is of their rows (salvage.c): they stay.
 */
void
lsm_keyspace_remove_strays(LsmTree *tree)
{
	char		dir_path[MAXPGPATH];
	LsmFileMeta *files;
	uint64	   *live;
	int			nlive;
	int			i;
	DIR		   *dir;
	struct dirent *de;

	files = lsm_manifest_read(tree, &nlive);
	if (lsm_salvage_count_missing(tree, files, nlive) > 0)
	{
		require_directory(tree);
		pfree(files);
		lsm_salvage_keep(tree);
		return;
	}
	live = palloc(Max(nlive, 1) * sizeof(uint64));
	for (i = 0; i < nlive; i++)
		live[i] = files[i].number;
	pfree(files);
	qsort(live, nlive, sizeof(uint64), lsm_number_compare);

	lsm_keyspace_dir(tree->keyspace_id, dir_path);
	dir = AllocateDir(dir_path);
	while ((de = ReadDirExtended(dir, dir_path, LOG)) != NULL)
	{
		char		path[MAXPGPATH];
		uint64		number;
		bool		filter;

		if (!lsm_is_filter_temporary(de->d_name) &&
			(!lsm_file_parse(de->d_name, &number, &filter) ||
			 bsearch(&number, live, nlive, sizeof(uint64), lsm_number_compare) != NULL))
			continue;
		snprintf(path, sizeof(path), "%.700s/%.300s", dir_path, de->d_name);
		if (unlink(path) < 0 && errno != ENOENT)
			ereport(WARNING,
					(errcode_for_file_access(),
					 errmsg("could not remove file \"%s\": %m", path)));
		else
			ereport(DEBUG1,
					(errmsg_internal("removed stray file \"%s\"", path)));
	}
	FreeDir(dir);
	pfree(live);
}
