/*-------------------------------------------------------------------------
 *
 * report.c
 *	  lsmam_page(): the page of lsm_report(), report.html, with these facts.
 *
 * Names and keys are their owners' to choose, and the page may be opened by
 * someone else, from anywhere.  In the facts nothing can end the element that
 * they stand in; the page's script makes text of them, not markup; and its
 * Content-Security-Policy has the digest of that script, so that no other runs
 * and nothing is loaded.
 *
 * The page is ASCII, what is not is escaped.  So it is the same whatever the
 * encodings of database, client and file are.  It is HTML and well-formed XML,
 * too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(lsmam_page);

static const char page[] =
#include "sqlfunc/report_page.h"
;

/* Where the facts go */
#define PLACE	">FACTS<"

/* A character of JSON: beyond ASCII, or one that could be markup */
static void
put_escape(StringInfo out, pg_wchar c)
{
	if (c > 0xFFFF)
		appendStringInfo(out, "\\u%04x\\u%04x", 0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF));
	else
		appendStringInfo(out, "\\u%04x", c);
}

/*
 * In JSON such characters stand in strings only.  In a database without an
 * encoding each byte is on its own.
 */
static void
put_facts(StringInfo out, const char *json)
{
	bool		is_utf8 = GetDatabaseEncoding() != PG_SQL_ASCII;
	const char *at = is_utf8 ? pg_server_to_any(json, strlen(json), PG_UTF8) : json;

	while (*at != '\0')
	{
		int			len = 1;

		if (IS_HIGHBIT_SET(*at) && is_utf8)
		{
			len = pg_encoding_mblen(PG_UTF8, at);
			put_escape(out, utf8_to_unicode((const unsigned char *) at));
		}
		else if (IS_HIGHBIT_SET(*at))
			appendStringInfo(out, "\\\\x%02X", (unsigned char) *at);
		else if (*at == '<' || *at == '>' || *at == '&' || *at == 0x7F)
			put_escape(out, (pg_wchar) *at);
		else
			appendStringInfoCharMacro(out, *at);
		at += len;
	}
}

Datum
lsmam_page(PG_FUNCTION_ARGS)
{
	const char *place = strstr(page, PLACE);
	StringInfoData out;

	initStringInfo(&out);
	appendBinaryStringInfo(&out, page, place + 1 - page);
	put_facts(&out, TextDatumGetCString(PG_GETARG_DATUM(0)));
	appendStringInfoString(&out, place + strlen(PLACE) - 1);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}
