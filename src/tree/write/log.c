/*-------------------------------------------------------------------------
 *
 * log.c
 *	  Appending entries to log pages.
 *
 * A tree has a few open log pages (slots), so that concurrent writers do not
 * queue behind one buffer lock.  Each call writes one WAL record: as many
 * entries as fit into the slot's page, or one entry that is larger than a
 * page, on fresh pages of its own.
 *
 * Everything that can fail (page allocation, memory) comes before the critical
 * section, the memtable insert after it cannot fail: an entry is in the log
 * page, the WAL and the memtable, or nowhere.  An error between two calls of
 * one write leaves its earlier entries applied; the caller's transaction
 * aborts then, and they carry its xid.
 *
 * Sequence numbers are given under the page's lock, so those of one
 * page ascend; across slots they need not ascend in WAL order, and no one
 * relies on that.
 *
 * The pages of a generation are a list (log_entry.h), to which one writer at a
 * time adds.
 *
 * Locking: slot lock -> chain_lock, if a page is added -> alloc_lock (released)
 * -> content lock of the page -> that of the list's last page so far, which
 * nobody holds who waits for any of these.
 * The memtable insert comes after all of them are released: what keeps the
 * memtable in place is the writer's registration.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/proc.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/log_notes.h"
#include "tree/disk/page.h"
#include "tree/disk/wal.h"
#include "tree/memtable/memtable.h"
#include "tree/write/write.h"

/* Pages of the longest entry */
#define LSM_LOG_SPAN_PAGES	5

/* What a page with a head has for entries */
#define LSM_LOG_PAGE_BYTES	(LSM_PAGE_BYTES - sizeof(LsmLogHead))

StaticAssertDecl(sizeof(LsmLogHead) + LSM_LOG_HEADER_MAX_BYTES + LSM_MAX_ENTRY_BYTES <=
				 LSM_LOG_SPAN_PAGES * LSM_PAGE_BYTES,
				 "longest entry does not fit the pages of one record");
StaticAssertDecl(LSM_LOG_SPAN_PAGES <= XLR_NORMAL_MAX_BLOCK_ID + 1,
				 "more block references than a plain record has");
StaticAssertDecl(sizeof(LsmLogHead) == 16, "on-disk struct changed size");
StaticAssertDecl(LSM_MAX_WRITE_ENTRIES <= UINT8_MAX,
				 "nentries of LsmWalAppend is too small");
StaticAssertDecl(sizeof(LsmWalAppend) == 4 && sizeof(LsmPageOpaque) == 16,
				 "on-disk structs changed size");
StaticAssertDecl(sizeof(LsmWalNotes) == 4, "on-disk struct changed size");

/* A page that is to be the last of its generation's list */
typedef struct LsmLogFresh
{
	LsmLogHead	head;
	Buffer		link;			/* the last one so far, pinned, or invalid */
} LsmLogFresh;

/*
 * Insert the WAL record of an append and stamp the pages.  The entry bytes are
 * taken from the pages themselves: page i holds bytes[i] of them from
 * its start on, but for the first of an existing page (`fresh` NULL), from
 * `offset` on.  Notes of the entries, the n of the write from `first` on, go
 * along.  REQUIRES: critical section, pages locked and dirty.
 */
