/*-------------------------------------------------------------------------
 *
 * keys_absent.h
 *	  What the files that keys_test.c includes refer to, and no case comes to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KEYS_ABSENT_H
#define KEYS_ABSENT_H

void
lsm_collation_put_sort_key(struct pg_locale_struct *locale,
						   const char *data, int len, StringInfo out,
						   void (*put) (StringInfo out, const char *data, int len))
{
	abort();
}

int
bpchartruelen(char *s, int len)
{
	abort();
}

Datum
lsm_normal_text(const LsmColumnSpec *spec, Datum value)
{
	abort();
}

void
lsm_probe_begin_group(LsmTree *tree, LsmProbe *probes, int n)
{
	abort();
}

int
lsm_tree_multi_lookup(LsmTree *tree, LsmProbe *probes, int n, bool *absent)
{
	abort();
}

bool
lsm_compose_fits(const LsmColumnSpec *spec, Datum value)
{
	abort();
}

Timestamp
date2timestamp_opt_overflow(DateADT dateVal, int *overflow)
{
	abort();
}

TimestampTz
timestamp2timestamptz_opt_overflow(Timestamp timestamp, int *overflow)
{
	abort();
}

TimestampTz
date2timestamptz_opt_overflow(DateADT dateVal, int *overflow)
{
	abort();
}

/* the same in 19 */
Timestamp
date2timestamp_safe(DateADT dateVal, Node *escontext)
{
	abort();
}

TimestampTz
timestamp2timestamptz_safe(Timestamp timestamp, Node *escontext)
{
	abort();
}

TimestampTz
date2timestamptz_safe(DateADT dateVal, Node *escontext)
{
	abort();
}

/* a macro in some versions */
HeapTupleHeader
(DatumGetHeapTupleHeader) (Datum value)
{
	abort();
}

TupleDesc
lookup_rowtype_tupdesc(Oid type_id, int32 typmod)
{
	abort();
}

void
heap_deform_tuple(HeapTuple tuple, TupleDesc tupleDesc, Datum *values, bool *isnull)
{
	abort();
}

void
DecrTupleDescRefCount(TupleDesc tupdesc)
{
	abort();
}

bool
lsm_quals_order_labels(LsmQuals *quals, const LsmKeySpec *spec)
{
	abort();
}

void
lsm_encode_numeric(Datum value, StringInfo out)
{
	abort();
}

Datum
lsm_decode_numeric(const uint8 *bytes, uint32 len)
{
	abort();
}

uint32
lsm_numeric_code_length(const uint8 *bytes, uint32 len, uint8 mask)
{
	abort();
}

bool
lsm_numeric_code_ends(const uint8 *bytes, uint32 len)
{
	abort();
}

void
lsm_put_inet(StringInfo out, Datum value)
{
	abort();
}

Datum
lsm_get_inet(const uint8 *bytes)
{
	abort();
}

uint32
lsm_inet_code_length(const uint8 *bytes, uint8 mask)
{
	abort();
}

#endif							/* KEYS_ABSENT_H */
