/*-------------------------------------------------------------------------
 *
 * report_keys.c
 *	  lsmam_files(): what lsm_report() says of files and lsm_files() does not:
 *	  their compression, and their smallest and largest key in words.
 *
 * Rights and locks are those of lsm_files(), and keys are for those to whom it
 * shows them: see lsm_relation_may_show_keys().
 *
 * Values are shown by the output functions of their types, which superusers
 * have made.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "index/index.h"
#include "sqlfunc/functions.h"

PG_FUNCTION_INFO_V1(lsmam_files);

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

Datum
lsmam_files(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel;
	List	   *not_open;
	LsmFileInfo *files;
	int			nfiles;
	KeyPrinter	printer;
	bool		show_keys;

	InitMaterializedSRF(fcinfo, 0);
	rel = lsm_relation_open(PG_GETARG_OID(0), LSM_RELATION_TREE, LSM_RIGHT_FACTS,
							AccessShareLock);
	not_open = lsm_relations_not_open(list_make1(rel));
	show_keys = lsm_relation_may_show_keys(rel);
	if (show_keys)
		begin_printing(&printer, rel);
	files = lsm_tree_files(lsm_relation_tree(rel), &nfiles);
	for (int i = 0; i < nfiles; i++)
	{
		const LsmFileInfo *file = &files[i];
		const char *compression = lsm_compression_name(file->compression);
		Datum		values[4];
		bool		nulls[4] = {0};

		CHECK_FOR_INTERRUPTS();
		values[0] = Int64GetDatum((int64) file->number);
		nulls[1] = compression == NULL;
		if (compression != NULL)
			values[1] = CStringGetTextDatum(compression);
		nulls[2] = nulls[3] = !show_keys;
		if (show_keys)
		{
			values[2] = CStringGetTextDatum(key_text(&printer, file->smallest, file->smallest_cut));
			values[3] = CStringGetTextDatum(key_text(&printer, file->largest, file->largest_cut));
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	lsm_relations_let_go(not_open);
	lsm_relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
