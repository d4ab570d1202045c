# pg_basebackup ends in an error when a directory vanishes under it.  So it finds the directories of dropped lsm tables,
# empty, as long as it runs, and knows nothing of those of temporary tables; and when it is over, they go.
#   LSM_LONG=1: more backups
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

my $primary = lsm_node('primary', conf => "max_wal_senders = 8\nmax_wal_size = 1GB\nwal_keep_size = 2GB");
$primary->append_conf('postgresql.conf', "fsync = off");
append_to_file($primary->data_dir . '/pg_hba.conf', "local replication all trust\n");
lsm_start($primary);
$primary->safe_psql('postgres', q{
	CREATE TABLE stays (a int PRIMARY KEY, b text) USING lsm;
	INSERT INTO stays SELECT i, repeat('x', 200) FROM generate_series(1, 20000) i;
	SELECT lsm_flush('stays');
});
my $backups = $primary->backup_dir;
mkdir $backups;
$primary->backup('first');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'first', has_streaming => 1);
$standby->start;

sub directories { my ($node) = @_; return sort grep { -d $_ } glob(lsm_dir($node) . '/*'); }

# A backup that takes long; its directory
sub slow_backup
{
	my ($node, $name) = @_;
	my $dir = "$backups/$name";
	my $run = IPC::Run::start([ 'pg_basebackup', '-D', $dir, '-c', 'fast', '-X', 'none', '-r', '128k', '--no-sync', '--no-verify-checksums',
			'--no-manifest', '-d', $node->connstr('postgres') ], '>', \my $out, '2>', \my $err);
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_progress_basebackup WHERE phase = 'streaming database files'})
	  or die 'the backup does not begin';
	return $run;
}

sub wait_for
{
	my ($what, $is) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	while (!$is->())
	{
		return fail($what) if time > $end;
		usleep(50_000);
	}
	return pass($what);
}

# ---- while it runs: directories stay, files do not ----

foreach my $node ($primary, $standby)
{
	my $where = $node->name;
	my @before = directories($node);
	$primary->safe_psql('postgres', q{
		CREATE TABLE goes (a int PRIMARY KEY, b text) USING lsm;
		INSERT INTO goes SELECT i, repeat('x', 200) FROM generate_series(1, 2000) i;
		SELECT lsm_flush('goes');
	});
	$primary->wait_for_catchup($standby);
	my %old = map { $_ => 1 } @before;
	my @new = grep { !$old{$_} } directories($node);
	cmp_ok(scalar(@new), '>=', 2, "$where: directories of a table and its key");
	my $backup = slow_backup($node, "slow_$where");
	$primary->safe_psql('postgres', 'DROP TABLE goes');
	# at once, or by the sweep
	wait_for("$where: files of a dropped table go during a backup", sub {
		$primary->safe_psql('postgres', 'CHECKPOINT');
		return !grep { glob("$_/*") } @new;
	});
	usleep(500_000);
	is(join(' ', grep { !-d $_ } @new), '', "$where: their directories do not");
	$backup->kill_kill;
	# with the next one that goes
	wait_for("$where: they go after it", sub {
		$primary->safe_psql('postgres', 'CREATE TABLE other (a int) USING lsm; DROP TABLE other');
		return !grep { -d $_ } @new;
	});
}

# ---- a backup knows no temporary table ----

my $session = $primary->background_psql('postgres', on_error_stop => 1);
$session->query_safe(q{
	CREATE TEMP TABLE own (a int PRIMARY KEY, b text) USING lsm;
	INSERT INTO own SELECT i, 'x' FROM generate_series(1, 3000) i;
	SELECT lsm_flush('own');
});
my @temporary = grep { m,/pgsql_tmp, } directories($primary);
is(scalar(@temporary), 2, 'a temporary table and its key have directories of their own kind');
$primary->backup('with_temporary');
is(join(' ', glob("$backups/with_temporary/pg_lsm/pgsql_tmp*")), '', 'which are not in a backup');
cmp_ok(scalar(my @kept = glob("$backups/with_temporary/pg_lsm/*")), '>', 1, 'others are');
is($session->query_safe('SELECT count(*) FROM own WHERE a > 1000'), '2000', 'the table is served');
$session->quit;
wait_for('its directories go with the session', sub { !grep { -d $_ } @temporary });

# ---- many that come and go ----

my $temporary = PostgreSQL::Test::Utils::tempdir() . '/temporary.sql';
append_to_file($temporary, q{CREATE TEMP TABLE t (a int PRIMARY KEY, b text) USING lsm;
INSERT INTO t VALUES (1, 'x');
DROP TABLE t;
});
my $permanent = PostgreSQL::Test::Utils::tempdir() . '/permanent.sql';
append_to_file($permanent, q{CREATE TABLE p:client_id (a int PRIMARY KEY, b text) USING lsm;
DROP TABLE p:client_id;
});
my $seconds = lsm_long() ? 300 : 15;
my @load = map { IPC::Run::start([ 'pgbench', '-n', '-c', 2, '-T', $seconds, '-f', $_, '-d', $primary->connstr('postgres') ], '>', \my $o, '2>', \my $e) }
  $temporary, $permanent;
my $end = time + $seconds - 1;
my ($taken, @refused) = (0);
while (time < $end)
{
	foreach my $node ($primary, $standby)
	{
		my ($out, $err) = run_command([ 'pg_basebackup', '-D', "$backups/quick", '-c', 'fast', '-X', 'none', '--no-sync', '--no-manifest',
				'-d', $node->connstr('postgres') ]);
		$taken++;
		push @refused, $err if $err =~ /error/;
		system_or_bail('rm', '-rf', "$backups/quick");
	}
}
$_->finish foreach @load;
note("$taken backups");
cmp_ok($taken, '>', 1, 'backups were taken amid CREATE and DROP');
is(join("\n", @refused), '', 'none was refused');

$primary->wait_for_catchup($standby);
is($_->safe_psql('postgres', 'SELECT count(*), sum(a) FROM stays'), '20000|200010000', $_->name . ': the table that stays') foreach $primary, $standby;
is($primary->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname ~ '^p\d'}), '0', 'the load has ended its work');
wait_for('no directory stays behind', sub {
	$primary->safe_psql('postgres', 'CHECKPOINT');
	my @left = directories($primary);
	return @left == 2;
});
note(map { "$_: " . (-e "$_/owner" ? slurp_file("$_/owner") : "empty\n") } directories($primary));
is($primary->safe_psql('postgres', q{SELECT count(*) FROM lsm_verify('stays')}), '0', 'lsm_verify finds nothing');
$standby->stop;
$primary->stop;
done_testing();
