# What months of use need, made short.  Rows that are locked or updated without pause do not hold back relfrozenxid; a logical
# slot that is behind does not keep dead versions in files; VACUUM that has to be over soon is not held up by
# lsm.compaction_rate; multixacts, of which lsm tables have none, cost them nothing; a set of row numbers of which
# most are gone fits into a parallel VACUUM's memory.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = lsm_node('primary', wal_level => 'logical', conf => "autovacuum = off\nfsync = off\nmax_wal_senders = 5\nwal_keep_size = 512MB\nlsm.crash_point = '?'\nautovacuum_freeze_max_age = 100000\nautovacuum_multixact_freeze_max_age = 10000");
$node->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($node);
$node->backup('base', backup_options => [ '-c', 'fast', '--no-sync' ]);
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
sub sql { return $node->safe_psql('postgres', $_[0]); }
sub frozen { return sql("SELECT relfrozenxid FROM pg_class WHERE oid = '$_[0]'::regclass"); }

# ---- rows that change beside VACUUM ----

foreach my $change ('SELECT FROM t WHERE id = 5 FOR KEY SHARE', 'SELECT FROM t WHERE id = 5 FOR UPDATE', 'BEGIN; UPDATE t SET v = 1 WHERE id = 5; ROLLBACK', 'BEGIN; SELECT FROM t WHERE id = 5 FOR SHARE; SAVEPOINT s; DELETE FROM t WHERE id = 5; ROLLBACK TO s; COMMIT')
{
	sql('DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm; INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i');
	my $inserted = sql('SELECT xmin FROM t WHERE id = 5');
	my $relid = sql(q{SELECT 't'::regclass::oid});
	sql("$change; SELECT lsm_flush('t')");
	lsm_hold($node, 'compact_started', 'backend', $relid);
	my $vacuum = lsm_start_session($node, 'postgres', 'vacuum', 'VACUUM (FREEZE) t');
	ok(lsm_wait_held($node), "VACUUM rewrites files: $change");
	sql($change);
	lsm_release($node);
	ok(lsm_ended($vacuum), 'VACUUM ends');
	is(lsm_output('vacuum'), '', 'without complaint');
	cmp_ok(frozen('t'), '>', $inserted, 'relfrozenxid has advanced');
	sql($change);
	is(sql(q{SELECT lsm_flush('t'); SELECT count(*), sum(v) FROM t; SELECT * FROM lsm_verify('t')}), "\n1000|0", 'the rows');

	# what comes later does not go back behind it
	my $before = frozen('t');
	sql('VACUUM (FREEZE) t');
	cmp_ok(frozen('t'), '>=', $before, 'and again');
	$node->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', 'SELECT count(*), sum(v) FROM t'), '1000|0', 'on the standby');
}

# without pause
{
	my $start = sql('SELECT pg_current_xact_id()::xid');
	my @lockers = map { lsm_start_session($node, 'postgres', "locker$_",
			"DO \$\$ BEGIN FOR i IN 1 .. 1000000 LOOP PERFORM FROM t WHERE id IN ($_, 7) FOR KEY SHARE; COMMIT; EXIT WHEN EXISTS (SELECT FROM pg_class WHERE relname = 'enough'); END LOOP; END \$\$") } 1, 2;
	usleep(200_000);
	sql('VACUUM (FREEZE) t') foreach 1 .. 3;
	cmp_ok(frozen('t'), '>', $start, 'rows locked without pause: relfrozenxid has advanced');
	sql('CREATE TABLE enough ()');
	ok(lsm_ended($_), 'a locker ends') foreach @lockers;
	is(lsm_output("locker$_"), '', 'without complaint') foreach 1, 2;
	sql('DROP TABLE enough');
}

# Queries of a standby that began before see what they saw, or are canceled.
{
	sql('DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int) USING lsm; INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i');
	$node->wait_for_catchup($standby);
	$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 0');
	$standby->reload;
	my $old = $standby->background_psql('postgres', on_error_stop => 0);
	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
	sql('INSERT INTO t VALUES (1001, 1)');
	sql('VACUUM (FREEZE) t');
	sql('SELECT FROM t WHERE id = 1001 FOR KEY SHARE');
	$node->wait_for_catchup($standby);

	# its process has ended, if it was canceled
	my $sees = eval { $old->query('SELECT count(*) FROM t') };
	ok(!defined($sees) || $sees eq '1000' || $old->{stderr} =~ /conflict with recovery/, 'a row frozen meanwhile is not seen by a snapshot from before') or diag($sees . $old->{stderr});
	eval { $old->quit };
}

# ---- a logical slot that is behind ----

