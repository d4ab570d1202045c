/*-------------------------------------------------------------------------
 *
 * keys_tids.h
 *	  TIDs of rows and of their versions (row_tid.h, am.h), for keys_test.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KEYS_TIDS_H
#define KEYS_TIDS_H

#include "table/table.h"

/* Versions that differ in the bits that a TID shows */
#define SHOWN_VERSIONS	(1 << LSM_VERSION_BITS)

/* One version of the row: what its TIDs say, packed or not, and PostgreSQL. */
static bool
version_tid_is_good(uint64 row, uint32 version)
{
	uint64		packed = lsm_tid_of(row, version);
	ItemPointerData row_tid;
	ItemPointerData tid;
	ItemPointerData back;

	lsm_tid_unpack(row, &row_tid);
	lsm_tid_unpack(packed, &tid);
	lsm_row_tid(&tid, &back);
	return lsm_tid_row(packed) == row && lsm_tid_row(row) == row &&
		lsm_tid_version(packed) == version % SHOWN_VERSIONS &&
		lsm_tid_offset(packed) == (row & 0xFFFF) &&
		lsm_tid_number(packed) == lsm_tid_number(row) &&
		lsm_tid_pack(&tid) == packed && lsm_tid_pack(&back) == row &&
		lsm_is_row_tid(&back) && lsm_is_row_tid(&tid) == (version % SHOWN_VERSIONS == 0) &&
		lsm_same_row(&tid, &row_tid) && ItemPointerIsValid(&tid) &&
		ItemPointerGetOffsetNumber(&tid) != SpecTokenOffsetNumber &&
		ItemPointerGetOffsetNumber(&tid) != MovedPartitionsOffsetNumber;
}

/* A version of another row is never taken for one of this. */
static bool
rows_differ(uint64 a, uint64 b)
{
	ItemPointerData a_tid;
	ItemPointerData b_tid;

	lsm_tid_unpack(a, &a_tid);
	lsm_tid_unpack(b, &b_tid);
	return !lsm_same_row(&a_tid, &b_tid) && lsm_tid_row(a) != lsm_tid_row(b);
}

static void
check_tids(void)
{
	static const uint64 blocks[] = {0, 1, 77777, (uint64) MaxBlockNumber - 1};
	bool		good = true;
	bool		ascend = true;
	bool		differ = true;
	char		code[LSM_TID_BYTES];
	StringInfoData key;
	ItemPointerData tid;

	for (int b = 0; b < lengthof(blocks); b++)
	{
		uint64		first = blocks[b] * LSM_TID_OFFSETS;

		for (uint64 number = first; number < first + LSM_TID_OFFSETS; number++)
		{
			uint64		row = lsm_number_pack(number);
			uint32		other = (uint32) ((number * 7 + 3) % SHOWN_VERSIONS);

			good = good && lsm_tid_number(row) == number;
			for (uint32 version = 0; version < SHOWN_VERSIONS; version++)
			{
				good = good && version_tid_is_good(row, version) &&
					version_tid_is_good(row, version + SHOWN_VERSIONS) &&
					version_tid_is_good(row, version - SHOWN_VERSIONS);
				differ = differ && rows_differ(lsm_tid_of(row, version),
											   lsm_tid_of(lsm_number_pack(number + 1), other));
			}
			/* all versions of a block lie between its rows and the next block's */
			ascend = ascend && lsm_tid_of(row, SHOWN_VERSIONS - 1) < (blocks[b] + 1) << 16;
		}
	}
	ok(good, "a version's TID tells its row and its number");
	ok(differ, "versions of two rows are told apart");
	ok(ascend, "a block's versions are before the next block");

	lsm_tid_unpack(lsm_tid_of(lsm_number_pack(1000), 1), &tid);
	lsm_row_tid(&tid, &tid);
	initStringInfo(&key);
	lsm_encode_tid(&tid, &key);
	lsm_key_encode(lsm_number_pack(1000), code);
	ok(key.len == LSM_TID_BYTES && memcmp(key.data, code, LSM_TID_BYTES) == 0,
	   "an index and the table encode a row alike");
}

#endif							/* KEYS_TIDS_H */
