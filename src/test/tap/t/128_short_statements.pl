# Sessions whose statements end early, or which are somebody's: a tree that takes longer to load than any statement may last
# is loaded all the same, and a role's small memtables do not make the levels of a table small.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('short', conf => "fsync = off\nautovacuum = off\nlsm.memtable_memory = 256MB\nlsm.memtable_size = 200MB\nshared_buffers = 128MB\nmax_wal_size = 1GB");
lsm_start($node);
sub query { return $node->safe_psql('postgres', $_[0]); }

# ---- all sessions have less time than a load takes ----

query(q{
CREATE TABLE t (id int, v text) USING lsm;
INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 400000) g});
is(query(q{SELECT flushes FROM pg_stat_lsm WHERE relname = 't'}), '0', 'all of the table is in memory');
$node->stop('immediate');
$node->start;
my ($tries, $rc, $out, $err) = (0);
do
{
	($rc, $out, $err) = $node->psql('postgres', q{SET statement_timeout = '20ms'; SELECT v = md5('1') FROM t WHERE ctid = '(0,1)'});
	$tries++;
} while ($out ne 't' && $tries < 500);
is($out, 't', "after some statements that were cancelled one finds the table loaded");
cmp_ok($tries, '>', 1, 'which took longer than a statement may last');

# ---- a role's settings ----

query(q{
CREATE ROLE small LOGIN;
CREATE TABLE s (id int PRIMARY KEY, v text) USING lsm;
GRANT ALL ON s TO small;
INSERT INTO s SELECT g, md5(g::text) FROM generate_series(1, 100000) g;
SELECT lsm_flush('s'), lsm_compact('s')});
my $levels = q{SELECT max(level) FROM lsm_levels('s')};
my $before = query($levels);
$node->safe_psql('postgres', q{
SET ROLE small;
SET lsm.memtable_size = '64kB';
DO $$ BEGIN FOR i IN 1..40 LOOP INSERT INTO s SELECT g, md5(g::text) FROM generate_series(100000 + i * 1000, 100999 + i * 1000) g; END LOOP; END $$});
query(q{SELECT lsm_flush('s')});
cmp_ok(query(q{SELECT flushes FROM pg_stat_lsm WHERE relname = 's'}), '>', 10, 'it has small memtables');
is(query($levels), $before, 'and the table the levels that it had');
is(query(q{SELECT count(*) FROM lsm_verify('s')}), '0', 'lsm_verify');
done_testing();
