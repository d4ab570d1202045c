# Torture: random transactions of several clients, DDL, flushes, compactions, kills of backends, workers, primary and standby,
# and a full disk, all at once.  What PostgreSQL promises is checked all the time, on the primary and on a standby: the sum
# of a bank, numbers that are given out once, a heap table and its lsm twin, lists that tell which transaction came after
# which at each isolation level (LsmHistory.pm), and at the end all that was confirmed.
#   LSM_LONG=1       for LSM_MINUTES (30), else for LSM_SECONDS (45)
#   LSM_SEED=N       repeats the choices (not the interleaving)
use strict;
use warnings;
use LsmHistory;
use LsmSession;
use LsmTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

# ---- what is looked for is found ----

sub history
{
	my ($level, $final, @transactions) = @_;
	return join('; ', history_anomalies($level, $final, map { my ($id, $status, @ops) = @$_; { id => $id, status => $status, ops => \@ops } } @transactions));
}
my @skew = ([ 'a', 'ok', [ 'r', 1, [] ], [ 'a', 2, 10 ] ], [ 'b', 'ok', [ 'r', 2, [] ], [ 'a', 1, 20 ] ]);
my @both = ([ 'a', 'ok', [ 'r', 1, [] ], [ 'a', 1, 10 ] ], [ 'b', 'ok', [ 'r', 1, [] ], [ 'a', 1, 20 ] ]);
like(history('ser', { 1 => [20], 2 => [10] }, @skew), qr/a cycle/, 'history: write skew is not serializable');
is(history('rr', { 1 => [20], 2 => [10] }, @skew), '', 'history: it is repeatable read');
like(history('rr', { 1 => [ 20, 10 ] }, @both), qr/G-single/, 'history: a lost update is not');
is(history('rc', { 1 => [ 20, 10 ] }, @both), '', 'history: it is read committed');
like(history('rc', { 1 => [20] }, @both), qr/0 of 1 of its numbers/, 'history: a commit is lost');
like(history('rc', { 1 => [ 10, 20 ] }, [ 'a', 'fail', [ 'a', 1, 10 ] ], [ 'b', 'ok', [ 'a', 1, 20 ] ]), qr/G1a/, 'history: a rollback is seen');
like(history('rc', { 1 => [ 10, 20 ] }, [ 'a', 'ok', [ 'a', 1, 10 ] ], [ 'b', 'ok', [ 'a', 1, 20 ] ], [ 'c', 'ok', [ 'r', 1, [20] ] ]), qr/has read \[20\]/, 'history: a read is no beginning of the list');
like(history('rc', { 1 => [20], 2 => [10] }, [ 'a', 'ok', [ 'a', 2, 10 ], [ 'r', 1, [20] ] ], [ 'b', 'ok', [ 'a', 1, 20 ], [ 'r', 2, [10] ] ]), qr/a cycle/, 'history: each reads the other one');

# A backend whose postmaster and checkpointer were killed waits, after its commit, for the checkpointer to take its list
# of removed files.  The wait ends the process (ForwardSyncRequest).
# log may say: PANIC:  cannot abort transaction [0-9]+, it was already committed

