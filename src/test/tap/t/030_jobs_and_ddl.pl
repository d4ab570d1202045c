# Every job (flush and compaction by a worker and by a session, VACUUM, the building of an index), held at each of its
# steps, against every command that gives a relation another fork or takes its own away, and against the rollback
# of those that can be rolled back.  The command may wait for the job, or go on without it.  In the end nobody
# has failed, the lsm table has the rows of its heap twin, lsm_verify finds nothing, all this after a crash, too,
# and there are no files that no tree knows.
#   LSM_LONG=1    every step with every command; else each command with each kind of job at one step, chosen at
#                 random, and half of the rollbacks
#   LSM_WORKERS   lsm.compaction_workers (1); with 0, one worker does everything
#   LSM_SEED=...  LSM_JOB_KINDS="name name"  LSM_DDL="name name"  only these
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

lsm_seed();
my $workers = $ENV{LSM_WORKERS} // 1;
my $filter = (qw(blocked elastic cascade))[ int(rand(3)) ];
my $node = lsm_node('jobs', conf => "allow_in_place_tablespaces = on\nautovacuum = off\nlsm.crash_point = '?'\nfsync = off\n"
	  . "lsm.memtable_size = 64kB\nlsm.target_file_size = 64kB\nlsm.size_ratio = 2\nlsm.compaction_workers = $workers\nlsm.filter_scheme = $filter\nlsm.compression = none\nmax_connections = 60");
lsm_start($node);
$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION ''");
$node->safe_psql('template1', 'CREATE EXTENSION lsmam');

my @flush = map { "flush_$_" } 'started', 'file_written', 'filter_written', 'dir_synced', 'before_edit', 'after_edit', 'after_retire';
my @compact = map { "compact_$_" } 'started', 'file_written', 'before_edit', 'after_edit', 'after_unlink';

# What starts the job, in a session (of a worker's: again until it has begun); whose tree it is of; where it can be held.
# NAME_h and NAME_l stand for the tables.
my %jobs = (
	flush_index => { kind => 'flush', who => 'worker', tree => 'NAME_l_v', points => \@flush },
	flush_table => { kind => 'flush', who => 'worker', tree => 'NAME_l', points => \@flush },
	compact_index => { kind => 'compaction', who => 'worker', tree => 'NAME_l_v', points => [ @compact, 'unlink_queue' ] },
	compact_table => { kind => 'compaction', who => 'worker', tree => 'NAME_l', points => \@compact },
	lsm_flush => { kind => 'flush', who => 'backend', tree => 'NAME_l_v', points => \@flush, sql => "SET lsm.bits_per_key = 11; SELECT lsm_flush('NAME_l')" },
	lsm_compact => { who => 'backend', tree => 'NAME_l_v', points => \@compact, sql => "SET lsm.bits_per_key = 11; SELECT lsm_compact('NAME_l')" },
	vacuum => { who => 'backend', tree => 'NAME_l', points => \@flush, sql => 'SET lsm.bits_per_key = 11; VACUUM NAME_l' },
	build => { who => 'backend', points => [ 'build_file_written', 'build_before_edit', 'build_after_edit' ], sql => 'CREATE INDEX NAME_l_w ON NAME_l USING lsm (v, id)' });