static void
lsm_log_wal(LsmWrite *write, int first, int n, const LsmLogFresh *fresh,
			int npages, Buffer *buffers, uint16 offset, const uint16 *bytes)
{
	bool		linked = fresh != NULL && BufferIsValid(fresh->link);
	LsmWalAppend record;
	LsmWalNotes notes = {0};
	XLogRecPtr	lsn;
	int			i;

	Assert(CritSectionCount > 0 && npages > 0);
	record.offset = offset;
	record.nentries = n;
	record.fresh = fresh == NULL ? 0 : LSM_APPEND_FRESH | (linked ? LSM_APPEND_LINKED : 0);
	if (write->notes != NULL)
		notes.bytes = lsm_log_notes_put(write->notes, &write->entries[first], n) - write->notes;

	XLogBeginInsert();
	XLogRegisterData((char *) &record, sizeof(record));
	if (notes.bytes > 0 || fresh != NULL)
		XLogRegisterData((char *) &notes, sizeof(notes));
	if (notes.bytes > 0)
	{
		XLogRegisterData(write->notes, notes.bytes);
		/* decoding drops the changes of unwanted origins row by row */
		XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	}
	if (fresh != NULL)
		XLogRegisterData((char *) &write->generation, sizeof(write->generation));
	for (i = 0; i < npages; i++)
	{
		XLogRegisterBuffer(i, buffers[i],
						   REGBUF_STANDARD | (fresh != NULL ? REGBUF_WILL_INIT : 0));
		XLogRegisterData((char *) BufferGetPage(buffers[i]) +
						 (i == 0 ? offset : LSM_PAGE_START), bytes[i]);
	}
	if (linked)
		XLogRegisterBuffer(npages, fresh->link, REGBUF_STANDARD);
	lsn = XLogInsert(LSM_RMGR_ID, fresh != NULL ? XLOG_LSM_LOG_APPEND_HEADED :
					 notes.bytes > 0 ? XLOG_LSM_LOG_APPEND_LOGICAL : XLOG_LSM_LOG_APPEND);
	for (i = 0; i < npages; i++)
		PageSetLSN(BufferGetPage(buffers[i]), lsn);
	if (linked)
		PageSetLSN(BufferGetPage(fresh->link), lsn);
}

/* ---- the list of a generation's pages ---- */

/*
 * A page is about to be added to the list.  All that can fail and that concerns
 * its end comes here.  False, and nothing is locked: others add one, and the
 * write is optional.  REQUIRES: no content lock held; the writer is registered,
 * so that the generation's pages stay.
 */
static bool
list_begin(LsmWrite *write, LsmLogFresh *fresh)
{
	LsmTree    *tree = write->tree;
	LsmMemtable *memtable = write->memtable;

	if (!write->optional)
		LWLockAcquire(&tree->ctl->log.chain_lock, LW_EXCLUSIVE);
	else if (!LWLockConditionalAcquire(&tree->ctl->log.chain_lock, LW_EXCLUSIVE))
		return false;
	fresh->head.next = fresh->head.before = InvalidBlockNumber;
	fresh->head.before_crc = 0;
	fresh->link = InvalidBuffer;
	if (memtable->log_last == InvalidBlockNumber)
		return true;

	fresh->link = lsm_page_read(tree, memtable->log_last);
	LockBuffer(fresh->link, BUFFER_LOCK_SHARE);
	if (lsm_page_check(tree, BufferGetPage(fresh->link), memtable->log_last,
					   LSM_PAGE_LOG)->owner != write->generation ||
		lsm_page_head(BufferGetPage(fresh->link)) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block %u of relation %s is not the log page that it was",
						memtable->log_last,
						lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM))));
	LockBuffer(fresh->link, BUFFER_LOCK_UNLOCK);
	return true;
}

/* `block` is its last page.  REQUIRES: critical section, fresh->link locked. */
static void
list_link(LsmWrite *write, const LsmLogFresh *fresh, BlockNumber block)
{
	LsmMemtable *memtable = write->memtable;

	if (BufferIsValid(fresh->link))
	{
		lsm_page_head(BufferGetPage(fresh->link))->next = block;
		MarkBufferDirty(fresh->link);
	}
	else
		memtable->log_first = block;
	memtable->log_last = block;
}

/* Added or not; `locked`: fresh->link is. */
static void
list_end(LsmWrite *write, const LsmLogFresh *fresh, bool locked)
{
	if (BufferIsValid(fresh->link) && locked)
		UnlockReleaseBuffer(fresh->link);
	else if (BufferIsValid(fresh->link))
		ReleaseBuffer(fresh->link);
	LWLockRelease(&write->tree->ctl->log.chain_lock);
}

