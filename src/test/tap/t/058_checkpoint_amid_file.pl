# Redo syncs nothing by itself: what it has written is durable before a restartpoint lets a replay begin behind it, and when
# recovery ends.  So a checkpoint may come amid a file that is being logged; a standby that makes a restartpoint there and loses
# what it has not synced has the whole file afterwards; and a file is synced once, or never if it is removed before.  What cannot
# be synced is never taken for durable.  Power fails once more amid the recovery from its failure.
# log may say: could not fsync file "pg_lsm.*Input/output error|terminated by signal 6
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $primary = lsm_node('primary', conf => "max_wal_senders = 8\nwal_keep_size = 512MB\nmax_wal_size = 1GB\nhot_standby = on\nautovacuum = off\n"
	  . "lsm.memtable_size = 32MB\nlsm.target_file_size = 16MB\nlsm.compression = none\ncheckpoint_timeout = 1h\nlsm.crash_point = '?'");
$primary->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($primary);
$primary->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING lsm; CREATE TABLE small (id int PRIMARY KEY) USING lsm;');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
my $synced = "$ENV{TESTDIR}/checkpoint_amid_file.synced";
my $eio = "$ENV{TESTDIR}/checkpoint_amid_file.eio";

sub start_standby
{
	local $ENV{LD_PRELOAD} = $ENV{LSM_FAULTS_SO};
	local $ENV{LSM_FAULTS_SYNC_LOG} = $synced;
	local $ENV{LSM_FAULTS_EIO} = $eio;
	return $standby->start(@_);
}

sub kill_standby
{
	my @pids = lsm_pids($standby);
	kill('KILL', @pids);
	lsm_wait_gone($standby, @pids);
	my $lost = lsm_lose_unsynced($standby, $synced);
	lsm_clear_crashed($standby, @pids);
	return $lost;
}

sub caught_up
{
	my $lsn = $primary->lsn('flush');
	return $standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'");
}

# True: there is one at the last checkpoint record that was replayed
sub restartpoint
{
	my $redo = q{SELECT redo_lsn FROM pg_control_checkpoint()};
	my $before = $standby->safe_psql('postgres', $redo);
	$standby->safe_psql('postgres', 'CHECKPOINT');
	return $standby->safe_psql('postgres', $redo) ne $before ? 1 : 0;
}

# Those that were synced since `from`, as often as they were
sub syncs
{
	my ($from) = @_;
	my %syncs;
	$syncs{$_}++ foreach substr(slurp_file($synced), $from) =~ /^f (\d+ \d+) /mg;
	return %syncs;
}

sub identity { my ($id) = `stat -c '%i %W' '$_[0]'` =~ /^(\d+ \d+)/; return $id; }

my $content = q{SELECT count(*), sum(id), md5(string_agg(v, ',' ORDER BY id)) FROM t};

lsm_set($standby, fsync => 'on');
start_standby();

