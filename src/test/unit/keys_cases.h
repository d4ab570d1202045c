/*-------------------------------------------------------------------------
 *
 * keys_cases.h
 *	  The commands of cases/keys, for keys_test.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KEYS_CASES_H
#define KEYS_CASES_H

/* "type:desc:..." */
static void
parse_column(const char *text, LsmColumnSpec *spec)
{
	static FmgrInfo compare;
	int			length = strcspn(text, ":");
	int			number = type_number(text, length);

	memset(spec, 0, sizeof(*spec));
	spec->type = types[number].type;
	spec->opcintype = types[number].oid;
	spec->strings = LSM_STRINGS_BYTES;
	spec->order = LSM_ORDER_CODES;
	spec->descending = strstr(text, ":desc") != NULL;
	spec->nulls_first = strstr(text, ":nulls-first") != NULL;
	spec->compare = &compare;
	if (strstr(text, ":unordered") != NULL)
		spec->order = LSM_ORDER_NONE;
	if (strstr(text, ":groups") != NULL)
	{
		spec->order = LSM_ORDER_GROUPS;
		spec->strings = LSM_STRINGS_PRIMARY_AND_BYTES;
	}
	if (lsm_value_extent(spec->type, spec->strings) < LSM_EXTENT_VARIES)
		spec->fixed_bytes = 1 + lsm_value_extent(spec->type, spec->strings);
}

static LsmSlice
encode(const LsmColumnSpec *spec, Datum value, bool isnull)
{
	StringInfoData buf;

	initStringInfo(&buf);
	(void) lsm_encode_column(spec, value, isnull, &buf);
	return lsm_slice(buf.data, buf.len);
}

static void
case_codes(Case *c)
{
	LsmColumnSpec spec;
	LsmSlice	before = {0};
	char	   *line;

	parse_column(c->words, &spec);
	while ((line = case_line(c)) != NULL)
	{
		bool		isnull = strcmp(line, "null") == 0;
		LsmSlice	code = encode(&spec, isnull ? (Datum) 0 : parse_value(spec.type, line), isnull);
		int			order = lsm_slice_compare(before, code);
		Datum		value = lsm_decode_column(&spec, code, &isnull);

		say("%s ", before.data == NULL ? " " : order < 0 ? "<" : order > 0 ? ">" : "=");
		for (uint32 i = 0; i < code.len; i++)
		{
			if (i == 24 && code.len > 32)
			{
				say("..(%u)", code.len - 28);
				i = code.len - 4;
			}
			say("%02x", (uint8) code.data[i]);
		}
		say(" ");
		if (isnull)
			say("null");
		else
			say_value(spec.type, value);
		if (lsm_code_length(&spec, code) != code.len)
			say(" has the length %u", lsm_code_length(&spec, code));
		say("\n");
		before = code;
	}
}

/* ---- keys ---- */

#define MAX_COLUMNS	4
#define MAX_KEYS	8

static LsmKeySpec key_spec;
static char names[MAX_COLUMNS];

static int
column_named(char name)
{
	for (int i = 0; i < key_spec.nkeys; i++)
	{
		if (names[i] == name)
			return i;
	}
	abort();
}

static const char *const operators[] = {"", "<", "<=", "=", ">=", ">"};

static StrategyNumber
strategy_of(const char *operator)
{
	for (int i = 1; i < lengthof(operators); i++)
	{
		if (strcmp(operators[i], operator) == 0)
			return i;
	}
	abort();
}

/* "5" or "5::int8" */
static Datum
parse_constant(const LsmColumnSpec *spec, char *text, Oid *type, bool *isnull)
{
	char	   *other = strstr(text, "::");
	LsmColumnType column_type = spec->type;

	*type = spec->opcintype;
	if (other != NULL)
	{
		int			number = type_number(other + 2, strlen(other + 2));

		*other = '\0';
		column_type = types[number].type;
		*type = types[number].oid;
	}
	*isnull = strcmp(text, "null") == 0;
	return *isnull ? (Datum) 0 : parse_value(column_type, text);
}

