/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  VACUUM of an lsm table.
 *
 * 1. Flush, so that everything old is in files.  Where many rows are dead, do
 *    step 4 now.
 * 2. Walk all rows below the row limit and note which TIDs are alive.
 * 3. Let every index delete the entries of the others.
 * 4. Compact the files that hold dead rows or xids beyond the freeze limit.
 * 5. Flush again; what the files then hold decides the new relfrozenxid.
 * 6. Set bits in the visibility map (all_visible.c).
 *
 * Where only a few entries are in memory, and few rows are dead, nothing is
 * flushed or compacted, which would be a file, and several fsyncs, for next to
 * nothing (stays_in_memory).  Then the dead rows are forgotten in memory, or get a
 * DELETE there, as those that scans meet.  What was forgotten comes back when the
 * log pages are read, with its xids: so relfrozenxid stays where it is, and a
 * VACUUM that has to advance it (an aggressive one) flushes.
 *
 * Rows may vanish at any time before that: compactions drop them, scans prune
 * them, by later horizons (those may come back: dead_entries.c).  Step 2 sees
 * every row below the limit that is there: the flush has waited for whoever
 * had been given a number below it, and a row is written before its entries.
 * So an entry below the limit whose TID is not among the live ones is dead: its
 * row was dead in step 2, or gone.  But the set of live TIDs stops growing at
 * the memory limit.  Then what it does not know is looked up.
 *
 * Step 5: xids of transactions that began later do not precede OldestXmin.
 * Older xids can only reach the memtable again by an override that copies a
 * header, and that is refused (lsm_stamp_holds) if the files changed since it
 * was read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "commands/dbcommands.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "am/am.h"
#include "table/all_visible.h"
#include "table/dead_entries.h"
#include "table/vacuum_report.h"
#include "table/versions.h"

/* ---- VACUUM ---- */

typedef struct LsmVacuum
{
	Relation	rel;
	LsmTree    *tree;
	const VacuumParams *params;
	BufferAccessStrategy strategy;
	bool		verbose;
	bool		aggressive;
	bool		failsafe;

	struct VacuumCutoffs cutoffs;

	uint64		row_limit;
	LsmDeadEntries entries;

	double		live;			/* rows */
	double		recently_dead;
	double		gone;			/* dropped since we began, before the rows
								 * were read */
	double		dead;			/* seen */
	double		superseded;		/* rows of which a file may have older versions
								 * that nobody needs */
	double		kept;			/* TIDs that must stay in the indexes */

	int			nindexes;
	Relation   *indexes;
	IndexBulkDeleteResult **stats;
	int			index_scans;
	bool		in_memory;		/* nothing is flushed: the dead are few, and ... */
	LsmTombstones few;			/* ... these */
	bool		gone_through;	/* all indexes: see all_visible.h */
	bool		compacted;
	BlockNumber truncated;		/* pages of the main fork */
	LsmAllVisible map;
} LsmVacuum;

static bool
check_failsafe(LsmVacuum *vac)
{
	if (vac->failsafe ||
		!vacuum_xid_failsafe_check(&vac->cutoffs))
		return vac->failsafe;
	vac->failsafe = true;
	ereport(WARNING,
			(errmsg("bypassing nonessential maintenance of table \"%s\" as a failsafe",
					RelationGetRelationName(vac->rel)),
			 errdetail("The table's relfrozenxid is too far in the past."),
			 errhint("Look for long-running transactions and prepared transactions that hold back VACUUM.")));
	/* from here on, haste matters more than the load on the server */
	VacuumCostActive = false;
	VacuumCostBalance = 0;
	lsm_vacuum_failsafe(true);
	return true;
}

/* ---- rewriting files ---- */

/* How many rows are dead is told by SAMPLE_ROWS rows, at SAMPLE_PLACES places. */
#define SAMPLE_PLACES	64
#define SAMPLE_ROWS		256

/* Autovacuum rewrites files for the sake of dead rows if this many are. */
#define DEAD_FRACTION	0.1

/*
 * Which part of the rows may be removed?  About: of some that lie at places
 * between which there is about as much data.
 */
