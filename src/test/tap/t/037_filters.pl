# A filter file that is missing or damaged costs time and no data: the right answers at once, one warning that
# names the file, a row of lsm_verify until lsm_compact() has built it again.
# A copied database has its filters on a standby, too.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

lsm_seed();
my $node = lsm_node('filters', conf => "autovacuum = off\nmax_wal_size = 1GB\nmax_wal_senders = 4\nlsm.elastic_memory = 8MB\nlsm.elastic_initial_units = 6");
lsm_start($node);
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; ';
my $ask = 'SELECT count(*) FROM generate_series(1, 8000) g, LATERAL (SELECT 1 FROM d WHERE id = g OFFSET 0) s';
my $groups = 'SELECT count(*) FROM d WHERE id = ANY (ARRAY(SELECT generate_series(1, 8000)))';
my $problems = q{SELECT object, problem FROM lsm_verify('d_id')};
my $warning = qr/WARNING:  [^\n]*filter file "pg_lsm[^\n]*\.flt"/;

sub filters { my @f = sort { -s $b <=> -s $a } grep { /\.flt$/ } glob("$_[0]/*"); return @f; }

sub make
{
	my ($scheme) = @_;
	my %before = map { $_ => 1 } glob(lsm_dir($node) . '/*');
	$node->safe_psql('postgres', qq{
DROP TABLE IF EXISTS d;
CREATE TABLE d (id int) USING heap;
INSERT INTO d SELECT g FROM generate_series(2, 8000, 2) g;
CREATE INDEX d_id ON d USING lsm (id) WITH (filter_scheme = $scheme);
INSERT INTO d SELECT g FROM generate_series(8001, 12000) g;
SELECT lsm_flush('d_id');});
	my ($dir) = grep { !$before{$_} } glob(lsm_dir($node) . '/*');
	return $dir;
}

my %damage = (
	'missing' => sub { unlink $_[0] },
	'empty' => sub { truncate($_[0], 0) },
	'cut' => sub { truncate($_[0], int((-s $_[0]) / 2)) },
	'longer' => sub { append_to_file($_[0], 'x' x 5000) },
	'header' => sub { lsm_flip_bits($_[0], 20) },
	'bit flipped' => sub { lsm_flip_bits($_[0], 64 + int(rand((-s $_[0]) - 64))) },
	'a directory' => sub { unlink $_[0]; mkdir $_[0] },
	'of another file' => sub { my ($other) = grep { $_ ne $_[0] } filters($_[0] =~ s{/[^/]*$}{}r); unlink $_[0]; system('cp', $other, $_[0]) == 0 or die });
my @hows = sort keys %damage;

foreach my $scheme (qw(bloom blocked elastic quotient cascade ribbon))
{
	my $dir = make($scheme);
	is($node->safe_psql('postgres', $by_index . $ask), 4000, "$scheme: intact");
	my @some = lsm_long() ? @hows : map { splice(@hows, int(rand(@hows)), 1) } 1 .. 3;
	@hows = sort keys %damage if @hows < 3;
	foreach my $how (@some)
	{
		my ($flt) = filters($dir);
		my $offset = -s $node->logfile;
		$damage{$how}->($flt);
		like($node->safe_psql('postgres', $problems), qr/\.flt\|/, "$scheme, $how: lsm_verify reports it");

		# an old session and a new one; the second statement is asked without a warning
		my ($rc, $out, $err) = $node->psql('postgres', "$by_index $ask; $groups; $ask");
		is($rc, 0, "$scheme, $how: no query fails") or diag($err);
		is($out, "4000\n4000\n4000", "$scheme, $how: right at once");
		my $n = () = $err =~ /$warning/g;
		# units that are off and the rest of a page are read by nobody but lsm_verify
		is($n, $how eq 'bit flipped' && $scheme =~ /elastic|cascade/ ? $n : 1, "$scheme, $how: one warning") or diag($err);
		like($node->safe_psql('postgres', $problems), qr/\.flt\|/, "$scheme, $how: lsm_verify reports it until it is built again");

		my $session = $node->background_psql('postgres', on_error_die => 1);
		$session->query($by_index . 'SET client_min_messages = error');
		is($session->query_safe($ask), 4000, "$scheme, $how: without its filter");
		is($node->safe_psql('postgres', q{SET client_min_messages = error; SELECT lsm_compact('d_id')}), '', "$scheme, $how: lsm_compact");

		# the session that had the file open asks the new filter
		my $negatives = q{SELECT filter_negatives FROM pg_stat_lsm WHERE relname = 'd_id'};
		my $before = $node->safe_psql('postgres', $negatives);
		is($session->query_safe($ask), 4000, "$scheme, $how: the same session, with the new filter");
		$session->query_safe($ask) if $scheme eq 'elastic';
		$session->quit;
		cmp_ok($node->safe_psql('postgres', $negatives), '>', $before + 3000, "$scheme, $how: it is asked");
		is($node->safe_psql('postgres', $problems), '', "$scheme, $how: lsm_verify is content");
		($rc, $out, $err) = $node->psql('postgres', $by_index . $ask);
		is("$out$err", '4000', "$scheme, $how: a new session has nothing to say");
		is(join(' ', glob("$dir/*.tmp")), '', "$scheme, $how: nothing is left over");
	}

	# compactions of files with damaged filters: what they write is right
	$node->safe_psql('postgres', 'INSERT INTO d SELECT g FROM generate_series(1, 7999, 2) g');
	$damage{ ('cut', 'bit flipped', 'of another file')[ int(rand(3)) ] }->($_) foreach (filters($dir))[0];
	$node->safe_psql('postgres', q{SET client_min_messages = error; SELECT lsm_compact('d_id')});
	is($node->safe_psql('postgres', $by_index . $ask), 8000, "$scheme: after a compaction");
	is($node->safe_psql('postgres', $problems), '', "$scheme: and all is well");
}

