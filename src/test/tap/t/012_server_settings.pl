# Server settings that change what access methods have to do: wal_level = logical,
# old_snapshot_threshold.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# gone since 17
my $threshold = `pg_config --version` =~ / 1[56]/ ? 'old_snapshot_threshold = 1min' : '';
my $node = lsm_node('settings', wal_level => 'logical', conf => "$threshold\nautovacuum = off\nmax_wal_senders = 5");
lsm_start($node);

# An output plugin that is asked for heap tables only does not stumble over the
# TOAST values of lsm tables in the same transactions.
$node->safe_psql('postgres', q{
CREATE TABLE l (id int PRIMARY KEY, v text) USING lsm;
ALTER TABLE l ALTER v SET STORAGE EXTERNAL;
CREATE TABLE h (id int PRIMARY KEY, n int);
SELECT pg_create_logical_replication_slot('s', 'pgoutput');
CREATE PUBLICATION p FOR TABLE h;
});
$node->safe_psql('postgres', q{
BEGIN; INSERT INTO l VALUES (1, repeat('x', 10000)); INSERT INTO h VALUES (1, 1); COMMIT;
BEGIN; UPDATE l SET v = repeat('y', 10000); UPDATE h SET n = 2; COMMIT;
BEGIN; UPDATE l SET id = 2; DELETE FROM l; DELETE FROM h; COMMIT;
CREATE TABLE copied USING lsm AS SELECT 1 AS id, string_agg(md5(i::text), '') AS v FROM generate_series(1, 1000) i;
BEGIN; ALTER TABLE copied ALTER id TYPE bigint; INSERT INTO h VALUES (2, 2); COMMIT;
});
my $changes = q{SELECT count(*) FILTER (WHERE get_byte(data, 0) = ascii('I')), count(*) FILTER (WHERE get_byte(data, 0) = ascii('U')),
 count(*) FILTER (WHERE get_byte(data, 0) = ascii('D')) FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')};
my ($rc, $out, $err) = $node->psql('postgres', $changes);
is($out, '2|1|1', 'changes of the heap table are decoded');
is($err, '', 'and nobody is warned of the others');

$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('s')});

# A subscription whose tables are lsm: changes of rows found by key, by REPLICA IDENTITY USING INDEX and by whole row.
{
	my $tables = "CREATE TABLE t (id int PRIMARY KEY, k int, v text) USING \@; CREATE TABLE f (a int, b text) USING \@; ALTER TABLE f REPLICA IDENTITY FULL;
		CREATE TABLE u (a int NOT NULL, b text) USING \@; CREATE UNIQUE INDEX u_a ON u USING btree (a); ALTER TABLE u REPLICA IDENTITY USING INDEX u_a;";
	$node->safe_psql('postgres', "CREATE DATABASE $_") foreach 'published', 'subscribed';
	$node->safe_psql('published', $tables =~ s/\@/heap/gr);
	$node->safe_psql('subscribed', 'CREATE EXTENSION lsmam; ' . ($tables =~ s/\@/lsm/gr =~ s/USING btree/USING lsm/r));
	$node->safe_psql('published', q{INSERT INTO t SELECT i, i, 'v' || i FROM generate_series(1, 1000) i; INSERT INTO u SELECT i, 'v' || i FROM generate_series(1, 1000) i;
		INSERT INTO f SELECT i % 10, 'f' FROM generate_series(1, 20) i; CREATE PUBLICATION p FOR ALL TABLES});
	$node->safe_psql('published', q{SELECT pg_create_logical_replication_slot('sub', 'pgoutput')});
	my $connection = $node->connstr('published') =~ s/'/''/gr;
	$node->safe_psql('subscribed', "CREATE SUBSCRIPTION sub CONNECTION '$connection' PUBLICATION p WITH (create_slot = false)");
	ok($node->poll_query_until('subscribed', q{SELECT count(*) = 3 FROM pg_subscription_rel WHERE srsubstate IN ('r', 's')}), 'subscription: tables are copied');
	$node->safe_psql('published', $_) foreach q{UPDATE t SET v = v || 'u', k = k + 1 WHERE id % 3 = 0}, 'DELETE FROM t WHERE id % 5 = 0', 'UPDATE t SET id = id + 10000 WHERE id % 7 = 0',
	  q{UPDATE u SET b = 'x' WHERE a % 2 = 0}, 'UPDATE u SET a = a + 5000 WHERE a % 11 = 0', 'DELETE FROM u WHERE a % 13 = 0',
	  q{UPDATE f SET b = 'g' WHERE a = 3}, 'DELETE FROM f WHERE a = 4', q{INSERT INTO t SELECT i, i, repeat('big', 5000) FROM generate_series(20000, 20010) i},
	  'UPDATE t SET k = 0 WHERE id >= 20000', q{BEGIN; TRUNCATE u; INSERT INTO u VALUES (-1, 'after'); COMMIT};
	$node->wait_for_catchup('sub');
	my $rows = q{SELECT (SELECT count(*) || md5(string_agg(t::text, ',' ORDER BY id)) FROM t), (SELECT string_agg(u::text, ',' ORDER BY a) FROM u), (SELECT string_agg(f::text, ',' ORDER BY a, b) FROM f)};
	is($node->safe_psql('subscribed', $rows), $node->safe_psql('published', $rows), 'subscription: lsm tables follow heap tables');
	is($node->safe_psql('subscribed', q{SELECT * FROM lsm_verify('t') UNION ALL SELECT * FROM lsm_verify('u') UNION ALL SELECT * FROM lsm_verify('f')}), '', 'subscription: lsm_verify');
	$node->safe_psql('subscribed', $_) foreach 'ALTER SUBSCRIPTION sub DISABLE', 'ALTER SUBSCRIPTION sub SET (slot_name = NONE)', 'DROP SUBSCRIPTION sub';
	$node->safe_psql('published', q{SELECT pg_drop_replication_slot('sub')});
}