static double
dead_fraction(LsmVacuum *vac)
{
	LsmSlice	starts[SAMPLE_PLACES];
	int			nstarts;
	LsmCursor  *cursor = lsm_cursor_open(vac->tree);
	LsmEnough	enough = lsm_enough_newest();
	double		dead = 0;
	double		rows = 0;
	uint64		read_bytes = 0;

	starts[0] = lsm_slice(NULL, 0);
	nstarts = 1 + lsm_tree_fences(vac->tree, lsm_slice(NULL, 0), lsm_slice(NULL, 0),
								  SAMPLE_PLACES - 1, 1, &starts[1]);
	lsm_cursor_enough(cursor, &enough);
	for (int i = 0; i < nstarts; i++)
	{
		LsmSlice	key;
		LsmSlice	value;

		lsm_cursor_seek(cursor, starts[i], false, ForwardScanDirection);
		for (int n = 0; n < SAMPLE_ROWS &&
			 lsm_cursor_step(cursor, ForwardScanDirection, &key, &value); n++)
		{
			LsmRow		version;
			TransactionId deleter;

			if (i + 1 < nstarts && lsm_slice_compare(key, starts[i + 1]) >= 0)
				break;
			read_bytes += key.len + value.len;
			rows++;
			if (lsm_versions_vacuum_status(vac->rel, lsm_key_decode(key.data), value,
										   vac->cutoffs.OldestXmin, &version,
										   &deleter) == HEAPTUPLE_DEAD)
				dead++;
		}
		CHECK_FOR_INTERRUPTS();
		lsm_vacuum_pay(read_bytes);
		read_bytes = 0;
	}
	lsm_cursor_close(cursor);
	return rows > 0 ? dead / rows : 0;
}

/*
 * Rewrite files without dead rows, or for old xids, which hold back
 * relfrozenxid.
 *
 * Where many rows are dead this comes first, so that what is read next is half
 * of it and in order: how many, a sample tells.  Index entries may outlive their
 * rows, for no row number is given out twice.  Where few are dead, or the sample
 * has missed them, they are counted first: all of them go if a user asked, else
 * if they are many.
 */
static void
compact_files(LsmVacuum *vac, bool drop_dead)
{
	LsmCompactRequest request;
	TransactionId oldest = lsm_tree_min_xid(vac->tree);

	if (vac->compacted)
		return;
	memset(&request, 0, sizeof(request));
	if (TransactionIdIsValid(oldest) && TransactionIdPrecedes(oldest, vac->cutoffs.FreezeLimit))
		request.freeze_limit = vac->cutoffs.FreezeLimit;
	request.drop_dead = drop_dead && !vac->failsafe;
	request.urgent = vac->failsafe || vac->params->is_wraparound;
	if (!TransactionIdIsValid(request.freeze_limit) && !request.drop_dead)
		return;
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_VACUUM_HEAP);
	lsm_tree_compact(vac->tree, &request);
	vac->compacted = true;
}

/*
 * This many entries in memory are no reason for a file: with its filter it is
 * made, logged and synced, for each tree of the table.
 */
#define FEW_ENTRIES		4096
#define FEW_BYTES		(1024 * 1024)

/*
 * VACUUM may leave in memory what is there.  It sees the rows of all who had been
 * given a number below the row limit, though it does not flush.
 */
static bool
stays_in_memory(LsmVacuum *vac)
{
	TransactionId oldest = lsm_tree_min_xid(vac->tree);
	LsmTreeSize size;

	if (vac->aggressive || vac->failsafe || vac->params->is_wraparound ||
		RelationUsesLocalBuffers(vac->rel) ||
		(TransactionIdIsValid(oldest) &&
		 TransactionIdPrecedes(oldest, vac->cutoffs.FreezeLimit)))
		return false;
	lsm_tree_size(vac->tree, &size);
	return size.memtable_entries > 0 && size.memtable_entries <= FEW_ENTRIES &&
		size.memtable_bytes <= Min(FEW_BYTES, (Size) lsm_memtable_size_kb * 1024 / 4) &&
		(AmAutoVacuumWorkerProcess() || !lsm_fork_wants_flush(vac->tree)) &&
		lsm_tree_writers_left(vac->tree);
}

/*
 * Where something has to be frozen, rows that are changed from here on must not
 * bring old inserters back, once the files are written anew; nor must those that
 * were changed a moment ago, so that they are flushed, too.
 */
