# pg_stat_lsm_progress: each kind of job, to whom it is shown, and that it vanishes whatever ends the job.
# Statistics of stalls and levels: counted under the right reason, kept and reset like the others.
# The log of long flushes and compactions.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

my $node = lsm_node('monitoring', conf => q{
lsm.crash_point = '?'
lsm.log_compaction_min_duration = -1
lsm.memtable_memory = 16MB
autovacuum = off
wal_level = replica
max_wal_senders = 4});
lsm_start($node);
$node->safe_psql('postgres', q{
CREATE ROLE owner LOGIN; CREATE ROLE nobody LOGIN; CREATE ROLE stats LOGIN IN ROLE pg_read_all_stats;
GRANT CREATE ON SCHEMA public TO owner;
SET ROLE owner;
CREATE TABLE t (id int PRIMARY KEY, v text) USING lsm;
CREATE TABLE w (id int, v text) USING lsm;
CREATE TABLE waits (id int, n int) USING lsm;});
my ($t, $pkey, $w) = map { $node->safe_psql('postgres', "SELECT '$_'::regclass::oid") } qw(t t_pkey w);
my $db = $node->safe_psql('postgres', q{SELECT oid FROM pg_database WHERE datname = 'postgres'});

sub progress
{
	my ($columns, $where, $role) = @_;
	return $node->safe_psql('postgres', "SET ROLE @{[ $role // 'postgres' ]}; SELECT $columns FROM (SELECT * FROM pg_stat_lsm_progress ORDER BY command, relid) p WHERE @{[ $where // 'true' ]}");
}
# Nothing is held any more, and nothing is left of it.
sub released
{
	lsm_release($node);
	ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_lsm_progress'), "@_: the row is gone");
	return;
}

