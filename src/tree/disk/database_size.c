/*-------------------------------------------------------------------------
 *
 * database_size.c
 *	  What pg_lsm/ has of a database.
 *
 * Owner files say whose a keyspace is.  One that names no fork is counted for
 * no database: it is being made, or is a rest.
 *
 * No locks: what is made or removed meanwhile is counted or not, as
 * pg_database_size() does it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "miscadmin.h"
#include "storage/fd.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/facts.h"

static bool
is_of_database(uint64 keyspace_id, Oid dboid)
{
	LsmOwner   *owners = NULL;
	int			n = lsm_keyspace_owners(keyspace_id, &owners);
	bool		found = false;

	for (int i = 0; i < n && !found; i++)
		found = owners[i].rlocator.dbOid == dboid;
	if (owners != NULL)
		pfree(owners);
	return found;
}

/* Of the files in a directory, which may be gone by now */
static uint64
directory_bytes(const char *path)
{
	DIR		   *dir = AllocateDir(path);
	struct dirent *de;
	uint64		bytes = 0;

	if (dir == NULL && errno == ENOENT)
		return 0;
	while ((de = ReadDir(dir, path)) != NULL)
	{
		char		file[MAXPGPATH];
		struct stat st;

		CHECK_FOR_INTERRUPTS();
		snprintf(file, sizeof(file), "%.600s/%.300s", path, de->d_name);
		if (stat(file, &st) == 0)
		{
			if (S_ISREG(st.st_mode))
				bytes += st.st_size;
		}
		else if (errno != ENOENT)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not stat file \"%s\": %m", file)));
	}
	FreeDir(dir);
	return bytes;
}

/* See facts.h. */
uint64
lsm_database_bytes(Oid dboid)
{
	DIR		   *dir = AllocateDir(LSM_DIR);
	struct dirent *de;
	uint64		bytes = 0;

	if (dir == NULL && errno == ENOENT)
		return 0;
	while ((de = ReadDir(dir, LSM_DIR)) != NULL)
	{
		char		path[MAXPGPATH];
		uint64		id;

		CHECK_FOR_INTERRUPTS();
		if (!lsm_keyspace_parse(de->d_name, &id) || !is_of_database(id, dboid))
			continue;
		snprintf(path, sizeof(path), "%s/%.300s", LSM_DIR, de->d_name);
		bytes += directory_bytes(path);
	}
	FreeDir(dir);
	return bytes;
}
