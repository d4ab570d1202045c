/*-------------------------------------------------------------------------
 *
 * fold_test.c
 *	  src/tree/chain.h: values of one key strung together.  TAP output.
 *
 * LSM_SEED repeats a run.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "tree_harness.h"

/* ---- text: "+text" is a VERSION, "=text" a PUT, "~text" a PARTIAL, "-" a DELETE ---- */

static char
letter_of(int tag)
{
	return tag < 0 || tag > LSM_TAG_CHAIN ? '?' : "?=-~+["[tag];
}

static LsmSlice
element_of(const char *text, uint32 length)
{
	static char room[16][1024];
	static int	nth = 0;
	char	   *out = room[nth++ % lengthof(room)];
	int			tag;

	for (tag = LSM_TAG_PUT; letter_of(tag) != text[0]; tag++)
		Assert(tag < LSM_TAG_CHAIN);
	memcpy(out, text, length);
	out[0] = (char) tag;
	return lsm_slice(out, length);
}

/* "+b +a =0": the value of these elements */
static void
value_of(const char *text, StringInfo value)
{
	resetStringInfo(value);
	while (*text != '\0')
	{
		uint32		length = strcspn(text, " ");

		lsm_chain_append(value, element_of(text, length));
		text += length;
		text += strspn(text, " ");
	}
}

/* and back */
static const char *
text_of(LsmSlice value)
{
	static char room[4][8192];
	static int	nth = 0;
	char	   *out = room[nth++ % lengthof(room)];
	char	   *at = out;
	LsmChain	chain;
	LsmSlice	element;

	*out = '\0';
	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
		at += sprintf(at, "%s%c%.*s", at > out ? " " : "", letter_of(element.data[0]),
					  (int) element.len - 1, element.data + 1);
	if (chain.at == NULL)
		strcpy(at, at > out ? " malformed" : "malformed");
	return out;
}

static void
is(const char *got, const char *expected, const char *what)
{
	ok(strcmp(got, expected) == 0, what);
	if (strcmp(got, expected) != 0)
		printf("# got:      %s\n# expected: %s\n", got, expected);
}

/* ---- chains ---- */

static LsmSlice
slice_of(StringInfo value)
{
	return lsm_slice(value->data, value->len);
}

static void
test_chain(void)
{
	static const struct
	{
		const char *value;
		const char *rows;
		bool		open;
	}			cases[] = {
		{"=a", "=a", false},
		{"-", "", false},
		{"~a", "", true},
		{"+a", "+a", true},
		{"+b +a", "+b +a", true},
		{"+b =a", "+b =a", false},
		{"+b -", "+b", false},
		{"+b ~a", "+b", true},
		{"+c +b +a +0 =", "+c +b +a +0 =", false},
		{"+c +b -", "+c +b", false},
		{"+c +b +a ~x", "+c +b +a", true},
	};
	StringInfoData value;

	initStringInfo(&value);
	for (int i = 0; i < lengthof(cases); i++)
	{
		value_of(cases[i].value, &value);
		is(text_of(slice_of(&value)), cases[i].value, "a chain has the elements it was made of");
		is(text_of(lsm_chain_rows(slice_of(&value))), cases[i].rows, "what of it are rows");
		ok(lsm_value_open(slice_of(&value)) == cases[i].open, "something older counts, or not");
	}

	value_of("+b +a", &value);
	ok(value.len == 7 && memcmp(value.data, "\005\002\004b\002\004a", 7) == 0 &&
	   value.data[value.len] == '\0', "a chain on disk");
	pfree(value.data);
}

/* A chain of one may be any value; chains appended to chains. */
static void
test_append(void)
{
	StringInfoData value;
	StringInfoData older;
	char		large[400];

	initStringInfo(&value);
	initStringInfo(&older);
	value_of("+d", &value);
	value_of("+c +b =a", &older);
	lsm_chain_append(&value, slice_of(&older));
	is(text_of(slice_of(&value)), "+d +c +b =a", "a chain behind a version");
	value_of("+e +d", &value);
	lsm_chain_append(&value, slice_of(&older));
	is(text_of(slice_of(&value)), "+e +d +c +b =a", "a chain behind a chain");
	resetStringInfo(&value);
	lsm_chain_append(&value, slice_of(&older));
	is(text_of(slice_of(&value)), "+c +b =a", "a chain behind nothing");

	/* lengths whose varints have one byte, and two */
	for (int bytes = 126; bytes <= 130; bytes++)
	{
		char		expected[1024];

		memset(large, 'x', bytes);
		large[0] = '+';
		value_of("+s", &value);
		lsm_chain_append(&value, element_of(large, bytes));
		lsm_chain_append(&value, element_of("+t", 2));
		sprintf(expected, "+s %.*s +t", bytes, large);
		is(text_of(slice_of(&value)), expected, "a long element in the middle");
		resetStringInfo(&value);
		lsm_chain_append(&value, element_of(large, bytes));
		lsm_chain_append(&value, element_of("=t", 2));
		sprintf(expected, "%.*s =t", bytes, large);
		is(text_of(slice_of(&value)), expected, "a long element in front");
	}
	pfree(value.data);
	pfree(older.data);
}

static void
test_malformed(void)
{
	static const struct
	{
		const char *bytes;
		int			n;
		const char *text;
	}			cases[] = {
		{"\005", 1, ""},
		{"\005\002\004", 3, "malformed"},
		{"\005\003\004b\002\004a", 7, "+b\002 malformed"},
		{"\005\000\002\004a", 5, "malformed"},
		{"\005\200", 2, "malformed"},
		{"\005\377\377\377\377\377\377\377\377\377\001\004a", 13, "malformed"},
		{"\005\002\001b\002\004a", 7, "malformed"},
		{"\005\002\003b\002\004a", 7, "malformed"},
		{"\005\002\004b\001\005", 6, "+b malformed"},
		{"\005\002\004b\002\000a", 7, "+b malformed"},
		{"\005\002\004b\002\006a", 7, "+b malformed"},
		{"\005\002\004b\002\004a\002", 8, "+b +a malformed"},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		char	   *copy = copy_bytes(cases[i].bytes, cases[i].n);

		is(text_of(lsm_slice(copy, cases[i].n)), cases[i].text, "a malformed chain ends there");
		free(copy);
	}
	is(text_of(lsm_slice("", 0)), "", "no value, no element");
}

int
main(void)
{
	test_chain();
	test_append();
	test_malformed();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
