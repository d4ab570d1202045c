# kill -9 at random instants during load, flush and compaction, with a ledger.
#
# Clients change a heap table and an lsm table in the same transactions and
# note which commits were acknowledged.  After each crash the twins must be equal,
# every acknowledged commit must be there and lsm_verify must find nothing.
#   LSM_KILLS: number of kills (50; long: 500)
# The short form ends after four minutes, but not before 15 kills: filter schemes and random
# scripts differ in what a look at everything costs.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

lsm_seed();
my $kills   = $ENV{LSM_KILLS} // (lsm_long() ? 500 : 50);
my $clients = 3;

my $node = lsm_node('crash', conf => "log_min_messages = error\nlsm.filter_scheme = @{[(qw(blocked quotient cascade ribbon))[int(rand(4))]]}\nlsm.memtable_size = 64kB\nlsm.target_file_size = 64kB\n"
	. "lsm.size_ratio = 3\nsynchronous_commit = on");
lsm_start($node);
lsm_create_twins($node, 't', 'id int PRIMARY KEY, client int, n int, v text', '(n)', '(v, client)');
lsm_create_twins($node, 'marks', 'client int, tx bigint, PRIMARY KEY (client, tx)');
$node->safe_psql('postgres', q{
CREATE TABLE plain_h (id int, v text) USING heap; CREATE TABLE plain_l (id int, v text) USING lsm;});

my $dir = PostgreSQL::Test::Utils::tempdir();
my @next_tx = (0) x $clients;
my @committed = map { {} } 1 .. $clients;

# A script of transactions for one client; ids of clients are disjoint, so any order is the same
sub write_script
{
	my ($client, $file, $transactions) = @_;
	open my $fh, '>', $file or die;
	foreach (1 .. $transactions)
	{
		my $tx = $next_tx[$client]++;
		my $base = $client * 10_000_000;
		my @sql = ('BEGIN');
		foreach my $table ('h', 'l')
		{
			push @sql, "INSERT INTO marks_$table VALUES ($client, $tx)";
		}
		foreach (1 .. 1 + int(rand(3)))
		{
			my $dice = int(rand(10));
			my $from = int(rand(3000));
			my $to = $from + int(rand(60));
			foreach my $table ('h', 'l')
			{
				if ($dice < 5)
				{
					push @sql, "INSERT INTO t_$table SELECT $base + $tx * 100 + i, $client, i, repeat(md5((i * $tx)::text), CASE WHEN (i + $tx) % 149 = 0 THEN 150 ELSE 1 + i % 5 END) FROM generate_series(0, 40 + $tx % 50) i WHERE NOT EXISTS (SELECT 1 FROM t_$table x WHERE x.id = $base + $tx * 100 + i)";
				}
				elsif ($dice < 7) { push @sql, "UPDATE t_$table SET n = n + 1, v = v || 'u' WHERE id BETWEEN $base + $from * 5 AND $base + $to * 5 AND length(v) < 300"; }
				elsif ($dice < 8) { push @sql, "DELETE FROM t_$table WHERE id BETWEEN $base + $from * 5 AND $base + $to * 5 AND id % 3 = 0"; }
				elsif ($dice < 9)
				{
					push @sql, 'SAVEPOINT s', "UPDATE t_$table SET n = -1 WHERE id BETWEEN $base + $from AND $base + $to",
					  'ROLLBACK TO s', "INSERT INTO plain_$table VALUES ($base + $tx, 'kept')";
				}
				else { push @sql, "INSERT INTO plain_$table SELECT $base + i, repeat('p', 500) FROM generate_series(1, 30) i"; }
			}
		}
		if (rand() < 0.15)
		{
			push @sql, 'ROLLBACK';
			print $fh join(";\n", @sql), ";\n";
		}
		else
		{
			push @sql, 'COMMIT';
			print $fh join(";\n", @sql), ";\n\\echo $tx\n";
		}
		# flush and compaction on the way
		my $dice = rand();
		print $fh "SELECT lsm_flush('t_l');\n" if $dice < 0.03;
		print $fh "SELECT lsm_compact('t_l');\n" if $dice > 0.985;
		print $fh "VACUUM t_l;\n" if $dice > 0.03 && $dice < 0.04;
		print $fh "CHECKPOINT;\n" if $dice > 0.04 && $dice < 0.05;
		print $fh "DROP TABLE IF EXISTS gone_$client; CREATE TABLE gone_$client (i int PRIMARY KEY) USING lsm; INSERT INTO gone_$client SELECT generate_series(1, 2000); DROP TABLE gone_$client;\n"
		  if $dice > 0.05 && $dice < 0.06;
	}
	close $fh;
	return;
}

