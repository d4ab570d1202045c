# VACUUM and ANALYZE of lsm tables pay for what they read and write, and sleep (vacuum_cost_delay); writers go on
# meanwhile, and level 0 is seen to. What VACUUM says it has removed is what was dead, whichever way it goes.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = lsm_node('vacuum_cost', conf => q{
lsm.memtable_size = 1MB
autovacuum = off});
lsm_start($node);

sub query { return $node->safe_psql('postgres', $_[0]); }

# How long, s
sub takes
{
	my $start = time;
	query($_[0]);
	return time - $start;
}

# What a statement says it removed, of table t
sub removed
{
	my ($rc, $out, $err) = $node->psql('postgres', $_[0]);
	is($rc, 0, "$_[0] succeeds");
	return $err =~ /tuples: (\d+) removed, (\d+) remain, (\d+) are dead/ ? "$1 $2 $3" : $err;
}

sub fill
{
	query(q{DROP TABLE IF EXISTS t;
		CREATE TABLE t (id int PRIMARY KEY, u text, v text) USING lsm;
		CREATE INDEX t_u ON t USING lsm (u);
		CREATE INDEX t_v ON t USING btree (v);
		INSERT INTO t SELECT i, md5(i::text), md5((i / 2)::text) FROM generate_series(1, 40000) i;
		SELECT lsm_compact('t')});
}

sub sound
{
	my ($count, $what) = @_;
	is(query(q{SELECT count(*) FROM lsm_verify('t')}), 0, "$what: verified");
	is(query(qq{SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT (SELECT count(*) FROM t WHERE id > 0), (SELECT count(*) FROM t WHERE u > ''), (SELECT count(*) FROM t WHERE v > '')}),
		"$count|$count|$count", "$what: all rows, by each index");
}

# ---- what is removed ----

# of 40,000 rows: the files are written first where many are dead, last where few are, in one place, or not to be removed
foreach my $case (
	[ 'half of the rows', 'id % 2 = 0', 20000 ],
	[ 'a thirtieth of the rows', 'id % 30 = 0', 1333 ],
	[ 'a stretch', 'id BETWEEN 20000 AND 20999', 1000 ],
	[ 'all of the rows', 'true', 40000 ])
{
	my ($what, $which, $n) = @$case;
	fill();
	query(qq{BEGIN; DELETE FROM t WHERE $which; ROLLBACK});
	is(removed('VACUUM VERBOSE t'), '0 40000 0', "$what: none, after a rollback");
	query(qq{DELETE FROM t WHERE $which});
	is(removed('VACUUM VERBOSE t'), sprintf('%d %d 0', $n, 40000 - $n), "$what: counted");
	is(removed('VACUUM VERBOSE t'), sprintf('0 %d 0', 40000 - $n), "$what: once");
	sound(40000 - $n, $what);
}

# what a snapshot sees is counted as such, and stays
fill();
my $reader = $node->background_psql('postgres', on_error_stop => 1);
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
query('DELETE FROM t WHERE id % 2 = 0');
is(removed('VACUUM VERBOSE t'), '0 40000 20000', 'rows that a snapshot sees are not removed');
like($reader->query_safe("SET enable_seqscan = off; SELECT count(*) FROM t WHERE u > ''"), qr/^40000$/m, 'and it sees them');
$reader->query_safe('COMMIT');
$reader->quit;
is(removed('VACUUM VERBOSE t'), '20000 20000 0', 'later they are');
sound(20000, 'after the snapshot');

# a snapshot in another database holds back nothing here
fill();
query('CREATE DATABASE other');
$reader = $node->background_psql('other', on_error_stop => 1);
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class');
foreach my $case ([ 'id % 2 = 0', 20000, 20000 ], [ 'id < 600', 300, 19700 ])
{
	my ($which, $n, $left) = @$case;
	query("DELETE FROM t WHERE $which");
	is(removed('VACUUM VERBOSE t'), "$n $left 0", "beside a snapshot in another database: $n rows");
	is(removed('VACUUM VERBOSE t'), "0 $left 0", 'once');
	is(query("SELECT sum(entries) FROM lsm_levels('t')"), $left, 'from the files');
}
$reader->query_safe('COMMIT');
$reader->quit;
sound(19700, 'beside a snapshot in another database');

