# Logical replication: nothing of an lsm table is published, and whoever decodes past one is
# told; lsm tables as targets and lsm indexes on both sides work.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $pub = lsm_node('pub', wal_level => 'logical', conf => "max_wal_senders = 10\nmax_replication_slots = 10");
my $sub = lsm_node('sub', wal_level => 'logical', conf => "max_wal_senders = 10\nmax_replication_slots = 10");
lsm_start($pub);
lsm_start($sub);
my $to_pub = $pub->connstr . ' dbname=postgres';

sub pub_sql { return $pub->safe_psql('postgres', $_[0]); }
sub sub_sql { return $sub->safe_psql('postgres', $_[0]); }

# ---- heap on one side, lsm on the other: all kinds of identities ----

my %tables = (
	key => [ 'id int PRIMARY KEY, v text, n int', '' ],
	whole => [ 'id int, v text, n int', 'ALTER TABLE @ REPLICA IDENTITY FULL' ],
	ident => [ 'id int NOT NULL, v text NOT NULL, n int', 'CREATE UNIQUE INDEX @_i ON @ USING ! (v, id); ALTER TABLE @ REPLICA IDENTITY USING INDEX @_i' ],
	deferred => [ 'id int PRIMARY KEY, v text, n int, UNIQUE (n) DEFERRABLE INITIALLY DEFERRED', '' ],
	parts => [ 'id int PRIMARY KEY, v text, n int', '' ]);
foreach my $name (sort keys %tables)
{
	my ($columns, $more) = @{ $tables{$name} };
	foreach my $side ([ \&pub_sql, 'heap', 'lsm_index' ], [ \&sub_sql, 'lsm', 'lsm_index' ])
	{
		my ($run, $am, $index) = @$side;
		(my $sql = $more) =~ s/@/$name/g;
		$sql =~ s/!/$index/g;
		my $create = $name eq 'parts'
		  ? "CREATE TABLE $name ($columns) PARTITION BY RANGE (id); CREATE TABLE ${name}1 PARTITION OF $name FOR VALUES FROM (MINVALUE) TO (1000); CREATE TABLE ${name}2 PARTITION OF $name FOR VALUES FROM (1000) TO (MAXVALUE)"
		  : "CREATE TABLE $name ($columns)";
		$run->("SET default_table_access_method = $am; $create; $sql");
	}
	# the publisher's rows are heap's, and have an index of ours besides
	pub_sql("CREATE INDEX ON $name USING lsm (v)");
	sub_sql("CREATE INDEX ON $name USING lsm (v)");
}
my $names = join ', ', sort keys %tables;
pub_sql("INSERT INTO $_ SELECT g, 'v' || g, g FROM generate_series(1, 2000) g") foreach sort keys %tables;
pub_sql("CREATE PUBLICATION p FOR TABLE $names WITH (publish_via_partition_root)");
sub_sql("CREATE SUBSCRIPTION s CONNECTION '$to_pub' PUBLICATION p");
$sub->wait_for_subscription_sync($pub, 's');

sub same
{
	my ($what) = @_;
	$pub->wait_for_catchup('s');
	foreach my $name (sort keys %tables)
	{
		my $query = "SELECT count(*), sum(id), sum(n), md5(string_agg(t::text, ',' ORDER BY id, v, n)) FROM $name t";
		is(sub_sql($query), pub_sql($query), "$what: $name is the same on both sides");
	}
	return;
}
same('copy');
foreach my $name (sort keys %tables)
{
	pub_sql("UPDATE $name SET v = v || 'u' WHERE id % 5 = 0; DELETE FROM $name WHERE id % 7 = 0; INSERT INTO $name SELECT g, 'w' || g, g FROM generate_series(3001, 3300) g");
	pub_sql("UPDATE $name SET id = id + 10000 WHERE id % 11 = 0; UPDATE $name SET n = n + 100000 WHERE id < 50");
}
same('changes');
sub_sql(join '; ', map { "SELECT lsm_flush('$_'), lsm_compact('$_')" } 'key', 'whole', 'ident', 'deferred', 'parts1', 'parts2');
pub_sql("UPDATE $_ SET v = v || '!' WHERE id % 4 = 0; DELETE FROM $_ WHERE id % 13 = 0; UPDATE $_ SET v = 'again' WHERE id % 4 = 0") foreach sort keys %tables;
same('changes of what lies in files');
pub_sql("TRUNCATE whole; BEGIN; INSERT INTO whole SELECT g, repeat('long ', 2000), 1 FROM generate_series(1, 20) g; DELETE FROM whole WHERE id > 10; COMMIT");
same('truncate');
sub_sql('ALTER SUBSCRIPTION s DISABLE');
$sub->stop('immediate');
$sub->start;
sub_sql('ALTER SUBSCRIPTION s ENABLE');
pub_sql("UPDATE key SET n = n + 1; DELETE FROM ident WHERE id < 20");
same('after a crash of the subscriber');
foreach my $table ('key', 'whole', 'ident', 'deferred', 'parts1', 'parts2')
{
	is(sub_sql("SELECT count(*) FROM lsm_verify('$table')"), '0', "lsm_verify of $table");
}
unlike(slurp_file($sub->logfile), qr/ERROR:/, 'no error on the subscriber');
my $quiet = slurp_file($pub->logfile);
unlike($quiet, qr/passes over/, 'lsm indexes of a publisher are no reason to warn');

