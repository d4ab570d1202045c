# What is made durable, and how often: CREATE TABLE, whatever its keys, with one fsync for all trees of a transaction; a
# power failure at any moment of it loses nothing that was committed.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'needs the shim (make check)' unless $ENV{LSM_FAULTS_SO};
my $log = PostgreSQL::Test::Utils::tempdir() . '/syncs';
append_to_file($log, '');
chmod 0666, $log;
$ENV{LSM_FAULTS_SYNC_LOG} = $log;
$ENV{LD_PRELOAD} = $ENV{LSM_FAULTS_SO};
my $node = lsm_node('few_syncs', conf => "lsm.crash_point = '?'\nautovacuum = off\nfsync = on\nlsm.memtable_memory = 64MB\nlsm.memtable_size = 8MB\nmax_locks_per_transaction = 200");
lsm_start($node);
sub sql { return $node->safe_psql('postgres', $_[0]); }

# Files and directories under pg_lsm that are synced meanwhile
sub syncs_of
{
	my ($sql) = @_;
	my $from = -s $log;
	sql($sql);
	return scalar(() = substr(slurp_file($log), $from) =~ /^[fd] /mg);
}
my $table = q{(id int PRIMARY KEY, k int UNIQUE, v text) USING lsm};

# ---- CREATE TABLE ----

sql("CREATE TABLE first $table");

# the flush worker's note for standbys, once there are trees
ok($node->poll_query_until('postgres', q{SELECT size > 0 FROM pg_stat_file('pg_lsm/primary_memory', true)}), 'the server is at rest');
for (my $size = -1; $size != -s $log; usleep(200_000)) { $size = -s $log; }

is(syncs_of("CREATE TABLE one $table"), 1, 'CREATE TABLE with two keys: one fsync for five trees');
is(syncs_of('BEGIN; ' . join('; ', map { "CREATE TABLE many_$_ $table" } 1 .. 20) . '; COMMIT'), 1, 'and one for those of a transaction');
is(syncs_of("BEGIN; CREATE TABLE none $table; ROLLBACK"), 0, 'none if it is rolled back');
is(syncs_of("BEGIN; SAVEPOINT s; CREATE TABLE sub $table; RELEASE s; COMMIT"), 1, 'one for a subtransaction');
is(syncs_of("BEGIN; CREATE TABLE prepared $table; PREPARE TRANSACTION 'p'"), 1, 'one before PREPARE TRANSACTION');
is(syncs_of("COMMIT PREPARED 'p'"), 0, 'and none after it');
is(syncs_of(q{CREATE TEMPORARY TABLE gone (id int PRIMARY KEY) USING lsm}), 0, 'none for a temporary table');
is(syncs_of('TRUNCATE one, many_1'), 1, 'TRUNCATE of two tables: one');

# ---- VACUUM of little that has changed ----

sql(q{CREATE TABLE little (id int PRIMARY KEY, k int, v text) USING lsm; CREATE INDEX little_k ON little USING lsm (k);
	INSERT INTO little SELECT i, i, 'v' || i FROM generate_series(1, 200) i});
sql('VACUUM (FREEZE) little');
sql('VACUUM little');
sub little
{
	my ($what, $sql) = @_;
	sql($sql);
	sql('CHECKPOINT');
	is(syncs_of('VACUUM little'), 0, "VACUUM, $what: no fsync");
	is(sql(q{SELECT string_agg(object || ': ' || problem, ' ') FROM lsm_verify('little')}), '', "VACUUM, $what: all is sound");
	return;
}
my $frozen = sql(q{SELECT relfrozenxid FROM pg_class WHERE relname = 'little'});
little('four updates', 'UPDATE little SET k = k + 1000 WHERE id <= 4');
is(sql(q{SELECT relfrozenxid FROM pg_class WHERE relname = 'little'}), $frozen, 'relfrozenxid stays');
is(sql(q{SELECT reltuples FROM pg_class WHERE relname = 'little'}), 200, 'reltuples');
is(sql(q{SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'little'}), 0, 'no dead rows are left to report');
little('four updates of the same rows', 'UPDATE little SET k = k + 1000 WHERE id <= 4');
little('deletions', 'DELETE FROM little WHERE id IN (7, 8, 9)');
little('nothing', 'SELECT 1');
little('a rollback', q{BEGIN; UPDATE little SET v = 'rolled back' WHERE id < 20; ROLLBACK});
is(sql(q{SELECT count(*), sum(k), count(v) FROM little}), sql(q{SELECT 197, sum(i) + 8000 - 24, 197 FROM generate_series(1, 200) i}), 'the rows are right');
is(sql(q{SET enable_seqscan = off; SELECT count(*) FROM little WHERE k > 2000}), 4, 'and the index');
little('all rows in place', 'UPDATE little SET v = v');
cmp_ok(syncs_of('UPDATE little SET k = k + 1; UPDATE little SET k = k - 1; VACUUM little'), '>', 0, 'many dead ones are flushed');
sql('UPDATE little SET v = v WHERE id = 10; VACUUM (FREEZE) little');
is(sql(q{SELECT age(relfrozenxid) < 20 AND relfrozenxid::text <> '} . $frozen . q{' FROM pg_class WHERE relname = 'little'}), 't', 'an aggressive VACUUM advances relfrozenxid');
is(sql(q{SELECT count(*) FROM lsm_verify('little')}), 0, 'and all is sound');

