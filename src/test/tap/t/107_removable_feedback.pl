# What may be removed, and standbys that say what they still need (hot_standby_feedback).  A table that a transaction has
# made is no other than the rest: nothing goes that a standby's snapshot sees.  For a standby that was away, without a
# slot, PostgreSQL promises nothing: what was removable meanwhile may go, with a conflict, but nothing that was
# deleted after it came back.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = lsm_node('primary', conf => "max_wal_senders = 8\nwal_keep_size = 256MB\nmax_wal_size = 1GB\nhot_standby = on\n"
	  . "autovacuum = off\nfsync = off\nlsm.memtable_size = 64kB");
$primary->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($primary);
$primary->safe_psql('postgres', q{CREATE TABLE tick (n int) USING heap; INSERT INTO tick VALUES (1)});
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nmax_standby_streaming_delay = 0\nwal_receiver_status_interval = 1s\nwal_retrieve_retry_interval = 100ms\n");
$standby->start;
my $conninfo = $standby->safe_psql('postgres', 'SHOW primary_conninfo');

sub sql { return $primary->safe_psql('postgres', $_[0]); }
sub catch_up { $primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert')); return; }

sub session
{
	my ($node, @sql) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query_safe($_) foreach @sql;
	return $session;
}

# The standby's snapshot, of which the primary has been told
sub snapshot
{
	catch_up();
	my $session = session($standby, 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM tick');
	my $xmin = $session->query_safe('SELECT pg_snapshot_xmin(pg_current_snapshot())');
	$primary->poll_query_until('postgres', "SELECT coalesce(bool_and(backend_xmin::text = '$xmin'), false) FROM pg_stat_replication")
	  or die "the primary does not know of $xmin";
	return $session;
}

# An answer, or "canceled"
sub answer
{
	my ($session, $sql) = @_;
	my $out = eval { $session->query($sql) } // '';
	return $out ne '' ? $out : 'canceled';
}

sub settle
{
	sql(q{INSERT INTO t SELECT i, 0, repeat('y', 100) FROM generate_series(100001, 102000) i; DELETE FROM t WHERE id > 100000});
	sql(q{SELECT lsm_flush('t'); SELECT lsm_compact('t')});
	catch_up();
	return;
}

my $rows = q{SELECT i, i, repeat('x', 100) FROM generate_series(1, 3000) i};
my $count = 'SELECT count(*), sum(v) FROM';
my $create = "CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING lsm; INSERT INTO t $rows";

# made, and its rows ended by a transaction that is older
foreach my $make ("BEGIN; $create; COMMIT", "$create; BEGIN; ALTER TABLE t ALTER v TYPE bigint; ALTER TABLE t ALTER v TYPE int; COMMIT",
	"SET default_table_access_method = lsm; CREATE TABLE t AS SELECT i AS id, i AS v, repeat('x', 100) AS pad FROM generate_series(1, 3000) i")
{
	sql('DROP TABLE IF EXISTS t, h');
	my $old = session($primary, 'BEGIN; SELECT pg_current_xact_id()');
	sql($make);
	sql('CREATE TABLE h USING heap AS SELECT * FROM t');
	my $snapshot = snapshot();
	$old->query_safe("UPDATE $_ SET v = v + 1 WHERE id % 2 = 0") foreach 'h', 't';
	$old->query_safe('COMMIT');
	$old->quit;
	settle();
	is(answer($snapshot, "$count h"), '3000|4501500', 'feedback keeps the rows of a heap table');
	is(answer($snapshot, "$count t"), '3000|4501500', 'and those of an lsm table');
	$snapshot->query('COMMIT');
	$snapshot->quit;
	is($standby->safe_psql('postgres', "$count t"), '3000|4503000', 'afterwards');
}

# away, and back with an older xmin than the horizon that VACUUM has noted
foreach my $vacuum (0, 1)
{
	sql("DROP TABLE IF EXISTS t, h; $create; CREATE TABLE h USING heap AS SELECT * FROM t");
	my $snapshot = snapshot();
	$standby->safe_psql('postgres', $_) foreach q{ALTER SYSTEM SET primary_conninfo = ''}, 'SELECT pg_reload_conf()';
	$primary->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_replication') or die 'still there';
	sql('UPDATE t SET v = v + 1 WHERE id <= 10');
	sql('VACUUM t') if $vacuum;
	sql('INSERT INTO tick VALUES (1)');
	$standby->safe_psql('postgres', $_) foreach "ALTER SYSTEM SET primary_conninfo = '" . $conninfo =~ s/'/''/gr . "'", 'SELECT pg_reload_conf()';
	$primary->poll_query_until('postgres', 'SELECT count(*) = 1 AND bool_and(backend_xmin IS NOT NULL) FROM pg_stat_replication') or die 'not back';
	sql('UPDATE t SET v = v + 1 WHERE id > 10');
	settle();
	my $got = answer($snapshot, "$count t");
	if ($vacuum)
	{
		like($got, qr/^(3000\|4501500|canceled)$/, 'what VACUUM took away is missed by nobody who is not canceled');
	}
	else
	{
		is($got, '3000|4501500', 'nothing was removable while the standby was away that was not kept');
	}
	eval { $snapshot->query('COMMIT') };
	eval { $snapshot->quit };
	catch_up();
	is($standby->safe_psql('postgres', "$count t"), '3000|4504500', 'a new snapshot sees it all');
}

unlike(slurp_file($_->logfile), qr/TRAP|terminated by signal/, 'no assertion has failed') foreach $primary, $standby;
$standby->stop;
$primary->stop;
done_testing();