static void
flush_memory(LsmVacuum *vac)
{
	TransactionId limit = InvalidTransactionId;
	TransactionId oldest;

	lsm_tree_flush(vac->tree);
	oldest = lsm_tree_min_xid(vac->tree);
	if (TransactionIdIsValid(oldest) && TransactionIdPrecedes(oldest, vac->cutoffs.FreezeLimit))
		limit = vac->cutoffs.FreezeLimit;
	lsm_tree_note_freeze_limit(vac->tree, limit);
	if (TransactionIdIsValid(limit))
		lsm_tree_flush(vac->tree);
}

/* Take the dead rows out, as scans do that meet some. */
static void
remove_few(LsmVacuum *vac)
{
	LsmTombstones left = {.context = CurrentMemoryContext};

	for (int i = 0; i < vac->few.n; i++)
	{
		if (!lsm_tree_prune(vac->tree, vac->few.keys[i], vac->few.xid))
			lsm_tombstones_add(&left, vac->few.keys[i], vac->few.xid);
	}
	lsm_tombstones_write(&left, vac->tree);
	lsm_tombstones_forget(&vac->few);
}

/* What the rows say, once they have been read */
static bool
dead_rows_pay(const LsmVacuum *vac)
{
	double		dead = vac->dead + vac->superseded;

	return dead > 0 &&
		(!AmAutoVacuumWorkerProcess() ||
		 dead >= DEAD_FRACTION * (vac->kept + vac->dead));
}

/* Does one of the row's versions hold back relfrozenxid? */
static bool
is_to_be_frozen(const LsmVacuum *vac, LsmSlice value)
{
	TransactionId oldest = lsm_table_kind_ops.min_xid(value);

	return TransactionIdIsNormal(oldest) &&
		TransactionIdPrecedes(oldest, vac->cutoffs.FreezeLimit);
}

/*
 * The row is what its newest valid version says.  Older ones go by themselves, and
 * no index knows of them.
 */
static void
scan_rows(LsmVacuum *vac)
{
	BlockNumber nblocks = lsm_limit_blocks(vac->row_limit);
	BlockNumber block = InvalidBlockNumber;
	LsmEnough	enough = lsm_enough_closed(&vac->cutoffs.OldestXmin);
	LsmCursor  *cursor;
	LsmSlice	key;
	LsmSlice	value;
	uint64		read_bytes = 0;
	bool		stayed = vac->in_memory;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS, nblocks);
	lsm_live_init(&vac->entries.live, nblocks);
	if (vac->row_limit == 0)
		return;

	lsm_all_visible_start(&vac->map);
	cursor = lsm_cursor_open(vac->tree);
	lsm_cursor_enough(cursor, &enough);
	lsm_cursor_seek(cursor, lsm_slice(NULL, 0), false, ForwardScanDirection);
	while (lsm_cursor_step(cursor, ForwardScanDirection, &key, &value))
	{
		uint64		packed = lsm_key_decode(key.data);
		LsmRow		version;
		HTSV_Result status;
		TransactionId deleter;
		bool		keep = true;

		if (packed > lsm_number_pack(vac->row_limit - 1))
			break;
		read_bytes += key.len + value.len;
		if (block != (BlockNumber) (packed >> 16))
		{
			block = (BlockNumber) (packed >> 16);
			vacuum_delay_point(false);
			lsm_vacuum_pay(read_bytes);
			read_bytes = 0;
			if (block % 1024 == 0)
			{
				pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, block);
				pgstat_progress_update_param(PROGRESS_VACUUM_NUM_DEAD_ITEM_IDS, (int64) vac->dead);
				check_failsafe(vac);
			}
		}
		status = lsm_versions_vacuum_status(vac->rel, packed, value, vac->cutoffs.OldestXmin,
											&version, &deleter);
		lsm_all_visible_note(&vac->map, packed, value, &version, status,
							 vac->cutoffs.OldestXmin);
		switch (status)
		{
			case HEAPTUPLE_DEAD:
				vac->dead++;
				lsm_note_deleter(&vac->entries, deleter);
				vac->in_memory &= !lsm_tombstones_full(&vac->few);
				if (vac->in_memory)
					lsm_tombstones_add(&vac->few, key, deleter);
				keep = false;
				break;
			case HEAPTUPLE_RECENTLY_DEAD:
				vac->recently_dead++;
				break;
			case HEAPTUPLE_LIVE:
			case HEAPTUPLE_DELETE_IN_PROGRESS:
				/* as if the deleter had not happened: ANALYZE does the same */
				vac->live++;
				break;
			case HEAPTUPLE_INSERT_IN_PROGRESS:
				/*
				 * of a new row, its transaction will report it when it
				 * commits; a row that is being updated is there
				 */
				if (version.version > 0)
					vac->live++;
				break;
		}
		if (keep)
		{
			vac->kept++;
			if (lsm_value_tag(value) != LSM_TAG_PUT &&
				lsm_row_closes(&version, vac->cutoffs.OldestXmin))
				vac->superseded++;
			vac->in_memory = vac->in_memory && !is_to_be_frozen(vac, value);
			lsm_live_add(&vac->entries.live, packed);
		}
	}
	if (stayed && !vac->in_memory)
	{
		/* more are dead than it seemed, or some are to be frozen */
		lsm_tombstones_forget(&vac->few);
		flush_memory(vac);
	}
	lsm_live_close(&vac->entries.live);
	lsm_all_visible_end_rows(&vac->map, vac->live, vac->in_memory &&
							 vac->params->index_cleanup != VACOPTVALUE_ENABLED);
	lsm_cursor_close(cursor);
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, nblocks);
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_DEAD_ITEM_IDS, (int64) vac->dead);
}

