# The statements of docs/migration.md that make statements (\gexec) or call functions, run by a superuser over tables of
# somebody who may create tables and functions: none of them gives that role the superuser's rights.
use strict;
use warnings;
use File::Basename;
use LsmTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $page = slurp_file(($ENV{LSM_DOCS} // dirname(__FILE__) . '/../../../../docs') . '/migration.md');
my @blocks = ($page =~ /<<'?SQL'?\n(.*?)^SQL$/msg, map { s/^\\c \w+\n//mr } $page =~ /^```sql\n(.*?)^```$/msg);
sub statement
{
	my ($pattern) = @_;
	my @found = grep { $_ =~ $pattern } @blocks;
	is(scalar @found, 1, "one block has $pattern");
	return $found[0];
}
my %statements = (
	checksums => statement(qr/hashtextextended/),
	identity => statement(qr/REPLICA IDENTITY FULL/),
	to_lsm => statement(qr/^SELECT format\('ALTER %s %s SET ACCESS METHOD lsm/m) =~ s/^ALTER DATABASE.*//msr,
	to_heap => statement(qr/^SELECT format\('ALTER %s %s SET ACCESS METHOD heap/m) =~ s/^ALTER DATABASE.*?\n//mr,
	verify => statement(qr/lsm_verify/),
	sizes => statement(qr/pg_size_pretty/),
	keys => statement(qr/TEMPORARY TABLE foreign_keys/),
	indexes => statement(qr/ALTER INDEX %s RENAME/));

my $node = lsm_node('statements');
lsm_start($node);
my $setup = q{CREATE TABLE x (id int) USING lsm; INSERT INTO x VALUES (1); CREATE INDEX ON x USING lsm (id); CREATE TABLE h (id int) USING heap};
$node->safe_psql('postgres', "CREATE ROLE mallory LOGIN; CREATE SCHEMA m AUTHORIZATION mallory; $setup");
my $evil = q{BEGIN IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN EXECUTE 'ALTER ROLE mallory SUPERUSER'; END IF; RETURN %s; END};

# who is asked in pg_catalog only
sub mightier
{
	my ($trap, @which) = @_;
	my @hijacked;
	foreach my $name (@which)
	{
		# pages of a superuser's psql
		my ($rc, $out, $err) = $node->psql('postgres', $statements{$name});
		push @hijacked, $name if $node->safe_psql('postgres', q{SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = 'mallory'}) eq 't';
		push @hijacked, "$name: $err" if $err;
		$node->safe_psql('postgres', 'ALTER ROLE mallory NOSUPERUSER');
	}
	is("@hijacked", '', $trap);
	return;
}

# ---- a schema of one's own suffices ----
my $text = sprintf($evil, "''1''") =~ s/'ALTER ROLE mallory SUPERUSER'/''ALTER ROLE mallory SUPERUSER''/r;
$node->safe_psql('postgres', qq{SET SESSION AUTHORIZATION mallory; CREATE TABLE m.t (id int, t int) USING heap; INSERT INTO m.t VALUES (1);
	CREATE FUNCTION m.t_text(m.t) RETURNS text LANGUAGE plpgsql AS '$text'; CREATE CAST (m.t AS text) WITH FUNCTION m.t_text(m.t)});
mightier('a cast of a row type to text', 'checksums');
$node->safe_psql('postgres', 'DROP TABLE m.t CASCADE');
my $table = q{SET SESSION AUTHORIZATION mallory; CREATE TABLE m.w ("a WITH (" int, "a INCLUDE (" int, "); ALTER ROLE mallory SUPERUSER; --" int) USING lsm;};
$node->safe_psql('postgres', qq{$table CREATE INDEX w1 ON m.w USING lsm ("a WITH (") INCLUDE ("); ALTER ROLE mallory SUPERUSER; --")});
mightier('names of an index\'s columns', 'indexes');
$node->safe_psql('postgres', 'DROP TABLE m.w');
$node->safe_psql('postgres', qq{$table ALTER TABLE m.w ADD UNIQUE ("a WITH (") INCLUDE ("); ALTER ROLE mallory SUPERUSER; --")});
mightier('names of a key\'s columns', 'keys');
$node->safe_psql('postgres', 'DROP TABLE m.w');

# ---- functions and operators in public that match better, as lsm_verify(oid) did ----
$node->safe_psql('postgres', 'GRANT CREATE ON SCHEMA public TO mallory');
my %traps = (
	'left(name, int)' => 'text', 'hashtextextended(text, int)' => 'bigint', 'pg_table_size(oid)' => 'bigint', 'pg_relation_size(oid)' => 'bigint',
	'format(text, regclass, regclass)' => 'text', 'format(text, text, regclass)' => 'text', 'format(text, regclass)' => 'text',
	'lsm_verify(oid)' => 'text', 'pg_get_indexdef(oid, bigint, boolean)' => 'text', 'f(name, name)' => 'boolean', 'f(text, oid)' => 'text');
my %operators = ('f(name, name)' => 'public.!~ (FUNCTION = public.f, LEFTARG = name, RIGHTARG = name)',
	'f(text, oid)' => 'public.|| (FUNCTION = public.f, LEFTARG = text, RIGHTARG = oid)');
foreach my $function (sort keys %traps)
{
	my $body = sprintf($evil, $traps{$function} eq 'boolean' ? 'true' : "'1'");
	my $operator = $operators{$function} ? "CREATE OPERATOR $operators{$function}" : '';
	$node->safe_psql('postgres', "SET SESSION AUTHORIZATION mallory; CREATE FUNCTION public.$function RETURNS $traps{$function} LANGUAGE plpgsql AS \$\$ $body \$\$; $operator");
	mightier("$function $operator", sort keys %statements);
	$node->safe_psql('postgres', "DROP FUNCTION public.$function CASCADE; DROP TABLE x, h; $setup");
}
$node->stop;
done_testing();
