# pg_upgrade of a cluster with lsm tables and indexes, by lsm_pg_upgrade: the tables are equal to their heap twins, every
# key has the access method that it had, and goes on working; by copy, clone and link.  Without the script: pg_upgrade refuses,
# with --check, too; if the sorted files are forgotten, tables say so and nothing is lost.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Spec::Functions qw(rel2abs);

lsm_seed();
my $bin = (split /\n/, `which pg_upgrade`)[0];
$bin =~ s,/pg_upgrade$,,;
ok(-x "$bin/lsm_pg_upgrade", 'the script is installed');
my $work = PostgreSQL::Test::Utils::tempdir();

sub old_cluster
{
	my ($name) = @_;
	my $node = lsm_node($name, conf => "autovacuum = off\nlsm.memtable_size = 64kB\nlsm.target_file_size = 64kB");
	lsm_start($node);
	foreach my $db ('postgres', 'odd "db" \'x')
	{
		$node->safe_psql('postgres', 'CREATE DATABASE "odd ""db"" \'x"') if $db ne 'postgres';
		$node->safe_psql($db, q{CREATE EXTENSION IF NOT EXISTS lsmam; CREATE TYPE mood AS ENUM ('sad', 'ok'); ALTER TYPE mood ADD VALUE 'meh' BEFORE 'ok'});
		lsm_create_twins($node, 't', 'id int PRIMARY KEY, n int, v text', '(n)', '(v, n)') if $db eq 'postgres';
		$node->safe_psql($db, q{
CREATE TABLE key_lsm (id int PRIMARY KEY, m mood, j jsonb, big text) USING lsm;
CREATE INDEX key_m ON key_lsm USING lsm (m, id);
CREATE INDEX key_j ON key_lsm USING lsm (j);
INSERT INTO key_lsm SELECT g, (enum_range(NULL::mood))[1 + g % 3], jsonb_build_object('k', g % 10), repeat(md5(g::text), 300) FROM generate_series(1, 3000) g;
SET lsm.constraint_index = btree;
CREATE TABLE key_btree (id int PRIMARY KEY, b text UNIQUE) USING lsm;
INSERT INTO key_btree SELECT g, 'b' || g FROM generate_series(1, 2000) g;
RESET lsm.constraint_index;
CREATE TABLE parent (id int PRIMARY KEY, v text) USING lsm;
CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent) USING lsm;
INSERT INTO parent SELECT g, 'p' FROM generate_series(1, 500) g;
INSERT INTO child SELECT g, g FROM generate_series(1, 500) g;
CREATE TABLE part (a int, b int, PRIMARY KEY (a, b)) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (100) USING lsm;
CREATE TABLE part2 PARTITION OF part FOR VALUES FROM (100) TO (200) USING lsm;
CREATE INDEX ON part USING lsm (b);
INSERT INTO part SELECT g % 200, g FROM generate_series(1, 1000) g;
CREATE TABLE on_heap (id int PRIMARY KEY, v text) USING heap;
CREATE INDEX on_heap_v ON on_heap USING lsm (v);
INSERT INTO on_heap SELECT g, 'v' || g % 100 FROM generate_series(1, 2000) g;
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY) USING lsm;
INSERT INTO unlogged SELECT generate_series(1, 700);
CREATE TABLE empty (id int PRIMARY KEY) USING lsm;
CREATE MATERIALIZED VIEW seen USING lsm AS SELECT id, m FROM key_lsm;
CREATE TABLE dropped (id int, gone int, v text) USING lsm; INSERT INTO dropped SELECT g, g, 'd' || g FROM generate_series(1, 100) g; ALTER TABLE dropped DROP COLUMN gone;
SELECT lsm_flush('key_lsm'), lsm_flush('on_heap_v');
DELETE FROM key_lsm WHERE id % 10 = 0;
UPDATE key_lsm SET m = 'sad' WHERE id % 7 = 0;
VACUUM (FREEZE) key_btree; VACUUM (FREEZE) on_heap});
	}
	foreach my $x ('h', 'l')
	{
		$node->safe_psql('postgres', "BEGIN; INSERT INTO t_$x SELECT g, g % 50, repeat(md5(g::text), 3) FROM generate_series(1, 6000) g; COMMIT");
		$node->safe_psql('postgres', "UPDATE t_$x SET v = 'u' WHERE n = 7; DELETE FROM t_$x WHERE id % 3 = 0; BEGIN; INSERT INTO t_$x SELECT -g, 1, 'gone' FROM generate_series(1, 300) g; ROLLBACK; INSERT INTO t_$x SELECT 10000 + g, 1, 'in memory' FROM generate_series(1, 50) g");
	}
	return $node;
}

sub new_cluster { my ($name) = @_; return lsm_node($name, conf => 'autovacuum = off'); }

