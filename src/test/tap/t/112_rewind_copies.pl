# pg_rewind knows what WAL's block references name and how long files are, and it writes into files that are there.  So a
# block that leaves a fork is named, a new fork begins empty whatever lay there, and no two trees share a file.  Each step
# of that by itself; then rewinds to and fro under load, with copied databases, VACUUM, TRUNCATE and moves, beside heap twins.
#   LSM_LONG=1         more rewinds
#   LSM_PARTS="..."    of these parts: steps load links full
#   LSM_SEED=N         repeats the choices
# tier: check
use strict;
use warnings;
use File::Copy;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my %parts = map { $_ => 1 } split ' ', $ENV{LSM_PARTS} // (lsm_short() ? 'steps links' : 'steps load links full');
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
	my $ok = run_log([ 'pg_rewind', '--no-sync', '-D', $target->data_dir, $online ? ('--source-server', $source->connstr('postgres')) : ('--source-pgdata', $source->data_dir), '--config-file', "$dir/postgresql.conf" ]);
	ok($ok, "$what: pg_rewind");
	foreach (@kept) { unlink $target->data_dir . "/$_"; copy("$dir/$_", $target->data_dir . "/$_") or die "copy: $!"; }
	$target->enable_streaming($source);
	return $ok;
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

# ---- links that an older version has made ----

sub parted
{
	my ($node) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	usleep(50_000) while shared_files($node) && time < $end;
	return scalar(shared_files($node));
}

sub links
{
	my $node = lsm_node('links', conf => "autovacuum = off\nfsync = off\n");
	lsm_start($node);
	sql($node, 'CREATE DATABASE a');
	sql($node, 'CREATE EXTENSION lsmam', 'a');
	create_twins($node, 'a', 'k');
	sql($node, change('k', kilobytes(1, 300)) . "SELECT lsm_flush('k_lsm'), lsm_flush('k_lsm_t'), lsm_flush('k_lsm_pkey');", 'a');
	sql($node, "CREATE DATABASE $_ TEMPLATE a") foreach 'b', 'c';
	$node->stop;
	cmp_ok(lsm_link_files($node), '>=', 12, 'files are links again');

	# one that leads out of pg_lsm
	my ($outside) = lsm_files_of($node);
	link($outside, $node->data_dir . '/other_cluster') or die "link: $!";
	$node->start;
	my $count = 'SET enable_seqscan = off; SELECT count(*) FROM k_lsm WHERE id > 0';
	my %reader = map { $_ => $node->background_psql($_, on_error_die => 1) } 'a', 'b', 'c';
	is($reader{$_}->query_safe($count), 300, "a session reads on in $_") foreach sort keys %reader;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $among = sub { my %n; $n{ (stat $_)[1] }++ foreach lsm_files_of($node); return scalar(grep { $_ > 1 } values %n); };
	usleep(50_000) while $among->() && time < $end;
	is($among->(), 0, 'no two of them are one');
	is(scalar(shared_files($node)), 1, 'the other cluster keeps its link');
	is($reader{$_}->query_safe($count), 300, "and goes on in $_") foreach sort keys %reader;
	is(wrong($node, $_, 'k'), '', "links: database $_") foreach 'a', 'b', 'c';

	# whoever keeps the old file removes it, while others have it mapped
	foreach my $db ('a', 'b', 'c')
	{
		sql($node, change('k', 'UPDATE %s SET n = n + 1') . "SELECT lsm_compact('k_lsm')", $db);
		is($reader{$_}->query_safe($count), 300, "$db has new files: the session in $_") foreach sort keys %reader;
	}
	$_->quit foreach values %reader;
	is(wrong($node, $_, 'k'), '', "links: database $_, changed") foreach 'a', 'b', 'c';
	$node->restart;
	is(wrong($node, $_, 'k'), '', "links: database $_, after a restart") foreach 'a', 'b', 'c';
	$node->stop;
	return;
}

links() if $parts{links};

# ---- a full disk ----

sub used { my ($node) = @_; my $sum = 0; $sum += -s $_ foreach lsm_files_of($node, qr/./); return $sum; }

