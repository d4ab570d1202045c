# synchronize_seqscans: a scan of a large table starts where another is or stopped, and still returns every row once.
# Cursors that go back and forth, or are rewound, show the same rows in the same places.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

lsm_seed();
# large is what takes more than a quarter of shared_buffers
my $node = lsm_node('sync', conf => "autovacuum = off\nshared_buffers = 1MB\nmax_parallel_workers_per_gather = 0\nfsync = off");
lsm_start($node);

sub sql { return $node->safe_psql('postgres', $_[0]); }
sub first_rows { my ($table, $n, $set) = @_; return join ',', split /\n/, sql(($set // '') . "SELECT id FROM $table LIMIT $n"); }

my $rows = 40_000;
my $sum = $rows * ($rows + 1) / 2;
my $values = "SELECT g, md5(g::text) || md5((-g)::text) FROM generate_series(1, $rows) g";
sql("CREATE TABLE l (id int, t text) USING lsm; INSERT INTO l $values; ANALYZE l");
sql("CREATE TABLE small (id int) USING lsm; INSERT INTO small SELECT generate_series(1, 1000)");
my $everything = 'SELECT count(*), sum(id), count(DISTINCT id) FROM l';
my $answer = "$rows|$sum|$rows";
my $cursor = 'BEGIN; DECLARE s SCROLL CURSOR FOR SELECT id FROM l';

foreach my $where ('memtable', 'sorted files')
{
	sql("SELECT lsm_flush('l')") if $where eq 'sorted files';
	# a scan that stops at row 20,000; blocks hold 290 rows
	sql('SELECT id FROM l OFFSET 0 LIMIT 1; SET synchronize_seqscans = off; SELECT count(*) FROM l');
	my ($start) = split /,/, first_rows('l', 1);
	sql('SELECT id FROM l OFFSET 19999 LIMIT 1');
	my ($first) = split /,/, first_rows('l', 1);
	my $steps = ($first - $start) % $rows;
	cmp_ok($steps, '>', 19_000, "$where: the next scan starts near where the last one stopped ($start, $first)");
	cmp_ok($steps, '<=', 20_000, 'not behind it');
	is(sql($everything), $answer, 'every row once');
	is((split /,/, first_rows('l', 1))[0], $first, 'a scan of everything leaves the position');
	is(first_rows('l', 3, 'SET synchronize_seqscans = off; '), '1,2,3', 'synchronize_seqscans = off');
	is(first_rows('l', 3, 'BEGIN ISOLATION LEVEL SERIALIZABLE; '), '1,2,3', 'serializable');
	sql('SELECT id FROM small OFFSET 499 LIMIT 1');
	is(first_rows('small', 3), '1,2,3', 'a small table');

	# ---- cursors ----
	my @order = split /\n/, sql("$cursor; FETCH ALL s");
	is(scalar @order, $rows, 'a cursor fetches all');
	cmp_ok($order[0], '>', 1, 'not from the first row');
	my @back = split /\n/, sql("$cursor; MOVE FORWARD ALL s; FETCH BACKWARD ALL s");
	is(join(' ', reverse @back), join(' ', @order), 'backward: the same the other way round');
	@back = split /\n/, sql("$cursor; MOVE FORWARD 30000 s; SELECT 'x' FROM (SELECT id FROM l OFFSET 5000 LIMIT 1) x; MOVE ABSOLUTE 0 s; FETCH 40000 s");
	is(shift @back, 'x', 'another scan');
	is(join(' ', @back), join(' ', @order), 'rewound after another scan moved the position');

	# random steps over the seams, which are the end of the table and the place where the scan began
	@order = split /\n/, sql("$cursor; FETCH ALL s");
	my ($seam) = grep { $order[$_] == 1 } 0 .. $#order;
	my ($script, $place, @want) = ("$cursor; ", 0);    # place: rows before and including the one at hand
	foreach my $i (0 .. 399)
	{
		if ($i % 40 == 0)
		{
			$place = (0, $seam, $rows)[rand 3] + int(rand 20) - 10;
			$place = $place < 0 ? 0 : $place > $rows + 1 ? $rows + 1 : $place;
			$script .= "MOVE ABSOLUTE $place s; ";
		}
		my $n = 1 + int rand 12;
		my $step = rand(2) < 1 ? 1 : -1;
		$script .= 'FETCH ' . ($step > 0 ? 'FORWARD' : 'BACKWARD') . " $n s; ";
		foreach (1 .. $n)
		{
			$place += $step;
			$place = $place < 0 ? 0 : $place > $rows + 1 ? $rows + 1 : $place;
			last if $place == 0 || $place > $rows;
			push @want, $order[ $place - 1 ];
		}
	}
	is(join(' ', split /\n/, sql($script)), join(' ', @want), "steps back and forth over the seam at $seam");

	# inner side of a nested loop: scanned again and again
	my $off = join ' ', map { "SET enable_$_ = off;" } qw(material hashjoin mergejoin);
	is(sql("$off SELECT count(*), sum(l.id) FROM generate_series(1, 3) g JOIN l ON l.id % 3 <> g"),
		sql("SELECT count(*), sum(id) FROM generate_series(1, 3) g JOIN generate_series(1, $rows) id ON id % 3 <> g"), 'scanned again and again');
}

# ---- two at a time, and changes between ----
my $slow = $node->background_psql('postgres', on_error_die => 1);
$slow->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM l');
my @seen = split /\n/, $slow->query_safe('FETCH 12000 c');
my ($second) = split /,/, first_rows('l', 1);
ok((grep { $_ == $second } @seen[ 11_000 .. 11_999 ]), "a second scan starts where the first one is ($second)");
sql('DELETE FROM l WHERE id % 7 = 0; UPDATE l SET t = t WHERE id % 11 = 0');
sql("SELECT lsm_compact('l')");
push @seen, split /\n/, $slow->query_safe('FETCH ALL c');
$slow->query_safe('COMMIT');
$slow->quit;
is(join(' ', sort { $a <=> $b } @seen), join(' ', 1 .. $rows), 'the first one sees what it saw at its start');
my $left = sql("SELECT count(*), sum(id), count(DISTINCT id) FROM generate_series(1, $rows) id WHERE id % 7 <> 0");
is(sql($everything), $left, 'every row once after changes');

# ---- who scans a table for other purposes gets all rows, once ----
sql('SELECT id FROM l OFFSET 19999 LIMIT 1; CREATE TABLE copied AS SELECT * FROM l');
is(sql('SELECT count(*), sum(id), count(DISTINCT id) FROM copied'), $left, 'CREATE TABLE AS');
sql('CREATE INDEX ON l USING lsm_index (id)');
sql('CREATE INDEX CONCURRENTLY ON l USING lsm_index (t)');
sql('CREATE INDEX ON l USING brin (id)');
is(sql("SELECT count(*) FROM lsm_verify('l')"), '0', 'indexes built');
is(sql('SET enable_seqscan = off; SET enable_indexscan = off; SELECT count(*) FROM l WHERE id BETWEEN 100 AND 2000'),
	sql('SELECT count(*) FROM generate_series(100, 2000) i WHERE i % 7 <> 0'), 'BRIN');
sql('ALTER TABLE l ALTER id TYPE bigint');
is(sql($everything), $left, 'rewritten');

# ---- the table becomes small, and empty ----
sql('SELECT id FROM l OFFSET 29999 LIMIT 1');
sql('TRUNCATE l');
is(sql('SELECT count(*) FROM l'), '0', 'empty');
sql("BEGIN; INSERT INTO l $values LIMIT 20000; DECLARE c SCROLL CURSOR FOR SELECT id FROM l; MOVE 10000 c; COMMIT");
is(sql('SELECT count(*), sum(id) FROM l'), '20000|200010000', 'filled again, with fewer rows');
sql('DELETE FROM l WHERE id > 500');
sql('VACUUM l');
is(sql("SELECT lsm_compact('l'); SELECT count(*), sum(id) FROM l"), "\n500|125250", 'small');

# ---- many at a time ----
sql("TRUNCATE l; INSERT INTO l $values");
my $pgbench = $node->basedir . '/scan.sql';
append_to_file($pgbench, "\\set n random(1, $rows)\nSELECT id FROM l OFFSET :n LIMIT 1;\nSELECT 1 / (count(*) = $rows AND sum(id) = $sum)::int FROM l;\n");
command_ok([ 'pgbench', '-n', '-c', '4', '-t', '40', '-f', $pgbench, '-h', $node->host, '-p', $node->port, 'postgres' ], 'scans side by side see every row once');
$node->stop;
done_testing();
