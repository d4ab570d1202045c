# ALTER EXTENSION lsmam UPDATE: an upgraded database has what a new one has; the new library serves a database that
# has not been updated; dumps of the old version; who may update; objects of others in the extension's schema.
# tier: check
use strict;
use warnings;
use LsmTest;
use LsmTrap;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('update');
$node->start;
$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template0") foreach qw(new old restored rolled hostile);
$node->safe_psql('postgres', 'CREATE ROLE nobody LOGIN; CREATE ROLE app LOGIN; CREATE ROLE monitor LOGIN IN ROLE pg_monitor');
my ($default) = $node->safe_psql('postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'lsmam'});
my $version = q{SELECT extversion FROM pg_extension WHERE extname = 'lsmam'};
isnt($default, '1.0', "the default version is $default");

# Everything that the catalogs say about the extension's members, in words: definitions, privileges (and those that a
# dump takes for granted), comments, owners, columns, dependencies.
my $members = q{
WITH m AS (SELECT classid, objid FROM pg_depend WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'lsmam')),
r AS (SELECT classid, objid FROM m UNION ALL SELECT 'pg_rewrite'::regclass, w.oid FROM pg_rewrite w JOIN m ON m.classid = 'pg_class'::regclass AND m.objid = w.ev_class)
SELECT 'member', pg_describe_object(classid, objid, 0), i.type, i.identity, obj_description(objid, classid::regclass::name) FROM m, pg_identify_object(classid, objid, 0) i
UNION ALL SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid), p.proowner::regrole::text, p.proacl::text FROM pg_proc p JOIN m ON m.objid = p.oid AND m.classid = 'pg_proc'::regclass AND prokind = 'f'
UNION ALL SELECT 'relation', c.oid::regclass::text, pg_get_viewdef(c.oid), c.relowner::regrole::text, concat(c.relacl::text, c.reloptions, c.relkind) FROM pg_class c JOIN m ON m.objid = c.oid AND m.classid = 'pg_class'::regclass
UNION ALL SELECT 'column', attrelid::regclass::text, concat(attnum, attname), format_type(atttypid, atttypmod), concat(attacl, col_description(attrelid, attnum)) FROM pg_attribute JOIN m ON objid = attrelid AND classid = 'pg_class'::regclass
UNION ALL SELECT 'initial', pg_describe_object(i.classoid, i.objoid, i.objsubid), i.privtype::text, i.initprivs::text, NULL FROM pg_init_privs i JOIN m ON (i.classoid, i.objoid) = (m.classid, m.objid)
UNION ALL SELECT 'depends', pg_describe_object(d.classid, d.objid, d.objsubid), pg_describe_object(refclassid, refobjid, refobjsubid), deptype::text, NULL FROM pg_depend d JOIN r USING (classid, objid)
UNION ALL SELECT 'dependent', pg_describe_object(d.classid, d.objid, d.objsubid), pg_describe_object(refclassid, refobjid, refobjsubid), deptype::text, NULL FROM pg_depend d JOIN m ON (m.classid, m.objid) = (refclassid, refobjid)
UNION ALL SELECT 'family', pg_describe_object('pg_amop'::regclass, a.oid, 0), NULL, NULL, NULL FROM pg_amop a JOIN pg_am ON pg_am.oid = amopmethod WHERE amname = 'lsm_index'
UNION ALL SELECT 'family', pg_describe_object('pg_amproc'::regclass, a.oid, 0), NULL, NULL, NULL FROM pg_amproc a JOIN m ON m.objid = amprocfamily AND m.classid = 'pg_opfamily'::regclass
UNION ALL SELECT 'extension', extname, extversion, extowner::regrole::text, extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'lsmam'
ORDER BY 1, 2, 3, 4, 5};

# all of a dump but the random key of \restrict
sub dump_of
{
	my ($db, @options) = @_;
	my ($out, $err) = run_command([ 'pg_dump', @options, $node->connstr($db) ]);
	is($err, '', "pg_dump @options $db");
	return join "\n", grep { !/^\\(un)?restrict / } split /\n/, $out;
}

# SQLSTATE of the first error, or 'ok'
sub answer
{
	my ($db, $role, $sql) = @_;
	my ($rc, $out, $err) = $node->psql($db, "SET ROLE $role; $sql", extra_params => [ '-v', 'VERBOSITY=verbose' ], on_error_stop => 1);
	return $rc == 0 ? 'ok' : $err =~ /ERROR:\s+(\S+):/ ? $1 : $err;
}

