/*-------------------------------------------------------------------------
 *
 * filecache.c
 *	  Sorted files and filters this process has open: readers over mapped
 *	  files, found by keyspace and file number.  Beyond lsm.max_open_files, or
 *	  what the system has mappings for, those are closed that were not used for
 *	  long.
 *
 * No lock: private to the process.  Nothing here is released by the end of a
 * transaction; pins belong to cursors, which give them back from memory
 * context callbacks.  A file is opened at most once per process; at that time
 * its filter's checksum is verified, and that both files are those the file
 * list means.
 *
 * A filter is worth time and nothing else: without one, every question is
 * answered by the sorted file.  So a filter that is missing, damaged or
 * another file's is a WARNING, the file is used without it, and lsm_compact()
 * builds it again (repair.c).  The tree's list of files changes when that is
 * done; then (lsm_version_refresh) the file is opened anew.
 *
 * Filters that are read by pages are neither mapped nor read at that time: only
 * their header is kept, and a probe reads its page through fd.c, which can
 * close the descriptor in between.  (That opens the file again by its name.
 * Files of the current version have theirs as long as we are inside the
 * epoch.)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/read/elastic_probe.h"
#include "tree/read/filecache.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

typedef struct FileKey
{
	uint64		keyspace_id;
	uint64		number;
} FileKey;

typedef struct FileEntry
{
	FileKey		key;
	LsmOpenFile *open;
} FileEntry;

uint64		lsm_filecache_operation = 1;

static HTAB *file_hash = NULL;

/* open files (in the hash), and closed structs for reuse */
static LsmOpenFile **open_files = NULL;
static int	nopen_files = 0;
static int	max_open_files = 0;
static LsmOpenFile **spare_files = NULL;

/* Where the search for a file to close goes on, in open_files */
static int	hand = 0;

/* Of the open files, those with filter_damaged */
static int	ndamaged_filters = 0;
static int	nspare_files = 0;

/* For HASH_ENTER_NULL, which does not go with the default allocator. */
static void *
lsm_allocate_entries(Size size, void *arg)
{
	return MemoryContextAllocExtended(TopMemoryContext, size, MCXT_ALLOC_NO_OOM);
}

/* Grow the arrays so that one more file can be noted without failing. */
static void
filecache_prepare(void)
{
	if (file_hash == NULL)
	{
		HASHCTL		ctl = {0};

		ctl.keysize = sizeof(FileKey);
		ctl.entrysize = sizeof(FileEntry);
		ctl.alloc = lsm_allocate_entries;
		file_hash = hash_create("lsm open files", 256, &ctl,
								HASH_ELEM | HASH_BLOBS | HASH_ALLOC);
	}
	if (max_open_files == 0)
	{
		open_files = MemoryContextAlloc(TopMemoryContext,
										64 * sizeof(LsmOpenFile *));
		spare_files = MemoryContextAlloc(TopMemoryContext,
										 64 * sizeof(LsmOpenFile *));
		max_open_files = 64;
	}
	else if (nopen_files + nspare_files >= max_open_files)
	{
		int			n = max_open_files * 2;

		open_files = repalloc(open_files, n * sizeof(LsmOpenFile *));
		spare_files = repalloc(spare_files, n * sizeof(LsmOpenFile *));
		max_open_files = n;
	}
	if (nspare_files == 0)
	{
		spare_files[0] = MemoryContextAllocZero(TopMemoryContext,
												sizeof(LsmOpenFile));
		spare_files[0]->serial = 1;
		nspare_files = 1;
	}
}

/* Never fails. */
static void
close_filter(LsmOpenFile *open)
{
	if (open->blob.data != NULL)
		lsm_sst_unmap_blob(&open->blob);
	open->blob.data = NULL;
	open->blob.bytes = 0;
	if (open->paged)
		FileClose(open->page_file);
	open->paged = false;
	lsm_elastic_view_close(open);
	open->has_filter = false;
}

/* REQUIRES: not pinned.  Never fails. */
static void
close_file(LsmOpenFile *open)
{
	Assert(open->pins == 0);
	lsm_filestats_publish_file(open);
	if (open->idle_iter != NULL)
		lsm_sst_iter_close(open->idle_iter);
	if (open->reader != NULL)
		lsm_sst_close(open->reader);
	close_filter(open);
	if (open->filter_damaged)
		ndamaged_filters--;
	open->filter_damaged = false;
	open->idle_iter = NULL;
	open->reader = NULL;
	Assert(open_files[open->at] == open);
	open_files[open->at] = open_files[--nopen_files];
	open_files[open->at]->at = open->at;
	spare_files[nspare_files++] = open;
}

