# Random SQL on a heap table and on an lsm table, with flushes and compactions in
# between; queries through every way to scan must agree.
#   LSM_ROWS: rows at the start (20000; long: 1000000)   LSM_STEPS: steps (150; short: 60; long: 1000)
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

lsm_seed();
my $rows  = $ENV{LSM_ROWS}  // (lsm_long() ? 1_000_000 : 20_000);
my $steps = $ENV{LSM_STEPS} // (lsm_long() ? 1000 : lsm_short() ? 60 : 150);

my $node = lsm_node('differential');
lsm_start($node);
lsm_create_twins($node, 't',
	'id int, a int, b text COLLATE "C", c numeric, d timestamptz, e text',
	'(id)', '(a, id)', '(b)', '(c DESC, a)', '(d)', '(a) INCLUDE (b)', '(lower(e))', '(c) WHERE a < 50', '(e)');
sub insert_rows
{
	my ($from, $to) = @_;
	return qq{INSERT INTO t_\@ SELECT i, nullif((i::bigint * 7919 % 1013)::int, 7), CASE WHEN i % 97 = 0 THEN repeat(md5((i % 997)::text), 100 + i % 150) ELSE nullif('k' || i % 997, 'k3') END, (i::bigint * 31 % 5003)::numeric / 8,
 '2020-01-01'::timestamptz + (i % 1000) * interval '1 hour', CASE WHEN i % 11 = 0 THEN repeat('E', i % 9000) ELSE 'e' || i % 499 END FROM generate_series($from, $to) i};
}
my $next_id = 1;
my @script;
my $session = '';
sub both
{
	my ($sql) = @_;
	foreach my $x ('h', 'l')
	{
		(my $one = $sql) =~ s/\@/$x/g;
		push @script, $one;
	}
	return;
}

# run what is queued in one session; the twins must then be the same
sub run_script
{
	my $sql = join(";\n", @script);
	@script = ();
	my ($rc, $out, $err) = $node->psql('postgres', "$sql;", on_error_stop => 1);
	is($rc, 0, 'statements succeed') or diag("$err\nin\n$sql");
	return $rc == 0;
}

sub random_range
{
	my $width = int(rand(3)) == 0 ? int(rand($next_id / 4 + 1)) : int(rand(200));
	my $from = 1 + int(rand($next_id));
	return ($from, $from + $width);
}

sub random_write
{
	my $dice = int(rand(100));
	my ($from, $to) = random_range();
	$to = $from + 2000 if $to > $from + 2000;
	if ($dice < 25)
	{
		my $n = 1 + int(rand(500));
		both(insert_rows($next_id, $next_id + $n - 1));
		$next_id += $n;
	}
	elsif ($dice < 45) { both("UPDATE t_\@ SET a = coalesce(a, 0) + 1, e = e || 'x' WHERE id BETWEEN $from AND $to"); }
	elsif ($dice < 55) { both("UPDATE t_\@ SET c = c + 0.50, b = NULL WHERE a BETWEEN @{[int(rand(1000))]} AND @{[int(rand(1000))]} AND id % 7 = @{[int(rand(7))]}"); }
	elsif ($dice < 60) { both("UPDATE t_\@ SET id = id WHERE id = @{[1 + int(rand($next_id))]}") for 1 .. 20; }
	elsif ($dice < 75) { both("DELETE FROM t_\@ WHERE id BETWEEN $from AND $to AND id % 3 = @{[int(rand(3))]}"); }
	elsif ($dice < 80) { both("DELETE FROM t_\@ WHERE b = 'k@{[int(rand(997))]}'"); }
	elsif ($dice < 85)
	{
		both("UPDATE t_\@ SET d = d + interval '1 day' WHERE ctid IN (SELECT ctid FROM t_\@ WHERE id BETWEEN $from AND $to)");
	}
	else
	{
		both("WITH x AS (DELETE FROM t_\@ WHERE id BETWEEN $from AND @{[$from + 20]} RETURNING *) INSERT INTO t_\@ SELECT * FROM x");
	}
	return;
}

sub random_transaction
{
	push @script, 'BEGIN';
	my $n = 1 + int(rand(4));
	foreach my $i (1 .. $n)
	{
		random_write();
		my $dice = int(rand(10));
		if ($dice == 0)
		{
			push @script, 'SAVEPOINT s';
			random_write();
			push @script, "SELECT lsm_flush('t_l')" if rand() < 0.3;
			push @script, rand() < 0.5 ? 'ROLLBACK TO s' : 'RELEASE s';
		}
		elsif ($dice == 1) { push @script, "SELECT lsm_flush('t_l')"; }
	}
	push @script, rand() < 0.2 ? 'ROLLBACK' : 'COMMIT';
	return;
}

sub random_maintenance
{
	my $dice = int(rand(100));
	if    ($dice < 40) { push @script, "SELECT lsm_flush('t_l')"; }
	elsif ($dice < 60) { push @script, "SELECT lsm_compact('t_l')"; }
	elsif ($dice < 65) { push @script, "SELECT lsm_compact('t_l_1')"; }
	elsif ($dice < 80) { push @script, 'VACUUM t_l'; }
	elsif ($dice < 83) { push @script, 'VACUUM (FREEZE) t_l'; }
	elsif ($dice < 86) { push @script, 'REINDEX TABLE t_l'; }
	elsif ($dice < 88) { push @script, 'VACUUM FULL t_l'; }
	elsif ($dice < 90) { push @script, 'CLUSTER t_l USING t_l_1'; }
	elsif ($dice < 95) { push @script, 'ANALYZE t_l'; }
	elsif ($dice < 98) { push @script, 'SET lsm.hash_sharing = ' . (rand() < 0.5 ? 'on' : 'off'); }
	else               { push @script, "SET lsm.filter_scheme = " . (qw(none bloom blocked quotient cascade ribbon))[int(rand(6))]; }
	return;
}

