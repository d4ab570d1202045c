/*-------------------------------------------------------------------------
 *
 * disk.h
 *	  Keyspaces (directories of files), their files, and the main forks that
 *	  name them; what is removed, and when.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_DISK_H
#define LSM_DISK_H

#include "storage/lockdefs.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/page.h"

/* ======================================================================
 * fork.c, decoding.c
 * ====================================================================== */

/*
 * ERROR that says what is in the fork, if it does not begin with a metapage of
 * ours
 */
extern void lsm_fork_check(Relation rel, LsmKind kind);

struct LogicalDecodingContext;
struct XLogRecordBuffer;
extern void lsm_decode(struct LogicalDecodingContext *ctx, struct XLogRecordBuffer *buf);

/* ======================================================================
 * metapage.c: block 0 and the keyspace it names (more of it in page.h)
 * ====================================================================== */

/*
 * The keyspace that takes the named one's place in a copied database
 */
extern uint64 lsm_keyspace_derive(uint64 keyspace_id, Oid dboid);

/* What the metapage of a fork in that database names; 0: none yet. */
extern uint64 lsm_meta_keyspace(const struct LsmMetaPage *meta, Oid dboid);

/*
 * Does the metapage say that it is this fork's?  That of a fork which was
 * copied or moved does not, until somebody has opened it (lsm_meta_adopt).
 */
extern bool lsm_meta_is_own(const LsmTree *tree, const struct LsmMetaPage *meta);

/*
 * Is the tree's keyspace what its metapage names?  In recovery that is what has
 * taken the named one's place, until the primary writes it down.
 */
extern bool lsm_meta_names(const struct LsmMetaPage *meta, const LsmTree *tree,
						   bool recovery);

/*
 * What block 0 of a main fork's file says; false if that is no lsm tree or
 * cannot be read: errno says why then, or is 0.  Never an error.
 */
extern bool lsm_fork_read_keyspace(const char *path, Oid dboid, uint64 *keyspace_id);

/*
 * May the relation's fork, or the relation, be this transaction's, and go with
 * its rollback?  Of an index that has taken over an older fork: no.
 */
extern bool lsm_fork_may_roll_back(Relation rel);

/*
 * Main fork of that name exists and is not empty; also if that cannot be
 * told.  Never an error.
 */
extern bool lsm_fork_exists(RelFileLocator rlocator, ProcNumber backend);

/*
 * Blocks that the fork of the visibility map has room for: no bit is set
 * beyond.
 */
extern uint64 lsm_vm_fork_blocks(SMgrRelation smgr);

/*
 * A record KEYSPACE_CREATE without metapage.  REQUIRES: directory and owner
 * durable.
 */
extern void lsm_keyspace_log_new(uint64 keyspace_id, RelFileLocator rlocator);

/* ======================================================================
 * keyspace.c: directories, owner files; files.c: paths, file chunks;
 * strays.c; sweep.c: orphans
 * ====================================================================== */

typedef struct LsmFileMeta LsmFileMeta; /* in manifest.h */

/* sync.c: once per process, or in the one that all others are forked from */
extern void lsm_sync_init(void);

/*
 * Durable on return, in redo before a restartpoint needs it: the file, which
 * has that name or gets it, and the names in a directory.  ERROR, or PANIC
 * (data_sync_elevel()), if that fails.
 */
extern void lsm_sync_file(int fd, const char *path);
extern void lsm_sync_dir(const char *path);

/* Number of "000042.sst" or "000042.flt"; false for any other name. */
extern bool lsm_file_parse(const char *name, uint64 *number, bool *filter);
extern void lsm_file_path(const LsmTree *tree, uint64 number, bool filter, char *path);
extern void lsm_filter_temporary_path(const LsmTree *tree, uint64 number, char *path);
extern void lsm_keyspace_file_path(uint64 keyspace_id, uint64 number, bool filter,
								   char *path);

/* Durable directory, and owner file; existing ones are fine (redo). */
extern void lsm_keyspace_ensure(uint64 keyspace_id, RelFileLocator rlocator, ProcNumber backend);

/*
 * primary_memory.c: worker 0 of a server that is not in recovery notes its
 * lsm.memtable_memory; redo of that; a comparison at the start of redo.
 */
extern void lsm_primary_memory_note(void);
struct LsmWalMemory;
extern void lsm_primary_memory_redo(const struct LsmWalMemory *record);
extern void lsm_primary_memory_compare(void);