{
	sql(q{SELECT pg_create_logical_replication_slot('behind', 'pgoutput')});
	sql(q{CREATE TABLE u (id int, v int, pad text) USING lsm; INSERT INTO u SELECT i, 0, repeat(md5(i::text), 8) FROM generate_series(1, 1000) i; SELECT lsm_flush('u')});
	sql('UPDATE u SET v = v + 1') foreach 1 .. 30;
	sql(q{SELECT lsm_flush('u'); SELECT lsm_compact('u')});
	cmp_ok(sql(q{SELECT sum(entries) FROM lsm_levels('u')}), '<', 10000, 'what a slot holds of the catalogs does not keep 30,000 dead versions in files');
	is(sql('SELECT count(*), sum(v) FROM u'), '1000|30000', 'the rows');
	sql(q{SELECT pg_drop_replication_slot('behind')});
}

# ---- multixacts ----

{
	sql('CREATE TABLE h (id int) USING heap; INSERT INTO h VALUES (1)');
	sql(q{VACUUM t; SELECT pg_stat_reset_single_table_counters('t'::regclass)});
	sql(q{DO $$ BEGIN FOR i IN 1 .. 12000 LOOP PERFORM FROM h FOR KEY SHARE; BEGIN PERFORM FROM h FOR NO KEY UPDATE; EXCEPTION WHEN division_by_zero THEN NULL; END; COMMIT; END LOOP; END $$});
	cmp_ok(sql(q{SELECT mxid_age(relminmxid) FROM pg_class WHERE relname = 't'}), '>', 10000, 'many multixacts');

	lsm_set($node, autovacuum => 'on');
	$node->reload;
	my $flushes = sql(q{SELECT flushes FROM pg_stat_lsm WHERE relid = 't'::regclass});
	ok($node->poll_query_until('postgres', q{SELECT max(mxid_age(relminmxid)) < 10000 FROM pg_class WHERE relname IN ('t', 'u')}), 'autovacuum advances relminmxid');
	is(sql(q{SELECT flushes FROM pg_stat_lsm WHERE relid = 't'::regclass}) . sql(q{SELECT last_autovacuum IS NULL FROM pg_stat_all_tables WHERE relid = 't'::regclass}), "${flushes}t", 'and does no more to an lsm table');
}

# ---- lsm.compaction_rate, and wraparound ----

{
	sql(q{CREATE TABLE w (id int, pad text) USING lsm WITH (autovacuum_enabled = off); INSERT INTO w SELECT i, (SELECT string_agg(md5(i::text || '.' || j), '') FROM generate_series(1, 8) j) FROM generate_series(1, 30000) i; SELECT lsm_flush('w')});
	cmp_ok(sql(q{SELECT sum(bytes) FROM lsm_levels('w')}), '>', 4_000_000, 'a table of so many bytes, however compressed');
	lsm_set($node, 'lsm.compaction_rate' => '4kB');
	$node->reload;
	sql(q{DO $$ BEGIN FOR i IN 1 .. 110000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$});
	# at that rate it would take a quarter of an hour
	ok($node->poll_query_until('postgres', q{SELECT age(relfrozenxid) < 100000 FROM pg_class WHERE relname = 'w'}), 'autovacuum to prevent wraparound is not limited to lsm.compaction_rate');
	lsm_set($node, 'lsm.compaction_rate' => '0');
	$node->reload;
}

# ---- many row numbers, of which few are alive ----

{
	sql(q{CREATE TABLE n (id int, v int) USING lsm; CREATE INDEX ON n (id); CREATE INDEX ON n USING lsm (v)});
	sql(q{INSERT INTO n SELECT i, i FROM generate_series(1, 700000) i; DELETE FROM n WHERE id % 100000 <> 5; INSERT INTO n SELECT i, -i FROM generate_series(1, 1000) i; VACUUM (PARALLEL 2) n; DELETE FROM n WHERE id % 3 = 0});
	sql('SET min_parallel_index_scan_size = 0; SET maintenance_work_mem = \'1MB\'; VACUUM (PARALLEL 2) n');
	is(sql(q{SET enable_seqscan = off; SELECT count(*), sum(v) FROM n; SELECT * FROM lsm_verify('n')}), sql(q{SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(v) FROM n}), 'a parallel VACUUM has left what lives');
	is(sql(q{SET enable_seqscan = off; SELECT count(*) FROM n WHERE v IN (5, 100005, 600005, -4)}), sql(q{SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM n WHERE v IN (5, 100005, 600005, -4)}), 'and its entries');
}
$standby->stop;
$node->stop;
done_testing();
