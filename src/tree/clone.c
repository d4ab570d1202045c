/*-------------------------------------------------------------------------
 *
 * clone.c
 *	  CREATE DATABASE copies main forks without asking anyone; here their trees
 *	  get keyspaces of their own, with hard links to the sorted files.
 *
 * The copy's metapage still names the original's keyspace, and which one is
 * to take its place must follow from that alone: its id is a function of
 * the named id and the copy's database.  So a fork whose metapage
 * carries another database's OID names the derived keyspace, for the sweep as well as
 * for the first user, who then writes the metapage (lsm_meta_adopt).
 *
 * The links are made in the transaction of CREATE DATABASE, after the copying.  It
 * holds a lock on the source database until it ends, which keeps
 * sessions and the publishing worker out: the files in a keyspace's directory are those that the
 * copied manifest lists, and perhaps strays, which the first load removes.
 *
 * If that fails, what CREATE DATABASE has copied is removed, as it would do itself. The links
 * are left to the sweep.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xloginsert.h"
#include "catalog/pg_tablespace.h"
#include "commands/dbcommands_xlog.h"
#include "common/hashfn.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/md.h"
#include "utils/memutils.h"

#include "tree/manifest.h"
#include "tree/tree_private.h"

/* See tree_private.h. */
uint64
lsm_keyspace_derive(uint64 keyspace_id, Oid dboid)
{
	uint64		id = hash_bytes_extended((const unsigned char *) &keyspace_id,
										 sizeof(keyspace_id), dboid);

	return id != 0 ? id : 1;
}

/* See tree_private.h. */
uint64
lsm_meta_keyspace(const LsmMetaPage *meta, Oid dboid)
{
	if (meta->keyspace_id == 0 || meta->dboid == dboid)
		return meta->keyspace_id;
	return lsm_keyspace_derive(meta->keyspace_id, dboid);
}

/* See tree_private.h. */
bool
lsm_keyspace_exists(uint64 keyspace_id)
{
	char		path[MAXPGPATH];
	struct stat st;

	lsm_keyspace_dir(keyspace_id, path);
	if (stat(path, &st) == 0)
		return true;
	if (errno != ENOENT)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat file \"%s\": %m", path)));
	return false;
}

/*
 * What the copied fork's metapage names; false if it is no lsm tree.  Through the
 * buffers: CREATE DATABASE may have written it there.
 */
static bool
clone_read_meta(RelFileNode rnode, bool permanent, LsmMetaPage *meta)
{
	Buffer		buffer = ReadBufferWithoutRelcache(rnode, MAIN_FORKNUM, 0, RBM_NORMAL,
												   NULL, permanent);
	Page		page = BufferGetPage(buffer);
	bool		is_tree;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(meta, PageGetContents(page), sizeof(LsmMetaPage));
	is_tree = !PageIsNew(page) && meta->magic == LSM_META_MAGIC;
	UnlockReleaseBuffer(buffer);
	if (is_tree)
		lsm_meta_check_version(meta, rnode, InvalidBackendId);
	return is_tree;
}

/* Only the numbers matter to lsm_keyspace_link_files(). */
static LsmFileMeta *
clone_list_files(uint64 keyspace_id, int *nfiles)
{
	char		path[MAXPGPATH];
	DIR		   *dir;
	struct dirent *de;
	int			room = 16;
	LsmFileMeta *files = palloc(room * sizeof(LsmFileMeta));

	*nfiles = 0;
	lsm_keyspace_dir(keyspace_id, path);
	dir = AllocateDir(path);
	while ((de = ReadDir(dir, path)) != NULL)
	{
		uint64		number;
		int			end = 0;

		if (sscanf(de->d_name, "%" INT64_MODIFIER "u.sst%n", &number, &end) != 1 ||
			end == 0 || de->d_name[end] != '\0')
			continue;
		if (*nfiles == room)
		{
			room *= 2;
			files = repalloc_huge(files, room * sizeof(LsmFileMeta));
		}
		memset(&files[*nfiles], 0, sizeof(LsmFileMeta));
		files[(*nfiles)++].number = number;
	}
	FreeDir(dir);
	return files;
}

/* Unlogged relations have an init fork. */
static bool
clone_is_unlogged(RelFileNode rnode)
{
	char	   *path = relpathperm(rnode, INIT_FORKNUM);
	bool		unlogged = access(path, F_OK) == 0;

	pfree(path);
	return unlogged;
}

