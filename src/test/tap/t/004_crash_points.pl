# Stops the server at every named crash point in the code (test builds), restarts it and
# compares.  As kill -9 leaves the disk; and, where files are made or go, as a power
# failure leaves it (what was not synced under pg_lsm is lost).
#   LSM_POINTS="name name"   only these
#   LSM_TIER=check           of those of one job, that differ in little else than their place in it, one or two
# may take: 2700 s
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

lsm_seed();
# (those of standbys: 043_standby_steps; of a tree that need not be so deep: 094_side_by_side; of lsm_verify, which only reads: 056_verify)
my @points = grep { !/^(redo|standby|verify)_|_deep$/ } split ' ', $ENV{LSM_POINTS} // slurp_file($ENV{LSM_CRASH_POINTS});
ok(@points > 0, 'there are crash points');
# what makes files, gives them other names, or does away with them
my $of_files = qr/^(adopt|build|chunk|clone|compact|copy|create|drop|edit|elastic|flush|manifest|repair|reset|sweep|unlink|unshare)/;
my %short = (
	'kill' => [qw(abort_locks_released append_after_wal append_before_wal clone_copied compact_file_written create_logged
		  flush_after_retire manifest_rewrite_pages map_set numbers_reserved reset_truncated sweep_after_remove truncate_logged unlink_after_first)],
	'power failure' => [qw(adopted build_file_written chunk_logged compact_after_unlink create_owner_written edit_after_wal
		  flush_dir_synced manifest_rewrite_flip repair_renamed unshare_renamed)]);
if (!$ENV{LSM_POINTS})
{
	my %there = map { $_ => 1 } @points;
	is(join(' ', grep { !$there{$_} } map { @$_ } values %short), '', 'those of the short form are among them');
}
my $dir = PostgreSQL::Test::Utils::tempdir();
my $round = 0;

sub workload
{
	my ($file, $point, $trees) = @_;
	$round++;
	my $r = $round;
	open my $fh, '>', $file or die;
	print $fh qq{
DROP TABLE IF EXISTS extra, twice;
CREATE TABLE extra (i int PRIMARY KEY, v text) USING lsm;
INSERT INTO extra SELECT i, 'e' || i FROM generate_series(1, 2000) i;
CREATE INDEX extra_v ON extra USING lsm (v);
BEGIN; CREATE TABLE twice (i int PRIMARY KEY) USING lsm; INSERT INTO twice SELECT generate_series(1, 500); TRUNCATE twice; INSERT INTO twice VALUES (1); COMMIT;
DROP TABLE twice;
BEGIN; CREATE TABLE rolled_back (i int PRIMARY KEY) USING lsm; INSERT INTO rolled_back SELECT generate_series(1, 500); ROLLBACK;
CREATE TEMPORARY TABLE temporary (i int) USING lsm;
DROP TABLE temporary;
-- for the sweep: at the end of the transaction no one knows of it
BEGIN; SAVEPOINT s; CREATE TABLE rolled_back (i int PRIMARY KEY) USING lsm; INSERT INTO rolled_back SELECT generate_series(1, 500); ROLLBACK TO s; COMMIT;
};
	foreach my $i (1 .. 6)
	{
		my $base = ($r * 10 + $i) * 10000;
		foreach my $end ('COMMIT', $i % 3 == 0 ? 'ROLLBACK' : 'COMMIT')
		{
			print $fh "BEGIN;\n";
			foreach my $x ('h', 'l')
			{
				print $fh "INSERT INTO t_$x SELECT $base + g, g % 50, repeat(md5(g::text), 3) FROM generate_series(1, 700) g;\n"
				  if $end eq 'COMMIT';
				print $fh "UPDATE t_$x SET v = 'u$r' WHERE n = $i;\n",
				  "DELETE FROM t_$x WHERE n = $i + 20 AND id % 2 = 0;\n";
			}
			print $fh "$end;\n";
			$base += 5000;
			last if $end eq 'COMMIT' && $i % 3 != 0;
		}
		print $fh "SELECT lsm_flush('t_l');\n";
		print $fh "VACUUM t_l;\n" if $i == 4;
	}
	print $fh "SELECT lsm_compact('t_l');\nTRUNCATE extra;\nDROP TABLE extra;\nCHECKPOINT;\n";
	print $fh "ALTER INDEX t_l_1 SET TABLESPACE other; ALTER INDEX t_l_1 SET TABLESPACE pg_default;\n"
	  if $point =~ /adopt/;
	print $fh "BEGIN; ALTER INDEX t_l_1 SET TABLESPACE other; SELECT lsm_flush('t_l_1'); COMMIT; ALTER INDEX t_l_1 SET TABLESPACE pg_default;\n"
	  if $point eq 'adopt_copied';
	print $fh "ALTER TABLE t_l SET TABLESPACE other; ALTER TABLE t_l SET TABLESPACE pg_default;\n"
	  if $point eq 'copy_copied';
	print $fh "SELECT lsm_flush('t_l');\nDROP DATABASE IF EXISTS copy;\nCREATE DATABASE copy TEMPLATE postgres;\nDROP DATABASE copy;\n" if $point =~ /^clone/;
	# whose files become links while the server is down
	print $fh "SELECT lsm_flush('t_l');\nDROP DATABASE IF EXISTS copy;\nCREATE DATABASE copy TEMPLATE postgres;\nCHECKPOINT;\n" if $point =~ /^unshare/;
	if ($point =~ /^elastic/)
	{
		print $fh "ALTER INDEX t_l_1 SET (filter_scheme = elastic);\n";
		print $fh "BEGIN;\n";
		print $fh "INSERT INTO t_$_ SELECT 2000000000 + $r * 1000 + g, g % 50, 'elastic' FROM generate_series(1, 900) g;\n" foreach 'h', 'l';
		print $fh "COMMIT;\nSELECT lsm_flush('t_l_1');\nALTER INDEX t_l_1 RESET (filter_scheme);\n";
	}
	print $fh "SELECT lsm_compact('t_l');\n\\! rm -f $trees/*/*.flt\nSELECT count(*) FROM t_l WHERE id = 1;\nSELECT lsm_compact('t_l');\n" if $point =~ /^repair/;
	if ($point =~ /^truncate_/)
	{
		# more free log pages at the end than VACUUM leaves
		print $fh "SET lsm.memtable_size = '24MB';\n";
		print $fh "INSERT INTO t_$_ SELECT 1000000000 + $r * 100000 + g, 1, (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 32) i) FROM generate_series(1, 12000) g;\n"
		  foreach 'h', 'l';
		print $fh "VACUUM t_l;\n";
	}
	if ($point =~ /manifest/)
	{
		# many small edits
		foreach my $i (1 .. 500)
		{
			my $id = -($r * 1_000_000 + $i);
			print $fh "BEGIN; INSERT INTO t_h VALUES ($id, 1, 'm'); INSERT INTO t_l VALUES ($id, 1, 'm'); COMMIT; SELECT lsm_flush('t_l');\n";
		}
	}
	# the workers' part: unlinking, the sweep
	print $fh "SELECT pg_sleep(0.5);\nCHECKPOINT;\n" foreach 1 .. ($point =~ /^sweep/ ? 50 : $point =~ /unlink|^drop/ ? 20 : 2);
	close $fh;
	return;
}

