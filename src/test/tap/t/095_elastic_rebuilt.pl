# Elastic filters that are built again, and files that go, while their units are being loaded.  A file that goes is not taken for
# a damaged one.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = lsm_node('rebuilt', conf => q{
lsm.crash_point = '?'
lsm.elastic_memory = 2MB
lsm.elastic_unit_size = 4096
lsm.elastic_initial_units = 1
lsm.elastic_lifetime = 500
lsm.elastic_ratio = 0
autovacuum = off
fsync = off});
lsm_start($node);
sub query { return $node->safe_psql('postgres', $_[0]); }

# Ids that are there are even; each is looked up by the index.
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off;';
sub ask
{
	my ($table, $odd) = @_;
	return "SELECT count(*) FROM generate_series(1, 1500) i CROSS JOIN LATERAL (SELECT * FROM $table WHERE id = i * 2 + $odd OFFSET 0) x";
}

sub settled
{
	$node->poll_query_until('postgres', 'SELECT units_on = units_wanted FROM lsm_elastic_stats()') or die 'units are not loaded';
	return;
}

# The filter file, when those of dropped tables are gone
sub only_filter
{
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	while (time < $end)
	{
		my @files = lsm_files_of($node, qr/\.flt$/);
		return $files[0] if @files == 1;
		usleep(50_000);
	}
	die 'there is not one filter file';
}

# A byte of a unit of the file, whose only segment has units of so many bytes
sub flip
{
	my ($file, $units, $unit_bytes, $unit) = @_;
	lsm_flip_bits($file, (-s $file) - ($units - $unit) * $unit_bytes + 5);
	return;
}

# So that all units are wanted, until the damaged one is noticed
sub ask_until_noticed
{
	my ($session, $table) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	while (time < $end)
	{
		return 1 if slurp_file($node->logfile) =~ /Unit \d+ of segment 0 cannot be read/;
		$session->query(ask($table, 1));
		settled();
	}
	return 0;
}

sub build_again
{
	my ($table) = @_;
	my $from = -s $node->logfile;
	query("SET client_min_messages = error; SELECT lsm_compact('${table}_id')");
	return substr(slurp_file($node->logfile), $from) =~ /built the filter of sorted file/;
}

# ---- built again while a session has the former one ----

query(q{CREATE TABLE r (id int) USING heap; INSERT INTO r SELECT i * 2 FROM generate_series(1, 1500) i;
	CREATE INDEX r_id ON r USING lsm (id) WITH (filter_scheme = elastic, bits_per_key = 16, elastic_units = 4)});
my $flt = only_filter();
my ($units, $unit_bytes, $segments) = unpack('VVV', substr(slurp_file($flt), 64, 12));
is("$units|$segments", '4|1', 'one segment of four units');

my $session = $node->background_psql('postgres');
$session->set_query_timer_restart();
$session->query_safe($by_index);
is($session->query_safe(ask('r', 0)), '1500', 'all are found');

# the third unit, which is not on yet: the third one is the first that is not loaded
flip($flt, $units, $unit_bytes, 2);
is($session->query_safe(ask('r', 1)), '0', 'no other');
ok(ask_until_noticed($session, 'r'), 'the damaged unit is noticed');
ok(build_again('r'), 'the filter is built again');
foreach my $asks (1 .. 10)
{
	$session->query_safe(ask('r', 1));
	settled();
}
is($session->query_safe(ask('r', 0)), '1500', 'the session finds all');
is(query($by_index . ask('r', 0)), '1500', 'so does another one');
query($by_index . ask('r', 1)) foreach 1 .. 10;
settled();
is($session->query_safe(ask('r', 0)), '1500', 'the session still does');

is(query("SELECT count(*) FROM lsm_verify('r')"), '0', 'lsm_verify');
query('DROP TABLE r');

# And of the unit that a session loads from its own mapping: it does not go on with that.
query(q{CREATE TABLE s (id int) USING heap; INSERT INTO s SELECT i * 2 FROM generate_series(1, 1500) i;
	CREATE INDEX s_id ON s USING lsm (id) WITH (filter_scheme = elastic, bits_per_key = 16, elastic_units = 4)});
$flt = only_filter();
$session->quit;
$node->stop;
flip($flt, $units, $unit_bytes, 0);
$node->start;
$session = $node->background_psql('postgres');
$session->set_query_timer_restart();
$session->query_safe($by_index);
# (not query_safe: there is a warning)
is($session->query(ask('s', 0)), '1500', 'all are found without the first unit');
ok(build_again('s'), 'the filter is built again');
$session->query(ask('s', 1)) foreach 1 .. 10;
settled();
is(query('SELECT units_on FROM lsm_elastic_stats()'), '4', 'the session has all units on');
is($session->query(ask('s', 0)), '1500', 'and finds all');
$session->quit;
query('DROP TABLE s');

# ---- a file goes after its units have been chosen for loading ----

query(q{CREATE TABLE p (id int) USING heap; CREATE INDEX p_id ON p USING lsm (id) WITH (filter_scheme = elastic, bits_per_key = 16, elastic_units = 4)});
foreach my $part (0, 1)
{
	query("INSERT INTO p SELECT i * 2 FROM generate_series(1, 1500) i WHERE i % 2 = $part; SELECT lsm_flush('p_id')");
}
is(query(q{SELECT sum(files) FROM lsm_levels('p_id')}), '2', 'two files');
my $log = -s $node->logfile;
lsm_hold($node, 'elastic_units_taken', 'worker', 0);
is(query($by_index . ask('p', 0)), '1500', 'all are found');
ok(lsm_wait_held($node), 'a worker is about to load units');
lsm_hold($node, 'unlink_before', 'backend', 0, second => 1);
my $compact = lsm_start_session($node, 'postgres', 'compact', q{SELECT lsm_compact('p_id')});
ok(lsm_wait_held($node, undef, second => 1), 'the file is about to be removed');
lsm_release($node);
ok($node->poll_query_until('postgres', q{SELECT bool_and(wait_event_type IS NOT DISTINCT FROM 'Extension') FROM pg_stat_activity WHERE backend_type LIKE 'lsm % worker'}), 'the worker is done with it');
lsm_release($node, second => 1);
ok(lsm_ended($compact), 'the compaction ends');
is(lsm_output('compact') =~ s/^\n//mgr, '', 'without an error');
is(query($by_index . ask('p', 0)), '1500', 'all are there');
settled();
unlike(substr(slurp_file($node->logfile), $log), qr/corrupt|cannot be read/, 'no file is said to be corrupt');

$node->stop;
done_testing();
