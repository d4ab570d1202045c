/*-------------------------------------------------------------------------
 *
 * collation_sample.c
 *	  What collations make of a sample of strings, as a digest.
 *
 * The version of a library does not tell that the data of a locale is another
 * one.  Weights of glibc are numbers in the order of all that the locale
 * orders: whatever comes in between shifts those behind it, and a sample from
 * all over the order notices.  ICU's are likewise dense within a script.
 *
 * The sample is fixed: its digests are on disk.  A string more is another
 * digest of all indexes.  It has each character of the scripts of which keys
 * are most often, some of every other one, and pairs of letters that locales
 * take for one.  Encodings other than UTF-8 have what they can say of it, and
 * what looks like characters of theirs.
 *
 * A process asks once for each collation.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "index/index.h"

typedef struct SampleKey
{
	Oid			collation;
	LsmStrings	strings;
} SampleKey;

typedef struct SampleEntry
{
	SampleKey	key;			/* hash key */
	uint32		digest;
} SampleEntry;

/* A sample that is being taken */
typedef struct Sample
{
	const SampleKey *key;
	struct pg_locale_struct *locale;
	StringInfoData codes;		/* not digested yet */
	uint64		digest;
} Sample;

#define DIGEST_BYTES	8192

/* Characters of UTF-8: every `step`th, `n` to a string */
static const struct
{
	pg_wchar	first;
	pg_wchar	last;
	int			step;
	int			n;
}			ranges[] = {
	{0x20, 0x17F, 1, 1},		/* Latin */
	{0x180, 0x24F, 1, 8},
	{0x250, 0x36F, 3, 8},		/* phonetic, combining marks */
	{0x370, 0x52F, 1, 8},		/* Greek, Cyrillic */
	{0x530, 0x7FF, 2, 8},		/* Armenian, Hebrew, Arabic */
	{0x900, 0xDFF, 7, 4},		/* India */
	{0xE00, 0xE5F, 1, 4},		/* Thai */
	{0xE80, 0x1DFF, 23, 4},
	{0x1E00, 0x1EFF, 1, 8},		/* Vietnamese */
	{0x1F00, 0x1FFF, 5, 8},
	{0x2000, 0x206F, 1, 4},		/* punctuation */
	{0x2070, 0x2FFF, 19, 4},	/* currencies, arrows, numbers */
	{0x3000, 0x30FF, 1, 8},		/* kana */
	{0x3100, 0x4DFF, 41, 4},
	{0x4E00, 0x9FFF, 53, 4},	/* Han */
	{0xA000, 0xABFF, 47, 4},
	{0xAC00, 0xD7A3, 61, 4},	/* Hangul */
	{0xE000, 0xF8FF, 97, 4},	/* private use */
	{0xF900, 0xFFFD, 29, 4},	/* compatibility */
	{0x10000, 0x1FFFF, 257, 4}, /* old scripts, emoji */
	{0x20000, 0x2FFFF, 1031, 4}
};

static const char *const words[] = {
	"key", "Key", "KEY", "key 7", "key-7", "key7", "key10", "na-me", "name", "co-op", "coop",
	"a", "A", "aa", "Aa", "AA", "aB", "Ab", "O'Neil", "d'Arc", "@home", "#1", "$9.50", "50%",
	"ae", "oe", "ss", "th", "ch", "Ch", "CH", "c'h", "cs", "ccs", "dz", "Dz", "dzs", "ddz",
	"gb", "gj", "gy", "ggy", "ij", "IJ", "lj", "ll", "Ll", "LL", "ly", "lly", "ng", "nj", "nh",
	"ny", "nny", "ph", "rh", "rr", "sh", "sz", "ssz", "tsz", "ty", "tty", "ub", "ue", "xh", "zh",
	"zs", "zzs", "v", "w", "y", "ya", "z", "-", " ", "!", "...", "", "2026-11-28", "1e10", "-1"
};

