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
$standby->stop;
$primary->stop;
done_testing();
