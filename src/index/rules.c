/*-------------------------------------------------------------------------
 *
 * rules.c
 *	  The rules by which the keys of one index were made (LsmKeyRules, in its
 *	  metapage), and the versions of collations that went into them.
 *
 * What was read of them once is in rd_amcache.  No locks but that of the
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

#include "index/index.h"

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
		Oid			collation = index->rd_indcollation[i];
		LsmStrings	strings = lsm_strings_of(index->rd_opcintype[i], collation,
											 index_getprocid(index, i + 1, 1), rules);

		if (strings == LSM_STRINGS_BYTES)
			continue;
		digest = hash_combine(digest, lsm_collation_version(collation, strings));
		if (digest == 0)
			digest = 1;
	}
	return digest;
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
	LsmKeyRules *known = index->rd_amcache;
	LsmKeyRules rules;

	if (known != NULL)
		return known->version;

	/* without storage of its own, or none that can be read */
	if (!RELKIND_HAS_STORAGE(index->rd_rel->relkind) || RELATION_IS_OTHER_TEMP(index) ||
		(RecoveryInProgress() && !RelationIsPermanent(index)))
		return LSM_KEY_RULES_CURRENT;
	lsm_tree_key_rules(lsm_index_open_tree(index), &rules);
	if (rules.version > LSM_KEY_RULES_CURRENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" was built by a newer version of lsmam",
						RelationGetRelationName(index)),
				 errhint("Rebuild the index with REINDEX.")));
	known = MemoryContextAlloc(index->rd_indexcxt, sizeof(LsmKeyRules));
	*known = rules;
	index->rd_amcache = known;
	if (lsm_index_collations_changed(index))
		warn_of_collations(index);
	return rules.version;
}

bool
lsm_index_collations_changed(Relation index)
{
	LsmKeyRules *known;

	(void) lsm_index_rules(index);
	known = index->rd_amcache;
	return known != NULL && known->collations != 0 &&
		known->collations != collations_digest(index, known->version);
}

void
lsm_index_new_rules(Relation index, LsmKeyRules *rules)
{
	if (index->rd_amcache != NULL)
		pfree(index->rd_amcache);
	index->rd_amcache = NULL;
	rules->version = LSM_KEY_RULES_CURRENT;
	rules->collations = collations_digest(index, rules->version);
}
