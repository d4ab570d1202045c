/*-------------------------------------------------------------------------
 *
 * standby.h
 *	  Trees that are read in recovery: what redo and the loader of such a tree
 *	  call (standby.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_STANDBY_H
#define LSM_STANDBY_H

#include "storage/bufpage.h"

#include "tree/control/control.h"
#include "tree/disk/page.h"

typedef enum LsmFed
{
	LSM_FED,
	LSM_FED_UNWANTED,			/* flushed, or the tree is not fed any more */
	LSM_FED_FULL				/* no memory */
} LsmFed;

/*
 * One entry, into the memtable of its generation.  REQUIRES: the startup
 * process, or the tree's loader inside an epoch.
 */
extern LsmFed lsm_standby_feed(LsmTreeShared *ctl, uint64 keyspace_id, uint64 generation,
							   uint64 seq, LsmSlice key, LsmSlice value);

/* An append in redo */
typedef struct LsmStandbyAppend
{
	LsmTreeShared *ctl;			/* NULL: nobody reads the tree */
	uint64		keyspace_id;
	uint64		generation;
	uint64		seq;			/* of the page's last entry before these */
	bool		corrupt;
} LsmStandbyAppend;

/*
 * The page, which is locked, has got entries from `offset` on.  False: nobody
 * reads the tree.
 */
extern bool lsm_standby_note_append(LsmStandbyAppend *append, const RelFileLocator *rlocator,
									Page page, uint16 offset);

/* The same entries, with no page locked. */
extern void lsm_standby_append(LsmStandbyAppend *append, const char *data, uint32 bytes);

/* The fork belongs to this keyspace now, and to no other. */
extern void lsm_standby_keyspace(const RelFileLocator *rlocator, uint64 keyspace_id);

/*
 * An edit, with the metapage locked; the block, pinned, if there is one: for
 * lsm_standby_drop_flushed(), when the metapage is unlocked.
 */
extern LsmTreeShared *lsm_standby_edit(const LsmMetaPage *meta);
extern void lsm_standby_drop_flushed(LsmTreeShared *ctl, uint64 keyspace_id);

/* A removed file: at once, or when no reader can look at it any more. */
extern void lsm_standby_unlink(uint64 keyspace_id, uint64 number);
extern void lsm_standby_unlink_drain(void);

/*
 * The keyspace is removed, or made, and its id may be that of a database copied
 * before, under the same OID: file numbers come again.
 */
extern void lsm_standby_unlink_forget(uint64 keyspace_id);

#endif							/* LSM_STANDBY_H */
