# A standby that was made before there was any tree: all it has comes from WAL, log pages as well as the
# chunks of sorted files and filters, compressed or not, and it crashes in the middle of the replay. When
# it is promoted it answers as the primary did, and goes on.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = lsm_node('primary', conf => "max_wal_senders = 4\nwal_keep_size = 1GB\nmax_wal_size = 1GB\nautovacuum = off\n"
	  . "lsm.memtable_size = 1MB\nlsm.target_file_size = 4MB\nhot_standby = on");
lsm_start($primary);
$primary->backup('empty');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'empty', has_streaming => 1);
$standby->start;

my $look = q{SET enable_seqscan = off;
SELECT count(*), sum(id), md5(string_agg(t, '' ORDER BY id)) FROM l WHERE id > 0;
SELECT count(*), sum(n) FROM l WHERE n BETWEEN 100 AND 200;
SELECT id, n FROM l WHERE u = md5('4711')::uuid;
SELECT count(*) FROM generate_series(1, 60000, 7) i WHERE EXISTS (SELECT FROM l WHERE u = md5(i::text)::uuid);
SELECT level, count(*), sum(entries) FROM lsm_levels('l_u') GROUP BY level ORDER BY level};
my $verify = q{SELECT t, v.* FROM unnest(ARRAY['l', 'l_pkey', 'l_u', 'l_n']::regclass[]) t, lsm_verify(t) v};

# bytes of WAL for compacting the tree once more, for each byte of its files
sub logged
{
	my ($tree) = @_;
	my $before = $primary->lsn('insert');
	$primary->safe_psql('postgres', "SELECT lsm_compact('$tree')");
	return $primary->safe_psql('postgres', sprintf(
		q{SELECT pg_wal_lsn_diff('%s', '%s') / sum(bytes) FROM lsm_levels('%s')}, $primary->lsn('insert'), $before, $tree));
}

$primary->safe_psql('postgres', q{
CREATE TABLE l (id int PRIMARY KEY, u uuid, n int, t text) USING lsm;
CREATE UNIQUE INDEX l_u ON l USING lsm (u);
CREATE INDEX l_n ON l USING lsm (n);
INSERT INTO l SELECT i, md5(i::text)::uuid, i % 1000, repeat(md5(i::text), 1 + i % 5) FROM generate_series(1, 60000) i});
$primary->safe_psql('postgres', q{SELECT lsm_flush('l'); UPDATE l SET n = n + 1 WHERE id % 10 = 0; DELETE FROM l WHERE id % 11 = 0; SELECT lsm_compact('l')});
my $keys = logged('l_pkey');
my $uuids = logged('l_u');
cmp_ok($keys, '<', 0.6, 'files of ascending keys take much less WAL than they have bytes');
cmp_ok($uuids, '<', 0.95, 'files of random keys take less');
$primary->wait_for_catchup($standby);

# the standby crashes while there is much to replay
my $script = "$ENV{TESTDIR}/replay.sql";
append_to_file($script, join('', map { "INSERT INTO l SELECT i, md5(i::text)::uuid, i % 1000, 'x' FROM generate_series($_ * 10000 + 60001, $_ * 10000 + 70000) i;\nSELECT lsm_flush('l');\n" } 0 .. 5));
my $load = lsm_spawn_psql($primary, $script, "$ENV{TESTDIR}/replay.out");
foreach (1 .. 3)
{
	$standby->stop('immediate');
	$standby->start;
}
waitpid($load, 0);
is($?, 0, 'the load runs');

# Jobs that write many files have the flush worker log some of them.  If it fails they do it themselves; what it
# logs is what the standby has.
sub compact_in_many_files
{
	my ($message) = @_;
	foreach my $i (1 .. 20)
	{
		my $end = -s $primary->logfile;
		$primary->safe_psql('postgres', qq{SET lsm.target_file_size = '128kB';
INSERT INTO l SELECT -i, NULL, i % 1000, md5(i::text) FROM generate_series(1, 3000) i;
SELECT lsm_compact('l'); DELETE FROM l WHERE id < 0});
		return 1 if substr(slurp_file($primary->logfile), $end) =~ $message;
	}
	return 0;
}
lsm_set($primary, 'lsm.crash_point' => 'help_logging!');
$primary->reload;
ok(compact_in_many_files(qr/error at crash point help_logging/), 'the worker fails, the compaction does not');
lsm_set($primary, 'lsm.crash_point' => '', 'log_min_messages' => 'debug1');
$primary->reload;
ok(compact_in_many_files(qr/logged lsm file \d+ for the job that wrote it/), 'the worker logs files of a compaction');

# A job that fails while a worker logs its files: no piece of them comes behind those of the next one
my ($failed, $through) = (0, 0);
lsm_set($primary, 'lsm.crash_point' => 'help_nobody');
$primary->reload;
foreach my $i (1 .. 12)
{
	# something for every file
	$primary->safe_psql('postgres', "UPDATE l SET n = n + 1 WHERE id % 50 = $i");
	my ($rc) = $primary->psql('postgres', "SET lsm.target_file_size = '128kB'; SET statement_timeout = @{[20 + int(rand(400))]}; SELECT lsm_compact('l')");
	$rc == 0 ? $through++ : $failed++;
}
lsm_set($primary, 'lsm.crash_point' => '');
$primary->reload;
cmp_ok($failed, '>', 0, "compactions are canceled ($through were not)");
$primary->safe_psql('postgres', q{SELECT lsm_flush('l')});

# a worker's compaction may be due after those that were cancelled
my $expected;
foreach (1 .. 60)
{
	$primary->wait_for_catchup($standby);
	$expected = $primary->safe_psql('postgres', $look);
	sleep(2);
	last if $expected eq $primary->safe_psql('postgres', $look);
}
like($expected, qr/^\d{5,}\|/, 'the primary has rows');

$primary->stop;
$standby->promote;
is($standby->safe_psql('postgres', $look), $expected, 'promoted: it has what the primary had');
is($standby->safe_psql('postgres', $verify), '', 'promoted: nothing is wrong');
my ($rc) = $standby->psql('postgres', "INSERT INTO l VALUES (60001, NULL, 0, 'again')");
isnt($rc, 0, 'promoted: a key that is there cannot come twice');
$standby->safe_psql('postgres', q{INSERT INTO l SELECT i, NULL, 150, 'new' FROM generate_series(1000001, 1001000) i; SELECT lsm_compact('l')});
is($standby->safe_psql('postgres', 'SELECT count(*) FROM l WHERE id > 1000000'), '1000', 'promoted: it goes on');
is($standby->safe_psql('postgres', q{SELECT * FROM lsm_verify('l_pkey')}), '', 'promoted: nothing is wrong after a compaction');
done_testing();
