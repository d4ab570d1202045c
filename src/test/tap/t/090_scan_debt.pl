# Compactions that scans pay for: an index of several runs that is scanned again and again becomes one run, not before
# scans have merged many times as many entries, and not if it is switched off; writers and scans go on beside it.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('scan_debt', conf => q{
autovacuum = off
enable_seqscan = off
enable_bitmapscan = off
max_parallel_workers_per_gather = 0
lsm.memtable_size = 1MB
lsm.target_file_size = 1MB});
lsm_start($node);

sub query { return $node->safe_psql('postgres', $_[0]); }
sub runs { return query(qq{SELECT sum(runs) FROM lsm_levels('$_[0]')}); }

# each of them reads all entries of the index
query(q{CREATE FUNCTION scan(index_of text, times int) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE n bigint; total bigint := 0;
	BEGIN
		FOR i IN 1 .. times LOOP
			EXECUTE format('SELECT count(k) FROM %I WHERE k >= 0', index_of) INTO n;
			total := total + n;
		END LOOP;
		RETURN total;
	END $$});

my $rows = 20000;
sub fill
{
	my ($am, $options) = @_;
	query(qq{DROP TABLE IF EXISTS t; CREATE TABLE t (k int, v text) USING $am; CREATE INDEX t_k ON t USING lsm (k) @{[ $options // '' ]};
		INSERT INTO t SELECT hashint4(i) & 2147483647, 'v' FROM generate_series(1, $rows / 2) i; SELECT lsm_flush('t_k'); SELECT lsm_compact('t_k');
		INSERT INTO t SELECT hashint4(i) & 2147483647, 'v' FROM generate_series($rows / 2 + 1, $rows) i; SELECT lsm_flush('t_k'); VACUUM t});
	cmp_ok(runs('t_k'), '>', 1, "$am: several runs");
	like(query('EXPLAIN SELECT count(k) FROM t WHERE k >= 0'), qr/Index Only Scan using t_k/, "$am: by index");
}

sub becomes_one
{
	my ($what) = @_;
	ok($node->poll_query_until('postgres', q{SELECT sum(runs) = 1 FROM lsm_levels('t_k')}), "$what: one run");
	is(query(q{SELECT count(*) FROM lsm_verify('t_k')}), 0, "$what: verified");
	return is(query(q{SELECT scan('t', 1)}), $rows, "$what: all entries");
}

# a step of 20,000 entries costs 30 * (20,000 + 100,000)
foreach my $am ('lsm', 'heap')
{
	fill($am);
	my $before = runs('t_k');
	is(query(q{SELECT scan('t', 120)}), 120 * $rows, "$am: scans that have not paid");
	sleep 1;
	is(runs('t_k'), $before, "$am: leave it as it is");
	query(q{SELECT scan('t', 100)});
	becomes_one($am);
}

# switched off, and on again: what was paid counts
query(q{ALTER SYSTEM SET lsm.compaction_by_scans = off; SELECT pg_reload_conf()});
fill('heap');
my $before = runs('t_k');
query(q{SELECT scan('t', 250)});
sleep 1;
is(runs('t_k'), $before, 'switched off');
query(q{ALTER SYSTEM RESET lsm.compaction_by_scans; SELECT pg_reload_conf()});
ok($node->poll_query_until('postgres', q{SHOW lsm.compaction_by_scans}, 'on'), 'switched on');
query(q{SELECT scan('t', 10)});
becomes_one('switched on');

# who has the price, after a restart
fill('lsm');
$node->restart;
query(q{SELECT scan('t', 1)});
ok($node->poll_query_until('postgres', q{SELECT scan('t', 80) > 0 AND (SELECT sum(runs) FROM lsm_levels('t_k')) = 1}), 'after a restart');
becomes_one('after a restart');

# several levels, from the top
query(q{ALTER SYSTEM SET lsm.size_ratio = 2; ALTER SYSTEM SET lsm.memtable_size = '64kB'; ALTER SYSTEM SET lsm.target_file_size = '64kB'; SELECT pg_reload_conf()});
$rows = 60000;
fill('heap');
cmp_ok(query(q{SELECT max(level) FROM lsm_levels('t_k')}), '>', 1, 'several levels');
ok($node->poll_query_until('postgres', q{SELECT scan('t', 20) > 0 AND (SELECT sum(runs) FROM lsm_levels('t_k')) = 1}), 'all of them go down');
becomes_one('several levels');

# beside writers
my $writer = lsm_start_session($node, 'postgres', 'writer', join('', map {
	"DELETE FROM t WHERE k IN (SELECT k FROM t LIMIT 500); INSERT INTO t SELECT (random() * 2000000000)::int, 'v' FROM generate_series(1, 500);" } 1 .. 150));
my $scans = 0;
while (!lsm_ended($writer, 0.01)) { query(q{SELECT scan('t', 5)}); $scans += 5; }
is(lsm_output('writer'), '', "a writer beside $scans scans");
is(query(q{SELECT count(*) FROM lsm_verify('t_k')}), 0, 'verified');
is(query(q{SELECT scan('t', 1)}), query('SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT count(*) FROM t'), 'as many rows as the table has');

$node->stop;
done_testing();
