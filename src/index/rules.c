/*-------------------------------------------------------------------------
 *
 * rules.c
 *	  How the keys of one index were made (LsmKeyMaking, in its metapage), and
 *	  whether they are made so now.
 *
 * What a collation makes of a string is nobody's promise: it comes from the C
 * library, its locales' data, or ICU.  Where it has changed, keys that are in
 * the index are not found by those that are made now.  So an index says what
 * the codes of its columns consist of, of which versions the collations were,
 * and what they made of a sample of strings.  With a difference it is no index:
 * to the planner it does not exist, for the others it is an error, until it is
 * built anew.  Codes that consist of bytes alone depend on nothing, and go on
 * to serve equality if the collation has got rules.
 *
 * What was read once is in rd_amcache.  No locks but that of the metapage while
 * it is read; the caller has the index open and locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/xlog.h"
#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "index/compose.h"
#include "index/rules.h"

StaticAssertDecl(INDEX_MAX_KEYS <= LSM_KEY_COLUMNS,
				 "the metapage must have room for each column's layout");

/* Of an index with row types the upper half of LsmKeyRules.collations is theirs. */
#define ROW_TYPES_SHIFT		16

LsmIndexCache *
lsm_index_cache(Relation index)
{
	if (index->rd_amcache == NULL)
		index->rd_amcache = MemoryContextAllocZero(index->rd_indexcxt, sizeof(LsmIndexCache));
	return index->rd_amcache;
}

/* False: it has no storage of its own, or none that can be read. */
static bool
read_making(Relation index, LsmKeyMaking *making)
{
	LsmIndexCache *cache = index->rd_amcache;

	if (cache == NULL || !cache->has_making)
	{
		if (!RELKIND_HAS_STORAGE(index->rd_rel->relkind) || RELATION_IS_OTHER_TEMP(index) ||
			(RecoveryInProgress() && !RelationIsPermanent(index)))
			return false;
		lsm_tree_key_making(lsm_tree_open(index, LSM_KIND_INDEX, NULL), making);
		cache = lsm_index_cache(index);
		cache->making = *making;
		cache->has_making = true;
	}
	*making = cache->making;
	return true;
}

/* ======================================================================
 * Composed columns
 * ====================================================================== */

static bool
column_is_composed(Relation index, int column)
{
	return lsm_type_is_composed(lsm_class_column_type(index->rd_opfamily[column],
													  index->rd_opcintype[column]));
}

/* False: nothing of the column is composed, or a part has no codes any more. */
static bool
composed_spec(Relation index, int column, LsmColumnSpec *spec)
{
	Oid			culprit;

	memset(spec, 0, sizeof(LsmColumnSpec));
	return column_is_composed(index, column) &&
		lsm_compose_spec(index->rd_opfamily[column], index->rd_opcintype[column],
						 TupleDescAttr(RelationGetDescr(index), column)->atttypid,
						 index->rd_indcollation[column], spec, &culprit);
}

/*
 * A digest of the columns that the row types in the index have lost; false:
 * there are no row types.
 */
static bool
row_types_digest(Relation index, uint32 *digest)
{
	bool		found = false;

	*digest = 0;
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		LsmColumnSpec spec;

		if (composed_spec(index, i, &spec))
			found |= lsm_compose_dropped(&spec, digest);
	}
	*digest &= 0xFFFF;
	return found;
}

/*
 * Rows that are older than a column have its value where ALTER TABLE has noted
 * one, but their codes in the index of a whole row do not.  (Some releases of
 * PostgreSQL refuse that.)
 */
static bool
row_types_have_grown(Relation index, const LsmKeyOrigin *origin)
{
	LsmColumnSpec spec;

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		if (origin->row_columns[i] > 0 && composed_spec(index, i, &spec) &&
			lsm_compose_row_has_grown(&spec, origin->row_columns[i]))
			return true;
	return false;
}

bool
lsm_row_types_changed(Relation index)
{
	LsmKeyMaking making;
	uint32		row_types;

	return row_types_digest(index, &row_types) && read_making(index, &making) &&
		(making.rules.collations >> ROW_TYPES_SHIFT != row_types ||
		 row_types_have_grown(index, &making.origin));
}

/* ======================================================================
 * Layouts of columns
 * ====================================================================== */

static bool
strings_vary(Relation index, int column)
{
	return lsm_strings_vary(lsm_class_code_type(index->rd_opfamily[column],
												index->rd_opcintype[column]),
							index->rd_indcollation[column],
							index_getprocid(index, column + 1, LSM_PROC_COMPARE));
}

