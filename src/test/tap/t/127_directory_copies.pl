# Databases that are copies have files, rows and keys of the same numbers: the row directory, small and misled all the time,
# must not mix them up, nor what prepared transactions have done when they end after a crash, nor tables that move.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('copies', conf => "lsm.row_directory_memory = 4kB\nlsm.directory_tag_bits = 4\nlsm.constraint_index = lsm\nfsync = off\n"
	  . "max_prepared_transactions = 4\nautovacuum = off\nenable_seqscan = off\nenable_bitmapscan = off\njit = off\n");
lsm_start($node);
$node->safe_psql('postgres', 'CREATE DATABASE original');
$node->safe_psql('original', q{
CREATE EXTENSION lsmam;
CREATE TABLE h (id int PRIMARY KEY, name text UNIQUE, v int) USING heap;
CREATE TABLE l (id int PRIMARY KEY, name text UNIQUE, v int) USING lsm;
INSERT INTO h SELECT g, 'key ' || g, 0 FROM generate_series(1, 300) g;
INSERT INTO l TABLE h;
CREATE FUNCTION differs() RETURNS int8 LANGUAGE sql AS $$
SELECT count(*) FROM generate_series(-1, 320) n
	LEFT JOIN LATERAL (SELECT h::text r FROM h WHERE id = n OFFSET 0) a ON true LEFT JOIN LATERAL (SELECT l::text r FROM l WHERE id = n OFFSET 0) b ON true
	LEFT JOIN LATERAL (SELECT h::text r FROM h WHERE name = 'key ' || n OFFSET 0) c ON true LEFT JOIN LATERAL (SELECT l::text r FROM l WHERE name = 'key ' || n OFFSET 0) d ON true
WHERE a.r IS DISTINCT FROM b.r OR c.r IS DISTINCT FROM d.r $$;
-- two rows change keys, in both tables; neither where a name is taken
CREATE FUNCTION turn(of int, by int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR rel IN 0 .. 1 LOOP
		EXECUTE format('UPDATE %I SET id = -1, v = v + 1 WHERE id = $1', (ARRAY['h', 'l'])[rel + 1]) USING of;
		EXECUTE format('UPDATE %I SET id = $1, name = name || $3 WHERE id = $2', (ARRAY['h', 'l'])[rel + 1]) USING of, of + by, '!';
		EXECUTE format('UPDATE %I SET id = $1 + $2, name = $3 WHERE id = -1', (ARRAY['h', 'l'])[rel + 1]) USING of, by, 'key ' || of + by;
	END LOOP;
EXCEPTION WHEN unique_violation THEN
	NULL;
END $$;
});

sub same
{
	my ($what, @databases) = @_;
	# the first time notes, the second time finds; the ones between mislead
	is(join(' ', map { $node->safe_psql($_, 'SELECT differs()') } @databases, @databases), join(' ', (0) x (2 * @databases)), "keys lead to the same rows as those of heap $what");
	return;
}
sub turn { my ($database, $from, $by) = @_; $node->safe_psql($database, "SELECT turn(n::int, $by) FROM generate_series($from, 300 - $by, 7) n"); return; }

same('before there are copies', 'original');
$node->safe_psql('postgres', 'CREATE DATABASE by_file TEMPLATE original STRATEGY file_copy; CREATE DATABASE by_wal TEMPLATE original STRATEGY wal_log');
my @all = qw(original by_file by_wal);
same('in copies', @all);
turn('by_file', 1, 3);
turn('by_wal', 2, 5);
turn('original', 1, 2);
same('in copies that have changed', @all);

my $prepare = q{BEGIN; SELECT turn(n, 1) FROM generate_series(10, 250, 9) n; DELETE FROM h WHERE id %% 11 = 5; DELETE FROM l WHERE id %% 11 = 5; %s PREPARE TRANSACTION '%s'};
is($node->safe_psql('original', sprintf($prepare, 'SELECT differs();', 'of original')) =~ s/^\n//mgr, '0', 'within a transaction that will be prepared');
is($node->safe_psql('by_file', sprintf($prepare, 'SELECT differs();', 'of by_file')) =~ s/^\n//mgr, '0', 'within another');
same('beside prepared transactions', @all);
$node->stop('immediate');
$node->start;
same('after a crash', @all);
$node->safe_psql('original', "COMMIT PREPARED 'of original'");
$node->safe_psql('by_file', "ROLLBACK PREPARED 'of by_file'");
same('after transactions that were prepared have ended', @all);

my $space = $node->basedir . '/space';
mkdir $space or die;
$node->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '$space'");
$node->safe_psql('postgres', 'ALTER DATABASE by_wal SET TABLESPACE space');
$node->safe_psql('original', 'ALTER TABLE l SET TABLESPACE space; ALTER INDEX l_name_key SET TABLESPACE space');
same('where files have moved', @all);
turn($_, 3, 4) foreach @all;
same('where they have been changed', @all);
$node->safe_psql('postgres', 'DROP DATABASE by_file; CREATE DATABASE by_file TEMPLATE by_wal');
same('where a database has the name of another one', @all);
cmp_ok($node->safe_psql('original', 'SELECT sum(directory_hits) FROM pg_stat_lsm'), '>', 100, 'the directory was of use');
cmp_ok($node->safe_psql('original', 'SELECT sum(directory_misled) FROM pg_stat_lsm'), '>', 100, 'and has misled');
$node->stop;
done_testing();
