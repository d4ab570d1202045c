# ALTER DATABASE and DROP DATABASE end the control blocks of the trees that they concern, and of no others: those of a
# database that somebody uses stay.  A database's name may mean another one when the command gets its lock; a move to
# where the database is, is none; a drop may fail half-way.
#   LSM_LONG=1    more rounds
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = lsm_node('moves', conf => "allow_in_place_tablespaces = on\nautovacuum = off\nlsm.crash_point = '?'\nfsync = off\n"
	  . "lsm.memtable_size = 64kB\nlsm.compaction_workers = 0\nmax_wal_senders = 4\nhot_standby = on\nmax_wal_size = 1GB\ncheckpoint_timeout = 1h\nbgwriter_lru_maxpages = 0\nshared_buffers = 64MB");
$node->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($node);
$node->safe_psql('template1', 'CREATE EXTENSION lsmam');
$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION ''");

my $tables = q{
CREATE TABLE l (id int PRIMARY KEY, v text, filler text) USING lsm;
CREATE INDEX l_v ON l USING lsm (v);
CREATE TABLE h (id int PRIMARY KEY, v text, filler text) USING heap;
INSERT INTO l SELECT i, 'old ' || i FROM generate_series(1, 100) i;
INSERT INTO h SELECT * FROM l};

sub new_database
{
	my ($db) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, $tables);
	return;
}

# nothing is wrong with l, which has the rows of its heap twin by each plan
sub check
{
	my ($db, $what) = @_;
	my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
	my $by_scan = 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;';
	is($node->safe_psql($db, "$by_scan SELECT * FROM ((SELECT * FROM l EXCEPT ALL SELECT * FROM h) UNION ALL (SELECT * FROM h EXCEPT ALL SELECT * FROM l)) d LIMIT 5"), '', "$what: the rows of the heap table");
	my $count = $node->safe_psql($db, 'SELECT count(*), count(*) FROM h');
	is($node->safe_psql($db, "$by_index SELECT (SELECT count(*) FROM (SELECT id FROM l WHERE id > -1 ORDER BY id) a), (SELECT count(*) FROM (SELECT v FROM l WHERE v > '' ORDER BY v) b)"), $count, "$what: by index");
	is($node->safe_psql($db, q{SELECT * FROM lsm_verify('l')}), '', "$what: lsm_verify");
	return;
}

# A session in the midst of an INSERT: it is registered as a writer, and about to take row numbers.  Beside it a memtable
# must not become full, for a flush would wait for it.
sub writer_at_work
{
	my ($db, $from) = @_;
	lsm_hold($node, 'write_begun', 'backend', 0);
	my $pid = lsm_start_session($node, $db, "writer_$db", qq{BEGIN;
INSERT INTO l SELECT i, 'writer ' || i, repeat('x', 500) FROM generate_series($from, $from + 999) i;
INSERT INTO h SELECT i, 'writer ' || i, repeat('x', 500) FROM generate_series($from, $from + 999) i;
COMMIT});
	ok(lsm_wait_held($node), "$db: a writer is at work");
	return $pid;
}

sub more_rows
{
	my ($db, $from) = @_;
	$node->safe_psql($db, join ';', map { "INSERT INTO $_ SELECT i, 'new ' || i FROM generate_series($from, $from + 19) i" } 'l', 'h');
	return;
}

sub finish
{
	my ($db, $pid) = @_;
	lsm_release($node);
	ok(lsm_ended($pid), "$db: the writer ends");
	is(lsm_output("writer_$db"), '', "$db: without an error");
	return;
}

# ---- a move to where the database is ----

new_database('stays');
my $writer = writer_at_work('stays', 1000);
$node->safe_psql('postgres', 'ALTER DATABASE stays SET TABLESPACE pg_default');
more_rows('stays', 10000);
finish('stays', $writer);
check('stays', 'a move that is none');

# ---- one that is refused ----

