# Text in order: databases of many locales against btree; indexes built before sort keys, and with another
# version of a collation.  LSM_LOCALES="en_us icu_en": only these databases; LSM_STRINGS: how many (2000; long: a million).
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# ---- locales: those of libc are made here, in a directory of our own ----
my @libc = qw(en_US de_DE sv_SE ja_JP th_TH);
my $locpath = PostgreSQL::Test::Utils::tempdir();
my %made;
foreach my $name (@libc)
{
	$made{$name} = 1 if system("localedef -i $name -f UTF-8 $locpath/$name.UTF-8 >/dev/null 2>&1") == 0;
}
if (%made)
{
	# LOCPATH is all that is looked at
	system("localedef -i C -f UTF-8 $locpath/C.utf8 >/dev/null 2>&1") == 0
	  or system("cp -r /usr/lib/locale/C.utf8 $locpath/") == 0
	  or BAIL_OUT('no C.UTF-8');
	chmod 0755, $locpath;
	$ENV{LOCPATH} = $locpath;
}
diag("NOT TESTED for want of localedef or its sources: locales of libc " . join(' ', grep { !$made{$_} } @libc))
  if keys %made < @libc;

my $node = lsm_node('text_order', initdb => [ lsm_no_checksums() ], conf => "autovacuum = off\nfull_page_writes = off\nallow_system_table_mods = on\nmax_wal_size = 1GB");
lsm_start($node);

