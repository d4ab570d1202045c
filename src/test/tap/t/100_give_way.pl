# Where all processors are busy, a background job works for a part of the time only (lsm.background_share), but for
# all of it if it is urgent or somebody waits for it: the worker is seen napping, or it is not.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use Time::HiRes qw(time usleep);

my $node = lsm_node('give_way', wal_level => 'minimal', conf => "max_wal_senders = 0\nautovacuum = off\nfsync = off\nsynchronous_commit = off\nlsm.crash_point = '?'\nlsm.background_share = 1\nlsm.memtable_size = 64MB\nlsm.memtable_memory = 256MB\nlsm.target_file_size = 32MB\nlsm.compaction_workers = 1");
lsm_start($node);
my $worker = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'lsm % worker' AND application_name = ''}) || '';
($worker) = grep { slurp_file("/proc/$_/cmdline") =~ /lsm compaction worker/ } split /\n/, $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'lsm%'});
ok($worker, 'the compaction worker is known');

# the worker at work, and what it waits for
sub naps
{
	return $node->safe_psql('postgres', qq{SELECT wait_event_type = 'Extension' FROM pg_stat_activity JOIN pg_stat_lsm_progress USING (pid) WHERE pid = $worker}) eq 't';
}

# how often it is seen napping until its job is over
sub naps_to_the_end
{
	my ($seen, $naps) = (0, 0);
	while ($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_lsm_progress WHERE relid = 't_k'::regclass}))
	{
		$seen++;
		$naps++ if naps();
	}
	note("seen $seen times, $naps times napping");
	return $naps;
}

sub wait_until
{
	my ($condition, $what) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	usleep(1000) while !$condition->() && time < $end;
	return ok($condition->(), $what);
}

my @hogs;
sub hogs_start
{
	my $n = 3 * (() = slurp_file("/proc/cpuinfo") =~ /^processor\s*:/mg);
	foreach (1 .. $n)
	{
		my $pid = fork() // die "fork: $!";
		if ($pid == 0)
		{
			# a group of its own, if the kernel schedules by session
			POSIX::setsid();
			my $end = time + 300;
			1 while time < $end;
			POSIX::_exit(0);
		}
		push @hogs, $pid;
	}
	return;
}

sub hogs_end
{
	kill 'KILL', @hogs;
	waitpid($_, 0) foreach splice @hogs;
	return;
}
END { hogs_end(); }

# four runs, which are one step of compaction; the worker is held before it
$node->safe_psql('postgres', q{CREATE TABLE t (k text, n int) USING lsm; CREATE INDEX t_k ON t USING lsm (k)});
my $index = $node->safe_psql('postgres', q{SELECT 't_k'::regclass::oid});
lsm_hold($node, 'compact_started', 'worker', $index);
$node->safe_psql('postgres', qq{INSERT INTO t SELECT md5(i::text) || md5((-i)::text), i FROM generate_series($_ * 200000, $_ * 200000 + 199999) i; SELECT lsm_flush('t_k')}) foreach 1 .. 4;
ok(lsm_wait_held($node), 'a compaction of the index begins');
hogs_start();
lsm_release($node);
my $napping = 0;
wait_until(sub { $napping++ if naps(); return $napping >= 10; }, 'lsm.background_share = 1: it naps beside others');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_lsm_progress WHERE relid = 't_k'::regclass}), '1', 'the compaction is in progress');

# a new setting counts at once
lsm_set($node, 'lsm.background_share' => 100);
$node->reload;
wait_until(sub { return !naps() && !naps(); }, 'with 100 it wakes up');
cmp_ok(naps_to_the_end(), '<=', 1, 'and works to the end');

# who waits for it is not kept waiting
lsm_set($node, 'lsm.background_share' => 1);
$node->reload;
hogs_end();
ok($node->poll_query_until('postgres', q{SELECT current_setting('lsm.background_share') = '1'}), 'lsm.background_share = 1');
lsm_hold($node, 'compact_started', 'worker', $index);
$node->safe_psql('postgres', qq{INSERT INTO t SELECT md5(i::text) || md5((-i)::text), i FROM generate_series($_ * 200000, $_ * 200000 + 199999) i; SELECT lsm_flush('t_k')}) foreach 11 .. 14;
ok(lsm_wait_held($node), 'another compaction begins');
hogs_start();
my $request = lsm_start_session($node, 'postgres', 'request', q{SELECT lsm_compact('t_k')});
ok($node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%lsm_compact%' AND pid <> pg_backend_pid() AND wait_event IS NOT NULL}), 'lsm_compact() waits');
lsm_release($node);
is(naps_to_the_end(), 0, 'a worker that lsm_compact() waits for does not nap');
hogs_end();
ok(lsm_ended($request), 'lsm_compact() ends');
is($node->safe_psql('postgres', q{SELECT count(*) FROM lsm_verify('t')}), '0', 'lsm_verify');
is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FROM t WHERE k >= ''}), '1600000', 'all rows are found');
$node->stop;
done_testing();