my $tables = q{
CREATE TABLE t (id int PRIMARY KEY, v text, w text UNIQUE) USING lsm;
CREATE INDEX t_v ON t USING lsm (v) WITH (filter_scheme = bloom);
CREATE TABLE h (id int) USING heap;
CREATE INDEX h_id ON h USING lsm_index (id);
INSERT INTO t SELECT i, 'v' || i, 'w' || i FROM generate_series(1, 3000) i;
INSERT INTO h SELECT generate_series(1, 3000);
CREATE VIEW mine AS SELECT * FROM pg_stat_lsm;
CREATE VIEW mine_sums AS SELECT kind, sum(lookups) AS lookups, max(stall_ms) AS stalls FROM pg_stat_lsm GROUP BY kind;
CREATE VIEW mine_trees AS SELECT count(*) FROM lsm_stat_trees();
CREATE MATERIALIZED VIEW kept AS SELECT relname, kind FROM pg_stat_lsm;
GRANT SELECT ON mine_sums TO app;
REVOKE SELECT ON pg_stat_lsm FROM PUBLIC; GRANT SELECT ON pg_stat_lsm TO app;
GRANT EXECUTE ON FUNCTION pg_stat_lsm_reset() TO app;
};

# ---- the new library and the old version's objects ----

my @calls = map { [$_, 'ok'] } (
	"lsm_flush('t')", "lsm_flush('h_id')", "lsm_compact('t')", "lsm_relation_size('t')", "lsm_table_size('t')", "lsm_indexes_size('t')",
	"lsm_total_relation_size('t')", 'lsm_sizes', 'lsm_schema_sizes', "lsm_levels('t')", "lsm_files('t_v')", "lsm_filters('t_v')",
	"lsm_verify('t')", "lsm_verify('h')", 'lsm_full_version()', 'lsm_stat_trees()', 'pg_stat_lsm', 'lsm_elastic_stats()', 'pg_stat_lsm_reset()',
	q{lsm_text_code('a' COLLATE "C")}, q{lsm_row_bound(1, 2, '<=(int4,int4)'::regoperator)}, q{lsm_row_bound_leakproof(1, 2, '<=(int4,int4)'::regoperator)});
# it is SQL by now, which the old objects do not have
push @calls, ["lsm_advise('t')", '0A000'];
sub call_all
{
	my ($db, $when) = @_;
	foreach (@calls)
	{
		my ($call, $expected) = @$_;
		$call =~ s/^lsm_row_bound/lsmam_row_bound/ if $when eq 'after the update';
		$expected = 'ok' if $when eq 'after the update';
		is(answer($db, 'postgres', "SELECT * FROM $call"), $expected, "$when: $call");
	}
	# the two that only PostgreSQL calls, and the handlers
	my $called = join '|', 'lsm_\w+_handler', 'lsm_row_bound_support', map { $_->[0] =~ /^(\w+)/ } @calls;
	return $node->safe_psql($db, "SELECT string_agg(p.proname, ' ') FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'lsmam') AND p.proname !~ '^($called)\$'");
}

$node->safe_psql('old', "CREATE EXTENSION lsmam VERSION '1.0'; $tables");
is($node->safe_psql('old', $version), '1.0', 'a database with version 1.0');
is(call_all('old', 'before the update'), '', 'no function of 1.0 was left out');
is($node->safe_psql('old', 'SELECT count(*) FROM t WHERE id = 5 AND v = \'v5\''), '1', 'queries');
my $columns = q{SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'pg_stat_lsm'::regclass AND attnum > 0};
my $old_columns = $node->safe_psql('old', $columns);
my $old_dump = dump_of('old', '--schema-only');
my $definition = "SELECT pg_get_viewdef('mine'), pg_get_viewdef('mine_sums')";
my $mine = $node->safe_psql('old', $definition);

# ---- a dump of the old version restored where the new one is the default ----

like($old_dump, qr/^CREATE EXTENSION IF NOT EXISTS lsmam WITH SCHEMA public;$/m, 'the dump does not say which version');
my $tmp = $PostgreSQL::Test::Utils::tmp_check;
append_to_file("$tmp/old.sql", dump_of('old'));
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', "$tmp/old.sql" ], 'restored');
is($node->safe_psql('restored', $version), $default, 'as the default version');
is($node->safe_psql('restored', $definition), $mine, 'views over pg_stat_lsm are as they were');
is($node->safe_psql('restored', 'SELECT count(*), sum(id) FROM t'), '3000|4501500', 'and the rows');
is($node->safe_psql('restored', q{SELECT * FROM lsm_verify('t')}), '', 'lsm_verify');
is(dump_of('restored', '--schema-only'), $old_dump, 'dumps the same again');