/*
 * The metapage is to say where the list begins: once for each generation, soon
 * after its first page.  REQUIRES: neither slot nor content lock held.
 */
static inline void
list_root(LsmWrite *write)
{
	LsmMemtable *memtable = write->memtable;

	if (likely(memtable->log_rooted) || write->optional ||
		memtable->log_first == InvalidBlockNumber)
		return;
	lsm_meta_note_root(write->tree, write->generation, memtable->log_first);
	memtable->log_rooted = true;
}

/* ---- appending ---- */

static void
lsm_log_insert(LsmWrite *write, int first, int n, uint64 seq)
{
	lsm_memtable_insert_many((LsmMemtable *) write->memtable, &write->entries[first],
							 n, seq);
	LSM_CRASH_POINT("append_after_memtable");
}

/* Without the slot's lock this is a hint. */
static inline bool
lsm_log_slot_fits(const LsmLogSlot *slot, uint64 generation, uint32 bytes)
{
	return slot->block != InvalidBlockNumber && slot->generation == generation &&
		slot->room >= bytes;
}

/*
 * Any slot no one is at, one's own first; else wait for one's own, whose
 * holder waits for page I/O at most.  An optional write does not wait (NULL),
 * and prefers a slot whose page has room for it.
 */
static LsmLogSlot *
lsm_log_lock_slot(LsmTreeShared *ctl, uint64 generation, uint32 bytes, bool optional)
{
	int			own = MyProcNumber % LSM_LOG_SLOTS;
	int			i;

	for (i = 0; i < LSM_LOG_SLOTS; i++)
	{
		LsmLogSlot *slot = &ctl->log.slots[(own + i) % LSM_LOG_SLOTS];

		if (!LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
			continue;
		if (!optional || i == LSM_LOG_SLOTS - 1 || lsm_log_slot_fits(slot, generation, bytes))
			return slot;
		LWLockRelease(&slot->lock);
	}
	if (optional)
		return NULL;
	LWLockAcquire(&ctl->log.slots[own].lock, LW_EXCLUSIVE);
	return &ctl->log.slots[own];
}

/*
 * Fetch the page that the process will most likely append to.  What is read
 * here without a lock is a hint.
 */
void
lsm_log_prefetch(const LsmTree *tree)
{
	const LsmLogSlot *slot = &tree->ctl->log.slots[MyProcNumber % LSM_LOG_SLOTS];
	Buffer		buffer = *(const volatile Buffer *) &slot->recent_buffer;

	if (tree->relpersistence != RELPERSISTENCE_TEMP && buffer > 0 && buffer <= NBuffers)
		__builtin_prefetch(BufferGetBlock(buffer), 1);
}

/* The slot's page, pinned: without a look into the buffer table, as a rule. */
static Buffer
lsm_log_slot_read(LsmTree *tree, LsmLogSlot *slot)
{
	if (tree->relpersistence == RELPERSISTENCE_TEMP ||
		!BufferIsValid(slot->recent_buffer) ||
		!ReadRecentBuffer(tree->rlocator, MAIN_FORKNUM, slot->block,
						  slot->recent_buffer))
		slot->recent_buffer = lsm_page_read(tree, slot->block);
	return slot->recent_buffer;
}

/*
 * The slot's page, exclusively locked, if it is of this generation and has
 * room for `bytes`; else invalid, and *full says which page that was.
 * *last_seq: of its last entry.  REQUIRES: slot locked.
 */
static Buffer
lsm_log_slot_room(LsmTree *tree, LsmLogSlot *slot, uint64 generation,
				  uint32 bytes, uint64 *last_seq, LsmLogHead *full)
{
	Buffer		buffer;
	PageHeader	header;
	LsmPageOpaque *opaque;

	Assert(LWLockHeldByMeInMode(&slot->lock, LW_EXCLUSIVE));
	if (slot->block == InvalidBlockNumber || slot->generation != generation)
		return InvalidBuffer;
	buffer = lsm_log_slot_read(tree, slot);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	opaque = lsm_page_check(tree, BufferGetPage(buffer), slot->block, LSM_PAGE_LOG);
	if (opaque->owner != generation || lsm_page_head(BufferGetPage(buffer)) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("open log page in block %u of relation %s belongs to generation " UINT64_FORMAT ", not " UINT64_FORMAT,
						slot->block,
						lsm_relpath(tree->rlocator, tree->backend, MAIN_FORKNUM),
						opaque->owner, generation)));
	header = (PageHeader) BufferGetPage(buffer);
	if (header->pd_upper - header->pd_lower >= bytes)
	{
		*last_seq = slot->last_seq;
		return buffer;
	}
	full->before = slot->block;
	full->before_crc = lsm_page_head(BufferGetPage(buffer))->crc;
	UnlockReleaseBuffer(buffer);
	return InvalidBuffer;
}

