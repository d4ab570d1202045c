# pgbench TPC-B with kill -9 in the middle: balances add up; concurrent clients agree.
#   LSM_SCALE (2; long: 50)  LSM_SECONDS (6; long: 60)
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX ();
use Time::HiRes qw(usleep);

my $scale = $ENV{LSM_SCALE} // (lsm_long() ? 50 : 2);
my $seconds = $ENV{LSM_SECONDS} // (lsm_long() ? 60 : 6);
my $node = lsm_node('pgbench', conf => "default_table_access_method = lsm\nlsm.memtable_size = 1MB\nlsm.target_file_size = 1MB\nlog_min_messages = error");
lsm_start($node);
$node->command_ok([ 'pgbench', '-i', '-q', '-s', $scale, $node->connstr('postgres') ], 'pgbench -i');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'lsm_index'}), '3',
	'primary keys are in lsm_index');

my $balances = q{SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history),
(SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history),
(SELECT sum(bbalance) FROM pgbench_branches) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history),
(SELECT count(*) FROM pgbench_accounts) = } . $scale * 100000;

sub verify_all
{
	my ($when) = @_;
	is($node->safe_psql('postgres', $balances), 't|t|t|t', "balances add up $when");
	is($node->safe_psql('postgres', q{SELECT c.relname, v.* FROM pg_class c, LATERAL lsm_verify(c.oid) v WHERE c.relname ~ '^pgbench_.*[^y]$' AND relkind = 'r'}),
		'', "lsm_verify $when");
	return;
}

sub pgbench
{
	my ($time, @options) = @_;
	my $pid = fork();
	if ($pid == 0)
	{
		open(STDOUT, '>', "$ENV{TESTDIR}/pgbench.out");
		open(STDERR, '>&', \*STDOUT);
		exec('pgbench', '-n', '-c', '4', '-j', '2', '-T', $time, @options, $node->connstr('postgres')) or POSIX::_exit(99);
	}
	return $pid;
}

my $pid = pgbench($seconds);
waitpid($pid, 0);
is($?, 0, 'TPC-B runs') or diag(slurp_file("$ENV{TESTDIR}/pgbench.out"));
verify_all('after a run');

foreach my $what ('postmaster', 'worker', 'backend', 'postmaster')
{
	$pid = pgbench($seconds, '-M', 'prepared');
	usleep(500_000 * $seconds * (0.5 + rand()));
	my @pids = lsm_pids($node);
	lsm_kill_process($node, $what);
	waitpid($pid, 0);
	if ($what eq 'postmaster') { lsm_restart_after_crash($node, @pids); }
	else { lsm_wait_up($node); }
	verify_all("after killing a $what");
}

# counters under a key queue: no lost or doubled row with SKIP LOCKED
$node->safe_psql('postgres', q{CREATE TABLE queue (id int PRIMARY KEY, taken int DEFAULT 0);
INSERT INTO queue SELECT generate_series(1, 2000);
CREATE TABLE done (id int, by int);});
append_to_file("$ENV{TESTDIR}/queue.sql", q{BEGIN;
WITH j AS (SELECT id FROM queue WHERE taken = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED),
u AS (UPDATE queue q SET taken = taken + 1 FROM j WHERE q.id = j.id RETURNING q.id)
INSERT INTO done SELECT id, :client_id FROM u;
COMMIT;
});
$node->command_ok([ 'pgbench', '-n', '-c', '8', '-j', '2', '-t', '300', '-f', "$ENV{TESTDIR}/queue.sql", $node->connstr('postgres') ], 'queue with 8 clients');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM done'), '2000|2000', 'no job lost or done twice');
is($node->safe_psql('postgres', 'SELECT count(*) FROM queue WHERE taken <> 1'), '0', 'each taken once');
is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('queue')}), '', 'lsm_verify');

# a reader finds exactly one row of a key that others update all the time
$node->safe_psql('postgres', q{CREATE TABLE hot (id int PRIMARY KEY, n int);
INSERT INTO hot VALUES (1, 0), (2, 0), (3, 0);
CREATE FUNCTION check_hot(k int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	found int;
BEGIN
	SELECT count(*) INTO found FROM hot WHERE id = k;
	IF found <> 1 THEN
		RAISE EXCEPTION 'index scan finds % rows of id %', found, k;
	END IF;
	SELECT count(*) INTO found FROM hot WHERE id >= k AND id <= k;
	IF found <> 1 THEN
		RAISE EXCEPTION 'range scan finds % rows of id %', found, k;
	END IF;
	SELECT count(*) INTO found FROM hot;
	IF found <> 3 THEN
		RAISE EXCEPTION 'scan finds % rows', found;
	END IF;
END $$;});
append_to_file("$ENV{TESTDIR}/hot_update.sql", "\\set id random(1, 3)\nUPDATE hot SET n = n + 1 WHERE id = :id;\n");
append_to_file("$ENV{TESTDIR}/hot_check.sql", "\\set id random(1, 3)\nSELECT check_hot(:id);\n");
foreach my $way ('enable_indexscan', 'enable_bitmapscan')
{
	local $ENV{PGOPTIONS} = join(' ', map { "-c $_=" . ($_ eq $way ? 'on' : 'off') } qw(enable_seqscan enable_indexscan enable_bitmapscan));
	my $before = $node->safe_psql('postgres', 'SELECT sum(n) FROM hot');
	$node->command_ok([ 'pgbench', '-n', '-c', '6', '-j', '2', '-t', '1500', '-f', "$ENV{TESTDIR}/hot_update.sql", '-f', "$ENV{TESTDIR}/hot_check.sql", $node->connstr('postgres') ],
		"one row per hot key, $way");
}
is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('hot')}), '', 'lsm_verify');

# unique keys under concurrent inserts
$node->safe_psql('postgres', 'CREATE TABLE u (id int PRIMARY KEY, client int)');
append_to_file("$ENV{TESTDIR}/unique.sql", q{\set id random(1, 3000)
DO $$ BEGIN INSERT INTO u VALUES (:id, :client_id); EXCEPTION WHEN unique_violation THEN NULL; END $$;
DELETE FROM u WHERE id = :id / 2;
});
$node->command_ok([ 'pgbench', '-n', '-c', '8', '-j', '2', '-t', '500', '-f', "$ENV{TESTDIR}/unique.sql", $node->connstr('postgres') ], 'unique inserts with 8 clients');
is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT id FROM u GROUP BY id HAVING count(*) > 1) d'), '0', 'no duplicate');
is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('u')}), '', 'lsm_verify');
$node->stop;
done_testing();
