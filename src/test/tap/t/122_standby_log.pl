# Log pages of a hot standby that come back as zeroes, or as they were before: the load of the tree ends in an error that names
# the block, as on a primary.  Beside redo that writes and reuses such pages no load finds fault.  And lsm_verify finds each
# page in its list while redo adds to it.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

lsm_seed();
my $primary = lsm_node('primary', initdb => [ lsm_no_checksums() ], conf => "max_wal_senders = 4\nwal_keep_size = 512MB\nhot_standby = on\nautovacuum = off\nfsync = off\ncheckpoint_timeout = 1h\nmax_wal_size = 1GB\n"
	  . "lsm.memtable_size = 4MB\nlsm.crash_point = '?'");
$primary->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($primary);
sub sql { return $primary->safe_psql('postgres', $_[0]); }
sub rows { my ($from, $to) = @_; return "INSERT INTO t SELECT g, repeat(md5(g::text), 3) FROM generate_series($from, $to) g;"; }

sql('CREATE TABLE t (id int, v text) USING lsm; ALTER TABLE t ALTER v SET STORAGE PLAIN;' . rows(1, 200) . "SELECT lsm_flush('t');" . rows(201, 4000));
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

sub caught_up
{
	my $lsn = $primary->lsn('insert');
	return $standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'");
}

# The standby has all of it on disk; then it is stopped.
sub settle
{
	sql('CHECKPOINT');
	caught_up();
	$standby->safe_psql('postgres', 'CHECKPOINT');
	$standby->stop;
	return;
}

my $path = $standby->data_dir . '/' . sql(q{SELECT pg_relation_filepath('t')});

sub pages
{
	open my $fh, '<:raw', $path or die "$path: $!";
	local $/;
	my $all = <$fh>;
	return map { substr($all, $_ * 8192, 8192) } 0 .. length($all) / 8192 - 1;
}

sub put_page
{
	my ($block, $page) = @_;
	open my $fh, '+<:raw', $path or die "$path: $!";
	seek($fh, $block * 8192, 0);
	print $fh $page;
	close $fh or die "$path: $!";
	return;
}

# ---- a page is lost ----

my $count = q{SELECT count(*), sum(id) FROM t};
settle();
my @before = pages();
$standby->start;
sql(rows(4001, 6000));
settle();
my @pages = pages();
cmp_ok(scalar(@pages), '>', 50, 'many log pages');
my $zeroes = "\0" x 8192;
my ($noticed, $wrong, $tried) = (0, '', 0);

