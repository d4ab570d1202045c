# What the primary does away with because no one sees it any more, a snapshot on the standby may still see: the
# standby resolves that conflict before it replays the removal.  Snapshots outlive a promotion, so a session whose
# transaction began in recovery reads lsm tables after it: it sees what its snapshot saw, or has been canceled.
# With hot_standby_feedback the primary waits for the standby's snapshots, and nothing is canceled at all.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = lsm_node('primary', conf => "max_wal_senders = 8\nwal_keep_size = 256MB\nmax_wal_size = 1GB\nhot_standby = on\n"
	  . "autovacuum = off\nlsm.memtable_size = 4MB\nlsm.compaction_workers = 0\nwal_receiver_status_interval = 1s");
$primary->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($primary);
$primary->safe_psql('postgres', q{
CREATE TABLE tick (n int) USING heap;
CREATE TABLE gone (id int PRIMARY KEY, v text) USING lsm;
CREATE TABLE kept (id int PRIMARY KEY, v text) USING lsm;
CREATE TABLE heap (id int PRIMARY KEY, v text) USING heap;
CREATE INDEX heap_v ON heap USING lsm (v);
INSERT INTO gone SELECT g, 'v' || g FROM generate_series(1, 200) g;
INSERT INTO kept SELECT g, 'v' || g FROM generate_series(1, 200) g;
INSERT INTO heap SELECT g, 'v' || g FROM generate_series(1, 200) g;
SELECT lsm_flush('gone'), lsm_flush('kept')});
$primary->backup('base');

sub standby
{
	my ($name, $conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($primary, 'base', has_streaming => 1);
	$node->append_conf('postgresql.conf', "$conf\n");
	$node->start;
	return $node;
}

# A transaction with a snapshot; the tree itself is not read yet.
sub session
{
	my ($node) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$session->query_safe('SELECT count(*) FROM tick');
	return $session;
}

# An answer, or "canceled": a transaction that conflicts with recovery is rolled back, or its connection is gone.
sub answer
{
	my ($session, $sql) = @_;
	my $out = eval { $session->query($sql) } // '';
	return $out ne '' ? $out : 'canceled';
}

sub conflicts
{
	my ($node) = @_;
	return $node->safe_psql('postgres', "SELECT confl_snapshot FROM pg_stat_database_conflicts WHERE datname = 'postgres'");
}

# Until the standby with feedback, which has no snapshot, lets the rows go that have been deleted so far
sub let_go
{
	my $xid = $primary->safe_psql('postgres', 'INSERT INTO tick VALUES (1) RETURNING xmin');
	$primary->poll_query_until('postgres', "SELECT bool_and(coalesce(backend_xmin::text::bigint, $xid) >= $xid) FROM pg_stat_replication")
	  or die 'a standby holds back the horizon';
	return;
}

my $strict = standby('strict', 'max_standby_streaming_delay = 0');
my $polite = standby('polite', "max_standby_streaming_delay = 0\nhot_standby_feedback = on");

# ---- a snapshot older than the rows' deletion ----

# scans that find the dead rows in files leave DELETE entries for rows and index entries; nothing is flushed
my $scans = q{
SELECT count(*) FROM gone;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(v) FROM gone WHERE id > 0};

my $old = session($strict);
$primary->safe_psql('postgres', 'DELETE FROM gone WHERE id % 2 = 0');
my $files = $primary->safe_psql('postgres', q{SELECT array_agg(file ORDER BY file) FROM lsm_files('gone')});
$primary->wait_for_catchup($strict);
is(conflicts($strict), '0', 'a deletion alone conflicts with nothing');

let_go();
$primary->safe_psql('postgres', $scans);
is($primary->safe_psql('postgres', q{SELECT array_agg(file ORDER BY file) FROM lsm_files('gone')}), $files, 'no file has been written meanwhile');
# a commit that waits for its record: all before it is on disk then, and sent
$primary->safe_psql('postgres', 'CREATE TABLE sent (n int) USING heap');
$primary->wait_for_catchup($strict);
# the session notes its cancellation by itself
ok( $strict->poll_query_until(
		'postgres', "SELECT confl_snapshot > 0 FROM pg_stat_database_conflicts WHERE datname = 'postgres'"),
	'DELETE entries of dead rows conflict with a snapshot that sees the rows');

$strict->promote;
like(answer($old, 'SELECT count(*) FROM gone'), qr/^(200|canceled)$/, 'promoted: the old snapshot sees all it saw, or is gone');
is($strict->safe_psql('postgres', 'SELECT count(*), sum(id) FROM gone'), '100|10000', 'promoted: a new one sees what the primary showed');
is($strict->safe_psql('postgres', q{SELECT * FROM lsm_verify('gone')}), '', 'promoted: nothing is wrong');
eval { $old->quit };
$strict->stop;

# ---- VACUUM of a heap table tells index-only scans on standbys ----

$primary->safe_psql('postgres', 'CREATE EXTENSION pg_walinspect');
$primary->safe_psql('postgres', 'DELETE FROM heap WHERE id % 2 = 0');
let_go();
my $lsn = $primary->lsn('flush');
# a commit that waits for its record: all before it is on disk then
$primary->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) heap; CREATE TABLE flushed (n int) USING heap');
my $kinds = $primary->safe_psql('postgres', sprintf q{SELECT string_agg(what, ' ' ORDER BY start_lsn)
FROM (SELECT start_lsn, CASE WHEN record_type = 'HORIZON' AND description ~ 'vacuumed' THEN 'vacuumed' WHEN record_type LIKE 'LOG_APPEND%' THEN 'append' WHEN resource_manager = 'Heap2' AND record_type IN ('VACUUM', 'PRUNE_VACUUM_CLEANUP') THEN 'reuse' END AS what
FROM pg_get_wal_records_info('%s', '%s')) r WHERE what IS NOT NULL}, $lsn, $primary->lsn('flush'));
like($kinds, qr/append vacuumed( append| vacuumed)* reuse/, 'VACUUM of a heap table: entries go, standbys are told, row identifiers become free');

