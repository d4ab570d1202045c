# What a session's temporary relations take goes with them, not with the session: memory as heap's, and
# nothing stays in pg_lsm.  The same for anything else that a session may do again and again.
#   LSM_LONG: 10,000 times each, and more of it
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $times = lsm_long() ? 10_000 : 1_000;
my $some = lsm_long() ? 2_000 : 100;
my $node = lsm_node('temporary', conf => "fsync = off\nautovacuum = off\nallow_in_place_tablespaces = on\nmax_wal_size = 4GB\ncheckpoint_timeout = 1h");
lsm_start($node);
$node->safe_psql('postgres', q{CREATE TABLESPACE other LOCATION ''});
foreach my $am ('lsm', 'heap')
{
	$node->safe_psql('postgres', qq{
CREATE TABLE p_$am (id int PRIMARY KEY, v text) USING $am;
CREATE INDEX p_${am}_v ON p_$am (v);
INSERT INTO p_$am SELECT g, md5(g::text) FROM generate_series(1, 2000) g;});
}
$node->safe_psql('postgres', q{SELECT lsm_flush('p_lsm')});

# private memory, kB, before and after $n runs of a script that has been run $first times
sub growth
{
	my ($am, $script, $n, $first) = @_;
	(my $sql = $script) =~ s/%AM%/$am/g;
	my $rss = q{SELECT 'RSS ' || substring(pg_read_file('/proc/self/status', 0, 10000) from 'RssAnon:\s+(\d+)');};
	my ($rc, $out, $err) = $node->psql('postgres', "SET client_min_messages = error; SET temp_buffers = '800kB';\n"
		  . "$sql\n" x $first . "$rss\n" . "$sql\n" x $n . "$rss\n", on_error_stop => 0, timeout => 1800);
	$err = join("\n", grep { !/division by zero|duplicate key|DETAIL|CONTEXT/ } split /\n/, $err);
	die "$script: $err" if $err =~ /ERROR|FATAL|PANIC|server closed/;
	my @rss = $out =~ /^RSS (\d+)$/mg;
	return $rss[1] - $rss[0];
}

# heap's growth and what a few relation cache entries more may take; a leak of a kB each time is more.  Of
# relations that are not temporary, a session remembers a thousand: $kept runs make as many
my $kept = 400;
sub same_as_heap
{
	my ($what, $script, $n, $first) = @_;
	$n //= $times;
	$first //= 60;
	my ($heap, $lsm) = (growth('heap', $script, $n, $first), growth('lsm', $script, $n, $first));
	cmp_ok($lsm, '<', $heap + 1024 + $n / 4, "$what, $n times: $lsm kB of private memory gained, heap $heap");
	return;
}

my $make = 'CREATE TEMP TABLE t (id int PRIMARY KEY, v text) USING %AM%';
my $fill = "INSERT INTO t VALUES (1, 'a');";
same_as_heap('ON COMMIT DROP', "BEGIN; $make ON COMMIT DROP; $fill COMMIT;");
same_as_heap('DROP', "$make; $fill DROP TABLE t;", $some);
same_as_heap('creation rolled back', "BEGIN; $make; $fill ROLLBACK;", $some);
same_as_heap('subtransaction rolled back', "BEGIN; SAVEPOINT a; $make; $fill ROLLBACK TO a; COMMIT;", $some);
same_as_heap('subtransactions in a loop', qq{
DO \$\$ BEGIN FOR i IN 1 .. 5 LOOP
  BEGIN $make; $fill RAISE EXCEPTION 'no'; EXCEPTION WHEN raise_exception THEN NULL; END;
END LOOP; END \$\$;}, $some);
same_as_heap('TRUNCATE', "$make; $fill" =~ s/TABLE/TABLE IF NOT EXISTS/r =~ s/INSERT/TRUNCATE t; INSERT/r, $some);
same_as_heap('ON COMMIT DELETE ROWS', "$make ON COMMIT DELETE ROWS; $fill" =~ s/TABLE/TABLE IF NOT EXISTS/r, $some);
same_as_heap('DISCARD TEMP', "$make; $fill DISCARD TEMP;", $some);
same_as_heap('rewritten', "$make; $fill VACUUM FULL t; REINDEX TABLE t; ALTER TABLE t ALTER v TYPE varchar(9); DROP TABLE t;", $some);
same_as_heap('moved', "$make; $fill ALTER INDEX t_pkey SET TABLESPACE other; ALTER TABLE t SET TABLESPACE other; SELECT 1 FROM t WHERE id = 1; DROP TABLE t;", $some);
same_as_heap('created and dropped, not temporary', 'CREATE TABLE q (id int PRIMARY KEY, v text) USING %AM%; INSERT INTO q VALUES (1); DROP TABLE q;', lsm_long() ? 10_000 : 300, $kept);