/*
 * As heap has it (lazy_vacuum): the indexes are left alone for so few dead rows.
 * Only where what has changed is in memory.  Entries that stay do so until a
 * VACUUM that flushes, which FEW_ENTRIES more changes bring.  Compactions may have
 * dropped dead rows since the last VACUUM: statistics have those.
 */
#define BYPASS_FRACTION	0.02

/*
 * Are there entries to delete, as far as we can know?  Not if every TID ever
 * handed out is in use.  Dead TIDs stay unused forever, so otherwise their
 * entries may have been deleted long ago: a VACUUM by hand looks, autovacuum
 * only if rows died since the last time.
 */
static bool
indexes_need_vacuum(LsmVacuum *vac)
{
	PgStat_StatTabEntry *entry;

	if (vac->nindexes == 0 || check_failsafe(vac) ||
		vac->params->index_cleanup == VACOPTVALUE_DISABLED)
		return false;
	if (vac->params->index_cleanup == VACOPTVALUE_ENABLED)
		return true;
	if (vac->kept >= (double) vac->row_limit)
		return false;
	if (lsm_all_visible_wants_indexes(&vac->map))
		return true;
	entry = pgstat_fetch_stat_tabentry(RelationGetRelid(vac->rel));
	if (vac->in_memory && entry != NULL &&
		Max(vac->gone + vac->dead, (double) entry->dead_tuples) < BYPASS_FRACTION * vac->kept)
		return false;
	if (!AmAutoVacuumWorkerProcess() || vac->gone + vac->dead > 0)
		return true;
	return entry == NULL || entry->dead_tuples > 0;
}

static void
vacuum_indexes(LsmVacuum *vac)
{
	bool		for_map = lsm_all_visible_wants_indexes(&vac->map);
	int			i;

	vac->gone_through = vac->nindexes == 0;
	if (!indexes_need_vacuum(vac))
		return;
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_VACUUM_INDEX);
	lsm_progress_vacuum_indexes(vac->nindexes);
	for (i = 0; i < vac->nindexes; i++)
	{
		vac->stats[i] = lsm_delete_dead_entries(&vac->entries, vac->indexes[i], for_map,
												vac->stats[i], vac->kept + vac->gone + vac->dead,
												vac->strategy);
		lsm_progress_vacuum_index_done();
		if (check_failsafe(vac))
			break;
	}
	vac->gone_through = for_map && i == vac->nindexes;
	lsm_progress_vacuum_indexes(0);
	vac->index_scans++;
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_INDEX_VACUUMS, vac->index_scans);
}

