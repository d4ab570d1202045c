/*-------------------------------------------------------------------------
 *
 * functions.c
 *	  SQL functions about trees: maintenance and facts.  lsm_verify is in
 *	  verify.c, statistics are in stats.c.
 *
 * Functions that take a table work on its tree (if it is an lsm table) and on
 * the trees of its lsm indexes; those that describe one tree take
 * the table or the index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "am/am.h"
#include "ddl/ddl.h"
#include "index/index.h"
#include "sqlfunc/functions.h"
#include "tree/tree.h"

PG_FUNCTION_INFO_V1(lsm_flush);
PG_FUNCTION_INFO_V1(lsm_compact);
PG_FUNCTION_INFO_V1(lsm_relation_size);
PG_FUNCTION_INFO_V1(lsm_database_size_oid);
PG_FUNCTION_INFO_V1(lsm_database_size_name);
PG_FUNCTION_INFO_V1(lsm_levels);
PG_FUNCTION_INFO_V1(lsm_files);
PG_FUNCTION_INFO_V1(lsm_compression_by_level);
PG_FUNCTION_INFO_V1(lsm_full_version);
PG_FUNCTION_INFO_V1(lsm_text_code);
PG_FUNCTION_INFO_V1(lsm_repair_dependencies);

/* ======================================================================
 * What the other files use
 * ====================================================================== */

/* The tree of an lsm table or index. */
LsmTree *
lsm_relation_tree(Relation rel)
{
	if (lsm_relation_is_index(rel))
		return lsm_index_open_tree(rel);
	Assert(lsm_relation_is_table(rel));
	return lsm_tree_open(rel, LSM_KIND_TABLE, NULL);
}

List *
lsm_relations_not_open(List *relations)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, relations)
	{
		Relation	rel = lfirst(lc);

		if ((lsm_relation_is_index(rel) || lsm_relation_is_table(rel)) &&
			!lsm_tree_is_open(rel))
			result = lappend(result, rel);
	}
	return result;
}

void
lsm_relations_let_go(List *relations)
{
	ListCell   *lc;

	foreach(lc, relations)
	{
		lsm_tree_let_go((Relation) lfirst(lc));
	}
	list_free(relations);
}

/* The lsm indexes of a table that can be used, each opened and locked. */
List *
lsm_relation_open_indexes(Relation table, LOCKMODE lockmode)
{
	List	   *oids = RelationGetIndexList(table);
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, oids)
	{
		Relation	index = index_open(lfirst_oid(lc), lockmode);

		if (lsm_relation_is_index(index) && lsm_index_has_tree(index))
			result = lappend(result, index);
		else
			index_close(index, lockmode);
	}
	list_free(oids);
	return result;
}

void
lsm_relation_close_indexes(List *indexes, LOCKMODE lockmode)
{
	ListCell   *lc;

	foreach(lc, indexes)
	{
		index_close((Relation) lfirst(lc), lockmode);
	}
	list_free(indexes);
}

/* ======================================================================
 * Maintenance
 * ====================================================================== */

/*
 * Calls `work` for the relation's tree and, for a table, for those of its lsm
 * indexes.  ERROR if there is none.
 */
static void
for_each_tree(Oid relid, LOCKMODE lockmode, void (*work) (LsmTree *tree))
{
	Relation	rel = lsm_relation_open(relid, LSM_RELATION_TREES, LSM_RIGHT_MAINTAIN, lockmode);
	List	   *indexes;
	List	   *not_open = NIL;
	ListCell   *lc;

	if (lsm_relation_is_index(rel))
	{
		not_open = lsm_relations_not_open(list_make1(rel));
		work(lsm_relation_tree(rel));
		lsm_relations_let_go(not_open);
	}
	else
	{
		indexes = lsm_relation_open_indexes(rel, lockmode);
		if (indexes == NIL)
			lsm_relation_check_kind(rel);
		not_open = lsm_relations_not_open(lcons(rel, list_copy(indexes)));
		if (lsm_relation_is_table(rel))
			work(lsm_relation_tree(rel));
		foreach(lc, indexes)
		{
			work(lsm_relation_tree((Relation) lfirst(lc)));
		}
		lsm_relations_let_go(not_open);
		lsm_relation_close_indexes(indexes, NoLock);
	}
	relation_close(rel, NoLock);
}

Datum
lsm_flush(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);

	PreventCommandDuringRecovery("lsm_flush()");
	/* the worker takes its share of the trees */
	/* what a worker writes looks like what this session would write */
	if (lsm_settings_are_servers("lsm."))
	{
		for_each_tree(relid, RowExclusiveLock, lsm_tree_flush_start);
		for_each_tree(relid, RowExclusiveLock, lsm_tree_flush_idle);
	}
	for_each_tree(relid, RowExclusiveLock, lsm_tree_flush);
	PG_RETURN_VOID();
}

