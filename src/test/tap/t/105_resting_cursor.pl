# A cursor rests on rows that it has read ahead, while everything before its snapshot is frozen and the clog given up:
# they are seen as heap's are, whatever became of the transactions that made, ended or locked them.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('resting', conf => "fsync = off\nautovacuum = off\nlsm.compaction_workers = 0");
lsm_start($node);
lsm_create_twins($node, 't', 'id int PRIMARY KEY, v text, n int DEFAULT 0');
sub query { return $node->safe_psql('postgres', $_[0]); }

# of each row a transaction that nobody has looked up before: inserted; rolled back; deleted; not deleted; updated; locked
my $id = 0;
foreach my $round (1 .. 30)
{
	foreach my $t ('t_h', 't_l')
	{
		my $from = $id;
		my $row = sub { $from++; return qq{INSERT INTO $t VALUES ($from, 'row $from');\n}; };
		my $sql = $row->();
		$sql .= 'BEGIN; ' . $row->() . 'ROLLBACK;';
		$sql .= $row->() . "DELETE FROM $t WHERE id = $from;\n";
		$sql .= $row->() . "BEGIN; DELETE FROM $t WHERE id = $from; ROLLBACK;\n";
		$sql .= $row->() . "UPDATE $t SET n = n + 1 WHERE id = $from;\n";
		$sql .= $row->() . "BEGIN; SELECT 1 FROM $t WHERE id = $from FOR UPDATE; COMMIT;\n";
		query($sql);
	}
	$id += 6;
}

my $last = query('SELECT pg_snapshot_xmax(pg_current_snapshot())');
lsm_jump_xid($node, 3_000_000);
$node->start;
my %by = (
	'sequential scan' => ['SELECT * FROM %s', 'seqscan'],
	'index scan' => ['SELECT * FROM %s WHERE id > 0 ORDER BY id', 'indexscan'],
	'bitmap scan' => ['SELECT * FROM %s WHERE id > 0', 'bitmapscan']);
my @ways = sort keys %by;
my %session;
foreach my $t ('t_h', 't_l')
{
	$session{$t} = $node->background_psql('postgres');
	$session{$t}->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_sort = off;");
	foreach my $i (0 .. $#ways)
	{
		my ($query, $way) = @{ $by{$ways[$i]} };
		$session{$t}->query_safe(join('', map { "SET LOCAL enable_$_ = " . ($_ eq $way ? 'on' : 'off') . ';' } 'seqscan', 'indexscan', 'bitmapscan')
			. "DECLARE c$i CURSOR FOR " . sprintf($query, $t));
		$session{$t}->query_safe("FETCH 5 FROM c$i");
	}
}
# heap's cursors would hold up VACUUM
my @rows = map { scalar $session{'t_h'}->query("FETCH ALL FROM c$_") } 0 .. $#ways;
$session{'t_h'}->query_safe('COMMIT');
query('UPDATE pg_database SET datallowconn = true');
$node->safe_psql($_, 'VACUUM (FREEZE)') foreach 'template0', 'template1', 'postgres';
ok(!-e $node->data_dir . '/pg_xact/0000', 'the clog of the rows is gone');
cmp_ok($last, '<', 1_048_576, 'theirs it was');

foreach my $i (0 .. $#ways)
{
	my $fetched = $session{'t_l'}->query("FETCH ALL FROM c$i");
	is($fetched, $rows[$i], "$ways[$i]: as heap's");
	cmp_ok(scalar(split /\n/, $fetched), '>', 90, "$ways[$i]: nearly all rows were still to be fetched");
}
$session{'t_l'}->query_safe('COMMIT');
$session{$_}->quit foreach 't_h', 't_l';
is(lsm_differences($node, 't'), '', 'the twins are equal');
$node->stop;
done_testing();
