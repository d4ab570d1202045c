# Scans that begin where thousands of rows have gone, as those of a queue do: they read few blocks, and what is written
# into such a gap is found at once, by everyone, whatever reads, flushes, compacts or vacuums beside it.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = lsm_node('gaps', conf => q{
autovacuum = off
enable_seqscan = off
enable_sort = off
enable_bitmapscan = off
lsm.memtable_size = 4MB
lsm.target_file_size = 4MB});
lsm_start($node);

sub query { return $node->safe_psql('postgres', $_[0]); }

# The query reads few blocks, before long: the entries are found dead, that is written down where there is room, the
# DELETEs are walked over, the gap is known.  By the index in order, or the test is none.
sub few_blocks
{
	my ($query, $what) = @_;
	my $plan;
	my $blocks;
	foreach (1 .. 1200)
	{
		$plan = query("EXPLAIN (ANALYZE, COSTS OFF) $query");
		($blocks) = $plan =~ /blocks read=(\d+)/;
		last if $blocks < 30;
		usleep(50_000);
	}
	like($plan, qr/Index (Only )?Scan.* using t_/, "$what: by index") or diag($plan);
	return cmp_ok($blocks, '<', 30, "$what: few blocks");
}

# ---- few blocks, right rows ----

my %shapes = (
	range => [ 'i int', 'i', 'g', 'SELECT i FROM t ORDER BY i LIMIT 1' ],
	'range from a place' => [ 'i int', 'i', 'g', 'SELECT i FROM t WHERE i > 7 ORDER BY i LIMIT 1' ],
	'second column' => [ 'q text, i int', 'q, i', q{'a', g}, q{SELECT i FROM t WHERE q = 'a' ORDER BY i LIMIT 1} ],
	descending => [ 'i int', 'i DESC', '-g', 'SELECT i FROM t ORDER BY i DESC LIMIT 1' ],
	text => [ 'i text', 'i', q{'a common prefix ' || lpad(g::text, 9, '0')}, 'SELECT i FROM t ORDER BY i LIMIT 1' ],
	'long text' => [ 'i text', 'i', q{repeat('abc', 40) || lpad(g::text, 9, '0')}, 'SELECT i FROM t ORDER BY i LIMIT 1' ],
	'one value' => [ 's text, i int', 's', q{'ready', g}, q{SELECT i FROM t WHERE s = 'ready' LIMIT 1} ],
);
foreach my $am ('lsm', 'heap')
{
	foreach my $name (sort keys %shapes)
	{
		my ($columns, $key, $values, $query) = @{ $shapes{$name} };
		query(qq{DROP TABLE IF EXISTS t; CREATE TABLE t ($columns) USING $am; CREATE INDEX t_i ON t USING lsm ($key);
			INSERT INTO t SELECT $values FROM generate_series(1, 20000) g; SELECT lsm_flush('t_i')});
		query(qq{DELETE FROM t WHERE i IN (SELECT i FROM t ORDER BY i @{[ $name eq 'descending' ? 'DESC' : '' ]} LIMIT 19000)});

		few_blocks($query, "$am, $name") unless $name eq 'long text';    # such keys are not remembered: right, and no faster
		my $first = query($query);
		is(query(qq{SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_sort = on; SET enable_seqscan = on; $query}), $first, "$am, $name: the row")
		  unless $name eq 'one value';
		query(qq{INSERT INTO t SELECT $values FROM generate_series(50, 50) g});
		my $new = query(qq{SELECT i FROM (SELECT $values FROM generate_series(50, 50) g) AS x @{[ $columns =~ /, / ? '(q, i)' : '(i)' ]}});
		is(query($query), $new, "$am, $name: a new row in the gap") if $name ne 'one value';
		is(query(qq{BEGIN; DELETE FROM t WHERE i = '$new'; $query; ROLLBACK}), $first, "$am, $name: gone, for who has deleted it")
		  if $name ne 'one value';
		is(query($query), $new, "$am, $name: not for others") if $name ne 'one value';
		query(qq{SELECT lsm_flush('t_i')});
		is(query($query), $new, "$am, $name: nor after a flush") if $name ne 'one value';
		is(query(q{SELECT count(*) FROM lsm_verify('t')}), 0, "$am, $name: verified") if $am eq 'lsm';
		is(query(q{SELECT count(*) FROM lsm_verify('t_i')}), 0, "$am, $name: index verified");
		is(query('SELECT count(*) FROM t'), 1001, "$am, $name: all rows by index");
		query('VACUUM t');
		is(query($query), $new, "$am, $name: nor after VACUUM") if $name ne 'one value';
	}
}

