/*-------------------------------------------------------------------------
 *
 * verify.c
 *	  Looking for damage: every sorted file, every filter, every entry, and the
 *	  list of files.
 *
 * Takes no locks and holds no epoch while it reads (minutes, perhaps), so a
 * compaction may remove a file under it.  Problems of a file are kept back
 * until it is seen to be still part of the tree.  Damage is reported as rows;
 * only what has nothing to do with it (out of memory, cancel) is an ERROR.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"
#include "tree/disk/disk.h"
#include "tree/disk/manifest.h"
#include "tree/read/filecache.h"
#include "tree/read/read.h"
#include "tree/read/version.h"

/* Entries of one file reported one by one */
#define MAX_ENTRY_PROBLEMS	5

typedef struct Verify
{
	LsmTree    *tree;
	MemoryContext cxt;			/* per file */
	MemoryContext entry_cxt;	/* per entry */
	const LsmFile *file;
	char		path[MAXPGPATH];
	char		filter_path[MAXPGPATH];

	/* problems of the present file, not yet reported */
	List	   *objects;
	List	   *problems;
	int			entry_problems;

	/* what is open */
	LsmSstReader *reader;
	LsmSstIter *iter;
	LsmSstBlob	blob;
	bool		has_filter;
	LsmFilter	filter;
	bool		has_elastic;
	bool		damaged_units;
	LsmElastic	elastic;

	/* what was found */
	uint64		entries;
	uint64		filter_keys;	/* distinct ones */
	TransactionId min_xid;
	uint16		flags;
	StringInfoData first_key;
	StringInfoData last_key;
} Verify;

static void note_problem(Verify *verify, const char *object,
						 const char *format,...) pg_attribute_printf(3, 4);

static void
note_problem(Verify *verify, const char *object, const char *format,...)
{
	MemoryContext old = MemoryContextSwitchTo(verify->cxt);
	StringInfoData text;

	initStringInfo(&text);
	for (;;)
	{
		va_list		args;
		int			needed;

		va_start(args, format);
		needed = appendStringInfoVA(&text, format, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&text, needed);
	}
	verify->objects = lappend(verify->objects, pstrdup(object));
	verify->problems = lappend(verify->problems, text.data);
	MemoryContextSwitchTo(old);
}

/* One of many entries: the first few are enough to know. */
static void
note_entry(Verify *verify, const char *object, const char *problem)
{
	if (++verify->entry_problems <= MAX_ENTRY_PROBLEMS)
		note_problem(verify, object, "%s (entry " UINT64_FORMAT ")", problem,
					 verify->entries);
}

