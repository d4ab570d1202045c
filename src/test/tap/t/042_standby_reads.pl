# Queries on a hot standby: heap tables and their lsm twins, changed in one transaction on the primary, are equal to
# every snapshot on the standby, by every kind of scan and under every filter scheme, while the primary flushes,
# compacts, vacuums and rebuilds indexes; so are they after the standby was killed, and after it was promoted with sessions open.
use strict;
use warnings;
use LsmTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $seconds = lsm_long() ? 120 : 30;
my $little = '1MB';
lsm_seed();
my @schemes = qw(none blocked bloom elastic quotient cascade ribbon);
# notes for logical decoding are in the records that redo feeds to trees; 043 is without them
my $primary = lsm_node('primary', wal_level => 'logical', conf => "max_wal_senders = 8\nwal_keep_size = 1GB\nmax_wal_size = 1GB\nhot_standby = on\n"
	  . "autovacuum = off\nlsm.memtable_size = 128kB\nlsm.target_file_size = 128kB\nwal_receiver_status_interval = 1s\nfsync = off");
$primary->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($primary);
my $columns = 'id int, k int, u uuid, n int, t text';
foreach my $s (@schemes)
{
	$primary->safe_psql('postgres', qq{
CREATE TABLE ${s}_h ($columns) USING heap;
CREATE TABLE ${s}_l ($columns) USING lsm;
CREATE TABLE ${s}_x ($columns) USING heap;
CREATE INDEX ON ${s}_l USING lsm (k) WITH (filter_scheme = '$s');
CREATE INDEX ON ${s}_l USING lsm (u) WITH (filter_scheme = '$s');
CREATE INDEX ON ${s}_l USING lsm (n) INCLUDE (k) WITH (filter_scheme = '$s');
CREATE INDEX ON ${s}_x USING lsm (k) WITH (filter_scheme = '$s');
CREATE INDEX ON ${s}_x USING lsm (n) INCLUDE (k) WITH (filter_scheme = '$s')});
	$primary->safe_psql('postgres', "INSERT INTO ${s}_$_ SELECT g, g, md5(g::text)::uuid, g % 50, repeat('x', g % 300) FROM generate_series(1, 2000) g") foreach qw(h l x);
}
$primary->safe_psql('postgres', 'CREATE TABLE marks (n int) USING heap');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nmax_standby_streaming_delay = 0");
$standby->start;

# ---- load ----

my $script = '';
foreach my $i (1 .. (lsm_long() ? 200_000 : 30_000))
{
	my $s = $schemes[ int(rand(@schemes)) ];
	my $a = 1 + int(rand(2000));
	my $kind = rand();
	my $change = $kind < 0.4 ? "INSERT INTO %s SELECT g, g, md5(g::text)::uuid, g % 50, repeat('y', g % 500) FROM generate_series(@{[2000 + $i * 20]}, @{[2000 + $i * 20 + int(rand(20))]}) g"
	  : $kind < 0.8 ? "UPDATE %s SET n = (n + 1) % 50, t = t || 'z' WHERE k BETWEEN $a AND @{[$a + int(rand(10))]}"
	  : $kind < 0.97 ? "DELETE FROM %s WHERE k BETWEEN $a AND @{[$a + int(rand(3))]}"
	  : "UPDATE %s SET t = repeat(md5('$i'), 400) WHERE k = $a";
	$script .= 'BEGIN;' . join('', map { (my $c = $change) =~ s/%s/${s}_$_/; "$c;" } qw(h l x)) . (rand() < 0.1 ? "ROLLBACK;\n" : "COMMIT;\n");
	$kind = rand();
	$script .= "SELECT lsm_flush('${s}_l');\n" if $kind < 0.02;
	$script .= "SELECT lsm_compact('${s}_l'), lsm_compact('${s}_x');\n" if $kind > 0.99;
	$script .= "VACUUM ${s}_h, ${s}_l, ${s}_x;\n" if $kind > 0.97 && $kind < 0.99;
	$script .= "REINDEX TABLE ${s}_l;\n" if $kind > 0.965 && $kind < 0.97;
}
my $file = "$ENV{TESTDIR}/standby_reads.sql";
append_to_file($file, $script);

