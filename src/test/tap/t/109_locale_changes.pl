# The data of locales and of ICU changes under indexes of text: their keys are neither lost nor admitted twice, and
# REINDEX mends them.  Heap tables with btree, read without an index, say what is right.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# ---- sets of data: in the second, C.UTF-8 has no rules, and en_US ten characters more, behind e; in another one, en_US is missing ----
my $sources = $ENV{I18NPATH} // '/usr/share/i18n';
my $dir = PostgreSQL::Test::Utils::tempdir();
plan skip_all => 'needs localedef and its sources'
  if !-e "$sources/locales/en_US" || system("localedef --help >/dev/null 2>&1") != 0;
(my $more = slurp_file("$sources/locales/en_US")) =~ s{^LC_COLLATE.*?^END LC_COLLATE}{join "\n", 'LC_COLLATE', 'copy "iso14651_t1"',
	(map { "collating-symbol <new$_>" } 0 .. 9), 'reorder-after <S0065>', (map { "<new$_>" } 0 .. 9),
	(map { "<UE00$_> <new$_>;<BASE>;<MIN>;IGNORE" } 0 .. 9), 'reorder-end', 'END LC_COLLATE'}sme;
append_to_file("$dir/en_MORE", $more);
my %of = (
	one => { 'en_US.UTF-8' => 'en_US', 'C.utf8' => 'en_US', 'en_US.ISO-8859-1' => 'en_US', 'ja_JP.EUC-JP' => 'ja_JP' },
	none => { 'C.utf8' => 'en_US' },
	two => { 'en_US.UTF-8' => "$dir/en_MORE", 'C.utf8' => 'C', 'en_US.ISO-8859-1' => 'sv_SE', 'ja_JP.EUC-JP' => 'en_US' });
foreach my $set (keys %of)
{
	mkdir "$dir/$set";
	foreach my $name (keys %{ $of{$set} })
	{
		my ($charset) = $name =~ /\.([A-Z].*)/;
		$charset //= 'UTF-8';
		# it complains of characters that the encoding does not have
		system("localedef -c -i $of{$set}{$name} -f $charset $dir/$set/$name >/dev/null 2>&1");
		BAIL_OUT("localedef: $set, $name") if !-e "$dir/$set/$name/LC_COLLATE";
	}
}
chmod 0755, $dir;

my $node;

# The server anew, with one set of data
sub with_data
{
	my ($set, $preload) = @_;
	$ENV{LOCPATH} = "$dir/$set";
	local $ENV{LD_PRELOAD} = $preload if $preload;
	$node->stop if $node->{_pid};
	$node->start;
	return;
}

$ENV{LOCPATH} = "$dir/one";
$node = lsm_node('locales', initdb => [ lsm_no_checksums() ], conf => "autovacuum = off\nmax_wal_senders = 5\nwal_keep_size = 256MB");
$node->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($node);
my $backup = 'base';
my $complaint = qr/index "\w+" was built with another version of a collation/;

# Tables of each kind, their indexes, and their twins
my @tables = qw(c_lsm c_heap en_lsm en_heap);
$node->safe_psql('postgres', q{CREATE COLLATION en (provider = libc, locale = 'en_US.UTF-8')});
foreach my $table (@tables)
{
	my ($collation, $am) = $table =~ /^(\w+?)_(\w+)/;
	my $collate = $collation eq 'c' ? '' : "COLLATE $collation";
	$node->safe_psql('postgres', qq{
SET lsm.constraint_index = lsm;
CREATE TABLE $table (k text $collate, n int NOT NULL, note text) USING $am;
CREATE UNIQUE INDEX ${table}_k ON $table USING lsm_index (k);
CREATE INDEX ${table}_nk ON $table USING lsm_index (n, k DESC);
CREATE TABLE ${table}_twin (k text $collate, n int NOT NULL, note text) USING heap;
INSERT INTO $table SELECT (ARRAY['key', 'Key', 'na-me', 'öl', '김', '!'])[1 + i % 6] || i, i % 10 FROM generate_series(1, 1000) i;
INSERT INTO ${table}_twin SELECT * FROM $table;
SELECT lsm_flush('${table}_k')});
}
$node->safe_psql('postgres', q{
SET lsm.constraint_index = lsm;
CREATE TABLE pk (k text COLLATE en PRIMARY KEY) USING lsm;
INSERT INTO pk SELECT 'key' || i FROM generate_series(1, 1000) i});
is($node->safe_psql('postgres', q{SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 'pk_pkey'}), 'lsm_index', 'a primary key by lsm_index');

