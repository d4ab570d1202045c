# Filters by the place of a file in the tree: in a tree of 4 + 2 runs in level 0 and two levels, filter_allocation = monkey
# wastes at most 0.4 of the reads that uniform bits waste in the same memory, and both what the closed forms say;
# bottom_filter = ribbon takes less memory for the same.  Files that go down without being written again have the filter of
# the bottom.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

lsm_seed();
my $rows = lsm_long() ? 4000 : 1000;    # of a run of level 0
my $asked = lsm_long() ? 40000 : 20000;
my $node = lsm_node('allocation', conf => "autovacuum = off\nfsync = off\nlsm.memtable_size = 64MB\nmax_parallel_workers_per_gather = 0");
lsm_start($node);
sub sql { return $node->safe_psql('postgres', $_[0]); }

# name of the column, and its index's parameters
my @kinds = (
	[ uniform => 'filter_allocation = uniform' ],
	[ monkey => 'filter_allocation = monkey' ],
	[ mixed => 'filter_allocation = monkey, bottom_filter = ribbon' ],
	[ bottom => 'bottom_filter = ribbon' ],
	[ ribbon => 'filter_scheme = ribbon, filter_allocation = monkey' ]);
my @names = map { $_->[0] } @kinds;
my $columns = join ', ', @names;

# Keys are even numbers 2 i; runs have all i of some remainders by 132, so that all of them lie over each other
sub rows
{
	my ($from, $to) = @_;
	return "INSERT INTO q SELECT " . join(', ', map { '2 * i' } @names) . " FROM generate_series(0, $rows * 132 - 1) i WHERE i % 132 BETWEEN $from AND $to;";
}
my $flush = join ' ', map { "SELECT lsm_flush('q_$_');" } @names;

sql("CREATE TABLE q (" . join(', ', map { "$_ int8" } @names) . ") USING heap; " . rows(0, 99));
# (what is built goes to level 2; then a flush is one run, however large)
sql("SET lsm.memtable_size = '256kB'; " . join ' ', map { "CREATE INDEX q_$_->[0] ON q USING lsm ($_->[0]) WITH (size_ratio = 4, $_->[1]);" } @kinds);
sql(rows($_, $_ + 4) . $flush) foreach 100, 105, 110, 115;
ok($node->poll_query_until('postgres', 'SELECT bool_and(n = 0) FROM (' . join(' UNION ALL ', map { "SELECT count(*) FILTER (WHERE level = 0) AS n FROM lsm_levels('q_$_')" } @names) . ') s'), 'level 0 has gone down');

# While a lock is held, no worker compacts.  The last run is written by this session, too
my $session = $node->background_psql('postgres', on_error_die => 1);
$session->query_safe('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; BEGIN');
$session->query_safe("ALTER INDEX q_$_ SET TABLESPACE pg_default") foreach @names;
$session->query_safe(rows($_->[0], $_->[1]) . $flush) foreach [ 120, 123 ], [ 124, 127 ], [ 128, 128 ], [ 129, 129 ], [ 130, 130 ], [ 131, 131 ];

my (%wasted, %expected, %bytes);
foreach my $name (@names)
{
	is($session->query_safe("SELECT string_agg(runs || ' of ' || entries, ', ' ORDER BY level) FROM lsm_levels('q_$name')"),
		join(', ', '6 of ' . 12 * $rows, '1 of ' . 20 * $rows, '1 of ' . 100 * $rows), "$name: 4 + 2 runs and two levels");
	is($session->query_safe("SELECT count(*) FROM generate_series(0, $rows * 132 - 1, 7) g WHERE NOT EXISTS (SELECT FROM q WHERE $name = 2 * g OFFSET 0)"),
		0, "$name: every key is found");
	$session->query_safe('SELECT pg_stat_lsm_reset()');
	is($session->query_safe("SELECT count(*) FROM generate_series(1, $asked) g, LATERAL (SELECT 1 FROM q WHERE $name = (g::int8 * 7919 % ($rows * 132)) * 2 + 1 OFFSET 0) s"),
		0, "$name: absent keys are absent");
	my ($probes, $false, $bytes, $theory) = split /\|/,
	  $session->query_safe("SELECT sum(probes), sum(false_positives), sum(filter_bytes), sum((negatives + false_positives) * expected_fpr) FROM lsm_filters('q_$name')");
	cmp_ok($probes, '>', 7.9 * $asked, "$name: every run was asked");
	cmp_ok(abs($false - $theory), '<', 0.1 * $theory + 4 * sqrt($theory), "$name: $false false positives, $theory in theory");
	note("$name: $false wasted reads of $asked lookups, $bytes bytes: ", $session->query_safe("SELECT string_agg(format('L%s %s %s bits', level, filter_scheme, round(bits_per_key::numeric, 1)), ', ') FROM lsm_filters('q_$name')"));
	($wasted{$name}, $bytes{$name}) = ($false, $bytes);
}
cmp_ok($wasted{monkey}, '<=', 0.4 * $wasted{uniform}, 'monkey: false positives');
cmp_ok($bytes{monkey}, '<=', 1.02 * $bytes{uniform}, 'monkey: memory');
cmp_ok($wasted{mixed}, '<=', 0.15 * $wasted{uniform}, 'monkey and ribbon: false positives');
cmp_ok($bytes{mixed}, '<=', 1.02 * $bytes{uniform}, 'monkey and ribbon: memory');
cmp_ok($wasted{bottom}, '<', $wasted{uniform}, 'ribbon at the bottom: false positives');
is($session->query_safe("SELECT string_agg(DISTINCT filter_scheme, ' ') FROM lsm_filters('q_bottom') WHERE level = 2"), 'ribbon', 'ribbon at the bottom');
is($session->query_safe("SELECT string_agg(DISTINCT filter_scheme, ' ') FROM lsm_filters('q_bottom') WHERE level < 2"), 'blocked', 'and blocked above it');
# what lsm_advise promises of uniform bits is what monkey does
my ($setting, $suggested, $promise) = split /\|/, $session->query_safe(
	"SELECT pg_stat_lsm_reset(); SELECT count(*) FROM generate_series(1, $asked) g, LATERAL (SELECT 1 FROM q WHERE uniform = (g::int8 * 7919 % ($rows * 132)) * 2 + 1 OFFSET 0) s; SELECT setting, suggested, expected_wasted_reads FROM lsm_advise('q_uniform')") =~ s/\A\s*0\n//r;
