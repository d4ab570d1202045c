# What happens to writers amid a delay of lsm's pacing: the server or one of them is killed, the disk becomes full, a
# COPY is delayed, cancelled, killed.  Nothing that was committed is lost, nothing that was not is there, and all goes on.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $conf = q{
lsm.compaction_rate = 1kB
lsm.memtable_size = 64MB
lsm.memtable_memory = 256MB
autovacuum = off
};
my $node;
sub sql { return $node->safe_psql('postgres', $_[0]); }
sub stat_of { return sql("SELECT $_[0] FROM pg_stat_lsm WHERE relname = 't_l_1'"); }

# Rows with random keys into both twins, in one transaction
sub rows
{
	my ($from, $n) = @_;
	my $to = $from + $n - 1;
	return "BEGIN; INSERT INTO t_h SELECT i, md5(random()::text) FROM generate_series($from, $to) i; INSERT INTO t_l SELECT * FROM t_h WHERE id BETWEEN $from AND $to; COMMIT;";
}

my $next = 1;

# (its name is known since PostgreSQL 17)
sub waits { return q{backend_type = 'client backend' AND wait_event_type = 'Extension' AND wait_event = '} . ($node->pg_version >= 17 ? 'LsmWriteDelay' : 'Extension') . q{' AND query ~ 't_l'}; }

# The index has so many runs in level 0, of which a compaction that may write little per second makes no fewer: writers wait
sub delayed
{
	# (a compaction that is under way may end at any time)
	my $runs = stat_of('coalesce(level0_runs, 0)');
	for (my $n = 0; $n < 120 && $runs < 18; $n++)
	{
		sql(rows($next, 500) . q{SELECT lsm_flush('t_l_1')});
		$next += 500;
		$runs = stat_of('level0_runs');
	}
	return cmp_ok($runs, '>=', 18, 'level 0 is deep');
}