/* No longer found by anyone; closed now or with its last pin. */
static void
forget_file(LsmOpenFile *open)
{
	FileKey		key = {open->keyspace_id, open->number};

	(void) hash_search(file_hash, &key, HASH_REMOVE, NULL);
	open->serial++;
	open->forgotten = true;
	if (open->pins == 0)
		close_file(open);
}

void
lsm_filecache_forget(uint64 keyspace_id, uint64 number)
{
	FileKey		key = {keyspace_id, number};
	FileEntry  *entry;

	if (file_hash == NULL)
		return;
	entry = hash_search(file_hash, &key, HASH_FIND, NULL);
	if (entry != NULL)
		forget_file(entry->open);
}

/*
 * A file whose filter was built again stays in its level, and one that moves does
 * not.  A filter that is built with the options of the former one is equal to
 * what that was before it was damaged, check and all.
 */
void
lsm_filecache_forget_other(const LsmFile *file, uint64 keyspace_id, bool edited)
{
	FileKey		key = {keyspace_id, file->number};
	FileEntry  *entry;

	if (file_hash == NULL)
		return;
	entry = hash_search(file_hash, &key, HASH_FIND, NULL);
	if (entry != NULL &&
		(entry->open->filter_check != file->filter_check ||
		 (edited && entry->open->level == file->level)))
		forget_file(entry->open);
}

int
lsm_filecache_count(void)
{
	return nopen_files;
}

bool
lsm_filecache_nth(int i, uint64 keyspace_id, uint64 *number)
{
	*number = open_files[i]->number;
	return open_files[i]->keyspace_id == keyspace_id && !open_files[i]->forgotten;
}

/*
 * Close files until `most` are open.  A hand goes round and takes those that
 * were not used since it came by last (the clock algorithm): whatever the number
 * of open files, it seldom has to pass over many.
 */
static void
close_down_to(int most)
{
	/* each is passed over once, and then not again unless it is in use */
	for (int passes = 2 * nopen_files; nopen_files > most && passes > 0; passes--)
	{
		LsmOpenFile *open;

		if (hand >= nopen_files)
			hand = 0;
		open = open_files[hand];
		if (open->pins > 0 || open->last_operation == lsm_filecache_operation)
			hand++;
		else if (open->last_operation != open->seen_operation)
		{
			open->seen_operation = open->last_operation;
			hand++;
		}
		else
			forget_file(open);
	}
}

/*
 * A file takes two mappings, and perhaps a third for what the reader keeps in
 * memory.  The system gives a process this many (vm.max_map_count), and whoever
 * has them all gets no memory for anything else: so we keep away from that.
 */
#define MAPPINGS_PER_FILE	3
#define MAPPINGS_OF_OTHERS	4096
#define MAPPINGS_ASSUMED	65530

static int
mappable_files(void)
{
	static int	files = 0;
	long		mappings = MAPPINGS_ASSUMED;
	FILE	   *f;

	if (files > 0)
		return files;
	f = AllocateFile("/proc/sys/vm/max_map_count", "r");
	if (f != NULL)
	{
		if (fscanf(f, "%ld", &mappings) != 1)
			mappings = MAPPINGS_ASSUMED;
		FreeFile(f);
	}
	files = (int) Min(Max((mappings - MAPPINGS_OF_OTHERS) / MAPPINGS_PER_FILE, 16), 1000000);
	return files;
}

/* Room for one more. */
static void
make_room(void)
{
	close_down_to(Min(lsm_max_open_files, mappable_files()) - 1);
}

/*
 * The system had no memory for a mapping.  Is there anything to be given up?
 */
static bool
give_up_mappings(const LsmSstError *err)
{
	int			before = nopen_files;

	if (err->sys_errno != ENOMEM)
		return false;
	close_down_to(nopen_files / 2);
	return nopen_files < before;
}

void
lsm_file_settle_error(const LsmFile *file, LsmSstError *err)
{
	if (err->status == LSM_SST_UNSUPPORTED && (file->flags & LSM_FILE_HAS_CHECKS) &&
		(uint32) err->tail_digest != file->sst_check)
		err->status = LSM_SST_CORRUPT;
}

const char *
lsm_file_mismatch(const LsmFile *file, const LsmSstReader *reader)
{
	const LsmSstProperties *props = lsm_sst_properties(reader);

	if (props->file_bytes != file->file_bytes)
		return "its size differs from the one in the file list";
	if (props->entries != file->entries)
		return "its number of entries differs from the one in the file list";
	if ((file->flags & LSM_FILE_HAS_CHECKS) &&
		(uint32) props->tail_digest != file->sst_check)
		return "it is another file than the one in the file list";
	return NULL;
}

