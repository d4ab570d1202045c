/*-------------------------------------------------------------------------
 *
 * keys_fuzz.h
 *	  Random values and their codes, random scan keys and entries, against what
 *	  SQL means, for keys_test.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KEYS_FUZZ_H
#define KEYS_FUZZ_H

static uint64_t seed;

static uint32
below(uint32 n)
{
	return (uint32) ((random_next(&seed) >> 8) % n);
}

/* ---- codes ---- */

static Datum
random_value(LsmColumnType type)
{
	int64		edge = below(3) == 0 ? INT64CONST(1) << below(63) : below(4);
	int64		n = (below(2) == 0 ? edge : -edge) + below(3) - 1;
	double		f = ldexp((double) n, (int) below(200) - 100);
	char		data[9000];
	int			bytes = below(8);

	switch (form_of(type))
	{
		case BOOL:
			return BoolGetDatum(n & 1);
		case INT2:
			return Int16GetDatum((int16) n);
		case INT4:
			return Int32GetDatum((int32) n);
		case OID:
			return ObjectIdGetDatum((Oid) n);
		case FLOAT4:
			return Float4GetDatum(below(20) == 0 ? (float4) INFINITY : (float4) f);
		case FLOAT8:
			return Float8GetDatum(below(20) == 0 ? -INFINITY : f);
		case STRING:
			/* some that are packed */
			if (below(8) == 0)
				bytes = LSM_CODE_PLAIN_BYTES - 4 + below(4000);
			for (int i = 0; i < bytes; i++)
				data[i] = i < bytes - 8 ? 'a' : "\000\001ab\376\377"[below(6)];
			return text_datum(data, bytes);
		default:
			return Int64GetDatum(n);
	}
}

static int
compare_values(LsmColumnType type, Datum a, Datum b)
{
	switch (form_of(type))
	{
		case BOOL:
			return DatumGetBool(a) - DatumGetBool(b);
		case INT2:
			return DatumGetInt16(a) - DatumGetInt16(b);
		case INT4:
			return (DatumGetInt32(a) > DatumGetInt32(b)) - (DatumGetInt32(a) < DatumGetInt32(b));
		case OID:
			return (DatumGetObjectId(a) > DatumGetObjectId(b)) -
				(DatumGetObjectId(a) < DatumGetObjectId(b));
		case FLOAT4:
			return (DatumGetFloat4(a) > DatumGetFloat4(b)) - (DatumGetFloat4(a) < DatumGetFloat4(b));
		case FLOAT8:
			return (DatumGetFloat8(a) > DatumGetFloat8(b)) - (DatumGetFloat8(a) < DatumGetFloat8(b));
		case STRING:
			return compare_strings(a, b, true);
		default:
			return (DatumGetInt64(a) > DatumGetInt64(b)) - (DatumGetInt64(a) < DatumGetInt64(b));
	}
}

static int
sign(int c)
{
	return (c > 0) - (c < 0);
}

/* Two values: their codes' order; back; where the code ends before others. */
static bool
codes_hold(const LsmColumnSpec *spec)
{
	Datum		a = random_value(spec->type);
	Datum		b = random_value(spec->type);
	LsmSlice	code = encode(spec, a, false);
	LsmSlice	other = encode(spec, b, false);
	StringInfoData both;
	bool		isnull;
	int			wanted = sign(compare_values(spec->type, a, b));

	if (sign(lsm_slice_compare(code, other)) != (spec->descending ? -wanted : wanted))
		return false;
	if (compare_values(spec->type, a, lsm_decode_column(spec, code, &isnull)) != 0 || isnull)
		return false;
	initStringInfo(&both);
	append_bytes(&both, code.data, code.len);
	append_bytes(&both, other.data, other.len);
	return lsm_code_length(spec, lsm_slice(both.data, both.len)) == code.len;
}

static void
fuzz_codes(void)
{
	int			rounds = getenv("LSM_UNIT_SHORT") != NULL ? 300 : 1000;

	seed = test_seed();
	for (int i = 0; i < 2 * (int) lengthof(types); i++)
	{
		LsmColumnSpec spec;
		bool		good = true;

		parse_column(types[i / 2].name, &spec);
		if (spec.type == LSM_COLUMN_UUID)
			continue;
		spec.descending = i % 2 == 1;
		for (int k = 0; k < rounds && good; k++)
		{
			MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "values",
														  ALLOCSET_DEFAULT_SIZES);
			MemoryContext outer = MemoryContextSwitchTo(context);

			good = codes_hold(&spec);
			MemoryContextSwitchTo(outer);
			MemoryContextDelete(context);
		}
		ok(good, "codes of %s%s are in order, and lead back", types[i / 2].name,
		   spec.descending ? " DESC" : "");
	}
}

