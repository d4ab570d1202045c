# VACUUM gives log pages that are free at the end of the main fork back to the file system, as it does with a heap's
# empty end: not while somebody uses the relation, not if it is told not to, never one that is needed.  After crashes
# at each step, beside writers, on a standby and after its promotion the tables are equal to their heap twins.
use strict;
use warnings;
use LsmTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

lsm_seed();
my $node = lsm_node('fork_end', conf => "autovacuum = off\nmax_wal_senders = 4\nwal_keep_size = 1GB\nmax_wal_size = 1GB\nhot_standby = on\nfsync = off\n"
	  . "lsm.memtable_size = 12MB\nlsm.target_file_size = 1MB");
$node->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($node);

sub sql { return $node->safe_psql('postgres', $_[0]); }
sub pages { return sql("SELECT pg_relation_size('$_[0]', 'main') / 8192"); }
sub both { my ($change) = @_; sql('BEGIN; ' . join('', map { (my $c = $change) =~ s/%s/t_$_/; "$c; " } qw(h l)) . 'COMMIT'); return; }

# rows of 1 kB that do not compress
my $new = 0;
sub load
{
	my ($rows) = @_;
	my $from = $new + 1;
	$new += $rows;
	both("INSERT INTO %s SELECT g, g % 100, (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 32) i) FROM generate_series($from, $new) g");
	return;
}

lsm_create_twins($node, 't', 'id int PRIMARY KEY, n int, t text', '(n)', '(t)');
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 0');
$standby->start;

# ---- VACUUM by hand ----

load(12_000);
my $full = pages('t_l');
cmp_ok($full, '>', 1000, 'log pages were needed');
sql('VACUUM (TRUNCATE off) t_l');
cmp_ok(pages('t_l'), '>=', $full, 'TRUNCATE off: nothing goes');
sql('ALTER TABLE t_l SET (vacuum_truncate = off); VACUUM t_l');
cmp_ok(pages('t_l'), '>=', $full, 'vacuum_truncate = off: nothing goes');
sql('ALTER TABLE t_l RESET (vacuum_truncate)');

my $reader = $node->background_psql('postgres', on_error_die => 1);
$reader->query_safe('BEGIN; SELECT count(*) FROM t_l WHERE id = 5');
sql('VACUUM t_l');
cmp_ok(pages('t_l'), '>=', $full, 'a reader has a lock: nothing goes, VACUUM ends');
$reader->query_safe('COMMIT');

my ($rc, $out, $err) = $node->psql('postgres', 'VACUUM (VERBOSE) t_l');
like($err, qr/log pages: [1-9]\d* given back/, 'VERBOSE says so');
cmp_ok(pages('t_l'), '<', 40, 'the fork is short');
# those of indexes are tried once, and a worker may have the lock
for (1 .. 20) { last if pages('t_l_2') < 40; sql('VACUUM t_l'); }
cmp_ok(pages('t_l_2'), '<', 40, 'those of indexes are, too');
is(lsm_differences($node, 't'), '', 'and nothing is gone');

# sessions that used the table before
$reader->query_safe("INSERT INTO t_l VALUES (-1, 1, 'x'); DELETE FROM t_l WHERE id = -1");
is($reader->query_safe('SELECT count(*) FROM t_l'), 12_000, 'a session that used it before goes on');
load(3_000);
is(lsm_differences($node, 't'), '', 'new rows in the short fork');

# ---- crashes ----

foreach my $point ('truncate_list_moved', 'truncate_logged', 'truncate_done')
{
	foreach my $checkpoint (0, 1)
	{
		both('TRUNCATE %s');
		load(10_000);
		sql('CHECKPOINT') if $checkpoint;
		my @pids = lsm_pids($node);
		lsm_set($node, 'lsm.crash_point' => $point);
		$node->reload;
		usleep(100_000);
		# without the lock it does not come to the point
		foreach (1 .. 10) { last if ($node->psql('postgres', 'VACUUM (INDEX_CLEANUP off) t_l'))[0] != 0; }
		lsm_wait_gone($node, @pids);
		lsm_set($node, 'lsm.crash_point' => '');
		lsm_restart_after_crash($node, @pids);
		is(lsm_differences($node, 't'), '', "crash at $point: nothing is gone");
		$point eq 'truncate_list_moved' ? cmp_ok(pages('t_l'), '>', 40, "crash at $point: the fork is as long as before")
		  : cmp_ok(pages('t_l'), '<', 40, "crash at $point: the fork is short");
		load(500);
		both('UPDATE %s SET n = n + 1 WHERE id % 7 = 0');
		is(lsm_differences($node, 't'), '', "crash at $point: and goes on");
	}
}

