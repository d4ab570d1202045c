# The second opinion accuses nobody who is right: beside a transaction of another database, and of entries that were
# pruned and come back with an eviction.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('alarms', conf => q{
autovacuum = off
lsm.memtable_memory = 16MB
lsm.memtable_size = 1MB
lsm.second_opinion = 1
enable_seqscan = off
enable_sort = off});
lsm_start($node);
$node->safe_psql('postgres', 'CREATE DATABASE other');

# A bitmap scan meets a gap, into which an eviction has brought entries of dead rows.
my $at = -s $node->logfile;
$node->safe_psql('postgres', q{
SET enable_bitmapscan = off;
CREATE TABLE g (i int, v int) USING lsm; CREATE INDEX g_i ON g USING lsm (i);
INSERT INTO g SELECT x, 0 FROM generate_series(1, 2000) x;
SELECT lsm_flush('g'), lsm_flush('g_i');
INSERT INTO g SELECT generate_series(10, 190, 10), 1;
DELETE FROM g WHERE i < 200;
SELECT i FROM g ORDER BY i LIMIT 1;
SELECT i FROM g ORDER BY i LIMIT 1;
SELECT i FROM g ORDER BY i LIMIT 1;
SELECT i FROM g ORDER BY i LIMIT 1});
$node->safe_psql('postgres', "CREATE TABLE filler_$_ (i int) USING lsm; INSERT INTO filler_$_ SELECT generate_series(1, 1200)") foreach 1 .. 150;
is($node->safe_psql('postgres', 'SELECT i FROM g ORDER BY i LIMIT 1'), 200, 'an index scan passes the gap');
my ($rc, $out, $err) = $node->psql('postgres', q{SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT count(v) FROM g WHERE i < 250});
is("$rc $out", '0 50', 'a bitmap scan, too') or diag($err);
ok(!$node->log_contains('PANIC', $at), 'nobody is accused');

lsm_wait_up($node);

# Horizons go backward: VACUUM has none of its own session's snapshot, the next query has, with the other database's
# xid for its xmin.  The session goes on by what it knew (GlobalVisState), and is right.
my $other = $node->background_psql('other', on_error_stop => 1);
$at = -s $node->logfile;
$node->safe_psql('postgres', q{CREATE TABLE r2 (a int) USING heap; CREATE TABLE r1 (k int, v int) USING lsm; CREATE INDEX r1_k ON r1 USING lsm (k);
	INSERT INTO r1 SELECT i, 0 FROM generate_series(1, 100) i});
$other->query_safe('BEGIN; SELECT txid_current()');
($rc, $out, $err) = $node->psql('postgres', q{
SET enable_bitmapscan = off;
DELETE FROM r1 WHERE k < 50;
DO $$BEGIN PERFORM lsm_flush('r1'); END$$;
VACUUM r2;
SELECT count(v) FROM r1 WHERE k = 7;
});
is("$rc $out", '0 0', 'a horizon that another database takes back') or diag($err);
ok(!$node->log_contains('PANIC', $at), 'nobody is accused');

lsm_wait_up($node);
$SIG{PIPE} = 'IGNORE';
eval { $other->quit };

$node->stop;
done_testing();