my ($acknowledged, $bad, $server_kills) = (0, 0, 0);
my $enough = $ENV{LSM_KILLS} || lsm_long() ? $kills : lsm_short() ? 8 : 15;
my $end = time() + (lsm_short() ? 0 : 240);
foreach my $round (1 .. $kills)
{
	my @psql;
	foreach my $client (0 .. $clients - 1)
	{
		write_script($client, "$dir/script_$client.sql", 3000);
		push @psql, lsm_spawn_psql($node, "$dir/script_$client.sql", "$dir/out_$client");
	}
	usleep(50_000 + int(rand(1_500_000)));

	my @pids = lsm_pids($node);
	my $what = (qw(postmaster postmaster backend worker worker checkpointer))[ int(rand(6)) ];
	my $hit = lsm_kill_process($node, $what);
	$hit = lsm_kill_process($node, 'postmaster'), $what = 'postmaster' unless $hit;
	$server_kills++;

	# sometimes a second one while the server recovers
	if ($what ne 'postmaster' && rand() < 0.2)
	{
		usleep(int(rand(300_000)));
		push @pids, lsm_pids($node);
		lsm_kill_process($node, 'postmaster');
		$what = "$what, then postmaster";
	}

	if ($what =~ /postmaster/)
	{
		# children notice by themselves; psql's connections break
		waitpid($_, 0) foreach @psql;
		lsm_restart_after_crash($node, @pids);
	}
	else
	{
		waitpid($_, 0) foreach @psql;
		lsm_wait_up($node);
	}

	# the ledger
	foreach my $client (0 .. $clients - 1)
	{
		my @acks = grep { /^\d+$/ } split /\n/, slurp_file("$dir/out_$client");
		$acknowledged += @acks;
		next unless @acks;
		my $list = join(',', @acks);
		my $lost = $node->safe_psql('postgres', qq{SET enable_seqscan = off;
SELECT count(*) FROM unnest('{$list}'::bigint[]) a WHERE NOT EXISTS (SELECT 1 FROM marks_l WHERE client = $client AND tx = a)});
		if ($lost ne '0')
		{
			fail("round $round ($what): $lost acknowledged commits of client $client are lost");
			$bad++;
		}
		my $err = slurp_file("$dir/out_$client.err");
		if ($err =~ /ERROR/ && $err !~ /terminating connection|server closed|the database system/)
		{
			fail("round $round: client $client got an error");
			diag($err);
			$bad++;
		}
		# ids of transactions that were never run may be used again
	}
	my $wrong = lsm_differences($node, 't', 'marks', 'plain');
	if ($wrong ne '')
	{
		fail("round $round: state after killing $what");
		diag($wrong);
		$bad++;
	}
	last if $bad || ($round >= $enough && time() > $end);

	# bound the size of the test
	if ($round % 8 == 0)
	{
		foreach my $x ('h', 'l')
		{
			$node->safe_psql('postgres', "DELETE FROM t_$x WHERE id % 10 <> 0; TRUNCATE plain_$x; DELETE FROM marks_$x");
		}
	}
}
is($bad, 0, "$server_kills kills, $acknowledged acknowledged commits: nothing lost, nothing too much");
cmp_ok($server_kills, '>=', $enough, 'all kills were done');
cmp_ok($acknowledged, '>', $server_kills * 5, 'transactions were committed between the kills');

# what is left on disk belongs to a tree
$node->safe_psql('postgres', 'VACUUM t_l');
is(lsm_differences($node, 't', 'marks', 'plain'), '', 'same at the end');
$node->stop;
done_testing();
