# Several processes scan and build lsm indexes: what they return together is what the snapshot sees, whatever flush,
# compaction, VACUUM and writers do between the moments when they look; and when one of them is stopped, the statement ends
# and nothing is left of it.
#   LSM_SECONDS: of load (8; long: 120)
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

lsm_seed();
my $seconds = $ENV{LSM_SECONDS} // (lsm_long() ? 120 : 8);
my $node = lsm_node('parallel', conf => q{
autovacuum = off
fsync = off
max_worker_processes = 16
log_min_messages = fatal
lsm.memtable_size = 1MB
min_parallel_table_scan_size = 0
min_parallel_index_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
cpu_operator_cost = 0
cpu_tuple_cost = 1
max_parallel_workers_per_gather = 2
});
lsm_start($node);
my $data = $node->data_dir;

sub sql { return $node->safe_psql('postgres', $_[0]); }
sub release { append_to_file("$data/$_", '') foreach @_; return; }
sub hold { unlink map { "$data/$_" } @_; return; }

# True if so many processes of the kind wait in wait_for().
sub waits
{
	my ($kind, $n) = @_;
	return $node->poll_query_until('postgres', "SELECT count(*) >= $n FROM pg_stat_activity WHERE backend_type = '$kind' AND wait_event = 'PgSleep'");
}

