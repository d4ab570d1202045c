# Hash sharing on trees of at least four populated levels: one digest per lookup with it,
# one per filter probed without, the same results and the same probes.  And what README.md shows of it to a newcomer: its
# "Five minutes", as they are typed and as psql answers, on a server of default settings.
# tier: check
use strict;
use warnings;
use File::Basename;
use IPC::Run;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = lsm_node('sharing', conf => "lsm.memtable_size = 64kB\nlsm.target_file_size = 64kB\nlsm.size_ratio = 2\nautovacuum = off");
lsm_start($node);
$node->safe_psql('postgres', q{
CREATE TABLE l (id int, k text, v text) USING lsm;
CREATE INDEX l_id ON l USING lsm (id) WITH (size_ratio = 2);
CREATE INDEX l_bloom ON l USING lsm (k, id) WITH (filter_scheme = bloom, bits_per_key = 14);
CREATE TABLE heap (id int, k text, v text) USING heap;
CREATE TABLE probes AS SELECT ((i::bigint * 15485863) % 1000003)::int AS id FROM generate_series(1, 6000) i;
ANALYZE probes;});
foreach my $r (0 .. 59)
{
	$node->safe_psql('postgres', qq{INSERT INTO l SELECT ((i::bigint * 7919 + $r * 104729::bigint) % 1000003)::int, 'key ' || (i * 31 + $r) % 10007, 'value ' || i FROM generate_series(1, 3000) i});
}
$node->safe_psql('postgres', q{INSERT INTO heap SELECT * FROM l; CREATE INDEX ON heap (id); CREATE INDEX ON heap (k, id); ANALYZE heap});

sub levels
{
	return $node->safe_psql('postgres', q{SELECT (SELECT string_agg(l::text, ';') FROM lsm_levels('l_id') l), (SELECT string_agg(l::text, ';') FROM lsm_levels('l_bloom') l), (SELECT string_agg(l::text, ';') FROM lsm_levels('l') l)});
}

# until background compaction has nothing to do
sub settle
{
	my $before = '';
	foreach (1 .. 60)
	{
		my $now = levels();
		return if $now eq $before;
		$before = $now;
		usleep(2_500_000);
	}
	return;
}
$node->safe_psql('postgres', q{SELECT lsm_flush('l')});
settle();
diag($node->safe_psql('postgres', q{SELECT string_agg(l::text, ' ') FROM lsm_levels('l_id') l}));
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM lsm_levels('l_id') WHERE files > 0}), '>=', 4, 'at least four populated levels');

my $off = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off; SET max_parallel_workers_per_gather = 0;';
my %queries = (
	l_id => 'SELECT count(*), sum(x.id), md5(string_agg(x.v, \'\' ORDER BY x.id, x.v)) FROM probes p CROSS JOIN LATERAL (SELECT * FROM @ WHERE id = p.id OFFSET 0) x',
	l_bloom => 'SELECT count(*), sum(x.id) FROM probes p CROSS JOIN LATERAL (SELECT * FROM @ WHERE k = \'key \' || p.id % 20000 AND id = p.id OFFSET 0) x');

sub counters
{
	my ($index, $sharing) = @_;
	(my $query = $queries{$index}) =~ s/\@/l/;
	my $out = $node->safe_psql('postgres', qq{
SELECT pg_stat_lsm_reset() \\g /dev/null
$off
SET lsm.hash_sharing = $sharing;
$query;
SELECT lookups, digests, filter_probes, filter_negatives, filter_true_positives, filter_false_positives FROM pg_stat_lsm WHERE relname = '$index';
SELECT lookups, digests, filter_probes FROM pg_stat_lsm WHERE relname = 'l';
});
	return split /\n/, $out =~ s/^\n+//r;
}

foreach my $index (sort keys %queries)
{
	my ($result, $on, $table_on, $result_off, $off_line, $table_off);
	foreach (1 .. 10)
	{
		my $before = levels();
		($result, $on, $table_on) = counters($index, 'on');
		($result_off, $off_line, $table_off) = counters($index, 'off');

		# of the same files
		last if levels() eq $before;
	}
	(my $query = $queries{$index}) =~ s/\@/heap/;
	is($result, $node->safe_psql('postgres', $query), "$index: result is the heap's");
	is($result_off, $result, "$index: same result without sharing");
	my ($lookups, $digests, $probes, $negatives, $true, $false) = split /\|/, $on;
	my @unshared = split /\|/, $off_line;
	diag("$index on: $on off: $off_line; table on: $table_on off: $table_off");
	is($lookups, 6000, "$index: one lookup per probe");
	is($digests, $lookups, "$index: sharing on: digests = lookups");
	cmp_ok($probes, '>', $lookups, "$index: more than one filter per lookup");
	is($negatives + $true + $false, $probes, "$index: positives and negatives add up");
	cmp_ok($false, '<', 0.05 * $probes, "$index: few false positives");
	is($unshared[1], $unshared[2], "$index: sharing off: digests = filter probes");
	is(join('|', @unshared[0, 2 .. 5]), join('|', $lookups, $probes, $negatives, $true, $false), "$index: same probes without sharing");
	my @t = split /\|/, $table_on;
	is($t[1], $t[0], 'table: one digest per row fetch');
	@t = split /\|/, $table_off;
	is($t[1], $t[2], 'table: sharing off: digests = filter probes');
}
is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('l')}), '', 'lsm_verify');
$node->stop;

SKIP:
{
	skip 'README.md shows what psql 15 prints', 5 if lsm_version() != 15;
	my ($part) = slurp_file(($ENV{LSM_DOCS} // dirname(__FILE__) . '/../../../../docs') . '/../README.md') =~ /^## Five minutes\n(.*?)^## /ms;
	my @shown = $part =~ /^```sql\n(.*?)^```\n```\n(.*?)^```$/msg;
	cmp_ok(scalar @shown, '>=', 4, 'README.md, "Five minutes": statements and what they print');
	is(scalar(() = $part =~ /^```/mg), 2 * @shown, 'README.md, "Five minutes": every block is one of them');
	my $fresh = PostgreSQL::Test::Cluster->new('readme');
	$fresh->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ]);
	$fresh->append_conf('postgresql.conf', "shared_preload_libraries = 'lsmam'");
	$fresh->start;
	$fresh->safe_psql('postgres', 'CREATE EXTENSION lsmam');
	my @statements = @shown[ grep { $_ % 2 == 0 } 0 .. $#shown ];
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-X', '-d', $fresh->connstr('postgres') ], '<', \join("\\echo @@\n", @statements), '>', \$out, '2>', \$err);
	# without blanks at ends of lines, and empty lines at the end
	my @printed = map { s/[ ]+$//mgr =~ s/\n+\z/\n/r } split /^@@\n/m, $out;
	is($err, '', 'README.md, "Five minutes": no message');
	is_deeply(\@printed, [ @shown[ grep { $_ % 2 } 0 .. $#shown ] ], 'README.md, "Five minutes": psql prints what is shown');
	is($fresh->safe_psql('postgres', q{SELECT * FROM lsm_verify('events'::regclass)}), '', 'README.md, "Five minutes": lsm_verify');
	$fresh->stop;
}
done_testing();
