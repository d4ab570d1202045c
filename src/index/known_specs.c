/*-------------------------------------------------------------------------
 *
 * known_specs.c
 *	  Specs of composed columns that this backend has made.
 *
 * The planner asks for an index's specs whenever it meets the table, each scan
 * and each statement that writes once more, and for each type that a column
 * consists of all operator classes are read.  So a spec is made once, and what
 * is given out are copies: who encodes values of another row type than the
 * column's writes into his spec.
 *
 * A spec is made again when something that it was made of has changed: a type,
 * the columns of a row type, a support function, or any operator class or
 * collation, which change seldom.
 *
 * No locks; what changes is heard of as all caches of catalogs hear of it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "index/compose.h"

typedef struct SpecKey
{
	Oid			family;
	Oid			opcintype;
	Oid			type;
	Oid			collation;
} SpecKey;

/* What a part of a spec was made of: hash values of pg_type and pg_proc, a row type */
typedef struct Origin
{
	uint32		type;
	uint32		function;		/* 0: none */
	Oid			relid;			/* InvalidOid: none */
} Origin;

typedef struct KnownSpec
{
	SpecKey		key;			/* hash key */
	bool		valid;
	MemoryContext context;		/* of all that follows; NULL: nothing */
	LsmColumnSpec spec;
	Origin	   *origins;
	int			norigins;
	int			room;
} KnownSpec;

static HTAB *known = NULL;

/* Counts what may have made a spec void that is being made. */
static uint64 stamp = 0;

/* ======================================================================
 * Changes
 * ====================================================================== */

static bool
is_made_of(const Origin *origin, int cache, uint32 hash, Oid relid)
{
	switch (cache)
	{
		case TYPEOID:
			return hash == 0 || origin->type == hash;
		case PROCOID:
			return origin->function != 0 && (hash == 0 || origin->function == hash);
		default:				/* of the relation cache */
			return OidIsValid(origin->relid) && (!OidIsValid(relid) || origin->relid == relid);
	}
}

static void
forget_made_of(int cache, uint32 hash, Oid relid)
{
	HASH_SEQ_STATUS status;
	KnownSpec  *entry;

	stamp++;
	hash_seq_init(&status, known);
	while ((entry = hash_seq_search(&status)) != NULL)
		for (int i = 0; entry->valid && i < entry->norigins; i++)
			entry->valid = !is_made_of(&entry->origins[i], cache, hash, relid);
}

static void
forget_by_cache(Datum arg, int cache, uint32 hash)
{
	forget_made_of(cache, hash, InvalidOid);
}

static void
forget_by_relation(Datum arg, Oid relid)
{
	forget_made_of(-1, 0, relid);
}

static void
forget_all(Datum arg, int cache, uint32 hash)
{
	HASH_SEQ_STATUS status;
	KnownSpec  *entry;

	stamp++;
	hash_seq_init(&status, known);
	while ((entry = hash_seq_search(&status)) != NULL)
		entry->valid = false;
}

