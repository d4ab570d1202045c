/*-------------------------------------------------------------------------
 *
 * rules.c
 *	  The rules by which the keys of one index were made (LsmKeyRules, in its
 *	  metapage), and the versions of collations that went into them.
 *
 * What was read of them once is in rd_amcache, and so is which leading columns
 * filters know (leading.c), which depends on them.  No locks but that of the
 * metapage while it is read; the caller has the index open and locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/xlog.h"
#include "common/hashfn.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "index/compose.h"

/* Of an index with row types the upper half of LsmKeyRules.collations is theirs. */
#define ROW_TYPES_SHIFT		16

/* In rd_amcache */
typedef struct IndexCache
{
	bool		has_rules;
	bool		has_leading;
	LsmKeyRules rules;
	uint64		leading;
} IndexCache;

static IndexCache *
index_cache(Relation index)
{
	if (index->rd_amcache == NULL)
		index->rd_amcache = MemoryContextAllocZero(index->rd_indexcxt, sizeof(IndexCache));
	return index->rd_amcache;
}

/* What was read of the rules, or NULL */
static LsmKeyRules *
known_rules(Relation index)
{
	IndexCache *cache = index->rd_amcache;

	return cache != NULL && cache->has_rules ? &cache->rules : NULL;
}

uint64
lsm_leading_known(Relation index, int filter_columns)
{
	IndexCache *cache = index->rd_amcache;

	if (cache == NULL || !cache->has_leading)
	{
		uint64		leading = lsm_leading_word(index, filter_columns);

		/* reading the catalogs may have emptied the cache */
		cache = index_cache(index);
		cache->leading = leading;
		cache->has_leading = true;
	}
	return cache->leading;
}

/* False: nothing of the column is composed. */
static bool
composed_spec(Relation index, int column, LsmColumnSpec *spec)
{
	Oid			culprit;

	memset(spec, 0, sizeof(LsmColumnSpec));
	return lsm_type_is_composed(lsm_class_column_type(index->rd_opfamily[column],
													  index->rd_opcintype[column])) &&
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
 * A digest of the versions of the collations whose sort keys or weights are in
 * an index that was made by these rules; 0: there are none.
 */
static uint32
collations_digest(Relation index, uint32 rules)
{
	uint32		digest = 0;

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		LsmColumnSpec composed;
		Oid			collation = index->rd_indcollation[i];
		LsmStrings	strings = lsm_strings_of(lsm_class_code_type(index->rd_opfamily[i],
																   index->rd_opcintype[i]),
											 collation, index_getprocid(index, i + 1, 1), rules);

		if (composed_spec(index, i, &composed))
		{
			uint32		parts = lsm_compose_collations(&composed);

			if (parts == 0)
				continue;
			digest = hash_combine(digest, parts);
		}
		else if (strings == LSM_STRINGS_BYTES)
			continue;
		else
			digest = hash_combine(digest, lsm_collation_version(collation, strings));
		if (digest == 0)
			digest = 1;
	}
	return digest;
}

/* What LsmKeyRules.collations is if the index is built now */
static uint32
rules_digest(Relation index, uint32 rules)
{
	uint32		collations = collations_digest(index, rules);
	uint32		row_types;

	if (!row_types_digest(index, &row_types))
		return collations;
	if (collations != 0)
		collations = Max((collations >> ROW_TYPES_SHIFT) ^ (collations & 0xFFFF), 1);
	return row_types << ROW_TYPES_SHIFT | collations;
}

static void
warn_of_collations(Relation index)
{
	ereport(WARNING,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" was built with another version of a collation",
					RelationGetRelationName(index)),
			 errdetail("Strings may have been in another order then, or equal to others."),
			 errhint("Rebuild the index with REINDEX.")));
}

uint32
lsm_index_rules(Relation index)
{
	LsmKeyRules *known = known_rules(index);
	IndexCache *cache;
	LsmKeyRules rules;

	if (known != NULL)
		return known->version;

	/* without storage of its own, or none that can be read */
	if (!RELKIND_HAS_STORAGE(index->rd_rel->relkind) || RELATION_IS_OTHER_TEMP(index) ||
		(RecoveryInProgress() && !RelationIsPermanent(index)))
		return LSM_KEY_RULES_CURRENT;
	lsm_tree_key_rules(lsm_tree_open(index, LSM_KIND_INDEX, NULL), &rules);
	if (rules.version > LSM_KEY_RULES_CURRENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" was built by a newer version of lsmam",
						RelationGetRelationName(index)),
				 errhint("Rebuild the index with REINDEX.")));
	cache = index_cache(index);
	cache->rules = rules;
	cache->has_rules = true;
	if (lsm_index_collations_changed(index))
		warn_of_collations(index);
	return rules.version;
}

bool
lsm_index_collations_changed(Relation index)
{
	const LsmKeyRules *cached;
	LsmKeyRules known;
	uint32		row_types;

	(void) lsm_index_rules(index);
	cached = known_rules(index);
	if (cached == NULL || cached->collations == 0)
		return false;
	known = *cached;			/* reading catalogs may empty the cache */
	if (row_types_digest(index, &row_types))
		return (known.collations & 0xFFFF) != 0 &&
			(known.collations & 0xFFFF) != (rules_digest(index, known.version) & 0xFFFF);
	return known.collations != collations_digest(index, known.version);
}

bool
lsm_row_types_changed(Relation index)
{
	LsmKeyRules *known;
	uint32		row_types;

	if (!row_types_digest(index, &row_types))
		return false;
	(void) lsm_index_rules(index);
	known = known_rules(index);
	return known != NULL && known->collations >> ROW_TYPES_SHIFT != row_types;
}

void
lsm_index_new_rules(Relation index, LsmKeyRules *rules)
{
	if (index->rd_amcache != NULL)
		pfree(index->rd_amcache);
	index->rd_amcache = NULL;
	rules->version = LSM_KEY_RULES_CURRENT;
	rules->collations = rules_digest(index, rules->version);
}