my %encodings = (latin1 => [ 'LATIN1', 'en_US.ISO-8859-1' ], euc_jp => [ 'EUC_JP', 'ja_JP.EUC-JP' ]);
foreach my $name (sort keys %encodings)
{
	my ($encoding, $locale) = @{ $encodings{$name} };
	$node->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE template0 ENCODING '$encoding' LOCALE '$locale'");
	$node->safe_psql($name, q{
CREATE EXTENSION lsmam;
SET lsm.constraint_index = lsm;
CREATE TABLE pk (k text PRIMARY KEY) USING lsm;
INSERT INTO pk SELECT 'key' || i FROM generate_series(1, 100) i});
}

# In databases of other encodings: is a duplicate refused, and as what?
sub encodings_say
{
	my ($complaint, $problems, $what) = @_;
	foreach my $name (sort keys %encodings)
	{
		my ($rc, $out, $err) = $node->psql($name, q{INSERT INTO pk VALUES ('key7')});
		like($err, qr/ERROR:  $complaint/, "$name, $what: a duplicate is refused");
		is($node->safe_psql($name, q{SET enable_seqscan = off; SELECT count(*) FROM pk WHERE k = 'key7'}), 1, "$name, $what: a key is found");
		is($node->safe_psql($name, q{SELECT * FROM lsm_verify('pk')}), $problems, "$name, $what: lsm_verify");
	}
	return;
}

my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
my $no_index = 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;';
my @queries = ('SELECT count(*) FROM @ WHERE k = ANY (ARRAY(SELECT k FROM %_twin))',
	'SELECT count(*) FROM @ a JOIN %_twin b ON a.k = b.k', q{SELECT n FROM @ WHERE k = 'Key7'}, q{SELECT n FROM @ WHERE k = 'key' || 6},
	q{SELECT md5(string_agg(k, ',')) FROM (SELECT k FROM @ ORDER BY k) q}, q{SELECT md5(string_agg(k, ',')) FROM (SELECT k FROM @ ORDER BY k DESC) q},
	q{SELECT md5(string_agg(k, ',')) FROM (SELECT k FROM @ WHERE n = 3 ORDER BY n, k DESC) q},
	q{SELECT count(*) FROM @ WHERE k > 'key5' AND k < 'o'}, q{SELECT min(k) || max(k) FROM @});

# Of what is read, all is right.
sub reads
{
	my ($table, $what, $server) = @_;
	$server //= $node;
	my $answers = sub { my ($t, $set) = @_; return $server->safe_psql('postgres', "$set " . join '; ', map { s/\@/$t/gr =~ s/%/$table/gr } @queries); };
	is($answers->($table, $by_index), $answers->("${table}_twin", $no_index), "$table, $what: reads");
	return;
}

# A duplicate and a new key are not taken: an error that says what to do.
sub refuses
{
	my ($table, $what) = @_;
	foreach my $statement (qq{INSERT INTO $table SELECT 'Key7', 7}, qq{INSERT INTO $table VALUES ('new', 7)}, qq{INSERT INTO $table VALUES ('Key7', 7) ON CONFLICT (k) DO NOTHING},
		qq{INSERT INTO $table VALUES ('Key7', 7) ON CONFLICT DO NOTHING}, qq{UPDATE $table SET k = 'Key7' WHERE k = 'Key13'}, qq{COPY (SELECT 'Key7', 7) TO '$dir/copied'; COPY $table (k, n) FROM '$dir/copied'})
	{
		my ($rc, $out, $err) = $node->psql('postgres', $statement);
		like($err, qr/ERROR:  $complaint.*DETAIL:  .*HINT:  .*REINDEX INDEX public\.${table}_n?k/s, "$table, $what: $statement");
	}
	is($node->safe_psql('postgres', "SELECT count(*), count(DISTINCT k) FROM $table"), '1000|1000', "$table, $what: no row came");
	return;
}