/* ---- keys ---- */

/* Of small integers, so that keys meet entries; some constants are beyond int2. */
#define FUZZ_COLUMNS	3
#define SQL_NULL		INT64_MIN

typedef struct FuzzKey
{
	int			column;
	int			strategy;		/* 0: IS NULL; -1: IS NOT NULL */
	int			n;				/* elements; -1: one value; of a row: members */
	bool		row;
	int64		values[4];
} FuzzKey;

static int64
random_constant(void)
{
	return below(20) == 0 ? SQL_NULL : below(12) == 0 ? (below(2) == 0 ? 100000 : -100000) :
		(int64) below(7) - 3;
}

static void
random_key(FuzzKey *key)
{
	memset(key, 0, sizeof(*key));
	key->column = below(FUZZ_COLUMNS);
	key->strategy = (int) below(7) - 1;
	key->n = -1;
	if (key->strategy > 0 && below(3) == 0)
		key->n = below(5);
	if (key->strategy > 0 && key->strategy != BTEqualStrategyNumber &&
		key->column < FUZZ_COLUMNS - 1 && below(3) == 0)
	{
		key->row = true;
		key->n = 2 + below(FUZZ_COLUMNS - key->column - 1);
	}
	for (int i = 0; i < 4; i++)
		key->values[i] = random_constant();
}

static bool
holds(int strategy, int64 a, int64 b)
{
	return strategy == BTLessStrategyNumber ? a < b : strategy == BTLessEqualStrategyNumber ? a <= b :
		strategy == BTEqualStrategyNumber ? a == b :
		strategy == BTGreaterEqualStrategyNumber ? a >= b : a > b;
}

static bool
sql_row(const FuzzKey *key, const int64 *entry)
{
	for (int i = 0; i < key->n; i++)
	{
		int64		a = entry[key->column + i];
		int64		b = key->values[i];

		if (a == SQL_NULL || b == SQL_NULL)
			return false;
		if (a != b)
			return holds(key->strategy, a, b);
	}
	return holds(key->strategy, 0, 0);
}

static bool
sql_holds(const FuzzKey *key, const int64 *entry)
{
	int64		value = entry[key->column];
	bool		any = false;

	if (key->row)
		return sql_row(key, entry);
	if (key->strategy <= 0)
		return (value == SQL_NULL) == (key->strategy == 0);
	if (value == SQL_NULL)
		return false;
	for (int i = 0; i < (key->n < 0 ? 1 : key->n); i++)
		any |= key->values[i] != SQL_NULL && holds(key->strategy, value, key->values[i]);
	return any;
}

/* Constants are int8. */
static void
make_scan_key(const FuzzKey *from, ScanKey key)
{
	memset(key, 0, sizeof(*key));
	key->sk_attno = from->column + 1;
	key->sk_strategy = Max(from->strategy, 0);
	key->sk_subtype = INT8OID;
	if (from->row)
	{
		ScanKey		members = palloc0(from->n * sizeof(ScanKeyData));

		for (int i = 0; i < from->n; i++)
		{
			members[i].sk_flags = SK_ROW_MEMBER | (from->values[i] == SQL_NULL ? SK_ISNULL : 0) |
				(i == from->n - 1 ? SK_ROW_END : 0);
			members[i].sk_attno = from->column + 1 + i;
			members[i].sk_strategy = from->strategy;
			members[i].sk_subtype = INT8OID;
			members[i].sk_argument = Int64GetDatum(from->values[i]);
		}
		key->sk_flags = SK_ROW_HEADER;
		key->sk_argument = PointerGetDatum(members);
	}
	else if (from->strategy <= 0)
		key->sk_flags = SK_ISNULL | (from->strategy == 0 ? SK_SEARCHNULL : SK_SEARCHNOTNULL);
	else if (from->n >= 0)
	{
		TestArray  *array = palloc0(sizeof(TestArray));

		array->head.elemtype = INT8OID;
		array->n = from->n;
		array->elements = palloc0(4 * sizeof(Datum));
		array->nulls = palloc0(4 * sizeof(bool));
		for (int i = 0; i < from->n; i++)
		{
			array->elements[i] = Int64GetDatum(from->values[i]);
			array->nulls[i] = from->values[i] == SQL_NULL;
		}
		key->sk_flags = SK_SEARCHARRAY;
		key->sk_argument = PointerGetDatum(array);
	}
	else
	{
		key->sk_argument = Int64GetDatum(from->values[0]);
		key->sk_flags = from->values[0] == SQL_NULL ? SK_ISNULL : 0;
	}
}