# ---- beside writers ----

both('TRUNCATE %s');
load(1_000);
my $cut = 0;

# Whether a VACUUM meets free pages at the end is for the machine to say: once more if none has.
foreach my $round (0 .. 5)
{
	my @scripts;
	foreach my $i (1 .. 3)
	{
		my $text = '';
		foreach my $j (1 .. 400)
		{
			my $a = 1 + int(rand($new));
			my $id = 1_000_000 * (3 * $round + $i) + $j * 100;
			my $kind = rand();
			my $change = $kind < 0.5 ? "INSERT INTO %s SELECT g, g % 100, (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 32) i) FROM generate_series($id, $id + 99) g"
			  : $kind < 0.8 ? "UPDATE %s SET n = n + 1 WHERE id = $a" : "DELETE FROM %s WHERE id = $a";
			$text .= 'BEGIN; ' . join('', map { (my $c = $change) =~ s/%s/t_$_/; "$c; " } qw(h l)) . "COMMIT;\n";
		}
		push @scripts, lsm_script("writer$round$i", $text);
	}
	my $n = 0;
	my @writers = map { lsm_spawn_psql($node, $_, "$ENV{TESTDIR}/writer" . $n++ . '.out') } @scripts;
	my $end = time + (lsm_long() ? 600 : 25);
	# (on a busy machine it may take longer until it meets free pages at the end)
	while (@writers && (time < $end || ($cut == 0 && time < $end + 100)))
	{
		(undef, undef, $err) = $node->psql('postgres', 'VACUUM (VERBOSE) t_l');
		$cut++ if $err =~ /log pages: [1-9]/;
		@writers = grep { waitpid($_, POSIX::WNOHANG()) == 0 } @writers;
	}
	waitpid($_, 0) foreach @writers;
	is(join('', map { slurp_file("$ENV{TESTDIR}/writer$_.out.err") } 0 .. 2), '', "round $round: no writer has an error");
	last if $cut > 0;
}
cmp_ok($cut, '>=', 1, "VACUUM has cut the fork beside them ($cut times)");
is(lsm_differences($node, 't'), '', 'and nothing is gone');

# ---- a standby ----

sql('VACUUM t_l');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', q{SELECT pg_relation_size('t_l', 'main') / 8192}), pages('t_l'), "the standby's fork is as short");
is(lsm_differences($standby, 't'), '', 'the standby has the same rows');
both('TRUNCATE %s');
load(10_000);
# (the standby compares what it makes of the records with what the primary has)
sql("SET wal_consistency_checking = 'lsmam'; VACUUM t_l");
cmp_ok(pages('t_l'), '<', 40, 'cut under wal_consistency_checking');
load(100);
$node->wait_for_catchup($standby);
is(lsm_differences($standby, 't'), '', 'the standby has the new ones');
$standby->promote;
$standby->safe_psql('postgres', "INSERT INTO t_$_ SELECT -g, g % 100, md5(g::text) FROM generate_series(1, 500) g") foreach qw(h l);
is(lsm_differences($standby, 't'), '', 'promoted, it goes on');

# ---- autovacuum ----

sql('ALTER SYSTEM SET lsm.memtable_size = \'24MB\'');
$node->reload;
load(24_000);
cmp_ok(pages('t_l'), '>', 1500, 'log pages again');
sql('ALTER TABLE t_l SET (autovacuum_vacuum_insert_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0)');
lsm_set($node, 'autovacuum' => 'on', 'autovacuum_naptime' => '1s');
$node->reload;
my $cut = 0;
for (my $i = 0; $i < 240 && !$cut; $i++)
{
	# autovacuum does not wait for the lock: if somebody had it, we or a worker, the next one comes after the next load
	load(5_000) if $i % 40 == 39;
	usleep(500_000);
	$cut = pages('t_l') < 40;
}
ok($cut, 'autovacuum, after a load');
is(lsm_differences($node, 't'), '', 'and nothing is gone');
$standby->stop;
$node->stop;
done_testing();
