# Keyspaces that are being made while checkpoints go by: no fork names them yet, and the sweep keeps them.  An index that has moved twice is whole after the
# second move is rolled back.
#   LSM_PARTS="..."   of these parts: rollback sweep
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

my $node = lsm_node('making', conf => "max_wal_senders = 8\nmax_wal_size = 1GB\nwal_keep_size = 1GB\nautovacuum = off\nfsync = off\nallow_in_place_tablespaces = on\ncheckpoint_timeout = 1h\n"
	  . "lsm.memtable_memory = 64MB\nlsm.memtable_size = 64kB\nlsm.target_file_size = 64kB\nlsm.size_ratio = 2\nlsm.compression = none\nlsm.crash_point = '?'");
$node->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($node);
$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION ''");

my %parts = map { $_ => 1 } split ' ', $ENV{LSM_PARTS} // 'rollback sweep';
my $create = 'CREATE TABLE t (i int, v text) USING lsm; CREATE INDEX t_i ON t USING lsm (i); INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 2000) i; SELECT lsm_flush(\'t\'); INSERT INTO t SELECT i, md5(i::text) FROM generate_series(2001, 2100) i;';
my $rows = 'SELECT count(*), sum(i), count(DISTINCT v) FROM t';
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(v), sum(i) FROM t WHERE i > 0';
my ($right, $right_by_index) = ('2100|2206050|2100', '2100|2206050');

sub whole
{
	my ($server, $db, $what) = @_;
	my ($rc, $out, $err) = $server->psql($db, "$rows; $by_index; SELECT v.* FROM lsm_verify('t') v");
	is("$out$err", "$right\n$right_by_index", $what);
	return;
}

sub directories { my ($server) = @_; return sort grep { -d $_ } glob(lsm_dir($server // $node) . '/*'); }

sub new_directories
{
	my ($what) = @_;
	my %before = map { $_ => 1 } directories();
	$what->();
	return grep { !$before{$_} } directories();
}

# Until the sweep has removed an orphan that nobody knew of before: so it would have removed all that are older.
sub sweep
{
	my ($what) = @_;
	my @orphans = new_directories(sub { $node->safe_psql('postgres', 'BEGIN; SAVEPOINT s; CREATE TABLE orphan (i int) USING lsm; ROLLBACK TO s; COMMIT') });
	is(scalar(@orphans), 1, "$what: an orphan");
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	while ((grep { -d $_ } @orphans) && time < $end)
	{
		$node->safe_psql('postgres', 'CHECKPOINT');
		usleep(100_000);
	}
	is(join(' ', grep { -d $_ } @orphans), '', "$what: the sweep removes it");
	return;
}

# Two sessions at a time, each held at its point
my $pair = 0;

sub held_pair
{
	my @makers = @_;
	my (@new, @sessions);
	$pair++;
	foreach my $i (0, 1)
	{
		my ($what, $db, $point, $sql, $says, $ndirectories) = @{ $makers[$i] };
		my @made = new_directories(sub {
			lsm_hold($node, $point, 'backend', 0, second => $i);
			$sessions[$i] = lsm_start_session($node, $db, "maker${pair}_$i", $sql);
			ok(lsm_wait_held($node, undef, second => $i), "$what: $point is reached");
		});
		is(scalar(@made), $ndirectories // 1, "$what: a directory");
		push @new, @made;
	}
	sweep("pair $pair");
	is(join(' ', grep { !-d $_ } @new), '', "pair $pair: what is being made stays");
	foreach my $i (0, 1)
	{
		my ($what, $db, $point, $sql, $says) = @{ $makers[$i] };
		lsm_release($node, second => $i);
		ok(lsm_ended($sessions[$i]), "$what: it comes to an end");
		is(lsm_output("maker${pair}_$i") =~ s/^\n//mgr, "$says\n", "$what: no error");
	}
	return;
}

# ---- two moves ----

# Nobody opens the index between them: its metapage names a fork that is gone already.
if ($parts{rollback})
{
	$node->safe_psql('postgres', 'CREATE DATABASE twice');
	$node->safe_psql('twice', "CREATE EXTENSION lsmam; $create");
	$node->safe_psql('twice', 'ALTER INDEX t_i SET TABLESPACE other');
	$node->safe_psql('twice', q{BEGIN; ALTER INDEX t_i SET TABLESPACE pg_default; INSERT INTO t SELECT 1 + i % 2000, 'gone' FROM generate_series(1, 3000) i; SELECT lsm_flush('t_i'), lsm_compact('t_i'); ROLLBACK});
	whole($node, 'twice', 'the second move is rolled back');
	$node->restart;
	whole($node, 'twice', 'the second move is rolled back: after a restart');
}

# ---- the sweep ----

foreach my $db ('tables', 'indexes', 'origin')
{
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, "CREATE EXTENSION lsmam; $create");
}
if ($parts{sweep})
{
	$node->safe_psql('tables', 'CREATE UNLOGGED TABLE u (i int) USING lsm; INSERT INTO u VALUES (1)');
	$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE origin');
	$node->safe_psql('copied', 'ALTER INDEX t_i SET TABLESPACE other');
	held_pair([ 'SET TABLESPACE of a table', 'tables', 'copy_linked', "ALTER TABLE t SET TABLESPACE other; $rows", $right ],
		[ 'first use of an index that is being moved', 'indexes', 'adopt_linked', "BEGIN; ALTER INDEX t_i SET TABLESPACE other; $by_index; COMMIT", $right_by_index ]);
	held_pair([ 'SET TABLESPACE of a temporary table', 'origin', 'copy_linked', 'CREATE TEMP TABLE own (i int) USING lsm; INSERT INTO own SELECT generate_series(1, 500); SELECT lsm_flush(\'own\'); ALTER TABLE own SET TABLESPACE other; SELECT count(*) FROM own', 500, 2 ],
		[ 'first use of an index that was moved in a copied database', 'copied', 'adopt_linked', $by_index, $right_by_index ]);
	$node->stop('immediate');
	$node->start;
	held_pair([ 'an unlogged table after a crash', 'tables', 'create_owner_written', 'SELECT count(*) FROM u; INSERT INTO u VALUES (1), (2)', 0 ],
		[ 'a new table', 'tables', 'create_dir_made', 'CREATE TABLE n (i int) USING lsm; INSERT INTO n VALUES (1); SELECT i FROM n', 1 ]);
	sweep('afterwards');
	whole($node, $_, "$_: afterwards") foreach 'tables', 'indexes', 'origin', 'copied';
	is($node->safe_psql('tables', 'SELECT count(*) FROM u; SELECT count(*) FROM n'), "2\n1", 'unlogged and new table: afterwards');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'userlock'}), 0, 'no locks are left');
	$node->restart;
	whole($node, $_, "$_: after a restart") foreach 'tables', 'indexes', 'origin', 'copied';
}

$node->stop;
done_testing();
