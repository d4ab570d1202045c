# A unique index admits no second row of a key, whoever inserts, updates, moves and deletes rows of few hot keys at
# the same time: every statement that inserts, updates of the key and of other columns, savepoints, deferrable
# constraints and exclusion constraints, on lsm and heap tables, beside old snapshots, flushes, compactions, VACUUM
# and REINDEX CONCURRENTLY.  Each table is read sequentially by one snapshot over and over: no key may be there twice,
# and no key that is never deleted may be missing.
#   LSM_SECONDS: for each shape of table (3; long: 600)
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

lsm_seed();
my $seconds = $ENV{LSM_SECONDS} // (lsm_long() ? 600 : lsm_short() ? 1 : 3);
my $node = lsm_node('unique_race',
	conf => "synchronous_commit = off\nfsync = off\nlog_min_messages = fatal\ndeadlock_timeout = 20ms\nlog_min_error_statement = panic");
lsm_start($node);

# Key 1 is there from the first to the last moment, never moved: the others come and go.
sub key { return 1 + int(rand(4)); }

# a key other than 1, which rows may leave and enter
sub free_key { return 2 + int(rand(3)); }

my @insert = (
	sub { my $k = key(); "INSERT INTO t VALUES ($k, 0);" },
	sub { my $k = key(); "INSERT INTO t VALUES ($k, 0) ON CONFLICT DO NOTHING;" },
	sub { my $k = key(); "INSERT INTO t VALUES ($k, 0) ON CONFLICT (id) DO NOTHING;" },
	sub { my $k = key(); "INSERT INTO t SELECT $k, 0;" },
	sub { "INSERT INTO t SELECT g, 0 FROM generate_series(2, 40) g WHERE g <= 4 OR g > 20;" },
	sub { my $k = key(); "BEGIN; SAVEPOINT a; INSERT INTO t VALUES ($k, 0); COMMIT;" },
	sub { my $k = key(); "WITH n AS (SELECT $k AS k) INSERT INTO t SELECT k, 0 FROM n;" },
	sub { my $k = key(); "COPY t FROM stdin;\n$k\t0\n\\.\n" },
	sub { my $k = key(); "MERGE INTO t USING (VALUES ($k)) s(k) ON id = k WHEN NOT MATCHED THEN INSERT VALUES (k, 0);" },
);
my @upsert = (
	sub { my $k = key(); "INSERT INTO t VALUES ($k, 0) ON CONFLICT (id) DO UPDATE SET v = t.v + 1;" },
	sub { my $k = key(); "MERGE INTO t USING (VALUES ($k)) s(k) ON id = k WHEN MATCHED THEN UPDATE SET v = v + 1 WHEN NOT MATCHED THEN INSERT VALUES (k, 0);" },
);
my @update = (
	sub { my $k = key(); "UPDATE t SET v = v + 1 WHERE id = $k;" },
	sub { my $k = key(); "UPDATE t SET v = v + 1, id = $k WHERE id = $k;" },
	sub { my $k = key(); "BEGIN; UPDATE t SET v = v + 1 WHERE id = $k; SAVEPOINT a; UPDATE t SET v = v + 1 WHERE id = $k; ROLLBACK TO a; UPDATE t SET v = v + 2 WHERE id = $k; COMMIT;" },
	sub { my $k = key(); "BEGIN; UPDATE t SET v = v + 1 WHERE id = $k; ROLLBACK;" },
	sub { my $k = key(); "BEGIN; SELECT FROM t WHERE id = $k FOR UPDATE; UPDATE t SET v = v + 1 WHERE id = $k; COMMIT;" },
);
my @move = (
	sub { my ($a, $b) = (free_key(), free_key()); "UPDATE t SET id = $b WHERE id = $a;" },
	sub { my $k = free_key(); "DELETE FROM t WHERE id = $k;" },
	sub { my $k = free_key(); "BEGIN; DELETE FROM t WHERE id = $k; INSERT INTO t VALUES ($k, 1); COMMIT;" },
	sub { my $k = free_key(); "DELETE FROM t WHERE id > 20;" },
);
my @house = (
	sub { "SELECT lsm_flush('t');" },
	sub { "SELECT lsm_compact('t');" },
	sub { "VACUUM t;" },
	sub { "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; SELECT pg_sleep(0.2); COMMIT;" },
	sub { "SELECT pg_sleep(0.05);" },
);

# A session that runs statements of the list until the time has come, whatever becomes of each.
sub session
{
	my ($until, @kinds) = @_;
	my $seed = int(rand(2**31));
	my $pid = fork() // die "fork: $!";
	return $pid if $pid;
	srand($seed);
	open(STDOUT, '>', '/dev/null');
	open(STDERR, '>', '/dev/null');
	my $psql = open(my $out, '|-', 'psql', '-XAtq', '-d', $node->connstr('postgres')) or POSIX::_exit(1);
	$out->autoflush(1);
	$SIG{PIPE} = 'IGNORE';
	$SIG{TERM} = sub { $until = 0 };
	print $out $kinds[ rand @kinds ]->(), "\n" while time < $until;

	# what is still in the pipe is not waited for
	kill 'KILL', $psql;
	waitpid($psql, 0);
	POSIX::_exit(0);
}

