/*-------------------------------------------------------------------------
 *
 * options.c
 *	  Settings of trees, the registry of kinds, and the crash points of test
 *	  builds.
 *
 * The variables are GUCs; src/guc.c registers them with ranges, units and
 * check hooks.  Their initial values here are the defaults.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/pmsignal.h"
#include "storage/procsignal.h"
#include "utils/guc_tables.h"

#include "tree/control/control.h"

bool		lsm_hash_sharing = true;
int			lsm_filter_scheme = LSM_FILTER_BLOCKED;
double		lsm_bits_per_key = 10.0;
int			lsm_filter_allocation = LSM_ALLOCATION_UNIFORM;
int			lsm_bottom_filter = LSM_BOTTOM_SAME;
int			lsm_elastic_units = 6;
int			lsm_elastic_initial_units = 2;
int			lsm_elastic_memory_kb = 64 * 1024;
int			lsm_elastic_lifetime = 20000;
int			lsm_elastic_unit_size = 512;
int			lsm_elastic_policy = LSM_ELASTIC_ON_ACCESS;
double		lsm_elastic_ratio = 0.2;
bool		lsm_elastic_inheritance = true;
int			lsm_memtable_size_kb = 64 * 1024;
int			lsm_size_ratio = 10;
int			lsm_target_file_size_kb = 64 * 1024;
int			lsm_compression = LSM_COMPRESSION_AUTO;
int			lsm_bottom_compression = LSM_COMPRESSION_SAME;
int			lsm_max_open_files = 1000;
bool		lsm_ignore_missing_files = false;
char	   *lsm_pg_upgrade = NULL;
int			lsm_compaction_workers = 1;
int			lsm_max_trees = 16384;	/* about 2.6 kB each */

/* ---- kinds ---- */

#define KIND_LIMIT	(LSM_KIND_INDEX + 1)

static const LsmKindOps *kind_ops[KIND_LIMIT];

void
lsm_kind_register(LsmKind kind, const LsmKindOps *ops)
{
	Assert(kind > 0 && kind < KIND_LIMIT);
	Assert(ops->merge != NULL && ops->fate != NULL && ops->min_xid != NULL &&
		   ops->check != NULL);
	kind_ops[kind] = ops;
}

const LsmKindOps *
lsm_kind_ops(LsmKind kind)
{
	if ((int) kind <= 0 || kind >= KIND_LIMIT || kind_ops[kind] == NULL)
		elog(ERROR, "LSM tree of unknown kind %d", (int) kind);
	return kind_ops[kind];
}

/* ---- effective settings ---- */

/*
 * The tree's own setting, if its last opener had one, else this process's GUC.
 * Read without lock: each is a word, and any mixture of old and new is valid.
 */
LsmFilterParams
lsm_tree_filter_params(LsmTree *tree)
{
	const LsmTreeOptions *options = &tree->ctl->options;
	LsmFilterParams params;

	params.scheme = (LsmFilterScheme)
		(options->filter_scheme >= 0 ? options->filter_scheme : lsm_filter_scheme);
	params.bits_per_key = options->bits_per_key > 0 ? options->bits_per_key : lsm_bits_per_key;
	params.merge_keys = 0;
	params.leading = lsm_filter_scheme_leads(params.scheme) ?
		lsm_leading_columns(options->leading) : 0;
	params.units = options->elastic_units > 0 ? options->elastic_units : lsm_elastic_units;
	params.unit_bytes = lsm_elastic_unit_size;
	return params;
}

LsmFilterAllocation
lsm_tree_filter_allocation(LsmTree *tree)
{
	int			allocation = tree->ctl->options.filter_allocation;

	return (LsmFilterAllocation) (allocation >= 0 ? allocation : lsm_filter_allocation);
}

/*
 * Only where filters are in memory as a whole: the memory of elastic filters is
 * shared out otherwise, and cascade's are on storage.
 */
