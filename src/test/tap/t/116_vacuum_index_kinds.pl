# VACUUM of an lsm table that has an index of each access method of core and contrib, with wal_level = logical: what an
# index's method is told (IndexVacuumInfo) is all that it needs, by one process and by several, by hand and by
# autovacuum, at each step that its VACUUM has (deletion, pages that are deleted and used again, cleanup, ANALYZE).
# What each index finds is what it finds on the heap twin.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('vacuum_index_kinds', wal_level => 'logical', conf => q{
min_parallel_index_scan_size = 0
max_parallel_maintenance_workers = 2
autovacuum = off});
lsm_start($node);

sub query { return $node->safe_psql('postgres', $_[0]); }

# access method, column with operator class, a condition that it can search for
my @kinds = (
	[ 'lsm', 'id', 'id BETWEEN 100 AND 900' ],
	[ 'btree', 'id', 'id BETWEEN 100 AND 900' ],
	[ 'hash', 'id', 'id = 777' ],
	[ 'gist', 'r', 'r && int4range(100, 120)' ],
	[ 'spgist', 'r', 'r && int4range(100, 120)' ],
	[ 'gin', 'a', 'a @> ARRAY[7]' ],
	[ 'brin', 'id', 'id BETWEEN 100 AND 900' ],
	[ 'brin', 'id int4_minmax_multi_ops', 'id BETWEEN 100 AND 900' ],
	[ 'brin', 'id int4_bloom_ops', 'id = 777' ]);
push @kinds, [ 'bloom', 'id, g', 'id = 777 AND g = 77' ] if $node->psql('postgres', 'CREATE EXTENSION bloom') == 0;
cmp_ok(scalar(@kinds), '==', 10, 'contrib is there');
# of contrib's amcheck, where it knows the method
my %amcheck = (btree => q{bt_index_parent_check('%s', true, true)});
$amcheck{gin} = q{gin_index_check('%s')} if lsm_version() >= 18;
query('CREATE EXTENSION amcheck');

sub rows { return "SELECT i, int4range(i % 5000, i % 5000 + i % 7 + 1), ARRAY[i % 50, i % 7], i % 100 FROM generate_series($_[0], $_[1]) i"; }

my $columns = 'id int, r int4range, a int[], g int';
my @names;
foreach my $i (0 .. $#kinds)
{
	my ($method, $what) = @{ $kinds[$i] };
	push @names, "k$i";
	lsm_create_twins($node, "k$i", $columns);
	query("INSERT INTO k${i}_$_ " . rows(1, 6000) . "; CREATE INDEX k${i}_${_}_1 ON k${i}_$_ USING $method ($what)") foreach 'h', 'l';
}
# all of them on one table, for a team
lsm_create_twins($node, 'all', $columns);
foreach my $table ('all_h', 'all_l')
{
	query("INSERT INTO $table " . rows(1, 6000) . ';' . join('', map { "CREATE INDEX ON $table USING $_->[0] ($_->[1]);" } @kinds));
}
push @names, 'all';

# Each index's answer, on both of the twins
sub same
{
	my ($when) = @_;
	my $wrong = lsm_differences($node, @names);
	foreach my $i (0 .. $#kinds)
	{
		my ($method, $what, $condition) = @{ $kinds[$i] };
		my $find = "SELECT count(*), sum(id) FROM k${i}_%s WHERE $condition";
		my $plan = query('SET enable_seqscan = off; EXPLAIN (COSTS OFF) ' . sprintf($find, 'l'));
		$wrong .= "$method: $plan\n" unless $plan =~ /k${i}_l_1/;
		my ($heap, $lsm) = map { query('SET enable_seqscan = off; ' . sprintf($find, $_)) } 'h', 'l';
		$wrong .= "$method ($what): $lsm, heap: $heap\n" if $lsm ne $heap;
		next unless $amcheck{$method};
		my (undef, undef, $err) = $node->psql('postgres', 'SELECT ' . sprintf($amcheck{$method}, "k${i}_l_1"));
		$wrong .= "$method: $err\n" if $err ne '';
	}
	return is($wrong, '', $when);
}

sub on_all { foreach my $name (@names) { query(sprintf($_[0], "${name}_$_")) foreach 'h', 'l'; } return; }
my $log = sub { return -s $node->logfile };

same('as they were made');
my $start = $log->();

# a first VACUUM finds nothing that is dead
on_all('VACUUM %s');
same('nothing is dead');

# pages become empty; then they are used again
on_all('DELETE FROM %s WHERE id <= 3000');
on_all('VACUUM (PARALLEL 0) %s');
same('half of the rows are gone');
on_all('VACUUM %s');
on_all('INSERT INTO %s ' . rows(1, 4000) =~ s/%/%%/gr);
same('pages are used again');

on_all('UPDATE %s SET g = g + 1 WHERE id %% 3 = 0');
on_all('VACUUM (PARALLEL 2, FREEZE) %s');
same('by several processes');
on_all('UPDATE %s SET id = id + 10000, r = int4range(lower(r) / 2, upper(r)) WHERE id %% 5 = 0');
on_all('VACUUM (INDEX_CLEANUP ON, ANALYZE) %s');
same('and ANALYZE');
on_all('DELETE FROM %s WHERE id %% 2 = 0');
on_all('VACUUM (INDEX_CLEANUP OFF) %s');
on_all('ANALYZE %s');
same('without the indexes');

# entries that wait in GIN's list, pages that BRIN has not summarized
on_all('INSERT INTO %s ' . rows(20000, 22000) =~ s/%/%%/gr);
query(q{ALTER SYSTEM SET autovacuum_vacuum_scale_factor = 0; ALTER SYSTEM SET autovacuum_vacuum_threshold = 1;
	ALTER SYSTEM SET autovacuum_vacuum_insert_threshold = 1; ALTER SYSTEM SET autovacuum_vacuum_insert_scale_factor = 0});
query('ALTER SYSTEM SET autovacuum = on');
query('SELECT pg_reload_conf()');
ok($node->poll_query_until('postgres', q{SELECT bool_and(autovacuum_count > 0) FROM pg_stat_user_tables WHERE relname ~ '^(k\d|all_)'}),
	'autovacuum comes');
same('by autovacuum');
query('ALTER SYSTEM SET autovacuum = off');
query('SELECT pg_reload_conf()');

on_all('VACUUM FULL %s');
on_all('DELETE FROM %s');
on_all('VACUUM %s');
same('no row is left');
unlike(substr(slurp_file($node->logfile), $start), qr/terminated by signal|TRAP/, 'the server has lived');

$node->stop;
done_testing();