/*
 * The page to append to, exclusively locked: the slot's if it has room, else a
 * free one (*is_fresh), with the chain locked, or invalid if `optional` and that
 * takes disk space.  A new page becomes the slot's, unless the slot's page is of
 * a newer generation (a writer that registered before the seal must not push
 * that one out).  *last_seq: of the page's last entry; the caller keeps that of
 * the slot up to date if the page is the slot's.  REQUIRES: slot locked.
 */
static Buffer
lsm_log_slot_page(LsmWrite *write, LsmLogSlot *slot, uint32 bytes, bool *is_fresh,
				  LsmLogFresh *fresh, uint64 *last_seq)
{
	LsmTree    *tree = write->tree;
	uint64		generation = write->generation;
	LsmLogHead	full = {.before = InvalidBlockNumber};
	Buffer		buffer = lsm_log_slot_room(tree, slot, generation, bytes, last_seq, &full);

	*is_fresh = false;
	if (BufferIsValid(buffer) || !list_begin(write, fresh))
		return buffer;

	*is_fresh = true;
	*last_seq = 0;
	fresh->head.before = full.before;
	fresh->head.before_crc = full.before_crc;
	buffer = write->optional ? lsm_page_reuse(tree) : lsm_page_allocate(tree);
	if (!BufferIsValid(buffer))
	{
		list_end(write, fresh, false);
		return buffer;
	}
	if (slot->block == InvalidBlockNumber || slot->generation <= generation)
	{
		/*
		 * If an error came before the page is initialised, the check above
		 * would find a page of another generation: nothing that can fail lies
		 * between here and the critical section.
		 */
		slot->block = BufferGetBlockNumber(buffer);
		slot->recent_buffer = buffer;
		slot->generation = generation;
	}
	return buffer;
}

bool
lsm_log_has_room(LsmTree *tree, uint32 bytes)
{
	LsmTreeShared *ctl = tree->ctl;

	if (ctl->local || ctl->pages.free_pages > 0)
		return true;
	for (int i = 0; i < LSM_LOG_SLOTS; i++)
	{
		if (lsm_log_slot_fits(&ctl->log.slots[i], ctl->memory.active_generation, bytes))
			return true;
	}
	return false;
}

/* Beyond this nothing is added, so that the sum cannot overflow. */
#define WANTED_LOG_BYTES_MAX	(64 * 1024 * 1024)

void
lsm_log_want_room(LsmTree *tree, uint32 bytes)
{
	pg_atomic_uint32 *wanted = &tree->ctl->log.wanted_log_bytes;

	if (tree->ctl->local || pg_atomic_read_u32(wanted) >= WANTED_LOG_BYTES_MAX)
		return;
	if (pg_atomic_fetch_add_u32(wanted, bytes) == 0)
		lsm_worker_wake_first();
}

/*
 * Write n entries to the page, whose content lock is held, from `offset` on.
 * Returns the sequence number of the first.
 */
