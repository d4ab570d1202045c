# Several processes compact one tree, each other levels: level 0 goes down while a step of lower levels takes long, by
# another worker or by the writer that would stand still.  Requests for the whole tree (lsm_compact, VACUUM, REINDEX) wait
# for all of them, and come to it; DDL and kill -9 beside them; many workers beside writers, against heap twins.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

lsm_seed();
my $node = lsm_node('side', conf => q{
lsm.crash_point = '?'
lsm.compaction_workers = 2
lsm.memtable_size = 128kB
lsm.size_ratio = 2
lsm.target_file_size = 32kB
lsm.max_trees = 64
autovacuum = off
fsync = off});
lsm_start($node);
sub query { return $node->safe_psql('postgres', $_[0]); }
sub steps { return query("SELECT compactions FROM pg_stat_lsm WHERE relname = '$_[0]'"); }

my $rows = 0;
sub insert_sql
{
	my ($n, $name) = @_;
	my $sql = "BEGIN;\n" . join('', map { "INSERT INTO ${name}_$_ SELECT i, md5(i::text) FROM generate_series($rows, $rows + $n - 1) i;\n" } 'h', 'l') . "COMMIT;\n";
	$rows += $n;
	return $sql;
}

# A tree of at least 4 levels, of which a worker compacts one below level 2, and has stopped there
sub hold_deep
{
	my ($name) = @_;
	query("DROP TABLE IF EXISTS ${name}_h, ${name}_l");
	lsm_create_twins($node, $name, 'k int, v text', '(v)');
	lsm_hold($node, 'compact_started_deep', 'worker', query("SELECT '${name}_l_1'::regclass::oid"));
	for (my $n = 0; $n < 60; $n++)
	{
		query(insert_sql(3000, $name));
		return 1 if lsm_wait_held($node, 0);
	}
	return lsm_wait_held($node);
}

sub check
{
	my ($what, $name) = @_;
	is(lsm_differences($node, $name), '', "$what: the twins are equal");
	my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*), min(v), max(v), sum(k) FROM %s_%s WHERE v > \'\'';
	return is(query(sprintf($by_index, $name, 'l')), query(sprintf($by_index, $name, 'h')), "$what: by index, too");
}

# What is seen of the tree's jobs
sub seen { return query("SELECT count(*) FROM pg_stat_lsm_progress WHERE relid = '$_[0]'::regclass AND command = 'compaction'"); }

# ---- another worker ----

ok(hold_deep('a'), 'a step of lower levels is held');
my $before = steps('a_l_1');
query(insert_sql(3000, 'a')) foreach 1 .. 20;
ok($node->poll_query_until('postgres', "SELECT compactions > $before + 3 FROM pg_stat_lsm WHERE relname = 'a_l_1'"), 'others go on beside it');
# with level 0 and the next held, nobody takes level 0 down: writers would stand still at 20 runs
ok($node->poll_query_until('postgres', q{SELECT count(DISTINCT run) < 8 FROM lsm_files('a_l_1') WHERE level = 0}), 'level 0 has few runs');
lsm_hold($node, 'compact_file_written', 'worker', query(q{SELECT 'a_l_1'::regclass::oid}), second => 1);
for (my $n = 0; $n < 40 && !lsm_wait_held($node, 0, second => 1); $n++) { query(insert_sql(500, 'a')); }
ok(lsm_wait_held($node, undef, second => 1), 'a second step is held, too');
query(insert_sql(2000, 'a'));
is(seen('a_l_1'), '2', 'pg_stat_lsm_progress shows both');
check('amid two steps', 'a');

# a request waits for both, and keeps workers from beginning a third
my $request = lsm_start_session($node, 'postgres', 'request', q{SELECT lsm_compact('a_l_1')});
lsm_ended_or_waits($node, $request);
lsm_release($node, second => 1);
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_lsm_progress WHERE relid = 'a_l_1'::regclass AND command = 'compaction'"), 'the second step ends');
$before = steps('a_l_1');
query(insert_sql(500, 'a') . q{SELECT lsm_flush('a_l_1')}) foreach 1 .. 5;
usleep(1_500_000);
is(steps('a_l_1'), $before, 'no step begins while a request waits');
ok(!lsm_ended($request, 0), 'which waits for the first');
lsm_release($node);
ok(lsm_ended($request), 'the request is done');
check('after a request', 'a');

