/*-------------------------------------------------------------------------
 *
 * collation.c
 *	  What collations do with strings, as far as the codes of strings depend on
 *	  it.
 *
 * A collation is judged by what it does, not by its name: C.UTF-8 of libc
 * compares bytes where its locale has no collation rules, and did not in older
 * libraries.
 *
 * ICU's sort keys are trusted to order as ICU's comparison does; PostgreSQL
 * relies on that for abbreviated keys and for hashes of strings.  libc's are
 * not: glibc's strxfrm() and strcoll() disagree on few strings in thousands.
 * But they agree on the first level.  strcoll() compares the primary weights of
 * two strings as sequences of bytes, and goes on to the next level only if they
 * are the same; strxfrm() writes the very sequence, up to the first byte 1,
 * which is in no weight.  Where they differ is in levels with backward weights
 * and in that which compares positions, of which localedef allows none in the
 * first.  Builds and lsm_verify() look whether that is true.
 *
 * And they agree on strings that have weights on the last level only: Hangul and
 * emoji in many locales, punctuation.  The levels before are empty for both, and
 * the last one is forward, with positions, in all sections.  There both compare,
 * one by one, how many characters without a weight came before, and the weights
 * of the one that has some; strxfrm() writes that number as UTF-8 does, and the
 * end is less than anything.  What the two call equal is in the order of bytes.
 * So for these strings all that strxfrm() writes is an order (weights_test).
 * Strings that have weights on levels between, accents alone, come behind them
 * and are one group.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <langinfo.h>
#include <locale.h>
#include <string.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif
#ifdef USE_ICU
#include <unicode/ucol.h>
#endif

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"
#include "utils/syscache.h"

#include "index/index.h"

/* Is it a library whose strcoll() and strxfrm() are known? */
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 28)
#define LIBC_IS_KNOWN	true
#else
#define LIBC_IS_KNOWN	false
#endif

/*
 * strcoll() of glibc compares bytes in a locale without collation rules.  The
 * item is a word, of which only the low half is set.
 */
static bool
libc_compares_bytes(pg_locale_t locale)
{
#ifdef __GLIBC__
	const char *rules = locale == NULL ? nl_langinfo(_NL_COLLATE_NRULES) :
		nl_langinfo_l(_NL_COLLATE_NRULES, lsm_locale_libc(locale));

	return (uint32) (uintptr_t) rules == 0;
#else
	return false;
#endif
}

/* As pg_newlocale_from_collation() asks for it */
static bool
libc_has_locale(const char *collate, const char *ctype)
{
	locale_t	half = newlocale(LC_COLLATE_MASK, collate, (locale_t) 0);
	locale_t	whole;

	if (half == (locale_t) 0)
		return false;
	whole = newlocale(LC_CTYPE_MASK, ctype, half);
	freelocale(whole != (locale_t) 0 ? whole : half);
	return whole != (locale_t) 0;
}

static char *
collation_name(HeapTuple tuple, AttrNumber attribute)
{
	bool		isnull;
	Datum		name = SysCacheGetAttr(COLLOID, tuple, attribute, &isnull);

	return isnull ? pstrdup("") : TextDatumGetCString(name);
}

static bool
look_for_locale(Oid collation)
{
	HeapTuple	tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	bool		found = true;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);

	/* ICU takes any name; of the default collation the server has asked */
	if (((Form_pg_collation) GETSTRUCT(tuple))->collprovider == COLLPROVIDER_LIBC)
	{
		char	   *collate = collation_name(tuple, Anum_pg_collation_collcollate);
		char	   *ctype = collation_name(tuple, Anum_pg_collation_collctype);

		found = libc_has_locale(collate, ctype);
		pfree(collate);
		pfree(ctype);
	}
	ReleaseSysCache(tuple);
	return found;
}

/* What was found is remembered, as PostgreSQL remembers the locale. */
bool
lsm_collation_is_there(Oid collation)
{
	static List *found = NIL;
	MemoryContext old;

	if (collation == DEFAULT_COLLATION_OID || collation == C_COLLATION_OID ||
		list_member_oid(found, collation))
		return true;
	if (!look_for_locale(collation))
		return false;
	old = MemoryContextSwitchTo(TopMemoryContext);
	found = lappend_oid(found, collation);
	MemoryContextSwitchTo(old);
	return true;
}

LsmCollationKind
lsm_collation_kind(Oid collation)
{
	pg_locale_t locale;

	if (!OidIsValid(collation) || !lsm_collation_is_there(collation))
		return LSM_COLLATION_OTHER;
	if (lsm_collation_is_c(collation))
		return LSM_COLLATION_BYTES;
	locale = pg_newlocale_from_collation(collation);

	/* NULL: the process's own locale, before PostgreSQL 18 */
	if (locale == NULL || lsm_locale_provider(locale, collation) == COLLPROVIDER_LIBC)
	{
		if (libc_compares_bytes(locale))
			return LSM_COLLATION_BYTES;
		return LIBC_IS_KNOWN && get_collation_isdeterministic(collation) ?
			LSM_COLLATION_LIBC : LSM_COLLATION_OTHER;
	}
#ifdef USE_ICU
	if (lsm_locale_provider(locale, collation) == COLLPROVIDER_ICU)
		return get_collation_isdeterministic(collation) ?
			LSM_COLLATION_ICU : LSM_COLLATION_ICU_NONDETERMINISTIC;
#endif
	return LSM_COLLATION_OTHER;
}

