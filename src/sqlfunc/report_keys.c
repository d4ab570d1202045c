/*-------------------------------------------------------------------------
 *
 * report_keys.c
 *	  What lsm_report() makes of keys: texts, and the axis on which files lie.
 *
 * The axis has all keys that a file begins or ends with, in their order.  Room
 * goes to entries: each file spreads its entries evenly over the gaps between
 * keys within its range, and a gap gets as much of the axis as all files
 * together give it.  So equal widths hold about equal numbers of entries,
 * whatever the keys.
 *
 * Whoever may not see keys sees nothing that follows from them: files lie in
 * their order side by side, as wide as they have entries.
 *
 * Values are shown by the output functions of their types, which superusers
 * have made.  No lock but those that the caller has.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "index/index.h"
#include "sqlfunc/functions.h"
#include "sqlfunc/report.h"

/* Bytes of a code that are shown if it cannot be decoded */
#define SHOWN_BYTES		16

/* Longest text of a value, bytes */
#define SHOWN_VALUE		400

typedef struct KeyPrinter
{
	LsmKeySpec *spec;			/* NULL: keys are TIDs, or cannot be cut */
	bool		is_table;
	FmgrInfo	output[INDEX_MAX_KEYS];
} KeyPrinter;

/* ======================================================================
 * Texts
 * ====================================================================== */

static void
begin_printing(KeyPrinter *printer, Relation rel)
{
	memset(printer, 0, sizeof(KeyPrinter));
	printer->is_table = lsm_relation_is_table(rel);
	if (printer->is_table || !lsm_columns_have_codes(rel))
		return;
	printer->spec = lsm_key_spec(rel);
	for (int i = 0; i < printer->spec->nkeys; i++)
	{
		Oid			function;
		bool		varlena;

		getTypeOutputInfo(TupleDescAttr(RelationGetDescr(rel), i)->atttypid, &function, &varlena);
		fmgr_info(function, &printer->output[i]);
	}
}

static void
put_bytes(StringInfo text, LsmSlice bytes)
{
	appendStringInfoString(text, "\\x");
	for (int i = 0; i < Min(bytes.len, SHOWN_BYTES); i++)
		appendStringInfo(text, "%02x", (uint8) bytes.data[i]);
	if (bytes.len > SHOWN_BYTES)
		appendStringInfoString(text, "...");
}

/* `whole`: else the value goes on. */
static void
put_value(StringInfo text, FmgrInfo *output, Datum value, bool whole)
{
	char	   *string = OutputFunctionCall(output, value);
	int			len = strlen(string);

	if (len == 0 && whole)
		appendStringInfoString(text, "''");

	/* what goes on may end in the midst of a character */
	appendBinaryStringInfo(text, string, whole && len <= SHOWN_VALUE ? len :
						   pg_mbcliplen(string, len, Min(len, SHOWN_VALUE)));
	if (!whole || len > SHOWN_VALUE)
		appendStringInfoString(text, "...");
	pfree(string);
}

/* A code that was cut: strings that are their bytes can be read so far. */
static void
put_cut_code(StringInfo text, KeyPrinter *printer, int i, LsmSlice code)
{
	const LsmColumnSpec *column = &printer->spec->columns[i];
	char		mask = column->descending ? 0xFF : 0;
	StringInfoData ended;
	bool		isnull;

	if (code.len < 1)
		appendStringInfoString(text, "...");
	else if (column->strings != LSM_STRINGS_BYTES ||
			 (column->type != LSM_COLUMN_TEXT && column->type != LSM_COLUMN_BPCHAR &&
			  column->type != LSM_COLUMN_BYTEA))
	{
		put_bytes(text, code);
		if (code.len <= SHOWN_BYTES)
			appendStringInfoString(text, "...");
	}
	else
	{
		initStringInfo(&ended);
		appendBinaryStringInfo(&ended, code.data, code.len);
		if (ended.len > 1 && ended.data[ended.len - 1] == (LSM_STRING_ESCAPE ^ mask))
			ended.len--;
		appendStringInfoChar(&ended, LSM_STRING_ESCAPE ^ mask);
		appendStringInfoChar(&ended, LSM_STRING_END ^ mask);
		put_value(text, &printer->output[i],
				  lsm_decode_column(column, lsm_slice(ended.data, ended.len), &isnull), false);
		pfree(ended.data);
	}
}

