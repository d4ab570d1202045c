# Under a load of updates autovacuum starts by itself and finishes, dead rows and their index entries go, their space comes
# back, in memory, in sorted files, in the log and in the TOAST table; relfrozenxid advances; an open
# snapshot keeps what it needs and no more than until it ends.
#   LSM_SECONDS: length of a load (6; long: 120)
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX ();
use Time::HiRes qw(usleep);

my $seconds = $ENV{LSM_SECONDS} // (lsm_long() ? 120 : 6);
my $node = lsm_node('housekeeping', conf => "fsync = off\nlsm.memtable_size = 512kB\nlsm.target_file_size = 512kB\nautovacuum_vacuum_cost_delay = 0\n"
	  . "autovacuum_vacuum_threshold = 500\nautovacuum_vacuum_scale_factor = 0.1\nvacuum_freeze_min_age = 1000\nvacuum_freeze_table_age = 2000\nsynchronous_commit = off\ncheckpoint_timeout = 1h");
lsm_start($node);
$node->safe_psql('postgres', q{
CREATE TABLE hot (id int PRIMARY KEY, n int DEFAULT 0, pad text, big text) USING lsm;
ALTER TABLE hot ALTER big SET STORAGE EXTERNAL;
CREATE INDEX hot_n ON hot USING lsm (n);
CREATE INDEX hot_b ON hot (n);
INSERT INTO hot SELECT i, 0, repeat('p', 200), CASE WHEN i % 100 = 0 THEN repeat('b', 5000) END FROM generate_series(1, 3000) i});
append_to_file("$ENV{TESTDIR}/hot.sql", q{\set id random(1, 3000)
\set b random(1, 30)
UPDATE hot SET n = n + 1, pad = repeat(chr(97 + :id % 26), 200) WHERE id = :id;
UPDATE hot SET big = repeat(chr(97 + :b % 26), 5000) WHERE id = :b * 100;
});

sub load_start
{
	my $pid = fork();
	die "fork: $!" unless defined $pid;
	return $pid if $pid;
	open(STDOUT, '>', "$ENV{TESTDIR}/load.out");
	open(STDERR, '>&', \*STDOUT);
	exec('pgbench', '-n', '-c', 6, '-j', 2, '-T', $seconds, '-f', "$ENV{TESTDIR}/hot.sql", $node->connstr('postgres')) or POSIX::_exit(99);
}

# bytes: trees with their logs; the btree index and TOAST table beside them
my $bytes = q{SELECT lsm_relation_size('hot') + lsm_relation_size('hot_pkey') + lsm_relation_size('hot_n'), pg_relation_size('hot_b') + pg_total_relation_size((SELECT reltoastrelid FROM pg_class WHERE relname = 'hot'))};
my @before = split /\|/, $node->safe_psql('postgres', $bytes);
my ($most, $most_others) = (0, 0);
my @later;
sub autovacuums { return $node->safe_psql('postgres', q{SELECT autovacuum_count FROM pg_stat_all_tables WHERE relname = 'hot'}); }
for (my $round = 1; $round <= 3 || ($round <= 10 && autovacuums() < 3); $round++)
{
	my $pid = load_start();
	my $end = time + $seconds;
	while (time < $end)
	{
		my ($now, $others) = split /\|/, $node->safe_psql('postgres', $bytes);
		$most = $now if $now > $most;
		$most_others = $others if $others > $most_others;
		usleep(300_000);
	}
	waitpid($pid, 0);
	is($?, 0, "round $round: the load runs") or diag(slurp_file("$ENV{TESTDIR}/load.out"));
	push @later, (split /\|/, $node->safe_psql('postgres', $bytes))[0];
}
ok($node->poll_query_until('postgres', q{SELECT autovacuum_count > 2 AND autoanalyze_count > 0 FROM pg_stat_all_tables WHERE relname = 'hot'}), 'autovacuum ran, several times');
ok($node->poll_query_until('postgres', q{SELECT autovacuum_count > 0 FROM pg_stat_all_tables WHERE relid = (SELECT reltoastrelid FROM pg_class WHERE relname = 'hot')}), 'of the TOAST table, too');
ok($node->poll_query_until('postgres', q{SELECT n_dead_tup < 900 FROM pg_stat_all_tables WHERE relname = 'hot'}), 'dead rows are counted down');
ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'}), 'autovacuum finishes');
my $versions = $node->safe_psql('postgres', 'SELECT sum(n) FROM hot');
cmp_ok($versions, '>', 3000, "$versions row versions were made");

# 3000 rows of 250 bytes, in three trees; 30 MB of updates of the smallest load
cmp_ok($most, '<', 40e6, "at most @{[ int($most / 1024) ]} kB during the load, @{[ int($before[0] / 1024) ]} kB before it");
cmp_ok($later[-1], '<', 2 * $later[0] + 5e6, 'no growth from round to round (' . join(', ', map { int($_ / 1024) . ' kB' } @later) . ')');

# each had a transaction of its own, and there was another one for each
cmp_ok($node->safe_psql('postgres', q{SELECT age(relfrozenxid) FROM pg_class WHERE relname = 'hot'}), '<', $versions, 'relfrozenxid follows') if $versions > 40000;
is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('hot')}), '', 'lsm_verify');

# an open snapshot
{
	my $holder = $node->background_psql('postgres');
	my $sum = $holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT sum(n), md5(string_agg(pad, id::text ORDER BY id)) FROM hot');
	my $pid = load_start();
	waitpid($pid, 0);
	$node->safe_psql('postgres', 'VACUUM hot');
	my $kept = $node->safe_psql('postgres', q{SELECT lsm_compact('hot'); SELECT sum(entries) FROM lsm_levels('hot')});
	is($holder->query_safe('SET enable_seqscan = off; SELECT sum(n), md5(string_agg(pad, id::text ORDER BY id)) FROM hot WHERE id > 0') =~ s/^SET\n//r, $sum, 'an old snapshot sees what it saw');
	$holder->query_safe('COMMIT');
	$holder->quit;
	$node->safe_psql('postgres', 'VACUUM hot');
	my $left = $node->safe_psql('postgres', q{SELECT lsm_compact('hot'); SELECT sum(entries) FROM lsm_levels('hot')}) =~ s/\s//gr;
	cmp_ok($kept =~ s/\s//gr, '>', 3500, 'rows are kept for it');
	is($left, 3000, 'and go when it has ended');
	is($node->safe_psql('postgres', q{SELECT lsm_compact('hot_n'); SELECT sum(entries) FROM lsm_levels('hot_n')}) =~ s/\s//gr, 3000, 'index entries, too');
}

# a table that is emptied
$node->safe_psql('postgres', q{DELETE FROM hot; VACUUM hot; SELECT lsm_compact('hot'), lsm_compact('hot_pkey'), lsm_compact('hot_n')});
is($node->safe_psql('postgres', q{SELECT coalesce(sum(bytes), 0) FROM (SELECT * FROM lsm_levels('hot') UNION ALL SELECT * FROM lsm_levels('hot_pkey') UNION ALL SELECT * FROM lsm_levels('hot_n')) l}), 0, 'nothing is left of an emptied table');
$node->stop;
done_testing();
