# Random row comparisons, (a, b, c) > (x, y, z), and conditions behind a gap of leading columns, by every way to scan an
# index, against a sequential scan: columns of many types with few values and nulls, in any direction, behind equalities, with constants of other types, nulls and columns
# of another table; in databases that compare bytes and by libc.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $locpath = PostgreSQL::Test::Utils::tempdir();
my $libc = system("localedef -i en_US -f UTF-8 $locpath/en_US.UTF-8 >/dev/null 2>&1") == 0;
if ($libc)
{
	system("localedef -i C -f UTF-8 $locpath/C.utf8 >/dev/null 2>&1") == 0
	  or system("cp -r /usr/lib/locale/C.utf8 $locpath/") == 0
	  or BAIL_OUT('no C.UTF-8');
	chmod 0755, $locpath;
	$ENV{LOCPATH} = $locpath;
}
else { diag('NOT TESTED for want of localedef or its sources: libc'); }

my $node = lsm_node('rows', conf => "autovacuum = off\nlsm.memtable_memory = 64MB\nmin_parallel_index_scan_size = 0\nmin_parallel_table_scan_size = 0\n"
	  . "parallel_setup_cost = 0\nparallel_tuple_cost = 0\nmax_parallel_workers = 2\ndefault_table_access_method = lsm");
lsm_start($node);
srand(lsm_seed());
sub one { return $_[rand @_]; }

# a value of the column as SQL, now and then of another type that its operators take
my %values = (
	i => sub { return one(-1 .. 3, '2::smallint', '1::bigint', '9999999999::bigint') },
	b => sub { return one(0 .. 3, '1::int', '9223372036854775807') },
	t => sub { return one("''", "'a'", "'A'", "'co-op'", "'coop'", "'b '", "'x'::name", "'a'::varchar") },
	n => sub { return one(0, '1.0', '1.50', -1, "'NaN'", "'-Infinity'", '2::int') },
	f => sub { return one(0, "'-0'::float8", '1.5::float4', "'NaN'::float8", "'Infinity'::float8") },
	d => sub { return one("'2024-01-01'", "'2024-01-02'", "'infinity'", "'2024-01-01 12:00'::timestamp", "'-infinity'::timestamp", "'2024-01-02'::timestamp") },
	u => sub { return one("'00000000-0000-0000-0000-000000000000'", "'10000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'") },
	l => sub { return one('true', 'false') },
	e => sub { return one("'low'", "'mid'", "'high'") },
	a => sub { return one("'{}'", "'{1}'", "'{1,2}'", "'{NULL}'") });
my %own = (i => 'int', b => 'bigint', t => 'text', n => 'numeric', f => 'float8', d => 'date', u => 'uuid', l => 'bool', e => 'level', a => 'int[]');
my @columns = sort keys %values;

sub shuffled { my @in = @_; return map { splice(@in, rand @in, 1) } 1 .. @in; }
sub stored { my ($c) = @_; return 'NULL' if rand() < 0.1; my $v; do { $v = $values{$c}->() } while $v =~ /::(?!\Q$own{$c}\E(?!\w))/; return $v; }

