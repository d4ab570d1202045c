# lsm_verify() says what is wrong, in the order of the relations; it runs as the table's owner, and only what the caller
# may have it run; an error or a cancel ends it, and nothing is left behind.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

lsm_seed();
my $node = lsm_node('node', conf => "max_wal_senders = 4\nautovacuum = off\nlsm.compaction_workers = 0\nlsm.memtable_size = 256kB\nlsm.target_file_size = 64kB");
$node->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($node);

sub problems_of
{
	my ($relation) = @_;
	return $node->safe_psql('postgres', "SELECT object, problem FROM lsm_verify('$relation')");
}

$node->safe_psql('postgres', q{
CREATE FUNCTION lies(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
CREATE TABLE t (id int PRIMARY KEY, n int, v text) USING lsm;
INSERT INTO t SELECT g, g % 100, 'value ' || g FROM generate_series(1, 12000) g;
CREATE INDEX t_n ON t USING lsm (n);
CREATE INDEX t_v ON t USING lsm (v);
CREATE INDEX t_lies ON t USING lsm (lies(id));
CREATE INDEX t_part ON t USING lsm (n) WHERE lies(id) < 6000;
CREATE TABLE h (id int, v text) USING heap;
INSERT INTO h SELECT g, 'value ' || g FROM generate_series(1, 12000) g;
CREATE INDEX h_v ON h USING lsm (v);
CREATE INDEX h_lies ON h USING lsm (lies(id)) WHERE lies(id) > 3000;
SELECT lsm_flush('t'), lsm_flush('h_v');
UPDATE t SET n = n + 1 WHERE id % 7 = 0;
DELETE FROM t WHERE id % 11 = 0;
UPDATE h SET v = v || '!' WHERE id % 5 = 0;
});
is($node->safe_psql('postgres', "SELECT * FROM lsm_verify('t'); SELECT * FROM lsm_verify('h');"), '', 'all is well');
cmp_ok(scalar(lsm_files_of($node, qr/\.sst$/)), '>', 8, 'there are several files');

# ---- indexes that do not have what the table says ----

$node->safe_psql('postgres', q{CREATE OR REPLACE FUNCTION lies(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN CASE WHEN $1 % 40 = 3 THEN $1 + 100000 ELSE $1 END; END';});
like(problems_of('t'), qr/^t_lies\|row .* is not found by its key\n.*t_part\|a complete index scan returns row/s, 'some entries are wrong: t');
like(problems_of('h'), qr/^h_lies\|row .* is not found by its key/, 'some entries are wrong: h');
like(problems_of('t_part'), qr/^t_part\|a complete index scan returns row/, 'some entries are wrong: t_part');
is(join(' ', problems_of('t') =~ /^(\w+)\|row \((\d+),/mg), join(' ', map { "t_lies $_" } sort { $a <=> $b } problems_of('t') =~ /^t_lies\|row \((\d+),/mg), 'in the order of the rows');
$node->safe_psql('postgres', q{CREATE OR REPLACE FUNCTION lies(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN -$1; END';});
like(problems_of($_), qr/more problems of this relation are not listed/, "all entries are wrong: $_") foreach 't', 'h';
is(scalar(() = $node->safe_psql('postgres', "SELECT * FROM lsm_verify('t')") =~ /^t_lies\|/mg), 101, 'as many problems of an index as are worth it');
$node->safe_psql('postgres', q{CREATE OR REPLACE FUNCTION lies(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';});

# ---- files ----

$node->stop;
my @files = lsm_files_of($node);
my @damaged;
foreach my $file (@files)
{
	next unless rand() < 0.15 || @damaged == 0;
	push @damaged, $file;
	system('cp', '-p', $file, "$file.saved") == 0 or die;
	if (rand() < 0.2) { truncate($file, int((-s $file) / 2)) or die; next; }
	lsm_flip_bits($file, int(rand(-s $file)));
}
note('damaged: ' . join(' ', @damaged));

$node->start;
my $said = problems_of('t') . "\n" . problems_of('h');
foreach my $file (@damaged)
{
	my ($name) = $file =~ m{(pg_lsm/.*)};
	(my $sorted = $file) =~ s/flt$/sst/;
	# of a damaged sorted file the filter is not looked at
	next if $sorted ne $file && grep { $_ eq $sorted } @damaged;
	like($said, qr/^\S*\Q$name\E\|/m, 'a damaged file is named');
}
$node->stop;
foreach my $file (@damaged)
{
	rename("$file.saved", $file) or die "rename: $!";
}
$node->start;
is($node->safe_psql('postgres', "SELECT * FROM lsm_verify('t'); SELECT * FROM lsm_verify('h');"), '', 'all is well again');

# ---- who runs what ----

$node->safe_psql('postgres', q{
CREATE ROLE owner; CREATE ROLE reader; CREATE ROLE stranger; GRANT CREATE ON SCHEMA public TO owner;
CREATE FUNCTION who(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_user <> 'owner' THEN RAISE EXCEPTION 'this is %', current_user; END IF;
	RETURN $1;
END $$;
SET ROLE owner;
CREATE TABLE mine (id int, n int) USING lsm;
INSERT INTO mine SELECT g, g FROM generate_series(1, 3000) g;
CREATE INDEX mine_who ON mine USING lsm (who(id));
CREATE INDEX mine_n ON mine USING lsm (n);
SELECT lsm_flush('mine');
GRANT SELECT ON mine TO reader;
});
foreach my $role ('postgres', 'owner')
{
	my ($rc, $out, $err) = $node->psql('postgres', ($role eq 'postgres' ? '' : "SET ROLE $role;") . "SELECT * FROM lsm_verify('mine')");
	is("$rc $out $err", '0  ', "functions run as the owner, asked by $role");
}
my ($rc, $out, $err) = $node->psql('postgres', "SET ROLE reader; SELECT * FROM lsm_verify('mine')");
is("$rc $out", '0 ', 'nothing runs for a reader');
is(join(' ', $err =~ /WARNING:  (.*)/g), 'index "mine_who" was not compared with its table', 'and he is told so');
($rc, $out, $err) = $node->psql('postgres', "SET ROLE stranger; SELECT * FROM lsm_verify('mine')");
like($err, qr/permission denied/, 'a role without rights');

$node->safe_psql('postgres', q{
CREATE FUNCTION slow(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_setting('test.slow', true) = 'yes' THEN PERFORM pg_sleep(0.0005); END IF;
	RETURN $1;
END $$;
CREATE TABLE s (id int) USING lsm;
INSERT INTO s SELECT g FROM generate_series(1, 40000) g;
CREATE INDEX s_slow ON s USING lsm (slow(id));
});
# ---- cancelled, repeated, and nothing is left ----

my $session = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
$session->query_safe(q{SELECT count(*) FROM lsm_verify('t') a, lsm_verify('mine') b, lsm_verify('h') c, lsm_verify('s') d}) foreach 1 .. 5;

# (those of relations are kept open until their descriptors are wanted)
sub open_files
{
	my %n;
	foreach (map { readlink($_) // '' } glob("/proc/$pid/fd/*"))
	{
		s/\d+/N/g;
		$n{$_}++;
	}
	return \%n;
}
my $open = open_files();
my $memory = $session->query_safe('SELECT sum(total_bytes) FROM pg_backend_memory_contexts');
my $repetitions = lsm_long() ? 1000 : 60;
my $wrong = '';
my $errors = '';
foreach my $i (1 .. $repetitions)
{
	$wrong .= $session->query(q{SELECT object || problem FROM lsm_verify('mine') UNION ALL SELECT object || problem FROM lsm_verify('h')});
	next if $i % 5;
	$session->query_safe(q{SET test.slow = 'yes'; SET statement_timeout = '80ms';});
	$session->query(q{SELECT * FROM lsm_verify('s')});
	$errors .= $session->{stderr};
	$session->{stderr} = '';
	$session->query_safe(q{RESET statement_timeout; RESET test.slow;});
}
is($wrong, '', "$repetitions times in one session, and cancelled in between");
like($errors, qr/canceling statement due to statement timeout/, '(it was cancelled)');
my $now = open_files();
is(join(', ', map { "$_: " . ($open->{$_} // 0) . " before, $now->{$_} now" } grep { !m{/base/N/N$} && $now->{$_} > ($open->{$_} // 0) + 3 } sort keys %$now), '', 'files are closed');
cmp_ok($session->query_safe('SELECT sum(total_bytes) FROM pg_backend_memory_contexts'), '<', $memory + 2_000_000, 'memory is given back');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_tmpdir()}), '0', 'no temporary file is left');
$session->query_safe(q{SET ROLE owner; BEGIN; INSERT INTO mine VALUES (9999, 9999)});
is($session->query(q{SELECT object || problem FROM lsm_verify('mine')}), '', 'in a transaction that has written');
$session->query_safe(q{COMMIT; RESET ROLE; BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY});
is($session->query(q{SELECT object || problem FROM lsm_verify('mine')}), '', 'in a serializable one');
$session->query_safe('COMMIT');
$session->quit;

# each row is looked up once in each index
$node->safe_psql('postgres', "SELECT pg_stat_lsm_reset()");
problems_of('mine');
like($node->safe_psql('postgres', q{SELECT relname, lookups >= 3000 FROM pg_stat_lsm WHERE relname IN ('mine_n', 'mine_who') ORDER BY 1}), qr/^mine_n\|t\nmine_who\|t$/, 'lookups are counted');

# ---- errors that are caught; what this transaction has made ----

$node->safe_psql('postgres', q{
CREATE FUNCTION refuses(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_setting('test.refuses', true) = 'yes' AND $1 % 1000 = 900 THEN RAISE EXCEPTION 'refused'; END IF;
	RETURN $1;
END $$;
SET ROLE owner;
CREATE INDEX mine_refuses ON mine USING lsm (refuses(id));
});
is($node->safe_psql('postgres', q{
DO $$
DECLARE caught int := 0;
BEGIN
	FOR i IN 1 .. 20 LOOP
		BEGIN
			SET LOCAL test.refuses = 'yes';
			PERFORM * FROM lsm_verify('mine');
		EXCEPTION WHEN raise_exception THEN caught := caught + 1;
		END;
		IF current_user <> session_user THEN RAISE EXCEPTION 'still %', current_user; END IF;
		SET LOCAL test.refuses = 'no';
		IF EXISTS (SELECT FROM lsm_verify('mine')) THEN RAISE EXCEPTION 'a problem'; END IF;
	END LOOP;
	IF caught <> 20 THEN RAISE EXCEPTION 'caught %', caught; END IF;
END $$;
SELECT count(*) FROM pg_ls_tmpdir();
}), '0', 'errors are caught, and it works afterwards');
is($node->safe_psql('postgres', q{
BEGIN;
SET LOCAL ROLE owner;
CREATE TABLE new_one (id int, v text) USING lsm;
INSERT INTO new_one SELECT g, 'value ' || g FROM generate_series(1, 3000) g;
CREATE INDEX new_one_v ON new_one USING lsm (v);
SELECT * FROM lsm_verify('new_one');
SAVEPOINT a;
DELETE FROM new_one WHERE id % 3 = 0;
TRUNCATE mine;
INSERT INTO mine SELECT g, -g FROM generate_series(1, 2000) g;
SELECT * FROM lsm_verify('new_one');
SELECT * FROM lsm_verify('mine');
ROLLBACK TO a;
REINDEX INDEX new_one_v;
SELECT * FROM lsm_verify('new_one');
SELECT * FROM lsm_verify('mine');
ROLLBACK;
}), '', 'what the transaction itself has made, emptied, taken back');

# ---- beside who ends, freezes and removes ----

lsm_set($node, 'lsm.crash_point' => '?');
$node->restart;
$node->safe_psql('postgres', q{CREATE TABLE young (id int, v text) USING lsm; INSERT INTO young VALUES (1, 'a'), (2, 'b')});
my $verify = "SELECT * FROM lsm_verify('young')";
sub beside
{
	my ($what, $point, $sql) = @_;
	lsm_hold($node, $point, 'backend');
	my $pid = lsm_start_session($node, 'postgres', 'verify', $verify);
	ok(lsm_wait_held($node), "$what: lsm_verify is held");
	$sql->();
	lsm_release($node);
	ok(lsm_ended($pid, 60), "$what: it ends");
	is(lsm_output('verify'), '', "$what: nothing is wrong");
	return;
}

my $writer = $node->background_psql('postgres');
foreach my $change (q{INSERT INTO young VALUES (0, 'c')}, q{DELETE FROM young})
{
	$writer->query_safe('BEGIN');
	$writer->query_safe($change);
	beside($change, 'verify_row_hidden', sub {
		$writer->query_safe('ROLLBACK');
		$node->safe_psql('postgres', 'VACUUM young');
	});
	$node->safe_psql('postgres', 'UPDATE young SET v = v');
	$node->safe_psql('postgres', 'VACUUM young');
}
$writer->quit;
beside('frozen meanwhile', 'verify_row_read', sub {
	$node->safe_psql('postgres', 'ALTER DATABASE template0 ALLOW_CONNECTIONS true');
	$node->safe_psql('postgres', 'SELECT txid_current()') foreach 1 .. 5;
	$node->safe_psql($_, 'VACUUM (FREEZE)') foreach 'template0', 'template1', 'postgres';
});

# ---- beside a compaction: problems of files that have been replaced are none ----

$node->safe_psql('postgres', q{CREATE TABLE mended (id int, v text) USING lsm; CREATE INDEX mended_id ON mended USING lsm (id); INSERT INTO mended SELECT i, md5(i::text) FROM generate_series(1, 5000) i; SELECT lsm_flush('mended'), lsm_flush('mended_id'); CHECKPOINT});
my $keyspace = sprintf('%016x', unpack('x32 Q', slurp_file($node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('mended_id')}))));
foreach my $suffix ('flt', 'sst')
{
	my ($damaged) = glob(lsm_dir($node) . "/$keyspace/*.$suffix");
	$node->safe_psql('postgres', 'ALTER INDEX mended_id SET (bits_per_key = ' . ($suffix eq 'flt' ? 16 : 20) . ')');
	lsm_flip_bits($damaged, 70, 0xff);
	lsm_hold($node, 'verify_file_read', 'backend');
	my $pid = lsm_start_session($node, 'postgres', 'verify', $verify =~ s/young/mended/r);
	ok(lsm_wait_held($node), "$suffix that is replaced: lsm_verify is held");
	lsm_flip_bits($damaged, 70, 0xff);
	$node->safe_psql('postgres', q{SELECT lsm_compact('mended_id')});
	lsm_release($node);
	ok(lsm_ended($pid, 60), "$suffix that is replaced: it ends");
	is(lsm_output('verify'), '', "$suffix that is replaced: nothing is wrong");
}

# ---- on a standby ----

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT * FROM lsm_verify('t'); SELECT * FROM lsm_verify('h'); SELECT * FROM lsm_verify('mine');"), '', 'on a standby');
$standby->stop;
$node->stop;
done_testing();
