/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  The settings lsm.*.  The variables of the tree live in
 *	  tree/control/options.c; here are their names, units, ranges and who may
 *	  set them.
 *
 * A setting that shapes files (filter, compression, size ratio) applies to
 * what the process that has it writes: a session's own flushes, and the
 * background workers' work by the value in the configuration file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"
#include "utils/guc_tables.h"

#include "am/row_notes.h"
#include "ddl/ddl.h"
#include "executor/hooks.h"
#include "lsmam.h"
#include "table/table.h"
#include "tree/tree.h"

#ifdef LSM_TESTING
extern char *lsm_crash_point_name;
#endif


#define PICK_OPTION(NAME, name, number) {#name, number, false},

static const struct config_enum_entry filter_scheme_options[] = {
	LSM_FILTER_SCHEMES(PICK_OPTION)
	{NULL, 0, false}
};

static const struct config_enum_entry filter_allocation_options[] = {
	{"uniform", LSM_ALLOCATION_UNIFORM, false},
	{"monkey", LSM_ALLOCATION_MONKEY, false},
	{NULL, 0, false}
};

static const struct config_enum_entry bottom_filter_options[] = {
	{"same", LSM_BOTTOM_SAME, false},
	{"ribbon", LSM_FILTER_RIBBON, false},
	{NULL, 0, false}
};

static const struct config_enum_entry elastic_policy_options[] = {
	{"access", LSM_ELASTIC_ON_ACCESS, false},
	{"compaction", LSM_ELASTIC_ON_COMPACTION, false},
	{NULL, 0, false}
};

static const struct config_enum_entry compression_options[] = {
	{"auto", LSM_COMPRESSION_AUTO, false},
	{"none", LSM_COMPRESSION_NONE, false},
	{"lz4", LSM_COMPRESSION_LZ4, false},
	{"zstd", LSM_COMPRESSION_ZSTD, false},
	{NULL, 0, false}
};

static const struct config_enum_entry bottom_compression_options[] = {
	{"same", LSM_COMPRESSION_SAME, false},
	{"none", LSM_COMPRESSION_NONE, false},
	{"lz4", LSM_COMPRESSION_LZ4, false},
	{"zstd", LSM_COMPRESSION_ZSTD, false},
	{NULL, 0, false}
};

static const struct config_enum_entry default_index_options[] = {
	{"btree", LSM_DEFAULT_INDEX_BTREE, false},
	{"lsm", LSM_DEFAULT_INDEX_LSM, false},
	{NULL, 0, false}
};

static const struct config_enum_entry constraint_index_options[] = {
	{"auto", LSM_CONSTRAINT_AUTO, false},
	{"lsm", LSM_CONSTRAINT_LSM, false},
	{"btree", LSM_CONSTRAINT_BTREE, false},
	{NULL, 0, false}
};

/* A unit is a power of two, so that units never lie across pages. */
static bool
check_unit_size(int *newval, void **extra, GucSource source)
{
	if ((*newval & (*newval - 1)) == 0)
		return true;
	GUC_check_errdetail("The value must be a power of two.");
	return false;
}

