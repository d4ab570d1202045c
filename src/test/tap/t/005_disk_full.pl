# A full disk and failing fsync: clear errors, nothing lost, and everything goes on
# when there is room again.  pg_lsm is a small tmpfs if the harness has made one; writes
# are failed by a shim, too.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $load = join(";\n", 'BEGIN',
	(map { "INSERT INTO t_$_ SELECT g, g % 100, (SELECT string_agg(md5((g * 31 + k)::text), '') FROM generate_series(1, 20) k) FROM generate_series(:from, :from + 1999) g" } 'h', 'l'),
	'COMMIT');

sub load
{
	my ($node, $from) = @_;
	(my $sql = $load) =~ s/:from/$from/g;
	return $node->psql('postgres', $sql, on_error_stop => 1, timeout => 120);
}

# fill until an error comes; returns the error and the next row
sub fill
{
	my ($node, $from, $limit) = @_;
	foreach my $i (1 .. $limit)
	{
		my ($rc, $out, $err) = load($node, $from);
		return ($err, $from) if $rc != 0;
		$from += 2000;
	}
	return ('', $from);
}

SKIP:
{
	skip 'no small disk (needs root to mount a tmpfs)', 7 unless $ENV{LSM_SMALL_DISK};
	my $node = lsm_node('tmpfs', conf => "lsm.memtable_memory = 8MB\nlsm.memtable_size = 1MB\nlsm.compression = none\nautovacuum = off");
	lsm_on_small_disk($node);
	lsm_start($node);
	lsm_create_twins($node, 't', 'id int PRIMARY KEY, n int, v text', '(n)');
	my ($err, $next) = fill($node, 1, 60);
	like($err, qr/No space left on device/, 'the disk fills up');
	like($err, qr/pg_lsm/, 'the error names the file');
	unlike($err, qr/PANIC|server closed/, 'the server lives');
	is(lsm_differences($node, 't'), '', 'nothing is lost, nothing is wrong');
	# a restart on the full disk (redo writes files anew that were removed since the last checkpoint: it would want room)
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->stop('immediate');
	$node->start;
	is(lsm_differences($node, 't'), '', 'same after a restart on the full disk');
	# make room; the same rows go in.  A worker's attempt to flush may have the last page for a moment.
	my ($rc, $out, $e);
	foreach (1 .. 30)
	{
		($rc, $out, $e) = $node->psql('postgres', 'TRUNCATE t_l');
		last if $rc == 0;
		usleep(300_000);
	}
	is($rc, 0, 'TRUNCATE') or diag($e);
	$node->safe_psql('postgres', 'DELETE FROM t_h WHERE id > 4000; CHECKPOINT');
	foreach (1 .. 30)
	{
		($rc, $out, $e) = $node->psql('postgres', 'BEGIN; DELETE FROM t_l; INSERT INTO t_l SELECT * FROM t_h; COMMIT; SELECT lsm_flush(\'t_l\')', on_error_stop => 1);
		last if $rc == 0;
		usleep(1_000_000);
		# the failed attempt has left dead rows, as in heap; VACUUM needs room, too
		$node->psql('postgres', 'VACUUM t_l');
		$node->safe_psql('postgres', 'CHECKPOINT');
	}
	is($rc, 0, 'there is room after TRUNCATE and the sweep') or diag($e);
	is(lsm_differences($node, 't'), '', 'same after making room');
	$node->stop;
	lsm_off_small_disk($node);
}

