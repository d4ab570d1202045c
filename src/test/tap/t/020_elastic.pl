# Elastic filters: no row is lost and the budget holds while units come and go under
# concurrent readers, flushes, compactions and changes of settings; false positive rates by units on;
# damaged units; state after files are gone, after restarts and crashes.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

my $node = lsm_node('elastic', conf => q{
lsm.memtable_size = 128kB
lsm.target_file_size = 256kB
lsm.size_ratio = 3
lsm.elastic_memory = 256kB
lsm.elastic_unit_size = 64
lsm.elastic_lifetime = 500
lsm.elastic_ratio = 0
autovacuum = off
fsync = off
});
lsm_start($node);
my $seconds = lsm_long() ? 60 : 12;

# ids that are there are even
$node->safe_psql('postgres', q{
CREATE TABLE l (id int, v text) USING lsm;
CREATE INDEX l_id ON l USING lsm (id) WITH (filter_scheme = elastic, bits_per_key = 32, elastic_units = 8, size_ratio = 3);
INSERT INTO l SELECT ((i * 7919::bigint) % 30011)::int * 2, 'v' || i FROM generate_series(1, 30000) i;
SELECT lsm_flush('l');
CREATE FUNCTION ask(seconds float, skew float) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	k int;
	n int;
	asked bigint := 0;
	until timestamptz := clock_timestamp() + make_interval(secs => seconds);
BEGIN
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_bitmapscan = off;
	WHILE clock_timestamp() < until LOOP
		FOR i IN 1 .. 200 LOOP
			k := 1 + floor(30010 * random() ^ skew)::int;
			SELECT count(*) INTO n FROM l WHERE id = k * 2 AND v NOT LIKE 'w%';
			-- 7919 is prime to 30011: each of 1 .. 30010 but 11 of them comes once
			IF n <> 1 AND NOT (n = 0 AND EXISTS (SELECT 1 FROM missing WHERE id = k * 2)) THEN
				RAISE EXCEPTION 'id % is there % times', k * 2, n;
			END IF;
			SELECT count(*) INTO n FROM l WHERE id = k * 2 + 1;
			IF n <> 0 THEN
				RAISE EXCEPTION 'id % is there % times', k * 2 + 1, n;
			END IF;
			asked := asked + 2;
		END LOOP;
	END LOOP;
	RETURN asked;
END $$;
CREATE TABLE missing AS SELECT i * 2 AS id FROM generate_series(1, 30010) i WHERE NOT EXISTS (SELECT 1 FROM l WHERE l.id = i * 2);
});
is($node->safe_psql('postgres', 'SELECT count(*) FROM missing'), '10', 'the ids that are missing');

sub stats { return $node->safe_psql('postgres', "SELECT $_[0] FROM lsm_elastic_stats()"); }

sub run_in_background
{
	my ($name, $sql) = @_;
	my $script = "$PostgreSQL::Test::Utils::tmp_check/$name.sql";
	append_to_file($script, $sql);
	return [ $name, lsm_spawn_psql($node, $script, "$PostgreSQL::Test::Utils::tmp_check/$name.out") ];
}

sub finish
{
	foreach my $job (@_)
	{
		my ($name, $pid) = @$job;
		waitpid($pid, 0);
		is($?, 0, "$name finds what is there and nothing else")
		  or diag(slurp_file("$PostgreSQL::Test::Utils::tmp_check/$name.out.err"));
	}
	return;
}

# Units come and go: readers with different hot sets, a writer with flushes and compactions, budgets.
{
	my @jobs = (
		run_in_background('reader1', "SELECT ask($seconds, 6);"),
		run_in_background('reader2', "SELECT ask($seconds, 0.2);"),
		run_in_background('reader3', "SET lsm.hash_sharing = off; SELECT ask($seconds, 1);"),
		run_in_background('writer', join('', map {
			"INSERT INTO l SELECT i * 2, 'w' || i FROM generate_series($_ * 1000, $_ * 1000 + 999) i; SELECT lsm_flush('l');"
			  . ($_ % 8 == 0 ? "SELECT lsm_compact('l');" : '') } 1 .. 25)));
	my $end = time + $seconds;
	my $lowered = 0;
	my ($over, $over_budget, $max_used, $looks) = (0, 0, 0, 0);
	my @budgets = (64, 160, 100, 120);
	while (time < $end)
	{
		if (time - $lowered > $seconds / 6)
		{
			my $kb = shift @budgets;
			push @budgets, $kb;
			$node->safe_psql('postgres', "ALTER SYSTEM SET lsm.elastic_memory = '${kb}kB'");
			$node->safe_psql('postgres', "ALTER SYSTEM SET lsm.elastic_policy = " . ($kb == 120 ? 'compaction' : 'access'));
			$node->reload;
			$lowered = time;
		}
		my ($used, $taken, $budget) = split /\|/, stats('used_bytes, taken_bytes, budget_bytes');
		$looks++;
		$over++ if $taken > 256 * 1024 || $used > $taken;
		# at once under the lock that takes the budget over
		$over_budget++ if $used > $budget;
		$max_used = $used if $used > $max_used;
		usleep(20_000);
	}
	finish(@jobs);
	is($over, 0, "memory reserved is never exceeded ($looks looks)");
	is($over_budget, 0, 'nor is the budget as it was lowered and raised');
	cmp_ok($max_used, '>', 90 * 1024, 'memory was used');
	my ($promotions, $demotions, $loads) = split /\|/, stats('promotions, demotions, loads');
	diag("$promotions promotions, $demotions demotions, $loads loads, $looks looks");
	cmp_ok($demotions, '>', 100, 'units went');
	cmp_ok($loads, '>', 100, 'units came');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET lsm.elastic_memory');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET lsm.elastic_policy');
	$node->reload;
	is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('l')}), '', 'lsm_verify');
}