# So many clients write small transactions from $next on, each rows of its own; until one of them waits
sub start_writers
{
	my ($clients) = @_;
	my @pids;
	foreach my $client (1 .. $clients)
	{
		my $from = $next + ($client - 1) * 100_000;
		push @pids, lsm_start_session($node, 'postgres', "writer$client", join("\n", map { rows($from + $_ * 1000, 1000) } 0 .. 99));
	}
	$next += $clients * 100_000;
	ok($node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE @{[waits()]}"), 'writers are amid a delay');
	return @pids;
}

sub is_whole
{
	my ($what) = @_;
	is(lsm_differences($node, 't'), '', "$what: the same rows");
	is(sql(q{SELECT string_agg(object || problem, ' ') FROM lsm_verify('t_l')}), '', "$what: lsm_verify is content");
	my ($rc, $out, $err) = $node->psql('postgres', rows($next, 100), timeout => 120);
	$next += 100;
	is("$rc$err", '0', "$what: it goes on");
	return;
}

$node = lsm_node('delayed', conf => $conf);
lsm_start($node);
lsm_create_twins($node, 't', 'id int PRIMARY KEY, k text', '(k)');

# ---- the whole server is killed ----

delayed();
my @writers = start_writers(3);
my @pids = lsm_pids($node);
lsm_kill_process($node, 'postmaster');
kill('KILL', @pids);
lsm_ended($_) foreach @writers;
lsm_restart_after_crash($node, @pids);
is_whole('a killed server');
is(sql('SELECT count(*) % 100 FROM t_l'), '0', 'a killed server: whole transactions only');

# ---- one of the writers is killed: the server restarts itself ----

delayed();
@writers = start_writers(2);
my ($victim) = split /\n/, sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY (@{[waits()]}) DESC");
kill('KILL', $victim);
lsm_ended($_) foreach @writers;
lsm_wait_up($node);
is_whole('a killed writer');

# ---- COPY ----

delayed();
my $file = PostgreSQL::Test::Utils::tempdir() . '/rows';
sub copy_file
{
	my ($n) = @_;
	sql("INSERT INTO t_h SELECT i, md5(random()::text) FROM generate_series($next, $next + $n - 1) i");
	append_to_file($file, '') unless -e $file;
	open my $out, '>', $file or die;
	print $out sql("SELECT id || E'\\t' || k FROM t_h WHERE id >= $next ORDER BY id"), "\n";
	close $out;
	chmod 0644, $file;
	$next += $n;
	return;
}
my ($rc, $out, $err);
my $delays = 0;
for (my $n = 0; $n < 5 && $delays == 0; $n++)
{
	# a compaction may have ended since
	delayed() if $n > 0;
	copy_file(6000);
	my $before = stat_of('delays_level0');
	($rc, $out, $err) = $node->psql('postgres', "\\copy t_l FROM '$file'");
	is("$rc$err", '0', 'a delayed COPY');
	$delays = stat_of('delays_level0') - $before;
}
cmp_ok($delays, '>', 0, 'is delayed');
is_whole('COPY');

delayed();
copy_file(60000);
($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '700ms'; \\copy t_l FROM '$file'", on_error_stop => 1);
my $copied = sql(q{SELECT count(*) FROM t_l}) - sql('SELECT count(*) FROM t_h');
is($copied, -60000, 'nothing is left of a COPY that was cancelled');
sql("DELETE FROM t_h WHERE id >= $next - 60000");
is_whole('a cancelled COPY');

delayed();
copy_file(60000);
my $copy = lsm_start_session($node, 'postgres', 'copy', "\\copy t_l FROM '$file'\n");
ok($node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE @{[waits()]} AND query ~ 'COPY'"), 'a COPY amid a delay');
@pids = lsm_pids($node);
lsm_kill_process($node, 'postmaster');
kill('KILL', @pids);
lsm_ended($copy);
lsm_restart_after_crash($node, @pids);
is(sql("SELECT count(*) FROM t_l WHERE id >= $next - 60000"), '0', 'a COPY amid which the server was killed has left nothing');
sql("DELETE FROM t_h WHERE id >= $next - 60000");
is_whole('a killed COPY');
$node->stop;

# ---- the disk becomes full amid delays ----

SKIP:
{
	skip 'no small disk (needs root to mount a tmpfs)', 8 unless $ENV{LSM_SMALL_DISK};
	$node = lsm_node('delayed_full', conf => "$conf\nlsm.memtable_memory = 16MB\nlsm.memtable_size = 1MB\nlsm.compression = none");
	lsm_on_small_disk($node);
	lsm_start($node);
	lsm_create_twins($node, 't', 'id int PRIMARY KEY, k text', '(k)');
	($next, $err) = (1, '');
	my $pad = q{(SELECT string_agg(md5((i * 31 + n)::text), '') FROM generate_series(1, 20) n)};
	for (my $n = 0; $n < 80 && $err eq ''; $n++)
	{
		my $to = $next + 999;
		($rc, $out, $err) = $node->psql('postgres', "BEGIN; INSERT INTO t_h SELECT i, md5(random()::text) || $pad FROM generate_series($next, $to) i; INSERT INTO t_l SELECT * FROM t_h WHERE id BETWEEN $next AND $to; COMMIT; SELECT lsm_flush('t_l_1')",
			on_error_stop => 1, timeout => 120);
		$next += 1000;
	}
	like($err, qr/No space left on device/, 'the disk fills up; nobody waits for ever');
	cmp_ok(stat_of('delays_level0 + delays_flush + delays_memory + delays_pending'), '>', 0, 'amid delays');
	unlike($err, qr/PANIC|server closed/, 'the server lives');
	is(lsm_differences($node, 't'), '', 'nothing is lost');
	sql('CHECKPOINT');
	$node->stop('immediate');
	$node->start;
	is(lsm_differences($node, 't'), '', 'nor after a restart on the full disk');
	sql('TRUNCATE t_h, t_l; CHECKPOINT');
	$rc = 1;
	for (my $n = 0; $n < 30 && $rc != 0; $n++)
	{
		($rc, $out, $err) = $node->psql('postgres', rows($next, 1000) . q{SELECT lsm_flush('t_l_1')}, on_error_stop => 1, timeout => 120);
		$next += 1000;
		sql('CHECKPOINT') if $rc != 0;
		usleep(500_000) if $rc != 0;
	}
	is($rc, 0, 'it goes on when there is room') or diag($err);
	is(lsm_differences($node, 't'), '', 'with the same rows');
	$node->stop;
	lsm_off_small_disk($node);
}
done_testing();
