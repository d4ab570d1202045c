# What another build has written: metapages of an older format are read and brought up to date, those of a
# newer one are refused, and what they name is left alone. WAL whose pieces of files make no sense ends
# recovery with an error that says so.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('formats', initdb => [ lsm_no_checksums() ], conf => "autovacuum = off\nfull_page_writes = off\nlsm.compression = none\nallow_in_place_tablespaces = on");
lsm_start($node);
$node->safe_psql('postgres', $_)
  foreach 'CREATE DATABASE formats', 'CREATE EXTENSION pg_walinspect', q{CREATE TABLESPACE other LOCATION ''};
$node->safe_psql('formats', q{
CREATE EXTENSION lsmam;
CREATE TABLE l (id int PRIMARY KEY, n int) USING lsm;
CREATE INDEX l_n ON l USING lsm (n) TABLESPACE other;
INSERT INTO l SELECT g, g FROM generate_series(1, 3000) g;
SELECT lsm_flush('l');
DELETE FROM l WHERE id % 3 = 0;
});
my $look = 'SELECT count(*), sum(id), sum(n) FROM l';
my $sum = $node->safe_psql('formats', $look);
my $fork = $node->data_dir . '/' . $node->safe_psql('formats', q{SELECT pg_relation_filepath('l')});

# ---- versions of the metapage ----
sub format_version
{
	my ($new) = @_;
	open my $fh, '+<:raw', $fork or die "open: $!";
	seek $fh, 28, 0;			# behind page header and magic
	read $fh, my $bytes, 4;
	if (defined $new)
	{
		seek $fh, 28, 0;
		print $fh pack('V', $new);
	}
	close $fh;
	lsm_seal_meta($fork) if defined $new;
	return unpack('V', $bytes);
}

$node->stop;
my $current = format_version();
is($current, 6, 'format of a new table');

format_version(2);
$node->start;
is($node->safe_psql('formats', $look), $sum, 'an older format is read');
$node->safe_psql('formats', q{INSERT INTO l VALUES (-1, 0); DELETE FROM l WHERE id = -1; SELECT lsm_flush('l')});
is($node->safe_psql('formats', $look), $sum, '... and written');
is($node->safe_psql('formats', q{SELECT * FROM lsm_verify('l')}), '', 'nothing is wrong');
$node->stop;
is(format_version(), $current, 'the edit has brought it up to date');

# databases in both tablespaces
sub directories
{
	my $data = $node->data_dir;
	return sort map { glob "$data/$_/[0-9]*" } 'base', "pg_tblspc/*/PG_*";
}

my $before = join ' ', directories();
my $page = do { open my $fh, '<:raw', $fork or die; read $fh, my $bytes, 8192; $bytes };
sub put_back { open my $fh, '+<:raw', $fork or die; print $fh $page; close $fh; return; }

my @files = lsm_files_of($node);
isnt(scalar @files, 0, 'there are files');
foreach my $other (1, $current + 1)
{
	format_version($other);
	$node->start;
	foreach my $statement ($look, 'INSERT INTO l VALUES (-1, 0)', q{SELECT lsm_flush('l')}, 'VACUUM l', q{SELECT * FROM lsm_verify('l')})
	{
		my ($rc, $out, $err) = $node->psql('formats', $statement);
		like("$out$err", qr/has lsm format version $other, but this server reads versions 2 to $current/, "version $other: $statement");
	}
	foreach my $strategy ('wal_log', 'file_copy')
	{
		my ($rc, $out, $err) = $node->psql('postgres', "CREATE DATABASE copy TEMPLATE formats STRATEGY $strategy");
		like($err, qr/has lsm format version $other/, "version $other: no copy of the database without its files ($strategy)");
		is(join(' ', directories()), $before, "version $other: nothing is left of the copy ($strategy)");
	}
	$node->safe_psql('postgres', 'CHECKPOINT') foreach 1 .. 3;
	$node->restart;
	$node->safe_psql('postgres', 'CHECKPOINT') foreach 1 .. 3;
	$node->stop;

	# of the copy there may be files, of trees that it came to before this one
	is(join("\n", grep { -f $_ } @files), join("\n", @files), "version $other: the files are left alone");
	put_back();
}
$node->start;
is($node->safe_psql('formats', $look), $sum, 'put back: same');
my @left;
foreach (1 .. $PostgreSQL::Test::Utils::timeout_default)
{
	$node->safe_psql('postgres', 'CHECKPOINT');
	@left = lsm_files_of($node);
	last if @left <= @files;
	sleep 1;
}
is(join("\n", @left), join("\n", @files), 'what is left of copies that failed is swept away');
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE formats');
is($node->safe_psql('copy', $look), $sum, 'put back: the copy, too');

