# The way back of docs/migration.md from a schema that was made on lsm and whose keys statements have replaced by btree, and
# by lsm_index again: it ends in DROP EXTENSION without CASCADE, and a dump can be restored where there is no lsmam.  An
# index keeps the extension that it needs, also in a database that version 1.0 has left.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Basename;

my $page = slurp_file(($ENV{LSM_DOCS} // dirname(__FILE__) . '/../../../../docs') . '/migration.md');
my $node = lsm_node('way_back', conf => "autovacuum = off\nfsync = off");
lsm_start($node);
my $work = PostgreSQL::Test::Utils::tempdir();

# what psql says of a script
sub run_script
{
	my ($db, $script, $what) = @_;
	my ($rc, $out, $err) = $node->psql($db, $script, on_error_stop => 1);
	is($rc, 0, $what) or diag($err);
	return $err;
}

# the page's blocks of a section
sub blocks_of
{
	my ($section) = @_;
	my ($text) = $page =~ /^## \Q$section\E\n(.*?)(?=^## |\z)/ms;
	return map { s/^\\c app\n//mr } $text =~ /^```sql\n(.*?)^```$/msg;
}

# a dump without what differs between access methods, and numbers of names that core has chosen for partitions' indexes
sub definitions_of
{
	my ($db) = @_;
	my ($out, $err) = run_command([ 'pg_dump', '--schema-only', $node->connstr($db) ]);
	is($err, '', "pg_dump of $db");
	return join "\n", sort map { s/ USING (btree|lsm_index) / /r =~ s/ WITH \([^)]*\);/;/r =~ s/_idx\d+\b/_idx/gr } grep { !/^\\(un)?restrict |^SET default_table_access_method|EXTENSION|^--|^$/ } split /\n/, $out;
}

my $rows = q{SELECT string_agg(t, ' ' ORDER BY t) FROM (SELECT 'c' || c::text FROM customers c UNION ALL SELECT 'o' || o::text FROM orders o UNION ALL SELECT 'l' || l::text FROM lines l
UNION ALL SELECT 'e' || e::text FROM events e UNION ALL SELECT 's' || s::text FROM seats s UNION ALL SELECT 'm' || m::text FROM per_customer m) x (t)};
my $make = q{
CREATE TABLE customers (id int PRIMARY KEY, mail text UNIQUE, code varchar(5) UNIQUE);
CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL REFERENCES customers ON DELETE CASCADE, above int REFERENCES orders, number int UNIQUE DEFERRABLE);
CREATE TABLE lines (o int, n int, mail text, PRIMARY KEY (o, n), FOREIGN KEY (o) REFERENCES orders DEFERRABLE INITIALLY DEFERRED);
ALTER TABLE lines ADD FOREIGN KEY (mail) REFERENCES customers (mail) NOT VALID;
CREATE TABLE events (at date, id int, line int, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-07-01');
CREATE TABLE events_2 (id int, at date, line int, PRIMARY KEY (at, id));
ALTER TABLE events ATTACH PARTITION events_2 FOR VALUES FROM ('2026-07-01') TO ('2027-01-01');
CREATE TABLE seats (at date, id int, seat int, PRIMARY KEY (seat), FOREIGN KEY (at, id) REFERENCES events);
CREATE INDEX events_line ON events USING lsm (line);
CREATE UNIQUE INDEX seats_seat ON seats USING lsm (at, seat) WITH (bits_per_key = 12);
ALTER TABLE seats ADD CONSTRAINT seats_seat UNIQUE USING INDEX seats_seat;
CREATE MATERIALIZED VIEW per_customer AS SELECT customer, count(*) FROM orders GROUP BY 1;
CREATE UNIQUE INDEX per_customer_key ON per_customer USING lsm (customer);
INSERT INTO customers SELECT g, 'm' || g, 'c' || g FROM generate_series(1, 50) g;
INSERT INTO orders SELECT g, 1 + g % 50, nullif(g / 2, 1), g FROM generate_series(2, 100) g;
INSERT INTO lines SELECT id, n, 'm' || customer FROM orders, generate_series(1, 2) n;
INSERT INTO events SELECT '2026-01-01'::date + 3 * g, g, g FROM generate_series(1, 100) g;
INSERT INTO seats SELECT at, id, id FROM events;
REFRESH MATERIALIZED VIEW per_customer;
REFRESH MATERIALIZED VIEW CONCURRENTLY per_customer;
ALTER TABLE customers ALTER code TYPE text;
ALTER TABLE lines ALTER n TYPE bigint;
ALTER TABLE orders ALTER number TYPE bigint;
};
$node->safe_psql('postgres', 'CREATE DATABASE app; ALTER DATABASE app SET default_table_access_method = lsm');
$node->safe_psql('app', 'CREATE EXTENSION lsmam');
run_script('app', $make, 'a schema on lsm');
my $kinds = q{SELECT string_agg(DISTINCT a.amname, ',' ORDER BY a.amname) FROM pg_class c JOIN pg_am a ON a.oid = c.relam JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'public' AND relkind IN };
is($node->safe_psql('app', "$kinds ('r', 'm')"), 'lsm', 'all tables are lsm');
is($node->safe_psql('app', "$kinds ('i')"), lsm_version() < 18 ? 'btree,lsm_index' : 'lsm_index', 'keys are what core takes');
my $before = $node->safe_psql('app', $rows);
my $definitions = definitions_of('app');

# ---- back ----

my @blocks = blocks_of('Back');
cmp_ok(scalar @blocks, '>=', 4, 'the page has its blocks');
is((grep { /CASCADE/ } @blocks), 0, '... without CASCADE');
run_script('app', $_, 'a block: ' . (split /\n/)[0]) foreach @blocks;
is($node->safe_psql('app', "$kinds ('r', 'm')"), 'heap', 'all tables are heap');
is($node->safe_psql('app', "$kinds ('i', 'I')"), 'btree', 'all indexes btree');
is($node->safe_psql('app', q{SELECT count(*) FROM pg_extension WHERE extname = 'lsmam'}), '0', 'the extension is gone');
is($node->safe_psql('app', $rows), $before, 'the same rows');
is(definitions_of('app'), $definitions, 'the same definitions');
my ($rc, $out, $err) = $node->psql('app', 'DELETE FROM events WHERE id = 7');
like($err, qr/violates foreign key constraint/, 'foreign keys are there');
run_script('app', q{INSERT INTO events VALUES ('2026-02-01', 999); REFRESH MATERIALIZED VIEW CONCURRENTLY per_customer; DELETE FROM customers WHERE id = 5 AND false}, 'all go on');

$node->safe_psql('app', 'DELETE FROM events WHERE id = 999');
$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
$node->command_ok([ 'pg_dump', '-f', "$work/app.sql", $node->connstr('app') ], 'a dump');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-f', "$work/app.sql", $node->connstr('restored') ], 'is restored without the extension');
is($node->safe_psql('restored', $rows), $before, 'the same rows, restored');

# ---- an index keeps what it needs ----

# all that is left is an index of a heap table, which was replaced
my $left = 'CREATE TABLE t (id int PRIMARY KEY) USING lsm; INSERT INTO t VALUES (1); ALTER TABLE t ALTER id TYPE bigint; ALTER TABLE t SET ACCESS METHOD heap';
$node->safe_psql('postgres', 'CREATE DATABASE kept');
$node->safe_psql('kept', "CREATE EXTENSION lsmam; $left");
($rc, $out, $err) = $node->psql('kept', 'DROP EXTENSION lsmam');
like($err, qr/cannot drop extension lsmam because other objects depend on it/, 'the extension stays');
like($err, qr/constraint t_pkey on table t depends on operator class int8_ops for access method lsm_index/, '... for the key');
is($node->safe_psql('kept', 'SELECT * FROM t'), '1', '... which is used');

# ---- an index that cannot be made again stays; classes of an extension in another schema are btree's ----

$node->safe_psql('postgres', 'CREATE DATABASE large');
$node->safe_psql('large', q{CREATE SCHEMA ext; CREATE EXTENSION lsmam SCHEMA ext; CREATE TABLE b (s text, n varchar(20)) USING lsm;
CREATE UNIQUE INDEX b_s ON b USING lsm (s); CREATE INDEX b_n ON b USING lsm (n ext.varchar_pattern_ops);
INSERT INTO b SELECT (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 150) i), 'n' || g FROM generate_series(1, 5) g});
# (as the page's reader has it: psql goes on after an error)
$node->psql('large', $_, on_error_stop => 0) foreach grep { !/DROP EXTENSION/ } blocks_of('Back');
is($node->safe_psql('large', q{SELECT c.relname, amname FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = c.relam WHERE indrelid = 'b'::regclass ORDER BY 1}),
	"b_n|btree\nb_s|lsm_index", 'an entry of more than 2704 bytes, a schema of its own');

# ---- what 1.0 has left ----

my $amiss = q{DELETE FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = 't_pkey'::regclass AND refclassid = 'pg_opclass'::regclass;
INSERT INTO pg_depend SELECT 'pg_class'::regclass, 'b_pkey'::regclass, 0, 'pg_opclass'::regclass, o.oid, 0, 'n' FROM pg_opclass o JOIN pg_am a ON a.oid = opcmethod WHERE amname = 'lsm_index' AND opcname = 'int4_ops'};
foreach my $version ('1.0', '1.1')
{
	(my $db = "old_$version") =~ tr/./_/;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, "CREATE EXTENSION lsmam VERSION '$version'; CREATE TABLE b (id int PRIMARY KEY) USING heap; $left; $amiss");
	$node->safe_psql($db, $version eq '1.0' ? 'ALTER EXTENSION lsmam UPDATE' : 'SELECT lsm_repair_dependencies()');
	($rc, $out, $err) = $node->psql($db, 'DROP EXTENSION lsmam');
	like($err, qr/constraint t_pkey on table t depends on operator class/, "$version: repaired, the extension stays");
	unlike($err, qr/b_pkey/, "$version: ... and a btree does not need it");
	run_script($db, 'DROP TABLE t; DROP EXTENSION lsmam; INSERT INTO b VALUES (1)', "$version: it goes when nothing needs it");
}
$node->stop;
done_testing();
