/*-------------------------------------------------------------------------
 *
 * pace_test.c
 *	  src/tree/compaction/pace.c: who sleeps for what.  Above all, VACUUM never
 *	  pays for a flush: while it sleeps, nobody else can make one.  TAP output.
 *
 *-------------------------------------------------------------------------
 */
#if !__has_include("postgres.h")
#include "no_server.h"

#else

#include "postgres.h"

#include "commands/vacuum.h"

#undef printf
#undef vprintf
#include "tap.h"
#include "assertion.h"

#include "tree/compaction/pace.c"

/* ---- what the server and other rooms supply ---- */

bool		VacuumCostActive = false;
int			VacuumCostBalance = 0;
int			VacuumCostPageMiss = 2;
int			VacuumCostPageDirty = 20;
int			vacuum_cost_limit = 200;
Oid			MyDatabaseId = 1;

static int	paid;				/* cost, as far as VACUUM was asked to sleep */
static int	gave_way;
static uint64 rated_bytes;
static uint64 writer_bytes;

/* in parentheses: for older versions compat.h has a macro of this name */
void
#ifdef vacuum_delay_point
(vacuum_delay_point) (void)
#else
(vacuum_delay_point) (bool is_analyze)
#endif
{
	paid += VacuumCostBalance;
	VacuumCostBalance = 0;
}

void
lsm_give_way(LsmJob *job)
{
	gave_way++;
}

void
lsm_rate_wait(LsmJob *job, uint64 written)
{
	rated_bytes = written;
}

uint64_t
lsm_sst_writer_bytes(const LsmSstWriter *writer)
{
	return writer_bytes;
}

/* ---- tests ---- */

static LsmTreeShared ctl;
static LsmJob job;

/* One step of a job that has read and written so far */
static void
step(LsmJobType type, uint64 read_bytes, uint64 finished_bytes, uint64 open_bytes)
{
	paid = gave_way = 0;
	job.type = type;
	job.ctl = &ctl;
	job.output.bytes = finished_bytes;
	job.output.writer = (LsmSstWriter *) &writer_bytes;
	writer_bytes = open_bytes;
	lsm_job_pace(&job, read_bytes);
	ok(rated_bytes == finished_bytes + open_bytes, "the rate hears of all that is written");
}

static void
expect_paid(const char *what, int cost, bool gives_way)
{
	ok(paid == cost, "%s: pays %d, expected %d", what, paid, cost);
	ok((gave_way > 0) == gives_way, "%s: %s way", what, gives_way ? "gives" : "does not give");
}

int
main(void)
{
	memset(&job, 0, sizeof(job));
	step(LSM_JOB_COMPACT, 80 * BLCKSZ, 0, 10 * BLCKSZ);
	expect_paid("a session's compaction", 0, false);
	MyDatabaseId = InvalidOid;
	step(LSM_JOB_COMPACT, 80 * BLCKSZ, 0, 10 * BLCKSZ);
	expect_paid("a worker's compaction", 0, true);
	step(LSM_JOB_FLUSH, 0, 0, 10 * BLCKSZ);
	expect_paid("a worker's flush", 0, true);

	MyDatabaseId = 1;
	VacuumCostActive = true;
	memset(&job, 0, sizeof(job));
	step(LSM_JOB_COMPACT, 80 * BLCKSZ, 0, 10 * BLCKSZ);
	expect_paid("VACUUM's compaction", 80 * 2 + 10 * 20, true);
	step(LSM_JOB_COMPACT, BLCKSZ, 12 * BLCKSZ, 0);
	expect_paid("what is written once", 2 + 2 * 20, true);
	step(LSM_JOB_COMPACT, 0, 11 * BLCKSZ, 0);
	expect_paid("nothing, if less has become of it", 0, true);
	memset(&job, 0, sizeof(job));
	step(LSM_JOB_FLUSH, 0, 1000 * BLCKSZ, 0);
	expect_paid("VACUUM's flush", 0, true);

	pg_atomic_write_u32(&ctl.files.level0_runs, LSM_L0_RELIEF_RUNS);
	memset(&job, 0, sizeof(job));
	step(LSM_JOB_COMPACT, 80 * BLCKSZ, 0, 10 * BLCKSZ);
	expect_paid("VACUUM's compaction, writers wait", 0, false);
	ok(VacuumCostBalance == 0, "nor later");

	paid = 0;
	lsm_vacuum_pay(8 * BLCKSZ);
	expect_paid("a cursor of VACUUM", 8 * 2, true);
	VacuumCostActive = false;
	paid = gave_way = 0;
	lsm_vacuum_pay(8 * BLCKSZ);
	expect_paid("a cursor of others", 0, false);

	printf("1..%d\n", ntests);
	return nfailed > 0;
}

#endif
