# Random transactions of three sessions, interleaved at random by isolationtester, once on heap tables with btree
# indexes and once on lsm tables with lsm indexes: who waits, who fails, and what each sees must be the same.
#   LSM_SEED=...  LSM_SPECS: number of scripts (6; long: 400; more if too few of
#   their interleavings can be compared)  LSM_PERMUTATIONS: interleavings of each (8)
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Basename;
use List::Util qw(shuffle);

my $specs = $ENV{LSM_SPECS} // (lsm_long() ? 400 : 6);
my $permutations = $ENV{LSM_PERMUTATIONS} // 8;
my $tester = dirname($ENV{PG_REGRESS}) . '/../isolation/isolationtester';
my $seed = lsm_seed();
my $node = lsm_node('isotwins', conf => "fsync = off\nautovacuum = off\ndeadlock_timeout = 100ms\nlog_min_messages = panic");
lsm_start($node);
foreach my $am ('heap', 'lsm')
{
	$node->safe_psql('postgres', "CREATE DATABASE $am; ALTER DATABASE $am SET default_table_access_method = $am");
	# statements of the lsm twin in between: flushes and compactions
	$node->safe_psql($am, 'CREATE EXTENSION lsmam; CREATE FUNCTION maintain(text, text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN '
		  . ($am eq 'lsm' ? q{EXECUTE 'SELECT ' || coalesce((SELECT format('lsm_%s(%L)', $2, c.oid::regclass) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.relname = $1 AND a.amname LIKE 'lsm%'), '1');} : 'NULL;') . ' END $$;');
}

sub pick { return $_[ int(rand(@_)) ]; }

sub statement
{
	my ($o, $s, $n) = @_;
	my $id = 1 + int(rand(5));
	my $k = 1 + int(rand(3));
	my $mode = pick('KEY SHARE', 'SHARE', 'NO KEY UPDATE', 'UPDATE');
	my $wait = pick('', '', '', ' NOWAIT', ' SKIP LOCKED');
	my $tag = "$s$n";
	my @all = (
		"INSERT INTO t VALUES ($id, $k, '$tag');",
		"INSERT INTO t VALUES (" . ($id + 10) . ", $k, '$tag');",
		"INSERT INTO t VALUES ($id, $k, '$tag') ON CONFLICT (id) DO UPDATE SET v = t.v || excluded.v RETURNING id, k, v;",
		"INSERT INTO t VALUES ($id, $k, '$tag') ON CONFLICT DO NOTHING RETURNING id;",
		"INSERT INTO t SELECT i, $k + i, '$tag' FROM generate_series($id, $id + 2) i ON CONFLICT (id) DO UPDATE SET k = t.k + 1;",
		("UPDATE t SET v = v || '$tag' WHERE id = $id RETURNING id, k, v;") x 3,
		"UPDATE t SET v = v || '$tag' WHERE k = $k RETURNING id, k, v;",
		"UPDATE t SET k = k % 3 + 1 WHERE id >= $id RETURNING id, k, v;",
		"UPDATE t SET id = id + 10 WHERE id = $id RETURNING id;",
		"UPDATE t SET v = t.v || u.w || '$tag' FROM u WHERE u.x = t.k AND t.id <= $id RETURNING t.id, t.v;",
		"UPDATE t SET k = (SELECT count(*) FROM t o WHERE o.k = t.k) WHERE id = $id RETURNING id, k;",
		"UPDATE u SET w = w || '$tag' WHERE x = $k;",
		("DELETE FROM t WHERE id = $id RETURNING id, v;") x 2,
		"DELETE FROM t WHERE k = $k RETURNING id, v;",
		("SELECT id, k, v FROM t WHERE id = $id FOR $mode$wait;") x 4,
		"SELECT id, v FROM t WHERE k = $k ORDER BY id FOR $mode$wait;",
		"SELECT t.id, t.v, u.w FROM t JOIN u ON u.x = t.k WHERE t.id <= $id ORDER BY t.id FOR $mode OF " . pick('t', 'u') . "$wait;",
		"SELECT id, v FROM t ORDER BY id LIMIT 2 OFFSET 1 FOR UPDATE$wait;",
		("SELECT id, k, v FROM t ORDER BY id;") x 2,
		"SELECT k, count(*), max(v) FROM t GROUP BY k ORDER BY k;",
		"MERGE INTO t USING (VALUES ($id, $k), ($id + 1, 9)) s(i, j) ON t.id = s.i WHEN MATCHED AND t.k = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET k = s.j, v = v || '$tag' WHEN NOT MATCHED THEN INSERT VALUES (s.i, s.j, '$tag');",
		"SAVEPOINT p; UPDATE t SET v = v || '$tag' WHERE id = $id; ROLLBACK TO p;",
		"SAVEPOINT p; SELECT id FROM t WHERE id = $id FOR $mode; ROLLBACK TO p;",
		"SAVEPOINT p; DELETE FROM t WHERE id = $id; INSERT INTO t VALUES ($id, $k, '$tag'); RELEASE p;",
		"SELECT maintain('" . pick('t', 't_pkey', 'u', 't_k') . "', '" . pick('flush', 'compact') . "');");
	push @all, ("INSERT INTO c VALUES ($id, $k);", "UPDATE c SET r = $id WHERE n = $k;", "DELETE FROM c WHERE r = $id RETURNING r, n;", "SELECT r, n FROM c ORDER BY r, n;") x 2
	  if $o->{child};
	return pick(@all);
}

