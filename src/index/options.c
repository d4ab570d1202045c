/*-------------------------------------------------------------------------
 *
 * options.c
 *	  The storage parameters of an index, and its tree, which is opened with
 *	  them.
 *
 * No locks; the caller has the index open and locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/reloptions.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "index/index.h"

/* In rd_options; "unset" values are those of LsmTreeOptions */
typedef struct LsmIndexOptions
{
	int32		vl_len_;		/* varlena header (do not touch directly!) */
	int			filter_scheme;
	double		bits_per_key;
	int			elastic_units;
	int			size_ratio;
	int			compression;
	int			filter_allocation;
	int			bottom_filter;
	int			bottom_compression;
	int			filter_columns;
	int			fillfactor;		/* no effect */
	bool		deduplicate_items;	/* no effect */
} LsmIndexOptions;

static relopt_kind index_relopt_kind;

#define PICK_VALUE(NAME, name, number) {#name, number},

static relopt_enum_elt_def filter_scheme_values[] = {
	LSM_FILTER_SCHEMES(PICK_VALUE)
	{NULL}
};

static relopt_enum_elt_def filter_allocation_values[] = {
	{"uniform", LSM_ALLOCATION_UNIFORM},
	{"monkey", LSM_ALLOCATION_MONKEY},
	{NULL}
};

static relopt_enum_elt_def bottom_filter_values[] = {
	{"same", LSM_BOTTOM_SAME},
	{"ribbon", LSM_FILTER_RIBBON},
	{NULL}
};

static relopt_enum_elt_def compression_values[] = {
	{"auto", LSM_COMPRESSION_AUTO},
	{"none", LSM_COMPRESSION_NONE},
	{"lz4", LSM_COMPRESSION_LZ4},
	{"zstd", LSM_COMPRESSION_ZSTD},
	{NULL}
};

static relopt_enum_elt_def bottom_compression_values[] = {
	{"same", LSM_COMPRESSION_SAME},
	{"none", LSM_COMPRESSION_NONE},
	{"lz4", LSM_COMPRESSION_LZ4},
	{"zstd", LSM_COMPRESSION_ZSTD},
	{NULL}
};

/* An unset one is -1; a message names the values. */
static void
add_enum(const char *name, const char *description, relopt_enum_elt_def *values)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	StringInfoData text;
	int			n = 0;

	while (values[n].string_val != NULL)
		n++;
	initStringInfo(&text);
	for (int i = 0; i < n; i++)
		appendStringInfo(&text, "%s\"%s\"", i == 0 ? "Valid values are " :
						 i < n - 1 ? ", " : n > 2 ? ", and " : " and ", values[i].string_val);
	appendStringInfoChar(&text, '.');
	add_enum_reloption(index_relopt_kind, name, description, values, -1, text.data,
					   ShareUpdateExclusiveLock);
	MemoryContextSwitchTo(old);
}

/*
 * Once, when the library is loaded.  The parameters apply to files written
 * after a change, so changing them needs no more than a lock that keeps other
 * changes away.
 */
void
lsm_index_define_options(void)
{
	index_relopt_kind = add_reloption_kind();
	add_enum("filter_scheme", "Filter built for each sorted file of the index",
			 filter_scheme_values);
	add_real_reloption(index_relopt_kind, "bits_per_key",
					   "Size of filters in bits per key",
					   0, 1, 64, ShareUpdateExclusiveLock);
	add_int_reloption(index_relopt_kind, "elastic_units",
					  "Filter units per segment of elastic filters",
					  0, 1, 16, ShareUpdateExclusiveLock);
	add_int_reloption(index_relopt_kind, "size_ratio",
					  "Size ratio between levels",
					  0, 2, 100, ShareUpdateExclusiveLock);
	add_enum("compression", "Compression of sorted files of the index",
			 compression_values);

	add_enum("filter_allocation", "How bits per key are shared among the sorted files of the index",
			 filter_allocation_values);
	add_enum("bottom_filter", "Filter built for each sorted file in the deepest level of the index",
			 bottom_filter_values);
	add_enum("bottom_compression", "Compression of sorted files that have nothing of the index below them",
			 bottom_compression_values);
	add_int_reloption(index_relopt_kind, "filter_columns",
					  "Leading columns that filters know beside the whole key",
					  -1, -1, LSM_FILTER_LEADING_MAX, ShareUpdateExclusiveLock);

	/* btree's, for statements that set them for keys */
	add_int_reloption(index_relopt_kind, "fillfactor",
					  "Kept for a rebuild as btree; sorted files are always full",
					  BTREE_DEFAULT_FILLFACTOR, BTREE_MIN_FILLFACTOR, 100,
					  ShareUpdateExclusiveLock);
	add_bool_reloption(index_relopt_kind, "deduplicate_items",
					   "Kept for a rebuild as btree",
					   true, ShareUpdateExclusiveLock);
}

bytea *
lsm_index_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt fields[] = {
		{"filter_scheme", RELOPT_TYPE_ENUM, offsetof(LsmIndexOptions, filter_scheme)},
		{"bits_per_key", RELOPT_TYPE_REAL, offsetof(LsmIndexOptions, bits_per_key)},
		{"elastic_units", RELOPT_TYPE_INT, offsetof(LsmIndexOptions, elastic_units)},
		{"size_ratio", RELOPT_TYPE_INT, offsetof(LsmIndexOptions, size_ratio)},
		{"compression", RELOPT_TYPE_ENUM, offsetof(LsmIndexOptions, compression)},
		{"filter_allocation", RELOPT_TYPE_ENUM, offsetof(LsmIndexOptions, filter_allocation)},
		{"bottom_filter", RELOPT_TYPE_ENUM, offsetof(LsmIndexOptions, bottom_filter)},
		{"bottom_compression", RELOPT_TYPE_ENUM, offsetof(LsmIndexOptions, bottom_compression)},
		{"filter_columns", RELOPT_TYPE_INT, offsetof(LsmIndexOptions, filter_columns)},
		{"fillfactor", RELOPT_TYPE_INT, offsetof(LsmIndexOptions, fillfactor)},
		{"deduplicate_items", RELOPT_TYPE_BOOL, offsetof(LsmIndexOptions, deduplicate_items)}
	};

	return build_reloptions(reloptions, validate, index_relopt_kind,
							sizeof(LsmIndexOptions), fields, lengthof(fields));
}

uint64
lsm_index_leading(Relation index)
{
	LsmIndexOptions *set = (LsmIndexOptions *) index->rd_options;

	return lsm_leading_known(index, set != NULL ? set->filter_columns : -1);
}

LsmTree *
lsm_index_open_tree(Relation index)
{
	LsmIndexOptions *set = (LsmIndexOptions *) index->rd_options;
	LsmTreeOptions options = LSM_TREE_OPTIONS_UNSET;

	if (set != NULL)
	{
		options.filter_scheme = set->filter_scheme;
		options.bits_per_key = set->bits_per_key;
		options.elastic_units = set->elastic_units;
		options.size_ratio = set->size_ratio;
		options.compression = set->compression;
		options.filter_allocation = set->filter_allocation;
		options.bottom_filter = set->bottom_filter;
		options.bottom_compression = set->bottom_compression;
	}
	options.leading = lsm_index_leading(index);
	return lsm_tree_open(index, LSM_KIND_INDEX, &options);
}
