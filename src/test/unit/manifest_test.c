/*-------------------------------------------------------------------------
 *
 * manifest_test.c
 *	  src/tree/disk/manifest.c, fileset.c, page.c and metapage.c, with pages that are
 *	  an array, and the versions that read/version.c makes of the list.  Cases:
 *	  cases/manifest.  Then edits against a plain list.  TAP output.
 *
 *	manifest
 *	edit [full]		lines: add NUMBER LEVEL [RUN], move NUMBER LEVEL, remove NUMBER,
 *					many FIRST LAST LEVEL, gone FIRST LAST (of those that the last
 *					look has seen), generation N, rewrite; full: the fork cannot be
 *					extended
 *	read			all of it
 *	look			what has changed since the last look
 *	version			runs, newest data first, and which of them are those of before
 *	damage PAGE OFFSET	a byte of the n-th page of the chain, for a read
 *	record			lines of bytes, put behind the chain; for a read
 *	pages			blocks: m (manifest), o (of an old one), l (log), f (free)
 *	log GENERATION N	so many log pages
 *	numbers N		so many are reserved
 *
 * LSM_SEED repeats a run.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#define USE_ASSERT_CHECKING 1

#include "server.h"

#include "access/xloginsert.h"
#include "port/pg_crc32c.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/hsearch.h"

#include "tree/disk/wal.h"
#include "tap.h"
#include "cases.h"

/* ---- the server: pages, locks, WAL that goes nowhere ---- */

#define MAX_PAGES	3000

static PGAlignedBlock fork_pages[MAX_PAGES];
static BlockNumber npages;
static int	pins[MAX_PAGES];
static int	locks[MAX_PAGES];	/* 0, or the mode */
static int	nlocked;
static int	room_left;			/* pages that the fork can be extended by */
static void (*extend_hook) (void);	/* what others do meanwhile */
static XLogRecPtr last_lsn;

char	   *BufferBlocks = (char *) fork_pages;
Block	   *LocalBufferBlockPointers;
int			NBuffers = MAX_PAGES;
int			NLocBuffer = 0;

static pg_crc32c
crc32c(pg_crc32c crc, const void *data, size_t bytes)
{
	static uint32 table[256];

	for (uint32 i = 0; table[255] == 0 && i < 256; i++)
	{
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = (table[i] >> 1) ^ ((table[i] & 1) ? 0x82F63B78 : 0);
	}
	for (const uint8 *at = data; bytes > 0; bytes--)
		crc = table[(crc ^ *at++) & 0xff] ^ (crc >> 8);
	return crc;
}

Buffer
ReadBufferWithoutRelcache(RelFileLocator rlocator, ForkNumber fork, BlockNumber block,
						  ReadBufferMode mode, BufferAccessStrategy strategy, bool permanent)
{
	if (block >= npages)
		elog(ERROR, "block %u is not there", block);
	pins[block]++;
	return block + 1;
}

Buffer
ReadBuffer(Relation rel, BlockNumber block)
{
	abort();
}

Buffer
ReadBufferExtended(Relation rel, ForkNumber fork, BlockNumber block, ReadBufferMode mode,
				   BufferAccessStrategy strategy)
{
	abort();
}

BlockNumber
BufferGetBlockNumber(Buffer buffer)
{
	return buffer - 1;
}

void
ReleaseBuffer(Buffer buffer)
{
	Assert(pins[buffer - 1] > 0);
	pins[buffer - 1]--;
}

/* whoever waits for himself waits for ever */
static void
lock_buffer(Buffer buffer, int mode)
{
	int		   *lock = &locks[buffer - 1];

	Assert(pins[buffer - 1] > 0);
	Assert(mode == BUFFER_LOCK_UNLOCK ? *lock != 0 : *lock == 0);
	nlocked += mode == BUFFER_LOCK_UNLOCK ? -1 : 1;
	*lock = mode;
}

#undef LockBuffer
#define LockBuffer(buffer, mode) lock_buffer(buffer, mode)

bool
ConditionalLockBuffer(Buffer buffer)
{
	if (locks[buffer - 1] != 0)
		return false;
	lock_buffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	return true;
}

void
UnlockReleaseBuffer(Buffer buffer)
{
	lock_buffer(buffer, BUFFER_LOCK_UNLOCK);
	ReleaseBuffer(buffer);
}

