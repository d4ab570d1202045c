# The row directory is misled all the time: 4 kB with 4 bits of the digest, while several sessions insert, delete, and move rows
# and keys of twins.  Each lookup by key, or by a list of keys, says what heap says, beside an old snapshot, after crashes, on a
# standby and after its promotion.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = lsm_seed();
my $steps = lsm_long() ? 10_000 : lsm_short() ? 100 : 1_000;
my $node = lsm_node('primary', conf => "lsm.row_directory_memory = 4kB\nlsm.directory_tag_bits = 4\nlsm.constraint_index = lsm\nlsm.memtable_size = 64kB\n"
	  . "max_wal_senders = 4\nwal_keep_size = 256MB\nfsync = off\nmax_standby_streaming_delay = -1\n");
$node->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($node);
$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS lsmam');
lsm_create_twins($node, 't', 'id int PRIMARY KEY, name text UNIQUE, v int, w int', '(w)');
$node->safe_psql('postgres', q{
CREATE FUNCTION same(k int) RETURNS void AS $$
DECLARE
	differs text;
	list int[] := ARRAY(SELECT (k * 31 + g * 7) % 400 + 1 FROM generate_series(1, 12) g) || k;
BEGIN
	SELECT format('%s: heap %s, lsm %s', k, h, l) INTO differs
	FROM (SELECT (SELECT h FROM t_h h WHERE id = k)::text h, (SELECT l FROM t_l l WHERE id = k)::text l
		UNION ALL
		SELECT (SELECT h FROM t_h h WHERE name = 'key ' || k)::text h, (SELECT l FROM t_l l WHERE name = 'key ' || k)::text l
		UNION ALL
		SELECT (SELECT string_agg(h::text, ' ' ORDER BY id) FROM t_h h WHERE id = ANY (list)), (SELECT string_agg(l::text, ' ' ORDER BY id) FROM t_l l WHERE id = ANY (list))) both_of_them
	WHERE h IS DISTINCT FROM l;
	IF differs IS NOT NULL THEN
		RAISE 'twins differ at %', differs;
	END IF;
END $$ LANGUAGE plpgsql SET enable_bitmapscan = off SET enable_seqscan = off;
CREATE FUNCTION change(rel text, what int, k int, other int) RETURNS void AS $$
BEGIN
	CASE what
	WHEN 0, 1 THEN EXECUTE format('INSERT INTO %I VALUES ($1, $2, $3, $3) ON CONFLICT DO NOTHING', rel) USING k, 'key ' || k, other;
	WHEN 2, 3, 4 THEN EXECUTE format('UPDATE %I SET v = v + 1 WHERE id = $1', rel) USING k;
	WHEN 5, 6, 7 THEN EXECUTE format('UPDATE %I SET w = w + 1 WHERE id = $1', rel) USING k;
	WHEN 8 THEN EXECUTE format('DELETE FROM %I WHERE name = $1', rel) USING 'key ' || k;
	ELSE EXECUTE format('UPDATE %I SET id = $2, name = $3 WHERE id = $1', rel) USING k, other, 'key ' || other;
	END CASE;
END $$ LANGUAGE plpgsql;
-- one change of both, some of which are undone; twins never wait for each other the wrong way round: heap is first
CREATE FUNCTION step(what int, k int, other int, undo bool) RETURNS void AS $$
BEGIN
	PERFORM pg_advisory_xact_lock(least(k, other));
	PERFORM pg_advisory_xact_lock(greatest(k, other));
	BEGIN
		PERFORM change('t_h', what, k, other);
		PERFORM change('t_l', what, k, other);
		PERFORM same(k);
		PERFORM same(other);
		IF undo THEN
			RAISE EXCEPTION USING ERRCODE = 'LM001';
		END IF;
	EXCEPTION WHEN SQLSTATE 'LM001' OR unique_violation THEN
		NULL;
	END;
	PERFORM same(k);
	PERFORM same(other);
	PERFORM same(k);
END $$ LANGUAGE plpgsql;
});
my $script = $node->basedir . '/step.sql';
append_to_file($script, "\\set what random(0, 9)\n\\set k random(1, 400)\n\\set other random(1, 400)\n\\set undo random(0, 7)\nSELECT step(:what, :k, :other, :undo = 0);\nSELECT same(:other);\n");

# Sessions change, and read what others change.
sub run_steps
{
	my ($what, $salt) = @_;
	my ($ok, $out, $err) = (1);
	IPC::Run::run([ 'pgbench', '-n', '-c', '4', '-j', '2', '-t', $steps, '-M', 'prepared', "--random-seed=@{[ $seed + $salt ]}", '-f', $script,
			'-h', $node->host, '-p', $node->port, 'postgres' ], '>', \$out, '2>', \$err) or $ok = 0;
	ok($ok && $err !~ /ERROR|differ/, "each lookup by key says what heap says $what") or diag($err);
	return;
}
sub counted { return $_[0]->safe_psql('postgres', "SELECT sum($_[1]) FROM pg_stat_lsm WHERE relname IN ('t_l_pkey', 't_l_name_key')"); }

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

run_steps('from the first row on', 1);
cmp_ok(counted($node, 'directory_hits'), '>', $steps / 4, 'the directory was of use');
cmp_ok(counted($node, 'directory_misled'), '>', 0, 'and has misled');

# An old snapshot sees by key what it has seen before.
my $old = $node->background_psql('postgres');
my $all = q{SELECT md5(string_agg(l::text, ',' ORDER BY n)) FROM generate_series(1, 400) n, LATERAL (SELECT * FROM t_l WHERE id = n OFFSET 0) l};
$old->query_safe('SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN ISOLATION LEVEL REPEATABLE READ');
my $before = $old->query_safe($all);
run_steps('beside an old snapshot', 2);
is($old->query_safe($all), $before, 'an old snapshot sees by key what it has seen');
$old->query_safe('COMMIT');
$old->quit;

# The standby reads while it follows.
my $on_standby = q{SELECT count(*) FROM generate_series(1, 400) n, LATERAL (SELECT same(n)) s};
my $reader = $standby->background_psql('postgres', on_error_stop => 0);
$reader->query_safe('SET enable_seqscan = off');
run_steps('before the standby is looked at', 3);
$node->wait_for_catchup($standby);
is($reader->query_safe($on_standby), 400, 'a standby says by key what heap says');
is($reader->query_safe($on_standby), 400, 'and again');
cmp_ok(counted($standby, 'directory_hits'), '>', 0, 'by its own directory');
$reader->quit;

# A crash takes the directory with it, nothing else.
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', $on_standby), 400, 'after a crash');
run_steps('after a crash', 4);
is(lsm_differences($node, 't'), '', 'all that there is is the same');
$node->safe_psql('postgres', 'TRUNCATE t_h; TRUNCATE t_l');
run_steps('after TRUNCATE', 5);
$node->wait_for_catchup($standby);
$standby->safe_psql('postgres', $on_standby);
$node->stop;

$standby->promote;
$node = $standby;
run_steps('after a promotion', 6);
is(lsm_differences($node, 't'), '', 'all that there is is the same there');

# Without a directory
$node->append_conf('postgresql.conf', 'lsm.row_directory_memory = 0');
$node->restart;
$node->safe_psql('postgres', 'SELECT pg_stat_lsm_reset()');
run_steps('without a directory', 7);
is(counted($node, 'directory_lookups'), 0, 'which is not asked then');
$node->stop;
done_testing();