# ---- the writer itself ----

$node->append_conf('postgresql.conf', 'lsm.compaction_workers = 1');
$node->restart;
ok(hold_deep('b'), 'the only worker is held');
my $writer = lsm_start_session($node, 'postgres', 'writer', join('', map { insert_sql(3000, 'b') } 1 .. 60));
ok(lsm_ended($writer, 120), 'a writer does not wait for it');
is(lsm_output('writer'), '', 'and has no error');
ok(lsm_wait_held($node, 0), 'the worker is held still');
lsm_release($node);
check('after the writer', 'b');

# ---- DDL, and a crash ----

foreach my $ddl ('REINDEX INDEX d_l_1', 'VACUUM d_l', 'TRUNCATE d_h, d_l', 'ALTER TABLE d_l SET LOGGED', 'DROP INDEX d_l_1; CREATE INDEX d_l_1 ON d_l USING lsm (v)', 'kill', 'immediate')
{
	$node->append_conf('postgresql.conf', 'lsm.compaction_workers = 3');
	$node->restart;
	ok(hold_deep('d'), "$ddl: a step is held");
	my $load = lsm_start_session($node, 'postgres', 'load', join('', map { insert_sql(1000, 'd') } 1 .. 40));
	if ($ddl eq 'kill')
	{
		usleep(300_000);
		my @pids = lsm_pids($node);
		kill 'KILL', @pids;
		lsm_release($node);
		ok(lsm_ended($load), "$ddl: the load ends");
		lsm_restart_after_crash($node, @pids);
	}
	elsif ($ddl eq 'immediate')
	{
		usleep(300_000);
		$node->stop('immediate');
		lsm_release($node);
		ok(lsm_ended($load), "$ddl: the load ends");
		$node->start;
	}
	else
	{
		my $session = lsm_start_session($node, 'postgres', 'ddl', $ddl);
		lsm_ended_or_waits($node, $session);
		lsm_release($node);
		ok(lsm_ended($session) && lsm_ended($load), "$ddl: both end");
		is(lsm_output('ddl') . lsm_output('load'), '', "$ddl: no error");
	}
	check($ddl, 'd');
}

# ---- many workers beside writers that insert, update and delete ----

$node->append_conf('postgresql.conf', "lsm.compaction_workers = 4\nlsm.crash_point = ''");
$node->restart;
lsm_create_twins($node, "m$_", 'k int, v text', '(v)', '(k)') foreach 1 .. 2;
my $together = 0;
foreach my $round (1 .. (lsm_long() ? 12 : 3))
{
	my @sessions;
	foreach my $m (1 .. 2)
	{
		my $from = int(rand(100_000));
		my $sql = '';
		foreach my $i (1 .. 12)
		{
			my $at = $from + $i * 1000;
			my $what = int(rand(1000));
			foreach my $t ("m${m}_h", "m${m}_l")
			{
				$sql .= "INSERT INTO $t SELECT i, md5((i * 7919)::text) FROM generate_series($at, $at + 4000) i;\n"
				  . "UPDATE $t SET v = md5(v) WHERE k % 13 = $what % 13;\nDELETE FROM $t WHERE k % 17 = $what % 17;\n";
			}
		}
		push @sessions, lsm_start_session($node, 'postgres', "m$m", $sql);
	}
	my @open = @sessions;
	while (@open)
	{
		$together += query('SELECT count(*) FROM (SELECT relid FROM pg_stat_lsm_progress WHERE command = \'compaction\' GROUP BY relid HAVING count(*) > 1) t');
		@open = grep { !lsm_ended($_, 0.02) } @open;
	}
	is(lsm_output("m$_"), '', "round $round: no error") foreach 1 .. 2;
	check("round $round", "m$_") foreach 1 .. 2;
	query(q{VACUUM m1_l; SELECT lsm_compact('m2_l')});
	check("round $round, after VACUUM and lsm_compact", "m$_") foreach 1 .. 2;
	$node->stop('immediate') if $round == 2;
	$node->start if $round == 2;
}
note("$together times two steps of one tree were seen at once");
cmp_ok($together, '>', 0, 'steps of one tree were seen side by side');
$node->stop;
done_testing();