# ---- strings that are hard to order ----
my @ascii = (split(//, q{abcABC019 -_.,'!@}), 'ab', '10');
my @every = (@ascii, map { chr } 0xe4, 0xf6, 0xfc, 0xdf, 0xe9, 0xe8, 0xc4, 0xf1, 0xe7, 0xe6, 0x153, 0x142, 0xf8, 0xc5, 0xe5,
	0x4e00, 0x4e8c, 0x65e5, 0x672c, 0x30a2, 0x3041, 0x43a, 0x438, 0x416, 0x44f, 0x3b1, 0x3b2, 0x3a9, 0x301, 0x308, 0x200b, 0xad,
	0x1f600, 0x5d0, 0x5d1, 0xe01, 0xe02, 0xe40, 0xe48, 0x2163, 0x2460, 0xfb01, 1, 0x10fffd);
my $strings = $ENV{LSM_STRINGS} // (lsm_long() ? 1000000 : 2000);
srand(lsm_seed());
my $file = PostgreSQL::Test::Utils::tempdir() . '/strings';
open my $fh, '>:encoding(UTF-8)', $file or die "open: $!";
foreach my $i (1 .. $strings)
{
	my $set = rand() < 0.5 ? \@ascii : \@every;
	print $fh join('', map { $set->[rand @$set] } 1 .. 1 + rand 14) . "\n";
}
print $fh "$_\n" foreach '', ' ', 'a', 'a ', '-', "\x{ad}", "\x{ad}\x{ad}", "\x{200b}", 'co-op', 'coop', "e\x{301}", "\x{e9}", "c\x{f4}te", "cot\x{e9}",
  (map { join '', map { ("\x{ad}", "\x{200b}", "\x{200d}", "\x{1}")[rand 4] } 1 .. 1 + rand 9 } 1 .. 700),
  # Hangul, emoji, punctuation, accents and what has no weight: in many locales without primary weights
  (map { join '', map { ("\x{ad00}", "\x{ae40}", "\x{d55c}", '!', '-', '@', ' ', "\x{1f600}", "\x{2665}", "\x{301}", "\x{308}", "\x{1}")[rand 4 * (1 + rand 3)] } 1 .. 1 + rand 6 } 1 .. 1500),
  (map { join '', map { chr(0xac00 + 28 * rand 20) } 1 .. 1 + rand 3 } 1 .. 800),
  (map { join '', map { rand() < 0.5 ? uc : $_ } qw(r e s u m e), rand() < 0.3 ? "\x{301}" : '' } 1 .. 500),
  ('dup') x 700, ('Dup') x 300, ('duplicate') x 300,
  'long ' x 700, 'long ' x 700 . 'a', 'Long ' x 700, "\x{e4}bc" x 3000, 'x' x 50000, 'x' x 50000 . 'X';
close $fh;
chmod 0644, $file;
(my $dir = $file) =~ s{/strings$}{};
chmod 0755, $dir;

# ---- each locale ----
my %databases = (
	c => [ "LOCALE 'C'", 1 ],
	c_utf8 => [ "LOCALE 'C.UTF-8'", 1 ],
	icu_en => [ "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'", 1 ],
	icu_sv => [ "LOCALE_PROVIDER icu ICU_LOCALE 'sv' LOCALE 'C'", 1 ],
	icu_th => [ "LOCALE_PROVIDER icu ICU_LOCALE 'th' LOCALE 'C'", 1 ],
	icu_numeric => [ "LOCALE_PROVIDER icu ICU_LOCALE 'de-u-kn-true-ka-shifted' LOCALE 'C'", 1 ],
	map { lc($_) => [ "LOCALE '$_.UTF-8'", 1 ] } keys %made);
# the server's own provider
$databases{builtin_c} = [ "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'", 1 ] if $node->pg_version >= 17;
$databases{builtin_fast} = [ "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'PG_UNICODE_FAST' LOCALE 'C'", 1 ] if $node->pg_version >= 18;
# ICU's sort keys contradict its comparisons, and amcheck finds fault with a btree, where punctuation is shifted and an
# ignorable character stands before a combining one.  Thai shifts by default.
my $contradictory = q{DELETE FROM s WHERE k ~ U&'[\0001\00ad\200b][\0301\0308\0e48]';};
%databases = map { $_ => $databases{$_} } split(' ', $ENV{LSM_LOCALES}) if $ENV{LSM_LOCALES};
foreach my $name (sort keys %databases)
{
	my ($locale, $ordered) = @{ $databases{$name} };
	my ($rc, $out, $err);
	$node->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE template0 ENCODING 'UTF8' $locale");
	$node->safe_psql($name, qq{
CREATE EXTENSION lsmam;
CREATE DOMAIN words AS text;
CREATE TABLE s (id serial, k text);
COPY s (k) FROM '$file' (FORMAT csv, DELIMITER E'\\x02', QUOTE E'\\x03', NULL E'\\x04');
@{[$locale =~ /shifted|'th'/ ? $contradictory : '']}
CREATE TYPE odd AS ENUM ('z', 'm', 'A', 'x');
ALTER TYPE odd ADD VALUE 'first' BEFORE 'z';
CREATE TABLE h (id int, g int, k text, d words, b bpchar, w text, e odd) USING heap;
CREATE TABLE l (id int, g int, k text, d words, b bpchar, w text, e odd) USING lsm;
INSERT INTO h SELECT id, id % 5, k, k, k, left(k, 2), (ARRAY['first', 'm', 'A', 'x', NULL]::odd[])[1 + id % 7] FROM s;
INSERT INTO h SELECT 10000000 + i, i % 5, NULL, NULL, NULL, CASE i % 2 WHEN 0 THEN 'a' END, 'm' FROM generate_series(1, 400) i;
INSERT INTO l SELECT * FROM h WHERE id % 3 > 0;
CREATE TABLE u (k text PRIMARY KEY, b bpchar UNIQUE) USING lsm;
INSERT INTO u SELECT DISTINCT ON (k) k, k FROM s ON CONFLICT DO NOTHING;
CREATE INDEX ON h (k); CREATE INDEX ON h (g, k DESC, id); CREATE INDEX ON h (d); CREATE INDEX ON h (b);
CREATE INDEX ON h (w, k, id); CREATE INDEX ON h (g, e, w DESC, id)});
	($rc, $out, $err) = $node->psql($name, q{
CREATE INDEX ON l USING lsm (k); CREATE INDEX ON l USING lsm (g, k DESC, id); CREATE INDEX ON l USING lsm (d); CREATE INDEX ON l USING lsm (b);
CREATE INDEX ON l USING lsm (w, k, id); CREATE INDEX ON l USING lsm (g, e, w DESC, id);
INSERT INTO l SELECT * FROM h WHERE id % 3 = 0;
ANALYZE h, l});
	is($rc, 0, "$name: indexes are built") or diag($err);
	is(scalar(() = $err =~ /supports equality only/g), $ordered ? 0 : 4, "$name: CREATE INDEX tells") or diag($err);
	is($node->safe_psql($name, q{SELECT string_agg(amname, ' ') FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE indrelid = 'u'::regclass}),
		$ordered ? 'lsm_index lsm_index' : 'btree btree', "$name: keys");
	my $off = 'SET enable_seqscan = off; SET enable_bitmapscan = off; ' . ($ordered ? 'SET enable_sort = off; SET enable_hashjoin = off; SET enable_nestloop = off;' : '');
	my @queries = ('SELECT k FROM @ ORDER BY k', 'SELECT k FROM @ ORDER BY k DESC', 'SELECT d AS k FROM @ ORDER BY d', 'SELECT b AS k FROM @ ORDER BY b',
		q{SELECT k FROM @ WHERE k > 'b' AND k <= 'Cé' ORDER BY k DESC}, q{SELECT k FROM @ WHERE k < '-1' ORDER BY k}, q{SELECT k FROM @ WHERE k >= 'я' ORDER BY k},
		q{SELECT id::text || k AS k FROM @ WHERE g = 3 ORDER BY @.k, id DESC}, q{SELECT k FROM @ WHERE g = 1 AND k BETWEEN 'a' AND 'b' ORDER BY k, id DESC},
		'SELECT min(k) || max(k) AS k FROM @', q{SELECT k FROM @ WHERE k LIKE 'ab%' ORDER BY k},
		'SELECT id::text AS k FROM @ ORDER BY w, @.k, id', 'SELECT id::text AS k FROM @ ORDER BY w DESC, @.k DESC, id DESC',
		q{SELECT id::text AS k FROM @ WHERE w > 'b' AND @.k < 'm' ORDER BY w, @.k, id LIMIT 1000}, q{SELECT id::text AS k FROM @ WHERE w = 'du' ORDER BY w, @.k, id},
		q{SELECT id::text AS k FROM @ WHERE w = 'du' AND @.k >= 'Dup' ORDER BY w DESC, @.k DESC, id DESC}, q{SELECT id::text AS k FROM @ WHERE w IN ('Re', 'rE', 're', 'du') ORDER BY w, @.k, id},
		'SELECT id::text AS k FROM @ ORDER BY g, e, w DESC, id', 'SELECT id::text AS k FROM @ ORDER BY g DESC, e DESC, w, id DESC',
		q{SELECT id::text AS k FROM @ WHERE g = 2 AND e > 'm' ORDER BY e, w DESC, id}, q{SELECT id::text AS k FROM @ WHERE g = 4 AND e <= 'A' AND w >= 'a' ORDER BY e DESC, w, id DESC},
		q{SELECT id::text AS k FROM @ WHERE g = 1 AND e = 'x' ORDER BY w DESC, id}, 'SELECT DISTINCT w AS k FROM @ ORDER BY w', q{SELECT @.k FROM @ WHERE @.k > 'dup' ORDER BY @.k LIMIT 10},
		q{SELECT @.k FROM @ WHERE @.k <= 'dup' ORDER BY @.k DESC LIMIT 1100}, q{SELECT @.k FROM @ WHERE @.k >= U&'\00ad\200b' AND @.k < 'a' ORDER BY @.k LIMIT 900},
		q{SELECT sum(hashtext(a.w || b.w))::text AS k FROM @ a JOIN @ b ON a.w = b.w AND a.id % 9 = b.id % 9 AND a.id < 5000 AND b.id < 5000},
		q{SELECT k FROM @ WHERE k IN ('', ' ', 'a', 'a ', 'ab', 'é', U&'e\0301', U&'\00ad') ORDER BY k},
		# among many strings the short ones have so many equals that pairs of them are all the time goes to
		'SELECT count(*)::text AS k FROM @ a JOIN @ b USING (k)' . ($strings > 10000 ? ' WHERE length(k) > 2' : ''));
	my @results = split /\n/, $node->safe_psql($name, "$off "
		. join ';', map { my $q = $_; map { "SELECT count(*), md5(string_agg(k, ',')) FROM (" . $q =~ s/@/$_/gr . ') q' } qw(l h) } @queries);
	my @plans = split /^--\n/m, $node->safe_psql($name, "$off "
		. join '; SELECT \'--\';', map { 'EXPLAIN (COSTS OFF) ' . s/@/l/gr } @queries);
	foreach my $i (0 .. $#queries)
	{
		is($results[2 * $i], $results[2 * $i + 1], "$name: as on btree: $queries[$i]");
		next unless $ordered && $queries[$i] !~ /LIKE/;
		ok($plans[$i] =~ /Index/ && $plans[$i] !~ /Sort\b|Seq Scan/, "$name: in order by index: $queries[$i]") or diag($plans[$i]);
	}
	is(scalar @results, 2 * @queries, "$name: every query has an answer");
	# to and fro
	foreach my $order ('k', 'w, k, id', 'w DESC, k DESC, id DESC', 'g, e, w DESC, id')
	{
		my $output = $order eq 'k' ? 'k' : 'id';
		my $fetch = join '; ', map { "FETCH $_ FROM c" } '3', 'BACKWARD 2', '5', '700', 'BACKWARD 300', '2', 'BACKWARD 1', 'PRIOR', 'NEXT', '1500', 'BACKWARD 1400', 'LAST', 'BACKWARD 600', '10', 'FIRST', 'PRIOR', 'NEXT', '300';
		# groups that do not fit into work_mem are read in another way
		my @rows = map {
			my ($t, $memory) = @$_;
			$node->safe_psql($name, "$off SET work_mem = '$memory'; BEGIN; DECLARE c SCROLL CURSOR FOR SELECT $output FROM $t ORDER BY $order; $fetch")
		} ([ 'h', '4MB' ], [ 'l', '4MB' ], [ 'l', '64kB' ]);
		ok($rows[0] eq $rows[$_] && length($rows[0]) > 1000, "$name: to and fro by $order, " . ('', 'much memory', 'little memory')[$_])
		  foreach 1, 2;
	}
	is($node->safe_psql($name, q{SELECT count(*) FROM s WHERE NOT EXISTS (SELECT FROM l WHERE l.k = s.k)}), 0, "$name: each by its key");
	($rc, $out, $err) = $node->psql($name, q{INSERT INTO u SELECT k || '' FROM u LIMIT 1});
	like($err, qr/duplicate key value violates unique constraint "u_pkey"/, "$name: a duplicate is refused");
	is($node->safe_psql($name, q{SELECT * FROM lsm_verify('l') UNION ALL SELECT * FROM lsm_verify('u')}), '', "$name: lsm_verify");
	$node->safe_psql($name, q{SELECT lsm_flush('l'); SELECT lsm_compact('l')});
	my $sorted = $node->safe_psql($name, "$off SELECT md5(string_agg(k, ',')) FROM (SELECT k FROM h ORDER BY k) q");
	is($node->safe_psql($name, "$off SET work_mem = '$_'; SELECT md5(string_agg(k, ',')) FROM (SELECT k FROM l ORDER BY k) q"), $sorted,
		"$name: as on btree, compacted, work_mem = $_") foreach '64kB', '64MB';
	# values that index-only scans hand over, most of them alone in their group
	$node->safe_psql($name, 'VACUUM h; VACUUM l');
	foreach my $query ('SELECT @.k FROM @ ORDER BY @.k', 'SELECT w || @.k || id AS k FROM @ ORDER BY w, @.k, id', q{SELECT k FROM @ WHERE k > 'a' AND k < 'm' ORDER BY k})
	{
		my @results = map { $node->safe_psql($name, "$off SELECT count(*), md5(string_agg(k, ',')) FROM (" . $query =~ s/@/$_/gr . ') q') } qw(l h);
		is($results[0], $results[1], "$name: as on btree, after VACUUM: $query");
	}
	$node->safe_psql('postgres', "DROP DATABASE $name");
}

# ---- metapages ----
my $db = 'meta';
$node->safe_psql('postgres', "CREATE DATABASE meta TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en' LOCALE 'C.UTF-8'");
$node->safe_psql($db, q{
CREATE EXTENSION lsmam;
CREATE TABLE t (k text, n int) USING lsm;
CREATE INDEX t_old ON t USING lsm (k COLLATE "C");
CREATE UNIQUE INDEX t_new ON t USING lsm (k, n);
CREATE TABLE e (k text) USING lsm;
CREATE INDEX e_k ON e USING lsm (k);
CREATE UNLOGGED TABLE un (k text) USING lsm;
CREATE INDEX un_k ON un USING lsm (k);
INSERT INTO un VALUES ('b'), ('A');
INSERT INTO t SELECT chr(65 + g % 26) || chr(97 + g % 7) || g, g FROM generate_series(1, 2000) g;
INSERT INTO t SELECT lower(k), -n FROM t;
SELECT lsm_flush('t')});
if ($made{en_US})
{
	$node->safe_psql($db, q{
CREATE COLLATION libc_en (provider = libc, locale = 'en_US.UTF-8');
CREATE TABLE lt (k text COLLATE libc_en, n int) USING lsm;
CREATE INDEX lt_old ON lt USING lsm (k COLLATE "C");
CREATE INDEX lt_new ON lt USING lsm (k, n);
CREATE INDEX lt_primary ON lt USING lsm (n, k);
INSERT INTO lt SELECT CASE n % 3 WHEN 0 THEN upper(k) ELSE k END, n FROM t});
}
# what an older build has made: codes are bytes, whatever the collation
my %fork = map { $_ => $node->data_dir . '/' . $node->safe_psql($db, "SELECT pg_relation_filepath('$_')") } qw(t_old t_new);
$node->safe_psql($db, q{
UPDATE pg_index SET indcollation = '100' WHERE indexrelid = 't_old'::regclass;
UPDATE pg_attribute SET attcollation = 100 WHERE attrelid = 't_old'::regclass});
if ($made{en_US})
{
	$fork{$_} = $node->data_dir . '/' . $node->safe_psql($db, "SELECT pg_relation_filepath('$_')") foreach qw(lt_old lt_new lt_primary);
	$node->safe_psql($db, q{
UPDATE pg_index SET indcollation = c.oid::text::oidvector FROM pg_collation c WHERE collname = 'libc_en' AND indexrelid = 'lt_old'::regclass;
UPDATE pg_attribute SET attcollation = c.oid FROM pg_collation c WHERE collname = 'libc_en' AND attrelid = 'lt_old'::regclass});
}
$node->stop;

sub patch
{
	my ($path, $offset, $template, $value) = @_;
	open my $f, '+<:raw', $path or die "open: $!";
	seek $f, $offset, 0;
	read $f, my $bytes, length(pack($template, 0));
	seek $f, $offset, 0;
	print $f pack($template, $value);
	close $f;
	return unpack($template, $bytes);
}

# As before version 5: lsm_seal_meta() leaves nothing behind the rules.
sub make_older
{
	my ($path, $format) = @_;
	is(patch($path, 28, 'V', $format), 6, 'format of a new index');
	return patch($path, 12, 'v', 24 + ($format < 4 ? 96 : 104));
}

# behind the page header: format at 4, rules behind the 96 bytes of version 3
cmp_ok(make_older($fork{t_old}, 3), '>', 24 + 104, 'length of the metapage');
make_older($fork{t_new}, 4);
is(patch($fork{t_old}, 24 + 96, 'V', 0), 3, 'rules of a new index');
is(patch($fork{t_old}, 24 + 100, 'V', 0), 0, 'no sort keys, no version of them');
my $version = patch($fork{t_new}, 24 + 100, 'V', 77);
isnt($version, 0, 'version of sort keys');
if ($made{en_US})
{
	make_older($fork{$_}, 4) foreach qw(lt_old lt_new lt_primary);
	is(patch($fork{lt_old}, 24 + 96, 'V', 1), 3, 'rules of an index under libc');
	# strings that have primary weights have had the same codes before
	is(patch($fork{lt_primary}, 24 + 96, 'V', 2), 3, '... and of another');
	isnt(patch($fork{lt_new}, 24 + 100, 'V', 77), 0, 'version of weights');
}
lsm_seal_meta($_) foreach values %fork;
$node->start;

my $off = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
my $all = 'SELECT count(*), md5(string_agg(k, chr(10))) FROM (SELECT k FROM t ORDER BY k) q';
$node->safe_psql($db, 'ALTER TABLE t ADD CONSTRAINT none CHECK (true)');
my $expected = $node->safe_psql($db, "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; $all");
my ($rc, $out, $err) = $node->psql($db, "$off SELECT n FROM t WHERE k = 'Xf75' AND n > 0");
like($err, qr/index "t_new" was built with another version of a collation/, 'a warning') or diag($out);
like($node->safe_psql($db, q{SELECT * FROM lsm_verify('t')}), qr/^t_new\|the index was built with another version of a collation, or other support functions$/m, 'lsm_verify tells');
$node->safe_psql($db, 'REINDEX INDEX t_new');
is($node->safe_psql($db, q{SELECT * FROM lsm_verify('t')}), '', 'not after REINDEX');
($rc, $out, $err) = $node->psql($db, "$off $all");
is($err, '', '... nor is there a warning');
is($out, $expected, 'and it is in order');
$node->safe_psql($db, 'DROP INDEX t_new');
is($node->safe_psql($db, "$off SELECT n FROM t WHERE k = 'Xf75'; SELECT n FROM t WHERE k = 'xf75'"), "75\n-75", 'equality by an old index');
like($node->safe_psql($db, "$off EXPLAIN SELECT n FROM t WHERE k = 'Xf75'"), qr/Index Scan using t_old/, '... is by the index');
is($node->safe_psql($db, "$off $all"), $expected, 'order without it');
like($node->safe_psql($db, "$off EXPLAIN SELECT k FROM t ORDER BY k"), qr/Sort/, '... by a sort');
is($node->safe_psql($db, "$off SELECT count(*) FROM t WHERE k > 'b' AND k < 'C'"), $node->safe_psql($db, "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM t WHERE k > 'b' AND k < 'C'"),
	'ranges by an old index');
$node->safe_psql($db, q{INSERT INTO t VALUES ('Xf75', 3); DELETE FROM t WHERE n = 75; SELECT lsm_flush('t'); SELECT lsm_compact('t_old'); VACUUM t});
is($node->safe_psql($db, "$off SELECT n FROM t WHERE k = 'Xf75'"), 3, 'written and compacted, it stays what it was');
is($node->safe_psql($db, q{SELECT * FROM lsm_verify('t')}), '', '... and sound');
like($node->safe_psql($db, "$off EXPLAIN SELECT k FROM t ORDER BY k"), qr/Sort/, '... without order');
$node->safe_psql($db, 'REINDEX INDEX t_old');
like($node->safe_psql($db, "$off EXPLAIN SELECT k FROM t ORDER BY k"), qr/^Index Only Scan using t_old/, 'REINDEX gives it order');
is($node->safe_psql($db, q{SELECT * FROM lsm_verify('t')}), '', '... and it is sound');

if ($made{en_US})
{
	my $no = 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;';
	my $lt = 'SELECT count(*), md5(string_agg(k, chr(10))) FROM (SELECT k FROM lt ORDER BY k) q';
	my $range = q{SELECT count(*) FROM lt WHERE k > 'b' AND k < 'C'};
	my $sorted = $node->safe_psql($db, "$no $lt; $range");
	($rc, $out, $err) = $node->psql($db, "$off SELECT n FROM lt WHERE k = 'Xf75' AND n > 0");
	like($err, qr/index "lt_new" was built with another version of a collation/, 'libc: a warning') or diag($out);
	like($node->safe_psql($db, q{SELECT * FROM lsm_verify('lt')}), qr/^lt_new\|the index was built with another version of a collation, or other support functions$/, 'libc: lsm_verify tells');
	$node->safe_psql($db, 'REINDEX INDEX lt_new');
	($rc, $out, $err) = $node->psql($db, "$off $lt; $range");
	is($err, '', 'libc: no warning after REINDEX');
	is($out, $sorted, '... and it is in order');
	$node->safe_psql($db, 'DROP INDEX lt_new');
	is($node->safe_psql($db, "$off SELECT n FROM lt WHERE k = 'Yg76'"), 76, 'libc: equality by an old index');
	is($node->safe_psql($db, "$off $lt; $range"), $sorted, '... and order and ranges without');
	like($node->safe_psql($db, "$off EXPLAIN SELECT k FROM lt ORDER BY k"), qr/Sort/, '... by a sort');
	is($node->safe_psql($db, q{SELECT * FROM lsm_verify('lt')}), '', '... and it is sound');
	$node->safe_psql($db, 'REINDEX INDEX lt_old');
	like($node->safe_psql($db, "$off EXPLAIN SELECT k FROM lt ORDER BY k"), qr/^Index Only Scan using lt_old/, 'libc: REINDEX gives it order');
	is($node->safe_psql($db, "$off $lt; $range"), $sorted, '... which is right');

	# strings without primary weights, in an index that was built when all of them were one group, and in a new one
	$node->safe_psql($db, q{
CREATE INDEX lt_weights ON lt USING lsm (n, k);
INSERT INTO lt SELECT (SELECT string_agg(chr(CASE hashint4(g * 7 + i) & 7 WHEN 0 THEN 33 WHEN 1 THEN 769 WHEN 2 THEN 45 ELSE 44032 + 28 * ((hashint4(g + i) >> 3) & 63) END), '')
	FROM generate_series(1, 1 + g % 5) i), g % 3 FROM generate_series(1, 6000) g;
INSERT INTO lt VALUES ('', 0), (NULL, 0), (U&'\\0301', 0), ('!', 0), (U&'\\00ad', 0);
ANALYZE lt});
	my @orders = ('SELECT n, k FROM lt WHERE n < 3 ORDER BY n, k', q{SELECT n, k FROM lt WHERE n = 1 AND k > '김' ORDER BY k DESC}, q{SELECT n, k FROM lt WHERE (n, k) >= (1, '!') AND n < 3 ORDER BY n, k LIMIT 700});
	my $ordered = sub { my ($set) = @_; return $node->safe_psql($db, "$set " . join '; ', map { "SELECT count(*), md5(string_agg(n || k, chr(10))) FROM ($_) q" } @orders); };
	my $wanted = $ordered->($no);
	my $blocks = sub { return $node->safe_psql($db, "$off EXPLAIN (ANALYZE) SELECT k FROM lt WHERE n = 1 ORDER BY n, k LIMIT 5") =~ /Index Only Scan.*blocks read=(\d+)/s ? $1 : 'none'; };
	$node->safe_psql($db, q{SELECT lsm_flush('lt_primary'); SELECT lsm_flush('lt_weights'); VACUUM lt; UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'lt_weights'::regclass});
	is($ordered->($off), $wanted, 'strings without primary weights, rules of 1.0');
	my $many = $blocks->();
	$node->safe_psql($db, q{UPDATE pg_index SET indisvalid = indexrelid = 'lt_weights'::regclass WHERE indexrelid IN ('lt_weights'::regclass, 'lt_primary'::regclass)});
	is($ordered->($off), $wanted, '... and of a new index');
	my $few = $blocks->();
	ok($few =~ /^\d+$/ && $many =~ /^\d+$/ && $few <= 2 && $many > 5 * $few, '... of which a page reads little') or diag("few: $few, many: $many");
	$node->safe_psql($db, q{UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'lt_primary'::regclass});
	is($node->safe_psql($db, q{SELECT * FROM lsm_verify('lt')}), '', '... both are sound');
	$node->safe_psql($db, 'DROP INDEX lt_primary, lt_weights');
}

# a library whose strcoll() contradicts its strxfrm()
my $contrary = PostgreSQL::Test::Utils::tempdir() . '/contrary.so';
my $source = lsm_script('contrary', q{
#define _GNU_SOURCE
#include <dlfcn.h>
#include <locale.h>
int strcoll_l(const char *a, const char *b, locale_t locale)
{
	int (*real) (const char *, const char *, locale_t) = dlsym(RTLD_NEXT, "strcoll_l");
	return real(b, a, locale);
}
});
SKIP:
{
	skip 'no locale, or no compiler', 5
	  if !$made{en_US} || system("cc -x c -shared -fPIC -o $contrary $source -ldl >/dev/null 2>&1") != 0;
	chmod 0755, $contrary, $contrary =~ s{/[^/]*$}{}r;
	$node->stop;
	{
		local $ENV{LD_PRELOAD} = $contrary;
		$node->start;
	}
	($rc, $out, $err) = $node->psql($db, 'CREATE INDEX lt_bad ON lt USING lsm (k)');
	like($err, qr/could not create index "lt_bad" in the order of its collations.*strxfrm\(\) contradicts its strcoll\(\)/s, 'a contrary library: no index');
	($rc, $out, $err) = $node->psql($db, 'REINDEX INDEX lt_old');
	like($err, qr/could not create index "lt_old" in the order/, '... nor is one built again');
	like($node->safe_psql($db, q{SELECT * FROM lsm_verify('lt')}), qr/^lt_old\|.*order/m, '... and lsm_verify tells');
	$node->restart;
	is($node->safe_psql($db, q{SELECT * FROM lsm_verify('lt'); SELECT count(*) FROM pg_class WHERE relname = 'lt_bad'}), '0', '... of that library');
	like($node->safe_psql($db, "$off EXPLAIN SELECT k FROM lt ORDER BY k"), qr/^Index Only Scan using lt_old/, '... the index is what it was');
}

# rules go with the index: copied, moved, reset, replayed
$node->safe_psql($db, q{INSERT INTO e VALUES ('b'), ('A'), ('a'), ('B'), ('é')});
$node->stop('immediate');
$node->start;
is($node->safe_psql($db, q{SELECT count(*) FROM un}), 0, 'the unlogged table is empty after a crash');
$node->safe_psql($db, q{INSERT INTO un VALUES ('b'), ('A'), ('a')});
is($node->safe_psql($db, "$off SELECT string_agg(k, ' ') FROM (SELECT k FROM un ORDER BY k) q"), 'a A b', '... and its index in order');
is($node->safe_psql($db, "$off SELECT string_agg(k, ' ') FROM (SELECT k FROM e ORDER BY k) q"), 'a A b B é', 'replayed');
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE meta');
is($node->safe_psql('copy', "$off SELECT string_agg(k, ' ') FROM (SELECT k FROM e ORDER BY k) q"), 'a A b B é', 'copied');
like($node->safe_psql('copy', "$off EXPLAIN SELECT k FROM e ORDER BY k"), qr/^Index Only Scan/, '... in order');
is($node->safe_psql('copy', q{SELECT * FROM lsm_verify('e')}), '', '... and sound');
$node->stop;
done_testing();