# ---- it sleeps, and can be cancelled ----

# 40,000 rows are some 400 pages to be read: 800 of cost, 80 naps
my $slow = q{SET vacuum_cost_delay = '50ms'; SET vacuum_cost_limit = 10; SET vacuum_cost_page_miss = 2;};
foreach my $statement ('VACUUM t', 'ANALYZE t')
{
	fill();
	query('UPDATE t SET v = u WHERE id % 3 = 0');
	my $fast = takes($statement);
	fill();
	query('UPDATE t SET v = u WHERE id % 3 = 0');
	my $with_naps = takes("$slow $statement");
	note("$statement: $fast s, with delays $with_naps s");
	# not compared with what it takes without: that may be anything on a busy machine
	cmp_ok($with_naps, '>', 2, "$statement is slower with delays");
}
fill();
query('UPDATE t SET v = u WHERE id % 3 = 0');
my ($rc, $out, $err) = $node->psql('postgres', q{SET vacuum_cost_delay = '100ms'; SET vacuum_cost_limit = 1; SET statement_timeout = '1s'; VACUUM t});
like($err, qr/canceling statement due to statement timeout/, 'a VACUUM that sleeps is cancelled');
sound(40000, 'after the cancellation');

# each step sleeps: rows, indexes, files
foreach my $phase ('scanning heap', 'vacuuming indexes', 'vacuuming heap')
{
	fill();
	query('UPDATE t SET v = u WHERE id % 3 = 0');
	my $vacuum = lsm_start_session($node, 'postgres', 'vacuum', q{SET vacuum_cost_delay = '100ms'; SET vacuum_cost_limit = 20; VACUUM t;});
	ok($node->poll_query_until('postgres', qq{SELECT count(*) > 0 FROM pg_stat_activity JOIN pg_stat_progress_vacuum USING (pid)
		WHERE wait_event = 'VacuumDelay' AND phase = '$phase'}), "it sleeps while $phase");
	query(q{SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum});
	ok(lsm_ended($vacuum), 'and ends when it is told to');
}

# ---- writers beside it ----

# VACUUM owns the compactions of what it rewrites, and sleeps; writers fill level 0 meanwhile
fill();
query('UPDATE t SET v = u WHERE id % 3 = 0; SELECT pg_stat_lsm_reset()');
my $vacuum = lsm_start_session($node, 'postgres', 'vacuum', q{SET vacuum_cost_delay = '100ms'; SET vacuum_cost_limit = 50; VACUUM t;});
ok($node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity JOIN pg_stat_progress_vacuum USING (pid)
	WHERE wait_event = 'VacuumDelay' AND phase IN ('vacuuming heap', 'vacuuming indexes')}), 'VACUUM sleeps amid its files');
my $rows = 40000;
while (!lsm_ended($vacuum, 0.01) && $rows < 150_000)
{
	query("INSERT INTO t SELECT i, md5(i::text), md5((i / 2)::text) FROM generate_series($rows + 1, $rows + 5000) i");
	$rows += 5000;
}
cmp_ok($rows, '>', 50_000, "writers went on beside it: $rows rows");
ok(lsm_ended($vacuum), 'it has ended');
is(lsm_output('vacuum'), '', 'without an error');
is(query(q{SELECT sum(stalls_level0 + stalls_flush) FROM pg_stat_lsm WHERE relname IN ('t', 't_u', 't_pkey')}), 0, 'no writer had to stop');
sound($rows, 'beside writers');

$node->stop;
done_testing();
