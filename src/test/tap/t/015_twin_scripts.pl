# Scripts run word for word in a database whose tables are heap and in one whose tables are lsm: what psql prints must be
# the same, but for the names of access methods.  src/test/tap/twins: keys, constraints and partitions;
# cursors, triggers, savepoints and locks over flushes and compactions; DDL of every kind, row security, rules,
# event triggers, transition tables, COPY, TIDs; rows looked up by unique keys again and again, while these rows, the keys'
# types and constraints change.  The row directory is small, and is misled all the time.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Basename;

my $node = lsm_node('twins', conf => "autovacuum = off\nfsync = off\nlsm.constraint_index = lsm\nlsm.row_directory_memory = 4kB\nlsm.directory_tag_bits = 4");
lsm_start($node);
my $dir = dirname(__FILE__) . '/../twins';
my $data = PostgreSQL::Test::Utils::tempdir();

foreach my $script (sort glob("$dir/*.sql"))
{
	my $name = basename($script, '.sql');
	my %out;
	foreach my $am ('heap', 'lsm')
	{
		# one after the other: roles are shared
		my $db = "${name}_$am";
		$node->safe_psql('postgres', "CREATE DATABASE $db");
		$node->safe_psql($db, "CREATE EXTENSION lsmam; ALTER DATABASE $db SET default_table_access_method = $am");
		my $text = slurp_file($script) =~ s/\@data\@/$data/gr;
		if ($am eq 'heap')
		{
			$text =~ s/USING lsm/USING btree/g;
			$text =~ s/WITH \(bits_per_key[^)]*\)//g;
		}
		my $file = "$data/$name.sql";
		unlink $file;
		append_to_file($file, $text);
		my @lines = `psql -X -d "@{[ $node->connstr($db) ]}" -f '$file' 2>&1`;
		# what may differ: names of access methods and of temporary tables, rebuilt indexes, those without order
		foreach (@lines)
		{
			s/^psql:\S+ //;
			s/\blsm_index\b/btree/g;
			s/pg_temp_\d+/pg_temp_/g;
		}
		@lines = grep { $_ !~ /^NOTICE:  index ".*" of table ".*" is rebuilt as btree/
			  && $_ !~ /^(NOTICE:  columns? .* supports? equality only|DETAIL:  lsm_index keeps the order|HINT:  Use .*a btree index.* if order)/ } @lines;
		$out{$am} = join('', @lines);
		open my $fh, '>', "$data/$name.$am" or die;
		print $fh $out{$am};
		close $fh;
	}
	cmp_ok(length($out{heap}), '>', 3000, "$name: printed something");
	unlike($out{heap}, qr/access method .* does not exist|server closed/, "$name: ran");
	ok($out{lsm} eq $out{heap}, "$name: as on heap") or diag(`diff -U3 $data/$name.heap $data/$name.lsm | head -80`);
	cmp_ok($node->safe_psql("${name}_lsm", 'SELECT sum(directory_hits) FROM pg_stat_lsm'), '>', 50, "$name: rows were found by the directory") if $name eq 'one_row';
	$node->safe_psql("${name}_lsm", 'DROP EXTENSION lsmam CASCADE');
	is($node->safe_psql("${name}_lsm", q{SELECT count(*) FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam WHERE relam <> 0 AND a.oid IS NULL}), 0, "$name: DROP EXTENSION CASCADE");
}
$node->stop;
done_testing();
