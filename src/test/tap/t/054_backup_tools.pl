# Backups by pgBackRest and by barman, taken under load with flushes, compactions and DDL, restored to their end and to
# points in time: lsm tables are equal to their heap twins by every scan, lsm_verify() finds nothing, and the server
# goes on.  pgBackRest: full, differential and incremental backups, and a restore that makes use of what a damaged data
# directory still has.  barman: streamed backups, and copies by rsync.
#   LSM_LONG=1: more of each
# may take: 2700 s
# packages: pgbackrest barman rsync
use strict;
use warnings;
use LsmBackup;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

sub program
{
	my ($name) = @_;
	return (grep { -x $_ } map { "$_/$name" } split /:/, $ENV{PATH})[0];
}
my @missing = grep { !program($_) } qw(pgbackrest barman rsync);
plan skip_all => "not installed: @missing" if @missing;

lsm_seed();
my $rounds = lsm_long() ? 5 : 1;
my $work = PostgreSQL::Test::Utils::tempdir();
my $config = "$work/pgbackrest.conf";
my @pgbackrest = ('pgbackrest', "--config=$config", '--stanza=twins');
my $primary = backup_primary('primary', segment => 4, conf => "archive_mode = on\narchive_command = '@pgbackrest archive-push %p'\n");
diag(join ', ', map { my $v = `$_`; chomp $v; $v } 'pgbackrest version', 'barman --version | head -1', 'rsync --version | head -1');

# ---- pgBackRest ----

mkdir "$work/$_" foreach qw(repo log lock spool);
append_to_file($config, qq{[global]
repo1-path=$work/repo
log-path=$work/log
lock-path=$work/lock
spool-path=$work/spool
log-level-console=warn
log-level-file=detail
start-fast=y
compress-type=lz4
process-max=1
repo1-retention-full=20

[twins]
pg1-path=@{[$primary->data_dir]}
pg1-port=@{[$primary->port]}
pg1-socket-path=@{[$primary->host]}
pg1-user=@{[scalar getpwuid($<)]}
});
command_ok([ @pgbackrest, 'stanza-create' ], 'pgBackRest: stanza-create');
command_ok([ @pgbackrest, 'check' ], 'pgBackRest: check');

