# Filters that know leading columns never cost an answer: an lsm table with an index of random columns returns what its heap
# twin returns, whatever filters its files have, through flushes, compactions, changes of filter_columns and of the scheme,
# REINDEX and crashes.
#   LSM_ROUNDS: steps per index (10; long: 100)
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

lsm_seed();
my $rounds = $ENV{LSM_ROUNDS} // (lsm_long() ? 100 : 10);
my $node = lsm_node('leading', conf => q{
autovacuum = off
fsync = off
lsm.memtable_size = 1MB
max_parallel_workers_per_gather = 0
min_parallel_table_scan_size = 0
min_parallel_index_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
});
lsm_start($node);

sub sql { return $node->safe_psql('postgres', $_[0]); }

my %types = (
	int => ['int4', '(r * 7919 % 23)'],
	big => ['int8', '(r * 104729 % 17)'],
	utf => ['text COLLATE "en_US"', q{(ARRAY['a','A','á','b-c','bc','Bc','','é','z z'])[1 + r % 9] || (r % 3)}],
	bytes => ['text COLLATE "C"', q{repeat('x', (r % 5)::int) || (r % 4)}],
	long => ['text COLLATE "C"', q{repeat(md5((r % 4)::text), CASE WHEN r % 2 = 0 THEN 140 ELSE 1 END)}],
	uuid => ['uuid', q{md5((r % 19)::text)::uuid}],
	num => ['numeric', q{((r % 13) - 6) * 0.50}],
	inet => ['inet', q{('10.0.0.' || r % 11)::inet}],
	ts => ['timestamp', q{timestamp '2026-01-01' + (r % 50) * interval '1 h'}],
	bits => ['varbit', q{(r % 9)::int::bit(5)::varbit}],
	arr => ['int[]', q{ARRAY[(r % 3)::int, (r % 2)::int]}]);
my $has_locale = sql(q{SELECT count(*) FROM pg_collation WHERE collname = 'en_US'});
if (!$has_locale)
{
	# the images' locale if there is one, else ICU's
	my $made = $node->psql('postgres', q{CREATE COLLATION "en_US" (provider = libc, locale = 'en_US.utf8')});
	sql(q{CREATE COLLATION "en_US" (provider = icu, locale = 'en-US')}) if $made != 0;
}
sql(q{CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)});
$types{loose} = ['text COLLATE loose', q{(ARRAY['a','A','b','B','c'])[1 + r % 5]}];

my @schemes = qw(blocked bloom quotient cascade elastic ribbon none);
my %columns_of;

sub literal
{
	my ($kind) = @_;
	my $r = int(rand(60));
	return sql("SELECT quote_nullable($types{$kind}[1]) FROM (SELECT $r\::int8 AS r) x");
}

