# pg_rewind knows what WAL's block references name and how long files are, and it writes into files that are there.  So a
# block that leaves a fork is named, a new fork begins empty whatever lay there, and no two trees share a file.  Each step
# of that by itself; then rewinds to and fro under load, with copied databases, VACUUM, TRUNCATE and moves, beside heap twins.
#   LSM_LONG=1         more rewinds
#   LSM_PARTS="..."    of these parts: steps load links full
#   LSM_SEED=N         repeats the choices
use strict;
use warnings;
use File::Copy;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my %parts = map { $_ => 1 } split ' ', $ENV{LSM_PARTS} // 'steps load links full';
lsm_seed();
my $dir = PostgreSQL::Test::Utils::tempdir();

sub sql { my ($node, $sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql); }

# The directory of the keyspace that a relation's fork names
sub keyspace
{
	my ($node, $db, $relation) = @_;
	my $path = sql($node, "CHECKPOINT; SELECT pg_relation_filepath('$relation')", $db);
	open my $fh, '<:raw', $node->data_dir . "/$path" or die "$path: $!";
	read($fh, my $head, 40) == 40 or die "$path: short";
	return sprintf('%016x', unpack('x32 Q', $head));
}

sub shared_files { return grep { (stat $_)[3] > 1 } lsm_files_of($_[0]); }

sub kill_server
{
	my ($node) = @_;
	my @pids = lsm_pids($node);
	kill('KILL', @pids);
	lsm_clear_crashed($node, @pids);
	return;
}

# ---- twins ----

sub create_twins
{
	my ($node, $db, $name, $bare) = @_;
	foreach ([ 'heap', 'btree' ], [ 'lsm', 'lsm' ])
	{
		my ($am, $index) = @$_;
		sql($node, "CREATE TABLE ${name}_$am (id int, n int, t text) USING $am;" . ($bare ? '' : "ALTER TABLE ${name}_$am ADD PRIMARY KEY (id); CREATE INDEX ${name}_${am}_t ON ${name}_$am USING $index (t);"), $db);
	}
	return;
}

# The same for both, in a transaction
sub change
{
	my ($name, $what) = @_;
	return 'BEGIN;' . join('', map { (my $sql = $what) =~ s/%s/${name}_$_/g; "$sql;" } 'heap', 'lsm') . "COMMIT;\n";
}

my @plans = ('SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET enable_seqscan = on;',
	'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = on; SET enable_indexonlyscan = on;');

# All that is wrong with them
sub wrong
{
	my ($node, $db, @names) = @_;
	my $wrong = '';
	foreach my $name (@names)
	{
		foreach my $plan (@plans)
		{
			my @answers = map {
				my ($rc, $out, $err) = $node->psql($db, "$plan SELECT count(*), sum(n) FROM ${name}_$_ WHERE t >= ''; SELECT count(*), md5(string_agg(id || t, ',' ORDER BY id)) FROM ${name}_$_ WHERE id > -1000000");
				"$out$err"
			} 'heap', 'lsm';
			$wrong .= "$db: $name: $answers[0] / $answers[1]\n" if $answers[0] ne $answers[1];
		}
		my ($rc, $out, $err) = $node->psql($db, "SELECT object || ': ' || problem FROM lsm_verify('${name}_lsm') LIMIT 5");
		$wrong .= "$db: $name: lsm_verify: $out$err\n" if "$out$err" ne '';
	}
	return $wrong;
}

# ---- two servers ----

my $conf = "autovacuum = off\nmax_wal_senders = 6\nwal_keep_size = 2GB\nmax_wal_size = 2GB\nhot_standby = on\nfsync = off\ncheckpoint_timeout = 1h\nallow_in_place_tablespaces = on\n"
  . "lsm.crash_point = '?'\nlsm.memtable_size = 12MB\n";

sub pair
{
	my ($what, $prepare) = @_;
	my $n1 = lsm_node("${what}_1", initdb => ['--data-checksums'], conf => $conf);
	$n1->append_conf('pg_hba.conf', "local replication all trust\n");
	lsm_start($n1);
	$prepare->($n1);
	$n1->backup('base', backup_options => [ '-c', 'fast', '--no-sync' ]);
	my $n2 = PostgreSQL::Test::Cluster->new("${what}_2");
	$n2->init_from_backup($n1, 'base', has_streaming => 1);
	$n2->start;
	return ($n1, $n2);
}

