# The statements of pages for users run as they are written: those in blocks of sql, page by page in their order.
# (migration.md has a test of its own, 039, and so have sharding.md and citus.md.)
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Basename;

my $docs = $ENV{LSM_DOCS} // dirname(__FILE__) . '/../../../../docs';
my $node = lsm_node('pages', conf => "autovacuum = off\nfsync = off");
lsm_start($node);

# What a page takes for granted
my %before = (
	'first-day.md' => q{CREATE TABLE orders (id bigint PRIMARY KEY, v text) USING lsm; INSERT INTO orders SELECT g, g FROM generate_series(1, 1000) g; SELECT lsm_flush('orders')},
	'usage.md' => 'CREATE EXTENSION citext; CREATE EXTENSION ltree; CREATE EXTENSION hstore',
	'operating.md' => 'CREATE SCHEMA ext');

foreach my $page (sort keys %before)
{
	my $db = $page =~ s/\W/_/gr;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, "CREATE EXTENSION lsmam; $before{$page}");
	my @blocks = slurp_file("$docs/$page") =~ /^```sql\n(.*?)^```$/gms;
	cmp_ok(scalar(@blocks), '>', 2, "$page has statements");
	my @outputs;
	foreach my $block (@blocks)
	{
		my ($rc, $out, $err) = $node->psql($db, $block);
		is("$rc $err", '0 ', "$page: " . ($block =~ /^(.{1,60})/)[0]);
		push @outputs, $out;
	}
	next if $page ne 'first-day.md';
	my ($sizes, $stalls, $progress, $filters, $sound) = @outputs;
	like($sizes, qr/^public\|orders\|/m, 'sizes');
	like($_, qr/^orders\|0/m, 'a line for the table') foreach $stalls, $filters;
	is($progress, '', 'nothing goes on');
	is($sound, '', 'nothing is wrong');
}

$node->stop;
done_testing();
