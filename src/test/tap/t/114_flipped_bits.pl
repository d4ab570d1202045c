# Whatever is damaged, without data checksums: a bit of any file of an lsm table or index is flipped, or a sector
# of it comes back as zeroes.  Each query under each plan gives what the heap twin gives, or an error
# (DATA_CORRUPTED) that names a file or block; where results differ, lsm_verify() reports it.  Nothing crashes.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

lsm_seed();
my $tables = lsm_long() ? 32 : 16;
my $rounds = $ENV{LSM_FLIP_ROUNDS} // (lsm_long() ? 200 : 2);
my @schemes = qw(bloom blocked quotient cascade ribbon elastic);
my $node = lsm_node('flips', initdb => [ lsm_no_checksums() ], conf => "autovacuum = off\nlsm.memtable_size = 1MB\nwal_level = minimal\nmax_wal_senders = 0\nrestart_after_crash = off");
lsm_start($node);
sub sql { return $node->safe_psql('postgres', $_[0]); }

sql(q{CREATE TABLE h (id int PRIMARY KEY, n int, k text, v text, w text);
INSERT INTO h SELECT g, g % 50, 'key ' || md5(g::text), 'value ' || g, repeat(chr(97 + g % 26), 20 + g % 50) FROM generate_series(1, 900) g;
CREATE INDEX ON h (n) INCLUDE (v); CREATE INDEX ON h (k); CREATE INDEX ON h (v);});

