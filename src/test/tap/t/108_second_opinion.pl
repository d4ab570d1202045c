# The second opinion: each shortcut that is made to lie ends the server by name; and beside writers, flushes,
# compactions, VACUUMs and scans that pass gaps nobody is accused who is right.
# log may say: second opinion: [a-z_]+\(\) is wrong about key|terminated by signal 6
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = lsm_node('second_opinion', conf => q{
autovacuum = off
enable_seqscan = off
enable_bitmapscan = off
max_parallel_workers_per_gather = 0
lsm.compaction_workers = 1
lsm.target_file_size = 64kB
lsm.second_opinion = 1});
lsm_start($node);

sub query { return $node->safe_psql('postgres', $_[0]); }

my $rows = 1500;
query(qq{
CREATE TABLE t (id int, k text COLLATE "C", v text) USING lsm;
CREATE INDEX t_id ON t USING lsm (id);
CREATE INDEX t_k ON t USING lsm (k);
INSERT INTO t SELECT i, repeat('p', 300) || to_char(i, 'FM00000') || (SELECT string_agg(md5(i || ':' || j), '')
	FROM generate_series(1, 12) j), 'v' FROM generate_series(1, $rows) i;
SELECT lsm_flush('t'); SELECT lsm_flush('t_id'); SELECT lsm_flush('t_k'); SELECT lsm_compact('t_k');
CREATE TABLE queue (id int, v text) USING lsm;
CREATE INDEX queue_id ON queue USING lsm (id);
INSERT INTO queue SELECT i, 'v' FROM generate_series(1, 2000) i;
SELECT lsm_flush('queue');
CREATE TABLE seen (id int, v text) USING lsm;
CREATE INDEX seen_id ON seen USING lsm (id);
INSERT INTO seen SELECT i, 'v' FROM generate_series(1, 3000) i});
query('VACUUM seen');

my $keys = q{(SELECT array_agg(k) FROM t WHERE id BETWEEN 1 AND 1500)};
my %lies = (
	# what it is about, who is to be accused, the statements; the lie is told from the last one on
	vague_words => [ 'lsm_tree_multi_lookup', qq{SELECT $keys AS keys \\gset\n}, q{SELECT count(*) FROM t WHERE k = ANY (:'keys')} ],
	filter => [ 'build_point', '', q{SELECT count(*) FROM t WHERE id = 77} ],
	fence => [ 'files_position|build_point|lsm_tree_get', '', q{SELECT count(*) FROM t WHERE k > repeat('p', 300) || '00700'} ],
	bottom => [ 'job_at_bottom', q{CREATE TEMP TABLE own (id int) USING lsm; INSERT INTO own SELECT generate_series(1, 1000); SELECT lsm_flush('own');
		DELETE FROM own WHERE id < 100; }, q{SELECT lsm_flush('own')} ],
	gap => [ 'lsm_gaps_find', q{DELETE FROM queue WHERE id < 1900; SELECT id FROM queue ORDER BY id LIMIT 1; SELECT id FROM queue ORDER BY id LIMIT 1; },
		q{INSERT INTO queue VALUES (100, 'new'); SELECT id FROM queue ORDER BY id LIMIT 1} ],
	vm_clear => [ 'lsm_guard_block', '', q{DELETE FROM seen WHERE id = 1000; SELECT count(id) FROM seen WHERE id BETWEEN 900 AND 1100} ]);

foreach my $lie (sort keys %lies)
{
	my ($accused, $before, $sql) = @{ $lies{$lie} };
	my $at = -s $node->logfile;
	my ($rc, $out, $err) = $node->psql('postgres', qq{$before
SET lsm.crash_point = '$lie~';
$sql;});
	isnt($rc, 0, "$lie: the session ends");
	ok($node->log_contains(qr/PANIC:  second opinion: (?:$accused)\(\) is wrong about key/, $at), "$lie: named")
		or diag("psql: $rc, $out, $err");
	lsm_wait_up($node);
}