is("$setting $suggested", 'filter_allocation monkey', 'lsm_advise suggests it');
cmp_ok(abs($promise * $asked / 1000 - $wasted{monkey}), '<', 0.25 * $wasted{monkey} + 30, "and promises $promise of 1000 lookups");
$session->query_safe('COMMIT');
$session->quit;
is(sql("SELECT string_agg(problem, ' ') FROM (" . join(' UNION ALL ', map { "SELECT * FROM lsm_verify('q_$_')" } @names) . ') s'), '', 'lsm_verify is content');

# all in one level: nothing to allocate, and all of it is the bottom
sql(join ' ', map { "SELECT lsm_compact('q_$_');" } @names);
is(sql("SELECT count(*) FROM generate_series(0, $rows * 132 - 1, 7) g WHERE NOT EXISTS (SELECT FROM q WHERE mixed = 2 * g OFFSET 0)"), 0, 'every key after a compaction');
is(sql("SELECT string_agg(DISTINCT filter_scheme, ' ') FROM lsm_filters('q_mixed')"), 'ribbon', 'one level: ribbon');
cmp_ok(sql("SELECT max(abs(bits_per_key - 10)) FROM lsm_filters('q_monkey')"), '<', 1, 'one level: about the average');

# filters that are built again are of the same scheme
my $schemes = q{SELECT string_agg(format('%s %s', file, filter_scheme), ', ' ORDER BY file) FROM lsm_files};
my %before = map { $_ => sql("$schemes('q_$_')") } @names;
$node->stop;
cmp_ok(unlink(glob(lsm_dir($node) . '/*/*.flt')), '>=', 5, 'filters are lost');
$node->start;
$node->psql('postgres', "SET client_min_messages = error; SELECT lsm_compact('q_$_')") foreach @names;
foreach my $name (@names)
{
	is(sql("SELECT string_agg(problem, ' ') FROM lsm_verify('q_$name')"), '', "$name: mended");
	is(sql("$schemes('q_$name')"), $before{$name}, "$name: with the schemes that they had");
	is(sql("SELECT string_agg(DISTINCT filter_scheme, ' ') FROM lsm_filters('q_$name')"), $name =~ /uniform|monkey/ ? 'blocked' : 'ribbon', "$name: which are known");
}

# keys in order: files that are written once, and moved
sql(q{SET lsm.memtable_size = '256kB'; CREATE TABLE s (id int8) USING heap; CREATE INDEX s_id ON s USING lsm (id) WITH (filter_allocation = monkey, bottom_filter = ribbon, size_ratio = 4)});
sql("SET lsm.memtable_size = '256kB'; INSERT INTO s SELECT g FROM generate_series($_ * 10000, $_ * 10000 + 9999) g; SELECT lsm_flush('s_id')") foreach 0 .. 11;
ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM lsm_levels('s_id') WHERE level = 0 AND runs >= 4}), 'files in order go down');
is(sql(q{SELECT string_agg(DISTINCT filter_scheme, ' ') FROM lsm_filters('s_id')}), 'ribbon', 'files in order have the filters of the bottom');
cmp_ok(sql(q{SELECT sum(filter_bytes) * 8.0 / sum(keys) FROM lsm_filters('s_id')}), '<', 10.3, 'and the average of bits');
is(sql(q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM generate_series(0, 119999, 11) g WHERE NOT EXISTS (SELECT FROM s WHERE id = g OFFSET 0)}), 0, 'and all keys');
$node->stop;
done_testing();