# ---- rows that are locked, or live, before the gap ----

query(q{DROP TABLE t; CREATE TABLE t (i int) USING lsm; CREATE INDEX t_i ON t USING lsm (i);
	INSERT INTO t SELECT generate_series(1, 20000); SELECT lsm_flush('t_i'); DELETE FROM t WHERE i BETWEEN 4 AND 19000});
my $holder = $node->background_psql('postgres', on_error_stop => 1);
$holder->query_safe('BEGIN; SELECT * FROM t WHERE i <= 3 FOR UPDATE');
my $fetch = 'SELECT i FROM t ORDER BY i LIMIT 1 FOR UPDATE SKIP LOCKED';
is(query($fetch), 19001, 'rows that are locked are skipped') foreach 1 .. 4;
few_blocks($fetch, 'behind live rows, too');
$holder->query_safe('COMMIT');
$holder->quit;
is(query($fetch), 1, 'the first one again');

# an old snapshot sees what it saw; the row of a transaction in progress comes to light with its commit
my $old = $node->background_psql('postgres', on_error_stop => 1);
my $writer = $node->background_psql('postgres', on_error_stop => 1);
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
query('DELETE FROM t WHERE i <= 19500');
$writer->query_safe('BEGIN; INSERT INTO t VALUES (5)');
is(query('SELECT i FROM t ORDER BY i LIMIT 1'), 19501, 'not of a transaction in progress') foreach 1 .. 3;
is($old->query_safe('SELECT i FROM t ORDER BY i LIMIT 1'), 1, 'an old snapshot');
$writer->query_safe('COMMIT');
is(query('SELECT i FROM t ORDER BY i LIMIT 1'), 5, 'committed: found');
is($old->query_safe('SELECT i FROM t ORDER BY i LIMIT 1'), 1, 'an old snapshot, still');
$old->query_safe('COMMIT');
$old->quit;
$writer->query_safe('BEGIN; SAVEPOINT a; INSERT INTO t VALUES (4); ROLLBACK TO a; INSERT INTO t VALUES (3); PREPARE TRANSACTION \'x\'');
is(query('SELECT i FROM t ORDER BY i LIMIT 1'), 5, 'prepared: not found') foreach 1 .. 3;
query(q{COMMIT PREPARED 'x'});
is(query('SELECT i FROM t ORDER BY i LIMIT 1'), 3, 'committed: found');
$writer->quit;

# ---- a session that knows of ended rows from the time when an old snapshot kept them ----

query(q{DROP TABLE t; CREATE TABLE t (i int) USING lsm; CREATE INDEX t_i ON t USING lsm (i);
	INSERT INTO t SELECT generate_series(1, 20000); SELECT lsm_flush('t_i')});
my $knows = $node->background_psql('postgres', on_error_stop => 1);
$old = $node->background_psql('postgres', on_error_stop => 1);
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
query('DELETE FROM t WHERE i <= 19500');
is($knows->query_safe('SELECT i FROM t ORDER BY i LIMIT 1'), 19501, 'beside an old snapshot') foreach 1 .. 3;
is($old->query_safe('SELECT i FROM t ORDER BY i LIMIT 1'), 1, 'which sees all');
$old->query_safe('COMMIT');
$old->quit;
is($knows->query_safe('SELECT i FROM t ORDER BY i LIMIT 1'), 19501, 'and without it') foreach 1 .. 3;
few_blocks('SELECT i FROM t ORDER BY i LIMIT 1', 'behind rows that an old snapshot has kept');
$knows->quit;

# ---- all at once ----

