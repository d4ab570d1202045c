# Backups by PostgreSQL's own tools, taken from a server and its standby under load with flushes, compactions and DDL:
# pg_basebackup, plain and tar, with each way of getting the WAL; and copies file by file, in the orders that are worst
# for files that come and go.  Each is restored, to its end and to points in time: lsm tables are equal to their heap
# twins by every scan, lsm_verify() finds nothing, all is as it was at that point, and the server goes on.
#   LSM_LONG=1: more of each
use strict;
use warnings;
use File::Copy;
use LsmBackup;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

lsm_seed();
my $rounds = lsm_long() ? 3 : 1;
my $primary = backup_primary('primary', segment => 1);
my $archive = $primary->archive_dir;
$primary->enable_archiving;
$primary->restart;
my $restore = qq{cp "$archive/%f" "%p"};
my $backups = $primary->backup_dir;

# pg_basebackup ends in an error if the directory of a database goes away between the look at it and its opening.  It
# is to be run again then.
sub run_base_backup
{
	my ($dir, @command) = @_;
	foreach (1 .. 5)
	{
		my ($out, $err) = run_command([ 'pg_basebackup', @command ]);
		return if -e "$dir/backup_manifest";
		die "pg_basebackup: $err" if $err !~ m,could not open directory "./base/,;
		note($err);
		system_or_bail('rm', '-rf', $dir, glob "$dir.far/*");
	}
	die 'pg_basebackup fails each time';
}

# The directory, as a plain backup
sub base_backup
{
	my ($node, $name, @options) = @_;
	my $space = "$backups/$name.far";
	my @where = ('-D', "$backups/$name", '-c', 'fast', '-r', '32M', '--no-sync', '-d', $node->connstr('postgres'));
	if (!grep { $_ eq 't' } @options)
	{
		run_base_backup("$backups/$name", @where, '--tablespace-mapping', "@{[far_of($node)]}=$space", @options);
		command_ok([ 'pg_verifybackup', "$backups/$name" ], "$name: pg_verifybackup");
		return "$backups/$name";
	}
	run_base_backup("$backups/$name", @where, @options);
	my $plain = "$backups/$name.plain";
	mkdir $_, 0750 foreach $plain, $space;
	foreach my $tar (glob "$backups/$name/*.tar*")
	{
		my ($what) = $tar =~ m,/([^/]*)\.tar,;
		my $to = $what eq 'base' ? $plain : $what eq 'pg_wal' ? "$plain/pg_wal" : $space;
		system_or_bail('tar', 'xf', $tar, '-C', $to);
	}
	# for pg_verifybackup, which follows the links; recovery makes them by the map
	symlink $space, "$plain/pg_tblspc/@{[far_oid()]}";
	copy("$backups/$name/backup_manifest", "$plain/backup_manifest");
	command_ok([ 'pg_verifybackup', $plain ], "$name: pg_verifybackup");
	unlink "$plain/pg_tblspc/@{[far_oid()]}";
	backup_move_tablespace($plain, far_of($node), $space);
	return $plain;
}

