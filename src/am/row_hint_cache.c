/*-------------------------------------------------------------------------
 *
 * row_hint_cache.c
 *	  The newest rows of keys that are updated over and over, and which of the
 *	  older ones are dead.
 *
 * Whoever updates a row and leaves its unique key as it is notes here which
 * row has the key now.  A lookup of the key begins with that row: of the many
 * versions that a hot row leaves behind until they are forgotten, it is the
 * one that is wanted, and it is found without a walk over the entries of the
 * others, in memtables and files.
 *
 * What is noted is a hint as to who is newest, but exact as to who has the
 * key: a slot holds the life of the tree's control block and the key in full,
 * and rows of lsm tables keep their keys and TIDs for ever.  (Not the keyspace's
 * id: that of a copied database comes again with its OID, and TIDs with it.)
 * Whether the row is to be seen is for the snapshot to say; if it is not, or if
 * nothing is noted, the index is looked at.  Two rows are kept, since while a
 * transaction runs, only it sees the newest one.
 *
 * Exact, too, is which rows are dead.  The slot says that `newest` was made by
 * an update of `before`, so that the xmin of the one is the xmax of the other.
 * Who updates `newest` has found that xmin committed: `before` is deleted for
 * good, and dead to everyone once the xid precedes all horizons.  Then its
 * entry is forgotten, without a walk that would have to look it up. (If the
 * xmin is one's own, that may still be undone, and nothing is known about
 * `before`.)
 *
 * A deletion does not come here, since it writes no entry.  The slot then names
 * two dead rows, and each lookup of the key would look for them in vain.  So
 * the scan that finds `newest` dead to everyone gives the slot up
 * (lsm_row_hint_forget).  That is allowed at any time and for any row: without
 * the slot, the index is looked at.  The rows that wait in `dead` are left to
 * the walks over the key that come from then on.
 *
 * Locking: none.  A slot has a version number, odd while it is written; who
 * finds it odd, or changed after reading, goes without.  Who makes it odd by an
 * exchange needs a barrier before he writes: atomics.h promises that the
 * exchange is one, but on ARM64 before LSE GCC makes a loop of it that ends with
 * a store-release, which later stores may pass.  A reader could then see new
 * rows between two equal, even versions.  What was read before the exchange
 * needs none: the exchange succeeds only if nobody has written since.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/shmem.h"

#include "am/row_notes.h"

#define NEWEST_SLOTS		16384	/* 2 MB */
#define NEWEST_KEY_BYTES	32	/* longer keys are not noted */

/*
 * After so many lookups of a tree in vain, one by one, only one in so many
 * looks here
 */
#define MISSES_IN_VAIN		64
#define ASK_AGAIN			16

typedef struct RowHintRows
{
	uint64		life;			/* of the tree; 0: none's */
	uint16		key_bytes;
	ItemPointerData newest;
	ItemPointerData before;		/* which `newest` has replaced */
	uint16		ndead;
	LsmDeadRow	dead[LSM_NEWEST_DEAD];	/* deleted, but maybe not for everyone;
										 * oldest first */
	char		key[NEWEST_KEY_BYTES];
} RowHintRows;

typedef union RowHintSlot
{
	struct
	{
		pg_atomic_uint32 version;
		RowHintRows	rows;
	}			s;
	char		pad[PG_CACHE_LINE_SIZE];
} RowHintSlot;

StaticAssertDecl(sizeof(RowHintSlot) == PG_CACHE_LINE_SIZE, "a slot has grown");

static RowHintSlot *slots = NULL;

Size
lsm_row_hint_shmem_bytes(void)
{
	return mul_size(NEWEST_SLOTS, sizeof(RowHintSlot));
}

void
lsm_row_hint_shmem_init(void)
{
	bool		found;

	slots = (RowHintSlot *) ShmemInitStruct("lsmam newest rows", lsm_row_hint_shmem_bytes(),
										   &found);
	if (found)
		return;
	memset(slots, 0, lsm_row_hint_shmem_bytes());
	for (int i = 0; i < NEWEST_SLOTS; i++)
		pg_atomic_init_u32(&slots[i].s.version, 0);
}

static inline RowHintSlot *
slot_of(const LsmTree *tree, LsmDigest digest)
{
	return &slots[(digest ^ lsm_tree_keyspace(tree)) % NEWEST_SLOTS];
}

/* False: someone has been there since the version was read. */
static inline bool
slot_begin_write(RowHintSlot *slot, uint32 version)
{
	if (!pg_atomic_compare_exchange_u32(&slot->s.version, &version, version + 1))
		return false;
	pg_write_barrier();
	return true;
}

static inline bool
rows_are_for(const RowHintRows *rows, const LsmTree *tree, LsmSlice key)
{
	return rows->life == lsm_tree_life(tree) && rows->key_bytes == key.len &&
		memcmp(rows->key, key.data, key.len) == 0;
}

