# Index-only scans give the executor values, not tuples, and fall back to its own function for the rows that are not the
# plain case; runs that alternate are read ahead.  What is returned is what a heap table with btree returns: of each
# type, with NULLs in between, from cursors that go to and fro, forward and backward, beside rows that are not visible to all, for any number of
# runs in any order; and what is counted is what heap counts.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = lsm_seed();
my $node = lsm_node('rows', conf => q{
autovacuum = off
fsync = off
max_parallel_workers_per_gather = 0
lsm.compaction_by_scans = off
lsm.memtable_size = 16MB});
lsm_start($node);

my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;';
sub query { return $node->safe_psql('postgres', "SET extra_float_digits = 1; $_[0]"); }

# the query for the twins h and l gives the same; by an index-only scan of l
sub same
{
	my ($sql, $what, $not_index_only) = @_;
	(my $of_heap = $sql) =~ s/\bl\b/h/g;
	like(query("$by_index EXPLAIN $sql"), qr/Index Only Scan/, "$what: index-only") if !$not_index_only;
	return is(query("$by_index $sql"), query("$by_index $of_heap"), $what);
}

# ---- types, each as key and as INCLUDE column, every seventh value NULL ----

my %values = (
	bool => 'i % 3 = 0', int2 => '(hashint4(i) >> 16)::int2', int4 => 'hashint4(i)', int8 => 'hashint8(i) * 4294967296::int8 + i',
	float4 => q{CASE i % 5 WHEN 0 THEN '-0' WHEN 1 THEN 'NaN' ELSE (hashint4(i) / 1000.0)::text END::float4},
	float8 => q{CASE i % 5 WHEN 0 THEN '-0' WHEN 1 THEN '-Infinity' ELSE (hashint4(i) / 1000.0)::text END::float8},
	numeric => '(hashint4(i) / 1000.0)::numeric(20, 3)', date => q{date '2026-01-01' + hashint4(i) % 10000},
	timestamptz => q{timestamptz '2026-01-01' + hashint4(i) * interval '1 s'}, time => q{time '00:00' + hashint4(i) * interval '1 s'},
	uuid => 'md5(i::text)::uuid', macaddr => q{left(md5(i::text), 12)::macaddr}, money => '(i % 1000)::money', oid => 'hashint4(i)::oid',
	text => q{CASE i % 4 WHEN 0 THEN '' WHEN 1 THEN md5(i::text) WHEN 2 THEN repeat(md5(i::text), 5) ELSE repeat('x', i % 200) END COLLATE "C"},
	bytea => q{decode(repeat('00ff', i % 90), 'hex')}, name => q{md5(i::text)::name}, bpchar => q{left(md5(i::text), 5)::char(10)},
	inet => q{('10.' || i % 256 || '.1.2/' || i % 33)::inet}, 'int[]' => 'ARRAY[i % 7, i]', jsonb => 'jsonb_build_object(\'a\', i)', interval => q{i * interval '1 min'});
my $n = 3000;
foreach my $type (sort keys %values)
{
	my $value = "CASE WHEN i % 7 <> 3 THEN $values{$type} END";
	query(qq{CREATE TABLE h AS SELECT i AS id, $value AS v FROM generate_series(1, $n) i; CREATE TABLE l (LIKE h) USING lsm; INSERT INTO l SELECT * FROM h});
	query(qq{CREATE INDEX ON h (v, id); CREATE INDEX ON h (id) INCLUDE (v); CREATE INDEX ON l USING lsm (v, id); CREATE INDEX ON l USING lsm (id) INCLUDE (v)});
	query('VACUUM (ANALYZE) h; VACUUM (ANALYZE) l');
	my $returned = query(q{SELECT pg_index_column_has_property('l_v_id_idx', 1, 'returnable')}) eq 't';
	same(q{SELECT md5(string_agg(id || ':' || coalesce(v::text, 'NULL'), ',' ORDER BY v, id)) FROM (SELECT v, id FROM l ORDER BY v, id OFFSET 0) x}, "$type: key", !$returned || $type =~ /^(jsonb|int\[\])$/);
	same(q{SELECT md5(string_agg(id || ':' || coalesce(v::text, 'NULL'), ',' ORDER BY id)) FROM (SELECT id, v FROM l WHERE id BETWEEN 100 AND 2900 ORDER BY id OFFSET 0) x}, "$type: INCLUDE");
	same(q{SELECT md5(string_agg(id || ':' || coalesce(v::text, 'NULL'), ',')) FROM (SELECT id, v FROM l WHERE id BETWEEN 100 AND 2900 ORDER BY id DESC OFFSET 0) x}, "$type: INCLUDE, backward");
	same(q{SELECT count(*), count(v), sum(id) FROM l WHERE id > 5 AND v::text LIKE '%1%'}, "$type: filter");
	query('DROP TABLE h; DROP TABLE l');
}

