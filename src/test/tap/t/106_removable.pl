# What may be removed from a table: workers flush and compact by what sessions have noted.  A relation that a transaction
# has made, or moved, is no other than the rest; a prepared transaction counts as one that runs; and where another
# database holds back the xmins of snapshots, horizons go backward, and nothing that a snapshot sees goes.  Each table
# has a heap twin.  Assertions hold each horizon against who is running: the server must not fall.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('removable', conf => "autovacuum = off\nfsync = off\nmax_prepared_transactions = 5\n"
	  . "lsm.memtable_size = 64kB\nlsm.target_file_size = 64kB\nallow_in_place_tablespaces = on");
lsm_start($node);
$node->safe_psql('postgres', q{CREATE DATABASE other; CREATE TABLESPACE there LOCATION ''});

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub session
{
	my ($db, @sql) = @_;
	my $session = $node->background_psql($db // 'postgres');
	$session->query_safe($_) foreach @sql;
	return $session;
}

sub snapshot { return session('postgres', 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT 1'); }

sub finish
{
	my ($session, $end) = @_;
	$session->query_safe($end // 'COMMIT');
	$session->quit;
	return;
}

# Both twins, by a sequential scan and by an index
sub same
{
	my ($session, $what, $wanted, $tables) = @_;
	my @tables = @{ $tables // [ 'h', 't' ] };
	foreach my $set ('enable_indexscan', 'enable_seqscan')
	{
		$session->query_safe("SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET $set = off");
		my @got = map { $session->query_safe("SELECT count(*), sum(v) FROM $_ WHERE id >= 0") } @tables;
		is($got[1], $got[0], "$what, without $set");
		is($got[1], $wanted, "$what: as it was") if defined $wanted;
		$session->query_safe("RESET $set");
	}
	return;
}

# All that workers and sessions may do about dead rows
sub settle
{
	my ($table) = @_;
	sql("INSERT INTO $table SELECT i, 0, repeat('y', 100) FROM generate_series(100001, 102000) i; DELETE FROM $table WHERE id > 100000");
	sql("INSERT INTO h SELECT 100001, 0, 'y'; DELETE FROM h WHERE id > 100000");
	sql("SELECT lsm_flush('$table'); SELECT lsm_compact('$table')");
	return;
}

my $rows = q{SELECT i, i, repeat('x', 100) FROM generate_series(1, 3000) i};
my %make = (
	'made' => "BEGIN; CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm; INSERT INTO t $rows; CREATE INDEX ON t USING lsm_index (v); COMMIT",
	'made by CREATE TABLE AS' => "SET default_table_access_method = lsm; CREATE TABLE t AS SELECT i AS id, i AS v, repeat('x', 100) AS pad FROM generate_series(1, 3000) i",
	'unlogged' => "BEGIN; CREATE UNLOGGED TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm; INSERT INTO t $rows; COMMIT",
	'a materialized view\'s source' => "BEGIN; CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm; INSERT INTO t $rows; CREATE MATERIALIZED VIEW m USING lsm AS SELECT * FROM t; REFRESH MATERIALIZED VIEW m; COMMIT",
	'moved' => "CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm; BEGIN; ALTER TABLE t SET TABLESPACE there; INSERT INTO t $rows; ALTER INDEX t_pkey SET TABLESPACE there; COMMIT",
	'truncated in a subtransaction' => "CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm; BEGIN; SAVEPOINT a; TRUNCATE t; INSERT INTO t $rows; RELEASE a; SAVEPOINT b; DELETE FROM t; ROLLBACK TO b; COMMIT");

foreach my $how (sort keys %make)
{
	# a transaction that is older than the table, and ends half of its rows, prepared meanwhile or not
	foreach my $prepared (0, 1)
	{
		sql('DROP MATERIALIZED VIEW IF EXISTS m; DROP TABLE IF EXISTS t, h');
		my $old = session('postgres', 'BEGIN; SELECT pg_current_xact_id()');
		sql($make{$how});
		sql("BEGIN; CREATE TABLE h (id int PRIMARY KEY, v int, pad text) USING heap; INSERT INTO h $rows; COMMIT");
		$old->query_safe("UPDATE $_ SET v = v + 1 WHERE id % 2 = 0") foreach 'h', 't';
		finish($old, q{PREPARE TRANSACTION 'old'}) if $prepared;
		my $before = snapshot();
		$prepared ? sql(q{COMMIT PREPARED 'old'}) : finish($old);
		settle('t');
		same($before, "$how" . ($prepared ? ', prepared' : ''), '3000|4501500');
		finish($before);
		my $after = snapshot();
		same($after, "$how: afterwards", '3000|4503000');
		finish($after);
		is(sql(q{SELECT count(*) FROM lsm_verify('t')}), '0', "$how: lsm_verify") unless $how eq 'unlogged';
	}
}

# What was written anew, while a snapshot sees rows that are gone for others; moved to another tablespace and back
foreach my $rewrite ('VACUUM FULL', 'CLUSTER', 'ALTER TABLE t SET TABLESPACE there; ALTER TABLE t SET TABLESPACE pg_default', 'REINDEX TABLE')
{
	sql('DROP MATERIALIZED VIEW IF EXISTS m; DROP TABLE IF EXISTS t, h');
	sql("CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm; INSERT INTO t $rows; CREATE TABLE h (LIKE t INCLUDING ALL) USING heap; INSERT INTO h $rows");
	my $before = snapshot();
	sql("UPDATE $_ SET v = v + 1; DELETE FROM $_ WHERE id % 3 = 0") foreach 'h', 't';
	foreach my $table ('h', 't')
	{
		(my $command = $rewrite =~ /TABLE t/ ? $rewrite : "$rewrite $table" . ($rewrite eq 'CLUSTER' ? " USING ${table}_pkey" : '')) =~ s/TABLE t/TABLE $table/g;
		$node->safe_psql('postgres', $_) foreach split /; /, $command;
	}
	settle('t');
	same($before, "after $rewrite", '3000|4501500');
	finish($before);
}

# A materialized view is written anew, with rows that old snapshots see, heap's as ours
{
	sql('DROP TABLE IF EXISTS t, h');
	sql("CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm; INSERT INTO t $rows; CREATE TABLE h (LIKE t INCLUDING ALL) USING heap; INSERT INTO h $rows");
	sql("CREATE MATERIALIZED VIEW mh USING heap AS SELECT * FROM h; CREATE MATERIALIZED VIEW mt USING lsm AS SELECT * FROM t; CREATE UNIQUE INDEX ON mh (id); CREATE UNIQUE INDEX ON mt USING btree (id)");
	my $old = session('postgres', 'BEGIN; SELECT pg_current_xact_id()');
	my $before = snapshot();
	foreach my $how ('', 'CONCURRENTLY', 'CONCURRENTLY')
	{
		sql("UPDATE $_ SET v = v + 1 WHERE id % 2 = 0") foreach 'h', 't';
		sql("BEGIN; REFRESH MATERIALIZED VIEW $how mh; REFRESH MATERIALIZED VIEW $how mt; COMMIT");
		sql(q{SELECT lsm_flush('mt'); SELECT lsm_compact('mt')});
		same($before, "a view after REFRESH $how", undef, [ 'mh', 'mt' ]);
	}
	finish($before);
	my $after = snapshot();
	same($after, 'a view afterwards', undef, [ 'mh', 'mt' ]);
	finish($after);
	finish($old);
	sql('DROP MATERIALIZED VIEW mh, mt');
}

# Another database's transaction holds back the xmin of each snapshot here, but not what may be removed
{
	sql('DROP TABLE IF EXISTS t, h');
	sql("CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm; INSERT INTO t $rows; CREATE TABLE h (LIKE t INCLUDING ALL) USING heap; INSERT INTO h $rows");
	my $other = session('other', 'BEGIN; SELECT pg_current_xact_id()');
	my $sum = 4501500;
	foreach my $round (1 .. 4)
	{
		my $before = snapshot();
		sql("UPDATE $_ SET v = v + 1") foreach 'h', 't';
		sql('VACUUM t; VACUUM h') if $round == 2;
		settle('t');
		same($before, "round $round with another database", "3000|$sum");
		$sum += 3000;

		# the next one has the same xmin, and sees what came since
		my $next = snapshot();
		same($next, "round $round: the next snapshot", "3000|$sum");
		finish($before);
		sql($_) foreach 'VACUUM t', q{SELECT lsm_compact('t')};
		same($next, "round $round: that, after VACUUM", "3000|$sum");
		finish($next);
		sql('REINDEX TABLE t');
	}
	finish($other);
	is(sql(q{SELECT count(*) FROM lsm_verify('t')}), '0', 'lsm_verify');
}

unlike(slurp_file($node->logfile), qr/TRAP|terminated by signal/, 'no assertion has failed');
$node->stop;
done_testing();
