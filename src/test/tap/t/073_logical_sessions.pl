# Logical decoding of sessions beside each other: twins in the same transactions; sessions that wait for each other's rows;
# a slot made while transactions run; one advanced halfway; and under load, with crashes, a ledger: what is decoded,
# applied to the rows of the slot's snapshot, is what the table has.
#   LSM_LONG=1  more load, more crashes
# packages: postgresql-NN-wal2json
use strict;
use warnings;
use LsmDecode;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

my $seed = lsm_seed();
my $node = lsm_node('sessions', wal_level => 'logical',
	conf => "max_wal_senders = 20\nmax_replication_slots = 30\nmax_prepared_transactions = 30\nlog_min_messages = error\nlsm.memtable_size = 64kB\n" . decode_allow_plugins());
lsm_start($node);
my $noise = q{CREATE FUNCTION noise(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT left(string_agg(md5(seed || ':' || g), '' ORDER BY g), n) FROM generate_series(0, n / 32) g $$};
my @plugins = ([ 'text', 'test_decoding' ], [ 'out', 'pgoutput' ], -e $node->config_data('--pkglibdir') . '/wal2json.so' ? [ 'json', 'wal2json' ] : ());

sub database
{
	my ($db) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, "CREATE EXTENSION lsmam; $noise");
	return;
}

sub slots
{
	my ($db, $name) = @_;
	$node->safe_psql($db, "SELECT pg_create_logical_replication_slot('${name}_$_->[0]', '$_->[1]')") foreach @plugins;
	return;
}

my $file = PostgreSQL::Test::Utils::tempdir() . '/peeked';
sub peek_text
{
	my ($db, $slot, $options) = @_;
	my $what = $options =~ /proto_version/ ? q{encode(data, 'hex') FROM pg_logical_slot_peek_binary_changes} : 'data FROM pg_logical_slot_peek_changes';
	$node->safe_psql($db, "SET logical_decoding_work_mem = '64kB';\n\\o $file\nSELECT $what('$slot', NULL, NULL, $options)");
	return slurp_file($file);
}
sub peek
{
	my ($db, $name, $plugin, $publication) = @_;
	return decode_text(peek_text($db, "${name}_text", q{'skip-empty-xacts', '1'})) if $plugin eq 'text';
	return decode_pgoutput(peek_text($db, "${name}_out", qq{'proto_version', '1', 'publication_names', '$publication'})) if $plugin eq 'out';
	return decode_json(peek_text($db, "${name}_json", q{'format-version', '2', 'include-pk', '1'}));
}

# ---- twins in the same transactions: schemas h and l ----

database('mixed');
foreach my $x ([ 'h', 'heap', 'btree' ], [ 'l', 'lsm', 'lsm' ])
{
	my ($schema, $am, $index) = @$x;
	$node->safe_psql('mixed', qq{
SET default_table_access_method = $am;
CREATE SCHEMA $schema; SET search_path = $schema, public;
CREATE TABLE t (id int PRIMARY KEY, a text, n int);
CREATE TABLE f (id int PRIMARY KEY, a text, n int); ALTER TABLE f REPLICA IDENTITY FULL;
CREATE TABLE i (id int NOT NULL, a text, n int); CREATE UNIQUE INDEX i_i ON i USING $index (id); ALTER TABLE i REPLICA IDENTITY USING INDEX i_i;
CREATE TABLE p (id int PRIMARY KEY, a text, n int) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (15); CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (15) TO (MAXVALUE)});
}
$node->safe_psql('mixed', 'CREATE PUBLICATION twins FOR TABLE h.t, l.t, h.f, l.f, h.i, l.i, h.p, l.p');
slots('mixed', 'mixed');