/* Of an index, without the TID at its end.  `cut`: only its first bytes are known. */
static void
put_columns(StringInfo text, KeyPrinter *printer, LsmSlice rest, bool cut)
{
	for (int i = 0; i < printer->spec->nkeys; i++)
	{
		const LsmColumnSpec *column = &printer->spec->columns[i];
		LsmSlice	code = {rest.data, cut ? lsm_cut_code_length(column, rest) : lsm_code_length(column, rest)};

		if (i > 0)
			appendStringInfoString(text, ", ");
		if (code.len == 0)
		{
			put_cut_code(text, printer, i, rest);
			return;
		}
		if (code.data[0] != LSM_CODE_NOT_NULL)
			appendStringInfoString(text, "NULL");
		else if (column->opaque || lsm_type_is_composed(column->type))
			put_bytes(text, code);
		else
		{
			bool		isnull;
			Datum		value = lsm_decode_column(column, code, &isnull);

			put_value(text, &printer->output[i], value, true);
		}
		rest.data += code.len;
		rest.len -= code.len;
	}
}

static char *
key_text(KeyPrinter *printer, LsmSlice key, bool cut)
{
	StringInfoData text;

	initStringInfo(&text);
	if (printer->is_table && key.len == LSM_TID_BYTES)
	{
		uint32		block;
		uint16		offset;

		lsm_tid_read(key.data, &block, &offset);
		appendStringInfo(&text, "(%u,%u)", block, offset);
	}
	else if (printer->spec != NULL && cut)
		put_columns(&text, printer, key, true);
	else if (printer->spec != NULL && key.len > LSM_TID_BYTES)
		put_columns(&text, printer, lsm_slice(key.data, key.len - LSM_TID_BYTES), false);
	else
		put_bytes(&text, key);
	return text.data;
}

/* ======================================================================
 * Places
 * ====================================================================== */

static int
compare_files(const void *a, const void *b)
{
	const LsmFileInfo *x = &((const LsmReportFile *) a)->info;
	const LsmFileInfo *y = &((const LsmReportFile *) b)->info;

	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	if (x->run != y->run)
		return x->run > y->run ? -1 : 1;
	return 0;
}

static int
compare_files_with_keys(const void *a, const void *b)
{
	const LsmReportFile *x = a;
	const LsmReportFile *y = b;
	int			c = compare_files(a, b);

	if (c == 0)
		c = lsm_slice_compare(x->info.smallest, y->info.smallest);
	return c != 0 ? c : (x->info.number > y->info.number) - (x->info.number < y->info.number);
}

static int
compare_files_without_keys(const void *a, const void *b)
{
	const LsmReportFile *x = a;
	const LsmReportFile *y = b;
	int			c = compare_files(a, b);

	return c != 0 ? c : (x->info.number > y->info.number) - (x->info.number < y->info.number);
}

static int
compare_slices(const void *a, const void *b)
{
	return lsm_slice_compare(*(const LsmSlice *) a, *(const LsmSlice *) b);
}

/* The place of a key among them; it is one of them. */
static int
find_key(const LsmSlice *keys, int nkeys, LsmSlice key)
{
	const LsmSlice *found = bsearch(&key, keys, nkeys, sizeof(LsmSlice), compare_slices);

	Assert(found != NULL);
	return found - keys;
}

/* All keys that files begin or end with, each once, as far as they are known */
static LsmSlice *
collect_keys(const LsmReportTree *tree, int *nkeys)
{
	LsmSlice   *keys = palloc_extended(Max(2 * (Size) tree->nfiles, 1) * sizeof(LsmSlice), MCXT_ALLOC_HUGE);
	int			n = 0;

	for (int i = 0; i < tree->nfiles; i++)
	{
		keys[2 * i] = tree->files[i].info.smallest;
		keys[2 * i + 1] = tree->files[i].info.largest;
	}
	qsort(keys, 2 * tree->nfiles, sizeof(LsmSlice), compare_slices);
	for (int i = 0; i < 2 * tree->nfiles; i++)
	{
		if (n == 0 || lsm_slice_compare(keys[n - 1], keys[i]) != 0)
			keys[n++] = keys[i];
	}
	*nkeys = n;
	return keys;
}

/*
 * Where each key is on the axis, 0..1.  False: no file has two keys, and so
 * there is nothing between keys.
 */