static void
compact_fully(LsmTree *tree)
{
	LsmCompactRequest request = {0};

	request.full = true;
	request.drop_dead = true;
	lsm_tree_flush(tree);
	lsm_tree_compact(tree, &request);
}

Datum
lsm_compact(PG_FUNCTION_ARGS)
{
	PreventCommandDuringRecovery("lsm_compact()");
	for_each_tree(PG_GETARG_OID(0), ShareUpdateExclusiveLock, compact_fully);
	PG_RETURN_VOID();
}

Datum
lsm_repair_dependencies(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	PreventCommandDuringRecovery("lsm_repair_dependencies()");
	PreventCommandIfReadOnly("lsm_repair_dependencies()");
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	foreach(lc, lsm_repair_index_dependencies())
	{
		Datum		value = ObjectIdGetDatum(lfirst_oid(lc));
		bool		is_null = false;

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &is_null);
	}
	return (Datum) 0;
}

/* ======================================================================
 * Facts
 * ====================================================================== */

static Relation
open_for_facts(Oid relid, List **not_open)
{
	Relation	rel = lsm_relation_open(relid, LSM_RELATION_TREE, LSM_RIGHT_FACTS, AccessShareLock);

	*not_open = lsm_relations_not_open(list_make1(rel));
	return rel;
}

static void
close_after_facts(Relation rel, List *not_open)
{
	lsm_relations_let_go(not_open);
	lsm_relation_close(rel, AccessShareLock);
}

/*
 * As pg_relation_size(): NULL of what a query found in the catalog and is gone
 * by now, and no error of an index that is being built, or was not.  NULL, too,
 * of another session's temporary relation.
 */
Datum
lsm_relation_size(PG_FUNCTION_ARGS)
{
	Relation	rel = lsm_relation_try_open(PG_GETARG_OID(0), LSM_RELATION_TREE,
											LSM_RIGHT_FACTS, AccessShareLock);
	List	   *not_open = NIL;
	LsmTreeSize size = {0};
	int64		bytes;

	if (rel == NULL)
		PG_RETURN_NULL();

	/* on a standby it has an init fork only, as pg_relation_size() has it */
	if (RecoveryInProgress() && !RelationIsPermanent(rel))
	{
		lsm_relation_close(rel, AccessShareLock);
		PG_RETURN_INT64(0);
	}
	if (!lsm_relation_is_index(rel) || lsm_index_has_tree(rel))
	{
		not_open = lsm_relations_not_open(list_make1(rel));
		lsm_tree_size(lsm_relation_tree(rel), &size);
	}

	/* not table_relation_size(): it counts the blocks TIDs span */
	bytes = size.file_bytes +
		(int64) smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) * BLCKSZ;
	close_after_facts(rel, not_open);
	PG_RETURN_INT64(bytes);
}

/* pg_database_size(), which asks for the rights, too; false: NULL */
static bool
database_size(Oid dboid, int64 *bytes)
{
	LOCAL_FCINFO(fcinfo, 1);
	Datum		base;

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = ObjectIdGetDatum(dboid);
	fcinfo->args[0].isnull = false;
	base = pg_database_size_oid(fcinfo);
	if (fcinfo->isnull)
		return false;
	*bytes = DatumGetInt64(base) + (int64) lsm_database_bytes(dboid);
	return true;
}

Datum
lsm_database_size_oid(PG_FUNCTION_ARGS)
{
	int64		bytes;

	if (!database_size(PG_GETARG_OID(0), &bytes))
		PG_RETURN_NULL();
	PG_RETURN_INT64(bytes);
}

Datum
lsm_database_size_name(PG_FUNCTION_ARGS)
{
	int64		bytes;

	if (!database_size(get_database_oid(NameStr(*PG_GETARG_NAME(0)), false), &bytes))
		PG_RETURN_NULL();
	PG_RETURN_INT64(bytes);
}

