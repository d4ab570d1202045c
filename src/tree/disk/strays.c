/*-------------------------------------------------------------------------
 *
 * strays.c
 *	  Files in a keyspace's directory that its list of files does not name: what
 *	  jobs have left that a crash cut short, and whoever wrote an owner file or
 *	  parted a file from another.
 *
 * Locking: none but the metapage's, for reading the list.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "nodes/pg_list.h"
#include "storage/fd.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"

static bool
lsm_is_temporary(const char *name)
{
	size_t		digits = strspn(name, "0123456789");

	if (lsm_owner_is_temporary(name))
		return true;
	return digits >= 6 &&
		(strcmp(name + digits, ".flt.tmp") == 0 ||
		 strcmp(name + digits, ".sst" LSM_COPY_SUFFIX) == 0 ||
		 strcmp(name + digits, ".flt" LSM_COPY_SUFFIX) == 0 ||
		 strcmp(name + digits, ".flt" LSM_REDO_SUFFIX) == 0);
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

typedef struct Strays
{
	List	   *names;
	uint64	   *numbers;		/* of sorted and filter files */
	int			n;
	int			max;
} Strays;

/* `number` 0: the name has none. */
static void
add_stray(Strays *strays, const char *name, uint64 number)
{
	strays->names = lappend(strays->names, pstrdup(name));
	if (number == 0)
		return;
	if (strays->n == strays->max)
	{
		strays->max = Max(64, strays->max * 2);
		if (strays->numbers == NULL)
			strays->numbers = palloc(strays->max * sizeof(uint64));
		else
			strays->numbers = repalloc_huge(strays->numbers, strays->max * sizeof(uint64));
	}
	strays->numbers[strays->n++] = number;
}

/*
 * A crash may have taken away the record by which a number had been reserved,
 * and then nothing was logged of its file, and the number comes again.
 */
static void
log_strays(const LsmTree *tree, Strays *strays)
{
	uint64		next_file = pg_atomic_read_u64(&tree->ctl->files.next_file);
	int			n = 0;

	if (strays->n == 0)
		return;
	qsort(strays->numbers, strays->n, sizeof(uint64), lsm_number_compare);
	for (int i = 0; i < strays->n; i++)
	{
		uint64		number = strays->numbers[i];

		/* a number may have two files */
		if (number < next_file && (n == 0 || strays->numbers[n - 1] != number))
			strays->numbers[n++] = number;
	}
	lsm_files_log_removal(tree->keyspace_id, strays->numbers, n);
}

static void
remove_strays(const char *dir, List *names)
{
	ListCell   *cell;

	foreach(cell, names)
	{
		char		path[MAXPGPATH];

		snprintf(path, sizeof(path), "%.700s/%.300s", dir, (char *) lfirst(cell));
		if (unlink(path) < 0 && errno != ENOENT)
			ereport(WARNING,
					(errcode_for_file_access(),
					 errmsg("could not remove file \"%s\": %m", path)));
		else
			ereport(DEBUG1,
					(errmsg_internal("removed stray file \"%s\"", path)));
	}
}

/*
 * See disk.h.  REQUIRES: state LOADING in a control block just taken,
 * so no flush, compaction or build of this tree is in progress anywhere:
 * when the block was taken, the last job of the keyspace's former one had ended
 * (control.c).  Nor is the owner file being written: that comes before the fork
 * names the keyspace, and the block is taken afterwards.
 *
 * If listed files are missing, the list is not what it should be, and
 * strays may be all there is of their rows (salvage.c): they stay.
 *
 * A standby may have what was logged of them, and is told.
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
	Strays		strays = {0};

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
		uint64		number = 0;
		bool		filter;

		if (!lsm_is_temporary(de->d_name) &&
			(!lsm_file_parse(de->d_name, &number, &filter) ||
			 bsearch(&number, live, nlive, sizeof(uint64), lsm_number_compare) != NULL))
			continue;
		add_stray(&strays, de->d_name, number);
	}
	FreeDir(dir);
	pfree(live);
	if (lsm_file_needs_log(tree))
		log_strays(tree, &strays);
	remove_strays(dir_path, strays.names);
}