# ---- a snapshot younger than the deletion, older than much else ----

# rows deleted now are dead to the session from the start
$primary->safe_psql('postgres', 'DELETE FROM kept WHERE id % 2 = 0');
$primary->wait_for_catchup($polite);
my $young = session($polite);
my $xmin = $polite->safe_psql('postgres', q{SELECT backend_xmin FROM pg_stat_activity WHERE state = 'idle in transaction'});
ok($primary->poll_query_until('postgres', qq{SELECT count(*) = 1 FROM pg_stat_replication WHERE backend_xmin = '$xmin'}), 'the primary knows of the snapshot');
$primary->safe_psql('postgres', 'INSERT INTO tick VALUES (2)') foreach 1 .. 20;
my $before = conflicts($polite);
# in memory: new rows that die before the flush are dead to everyone but the session
$primary->safe_psql('postgres', $scans =~ s/gone/kept/gr);
$primary->safe_psql('postgres', q{INSERT INTO kept SELECT g, 'new' FROM generate_series(1001, 1100) g; DELETE FROM kept WHERE id > 1000});
$primary->safe_psql('postgres', $scans =~ s/gone/kept/gr);
$primary->safe_psql('postgres', q{SELECT lsm_flush('kept'); VACUUM kept; SELECT lsm_compact('kept')});
$primary->wait_for_catchup($polite);
is(conflicts($polite), $before, 'hot_standby_feedback: what went was dead to the standby, too, and nothing is canceled');
isnt(answer($young, 'SELECT count(*) FROM tick'), 'canceled', 'the transaction goes on');

# ---- promotion with that snapshot ----

$primary->wait_for_catchup($polite);
$primary->stop;
$polite->promote;
is(answer($young, 'SELECT count(*) FROM kept'), '100', 'promoted: the young snapshot sees what it saw');
eval { $young->quit };
$polite->stop;
done_testing();
