# Trees of very many files: rows are found, before and after compactions, restarts and crashes, by sessions that keep few of
# them open; and where the system has no memory for another mapping, a session gives up others, or says so and goes on later.
#   LSM_LONG=1  as many files as docs/scale.md tells of
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = lsm_long() ? 400_000 : 8_000;
my $maps = PostgreSQL::Test::Utils::tempdir() . '/maps';
my $node = lsm_node('files', conf => "autovacuum = off\nfsync = off\nlsm.target_file_size = 4kB\nlsm.memtable_size = 64MB\nlsm.memtable_memory = 192MB\nlsm.max_open_files = 1000\nmax_wal_size = 2GB\n");
{
	local $ENV{LD_PRELOAD} = $ENV{LSM_FAULTS_SO};
	local $ENV{LSM_FAULTS_MAPS} = $maps;
	lsm_start($node);
}
sub sql { return $node->safe_psql('postgres', $_[0]); }
sub files { return sql(q{SELECT count(*) FROM lsm_files('many_i')}); }
sub allow
{
	my ($n) = @_;
	unlink $maps;
	append_to_file($maps, "$n\n") if defined $n;
	return;
}

# the index has rows of about a quarter of a file
sql(qq{CREATE TABLE many (id int, pad text) USING heap; INSERT INTO many SELECT g * 7 % $rows, repeat(md5(g::text), 28) FROM generate_series(1, $rows) g;
CREATE INDEX many_i ON many USING lsm (id) INCLUDE (pad) WITH (compression = none); VACUUM ANALYZE many});
my $files = files();
cmp_ok($files, '>', $rows / 12, "an index of $files files");

# Some of all rows, and the sum of all, by the index and by the heap
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; ';
my $by_heap = 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; ';
my @questions = ("SELECT count(*), sum(hashtext(pad)) FROM many WHERE id IN (SELECT g * @{[ int($rows / 400) ]} FROM generate_series(0, 399) g)",
	'SELECT count(*), sum(hashtext(pad)) FROM many WHERE id >= 0', "SELECT id FROM many WHERE id > @{[ int($rows / 3) ]} ORDER BY id LIMIT 3", 'SELECT count(*) FROM many WHERE id = -5');
my $nested = 'SET enable_hashjoin = off; SET enable_mergejoin = off; ';
sub same
{
	my ($what) = @_;
	is(sql($by_index . $nested . join '; ', @questions), sql($by_heap . join '; ', @questions), $what);
	return;
}
like(sql($by_index . $nested . "EXPLAIN (COSTS OFF) $questions[0]"), qr/Index.*many_i/, 'the index is asked');
same('all is found');
is(sql($by_index . $nested . 'SET lsm.max_open_files = 16; ' . join '; ', @questions), sql($by_heap . join '; ', @questions), '... with few open files');

# ---- no memory for mappings ----

allow(40);
same('a session that gets 40 mappings gives up others');
my $session = $node->background_psql('postgres', on_error_stop => 0);
# which has mappings of its own
$session->query('SET lsm.second_opinion = 0') if $ENV{LSM_SECOND_OPINION};
allow(undef);
my $want = sql($by_heap . $questions[0]);
is($session->query($by_index . $nested . $questions[0]), $want, 'a session with many mappings');
allow(0);
# what it has open serves on; for what it has not, there is no memory whatever it gives up
$session->query($questions[1]);
like($session->{stderr}, qr/ERROR: .*(?:Cannot allocate memory|out of memory)/i, 'no mapping at all is an error');
allow(3);
is($session->query($questions[0]), $want, '... after which the session goes on, with three');
allow(undef);
is($session->query($questions[1]), sql($by_heap . $questions[1]), '... and with as many as it likes');
$session->quit;

# flushes and compactions under the same limit: an error is tried again, nothing is lost
sql(qq{INSERT INTO many SELECT $rows + g, repeat('n', 900) FROM generate_series(1, 200) g; DELETE FROM many WHERE id BETWEEN 10 AND 19});
allow(0);
my ($rc, undef, $err) = $node->psql('postgres', q{SELECT lsm_compact('many_i')});
isnt($rc, 0, 'a compaction needs mappings');
like($err, qr/Cannot allocate memory|out of memory/i, '... and says so');
allow(40);
sql(q{SELECT lsm_flush('many_i')});
same('flushed with 40 mappings');
allow(undef);
sql(q{VACUUM many; SELECT lsm_compact('many_i')});
same('compacted');
cmp_ok(files(), '>', $rows / 12, 'as many files as before');
is(sql(q{SELECT * FROM lsm_verify('many_i')}), '', 'lsm_verify');

# ---- restarts ----

$node->restart;
same('after a restart');
sql(qq{INSERT INTO many SELECT -g, 'last' FROM generate_series(1, 100) g; SELECT lsm_flush('many_i'); INSERT INTO many SELECT -g, 'last' FROM generate_series(101, 200) g});
my @pids = lsm_pids($node);
lsm_kill_process($node, 'postmaster');
lsm_restart_after_crash($node, @pids);
same('after a crash');
is(sql($by_index . q{SELECT count(*) FROM many WHERE id < 0}), 200, 'what came last');
is(sql(q{SELECT * FROM lsm_verify('many_i')}), '', 'lsm_verify');
sql('DROP INDEX many_i');
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_ls_dir('pg_lsm') d, pg_ls_dir('pg_lsm/' || d) f WHERE d ~ '^[0-9a-f]{16}$' AND f LIKE '%.sst'}) or die 'files stay';
pass('files of a dropped index go away');
$node->stop;
done_testing();
