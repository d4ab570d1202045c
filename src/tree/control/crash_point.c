/*-------------------------------------------------------------------------
 *
 * crash_point.c
 *	  Crash points and hold points of test builds (-DLSM_TESTING).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "storage/procsignal.h"

#include "tree/control/control.h"
#include "tree/control/crash_point.h"

#ifdef LSM_TESTING

char	   *lsm_crash_point_name = NULL;

/* Two processes can be held at the same time. */
static const char *const hold_files[][2] = {
	{"lsm_hold", "lsm_held"},
	{"lsm_hold_2", "lsm_held_2"}
};

/* Does the file hold us here? */
static bool
is_hold_of(const char *file, const char *name)
{
	char		line[200];
	char		point[100];
	char		who[20];
	Oid			relid;
	ssize_t		got;
	int			fd = open(file, O_RDONLY);

	if (fd < 0)
		return false;
	got = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (got <= 0)
		return false;
	line[got] = '\0';
	return sscanf(line, "%99s %19s %u", point, who, &relid) == 3 &&
		strcmp(point, name) == 0 &&
		!(strcmp(who, "worker") == 0 && !lsm_in_worker()) &&
		!(strcmp(who, "backend") == 0 && (lsm_in_worker() || AmStartupProcess())) &&
		!(strcmp(who, "startup") == 0 && !AmStartupProcess()) &&
		!(OidIsValid(relid) && relid != lsm_job_relid());
}

/*
 * Stop here, without crashing, if the file lsm_hold in the data directory says
 * "<point> <worker|backend|startup|any> <relation OID or 0>" and all three fit: the
 * OID is that of the tree whose job is in progress.  The first process that
 * finds it so renames the file to lsm_held, and goes on when that has been
 * removed.  Nothing can cancel it meanwhile: code around crash points relies
 * on not being interrupted.
 */
static void
hold_if_wanted(const char *name)
{
	for (int i = 0; i < lengthof(hold_files); i++)
	{
		const char *held = hold_files[i][1];

		if (!is_hold_of(hold_files[i][0], name) ||
			rename(hold_files[i][0], held) != 0)
			continue;
		while (access(held, F_OK) == 0)
		{
			if (!PostmasterIsAlive())
				_exit(1);

			/* for which ALTER DATABASE and DROP DATABASE wait */
			if (ProcSignalBarrierPending && CritSectionCount == 0)
				ProcessProcSignalBarrier();
			pg_usleep(5000L);
		}
	}
}

/*
 * Crash here if the GUC lsm.crash_point names this point: "name", or "name:N"
 * for the Nth time that this process passes it.  kill -9 of the postmaster
 * first (nothing is written by an orderly shutdown), then of all others, who
 * might wait for ever for a lock that we have, and of ourselves.  "name!": fail
 * here, each time.  "?": what hold_if_wanted() says.
 */
void
lsm_crash_point_hit(const char *name)
{
	static char last[NAMEDATALEN];
	static int	hits = 0;
	Size		len = strlen(name);
	const char *wanted = lsm_crash_point_name;
	int			nth = 1;

	if (likely(wanted == NULL || wanted[0] == '\0'))
		return;
	if (wanted[0] == '?')
	{
		hold_if_wanted(name);
		return;
	}
	if (strncmp(wanted, name, len) != 0 ||
		(wanted[len] != '\0' && wanted[len] != ':' && wanted[len] != '!'))
		return;
	if (wanted[len] == '!')
		elog(ERROR, "error at crash point %s", name);
	if (wanted[len] == ':')
		nth = atoi(wanted + len + 1);

	if (strncmp(last, name, sizeof(last) - 1) != 0)
	{
		strlcpy(last, name, sizeof(last));
		hits = 0;
	}
	if (++hits < nth)
		return;

	if (IsUnderPostmaster)
	{
		(void) kill(PostmasterPid, SIGKILL);
		for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
		{
			int			pid = ProcGlobal->allProcs[i].pid;

			if (pid != 0 && pid != MyProcPid)
				(void) kill(pid, SIGKILL);
		}
	}
	(void) kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

/* lsm.crash_point is "name~". */
bool
lsm_crash_point_lies(const char *name)
{
	const char *wanted = lsm_crash_point_name;
	Size		len = strlen(name);

	return wanted != NULL && wanted[0] != '\0' && strncmp(wanted, name, len) == 0 &&
		wanted[len] == '~' && wanted[len + 1] == '\0';
}

#endif							/* LSM_TESTING */