foreach my $round (1 .. 3)
{
	# ---- a file of several pieces is held after its first ----

	$primary->safe_psql('postgres', "INSERT INTO t SELECT g, repeat(md5(g::text), 20) FROM generate_series($round * 100000, $round * 100000 + 9000) g");
	$primary->safe_psql('postgres', 'CHECKPOINT');
	ok(caught_up(), "round $round: the rows are there");
	$standby->safe_psql('postgres', 'CHECKPOINT');

	lsm_hold($primary, 'chunk_logged', 'any', 0);
	my $compaction = lsm_start_session($primary, 'postgres', 'compaction', q{SELECT lsm_compact('t')});
	ok(lsm_wait_held($primary), "round $round: the first piece is logged");
	$primary->safe_psql('postgres', 'CHECKPOINT');

	# the standby makes a restartpoint amid the file, and loses power
	ok(caught_up(), "round $round: the standby has the first piece");
	is(restartpoint(), 1, "round $round: a restartpoint amid the file");
	is(kill_standby(), 0, "round $round: all before it is durable");
	start_standby();
	lsm_release($primary);
	ok(lsm_ended($compaction), "round $round: the compaction ends");
	cmp_ok((sort { $b <=> $a } map { -s $_ } lsm_files_of($primary, qr/\.sst$/))[0], '>', 3 << 20, 'the file has several pieces');
	ok(caught_up(), "round $round: the standby catches up");
	is($standby->safe_psql('postgres', $content), $primary->safe_psql('postgres', $content), "round $round: the standby has all rows");
	is($standby->safe_psql('postgres', q{SELECT * FROM lsm_verify('t')}), '', "round $round: and whole files");

	# ---- what no restartpoint has seen is lost, and comes again ----

	cmp_ok(kill_standby(), '>', 0, "round $round: the rest of the file is not synced yet");
	start_standby();
	ok(caught_up(), "round $round: the standby has it again");
	is($standby->safe_psql('postgres', $content), $primary->safe_psql('postgres', $content), "round $round: with all rows");

	# ---- from here a replay begins behind the file: it is durable ----

	$primary->safe_psql('postgres', 'CHECKPOINT');
	ok(caught_up(), "round $round: the standby has the checkpoint's record");
	is(restartpoint(), 1, "round $round: a restartpoint there");
	is(kill_standby(), 0, "round $round: nothing is lost");
	start_standby();
	ok(caught_up(), "round $round: the standby catches up again");
	is($standby->safe_psql('postgres', $content), $primary->safe_psql('postgres', $content), "round $round: the file was durable");
	is($standby->safe_psql('postgres', q{SELECT * FROM lsm_verify('t')}), '', "round $round: and is whole");
}

# ---- what a redo has made that a shutdown ended is there already when it is made again (after a crash core syncs all) ----

{
	$primary->safe_psql('postgres', q{CREATE TABLE fresh (id int PRIMARY KEY) USING lsm; INSERT INTO fresh SELECT generate_series(1, 1000); SELECT lsm_flush('fresh')});
	ok(caught_up(), 'a new table: the standby has it');
	$standby->stop('fast');
	start_standby();
	ok(caught_up(), 'a new table: and again after a shutdown');
	$primary->safe_psql('postgres', 'CHECKPOINT');
	ok(caught_up(), 'a new table: the standby has the record of a checkpoint');
	is(restartpoint(), 1, 'a new table: a restartpoint there');
	kill_standby();
	start_standby();
	ok(caught_up(), 'a new table: the standby catches up');
	is($standby->safe_psql('postgres', 'SELECT count(*), sum(id) FROM fresh'), '1000|500500', 'a new table: with all rows, for its directory is durable');
}

# ---- a file is synced once, and not before it has to be; none that is gone by then ----