/* Of strings of the column, if it is built by these rules now */
static LsmStrings
strings_by_rules(Relation index, int column, uint32 rules)
{
	return lsm_strings_of(lsm_class_code_type(index->rd_opfamily[column],
											  index->rd_opcintype[column]),
						  index->rd_indcollation[column],
						  index_getprocid(index, column + 1, LSM_PROC_COMPARE), rules);
}

/* See index.h. */
List *
lsm_index_row_types(Relation index)
{
	List	   *all = NIL;

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		LsmColumnSpec spec;

		if (composed_spec(index, i, &spec))
			all = list_concat(all, lsm_compose_row_types(&spec));
	}
	return all;
}

/* The part of LsmKeyRules.collations that is about collations */
static uint32
collations_part(Relation index, uint32 collations)
{
	uint32		row_types;

	if (collations == 0 || !row_types_digest(index, &row_types))
		return collations;
	return collations & 0xFFFF;
}

/*
 * An older build has noted no layouts, but a version if there is a collation
 * that makes more than bytes.
 */
static LsmStrings
strings_of_old(Relation index, int column, const LsmKeyRules *rules)
{
	LsmStrings	strings = strings_by_rules(index, column, rules->version);

	return strings == LSM_STRINGS_BYTES || collations_part(index, rules->collations) == 0 ?
		LSM_STRINGS_BYTES : strings;
}

bool
lsm_index_strings(Relation index, int column, LsmStrings *strings)
{
	LsmKeyMaking making;
	uint8		layout;

	*strings = LSM_STRINGS_BYTES;
	if (!strings_vary(index, column))
		return true;
	if (!read_making(index, &making))
	{
		*strings = strings_by_rules(index, column, LSM_KEY_RULES_CURRENT);
		return true;
	}
	if (making.rules.version > LSM_KEY_RULES_CURRENT)
		return false;
	if (making.origin.known == 0)
	{
		*strings = strings_of_old(index, column, &making.rules);
		return true;
	}
	layout = making.origin.layouts[column];
	if (layout == 0 || layout > LSM_STRINGS_KEY + 1)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the metapage of index \"%s\" has no layout of column %d",
						RelationGetRelationName(index), column + 1)));
	*strings = layout - 1;
	return true;
}

/* ======================================================================
 * Digests of collations
 * ====================================================================== */

/*
 * Those that the codes of the column depend on, but for their bytes.  `strings`:
 * the layout of a column that is not composed.
 */
static LsmCollations
column_collations(Relation index, int column, LsmStrings strings)
{
	LsmCollations all = {0};
	LsmColumnSpec composed;

	if (composed_spec(index, column, &composed))
		lsm_compose_collations(&composed, &all);
	else if (strings != LSM_STRINGS_BYTES)
		lsm_collations_add(&all, index->rd_indcollation[column], strings, false);
	return all;
}

/*
 * Of versions, as older builds have it: of a composed column only the greatest
 * hash counts, and support functions do not.
 */
static uint32
old_versions(Relation index, const LsmStrings *strings)
{
	uint32		digest = 0;

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		LsmCollations all = column_collations(index, i, strings[i]);
		uint32		greatest = 0;

		for (int k = 0; k < all.n; k++)
		{
			const LsmCollationUse *use = &all.uses[k];

			if (!use->by_function)
				greatest = Max(greatest, lsm_collation_version(use->collation, use->strings));
		}
		if (greatest == 0)
			continue;
		digest = hash_combine(digest, greatest);
		if (digest == 0)
			digest = 1;
	}
	return digest;
}

static int
compare_words(const void *a, const void *b)
{
	uint32		x = *(const uint32 *) a;
	uint32		y = *(const uint32 *) b;

	return x < y ? -1 : x > y;
}

/*
 * Add a column's set, whatever order it was met in.  A collation that another
 * one behaves like counts once.
 */
static uint32
combine_set(uint32 digest, uint32 *facts, int n)
{
	qsort(facts, n, sizeof(uint32), compare_words);
	for (int k = 0; k < n; k++)
		if (k == 0 || facts[k] != facts[k - 1])
			digest = hash_combine(digest, facts[k]);
	return n > 0 && digest == 0 ? 1 : digest;
}

/*
 * Of what `fact` says of the index's collations, in columns of these layouts;
 * 0: there are none.
 */
