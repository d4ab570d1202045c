/*-------------------------------------------------------------------------
 *
 * fold_test.c
 *	  src/tree/chain.h, and the fold of src/tree/read/merge.c: values of one key
 *	  strung together.  TAP output.
 *
 * Text, and how the kind of the test merges: tree_harness.h.
 *
 * LSM_SEED repeats a run.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "tree_harness.h"

static void
is(const char *got, const char *expected, const char *what)
{
	ok(strcmp(got, expected) == 0, what);
	if (strcmp(got, expected) != 0)
		printf("# got:      %s\n# expected: %s\n", got, expected);
}

/* ---- chains ---- */

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
		{"^b<a", "^b<a", true},
		{"+c ^b<a", "+c ^b<a", true},
		{"^c<b +b ^a<0 =0", "^c<b +b ^a<0 =0", false},
		{"+c ^b<a ~x", "+c ^b<a", true},
		{"^b<a -", "^b<a", false},
	};
	StringInfoData value;

	initStringInfo(&value);
	for (int i = 0; i < lengthof(cases); i++)
	{
		value_of(cases[i].value, &value);
		is(text_of(slice_of(&value), ' '), cases[i].value, "a chain has the elements it was made of");
		is(text_of(lsm_chain_rows(slice_of(&value)), ' '), cases[i].rows, "what of it are rows");
		ok(lsm_chain_is_sound(slice_of(&value)), "it is sound");
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
	is(text_of(slice_of(&value), ' '), "+d +c +b =a", "a chain behind a version");
	value_of("+e +d", &value);
	lsm_chain_append(&value, slice_of(&older));
	is(text_of(slice_of(&value), ' '), "+e +d +c +b =a", "a chain behind a chain");
	resetStringInfo(&value);
	lsm_chain_append(&value, slice_of(&older));
	is(text_of(slice_of(&value), ' '), "+c +b =a", "a chain behind nothing");

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
		is(text_of(slice_of(&value), ' '), expected, "a long element in the middle");
		resetStringInfo(&value);
		lsm_chain_append(&value, element_of(large, bytes));
		lsm_chain_append(&value, element_of("=t", 2));
		sprintf(expected, "%.*s =t", bytes, large);
		is(text_of(slice_of(&value), ' '), expected, "a long element in front");
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
		{"\005\001\004", 3, "+"},
		{"\005\002\004", 3, "malformed"},
		{"\005\003\004b\002\004a", 7, "+b\002 malformed"},
		{"\005\000\002\004a", 5, "malformed"},
		{"\005\200", 2, "malformed"},
		{"\005\377\377\377\377\377\377\377\377\377\001\004a", 13, "malformed"},
		{"\005\002\001b\002\004a", 7, "malformed"},
		{"\005\002\003b\002\004a", 7, "malformed"},
		{"\005\002\004b\001\005", 6, "+b malformed"},
		{"\005\002\004b\002\000a", 7, "+b malformed"},
		{"\005\002\004b\002\007a", 7, "+b malformed"},
		{"\005\002\004b\002\005a", 7, "+b malformed"},
		{"\005\002\004b\002\004a\002", 8, "+b +a malformed"},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		char	   *copy = copy_bytes(cases[i].bytes, cases[i].n);

		is(text_of(lsm_slice(copy, cases[i].n), ' '), cases[i].text, "a malformed chain ends there");
		ok(!lsm_chain_is_sound(lsm_slice(copy, cases[i].n)), "and lsm_verify finds it");
		free(copy);
	}
	is(text_of(lsm_slice("", 0), ' '), "", "no value, no element");
	ok(!lsm_chain_is_sound(lsm_slice("", 0)) && !lsm_chain_is_sound(lsm_slice("\007a", 2)) &&
	   !lsm_chain_is_sound(lsm_slice("\000a", 2)), "tags that there are not");
}

/* ---- the fold ---- */

/* "+b ~c | -": values, newest first, each of one or more elements */
static void
fold_texts(const char *values, const LsmEnough *enough, LsmFold *fold, StringInfo value)
{
	StringInfoData older;
	char		text[8192];

	initStringInfo(&older);
	strcpy(text, values);
	resetStringInfo(value);
	lsm_fold_begin(fold, &kind_ops, value);
	fold->enough = enough;
	for (char *at = text; at != NULL && !lsm_fold_complete(fold);)
	{
		char	   *bar = strstr(at, " | ");

		if (bar != NULL)
			*bar = '\0';
		value_of(at, &older);
		ok(lsm_fold_add(fold, slice_of(&older)) == lsm_fold_complete(fold), "complete, or not");
		at = bar != NULL ? bar + 3 : NULL;
	}
	pfree(older.data);
}

