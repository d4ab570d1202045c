/*-------------------------------------------------------------------------
 *
 * verify_log.c
 *	  lsm_verify: log pages that are not flushed, of a tree that may be in use.
 *
 * Each page by itself, as it is in the buffer or on disk: a tree that is loaded
 * would find out about it after the next start only.  Then the lists of pages
 * from where the metapage says that they begin (log_list.c looks at a load, when
 * nobody adds to them).
 *
 * Locking: content locks, shared, one at a time.  What is found of a generation
 * that is flushed meanwhile is forgotten: its pages may be used again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/disk/page.h"
#include "tree/write/load.h"

typedef struct VerifyLog
{
	LsmTree    *tree;
	LsmProblem	report;
	void	   *arg;
	int			nproblems;
	LsmMetaPage meta;
	BufferAccessStrategy strategy;
	StringInfoData entry;		/* longer than a page */
	MemoryContext entry_cxt;

	/* pages that are in a list */
	LsmLogRoot *listed;			/* generation and block */
	Size		nlisted;
	Size		room;
} VerifyLog;

static void
read_meta(VerifyLog *verify)
{
	LsmMetaPage *page;
	Buffer		buffer = lsm_meta_read(verify->tree, BUFFER_LOCK_SHARE, &page);

	verify->meta = *page;
	UnlockReleaseBuffer(buffer);
}