LsmFilterScheme
lsm_tree_bottom_scheme(LsmTree *tree, LsmFilterScheme scheme)
{
	int			bottom = tree->ctl->options.bottom_filter;

	if (bottom < 0)
		bottom = lsm_bottom_filter;
	if (bottom == LSM_BOTTOM_SAME ||
		lsm_filter_scheme_has(scheme, LSM_FILTER_EMPTY | LSM_FILTER_UNITS | LSM_FILTER_PAGES))
		return scheme;
	return (LsmFilterScheme) bottom;
}

int
lsm_tree_size_ratio(LsmTree *tree)
{
	int			ratio = tree->ctl->options.size_ratio;

	return ratio > 0 ? ratio : lsm_size_ratio;
}

/* See tree.h. */
bool
lsm_settings_are_servers(const char *prefix)
{
	int			n;
	struct config_generic **settings = get_guc_variables(&n);

	for (int i = 0; i < n; i++)
	{
		if (strncmp(settings[i]->name, prefix, strlen(prefix)) == 0 &&
			settings[i]->source > PGC_S_ARGV)
			return false;
	}
	return true;
}

double
lsm_tree_base_bytes(LsmTree *tree)
{
	uint32		kb = pg_atomic_read_u32(&tree->ctl->memory.memtable_kb);

	return (kb > 0 ? kb : lsm_memtable_size_kb) * 1024.0;
}

/*
 * auto: lz4 for tables, none for indexes.  A row's block is decompressed by
 * each lookup, which pays for itself where the space is: in rows.  An index
 * entry is prefix-compressed anyhow.
 */
LsmCompression
lsm_tree_compression(LsmTree *tree)
{
	int			compression = tree->ctl->options.compression;

	if (compression < 0)
		compression = lsm_compression;
	if (compression == LSM_COMPRESSION_AUTO)
		compression = tree->kind == LSM_KIND_TABLE ? LSM_COMPRESSION_LZ4 :
			LSM_COMPRESSION_NONE;
	return (LsmCompression) compression;
}

const char *
lsm_compression_name(int compression)
{
	switch (compression)
	{
		case LSM_COMPRESSION_NONE:
			return "none";
		case LSM_COMPRESSION_LZ4:
			return "lz4";
		case LSM_COMPRESSION_ZSTD:
			return "zstd";
	}
	return NULL;
}

LsmCompression
lsm_tree_bottom_compression(LsmTree *tree)
{
	int			compression = tree->ctl->options.bottom_compression;

	if (compression < 0)
		compression = lsm_bottom_compression;
	if (compression == LSM_COMPRESSION_SAME)
		return lsm_tree_compression(tree);
	return (LsmCompression) compression;
}

uint32
lsm_tree_written_as(LsmTree *tree, LsmCompression compression)
{
	LsmFilterParams params = lsm_tree_filter_params(tree);
	uint32		units = 0;
	uint32		unit_bytes = 0;
	LsmFilterScheme bottom;
	char text[	100];
	int			bytes;

	if (lsm_filter_scheme_has(params.scheme, LSM_FILTER_EMPTY))
		params.bits_per_key = 0;
	if (lsm_filter_scheme_has(params.scheme, LSM_FILTER_UNITS))
	{
		units = params.units;
		unit_bytes = params.unit_bytes;
	}
	bytes = snprintf(text, sizeof(text), "%d %.17g %u %u %d", (int) params.scheme,
					 params.bits_per_key, units, unit_bytes, (int) compression);
	if (params.leading > 0)
		bytes += snprintf(text + bytes, sizeof(text) - bytes, " %u", params.leading);
	if (lsm_filter_scheme_allocates(params.scheme) &&
		lsm_tree_filter_allocation(tree) != LSM_ALLOCATION_UNIFORM)
		bytes += snprintf(text + bytes, sizeof(text) - bytes, " monkey");
	bottom = lsm_tree_bottom_scheme(tree, params.scheme);
	if (bottom != params.scheme)
		bytes += snprintf(text + bytes, sizeof(text) - bytes, " %s",
						  lsm_filter_scheme_name(bottom));
	return (uint32) lsm_digest_key(text, bytes);
}
