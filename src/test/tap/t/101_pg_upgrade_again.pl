# lsm_pg_upgrade where things are not as they should be: a transfer that was interrupted, and a server that ran before it was
# resumed; settings of the new cluster that would make other keys than there were; heap tables with lsm keys; databases that
# have the extension and no lsm relation; lists that are missing; more keyspaces than an argument list takes.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Path qw(make_path);
use File::Spec::Functions qw(rel2abs);

my $bin = (split /\n/, `which pg_upgrade`)[0] =~ s,/pg_upgrade$,,r;
my $work = PostgreSQL::Test::Utils::tempdir();

# a program that is run where it may write
sub run_in
{
	my (@command) = @_;
	my $out = '';
	my $ok = IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>&1', init => sub { chdir $work });
	note($out);
	return ($ok, $out);
}

sub upgrade
{
	my ($old, $new, $program, @more) = @_;
	return run_in("$bin/$program", '-b', $bin, '-B', $bin, '-d', rel2abs($old->data_dir), '-D', rel2abs($new->data_dir), '-p', $old->port, '-P', $new->port, '-s', $old->host, @more);
}

my $old = lsm_node('old', conf => 'autovacuum = off');
lsm_start($old);
# the directories of keyspaces by the files of their forks, as owner files say
sub keyspaces
{
	my ($node) = @_;
	my %found;
	foreach my $owner (glob(lsm_dir($node) . '/*/owner'))
	{
		my (undef, undef, $file) = split ' ', slurp_file($owner);
		$found{$file} = $owner =~ s,.*/([^/]+)/owner$,$1,r;
	}
	return \%found;
}
sub file_of { return $old->safe_psql('postgres', "SELECT relfilenode FROM pg_class WHERE relname = '$_[0]'"); }

