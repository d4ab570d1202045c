/*-------------------------------------------------------------------------
 *
 * clone.c
 *	  CREATE DATABASE copies main forks without asking anyone; here their trees
 *	  get keyspaces of their own, with copies of the sorted files.
 *
 * The copy's metapage still names the original's keyspace, and which one is to
 * take its place must follow from that alone: its id is a function of the
 * named id and the copy's database.  So a fork whose metapage carries another
 * database's OID names the derived keyspace, for the sweep as well as for the
 * first user, who then writes the metapage (lsm_meta_adopt).
 *
 * The files are copied in the transaction of CREATE DATABASE, after the forks.
 * The copied forks say which trees there are (an owner file is a hint, and may
 * not know where an index was moved), and the copied list of files says what
 * is copied: all of it, and nothing else.
 *
 * None of these files goes away meanwhile.  CREATE DATABASE holds a lock on
 * the source database from before the copying until its transaction ends.  It
 * keeps sessions out, and workers from publishing (lsm_publish_lock), so the
 * source's list of files is the copied one all the while.  A file is unlinked
 * only if it is in no list: after the edit that took it out (publish.c), by
 * the job that has not published it (output_job.c), or as a stray at a load
 * (strays.c).  What is being unlinked therefore was published before the lock
 * was granted, and is not in the copy's list either.  The directory may well
 * show such files; looking there instead of at the list, one finds files that
 * are gone a moment later.  A keyspace is removed only when no fork names it,
 * and the source's do.
 *
 * Two forks may name one keyspace: a crash in the transaction of an ALTER INDEX
 * SET TABLESPACE leaves the new fork behind, and STRATEGY file_copy copies what
 * no relation has.  The fork whose metapage gives the fork's own number has the
 * list that counts.  So these come first, and a keyspace is made once.  If the
 * relation is gone, the list of what was left behind may be out of date: such a
 * fork gets nothing.
 *
 * A derived keyspace may be there already, of a dropped database that had the
 * copy's OID, until the sweep has found it.  No fork can name it.  The sweep may
 * be about to remove it, and a worker to unlink files of it: the keyspace's lock
 * lets them end first.
 *
 * With wal_level = minimal the copies are not logged.  A record that removes the
 * derived keyspace, which the sweep may have written for that database, must
 * not be replayed over them: a checkpoint comes first.  And we write none, as
 * nobody else would replay it.
 *
 * CREATE DATABASE cleans up after itself only if its own copying fails.  After
 * that, an error or the end of the session, up to the commit, would leave
 * directories that nobody knows of, and forks in them that name our keyspaces
 * for good.  So an aborting transaction removes both here (lsm_clone_failed).
 * What it has copied it has locked: another database of that OID can be begun
 * before the abort has come here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xloginsert.h"
#include "catalog/pg_tablespace.h"
#include "commands/dbcommands_xlog.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "postmaster/bgwriter.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/md.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/disk/page.h"

/* What is copied, and how far that has come */
typedef struct Clone
{
	Oid			from_dboid;
	Oid			to_dboid;
	bool		moved;			/* forks whose metapage gives another number */
	bool		unlogged;		/* copies are not logged: redo begins behind
								 * whatever was before */
} Clone;

/* Ids of keyspaces that this transaction has made; in TopTransactionContext */
static HTAB *made = NULL;

/*
 * What the copied fork's metapage names; false if it is no lsm tree.  Through
 * the buffers: CREATE DATABASE may have written it there.
 */
static bool
clone_read_meta(RelFileLocator rlocator, bool permanent, LsmMetaPage *meta)
{
	Buffer		buffer = ReadBufferWithoutRelcache(rlocator, MAIN_FORKNUM, 0, RBM_NORMAL,
												   NULL, permanent);
	Page		page = BufferGetPage(buffer);
	bool		is_tree;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(meta, PageGetContents(page), sizeof(LsmMetaPage));
	is_tree = !PageIsNew(page) && meta->magic == LSM_META_MAGIC;
	if (is_tree)
		lsm_meta_check(page, rlocator, INVALID_PROC_NUMBER);
	UnlockReleaseBuffer(buffer);
	return is_tree;
}

/* Unlogged relations have an init fork. */
static bool
clone_is_unlogged(RelFileLocator rlocator)
{
	char	   *path = lsm_relpath(rlocator, INVALID_PROC_NUMBER, INIT_FORKNUM);
	bool		unlogged = access(path, F_OK) == 0;

	pfree(path);
	return unlogged;
}