# ---- what is counted ----

query(q{CREATE TABLE h AS SELECT i AS k, i % 10 AS w, 'value ' || i AS v FROM generate_series(1, 20000) i; CREATE TABLE l (LIKE h) USING lsm;
	INSERT INTO l SELECT * FROM h; CREATE INDEX h_k ON h (k) INCLUDE (w, v); CREATE INDEX l_k ON l USING lsm (k) INCLUDE (w, v); INSERT INTO l SELECT i + 20000, 0, 'last' FROM generate_series(1, 600) i;
	INSERT INTO h SELECT i + 20000, 0, 'last' FROM generate_series(1, 600) i; VACUUM (ANALYZE) h; VACUUM (ANALYZE) l});
my $plan = query("$by_index EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) SELECT v FROM l WHERE k BETWEEN 1 AND 10000 AND w = 3");
like($plan, qr/Rows Removed by Filter: 9000$/m, 'rows removed by a filter');
like($plan, qr/Heap Fetches: 0$/m, 'no rows looked at');
like($plan, qr/actual rows=1000(\.00)? loops=1/, 'rows');
my %read;
foreach my $t ('h', 'l')
{
	query("SELECT pg_stat_reset_single_table_counters('${t}_k'::regclass)");
	query("$by_index SELECT count(v) FROM $t WHERE k <= 10000");
	$node->poll_query_until('postgres', "SELECT idx_tup_read > 0 FROM pg_stat_user_indexes WHERE indexrelname = '${t}_k'");
	$read{$t} = query("SELECT idx_scan, idx_tup_read, idx_tup_fetch FROM pg_stat_user_indexes WHERE indexrelname = '${t}_k'");
}
is($read{l}, $read{h}, 'statistics');
query(q{UPDATE l SET v = v || '!' WHERE k % 4000 = 0; UPDATE h SET v = v || '!' WHERE k % 4000 = 0});
like(query("$by_index EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) SELECT v FROM l WHERE k <= 10000"), qr/Heap Fetches: [1-9]/, 'rows of changed blocks are looked at');
same('SELECT md5(string_agg(v, \',\' ORDER BY k)) FROM (SELECT k, v FROM l WHERE k <= 20000 ORDER BY k OFFSET 0) x', 'some blocks are not visible to all');

# ---- cursors to and fro, rescans, marks ----

