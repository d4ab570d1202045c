# 16 clients at once: upserts of the same keys add up, whatever kind of table and of key, while rows are
# deleted, VACUUM frees TIDs and files are flushed and compacted; a queue loses and doubles no job.
#   LSM_TRANSACTIONS: of each client (150; long: 3000)
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX ();

my $transactions = $ENV{LSM_TRANSACTIONS} // (lsm_long() ? 3000 : 150);
my $clients = 16;
my $node = lsm_node('clients', conf => "lsm.memtable_size = 512kB\nautovacuum = off\nfsync = off");
lsm_start($node);

# psql that repeats statements until it is told to stop
sub disturb
{
	my (@statements) = @_;
	my $pid = fork();
	die "fork: $!" unless defined $pid;
	return $pid if $pid;
	open(STDERR, '>', "$ENV{TESTDIR}/disturb.err");
	my $writer = open(my $psql, '|-', 'psql', '-XAtq', '-d', $node->connstr('postgres')) or POSIX::_exit(99);
	$psql->autoflush(1);
	# what it has not begun it need not do: one VACUUM waits 5 s for its end of the file
	$SIG{TERM} = sub { kill('TERM', $writer); close $psql; POSIX::_exit(0); };
	while (1)
	{
		print $psql "$_;\n" foreach @statements;
		select(undef, undef, undef, 0.02);
	}
}

sub run_clients
{
	my ($what, $sql, @disturbances) = @_;
	my $file = "$ENV{TESTDIR}/clients.sql";
	unlink $file;
	append_to_file($file, $sql);
	my @pids = map { disturb($_) } @disturbances;
	$node->command_ok([ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $transactions, '-f', $file, $node->connstr('postgres') ], $what);
	kill 'TERM', @pids;
	waitpid($_, 0) foreach @pids;
	return;
}

# ---- upserts ----
my %tables = (
	lsm => 'CREATE TABLE t (k int PRIMARY KEY, x int, n int DEFAULT 1) USING lsm',
	lsm_btree => 'SET lsm.constraint_index = btree; CREATE TABLE t (k int PRIMARY KEY, x int, n int DEFAULT 1) USING lsm',
	lsm_nulls => 'CREATE TABLE t (k int, x int, n int DEFAULT 1, UNIQUE NULLS NOT DISTINCT (k, x)) USING lsm',
	heap => 'CREATE TABLE t (k int, x int, n int DEFAULT 1) USING heap; CREATE UNIQUE INDEX ON t USING lsm (k)',
	heap_nulls => 'CREATE TABLE t (k int, x int, n int DEFAULT 1) USING heap; CREATE UNIQUE INDEX ON t USING lsm (k, x) NULLS NOT DISTINCT',
	partitions => 'SET default_table_access_method = lsm; CREATE TABLE t (k int PRIMARY KEY, x int, n int DEFAULT 1) PARTITION BY HASH (k);
		CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1);
		CREATE UNIQUE INDEX ON t0 USING lsm (x)');
foreach my $kind (sort keys %tables)
{
	$node->safe_psql('postgres', "$tables{$kind}; CREATE TABLE gone (k int, n int) USING heap");
	my $arbiter = $kind =~ /nulls/ ? '(k, x)' : '(k)';
	my $leaf = $kind eq 'partitions' ? 't0' : 't';
	# everything at once: waits for each other's transactions, speculative insertions that lose
	run_clients("$kind: upserts by $clients clients", qq{
\\set a random(1, 12)
\\set b random(:a, 12)
\\set c random(1, 12)
INSERT INTO t (k) VALUES (:a) ON CONFLICT $arbiter DO UPDATE SET n = t.n + 1;
BEGIN;
INSERT INTO t (k) VALUES (:a) ON CONFLICT $arbiter DO UPDATE SET n = t.n + excluded.n;
INSERT INTO t (k) SELECT :b WHERE :b > :a ON CONFLICT $arbiter DO UPDATE SET n = t.n + 1 WHERE t.n > 0;
COMMIT;
INSERT INTO t (k) VALUES (:c) ON CONFLICT DO NOTHING;
DELETE FROM t WHERE k = :c;
INSERT INTO t (k, n) VALUES (:c, 0) ON CONFLICT DO NOTHING;
},
		'VACUUM t', $kind =~ /heap/ ? "SELECT lsm_compact(indexrelid) FROM pg_index WHERE indrelid = 't'::regclass"
		: "SELECT lsm_flush('$leaf'), lsm_compact('$leaf')");
	my $sum = $node->safe_psql('postgres', q{SELECT (SELECT count(*) FROM (SELECT k FROM t GROUP BY k HAVING count(*) > 1) d), (SELECT min(n) >= 0 FROM t), (SELECT count(*) FROM t WHERE x IS NOT NULL)});
	is($sum, '0|t|0', "$kind: one row per key");
	is($node->safe_psql('postgres', q{SELECT v.* FROM pg_class c, LATERAL lsm_verify(c.oid) v WHERE c.oid IN (SELECT relid FROM pg_partition_tree('t') WHERE isleaf) OR c.oid = 't'::regclass AND c.relkind = 'r'}), '', "$kind: lsm_verify")
	  unless $kind =~ /heap/;
	$node->safe_psql('postgres', 'TRUNCATE t, gone');

	# what is counted is in t or in gone
	run_clients("$kind: counting by $clients clients", qq{
\\set a random(1, 9)
\\set c random(1, 9)
INSERT INTO t (k) VALUES (:a) ON CONFLICT $arbiter DO UPDATE SET n = t.n + 1;
WITH d AS (DELETE FROM t WHERE k = :c RETURNING k, n) INSERT INTO gone SELECT * FROM d;
},
		'VACUUM t');
	is($node->safe_psql('postgres', 'SELECT (SELECT coalesce(sum(n), 0) FROM t) + (SELECT coalesce(sum(n), 0) FROM gone)'),
		$clients * $transactions, "$kind: counts add up");
	$node->safe_psql('postgres', 'DROP TABLE t, gone');
}