sub caught_up
{
	my ($primary, $standby) = @_;
	my $lsn = sql($primary, 'SELECT pg_current_wal_insert_lsn()');
	$standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'") or die $standby->name . ' does not catch up';
	return;
}

# pg_rewind takes the configuration along: the target keeps its own
sub rewind
{
	my ($what, $target, $source, $online) = @_;
	my @kept = ('postgresql.conf', 'postgresql.auto.conf', 'pg_hba.conf');
	foreach (@kept) { copy($target->data_dir . "/$_", "$dir/$_") or die "copy: $!"; }
	command_ok([ 'pg_rewind', '--no-sync', '-D', $target->data_dir, $online ? ('--source-server', $source->connstr('postgres')) : ('--source-pgdata', $source->data_dir), '--config-file', "$dir/postgresql.conf" ],
		"$what: pg_rewind");
	foreach (@kept) { unlink $target->data_dir . "/$_"; copy("$dir/$_", $target->data_dir . "/$_") or die "copy: $!"; }
	$target->enable_streaming($source);
	return;
}

# ---- each step by itself ----

sub pages { my ($node, $index) = @_; return sql($node, "SELECT pg_relation_size('$index', 'main') / 8192"); }

# Rows of 1 kB that do not compress, those of `what` with their heap twins
sub kilobytes { my ($from, $to) = @_; return "INSERT INTO %s SELECT g, g % 100, (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 32) i) FROM generate_series($from, $to) g"; }

# A worker adds pages to the index's fork, for the DELETE entries of a scan that meets dead rows and finds no room
sub add_pages
{
	my ($what, $node, $table, $first) = @_;
	my $dead = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SELECT count(*) FROM $table WHERE t = 'd'";
	sql($node, "DELETE FROM $table WHERE t = 'd'");
	sql($node, "INSERT INTO $table SELECT g, 1, (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 32) i) FROM generate_series($first, $first + 400) g");
	my $before = pages($node, "${table}_t");
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	sql($node, $dead);
	usleep(20_000) while pages($node, "${table}_t") == $before && time < $end;
	my $now = pages($node, "${table}_t");
	cmp_ok($now, '>', $before, "$what: a worker has added pages");
	note("$what: $before, then $now pages");
	return;
}