/* Live files of the copied tree. */
static LsmFileMeta *
clone_list_files(RelFileLocator copy, const LsmMetaPage *meta, bool permanent, int *nfiles)
{
	LsmTree    *tree = palloc0(sizeof(LsmTree));
	LsmFileMeta *files;

	/* as much of a handle as reading the list needs */
	tree->rlocator = copy;
	tree->backend = INVALID_PROC_NUMBER;
	tree->relpersistence = permanent ? RELPERSISTENCE_PERMANENT : RELPERSISTENCE_UNLOGGED;
	tree->kind = (LsmKind) meta->kind;
	tree->keyspace_id = meta->keyspace_id;
	files = lsm_manifest_read(tree, nfiles);
	pfree(tree);
	return files;
}

/* All sorted files of the list are there. */
static bool
clone_has_files(uint64 keyspace_id, const LsmFileMeta *files, int nfiles)
{
	for (int i = 0; i < nfiles; i++)
	{
		char		path[MAXPGPATH];

		lsm_keyspace_file_path(keyspace_id, files[i].number, false, path);
		if (access(path, F_OK) != 0 && errno == ENOENT)
			return false;
	}
	return true;
}

/* The keyspace of a database that is not there goes, if it is there. */
static void
clone_remove_keyspace(uint64 id)
{
	if (!lsm_keyspace_exists(id))
		return;
	if (XLogIsNeeded())
	{
		lsm_keyspace_remove_logged(id);
		return;
	}
	lsm_control_drop(id);
	lsm_control_wait_jobs(id);
	lsm_keyspace_remove(id);
}

/* False: it has been made. */
static bool
clone_make_keyspace(Clone *clone, uint64 id, RelFileLocator copy, bool permanent)
{
	bool		found;

	(void) hash_search(made, &id, HASH_ENTER, &found);
	if (found)
		return false;
	if (permanent && !XLogIsNeeded() && !clone->unlogged)
	{
		RequestCheckpoint(CHECKPOINT_FAST | CHECKPOINT_FORCE | CHECKPOINT_WAIT);
		clone->unlogged = true;
	}
	lsm_keyspace_lock(id);
	clone_remove_keyspace(id);
	lsm_keyspace_ensure(id, copy, INVALID_PROC_NUMBER);
	lsm_keyspace_unlock(id, ExclusiveLock);
	if (permanent)
		lsm_keyspace_log_new(id, copy);
	return true;
}

/*
 * The copied fork, if it is an lsm tree's, gets a keyspace with copies of the
 * original's files.
 */
static void
clone_tree(Clone *clone, RelFileLocator copy)
{
	bool		permanent = !clone_is_unlogged(copy);
	LsmMetaPage meta;
	LsmFileMeta *files;
	uint64		from;
	uint64		to;
	int			nfiles;

	/* no keyspace: an unlogged relation that nobody has used since a crash */
	if (!clone_read_meta(copy, permanent, &meta) || meta.keyspace_id == 0 ||
		(meta.relfilenode != copy.relNumber) != clone->moved)
		return;
	from = lsm_meta_keyspace(&meta, clone->from_dboid);
	to = lsm_meta_keyspace(&meta, copy.dbOid);
	if (!lsm_keyspace_exists(from))
		return;					/* the template cannot be read either */
	files = clone_list_files(copy, &meta, permanent, &nfiles);
	if ((clone->moved && !clone_has_files(from, files, nfiles)) ||
		!clone_make_keyspace(clone, to, copy, permanent))
	{
		pfree(files);
		return;
	}
	lsm_keyspace_copy_files(from, to, files, nfiles, permanent);
	pfree(files);
	LSM_CRASH_POINT("clone_copied");
}

/* All trees in the directory of the copy in one tablespace. */
static void
clone_directory(Clone *clone, Oid spcoid)
{
	char	   *path = GetDatabasePath(clone->to_dboid, spcoid);
	DIR		   *dir = AllocateDir(path);
	struct dirent *de;

	while ((de = ReadDir(dir, path)) != NULL)
	{
		RelFileLocator copy = {spcoid, clone->to_dboid, atooid(de->d_name)};
		char		file[MAXPGPATH];

		CHECK_FOR_INTERRUPTS();
		snprintf(file, sizeof(file), "%.700s/%.300s", path, de->d_name);
		if (lsm_sweep_may_be_tree(de->d_name, file, clone->to_dboid))
			clone_tree(clone, copy);
	}
	FreeDir(dir);
	pfree(path);
}