/* of the name that a filter file has until redo has written all of it */
#define LSM_REDO_SUFFIX	".redo"

/* Redo of a piece of a file */
extern void lsm_file_write_chunk(uint64 keyspace_id, uint64 number, bool filter,
								 uint64 offset, const char *data, uint32 bytes,
								 bool last, uint64 file_bytes);
extern void lsm_keyspace_unlink_file(uint64 keyspace_id, uint64 number);

/* Lines of the owner file: one per fork that may name the keyspace. */
typedef struct LsmOwner
{
	RelFileLocator rlocator;
	ProcNumber	backend;
} LsmOwner;

/*
 * palloc'd; their number.  NONE: there is no owner file, or it says nothing of
 * use.  UNREADABLE: there is one, and there was a WARNING; so do nothing that
 * relies on there being no owner.
 */
#define LSM_OWNERS_NONE			(-1)
#define LSM_OWNERS_UNREADABLE	(-2)
extern int	lsm_keyspace_owners(uint64 keyspace_id, LsmOwner **owners);

/* The name of an owner file that is being written */
extern bool lsm_owner_is_temporary(const char *name);

/* "0123456789abcdef" to an id; false if it is something else */
extern bool lsm_keyspace_parse(const char *name, uint64 *keyspace_id);

/*
 * The keyspace's heavyweight lock.  Exclusive: its maker, as long as nothing
 * need name it, and who removes it because nothing does.  Share: who unlinks
 * files of it.  Only makers wait.  An error releases it with the transaction.
 * REQUIRES: in a transaction; no LWLock held, not inside an epoch.
 */
extern void lsm_keyspace_lock(uint64 keyspace_id);
extern bool lsm_keyspace_lock_if_free(uint64 keyspace_id, LOCKMODE mode);
extern void lsm_keyspace_unlock(uint64 keyspace_id, LOCKMODE mode);

/* Log the removal, then remove directory and control block. */
extern void lsm_keyspace_remove_logged(uint64 keyspace_id);

/* Its directory is there. */
extern bool lsm_keyspace_exists(uint64 keyspace_id);

/*
 * file_copy.c: a file with the same bytes, durable but for its directory entry.
 * ERRORs if it cannot be written.  What cannot be read is reported with
 * `elevel`, and then there is no copy: false.
 */
extern bool lsm_file_copy(const char *source, const char *target, int elevel);

/*
 * files.c: copies of the files in another keyspace; durable, and logged if
 * `log`.  An error leaves none of them.
 */
extern void lsm_keyspace_copy_files(uint64 from, uint64 to, const LsmFileMeta *files,
									int nfiles, bool log);

/*
 * unshare.c: part a file from one that it shares its bytes with, if there are
 * any; true if one was.  Called by one worker in every round.
 */
extern bool lsm_unshare_one_file(void);

/* What the name of a file ends in while it is copied there */
#define LSM_COPY_SUFFIX		".copy"

/* If XLogIsNeeded() and the tree is permanent: the file's bytes as
 * file-chunk records. */
extern void lsm_file_log(LsmTree *tree, uint64 number, bool filter);
extern bool lsm_file_needs_log(const LsmTree *tree);

/*
 * In any case.  abandoned(), unless NULL, is asked before each piece; if it
 * says yes, no more is logged.  False: not all was, or there is no such file.
 */
extern bool lsm_keyspace_log_file(uint64 keyspace_id, uint64 number, bool filter,
								  bool (*abandoned) (void));

/*
 * Files that are about to be removed and are in no list: whoever replays WAL
 * removes them, too.  Durable on return.  Does not fail and takes no memory:
 * for the abort of a transaction, too.  REQUIRES: the numbers are not given
 * out again, not even after a crash; whoever was logging the files has ended.
 */
extern void lsm_files_log_removal(uint64 keyspace_id, const uint64 *numbers, int n);

/*
 * warned.c: may this process say again that something is wrong with the file
 * (0: the owner file)?  Then not for a while.
 */
extern bool lsm_warn_about_file(uint64 keyspace_id, uint64 number);

/* No file has this number: the tree's log pages, of which some are lost */
#define LSM_LOST_LOG_PAGES	(PG_UINT64_MAX - 1)


/* Remove directory and content.  For temporary trees and the sweep. */
extern void lsm_keyspace_remove(uint64 keyspace_id);

/*
 * Remove the empty directories that this process has left to a base backup, if
 * that is over.
 */
extern void lsm_keyspace_remove_kept(void);

