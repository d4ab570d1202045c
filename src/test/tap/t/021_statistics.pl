# Statistics as clients see them: counted when the statement has ended, also in the
# extended protocol, whose portals live on; EXPLAIN beside extensions that hook the same
# places; workers of a parallel query count once. VACUUM says what heap's says, to the client, in the log, in its views.
use strict;
use warnings;
use LsmTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('statistics', conf => q{
shared_preload_libraries = 'pg_stat_statements,lsmam,auto_explain'
auto_explain.log_min_duration = 0
auto_explain.log_analyze = on
auto_explain.log_nested_statements = on
compute_query_id = on
allow_in_place_tablespaces = on
autovacuum = off});
lsm_start($node);
$node->safe_psql('postgres', q{
CREATE TABLE t (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 20000) i;
SELECT lsm_compact('t');
ANALYZE t;});

# A transaction that stays open after a statement of the extended protocol.
my $script = $node->basedir . '/extended.sql';
append_to_file($script, q{
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SELECT v FROM t WHERE id = 77;
\sleep 600 s
COMMIT;
});
$node->safe_psql('postgres', 'SELECT pg_stat_lsm_reset()');
my $client = IPC::Run::start([ 'pgbench', '-n', '-M', 'extended', '-t', '1', '-f', $script, $node->connstr('postgres') ],
	'>', \my $out, '2>', \my $err);
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
WHERE state = 'idle in transaction' AND query LIKE 'SELECT v FROM t%'}), 'statement of the extended protocol has ended');
is($node->safe_psql('postgres', q{SELECT relname, lookups, digests FROM pg_stat_lsm WHERE relname IN ('t', 't_pkey') ORDER BY 1}),
	"t|1|1\nt_pkey|1|1", 'its lookups are counted while the transaction is open');
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'});
$client->kill_kill;

# EXPLAIN with other extensions' hooks before and behind
my $index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; PREPARE p(int) AS SELECT * FROM t WHERE id = $1;';
foreach my $query ('SELECT * FROM t WHERE id = 78', 'EXECUTE p(79)', 'CREATE TABLE copied AS EXECUTE p(80)')
{
	unlike($node->safe_psql('postgres', "$index EXPLAIN $query"), qr/LSM/, "EXPLAIN without ANALYZE $query");

	my $json = $node->safe_psql('postgres', "$index EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT json) $query");

	is($node->safe_psql('postgres', "SELECT json_array_length(j), j->0->'LSM'->'Lookups' FROM (SELECT \$json\$$json\$json\$::json) AS q(j)"),
		'1|2', "EXPLAIN $query");
}
is($node->safe_psql('postgres', 'SELECT v FROM copied'), 'v80', 'EXPLAIN (ANALYZE) CREATE TABLE AS EXECUTE made the table');