my $far_oid;
sub far_oid { return $far_oid //= $primary->safe_psql('postgres', "SELECT oid FROM pg_tablespace WHERE spcname = 'far'"); }

sub far_of { my ($node) = @_; return readlink($node->data_dir . '/pg_tblspc/' . far_oid()); }

# A node from a backup, which it takes if `take`, or copies
my $nodes = 0;
sub restored_node
{
	my ($dir, %opt) = @_;
	my $node = backup_new_node('restored' . ++$nodes);
	if ($opt{take})
	{
		rename $dir, $node->data_dir or die "rename: $!";
	}
	else
	{
		my $space = PostgreSQL::Test::Utils::tempdir();
		system_or_bail('cp', '-a', $dir, $node->data_dir);
		my $link = $node->data_dir . '/pg_tblspc/' . far_oid();
		my $from = -l $link ? readlink($link) : slurp_file("$dir/tablespace_map") =~ / (.*)$/m && $1;
		system_or_bail('cp', '-a', "$from/.", $space);
		backup_move_tablespace($node->data_dir, $from, $space) if -e "$dir/tablespace_map";
		if (-l $link) { unlink $link; symlink $space, $link; }
	}
	unlink $node->data_dir . '/standby.signal';
	backup_recover_to($node, %opt);
	return $node;
}

backup_load($primary);
backup_wait_jobs($primary, 20);

# ---- pg_basebackup, of the server and of a standby ----

my @restores = ([ 'plain, streamed', base_backup($primary, 'plain_stream', '-X', 'stream') ]);
my $standby = restored_node($restores[0][1]);
append_to_file($standby->data_dir . '/postgresql.auto.conf', "primary_conninfo = '@{[$primary->connstr]}'\nhot_standby_feedback = on\n");
$standby->set_standby_mode;
$standby->start;
foreach my $round (1 .. $rounds)
{
	push @restores, [ "tar, fetched $round", base_backup($primary, "tar_fetch$round", '-F', 't', '-X', 'fetch') ],
	  [ "standby: plain, streamed $round", base_backup($standby, "standby_plain$round", '-X', 'stream') ];
	next unless lsm_long();
	push @restores, [ "plain, fetched $round", base_backup($primary, "plain_fetch$round", '-X', 'fetch') ],
	  [ "tar, streamed, compressed $round", base_backup($primary, "tar_stream$round", '-F', 't', '-X', 'stream', '-z') ],
	  [ "standby: tar, fetched $round", base_backup($standby, "standby_tar$round", '-F', 't', '-X', 'fetch') ];
}

# ---- file by file, while dozens of flushes and compactions and all kinds of DDL happen ----

# pg_control comes last, as the manual says of standbys
my %orders = (
	'sorted files first' => sub { return (grep({ m,^/pg_lsm/, } sort @_), grep { !m,^/pg_lsm/, } reverse sort @_); },
	'sorted files last' => sub { return (grep({ !m,^/pg_lsm/, } sort @_), grep { m,^/pg_lsm/, } sort @_); });
my $skip = qr{^/(postmaster\.(pid|opts)|pg_wal/.*|pg_replslot/.*|pg_stat_tmp/.*|pg_subtrans/.*|pg_dynshmem/.*|pg_notify/.*|pg_serial/.*|pg_snapshots/.*|.*pgsql_tmp.*|current_logfiles|.*pg_internal\.init.*|global/pg_control|standby.signal|tablespace_map|backup_(label|manifest)(\.old)?)$};
my $steps = 10;
sub copy_file_by_file
{
	my ($node, $what, $order) = @_;
	my $dir = "$backups/low" . ++$nodes;
	my $session = $node->background_psql('postgres');
	$session->query_safe("SELECT pg_backup_start('low', true)");
	my @before = backup_jobs($primary);
	my $step = 0;
	my $between = sub {
		my ($n, $total) = @_;
		return if $step == $steps || $n < $total * ($step + 1) / ($steps + 1);
		$step++;
		backup_wait_jobs($primary, $before[0] + 3 * $step);
		backup_wait_ddl($primary, $before[2] + $step);
	};
	my $copy_space = sub { backup_copy_dir(far_of($node), "$dir.far", order => $orders{$order}); };
	$copy_space->() if $order =~ /last/;
	backup_copy_dir($node->data_dir, $dir, skip => $skip, order => $orders{$order}, between => $between);
	$copy_space->() if $order =~ /first/;
	copy($node->data_dir . '/global/pg_control', "$dir/global/pg_control") or die "copy: $!";
	my @after = backup_jobs($primary);
	cmp_ok($step, '==', $steps, "$what, $order: $after[0] - $before[0] flushes, $after[1] - $before[1] compactions, $after[2] - $before[2] transactions with DDL meanwhile");
	my $out = $session->query_safe("SELECT labelfile, '---', spcmapfile FROM pg_backup_stop(false)");
	$session->quit;
	my ($label, $map) = $out =~ /^(.*)\|---\|(.*)$/s or die "pg_backup_stop: $out";
	append_to_file("$dir/backup_label", $label);
	append_to_file("$dir/tablespace_map", $map =~ /\n$/ ? $map : "$map\n");
	backup_move_tablespace($dir, far_of($node), "$dir.far");
	push @restores, [ "$what, $order", $dir, $restore ];
	return $dir;
}
my $for_points;
foreach my $round (1 .. $rounds)
{
	foreach my $order (sort keys %orders)
	{
		copy_file_by_file($standby, "standby: file by file $round", $order) if lsm_long() || $order =~ /first/;
		$for_points = copy_file_by_file($primary, "file by file $round", $order);
	}
}

# ---- points in time ----

my @points;
foreach my $round (1 .. $rounds)
{
	foreach my $kind (qw(name lsn time xid))
	{
		backup_wait_jobs($primary, (backup_jobs($primary))[0] + 4);
		push @points, [ $kind, backup_moment($primary, "$kind$round") ];
	}
}
backup_wait_jobs($primary, (backup_jobs($primary))[0] + 4);
is(backup_load_end(), '', 'the load runs all the time, without errors');
backup_archive_all($primary);

my $whole = $restores[0][1];
foreach my $r (@restores)
{
	my ($what, $dir, $command) = @$r;
	my $points = $dir eq $for_points;
	my $node = restored_node($dir, restore => $command, take => !$points && $dir ne $whole, ($command ? (target => { immediate => 1 }) : ()));
	backup_check_restored($node, $what, checksums => 1, orphans => $points);
}

# What comes with the moment's own transaction is there if that is the target, and inclusive
sub recover_to_point
{
	my ($what, $moment, $target, %opt) = @_;
	my $node = restored_node($for_points, restore => $restore, target => $target);
	$opt{before}->($node, $moment) if $opt{before};
	backup_check_restored($node, $what, moment => $moment, at => $opt{at});
	return;
}
foreach my $p (@points)
{
	my ($kind, $moment) = @$p;
	my $value = $kind eq 'name' ? $moment->{name} : $moment->{$kind};
	recover_to_point("point in time by $kind", $moment, { $kind => $value }, at => $kind eq 'xid');
	recover_to_point("point in time by $kind, exclusive", $moment, { $kind => $value, inclusive => 'off' }) if $kind ne 'name' && (lsm_long() || $kind eq 'xid');
}

# ---- killed amid the recovery ----

# Serves segments until so many have been served; then waits, to be killed.
my $hold = "$ENV{TESTDIR}/backup_hold";
sub killed
{
	my ($node, $moment) = @_;
	my $script = "$hold.sh";
	unlink $script;
	append_to_file($script, qq{[ -e "$archive/\$1" ] || exit 1
echo \$1 >> $hold.served
while [ \$(wc -l < $hold.served) -gt \$(cat $hold) ]; do touch $hold.waits; sleep 0.05; done
cp "$archive/\$1" "\$2"
});
	append_to_file($node->data_dir . '/postgresql.auto.conf', "restore_command = 'sh $script %f %p'\n");
	my $last = $primary->safe_psql('postgres', "SELECT pg_walfile_name('$moment->{lsn}')");
	my $kills = 0;
	foreach my $kill (1 .. (lsm_long() ? 8 : 3))
	{
		# from the backup's beginning, or the last restartpoint
		my $label = $node->data_dir . '/backup_label';
		my ($first) = -e $label ? slurp_file($label) =~ /^START WAL LOCATION.*file (\S+)\)/
		  : `pg_controldata -D '@{[$node->data_dir]}'` =~ /REDO WAL file:\s+(\S+)/;
		my $segments = grep { /^[0-9A-F]{24}$/ && $_ ge $first && $_ le $last } map { s,.*/,,r } glob "$archive/*";
		note("$segments segments to replay");
		last if $segments < 5;
		my $until = 2 + int(rand($segments - 3));
		unlink $hold, "$hold.waits", "$hold.served";
		append_to_file($hold, "$until\n");
		append_to_file("$hold.served", '');
		PostgreSQL::Test::Utils::system_log('pg_ctl', '-W', '-s', '-D', $node->data_dir, '-l', $node->logfile, 'start');
		my $end = time + $PostgreSQL::Test::Utils::timeout_default;
		usleep(20_000) while !-e "$hold.waits" && time < $end;
		die 'recovery does not ask for so many segments' unless -e "$hold.waits";
		usleep(int(rand(50_000)));
		my @pids = lsm_pids($node);
		kill 'KILL', @pids;
		lsm_clear_crashed($node, @pids);
		$kills++;
	}
	cmp_ok($kills, '>', 0, 'recovery was killed');
	unlink $hold;
	append_to_file($hold, "1000000\n");
	return;
}
foreach my $round (1 .. $rounds)
{
	recover_to_point("killed while it recovers $round", $points[-1][1], { xid => $points[-1][1]{xid} }, before => \&killed, at => 1);
}