/*
 * The header tells one filter from another: it has the checksum of all the
 * rest.
 */
uint32
lsm_filter_check(const void *image, size_t bytes)
{
	return (uint32) lsm_digest_key(image, Min(bytes, 64));
}

const char *
lsm_filter_mismatch(const LsmFile *file, const LsmSstBlob *blob)
{
	if (blob->bytes != file->filter_bytes)
		return "its size differs from the one in the file list";
	if ((file->flags & LSM_FILE_HAS_CHECKS) &&
		lsm_filter_check(blob->data, blob->bytes) != file->filter_check)
		return "it is another file than the one in the file list";
	return NULL;
}

LsmSstReader *
lsm_file_open_sorted(LsmTree *tree, const LsmFile *file)
{
	LsmSstReader *reader;
	LsmSstError err;
	const char *why;
	char		path[MAXPGPATH];

	lsm_file_path(tree, file->number, false, path);
	while (lsm_sst_open(path, &reader, &err) != LSM_SST_OK)
	{
		if (!give_up_mappings(&err))
		{
			lsm_file_settle_error(file, &err);
			lsm_sst_report(ERROR, &err);
		}
	}
	why = lsm_file_mismatch(file, reader);
	if (why != NULL)
	{
		lsm_sst_close(reader);
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("sorted file \"%s\" is corrupt: %s", path, why),
				 errhint("Restore the file from a backup, or rebuild the index or table.")));
	}
	return reader;
}

/* Nothing is left open of `open`. */
static void
close_unfinished(LsmOpenFile *open)
{
	close_filter(open);
	lsm_sst_close(open->reader);
	open->reader = NULL;
}

/*
 * Open a filter that is read by pages.  False: it is not what the file list
 * says, and to be dealt with as any other.
 */
static bool
open_paged_filter(const char *path, const LsmFile *file, LsmOpenFile *open)
{
	char		header[LSM_FILTER_HEADER_BYTES];
	LsmSstBlob	blob = {header, 0}; /* as far as checks look at it */
	const char *why;
	struct stat st;

	open->page_file = PathNameOpenFile(path, O_RDONLY | PG_BINARY);
	if (open->page_file < 0)
		return false;
	open->paged = true;
	blob.bytes = (size_t) Max(FileSize(open->page_file), 0);
	if (blob.bytes >= sizeof(header) &&
		FileRead(open->page_file, header, sizeof(header), 0,
				 LSM_WAIT_EVENT("LsmFilterRead")) == sizeof(header) &&
		lsm_filter_open(header, blob.bytes, false, &open->filter,
						&why) == LSM_FILTER_OK &&
		lsm_filter_is_paged(&open->filter) &&
		lsm_filter_mismatch(file, &blob) == NULL &&
		fstat(FileGetRawDesc(open->page_file), &st) == 0)
	{
		open->page_inode = st.st_ino;
		open->has_filter = true;
		return true;
	}
	close_filter(open);
	return false;
}

/*
 * What was read is of the file whose header was looked at: PostgreSQL closes
 * descriptors when it runs short of them, and opens the name again.  That may
 * be a filter's that was built anew, of another shape, before the list of files
 * says so.  One that is damaged in place is the same, and is reported.
 * REQUIRES: a read of it, just now.
 */
static inline bool
page_file_is_same(const LsmOpenFile *open)
{
	struct stat now;

	return fstat(FileGetRawDesc(open->page_file), &now) == 0 &&
		now.st_ino == open->page_inode;
}

/*
 * Open the filter into `open`, mapped unless it is paged.  False: it is of no
 * use; *why, or else *err, says why not.  On error nothing is left mapped, and
 * the reader is closed.
 */