static uint64
lsm_log_fill_page(LsmWrite *write, int first, int n, LsmLogSlot *slot, Buffer buffer,
				  LsmLogFresh *fresh, uint64 last_seq)
{
	LsmTree    *tree = write->tree;
	Page		page = BufferGetPage(buffer);
	BlockNumber block = BufferGetBlockNumber(buffer);
	PageHeader	header = (PageHeader) page;
	uint16		offset;
	uint16		bytes;
	LsmLogHead *head;
	char	   *start;
	char	   *out;
	uint64		seq;

	if (fresh != NULL && BufferIsValid(fresh->link))
		LockBuffer(fresh->link, BUFFER_LOCK_EXCLUSIVE);
	START_CRIT_SECTION();
	if (fresh != NULL)
	{
		lsm_page_init(page, LSM_PAGE_LOG, write->generation, LSM_PAGE_HEADED, InvalidBlockNumber);
		offset = LSM_PAGE_START;
		*lsm_page_head(page) = fresh->head;
		lsm_page_head(page)->crc = lsm_log_crc_begin(write->generation, block, &fresh->head);
		start = lsm_page_entries(page);
		list_link(write, fresh, block);
	}
	else
	{
		offset = header->pd_lower;
		start = (char *) page + offset;
	}
	seq = pg_atomic_fetch_add_u64(&tree->ctl->seq, n) + 1;
	out = start;
	for (int i = 0; i < n; i++)
		out = lsm_log_entry_put(out, &write->entries[first + i],
								i == 0 ? seq - last_seq : 1);
	head = lsm_page_head(page);
	head->crc = lsm_log_crc_add(head->crc, start, out - start);
	header->pd_lower = out - (char *) page;
	Assert(header->pd_lower <= header->pd_upper);
	if (slot->block == block)
	{
		slot->last_seq = seq + n - 1;
		slot->room = header->pd_upper - header->pd_lower;
	}
	bytes = header->pd_lower - offset;
	MarkBufferDirty(buffer);
	if (lsm_tree_needs_wal(tree))
		lsm_log_wal(write, first, n, fresh, 1, &buffer, offset, &bytes);
	END_CRIT_SECTION();
	return seq;
}

/* As many entries as fit the slot's page. */
static int
lsm_log_append_slot(LsmWrite *write, int first)
{
	LsmTreeShared *ctl = write->tree->ctl;
	uint32		need = lsm_log_entry_room(&write->entries[first]);
	LsmLogSlot *slot = lsm_log_lock_slot(ctl, write->generation, need, write->optional);
	LsmLogFresh fresh;
	Buffer		buffer;
	bool		is_fresh;
	uint32		room;
	uint64		seq;
	uint64		last_seq;
	int			n = 0;

	if (slot == NULL)
		return 0;
	buffer = lsm_log_slot_page(write, slot, need, &is_fresh, &fresh, &last_seq);
	if (!BufferIsValid(buffer))
	{
		LWLockRelease(&slot->lock);
		return 0;
	}
	room = is_fresh ? LSM_LOG_PAGE_BYTES :
		LSM_PAGE_START + LSM_PAGE_BYTES - ((PageHeader) BufferGetPage(buffer))->pd_lower;
	while (first + n < write->nentries)
	{
		need = lsm_log_entry_room(&write->entries[first + n]);
		if (need > room)
			break;
		room -= need;
		n++;
	}
	Assert(n > 0);
	if (write->optional &&
		!lsm_memtable_reserve_many((LsmMemtable *) write->memtable, &write->entries[first], n))
	{
		if (is_fresh && slot->block == BufferGetBlockNumber(buffer))
			slot->block = InvalidBlockNumber;	/* it stays free */
		UnlockReleaseBuffer(buffer);
		if (is_fresh)
			list_end(write, &fresh, false);
		LWLockRelease(&slot->lock);
		return 0;
	}
	LSM_CRASH_POINT("append_before_wal");
	seq = lsm_log_fill_page(write, first, n, slot, buffer, is_fresh ? &fresh : NULL, last_seq);
	UnlockReleaseBuffer(buffer);
	if (is_fresh)
		list_end(write, &fresh, true);
	LWLockRelease(&slot->lock);
	LSM_CRASH_POINT("append_after_wal");

	lsm_log_insert(write, first, n, seq);
	list_root(write);
	return n;
}

