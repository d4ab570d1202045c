/*-------------------------------------------------------------------------
 *
 * report_html.c
 *	  The page around lsm_report(): head, style; text and numbers in it.
 *
 * Names and keys are their owners' to choose, and the page may be opened by
 * someone else, from anywhere.  So each goes through lsm_html_text(), and the
 * page's Content-Security-Policy forbids scripts and all that is loaded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"

#include "sqlfunc/report.h"

/*
 * Contrasts: text 4.5 or more, marks 3 or more, in both schemes.  Schemes of
 * filters are told apart by lightness, too.
 */
static const char *const colours =
	":root{color-scheme:light dark;"
	"--bg:#fffefb;--ink:#1d1c1a;--mute:#615f58;--line:#d9d6cd;--soft:#f3f1ea;--link:#1f5a99;"
	"--bad:#b3261e;--ok:#2b66a5;--ex:#8a877e;"
	"--none:#8c8981;--bloom:#1f8a7c;--blocked:#4a78ad;--elastic:#b86414;--quotient:#7b5aa8;"
	"--cascade:#a8487b;--ribbon:#77801a;--unknown:#b3261e;"
	"--h0:#eeebe2;--h1:#fbe0b8;--h2:#f5bb71;--h3:#e08d35;--h4:#b35b12;--h5:#6d3105}"
	"@media (prefers-color-scheme:dark){:root{"
	"--bg:#171715;--ink:#eceae3;--mute:#a5a29a;--line:#3b3a36;--soft:#22221f;--link:#8cbcf0;"
	"--bad:#ff8a80;--ok:#7fb4ea;--ex:#85827a;"
	"--none:#8c8981;--bloom:#3fb3a2;--blocked:#6fa0d8;--elastic:#e0913f;--quotient:#a68bd2;"
	"--cascade:#d47fae;--ribbon:#b9c44e;--unknown:#ff8a80;"
	"--h0:#2c2b28;--h1:#4d3513;--h2:#7d4c16;--h3:#b8701f;--h4:#ea9f4a;--h5:#ffdca8}}";

