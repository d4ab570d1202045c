# Failover as a cluster manager does it: two nodes under Patroni, with etcd, and with synchronous commits, while TPC-B and
# twins (a heap table and an lsm table, changed in one transaction) are written.  Switchovers, kill -9 of the leader's server,
# and of the server with its Patroni.  After each: no commit that was confirmed is missing, the twins are equal on both nodes,
# lsm_verify() has nothing to say, and the former leader follows.
#   LSM_LONG=1       twenty rounds instead of two
#   LSM_ROUNDS=N     so many
# packages: patroni etcd-server curl
use strict;
use warnings;
use File::Basename qw(dirname);
use IPC::Open2;
use LsmTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my ($patroni) = grep { -x $_ } '/usr/bin/patroni', '/usr/local/bin/patroni';
my ($etcd) = grep { -x $_ } '/usr/bin/etcd', '/usr/local/bin/etcd', '/usr/sbin/etcd';
plan skip_all => 'patroni and etcd are not installed' unless $patroni && $etcd;

lsm_seed();
my $dir = PostgreSQL::Test::Utils::tempdir();
my $sockets = PostgreSQL::Test::Utils::tempdir_short();
chomp(my $bindir = `dirname \$(command -v postgres)`);
my @ports = map { PostgreSQL::Test::Cluster::get_free_port() } 1 .. 7;
my ($client_port, $peer_port) = @ports[ 0, 1 ];
my %pg_port = (n1 => $ports[2], n2 => $ports[3]);
my %rest_port = (n1 => $ports[4], n2 => $ports[5]);
my %pid;    # of etcd and Patroni
my @loaders;
my $stop = "$dir/stop";

# ---- programs ----

sub spawn
{
	my ($name, @command) = @_;
	my $pid = fork();
	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		setpgrp();
		open(STDIN, '<', '/dev/null');
		open(STDOUT, '>>', "$dir/$name.log");
		open(STDERR, '>&', \*STDOUT);
		delete @ENV{ grep { /^PG(?!_TEST)/ } keys %ENV };
		exec(@command) or POSIX::_exit(99);
	}
	return $pid{$name} = $pid;
}

sub write_file
{
	my ($file, $text) = @_;
	unlink $file;
	append_to_file($file, $text);
	return;
}

sub start_patroni
{
	my ($name) = @_;
	return spawn($name, $patroni, "$dir/$name.yml");
}

sub configure
{
	my ($name) = @_;
	write_file("$dir/$name.yml", <<"YAML");
scope: lsm
name: $name
restapi:
  listen: 127.0.0.1:$rest_port{$name}
  connect_address: 127.0.0.1:$rest_port{$name}
etcd3:
  host: 127.0.0.1:$client_port
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 5
    maximum_lag_on_failover: 1073741824
    master_start_timeout: 0
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters:
        wal_keep_size: 256MB
        max_wal_size: 128MB
        max_connections: 40
        max_prepared_transactions: 10
        hot_standby: 'on'
  initdb:
  - encoding: UTF8
  - locale: C.UTF-8
  - data-checksums
  pg_hba:
  - local all all trust
  - host all all 127.0.0.1/32 trust
  - host replication all 127.0.0.1/32 trust
postgresql:
  listen: 127.0.0.1:$pg_port{$name}
  connect_address: 127.0.0.1:$pg_port{$name}
  data_dir: $dir/$name
  bin_dir: $bindir
  pgpass: $dir/$name.pgpass
  authentication:
    superuser:
      username: postgres
    replication:
      username: postgres
    rewind:
      username: postgres
  parameters:
    shared_preload_libraries: lsmam
    unix_socket_directories: $sockets
    shared_buffers: 16MB
    fsync: 'off'
    autovacuum_naptime: 1s
    checkpoint_timeout: 30s
    log_min_messages: warning
    lsm.memtable_memory: 64MB
    lsm.memtable_size: 128kB
    lsm.target_file_size: 64kB
    restart_after_crash: 'off'
tags:
  nofailover: false
YAML
	return;
}

# ---- questions ----

