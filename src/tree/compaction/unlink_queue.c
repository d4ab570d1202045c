/*-------------------------------------------------------------------------
 *
 * unlink_queue.c
 *	  Files that an edit took out of a tree disappear, when nobody reads them any
 *	  more.
 *
 * A removed file is cut to nothing before it is unlinked: a process that
 * sleeps on an old version may have it mapped, which would hold the disk space
 * for as long as it sleeps.  No one reads such a mapping again: every call
 * compares version_no first.
 *
 * A file waits here as long as the control block lives that it was queued by.
 * Then it is the next block's first load that removes it, as a stray.  It need
 * not be the same tree any more: if a copied database is dropped and copied
 * again under the same OID, its keyspaces have the ids they had, and numbers of
 * the template's files come again (clone.c).  The first database's blocks are
 * dropped before there is a second one.
 *
 * Locking: the queue is private to the process.  While files are unlinked, the
 * keyspace's lock, shared and if it is free: nobody makes the keyspace then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "storage/ipc.h"
#include "utils/memutils.h"

#include "tree/compaction/compaction.h"
#include "tree/compaction/output_job.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/memtable/memtable.h"

/* How long a process that ends waits for readers: a second */
#define EXIT_TRIES		200
#define EXIT_NAP_US		5000

typedef struct Unlinked
{
	uint64		keyspace_id;
	uint64		number;
	uint64		epoch;
	LsmTreeShared *ctl;			/* NULL: a temporary tree */
	uint64		life;			/* the block's */
} Unlinked;

/*
 * Process-local.  What a process that ends cannot wait for becomes a stray,
 * too.
 */
static Unlinked *unlink_queue = NULL;
static int	unlink_queued = 0;
static int	unlink_max = 0;

/* Room for n more, so that queueing after the edit cannot fail. */
void
lsm_unlink_reserve(int n)
{
	if (unlink_queued + n > unlink_max)
	{
		int			max = Max(64, (unlink_queued + n) * 2);

		if (unlink_queue == NULL)
			unlink_queue = MemoryContextAlloc(TopMemoryContext, max * sizeof(Unlinked));
		else
			unlink_queue = repalloc(unlink_queue, max * sizeof(Unlinked));
		unlink_max = max;
	}
}

static void
unlink_one(const Unlinked *file)
{
	char		path[MAXPGPATH];
	struct stat st;

	/* a loader of units would take an empty file for a damaged one */
	if (lsm_file_gone_hook != NULL)
		lsm_file_gone_hook(file->keyspace_id, file->number);
	for (int filter = 0; filter < 2; filter++)
	{
		lsm_keyspace_file_path(file->keyspace_id, file->number, filter, path);

		/*
		 * Not if others than this tree's readers may have it mapped.  A file
		 * has one name less after it was noted as parted.  Failures do not
		 * matter: the unlink below reports what does.
		 */
		if (stat(path, &st) == 0 && st.st_nlink == 1 && !lsm_control_has_parted() &&
			truncate(path, 0) != 0)
			continue;
	}
	lsm_keyspace_unlink_file(file->keyspace_id, file->number);
}

/* It is not ours any more. */
static bool
is_left_to_strays(const Unlinked *file)
{
	return file->ctl != NULL && !lsm_control_lives(file->ctl, file->life);
}

/*
 * While a copy of the relation (SET TABLESPACE) is not committed, two forks
 * name the keyspace, and the older one may need the file again.
 */
static bool
keyspace_is_shared(uint64 keyspace_id)
{
	LsmOwner   *owners = NULL;
	int			n = lsm_keyspace_owners(keyspace_id, &owners);
	int			alive = 0;

	/* the files wait until it can be told, or become strays */
	if (n == LSM_OWNERS_UNREADABLE)
		return true;
	for (int i = 0; i < n; i++)
	{
		if (lsm_fork_exists(owners[i].rlocator, owners[i].backend))
			alive++;
	}
	if (owners != NULL)
		pfree(owners);
	return alive > 1;
}

/* Files of one keyspace, from the queue's i-th on; returns where they end. */
static int
drain_keyspace(int i, int *kept)
{
	uint64		id = unlink_queue[i].keyspace_id;
	bool		locked = lsm_keyspace_lock_if_free(id, ShareLock);
	bool		shared = !locked || keyspace_is_shared(id);

	for (; i < unlink_queued && unlink_queue[i].keyspace_id == id; i++)
	{
		Unlinked	file = unlink_queue[i];

		if (is_left_to_strays(&file))
			continue;
		if (!shared && lsm_epoch_passed(file.epoch))
			unlink_one(&file);
		else
			unlink_queue[(*kept)++] = file;
	}
	if (locked)
		lsm_keyspace_unlock(id, ShareLock);
	return i;
}

void
lsm_unlink_drain(bool wait)
{
	int			kept = 0;

	if (unlink_queued == 0)
		return;
	Assert(!lsm_epoch_inside());
	if (wait)
		lsm_epoch_wait(unlink_queue[unlink_queued - 1].epoch);

	LSM_CRASH_POINT("unlink_queue");
	for (int i = 0; i < unlink_queued;)
		i = drain_keyspace(i, &kept);
	unlink_queued = kept;
}

static void
unlink_at_exit(int code, Datum arg)
{
	/* announcements last microseconds, unless a reader waits for storage */
	for (int tries = 0; tries < EXIT_TRIES && unlink_queued > 0 &&
		 !lsm_epoch_passed(unlink_queue[unlink_queued - 1].epoch); tries++)
		pg_usleep(EXIT_NAP_US);

	for (int i = 0; i < unlink_queued; i++)
	{
		if (lsm_epoch_passed(unlink_queue[i].epoch) &&
			!is_left_to_strays(&unlink_queue[i]) &&
			!keyspace_is_shared(unlink_queue[i].keyspace_id))
			unlink_one(&unlink_queue[i]);
	}
	unlink_queued = 0;
}

/*
 * Queue what the edit removed and did not add again.  REQUIRES: room reserved.
 */
void
lsm_unlink_enqueue(LsmJob *job, const LsmEdit *edit)
{
	uint64		epoch = lsm_epoch_advance();

	for (int i = 0; i < edit->nremoved; i++)
	{
		bool		moved = false;

		for (int j = 0; j < edit->nadded && !moved; j++)
			moved = edit->added[j].number == edit->removed[i];
		if (!moved)
		{
			Assert(unlink_queued < unlink_max);
			unlink_queue[unlink_queued].keyspace_id = job->keyspace_id;
			unlink_queue[unlink_queued].number = edit->removed[i];
			unlink_queue[unlink_queued].epoch = epoch;
			unlink_queue[unlink_queued].ctl = job->ctl->local ? NULL : job->ctl;
			unlink_queue[unlink_queued].life = job->ctl->life;
			unlink_queued++;
		}
	}
}

/* Each process that publishes: at its first job. */
void
lsm_unlink_register(void)
{
	static bool registered = false;

	if (registered)
		return;
	before_shmem_exit(unlink_at_exit, (Datum) 0);
	registered = true;
}
