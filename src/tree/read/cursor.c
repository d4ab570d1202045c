/*-------------------------------------------------------------------------
 *
 * cursor.c
 *	  Ordered scans: a merge of memtables and runs, in both directions.
 *
 * Every call enters the epoch and leaves it.  Between calls the cursor keeps
 * its position as a copy of a key, its version pinned (memory only) and its
 * iterators; the latter are used again only if neither the set of memtables
 * nor the version has changed since, which set_stamp and version_no tell under
 * the new epoch.  Otherwise everything is opened anew behind the held key.  So
 * an idle cursor holds back neither memory nor the unlinking of files.
 *
 * Entries inserted into a memtable while a forward scan runs are seen if
 * they come after the position: the successor of the last node passed is
 * read again at every step.  What was there at the seek is never missed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/memtable/memtable.h"
#include "tree/read/cursor.h"
#include "tree/read/filecache.h"
#include "tree/read/merge.h"
#include "tree/read/read.h"
#include "tree/read/second_opinion.h"
#include "tree/read/version.h"

void
lsm_cursor_prepare(LsmCursor *cursor, bool forward)
{
	bool		positioned = cursor->positioned && cursor->forward == forward;

	/* if something fails below, the sources' places mean nothing */
	cursor->positioned = false;
	cursor->flip = forward ? 0 : PG_UINT64_MAX;
	if (!positioned || !cursor->built)
		cursor->common_bytes = 0;
	if (!cursor->built)
	{
		/* on an error what was built is dropped, and built again */
		bool		asking = cursor->point && !cursor->asked;

		lsm_sources_drop(cursor);
		lsm_sources_build(cursor, asking, forward);
		cursor->built = true;
		cursor->asked |= asking;
		positioned = asking;
	}

	for (int i = 0; i < cursor->nsources; i++)
	{
		LsmSource  *source = &cursor->sources[i];

		/* nodes that were found in another epoch may have been removed */
		source->at_back = source->nback = source->back_level = 0;
		if (!positioned)
		{
			lsm_source_position(cursor, source, forward);
			if (source->asked)
				lsm_limit_outcome(cursor, source, forward);
		}
		else if (source->consumed)
		{
			lsm_source_advance(cursor, source, forward);
			lsm_source_count_blocks(cursor, source);
		}
		else if (forward && source->memtable != NULL)
			lsm_source_refresh(cursor, source);
	}
	cursor->forward = forward;
	cursor->positioned = true;
}

void
lsm_cursor_enter(LsmCursor *cursor)
{
	LsmTree    *tree = cursor->tree;

	lsm_tree_enter(tree);
	if (likely(cursor->version != NULL && cursor->ctl == tree->ctl &&
			   pg_atomic_read_u64(&tree->ctl->memory.set_stamp) == cursor->set.stamp &&
			   pg_atomic_read_u64(&tree->ctl->files.version_no) == cursor->version->place.version_no))
	{
		lsm_filecache_begin();
		return;
	}
	lsm_tree_exit(tree);

	lsm_sources_count_blocks(cursor);
	lsm_sources_drop(cursor);
	if (cursor->version != NULL)
	{
		LsmVersion *version = cursor->version;

		cursor->version = NULL;
		lsm_version_unpin(version);
	}
	cursor->version = lsm_version_pin(lsm_version_enter(tree, &cursor->set));
	cursor->ctl = tree->ctl;
	lsm_filecache_begin();
}

/* ======================================================================
 * The merge
 * ====================================================================== */

LsmTag
lsm_cursor_fold(LsmCursor *cursor, int nties)
{
	LsmFold		fold;

	lsm_fold_begin(&fold, cursor->tree->ops, &cursor->value);
	fold.enough = cursor->enough;
	fold.disordered = cursor->version->salvaged;
	for (int i = 0; i < nties; i++)
	{
		LsmSource  *source = &cursor->sources[cursor->ties[i]];

		source->consumed = true;
		if (lsm_fold_complete(&fold))
			continue;
		if (source->memtable != NULL)
			(void) lsm_fold_add_memvalue(&fold, lsm_memnode_value(source->node));
		else
			(void) lsm_fold_add(&fold, lsm_source_file_value(source));
	}
	(void) lsm_fold_end(&fold);
	return fold.tag;
}

/* ======================================================================
 * Life cycle and seeks
 * ====================================================================== */

