/*-------------------------------------------------------------------------
 *
 * bench_tree.c
 *	  A loadable module that measures src/tree alone: point lookups through the
 *	  tree's door (tree/tree.h) in a loop inside one backend, on a real tree
 *	  with its real files, with no executor and no access method above it.
 *
 * Built and loaded by bench/tree.sh, never installed.  lsmam's symbols come
 * from the library that shared_preload_libraries has loaded.
 *
 * The tree is an lsm_index that SQL writes nothing to.  Another session holds
 * a ShareLock on it, which the background worker's publishing lock conflicts
 * with: so runs stay as they were flushed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/resource.h>

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "index/index.h"
#include "keys.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(tree_load);
PG_FUNCTION_INFO_V1(tree_hold);
PG_FUNCTION_INFO_V1(tree_draw);
PG_FUNCTION_INFO_V1(tree_get);
PG_FUNCTION_INFO_V1(tree_walk);
PG_FUNCTION_INFO_V1(tree_hash);

/* What the session looks for: outlives statements */
static BenchProbes probes;

static Relation
open_index(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);

	if (rel->rd_rel->relkind != RELKIND_INDEX)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not an index", RelationGetRelationName(rel))));
	return rel;
}

/* What follows the key in the tree: a row identifier, the same for all. */
static const char *
row_identifier(void)
{
	ItemPointerData tid;
	static StringInfoData code;

	if (code.data == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		initStringInfo(&code);
		MemoryContextSwitchTo(old);
	}
	resetStringInfo(&code);
	ItemPointerSet(&tid, 0, 1);
	lsm_encode_tid(&tid, &code);
	Assert(code.len == LSM_TID_BYTES);
	return code.data;
}

/* Write the entries first .. first + n - 1; as many together as the tree takes. */
static void
write_entries(LsmTree *tree, int key_bytes, uint64 first, int n)
{
	int			entry_bytes = key_bytes + LSM_TID_BYTES + 1 + BENCH_VALUE_BYTES;
	int			most = Max(1, Min(LSM_MAX_WRITE_ENTRIES, LSM_MAX_ENTRY_BYTES / entry_bytes));
	char	   *bytes = palloc0((Size) most * entry_bytes);
	LsmEntry   *entries = palloc0(most * sizeof(LsmEntry));
	LsmWrite	write;

	for (int done = 0; done < n; done += most)
	{
		int			batch = Min(most, n - done);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < batch; i++)
		{
			char	   *key = bytes + (Size) i * entry_bytes;
			char	   *value = key + key_bytes + LSM_TID_BYTES;

			bench_key(2 * (first + done + i), key_bytes, key);
			memcpy(key + key_bytes, row_identifier(), LSM_TID_BYTES);
			value[0] = LSM_TAG_PUT;
			memcpy(value + 1, key, 8);
			entries[i].key = lsm_slice(key, key_bytes + LSM_TID_BYTES);
			entries[i].value = lsm_slice(value, 1 + BENCH_VALUE_BYTES);
		}
		lsm_write_begin(tree, &write, entries, batch);
		lsm_write_apply(&write);
	}
	pfree(entries);
	pfree(bytes);
}

/*
 * tree_load(index regclass, key_bytes int, entries_per_run int, first int, runs int): add
 * runs; run r (0: the oldest) gets entries r n .. (r + 1) n - 1 and is flushed by itself.
 */
