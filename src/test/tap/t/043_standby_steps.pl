# The startup process of a standby is held at each step of redo while others read and load trees, loaders and readers are
# held at each of theirs while redo goes on, and the standby is killed at each step of redo.  Heap tables and their lsm twins
# are equal to every snapshot all the time.  What was never synced under pg_lsm is lost at every second kill.
#   LSM_LONG=1         each kill both ways, and at the third time that the step is passed, too; lists of files are
#                      rewritten more often
#   LSM_POINTS="..."   redo is held, and the standby killed, at these only
#   LSM_PARTS="..."    of these parts: redo reader end kill
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

lsm_seed();
my %parts = map { $_ => 1 } split ' ', $ENV{LSM_PARTS} // 'redo reader end kill';
my $primary = lsm_node('primary', conf => "max_wal_senders = 8\nwal_keep_size = 512MB\nmax_wal_size = 1GB\nhot_standby = on\nautovacuum = off\n"
	  . "lsm.memtable_size = 8MB\nlsm.target_file_size = 64kB\nlsm.compaction_workers = 0\nwal_receiver_status_interval = 1s\nfsync = off");
$primary->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($primary);

# ---- what brings redo to a step ----

my $number = 5000;

sub writes
{
	my ($name) = @_;
	my $from = $number += 1000;
	return 'BEGIN;' . join('', map { "INSERT INTO ${name}_$_ SELECT g, g % 50, 'w' || g FROM generate_series($from, @{[$from + 150]}) g;"
		  . "UPDATE ${name}_$_ SET n = n + 1 WHERE id % 9 = 3; DELETE FROM ${name}_$_ WHERE id % 17 = 5;" } 'h', 'l') . 'COMMIT;';
}

# A row that is longer than a page of the log (the column's storage is plain)
sub long_row
{
	my ($name) = @_;
	my $id = $number += 1000;
	return 'BEGIN;' . join('', map { "INSERT INTO ${name}_$_ SELECT $id, 1, string_agg(md5((g + $id)::text), '') FROM generate_series(1, 600) g;" } 'h', 'l') . 'COMMIT;' . writes($name);
}
sub flush { my ($name) = @_; return writes($name) . "SELECT lsm_flush('${name}_h'), lsm_flush('${name}_l');" . writes($name); }
sub compact { my ($name) = @_; return flush($name) . "SELECT lsm_compact('${name}_h'), lsm_compact('${name}_l');" . writes($name); }
sub rewrite { my ($name) = @_; return join('', map { my $i = $number += 1; "BEGIN; INSERT INTO ${name}_h VALUES (-$i, 1, 'm'); INSERT INTO ${name}_l VALUES (-$i, 1, 'm'); COMMIT; SELECT lsm_flush('${name}_l');" } 1 .. 400); }
sub vacuum { my ($name) = @_; return writes($name) . "VACUUM (INDEX_CLEANUP on) ${name}_h, ${name}_l;" . flush($name) . "VACUUM (INDEX_CLEANUP on) ${name}_h, ${name}_l;" . writes($name); }
sub checkpoint { my ($name) = @_; return compact($name) . "CHECKPOINT;" . writes($name); }
sub other { my ($name) = @_; $number++; return "CREATE TABLE other$number (i int PRIMARY KEY) USING lsm; INSERT INTO other$number SELECT generate_series(1, 100); DROP TABLE other$number;" . writes($name); }

# More free log pages at the end than VACUUM leaves
sub cut
{
	my ($name) = @_;
	my $from = $number += 20_000;
	return "SET lsm.memtable_size = '24MB';" . join('', map { "INSERT INTO ${name}_$_ SELECT $from - 19000 + g, g % 50, (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 32) i) FROM generate_series(1, 12000) g;" } 'h', 'l')
	  . "VACUUM ${name}_l; RESET lsm.memtable_size;" . writes($name);
}