# blocks of those that have been lost: all kinds have a place among them (the first of the list, one in its midst, one that was
# not full before)
foreach my $case ((map { [ $_, $zeroes ] } 1 .. 12, 30, 40, $#pages - 3), (map { [ $_, $before[$_] ] } grep { $before[$_] ne $pages[$_] } 1 .. $#before))
{
	my ($block, $page) = @$case;
	next if $pages[$block] eq $zeroes;
	my $back = $page ne $zeroes;
	put_page($block, $page);
	$standby->start;
	my ($rc, $out, $err) = $standby->psql('postgres', $count);
	$tried++;
	if ($err =~ /ERROR: .*block \d+ of relation/) { $noticed++; }
	elsif ($out ne '6000|18003000') { $wrong .= 'block ' . $block . ($back ? ' as it was' : ' of zeroes') . ": $out $err\n"; }
	$standby->stop('immediate');
	put_page($block, $pages[$block]);
}
is($wrong, '', "a page is lost on the standby, $tried times: an error, or all rows");
cmp_ok($noticed, '>=', 10, 'most are noticed');
$standby->start;
is($standby->safe_psql('postgres', $count), '6000|18003000', 'all rows, with the page as it is');

# ---- nothing is found beside redo ----

my $load = lsm_start_session($primary, 'postgres', 'load', join('', map { 'UPDATE t SET v = md5(v) || repeat(md5(id::text), 3) WHERE id % 5 = ' . $_ % 5 . ';' . ($_ % 3 ? '' : "SELECT lsm_flush('t');") } 1 .. 25));
my $loads = 0;
my $bad = '';
until (lsm_ended($load, 0.01))
{
	foreach my $query ($count, q{SELECT object, problem FROM lsm_verify('t')})
	{
		my ($rc, $out, $err) = $standby->psql('postgres', $query);
		$bad .= "$out $err\n" if $err =~ /block|log page/ || ($query ne $count && $out ne '') || ($query eq $count && $err eq '' && $out ne '6000|18003000');
	}
	$standby->restart('fast') if ++$loads % 2 == 0;
}
is($bad, '', "$loads loads and verifications beside redo");
ok(caught_up(), 'redo is through');
is($standby->safe_psql('postgres', $count . q{; SELECT * FROM lsm_verify('t')}), '6000|18003000', 'all rows, nothing to report');

# ---- redo is about to link a page ----

lsm_set($standby, 'lsm.crash_point' => '?');
$standby->reload;
lsm_hold($standby, 'redo_fresh_page', 'startup');
my $writer = lsm_start_session($primary, 'postgres', 'writer', rows(6001, 6300) . "INSERT INTO t SELECT 7000, string_agg(md5(g::text), '') FROM generate_series(1, 600) g;");
ok(lsm_wait_held($standby), 'redo is held at a page of a long row');
is($standby->safe_psql('postgres', q{SELECT problem FROM lsm_verify('t')}), '', 'lsm_verify finds each page in its list');
lsm_release($standby);
ok(lsm_ended($writer), 'the writer ends');
ok(caught_up(), 'redo goes on');
is($standby->safe_psql('postgres', $count), sql($count), 'with all rows');

# ---- updates are logged as differences: in memory that redo or a load has filled, in files, after a promotion ----

lsm_set($standby, 'lsm.crash_point' => '');
$standby->reload;
my $look = q{SET enable_seqscan = off; SELECT count(*), sum(n), md5(string_agg(d::text, ',' ORDER BY id)) FROM d WHERE id > 0;
	SET enable_seqscan = on; SELECT count(*), sum(n), md5(string_agg(d::text, ',' ORDER BY id)) FROM d;
	SELECT n, length(v) FROM d WHERE id = 77; SELECT object, problem FROM lsm_verify('d')};
sql(q{CREATE TABLE d (id int PRIMARY KEY, n int, v text) USING lsm; INSERT INTO d SELECT g, 0, repeat('v', 120) || g FROM generate_series(1, 2000) g; SELECT lsm_flush('d')});
$standby->safe_psql('postgres', 'SELECT count(*) FROM d') if caught_up();
my $before = $primary->lsn('insert');
sql('UPDATE d SET n = n + 1');
cmp_ok(sql("SELECT pg_wal_lsn_diff('" . $primary->lsn('insert') . "', '$before') / 2000"), '<', 110, 'bytes of WAL of an update');
sql('BEGIN; UPDATE d SET n = -1, v = v || 1 WHERE id % 2 = 0; SAVEPOINT s; UPDATE d SET n = -2 WHERE id % 4 = 0; ROLLBACK;'
	  . 'BEGIN; SELECT FROM d WHERE id % 3 = 0 FOR UPDATE; UPDATE d SET n = n + 2 WHERE id % 3 = 0; COMMIT; DELETE FROM d WHERE id % 100 = 1;'
	  . join('', map { "UPDATE d SET n = n + $_, v = 'w' || v WHERE id % 7 = 0;" } 1 .. 20));
my $all = sql($look);
ok(caught_up(), 'redo has the differences');
is($standby->safe_psql('postgres', $look), $all, 'a standby makes rows of them');
$primary->stop('immediate');
$primary->start;
is(sql($look), $all, 'and the primary after a crash');
sql(q{UPDATE d SET n = n + 1 WHERE id % 2 = 0; BEGIN; UPDATE d SET n = 0; ROLLBACK; SELECT lsm_flush('d')});
$all = sql($look);
$primary->stop('immediate');
$primary->start;
is(sql($look), $all, 'and when they are in a file');
ok(caught_up() && $standby->safe_psql('postgres', $look) eq $all, 'and the standby');
sql(q{SELECT lsm_compact('d'); UPDATE d SET n = n + 1 WHERE id % 5 = 0});
$all = sql($look);
ok(caught_up(), 'redo has all');
$standby->promote;
is($standby->safe_psql('postgres', $look), $all, 'and after its promotion');
is($standby->safe_psql('postgres', "UPDATE d SET n = n + 1 WHERE id = 77; SELECT lsm_flush('d'); SELECT lsm_compact('d'); UPDATE d SET n = n - 1 WHERE id = 77; $look"),
	"\n\n$all", 'and when they are flushed and compacted there');
$standby->stop;
$primary->stop;
done_testing();