# Trees whose logs do not fit into the memory together are read in turn: nothing can be flushed, so they take it from each other.
SKIP:
{
	skip 'no small disk (needs root to mount a tmpfs)', 5 unless $ENV{LSM_SMALL_DISK};
	my $node = lsm_node('readers', conf => "lsm.memtable_memory = 16MB\nlsm.memtable_size = 2MB\nautovacuum = off");
	lsm_on_small_disk($node);
	lsm_start($node);
	$node->safe_psql('postgres', join(';', map { "CREATE TABLE r_$_ (id int, v text) USING lsm; INSERT INTO r_$_ SELECT g, repeat('x', 200) FROM generate_series(1, 2000) g" } 1 .. 14));
	system("dd if=/dev/zero of=$ENV{LSM_SMALL_DISK}/filler bs=64k 2>/dev/null; dd if=/dev/zero of=$ENV{LSM_SMALL_DISK}/filler2 bs=1 count=65536 2>/dev/null");
	lsm_set($node, 'lsm.memtable_memory' => '4MB');
	$node->stop('immediate');
	$node->start;
	foreach my $few (1, 4, 7)
	{
		# some again and again, and each of the others now and then
		my @turns = map { (1 .. $few, $_) } ($few + 1 .. 14) x 2;
		my ($rc, $out, $e) = $node->psql('postgres', join(';', map { "SELECT count(*) FROM r_$_" } @turns), on_error_stop => 1);
		is($out, join("\n", (2000) x @turns), "full disk: logs are read in turn, $few of them often") or diag($e);
	}
	unlink "$ENV{LSM_SMALL_DISK}/filler", "$ENV{LSM_SMALL_DISK}/filler2";
	is($node->safe_psql('postgres', join(';', map { "SELECT count(*) FROM r_$_" } 1 .. 14)), join("\n", (2000) x 14), 'with room: again');
	is($node->safe_psql('postgres', join(';', map { "SELECT * FROM lsm_verify('r_$_')" } 1 .. 14)), '', 'with room: sound');
	$node->stop;
	lsm_off_small_disk($node);
}

my $dir = PostgreSQL::Test::Utils::tempdir();
$ENV{LD_PRELOAD} = $ENV{LSM_FAULTS_SO};
$ENV{LSM_FAULTS_FULL} = "$dir/full";
$ENV{LSM_FAULTS_EIO} = "$dir/eio";
my $node = lsm_node('shim', conf => "lsm.memtable_memory = 8MB\nlsm.memtable_size = 512kB\nautovacuum = off");
lsm_start($node);
lsm_create_twins($node, 't', 'id int PRIMARY KEY, n int, v text', '(n)');
my ($err, $next) = fill($node, 1, 2);
is($err, '', 'first rows');

foreach my $fault (['full', qr/No space left on device/], ['eio', qr/Input\/output error/])
{
	my ($name, $message) = @$fault;
	append_to_file("$dir/$name", '');
	my ($rc, $out, $e) = $node->psql('postgres', q{INSERT INTO t_l VALUES (0, 0, 'x'); DELETE FROM t_l WHERE id = 0; SELECT lsm_flush('t_l')}, on_error_stop => 1, timeout => 60);
	isnt($rc, 0, "$name: lsm_flush fails");
	like($e, $message, "$name: with the system's error");
	($rc, $out, $e) = $node->psql('postgres', q{SELECT lsm_compact('t_l')}, on_error_stop => 1, timeout => 60);
	isnt($rc, 0, "$name: lsm_compact fails");
	# writers fill the arena and get the error, they do not hang
	($e, $next) = fill($node, $next, 40);
	like($e, $message, "$name: writers get the error");
	is(lsm_differences($node, 't'), '', "$name: nothing is lost");
	($rc, $out, $e) = $node->psql('postgres', 'CREATE INDEX t_new ON t_l USING lsm (v)', timeout => 60);
	isnt($rc, 0, "$name: CREATE INDEX fails");
	unlink "$dir/$name";
	usleep(1_500_000);
	($e, $next) = fill($node, $next, 3);
	is($e, '', "$name: writes go on afterwards");
	$node->safe_psql('postgres', q{SELECT lsm_flush('t_l'); SELECT lsm_compact('t_l'); CREATE INDEX t_new ON t_l USING lsm (v); DROP INDEX t_new});
	is(lsm_differences($node, 't'), '', "$name: same afterwards");
}

# a crash while the disk is full
append_to_file("$dir/full", '');
($err, $next) = fill($node, $next, 40);
my @pids = lsm_pids($node);
lsm_kill_process($node, 'postmaster');
lsm_clear_crashed($node, @pids);
# recovery may need room, as everywhere in PostgreSQL; then it has to say so
if ($node->start(fail_ok => 1))
{
	is(lsm_differences($node, 't'), '', 'same after a crash on a full disk');
	unlink "$dir/full";
}
else
{
	like(slurp_file($node->logfile), qr/FATAL: .*pg_lsm.*No space left on device/, 'no start on a full disk, with a clear error');
	unlink "$dir/full";
	lsm_restart_after_crash($node);
	is(lsm_differences($node, 't'), '', 'same after a crash on a full disk');
}
($err, $next) = fill($node, $next, 3);
is($err, '', 'writes go on');
is(lsm_differences($node, 't'), '', 'same at the end');

