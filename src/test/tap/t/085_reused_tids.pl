# lsm indexes of heap tables, whose row identifiers are used again: scans delete the entries of dead rows, and never that of
# a row which got the identifier of a dead one, and its key, meanwhile.  A few rows in a page or two, changed without end by
# several sessions, so that VACUUM, which does nothing else, gives each identifier to one row after the other; flushes,
# compactions, kill -9, and a standby that reads along.
#   LSM_SEED=...     the random statements of a run
#   LSM_SECONDS=N    of each round (5; short: 2; long: 60)
# tier: check
use strict;
use warnings;
use LsmTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $seed = lsm_seed();
my $seconds = $ENV{LSM_SECONDS} // (lsm_long() ? 60 : lsm_short() ? 2 : 5);
my $keys = 12;
my $node = lsm_node('reused', conf => "wal_level = replica\nmax_wal_senders = 5\nautovacuum = off\nfsync = off\nlsm.memtable_size = 64kB\nmax_connections = 30\n");
lsm_start($node);
my $dir = PostgreSQL::Test::Utils::tempdir();

sub sql { return $node->safe_psql('postgres', $_[0]); }

# ---- dead entries are looked up once ----

foreach my $am ('btree', 'lsm')
{
	sql("CREATE TABLE hot_$am (id bigint, st text, v int) USING heap; CREATE UNIQUE INDEX hot_${am}_id ON hot_$am USING $am (id); CREATE INDEX hot_${am}_st ON hot_$am USING $am (st, v); INSERT INTO hot_$am VALUES (1, 'ready', 1)");
}
# a row that is updated without end, without VACUUM
sql("SET enable_seqscan = off; SET synchronous_commit = off; DO \$\$ BEGIN FOR i IN 1 .. 6000 LOOP UPDATE hot_$_ SET v = v + 1 WHERE id = 1; COMMIT; END LOOP; END \$\$") foreach 'btree', 'lsm';
is(sql("SELECT * FROM lsm_verify('hot_lsm_id'); SELECT * FROM lsm_verify('hot_lsm_st')"), '', 'and its indexes are sound');
my $index_scans = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan';
sub entries_read
{
	my ($query, $index) = @_;
	my $count = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = '$index'";
	my $before = sql($count);
	sql("$index_scans = off; $query; SELECT pg_stat_force_next_flush()");
	return sql($count) - $before;
}
sub make_dead_rows
{
	sql('DO $$ BEGIN FOR i IN 1 .. 3000 LOOP UPDATE hot_lsm SET v = v + 1 WHERE id = 1; END LOOP; END $$');
}
my $lookup = 'SELECT id FROM hot_lsm WHERE id = 1';
make_dead_rows();
my $first = entries_read($lookup, 'hot_lsm_id');
my $now = $first;
# some are left where there is no room
for (1 .. 1200)
{
	$now = entries_read($lookup, 'hot_lsm_id');
	last if $now < 100;
	usleep(100_000);
}
cmp_ok($first, '>', 2900, 'a transaction leaves dead rows');
cmp_ok($now, '<', 100, 'later lookups read fewer entries');

# Index-only scans do not count what they look at and leave out: the table's pages where they look tell.
sub pages_read
{
	my $count = q{SELECT heap_blks_hit + heap_blks_read FROM pg_statio_user_tables WHERE relname = 'hot_lsm'};
	my $before = sql($count);
	my $plan = sql("$index_scans = on; EXPLAIN (ANALYZE, TIMING off) $lookup; SELECT pg_stat_force_next_flush()");
	die $plan unless $plan =~ /^Index Only Scan using hot_lsm_id/m;
	return sql($count) - $before;
}
make_dead_rows();
$first = pages_read();
for (1 .. 1200)
{
	$now = pages_read();
	last if $now < 5;
	usleep(100_000);
}
cmp_ok($first, '>', 15, 'an index-only scan looks at dead rows');
cmp_ok($now, '<', 5, 'later ones at fewer');

# An entry that VACUUM has deleted lies in a file; a row with its key and its identifier comes, and goes.
sql('CREATE TABLE low (k int) USING heap WITH (autovacuum_enabled = off); CREATE INDEX low_k ON low USING lsm (k); INSERT INTO low SELECT 1 FROM generate_series(1, 40)');
sql("SELECT lsm_flush('low_k')");
sql('DELETE FROM low');
sql('VACUUM (INDEX_CLEANUP on, TRUNCATE off) low');
is(sql('INSERT INTO low SELECT 1 FROM generate_series(1, 40); SELECT min(ctid), max(ctid) FROM low'), '(0,1)|(0,40)', 'identifiers come back');
sql('DELETE FROM low');
is(join(' ', map { entries_read('SELECT k FROM low WHERE k = 1', 'low_k') } 1, 2), '40 0', 'its entry is deleted, and does not uncover the old one');

