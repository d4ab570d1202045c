/*-------------------------------------------------------------------------
 *
 * filestats.c
 *	  What became of the questions asked of each file's filter: counted in the
 *	  open file, published at the end of the transaction (a statement of a
 *	  function may ask many files once each).
 *
 * The counts of all sessions are in a table in shared memory of fixed size, a
 * cache with sets of FILESTAT_WAYS entries: a file that finds no room takes
 * the place of the one in its set whose counts are the longest untouched, and
 * starts from zero.  At one entry for 64 MB (lsm.target_file_size) the table
 * is enough for 1 TB of sorted files. Entries of files that are gone are
 * replaced in the same way.
 *
 * Locking: a spinlock per set to give an entry to a file.  Adding to an entry
 * takes no lock: the identity is looked at before, and an entry that changes
 * hands between the two shows a few questions too many.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "port/atomics.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#include "tree/read/filecache.h"
#include "tree/read/read.h"

#define FILESTAT_WAYS	8
#define FILESTAT_SETS	2048

typedef struct FileStat
{
	pg_atomic_uint64 keyspace_id;	/* 0: free */
	pg_atomic_uint64 number;
	pg_atomic_uint64 used;		/* statement's start, microseconds */
	pg_atomic_uint64 dboid;
	pg_atomic_uint64 negatives;
	pg_atomic_uint64 true_positives;
	pg_atomic_uint64 false_positives;
	uint64		unused;			/* a cache line */
} FileStat;

typedef struct FileStatShared
{
	FileStat	stats[FILESTAT_SETS * FILESTAT_WAYS];
	slock_t		locks[FILESTAT_SETS];
} FileStatShared;

static FileStatShared *shared = NULL;

LsmFilterCounts lsm_level_counts[LSM_MAX_LEVELS];

/* open files with something to publish */
static dlist_head filestats_pending = DLIST_STATIC_INIT(filestats_pending);

Size
lsm_filestats_shmem_bytes(void)
{
	return sizeof(FileStatShared);
}

/*
 * Create or attach.  REQUIRES: AddinShmemInitLock held.
 */
void
lsm_filestats_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("lsmam filter counts of files",
							 lsm_filestats_shmem_bytes(), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(FileStatShared));
	for (int i = 0; i < FILESTAT_SETS * FILESTAT_WAYS; i++)
	{
		FileStat   *stat = &shared->stats[i];

		pg_atomic_init_u64(&stat->keyspace_id, 0);
		pg_atomic_init_u64(&stat->number, 0);
		pg_atomic_init_u64(&stat->used, 0);
		pg_atomic_init_u64(&stat->dboid, 0);
		pg_atomic_init_u64(&stat->negatives, 0);
		pg_atomic_init_u64(&stat->true_positives, 0);
		pg_atomic_init_u64(&stat->false_positives, 0);
	}
	for (int i = 0; i < FILESTAT_SETS; i++)
		SpinLockInit(&shared->locks[i]);
}

static int
filestat_set(uint64 keyspace_id, uint64 number)
{
	uint64		key[2] = {keyspace_id, number};

	return (int) (lsm_digest_key(key, sizeof(key)) % FILESTAT_SETS);
}

static inline bool
filestat_is(FileStat *stat, uint64 keyspace_id, uint64 number)
{
	return pg_atomic_read_u64(&stat->number) == number &&
		pg_atomic_read_u64(&stat->keyspace_id) == keyspace_id;
}

/* NULL if the file has no entry. */
static FileStat *
filestat_find(uint64 keyspace_id, uint64 number)
{
	FileStat   *set = &shared->stats[filestat_set(keyspace_id, number) * FILESTAT_WAYS];

	for (int i = 0; i < FILESTAT_WAYS; i++)
	{
		if (filestat_is(&set[i], keyspace_id, number))
			return &set[i];
	}
	return NULL;
}