# a filter that cannot be written: on with the sorted file, again later
{
	my $dir = make('blocked');
	my ($flt) = filters($dir);
	unlink $flt;
	mkdir "$flt.tmp";
	my $offset = -s $node->logfile;
	is($node->safe_psql('postgres', "SET client_min_messages = error; $by_index $ask"), 4000, 'no room: right');
	my ($rc, $out, $err) = $node->psql('postgres', q{SELECT lsm_compact('d_id')});
	is($rc, 0, 'no room: lsm_compact goes on');
	like($err, qr/WARNING:  could not create filter file "pg_lsm[^"]*\.flt\.tmp"/, 'no room: a warning');
	unlike(substr(slurp_file($node->logfile), $offset), qr/ERROR|FATAL|PANIC/, 'no room: nothing worse');
	rmdir "$flt.tmp";
	$node->safe_psql('postgres', q{SET client_min_messages = error; SELECT lsm_compact('d_id')});
	is($node->safe_psql('postgres', $problems), '', 'room again: mended');
}

# crashes while it is built, and others at the same time
foreach my $point ('repair_written', 'repair_renamed', 'compact_before_edit', 'compact_after_edit', '')
{
	my $dir = make('quotient');
	my ($flt) = filters($dir);
	$node->stop;
	unlink $flt;
	lsm_set($node, 'lsm.crash_point' => $point);
	$node->start;
	my @pids = lsm_pids($node);
	my @sessions = map { lsm_spawn_psql($node, lsm_script("ask$_", "$by_index $ask;\n$groups;\n" . ($_ == 4 ? "SELECT lsm_compact('d_id') \\g /dev/null\n" : '') . "$ask;\n"), "$ENV{TESTDIR}/ask$_.out") } 1 .. 4;
	waitpid($_, 0) foreach @sessions;
	my @outs = map { slurp_file("$ENV{TESTDIR}/ask$_.out") } 1 .. 4;
	is(scalar(grep { $_ !~ /\A(4000\n)*(SET\n)*\z/ } @outs), 0, "crash at '$point': no wrong answer") or diag(@outs);
	if ($point ne '')
	{
		lsm_wait_gone($node, @pids);
		lsm_set($node, 'lsm.crash_point' => '');
		lsm_restart_after_crash($node, @pids);
		is($node->safe_psql('postgres', "SET client_min_messages = error; $by_index $ask"), 4000, "crash at '$point': right after recovery");
	}
	$node->safe_psql('postgres', q{SET client_min_messages = error; SELECT lsm_compact('d_id')});
	is($node->safe_psql('postgres', $problems), '', "crash at '$point': mended");
	is(join(' ', glob("$dir/*.tmp")), '', "crash at '$point': nothing is left over");
}