# A scan that finds dead entries in sorted files deletes them if it need not ask the disk for
# room: here the pages of the main forks cannot grow, either (the shim goes by the path).
my $space = "$dir/smalldisk";
mkdir $space or die "mkdir: $!";
$node->safe_psql('postgres', "CREATE TABLESPACE small LOCATION '$space'");
$node->safe_psql('postgres', q{CREATE TABLE k_l (id int, v int) USING lsm WITH (autovacuum_enabled = off) TABLESPACE small;
	INSERT INTO k_l SELECT g, g FROM generate_series(1, 3000) g;
	CREATE INDEX k_l_id ON k_l USING lsm (id) TABLESPACE small; SELECT lsm_flush('k_l')});
# dead after the flush only, for the snapshot of an open transaction
my $old = $node->background_psql('postgres');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$node->safe_psql('postgres', q{DELETE FROM k_l WHERE id % 3 > 0; SELECT lsm_flush('k_l')});
$old->query_safe('COMMIT');
$old->quit;
append_to_file("$dir/full", '');
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; ';
my %scans = ('index scan' => $by_index . 'SELECT count(v) FROM k_l WHERE id >= 0',
	'sequential scan' => 'SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(v) FROM k_l',
	'EXPLAIN ANALYZE' => $by_index . 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(v) FROM k_l WHERE id >= 0',
	'a cursor, closed by the commit' => $by_index . 'BEGIN; DECLARE c CURSOR FOR SELECT v FROM k_l WHERE id >= 0; MOVE ALL IN c; COMMIT; SELECT 1000');
foreach my $scan (sort keys %scans)
{
	foreach my $round (1 .. 3)
	{
		my ($rc, $out, $e) = $node->psql('postgres', $scans{$scan});
		is("$rc $e", '0 ', "full disk: $scan $round");
		like($out, qr/\b1000\b/, "full disk: $scan $round: its answer");
	}
}
# the worker that scans ask for room says why there is none, and not all the time
my $worker = q{SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type LIKE 'lsm % worker'};
my $pid = $node->safe_psql('postgres', $worker);
like($pid, qr/^\d+/, 'there are workers');
my $refused = 0;
foreach (1 .. 1200)
{
	$node->safe_psql('postgres', $scans{'index scan'});
	$refused = () = slurp_file($node->logfile) =~ /No space left on device\n(?:.*\n)?.*while making room in the log/g;
	last if $refused > 0;
	usleep(100_000);
}
cmp_ok($refused, '>', 0, 'full disk: the worker cannot make room');
my $until = time + 5;
$node->safe_psql('postgres', $scans{'index scan'}) while time < $until;
my $again = () = slurp_file($node->logfile) =~ /No space left on device\n(?:.*\n)?.*while making room in the log/g;
cmp_ok($again - $refused, '<', 10, "full disk: it tries now and then: $refused, $again");
is($node->safe_psql('postgres', $worker), $pid, 'full disk: it lives');
# the log page in use has room: there they are deleted
unlink "$dir/full";
$node->safe_psql('postgres', q{INSERT INTO k_l VALUES (-1, 0)});
append_to_file("$dir/full", '');
my $start = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
is($node->safe_psql('postgres', $scans{'index scan'}), 1000, 'full disk: room in the log page');
isnt($node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()'), $start, 'full disk: deletions were written');
foreach (1 .. 100)
{
	$node->safe_psql('postgres', "$scans{'index scan'}; $scans{'sequential scan'}");
}
is($node->safe_psql('postgres', $scans{'sequential scan'}), 1001, 'full disk: the page has filled up');
unlink "$dir/full";
is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('k_l')}), '', 'deletions are no damage');
$node->safe_psql('postgres', q{SELECT lsm_flush('k_l'); SELECT lsm_compact('k_l')});
is($node->safe_psql('postgres', $scans{'index scan'}), 1000, 'same after compaction');
$node->safe_psql('postgres', 'DROP TABLE k_l');
$node->safe_psql('postgres', 'DROP TABLESPACE small');
$node->stop;
done_testing();