# The primary's filters are gone, and are built again; nothing else is written
sub repair
{
	my ($name) = @_;
	unlink grep { /\.flt$/ } lsm_files_of($primary);
	return "SET client_min_messages = error; SET enable_seqscan = off; SELECT count(*) FROM ${name}_l WHERE id = 1; SELECT count(*) FROM ${name}_l WHERE n = 7; SELECT lsm_compact('${name}_l'); RESET client_min_messages;";
}
my %before = (redo_chunk_opened => sub { my ($name) = @_; return writes($name) . "SELECT lsm_compact('${name}_l');" });

my %does = (
	redo_chunk_opened => \&repair,
	redo_append_page => \&writes, redo_append_fed => \&writes, standby_feeding => \&writes, redo_fresh_page => \&long_row,
	redo_edit_conflict => \&flush, redo_edit_locked => \&flush, redo_edit_set => \&flush, redo_edit_dropped => \&flush,
	redo_edit_unlinks => \&compact, redo_edit_done => \&compact, unlink_before => \&compact, unlink_after_first => \&compact,
	redo_chunk => \&flush, redo_sync_files => \&checkpoint, redo_horizon => \&vacuum, redo_keyspace => \&other, redo_keyspace_meta => \&other,
	redo_remove => \&other, redo_removed => \&other, redo_manifest_page => \&rewrite, redo_cut => \&cut);

# all that the code has are known here
my @redo = grep { /^redo_/ } split ' ', slurp_file($ENV{LSM_CRASH_POINTS});
is_deeply([ grep { !$does{$_} } @redo ], [], 'what brings redo to each of its steps is known');
my @steps = sort keys %does;
@steps = split ' ', $ENV{LSM_POINTS} if $ENV{LSM_POINTS};

# (readers would wait for the lock)
my @held = grep { $_ ne 'redo_edit_locked' && $_ ne 'redo_cut' && (lsm_long() || $_ ne 'redo_manifest_page') } @steps;
my @loads = grep { /^standby_load_/ } split ' ', slurp_file($ENV{LSM_CRASH_POINTS});
push @loads, 'standby_feeding';

sub create
{
	my ($name) = @_;
	return join('', map { my ($x, $am) = @$_; "CREATE TABLE ${name}_$x (id int, n int, t text) USING $am; CREATE INDEX ON ${name}_$x USING lsm (id); CREATE INDEX ON ${name}_$x USING lsm (n) WITH (filter_scheme = bloom);"
		  . "INSERT INTO ${name}_$x SELECT g, g % 50, 'v' || g FROM generate_series(1, 400) g;" } [ 'h', 'heap' ], [ 'l', 'lsm' ]) . "ALTER TABLE ${name}_l ALTER t SET STORAGE PLAIN; SELECT lsm_flush('${name}_l');" . writes($name);
}
my @cold = ((map { "cold_$_" } @held), (map { "load_$_" } @loads), "ended_backend", "ended_startup");
$primary->safe_psql('postgres', join('', map { create($_) } 'warm', @cold) . 'CREATE TABLE marks (n int) USING heap');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nmax_standby_streaming_delay = 60s\nlsm.crash_point = '?'\nstatement_timeout = 180s\ncheckpoint_timeout = 1h");

# ---- a standby whose disk forgets ----

my $synced = "$ENV{TESTDIR}/standby_steps.synced";

# all that there is has been synced
sub remember_files
{
	unlink $synced;
	my $known = '';
	my $pg_lsm = lsm_dir($standby);
	my %inode;
	foreach my $line (split /\n/, `find '$pg_lsm' -mindepth 1 -print0 | xargs -0 stat -c '%i %W %s %F %n'`)
	{
		my ($i, $birth, $size, $dir, $name) = $line =~ m{^(\d+) (\d+) (\d+) [a-z ]+ (.*)/([^/]+)$};
		$inode{"$dir/$name"} = $i;
		$known .= $dir eq $pg_lsm ? "d $i\n" : "f $i $birth $size\ne $inode{$dir} $name\n";
	}
	append_to_file($synced, $known);
	return;
}

sub start_standby
{
	local $ENV{LD_PRELOAD} = $ENV{LSM_FAULTS_SO};
	local $ENV{LSM_FAULTS_SYNC_LOG} = $synced;

	# (with it on, the whole data directory would be synced first)
	lsm_set($standby, fsync => 'off');
	$standby->start;
	return;
}

# ---- comparison ----