# temporary tables
{
	my ($rc, $out, $err) = $node->psql('postgres', "CREATE TEMP TABLE d (id int) USING heap; INSERT INTO d SELECT g FROM generate_series(2, 8000, 2) g; CREATE INDEX d_id ON d USING lsm (id);\n"
		  . '\! for f in ' . lsm_dir($node) . "/*/owner; do grep -qE ' [0-9]+\$' \$f && rm -f \${f%owner}*.flt; done\n$by_index $ask; $groups; INSERT INTO d VALUES (1); SELECT lsm_compact('d_id'); $ask; SELECT count(*) FROM lsm_verify('d_id')");
	is($out, "4000\n4000\n\n4001\n0", 'temporary: right') or diag($err);
	unlike($err, qr/ERROR/, 'temporary: no error');
}

# databases that were copied, as a standby and its sessions find them after promotion
$node->safe_psql('postgres', 'DROP TABLE IF EXISTS d');
$node->restart;
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', 'CREATE EXTENSION lsmam; CREATE TABLE plain (a int) USING heap; '
	  . join(' ', map { "CREATE TABLE d_$_ (id int) USING heap; INSERT INTO d_$_ SELECT g FROM generate_series(2, 8000, 2) g; CREATE INDEX d_${_}_id ON d_$_ USING lsm (id) WITH (filter_scheme = $_); CREATE TABLE t_$_ (id int PRIMARY KEY, v text) USING lsm; SET lsm.filter_scheme = $_; INSERT INTO t_$_ SELECT g, md5(g::text) FROM generate_series(1, 3000) g; SELECT lsm_flush('t_$_');" } qw(none bloom blocked elastic quotient cascade ribbon)));
$node->safe_psql('postgres', "CREATE DATABASE copy_$_ TEMPLATE source STRATEGY $_") foreach qw(wal_log file_copy);
# what workers are doing goes on: until both have the same
my $end = time + $PostgreSQL::Test::Utils::timeout_default;
my (@primary_filters, @standby_filters);
sub places_of { return join ' ', map { s{.*/pg_lsm/}{}r } @_; }
while (1)
{
	$node->wait_for_catchup($standby);
	@primary_filters = grep { /flt$/ } lsm_files_of($node);
	@standby_filters = grep { /flt$/ } lsm_files_of($standby);
	last if places_of(@primary_filters) eq places_of(@standby_filters) || time > $end;
	sleep 1;
}
is(places_of(@standby_filters), places_of(@primary_filters), 'the standby has the filter files that the primary has');
$standby->promote;
foreach my $server ($standby, $node)
{
	foreach my $db (qw(source copy_wal_log copy_file_copy))
	{
		foreach my $scheme (qw(none bloom blocked elastic quotient cascade ribbon))
		{
			my ($rc, $out, $err) = $server->psql($db, "$by_index SELECT count(*) FROM generate_series(1, 8000) g, LATERAL (SELECT 1 FROM d_$scheme WHERE id = g OFFSET 0) s; SELECT count(*), count(v) FROM t_$scheme; SELECT v = md5('77') FROM t_$scheme WHERE id = 77; SELECT * FROM lsm_verify('d_${scheme}_id'); SELECT * FROM lsm_verify('t_$scheme')");
			is("$out$err", "4000\n3000|3000\nt", $server->name . ", $db, $scheme");
		}
	}
}

# a template whose filter files are gone, those of scheme none among them, can be copied; the copy can be mended
cmp_ok(unlink(@primary_filters), '>', 30, 'the template loses its filter files');
$node->restart;
my ($rc, $out, $err) = $node->psql('postgres', 'CREATE DATABASE without TEMPLATE source');
is($rc, 0, 'a template without some filter files is copied') or diag($err);
my $trees = q{FROM pg_class c WHERE c.relname ~ '^[dt]_' AND c.relam IN (SELECT oid FROM pg_am WHERE amname ~ 'lsm')};
cmp_ok($node->safe_psql('without', "SET client_min_messages = error; SELECT count(*) FROM (SELECT c.oid $trees) c, lsm_verify(c.oid::regclass)"), '>', 10, 'and so is the copy');
is($node->safe_psql('without', "SET client_min_messages = error; SELECT lsm_compact(c.oid) $trees \\g /dev/null\nSELECT count(*) FROM (SELECT c.oid $trees) c, lsm_verify(c.oid::regclass)"), 0, 'lsm_compact() builds them again');
$standby->stop;
$node->stop;
done_testing();
