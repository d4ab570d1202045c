# A schema "trap" in which a role has made operators, functions, types and tables with the names that the
# extension's scripts use, and what the extension depends on afterwards.
package LsmTrap;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(lsm_lay_traps lsm_foreign_dependencies);

# REQUIRES: schema trap, owned by the role.
sub lsm_lay_traps
{
	my ($node, $db, $role) = @_;

	# every name of an operator, a function or a type in the script
	my $extensions = `pg_config --sharedir` =~ s/\s+\z//r . '/extension';
	my $script = join '', map { slurp_file($_) } sort glob "$extensions/lsmam--*.sql";
	$script =~ s{/\*.*?\*/}{}sg;
	$script =~ s/^\s*--.*$//mg;
	$script =~ s/'(?:[^']|'')*'//g;
	my (%function, %operator, %type);
	$function{ lc $1 } = 1 while $script =~ /\b([a-z_0-9]+)\s*\(/gi;
	$operator{$_} = 1 foreach $script =~ /(?<![\w.])([-+*\/<>=~!@#%^&|`?]+)/g;
	$operator{$_} = 1 foreach $script =~ /pg_catalog\.([-+*\/<>=~!@#%^&|`?]+)/g;
	$type{$_} = 1 foreach qw(internal regclass void record xid oid bytea text name int4 int8 float8 bool table_am_handler index_am_handler numeric);
	$type{$1} = 1 while $script =~ /pg_catalog\.([a-z_0-9]+)/g;
	my %own = map { $_ => 1 } $script =~ /CREATE FUNCTION (\w+)/g;
	my @names = grep { /^[a-z]/ && $_ !~ /^(as|in|on|values|and|or|operator|returns|by)$/ } sort keys %function;
	note("functions: @names");
	note('operators: ' . join(' ', sort keys %operator));
	my $sql = qq{SET ROLE $role;
CREATE TABLE trap.ran (what text, who name); GRANT ALL ON trap.ran TO PUBLIC;
CREATE FUNCTION trap.sprung(text) RETURNS void LANGUAGE sql VOLATILE AS \$\$ INSERT INTO trap.ran VALUES (\$1, current_user) \$\$;
};
	my @types = qw(oid int4 int8 name text bool float8 xid regclass);
	foreach my $operator (sort keys %operator)
	{
		my $n = 0;
		foreach my $left (@types, 'anyelement')
		{
			foreach my $right (@types, 'anyelement')
			{
				next if ($left eq 'anyelement') != ($right eq 'anyelement');
				my $f = 'op_' . join('_', map { ord } split //, $operator) . '_' . $n++;
				$sql .= "CREATE FUNCTION trap.$f($left, $right) RETURNS bool LANGUAGE plpgsql AS \$\$ BEGIN PERFORM trap.sprung('$operator ($left, $right)'); RETURN true; END \$\$;
CREATE OPERATOR trap.$operator (LEFTARG = $left, RIGHTARG = $right, FUNCTION = trap.$f);\n";
			}
		}
	}
	foreach my $function (@names)
	{
		# those that the script makes must not be there yet
		my @arguments = $own{$function} ? ('int4', $function eq 'lsm_text_code' ? 'name' : 'text', 'anyelement, anyelement', 'VARIADIC anyarray') : ('', 'anyelement', 'oid, int4', 'name, text', 'anyelement, anyelement', 'VARIADIC anyarray');
		foreach my $arguments (@arguments)
		{
			my $returns = $arguments =~ /anyelement/ ? 'anyelement' : $arguments =~ /anyarray/ ? 'anyelement' : 'int4';
			$sql .= qq{CREATE FUNCTION trap."$function"($arguments) RETURNS $returns LANGUAGE plpgsql AS \$\$ BEGIN PERFORM trap.sprung('$function($arguments)'); RETURN NULL; END \$\$;\n};
		}
	}
	$sql .= qq{CREATE TYPE trap."$_" AS (hostile int);\n} foreach sort grep { $_ !~ /^pg_/ } keys %type;
	$sql .= qq{CREATE TABLE trap.$_ (oid oid, relname name, amname name, relam oid, relfilenode oid, reltablespace oid, datname name, dattablespace oid);\n} foreach qw(pg_class pg_am pg_database);
	my ($rc, $out, $err) = $node->psql($db, $sql, on_error_stop => 0);
	my @failed = $err =~ /ERROR:\s+(.*)/g;
	note("not made: $_") foreach @failed;
	my $made = $node->safe_psql($db, q{SELECT count(*) FROM pg_operator WHERE oprnamespace = 'trap'::regnamespace});
	ok($made >= 82 * keys(%operator), "$made hostile operators are there");
	$made = $node->safe_psql($db, q{SELECT count(DISTINCT proname) FROM pg_proc WHERE pronamespace = 'trap'::regnamespace});
	ok($made >= @names, "$made hostile functions are there");
	return;
}

# Objects that are neither pg_catalog's nor the extension's own, one per line
sub lsm_foreign_dependencies
{
	my ($node, $db) = @_;
	return $node->safe_psql($db, q{
SELECT DISTINCT pg_describe_object(d.refclassid, d.refobjid, 0)
FROM pg_depend e JOIN pg_depend d ON (d.classid, d.objid) = (e.classid, e.objid)
	OR d.classid = 'pg_rewrite'::regclass AND e.classid = 'pg_class'::regclass AND d.objid IN (SELECT oid FROM pg_rewrite WHERE ev_class = e.objid)
WHERE e.deptype = 'e' AND e.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'lsmam')
	AND d.refclassid <> 'pg_extension'::regclass AND d.refclassid <> 'pg_namespace'::regclass AND d.refobjid >= 16384
	AND NOT EXISTS (SELECT FROM pg_depend m WHERE m.deptype = 'e' AND (m.classid, m.objid, m.refobjid) = (d.refclassid, d.refobjid, e.refobjid))});
}

1;