sub comparison
{
	my (@names) = @_;
	my $sql = "BEGIN ISOLATION LEVEL REPEATABLE READ;\n";
	foreach my $name (@names)
	{
		foreach my $plan ('SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexscan = on', 'SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off')
		{
			$sql .= "$plan;\n";
			foreach my $q ('SELECT count(*), sum(n), md5(string_agg(t, \',\' ORDER BY id, n)) FROM %s WHERE id >= 0', 'SELECT count(*), sum(id) FROM %s WHERE n = 7', 'SELECT n, t FROM %s WHERE id = 12')
			{
				my ($h, $l) = map { (my $x = $q) =~ s/%s/${name}_$_/; "(SELECT coalesce(string_agg(q::text, ';' ORDER BY q::text), '') FROM ($x) q)" } 'h', 'l';
				$sql .= "SELECT '$name: ' || left(h, 80) || ' / ' || left(l, 80) FROM (SELECT $h h, $l l OFFSET 0) a WHERE h <> l;\n";
			}
		}
	}
	return $sql . "COMMIT;\n";
}

sub wrong
{
	my ($node, @names) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', comparison(@names));
	return $out . ($rc != 0 || $err ne '' ? "exit code $rc: $err" : '');
}

# on the primary, and sent
sub perform
{
	my ($sql) = @_;
	$primary->safe_psql('postgres', $sql . 'INSERT INTO marks VALUES (1);');
	return;
}

sub caught_up
{
	my $lsn = $primary->lsn('flush');
	return $standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'");
}

# ---- redo is held ----

start_standby();
is(wrong($standby, 'warm'), '', 'before: the twins are equal');
foreach my $step ($parts{redo} ? @held : ())
{
	my $bad = '';
	foreach my $name ('warm', $step eq 'standby_feeding' ? () : "cold_$step")
	{
		perform($before{$step}->($name)) if $before{$step};
		ok(caught_up(), 'redo has come to where it is to be held') if $before{$step};

		# nobody has opened the trees of a cold one: they are loaded in the midst of the step
		lsm_hold($standby, $step, 'startup');
		perform($does{$step}->($name));
		$bad .= "$name: the step is not reached\n" unless lsm_wait_held($standby, 30);
		$bad .= wrong($standby, $name) foreach 1 .. 2;
		lsm_release($standby);
		$bad .= "$name: redo does not go on\n" unless caught_up();
		$bad .= wrong($standby, $name);
	}
	is($bad, '', "redo held at $step: the twins are equal");
}

# ---- a loader is held, and so is a reader that has taken the memtables ----

# its snapshot makes the primary keep what loaders see
my $keeper = $standby->background_psql('postgres');
$keeper->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$keeper->query_safe('SELECT count(*) FROM marks');
my $horizon = $primary->safe_psql('postgres', 'SELECT txid_current()');
$primary->poll_query_until('postgres', "SELECT backend_xmin::text::bigint <= $horizon FROM pg_stat_replication");

foreach my $at ($parts{reader} ? ((map { [ $_, "load_$_" ] } @loads), [ 'standby_set_taken', 'warm' ]) : ())
{
	my ($step, $name) = @$at;
	lsm_hold($standby, $step, 'backend');
	my $session = lsm_start_session($standby, 'postgres', $step, comparison($name));
	ok(lsm_wait_held($standby, 30), "a reader is held at $step");
	perform(writes($name) . long_row($name) . flush($name) . compact($name) . vacuum($name) . (lsm_long() && $step =~ /_(read|taken)$/ ? rewrite($name) : ''));
	ok(caught_up(), "redo does not wait for a reader at $step");
	lsm_release($standby);
	ok(lsm_ended($session), "the reader at $step goes on");
	is(lsm_output($step) . wrong($standby, $name), '', "a reader held at $step: the twins are equal");
}
$keeper->quit;

# ---- a loader ends in the midst ----