/* The same beyond ASCII */
static const char *const more_words[] = {
	"c\xc3\xb4t\xc3\xa9", "cot\xc3\xa9", "\xc3\xa9t\xc3\xa9", "e\xcc\x81t\xc3\xa9", "Stra\xc3\x9f" "e",
	"\xc3\x85ngstr\xc3\xb6m", "A\xcc\x8angstro\xcc\x88m", "\xc4\xb0stanbul", "\xc4\xb1", "\xc5\x81\xc3\xb3" "d\xc5\xba",
	"\xd0\x9c\xd0\xbe\xd1\x81\xd0\xba\xd0\xb2\xd0\xb0", "\xd0\xb8\xcc\x86", "\xce\x91\xce\xb8\xce\xae\xce\xbd\xce\xb1",
	"\xd7\xa9\xd6\xb8\xd7\x81\xd7\x9c\xd7\x95\xd6\xb9\xd7\x9d", "\xd8\xb3\xd9\x8e\xd9\x84\xd8\xa7\xd9\x85",
	"\xe0\xa4\xb9\xe0\xa4\xbf\xe0\xa4\xa8\xe0\xa5\x8d\xe0\xa4\xa6\xe0\xa5\x80", "\xe0\xa4\x95\xe0\xa4\xbc",
	"\xe0\xb9\x80\xe0\xb8\x81\xe0\xb9\x88\xe0\xb8\x87", "\xe0\xb9\x82\xe0\xb8\x97", "\xe0\xbb\x80\xe0\xba\x81",
	"\xe6\x9d\xb1\xe4\xba\xac", "\xe3\x81\x8b\xe3\x82\x99", "\xe3\x82\xab\xe3\x83\xbc", "\xe3\x82\xad\xe3\x83\xa7",
	"\xed\x95\x9c\xea\xb8\x80", "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xf0\x9f\x98\x80", "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa",
	"\xe2\x80\x8b", "\xc2\xad" "a", "a\xc2\xad", "\xe2\x82\xac 5", "\xef\xac\x81x", "\xe2\x85\xa3"
};

static void
digest_codes(Sample *sample)
{
	sample->digest = hash_bytes_extended((unsigned char *) sample->codes.data,
										 sample->codes.len, sample->digest);
	resetStringInfo(&sample->codes);
}

static void
take(Sample *sample, const char *data, int len)
{
	if (lsm_strings_are_libc(sample->key->strings))
		lsm_collation_put_weights(sample->locale, sample->key->strings, data, len,
								  &sample->codes, lsm_put_string);
	else
		lsm_collation_put_sort_key(sample->locale, data, len, &sample->codes, lsm_put_string);
	if (sample->codes.len > DIGEST_BYTES)
		digest_codes(sample);
}

/* ---- UTF-8 ---- */

static void
take_ranges(Sample *sample)
{
	for (int i = 0; i < lengthof(ranges); i++)
	{
		unsigned char string[8 * 4 + 1];
		int			n = 0;
		int			len = 0;

		for (pg_wchar c = ranges[i].first; c <= ranges[i].last; c += ranges[i].step)
		{
			unicode_to_utf8(c, string + len);
			len += pg_utf_mblen(string + len);
			if (++n < ranges[i].n && c + ranges[i].step <= ranges[i].last)
				continue;
			take(sample, (char *) string, len);
			n = len = 0;
		}
	}
}

/* ---- other encodings ---- */

/* Bytes that the encoding does not refuse, alone or as a pair */
static void
take_bytes(Sample *sample, int encoding)
{
	for (int high = 0x80; high <= 0xFF; high++)
	{
		char		string[2] = {high};

		if (pg_encoding_max_length(encoding) == 1)
		{
			take(sample, string, 1);
			continue;
		}
		for (int low = 0x21; low <= 0xFE; low += 5)
		{
			string[1] = low;
			if (pg_verify_mbstr(encoding, string, 2, true))
				take(sample, string, 2);
		}
	}
}

/* ---- all ---- */

static uint32
digest_sample(const SampleKey *key)
{
	int			encoding = GetDatabaseEncoding();
	Sample		sample = {.key = key,.locale = lsm_collation_locale(key->collation)};

	initStringInfo(&sample.codes);
	for (int i = 0; i < lengthof(words); i++)
		take(&sample, words[i], strlen(words[i]));
	if (encoding == PG_UTF8)
	{
		for (int i = 0; i < lengthof(more_words); i++)
			take(&sample, more_words[i], strlen(more_words[i]));
		take_ranges(&sample);
	}
	else
	{
		for (char c = ' '; c < 0x7F; c++)
			take(&sample, &c, 1);
		take_bytes(&sample, encoding);
	}
	digest_codes(&sample);
	pfree(sample.codes.data);
	return (uint32) (sample.digest ^ sample.digest >> 32);
}

uint32
lsm_collation_sample(Oid collation, LsmStrings strings)
{
	static HTAB *samples = NULL;
	SampleKey	key;
	SampleEntry *entry;
	uint32		digest;

	if (samples == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(SampleKey),.entrysize = sizeof(SampleEntry)};

		samples = hash_create("lsm collation samples", 16, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	memset(&key, 0, sizeof(key));
	key.collation = collation;
	key.strings = strings;
	entry = hash_search(samples, &key, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->digest;

	digest = digest_sample(&key);
	entry = hash_search(samples, &key, HASH_ENTER, NULL);
	entry->digest = digest;
	return digest;
}
