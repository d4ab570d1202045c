# More data than the arena holds, in one transaction; bounded disk space.
#   LSM_BIG_MB (100; long: 5000): size of the load, through an arena of 16 MB (long: 256 MB)
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $mb = $ENV{LSM_BIG_MB} // (lsm_long() ? 5000 : 100);
my $arena = lsm_long() ? 256 : 16;
my $node = lsm_node('big', conf => "allow_in_place_tablespaces = on\n" . "lsm.memtable_memory = ${arena}MB\nlsm.memtable_size = @{[int($arena / 4)]}MB\n"
	. "lsm.target_file_size = 4MB\nshared_buffers = 128MB\nmax_wal_size = 1GB\nautovacuum = off\nlsm.compression = none");
lsm_start($node);
$node->safe_psql('postgres', q{CREATE TABLESPACE other LOCATION ''});
$node->safe_psql('postgres', q{CREATE TABLE l (id bigint PRIMARY KEY, v text) USING lsm;
CREATE TABLE small (id int PRIMARY KEY) USING lsm; INSERT INTO small SELECT generate_series(1, 100)});

sub on_disk
{
	return $node->safe_psql('postgres', q{SELECT sum(lsm_relation_size(c.oid)) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname LIKE 'lsm%'});
}

# bytes under pg_lsm and in the main forks, from outside, while it runs
sub watched
{
	my ($sql) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	append_to_file("$dir/sql", $sql);
	my $fork = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('l')});
	my $fork2 = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('l_pkey')});
	my $pid = lsm_spawn_psql($node, "$dir/sql", "$dir/out");
	my $max = 0;
	while (waitpid($pid, 1) != $pid)
	{
		my $bytes = 0;
		foreach my $f (lsm_files_of($node, qr/./), glob("$fork $fork.* $fork2 $fork2.*")) { $bytes += -s $f // 0; }
		$max = $bytes if $bytes > $max;
		usleep(100_000);
	}
	my $rc = $? >> 8;
	return ($rc, $max, slurp_file("$dir/out.err"));
}

# 1 kB a row; random order, so that compaction has to work
my $rows = $mb * 1000;
my $row = q{(SELECT string_agg(md5((g * 31 + k)::text), '') FROM generate_series(1, 30) k)};
my ($rc, $max, $err) = watched(qq{INSERT INTO l SELECT (g * 7919) % 100000007, $row FROM generate_series(1, $rows) g;});
is($rc, 0, "a transaction of $mb MB through an arena of $arena MB") or diag($err);
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM l'), "$rows|$rows", 'all rows');
$node->safe_psql('postgres', q{SELECT lsm_compact('l'); CHECKPOINT});
my $compacted = on_disk();
diag(sprintf('load: at most %.0f MB on disk, %.0f MB after full compaction: %.2f', $max / 1e6, $compacted / 1e6, $max / $compacted));
cmp_ok($max, '<', 2.5 * $compacted + 20e6, 'disk space stays within 2.5 times the compacted size');
is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('l')}), '', 'lsm_verify');

# rolled back: an insert, then an update of everything
$node->psql('postgres', qq{BEGIN; INSERT INTO l SELECT 200000000 + g, $row FROM generate_series(1, $rows / 2) g; ROLLBACK});
is($node->safe_psql('postgres', 'SELECT count(*) FROM l'), $rows, 'rolled back insert larger than the arena');
$node->psql('postgres', q{BEGIN; UPDATE l SET v = v || 'x'; ROLLBACK});
is($node->safe_psql('postgres', q{SELECT count(*) FROM l WHERE v LIKE '%x'}), 0, 'rolled back update larger than the arena');
$node->safe_psql('postgres', q{VACUUM l; SELECT lsm_compact('l'); CHECKPOINT});
# files that were replaced go when nobody reads them any more
foreach (1 .. $PostgreSQL::Test::Utils::timeout_default)
{
	last if on_disk() < 1.3 * $compacted;
	usleep(1_000_000);
}
cmp_ok(on_disk(), '<', 1.3 * $compacted, 'the space of rolled back rows comes back');
is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('l')}), '', 'lsm_verify');

# dropped, truncated, rewritten, rolled back: the directories go without a checkpoint
sub directories_become
{
	my ($wanted, $what) = @_;
	my $n = -1;
	foreach (1 .. 2 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$n = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_dir('pg_lsm') d WHERE d ~ '^[0-9a-f]{16}$'});
		last if $n == $wanted;
		usleep(500_000);
	}
	is($n, $wanted, "directories after $what");
	return;
}
my $kept = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relam IN (SELECT oid FROM pg_am WHERE amname LIKE 'lsm%') AND relkind IN ('r', 'i')});
$node->safe_psql('postgres', q{CREATE TABLE d (id int PRIMARY KEY, v text) USING lsm; INSERT INTO d SELECT g, 'd' FROM generate_series(1, 5000) g; SELECT lsm_flush('d')});
$node->safe_psql('postgres', 'TRUNCATE d');
directories_become($kept + 2, 'TRUNCATE');
$node->safe_psql('postgres', q{INSERT INTO d SELECT g, 'd' FROM generate_series(1, 5000) g; REINDEX TABLE d});
$node->safe_psql('postgres', 'VACUUM FULL d');
directories_become($kept + 2, 'REINDEX and VACUUM FULL');
$node->psql('postgres', q{BEGIN; CREATE TABLE e (id int PRIMARY KEY) USING lsm; INSERT INTO e VALUES (1); TRUNCATE d; ROLLBACK});
directories_become($kept + 2, 'ROLLBACK');
$node->safe_psql('postgres', q{CREATE INDEX d_v ON d USING lsm (v); ALTER INDEX d_v SET TABLESPACE other});
directories_become($kept + 3, 'a move');
is($node->safe_psql('postgres', q{SELECT count(*) FROM d WHERE v = 'd'}), 5000, 'the moved index has its files');
is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('d_v')}), '', 'lsm_verify of the moved index');
$node->safe_psql('postgres', 'DROP TABLE d');
directories_become($kept, 'DROP');

# many trees at once, more than the arena has room for
$node->safe_psql('postgres', q{
DO $$ BEGIN
	FOR i IN 1..300 LOOP
		EXECUTE format('CREATE TABLE many_%s (id int PRIMARY KEY, v text) USING lsm', i);
		EXECUTE format('INSERT INTO many_%s SELECT g, repeat(''m'', 200) FROM generate_series(1, 100) g', i);
	END LOOP;
END $$;});
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class c WHERE relname LIKE 'many\_%' AND relkind = 'r'
	AND (xpath('/row/n/text()', query_to_xml('SELECT count(*) AS n FROM ' || relname, false, true, '')))[1]::text = '100'}), '300',
	'300 small trees');
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class c WHERE relname LIKE 'many\_%' AND relkind = 'r'
	AND (xpath('/row/n/text()', query_to_xml('SELECT count(*) AS n FROM ' || relname, false, true, '')))[1]::text = '100'}), '300',
	'300 small trees after a crash');
is($node->safe_psql('postgres', 'SELECT count(*) FROM l'), $rows, 'the big one, too');
$node->stop;
done_testing();
