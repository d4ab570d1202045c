# Transaction ids run around: next ids are set far ahead with pg_resetwal, five times, past 2^31 and
# 2^32.  Autovacuum freezes by itself; what is older than its clog stays readable; at the limit, where the server
# takes no more writes, VACUUM alone, in a session or in single-user mode, makes it take them again.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = lsm_node('wraparound', conf => "fsync = off\nlog_min_messages = error\nautovacuum_vacuum_cost_delay = 0\nmax_prepared_transactions = 5");
lsm_start($node);
lsm_create_twins($node, 't', 'id int PRIMARY KEY, v text, n int DEFAULT 0, big text', '(v)');
$node->safe_psql('postgres', "ALTER TABLE t_$_ ALTER big SET STORAGE EXTERNAL") foreach 'h', 'l';
# rows that nobody changes, of many transactions, and which those were
lsm_create_twins($node, 'keep', 'id int PRIMARY KEY, n int', '(n)');
$node->safe_psql('postgres', "DO \$\$ BEGIN FOR i IN 1 .. 300 LOOP INSERT INTO keep_$_ VALUES (i, i % 50); COMMIT; END LOOP; END \$\$; CREATE TABLE made_$_ AS SELECT id, xmin::text AS x FROM keep_$_") foreach 'h', 'l';
my @ways = ('seqscan', 'indexscan', 'bitmapscan');

# all kinds of xids: committed, rolled back, of subtransactions, deleters, lockers; in memory and in files
sub change
{
	my ($round) = @_;
	my $flush = $round % 2 ? q{SELECT lsm_flush('t_l'), lsm_flush('t_l_pkey');} : '';
	foreach my $t ('t_h', 't_l')
	{
		$node->safe_psql('postgres', qq{
INSERT INTO $t SELECT i, 'round $round ' || i, 0, repeat('b', (i % 7) * 1000) FROM generate_series(1000 * $round, 1000 * $round + 400) i;
UPDATE $t SET n = n + 1 WHERE id % 3 = 0;
DELETE FROM $t WHERE id % 50 = $round;
BEGIN; INSERT INTO $t SELECT i, 'rolled back' FROM generate_series(-500, -1) i; DELETE FROM $t WHERE id % 2 = 0; ROLLBACK;
$flush
BEGIN; UPDATE $t SET v = v || '+' WHERE id % 10 = 1; SAVEPOINT s; DELETE FROM $t; ROLLBACK TO s; UPDATE $t SET v = v || '-' WHERE id % 10 = 2; COMMIT;
BEGIN; SELECT count(*) FROM (SELECT 1 FROM $t WHERE id % 10 = 3 FOR UPDATE) s; SAVEPOINT s; SELECT count(*) FROM (SELECT 1 FROM $t WHERE id % 10 = 4 FOR KEY SHARE) s; COMMIT});
	}
	return;
}

sub check
{
	my ($when) = @_;
	is(lsm_differences($node, 't', 'keep'), '', "$when: same as heap");
	# who made a frozen row is shown, and never asked for, whatever has become of that number
	foreach my $way (@ways)
	{
		my $off = join(' ', map { "SET enable_$_ = off;" } grep { $_ ne $way } @ways, 'indexonlyscan');
		is($node->safe_psql('postgres', "$off BEGIN ISOLATION LEVEL $_; SELECT count(*) FROM keep_l JOIN made_l USING (id) WHERE keep_l.xmin::text = x AND n >= 0; COMMIT"), '300', "$when, $_, $way: rows show their makers")
		  foreach 'READ COMMITTED', 'SERIALIZABLE';
	}
	is($node->safe_psql('postgres', "BEGIN; SELECT count(*) FROM (SELECT FROM keep_$_ k JOIN made_$_ USING (id) WHERE k.xmin::text = x FOR UPDATE OF k) s; UPDATE keep_$_ SET n = n + 1; ROLLBACK"), '300', "$when: keep_$_, locked and changed in vain")
	  foreach 'h', 'l';
	foreach my $way (@ways)
	{
		my $off = join(' ', map { "SET enable_$_ = off;" } grep { $_ ne $way } @ways, 'indexonlyscan');
		my $query = qq{$off SELECT count(*), sum(n), md5(string_agg(v || md5(big), ',' ORDER BY id)) FROM \@ WHERE id > -1000000};
		is($node->safe_psql('postgres', $query =~ s/\@/t_l/r), $node->safe_psql('postgres', $query =~ s/\@/t_h/r), "$when: $way");
	}
	return;
}

