# Files of a job that is not published go on the standby, too, if they were logged: the relation's lock is not to be had, the
# job fails, its process is terminated, the primary is killed.  What a crash left of writing an owner file goes with the first
# load.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

my $primary = lsm_node('primary', conf => "max_wal_senders = 8\nwal_keep_size = 512MB\nmax_wal_size = 1GB\nautovacuum = off\nfsync = off\n"
	  . "lsm.compression = 'none'\nlsm.memtable_size = 8MB\nlsm.target_file_size = 2MB\nlsm.crash_point = '?'");
$primary->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($primary);
$primary->backup('first', backup_options => [ '-c', 'fast', '--no-sync' ]);
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'first', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', q{CREATE TABLE t (a int, b text) USING lsm});
my $relid = $primary->safe_psql('postgres', q{SELECT 't'::regclass::oid});
my ($rows, $last) = (0, 0);

# Another run of 2 MB, over the others
sub another
{
	my $from = $last + 1;
	$rows += 15000;
	$last += 15000;
	return "INSERT INTO t SELECT i, repeat(md5(i::text), 4) FROM generate_series($from, $last) i; UPDATE t SET b = repeat(md5(b), 4) WHERE a % 5 = 0; SELECT lsm_flush('t');";
}

sub add { return $primary->safe_psql('postgres', another()); }

sub caught_up
{
	my $lsn = $primary->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	return $standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'") || die 'the standby does not catch up';
}

# No job is at work
sub idle
{
	return $primary->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_lsm_progress}) || die 'a job does not end';
}

# Names of files that the list of files does not have; there is one keyspace
sub strays
{
	my ($node) = @_;
	my %listed = map { sprintf('%06d', $_) => 1 } split /\n/, $primary->safe_psql('postgres', q{SELECT file FROM lsm_files('t')});
	my @names = map { m,([^/]+)$, } lsm_files_of($node, qr/^\d+\./);
	return join(' ', grep { /^(\d+)\.(sst|flt)$/ ? !$listed{$1} : 1 } @names);
}

sub no_strays
{
	my ($what) = @_;
	idle();
	caught_up();
	my ($there, $end) = ('?', time + 20);

	# (a reader's epoch may have to pass: with the next edit; a worker's files go in its next round)
	while (time < $end)
	{
		last if ($there = strays($standby) . '/' . strays($primary)) eq '/';
		$primary->safe_psql('postgres', q{INSERT INTO t SELECT 0, 'x' FROM generate_series(1, 10); SELECT lsm_flush('t'); DELETE FROM t WHERE a = 0});
		idle();
		caught_up();
		usleep(100_000);
	}
	is($there, '/', "$what: none stays on the standby or the primary");
	is($_->safe_psql('postgres', 'SELECT count(*), count(DISTINCT a) FROM t'), "$rows|$rows", "$what: rows, " . $_->name) foreach $primary, $standby;
	is($standby->safe_psql('postgres', q{SELECT count(*) FROM lsm_verify('t')}), '0', "$what: lsm_verify on the standby");
	return;
}

# ---- a job that fails ----

# The worker may come first, and leave nothing to compact
sub fails
{
	my ($what, $sql) = @_;
	my $compact = q{SET lsm.crash_point = 'compact_before_edit!'; SELECT lsm_compact('t')};
	my ($rc, $out, $err);
	foreach (1 .. 10)
	{
		($rc, $out, $err) = $primary->psql('postgres', another() . sprintf($sql, $compact), on_error_stop => 0);
		last if $err ne '';
	}
	like($err, qr/error at crash point/, "$what: before the edit");
	return;
}

add() foreach 1 .. 3;
no_strays('before');
fails('an error', '%s');
no_strays('an error');
fails('a subtransaction', q{BEGIN; INSERT INTO t VALUES (-1, 'subtransaction'); SAVEPOINT s; INSERT INTO t VALUES (-2, 'subtransaction'); %s; ROLLBACK TO s; SAVEPOINT s2; INSERT INTO t VALUES (-3, 'subtransaction'); ROLLBACK});
no_strays('a subtransaction');

# ---- a session that is terminated amid a file ----

add();
lsm_hold($primary, 'chunk_logged', 'backend', $relid);
my $session = lsm_start_session($primary, 'postgres', 'terminated', q{SELECT lsm_compact('t')});
ok(lsm_wait_held($primary), 'held amid a file');
$primary->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ 'lsm_compact' AND pid <> pg_backend_pid()});
lsm_release($primary);
ok(lsm_ended($session), 'it ends');
no_strays('terminated');

# ---- a worker that cannot have the lock ----

lsm_hold($primary, 'compact_file_written', 'worker', $relid);
foreach (1 .. 20)
{
	add();
	last if lsm_wait_held($primary, 1);
}
ok(lsm_wait_held($primary, 1), 'a worker compacts');
my $locker = $primary->background_psql('postgres', on_error_stop => 1);
$locker->query_safe('BEGIN; LOCK TABLE t IN SHARE MODE');
lsm_release($primary);
idle();

# (a job's row goes before its files do)
my $left;
for (1 .. 100)
{
	caught_up();
	last if ($left = strays($standby)) eq '';
	usleep(100_000);
}
is($left, '', 'the lock is not to be had: none stays on the standby');
$locker->query_safe('COMMIT');
$locker->quit;
no_strays('the lock is not to be had');

# ---- the primary is killed ----

foreach my $point ('compact_before_edit', 'chunk_logged:1', 'chunk_logged:2', 'chunk_logged:3')
{
	# the session's job, or a worker's
	my $sql = another();
	$sql .= another() if $point =~ /^compact/;
	lsm_set($primary, 'lsm.crash_point' => $point);
	$primary->reload;
	my @pids = lsm_pids($primary);
	lsm_start_session($primary, 'postgres', 'killed', "$sql SELECT lsm_compact('t')");
	lsm_clear_crashed($primary, @pids);
	lsm_set($primary, 'lsm.crash_point' => '?');
	my $owner = (glob(lsm_dir($primary) . '/*/owner'))[0];
	append_to_file("$owner.tmp.12345", "5 1663 1 -1\n");
	$primary->start;

	# (amid it, a restart)
	$standby->restart if $point =~ /2/;
	$rows = $primary->safe_psql('postgres', 'SELECT count(*) FROM t');
	ok(!-e "$owner.tmp.12345" && -e $owner, "killed at $point: what was to become the owner file is gone");
	no_strays("killed at $point");
	$primary->safe_psql('postgres', q{SELECT lsm_compact('t')});
}

# ---- a file that redo makes again after a crash ----

$primary->safe_psql('postgres', 'CHECKPOINT');
fails('a crash soon', '%s');
$primary->stop('immediate');
$standby->stop('immediate');
$primary->start;
$standby->start;
no_strays('both crash');
$primary->stop;
$standby->promote;
is($standby->safe_psql('postgres', 'SELECT count(*), count(DISTINCT a) FROM t'), "$rows|$rows", 'promoted');
$standby->stop;
done_testing();