# ---- identifiers are used again ----

sql(q{
CREATE TABLE r (id int, k int, v text) USING heap;
CREATE UNIQUE INDEX r_id ON r USING lsm (id);
CREATE INDEX r_k ON r USING lsm (k) INCLUDE (id);
CREATE INDEX r_v ON r USING lsm (v COLLATE "C", k);
CREATE FUNCTION wrong() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE expected text; got text;
BEGIN
	SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = on;
	SELECT string_agg(id || ' ' || k || ' ' || v, ',' ORDER BY id) INTO expected FROM r;
	SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = on;
	SELECT string_agg(r.id || ' ' || r.k || ' ' || r.v, ',' ORDER BY r.id) INTO got FROM generate_series(1, 40) g, LATERAL (SELECT * FROM r WHERE id = g OFFSET 0) r;
	IF got IS DISTINCT FROM expected THEN RETURN NEXT 'r_id: ' || coalesce(got, '') || ' but ' || coalesce(expected, ''); END IF;
	SELECT string_agg(r.id || ' ' || r.k || ' ' || r.v, ',' ORDER BY r.id) INTO got FROM generate_series(0, 3) g, LATERAL (SELECT * FROM r WHERE k = g OFFSET 0) r;
	IF got IS DISTINCT FROM expected THEN RETURN NEXT 'r_k: ' || coalesce(got, '') || ' but ' || coalesce(expected, ''); END IF;
	SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = on;
	SELECT string_agg(r.id || ' ' || r.k || ' ' || r.v, ',' ORDER BY r.id) INTO got FROM (VALUES ('a'), ('b')) g (v), LATERAL (SELECT * FROM r WHERE r.v COLLATE "C" = g.v OFFSET 0) r;
	IF got IS DISTINCT FROM expected THEN RETURN NEXT 'r_v: ' || coalesce(got, '') || ' but ' || coalesce(expected, ''); END IF;
END $$});

# one statement each, in sessions without end
my %loads = (
	update => "SET enable_seqscan = off; UPDATE r SET k = (k + :n) % 4, v = CASE WHEN v = 'a' THEN 'b' ELSE 'a' END WHERE id = :id;",
	same => "SET enable_seqscan = off; BEGIN; DELETE FROM r WHERE id = :id; INSERT INTO r VALUES (:id, :n, 'a') ON CONFLICT DO NOTHING; END;",
	rolls_back => "SET enable_seqscan = off; BEGIN; UPDATE r SET v = 'b' WHERE k = :n AND v = 'a'; ROLLBACK;",
	insert => "INSERT INTO r VALUES (:id, :n, 'b') ON CONFLICT DO NOTHING;",
	delete => "SET enable_seqscan = off; DELETE FROM r WHERE id = :id AND k = :n;",
	looks => "SET enable_seqscan = off; SELECT count(*) FROM r WHERE k = :n; SELECT count(*) FROM r WHERE id = :id; SELECT max(id) FROM r WHERE v COLLATE \"C\" = 'a' AND k >= :n;",
	vacuum => 'VACUUM (TRUNCATE off) r; SELECT pg_sleep(0.002);',
	jobs => "SELECT pg_sleep(0.2); SELECT lsm_flush('r_id'), lsm_flush('r_k'), lsm_flush('r_v'); SELECT pg_sleep(0.1); SELECT lsm_compact('r_id'), lsm_compact('r_k'), lsm_compact('r_v');");

sub start_load
{
	my ($name, $clients) = @_;
	my $file = "$dir/$name";
	unlink $file;
	append_to_file($file, "\\set id random(1, $keys)\n\\set n random(0, 3)\n" . join("\n", split(/(?<=;) /, $loads{$name})) . "\n");
	my $pid = fork() // die "fork: $!";
	return $pid if $pid;
	open(STDOUT, '>', "$file.out");
	open(STDERR, '>&', \*STDOUT);
	exec('pgbench', '-n', '-c', $clients, '-T', 3600, '--max-tries=0', "--random-seed=$seed", '-f', $file, $node->connstr('postgres')) or POSIX::_exit(99);
}

