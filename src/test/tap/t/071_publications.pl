# Publications and subscriptions: lsm to heap, heap to lsm, lsm to lsm, by PostgreSQL's own logical replication, and lsm to
# heap by pglogical where it is installed.  Initial copies under load, TPC-B and tables of all identities, kill -9 of
# publisher, subscriber, walsender and apply worker; in the end both sides are the same, and lsm_verify finds nothing.
# Conflicts stop a subscription and let it go on as they do with heap.
#   LSM_LONG=1  more kills, more load
# packages: postgresql-NN-pglogical
use strict;
use warnings;
use LsmDecode;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX ();
use Time::HiRes qw(usleep time);

my $seed = lsm_seed();
my $have_pglogical = -e PostgreSQL::Test::Cluster->new('probe')->config_data('--pkglibdir') . '/pglogical.so';
my $preload = $have_pglogical ? 'lsmam,pglogical' : 'lsmam';
my ($pub, $sub) = map {
	lsm_node($_, wal_level => 'logical',
		conf => "shared_preload_libraries = '$preload'\nmax_wal_senders = 20\nmax_replication_slots = 20\nmax_worker_processes = 40\nmax_logical_replication_workers = 16\nwal_retrieve_retry_interval = 100ms\nlogical_decoding_work_mem = 64kB\n"
		  . "lsm.memtable_size = 64kB\nwal_sender_timeout = 20s\nwal_receiver_timeout = 20s\nmax_prepared_transactions = 20\ntrack_commit_timestamp = on\n" . decode_allow_plugins())
} 'pub', 'sub';
lsm_start($_) foreach $pub, $sub;

# name => access methods of publisher and subscriber, options of the subscription
my %pairs = (lh => [ 'lsm', 'heap', 'streaming = on' ], hl => [ 'heap', 'lsm', 'streaming = on, binary = true' ], ll => [ 'lsm', 'lsm', 'two_phase = on, streaming = on' ]);
my @pairs = sort keys %pairs;
my @tables = qw(accounts tellers branches history whole ident parts1 parts2 wide);
my $accounts = lsm_long() ? 50000 : 4000;