static void
cleanup_indexes(LsmVacuum *vac)
{
	int			i;

	if (vac->nindexes == 0 || vac->failsafe ||
		vac->params->index_cleanup == VACOPTVALUE_DISABLED)
		return;
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);
	lsm_progress_vacuum_indexes(vac->nindexes);
	for (i = 0; i < vac->nindexes; i++)
	{
		IndexVacuumInfo info = lsm_vacuum_info(vac->rel, vac->indexes[i], vac->live, false,
											   vac->strategy);

		vac->stats[i] = index_vacuum_cleanup(&info, vac->stats[i]);
		lsm_progress_vacuum_index_done();
		if (vac->stats[i] == NULL || vac->stats[i]->estimated_count)
			continue;
		vac_update_relstats(vac->indexes[i], vac->stats[i]->num_pages,
							vac->stats[i]->num_index_tuples, 0, 0, false,
							InvalidTransactionId, InvalidMultiXactId,
							NULL, NULL, false);
	}
	lsm_progress_vacuum_indexes(0);
}

/*
 * The end of the main fork: log pages of what is flushed now.  Where rows keep
 * coming they are needed again soon, so autovacuum leaves them; and it does not
 * wait, for it would do so in most tables.  The lock is bad for who waits for
 * it, and for queries on standbys.
 */
static void
truncate_fork(LsmVacuum *vac)
{
	bool		automatic = AmAutoVacuumWorkerProcess();

	if (vac->params->truncate == VACOPTVALUE_DISABLED || vac->failsafe)
		return;
	if (automatic && lsm_tree_row_limit(vac->tree) != vac->row_limit)
		return;
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_TRUNCATE);
	vac->truncated = lsm_fork_truncate(vac->tree, LSM_TRUNCATE_PAGES, !automatic);
}

/* Before the indexes are closed: their names are for the report. */
static char **
index_names(const LsmVacuum *vac)
{
	char	  **names = palloc(Max(vac->nindexes, 1) * sizeof(char *));

	for (int i = 0; i < vac->nindexes; i++)
		names[i] = pstrdup(RelationGetRelationName(vac->indexes[i]));
	return names;
}

static void
report(LsmVacuum *vac, char **names, const LsmVacuumUsage *before, TransactionId frozen_xid,
	   MultiXactId min_multi)
{
	LsmVacuumReport result = {
		.rel = vac->rel,
		.params = vac->params,
		.aggressive = vac->aggressive,
		.before = before,
		.index_scans = vac->index_scans,
		.removed = vac->gone + vac->dead,
		.remain = vac->live + vac->recently_dead,
		.recently_dead = vac->recently_dead,
		.blocks = lsm_limit_blocks(vac->row_limit),
		.oldest_xmin = vac->cutoffs.OldestXmin,
		.former_frozen_xid = vac->cutoffs.relfrozenxid,
		.frozen_xid = frozen_xid,
		.former_min_multi = vac->cutoffs.relminmxid,
		.min_multi = min_multi,
		.nindexes = vac->nindexes,
		.index_names = names,
		.index_stats = vac->stats,
		.compacted = vac->compacted,
		.truncated = vac->truncated
	};

	lsm_vacuum_report(&result);
}

/*
 * lsm_table_limit_horizons - let the cutoffs respect all snapshots.
 *
 * With old_snapshot_threshold, core's run ahead of old snapshots: a scan that
 * reads a page of a heap checks its snapshot's age against the page's LSN.  None
 * does in a tree, so rows that a snapshot sees have to stay.
 */
void
lsm_table_limit_horizons(Relation rel, TransactionId *OldestXmin,
						 TransactionId *FreezeLimit)
{
	TransactionId horizon = lsm_tree_horizon_now(lsm_table_tree(rel));

	if (TransactionIdPrecedes(horizon, *OldestXmin))
		*OldestXmin = horizon;
	if (TransactionIdPrecedes(*OldestXmin, *FreezeLimit))
		*FreezeLimit = *OldestXmin;
}

/* Do the table's changes call for autovacuum, by its own rule? */
static bool
changes_call(const LsmVacuum *vac)
{
	PgStat_StatTabEntry *entry = pgstat_fetch_stat_tabentry(RelationGetRelid(vac->rel));
	const StdRdOptions *options = (const StdRdOptions *) vac->rel->rd_options;
	const AutoVacOpts *own = options != NULL ? &options->autovacuum : NULL;
	double		rows = Max(vac->rel->rd_rel->reltuples, 0);
	double		dead_limit = own != NULL && own->vacuum_threshold >= 0 ?
		own->vacuum_threshold : autovacuum_vac_thresh;
	double		dead_scale = own != NULL && own->vacuum_scale_factor >= 0 ?
		own->vacuum_scale_factor : autovacuum_vac_scale;
	double		insert_limit = own != NULL && own->vacuum_ins_threshold >= -1 ?
		own->vacuum_ins_threshold : autovacuum_vac_ins_thresh;
	double		insert_scale = own != NULL && own->vacuum_ins_scale_factor >= 0 ?
		own->vacuum_ins_scale_factor : autovacuum_vac_ins_scale;

	return entry != NULL &&
		(entry->dead_tuples > dead_limit + dead_scale * rows ||
		 (insert_limit >= 0 && entry->ins_since_vacuum > insert_limit + insert_scale * rows));
}