$writer = writer_at_work('stays', 20000);
foreach my $command ('ALTER DATABASE stays SET TABLESPACE other', 'DROP DATABASE stays', 'ALTER DATABASE stays RENAME TO goes', 'ALTER DATABASE stays OWNER TO CURRENT_USER', 'ALTER DATABASE stays CONNECTION LIMIT 50')
{
	my ($rc, $out, $err) = $node->psql('postgres', $command);
	like($err, $command =~ /OWNER|LIMIT/ ? qr/^$/ : qr/is being accessed by other users/, $command);
}
more_rows('stays', 30000);
finish('stays', $writer);
check('stays', 'refused commands');

# ---- the name comes to mean another database before the command has its lock ----

new_database($_) foreach 'wanted', 'spare';
foreach my $command ('ALTER DATABASE wanted SET TABLESPACE other', 'DROP DATABASE wanted')
{
	my $renamer = $node->background_psql('postgres');
	$renamer->query_safe('BEGIN; ALTER DATABASE wanted RENAME TO used; ALTER DATABASE spare RENAME TO wanted');
	my $pid = lsm_start_session($node, 'postgres', 'command', $command);
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ '^(ALTER|DROP) DATABASE wanted'}) or die 'no one waits';

	# the command stops at its checkpoint
	my ($checkpointer) = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
	kill 'STOP', $checkpointer;
	$renamer->query_safe('COMMIT');
	$renamer->quit;
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event ~ '^Checkpoint(Start|Done)$' AND query ~ '^(ALTER|DROP) DATABASE wanted'}) or die 'no checkpoint';
	$writer = writer_at_work('used', 1000);
	kill 'CONT', $checkpointer;
	ok(lsm_ended($pid), "renamed meanwhile: $command ends");
	is(lsm_output('command'), '', "renamed meanwhile: $command: no error");
	more_rows('used', 10000);
	finish('used', $writer);
	check('used', "renamed meanwhile: $command");
	check('wanted', 'the one that was moved') if $command =~ /^ALTER/;
	$node->safe_psql('postgres', 'ALTER DATABASE wanted RENAME TO spare; ALTER DATABASE used RENAME TO wanted') if $command =~ /^ALTER/;
	$node->safe_psql('wanted', 'DELETE FROM l WHERE id >= 1000; DELETE FROM h WHERE id >= 1000') if $command =~ /^ALTER/;
}

