# pg_upgrade transfers main forks, not sorted files: it must stop while the old cluster is whole, and
# it must not mind the extension alone.
use strict;
use warnings;
use File::Spec::Functions qw(rel2abs);
use IPC::Run;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $old = lsm_node('old');
lsm_start($old);
$old->safe_psql('postgres', q{
CREATE TABLE t (id int, v text) USING lsm;
CREATE TABLE h (id int, v text);
INSERT INTO t SELECT g, 'flushed ' || g FROM generate_series(1, 5000) g;
INSERT INTO h SELECT g, 'heap ' || g FROM generate_series(1, 5000) g;
SELECT lsm_flush('t');
INSERT INTO t SELECT g, 'memory ' || g FROM generate_series(5001, 6000) g});
my $sum = 'SELECT count(*), sum(id), count(DISTINCT v) FROM t';
my $all = $old->safe_psql('postgres', $sum);

# link: the mode in which a failure that comes too late costs the old cluster.  The old server is stopped
# but for a live check.
sub upgrade
{
	my ($new, @options) = @_;
	my $live = grep { $_ eq 'live' } @options;
	my ($out, $err);

	$old->stop unless $live;
	my $result = IPC::Run::run([ 'pg_upgrade', '--no-sync', '--link', '-b', $new->config_data('--bindir'), '-B', $new->config_data('--bindir'),
			'-d', rel2abs($old->data_dir), '-D', rel2abs($new->data_dir), '-s', $new->host, '-p', $old->port, '-P', $new->port, '-U', $ENV{USER} // getpwuid($<),
			grep { $_ ne 'live' } @options ], '>', \$out, '2>', \$err, init => sub { chdir $PostgreSQL::Test::Utils::tmp_check });
	note("$out$err");
	return ($result, "$out$err");
}

my $new = lsm_node('new');
my $refusal = qr/ERROR:  pg_upgrade by itself cannot transfer lsm tables and indexes\nDETAIL:  Database "postgres" has lsm table "public.t".\nHINT:  Run lsm_pg_upgrade/;
my ($result, $log) = upgrade($new, '--check', 'live');
ok(!$result, 'pg_upgrade --check beside the running server stops at an lsm table');
like($log, $refusal, 'error and hint');
is($old->safe_psql('postgres', $sum), $all, 'the server goes on');
($result, $log) = upgrade($new, '--check');
ok(!$result, 'pg_upgrade --check stops at an lsm table');
like($log, $refusal, 'error and hint');
$old->start;
is($old->safe_psql('postgres', $sum), $all, 'the old cluster is whole');
($result, $log) = upgrade($new);
ok(!$result, 'pg_upgrade stops at an lsm table');
like($log, $refusal, 'error and hint');
$old->start;
is($old->safe_psql('postgres', $sum), $all, 'the old cluster is whole');

$old->safe_psql('postgres', 'ALTER TABLE t SET ACCESS METHOD heap; CREATE INDEX h_id ON h USING lsm (id)');
($result, $log) = upgrade($new);
ok(!$result, 'pg_upgrade stops at an lsm index');
like($log, qr/ERROR:  pg_upgrade by itself cannot transfer lsm tables and indexes\nDETAIL:  Database "postgres" has lsm index "public.h_id"/, 'error');
$old->start;
is($old->safe_psql('postgres', 'SET enable_seqscan = off; SELECT v FROM h WHERE id = 77'), 'heap 77', 'the old index answers');