static const char *const style =
	"*{box-sizing:border-box}"
	"body{margin:0 auto;padding:2rem 1.5rem 4rem;max-width:1180px;background:var(--bg);color:var(--ink);"
	"font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;overflow-wrap:anywhere}"
	"h1{font-size:1.6rem;font-weight:600;line-height:1.25;margin:0}"
	"h2{font-size:1.3rem;font-weight:600;line-height:1.3;margin:0}"
	"h3{font-size:1rem;font-weight:600;margin:2.2rem 0 .2rem}"
	"section{border-top:2px solid var(--ink);margin-top:3rem;padding-top:.7rem}"
	"p{margin:.2rem 0 .8rem;max-width:50rem}"
	".sub,.cap{color:var(--mute)}.cap{font-size:.87rem}.bad{color:var(--bad);font-weight:600}"
	"a{color:var(--link)}code{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:.93em}"
	"dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(14rem,1fr));gap:1.1rem 1.5rem;margin:1.2rem 0}"
	"dl div{border-left:2px solid var(--line);padding-left:.7rem}"
	"dt{font-size:.8rem;color:var(--mute)}"
	"dd{margin:0;font-size:1.25rem;line-height:1.3;font-variant-numeric:tabular-nums}"
	"dd small{display:block;font-size:.8rem;color:var(--mute);line-height:1.35}"
	".wide{overflow-x:auto;position:relative}"
	"svg.fig{display:block;width:100%;min-width:880px;height:auto;font-size:12px;font-variant-numeric:tabular-nums}"
	"text{fill:var(--mute)}text.l{fill:var(--ink);font-weight:600;font-size:13px}"
	"text.k{font-size:11px;unicode-bidi:isolate;direction:ltr}text.e{text-anchor:end}text.m{text-anchor:middle}"
	"text.g{font-size:10px;text-anchor:end}text.bad{fill:var(--bad)}"
	".none{fill:var(--none)}.bloom{fill:var(--bloom)}.blocked{fill:var(--blocked)}.elastic{fill:var(--elastic)}"
	".quotient{fill:var(--quotient)}.cascade{fill:var(--cascade)}.ribbon{fill:var(--ribbon)}.unknown{fill:var(--unknown)}"
	".o{fill-opacity:.68}.mem{fill:var(--soft);stroke:var(--mute);stroke-dasharray:4 3}"
	".lane{fill:var(--soft)}.ax{stroke:var(--mute)}.gr{stroke:var(--line)}.gr.z{stroke-dasharray:2 3}"
	".x{stroke:var(--ex);stroke-width:2}.ms{stroke:var(--ok);stroke-width:3}.ms.b{stroke:var(--bad)}"
	"circle{fill:var(--ok)}circle.b{fill:var(--bad)}.v{opacity:.38}"
	".u{fill:var(--ex)}.q{fill:var(--ex)}.h0{fill:var(--h0)}.h1{fill:var(--h1)}.h2{fill:var(--h2)}.h3{fill:var(--h3)}"
	".h4{fill:var(--h4)}.h5{fill:var(--h5)}.hu{fill:var(--line)}"
	".key{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;font-size:.82rem;color:var(--mute);margin:.3rem 0 .5rem;"
	"padding:0;list-style:none}.key svg{vertical-align:-1px;margin-right:.35rem}"
	"table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums;width:100%}"
	"th{font-weight:500;color:var(--mute);text-align:right;vertical-align:bottom;border-bottom:1px solid var(--mute);"
	"padding:.25rem .55rem;line-height:1.25;overflow-wrap:normal}"
	"td{text-align:right;padding:.25rem .55rem;border-bottom:1px solid var(--line);white-space:nowrap}"
	"th.t,td.t{text-align:left}td.n{white-space:normal;text-align:left}"
	"tfoot td{border-bottom:0;font-weight:600}td svg{display:block;margin:.15rem 0 0 auto}"
	"th:first-child,td:first-child{padding-left:0}th:last-child,td:last-child{padding-right:0}"
	"summary{cursor:pointer;margin:2.2rem 0 .6rem;font-weight:600}"
	"table.f{font-size:.8rem}.f th,.f td{padding:.2rem .38rem}td.i{text-align:left;unicode-bidi:isolate}bdi{unicode-bidi:isolate}.w{white-space:nowrap}footer{margin-top:3rem;color:var(--mute);font-size:.82rem}"
	"@media (max-width:600px){body{padding:1.2rem 1rem 3rem}.opt{display:none}th,td{padding:.25rem .3rem}}"
	"@media print{body{max-width:none}section{break-before:auto}}";

/* See report.h. */
void
lsm_html_begin(StringInfo out, const char *title)
{
	appendStringInfoString(out,
						   "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
						   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
						   "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\"/>\n"
						   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
						   "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
						   "<meta name=\"referrer\" content=\"no-referrer\"/>\n<title>");
	lsm_html_text(out, title, 80);
	appendStringInfo(out, "</title>\n<style>%s%s</style>\n</head>\n<body>\n", colours, style);
}

/* See report.h. */
void
lsm_html_end(StringInfo out)
{
	appendStringInfoString(out, "</body>\n</html>\n");
}

/* ======================================================================
 * Text
 * ====================================================================== */

/*
 * Characters that are not seen, or change how others are seen: separators,
 * what has no width, what turns the direction of writing, tags, private ones
 * of terminals.
 */
static bool
is_invisible(pg_wchar c)
{
	return (c >= 0x80 && c < 0xA0) || c == 0xAD || c == 0x61C || c == 0x180E ||
		(c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
		(c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) ||
		(c >= 0xE0000 && c <= 0xE0FFF);
}

/* Not characters: XML has none of them. */
static bool
is_noncharacter(pg_wchar c)
{
	return (c >= 0xD800 && c <= 0xDFFF) || (c >= 0xFDD0 && c <= 0xFDEF) ||
		(c & 0xFFFE) == 0xFFFE || c > 0x10FFFF;
}

/* Appends a character; its columns. */
static int
put_character(StringInfo out, pg_wchar c, int columns)
{
	if (c < 0x20)
		appendStringInfo(out, "&#x%X;", 0x2400 + c);	/* its picture */
	else if (c == 0x7F)
		appendStringInfoString(out, "&#x2421;");
	else if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'' || c == '`' || c == '=')
		appendStringInfo(out, "&#%u;", c);
	else if (c < 0x7F)
		appendStringInfoCharMacro(out, (char) c);
	else if (is_noncharacter(c))
		appendStringInfoString(out, "&#xFFFD;");
	else if (is_invisible(c))
	{
		appendStringInfo(out, "[U+%04X]", c);
		return 8;
	}
	else
	{
		appendStringInfo(out, "&#x%X;", c);
		return Max(columns, 0);
	}
	return 1;
}