my $nodes = 0;
sub rest_restored
{
	my ($what, $set, %opt) = @_;
	my $node = $opt{into} // backup_new_node('rest' . ++$nodes);
	my $space = $node->basedir . '/far';
	mkdir $_, 0700 foreach $node->data_dir, $space;
	my @options = ("--pg1-path=@{[$node->data_dir]}", "--tablespace-map-all=$space", "--set=$set", '--archive-mode=off', @{ $opt{options} // [] });
	command_ok([ @pgbackrest, 'restore', @options ], "$what: restore");
	backup_recover_to($node);
	my $command = slurp_file($node->data_dir . '/postgresql.auto.conf');
	die "no restore_command in $command" if $command !~ /restore_command = .*pgbackrest/;
	backup_check_restored($node, $what, %opt);
	return $node;
}

sub rest_backup
{
	my ($type, @options) = @_;
	my @before = backup_jobs($primary);
	command_checks_all([ @pgbackrest, "--type=$type", 'backup', @options ], 0, [qr/^$/], [qr/^$/], "pgBackRest: $type backup");
	my @after = backup_jobs($primary);
	note(($after[0] - $before[0]) . ' flushes, ' . ($after[1] - $before[1]) . ' compactions meanwhile');
	my $label = (sort map { m,([^/]+)$, } grep { -d $_ && !-l $_ } glob "$work/repo/backup/twins/[0-9]*")[-1];
	return $label;
}


# ---- barman ----

my $user = getpwuid($<);
my $bindir = program('pg_ctl') =~ s,/[^/]*$,,r;
my $conninfo = "host=@{[$primary->host]} port=@{[$primary->port]} user=$user dbname=postgres";
mkdir "$work/$_" foreach qw(barman barman.d);
# what barman runs on the server's machine, it runs here
append_to_file("$work/ssh", "#!/bin/sh\nwhile :; do case \$1 in localhost|-q|-T) shift;; -o) shift 2;; *) break;; esac; done\nexec sh -c \"\$*\"\n");
chmod 0755, "$work/ssh";
append_to_file("$work/barman.conf", "[barman]\nbarman_home = $work/barman\nbarman_user = $user\nconfiguration_files_directory = $work/barman.d\nlog_file = $work/barman.log\nlog_level = INFO\n");
foreach my $server ('streamed', 'rsynced')
{
	my $method = $server eq 'streamed' ? "backup_method = postgres\n" : "backup_method = rsync\nreuse_backup = link\nssh_command = $work/ssh localhost\n";
	append_to_file("$work/barman.d/$server.conf", "[$server]\ndescription = twins\nconninfo = $conninfo\nstreaming_conninfo = $conninfo\n$method"
		  . "archiver = off\nstreaming_archiver = on\nslot_name = $server\ncreate_slot = auto\npath_prefix = $bindir\nimmediate_checkpoint = true\n");
}
my @barman = ('barman', '-q', '-c', "$work/barman.conf");
my @receivers;
END
{
	my $status = $?;
	kill 'TERM', @receivers;
	waitpid($_, 0) foreach @receivers;
	$? = $status;
}

sub barman_says
{
	my ($out) = run_command([ 'barman', '-c', "$work/barman.conf", @_ ]);
	return $out;
}

sub barman_start
{
	my ($server) = @_;
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		open(STDOUT, '>', "$work/receive_$server.log");
		open(STDERR, '>&', \*STDOUT);
		exec(@barman, 'receive-wal', $server) or POSIX::_exit(99);
	}
	push @receivers, $pid;
	$primary->poll_query_until('postgres', "SELECT active FROM pg_replication_slots WHERE slot_name = '$server'", 't') or die 'barman receives no WAL: ' . slurp_file("$work/receive_$server.log");
	command_ok([ @barman, 'switch-wal', '--force', '--archive', $server ], "barman, $server: switch-wal");
	unlike(barman_says('check', $server), qr/FAILED/, "barman, $server: check");
	return;
}

sub barman_backup
{
	my ($server) = @_;
	my @before = backup_jobs($primary);
	command_ok([ @barman, 'backup', $server ], "barman, $server: backup");
	my @after = backup_jobs($primary);
	note(($after[0] - $before[0]) . ' flushes, ' . ($after[1] - $before[1]) . ' compactions meanwhile');
	return (sort split /\n/, barman_says('list-backup', '--minimal', $server))[-1];
}

# Everything up to now is in barman's hands.
sub barman_archive
{
	my ($server) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $file = $primary->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
	my $found = '';
	while ($found eq '' && time < $end)
	{
		system_or_bail(@barman, 'archive-wal', $server);
		$found = join '', glob "$work/barman/$server/wals/*/$file*";
		usleep(100_000) if $found eq '';
	}
	isnt($found, '', "barman, $server: all WAL is archived");
	return;
}

sub barman_restored
{
	my ($what, $server, $id, %opt) = @_;
	my $node = backup_new_node('barman' . ++$nodes);
	my $space = $node->basedir . '/far';
	command_ok([ @barman, 'check-backup', $server, $id ], "$what: check-backup");
	command_ok([ @barman, 'recover', '--tablespace', "far:$space", @{ $opt{options} }, $server, $id, $node->data_dir ], "$what: recover");
	backup_recover_to($node);
	backup_check_restored($node, $what, %opt);
	return;
}

# ---- backups under load ----

backup_load($primary);
backup_wait_jobs($primary, 20);
barman_start($_) foreach 'streamed', 'rsynced';
my (@sets, @barmans);
foreach my $round (1 .. $rounds)
{
	foreach my $type ('full', 'diff', 'incr')
	{
		my $name = "$type " . @sets;
		backup_mark($primary, "$name before");
		my $label = rest_backup($type);
		my $moment = backup_moment($primary, "point $name");
		push @sets, { name => $name, label => $label, moment => $moment, type => $type };
		backup_wait_jobs($primary, (backup_jobs($primary))[0] + 10);
	}
	foreach my $server ('streamed', 'rsynced')
	{
		my $id = barman_backup($server);
		backup_wait_jobs($primary, (backup_jobs($primary))[0] + 10);
		push @barmans, { name => "barman, $server $round", server => $server, id => $id, moment => backup_moment($primary, "barman $server $round") };
	}
}
is(backup_load_end(), '', 'the load runs all the time, without errors');
backup_archive_all($primary);
barman_archive($_) foreach 'streamed', 'rsynced';
command_ok([ @pgbackrest, 'verify' ], 'pgBackRest: verify');

# ---- pgBackRest restores ----

# What may become of a data directory: files are gone, cut, changed, and there are others.
sub damage
{
	my ($data) = @_;
	my @files = grep { -s $_ } glob "$data/pg_lsm/*/*.sst $data/pg_lsm/*/*.flt $data/base/*/[0-9][0-9][0-9][0-9][0-9]";
	foreach my $n (0 .. $#files)
	{
		my $file = $files[$n];
		my $mtime = (stat $file)[9];
		if    ($n % 7 == 0) { unlink $file; }
		elsif ($n % 7 == 2) { truncate $file, (-s $file) / 2; }
		elsif ($n % 7 == 4)
		{
			# size and time stay
			open(my $fh, '+<:raw', $file) or die "$file: $!";
			seek($fh, (-s $file) / 3, 0);
			print $fh 'damage' x 20;
			close $fh;
			utime $mtime, $mtime, $file;
		}
	}
	my ($dir) = glob "$data/pg_lsm/????????????????";
	append_to_file("$dir/999999.sst", 'not of this backup');
	mkdir "$data/pg_lsm/0123456789abcdef";
	append_to_file("$data/pg_lsm/0123456789abcdef/000001.sst", 'nor is this');
	return;
}

my $node;
foreach my $set (@sets)
{
	my $what = "pgBackRest, $set->{name}";
	my $moment = $set->{moment};
	if ($set->{type} eq 'full')
	{
		$node = rest_restored($what, $set->{label}, options => [ '--type=immediate', '--target-action=promote' ],
			checksums => 1, keep => 1, present => ["$set->{name} before"], absent => ["$moment->{name} after"]);
	}
	elsif ($set->{type} eq 'diff')
	{
		rest_restored("$what, by xid", $set->{label}, options => [ '--type=xid', "--target=$moment->{xid}", '--target-action=promote' ], moment => $moment, at => 1);
	}
	else
	{
		# the directory of the full backup, which has gone its own way since
		damage($node->data_dir);
		rest_restored("$what, by name, over a damaged directory", $set->{label}, into => $node, options => [ '--delta', '--type=name', "--target=$moment->{name}", '--target-action=promote' ], moment => $moment, checksums => 1, orphans => 1);
	}
}

# Without a database, which is to be dropped then, and so is what replay may have copied from it
rest_restored('pgBackRest, without a database', $sets[-1]{label}, options => [ '--db-exclude=template', '--type=name', "--target=$sets[-1]{moment}{name}", '--target-action=promote' ],
	moment => $sets[-1]{moment}, drop => [ 'template', 'copied' ], orphans => 1);

# ---- barman recovers ----

foreach my $b (@barmans)
{
	my $moment = $b->{moment};
	my @target = $b->{server} eq 'streamed' ? ('--target-xid', $moment->{xid}) : ('--target-name', $moment->{name});
	barman_restored($b->{name}, $b->{server}, $b->{id}, options => [ @target, '--target-action', 'promote' ], moment => $moment, at => $b->{server} eq 'streamed', checksums => 1);
}

note(backup_restored() . ' backups restored');
cmp_ok(backup_restored(), '>=', 25, 'backups restored') if lsm_long();
kill 'TERM', @receivers;
waitpid($_, 0) foreach @receivers;
@receivers = ();
$primary->stop;
done_testing();
