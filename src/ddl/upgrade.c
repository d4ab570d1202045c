/*-------------------------------------------------------------------------
 *
 * upgrade.c
 *	  pg_upgrade is told at its first step that it cannot transfer lsm
 *	  relations, unless lsm.pg_upgrade says that somebody transfers what it
 *	  does not: the script lsm_pg_upgrade.
 *
 * A constraint's statement in a dump does not say which access method serves
 * it, and the file that pg_upgrade transfers is of one.  So the old server
 * leaves a list of its keys that are lsm_index in each database that has the
 * extension, and the new one looks there when it makes a key: lsm.pg_upgrade is
 * the old cluster's data directory.
 *
 * The upgrade itself ends in lsm_tree_create(), in the new cluster.  That is
 * too late for --check, which creates nothing and said that the clusters were
 * compatible.  But it asks the old cluster, and the answer here is an error:
 *
 *	- The old server that pg_upgrade has started is in binary upgrade mode: a
 *	  database with lsm relations answers no query.  (The new one has none.)
 *	- The server that --check finds running is as always.  pg_upgrade is known
 *	  by its question, in each database, for the libraries of C functions: its
 *	  text has been the same in all releases so far.  That of 18 asks several
 *	  questions in one string.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/am.h"
#include "ddl/ddl.h"
#include "tree/tree.h"

#define LIBRARIES_QUESTION_1	"SELECT DISTINCT probin"
#define LIBRARIES_QUESTION_2	"FROM pg_catalog.pg_proc WHERE prolang ="

static bool
asks_for_libraries(const char *query)
{
	return strncmp(query, LIBRARIES_QUESTION_1, strlen(LIBRARIES_QUESTION_1)) == 0 &&
		strstr(query, LIBRARIES_QUESTION_2) != NULL;
}

/*
 * Lsm relations of this database: one of them, or InvalidOid.  `keys`, if not
 * NULL, gets the OIDs of those indexes that belong to constraints, in lines.
 */
static Oid
find_lsm_relation(StringInfo keys)
{
	Oid			table_am = lsm_table_am_oid();
	Oid			index_am = lsm_index_am_oid();
	Oid			found = InvalidOid;
	Relation	pg_class;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!OidIsValid(table_am) && !OidIsValid(index_am))
		return InvalidOid;
	pg_class = table_open(RelationRelationId, AccessShareLock);
	scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (!OidIsValid(form->relam) || (form->relam != table_am && form->relam != index_am))
			continue;
		if (RELKIND_HAS_STORAGE(form->relkind) && !OidIsValid(found))
			found = form->oid;
		if (keys != NULL && form->relam == index_am && OidIsValid(get_index_constraint(form->oid)))
			appendStringInfo(keys, "%u\n", form->oid);
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return found;
}

/* Of this database: the file with its keys that lsm indexes serve */
static void
keys_path(const char *data_directory, char *path)
{
	snprintf(path, MAXPGPATH, "%.900s/" LSM_DIR "/upgrade.%u", data_directory, MyDatabaseId);
}

/*
 * Neither the dump nor the file of an index tells its access method before the
 * index exists.
 */
static void
write_keys(const StringInfoData *keys)
{
	char		path[MAXPGPATH];
	char		temporary[MAXPGPATH + 16];
	FILE	   *file;

	/* there may never have been a tree */
	if (MakePGDirectory(LSM_DIR) < 0 && errno != EEXIST)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create directory \"%s\": %m", LSM_DIR)));
	keys_path(DataDir, path);
	snprintf(temporary, sizeof(temporary), "%s.%d", path, MyProcPid);
	file = AllocateFile(temporary, PG_BINARY_W);
	if (file == NULL || fwrite(keys->data, 1, keys->len, file) != keys->len ||
		FreeFile(file) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", temporary)));
	(void) durable_rename(temporary, path, ERROR);
}

/*
 * The old server left no list.  1.0 did so in databases where it found no lsm
 * relation: then no table is of ours.  (It left one if there was an index of
 * ours only, so that a key of a heap table is none.)  ERROR if that cannot be.
 */
static void
require_no_list(const char *path, Oid table)
{
	char		version[MAXPGPATH];
	struct stat st;
	int			save_errno = errno;

	snprintf(version, sizeof(version), "%.900s/PG_VERSION", lsm_pg_upgrade);
	if (save_errno == ENOENT && stat(version, &st) == 0 &&
		lsm_relation_am(table) != lsm_table_am_oid())
		return;
	errno = save_errno;
	ereport(ERROR,
			(errcode_for_file_access(),
			 errmsg("could not open file \"%s\": %m", path),
			 errhint("Let lsm_pg_upgrade run pg_upgrade.")));
}

/* The list, sorted, in memory that lasts; NULL if there is no file. */
static Oid *
read_keys(const char *path, int *n)
{
	FILE	   *file = AllocateFile(path, PG_BINARY_R);
	Oid		   *keys;
	int			room = 64;
	unsigned	oid;

	if (file == NULL)
		return NULL;
	keys = MemoryContextAlloc(TopMemoryContext, room * sizeof(Oid));
	*n = 0;
	while (fscanf(file, "%u", &oid) == 1)
	{
		if (*n == room)
		{
			room *= 2;
			keys = repalloc_huge(keys, room * sizeof(Oid));
		}
		keys[(*n)++] = oid;
	}
	if (ferror(file) || !feof(file))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not read file \"%s\"", path)));
	FreeFile(file);
	qsort(keys, *n, sizeof(Oid), oid_cmp);
	return keys;
}

/* See ddl.h. */
bool
lsm_upgrade_is_key(Oid table, Oid index)
{
	static Oid *keys = NULL;
	static int	n = 0;

	if (keys == NULL)
	{
		char		path[MAXPGPATH];

		keys_path(lsm_pg_upgrade, path);
		keys = read_keys(path, &n);
		if (keys == NULL)
		{
			require_no_list(path, table);
			return false;
		}
	}
	return bsearch(&index, keys, n, sizeof(Oid), oid_cmp) != NULL;
}

/* See ddl.h. */
bool
lsm_upgrade_has_list(void)
{
	return IsBinaryUpgrade && lsm_pg_upgrade[0] != '\0';
}

void
lsm_upgrade_check(const char *query_string, int location)
{
	static bool checked = false;
	StringInfoData keys;
	Oid			relid;

	if (likely(!IsBinaryUpgrade))
	{
		if (likely(query_string == NULL || !asks_for_libraries(query_string + Max(location, 0))) ||
			lsm_pg_upgrade[0] != '\0')
			return;
	}
	else if (checked)
		return;
	initStringInfo(&keys);
	relid = find_lsm_relation(&keys);
	checked = true;
	if (lsm_pg_upgrade[0] != '\0' && OidIsValid(lsm_index_am_oid()))
		write_keys(&keys);
	pfree(keys.data);
	if (!OidIsValid(relid) || lsm_pg_upgrade[0] != '\0')
		return;
	checked = false;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("pg_upgrade by itself cannot transfer lsm tables and indexes"),
			 errdetail("Database \"%s\" has %s \"%s.%s\".", get_database_name(MyDatabaseId),
					   get_rel_relkind(relid) == RELKIND_INDEX ? "lsm index" : "lsm table",
					   get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid)),
			 errhint("Run lsm_pg_upgrade in its place.")));
}