/*
 * strays.c: files in the directory that no version names; after recovery, at
 * load
 */
extern void lsm_keyspace_remove_strays(LsmTree *tree);

/* Called by the worker now and then. */
extern void lsm_sweep_orphans(void);

/* A fork listed in the keyspace's owner file names it, or might. */
extern bool lsm_sweep_owner_alive(uint64 keyspace_id);

/*
 * Keyspaces named by any main fork on disk: a set of ids in the current
 * context.  NULL if one of the forks could not be read (there was a WARNING).
 */
extern struct HTAB *lsm_sweep_scan_cluster(void);

/*
 * The main fork of this name is not that of anything else but an lsm tree, as
 * far as the file tells: its metapage may be in a buffer only.  Temporary ones
 * not included.
 */
extern bool lsm_sweep_may_be_tree(const char *name, const char *path, Oid dboid);

/* clone.c: copied databases */

/*
 * What CREATE DATABASE has copied to this database is removed, and the keyspaces
 * of its trees; nothing, if it has cleaned up itself.  REQUIRES: an aborting
 * transaction that still has the database locked, and pins nothing.  ERRORs:
 * what cannot be read, or memory.
 */
extern void lsm_clone_failed(Oid dboid);

/* The transaction that may have copied a database ends. */
extern void lsm_clone_forget(void);

/* drop.c: keyspaces of relations that an ended transaction has dropped */

extern Size lsm_drop_shmem_bytes(void);
extern void lsm_drop_shmem_init(void);

/* Called by worker 0 in every round. */
extern void lsm_drop_keyspaces(void);

/* temporary.c: trees of this backend's temporary relations */

/* The keyspace is in this fork now; one that was there before goes at once. */
extern void lsm_temporary_remember(uint64 keyspace_id, RelFileLocator rlocator, ProcNumber backend);

/* Release those whose fork is gone.  Never fails. */
extern void lsm_temporary_release_gone(void);

/* This transaction drops a relation. */
extern void lsm_temporary_note_drop(void);

/* A subtransaction was rolled back: its forks go in a moment. */
extern void lsm_temporary_note_abort(void);

/* Backend exit: remove directories of this backend's temporary trees. */
extern void lsm_temporary_release_all(void);

/* ereport a failure of src/sst with the proper SQLSTATE. */
extern void lsm_sst_report(int elevel, const LsmSstError *err);

/*
 * The file (number 0: the keyspace) is gone: what rooms above know of it, they
 * drop.  Never fails.
 */
extern void (*lsm_file_gone_hook) (uint64 keyspace_id, uint64 number);

/*
 * For who makes keyspaces (create.c, copy.c): a new random id, which nobody else
 * has or gets; directory and owner file under such an id; both.  The directory is
 * durable, or, with `at_commit`, will be when this transaction commits, before
 * which nobody may need it after a crash.  The keyspace is locked; the caller
 * unlocks it when the fork's block 0 names it, in a buffer or on disk.
 */
extern uint64 lsm_keyspace_reserve(ProcNumber backend);
extern void lsm_keyspace_make(uint64 keyspace_id, RelFileLocator rlocator,
							  ProcNumber backend, bool at_commit);
extern uint64 lsm_keyspace_new(RelFileLocator rlocator, ProcNumber backend, bool at_commit);
extern void lsm_owner_add(uint64 keyspace_id, RelFileLocator rlocator, ProcNumber backend);

/* Writes an owner file that a power failure took; any other stays as it is. */
extern void lsm_owner_restore(uint64 keyspace_id, RelFileLocator rlocator, ProcNumber backend);

/* ======================================================================
 * salvage.c: tables of which files are missing
 * ====================================================================== */

/*
 * How many of the listed files are not there.  ERRORs if that cannot be told.
 */
extern int	lsm_salvage_count_missing(const LsmTree *tree, const LsmFileMeta *files,
									  int nfiles);

/*
 * Files are missing: what the list does not name stays, and neither file
 * numbers nor row numbers are handed out again that are in any file.
 * REQUIRES: as lsm_keyspace_remove_strays().
 */
extern void lsm_salvage_keep(LsmTree *tree);

/*
 * For lsm.ignore_missing_files: if files of a table are missing, the list
 * becomes one of what is there (palloc'd anew), each file a run of level 0,
 * and the result is true.  WARNINGs.
 */
extern bool lsm_salvage_list(LsmTree *tree, LsmFileMeta **files, int *nfiles);

#endif							/* LSM_DISK_H */
