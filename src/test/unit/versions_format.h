/*-------------------------------------------------------------------------
 *
 * versions_format.h
 *	  Values of rows, byte by byte, for versions_test.c: those of builds of now
 *	  and before, and malformed ones.
 *
 *-------------------------------------------------------------------------
 */
#ifndef VERSIONS_FORMAT_H
#define VERSIONS_FORMAT_H

static void
test_format(void)
{
	static const uint16 flag_sets[] = {0, LSM_ROW_XMIN_COMMITTED, LSM_ROW_XMIN_FROZEN, LSM_ROW_STRONG,
									   LSM_ROW_HAS_XMAX | LSM_ROW_HAS_NEXT, LSM_ROW_KILLED};
	char		lockers[2 * LSM_LOCKER_BYTES];
	int			wrong = 0;
	int			values = 0;

	lsm_locker_put(lockers, 100, LockTupleShare);
	lsm_locker_put(lockers + LSM_LOCKER_BYTES, 101, LockTupleExclusive);
	for (int i = 0; i < lengthof(flag_sets) * 4 * 3 * 2; i++)
	{
		StringInfoData out;
		LsmRow		row;
		LsmRow		got;
		char		body[] = {1, 0, 'x', 'y', 'z', 'w'};
		int			kind = i / lengthof(flag_sets) % 3;
		int			version = i / lengthof(flag_sets) / 3 % 4;

		memset(&row, 0, sizeof(row));
		row.flags = flag_sets[i % lengthof(flag_sets)];
		row.xmin = row.flags & LSM_ROW_XMIN_FROZEN ? FrozenTransactionId : 1000;
		row.frozen_xmin = row.flags & LSM_ROW_XMIN_FROZEN ? 999 : InvalidTransactionId;
		row.cmin = i % 2;
		row.xmax = 1001;
		row.cmax = 3;
		lsm_tid_unpack(ROW, &row.next);
		row.version = version == 0 ? 0 : version == 3 ? PG_UINT32_MAX
													  : 1 << (9 * version);
		row.open = kind == 2;
		row.span = 200;
		row.kept = 60000;
		row.nlockers = i / lengthof(flag_sets) / 12 * 2;
		row.lockers = lockers;
		row.body = body;
		row.body_bytes = sizeof(body);
		initStringInfo(&out);
		lsm_row_encode(&out, &row, kind != 0);
		wrong += lsm_row_parse(lsm_slice(out.data, out.len), &got) != NULL ||
			out.len > LSM_ROW_HEADER_BYTES(row.nlockers) + row.body_bytes ||
			got.partial != (kind == 0) || got.open != row.open || got.version != row.version ||
			got.nlockers != row.nlockers || (got.flags & row.flags) != row.flags ||
			(!(row.flags & LSM_ROW_KILLED) && lsm_row_shown_xmin(&got) != lsm_row_shown_xmin(&row)) ||
			(kind == 2 && (got.span != row.span || got.kept != row.kept)) ||
			(kind != 0 && memcmp(got.body, body, sizeof(body)) != 0);
		for (int len = 0; len < out.len; len++)
		{
			char	   *cut = alloc_or_die(len);

			/* what is cut off inside the body is a shorter body */
			memcpy(cut, out.data, len);
			wrong += lsm_row_parse(lsm_slice(cut, len), &got) == NULL &&
				(kind == 0 || len < out.len - (int) sizeof(body) + 2);
			free(cut);
		}
		values++;
		pfree(out.data);
	}
	ok(wrong == 0, "%d values come back as they were, and are missed where they are cut off", values);
}

/*
 * Values as builds before those that write versions wrote them (format 5, and a
 * frozen row of format 4): they are first versions, and written the same now.
 */
static void
test_old_format(void)
{
	static const struct
	{
		const char *bytes;
		int			len;
	}			values[] = {
		/* PUT: xmin 0x01020304; cmin; committed; frozen, xmin kept; frozen */
		{"\001\000\000\004\003\002\001\001\000abcd", 13},
		{"\001\000\010\004\003\002\001\005\000\000\000\001\000abcd", 17},
		{"\001\001\000\004\003\002\001\001\000abcd", 13},
		{"\001\006\000\004\003\002\001\001\000abcd", 13},
		{"\001\002\000\001\000abcd", 9},
		/* PARTIAL: deleted by command 7; replaced at (5,7), updated itself; locked */
		{"\003\050\000\004\003\002\001\010\000\000\000\007\000\000\000", 15},
		{"\003\111\020\004\003\002\001\010\000\000\000\007\000\000\000\000\000\000\005\000\007", 21},
		{"\003\001\001\004\003\002\001\001\000\020\000\000\000\002", 14},
		/* speculative, token 9; killed */
		{"\001\000\002\004\003\002\001\011\000\000\000\001\000abcd", 17},
		{"\003\000\004", 3},
	};
	int			wrong = 0;

	for (int i = 0; i < lengthof(values); i++)
	{
		StringInfoData out;
		LsmRow		row;

		initStringInfo(&out);
		wrong += lsm_row_parse(lsm_slice(values[i].bytes, values[i].len), &row) != NULL ||
			row.version != 0 || row.open || row.partial != (values[i].bytes[0] == LSM_TAG_PARTIAL);
		lsm_row_encode(&out, &row, !row.partial);
		wrong += out.len != values[i].len || memcmp(out.data, values[i].bytes, out.len) != 0;
		if (wrong > 0)
			printf("# value %d\n", i);
		pfree(out.data);
	}
	ok(wrong == 0, "values of older builds are first versions, and written the same now");
}

/* text: the message that is expected */
static void
decode_malformed(const char *bytes, uint32 len, const char *text)
{
	LsmRow		row;
	uint64		tid;
	LsmVersions versions;
	bool		failed;
	char	   *copy = alloc_or_die(len);

	memcpy(copy, bytes, len);
	error_text[0] = '\0';
	CATCH(
		{
			lsm_versions_begin(&versions, &relation, ROW, lsm_slice(copy, len));
			while (lsm_versions_next(&versions, true, &row, &tid))
				;
		},
		failed);
	ok(failed && strstr(error_text, text) != NULL, "malformed: %s", text);
	if (!failed || strstr(error_text, text) == NULL)
		printf("# got: %s\n", error_text);
	free(copy);
}

static void
test_malformed(void)
{
	/* VERSION, number 0 */
	static const char open[] = "\004\002\040\0\0\0\0\0\0\0\001\0x";

	decode_malformed("\005", 1, "empty");
	decode_malformed("\005\002\004", 3, "malformed");
	decode_malformed("\005\003\003\002\000\003\003\002\000", 9, "malformed");
	decode_malformed("\003\002\000", 3, "lost its data");
	decode_malformed("\001\002\200\001\000", 5, "unknown flags");
	decode_malformed("\004\002\000\001\000", 5, "no number");
	decode_malformed("\001\002\040\0\0\0\0\001\000", 9, "version is 0");
	decode_malformed(open, 9, "kept of older versions");
	decode_malformed(open, 11, "row is cut off");
}

#endif							/* VERSIONS_FORMAT_H */