$old->safe_psql('postgres', 'DROP INDEX h_id');
# any database counts
$old->safe_psql('postgres', 'CREATE DATABASE side');
$old->safe_psql('side', 'CREATE EXTENSION lsmam; CREATE UNLOGGED TABLE u (id int) USING lsm');
foreach my $how ('live', 'stopped')
{
	($result, $log) = upgrade($new, '--check', $how eq 'live' ? 'live' : ());
	ok(!$result, "another database's table: $how");
	like($log, qr/DETAIL:  Database "side" has lsm table "public.u"/, 'named');
}
$old->start;
# of heap, but keys of partitions can be of either
$old->safe_psql('side', q{DROP TABLE u;
CREATE TABLE p (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
INSERT INTO p SELECT generate_series(0, 99)});
my $last = lsm_node('last');
foreach my $how ('live', 'stopped')
{
	($result, $log) = upgrade($last, '--check', $how eq 'live' ? 'live' : ());
	ok($result, "pg_upgrade --check with the extension alone: $how");
	like($log, qr/Clusters are compatible/, 'compatible');
}
$old->start;
($result, $log) = upgrade($last);
ok($result, 'pg_upgrade goes through with the extension alone') or diag($log);
$last->start;
is($last->safe_psql('postgres', $sum), $all, 'rows in the new cluster');
is($last->safe_psql('side', 'SET enable_seqscan = off; SELECT a FROM p WHERE a = 77'), '77', 'and by a key of partitions');
$last->safe_psql('postgres', q{ALTER TABLE t SET ACCESS METHOD lsm; SELECT lsm_flush('t')});
is($last->safe_psql('postgres', $sum), $all, 'rows in lsm again');
is($last->safe_psql('postgres', q{SELECT * FROM lsm_verify('t')}), '', 'lsm_verify');
my $version = $last->safe_psql('postgres', 'SHOW server_version_num');
$last->stop;

# ---- logical slots go along, since 17; what they have not read yet, the decoder is asked ----

if ($version >= 170000)
{
	my ($from, $to) = map { lsm_node($_, wal_level => 'logical', conf => 'autovacuum = off') } 'slots_old', 'slots_new';
	my $changes = q{SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1', 'include-xids', '0') WHERE data !~ '^(BEGIN|COMMIT)'};
	my $script = sub {
		my $out = '';
		my $ok = IPC::Run::run([ $from->config_data('--bindir') . '/lsm_pg_upgrade', '-b', $from->config_data('--bindir'), '-B', $to->config_data('--bindir'),
				'-d', rel2abs($from->data_dir), '-D', rel2abs($to->data_dir), '-s', $to->host, '-p', $from->port, '-P', $to->port ],
			'<', \undef, '>', \$out, '2>&1', init => sub { chdir $PostgreSQL::Test::Utils::tmp_check });
		note($out);
		return ($ok, $out);
	};

	lsm_start($from);
	$from->safe_psql('postgres', q{
CREATE TABLE d (id int PRIMARY KEY, v text) USING lsm;
SELECT pg_create_logical_replication_slot('s', 'test_decoding');
INSERT INTO d SELECT g, 'v' || g FROM generate_series(1, 500) g});
	$from->stop;
	my ($ok, $out) = $script->();
	ok(!$ok, 'a slot that has not read all keeps pg_upgrade from it');
	like($out, qr/logical replication slots that can(?:not|'t) be upgraded/, 'it says so');
	$from->start;
	is(scalar(split /\n/, $from->safe_psql('postgres', $changes)), 500, 'it reads');
	# what is logged behind that is nobody's change: files, and the shutdown's
	$from->safe_psql('postgres', q{SELECT lsm_flush('d'::regclass), lsm_compact('d'::regclass); VACUUM d});
	$from->safe_psql('postgres', $changes);
	$from->stop;
	($ok, $out) = $script->();
	ok($ok, 'one that has read all goes along');
	$to->start;
	is($to->safe_psql('postgres', q{SELECT slot_name, plugin FROM pg_replication_slots}), 's|test_decoding', 'it is there');
	$to->safe_psql('postgres', q{INSERT INTO d VALUES (1000, 'new'); UPDATE d SET v = 'changed' WHERE id = 7; DELETE FROM d WHERE id = 8});
	is($to->safe_psql('postgres', $changes), join("\n", q{table public.d: INSERT: id[integer]:1000 v[text]:'new'}, q{table public.d: UPDATE: id[integer]:7 v[text]:'changed'},
			'table public.d: DELETE: id[integer]:8'), 'and decodes what comes');
	is($to->safe_psql('postgres', q{SELECT * FROM lsm_verify('d'::regclass)}), '', 'lsm_verify');
	$to->stop;
}
done_testing();