sql(q{
CREATE FUNCTION in_worker() RETURNS bool LANGUAGE sql STABLE PARALLEL SAFE AS $$SELECT pg_backend_pid()::text <> current_setting('par.leader')$$;
-- until the file is there
CREATE FUNCTION wait_for(file text) RETURNS void LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
	WHILE pg_stat_file(file, true) IS NULL LOOP PERFORM pg_sleep(0.01); END LOOP;
END $$;
-- a key of a scan: workers do not know it before the file is there, and so have not begun
CREATE FUNCTION key_for_workers(k int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
	IF public.in_worker() THEN PERFORM public.wait_for('go_worker'); END IF;
	RETURN k;
END $$;
-- a filter: the leader stays at the row
CREATE FUNCTION leader_waits(id int) RETURNS bool LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
	IF NOT public.in_worker() THEN PERFORM public.wait_for('go_leader'); END IF;
	RETURN true;
END $$;
CREATE FUNCTION worker_waits(id int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	IF public.in_worker() THEN PERFORM public.wait_for('go_worker'); END IF;
	RETURN id;
END $$;
CREATE FUNCTION all_wait(id int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	PERFORM public.wait_for('go_worker');
	RETURN id;
END $$;
CREATE TYPE mood AS ENUM ('c', 'a', 'e');
ALTER TYPE mood ADD VALUE 'b' BEFORE 'c';
ALTER TYPE mood ADD VALUE 'd' BEFORE 'e'});

sub make_table
{
	my ($t, $rows) = @_;
	sql(qq{DROP TABLE IF EXISTS $t;
CREATE TABLE $t (id int, r int, e mood, pad text) USING lsm WITH (parallel_workers = 2);
CREATE INDEX ${t}_r ON $t USING lsm (r, id);
CREATE INDEX ${t}_e ON $t USING lsm (e, r) INCLUDE (id);
INSERT INTO $t SELECT i, hashint4(i) & 65535, ('{a,b,c,d,e}'::mood[])[1 + i % 5], 'p' || i FROM generate_series(1, $rows / 2) i;
SELECT lsm_flush('$t');
INSERT INTO $t SELECT i, hashint4(i) & 65535, ('{a,b,c,d,e}'::mood[])[1 + i % 5], 'p' || i FROM generate_series($rows / 2 + 1, $rows) i;
VACUUM ANALYZE $t;});
	return;
}

my $scan_settings = q{SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET enable_incremental_sort = off;
SELECT set_config('par.leader', pg_backend_pid()::text, false) \g /dev/null
};

# ---- the tree changes after the leader has begun, and before the workers do ----

make_table('steps', 30000);
my $n = 0;
my %between = (
	'flush and compaction' => q{SELECT lsm_flush('steps'); SELECT lsm_compact('steps')},
	'writers, flush, VACUUM and compaction' => q{
INSERT INTO steps SELECT i, hashint4(i) & 65535, 'a', 'new' FROM generate_series(100001, 120000) i;
DELETE FROM steps WHERE id % 3 = 0;
UPDATE steps SET r = r + 1 WHERE id % 3 = 1;
SELECT lsm_flush('steps'); VACUUM steps; SELECT lsm_compact('steps')},
	'a label and rows with it' => q{ALTER TYPE mood ADD VALUE 'a@' BEFORE 'b'; INSERT INTO steps SELECT i, i, 'a@', 'new' FROM generate_series(200001, 201000) i; SELECT lsm_flush('steps')});
foreach my $what (sort { $a cmp $b } keys %between)
{
	foreach my $query ('SELECT r, id FROM steps WHERE r >= key_for_workers(0) AND leader_waits(id) ORDER BY r, id',
		'SELECT r, id, pad FROM steps WHERE r >= key_for_workers(100) AND leader_waits(id) ORDER BY r DESC, id DESC',
		'SELECT e, r FROM steps WHERE r >= key_for_workers(0) AND leader_waits(id) ORDER BY e, r')
	{
		$n++;
		hold('go_worker', 'go_leader');
		release('go_leader', 'go_worker');
		my $truth = sql("$scan_settings SET max_parallel_workers_per_gather = 0; SELECT count(*) || md5(array_agg(q::text)::text) FROM ($query) q");
		hold('go_worker', 'go_leader');
		my $plan = sql("$scan_settings EXPLAIN SELECT array_agg(q::text) FROM ($query) q");
		my $session = lsm_start_session($node, 'postgres', "steps$n",
			"$scan_settings SELECT count(*) || md5(array_agg(q::text)::text) FROM ($query) q;\n");
		ok($plan =~ /Gather Merge.*Parallel Index/s && waits('parallel worker', 2) && waits('client backend', 1), "$what: all have started");
		$node->safe_psql('postgres', $between{$what} =~ s/a@/a$n/gr);
		release('go_worker');
		usleep(100_000);
		release('go_leader');
		ok(lsm_ended($session), "$what: the scan ends");
		is(lsm_output("steps$n"), "$truth\n", "$what, between two looks at the index: " . substr($query, 0, 40));
		make_table('steps', 30000) if $what =~ /writers/;
	}
}
is(sql(q{SELECT * FROM lsm_verify('steps')}), '', 'the table is sound');

# ---- a process is stopped ----

sub statement_ends
{
	my ($what, $name, $statement, $stop, $message) = @_;
	hold('go_worker', 'go_leader');
	my $session = lsm_start_session($node, 'postgres', $name, "$scan_settings $statement;\n");
	ok(waits('parallel worker', 1), "$what: a worker is at work");
	sql($stop);
	ok(lsm_ended($session, 60), "$what: the statement ends");
	like(lsm_output($name), $message, "$what: it says why");
	release('go_worker', 'go_leader');
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker'}), "$what: no worker is left");
	return;
}

my $end_worker = q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'parallel worker' LIMIT 1};
my $cancel = q{SELECT pg_cancel_backend(leader_pid) FROM pg_stat_activity WHERE backend_type = 'parallel worker' LIMIT 1};
my $end_leader = q{SELECT pg_terminate_backend(leader_pid) FROM pg_stat_activity WHERE backend_type = 'parallel worker' LIMIT 1};
my $files = sub { my @names = lsm_files_of($node); return scalar @names; };
foreach my $kind ('build', 'concurrent build', 'scan')
{
	my $statement = $kind eq 'scan' ? 'SELECT count(*) FROM steps WHERE r >= 0 AND worker_waits(id) >= 0 AND leader_waits(id)'
	  : $kind eq 'build' ? 'CREATE INDEX steps_new ON steps USING lsm (all_wait(id))'
	  : 'CREATE INDEX CONCURRENTLY steps_new ON steps USING lsm (all_wait(id))';
	(my $name = $kind) =~ tr/ /_/;
	statement_ends("$kind, worker ended", "${name}_1", $statement, $end_worker, qr/ERROR|FATAL/);
	sql('DROP INDEX IF EXISTS steps_new');
	statement_ends("$kind, cancelled", "${name}_2", $statement, $cancel, qr/canceling statement due to user request/);
	sql('DROP INDEX IF EXISTS steps_new');
	statement_ends("$kind, leader ended", "${name}_3", $statement, $end_leader, qr/terminat/);
	sql('DROP INDEX IF EXISTS steps_new');
}

# the whole server, by kill -9 of a worker
foreach my $statement ('SELECT count(*) FROM steps WHERE r >= 0 AND worker_waits(id) >= 0 AND leader_waits(id)',
	'CREATE INDEX steps_new ON steps USING lsm (all_wait(id))')
{
	hold('go_worker', 'go_leader');
	my $session = lsm_start_session($node, 'postgres', 'killed', "$scan_settings $statement;\n");
	ok(waits('parallel worker', 1), 'a worker is at work');
	my $pid = sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'parallel worker' LIMIT 1});
	kill 'KILL', $pid;
	ok(lsm_ended($session, 60), 'its death ends the statement');
	lsm_wait_up($node);
	release('go_worker', 'go_leader');
	is(sql(q{SELECT count(*) FROM pg_class WHERE relname = 'steps_new'}), 0, 'no index is left');
	is(sql(q{SELECT * FROM lsm_verify('steps')}), '', 'the table is sound');
}
sql('CREATE INDEX steps_new ON steps USING lsm (all_wait(id))');
is(sql(q{SELECT * FROM lsm_verify('steps_new')}), '', 'the index can be built');