sub full
{
	my $node = lsm_node('full', conf => "autovacuum = off\nfsync = off\nallow_in_place_tablespaces = on\nlsm.compression = none\nlsm.compaction_workers = 1\n");
	lsm_on_small_disk($node);
	lsm_start($node);
	sql($node, 'CREATE DATABASE a');
	sql($node, "CREATE TABLESPACE space LOCATION ''");
	sql($node, 'CREATE EXTENSION lsmam', 'a');
	create_twins($node, 'a', 'k', 1);
	sql($node, change('k', kilobytes(1, 9000)) . "SELECT lsm_flush('k_lsm');", 'a');
	sql($node, 'CREATE DATABASE b TEMPLATE a');
	my $before = used($node);
	foreach my $strategy ('wal_log', 'file_copy')
	{
		my ($rc, $out, $err) = $node->psql('postgres', "CREATE DATABASE c TEMPLATE a STRATEGY $strategy");
		like($err, qr/could not write file "pg_lsm.*No space left on device/, "$strategy: no room for a copied database");
		cmp_ok(used($node), '<=', $before, "$strategy: nothing is left of it");
	}
	my ($rc, $out, $err) = $node->psql('a', 'ALTER TABLE k_lsm SET TABLESPACE space');
	like($err, qr/could not write file "pg_lsm.*No space left on device/, 'nor for a moved table');
	is(scalar(grep { /\.sst$/ && -s $_ } lsm_files_of($node)), scalar(grep { /\.sst$/ } lsm_files_of($node)), 'no file is half there');
	cmp_ok(used($node), '<', $before + 1000, 'nothing is left of it, either');
	is(wrong($node, $_, 'k'), '', "full: database $_") foreach 'a', 'b';

	# links of an older version stay, and work, until there is room
	$node->stop;
	cmp_ok(lsm_link_files($node), '>', 0, 'files are links again');
	my $filler = $ENV{LSM_SMALL_DISK} . '/filler';
	system('dd', 'if=/dev/zero', "of=$filler", 'bs=1M', 'count=20', 'status=none');
	my $offset = -s $node->logfile;
	$node->start;
	lsm_wait_logged($node, $offset, qr/WARNING:  file "pg_lsm.*is shared with another LSM tree, and there is no room for a copy/);
	is(wrong($node, $_, 'k'), '', "no room for parting: database $_") foreach 'a', 'b';
	unlink $filler;
	is(parted($node), 0, 'parted when there is room');
	is(wrong($node, $_, 'k'), '', "parted: database $_") foreach 'a', 'b';
	sql($node, 'DROP DATABASE b');
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	usleep(100_000) while used($node) > 0.7 * $before && time < $end;
	sql($node, 'CREATE DATABASE c TEMPLATE a');
	is(wrong($node, 'c', 'k'), '', 'there is room for a copy');
	$node->stop;
	lsm_off_small_disk($node);
	return;
}

SKIP:
{
	skip 'no small disk (needs root to mount a tmpfs)', 1 unless $ENV{LSM_SMALL_DISK};
	full() if $parts{full};
}

# ---- to and fro, under load ----

my %loads;
my $scripts = 0;
my $number = 0;

sub random_change
{
	my ($name) = @_;
	my ($way, $a, $n) = (rand(), 1 + int(rand(3000)), 10_000 + 20 * ++$number);
	return $way < 0.35 ? change($name, "INSERT INTO %s SELECT g, g % 97, repeat(md5(g::text), 8) FROM generate_series($n, $n + 15) g")
	  : $way < 0.6 ? change($name, "UPDATE %s SET n = n + 1, t = left(t, 200) || 'z$n' WHERE id BETWEEN $a AND $a + 10")
	  : $way < 0.75 ? change($name, "DELETE FROM %s WHERE id BETWEEN $a AND $a + 5")
	  : $way < 0.8 ? "SELECT count(*) FROM ${name}_lsm WHERE t >= 'z';\n"
	  : $way < 0.88 ? "SELECT lsm_flush('${name}_lsm'), lsm_flush('${name}_lsm_t');\n"
	  : $way < 0.93 ? "VACUUM ${name}_lsm, ${name}_heap;\n"
	  : $way < 0.95 ? "SELECT lsm_compact('${name}_lsm');\n"
	  : $way < 0.96 ? change($name, 'TRUNCATE %s') . change($name, kilobytes(1, 1500))
	  : $way < 0.98 ? "ALTER TABLE ${name}_lsm SET TABLESPACE " . (rand() < 0.5 ? 'space' : 'pg_default') . ";\n"
	  : "ALTER INDEX ${name}_lsm_t SET TABLESPACE " . (rand() < 0.5 ? 'space' : 'pg_default') . ";\n";
}

sub load_start
{
	my ($node) = @_;
	foreach my $name ('p', 'q')
	{
		my $file = "$dir/load" . ++$scripts;
		append_to_file("$file.sql", join('', map { random_change($name) } 1 .. 3000));
		$loads{ $node->name }{ lsm_spawn_psql($node, "$file.sql", "$file.out") } = $file;
	}
	return;
}

# What went wrong
sub load_stop
{
	my ($node) = @_;
	my $wrong = '';
	foreach my $pid (keys %{ $loads{ $node->name } })
	{
		my $file = delete $loads{ $node->name }{$pid};
		kill('TERM', $pid);
		waitpid($pid, 0);
		$wrong .= slurp_file("$file.out.err");
	}
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'});
	return $wrong;
}

END
{
	# they must not outlive a test that dies
	my $status = $?;
	kill('KILL', map { keys %$_ } values %loads);
	$? = $status;
}

# Databases copied in both ways, under numbers that the other server gives, too, and some of them changed.  The template is
# not changed behind that: who replays a copy by files copies what the template has become, heap or not (createdb(), scenario 2).
sub copies
{
	my ($node, $round, $side) = @_;
	my @dbs;
	sql($node, change('k', 'UPDATE %s SET n = n + 1 WHERE id % 7 = ' . $side) . "SELECT lsm_compact('k_lsm'); VACUUM k_lsm;", 'tmpl');
	foreach my $i (0 .. 3)
	{
		my $db = 'c' . ($i < 2 ? "_$round" : "_${side}_$round") . "_$i";
		sql($node, "CREATE DATABASE $db TEMPLATE tmpl STRATEGY " . ($i % 2 ? 'file_copy' : 'wal_log') . ($i < 2 ? ' OID ' . (900_000 + 10 * $round + $i) : ''));
		sql($node, change('k', "UPDATE %s SET n = n + $i + 1 WHERE id % 3 = 0") . change('k', kilobytes(2000, 2000 + 300 * ($side + 1))) . "SELECT lsm_compact('k_lsm');", $db) if rand() < 0.6;
		push @dbs, $db;
	}
	return @dbs;
}

sub load
{
	my ($primary, $standby) = pair('load', sub {
		my ($node) = @_;
		lsm_set($node, 'lsm.memtable_size' => '4MB', 'lsm.target_file_size' => '512kB', 'max_standby_streaming_delay' => 0);
		$node->reload;
		sql($node, "CREATE TABLESPACE space LOCATION ''");
		create_twins($node, 'postgres', $_) foreach 'p', 'q';
		sql($node, change($_, kilobytes(1, 2000))) foreach 'p', 'q';
		sql($node, 'CREATE DATABASE tmpl');
		sql($node, 'CREATE EXTENSION lsmam', 'tmpl');
		create_twins($node, 'tmpl', 'k');
		sql($node, change('k', kilobytes(1, 600)) . "SELECT lsm_flush('k_lsm');", 'tmpl');
	});

	# pg_rewind takes a directory in pg_tblspc for something else than a link there
	$_->stop foreach $standby, $primary;
	foreach my $node ($primary, $standby)
	{
		my ($space) = glob($node->data_dir . '/pg_tblspc/*');
		my $place = "$dir/space_" . $node->name;
		rename($space, $place) or die "rename: $!";
		symlink($place, $space) or die "symlink: $!";
		$node->start;
	}
	my @dbs = ('tmpl');
	foreach my $round (1 .. (lsm_long() ? 10 : 2))
	{
		load_start($primary);
		push @dbs, copies($primary, 2 * $round, 0);
		sql($primary, 'CHECKPOINT');
		caught_up($primary, $standby);
		sql($standby, 'CHECKPOINT');
		usleep(int(rand(1_000_000)));
		$standby->promote;
		load_start($standby);
		my @its = copies($standby, 2 * $round + 1, 1);
		copies($primary, 2 * $round + 1, 0);
		is(load_stop($primary), '', "round $round: the load on the old primary");
		is(wrong($primary, 'postgres', 'p', 'q'), '', "round $round: the old primary");
		$round % 2 ? $primary->stop : kill_server($primary);
		sql($standby, 'CHECKPOINT');
		rewind("round $round", $primary, $standby, 1) or last;
		is(load_stop($standby), '', "round $round: the load on the new primary");
		$primary->start;
		($primary, $standby) = ($standby, $primary);
		caught_up($primary, $standby);
		is(scalar(shared_files($standby)), 0, "round $round: no file is shared");
		push @dbs, @its;
		foreach my $node ($standby, $primary)
		{
			is(wrong($node, 'postgres', 'p', 'q'), '', "round $round: " . $node->name);
			is(wrong($node, $_, 'k'), '', "round $round: " . $node->name . ", $_") foreach @dbs;
		}
	}
	$standby->stop;
	$primary->stop;
	return;
}

load() if $parts{load};
done_testing();