static Buffer
extend_fork(void)
{
	if (room_left == 0)
		elog(ERROR, "disk full");
	room_left--;
	if (extend_hook != NULL)
		extend_hook();
	Assert(npages < MAX_PAGES);
	memset(&fork_pages[npages], 0, BLCKSZ);
	pins[npages] = 1;
	lock_buffer(npages + 1, BUFFER_LOCK_EXCLUSIVE);
	return ++npages;
}

void
MarkBufferDirty(Buffer buffer)
{
	Assert(locks[buffer - 1] == BUFFER_LOCK_EXCLUSIVE && CritSectionCount > 0);
}

void
PageInit(Page page, Size bytes, Size special_bytes)
{
	PageHeader	header = (PageHeader) page;

	memset(page, 0, bytes);
	header->pd_lower = SizeOfPageHeaderData;
	header->pd_upper = header->pd_special = bytes - MAXALIGN(special_bytes);
	PageSetPageSizeAndVersion(page, bytes, PG_PAGE_LAYOUT_VERSION);
}

/* a hash table that is a list */
struct HTAB
{
	Size		entry_bytes;
	int			n;
	int			room;
	char	  **entries;
};

HTAB *
hash_create(const char *name, long nelem, const HASHCTL *info, int flags)
{
	HTAB	   *table = palloc0(sizeof(HTAB));

	Assert(info->keysize == sizeof(uint64));
	table->entry_bytes = info->entrysize;
	table->room = 64;
	table->entries = palloc(table->room * sizeof(char *));
	return table;
}

void *
hash_search(HTAB *table, const void *key, HASHACTION action, bool *found)
{
	int			at = 0;

	while (at < table->n && memcmp(table->entries[at], key, sizeof(uint64)) != 0)
		at++;
	if (found != NULL)
		*found = at < table->n;
	if (at < table->n)
	{
		char	   *entry = table->entries[at];

		if (action == HASH_REMOVE)
			table->entries[at] = table->entries[--table->n];
		return entry;
	}
	if (action != HASH_ENTER)
		return NULL;
	if (table->n == table->room)
		table->entries = repalloc(table->entries, (table->room *= 2) * sizeof(char *));
	table->entries[table->n] = palloc0(table->entry_bytes);
	memcpy(table->entries[table->n], key, sizeof(uint64));
	return table->entries[table->n++];
}

#undef COMP_CRC32C
#define COMP_CRC32C(crc, data, bytes) ((crc) = crc32c(crc, data, bytes))
#define smgropen(rlocator, backend) NULL
#define smgrnblocks(smgr, fork) ((void) (smgr), npages)
#define lsm_extend_fork(rlocator, relpersistence) extend_fork()
#define XLogBeginInsert() ((void) 0)
#define XLogRegisterData(data, bytes) ((void) (data))
#define XLogRegisterBuffer(id, buffer, flags) Assert(locks[(buffer) - 1] == BUFFER_LOCK_EXCLUSIVE)
#define XLogRegisterBufData(id, data, bytes) ((void) (data))
#define XLogEnsureRecordSpace(blocks, datas) ((void) (blocks), (void) (datas))
#define XLogInsert(rmgr, info) (last_lsn += 8)
#define LWLockAcquire(lock, mode) ((void) (lock))
#define LWLockRelease(lock) ((void) (lock))
#define LWLockConditionalAcquire(lock, mode) true

#include "version_harness.h"
#undef lsm_relpath
#define lsm_relpath(rlocator, backend, fork) path_copy()

static char *
path_copy(void)
{
	return strcpy(palloc(12), "base/5/1000");
}

#include "tree/disk/metapage.c"
#include "tree/disk/page.c"
#include "tree/disk/fileset.c"
#include "tree/disk/manifest.c"

/* ---- other rooms ---- */

uint64
hash_bytes_extended(const unsigned char *k, int keylen, uint64 seed)
{
	abort();
}

void
FlushOneBuffer(Buffer buffer)
{
	abort();
}

bool
lsm_epoch_inside(void)
{
	return false;
}

static int	entered = 0;

void
lsm_tree_enter(LsmTree *tree)
{
	Assert(nlocked == 0);
	entered++;
}

void
lsm_tree_exit(LsmTree *tree)
{
	Assert(entered > 0);
	entered--;
}

void
lsm_set_take(LsmTreeShared *ctl, LsmMemtableSet *set)
{
	abort();
}

/* ---- the tree ---- */

