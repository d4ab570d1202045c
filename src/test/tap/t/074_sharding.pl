# docs/sharding.md, word for word: its blocks of sql are run in their order, each on the servers that its first line
# names.  Beside that: plans, a ledger of transfers while a shard is killed and while a partition moves, and what is
# not atomic.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Basename;

my $page = ($ENV{LSM_DOCS} // dirname(__FILE__) . '/../../../../docs') . '/sharding.md';
my $service = PostgreSQL::Test::Utils::tempdir() . '/services';
$ENV{PGSERVICEFILE} = $service;
delete $ENV{PGSERVICE};
srand(lsm_seed());

my %node;
foreach my $name (qw(shard1 shard2 shard3 shard4 front))
{
	$node{$name} = lsm_node($name, conf => "fsync = off\nautovacuum = off");
	$node{$name}->start;
	append_to_file($service, sprintf "[%s]\nhost=%s\nport=%d\ndbname=postgres\n", $name, $node{$name}->host, $node{$name}->port)
	  if $name ne 'front';
}
my $front = $node{front};

# ---- the page ----
my (%blocks, $section);
my $text = slurp_file($page);
while ($text =~ /^## (.*?)$|^```sql\n-- on: (.*?)\n(.*?)^```$/gms)
{
	$section = $1, next if defined $1;
	push @{ $blocks{$section} }, [ $2, $3 ];
}
my $blocks_run = 0;

# what the blocks of a section said, one after the other
sub run_section
{
	my ($name) = @_;
	my @said;
	foreach my $block (@{ $blocks{$name} })
	{
		foreach my $where (split /, /, $block->[0])
		{
			my ($out, $err);
			my $rc = $node{$where}->psql('postgres', $block->[1], stdout => \$out, stderr => \$err);
			is("$rc $err", '0 ', "$name: a block on $where") or diag $block->[1];
			push @said, $out;
		}
		$blocks_run++;
	}
	return @said;
}

sub whole { return $front->safe_psql('postgres', 'SELECT sum(n), sum(balance) FROM accounts_sums'); }

# balances that are not what the journal says: on one shard, both are there or none is
my $unjustified = q{SELECT count(*) FROM (SELECT tenant, sum(balance) b FROM accounts GROUP BY 1) a
  LEFT JOIN (SELECT tenant, sum(amount) s FROM journal GROUP BY 1) j USING (tenant) WHERE b <> 20000 + coalesce(s, 0)};
my $halves = q{SELECT count(*) FROM (SELECT FROM journal WHERE transfer > %d GROUP BY transfer HAVING sum(amount) <> 0) t};

run_section('With postgres_fdw');
is($node{shard2}->safe_psql('postgres', q{SELECT string_agg(relname || ' ' || amname, ',' ORDER BY relname)
  FROM pg_class JOIN pg_am a ON a.oid = relam WHERE relname ~ '^(accounts|journal)_[23]$|^accounts_[23]_pkey$'}),
	'accounts_2 lsm,accounts_2_pkey lsm_index,accounts_3 lsm,accounts_3_pkey lsm_index,journal_2 lsm,journal_3 lsm',
	'tables and keys of a shard');

# ---- reading and writing ----
my (undef, $point, $async, $grouped, $sums) = run_section('Reading and writing');
is(scalar(() = $point =~ /Remote SQL/g), 2, 'a point read, a point update: one statement to one shard each') or diag $point;
like($point, qr/Remote SQL: SELECT balance FROM public\.accounts_\d WHERE \(\(tenant = 7\)\) AND \(\(id = 3\)\)/, 'a point read is sent');
like($point, qr/Remote SQL: UPDATE public\.accounts_\d SET balance = \(balance \+ 1\) WHERE/, 'an update is sent');
is(scalar(() = $async =~ /Async Foreign Scan/g), 6, 'all partitions at once') or diag $async;
is(scalar(() = $grouped =~ /Remote SQL: SELECT tenant, count\(\*\), sum\(balance\) FROM public\.accounts_\d GROUP BY 1/g), 6, 'groups are aggregated on shards') or diag $grouped;
is(scalar(() = $sums =~ /Remote SQL: SELECT count\(\*\), sum\(balance\) FROM public\.accounts_\d$/gm), 6, 'sums of sums, too') or diag $sums;
like($sums, qr/^4000\|4000000$/m, '... and right');
foreach my $where (qw(shard1 shard2 shard3))
{
	cmp_ok($node{$where}->safe_psql('postgres', q{SELECT sum(n_live_tup + n_tup_ins) > 0 FROM pg_stat_user_tables WHERE relname LIKE 'accounts%'}), 'eq', 't', "$where has rows");
}
is($front->safe_psql('postgres', q{INSERT INTO accounts VALUES (7, 3, 0), (7, 300, 0) ON CONFLICT DO NOTHING RETURNING id}), '300', 'ON CONFLICT DO NOTHING');
like($front->safe_psql('postgres', 'EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO accounts_0 SELECT 7, i, 0 FROM generate_series(1000, 3000) i'), qr/Batch Size: 500/, 'rows are sent many at once');
$front->safe_psql('postgres', 'DELETE FROM accounts WHERE tenant = 7 AND id = 300');
like(($front->psql('postgres', 'INSERT INTO accounts VALUES (7, 3, 0)'))[2], qr/duplicate key value violates unique constraint "accounts_\d_pkey"/, 'keys are kept');
like(($front->psql('postgres', 'INSERT INTO accounts VALUES (7, 3, 0) ON CONFLICT (tenant, id) DO UPDATE SET balance = 0'))[2],
	qr/no unique or exclusion constraint/, 'ON CONFLICT DO UPDATE is refused');

# ---- what is not atomic ----
my (undef, $none) = run_section('What is not atomic');
is($none, '', 'no transfer by half');
is(whole(), '4000|4000000', 'a transfer changes no sum');

# a tenant of each shard
my %tenant_of;
foreach my $tenant (1 .. 40)
{
	my $plan = $front->safe_psql('postgres', "EXPLAIN (COSTS OFF) SELECT FROM accounts WHERE tenant = $tenant");
	my ($partition) = $plan =~ /accounts_(\d)/;
	push @{ $tenant_of{ 'shard' . (1 + int($partition / 2)) } }, $tenant;
}

# a shard that fails while it commits: what the others do is not undone, and the journal shows it
$node{shard3}->safe_psql('postgres', q{
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'not now'; END$$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON journal_4 DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON journal_5 DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()});
my ($from, $to) = ($tenant_of{shard1}[0], $tenant_of{shard3}[0]);
my (undef, undef, $refused) = $front->psql('postgres', "BEGIN;
UPDATE accounts SET balance = balance - 9 WHERE tenant = $from AND id = 1;
INSERT INTO journal VALUES ($from, 2, -9);
UPDATE accounts SET balance = balance + 9 WHERE tenant = $to AND id = 1;
INSERT INTO journal VALUES ($to, 2, 9);
COMMIT", on_error_stop => 0);
like($refused, qr/not now/, 'a commit fails on one shard');
is($front->safe_psql('postgres', 'SELECT tenant, amount FROM journal WHERE transfer = 2'), "$from|-9", 'the other one has committed: half a transfer');
is($front->safe_psql('postgres', $blocks{'What is not atomic'}[1][1]), '2|-9', '... which the query of the page finds');
is($front->safe_psql('postgres', $unjustified), 0, '... and each shard is as its journal says');
$node{shard3}->safe_psql('postgres', 'DROP FUNCTION refuse CASCADE');
$front->safe_psql('postgres', "BEGIN; UPDATE accounts SET balance = balance + 9 WHERE tenant = $to AND id = 1; INSERT INTO journal VALUES ($to, 2, 9); COMMIT");
is(whole(), '4000|4000000', '... so it can be completed');

# ---- transfers beside kills and moves ----
my $transfers = 2;

# a script of so many transfers between shards
sub transfers
{
	my ($n) = @_;
	my $script = '';
	foreach (1 .. $n)
	{
		my @shards = sort { $a->[0] <=> $b->[0] } map { [ rand, $_ ] } sort keys %tenant_of;
		# in one order, against deadlocks that nobody detects
		my ($a, $b) = sort { $a <=> $b } map { my $of = $tenant_of{ $_->[1] }; $of->[ rand @$of ] } @shards[ 0, 1 ];
		my $id = 1 + int rand 20;
		$transfers++;
		$script .= "\\echo transfer $transfers\nBEGIN;\nUPDATE accounts SET balance = balance - 1 WHERE tenant = $a AND id = $id;\n"
		  . "INSERT INTO journal VALUES ($a, $transfers, -1);\nUPDATE accounts SET balance = balance + 1 WHERE tenant = $b AND id = $id;\n"
		  . "INSERT INTO journal VALUES ($b, $transfers, 1);\nCOMMIT;\n\\! sleep 0.005\n";
	}
	return $script;
}

# run two sessions of transfers beside what `meanwhile` does; returns what was acknowledged, what was not, and how
# much of that because of the other session
sub beside
{
	my ($n, $meanwhile) = @_;
	my @runs;
	foreach my $session (1, 2)
	{
		my $file = PostgreSQL::Test::Utils::tempdir() . '/transfers.sql';
		append_to_file($file, transfers($n));
		my ($out, $err) = ('', '');
		push @runs, [ IPC::Run::start([ 'psql', '-Xa', '-f', $file, '-d', $front->connstr('postgres') ], '>', \$out, '2>', \$err), \$out, \$err ];
	}
	$meanwhile->();
	my (@acknowledged, @failed);
	my $conflicts = 0;
	foreach my $run (@runs)
	{
		$run->[0]->finish;
		my $said = ${ $run->[1] };
		# both sessions at one account: postgres_fdw's transactions are REPEATABLE READ on the shards
		$conflicts += () = ${ $run->[2] } =~ /could not serialize access/g;
		while ($said =~ /^transfer (\d+)\n(.*?)(?=^\\echo|\z)/gms)
		{
			my ($transfer, $rest) = ($1, $2);
			if ($rest =~ /^COMMIT\n/m) { push @acknowledged, $transfer } else { push @failed, $transfer }
		}
	}
	return (\@acknowledged, \@failed, $conflicts);
}

sub check_ledger
{
	my ($what, $first, $acknowledged, $failed) = @_;
	my $list = join ',', 0, @$acknowledged;
	cmp_ok(scalar(@$acknowledged), '>', 0, "$what: transfers were made (" . @$acknowledged . ', ' . @$failed . ' failed)');
	is($front->safe_psql('postgres', "SELECT count(*) FROM (SELECT FROM journal WHERE transfer IN ($list) GROUP BY transfer HAVING count(*) = 2 AND sum(amount) = 0) t"),
		scalar(@$acknowledged), "$what: what was acknowledged is there on both shards");
	is($front->safe_psql('postgres', $unjustified), 0, "$what: each shard is as its journal says");
	my $half = $front->safe_psql('postgres', sprintf $halves, $first);
	cmp_ok($half, '<=', scalar(@$failed), "$what: $half by half, none of them acknowledged");
	note "$what: $half transfers by half";
	return;
}

my $rounds = lsm_long() ? 20 : 2;
foreach my $round (1 .. $rounds)
{
	my $first = $transfers;
	my ($acknowledged, $failed) = beside(80, sub {
		select undef, undef, undef, 0.4 + rand 0.4;
		$node{shard2}->stop('immediate');
		select undef, undef, undef, 0.2;
		$node{shard2}->start;
	});
	check_ledger("a shard killed, $round", $first, $acknowledged, $failed);
}

# ---- a fourth server, with transfers on their way ----
my $first = $transfers;
my $before = $front->safe_psql('postgres', 'SELECT count(*), (SELECT count(*) > 0 FROM accounts_5) FROM accounts');
my ($acknowledged, $failed, $conflicts) = beside(60, sub { run_section('A fourth server') });
is(scalar(@$failed), $conflicts, 'a move lets no transfer fail');
check_ledger('a partition moved', $first, $acknowledged, $failed);
is($front->safe_psql('postgres', 'SELECT count(*), (SELECT count(*) > 0 FROM accounts_5) FROM accounts'), $before, 'all rows are there');
like($front->safe_psql('postgres', 'EXPLAIN (VERBOSE) SELECT * FROM accounts_5'), qr/public\.accounts_5/, 'the partition has its name');
is($node{shard4}->safe_psql('postgres', 'SELECT count(*) > 0 FROM accounts_5'), 't', '... and is on the new shard');
is($node{shard3}->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'accounts_5'}), 0, '... and not on the old one');

foreach my $where (qw(shard1 shard2 shard3 shard4))
{
	is($node{$where}->safe_psql('postgres', q{SELECT * FROM pg_class c JOIN pg_am a ON a.oid = relam, lsm_verify(c.oid) WHERE amname = 'lsm'}), '', "$where: lsm_verify");
}
is($blocks_run, scalar(() = $text =~ /^```sql\n-- on: /gm), 'every block of the page has run');
is(scalar(() = $text =~ /^```sql$/gm), $blocks_run, '... and there are no others');
$_->stop foreach values %node;
done_testing();