static uint32
digest_collations(Relation index, const LsmStrings *strings,
				  uint32 (*fact) (Oid collation, LsmStrings strings))
{
	uint32		digest = 0;

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		LsmCollations all = column_collations(index, i, strings[i]);
		uint32	   *facts = palloc(sizeof(uint32) * (all.n + 1));

		for (int k = 0; k < all.n; k++)
			facts[k] = fact(all.uses[k].collation, all.uses[k].strings);
		digest = combine_set(digest, facts, all.n);
	}
	return digest;
}

/* Of the support functions that codes of the index's columns are made by; 0: none */
static uint32
digest_functions(Relation index)
{
	uint32		digest = 0;

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		int			function = lsm_class_function(index->rd_opfamily[i], index->rd_opcintype[i]);
		LsmColumnSpec composed;
		List	   *all;
		uint32	   *facts;

		if (composed_spec(index, i, &composed))
			all = lsm_compose_functions(&composed);
		else
			all = function == 0 ? NIL : list_make1_int(function);
		facts = palloc(sizeof(uint32) * (list_length(all) + 1));
		for (int k = 0; k < list_length(all); k++)
			facts[k] = (uint32) list_nth_int(all, k);
		digest = combine_set(digest, facts, list_length(all));
	}
	return digest;
}

/* As LsmKeyRules.collations has it, row types included */
static uint32
fold_versions(Relation index, uint32 versions)
{
	uint32		row_types;

	if (!row_types_digest(index, &row_types))
		return versions;
	if (versions != 0)
		versions = Max((versions >> ROW_TYPES_SHIFT) ^ (versions & 0xFFFF), 1);
	return row_types << ROW_TYPES_SHIFT | versions;
}

void
lsm_index_new_making(Relation index, LsmKeyMaking *making)
{
	LsmStrings	strings[INDEX_MAX_KEYS];

	if (index->rd_amcache != NULL)
		pfree(index->rd_amcache);
	index->rd_amcache = NULL;
	memset(making, 0, sizeof(LsmKeyMaking));
	making->rules.version = LSM_KEY_RULES_CURRENT;
	making->origin.known = LSM_KEY_ORIGIN_CURRENT;
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		LsmColumnSpec composed;

		strings[i] = strings_by_rules(index, i, LSM_KEY_RULES_CURRENT);
		making->origin.layouts[i] = strings[i] + 1;
		if (composed_spec(index, i, &composed))
			making->origin.row_columns[i] = lsm_compose_row_columns(&composed);
	}
	making->origin.functions = digest_functions(index);
	making->origin.sample = digest_collations(index, strings, lsm_collation_sample);
	making->rules.collations =
		fold_versions(index, digest_collations(index, strings, lsm_collation_version));
}

/* ======================================================================
 * Is it as it was?
 * ====================================================================== */

/*
 * The first of the columns' collations whose locale is not installed, or
 * InvalidOid.  What is composed of strings under a collation of libc has their
 * bytes, and needs no locale.
 */
static Oid
collation_not_there(Relation index)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		if (!column_is_composed(index, i) && strings_vary(index, i) &&
			!lsm_collation_is_there(index->rd_indcollation[i]))
			return index->rd_indcollation[i];
	return InvalidOid;
}

void
lsm_index_require_locales(Relation index)
{
	Oid			collation = collation_not_there(index);

	if (OidIsValid(collation))
		(void) lsm_collation_locale(collation); /* PostgreSQL says what is missing */
}

static LsmMismatch
find_mismatch(Relation index, const LsmKeyMaking *making)
{
	LsmStrings	strings[INDEX_MAX_KEYS];
	LsmColumnSpec composed;
	uint32		versions;

	/*
	 * An index of a newer build, or with types that are not what they were:
	 * keyspec.c says so, and the set of collations may be another one with
	 * them.
	 */
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		if (column_is_composed(index, i) && !composed_spec(index, i, &composed))
			return LSM_MISMATCH_UNKNOWN;
	if (making->origin.known >= 2 && making->origin.functions != digest_functions(index))
		return LSM_MISMATCH_FUNCTIONS;
	if (lsm_row_types_changed(index))
		return LSM_MISMATCH_UNKNOWN;
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		if (!lsm_index_strings(index, i, &strings[i]))
			return LSM_MISMATCH_UNKNOWN;
		if (!column_is_composed(index, i) &&
			!lsm_collation_makes(index->rd_indcollation[i], strings[i]))
			return LSM_MISMATCH_LAYOUT;
	}
	versions = making->origin.known == 0 ? old_versions(index, strings) :
		digest_collations(index, strings, lsm_collation_version);
	if (collations_part(index, making->rules.collations) !=
		collations_part(index, fold_versions(index, versions)))
		return LSM_MISMATCH_VERSION;
	if (making->origin.known != 0 &&
		making->origin.sample != digest_collations(index, strings, lsm_collation_sample))
		return LSM_MISMATCH_SAMPLE;
	return LSM_MISMATCH_NONE;
}

