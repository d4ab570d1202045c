/*-------------------------------------------------------------------------
 *
 * dead_entries.c
 *	  Which entries of an lsm table's indexes VACUUM may delete.
 *
 * An entry below the row limit whose TID is not among the live ones is dead
 * (vacuum.c).  What the set of those has no room for is looked up.
 *
 * Index entries of the rows are about to go, which indexes of other kinds do
 * not log with a horizon: they rely on heap's pruning to have done so.  So who
 * condemns an entry has its row's deleter in the log before.
 *
 * Locking: none, beyond VACUUM's of the table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "am/am.h"
#include "table/dead_entries.h"
#include "table/versions.h"

void
lsm_dead_entries_init(LsmDeadEntries *dead, Relation table, LsmTree *tree,
					  TransactionId oldest_xmin, uint64 row_limit)
{
	memset(dead, 0, sizeof(LsmDeadEntries));
	dead->table = table;
	dead->tree = tree;
	dead->oldest_xmin = oldest_xmin;
	dead->row_limit = row_limit;
	initStringInfo(&dead->value);
}

void
lsm_note_deleter(LsmDeadEntries *dead, TransactionId xid)
{
	if (TransactionIdIsNormal(xid) &&
		(!TransactionIdIsNormal(dead->newest_deleter) ||
		 TransactionIdFollows(xid, dead->newest_deleter)))
		dead->newest_deleter = xid;
}

static void
log_deleter(LsmDeadEntries *dead)
{
	if (dead->newest_deleter == dead->logged_deleter)
		return;
	lsm_horizon_log(dead->tree, dead->newest_deleter, false);
	dead->logged_deleter = dead->newest_deleter;
}

static HTSV_Result
row_status(LsmDeadEntries *dead, uint64 row, TransactionId *deleter)
{
	LsmRow		version;

	return lsm_versions_vacuum_status(dead->table, row,
									  lsm_slice(dead->value.data, dead->value.len),
									  dead->oldest_xmin, &version, deleter);
}

/* Look the row up: is it dead?  Then its deleter is in the log. */
static bool
row_is_dead(LsmDeadEntries *dead, uint64 row)
{
	TransactionId deleter;

	if (!lsm_fetch_newest(dead->tree, row, &dead->value))
		deleter = lsm_tree_pruned_xid(dead->tree);
	else if (row_status(dead, row, &deleter) != HEAPTUPLE_DEAD)
		return false;
	lsm_note_deleter(dead, deleter);
	log_deleter(dead);
	return true;
}

#ifdef USE_ASSERT_CHECKING
/*
 * A row that VACUUM has not seen among the live ones may be there by now: someone
 * with a later horizon had pruned it, and a flush that had read it before, or a
 * load, brings it back (prune.c).  The log has its deleter by pruned_xid.
 */
static bool
row_was_dead(LsmDeadEntries *dead, uint64 row)
{
	TransactionId deleter;

	if (!lsm_fetch_newest(dead->tree, row, &dead->value) ||
		row_status(dead, row, &deleter) == HEAPTUPLE_DEAD)
		return true;
	return TransactionIdIsNormal(deleter) &&
		TransactionIdIsNormal(dead->logged_deleter) &&
		TransactionIdPrecedesOrEquals(deleter, dead->logged_deleter);
}
#endif

/*
 * Callback of index_bulk_delete: can this entry go?  Then its row's deleter is
 * in the log.
 */
static bool
dead_entry(ItemPointer tid, void *state)
{
	LsmDeadEntries *dead = (LsmDeadEntries *) state;
	uint64		packed = lsm_tid_pack(tid);

	if (dead->row_limit == 0 || packed > lsm_number_pack(dead->row_limit - 1))
		return false;			/* came after us */
	if (lsm_live_contains(&dead->live, packed))
		return false;
	if (dead->live.full)
		return row_is_dead(dead, packed);
	if (!dead->deleters_logged)
	{
		/* of all dead rows that were seen, and of those that were gone */
		lsm_note_deleter(dead, lsm_tree_pruned_xid(dead->tree));
		log_deleter(dead);
		dead->deleters_logged = true;
	}
	Assert(row_was_dead(dead, packed));
	return true;
}

/* As heap says it.  Names are asked for before: an error is no time for it. */
typedef struct IndexNames
{
	const char *index;
	const char *schema;
	const char *table;
} IndexNames;

static void
error_context(void *arg)
{
	const IndexNames *names = arg;

	errcontext("while vacuuming index \"%s\" of relation \"%s.%s\"",
			   names->index, names->schema, names->table);
}

/* See dead_entries.h. */
IndexVacuumInfo
lsm_vacuum_info(Relation table, Relation index, double rows, bool estimated,
				BufferAccessStrategy strategy)
{
	IndexVacuumInfo info;

	memset(&info, 0, sizeof(info));
	info.index = index;
	lsm_vacuum_info_set_table(&info, table);
	info.estimated_count = estimated;
	info.message_level = DEBUG2;
	info.num_heap_tuples = rows;
	info.strategy = strategy;
	return info;
}

IndexBulkDeleteResult *
lsm_delete_dead_entries(LsmDeadEntries *dead, Relation index, bool flush_first,
						IndexBulkDeleteResult *stats, double rows,
						BufferAccessStrategy strategy)
{
	IndexVacuumInfo info = lsm_vacuum_info(dead->table, index, rows, true, strategy);
	IndexNames	names = {
		RelationGetRelationName(index),
		get_namespace_name(RelationGetNamespace(dead->table)),
		RelationGetRelationName(dead->table)
	};
	ErrorContextCallback context = {error_context_stack, error_context, &names};

	error_context_stack = &context;
	if (flush_first && lsm_relation_is_index(index))
		lsm_index_flush(index);
	stats = index_bulk_delete(&info, stats, dead_entry, dead);
	error_context_stack = context.previous;
	return stats;
}