/*
 * A row that is surely deleted; if there are too many the oldest is left to
 * scans.
 */
static void
rows_add_dead(RowHintRows *rows, const ItemPointerData *tid, TransactionId xid)
{
	if (rows->ndead == LSM_NEWEST_DEAD)
	{
		memmove(rows->dead, rows->dead + 1, sizeof(LsmDeadRow) * (LSM_NEWEST_DEAD - 1));
		rows->ndead--;
	}
	rows->dead[rows->ndead].tid = *tid;
	rows->dead[rows->ndead++].xid = xid;
}

/* Move the rows that no one can see to `dead`. */
static int
rows_take_dead(RowHintRows *rows, Relation table, LsmDeadRow *dead)
{
	int			n = 0;

	while (n < rows->ndead && lsm_xid_removable(table, rows->dead[n].xid))
	{
		dead[n] = rows->dead[n];
		n++;
	}
	rows->ndead -= n;
	memmove(rows->dead, rows->dead + n, sizeof(LsmDeadRow) * rows->ndead);
	return n;
}

int
lsm_row_hint_note(LsmTree *tree, Relation table, LsmSlice key, const LsmReplaced *replaced,
				const ItemPointerData *tid, LsmDeadRow dead[LSM_NEWEST_DEAD])
{
	RowHintSlot *slot;
	RowHintRows	rows;
	uint32		version;
	int			n;

	if (key.len > NEWEST_KEY_BYTES)
		return 0;
	slot = slot_of(tree, lsm_digest_key(key.data, key.len));
	version = pg_atomic_read_u32(&slot->s.version);
	pg_read_barrier();
	rows = slot->s.rows;
	pg_read_barrier();

	/* of two at the same time one is not noted: no harm */
	if ((version & 1) != 0 || pg_atomic_read_u32(&slot->s.version) != version)
		return 0;
	if (!rows_are_for(&rows, tree, key))
	{
		rows.life = lsm_tree_life(tree);
		rows.key_bytes = (uint16) key.len;
		memcpy(rows.key, key.data, key.len);
		rows.ndead = 0;
	}
	else if (ItemPointerEquals(&rows.newest, unconstify(ItemPointerData *, &replaced->tid)) &&
			 TransactionIdIsNormal(replaced->xmin))
		rows_add_dead(&rows, &rows.before, replaced->xmin);
	n = rows_take_dead(&rows, table, dead);
	rows.newest = *tid;
	rows.before = replaced->tid;

	if (!slot_begin_write(slot, version))
		return 0;
	slot->s.rows = rows;
	pg_write_barrier();
	pg_atomic_write_u32(&slot->s.version, version + 2);
	return n;
}

/*
 * The version has to be the same from before the look at the slot to the
 * change: then what is given up is what was looked at, and no note of a newer
 * row that has come meanwhile.
 */
void
lsm_row_hint_forget(LsmTree *tree, const LsmProbe *probe, const ItemPointerData *tid)
{
	RowHintSlot *slot = slot_of(tree, probe->digest);
	uint32		version = pg_atomic_read_u32(&slot->s.version);

	if ((version & 1) != 0 || probe->filter_key.len > NEWEST_KEY_BYTES)
		return;
	pg_read_barrier();
	if (!rows_are_for(&slot->s.rows, tree, probe->filter_key) ||
		!ItemPointerEquals(&slot->s.rows.newest, unconstify(ItemPointerData *, tid)) ||
		!slot_begin_write(slot, version))
		return;
	slot->s.rows.life = 0;
	pg_write_barrier();
	pg_atomic_write_u32(&slot->s.version, version + 2);
}

/* Where nothing is noted, mostly, it is not worth a wait for memory. */
bool
lsm_row_hint_worth(LsmTree *tree)
{
	int		   *misses = lsm_tree_hint_misses(tree);

	return *misses < MISSES_IN_VAIN || ++*misses % ASK_AGAIN == 0;
}

int
lsm_row_hint_get(LsmTree *tree, const LsmProbe *probe, ItemPointerData tids[LSM_NEWEST_ROWS])
{
	RowHintSlot *slot;
	uint32		version;
	int		   *misses = lsm_tree_hint_misses(tree);

	if (probe->filter_key.len > NEWEST_KEY_BYTES)
		return 0;

	slot = slot_of(tree, probe->digest);
	version = pg_atomic_read_u32(&slot->s.version);
	if ((version & 1) != 0)
		return 0;
	pg_read_barrier();
	if (!rows_are_for(&slot->s.rows, tree, probe->filter_key))
	{
		*misses = Min(*misses + 1, MISSES_IN_VAIN);
		return 0;
	}
	*misses = 0;
	tids[0] = slot->s.rows.newest;
	tids[1] = slot->s.rows.before;
	pg_read_barrier();
	return pg_atomic_read_u32(&slot->s.version) == version ? LSM_NEWEST_ROWS : 0;
}
