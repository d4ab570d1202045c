# Logical decoding on a standby (16 and later) and slots that survive a failover (17 and later): heap and lsm tables, changed
# in the same transactions under load, decode alike; a ledger of what a slot says, and a subscription to the standby, arrive
# at the tables' rows, through kills of the standby, after its promotion, and after the primary's death.
#   LSM_LONG=1  more load
use strict;
use warnings;
use LsmDecode;
use LsmTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

plan skip_all => 'standbys decode since PostgreSQL 16' if lsm_version() < 16;
my $seed = lsm_seed();
my $seconds = lsm_long() ? 60 : 4;
my @tables = map { my $t = $_; map { "$_.$t" } 'h', 'l' } qw(t f i);

# Primary, standby, subscriber; tables of each identity, as heap (schema h) and lsm (schema l)
sub cluster
{
	my ($name, $conf) = @_;
	my ($primary, $subscriber) = map {
		lsm_node("${name}_$_", wal_level => 'logical', conf => "max_wal_senders = 20\nmax_replication_slots = 20\nmax_worker_processes = 24\nautovacuum = off\nlsm.memtable_size = 64kB\n"
			  . "wal_receiver_status_interval = 1s\nwal_retrieve_retry_interval = 200ms\nmax_wal_size = 1GB\n" . decode_allow_plugins())
	} 'primary', 'subscriber';
	$primary->append_conf('pg_hba.conf', "local replication all trust\n");
	lsm_start($_) foreach $primary, $subscriber;
	foreach my $node ($primary, $subscriber)
	{
		foreach my $x ([ 'h', 'heap', 'btree' ], [ 'l', 'lsm', 'lsm' ])
		{
			my ($schema, $am, $index) = @$x;
			$node->safe_psql('postgres', qq{
CREATE SCHEMA $schema; SET search_path = $schema, public; SET default_table_access_method = $am;
CREATE TABLE t (id int PRIMARY KEY, n int, a text);
CREATE TABLE f (id int PRIMARY KEY, n int, a text); ALTER TABLE f REPLICA IDENTITY FULL;
CREATE TABLE i (id int NOT NULL, n int, a text); CREATE UNIQUE INDEX i_i ON i USING $index (id); ALTER TABLE i REPLICA IDENTITY USING INDEX i_i});
		}
	}
	$primary->safe_psql('postgres', q{CREATE FUNCTION noise(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT left(string_agg(md5(seed || ':' || g), '' ORDER BY g), n) FROM generate_series(0, n / 32) g $$});
	$primary->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE ' . join ', ', @tables);
	$primary->safe_psql('postgres', "INSERT INTO $_ SELECT g, 0, noise(g, CASE WHEN g % 20 = 0 THEN 5000 ELSE 30 END) FROM generate_series(1, 300) g") foreach @tables;
	$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('physical')});
	$primary->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new("${name}_standby");
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	my $connection = $primary->connstr('postgres') =~ s/'//gr . ' application_name=' . $standby->name;
	$standby->append_conf('postgresql.conf', "primary_slot_name = 'physical'\nhot_standby_feedback = on\nprimary_conninfo = '$connection'\n$conf");
	$standby->start;
	return ($primary, $standby, $subscriber);
}

# A statement for both schemas; and in one transaction
sub both { my ($statement) = @_; return join ";\n", map { $statement =~ s/\@(?=\w)/$_./gr } 'h', 'l'; }

sub in_both
{
	my ($node, @statements) = @_;
	$node->safe_psql('postgres', join ";\n", 'BEGIN', map({ both($_) } @statements), 'COMMIT');
	return;
}

# Rows that come and go are a client's own: between DELETE in h and in l another session may commit
my %script = (
	rows => q{\set a random(1, 300)
\set b random(1, 300)
BEGIN;
} . join(";\n", map { both($_) } 'UPDATE @t SET n = n + 1 WHERE id = least(:a, :b)', 'UPDATE @t SET n = n + 1 WHERE id = greatest(:a, :b)',
		'SAVEPOINT s', 'DELETE FROM @f WHERE id = :b', 'ROLLBACK TO s', 'UPDATE @f SET a = noise(:b, 10 * :b) WHERE id = :a',
		'INSERT INTO @i VALUES (:b / 3 * 3 + :client_id, 1, noise(:a, 8 * :a)) ON CONFLICT (id) DO UPDATE SET n = @i.n + 1') . ";\nCOMMIT;\n",
	come_and_go => q{\set a random(1, 1000000) + 10000000 * :client_id
BEGIN;
} . join(";\n", map { both($_) } q{INSERT INTO @t SELECT 1000 + :a + g, g, 'many' FROM generate_series(1, 100) g ON CONFLICT DO NOTHING}, 'DELETE FROM @t WHERE id BETWEEN 1000 + :a AND 1080 + :a',
		q{INSERT INTO @f VALUES (1000 + :a, 1, noise(:a, 3000)) ON CONFLICT DO NOTHING}, 'UPDATE @f SET n = n + 1 WHERE id = 1000 + :a', 'DELETE FROM @i WHERE id = :a % 100 * 3 + :client_id') . ";\nCOMMIT;\n",
	flush => q{SELECT lsm_flush('l.t'), lsm_flush('l.f'), lsm_compact('l.t');
VACUUM h.t, l.t, h.i, l.i;
\sleep 300 ms
});