# A session that makes a table, fills and flushes it in one transaction: then no worker does it.  Held amid the flush;
# the session's process
sub held_flush
{
	my ($name, $sql, $user) = @_;
	lsm_hold($node, 'flush_file_written', 'backend', 0);
	my $pid = fork();
	if ($pid == 0)
	{
		open(STDERR, '>', '/dev/null');
		exec('psql', '-XAtq', '-d', $node->connstr('postgres') . ' user=' . ($user // 'postgres'), '-c',
			"SET lsm.memtable_size = '8MB'; BEGIN; CREATE TABLE $name (id int, v text) USING lsm; INSERT INTO $name SELECT i, repeat('v', 100) FROM generate_series(1, 10000) i; $sql; COMMIT")
		  or POSIX::_exit(99);
	}
	ok(lsm_wait_held($node), "a flush is held: $name");
	return $pid;
}

# ---- a session's flush ----

is(progress('count(*)'), '0', 'nothing is going on');
my $pid = held_flush('s1', q{SELECT lsm_flush('s1')});
is(progress('command, phase, relid > 16384, datid, datname, level_from, level_to, files_total, leader_pid'), "flush|writing files|t|$db|postgres||0||", 'its row');
is(progress('entries_total, entries_done BETWEEN 1 AND 10000, bytes_total > 1000000, files_written < 8, bytes_written >= 0'), '10000|t|t|t|t', 'its numbers');
is(progress(q{started_at BETWEEN now() - interval '5 minutes' AND now()}), 't', 'when it began');
is($node->safe_psql('postgres', 'SELECT usename, state FROM pg_stat_lsm_progress p JOIN pg_stat_activity a USING (pid)'), 'postgres|active', 'whose it is');

# to whom it is shown: as pg_stat_progress_vacuum and its like, to the session's role and to pg_read_all_stats
my $details = 'datid, datname, command, relid, phase, level_from, level_to, files_total, files_done, entries_total, entries_done, bytes_total, bytes_done, files_written, bytes_written, started_at';
is(progress($details, 'true', $_), "$db|postgres|flush|||||||||||||", "$_ sees that there is a flush") foreach qw(nobody owner);
like(progress($details, 'true', 'stats'), qr/^$db\|postgres\|flush\|\d+\|writing files\|\|0\|/, 'pg_read_all_stats sees all');
is(progress('count(*)', 'pid IS NULL', 'nobody'), '0', 'everyone sees the process');
released('flush');
waitpid($pid, 0);

# a session of the role itself
$node->append_conf('pg_hba.conf', 'local all all trust');
$node->reload;
$pid = held_flush('s2', q{SELECT lsm_flush('s2')}, 'owner');
is(progress('phase', 'true', 'owner'), 'writing files', 'a session\'s own role sees all');
is(progress('phase', 'true', 'nobody'), '', 'and nobody else');

# ---- the end of it: cancel, terminate, error, kill ----

$node->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM pg_stat_lsm_progress');
released('canceled');
waitpid($pid, 0);
is($node->safe_psql('postgres', q{SELECT to_regclass('s2')}), '', 'it was canceled');
$pid = held_flush('s3', q{SELECT lsm_flush('s3')});
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM pg_stat_lsm_progress');
released('terminated');
waitpid($pid, 0);
is($node->safe_psql('postgres', q{SELECT to_regclass('s3')}), '', 'it was terminated');
foreach my $sql (q{SELECT lsm_flush('s4')}, q{SAVEPOINT s; SELECT lsm_flush('s4'); ROLLBACK TO s}, q{DO $$ BEGIN PERFORM lsm_flush('s4'); EXCEPTION WHEN OTHERS THEN NULL; END $$})
{
	my ($rc, $out, $err) = $node->psql('postgres', "SET lsm.crash_point = 'flush_file_written!'; BEGIN; CREATE TABLE s4 (id int) USING lsm; INSERT INTO s4 VALUES (1); $sql;
SELECT count(*) FROM pg_stat_lsm_progress; ROLLBACK; SELECT count(*) FROM pg_stat_lsm_progress", on_error_stop => 0);
	like($out, qr/^(0\n)?0$/, "$sql: an error, and the row is gone");
	like($err, qr/error at crash point/, 'there was one') unless $sql =~ /^DO/;
}
$pid = held_flush('s5', q{SELECT lsm_flush('s5')});
my $backend = progress('pid');
my $killed_at = -s $node->logfile;
kill 'KILL', $backend;
waitpid($pid, 0);
lsm_release($node);
lsm_wait_logged($node, $killed_at, qr/was terminated by signal 9/);
lsm_wait_up($node);
is(progress('count(*)', "pid = $backend"), '0', 'killed: the row is gone');

# ---- a worker's compaction ----

$node->safe_psql('postgres', q{SET ROLE owner; CREATE TABLE r (k text) USING heap; CREATE INDEX r_l ON r USING lsm (k)});
my $r_l = $node->safe_psql('postgres', q{SELECT 'r_l'::regclass::oid});
my $random = q{INSERT INTO r SELECT md5(random()::text) FROM generate_series(1, 2000); SELECT lsm_flush('r_l')};
lsm_hold($node, 'compact_file_written', 'worker', $r_l);
$node->safe_psql('postgres', $random) foreach 1 .. 8;
ok(lsm_wait_held($node), 'a compaction is held');
my $row = progress(q{command, phase, relid, datname, level_from, level_to IN (0, 1), files_total >= 4, entries_total > 1000, entries_done BETWEEN 1 AND entries_total, bytes_total > 10000, files_written >= 0, leader_pid}, "command = 'compaction'");
is($row, "compaction|writing files|$r_l|postgres|0|t|t|t|t|t|t|", 'its row');
is($node->safe_psql('postgres', q{SELECT backend_type FROM pg_stat_activity WHERE pid IN (SELECT pid FROM pg_stat_lsm_progress WHERE command = 'compaction')}), 'lsm compaction worker', 'is a worker\'s');
is(progress('relid', 'relid IS NOT NULL', 'owner'), '', 'whose details the owner does not see');

# ---- stalls: level 0 is full, and the compactor does not come ----

is($node->safe_psql('postgres', q{SELECT stalls_level0, stall_level0_ms FROM pg_stat_lsm WHERE relname = 'r_l'}), '0|0', 'no stall yet');
my $runs = 0;
for (my $n = 0; $n < 20 && $runs < 20; $n++)
{
	$node->safe_psql('postgres', $random);
	$runs = $node->safe_psql('postgres', q{SELECT level0_runs FROM pg_stat_lsm WHERE relname = 'r_l'});
}
is($runs, 20, 'twenty runs in level 0');
is($node->safe_psql('postgres', q{SELECT pending_compaction_bytes >= (SELECT bytes FROM pg_stat_lsm_levels WHERE relname = 'r_l' AND level = 0) FROM pg_stat_lsm WHERE relname = 'r_l'}), 't', 'compactions have to read them all');
$pid = lsm_start_session($node, 'postgres', 'stalls', q{INSERT INTO r VALUES ('stalled')});
my $event = $node->pg_version >= 17 ? 'LsmCompaction' : 'Extension';
ok($node->poll_query_until('postgres', qq{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%stalled%' AND pid <> pg_backend_pid()
	AND wait_event_type = 'Extension' AND wait_event = '$event'}), 'a writer stalls, and says so');
ok(!lsm_ended($pid, 1.5), 'it does not go on');
released('compaction');
ok(lsm_ended($pid), 'the writer goes on');
is($node->safe_psql('postgres', q{SELECT stalls_level0, stall_level0_ms > 500, stalls_flush, stalls_memory, stall_ms = stall_level0_ms FROM pg_stat_lsm WHERE relname = 'r_l'}), '1|t|0|0|t', 'its stall was counted');
ok($node->poll_query_until('postgres', q{SELECT pending_compaction_bytes = 0 AND level0_runs < 8 FROM pg_stat_lsm WHERE relname = 'r_l'}), 'nothing is pending in the end');

# ---- the flush worker does not come: memtables wait, then there is no memory ----

$node->safe_psql('postgres', q{TRUNCATE w; INSERT INTO w VALUES (1)});
lsm_hold($node, 'flush_started', 'worker', $w);
$pid = lsm_start_session($node, 'postgres', 'flushes', q{SET lsm.memtable_size = '64kB'; INSERT INTO w SELECT i, repeat('x', 100) FROM generate_series(1, 5000) i});
ok(lsm_wait_held($node), 'the flush worker is held');
ok(!lsm_ended_or_waits($node, $pid) && !lsm_ended($pid, 3), 'a writer stalls');
released('flush by the worker');
ok(lsm_ended($pid), 'the writer goes on');
is($node->safe_psql('postgres', q{SELECT stalls_flush > 0, stall_flush_ms > 500, stalls_level0, stalls_memory, abs(stall_ms - stall_flush_ms) < 0.01 FROM pg_stat_lsm WHERE relname = 'w'}), 't|t|0|0|t', 'its stall was counted');
lsm_hold($node, 'flush_started', 'worker', $w);
$pid = lsm_start_session($node, 'postgres', 'memory', q{SET lsm.memtable_size = '64MB'; INSERT INTO w SELECT i, repeat('y', 100) FROM generate_series(1, 150000) i});
for (1 .. 600) { last if lsm_wait_held($node, 0) || lsm_ended($pid, 0.1); }
# until it is no longer delayed but stands still
my ($was, $is) = (-1, 0);
while ($was != $is && !lsm_ended($pid, 3)) { $was = $is; $is = $node->safe_psql('postgres', q{SELECT delays_memory FROM pg_stat_lsm WHERE relname = 'w'}); }
lsm_release($node);
ok(lsm_ended($pid), 'a writer that needs more than there is goes on');
is($node->safe_psql('postgres', q{SELECT stalls_memory > 0, stall_memory_ms > 0, abs(stall_ms - stall_flush_ms - stall_memory_ms - stall_level0_ms) < 0.01 FROM pg_stat_lsm WHERE relname = 'w'}), 't|t|t', 'its stalls were counted');

# ---- what else is shown: builds, lsm_verify and its workers ----

$node->safe_psql('postgres', q{SELECT lsm_compact('w')});
lsm_hold($node, 'build_file_written', 'backend', 0);
$pid = lsm_start_session($node, 'postgres', 'build', q{CREATE INDEX w_id ON w USING lsm (id)});
ok(lsm_wait_held($node), 'an index build is held');
is(progress(q{command, phase, level_from, level_to, files_total, entries_total, entries_done > 1000, bytes_written > 10000}, "command = 'build'"), 'build|writing files|||||t|t', 'its row');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_progress_create_index'), '1', 'beside PostgreSQL\'s');
released('build');
ok(lsm_ended($pid), 'the index is there');

# an index expression that waits for us at its 1,500th row
$node->safe_psql('postgres', q{
CREATE FUNCTION f(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE AS $$ BEGIN IF i = 1500 AND current_setting('lsm_test.wait', true) = 'on' THEN PERFORM pg_advisory_xact_lock_shared(42); END IF; RETURN i; END $$;
INSERT INTO waits SELECT i, i FROM generate_series(1, 3000) i; CREATE INDEX waits_f ON waits USING lsm (f(n)); SELECT lsm_compact('waits');});
my $waits_f = $node->safe_psql('postgres', q{SELECT 'waits_f'::regclass::oid});
my $lock = $node->background_psql('postgres');
$lock->query_safe('SELECT pg_advisory_lock(42)');
foreach my $end ('COMMIT', 'pg_cancel_backend', 'pg_terminate_backend')
{
	$pid = lsm_start_session($node, 'postgres', 'verify', q{SET lsm_test.wait = on; SELECT * FROM lsm_verify('waits')});
	ok($node->poll_query_until('postgres', qq{SELECT count(*) = 1 FROM pg_stat_lsm_progress JOIN pg_stat_activity USING (pid) WHERE command = 'verify' AND relid = $waits_f AND wait_event = 'advisory'}), 'lsm_verify waits');
	is(progress('command, phase, files_done = files_total, entries_done, bytes_total', "relid = $waits_f"), 'verify|looking rows up|t|1000|', 'its row');
	if ($end eq 'COMMIT') { $lock->query_safe('SELECT pg_advisory_unlock(42)'); }
	else { $node->safe_psql('postgres', "SELECT $end(pid) FROM pg_stat_lsm_progress WHERE command = 'verify'"); }
	ok(lsm_ended($pid), "ended by $end");
	is(progress('count(*)', "command = 'verify'"), '0', 'the row is gone');
	is(lsm_output('verify'), '', 'no problem was found') if $end eq 'COMMIT';
	$lock->query_safe('SELECT pg_advisory_lock(42)') if $end eq 'COMMIT';
}
$lock->quit;

# ---- levels ----

my $sums = q{SELECT s.flushes = sum(l.flushes), s.bytes_flushed = sum(l.bytes_flushed), s.bytes_compacted = sum(l.bytes_out), sum(l.compaction_ms) > 0, sum(l.flush_ms) > 0,
	s.compactions >= sum(l.compactions), abs(s.write_amplification - (s.bytes_flushed + s.bytes_compacted)::float8 / s.bytes_flushed) < 1e-9
FROM pg_stat_lsm s JOIN pg_stat_lsm_levels l USING (relid) WHERE s.relid = '%s'::regclass GROUP BY s.flushes, s.bytes_flushed, s.bytes_compacted, s.compactions, s.write_amplification};
$node->safe_psql('postgres', q{INSERT INTO t SELECT i, 'v' FROM generate_series(-2000, -1) i; SELECT lsm_flush('t');
INSERT INTO t SELECT i, 'v' FROM generate_series(1, 2000) i; SELECT lsm_flush('t'), lsm_compact('t'), lsm_compact('w')});
is($node->safe_psql('postgres', sprintf($sums, $_)), 't|t|t|t|t|t|t', "$_: the levels add up") foreach qw(w t);
foreach my $table (qw(w t t_pkey))
{
	is($node->safe_psql('postgres', "SELECT level, files, bytes FROM pg_stat_lsm_levels WHERE relname = '$table' AND files > 0 ORDER BY 1"),
		$node->safe_psql('postgres', "SELECT level, files, bytes FROM lsm_levels('$table') ORDER BY 1"), "$table: levels are as lsm_levels() says");
	is($node->safe_psql('postgres', "SELECT filter_bytes FROM pg_stat_lsm WHERE relname = '$table'"),
		$node->safe_psql('postgres', "SELECT sum(filter_bytes) FROM lsm_levels('$table')"), "$table: and memory of filters");
}
# a compaction of two known runs
$node->safe_psql('postgres', q{CREATE TABLE two (id int PRIMARY KEY) USING heap; CREATE INDEX two_l ON two USING lsm (id)});
$node->safe_psql('postgres', q{INSERT INTO two SELECT generate_series(1, 1000); SELECT lsm_flush('two_l')});
my $first = $node->safe_psql('postgres', q{SELECT sum(bytes) FROM lsm_files('two_l')});
$node->safe_psql('postgres', q{INSERT INTO two SELECT generate_series(1001, 3000); SELECT lsm_flush('two_l')});
my $both = $node->safe_psql('postgres', q{SELECT sum(bytes) FROM lsm_files('two_l')});
$node->safe_psql('postgres', q{SELECT pg_stat_lsm_reset(); SET lsm.filter_scheme = bloom; SELECT lsm_compact('two_l')});
is($node->safe_psql('postgres', q{SELECT sum(compactions) > 0, sum(bytes_in) >= } . $both . q{, sum(entries_dropped), sum(flushes) FROM pg_stat_lsm_levels WHERE relname = 'two_l'}), 't|t|0|0', 'a compaction of two runs');

# ---- elastic filters and those on storage ----

$node->safe_psql('postgres', q{CREATE TABLE e (id int, k int) USING heap; INSERT INTO e SELECT i, i FROM generate_series(1, 20000) i;
CREATE INDEX e_elastic ON e USING lsm (id) WITH (filter_scheme = elastic); CREATE INDEX e_cascade ON e USING lsm (k) WITH (filter_scheme = cascade);
SET enable_seqscan = off; SELECT count(*) FROM generate_series(1, 50) g, e WHERE e.id = 1000 * g AND e.id < 0;
SELECT count(*) FROM generate_series(30000, 30100) g WHERE EXISTS (SELECT FROM e WHERE e.id = g);});
ok($node->poll_query_until('postgres', q{SELECT units_on > 0 AND units_on = units_wanted FROM lsm_elastic_stats()}), 'units are on');
is($node->safe_psql('postgres', q{SELECT (SELECT sum(filter_bytes) FROM pg_stat_lsm WHERE relname = 'e_elastic') = used_bytes, used_bytes > 0 FROM lsm_elastic_stats()}), 't|t', 'memory of elastic filters is that of the units that are on');
ok($node->poll_query_until('postgres', q{SELECT filter_bytes = 0 FROM pg_stat_lsm WHERE relname = 'e_cascade'}), 'cascade filters need none');

# ---- reset, restart ----

$node->safe_psql('postgres', 'SELECT pg_stat_lsm_reset()');
is($node->safe_psql('postgres', q{SELECT sum(stalls_level0 + stalls_flush + stalls_memory), sum(stall_ms), sum(filter_bytes) > 0, sum(memtable_bytes) >= 0, count(write_amplification) FROM pg_stat_lsm}), '0|0|t|t|0', 'reset: counts are zero, sizes are not');
is($node->safe_psql('postgres', q{SELECT sum(flushes + compactions + files_moved + bytes_in + bytes_out + entries_dropped), sum(flush_ms + compaction_ms), sum(bytes) > 0 FROM pg_stat_lsm_levels}), '0|0|t', '... by level, too');
my $before = $node->safe_psql('postgres', q{SELECT level, files, bytes FROM pg_stat_lsm_levels WHERE relname = 't' ORDER BY 1});
$node->restart;
is($node->safe_psql('postgres', q{SELECT count(filter_bytes), count(pending_compaction_bytes), sum(stall_ms) FROM pg_stat_lsm WHERE relname = 't'}), '0|0|0', 'after a restart nothing is known of a tree');
$node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE id = 5');
ok($node->poll_query_until('postgres', q{SELECT filter_bytes > 0 AND pending_compaction_bytes = 0 FROM pg_stat_lsm WHERE relname = 't'}), 'until it has been used');
is($node->safe_psql('postgres', q{SELECT level, files, bytes FROM pg_stat_lsm_levels WHERE relname = 't' ORDER BY 1}), $before, 'and then its levels are');

# ---- a standby ----

$node->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('monitoring_standby');
$standby->init_from_backup($node, 'standby', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', q{INSERT INTO t SELECT i, 'later' FROM generate_series(30000, 31000) i; SELECT lsm_flush('t')});
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', q{SELECT count(*) FROM t WHERE id = 30005; SELECT level, files, bytes FROM pg_stat_lsm_levels WHERE relname = 't' ORDER BY 1}),
	"1\n" . $node->safe_psql('postgres', q{SELECT level, files, bytes FROM lsm_levels('t') ORDER BY 1}), 'a standby knows the levels of what it reads');
is($standby->safe_psql('postgres', q{SELECT lookups > 0, flushes, stall_ms, pending_compaction_bytes, filter_bytes > 0, write_amplification FROM pg_stat_lsm WHERE relname = 't'}), 't|0|0|0|t|', 'and counts what it does');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_lsm_progress'), '0', 'nothing is in progress there');
lsm_hold($standby, 'standby_load_read', 'backend', 0);
$pid = lsm_start_session($standby, 'postgres', 'load', q{SELECT count(*) FROM w WHERE id = 5});
ok(lsm_wait_held($standby), 'a load is held');
is($standby->safe_psql('postgres', 'SELECT command, phase, relid FROM pg_stat_lsm_progress'), "load|reading|$w", 'its row');
lsm_release($standby);
ok(lsm_ended($pid), 'the session goes on');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_lsm_progress'), '0', 'the row is gone');
$standby->stop;

# ---- VACUUM of a table, in PostgreSQL's view ----

$node->safe_psql('postgres', q{CREATE TABLE v (id int PRIMARY KEY) USING lsm; INSERT INTO v SELECT generate_series(1, 4000); SELECT lsm_compact('v'); DELETE FROM v WHERE id % 100 = 0; SELECT lsm_flush('v')});
lsm_hold($node, 'compact_file_written', 'backend', $node->safe_psql('postgres', q{SELECT 'v'::regclass::oid}));
my $vacuum = lsm_start_session($node, 'postgres', 'vacuum', 'VACUUM v');
ok(lsm_wait_held($node), 'VACUUM compacts');
my $dead = lsm_version() >= 17 ? 'num_dead_item_ids' : 'num_dead_tuples';
is($node->safe_psql('postgres', "SELECT phase, heap_blks_total > 10, heap_blks_scanned = heap_blks_total, heap_blks_vacuumed, index_vacuum_count, $dead FROM pg_stat_progress_vacuum WHERE relid = 'v'::regclass"),
	'vacuuming heap|t|t|0|1|40', 'its row in pg_stat_progress_vacuum');
lsm_release($node);
ok(lsm_ended($vacuum), 'it ends');

# ---- the log ----

sub logged
{
	my ($min, $sql, @options) = @_;
	my $at = -s $node->logfile;
	lsm_set($node, 'lsm.log_compaction_min_duration' => $min, @options);
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT current_setting('lsm.log_compaction_min_duration') = '$min'"), "lsm.log_compaction_min_duration = $min");
	$node->safe_psql('postgres', $sql);
	return substr(slurp_file($node->logfile), $at) =~ s/.*parameter "lsm.log.*\n//r;
}
my $flush = q{INSERT INTO t SELECT i, 'v' FROM generate_series(%d, %d) i; SELECT lsm_flush('t')};
is($node->safe_psql('postgres', 'SELECT context, boot_val, unit FROM pg_settings WHERE name = \'lsm.log_compaction_min_duration\''), 'sighup|600000|ms', 'the setting');
my ($rc, $out, $err) = $node->psql('postgres', 'SET lsm.log_compaction_min_duration = 0');
like($err, qr/cannot be changed now/, 'is not a session\'s');
unlike(logged(-1, sprintf($flush, 40000, 40100)), qr/flush of|compaction of/, '-1: nothing is logged');
unlike(logged('10min', sprintf($flush, 41000, 41100)), qr/flush of|compaction of/, '10min: nothing is logged');
my $log = logged(0, sprintf($flush, 42000, 42100) . q{; ALTER TABLE t RENAME TO renamed; UPDATE renamed SET v = 'w' WHERE id <= 100; SELECT lsm_flush('renamed'); VACUUM renamed; SELECT lsm_compact('renamed')});
like($log, qr/LOG:  flush of table "postgres\.public\.t" \(OID $t\): memtable to level 0\n\s+files: \d+ written\n\s+entries: 101 read, 101 written, 0 dropped\n\s+data: [\d.]+ MB read, [\d.]+ MB written, [\d.]+ MB\/s read, [\d.]+ MB\/s written\n\s+WAL usage: \d+ records, \d+ full page images, \d+ bytes\n\s+system usage: CPU: user: [\d.]+ s, system: [\d.]+ s, elapsed: [\d.]+ s\n/, 'a flush');
like($log, qr/flush of index "postgres\.public\.t_pkey" \(OID $pkey\)/, 'of an index');
like($log, qr/flush of table "postgres\.public\.renamed" \(OID $t\)/, 'by its new name');
like($log, qr/compaction of table "postgres\.public\.renamed" \(OID $t\): level \d to level \d\n\s+files: [1-9]\d* read, \d+ written, \d+ moved\n\s+entries: \d+ read, \d+ written, [1-9]\d* dropped\n/, 'a compaction that drops entries');
like(logged(0, q{CREATE SCHEMA early; CREATE TABLE early.s (id int) USING lsm; INSERT INTO early.s VALUES (1); ALTER SCHEMA early RENAME TO late; INSERT INTO late.s VALUES (2); SELECT lsm_flush('late.s')}),
	qr/flush of table "postgres\.late\.s" /, 'the schema by its new name');
unlike($log, qr/repeat\(|STATEMENT:.*lsm_flush/, 'without the statement');

# by a worker, which is in no database; then long enough to be logged, and not
my $at = -s $node->logfile;
$node->safe_psql('postgres', "INSERT INTO w SELECT i, repeat('w', 100) FROM generate_series(1, 20000) i");
my $end = time + $PostgreSQL::Test::Utils::timeout_default;
usleep(50_000) while substr(slurp_file($node->logfile), $at) !~ /flush of table "postgres\.public\.w" \(OID \d+\): memtable to level 0/ && time < $end;
like(substr(slurp_file($node->logfile), $at), qr/flush of table "postgres\.public\.w" \(OID \d+\)/, 'a worker\'s flush has its name');
$at = -s $node->logfile;
lsm_set($node, 'lsm.log_compaction_min_duration' => '800ms');
$node->reload;
ok($node->poll_query_until('postgres', q{SELECT current_setting('lsm.log_compaction_min_duration') = '800ms'}), 'lsm.log_compaction_min_duration = 800ms');
lsm_hold($node, 'flush_file_written', 'any', $pkey);
$pid = lsm_start_session($node, 'postgres', 'long', q{INSERT INTO renamed VALUES (50000); SELECT lsm_flush('renamed')});
ok(lsm_wait_held($node), 'a long flush');
usleep(1_000_000);
lsm_release($node);
ok(lsm_ended($pid), 'ends');
# a worker that flushed writes its line after those who wait for the flush go on
$end = time + $PostgreSQL::Test::Utils::timeout_default;
usleep(50_000) while ($log = substr(slurp_file($node->logfile), $at)) !~ /flush of/ && time < $end;
is(join(' ', $log =~ /flush of \w+ "postgres\.\w+\.(renamed|t_pkey)"/g), 't_pkey', 'is logged, and a short one is not');

$node->stop;
done_testing();