/* "1,2,null" */
static TestArray *
parse_list(const LsmColumnSpec *spec, char *text)
{
	TestArray  *array = palloc0(sizeof(TestArray));
	char	   *item;

	array->elements = palloc(100 * sizeof(Datum));
	array->nulls = palloc(100 * sizeof(bool));
	array->head.elemtype = spec->opcintype;
	while ((item = strsep(&text, ",")) != NULL)
	{
		Oid			type;

		array->elements[array->n] = parse_constant(spec, item, &type, &array->nulls[array->n]);
		if (!array->nulls[array->n])
			array->head.elemtype = type;
		array->n++;
	}
	return array;
}

static void
parse_row(char *columns, const char *operator, char *values, ScanKey key)
{
	ScanKey		members = palloc0(MAX_COLUMNS * sizeof(ScanKeyData));
	int			n = 0;
	char	   *item;

	while ((item = strsep(&values, ",")) != NULL)
	{
		ScanKey		member = &members[n];
		int			column = column_named(columns[2 * n]);
		bool		isnull;

		member->sk_flags = SK_ROW_MEMBER;
		member->sk_attno = column + 1;
		member->sk_strategy = strategy_of(operator);
		member->sk_argument = parse_constant(&key_spec.columns[column], item,
											 &member->sk_subtype, &isnull);
		if (isnull)
			member->sk_flags |= SK_ISNULL;
		n++;
	}
	members[n - 1].sk_flags |= SK_ROW_END;
	key->sk_flags = SK_ROW_HEADER;
	key->sk_attno = members[0].sk_attno;
	key->sk_strategy = strategy_of(operator);
	key->sk_argument = PointerGetDatum(members);
}

static void
parse_key_line(char *line, ScanKey key)
{
	char	   *word = next_word(&line);
	char	   *what = next_word(&line);
	char	   *rest = next_word(&line);
	char	   *more = next_word(&line);
	bool		isnull;

	memset(key, 0, sizeof(*key));
	if (strcmp(word, "row") == 0)
	{
		parse_row(what, rest, more, key);
		return;
	}
	key->sk_attno = 1 + column_named(word[0]);
	if (strcmp(what, "is") == 0)
		key->sk_flags = SK_ISNULL | (more == NULL ? SK_SEARCHNULL : SK_SEARCHNOTNULL);
	else if (strcmp(what, "in") == 0 || more != NULL)
	{
		key->sk_flags = SK_SEARCHARRAY;
		key->sk_strategy = more != NULL ? strategy_of(what) : BTEqualStrategyNumber;
		key->sk_argument = PointerGetDatum(parse_list(&key_spec.columns[key->sk_attno - 1],
													  more != NULL ? more : rest));
	}
	else
	{
		key->sk_strategy = strategy_of(what);
		key->sk_argument = parse_constant(&key_spec.columns[key->sk_attno - 1], rest,
										  &key->sk_subtype, &isnull);
		key->sk_flags = isnull ? SK_ISNULL : 0;
	}
}

/* Codes of columns from this one on; bytes, where they are a group's. */
static void
say_codes(int column, LsmSlice code)
{
	for (bool first = true; code.len > 0; first = false)
	{
		const LsmColumnSpec *spec = &key_spec.columns[column++];
		uint32		length = lsm_cut_code_length(spec, code);
		bool		isnull;
		Datum		value;

		say("%s", first ? "" : ",");
		if (length == 0 || spec->order == LSM_ORDER_GROUPS)
		{
			say_bytes(code.data, code.len);
			return;
		}
		value = lsm_decode_column(spec, lsm_slice(code.data, length), &isnull);
		if (isnull)
			say("null");
		else
			say_value(spec->type, value);
		code.data += length;
		code.len -= length;
	}
}

