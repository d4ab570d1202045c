# Writers slow down before they have to stop: the delay begins at the soft limit, grows with the debt, is counted,
# and can be cancelled; the limit of compactions holds, can be changed amid one, and ends with a stop.
# Who logs a file leaves little WAL unflushed.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = lsm_node('write_pacing', conf => q{
lsm.crash_point = '?'
lsm.compaction_rate = 1kB
lsm.memtable_size = 64MB
lsm.memtable_memory = 256MB
autovacuum = off
wal_level = replica
wal_writer_delay = 10s
wal_writer_flush_after = 0});
lsm_start($node);

sub stat_of { return $node->safe_psql('postgres', "SELECT $_[0] FROM pg_stat_lsm WHERE relname = '" . ($_[1] // 'r_l') . q{'}); }
my $delays = 'delays_level0 + delays_flush + delays_memory + delays_pending';
my $random = q{SELECT md5(random()::text) FROM generate_series(1, %d)};

# So many runs in level 0, of which a compaction that may write little per second makes no fewer.
sub runs
{
	my ($want) = @_;
	for (my $n = 0; $n < 40 && stat_of('coalesce(level0_runs, 0)') < $want; $n++)
	{
		$node->safe_psql('postgres', sprintf("INSERT INTO r $random; SELECT lsm_flush('r_l')", 1000));
	}
	return is(stat_of('level0_runs'), $want, "$want runs in level 0");
}

# How often so many writes are delayed: by what is owed, whatever the clock says
sub delays
{
	my $before = stat_of('delays_level0');
	$node->safe_psql('postgres', sprintf("INSERT INTO r $random", 4000));
	return stat_of('delays_level0') - $before;
}

# ---- level 0 becomes deep while the compaction is slow ----

$node->safe_psql('postgres', q{CREATE TABLE r (k text) USING heap; CREATE INDEX r_l ON r USING lsm (k)});
my %delays;
foreach my $want (11, 13, 16, 19)
{
	runs($want);
	$delays{$want} = delays();
	note("at $want runs: $delays{$want} delays");
}
is($delays{11}, 0, 'no delay below the soft limit');
cmp_ok($delays{13}, '>', 0, 'above it there is one');
cmp_ok($delays{16}, '>', $delays{13}, 'it grows');
cmp_ok($delays{19}, '>', 2 * $delays{16}, 'steeply in the end');
is(stat_of("delays_level0 > 0 AND delay_level0_ms > 0, delays_flush, delays_memory, delays_pending, stalls_level0 + stalls_flush + stalls_memory"), 't|0|0|0|0',
	'counted under its reason; nobody has stopped');

# ---- a statement amid its delays ----

my $count = stat_of('delays_level0');
my ($rc, $out, $err) = $node->psql('postgres', sprintf("SET statement_timeout = '500ms'; INSERT INTO r $random", 200000));
like($err, qr/statement timeout/, 'cancelled');
cmp_ok(stat_of('delays_level0'), '>', $count, 'amid its delays');

# a single row does not wait again and again, however deep level 0 is
my $delays_before = stat_of('delays_level0');
$node->safe_psql('postgres', "INSERT INTO r VALUES ('single $_')") foreach 1 .. 20;
cmp_ok(stat_of('delays_level0') - $delays_before, '<=', 20, 'a single row is delayed once at most');

# ---- the worker goes away amid a compaction that waits for its turn, and comes back ----

my $workers = q{SELECT pid FROM pg_stat_lsm_progress WHERE command = 'compaction'};
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($workers) w"), 'a worker compacts');
my $pid = $node->safe_psql('postgres', $workers);
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid"), 'it can be ended');
$node->safe_psql('postgres', "INSERT INTO r VALUES ('meanwhile')");
is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FROM r WHERE k IN ('meanwhile', 'single 7')}), '2', 'writers go on');
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($workers) w"), 'another one compacts');

# ---- the limit goes while it waits ----

