# A full disk and failing fsync: clear errors, nothing lost, and everything goes on
# when there is room again.  pg_lsm is a small tmpfs if the harness has made one; writes
# are failed by a shim, too.
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
	skip 'no small disk (needs root to mount a tmpfs)', 6 unless $ENV{LSM_SMALL_DISK};
	my $node = lsm_node('tmpfs', conf => "lsm.memtable_memory = 8MB\nlsm.memtable_size = 1MB\nlsm.compression = none\nautovacuum = off");
	symlink($ENV{LSM_SMALL_DISK}, lsm_dir($node)) or die "symlink: $!";
	lsm_start($node);
	lsm_create_twins($node, 't', 'id int PRIMARY KEY, n int, v text', '(n)');
	my ($err, $next) = fill($node, 1, 60);
	like($err, qr/No space left on device/, 'the disk fills up');
	like($err, qr/pg_lsm/, 'the error names the file');
	unlike($err, qr/PANIC|server closed/, 'the server lives');
	is(lsm_differences($node, 't'), '', 'nothing is lost, nothing is wrong');
	# a restart on the full disk
	$node->stop('immediate');
	$node->start;
	is(lsm_differences($node, 't'), '', 'same after a restart on the full disk');
	# make room; the same rows go in
	$node->safe_psql('postgres', 'DELETE FROM t_h WHERE id > 4000; TRUNCATE t_l; CHECKPOINT');
	my ($rc, $out, $e);
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
	unlink lsm_dir($node);
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
$node->stop;
done_testing();