same_as_heap('not temporary, rolled back', 'BEGIN; CREATE TABLE q (id int PRIMARY KEY, v text) USING %AM%; INSERT INTO q VALUES (1); ROLLBACK;', lsm_long() ? 10_000 : 2000, $kept);

# everything is gone while a session like these goes on
{
	my $session = $node->background_psql('postgres', on_error_die => 1);
	$session->query_safe($_) foreach
	  'CREATE TEMP TABLE stays (id int PRIMARY KEY, v text) USING lsm',
	  q{INSERT INTO stays SELECT g, md5(g::text) FROM generate_series(1, 10000) g};
	$session->query_safe(q{SELECT lsm_flush('stays')});
	my $kept = temporary_directories();
	my $flushed = q{INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 5000) g; SELECT lsm_flush('t')};
	(my $lsm = $make) =~ s/%AM%/lsm/;
	my %ends = (
		'DROP' => ["$lsm", $flushed, 'DROP TABLE t'],
		'ON COMMIT DROP' => ['BEGIN', "$lsm ON COMMIT DROP", $flushed, 'COMMIT'],
		'rollback' => ['BEGIN', $lsm, $flushed, 'ROLLBACK'],
		'rollback to a savepoint' => ['BEGIN', 'SAVEPOINT a', $lsm, $flushed, 'ROLLBACK TO a', 'COMMIT'],
		'TRUNCATE' => [$lsm, $flushed, 'TRUNCATE t', 'DROP TABLE t'],
		'TRUNCATE rolled back' => [$lsm, $flushed, 'BEGIN', 'TRUNCATE t', $flushed, 'ROLLBACK', 'DO $$ BEGIN ASSERT (SELECT count(*) = 5000 FROM t); END $$', 'DROP TABLE t'],
		'DROP rolled back' => [$lsm, $flushed, 'BEGIN', 'DROP TABLE t', 'ROLLBACK', 'DO $$ BEGIN ASSERT (SELECT count(*) = 5000 FROM t); END $$', 'DROP TABLE t'],
		'index moved, table dropped' => [$lsm, $flushed, 'ALTER INDEX t_pkey SET TABLESPACE other', 'CREATE TEMP TABLE u (a int) USING lsm', 'DROP TABLE u', 'SET enable_seqscan = off', 'SET enable_bitmapscan = off', 'DO $$ BEGIN ASSERT (SELECT count(*) = 1 FROM t WHERE id = 77); END $$', 'DROP TABLE t'],
		'index moved and back' => [$lsm, $flushed, 'BEGIN', 'ALTER INDEX t_pkey SET TABLESPACE other', 'DO $$ BEGIN ASSERT (SELECT count(*) = 1 FROM t WHERE id = 77); END $$', 'ROLLBACK', 'DO $$ BEGIN ASSERT (SELECT count(*) = 1 FROM t WHERE id = 78); END $$', 'DROP TABLE t'],
		'held cursor' => ['BEGIN', $lsm, $flushed, 'DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t ORDER BY id', 'COMMIT', 'FETCH 5 FROM c', 'CLOSE c', 'DROP TABLE t'],
		'cursor open at the rollback' => ['BEGIN', $lsm, $flushed, 'DECLARE c CURSOR FOR SELECT * FROM t ORDER BY id', 'FETCH 5 FROM c', 'ROLLBACK'],
		'renamed first' => [$lsm, $flushed, 'ALTER TABLE t RENAME TO t2', 'DROP TABLE t2']);
	foreach my $how (sort keys %ends)
	{
		$session->query_safe($_) foreach @{ $ends{$how} };
		is(temporary_directories(), $kept, "$how: its directories are gone at once");
	}
	is($session->query_safe('SELECT count(*), sum(id) FROM stays'), '10000|50005000', 'one that stays is as it was');
	is($session->query_safe(q{SELECT count(*) FROM lsm_verify('stays')}), '0', 'and sound');
	$session->quit;
}

