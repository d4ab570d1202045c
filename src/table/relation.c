/*-------------------------------------------------------------------------
 *
 * relation.c
 *	  The table as a whole: storage, size, estimates, TOAST.
 *
 * Sizes come in two units.  relation_size and pg_class.relpages speak of TID
 * blocks (291 TIDs each): that is what BRIN, TID scans and TABLESAMPLE
 * address.  The planner's number of pages is that of the data on disk, and a
 * share of those that decompression makes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/tupmacs.h"
#include "access/xact.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_statistic.h"
#include "catalog/storage.h"
#include "catalog/storage_xlog.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "port/pg_bitutils.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "table/table.h"

/*
 * A table of which this many times as many rows have come and gone as there are:
 * its rows are updated all the time.  They lie scattered in the memtable, next
 * to overrides of those that the last flush has left in a file, and a scan
 * waits for memory at every step.  An old snapshot that begins later keeps
 * many versions of each row, which plans made before know nothing of.  So that
 * many entries cost as much as a page, and the smallest of these tables has
 * pages enough for an index scan (docs/decisions.md, "Tables whose rows come
 * and go").
 */
#define CHURNED_RATIO			10.0
#define CHURNED_ROWS_PER_PAGE	6.0
#define CHURNED_PAGES			40.0
#define CHURNED_MAX_ROWS		6000.0	/* a larger table is mostly in files */

/*
 * What a sequential scan costs per page that decompression makes, and nobody
 * reads, in pages read.  A page is one of heap: 8 kB of rows.
 *
 * Measured with everything in memory: count(*) over seven tables of 100,000 to
 * 3,000,000 rows, 110 MB each as heap.  Heap takes 31 ns per row and 0.5 us
 * per page (from the smallest and the largest rows).  A row is charged
 * cpu_tuple_cost + cpu_operator_cost = 0.0125, so seq_page_cost is 2.5 us.
 * What the scan of files with LZ4 takes beyond 31 ns per row, per page of
 * heap:
 *
 *	row width		8		37		64		97		157		1288
 *	files / heap	0.27	0.66	0.60	0.10	0.16	0.06
 *	us				2.5		2.1		5.6		1.3		2.1		1.3
 *	pages			1.0		0.87	2.3		0.52	0.85	0.54
 *
 * The geometric mean is 0.88.  (Incompressible rows of 520 bytes lie in the
 * file as they are: all their pages are read.  Zstandard takes 1.8 to 5.3
 * pages, but the list of files does not say what a file is compressed with.)
 *
 * So a scan takes about as long as heap's while both are in memory.  By bytes
 * alone it looked up to ten times cheaper, and plans with a sequential scan
 * were preferred to index scans that took a fifth of the time.
 */
#define DECOMPRESSED_PAGE_COST	0.9

/*
 * Whether rows come and go is looked at whenever this many more have been
 * written; before, twice as many
 */
#define CHURNED_STEP			1024

/* Create the init fork that crash recovery copies over an unlogged table. */
static void
create_init_fork(SMgrRelation srel, const RelFileLocator *rlocator)
{
	smgrcreate(srel, INIT_FORKNUM, false);
	log_smgrcreate(rlocator, INIT_FORKNUM);
	lsm_tree_create_init_fork(*rlocator, LSM_KIND_TABLE, NULL);
}

void
lsm_relation_set_new_filelocator(Relation rel, const RelFileLocator *newrlocator,
								 char persistence, TransactionId *freezeXid,
								 MultiXactId *minmulti)
{
	SMgrRelation srel;

	/*
	 * the oldest xid that could still put rows into it; no multixact ever
	 * will
	 */
	*freezeXid = RecentXmin;
	*minmulti = GetOldestMultiXactId();

	srel = RelationCreateStorage(*newrlocator, persistence, true);
	lsm_tree_create(*newrlocator, srel->smgr_rlocator.backend, RelationGetRelid(rel),
					persistence, LSM_KIND_TABLE, NULL);
	if (persistence == RELPERSISTENCE_UNLOGGED)
		create_init_fork(srel, newrlocator);
	smgrclose(srel);
}

