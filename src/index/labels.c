/*-------------------------------------------------------------------------
 *
 * labels.c
 *	  Scans of an index whose first column is an enum: label by label.
 *
 * The code of a label is its OID, and the order of OIDs is not that of labels
 * once ALTER TYPE has put one before others.  A code by pg_enum.enumsortorder
 * would not do either: ALTER TYPE numbers all labels anew when it runs out of
 * numbers between two.  But labels are few.  So a scan that may be wanted in
 * order makes points of them, in their order, and walks one after the other.
 *
 * The labels are read once for each scan, after its snapshot was taken: whose
 * label came later, that row the snapshot does not see.  So a plan that was made
 * before ALTER TYPE is as good as a new one.
 *
 * No locks but that of pg_enum while it is read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_enum.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "index/quals.h"

/* As of now: a catalog snapshot at hand may be older than the scan's. */
static void
read_labels(LsmLabels *labels, Oid type)
{
	Relation	pg_enum = table_open(EnumRelationId, AccessShareLock);
	Relation	index = index_open(EnumTypIdSortOrderIndexId, AccessShareLock);
	int			room = 16;
	int			n = 0;
	Oid		   *oids = MemoryContextAlloc(labels->context, sizeof(Oid) * room);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	AcceptInvalidationMessages();
	InvalidateCatalogSnapshot();
	ScanKeyInit(&key, Anum_pg_enum_enumtypid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(type));
	scan = systable_beginscan_ordered(pg_enum, index, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		if (n == room)
		{
			room *= 2;
			oids = repalloc(oids, sizeof(Oid) * room);
		}
		oids[n++] = ((Form_pg_enum) GETSTRUCT(tuple))->oid;
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(pg_enum, AccessShareLock);
	labels->oids = oids;
	labels->n = n;
}

static LsmSlice
label_code(const LsmColumnSpec *spec, Oid label, bool isnull)
{
	StringInfoData buf;

	lsm_buffer_init(&buf, 8);
	lsm_encode_column(spec, ObjectIdGetDatum(label), isnull, &buf);
	return lsm_slice(buf.data, buf.len);
}

static bool
is_wanted(const LsmQuals *quals, const LsmColumnSpec *spec, LsmSlice code)
{
	const LsmColumnQuals *column = &quals->columns[0];

	if (column->not_null && code.data[0] != LSM_CODE_NOT_NULL)
		return false;
	if (column->has_points && !lsm_is_point(column, code))
		return false;
	if (lsm_has_row_ends(quals, 0) && !lsm_row_admits(quals, spec, code))
		return false;
	return column->operators == NULL || lsm_operators_hold(column, spec, code);
}

bool
lsm_quals_order_labels(LsmQuals *quals, const LsmKeySpec *spec)
{
	LsmColumnQuals *column = &quals->columns[0];
	const LsmColumnSpec *first = &spec->columns[0];
	LsmLabels  *labels = quals->labels;
	LsmSlice   *points;
	LsmSlice	null_code;
	int			n = 0;

	if (column->has_points && column->npoints < 2)
		return true;
	if (labels->n < 0)
		read_labels(labels, getBaseType(first->enum_type));

	points = palloc(sizeof(LsmSlice) * (labels->n + 1));
	null_code = label_code(first, InvalidOid, true);
	if (first->nulls_first && is_wanted(quals, first, null_code))
		points[n++] = null_code;
	for (int i = 0; i < labels->n; i++)
	{
		int			at = first->descending ? labels->n - 1 - i : i;
		LsmSlice	code = label_code(first, labels->oids[at], false);

		CHECK_FOR_INTERRUPTS();
		if (is_wanted(quals, first, code))
			points[n++] = code;
	}
	if (!first->nulls_first && is_wanted(quals, first, null_code))
		points[n++] = null_code;

	quals->by_labels = true;
	quals->all_labels = !column->has_points;
	column->has_points = true;
	column->points = points;
	column->npoints = n;
	column->operators = NULL;	/* they hold */
	return n > 0;
}