# ---- lsm tables and publications ----

my ($rc, $out, $err) = $pub->psql('postgres', 'CREATE TABLE l (id int PRIMARY KEY, v text) USING lsm; CREATE PUBLICATION q FOR ALL TABLES');
like($err, qr/ERROR:  lsm table "l" cannot be in publication "q"/, 'FOR ALL TABLES is refused');

pub_sql('CREATE SCHEMA elsewhere; CREATE PUBLICATION q FOR TABLES IN SCHEMA elsewhere');
($rc, $out, $err) = $pub->psql('postgres', 'ALTER TABLE l SET SCHEMA elsewhere');
like($err, qr/ERROR:  lsm table "l" cannot be in publication "q"/, 'SET SCHEMA is refused');
pub_sql('DROP PUBLICATION q');

# ---- a dump is restored in the order of pg_dump ----

$pub->safe_psql('postgres', 'CREATE DATABASE source');
$pub->safe_psql('source', q{
CREATE EXTENSION lsmam;
CREATE TABLE h (id int PRIMARY KEY) USING heap;
CREATE TABLE l (id int PRIMARY KEY) USING lsm;
CREATE PUBLICATION named FOR TABLE h});
$pub->safe_psql('postgres', 'CREATE DATABASE target');
my $dump = "$ENV{TESTDIR}/logical.sql";
command_ok([ 'pg_dump', '-f', $dump, '-d', $pub->connstr('source') ], 'pg_dump of a publication beside lsm tables');
command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $pub->connstr('target') ], 'it is restored');

# ---- publications of an older release ----

# By hand, as the hook would not let it in
pub_sql(q{
SET allow_system_table_mods = on;
CREATE PUBLICATION old FOR TABLE key;
INSERT INTO pg_publication_rel (oid, prpubid, prrelid) SELECT 999999, oid, 'l'::regclass FROM pg_publication WHERE pubname = 'old'});
my $list = q{
SELECT DISTINCT p.pubname, c.oid::regclass
FROM pg_publication_tables p
JOIN pg_class r ON r.relname = p.tablename AND r.relnamespace = p.schemaname::regnamespace
LEFT JOIN LATERAL pg_partition_tree(r.oid) t ON true
JOIN pg_class c ON c.oid = coalesce(t.relid, r.oid)
JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'lsm' AND c.relpersistence = 'p'};
is(pub_sql($list), 'old|l', 'the query of docs/limitations.md finds it');
is(pub_sql(q{ALTER TABLE l ADD COLUMN w int DEFAULT 3; TRUNCATE l; INSERT INTO l VALUES (1); CREATE INDEX ON l (w); VACUUM FULL l; CLUSTER l USING l_pkey; ALTER TABLE l ALTER w TYPE bigint; REINDEX TABLE l; SELECT 1}), '1', 'such a table can still be altered and rewritten');
($rc, $out, $err) = $pub->psql('postgres', 'ALTER TABLE l SET ACCESS METHOD heap; ALTER TABLE l SET ACCESS METHOD lsm');
like($err, qr/cannot be in publication "old"/, 'but not made an lsm table again');
pub_sql('ALTER PUBLICATION old DROP TABLE l; ALTER TABLE l SET ACCESS METHOD lsm; DROP PUBLICATION old');

# ---- decoding passes over lsm tables, and says so ----

pub_sql(q{
SELECT pg_create_logical_replication_slot('slot', 'test_decoding');
CREATE TABLE h (id int PRIMARY KEY) USING heap;
CREATE INDEX ON h USING lsm (id)});
pub_sql('INSERT INTO h VALUES (1)');
my $get = q{SELECT count(*) FROM pg_logical_slot_get_changes('slot', NULL, NULL, 'include-xids', '0') WHERE data ~ '^table'};
($rc, $out, $err) = $pub->psql('postgres', $get);
is("$out$err", '1', 'a heap table with an lsm index: decoded, no warning');
pub_sql('INSERT INTO l VALUES (2)');
pub_sql('INSERT INTO h VALUES (2)');
($rc, $out, $err) = $pub->psql('postgres', $get);
is($out, '1', 'the change of the heap table');
like($err, qr/WARNING:  logical decoding passes over changes of lsm tables\nDETAIL:  Replication slot "slot" has come to one/, 'and a warning of the one that is not decoded');
# another database's rows are no business of the slot's
$pub->safe_psql('source', 'INSERT INTO l VALUES (3)');
($rc, $out, $err) = $pub->psql('postgres', $get);
is("$out$err", '0', 'rows of another database are not warned of');
# rolled back, savepoints, files: all that decoding has to read over
pub_sql(q{BEGIN; INSERT INTO l SELECT g FROM generate_series(10, 2000) g; SAVEPOINT a; INSERT INTO l VALUES (5000); ROLLBACK TO a; UPDATE l SET v = 'x'; INSERT INTO h VALUES (4); COMMIT; BEGIN; DELETE FROM l; ROLLBACK; SELECT lsm_flush('l'); SELECT lsm_compact('l')});
($rc, $out, $err) = $pub->psql('postgres', $get);
is($out, '1', 'whatever lies in between, the heap table is decoded');
same('and the subscription goes on');
pub_sql("SELECT pg_drop_replication_slot('slot')");
sub_sql('DROP SUBSCRIPTION s');
foreach my $node ($pub, $sub)
{
	unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, 'no crash');
	$node->stop;
}
done_testing();