# Output and errors of psql
sub ask
{
	my ($name, $sql) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', "host=127.0.0.1 port=$pg_port{$name} user=postgres dbname=postgres connect_timeout=5" ],
		'<', \$sql, '>', \$out, '2>', \$err);
	chomp $out;
	return $err eq '' ? $out : "ERROR $err";
}

# A node's state as its Patroni tells: 'leader streaming' ...
sub state_of
{
	my ($name) = @_;
	my $json = `curl -s -m 10 http://127.0.0.1:$rest_port{$name}/patroni 2>/dev/null`;
	my ($role) = $json =~ /"role": "(\w+)"/;
	my ($state) = $json =~ /"state": "([^"]+)"/;
	return ($role // 'none') . ' ' . ($state // 'none');
}

sub wait_for
{
	my ($what, $test, $seconds) = @_;
	my $end = time + ($seconds // 120);
	while (time < $end)
	{
		return 1 if $test->();
		usleep(200_000);
	}
	diag("waited in vain: $what; n1 is " . state_of('n1') . ', n2 is ' . state_of('n2'));
	return 0;
}

sub leader
{
	my ($name) = grep { state_of($_) =~ /^(master|primary|leader) running/ && ask($_, 'SELECT pg_is_in_recovery()') eq 'f' } 'n1', 'n2';
	return $name;
}

# The one that leads, or will
sub next_leader
{
	my $leader;
	wait_for('a leader', sub { $leader = leader() });
	return $leader;
}

# One leads, the other follows it synchronously
sub is_whole
{
	my $leader = leader() or return 0;
	return ask($leader, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'") eq '1';
}

# ---- load ----

# A session that writes twins and a ledger, and notes in a file what was confirmed.  It goes on with the new leader.
sub loader
{
	my ($stream) = @_;
	my $pid = fork();
	die "fork: $!" unless defined $pid;
	return push @loaders, $pid if $pid;
	delete @ENV{ grep { /^PG(?!_TEST)/ } keys %ENV };
	$SIG{PIPE} = 'IGNORE';
	srand($stream + int(rand(1e9)));
	open my $confirmed, '>>', "$dir/confirmed.$stream" or POSIX::_exit(98);
	$confirmed->autoflush(1);
	my $n = 0;
	until (-e $stop)
	{
		my $psql = open2(my $from, my $to, 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d',
			"host=127.0.0.1,127.0.0.1 port=$pg_port{n1},$pg_port{n2} user=postgres dbname=postgres target_session_attrs=read-write connect_timeout=3 application_name=loader");
		$to->autoflush(1);
		while (!-e $stop)
		{
			$n++;
			my $id = int(rand(3000));
			my $text = join('', map { chr(97 + int(rand(26))) } 1 .. 40);
			my $change = rand() < 0.6 ? "INSERT INTO twin_%s VALUES ($id, $n, '$text') ON CONFLICT (id) DO UPDATE SET n = EXCLUDED.n, v = EXCLUDED.v"
			  : rand() < 0.5 ? "DELETE FROM twin_%s WHERE id = $id" : "UPDATE twin_%s SET n = n + 1 WHERE id BETWEEN $id AND $id + 20";
			my $sql = 'BEGIN; SELECT pg_advisory_xact_lock(1) \g /dev/null' . "\n";
			foreach my $x ('h', 'l') { $sql .= sprintf($change, $x) . "; INSERT INTO ledger_$x VALUES ($stream, $n);"; }
			$sql .= "SELECT lsm_flush('twin_l'), lsm_flush('ledger_l') \\g /dev/null\n" if rand() < 0.005;
			print $to "$sql COMMIT;\n\\echo done $n\n" or last;
			my $line = <$from>;
			last unless defined $line && $line eq "done $n\n";
			print $confirmed "$n\n";
			usleep(2000);
		}
		close $to;
		close $from;
		waitpid($psql, 0);
		usleep(200_000);
	}
	POSIX::_exit(0);
}

sub tpcb
{
	my $pid = fork();
	die "fork: $!" unless defined $pid;
	return push @loaders, $pid if $pid;
	delete @ENV{ grep { /^PG(?!_TEST)/ } keys %ENV };
	open(STDOUT, '>>', "$dir/pgbench.log");
	open(STDERR, '>&', \*STDOUT);
	until (-e $stop)
	{
		system('pgbench', '-n', '-c', '2', '-T', '5', "host=127.0.0.1,127.0.0.1 port=$pg_port{n1},$pg_port{n2} user=postgres dbname=postgres target_session_attrs=read-write connect_timeout=3");
		usleep(200_000);
	}
	POSIX::_exit(0);
}

# ---- what is promised ----

my $twins = join("\nUNION ALL\n", map { my $t = $_; "SELECT count(*) || ' rows differ of $t' FROM ((SELECT * FROM ${t}_h EXCEPT ALL SELECT * FROM ${t}_l) UNION ALL (SELECT * FROM ${t}_l EXCEPT ALL SELECT * FROM ${t}_h)) d HAVING count(*) > 0" } 'twin', 'ledger');
my $balances = q{SELECT 'balances: ' || a || ' ' || t || ' ' || b || ' ' || h FROM (SELECT (SELECT sum(abalance) FROM pgbench_accounts) a, (SELECT sum(tbalance) FROM pgbench_tellers) t, (SELECT sum(bbalance) FROM pgbench_branches) b, (SELECT coalesce(sum(delta), 0) FROM pgbench_history) h) s WHERE a <> h OR t <> h OR b <> h};

sub check_nodes
{
	my ($what) = @_;
	my $leader = next_leader();
	my %confirmed;
	foreach my $stream (1, 2)
	{
		open my $fh, '<', "$dir/confirmed.$stream" or next;
		chomp(my @n = <$fh>);
		$confirmed{"$stream $_"} = 1 foreach @n;
	}
	my $lsn = ask($leader, 'SELECT pg_current_wal_insert_lsn()');
	my ($follower) = grep { $_ ne $leader } 'n1', 'n2';
	ok(wait_for('the follower has all', sub { ask($follower, "SELECT pg_last_wal_replay_lsn() >= '$lsn'") eq 't' }), "$what: the follower catches up");
	foreach my $name ($leader, $follower)
	{
		my $role = $name eq $leader ? 'leader' : 'follower';
		my %there = map { $_ => 1 } split /\n/, ask($name, q{SELECT stream || ' ' || n FROM ledger_l});
		is(scalar(grep { !$there{$_} } keys %confirmed), 0, "$what: the $role has all " . keys(%confirmed) . ' confirmed commits');
		is(ask($name, "BEGIN ISOLATION LEVEL REPEATABLE READ;\n$twins;\n$balances;\nCOMMIT"), '', "$what: the $role\'s twins are equal, its balances add up");
		is(ask($name, "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;\n$twins;\nCOMMIT"), '', "$what: the $role\'s twins are equal by index");
		is(ask($name, q{SELECT c.relname, v.* FROM pg_class c, lsm_verify(c.oid) v WHERE c.relname IN ('twin_l', 'ledger_l', 'pgbench_accounts', 'pgbench_tellers', 'pgbench_branches', 'pgbench_history')}), '', "$what: lsm_verify on the $role");
	}
	return;
}

# ---- events ----

sub switch_over
{
	my $leader = next_leader();
	my ($other) = grep { $_ ne $leader } 'n1', 'n2';
	my $answer;

	# a follower that has just come back is not the synchronous one yet
	foreach (1 .. 60)
	{
		$answer = `curl -s -m 60 -X POST -d '{"leader": "$leader", "candidate": "$other"}' http://127.0.0.1:$rest_port{$leader}/switchover`;
		last if $answer !~ /does not match with sync_standby|no good candidates|switchover is not possible/;
		sleep(1);
	}
	like($answer, qr/Successfully switched over/, "switchover from $leader to $other");
	return $other;
}

# kill -9 of the leader's server; with its Patroni, which comes back later
sub kill_leader
{
	my ($with_patroni) = @_;
	my $leader = next_leader();
	my ($other) = grep { $_ ne $leader } 'n1', 'n2';
	my ($postmaster) = split /\n/, slurp_file("$dir/$leader/postmaster.pid");
	my @pids = ($postmaster, split ' ', `ps -o pid= --ppid $postmaster`);
	if ($with_patroni)
	{
		# the group, for it has a child that starts servers
		kill('KILL', -$pid{$leader});
		waitpid($pid{$leader}, 0);
	}
	kill('KILL', @pids);
	lsm_wait_gone({}, @pids);
	if ($with_patroni)
	{
		ok(wait_for("$other leads", sub { (leader() // '') eq $other }), "killed with its Patroni: $other takes over from $leader");
		start_patroni($leader);
	}
	else
	{
		ok(wait_for('somebody leads', sub { defined leader() }), 'killed: there is a leader again, ' . (leader() // 'nobody') . " after $leader");
	}
	return;
}

# ---- the test ----

spawn('etcd', $etcd, '--data-dir', "$dir/etcd", '--listen-client-urls', "http://127.0.0.1:$client_port", '--advertise-client-urls', "http://127.0.0.1:$client_port",
	'--listen-peer-urls', "http://127.0.0.1:$peer_port", '--initial-advertise-peer-urls', "http://127.0.0.1:$peer_port", '--initial-cluster', "default=http://127.0.0.1:$peer_port", '--unsafe-no-fsync');
configure($_) foreach 'n1', 'n2';
start_patroni('n1');
ok(wait_for('n1 leads', sub { (leader() // '') eq 'n1' }), 'n1 leads');
ask('n1', q{CREATE EXTENSION lsmam; ALTER DATABASE postgres SET default_table_access_method = lsm;
CREATE TABLE twin_h (id int PRIMARY KEY, n int, v text) USING heap; CREATE INDEX ON twin_h (v); CREATE INDEX ON twin_h USING lsm (n);
CREATE TABLE twin_l (id int PRIMARY KEY, n int, v text) USING lsm; CREATE INDEX ON twin_l USING lsm (v); CREATE INDEX ON twin_l USING lsm (n);
CREATE TABLE ledger_h (stream int, n int, PRIMARY KEY (stream, n)) USING heap;
CREATE TABLE ledger_l (stream int, n int, PRIMARY KEY (stream, n)) USING lsm;});
system_or_bail('pgbench', '-i', '-q', '-s', '1', "host=127.0.0.1 port=$pg_port{n1} user=postgres dbname=postgres");
start_patroni('n2');
ok(wait_for('n2 follows', \&is_whole), 'n2 follows, synchronously');

loader($_) foreach 1, 2;
tpcb();
my $rounds = $ENV{LSM_ROUNDS} // (lsm_long() ? 20 : 2);
foreach my $round (1 .. $rounds)
{
	usleep(2_000_000);
	my $event = $round % 3;
	$event == 1 ? switch_over() : kill_leader($event == 2);
	ok(wait_for('both are there', \&is_whole, 180), "round $round: the other one follows the leader");
	usleep(1_000_000);
	check_nodes("round $round");
}
append_to_file($stop, 'stop');
waitpid($_, 0) foreach @loaders;
check_nodes('at the end');
my $leader = next_leader();
is(ask($leader, q{SELECT lsm_compact('twin_l'), lsm_compact('pgbench_accounts') \g /dev/null}), '', 'compactions go on');
check_nodes('after compactions');
cmp_ok(ask($leader, 'SELECT count(*) FROM ledger_l'), '>', 100 * $rounds, 'there was a load');

END
{
	my $status = $?;
	if (%pid)
	{
		append_to_file($stop, 'stop');
		foreach my $name ('n1', 'n2')
		{
			kill('TERM', $pid{$name}) if $pid{$name};
		}
		foreach my $name ('n1', 'n2')
		{
			next unless $pid{$name};
			my $end = time + 30;
			usleep(100_000) while waitpid($pid{$name}, POSIX::WNOHANG()) == 0 && time < $end;
			kill('KILL', -$pid{$name});
		}
		if ($pid{etcd}) { kill('KILL', $pid{etcd}); waitpid($pid{etcd}, 0); }
		foreach my $name ('n1', 'n2')
		{
			next unless -e "$dir/$name/postmaster.pid";
			my ($postmaster) = split /\n/, slurp_file("$dir/$name/postmaster.pid");
			kill('QUIT', $postmaster);
		}
	}
	$? = $status;
}
done_testing();