static bool
open_filter(LsmTree *tree, LsmFile *file, LsmOpenFile *open, const char **why, LsmSstError *err)
{
	char		path[MAXPGPATH];
	LsmFilterStatus status;
	LsmElastic	shape;

	*why = NULL;
	open->has_filter = false;
	open->ones_say_no = false;
	Assert(open->elastic == NULL);
	if (lsm_filter_scheme_has(file->filter_scheme, LSM_FILTER_EMPTY))
		return true;

	lsm_file_path(tree, file->number, true, path);
	if (lsm_filter_scheme_has(file->filter_scheme, LSM_FILTER_PAGES) &&
		open_paged_filter(path, file, open))
		return true;
	while (lsm_sst_map_blob(path, &open->blob, err) != LSM_SST_OK)
	{
		open->blob.data = NULL;
		if (give_up_mappings(err))
			continue;
		if (lsm_sst_lacks_resources(err))
		{
			close_unfinished(open);
			lsm_sst_report(ERROR, err);
		}
		return false;
	}
	status = lsm_filter_open(open->blob.data, open->blob.bytes, true,
							 &open->filter, why);
	if (status == LSM_FILTER_OK || status == LSM_FILTER_UNKNOWN)
	{
		*why = lsm_filter_mismatch(file, &open->blob);
		if (*why != NULL)
			status = LSM_FILTER_CORRUPT;
	}
	if (status == LSM_FILTER_OK && lsm_filter_scheme_has(open->filter.scheme, LSM_FILTER_UNITS))
	{
		status = lsm_elastic_open(&open->filter, &shape, why);
		if (status == LSM_FILTER_OK &&
			!lsm_elastic_view_open(open, &shape, tree->keyspace_id, file->number))
		{
			close_unfinished(open);
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory")));
		}
	}
	if (status == LSM_FILTER_OK)
	{
		open->has_filter = !lsm_filter_scheme_has(open->filter.scheme, LSM_FILTER_EMPTY);
		open->ones_say_no = lsm_filter_scheme_has(open->filter.scheme, LSM_FILTER_ONES_SAY_NO);
	}
	else if (status != LSM_FILTER_UNKNOWN)
	{
		close_filter(open);
		if (*why == NULL)
			*why = "it cannot be opened";
		return false;
	}
	return true;
}

void
lsm_file_filter_damaged(LsmOpenFile *open, const char *message, const char *why)
{
	char		path[MAXPGPATH];

	open->has_filter = false;
	if (!open->filter_damaged)
		ndamaged_filters++;
	open->filter_damaged = true;

	/* may raise an error (cancel): last */
	if (!lsm_warn_about_file(open->keyspace_id, open->number))
		return;
	lsm_keyspace_file_path(open->keyspace_id, open->number, true, path);
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 message != NULL ? errmsg("%s", message) :
			 errmsg("filter file \"%s\" is corrupt: %s", path, why),
			 errdetail("The sorted file is read without its filter until that has been built again."),
			 RecoveryInProgress() ? 0 : errhint("lsm_compact() builds it again.")));
}

void
lsm_filecache_forget_damaged(uint64 keyspace_id)
{
	/* backwards: what is closed leaves its place to the last one */
	for (int i = nopen_files - 1; i >= 0 && ndamaged_filters > 0; i--)
	{
		if (open_files[i]->keyspace_id == keyspace_id && open_files[i]->filter_damaged &&
			!open_files[i]->forgotten)
			forget_file(open_files[i]);
	}
}

LsmOpenFile *
lsm_file_open_slow(LsmTree *tree, LsmFile *file)
{
	FileKey		key = {tree->keyspace_id, file->number};
	FileEntry  *entry;
	LsmOpenFile *open;
	LsmSstError err;
	const char *why;
	int			spare;
	bool		usable;
	bool		found;

	filecache_prepare();
	entry = hash_search(file_hash, &key, HASH_FIND, NULL);

	/* of a database that is gone, whose keyspace's id has come again, perhaps */
	if (entry != NULL && entry->open->life != lsm_tree_life(tree))
	{
		forget_file(entry->open);
		entry = NULL;
	}
	if (entry != NULL)
	{
		open = entry->open;
		if (open->level != file->level)
			lsm_filestats_publish_file(open);
		open->level = file->level;
		open->last_operation = lsm_filecache_operation;
		file->open = open;
		file->open_serial = open->serial;
		return open;
	}

	make_room();
	filecache_prepare();

	/*
	 * stays a spare one until everything has succeeded; behind it may come
	 * those that are closed for want of mappings
	 */
	spare = nspare_files - 1;
	open = spare_files[spare];
	Assert(open->reader == NULL && open->pins == 0);
	open->reader = lsm_file_open_sorted(tree, file);
	usable = open_filter(tree, file, open, &why, &err);

	/* HASH_ENTER may fail for lack of memory: give back what was opened */
	entry = hash_search(file_hash, &key, HASH_ENTER_NULL, &found);
	if (entry == NULL)
	{
		close_unfinished(open);
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	}
	entry->open = open;
	Assert(spare_files[spare] == open);
	spare_files[spare] = spare_files[--nspare_files];
	open->at = nopen_files;
	open_files[nopen_files++] = open;
	open->keyspace_id = tree->keyspace_id;
	open->number = file->number;
	open->life = lsm_tree_life(tree);
	open->level = file->level;
	open->filter_check = file->filter_check;
	open->faults_seen = 0;
	open->counts_entry = NULL;
	open->dboid = tree->rlocator.dbOid;
	open->serial++;
	open->forgotten = false;
	open->idle_iter = NULL;
	open->hit_rate = 0;
	open->blocks_counted = 0;
	open->pages_counted = 0;
	open->last_operation = lsm_filecache_operation;
	open->seen_operation = 0;
	open->filter_damaged = false;
	file->open = open;
	file->open_serial = open->serial;
	if (!usable)
		lsm_file_filter_damaged(open, why == NULL ? err.message : NULL, why);
	return open;
}

