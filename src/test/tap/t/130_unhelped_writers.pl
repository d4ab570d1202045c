# Writers that no worker can help are not made to wait for workers: the own lock keeps them out, somebody waits for a lock
# of his, there are none.  Without workers the server says so, and dropped trees lose their files all the same.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('unhelped', conf => q{
lsm.memtable_memory = 8MB
lsm.memtable_size = 1MB
autovacuum = off
});
lsm_start($node);
sub sql { return $node->safe_psql('postgres', $_[0]); }
sub stats_of
{
	my ($name) = @_;
	return sql("SELECT delays_level0 + delays_flush + delays_memory + delays_pending, stalls_flush > 0, workers_help FROM pg_stat_lsm WHERE relname = '$name'");
}
my $rows = q{SELECT i, repeat('x', 200) FROM generate_series(1, 60000) i};

# ---- the own lock ----

foreach my $mode ('SHARE', 'SHARE ROW EXCLUSIVE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE')
{
	my $name = lc($mode) =~ s/ /_/gr;
	sql("CREATE TABLE $name (id int, v text) USING lsm");
	sql("INSERT INTO $name VALUES (0, '')");
	my $help = sql("BEGIN; LOCK TABLE $name IN $mode MODE; INSERT INTO $name $rows; SELECT workers_help FROM pg_stat_lsm WHERE relname = '$name'; COMMIT");
	is($help, 'f', "$mode: the session knows that no worker can help");
	like(stats_of($name), qr/^0\|t\|/, "$mode: it flushes by itself, without a delay");
	ok($node->poll_query_until('postgres', "SELECT workers_help FROM pg_stat_lsm WHERE relname = '$name'"), "$mode: workers help when it has committed");
}
sql("CREATE TABLE weaker (id int, v text) USING lsm; INSERT INTO weaker VALUES (0, '')");
is(sql("BEGIN; LOCK TABLE weaker IN SHARE UPDATE EXCLUSIVE MODE; INSERT INTO weaker VALUES (1, ''); SELECT workers_help FROM pg_stat_lsm WHERE relname = 'weaker'"), 't', 'a lock that workers do not mind');

$node->stop;

# ---- no workers ----

$node->append_conf('postgresql.conf', "max_worker_processes = 0\nmax_parallel_workers = 0");
my $offset = -s $node->logfile;
$node->start;
like(substr(slurp_file($node->logfile), $offset), qr/WARNING:  2 of 2 background workers of lsmam could not be registered/, 'the log says that there are no workers');
sql("CREATE TABLE alone (id int, v text) USING lsm; CREATE INDEX alone_id ON alone USING lsm (id); INSERT INTO alone VALUES (0, '')");
sql("INSERT INTO alone $rows");
is(stats_of('alone'), '0|t|f', 'without workers a writer is not delayed, and flushes by itself');
is(sql(q{SELECT object || ': ' || problem FROM lsm_verify('alone')}), '', 'the table is sound');

# (trees of a table: its own, and those of its TOAST table and the index of that)
sub trees { return scalar grep { !m{pgsql_tmp} } glob(lsm_dir($node) . '/*'); }
my $before = trees();
sql('DROP TABLE alone');
is(trees(), $before, 'what is dropped is still there');
sql('DROP TABLE share');
my $between = trees();
cmp_ok($between, '<', $before, 'without workers the next one that drops a tree removes that of the last one');
sql('VACUUM weaker');
cmp_ok(trees(), '<', $between, 'or VACUUM does');
is(sql(q{SELECT object || ': ' || problem FROM lsm_verify('weaker')}), '', 'others stay');
$node->stop;

# ---- no compaction worker (core's launcher of subscriptions is the other one) ----

$node->append_conf('postgresql.conf', "max_worker_processes = 2");
$offset = -s $node->logfile;
$node->start;
like(substr(slurp_file($node->logfile), $offset), qr/WARNING:  1 of 2 background workers of lsmam could not be registered/, 'the log says that there is no worker that compacts');
sql("CREATE TABLE one (id int, v text) USING lsm; INSERT INTO one VALUES (0, '')");
sql("INSERT INTO one VALUES (1, ''); SELECT lsm_flush('one')") foreach 1 .. 12;
ok($node->poll_query_until('postgres', q{SELECT compactions > 0 FROM pg_stat_lsm WHERE relname = 'one'}), 'the flush worker compacts, too');
$node->stop;

# ---- one worker, which compacts one tree and cannot flush another ----

$node->append_conf('postgresql.conf', "max_worker_processes = 8\nlsm.compaction_workers = 0\nlsm.compaction_rate = 1kB\nlsm.memtable_size = 64kB");
$node->start;
sql("CREATE TABLE slow (k text) USING heap; CREATE INDEX slow_k ON slow USING lsm (k); CREATE TABLE bad (id int, v text) USING lsm; INSERT INTO bad VALUES (0, '')");
sql("INSERT INTO slow SELECT md5(random()::text) FROM generate_series(1, 500); SELECT lsm_flush('slow_k')") foreach 1 .. 10;
my $job = q{SELECT pid, started_at FROM pg_stat_lsm_progress WHERE relid = 'slow_k'::regclass AND command = 'compaction'};
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($job) j"), 'the worker compacts a tree');
my $began = sql($job);
my ($dir) = map { s{/owner$}{}r } grep { slurp_file($_) =~ /^\d+ \d+ @{[sql("SELECT pg_relation_filenode('bad')")]} / } glob(lsm_dir($node) . '/*/owner');
chmod 0555, $dir or die "chmod: $!";
$offset = -s $node->logfile;
# (what fills one memtable: for the next one the session would have to flush by itself, and fail)
my $rest = lsm_start_session($node, 'postgres', 'bad', q{INSERT INTO bad SELECT i, repeat('x', 200) FROM generate_series(1, 300) i});
lsm_wait_logged($node, $offset, qr/while flushing LSM tree .* left alone for \d+ seconds/);
is(sql($job), $began, 'amid that it fails to flush another one, and its step goes on');
is(sql(q{SELECT workers_help FROM pg_stat_lsm WHERE relname = 'bad'}), 'f', 'writers of the other one know that it rests');
chmod 0700, $dir or die "chmod: $!";
lsm_ended($rest);
sql(q{SELECT lsm_flush('bad')});
is(sql(q{SELECT count(*) FROM bad}), 301, 'when it can be flushed, nothing is lost');
sql("ALTER SYSTEM SET lsm.compaction_rate = 0; SELECT pg_reload_conf()");
ok($node->poll_query_until('postgres', q{SELECT level0_runs < 8 FROM pg_stat_lsm WHERE relname = 'slow_k'}), 'the step ends');
is(sql(q{SELECT object || ': ' || problem FROM lsm_verify('slow_k') UNION ALL SELECT object || ': ' || problem FROM lsm_verify('bad')}), '', 'both are sound');
$node->stop;
done_testing();