/* Every kind of value over every other; "!": complete */
static void
test_pairs(void)
{
	static const char *const newer[] = {
		"", "=n", "-", "~p", "~!p", "~*p", "+n", "+m +n", "+m ~p", "+m ~!p", "+m ~*p", "+n =m", "+n -",
	};
	static const char *const older[] = {
		"=o", "+o", "~o", "-", "+o +l", "+o =l", "+o -", "+o ~l", "+o +l +k ~j",
	};
	static const char *const results[lengthof(newer)][lengthof(older)] = {
		/* nothing */
		{"=o!", "+o", "~o", "-!", "+o +l", "+o =l!", "+o -!", "+o ~l", "+o +l +k ~j"},
		{"=n!", "=n!", "=n!", "=n!", "=n!", "=n!", "=n!", "=n!", "=n!"},
		{"-!", "-!", "-!", "-!", "-!", "-!", "-!", "-!", "-!"},
		/* ~p */
		{"=o/p!", "+o/p", "~p", "-!", "+o/p +l", "+o/p =l!", "+o/p -!", "+o/p ~l", "+o/p +l +k ~j"},
		/* ~!p */
		{"=o/!p!", "~!p", "~!p", "-!", "~!p", "=l/!p!", "-!", "~!p", "~!p"},
		/* ~*p */
		{"=o/*p!", "=o/*p!", "~*p", "-!", "=o/*p!", "=o/*p!", "=o/*p!", "=o/*p!", "=o/*p!"},
		/* +n */
		{"+n =o!", "+n +o", "+n ~o", "+n -!", "+n +o +l", "+n +o =l!", "+n +o -!", "+n +o ~l",
		"+n +o +l +k ~j"},
		/* +m +n */
		{"+m +n =o!", "+m +n +o", "+m +n ~o", "+m +n -!", "+m +n +o +l", "+m +n +o =l!",
		"+m +n +o -!", "+m +n +o ~l", "+m +n +o +l +k ~j"},
		/* +m ~p */
		{"+m =o/p!", "+m +o/p", "+m ~p", "+m -!", "+m +o/p +l", "+m +o/p =l!", "+m +o/p -!",
		"+m +o/p ~l", "+m +o/p +l +k ~j"},
		/* +m ~!p */
		{"+m =o/!p!", "+m ~!p", "+m ~!p", "+m -!", "+m ~!p", "+m =l/!p!", "+m -!", "+m ~!p",
		"+m ~!p"},
		/* +m ~*p */
		{"+m =o/*p!", "+m =o/*p!", "+m ~*p", "+m -!", "+m =o/*p!", "+m =o/*p!", "+m =o/*p!",
		"+m =o/*p!", "+m =o/*p!"},
		{"+n =m!", "+n =m!", "+n =m!", "+n =m!", "+n =m!", "+n =m!", "+n =m!", "+n =m!", "+n =m!"},
		{"+n -!", "+n -!", "+n -!", "+n -!", "+n -!", "+n -!", "+n -!", "+n -!", "+n -!"},
	};
	StringInfoData value;
	LsmFold		fold;

	initStringInfo(&value);
	for (int i = 0; i < lengthof(newer); i++)
	{
		for (int j = 0; j < lengthof(older); j++)
		{
			char		values[100];
			char		got[100];
			char		what[200];
			int			tag;

			sprintf(values, "%s%s%s", newer[i], i > 0 ? " | " : "", older[j]);
			fold_texts(values, NULL, &fold, &value);
			sprintf(got, "%s%s", text_of(slice_of(&value), ' '), lsm_fold_complete(&fold) ? "!" : "");
			sprintf(what, "\"%s\" over \"%s\"", newer[i], older[j]);
			is(got, results[i][j], what);
			tag = lsm_value_tag(slice_of(&value));
			ok(fold.tag == tag, "the fold knows its tag");
		}
	}
	pfree(value.data);
}

