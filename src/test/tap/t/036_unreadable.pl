# What cannot be read costs its own tree's work and nobody else's: the workers flush and compact
# everything else, say once what is wrong, and go on when it is mended.  Fast shutdowns are quiet.
# CREATE DATABASE copies a template beside flushes and compactions, every time.
#   LSM_LONG: more copies (LSM_COPIES: so many)
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

my $node = lsm_node('unreadable', conf => "autovacuum = off\nfsync = off\nlsm.compaction_workers = 1\nlsm.memtable_size = 64kB\nlsm.target_file_size = 64kB\nmax_wal_size = 1GB\ncheckpoint_timeout = 1h");
lsm_start($node);

sub dir_of
{
	my ($rel, $db) = @_;
	my ($dboid, $node_no) = split /\|/, $node->safe_psql($db // 'postgres', "SELECT (SELECT oid FROM pg_database WHERE datname = current_database()), pg_relation_filenode('$rel')");
	foreach my $file (glob(lsm_dir($node) . '/*/owner'))
	{
		open(my $fh, '<', $file) or next;
		local $/;
		return $file =~ s{/owner$}{}r if (<$fh> // '') =~ /^$dboid \d+ $node_no /m;
	}
	die "no directory of $rel";
}

# write until the workers have flushed and compacted the table again
sub background_goes_on
{
	my ($rel, $what) = @_;
	my $counts = "SELECT sum(flushes), sum(compactions) FROM pg_stat_lsm WHERE relname LIKE '$rel%'";
	my ($flushes, $compactions) = split /\|/, $node->safe_psql('postgres', $counts);
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my ($f, $c) = (0, 0);
	while (time < $end)
	{
		$node->safe_psql('postgres', "INSERT INTO $rel SELECT g, md5(random()::text) FROM generate_series(1, 1500) g ON CONFLICT (id) DO UPDATE SET v = excluded.v");
		($f, $c) = split /\|/, $node->safe_psql('postgres', $counts);
		last if $f > $flushes + 1 && $c > $compactions + 1;
		usleep(50_000);
	}
	cmp_ok($f, '>', $flushes + 1, "$what: memtables of another table are flushed");
	cmp_ok($c, '>', $compactions + 1, "$what: and its files compacted");
	return;
}

sub log_since { my ($offset) = @_; return substr(slurp_file($node->logfile), $offset); }

foreach my $workers (1, 0)
{
	lsm_set($node, 'lsm.compaction_workers' => $workers);
	$node->restart;
	foreach my $t (qw(bad good gone))
	{
		$node->safe_psql('postgres', qq{DROP TABLE IF EXISTS $t; CREATE TABLE $t (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO $t SELECT g, md5(g::text) FROM generate_series(1, 3000) g; SELECT lsm_flush('$t');});
	}
	my $dir = dir_of('bad');
	my $gone = dir_of('gone');
	system('cp', '-p', "$dir/owner", "$dir/owner.saved") == 0 or die;
	my %damage = (
		'without permission' => sub { chmod(0, $_[0]) },
		'a directory in its place' => sub { unlink $_[0]; mkdir $_[0] },
		'empty' => sub { truncate($_[0], 0) },
		'garbage' => sub { truncate($_[0], 0); append_to_file($_[0], "\0\xff" x 100_000) },
		'missing' => sub { unlink $_[0] },
		'a symbolic link to itself' => sub { unlink $_[0]; symlink($_[0], $_[0]) });
	foreach my $how ($workers == 1 || lsm_long() ? sort keys %damage : 'a directory in its place')
	{
		my $what = "owner file $how, " . ($workers + 1) . ' worker(s)';
		$damage{$how}->("$dir/owner");
		my $offset = -s $node->logfile;

		# as root, nothing is without permission
		my $unreadable = $how =~ /directory|link/ || ($how =~ /permission/ && $> != 0);

		# the workers meet the file when they unlink what they have replaced, and in the sweep
		my ($rc, $out, $err) = $node->psql('postgres', q{UPDATE bad SET v = v || 'x'; SELECT lsm_flush('bad'); SELECT lsm_compact('bad')});
		is($rc, 0, "$what: lsm_compact has done what it was asked for") or diag($err);
		if ($unreadable)
		{
			like($err, qr/WARNING:  could not read file "pg_lsm.*owner"/, "$what: it warns of what it could not clean up");
		}
		$node->safe_psql('postgres', q{INSERT INTO bad SELECT g, md5(random()::text) FROM generate_series(1, 3000) g ON CONFLICT (id) DO UPDATE SET v = excluded.v});
		background_goes_on('good', $what);
		is($node->safe_psql('postgres', q{SELECT count(*) FROM lsm_verify('bad')}), 0, "$what: its table is sound");
		usleep(2_500_000) if $unreadable;
		my $log = log_since($offset);
		unlike($log, qr/ERROR|FATAL|PANIC/, "$what: no error");
		my @said = $log =~ /(WARNING:  could not read file "pg_lsm)/g;
		cmp_ok(scalar(@said), '<=', 8, "$what: said once by each process");
		rmdir "$dir/owner";
		unlink "$dir/owner";
		system('cp', '-p', "$dir/owner.saved", "$dir/owner") == 0 or die;
	}
	unlink "$dir/owner.saved";

	# sorted files that the worker cannot read: each tree's own trouble
	my @hurt;
	foreach my $t (qw(hurt1 hurt2 hurt3))
	{
		$node->safe_psql('postgres', qq{DROP TABLE IF EXISTS $t; CREATE TABLE $t (id int, v text) USING heap; CREATE INDEX ${t}_v ON $t USING lsm (v);
INSERT INTO $t SELECT g, md5(g::text) FROM generate_series(1, 2000) g; SELECT lsm_flush('$t'); SELECT lsm_compact('$t');});
		my ($sst) = sort { -s $b <=> -s $a } glob(dir_of("${t}_v") . '/*.sst');
		open(my $fh, '+<:raw', $sst) or die;
		seek($fh, 2000, 0);
		print $fh 'damaged' x 20;
		close $fh;
		push @hurt, $sst;
	}
	my $offset = -s $node->logfile;
	foreach (1 .. 6)
	{
		$node->psql('postgres', "INSERT INTO $_ SELECT g, md5(random()::text) FROM generate_series(1, 1000) g; SELECT lsm_flush('$_')") foreach qw(hurt1 hurt2 hurt3);
	}
	background_goes_on('good', 'damaged sorted files, ' . ($workers + 1) . ' worker(s)');
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $log;
	do { usleep(200_000); $log = log_since($offset); }
	  while (time < $end && $log !~ /WARNING:  .*pg_lsm.*is corrupt.*(?s:.*)left alone for 10 seconds/);
	like($log, qr/WARNING:  .*"pg_lsm\/[^"]*sst" is corrupt/, 'the worker names the file');
	like($log, qr/while compacting LSM tree "pg_lsm\/[0-9a-f]+"; left alone for \d+ seconds/, 'and says for how long it leaves the tree alone');
	# (a session that has to compact for itself before it may write meets the error)
	unlike($log, qr/\[\d+\] ERROR:/, 'and raises no error');
	$node->safe_psql('postgres', "DROP TABLE $_") foreach qw(hurt1 hurt2 hurt3);

	# a relation's file that cannot be read keeps dropped trees' files, and nothing else
  SKIP:
	{
		skip 'as root, nothing is without permission', 5 if $> == 0;
		$node->safe_psql('postgres', 'DROP TABLE IF EXISTS heap; CREATE TABLE heap (a int) USING heap; INSERT INTO heap VALUES (1); CHECKPOINT');
		my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('heap')});
		chmod(0, $path);
		my $blind = -s $node->logfile;
		$node->safe_psql('postgres', 'DROP TABLE gone');
		background_goes_on('good', 'a heap file unreadable');
		for (1 .. 1200) { last if log_since($blind) =~ /could not read "base/; usleep(100_000); }
		like(log_since($blind), qr/WARNING:  could not read "base\/\d+\/\d+": Permission denied/, 'a warning names it');
		ok(-d $gone, 'what it might name is kept');
		unlike(log_since($blind), qr/ERROR|FATAL/, 'no error');
		chmod(0600, $path);
	}
}

# a worker that is told to go comes back, and a fast shutdown is quiet whatever they are at
{
	my $offset = -s $node->logfile;
	lsm_set($node, 'lsm.compaction_workers' => 1);
	lsm_wait_clients($node);
	$node->restart;
	unlike(log_since($offset), qr/FATAL|ERROR|WARNING/, 'fast shutdown with idle workers: nothing but LOG');

	my $workers = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'lsm % worker'};
	$node->poll_query_until('postgres', "$workers", '2') or die 'workers do not start';
	my $old = $node->safe_psql('postgres', q{SELECT string_agg(pid::text, ',' ORDER BY pid) FROM pg_stat_activity WHERE backend_type LIKE 'lsm % worker'});
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'lsm % worker'});
	ok($node->poll_query_until('postgres', qq{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'lsm % worker' AND pid NOT IN ($old)}, '2'),
		'terminated workers are started again');

	$node->safe_psql('postgres', q{DROP TABLE IF EXISTS busy; CREATE TABLE busy (id int PRIMARY KEY, v text) USING lsm; INSERT INTO busy SELECT g, md5(g::text) FROM generate_series(1, 40000) g; SELECT lsm_flush('busy')});
	foreach my $try (1 .. (lsm_long() ? 30 : 3))
	{
		$offset = -s $node->logfile;
		$node->safe_psql('postgres', "INSERT INTO busy SELECT g, md5(random()::text) FROM generate_series(1, 40000, 2) g ON CONFLICT (id) DO UPDATE SET v = excluded.v");
		usleep(int(rand(100_000)));
		$node->stop('fast');
		# the session that wrote may be on its way out
		my $log = log_since($offset) =~ s/^.*FATAL:  terminating connection due to administrator command\n//mgr;
		unlike($log, qr/FATAL|ERROR|WARNING|PANIC/, "fast shutdown with busy workers, $try: nothing but LOG");
		$node->start;
	}
	is($node->safe_psql('postgres', q{SELECT (SELECT count(*) FROM busy), (SELECT count(*) FROM lsm_verify('busy'))}), '40000|0', 'nothing was lost');
	my @strays = grep { !/owner|\.sst$|\.flt$/ } glob(dir_of('busy') . '/*');
	is("@strays", '', 'nothing half done is left');
}