my @queries = (
	sub { "SELECT * FROM t_\@ WHERE id = @{[1 + int(rand($next_id))]}" },
	sub { my ($f, $t) = random_range(); "SELECT * FROM t_\@ WHERE id BETWEEN $f AND $t" },
	sub { "SELECT * FROM t_\@ WHERE a = @{[int(rand(1013))]}" },
	sub { "SELECT * FROM t_\@ WHERE a = @{[int(rand(1013))]} AND id > @{[int(rand($next_id))]}" },
	sub { "SELECT * FROM t_\@ WHERE b = 'k@{[int(rand(997))]}'" },
	sub { "SELECT * FROM t_\@ WHERE b IS NULL AND a < @{[int(rand(1013))]}" },
	sub { "SELECT * FROM t_\@ WHERE b > 'k9@{[int(rand(9))]}'" },
	sub { "SELECT * FROM t_\@ WHERE c = @{[int(rand(5003)) / 8]}" },
	sub { "SELECT * FROM t_\@ WHERE c < @{[int(rand(30)) / 8]} AND a > 10" },
	sub { "SELECT * FROM t_\@ WHERE c = @{[int(rand(5003)) / 8]} AND a < 50" },
	sub { "SELECT * FROM t_\@ WHERE d = '2020-01-01'::timestamptz + @{[int(rand(1000))]} * interval '1 hour'" },
	sub { "SELECT * FROM t_\@ WHERE lower(e) = 'e@{[int(rand(499))]}x'" },
	sub { "SELECT * FROM t_\@ WHERE e > 'e49@{[int(rand(9))]}'" },
	sub { "SELECT * FROM t_\@ WHERE id = ANY (ARRAY[" . join(',', map { 1 + int(rand($next_id)) } 1 .. 10) . "])" },
	sub { "SELECT a, b FROM t_\@ WHERE a BETWEEN 10 AND @{[10 + int(rand(20))]}" },
	sub { "SELECT x.id, y.id AS y FROM t_\@ x JOIN t_\@ y ON x.a = y.id WHERE x.id < @{[int(rand(500))]}" },
	sub { "SELECT count(*) AS n, sum(id) AS i, sum(c) AS c, min(b) AS b, max(d) AS d FROM t_\@" },
	sub { "SELECT * FROM (SELECT id FROM t_\@ ORDER BY id DESC LIMIT 20) s" },
	sub { "SELECT * FROM (SELECT c, a FROM t_\@ WHERE a IS NOT NULL ORDER BY c DESC, a LIMIT 30) s" },
	sub { "SELECT * FROM t_\@ WHERE a = 5 OR id BETWEEN 10 AND 20" });
my @ways = qw(enable_seqscan enable_indexscan enable_bitmapscan enable_indexonlyscan);

# queue a query on both, through all ways; differences come out as rows
sub random_query
{
	my $query = $queries[ int(rand(@queries)) ]->();
	(my $h = $query) =~ s/\@/h/g;
	(my $l = $query) =~ s/\@/l/g;
	my $quoted = $query =~ s/'/''/gr;
	push @script, "SET enable_seqscan = on; CREATE TEMP TABLE truth AS $h";
	foreach my $way (@ways)
	{
		push @script, map { "SET $_ = " . ($_ eq $way || ($way eq 'enable_indexonlyscan' && $_ eq 'enable_indexscan') ? 'on' : 'off') } @ways;
		push @script, "SELECT '$way: $quoted: ' || count(*) || ' rows differ' FROM ((TABLE truth EXCEPT ALL ($l)) UNION ALL (($l) EXCEPT ALL TABLE truth)) d HAVING count(*) > 0";
	}
	push @script, (map { "SET $_ = on" } @ways), 'DROP TABLE truth';
	return;
}

sub run_queries
{
	random_query() for 1 .. 4;
	my $sql = join(";\n", @script);
	@script = ();
	my ($rc, $out, $err) = $node->psql('postgres', "$sql;", on_error_stop => 1);
	if ($rc != 0 || $out ne '')
	{
		fail('queries agree');
		diag("$out\n$err\n$sql");
		return 0;
	}
	return 1;
}

both(insert_rows(1, $rows));
$next_id = $rows + 1;
run_script();
is(lsm_differences($node, 't'), '', 'same after the load');

my $queries_ok = 0;
foreach my $step (1 .. $steps)
{
	random_transaction();
	random_maintenance() if rand() < 0.4;
	random_write() if rand() < 0.5;
	last unless run_script();
	last unless run_queries();
	$queries_ok += 16;
	if ($step % 25 == 0)
	{
		my $wrong = lsm_differences($node, 't');
		is($wrong, '', "same after step $step");
		last if $wrong ne '';
	}
	if ($step % 60 == 0)
	{
		$node->stop('immediate');
		$node->start;
		is(lsm_differences($node, 't'), '', "same after a restart in step $step");
	}
}
is($queries_ok, $steps * 16, 'all queries agreed');
is(lsm_differences($node, 't'), '', 'same at the end');
$node->stop;
done_testing();
