# Truncated, bit-flipped, missing, unreadable and exchanged files: a clear error or a right
# answer, never a wrong one, and the server lives.  Filter files: always the right answer, with a warning, and
# lsm_compact() builds the filter again (037_filters has more of that).
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

lsm_seed();
my $scheme = (qw(bloom blocked quotient cascade ribbon))[ int(rand(5)) ];
note("filter scheme $scheme");
my $node = lsm_node('corrupt', initdb => [ lsm_no_checksums() ], conf => "autovacuum = off\nlsm.filter_scheme = $scheme\nlsm.compression = " . (rand() < 0.5 ? 'lz4' : 'none'));
lsm_start($node);
lsm_create_twins($node, 't', 'id int PRIMARY KEY, n int, v text', '(n)');
$node->safe_psql('postgres', qq{
INSERT INTO t_h SELECT g, g % 100, md5(g::text) FROM generate_series(1, 20000) g;
INSERT INTO t_l SELECT * FROM t_h;
SELECT lsm_flush('t_l'); SELECT lsm_compact('t_l');
INSERT INTO t_h SELECT g, g % 100, md5(g::text) FROM generate_series(20001, 25000) g;
INSERT INTO t_l SELECT * FROM t_h WHERE id > 20000;
SELECT lsm_flush('t_l');
});
is(lsm_differences($node, 't'), '', 'same before');
my $sum = $node->safe_psql('postgres', 'SELECT count(*), sum(id), md5(string_agg(v, \'\' ORDER BY id)) FROM t_h');
$node->stop;