static bool
slice_equals(LsmSlice a, LsmSlice b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* ======================================================================
 * One file
 * ====================================================================== */

/*
 * The checksum of every unit of an elastic filter; those of the rest were seen.
 */
static LsmFilterStatus
open_elastic(Verify *verify, const char **why)
{
	LsmFilterStatus status = lsm_elastic_open(&verify->filter, &verify->elastic, why);

	verify->has_elastic = status == LSM_FILTER_OK;
	verify->has_filter = verify->has_elastic;
	for (uint32 i = 0; verify->has_elastic && i < verify->elastic.segments; i++)
	{
		for (uint32 unit = 0; unit < verify->elastic.units; unit++)
		{
			if (lsm_elastic_unit(&verify->elastic, i, unit, true) != NULL)
				continue;
			verify->damaged_units = true;
			note_problem(verify, verify->filter_path,
						 "filter is corrupt: checksum of unit %u of segment %u is wrong",
						 unit, i);
		}
	}
	return status;
}

/* Every unit has to admit the key, which has to lie in its segment. */
static void
check_elastic(Verify *verify, LsmSlice filter_key, bool same)
{
	const LsmElastic *elastic = &verify->elastic;
	LsmDigest	digest = lsm_digest_key(filter_key.data, filter_key.len);
	uint32		segment = lsm_elastic_find_segment(elastic, filter_key.data, filter_key.len);

	if (!same)
		verify->filter_keys++;
	if (segment != (verify->filter_keys - 1) / elastic->segment_keys)
		note_entry(verify, verify->filter_path, "key is not in its segment of the filter");
	for (uint32 unit = 0; unit < elastic->units; unit++)
	{
		const void *bits = lsm_elastic_unit(elastic, segment, unit, verify->damaged_units);

		/* a damaged one was reported, and is not used */
		if (bits != NULL && !lsm_elastic_probe(elastic, segment, unit, bits, digest))
			note_entry(verify, verify->filter_path,
					   "filter denies a key that is in the file");
	}
}

static void
open_filter(Verify *verify)
{
	LsmSstError err;
	LsmFilterStatus status;
	const char *why = NULL;

	verify->has_filter = false;
	if (lsm_sst_map_blob(verify->filter_path, &verify->blob, &err) != LSM_SST_OK)
	{
		verify->blob.data = NULL;
		if (lsm_sst_lacks_resources(&err))
			lsm_sst_report(ERROR, &err);
		note_problem(verify, verify->filter_path, "%s", err.message);
		return;
	}
	status = lsm_filter_open(verify->blob.data, verify->blob.bytes, true,
							 &verify->filter, &why);
	if (status == LSM_FILTER_OK)
	{
		verify->has_filter = true;
		if (verify->filter.scheme != verify->file->filter_scheme)
			note_problem(verify, verify->filter_path,
						 "filter scheme is %u, the file list says %u",
						 verify->filter.scheme, verify->file->filter_scheme);
	}
	if (status == LSM_FILTER_OK && lsm_filter_scheme_has(verify->filter.scheme, LSM_FILTER_UNITS))
		status = open_elastic(verify, &why);
	if (status != LSM_FILTER_OK && status != LSM_FILTER_UNKNOWN)
		note_problem(verify, verify->filter_path, "filter is corrupt: %s",
					 why != NULL ? why : "cannot be opened");
	why = lsm_filter_mismatch(verify->file, &verify->blob);
	if (why != NULL)
		note_problem(verify, verify->filter_path, "filter is corrupt: %s", why);
}

static void
check_value(Verify *verify, LsmSlice key, LsmSlice value)
{
	LsmTree    *tree = verify->tree;
	MemoryContext old;
	TransactionId xid;
	char	   *problem;

	if (!lsm_chain_is_sound(value))
	{
		note_entry(verify, verify->path,
				   lsm_value_tag(value) == LSM_TAG_CHAIN ? "chain of versions is malformed" :
				   "value has an unknown tag");
		return;
	}
	if (lsm_value_open(value))
		verify->flags |= LSM_FILE_HAS_PARTIAL;
	else if (lsm_value_tag(value) == LSM_TAG_DELETE)
		verify->flags |= LSM_FILE_HAS_DELETE;

	old = MemoryContextSwitchTo(verify->entry_cxt);
	problem = tree->ops->check(key, value);
	if (problem != NULL)
		note_entry(verify, verify->path, problem);
	else
	{
		xid = tree->ops->min_xid(value);
		if (TransactionIdIsNormal(xid) &&
			(!TransactionIdIsValid(verify->min_xid) ||
			 TransactionIdPrecedes(xid, verify->min_xid)))
			verify->min_xid = xid;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(verify->entry_cxt);
}

static bool
admits_leading(const Verify *verify, LsmDigest digest)
{
	if (verify->has_elastic)
		return !lsm_elastic_leads(&verify->elastic) ||
			lsm_elastic_probe_leading(&verify->elastic, digest);
	return lsm_filter_probe(&verify->filter, digest);
}

/* The filter has to admit the key's leading part, if it knows such parts. */
static void
check_leading(Verify *verify, LsmSlice filter_key)
{
	LsmTree    *tree = verify->tree;
	uint32		columns = verify->filter.leading;
	uint64		leading = tree->ctl->options.leading;
	uint32		bytes;

	/* of more columns than filters are to know now: where they end is unknown */
	if (columns == 0 || columns > lsm_leading_columns(leading) ||
		tree->ops->leading_bytes == NULL)
		return;
	if (columns < sizeof(leading))
		leading &= (UINT64CONST(1) << (8 * columns)) - 1;
	bytes = tree->ops->leading_bytes(leading, filter_key);
	if (bytes > 0 && !admits_leading(verify, lsm_digest_key(filter_key.data, bytes)))
		note_entry(verify, verify->filter_path,
				   "filter denies leading columns of a key that is in the file");
}

static void
check_entry(Verify *verify, LsmSlice key, LsmSlice value)
{
	LsmTree    *tree = verify->tree;

	if (tree->kind == LSM_KIND_INDEX && key.len < LSM_TID_BYTES)
	{
		note_entry(verify, verify->path, "key is too short");
		return;
	}
	if (verify->entries == 0)
		appendBinaryStringInfo(&verify->first_key, key.data, key.len);
	else if (lsm_slice_compare(lsm_slice(verify->last_key.data,
										 verify->last_key.len), key) >= 0)
		note_entry(verify, verify->path, "keys are out of order");

	if (verify->has_elastic)
	{
		LsmSlice	filter_key = lsm_filter_key(tree, key);

		check_elastic(verify, filter_key, verify->entries > 0 &&
					  slice_equals(filter_key,
								   lsm_filter_key(tree, lsm_slice(verify->last_key.data,
																  verify->last_key.len))));
		check_leading(verify, filter_key);
	}
	else if (verify->has_filter)
	{
		LsmSlice	filter_key = lsm_filter_key(tree, key);

		/* not a lookup: not counted */
		if (!lsm_filter_probe(&verify->filter,
							  lsm_digest_key(filter_key.data, filter_key.len)))
			note_entry(verify, verify->filter_path,
					   "filter denies a key that is in the file");
		check_leading(verify, filter_key);
	}
	resetStringInfo(&verify->last_key);
	appendBinaryStringInfo(&verify->last_key, key.data, key.len);
	check_value(verify, key, value);
}

/* What is lacking to read the file with is no damage of it. */
static void
note_unreadable(Verify *verify, const LsmSstError *err)
{
	if (lsm_sst_lacks_resources(err))
		lsm_sst_report(ERROR, err);
	note_problem(verify, verify->path, "%s", err->message);
}

/* Walk the entries; false if the file could not be read to its end. */
static bool
check_entries(Verify *verify)
{
	LsmSstError err;
	const char *why;

	if (lsm_sst_open(verify->path, &verify->reader, &err) != LSM_SST_OK)
	{
		verify->reader = NULL;
		note_unreadable(verify, &err);
		return false;
	}
	why = lsm_file_mismatch(verify->file, verify->reader);
	if (why != NULL)
		note_problem(verify, verify->path, "file is corrupt: %s", why);
	if (lsm_sst_iter_open(verify->reader, &verify->iter, &err) != LSM_SST_OK)
	{
		verify->iter = NULL;
		lsm_sst_report(ERROR, &err);
	}
	if (lsm_sst_iter_first(verify->iter, &err) != LSM_SST_OK)
	{
		note_unreadable(verify, &err);
		return false;
	}
	while (lsm_sst_iter_valid(verify->iter))
	{
		size_t		key_len;
		size_t		value_len;
		const void *key = lsm_sst_iter_key(verify->iter, &key_len);
		const void *value = lsm_sst_iter_value(verify->iter, &value_len);

		check_entry(verify, lsm_slice(key, (uint32) key_len),
					lsm_slice(value, (uint32) value_len));
		if (++verify->entries % 1000 == 0)
			CHECK_FOR_INTERRUPTS();
		if (lsm_sst_iter_next(verify->iter, &err) != LSM_SST_OK)
		{
			note_unreadable(verify, &err);
			return false;
		}
	}
	return true;
}

static void
check_fence(Verify *verify, const char *which, LsmSlice fence, bool cut,
			StringInfo key)
{
	LsmSlice	actual = lsm_slice(key->data, key->len);

	if (cut ? !(actual.len > fence.len && lsm_slice_has_prefix(actual, fence)) :
		!slice_equals(actual, fence))
		note_problem(verify, verify->path,
					 "%s key differs from the fence in the file list", which);
}

/* What the file list says about the file, against what is in it. */
static void
check_against_list(Verify *verify)
{
	const LsmFile *file = verify->file;

	if (verify->entry_problems > MAX_ENTRY_PROBLEMS)
		note_problem(verify, verify->path, "%d more entries have problems",
					 verify->entry_problems - MAX_ENTRY_PROBLEMS);
	if (verify->entries != file->entries)
		note_problem(verify, verify->path,
					 "file has " UINT64_FORMAT " entries, the file list says " UINT64_FORMAT,
					 verify->entries, file->entries);
	if (verify->entries > 0)
	{
		check_fence(verify, "smallest", file->smallest,
					(file->flags & LSM_FILE_SMALLEST_CUT) != 0, &verify->first_key);
		check_fence(verify, "largest", file->largest,
					(file->flags & LSM_FILE_LARGEST_CUT) != 0, &verify->last_key);
	}
	if (TransactionIdIsValid(verify->min_xid) &&
		(!TransactionIdIsValid(file->min_xid) ||
		 TransactionIdPrecedes(verify->min_xid, file->min_xid)))
		note_problem(verify, verify->path,
					 "file holds transaction id %u, older than the %u in the file list",
					 verify->min_xid, file->min_xid);
	if (verify->flags & ~file->flags)
		note_problem(verify, verify->path,
					 "file holds partial or deleted entries, which the file list does not say");
}

static void
close_all(Verify *verify)
{
	if (verify->iter != NULL)
		lsm_sst_iter_close(verify->iter);
	if (verify->reader != NULL)
		lsm_sst_close(verify->reader);
	if (verify->blob.data != NULL)
		lsm_sst_unmap_blob(&verify->blob);
	verify->iter = NULL;
	verify->reader = NULL;
	verify->blob.data = NULL;
}

/* LsmSstGoesOn: a walk through a large file ends when a request comes to end all. */
static bool
goes_on(void *arg)
{
	bool	   *interrupted = arg;

	*interrupted = QueryCancelPending || ProcDiePending;
	return !*interrupted;
}

static LsmSstStatus
check_structure(const char *path, LsmSstProperties *props, LsmSstError *err)
{
	LsmSstStatus status;
	bool		interrupted;

	do
	{
		interrupted = false;
		status = lsm_sst_verify(path, goes_on, &interrupted, props, err);
		CHECK_FOR_INTERRUPTS();
	} while (interrupted);		/* it was no error: the file is half read */
	return status;
}

static void
check_file(Verify *verify)
{
	LsmSstProperties props;
	LsmSstError err;

	/* structure first, checked against RocksDB's own reader */
	if (check_structure(verify->path, &props, &err) != LSM_SST_OK)
	{
		if (lsm_sst_lacks_resources(&err))
			lsm_sst_report(ERROR, &err);
		note_problem(verify, verify->path, "%s", err.message);
		return;
	}
	open_filter(verify);
	if (check_entries(verify))
		check_against_list(verify);
}

/* ======================================================================
 * The tree
 * ====================================================================== */

/*
 * What was found may concern the file, and its filter, unless that was built
 * again while we looked.
 */
static void
still_listed(LsmTree *tree, const LsmFile *file, bool *listed, bool *same_filter)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_enter(tree, &set);
	const LsmFile *found = lsm_version_find_file(version, file->number);

	*listed = found != NULL;
	*same_filter = found != NULL && found->filter_bytes == file->filter_bytes &&
		found->filter_check == file->filter_check;
	lsm_tree_exit(tree);
}

static void
report_problems(Verify *verify, LsmProblem report, void *arg)
{
	ListCell   *object;
	ListCell   *problem;
	bool		listed;
	bool		same_filter;

	LSM_CRASH_POINT("verify_file_read");
	still_listed(verify->tree, verify->file, &listed, &same_filter);
	forboth(object, verify->objects, problem, verify->problems)
	{
		bool		of_filter = strcmp(lfirst(object), verify->filter_path) == 0;

		if (of_filter ? same_filter : listed)
			report(arg, (char *) lfirst(object), (char *) lfirst(problem));
	}
}

static void
verify_file(LsmTree *tree, const LsmFile *file, MemoryContext parent,
			LsmProblem report, void *arg)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "lsm verify file",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Verify	   *verify = palloc0(sizeof(Verify));

	verify->tree = tree;
	verify->cxt = cxt;
	verify->entry_cxt = AllocSetContextCreate(cxt, "lsm verify entry",
											  ALLOCSET_SMALL_SIZES);
	verify->file = file;
	lsm_file_path(tree, file->number, false, verify->path);
	lsm_file_path(tree, file->number, true, verify->filter_path);
	initStringInfo(&verify->first_key);
	initStringInfo(&verify->last_key);

	PG_TRY();
	{
		check_file(verify);
	}
	PG_FINALLY();
	{
		close_all(verify);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);

	/* a file that a compaction has removed meanwhile has no problems */
	if (verify->problems != NIL)
		report_problems(verify, report, arg);
	MemoryContextDelete(cxt);
}