# ---- rolled back ----

$node->safe_psql('rolled', "CREATE EXTENSION lsmam VERSION '1.0'; CREATE TABLE t (id int) USING lsm; CREATE VIEW mine AS SELECT * FROM pg_stat_lsm");
my $before = $node->safe_psql('rolled', $members);
my $inside = $node->safe_psql('rolled', "BEGIN; ALTER EXTENSION lsmam UPDATE; $version; SELECT count(*) > 0 FROM pg_stat_lsm; ROLLBACK; $version; SELECT count(*) > 0 FROM pg_stat_lsm");
is($inside, "$default\nt\n1.0\nt", 'updated, used, rolled back');
is($node->safe_psql('rolled', $members), $before, 'the catalogs are as before');
$node->safe_psql('rolled', "BEGIN; SAVEPOINT s; ALTER EXTENSION lsmam UPDATE; ROLLBACK TO s; ALTER EXTENSION lsmam UPDATE; COMMIT");
is($node->safe_psql('rolled', $version), $default, 'a second attempt in the same transaction');

# ---- rights ----

foreach my $role (qw(nobody app monitor))
{
	is(answer('old', $role, 'ALTER EXTENSION lsmam UPDATE'), '42501', "$role may not update");
}
$node->safe_psql('old', 'GRANT CREATE ON SCHEMA public TO nobody; GRANT CREATE ON DATABASE old TO nobody');
is(answer('old', 'nobody', "ALTER EXTENSION lsmam UPDATE TO '$default'"), '42501', 'nor with CREATE on schema and database');
$node->safe_psql('old', 'REVOKE CREATE ON SCHEMA public FROM nobody; REVOKE CREATE ON DATABASE old FROM nobody');
is($node->safe_psql('old', $version), '1.0', 'nothing has changed');

# ---- the update ----

# a session that has used the old objects goes on
my $session = $node->background_psql('old');
$session->query_safe("PREPARE p AS SELECT count(*) > 3 FROM pg_stat_lsm; SELECT * FROM mine_sums");
is($session->query_safe('EXECUTE p'), 't', 'a prepared statement');
$node->safe_psql('old', 'ALTER EXTENSION lsmam UPDATE');
is($node->safe_psql('old', $version), $default, 'updated');
is($session->query_safe('EXECUTE p; SELECT count(*) FROM mine_trees'), "t\n1", 'the session goes on');
$session->quit;
is($node->safe_psql('old', $definition), $mine, 'views over pg_stat_lsm are as they were');
like($node->safe_psql('old', $columns), qr/^\Q$old_columns\E( |$)/, 'columns of pg_stat_lsm keep their places');
call_all('old', 'after the update');
is($node->safe_psql('old', q{SELECT count(*) FROM mine}), '5', 'a view over pg_stat_lsm');
is(answer('old', 'app', 'SELECT * FROM mine_sums'), 'ok', 'with the privileges that were granted');
is(answer('old', 'app', 'SELECT * FROM pg_stat_lsm; SELECT pg_stat_lsm_reset()'), 'ok', 'privileges on pg_stat_lsm and the reset are kept');
is(answer('old', 'nobody', 'SELECT * FROM pg_stat_lsm'), '42501', 'and so is what was revoked');
$node->safe_psql('old', 'REFRESH MATERIALIZED VIEW kept; INSERT INTO t SELECT i, i, i FROM generate_series(3001, 4000) i');
is($node->safe_psql('old', q{SELECT count(*) FROM t UNION ALL SELECT count(*) FROM kept}), "4000\n5", 'and the rest');
is($node->safe_psql('old', q{SELECT * FROM lsm_verify('t')}), '', 'lsm_verify');

is($node->safe_psql('old', q{SELECT string_agg(DISTINCT proname, ' ' ORDER BY proname) FROM pg_proc WHERE proname LIKE 'lsm\_%' AND proname <> 'lsm_stat_trees'
AND (proname ~ 'handler|support|bound|stats$|progress' OR prorettype = 'internal'::regtype)}), 'lsm_elastic_stats', 'what only PostgreSQL calls is out of the way of \df lsm_*');