/*
 * The caller goes on to truncate the indexes, for good, since it takes them
 * for as new as the table.  After SET TABLESPACE they are not: that gave new
 * storage to the table alone, and a rollback would bring back its rows without
 * their entries (as happens to heap tables).  Indexes that would outlive a
 * rollback get new storage, too.
 */
static void
renew_older_indexes(Relation rel)
{
	SubTransactionId subxact = GetCurrentSubTransactionId();
	List	   *indexes;
	ListCell   *cell;

	if (rel->rd_newRelfilelocatorSubid != subxact)
		return;
	indexes = RelationGetIndexList(rel);
	foreach(cell, indexes)
	{
		Relation	index = index_open(lfirst_oid(cell), AccessExclusiveLock);

		if (index->rd_createSubid != subxact && index->rd_newRelfilelocatorSubid != subxact)
			RelationSetNewRelfilenumber(index, index->rd_rel->relpersistence);
		index_close(index, NoLock);
	}
	list_free(indexes);
}

/* TRUNCATE of a table whose storage goes away if the (sub)transaction aborts */
void
lsm_relation_nontransactional_truncate(Relation rel)
{
	renew_older_indexes(rel);
	lsm_tree_reset(rel, LSM_KIND_TABLE);
}

/* ---- SET TABLESPACE ---- */

/* SET TABLESPACE.  The caller holds AccessExclusiveLock. */
void
lsm_relation_copy_data(Relation rel, const RelFileLocator *newrlocator)
{
	SMgrRelation srel;

	srel = RelationCreateStorage(*newrlocator, rel->rd_rel->relpersistence, true);
	lsm_tree_copy(rel, LSM_KIND_TABLE, *newrlocator);
	lsm_reserve_moved_rows(rel, lsm_table_tree(rel), newrlocator);
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
		create_init_fork(srel, newrlocator);
	RelationDropStorage(rel);
	smgrclose(srel);
}

/*
 * Is it ANALYZE that asks?  Nothing else says so reliably (progress reports
 * can be switched off, and autovacuum passes no utility hook), but acquiring
 * the sample runs in a memory context of this name, and nothing else asks
 * there.
 */
static bool
asked_by_analyze(void)
{
	return CurrentMemoryContext->name != NULL &&
		strcmp(CurrentMemoryContext->name, "Analyze") == 0;
}

/*
 * lsm_table_size - bytes of the TID blocks up to the high-water mark.
 *
 * ANALYZE is told of fewer blocks: see sample.c.  Who is known to read the main
 * fork block by block is told of that: see caller.c.
 */
uint64
lsm_table_size(Relation rel, ForkNumber forkNumber)
{
	BlockNumber nblocks;

	if (forkNumber != MAIN_FORKNUM && forkNumber != InvalidForkNumber)
		return smgrexists(RelationGetSmgr(rel), forkNumber) ?
			(uint64) smgrnblocks(RelationGetSmgr(rel), forkNumber) * BLCKSZ : 0;
	if (lsm_main_fork_is_read(rel))
		return (uint64) smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) * BLCKSZ;

	nblocks = lsm_limit_blocks(lsm_tree_row_limit(lsm_table_tree(rel)));
	if (asked_by_analyze())
		nblocks = lsm_analyze_tell_blocks(rel, nblocks);
	return (uint64) nblocks * BLCKSZ;
}

/*
 * lsm_relation_needs_toast_table - as heap does: if a column can be toasted and
 * a row can exceed the threshold.
 */
bool
lsm_relation_needs_toast_table(Relation rel)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	int32		data_bytes = 0;
	bool		unbounded = false;
	bool		toastable = false;
	int			i;

	for (i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		int32		max_bytes = att->attlen;

		if (att->attisdropped)
			continue;
		data_bytes = att_align_nominal(data_bytes, att->attalign);
		if (att->attlen <= 0)
		{
			max_bytes = type_maximum_size(att->atttypid, att->atttypmod);
			if (att->attstorage != TYPSTORAGE_PLAIN)
				toastable = true;
		}
		if (max_bytes < 0)
			unbounded = true;
		else
			data_bytes += max_bytes;
	}
	if (!toastable)
		return false;
	if (unbounded)
		return true;
	return MAXALIGN(SizeofHeapTupleHeader + BITMAPLEN(tupdesc->natts)) +
		MAXALIGN(data_bytes) > TOAST_TUPLE_THRESHOLD;
}

