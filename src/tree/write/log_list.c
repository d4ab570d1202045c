/*-------------------------------------------------------------------------
 *
 * log_list.c
 *	  Whether log pages are missing: at a load, what pages and metapage say of
 *	  other pages (log_entry.h), against the pages that were found.
 *
 *	- The metapage says where the list of a generation's pages begins.  A crash
 *	  before that was logged leaves a list whose first page nobody names.
 *	- The page that another one says comes next is there, and comes next of one
 *	  page only, and all pages are in the list: else it ends too early, at a page
 *	  that is an earlier state of itself.
 *	- A page that another one of its slot found full is as it was then.
 *
 * What this cannot see is that an earlier state has come back of a page that
 * nobody has found full, if that state was already followed by another page, or
 * the page is the last of the list: of the last page of each slot.
 *
 * Pages without heads are in no list.
 *
 * Locking: the metapage's content lock, shared.  The loader has the tree.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"

#include "tree/control/control.h"
#include "tree/disk/disk.h"
#include "tree/disk/page.h"
#include "tree/write/load.h"

/* Pages of one generation, by number of block */
typedef struct Generation
{
	LsmLogPageRef *pages;
	Size		npages;
} Generation;

static int
compare_blocks(const void *key, const void *page)
{
	BlockNumber block = *(const BlockNumber *) key;
	BlockNumber its = ((const LsmLogPageRef *) page)->block;

	return block < its ? -1 : block > its;
}

/* Pages without a head are not looked for. */
static LsmLogPageRef *
find_page(const Generation *generation, BlockNumber block)
{
	LsmLogPageRef *page = bsearch(&block, generation->pages, generation->npages,
								  sizeof(LsmLogPageRef), compare_blocks);

	return page != NULL && page->headed ? page : NULL;
}

/* The pages that this one names */
static void
check_named(LsmTree *tree, LsmLogScan *scan, const Generation *generation,
			const LsmLogPageRef *page)
{
	LsmLogPageRef *other;

	if (page->head.before != InvalidBlockNumber)
	{
		other = find_page(generation, page->head.before);
		if (other == NULL)
			lsm_log_damage(tree, scan, page->head.before, "its entries are lost");
		else if (!EQ_CRC32C(other->head.crc, page->head.before_crc))
			lsm_log_damage(tree, scan, page->head.before, "it is not as it was written last");
	}
	if (page->head.next != InvalidBlockNumber)
	{
		other = find_page(generation, page->head.next);
		if (other == NULL)
			lsm_log_damage(tree, scan, page->head.next, "its entries are lost");
		else if (other->follows)
			lsm_log_damage(tree, scan, page->head.next, "it comes next of two pages");
		else
			other->follows = true;
	}
}

/* The last page of the list that begins there; how many pages it has */
static const LsmLogPageRef *
follow_list(const Generation *generation, const LsmLogPageRef *page, Size *n)
{
	const LsmLogPageRef *next = page;

	for (*n = 0; next != NULL && *n <= generation->npages; (*n)++)
	{
		page = next;
		next = page->head.next == InvalidBlockNumber ? NULL :
			find_page(generation, page->head.next);
	}
	return page;
}

static void
check_generation(LsmTree *tree, LsmLogScan *scan, const Generation *generation,
				 BlockNumber root)
{
	const LsmLogPageRef *first = root != InvalidBlockNumber ? find_page(generation, root) : NULL;
	const LsmLogPageRef *last;
	Size		nheaded = 0;
	Size		n;

	for (Size i = 0; i < generation->npages; i++)
	{
		if (!generation->pages[i].headed)
			continue;
		nheaded++;
		check_named(tree, scan, generation, &generation->pages[i]);
	}
	if (root != InvalidBlockNumber && first == NULL)
		lsm_log_damage(tree, scan, root, "its entries are lost");
	for (Size i = 0; root == InvalidBlockNumber && i < generation->npages; i++)
	{
		const LsmLogPageRef *page = &generation->pages[i];

		if (!page->headed || page->follows)
			continue;
		if (first != NULL)
			lsm_log_damage(tree, scan, page->block,
						   "the page that it follows is lost, or is not as it was written last");
		first = page;
	}
	if (nheaded == 0 || scan->incomplete)
		return;
	last = follow_list(generation, first, &n);
	if (n != nheaded)
		lsm_log_damage(tree, scan, last == NULL ? generation->pages[0].block : last->block,
					   "it is not as it was written last");
}

void
lsm_log_check_lists(LsmTree *tree, LsmLogScan *scan)
{
	LsmMetaPage *page;
	LsmMetaPage meta;
	Buffer		buffer = lsm_meta_read(tree, BUFFER_LOCK_SHARE, &page);
	bool		found[LSM_LOG_ROOTS] = {0};

	meta = *page;
	UnlockReleaseBuffer(buffer);
	for (Size first = 0, end; first < scan->npages; first = end)
	{
		uint64		number = scan->pages[first].generation;
		Generation	generation = {&scan->pages[first]};

		for (end = first; end < scan->npages && scan->pages[end].generation == number; end++)
			generation.npages++;
		check_generation(tree, scan, &generation, lsm_meta_root(&meta, number));
		for (int i = 0; i < LSM_LOG_ROOTS; i++)
			found[i] |= meta.log_roots[i].generation == number;
	}
	for (int i = 0; i < LSM_LOG_ROOTS; i++)
	{
		if (meta.log_roots[i].generation > meta.flushed_generation && !found[i])
			lsm_log_damage(tree, scan, meta.log_roots[i].block, "its entries are lost");
	}
}

void
lsm_log_list_ends(const LsmLogPageRef *pages, Size npages, BlockNumber *first,
				  BlockNumber *last)
{
	*first = *last = InvalidBlockNumber;
	for (Size i = 0; i < npages; i++)
	{
		if (!pages[i].headed)
			continue;
		if (!pages[i].follows)
			*first = pages[i].block;
		if (pages[i].head.next == InvalidBlockNumber)
			*last = pages[i].block;
	}
}
