# Copied and moved databases where their copying is not the last thing that happens.  Sessions that have read one on a standby, before
# the primary has opened it, go on after a promotion; with wal_level = minimal, one that takes the OID of another one that was
# copied from the same template is whole after a crash.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

# k: heap with lsm index; l: lsm
my $create = join('', map { my ($x, $am) = @$_; "CREATE TABLE t_$x (i int, v int, t text) USING $am; CREATE UNIQUE INDEX t_${x}_i ON t_$x USING lsm (i); INSERT INTO t_$x SELECT i, i % 100, repeat('x', 100) FROM generate_series(1, 5000) i; SELECT lsm_flush('t_${x}_i'); INSERT INTO t_$x SELECT i, i % 100, 'late' FROM generate_series(5001, 5100) i;" } [ 'k', 'heap' ], [ 'l', 'lsm' ])
  . "SELECT lsm_flush('t_l'); INSERT INTO t_l VALUES (6000, 0, 'x'); INSERT INTO t_k VALUES (6000, 0, 'x');";
my @queries = map { ("SELECT count(*), sum(v) FROM t_$_", "SET enable_seqscan = off; SELECT count(*), sum(v) FROM t_$_ WHERE i BETWEEN 4000 AND 7000; RESET enable_seqscan") } 'k', 'l';
my $all = join(';', @queries);

sub whole
{
	my ($what, $node, $db, $expected) = @_;
	my ($rc, $out, $err) = $node->psql($db, "$all;");
	is("$out$err", $expected, "$what: rows");
	my ($vrc, $vout, $verr) = $node->psql($db, q{SELECT v.* FROM unnest('{t_l,t_k_i}'::regclass[]) r, lsm_verify(r) v});
	is("$vout$verr", '', "$what: lsm_verify");
	return;
}

# ---- a promotion ----

my $primary = lsm_node('primary', conf => "max_wal_senders = 8\nwal_keep_size = 512MB\nautovacuum = off\nfsync = off\nallow_in_place_tablespaces = on");
$primary->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($primary);
$primary->backup('first', backup_options => [ '-c', 'fast', '--no-sync' ]);
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'first', has_streaming => 1);
$standby->append_conf('postgresql.conf', "lsm.crash_point = '?'");
$standby->start;
$primary->safe_psql('postgres', q{CREATE TABLESPACE space LOCATION ''; CREATE DATABASE a});
$primary->safe_psql('a', "CREATE EXTENSION lsmam; $create");
my $right = $primary->safe_psql('a', $all);
$primary->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE a STRATEGY " . (/file/ ? 'file_copy' : 'wal_log')) foreach 'c', 'c_file', 'moved', 'c_moved', 'ended', 'ended_file';
$primary->safe_psql('moved', "$all;");
$primary->safe_psql('postgres', "ALTER DATABASE $_ SET TABLESPACE space") foreach 'moved', 'c_moved';
$primary->safe_psql('a', 'ALTER INDEX t_k_i SET TABLESPACE space');
$primary->safe_psql('postgres', 'CREATE DATABASE ended_moved');
$primary->safe_psql('ended_moved', "CREATE EXTENSION lsmam; $create");
$primary->safe_psql('ended_moved', 'ALTER INDEX t_k_i SET TABLESPACE space');
my $lsn = $primary->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
$standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'") or die 'the standby does not catch up';

# Each has read them all; one reads on where it was, one begins anew
my @dbs = ('c', 'c_file', 'moved', 'c_moved', 'a');
my (%idle, %open, %first);
foreach my $db (@dbs)
{
	$idle{$db} = $standby->background_psql($db, on_error_stop => 0);
	is($idle{$db}->query("$all;"), $right, "$db: on the standby");
	$open{$db} = $standby->background_psql($db, on_error_stop => 0);
	$open{$db}->query("BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; DECLARE l CURSOR FOR SELECT i FROM t_l WHERE i > 0 ORDER BY i; DECLARE k CURSOR FOR SELECT i FROM t_k WHERE i > 0 ORDER BY i; DECLARE s CURSOR FOR SELECT i FROM t_l;");
	$first{$db} = [ map { split /\n/, $open{$db}->query("FETCH 10 FROM $_") } 'k', 'l', 's' ];
	is(scalar(@{ $first{$db} }), 30, "$db: cursors on the standby");
}