static int
compare_level_run(const void *a, const void *b)
{
	const LsmFileInfo *x = a;
	const LsmFileInfo *y = b;

	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	if (x->run != y->run)
		return x->run > y->run ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

Datum
lsm_levels(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel;
	List	   *not_open;
	LsmFileInfo *files;
	int			nfiles;

	InitMaterializedSRF(fcinfo, 0);
	rel = open_for_facts(PG_GETARG_OID(0), &not_open);
	files = lsm_tree_files(lsm_relation_tree(rel), &nfiles);
	qsort(files, nfiles, sizeof(LsmFileInfo), compare_level_run);

	for (int i = 0, next; i < nfiles; i = next)
	{
		int64		runs = 0;
		uint64		entries = 0;
		uint64		bytes = 0;
		uint64		filter_bytes = 0;
		Datum		values[6];
		bool		nulls[6] = {0};

		for (next = i; next < nfiles && files[next].level == files[i].level; next++)
		{
			if (next == i || files[next].run != files[next - 1].run)
				runs++;
			entries += files[next].entries;
			bytes += files[next].file_bytes;
			filter_bytes += files[next].filter_bytes;
		}
		values[0] = Int32GetDatum(files[i].level);
		values[1] = Int64GetDatum(runs);
		values[2] = Int64GetDatum(next - i);
		values[3] = Int64GetDatum(entries);
		values[4] = Int64GetDatum(bytes);
		values[5] = Int64GetDatum(filter_bytes);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	close_after_facts(rel, not_open);
	return (Datum) 0;
}

static int
compare_level_compression(const void *a, const void *b)
{
	const LsmFileInfo *x = a;
	const LsmFileInfo *y = b;

	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	return x->compression - y->compression;
}

Datum
lsm_compression_by_level(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel;
	List	   *not_open;
	LsmFileInfo *files;
	int			nfiles;

	InitMaterializedSRF(fcinfo, 0);
	rel = open_for_facts(PG_GETARG_OID(0), &not_open);
	files = lsm_tree_files(lsm_relation_tree(rel), &nfiles);
	qsort(files, nfiles, sizeof(LsmFileInfo), compare_level_compression);

	for (int i = 0, next; i < nfiles; i = next)
	{
		const char *name = lsm_compression_name(files[i].compression);
		uint64		entries = 0;
		uint64		bytes = 0;
		Datum		values[5];
		bool		nulls[5] = {0};

		for (next = i; next < nfiles && compare_level_compression(&files[next], &files[i]) == 0; next++)
		{
			entries += files[next].entries;
			bytes += files[next].file_bytes;
		}
		values[0] = Int32GetDatum(files[i].level);
		nulls[1] = name == NULL;
		if (name != NULL)
			values[1] = CStringGetTextDatum(name);
		values[2] = Int64GetDatum(next - i);
		values[3] = Int64GetDatum(entries);
		values[4] = Int64GetDatum(bytes);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	close_after_facts(rel, not_open);
	return (Datum) 0;
}

static Datum
slice_bytea(LsmSlice slice)
{
	bytea	   *result = palloc(VARHDRSZ + slice.len);

	SET_VARSIZE(result, VARHDRSZ + slice.len);
	memcpy(VARDATA(result), slice.data, slice.len);
	return PointerGetDatum(result);
}

Datum
lsm_files(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel;
	List	   *not_open;
	LsmFileInfo *files;
	int			nfiles;
	bool		show_keys;

	InitMaterializedSRF(fcinfo, 0);
	rel = open_for_facts(PG_GETARG_OID(0), &not_open);
	show_keys = lsm_relation_may_show_keys(rel);
	files = lsm_tree_files(lsm_relation_tree(rel), &nfiles);

	for (int i = 0; i < nfiles; i++)
	{
		LsmFileInfo *f = &files[i];
		const char *scheme = lsm_filter_scheme_name(f->filter_scheme);
		Datum		values[10];
		bool		nulls[10] = {0};

		values[0] = Int32GetDatum(f->level);
		values[1] = Int64GetDatum(f->run);
		values[2] = Int64GetDatum(f->number);
		values[3] = Int64GetDatum(f->entries);
		values[4] = Int64GetDatum(f->file_bytes);
		values[5] = Int64GetDatum(f->filter_bytes);
		values[6] = CStringGetTextDatum(scheme ? scheme : "unknown");
		values[7] = TransactionIdGetDatum(f->min_xid);
		nulls[7] = !TransactionIdIsValid(f->min_xid);
		nulls[8] = nulls[9] = !show_keys;
		if (show_keys)
		{
			values[8] = slice_bytea(f->smallest);
			values[9] = slice_bytea(f->largest);
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	close_after_facts(rel, not_open);
	return (Datum) 0;
}

Datum
lsm_full_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("lsmam %s, PostgreSQL %s, %s, hashing with %s%s%s",
											  LSM_VERSION, GetConfigOptionByName("server_version", NULL, false),
											  lsm_sst_library_version(), lsm_digest_isa(),
#ifdef LSM_TESTING
											  ", crash points",
#else
											  "",
#endif
#ifdef USE_ASSERT_CHECKING
											  ", assertions"
#else
											  ""
#endif
											  )));
}

/* For support functions of operator classes of lsm_index */
Datum
lsm_text_code(PG_FUNCTION_ARGS)
{
	text	   *string = PG_GETARG_TEXT_PP(0);

	PG_RETURN_BYTEA_P(lsm_compose_text(PG_GET_COLLATION(), VARDATA_ANY(string),
									   VARSIZE_ANY_EXHDR(string)));
}