static void
make_table(void)
{
	HASHCTL		ctl = {.keysize = sizeof(SpecKey),.entrysize = sizeof(KnownSpec),
	.hcxt = CacheMemoryContext};

	known = hash_create("specs of composed columns", 16, &ctl,
						HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterSyscacheCallback(TYPEOID, forget_by_cache, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, forget_by_cache, (Datum) 0);
	CacheRegisterSyscacheCallback(CLAOID, forget_all, (Datum) 0);
	CacheRegisterSyscacheCallback(AMPROCNUM, forget_all, (Datum) 0);
	CacheRegisterSyscacheCallback(OPFAMILYOID, forget_all, (Datum) 0);
	CacheRegisterSyscacheCallback(COLLOID, forget_all, (Datum) 0);
	CacheRegisterRelcacheCallback(forget_by_relation, (Datum) 0);
}

/* ======================================================================
 * Copies
 * ====================================================================== */

static LsmParts *copy_parts(LsmParts *parts, uint64 walk, KnownSpec *entry);

static void
copy_spec(const LsmColumnSpec *from, LsmColumnSpec *to, uint64 walk, KnownSpec *entry)
{
	*to = *from;
	if (from->normal_text != NULL)
	{
		to->normal_text = palloc0(sizeof(FmgrInfo));
		fmgr_info(from->normal_text->fn_oid, to->normal_text);
	}
	if (from->parts != NULL)
		to->parts = copy_parts(from->parts, walk, entry);
}

/* Of a part, its support functions too; not in the context of the entry */
static void
note_origin(KnownSpec *entry, const LsmColumnSpec *spec)
{
	Oid			function = InvalidOid;
	Origin		origin = {0};

	if (spec->parts != NULL)
	{
		origin.type = GetSysCacheHashValue1(TYPEOID, ObjectIdGetDatum(spec->parts->type));
		if (spec->type == LSM_COLUMN_RECORD)
			origin.relid = get_typ_typrelid(spec->parts->type);
		if (spec->type == LSM_COLUMN_FUNCTION)
			function = spec->parts->function.fn_oid;
	}
	else
		origin.type = GetSysCacheHashValue1(TYPEOID, ObjectIdGetDatum(spec->opcintype));
	if (spec->normal_text != NULL)
		function = spec->normal_text->fn_oid;
	if (OidIsValid(function))
		origin.function = GetSysCacheHashValue1(PROCOID, ObjectIdGetDatum(function));
	if (entry->norigins == entry->room)
	{
		entry->room = Max(entry->room * 2, 8);
		entry->origins = entry->origins == NULL ? palloc(sizeof(Origin) * entry->room) :
			repalloc(entry->origins, sizeof(Origin) * entry->room);
	}
	entry->origins[entry->norigins++] = origin;
}

static void
copy_part(const LsmColumnSpec *from, LsmColumnSpec *to, uint64 walk, KnownSpec *entry)
{
	if (entry != NULL && from->type != LSM_COLUMN_INVALID &&
		(from->parts == NULL || from->parts->walk != walk))
		note_origin(entry, from);
	copy_spec(from, to, walk, entry);
}

/*
 * In the current memory context.  Parts that are shared are shared in the copy.
 * `entry`: for which it is made, or NULL.
 */
static LsmParts *
copy_parts(LsmParts *from, uint64 walk, KnownSpec *entry)
{
	LsmParts   *to;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (from->walk == walk)
		return from->copy;
	to = palloc(sizeof(LsmParts));
	*to = *from;
	to->context = CurrentMemoryContext;
	to->walk = 0;
	to->row_context = NULL;
	if (OidIsValid(from->function.fn_oid))
		fmgr_info(from->function.fn_oid, &to->function);
	to->element = palloc(sizeof(LsmColumnSpec));
	copy_part(from->element, to->element, walk, entry);
	to->attributes = from->attributes == NULL ? NULL :
		palloc(sizeof(LsmColumnSpec) * Max(from->nattributes, 1));
	for (int i = 0; i < from->nattributes; i++)
		copy_part(&from->attributes[i], &to->attributes[i], walk, entry);
	from->walk = walk;
	from->copy = to;
	return to;
}

/* Of a spec that was made at `made`, unless it is void already */
static void
remember(const SpecKey *key, const LsmColumnSpec *spec, uint64 made)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lsm_index types",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	KnownSpec	copy = {.key = *key,.context = context,.valid = true};
	KnownSpec  *entry;
	bool		found;

	copy_part(spec, &copy.spec, lsm_compose_next_walk(), &copy);
	MemoryContextSwitchTo(old);
	if (made != stamp)
	{
		MemoryContextDelete(context);
		return;
	}
	entry = hash_search(known, key, HASH_ENTER, &found);
	if (found && entry->context != NULL)
		MemoryContextDelete(entry->context);
	*entry = copy;
	MemoryContextSetParent(context, CacheMemoryContext);
}

/* A copy; what an index says of its column stays as it is. */
static void
give_out(const KnownSpec *entry, LsmColumnSpec *spec)
{
	LsmColumnSpec column = *spec;

	copy_spec(&entry->spec, spec, lsm_compose_next_walk(), NULL);
	spec->descending = column.descending;
	spec->nulls_first = column.nulls_first;
	spec->compare = column.compare;
}

/* See compose.h. */
bool
lsm_compose_spec(Oid family, Oid opcintype, Oid type, Oid collation,
				 LsmColumnSpec *spec, Oid *culprit)
{
	SpecKey		key = {family, opcintype, type, collation};
	KnownSpec  *entry;
	uint64		made;

	if (known == NULL)
		make_table();
	entry = hash_search(known, &key, HASH_FIND, NULL);
	if (entry != NULL && entry->valid)
	{
		give_out(entry, spec);
		return true;
	}
	made = stamp;
	if (!lsm_compose_make_spec(family, opcintype, type, collation, spec, culprit))
		return false;
	remember(&key, spec, made);
	return true;
}