static bool
spread_entries(const LsmReportTree *tree, const LsmSlice *keys, int nkeys, double *at)
{
	double	   *change = palloc_extended((nkeys + 1) * sizeof(double), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	double		weight = 0;

	for (int i = 0; i < tree->nfiles; i++)
	{
		const LsmFileInfo *info = &tree->files[i].info;
		int			from = find_key(keys, nkeys, info->smallest);
		int			to = find_key(keys, nkeys, info->largest);

		if (from == to)
			continue;
		change[from] += (double) info->entries / (to - from);
		change[to] -= (double) info->entries / (to - from);
	}
	at[0] = 0;
	for (int i = 1; i < nkeys; i++)
	{
		weight += change[i - 1];
		at[i] = at[i - 1] + Max(weight, 0);
	}
	pfree(change);
	if (at[nkeys - 1] <= 0)
		return false;
	for (int i = 1; i < nkeys; i++)
		at[i] = Min(at[i] / at[nkeys - 1], 1);
	return true;
}

/* The text of a key with which a file begins or ends */
static const char *
text_of_key(const LsmReportTree *tree, LsmSlice key)
{
	for (int i = 0; i < tree->nfiles; i++)
	{
		const LsmReportFile *file = &tree->files[i];

		if (lsm_slice_compare(file->info.smallest, key) == 0)
			return file->smallest;
		if (lsm_slice_compare(file->info.largest, key) == 0)
			return file->largest;
	}
	return NULL;
}

/*
 * Labels near the quarters of the axis, or near its middle if they are long:
 * what is elsewhere finds no room.
 */
static void
place_ticks(LsmReportTree *tree, const LsmSlice *keys, int nkeys, const double *at)
{
	bool		is_long = false;

	for (int i = 0, key = 0; i < LSM_REPORT_TICKS; i++)
	{
		double		wanted = (double) i / (LSM_REPORT_TICKS - 1);

		while (key < nkeys - 1 && fabs(at[key + 1] - wanted) <= fabs(at[key] - wanted))
			key++;
		if (fabs(at[key] - wanted) > 0.05)
			continue;
		tree->ticks[i] = text_of_key(tree, keys[key]);
		tree->tick_at[i] = at[key];
		is_long |= pg_mbstrlen(tree->ticks[i]) > LSM_REPORT_TICK_COLUMNS;
	}
	if (is_long)
		tree->ticks[1] = tree->ticks[3] = NULL;
	tree->tick_columns = is_long ? LSM_REPORT_LONG_TICK_COLUMNS : LSM_REPORT_TICK_COLUMNS;
}

static void
place_by_keys(LsmReportTree *tree)
{
	KeyPrinter	printer;
	int			nkeys;
	LsmSlice   *keys = collect_keys(tree, &nkeys);
	double	   *at = palloc_extended(nkeys * sizeof(double), MCXT_ALLOC_HUGE);
	bool		between = spread_entries(tree, keys, nkeys, at);

	qsort(tree->files, tree->nfiles, sizeof(LsmReportFile), compare_files_with_keys);
	begin_printing(&printer, tree->rel);
	for (int i = 0; i < tree->nfiles; i++)
	{
		LsmReportFile *file = &tree->files[i];
		int			from = find_key(keys, nkeys, file->info.smallest);
		int			to = find_key(keys, nkeys, file->info.largest);

		CHECK_FOR_INTERRUPTS();
		file->from = between ? at[from] : (double) from / nkeys;
		file->to = between ? at[to] : (double) (to + 1) / nkeys;
		file->smallest = key_text(&printer, file->info.smallest, file->info.smallest_cut);
		file->largest = key_text(&printer, file->info.largest, file->info.largest_cut);
	}
	if (between)
		place_ticks(tree, keys, nkeys, at);
}

/* Side by side; the run with the most entries takes it all. */
static void
place_by_entries(LsmReportTree *tree)
{
	double		most = 1;
	double		sum = 0;

	qsort(tree->files, tree->nfiles, sizeof(LsmReportFile), compare_files_without_keys);
	for (int i = 0; i < tree->nfiles; i++)
	{
		if (i > 0 && compare_files(&tree->files[i - 1], &tree->files[i]) != 0)
			sum = 0;
		tree->files[i].from = sum;
		sum += Max(tree->files[i].info.entries, 1);
		tree->files[i].to = sum;
		most = Max(most, sum);
	}
	for (int i = 0; i < tree->nfiles; i++)
	{
		tree->files[i].from /= most;
		tree->files[i].to /= most;
	}
}

/* See report.h. */
void
lsm_report_place_files(LsmReportTree *tree)
{
	if (tree->nfiles == 0)
		return;
	if (tree->show_keys)
		place_by_keys(tree);
	else
		place_by_entries(tree);
}
