# Trees that move to another fork (ALTER INDEX, ALTER TABLE and ALTER DATABASE ... SET TABLESPACE) while jobs
# of theirs are in progress: what was committed stays, whoever writes files of the same keyspace at the time.
# First with the job held where it hurts most, then in a loop.
#   LSM_WORKERS   lsm.compaction_workers (1); with 0, one worker does everything
#   LSM_SEED=...  LSM_SECONDS (6; long: 120)  of each loop
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

lsm_seed();
my $seconds = $ENV{LSM_SECONDS} // (lsm_long() ? 120 : 6);
my $dir = PostgreSQL::Test::Utils::tempdir();
my $workers = $ENV{LSM_WORKERS} // 1;
my $filter = (qw(blocked elastic cascade))[ int(rand(3)) ];
my $node = lsm_node('moves', conf => "allow_in_place_tablespaces = on\nautovacuum = off\nlsm.crash_point = '?'\nlog_min_messages = log\n"
	  . "lsm.memtable_size = 64kB\nlsm.target_file_size = 64kB\nlsm.size_ratio = 2\nlsm.compaction_workers = $workers\nlsm.filter_scheme = $filter\nlsm.compression = none");
lsm_start($node);
$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION ''");

# Rows in both tables, the same
sub write_rows
{
	my ($from) = @_;
	return join('', map { "INSERT INTO $_ SELECT i, md5(i::text) || repeat('x', i % 50) FROM generate_series($from, $from + 199) i;\n" } 'h', 'l');
}

# The tables, and the worker held at the point in a job of `what`
sub hold_job
{
	my ($db, $what, $point) = @_;
	$node->safe_psql($db, qq{DROP TABLE IF EXISTS h, l;
CREATE TABLE h (id int, v text) USING heap;
CREATE TABLE l (id int, v text) USING lsm;
CREATE INDEX l_v ON l USING lsm (v)});
	lsm_hold($node, $point, 'worker', $node->safe_psql($db, "SELECT '$what'::regclass::oid"));
	foreach my $i (1 .. 60)
	{
		my $writer = lsm_start_session($node, $db, 'writer', write_rows(1000 * $i));
		lsm_ended_or_waits($node, $writer);
		last if lsm_wait_held($node, 0);
		lsm_ended($writer);
	}
	return lsm_wait_held($node);
}

# The worker has nothing more to do
sub wait_idle
{
	my $idle = 0;
	foreach (1 .. 20 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$idle = $node->safe_psql('postgres', "SELECT bool_and(wait_event IS NOT NULL AND wait_event IN ('Extension', 'LsmWorkerMain')) FROM pg_stat_activity WHERE backend_type LIKE 'lsm%'") eq 't' ? $idle + 1 : 0;
		last if $idle == 3;
		usleep(30_000);
	}
	return;
}

sub differences
{
	my ($db) = @_;
	my ($rc, $out, $err) = $node->psql($db, q{
SELECT 'rows: ' || count(*) FROM ((SELECT * FROM h EXCEPT ALL SELECT * FROM l) UNION ALL (SELECT * FROM l EXCEPT ALL SELECT * FROM h)) d HAVING count(*) > 0;
SELECT object || ': ' || problem FROM lsm_verify('l') LIMIT 5;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT 'by index: ' || count(*) FROM (SELECT v FROM h EXCEPT ALL SELECT v FROM l WHERE v > '') d HAVING count(*) > 0});
	return $out . ($rc != 0 || $err =~ /ERROR|WARNING/ ? "psql exits with $rc: $err" : '');
}

sub check
{
	my ($db, $name) = @_;
	wait_idle();
	is(differences($db), '', $name);
	$node->stop('immediate');
	$node->start;
	is(differences($db), '', "$name; after a crash");
	return;
}

# What a session does that comes first to the moved tree: it loads it, and makes files
my $use = join('', map { write_rows(100_000 + 1000 * $_) . "SELECT lsm_flush('l');\n" } 1 .. 3);