sub create_tables
{
	my ($node, $db, $am) = @_;
	my $index = $am eq 'lsm' ? 'lsm' : 'btree';
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, 'CREATE EXTENSION lsmam');
	$node->safe_psql($db, "ALTER DATABASE $db SET default_table_access_method = $am");
	$node->safe_psql($db, qq{
CREATE FUNCTION noise(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS \$\$ SELECT left(string_agg(md5(seed || ':' || g), '' ORDER BY g), n) FROM generate_series(0, n / 32) g \$\$;
CREATE TABLE accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
CREATE TABLE tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
CREATE TABLE branches (bid int PRIMARY KEY, bbalance int, filler char(88));
CREATE TABLE history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
CREATE TABLE whole (id int, v text, n int); ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE ident (x serial, k text NOT NULL, n int NOT NULL, v text); CREATE UNIQUE INDEX ident_k ON ident USING $index (k, n); ALTER TABLE ident REPLICA IDENTITY USING INDEX ident_k;
CREATE TABLE parts (id int PRIMARY KEY, v text, n int) PARTITION BY RANGE (id); CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (500); CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (500) TO (MAXVALUE);
CREATE TABLE wide (id int PRIMARY KEY, v text, n int); ALTER TABLE wide ALTER v SET STORAGE EXTERNAL});
	is($node->safe_psql($db, q{SELECT string_agg(DISTINCT amname, ' ') FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'}), $am, "$db: tables on the " . $node->name);
	return;
}
foreach my $db (@pairs)
{
	my ($from, $to, $options) = @{ $pairs{$db} };
	create_tables($pub, $db, $from);
	create_tables($sub, $db, $to);
	$pub->safe_psql($db, qq{
INSERT INTO accounts SELECT g, 1, 0, '' FROM generate_series(1, $accounts) g;
INSERT INTO tellers SELECT g, 1, 0, '' FROM generate_series(1, 10) g; INSERT INTO branches VALUES (1, 0, '');
INSERT INTO whole SELECT g, 'v' || g, 0 FROM generate_series(1, 100) g;
INSERT INTO ident (k, n, v) SELECT 'k' || g, g, 'v' FROM generate_series(1, 300) g;
INSERT INTO parts SELECT g, 'v' || g, 0 FROM generate_series(1, 1000) g;
INSERT INTO wide SELECT g, noise(g, 100 * g), 0 FROM generate_series(1, 60) g;
CREATE PUBLICATION p FOR ALL TABLES});
}

# ---- load ----

my $tpcb = lsm_script('tpcb', qq{\\set aid random(1, $accounts)
\\set tid random(1, 10)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE accounts SET abalance = abalance + :delta WHERE aid = :aid;
UPDATE tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE branches SET bbalance = bbalance + :delta WHERE bid = 1;
INSERT INTO history (tid, bid, aid, delta, mtime) VALUES (:tid, 1, :aid, :delta, CURRENT_TIMESTAMP);
END;
});
my $others = lsm_script('others', q{\set a random(1, 100)
\set b random(1, 300)
\set c random(1, 1000)
\set d random(1, 60)
\set new random(1000, 2000000000)
\set g random(1, 1000000000)
BEGIN;
UPDATE whole SET n = n + 1, v = 'w' || :b WHERE id = :a;
UPDATE ident SET v = v || 'x', k = k || 'y' WHERE k LIKE 'k' || :b || '%' AND length(k) < 20;
SAVEPOINT s;
DELETE FROM ident WHERE n = :b;
ROLLBACK TO s;
UPDATE parts SET n = n + 1, v = 'u' || :b WHERE id = :c;
COMMIT;
BEGIN;
UPDATE parts SET id = 2000 - id WHERE id = :c AND NOT EXISTS (SELECT FROM parts q WHERE q.id = 2000 - :c);
UPDATE wide SET n = n + 1 WHERE id = :d;
UPDATE wide SET v = noise(:b, 40 * :b) WHERE id = 1 + :d / 2;
INSERT INTO wide VALUES (:new, noise(:b, 9000), 1) ON CONFLICT (id) DO UPDATE SET n = 0;
DELETE FROM wide WHERE id > 1000 AND id <> :new;
COMMIT;
BEGIN;
INSERT INTO parts SELECT g, 'bulk', 0 FROM generate_series(:new, :new + 300) g ON CONFLICT DO NOTHING;
DELETE FROM parts WHERE id >= :new;
SAVEPOINT s;
INSERT INTO whole VALUES (:new, 'more', 0);
ROLLBACK TO s;
INSERT INTO whole VALUES (:new, 'more', 1);
COMMIT;
BEGIN;
UPDATE whole SET n = -n WHERE id = :a;
INSERT INTO ident (k, n, v) VALUES ('p' || :new, :new, 'prepared');
PREPARE TRANSACTION 'g:g_:client_id';
COMMIT PREPARED 'g:g_:client_id';
});

my @load;
sub start_load
{
	my ($seconds) = @_;
	foreach my $db (@pairs)
	{
		foreach my $script ([ 3, $tpcb ], [ 1, $others ])
		{
			my ($clients, $file) = @$script;
			my $pid = fork() // die "fork: $!";
			if ($pid == 0)
			{
				# a crash ends it
				open(STDOUT, '>', '/dev/null');
				open(STDERR, '>', '/dev/null');
				exec('pgbench', '-n', '-c', $clients, '-T', $seconds, '-f', $file, $pub->connstr($db)) or POSIX::_exit(99);
			}
			push @load, $pid;
		}
	}
	return;
}
sub end_load { kill 'TERM', @load; waitpid $_, 0 foreach @load; @load = (); return; }

sub safe_prepared
{
	# a crash may leave them, and the last statements of the load run on for a moment
	lsm_wait_clients($pub);
	foreach my $db (@pairs)
	{
		foreach my $gid (split /\n/, $pub->safe_psql($db, 'SELECT gid FROM pg_prepared_xacts WHERE database = current_database()'))
		{
			$pub->safe_psql($db, rand() < 0.5 ? "COMMIT PREPARED '$gid'" : "ROLLBACK PREPARED '$gid'");
		}
	}
	return;
}

# ---- both sides ----

sub wait_for_both
{
	my ($db) = @_;
	my $lsn = $pub->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	my $end = time + 2 * $PostgreSQL::Test::Utils::timeout_default;
	while (time < $end)
	{
		# either may be away
		my ($rc, $out) = eval { $pub->psql('postgres', "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = 's_$db'") };
		return 1 if ($out // '') eq 't';
		usleep(100_000);
	}
	fail("$db: the subscriber does not catch up");
	return 0;
}

sub wait_for_copies
{
	my ($db) = @_;
	$sub->poll_query_until($db, q{SELECT count(*) > 0 AND bool_and(srsubstate IN ('r', 's')) FROM pg_subscription_rel}) or die "$db: the initial copies do not end";
	return;
}

sub same_on_both
{
	my ($what) = @_;
	foreach my $db (@pairs)
	{
		wait_for_both($db);
		my $query = join ' UNION ALL ', map { "SELECT '$_', count(*), sum(hashtextextended(t::text, 0)::numeric) FROM $_ t" } @tables;
		my ($p, $s) = ($pub->safe_psql($db, $query), $sub->safe_psql($db, $query));
		is($s, $p, "$what: $db is the same on both sides");
		is($pub->safe_psql($db, 'SELECT (SELECT sum(abalance) FROM accounts) = (SELECT bbalance FROM branches) AND (SELECT sum(delta) FROM history) = (SELECT sum(tbalance) FROM tellers)'), 't', "$what: $db: sums are equal");
		foreach my $node ($pub, $sub)
		{
			my $am = $pairs{$db}[ $node == $sub ];
			next if $am ne 'lsm';
			is($node->safe_psql($db, join '; ', map { "SELECT '$_', * FROM lsm_verify('$_')" } @tables), '', "$what: lsm_verify of $db on the " . $node->name);
		}
	}
	return;
}

# The process of a backend type that serves a pair
sub pid_of
{
	my ($node, $type) = @_;
	my $from = $type eq 'walsender' ? q{pg_stat_replication WHERE application_name ~ '^s_'} : q{pg_stat_subscription WHERE relid IS NULL AND pid IS NOT NULL};
	my (undef, $out) = eval { $node->psql('postgres', "SELECT pid FROM $from") };
	my @pids = split /\n/, $out // '';
	return @pids ? $pids[ rand @pids ] : 0;
}

start_load(lsm_long() ? 60 : 8);
usleep(500_000);
foreach my $db (@pairs)
{
	my $connect = $pub->connstr($db) =~ s/'//gr;
	$sub->safe_psql($db, "CREATE SUBSCRIPTION s_$db CONNECTION '$connect' PUBLICATION p WITH ($pairs{$db}[2])");
}
# Nobody is killed while the copies run: a worker drops its slot on the publisher before it commits that the copy is done.
# After a crash in between the copy would never end, with heap tables, too.
wait_for_copies($_) foreach @pairs;
end_load();
safe_prepared();
same_on_both('copied under load');

my @kills = ('walsender', 'publisher', 'apply worker', 'subscriber');
@kills = map { @kills } 1 .. 8 if lsm_long();
foreach my $kill (@kills)
{
	start_load(60);
	usleep(1_200_000 + int rand 600_000);
	my $node = $kill =~ /walsender|publisher/ ? $pub : $sub;
	my @pids = lsm_pids($node);
	if ($kill eq 'publisher' || $kill eq 'subscriber')
	{
		lsm_kill_process($node, 'postmaster');
		lsm_restart_after_crash($node, @pids);
	}
	else
	{
		my $offset = -s $node->logfile;
		my $killed = 0;
		foreach (1 .. 1200)
		{
			my $pid = pid_of($node, $kill);
			last if $killed = $pid && kill('KILL', $pid);
			usleep(50_000);
		}
		ok($killed, "a $kill is killed");
		lsm_wait_logged($node, $offset, qr/was terminated by signal 9/);
		lsm_wait_up($node);
	}
	usleep(700_000);
	end_load();
	lsm_wait_up($_) foreach $pub, $sub;
	safe_prepared();
	same_on_both("$kill killed") if $kill eq 'apply worker' || lsm_long();
}
same_on_both('all killed');

# ---- TRUNCATE, and bulk ----

foreach my $db (@pairs)
{
	$pub->safe_psql($db, q{
TRUNCATE history, wide RESTART IDENTITY;
BEGIN; DELETE FROM whole WHERE id > 50; TRUNCATE parts; INSERT INTO parts SELECT g, noise(g, 300), 1 FROM generate_series(1, 1500) g; SAVEPOINT a; TRUNCATE accounts; ROLLBACK TO a; UPDATE parts SET n = 2 WHERE id < 100; COMMIT;
UPDATE tellers SET tbalance = 0; UPDATE accounts SET abalance = 0; UPDATE branches SET bbalance = 0; INSERT INTO history VALUES (1, 1, 1, 0, now());
COPY wide FROM PROGRAM 'seq 1 2000 | sed ''s/.*/&\tvalue &\t0/'''});
}
same_on_both('truncated');

# ---- conflicts: the subscription stops, and goes on when the row is gone, or is skipped ----

sub errors_of { my ($db) = @_; return $sub->safe_psql($db, "SELECT apply_error_count FROM pg_stat_subscription_stats WHERE subname = 's_$db'"); }
my %said;
foreach my $db (@pairs)
{
	$sub->safe_psql($db, q{INSERT INTO wide VALUES (-1, 'here before', 0), (-3, 'here before', 0)});
	my $from = -s $sub->logfile;
	my $errors = errors_of($db);
	$pub->safe_psql($db, q{BEGIN; INSERT INTO wide VALUES (-2, 'first', 0); INSERT INTO wide VALUES (-1, 'from there', 0); COMMIT; INSERT INTO wide VALUES (-4, 'behind', 0)});
	$sub->poll_query_until($db, "SELECT apply_error_count > $errors FROM pg_stat_subscription_stats WHERE subname = 's_$db'") or die "$db: there is no conflict";
	is($sub->safe_psql($db, 'SELECT id, v FROM wide WHERE id < 0 ORDER BY id'), "-3|here before\n-1|here before", "$db: nothing of the transaction, and nothing behind it, is there");
	# since 18 it is a conflict, and says more
	my ($said) = slurp_file($sub->logfile, $from) =~
	  /(ERROR:  (?:duplicate key|conflict detected on relation "public.wide": conflict=insert_exists)[^\n]*\n(?:(?:.*?(?:DETAIL|CONTEXT):|\t)[^\n]*\n)*)/;
	$said{$db} = ($said // '') =~ s/^.*?(?=ERROR|DETAIL|CONTEXT)//mgr =~ s/transaction \d+,? finished at \S+|pg_\d+|"p?g?_?s_.."|transaction \d+ at \S+ \S+/X/gr;
	$sub->safe_psql($db, 'DELETE FROM wide WHERE id = -1');
	wait_for_both($db);
	is($sub->safe_psql($db, 'SELECT id, v FROM wide WHERE id < 0 ORDER BY id'), "-4|behind\n-3|here before\n-2|first\n-1|from there", "$db: then all of it");

	# the other way on: skipped
	$from = -s $sub->logfile;
	$pub->safe_psql($db, q{INSERT INTO wide VALUES (-3, 'from there', 0); INSERT INTO wide VALUES (-5, 'next', 0)});
	my $lsn;
	foreach (1 .. 1800)
	{
		last if ($lsn) = slurp_file($sub->logfile, $from) =~ /finished at ([0-9A-F]+\/[0-9A-F]+)/;
		usleep(100_000);
	}
	$sub->safe_psql($db, "ALTER SUBSCRIPTION s_$db SKIP (lsn = '$lsn')");
	wait_for_both($db);
	is($sub->safe_psql($db, 'SELECT id, v FROM wide WHERE id < -2 ORDER BY id'), "-5|next\n-4|behind\n-3|here before", "$db: skipped");
	$pub->safe_psql($db, q{UPDATE wide SET v = 'settled' WHERE id = -3});

	# rows that are missing are passed over
	$sub->safe_psql($db, 'DELETE FROM wide WHERE id IN (10, 11); DELETE FROM whole WHERE id = 5');
	$pub->safe_psql($db, 'UPDATE wide SET n = 77 WHERE id IN (10, 12); DELETE FROM wide WHERE id IN (11, 13); UPDATE whole SET n = 7 WHERE id = 5; DELETE FROM whole WHERE id IN (5, 6)');
	wait_for_both($db);
	is($sub->safe_psql($db, 'SELECT id, n FROM wide WHERE id BETWEEN 10 AND 13'), '12|77', "$db: changes of rows that are not there are passed over");
	$pub->safe_psql($db, 'DELETE FROM wide WHERE id = 10');
	# rows in their way are updated all the same
	$sub->safe_psql($db, q{UPDATE wide SET v = 'differs' WHERE id = 12; UPDATE accounts SET filler = 'differs' WHERE aid = 1});
	$pub->safe_psql($db, q{UPDATE wide SET n = 78, v = v || '' WHERE id = 12; UPDATE accounts SET filler = 'same' WHERE aid = 1});
}
is($said{hl}, $said{lh}, 'an lsm table says of a duplicate key what a heap table says');
like($said{hl}, lsm_version() < 18 ? qr/DETAIL:  Key \(id\)=\(-1\) already exists/ : qr/DETAIL:  Key already exists in unique index "wide_pkey".*\n\tKey \(id\)=\(-1\); existing local row \(-1, here before, 0\)/, 'which is that');
same_on_both('conflicts settled');

SKIP:
{
	skip 'origin = none came with 16', 2 if lsm_version() < 16;
	$_->safe_psql('ll', 'CREATE TABLE bi (id int PRIMARY KEY, v text)') foreach $pub, $sub;
	$pub->safe_psql('ll', 'CREATE PUBLICATION pb FOR TABLE bi');
	$sub->safe_psql('ll', 'CREATE PUBLICATION pb FOR TABLE bi');
	my ($there, $here) = map { $_->connstr('ll') =~ s/'//gr } $pub, $sub;
	$sub->safe_psql('ll', "CREATE SUBSCRIPTION b1 CONNECTION '$there' PUBLICATION pb WITH (origin = none, copy_data = false)");
	$pub->safe_psql('ll', "CREATE SUBSCRIPTION b2 CONNECTION '$here' PUBLICATION pb WITH (origin = none, copy_data = false)");
	$pub->safe_psql('ll', q{INSERT INTO bi SELECT g, 'of pub' FROM generate_series(1, 300) g});
	$sub->safe_psql('ll', q{INSERT INTO bi SELECT g, 'of sub' FROM generate_series(1001, 1300) g});
	$pub->wait_for_catchup('b1');
	$sub->wait_for_catchup('b2');
	$pub->safe_psql('ll', q{UPDATE bi SET v = 'changed by pub' WHERE id > 1200});
	$sub->safe_psql('ll', q{DELETE FROM bi WHERE id < 100});
	$pub->wait_for_catchup('b1');
	$sub->wait_for_catchup('b2');
	my $query = 'SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM bi t';
	is($sub->safe_psql('ll', $query), $pub->safe_psql('ll', $query), 'both ways: the same');
	is($sub->safe_psql('ll', "SELECT count(*) FILTER (WHERE v = 'changed by pub'), count(*) FROM bi"), '100|501', 'both ways: all of it');
	$sub->safe_psql('ll', 'DROP SUBSCRIPTION b1');
	$pub->safe_psql('ll', 'DROP SUBSCRIPTION b2');
}
$sub->safe_psql($_, "DROP SUBSCRIPTION s_$_") foreach @pairs;

# ---- another implementation ----

SKIP:
{
	skip 'pglogical is not installed', 10 unless $have_pglogical;
	# it changes rows with heap's own functions, not the table's: its subscriber has heap tables
	foreach my $x ([ $pub, 'lsm' ], [ $sub, 'heap' ])
	{
		my ($node, $am) = @$x;
		create_tables($node, 'pglogical', $am);
		my $connect = $node->connstr('pglogical');
		# pglogical writes to its own tables as to catalogs: they have to be heap
		$node->safe_psql('pglogical', "SET default_table_access_method = heap; CREATE EXTENSION pglogical; SELECT pglogical.create_node(node_name := '@{[$node->name]}', dsn := \$\$$connect\$\$)");
	}
	$pub->safe_psql('pglogical', q{
INSERT INTO accounts SELECT g, 1, 0, '' FROM generate_series(1, 2000) g; INSERT INTO wide SELECT g, noise(g, 100 * g), 0 FROM generate_series(1, 60) g;
SELECT pglogical.replication_set_add_table('default', t, true) FROM unnest('{accounts,tellers,branches,wide}'::regclass[]) t;
SELECT pglogical.replication_set_add_table('default_insert_only', 'history')});
	my $connect = $pub->connstr('pglogical');
	$sub->safe_psql('pglogical', "SELECT pglogical.create_subscription(subscription_name := 's', provider_dsn := \$\$$connect\$\$)");
	$sub->poll_query_until('pglogical', q{SELECT status = 'replicating' FROM pglogical.show_subscription_status('s')}) or die 'pglogical does not replicate';
	$pub->safe_psql('pglogical', q{INSERT INTO tellers SELECT g, 1, 0, '' FROM generate_series(1, 10) g; INSERT INTO branches VALUES (1, 0, '')});
	$pub->command_ok([ 'pgbench', '-n', '-c', 3, '-t', 100, '-f', $tpcb, $pub->connstr('pglogical') ], 'pglogical: TPC-B');
	$pub->safe_psql('pglogical', q{
UPDATE wide SET n = n + 1 WHERE id % 2 = 0; UPDATE wide SET v = noise(-id, 5000) WHERE id % 5 = 0; UPDATE wide SET id = id + 1000 WHERE id % 7 = 0; DELETE FROM wide WHERE id % 11 = 0;
BEGIN; INSERT INTO wide VALUES (5000, 'x', 1); SAVEPOINT a; INSERT INTO wide VALUES (5001, 'y', 1); ROLLBACK TO a; INSERT INTO wide VALUES (5001, noise(1, 20000), 1) ON CONFLICT DO NOTHING; COMMIT});
	my @pids = lsm_pids($sub);
	lsm_kill_process($sub, 'postmaster');
	$pub->safe_psql('pglogical', 'DELETE FROM accounts WHERE aid > 1900; UPDATE accounts SET filler = aid WHERE aid < 50');
	lsm_restart_after_crash($sub, @pids);
	$pub->safe_psql('pglogical', q{SELECT pglogical.wait_slot_confirm_lsn(NULL, pg_current_wal_insert_lsn())});
	foreach my $t (qw(accounts tellers branches wide history))
	{
		my $query = "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM $t t";
		is($sub->safe_psql('pglogical', $query), $pub->safe_psql('pglogical', $query), "pglogical: $t is the same on both sides");
	}
	is($pub->safe_psql('pglogical', join '; ', map { "SELECT '$_', * FROM lsm_verify('$_')" } @tables), '', 'pglogical: lsm_verify');
	$sub->safe_psql('pglogical', q{SELECT pglogical.drop_subscription('s')});
}
foreach my $node ($pub, $sub)
{
	unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal (6|7|11)\b/, 'no crash but those made');
	$node->stop;
}
done_testing();
