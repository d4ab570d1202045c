# A statement that has waited for a lock finds what is there then, on lsm tables as on heap tables: keys that were made again
# meanwhile, tables that have exchanged names.  And it locks in the same order: the table that it names, then others.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'since PostgreSQL 18 no key has to be btree' if lsm_version() >= 18;
my $node = lsm_node('migration_tools', conf => "autovacuum = off\nfsync = off\ndeadlock_timeout = 200ms\n");
lsm_start($node);
my @dbs = ('heap', 'lsm');
foreach my $db (@dbs)
{
	$node->safe_psql('postgres', "CREATE DATABASE $db; ALTER DATABASE $db SET default_table_access_method = $db");
	$node->safe_psql($db, 'CREATE EXTENSION lsmam');
}

# First, in a transaction; second, in another session, until it waits; the rest of first.  What both have said.
sub beside
{
	my ($db, $setup, $first, $second, $rest) = @_;
	$node->safe_psql($db, $setup);
	my $a = $node->background_psql($db, on_error_stop => 0);
	$a->query_safe("BEGIN; $first");
	my $b = lsm_start_session($node, $db, "b_$db", $second);
	ok(!lsm_ended_or_waits($node, $b), "it waits: $second");
	my $said = ($a->query($rest) // '') . $a->{stderr};
	$a->quit;
	lsm_ended($b);
	return $said . lsm_output("b_$db");
}

# @: of the access method of the tables.  An lsm_index on a heap table is not rebuilt by REFRESH CONCURRENTLY alone.
my @races = (
	[ 'a foreign key, of a key that was made again',
		'CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE r (id int); CREATE TABLE r0 (id int REFERENCES p); DROP TABLE r0',
		'ALTER TABLE p DROP CONSTRAINT p_pkey, ADD PRIMARY KEY (id)', 'ALTER TABLE r ADD FOREIGN KEY (id) REFERENCES p' ],
	[ 'a foreign key of a new column',
		'CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE ar (id int)',
		'LOCK ar; DROP TABLE a; CREATE TABLE a (id int PRIMARY KEY)', 'ALTER TABLE ar ADD COLUMN a int REFERENCES a' ],
	[ 'a foreign key, of a table that was exchanged by its name',
		'CREATE TABLE w (id int PRIMARY KEY); CREATE TABLE wr (id int)',
		'ALTER TABLE w RENAME TO w_old; ALTER TABLE w_old RENAME CONSTRAINT w_pkey TO w_old_pkey; CREATE TABLE w (id int PRIMARY KEY)',
		'ALTER TABLE wr ADD FOREIGN KEY (id) REFERENCES w' ],
	[ 'ATTACH PARTITION',
		'CREATE TABLE pp (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE p1 (id int PRIMARY KEY); ALTER TABLE pp ATTACH PARTITION p1 DEFAULT; ALTER TABLE pp DETACH PARTITION p1',
		'ALTER TABLE p1 DROP CONSTRAINT p1_pkey, ADD CONSTRAINT p1_pkey PRIMARY KEY (id)', 'ALTER TABLE pp ATTACH PARTITION p1 DEFAULT' ],
	[ 'ALTER INDEX ATTACH PARTITION of an index that was made again',
		'CREATE TABLE ip (id int) PARTITION BY RANGE (id); CREATE TABLE ip1 PARTITION OF ip DEFAULT; CREATE UNIQUE INDEX i ON ONLY ip (id); CREATE UNIQUE INDEX i1 ON ip1 (id)',
		'DROP INDEX i1; CREATE UNIQUE INDEX i1 ON ip1 @ (id)', 'ALTER INDEX i ATTACH PARTITION i1' ],
	[ 'USING INDEX, of an index that was made again',
		'CREATE TABLE ux (id int, u int); CREATE UNIQUE INDEX ui ON ux @ (u)',
		'DROP INDEX ui; CREATE UNIQUE INDEX ui ON ux @ (u)', 'ALTER TABLE ux ADD CONSTRAINT uc UNIQUE USING INDEX ui' ],
	[ 'a unique index of a table that is a partitioned one now',
		'CREATE TABLE un (id int)', 'ALTER TABLE un RENAME TO un_old; CREATE TABLE un (id int) PARTITION BY RANGE (id)', 'CREATE UNIQUE INDEX ON un @ (id)' ],
	[ 'REFRESH CONCURRENTLY',
		'CREATE MATERIALIZED VIEW mv AS SELECT 1 AS id; CREATE UNIQUE INDEX mvi ON mv (id)',
		'DROP INDEX mvi; CREATE UNIQUE INDEX mvi ON mv @ (id)', 'REFRESH MATERIALIZED VIEW CONCURRENTLY mv' ],
	[ 'REFRESH CONCURRENTLY of a view that was made again',
		'CREATE MATERIALIZED VIEW mv2 AS SELECT 1 AS id; CREATE UNIQUE INDEX mv2i ON mv2 (id)',
		'DROP MATERIALIZED VIEW mv2; CREATE MATERIALIZED VIEW mv2 AS SELECT 1 AS id; CREATE UNIQUE INDEX mv2i ON mv2 @ (id)', 'REFRESH MATERIALIZED VIEW CONCURRENTLY mv2' ]);
foreach my $race (@races)
{
	my ($what, @statements) = @$race;
	foreach my $db (@dbs)
	{
		my $using = $db eq 'lsm' ? 'USING lsm' : '';
		unlike(beside($db, (map { s/\@/$using/r } @statements), 'COMMIT'), qr/ERROR/, "$what on $db");
	}
}

foreach my $db (@dbs)
{
	unlike(beside($db, 'CREATE TABLE o_p (id int PRIMARY KEY); CREATE TABLE o_c (id int, p int); INSERT INTO o_p VALUES (1); INSERT INTO o_c VALUES (1, 1)',
			'UPDATE o_c SET p = 1', 'ALTER TABLE o_c ADD FOREIGN KEY (p) REFERENCES o_p NOT VALID', 'SELECT * FROM o_p; COMMIT;'),
		qr/ERROR/, "on $db a reader of the referenced table is in no deadlock with ADD FOREIGN KEY, nor waits for what that waits for");
	# a table that references itself gets one lock, at once
	unlike(beside($db, 'CREATE TABLE self (id int PRIMARY KEY, p int); INSERT INTO self VALUES (1, 1)',
			$db eq 'lsm' ? 'SELECT * FROM self' : 'UPDATE self SET p = 1', 'ALTER TABLE self ADD FOREIGN KEY (p) REFERENCES self', 'INSERT INTO self VALUES (2, 1); COMMIT;'),
		qr/ERROR/, "on $db who reads and then writes is in no deadlock with a foreign key of the table to itself");
}

# The index that a query still reads when its key becomes btree keeps the extension until the query is over, and not longer.
{
	$node->safe_psql('postgres', 'CREATE DATABASE gone');
	$node->safe_psql('gone', 'CREATE EXTENSION lsmam; CREATE TABLE k (id int); CREATE UNIQUE INDEX ki ON k USING lsm (id); INSERT INTO k SELECT generate_series(1, 100); CREATE TABLE f (id int)');
	my $a = $node->background_psql('gone', on_error_stop => 0);
	$a->query('SET enable_seqscan = off; BEGIN; DECLARE c CURSOR FOR SELECT id FROM k WHERE id > 5; FETCH c; ALTER TABLE f ADD FOREIGN KEY (id) REFERENCES k (id)');
	$a->{stderr} = '';
	$a->query('SAVEPOINT s; DROP EXTENSION lsmam');
	like($a->{stderr}, qr/ERROR:  cannot drop extension lsmam because other objects depend on it\nDETAIL:  index ki_\S* depends on operator class/, 'while it is read');
	$a->{stderr} = '';
	is($a->query('ROLLBACK TO s; FETCH c; CLOSE c; DROP EXTENSION lsmam'), 7, 'then it goes');

	# so many messages that others throw away all that they have cached
	$node->safe_psql('gone', q{DO 'BEGIN FOR i IN 1..1000 LOOP CREATE TABLE x (a int); DROP TABLE x; END LOOP; END'});
	$a->query('COMMIT');
	is($a->{stderr}, '', 'the transaction commits');
	$a->quit;
	is($node->safe_psql('gone', q{SELECT string_agg(indexrelid::regclass || ' ' || amname, ', ') FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE indrelid = 'k'::regclass}),
		'ki btree', 'and leaves the btree');
}
$node->stop;
done_testing();
