/*-------------------------------------------------------------------------
 *
 * sst_error.c
 *	  Failures of src/sst as errors of PostgreSQL.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/disk/disk.h"

/*
 * Raises src/sst's failure.  The message names the file.
 */
void
lsm_sst_report(int elevel, const LsmSstError *err)
{
	int			code = ERRCODE_IO_ERROR;
	const char *hint = NULL;

	switch (err->status)
	{
		case LSM_SST_OK:
		case LSM_SST_INVALID:
			code = ERRCODE_INTERNAL_ERROR;
			break;
		case LSM_SST_MISSING:
			code = ERRCODE_UNDEFINED_FILE;
			hint = "Restore the file from a backup, or REINDEX if it is that of an index. What is left of a table can be read with lsm.ignore_missing_files.";
			break;
		case LSM_SST_IO_ERROR:
			break;
		case LSM_SST_DISK_FULL:
			code = ERRCODE_DISK_FULL;
			hint = "Check free disk space.";
			break;
		case LSM_SST_CORRUPT:
			code = ERRCODE_DATA_CORRUPTED;
			hint = "Restore the file from a backup, or REINDEX if it is that of an index.";
			break;
		case LSM_SST_UNSUPPORTED:
			code = ERRCODE_FEATURE_NOT_SUPPORTED;
			hint = "Install the release of lsmam that wrote the file.";
			break;
		case LSM_SST_NO_MEMORY:
			code = ERRCODE_OUT_OF_MEMORY;
			break;
	}
	ereport(elevel,
			(errcode(code),
			 errmsg("%s", err->message),
			 hint != NULL ? errhint("%s", hint) : 0));
}