static void
say_bounds(int column, LsmSlice lower, bool lower_inclusive, LsmSlice upper, bool upper_inclusive)
{
	if (lower.len > 0)
	{
		say(" from%s ", lower_inclusive ? "" : " behind");
		say_codes(column, lower);
	}
	if (upper.len > 0)
	{
		say(" to%s ", upper_inclusive ? "" : " before");
		say_codes(column, upper);
	}
}

static void
say_column(const LsmQuals *quals, int i)
{
	const LsmColumnQuals *column = &quals->columns[i];

	say("%c:", names[i]);
	if (column->has_points)
	{
		say(" points");
		for (int k = 0; k < column->npoints; k++)
		{
			say(" ");
			say_codes(i, column->points[k]);
		}
	}
	say_bounds(i, column->has_lower ? column->lower : lsm_slice("", 0), column->lower_inclusive,
			   column->has_upper ? column->upper : lsm_slice("", 0), column->upper_inclusive);
	if (column->not_null && !column->has_points)
		say(" not null");
	for (const LsmOperatorQual *qual = column->operators; qual != NULL; qual = qual->next)
	{
		say(" ask %s", operators[qual->key->sk_strategy]);
		if (qual->nargs != 1)
			say(" any of %d", qual->nargs);
		if (qual->group.len > 0)
		{
			say(" in group ");
			say_codes(i, qual->group);
		}
	}
	say("\n");
}

static void
say_end(const char *title, const LsmRowEnd *end)
{
	for (; end != NULL && end->value.len > 0; end = end->next)
	{
		say("%s at %c: ", title, names[end->column]);
		say_bytes(end->value.data, end->value.len);
		if (end->rest.len > 0)
		{
			say(" and ");
			say_codes(end->column + 1, end->rest);
		}
		say("%s\n", end->inclusive ? " inclusive" : "");
	}
}

static void
say_quals(const LsmQuals *quals)
{
	if (quals->never)
	{
		say("never\n");
		return;
	}
	for (int i = 0; i < key_spec.nkeys; i++)
		say_column(quals, i);
	if (quals->row_lower.len > 0 || quals->row_upper.len > 0)
	{
		say("row:");
		say_bounds(quals->row_column, quals->row_lower, quals->row_lower_inclusive,
				   quals->row_upper, quals->row_upper_inclusive);
		say("\n");
	}
	say_end("row from", &quals->row_group_lower);
	say_end("row to", &quals->row_group_upper);
	say_end("inner from", &quals->row_inner_lower);
	say_end("inner to", &quals->row_inner_upper);
	say("prefix of %d%s\n", quals->nprefix, quals->recheck ? ", recheck" : "");
}

static void
case_keys(Case *c)
{
	LsmColumnQuals columns[MAX_COLUMNS];
	LsmQuals	quals = {.columns = columns};
	ScanKeyData keys[MAX_KEYS];
	char	   *words = strdup(c->words);
	char	   *at = words;
	char	   *word;
	char	   *line;
	int			n = 0;

	memset(&key_spec, 0, sizeof(key_spec));
	while ((word = next_word(&at)) != NULL)
	{
		names[key_spec.nkeys] = word[0];
		parse_column(word + 2, &key_spec.columns[key_spec.nkeys++]);
	}
	free(words);
	while ((line = case_line(c)) != NULL)
		parse_key_line(line, &keys[n++]);
	lsm_quals_prepare(&quals, &key_spec, keys, n);
	say_quals(&quals);
}

static void
run_keys_case(Case *c)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "case",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext outer = MemoryContextSwitchTo(context);
	bool		failed;

	CATCH(if (strcmp(c->command, "codes") == 0) case_codes(c); else case_keys(c), failed);
	if (failed)
		say("ERROR: %s\n", error_text);
	MemoryContextSwitchTo(outer);
	MemoryContextDelete(context);
}

#endif							/* KEYS_CASES_H */
