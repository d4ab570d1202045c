/*-------------------------------------------------------------------------
 *
 * am.c
 *	  Which relations are ours.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_am.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "am/am.h"

static Oid
am_oid(const char *name, char amtype)
{
	HeapTuple	tuple = SearchSysCache1(AMNAME, CStringGetDatum(name));
	Form_pg_am	form;
	Oid			oid = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		form = (Form_pg_am) GETSTRUCT(tuple);
		if (form->amtype == amtype)
			oid = form->oid;
		ReleaseSysCache(tuple);
	}
	return oid;
}

Oid
lsm_table_am_oid(void)
{
	return am_oid(LSM_TABLE_AM_NAME, AMTYPE_TABLE);
}

Oid
lsm_index_am_oid(void)
{
	return am_oid(LSM_INDEX_AM_NAME, AMTYPE_INDEX);
}

bool
lsm_relation_is_table(Relation rel)
{
	return OidIsValid(rel->rd_rel->relam) &&
		rel->rd_rel->relam == lsm_table_am_oid();
}

bool
lsm_relation_is_index(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_INDEX &&
		OidIsValid(rel->rd_rel->relam) &&
		rel->rd_rel->relam == lsm_index_am_oid();
}