# auto_explain: PostgreSQL 18 counts for each node, and shows row comparisons to those who are loaded behind lsmam
if (lsm_version() >= 18)
{
	$node->safe_psql('postgres', q{
CREATE TABLE two (a int, b int, PRIMARY KEY (a, b)) USING lsm;
INSERT INTO two SELECT i / 10, i % 10 FROM generate_series(1, 1000) i;
SELECT lsm_compact('two');});
	$node->safe_psql('postgres', 'VACUUM ANALYZE two');
	my $from = -s $node->logfile;
	$node->safe_psql('postgres', "$index EXECUTE p(81); DO \$\$ BEGIN PERFORM v FROM t WHERE id = 83; END \$\$");
	$node->safe_psql('postgres', "$index SELECT a, b FROM two WHERE (a, b) > (98, 7)");
	my %plans = map { /^\tQuery Text: (.*)\n((?:\t.*\n)*)/m ? ($1 => $2) : () } split /duration: [\d.]+ ms  plan:\n/, slurp_file($node->logfile, $from);
	like($plans{$_}, qr/^\tIndex Scan using t_pkey on t .*\n(?:\t  .*\n)*\t  LSM: lookups=\d/m, "auto_explain: $_")
		foreach grep { !/two/ } sort keys %plans;
	is(scalar(keys %plans), 3, 'auto_explain: as many plans as statements') or diag(join "\n", %plans);
	my ($row) = grep { /two/ } keys %plans;
	like($plans{ $row // '' } // '', qr/^\tIndex Only Scan using two_pkey on two .*\n\t  Index Cond: \(ROW\(a, b\) > ROW\(98, 7\)\)/m, 'auto_explain: a row comparison');
}

# two partitions scanned by different workers
$node->safe_psql('postgres', q{
CREATE TABLE parts (id int, v text) PARTITION BY LIST (id);
CREATE TABLE part0 (id int, v text) USING lsm;
CREATE TABLE part1 (id int, v text) USING lsm;
INSERT INTO part0 SELECT i, 'v' || i FROM generate_series(1, 2000) i;
INSERT INTO part1 SELECT i, 'v' || i FROM generate_series(1, 2000) i;
CREATE INDEX part0_id ON part0 USING lsm (id);
CREATE INDEX part1_id ON part1 USING lsm (id);
SELECT lsm_compact('part0'), lsm_compact('part1');
ANALYZE part0, part1;});
my $parallel = q{
SET enable_seqscan = off; SET enable_bitmapscan = off; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 2;
} . 'SET ' . lsm_force_parallel() . ' = on;';
my $union = 'SELECT id FROM part0 WHERE id = 5 UNION ALL SELECT id FROM part1 WHERE id = 6';
$node->safe_psql('postgres', 'SELECT pg_stat_lsm_reset()');
my $plan = $node->safe_psql('postgres', "$parallel EXPLAIN (ANALYZE, TIMING off, SUMMARY off, COSTS off) $union");
like($plan, qr/Workers Launched: [12]/, 'parallel workers ran');
like($plan, qr/LSM: lookups=4 digests=4 filter probes=4 negatives=0 true positives=4 /, 'their lookups are the statement\'s');
is($node->safe_psql('postgres', q{SELECT sum(lookups), sum(filter_probes) FROM pg_stat_lsm WHERE relname LIKE 'part%'}),
	'4|4', 'and are counted once');
# the next statement of a leader starts from zero
like($node->safe_psql('postgres', "$parallel $union; $union; EXPLAIN (ANALYZE, TIMING off, SUMMARY off, COSTS off) $union"),
	qr/LSM: lookups=4 /, 'statements before are not counted');

# ---- ANALYZE of a table through which millions of rows have gone: queues, counters ----

# a SET TABLESPACE that is rolled back uses up some ten millions of row numbers
$node->safe_psql('postgres', q{CREATE TABLESPACE elsewhere LOCATION ''});
my $burn = join '', map { 'BEGIN; ALTER TABLE q SET TABLESPACE elsewhere; ROLLBACK;' } 1 .. 3;
$node->safe_psql('postgres', qq{CREATE TABLE q (id int, v text) USING lsm; CREATE INDEX ON q (id); INSERT INTO q VALUES (1, 'old'); $burn
	INSERT INTO q SELECT i, 'v' || i % 10 FROM generate_series(2, 1000) i});
cmp_ok($node->safe_psql('postgres', q{SELECT max((ctid::text::point)[0]) FROM q}), '>', 100_000, 'rows lie far apart');
my $known = q{SELECT (SELECT reltuples FROM pg_class WHERE relname = 'q'), (SELECT n_distinct FROM pg_stats WHERE tablename = 'q' AND attname = 'v'),
	(SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'q'), (SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'q')};
foreach my $statement ('VACUUM ANALYZE q', 'ANALYZE q', 'SET default_statistics_target = 10; ANALYZE q')
{
	# what the session before has counted is added when it ends
	lsm_wait_clients($node);
	$node->safe_psql('postgres', $statement);
	is($node->safe_psql('postgres', $known), '1000|11|1000|0', "$statement finds all rows");
}
like($node->safe_psql('postgres', q{EXPLAIN SELECT * FROM q WHERE v = 'v1'}), qr/rows=(9|10)\d /, 'and plans know');
$node->safe_psql('postgres', 'UPDATE q SET v = v');
lsm_wait_clients($node);
$node->safe_psql('postgres', 'ANALYZE q');
is($node->safe_psql('postgres', $known), '1000|11|1000|0', 'older versions of rows are no rows');
# they stay as long as somebody may see them: a flush would take those away that are dead to all
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM q');
$node->safe_psql('postgres', 'UPDATE q SET id = -id');
lsm_wait_clients($node, 1);
$node->safe_psql('postgres', 'ANALYZE q');
is($node->safe_psql('postgres', $known), '1000|11|1000|1000', 'dead ones, too');
$reader->query_safe('COMMIT');
$reader->quit;
lsm_wait_clients($node);
$node->safe_psql('postgres', 'VACUUM q');
is($node->safe_psql('postgres', $known), '1000|11|1000|0', 'until VACUUM');

# rows in two places, as many
$node->safe_psql('postgres', qq{TRUNCATE q; INSERT INTO q SELECT i, 'v' || i % 10 FROM generate_series(1, 20000) i; $burn
	INSERT INTO q SELECT i, 'v' || i % 10 FROM generate_series(20001, 40000) i; DELETE FROM q WHERE id % 2 = 0; SELECT lsm_flush('q')});
lsm_wait_clients($node);
$node->safe_psql('postgres', 'ANALYZE q');
like($node->safe_psql('postgres', $known), qr/^20000\|5\|20000\|/, 'rows in two places, most dead ones gone with a flush');
lsm_wait_clients($node);
$node->safe_psql('postgres', 'VACUUM ANALYZE q');
is($node->safe_psql('postgres', $known), '20000|5|20000|0', 'and after VACUUM');
is($node->safe_psql('postgres', q{SELECT sum(entries) FROM lsm_levels('q')}), 20000, 'whose sample has seen what is dead');

# ---- what VACUUM says ----

# The lines of VACUUM (VERBOSE) of a table in the twins' schema, by their first word; those of its TOAST table left out
sub vacuum_says
{
	my ($table, $options) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "VACUUM (VERBOSE, PROCESS_TOAST off $options) twins.$table");
	my %said;
	is($rc, 0, "VACUUM of $table");
	foreach my $line (split /\n/, $err)
	{
		$line =~ s/^psql:<stdin>:\d+: //;
		$line =~ s/\btwins\.$table\b/TABLE/g;
		$line =~ s/\b${table}_pkey\b/INDEX/g;
		my ($key) = $line =~ /^(INFO:  finished|INFO:  \w+|[\w ]+?)(?: "|:| vacuuming)/;
		$said{ $key // $line } = $line;
	}
	return %said;
}
sub twin
{
	my ($sql) = @_;
	foreach my $table ('h', 'l')
	{
		(my $own = $sql) =~ s/@/twins.$table/g;
		# rows stay in memory until VACUUM
		$node->safe_psql('postgres', "SET lsm.memtable_size = '8MB'; $own");
	}
}
# whoever counted has said so when he has ended
sub tuples_known
{
	lsm_wait_clients($node);
	return $node->safe_psql('postgres', q{SELECT string_agg(format('%s live, %s dead', n_live_tup, n_dead_tup), '; ') FROM (SELECT DISTINCT n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'twins') s});
}
$node->safe_psql('postgres', q{CREATE SCHEMA twins; CREATE TABLE twins.h (id int PRIMARY KEY, v text) USING heap; CREATE TABLE twins.l (id int PRIMARY KEY, v text) USING lsm});
my $fill = q{TRUNCATE @; INSERT INTO @ SELECT i, 'v' || i FROM generate_series(1, 10000) i;};
my $flushed = q{DO $$ BEGIN IF '@' = 'twins.l' THEN PERFORM lsm_flush('@'); END IF; END $$;};
my $counts;
foreach my $case (
	[ 'rows that its own flush drops', "$fill DELETE FROM @ WHERE id % 2 = 0", '5000 removed, 5000 remain, 0 are dead but not yet removable' ],
	[ 'none the second time', '', '0 removed, 5000 remain, 0 are dead but not yet removable' ],
	[ 'rows in files', "$fill $flushed DELETE FROM @ WHERE id % 2 = 0", '5000 removed, 5000 remain, 0 are dead but not yet removable' ],
	[ 'few rows in files', "$fill $flushed DELETE FROM @ WHERE id % 1000 = 0", '10 removed, 9990 remain, 0 are dead but not yet removable' ],
	[ 'rows that were updated', "$fill UPDATE @ SET id = id + 100000 WHERE id <= 4000", '4000 removed, 10000 remain, 0 are dead but not yet removable' ],
	[ 'rows in files and in memory', "$fill $flushed INSERT INTO @ SELECT i, 'v' FROM generate_series(10001, 20000) i; DELETE FROM @ WHERE id % 4 = 0", '5000 removed, 15000 remain, 0 are dead but not yet removable' ],
	[ 'rows of who was rolled back', "$fill BEGIN; INSERT INTO @ SELECT i, 'v' FROM generate_series(10001, 16000) i; ROLLBACK", '6000 removed, 10000 remain, 0 are dead but not yet removable' ],
	[ 'all rows', "$fill DELETE FROM @", '10000 removed, 0 remain, 0 are dead but not yet removable' ])
{
	my ($what, $sql, $counts) = @$case;
	twin($sql);
	my %heap = vacuum_says('h', '');
	my %lsm = vacuum_says('l', '');
	is($lsm{tuples}, "tuples: $counts", "$what: counted");
	is($lsm{tuples}, $heap{tuples}, '... as by heap');
	is($lsm{'INFO:  vacuuming'}, $heap{'INFO:  vacuuming'}, '... begins as heap\'s');
	foreach my $key ('INFO:  finished', 'pages', 'removable cutoff', 'avg read rate', 'buffer usage', 'WAL usage', 'system usage')
	{
		my $shape = quotemeta $heap{$key};
		$shape =~ s/\d+/\\d+/g;
		like($lsm{$key}, qr/^$shape$/, "... $key in heap's words");
	}
	is(join(' ', grep { $lsm{$_} =~ /could not advance|DETAIL/ } keys %lsm), '', '... and nothing that heap does not say');
	unlike(tuples_known(), qr/;/, '... and is known by the statistics');
}
# indexes are left alone for a few rows of what is in memory, as heap leaves them for those on few pages
foreach my $case ([ 1, '', 0 ], [ 1, ', INDEX_CLEANUP on', 1 ], [ 10, '', 1 ])
{
	my ($few, $options, $scans) = @$case;
	$node->safe_psql('postgres', "TRUNCATE twins.l; INSERT INTO twins.l SELECT i, 'v' FROM generate_series(1, 100) i; DELETE FROM twins.l WHERE id <= $few");
	my %few = vacuum_says('l', $options);
	like($few{'INFO:  finished'}, qr/index scans: $scans$/, "index scans for $few of 100 rows$options");
	is($few{tuples}, "tuples: $few removed, " . (100 - $few) . ' remain, 0 are dead but not yet removable', '... which are counted');
	is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FROM twins.l WHERE id > 0; SELECT count(*) FROM lsm_verify('twins.l') t FULL JOIN lsm_verify('twins.l_pkey') k ON false}), (100 - $few) . "\n0", '... and gone');
}
# ... but not where a compaction has dropped many rows before
$node->safe_psql('postgres', "TRUNCATE twins.l; INSERT INTO twins.l SELECT i, 'v' FROM generate_series(1, 2000) i; SELECT lsm_flush('twins.l'); DELETE FROM twins.l WHERE id <= 1900");
lsm_wait_clients($node);
$node->safe_psql('postgres', q{SELECT lsm_flush('twins.l'), lsm_compact('twins.l')});
is($node->safe_psql('postgres', q{SELECT sum(entries) FROM lsm_levels('twins.l')}), 100, 'a compaction drops dead rows');
$node->safe_psql('postgres', q{UPDATE twins.l SET v = 'w' WHERE id = 2000});
lsm_wait_clients($node);
my %dropped = vacuum_says('l', '');
like($dropped{'INFO:  finished'}, qr/index scans: 1$/, 'their entries are looked for');
is($node->safe_psql('postgres', q{SELECT lsm_flush('twins.l'); SELECT lsm_compact('twins.l_pkey'); SELECT sum(entries) FROM lsm_levels('twins.l_pkey')}), "\n\n100", 'and go');
twin($fill);
twin('INSERT INTO @ VALUES (0, 0)');
my %said = vacuum_says('l', ', FREEZE');
like($said{'new relfrozenxid'} // '', qr/^new relfrozenxid: \d+, which is \d+ XIDs ahead of previous value$/, 'relfrozenxid has advanced');
%said = vacuum_says('l', ', FREEZE');
is($said{'new relfrozenxid'}, undef, 'or not: no word about it');

twin($fill);
my $snapshot = $node->background_psql('postgres', on_error_stop => 1);
$snapshot->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
twin('DELETE FROM @ WHERE id % 2 = 0');
foreach my $table ('h', 'l')
{
	my %says = vacuum_says($table, '');
	is($says{tuples}, 'tuples: 0 removed, 10000 remain, 5000 are dead but not yet removable', "$table beside a snapshot");
}
$snapshot->quit;
is(tuples_known(), '5000 live, 5000 dead', 'which the statistics know');
my @removed = map { my %says = vacuum_says($_, ''); $says{tuples} } 'h', 'l';
is($removed[1], $removed[0], 'later they are removed');

# the log line of autovacuum
twin("$fill DELETE FROM @ WHERE id % 2 = 0");
lsm_wait_clients($node);
my $log_from = -s $node->logfile;
$node->append_conf('postgresql.conf', "autovacuum = on\nautovacuum_naptime = 1s\nlog_autovacuum_min_duration = 0");
$node->reload;
foreach my $table ('h', 'l')
{
	ok($node->wait_for_log(qr/automatic vacuum of table "postgres\.twins\.$table": index scans: 1\n\tpages: 0 removed, \d+ remain, \d+ scanned \(100\.00% of total\)\n\ttuples: 5000 removed, 5000 remain, 0 are dead but not yet removable\n\tremovable cutoff: \d+, which was \d+ XIDs old when operation ended\n/, $log_from), "autovacuum of $table in the log");
}

$node->stop;
done_testing();
