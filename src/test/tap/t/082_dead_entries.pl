# A key that many rows have had: who looks for it meets the entries of dead rows once or twice, not for ever, whether
# VACUUM comes or not, and whatever the log and the memtable are like when it happens.  lsm_verify ends, too.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $rows = lsm_long() ? 200_000 : 30_000;
my $node = lsm_node('dead', conf => "autovacuum = off\nfsync = off\nlsm.memtable_size = 8MB");
lsm_start($node);

sub sql { return $node->safe_psql('postgres', $_[0]); }
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;';

# what one lookup of the key asks the tree and reads
sub work
{
	my ($table) = @_;
	my $plan = sql("$by_index EXPLAIN (ANALYZE, COSTS off, TIMING off) SELECT id FROM $table WHERE n = 7 LIMIT 1");
	my ($lookups, $blocks) = $plan =~ /lookups=(\d+).* blocks read=(\d+)/ or die $plan;
	return $lookups + $blocks;
}

# At last a lookup needs less than that.
sub gets_below
{
	my ($what, $table, $limit) = @_;
	my $now;
	for (1 .. 1200)
	{
		$now = work($table);
		last if $now < $limit;
		usleep(100_000);
	}
	cmp_ok($now, '<', $limit, $what);
	return;
}

# Readers alone bring it down to a part of what the first one needed.
sub comes_down
{
	my ($what, $table, $first, $limit) = @_;
	cmp_ok($first, '>', $limit, "$what: there is something to be won");
	gets_below("$what: later lookups need less (first $first)", $table, $limit);
	return;
}

sub same_rows
{
	my ($what, $table, $expected) = @_;
	is(sql("$by_index SELECT count(*), sum(id) FROM $table WHERE n = 7"), $expected, "$what: the rows are all there");
	is(sql("SELECT count(*), sum(id) FROM $table"), $expected, "$what: in the table, too");
	is(sql("SELECT * FROM lsm_verify('$table')"), '', "$what: and sound");
	return;
}

# ---- built: next to nothing is in the log, and deletions of rows write nothing there ----

my $deleted = 'WHERE id <= ' . ($rows - 300);
sql("CREATE TABLE built (id int PRIMARY KEY, n int) USING lsm; INSERT INTO built SELECT g, 7 FROM generate_series(1, $rows) g;
	CREATE INDEX built_n ON built USING lsm (n); DELETE FROM built $deleted");
my $kept = sql('SELECT count(*), sum(id) FROM built');
my $pages = sql("SELECT pg_relation_size('built_n') / 8192");
cmp_ok($pages, '<', 10, 'a built index has next to no log pages');
comes_down('built', 'built', work('built'), 2000);
same_rows('built', 'built', $kept);
cmp_ok(sql("SELECT pg_relation_size('built_n') / 8192"), '<=', $pages + 300, 'and is not given many more than it needs');

# DELETEs that a flush brings to a file meet what they delete
my $entries = sql("SELECT sum(entries) FROM lsm_files('built_n')");
sql("SELECT lsm_flush('built_n')");
ok($node->poll_query_until('postgres', "SELECT coalesce(sum(entries), 0) < $rows / 4 FROM lsm_files('built_n')"),
	"the entries of dead rows leave the files ($entries before)");
# those that are left then may be in what a worker is still compacting
gets_below('and then a lookup needs next to nothing', 'built', 100);
same_rows('compacted', 'built', $kept);

# ---- updated: the log's pages are all in use, by entries of new versions ----

sql("CREATE TABLE updated (id int PRIMARY KEY, n int) USING lsm; CREATE INDEX updated_n ON updated USING lsm (n);
	INSERT INTO updated SELECT g, 7 FROM generate_series(1, $rows) g; SELECT lsm_flush('updated_n');
	UPDATE updated SET id = id + 1000000");
$kept = sql('SELECT count(*), sum(id) FROM updated');
comes_down('updated', 'updated', work('updated'), $rows / 4);
same_rows('updated', 'updated', $kept);

# ---- the memtable is more than half full ----

sql("CREATE TABLE half (id int PRIMARY KEY, n int, v text) USING lsm; CREATE INDEX half_n ON half USING lsm (n) INCLUDE (v);
	INSERT INTO half SELECT g, 7, 'x' FROM generate_series(1, $rows) g; SELECT lsm_flush('half_n');
	DELETE FROM half $deleted");
my $i = 0;
while (sql("SELECT memtable_bytes FROM pg_stat_lsm WHERE relid = 'half_n'::regclass") < 5 * 1024 * 1024 && $i++ < 100)
{
	sql("INSERT INTO half SELECT 1000000 + $i * 1000 + g, 8, repeat(md5(g::text), 12) FROM generate_series(1, 500) g");
}
my $flushes = sql("SELECT flushes FROM pg_stat_lsm WHERE relid = 'half_n'::regclass");
$kept = sql('SELECT count(*), sum(id) FROM half WHERE n = 7');
comes_down('half full', 'half', work('half'), 2000);
is(sql("$by_index SELECT count(*), sum(id) FROM half WHERE n = 7"), $kept, 'half full: the rows are all there');
is(sql("SELECT * FROM lsm_verify('half')"), '', 'half full: and sound');
cmp_ok(sql("SELECT flushes FROM pg_stat_lsm WHERE relid = 'half_n'::regclass"), '>', $flushes, 'half full: it was flushed for that');

# ---- somebody still sees the dead rows: nothing of it happens ----

sql("CREATE TABLE seen (id int PRIMARY KEY, n int) USING lsm; CREATE INDEX seen_n ON seen USING lsm (n);
	INSERT INTO seen SELECT g, 7 FROM generate_series(1, $rows) g; SELECT lsm_flush('seen_n')");
my $all = sql('SELECT count(*), sum(id) FROM seen');
my $session = $node->background_psql('postgres', on_error_die => 1);
$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($session->query_safe('SELECT count(*), sum(id) FROM seen'), $all, 'a snapshot is taken');
sql("DELETE FROM seen $deleted");
$kept = sql('SELECT count(*), sum(id) FROM seen');
same_rows('seen', 'seen', $kept) for 1 .. 2;
$session->query_safe($_) foreach split /;/, $by_index =~ s/\s+$//r;
is($session->query_safe('SELECT count(*), sum(id) FROM seen WHERE n = 7'), $all, 'the old snapshot sees all rows by the index');
$session->query_safe('COMMIT');
$session->quit;
comes_down('seen', 'seen', work('seen'), 2000);
same_rows('seen no more', 'seen', $kept);

# ---- what was given or deleted is in order after a crash ----

sql("CREATE TABLE crashed (id int PRIMARY KEY, n int) USING lsm; INSERT INTO crashed SELECT g, 7 FROM generate_series(1, $rows) g;
	CREATE INDEX crashed_n ON crashed USING lsm (n); CHECKPOINT; DELETE FROM crashed $deleted");
$kept = sql('SELECT count(*), sum(id) FROM crashed');
work('crashed');
usleep(300_000);
work('crashed');
$node->stop('immediate');
$node->start;
same_rows('after a crash', 'crashed', $kept);
for (1 .. 1200) { last if work('crashed') < 2000; usleep(100_000); }
cmp_ok(work('crashed'), '<', 2000, 'after a crash: lookups need little in the end');
sql('VACUUM crashed; VACUUM built');
same_rows('after VACUUM', $_, sql("SELECT count(*), sum(id) FROM $_")) foreach 'crashed', 'built';
$node->stop;
done_testing();
