# Without preloading: an error that says what to do.  With it: start, stop, restart.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('preload');
$node->init;
$node->start;
my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nCREATE EXTENSION lsmam");
isnt($rc, 0, 'CREATE EXTENSION without preloading fails');
like($err, qr/55000: .*lsmam must be loaded via shared_preload_libraries/, 'error');
like($err, qr/HINT: .*shared_preload_libraries.*restart/s, 'hint');
is($node->safe_psql('postgres', 'SELECT 1'), '1', 'the session and the server live on');

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'lsmam'");
$node->restart;
$node->safe_psql('postgres', 'CREATE EXTENSION lsmam');
$node->safe_psql('postgres', q{
CREATE TABLE t (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 1000) i;
CREATE UNLOGGED TABLE u (id int PRIMARY KEY) USING lsm;
INSERT INTO u SELECT generate_series(1, 100);});
ok($node->poll_query_until('postgres', q{SELECT string_agg(backend_type, ', ' ORDER BY backend_type) FROM pg_stat_activity WHERE backend_type LIKE 'lsm %'}, 'lsm compaction worker, lsm flush worker'),
	'two workers run');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'lsm % worker' AND datname IS NOT NULL}),
	'0', 'attached to no database');

foreach my $mode ('fast', 'fast', 'immediate', 'immediate')
{
	$node->stop($mode);
	$node->start;
	is($node->safe_psql('postgres', 'SELECT count(*), max(v) FROM t'), '1000|v999', "rows after stop $mode");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), $mode eq 'fast' ? '100' : '0', "unlogged rows after stop $mode");
	$node->safe_psql('postgres', 'TRUNCATE u; INSERT INTO u SELECT generate_series(1, 100)');
	is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('t')}), '', 'lsm_verify');
}

# smaller arena than the log needs after a restart
$node->append_conf('postgresql.conf', "lsm.memtable_memory = 64MB\nlsm.memtable_size = 32MB");
$node->restart;
$node->safe_psql('postgres', q{INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(10001, 60000) i});
$node->append_conf('postgresql.conf', "lsm.memtable_memory = 4MB\nlsm.memtable_size = 1MB");
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '51000', 'a smaller arena reads a bigger log');
is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('t')}), '', 'lsm_verify');

# databases come and go while workers run
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', q{CREATE EXTENSION lsmam; CREATE TABLE t (id int PRIMARY KEY) USING lsm;
INSERT INTO t SELECT generate_series(1, 5000);});
$node->safe_psql('postgres', 'DROP DATABASE other');
$node->safe_psql('postgres', 'CREATE DATABASE other TEMPLATE template0');
$node->safe_psql('postgres', 'DROP EXTENSION lsmam CASCADE');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname IN ('t', 'u')}), '0',
	'DROP EXTENSION CASCADE drops the tables');
$node->safe_psql('postgres', 'CREATE EXTENSION lsmam; CREATE TABLE t (id int) USING lsm; INSERT INTO t VALUES (1)');
$node->stop;
done_testing();