# Loads that end before they are complete leave blocks that say nothing, to sessions that know them.
my @ended = ('ended', 'ended_file', 'ended_moved');
my $waits = PostgreSQL::Test::Utils::tempdir() . '/wait';
my @loaders;
append_to_file($waits, '');
foreach my $db (@ended)
{
	foreach my $x ('k', 'l')
	{
		my $count = "SET enable_seqscan = off; SELECT count(*) FROM t_$x WHERE i > 0;\n";
		lsm_hold($standby, 'standby_load_counters', 'backend');
		push @loaders, [ "${db}_$x", lsm_start_session($standby, $db, "${db}_$x", "\\set ON_ERROR_STOP 0\n$count\\! while [ -e $waits ]; do sleep 0.02; done\n$count") ];
		ok(lsm_wait_held($standby), "$db: a load is held");
		$standby->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = '$db' AND state = 'active'");
		lsm_release($standby);
		$standby->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = '$db' AND state = 'active'") or die 'a load goes on';
	}
}
$primary->stop;
$standby->promote;
unlink $waits;
foreach my $loader (@loaders)
{
	my ($name, $session) = @$loader;
	ok(lsm_ended($session), "$name: a session goes on after the promotion");
	like(lsm_output($name), qr/^ERROR:  canceling statement[^\n]*\n5101\n$/, "$name: its load was canceled, and then it has all rows");
}
foreach my $db (@ended)
{
	# it has written down whose the fork is: workers keep off one that says otherwise
	my ($file, $place) = split /\|/, $standby->safe_psql($db, q{CHECKPOINT; SELECT pg_relation_filepath(c.oid), concat_ws(' ', d.oid, CASE reltablespace WHEN 0 THEN dattablespace ELSE reltablespace END, pg_relation_filenode(c.oid)) FROM pg_class c, pg_database d WHERE relname = 't_k_i' AND datname = current_database()});
	open my $fh, '<:raw', $standby->data_dir . "/$file" or die "$file: $!";
	read($fh, my $page, 64);
	is(join(' ', unpack('x24 x16 L3', $page)), $place, "$db: the metapage is its own");
	whole("$db: loads ended before the promotion", $standby, $db, $right);
	$standby->safe_psql($db, join(';', map { "DELETE FROM t_$_ WHERE i = 6000; INSERT INTO t_$_ VALUES (6001, 0, 'y'); INSERT INTO t_$_ SELECT i, 0, 'z' FROM generate_series(7001, 7100) i" } 'k', 'l'));
}
foreach my $db (@dbs)
{
	my ($rows, $failed) = $idle{$db}->query("$all;");
	is($rows . $idle{$db}{stderr}, $right, "$db: a session goes on after the promotion");
	my %rest = map { $_ => scalar($open{$db}->query("FETCH ALL FROM $_")) } 'k', 'l', 's';
	is($open{$db}{stderr}, '', "$db: cursors: no error");
	is(join(' ', map { scalar(my @lines = split /\n/, $rest{$_}) } 'k', 'l', 's'), '5091 5091 5091', "$db: cursors: the rest of the rows");
	is($open{$db}->query("SELECT count(*) FROM t_l; SELECT count(*) FROM t_k WHERE i > 0;"), "5101\n5101", "$db: a snapshot goes on after the promotion");
	$open{$db}->query('COMMIT');
	whole("$db: a new session", $standby, $db, $right);
	$idle{$db}->query("DELETE FROM t_$_ WHERE i = 6000; INSERT INTO t_$_ VALUES (6001, 0, 'y'); INSERT INTO t_$_ SELECT i, 0, 'z' FROM generate_series(7001, 7100) i;") foreach 'k', 'l';
	$idle{$db}->query("SELECT lsm_compact('t_l'), lsm_compact('t_k_i');");
	is($idle{$db}{stderr}, '', "$db: it writes");
	is($open{$db}->query("SELECT count(*) FROM t_l; SELECT count(*) FROM t_k WHERE i > 0;"), "5201\n5201", "$db: the other one sees it");
	$_->quit foreach $idle{$db}, $open{$db};
}
$standby->restart;
is($standby->safe_psql($_, q{SELECT count(*) FROM t_l; SELECT count(*) FROM t_k WHERE i > 0; SELECT count(*) FROM lsm_verify('t_l'); SELECT count(*) FROM lsm_verify('t_k_i')}), "5201\n5201\n0\n0", "$_: after a restart") foreach @dbs, @ended;
$standby->stop;

# ---- wal_level = minimal ----

my $minimal = lsm_node('minimal', wal_level => 'minimal', conf => "max_wal_senders = 0\nautovacuum = off\ncheckpoint_timeout = 1h\nmax_wal_size = 1GB");
lsm_start($minimal);
$minimal->safe_psql('postgres', 'CREATE DATABASE a');
$minimal->safe_psql('a', "CREATE EXTENSION lsmam; $create");

sub crash
{
	my @pids = lsm_pids($minimal);
	kill('KILL', @pids);
	lsm_clear_crashed($minimal, @pids);
	$minimal->start;
	return;
}

foreach my $strategy ('wal_log', 'file_copy')
{
	my $copy = "CREATE DATABASE c TEMPLATE a STRATEGY $strategy OID " . ($strategy eq 'wal_log' ? 700_001 : 700_002);
	my %before = map { $_ => 1 } grep { -d $_ } glob(lsm_dir($minimal) . '/*');
	$minimal->safe_psql('postgres', $copy);
	my @derived = grep { -d $_ && !$before{$_} } glob(lsm_dir($minimal) . '/*');
	is(scalar(@derived), 3, "$strategy: keyspaces of the copy");
	$minimal->safe_psql('postgres', $_) foreach 'DROP DATABASE c', $copy;
	crash();
	whole("$strategy: an OID that comes again at once", $minimal, 'c', $right);
	crash();
	whole("$strategy: once more", $minimal, 'c', $right);

	# it has been removed meanwhile
	$minimal->safe_psql('postgres', 'DROP DATABASE c');
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	while ((grep { -d $_ } @derived) && time < $end)
	{
		$minimal->safe_psql('postgres', 'CHECKPOINT');
		usleep(500_000);
	}
	is(join(' ', grep { -d $_ } @derived), '', "$strategy: they go with the database");
	$minimal->safe_psql('postgres', $copy);
	crash();
	whole("$strategy: an OID that comes again later", $minimal, 'c', $right);
	$minimal->safe_psql('postgres', 'DROP DATABASE c');
}
$minimal->stop;
done_testing();