sub add_rows
{
	my ($t, $n) = @_;
	my @kinds = @{ $columns_of{$t} };
	my $values = join(', ', map { 'CASE WHEN random() < 0.1 THEN NULL ELSE ' . ($types{ $kinds[$_] }[1] =~ s/\br\b/r$_/gr) . ' END' } 0 .. $#kinds);
	my $rs = join(', ', map { my $span = (3, 12, 60)[ rand 3 ]; "floor(random() * $span)::int8 AS r$_" } 0 .. $#kinds);
	# the same rows go to both
	sql("WITH new AS MATERIALIZED (SELECT nextval('ids') AS id, $values FROM (SELECT $rs FROM generate_series(1, $n)) x),
		one AS (INSERT INTO heap_$t SELECT * FROM new) INSERT INTO lsm_$t SELECT * FROM new");
	return;
}

# Equality on some leading columns, perhaps something on the next one, in some order.
sub question
{
	my ($t) = @_;
	my @kinds = @{ $columns_of{$t} };
	my $n = 1 + int(rand(@kinds));
	my @quals = map { rand() < 0.15 ? "c$_ IS NULL" : rand() < 0.1 ?
		"c$_ IN (" . literal($kinds[$_]) . ', ' . literal($kinds[$_]) . ')' : "c$_ = " . literal($kinds[$_]) } 0 .. $n - 1;
	push @quals, "c$n " . (qw(> < >= <=))[ rand 4 ] . ' ' . literal($kinds[$n]) if $n < @kinds && rand() < 0.3;
	return join(' AND ', @quals);
}

sub compare
{
	my ($t, $when) = @_;
	my @bad;
	my @kinds = @{ $columns_of{$t} };
	my @plans = ('enable_bitmapscan = off', 'enable_indexscan = off');
	my $script = "SET enable_seqscan = off;\nSET max_parallel_workers_per_gather = " . (rand() < 0.3 ? 2 : 0) . ";\n";
	my @questions = map { question($t) } 1 .. 12;
	for my $q (@questions)
	{
		my $plan = $plans[ rand @plans ];
		# limits are compared by what is ordered: the key
		my $direction = rand() < 0.5 ? 'ASC' : 'DESC';
		my $order = join(', ', map { "c$_ $direction" } 0 .. $#kinds);
		my $limit = rand() < 0.5 ? 'LIMIT ' . int(1 + rand(10)) : '';
		for my $side (qw(heap lsm))
		{
			$script .= "SET " . ($side eq 'lsm' ? $plan : 'enable_bitmapscan = on') . ";\n"
				. "SELECT coalesce(md5(string_agg(id::text, ',' ORDER BY id)), 'none'), count(*) FROM ${side}_$t WHERE $q;\n"
				. "SELECT coalesce(md5(string_agg(x::text, ',')), 'none') FROM (SELECT "
				. join(', ', map { $kinds[$_] eq 'loose' ? "lower(c$_)" : "c$_" } 0 .. $#kinds)
				. " FROM ${side}_$t WHERE $q ORDER BY $order $limit) x;\nRESET enable_bitmapscan; RESET enable_indexscan;\n";
		}
	}
	my @lines = split /\n/, sql($script);
	for my $i (0 .. $#questions)
	{
		my @four = @lines[ 4 * $i .. 4 * $i + 3 ];
		push @bad, "$questions[$i]: @four" if $four[0] ne $four[2] || $four[1] ne $four[3];
	}
	diag("$t $when: $_") foreach @bad;
	return scalar(@bad);
}

sql('CREATE SEQUENCE ids');
my @names;
for my $scheme (@schemes)
{
	my @kinds = sort { rand() <=> 0.5 } keys %types;
	splice @kinds, 2 + int(rand(2));
	@kinds = qw(int ts) if $scheme eq 'bloom';
	@kinds = qw(utf int uuid) if $scheme eq 'blocked';
	@kinds = qw(long loose num) if $scheme eq 'quotient';
	$columns_of{$scheme} = \@kinds;
	push @names, $scheme;
	my $list = join(', ', map { "c$_ $types{$kinds[$_]}[0]" } 0 .. $#kinds);
	my $keys = join(', ', map { "c$_" . (rand() < 0.3 ? ' DESC' : '') . (rand() < 0.2 ? ' NULLS FIRST' : '') } 0 .. $#kinds);
	note("$scheme: $list; ($keys)");
	sql("CREATE TABLE heap_$scheme (id int8, $list) USING heap; CREATE TABLE lsm_$scheme (id int8, $list) USING lsm;
		CREATE INDEX i_$scheme ON lsm_$scheme USING lsm ($keys) WITH (filter_scheme = $scheme, size_ratio = 20)");
}
for my $t (@names)
{
	my $bad = 0;
	my $did = '';
	for my $round (1 .. $rounds)
	{
		add_rows($t, 1 + int(rand(300)));
		sql("DELETE FROM heap_$t WHERE id % 17 = $round % 17; DELETE FROM lsm_$t WHERE id % 17 = $round % 17") if rand() < 0.3;
		my $what = int(rand(10));
		$did = $what < 4 ? 'flush' : $what < 6 ? 'compact' : $what == 6 ? 'alter' : $what == 7 ? 'reindex' : $what == 8 ? 'scheme' : 'crash';
		$did = 'flush' if $round <= 3;
		sql("SELECT lsm_flush('i_$t')") if $did eq 'flush';
		sql("SELECT lsm_compact('i_$t')") if $did eq 'compact';
		sql("ALTER INDEX i_$t SET (filter_columns = " . int(rand(4)) . "); SELECT lsm_flush('i_$t')") if $did eq 'alter';
		sql("REINDEX INDEX i_$t") if $did eq 'reindex';
		sql("ALTER INDEX i_$t SET (filter_scheme = $schemes[rand @schemes]); SELECT lsm_flush('i_$t')") if $did eq 'scheme';
		if ($did eq 'crash')
		{
			$node->stop('immediate');
			$node->start;
		}
		$bad += compare($t, "after $did in round $round");
	}
	is($bad, 0, "$t: all answers are the twin's");
	is(sql("SELECT * FROM lsm_verify('i_$t')"), '', "$t: no problem found");
}

# one file per run
$node->append_conf('postgresql.conf', "lsm.memtable_size = 16MB\nlsm.target_file_size = 64MB");
$node->reload;

# what filters say is asked for at all, and leading columns alike under every scheme that knows them
for my $scheme (qw(blocked bloom quotient cascade elastic ribbon))
{
	sql("CREATE TABLE q (a int, b int) USING lsm; CREATE INDEX q_i ON q USING lsm (a, b) WITH (filter_scheme = $scheme, bits_per_key = 10, size_ratio = 100)");
	for my $run (1 .. 3)
	{
		# even ones only, all over the range; the same leading parts in every run
		sql("INSERT INTO q SELECT 2 * (i / 4), 4 * $run + i % 4 FROM generate_series(0, 19999) i; SELECT lsm_flush('q_i')");
	}
	sql(q{SELECT pg_stat_lsm_reset()});
	my $found = sql(q{SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
		SELECT sum((SELECT count(*) FROM q WHERE a = 2 * k + 1)) FROM generate_series(0, 4998) k});
	is($found, 0, "$scheme: absent leading columns have no rows");
	my ($columns, $probes, $negatives, $false) = split /\|/, sql(q{SELECT min(filter_columns), sum(probes), sum(negatives), sum(false_positives) FROM lsm_filters('q_i') WHERE segment IS NULL});
	is(sql(q{SELECT count(*) FROM lsm_files('q_i')}), 3, "$scheme: three runs");
	my $expected = sql(q{SELECT avg(expected_fpr) FROM lsm_filters('q_i') WHERE segment IS NULL});
	is($columns, 1, "$scheme: files know one leading column");
	is($probes, 4999 * 3, "$scheme: each file was asked once per scan");
	ok($false < 2 * $expected * $probes + 20, "$scheme: $false false positives of $probes, expected rate $expected");
	is($negatives + $false, $probes, "$scheme: everything else was skipped");
	is(sql(q{SET enable_seqscan = off; SELECT count(*) FROM generate_series(0, 4999) k WHERE (SELECT count(*) FROM q WHERE a = 2 * k) <> 12}), 0,
		"$scheme: no false negative");
	# merged: the same leading parts of three inputs are in the output once
	# elastic filters have them beside the keys
	my $beside = $scheme eq 'elastic' ? 5000 : 0;
	is(sql(q{SELECT sum(keys) FROM lsm_filters('q_i') WHERE segment IS NULL}), 3 * (25000 - $beside), "$scheme: each file has its leading parts");
	sql(q{ALTER INDEX q_i SET (bits_per_key = 8); SELECT lsm_compact('q_i')});
	is(sql(q{SELECT string_agg(keys::text, ' ') FROM lsm_filters('q_i') WHERE segment IS NULL}), 65000 - $beside, "$scheme: a leading part counts once");
	is(sql(q{SELECT * FROM lsm_verify('q_i')}), '', "$scheme: no problem found after compaction");
	sql(q{DROP TABLE q});
}

# workers write for those who have opened the index since the crash, and know its leading columns from them
$node->append_conf('postgresql.conf', "lsm.memtable_size = 1MB");
$node->reload;
sql(q{CREATE TABLE w (a int, b int) USING lsm; CREATE INDEX w_i ON w USING lsm (a, b) WITH (filter_columns = 1, size_ratio = 100)});
sql(q{INSERT INTO w SELECT i % 100, i FROM generate_series(1, 40000) i});
$node->stop('immediate');
$node->start;
# neither of these is a session that opens the index to use it
sql(q{SELECT count(*) FROM lsm_sizes WHERE relname = 'w_i'; SELECT relpages FROM pg_class WHERE relname = 'w_i'});
sql(q{INSERT INTO w SELECT i % 100, i FROM generate_series(40001, 80000) i});
ok($node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM lsm_filters('w_i')}), 'workers write files after a crash');
is(sql(q{SELECT DISTINCT filter_columns FROM lsm_filters('w_i')}), 1, '... and all know the leading column');
$node->stop;
done_testing();