# ---- comparison, in one snapshot ----

my %plans = (
	parallel => 'SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0',
	sequential => 'SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off',
	index => 'SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off',
	bitmap => 'SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off');

sub comparison
{
	my ($s) = @_;
	my @plan = sort keys %plans;
	my $plan = $plans{ $plan[ int(rand(@plan)) ] };
	my ($a, $b, $n) = (1 + int(rand(2000)), int(rand(80000)), int(rand(50)));
	my @what = (
		"SELECT count(*), sum(id), md5(string_agg(t, ',' ORDER BY id)) FROM %s WHERE k >= 0",
		"SELECT count(*), sum(n), min(t) FROM %s WHERE k BETWEEN $a AND @{[$a + 100]}",
		"SELECT count(*), sum(n) FROM %s WHERE k = ANY (ARRAY[$a, @{[$a + 1]}, $b, @{[$a + 7]}])",
		"SELECT id, n, t FROM %s WHERE k = $a",
		"SELECT count(*), sum(k) FROM %s WHERE n = $n",
		"SELECT count(*), sum(id) FROM %s WHERE u = md5('$a')::uuid OR u = md5('$b')::uuid");
	my $sql = "BEGIN ISOLATION LEVEL REPEATABLE READ;\n$plan;\n";
	foreach my $q (@what)
	{
		my @answers = map { (my $x = $q) =~ s/%s/${s}_$_/; "(SELECT coalesce(string_agg(q::text, ';' ORDER BY q::text), '') FROM ($x) q)" } qw(h l x);
		(my $name = $q) =~ s/'/''/g;
		$sql .= "SELECT '$s $name: ' || left(h, 60) || ' / ' || left(l, 60) || ' / ' || left(x, 60) FROM (SELECT $answers[0] h, $answers[1] l, $answers[2] x OFFSET 0) a WHERE h <> l OR h <> x;\n";
	}
	return $sql . "COMMIT;\n";
}

# Conflicts that heap tables have, too: DDL on the primary, VACUUM that waits for a buffer
my $of_heap = qr/User was holding (a relation lock|shared buffer pin) for too long/;
my ($compared, $wrong, $errors) = (0, '', '');
sub compare
{
	my ($node, $expected, @which) = @_;
	foreach my $s (@which)
	{
		my ($rc, $out, $err) = $node->psql('postgres', join('', map { comparison($s) } 1 .. 8));
		$compared += 8;
		$wrong .= "$out\n" if $out ne '';
		$errors .= "$err\n" if ($rc != 0 || $err ne '') && $err !~ $expected;
	}
	return;
}

# A client of its own that compares until the end
sub client
{
	my ($node, $expected, $end, $file) = @_;
	my $pid = fork() // die "fork: $!";
	return $pid if $pid;
	srand($$);
	while (time < $end)
	{
		compare($node, $expected, $schemes[ int(rand(@schemes)) ]);
	}
	append_to_file($file, "$compared\n");
	append_to_file($file, "wrong: $wrong") if $wrong ne '';
	append_to_file($file, "errors: $errors") if $errors ne '';
	POSIX::_exit(0);
}

my $clients = 0;
sub clients_compare
{
	my ($what, $time, @clients) = @_;
	my $end = time + $time;
	my %pids;
	foreach my $c (@clients)
	{
		my $file = "$ENV{TESTDIR}/standby_reads." . ++$clients;
		$pids{ client($c->[0], $c->[1], $end, $file) } = $file;
	}
	my ($n, $bad) = (0, '');
	foreach my $pid (keys %pids)
	{
		waitpid($pid, 0);
		my ($count, $rest) = split /\n/, slurp_file($pids{$pid}), 2;
		$n += $count;
		$bad .= $rest // '';
	}
	is($bad, '', "$what: the twins are equal to every snapshot");
	cmp_ok($n, '>', 0, "$what: $n comparisons");
	return;
}

compare($standby, $of_heap, @schemes);
is($wrong, '', 'before the load: the twins are equal');
is($errors, '', 'before the load: no errors');