static void
define_elastic_settings(void)
{
	DefineCustomIntVariable("lsm.elastic_units",
							"Filter units per segment of an elastic filter.",
							NULL,
							&lsm_elastic_units,
							6, 1, LSM_ELASTIC_UNITS_MAX,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.elastic_initial_units",
							"Filter units switched on for a new segment without known hotness.",
							NULL,
							&lsm_elastic_initial_units,
							2, 0, LSM_ELASTIC_UNITS_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.elastic_memory",
							"Memory that all switched-on elastic filter units together may use.",
							"Reserved at server start; later changes take effect up to that size.",
							&lsm_elastic_memory_kb,
							65536, 64, MAX_KILOBYTES,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.elastic_unit_size",
							"Size of one elastic filter unit.",
							"A segment is the run of keys whose unit fills it: small units tell hot from cold keys more finely.",
							&lsm_elastic_unit_size,
							512, 64, LSM_ELASTIC_UNIT_BYTES_MAX,
							PGC_POSTMASTER, GUC_UNIT_BYTE, check_unit_size, NULL, NULL);
	DefineCustomIntVariable("lsm.elastic_lifetime",
							"Accesses after which an untouched filter segment counts as expired.",
							NULL,
							&lsm_elastic_lifetime,
							20000, 1, INT_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("lsm.elastic_policy",
							 "When elastic filter units move from one segment to another.",
							 NULL,
							 &lsm_elastic_policy,
							 LSM_ELASTIC_ON_ACCESS, elastic_policy_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("lsm.elastic_ratio",
							 "Share by which a moved elastic filter unit must save more than it costs.",
							 NULL,
							 &lsm_elastic_ratio,
							 0.2, 0.0, 100.0,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("lsm.elastic_inheritance",
							 "Segments of new files inherit hotness and units from those that they replace.",
							 NULL,
							 &lsm_elastic_inheritance,
							 true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
}

static void
define_filter_settings(void)
{
	DefineCustomBoolVariable("lsm.hash_sharing",
							 "Computes one digest per point lookup and shares it among all filters.",
							 "Off computes the digest again at every filter probed.",
							 &lsm_hash_sharing,
							 true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("lsm.filter_scheme",
							 "Filter that is built for each sorted file.",
							 NULL,
							 &lsm_filter_scheme,
							 LSM_FILTER_BLOCKED, filter_scheme_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("lsm.bits_per_key",
							 "Filter size, in bits per key.",
							 NULL,
							 &lsm_bits_per_key,
							 10.0, 1.0, 64.0,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("lsm.filter_allocation",
							 "How lsm.bits_per_key is shared among the files of a tree.",
							 "\"uniform\": all have as many. \"monkey\": small runs have more, and the largest one less.",
							 &lsm_filter_allocation,
							 LSM_ALLOCATION_UNIFORM, filter_allocation_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("lsm.bottom_filter",
							 "Filter that is built for each sorted file in a tree's deepest level.",
							 "\"same\": the one of all files.",
							 &lsm_bottom_filter,
							 LSM_BOTTOM_SAME, bottom_filter_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
}

static void
define_tree_settings(void)
{
	DefineCustomIntVariable("lsm.memtable_memory",
							"Shared memory for the memtables of all trees.",
							NULL,
							&lsm_memtable_memory_kb,
							262144, 1024, MAX_KILOBYTES,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.row_directory_memory",
							"Shared memory for the directory of rows by the digests of their keys.",
							"Eight bytes are one key of a unique index.  Zero means no directory.",
							&lsm_row_directory_kb,
							32768, 0, MAX_KILOBYTES,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.memtable_size",
							"A tree's memtable is flushed when it has reached this size.",
							"Applies to what this session writes.",
							&lsm_memtable_size_kb,
							65536, 64, MAX_KILOBYTES,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.size_ratio",
							"Size ratio between one level of a tree and the next.",
							NULL,
							&lsm_size_ratio,
							10, 2, 100,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.target_file_size",
							"Size at which sorted files are cut.",
							NULL,
							&lsm_target_file_size_kb,
							65536, 4, 1024 * 1024,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomEnumVariable("lsm.compression",
							 "Compression of data blocks in sorted files.",
							 "\"auto\" means lz4 for tables and none for indexes.",
							 &lsm_compression,
							 LSM_COMPRESSION_AUTO, compression_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("lsm.bottom_compression",
							 "Compression of data blocks in sorted files that have nothing below them.",
							 "\"same\": the one of all files.",
							 &lsm_bottom_compression,
							 LSM_COMPRESSION_SAME, bottom_compression_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.max_open_files",
							"Sorted files that one backend keeps open.",
							NULL,
							&lsm_max_open_files,
							1000, 16, 1000000,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("lsm.ignore_missing_files",
							 "Reads lsm tables of which sorted files are missing from the files that are left.",
							 "For copying what can be read after pg_resetwal or the loss of files. Rows are missing, and deleted ones may reappear.",
							 &lsm_ignore_missing_files,
							 false,
							 PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomStringVariable("lsm.pg_upgrade",
							   "Data directory of the old cluster, set by lsm_pg_upgrade.",
							   "Lets pg_upgrade transfer lsm relations, whose sorted files it does not know.",
							   &lsm_pg_upgrade,
							   "",
							   PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.compaction_workers",
							"Background processes for compaction, besides the one for flushes.",
							NULL,
							&lsm_compaction_workers,
							1, 0, 16,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.compaction_rate",
							"Kilobytes per second that compactions may write, all together.",
							"Zero means no limit.  Flushes are not limited, nor is a tree whose writers have to wait for its compaction.",
							&lsm_compaction_rate_kb,
							0, 0, MAX_KILOBYTES,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.background_share",
							"Percentage of the time that a flush or compaction in the background works while sessions want the processors.",
							"The nearer a tree comes to where its writers are slowed down, the more it is.",
							&lsm_background_share,
							25, 1, 100,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("lsm.compaction_by_scans",
							 "Compacts indexes whose scans have merged several runs as long as a compaction takes.",
							 NULL,
							 &lsm_compaction_by_scans,
							 true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.max_trees",
							"Trees (tables and indexes) that can be in use at the same time.",
							NULL,
							&lsm_max_trees,
							16384, 16, 1000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.log_compaction_min_duration",
							"Sets the minimum execution time above which flushes and compactions are logged.",
							"Zero logs all of them. -1 turns logging them off.",
							&lsm_log_compaction_min_duration,
							600000, -1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomEnumVariable("lsm.constraint_index",
							 "Index access method of PRIMARY KEY and UNIQUE constraints on lsm tables.",
							 "\"auto\" means lsm_index where it keeps the order of all columns, else btree.  "
							 "Columns of types without an lsm_index operator class get a btree index in any case.",
							 &lsm_constraint_index,
							 LSM_CONSTRAINT_AUTO, constraint_index_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("lsm.default_index",
							 "Index access method of CREATE INDEX without USING on lsm tables.",
							 "\"lsm\" means lsm_index where it can serve all columns in order, else btree.",
							 &lsm_default_index,
							 LSM_DEFAULT_INDEX_BTREE, default_index_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("lsm.insert_batching",
							 "Gives rows of INSERT ... SELECT to lsm tables together where nothing can tell the difference.",
							 "Off hands them over one by one, as the executor does.",
							 &lsm_insert_batching,
							 true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
#ifdef LSM_TESTING
	DefineCustomStringVariable("lsm.crash_point",
							   "Test builds: stops the server when it reaches the code location of this name.",
							   NULL,
							   &lsm_crash_point_name,
							   "",
							   PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("lsm.directory_tag_bits",
							"Test builds: bits of digests in the row directory.",
							NULL,
							&lsm_directory_tag_bits,
							LSM_DIRECTORY_TAG_BITS, 1, LSM_DIRECTORY_TAG_BITS,
							PGC_POSTMASTER, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
#endif
#ifdef USE_ASSERT_CHECKING
	DefineCustomIntVariable("lsm.second_opinion",
							"Builds with assertions: one in this many answers of shortcuts is derived again the slow way.",
							"A difference ends the server.  0 is off.",
							&lsm_second_opinion,
							0, 0, INT_MAX,
							PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
#endif
}

void
lsm_guc_init(void)
{
	define_filter_settings();
	define_elastic_settings();
	define_tree_settings();
	MarkGUCPrefixReserved("lsm");
}