# Schemes change under point selects.
{
	my @jobs = (run_in_background('reader4', "SELECT ask($seconds, 3);"),
		run_in_background('reader5', "SELECT ask($seconds, 1);"));
	my $end = time + $seconds;
	my $n = 0;
	my @schemes = ('blocked', 'elastic, elastic_units = 2', 'bloom', 'elastic, elastic_units = 16', 'none', 'elastic, elastic_units = 8');
	while (time < $end)
	{
		$node->safe_psql('postgres', "ALTER INDEX l_id SET (filter_scheme = $schemes[$n++ % @schemes])");
		$node->safe_psql('postgres', "INSERT INTO l VALUES (100001 + $n * 2, 'w'); SELECT lsm_flush('l'); SELECT lsm_compact('l_id')");
	}
	finish(@jobs);
	diag("$n changes of scheme");
	cmp_ok($n, '>', 2, 'schemes were changed');
	is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('l')}), '', 'lsm_verify after changes of scheme');
}

# One file, and state of its segments only: that of removed files is gone.
$node->safe_psql('postgres', q{
CREATE TABLE f (id int, v text) USING lsm;
INSERT INTO f SELECT i * 2, 'v' FROM generate_series(1, 60000) i;
SELECT lsm_flush('f');
ALTER SYSTEM SET lsm.elastic_policy = compaction;
ALTER SYSTEM SET lsm.elastic_memory = '2MB';
SET lsm.target_file_size = '64MB';
CREATE INDEX f_id ON f USING lsm (id) WITH (filter_scheme = elastic, bits_per_key = 16, elastic_units = 4);
DROP TABLE l;});
$node->restart;
my $ask_absent = q{SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;
SELECT count(*) FROM generate_series(1, 60000) i CROSS JOIN LATERAL (SELECT * FROM f WHERE id = i * 2 - 1 OFFSET 0) x;};

# Asks for n absent keys and returns what pg_stat_lsm has counted.
sub ask_and_count
{
	my ($columns) = @_;
	my $out = $node->safe_psql('postgres', qq{SELECT pg_stat_lsm_reset() \\g /dev/null
$ask_absent
SELECT $columns FROM pg_stat_lsm WHERE relname = 'f_id'});
	return split /\|/, (split /\n/, $out)[-1];
}

# False positive rate by units on: 4 bits per key in each.
foreach my $units (0 .. 4)
{
	$node->safe_psql('postgres', "ALTER SYSTEM SET lsm.elastic_initial_units = $units");
	$node->restart;
	# the first statement after the restart has them already
	my ($first_false, $first_on) = ((ask_and_count('filter_false_positives'))[0], stats('units_on'));
	is($node->safe_psql('postgres', $ask_absent), '0', "$units units: nothing found");
	$node->poll_query_until('postgres', 'SELECT units_on = units_wanted FROM lsm_elastic_stats()') or die 'units are not loaded';
	my ($segments, $on) = split /\|/, stats('segments, units_on');
	# 64 bytes at 4 bits: 128 keys
	is($segments, int((60000 + 127) / 128), "$units units: segments of the one file");
	is($on, $segments * $units, "$units units: on");
	my ($probes, $false, $asked) = ask_and_count('filter_probes, filter_false_positives, unit_probes');
	is($first_false, $false, "$units units: as many false positives in the first statement after the start");
	is($first_on, $on, "$units units: on after it");
	my $expected = 0.148 ** $units;
	my $rate = $false / $probes;
	my $error = 4 * sqrt($expected / $probes) + 0.06 * $expected;
	diag(sprintf('%d units on: false positive rate %.6f, expected %.6f, %.3f units asked per probe', $units, $rate, $expected, $asked / $probes));
	cmp_ok(abs($rate - $expected), '<=', $error, "$units units: false positive rate is as expected");
}