# the same user's objects in a new database, and the catalogs
# (a star has become columns when the view was made)
(my $named = $old_columns) =~ s/ /, /g;
$node->safe_psql('new', 'CREATE EXTENSION lsmam; ' . $tables =~ s/SELECT \* FROM pg_stat_lsm/SELECT $named FROM pg_stat_lsm/r);
is($node->safe_psql('new', $version), $default, 'a new database');
is(dump_of('old', '--schema-only'), dump_of('new', '--schema-only'), 'upgraded and new database dump the same');
my @of = map { $node->safe_psql($_, $members) } qw(old new);
cmp_ok(scalar(split /\n/, $of[0]), '>', 300, 'the catalogs say much about the extension');
ok($of[0] eq $of[1], 'and the same of both databases') or do {
	my %in;
	for my $i (0, 1) { $in{$_} += $i ? -1 : 1 foreach split /\n/, $of[$i]; }
	diag(($in{$_} > 0 ? 'upgraded: ' : 'new: ') . $_) foreach grep { $in{$_} } sort keys %in;
};
is(answer('old', 'postgres', "ALTER EXTENSION lsmam UPDATE TO '1.0'"), '22023', 'there is no way back');
is(answer('old', 'postgres', 'ALTER EXTENSION lsmam UPDATE'), 'ok', 'nothing to be done');

# ---- objects of others in the extension's schema ----

$node->safe_psql('hostile', q{CREATE SCHEMA trap AUTHORIZATION nobody; GRANT USAGE ON SCHEMA trap TO PUBLIC; CREATE EXTENSION lsmam VERSION '1.0' SCHEMA trap});
lsm_lay_traps($node, 'hostile', 'nobody');
$node->safe_psql('hostile', 'TRUNCATE trap.ran');
foreach my $how ('ALTER EXTENSION lsmam UPDATE', 'SET search_path = trap, pg_catalog, public; ALTER EXTENSION lsmam UPDATE')
{
	$node->safe_psql('hostile', "BEGIN; $how; ROLLBACK");
	is($node->safe_psql('hostile', 'SELECT DISTINCT what, who FROM trap.ran'), '', "$how, rolled back: nothing of the hostile code ran");
}
$node->safe_psql('hostile', 'ALTER EXTENSION lsmam UPDATE');
is(lsm_foreign_dependencies($node, 'hostile'), '', 'the extension depends on nothing that is not pg_catalog\'s or its own');
$node->safe_psql('hostile', 'CREATE TABLE t (id int PRIMARY KEY) USING lsm; INSERT INTO t SELECT generate_series(1, 10)');
my @views = split /\n/, $node->safe_psql('hostile', q{SELECT c.oid::regclass FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e' WHERE relkind = 'v' ORDER BY 1});
foreach my $view (@views)
{
	is(answer('hostile', 'postgres', "SELECT * FROM $view"), 'ok', "$view");
}
is(answer('hostile', 'postgres', $_), 'ok', $_) foreach q{SELECT * FROM trap.lsm_advise('t'::regclass)}, q{SELECT trap.lsm_report(ARRAY['t'::regclass])};
is($node->safe_psql('hostile', 'SELECT DISTINCT what, who FROM trap.ran'), '', 'nothing of the hostile code ran');

# what the script is to make is there already: refused, and nothing of it is taken over
my $made = $node->safe_psql('new', q{SELECT string_agg(p.oid::regprocedure::text, ';') FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e' AND d.classid = 'pg_proc'::regclass}) . ';';
$made =~ s/\Q$_\E;// foreach split /\n/, $node->safe_psql('postgres', q{CREATE EXTENSION lsmam VERSION '1.0'; SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e' AND d.classid = 'pg_proc'::regclass});
# (only superusers make functions that take these types)
foreach my $function (grep { !/internal|"any"/ } split /;/, $made)
{
	$node->safe_psql('hostile', q{DROP TABLE IF EXISTS t; DROP EXTENSION lsmam; CREATE EXTENSION lsmam VERSION '1.0' SCHEMA trap});
	$node->safe_psql('hostile', "SET ROLE nobody; CREATE FUNCTION trap.$function RETURNS int LANGUAGE plpgsql AS \$\$ BEGIN PERFORM trap.sprung('made'); RETURN 1; END \$\$");
	isnt(answer('hostile', 'postgres', 'ALTER EXTENSION lsmam UPDATE'), 'ok', "a function $function in the way");
	is($node->safe_psql('hostile', $version), '1.0', '... the version stays');
	$node->safe_psql('hostile', "SELECT * FROM trap.pg_stat_lsm; DROP FUNCTION trap.$function");
}
is($node->safe_psql('hostile', 'SELECT DISTINCT what, who FROM trap.ran'), '', 'nothing of the hostile code ran');

$node->stop;
done_testing();
