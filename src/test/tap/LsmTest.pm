# What the TAP tests share: a server that preloads lsmam, killing it in every
# way, bringing it back, and comparing lsm tables with their heap twins.
package LsmTest;

use strict;
use warnings;

use Cwd ();
use Exporter 'import';
use Fcntl ':flock';
use File::Find;
use File::Path 'remove_tree';
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

our @EXPORT = qw(lsm_node lsm_start lsm_restart_after_crash lsm_wait_gone
  lsm_differences lsm_spawn_psql lsm_long lsm_short lsm_seed lsm_files_of lsm_dir
  lsm_kill_process lsm_create_twins lsm_pids lsm_lose_unsynced lsm_set
  lsm_clear_crashed lsm_wait_up lsm_script lsm_hold lsm_wait_held lsm_release
  lsm_start_session lsm_output lsm_ended lsm_ended_or_waits
  lsm_wait_clients lsm_wait_logged lsm_flip_bits lsm_crc32c lsm_seal_meta lsm_jump_xid
  lsm_on_small_disk lsm_off_small_disk lsm_link_files
  lsm_no_checksums lsm_force_parallel lsm_version lsm_knows_stamps lsm_forget_stamps);

# A node, initialised but not started.  wal_level replica unless told otherwise:
# then publishing logs file contents too.
sub lsm_node
{
	my ($name, %opt) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8', @{ $opt{initdb} // [] } ]);
	$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'lsmam'
restart_after_crash = on
wal_level = @{[ $opt{wal_level} // 'replica' ]}
log_statement = none
jit = off
log_min_messages = warning
lsm.memtable_memory = 32MB
lsm.memtable_size = 256kB
lsm.target_file_size = 256kB
shared_buffers = 16MB
max_connections = 40
max_prepared_transactions = 10
autovacuum_naptime = 1s
checkpoint_timeout = 30s
max_wal_size = 64MB
@{[ $ENV{LSM_SECOND_OPINION} ? "lsm.second_opinion = $ENV{LSM_SECOND_OPINION}" : '' ]}
@{[ $opt{conf} // '' ]}
});
	return $node;
}

# initdb's option for tests that write into pages: checksums are the default since 18
sub lsm_no_checksums { return `initdb --help` =~ /no-data-checksums/ ? ('--no-data-checksums') : (); }

# the setting's name since 16
sub lsm_force_parallel { return lsm_version() < 16 ? 'force_parallel_mode' : 'debug_parallel_query'; }

sub lsm_version { return `postgres --version` =~ / (\d+)/ ? $1 : die 'which version?'; }

# Since November 2026, minor releases stamp each column, with an option that earlier releases of the next version refuse, of
# heap tables, too.  Where the newer server is such a release, the older one forgets its stamps.
sub lsm_knows_stamps
{
	my ($node) = @_;
	my ($rc) = $node->psql('postgres', 'BEGIN; CREATE TABLE stamped (a int); ALTER TABLE stamped ALTER a SET (pg_attver = 1); ROLLBACK', on_error_stop => 1);
	return $rc == 0;
}

sub lsm_forget_stamps
{
	my ($node, @databases) = @_;
	note('forgets stamps: ' . $node->name);
	$node->safe_psql($_, q{SET allow_system_table_mods = on; UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text ~ 'pg_attver'}) foreach @databases;
	return;
}

sub lsm_start
{
	my ($node) = @_;
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS lsmam');
	return;
}

# All processes of the node's server, the postmaster first.
sub lsm_pids
{
	my ($node) = @_;
	my $pidfile = $node->data_dir . '/postmaster.pid';
	return () unless -e $pidfile;
	my ($pm) = split /\n/, slurp_file($pidfile);
	return () unless $pm && kill(0, $pm);
	my @children = split ' ', `ps -o pid= --ppid $pm 2>/dev/null`;
	return ($pm, @children);
}

# A process by what it is: 'postmaster', 'backend', 'worker', 'checkpointer', ...
sub lsm_kill_process
{
	my ($node, $what, $signal) = @_;
	$signal //= 'KILL';
	my @pids = lsm_pids($node);
	return 0 unless @pids;
	my $pm = shift @pids;
	return kill($signal, $pm) if $what eq 'postmaster';

	my @candidates;
	foreach my $pid (@pids)
	{
		open(my $fh, '<', "/proc/$pid/cmdline") or next;
		local $/;
		my $title = <$fh> // '';
		push @candidates, $pid
		  if ($what eq 'worker' && $title =~ /lsm (flush|compaction) worker/)
		  || ($what eq 'backend' && $title =~ /\[local\]/)
		  || ($what eq 'checkpointer' && $title =~ /checkpointer/);
	}
	return 0 unless @candidates;
	return kill($signal, $candidates[ int(rand(@candidates)) ]);
}

# Wait until no process of a crashed server is left.
sub lsm_wait_gone
{
	my ($node, @pids) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;

	foreach my $pid (@pids)
	{
		while (kill(0, $pid))
		{
			# a zombie is gone, too
			my $state = `ps -o stat= -p $pid 2>/dev/null` // '';
			last if $state eq '' || $state =~ /^Z/;
			die "process $pid of the crashed server does not go away" if time > $end;
			usleep(20_000);
		}
	}
	return;
}

# The postmaster is dead or will be: wait for it.  Then it can be started again.
sub lsm_clear_crashed
{
	my ($node, @pids) = @_;
	lsm_wait_gone($node, @pids);

	# Those that have come since: every process of a server is in its directory.  So is a restore_command, which may
	# wait for a test.
	my $dir = Cwd::realpath($node->data_dir);
	lsm_wait_gone($node, map { (readlink("$_/cwd") // '') eq $dir && (readlink("$_/exe") // '') =~ m{/postgres( \(deleted\))?$} ? m{(\d+)$} : () } glob('/proc/[0-9]*'));
	$node->{_pid} = undef;

	# where nobody reaps orphans, the dead postmaster's pid still looks alive
	unlink $node->data_dir . '/postmaster.pid';
	unlink $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	return;
}

sub lsm_restart_after_crash
{
	my ($node, @pids) = @_;
	lsm_clear_crashed($node, @pids);
	$node->start;
	return;
}

# A crash has been told, and what is told of its end is older; or a process has died, and the postmaster, which goes on to
# take connections, does not know yet.
sub crash_goes_on
{
	my ($node) = @_;
	my ($postmaster) = -e $node->data_dir . '/postmaster.pid' ? slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/ : ();

	return 1 if $postmaster && `ps --ppid $postmaster -o stat=` =~ /^Z/m;
	my ($after) = slurp_file($node->logfile) =~ /.*(?:PANIC:  |TRAP: |\(PID \d+\) was terminated by signal)(.*)/s;
	return defined $after && $after !~ /database system is ready to accept/;
}

# The server recovers by itself: until it answers.  psql may die of a refused connection
# before it has read its input, which poll_query_until does not survive.
sub lsm_wait_up
{
	my ($node) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;

	while (time < $end)
	{
		my $rc = crash_goes_on($node) ? undef : eval { $node->psql('postgres', 'SELECT 1') };
		return if defined $rc && $rc == 0;
		usleep(100_000);
	}
	die 'the server does not come back';
}

# No client is there but the one that asks, and as many as are to stay.  psql ends before its session does: until then the session may finish a
# statement, and has not reported its statistics.
sub lsm_wait_clients
{
	my ($node, $staying) = @_;
	my $count = 1 + ($staying // 0);
	$node->poll_query_until('postgres', qq{SELECT count(*) = $count FROM pg_stat_activity WHERE backend_type = 'client backend'})
	  or die 'clients stay';
	return;
}

# The server's log has, from the offset on, what the expression looks for.
sub lsm_wait_logged
{
	my ($node, $offset, $expression) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;

	until (substr(slurp_file($node->logfile), $offset) =~ $expression)
	{
		die "nothing in the log matches $expression" if time > $end;
		usleep(50_000);
	}
	return;
}

# Tables NAME_h (heap, btree) and NAME_l (lsm, lsm keys) of the same columns.
sub lsm_create_twins
{
	my ($node, $name, $columns, @indexes) = @_;
	my $sql = "CREATE TABLE ${name}_h ($columns) USING heap;\n"
	  . "CREATE TABLE ${name}_l ($columns) USING lsm;\n";
	my $n = 0;
	foreach my $index (@indexes)
	{
		$n++;
		$sql .= "CREATE INDEX ${name}_h_$n ON ${name}_h $index;\n";
		$sql .= "CREATE INDEX ${name}_l_$n ON ${name}_l USING lsm $index;\n";
	}
	$node->safe_psql('postgres', $sql);
	return;
}

# Text about everything that is wrong with NAME_l, '' if nothing.
sub lsm_differences
{
	my ($node, @names) = @_;
	my $wrong = '';
	foreach my $name (@names)
	{
		my ($rc, $out, $err) = $node->psql('postgres', qq{
SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
SELECT count(*) || ' rows of $name in heap only: ' || min(t::text) FROM (SELECT * FROM ${name}_h EXCEPT ALL SELECT * FROM ${name}_l) t HAVING count(*) > 0;
SELECT count(*) || ' rows of $name in lsm only: ' || min(t::text) FROM (SELECT * FROM ${name}_l EXCEPT ALL SELECT * FROM ${name}_h) t HAVING count(*) > 0;
SELECT object || ': ' || problem FROM lsm_verify('${name}_l') LIMIT 20;
});
		$wrong .= $out . ($out ne '' ? "\n" : '');
		$wrong .= "psql exits with $rc: $err\n" if $rc != 0 || $err =~ /ERROR|WARNING|FATAL/;
	}
	return $wrong;
}

# psql in the background with a script on stdin and its output in a file; the pid
sub lsm_spawn_psql
{
	my ($node, $script, $outfile, @options) = @_;
	my $pid = fork();
	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open(STDIN, '<', $script) or POSIX::_exit(98);
		open(STDOUT, '>', $outfile) or POSIX::_exit(98);
		open(STDERR, '>', "$outfile.err") or POSIX::_exit(98);
		exec('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', @options,
			'-d', $node->connstr('postgres'))
		  or POSIX::_exit(99);
	}
	return $pid;
}

sub lsm_long { return $ENV{LSM_LONG} ? 1 : 0; }

# make check: a test may do less then
sub lsm_short { return ($ENV{LSM_TIER} // '') eq 'check' ? 1 : 0; }

# Random numbers that a failing run can be repeated with: LSM_SEED=...
sub lsm_seed
{
	my $seed = $ENV{LSM_SEED} // int(time * 1000) % 1_000_000_000;
	srand($seed);
	diag("seed: LSM_SEED=$seed");
	return $seed;
}

# Change settings in the configuration file of a stopped or running node.
sub lsm_set
{
	my ($node, %settings) = @_;
	my $text = join('', map { "$_ = '$settings{$_}'\n" } sort keys %settings);
	$node->append_conf('postgresql.conf', $text);
	return;
}

# With lsm.crash_point = '?': the next process of that kind ('worker', 'backend', 'startup', 'any') that
# comes to the crash point, in a job of the relation's tree (0: any, or none), stops there until lsm_release().
# A second one can be held at the same time: second => 1.
sub lsm_hold
{
	my ($node, $point, $who, $relid, %opt) = @_;
	my $file = $node->data_dir . '/lsm_hold' . ($opt{second} ? '_2' : '');

	# complete when it appears
	unlink "$file.tmp";
	append_to_file("$file.tmp", "$point $who " . ($relid // 0) . "\n");
	rename("$file.tmp", $file) or die "rename: $!";
	return;
}

# True if someone has stopped there in time.
sub lsm_wait_held
{
	my ($node, $seconds, %opt) = @_;
	my $end = time + ($seconds // $PostgreSQL::Test::Utils::timeout_default);

	while (!-e $node->data_dir . '/lsm_held' . ($opt{second} ? '_2' : ''))
	{
		return 0 if time > $end;
		usleep(5_000);
	}
	return 1;
}

sub lsm_release
{
	my ($node, %opt) = @_;
	unlink map { $node->data_dir . "/$_" . ($opt{second} ? '_2' : '') } 'lsm_hold', 'lsm_held';
	return;
}

# psql in the background, which ends with the first error; its pid, for lsm_ended().
# What it says comes from lsm_output().
my %ended;
my $session_dir;
sub lsm_start_session
{
	my ($node, $db, $name, $sql) = @_;
	$session_dir //= PostgreSQL::Test::Utils::tempdir();
	my $file = "$session_dir/$name";
	unlink "$file.sql";
	append_to_file("$file.sql", $sql);
	my $pid = fork();
	delete $ended{$pid};
	if ($pid == 0)
	{
		open(STDIN, '<', "$file.sql");
		open(STDOUT, '>', "$file.out");
		open(STDERR, '>&', \*STDOUT);
		exec('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($db)) or POSIX::_exit(99);
	}
	return $pid;
}

sub lsm_output { return slurp_file("$session_dir/$_[0].out"); }

# Until it has ended, or for so many seconds; true if it has.
sub lsm_ended
{
	my ($pid, $for) = @_;
	my $end = time + ($for // $PostgreSQL::Test::Utils::timeout_default);
	usleep(5_000) while !($ended{$pid} ||= waitpid($pid, POSIX::WNOHANG()) != 0) && time < $end;
	return $ended{$pid};
}

# Until one of them has ended (true), or some session has waited for something for half a second
sub lsm_ended_or_waits
{
	my ($node, @pids) = @_;
	my $waits = 0;
	while ($waits < 6)
	{
		foreach (@pids) { return 1 if lsm_ended($_, 0.06 / @pids); }
		$waits = $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND wait_event_type IN ('Lock', 'Extension', 'IPC')") > 0 ? $waits + 1 : 0;
	}
	return 0;
}

# A script for pgbench; returns its path.
sub lsm_script
{
	my ($name, $text) = @_;
	my $file = "$ENV{TESTDIR}/$name.sql";
	unlink $file;
	append_to_file($file, $text);
	return $file;
}

# What a power failure would do to files under pg_lsm that were never synced, given
# the log of faults.c: unsynced contents and directory entries are lost.
sub lsm_lose_unsynced
{
	my ($node, $log) = @_;
	my (%size, %entries, $lost);
	$lost = 0;
	open my $fh, '<', $log or return 0;
	while (<$fh>)
	{
		if    (/^f (\d+) (\d+) (\d+)$/) { $size{"$1 $2"} = $3; }
		elsif (/^d (\d+)$/)            { $entries{$1} = {}; }
		elsif (/^e (\d+) (.*)$/)       { $entries{$1}{$2} = 1; }
	}
	close $fh;
	my $made = $entries{ (stat(lsm_dir($node)))[1] };
	foreach my $dir (glob(lsm_dir($node) . '/*'))
	{
		next unless -d $dir;
		my $inode = (stat($dir))[1];
		if ($made && !$made->{ $dir =~ s{.*/}{}r })
		{
			remove_tree($dir);
			$lost++;
			note("lost: $dir (directory not synced)");
			next;
		}
		my $known = $entries{$inode} // {};
		foreach my $line (split /\n/, `stat -c '%i %W %n' '$dir'/* 2>/dev/null`)
		{
			my ($id, $file) = $line =~ /^(\d+ \d+) (.*)$/;
			(my $name = $file) =~ s{.*/}{};
			if (!$known->{$name})
			{
				unlink $file;
				$lost++;
				note("lost: $file (directory not synced)");
			}
			elsif (!defined $size{$id} || $size{$id} < -s $file)
			{
				note("lost: content of $file (" . ($size{$id} // 'nothing') . ' of ' . (-s $file) . ' bytes synced)');
				truncate($file, $size{$id} // 0);
				$lost++;
			}
		}
	}
	return $lost;
}

sub lsm_dir
{
	my ($node) = @_;
	return $node->data_dir . '/pg_lsm';
}

# The trees of a node that has not run yet lie on the small disk, which is empty and this test's alone.  REQUIRES: there is one.
my $small_disk;

sub lsm_on_small_disk
{
	my ($node) = @_;
	open $small_disk, '>', "$ENV{LSM_SMALL_DISK}.lock" or die "$ENV{LSM_SMALL_DISK}.lock: $!";
	flock($small_disk, LOCK_EX) or die "flock: $!";
	remove_tree($ENV{LSM_SMALL_DISK}, { keep_root => 1 });
	symlink($ENV{LSM_SMALL_DISK}, lsm_dir($node)) or die "symlink: $!";
	return;
}

# REQUIRES: the node is stopped.
sub lsm_off_small_disk
{
	my ($node) = @_;
	unlink lsm_dir($node);
	close $small_disk;
	return;
}

# Makes links of copied databases' files, as version 1.0 had them: files of the same name and content become one.
# REQUIRES: the node is stopped.  Returns how many.
sub lsm_link_files
{
	my ($node) = @_;
	my %first;
	my $links = 0;
	foreach my $file (lsm_files_of($node))
	{
		my $key = (split m{/}, $file)[-1] . ' ' . `md5sum < $file`;
		my $of = $first{$key} //= $file;
		next if $of eq $file;
		unlink $file;
		link($of, $file) or die "link: $!";
		$links++;
	}
	return $links;
}

# Sorted and filter files in the data directory.
sub lsm_files_of
{
	my ($node, $pattern) = @_;
	$pattern //= qr/\.(sst|flt)$/;
	my @files;
	find({ wanted => sub { push @files, $File::Find::name if $_ =~ $pattern && -f $_; },
		   no_chdir => 0, follow => 1, follow_skip => 2 }, lsm_dir($node))
	  if -d lsm_dir($node);
	@files = sort @files;
	return @files;
}

# Bits of the byte at this offset: those of the mask, or one of them.
sub lsm_flip_bits
{
	my ($file, $at, $mask) = @_;
	$mask //= 1 << int(rand(8));
	open my $fh, '+<:raw', $file or die "$file: $!";
	seek($fh, $at, 0);
	read($fh, my $byte, 1) == 1 or die "$file: no byte at $at";
	seek($fh, $at, 0);
	print $fh chr(ord($byte) ^ $mask);
	close $fh or die "$file: $!";
	return;
}

my @crc_table = map { my $c = $_; $c = $c & 1 ? ($c >> 1) ^ 0x82F63B78 : $c >> 1 for 1 .. 8; $c } 0 .. 255;

sub lsm_crc32c
{
	my ($data) = @_;
	my $crc = 0xFFFFFFFF;
	$crc = $crc_table[ ($crc ^ $_) & 0xFF ] ^ ($crc >> 8) foreach unpack('C*', $data);
	return $crc ^ 0xFFFFFFFF;
}

# A metapage that was changed by hand is as a build of its version would have written it.
sub lsm_seal_meta
{
	my ($file) = @_;
	open my $fh, '+<:raw', $file or die "$file: $!";
	seek($fh, 24, 0);
	read($fh, my $content, 1000) == 1000 or die "$file: no metapage";
	my $version = unpack('x4 V', $content);
	my $used = $version < 4 ? 96 : 104;
	substr($content, $used) = "\0" x (1000 - $used) if $version < 5;
	substr($content, 104, 4) = "\0" x 4;
	substr($content, 104, 4) = pack('V', lsm_crc32c($content)) if $version >= 5;
	seek($fh, 24, 0);
	print $fh $content;
	close $fh or die "$file: $!";
	return;
}

# Stop a running node, whose next transaction id is then `distance` ahead (rounded to a file of pg_xact).
sub lsm_jump_xid
{
	my ($node, $distance) = @_;
	my $segment = 1048576;		# transaction ids per file of pg_xact
	my ($full) = $node->safe_psql('postgres', 'SELECT pg_snapshot_xmax(pg_current_snapshot())::text');
	$node->stop;
	my $next = int(($full + $distance) / $segment) * $segment;
	my ($epoch, $xid) = (int($next / 2**32), $next % 2**32);
	($xid, $next) = ($segment, $next + $segment) if $xid < 3;
	my $file = sprintf('%s/pg_xact/%04X', $node->data_dir, $xid / $segment);
	if (!-e $file)
	{
		open my $fh, '>', $file or die;
		print $fh "\0" x ($segment / 4);
		close $fh;
	}
	$node->command_ok([ 'pg_resetwal', '-x', $xid, '-e', $epoch, '-D', $node->data_dir ], "next transaction id $epoch:$xid");
	return;
}

1;