/* ---- tablespaces ---- */

/* Those in which CREATE DATABASE has made a directory for the copy */
typedef struct CloneSpaces
{
	int			n;
	Oid		   *oids;
} CloneSpaces;

static void
clone_add_tablespace(CloneSpaces *spaces, Oid dboid, Oid spcoid)
{
	char	   *path = GetDatabasePath(dboid, spcoid);

	if (access(path, F_OK) == 0)
	{
		spaces->oids = repalloc(spaces->oids, (spaces->n + 1) * sizeof(Oid));
		spaces->oids[spaces->n++] = spcoid;
	}
	pfree(path);
}

static void
clone_find_tablespaces(CloneSpaces *spaces, Oid dboid)
{
	DIR		   *dir = AllocateDir("pg_tblspc");
	struct dirent *de;

	spaces->n = 0;
	spaces->oids = palloc(sizeof(Oid));
	clone_add_tablespace(spaces, dboid, DEFAULTTABLESPACE_OID);
	while ((de = ReadDir(dir, "pg_tblspc")) != NULL)
	{
		if (OidIsValid(atooid(de->d_name)))
			clone_add_tablespace(spaces, dboid, atooid(de->d_name));
	}
	FreeDir(dir);
}

/* See tree.h. */
void
lsm_tree_clone_database(Oid from_dboid, Oid to_dboid)
{
	MemoryContext context;
	MemoryContext old;
	HASHCTL		ids = {.keysize = sizeof(uint64),.entrysize = sizeof(uint64),
		.hcxt = TopTransactionContext};
	Clone		clone = {.from_dboid = from_dboid,.to_dboid = to_dboid};
	CloneSpaces spaces;

	LSM_CRASH_POINT("clone_begins");
	made = hash_create("lsm cloned keyspaces", 64, &ids, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	context = AllocSetContextCreate(CurrentMemoryContext, "lsm clone", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	clone_find_tablespaces(&spaces, to_dboid);
	for (int pass = 0; pass < 2; pass++)
	{
		clone.moved = pass > 0;
		for (int i = 0; i < spaces.n; i++)
			clone_directory(&clone, spaces.oids[i]);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	LSM_CRASH_POINT("clone_ends");
}

/* ---- a copy that fails ---- */

/* What CREATE DATABASE would do for a failure of its own, in the same order */
static void
clone_remove_directories(Oid dboid, const CloneSpaces *spaces)
{
	DropDatabaseBuffers(dboid);
	ForgetDatabaseSyncRequests(dboid);
	for (int i = 0; i < spaces->n; i++)
	{
		char	   *path = GetDatabasePath(dboid, spaces->oids[i]);

		if (!rmtree(path, true))
			ereport(WARNING,
					(errmsg("some useless files may be left behind in database directory \"%s\"",
							path)));
		pfree(path);
	}
}

static void
clone_log_removal(Oid dboid, const CloneSpaces *spaces)
{
	xl_dbase_drop_rec record;

	record.db_id = dboid;
	record.ntablespaces = spaces->n;
	XLogBeginInsert();
	XLogRegisterData((char *) &record, MinSizeOfDbaseDropRec);
	XLogRegisterData((char *) spaces->oids, spaces->n * sizeof(Oid));
	(void) XLogInsert(RM_DBASE_ID, XLOG_DBASE_DROP | XLR_SPECIAL_REL_UPDATE);
}

/* See disk.h. */
void
lsm_clone_failed(Oid dboid)
{
	CloneSpaces spaces;
	HASH_SEQ_STATUS scan;
	uint64	   *id;

	clone_find_tablespaces(&spaces, dboid);
	if (spaces.n > 0)
		clone_remove_directories(dboid, &spaces);
	if (made != NULL)
	{
		hash_seq_init(&scan, made);
		while ((id = hash_seq_search(&scan)) != NULL)
			clone_remove_keyspace(*id);
	}
	if (spaces.n > 0)
		clone_log_removal(dboid, &spaces);
	pfree(spaces.oids);
}

/* See disk.h. */
void
lsm_clone_forget(void)
{
	made = NULL;
}