my @statements = split /;\n/, q{INSERT INTO @t SELECT g, 'v' || g, g FROM generate_series(1, 30) g;
INSERT INTO @f SELECT g, noise(g, 200 * g), g FROM generate_series(1, 30) g;
INSERT INTO @i VALUES (1, 'a', 1), (2, 'b', 2), (3, noise(3, 5000), 3), (4, 'd', 4);
INSERT INTO @p SELECT g, 'p', g FROM generate_series(1, 30) g;
SAVEPOINT a;
UPDATE @t SET n = n + 1 WHERE id = 5;
UPDATE @t SET id = 100 WHERE id = 6;
UPDATE @f SET n = 0 WHERE id = 29;
UPDATE @f SET a = 'short' WHERE id = 28;
UPDATE @i SET a = NULL WHERE id = 2;
UPDATE @i SET id = 50 WHERE id = 3;
UPDATE @p SET id = 40 WHERE id = 4;
ROLLBACK TO a;
UPDATE @t SET a = noise(1, 9000) WHERE id = 5;
UPDATE @t SET n = n + 1 WHERE id = 5;
SAVEPOINT b;
DELETE FROM @t WHERE id = 5;
DELETE FROM @f WHERE id = 29;
UPDATE @p SET id = 41 WHERE id = 5;
RELEASE b;
INSERT INTO @t VALUES (7, 'x', 1), (70, 'y', 1) ON CONFLICT (id) DO UPDATE SET n = @t.n + 100;
INSERT INTO @t VALUES (7, 'x', 1), (71, 'y', 1) ON CONFLICT DO NOTHING;
SELECT * FROM @t WHERE id = 8 FOR UPDATE;
UPDATE @t SET n = 8 WHERE id = 8;
ALTER TABLE @t ADD c int DEFAULT 3;
UPDATE @t SET n = 9 WHERE id = 9;
ALTER TABLE @f REPLICA IDENTITY DEFAULT;
UPDATE @f SET n = 5 WHERE id = 20;
ALTER TABLE @f ALTER n TYPE bigint;
UPDATE @f SET id = 200 WHERE id = 20;
TRUNCATE @i;
INSERT INTO @i VALUES (9, 'after', 1);
DELETE FROM @p WHERE id = 7;
DELETE FROM @i};
my $pairs = join ";\n", map { my $s = $_; /\@/ ? map { my $x = $_; $s =~ s/\@(?=\w\b)/$x./gr } 'h', 'l' : $s } @statements;

