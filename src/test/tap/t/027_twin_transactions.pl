# Transactions of several clients that do the same to a heap table and to an lsm table, in one snapshot:
# many versions of few rows, keys that go and come again, savepoints, old snapshots, while trees are flushed,
# compacted and vacuumed, and the server is killed. Scrollable cursors for one value go back and forth amid that. Every statement changes as many rows in both, and whatever
# a snapshot sees, by whatever kind of scan, is the same. At last the same while the disk is full and its fsync fails, now and then.
#   LSM_TRANSACTIONS: of each client and round (100; long: 3000)  LSM_SECONDS: with a bad disk (6; long: 120)
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use List::Util qw(shuffle);
use POSIX ();
use Test::More;
use Time::HiRes qw(usleep time);

lsm_seed();
my $transactions = $ENV{LSM_TRANSACTIONS} // (lsm_long() ? 3000 : 100);
my $seconds = $ENV{LSM_SECONDS} // (lsm_long() ? 120 : 6);
my $dir = PostgreSQL::Test::Utils::tempdir();
$ENV{LSM_FAULTS_FULL} = "$dir/full";
$ENV{LSM_FAULTS_EIO} = "$dir/eio";
my $node = lsm_node('twins', conf => "lsm.memtable_size = 64kB\nlsm.target_file_size = 64kB\nfsync = off\ndeadlock_timeout = 50ms\nlog_min_messages = fatal");
lsm_start($node);
lsm_create_twins($node, 't', 'id int PRIMARY KEY, a int, b text', '(a, id)', '(b)');
$node->safe_psql('postgres', q{
CREATE TABLE log (n bigint PRIMARY KEY) USING lsm;
INSERT INTO t_h SELECT g, g % 50, 'b' || g % 300 FROM generate_series(1, 600) g;
INSERT INTO t_l SELECT * FROM t_h;
-- clients that wait to vacuum it, too, let heap's vacuum try for 5 s in vain to truncate it, each in turn
ALTER TABLE t_h SET (vacuum_truncate = false);
-- a heap table's entries, too: its TIDs are used again
CREATE INDEX t_h_sum ON t_h USING lsm ((a + 0));
CREATE INDEX t_l_sum ON t_l USING lsm ((a + 0));
-- the statement in both tables, or in none; an error of one alone, or another number of rows, ends the test
CREATE FUNCTION twice(statement text, undo bool) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	n bigint[] := '{-1,-1}';
	m bigint;
BEGIN
	EXECUTE replace(statement, '@', 't_h');
	GET DIAGNOSTICS m = ROW_COUNT;
	n[1] := m;
	EXECUTE replace(statement, '@', 't_l');
	GET DIAGNOSTICS m = ROW_COUNT;
	n[2] := m;
	IF n[1] <> n[2] THEN
		RAISE EXCEPTION 'twins differ: % and % rows: %', n[1], n[2], statement;
	END IF;
	IF undo THEN
		RAISE division_by_zero;
	END IF;
EXCEPTION
	WHEN division_by_zero THEN NULL;
	WHEN unique_violation THEN
		IF n[1] >= 0 THEN
			RAISE EXCEPTION 'twins differ: % in lsm alone: %', SQLERRM, statement;
		END IF;
END $$;
CREATE FUNCTION compare() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	ways text[] := '{seqscan,indexscan,bitmapscan}';
	way text := ways[1 + floor(random() * 3)];
	cond text := (ARRAY['true', 'id > 0', 'a > -1000000', 'b > ''''', format('id = %s', floor(random() * 40)), format('a = %s', floor(random() * 60))])[1 + floor(random() * 6)];
	-- or of a row with others that it leads to: scans that take turns
	what text := 'SELECT * FROM @ WHERE ' || cond;
	n bigint;
BEGIN
	IF random() < 0.3 THEN
		way := 'indexscan';
		what := format('SELECT p.*, c.id, c.b FROM @ p JOIN @ c ON c.id BETWEEN p.a AND p.a + %s WHERE p.id = %s', floor(random() * 3), floor(random() * 40));
	END IF;
	PERFORM set_config('enable_' || w, CASE WHEN w = way THEN 'on' ELSE 'off' END, true) FROM unnest(ways) w;
	EXECUTE replace(replace('SELECT count(*) FROM ((? EXCEPT ALL !) UNION ALL (! EXCEPT ALL ?)) d', '?', replace(what, '@', 't_h')), '!', replace(what, '@', 't_l')) INTO n;
	IF n > 0 THEN
		RAISE EXCEPTION 'twins differ: % rows of %, by %', n, what, way;
	END IF;
	PERFORM set_config('enable_' || w, 'on', true) FROM unnest(ways) w;
END $$;
CREATE FUNCTION use(way text) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_' || w, CASE WHEN w = way OR way = '' THEN 'on' ELSE 'off' END, true) FROM unnest('{seqscan,indexscan,bitmapscan}'::text[]) w $$;
-- the rows of one value, and then these once more by a cursor that goes back and forth; own writes are not for its eyes
CREATE FUNCTION walk(writing bool) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	cond text := (ARRAY[
		format('b = %L', (ARRAY['new', 'c', 'm', 'b' || floor(random() * 300), repeat('y', floor(random() * 300)::int)])[1 + floor(random() * 5)]),
		format('a + 0 = %s', floor(random() * 60)),
		format('id = %s', floor(random() * 40))])[1 + floor(random() * 3)];
	-- btree returns the TIDs of a posting list in ascending order in both directions
	tab text := CASE WHEN cond LIKE 'a + 0%' AND random() < 0.5 THEN 't_h' ELSE 't_l' END;
	c refcursor;
	want int[];
	ids int[] := '{}';
	n int;
	pos int;
	move int;
	id int;
BEGIN
	PERFORM use('seqscan');
	EXECUTE format('SELECT coalesce(array_agg(id ORDER BY id), ''{}'') FROM t_h WHERE %s', cond) INTO want;
	PERFORM use('indexscan');
	OPEN c SCROLL FOR EXECUTE format('SELECT id FROM %I WHERE %s', tab, cond);
	LOOP
		FETCH NEXT FROM c INTO id;
		EXIT WHEN id IS NULL;
		ids := ids || id;
	END LOOP;
	n := cardinality(ids);
	pos := n + 1;
	IF (SELECT coalesce(array_agg(i ORDER BY i), '{}') FROM unnest(ids) i) <> want THEN
		RAISE EXCEPTION 'twins differ: ids % of % where %, but % in heap', ids, tab, cond, want;
	END IF;
	PERFORM use('');
	FOR k IN 1..10 + 3 * least(n, 20) LOOP
		move := floor(random() * 8);
		CASE move
			WHEN 0, 1, 2 THEN
				FETCH NEXT FROM c INTO id;
				pos := least(pos + 1, n + 1);
			WHEN 3, 4 THEN
				FETCH PRIOR FROM c INTO id;
				pos := greatest(pos - 1, 0);
			WHEN 5 THEN
				FETCH LAST FROM c INTO id;
				pos := n;
			WHEN 6 THEN
				FETCH FIRST FROM c INTO id;
				pos := least(1, n);
			ELSE
				pos := greatest(least(pos + floor(random() * 7)::int - 3, n + 1), 0);
				FETCH ABSOLUTE pos FROM c INTO id;
		END CASE;
		IF id IS DISTINCT FROM ids[pos] THEN
			RAISE EXCEPTION 'twins differ: cursor for % where % is at % instead of row % of %', tab, cond, id, pos, ids;
		END IF;
		IF writing AND random() < 0.3 THEN
			PERFORM twice((ARRAY[
				format('UPDATE @ SET a = a + 0 WHERE %s', cond),
				format('UPDATE @ SET a = %s WHERE id = %s', floor(random() * 60), floor(random() * 700)),
				format('INSERT INTO @ SELECT %s, a, b FROM @ WHERE id = %s', floor(random() * 700), floor(random() * 700)),
				format('DELETE FROM @ WHERE id = %s', floor(random() * 700))])[1 + floor(random() * 4)], random() < 0.6);
		END IF;
	END LOOP;
	CLOSE c;
END $$;
CREATE FUNCTION step(seed float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	i int;
BEGIN
	PERFORM setseed(seed);
	FOR k IN 1..1 + floor(random() * 6) LOOP
		i := 1 + floor(random() * CASE WHEN random() < 0.6 THEN 25 ELSE 700 END);
		PERFORM twice((ARRAY[
			format('UPDATE @ SET a = a + 1 WHERE id = %s', i),
			format('UPDATE @ SET b = repeat(''y'', %s) WHERE id BETWEEN %s AND %s', floor(random() * 300), i, i + 3),
			format('UPDATE @ SET id = id + 2 WHERE id = %s', i),
			format('DELETE FROM @ WHERE id = %s', i),
			format('INSERT INTO @ VALUES (%s, %s, ''new'')', i, i % 50),
			format('INSERT INTO @ VALUES (%s, 1, ''c'') ON CONFLICT (id) DO UPDATE SET a = @.a + 1', i),
			format('WITH d AS (DELETE FROM @ WHERE id BETWEEN %s AND %s RETURNING *) INSERT INTO @ SELECT id, a + 1, b FROM d', i, i + 3),
			format('MERGE INTO @ USING (VALUES (%s), (%s)) v(k) ON @.id = k WHEN MATCHED AND a > 30 THEN DELETE WHEN MATCHED THEN UPDATE SET a = a + 7 WHEN NOT MATCHED THEN INSERT VALUES (k, 1, ''m'')', i, i + 5),
			format('SELECT FROM @ WHERE id BETWEEN %s AND %s FOR NO KEY UPDATE', i, i + 3)])[1 + floor(random() * 9)], random() < 0.2);
		IF random() < 0.2 THEN
			FOR j IN 1..20 LOOP
				PERFORM twice(format('UPDATE @ SET a = a + 1 WHERE id = %s', i), false);
			END LOOP;
		END IF;
		IF random() < 0.3 THEN
			PERFORM compare();
		END IF;
		IF random() < 0.15 THEN
			PERFORM walk(true);
		END IF;
	END LOOP;
END $$});

my $random = "\\set r random(-1000000, 1000000)\n\\set n random(1, 9000000000000000000)\n";
my $write = lsm_script('027_write', $random . "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT step(:r / 1000000.0);\nINSERT INTO log VALUES (:n);\nCOMMIT;\n");
my $serializable = lsm_script('027_serializable', $random . "BEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT step(:r / 1000000.0);\nCOMMIT;\n");
my $read = lsm_script('027_read', "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;\nSELECT compare();\n\\sleep 100 ms\nSELECT compare();\nSELECT compare();\nSELECT walk(false);\nSELECT walk(false);\nCOMMIT;\n");
my $maintain = lsm_script('027_maintain', "SELECT lsm_flush('t_l');\n\\sleep 50 ms\nSELECT lsm_flush('t_l'), lsm_compact('t_l');\n\\sleep 50 ms\nVACUUM t_l;\nVACUUM t_h;\nSELECT lsm_flush('t_h_sum');\n\\sleep 50 ms\n");
my @load = ('-n', '-c', 6, '-j', 2, '--max-tries=10000', '-f', "$write\@6", '-f', "$serializable\@2", '-f', "$read\@2", '-f', "$maintain\@1");

foreach my $round (1 .. 2)
{
	$node->command_ok([ 'pgbench', @load, '-t', $transactions, '--random-seed=' . int(rand(1e9)), $node->connstr('postgres') ], "round $round: clients see no difference");
	is(lsm_differences($node, 't'), '', "round $round: same");

	# killed amid the same
	my $pid = fork();
	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open(STDOUT, '>', "$ENV{TESTDIR}/027.out");
		open(STDERR, '>', "$ENV{TESTDIR}/027.err");
		exec('pgbench', @load, '-T', 60, $node->connstr('postgres')) or POSIX::_exit(99);
	}
	usleep(1_000_000 + int(rand(2_000_000)));
	my @pids = lsm_pids($node);
	lsm_kill_process($node, 'postmaster');
	waitpid($pid, 0);
	unlike(slurp_file("$ENV{TESTDIR}/027.err"), qr/twins differ/, "round $round: no difference before the crash");
	lsm_restart_after_crash($node, @pids);
	is(lsm_differences($node, 't'), '', "round $round: same after the crash");
}

# a bad disk: statements fail, and transactions with them, until the server is killed
{
	local $ENV{LD_PRELOAD} = $ENV{LSM_FAULTS_SO};
	lsm_set($node, 'lsm.memtable_memory' => '2MB');
	$node->restart;
}
my @clients;
foreach my $c (1 .. 5)
{
	my $script = "$dir/client_$c.sql";
	append_to_file($script, join('', map { $c == 5 ? (shuffle("SELECT lsm_flush('t_l');\n", "SELECT lsm_compact('t_l');\n", "VACUUM t_l;\n", "SELECT lsm_flush('t_h_sum');\n", "CHECKPOINT;\n"))[0]
		: "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT step(" . (rand(2) - 1) . ");\nSELECT compare();\nCOMMIT;\n" } 1 .. 300 * $seconds));
	push @clients, lsm_spawn_psql($node, $script, "$dir/client_$c", '-v', 'ON_ERROR_STOP=0', '-v', 'VERBOSITY=verbose');
}
my $end = time + $seconds;
my $faults = 0;
while (time < $end || ($faults < 5 && time < $end + 60))
{
	my $fault = rand() < 0.6 ? 'full' : 'eio';
	append_to_file("$dir/$fault", 'x');
	usleep(50_000 + int(rand(600_000)));
	unlink "$dir/$fault";
	usleep(50_000 + int(rand(400_000)));
	$faults = () = join('', map { slurp_file("$dir/client_$_.err") } 1 .. 5) =~ /No space left on device|Input\/output error/g;
}
my @pids = lsm_pids($node);
lsm_kill_process($node, 'postmaster');
waitpid($_, 0) foreach @clients;
my $errors = join('', map { slurp_file("$dir/client_$_.err") } 1 .. 5);
unlike($errors, qr/twins differ|PANIC|XX000/, "$faults errors of a bad disk: no difference");
cmp_ok($faults, '>=', 5, 'it was bad enough');
lsm_restart_after_crash($node, @pids);
is(lsm_differences($node, 't'), '', 'same after a bad disk and a crash');
is(($node->psql('postgres', q{SELECT lsm_flush('t_l'), lsm_compact('t_l')}))[0], 0, 'flush and compaction work again');
is(lsm_differences($node, 't'), '', 'same after these');
$node->stop;
done_testing();
