/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  SQL function behind pg_stat_lsm_progress.
 *
 * To whom a row is shown: as PostgreSQL's views of progress do it.  That there
 * is a job, whose and of which database, is for everyone.  What it is about is
 * for the session's role and for pg_read_all_stats.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "tree/tree.h"

PG_FUNCTION_INFO_V1(lsm_progress);

#define NSHOWN_TO_ALL	4		/* the first columns */
#define NCOLUMNS		17

static const char *
command_name(LsmProgressCommand command)
{
	switch (command)
	{
		case LSM_PROGRESS_FLUSH:
			return "flush";
		case LSM_PROGRESS_COMPACT:
			return "compaction";
		case LSM_PROGRESS_BUILD:
			return "build";
		case LSM_PROGRESS_REPAIR:
			return "filter repair";
		case LSM_PROGRESS_LOAD:
			return "load";
		case LSM_PROGRESS_VERIFY:
			return "verify";
		case LSM_PROGRESS_NONE:
			break;
	}
	return "unknown";
}

static const char *
phase_name(LsmProgressPhase phase)
{
	switch (phase)
	{
		case LSM_PHASE_STARTING:
			return "initializing";
		case LSM_PHASE_WAITING_WRITERS:
			return "waiting for writers";
		case LSM_PHASE_WRITING:
			return "writing files";
		case LSM_PHASE_LOGGING:
			return "logging files";
		case LSM_PHASE_PUBLISHING:
			return "publishing";
		case LSM_PHASE_READING:
			return "reading";
		case LSM_PHASE_CHECKING_FILES:
			return "checking files";
		case LSM_PHASE_COMPARING_SCAN:
			return "comparing index by scan";
		case LSM_PHASE_COMPARING_ENTRIES:
			return "checking index entries";
		case LSM_PHASE_COMPARING_ROWS:
			return "looking rows up";
	}
	return "unknown";
}

static bool
may_see(Oid roleid)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		(OidIsValid(roleid) && has_privs_of_role(GetUserId(), roleid));
}

/* Unless it is not known */
static void
put_number(Datum *value, bool *null, int64 number)
{
	*value = Int64GetDatum(number);
	*null = number == LSM_PROGRESS_UNKNOWN;
}

static void
put_details(const LsmProgressOwner *owner, const LsmProgress *job, Datum *values, bool *nulls)
{
	const int64 numbers[] = {
		job->files_total, job->files_done, job->entries_total, job->entries_done,
		job->bytes_total, job->bytes_done, job->files_written, job->bytes_written
	};
	int			i = NSHOWN_TO_ALL;

	values[i++] = ObjectIdGetDatum(job->relid);
	values[i++] = CStringGetTextDatum(phase_name(job->phase));
	values[i] = Int32GetDatum(job->level_from);
	nulls[i++] = job->level_from == LSM_PROGRESS_UNKNOWN;
	values[i] = Int32GetDatum(job->level_to);
	nulls[i++] = job->level_to == LSM_PROGRESS_UNKNOWN;
	for (int n = 0; n < lengthof(numbers); n++, i++)
		put_number(&values[i], &nulls[i], numbers[n]);
	values[i++] = TimestampTzGetDatum(job->started_at);
	Assert(i == NCOLUMNS);
}

Datum
lsm_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LsmProgressOwner owner;
	LsmProgress job;
	int			iter = 0;

	lsm_tree_require_memory();
	InitMaterializedSRF(fcinfo, 0);
	while (lsm_progress_next(&iter, &owner, &job))
	{
		Datum		values[NCOLUMNS] = {0};
		bool		nulls[NCOLUMNS] = {0};

		values[0] = Int32GetDatum(owner.pid);
		values[1] = Int32GetDatum(owner.leader_pid);
		nulls[1] = owner.leader_pid == 0;
		values[2] = ObjectIdGetDatum(job.dboid);
		values[3] = CStringGetTextDatum(command_name(job.command));
		if (may_see(owner.roleid))
			put_details(&owner, &job, values, nulls);
		else
			memset(&nulls[NSHOWN_TO_ALL], true, NCOLUMNS - NSHOWN_TO_ALL);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
