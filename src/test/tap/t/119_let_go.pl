# Functions that look at relations let go of what they took: no lock on a table, an index or its table is left, so that
# two sessions that monitor and truncate never wait for each other; and no control block, so that a transaction may look at
# more trees than there are.  What a subtransaction took goes with its rollback: nobody keeps all control blocks by using
# tables, or making them, in subtransactions that end in an error; what a cursor of an outer one uses, stays.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Utils;
use Test::More;

use constant TABLES => 80;

my $node = lsm_node('let_go', conf => "lsm.max_trees = 64\nautovacuum = off\nfsync = off\nmin_parallel_table_scan_size = 0\nmax_parallel_maintenance_workers = 2\nmax_locks_per_transaction = 256\n");
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

# ---- subtransactions ----
sub undone
{
	my ($use, $inner) = @_;
	return sprintf(q{DO $$ BEGIN FOR i IN 1 .. %d LOOP BEGIN %s RAISE 'undo'; EXCEPTION WHEN raise_exception THEN NULL; END; END LOOP; END $$;},
		TABLES, $inner ? "BEGIN EXECUTE format('$use', i); EXCEPTION WHEN division_by_zero THEN NULL; END;" : "EXECUTE format('$use', i);");
}
my $read = 'SELECT * FROM t%s';
my %uses = (
	read => undone($read),
	'read in a subtransaction that is committed' => undone($read, 1),
	write => undone('INSERT INTO t%s VALUES (2)'),
	make => undone('CREATE TABLE n%1$s (id int) USING lsm; INSERT INTO n%1$s VALUES (1)'),
	'make temporary' => undone('CREATE TEMPORARY TABLE n%1$s (id int) USING lsm; INSERT INTO n%1$s VALUES (1)'));
foreach my $use (sort keys %uses)
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query("BEGIN; $uses{$use}");
	my ($rc, $out, $err) = $node->psql('postgres', 'SELECT count(*) FROM l');
	is("$out$err", '100', "$use, rolled back: others go on");
	$session->quit;
}

# blocks that cursors use are not given to others meanwhile; an assertion sees to it, too
my %scans = ('table' => 'SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off',
	'index' => 'SET LOCAL enable_seqscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_sort = off',
	'index only' => 'SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off');
foreach my $scan (sort keys %scans)
{
	my $columns = $scan eq 'index only' ? 'id' : 'id, v';
	my $order = $scan eq 'table' ? '' : 'ORDER BY id';
	foreach my $before ('', 'SELECT FROM l;', 'SAVEPOINT t; SELECT FROM l; RELEASE t;', 'SELECT lsm_advise(\'l\'::regclass);')
	{
		my ($rc, $out, $err) = $node->psql('postgres', "BEGIN; $scans{$scan}; DECLARE c CURSOR FOR SELECT $columns FROM l $order; SAVEPOINT s; \\o /dev/null
			$before \\o
			FETCH 1 c; SAVEPOINT u; FETCH 1 c; ROLLBACK TO s; $uses{read} FETCH 1 c; SAVEPOINT v; DECLARE d CURSOR FOR SELECT $columns FROM l $order; FETCH 1 d;
			ROLLBACK TO v; $uses{read} FETCH 1 c; COMMIT");
		is($out . $err, join("\n", map { $columns eq 'id' ? $_ : "$_|v$_" } 1, 2, 3, 1, 4), "$scan scan of an outer cursor, $before");
	}
}
$node->stop;
done_testing();