# every query gives the right answer or an error of a data file
sub check
{
	my ($what, $must_fail) = @_;
	my ($errors, $wrong) = (0, '');
	my @queries = (
		["SELECT count(*), sum(id), md5(string_agg(v, '' ORDER BY id)) FROM t_l", $sum],
		["SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM generate_series(1, 25000, 7) g, LATERAL (SELECT v FROM t_l WHERE id = g OFFSET 0) s WHERE s.v = md5(g::text)", scalar(grep { $_ % 7 == 1 } 1 .. 25000)],
		["SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(id) FROM t_l WHERE n = 42", $node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM t_h WHERE n = 42')],
		["SET enable_seqscan = off; SELECT count(*) FROM t_l WHERE id > 24000", 1000],
		["SET enable_seqscan = off; SELECT count(*) FROM t_l WHERE id = 12345678", 0]);
	foreach my $q (@queries)
	{
		my ($rc, $out, $err) = $node->psql('postgres', $q->[0], timeout => 120);
		$err =~ s/^[^\n]*WARNING:  .*filter file[^\n]*\n((DETAIL|HINT)[^\n]*(\n|\z))*//mg;
		if ($err =~ /server closed|terminat/)
		{
			$wrong .= "the server crashed: $err\n";
		}
		elsif ($err ne '')
		{
			$errors++;
			$wrong .= "unclear error: $err\n"
			  unless $err =~ /pg_lsm|could not (open|read|map|access)|corrupt|checksum|not a valid lsm metapage/i;
		}
		elsif ($out ne $q->[1]) { $wrong .= "wrong answer to $q->[0]: $out instead of $q->[1]\n"; }
	}
	my ($rc, $problems, $err) = $node->psql('postgres', q{SELECT object, problem FROM lsm_verify('t_l')}, timeout => 120);
	$errors++ if $problems ne '' || $err ne '';
	is($wrong, '', "$what: no wrong answer");
	if (defined $must_fail)
	{
		is($errors > 0 ? 1 : 0, $must_fail, "$what: " . ($must_fail ? 'noticed' : 'harmless'));
	}
	return;
}

sub with_damage
{
	my ($what, $file, $must_fail, $damage) = @_;
	system('cp', '-p', $file, "$file.saved") == 0 or die;
	$damage->($file);
	$node->start;
	if ($file =~ /\.flt$/)
	{
		# a filter is worth time and no data
		my $problems = $node->safe_psql('postgres', q{SELECT object, problem FROM lsm_verify('t_l')});
		like($problems, qr/\.flt\|/, "$what: lsm_verify reports it") if $must_fail;
		$must_fail = undef;
	}
	check($what, $must_fail);
	$node->stop('fast');
	rmdir $file;
	unlink $file;
	rename("$file.saved", $file) or die "rename: $!";
	return;
}

my @sst = grep { /\.sst$/ } lsm_files_of($node);
my @flt = grep { /\.flt$/ } lsm_files_of($node);
cmp_ok(scalar(@sst), '>=', 4, 'there are sorted files');
my ($big) = sort { -s $b <=> -s $a } @sst;
my ($bigflt) = sort { -s $b <=> -s $a } @flt;
my $any = sub { $_[ int(rand(@_)) ] };

with_damage('sorted file cut in half', $big, 1, sub { truncate($_[0], int((-s $_[0]) / 2)) });
with_damage('sorted file empty', $any->(@sst), 1, sub { truncate($_[0], 0) });
with_damage('sorted file without its last byte', $any->(@sst), 1, sub { truncate($_[0], (-s $_[0]) - 1) });
with_damage('sorted file missing', $any->(@sst), 1, sub { unlink $_[0] });
with_damage('filter file missing', $any->(@flt), 1, sub { unlink $_[0] });
with_damage('filter file cut', $bigflt, 1, sub { truncate($_[0], int((-s $_[0]) / 2)) });
with_damage('filter file empty', $any->(@flt), 1, sub { truncate($_[0], 0) });
with_damage('sorted file unreadable', $any->(@sst), 1, sub { chmod(0, $_[0]) });
with_damage('sorted file is a directory', $any->(@sst), 1, sub { unlink $_[0]; mkdir $_[0] });
with_damage('garbage appended', $any->(@sst), undef, sub { append_to_file($_[0], 'garbage' x 100) });
with_damage('file of zeroes', $big, 1, sub { my $n = -s $_[0]; open my $fh, '>:raw', $_[0] or die; print $fh "\0" x $n; close $fh });

foreach my $i (1 .. (lsm_long() ? 60 : 6))
{
	my $file = $i % 3 == 0 ? $bigflt : $any->(@sst);
	my $offset = int(rand(-s $file));
	with_damage("bit flip at $offset of " . ($file =~ s{.*/}{}r), $file, undef, sub { lsm_flip_bits($_[0], $offset) });
}

# a whole valid file of another one in its place: of the same tree, with as many
# keys, which neither size nor checksum tells
{
	my %before = map { $_ => 1 } lsm_files_of($node);
	$node->start;
	$node->safe_psql('postgres', q{
SET lsm.memtable_size = '64MB';
CREATE TABLE x_l (id int PRIMARY KEY) USING lsm;
INSERT INTO x_l SELECT generate_series(1, 2000); SELECT lsm_flush('x_l');
INSERT INTO x_l SELECT generate_series(2001, 4000); SELECT lsm_flush('x_l');
});
	$node->stop;
	foreach my $suffix ('flt', 'sst')
	{
		my %dirs;
		push @{ $dirs{ s{/[^/]*$}{}r } }, $_ foreach grep { !$before{$_} && /\.$suffix$/ } lsm_files_of($node);
		is(join(' ', map { scalar @$_ } values %dirs), '2 2', "two files.$suffix in each of two trees")
		  or diag(join "\n", map { @$_ } values %dirs);
		foreach my $pair (values %dirs)
		{
			my ($victim, $other) = @$pair;
			is(-s $victim, -s $other, 'of the same size') if $suffix eq 'flt';
			system('cp', '-p', $victim, "$victim.saved") == 0 or die;
			system('cp', $other, $victim) == 0 or die;
			$node->start;
			isnt(join('', ($node->psql('postgres', q{SELECT object, problem FROM lsm_verify('x_l')}))[1, 2]), '', "$suffix of another file: lsm_verify notices");
			my ($rc, $out, $err) = $node->psql('postgres',
				'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM generate_series(1, 4000) g, LATERAL (SELECT FROM x_l WHERE id = g OFFSET 0) s',
				extra_params => [ '-v', 'VERBOSITY=verbose' ]);
			if ($suffix eq 'flt')
			{
				like($err, qr{WARNING:  XX001: .*pg_lsm/.*\.flt" is corrupt: it is another file}, 'flt of another file: a warning that names it');
				is($out, '4000', 'flt of another file: the right answer');
				is($node->safe_psql('postgres', q{SET client_min_messages = error; SELECT lsm_compact('x_l'); SELECT count(*) FROM lsm_verify('x_l')}), "\n0", 'flt of another file: built again');
				$node->stop;
				unlink "$victim.saved";
				next;
			}
			like($err, qr{XX001: .*pg_lsm/.*\.$suffix" is corrupt}, "$suffix of another file: an error that names it");
			is($out, '', "$suffix of another file: no answer");
			$node->stop;
			rename("$victim.saved", $victim) or die;
		}
	}
	$node->start;
	is($node->safe_psql('postgres', q{SELECT count(*) FROM x_l}), '4000', 'put back');
	is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('x_l')}), '', 'lsm_verify is content');
	$node->stop;
}

# filters under a server that runs; to quotient ones, an unreadable page is not "maybe" by itself
foreach my $scheme (qw(bloom blocked quotient cascade ribbon))
{
	my %before = map { $_ => 1 } lsm_files_of($node);
	$node->start;
	$node->safe_psql('postgres', qq{
CREATE TABLE d (id int);
INSERT INTO d SELECT g FROM generate_series(2, 100000, 2) g;
CREATE INDEX d_id ON d USING lsm_index (id) WITH (filter_scheme = $scheme);});
	my ($flt, $other) = grep { /\.flt$/ && !$before{$_} } lsm_files_of($node);
	my $index_only = 'SET enable_seqscan = off; SET enable_bitmapscan = off; ';
	my $ask = 'SELECT count(*) FROM generate_series(1, 100000) g, LATERAL (SELECT 1 FROM d WHERE id = g OFFSET 0) s;';
	is($node->safe_psql('postgres', $index_only . $ask), 50000, "$scheme: intact");
	is($node->safe_psql('postgres', q{SELECT DISTINCT filter_scheme FROM lsm_files('d_id')}), $scheme, "$scheme: in use");

	# that of another file
	system('cp', '-p', $flt, "$flt.saved") == 0 or die;
	system('cp', $other, $flt) == 0 or die;
	isnt(join('', ($node->psql('postgres', q{SELECT object, problem FROM lsm_verify('d_id')}))[1, 2]), '', "$scheme: filter of another file: lsm_verify notices");
	system('cp', "$flt.saved", $flt) == 0 or die;

	# torn off while a session has it open
	my ($rc, $out, $err) = $node->psql('postgres', "SET enable_seqscan = off;\nSET enable_bitmapscan = off;\nSELECT count(*) FROM d WHERE id = 4;\n\\! truncate -s 8192 $flt\n$ask\n");
	is($out, "1\n50000", "$scheme: right without the pages that are gone");
	like($err, qr/WARNING: .*could not read filter file/, "$scheme: with a warning")
	  if $scheme ne 'cascade';
	like($err, qr/WARNING: .*filter file ".*" is corrupt: file was truncated/, 'cascade: with a warning')
	  if $scheme eq 'cascade';
	# keys asked for in a group: the first that meets a page that is gone is not the only one
	my $groups = join(',', map {
		system('cp', "$flt.saved", $flt) == 0 or die;
		($node->psql('postgres', "SET enable_seqscan = off;\nSET enable_bitmapscan = off;\nSELECT count(*) FROM d WHERE id = 4;\n\\! truncate -s 8192 $flt\n"
			. "SELECT count(*) FROM d WHERE id = ANY (ARRAY(SELECT generate_series($_, $_ + 62, 2)))"))[1] } 1000, 20000, 30000, 40000, 50000);
	is($groups, join(',', ("1\n32") x 5), "$scheme: in groups, too");

	# the same file: others may have it mapped
	system('cp', "$flt.saved", $flt) == 0 or die;
	is($node->safe_psql('postgres', $index_only . $ask), 50000, "$scheme: put back");

	# one bit
	my $offset = 4096 + int(rand((-s $flt) - 4096));
	lsm_flip_bits($flt, $offset);
	($rc, $out, $err) = $node->psql('postgres', $index_only . $ask);
	like($err, qr/WARNING: .*filter file ".*" is corrupt.*checksum/s, "$scheme: bit flipped at $offset");
	is($out, 50000, "$scheme: bit flipped: the right answer");
	like($node->safe_psql('postgres', q{SELECT problem FROM lsm_verify('d_id')}), qr/corrupt/s,
		"$scheme: lsm_verify reports it as a row, and goes on");

	# a compaction does not need it, and must not take over what it says
	$node->safe_psql('postgres', q{INSERT INTO d SELECT g FROM generate_series(1, 99999, 2) g; SELECT lsm_compact('d_id');});
	is($node->safe_psql('postgres', $index_only . $ask), 100000, "$scheme: compaction builds another filter");
	is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('d_id')}), '', "$scheme: and all is well");
	$node->safe_psql('postgres', 'DROP TABLE d');
	$node->stop;
}

