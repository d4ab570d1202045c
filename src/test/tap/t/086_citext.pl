# citext in order under any collation, by an operator class with support function 13 (docs/usage.md): databases of several
# locales against btree's citext_ops.  LSM_STRINGS: how many (1500; long: 200,000).
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $locpath = PostgreSQL::Test::Utils::tempdir();
my @made = grep { system("localedef -i $_ -f UTF-8 $locpath/$_.UTF-8 >/dev/null 2>&1") == 0 } qw(en_US sv_SE);
if (@made)
{
	# LOCPATH is all that is looked at
	system("localedef -i C -f UTF-8 $locpath/C.utf8 >/dev/null 2>&1") == 0
	  or system("cp -r /usr/lib/locale/C.utf8 $locpath/") == 0
	  or BAIL_OUT('no C.UTF-8');
	chmod 0755, $locpath;
	$ENV{LOCPATH} = $locpath;
}
diag('NOT TESTED for want of localedef or its sources: locales of libc') if !@made;
my $node = lsm_node('citext', conf => 'autovacuum = off');
lsm_start($node);

my @letters = (split(//, q{aAbBcCxX -'1}), map { chr } 0xe4, 0xc4, 0xf6, 0xd6, 0xe5, 0xc5, 0xe9, 0xc9, 0x130, 0x131, 0x3c3, 0x3c2, 0x3a3, 0x416, 0x436);
srand(lsm_seed());
my $file = PostgreSQL::Test::Utils::tempdir() . '/strings';
open my $fh, '>:encoding(UTF-8)', $file or die "open: $!";
foreach my $i (1 .. $ENV{LSM_STRINGS} // (lsm_long() ? 200000 : 1500))
{
	print $fh join('', map { $letters[rand @letters] } 1 .. 1 + rand 6) . "\n";
}
# more than a group that is sorted at once
print $fh join("\n", '', ' ', ('Straße') x 3, (map { join '', map { rand() < 0.5 ? uc : $_ } qw(r e s u m e), rand() < 0.3 ? '-' : '' } 1 .. 700), ('DuP', 'dup') x 300,
	'Long ' x 700, 'long ' x 700 . 'A') . "\n";
close $fh;
chmod 0644, $file;
(my $dir = $file) =~ s{/strings$}{};
chmod 0755, $dir;

my %databases = (
	c => "LOCALE 'C'",
	icu => "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'",
	map { lc($_) => "LOCALE '$_.UTF-8'" } @made);
my $class = q{
CREATE FUNCTION citext_text(citext) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN lower($1::text COLLATE "default");

CREATE OPERATOR CLASS citext_ops DEFAULT FOR TYPE citext USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 citext_cmp(citext, citext),
	FUNCTION 13 citext_text(citext);
};
foreach my $name (sort keys %databases)
{
	my ($rc, $out, $err);
	$node->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE template0 ENCODING 'UTF8' $databases{$name}");
	$node->safe_psql($name, qq{
CREATE EXTENSION lsmam;
CREATE EXTENSION citext;
$class
CREATE DOMAIN mail AS citext;
CREATE TABLE s (id serial, k citext);
COPY s (k) FROM '$file' (FORMAT csv, DELIMITER E'\\x02', QUOTE E'\\x03', NULL E'\\x04');
CREATE TABLE h (id int, g int, k citext, m mail, a citext[]) USING heap;
CREATE TABLE l (LIKE h) USING lsm;
INSERT INTO h SELECT id, id % 5, k, k, ARRAY[left(k, 1), k] FROM s;
INSERT INTO h SELECT 10000000 + i, i % 5, NULL, NULL, NULL FROM generate_series(1, 100) i;
INSERT INTO l SELECT * FROM h WHERE id % 3 > 0;
CREATE INDEX ON h (k, id); CREATE INDEX ON h (g, k DESC, id); CREATE INDEX ON h (m, id); CREATE INDEX ON h (a)});
	is($node->safe_psql($name, q{SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'citext_ops' AND opcmethod = (SELECT oid FROM pg_am WHERE amname = 'lsm_index')}), 't', "$name: the class is valid");
	($rc, $out, $err) = $node->psql($name, q{
CREATE INDEX ON l USING lsm (k, id); CREATE INDEX ON l USING lsm (g, k DESC, id); CREATE INDEX ON l USING lsm (m, id); CREATE INDEX l_a ON l USING lsm (a);
INSERT INTO l SELECT * FROM h WHERE id % 3 = 0;
ANALYZE h, l});
	is($rc, 0, "$name: indexes are built");
	unlike($err, qr/index "l_(k|g|m)\w*" supports? equality only/, "$name: in order");
	# rows with equal strings come in any order
	my @queries = ('SELECT id::text || k AS v FROM @ ORDER BY k, id', 'SELECT id::text || k AS v FROM @ ORDER BY k DESC, id DESC', 'SELECT id::text || m AS v FROM @ ORDER BY m, id',
		q{SELECT id::text || k AS v FROM @ WHERE k > 'b' AND k <= 'Cé' ORDER BY k DESC, id DESC}, q{SELECT id::text || k AS v FROM @ WHERE k < 'RESUME' ORDER BY k, id},
		q{SELECT id::text || k AS v FROM @ WHERE k >= 'ж' ORDER BY k, id}, q{SELECT id::text || k AS v FROM @ WHERE k = 'RESUMe' ORDER BY k, id},
		q{SELECT id::text || k AS v FROM @ WHERE g = 3 ORDER BY k, id DESC}, q{SELECT id::text || k AS v FROM @ WHERE g = 1 AND k BETWEEN 'A' AND 'bX' ORDER BY k, id DESC},
		'SELECT lower(min(k)::text) || lower(max(k)::text) AS v FROM @', q{SELECT id::text || k AS v FROM @ WHERE k > 'DUP' ORDER BY k, id LIMIT 10},
		q{SELECT id::text || k AS v FROM @ WHERE (k, id) > ('dup', 1700) ORDER BY k, id LIMIT 400}, q{SELECT id::text || k AS v FROM @ WHERE (k, id) < ('duP', 1700) ORDER BY k DESC, id DESC LIMIT 400},
		q{SELECT id::text || k AS v FROM @ WHERE k IN ('', 'A', 'a ', 'aB', 'É', 'dUp') ORDER BY k, id}, 'SELECT lower(k::text) AS v FROM (SELECT DISTINCT k FROM @) d ORDER BY k',
		q{SELECT count(*)::text AS v FROM @ a JOIN @ b USING (k) WHERE length(k) < 3});
	my $off = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET enable_hashjoin = off; SET enable_hashagg = off; SET enable_nestloop = off; SET enable_material = off; SET enable_incremental_sort = off;';
	my @results = split /\n/, $node->safe_psql($name, "$off "
		. join ';', map { my $q = $_; map { "SELECT count(*), md5(string_agg(v, ',')) FROM (" . $q =~ s/@/$_/gr . ') q' } qw(l h) } @queries);
	my @plans = split /^--\n/m, $node->safe_psql($name, "$off " . join '; SELECT \'--\';', map { 'EXPLAIN (COSTS OFF) ' . s/@/l/gr } @queries);
	foreach my $i (0 .. $#queries)
	{
		is($results[2 * $i], $results[2 * $i + 1], "$name: as on btree: $queries[$i]");
		ok($plans[$i] =~ /Index/ && $plans[$i] !~ /Sort\b|Seq Scan/ || $queries[$i] =~ /IN \(|DISTINCT/, "$name: in order by index: $queries[$i]") or diag($plans[$i]);
	}
	is(scalar @results, 2 * @queries, "$name: every query has an answer");
	$node->safe_psql($name, q{SELECT lsm_flush('l'); SELECT lsm_compact('l'); VACUUM l});
	my $only = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*), md5(string_agg(k::text, \',\')) FROM (SELECT k FROM @ ORDER BY k, id) q';
	is($node->safe_psql($name, $only =~ s/@/l/r), $node->safe_psql($name, $only =~ s/@/h/r), "$name: the strings as they were written");
	like($node->safe_psql($name, "$off EXPLAIN (COSTS OFF) SELECT k FROM l ORDER BY k, id"), qr/Index Only Scan/, "$name: ... from the index alone");
	is($node->safe_psql($name, q{SET enable_seqscan = off; SELECT count(*) FROM l JOIN s ON l.a = ARRAY[upper(left(s.k, 1))::citext, lower(s.k::text)::citext] AND l.id = s.id}),
		$node->safe_psql($name, q{SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM l JOIN s ON l.a = ARRAY[upper(left(s.k, 1))::citext, lower(s.k::text)::citext] AND l.id = s.id}),
		"$name: arrays of citext");
	is($node->safe_psql($name, q{SELECT * FROM lsm_verify('l')}), '', "$name: lsm_verify");

	# keys
	$node->safe_psql($name, q{CREATE TABLE people (e citext PRIMARY KEY, m mail UNIQUE, n int) USING lsm;
INSERT INTO people VALUES ('Bob', 'Bob@example.org', 1), ('Ärger', 'x', 2)});
	is($node->safe_psql($name, q{SELECT string_agg(amname, ' ') FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE indrelid = 'people'::regclass}),
		'lsm_index lsm_index', "$name: keys are lsm");
	($rc, $out, $err) = $node->psql($name, q{INSERT INTO people VALUES ('bOB', 'y', 3)});
	like($err, qr/duplicate key value violates unique constraint "people_pkey".*Key \(e\)=\(bOB\) already exists/s, "$name: another case is a duplicate");
	($rc, $out, $err) = $node->psql($name, q{INSERT INTO people VALUES ('alice', 'BOB@EXAMPLE.ORG', 3)});
	like($err, qr/people_m_key/, "$name: ... of a domain, too");
	is($node->safe_psql($name, q{INSERT INTO people VALUES ('BOB', 'z', 4) ON CONFLICT (e) DO UPDATE SET n = excluded.n RETURNING e, n}), 'Bob|4', "$name: ON CONFLICT");
	is($node->safe_psql($name, q{SELECT lsm_flush('people'); SET enable_seqscan = off; SELECT e FROM people WHERE e = 'bob'}), "\nBob", "$name: found as it was written");
	is($node->safe_psql($name, q{SELECT count(*) FROM people WHERE e = 'ärGER'}), $name eq 'c' ? 0 : 1, "$name: letters beyond ASCII, as far as lower() knows them");
	($rc, $out, $err) = $node->psql($name, q{CREATE TABLE twice (e citext) USING lsm; INSERT INTO twice VALUES ('a'), ('b'), ('A'); CREATE UNIQUE INDEX ON twice USING lsm (e)});
	like($err, qr/could not create unique index.*Key \(e\)=\([aA]\) is duplicated/s, "$name: builds find duplicates");
	# other collations of the column
	$node->safe_psql($name, q{CREATE COLLATION insensitive (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
CREATE TABLE o (c citext COLLATE "C", i citext COLLATE insensitive, id int) USING lsm;
INSERT INTO o SELECT k, k, id FROM s;
CREATE INDEX oc ON o USING lsm (c, id); CREATE INDEX oi ON o USING lsm (i, id)});
	foreach my $column ('c', 'i')
	{
		my $q = "SELECT md5(string_agg(id::text, ',')) FROM (SELECT id FROM o ORDER BY $column, id) q";
		is($node->safe_psql($name, "$off $q"), $node->safe_psql($name, "SET enable_indexscan = off; SET enable_indexonlyscan = off; $q"), "$name: order of column $column of another collation");
		$q = "SELECT count(*), sum(id) FROM o WHERE $column = 'RESUME' OR $column = 'resumé'";
		is($node->safe_psql($name, "$off $q"), $node->safe_psql($name, "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; $q"), "$name: equality of column $column of another collation");
	}
	is($node->safe_psql($name, q{SELECT * FROM lsm_verify('o') UNION ALL SELECT * FROM lsm_verify('people')}), '', "$name: lsm_verify");
}

# ---- functions that will not do ----
$node->safe_psql('postgres', q{CREATE EXTENSION citext;
CREATE FUNCTION volatile_text(citext) RETURNS text LANGUAGE sql VOLATILE RETURN lower($1::text);
CREATE FUNCTION null_text(citext) RETURNS text LANGUAGE sql IMMUTABLE RETURN NULLIF(lower($1::text), 'null');
CREATE FUNCTION uuid_text(uuid) RETURNS text LANGUAGE sql IMMUTABLE RETURN $1::text;
CREATE FUNCTION citext_bytes(citext) RETURNS bytea LANGUAGE sql IMMUTABLE RETURN lower($1::text)::bytea;
CREATE TABLE c (k citext, u uuid) USING lsm;
INSERT INTO c VALUES ('a', '00000000-0000-0000-0000-000000000000')});
sub class_with
{
	my ($type, $compare, $function) = @_;
	return qq{DROP OPERATOR CLASS IF EXISTS bad_ops USING lsm_index; DROP OPERATOR FAMILY IF EXISTS bad_ops USING lsm_index;
CREATE OPERATOR CLASS bad_ops FOR TYPE $type USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 $compare($type, $type), FUNCTION 13 $function($type)};
}
foreach my $case ([ 'citext', 'citext_cmp', 'volatile_text', 'k', qr/volatile_text\((public\.)?citext\) must be marked IMMUTABLE/, 't' ],
	[ 'citext', 'citext_cmp', 'citext_bytes', 'k', qr/citext_bytes\((public\.)?citext\) must take one argument of type (public\.)?citext and return type text/, 'f' ],
	[ 'uuid', 'uuid_cmp', 'uuid_text', 'u', qr/uuid_text\(uuid\) is for types that can be read as text/, 'f' ])
{
	my ($type, $compare, $function, $column, $message, $valid) = @$case;
	$node->safe_psql('postgres', class_with($type, $compare, $function));
	my ($rc, $out, $err) = $node->psql('postgres', "CREATE INDEX ON c USING lsm ($column bad_ops)");
	like($err, $message, "$function is refused");
	is($node->safe_psql('postgres', q{SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'bad_ops'}), $valid, '... as amvalidate() knows');
}
$node->safe_psql('postgres', class_with('citext', 'citext_cmp', 'null_text') . '; CREATE INDEX ON c USING lsm (k bad_ops)');
my ($rc, $out, $err) = $node->psql('postgres', q{INSERT INTO c VALUES ('NULL')});
like($err, qr/support function null_text\(citext\) returned NULL/, 'a function that returns NULL');
is($node->safe_psql('postgres', q{SELECT count(*) FROM c; SELECT * FROM lsm_verify('c')}), 1, '... and nothing was written');
$node->stop;
done_testing();