# ---- a backup that is not whole is noticed ----

my $broken = restored_node($whole, restore => $restore, target => { immediate => 1 });
my $gone = backup_keyspace($primary, 'still2_l');
my $short = backup_keyspace($primary, 'still_l');
my ($file) = glob($broken->data_dir . "/pg_lsm/$short/*.sst");
(my $name = $file) =~ s,.*/,,;
unlink $file;
system_or_bail('rm', '-r', $broken->data_dir . "/pg_lsm/$gone");
command_fails_like([ 'pg_verifybackup', '-n', $broken->data_dir ], qr/"pg_lsm\/$short\/$name" is present in the manifest but not on disk/, 'pg_verifybackup misses a file');
$broken->start;
my ($rc, $out, $err) = $broken->psql('postgres', 'SELECT count(*) FROM still_l');
like($err, qr/ERROR:.*$short\/$name/, 'a sorted file is missing: an error that names it');
($rc, $out, $err) = $broken->psql('postgres', 'SELECT count(*) FROM still2_l');
like($err, qr/ERROR:.*$gone/, 'a keyspace is missing: an error that names it');
is($broken->safe_psql('postgres', 'SELECT count(*) FROM ((SELECT * FROM s_h EXCEPT ALL SELECT * FROM s_l) UNION ALL (SELECT * FROM s_l EXCEPT ALL SELECT * FROM s_h)) d'), '0', 'other tables are whole');
$broken->stop;

note(backup_restored() . ' backups restored');
cmp_ok(backup_restored(), '>=', 25, 'backups restored') if lsm_long();
$standby->stop;
$primary->stop;
done_testing();