# A worker's job holds back no horizon, whatever isolation level transactions begin with.
foreach my $level ('read committed', 'repeatable read', 'serializable')
{
	lsm_set($node, 'lsm.crash_point' => '?', default_transaction_isolation => $level);
	$node->reload;
	usleep(200_000);
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS w; CREATE TABLE w (id int) USING lsm');
	lsm_hold($node, 'flush_file_written', 'worker', $node->safe_psql('postgres', q{SELECT 'w'::regclass::oid}));
	foreach my $i (1 .. 60)
	{
		$node->safe_psql('postgres', 'INSERT INTO w SELECT generate_series(1, 4000)');
		last if lsm_wait_held($node, 0);
	}
	ok(lsm_wait_held($node), "$level: the worker is amid a flush");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'lsm%' AND backend_xmin IS NOT NULL}), '0', "$level: it has no snapshot");
	lsm_release($node);
}
lsm_set($node, 'lsm.crash_point' => '', default_transaction_isolation => 'read committed');
$node->reload;

# No reader of a tree finds out that its snapshot is too old: nothing it sees may go.
# Takes minutes: PostgreSQL looks at times in whole minutes.
SKIP:
{
	skip('old_snapshot_threshold: only in the long form', 5) unless lsm_long();
	$node->safe_psql('postgres', q{CREATE TABLE unrelated (x int)});
	my @maintenance = ('VACUUM o', 'VACUUM (FREEZE) o', 'VACUUM FULL o', 'CLUSTER o USING o_pkey');
	my $tables = '';
	my $work = '';
	my $check = '';
	foreach my $i (0 .. $#maintenance)
	{
		$tables .= "CREATE TABLE o$i (id int CONSTRAINT o${i}_pkey PRIMARY KEY, v int) USING lsm; INSERT INTO o$i SELECT i, i FROM generate_series(1, 1000) i; CREATE INDEX ON o$i USING lsm (v);\n";
		$work .= "DELETE FROM o$i WHERE id % 2 = 0; INSERT INTO o$i SELECT i, i FROM generate_series(2, 1000, 2) i; UPDATE o$i SET v = v + 1 WHERE id % 3 = 0;\n";
		$maintenance[$i] =~ s/\bo(?=\b|_)/o$i/g;
		$check .= "SET enable_seqscan = off; SELECT count(*), sum(id), sum(v) FROM o$i WHERE id > -10; SELECT count(*), sum(id), sum(v) FROM o$i WHERE v > -10;\n"
		  . "SET enable_seqscan = on; SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(id), sum(v) FROM o$i; RESET ALL;\n";
	}
	$node->safe_psql('postgres', $tables);
	my $file = "$PostgreSQL::Test::Utils::tmp_check/work.sql";
	my $late = "$PostgreSQL::Test::Utils::tmp_check/late.sql";
	open my $fh, '>', $file or die;
	print $fh "$work\n", map { "SELECT pg_sleep(5); INSERT INTO unrelated VALUES ($_);\n" } 1 .. 36;
	close $fh;
	open $fh, '>', $late or die;
	print $fh map { "$_;\n" } @maintenance;
	close $fh;
	my $other = "psql -XAtq -d '" . $node->connstr('postgres') . "' -f";
	my $rows = $node->safe_psql('postgres', qq{
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM unrelated;
\\! $other '$file' >/dev/null
\\! $other '$late'
$check
COMMIT;
});
	$rows =~ s/^\s+|\s+$//g;
	my @rows = split /\n/, $rows;
	is(shift @rows, '0', 'the snapshot is taken');
	is(join(' ', splice(@rows, 0, 3)), join(' ', ('1000|500500|500500') x 3), "an old snapshot after $_") foreach @maintenance;
}
$node->stop;
done_testing();