# The keyspace of a copy in another database, as lsm_keyspace_derive() has it; a macaddr8 is hashed as eight bytes.
my %derived;
sub derived
{
	my ($node, $id, $db) = @_;
	return $derived{"$id $db"} //= $node->safe_psql('postgres', sprintf(
		q{SELECT lpad(to_hex(hashmacaddr8extended('%s', %d)), 16, '0')}, unpack('H*', $id), $db));
}

# A crash in the transaction that creates a relation leaves PostgreSQL's main fork for ever,
# and what a fork names the sweep must keep: it cannot know that no transaction will.
sub named_by_a_fork
{
	my ($node, $file) = @_;
	(my $owner = $file) =~ s,[^/]+$,owner,;
	# the worker may be removing the directory at this moment
	my $lines = eval { slurp_file($owner) } // '';
	foreach my $line (split /\n/, $lines)
	{
		my ($db, $spc, $relfilenode) = split ' ', $line;
		return 1 if -s $node->data_dir . "/base/$db/$relfilenode";
	}

	# or it was copied by ALTER INDEX or CREATE DATABASE, which no owner file knows of, or a power failure has taken the
	# owner file
	foreach my $fork (grep { m,/\d+$, } glob($node->data_dir . '/base/*/*'), glob($node->data_dir . '/pg_tblspc/*/PG_*/*/*'))
	{
		open my $fh, '<:raw', $fork or next;
		next unless read($fh, my $head, 44) == 44;
		my ($magic, $id, $of) = unpack('x24 L x4 a8 L', $head);
		next if $magic != 0x4c534d54;
		my ($db) = $fork =~ m,/(\d+)/\d+$,;
		my $named = $of == $db ? sprintf('%016x', unpack('Q', $id)) : derived($node, $id, $db);
		return 1 if $file =~ m,/$named/,;
	}
	return 0;
}

