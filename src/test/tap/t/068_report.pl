# lsm_report(): the page is well-formed, loads nothing and runs its own script only; its facts are what the other functions
# say; names and keys that want to be markup; who sees keys, who is refused, and without a lock; empty, temporary, unlogged
# trees, one file and a thousand, all filter schemes, a standby, other encodings.  In Debian's chromium, if it is installed
# (make check-all does that): the facts are drawn and listed, nothing overflows or overlaps in light or dark, nothing else runs.
use strict;
use warnings;
use LsmTest;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $tmp = $PostgreSQL::Test::Utils::tmp_check;
my $node = lsm_node('report', conf => q{
lsm.crash_point = '?'
lsm.memtable_memory = 64MB
lsm.memtable_size = 8MB
lsm.target_file_size = 1MB
lsm.elastic_memory = 1MB
lsm.elastic_unit_size = 128
autovacuum = off
fsync = off
max_wal_size = 2GB
max_wal_senders = 4});
$node->start;

# names that are markup, in every place that has one
my $hostile_db = q{<img src=x onerror="document.title='pwned'">};
my $hostile_schema = q{'"><svg onload="document.title=1"><!--};
my $hostile_table = q{"><script>document.title='pwned'</script>};
my $hostile_index = "a\nb\tc\x01\x7f\x{202e}\x{200b}\x{0627}\x{0628}\x{1f600} ]]></title></style>&amp;";
utf8::encode($hostile_index);
sub quoted { my ($name) = @_; $name =~ s/"/""/g; return qq{"$name"}; }
sub literal { my ($text) = @_; $text =~ s/'/''/g; return "'$text'"; }

$node->safe_psql('postgres', 'CREATE DATABASE ' . quoted($hostile_db));
$node->safe_psql('postgres', q{CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0;
CREATE DATABASE bytes ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0});
$node->safe_psql($_, 'CREATE EXTENSION lsmam') foreach 'postgres', 'latin', 'bytes', $hostile_db;

# ---- what a page may consist of ----

my $npages = 0;
my $frame;
my ($chromium) = grep { -x } map { "$_/chromium" } split /:/, $ENV{PATH};

# Of SQL that returns one: its file
sub page_file
{
	my ($db, $sql, %opt) = @_;
	my $file = "$tmp/page_" . ++$npages . '.html';
	my $html = $node->safe_psql($db, ($opt{before} // '') . ";$sql", %{ $opt{psql} // {} });
	unlink $file;
	append_to_file($file, $html);
	chmod 0644, $file;
	return $file;
}

# What a page says: all pages are the same but for their facts, which are JSON without markup
sub check_page
{
	my ($name, $file) = @_;
	my $html = slurp_file($file);

	my ($facts) = $html =~ m{<script type="application/json" id="facts">(.*?)</script>}s;
	(my $around = $html) =~ s{(?<=id="facts">).*?(?=</script>)}{}s;
	$frame //= $around;
	ok($around eq $frame, "$name: the page around the facts is always the same");
	unlike($facts, qr/[<>&]/, "$name: no markup in the facts");
	unlike($html, qr/[^\x09\x0a\x20-\x7e]/, "$name: ASCII, whatever is read as");
	is($node->safe_psql('postgres', "SELECT xml_is_well_formed_document(pg_read_file('$file'))"), 't', "$name: well-formed XML");
	return JSON::PP->new->decode($facts);
}

sub report { my ($db, $name, $trees, %opt) = @_; return check_page($name, page_file($db, "SELECT lsm_report('{$trees}')", %opt)); }

# names of trees without their schema; their files
sub name_of { my ($tree) = @_; return $tree->{tree}{name} =~ s/^public\.//r; }
sub names_of { my ($facts) = @_; return join ' ', map { name_of($_) } @{ $facts->{trees} // [] }; }
sub tree_of { my ($facts, $name) = @_; return (grep { name_of($_) eq $name } @{ $facts->{trees} })[0]; }
sub files_of { my ($facts, @names) = @_; return map { @{ $_->{files} // [] } } @names ? map { tree_of($facts, $_) } @names : @{ $facts->{trees} }; }
# keys of all files, as "smallest - largest"
sub ranges_of { my ($facts, @names) = @_; return join "\n", map { "$_->{smallest} - $_->{largest}" } files_of($facts, @names); }

# ---- what is drawn, in Debian's chromium ----

# chromium with a profile of its own; what it prints, and its messages
sub browse
{
	my ($scheme, @args) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my ($out, $err) = ('', '');
	local $ENV{HOME} = $dir;
	my $ok = eval {
		IPC::Run::run([ $chromium, qw(--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run
		  --disable-background-networking --disable-component-update --disable-sync --hide-scrollbars --enable-logging=stderr),
		  "--user-data-dir=$dir/profile", '--blink-settings=preferredColorScheme=' . ($scheme eq 'dark' ? 0 : 1), @args ],
		  '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(120));
	};
	diag("chromium: $err") unless $ok;
	return ($out, join "\n", grep { /CONSOLE/ } split /\n/, $err);
}

# The page when its script has run, as a reader reads it: [name of the test, file, sub]
my @drawings;
sub drawn { push @drawings, [@_]; return; }

# Rows of the list of all files: level, run, file, entries, ...
sub listed_files
{
	my ($html) = @_;
	my ($list) = $html =~ m{(?:<h3>Files</h3>|<summary>All [\d,]+ files</summary>).*?<tbody>(.*?)</tbody>}s or return ();
	return map { [ map { s/<[^>]*>//gr } /<td[^>]*>(.*?)<\/td>/g ] } $list =~ /<tr>(.*?)<\/tr>/g;
}

# SQLSTATE and message of the first error, or 'ok'
sub answer
{
	my ($db, $role, $sql) = @_;
	my ($rc, $out, $err) = $node->psql($db, "SET lock_timeout = '10s'; SET ROLE $role; $sql", extra_params => [ '-v', 'VERBOSITY=verbose' ], on_error_stop => 1);
	return $rc == 0 ? 'ok' : $err =~ /ERROR:\s+(\S+: .*)/ ? $1 : $err;
}

# ---- empty, one file, temporary, unlogged ----

$node->safe_psql('postgres', q{
CREATE TABLE empty (id int PRIMARY KEY) USING lsm;
CREATE TABLE one (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO one SELECT i, 'v' FROM generate_series(1, 3000) i; SELECT lsm_flush('one'); INSERT INTO one VALUES (5000);
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY) USING lsm; INSERT INTO unlogged VALUES (1); SELECT lsm_flush('unlogged');
CREATE TABLE single (id int) USING heap; CREATE INDEX single_id ON single USING lsm (id); INSERT INTO single VALUES (42); SELECT lsm_flush('single');
CREATE TABLE heap (id int PRIMARY KEY) USING heap;});

my $file = page_file('postgres', q{SELECT lsm_report('{empty}')});
my $facts = check_page('empty', $file);
{
	my ($style) = $frame =~ m{<style>(.*?)</style>}s;
	unlike($style, qr/url\(|\@import|\@font-face|src:|expression|\\/, 'the style loads nothing');
	my @scripts = $frame =~ m{<script>(.*?)</script>}sg;
	is(scalar(@scripts), 1, 'there is one script');
	unlike($scripts[0], qr/\bfetch\b|XMLHttpRequest|\bimport\b|WebSocket|HTML|document\.write|\beval\b|\bFunction\b|https?:(?!\/\/www\.w3\.org\/2000\/svg)/, '... which loads nothing, and makes no markup of text');
	my $digest = $node->safe_psql('postgres', 'SELECT encode(sha256(convert_to(' . literal($scripts[0]) =~ s/\\/\\\\/gr =~ s/^'/E'/r . q{, 'UTF8')), 'base64')});
	like($frame, qr/<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-\Q$digest\E'; base-uri 'none'; form-action 'none'"\/>/,
		'the policy lets this script run, and nothing be loaded');
}
is(names_of($facts), 'empty empty_pkey', 'a table comes with its indexes');
is(scalar(files_of($facts)), 0, 'a tree without files');
drawn('empty', $file, sub {
	my ($html) = @_;
	is(() = $html =~ /There are no sorted files yet/g, 2, 'a tree without files');
	unlike($html, qr/<svg class="fig"/, 'has no figure');
	is(() = $html =~ /<section id="t\d+">/g, 2, 'a table comes with its indexes');
});
$file = page_file('postgres', q{SELECT lsm_report('{one}')});
$facts = check_page('one file', $file);
my $last_row = $node->safe_psql('postgres', 'SELECT max(ctid) FROM one WHERE id < 5000');
is(ranges_of($facts), "(0,1) - $last_row\n1 - 3000", 'keys of a table and of its index');
is($_->{tree}{memtable_entries}, 1, 'what is in memory') foreach @{ $facts->{trees} };
is(names_of($facts), 'one one_pkey', 'the table and its key');
drawn('one file', $file, sub {
	my ($html) = @_;
	is(join(' ', $html =~ m{<text class="k(?: e| m)?"[^>]*>([^<]*)}g), "(0,1) $last_row keys, in their order 1 3000 keys, in their order", 'the axis has its keys');
	like($html, qr{memory</text><rect[^>]* class="mem"[^>]*><title>memtables: 1 entry,}, 'what is in memory');
});
is(names_of(report('postgres', 'named twice', 'one,one_pkey,one')), 'one one_pkey', 'no tree comes twice');
is(names_of(report('postgres', 'an index first', 'one_pkey,empty_pkey,one')), 'one_pkey empty_pkey one', 'in the order in which they are named');
$file = page_file('postgres', q{SELECT lsm_report('{single}')});
is(join(' ', map { "$_->{first} $_->{last} $_->{smallest} $_->{largest}" } files_of(check_page('a single key', $file))), '1 1 42 42', 'a single key');
drawn('a single key', $file, sub { like($_[0], qr{<rect class="blocked" x="104" y="[\d.]+" width="819"}, 'a single key has the axis for itself') });
is(report('postgres', 'unlogged', 'unlogged')->{trees}[0]{tree}{persistence}, 'u', 'unlogged');
is(report('postgres', 'temporary', 't', before => q{CREATE TEMP TABLE t (id int PRIMARY KEY) USING lsm; INSERT INTO t VALUES (1); SELECT lsm_flush('t') \g /dev/null
})->{trees}[0]{tree}{persistence}, 't', 'temporary');
{
	my $other = $node->background_psql('postgres');
	$other->query_safe('CREATE TEMP TABLE theirs (id int) USING lsm');
	my $oid = $other->query_safe(q{SELECT 'theirs'::regclass::oid});
	like(answer('postgres', 'postgres', "SELECT lsm_report(ARRAY[$oid]::regclass[])"), qr/0A000/, 'of another session');
	$other->quit;
}
like(answer('postgres', 'postgres', q{SELECT lsm_report('{one,heap}')}), qr/42809: "heap" is not an lsm table or index/, 'a heap table without an index of ours');
like(answer('postgres', 'postgres', q{SELECT lsm_report('{heap_pkey}')}), qr/42809/, 'a btree index');
like(answer('postgres', 'postgres', q{SELECT lsm_report(ARRAY['one', NULL]::regclass[])}), qr/22004/, 'a null among them');
like(answer('postgres', 'postgres', q{SELECT lsm_report(ARRAY[1]::regclass[])}), qr/42P01/, 'no relation');
is($node->safe_psql('postgres', q{SELECT lsm_report(NULL) IS NULL}), 't', 'NULL');
$file = page_file('postgres', q{SELECT lsm_report('{}')});
is(names_of(check_page('no tree', $file)), '', 'no tree');
drawn('no tree', $file, sub { like($_[0], qr/<p class="sub">0 trees at /, 'is a page, too') });
# a build that failed
$node->psql('postgres', q{INSERT INTO heap SELECT generate_series(1, 10); CREATE UNIQUE INDEX CONCURRENTLY heap_failed ON heap USING lsm ((id % 2))});
$node->safe_psql('postgres', 'CREATE INDEX heap_l ON heap USING lsm (id)');
is(names_of(report('postgres', 'beside a failed build', 'heap')), 'heap_l', 'what has no tree is left out');
like(answer('postgres', 'postgres', q{SELECT lsm_report('{heap_failed}')}), qr/55000/, 'or refused by name');

# ---- all schemes, and what the other functions say ----

$node->safe_psql('postgres', q{
CREATE TABLE s (id int, v text) USING heap;
INSERT INTO s SELECT i * 2, 'v' || i FROM generate_series(1, 30000) i;
CREATE INDEX s_none ON s USING lsm (id) WITH (filter_scheme = none);
CREATE INDEX s_bloom ON s USING lsm (id) WITH (filter_scheme = bloom, bits_per_key = 6);
CREATE INDEX s_blocked ON s USING lsm (id DESC, v) WITH (filter_scheme = blocked);
CREATE INDEX s_quotient ON s USING lsm (id) WITH (filter_scheme = quotient);
CREATE INDEX s_cascade ON s USING lsm (v) WITH (filter_scheme = cascade);
CREATE INDEX s_ribbon ON s USING lsm (id) WITH (filter_scheme = ribbon, bits_per_key = 8);
CREATE INDEX s_elastic ON s USING lsm (id) WITH (filter_scheme = elastic, bits_per_key = 16, elastic_units = 4);
INSERT INTO s SELECT i * 2, 'w' || i FROM generate_series(1000, 4000) i; SELECT lsm_flush('s');
INSERT INTO s SELECT i * 2, 'w' || i FROM generate_series(20000, 23000) i; SELECT lsm_flush('s');
INSERT INTO s VALUES (1000000, 'x')});
# lookups of absent keys, in one index after the other; the hot ones of s_elastic are at its beginning
my $ask = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;';
foreach my $index (qw(s_none s_bloom s_blocked s_quotient s_cascade s_ribbon s_elastic))
{
	my $drop = join ' ', map { "DROP INDEX $_;" } grep { $_ ne $index } qw(s_none s_bloom s_blocked s_quotient s_cascade s_ribbon s_elastic);
	my $condition = $index eq 's_cascade' ? q{v = 'v' || i || 'a'} : $index eq 's_blocked' ? q{id = i * 2 AND v = 'a'} : 'id = i * 2 + 1';
	my $keys = $index eq 's_elastic' ? 'generate_series(1, 20) n, generate_series(1, 400) i' : 'generate_series(1, 8000) i';
	is($node->safe_psql('postgres', "BEGIN; $drop $ask SELECT count(*) FROM $keys CROSS JOIN LATERAL (SELECT * FROM s WHERE $condition OFFSET 0) x; ROLLBACK"), '0', "$index: lookups of absent keys");
}
$node->poll_query_until('postgres', 'SELECT units_on = units_wanted FROM lsm_elastic_stats()');
my $schemes = page_file('postgres', q{SELECT lsm_report('{s}')});
$facts = check_page('all schemes', $schemes);
my @indexes = map { name_of($_) } @{ $facts->{trees} };
my %said;
foreach my $index (@indexes)
{
	my @rows = map { [ split /\|/, $_, -1 ] } split /\n/, $node->safe_psql('postgres', qq{SELECT f.level, f.run, f.file, f.entries, (SELECT compression FROM lsm_compression('$index') c WHERE c.level = f.level), f.filter_scheme, round(100 * l.expected_fpr::numeric, 12), l.probes, l.false_positives,
round(100 * l.measured_fpr::numeric, 12) FROM lsm_files('$index') f JOIN lsm_filters('$index') l USING (file) WHERE l.segment IS NULL});
	my @files = files_of($facts, $index);
	$said{$index} = { rows => \@rows, amplification => $node->safe_psql('postgres', "SELECT write_amplification::numeric(10, 2) FROM pg_stat_lsm WHERE relname = '$index'") };
	is(join("\n", sort map { join '|', @$_{qw(level run file entries compression filter_scheme)}, $_->{negatives} + $_->{true_positives} + $_->{false_positives}, $_->{false_positives} } @files),
		join("\n", sort map { join '|', @$_[0 .. 5, 7, 8] } @rows), "$index: its files are as lsm_files and lsm_filters say, and no others");
	my %expected = map { $_->[2] => $_->[6] } @rows;
	is(join(' ', grep { abs(100 * $_->{expected_fpr} - $expected{ $_->{file} }) > 1e-9 } @files), '', "$index: and so are expected rates");
	cmp_ok(scalar(grep { $_->[9] ne '' } @rows), '>', 0, "$index: there is a measured one");
	is(tree_of($facts, $index)->{segments} ? 1 : 0, $index eq 's_elastic' ? 1 : 0, "$index: segments");
}
my $units = $node->safe_psql('postgres', q{SELECT sum(units_on) || ' of ' || sum(units) FROM lsm_filters('s_elastic') WHERE segment IS NOT NULL});
{
	my ($on, $of) = (0, 0);
	foreach (@{ tree_of($facts, 's_elastic')->{segments} }) { $on += $_->{units_on}; $of += $_->{units}; }
	is("$on of $of", $units, 'each unit is in one cell');
}
drawn('all schemes', $schemes, sub {
	my ($html) = @_;
	foreach my $section (split /(?=<section )/, $html)
	{
		my ($index) = $section =~ m{<h2><bdi>public\.(\w+)} or next;
		my ($scheme) = $index =~ /s_(\w+)/;
		my %listed = map { $_->[2] => $_ } listed_files($section);
		my @wrong;
		foreach (@{ $said{$index}{rows} })
		{
			my ($level, $run, $number, $entries, $compression, $of, $expected, $probes, $false, $measured) = @$_;
			my $row = $listed{$number} or do { push @wrong, "no file $number"; next; };
			my ($l, $r, $n, $e, undef, $c, $s, undef, undef, $x, $m, $f, $q) = map { s/,//gr } @$row;
			push @wrong, "$number: @$row" if $l != $level || $r != $run || $e != $entries || $c ne $compression || $s ne $of || $f != $false || $q != $probes
			  || $x !~ /%$/ || abs(($x =~ s/%//r) - $expected) > 0.005 + 0.02 * $expected
			  || ($measured eq '' ? $m ne "\x{2013}" : abs(($m =~ s/%//r) - $measured) > 0.005 + 0.02 * $measured);
		}
		is("@wrong", '', "$index: its files are as lsm_files and lsm_filters say");
		is(scalar(keys %listed), scalar(@{ $said{$index}{rows} }), "$index: and no others");
		is(() = $section =~ /<rect class="$scheme" x="[\d.]+" y="[\d.]+" width="[\d.]+" height="\d+"><title>file /g, scalar(keys %listed), "$index: each is drawn");
		is(() = $section =~ /<g><path class="x" /g, scalar(keys %listed), "$index: and its expected rate");
		is(() = $section =~ /<g><path class="x"[^>]*><\/path><(?:path class="ms|circle class="p)/g, scalar(grep { $_->[10] =~ /%/ } values %listed), "$index: and the measured one");
		cmp_ok(scalar(grep { $_->[10] =~ /%/ } values %listed), '>', 0, "$index: there is one");
		is(($section =~ /Elastic filters: hotness/) ? 1 : 0, $scheme eq 'elastic' ? 1 : 0, "$index: a heat map");
		my ($amplification) = $section =~ m{<dt>write amplification</dt><dd>([\d.]+)};
		is($amplification, $said{$index}{amplification}, "$index: write amplification");
	}
	my ($section) = grep { /<h2><bdi>public\.s_elastic</ } split /(?=<section )/, $html;
	my ($heat) = $section =~ m{(<h3>Elastic filters.*?</svg></div><h3>)}s;
	my ($on, $of) = (0, 0);
	while ($heat =~ /\nunits on: ([\d,]+) of ([\d,]+)/g) { $on += $1 =~ s/,//r; $of += $2 =~ s/,//r; }
	is("$on of $of", $units, 'each unit is in one cell');
	my %classes;
	$classes{$1}++ while $heat =~ /<rect class="(h[0-5u])" x="[\d.]+" y="[\d.]+" width="[\d.]+" height="\d+"><\/rect><title>/g;
	ok($classes{h5} && $classes{h5} < $classes{h0} + ($classes{h1} // 0), 'few segments are hot') or diag(join ' ', %classes);
	like($heat, qr/of the 1 MB of <code>lsm\.elastic_memory/, 'and the budget');
	unlike($html, qr/class="bad"/, 'no filter is worse than it promises');
	is(() = $html =~ /<p class="cap">Each mark is a sorted file/g, 1, 'figures are explained once');
	like($html, qr/<title>file \d+, level \d, run \d+\n[^<]*?\nkeys 46000, w23000 \x{2013} 40000, w20000\n/, 'keys of several columns, in the order of the index');
});

# the table in front: rows in memory count, the largest comes first
$node->safe_psql('postgres', q{CREATE TABLE little (i int) USING lsm; INSERT INTO little SELECT generate_series(1, 7);
CREATE TABLE large (i int, v text) USING lsm; INSERT INTO large SELECT i, repeat(md5(i::text), 10) FROM generate_series(1, 2000) i; SELECT lsm_flush('large'); INSERT INTO large VALUES (0)});
$file = page_file('postgres', q{SELECT lsm_report('{little, large}')});
is(join(' ', map { name_of($_) . ' ' . $_->{tree}{memtable_entries} } @{ check_page('two tables', $file)->{trees} }), 'little 7 large 1', 'rows in memory');
drawn('two tables', $file, sub {
	my ($front) = $_[0] =~ m{<header>.*?<tbody>(.*?)</tbody>}s;
	is(join(' ', map { s/<[^>]*>//gr } $front =~ m{<bdi>(.*?)</bdi></a></td><td class="t">table</td><td class="opt">\d+</td>(<td>[\d,]+</td>)}g), 'public.large 2,001 public.little 7', 'sizes and entries of two tables');
});
$node->safe_psql('postgres', 'DROP TABLE little, large');

# keys as the types write them
like(ranges_of($facts, 's_blocked'), qr/^46000, w23000 - 40000, w20000$/m, 'keys of several columns, in the order of the index');
$node->safe_psql('postgres', q{CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE k (m mood, a int[], t text, d date) USING heap;
CREATE INDEX k_l ON k USING lsm (m, a, t, d DESC); INSERT INTO k VALUES ('sad', '{1}', '', '2026-01-31'), ('happy', NULL, NULL, NULL); SELECT lsm_flush('k_l')});
like(ranges_of(report('postgres', 'kinds of keys', 'k_l')), qr/^sad, \\x02[0-9a-f]+(?:\.\.\.)?, '', 2026-01-31 - happy, NULL, NULL, NULL$/, 'enums, NULL, the empty string, dates; bytes of what is not decoded');

# the list of files has the first 256 bytes of a key only; here they end in the midst of a character and of an escape
$node->safe_psql('postgres', qq{CREATE TABLE long (i int, t text COLLATE "C", b bytea, x text COLLATE "de-x-icu") USING heap;
CREATE INDEX long_t ON long USING lsm (i, t); CREATE INDEX long_d ON long USING lsm (t DESC); CREATE INDEX long_b ON long USING lsm (b, i); CREATE INDEX long_x ON long USING lsm (i, x, t);
INSERT INTO long VALUES (7, 'a' || repeat('\xc3\xa9', 1000), decode(repeat('00', 1000), 'hex'), repeat('u', 1000)); SELECT lsm_flush('long')});
$facts = report('postgres', 'long keys', 'long');
like(ranges_of($facts, 'long_t'), qr/^7, a\x{e9}{124,125}\.\.\. - /, 'a long key as far as it is known, the second of two columns');
like(ranges_of($facts, 'long_d'), qr/^a\x{e9}{126,127}\.\.\. - /, 'descending');
like(ranges_of($facts, 'long_b'), qr/^\\x(?:00){60,}\.\.\. - /, 'bytea');
like(ranges_of($facts, 'long_x'), qr/^7, \\x02[0-9a-f]{30}\.\.\. - /, 'what cannot be decoded');

# ---- stalls ----

$node->safe_psql('postgres', q{CREATE TABLE w (id int, v text) USING lsm; INSERT INTO w VALUES (1)});
my $w = $node->safe_psql('postgres', q{SELECT 'w'::regclass::oid});
my $quiet = page_file('postgres', q{SELECT lsm_report('{w}')});
drawn('no stalls', $quiet, sub { unlike($_[0], qr/<h3>Stalls/, 'no stalls') });
is(check_page('no stalls', $quiet)->{trees}[0]{stats}{stalls_flush}, 0, 'no stalls');
lsm_hold($node, 'flush_started', 'worker', $w);
my $pid = lsm_start_session($node, 'postgres', 'stalls', q{SET lsm.memtable_size = '64kB'; INSERT INTO w SELECT i, repeat('x', 100) FROM generate_series(1, 5000) i});
ok(lsm_wait_held($node), 'the flush worker is held');
ok(!lsm_ended_or_waits($node, $pid) && !lsm_ended($pid, 3), 'a writer stalls');
lsm_release($node);
ok(lsm_ended($pid), 'the writer goes on');
my $stalls = $node->safe_psql('postgres', q{SELECT stalls_flush FROM pg_stat_lsm WHERE relname = 'w'});
my $delays = $node->safe_psql('postgres', q{SELECT delays_level0 + delays_flush + delays_memory + delays_pending FROM pg_stat_lsm WHERE relname = 'w'});
cmp_ok($delays, '>', 0, 'before, it was delayed');
$file = page_file('postgres', q{SELECT lsm_report('{w}')});
{
	my $stats = check_page('stalls', $file)->{trees}[0]{stats};
	is($stats->{stalls_flush}, $stalls, 'stalls by reason');
	is($stats->{delays_level0} + $stats->{delays_flush} + $stats->{delays_memory} + $stats->{delays_pending}, $delays, 'and delays');
}
drawn('stalls', $file, sub {
	my ($html) = @_;
	like($html, qr{<td class="t">memtables waited for a flush</td><td>$stalls</td><td>[\d.]+ m?s</td>}, 'stalls by reason');
	like($html, qr{<dt>stalls</dt><dd>[\d.]+ m?s<small>$stalls writes? waited; $delays writes? delayed, [\d.]+ \S+ in all</small>}, 'delays beside stalls');
});

# ---- what new files get ----

$node->safe_psql('postgres', q{CREATE INDEX w_bottom ON w USING lsm (id) WITH (bottom_filter = ribbon, filter_allocation = monkey, bits_per_key = 12)});
$file = page_file('postgres', q{SELECT lsm_report('{w_bottom}')});
is(join(' ', @{ check_page('filters of new files', $file)->{trees}[0]{tree} }{qw(scheme bits_per_key allocation bottom_scheme)}), 'blocked 12 monkey ribbon', 'filters of new files');
drawn('filters of new files', $file, sub { like($_[0], qr{New files get filters of scheme blocked, 12 bits per key on average, those of the deepest level of scheme ribbon\.}, 'filters of new files') });

# ---- who sees what ----

$node->safe_psql('postgres', q{
CREATE ROLE reader; CREATE ROLE col; CREATE ROLE monitor IN ROLE pg_monitor; CREATE ROLE nobody; CREATE ROLE owner; CREATE ROLE limited;
CREATE TABLE p (k text, n int) USING lsm; ALTER TABLE p OWNER TO owner;
CREATE INDEX p_k ON p USING lsm (k);
-- the same sizes, once side by side and once over each other
INSERT INTO p SELECT 'secret' || i, i FROM generate_series(1000, 1999) i; SELECT lsm_flush('p');
INSERT INTO p SELECT 'secret' || i, i FROM generate_series(2000, 2999) i; SELECT lsm_flush('p');
CREATE TABLE q (k text, n int) USING lsm; ALTER TABLE q OWNER TO owner;
CREATE INDEX q_k ON q USING lsm (k);
INSERT INTO q SELECT 'secret' || i * 2, i FROM generate_series(1000, 1999) i; SELECT lsm_flush('q');
INSERT INTO q SELECT 'secret' || i * 2 + 1, i FROM generate_series(1000, 1999) i; SELECT lsm_flush('q');
CREATE TABLE r (k text) USING lsm; INSERT INTO r VALUES ('secret'); SELECT lsm_flush('r'); ALTER TABLE r OWNER TO owner; ALTER TABLE r ENABLE ROW LEVEL SECURITY;
CREATE INDEX r_k ON r USING lsm (k);
GRANT SELECT ON p, q, r TO reader; GRANT SELECT (n) ON p TO col; GRANT ALL ON p TO nobody; REVOKE SELECT ON p FROM nobody});
my $secret = join '|', 'secret', unpack('H*', 'secret'), '\(\d+,\d+\)';
# where files lie: all that a figure makes of them
sub places { return join ' ', map { "$_->{level}:$_->{entries}:$_->{first}:$_->{last}" } files_of($_[0]); }
sub marks { return join ' ', $_[0] =~ /<rect class="blocked" (x="[\d.]+") y="[\d.]+" (width="[\d.]+")/g; }
my (%places, %marks);
foreach my $role (qw(postgres owner reader col monitor))
{
	foreach my $table ('p', $role =~ /reader|monitor/ ? 'q' : ())
	{
		my $file = page_file('postgres', "SELECT lsm_report('{$table,${table}_k}')", before => "SET ROLE $role");
		my $facts = check_page("$role, $table", $file);
		$places{"$role $table"} = places($facts);
		drawn("$role, $table", $file, sub {
			my ($html) = @_;
			$marks{"$role $table"} = marks($html);
			return if $table ne 'p';
			if ($role =~ /col|monitor/) { like($html, qr/Key ranges are for roles that may read all rows/, "$role is told that keys are not for it"); unlike($html, qr/$secret/, "$role sees no key"); }
			else { like($html, qr/keys secret1000 \x{2013} secret1999/, "$role sees keys"); }
		});
		next if $table ne 'p';
		is(names_of($facts), 'p p_k', "$role sees both trees");
		if ($role =~ /col|monitor/)
		{
			unlike(slurp_file($file) =~ s/<script>.*//sr, qr/$secret/, "$role sees no key");
			is(join(' ', grep { defined } map { ($_->{smallest}, $_->{largest}) } files_of($facts)), '', "$role: there is none");
		}
		else { like(ranges_of($facts, 'p_k'), qr/^secret1000 - secret1999$/m, "$role sees keys"); }
	}
}
isnt($places{'reader p'}, $places{'reader q'}, 'who sees keys sees where files lie');
is($places{'monitor p'}, $places{'monitor q'}, 'who does not sees nothing that depends on keys');
sub keys_of_r { my ($name, $role) = @_; return join ' ', map { $_->{smallest} // 'hidden' } files_of(report('postgres', "row security, $name", 'r', before => "SET ROLE $role")); }
is(keys_of_r('the owner', 'owner'), '(0,1) secret', 'row security does not apply to the owner');
is(keys_of_r('a reader', 'reader'), 'hidden hidden', 'but to a reader');
$node->safe_psql('postgres', 'ALTER TABLE r FORCE ROW LEVEL SECURITY');
is(keys_of_r('forced', 'owner'), 'hidden hidden', 'forced: to the owner, too');

# refused without waiting for a lock, whatever the place in the list; and nothing is said of the others
{
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('BEGIN; LOCK TABLE p, one, heap IN ACCESS EXCLUSIVE MODE');
	foreach my $relation (qw(p p_k one one_pkey heap heap_l heap_pkey))
	{
		my $oid = $node->safe_psql('postgres', "SELECT '$relation'::regclass::oid");
		like(answer('postgres', 'nobody', "SELECT lsm_report(ARRAY[$oid]::regclass[])"), $relation eq 'heap_pkey' ? qr/42809/ : qr/42501: permission denied for table/, "nobody: $relation");
	}
	like(answer('postgres', 'reader', q{SET lock_timeout = '100ms'; SELECT lsm_report('{p}')}), qr/55P03/, 'a reader waits');
	$holder->query_safe('ROLLBACK');
	$holder->quit;
}
like(answer('postgres', 'reader', q{SELECT lsm_report('{p,one}')}), qr/42501: permission denied for table one/, 'one of several: no page at all');
is($node->safe_psql('postgres', q{BEGIN; SET LOCAL ROLE reader; SELECT count(*) FROM (SELECT lsm_report('{p}')) x; RESET ROLE;
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN ('p'::regclass, 'p_k'::regclass)}), "1\n0", 'no lock is left behind');

# ---- names and keys that want to be markup ----

$node->safe_psql($hostile_db, 'CREATE SCHEMA ' . quoted($hostile_schema) . '; SET search_path = ' . quoted($hostile_schema) . ', public;
CREATE TABLE ' . quoted($hostile_table) . ' (k text) USING lsm; CREATE INDEX ' . quoted($hostile_index) . ' ON ' . quoted($hostile_table) . ' USING lsm (k) WITH (filter_scheme = elastic);
INSERT INTO ' . quoted($hostile_table) . q{ VALUES ('<script>document.title=''pwned''</script>'), ('zz"><svg onload=alert(1)> &lt;b&gt; ]]> -->'); SELECT lsm_flush(} . literal(quoted($hostile_table)) . q{)});
my $oid = $node->safe_psql($hostile_db, q{SELECT oid FROM pg_class WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'lsm')});
my $hostile = page_file($hostile_db, "SELECT lsm_report(ARRAY[$oid]::regclass[])");
$facts = check_page('hostile', $hostile);
my $shown = q{"'""><svg onload=""document.title=1""><!--"."""><script>document.title='pwned'</script>"};
is(join("\n", map { ($_->{tree}{name}, $_->{tree}{table_name} // ()) } @{ $facts->{trees} }[0]), $shown, 'schema and table, as SQL has them');
is($facts->{trees}[1]{tree}{table_name}, $shown, 'and those of the index');
is($facts->{database}, $hostile_db, 'the database');
like($facts->{trees}[1]{tree}{name}, qr/\."a\nb\tc\x01\x7f\x{202e}\x{200b}\x{627}\x{628}\x{1f600} \]\]><\/title><\/style>&amp;"$/, 'the index');
is(ranges_of({ trees => [ $facts->{trees}[1] ] }), q{<script>document.title='pwned'</script> - zz"><svg onload=alert(1)> &lt;b&gt; ]]> -->}, 'keys');
drawn('hostile', $hostile, sub {
	my ($page) = @_;
	$page =~ s/&(lt|gt|quot|amp);/{ lt => '<', gt => '>', quot => '"', amp => '&' }->{$1}/ge;
	is(() = $page =~ /<bdi>\Q$shown\E<\/bdi>/g, 3, 'schema and table, as SQL has them');
	is(() = $page =~ /LSM trees of database (?:<bdi>)?\Q$hostile_db\E</g, 2, 'the database');
	like($page, qr/\."a\x{240a}b\x{2409}c\x{2401}\x{2421}\[U\+202E\]\[U\+200B\]\x{627}\x{628}\x{1f600} \]\]><\/title><\/style>&amp;"/, 'what is not seen is seen in the name of the index');
	like($page, qr/keys <script>document\.title='pwned'<\/script> \x{2013} zz"><svg onload=alert\(1\)> &lt;b&gt; \]\]> -->/, 'keys');
});

# ---- other encodings ----

$node->safe_psql('latin', qq{SET client_encoding = 'UTF8'; CREATE TABLE "t\xc3\xa4" (k text PRIMARY KEY) USING lsm; INSERT INTO "t\xc3\xa4" VALUES ('\xc3\xa9'); SELECT lsm_flush('"t\xc3\xa4"')});
my $latin = q{SELECT lsm_report(ARRAY[oid]::regclass[]) FROM pg_class WHERE relname ~ '^t.$'};
my %latin = map { $_ => page_file('latin', $latin, before => "SET client_encoding = '$_'") } qw(LATIN1 UTF8);
$facts = check_page("LATIN1, for $_", $latin{$_}) foreach sort keys %latin;
is("$facts->{trees}[0]{tree}{name} $facts->{trees}[1]{files}[0]{smallest}", "public.\"t\x{e4}\" \x{e9}", 'a database in LATIN1');
is(slurp_file($latin{UTF8}) =~ s/\d\d:\d\d:\d\d//gr, slurp_file($latin{LATIN1}) =~ s/\d\d:\d\d:\d\d//gr, 'the encoding of the client does not matter');
$node->safe_psql('bytes', qq{SET client_encoding = 'SQL_ASCII'; CREATE TABLE t (k text PRIMARY KEY) USING lsm; INSERT INTO t VALUES (E'\\xff<\\xc3'), (E'z\\xfe<'); SELECT lsm_flush('t')});
is(ranges_of(report('bytes', 'SQL_ASCII', 't'), 't_pkey'), 'z\xFE< - \xFF<\xC3', 'a database without an encoding');

# ---- a thousand files ----

# in the configuration: workers write files of a fourth of this size together
$node->append_conf('postgresql.conf', "lsm.target_file_size = '64kB'");
$node->reload;
$node->safe_psql('postgres', q{
CREATE TABLE big (k text) USING heap;
INSERT INTO big SELECT repeat(md5(i::text), 60) FROM generate_series(1, 36000) i;
CREATE INDEX big_k ON big USING lsm (k) WITH (filter_scheme = elastic, elastic_units = 4, bits_per_key = 16)});
$node->safe_psql('postgres', "$ask SELECT count(*) FROM generate_series(1, 3000) i CROSS JOIN LATERAL (SELECT * FROM big WHERE k = md5((-i)::text) OFFSET 0) x");
# The ends of what two processes built may be such files, so the count must be the same before and after.
my ($nfiles, $big);
foreach (1 .. 60)
{
	$nfiles = $node->safe_psql('postgres', q{SELECT count(*) FROM lsm_files('big_k')});
	$big = page_file('postgres', q{SELECT lsm_report('{big_k}')});
	last if $nfiles == $node->safe_psql('postgres', q{SELECT count(*) FROM lsm_files('big_k')});
	usleep(500_000);
}
cmp_ok($nfiles, '>=', 1000, 'a thousand files');
is(scalar(files_of(check_page('a thousand files', $big))), $nfiles, 'all are there');
cmp_ok(-s $big, '<', 3_000_000, 'in a page of bearable size');
drawn('a thousand files', $big, sub {
	my ($html) = @_;
	is(scalar(listed_files($html)), $nfiles, 'all are listed');
	is(() = $html =~ /<rect class="elastic(?: o)?" x="[\d.]+" y="[\d.]+" width="[\d.]+" height="\d+"><title>file /g, $nfiles, 'and drawn');
});

# ---- a standby ----

$node->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('report_standby');
$standby->init_from_backup($node, 'standby', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
append_to_file("$tmp/standby.html", $standby->safe_psql('postgres', q{SELECT lsm_report('{one,s_elastic}')}));
$facts = check_page('a standby', "$tmp/standby.html");
ok($facts->{standby}, 'a standby');
is(names_of($facts), 'one one_pkey s_elastic', 'and its trees');
is(scalar(files_of($facts, 'one')), 1, 'and the files');
drawn('a standby', "$tmp/standby.html", sub { like($_[0], qr/<p class="sub">3 trees, on a standby, at /, 'a standby says that it is one') });
foreach my $function (q{lsm_levels('unlogged')}, q{lsm_report('{unlogged}')})
{
	my ($rc, $out, $err) = $standby->psql('postgres', "SELECT * FROM $function");
	like($err, qr/cannot (access|be accessed|read)|during recovery/, "an unlogged tree there: $function");
}
$standby->stop;

# ---- in a browser ----

# A page that has another one in a frame, and looks at it
sub measure
{
	my ($html, $scheme, $width) = @_;
	(my $quoted = $html) =~ s/&/&amp;/g;
	$quoted =~ s/"/&quot;/g;
	my $file = "$tmp/measure.html";
	unlink $file;
	append_to_file($file, qq{<!DOCTYPE html><meta charset="utf-8"><title>measure</title><pre id="result"></pre>
<iframe id="frame" width="$width" height="900" srcdoc="$quoted"></iframe>
<script>
onload = () => {
	const d = frame.contentDocument, root = d.documentElement, found = [];
	d.querySelectorAll('details').forEach(e => { e.open = true; });
	found.push('scheme ' + getComputedStyle(d.body).backgroundColor);
	if (root.scrollWidth > root.clientWidth) found.push('overflow ' + root.scrollWidth + ' > ' + root.clientWidth);
	if (frame.contentWindow.pwned || d.title === 'pwned' || d.scripts.length !== 2) found.push('script');
	found.push('sections ' + d.querySelectorAll('section').length);
	d.querySelectorAll('svg.fig').forEach(svg => {
		const box = svg.getBoundingClientRect();
		const texts = [...svg.querySelectorAll('text')].map(e => [e.firstChild.data, e.getBoundingClientRect()]);
		texts.forEach(([t, a], i) => {
			if (a.left < box.left - 1 || a.right > box.right + 1 || a.top < box.top - 1 || a.bottom > box.bottom + 1) found.push('outside: ' + t);
			texts.slice(i + 1).forEach(([u, b]) => {
				// lines of text may touch
				if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4) found.push('overlap: ' + t + ' / ' + u);
			});
		});
	});
	// the table in front is there as a whole
	const front = d.querySelector('header table');
	if (front && front.scrollWidth > front.parentElement.clientWidth) found.push('front: ' + front.scrollWidth + ' > ' + front.parentElement.clientWidth);
	// text that is cut off in a table or a figure beside it
	d.querySelectorAll('dd, dt, h1, h2, p, summary, .key').forEach(e => { if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth) found.push('cut: ' + e.textContent.slice(0, 40)); });
	result.textContent = found.join('\\n') + '\\nend';
};
</script>});
	my ($dom, $console) = browse($scheme, '--window-size=1400,1000', '--virtual-time-budget=20000', '--dump-dom', "file://$file");
	my ($result) = $dom =~ m{<pre id="result">(.*?)end</pre>}s;
	return ($result // "no result: $dom", $console);
}

sub luminance
{
	my ($colour) = @_;
	my @part = map { $_ /= 255; $_ <= 0.03928 ? $_ / 12.92 : (($_ + 0.055) / 1.055)**2.4 } @$colour;
	return 0.2126 * $part[0] + 0.7152 * $part[1] + 0.0722 * $part[2];
}
sub contrast { my ($l, $m) = sort { $b <=> $a } map { luminance([@$_]) } @_; return ($l + 0.05) / ($m + 0.05); }

# colours of both schemes, as the style has them: text can be read and marks be seen
foreach my $scheme (split /\@media \(prefers-color-scheme:dark\)/, slurp_file($schemes) =~ /<style>(.*?)\}\}/s ? $1 : '')
{
	my %colour = map { /--(\w+):#(\w\w)(\w\w)(\w\w)/ ? ($1 => [ map { hex } $2, $3, $4 ]) : () } $scheme =~ /--\w+:#\w{6}/g;
	my $name = luminance([ @{ $colour{bg} } ]) > 0.5 ? 'light' : 'dark';
	foreach (qw(ink mute link bad)) { cmp_ok(contrast($colour{$_}, $colour{bg}), '>=', 4.5, "$name: contrast of $_"); }
	foreach (qw(none bloom blocked elastic quotient cascade ribbon unknown ok ex)) { cmp_ok(contrast($colour{$_}, $colour{bg}), '>=', 3, "$name: contrast of $_"); }
	my @heat = map { luminance([ @{ $colour{"h$_"} } ]) } 0 .. 5;
	@heat = reverse @heat if $name eq 'light';
	is("@heat", join(' ', sort { $a <=> $b } @heat), "$name: the hotter, the further from the page");
}

SKIP:
{
	skip 'chromium is not installed (apt-get install chromium)', 1 unless $chromium;
	my %pages = ('one file' => page_file('postgres', q{SELECT lsm_report('{one}')}), 'all schemes' => $schemes, 'a thousand files' => $big, 'hostile names' => $hostile);
	my %background = (light => 'rgb(255, 254, 251)', dark => 'rgb(23, 23, 21)');
	foreach (@drawings)
	{
		my ($name, $file, $look) = @$_;
		my ($dom, $console) = browse('light', '--dump-dom', "file://$file");
		is($console, '', "$name: nothing to complain of");
		utf8::decode($dom);
		# facts and script have said what they have
		$look->($dom =~ s{<script.*?</script>}{}gsr);
	}
	isnt($marks{'reader p'}, $marks{'reader q'}, 'who sees keys sees where files lie');
	is($marks{'monitor p'}, $marks{'monitor q'}, 'who does not sees nothing that depends on keys');
	foreach my $name (sort keys %pages)
	{
		my $html = slurp_file($pages{$name});
		my $sections = () = $html =~ /"bottom_scheme"/g;
		foreach ([ 'light', 1280 ], [ 'light', 480 ], [ 'dark', 400 ])
		{
			my ($scheme, $width) = @$_;
			my ($result, $console) = measure($html, $scheme, $width);
			is($result, "scheme $background{$scheme}\nsections $sections\n", "$name, $scheme, $width pixels: nothing overflows, overlaps or runs");
			is($console, '', "$name, $scheme, $width pixels: nothing to complain of");
		}
		foreach my $scheme (qw(light dark))
		{
			my $png = "$tmp/" . ($name =~ s/ /_/gr) . "_$scheme.png";
			my ($out, $console) = browse($scheme, '--window-size=1280,2000', "--screenshot=$png", "file://$pages{$name}");
			is($console, '', "$name, $scheme: nothing to complain of");
			my $bytes = -e $png ? slurp_file($png) : '';
			is(substr($bytes, 0, 8), "\x89PNG\r\n\x1a\n", "$name, $scheme: a picture");
			is(join('x', unpack('N2', substr($bytes, 16, 8))), '1280x2000', 'as large as asked for');
		}
	}
	# escaping does it alone, and so does the policy; and we would see a script
	my $without = slurp_file($hostile) =~ s/<meta http-equiv="Content-Security-Policy"[^>]*>//r;
	unlike((measure($without, 'light', 1280))[0], qr/script/, 'without the policy nothing runs either');
	my $script = q{<script>window.pwned = 1; document.title = 'pwned'</script>};
	like((measure($without =~ s/<\/body>/$script/r, 'light', 1280))[0], qr/^script$/m, 'a script would be seen');
	my ($result, $console) = measure(slurp_file($hostile) =~ s/<\/body>/$script/r, 'light', 1280);
	like($console, qr/Content Security Policy/, 'and the policy refuses it');
}

# ---- a long list of the same tree can be cancelled ----

$node->safe_psql('postgres', 'CREATE TABLE again (id int) USING lsm');
# what the server's process has computed for it, in seconds
sub computed
{
	my ($n, $settings) = @_;
	my $clock = q{SELECT 'clock ' || split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)};
	my ($rc, $out, $err) = $node->psql('postgres', "$clock; $settings; SELECT length(lsm_report(array_fill('again'::regclass, ARRAY[$n]))) > 0; SET statement_timeout = 0; $clock", on_error_stop => 0);
	my ($from, $to) = $out =~ /^clock (\d+)$/mg;
	return (($to - $from) / 1e9, $out =~ s/^clock \d+\n?//mgr . $err);
}
my ($short, $said) = computed(2_000_000, 'SET statement_timeout = 0');
is($said, "t\n", 'a tree that is named again and again');
my ($long, $error) = computed(20_000_000, q{SET statement_timeout = '1s'});
like($error, qr/canceling statement due to statement timeout/, 'a report that takes longer than it may');
# to its end it would take ten times as long
cmp_ok($long, '<', 1 + 4 * $short, 'ends soon');

$node->stop;
done_testing();
