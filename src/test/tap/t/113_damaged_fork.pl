# Damage in a tree's main fork, without data checksums: a bit of the metapage, log pages that come back as
# zeroes or as they were before.  An error that names the block and the relation, or the right answer; never
# rows that are silently missing.  What is left can be read.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

lsm_seed();
my $node = lsm_node('damaged', initdb => [ lsm_no_checksums() ], conf => "autovacuum = off\nlsm.memtable_size = 1MB\nwal_level = minimal\nmax_wal_senders = 0\nrestart_after_crash = off");
lsm_start($node);
sub sql { return $node->safe_psql('postgres', $_[0]); }

sub path { return $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$_[0]')"); }

sub get_page
{
	my ($file, $block) = @_;
	open my $fh, '<:raw', $file or die "$file: $!";
	seek($fh, $block * 8192, 0);
	read($fh, my $page, 8192) == 8192 or die "$file: no block $block";
	close $fh;
	return $page;
}

sub put_page
{
	my ($file, $block, $page) = @_;
	open my $fh, '+<:raw', $file or die "$file: $!";
	seek($fh, $block * 8192, 0);
	print $fh $page;
	close $fh or die "$file: $!";
	return;
}

# 'right', or the error with its code, or 'WRONG: what came'
sub answer
{
	my ($query, $expected) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$query");
	return $err =~ /ERROR:\s+(.*)/ ? $1 : 'WRONG: ' . $err if $err =~ /ERROR|FATAL|PANIC|server closed/;
	return $out eq $expected ? 'right' : "WRONG: $out";
}

# ---- one bit of a metapage ----

my @bits = map { my $at = 24 + $_; [ $at, $at < 136 ? int(rand(8)) : 0 ] } 0 .. 119;
push @bits, map { [ $_, int(rand(8)) ] } (12 .. 19), map { 24 + int(rand(1000)) } 1 .. 5;
sql(join '', map { "CREATE TABLE m$_ (id int, v text) USING lsm; INSERT INTO m$_ SELECT g, 'row ' || g FROM generate_series(1, 100) g;" } 0 .. $#bits);
sql(join '', map { "SELECT lsm_flush('m$_');" } 0 .. $#bits);
sql(join '', map { "INSERT INTO m$_ VALUES (101, 'last');" } 0 .. $#bits);
my @paths = split /\n/, sql(join '', map { "SELECT pg_relation_filepath('m$_');" } 0 .. $#bits);
$node->stop;
lsm_flip_bits($node->data_dir . "/$paths[$_]", $bits[$_][0], 1 << $bits[$_][1]) foreach 0 .. $#bits;
$node->start;
my ($wrong, $noticed) = ('', 0);
foreach my $i (0 .. $#bits)
{
	my $what = answer("SELECT count(*), sum(id) FROM m$i", '101|5151');
	$noticed++ if $what =~ /^XX001: .*block 0 of (relation|file) "?\Q$paths[$i]\E/;
	$wrong .= "bit $bits[$i][1] of byte $bits[$i][0]: $what\n"
	  unless $what eq 'right' || $what =~ /^XX001: .*\Q$paths[$i]\E/;
}
is($wrong, '', 'a bit of a metapage: noticed, or harmless');
cmp_ok($noticed, '>=', 112, 'those of its content are noticed');
my $kept = 0;
$kept += -d $_ foreach glob(lsm_dir($node) . '/*');
cmp_ok($kept, '>=', scalar(@bits), 'their files are kept');
like(answer("SELECT * FROM lsm_verify('m8')", ''), qr/^XX001: .*block 0 of .*\Q$paths[8]\E/, 'lsm_verify says so, too');

# who looks for keyspaces that nobody names reads the file, and not the good page in memory
sql("CREATE TABLE idle (id int, v text) USING lsm; INSERT INTO idle SELECT g, 'row ' || g FROM generate_series(1, 100) g; SELECT lsm_flush('idle'); CHECKPOINT");
my $idle = path('idle');
my $idle_name = sql("SELECT pg_relation_filepath('idle')");
my $log = -s $node->logfile;
lsm_flip_bits($idle, 24 + 8, 4);
lsm_wait_logged($node, $log, qr/WARNING:  could not read "\Q$idle_name\E"/);
is(answer('SELECT count(*), sum(id) FROM idle', '100|5050'), 'right', 'a metapage damaged on disk alone: the rows are there');
lsm_flip_bits($idle, 24 + 8, 4);
$node->restart;
is(answer('SELECT count(*), sum(id) FROM idle', '100|5050'), 'right', 'and mended: they still are');

# ---- one of an older build, which has no checksum: what it says of the list of files is held against the fork ----

{
	# in bytes 80 to 95 of the content: first and last page of the list, its pages and files
	my @old = map { my $version = $_; map { [ $version, $_ ] } 0 .. 31 } 2, 4;
	sql(join '', map { "CREATE TABLE o$_ (id int, v text) USING lsm; INSERT INTO o$_ SELECT g, 'row ' || g FROM generate_series(1, 100) g;" } 0 .. $#old);
	sql(join '', map { "SELECT lsm_flush('o$_');" } 0 .. $#old);
	my @forks = map { $node->data_dir . "/$_" } split /\n/, sql(join '', map { "SELECT pg_relation_filepath('o$_');" } 0 .. $#old);
	$node->stop;
	foreach my $i (0 .. $#old)
	{
		my ($version, $bits) = @{ $old[$i] };
		my $page = get_page($forks[$i], 0);
		substr($page, 28, 4) = pack('V', $version);
		# each byte: a low bit and a high one
		my $at = 24 + 80 + int($bits / 2);
		substr($page, $at, 1) = chr(ord(substr($page, $at, 1)) ^ (1 << ($bits % 2 ? 4 + int(rand(4)) : int(rand(4)))));
		put_page($forks[$i], 0, $page);
		lsm_seal_meta($forks[$i]);
	}
	$node->start;
	my ($bad, $seen) = ('', 0);
	foreach my $i (0 .. $#old)
	{
		my $what = "version $old[$i][0], byte " . (80 + int($old[$i][1] / 2)) . ": ";
		my $got = answer("SELECT count(*), sum(id) FROM o$i", '100|5050');
		my $file = $forks[$i] =~ s/.*pgdata\///r;
		$seen++ if $got ne 'right';
		$bad .= "$what$got\n" if $got ne 'right' && $got !~ /^XX001: .*\Q$file\E/;
		my $verified = answer("SELECT * FROM lsm_verify('o$i')", '');
		$bad .= "$what$got, and lsm_verify is content\n" if $got ne 'right' && $verified eq 'right';
	}
	is($bad, '', 'old metapages: the rows, or an error that names the fork');
	cmp_ok($seen, '>', 30, "old metapages: $seen of them are noticed");
	# nothing was believed that costs memory
	unlike(slurp_file($node->logfile), qr/out of memory|invalid memory alloc/, 'nor was anything made as large as they say');
	sql(join '', map { "DROP TABLE o$_;" } 0 .. $#old);
}

# ---- log pages ----

# 2,000 rows in one session are a dozen of pages; the first thousand is there when the first copy is taken
my $rows = sub { "INSERT INTO $_[0] SELECT g, repeat('x', 20) || g FROM generate_series($_[1], $_[2]) g;" };
sql('CREATE TABLE p0 (id int, v text) USING lsm; ' . $rows->('p0', 1, 1000));
my $pages = sql("SELECT pg_relation_size('p0') / 8192");
cmp_ok($pages, '>=', 5, 'there are log pages');
my $all = $pages * 2 + 4;
sql(join '', map { "CREATE TABLE p$_ (id int, v text) USING lsm; " . $rows->("p$_", 1, 1000) } 1 .. 3 * $all);
my @log = split /\n/, sql(join '', map { "SELECT pg_relation_filepath('p$_');" } 0 .. 3 * $all);
$_ = $node->data_dir . "/$_" foreach @log;
$node->stop;
my @before;
foreach my $i (0 .. 3 * $all)
{
	my $n = (-s $log[$i]) / 8192;
	$before[$i] = [ map { get_page($log[$i], $_) } 0 .. $n - 1 ];
}
$node->start;
sql(join '', map { $rows->("p$_", 1001, 2000) } 0 .. 3 * $all);
my $count = sql("SELECT pg_relation_size('p0') / 8192");
$node->stop;
my @damage;
my $i = 1;
foreach my $block (1 .. $count - 1)
{
	push @damage, [ $i++, $block, 'zeroes', "\0" x 8192 ];
	next if $block >= @{ $before[$i] } || $before[$i][$block] eq get_page($log[$i], $block);
	push @damage, [ $i, $block, 'an older page', $before[$i][$block] ];
	$i++;
}
cmp_ok($i, '<=', 3 * $all, 'enough tables');

# one bit of each page's content
foreach my $block (1 .. $count - 1)
{
	my $page = get_page($log[$i], $block);
	my ($lower) = unpack('x12 v', $page);
	my $at = 24 + int(rand($lower - 24));
	substr($page, $at, 1) = chr(ord(substr($page, $at, 1)) ^ 1 << int(rand(8)));
	push @damage, [ $i++, $block, "a bit of byte $at", $page ];
}
put_page($log[$_->[0]], $_->[1], $_->[3]) foreach @damage;
$node->start;
$wrong = '';
$noticed = 0;
foreach my $d (@damage)
{
	my ($table, $block, $what) = @$d;
	my $answer = answer("SELECT count(*), count(DISTINCT v), sum(id) FROM p$table", '2000|2000|2001000');
	my $reported = sql("SELECT object, problem FROM lsm_verify('p$table')");
	$noticed++ if $answer =~ /^XX001: .*block \d+ of relation /;
	$wrong .= "$what in block $block: $answer\n" unless $answer eq 'right' || $answer =~ /^XX001: .*\bblock $block of relation /;
	$wrong .= "$what in block $block: not reported by lsm_verify, but $answer: $reported\n" if $answer ne 'right' && $reported !~ /\bblock $block\b/;
}
is($wrong, '', 'a lost, old or damaged log page: noticed, or harmless, and reported by lsm_verify');
is($noticed, scalar(@damage), 'all of them are noticed');

# nobody writes to what has lost something, and what is left can be read
my ($table) = map { $_->[0] } grep { $_->[1] == 3 && $_->[2] eq 'zeroes' } @damage;
like(answer("INSERT INTO p$table VALUES (0, 'new')", ''), qr/^XX001: /, 'no one can write to it');
my ($rc, $out, $err) = $node->psql('postgres', "SET lsm.ignore_missing_files = on; SELECT count(*) > 1500, count(*) < 2000 FROM p$table; SELECT count(*) FROM p$table WHERE v <> repeat('x', 20) || id");
is($out, "t|t\n0", 'lsm.ignore_missing_files reads what is left');
like($err, qr/WARNING:  .*block 3 of relation/, 'with a warning');
foreach my $session ('another session', 'one more')
{
	($rc, $out, $err) = $node->psql('postgres', "SET lsm.ignore_missing_files = on; SELECT count(*) < 2000 FROM p$table; SELECT count(*) < 2000 FROM p$table");
	is("$out " . scalar(() = $err =~ /^.*WARNING:  .*log pages of relation .* are missing/mg), "t\nt 1", "$session: one warning") or diag($err);
}
like(answer("SET lsm.ignore_missing_files = on; INSERT INTO p$table VALUES (0, 'new')", ''), qr/^55000: cannot write/, 'which cannot write');
like(answer("SELECT count(*) FROM p$table", ''), qr/^XX001: .*block 3 of relation/, 'others still get the error');
# as the first that looks at it
foreach my $way ("INSERT INTO p$table VALUES (0, 'new')", "SELECT lsm_flush('p$table')", "SELECT lsm_compact('p$table')", "VACUUM p$table")
{
	like(answer("SELECT count(*) FROM p$table", ''), qr/^XX001: /, 'it is not loaded');
	like(answer("SET lsm.ignore_missing_files = on; SET statement_timeout = '60s'; $way", ''), qr/^55000: /, "with lsm.ignore_missing_files, refused: $way");
}
sql("SET lsm.ignore_missing_files = on; CREATE TABLE copy USING lsm AS TABLE p$table; SELECT count(*) FROM copy");
is(answer("SELECT count(*) FROM lsm_flush('p$table')", ''), answer("SELECT count(*) FROM p$table", ''), 'nor is it flushed');
is(sql('SELECT count(*), sum(id) FROM p0'), '2000|2001000', 'the others are whole');
is(sql('SELECT * FROM lsm_verify(\'p0\')'), '', 'lsm_verify has nothing to say of them');

# what has lost the version that it differs from goes with it, and nothing else
sql("CREATE TABLE u (id int, n int, v text) USING lsm; INSERT INTO u SELECT g, 0, repeat('x', 100) FROM generate_series(1, 1000) g; UPDATE u SET n = 1; UPDATE u SET n = 2 WHERE id % 3 = 0");
my $u = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('u')");
$node->stop;
put_page($u, 5, "\0" x 8192);
$node->start;
like(answer('SELECT count(*) FROM u', ''), qr/^XX001: .*block 5 of relation/, 'versions without the page of older ones: an error');
($rc, $out, $err) = $node->psql('postgres', "SET lsm.ignore_missing_files = on;
	SELECT count(*) > 900, count(*) < 1000, count(*) FILTER (WHERE v <> repeat('x', 100) OR n <> CASE WHEN id % 3 = 0 THEN 2 ELSE 1 END) FROM u");
is($out, 't|t|0', 'lsm.ignore_missing_files reads all others') or diag($err);

# ---- what is legal ----

# pages that a crash has left behind as zeroes, pages that were added free, numbers that nobody has logged,
# several generations, several writers
sql('CREATE TABLE c (id int, v text) USING lsm');
my $script = "$ENV{TESTDIR}/writers.sql";
append_to_file($script, "\\set n random(1, 1000000000)\nINSERT INTO c SELECT :n, repeat('y', 1 + (:n % 9000)::int) FROM generate_series(1, 1 + :n % 20);\n");
foreach my $round (1 .. (lsm_long() ? 20 : 3))
{
	my $pgbench = fork();
	if ($pgbench == 0)
	{
		open STDERR, '>', '/dev/null';
		exec('pgbench', '-n', '-c', '6', '-j', '2', '-T', '600', '-f', $script, '-d', $node->connstr('postgres')) or POSIX::_exit(99);
	}
	$node->poll_query_until('postgres', "SELECT count(*) > $round * 300 FROM c") or die;
	sql("SELECT lsm_flush('c')") if $round % 2 == 0;
	$node->stop('immediate');
	waitpid($pgbench, 0);
	$node->start;
	is(sql("SELECT object, problem FROM lsm_verify('c')"), '', "crash $round: nothing is wrong");
	my $path = path('c');
	$node->stop;
	append_to_file($path, "\0" x (8192 * $round));
	$node->start;
	is(sql("SELECT object, problem FROM lsm_verify('c')"), '', "crash $round: nor with pages of zeroes at the end");
	sql("INSERT INTO c SELECT -g, 'after' FROM generate_series(1, 2000) g");
	is(sql("SELECT count(*) FROM c WHERE id BETWEEN -2000 AND -1"), 2000 * $round, 'written to');
}

# ---- what only lsm_verify looks at ----

# a log page whose content was changed under a checksum that is right, as by a defect
sub forge
{
	my ($file, $from, $to) = @_;
	my $block = 1;
	$block++ while get_page($file, $block) !~ /\Q$from\E/;
	my $page = get_page($file, $block);
	$page =~ s/\Q$from\E/$to/;
	my ($lower) = unpack('x12 v', $page);
	my $crc = 0xFFFFFFFF ^ lsm_crc32c(substr($page, 8176, 8) . pack('V', $block) . substr($page, 28, 8) . substr($page, 40, $lower - 40));
	substr($page, 36, 4) = pack('V', $crc);
	put_page($file, $block, $page);
	return;
}
sql(q{CREATE TABLE f (id int, v text) USING lsm; INSERT INTO f VALUES (1, 'one'), (2, 'second'), (3, 'three');
CREATE TABLE i (id int, v text) USING lsm; CREATE INDEX i_id ON i USING lsm (id) INCLUDE (v); INSERT INTO i VALUES (1, 'one'), (2, 'second'), (3, 'three');
CREATE TABLE b (id int, v text) USING lsm; CREATE INDEX b_id ON b USING btree (id); INSERT INTO b SELECT g, 'row' FROM generate_series(1, 1000) g;});
sql('VACUUM b');
is(sql(q{SELECT (SELECT count(*) FROM lsm_verify('f')) + (SELECT count(*) FROM lsm_verify('i')) + (SELECT count(*) FROM lsm_verify('b'))}), 0, 'nothing is wrong yet');
my ($f, $i_id, $map) = (path('f'), path('i_id'), path('b') . '_vm');
sql('CHECKPOINT');
my $bits = get_page($map, 0);
sql('DELETE FROM b WHERE id <= 500');
$node->stop;
isnt(get_page($map, 0), $bits, 'bits are cleared');
put_page($map, 0, $bits);
forge($f, "\x0fsecond", "\xfbsecond");
forge($i_id, 'second', 'sEcond');
$node->start;
like(sql(q{SELECT problem FROM lsm_verify('f')}), qr/^row \(0,2\): attribute 2 has an impossible length/, 'a row that cannot be decoded');
like(sql(q{SELECT problem FROM lsm_verify('i')}), qr/^column 2 of row \(0,2\) is not what an index-only scan returns$/, 'a value that only index-only scans return');
is(answer('SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM b WHERE id <= 500', '0') eq 'right' ? 1 : 0, 0, 'a bit too many shows rows that are gone');
like(sql(q{SELECT problem FROM lsm_verify('b') LIMIT 1}), qr/^block \d+ is marked all-visible, but index "b_id" has an entry of row/, 'bits too many in the visibility map');
$node->stop;
done_testing();