sub make_spec
{
	my %o = (child => rand() < 0.5, unique => rand() < 0.3);
	my $action = pick('', 'ON DELETE CASCADE ON UPDATE CASCADE', 'ON DELETE SET NULL ON UPDATE CASCADE', 'DEFERRABLE INITIALLY DEFERRED');
	my $spec = "setup\n{\nCREATE TABLE t (id int PRIMARY KEY, k int, v text);\nCREATE TABLE u (x int, w text);\n"
	  . 'CREATE ' . ($o{unique} ? 'UNIQUE ' : '') . "INDEX t_k ON t USING \@ (k" . ($o{unique} ? ", v" : '') . ");\n"
	  . ($o{child} ? "CREATE TABLE c (r int REFERENCES t $action, n int);\n" : '')
	  . "INSERT INTO t SELECT i, i % 3 + 1, 'r' || i FROM generate_series(1, 5) i;\nINSERT INTO u VALUES (1, 'a'), (2, 'b'), (3, 'c');\n"
	  . ($o{child} ? "INSERT INTO c VALUES (1, 1), (2, 2), (2, 3);\n" : '')
	  . "}\nteardown\n{\nDROP TABLE " . ($o{child} ? 'c, ' : '') . "t, u;\n}\n";
	my @steps;
	foreach my $s ('a', 'b', 'c')
	{
		my $level = pick('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ');
		$spec .= "\nsession $s\nsetup { SET lock_timeout = '400ms'; " . (rand() < 0.4 ? 'SET enable_seqscan = off; ' : 'SET enable_seqscan = on; ') . "BEGIN ISOLATION LEVEL $level; }\n";
		my $n = 2 + int(rand(3));
		foreach my $i (1 .. $n)
		{
			$spec .= "step $s$i { " . statement(\%o, $s, $i) . " }\n";
			push @steps, $s;
		}
		$n++;
		$spec .= "step $s$n { " . pick('COMMIT', 'COMMIT', 'ROLLBACK') . "; }\n";
		push @steps, $s;
	}
	$spec .= "\nsession z\nstep z { SELECT id, k, v FROM t ORDER BY id, k; }\nstep y { SELECT id FROM t ORDER BY id FOR UPDATE NOWAIT; }\n"
	  . ($o{child} ? "step x { SELECT r, n FROM c ORDER BY r, n; }\n" : '') . "\n";
	foreach (1 .. $permutations)
	{
		my %next = map { $_ => 1 } 'a', 'b', 'c';
		$spec .= 'permutation ' . join(' ', map { $_ . $next{$_}++ } shuffle(@steps)) . ' z y' . ($o{child} ? ' x' : '') . "\n";
	}
	return $spec;
}

# How many wait at a time
sub most_waiting
{
	my ($waiting, $most) = (0, 0);
	foreach my $line (split /\n/, $_[0])
	{
		$waiting++ if $line =~ /<waiting/;
		$waiting-- if $line =~ /<\.\.\. completed>/;
		$most = $waiting if $waiting > $most;
	}
	return $most;
}

# What isolationtester prints for the interleavings, on heap and on lsm
sub run_twins
{
	my ($spec) = @_;
	my %out;
	foreach my $am ('heap', 'lsm')
	{
		my $file = "$PostgreSQL::Test::Utils::tmp_check/$am.spec";
		open my $fh, '>', $file or die;
		print $fh $spec =~ s/\@/$am eq 'heap' ? 'btree' : 'lsm'/er;
		close $fh;
		my $out = `PGISOLATIONTIMEOUT=60 '$tester' "@{[ $node->connstr($am) ]}" < '$file' 2>&1`;

		# the order of rows is that of TIDs where nothing else says so: a matter of layout
		$out =~ s/^([-+]+\n)((?:.*\n)*?)(?=\(\d+ rows?\)$)/$1 . join('', sort(split(m{^}, $2)))/gem;
		$out{$am} = [ split /^(?=starting permutation)/m, $out ];
	}
	return %out;
}

my ($waits, $compared, $differences) = (0, 0, 0);
my $enough = int($specs * $permutations / 4);
for (my $number = 1; $number <= $specs || (($compared < $enough || $waits == 0) && $number <= 5 * $specs); $number++)
{
	my $spec = make_spec();
	my %out = run_twins($spec);
	my %patient;
	unlike(join('', @{ $out{lsm} }), qr/XX\d\d\d|server closed|internal error|could not (?:open|read)/, "script $number: no internal error");
	is(scalar(@{ $out{lsm} }), scalar(@{ $out{heap} }), "script $number: all interleavings");
	foreach my $i (0 .. $#{ $out{heap} })
	{
		my ($heap, $lsm) = ($out{heap}[$i], $out{lsm}[$i]);

		# flushes and compactions take their time while others wait: once more, with all the time that they need
		if ($lsm =~ /lock timeout/ && $heap !~ /lock timeout/)
		{
			%patient = run_twins($spec =~ s/lock_timeout = '400ms'/lock_timeout = '6s'/gr) unless %patient;
			($heap, $lsm) = ($patient{heap}[$i], $patient{lsm}[$i]);
		}

		# who runs into its time limit first, or goes on first when two are released, is up to the scheduler
		next if $heap =~ /lock timeout|deadlock detected/ || most_waiting($heap) > 1;
		$compared++;
		$waits += () = $heap =~ /<waiting/g;
		next if $heap eq $lsm;
		$differences++;
		fail("script $number: as on heap");
		diag("heap:\n$heap\nlsm:\n$lsm\n$spec");
	}
}
is($differences, 0, "$compared interleavings as on heap, with $waits waits");
cmp_ok($compared, '>=', $enough, 'enough is compared');
cmp_ok($waits, '>', 0, 'sessions had to wait for each other');
$node->stop;
done_testing();