/* What is left at the end; "+x" and so on: what the fold says its tag is */
static void
test_end(void)
{
	static const struct
	{
		const char *values;
		const char *rows;
		bool		found;
	}			cases[] = {
		{"=a", "=a", true},
		{"+b | =a", "+b =a", true},
		{"+b | +a", "+b +a", true},
		{"+b", "+b", true},
		{"+b | -", "+b", true},
		{"+b | ~a", "+b", true},
		{"+c | +b | ~a", "+c +b", true},
		{"~a", "~a", false},
		{"~b | ~a", "~b", false},
		{"~b | -", "-", false},
		{"-", "-", false},
		{"~!b | +a | -", "-", false},
		{"~!b | +a", "~!b", false},
	};
	StringInfoData value;
	LsmFold		fold;

	initStringInfo(&value);
	for (int i = 0; i < lengthof(cases); i++)
	{
		fold_texts(cases[i].values, NULL, &fold, &value);
		ok(lsm_fold_end(&fold) == cases[i].found, cases[i].values);
		ok(lsm_tag_is_row(fold.tag) == cases[i].found &&
		   fold.tag == lsm_value_tag(slice_of(&value)), "its tag");
		is(text_of(slice_of(&value), ' '), cases[i].rows, "what is left of it");
	}
	pfree(value.data);
}

static void
test_enough(void)
{
	static const struct
	{
		const char *values;
		const char *result;
		int			asked;
	}			cases[] = {
		{"=aE", "=aE!", 0},
		{"+bE", "+bE!", 1},
		{"+b | +aE | =0", "+b +aE!", 2},
		{"+b | ~xE | +a | =0", "+b +a/xE!", 2},
		{"+c +b +aE +0 =", "+c +b +aE!", 3},
		{"+d | +c +bE ~a | =0", "+d +c +bE!", 3},
		{"~!E | +a | +b | =c", "=c/!E!", 0},
		{"~*x | +aE | =0", "=aE/*x!", 0},
		{"+c | +b | =aE", "+c +b =aE!", 2},
		{"~xE | -", "-!", 0},
	};
	StringInfoData value;
	LsmFold		fold;

	initStringInfo(&value);
	for (int i = 0; i < lengthof(cases); i++)
	{
		char		got[100];

		nasked = 0;
		fold_texts(cases[i].values, &enough_e, &fold, &value);
		sprintf(got, "%s%s", text_of(slice_of(&value), ' '), lsm_fold_complete(&fold) ? "!" : "");
		is(got, cases[i].result, cases[i].values);
		ok(nasked == cases[i].asked, "each version is asked about once");
	}
	pfree(value.data);
}

/* A DELTA, and what comes below it */
static void
test_delta(void)
{
	static const struct
	{
		const char *values;
		const char *result;
	}			cases[] = {
		{"^b<a", "^b<a"},
		{"^b<a | +a", "+b +a"},
		{"^b<a | =a", "+b =a!"},
		{"^b<a =a", "+b =a!"},
		{"+c ^b<a | =a", "+c +b =a!"},
		/* what came to nothing lies between */
		{"^b<a | +x | +y | =a", "+b +x +y =a!"},
		/* overrides above it, and below */
		{"~p | ^b<a", "^b<a/p"},
		{"~p | ^b<a | =a", "+b/p =a!"},
		{"^b<a | ~p | =a", "+b =a/p!"},
		{"~!p | ^b<a | =a", "=a/!p!"},
		{"~*p | ^b<a | =a", "=a/*p!"},
		/* differences of differences: the oldest first */
		{"^d<c | ^c<b | ^b<a", "^d<c ^c<b ^b<a"},
		{"^d<c | ^c<b | ^b<a | =a", "+d +c +b =a!"},
		{"^d<c | ^c<b | +x | ^b<a | ~p | =a", "+d +c +x +b =a/p!"},
		{"^d<c | +c | ^b<a", "+d +c ^b<a"},
		/* the base is gone: not another one's of the same name */
		{"^b<a | -", "^b<a -!"},
		{"^b<a | =0", "^b<a =0!"},
		{"^c<b | ^b<a | +b | =0", "^c<b ^b<a +b =0!"},
		/* nothing is enough until it is restored */
		{"^bE<a | +a | =0", "+bE +a!"},
		{"^b<a | +xE | +a | =0", "+b +xE +a!"},
		{"+cE | ^b<a | =a", "+cE!"},
		{"^c<bE | ^bE<a | +a | =0", "+c +bE +a!"},
		{"^b<aE | +aE | =0", "+b +aE!"},
	};
	StringInfoData value;
	LsmFold		fold;

	initStringInfo(&value);
	for (int i = 0; i < lengthof(cases); i++)
	{
		char		got[100];

		fold_texts(cases[i].values, &enough_e, &fold, &value);
		sprintf(got, "%s%s", text_of(slice_of(&value), ' '), lsm_fold_complete(&fold) ? "!" : "");
		is(got, cases[i].result, cases[i].values);
		ok(fold.tag == lsm_value_tag(slice_of(&value)), "the fold knows its tag");
	}
	fold_texts("^b<a | ~x", NULL, &fold, &value);
	ok(lsm_fold_end(&fold), "a header is left of what has lost its base");
	is(text_of(slice_of(&value), ' '), "^b<a", "what is left of it");
	pfree(value.data);
}