/*
 * ALTER TYPE of a row type tells the relcache of an index nothing, nor does its
 * rollback: what depends on such types is found out anew each time.
 */
static LsmMismatch
index_mismatch(Relation index)
{
	LsmIndexCache *cache = index->rd_amcache;
	uint64		classes_stamp = lsm_classes_stamp();
	LsmMismatch mismatch;
	LsmKeyMaking making;
	bool		settled;
	uint32		unused;
	MemoryContext context;
	MemoryContext old;

	if (likely(cache != NULL && cache->has_mismatch && cache->classes_stamp == classes_stamp))
		return cache->mismatch;

	/* it may be there after a promotion */
	if (!read_making(index, &making))
		return LSM_MISMATCH_NONE;
	context = AllocSetContextCreate(CurrentMemoryContext, "lsm_index making",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	mismatch = find_mismatch(index, &making);
	if (mismatch > LSM_MISMATCH_UNKNOWN && OidIsValid(collation_not_there(index)))
		mismatch = LSM_MISMATCH_NOT_THERE;
	settled = mismatch != LSM_MISMATCH_UNKNOWN && !row_types_digest(index, &unused);
	if (mismatch == LSM_MISMATCH_UNKNOWN)
		mismatch = LSM_MISMATCH_NONE;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (!settled)
		return mismatch;
	cache = lsm_index_cache(index);
	cache->mismatch = mismatch;
	cache->classes_stamp = classes_stamp;
	cache->has_mismatch = true;
	return mismatch;
}

bool
lsm_index_making_changed(Relation index)
{
	return index_mismatch(index) != LSM_MISMATCH_NONE;
}

static int
mismatch_detail(LsmMismatch mismatch)
{
	switch (mismatch)
	{
		case LSM_MISMATCH_NOT_THERE:
			return errdetail("The locale of the collation of one of its columns is not installed.");
		case LSM_MISMATCH_LAYOUT:
			return errdetail("The collation of one of its columns does not give strings the kind of keys any more that the index has.");
		case LSM_MISMATCH_VERSION:
			return errdetail("The C library or ICU has another version than when the index was built.");
		case LSM_MISMATCH_FUNCTIONS:
			return errdetail("Support function %d, %d, or %d was added to, or dropped from, the operator class of a column, or of what its type consists of.",
							 LSM_PROC_CODE, LSM_PROC_EQUALITY_CODE, LSM_PROC_NORMAL_TEXT);
		default:
			return errdetail("The C library or ICU gives strings other keys than when the index was built, or a row type in it has got a string under another collation.");
	}
}

static int
mismatch_hint(Relation index, LsmMismatch mismatch)
{
	if (mismatch == LSM_MISMATCH_NOT_THERE)
		return errhint("Install the locale on this system, and begin a new session.");
	return errhint("Rebuild the index: REINDEX INDEX %s.",
				   quote_qualified_identifier(get_namespace_name(RelationGetNamespace(index)),
											  RelationGetRelationName(index)));
}

static void
report_mismatch(int elevel, Relation index, LsmMismatch mismatch)
{
	ereport(elevel,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 mismatch == LSM_MISMATCH_FUNCTIONS ?
			 errmsg("index \"%s\" was built with other support functions",
					RelationGetRelationName(index)) :
			 errmsg("index \"%s\" was built with another version of a collation",
					RelationGetRelationName(index)),
			 mismatch_detail(mismatch),
			 mismatch_hint(index, mismatch)));
}

void
lsm_index_warn_of_making(Relation index)
{
	LsmMismatch mismatch = index_mismatch(index);

	if (mismatch == LSM_MISMATCH_NONE || lsm_index_cache(index)->warned)
		return;
	lsm_index_cache(index)->warned = true;
	report_mismatch(WARNING, index, mismatch);
}

void
lsm_index_require_making(Relation index)
{
	LsmMismatch mismatch = index_mismatch(index);

	if (unlikely(mismatch != LSM_MISMATCH_NONE))
		report_mismatch(ERROR, index, mismatch);
}

void
lsm_index_newer(Relation index)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("index \"%s\" was built by a newer version of lsmam",
					RelationGetRelationName(index)),
			 errhint("Rebuild the index with REINDEX.")));
}