static LsmTreeShared ctl;
static LsmTree tree;
static MemoryContext work;		/* of one command */

#define MAX_MODEL	4000

static LsmFileMeta model[MAX_MODEL];
static int	nmodel;

/* A reader that goes on from where it was */
static LsmManifestPlace place;
static LsmFileMeta reader[MAX_MODEL];
static int	nreader;

static LsmMetaPage *
meta_page(void)
{
	return (LsmMetaPage *) PageGetContents((Page) &fork_pages[0]);
}

/* Its content has been changed by hand. */
static void
seal_meta(void)
{
	meta_page()->crc = lsm_meta_crc((const char *) meta_page());
}

static void
new_manifest(void)
{
	LsmMetaPage meta = {.magic = LSM_META_MAGIC,.format_version = LSM_META_VERSION,
		.kind = LSM_KIND_TABLE,.keyspace_id = 77,.next_file = 1,
		.manifest_root = InvalidBlockNumber,.manifest_tail = InvalidBlockNumber
	};

	if (tree.version != NULL)
		lsm_version_release(&tree);
	memset(&ctl, 0, sizeof(ctl));
	memset(&tree, 0, sizeof(tree));
	memset(pins, 0, sizeof(pins));
	memset(locks, 0, sizeof(locks));
	nlocked = 0;
	npages = 1;
	room_left = MAX_PAGES - 1;
	lsm_meta_init((Page) &fork_pages[0], &meta);
	ctl.state = LSM_STATE_LOADED;
	ctl.pages.nblocks = 1;
	pg_atomic_write_u64(&ctl.files.next_file, 1);
	pg_atomic_write_u64(&ctl.files.file_limit, 1);
	tree.ctl = &ctl;
	tree.keyspace_id = 77;
	tree.relpersistence = RELPERSISTENCE_PERMANENT;
	nmodel = nreader = 0;
	place = nowhere;
}

/* As the server does after an error */
static void
release_all(void)
{
	Assert(CritSectionCount == 0);
	memset(pins, 0, sizeof(pins));
	memset(locks, 0, sizeof(locks));
	nlocked = 0;
}

static bool
nothing_held(void)
{
	for (BlockNumber i = 0; i < npages; i++)
	{
		if (pins[i] != 0)
			return false;
	}
	return nlocked == 0 && CritSectionCount == 0;
}

/* Fences that no other file of a run has, of various lengths */
static void
make_file(LsmFileMeta *file, uint64 number, int level, uint64 run)
{
	uint32		place_of = (uint32) (number * 7919 % 100000);

	memset(file, 0, sizeof(*file));
	file->number = number;
	file->level = level;
	file->run = level == 0 ? run : 0;
	file->entries = number * 3;
	file->file_bytes = UINT64CONST(1) << (number % 64);
	file->filter_bytes = number % 7 == 0 ? 0 : number * 1000;
	file->min_xid = number % 5 == 0 ? 0 : UINT32_MAX - number;
	file->filter_scheme = number % 4;
	file->flags = number % 2 == 0 ? LSM_FILE_HAS_CHECKS : LSM_FILE_HAS_PARTIAL;
	if (number % 2 == 0)
	{
		file->sst_check = (uint32) (number * 2654435761u);
		file->filter_check = ~file->sst_check;
		file->written_as = number % 11;
	}
	file->smallest_bytes = sprintf(file->smallest, "%05ua", place_of);
	file->largest_bytes = sprintf(file->largest, "%05ub", place_of);
	if (number % 3 == 0)
	{
		memset(file->largest + file->largest_bytes, 'x', LSM_FENCE_BYTES - file->largest_bytes);
		file->largest_bytes = LSM_FENCE_BYTES;
		file->flags |= LSM_FILE_LARGEST_CUT;
	}
	else
		file->largest[file->largest_bytes] = '\0';
	file->smallest[file->smallest_bytes] = '\0';
}

static int
compare_metas(const void *a, const void *b)
{
	return lsm_number_compare(&((const LsmFileMeta *) a)->number, &((const LsmFileMeta *) b)->number);
}

static int
find_in(const LsmFileMeta *list, int n, uint64 number)
{
	for (int i = 0; i < n; i++)
	{
		if (list[i].number == number)
			return i;
	}
	return -1;
}