/*
 * Text in UTF-8.  In a database without an encoding: NULL, each byte is on its
 * own.
 */
static const char *
as_utf8(const char *text)
{
	if (GetDatabaseEncoding() == PG_SQL_ASCII)
		return NULL;
	return pg_server_to_any(text, strlen(text), PG_UTF8);
}

/* See report.h. */
void
lsm_html_text(StringInfo out, const char *text, int max_columns)
{
	const char *utf8 = as_utf8(text);
	const char *at = utf8 != NULL ? utf8 : text;
	int			columns = 0;
	int			characters = 0;

	while (*at != '\0')
	{
		/* combining characters take no column */
		if (max_columns > 0 && (columns >= max_columns || characters >= 4 * max_columns))
		{
			appendStringInfoString(out, "&#x2026;");
			return;
		}
		characters++;
		if (utf8 != NULL)
		{
			columns += put_character(out, utf8_to_unicode((const unsigned char *) at),
									 pg_encoding_dsplen(PG_UTF8, at));
			at += pg_encoding_mblen(PG_UTF8, at);
		}
		else if (IS_HIGHBIT_SET(*at))
		{
			appendStringInfo(out, "\\x%02X", (unsigned char) *at++);
			columns += 4;
		}
		else
			columns += put_character(out, (unsigned char) *at++, 1);
	}
}

/* ======================================================================
 * Numbers
 * ====================================================================== */

char *
lsm_text_count(uint64 n)
{
	char		digits[24];
	StringInfoData text;
	int			len = snprintf(digits, sizeof(digits), UINT64_FORMAT, n);

	initStringInfo(&text);
	for (int i = 0; i < len; i++)
	{
		if (i > 0 && (len - i) % 3 == 0)
			appendStringInfoChar(&text, ',');
		appendStringInfoChar(&text, digits[i]);
	}
	return text.data;
}

/* Three digits, or all there are before the point. */
char *
lsm_text_number(double number)
{
	if (number == 0 || number >= 99.95)
		return number < 1e15 ? lsm_text_count((uint64) rint(number)) : psprintf("%.3g", number);
	if (number >= 9.995)
		return psprintf("%.1f", number);
	if (number >= 0.095)
		return psprintf("%.2f", number);
	return psprintf("%.2g", number);
}

char *
lsm_text_bytes(uint64 bytes)
{
	static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
	double		number = (double) bytes;
	int			unit = 0;

	while (number >= 999.5 && unit < lengthof(units) - 1)
	{
		number /= 1024;
		unit++;
	}
	if (unit == 0)
		return psprintf("%d %s", (int) bytes, bytes == 1 ? "byte" : units[0]);
	return psprintf("%s %s", number == rint(number) ? lsm_text_count((uint64) number) :
					lsm_text_number(number), units[unit]);
}

char *
lsm_text_rate(double rate)
{
	double		percent = 100 * rate;

	if (percent == 0 || percent >= 99.95)
		return psprintf("%.0f%%", percent);
	if (percent < 1e-6)
		return pstrdup("&lt;0.000001%");
	if (percent < 0.00095)
		return psprintf("%.6f%%", percent);
	return psprintf("%s%%", lsm_text_number(percent));
}

char *
lsm_text_us(uint64 us)
{
	if (us < 1000)
		return us == 0 ? pstrdup("0 s") : pstrdup("&lt;1 ms");
	if (us < 999500)
		return psprintf("%s ms", lsm_text_number(us / 1e3));
	if (us < UINT64CONST(600) * 1000000)
		return psprintf("%s s", lsm_text_number(us / 1e6));
	if (us < UINT64CONST(10) * 3600 * 1000000)
		return psprintf("%s min", lsm_text_number(us / 60e6));
	return psprintf("%s h", lsm_text_number(us / 3600e6));
}

char *
lsm_text_of(uint64 n, const char *noun)
{
	return psprintf("%s %s%s", lsm_text_count(n), noun, n == 1 ? "" : "s");
}

char *
lsm_text_of_entries(uint64 n)
{
	return n == 1 ? pstrdup("1 entry") : psprintf("%s entries", lsm_text_count(n));
}