# Another one behind it, with little memory, and nobody who waits for it
$standby->backup('cascade');
my $small = PostgreSQL::Test::Cluster->new('small');
$small->init_from_backup($standby, 'cascade', has_streaming => 1);
$small->append_conf('postgresql.conf', "hot_standby_feedback = off\nmax_standby_streaming_delay = 0\nlsm.memtable_memory = $little");
$small->start;
like(slurp_file($small->logfile), qr/lsm.memtable_memory is 1024 kB on this server and 32768 kB on the primary/, 'little memory: the standby says so');
unlike(slurp_file($standby->logfile), qr/lsm.memtable_memory is .* on this server/, 'as much memory as the primary has: nothing is said');
my $of_small = qr/canceling statement due to conflict with recovery|terminating connection due to conflict with recovery|no memory for the entries of relation .* could be had/;

my $load = lsm_spawn_psql($primary, $file, "$ENV{TESTDIR}/standby_reads.out");
clients_compare('under load', $seconds / 2, [ $standby, $of_heap ], [ $standby, $of_heap ], [ $small, $of_small ]);
is($standby->safe_psql('postgres', "SELECT confl_snapshot FROM pg_stat_database_conflicts WHERE datname = 'postgres'"), '0', 'hot_standby_feedback: no snapshot conflicts');
foreach my $round (1 .. (lsm_long() ? 5 : 2))
{
	my @pids = lsm_pids($standby);
	kill 'KILL', @pids;
	lsm_restart_after_crash($standby, @pids);
	# (the primary may not know yet that it has to wait for the snapshot of a new connection)
	$standby->psql('postgres', 'CHECKPOINT') if $round % 2;
	clients_compare("after crash $round of the standby", $seconds / 6, [ $standby, qr/conflict with recovery/ ], [ $small, $of_small ]);
}
is(waitpid($load, POSIX::WNOHANG()), 0, 'the load went on all the time');
kill 'TERM', $load;
waitpid($load, 0);
is(slurp_file("$ENV{TESTDIR}/standby_reads.out.err"), '', 'without errors');
my %given_up;
my $log = slurp_file($small->logfile);
$given_up{$1}++ while $log =~ /no memory is left for entries of relation (\S+),/g;
is(join(' ', grep { $given_up{$_} > 1 } keys %given_up), '', 'little memory: a warning for a tree comes once');
note('trees given up: ' . scalar(keys %given_up));
my ($rc, $out, $err) = $standby->psql('postgres', "SELECT lsm_flush('none_l')");
like($err, qr/cannot execute lsm_flush\(\) during recovery/, 'no flush during recovery');
# the last statements of the load run on for a moment, and their replay would cancel what lsm_verify does
lsm_wait_clients($primary);
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', join(';', map { "SELECT * FROM lsm_verify('${_}_l')" } @schemes)), '', 'lsm_verify on the standby');
foreach my $s (@schemes)
{
	my $plan = $standby->safe_psql('postgres', "SET enable_seqscan = off; EXPLAIN (COSTS off) SELECT n FROM ${s}_x WHERE k = 7");
	like($plan, qr/Scan (using|on) ${s}_x_k_idx/, "$s: the index of a heap table is used on the standby");
}

# ---- promotion, with a session open and its caches full ----

my $session = $standby->background_psql('postgres', on_error_stop => 0);
$session->query_safe('SELECT count(*), sum(n) FROM bloom_l WHERE k = 77');
$primary->stop;
$standby->promote;
$session->query_safe("UPDATE bloom_$_ SET n = (n + 1) % 50 WHERE k < 500") foreach qw(h l x);
$session->query_safe("INSERT INTO bloom_$_ SELECT g, g, NULL, 1, 'p' FROM generate_series(900001, 905000) g") foreach qw(h l x);
$session->query_safe("SELECT lsm_compact('bloom_l')");
compare($standby, $of_heap, @schemes);
compare($standby, $of_heap, 'bloom') foreach 1 .. 3;
is($wrong, '', 'promoted: the twins are equal');
is($errors, '', 'promoted: no errors');
is($standby->safe_psql('postgres', join(';', map { "SELECT * FROM lsm_verify('${_}_l')" } @schemes)), '', 'promoted: nothing is wrong');
$session->quit;
$small->stop;
$standby->stop;
done_testing();
