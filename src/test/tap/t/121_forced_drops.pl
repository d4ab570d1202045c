# DROP DATABASE ... WITH (FORCE) beside a session and a worker, each held at a step of what it does to a tree.  The session is
# terminated and the worker finds its tree gone, without another error; a standby follows; nothing of the database is left.
#   LSM_POINTS="name name"   only pairs with one of these
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = lsm_node('drops', conf => "allow_in_place_tablespaces = on\nautovacuum = off\nlsm.crash_point = '?'\nfsync = off\nlsm.memtable_size = 64kB\nlsm.target_file_size = 64kB\nlsm.size_ratio = 2\n"
	  . "lsm.compaction_workers = 1\nlsm.compression = none\nmax_wal_senders = 4\nhot_standby = on\nmax_wal_size = 1GB\nwal_keep_size = 512MB\ncheckpoint_timeout = 1h");
$node->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($node);
$node->safe_psql('template1', 'CREATE EXTENSION lsmam');
$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION ''");
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

sub follows
{
	my ($what) = @_;
	my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	ok(eval { $standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'") }, "$what: the standby follows");
	return;
}

sub rows { my ($table, $from) = @_; return "INSERT INTO $table SELECT i, md5(i::text) || repeat('x', 60) FROM generate_series($from, $from + 179) i;\n"; }

my $insert = 'BEGIN;' . rows('l', 100_000) . rows('h', 100_000) . 'COMMIT;';
my $fill = "INSERT INTO l SELECT i, repeat('x', 500) FROM generate_series(200000, 201000) i";
my $flush = rows('l', 300_000) . "SELECT lsm_flush('l')";

# of the worker, and of the session with what it does
my @pairs = (
	[ 'flush_started', 'write_begun', $insert ],
	[ 'flush_file_written', 'append_before_wal', $insert ],
	[ 'flush_filter_written', 'append_after_wal', $insert ],
	[ 'flush_dir_synced', 'append_after_memtable', $insert ],
	[ 'flush_before_edit', 'create_owner_written', "CREATE TABLE n USING lsm AS SELECT 1 AS i" ],
	[ 'publish_locked', 'reset_removed', 'BEGIN; CREATE TABLE n (i int) USING lsm; INSERT INTO n VALUES (1); TRUNCATE n; COMMIT' ],
	[ 'flush_after_edit', 'build_file_written', 'CREATE INDEX l_2 ON l USING lsm (v, id)' ],
	[ 'flush_after_retire', 'seal_done', $fill ],
	[ 'compact_started', 'edit_after_wal', $flush ],
	[ 'compact_file_written', 'copy_copied', 'ALTER TABLE l SET TABLESPACE other' ],
	[ 'compact_before_edit', 'create_dir_made', 'CREATE TABLE n (i int) USING lsm' ],
	[ 'compact_after_edit', 'map_set', "VACUUM l" ],
	[ 'unlink_queue', 'edit_before_wal', $flush ],
	[ 'compact_after_unlink', 'abort_locks_released', "BEGIN; TRUNCATE l; $insert ROLLBACK" ]);
if ($ENV{LSM_POINTS})
{
	my %wanted = map { $_ => 1 } split ' ', $ENV{LSM_POINTS};
	@pairs = grep { $wanted{ $_->[0] } || $wanted{ $_->[1] } } @pairs;
}

my %before = map { $_ => 1 } glob($node->data_dir . '/{pg_lsm/????????????????,base/*}');
my $n = 0;
foreach my $pair (@pairs)
{
	my ($in_worker, $in_session, $sql) = @$pair;
	my $what = "$in_worker, $in_session";
	my $db = 'forced_' . ++$n;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, 'CREATE TABLE l (id int, v text) USING lsm; CREATE INDEX l_v ON l USING lsm (v); CREATE TABLE h (id int, v text) USING heap;' . rows('l', 1) . rows('h', 1) . "SELECT lsm_flush('l')");

	# a memtable that is full, for the worker, or as many as it takes
	lsm_hold($node, $in_worker, 'worker', $node->safe_psql($db, q{SELECT 'l_v'::regclass::oid}), second => 1);
	foreach my $i (1 .. 60)
	{
		my $writer = lsm_start_session($node, $db, 'writer', join('', map { rows('l', 1000 * $i + 200 * $_) . rows('h', 1000 * $i + 200 * $_) } 0 .. ($in_worker =~ /flush|publish/ ? 0 : 4)));
		lsm_ended_or_waits($node, $writer);
		last if lsm_wait_held($node, 0.01, second => 1);
	}
	ok(lsm_wait_held($node, 10, second => 1), "$what: a worker is held");
	lsm_hold($node, $in_session, 'backend', 0);
	my $session = lsm_start_session($node, $db, 'session', "$sql;\nSELECT pg_sleep(600)");
	ok(lsm_wait_held($node, 30), "$what: a session is held") or diag(lsm_output('session'));

	my $logged = -s $node->logfile;
	my $dropper = lsm_start_session($node, 'postgres', 'dropper', "DROP DATABASE $db WITH (FORCE)");
	# sessions have been terminated then, or are in a moment; or it waits for a worker that publishes
	$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks JOIN pg_database d ON d.oid = objid WHERE classid = 'pg_database'::regclass AND datname = '$db' AND mode = 'AccessExclusiveLock'");
	usleep(200_000);
	lsm_release($node);
	lsm_release($node, second => 1) unless lsm_ended($dropper, 2);
	ok(lsm_ended($dropper), "$what: the command ends");
	ok(lsm_ended($session), "$what: the session ends");
	like(lsm_output('session'), qr/^\n*FATAL:  terminating connection due to administrator command/m, "$what: it was terminated");
	# (a session has five seconds to go)
	is(lsm_output('dropper') =~ s/^ERROR:  database "$db" is being accessed by other users\nDETAIL: .*\n$//r, '', "$what: without an error");
	$node->safe_psql('postgres', "DROP DATABASE IF EXISTS $db WITH (FORCE)");
	lsm_release($node, second => 1);
	follows($what);
	unlike(substr(slurp_file($node->logfile), $logged), qr/(WARNING|ERROR|PANIC|TRAP): (?! database "$db" is being accessed)/, "$what: nothing else is logged");
}

# Until the sweep has been about
my @left;
my $end = time + $PostgreSQL::Test::Utils::timeout_default;
do
{
	$node->safe_psql('postgres', 'CHECKPOINT');
	usleep(300_000);
	@left = grep { !$before{$_} } glob($node->data_dir . '/{pg_lsm/????????????????,base/*}');
} while (@left && time < $end);
is(join(' ', @left), '', 'nothing is left');
follows('afterwards');
is(join(' ', grep { !$before{ $_ =~ s/\Q@{[$standby->data_dir]}\E/@{[$node->data_dir]}/r } } glob($standby->data_dir . '/{pg_lsm/????????????????,base/*}')), '', 'nor on the standby');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'userlock'}), 0, 'nor a lock');
unlike(slurp_file($standby->logfile) . slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, 'no crash');
$standby->stop;
$node->stop;
done_testing();