# ---- anything, beside anything ----

make_table('load', 40000);
my $end = time + $seconds;
my $writer = lsm_start_session($node, 'postgres', 'writer', join('', map { my $i = $_; qq{
INSERT INTO load SELECT i, hashint4(i) & 65535, 'b', 'new' FROM generate_series(1000000 + $i * 300, 1000000 + $i * 300 + 299) i;
UPDATE load SET r = (r + 17) & 65535 WHERE r BETWEEN $i * 97 % 65536 AND $i * 97 % 65536 + 300;
DELETE FROM load WHERE r BETWEEN $i * 191 % 65536 AND $i * 191 % 65536 + 250;
@{[ $i % 3 == 0 ? q{SELECT lsm_flush('load') \g /dev/null} : '' ]}
@{[ $i % 7 == 0 ? 'VACUUM load;' : '' ]}
@{[ $i % 11 == 0 ? q{SELECT lsm_compact('load') \g /dev/null} : '' ]}
} } 1 .. 100000));
my ($rounds, $wrong) = (0, '');
while (time < $end && $wrong eq '')
{
	my @queries;
	foreach (1 .. 4)
	{
		my $low = int(rand(60000));
		my $high = $low + int(rand(2) < 1 ? rand(2000) : rand(65536 - $low));
		my $desc = rand(2) < 1 ? ' DESC' : '';
		push @queries, "SELECT r, id, pad FROM load WHERE r BETWEEN $low AND $high ORDER BY r$desc, id$desc",
		  "SELECT r, id FROM load WHERE r > $low AND r < $high ORDER BY r$desc, id$desc",
		  "SELECT e, r FROM load WHERE r >= $low ORDER BY e$desc, r$desc",
		  "SELECT r, id FROM load WHERE r = ANY (ARRAY(SELECT generate_series($low, $high, 7))) ORDER BY r$desc, id$desc";
	}
	my $leader = rand(3) < 1 ? 'off' : 'on';
	my $answers = sub {
		return join('', map { "SELECT count(*) || md5(array_agg(q::text)::text) FROM ($_) q;\n" } @queries);
	};
	my $out = sql("$scan_settings BEGIN ISOLATION LEVEL REPEATABLE READ; SET parallel_leader_participation = $leader;"
		  . $answers->() . 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_seqscan = on; SET enable_sort = on; SET max_parallel_workers_per_gather = 0;'
		  . $answers->() . 'COMMIT');
	my @lines = split /\n/, $out;
	foreach my $i (0 .. $#queries)
	{
		my ($parallel, $serial) = ($lines[$i] // '', $lines[ $i + @queries ] // '');
		$wrong .= "$queries[$i]: $parallel, and $serial by a sequential scan\n" if $parallel ne $serial;
	}
	$rounds++;
}
is($wrong, '', 'parallel scans see what the snapshot sees, beside writers, flush, compaction and VACUUM');
cmp_ok($rounds, '>', 0, "$rounds rounds");
kill 'TERM', $writer;
lsm_ended($writer);
unlike(lsm_output('writer'), qr/ERROR/, 'the writer had no error');

# indexes built beside it are whole
is(sql(q{CREATE INDEX CONCURRENTLY load_c ON load USING lsm (r) INCLUDE (id); REINDEX TABLE CONCURRENTLY load; SELECT * FROM lsm_verify('load')}), '', 'indexes are whole');
$node->stop;
done_testing();