# which transaction made a row is shown, as in heap tables, whether it is frozen or not
my $makers = join '; ', map { "SELECT 'makers', '$_', count(DISTINCT xmin::text), md5(string_agg(xmin::text, ',' ORDER BY id)) FROM $_" } 'key_lsm', 'key_btree', 'on_heap', 'child';
my $summary = qq{
SELECT 'am', c.oid, c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.relnamespace = 'public'::regnamespace ORDER BY c.oid;
SELECT 'key_lsm', count(*), md5(string_agg(id || m::text || j::text || md5(big), ',' ORDER BY id)) FROM key_lsm;
SELECT 'key_btree', count(*), md5(string_agg(id || b, ',' ORDER BY id)) FROM key_btree;
SELECT 'child', count(*), sum(p) FROM child; SELECT 'part', count(*), sum(b) FROM part;
SELECT 'on_heap', count(*), sum(id) FROM on_heap; SELECT 'unlogged', count(*) FROM unlogged; SELECT 'empty', count(*) FROM empty;
SELECT 'seen', count(*), count(DISTINCT m) FROM seen; SELECT 'dropped', * FROM dropped WHERE id = 50;
SET enable_seqscan = off;
SELECT 'by index', (SELECT count(*) FROM key_lsm WHERE m = 'meh'), (SELECT count(*) FROM key_lsm WHERE j = '{"k": 3}'), (SELECT string_agg(DISTINCT m::text, ',') FROM key_lsm WHERE m > 'sad'), (SELECT count(*) FROM on_heap WHERE v = 'v7'), (SELECT count(*) FROM part WHERE b = 77);
$makers;
SELECT 'frozen', relname, relfrozenxid, relminmxid FROM pg_class WHERE relname IN ('key_lsm', 't_l', 'seen') ORDER BY relname;
};
my @tables = ('key_lsm', 'key_btree', 'parent', 'child', 'part1', 'part2', 'unlogged', 'empty', 'seen', 'dropped', 'on_heap_v');

# everything about a cluster that is running
sub state_of
{
	my ($node) = @_;
	return join "\n", lsm_differences($node, 't'), map { $node->safe_psql($_, $summary) } 'postgres', 'odd "db" \'x';
}

my $ids = 20_000;
sub check_new
{
	my ($node, $what, $before) = @_;
	is(state_of($node), $before, "$what: all is as it was");
	foreach my $db ('postgres', 'odd "db" \'x')
	{
		is($node->safe_psql($db, join ';', map { "SELECT '$_', * FROM lsm_verify('$_')" } grep { $_ ne 'part' } @tables), '', "$what: lsm_verify finds nothing");
	}
	# and it goes on: keys, writes, flush, compaction, crash
	my ($rc, $out, $err) = $node->psql('postgres', 'INSERT INTO key_lsm VALUES (1)');
	like($err, qr/duplicate key value/, "$what: keys are known");
	($rc, $out, $err) = $node->psql('postgres', 'INSERT INTO child VALUES (1000, 1000)');
	like($err, qr/foreign key/, "$what: foreign keys hold");
	$node->safe_psql('postgres', "INSERT INTO t_$_ SELECT $ids + g, g % 50, 'new' FROM generate_series(1, 2000) g; DELETE FROM t_$_ WHERE n = 3; UPDATE t_$_ SET n = n + 1 WHERE id % 5 = 0") foreach 'h', 'l';
	$ids += 10_000;
	my $made = $node->safe_psql('postgres', $makers);
	$node->safe_psql('postgres', q{SELECT lsm_flush('t_l'); SELECT lsm_compact('t_l'); VACUUM t_l; VACUUM FREEZE key_lsm; VACUUM FREEZE key_btree; VACUUM FREEZE on_heap; VACUUM FREEZE child});
	is($node->safe_psql('postgres', $makers), $made, "$what: frozen rows show their makers");
	is(lsm_differences($node, 't'), '', "$what: writes, flush, compaction");
	$node->stop('immediate');
	lsm_start($node);
	is(lsm_differences($node, 't'), '', "$what: a crash");
	is($node->safe_psql('postgres', "SELECT * FROM lsm_verify('t_l')"), '', "$what: lsm_verify after that");
	return;
}

sub upgrade
{
	my ($old, $new, $program, @more) = @_;
	my @command = ($program, '-b', $bin, '-B', $bin, '-d', rel2abs($old->data_dir), '-D', rel2abs($new->data_dir), '-p', $old->port, '-P', $new->port, '-s', $old->host, @more);
	my $out = '';
	# it writes where it is run
	my $ok = IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>&1', init => sub { chdir $work });
	note($out);
	return ($ok, $out);
}

# ---- refused without the script ----

