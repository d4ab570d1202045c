# More tables than lsm.max_trees: functions and views that look at all of them in one statement, beside a cursor that goes
# on; transactions that use too many are refused, with a hint, and do no harm; sessions that come and go through all tables
# while they are flushed; start after a crash.  Heap twins say what the rows are.
#   LSM_LONG=1  10,000 tables, as many as a large schema has
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tables = lsm_long() ? 10_000 : 150;
my $trees = lsm_long() ? 4096 : 64;
my $node = lsm_node('many', conf => "lsm.max_trees = $trees\nmax_locks_per_transaction = @{[ lsm_long() ? 1000 : 64 ]}\nautovacuum = off\nfsync = off\n");
lsm_start($node);
sub sql { return $node->safe_psql('postgres', $_[0]); }

# all of them, one by one
sub each_table { my ($text) = @_; return join ";\n", map { my $n = $_; $text =~ s/\@/$n/gr } 1 .. $tables; }
sub rows { return sql(each_table("SELECT count(*), sum(v) FROM t\@_$_[0]")); }

sql(each_table('CREATE TABLE t@_h (id int PRIMARY KEY, v int) USING heap; CREATE TABLE t@_l (id int PRIMARY KEY, v int) USING lsm'));
sql(each_table("INSERT INTO t\@_$_ SELECT g, \@ * g FROM generate_series(1, 5) g")) foreach 'h', 'l';
is(rows('l'), rows('h'), 'rows of all tables, one after the other');

# ---- in one statement ----

my %all = (
	lsm_sizes => [ q{SELECT count(*) FROM lsm_sizes WHERE relname LIKE 't%_l' AND total_bytes > 0}, $tables ],
	lsm_flush => [ q{SELECT count(*) FROM (SELECT lsm_flush(oid) FROM pg_class WHERE relname LIKE 't%_l') x}, $tables ],
	lsm_levels => [ q{SELECT count(*), sum(entries) FROM pg_class, lsm_levels(oid) WHERE relname ~ '^t.*_l'}, 2 * $tables . '|' . 10 * $tables ],
	lsm_files => [ q{SELECT count(*) FROM pg_class, lsm_files(oid) WHERE relname ~ '^t.*_l'}, 2 * $tables ],
	lsm_filters => [ q{SELECT count(*) > 0 FROM pg_class, lsm_filters(oid) WHERE relname ~ '^t.*_l'}, 't' ],
	lsm_compact => [ q{SELECT count(*) FROM (SELECT lsm_compact(oid) FROM pg_class WHERE relname LIKE 't%_l') x}, $tables ],
	lsm_verify => [ q{SELECT count(*) FROM pg_class, lsm_verify(oid) WHERE relname LIKE 't%_l'}, 0 ],
	pg_stat_lsm => [ q{SELECT count(*) FROM pg_stat_lsm}, 2 * $tables ]);
is(sql($all{$_}[0]), $all{$_}[1], "$_ of all tables in one statement") foreach qw(lsm_sizes lsm_flush lsm_levels lsm_files lsm_filters lsm_compact lsm_verify pg_stat_lsm);

# beside a cursor, and a table that the transaction has changed
is(sql(q{BEGIN; INSERT INTO t2_l VALUES (6, 0); DECLARE c CURSOR FOR SELECT id, v FROM t1_l ORDER BY id; FETCH 2 FROM c; } . $all{lsm_sizes}[0] . '; ' . $all{lsm_levels}[0] . '; ' . $all{lsm_verify}[0]
	  . '; FETCH ALL FROM c; UPDATE t2_l SET v = 7 WHERE id = 6; SELECT * FROM t2_l WHERE id = 6; ROLLBACK'),
	join("\n", '1|1', '2|2', $tables, $all{lsm_levels}[1], 0, '3|3', '4|4', '5|5', '6|7'), 'what the transaction uses goes on');

# ---- in one transaction ----