sub verified { return $node->safe_psql('postgres', "SELECT * FROM lsm_verify('$_[0]')"); }

# After REINDEX: as new
sub is_sound
{
	my ($table, $what) = @_;
	reads($table, $what);
	my ($rc, $out, $err) = $node->psql('postgres', "INSERT INTO $table VALUES ('Key7', 7)");
	like($err, qr/duplicate key value violates unique constraint "${table}_k"/, "$table, $what: a duplicate is refused");
	($rc, $out, $err) = $node->psql('postgres', "BEGIN; INSERT INTO $table VALUES ('new', 7); UPDATE $table SET note = 'x' WHERE k = 'new'; $by_index SELECT n FROM $table WHERE k = 'new'; ROLLBACK");
	is("$out$err", 7, "$table, $what: a new key is taken");
	like($node->safe_psql('postgres', "$by_index EXPLAIN SELECT n FROM $table WHERE k = 'Key7'"), qr/Index Scan using ${table}_k/, "$table, $what: the index is used");
	is(verified($table), '', "$table, $what: lsm_verify");
	return;
}

is_sound($_, 'as built') foreach @tables;
encodings_say('duplicate key value', '', 'as built');
$node->backup($backup);
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, $backup, has_streaming => 1);

# ---- the data changes, and changes back ----
with_data('two');
foreach my $table (@tables)
{
	reads($table, 'changed');
	my ($rc, $out, $err) = $node->psql('postgres', "$by_index SELECT n FROM $table WHERE k = 'Key7'");
	like($err, qr/WARNING:  $complaint/, "$table, changed: a warning");
	unlike($node->safe_psql('postgres', "$by_index EXPLAIN SELECT n FROM $table WHERE k = 'Key7'"), qr/Index/, "$table, changed: no plan has the index");
	refuses($table, 'changed');
	like(verified($table), qr/^${table}_k\|the index was built with another version of a collation, or other support functions$/m, "$table, changed: lsm_verify");
	($rc, $out, $err) = $node->psql('postgres', "BEGIN; DELETE FROM $table WHERE k = 'Key7'; SELECT count(*) FROM $table; ROLLBACK");
	is($out, 999, "$table, changed: a row can be deleted");
	($rc, $out, $err) = $node->psql('postgres', "CLUSTER $table USING ${table}_k");
	like($err, qr/ERROR:  $complaint/, "$table, changed: a scan that no planner asks for");
	($rc, $out, $err) = $node->psql('postgres', "VACUUM $table; SELECT lsm_flush('${table}_k'); SELECT lsm_compact('${table}_k'); SELECT length(lsm_report(ARRAY['${table}_k'::regclass])) > 0");
	unlike($err, qr/ERROR/, "$table, changed: VACUUM, compaction") or diag($err);
}
my ($rc, $out, $err) = $node->psql('postgres', q{INSERT INTO pk VALUES ('key7')});
like($err, qr/ERROR:  $complaint/, 'a primary key');
encodings_say($complaint, 'pk_pkey|the index was built with another version of a collation, or other support functions', 'changed');

with_data('one');
is_sound($_, 'changed back') foreach @tables;
encodings_say('duplicate key value', '', 'changed back');