/* Files of a run: disjoint, in order. */
static void
verify_run(LsmTree *tree, const LsmRun *run, LsmProblem report, void *arg)
{
	for (int i = 0; i < run->nfiles; i++)
	{
		const LsmFile *file = &run->files[i];
		char		path[MAXPGPATH];

		lsm_file_path(tree, file->number, false, path);
		if (lsm_slice_compare(file->smallest, file->largest) > 0)
			report(arg, path, "smallest key in the file list is larger than the largest");
		if (i == 0 || lsm_file_before(&run->files[i - 1], file->smallest))
			continue;

		/* not before it: then they may only touch at a cut fence */
		if (!((run->files[i - 1].flags & LSM_FILE_LARGEST_CUT) ||
			  (file->flags & LSM_FILE_SMALLEST_CUT)) ||
			!lsm_slice_has_prefix(file->smallest, run->files[i - 1].largest))
			report(arg, path, "key range overlaps the file before it in its level");
	}
}

/* See facts.h. */
int
lsm_tree_verify_list(LsmTree *tree, LsmProblem report, void *arg, uint64 **numbers)
{
	LsmMemtableSet set;
	LsmVersion *version = lsm_version_pin(lsm_version_enter(tree, &set));
	int			nfiles = version->nfiles;

	lsm_tree_exit(tree);
	PG_TRY();
	{
		*numbers = palloc(Max(nfiles, 1) * sizeof(uint64));
		for (int i = 0; i < version->nruns; i++)
			verify_run(tree, &version->runs[i], report, arg);
		for (int i = 0; i < nfiles; i++)
			(*numbers)[i] = lsm_version_file(version, i)->number;
	}
	PG_FINALLY();
	{
		lsm_version_unpin(version);
	}
	PG_END_TRY();
	return nfiles;
}

/* See facts.h. */
void
lsm_tree_verify_file(LsmTree *tree, uint64 number, LsmProblem report, void *arg)
{
	LsmMemtableSet set;
	LsmVersion *version;

	version = lsm_version_pin(lsm_version_enter(tree, &set));
	lsm_tree_exit(tree);
	PG_TRY();
	{
		LsmFile    *file = lsm_version_find_file(version, number);

		if (file != NULL)
			verify_file(tree, file, CurrentMemoryContext, report, arg);
	}
	PG_FINALLY();
	{
		lsm_version_unpin(version);
	}
	PG_END_TRY();
}

/* See facts.h. */
char *
lsm_tree_check_row(LsmTree *tree, Relation rel, LsmSlice key, LsmSlice value,
				   Snapshot snapshot, bool *hidden)
{
	char	   *problem;

	LSM_CRASH_POINT("verify_row_read");
	problem = tree->ops->check_row(rel, key, value, snapshot, hidden);
	if (*hidden)
		LSM_CRASH_POINT("verify_row_hidden");
	return problem;
}