# ---- around the circle, autovacuum at work ----
foreach my $round (1 .. 5)
{
	change($round);
	lsm_jump_xid($node, 950_000_000);
	$node->start;
	check("round $round");
	ok($node->poll_query_until('postgres', q{SELECT bool_and(age(relfrozenxid) < 100000000) FROM pg_class WHERE relname IN ('t_l', 't_h') OR oid IN (SELECT reltoastrelid FROM pg_class WHERE relname = 't_l')}),
		"round $round: autovacuum has frozen");
	ok($node->poll_query_until('postgres', 'SELECT bool_and(age(datfrozenxid) < 200000000) FROM pg_database'), "round $round: in all databases");
	check("round $round, frozen");
}
cmp_ok($node->safe_psql('postgres', 'SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint'), '>', 2**32, 'went past 2^32');

# relfrozenxid is honest: no sorted file has an older id
is($node->safe_psql('postgres', q{SELECT count(*) FROM lsm_files('t_l') f, pg_class c WHERE c.relname = 't_l' AND age(f.min_xid) > age(c.relfrozenxid)}), '0', 'no file has an older transaction id than relfrozenxid');

# an open transaction holds it back
{
	my $holder = $node->background_psql('postgres', on_error_stop => 0);
	$holder->query_safe('BEGIN; CREATE TABLE holder (x int)');
	change(6);
	my $xid = $node->safe_psql('postgres', 'SELECT min(backend_xid::text::bigint) FROM pg_stat_activity WHERE backend_xid IS NOT NULL');
	$node->safe_psql('postgres', 'VACUUM (FREEZE) t_l');
	cmp_ok($node->safe_psql('postgres', q{SELECT relfrozenxid::text::bigint FROM pg_class WHERE relname = 't_l'}), '<=', $xid, 'relfrozenxid waits for an open transaction');
	$holder->query_safe('ROLLBACK');
	$holder->quit;
	check('after an open transaction');
}

# ---- the limit ----
$node->append_conf('postgresql.conf', 'autovacuum = off');
foreach my $mode ('a session', 'single-user mode')
{
	$node->restart;
	change($mode eq 'a session' ? 7 : 8);
	my $age = $node->safe_psql('postgres', 'SELECT max(age(datfrozenxid)) FROM pg_database');
	lsm_jump_xid($node, 2**31 - $age - 2_097_152);
	if ($mode eq 'a session')
	{
		$node->start;
		# autovacuum, which starts by itself here, may have frozen everything before
		my ($rc, $out, $err) = $node->psql('postgres', q{BEGIN; INSERT INTO t_l VALUES (-1); ROLLBACK});
		ok($err =~ /not accepting commands .*to avoid wraparound/ ||
			$node->safe_psql('postgres', 'SELECT max(age(datfrozenxid)) < 500000000 FROM pg_database') eq 't',
			'the limit is reached, or autovacuum was faster') or diag($err);
		check('at the limit');
		my $vacuum = $node->safe_psql('postgres', q{SELECT datname FROM pg_database WHERE datallowconn});
		foreach my $db (split /\n/, $vacuum)
		{
			($rc, $out, $err) = $node->psql($db, 'SET vacuum_freeze_min_age = 0; SET vacuum_freeze_table_age = 0; VACUUM');
			is($rc, 0, "VACUUM in $db at the limit") or diag($err);
		}
		# template0: autovacuum, which starts by itself
		$node->append_conf('postgresql.conf', "autovacuum = on");
		$node->reload;
		ok($node->poll_query_until('postgres', 'SELECT bool_and(age(datfrozenxid) < 500000000) FROM pg_database'), 'all databases are frozen');
	}
	else
	{
		local $ENV{PGDATA_SINGLE} = $node->data_dir;
		$node->command_ok([ 'bash', '-c', qq{echo "VACUUM (FREEZE)" | postgres --single -D "$ENV{PGDATA_SINGLE}" $_} ], "VACUUM of $_ in single-user mode")
		  foreach 'postgres', 'template1';
		$node->start;
		ok($node->poll_query_until('postgres', 'SELECT bool_and(age(datfrozenxid) < 500000000) FROM pg_database'), 'all databases are frozen');
	}
	check("after $mode");
	$node->safe_psql('postgres', "INSERT INTO t_$_ VALUES (-1000, '$mode') ON CONFLICT (id) DO UPDATE SET v = excluded.v") foreach 'h', 'l';
	check("writing after $mode");
}
$node->stop;
done_testing();