static bool
fold_fails(const char *older, bool below)
{
	static StringInfoData value;
	LsmFold		fold;
	bool		failed;

	initStringInfo(&value);
	lsm_fold_begin(&fold, &kind_ops, &value);
	if (below)
		(void) lsm_fold_add(&fold, element_of("+v", 2));
	CATCH((void) lsm_fold_add(&fold, lsm_slice(older + 1, older[0])), failed);
	pfree(value.data);
	return failed;
}

static void
test_fold_malformed(void)
{
	static const char *const values[] = {
		"\001\0", "\001\7", "\001\005", "\003\005\001\004", "\006\005\002\004b\001\007",
		"\005\005\002\001b\001",
	};
	for (int i = 0; i < lengthof(values); i++)
	{
		ok(fold_fails(values[i], false), "a malformed value ends the fold");
		ok(fold_fails(values[i], true), "a malformed value below a version");
	}
}

/*
 * ---- the fold against a list, and in groups: whoever folds first, a flush, a
 * compaction or a reader, the result is the same ----
 */

#define MAX_ELEMENTS	12

/*
 * One of the elements that may stand there: nothing is newer than what is about
 * all that is older, and of two PARTIALs the older one is about what the newer
 * one is about.
 */
static void
random_text(const char *newer, char *out, int *number)
{
	static const char *const starts[] = {"+", "+", "+", "+", "~", "~!", "~*", "~", "=", "-"};
	const char *start = starts[(random_next() >> 11) % lengthof(starts)];

	if ((strcmp(start, "~*") == 0 && newer != NULL) ||
		(strcmp(start, "~!") == 0 && newer != NULL && newer[0] == '~'))
		start = "~";
	if (start[0] == '-')
		strcpy(out, start);
	else
		sprintf(out, "%s%d%s", start, (*number)++, random_next() % 8 == 0 ? "E" : "");
}

/*
 * Some of the versions become differences to what comes next.  Not the first one, if
 * nothing but its name is left of it (~*).
 */
static void
make_deltas(char texts[][32], int n)
{
	int			first = strncmp(texts[0], "~*", 2) == 0 ? 0 : -1;

	while (first >= 0 && first < n && texts[first][0] == '~')
		first++;
	for (int i = n - 2; i > first; i--)
	{
		int			base = i + 1;
		char		name[32];

		while (base < n && texts[base][0] == '~')
			base++;
		if (base == n || texts[base][0] == '-' || texts[i][0] != '+' || random_next() % 2 == 0)
			continue;
		strcpy(name, texts[base] + 1);
		name[strcspn(name, "<")] = '\0';
		texts[i][0] = '^';
		strcat(strcat(texts[i], "<"), name);
	}
}

/* Of a list whose older elements are restored: the element's base is the next one. */
static void
restore_text(char *text, const char *base)
{
	char		whole[200];
	char	   *less = strchr(text, '<');
	int			base_length = strcspn(less + 1, "/");

	if (base[0] == '^' || strcspn(base + 1, "/<") != base_length ||
		strncmp(base + 1, less + 1, base_length) != 0)
		return;
	sprintf(whole, "+%.*s%s", (int) (less - text) - 1, text + 1, less + 1 + base_length);
	strcpy(text, whole);
}

/* What comes behind what is enough may be there, or not. */
static void
cut_behind_enough(char *text)
{
	for (char *at = text; *at != '\0'; at += strcspn(at, " "), at += *at == ' ')
	{
		int			length = strcspn(at, " ");

		if (at[0] == '+' && memchr(at, 'E', length) != NULL)
			at[length] = '\0';
	}
}