$node->append_conf('postgresql.conf', "lsm.compaction_rate = 0\n");
$node->reload;
ok($node->poll_query_until('postgres', q{SELECT level0_runs < 8 AND pending_compaction_bytes = 0 FROM pg_stat_lsm WHERE relname = 'r_l'}), 'without a limit the debt is worked off');
is(delays(), 0, 'and with it the delays');
$node->safe_psql('postgres', 'SELECT pg_stat_lsm_reset()');
is(stat_of($delays), 0, 'counts are reset');
$node->safe_psql('postgres', q{SELECT lsm_verify('r_l')});

# ---- memtables wait: the flush worker does not come ----

$node->safe_psql('postgres', q{CREATE TABLE w (id int, v text) USING lsm; INSERT INTO w VALUES (0)});
$node->safe_psql('postgres', q{SELECT lsm_flush('w')});
my $w = $node->safe_psql('postgres', q{SELECT 'w'::regclass::oid});
lsm_hold($node, 'flush_started', 'worker', $w);
$pid = lsm_start_session($node, 'postgres', 'flushes', q{SET lsm.memtable_size = '256kB';
	INSERT INTO w SELECT i, repeat('x', 100) FROM generate_series(1, 10000) i});
ok(lsm_wait_held($node), 'the flush worker is held');
ok($node->poll_query_until('postgres', q{SELECT delays_flush > 0 AND delay_flush_ms > 0 FROM pg_stat_lsm WHERE relname = 'w'}), 'writers are delayed');
lsm_release($node);
ok(lsm_ended($pid), 'and go on');
is($node->safe_psql('postgres', 'SELECT count(*) FROM w'), '10001', 'all rows are there');

# ---- the limit: so much takes so long ----

$node->safe_psql('postgres', sprintf("INSERT INTO r $random; SELECT lsm_flush('r_l')", 20000));
my $start = time;
my $written = stat_of('bytes_compacted');
$node->safe_psql('postgres', q{SET lsm.compaction_rate = '500kB'; SET lsm.bits_per_key = 11; SELECT lsm_compact('r_l')});
$written = stat_of('bytes_compacted') - $written;
cmp_ok(time - $start, '>', 0.5 * $written / (500 * 1024), "$written bytes at 500 kB per second");
cmp_ok($written, '>', 1_000_000, 'which is more than a second');

# ---- what one user takes for slow keeps nobody else waiting ----

$node->append_conf('postgresql.conf', "lsm.compaction_rate = '20MB'\n");
$node->reload;
ok($node->poll_query_until('postgres', q{SELECT current_setting('lsm.compaction_rate') = '20MB'}), 'a rate for all');
sleep 1.5;						# workers have seen it
my ($rc, $out, $err) = $node->psql('postgres', q{SET client_min_messages = error; CREATE ROLE slow; SET ROLE slow; SET lsm.compaction_rate = 1; CREATE TEMP TABLE slow (id int, v text) USING lsm;
INSERT INTO slow SELECT i, md5(i::text) || md5((-i)::text) FROM generate_series(1, 100000) i; SELECT lsm_flush('slow');
UPDATE slow SET v = md5(v) || md5(id::text); SELECT lsm_flush('slow'); SET lsm.compression = none; SET statement_timeout = '500ms'; SELECT lsm_compact('slow')}, on_error_stop => 0);
like($err, qr/canceling statement due to statement timeout/, 'a session with a rate of its own waits');
# (at the other's rate it would take hours)
$node->safe_psql('postgres', q{SET lsm.bits_per_key = 12; SELECT lsm_compact('r_l')});

# ---- WAL of a file ----

$node->safe_psql('postgres', sprintf("INSERT INTO r $random", 300000));
lsm_hold($node, 'compact_before_edit', 'backend', 0);
$pid = lsm_start_session($node, 'postgres', 'compaction', q{SELECT lsm_compact('r_l')});
ok(lsm_wait_held($node), 'all files are logged');
cmp_ok($node->safe_psql('postgres', q{SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn())}), '<', 2.5 * 1024 * 1024, 'and little of it is not flushed');
lsm_release($node);
ok(lsm_ended($pid), 'the compaction ends');

$node->stop;
done_testing();
