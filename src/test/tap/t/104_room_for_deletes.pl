# DELETE entries of scans find no room in the log's pages, while the memtable is between a quarter and half full and too
# little is refused for a flush to be worth while: a worker adds a few pages, and later scans meet none of the dead rows.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $dead = 1200;
my $node = lsm_node('room', conf => "autovacuum = off\nfsync = off\nlsm.memtable_size = 2MB\ncheckpoint_timeout = 1h\nmax_wal_size = 1GB\n");
lsm_start($node);

sub sql { return $node->safe_psql('postgres', $_[0]); }
sub stat_of { return sql("SELECT $_[0] FROM pg_stat_lsm WHERE relname = 'room_id'"); }
sub pages { return sql("SELECT pg_relation_size('room_id') / current_setting('block_size')::int"); }

# How many entries the scan has returned, of rows that are all dead.
sub entries_read
{
	my $count = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'room_id'";
	my $before = sql($count);
	is(sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
		SELECT count(*) FROM room WHERE id = 1; SELECT pg_stat_force_next_flush()'), "0\n", 'no row is seen');
	return sql($count) - $before;
}

# dead rows, whose entries are in a file
sql("CREATE TABLE room (id int, v int) USING lsm; CREATE INDEX room_id ON room USING lsm (id);
	INSERT INTO room SELECT 1, i FROM generate_series(1, $dead) i");
sql("SELECT lsm_flush('room')");
sql('DELETE FROM room');

# the pages that the flush has freed are used again, and more: none is free
my $small = 700_000;
my $n = 0;
sql('INSERT INTO room SELECT ' . (10 + $n++) . ', i FROM generate_series(1, 500) i') while stat_of('memtable_bytes') < $small;
cmp_ok(stat_of('memtable_bytes'), '<', 1_000_000, 'the memtable is not half full');
my $flushes = stat_of('flushes');
my $pages = pages();

my $read = entries_read();
cmp_ok($read, '>=', $dead, 'the first scan meets the dead rows');
for (1 .. 30)
{
	usleep(1_500_000);
	$read = entries_read();
	last if $read == 0;
}
is($read, 0, 'later ones meet none of them');
is(stat_of('flushes'), $flushes, 'nothing was flushed for that');
cmp_ok(pages() - $pages, '<=', 2 * 16, 'and the fork has grown by a few pages');
is(sql("SELECT * FROM lsm_verify('room')"), '', 'table and index are sound');
done_testing();
