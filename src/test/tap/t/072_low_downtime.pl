# docs/migration.md, "With little downtime", word for word: its blocks are run in their order under load, from heap to
# lsm in two databases of one cluster, then between two clusters.  What has been committed is there after the switch;
# the old database follows, and is the same in the end.  LSM_OLD_INSTALLS (see 064) names older versions: from each
# the same to the version under test.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Basename;
use POSIX ();
use Time::HiRes qw(usleep time);

lsm_seed();
my $page = slurp_file(($ENV{LSM_DOCS} // dirname(__FILE__) . '/../../../../docs') . '/migration.md');
my $conf = "max_wal_senders = 10\nmax_replication_slots = 10\nmax_worker_processes = 30\nmax_logical_replication_workers = 10\nlsm.memtable_size = 64kB";

# Blocks by the heading above them
my %blocks;
{
	my ($heading, $kind, $code) = ('');
	foreach my $line (split /\n/, $page)
	{
		if (defined $kind && $line eq '```') { push @{ $blocks{$heading} }, [ $kind, $code ]; $kind = undef; }
		elsif (defined $kind) { $code .= "$line\n"; }
		elsif ($line =~ /^```(\w+)$/) { ($kind, $code) = ($1, ''); }
		elsif ($line =~ /^##+ (.*)/) { $heading = $1; }
	}
}
is(join(' ', map { scalar @{ $blocks{$_} // [] } } 'Copy', 'Switch', 'The end, or back'), '4 5 2', 'the page has its blocks');

my $work;
sub run_block
{
	my ($what, $block) = @_;
	my ($kind, $code) = @$block;
	is($kind, 'sh', 'a block of sh') or return;
	my $file = "$work/block.sh";
	unlink $file;
	append_to_file($file, $code);
	my ($first) = $code =~ /^(.{1,70})/m;
	my $out = '';
	my $ok = IPC::Run::run([ 'sh', '-e', $file ], '<', \undef, '>', \$out, '2>&1', init => sub { chdir $work });
	ok($ok && $out !~ /ERROR|FATAL/, "$what: $first") or diag($out), BAIL_OUT('the next block would wait for this one');
	return $out;
}

# ---- load: each client counts what it was told is committed ----

my $load = lsm_script('low_downtime', q{\set a random(1, 300)
\set b random(1, 100)
\set delta random(-500, 500)
BEGIN;
UPDATE accounts SET balance = balance + :delta WHERE id = :a;
INSERT INTO moves (account, delta, note) VALUES (:a, :delta, repeat('note ', :b));
INSERT INTO journal VALUES (:a, :delta, now());
END;
UPDATE events SET kind = 'changed' || :b WHERE id = :b;
UPDATE events SET at = at + 100 WHERE id = :b + 1 AND at < '2026-06-01';
DELETE FROM events WHERE id = :b + 2;
INSERT INTO events (at, id, kind) VALUES ('2026-02-02', :b + 2, 'again') ON CONFLICT DO NOTHING;
UPDATE shop."Odd Name" SET v = v || 'x' WHERE "k K" = :b AND length(v) < 3000;
UPDATE nokey SET n = n + 1 WHERE id = :b;
BEGIN;
INSERT INTO photos VALUES (:a, convert_to(repeat('photo' || :a, 2000), 'UTF8'), :b) ON CONFLICT (id) DO UPDATE SET n = photos.n + 1;
DELETE FROM photos WHERE id = :b;
COMMIT;
});

sub start_load
{
	my ($connect, $log) = @_;
	my $pid = fork() // die "fork: $!";
	return $pid if $pid;
	open(STDOUT, '>', '/dev/null');
	open(STDERR, '>', $log);
	exec('pgbench', '-n', '-c', 4, '-T', 600, '-f', $load, $connect) or POSIX::_exit(99);
}

sub old_database
{
	my ($node) = @_;
	$node->safe_psql('postgres', 'CREATE DATABASE app');
	$node->safe_psql('app', q{
CREATE SCHEMA shop;
CREATE TABLE accounts (id int PRIMARY KEY, balance int, filler char(40));
CREATE TABLE moves (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account int REFERENCES accounts, delta int, twice int GENERATED ALWAYS AS (delta * 2) STORED, note text);
CREATE INDEX ON moves (account);
CREATE TABLE journal (account int, delta int, at timestamptz);
CREATE TABLE nokey (id int, n int);
CREATE TABLE events (at date, id int, kind text, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-04-01');
CREATE TABLE events_2 PARTITION OF events DEFAULT;
CREATE TABLE shop."Odd Name" ("k K" int PRIMARY KEY, v text);
CREATE TABLE photos (id int PRIMARY KEY, p bytea, n int);
ALTER TABLE photos ALTER p SET STORAGE EXTERNAL;
CREATE UNLOGGED TABLE shop."Cache it" (k text PRIMARY KEY, v text);
CREATE MATERIALIZED VIEW kinds AS SELECT kind, count(*) FROM events GROUP BY 1;
CREATE SEQUENCE shop."Numbers" START 1000;
CREATE TABLE touched (n int);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.touched VALUES (1); RETURN NEW; END';
CREATE TRIGGER touch AFTER INSERT ON photos FOR EACH ROW EXECUTE FUNCTION touch();
INSERT INTO accounts SELECT g, 0, '' FROM generate_series(1, 300) g;
INSERT INTO nokey SELECT g, 0 FROM generate_series(1, 100) g;
INSERT INTO events SELECT '2026-01-01'::date + g, g, 'k' || g % 5 FROM generate_series(1, 300) g;
INSERT INTO shop."Odd Name" SELECT g, 'v' || g FROM generate_series(1, 100) g;
INSERT INTO photos SELECT g, convert_to(repeat('photo', 1000 + g), 'UTF8'), 0 FROM generate_series(1, 100) g;
INSERT INTO shop."Cache it" SELECT 'k' || g, 'v' FROM generate_series(1, 50) g;
SELECT nextval('shop."Numbers"') FROM generate_series(1, 7)});
	return;
}

my @ledger = ('SELECT count(*), sum(delta) FROM moves', 'SELECT count(*), sum(delta) FROM journal', 'SELECT (SELECT sum(balance) FROM accounts) = (SELECT sum(delta) FROM moves)', 'SELECT count(*) FROM touched', 'SELECT sum(n) FROM nokey');
sub ledger_of { my ($node, $db) = @_; return join ' ', map { $node->safe_psql($db, $_) } @ledger; }

sub move
{
	my ($what, $old, $new) = @_;
	$work = PostgreSQL::Test::Utils::tempdir();
	my $name = 'app_lsm';
	local $ENV{PGHOST} = $old->host;
	local $ENV{PGPORT} = $old->port;
	local $ENV{OLD} = $old->connstr('app') =~ s/'//gr;
	local $ENV{NEW} = $new->connstr($name) =~ s/'//gr;
	local $ENV{ADMIN} = $new->connstr('postgres') =~ s/'//gr;
	old_database($old);
	lsm_forget_stamps($old, 'app') if !lsm_knows_stamps($new);
	my $writers = start_load($old->connstr('app'), "$work/load");
	usleep(500_000);

	# checksums.sql is made above
	run_block($what, $blocks{'What a dump says'}[0]);
	run_block($what, $_) foreach @{ $blocks{Copy} };
	is($new->safe_psql($name, q{SELECT string_agg(DISTINCT amname, ',') FROM pg_class c JOIN pg_am a ON a.oid = relam JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind IN ('r', 'm') AND nspname IN ('public', 'shop')}), 'lsm', "$what: the new tables are lsm");
	usleep(1_500_000);
	is(waitpid($writers, POSIX::WNOHANG()), 0, "$what: the writers go on") or diag(slurp_file("$work/load"));

	my ($stop, $catch_up, $rest, $compare, $turn) = @{ $blocks{Switch} };
	run_block($what, $stop);
	waitpid($writers, 0);
	my $before = ledger_of($old, 'app');
	my ($rc, $out, $err) = $old->psql('app', 'INSERT INTO nokey VALUES (1000, 1)');
	like($err, qr/read-only transaction/, "$what: nobody writes to the old database");
	run_block($what, $_) foreach $catch_up, $rest;
	is(run_block($what, $compare), '', "$what: rows and sequences are the same");
	is(ledger_of($new, $name), $before, "$what: everything that was committed is there");
	like($before, qr/^\d{2,}\|/, "$what: which is not little: $before");
	# the comparison can fail
	$new->safe_psql($name, 'BEGIN; CREATE TABLE aside AS SELECT * FROM nokey WHERE id = 1; UPDATE nokey SET n = n + 1 WHERE id = 1; COMMIT');
	my $differs = '';
	ok(!IPC::Run::run([ 'sh', '-ec', $compare->[1] ], '>', \$differs, init => sub { chdir $work }), "$what: one row more would be noticed");
	$new->safe_psql($name, 'UPDATE nokey SET n = n - 1 WHERE id = 1; DROP TABLE aside');
	is(run_block($what, $compare), '', "$what: it was put back");
	run_block($what, $turn);
	BAIL_OUT('nothing to go on with') if !$old->safe_psql('app', 'SELECT count(*) FROM pg_subscription');

	# the other way round
	$writers = start_load($new->connstr($name), "$work/load2");
	usleep(2_000_000);
	is(waitpid($writers, POSIX::WNOHANG()), 0, "$what: users of the new database") or diag(slurp_file("$work/load2"));
	kill 'TERM', $writers;
	waitpid($writers, 0);
	# the last statements of its sessions run on for a moment
	lsm_wait_clients($new);
	my $end = $new->safe_psql($name, 'SELECT pg_current_wal_insert_lsn()');
	$new->poll_query_until($name, "SELECT confirmed_flush_lsn >= '$end' FROM pg_replication_slots WHERE slot_name = 'app_back'") or die 'the old database does not follow';
	my ($after, $there) = (ledger_of($new, $name), ledger_of($old, 'app'));
	is($there, $after, "$what: the old database has followed");
	isnt($after, $before, "$what: from something to something else");
	run_block($what, $_) foreach @{ $blocks{'The end, or back'} };
	is($_->[0]->safe_psql($_->[1], 'SELECT (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())), (SELECT count(*) FROM pg_replication_slots)'), '0|0|0', "$what: nothing is left behind in $_->[1]")
	  foreach [ $old, 'app' ], [ $new, $name ];
	$old->safe_psql('app', 'INSERT INTO nokey VALUES (1000, 1)');
	is($new->safe_psql($name, q{SELECT c.oid::regclass, v.* FROM pg_class c JOIN pg_am a ON a.oid = c.relam, LATERAL lsm_verify(c.oid) v WHERE amname IN ('lsm', 'lsm_index') AND relkind IN ('r', 'm', 'i')}), '', "$what: lsm_verify");
	return;
}

my $one = lsm_node('one', wal_level => 'logical', conf => $conf);
$one->start;
move('one cluster', $one, $one);
$one->safe_psql('postgres', 'DROP DATABASE app');
my $two = lsm_node('two', wal_level => 'logical', conf => $conf);
$two->start;
move('two clusters', $one, $two);
$two->safe_psql('postgres', 'DROP DATABASE app_lsm');
$one->stop;
foreach my $install (split ' ', $ENV{LSM_OLD_INSTALLS} // '')
{
	my ($version) = $install =~ /(\d+)$/;
	my $old = PostgreSQL::Test::Cluster->new("old$version", install_path => $install);
	$old->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
	# heap tables only: it need not have lsmam
	$old->append_conf('postgresql.conf', "wal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\nmax_logical_replication_workers = 10\nmax_worker_processes = 30");
	$old->start;
	move("from $version", $old, $two);
	$two->safe_psql('postgres', 'DROP DATABASE app_lsm');
	$old->stop;
}
foreach my $node ($one, $two)
{
	unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, 'no crash');
}
$two->stop;
done_testing();
