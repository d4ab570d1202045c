# pg_upgrade transfers main forks, not sorted files: it must stop while the old cluster is whole, and
# it must not mind the extension alone.
use strict;
use warnings;
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

# link: the mode in which a failure that comes too late costs the old cluster
sub upgrade
{
	my ($new) = @_;
	my $output = $PostgreSQL::Test::Utils::tmp_check . '/upgrade_' . $new->name;

	$old->stop;
	mkdir $output or die "$output: $!";
	chdir $output or die "$output: $!";
	my $result = run_log([ 'pg_upgrade', '--no-sync', '--link', '-b', $new->config_data('--bindir'), '-B', $new->config_data('--bindir'),
			'-d', $old->data_dir, '-D', $new->data_dir, '-s', $new->host, '-p', $old->port, '-P', $new->port, '-U', $ENV{USER} // getpwuid($<) ]);
	return ($result, join "\n", map { slurp_file($_) } glob($new->data_dir . '/pg_upgrade_output.d/*/log/pg_upgrade_dump_*.log'));
}

my $new = lsm_node('new');
my ($result, $log) = upgrade($new);
ok(!$result, 'pg_upgrade stops at an lsm table');
like($log, qr/ERROR:  pg_upgrade cannot transfer lsm tables and indexes\nHINT:  Use pg_dumpall/, 'error and hint');
$old->start;
is($old->safe_psql('postgres', $sum), $all, 'the old cluster is whole');

$old->safe_psql('postgres', 'ALTER TABLE t SET ACCESS METHOD heap; CREATE INDEX h_id ON h USING lsm (id)');
my $indexed = lsm_node('indexed');
($result, $log) = upgrade($indexed);
ok(!$result, 'pg_upgrade stops at an lsm index');
like($log, qr/ERROR:  pg_upgrade cannot transfer lsm tables and indexes/, 'error');
$old->start;
is($old->safe_psql('postgres', 'SET enable_seqscan = off; SELECT v FROM h WHERE id = 77'), 'heap 77', 'the old index answers');

$old->safe_psql('postgres', 'DROP INDEX h_id');
my $last = lsm_node('last');
($result, $log) = upgrade($last);
ok($result, 'pg_upgrade goes through with the extension alone') or diag($log);
$last->start;
is($last->safe_psql('postgres', $sum), $all, 'rows in the new cluster');
$last->safe_psql('postgres', q{ALTER TABLE t SET ACCESS METHOD lsm; SELECT lsm_flush('t')});
is($last->safe_psql('postgres', $sum), $all, 'rows in lsm again');
is($last->safe_psql('postgres', q{SELECT * FROM lsm_verify('t')}), '', 'lsm_verify');
$last->stop;

done_testing();