/*
 * Autovacuum has come lest multixacts wrap around, of which the table has none.
 * (Not if something else would have brought it, too: it says so of each visit,
 * for as long as the oldest multixact does not go.)
 */
static bool
only_multixacts(const LsmVacuum *vac)
{
	const StdRdOptions *options = (const StdRdOptions *) vac->rel->rd_options;
	int			max_age = autovacuum_freeze_max_age;
	TransactionId limit;

	if (!vac->params->is_wraparound || !AmAutoVacuumWorkerProcess())
		return false;
	if (options != NULL && options->autovacuum.freeze_max_age >= 0)
		max_age = Min(max_age, options->autovacuum.freeze_max_age);
	limit = ReadNextTransactionId() - max_age;
	if (limit < FirstNormalTransactionId)
		limit -= FirstNormalTransactionId;
	return TransactionIdIsNormal(vac->cutoffs.relfrozenxid) &&
		!TransactionIdPrecedes(vac->cutoffs.relfrozenxid, limit) && !changes_call(vac);
}

static void
advance_relminmxid(const LsmVacuum *vac)
{
	Form_pg_class class = vac->rel->rd_rel;
	bool		frozen_xid_updated;
	bool		minmulti_updated;

	vac_update_relstats(vac->rel, class->relpages, class->reltuples, class->relallvisible, 0,
						class->relhasindex, InvalidTransactionId, vac->cutoffs.OldestMxact,
						&frozen_xid_updated, &minmulti_updated, false);
}

static void
begin_vacuum(LsmVacuum *vac)
{
	if (vac->verbose)
		ereport(INFO,
				(errmsg("%svacuuming \"%s.%s.%s\"",
						vac->aggressive ? "aggressively " : "",
						get_database_name(MyDatabaseId),
						get_namespace_name(RelationGetNamespace(vac->rel)),
						RelationGetRelationName(vac->rel))));
	vac_open_indexes(vac->rel, RowExclusiveLock, &vac->nindexes, &vac->indexes);
	vac->stats = palloc0(Max(vac->nindexes, 1) * sizeof(IndexBulkDeleteResult *));

	/* as heap says it */
	if (vac->params->nworkers > 0 && vac->nindexes > 1 &&
		RelationUsesLocalBuffers(vac->rel))
		ereport(WARNING,
				(errmsg("disabling parallel option of vacuum on \"%s\" --- cannot vacuum temporary tables in parallel",
						RelationGetRelationName(vac->rel))));
	check_failsafe(vac);
}

/* Row numbers come once.  In time, so that VACUUM FULL is no emergency. */
static void
warn_of_row_limit(const LsmVacuum *vac)
{
	if (vac->row_limit < LSM_MAX_ROWS / 10 * 9)
		return;
	ereport(WARNING,
			(errmsg("table \"%s\" has used %.1f%% of its row identifiers",
					RelationGetRelationName(vac->rel),
					100.0 * (double) vac->row_limit / (double) LSM_MAX_ROWS),
			 errdetail("Each row version takes one, and none is used again."),
			 errhint("Rewrite the table with VACUUM FULL.")));
}

/* What is in memory is flushed, if it is not next to nothing. */
static void
begin_freezing(LsmVacuum *vac)
{
	vac->few.context = CurrentMemoryContext;
	vac->in_memory = stays_in_memory(vac);
	if (vac->in_memory)
		lsm_tree_note_freeze_limit(vac->tree, InvalidTransactionId);
	else
		flush_memory(vac);
}

static void
error_context(void *arg)
{
	errcontext("while vacuuming relation \"%s\"", (const char *) arg);
}

/*
 * lsm_relation_vacuum - VACUUM.
 *
 * The caller holds ShareUpdateExclusiveLock.  Compaction in the background goes
 * on; concurrent readers and writers too.
 */