my $seed = lsm_seed();
my $seconds = lsm_long() ? 60 * ($ENV{LSM_MINUTES} // 30) : $ENV{LSM_SECONDS} // 45;
my $dir = PostgreSQL::Test::Utils::tempdir();
my $full = "$dir/full";
my $stop = "$dir/stop";
my $quiet = "$dir/quiet";    # no kills: the end is near
my $lists = 12;

my $primary = lsm_node('primary', conf => "max_wal_senders = 8\nwal_keep_size = 1GB\nmax_wal_size = 128MB\nhot_standby = on\nmax_connections = 60\n"
	  . "lsm.memtable_size = 128kB\nlsm.target_file_size = 64kB\nlsm.size_ratio = 3\nrestart_after_crash = on\nfsync = off\ndeadlock_timeout = 100ms\n"
	  . "max_standby_streaming_delay = 10s\nhot_standby_feedback = on\nwal_receiver_status_interval = 1s\nwal_retrieve_retry_interval = 200ms\nlock_timeout = 5s");
$primary->append_conf('pg_hba.conf', "local replication all trust\n");

sub start_node
{
	my ($node) = @_;
	local $ENV{LD_PRELOAD} = $ENV{LSM_FAULTS_SO};
	local $ENV{LSM_FAULTS_FULL} = $full;
	foreach my $try (1 .. 20)
	{
		return 1 if $node->start(fail_ok => 1);
		usleep(500_000);
	}
	die 'the server does not start';
}
start_node($primary);
$primary->safe_psql('postgres', qq{
CREATE EXTENSION lsmam;
CREATE TABLE bank (id int PRIMARY KEY, balance int CHECK (balance > -100000)) USING lsm; INSERT INTO bank SELECT g, 1000 FROM generate_series(1, 50) g;
CREATE INDEX bank_balance ON bank USING lsm (balance);
CREATE TABLE tickets (n int PRIMARY KEY, client int, seq int, UNIQUE (client, seq)) USING lsm;
CREATE TABLE owners (id int PRIMARY KEY, v text) USING lsm; INSERT INTO owners SELECT g, 'o' || g FROM generate_series(1, 100) g;
CREATE TABLE things (id int PRIMARY KEY, owner int REFERENCES owners ON DELETE CASCADE) USING lsm; CREATE INDEX ON things USING lsm (owner);
CREATE TABLE twin_h (id int PRIMARY KEY, n int, v text) USING heap; CREATE INDEX ON twin_h (v);
CREATE TABLE twin_l (id int PRIMARY KEY, n int, v text) USING lsm; CREATE INDEX ON twin_l USING lsm (v);
CREATE TABLE part_h (id int, n int, v text) PARTITION BY RANGE (id); CREATE TABLE part_h1 PARTITION OF part_h FOR VALUES FROM (0) TO (1000) USING heap; CREATE TABLE part_h2 PARTITION OF part_h FOR VALUES FROM (1000) TO (3000) USING heap;
CREATE TABLE part_l (id int, n int, v text) PARTITION BY RANGE (id); CREATE TABLE part_l1 PARTITION OF part_l FOR VALUES FROM (0) TO (1000) USING lsm; CREATE TABLE part_l2 PARTITION OF part_l FOR VALUES FROM (1000) TO (3000) USING lsm;
CREATE INDEX ON part_l USING lsm (id); CREATE INDEX ON part_h (id);
CREATE TABLE mess_h (id int PRIMARY KEY, n int, v text) USING heap; CREATE TABLE mess_l (id int PRIMARY KEY, n int, v text) USING lsm;
CREATE TABLE l_rc (k int PRIMARY KEY, v int[]) USING lsm; CREATE TABLE l_rr (k int PRIMARY KEY, v int[]) USING lsm; CREATE TABLE l_ser (k int PRIMARY KEY, v int[]) USING lsm;
});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);

# the slot keeps what the standby's snapshots see also while it is away
$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby')});
$standby->append_conf('postgresql.conf', "primary_slot_name = 'standby'");
start_node($standby);
my $space = PostgreSQL::Test::Utils::tempdir();

# ---- sessions ----

# Of a process
my $session;

# (SQLSTATE, lines); SQLSTATE is 'lost' if there is no answer
sub send_sql { return $session->ask($_[0]); }

# A process that does something again and again until the end
my %child;