my $old = old_cluster('old');
my $before = state_of($old);
like($before, qr/key_lsm_pkey\|lsm_index/, 'one key is lsm_index');
like($before, qr/key_btree_pkey\|btree/, 'another is btree');
my $new = new_cluster('new');
my ($ok, $out) = upgrade($old, $new, "$bin/lsm_pg_upgrade", '--check');
ok($ok, 'lsm_pg_upgrade --check beside the running server');
($ok, $out) = upgrade($old, $new, "$bin/pg_upgrade", '--check');
ok(!$ok, 'pg_upgrade --check refuses');
($ok, $out) = upgrade($old, $new, "$bin/lsm_pg_upgrade");
ok(!$ok, 'lsm_pg_upgrade refuses a running server');
like($out, qr/stop the server/, 'and says so');
$old->stop;
($ok, $out) = upgrade($old, $new, "$bin/pg_upgrade");
ok(!$ok, 'pg_upgrade refuses');
lsm_start($old);
is(state_of($old), $before, 'the old cluster is as it was');
$old->stop;

# ---- copy, forgotten first ----

$new = new_cluster('new_copy');
{
	local $ENV{PGOPTIONS} = '-c lsm.pg_upgrade=' . rel2abs($old->data_dir);
	($ok, $out) = upgrade($old, $new, "$bin/pg_upgrade");
	ok($ok, 'pg_upgrade by who knows the setting');
}
lsm_start($new);
my ($rc, $o, $err) = $new->psql('postgres', 'SELECT count(*) FROM key_lsm');
like($err, qr/directory ".*" of lsm relation .* is missing.*HINT:.*lsm_pg_upgrade --transfer/s, 'forgotten sorted files: an error that says what to do');
($rc, $o, $err) = $new->psql('postgres', "INSERT INTO t_l VALUES (-99, 1, 'x')");
isnt($rc, 0, 'nothing is written');
($rc, $o, $err) = $new->psql('postgres', 'VACUUM key_lsm');
isnt($rc, 0, 'nor vacuumed');
sleep 2;
$new->stop;
($ok, $out) = upgrade($old, $new, "$bin/lsm_pg_upgrade", '--transfer');
ok($ok, 'lsm_pg_upgrade --transfer');
lsm_start($new);
check_new($new, 'copied later', $before);
$new->stop;
lsm_start($old);
is(state_of($old), $before, 'the old cluster is as it was, after all');
$old->stop;

$new = new_cluster('new_script');
($ok, $out) = upgrade($old, $new, "$bin/lsm_pg_upgrade", '-j', '2');
ok($ok, 'lsm_pg_upgrade');
lsm_start($new);
check_new($new, 'copied', $before);
ok(!glob($new->data_dir . '/pg_lsm/*upgrade*'), 'nothing is left over');

# ---- by clone, where the file system can ----

my $can = system("touch '$work/one' && cp --reflink=always '$work/one' '$work/two' 2>/dev/null") == 0;
my $clone = new_cluster('new_clone');
($ok, $out) = upgrade($old, $clone, "$bin/lsm_pg_upgrade", '--clone');
if ($can)
{
	ok($ok, 'lsm_pg_upgrade --clone');
	my ($file) = glob($clone->data_dir . '/pg_lsm/*/*.sst');
	is((stat $file)[3], 1, 'files are not linked');
	lsm_start($clone);
	check_new($clone, 'cloned', $before);
	$clone->stop;
}
else
{
	ok(!$ok, 'lsm_pg_upgrade --clone on a file system that cannot');
	like($out, qr/could not clone file/, 'says so');
	is(join(' ', glob($clone->data_dir . '/pg_lsm/*')), '', 'nothing is left over');
}
lsm_start($old);
is(state_of($old), $before, 'the old cluster is as it was');
$old->stop;

# ---- again, from that one, by link ----

$before = state_of($new);
$new->stop;
my $third = new_cluster('new_link');
($ok, $out) = upgrade($new, $third, "$bin/lsm_pg_upgrade", '--link');
ok($ok, 'lsm_pg_upgrade --link');
my ($file) = glob($third->data_dir . '/pg_lsm/*/*.sst');
is((stat $file)[3], 2, 'files are linked');
my $sums = `cd @{[ $new->data_dir ]}/pg_lsm && md5sum */*`;
lsm_start($third);
check_new($third, 'linked', $before);
is(`cd @{[ $new->data_dir ]}/pg_lsm && md5sum */*`, $sums, 'files that were linked are not written');
$third->stop;

# ---- a cluster without the library ----

my $bare = PostgreSQL::Test::Cluster->new('bare');
$bare->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
($ok, $out) = upgrade($old, $bare, "$bin/lsm_pg_upgrade");
ok(!$ok, 'a new cluster that does not preload the library');
like($out, qr/shared_preload_libraries/, 'is told so');

done_testing();