/* Chunks of large values gain nothing from a tree: they are never updated. */
Oid
lsm_relation_toast_am(Relation rel)
{
	return HEAP_TABLE_AM_OID;
}

static inline double
size_entries(const LsmTreeSize *size)
{
	return (double) size->file_entries + (double) size->memtable_entries;
}

/*
 * The number, up to this one, at which lsm_relation_note_update() has looked
 * last, if an update took it
 */
static inline uint64
last_look(uint64 number)
{
	if (number < CHURNED_STEP)
		return number == 0 ? 0 : pg_prevpower2_64(number);
	return number - number % CHURNED_STEP;
}

/*
 * Of how many rows there may be a version that is not replaced.  Entries say
 * so where those replaced are forgotten soon; beside an old snapshot they are
 * not.
 */
static inline double
living_rows(uint64 row_limit, uint64 replaced, double entries)
{
	return Min(entries, (double) Max(row_limit - Min(row_limit, replaced), 1));
}

static inline bool
rows_come_and_go(uint64 row_limit, double living, double ratio)
{
	return living > 0 && (double) row_limit >= ratio * living;
}

/* What get_rel_data_width() counts for NULLs, per row */
static double
null_width(Relation rel)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	double		result = 0;

	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		HeapTuple	tuple;

		if (att->attisdropped || att->attnotnull)
			continue;
		tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(RelationGetRelid(rel)),
								Int16GetDatum(att->attnum), BoolGetDatum(false));
		if (HeapTupleIsValid(tuple))
		{
			Form_pg_statistic stats = (Form_pg_statistic) GETSTRUCT(tuple);

			result += stats->stanullfrac *
				(stats->stawidth > 0 ? stats->stawidth :
				 get_typavgwidth(att->atttypid, att->atttypmod));
			ReleaseSysCache(tuple);
		}
	}
	return result;
}

/*
 * What statistics say of a row's width.  Each column is a look into a catalog
 * cache, and each plan asks: so that is kept in rd_amcache until the relation's
 * entry is made anew, or some table has got statistics.
 */
typedef struct RowWidth
{
	uint64		statistics;		/* statistics_changed then */
	double		bytes;
	double		null_bytes;		/* of which columns that are NULL have none */
} RowWidth;

static uint64 statistics_changed = 1;

static void
note_statistics(Datum arg, int cacheid, uint32 hashvalue)
{
	statistics_changed++;
}

void
lsm_relation_init(void)
{
	CacheRegisterSyscacheCallback(STATRELATTINH, note_statistics, 0);
}

static RowWidth
row_width(Relation rel, int32 *attr_widths)
{
	RowWidth   *kept = rel->rd_amcache;
	RowWidth	width;

	if (kept != NULL && kept->statistics == statistics_changed)
		return *kept;
	width.statistics = statistics_changed;
	width.bytes = get_rel_data_width(rel, attr_widths) +
		MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData);
	width.null_bytes = null_width(rel);

	/* looking into catalogs may have emptied it */
	if (rel->rd_amcache == NULL)
		rel->rd_amcache = MemoryContextAlloc(CacheMemoryContext, sizeof(RowWidth));
	*(RowWidth *) rel->rd_amcache = width;
	return width;
}

/*
 * The bytes whose reading costs as much as a scan that makes `tuples` rows of
 * `width` bytes from `bytes` of files and memtables.
 */
static double
bytes_to_scan(double bytes, double tuples, const RowWidth *width)
{
	if (tuples * width->bytes <= bytes)
		return bytes;
	return bytes + DECOMPRESSED_PAGE_COST *
		Max(tuples * (width->bytes - width->null_bytes) - bytes, 0);
}

/*
 * Rows: those that VACUUM or ANALYZE counted, scaled by the growth of the TID
 * space since, unless rows come and go; never more than there are entries.
 */
static double
estimate_rows(Relation rel, uint64 row_limit, double entries, bool churned)
{
	double		reltuples = rel->rd_rel->reltuples;
	double		relpages = (BlockNumber) rel->rd_rel->relpages;

	if (reltuples >= 0 && churned)
		return Min(reltuples, entries);
	if (reltuples >= 0 && relpages > 0)
		return Min(rint(reltuples / relpages * lsm_limit_blocks(row_limit)), entries);
	return entries;
}