sub steps
{
	my ($n1, $n2) = pair('steps', sub {
		my ($node) = @_;
		create_twins($node, 'postgres', 'cut');
		sql($node, change('cut', "INSERT INTO %s SELECT -g, 1, 'd' FROM generate_series(1, 1200) g") . change('cut', kilobytes(1, 7000)));
		sql($node, 'CREATE DATABASE a');
		sql($node, 'CREATE EXTENSION lsmam', 'a');
		create_twins($node, 'a', 'k', 1);
		sql($node, change('k', kilobytes(@$_)) . "SELECT lsm_flush('k_lsm');", 'a') foreach [ 1, 300 ], [ 301, 600 ];
		sql($node, "CREATE DATABASE $_ TEMPLATE a STRATEGY " . (/file/ ? 'file_copy' : 'wal_log')) foreach 'b', 'b_file';
		is(wrong($node, $_, 'k'), '', "database $_") foreach 'b', 'b_file';
		is(scalar(shared_files($node)), 0, 'copied databases share no file with their template');
	});
	sql($n1, 'CHECKPOINT');
	caught_up($n1, $n2);
	sql($n2, 'CHECKPOINT');
	$n2->promote;

	# The new primary has a tree whose fork ends in pages that nobody has used.
	create_twins($n2, 'postgres', 'same');
	sql($n2, change('same', "INSERT INTO %s SELECT -g, 1, 'd' FROM generate_series(1, 1200) g") . "SELECT lsm_flush('same_lsm_t'), lsm_flush('same_lsm');");
	sql($n2, "DELETE FROM same_heap WHERE t = 'd'");
	add_pages('the new primary', $n2, 'same_lsm', 1);
	sql($n2, 'INSERT INTO same_heap SELECT * FROM same_lsm');

	# The old one has another, not logged, of the same number, with log pages in their place.
	my $number = sql($n2, q{SELECT pg_relation_filenode('same_lsm_t')});
	sql($n1, 'CREATE UNLOGGED TABLE other (id int, t text) USING lsm');
	my $oid = sql($n1, 'SELECT lo_create(0)');
	sql($n1, "SELECT count(lo_create(0)) FROM generate_series($oid + 1, $number - 1)");
	sql($n1, 'CREATE INDEX other_t ON other USING lsm (t)');
	is(sql($n1, q{SELECT pg_relation_filenode('other_t')}), $number, 'the old primary: a fork of the same number');
	# (their entries give rows that are live in the other table)
	sql($n1, "INSERT INTO other SELECT g, 'x' FROM generate_series(1, 300) g; SELECT lsm_flush('other_t')") foreach 1 .. 3;
	sql($n1, "INSERT INTO other SELECT g, (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 32) i) FROM generate_series(1, 2000) g");
	cmp_ok(pages($n1, 'other_t'), '>', pages($n2, 'same_lsm_t'), 'and longer');

	# It cuts a fork, which grows again by pages that nobody uses.
	sql($n1, "SELECT lsm_flush('cut_lsm'), lsm_flush('cut_lsm_t')");
	my $full = pages($n1, 'cut_lsm_t');
	for (1 .. 50) { last if pages($n1, 'cut_lsm_t') < 40; sql($n1, 'VACUUM cut_lsm'); }
	cmp_ok(pages($n1, 'cut_lsm_t'), '<', 40, "VACUUM has cut a fork of $full pages");
	add_pages('the old primary', $n1, 'cut_lsm', 20_000);
	cmp_ok(pages($n1, 'cut_lsm_t'), '<', $full, 'and it is shorter than before');
	$n1->stop;

	# The new primary is killed while it removes a file of a copied database: cut to nothing, not yet gone, in no list.  Of the
	# siblings, it is the one that pg_rewind comes to last.
	my %dir = map { $_ => lsm_dir($n2) . '/' . keyspace($n2, $_, 'k_lsm') } 'a', 'b', 'b_file';
	my ($db) = sort { $dir{$b} cmp $dir{$a} } keys %dir;
	lsm_hold($n2, 'unlink_before', 'any');
	my $session = lsm_start_session($n2, $db, 'compaction', change('k', 'UPDATE %s SET n = n + 1') . "SELECT lsm_flush('k_lsm'); SELECT lsm_compact('k_lsm');");
	my @empty;
	while (lsm_wait_held($n2))
	{
		@empty = map { m{([^/]+)$} } grep { -z $_ } glob("$dir{$db}/*.sst");
		last if @empty == 1 && !grep { !-s "$_/$empty[0]" } grep { $_ ne $dir{$db} } values %dir;

		# the next one
		lsm_hold($n2, 'unlink_before', 'any');
		unlink $n2->data_dir . '/lsm_held';
	}
	is(scalar(@empty), 1, "a file is about to go: $db\'s @empty, which the others have");
	sql($n2, 'CHECKPOINT');
	kill_server($n2);
	lsm_ended($session);
	lsm_release($n2);
	$n2->start;
	ok(-z "$dir{$db}/$empty[0]", 'it is there after a restart');
	$n2->stop;
	rewind('steps', $n1, $n2, 0);
	$n2->start;
	$n1->start;
	caught_up($n2, $n1);
	foreach my $node ($n2, $n1)
	{
		is(wrong($node, 'postgres', 'cut'), '', $node->name . ': a fork that was cut');
		is(wrong($node, 'postgres', 'same'), '', $node->name . ': a fork whose number another had');
		is(wrong($node, $_, 'k'), '', $node->name . ": database $_") foreach 'a', 'b', 'b_file';
	}
	$n1->stop;
	$n2->stop;
	return;
}

steps() if $parts{steps};
done_testing();