# no lies
my $at = -s $node->logfile;
query(q{
DROP TABLE t, queue, seen;
CREATE TABLE t (k int PRIMARY KEY, n int, long text COLLATE "C") USING lsm;
CREATE INDEX t_long ON t USING lsm (long);
CREATE TABLE queue (id bigserial, v text) USING lsm;
CREATE INDEX queue_id ON queue USING lsm (id);
CREATE TABLE heap (k int, n int);
CREATE UNIQUE INDEX heap_k ON heap USING lsm_index (k);
INSERT INTO t SELECT i, 0, repeat('q', 250) || i FROM generate_series(1, 2000) i;
INSERT INTO heap SELECT i, 0 FROM generate_series(1, 2000) i});
my $script = lsm_script('second_opinion', q{
\set k random(1, 2500)
\set hot random(1, 20)
UPDATE t SET n = n + 1 WHERE k = :hot;
INSERT INTO t VALUES (:k, 0, repeat('q', 250) || :k) ON CONFLICT (k) DO UPDATE SET n = t.n + 1;
SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(:k, :k + 20)));
SELECT count(*) FROM t WHERE long = ANY (ARRAY(SELECT repeat('q', 250) || i FROM generate_series(:k, :k + 20) i));
DELETE FROM t WHERE k = :k + 1;
INSERT INTO heap VALUES (:k, 0) ON CONFLICT (k) DO UPDATE SET n = heap.n + 1;
DELETE FROM heap WHERE k = :k + 3;
INSERT INTO queue (v) SELECT 'v' FROM generate_series(1, 30);
DELETE FROM queue WHERE id IN (SELECT id FROM queue ORDER BY id LIMIT 30 FOR UPDATE SKIP LOCKED);
SELECT count(k) FROM t WHERE k BETWEEN :k AND :k + 50;
});
my $maintain = lsm_script('second_opinion_maintain', q{
SELECT lsm_flush('t'), lsm_flush('queue'), lsm_flush('heap_k');
VACUUM t, queue, heap;
SELECT lsm_compact('t');
});
my $seconds = $ENV{LSM_LONG} ? 1800 : 8;
my $writers = IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-T', $seconds, '-f', $script, $node->connstr('postgres') ],
	'>', \my $said, '2>&1');
my $end = time + $seconds;
my $rounds = 0;
while (time < $end)
{
	$node->psql('postgres', "\\i $maintain");
	$rounds++;
}
$writers->finish;
is($writers->result(0), 0, 'writers end well') or diag($said);
cmp_ok($rounds, '>', 0, 'flushes and compactions went on beside them');
ok(!$node->log_contains(qr/PANIC|TRAP/, $at), 'nobody was accused');
is(query(q{SELECT count(*) FROM lsm_verify('t')}), 0, 'lsm_verify');

# a kept row, while a job that has frozen it is between its edit and the change of the set
query(q{
CREATE TABLE kept (id int, v int) USING lsm;
CREATE INDEX kept_id ON kept USING lsm (id);
INSERT INTO kept SELECT i, 0 FROM generate_series(1, 100) i});
query(q{SELECT lsm_flush('kept')});
query(q{UPDATE kept SET v = 1 WHERE id <> 50});
query(q{SELECT lsm_flush('kept')});
query(q{CREATE FUNCTION waits(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(77); RETURN $1; END'});
lsm_set($node, 'lsm.crash_point' => '?');
lsm_set($node, 'lsm.compaction_workers' => 0);
$node->restart;
$at = -s $node->logfile;
my $door = lsm_start_session($node, 'postgres', 'door', "BEGIN; SELECT pg_advisory_lock(77);\nSELECT pg_sleep(600);");
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND granted}) or die;
my $updater = lsm_start_session($node, 'postgres', 'updater', q{UPDATE kept SET v = waits(v + 1) WHERE id = 50});
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}) or die;
lsm_hold($node, 'compact_after_edit', 'backend');
my $vacuum = lsm_start_session($node, 'postgres', 'vacuum', 'VACUUM (FREEZE) kept');
ok(lsm_wait_held($node), 'VACUUM is held between edit and set');
query(q{SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted});
ok(lsm_ended($updater, 60), 'the update ends beside it') or diag(lsm_output('updater'));
lsm_release($node);
ok(lsm_ended($vacuum, 60), 'VACUUM ends') or diag(lsm_output('vacuum'));
lsm_ended($door, 60);
ok(!$node->log_contains(qr/PANIC|TRAP/, $at), 'nobody was accused');
is(query(q{SELECT count(*), sum(v) FROM kept}), '100|100', 'the rows');

$node->stop;
done_testing();