# ---- a queue whose jobs are deleted when done; every fourth worker gives up ----
foreach my $am ('lsm', 'heap')
{
	my $jobs = $clients * $transactions * 3 / 4;
	$node->safe_psql('postgres', qq{
CREATE TABLE queue (id int, payload text) USING $am;
CREATE UNIQUE INDEX ON queue USING lsm (id);
INSERT INTO queue SELECT i, repeat('x', i % 100) FROM generate_series(1, $jobs) i;
CREATE TABLE done (id int, client int) USING $am});
	run_clients("queue in $am", q{
\set give_up random(1, 4)
BEGIN;
WITH j AS (SELECT id FROM queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED),
d AS (DELETE FROM queue q USING j WHERE q.id = j.id RETURNING q.id)
INSERT INTO done SELECT id, :client_id FROM d;
\if :give_up = 1
ROLLBACK;
\else
COMMIT;
\endif
}, 'VACUUM queue', "SELECT lsm_flush('" . ($am eq 'lsm' ? 'queue' : 'queue_id_idx') . "')");
	is($node->safe_psql('postgres', qq{SELECT count(*) FROM (SELECT id FROM queue UNION ALL SELECT id FROM done) j}), $jobs, 'no job is lost or twice there');
	is($node->safe_psql('postgres', qq{SELECT count(DISTINCT id) FROM (SELECT id FROM queue UNION ALL SELECT id FROM done) j}), $jobs, 'each is queued or done');
	cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM done'), '>', $jobs / 2, 'jobs are done');
	is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('queue')}), '', 'lsm_verify') if $am eq 'lsm';
	$node->safe_psql('postgres', 'DROP TABLE queue, done');
}

# ---- SERIALIZABLE: what each transaction relies on stays true, whichever way it has looked ----
foreach my $am ('lsm', 'heap')
{
	foreach my $way ('enable_indexscan', 'enable_seqscan', 'enable_bitmapscan', 'enable_indexonlyscan')
	{
		my $settings = join(' ', map { "-c $_=" . ($_ eq $way || ($way eq 'enable_indexonlyscan' && $_ eq 'enable_indexscan') ? 'on' : 'off') }
			  qw(enable_seqscan enable_indexscan enable_bitmapscan enable_indexonlyscan));
		$node->safe_psql('postgres', qq{
CREATE TABLE members (id serial, g int, n int) USING $am; CREATE INDEX ON members USING lsm (g);
CREATE TABLE accounts (id int, who int, balance int) USING $am; CREATE INDEX ON accounts USING lsm (who);
INSERT INTO accounts SELECT i, i / 2, 50 FROM generate_series(0, 39) i;
CREATE FUNCTION overdrawn() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM (SELECT FROM accounts GROUP BY who HAVING sum(balance) < 0) s';
CREATE FUNCTION crowded() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM (SELECT FROM members GROUP BY g HAVING count(*) > 3) s'});
		my $file = "$ENV{TESTDIR}/serializable.sql";
		unlink $file;
		append_to_file($file, q{
\set g random(1, 40)
\set who random(0, 3)
\set side random(0, 1)
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) AS n FROM members WHERE g = :g \gset
\if :n < 3
INSERT INTO members (g) VALUES (:g);
\endif
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(balance) AS b FROM accounts WHERE who = :who \gset
\if :b >= 30
UPDATE accounts SET balance = balance - 30 WHERE id = 2 * :who + :side;
\elif :b >= 0
UPDATE accounts SET balance = balance + 20 WHERE id = 2 * :who + :side;
\endif
COMMIT;
});
		my $noise = disturb('VACUUM accounts', q{SELECT lsm_flush(c.oid::regclass) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE relname IN ('accounts', 'members', 'accounts_who_idx') AND amname LIKE 'lsm%'});
		{
			local $ENV{PGOPTIONS} = $settings;
			$node->command_ok([ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', int($transactions / 5), '--max-tries=1000', '-f', $file, $node->connstr('postgres') ], "SERIALIZABLE on $am with $way");
		}
		kill 'TERM', $noise;
		waitpid($noise, 0);
		is($node->safe_psql('postgres', 'SELECT overdrawn(), crowded(), (SELECT count(*) > 10 FROM members)'), '0|0|t', 'no write skew, no phantom');
		$node->safe_psql('postgres', 'DROP TABLE members, accounts; DROP FUNCTION overdrawn, crowded');
	}
}

$node->stop;
done_testing();
