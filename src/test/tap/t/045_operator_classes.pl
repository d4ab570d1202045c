# Random values of types whose codes are made of others, or that are rarely keys, against the order that PostgreSQL
# sorts them in, in databases that compare bytes, by ICU and by libc.  LSM_TYPES="int[] jsonb": only these.
use strict;
use warnings;
use utf8;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# a locale of libc, in a directory of our own
my $locpath = PostgreSQL::Test::Utils::tempdir();
my $libc = system("localedef -i en_US -f UTF-8 $locpath/en_US.UTF-8 >/dev/null 2>&1") == 0;
if ($libc)
{
	system("localedef -i C -f UTF-8 $locpath/C.utf8 >/dev/null 2>&1") == 0
	  or system("cp -r /usr/lib/locale/C.utf8 $locpath/") == 0
	  or BAIL_OUT('no C.UTF-8');
	chmod 0755, $locpath;
	$ENV{LOCPATH} = $locpath;
}
else { diag('NOT TESTED for want of localedef or its sources: libc'); }

my $node = lsm_node('operator_classes', conf => "autovacuum = off\nlsm.memtable_memory = 64MB\nwork_mem = 16MB");
lsm_start($node);
my $seed = lsm_seed();
srand($seed);

# ---- random values, as SQL ----
my $many = lsm_long() ? 1000 : 90;
sub one { return $_[rand @_]; }
sub quote { my ($s) = @_; $s =~ s/'/''/g; return "'$s'"; }
sub int_of { return rand() < 0.5 ? int(rand 4) - 1 : one(-2147483648, 2147483647, 255, 256, -256, 65535, -65536, int(rand 1e6)); }
sub big_of { return rand() < 0.6 ? int_of() : one('9223372036854775807', '-9223372036854775808', '4294967296', '-4294967297'); }
sub numeric_of { return one(0, '0.0', '0.000', 1, '1.0', '1.00', -1, '-1.0', 10, '10.0', 100, '0.1', '0.10', '-0.1', '9999.9999', '10000', '1e20', '1e-20', '-1e20', 'NaN', 'Infinity', '-Infinity', int(rand 1e5) / 100); }
sub finite_of { my $n; do { $n = numeric_of() } until $n !~ /N|I/; return $n; }
sub float_of { return one(0, '-0', 1, -1, '1e300', '-1e300', '1e-300', '-1e-300', 'NaN', 'Infinity', '-Infinity', rand() - 0.5); }
my @letters = (split(//, 'abAB01 -_.'), "\x{e4}", "\x{c4}", "\x{e9}", "e\x{301}", "\x{1}", "\x{4e00}", 'ß', 'co-op', 'coop');
sub text_of { return join '', map { one(@letters) } 1 .. int rand 4; }
sub bytes_of { return join '', map { one('00', '01', 'ff', 'fe', '02') } 1 .. int rand 5; }
sub element { my ($of) = @_; return rand() < 0.15 ? 'NULL' : $of->(); }
# {...}, of one dimension or more
sub array_of
{
	my ($of) = @_;
	my $item = sub { my $v = element($of); return $v if $v eq 'NULL'; $v =~ s/([\\"])/\\$1/g; return qq{"$v"}; };
	my $way = rand;
	return '{}' if $way < 0.05;
	return '{' . join(',', map { $item->() } 1 .. 1 + rand 3) . '}' if $way < 0.7;
	if ($way < 0.8)
	{
		my ($from, $n) = (int(rand 4) - 2, 1 + int rand 2);
		return "[$from:" . ($from + $n - 1) . ']={' . join(',', map { $item->() } 1 .. $n) . '}';
	}
	my ($m, $n) = (1 + int rand 2, 1 + int rand 2);
	my $rows = join ',', map { '{' . join(',', map { $item->() } 1 .. $n) . '}' } 1 .. $m;
	return $way < 0.95 ? "{$rows}" : "[2:" . ($m + 1) . "][0:" . ($n - 1) . "]={$rows}";
}
sub range_of
{
	my ($of, $less) = @_;
	return 'empty' if rand() < 0.1;
	my ($a, $b) = ($of->(), $of->());
	($a, $b) = ($b, $a) if !$less->($a, $b);
	$_ = '"' . s/([\\"])/\\$1/gr . '"' foreach $a, $b;
	return one('[', '(') . (rand() < 0.15 ? '' : $a) . ',' . (rand() < 0.15 ? '' : $b) . one(']', ')');
}
my $by_number = sub { return $_[0] <= $_[1] };
my @networks = (map { int rand 2 } 1 .. 4);
sub inet_of
{
	if (rand() < 0.5)
	{
		return join('.', map { one(0, 1, 10, 127, 128, 255) } 1 .. 4) . (rand() < 0.8 ? '/' . int rand 33 : '');
	}
	return join(':', map { one('0', '1', '8000', 'ffff', '7f') } 1 .. 8) . (rand() < 0.8 ? '/' . int rand 129 : '');
}
sub json_of
{
	my ($depth) = @_;
	my $way = rand;
	my $text = sub { my $t = text_of(); $t =~ s/([\\"])/\\$1/g; $t =~ s/\x{1}/\\u0001/g; return qq{"$t"}; };
	return one('null', 'true', 'false') if $way < 0.15;
	return finite_of() if $way < 0.35;
	return $text->() if $way < 0.5 || $depth > 2;
	return '[' . join(',', map { json_of($depth + 1) } 1 .. rand 4) . ']' if $way < 0.75;
	return '{' . join(',', map { $text->() . ':' . json_of($depth + 1) } 1 .. rand 4) . '}';
}
sub lexemes
{
	return join ' ', map { "'" . one('a', 'b', 'ab', 'abc', "\x{e4}", 'a b') . "'" . (rand() < 0.6 ? ':' . join(',', map { (1 + int rand 5) . one('', 'A', 'B', 'C') } 1 .. 1 + rand 3) : '') } 1 .. rand 4;
}
sub cast { my ($type, $of) = @_; return sub { return quote($of->()) . "::$type" }; }
sub sql_or_null { my ($v, $type) = @_; return (rand() < 0.25 ? 'NULL' : quote($v)) . "::$type"; }
my $row = sub { return 'ROW(' . sql_or_null(int_of(), 'int') . ', ' . sql_or_null(text_of(), 'text') . ', ' . sql_or_null(numeric_of(), 'numeric') . ', ' . sql_or_null(array_of(\&int_of), 'int[]') . ')::pair'; };
my %types = (
	'money' => cast('money', sub { return one(0, 1, -1, '0.01', '-0.01', '92233720368547758.07', '-92233720368547758.08', int(rand 1000)) }),
	'pg_lsn' => cast('pg_lsn', sub { return sprintf '%X/%X', int(rand 3) * 0x7fffffff, int(rand 3) * 0x7fffffff }),
	'xid8' => cast('xid8', sub { return one(0, 1, '18446744073709551615', '9223372036854775808', int(rand 1e9)) }),
	'tid' => cast('tid', sub { return '(' . one(0, 1, 4294967295, 2147483648, int(rand 300)) . ',' . one(0, 1, 2, 65535, 256) . ')' }),
	'macaddr' => cast('macaddr', sub { return join ':', map { one('00', '01', '7f', '80', 'ff') } 1 .. 6 }),
	'macaddr8' => cast('macaddr8', sub { return join ':', map { one('00', '01', '7f', '80', 'ff') } 1 .. 8 }),
	'inet' => cast('inet', \&inet_of),
	'cidr' => sub { return quote(inet_of()) . '::inet::cidr' },
	'bit(11)' => cast('bit(11)', sub { return join '', map { int rand 2 } 1 .. 11 }),
	'varbit' => cast('varbit', sub { return rand() < 0.3 ? '0' x rand 20 : join '', map { one(0, 0, 0, 1) } 1 .. rand 20 }),
	'oidvector' => cast('oidvector', sub { return join ' ', map { one(0, 1, 2, 256, 4294967295) } 1 .. rand 4 }),
	'tsvector' => cast('tsvector', \&lexemes),
	'jsonb' => cast('jsonb', sub { return json_of(0) }),
	'int[]' => cast('int[]', sub { return array_of(\&int_of) }),
	'int8[]' => cast('int8[]', sub { return array_of(\&big_of) }),
	'numeric[]' => cast('numeric[]', sub { return array_of(\&numeric_of) }),
	'float8[]' => cast('float8[]', sub { return array_of(\&float_of) }),
	'float4[]' => cast('float4[]', sub { return array_of(sub { return one(0, '-0', 1, -1, 'NaN', 'Infinity', '1e-30') }) }),
	'text[]' => cast('text[]', sub { return array_of(\&text_of) }),
	'bpchar[]' => cast('bpchar[]', sub { return array_of(sub { return text_of() . ' ' x rand 3 }) }),
	'bytea[]' => cast('bytea[]', sub { return array_of(sub { return '\\x' . bytes_of() }) }),
	'bool[]' => cast('bool[]', sub { return array_of(sub { return one('t', 'f') }) }),
	'inet[]' => cast('inet[]', sub { return array_of(\&inet_of) }),
	'varbit[]' => cast('varbit[]', sub { return array_of(sub { return '0' x rand(10) . one('', 1) }) }),
	'int4range[]' => cast('int4range[]', sub { return array_of(sub { return range_of(sub { return int rand 3 }, $by_number) }) }),
	'int4range' => cast('int4range', sub { return range_of(sub { return int(rand 6) - 3 }, $by_number) }),
	'numrange' => cast('numrange', sub { return range_of(\&finite_of, $by_number) }),
	'textrange' => cast('textrange', sub { return range_of(sub { return join '', map { one('a', 'b', ' ') } 1 .. rand 3 }, sub { return $_[0] le $_[1] }) }),
	'int4multirange' => cast('int4multirange', sub { return '{' . join(',', map { range_of(sub { return int(rand 9) - 3 }, $by_number) } 1 .. rand 4) . '}' }),
	'nummultirange' => cast('nummultirange', sub { return '{' . join(',', map { range_of(\&finite_of, $by_number) } 1 .. rand 3) . '}' }),
	'pair' => $row,
	'pair[]' => sub { return 'ARRAY[' . join(',', map { rand() < 0.1 ? 'NULL' : $row->() } 1 .. rand 4) . ']::pair[]' },
	'nested' => sub { return 'ROW(' . (rand() < 0.2 ? 'NULL' : $row->()) . ', ' . sql_or_null(int_of(), 'int') . ', ' . (rand() < 0.2 ? 'NULL' : quote(inet_of()) . '::inet') . ')::nested' },
	'moods' => sub { return 'ROW(' . sql_or_null(one('sad', 'ok', 'happy'), 'mood') . ', ' . sql_or_null(int_of(), 'int') . ')::moods' },
	'citext' => cast('citext', \&text_of),
	'citext[]' => cast('citext[]', sub { return array_of(\&text_of) }));
my %libc_unordered = map { $_ => 1 } 'jsonb', 'text[]', 'bpchar[]', 'pair', 'pair[]', 'nested', 'citext[]';

sub check_type
{
	my ($db, $type, $of, $ordered) = @_;
	my @values = map { my $i = $_; '(' . $i . ', ' . (rand() < 0.05 ? "NULL::$type" : $of->()) . ')' } 1 .. $many;
	my $setup = join ";\n", 'SET client_min_messages = error', 'DROP TABLE IF EXISTS h, l, u',
	  "CREATE TABLE h (id int, v $type, rk int, w int) USING heap",
	  'INSERT INTO h (id, v) VALUES ' . join(', ', @values),
	  'UPDATE h SET w = h.id % 3, rk = r FROM (SELECT id, dense_rank() OVER (ORDER BY v) r FROM h) s WHERE s.id = h.id',
	  'CREATE TABLE l (LIKE h) USING lsm', "CREATE TABLE u (id int, v $type UNIQUE) USING lsm",
	  'INSERT INTO l SELECT * FROM h WHERE id % 2 = 0',
	  'CREATE INDEX l_v ON l USING lsm (v) INCLUDE (id, rk)', 'CREATE INDEX l_wv ON l USING lsm (w, v DESC NULLS LAST, id)',
	  "SELECT lsm_flush('l')", 'INSERT INTO l SELECT * FROM h WHERE id % 2 = 1 AND id % 7 > 2', "SELECT lsm_flush('l')",
	  'INSERT INTO l SELECT * FROM h WHERE id % 2 = 1 AND id % 7 <= 2', rand() < 0.3 ? "SELECT lsm_compact('l')" : 'SELECT 1',
	  'DROP INDEX IF EXISTS u_v', 'CREATE UNIQUE INDEX u_v ON u USING lsm (v)',
	  'INSERT INTO u SELECT id, v FROM h ON CONFLICT DO NOTHING', 'VACUUM l', 'ANALYZE h, l';
	utf8::encode($setup);
	my ($rc, $out, $err) = $node->psql($db, $setup);
	is($rc, 0, "$db $type: filled") or do { diag("seed $seed: $err"); return; };
	my @checks;
	my $script = '';
	my $off = 'SET enable_seqscan = off; SET enable_sort = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;';
	my $check = sub {
		my ($name, $want, $have) = @_;
		push @checks, $name;
		$script .= "\\echo ==\nSET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;\n$want;\nRESET ALL; $off\n$have;\nRESET ALL;\n";
	};
	foreach my $op ('<', '<=', '=', '>=', '>')
	{
		my $want = "SELECT count(*) || ' ' || coalesce(sum(a.id * b.id::bigint), 0) FROM h a JOIN h b ON b.rk $op a.rk AND a.v IS DISTINCT FROM NULL AND b.v IS DISTINCT FROM NULL";
		$check->("index $op", $want, "SET enable_bitmapscan = off; SELECT count(*) || ' ' || coalesce(sum(a.id * b.id::bigint), 0) FROM h a JOIN l b ON b.v $op a.v");
		$check->("bitmap $op", $want, "SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT count(*) || ' ' || coalesce(sum(a.id * b.id::bigint), 0) FROM h a JOIN l b ON b.v $op a.v");
		$check->("second column $op", $want =~ s/ON /ON b.w = 1 AND /r, "SELECT count(*) || ' ' || coalesce(sum(a.id * b.id::bigint), 0) FROM h a JOIN l b ON b.w = 1 AND b.v $op a.v");
	}
	foreach my $order ('ORDER BY v', 'ORDER BY v DESC', 'WHERE w = 1 ORDER BY v DESC NULLS LAST', 'WHERE w = 1 ORDER BY v NULLS FIRST')
	{
		$check->($order, "SELECT string_agg(rk::text, ' ') FROM (SELECT rk FROM h $order) s", "SELECT string_agg(rk::text, ' ') FROM (SELECT rk FROM l $order) s");
	}
	$check->('values', "SELECT md5(string_agg(id || coalesce(v::text, '-'), ' ' ORDER BY id)) FROM h",
		"SELECT md5(string_agg(id || coalesce(v::text, '-'), ' ' ORDER BY id)) FROM l");
	$check->('unique', 'SELECT count(DISTINCT rk) FILTER (WHERE v IS DISTINCT FROM NULL) + count(*) FILTER (WHERE v IS NOT DISTINCT FROM NULL) FROM h', 'SELECT count(*) FROM u');
	$check->('merge join', 'SELECT count(*) FROM h a JOIN h b USING (rk) WHERE a.v IS DISTINCT FROM NULL', 'SET enable_mergejoin = on; SET enable_nestloop = off; SELECT count(*) FROM l a JOIN l b USING (v)');
	$check->('lsm_verify', 'SELECT 0', q{SELECT (SELECT count(*) FROM lsm_verify('l')) + (SELECT count(*) FROM lsm_verify('u'))});
	my @bad;
	($rc, $out, $err) = $node->psql($db, $script, on_error_stop => 0);
	my (undef, @answers) = split /^==\n/m, "$out\n";
	foreach my $i (0 .. $#checks)
	{
		my ($want, $have) = split /\n/, $answers[$i] // '';
		push @bad, "$checks[$i]: wanted " . ($want // 'nothing') . ', have ' . ($have // 'nothing') if !defined $have || $want ne $have;
	}
	is(join("\n", @bad, $err), '', "$db $type: as btree has it") or diag("seed $seed");
	is($node->safe_psql($db, qq{$off EXPLAIN (COSTS OFF) SELECT id FROM l ORDER BY v}) =~ /Sort/ ? 'sorted' : 'ordered', $ordered ? 'ordered' : 'sorted', "$db $type: order");
	like($node->safe_psql($db, qq{$off SET enable_bitmapscan = off; EXPLAIN (COSTS OFF) SELECT a.id FROM h a JOIN l b ON b.v = a.v}), qr/Index (Only )?Scan using l_v/, "$db $type: found by index");
}

my %databases = (c => "LOCALE 'C.UTF-8'", icu => "LOCALE_PROVIDER icu ICU_LOCALE 'de' LOCALE 'C.UTF-8'");
$databases{libc} = "LOCALE 'en_US.UTF-8'" if $libc;
foreach my $db (sort keys %databases)
{
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0 ENCODING 'UTF8' $databases{$db}");
	# by the text that it compares, and by a code
	my ($proc, $returns, $code) = $db eq 'libc' ? (13, 'text', '') : (11, 'bytea', 'lsm_text_code');
	$node->safe_psql($db, qq{
CREATE EXTENSION lsmam;
CREATE EXTENSION citext;
CREATE FUNCTION citext_code(citext) RETURNS $returns LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN $code(lower(\$1::text COLLATE "default"));
CREATE OPERATOR CLASS citext_ops DEFAULT FOR TYPE citext USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 citext_cmp(citext, citext), FUNCTION $proc citext_code(citext);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
ALTER TYPE mood ADD VALUE 'first' BEFORE 'sad';
CREATE TYPE moods AS (m mood, i int);
CREATE TYPE pair AS (a int, gone int, t text, n numeric, d int[]);
ALTER TYPE pair DROP ATTRIBUTE gone;
CREATE TYPE nested AS (p pair, i int, a inet);
CREATE TYPE textrange AS RANGE (subtype = text, collation = "C")});
	my @wanted = $ENV{LSM_TYPES} ? split(' ', $ENV{LSM_TYPES}) : sort keys %types;
	# types without strings are the same everywhere
	@wanted = grep { $libc_unordered{$_} || $_ eq 'citext' } @wanted if $db ne 'c' && !lsm_long();
	check_type($db, $_, $types{$_}, $_ ne 'moods' && !($db eq 'libc' && $libc_unordered{$_})) foreach @wanted;
}
done_testing();