/* Files of keyspace `from`, if it is the one that the copied fork's original has. */
static void
clone_keyspace(uint64 from, Oid from_dboid, RelFileNode copy)
{
	bool		log = !clone_is_unlogged(copy);
	LsmMetaPage meta;
	LsmFileMeta *files;
	uint64		to;
	int			nfiles;

	if (!clone_read_meta(copy, log, &meta) || lsm_meta_keyspace(&meta, from_dboid) != from)
		return;
	to = lsm_meta_keyspace(&meta, copy.dbNode);
	lsm_keyspace_ensure(to, copy, InvalidBackendId);
	if (log)
		lsm_keyspace_log_new(to, copy);
	files = clone_list_files(from, &nfiles);
	lsm_keyspace_link_files(from, to, files, nfiles, log);
	pfree(files);
	LSM_CRASH_POINT("clone_linked");
}

static void
clone_trees(Oid from_dboid, Oid to_dboid, Oid from_spcoid, Oid to_spcoid)
{
	DIR		   *dir = AllocateDir(LSM_DIR);
	struct dirent *de;

	/* no tree was ever made */
	if (dir == NULL && errno == ENOENT)
		return;
	while ((de = ReadDir(dir, LSM_DIR)) != NULL)
	{
		LsmOwner   *owners = NULL;
		uint64		id;
		int			n;

		CHECK_FOR_INTERRUPTS();
		if (!lsm_keyspace_parse(de->d_name, &id))
			continue;
		n = lsm_keyspace_owners(id, &owners);
		for (int i = 0; i < n; i++)
		{
			RelFileNode copy = owners[i].rnode;

			if (copy.dbNode != from_dboid || owners[i].backend != InvalidBackendId)
				continue;
			copy.dbNode = to_dboid;
			if (copy.spcNode == from_spcoid)
				copy.spcNode = to_spcoid;
			if (!lsm_fork_exists(copy, InvalidBackendId))
				continue;
			clone_keyspace(id, from_dboid, copy);
			break;
		}
	}
	FreeDir(dir);
}

/* ---- a copy that fails ---- */

typedef struct CloneFailure
{
	Oid			dboid;			/* of the copy */
	int			nspcs;			/* tablespaces in which it has a directory */
	Oid		   *spcoids;
} CloneFailure;

/* If CREATE DATABASE has made a directory for the copy in this tablespace. */
static void
clone_add_tablespace(CloneFailure *failure, Oid spcoid)
{
	char	   *path = GetDatabasePath(failure->dboid, spcoid);

	if (access(path, F_OK) == 0)
	{
		failure->spcoids = repalloc(failure->spcoids, (failure->nspcs + 1) * sizeof(Oid));
		failure->spcoids[failure->nspcs++] = spcoid;
	}
	pfree(path);
}

static void
clone_find_tablespaces(CloneFailure *failure, Oid dboid)
{
	DIR		   *dir = AllocateDir("pg_tblspc");
	struct dirent *de;

	failure->dboid = dboid;
	failure->nspcs = 0;
	failure->spcoids = palloc(sizeof(Oid));
	clone_add_tablespace(failure, DEFAULTTABLESPACE_OID);
	while ((de = ReadDir(dir, "pg_tblspc")) != NULL)
	{
		if (OidIsValid(atooid(de->d_name)))
			clone_add_tablespace(failure, atooid(de->d_name));
	}
	FreeDir(dir);
}

/*
 * CREATE DATABASE has left the part in which it cleans up after itself: nobody but us knows
 * of the directories.  What it would do for a failure of its own, in the same order.
 */
static void
clone_failed(int code, Datum arg)
{
	CloneFailure *failure = (CloneFailure *) DatumGetPointer(arg);
	xl_dbase_drop_rec record;

	DropDatabaseBuffers(failure->dboid);
	ForgetDatabaseSyncRequests(failure->dboid);
	for (int i = 0; i < failure->nspcs; i++)
	{
		char	   *path = GetDatabasePath(failure->dboid, failure->spcoids[i]);

		if (!rmtree(path, true))
			ereport(WARNING,
					(errmsg("some useless files may be left behind in database directory \"%s\"",
							path)));
		pfree(path);
	}
	if (failure->nspcs == 0)
		return;
	record.db_id = failure->dboid;
	record.ntablespaces = failure->nspcs;
	XLogBeginInsert();
	XLogRegisterData((char *) &record, MinSizeOfDbaseDropRec);
	XLogRegisterData((char *) failure->spcoids, failure->nspcs * sizeof(Oid));
	(void) XLogInsert(RM_DBASE_ID, XLOG_DBASE_DROP | XLR_SPECIAL_REL_UPDATE);
}

void
lsm_tree_clone_database(Oid from_dboid, Oid to_dboid, Oid from_spcoid, Oid to_spcoid)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "lsm clone", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	CloneFailure failure;

	clone_find_tablespaces(&failure, to_dboid);
	PG_ENSURE_ERROR_CLEANUP(clone_failed, PointerGetDatum(&failure));
	{
		clone_trees(from_dboid, to_dboid, from_spcoid, to_spcoid);
	}
	PG_END_ENSURE_ERROR_CLEANUP(clone_failed, PointerGetDatum(&failure));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