# ---- a locale is not installed: what needs it is an error, as with heap and btree; all else goes on ----
with_data('none');
my $absent = qr/index "\w+" was built with another version of a collation\nDETAIL:  The locale of the collation of one of its columns is not installed\.\nHINT:  Install the locale on this system/;
foreach my $table (qw(en_lsm en_heap))
{
	foreach my $query ('SELECT count(*), sum(n) FROM @', 'SELECT n, count(*) FROM @ GROUP BY n ORDER BY n', 'SELECT count(k) FROM @ WHERE n = 3',
		'WITH d AS (DELETE FROM @ WHERE n = 4 RETURNING n) SELECT count(*) FROM d')
	{
		my @answers = map { $node->safe_psql('postgres', "SET client_min_messages = error; BEGIN; $by_index " . $query =~ s/\@/$_/gr . '; ROLLBACK') } $table, "${table}_twin";
		is($answers[0], $answers[1], "$table, not installed: $query");
	}
	like(($node->psql('postgres', "SELECT count(*) FROM $table"))[2], qr/WARNING:  $absent/, "$table, not installed: a warning");
	unlike($node->safe_psql('postgres', "$by_index EXPLAIN SELECT k FROM $table WHERE n = 3"), qr/Index/, "$table, not installed: no plan has the index");
	like(($node->psql('postgres', $_))[2], qr/ERROR:  $absent/, "$table, not installed: $_")
	  foreach "INSERT INTO $table VALUES ('new', 7)", "UPDATE $table SET k = 'new' WHERE n = 3";
	like(($node->psql('postgres', "REINDEX INDEX ${table}_k"))[2], qr/ERROR:  could not create locale "en_US.UTF-8"/, "$table, not installed: REINDEX");
	my $foreign = 'the index was built with another version of a collation, or other support functions';
	is(verified($table), "${table}_k|$foreign\n${table}_nk|$foreign", "$table, not installed: lsm_verify");
	unlike(($node->psql('postgres', "VACUUM $table; SELECT lsm_flush('${table}_k'); BEGIN; DROP INDEX ${table}_k; ROLLBACK; BEGIN; TRUNCATE $table; INSERT INTO $table VALUES ('a', 1), ('b', 2); ROLLBACK"))[2], qr/ERROR/, "$table, not installed: VACUUM, DROP INDEX, TRUNCATE");
	is($node->safe_psql('postgres', "SELECT count(*) FROM $table"), 1000, "$table, not installed: nothing came, nothing went");
}
is_sound($_, 'not installed') foreach qw(c_lsm c_heap);

with_data('one');
is_sound($_, 'installed again') foreach @tables;

# ---- REINDEX ----
with_data('two');
$node->safe_psql('postgres', 'REINDEX INDEX c_lsm_k; REINDEX INDEX CONCURRENTLY c_lsm_nk; REINDEX TABLE c_heap; REINDEX TABLE CONCURRENTLY en_lsm; REINDEX TABLE en_heap; REINDEX TABLE pk');
is_sound($_, 'built anew') foreach @tables;
($rc, $out, $err) = $node->psql('postgres', q{INSERT INTO pk VALUES ('key7')});
like($err, qr/duplicate key value violates unique constraint "pk_pkey"/, 'the primary key, built anew');
($rc, $out, $err) = $node->psql('postgres', q{INSERT INTO pk VALUES ('key1001'); DELETE FROM pk WHERE k = 'key1'; SELECT count(*) FROM pk});
is($out, 1000, '... takes rows') or diag($err);

