# What users may make as large as they like costs no more than its size: a type of types of types, each of which has the
# one below it twice, and a key that packing makes small.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Utils;
use Test::More;

use constant DEPTH => 24;

my $node = lsm_node('deep');
lsm_start($node);

sub ask
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '20s'; SET enable_seqscan = off; SET enable_bitmapscan = off; $sql");
	return $rc == 0 ? $out : $err;
}

# ---- a type with 2^24 columns in all ----

$node->safe_psql('postgres', 'CREATE TYPE t0 AS (a text COLLATE "C", b text COLLATE "C");'
	. join('', map { "CREATE TYPE t$_ AS (a t" . ($_ - 1) . ', b t' . ($_ - 1) . ');' } 1 .. DEPTH)
	. 'CREATE TABLE deep (id int, k t' . DEPTH . ') USING lsm');
is(ask('CREATE INDEX deep_k ON deep USING lsm (k)'), '', 'an index of a deep type is made');
is(ask(q{INSERT INTO deep VALUES (1, '(,)'), (2, NULL)}), '', 'rows are inserted');
is(ask(q{SELECT id FROM deep WHERE k = '(,)'::t24}), '1', 'and found');
like(ask(q{EXPLAIN (COSTS OFF) SELECT id FROM deep WHERE k = '(,)'::t24}), qr/Index Scan using deep_k/, 'by the index');
is(ask('SELECT * FROM lsm_verify(\'deep\'::regclass)'), '', 'and verified');
is(ask('REINDEX INDEX deep_k'), '', 'and built again');

# a column that is dropped at the bottom is noticed
$node->safe_psql('postgres', 'ALTER TYPE t0 DROP ATTRIBUTE b');
like(ask(q{INSERT INTO deep VALUES (3, '(,)')}), qr/from which columns were dropped/, 'a dropped column is noticed');
is(ask('REINDEX INDEX deep_k'), '', 'the index is built again');
is(ask(q{SELECT id FROM deep WHERE k = '(,)'::t24}), '1', 'and used');

# ---- a key of millions of equal characters ----

$node->safe_psql('postgres', 'CREATE TABLE long_keys (id int, k text COLLATE "C") USING lsm; CREATE INDEX long_keys_k ON long_keys USING lsm (k)');
is(ask(q{INSERT INTO long_keys VALUES (1, repeat('a', 1000000))}), '', 'a million equal characters are a key');
is(ask(q{SELECT id FROM long_keys WHERE k = repeat('a', 1000000)}), '1', 'which is found');
like(ask(q{INSERT INTO long_keys VALUES (2, repeat('a', 5000000))}), qr/exceeds lsm_index maximum/, 'five million are not');
is(ask(q{SELECT count(*) FROM long_keys WHERE k < repeat('a', 5000000)}), '1', 'but may be compared with');
is(ask(q{SELECT * FROM lsm_verify('long_keys'::regclass)}), '', 'verified');
$node->stop;
done_testing();