# Of a pair (before, after) the second goes with the heap table as well.  database: about the database itself; gone: no table is left
my %ddl = (
	tablespace_table => { sql => 'ALTER TABLE NAME_l SET TABLESPACE other', rollback => 1 },
	tablespace_index => { sql => 'ALTER INDEX NAME_l_v SET TABLESPACE other', rollback => 1 },
	truncate => { sql => 'TRUNCATE NAME_l, NAME_h', rollback => 1 },
	drop => { sql => 'DROP TABLE NAME_l', rollback => 1, gone => 1 },
	drop_index => { sql => 'DROP INDEX NAME_l_v', rollback => 1 },
	reindex => { sql => 'REINDEX INDEX NAME_l_v', rollback => 1 },
	reindex_concurrently => { sql => 'REINDEX INDEX CONCURRENTLY NAME_l_v' },
	cluster => { sql => 'CLUSTER NAME_l USING NAME_l_v', rollback => 1 },
	vacuum_full => { sql => 'VACUUM FULL NAME_l' },
	set_unlogged => { sql => 'ALTER TABLE NAME_l SET UNLOGGED; ALTER TABLE NAME_l SET LOGGED', rollback => 1 },
	# the new index takes the fork of the old one
	alter_type => { sql => 'ALTER TABLE NAME_l ALTER v TYPE varchar; ALTER INDEX NAME_l_v SET TABLESPACE other', rollback => 1 },
	rewrite => { sql => 'ALTER TABLE NAME_l ALTER id TYPE bigint', rollback => 1 },
	tablespace_database => { sql => 'ALTER DATABASE DB SET TABLESPACE other', database => 1 },
	create_database => { sql => 'CREATE DATABASE DB_copy TEMPLATE DB STRATEGY HOWCOPIED', database => 1, copy => 1 },
	drop_database => { sql => 'DROP DATABASE DB', database => 1, gone => 1 });

# ---- sessions ----

sub output { return join('', grep { !/^$|NOTICE|^(DETAIL|HINT):/ } map { "$_\n" } split /\n/, lsm_output($_[0])); }

# ---- tables ----

sub named
{
	my ($sql, $pair) = @_;
	my $strategy = $pair->{n} % 2 ? 'wal_log' : 'file_copy';
	return $sql =~ s/NAME/$pair->{name}/gr =~ s/HOWCOPIED/$strategy/r =~ s/DB/$pair->{db}/gr;
}

# The same rows in both tables; with those changed that lie in other files
sub write_rows
{
	my ($pair, $from) = @_;
	return join('', map { named("INSERT INTO NAME_$_ SELECT i, md5(i::text) || repeat('x', i % 50) FROM generate_series($from, $from + 179) i;\n"
			  . "UPDATE NAME_$_ SET id = id WHERE id % 50 = 7;\n", $pair) } 'h', 'l');
}

sub differences
{
	my ($pair, $db) = @_;
	my $sql = named(q{
SELECT 'rows: ' || count(*) FROM ((SELECT id, v FROM NAME_h EXCEPT ALL SELECT id, v FROM NAME_l) UNION ALL (SELECT id, v FROM NAME_l EXCEPT ALL SELECT id, v FROM NAME_h)) d HAVING count(*) > 0;
SELECT object || ': ' || problem FROM lsm_verify('NAME_l') LIMIT 5;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT 'by index: ' || count(*) FROM (SELECT v FROM NAME_h EXCEPT ALL SELECT v FROM NAME_l WHERE v > '') d HAVING count(*) > 0;
}, $pair);
	my ($rc, $out, $err) = $node->psql($db, $sql);
	return $out . ($rc != 0 || $err =~ /ERROR|WARNING/ ? "psql exits with $rc: $err" : '');
}

# ---- pairs ----

# True if the job has begun and is held.
sub hold_job
{
	my ($pair, $job, $point) = @_;
	$node->safe_psql($pair->{db}, named(qq{CREATE $pair->{unlogged} TABLE NAME_h (id int, v text) USING heap;
CREATE $pair->{unlogged} TABLE NAME_l (id int, v text) USING lsm;
CREATE INDEX NAME_l_v ON NAME_l USING lsm (v)}, $pair));
	my $oid = $job->{tree} ? $node->safe_psql($pair->{db}, named("SELECT '$job->{tree}'::regclass::oid", $pair)) : 0;
	if ($job->{sql})
	{
		$node->safe_psql($pair->{db}, write_rows($pair, 1000) . named("SELECT lsm_flush('NAME_l');\n", $pair) . write_rows($pair, 2000) . named("DELETE FROM NAME_$_ WHERE id % 10 = 3;\n", $pair)) foreach 'l';
		$node->safe_psql($pair->{db}, named('DELETE FROM NAME_h WHERE id % 10 = 3', $pair));
		foreach my $i (1 .. 20)
		{
			# a worker may have been faster: then there is something new
			$node->safe_psql($pair->{db}, named(join('', map { "INSERT INTO NAME_$_ SELECT $i, 'again' FROM generate_series(1, 20);\n" } 'h', 'l'), $pair));
			lsm_hold($node, $point, 'backend', $oid);
			$pair->{job_pid} = lsm_start_session($node, $pair->{db}, 'job', named($job->{sql}, $pair));
			usleep(5_000) until lsm_wait_held($node, 0) || lsm_ended($pair->{job_pid}, 0);
			last if lsm_wait_held($node, 0);
		}
	}
	else
	{
		lsm_hold($node, $point, 'worker', $oid);
		foreach my $i (1 .. 60)
		{
			# at first what it takes
			my @batches = $i > 1 || $point =~ /flush/ ? ($i) : map { $i + $_ / 5 } 0 .. 4;
			my $writer = lsm_start_session($node, $pair->{db}, 'job', join('', map { write_rows($pair, 1000 * $_) } @batches));
			lsm_ended_or_waits($node, $writer);
			$pair->{job_pid} = $writer;
			last if lsm_wait_held($node, 0.01);
			lsm_ended($writer);
		}
	}
	return lsm_wait_held($node, 60);
}