# Lines of h and of l, which stand beside each other as the statements did
sub same_pairs
{
	my ($what, @lines) = @_;
	my ($order, %of) = ('', h => [], l => []);
	foreach (@lines)
	{
		# relations of pgoutput are said when they are first needed
		next unless /^(?:table |[IUDT] |\{"action":"[IUDT]","schema":)"?([hl])"?\b/;
		$order .= $1;
		push @{ $of{$1} }, s/(?:\b$1\.|"schema":"$1")//gr;
	}
	is(join("\n", @{ $of{l} }), join("\n", @{ $of{h} }), "$what: the twins' changes");
	my $wrong = grep { /^(h+)(l+)$/ && length $1 != length $2 } $order =~ /h+l*|^l+/g;
	is($wrong, 0, "$what: each where its statement was");
	return scalar @{ $of{h} };
}
$node->safe_psql('mixed', "BEGIN;\n$pairs;\nCOMMIT;");
foreach my $plugin (map { $_->[0] } @plugins)
{
	cmp_ok(same_pairs("one transaction, $plugin", peek('mixed', 'mixed', $plugin, 'twins')), '>', 100, 'they are many');
}

# ---- a slot is made while transactions run ----

my @s = map { $node->background_psql('mixed') } 1 .. 3;
sub both { my ($id) = @_; return "INSERT INTO h.t (id, a) VALUES ($id, 'during'); INSERT INTO l.t (id, a) VALUES ($id, 'during')"; }
$s[0]->query_safe('BEGIN; ' . both(2000));
my $making = lsm_start_session($node, 'mixed', 'making', q{SELECT pg_create_logical_replication_slot('during_text', 'test_decoding'); SELECT pg_create_logical_replication_slot('during_out', 'pgoutput')});
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query ~ 'during_text' AND wait_event = 'transactionid'}) or die 'the slot does not wait';
$s[1]->query_safe('BEGIN; ' . both(2010));
$s[0]->query_safe(both(2001) . '; SAVEPOINT a; ' . both(2002) . '; COMMIT');
$node->safe_psql('mixed', both(2020));
usleep(200_000);
$s[2]->query_safe('BEGIN; ' . both(2030));
$s[1]->query_safe(both(2011) . '; UPDATE h.t SET n = 1 WHERE id = 2020; UPDATE l.t SET n = 1 WHERE id = 2020; COMMIT');
usleep(200_000);
$s[2]->query_safe(both(2031) . '; COMMIT');
ok(lsm_ended($making), 'the slot is made');
$s[0]->query_safe('BEGIN; ' . both(2040) . '; DELETE FROM h.t WHERE id = 2030; DELETE FROM l.t WHERE id = 2030; COMMIT');
foreach my $plugin ('text', 'out')
{
	my @lines = peek('mixed', 'during', $plugin, 'twins');
	same_pairs("made while transactions run, $plugin", @lines);
	my %seen = map { /(?:INSERT: id\[integer\]:|^I .*N: ')(20\d\d)/ ? ($1 => 1) : () } @lines;
	ok($seen{2040}, "$plugin: the transaction that began afterwards");
	foreach my $set ([ 2000, 2001, 2002 ], [ 2010, 2011 ], [ 2030, 2031 ])
	{
		my $found = grep { $seen{$_} } @$set;
		ok($found == 0 || $found == @$set, "$plugin: of @$set all or none") or diag("seen: @{[ sort keys %seen ]}");
	}
}

# ---- a slot is advanced ----

$node->safe_psql('mixed', q{SELECT pg_copy_logical_replication_slot('mixed_text', 'ahead_text'), pg_copy_logical_replication_slot('mixed_out', 'ahead_out')});
# half of a transaction, of a prepared one, and of the catalog's history lie before the position
$s[0]->query_safe('BEGIN; ' . both(3000));
$node->safe_psql('mixed', 'ALTER TABLE h.t ADD d text DEFAULT 7; ALTER TABLE l.t ADD d text DEFAULT 7; BEGIN; ' . both(3010) . q{; PREPARE TRANSACTION 'ahead'}) if 0;
$node->safe_psql('mixed', 'BEGIN; ' . both(3010) . q{; PREPARE TRANSACTION 'ahead'});
my $half = $node->safe_psql('mixed', 'SELECT pg_current_wal_insert_lsn()');
$node->safe_psql('mixed', "SELECT pg_replication_slot_advance('ahead_$_', '$half')") foreach 'text', 'out';
$s[0]->query_safe(both(3001) . '; COMMIT');
$node->safe_psql('mixed', both(3020) . q{; COMMIT PREPARED 'ahead'});
$_->quit foreach @s;
foreach my $plugin ('text', 'out')
{
	my @all = grep { /20\d\d|30\d\d/ } peek('mixed', 'mixed', $plugin, 'twins');
	my @rest = grep { /^table|^I / } peek('mixed', 'ahead', $plugin, 'twins');
	same_pairs("advanced, $plugin", @rest);
	is(join("\n", @rest), join("\n", grep { /\b30\d\d\b/ } @all), "$plugin: an advanced slot gives the rest");
	is(scalar @rest, 8, "$plugin: which is the rows of what was not committed");
}

# ---- sessions wait for each other's rows ----

sub wait_for_each_other
{
	my ($db) = @_;
	my ($one, $two) = map { $node->background_psql($db, on_error_stop => 0) } 1 .. 2;
	my $start = sub { $two->query_until(qr/started/, "\\echo started\n$_[0];\n"); $node->poll_query_until('postgres', qq{SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = '$db' AND wait_event_type IN ('Lock', 'Extension', 'IPC')}) or die "nobody waits: $_[0]"; };
	my @steps = (
		[ 'INSERT INTO t VALUES (1, 1)', 'INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = t.n + 10', 'COMMIT' ],
		[ 'INSERT INTO t VALUES (2, 1)', 'INSERT INTO t VALUES (2, 2) ON CONFLICT (id) DO UPDATE SET n = t.n + 10', 'ROLLBACK' ],
		[ 'INSERT INTO t VALUES (3, 1) ON CONFLICT DO NOTHING', 'INSERT INTO t VALUES (3, 2) ON CONFLICT DO NOTHING', 'COMMIT' ],
		[ 'INSERT INTO t VALUES (4, 1) ON CONFLICT DO NOTHING', 'INSERT INTO t VALUES (4, 2) ON CONFLICT DO NOTHING', 'ROLLBACK' ],
		[ 'SAVEPOINT a; INSERT INTO t VALUES (5, 1, noise(1, 5000))', 'INSERT INTO t VALUES (5, 2, noise(2, 5000)) ON CONFLICT (id) DO UPDATE SET n = 3', 'ROLLBACK TO a', 'INSERT INTO t VALUES (50, 1); COMMIT' ],
		[ 'INSERT INTO t VALUES (6, 1, noise(1, 5000))', 'INSERT INTO t VALUES (6, 2, noise(2, 5000)) ON CONFLICT (id) DO UPDATE SET n = 3', 'COMMIT' ],
		[ 'UPDATE t SET n = n + 1 WHERE id = 1', 'UPDATE t SET n = n + 100 WHERE id = 1', 'COMMIT' ],
		[ 'DELETE FROM t WHERE id = 1', 'UPDATE t SET n = n + 100 WHERE id = 1', 'COMMIT' ],
		[ 'UPDATE t SET id = 20 WHERE id = 2', 'DELETE FROM t WHERE id = 2', 'ROLLBACK' ],
		[ 'DELETE FROM t WHERE id = 3', 'INSERT INTO t VALUES (3, 5) ON CONFLICT (id) DO UPDATE SET n = 6', 'COMMIT' ],
		[ 'DELETE FROM t WHERE id = 4', 'INSERT INTO t VALUES (4, 5)', 'COMMIT' ],
		[ 'INSERT INTO t VALUES (7, 1)', 'INSERT INTO t VALUES (7, 2)', 'COMMIT' ],
		[ 'SELECT * FROM t WHERE id = 6 FOR KEY SHARE; UPDATE t SET n = 7 WHERE id = 6', 'DELETE FROM t WHERE id = 6', 'ROLLBACK' ],
		[ 'SELECT * FROM t WHERE id = 3 FOR SHARE', 'UPDATE t SET n = n + 1 WHERE id = 3', 'UPDATE t SET n = 8 WHERE id = 3; COMMIT' ],
		[ 'INSERT INTO u VALUES (1, 1)', 'INSERT INTO u VALUES (1, 1), (2, 2) ON CONFLICT DO NOTHING', 'COMMIT' ],
		[ 'INSERT INTO u VALUES (3, 3)', 'INSERT INTO u VALUES (4, 3) ON CONFLICT (b) DO UPDATE SET a = 5', 'COMMIT' ]);
	foreach my $step (@steps)
	{
		my ($first, $second, $end, $after) = @$step;
		$one->query("BEGIN; $first");
		$start->("BEGIN; INSERT INTO log VALUES (1); $second; INSERT INTO log VALUES (2); COMMIT; ROLLBACK");
		$one->query($end);
		# the other one has ended when this returns
		$two->query('SELECT 1');
		$one->query($after) if defined $after;
	}
	$_->quit foreach $one, $two;
	return map { my $plugin = $_->[0]; [ $plugin, peek($db, $db, $plugin, 'p') ] } @plugins;
}

my %decoded;
foreach my $db ('heap', 'lsm')
{
	database($db);
	my $index = $db eq 'lsm' ? 'lsm' : 'btree';
	$node->safe_psql($db, qq{SET default_table_access_method = $db; CREATE TABLE t (id int PRIMARY KEY, n int, a text); CREATE TABLE u (a int, b int); CREATE UNIQUE INDEX ON u USING $index (a); CREATE UNIQUE INDEX ub ON u USING $index (b); ALTER TABLE u ALTER b SET NOT NULL, REPLICA IDENTITY USING INDEX ub; CREATE TABLE log (n int); CREATE PUBLICATION p FOR TABLE t, u, log});
	slots($db, $db);
	$decoded{$db} = [ wait_for_each_other($db) ];
}
foreach my $i (0 .. $#plugins)
{
	my ($heap, $lsm) = map { join "\n", @{ $decoded{$_}[$i] } } 'heap', 'lsm';
	is($lsm, $heap, "sessions that wait for each other: $plugins[$i][1]");
}

# ---- load, crashes, a ledger ----

database('load');
$node->safe_psql('load', q{
SET default_table_access_method = lsm;
CREATE TABLE acc (id int PRIMARY KEY, n bigint, a text);
CREATE TABLE hot (id int PRIMARY KEY, n bigint, a text);
CREATE TABLE whole (id int PRIMARY KEY, n bigint, a text); ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE u (id bigserial PRIMARY KEY, k int UNIQUE, j int UNIQUE, n int DEFAULT 0);
INSERT INTO acc SELECT g, 0, noise(g, CASE WHEN g % 20 = 0 THEN 3000 ELSE 30 END) FROM generate_series(1, 400) g;
INSERT INTO whole SELECT * FROM acc;
CREATE PUBLICATION p FOR TABLE acc, hot, whole, u});
slots('load', 'load');
my %script = (
	transfer => q{\set a random(1, 400)
\set b random(1, 400)
BEGIN;
UPDATE acc SET n = n - 1 WHERE id = least(:a, :b);
SAVEPOINT s;
UPDATE whole SET n = n + 1 WHERE id = :a;
ROLLBACK TO s;
UPDATE acc SET n = n + 1 WHERE id = greatest(:a, :b);
COMMIT;
},
	upsert => q{\set k random(1, 6)
\set b random(1, 3)
INSERT INTO hot VALUES (:k, 1, 'x') ON CONFLICT (id) DO UPDATE SET n = hot.n + 1;
INSERT INTO u (k, j) VALUES (:k, :b) ON CONFLICT DO NOTHING;
INSERT INTO u (k, j) VALUES (:b, :k) ON CONFLICT (k) DO NOTHING;
DELETE FROM hot WHERE id = :b;
DELETE FROM u WHERE j = :b;
},
	keys => q{\set a random(1, 400)
\set b random(1, 400)
BEGIN;
UPDATE whole SET a = noise(:b, 10 * :b) WHERE id = :a;
SELECT 1 FROM acc WHERE id = :b FOR SHARE;
DELETE FROM whole WHERE id = :b;
INSERT INTO whole VALUES (:b, :a, noise(:a, 8 * :a)) ON CONFLICT (id) DO UPDATE SET n = whole.n + 1;
UPDATE whole SET id = id + 1000 WHERE id = :b AND NOT EXISTS (SELECT FROM whole w WHERE w.id = :b + 1000);
UPDATE acc SET n = n + 1 WHERE id = :a;
COMMIT;
},
	many => q{\set a random(1, 1000000)
BEGIN;
INSERT INTO acc SELECT 1000 + :a + g, g, 'many' FROM generate_series(1, 200) g ON CONFLICT DO NOTHING;
DELETE FROM acc WHERE id BETWEEN 1000 + :a AND 1000 + :a + 150;
SAVEPOINT s;
DELETE FROM acc WHERE id > 1000 AND id < 1000 + :a;
ROLLBACK TO s;
COMMIT;
},
	flush => q{SELECT lsm_flush('acc'), lsm_flush('whole');
SELECT lsm_compact('acc');
VACUUM hot, whole;
\sleep 300 ms
});
my %weight = (transfer => 6, upsert => 8, keys => 6, many => 1);
my @files = map { ('-f', lsm_script("sessions_$_", $script{$_}) . "\@$weight{$_}") } sort keys %weight;

sub start_load
{
	my ($seconds) = @_;
	my @pids;
	foreach my $command ([ '-c', 5, @files ], [ '-c', 1, '-f', lsm_script('sessions_flush', $script{flush}) ])
	{
		my $pid = fork() // die "fork: $!";
		if ($pid == 0)
		{
			open(STDOUT, '>', '/dev/null');
			open(STDERR, '>', "$file.pgbench");
			exec('pgbench', '-n', '-T', $seconds, '--max-tries', 100, '--random-seed', $seed, @$command, $node->connstr('load')) or POSIX::_exit(99);
		}
		push @pids, $pid;
	}
	return @pids;
}

my @tables = ('acc', 'hot', 'whole', 'u');
sub rows_of
{
	my ($session) = @_;
	my %rows;
	foreach my $t (@tables)
	{
		my $columns = $t eq 'u' ? 'id, k, j, n' : 'id, n, a';
		$rows{"public.$t"}{ (split /\|/)[0] } = [ split /\|/, $_, -1 ] foreach split /\n/, $session->query_safe("SELECT $columns FROM $t");
	}
	return \%rows;
}
sub as_text
{
	my ($rows) = @_;
	return join "\n", map { my $t = $_; map { "$t " . join '|', map { $_ // '' } @{ $rows->{$t}{$_} } } sort { $a <=> $b } keys %{ $rows->{$t} } } sort keys %$rows;
}

my %start;
my $empty = $node->background_psql('load');
$start{load} = rows_of($empty);
$empty->quit;
my $crashes = lsm_long() ? 6 : 2;
foreach my $round (1 .. $crashes)
{
	my $seconds = lsm_long() ? 20 : 4;
	my @load = start_load($seconds);
	usleep(1_000_000);
	my $replication = $node->background_psql('load', replication => 'database');
	my ($made) = $replication->query_safe("CREATE_REPLICATION_SLOT amid$round LOGICAL pgoutput (SNAPSHOT 'export')");
	my $snapshot = (split /\|/, $made)[2];
	my $reader = $node->background_psql('load');
	$reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$snapshot'");
	$start{"amid$round"} = rows_of($reader);
	$_->quit foreach $reader, $replication;
	usleep(1_000_000 * ($seconds - 2));
	my @pids = lsm_pids($node);
	lsm_kill_process($node, 'postmaster');
	waitpid($_, 0) foreach @load;
	lsm_restart_after_crash($node, @pids);
}
my $reader = $node->background_psql('load');
my $end = as_text(rows_of($reader));
$reader->quit;
foreach my $slot (sort keys %start)
{
	my $text = peek_text('load', $slot eq 'load' ? 'load_out' : $slot, q{'proto_version', '1', 'publication_names', 'p'});
	my $changes = ($text =~ tr/\n//);
	my $rows = eval { decode_ledger($text, $start{$slot}) };
	is($@, '', "$slot: every change fits what was there");
	my ($got, $want) = ($rows ? as_text($rows) : 'nothing', $end);
	ok($got eq $want, "$slot: $changes messages lead to the table's rows");
	if ($got ne $want)
	{
		my %want = map { $_ => 1 } split /\n/, $want;
		my %got = map { $_ => 1 } split /\n/, $got;
		diag(join "\n", 'decoded only:', (map { substr $_, 0, 100 } grep { !$want{$_} } sort keys %got)[ 0 .. 5 ], 'in the table only:', (map { substr $_, 0, 100 } grep { !$got{$_} } sort keys %want)[ 0 .. 5 ]);
	}
	cmp_ok($changes, '>', 500, 'not a few') if $slot eq 'load';
}
is($node->safe_psql('load', join '; ', map { "SELECT * FROM lsm_verify('$_')" } @tables), '', 'lsm_verify');
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal (6|7|11)\b/, 'no crash but those made');
$node->stop;
done_testing();