/* Memory context callback: runs on an error too. */
static void
cursor_release(void *arg)
{
	LsmCursor  *cursor = arg;

	lsm_sources_drop(cursor);
	if (cursor->version != NULL)
		lsm_version_unpin(cursor->version);
	cursor->version = NULL;
}

static void
init_buffer(StringInfo buf, int bytes)
{
	buf->data = palloc(bytes);
	buf->maxlen = bytes;
	resetStringInfo(buf);
}

LsmCursor *
lsm_cursor_open(LsmTree *tree)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "lsm cursor",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	LsmCursor  *cursor = palloc0(sizeof(LsmCursor));

	cursor->cxt = cxt;
	cursor->tree = tree;
	cursor->side = LSM_BEFORE_KEY;
	cursor->unbounded = true;
	init_buffer(&cursor->key, 128);
	init_buffer(&cursor->filter_key, 128);
	init_buffer(&cursor->limit_key, 128);
	init_buffer(&cursor->value, 256);
	cursor->one = palloc(sizeof(LsmBatch));
	cursor->one->headroom = cursor->one->aligned = 0;
	init_buffer(&cursor->one->bytes, 256);
	cursor->callback.func = cursor_release;
	cursor->callback.arg = cursor;
	MemoryContextRegisterResetCallback(cxt, &cursor->callback);
	MemoryContextSwitchTo(old);
	return cursor;
}

void
lsm_cursor_memory_only(LsmCursor *cursor)
{
	Assert(!cursor->built && !cursor->point);
	cursor->memory_only = true;
}

void
lsm_cursor_enough(LsmCursor *cursor, const LsmEnough *enough)
{
	cursor->enough = enough;
}

void
lsm_cursor_close(LsmCursor *cursor)
{
	lsm_sources_count_blocks(cursor);
	MemoryContextDelete(cursor->cxt);
}

void
lsm_cursor_seek(LsmCursor *cursor, LsmSlice key, bool after,
				ScanDirection direction)
{
	bool		forward = ScanDirectionIsForward(direction);
	LsmCursorSide side = forward != after ? LSM_BEFORE_KEY : LSM_AFTER_KEY;

	if (cursor->point)
	{
		cursor->point = false;
		lsm_sources_count_blocks(cursor);
		lsm_sources_drop(cursor);
	}
	if (key.len == 0)
		side = forward ? LSM_BEFORE_KEY : LSM_AFTER_KEY;
	lsm_cursor_put(cursor, key, side);
	cursor->sought = true;
	cursor->skipped = 0;
}

void
lsm_cursor_limit(LsmCursor *cursor, LsmSlice leading, uint32 columns)
{
	if (columns == cursor->limit_columns &&
		(columns == 0 || (leading.len == (uint32) cursor->limit_key.len &&
						  memcmp(leading.data, cursor->limit_key.data, leading.len) == 0)))
		return;
	lsm_sources_count_blocks(cursor);
	lsm_sources_drop(cursor);
	cursor->limit_columns = columns;
	if (columns == 0)
		return;
	resetStringInfo(&cursor->limit_key);
	lsm_buffer_append(&cursor->limit_key, leading.data, leading.len);
	lsm_probe_begin(cursor->tree, &cursor->limit,
					lsm_slice(cursor->limit_key.data, leading.len));
}

static void
seek_point(LsmCursor *cursor, const LsmProbe *probe)
{
	LsmSlice	key = probe->filter_key;

	lsm_sources_count_blocks(cursor);
	lsm_sources_drop(cursor);
	if (key.data != cursor->filter_key.data)
	{
		resetStringInfo(&cursor->filter_key);
		lsm_buffer_append(&cursor->filter_key, key.data, key.len);
	}
	cursor->probe = *probe;
	cursor->probe.filter_key = lsm_slice(cursor->filter_key.data, key.len);
	cursor->point = true;
	cursor->asked = false;
	cursor->sought = false;
	cursor->skipped = 0;
}

void
lsm_cursor_seek_point(LsmCursor *cursor, const LsmProbe *probe)
{
	seek_point(cursor, probe);
	lsm_cursor_put(cursor, cursor->probe.filter_key, LSM_BEFORE_KEY);
}

void
lsm_cursor_seek_point_last(LsmCursor *cursor, const LsmProbe *probe)
{
	seek_point(cursor, probe);
	lsm_cursor_put(cursor, cursor->probe.filter_key, LSM_AFTER_KEY);

	/* the last possible row identifier */
	if (cursor->tree->kind == LSM_KIND_INDEX)
		lsm_buffer_append(&cursor->key, "\377\377\377\377\377\377", 6);
}