# What one sequential scan sees that may not be, and what scans by index see of the key that is always there.
sub problems
{
	return $node->safe_psql('postgres', q{
SET enable_seqscan = off;
CREATE FUNCTION pg_temp.by_index() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	n int;
	way text;
BEGIN
	FOREACH way IN ARRAY '{index,bitmap,indexonly}'::text[] LOOP
		PERFORM set_config('enable_' || w || 'scan', (w = way)::text, false) FROM unnest('{index,bitmap,indexonly}'::text[]) w;
		FOR i IN 1..100 LOOP
			EXECUTE 'SELECT count(id) FROM t WHERE id = 1' INTO n;
			IF n <> 1 THEN
				RETURN NEXT format('%s rows with key 1 by %s scan', n, way);
				RETURN;
			END IF;
		END LOOP;
	END LOOP;
END $$;
SELECT pg_temp.by_index();
SET enable_seqscan = on; SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
WITH rows AS MATERIALIZED (SELECT id, count(*) AS n FROM t GROUP BY id)
SELECT format('%s rows with key %s', n, id) FROM rows WHERE n > 1
UNION ALL SELECT 'key 1 is gone' WHERE NOT EXISTS (SELECT FROM rows WHERE id = 1)});
}

sub race
{
	my ($name, $create, @sessions) = @_;
	$node->safe_psql('postgres', "DROP TABLE IF EXISTS t; $create; INSERT INTO t SELECT g, 0 FROM generate_series(1, 4) g; SELECT lsm_flush('t')");
	my $until = time + $seconds;
	my @pids = map { session($until, @$_) } @sessions;
	my $wrong = '';
	my $looks = 0;
	my $verified = time;

	while (time < $until && $wrong eq '')
	{
		$wrong = problems();
		if (time > $verified + 60)
		{
			$wrong .= $node->safe_psql('postgres', "SELECT object || ': ' || problem FROM lsm_verify('t')");
			$verified = time;
		}
		$looks++;
	}
	kill 'TERM', @pids if $wrong ne '';
	waitpid($_, 0) foreach @pids;

	# their last statements run on for a moment
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'");
	$wrong = problems() if $wrong eq '';
	is($wrong, '', "$name: no key twice, none lost ($looks looks)");
	is($node->safe_psql('postgres', "SELECT object || ': ' || problem FROM lsm_verify('t')"), '', "$name: lsm_verify");
	my $values = $node->safe_psql('postgres', 'SELECT sum(v) FROM t');
	cmp_ok($values, '>', 0, "$name: rows were updated ($values times)");
	return;
}

# One step at a time: between what a statement reads and what it writes, another session does the same.  Each table has
# one tree that is written to.
$node->safe_psql('postgres', 'CREATE TABLE keyed (id int) USING heap; CREATE UNIQUE INDEX ON keyed USING lsm (id); CREATE TABLE summed (n int) USING lsm; INSERT INTO summed VALUES (0)');
foreach my $case (['INSERT INTO keyed VALUES (1)', 'SELECT count(*) FROM keyed', 1], ['UPDATE summed SET n = n + 1', 'SELECT n FROM summed', 2])
{
	my ($change, $look, $expected) = @$case;
	lsm_hold($node, 'write_begun', 'backend', 0);
	my $pid = lsm_start_session($node, 'postgres', 'slow', "SET lsm.crash_point = '?'; $change");
	ok(lsm_wait_held($node), "$change: the first session has read");
	$node->safe_psql('postgres', $change);
	lsm_release($node);
	lsm_ended($pid);
	is($node->safe_psql('postgres', $look), $expected, "$change: the first session reads again");
}

my @all = ([@insert], [@insert], [@insert, @upsert], [@update], [@update], [@update, @move], [@house]);

# the narrow race itself: one session updates one key, others insert it
my @narrow = (
	[ sub { 'UPDATE t SET v = v + 1 WHERE id = 1;' } ],
	[ sub { 'INSERT INTO t VALUES (1, 0);' } ],
	[ sub { 'INSERT INTO t VALUES (1, 0) ON CONFLICT DO NOTHING;' } ]);

# updates make new rows
my $moves = '; CREATE INDEX ON t (v) WHERE v IS NULL';
foreach my $how ('in place', 'moved')
{
	my $create = 'CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm' . ($how eq 'moved' ? $moves : '');
	race("one hot key, $how", $create, @narrow);
	race("one hot key, $how, beside flushes and old snapshots", $create, @narrow, [@house]);
}
race('all statements, lsm table', 'CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm', @all);
race('all statements, lsm table with more keys', 'CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm; CREATE UNIQUE INDEX ON t USING lsm (id, (0)); CREATE INDEX ON t USING lsm (v)', @all);
race('all statements, heap table', 'CREATE TABLE t (id int, v int) USING heap; CREATE UNIQUE INDEX ON t USING lsm (id)', @all);
race('all statements, heap table without HOT', 'CREATE TABLE t (id int, v int) USING heap; CREATE UNIQUE INDEX ON t USING lsm (id); CREATE INDEX ON t USING lsm (v)', @all);
race('deferred constraint' . ($_ ? ', rows move' : ''), "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v int) USING lsm$_",
	[@insert[0, 3, 4, 5, 6, 7]], [@insert[0, 3, 4, 5, 6, 7]], [@update], [@update, @move], [@house]) foreach '', $moves;
race('deferrable constraint', "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, v int) USING lsm$moves",
	[@insert[0, 3, 4, 5, 6, 7]], [@insert[0, 3, 4, 5, 6, 7]], [@update], [@update, @move], [@house]);
race('exclusion constraint', "CREATE TABLE t (id int, v int, EXCLUDE USING lsm_index (id WITH =)) USING lsm$moves",
	[@insert[0, 1, 3, 5, 6, 7]], [@insert[0, 1, 3, 5, 6, 7]], [@update], [@update, @move], [@house]);
race('built and reindexed concurrently', 'CREATE TABLE t (id int, v int) USING lsm; CREATE UNIQUE INDEX t_key ON t USING lsm (id)', @all,
	[ sub { 'REINDEX INDEX CONCURRENTLY t_key;' } ]);

$node->stop;
done_testing();