# what was forgotten comes back dead
sql('UPDATE little SET k = k + 1 WHERE id <= 4; VACUUM little; DELETE FROM little WHERE id = 11; VACUUM little');
$node->stop('immediate');
$node->start;
is(sql(q{SELECT count(*), sum(k) FROM little}), sql(q{SELECT 196, sum(i) + 8000 - 24 - 11 + 4 FROM generate_series(1, 200) i}), 'after a crash: the same rows');
is(sql(q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(k), sum(k) FROM little WHERE k > 0}), sql(q{SELECT count(*), sum(k) FROM little}), 'after a crash: the same by index only');
is(sql(q{SELECT count(*) FROM lsm_verify('little')}), 0, 'after a crash: sound');

# ---- VACUUM of a small table after its load ----

sql('CREATE TABLE small (id int PRIMARY KEY, k int, v text) USING lsm; CREATE INDEX small_k ON small USING lsm (k)');
sql(q{INSERT INTO small SELECT i, i, 'v' || i FROM generate_series(1, 3000) i; CHECKPOINT});
sub visible { return sql(q{SELECT string_agg(blkno::text, ' ' ORDER BY blkno) FROM pg_visibility_map('small') WHERE all_visible}); }
sub by_index_only { return sql(q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(k), sum(k) FROM small WHERE k > 0}); }
sql('CREATE EXTENSION pg_visibility');
is(syncs_of('VACUUM small'), 0, 'a small table: no fsync');
is(visible(), '0 1 2 3 4 5 6 7 8 9', 'a small table: its complete blocks are all-visible');
is(sql(q{SELECT relallvisible FROM pg_class WHERE relname = 'small'}), 10, 'a small table: and counted');
sql('DELETE FROM small WHERE id IN (10, 11, 1000)');
is(syncs_of('VACUUM small'), 0, 'three rows deleted: no fsync');
is(visible(), '1 2 4 5 6 7 8 9', 'three rows deleted: their blocks stay as they are');
is(by_index_only(), sql(q{SELECT 2997, sum(i) - 1021 FROM generate_series(1, 3000) i}), 'three rows deleted: the index knows');
sql('CHECKPOINT; INSERT INTO small VALUES (0, -1, NULL)');
$node->stop('immediate');
$node->start;
is(visible(), '1 2 4 5 6 7 8 9', 'after a crash: all-visible as before');
sql(q{INSERT INTO small SELECT i, i, 'new' FROM generate_series(3001, 3300) i});
is(by_index_only(), sql(q{SELECT 3297, sum(i) - 1021 FROM generate_series(1, 3300) i}), 'after a crash: new rows have other numbers');
is(sql(q{SELECT count(*) FROM lsm_verify('small')}), 0, 'after a crash: sound');
sql('VACUUM (INDEX_CLEANUP ON) small');
is(visible(), '0 1 2 3 4 5 6 7 8 9 10', 'INDEX_CLEANUP ON: all of them');
is(by_index_only(), sql(q{SELECT 3297, sum(i) - 1021 FROM generate_series(1, 3300) i}), 'INDEX_CLEANUP ON: the same rows');
$frozen = sql(q{SELECT relfrozenxid FROM pg_class WHERE relname = 'small'});
sql('SET vacuum_freeze_min_age = 0; VACUUM small');
isnt(sql(q{SELECT relfrozenxid FROM pg_class WHERE relname = 'small'}), $frozen, 'rows that are to be frozen are flushed');
is(sql(q{SELECT count(*) FROM lsm_verify('small')}), 0, 'and all is sound');

# ---- a power failure amid it ----

foreach my $point ('create_dir_made', 'create_owner_written', 'create_logged', 'create_unsynced', 'create_synced')
{
	lsm_hold($node, $point, 'backend');
	my $session = lsm_start_session($node, 'postgres', 'made', "CREATE TABLE late $table; INSERT INTO late VALUES (1, 1, 'x')");
	ok(lsm_wait_held($node), "$point: held");

	# redo begins behind the record
	sql('CHECKPOINT');
	my @pids = lsm_pids($node);
	lsm_kill_process($node, 'postmaster');
	kill('KILL', @pids);
	lsm_ended($session);
	lsm_clear_crashed($node, @pids);
	lsm_release($node);
	note(lsm_lose_unsynced($node, $log) . ' lost');
	$node->start;
	is(sql(q{SELECT to_regclass('late')}), '', "$point: not committed");
	is(sql(q{SELECT count(*) FROM one}), 0, "$point: what was committed is there");
	sql("CREATE TABLE late $table; INSERT INTO late VALUES (1, 1, 'x'); CHECKPOINT");
	@pids = lsm_pids($node);
	lsm_kill_process($node, 'postmaster');
	kill('KILL', @pids);
	lsm_clear_crashed($node, @pids);
	lsm_lose_unsynced($node, $log);
	$node->start;
	is(sql(q{SELECT v FROM late WHERE k = 1}), 'x', "$point: one that is committed survives");
	is(sql(q{SELECT object || ': ' || problem FROM lsm_verify('late')}), '', "$point: and is sound");
	sql(q{INSERT INTO late SELECT i, i, 'y' FROM generate_series(2, 1000) i; SELECT lsm_flush('late'); DROP TABLE late});
}
$node->stop;
done_testing();
