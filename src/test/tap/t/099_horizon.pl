# Horizons that go backward: VACUUM of a table takes no notice of transactions of other databases, while a session's
# own snapshot, which CREATE INDEX and REINDEX run under, does.  What was dead to VACUUM is no more than recently dead
# to them.  Index-only scans of what they build return what the table holds, with rows that VACUUM has left in
# their files and with rows that it has not.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('horizon', conf => "autovacuum = on\nautovacuum_naptime = 1s\nfsync = off\nmax_prepared_transactions = 5");
lsm_start($node);
$node->safe_psql('postgres', 'CREATE DATABASE other');

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub vacuumed { return sql(q{SELECT autovacuum_count FROM pg_stat_all_tables WHERE relname = 't'}); }

# rows by an index-only scan, and by a sequential one
sub same
{
	my ($what) = @_;
	my $query = 'SELECT count(*), sum(a) FROM t WHERE a BETWEEN 1 AND 20000';
	my $plan = sql("SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN $query");
	like($plan, qr/Index Only Scan/, "$what: the plan");
	is(sql("SET enable_seqscan = off; SET enable_bitmapscan = off; $query"),
		sql("SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; $query"), $what);
	is(sql("SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; $query"),
		sql("SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; $query"), "$what: by bitmap");
	is(sql(q{SELECT * FROM lsm_verify('t')}), '', "$what: lsm_verify");
	return;
}

foreach my $am ('lsm', 'btree')
{
	foreach my $how ('autovacuum', 'VACUUM')
	{
		my $other = $node->background_psql('other');
		$other->query_safe('BEGIN; SELECT pg_current_xact_id()');
		my $off = $how eq 'VACUUM' ? ', autovacuum_enabled = off' : '';
		sql(qq{DROP TABLE IF EXISTS t;
			CREATE TABLE t (a int, pad text) USING lsm WITH (autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0$off)});
		sql(q{INSERT INTO t SELECT i, repeat('x', 20) FROM generate_series(1, 20000) i; SELECT lsm_flush('t')});
		sql(q{DELETE FROM t WHERE a % 50 = 7});
		if ($how eq 'VACUUM')
		{
			sql('VACUUM t');
		}
		else
		{
			my $before = vacuumed();

			# the first one may have begun before the rows were deleted
			ok($node->poll_query_until('postgres', "SELECT autovacuum_count > $before FROM pg_stat_all_tables WHERE relname = 't'"), 'autovacuum came');
			sql('INSERT INTO t SELECT 100000, \'later\' FROM generate_series(1, 200)');
			sql('DELETE FROM t WHERE a = 100000');
			ok($node->poll_query_until('postgres', "SELECT autovacuum_count > $before + 1 FROM pg_stat_all_tables WHERE relname = 't'"), 'and again');
		}
		cmp_ok(sql(q{SELECT relallvisible FROM pg_class WHERE relname = 't'}), '>', 20, "$how: blocks are all-visible");
		sql("CREATE INDEX t_a ON t USING $am (a)");
		same("$am, built after $how");
		sql('REINDEX INDEX t_a');
		same("$am, built again after $how");
		$other->query_safe('COMMIT');
		$other->quit;
		same("$am, built after $how, when the other transaction has ended");
	}
}

# The same of a table with values in a TOAST table, which VACUUM has removed.
{
	my $other = $node->background_psql('other');
	$other->query_safe('BEGIN; SELECT pg_current_xact_id()');
	sql(q{DROP TABLE t;
		CREATE TABLE t (a int PRIMARY KEY, v text) USING lsm WITH (autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0,
			toast.autovacuum_vacuum_threshold = 50, toast.autovacuum_vacuum_scale_factor = 0);
		ALTER TABLE t ALTER v SET STORAGE EXTERNAL});
	sql(q{INSERT INTO t SELECT i, repeat(md5(i::text), 100) FROM generate_series(1, 5000) i; SELECT lsm_flush('t')});
	sql(q{DELETE FROM t WHERE a <= 100; SELECT lsm_flush('t')});
	my $before = vacuumed();
	ok($node->poll_query_until('postgres', "SELECT autovacuum_count > $before FROM pg_stat_all_tables WHERE relname = 't'"), 'autovacuum came');
	sql(q{INSERT INTO t SELECT i, 'x' FROM generate_series(100001, 100100) i; DELETE FROM t WHERE a > 100000});
	ok($node->poll_query_until('postgres', "SELECT autovacuum_count > $before + 1 FROM pg_stat_all_tables WHERE relname = 't'"), 'and again');
	sql('VACUUM ' . sql(q{SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 't'}));
	my ($rc, $out, $err) = $node->psql('postgres', 'CREATE INDEX ON t USING lsm (md5(v)); CREATE INDEX ON t USING btree (md5(v))');
	is($err, '', 'CREATE INDEX reads no row of which values are gone');
	($rc, $out, $err) = $node->psql('postgres', 'VACUUM FULL t');
	is($err, '', 'VACUUM FULL, too');
	($rc, $out, $err) = $node->psql('postgres', 'CLUSTER t USING t_pkey');
	is($err, '', 'CLUSTER, too');
	is(sql('SELECT count(*), sum(length(v)) FROM t'), '4900|15680000', 'all rows are there');
	$other->query_safe('COMMIT');
	$other->quit;
}

$node->stop;
done_testing();