/* What points and bounds leave. */
static bool
quals_admit(const LsmQuals *quals, const int64 *entry)
{
	StringInfoData row;
	bool		admits = true;

	if (quals->never)
		return false;
	initStringInfo(&row);
	for (int i = 0; i < FUZZ_COLUMNS; i++)
	{
		const LsmColumnQuals *column = &quals->columns[i];
		LsmSlice	code = encode(&key_spec.columns[i], Int16GetDatum((int16) entry[i]),
								  entry[i] == SQL_NULL);

		if (i >= quals->row_column && quals->row_column >= 0)
			append_bytes(&row, code.data, code.len);
		if (column->has_points)
			admits &= lsm_is_point(column, code);
		else
			admits &= lsm_code_within(column, code);
	}
	if (quals->row_lower.len > 0)
	{
		int			c = lsm_bound_compare(lsm_slice(row.data, row.len), quals->row_lower);

		admits &= c > 0 || (c == 0 && quals->row_lower_inclusive);
	}
	if (quals->row_upper.len > 0)
	{
		int			c = lsm_bound_compare(lsm_slice(row.data, row.len), quals->row_upper);

		admits &= c < 0 || (c == 0 && quals->row_upper_inclusive);
	}
	return admits;
}

/* Keys and some entries; false: an entry is lost, or one too many is admitted. */
static bool
keys_hold(void)
{
	LsmColumnQuals columns[FUZZ_COLUMNS];
	LsmQuals	quals = {.columns = columns};
	FuzzKey		from[4];
	ScanKeyData keys[4];
	int			n = 1 + below(4);

	memset(&key_spec, 0, sizeof(key_spec));
	key_spec.nkeys = FUZZ_COLUMNS;
	for (int i = 0; i < FUZZ_COLUMNS; i++)
	{
		parse_column("int2", &key_spec.columns[i]);
		key_spec.columns[i].descending = below(3) == 0;
		key_spec.columns[i].nulls_first = below(2) == 0;
	}
	for (int i = 0; i < n; i++)
	{
		random_key(&from[i]);
		make_scan_key(&from[i], &keys[i]);
	}
	lsm_quals_prepare(&quals, &key_spec, keys, n);
	for (int k = 0; k < 100; k++)
	{
		int64		entry[FUZZ_COLUMNS];
		bool		wanted = true;
		bool		admitted;

		for (int i = 0; i < FUZZ_COLUMNS; i++)
			entry[i] = below(8) == 0 ? SQL_NULL : (int64) below(9) - 4;
		for (int i = 0; i < n; i++)
			wanted &= sql_holds(&from[i], entry);
		admitted = quals_admit(&quals, entry);
		if (wanted ? !admitted : admitted && !quals.recheck)
		{
			printf("# (%lld, %lld, %lld) is %s by", (long long) entry[0], (long long) entry[1],
				   (long long) entry[2], wanted ? "lost" : "admitted");
			for (int i = 0; i < n; i++)
				printf(" [column %d strategy %d n %d row %d: %lld %lld %lld]", from[i].column,
					   from[i].strategy, from[i].n, from[i].row, (long long) from[i].values[0],
					   (long long) from[i].values[1], (long long) from[i].values[2]);
			printf("\n");
			return false;
		}
	}
	return true;
}

static void
fuzz_keys(void)
{
	int			rounds = getenv("LSM_UNIT_SHORT") != NULL ? 1000 : 5000;
	bool		good = true;

	seed = test_seed();
	for (int k = 0; k < rounds && good; k++)
	{
		MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "keys",
													  ALLOCSET_DEFAULT_SIZES);
		MemoryContext outer = MemoryContextSwitchTo(context);

		good = keys_hold();
		MemoryContextSwitchTo(outer);
		MemoryContextDelete(context);
	}
	ok(good, "scan keys leave the entries that SQL means");
}

#endif							/* KEYS_FUZZ_H */