$old->safe_psql('postgres', q{
CREATE TABLE good (id int PRIMARY KEY, v text) USING lsm;
CREATE TABLE bad (id int, v text) USING lsm;
CREATE TABLE empty (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO good SELECT g, 'old' || g FROM generate_series(1, 3000) g;
SELECT lsm_flush('good');
-- its keys are as they were, and are kept
CREATE TABLE was_lsm (id int PRIMARY KEY, v int CONSTRAINT was_lsm_v UNIQUE) USING lsm;
INSERT INTO was_lsm SELECT g, -g FROM generate_series(1, 2000) g;
ALTER TABLE was_lsm SET ACCESS METHOD heap;
CREATE TABLE with_option (id int PRIMARY KEY WITH (bits_per_key = 12)) USING lsm;
INSERT INTO with_option SELECT generate_series(1, 100);
-- an index of a partition beside the one that serves the key of all
CREATE TABLE part (a int, b int, CONSTRAINT z_part UNIQUE (a, b)) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (100) USING lsm;
CREATE UNIQUE INDEX a_part1 ON part1 USING lsm (a, b);
INSERT INTO part SELECT g % 100, g FROM generate_series(1, 1000) g;
SET lsm.constraint_index = btree;
CREATE TABLE with_btree (id int PRIMARY KEY) USING lsm;
INSERT INTO with_btree SELECT generate_series(1, 100);
CREATE DATABASE alone;
CREATE DATABASE by_database;
CREATE DATABASE without});
# no lsm relation, and keys of which it does not go without saying what they are
$old->safe_psql('alone', q{
CREATE EXTENSION lsmam;
CREATE TABLE plain (id int PRIMARY KEY);
CREATE TABLE p (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
INSERT INTO p SELECT generate_series(0, 99)});
$old->safe_psql('by_database', q{
CREATE EXTENSION lsmam;
CREATE TABLE t (id int PRIMARY KEY) USING lsm;
INSERT INTO t SELECT generate_series(1, 500);
ALTER DATABASE by_database SET lsm.constraint_index = btree});
$old->safe_psql('without', 'CREATE TABLE t (id int PRIMARY KEY)');

my $ams = q{SELECT c.oid, c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.relnamespace = 'public'::regnamespace ORDER BY c.oid};
sub ams { my ($node) = @_; return join "\n", map { $node->safe_psql($_, $ams) } 'postgres', 'alone', 'by_database'; }
my $ams_before = ams($old);
like($ams_before, qr/was_lsm\|heap\n(.*\n)*?\d+\|was_lsm_pkey\|lsm_index/, 'a heap table with a key that is lsm_index');
like($ams_before, qr/a_part1\|lsm_index/, 'an lsm index of a partition');

# ---- a transfer that stops in the middle ----

# Names are random.  The last one is to be that which fails: the others are there by then.
my %live = map { $_ => 1 } map { split /\n/, $old->safe_psql($_, q{SELECT relfilenode FROM pg_class WHERE relname <> 'bad'}) } 'postgres', 'by_database';
my ($bad, $last);
foreach my $try (1 .. 2000)
{
	my $keyspaces = keyspaces($old);
	$bad = $keyspaces->{ file_of('bad') };
	($last) = sort { $b cmp $a } map { $keyspaces->{$_} } grep { $live{$_} } keys %$keyspaces;
	last if $bad gt $last;
	$old->safe_psql('postgres', 'TRUNCATE bad');
}
ok($bad gt $last, 'the bad keyspace comes last');
$old->safe_psql('postgres', q{INSERT INTO bad SELECT g, 'old' || g FROM generate_series(1, 3000) g; SELECT lsm_flush('bad')});
my $sum = q{SELECT count(*), sum(id), md5(string_agg(v, ',' ORDER BY id)) FROM };
my %rows = map { $_ => $old->safe_psql('postgres', $sum . $_) } 'good', 'bad';
$old->stop;
my $obstacle = lsm_dir($old) . "/$bad/000999.sst";
mkdir $obstacle or die;

my $new = lsm_node('new', conf => "autovacuum = off\nlsm.constraint_index = btree");
my $new_data = rel2abs($new->data_dir);
my ($ok, $out) = upgrade($old, $new, 'lsm_pg_upgrade', '-j', '2');
ok(!$ok, 'one keyspace cannot be transferred');
like($out, qr/could not transfer .*; mend the cause and run lsm_pg_upgrade --transfer/, 'it says so');
is(join(' ', glob("$new_data/pg_lsm/*.upgrade")), '', 'and leaves no half of it');
ok(!-d "$new_data/pg_lsm/$bad", 'the bad one is not there');
# as a script leaves it that is killed
-d "$new_data/pg_lsm/$bad.upgrade" or mkdir "$new_data/pg_lsm/$bad.upgrade" or die;

$new->start;
is(ams($new), $ams_before, 'keys have the access methods that they had');
is($new->safe_psql('postgres', $sum . 'good'), $rows{good}, 'the good table');
my ($rc, $o, $err) = $new->psql('postgres', 'SELECT count(*) FROM bad');
like($err, qr/directory .* is missing/, 'the bad one');
$new->safe_psql('postgres', q{
INSERT INTO good SELECT g, 'new' || g FROM generate_series(10001, 13000) g;
UPDATE good SET v = 'changed' WHERE id % 3 = 0;
DELETE FROM good WHERE id % 7 = 0;
SELECT lsm_flush('good');
SELECT lsm_compact('good')});
my $changed = $new->safe_psql('postgres', $sum . 'good');
$new->stop;
rmdir $obstacle or die;

($ok, $out) = upgrade($old, $new, 'lsm_pg_upgrade', '--transfer');
ok($ok, 'lsm_pg_upgrade --transfer');
like($out, qr/those of \d+ were there already, and stay as they are/, 'says what it has left alone');
is(join(' ', glob("$new_data/pg_lsm/*upgrade*")), '', 'nothing is left over');
$new->start;
is($new->safe_psql('postgres', $sum . 'good'), $changed, 'what the new server has changed is there');
is($new->safe_psql('postgres', $sum . 'bad'), $rows{bad}, 'the bad table is good');
is($new->safe_psql('postgres', join ';', map { "SELECT '$_', * FROM lsm_verify('$_')" } 'good', 'bad', 'empty', 'was_lsm_pkey', 'was_lsm_v', 'with_option', 'with_btree', 'part1', 'a_part1'), '', 'lsm_verify finds nothing');
is($new->safe_psql('postgres', 'SET enable_seqscan = off; SELECT v FROM was_lsm WHERE id = 77; SELECT id FROM was_lsm WHERE v = -78; SELECT count(*) FROM with_btree WHERE id = 5; SELECT count(*) FROM with_option WHERE id = 5; SELECT count(*) FROM part WHERE a = 5 AND b = 5'), "-77\n78\n1\n1\n1", 'rows by their keys');
is($new->safe_psql('by_database', 'SET enable_seqscan = off; SELECT count(*) FROM t WHERE id = 5'), '1', 'and in the database with a setting');
is($new->safe_psql('alone', 'SET enable_seqscan = off; SELECT count(*) FROM p WHERE a = 5'), '1', 'and with the extension alone');
($rc, $o, $err) = $new->psql('postgres', 'INSERT INTO was_lsm VALUES (5, 5)');
like($err, qr/duplicate key value/, 'keys are known');
$new->stop;

# ---- lists ----

# As an old server with 1.0 left it: none where there is no lsm relation.  A server that pg_upgrade has started looks there.
my $lists = "$work/lists";
make_path("$lists/pg_lsm");
$new->start;
my %oid = map { $_ => $new->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = '$_'") } 'alone', 'by_database';
$new->stop;
sub single
{
	my ($database, @statements) = @_;
	my $out = '';
	# --single cannot be in binary upgrade mode: the server is
	return IPC::Run::run([ 'psql', '-X', '-q', '-d', $database, '-h', $new->host, '-p', $new->port, '-v', 'ON_ERROR_STOP=1', map { ('-c', $_) } @statements ], '>', \$out, '2>&1') ? $out : "FAILED: $out";
}
is(system('pg_ctl', '-s', '-w', '-D', $new_data, '-l', "$work/binary.log", '-o', "-b -c lsm.pg_upgrade=$lists", 'start'), 0, 'a server in binary upgrade mode');
sub new_key
{
	my ($database, $table) = @_;
	return single($database, "DO \$\$BEGIN PERFORM binary_upgrade_set_next_index_pg_class_oid(90001), binary_upgrade_set_next_index_relfilenode(90001); ALTER TABLE ONLY $table ADD CONSTRAINT another UNIQUE (@{[ $table eq 'p' ? 'a' : 'id' ]}); END\$\$", "SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 'another'", 'DROP TABLE nothing');
}
like(new_key('alone', 'plain'), qr/could not open file/, 'no data directory at all: an error');
append_to_file("$lists/PG_VERSION", "15\n");
like(new_key('by_database', 't'), qr/could not open file .*HINT:.*lsm_pg_upgrade/s, 'no list, and an lsm table: an error');
like(new_key('alone', 'plain'), qr/btree/, 'no list, and a heap table: btree');
append_to_file("$lists/pg_lsm/upgrade.$oid{by_database}", "7\n90001\n8\n");
like(new_key('by_database', 't'), qr/lsm_index/, 'a key of the list');
append_to_file("$lists/pg_lsm/upgrade.$oid{by_database}", "garbage\n");
like(new_key('by_database', 't'), qr/could not read file/, 'a list that is none');
system('pg_ctl', '-s', '-w', '-D', $new_data, '-m', 'fast', 'stop');

# ---- more keyspaces than an argument list takes ----

my $names = 6000;
my ($from, $to) = ("$work/from", "$work/to");
foreach my $dir ($from, $to)
{
	make_path("$dir/pg_lsm");
	append_to_file("$dir/PG_VERSION", "15\n");
}
foreach my $i (1 .. $names)
{
	mkdir sprintf('%s/pg_lsm/%016x', $_, $i) or die foreach $from, $to;
}
my $one = 'pg_lsm/00000000deadbeef';
mkdir "$from/$one" or die;
append_to_file("$from/$one/owner", "1 2 3 -1\n");
append_to_file("$from/pg_lsm/upgrade.5", '');
sub transfer { return run_in('sh', '-c', 'ulimit -s 512; exec "$0" "$@"', "$bin/lsm_pg_upgrade", '--transfer', '-B', $bin, '-d', $from, '-D', $to, @_); }
($ok, $out) = transfer('-j4', '-p5432', '-P5433', '-Upostgres', '-s/tmp', '-o-F', '-O-F', '--sync-method', 'fsync', '--set-char-signedness', 'unsigned', '--copy-file-range');
ok($ok, 'many keyspaces, and options in all their forms');
like($out, qr/files of 1 lsm tables and indexes transferred \(copy\)\n.*those of $names were there/, 'all were seen');
ok(-f "$to/$one/owner", 'the one is there');
ok(!-e "$from/pg_lsm/upgrade.5", 'lists are removed');
($ok, $out) = transfer('-kr');
like($out, qr/write options one by one/, 'letters together are refused');

# what cannot be read is not empty
foreach my $dir ("$from/$one", "$from/pg_lsm")
{
	system('rm', '-rf', "$to/$one");
	chmod 0000, $dir;
	($ok, $out) = transfer();
	chmod 0700, $dir;
	ok(!$ok, 'a directory that cannot be read');
	ok(!-e "$to/$one", 'nothing is there in its place');
}

done_testing();