# ---- records ----
# a compressed record that lies within one page
my @record;
foreach my $try (1 .. 50)
{
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $start = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	$node->safe_psql('formats', "UPDATE l SET n = n + 1 WHERE id < 20 + $try; SELECT lsm_flush('l')");
	$node->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, 'flush', '')});
	my $records = lsm_version() < 16 ? "pg_get_wal_records_info_till_end_of_wal('$start')" : "pg_get_wal_records_info('$start', 'FFFFFFFF/FFFFFFFF')";
	my $found = $node->safe_psql('postgres', qq{
SELECT f.file_name, f.file_offset, record_length FROM $records, pg_walfile_name_offset(start_lsn) f
	WHERE resource_manager = 'lsmam' AND record_type = 'FILE_CHUNK_LZ4' AND f.file_offset % 8192 >= 40
		AND f.file_offset % 8192 + record_length <= 8192 LIMIT 1});
	@record = split /\|/, $found;
	last if @record;
}
is(scalar @record, 3, 'there is a compressed piece of a file in WAL');
$sum = $node->safe_psql('formats', $look);
my $wal = $node->data_dir . "/pg_wal/$record[0]";

sub wal_bytes
{
	my ($new) = @_;
	open my $fh, '+<:raw', $wal or die "open: $!";
	seek $fh, $record[1], 0;
	read $fh, my $bytes, $record[2];
	if (defined $new)
	{
		seek $fh, $record[1], 0;
		print $fh $new;
	}
	close $fh;
	return $bytes;
}

$node->stop('immediate');
my $good = wal_bytes();
is(unpack('V', $good), $record[2], 'the record is where it should be');
is(lsm_crc32c(substr($good, 24) . substr($good, 0, 20)), unpack('V', substr($good, 20, 4)), 'its checksum is understood');
# behind the record's header: of the data, then that of the piece
my $at = 24 + (ord(substr($good, 24, 1)) == 255 ? 2 : 5);
my %damages = ('an unknown flag' => sub { substr($_[0], $at + 36, 4) = pack('V', 0x40 | unpack('V', substr($_[0], $at + 36, 4))) },
	'another length' => sub { substr($_[0], $at + 32, 4) = pack('V', 1 + unpack('V', substr($_[0], $at + 32, 4))) },
	'a length far too large' => sub { substr($_[0], $at + 32, 4) = pack('V', 0x7FFFFFFF); substr($_[0], $at + 24, 8) = pack('Q<', 0x7FFFFFFF) },
	'no LZ4' => sub { substr($_[0], $at + 40) = "\xFF" x (length($_[0]) - $at - 40) },
	'said to be plain' => sub { substr($_[0], $at + 36, 4) = pack('V', ~0x04 & unpack('V', substr($_[0], $at + 36, 4))) });
foreach my $damage (sort keys %damages)
{
	my $bad = $good;
	$damages{$damage}->($bad);
	isnt($bad, $good, "$damage: the record is another one");
	substr($bad, 20, 4) = pack('V', lsm_crc32c(substr($bad, 24) . substr($bad, 0, 20)));
	wal_bytes($bad);
	my $from = -s $node->logfile;
	is($node->start(fail_ok => 1), 0, "$damage: no start");
	my $log = substr(slurp_file($node->logfile), $from);
	like($log, qr/FATAL: .*lsm file chunk record of \d+ bytes is not the \d+ bytes at \d+ of file \d+ of keyspace/, "$damage: the error says why");
	unlike($log, qr/terminated by signal|TRAP/, "$damage: and no more happens");
}
wal_bytes($good);
$node->start;
is($node->safe_psql('formats', $look), $sum, 'the record put back: recovery goes on where it ended');
is($node->safe_psql('formats', q{SELECT * FROM lsm_verify('l')}), '', 'nothing is wrong');
$node->stop;
done_testing();