/* What an edit makes of a list; false: it removes what is not there. */
static bool
apply(LsmFileMeta *list, int *n, const uint64 *removed, int nremoved, const LsmFileMeta *added,
	  int nadded)
{
	for (int i = 0; i < nremoved; i++)
	{
		int			at = find_in(list, *n, removed[i]);

		if (at < 0)
			return false;
		list[at] = list[--*n];
	}
	for (int i = 0; i < nadded; i++)
	{
		if (find_in(list, *n, added[i].number) >= 0)
			return false;
		list[(*n)++] = added[i];
	}
	return true;
}

/* Reads on; false: error_text says why not. */
static bool
look(LsmManifestChange *change)
{
	MemoryContext outer = MemoryContextSwitchTo(work);
	bool		failed;

	CATCH(lsm_manifest_read_change(&tree, &place, change), failed);
	MemoryContextSwitchTo(outer);
	if (failed)
	{
		release_all();
		return false;
	}
	place = change->place;
	if (change->whole)
		nreader = 0;
	if (apply(reader, &nreader, change->removed, change->nremoved, change->files, change->nfiles))
		return true;
	sprintf(error_text, "the change does not fit the list");
	return false;
}

static bool
read_all(LsmFileMeta **files, int *nfiles)
{
	MemoryContext outer = MemoryContextSwitchTo(work);
	bool		failed;

	CATCH(*files = lsm_manifest_read(&tree, nfiles), failed);
	MemoryContextSwitchTo(outer);
	if (failed)
		release_all();
	return !failed;
}

static bool
do_edit(const LsmEdit *edit)
{
	MemoryContext outer = MemoryContextSwitchTo(work);
	uint64		next_file = pg_atomic_read_u64(&ctl.files.next_file);
	bool		failed;

	for (int i = 0; i < edit->nadded; i++)
		next_file = Max(next_file, edit->added[i].number + 1);
	lsm_manifest_reserve(&tree, next_file - pg_atomic_read_u64(&ctl.files.next_file));
	pg_atomic_write_u64(&ctl.files.next_file, next_file);
	CATCH((void) lsm_manifest_edit(&tree, edit), failed);
	MemoryContextSwitchTo(outer);
	if (failed)
		release_all();
	Assert(nothing_held());
	return !failed;
}

/* The version; NULL: error_text says why not. */
static LsmVersion *
refresh(void)
{
	LsmVersion *version = NULL;
	bool		failed;
	MemoryContext outer = MemoryContextSwitchTo(work);

	CATCH(version = lsm_version_refresh(&tree), failed);
	MemoryContextSwitchTo(outer);
	if (failed)
		release_all();
	return failed ? NULL : version;
}

#include "manifest_cases.h"
#include "manifest_fuzz.h"

/* ---- the metapage's format ---- */

/* A metapage as an older build left it; `version` */
static void
old_metapage(uint32 version)
{
	LsmMetaPage meta;

	new_manifest();
	meta = *meta_page();
	meta.format_version = version;
	lsm_meta_init((Page) &fork_pages[0], &meta);
}

static bool
require_format(void)
{
	bool		failed;

	CATCH(lsm_tree_require_format(&tree), failed);
	if (failed)
		release_all();
	return !failed;
}

static void
test_format(void)
{
	for (uint32 version = LSM_META_OLDEST; version <= LSM_META_VERSION + 1; version++)
	{
		XLogRecPtr	before = last_lsn;
		bool		failed;

		old_metapage(version);
		failed = !require_format();
		ok(failed == (version > LSM_META_VERSION), "format %u is%s good for versions", version,
		   version > LSM_META_VERSION ? " not" : "");
		ok(meta_page()->format_version == Max(version, LSM_META_VERSION), "the metapage says so");
		ok((last_lsn != before) == (version < LSM_META_VERSION), "it is logged, if it was another");
		ok(lsm_meta_valid((Page) &fork_pages[0]) == !failed, "it is valid, with its checksum");
		ok(nothing_held() && entered == 0, "nothing is left locked");

		/* once is enough, whatever the page says */
		before = last_lsn;
		if (failed)
			continue;
		memset(&fork_pages[0], 0, BLCKSZ);
		lsm_tree_require_format(&tree);
		ok(last_lsn == before, "the page is not looked at again");
	}
}

int
main(void)
{
	work = AllocSetContextCreate(TopMemoryContext, "work", ALLOCSET_DEFAULT_SIZES);
	new_manifest();
	run_cases("manifest", run_manifest_case);
	fuzz_manifest();
	test_format();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