# The command, and what a session that comes first to the new fork does: loads the tree, and makes files
sub commands
{
	my ($pair, $ddl, $rollback) = @_;
	my $more = $ddl->{gone} && !$rollback ? '' : join('', map { write_rows($pair, 100_000 + 1000 * $_) . named("SELECT lsm_flush('NAME_l');\n", $pair) } 1, 2);
	return named("$ddl->{sql};\n", $pair) . $more if !$rollback;
	return "BEGIN;\n" . named("$ddl->{sql};\n", $pair) . ($ddl->{gone} ? '' : write_rows($pair, 200_000)) . "ROLLBACK;\n" . $more;
}

my @alive;		# pairs whose tables are there
my $n = 0;
sub run_pair
{
	my ($job_name, $point, $ddl_name, $rollback) = @_;
	my ($job, $ddl) = ($jobs{$job_name}, $ddl{$ddl_name});
	my $what = "$job_name at $point, $ddl_name" . ($rollback ? ' rolled back' : '');
	my $pair = { n => ++$n, name => "p$n", what => $what, db => $ddl->{database} ? "db$n" : 'postgres' };
	# not where one of the twins alone becomes permanent; nor with a rollback, after which a crash may leave an init fork
	# that keeps PostgreSQL 15 from starting
	$pair->{unlogged} = $n % 4 == 3 && !$rollback && $ddl_name ne 'set_unlogged' ? 'UNLOGGED' : '';
	$what .= ', unlogged' if $pair->{unlogged};
	$pair->{what} = $what;
	$node->safe_psql('postgres', "CREATE DATABASE $pair->{db}") if $ddl->{database};
	my $held = hold_job($pair, $job, $point);
	my $ddl_pid;
	if ($ddl->{database})
	{
		lsm_ended($pair->{job_pid}, 5);
		$ddl_pid = lsm_start_session($node, 'postgres', 'ddl', named($ddl->{sql}, $pair));
	}
	else
	{
		$ddl_pid = lsm_start_session($node, $pair->{db}, 'ddl', commands($pair, $ddl, $rollback));
	}
	my $at_once = lsm_ended_or_waits($node, $ddl_pid);
	my $after;
	if ($at_once && $ddl->{database} && !$ddl->{gone})
	{
		$after = lsm_start_session($node, $pair->{db}, 'after', write_rows($pair, 100_000) . named("SELECT lsm_flush('NAME_l')", $pair));
		lsm_ended_or_waits($node, $after);
	}
	lsm_release($node);
	my $end = lsm_ended($ddl_pid) && lsm_ended($pair->{job_pid});
	if ($ddl->{database} && !$ddl->{gone})
	{
		$after //= lsm_start_session($node, $pair->{db}, 'after', write_rows($pair, 100_000) . named("SELECT lsm_flush('NAME_l')", $pair));
		$end &&= lsm_ended($after);
	}
	my $wrong = ($held ? '' : "the job was not held\n") . ($end ? '' : "it does not come to an end\n")
	  . join('', map { output($_) } 'ddl', 'job', $after ? 'after' : ());
	unless ($ddl->{gone} && !$rollback)
	{
		$wrong .= differences($pair, $pair->{db});
		push @alive, $pair;
		if ($ddl->{copy})
		{
			my $copy = { %$pair, db => "$pair->{db}_copy" };
			$pair->{copy} = $copy;
			my ($rc, $out, $err) = $node->psql($copy->{db}, named("SELECT object || ': ' || problem FROM lsm_verify('NAME_l'); SELECT 'copy: ' FROM NAME_h h FULL JOIN NAME_l l USING (id, v) WHERE h.id IS NULL OR l.id IS NULL LIMIT 1", $pair));
			$wrong .= "copy: $out $err" if $out ne '' || $rc != 0;
		}
	}
	is($wrong, '', $what . ($at_once ? '' : ' (waits)'));
	return;
}

