# Databases with lsm tables: copied (both strategies, copies of copies), moved, dropped; of other locales.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = lsm_node('databases', conf => "allow_in_place_tablespaces = on\nautovacuum = off");
lsm_start($node);
$node->safe_psql('postgres', qq{CREATE TABLESPACE $_ LOCATION ''}) foreach 'other', 'third';
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q{
CREATE EXTENSION lsmam;
CREATE TABLE t (id int PRIMARY KEY, v text) USING lsm;
CREATE INDEX t_v ON t USING lsm (v) TABLESPACE other;
CREATE UNLOGGED TABLE u (id int PRIMARY KEY) USING lsm;
INSERT INTO t SELECT g, 'flushed ' || g FROM generate_series(1, 5000) g;
INSERT INTO u SELECT generate_series(1, 100);
SELECT lsm_flush('t');
UPDATE t SET v = 'memory ' || id WHERE id % 10 = 0});

my $sum = q{SELECT count(*), sum(id), count(*) FILTER (WHERE v LIKE 'memory%') FROM t};
my $all = $node->safe_psql('source', $sum);

sub check
{
	my ($db, $what, $expected) = @_;
	is($node->safe_psql($db, $sum), $expected // $all, "$what: content");
	is($node->safe_psql($db, q{SET enable_seqscan = off; SELECT id FROM t WHERE v = 'memory 4990'; SELECT v FROM t WHERE id = 4991}), "4990\nflushed 4991", "$what: by key");
	is($node->safe_psql($db, q{SELECT * FROM lsm_verify('t')}), '', "$what: lsm_verify");
	return;
}

foreach my $strategy ('wal_log', 'file_copy')
{
	$node->safe_psql('postgres', "CREATE DATABASE copy_$strategy TEMPLATE source STRATEGY $strategy");
	# nobody has opened the copy yet
	$node->safe_psql('postgres', "CREATE DATABASE copy2_$strategy TEMPLATE copy_$strategy STRATEGY $strategy TABLESPACE third")
	  if $strategy eq 'wal_log';
	# the source goes on: its files are replaced
	$node->safe_psql('source', q{BEGIN; DELETE FROM t; ROLLBACK; VACUUM t; SELECT lsm_compact('t'); CHECKPOINT});
	check("copy_$strategy", $strategy);
	is($node->safe_psql("copy_$strategy", 'SELECT count(*) FROM u'), 100, "$strategy: unlogged table");
	$node->safe_psql("copy_$strategy", q{DELETE FROM t WHERE id <= 1000; SELECT lsm_compact('t')});
	check('source', "source after a change in the copy ($strategy)");
	check("copy2_$strategy", "copy of a copy") if $strategy eq 'wal_log';
	$node->safe_psql('postgres', "CREATE DATABASE copy3_$strategy TEMPLATE copy_$strategy");
	is($node->safe_psql("copy3_$strategy", 'SELECT count(*), min(id) FROM t'), '4000|1001', "$strategy: copy of a copy in use");
}

# locales: a key is lsm_index where that keeps its order; what is read in the order of the key is as on heap
my %locales = (
	c => [ "LOCALE 'C'", 1 ],
	posix => [ "LOCALE 'POSIX'", 1 ],
	c_utf8 => [ "LOCALE 'C.UTF-8'", 1 ],
	icu => [ "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'", 1 ],
	icu_c => [ "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'", 1 ]);
$locales{en_us} = [ "LOCALE 'en_US.UTF-8'", 1 ] if `locale -a 2>/dev/null` =~ /^en_US\.utf-?8$/mi;
foreach my $name (sort keys %locales)
{
	my ($locale, $ordered) = @{ $locales{$name} };
	my $db = "locale_$name";
	my $text_am = $ordered ? 'lsm_index' : 'btree';
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0 $locale");
	$node->safe_psql($db, q{
CREATE EXTENSION lsmam;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE h (t text PRIMARY KEY, c text COLLATE "C" UNIQUE, n name UNIQUE, d text COLLATE "default" UNIQUE, i int, m mood, x text COLLATE "en-x-icu" UNIQUE, UNIQUE (i, t), UNIQUE (m, i)) USING heap;
CREATE TABLE l (LIKE h INCLUDING ALL) USING lsm;
INSERT INTO h SELECT v, v, v, v, g, 'ok', v FROM (SELECT chr(40 + g % 80) || CASE g % 3 WHEN 0 THEN 'B' WHEN 1 THEN 'b' ELSE 'é' END || g AS v, g FROM generate_series(1, 2000) g) s;
INSERT INTO l SELECT * FROM h;
VACUUM ANALYZE h, l});
	is($node->safe_psql($db, q{SELECT string_agg(c.relname || ' ' || amname, ',' ORDER BY c.relname COLLATE "C") FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = c.relam WHERE indrelid = 'l'::regclass}),
		"l_c_key lsm_index,l_d_key $text_am,l_i_t_key $text_am,l_m_i_key lsm_index,l_n_key lsm_index,l_pkey $text_am,l_x_key lsm_index", "$name: access methods of keys");
	foreach my $query (q{SELECT t FROM @ WHERE t >= 'b' ORDER BY t LIMIT 50}, q{SELECT t FROM @ WHERE t < 'C' ORDER BY t DESC LIMIT 50},
		q{SELECT t FROM @ WHERE i = 77 ORDER BY t}, q{SELECT x FROM @ WHERE x > 'm' ORDER BY x LIMIT 20}, q{SELECT c FROM @ WHERE c > 'Z' ORDER BY c LIMIT 20})
	{
		my $plan = $node->safe_psql($db, 'SET enable_bitmapscan = off; EXPLAIN (COSTS OFF) ' . $query =~ s/@/l/r);
		ok($plan =~ /Index/ && $plan !~ /Sort|Seq Scan/, "$name: in order by index: $query") or diag($plan);
		is($node->safe_psql($db, $query =~ s/@/l/r), $node->safe_psql($db, $query =~ s/@/h/r), "$name: as heap: $query");
	}
	my ($rc, $out, $err) = $node->psql($db, q{CREATE INDEX ON h USING lsm (t); CREATE INDEX ON l USING lsm_index (c)});
	is($err =~ /column "t" of index "h_t_idx" supports equality only/ ? 0 : 1, $ordered, "$name: CREATE INDEX ... USING lsm tells");
	unlike($err, qr/"c"/, "$name: not of a column in order");
	is($node->safe_psql($db, q{ALTER TABLE l DROP CONSTRAINT l_pkey, ADD PRIMARY KEY (i); ALTER TABLE l ALTER i TYPE text;
SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 'l_pkey'}), $text_am, "$name: ALTER COLUMN TYPE");
}

# a crash after CREATE DATABASE, before anyone has opened it
$node->safe_psql('postgres', 'CREATE DATABASE crashed TEMPLATE source');
$node->stop('immediate');
$node->start;
check('crashed', 'after a crash');
is($node->safe_psql('crashed', 'SELECT count(*) FROM u'), 0, 'the unlogged table is reset');
$node->safe_psql('crashed', q{INSERT INTO t VALUES (0, 'new'); ALTER INDEX t_v SET TABLESPACE pg_default});
check('crashed', 'index moved', join('|', 5001, (split /\|/, $all)[1, 2]));

# a crash leaves a fork that names an index's keyspace and is no relation's; then its list is out of date
my $session = $node->background_psql('source');
$session->query_safe('BEGIN; ALTER INDEX t_pkey SET TABLESPACE third; ALTER INDEX t_v SET TABLESPACE third');
$node->safe_psql('postgres', 'CHECKPOINT');
my @pids = lsm_pids($node);
kill 'KILL', @pids;
lsm_restart_after_crash($node, @pids);
foreach my $what ('a fork is left over', 'it is out of date')
{
	foreach my $strategy ('wal_log', 'file_copy')
	{
		$node->safe_psql('postgres', "CREATE DATABASE left_over TEMPLATE source STRATEGY $strategy");
		check('left_over', "$strategy: $what");
		$node->safe_psql('postgres', 'DROP DATABASE left_over');
	}
	$node->safe_psql('source', q{BEGIN; DELETE FROM t; ROLLBACK; VACUUM t; SELECT lsm_compact('t'), lsm_compact('t_pkey'), lsm_compact('t_v')});
}

# ... and the relation is gone
$node->safe_psql('postgres', 'CREATE DATABASE gone TEMPLATE source STRATEGY file_copy');
$session = $node->background_psql('gone');
$session->query_safe('BEGIN; ALTER INDEX t_v SET TABLESPACE third');
$node->safe_psql('postgres', 'CHECKPOINT');
@pids = lsm_pids($node);
kill 'KILL', @pids;
lsm_restart_after_crash($node, @pids);
$node->safe_psql('gone', q{UPDATE t SET v = v || 'x'; VACUUM t; SELECT lsm_compact('t_v'); UPDATE t SET v = left(v, -1); DROP INDEX t_v; CREATE INDEX t_v ON t USING lsm (v)});
$node->safe_psql('postgres', 'CREATE DATABASE left_over TEMPLATE gone STRATEGY file_copy');
check('left_over', 'a fork is left over, without the relation');
$node->safe_psql('postgres', 'DROP DATABASE left_over');
$node->safe_psql('postgres', 'DROP DATABASE gone');

# the OID of a dropped database: its files may be there still
foreach my $time (1 .. 3)
{
	$node->safe_psql('postgres', 'CREATE DATABASE same_oid TEMPLATE source OID = 70000');
	check('same_oid', "the same OID, time $time");
	$node->safe_psql('same_oid', q{DELETE FROM t WHERE id > 100; SELECT lsm_compact('t')});
	$node->safe_psql('source', q{BEGIN; DELETE FROM t; ROLLBACK; VACUUM t; SELECT lsm_compact('t')});
	$node->safe_psql('postgres', 'DROP DATABASE same_oid');
}

# two look alike: an index of an unopened copy moved and rolled back
$node->safe_psql('postgres', 'CREATE DATABASE moved TEMPLATE source');
$node->safe_psql('moved', q{BEGIN; ALTER INDEX t_pkey SET TABLESPACE other; INSERT INTO t VALUES (-1, 'gone'); ROLLBACK});
check('moved', 'move rolled back');
$node->safe_psql('postgres', 'ALTER DATABASE moved SET TABLESPACE third');
check('moved', 'database moved');

# the owner files of a database that was moved do not say so: the sweep finds its forks, and removes what nobody names
$node->safe_psql('postgres', 'CREATE DATABASE unopened TEMPLATE source');
$node->safe_psql('postgres', 'ALTER DATABASE unopened SET TABLESPACE third');
my $orphan = lsm_dir($node) . '/00000000000000aa';
mkdir $orphan or die "$orphan: $!";
foreach (1 .. $PostgreSQL::Test::Utils::timeout_default)
{
	$node->safe_psql('postgres', 'CREATE TEMP TABLE logged (); CHECKPOINT');
	last if !-d $orphan;
	usleep(1_000_000);
}
ok(!-d $orphan, 'an orphan is removed');
check('unopened', 'moved, and not opened before the sweep has looked');

# where nobody does anything there is no second checkpoint that could be waited for
$node->safe_psql('postgres', q{ALTER SYSTEM SET checkpoint_timeout = '1d'; SELECT pg_reload_conf()});
my %before = map { $_ => 1 } glob(lsm_dir($node) . '/????????????????');
$node->safe_psql('postgres', 'CREATE DATABASE idle TEMPLATE source STRATEGY wal_log');
my @idle = grep { !$before{$_} } glob(lsm_dir($node) . '/????????????????');
cmp_ok(scalar(@idle), '>', 0, 'a database that is dropped before nothing happens');
$node->safe_psql('postgres', 'DROP DATABASE idle');
$node->safe_psql('postgres', 'CHECKPOINT');
my $end = time + $PostgreSQL::Test::Utils::timeout_default;
usleep(100_000) while (grep { -d $_ } @idle) && time < $end;
is(scalar(grep { -d $_ } @idle), 0, 'its files go');

# dropped databases leave nothing
$node->safe_psql('postgres', "DROP DATABASE $_") foreach qw(source unopened moved crashed copy_wal_log copy2_wal_log copy3_wal_log copy_file_copy copy3_file_copy),
  map { "locale_$_" } keys %locales;
my $left = -1;
foreach (1 .. $PostgreSQL::Test::Utils::timeout_default)
{
	$left = $node->safe_psql('postgres', q{CHECKPOINT; SELECT count(*) FROM pg_ls_dir('pg_lsm') d WHERE d ~ '^[0-9a-f]{16}$'});
	last if $left == 0;
	usleep(1_000_000);
}
is($left, 0, 'keyspaces of dropped databases are removed');
$node->stop;
done_testing();
