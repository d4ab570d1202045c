# What users may make as large as they like costs no more than its size: a type of types of types, each of which has the
# one below it twice, and a key that packing makes small.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Utils;
use Test::More;

use constant DEPTH => 64;

my $node = lsm_node('deep');
lsm_start($node);

sub ask
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '20s'; SET enable_seqscan = off; SET enable_bitmapscan = off; $sql");
	return $rc == 0 ? $out : $err;
}

# ---- a type with 2^64 columns in all ----

# (PostgreSQL looks at each of them when it makes a column; so they get their types afterwards)
my $top = 't' . DEPTH;
$node->safe_psql('postgres', join('', map { "CREATE TYPE t$_ AS (a text COLLATE \"C\", b text COLLATE \"C\");" } 0 .. DEPTH)
	. "CREATE TABLE deep (id int, k $top) USING lsm; CREATE TABLE other (id int, k $top) USING lsm;"
	. "CREATE FUNCTION nothing(int) RETURNS $top LANGUAGE plpgsql STABLE AS \$\$ BEGIN RETURN NULL; END \$\$;"
	. 'SET allow_system_table_mods = on;'
	. q{UPDATE pg_attribute a SET (atttypid, attlen, attbyval, attalign, attstorage, attcollation) =
			(SELECT t.oid, t.typlen, t.typbyval, t.typalign, t.typstorage, 0 FROM pg_type t
			WHERE t.typname = 't' || substr(c.relname, 2)::int - 1)
		FROM pg_class c WHERE c.oid = a.attrelid AND c.relkind = 'c' AND c.relname ~ '^t[1-9]' AND a.attnum > 0;});
is(ask('CREATE INDEX deep_k ON deep USING lsm (k)'), '', 'an index of a deep type is made');
is(ask(q{INSERT INTO deep VALUES (1, '(,)'), (2, NULL)}), '', 'rows are inserted');
is(ask(qq{SELECT id FROM deep WHERE k = '(,)'::$top}), '1', 'and found');
like(ask(qq{EXPLAIN (COSTS OFF) SELECT id FROM deep WHERE k = '(,)'::$top}), qr/Index Scan using deep_k/, 'by the index');
is(ask('SELECT * FROM lsm_verify(\'deep\'::regclass)'), '', 'and verified');
is(ask('REINDEX INDEX deep_k'), '', 'and built again');

is(ask('INSERT INTO other SELECT i, nothing(i) FROM generate_series(1, 100) i; SELECT count(*) FROM other'), '100', 'rows of a query are inserted');

# a column that is dropped at the bottom is noticed
$node->safe_psql('postgres', 'ALTER TYPE t0 DROP ATTRIBUTE b');
like(ask(q{INSERT INTO deep VALUES (3, '(,)')}), qr/whose columns have changed/, 'a dropped column is noticed');
is(ask('REINDEX INDEX deep_k'), '', 'the index is built again');
is(ask(qq{SELECT id FROM deep WHERE k = '(,)'::$top}), '1', 'and used');

# ---- an enum of many labels, and a list as long ----

$node->safe_psql('postgres', q{DO $$ BEGIN EXECUTE 'CREATE TYPE many AS ENUM (' || (SELECT string_agg(quote_literal('l' || i), ', ') FROM generate_series(1, 20000) i) || ')'; END $$;
	CREATE TABLE labels (e many, n int) USING lsm; CREATE INDEX labels_e ON labels USING lsm (e);
	INSERT INTO labels SELECT ('l' || i)::many, i FROM generate_series(1, 20000, 100) i});
is(ask(q{SET plan_cache_mode = force_generic_plan;
	PREPARE q (many[]) AS SELECT n FROM labels WHERE e < ANY ($1) ORDER BY e LIMIT 2; EXECUTE q (array_fill('l1'::many, ARRAY[1000000]) || 'l102'::many)}), "1\n101", 'a range of a long list');

# ---- a key of millions of equal characters ----

$node->safe_psql('postgres', 'CREATE TABLE long_keys (id int, k text COLLATE "C") USING lsm; CREATE INDEX long_keys_k ON long_keys USING lsm (k)');
is(ask(q{INSERT INTO long_keys VALUES (1, repeat('a', 1000000))}), '', 'a million equal characters are a key');
is(ask(q{SELECT id FROM long_keys WHERE k = repeat('a', 1000000)}), '1', 'which is found');
like(ask(q{INSERT INTO long_keys VALUES (2, repeat('a', 5000000))}), qr/exceeds lsm_index maximum/, 'five million are not');
like(ask(q{INSERT INTO long_keys SELECT i, repeat('a', CASE WHEN i = 19 THEN 5000000 ELSE 1 END) FROM generate_series(1, 20) i}), qr/exceeds lsm_index maximum/, 'nor are they among rows that are written together');
is(ask(q{SELECT count(*) FROM long_keys WHERE k < repeat('a', 5000000)}), '1', 'but may be compared with');
is(ask(q{SELECT * FROM lsm_verify('long_keys'::regclass)}), '', 'verified');
$node->stop;
done_testing();