my $standby;
my $looks = 0;
sub look_at
{
	my ($server) = @_;
	$looks++;
	my ($rc, $out, $err) = $server->psql('postgres', 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT wrong(); END');
	# a standby's snapshot may be in the way of replay
	return $out . ($server == $standby && $err =~ /conflict with recovery/ ? '' : $err);
}

$node->backup('b');
$standby = PostgreSQL::Test::Cluster->new('reused_standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 1s\n");
$standby->start;

foreach my $round (1 .. 3)
{
	my @pids = map { start_load(@$_) } [ update => 2 ], [ same => 2 ], [ rolls_back => 1 ], [ insert => 1 ], [ delete => 1 ], [ looks => 2 ], [ vacuum => 1 ], [ jobs => 1 ];
	my $end = time + $seconds;
	my $least = $looks + 8;
	my $wrong = '';
	while ((time < $end || $looks < $least) && $wrong eq '')
	{
		$wrong .= look_at($node);
		$wrong .= look_at($standby);
	}
	is($wrong, '', "round $round: each look by an index finds what the table has");
	my $crash = $round < 3;
	if ($crash)
	{
		my @servers = lsm_pids($node);
		lsm_kill_process($node, 'postmaster');
		waitpid($_, 0) foreach @pids;
		lsm_restart_after_crash($node, @servers);
	}
	else
	{
		kill('TERM', @pids);
		waitpid($_, 0) foreach @pids;
	}
	my $errors = join '', map { slurp_file("$dir/$_.out") =~ /^(.*ERROR.*\n)/mg } keys %loads;
	$errors =~ s/^.*deadlock detected.*\n//mg;
	is($errors, '', "round $round: no statement has failed");
	is(sql("SELECT wrong(); SELECT i, v.* FROM unnest('{r_id,r_k,r_v}'::regclass[]) i, lsm_verify(i) v"), '', "round $round: the indexes are sound");
	$node->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', 'SELECT wrong()'), '', "round $round: the standby's, too");
}
cmp_ok($looks, '>', 20, "looks: $looks");
my $reused = sql('SELECT max((ctid::text::point)[0]) FROM r');
cmp_ok($reused, '<', 200, "identifiers were used again: the last page is $reused");

# ---- a standby's snapshot that says so to the primary is not in the way ----

$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 0\nhot_standby_feedback = on\nwal_receiver_status_interval = 1s\n");
$standby->restart;
# those of the looks above may have been in the way of replay
my $canceled = q{SELECT confl_snapshot FROM pg_stat_database_conflicts WHERE datname = 'postgres'};
my $canceled_before = $standby->safe_psql('postgres', $canceled);
sql('CREATE TABLE told (id int, v int) USING heap; CREATE INDEX told_id ON told USING lsm (id, v); INSERT INTO told SELECT 1, 0');
sql('DO $$ BEGIN FOR i IN 1 .. 200 LOOP UPDATE told SET v = v + 1 WHERE id = 1; COMMIT; END LOOP; END $$');
$node->wait_for_catchup($standby);
my ($in, $out) = ("BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT 'sees ' || v FROM told WHERE id = 1;\n", '');
my $reader = IPC::Run::start([ 'psql', '-XAtq', '-d', $standby->connstr('postgres') ], '<', \$in, '>', \$out, '2>&1');
$reader->pump until $out =~ /sees 200\n/;
$node->poll_query_until('postgres', 'SELECT backend_xmin IS NOT NULL FROM pg_stat_replication') or die 'no feedback';
# numbers go on, so that snapshots of the primary are much newer
sql('DO $$ BEGIN FOR i IN 1 .. 50 LOOP UPDATE told SET v = v + 1 WHERE id = 1; COMMIT; END LOOP; END $$');
my $told = entries_read('SELECT v FROM told WHERE id = 1', 'told_id');
for (1 .. 1200)
{
	$now = entries_read('SELECT v FROM told WHERE id = 1', 'told_id');
	last if $now < 100;
	usleep(100_000);
}
cmp_ok($told, '>', 200, "there were dead entries: $told");
cmp_ok($now, '<', 100, "most are deleted: $now");
cmp_ok($now, '>=', 50, 'but for those that the standby needs');
$node->wait_for_catchup($standby);
$in .= "SELECT 'still sees ' || v FROM told WHERE id = 1;\nSET enable_seqscan = off;\nSELECT 'by index ' || v FROM told WHERE id = 1;\n";
$reader->pump until $out =~ /by index|ERROR|FATAL/;
like($out, qr/still sees 200\nby index 200\n/, 'the standby has the row yet');
$in .= "COMMIT;\n\\q\n";
$reader->finish;
is($standby->safe_psql('postgres', $canceled), $canceled_before, 'and nothing was canceled');
$standby->stop;
$node->stop;
done_testing();