query(q{INSERT INTO l SELECT NULL, i % 10, NULL FROM generate_series(1, 50) i; INSERT INTO h SELECT NULL, i % 10, NULL FROM generate_series(1, 50) i});
for my $round (1 .. 4)
{
	my @moves;
	for (1 .. 120)
	{
		my $by = int(rand(rand() < 0.3 ? 2000 : 100));
		my $move = (qw(FORWARD BACKWARD RELATIVE ABSOLUTE))[int(rand(4))];
		push @moves, $move eq 'RELATIVE' ? 'FETCH RELATIVE ' . ($by - 50) : $move eq 'ABSOLUTE' ? 'FETCH ABSOLUTE ' . $by * 5 : "FETCH $move $by";
	}
	my %out;
	foreach my $t ('h', 'l')
	{
		my $order = $round % 2 ? 'k, w' : 'k DESC';
		$order = 'k' if $round % 2;
		$out{$t} = query("$by_index BEGIN; DECLARE c SCROLL CURSOR FOR SELECT k, w, v FROM $t WHERE w <> 5 ORDER BY $order; " . join('', map { "$_ FROM c;" } @moves) . 'COMMIT');
		$out{$t} =~ s/^\|.*$/NULL/mg;	# in any order
	}
	is($out{l}, $out{h}, "cursor to and fro, round $round (seed $seed)");
}
same('SELECT count(*), sum(b.k) FROM generate_series(1, 300) g, LATERAL (SELECT k FROM l WHERE k > g * 50 ORDER BY k LIMIT g) b', 'rescans');
query("CREATE TABLE two AS SELECT k FROM h, generate_series(1, 2) ORDER BY k; ANALYZE two");
same('SELECT count(*), sum(a.k), sum(length(b.v)) FROM two a JOIN l b ON a.k = b.k', 'merge join', 1);
is(query("$by_index SET enable_hashjoin = off; SET enable_nestloop = off; SELECT count(*), sum(length(b.v)) FROM (SELECT k FROM two ORDER BY k) a JOIN l b USING (k)"),
	query("SELECT count(*), sum(length(b.v)) FROM two a JOIN h b USING (k)"), 'marks');
same('SELECT (SELECT count(v) FROM l WHERE k < g.i) FROM generate_series(1, 2000, 400) g(i)', 'subplans');
query('DROP TABLE h; DROP TABLE l');

# ---- runs: 1 to 9, entries that alternate or come in rows, the same keys again, rows of many lengths ----