/* A copy of the page */
static void
read_page(VerifyLog *verify, BlockNumber block, Page page)
{
	Buffer		buffer = lsm_load_read_page(verify->tree, block, verify->strategy);

	memcpy(page, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
}

/* generation 0: of a page that does not say. */
static void
note_page(VerifyLog *verify, uint64 generation, BlockNumber block, const char *problem)
{
	if (generation != 0)
	{
		read_meta(verify);
		if (generation <= verify->meta.flushed_generation)
			return;
	}
	verify->nproblems++;
	verify->report(verify->arg,
				   lsm_relpath(verify->tree->rlocator, verify->tree->backend, MAIN_FORKNUM),
				   psprintf("log page in block %u: %s", block, problem));
}

/* False: a page does not continue the entry, or it is cut off. */
static bool
collect_entry(VerifyLog *verify, Page first, uint32 total)
{
	const char *entries = lsm_page_entries(first);
	BlockNumber next = lsm_page_opaque(first)->next;
	BlockNumber nblocks = smgrnblocks(smgropen(verify->tree->rlocator, verify->tree->backend),
									  MAIN_FORKNUM);

	resetStringInfo(&verify->entry);
	appendBinaryStringInfo(&verify->entry, entries,
						   (char *) first + ((PageHeader) first)->pd_lower - entries);
	while (verify->entry.len < total)
	{
		PGAlignedBlock page;

		if (next >= nblocks)
			return false;
		read_page(verify, next, (Page) page.data);
		if (!lsm_log_page_continues((Page) page.data, lsm_page_opaque(first)->owner))
			return false;
		appendBinaryStringInfo(&verify->entry, page.data + LSM_PAGE_START,
							   ((PageHeader) page.data)->pd_lower - LSM_PAGE_START);
		next = lsm_page_opaque((Page) page.data)->next;
	}
	return true;
}

/* Returns what is wrong, or NULL. */
static const char *
check_entry(VerifyLog *verify, const LsmLogHeader *header, const char *data)
{
	LsmSlice	key = lsm_slice(data + header->header_bytes, header->key_bytes);
	LsmSlice	value = lsm_slice(key.data + key.len, header->value_bytes);
	MemoryContext old = MemoryContextSwitchTo(verify->entry_cxt);
	char	   *problem;

	MemoryContextReset(verify->entry_cxt);
	problem = verify->tree->ops->check(key, value);
	MemoryContextSwitchTo(old);
	return problem;
}

/* Returns what is wrong with what the page holds, or NULL. */
static const char *
check_entries(VerifyLog *verify, BlockNumber block, Page page)
{
	const char *data = lsm_page_entries(page);
	const char *end = (char *) page + ((PageHeader) page)->pd_lower;
	const char *problem = NULL;
	LsmLogHeader header;

	if (lsm_log_page_spans(verify->tree, page, &header))
	{
		if (!collect_entry(verify, page, lsm_log_header_total(&header)))
			return "a page that should continue its entry does not";
		if (!lsm_log_entries_intact(page, block, verify->entry.data, verify->entry.len))
			return "wrong checksum of a long entry";
		return check_entry(verify, &header, verify->entry.data);
	}
	if (!lsm_log_page_intact(page, block))
		return "wrong checksum";
	for (; problem == NULL && data < end; data += lsm_log_header_total(&header))
	{
		if (!lsm_log_read_header(verify->tree, data, end, &header) ||
			lsm_log_header_total(&header) > end - data)
			return "impossible entry header";
		problem = check_entry(verify, &header, data);
	}
	return problem;
}

/* The page that a slot has found full is as it was then. */
static void
check_before(VerifyLog *verify, uint64 generation, const LsmLogHead *head)
{
	PGAlignedBlock data;
	Page		page = (Page) data.data;
	const LsmLogHead *its;

	if (head->before == InvalidBlockNumber)
		return;
	/* the fork may have grown since */
	if (head->before >= smgrnblocks(smgropen(verify->tree->rlocator, verify->tree->backend),
									MAIN_FORKNUM))
	{
		note_page(verify, generation, head->before, "its entries are lost");
		return;
	}
	read_page(verify, head->before, page);
	its = lsm_page_valid(page, LSM_PAGE_LOG) ? lsm_page_head(page) : NULL;
	if (its == NULL || lsm_page_opaque(page)->owner != generation ||
		!EQ_CRC32C(its->crc, head->before_crc))
		note_page(verify, generation, head->before, "it is not as it was written last");
}

static void
check_page(VerifyLog *verify, BlockNumber block)
{
	PGAlignedBlock data;
	Page		page = (Page) data.data;
	const char *problem;
	uint64		generation;

	read_page(verify, block, page);
	if (PageIsNew(page) || lsm_page_valid(page, LSM_PAGE_MANIFEST))
		return;
	if (!lsm_page_valid(page, LSM_PAGE_LOG))
	{
		note_page(verify, 0, block, "it is not a valid lsm log page");
		return;
	}
	generation = lsm_page_opaque(page)->owner;
	if (generation <= verify->meta.flushed_generation ||
		(lsm_page_opaque(page)->flags & LSM_PAGE_CONTINUES) != 0)
		return;
	problem = check_entries(verify, block, page);
	if (problem != NULL)
		note_page(verify, generation, block, problem);
	if (lsm_page_head(page) == NULL)
		return;
	check_before(verify, generation, lsm_page_head(page));
	if (verify->nlisted == verify->room)
	{
		verify->room = verify->room == 0 ? 256 : verify->room * 2;
		verify->listed = verify->listed == NULL ? palloc(verify->room * sizeof(LsmLogRoot)) :
			repalloc_huge(verify->listed, verify->room * sizeof(LsmLogRoot));
	}
	verify->listed[verify->nlisted++] = (LsmLogRoot)
	{
		.generation = generation,.block = block
	};
}

/* The page is in the list that was followed. */
static void
note_reached(VerifyLog *verify, const LsmLogRoot *root, BlockNumber block)
{
	Size		low = 0;
	Size		high = verify->nlisted;

	/* in the order of blocks */
	while (low < high)
	{
		Size		middle = low + (high - low) / 2;

		if (verify->listed[middle].block < block)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < verify->nlisted && verify->listed[low].block == block &&
		verify->listed[low].generation == root->generation)
		verify->listed[low].unused = 1;
}

static bool
all_reached(const VerifyLog *verify, const LsmLogRoot *root)
{
	for (Size i = 0; i < verify->nlisted; i++)
	{
		if (verify->listed[i].generation == root->generation && !verify->listed[i].unused)
			return false;
	}
	return true;
}

/*
 * All pages of a list are there.  It grows while we look: what was seen before
 * is in it now.
 */
static void
check_list(VerifyLog *verify, const LsmLogRoot *root)
{
	SMgrRelation smgr = smgropen(verify->tree->rlocator, verify->tree->backend);
	BlockNumber block = root->block;
	BlockNumber last = block;
	uint64		steps = 0;

	while (block != InvalidBlockNumber)
	{
		PGAlignedBlock data;
		Page		page = (Page) data.data;

		if (block < smgrnblocks(smgr, MAIN_FORKNUM))
			read_page(verify, block, page);
		else
			memset(page, 0, BLCKSZ);
		if (!lsm_page_valid(page, LSM_PAGE_LOG) || lsm_page_head(page) == NULL ||
			lsm_page_opaque(page)->owner != root->generation)
		{
			note_page(verify, root->generation, block, "its entries are lost");
			return;
		}
		if (++steps > smgrnblocks(smgr, MAIN_FORKNUM))
		{
			note_page(verify, root->generation, block, "the list of pages does not end");
			return;
		}
		note_reached(verify, root, block);
		last = block;
		block = lsm_page_head(page)->next;
	}
	if (!all_reached(verify, root))
		note_page(verify, root->generation, last, "it is not as it was written last");
}

/* See facts.h. */
bool
lsm_tree_verify_log(LsmTree *tree, LsmProblem report, void *arg)
{
	VerifyLog	verify = {.tree = tree,.report = report,.arg = arg};
	LsmLogRoot	roots[LSM_LOG_ROOTS];
	BlockNumber nblocks;

	if (tree->ctl->local)
		return true;
	verify.strategy = GetAccessStrategy(BAS_BULKREAD);
	verify.entry_cxt = AllocSetContextCreate(CurrentMemoryContext, "lsm verify entry",
											 ALLOCSET_SMALL_SIZES);
	initStringInfo(&verify.entry);
	read_meta(&verify);
	memcpy(roots, verify.meta.log_roots, sizeof(roots));
	nblocks = smgrnblocks(smgropen(tree->rlocator, tree->backend), MAIN_FORKNUM);
	for (BlockNumber block = 1; block < nblocks; block++)
		check_page(&verify, block);
	for (int i = 0; i < LSM_LOG_ROOTS; i++)
	{
		if (roots[i].generation > verify.meta.flushed_generation)
			check_list(&verify, &roots[i]);
	}
	FreeAccessStrategy(verify.strategy);
	MemoryContextDelete(verify.entry_cxt);

	/* what is loaded is not damaged, and nothing else will load it */
	return verify.nproblems == 0 ||
		*(volatile LsmTreeState *) &tree->ctl->state == LSM_STATE_LOADED;
}