/* The file's entry, perhaps at the cost of another's. */
static FileStat *
filestat_enter(const LsmOpenFile *open)
{
	int			set_no = filestat_set(open->keyspace_id, open->number);
	FileStat   *set = &shared->stats[set_no * FILESTAT_WAYS];
	FileStat   *stat;

	SpinLockAcquire(&shared->locks[set_no]);
	stat = filestat_find(open->keyspace_id, open->number);
	if (stat == NULL)
	{
		stat = &set[0];
		for (int i = 1; i < FILESTAT_WAYS; i++)
		{
			if (pg_atomic_read_u64(&set[i].used) < pg_atomic_read_u64(&stat->used))
				stat = &set[i];
		}
		pg_atomic_write_u64(&stat->keyspace_id, 0);
		pg_atomic_write_u64(&stat->negatives, 0);
		pg_atomic_write_u64(&stat->true_positives, 0);
		pg_atomic_write_u64(&stat->false_positives, 0);
		pg_atomic_write_u64(&stat->dboid, open->dboid);
		pg_atomic_write_u64(&stat->number, open->number);
		pg_atomic_write_u64(&stat->keyspace_id, open->keyspace_id);
	}
	SpinLockRelease(&shared->locks[set_no]);
	return stat;
}

/*
 * The first count of an open file since the last time.
 */
void
lsm_filestats_pend(LsmOpenFile *open)
{
	open->counts_pending = true;
	dlist_push_tail(&filestats_pending, &open->counts_node);
}

/* Add to a number that many add to; most of the time there is nothing. */
static inline void
filestat_add(pg_atomic_uint64 *to, uint64 n)
{
	if (n > 0)
		pg_atomic_fetch_add_u64(to, n);
}

/*
 * Publish one file's counts, here by level, in shared memory by file.  Never
 * fails.
 */
void
lsm_filestats_publish_file(LsmOpenFile *open)
{
	const LsmFilterCounts *counts = &open->counts;
	LsmFilterCounts *level = &lsm_level_counts[open->level];
	FileStat   *stat = open->counts_entry;

	if (!open->counts_pending)
		return;
	dlist_delete(&open->counts_node);
	open->counts_pending = false;

	if (stat == NULL || !filestat_is(stat, open->keyspace_id, open->number))
		open->counts_entry = stat = filestat_enter(open);
	pg_atomic_write_u64(&stat->used, (uint64) GetCurrentStatementStartTimestamp());
	filestat_add(&stat->negatives, counts->negatives);
	filestat_add(&stat->true_positives, counts->true_positives);
	filestat_add(&stat->false_positives, counts->false_positives);

	if (open->has_filter)
	{
		level->negatives += counts->negatives;
		level->true_positives += counts->true_positives;
		level->false_positives += counts->false_positives;
	}
	memset(&open->counts, 0, sizeof(LsmFilterCounts));
}

void
lsm_filestats_publish(void)
{
	while (!dlist_is_empty(&filestats_pending))
		lsm_filestats_publish_file(dlist_container(LsmOpenFile, counts_node,
												   dlist_head_node(&filestats_pending)));
}

/*
 * Counts of a file by all sessions, as far as they are published; zeros if it
 * has no entry.
 */
void
lsm_filestats_read(uint64 keyspace_id, uint64 number, LsmFilterCounts *counts)
{
	FileStat   *stat = filestat_find(keyspace_id, number);

	memset(counts, 0, sizeof(LsmFilterCounts));
	if (stat == NULL)
		return;
	counts->negatives = pg_atomic_read_u64(&stat->negatives);
	counts->true_positives = pg_atomic_read_u64(&stat->true_positives);
	counts->false_positives = pg_atomic_read_u64(&stat->false_positives);
}

/*
 * Start from zero: the files of a database, InvalidOid: of all.
 */
void
lsm_filestats_reset(Oid dboid)
{
	for (int i = 0; i < FILESTAT_SETS * FILESTAT_WAYS; i++)
	{
		FileStat   *stat = &shared->stats[i];

		if (OidIsValid(dboid) && pg_atomic_read_u64(&stat->dboid) != dboid)
			continue;
		pg_atomic_write_u64(&stat->negatives, 0);
		pg_atomic_write_u64(&stat->true_positives, 0);
		pg_atomic_write_u64(&stat->false_positives, 0);
	}
}