# Load beside what is done meanwhile.  A transaction may find its keys taken in another order, and is tried again.
sub under_load
{
	my ($node, $meanwhile) = @_;
	my $said = '';
	my @files = map { ('-f', lsm_script("decoding_standbys_$_", $script{$_})) } sort keys %script;
	my $load = IPC::Run::start([ 'pgbench', '-n', '-c', 3, '-T', 600, '--max-tries', 100, '--random-seed', $seed, @files, $node->connstr('postgres') ], '>', '/dev/null', '2>', PostgreSQL::Test::Utils::tempdir() . '/err');
	usleep(1_000_000 * $seconds / 2);
	$meanwhile->();
	usleep(1_000_000 * $seconds / 2);
	$load->signal('INT');
	eval { $load->finish };
	return;
}

# A standby's slot waits for a record of running transactions, which the primary writes: until `done`
sub log_snapshots
{
	my ($primary, $done) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	until ($done->())
	{
		die 'slots on the standby are not made' if time > $end;
		$primary->safe_psql('postgres', 'SELECT pg_log_standby_snapshot()');
		usleep(200_000);
	}
	return;
}

sub rows_of
{
	my ($node) = @_;
	my %rows;
	foreach my $t (@tables)
	{
		$rows{$t}{ (split /\|/)[0] } = [ split /\|/, $_, -1 ] foreach split /\n/, $node->safe_psql('postgres', "SELECT id, n, a FROM $t");
	}
	return \%rows;
}
sub as_text
{
	my ($rows, $schema) = @_;
	return join "\n", map { my $t = $_; map { ($t =~ s/^\w\.//r) . ' ' . join '|', map { $_ // '' } @{ $rows->{$t}{$_} } } sort { $a <=> $b } keys %{ $rows->{$t} } } grep { /^$schema/ } sort keys %$rows;
}

# Nodes have the same rows, and so have heap and lsm
sub same_rows
{
	my ($what, @nodes) = @_;
	my $want;
	foreach my $node (@nodes)
	{
		my $rows = rows_of($node);
		foreach my $schema ('h', 'l')
		{
			my $text = as_text($rows, $schema);
			$want //= $text;
			ok($text eq $want, "$what: " . $node->name . ", $schema");
		}
		is($node->safe_psql('postgres', join '; ', map { "SELECT * FROM lsm_verify('$_')" } grep { /^l/ } @tables), '', "$what: " . $node->name . ', lsm_verify');
	}
	return;
}

# What a slot says of h and of l is the same, change by change; returns how much
sub same_changes
{
	my ($what, $node, $slot) = @_;
	my %of = (h => [], l => []);
	foreach (decode_text($node->safe_psql('postgres', "SELECT data FROM pg_logical_slot_peek_changes('$slot', NULL, NULL, 'skip-empty-xacts', '1')")))
	{
		push @{ $of{$1} }, s/^table $1\./table /r if /^table ([hl])\./;
		if (/^COMMIT/) { push @{ $of{$_} }, 'COMMIT' foreach 'h', 'l'; }
	}
	# a statement may come to rows in another order
	my ($h, $l) = map { [ decode_transactions(@{ $of{$_} }) ] } 'h', 'l';
	my ($differs) = grep { ($h->[$_] // '') ne ($l->[$_] // '') } 0 .. $#$h;
	ok(@$h == @$l && !defined $differs, "$what: the twins' changes") or diag @$h . ' and ' . @$l . (defined $differs ? ", heap: $h->[$differs]\nlsm: " . ($l->[$differs] // '') : '');
	return scalar @{ $of{l} };
}

sub ledger_arrives
{
	my ($what, $node, $slot, $start) = @_;
	my $text = $node->safe_psql('postgres', "SELECT encode(data, 'hex') FROM pg_logical_slot_get_binary_changes('$slot', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')");
	my $rows = eval { decode_ledger($text, $start) };
	is($@, '', "$what: every change fits what was there");
	my $want = rows_of($node);
	ok($rows && as_text($rows, $_) eq as_text($want, $_), "$what: " . ($text =~ tr/\n//) . " messages lead to the rows of $_") foreach 'h', 'l';
	return;
}

# ---- a standby decodes ----

{
	my ($primary, $standby, $subscriber) = cluster('decode', '');
	my $start = rows_of($primary);
	my $making = lsm_start_session($standby, 'postgres', 'slots', q{SELECT pg_create_logical_replication_slot('text', 'test_decoding');
SELECT pg_create_logical_replication_slot('out', 'pgoutput')});
	log_snapshots($primary, sub { lsm_ended($making, 0.01) });
	my $connection = $standby->connstr('postgres') =~ s/'//gr;
	under_load($primary, sub {
		my $subscribing = lsm_start_session($subscriber, 'postgres', 'subscribe', "CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p");
		log_snapshots($primary, sub { lsm_ended($subscribing, 0.01) && $subscriber->safe_psql('postgres', q{SELECT bool_and(srsubstate IN ('r', 's')) FROM pg_subscription_rel}) eq 't' });
		my @pids = lsm_pids($standby);
		lsm_kill_process($standby, 'postmaster');
		lsm_restart_after_crash($standby, @pids);
	});
	$primary->wait_for_replay_catchup($standby);
	$standby->wait_for_catchup('s', 'replay', $primary->lsn('insert'));
	same_rows('a standby decodes', $primary, $subscriber);
	cmp_ok(same_changes('a standby decodes', $standby, 'text'), '>', 500, '... of which there are many');
	ledger_arrives('a standby decodes', $standby, 'out', $start);

	# dead rows that are removed are no conflict with slots: they are in no catalog
	$standby->append_conf('postgresql.conf', 'hot_standby_feedback = off');
	$standby->reload;
	$primary->poll_query_until('postgres', q{SELECT catalog_xmin IS NULL AND xmin IS NULL FROM pg_replication_slots WHERE slot_name = 'physical'}) or die 'feedback goes on';
	in_both($primary, 'UPDATE @t SET n = n + 1', 'DELETE FROM @f WHERE id > 100');
	$primary->safe_psql('postgres', q{VACUUM h.t, l.t, h.f, l.f; SELECT lsm_flush('l.t'), lsm_flush('l.f'), lsm_compact('l.t'), lsm_compact('l.f')});
	$primary->wait_for_replay_catchup($standby);
	is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots WHERE conflicting}), 0, 'removal of rows is no conflict with logical slots');
	$standby->wait_for_catchup('s', 'replay', $primary->lsn('insert'));
	same_rows('rows were removed', $primary, $subscriber);

	# promoted while the primary is written to
	$start = rows_of($standby);
	$standby->safe_psql('postgres', q{SELECT count(*) FROM pg_logical_slot_get_binary_changes('out', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')});
	under_load($primary, sub { $standby->promote });
	$primary->stop('immediate');
	in_both($standby, 'UPDATE @t SET n = n + 1 WHERE id % 3 = 0', q{INSERT INTO @f SELECT 100000000 + g, g, noise(g, 4000) FROM generate_series(1, 50) g}, 'DELETE FROM @t WHERE id < 20');
	$standby->wait_for_catchup('s');
	same_rows('after the promotion', $standby, $subscriber);
	cmp_ok(same_changes('after the promotion', $standby, 'text'), '>', 500, '... of which there are many');
	ledger_arrives('after the promotion', $standby, 'out', $start);
	$_->stop foreach $standby, $subscriber;
}

# ---- slots that survive the primary ----

SKIP:
{
	skip 'slots fail over since PostgreSQL 17', 1 if lsm_version() < 17;
	my ($primary, $standby, $subscriber) = cluster('failover', "sync_replication_slots = on\n");
	$primary->append_conf('postgresql.conf', "synchronized_standby_slots = 'physical'\n");
	$primary->reload;
	my $start = rows_of($primary);
	$primary->safe_psql('postgres', qq{SELECT pg_create_logical_replication_slot('$_->[0]', '$_->[1]', false, false, true)}) foreach [ 'text', 'test_decoding' ], [ 'out', 'pgoutput' ];
	my ($there, $then) = map { $_->connstr('postgres') =~ s/'//gr } $primary, $standby;
	$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$there' PUBLICATION p WITH (failover = true, streaming = on)");
	$subscriber->wait_for_subscription_sync($primary, 's');
	under_load($primary, sub {
		log_snapshots($primary, sub { $standby->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots WHERE synced AND NOT temporary}) == 3 });
	});
	under_load($primary, sub { my @pids = lsm_pids($primary); lsm_kill_process($primary, 'postmaster'); lsm_clear_crashed($primary, @pids) });
	$standby->promote;
	is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots WHERE failover AND invalidation_reason IS NULL AND slot_type = 'logical'}), 3, 'the standby has the slots');
	$subscriber->safe_psql('postgres', "ALTER SUBSCRIPTION s CONNECTION '$then'");
	under_load($standby, sub { });
	in_both($standby, 'UPDATE @t SET n = n + 1 WHERE id % 3 = 0');
	$standby->wait_for_catchup('s');
	same_rows('after the failover', $standby, $subscriber);
	cmp_ok(same_changes('after the failover', $standby, 'text'), '>', 500, '... of which there are many');
	ledger_arrives('after the failover', $standby, 'out', $start);
	$_->stop foreach $standby, $subscriber;
}
done_testing();