# ---- a DROP that fails when the database's buffers are gone ----

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
new_database('half');
# what is on disk of the list of files is older than what the log says
$node->safe_psql('half', q{SELECT lsm_flush('l'); CHECKPOINT; UPDATE l SET v = 'second' WHERE id < 50; SELECT lsm_flush('l')});
lsm_hold($node, 'flush_file_written', 'worker', $node->safe_psql('half', q{SELECT 'l'::regclass::oid}));
$node->safe_psql('half', q{INSERT INTO l SELECT i, 'third ' || i, repeat('x', 500) FROM generate_series(1001, 1130) i});
ok(lsm_wait_held($node), 'a worker flushes');
my ($checkpointer) = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
kill 'STOP', $checkpointer;
my $dropper = lsm_start_session($node, 'postgres', 'dropper', 'DROP DATABASE half');
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event ~ '^Checkpoint(Start|Done)$' AND query ~ '^DROP DATABASE half'}) or die 'no checkpoint';
$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query ~ '^DROP DATABASE half'});
ok(lsm_ended($dropper), 'DROP DATABASE is canceled');
like(lsm_output('dropper'), qr/ERROR:  canceling statement due to user request/, 'with an error');
kill 'CONT', $checkpointer;
# (no psql() of the module: it dies if a psql that was refused reads no input)
my ($out, $err) = run_command([ 'psql', '-X', '-d', $node->connstr('half'), '-c', 'SELECT 1' ]);
like($err, qr/cannot connect to invalid database "half"/, 'the database is invalid');
lsm_release($node);
# a worker that could not publish tries again after half a second
usleep(1_300_000);
my $lsn = $node->safe_psql('postgres', 'CREATE TABLE sent (n int) USING heap; SELECT pg_current_wal_insert_lsn()');
ok(eval { $standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'") }, 'nobody writes to it: the standby follows');
$node->safe_psql('postgres', 'DROP DATABASE half');
$lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
ok(eval { $standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'") }, 'it can be dropped');
$standby->stop;
unlike(slurp_file($standby->logfile), qr/TRAP:|PANIC:/, 'no crash of the standby');
unlike(slurp_file($node->logfile), qr/corrupted file list/, 'workers keep off its trees');

# ---- ledgers ----

# Clients that connect, commit an update and an insert, and go, or stay; what is committed stays
$node->safe_psql('postgres', 'CREATE DATABASE ledger');
$node->safe_psql('ledger', q{
CREATE TABLE account (id int PRIMARY KEY, n int) USING lsm;
CREATE TABLE entry (client int, id int) USING lsm;
CREATE INDEX ON entry USING lsm (client, id);
CREATE TABLE truth (client int, id int) USING heap;
INSERT INTO account SELECT i, 0 FROM generate_series(0, 9) i});
my $script = lsm_script('ledger', q{
\set a random(0, 9)
BEGIN;
UPDATE account SET n = n + 1 WHERE id = :a;
INSERT INTO entry SELECT :client_id, :a FROM generate_series(1, 3);
INSERT INTO truth VALUES (:client_id, :a);
COMMIT;
});
my $rounds = lsm_long() ? 20 : 1;
foreach my $move ('stays', 'moves')
{
	my @connect = $move eq 'moves' ? '-C' : ();
	my $transactions = $rounds * ($move eq 'moves' ? 50 : 1500);
	my $file = $node->logfile . ".pgbench_$move";
	my $pid = fork() // die;
	if ($pid == 0)
	{
		open(STDOUT, '>', $file);
		open(STDERR, '>&', \*STDOUT);
		exec('pgbench', '-n', @connect, '-c', 3, '-j', 3, '-t', $transactions, '-f', $script, $node->connstr('ledger')) or POSIX::_exit(99);
	}
	my $n = 0;
	my $moved = 0;
	until (lsm_ended($pid, 0.01))
	{
		my $to = $move eq 'stays' ? 'pg_default' : $n % 2 ? 'pg_default' : 'other';
		my ($rc, $out, $err) = $node->psql('postgres', $move eq 'stays' ? "ALTER DATABASE ledger SET TABLESPACE $to;\n" x 50 : "ALTER DATABASE ledger SET TABLESPACE $to");
		$moved++ if $rc == 0;
		$n++ if $rc == 0;
	}
	cmp_ok($moved, '>', 0, "$move: done beside writers");
	my $truth = $node->safe_psql('ledger', 'SELECT count(*), count(*) * 3, count(*) * 3, md5(array_agg((client, id) ORDER BY client, id)::text) FROM truth');
	is($node->safe_psql('ledger', q{SET enable_seqscan = off; SELECT (SELECT sum(n) FROM account), (SELECT count(*) FROM entry), (SELECT count(*) FROM entry WHERE client >= 0),
(SELECT md5(array_agg((client, id) ORDER BY client, id)::text) FROM (SELECT client, id FROM (SELECT client, id, row_number() OVER (PARTITION BY client, id) AS nth FROM entry) n WHERE nth % 3 = 0) third)}), $truth, "$move: nothing is lost")
	  or diag(slurp_file($file));
	is($node->safe_psql('ledger', q{SELECT * FROM lsm_verify('account'); SELECT * FROM lsm_verify('entry')}), '', "$move: lsm_verify");
}
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal|unexpected data beyond EOF/, 'no crash');

$node->stop;
done_testing();