/*
 * One entry longer than a page, on pages of its own.  No slot is involved:
 * no one else knows the pages before the record is written.
 */
static int
lsm_log_append_spanning(LsmWrite *write, int first)
{
	LsmTree    *tree = write->tree;
	LsmEntry   *entry = &write->entries[first];
	char	   *image = palloc(sizeof(LsmLogHead) + lsm_log_entry_room(entry));
	char	   *start = image + sizeof(LsmLogHead);
	LsmLogFresh fresh;
	uint32		total;
	int			npages;
	Buffer		buffers[LSM_LOG_SPAN_PAGES];
	uint16		bytes[LSM_LOG_SPAN_PAGES];
	uint64		seq;
	int			i;

	/* before the critical section: how many pages it takes */
	seq = pg_atomic_fetch_add_u64(&tree->ctl->seq, 1) + 1;
	total = lsm_log_entry_put(start, entry, seq) - image;
	npages = (total + LSM_PAGE_BYTES - 1) / LSM_PAGE_BYTES;
	Assert(npages <= LSM_LOG_SPAN_PAGES);
	XLogEnsureRecordSpace(npages, 0);	/* those, and the one before */
	(void) list_begin(write, &fresh);
	lsm_page_allocate_many(tree, npages, buffers);
	LSM_CRASH_POINT("append_before_wal");

	fresh.head.crc = lsm_log_crc_add(lsm_log_crc_begin(write->generation,
													   BufferGetBlockNumber(buffers[0]),
													   &fresh.head),
									 start, image + total - start);
	memcpy(image, &fresh.head, sizeof(fresh.head));
	if (BufferIsValid(fresh.link))
		LockBuffer(fresh.link, BUFFER_LOCK_EXCLUSIVE);
	START_CRIT_SECTION();
	for (i = 0; i < npages; i++)
	{
		Page		page = BufferGetPage(buffers[i]);
		uint32		done = i * LSM_PAGE_BYTES;

		bytes[i] = Min(total - done, LSM_PAGE_BYTES);
		lsm_page_init(page, LSM_PAGE_LOG, write->generation,
					  i > 0 ? LSM_PAGE_CONTINUES : LSM_PAGE_HEADED,
					  i + 1 < npages ? BufferGetBlockNumber(buffers[i + 1]) : InvalidBlockNumber);
		memcpy((char *) page + LSM_PAGE_START, image + done, bytes[i]);
		((PageHeader) page)->pd_lower = LSM_PAGE_START + bytes[i];
		MarkBufferDirty(buffers[i]);
	}
	list_link(write, &fresh, BufferGetBlockNumber(buffers[0]));
	if (lsm_tree_needs_wal(tree))
		lsm_log_wal(write, first, 1, &fresh, npages, buffers, LSM_PAGE_START, bytes);
	END_CRIT_SECTION();

	for (i = 0; i < npages; i++)
		UnlockReleaseBuffer(buffers[i]);
	list_end(write, &fresh, true);
	LSM_CRASH_POINT("append_after_wal");

	lsm_log_insert(write, first, 1, seq);
	list_root(write);
	pfree(image);
	return 1;
}

/*
 * See write.h.  ERRORs (before anything of this call is applied) when a page
 * can be neither found nor added: disk full.  Not if the write is optional.
 */
int
lsm_log_append(LsmWrite *write, int first)
{
	Assert(write->active && first < write->nentries);
	Assert(!write->tree->ctl->local);

	if (lsm_log_entry_room(&write->entries[first]) > LSM_LOG_PAGE_BYTES)
		return write->optional ? 0 : lsm_log_append_spanning(write, first);
	return lsm_log_append_slot(write, first);
}