# After a crash; then all files on disk belong to trees.
sub check_all
{
	$node->stop('immediate');
	$node->start;
	is(differences($_, $_->{db}), '', "after a crash: $_->{what}") foreach @alive;
	my $left;
	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my %known;
		foreach my $db ('postgres', map { ($_->{db}, $_->{copy} ? $_->{copy}{db} : ()) } grep { $_->{db} ne 'postgres' } @alive)
		{
			$known{$db} = $node->safe_psql($db, "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam, LATERAL lsm_files(c.oid) WHERE amname IN ('lsm', 'lsm_index') AND relkind IN ('r', 'i')");
		}
		my $trees = 0;
		$trees += $_ foreach values %known;
		my @disk = grep { /\.sst$/ } lsm_files_of($node);
		$left = @disk - $trees;
		last if $left == 0;
		$node->safe_psql('postgres', 'CHECKPOINT');
		usleep(300_000);
	}
	is($left, 0, 'as many sorted files on disk as trees have');
	foreach my $pair (@alive)
	{
		$pair->{db} eq 'postgres' ? $node->safe_psql('postgres', named('DROP TABLE NAME_h, NAME_l', $pair)) : $node->safe_psql('postgres', "DROP DATABASE $pair->{db}");
		$node->safe_psql('postgres', "DROP DATABASE $pair->{copy}{db}") if $pair->{copy};
	}
	@alive = ();
	return;
}

# Jobs by kind: the same command is tried with one of each
my %kinds;
my %only_job = map { $_ => 1 } split ' ', $ENV{LSM_JOB_KINDS} // join(' ', keys %jobs);
my %only_ddl = map { $_ => 1 } split ' ', $ENV{LSM_DDL} // join(' ', keys %ddl);
push @{ $kinds{ $jobs{$_}{kind} // $_ } }, $_ foreach sort grep { $only_job{$_} } keys %jobs;

foreach my $kind (sort keys %kinds)
{
	foreach my $ddl_name (sort grep { $only_ddl{$_} } keys %ddl)
	{
		# with a session in a database, PostgreSQL refuses commands about it
		my @names = grep { !($ddl{$ddl_name}{database} && $jobs{$_}{who} eq 'backend') } @{ $kinds{$kind} };
		foreach my $rollback ($ddl{$ddl_name}{rollback} ? (0, 1) : (0))
		{
			my @pairs = map { my $job = $_; map { [ $job, $_ ] } @{ $jobs{$job}{points} } } @names;
			@pairs = @pairs && !($rollback && rand() < 0.5) ? ($pairs[ int(rand(@pairs)) ]) : () if !lsm_long();
			run_pair(@$_, $ddl_name, $rollback) foreach @pairs;
		}
		check_all() if @alive > 60;
	}
}
check_all();

# dropped tables and databases leave nothing
my $left = -1;
foreach (1 .. $PostgreSQL::Test::Utils::timeout_default)
{
	$left = $node->safe_psql('postgres', q{CHECKPOINT; SELECT count(*) FROM pg_ls_dir('pg_lsm') d WHERE d ~ '^[0-9a-f]{16}$'});
	last if $left == 0;
	usleep(500_000);
}
is($left, 0, 'no keyspace is left');
unlike(slurp_file($node->logfile), qr/ERROR:|PANIC:/, 'no errors in the server log');
$node->stop;
done_testing();
