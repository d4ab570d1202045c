# Functions that look at relations let go of what they took: no lock on a table, an index or its table is left, so that
# two sessions that monitor and truncate never wait for each other; and no control block, so that a transaction may look at
# more trees than there are.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Utils;
use Test::More;

use constant TABLES => 80;

my $node = lsm_node('let_go', conf => "lsm.max_trees = 64\nautovacuum = off\nfsync = off\nmin_parallel_table_scan_size = 0\nmax_parallel_maintenance_workers = 2\n");
lsm_start($node);
sub sql { return $node->safe_psql('postgres', $_[0]); }

sql(q{CREATE TABLE l (id int PRIMARY KEY, v text) USING lsm; CREATE INDEX l_v ON l USING lsm (v); CREATE INDEX l_b ON l USING btree (v);
	CREATE TABLE h (id int, v text) USING heap; CREATE INDEX h_v ON h USING lsm (v);
	INSERT INTO l SELECT i, 'v' || i FROM generate_series(1, 100) i; INSERT INTO h SELECT * FROM l});
sql(q{SELECT lsm_flush('l'::regclass), lsm_flush('h'::regclass); VACUUM l});

my $held = q{SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation IN
	(SELECT 'l'::regclass UNION ALL SELECT 'h'::regclass UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid IN ('l'::regclass, 'h'::regclass))};
my %calls = (
	(map { my $f = $_; map { ("$f($_)" => "$f('$_'::regclass)") } 'l', 'l_pkey', 'h_v' }
		  qw(lsm_relation_size lsm_table_size lsm_levels lsm_files lsm_filters lsm_compression lsm_advise lsm_verify)),
	(map { my $f = $_; map { ("$f($_)" => "$f('$_'::regclass)") } 'l', 'h' }
		  qw(lsm_indexes_size lsm_total_relation_size)),
	'lsm_advise(h)' => q{lsm_advise('h'::regclass)}, 'lsm_verify(h)' => q{lsm_verify('h'::regclass)},
	(map { ("lsm_report($_)" => "lsm_report(ARRAY['$_'::regclass])") } 'l', 'l_v', 'h'),
	'lsm_sizes' => q{(SELECT sum(total_bytes) FROM lsm_sizes WHERE relname IN ('l', 'h')) s},
	'lsm_schema_sizes' => 'lsm_schema_sizes');
foreach my $call (sort keys %calls)
{
	# of the first statement: planning the second one would lock indexes
	my ($rc, $out, $err) = $node->psql('postgres', "BEGIN; DO \$\$ BEGIN PERFORM * FROM $calls{$call}; END \$\$; $held; COMMIT");
	is("$out$err", '0', "$call leaves no lock");
}

sql(join ';', map { "CREATE TABLE t$_ (id int PRIMARY KEY) USING lsm; INSERT INTO t$_ VALUES (1)" } 1 .. TABLES);
foreach my $function ('lsm_advise', 'lsm_report', 'lsm_verify', 'lsm_total_relation_size')
{
	my @arguments = map { $function eq 'lsm_report' ? "ARRAY['t$_'::regclass]" : "'t$_'::regclass" } 1 .. TABLES;
	my ($rc, $out, $err) = $node->psql('postgres', 'BEGIN; ' . join(' ', map { "SELECT count(*) FROM $function($_);" } @arguments) . ' COMMIT');
	is($err, '', "$function of more tables than lsm.max_trees in a transaction");
}
$node->stop;
done_testing();