/*
 * Which part of the table is all-visible: pg_class counts blocks of row
 * identifiers.
 */
static double
visible_fraction(Relation rel)
{
	double		visible = (BlockNumber) rel->rd_rel->relallvisible;
	double		blocks = (BlockNumber) rel->rd_rel->relpages;

	return blocks > 0 ? Min(visible / blocks, 1) : 0;
}

/*
 * The bytes of rows in memory, as they will be in a file: a memtable grows in
 * large pieces.  What a row of a table never analyzed takes nobody knows, but
 * rows are in the log, which is in the main fork: that may have more pages than
 * are in use, but not fewer.
 */
static double
memtable_data_bytes(Relation rel, const LsmTreeSize *size, double width)
{
	double		bytes = (double) size->memtable_entries * width;

	if (rel->rd_rel->reltuples < 0 && bytes < (double) size->memtable_bytes)
		bytes = Max(bytes, (double) smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) * BLCKSZ);
	return Min(bytes, (double) size->memtable_bytes);
}

/*
 * lsm_relation_estimate_size - what the planner should expect.
 *
 * Pages: bytes of the data; more for compressed files, and for tables in
 * which rows come and go, as heap has bloat.
 */
void
lsm_relation_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages,
						   double *tuples, double *allvisfrac)
{
	LsmTree    *tree = lsm_table_tree(rel);
	uint64		row_limit = lsm_tree_row_limit(tree);
	LsmTreeSize size;
	double		entries;
	double		living;
	double		bytes;
	bool		churned;
	RowWidth	width = row_width(rel, attr_widths);

	lsm_tree_size(tree, &size);
	entries = size_entries(&size);
	living = living_rows(last_look(row_limit - Min(row_limit, 1)),
						 lsm_tree_note_replaced(tree, 0, 0), entries);
	churned = rows_come_and_go(row_limit, living, CHURNED_RATIO);
	*tuples = estimate_rows(rel, row_limit, entries, churned);
	bytes = (double) size.file_bytes + memtable_data_bytes(rel, &size, width.bytes);
	bytes = bytes_to_scan(bytes, *tuples, &width);
	if (churned)
		bytes += (CHURNED_PAGES + Min(entries, CHURNED_MAX_ROWS) / CHURNED_ROWS_PER_PAGE) * BLCKSZ;
	*pages = (BlockNumber) Min(ceil(bytes / BLCKSZ), (double) MaxBlockNumber);
	*allvisfrac = visible_fraction(rel);

	/*
	 * A table never analyzed may be about to be filled: as for heap, do not
	 * plan as if it would stay tiny.
	 */
	if (*pages < 10 && rel->rd_rel->reltuples < 0 && !rel->rd_rel->relhassubclass)
	{
		*pages = 10;
		*tuples = Max(entries, 10 * floor((BLCKSZ - SizeOfPageHeaderData) / width.bytes));
		return;
	}
	if (entries > 0 && *pages == 0)
		*pages = 1;
}

/*
 * lsm_relation_note_update - an update has written the row with this TID.
 *
 * Plans that were made before rows came and went are made anew, soon after
 * that has begun: ANALYZE would see to it within a minute.  Of the updates
 * only those that take certain row numbers are counted, each for as many as
 * there are numbers since the last one of that kind.
 */
void
lsm_relation_note_update(Relation rel, LsmTree *tree, uint64 packed)
{
	uint64		number = lsm_tid_number(packed);
	uint64		step = number <= CHURNED_STEP ? (number + 1) / 2 : CHURNED_STEP;
	uint64		replaced;
	LsmTreeSize size;
	double		entries;
	double		living;

	if (number != last_look(number))
		return;
	lsm_tree_size(tree, &size);
	entries = size_entries(&size);
	replaced = lsm_tree_note_replaced(tree, step, number - (uint64) Min(entries, (double) number));
	living = living_rows(number, replaced, entries);
	if (rows_come_and_go(number, living, CHURNED_RATIO))
	{
		if (lsm_tree_note_churn(tree, true))
			CacheInvalidateRelcache(rel);
	}
	else if (!rows_come_and_go(number, living, CHURNED_RATIO / 2))
		(void) lsm_tree_note_churn(tree, false);
}
