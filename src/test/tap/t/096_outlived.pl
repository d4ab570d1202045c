# What outlives what it came with: the hook of utility statements after CALL of a procedure that rolls back, whose plan
# is gone then; a worker's job after the timeouts that postgresql.conf has for sessions.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('outlived', conf => "autovacuum = off\nfsync = off\nlsm.compression = 'none'\nlsm.memtable_size = 64MB");
# what has been given back to malloc is overwritten
$ENV{MALLOC_PERTURB_} = 165;
lsm_start($node);
sub query { return $node->safe_psql('postgres', $_[0]); }

# ---- CALL over the extended protocol, with a parameter: the plan is the portal's alone ----

query(q{
CREATE TABLE called (n int) USING lsm;
CREATE PROCEDURE gone(n int) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO called VALUES (-n);
	ROLLBACK;
	-- contexts in the places of those that went
	FOR i IN 1 .. 200 LOOP
		EXECUTE format('SELECT %s AS %I', i, repeat('x', i % 60 + 1));
		PERFORM set_config('search_path', current_setting('search_path'), false);
	END LOOP;
	INSERT INTO called VALUES (n);
END $$;
});
my $script = $node->basedir . '/call.sql';
append_to_file($script, "\\set n random(1, 1000)\nCALL gone(:n);\n");
foreach my $mode (qw(extended prepared))
{
	my ($out, $err) = run_command([ 'pgbench', '-n', '-M', $mode, '-t', 10, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ]);
	like($out, qr{actually processed: 10/10}, "$mode: every call ends") or diag($err);
}
is(query('SELECT count(*), min(n) > 0 FROM called'), '20|t', 'what they did after ROLLBACK');

# ---- CREATE DATABASE, whose statement the hook needs afterwards ----

query('CREATE DATABASE copy TEMPLATE postgres');
is($node->safe_psql('copy', 'SELECT count(*) FROM called'), '20', 'a database that was copied');

# ---- a compaction that is longer than the timeouts ----

SKIP:
{
	skip 'no transaction_timeout', 4 if lsm_version() < 17;
	$node->append_conf('postgresql.conf', "transaction_timeout = '1s'\nlsm.compaction_rate = 500");
	$node->restart;
	query('CREATE TABLE t (k bigint, v int) USING lsm; CREATE INDEX t_k ON t USING lsm (k)');
	query("INSERT INTO t SELECT hashint8extended(i, 1), i FROM generate_series(1 + 30000 * $_, 30000 * (1 + $_)) i; SELECT lsm_flush('t_k')") foreach 0 .. 4;
	my $workers = q{SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type LIKE 'lsm % worker'};
	my $pids = query($workers);
	ok($node->poll_query_until('postgres', q{SELECT clock_timestamp() - xact_start > '3 s' FROM pg_stat_activity WHERE backend_type LIKE 'lsm % worker' AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1}),
		'a job of more than three seconds');
	ok($node->poll_query_until('postgres', q{SELECT count(*) < 5 FROM lsm_levels('t_k') l, generate_series(1, l.runs)}), 'comes to its end');
	is(query($workers), $pids, 'in workers that go on');
	unlike(slurp_file($node->logfile), qr/transaction timeout/, 'nobody was stopped');
}

$node->stop;
done_testing();