foreach my $runs (1, 2, 3, 5, 9)
{
	foreach my $turn (1, 3, 40)
	{
		my $prefix = (q{''}, q{repeat('p', 60)}, q{left(md5((i / 500)::text), 3) || repeat('q', 20)})[$runs % 3];
		query(qq{CREATE TABLE h (i int, k text COLLATE "C", v text); CREATE TABLE l (LIKE h) USING lsm;
			CREATE INDEX h_k ON h (k); CREATE INDEX h_i ON h (i) INCLUDE (v); CREATE INDEX l_k ON l USING lsm (k); CREATE INDEX l_i ON l USING lsm (i) INCLUDE (v)});
		for my $run (0 .. $runs - 1)
		{
			foreach my $t ('h', 'l')
			{
				query(qq{INSERT INTO $t SELECT 2 * i, $prefix || hashint4(i), repeat('v', CASE WHEN i % 50 = 0 THEN 3000 ELSE i % 60 END) FROM generate_series(1, 6000) i WHERE (i / $turn) % $runs = $run;
					UPDATE $t SET v = v || '+', k = CASE WHEN i % 2 = 0 THEN k ELSE k || '$run' END WHERE i / 2 % 37 = $run; DELETE FROM $t WHERE i / 2 % 101 = $run + 50});
			}
			query(q{SELECT lsm_flush('l'); SELECT lsm_flush('l_k'); SELECT lsm_flush('l_i')});
		}
		my $what = "$runs runs, $turn entries in a row";
		for my $vacuumed (0, 1)
		{
			if ($vacuumed) { query('VACUUM (ANALYZE) h; VACUUM (ANALYZE) l'); }
			same(q{SELECT count(*), md5(string_agg(k, ',')) FROM (SELECT k FROM l ORDER BY k OFFSET 0) x}, "$what: strings", 1);
			same(q{SELECT count(*), md5(string_agg(k, ',')) FROM (SELECT k FROM l ORDER BY k DESC OFFSET 0) x}, "$what: strings, backward", 1);
			same(q{SELECT count(*), md5(string_agg(i || v, ',')) FROM (SELECT i, v FROM l WHERE i > 17 AND i <= 11800 ORDER BY i DESC OFFSET 0) x}, "$what: INCLUDE, backward", 1);
			same(q{SELECT md5(string_agg(x::text, ',')) FROM (SELECT (SELECT array_agg(i) FROM (SELECT i FROM l WHERE i <= g AND i >= g - 400 ORDER BY i DESC LIMIT g % 90) y) AS x FROM generate_series(1, 12000, 501) g) z}, "$what: LIMIT, backward", 1);
			same(q{SELECT count(*), md5(string_agg(i || v, ',')) FROM (SELECT i, v FROM l WHERE i BETWEEN 17 AND 11800 ORDER BY i OFFSET 0) x}, "$what: INCLUDE", 1);
			same(q{SELECT md5(string_agg(x::text, ',')) FROM (SELECT (SELECT array_agg(i) FROM (SELECT i FROM l WHERE i >= g ORDER BY i LIMIT g % 90) y) AS x FROM generate_series(1, 12000, 501) g) z}, "$what: LIMIT", 1);
			is(query(q{SELECT count(*), sum(hashtext(l::text)) FROM l}), query(q{SELECT count(*), sum(hashtext(h::text)) FROM h}), "$what: sequential scan");
			# entries of memtables on top, a cursor that stays while runs go
			my $cursor = query(qq{$by_index BEGIN; DECLARE c SCROLL CURSOR FOR SELECT i, v FROM l ORDER BY i; FETCH 100 FROM c; SELECT lsm_flush('l_i'); SELECT lsm_compact('l_i'); FETCH 1000 FROM c; FETCH BACKWARD 300 FROM c; FETCH 4000 FROM c; COMMIT});
			my $heap = query(qq{$by_index BEGIN; DECLARE c SCROLL CURSOR FOR SELECT i, v FROM h ORDER BY i; FETCH 100 FROM c; SELECT ''; SELECT ''; FETCH 1000 FROM c; FETCH BACKWARD 300 FROM c; FETCH 4000 FROM c; COMMIT});
			is($cursor, $heap, "$what: cursor beside a compaction");
			query(q{DELETE FROM l WHERE i % 11 = 3; INSERT INTO l SELECT i, 'new' || i, 'n' FROM generate_series(1, 12000, 14) i; DELETE FROM h WHERE i % 11 = 3; INSERT INTO h SELECT i, 'new' || i, 'n' FROM generate_series(1, 12000, 14) i}) if !$vacuumed;
		}
		is(query(q{SELECT (SELECT count(*) FROM lsm_verify('l')) + (SELECT count(*) FROM lsm_verify('l_k')) + (SELECT count(*) FROM lsm_verify('l_i'))}), 0, "$what: verified");
		query('DROP TABLE h; DROP TABLE l');
	}
}

# ---- the same entries in several runs: rows of a heap table come back to where they were ----

query(q{CREATE TABLE h (k int, v text); CREATE INDEX h_k ON h USING lsm (k) INCLUDE (v); INSERT INTO h SELECT hashint4(i), 'v' || i FROM generate_series(1, 6000) i; SELECT lsm_flush('h_k')});
for my $run (1 .. 3)
{
	query(q{CREATE TABLE gone AS SELECT * FROM h WHERE k BETWEEN 0 AND 400000000 AND k % 2 = 0 ORDER BY ctid; DELETE FROM h WHERE k BETWEEN 0 AND 400000000 AND k % 2 = 0; VACUUM h;
		INSERT INTO h SELECT * FROM gone; DROP TABLE gone; INSERT INTO h SELECT hashint4(i) & 268435455, 'new' FROM generate_series(} . 1000 * $run . ', ' . (1000 * $run + 300) . q{) i; SELECT lsm_flush('h_k'); VACUUM h});
	is(query("$by_index SELECT count(*), count(DISTINCT k), sum(hashtext(v)), bool_and(k >= 0 OR k < 0) FROM h WHERE k > -2147483648"),
		query('SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT count(*), count(DISTINCT k), sum(hashtext(v)), true FROM h'), "$run runs above with the same entries");
	cmp_ok(query(q{SELECT sum(entries) FROM lsm_levels('h_k')}), '>', query('SELECT count(*) FROM h'), 'entries that are there twice') if $run == 1;
}

$node->stop;
done_testing();