foreach my $who ($parts{end} ? ('backend', 'startup') : ())
{
	# the one that adds an entry meanwhile: the loader itself, or redo
	my $name = "ended_$who";
	perform(join('', map { writes($name) } 1 .. 6));
	ok(caught_up(), 'redo goes on');
	lsm_hold($standby, 'standby_load_page', 'backend');
	my $session = lsm_start_session($standby, 'postgres', $name, comparison($name));
	ok(lsm_wait_held($standby, 30), 'a loader reads the log');
	if ($who eq 'startup')
	{
		lsm_hold($standby, 'standby_feeding', 'startup', 0, second => 1);
		perform(writes($name));
		ok(lsm_wait_held($standby, 30, second => 1), 'redo adds an entry');
	}
	$standby->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()});
	lsm_release($standby);
	usleep(500_000);
	lsm_release($standby, second => 1);
	ok(lsm_ended($session), 'the loader ends');
	like(lsm_output($name), qr/terminating connection/, 'before it has loaded the tree');
	perform(writes($name));
	ok(caught_up(), 'redo goes on');
	is(wrong($standby, $name), '', 'the twins are equal');
}

# ---- the standby is killed ----

my $kills = 0;
foreach my $step ($parts{kill} ? @steps : ())
{
	foreach my $variant (lsm_long() ? ([ 1, 0 ], [ 1, 1 ], [ 3, 1 ]) : ([ 1, $kills % 2 ]))
	{
		my ($nth, $losing) = @$variant;
		my $what = "killed at $step" . ($nth > 1 ? ", time $nth" : '') . ($losing ? ', what was not synced is lost' : '');

		# where redo starts anew: from here, or from long ago
		if (rand() < 0.7)
		{
			$primary->safe_psql('postgres', 'CHECKPOINT');
			caught_up();
			$standby->safe_psql('postgres', 'CHECKPOINT');
		}
		my @pids = lsm_pids($standby);
		my $postmaster = $pids[0];
		caught_up();
		remember_files();
		lsm_set($standby, fsync => 'on', 'lsm.crash_point' => $nth > 1 ? "$step:$nth" : $step);
		$standby->reload;
		usleep(100_000);
		my $hit = 0;
		foreach my $try (1 .. 3)
		{
			perform(($before{$step} ? $before{$step}->('warm') : '') . $does{$step}->('warm'));
			my $end = time + ($try == 3 ? 60 : $step =~ /remove/ ? 10 : 2);
			until ($hit || time > $end)
			{
				push @pids, grep { my $p = $_; !grep { $_ == $p } @pids } lsm_pids($standby);
				usleep(10_000);
				$hit = !kill(0, $postmaster) || `ps -o stat= -p $postmaster` =~ /^Z/;
			}
			last if $hit;
		}
		ok($hit, "$what: the step is reached");
		lsm_set($standby, 'lsm.crash_point' => '?');
		if ($hit)
		{
			kill('KILL', grep { $_ != $postmaster } @pids);
			lsm_wait_gone($standby, @pids);
			lsm_lose_unsynced($standby, $synced) if $losing;
			$kills++;
			lsm_clear_crashed($standby, @pids);
			start_standby();
		}
		else
		{
			$standby->reload;
		}
		my $bad = wrong($standby, 'warm');
		perform(writes('warm'));
		$bad .= "it does not catch up\n" unless caught_up();
		$bad .= wrong($standby, 'warm') . $standby->safe_psql('postgres', q{SELECT * FROM lsm_verify('warm_l')});
		is($bad, '', "$what: the twins are equal");
	}
}
note("$kills kills");

# ---- and all of it is whole ----

my @all = ('warm', @cold);
is(wrong($standby, @all), '', 'at the end: the twins are equal');
my $sums = join(';', map { "SELECT count(*), sum(hashtext(t)) FROM ${_}_l" } @all);
is($standby->safe_psql('postgres', $sums), $primary->safe_psql('postgres', $sums), 'at the end: the standby has what the primary has');
$primary->stop;
$standby->promote;
$standby->safe_psql('postgres', join('', map { writes($_) . "SELECT lsm_compact('${_}_l');" } @all));
is(wrong($standby, @all), '', 'promoted: the twins are equal');
is($standby->safe_psql('postgres', join(';', map { "SELECT * FROM lsm_verify('${_}_l')" } @all)), '', 'promoted: nothing is wrong');
$standby->stop;
done_testing();