void
lsm_relation_vacuum(Relation rel, const VacuumParams *params, BufferAccessStrategy bstrategy)
{
	LsmVacuum	vac;
	TransactionId frozen_xid;
	TransactionId oldest;
	BlockNumber visible;
	bool		frozen_xid_updated = false;
	bool		minmulti_updated;
	uint64		dropped;
	char	  **names;
	LsmVacuumUsage before;
	ErrorContextCallback context = {error_context_stack, error_context,
	psprintf("%s.%s", get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel))};

	error_context_stack = &context;
	lsm_vacuum_note_usage(&before);
	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, RelationGetRelid(rel));

	memset(&vac, 0, sizeof(vac));
	vac.rel = rel;
	vac.params = params;
	vac.strategy = bstrategy;
	vac.verbose = (params->options & VACOPT_VERBOSE) != 0;
	lsm_vacuum_failsafe(false);
	vac.aggressive = vacuum_get_cutoffs(rel, params, &vac.cutoffs);
	lsm_table_limit_horizons(rel, &vac.cutoffs.OldestXmin, &vac.cutoffs.FreezeLimit);
	if (only_multixacts(&vac))
	{
		advance_relminmxid(&vac);
		pgstat_progress_end_command();
		error_context_stack = context.previous;
		return;
	}
	begin_vacuum(&vac);

	/* OldestXmin first: rows that come later are none of our business */
	vac.tree = lsm_table_tree(rel);
	lsm_tree_require_files(vac.tree);	/* what is not found counts as dead */
	lsm_tree_note_horizon(vac.tree, vac.cutoffs.OldestXmin);
	vac.row_limit = lsm_tree_row_limit(vac.tree);
	warn_of_row_limit(&vac);
	lsm_all_visible_begin(&vac.map, rel, vac.tree, vac.row_limit);
	lsm_dead_entries_init(&vac.entries, rel, vac.tree, vac.cutoffs.OldestXmin, vac.row_limit);
	dropped = lsm_tree_values_dropped(vac.tree);
	begin_freezing(&vac);
	if (!vac.in_memory && !vac.failsafe && dead_fraction(&vac) >= DEAD_FRACTION)
		compact_files(&vac, true);
	vac.gone = (double) (lsm_tree_values_dropped(vac.tree) - dropped);
	scan_rows(&vac);
	vacuum_indexes(&vac);
	if (vac.in_memory)
		remove_few(&vac);
	else
		compact_files(&vac, dead_rows_pay(&vac));
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_VACUUMED,
								 lsm_limit_blocks(vac.row_limit));
	cleanup_indexes(&vac);
	names = index_names(&vac);
	vac_close_indexes(vac.nindexes, vac.indexes, NoLock);

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_FINAL_CLEANUP);
	frozen_xid = InvalidTransactionId;
	if (!vac.in_memory)
	{
		lsm_tree_flush(vac.tree);
		oldest = lsm_tree_min_xid(vac.tree);
		frozen_xid = vac.cutoffs.OldestXmin;
		if (TransactionIdIsValid(oldest) && TransactionIdPrecedes(oldest, frozen_xid))
			frozen_xid = oldest;
	}

	lsm_tree_age_pruned_xid(vac.tree, vac.cutoffs.FreezeLimit);
	visible = lsm_all_visible_finish(&vac.map, vac.gone_through);
	truncate_fork(&vac);

	/* there are no multixacts in the table, so nothing holds that back */
	vac_update_relstats(rel, lsm_limit_blocks(vac.row_limit), vac.live, visible, 0,
						vac.nindexes > 0, frozen_xid, vac.cutoffs.OldestMxact,
						&frozen_xid_updated, &minmulti_updated, false);
	pgstat_report_vacuum(rel, (PgStat_Counter) vac.live,
						 (PgStat_Counter) vac.recently_dead, before.start);
	pgstat_progress_end_command();
	error_context_stack = context.previous;
	report(&vac, names, &before, frozen_xid_updated ? frozen_xid : InvalidTransactionId,
		   minmulti_updated ? vac.cutoffs.OldestMxact : InvalidMultiXactId);

	MemoryContextDelete(vac.entries.live.context);
	pfree(vac.entries.value.data);
	lsm_tree_remove_dropped();
}