# directories whose owner is a temporary relation
sub temporary_directories
{
	my $n = 0;
	foreach my $file (glob(lsm_dir($node) . '/*/owner'))
	{
		# it may go while we look
		open(my $fh, '<', $file) or next;
		my $owner = <$fh> // '';
		$n++ if $owner =~ /^\d+ \d+ \d+ \d+$/;
	}
	return $n;
}

for (1 .. 1200) { last if temporary_directories() == 0; usleep(100_000); }
is(temporary_directories(), 0, 'nothing temporary is left after the session');

# anything else, again and again, on a table that stays
my %again = (
	'insert' => q{INSERT INTO p_%AM% VALUES (1 + (random() * 1000)::int, 'x') ON CONFLICT DO NOTHING;},
	'select' => q{SELECT * FROM p_%AM% WHERE id = 77; SELECT count(*) FROM p_%AM% WHERE v > 'fe'; SELECT * FROM p_%AM% ORDER BY id LIMIT 5;},
	'update' => q{UPDATE p_%AM% SET v = md5(random()::text) WHERE id = 1 + (random() * 20)::int;},
	'ALTER INDEX SET' => q{ALTER INDEX p_%AM%_v SET (fillfactor = 80);},
	'savepoints' => q{BEGIN; SAVEPOINT a; UPDATE p_%AM% SET v = 'x' WHERE id = 5; ROLLBACK TO a; SAVEPOINT b; UPDATE p_%AM% SET v = 'y' WHERE id = 6; RELEASE b; COMMIT;},
	'cursors' => q{BEGIN; DECLARE c SCROLL CURSOR FOR SELECT * FROM p_%AM% ORDER BY id; FETCH 3 FROM c; FETCH BACKWARD 1 FROM c; ROLLBACK;},
	'errors' => q{INSERT INTO p_%AM% VALUES (1/0); INSERT INTO p_%AM% VALUES (7), (7); SELECT 1/(id-id) FROM p_%AM% WHERE id = 77;},
	'prepared statements' => q{PREPARE s AS SELECT * FROM p_%AM% WHERE id = $1; EXECUTE s(77); DEALLOCATE s;},
	'EXPLAIN ANALYZE' => q{EXPLAIN ANALYZE SELECT * FROM p_%AM% WHERE id = 77; EXPLAIN (ANALYZE, FORMAT json) UPDATE p_%AM% SET v = 'z' WHERE id = 8;},
	'exceptions' => q{DO $$ BEGIN FOR i IN 1 .. 5 LOOP BEGIN INSERT INTO p_%AM% VALUES (77); EXCEPTION WHEN unique_violation THEN NULL; END; END LOOP; END $$;},
	'TRUNCATE' => q{BEGIN; TRUNCATE p_%AM%; INSERT INTO p_%AM% VALUES (1, 'a'); ROLLBACK;},
	'lists' => q{SELECT count(*) FROM p_%AM% WHERE id = ANY (ARRAY(SELECT generate_series(1, 50)));});
foreach my $what (lsm_long() ? sort keys %again : ('errors', 'EXPLAIN ANALYZE', 'ALTER INDEX SET', 'TRUNCATE'))
{
	same_as_heap($what, $again{$what}, lsm_long() ? 10_000 : 200, $what eq 'TRUNCATE' ? $kept : undef);
}
$node->stop;
done_testing();
