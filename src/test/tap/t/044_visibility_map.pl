# Index-only scans that believe the visibility map: what they return is what the table holds, for every snapshot,
# while VACUUM sets bits and others take them away; after a crash, an eviction, a copy to another tablespace; on a standby,
# where an old snapshot stays as it is.
#   LSM_SECONDS: of load per round (6; long: 60)
# tier: check
use strict;
use warnings;
use LsmSession;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX ();
use Time::HiRes qw(time usleep);

lsm_seed();
my $seconds = $ENV{LSM_SECONDS} // (lsm_long() ? 60 : 6);
my $rounds = lsm_long() ? 12 : 3;
my $node = lsm_node('map', conf => "autovacuum = off\nfsync = off\nmax_wal_senders = 4\nhot_standby = on\nwal_keep_size = 512MB\nlog_min_messages = fatal\nlsm.memtable_memory = 16MB\nlsm.memtable_size = 1MB");
$node->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($node);
$node->safe_psql('postgres', 'CREATE EXTENSION pg_visibility');

sub sql { return $node->safe_psql('postgres', $_[0]); }

# rows that an index-only scan by each index returns, and a sequential scan, in one snapshot
$node->safe_psql('postgres', q{
CREATE FUNCTION answers(t text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	i text;
	answer text;
BEGIN
	PERFORM set_config('enable_bitmapscan', 'off', true), set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true);
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true);
	EXECUTE format('/* seq */ SELECT concat_ws('','', count(*), sum(id), sum(n)) FROM %I', t) INTO answer;
	RETURN NEXT answer;
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true);
	EXECUTE format('/* id */ SELECT concat_ws('','', count(*), sum(id), sum(n)) FROM %I WHERE id >= 0', t) INTO answer;
	RETURN NEXT answer;
	EXECUTE format('/* n */ SELECT concat_ws('','', count(*), sum(id), sum(n)) FROM %I WHERE n >= 0', t) INTO answer;
	RETURN NEXT answer;
	EXECUTE format('/* text */ SELECT concat_ws('','', count(*), sum(id), sum(n)) FROM %I WHERE v >= ''''', t) INTO answer;
	RETURN NEXT answer;
END $$;
CREATE FUNCTION check_answers(t text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE a text[] := ARRAY(SELECT answers(t));
BEGIN
	IF a[1] <> ALL (a) OR a[1] <> a[2] OR a[1] <> a[3] OR a[1] <> a[4] THEN RAISE EXCEPTION 'answers differ: %', a; END IF;
END $$});

sub make_table
{
	my ($t, $rows) = @_;
	sql(qq{CREATE TABLE $t (id int, n int, v text, pad text) USING lsm;
CREATE INDEX ${t}_id ON $t USING lsm (id) INCLUDE (n);
CREATE INDEX ${t}_n ON $t USING btree (n, id);
CREATE INDEX ${t}_v ON $t USING lsm (v, id, n);
INSERT INTO $t SELECT i, i % 97, 'v' || i % 53, repeat('p', 20) FROM generate_series(1, $rows) i});
	return;
}

sub same
{
	my ($t, $what) = @_;
	my @answers = split /\n/, sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT answers('$t'); COMMIT");
	is("@answers[1 .. 3]", "$answers[0] $answers[0] $answers[0]", $what);
	return;
}

sub visible { return sql("SELECT count(*) FROM pg_visibility_map('$_[0]') WHERE all_visible"); }

sub fetches
{
	my ($t, $column) = @_;
	my ($n) = sql("SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT count(*), sum(n) FROM $t WHERE $column") =~ /Heap Fetches: (\d+)/;
	return $n;
}

# ---- VACUUM's promise: what it leaves needs no look at the table ----

make_table('promise', 5000);
is(fetches('promise', 'id >= 0'), 5000, 'before VACUUM every row is looked at');
sql('VACUUM ANALYZE promise');
cmp_ok(fetches('promise', $_), '<=', 290, "after VACUUM none but those of the last block are ($_)") foreach 'id >= 0', 'n >= 0', q{v >= ''};
cmp_ok(sql(q{SELECT relallvisible FROM pg_class WHERE relname = 'promise'}), '>=', 16, 'pg_class says so');
sql('DELETE FROM promise WHERE id % 500 = 7; UPDATE promise SET pad = pad WHERE id = 2000');
same('promise', 'a change is seen at once');
cmp_ok(visible('promise'), '<', 10, 'and takes the bits of its blocks');
sql('BEGIN; DELETE FROM promise WHERE id > 3000; ROLLBACK; VACUUM promise');
cmp_ok(fetches('promise', $_), '<=', 600, "after VACUUM again ($_)") foreach 'id >= 0', 'n >= 0', q{v >= ''};
same('promise', 'the same rows');
my $before = visible('promise');
sql('BEGIN; SELECT count(*) FROM (SELECT * FROM promise FOR UPDATE) p; COMMIT');
is(visible('promise'), $before, 'row locks take no bits');

# ---- snapshots and transactions that VACUUM has to mind ----

make_table('mind', 3000);
my $old = lsm_start_session($node, 'postgres', 'old', q{BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT answers('mind'); SELECT pg_advisory_lock(1); SELECT answers('mind'); SELECT check_answers('mind'); COMMIT; SELECT 'done'});
# that session waits for the advisory lock, with its snapshot
my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(1)');
usleep(300_000);
sql('INSERT INTO mind SELECT i, i % 97, \'v\' || i % 53 FROM generate_series(3001, 6000) i; DELETE FROM mind WHERE id <= 1000; VACUUM mind');
same('mind', 'a new snapshot');
$holder->quit;
ok(lsm_ended($old), 'the old snapshot ends');
like(lsm_output('old'), qr/done\n\z/, 'it sees what it saw') or diag(lsm_output('old'));

# entries that a scan has read already, of rows that are dead to it: VACUUM takes them away and sets the bits
make_table('ahead', 3000);
sql('VACUUM ahead; DELETE FROM ahead WHERE id BETWEEN 1450 AND 1600');
my $cursor = $node->background_psql('postgres');
$cursor->query_safe(q{SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;
BEGIN; DECLARE c CURSOR FOR SELECT id FROM ahead WHERE id >= 1000 ORDER BY id});
my @ids = split /\n/, $cursor->query_safe('FETCH 445 FROM c');
sql('VACUUM ahead');
is(sql(q{SELECT string_agg(blkno::text, ' ' ORDER BY blkno) FROM pg_visibility_map('ahead') WHERE all_visible}), '0 1 2 3 4 5 6 7 8 9', 'VACUUM has set the bits');
push @ids, split /\n/, $cursor->query_safe('FETCH ALL FROM c');
is("@ids", join(' ', grep { $_ < 1450 || $_ > 1600 } 1000 .. 3000), 'a cursor does not return what is dead');
$cursor->quit;

my $open = $node->background_psql('postgres');
$open->query_safe('BEGIN; UPDATE mind SET n = n + 1 WHERE id BETWEEN 4000 AND 4010; INSERT INTO mind VALUES (7000, 1, \'v\')');
sql('VACUUM mind');
same('mind', 'changes that are not committed');
$open->query_safe('COMMIT');
same('mind', 'and when they are');
$open->quit;

# ---- updates of columns in no index leave the bits ----

# what an index-only scan looks at in the table, and what lsm_verify finds
sub stays
{
	my ($t, $blocks, $what) = @_;
	is(visible($t), $blocks, "$what: the bits stay");
	cmp_ok(fetches($t, $_), '<=', 290, "$what: no row is looked at ($_)") foreach 'id >= 0', 'n >= 0', q{v >= ''};
	same($t, $what);
	is(sql("SELECT object, problem FROM lsm_verify('$t')"), '', "$what: lsm_verify has nothing to say");
	return;
}

make_table('stay', 3000);
sql('VACUUM ANALYZE stay');
my $blocks = visible('stay');
cmp_ok($blocks, '>=', 10, 'all full blocks are all-visible');
my $before_it = $node->background_psql('postgres');
$before_it->query_safe(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT answers('stay'), count(*) FROM stay GROUP BY 1});
my $updater = $node->background_psql('postgres');
$updater->query_safe(q{BEGIN; UPDATE stay SET pad = 'a' WHERE id % 2 = 0});
stays('stay', $blocks, 'an update in progress');
$updater->query_safe('ROLLBACK');
stays('stay', $blocks, 'an update that was rolled back');
$updater->query_safe(q{UPDATE stay SET pad = 'b' WHERE id % 3 = 0; UPDATE stay SET pad = 'c' WHERE id % 6 = 0});
stays('stay', $blocks, 'an update that was committed');
$before_it->query_safe(q{SELECT check_answers('stay')});
is($before_it->query_safe(q{SELECT count(*) FROM stay WHERE pad IN ('b', 'c')}), 0, 'an older snapshot sees what it saw');

# an index that is made now: of what is there now, and not for who sees what was
sql(q{CREATE INDEX stay_pad ON stay USING lsm (pad)});
my $count = q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT pad, count(*) FROM stay WHERE pad IN ('b', 'c') GROUP BY pad ORDER BY pad};
is(sql($count), "b|500\nc|500", 'a new index has the new rows') or diag(sql("EXPLAIN $count"));
is($before_it->query_safe($count), '', 'but an older snapshot does not use it');
$before_it->query_safe('COMMIT');
$before_it->quit;
sql(q{UPDATE stay SET pad = 'd' WHERE pad = 'c'});
cmp_ok(visible('stay'), '<', $blocks, 'an update of its column takes the bits');
is(sql($count), 'b|500', 'and is seen at once');
sql('DROP INDEX stay_pad; VACUUM stay');

# VACUUM sets bits although rows are being updated, or have been since the oldest snapshot
make_table('busy', 3000);
$updater->query_safe(q{BEGIN; UPDATE busy SET pad = 'a' WHERE id % 2 = 0; SELECT txid_current()});
sql(q{UPDATE busy SET pad = 'b' WHERE id % 2 = 1; VACUUM ANALYZE busy});
stays('busy', $blocks, 'rows that were being updated');
$updater->query_safe('ROLLBACK');
stays('busy', $blocks, 'and then were not');
sql(q{BEGIN; UPDATE busy SET n = n + 1 WHERE id = 500; ROLLBACK});
is(visible('busy'), $blocks - 1, 'an update that would have moved its row takes the bit of one block');
sql('DELETE FROM busy WHERE id = 1000');
is(visible('busy'), $blocks - 2, 'so does a deletion');
same('busy', 'which is seen at once');
$updater->query_safe(q{BEGIN; INSERT INTO busy SELECT i, i % 97, 'v' || i % 53, '' FROM generate_series(3001, 4000) i; UPDATE busy SET pad = 'x' WHERE id > 3000});
sql('VACUUM busy');
cmp_ok(visible('busy'), '<=', $blocks, 'no bit for rows of which nobody sees a version');
same('busy', 'which nobody sees');
$updater->query_safe('ROLLBACK');

# two who read by an index what the other one has updated: that is a dependency if a column of the index has changed
sub serializable
{
	my ($column) = @_;
	my @session = map { LsmSession->new($node) } 0, 1;
	my @row = (10, 2000);
	my $states = '';
	$_->ask('SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1') foreach @session;
	$session[$_]->ask("UPDATE stay SET $column = '7' WHERE id = $row[$_]") foreach 0, 1;
	$session[$_]->ask("SELECT n FROM stay WHERE id = $row[1 - $_]") foreach 0, 1;
	$states .= ($_->ask('COMMIT'))[0] . ' ' foreach @session;
	$_->close foreach @session;
	return $states;
}
is(serializable('pad'), '00000 00000 ', 'no dependency: who reads an index does not read what is updated');
like(serializable('n'), qr/40001/, 'what is in the index, he reads');
sql('VACUUM stay');
$updater->quit;

# after a crash
sql(q{UPDATE stay SET pad = 'e' WHERE id % 5 = 0});
$blocks = visible('stay');
$node->stop('immediate');
$node->start;
is(visible('stay'), $blocks, 'the bits outlive a crash');
same('stay', 'with the updates');

# ---- entries that were forgotten in memory do not come back ----

foreach my $way ('crash', 'eviction')
{
	my $t = "back_$way";
	make_table($t, 1200);
	sql("DELETE FROM $t WHERE id % 12 = 1");
	same($t, "$way: rows are deleted");    # scans forget the dead
	same($t, "$way: again");
	sql("DELETE FROM $t WHERE id % 12 = 2; VACUUM $t");    # so does VACUUM
	cmp_ok(visible($t), '>=', 4, "$way: bits are set");
	if ($way eq 'crash')
	{
		sql('CREATE TABLE durable ()');    # VACUUM's own commit need not be
		my @pids = lsm_pids($node);
		kill('KILL', @pids);
		lsm_restart_after_crash($node, @pids);
	}
	else
	{
		sql("CREATE TABLE filler_$_ (i int, v text) USING lsm; INSERT INTO filler_$_ SELECT i, repeat(md5(i::text), 20) FROM generate_series(1, 1000) i") foreach 1 .. 40;
		sql("DROP TABLE filler_$_") foreach 1 .. 40;
	}
	same($t, "$way: the same rows");
	sql("SELECT lsm_flush('$t'), lsm_flush('${t}_id'), lsm_compact('${t}_v')");
	same($t, "$way: and after a flush");
	is(sql("SELECT * FROM lsm_verify('$t')"), '', "$way: lsm_verify");
}

# ---- two who meet: the one that ends a row, and VACUUM at each of its steps ----

lsm_set($node, 'lsm.crash_point' => '?');
$node->restart;
foreach my $point ('map_marked', 'map_decided')
{
	my $t = "meet_$point";
	make_table($t, 3000);
	sql("DELETE FROM $t WHERE id % 300 = 5");
	lsm_hold($node, $point, 'backend');
	my $vacuum = lsm_start_session($node, 'postgres', 'vacuum', "VACUUM $t");
	ok(lsm_wait_held($node), "VACUUM stops at $point");
	sql("DELETE FROM $t WHERE id BETWEEN 1000 AND 1005; UPDATE $t SET n = n + 1, id = id + 10000 WHERE id = 2000; INSERT INTO $t VALUES (9000, 1, 'v')");
	same($t, "$point: rows end before");
	lsm_release($node);
	ok(lsm_ended($vacuum), 'VACUUM ends');
	same($t, "$point: after");
	sql("VACUUM $t");
	same($t, "$point: and after another one");
	is(sql("SELECT * FROM lsm_verify('$t')"), '', "$point: lsm_verify");
}

# one that was cancelled leaves nothing that ANALYZE takes for frozen rows (18 counts them)
make_table('cancelled', 3000);
sql('VACUUM cancelled');
lsm_hold($node, 'map_decided', 'backend');
my $cancelled = lsm_start_session($node, 'postgres', 'cancelled', 'VACUUM cancelled');
ok(lsm_wait_held($node), 'VACUUM stops');
sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = 'VACUUM cancelled' AND pid <> pg_backend_pid()});
lsm_release($node);
ok(lsm_ended($cancelled), 'and is cancelled');
sql('ANALYZE cancelled');
is(sql(q{SELECT coalesce(to_jsonb(c) ->> 'relallfrozen', '0') || ' ' || (relallvisible > 0) FROM pg_class c WHERE relname = 'cancelled'}), '0 true', 'its marks are not counted');
sql('VACUUM cancelled');
same('cancelled', 'after a cancelled VACUUM');

# the other way round: a writer that has looked at the map and has not written yet
make_table('writer', 3000);
sql('VACUUM writer');
lsm_hold($node, 'map_cleared', 'backend');
my $writer = lsm_start_session($node, 'postgres', 'writer', 'DELETE FROM writer WHERE id = 1500');
ok(lsm_wait_held($node), 'a writer stops after its look at the map');
my $vacuum = lsm_start_session($node, 'postgres', 'vacuum', 'VACUUM writer');
ok(!lsm_ended($vacuum, 0.7), 'VACUUM waits for it');
lsm_release($node);
ok(lsm_ended($writer) && lsm_ended($vacuum), 'both end');
same('writer', 'the row is gone');
is(sql('SELECT count(*) FROM writer WHERE id = 1500'), 0, 'by its key, too');
lsm_set($node, 'lsm.crash_point' => '');
$node->restart;

# ---- standby ----

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = off\nmax_standby_streaming_delay = -1");
$standby->start;

sub caught_up
{
	my $lsn = $node->lsn('insert');
	return $standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'");
}
make_table('far', 3000);
sql('VACUUM ANALYZE far');
caught_up();
is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_visibility_map('far') WHERE all_visible}), visible('far'), 'the standby has the bits');
my $far = $standby->background_psql('postgres');
$far->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $first = $far->query_safe(q{SELECT string_agg(a, ' ') FROM answers('far') a});
sql("INSERT INTO far SELECT i, i % 97, 'v' || i % 53 FROM generate_series(3001, 6000) i; VACUUM far");
usleep(700_000);
is($far->query_safe(q{SELECT string_agg(a, ' ') FROM answers('far') a}), $first, 'a snapshot of the standby stays as it is');
$far->query_safe('COMMIT');
$far->quit;
sql('DELETE FROM far WHERE id % 100 = 3; VACUUM far');
caught_up();
is($standby->safe_psql('postgres', q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT answers('far')}), sql(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT answers('far')}), 'then it catches up');

# ---- everything at once, with crashes ----

make_table('load', 12_000);
my @load = map { lsm_script("load_$_->[0]", $_->[1]) } (
	[ change => q{
\set a random(1, 12000)
\set dice random(1, 9)
BEGIN;
\if :dice = 1
DELETE FROM load WHERE id BETWEEN :a AND :a + 3;
\elif :dice = 2
INSERT INTO load SELECT i, i % 97, 'v' || i % 53 FROM generate_series(:a, :a + 5) i WHERE NOT EXISTS (SELECT FROM load l WHERE l.id = i);
\elif :dice <= 4
UPDATE load SET n = (n + 1) % 97 WHERE id BETWEEN :a AND :a + 1;
\elif :dice = 5
UPDATE load SET pad = 'q' WHERE id = :a;
\elif :dice = 6
SELECT count(*) FROM (SELECT FROM load WHERE id BETWEEN :a AND :a + 5 FOR UPDATE) l;
\elif :dice = 7
SAVEPOINT s;
DELETE FROM load WHERE id BETWEEN :a AND :a + 5;
ROLLBACK TO s;
\else
INSERT INTO load VALUES (:a, 5, 'v5');
UPDATE load SET v = 'w' WHERE id = :a;
\endif
\if :dice = 9
ROLLBACK;
\else
COMMIT;
\endif
} ],
	[ check => "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT check_answers('load');\nCOMMIT;\n" ]);
my $maintenance = q{VACUUM load;
SELECT lsm_flush('load'), lsm_flush('load_id');
VACUUM load;
SELECT lsm_compact('load_v'), lsm_compact('load_id');
VACUUM load;
SELECT lsm_compact('load');
};
my $checks = 0;
foreach my $round (1 .. $rounds)
{
	my $kill = $round > 1;
	my @runs = map { [ 'pgbench', '-n', '-c', $_->[1], '-j', 1, '-T', $seconds, '--max-tries=100', '-f', $_->[0], $node->connstr('postgres') ] } ([ $load[0], 3 ], [ $load[1], 2 ]);
	my (@pids, @out);
	foreach my $run (@runs)
	{
		push @out, "$ENV{TESTDIR}/run_$round" . @out;
		my $pid = fork();
		if ($pid == 0)
		{
			open(STDOUT, '>', $out[-1]);
			open(STDERR, '>&', \*STDOUT);
			exec(@$run) or POSIX::_exit(99);
		}
		push @pids, $pid;
	}
	my $end = time + ($kill ? $seconds * (0.3 + rand(0.6)) : $seconds);
	my $failed = '';
	while (time < $end)
	{
		my ($rc, undef, $err) = $node->psql('postgres', $maintenance);
		$failed .= $err if $rc != 0;
	}
	if ($kill)
	{
		my @server = lsm_pids($node);
		kill('KILL', @server);
		waitpid($_, 0) foreach @pids;
		lsm_restart_after_crash($node, @server);
	}
	else { waitpid($_, 0) foreach @pids; }
	is($failed, '', "round $round: maintenance");
	my $said = join('', map { slurp_file($_) } @out);
	my @wrong = grep { /ERROR/ && !/could not serialize|deadlock/ } split /\n/, $said;
	is("@wrong", '', "round $round: no answer differs");
	$checks++ while $said =~ /transactions actually processed: [1-9]/g;
	same('load', "round $round: afterwards");
	is(sql(q{SELECT * FROM lsm_verify('load')}), '', "round $round: lsm_verify");
	sql('VACUUM load');
	cmp_ok(fetches('load', 'id >= 0'), '<=', 600, "round $round: VACUUM sets all bits");
	same('load', "round $round: and index-only scans are right");
}
cmp_ok($checks, '>=', 2, 'the load ran');
caught_up();
is($standby->safe_psql('postgres', q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT answers('load')}), sql(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT answers('load')}), 'the standby is equal');
$standby->promote;
is($standby->safe_psql('postgres', q{DELETE FROM load WHERE id % 10 = 1; SELECT check_answers('load'); SELECT * FROM lsm_verify('load')}), '', 'promoted, it clears bits');
$standby->stop;
$node->stop;
done_testing();
