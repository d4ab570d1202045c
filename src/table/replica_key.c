/*-------------------------------------------------------------------------
 *
 * replica_key.c
 *	  How a subscriber finds the row that a published change is about, in
 *	  PostgreSQL 17.
 *
 * The apply worker looks the row up by the table's replica identity or primary
 * key.  For the operator that is equality it asks the operator class of each
 * column of that index.  Version 17 knows which strategy number means equality
 * by a list of access methods, btree and hash, and gives up at all others.  15
 * and 16 take btree's number, which is ours, too, and 18 asks the access method.
 *
 * So the worker is shown operator classes of btree instead: those with the same
 * operator.  It reads them from the index's entry in the relation cache, which
 * belongs to this process.  Nothing else in there changes, and all that is
 * known of the columns by then (operator families, support functions) was made
 * from the catalog.  The scan that follows is one of lsm_index.
 *
 * The moment is when the worker makes a slot for the row: it asks the table's
 * access method what kind of slot.  It has opened the table's indexes by then,
 * and they stay open until the row has been found, so the entry stays, too.
 *
 * Locks: that which the worker itself takes on the index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_index.h"
#include "commands/defrem.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "table/table.h"

/* The class of btree with the same equality; InvalidOid: there is none. */
static Oid
btree_class(Oid opclass)
{
	Oid			type = get_opclass_input_type(opclass);
	Oid			equality = get_opfamily_member(get_opclass_family(opclass), type, type,
											   BTEqualStrategyNumber);
	Oid			btree = GetDefaultOpClass(type, BTREE_AM_OID);

	if (!OidIsValid(equality) || !OidIsValid(btree) ||
		get_opclass_input_type(btree) != type ||
		get_opfamily_member(get_opclass_family(btree), type, type,
							BTEqualStrategyNumber) != equality)
		return InvalidOid;
	return btree;
}

static void
show_btree_classes(Relation index)
{
	bool		isnull;
	Datum		datum = SysCacheGetAttr(INDEXRELID, index->rd_indextuple,
										Anum_pg_index_indclass, &isnull);
	oidvector  *classes = (oidvector *) DatumGetPointer(datum);

	Assert(!isnull);
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		Oid			btree;

		/* done before? */
		if (get_opclass_family(classes->values[i]) != index->rd_opfamily[i])
			continue;
		btree = btree_class(classes->values[i]);
		if (OidIsValid(btree))
			classes->values[i] = btree;
	}
}

/* REQUIRES: a logical replication worker, which is about to look for a row. */
void
lsm_prepare_replica_key(Relation rel)
{
	Oid			key = RelationGetReplicaIndex(rel);
	Relation	index;

	if (!OidIsValid(key))
		key = RelationGetPrimaryKeyIndex(rel, false);
	if (!OidIsValid(key))
		return;
	index = index_open(key, RowExclusiveLock);
	if (lsm_relation_is_index(index))
		show_btree_classes(index);
	index_close(index, NoLock);
}