foreach my $variant ('kill', 'power failure')
{
	my $losing = $variant eq 'power failure';
	my $node = lsm_node('points_' . ($losing ? 'power' : 'kill'),
		conf => ($losing ? "fsync = on\n" : '') . "allow_in_place_tablespaces = on\n" .
		"lsm.memtable_size = 64kB\nlsm.target_file_size = 64kB\nlsm.size_ratio = 2\nautovacuum = off");
	my $log = "$dir/synced";
	if ($losing)
	{
		$ENV{LSM_FAULTS_SYNC_LOG} = $log;
		$ENV{LD_PRELOAD} = $ENV{LSM_FAULTS_SO};
	}
	lsm_start($node);
	$node->safe_psql('postgres', q{CREATE TABLESPACE other LOCATION ''});
	lsm_create_twins($node, 't', 'id int PRIMARY KEY, n int, v text', '(n)', '(v, n)');

	my @here = $ENV{LSM_POINTS} ? @points : lsm_short() ? @{ $short{$variant} } : grep { !$losing || /$of_files/ } @points;
	foreach my $point (@here)
	{
		lsm_set($node, 'lsm.crash_point' => $point);
		$node->reload;
		workload("$dir/work.sql", $point, lsm_dir($node));
		my @pids = lsm_pids($node);
		my $postmaster = $pids[0];
		my $psql = lsm_spawn_psql($node, "$dir/work.sql", "$dir/work.out");
		my $end = time + $PostgreSQL::Test::Utils::timeout_default;
		my $hit = 0;
		while (time < $end)
		{
			# children as they come
			my @now = lsm_pids($node);
			my %seen = map { $_ => 1 } @pids;
			push @pids, grep { !$seen{$_} } @now;
			if (!@now) { $hit = 1; last; }
			last if waitpid($psql, 1) == $psql;
			usleep(20_000);
		}
		if (!$hit)
		{
			# psql may have ended because the server died
			usleep(500_000);
			$hit = 1 unless lsm_pids($node);
		}
		if (!$hit)
		{
			# a point on the way in: hit at the first use after a restart
			$node->stop('immediate');
			cmp_ok(lsm_link_files($node), '>', 0, "$variant: files are links") if $point =~ /^unshare/;
			system_log('pg_ctl', '-D', $node->data_dir, '-l', $node->logfile, '-w', 'start');
			@pids = lsm_pids($node);
			$node->psql('postgres', 'SELECT count(*) FROM t_l; SELECT count(*) FROM t_l WHERE id = 1');
			foreach (1 .. 100)
			{
				$hit = 1 unless lsm_pids($node);
				last if $hit;
				usleep(100_000);
			}
		}
		# the process at the crash point and the postmaster are dead; one that waits for an
		# LWLock of theirs never notices, as in any PostgreSQL
		kill('KILL', grep { $_ != $postmaster } @pids) if $hit;
		waitpid($psql, 0);
		my $stderr = slurp_file("$dir/work.out.err");
		ok($hit, "$variant: crash point $point is reached")
		  or diag("psql says: $stderr");
		if ($hit)
		{
			lsm_wait_gone($node, @pids);
			lsm_lose_unsynced($node, $log) if $losing;
		}
		else
		{
			system_log('pg_ctl', '-D', $node->data_dir, '-m', 'immediate', '-w', 'stop');
		}
		lsm_set($node, 'lsm.crash_point' => '');
		lsm_restart_after_crash($node);
		# filters that are still missing are no difference
		$node->safe_psql('postgres', q{SET client_min_messages = error; SELECT lsm_compact('t_l')}) if $point =~ /^repair/;
		my $wrong = lsm_differences($node, 't');
		is($wrong, '', "$variant: state after $point");

		# and it goes on from there
		my $more = join(';', map { "INSERT INTO t_$_ SELECT -$round * 10000 - g, g % 50, 'after' FROM generate_series(1, 500) g; UPDATE t_$_ SET v = 'w' WHERE n = 7; DELETE FROM t_$_ WHERE id % 3 = 0" } 'h', 'l');
		my ($rc, $out, $err) = $node->psql('postgres', "BEGIN; $more; COMMIT; SELECT lsm_flush('t_l'); SELECT lsm_compact('t_l')", on_error_stop => 1);
		is($rc, 0, "$variant: writes, flush and compaction after $point") or diag($err);
		my $later = lsm_differences($node, 't');
		is($later, '', "$variant: state after more writes") if $wrong eq '';
		$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS copy') if $point =~ /^unshare/;
		if ($wrong ne '' || $later ne '' || $rc != 0)
		{
			# start over, so that one failure is not counted many times
			$node->psql('postgres', 'DROP TABLE t_h, t_l');
			lsm_create_twins($node, 't', 'id int PRIMARY KEY, n int, v text', '(n)', '(v, n)');
		}
	}

	# files of dropped trees do not stay for ever
	$node->safe_psql('postgres', 'DROP TABLE t_l; DROP TABLE IF EXISTS extra, twice; CHECKPOINT');
	my $left = -1;
	foreach (1 .. $PostgreSQL::Test::Utils::timeout_default)
	{
		my @files = grep { !named_by_a_fork($node, $_) } lsm_files_of($node);
		$left = @files;
		last if $left == 0;
		$node->safe_psql('postgres', 'CHECKPOINT');
		usleep(1_000_000);
	}
	is($left, 0, "$variant: the sweep removes what dropped trees and crashes left");
	$node->stop;
	delete $ENV{LD_PRELOAD};
	delete $ENV{LSM_FAULTS_SYNC_LOG};
}
done_testing();