sub output { return lsm_output($_[0]) =~ s/^\n//mgr; }

foreach my $point ('compact_started', 'compact_file_written', 'compact_before_edit', 'flush_started', 'flush_file_written', 'flush_before_edit')
{
	# an index
	ok(hold_job('postgres', 'l_v', $point), "index moves: $point is reached");
	my $ddl = lsm_start_session($node, 'postgres', 'ddl', "ALTER INDEX l_v SET TABLESPACE other;\n$use");
	lsm_ended_or_waits($node, $ddl);
	lsm_release($node);
	ok(lsm_ended($ddl), "$point: move and writes come to an end");
	is(output('ddl'), '', "$point: no errors");
	check('postgres', "index moved at $point");

	# a database
	$node->safe_psql('postgres', 'CREATE DATABASE moving');
	$node->safe_psql('moving', 'CREATE EXTENSION lsmam');
	ok(hold_job('moving', 'l_v', $point), "database moves: $point is reached");
	my $move = lsm_start_session($node, 'postgres', 'move', 'ALTER DATABASE moving SET TABLESPACE other');
	my $after;
	if (lsm_ended_or_waits($node, $move))
	{
		$after = lsm_start_session($node, 'moving', 'after', $use);
		lsm_ended_or_waits($node, $after);
	}
	lsm_release($node);
	ok(lsm_ended($move), "$point: the database is moved");
	$after //= lsm_start_session($node, 'moving', 'after', $use);
	ok(lsm_ended($after), "$point: writes come to an end");
	is(output($_), '', "$point: no errors, $_") foreach 'move', 'after';
	check('moving', "database moved at $point");
	$node->safe_psql('postgres', 'DROP DATABASE moving');
}

# A worker that has seen, too late, that the fork of its tree is gone: the block that the keyspace has by then, in its
# new fork, is not its to drop, least of all with a job of that one in progress.
$node->safe_psql('postgres', 'CREATE DATABASE moving');
$node->safe_psql('moving', 'CREATE EXTENSION lsmam');
ok(hold_job('moving', 'l_v', 'compact_file_written'), 'a compaction is held');
$node->safe_psql('postgres', 'ALTER DATABASE moving SET TABLESPACE other');
lsm_hold($node, 'publish_locked', 'worker', 0, second => 1);
lsm_release($node);
my $locked = lsm_wait_held($node, 1, second => 1);

# it did not come there: it must not stop there later, as the compactor that the session waits for
lsm_release($node, second => 1) unless $locked;
lsm_hold($node, 'compact_file_written', 'backend', $node->safe_psql('moving', "SELECT 'l_v'::regclass::oid"));
my $compact = lsm_start_session($node, 'moving', 'compact', "SET lsm.bits_per_key = 12; SELECT lsm_compact('l');\n");
ok(lsm_wait_held($node), 'a session compacts the moved tree');
lsm_release($node, second => 1) if $locked;
wait_idle() if $locked;
my $third = lsm_start_session($node, 'moving', 'third', $use);
lsm_ended_or_waits($node, $third);
lsm_release($node);
ok(lsm_ended($_), 'sessions come to an end') foreach $compact, $third;
is(output($_), '', "no errors, $_") foreach 'compact', 'third';
check('moving', 'worker that finds its fork gone');
$node->safe_psql('postgres', 'DROP DATABASE moving');

# ALTER TABLE drops the index and makes a new one that has the same fork.  Whoever knows the fork by the old OID
# has no part in it any more: the lock on that OID keeps nobody from copying the fork.
ok(hold_job('postgres', 'l_v', 'compact_file_written'), 'a compaction is held');
$node->safe_psql('postgres', 'ALTER TABLE l ALTER v TYPE varchar');
lsm_hold($node, 'compact_before_edit', 'worker', 0, second => 1);
lsm_release($node);
lsm_wait_held($node, 1, second => 1);
append_to_file("$dir/wait", '');
my $copying = lsm_start_session($node, 'postgres', 'copying', "BEGIN; ALTER INDEX l_v SET TABLESPACE other;\n\\! touch $dir/copied; while [ -e $dir/wait ]; do sleep 0.02; done\nCOMMIT;\n");
foreach (1 .. 100) { last if -e "$dir/copied"; usleep(20_000); }
lsm_release($node, second => 1);
wait_idle();
unlink "$dir/wait";
ok(lsm_ended($copying), 'the index is moved');
is(output('copying'), '', 'no errors');
check('postgres', 'index that has changed its OID');

# Two sessions open the moved index at once, while the process that moved it has not come to delete the old fork.
$node->safe_psql('postgres', q{DROP TABLE h, l;
CREATE TABLE h (id int, v text) USING heap;
CREATE TABLE l (id int, v text) USING lsm;
CREATE INDEX l_v ON l USING lsm (v)});
$node->safe_psql('postgres', write_rows(1) . "SELECT lsm_flush('l')");
append_to_file("$dir/wait", '');
my $mover = lsm_start_session($node, 'postgres', 'mover', "\\! touch $dir/connected; while [ -e $dir/wait ]; do sleep 0.02; done\nALTER INDEX l_v SET TABLESPACE other;\n");
foreach (1 .. 100) { last if -e "$dir/connected"; usleep(20_000); }
lsm_hold($node, 'locks_released', 'backend', 0);
unlink "$dir/wait";
ok(lsm_wait_held($node), 'the index is moved, its old files are there');
lsm_hold($node, 'adopting', 'backend', 0, second => 1);
my @opening = map { lsm_start_session($node, 'postgres', "opening$_", $use) } 0 .. 1;
ok(lsm_wait_held($node, undef, second => 1), 'a session is about to take the copied fork over');
lsm_ended_or_waits($node, @opening);
lsm_release($node, second => 1);
ok(lsm_ended($_), 'the sessions come to an end') foreach @opening;
lsm_release($node);
ok(lsm_ended($mover), 'the one that moved it, too');
is(output($_), '', "no errors, $_") foreach 'opening0', 'opening1', 'mover';
check('postgres', 'index opened by two at once');

# A number that was handed out before a crash is not handed out after it, also if its file was never published.
sub numbers
{
	my %numbers = map { m{([0-9a-f]{16})/(\d+)\.} ? ("$1/$2" => 1) : () } lsm_files_of($node);
	return %numbers;
}
ok(hold_job('postgres', 'l_v', 'compact_file_written'), 'a compaction is held, to be killed');
my %before = numbers();
$node->stop('immediate');
lsm_release($node);
$node->start;
$node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM l WHERE v > ''");
my %live = numbers();
my %unpublished = map { $_ => 1 } grep { !$live{$_} } keys %before;
ok(scalar(keys %unpublished), 'there was a file that no one publishes');
# what is flushed stays
lsm_hold($node, 'compact_started', 'worker', $node->safe_psql('postgres', "SELECT 'l_v'::regclass::oid"));
$node->safe_psql('postgres', $use);
my %after = numbers();
lsm_release($node);
my @again = grep { $after{$_} } keys %unpublished;
is("@again", '', 'no number is used again after a crash');

# In a loop: tables, indexes and the database go to and fro, workers and sessions flush and compact.
$node->safe_psql('postgres', 'CREATE DATABASE moving');
$node->safe_psql('moving', q{CREATE EXTENSION lsmam;
CREATE TABLE h (id int, v text) USING heap;
CREATE TABLE l (id int, v text) USING lsm;
CREATE INDEX l_v ON l USING lsm (v)});
my $end = time + $seconds;
my $rounds = 0;
my $said = '';
while (time < $end)
{
	my @space = map { rand() < 0.5 ? 'other' : 'pg_default' } 1 .. 3;
	my $from = 10_000 * ++$rounds;
	my @writers = map { lsm_start_session($node, 'moving', "writer$_", join('', map { write_rows($from + 200 * $_) . (rand() < 0.3 ? "SELECT lsm_flush('l');\n" : rand() < 0.1 ? "SELECT lsm_compact('l');\n" : '') } 10 * $_ .. 10 * $_ + 5)) } 0 .. 1;
	my $mover = lsm_start_session($node, 'moving', 'mover', join('', map { (rand() < 0.5 ? "ALTER INDEX l_v SET TABLESPACE $_;\n" : "ALTER TABLE l SET TABLESPACE $_;\n") . "SELECT pg_sleep(random() / 50);\n" } @space));
	lsm_ended($_) foreach @writers, $mover;
	$said .= output($_) foreach 'writer0', 'writer1', 'mover';
	my ($rc, $out, $err) = $node->psql('postgres', 'ALTER DATABASE moving SET TABLESPACE ' . ($rounds % 2 ? 'other' : 'pg_default'));
	# the index or the table may be alone in the other tablespace
	$said .= $err if $rc != 0 && $err !~ /some relations of database "moving" are already in tablespace/;
	last if $said ne '';
}
is($said, '', "moves in a loop: no errors ($rounds rounds)");
check('moving', 'moves in a loop');

$node->stop;
done_testing();