# templates beside flushes and compactions: jobs that take a while, and cannot publish meanwhile
lsm_set($node, 'lsm.memtable_size' => '512kB', 'lsm.target_file_size' => '512kB');
$node->restart;
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q{CREATE EXTENSION lsmam;
CREATE TABLE t_l (id int PRIMARY KEY, n int, v text) USING lsm; CREATE INDEX t_l_n ON t_l USING lsm (n);
CREATE TABLE t_h (id int PRIMARY KEY, n int, v text) USING heap;
INSERT INTO t_h SELECT g, g % 7000, repeat(md5(g::text), 3) FROM generate_series(1, 20000) g;
INSERT INTO t_l SELECT * FROM t_h});
my ($failed, $wrong, $tries) = (0, '', $ENV{LSM_COPIES} // (lsm_long() ? 400 : 15));
foreach my $try (1 .. $tries)
{
	my $strategy = $try % 4 == 0 ? 'file_copy' : 'wal_log';
	$node->safe_psql('source', qq{
UPDATE t_l SET n = n + 1, v = reverse(v) WHERE id % 3 = $try % 3;
UPDATE t_h SET n = n + 1, v = reverse(v) WHERE id % 3 = $try % 3;});
	# what is due is under way when the copying begins; the session may not be quite gone
	my ($rc, $out, $err);
	for (1 .. 50)
	{
		($rc, $out, $err) = $node->psql('postgres', "CREATE DATABASE copy TEMPLATE source STRATEGY $strategy");
		last if $err !~ /being accessed by other users/;
		usleep(20_000);
	}
	if ($rc != 0)
	{
		$failed++;
		diag("try $try: $err");
		next;
	}
	if ($try % 5 == 0 || lsm_long())
	{
		$wrong .= $node->safe_psql('copy', q{SET enable_indexscan = off; SET enable_bitmapscan = off;
SELECT * FROM t_h EXCEPT ALL SELECT * FROM t_l LIMIT 3; SELECT * FROM t_l EXCEPT ALL SELECT * FROM t_h LIMIT 3;
SELECT * FROM lsm_verify('t_l')});
	}
	$node->safe_psql('postgres', 'DROP DATABASE copy');
}
is($failed, 0, "CREATE DATABASE ... TEMPLATE beside compactions: none of $tries tries fails");
is($wrong, '', 'and the copies are right');

# the list of files says what belongs to the copy, not the directory: what a job has begun, or will
# remove in a moment, is nothing to stumble over
{
	my $dir = dir_of('t_l', 'source');
	my %before = map { $_ => 1 } glob(lsm_dir($node) . '/*');
	symlink("$dir/nowhere", "$dir/999998.sst");
	append_to_file("$dir/999999.sst", 'begun');
	my ($rc, $out, $err) = $node->psql('postgres', 'CREATE DATABASE strays TEMPLATE source');
	is($rc, 0, 'files that come and go in the directory do not matter') or diag($err);
	is(join(' ', grep { m{/99999} && !$before{ s{/[^/]*$}{}r } } glob(lsm_dir($node) . '/*/*')), '', 'and are not copied');
	is($node->safe_psql('strays', q{SELECT (SELECT count(*) FROM t_l), (SELECT count(*) FROM lsm_verify('t_l'))}), '20000|0', 'the copy is right');
	unlink "$dir/999998.sst", "$dir/999999.sst";
}

# an index that was moved, and not opened since: its owner file does not know
$node->append_conf('postgresql.conf', 'allow_in_place_tablespaces = on');
$node->reload;
$node->safe_psql('postgres', q{CREATE TABLESPACE other LOCATION ''});
$node->safe_psql('source', 'ALTER INDEX t_l_n SET TABLESPACE other');
$node->safe_psql('postgres', 'CREATE DATABASE moved TEMPLATE source');
is($node->safe_psql('moved', q{SET enable_seqscan = off; SELECT (SELECT count(*) > 0 FROM t_l WHERE n = 20), (SELECT count(*) FROM lsm_verify('t_l'))}), 't|0', 'an index moved just before is copied');

# the copy does not need owner files
foreach my $owner (glob(lsm_dir($node) . '/*/owner')) { truncate($owner, 0); }
$node->safe_psql('postgres', 'CREATE DATABASE blind TEMPLATE source');
is($node->safe_psql('blind', q{SELECT (SELECT count(*) FROM t_l), (SELECT count(*) FROM lsm_verify('t_l'))}), '20000|0', 'without owner files, too');

# a tablespace whose file system is not mounted: its trees are no orphans
$node->safe_psql('source', q{CREATE TABLE away (id int PRIMARY KEY, v text) USING lsm TABLESPACE other; CREATE TABLE plain (id int) USING heap;
INSERT INTO away SELECT i, md5(i::text) FROM generate_series(1, 5000) i; SELECT lsm_flush('away'), lsm_flush('away_pkey'); CHECKPOINT});
my $other = $node->data_dir . '/pg_tblspc/' . $node->safe_psql('postgres', q{SELECT oid FROM pg_tablespace WHERE spcname = 'other'});
my ($mounted) = glob("$other/PG_*");
my $unmounted = $node->data_dir . '_unmounted';
my $logged = -s $node->logfile;
$node->stop;
rename($mounted, $unmounted) or die "$mounted: $!";
$node->start;
for (1 .. 5)
{
	$node->safe_psql('source', 'INSERT INTO plain VALUES (1); CHECKPOINT');
	usleep(2_500_000);
}
like(substr(slurp_file($node->logfile), $logged), qr/WARNING:  could not read "pg_tblspc\/\d+\/PG_[^"]*": No such file or directory/, 'a tablespace is not there: the log says so');
$node->stop;
rename($unmounted, $mounted) or die "$mounted: $!";
$node->start;
is($node->safe_psql('source', q{SELECT (SELECT count(*) FROM away), (SELECT count(*) FROM lsm_verify('away'))}), '5000|0', 'and its trees stay');
$node->stop;
done_testing();
