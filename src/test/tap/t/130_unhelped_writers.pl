# Writers that no worker can help are not made to wait for workers: the own lock keeps them out, somebody waits for a lock
# of his, there are none.  Without workers the server says so, and dropped trees lose their files all the same.
use strict;
use warnings;
use LsmSession;
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

# ---- trees that fill the memory together ----

# Before any of them is full.  A tree that is evicted while it is being written comes back with its next row, which reads all
# of its log: seen by the pages that a statement reads.
sub pages_per_row
{
	my (@tables) = @_;
	my $most = 0;
	my @pids = map { lsm_start_session($node, 'postgres', $_->[0], "SET statement_timeout = '30s'; $_->[1]; EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) INSERT INTO $_->[0] SELECT i, repeat('x', 200) FROM generate_series(1, 40000) i; COMMIT") } @tables;
	lsm_ended($_) foreach @pids;
	foreach (@tables)
	{
		my $output = lsm_output($_->[0]);
		my $pages = $output =~ /Buffers: shared hit=(\d+)(?: read=(\d+))?/ ? ($1 + ($2 // 0)) / 40000 : 9**9;
		note("$_->[0]: $pages pages per row, $output");
		$most = $pages if $pages > $most;
	}
	return $most;
}
sub partitions
{
	my ($name, $n) = @_;
	return "BEGIN; CREATE TABLE $name (id int, v text) PARTITION BY HASH (id); "
	  . join('; ', map { "CREATE TABLE ${name}_$_ PARTITION OF $name FOR VALUES WITH (MODULUS $n, REMAINDER $_) USING lsm" } 0 .. $n - 1);
}
cmp_ok(pages_per_row(['own', partitions('own', 16)]), '<', 5, 'trees that no worker can flush do not evict each other');
cmp_ok(pages_per_row(map { [$_, partitions($_, 12)] } 'first', 'second'), '<', 5, 'nor do those of two sessions');
cmp_ok(pages_per_row(['small', partitions('small', 72)]), '<', 5, 'nor do many, each a small part of the memory');
sql(partitions('many', 72) . '; COMMIT; INSERT INTO many SELECT i FROM generate_series(1, 2000) i');
is(sql(q{SELECT count(*) FROM pg_stat_lsm WHERE relname ~ '^many' AND workers_help}), 72, 'workers can flush the committed ones');
cmp_ok(pages_per_row(['many', 'BEGIN']), '<', 5, 'these do not evict each other, either');
is(sql("SELECT count(*) FROM $_"), $_ eq 'many' ? 42000 : 40000, "all rows of $_ are there") foreach 'own', 'first', 'second', 'small', 'many';

# ---- idle trees that no worker can flush ----

sql("DROP TABLE $_") foreach 'own', 'first', 'second', 'small', 'many';
sql(q{SELECT lsm_flush(relid) FROM pg_stat_lsm WHERE kind = 'table'});
sql(join('; ', map { "CREATE TABLE little_$_ (id int, v text) USING lsm" } 1 .. 16));
my $bulk = LsmSession->new($node);
$bulk->ask("SET lsm.memtable_size = '8MB'; BEGIN");
my %bytes_of;
foreach my $idle ('idle_1', 'idle_2')
{
	$bulk->ask("CREATE TABLE $idle (id int, v text) USING lsm");
	$bytes_of{$idle} = sprintf(q{SELECT coalesce(sum(memtable_bytes), 0) FROM lsmam_tree_stats(false) WHERE relfilenode = %s}, ($bulk->ask("SELECT pg_relation_filenode('$idle')"))[1]);
	do { $bulk->ask("INSERT INTO $idle SELECT i, repeat('x', 200) FROM generate_series(1, 500) i"); } until sql($bytes_of{$idle}) > 3_300_000;
}
sub idle_bytes { return sql($bytes_of{idle_1}) + sql($bytes_of{idle_2}); }
cmp_ok(idle_bytes(), '>', 6_600_000, 'a transaction has filled most of the memory, and goes on without it');
my $rows_before = ($bulk->ask('SELECT (SELECT count(*) FROM idle_1) + (SELECT count(*) FROM idle_2)'))[1];
# (little by little: who finds no memory at all evicts what has not been used for longest)
my $turn = 0;
my $end = time + $PostgreSQL::Test::Utils::timeout_default;
sql('INSERT INTO little_' . (1 + $turn++ % 16) . q{ SELECT i, repeat('x', 200) FROM generate_series(1, 10) i}) until idle_bytes() < 4_000_000 || time > $end;
cmp_ok(idle_bytes(), '<', 4_000_000, 'idle trees of a transaction that goes on without them do not keep the memory');
is(($bulk->ask('SELECT (SELECT count(*) FROM idle_1) + (SELECT count(*) FROM idle_2)'))[1], $rows_before, 'nothing is lost');
$bulk->ask('COMMIT');
is(sql(q{SELECT object || ': ' || problem FROM lsm_verify('idle_1') UNION ALL SELECT object || ': ' || problem FROM lsm_verify('idle_2')}), '', 'both are sound');
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
# (a memtable has room for them: with more runs writers would wait for the step, which does not keep to the rate then)
sql("INSERT INTO slow SELECT md5(random()::text) FROM generate_series(1, 300); SELECT lsm_flush('slow_k')") foreach 1 .. 10;
my $job = q{SELECT pid, started_at FROM pg_stat_lsm_progress WHERE relid = 'slow_k'::regclass AND command = 'compaction'};
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($job) j"), 'the worker compacts a tree');
my $began = sql($job);
my ($dir) = map { s{/owner$}{}r } grep { slurp_file($_) =~ /^\d+ \d+ @{[sql("SELECT pg_relation_filenode('bad')")]} / } glob(lsm_dir($node) . '/*/owner');
chmod 0555, $dir or die "chmod: $!";
$offset = -s $node->logfile;
# (what fills one memtable: for the next one the session would have to flush by itself, and fail)
my $rest = lsm_start_session($node, 'postgres', 'bad', q{INSERT INTO bad SELECT i, repeat('x', 200) FROM generate_series(1, 120) i});
lsm_wait_logged($node, $offset, qr/while flushing LSM tree .* left alone for \d+ seconds/);
# (it warns before the failed flush is undone, which until then is what it reports)
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($job) j WHERE pid || '|' || started_at = '$began'"), 'amid that it fails to flush another one, and its step goes on');
is(sql(q{SELECT workers_help FROM pg_stat_lsm WHERE relname = 'bad'}), 'f', 'writers of the other one know that it rests');
chmod 0700, $dir or die "chmod: $!";
lsm_ended($rest);
sql(q{SELECT lsm_flush('bad')});
is(sql(q{SELECT count(*) FROM bad}), 121, 'when it can be flushed, nothing is lost');
sql("ALTER SYSTEM SET lsm.compaction_rate = 0; SELECT pg_reload_conf()");
ok($node->poll_query_until('postgres', q{SELECT level0_runs < 8 FROM pg_stat_lsm WHERE relname = 'slow_k'}), 'the step ends');
is(sql(q{SELECT object || ': ' || problem FROM lsm_verify('slow_k') UNION ALL SELECT object || ': ' || problem FROM lsm_verify('bad')}), '', 'both are sound');
$node->stop;
done_testing();