# Advice about memory: a reload will do as long as the server has reserved it.
sub advice
{
	return $node->safe_psql('postgres', qq{$ask_absent
SELECT current, suggested, statement, substring(reason from '[^ ]* [^ ]*\$') FROM lsm_advise('f_id') WHERE setting = 'lsm.elastic_memory'}) =~ s/^0\n//r;
}
$node->safe_psql('postgres', 'ALTER SYSTEM SET lsm.elastic_initial_units = 2');
$node->restart;
$node->safe_psql('postgres', q{ALTER SYSTEM SET lsm.elastic_memory = '64kB'});
$node->reload;
$node->poll_query_until('postgres', 'SELECT budget_bytes = 65536 FROM lsm_elastic_stats()') or die 'not reloaded';
is(advice(), q{64 kB|128 kB|ALTER SYSTEM SET lsm.elastic_memory = '128 kB';|will do.},
	'advice about memory: a reload');
$node->safe_psql('postgres', q{ALTER SYSTEM SET lsm.elastic_memory = '128 kB'});
$node->reload;
ok($node->poll_query_until('postgres', 'SELECT budget_bytes = 131072 FROM lsm_elastic_stats()'), '... takes effect');
$node->safe_psql('postgres', q{ALTER SYSTEM SET lsm.elastic_memory = '64 kB'});
$node->restart;
is(advice(), q{64 kB|128 kB|ALTER SYSTEM SET lsm.elastic_memory = '128 kB';|next start.}, 'advice about memory: a restart');
$node->safe_psql('postgres', q{ALTER SYSTEM SET lsm.elastic_memory = '2MB'});

# A damaged unit: right answers without it, a warning, a row of lsm_verify.
$node->safe_psql('postgres', 'ALTER SYSTEM SET lsm.elastic_initial_units = 3');
$node->stop;
my $flt = (sort { -s $b <=> -s $a } lsm_files_of($node, qr/\.flt$/))[0];
my $units_at = (-s $flt) - int((60000 + 127) / 128) * 4 * 64;
lsm_flip_bits($flt, $units_at + 10 * 64 + 3, 0x5a);
$node->start;
my $found = q{SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT count(*) FROM generate_series(1, 60000) i CROSS JOIN LATERAL (SELECT * FROM f WHERE id = i * 2 OFFSET 0) x;};
is($node->safe_psql('postgres', $found), '60000', 'damaged unit: every row is found');
is($node->safe_psql('postgres', $ask_absent), '0', 'damaged unit: and no other');
$node->poll_query_until('postgres', 'SELECT units_on = units_wanted FROM lsm_elastic_stats()') or die;
is(stats('units_on'), 3 * (int((60000 + 127) / 128) - 1), 'damaged unit: its segment does without');
is($node->safe_psql('postgres', $found), '60000', 'damaged unit: every row is found with the others on');
like(slurp_file($node->logfile), qr/filter file "[^"]*" is corrupt.*\n.*Unit 0 of segment 10 cannot be read/, 'damaged unit: a warning');
like($node->safe_psql('postgres', q{SELECT problem FROM lsm_verify('f')}), qr/checksum of unit 0 of segment 10 is wrong/, 'damaged unit: lsm_verify');

# A damaged directory: the same.  Then the filter is built again, and its units come.
$node->stop;
lsm_flip_bits($flt, $units_at + 10 * 64 + 3, 0x5a);
lsm_flip_bits($flt, 64 + 64 + 20);
$node->start;
my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$found");
like($err, qr/WARNING:  XX001: filter file ".*\.flt" is corrupt/, 'damaged directory: a warning');
like($out, qr/^60000$/m, 'damaged directory: every row is found');
($rc, $out, $err) = $node->psql('postgres', q{SELECT problem FROM lsm_verify('f')});
like("$out$err", qr/corrupt/, 'damaged directory: lsm_verify');
is($node->safe_psql('postgres', q{SET client_min_messages = error; SELECT lsm_compact('f'); SELECT count(*) FROM lsm_verify('f')}), "\n0", 'damaged directory: mended');
is($node->safe_psql('postgres', $found), '60000', 'mended: every row is found');
$node->poll_query_until('postgres', 'SELECT units_on = units_wanted FROM lsm_elastic_stats()') or die;
is(stats('units_on'), 3 * int((60000 + 127) / 128), 'mended: all segments have units');
$node->stop;

# A crash.
$node->start;
is($node->safe_psql('postgres', $found), '60000', 'mended');
my @pids = lsm_pids($node);
kill 'KILL', $pids[0];
lsm_restart_after_crash($node, @pids);
is($node->safe_psql('postgres', $found), '60000', 'after a crash');
is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('f')}), '', 'lsm_verify after a crash');

# A new size by reload is for the next start, also if shared memory is made again before.
$node->safe_psql('postgres', q{ALTER SYSTEM SET lsm.elastic_memory = '512MB'});
$node->reload;
$node->poll_query_until('postgres', q{SELECT current_setting('lsm.elastic_memory') = '512MB'}) or die;
my $writer = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'background writer'});
kill 'KILL', $writer;
for (1 .. 600)
{
	my ($rc, $out) = eval { $node->psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'background writer'}) };
	last if defined $rc && $rc == 0 && $out ne '' && $out ne $writer;
	usleep(100_000);
}
is($node->safe_psql('postgres', 'SELECT count(*) > 0 FROM f'), 't', 'more elastic memory by reload: the server comes up again after a crash');
$node->stop;
done_testing();