bool
lsm_collation_makes(Oid collation, LsmStrings strings)
{
	LsmCollationKind kind = lsm_collation_kind(collation);

	switch (strings)
	{
		case LSM_STRINGS_PRIMARY_AND_BYTES:
		case LSM_STRINGS_WEIGHTS_AND_BYTES:
			return kind == LSM_COLLATION_LIBC;
		case LSM_STRINGS_KEY_AND_BYTES:
			return kind == LSM_COLLATION_ICU;
		case LSM_STRINGS_KEY:
			return kind == LSM_COLLATION_ICU_NONDETERMINISTIC;
		default:
			return kind != LSM_COLLATION_ICU_NONDETERMINISTIC;
	}
}

/*
 * The locale to make sort keys with.  It stays as long as the process.
 */
struct pg_locale_struct *
lsm_collation_locale(Oid collation)
{
	return pg_newlocale_from_collation(collation);
}

/* Sort keys of most strings fit into this. */
#define SHORT_KEY_BYTES	512

/* ---- libc ---- */

static size_t
transform(pg_locale_t locale, const char *data, char *key, size_t room)
{
	return locale == NULL ? strxfrm(key, data, room) :
		strxfrm_l(key, data, room, lsm_locale_libc(locale));
}

/*
 * What of strxfrm()'s key says where the string is; the length of the key's
 * beginning, or a constant in *key.
 */
static int
weights_of(LsmStrings strings, const char **key, size_t bytes)
{
	static const char primary_end[] = {LSM_WEIGHTS_SEPARATOR, '\0'};
	static const char between[] = {LSM_WEIGHTS_SEPARATOR, LSM_WEIGHTS_SEPARATOR + 1};

	if (bytes == 0 || (*key)[0] != LSM_WEIGHTS_SEPARATOR ||
		strings != LSM_STRINGS_WEIGHTS_AND_BYTES)
		return (int) strcspn(*key, primary_end);
	if (bytes >= 2 && (*key)[1] == LSM_WEIGHTS_SEPARATOR &&
		(bytes == 2 || (*key)[2] == LSM_WEIGHTS_SEPARATOR))
		return (int) bytes;
	*key = between;
	return sizeof(between);
}

/*
 * Call `put` with the string's primary weights, or, as far as there are none
 * and `strings` say so, with what says where it is among those.
 */
void
lsm_collation_put_weights(struct pg_locale_struct *locale, LsmStrings strings,
						  const char *data, int len, StringInfo out,
						  void (*put) (StringInfo out, const char *data, int len))
{
	char		space[SHORT_KEY_BYTES];
	char		short_string[SHORT_KEY_BYTES / 4];
	char	   *string = len < sizeof(short_string) ? short_string : palloc(len + 1);
	char	   *key = space;
	const char *weights;
	int			nweights;
	size_t		bytes;

	memcpy(string, data, len);
	string[len] = '\0';
	bytes = transform(locale, string, space, sizeof(space));
	if (bytes >= sizeof(space))
	{
		size_t		room = bytes + 1;

		key = MemoryContextAllocHuge(CurrentMemoryContext, room);
		bytes = transform(locale, string, key, room);
		if (bytes >= room)
			elog(ERROR, "strxfrm() returned %zu and %zu for one string", room - 1, bytes);
	}
	weights = key;
	nweights = weights_of(strings, &weights, bytes);
	put(out, weights, nweights);
	if (key != space)
		pfree(key);
	if (string != short_string)
		pfree(string);
}

/* ---- ICU ---- */

#ifdef USE_ICU

#ifdef LSM_HAVE_STRNXFRM

/* Bytes of the sort key, of which as many as fit are in `key` */
static size_t
make_sort_key(pg_locale_t locale, const char *data, int len, char *key, size_t room)
{
	return pg_strnxfrm(key, room, data, len, locale);
}

#else

static size_t
make_sort_key(pg_locale_t locale, const char *data, int len, char *key, size_t room)
{
	UChar	   *chars;
	int32_t		nchars = icu_to_uchar(&chars, data, len);
	int32_t		bytes = ucol_getSortKey(lsm_locale_ucol(locale), chars, nchars,
										(uint8_t *) key, room);

	pfree(chars);
	if (bytes < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not make a collation key of a string")));
	return bytes - 1;			/* ICU counts the zero at the end */
}

#endif

/*
 * Call `put` with the string's sort key, which has no zero at its end.
 */
void
lsm_collation_put_sort_key(struct pg_locale_struct *locale, const char *data, int len,
						   StringInfo out,
						   void (*put) (StringInfo out, const char *data, int len))
{
	char		space[SHORT_KEY_BYTES];
	size_t		bytes = make_sort_key(locale, data, len, space, sizeof(space));

	if (bytes < sizeof(space))
		put(out, space, (int) bytes);
	else
	{
		char	   *key = palloc(bytes + 1);

		bytes = make_sort_key(locale, data, len, key, bytes + 1);
		put(out, key, (int) bytes);
		pfree(key);
	}
}

static uint32
icu_version(Oid collation)
{
	UVersionInfo version;

	ucol_getVersion(lsm_locale_ucol(pg_newlocale_from_collation(collation)), version);
	return DatumGetUInt32(hash_any((unsigned char *) version, sizeof(version)));
}

#else

void
lsm_collation_put_sort_key(struct pg_locale_struct *locale, const char *data, int len,
						   StringInfo out,
						   void (*put) (StringInfo out, const char *data, int len))
{
	elog(ERROR, "ICU is not supported in this build");
}

static uint32
icu_version(Oid collation)
{
	return 0;
}

#endif

/* ---- both ---- */

/* PostgreSQL, too, has no other version of a collation of libc than the library's. */
uint32
lsm_collation_version(Oid collation, LsmStrings strings)
{
#ifdef __GLIBC__
	if (lsm_strings_are_libc(strings))
	{
		const char *version = gnu_get_libc_version();

		return DatumGetUInt32(hash_any((const unsigned char *) version, strlen(version)));
	}
#endif
	return icu_version(collation);
}