/* The list, newest first; its text */
static void
fold_list(char texts[][32], int n, bool with_enough, char *out)
{
	char	   *start = out;
	char		list[MAX_ELEMENTS][200];
	int			length = 0;
	bool		done = false;

	for (int i = 0; i < n && !done; i++)
	{
		char		new[200];
		char	   *last = length > 0 ? list[length - 1] : NULL;

		strcpy(new, texts[i]);
		if (last != NULL && last[0] == '~')
		{
			if (new[0] == '~' || (strchr("+^", new[0]) != NULL && last[1] == '!') ||
				(new[0] == '^' && last[1] == '*'))
				continue;
			if (new[0] != '-')
			{
				if (strchr(new, '/') != NULL)
					*strchr(new, '/') = '\0';
				if (last[1] == '*')
					new[0] = '=';
				strcat(strcat(new, "/"), last + 1);
			}
			length--;
		}
		strcpy(list[length++], new);
		done = new[0] == '=' || new[0] == '-';
	}
	*out = '\0';
	for (int i = length - 2; i >= 0; i--)
	{
		if (list[i][0] == '^')
			restore_text(list[i], list[i + 1]);
	}
	for (int i = 0; i < length; i++)
		out += sprintf(out, "%s%s", i > 0 ? " " : "", list[i]);
	if (with_enough)
		cut_behind_enough(start);
}

/*
 * Fold values texts[from..to), some of them in groups of their own.  `partial`: a
 * PARTIAL will come before them, which may make something else of what is enough
 * (the overrides of rows do not).
 */
static void
fold_groups(char texts[][32], int from, int to, const LsmEnough *enough, bool partial, int depth,
			StringInfo out)
{
	LsmFold		fold;
	StringInfoData part;

	initStringInfo(&part);
	resetStringInfo(out);
	lsm_fold_begin(&fold, &kind_ops, out);
	fold.enough = enough;
	while (from < to && !lsm_fold_complete(&fold))
	{
		bool		group_partial = fold.tag == 0 ? partial : lsm_value_open(slice_of(out)) &&
			lsm_chain_rows(slice_of(out)).len != out->len;
		int			end = from + 1;

		if (depth > 0 && random_next() % 2 == 0)
			end += (random_next() >> 11) % (to - from);
		/* who makes the group may want more than who folds the groups */
		if (end - from > 1)
			fold_groups(texts, from, end, random_next() % 2 == 0 && !group_partial ? enough : NULL,
						group_partial, depth - 1, &part);
		else
			value_of(texts[from], &part);
		(void) lsm_fold_add(&fold, slice_of(&part));
		from = end;
	}
	pfree(part.data);
}

static void
test_random(void)
{
	StringInfoData value;
	bool		same = true;

	initStringInfo(&value);
	for (int round = 0; round < 200000 && same; round++)
	{
		char		texts[MAX_ELEMENTS][32];
		char		expected[MAX_ELEMENTS * 200];
		char		got[MAX_ELEMENTS * 200];
		int			n = 1 + (random_next() >> 11) % MAX_ELEMENTS;
		int			number = 10;
		bool		with_enough = round % 2 == 0;

		for (int i = 0; i < n; i++)
			random_text(i > 0 ? texts[i - 1] : NULL, texts[i], &number);
		if (round % 3 > 0)
			make_deltas(texts, n);
		fold_list(texts, n, with_enough, expected);
		fold_groups(texts, 0, n, with_enough ? &enough_e : NULL, false, 3, &value);
		strcpy(got, text_of(slice_of(&value), ' '));
		if (with_enough)
			cut_behind_enough(got);
		same = strcmp(got, expected) == 0;
		if (!same)
		{
			printf("# values:  ");
			for (int i = 0; i < n; i++)
				printf(" %s", texts[i]);
			printf("\n# got:      %s\n# expected: %s\n", got, expected);
		}
	}
	ok(same, "in whatever groups values are folded, the result is the same");
	pfree(value.data);
}

int
main(void)
{
	random_state = test_seed() * UINT64CONST(0x9E3779B97F4A7C15) + 1;
	test_chain();
	test_append();
	test_malformed();
	test_pairs();
	test_end();
	test_enough();
	test_delta();
	test_fold_malformed();
	test_random();
	printf("1..%d\n", ntests);
	return nfailed == 0 ? 0 : 1;
}

#endif