/*
 * For EXPLAIN (BUFFERS), pg_statio_*, pg_stat_io and pg_stat_statements a page
 * of a file is a buffer that was hit: whether the system had it in memory is not
 * known without asking it for each.
 */
static void
count_pages(LsmTree *tree, uint64 n)
{
	bool		local = tree->rel != NULL && RelationUsesLocalBuffers(tree->rel);

	if (local)
		pgBufferUsage.local_blks_hit += n;
	else
		pgBufferUsage.shared_blks_hit += n;
	lsm_pgstat_count_io_hits(local, n);
	if (tree->rel != NULL)
		lsm_pgstat_count_buffer_hits(tree->rel, n);
}

bool
lsm_file_probe_page(LsmTree *tree, LsmOpenFile *open, LsmDigest digest)
{
	static PGAlignedBlock page;
	uint64		offset = lsm_filter_page_offset(&open->filter, digest);
	bool		maybe;
	int			n;

	StaticAssertStmt(sizeof(page) >= LSM_FILTER_PAGE_BYTES,
					 "a filter page does not fit in a block");
	n = FileRead(open->page_file, page.data, LSM_FILTER_PAGE_BYTES, (off_t) offset,
				 LSM_WAIT_EVENT("LsmFilterRead"));
	lsm_count(tree, LSM_COUNT_BLOCKS_READ, 1);
	count_pages(tree, 1);
	if (n >= 0 && unlikely(!page_file_is_same(open)))
	{
		/* until the list of files has the new one */
		open->has_filter = false;
		return true;
	}
	if (likely(n == LSM_FILTER_PAGE_BYTES) &&
		lsm_filter_probe_page(&open->filter, page.data, digest, &maybe) == LSM_FILTER_OK)
		return maybe;

	lsm_file_filter_damaged(open, NULL,
							n < 0 ? "a page cannot be read" :
							n == LSM_FILTER_PAGE_BYTES ? "checksum of a page is wrong" :
							"file was truncated");
	return true;
}

/*
 * Pages that cannot be read turn into ones, once and for good, when they are
 * first touched (sst/mapping.h).  So whoever touches one must notice, also if
 * the probe said maybe.  The count is of all filters mapped here; one that is
 * mapped for a moment may be of a file that has just gone.
 */
bool
lsm_file_look_for_faults(LsmTree *tree, LsmOpenFile *open)
{
	char		path[MAXPGPATH];

	open->faults_seen = lsm_sst_blob_faults();
	if (!lsm_sst_blob_faulted(&open->blob))
		return false;
	lsm_file_path(tree, open->number, true, path);
	lsm_file_filter_damaged(open,
							psprintf("could not read filter file \"%s\": the file was truncated or the storage reported an error",
									 path),
							NULL);
	return true;
}

LsmSstIter *
lsm_file_acquire_iter(LsmOpenFile *open)
{
	LsmSstIter *iter = open->idle_iter;

	if (iter != NULL)
		open->idle_iter = NULL;
	else
	{
		LsmSstError err;

		lsm_sst_check(lsm_sst_iter_open(open->reader, &iter, &err), &err);
	}
	open->pins++;
	return iter;
}

void
lsm_file_release_iter(LsmOpenFile *open, LsmSstIter *iter)
{
	Assert(open->pins > 0);
	if (open->idle_iter == NULL && !open->forgotten)
		open->idle_iter = iter;
	else
		lsm_sst_iter_close(iter);
	if (--open->pins == 0 && open->forgotten)
		close_file(open);
}

void
lsm_file_count_blocks(LsmTree *tree, LsmOpenFile *open)
{
	uint64		blocks = lsm_sst_blocks_read(open->reader);
	uint64		pages;

	if (blocks == open->blocks_counted)
		return;
	lsm_count(tree, LSM_COUNT_BLOCKS_READ, blocks - open->blocks_counted);
	open->blocks_counted = blocks;
	pages = lsm_sst_pages_read(open->reader);
	if (pages != open->pages_counted)
		count_pages(tree, pages - open->pages_counted);
	open->pages_counted = pages;
}