# ---- another version of the library; indexes of builds before there was a sample ----
# behind the page header: format at 4, rules at 96, which are 8 bytes
sub make_older
{
	my (@indexes) = @_;
	my @paths = map { $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$_')") } @indexes;
	$node->stop;
	foreach my $path (@paths)
	{
		open my $f, '+<:raw', $path or die "open: $!";
		foreach my $part ([ 12, pack('v', 24 + 104) ], [ 28, pack('V', 4) ])
		{
			seek $f, $part->[0], 0;
			print $f $part->[1];
		}
		close $f;
		lsm_seal_meta($path);
	}
	$node->start;
	return;
}
make_older(qw(pk_pkey c_lsm_k c_heap_k));
is_sound($_, 'of an older build') foreach qw(c_lsm c_heap);
($rc, $out, $err) = $node->psql('postgres', q{INSERT INTO pk VALUES ('key7')});
like($err, qr/duplicate key value violates unique constraint "pk_pkey"/, 'of an older build: a duplicate is refused');
is($node->safe_psql('postgres', "$by_index SELECT count(*) FROM pk a WHERE k = ANY (ARRAY(SELECT k FROM pk)); SELECT * FROM lsm_verify('pk')"), 1000, '... what is there is found');
my $newer = "$dir/newer.so";
my $version = lsm_script('newer', q{
const char *gnu_get_libc_version(void);
const char *gnu_get_libc_version(void) { return "2.99"; }
});
SKIP:
{
	skip 'no compiler', 1 if system("cc -x c -shared -fPIC -o $newer $version >/dev/null 2>&1") != 0;
	chmod 0755, $newer;
	with_data('two', $newer);
	foreach my $table (qw(en_lsm en_heap))
	{
		reads($table, 'newer library');
		refuses($table, 'newer library');
	}
	is_sound($_, 'newer library, bytes') foreach qw(c_lsm c_heap);
	($rc, $out, $err) = $node->psql('postgres', q{INSERT INTO pk VALUES ('key7')});
	like($err, qr/ERROR:  $complaint.*another version than when/s, 'newer library, index of an older build');
	is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('pk')}), 'pk_pkey|the index was built with another version of a collation, or other support functions', '... lsm_verify');
}

# ---- what was built of bytes does not depend on rules that come ----
with_data('one');
foreach my $table (qw(c_lsm c_heap))
{
	reads($table, 'rules came');
	($rc, $out, $err) = $node->psql('postgres', "INSERT INTO $table VALUES ('Key7', 7)");
	like($err, qr/duplicate key value violates unique constraint "${table}_k"/, "$table, rules came: a duplicate is refused");
	($rc, $out, $err) = $node->psql('postgres', "BEGIN; INSERT INTO $table VALUES ('new', 7); $by_index SELECT n FROM $table WHERE k = 'new'; ROLLBACK");
	is("$out$err", 7, "$table, rules came: a new key is taken");
	like($node->safe_psql('postgres', "$by_index EXPLAIN SELECT n FROM $table WHERE k = 'Key7'"), qr/Index Scan using ${table}_k/, "$table, rules came: equality by the index");
	like($node->safe_psql('postgres', "$by_index EXPLAIN SELECT k FROM $table ORDER BY k"), qr/Sort/, "$table, rules came: no order");
	is(verified($table), '', "$table, rules came: lsm_verify");
	$node->safe_psql('postgres', "REINDEX TABLE $table");
	is_sound($table, 'rules came, built anew');
	like($node->safe_psql('postgres', "$by_index EXPLAIN SELECT k FROM $table ORDER BY k"), qr/^Index Only Scan/, "$table, rules came, built anew: order");
}
refuses($_, 'built with more characters') foreach qw(en_lsm en_heap);
$node->safe_psql('postgres', 'REINDEX TABLE en_lsm; REINDEX TABLE en_heap; REINDEX TABLE pk; CHECKPOINT');

# ---- a standby on another system ----
{
	local $ENV{LOCPATH} = "$dir/two";
	$standby->start;
}
$node->safe_psql('postgres', q{SET lsm.constraint_index = lsm; CREATE TABLE fresh (k text COLLATE en PRIMARY KEY) USING lsm; INSERT INTO fresh SELECT 'key' || i FROM generate_series(1, 100) i});
$node->wait_for_catchup($standby);
foreach my $table (@tables)
{
	reads($table, 'standby', $standby);
	($rc, $out, $err) = $standby->psql('postgres', "$by_index EXPLAIN SELECT n FROM $table WHERE k = 'Key7'");
	unlike($out, qr/Index/, "$table, standby: no plan has the index");
	like($err, qr/WARNING:  $complaint/, "$table, standby: a warning");
}
is($standby->safe_psql('postgres', q{SELECT count(*) FROM fresh WHERE k = 'key77'}), 1, 'standby: what came by WAL, too');
is($node->safe_psql('postgres', "SELECT count(*) FROM lsm_verify('$_')"), 0, "$_ is sound on the primary") foreach @tables;
$standby->promote;
($rc, $out, $err) = $standby->psql('postgres', q{INSERT INTO fresh VALUES ('key77')});
like($err, qr/ERROR:  $complaint/, 'promoted: a duplicate is not taken');
like($standby->safe_psql('postgres', q{SELECT * FROM lsm_verify('fresh')}), qr/^fresh_pkey\|the index was built with another version of a collation, or other support functions$/m, '... lsm_verify');
$standby->safe_psql('postgres', 'REINDEX TABLE fresh');
($rc, $out, $err) = $standby->psql('postgres', q{INSERT INTO fresh VALUES ('key77')});
like($err, qr/duplicate key value violates unique constraint "fresh_pkey"/, '... and after REINDEX it is a duplicate');
$standby->stop;