# what is asked: each with a plan that the settings force
my @queries = (
	['seqscan', 'SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off', q{SELECT count(*), sum(n), md5(string_agg(concat(id, n, k, v, w), ',' ORDER BY id)) FROM %s}],
	['index', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off', q{SELECT md5(string_agg(concat(id, k, v, w), ',' ORDER BY id)) FROM %s WHERE n BETWEEN 10 AND 20}],
	['lookups', 'SET enable_seqscan = off; SET enable_bitmapscan = off', q{SELECT count(s.w), md5(string_agg(s.w, ',' ORDER BY g)) FROM generate_series(1, 1000, 7) g, LATERAL (SELECT w FROM %s WHERE id = g OFFSET 0) s}],
	['keys', 'SET enable_seqscan = off; SET enable_bitmapscan = off', q{SELECT count(s.id), sum(s.id) FROM generate_series(1, 1000, 5) g, LATERAL (SELECT id FROM %s WHERE k = 'key ' || md5(g::text) OFFSET 0) s}],
	['index-only', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off', q{SELECT count(*), md5(string_agg(v, ',' ORDER BY n, v)) FROM %s WHERE n >= 0}],
	['index-only, btree', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off', q{SELECT count(*), md5(string_agg(v, ',' ORDER BY v)) FROM %s WHERE v >= 'value'}],
	['bitmap', 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off', q{SELECT md5(string_agg(concat(id, k, v, w), ',' ORDER BY id)) FROM %s WHERE n = 17 OR n = 3}],
	['= ANY', 'SET enable_seqscan = off; SET enable_bitmapscan = off', q{SELECT count(*), sum(id) FROM %s WHERE k = ANY (ARRAY(SELECT 'key ' || md5(g::text) FROM generate_series(1, 1000, 3) g))}],
	['order', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off', q{SELECT md5(string_agg(k, ',')) FROM (SELECT k FROM %s ORDER BY k) s}]);

sub answers
{
	my ($table) = @_;
	my @out;
	foreach my $i (0 .. $#queries)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSET statement_timeout = '60s';\n" . $queries[$i][1] . ";\n" . sprintf($queries[$i][2], $table) . ';');
		push @out, $err =~ /(ERROR|FATAL|PANIC):\s+(.*)/ ? "$1 $2" : $err =~ /server closed|could not connect|connection to server/ ? "LOST $err" : $out;
	}
	return @out;
}

sub answer_problem
{
	my ($answer) = @_;
	return '' if $answer =~ /^ERROR XX001: .*(pg_lsm|block \d+|base\/)/;
	return $answer =~ /^(ERROR|FATAL|PANIC|LOST)/ ? $answer : undef;
}

my @right = answers('h');

# [kind, file, first byte, bytes]
sub objects
{
	my ($table) = @_;
	my %objects;
	foreach my $line (split /\n/, sql("SELECT c.relname || ' ' || pg_relation_filepath(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE (c.oid = '$table'::regclass OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = '$table'::regclass)) AND amname LIKE 'lsm%'"))
	{
		my ($name, $path) = split / /, $line;
		my $fork = $node->data_dir . "/$path";
		open my $fh, '<:raw', $fork or die "$fork: $!";
		for (my $block = 0; read($fh, my $page, 8192) == 8192; $block++)
		{
			my ($type) = unpack('x8190 v', $page);
			my $kind = $block == 0 ? 'metapage' : $type == 0x4C47 ? 'log page' : $type == 0x4D46 ? 'manifest page' : next;
			my ($lower) = unpack('x12 v', $page);
			# headers of pages are PostgreSQL's
			push @{ $objects{$kind} }, [ $fork, $block * 8192 + 24, $lower - 24 ], [ $fork, $block * 8192 + 8176, 16 ] if $block > 0;
			push @{ $objects{$kind} }, [ $fork, 24, 1000 ] if $block == 0;
		}
		close $fh;
		if (-s "${fork}_vm")
		{
			push @{ $objects{'visibility map'} }, [ "${fork}_vm", 24, 2 ];
		}
		my ($keyspace) = map { sprintf('%016x', $_) } unpack('Q<', do { open my $f, '<:raw', $fork or die; seek $f, 32, 0; read $f, my $bytes, 8; $bytes });
		my $dir = lsm_dir($node) . "/$keyspace";
		foreach my $file (glob "$dir/*")
		{
			my $size = -s $file;
			if ($file =~ /\.sst$/)
			{
				push @{ $objects{'sorted file'} }, [ $file, 0, $size ];
				push @{ $objects{'end of a sorted file'} }, [ $file, $size > 2500 ? $size - 2500 : 0, $size > 2500 ? 2500 : $size ];
				push @{ $objects{'footer'} }, [ $file, $size - 53, 53 ];
			}
			elsif ($file =~ /\.flt$/)
			{
				push @{ $objects{'filter file'} }, [ $file, 0, $size ], [ $file, 0, 64 ];
			}
			else { push @{ $objects{'owner file'} }, [ $file, 0, $size ]; }
		}
	}
	return %objects;
}

my %count;
foreach my $round (1 .. $rounds)
{
	sql(join '', map { my $s = $schemes[ int(rand(@schemes)) ]; qq{
CREATE TABLE t$_ (id int PRIMARY KEY, n int, k text, v text, w text) USING lsm;
CREATE INDEX t${_}_n ON t$_ USING lsm (n) INCLUDE (v) WITH (filter_scheme = $s);
CREATE INDEX t${_}_k ON t$_ USING lsm (k) WITH (filter_scheme = $s);
CREATE INDEX t${_}_v ON t$_ USING btree (v);
INSERT INTO t$_ SELECT * FROM h WHERE id <= 600;
INSERT INTO t$_ SELECT 10000 + g, 1, 'gone ' || g, 'value', 'gone' FROM generate_series(1, 50) g;
} } 1 .. $tables);
	sql(join '', map { "SELECT lsm_flush('t$_'); SELECT lsm_flush('t${_}_k'); SELECT lsm_flush('t${_}_n'); DELETE FROM t$_ WHERE id > 10000;" } 1 .. $tables);
	$node->psql('postgres', "VACUUM t$_") foreach grep { $_ % 2 } 1 .. $tables;
	sql(join '', map { "INSERT INTO t$_ SELECT * FROM h WHERE id BETWEEN 601 AND 800;" . ($_ % 3 ? "SELECT lsm_flush('t$_'); SELECT lsm_flush('t${_}_k');" : '') . "INSERT INTO t$_ SELECT * FROM h WHERE id > 800;" } 1 .. $tables);
	my @damage;
	sql("CHECKPOINT");
	my %all = map { $_ => { objects("t$_") } } 1 .. $tables;
	$node->stop;
	foreach my $i (1 .. $tables)
	{
		my $objects = $all{$i};
		my @kinds = sort keys %$objects;
		my $kind = $kinds[ ($i + int(rand(@kinds))) % @kinds ];
		my $object = $objects->{$kind}[ int(rand(@{ $objects->{$kind} })) ];
		my ($file, $first, $bytes) = @$object;
		my $at = $first + int(rand($bytes));
		my $what = 'bit';
		if (rand() < 0.2 && $kind ne 'owner file')
		{
			$what = 'sector';
			$at -= $at % 512;
			$at = $first if $kind eq 'footer';
			open my $fh, '+<:raw', $file or die "$file: $!";
			seek $fh, $at, 0;
			my $size = -s $file;
			print $fh "\0" x ($size - $at < 512 ? $size - $at : 512);
			close $fh or die;
		}
		else { lsm_flip_bits($file, $at); }
		$damage[$i] = "$what at $at of $kind " . ($file =~ s/.*pgdata\///r);
		$count{$kind}++;
	}
	$node->start;
	my $wrong = '';
	foreach my $i (1 .. $tables)
	{
		my @got = answers("t$i");
		my $differs = '';
		foreach my $q (0 .. $#queries)
		{
			my $problem = answer_problem($got[$q]);
			$wrong .= "$damage[$i]: $queries[$q][0]: $problem\n" if ($problem // '') ne '';
			$differs .= "$queries[$q][0] " if !defined $problem && $got[$q] ne $right[$q];
		}
		my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT object, problem FROM lsm_verify('t$i')");
		my $error = $err =~ /(ERROR|FATAL|PANIC):\s+(.*)/ ? "$1 $2" : '';
		$wrong .= "$damage[$i]: lsm_verify: $error\n" if $error ne '' && answer_problem($error);
		$wrong .= "$damage[$i]: other results by $differs, and lsm_verify is content\n" if $differs ne '' && $out eq '' && $error eq '';
		note("$damage[$i]: " . ($differs ne '' ? "differs ($differs), reported: $out" : join(' ', map { /^ERROR/ ? 'error' : 'same' } @got)));
	}
	is($wrong, '', "round $round: an error that names it, a report, or the right answers");
	last if $wrong =~ /LOST/;
	sql(join '', map { "DROP TABLE t$_;" } 1 .. $tables);
}
note(join ', ', map { "$count{$_} of $_" } sort keys %count);
$node->stop;
done_testing();