# a damaged metapage
my $path = do { $node->start; my $p = $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t_l')}); $node->stop; $node->data_dir . "/$p" };
with_damage('metapage of zeroes', $path, 1, sub { open my $fh, '+<:raw', $_[0] or die; print $fh "\0" x 8192; close $fh });
with_damage('metapage with another magic', $path, 1, sub { open my $fh, '+<:raw', $_[0] or die; seek $fh, 24, 0; print $fh 'XXXX'; close $fh });

$node->start;
is(lsm_differences($node, 't'), '', 'everything put back: same');

# the field of a sorted file that says which format it has: damage is none of other releases
foreach my $bit (0 .. 31)
{
	my ($at, $mask) = ((-s $big) - 12 + int($bit / 8), 1 << $bit % 8);
	lsm_flip_bits($big, $at, $mask);
	my $read = "\\set VERBOSITY sqlstate\nSELECT count(v), max(id), max(n) FROM t_l;\nSET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(v) FROM t_l WHERE id > 0; SELECT count(v) FROM t_l WHERE n >= 0";
	my ($rc, $out, $err) = $node->psql('postgres', $read, on_error_stop => 0);
	like($err, qr/^psql:<stdin>:\d+: ERROR:  XX001$/m, "version field, bit $bit: damage");
	unlike($err, qr/0A000/, "version field, bit $bit: no other format");
	lsm_flip_bits($big, $at, $mask);
}
is(lsm_differences($node, 't'), '', 'as it was: same');
# files that belong to no one are no problem
my ($ks) = map { s{/[^/]*$}{}r } @sst;
append_to_file("$ks/999999.sst", 'stray');
mkdir lsm_dir($node) . '/not_a_keyspace';
append_to_file(lsm_dir($node) . '/README', 'hello');
$node->restart;
is(lsm_differences($node, 't'), '', 'strays are no problem');
ok(-e lsm_dir($node) . '/README', 'what is not ours is left alone');
$node->stop;

# Where a log page is not what it should be, the list of files may be older than the log: strays may be all there is of some rows.
$node->start;
$node->safe_psql('postgres', "INSERT INTO t_$_ VALUES (-1, 1, 'needle')") foreach 'h', 'l';
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;
open my $fork, '+<:raw', $path or die "$path: $!";
local $/;
my $content = <$fork>;
my $block = int(index($content, 'needle') / 8192);
cmp_ok($block, '>', 0, 'a log page');
my $stray = lsm_dir($node) . sprintf('/%016x/999999.sst', unpack('x32 Q', $content));
append_to_file($stray, 'stray');
my $put = sub { seek($fork, $block * 8192 + 24, 0); syswrite($fork, $_[0]) == length($_[0]) or die "write: $!"; };
$put->("\xff" x 64);
$node->start;
my ($rc, $out, $err) = $node->psql('postgres', 'SELECT count(*) FROM t_l');
like($err, qr/corrupted log page in block $block/, 'it is damaged');
ok(-e $stray, 'and a stray stays');
$node->stop;
$put->(substr($content, $block * 8192 + 24, 64));
close $fork;
$node->start;
is(lsm_differences($node, 't'), '', 'put back: same');
ok(!-e $stray, 'and the stray goes');
$node->stop;
done_testing();
