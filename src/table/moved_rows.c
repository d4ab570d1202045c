/*-------------------------------------------------------------------------
 *
 * moved_rows.c
 *	  Row numbers of a table that SET TABLESPACE moves.
 *
 * The table is copied, but its indexes stay as they are.  Should the
 * transaction roll back, they will have entries for the rows that it wrote to
 * the copy, and the original must never give these TIDs to other rows.  So the
 * copy may use only so many row numbers in this transaction, and the original
 * skips them for good: a dead row is written at the last one.  (At commit the
 * original goes away.)
 *
 * How many: in proportion to what there is, so that ANALYZE, which samples TID
 * blocks, still finds rows behind the gap.
 *
 * Locking: none; the caller of SET TABLESPACE has the table to himself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "table/table.h"

#define MOVED_ROWS_MIN		((uint64) 1 << 22)
#define MOVED_ROWS_MAX		((uint64) 1 << 30)
#define MOVED_ROWS_FACTOR	4

typedef struct MovedTable
{
	RelFileLocator copy;
	uint64		row_limit;		/* the copy's, until the transaction ends */
	struct MovedTable *next;
} MovedTable;

/* those of the current transaction, in TopTransactionContext */
static MovedTable *moved_tables = NULL;

static void
forget_moved_tables(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			moved_tables = NULL;
			break;
		default:
			break;
	}
}

static MovedTable *
find_moved_table(const RelFileLocator *rlocator)
{
	MovedTable *moved = moved_tables;

	while (moved != NULL && !RelFileLocatorEquals(moved->copy, *rlocator))
		moved = moved->next;
	return moved;
}

/*
 * ERROR if the table was moved in this transaction and has no room for n more
 * rows.
 */
void
lsm_relation_check_room(Relation rel, LsmTree *tree, int n)
{
	MovedTable *moved;

	if (likely(moved_tables == NULL))
		return;
	moved = find_moved_table(&rel->rd_locator);
	if (moved == NULL || lsm_tree_row_limit(tree) + n <= moved->row_limit)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("too many rows for table \"%s\" in the transaction that changed its tablespace",
					RelationGetRelationName(rel)),
			 errhint("Commit after ALTER TABLE ... SET TABLESPACE.")));
}

/*
 * Make the next n row numbers unusable, durably, by a dead row at the last of
 * them.
 */
static void
reserve_rows(LsmTree *tree, int n)
{
	char		key[LSM_TID_BYTES];
	uint16		no_attributes = 0;
	LsmRow		dead;
	LsmEntry	entry;
	LsmWrite	write;
	StringInfoData value;

	memset(&dead, 0, sizeof(dead));
	dead.flags = LSM_ROW_KILLED;
	dead.body = (char *) &no_attributes;
	dead.body_bytes = sizeof(no_attributes);
	initStringInfo(&value);
	lsm_row_encode(&value, &dead, true);

	memset(&entry, 0, sizeof(entry));
	entry.key = lsm_slice(key, sizeof(key));
	entry.value = lsm_slice(value.data, value.len);
	lsm_write_begin(tree, &write, &entry, 1);
	lsm_key_encode(lsm_number_pack(lsm_write_allocate_rows(&write, n) + n - 1), key);
	lsm_write_apply(&write);
	pfree(value.data);
}

/* `tree` is the original's, already copied. */
void
lsm_reserve_moved_rows(Relation rel, LsmTree *tree, const RelFileLocator *copy)
{
	static bool registered = false;
	uint64		limit = lsm_tree_row_limit(tree);
	uint64		rows = Min(Max(limit * MOVED_ROWS_FACTOR, MOVED_ROWS_MIN), MOVED_ROWS_MAX);
	MovedTable *source = find_moved_table(&rel->rd_locator);
	MovedTable *moved;

	/* moved twice: stay within what the first original has reserved */
	if (source != NULL)
		rows = (source->row_limit - Min(limit, source->row_limit)) / 2;
	if (rows > 0)
		reserve_rows(tree, (int) rows);

	if (!registered)
		RegisterXactCallback(forget_moved_tables, NULL);
	registered = true;
	moved = MemoryContextAlloc(TopTransactionContext, sizeof(MovedTable));
	moved->copy = *copy;
	moved->row_limit = limit + rows;
	moved->next = moved_tables;
	moved_tables = moved;
}