# ---- ICU, in composed types, too: a library whose sort keys are others ----
my $other = "$dir/other.so";
my $source = lsm_script('other', q{
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unicode/ucol.h>
#define NAME2(x) #x
#define NAME(x) NAME2(x)
U_CAPI int32_t ucol_getSortKey(const UCollator *c, const UChar *s, int32_t n, uint8_t *key, int32_t room)
{
	int32_t (*real) (const UCollator *, const UChar *, int32_t, uint8_t *, int32_t) = dlsym(RTLD_NEXT, NAME(ucol_getSortKey));
	int32_t len = real(c, s, n, key, room);
	/* weights of letters are shifted */
	for (int32_t i = 0; key != NULL && i < len - 1 && i < room && key[i] > 1; i++)
		if (key[i] >= 0x30 && key[i] < 0xe0)
			key[i] += 2;
	return len;
}
});
SKIP:
{
	skip 'no ICU, or no compiler', 1
	  if $node->psql('postgres', q{CREATE COLLATION icu (provider = icu, locale = 'en')}) != 0
	  || system("cc -x c -shared -fPIC -o $other $source -ldl >/dev/null 2>&1") != 0;
	chmod 0755, $other;
	$node->safe_psql('postgres', q{
CREATE COLLATION icu_ci (provider = icu, locale = 'en-u-ks-level2', deterministic = false);
CREATE DOMAIN word AS text COLLATE icu;
CREATE TYPE words AS RANGE (subtype = text, collation = icu);
CREATE TYPE inner_row AS (a int, w text COLLATE icu);
CREATE TYPE outer_row AS (i inner_row, n int);
CREATE TYPE plain_row AS (a int, b text COLLATE "C");
CREATE FUNCTION icu_code(text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN lsm_text_code($1 COLLATE icu);
CREATE OPERATOR CLASS icu_code_ops FOR TYPE text USING lsm_index AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 bttextcmp(text, text), FUNCTION 11 icu_code(text)});
	my %class = (function => 'icu_code_ops');
	my %composed = (function => [ 'text COLLATE icu', '%' ], plain => [ 'text COLLATE icu', '%' ], ci => [ 'text COLLATE icu_ci', '%' ], dom => [ 'word', '%' ], arr => [ 'text[] COLLATE icu', 'ARRAY[%, %]' ], ciarr => [ 'text[] COLLATE icu_ci', 'ARRAY[%]' ],
		ran => [ 'words', q{words(%, 'zzzz')} ], row => [ 'inner_row', 'ROW(1, %)::inner_row' ], nested => [ 'outer_row', 'ROW(ROW(1, %), 2)::outer_row' ],
		rows => [ 'outer_row[]', 'ARRAY[ROW(ROW(1, %), 2)]::outer_row[]' ]);
	foreach my $name (sort keys %composed)
	{
		my ($type, $value) = @{ $composed{$name} };
		my $of = sub { my ($text) = @_; return $value =~ s/%/$text/gr; };
		$node->safe_psql('postgres', "CREATE TABLE x_$name (k $type, n int) USING lsm; CREATE UNIQUE INDEX x_${name}_k ON x_$name USING lsm_index (k @{[$class{$name} // '']});
INSERT INTO x_$name SELECT @{[$of->(q{('key' || i)})]}, i FROM generate_series(1, 200) i");
	}
	$node->safe_psql('postgres', q{CREATE TABLE x_bytes (k plain_row, n int) USING lsm; CREATE UNIQUE INDEX x_bytes_k ON x_bytes USING lsm_index (k); INSERT INTO x_bytes VALUES (ROW(1, 'a'), 1)});
	my $checks = sub {
		my ($foreign, $what) = @_;
		foreach my $name (sort keys %composed)
		{
			my $value = $composed{$name}[1] =~ s/%/'key7'/gr;
			is($node->safe_psql('postgres', "$by_index SELECT n FROM x_$name WHERE k = $value"), 7, "$name, $what: found");
			my ($rc, $out, $err) = $node->psql('postgres', "INSERT INTO x_$name VALUES ($value, 1)");
			like($err, $foreign ? qr/ERROR:  $complaint/ : qr/duplicate key value/, "$name, $what: a duplicate is refused");
			my $problems = $node->safe_psql('postgres', "SELECT * FROM lsm_verify('x_$name')");
			$foreign ? like($problems, qr/another version of a collation/, "$name, $what: lsm_verify") : is($problems, '', "$name, $what: lsm_verify");
		}
		my ($rc, $out, $err) = $node->psql('postgres', q{INSERT INTO x_bytes VALUES (ROW(1, 'a'), 1)});
		like($err, qr/duplicate key value/, "what has no sort key, $what");
	};
	$checks->(0, 'as built');
	# the first string of a type comes, then another one
	$node->safe_psql('postgres', q{CREATE TYPE grown AS (a int); CREATE TABLE x_grown (k grown); CREATE UNIQUE INDEX x_grown_k ON x_grown USING lsm_index (k); INSERT INTO x_grown VALUES (ROW(1))});
	# what a session has found of a type that is rolled back
	is($node->safe_psql('postgres', q{SET client_min_messages = error; BEGIN; ALTER TYPE grown ADD ATTRIBUTE w text COLLATE icu; SELECT count(*) FROM x_grown; ROLLBACK; INSERT INTO x_grown VALUES (ROW(4)); DELETE FROM x_grown WHERE k = ROW(4)::grown}), 1, 'a type that gets a string in a transaction that is rolled back');
	$node->safe_psql('postgres', 'ALTER TYPE grown ADD ATTRIBUTE w text COLLATE icu');
	like(($node->psql('postgres', q{INSERT INTO x_grown VALUES (ROW(1, NULL))}))[2], qr/ERROR:  $complaint/, 'a type gets its first string');
	is($node->safe_psql('postgres', q{REINDEX TABLE x_grown; ALTER TYPE grown ADD ATTRIBUTE w2 text COLLATE icu; INSERT INTO x_grown VALUES (ROW(1, NULL, 'b')); SELECT count(*) FROM x_grown}), 2, '... and another one');
	like(($node->psql('postgres', q{INSERT INTO x_grown VALUES (ROW(1, NULL, NULL))}))[2], qr/duplicate key value/, '... and a duplicate is one');

	$node->safe_psql('postgres', 'ALTER TYPE grown DROP ATTRIBUTE w, DROP ATTRIBUTE w2');
	like(($node->psql('postgres', q{INSERT INTO x_grown VALUES (ROW(2))}))[2], qr/ERROR:  index "x_grown_k" has values of row types whose columns have changed/, '... and has none again');

	with_data('one', $other);
	$checks->(1, 'other sort keys');
	$node->safe_psql('postgres', "REINDEX TABLE x_$_") foreach keys %composed;
	$checks->(0, 'built anew');
	with_data('one');
	$checks->(1, 'first sort keys again');
}

# ---- deep types: each level asks the one below once ----
$node->safe_psql('postgres', 'CREATE TYPE deep0 AS (a text); ' . join('; ', map { my $below = $_ - 1; "CREATE TYPE deep$_ AS (a deep$below)" } 1 .. 40)
	. '; CREATE TABLE deep (k deep40); CREATE INDEX deep_k ON deep USING lsm_index (k); INSERT INTO deep VALUES (NULL)');
pass('a type of forty levels');
$node->stop;
done_testing();