# (psql reads all of it: who writes to one that has stopped dies)
my ($rc, $out, $err) = $node->psql('postgres', 'BEGIN; ' . each_table('UPDATE t@_l SET v = -1') . '; COMMIT', on_error_stop => 0);
like(substr($err, 0, 2000), qr/too many LSM trees are in use at the same time\n.*DETAIL: .*\n?.*HINT: .*"lsm\.max_trees"/s, 'a transaction that uses too many is refused');
is(rows('l'), rows('h'), '... and has changed nothing');
sql('BEGIN; ' . each_table("UPDATE t\@_$_ SET v = v + 1") . '; COMMIT') foreach 'h';
sql(each_table('UPDATE t@_l SET v = v + 1'));

# ---- sessions, flushes, a crash ----

my @pids = map { lsm_start_session($node, 'postgres', "session$_", each_table($_ == 1 ? 'SELECT FROM t@_l WHERE id = 3' : $_ == 2 ? q{INSERT INTO t@_l VALUES (10, 1)} : q{SELECT lsm_flush('t@_l')})) } 1 .. 3;
sql(each_table('INSERT INTO t@_h VALUES (10, 1)'));
ok(lsm_ended($_), 'a session through all tables') foreach @pids;
is(join('', map { lsm_output("session$_") } 1 .. 3) =~ s/^\n//gmr, '', '... without an error');
is(rows('l'), rows('h'), 'the same rows');

# Blocks that wait for an epoch are waited for, however long it takes: a scan that deletes entries whose TIDs can be used
# again stops inside of one.  (The waiters ask for more trees than there are blocks: the first ones free all of them, and the
# others find none to free.)
sql('CREATE TABLE reused (id int) USING heap; CREATE INDEX ON reused USING lsm (id)');
sql('INSERT INTO reused SELECT g FROM generate_series(1, 1000) g; DELETE FROM reused WHERE id > 10');
lsm_set($node, 'lsm.crash_point' => '?');
$node->reload;
lsm_hold($node, 'append_before_wal', 'backend', 0);
my $scan = lsm_start_session($node, 'postgres', 'scan', join ";\n", 'SET enable_seqscan = off; SET enable_bitmapscan = off', ('SELECT count(*) FROM reused WHERE id > 0') x 10);
ok(lsm_wait_held($node, 60), 'a scan stops inside an epoch');
my @waiters = map { my $n = $_; lsm_start_session($node, 'postgres', "waiter$n", join ";\n", map { "SELECT count(*) FROM t${_}_l WHERE id = 3" } grep { $_ % 5 == $n } 2 .. $tables) } 0 .. 4;
ok(!lsm_ended($waiters[0], 3), 'who needs blocks waits ...');
lsm_release($node);
ok(lsm_ended($_), '... and goes on') foreach @waiters, $scan;
is(join('', map { lsm_output("waiter$_") } 0 .. 4) =~ s/^1\n//gmr . lsm_output('scan') =~ s/^10\n//gmr, '', '... without an error');
is(rows('l'), rows('h'), 'the same rows');
lsm_set($node, 'lsm.crash_point' => '');
$node->reload;

my @all = lsm_pids($node);
lsm_kill_process($node, 'postmaster');
lsm_restart_after_crash($node, @all);
is(rows('l'), rows('h'), 'the same rows after a crash');
is(sql($all{lsm_verify}[0]), 0, 'lsm_verify');
sql(join "; ", 'DROP TABLE reused', map { "DROP TABLE t${_}_l" } 1 .. $tables);
# what does not fit into the ring of dropped keyspaces is left to the sweep, which waits for two checkpoints
for (my $n = 0; lsm_long() && $n < 60 && sql(q{SELECT count(*) FROM pg_ls_dir('pg_lsm')}) > 1000; $n++)
{
	sql('CHECKPOINT');
	sleep 10;
}
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_ls_dir('pg_lsm') d WHERE d ~ '^[0-9a-f]{16}$'}) or die 'directories stay';
pass('directories of dropped tables go away');
$node->stop;
done_testing();