Datum
tree_load(PG_FUNCTION_ARGS)
{
	int			n = PG_GETARG_INT32(2);
	int			first = PG_GETARG_INT32(3);
	int			runs = PG_GETARG_INT32(4);
	Relation	rel = open_index(PG_GETARG_OID(0));
	LsmTree    *tree = lsm_index_open_tree(rel);

	for (int run = first; run < first + runs; run++)
	{
		write_entries(tree, PG_GETARG_INT32(1), (uint64) run * n, n);
		lsm_tree_flush(tree);
	}
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

/* tree_hold(index regclass): keep the worker from compacting it, until the transaction ends. */
Datum
tree_hold(PG_FUNCTION_ARGS)
{
	Relation	rel = open_index(PG_GETARG_OID(0));

	LockRelation(rel, ShareLock);
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

/*
 * tree_draw(key_bytes int, n int, alpha float8, first bigint, range bigint, seed bigint):
 * what tree_get() will look for, see bench_draw().
 */
Datum
tree_draw(PG_FUNCTION_ARGS)
{
	if (!bench_draw(&probes, PG_GETARG_INT32(0), row_identifier(), LSM_TID_BYTES,
					PG_GETARG_INT32(1), PG_GETARG_FLOAT8(2), PG_GETARG_INT64(3),
					PG_GETARG_INT64(4), PG_GETARG_INT64(5)))
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	PG_RETURN_VOID();
}

/* Complete keys, newest value: lsm_tree_get().  How many are there? */
static int
get_all(LsmTree *tree, const BenchProbes *keys, StringInfo value)
{
	int			found = 0;

	for (int i = 0; i < keys->n; i++)
	{
		const char *key = keys->keys + (size_t) i * keys->stride;
		LsmProbe	probe;

		lsm_probe_begin(tree, &probe, lsm_slice(key, keys->key_bytes));
		found += lsm_tree_get(tree, lsm_slice(key, keys->stride), &probe, value);
	}
	return found;
}

/*
 * Are they there?  As = ANY asks: those of a group that are surely absent are known at once, others are
 * looked up as in get_all().
 */
static int
get_groups(LsmTree *tree, const BenchProbes *keys, StringInfo value)
{
	int			found = 0;

	for (int first = 0; first < keys->n; first += LSM_GROUP_KEYS)
	{
		int			n = Min(LSM_GROUP_KEYS, keys->n - first);
		const char *key = keys->keys + (size_t) first * keys->stride;
		LsmProbe	group[LSM_GROUP_KEYS];
		bool		absent[LSM_GROUP_KEYS];

		for (int i = 0; i < n; i++)
			group[i].filter_key = lsm_slice(key + (size_t) i * keys->stride, keys->key_bytes);
		lsm_probe_begin_group(tree, group, n);
		lsm_tree_multi_lookup(tree, group, n, absent);
		for (int i = 0; i < n; i++)
			found += !absent[i] &&
				lsm_tree_get(tree, lsm_slice(key + (size_t) i * keys->stride, keys->stride),
							 &group[i], value);
	}
	return found;
}

/* All entries with the key's columns, as an index scan asks. */
static int
scan_all(LsmTree *tree, const BenchProbes *keys, LsmCursor *cursor)
{
	int			found = 0;

	for (int i = 0; i < keys->n; i++)
	{
		const char *columns = keys->keys + (size_t) i * keys->stride;
		LsmProbe	probe;
		LsmSlice	key;
		LsmSlice	value;

		lsm_probe_begin(tree, &probe, lsm_slice(columns, keys->key_bytes));
		lsm_cursor_seek_point(cursor, &probe);
		while (lsm_cursor_step(cursor, ForwardScanDirection, &key, &value))
			found++;
	}
	return found;
}

/* Portion by portion; how many are there? */
static int
look_for_all(LsmTree *tree, const char *how, BenchClock *clock)
{
	LsmCursor  *cursor = strcmp(how, "cursor") == 0 ? lsm_cursor_open(tree) : NULL;
	bool		groups = strcmp(how, "groups") == 0;
	BenchProbes portion = {0};
	StringInfoData value;
	int			found = 0;

	initStringInfo(&value);
	for (int done = 0; done < probes.n; done += portion.n)
	{
		if (bench_portion(&probes, done, &portion) < 0)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
		bench_clock_start(clock);
		if (cursor != NULL)
			found += scan_all(tree, &portion, cursor);
		else
			found += groups ? get_groups(tree, &portion, &value) : get_all(tree, &portion, &value);
		bench_clock_stop(clock);
	}
	free(portion.keys);
	if (cursor != NULL)
		lsm_cursor_close(cursor);
	return found;
}

/*
 * tree_get(index regclass, how text): look for all keys drawn: "get", "groups" or by "cursor"; per lookup nanoseconds of CPU, of
 * wall clock, and page faults that read.  ERROR if not exactly the present ones are found.
 */
Datum
tree_get(PG_FUNCTION_ARGS)
{
	Relation	rel = open_index(PG_GETARG_OID(0));
	BenchClock	clock = {0};
	struct rusage before;
	struct rusage after;
	int			found;
	Datum		result[3];

	getrusage(RUSAGE_SELF, &before);
	found = look_for_all(lsm_index_open_tree(rel), text_to_cstring(PG_GETARG_TEXT_PP(1)), &clock);
	getrusage(RUSAGE_SELF, &after);
	relation_close(rel, AccessShareLock);

	if (found != probes.present)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("found %d of %d keys, %d of which are present",
						found, probes.n, probes.present)));
	result[0] = Float8GetDatum(clock.cpu_ns / probes.n);
	result[1] = Float8GetDatum(clock.wall_ns / probes.n);
	result[2] = Float8GetDatum((double) (after.ru_majflt - before.ru_majflt) / probes.n);
	PG_RETURN_ARRAYTYPE_P(construct_array(result, 3, FLOAT8OID, sizeof(float8),
										  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* tree_walk(index regclass): read every entry, once; their number. */
Datum
tree_walk(PG_FUNCTION_ARGS)
{
	Relation	rel = open_index(PG_GETARG_OID(0));
	LsmCursor  *cursor = lsm_cursor_open(lsm_index_open_tree(rel));
	LsmSlice	key;
	LsmSlice	value;
	int64		n = 0;

	lsm_cursor_seek(cursor, lsm_slice("", 0), false, ForwardScanDirection);
	while (lsm_cursor_step(cursor, ForwardScanDirection, &key, &value))
	{
		CHECK_FOR_INTERRUPTS();
		n++;
	}
	lsm_cursor_close(cursor);
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64(n);
}

/*
 * tree_hash(times int): nanoseconds of CPU to compute the digest of a key drawn so many times in a
 * row, as a lookup does that asks as many filters without sharing.
 */
Datum
tree_hash(PG_FUNCTION_ARGS)
{
	int			times = PG_GETARG_INT32(0);
	LsmDigest	sum = 0;
	double		cpu = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	for (int i = 0; i < probes.n; i++)
	{
		for (int t = 0; t < times; t++)
			sum += lsm_digest_key(probes.keys + (size_t) i * probes.stride, probes.key_bytes);
	}
	cpu = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;

	/* the sum is used, so the loop is not optimized away */
	if (sum == 0)
		elog(DEBUG1, "digests add up to zero");
	PG_RETURN_FLOAT8(cpu / Max(probes.n, 1));
}