my $seconds = lsm_long() ? 120 : 12;
foreach my $am ('lsm', 'heap')
{
	my $keys = 20000;
	query(qq{DROP TABLE IF EXISTS t; CREATE TABLE t (k int NOT NULL, note text) USING $am; CREATE UNIQUE INDEX t_k ON t USING lsm (k);
		CREATE INDEX t_note ON t USING lsm (note); INSERT INTO t SELECT g * 10, 'old' FROM generate_series(1, $keys / 10) g; SELECT lsm_flush('t_k'); DELETE FROM t});
	my %scripts = (

		# whoever has written a key finds it, or one before it, from wherever he begins
		finder => qq{\\set k random(0, $keys / 10 - 1) * 10 + 1 + :client_id
			\\set low random(0, :k)
			INSERT INTO t VALUES (:k, 'new') ON CONFLICT DO NOTHING;
			SELECT 1 / count(*) FROM (SELECT k FROM t WHERE k >= :low ORDER BY k LIMIT 1) x WHERE k <= :k;
			SELECT 1 / count(*) FROM (SELECT k FROM t ORDER BY k LIMIT 1) x WHERE k <= :k;
			SELECT 1 / count(*) FROM (SELECT k FROM t WHERE note = 'new' OFFSET 0) x WHERE k = :k;
			DELETE FROM t WHERE k = :k;
			SELECT k FROM t ORDER BY k LIMIT 1;\n},

		# what others have taken no one takes again, and nothing stays
		refill => qq{\\set from random(0, 15) * $keys / 160 + 1
			INSERT INTO t SELECT g * 10, 'old' FROM generate_series(:from, :from + 300) g ON CONFLICT DO NOTHING;
			SELECT lsm_flush('t_k');
			DELETE FROM t WHERE k IN (SELECT k FROM t WHERE note = 'old' ORDER BY k LIMIT 400);
			SELECT count(*) FROM (SELECT k FROM t ORDER BY k LIMIT 5) x;\n},
		jobs => q{SELECT lsm_flush('t_k'), lsm_flush('t_note');
			SELECT pg_sleep(0.05);
			VACUUM t;
			SELECT pg_sleep(0.1);
			SELECT lsm_compact('t_k');
			SELECT pg_sleep(0.2);
}
	);
	my %running;
	foreach my $name (keys %scripts)
	{
		my $file = $node->basedir . "/$name.sql";
		append_to_file($file, $scripts{$name}) unless -e $file;
		my $clients = $name eq 'finder' ? 5 : 1;
		my ($out, $err) = ('', '');
		my $handle = IPC::Run::start([ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-c', $clients, '-T', $seconds, '-f', $file, 'postgres' ],
			'<', \undef, '>', \$out, '2>', \$err);
		$running{$name} = [ $handle, \$out, \$err ];
	}
	foreach my $name (sort keys %running)
	{
		my ($handle, $out, $err) = @{ $running{$name} };
		ok($handle->finish, "$am: $name") or diag($$err);
		unlike($$err, qr/ERROR|abort/, "$am: $name without an error");
		my ($done) = $$out =~ /actually processed: (\d+)/;
		cmp_ok($done, '>', 0, "$am: $name, $done times");
	}
	is(query(q{SELECT count(*) FROM lsm_verify('t_k')}), 0, "$am: index verified");
	my $left = query('SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_seqscan = on; SELECT count(*) FROM t');
	is(query('SELECT count(*) FROM (SELECT k FROM t ORDER BY k) x'), $left, "$am: all rows by index");
	is(query(q{SELECT (SELECT count(*) FROM t WHERE note = 'new') + (SELECT count(*) FROM t WHERE note = 'old')}), $left, "$am: by the other");
	my $taken = 0;
	my $more = 1;
	while ($more)
	{
		my ($n) = split /\n/, query('WITH gone AS (DELETE FROM t WHERE k IN (SELECT k FROM t ORDER BY k LIMIT 7) RETURNING 1) SELECT count(*) FROM gone');
		$taken += $n;
		$more = $n > 0;
	}
	is($taken, $left, "$am: taken from the head until there is none");
}

$node->stop;
done_testing();