sub comparison
{
	my (@index) = @_;
	my $first = rand() < 0.7 ? 0 : int rand @index;
	my @members = @index[ $first .. $#index ];
	splice(@members, 2 + int rand @members) if @members > 2;
	@members = shuffled(@members) if rand() < 0.15;
	return 'true' if @members < 2;
	my @constants = map { rand() < 0.05 ? "NULL::$own{$_}" : $values{$_}->() } @members;
	my $op = one('<', '<=', '>', '>=');
	my ($left, $right) = (join(', ', map { "r.$_" } @members), join(', ', @constants));
	($left, $right) = ($right, $left) if rand() < 0.2;
	my $clause = "($left) $op ($right)";
	# equalities before the row, and others
	foreach my $i (0 .. $first - 1)
	{
		my $c = $index[$i];
		$clause .= ' AND ' . one("r.$c = " . stored_not_null($c), "r.$c IS NULL", "r.$c IN (" . stored_not_null($c) . ', ' . stored_not_null($c) . ')') if rand() < 0.9;
	}
	return $clause;
}
# some of the index's columns, mostly not the first
sub gap
{
	my (@index) = @_;
	my @clauses;
	foreach my $i (0 .. $#index)
	{
		my $c = $index[$i];
		next if rand() < ($i == 0 ? 0.8 : 0.3);
		push @clauses, one("r.$c = " . $values{$c}->(), "r.$c IS NULL", "r.$c IS NOT NULL", "r.$c " . one('<', '<=', '>', '>=') . ' ' . $values{$c}->(),
			"r.$c IN (" . stored_not_null($c) . ', ' . stored_not_null($c) . ')', "r.$c BETWEEN " . stored_not_null($c) . ' AND ' . stored_not_null($c));
	}
	return @clauses ? join(' AND ', @clauses) : 'true';
}
sub stored_not_null { my ($c) = @_; my $v; do { $v = stored($c) } while $v eq 'NULL'; return $v; }

my @ways = (
	['index', 'SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0'],
	['index only', 'SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0'],
	['bitmap', 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET max_parallel_workers_per_gather = 0'],
	['parallel', 'SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 2']);

sub check_database
{
	my ($db, $rounds) = @_;
	my ($asked, $by_row) = (0, 0);
	my @wrong;
	$node->safe_psql($db, "CREATE EXTENSION lsmam; CREATE TYPE level AS ENUM ('low', 'mid', 'high')");
	foreach my $round (1 .. $rounds)
	{
		my @rows;
		foreach my $i (1 .. 600) { push @rows, "($i, " . join(', ', map { stored($_) } @columns) . ')'; }
		my @index = (shuffled(@columns))[ 0 .. 1 + int rand 3 ];
		my $mixed = rand() < 0.4;
		my $direction = one('ASC', 'DESC');
		my $definition = join(', ', map { my $d = $mixed ? one('ASC', 'DESC') : $direction; "$_ $d" . (rand() < 0.2 ? ' NULLS ' . one('FIRST', 'LAST') : '') } @index);
		my $half = int(@rows / 2);
		$node->safe_psql($db, "DROP TABLE IF EXISTS r; CREATE TABLE r (id int, " . join(', ', map { "$_ $own{$_}" } @columns) . ");"
			  . "INSERT INTO r VALUES " . join(', ', @rows[ 0 .. $half ]) . "; CREATE INDEX r_i ON r USING lsm ($definition) INCLUDE (id); SELECT lsm_flush('r');"
			  . "INSERT INTO r VALUES " . join(', ', @rows[ $half + 1 .. $#rows ]) . ';'
			  # groups that are worth passing over
			  . (rand() < 0.5 ? 'INSERT INTO r SELECT id + k * 600, ' . join(', ', @columns) . ' FROM r, generate_series(1, 7) k;' : '') . 'VACUUM ANALYZE r');
		my $script = "\\set QUIET on\n\\pset format unaligned\n\\pset tuples_only on\n";
		my @queries;
		foreach (1 .. 25)
		{
			my $clause = comparison(@index);
			$clause .= ' AND ' . comparison(@index) if rand() < 0.3;
			my $query = rand() < 0.85 ? "SELECT md5(coalesce(string_agg(r.id::text, ',' ORDER BY r.id), '')) FROM r WHERE $clause"
			  # members of another table
			  : do { my @m = @index[ 0 .. 1 ]; my $op = one('<', '<=', '>', '>='); "SELECT md5(string_agg(n::text, ',' ORDER BY id)) FROM (SELECT o.id, (SELECT count(*) FROM r WHERE (r.$m[0], r.$m[1]) $op (o.$m[0], o.$m[1])) AS n FROM r o WHERE o.id < 20) q" };
			$query = "SELECT md5(coalesce(string_agg(r.id::text, ',' ORDER BY r.id), '')) FROM r WHERE " . gap(@index) if rand() < 0.3;
			push @queries, $query;
			$script .= "\\echo query\nRESET ALL; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;\n$query;\n";
			$script .= "RESET ALL; SET enable_seqscan = off; $_->[1];\n$query;\n" foreach @ways;
			$script .= "RESET ALL; SET enable_seqscan = off; EXPLAIN (COSTS off) $query;\n";
		}
		my $out = $node->safe_psql($db, $script);
		my (undef, @answers) = split /^query\n/m, $out;
		is(scalar @answers, scalar @queries, "$db: all queries of round $round were answered");
		foreach my $q (0 .. $#queries)
		{
			my ($expected, @got) = split /\n/, $answers[$q];
			$asked++;
			$by_row++ if grep { /Cond: .*ROW\(/ } splice(@got, @ways);
			foreach my $w (0 .. $#ways)
			{
				push @wrong, "$ways[$w][0]: $queries[$q] -- index ($definition)" if $got[$w] ne $expected;
			}
		}
	}
	is(join("\n", @wrong), '', "$db: every way gives the rows of a sequential scan");
	# about a third; the columns of an index decide for 25 queries at once, so the share varies
	cmp_ok($by_row, '>', $asked / 10, "$db: whole rows were index conditions");
	return;
}

my $rounds = lsm_long() ? 150 : 12;
$node->safe_psql('postgres', "CREATE DATABASE bytes TEMPLATE template0 LOCALE 'C.UTF-8'");
check_database('bytes', $rounds);
# Pages of a large group: they begin where the row says, not where the group does
sub check_pages
{
	my ($db) = @_;
	$node->safe_psql($db, q{
CREATE TYPE state AS ENUM ('ready', 'held', 'done');
ALTER TYPE state ADD VALUE 'new' BEFORE 'ready';
CREATE TABLE p (t text, e state, n int, b text) USING lsm;
INSERT INTO p SELECT (ARRAY['x', 'y', 'Y'])[1 + i % 3], (enum_range(NULL::state))[1 + i % 4], i, (ARRAY['b', 'B', 'c'])[1 + i % 3 * i % 2] FROM generate_series(1, 60000) i;
INSERT INTO p SELECT NULL, NULL, i, 'b' FROM generate_series(1, 1000) i;
CREATE INDEX ON p USING lsm (t, n); CREATE INDEX ON p USING lsm (e, n); CREATE INDEX ON p USING lsm (t DESC, b DESC, n DESC);
CREATE INDEX ON p USING lsm (b, e, n)});
	$node->safe_psql($db, 'VACUUM ANALYZE p');
	my $off = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET enable_incremental_sort = off;';
	my $plain = 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;';
	foreach my $page ([ q{(t, n) > ('y', 40000)}, 't, n' ], [ q{(t, n) >= ('Y', 59990)}, 't, n' ], [ q{(t, n) < ('y', 20000)}, 't DESC, n DESC' ],
		[ q{t IN ('x', 'Y') AND (t, n) > ('x', 59000) AND (t, n) < ('x', 59100)}, 't, n' ], [ q{(e, n) > ('held', 30000) AND (e, n) < ('held', 30100)}, 'e, n' ],
		[ q{(t, n) < ('Y', 20) AND (t, n) > ('y', 59900)}, 't, n' ], [ q{(t, n) <= ('y', 30) AND t >= 'y'}, 't, n' ],
		[ q{(e, n) > ('held', 30000)}, 'e, n' ], [ q{(e, n) < ('held', 30000)}, 'e DESC, n DESC' ], [ q{(e, n) <= ('ready', 100) AND e > 'new'}, 'e, n' ],
		[ q{(t, b, n) < ('y', 'B', 30000)}, 't DESC, b DESC, n DESC' ], [ q{(t, b, n) > ('y', 'b', 59000)}, 't, b, n' ],
		[ q{b = 'b' AND (e, n) > ('held', 50000)}, 'b, e, n' ], [ q{b = 'b' AND (e, n) < ('held', 40)}, 'b, e DESC, n DESC' ])
	{
		my ($clause, $order) = @$page;
		my $query = "SELECT t, e, n, b FROM p WHERE $clause ORDER BY $order LIMIT 50";
		my $got = $node->safe_psql($db, "$off $query");
		is($got, $node->safe_psql($db, "$plain $query"), "$db: a page of $clause");
		my $plan = $node->safe_psql($db, "$off EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query");
		my ($dropped) = $plan =~ /Rows Removed by \w[\w ]*: (\d+)/;
		cmp_ok($dropped // 0, '<', 500, "$db: ... begins there") or diag($plan);
		my ($blocks) = $plan =~ /blocks read=(\d+)/;
		cmp_ok($blocks // 0, '<', 150, "$db: ... and reads no more than it takes") or diag($plan);
		next unless $clause =~ /^\((\w), n\).* AND \(\1, n\)/;
		$plan = $node->safe_psql($db, "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT n FROM p WHERE $clause");
		($dropped) = $plan =~ /Rows Removed by \w[\w ]*: (\d+)/;
		ok($plan =~ /Bitmap Index Scan/ && ($dropped // 0) < 500, "$db: ... so does a bitmap") or diag($plan);
	}
}
check_pages('bytes');
if ($libc)
{
	$node->safe_psql('postgres', "CREATE DATABASE en TEMPLATE template0 LOCALE 'en_US.UTF-8'");
	check_database('en', $rounds);
	check_pages('en');
}
done_testing();
