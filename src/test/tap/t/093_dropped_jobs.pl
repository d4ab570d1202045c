# A compaction whose tree goes away meanwhile (DROP TABLE, DROP INDEX, TRUNCATE, REINDEX) ends soon; one whose DROP is
# rolled back, or that meets another tree's DROP, goes on to its end.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# 9 MB of random entries at 100 kB/s
my $node = lsm_node('dropped', conf => "autovacuum = off\nfsync = off\nlsm.compression = 'none'\nlsm.memtable_size = 64MB");
lsm_start($node);
sub query { return $node->safe_psql('postgres', $_[0]); }
sub set_rate { return query("ALTER SYSTEM SET lsm.compaction_rate = $_[0]; SELECT pg_reload_conf()"); }
my $jobs = q{SELECT count(*) FROM pg_stat_lsm_progress WHERE command = 'compaction'};

sub begin_job
{
	my ($what) = @_;
	# to its end it would take longer than the test may
	set_rate(5);
	query(q{CREATE TABLE t (k bigint, v int) USING lsm; CREATE INDEX t_k ON t USING lsm (k)});
	query("INSERT INTO t SELECT hashint8extended(i, 1), i FROM generate_series(1 + 60000 * $_, 60000 * (1 + $_)) i; SELECT lsm_flush('t_k')") foreach 0 .. 4;
	return ok($node->poll_query_until('postgres', q{SELECT bytes_written > 10000 FROM pg_stat_lsm_progress WHERE command = 'compaction' AND relid = 't_k'::regclass}), "$what: a compaction is at work");
}

foreach my $what ('DROP TABLE t', 'DROP INDEX t_k', 'TRUNCATE t', 'REINDEX INDEX t_k')
{
	begin_job($what);
	# the statement, too, must not wait for its end
	query($what);
	ok($node->poll_query_until('postgres', "SELECT ($jobs) = 0"), "$what: the compaction ends");
	query('DROP TABLE IF EXISTS t');
}

begin_job('rolled back');
query('BEGIN; DROP INDEX t_k; ROLLBACK; CREATE TABLE other (k int) USING lsm; INSERT INTO other VALUES (1); DROP TABLE other');
usleep(2_500_000);
is(query($jobs), 1, 'rolled back: the compaction goes on');
set_rate(0);
ok($node->poll_query_until('postgres', q{SELECT count(*) < 5 FROM lsm_levels('t_k') l, generate_series(1, l.runs)}), 'rolled back: and makes one run of several');
is(query(q{SELECT count(*) FROM lsm_verify('t_k')}), 0, 'verified');
is(query('SET enable_seqscan = off; SELECT count(k) FROM t WHERE k IS NOT NULL'), 300000, 'entries');

$node->stop;
done_testing();
