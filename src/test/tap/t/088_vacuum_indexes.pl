# VACUUM of an lsm table with indexes of every kind: none keeps entries of dead rows, beside writers and readers too;
# PARALLEL is taken and changes nothing; what is left when it is cancelled, terminated or killed, another VACUUM does.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('vacuum_indexes', conf => q{
lsm.memtable_size = 1MB
autovacuum = off});
lsm_start($node);

sub query { return $node->safe_psql('postgres', $_[0]); }

my @indexes = ([ 'id', 'lsm' ], [ 'u', 'lsm' ], [ 'v', 'btree' ], [ 'g', 'lsm' ], [ 'a', 'gin' ], [ 'h', 'hash' ]);
sub fill
{
	my ($rows) = @_;
	query(q{DROP TABLE IF EXISTS t; CREATE TABLE t (id int, u text, v text, g int, a int[], h int) USING lsm;}
		  . join('', map { "CREATE INDEX t_$_->[0] ON t USING $_->[1] ($_->[0]);" } @indexes)
		  . qq{INSERT INTO t SELECT i, md5(i::text), md5((i / 2)::text), i % 100, ARRAY[i % 50], i FROM generate_series(1, $rows) i;
		SELECT lsm_compact('t')});
}

# Each index alone, by what it finds
sub sound
{
	my ($count, $what) = @_;
	is(query(q{SELECT count(*) FROM lsm_verify('t')}), 0, "$what: verified");
	is(query(q{SET enable_seqscan = off; SELECT (SELECT count(*) FROM t WHERE id > 0), (SELECT count(*) FROM t WHERE u > ''),
		(SELECT count(*) FROM t WHERE v > ''), (SELECT count(*) FROM t WHERE g >= 0),
		(SELECT count(*) FROM generate_series(0, 49) i, t WHERE a @> ARRAY[i]),
		(SELECT count(*) FROM generate_series(1, 30) i, t WHERE h = i) - (SELECT count(*) FROM t WHERE id BETWEEN 1 AND 30)}),
		join('|', ($count) x 5, 0), "$what: all rows, by each index");
}

# entries in the files of the lsm indexes
my $entries = q{SELECT string_agg(n::text, ' ') FROM (SELECT (SELECT sum(entries) FROM lsm_levels(i::regclass)) n
	FROM unnest(ARRAY['t_id', 't_u', 't_g']) WITH ORDINALITY AS x (i, o) ORDER BY o) y};

# ---- what is left ----

foreach my $statement ('VACUUM t', 'VACUUM (PARALLEL 2, FREEZE) t', 'VACUUM (PARALLEL 0) t')
{
	fill(30000);
	query("DELETE FROM t WHERE id % 2 = 0");
	query($statement);
	sound(15000, $statement);
	is(query("SELECT lsm_flush('t'); $entries"), "\n15000 15000 15000", "$statement: entries of dead rows are gone from the files");
}

# what VERBOSE says, and errors
fill(30000);
my ($rc, $out, $err) = $node->psql('postgres', 'DELETE FROM t WHERE id % 2 = 0; VACUUM (VERBOSE, PARALLEL 2) t');
unlike($err, qr/parallel vacuum worker/, 'VERBOSE tells of no workers');
like($err, qr/WAL usage: [1-9]\d* records, .* [1-9]\d{3,} bytes/, 'and what WAL was written');
fill(30000);
(undef, undef, $err) = $node->psql('postgres', q{DELETE FROM t WHERE id % 2 = 0; SET vacuum_cost_delay = '100ms'; SET vacuum_cost_limit = 1; SET statement_timeout = '1s'; VACUUM t});
like($err, qr/canceling statement.*CONTEXT:  while vacuuming (index "t_\w" of )?relation "public.t"/s, 'an error says where');

# few dead entries, and none
query('DELETE FROM t WHERE id % 100 = 1');
query('VACUUM t');
sound(14700, 'few dead rows');
query('VACUUM (INDEX_CLEANUP ON) t');
sound(14700, 'no dead rows');

# ---- a snapshot, writers and readers beside it ----

query('CREATE TABLE h (id int, u text, v text, g int, a int[], h int) USING heap; INSERT INTO h SELECT * FROM t');
my $reader = $node->background_psql('postgres', on_error_stop => 1);
my $sum = q{SELECT count(*), sum(id), sum(g) FROM t WHERE u > ''};
my $before = $reader->query_safe("SET enable_seqscan = off; BEGIN ISOLATION LEVEL REPEATABLE READ; $sum");
my $writes = lsm_start_session($node, 'postgres', 'writes', join('', map {
	my $n = $_;
	map { "UPDATE $_ SET v = md5(v), g = (g + $n) % 100 WHERE id % 37 = " . $n % 37 . ";"
		. "DELETE FROM $_ WHERE id % 91 = " . $n % 91 . ";"
		. "INSERT INTO $_ SELECT i, md5(i::text), md5((i / 2)::text), i % 100, ARRAY[i % 50], i FROM generate_series(" . (100000 + $n * 200) . "," . (100199 + $n * 200) . ") i;" } ('t', 'h') } 1 .. 60));
my $rounds = 0;
while (!lsm_ended($writes, 0.01)) { query('VACUUM t'); $rounds++; }
is(lsm_output('writes'), '', "writers went on beside $rounds VACUUMs");
cmp_ok($rounds, '>', 3, 'of which there were some');
is($reader->query_safe($sum), $before, 'a snapshot sees what it saw');
$reader->query_safe('COMMIT');
$reader->quit;
query('VACUUM t');
my $same = query('SELECT count(*) FROM h');
sound($same, 'beside writers');
is(query('SELECT count(*) FROM (SELECT * FROM h EXCEPT ALL SELECT * FROM t) x'), 0, 'as the heap');
is(query(q{SET enable_seqscan = off; SELECT count(*) FROM h JOIN LATERAL (SELECT * FROM t WHERE t.u = h.u AND t.id = h.id) x ON x.g = h.g AND x.v = h.v}), $same,
	'row by row');

# ---- ends ----

sub amid
{
	my ($what, $do) = @_;
	fill(30000);
	query('DELETE FROM t WHERE id % 2 = 0');
	my $pid = lsm_start_session($node, 'postgres', 'vacuum', q{SET vacuum_cost_delay = '100ms'; SET vacuum_cost_limit = 20; VACUUM t;});
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity a JOIN pg_stat_progress_vacuum USING (pid)
		WHERE phase = 'vacuuming indexes' AND wait_event = 'VacuumDelay'}), "$what: VACUUM sleeps amid its indexes");
	$do->(query('SELECT pid FROM pg_stat_progress_vacuum'));
	ok(lsm_ended($pid), "$what: it ends");
	return;
}
amid('cancelled', sub { query("SELECT pg_cancel_backend($_[0])") });
like(lsm_output('vacuum'), qr/canceling statement due to user request/, 'and says so');
sound(15000, 'after it');
query('VACUUM t');
sound(15000, 'and another VACUUM');

amid('terminated', sub { query("SELECT pg_terminate_backend($_[0])") });
like(lsm_output('vacuum'), qr/terminating connection due to administrator command/, 'and says so');
query('VACUUM t');
sound(15000, 'and another VACUUM');

amid('killed', sub { kill 'KILL', $_[0] });
lsm_wait_up($node);
query('VACUUM t');
sound(15000, 'after a crash');

$node->stop;
done_testing();