sub child
{
	my ($name, $node, $what, $pause) = @_;
	my $pid = fork();
	die "fork: $!" unless defined $pid;
	if ($pid) { $child{$name} = $pid; return; }
	$SIG{PIPE} = 'IGNORE';
	srand($seed + length($name) * 1000 + ord(substr($name, -1)));
	$session = LsmSession->new($node, begin => 'SET client_min_messages = error');
	open my $log, '>>', "$dir/$name.log" or POSIX::_exit(98);
	$log->autoflush(1);
	until (-e $stop)
	{
		eval { $what->($log); 1 } or print $log "DIED $@";
		usleep($pause // 1000);
	}
	POSIX::_exit(0);
}

# Statements of a transaction; 'ok', 'fail' (rolled back), or 'unknown'
sub transaction
{
	my ($begin, @statements) = @_;
	foreach my $sql ($begin, @statements)
	{
		my ($state) = send_sql($sql);
		return 'fail' if $state eq 'lost';
		if ($state ne '00000') { send_sql('ROLLBACK'); return 'fail'; }
	}
	my ($state) = send_sql('COMMIT');
	return $state eq '00000' ? 'ok' : $state eq 'lost' ? 'unknown' : 'fail';
}

# ---- clients ----

my @levels = ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
my ($client, $seq) = (0, 0);

sub random_level { return 'BEGIN ISOLATION LEVEL ' . $levels[ int(rand(3)) ]; }

sub transfer
{
	my ($a, $b, $x) = (1 + int(rand(50)), 1 + int(rand(50)), 1 + int(rand(20)));
	my $way = rand();
	transaction(random_level(),
		$way < 0.3 ? "SELECT balance FROM bank WHERE id IN ($a, $b) ORDER BY id FOR UPDATE" : $way < 0.4 ? "SELECT balance FROM bank WHERE id IN ($a, $b) ORDER BY id FOR NO KEY UPDATE" : 'SELECT 1',
		$way < 0.8 ? ("UPDATE bank SET balance = balance - $x WHERE id = $a", "UPDATE bank SET balance = balance + $x WHERE id = $b")
		: $way < 0.9 ? ("UPDATE bank SET balance = balance - $x WHERE id = $a", "SAVEPOINT s; UPDATE bank SET balance = balance + 17 WHERE id = $b; ROLLBACK TO s", "UPDATE bank SET balance = balance + $x WHERE id = $b")
		: "UPDATE bank SET balance = balance + CASE id WHEN $a THEN -$x ELSE $x END WHERE id IN ($a, $b) AND $a <> $b");
	return;
}

sub ticket
{
	my ($log) = @_;
	$seq++;
	my $status = transaction(random_level(), rand() < 0.5 ? "INSERT INTO tickets SELECT coalesce(max(n), 0) + 1, $client, $seq FROM tickets"
		: "INSERT INTO tickets SELECT coalesce(max(n), 0) + 1, $client, $seq FROM tickets ON CONFLICT (n) DO UPDATE SET n = (SELECT max(n) + 1 FROM tickets), client = EXCLUDED.client WHERE false");
	my ($state, $n) = $status eq 'ok' ? send_sql("SELECT n FROM tickets WHERE client = $client AND seq = $seq") : ('');
	print $log "$client $seq $n\n" if $state eq '00000' && defined $n;
	return;
}

sub twins
{
	my ($id, $n) = (int(rand(3000)), int(rand(100)));
	my $text = join('', map { chr(97 + int(rand(26))) } 1 .. 1 + int(rand(200)));
	my $t = rand() < 0.6 ? 'twin' : 'part';
	my $way = rand();
	my $change = $t eq 'part' && $way < 0.5 ? "INSERT INTO %s VALUES ($id, $n, '$text')" : $way < 0.5 ? "INSERT INTO %s VALUES ($id, $n, '$text') ON CONFLICT (id) DO UPDATE SET n = %s.n + 1, v = EXCLUDED.v"
	  : $way < 0.7 ? "DELETE FROM %s WHERE id = $id" : $way < 0.8 ? "UPDATE %s SET n = n + 1 WHERE id BETWEEN $id AND $id + 30" : $way < 0.9 ? "UPDATE %s SET id = (id + 7) %% 3000 WHERE id = $id AND NOT EXISTS (SELECT 1 FROM %s x WHERE x.id = ($id + 7) %% 3000)"
	  : "DELETE FROM %s WHERE v < '" . chr(97 + int(rand(4))) . "' AND id % 5 = 0";
	$change =~ s/%%/%/g;
	my @both = map { my $x = "${t}_$_"; (my $sql = $change) =~ s/%s/$x/g; $sql } 'h', 'l';
	# two transactions that do the same to two tables in another order are not equal: one at a time
	my @all = ('SELECT pg_advisory_xact_lock(1)', rand() < 0.2 ? ('SAVEPOINT s', @both, 'ROLLBACK TO s') : (), @both);
	if (rand() < 0.02)
	{
		my $gid = "g${client}_" . $seq++;
		my $status = transaction('BEGIN', @all, "PREPARE TRANSACTION '$gid'");
		send_sql((rand() < 0.5 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$gid'");
		return;
	}
	transaction('BEGIN', @all);
	return;
}

sub things
{
	my ($id, $owner) = (int(rand(500)), 1 + int(rand(100)));
	my $way = rand();
	transaction(random_level(), $way < 0.6 ? "INSERT INTO things VALUES ($id, $owner) ON CONFLICT (id) DO UPDATE SET owner = EXCLUDED.owner" : $way < 0.75 ? "DELETE FROM owners WHERE id = $owner" : $way < 0.9 ? "INSERT INTO owners VALUES ($owner, 'again') ON CONFLICT DO NOTHING" : "SELECT * FROM owners WHERE id = $owner FOR KEY SHARE", rand() < 0.1 ? 'SELECT 1 / 0' : 'SELECT 1');
	return;
}

my $number = 0;

sub append
{
	my ($log) = @_;
	my $level = int(rand(3));
	my $table = (qw(l_rc l_rr l_ser))[$level];
	my (@ops, $status);
	my ($state) = send_sql("BEGIN ISOLATION LEVEL $levels[$level]");
	foreach my $i (1 .. 1 + int(rand(4)))
	{
		last if $state ne '00000';
		my $k = 1 + int(rand($lists));
		if (rand() < 0.5)
		{
			my $way = rand();
			($state, my $list) = send_sql("SELECT array_to_string(v, ',') FROM $table WHERE k = $k" . ($way < 0.1 && $level == 0 ? ' FOR SHARE' : ''));
			push @ops, "r:$k:" . ($list // '') if $state eq '00000';
		}
		else
		{
			my $x = 1000 * ++$number + $client;
			push @ops, "a:$k:$x";
			($state) = send_sql("INSERT INTO $table VALUES ($k, ARRAY[$x]) ON CONFLICT (k) DO UPDATE SET v = $table.v || $x");
		}
	}
	if ($state eq '00000' && rand() < 0.05) { send_sql('ROLLBACK'); $status = 'fail'; }
	elsif ($state eq '00000')
	{
		($state) = send_sql('COMMIT');
		$status = $state eq '00000' ? 'ok' : $state eq 'lost' ? 'unknown' : 'fail';
	}
	else
	{
		send_sql('ROLLBACK') if $state ne 'lost';
		$status = 'fail';
	}
	$seq++;
	print $log "LIST $level $client.$seq $status @ops\n" if @ops;
	return;
}

# ---- checks, on either node ----

my $equal = join(' UNION ALL ', map { my $t = $_; "SELECT '$t', count(*)::text FROM ((SELECT * FROM ${t}_h EXCEPT ALL SELECT * FROM ${t}_l) UNION ALL (SELECT * FROM ${t}_l EXCEPT ALL SELECT * FROM ${t}_h)) d HAVING count(*) > 0" } 'twin', 'part');
my @checks = (
	q{SELECT 'bank', sum(balance)::text FROM bank HAVING sum(balance) <> 50000},
	q{SELECT 'bank by index', sum(balance)::text FROM bank WHERE balance > -1000000 HAVING sum(balance) <> 50000},
	q{SELECT 'bank', count(*)::text FROM bank HAVING count(*) <> 50},
	q{SELECT 'tickets', n::text FROM tickets GROUP BY n HAVING count(*) > 1},
	q{SELECT 'tickets', n::text FROM tickets t WHERE NOT EXISTS (SELECT 1 FROM tickets u WHERE u.client = t.client AND u.seq = t.seq AND u.n = t.n)},
	q{SELECT 'things', id::text FROM things t WHERE NOT EXISTS (SELECT 1 FROM owners o WHERE o.id = t.owner)},
	q{SELECT 'lists', k::text FROM l_ser WHERE cardinality(v) <> (SELECT count(DISTINCT x) FROM unnest(v) x)},
	$equal);

# A snapshot's answers, by some plan
sub check_snapshot
{
	my ($log) = @_;
	my @plans = ('SELECT 1', 'SET LOCAL enable_seqscan = off', 'SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off', 'SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off',
		'SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0');
	my ($state) = send_sql('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
	my $begun = time;
	foreach my $sql ($plans[ int(rand(@plans)) ], map { $checks[ int(rand(@checks)) ] } 1 .. 5)
	{
		last if $state ne '00000';
		($state, my @rows) = send_sql($sql);
		printf $log "WRONG (%.3f to %.3f) @rows: %s\n", $begun, time, $sql if $state eq '00000' && $sql =~ /FROM/ && @rows;
		print $log "WRONG error $state: $sql\n" if $state =~ /^XX/;
		print $log "QUERY\n" if $state eq '00000';
	}
	send_sql('COMMIT') if $state ne 'lost';
	return;
}

# ---- DDL and maintenance ----

my @ddl = (
	(map { ("SELECT lsm_flush('$_')", "SELECT lsm_compact('$_')", "VACUUM $_", "ANALYZE $_") } qw(bank tickets twin_l things part_l1 l_ser l_rr)),
	# What was dead to the primary is in no index that is built there, nor in a table that is written anew.  A standby's older
	# snapshot that reads it misses rows, of heap tables as well: nothing tells the standby.  So not of what is checked there.
	(map { my $t = $_; map { s/%s/$t/gr } 'CREATE INDEX CONCURRENTLY extra ON %s USING lsm (k, v)', 'CREATE INDEX extra ON %s USING lsm (v)', 'REINDEX TABLE %s', 'REINDEX TABLE CONCURRENTLY %s', 'REINDEX INDEX CONCURRENTLY %s_pkey', 'VACUUM FULL %s', 'CLUSTER %s USING %s_pkey' } qw(l_rc l_rr)),
	'DROP INDEX CONCURRENTLY IF EXISTS extra', 'DROP INDEX IF EXISTS extra',
	'BEGIN; SELECT pg_advisory_xact_lock(1); TRUNCATE twin_h, twin_l; COMMIT', 'BEGIN; SELECT pg_advisory_xact_lock(1); ALTER TABLE twin_h ALTER n TYPE bigint; ALTER TABLE twin_l ALTER n TYPE bigint; COMMIT', 'BEGIN; SELECT pg_advisory_xact_lock(1); ALTER TABLE twin_h ALTER n TYPE int; ALTER TABLE twin_l ALTER n TYPE int; ROLLBACK',
	'ALTER TABLE bank ADD COLUMN IF NOT EXISTS note text DEFAULT \'x\'', 'ALTER TABLE bank DROP COLUMN IF EXISTS note', 'ALTER TABLE twin_l SET (filter_scheme = bloom)', 'ALTER TABLE twin_l SET (filter_scheme = quotient)', 'ALTER TABLE twin_l RESET (filter_scheme)',
	# (to older snapshots what ALTER TABLE has rewritten is empty: both, or none)
	(map { my ($h, $l) = @$_; "BEGIN; SELECT pg_advisory_xact_lock(1); ALTER TABLE part_h2 SET ACCESS METHOD $h; ALTER TABLE part_l2 SET ACCESS METHOD $l; COMMIT" } [ 'heap', 'lsm' ], [ 'lsm', 'heap' ]),
	'BEGIN; SELECT pg_advisory_xact_lock(1); ALTER TABLE part_l DETACH PARTITION part_l1; ALTER TABLE part_l ATTACH PARTITION part_l1 FOR VALUES FROM (0) TO (1000); COMMIT',
	'DROP MATERIALIZED VIEW IF EXISTS mv', 'CREATE MATERIALIZED VIEW IF NOT EXISTS mv USING lsm AS SELECT * FROM bank', 'REFRESH MATERIALIZED VIEW mv', 'DROP TABLE IF EXISTS made', 'CREATE TABLE made (id int PRIMARY KEY) USING lsm', 'INSERT INTO made SELECT generate_series(1, 2000) ON CONFLICT DO NOTHING', 'CHECKPOINT');

sub ddl
{
	my ($log) = @_;
	my $sql = $ddl[ int(rand(@ddl)) ];
	my $begun = time;
	my ($state) = send_sql($sql);
	printf $log "%.3f %.3f %s %s\n", $begun, time, $state, $sql;
	return;
}

# ---- the load ----

my @clients = map { "client$_" } 1 .. 3;
foreach my $name (@clients)
{
	$client = substr($name, -1);
	child($name, $primary, sub { my ($log) = @_; my $way = rand(); $way < 0.3 ? append($log) : $way < 0.5 ? transfer() : $way < 0.65 ? ticket($log) : $way < 0.85 ? twins() : things(); });
}
child('ddl', $primary, \&ddl, 60_000);
child('check_primary', $primary, \&check_snapshot, 20_000);
child('check_standby', $standby, \&check_snapshot, 5_000);
child('check_standby2', $standby, \&check_snapshot, 5_000);

END
{
	# they must not outlive a test that dies
	my $status = $?;
	kill('KILL', values %child);
	$? = $status;
}

# ---- kills ----

my %events;
my $end = time + $seconds;

sub kill_server
{
	my ($node) = @_;
	my @pids = lsm_pids($node);
	kill('KILL', $pids[0]);
	lsm_wait_gone($node, @pids);
	lsm_clear_crashed($node, @pids);
	start_node($node);
	return;
}
my @events = (
	[ 4, 'a backend is terminated', sub { lsm_kill_process($primary, 'backend', 'TERM') } ],
	[ 1, 'a backend is killed', sub { lsm_kill_process($primary, 'backend'); usleep(1_000_000) } ],
	[ 1, 'a worker is killed', sub { lsm_kill_process($primary, 'worker'); usleep(1_000_000) } ],
	[ 3, 'the primary is killed', sub { kill_server($primary) } ],
	[ 4, 'the standby is killed', sub { kill_server($standby) } ],
	[ 1, 'the standby stops at once', sub { $standby->stop('immediate'); start_node($standby) } ],
	[ 1, 'the primary restarts', sub { $primary->stop('fast'); start_node($primary) } ],
	[ 2, 'the disk is full', sub { append_to_file($full, 'full'); usleep(1_500_000); unlink $full } ],
	[ 1, 'the checkpointer is killed', sub { lsm_kill_process($standby, 'checkpointer'); usleep(500_000); my @pids = lsm_pids($standby); unless (@pids) { lsm_clear_crashed($standby); start_node($standby) } } ]);
my @bag = map { ($_) x $_->[0] } @events;
while (time < $end)
{
	usleep(1_500_000 + int(rand(2_000_000)));
	my $event = $bag[ int(rand(@bag)) ];
	$event->[2]->();
	$events{ $event->[1] }++;
	foreach my $node ($primary, $standby)
	{
		unless (lsm_pids($node)) { lsm_clear_crashed($node); start_node($node); }
		lsm_wait_up($node);
	}
}
append_to_file($stop, 'stop');
lsm_wait_up($_) foreach $primary, $standby;
my @hanging = grep { !lsm_ended($child{$_}, 60) } sort keys %child;
is("@hanging", '', 'nobody waits for ever');
diag("$_: " . `ps -o pid,ppid,stat,wchan:30,etime,args -p $child{$_} --ppid $child{$_}`) foreach @hanging;
foreach my $node (@hanging ? ($primary, $standby) : ())
{
	diag($node->name . ":\n" . $node->safe_psql('postgres', q{SELECT pid, backend_type, state, wait_event_type, wait_event, now() - query_start, left(query, 100), pg_blocking_pids(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()}));
	usleep(1_000_000 * ($ENV{LSM_WAIT} // 0));
}
kill('KILL', map { $child{$_} } @hanging);
my $kills = 0;
$kills += $events{$_} // 0 foreach 'a backend is killed', 'the primary is killed', 'the standby is killed', 'the standby stops at once', 'the checkpointer is killed', 'a worker is killed';
diag("$seconds s, $kills kills: " . join(', ', map { "$_: $events{$_}" } sort keys %events));

# ---- the end ----

lsm_wait_up($_) foreach $primary, $standby;
$primary->safe_psql('postgres', join(';', map { "ROLLBACK PREPARED '$_'" } split /\n/, $primary->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts')));
my $lsn = $primary->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
ok($standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'"), 'the standby has all');
append_to_file($ENV{LSM_KEEP} . "/ddl.log", slurp_file("$dir/ddl.log")) if $ENV{LSM_KEEP};
my $queries = 0;
foreach my $name (sort keys %child)
{
	my @lines = split /\n/, slurp_file("$dir/$name.log");
	my @wrong = grep { /^(WRONG|DIED)/ } @lines;
	is(join("\n", @wrong[ 0 .. (@wrong > 5 ? 5 : $#wrong) ]), '', "$name: no wrong answer");
	$queries += grep { /^QUERY/ } @lines if $name =~ /standby/;
}
diag("$queries queries on the standby");
cmp_ok($queries, '>', 0, 'there were queries on the standby');
foreach my $node ($primary, $standby)
{
	my $name = $node->name;
	is($node->safe_psql('postgres', join(";\n", @checks)), '', "$name: sums, numbers, references and twins at the end");
	my %ticket = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', q{SELECT client || ' ' || seq || ' ' || n FROM tickets});
	my @confirmed = grep { /^\d+ \d+ \d+$/ } map { split /\n/, slurp_file("$dir/$_.log") } @clients;
	is(scalar(grep { !$ticket{$_} } @confirmed), 0, "$name: all " . @confirmed . ' confirmed tickets are there');
	is($node->safe_psql('postgres', q{SELECT c.relname, v.* FROM pg_class c JOIN pg_am a ON a.oid = c.relam, lsm_verify(c.oid) v WHERE c.relkind IN ('r', 'm') AND (a.amname = 'lsm')}), '', "$name: lsm_verify");
}
foreach my $t (qw(bank tickets owners things twin_h twin_l part_l l_rc l_rr l_ser))
{
	my $sum = "SELECT count(*), md5(string_agg(t::text, ';' ORDER BY t::text)) FROM $t t";
	is($standby->safe_psql('postgres', $sum), $primary->safe_psql('postgres', $sum), "$t: the standby has what the primary has");
}
foreach my $level (0 .. 2)
{
	my $table = (qw(l_rc l_rr l_ser))[$level];
	my %final = map { my ($k, $v) = split /\|/; $k => [ split /,/, $v // '' ] } split /\n/, $primary->safe_psql('postgres', "SELECT k, array_to_string(v, ',') FROM $table");
	my @transactions;
	foreach my $line (grep { /^LIST $level / } map { split /\n/, slurp_file("$dir/$_.log") } @clients)
	{
		my (undef, undef, $id, $status, @ops) = split / /, $line;
		push @transactions, { id => $id, status => $status, ops => [ map { my ($kind, $k, $x) = split /:/, $_, -1; [ $kind, $k, $kind eq 'r' ? [ split /,/, $x ] : $x ] } @ops ] };
	}
	my @wrong = history_anomalies((qw(rc rr ser))[$level], \%final, @transactions);
	is(join("\n", @wrong[ 0 .. (@wrong > 5 ? 5 : $#wrong) ]), '', "$levels[$level]: no anomaly in " . @transactions . ' transactions, ' . scalar(grep { $_->{status} eq 'ok' } @transactions) . ' confirmed');
}
$standby->stop;
$primary->stop;
done_testing();