{
	my %old = map { $_ => 1 } lsm_files_of($standby);
	my $from = length slurp_file($synced);
	foreach my $i (1 .. 3)
	{
		$primary->safe_psql('postgres', "INSERT INTO t SELECT g, repeat(md5(g::text), 20) FROM generate_series(900000 + $i * 3000, 900000 + $i * 3000 + 2999) g; SELECT lsm_compact('t')");
	}
	ok(caught_up(), 'the standby has the files');
	my %syncs = syncs($from);
	is(join(', ', %syncs), '', 'it has synced none of them');
	my @new = grep { !$old{$_} } lsm_files_of($standby);
	$primary->safe_psql('postgres', 'CHECKPOINT');
	ok(caught_up(), 'the standby has the record of a checkpoint');
	%syncs = syncs($from);
	cmp_ok(scalar(@new), '>', 0, 'there are new files');
	is(join(' ', grep { ($syncs{ identity($_) } // 0) != 1 } @new), '', 'each has been synced once');
	cmp_ok(scalar(keys %syncs), '<=', scalar(@new), 'and none that is gone');
}

# ---- what cannot be synced: replay does not pass the record, and the standby ends, whatever data_sync_retry says ----

foreach my $retry ('off', 'on')
{
	kill_standby();
	lsm_set($standby, data_sync_retry => $retry);
	start_standby();
	$primary->safe_psql('postgres', 'UPDATE t SET v = v WHERE id % 7 = 0');
	$primary->safe_psql('postgres', q{SELECT lsm_compact('t')});
	ok(caught_up(), "data_sync_retry $retry: the standby has new files");
	my $redo = $standby->safe_psql('postgres', q{SELECT redo_lsn FROM pg_control_checkpoint()});
	my $logged = -s $standby->logfile;
	my @pids = lsm_pids($standby);
	append_to_file($eio, $retry eq 'on' ? 'directories' : 'all');
	$primary->safe_psql('postgres', 'CHECKPOINT');
	lsm_wait_gone($standby, @pids);
	unlink $eio;
	like(substr(slurp_file($standby->logfile), $logged), $retry eq 'on' ? qr{FATAL:  could not fsync file "pg_lsm/.*": Input/output error} : qr{PANIC:  could not fsync file "pg_lsm/.*": Input/output error}, "data_sync_retry $retry: the standby ends");
	# the kernel tells of an error once, and what it could not write is gone
	cmp_ok(lsm_lose_unsynced($standby, $synced), '>', 0, 'what was not synced is lost');
	lsm_clear_crashed($standby, @pids);
	start_standby();
	ok(caught_up(), "data_sync_retry $retry: the standby catches up");
	is($standby->safe_psql('postgres', $content), $primary->safe_psql('postgres', $content), "data_sync_retry $retry: with all rows");
	is($standby->safe_psql('postgres', q{SELECT * FROM lsm_verify('t')}), '', "data_sync_retry $retry: and whole files");
}

# ---- an error amid a file ----

{
	my $session = $primary->background_psql('postgres', on_error_stop => 0);
	$session->query_safe(q{INSERT INTO t SELECT g, repeat(md5(g::text), 20) FROM generate_series(950000, 951000) g});
	$session->query('BEGIN');
	$session->query('SAVEPOINT s');
	$session->query(q{SET lsm.crash_point = 'chunk_logged!'});
	$session->query(q{CREATE INDEX broken ON t USING lsm (v)});
	like($session->{stderr}, qr/error at crash point chunk_logged/, 'an error amid a file');
	$session->query('ROLLBACK TO s');
	$primary->safe_psql('postgres', 'CHECKPOINT');
	$session->query('COMMIT');
	$session->quit;
}

# ---- many files one after the other, and checkpoints all the while ----

{
	$primary->safe_psql('postgres', q{INSERT INTO small SELECT generate_series(1, 200000); ALTER SYSTEM SET lsm.target_file_size = '64kB'; SELECT pg_reload_conf();});
	my $compaction = lsm_start_session($primary, 'postgres', 'compaction', join('', map { "UPDATE small SET id = -id; SELECT lsm_compact('small'); " } 1 .. 3));
	my $done = 0;
	until (lsm_ended($compaction, 0.01))
	{
		$primary->safe_psql('postgres', 'CHECKPOINT');
		$done++;
	}
	cmp_ok($done, '>', 1, "$done checkpoints beside the compactions");
	ok(caught_up(), 'the standby catches up');
	is($standby->safe_psql('postgres', q{SELECT count(*), sum(id) FROM small}), $primary->safe_psql('postgres', q{SELECT count(*), sum(id) FROM small}), 'the standby has all rows');
	is($standby->safe_psql('postgres', q{SELECT * FROM lsm_verify('small')}), '', 'and whole files');
}

# ---- recovery ends: all is durable before the first checkpoint of the new primary ----

$primary->safe_psql('postgres', q{INSERT INTO t SELECT g, repeat(md5(g::text), 20) FROM generate_series(970000, 979000) g; SELECT lsm_compact('t'); CREATE TABLE late USING lsm AS SELECT g AS id, 'late'::text AS v FROM generate_series(1, 5000) g; SELECT lsm_flush('late')});
ok(caught_up(), 'the standby has a new table');
my $expected = $primary->safe_psql('postgres', $content);
$primary->stop('immediate');
$standby->promote;
$standby->safe_psql('postgres', 'CHECKPOINT');
kill_standby();
start_standby();
is($standby->safe_psql('postgres', $content), $expected, 'promoted, checkpoint, power failure: all rows');
is($standby->safe_psql('postgres', 'SELECT count(*), sum(id) FROM late'), '5000|12502500', 'and those of a new table');
is($standby->safe_psql('postgres', q{SELECT * FROM lsm_verify('t')}), '', 'and whole files');

# ---- power fails amid the recovery from its failure ----

$standby->safe_psql('postgres', q{CREATE TABLE twin (id int PRIMARY KEY, v text) USING heap; INSERT INTO twin SELECT * FROM t});
foreach my $point ('redo_chunk:3', 'redo_edit_done', 'redo_sync_files')
{
	my $new = 1_000_000 + 1000 * scalar(() = $standby->safe_psql('postgres', 'SELECT id / 1000 FROM twin WHERE id >= 1000000 GROUP BY 1') =~ /\d+/g);
	$standby->safe_psql('postgres', "CHECKPOINT;\n" . join(';', map { "INSERT INTO $_ SELECT g, md5(g::text) FROM generate_series($new, $new + 999) g; UPDATE $_ SET v = v || 'x' WHERE id % 5 = 0" } 't', 'twin')
		  . q{; SELECT lsm_flush('t'); UPDATE t SET v = v || 'y' WHERE id % 6 = 0; UPDATE twin SET v = v || 'y' WHERE id % 6 = 0; SELECT lsm_compact('t')});
	kill_standby();
	lsm_set($standby, 'lsm.crash_point' => $point);
	is(start_standby(fail_ok => 1), 0, "$point: recovery is cut short");
	kill_standby();
	lsm_set($standby, 'lsm.crash_point' => '');
	start_standby();
	is($standby->safe_psql('postgres', $content), $standby->safe_psql('postgres', $content =~ s/FROM t$/FROM twin/r), "$point: all rows");
	is($standby->safe_psql('postgres', q{SELECT * FROM lsm_verify('t')}), '', "$point: and whole files");
}

# ---- a directory that cannot be synced: the error may be reported to one of those who share it ----

foreach my $retry ('off', 'on')
{
	$standby->safe_psql('postgres', "ALTER SYSTEM SET data_sync_retry = $retry");
	kill_standby();
	start_standby();
	$standby->safe_psql('postgres', join(';', map { "UPDATE $_ SET v = v || 'z' WHERE id % 8 = 0" } 't', 'twin'));
	append_to_file($eio, 'directories');
	my $logged = -s $standby->logfile;
	my ($out, $err) = run_command([ 'psql', '-X', '-d', $standby->connstr('postgres'), '-c', q{SELECT lsm_flush('t')} ]);
	unlink $eio;
	like($err, $retry eq 'off' ? qr{server closed the connection|connection to server was lost}i : qr{ERROR:  could not fsync file "pg_lsm/.*": Input/output error}, "data_sync_retry $retry: lsm_flush fails");
	like(substr(slurp_file($standby->logfile), $logged), qr{PANIC:  could not fsync file "pg_lsm/.*": Input/output error}, 'as a checkpoint of heap would') if $retry eq 'off';
	lsm_wait_up($standby);
	$standby->safe_psql('postgres', q{SELECT lsm_flush('t')});
	is($standby->safe_psql('postgres', $content), $standby->safe_psql('postgres', $content =~ s/FROM t$/FROM twin/r), "data_sync_retry $retry: all rows");
	is($standby->safe_psql('postgres', q{SELECT * FROM lsm_verify('t')}), '', "data_sync_retry $retry: and whole files");
}
$standby->stop;
done_testing();
