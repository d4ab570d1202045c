# pg_dump and pg_restore of a database that uses everything: what comes back dumps the same again, with
# access methods, storage parameters and rows, in every format.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# keys over text, too: restored as they were
my $node = lsm_node('dump', conf => 'lsm.constraint_index = lsm');
lsm_start($node);
$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template0") foreach 'source', 'plain', 'custom', 'directory', 'inserts';
$node->safe_psql('source', 'CREATE SCHEMA lsmam; CREATE EXTENSION lsmam SCHEMA lsmam');
$node->safe_psql('source', q{
SET client_min_messages = warning;
SET default_table_access_method = lsm;
CREATE TYPE mood AS ENUM ('sad','ok','happy');
CREATE DOMAIN pos AS int CHECK (VALUE > 0);
CREATE TABLE parent(id bigint PRIMARY KEY, code text UNIQUE, m mood, n numeric UNIQUE NULLS NOT DISTINCT, p pos,
  UNIQUE(code, id) INCLUDE (m));
CREATE TABLE child(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  pid bigint REFERENCES parent ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, pcode text REFERENCES parent(code), v text,
  g text GENERATED ALWAYS AS (upper(v)) STORED, d date NOT NULL DEFAULT current_date, CHECK (v <> ''), UNIQUE (v) DEFERRABLE);
CREATE INDEX child_v ON child USING lsm (v) WITH (filter_scheme = bloom, bits_per_key = 12);
CREATE INDEX child_expr ON child USING lsm_index (lower(v), d) WHERE pid IS NOT NULL;
CREATE INDEX child_inc ON child USING lsm_index (d) INCLUDE (v);
CREATE INDEX child_bt ON child (d DESC NULLS LAST, v COLLATE "C");
CREATE INDEX child_brin ON child USING brin (id);
CREATE INDEX child_gin ON child USING gin (to_tsvector('english', v));
CREATE INDEX child_hash ON child USING hash (v);
CREATE TABLE part(id bigint, k int, v text, PRIMARY KEY (id, k)) PARTITION BY RANGE (k);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (10) TO (20) USING heap;
CREATE TABLE part_d PARTITION OF part DEFAULT;
CREATE INDEX part_v ON part USING lsm_index (v);
CREATE INDEX ON ONLY part USING lsm_index (k, v);
CREATE TABLE inh(x int UNIQUE) INHERITS (parent);
CREATE UNLOGGED TABLE unl(id int PRIMARY KEY, a int[], j jsonb);
CREATE MATERIALIZED VIEW mv AS SELECT code, count(*) c FROM parent GROUP BY 1;
CREATE UNIQUE INDEX ON mv USING lsm_index (code);
CREATE TABLE ri(id int PRIMARY KEY, k int NOT NULL);
CREATE UNIQUE INDEX ri_k ON ri USING lsm_index (k);
ALTER TABLE ri REPLICA IDENTITY USING INDEX ri_k;
CREATE TABLE rf(id int PRIMARY KEY, v text);
ALTER TABLE rf REPLICA IDENTITY FULL;
CREATE TABLE ex(id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&));
CREATE TABLE bk(id int, v text);
SET lsm.constraint_index = btree;
ALTER TABLE bk ADD PRIMARY KEY (id);
RESET lsm.constraint_index;
ALTER TABLE bk CLUSTER ON bk_pkey;
CREATE STATISTICS st ON v, d FROM child;
ALTER TABLE child ALTER v SET STATISTICS 500, ALTER v SET STORAGE EXTERNAL;
ALTER TABLE child ENABLE ROW LEVEL SECURITY;
CREATE POLICY pol ON child USING (pid IS NOT NULL);
CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER t1 BEFORE INSERT ON child FOR EACH ROW EXECUTE FUNCTION trg();
CREATE RULE ru AS ON DELETE TO rf DO ALSO NOTHING;
COMMENT ON INDEX child_v IS 'lsm';
ALTER INDEX child_v SET (bits_per_key = 14);
CREATE TABLE hp(id int, v text) USING heap;
CREATE UNIQUE INDEX hp_id ON hp USING lsm_index (id) NULLS NOT DISTINCT;
CREATE INDEX hp_v ON hp USING lsm (v);
INSERT INTO parent SELECT i, 'c' || i, 'ok', i * 1.5, i FROM generate_series(1, 1000) i;
INSERT INTO child(pid, pcode, v) SELECT i, 'c' || i, repeat('word ' || i, 1 + i % 80) FROM generate_series(1, 900) i;
INSERT INTO part SELECT i, i % 30, md5(i::text) FROM generate_series(1, 1000) i;
INSERT INTO inh SELECT i, 'i' || i, 'sad', -i, i, i FROM generate_series(2001, 2100) i;
INSERT INTO unl SELECT i, ARRAY[i, i], '{"a": 1}' FROM generate_series(1, 100) i;
INSERT INTO ri SELECT i, -i FROM generate_series(1, 100) i;
INSERT INTO rf SELECT i, NULL FROM generate_series(1, 100) i;
INSERT INTO ex SELECT i, int4range(i, i + 1) FROM generate_series(1, 100) i;
INSERT INTO bk SELECT i, 'b' FROM generate_series(1, 100) i;
INSERT INTO hp SELECT i, 'h' || i FROM generate_series(1, 1000) i;
REFRESH MATERIALIZED VIEW mv;});

# all of a dump but the random key of \restrict
sub dump_of
{
	my ($db, @options) = @_;
	my ($out, $err) = run_command([ 'pg_dump', @options, $node->connstr($db) ]);
	is($err, '', "pg_dump @options $db");
	return join "\n", grep { !/^\\(un)?restrict / } split /\n/, $out;
}

my $methods = q{SELECT c.oid::regclass::text COLLATE "C", amname, c.reloptions FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE relnamespace = 'public'::regnamespace ORDER BY 1};
my $verify = q{SELECT c.oid::regclass, v.* FROM pg_class c JOIN pg_am a ON a.oid = c.relam, LATERAL lsmam.lsm_verify(c.oid) v
WHERE amname IN ('lsm', 'lsm_index') AND relkind IN ('r', 'm', 'i')};
my $tmp = $PostgreSQL::Test::Utils::tmp_check;
my $plain = dump_of('source');
like($plain, qr/^SET default_table_access_method = lsm;$/m, 'tables say their access method');
like($plain, qr/USING lsm_index \(v\) WITH \(filter_scheme=bloom, bits_per_key='14'\);$/m, 'indexes say theirs');

# which kind of index serves a key is not in a dump: it is chosen again
my $expected = $node->safe_psql('source', $methods);
like($expected, qr/^bk_pkey\|btree\|$/m, 'a key made with lsm.constraint_index = btree');
$expected =~ s/^bk_pkey\|btree/bk_pkey|lsm_index/m;
# since 18 by the partitions: a key that was there before them has stayed lsm_index, but a partition is heap
is(scalar($expected =~ s/^(part(?:_[12d])?_pkey)\|lsm_index/$1|btree/gm), lsm_version() < 18 ? '' : 4, 'keys of partitioned tables');

append_to_file("$tmp/plain.sql", $plain);
append_to_file("$tmp/inserts.sql", dump_of('source', '--rows-per-insert=50', '--on-conflict-do-nothing'));
foreach my $how ('plain', 'inserts')
{
	$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($how), '-f', "$tmp/$how.sql" ], "restored: $how");
}
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$tmp/custom", $node->connstr('source') ], 'pg_dump -Fc');
$node->command_ok([ 'pg_dump', '-Fd', '-j2', '-f', "$tmp/directory", $node->connstr('source') ], 'pg_dump -Fd -j2');
foreach my $how ('custom', 'directory')
{
	$node->command_ok([ 'pg_restore', '-e', $how eq 'custom' ? '-1' : '-j2', '-d', $node->connstr($how), "$tmp/$how" ], "restored: $how");
}

foreach my $how ('plain', 'inserts', 'custom', 'directory')
{
	# parallel restore makes objects in another order, and with them pg_dump lists a few in another
	ok(join("\n", sort split /\n/, dump_of($how)) eq join("\n", sort split /\n/, $plain), "$how: dumps the same again");
	is($node->safe_psql($how, $methods), $expected, "$how: access methods");
	is($node->safe_psql($how, $verify), '', "$how: lsm_verify");
}

# lsm.default_index: made under either setting and restored under either, the same indexes
my $tables = q{
CREATE TABLE d (id int, v text, w text COLLATE "C", r int4range) USING lsm;
CREATE INDEX d_plain ON d (v);
CREATE UNIQUE INDEX d_unique ON d (id DESC) INCLUDE (v) WHERE id > 0;
CREATE INDEX d_expression ON d (lower(v), w);
CREATE INDEX d_btree ON d USING btree (v);
CREATE INDEX d_lsm ON d USING lsm (v);
CREATE INDEX d_gist ON d USING gist (r);
CREATE TABLE d_heap (id int) USING heap;
CREATE INDEX d_heap_id ON d_heap (id);
CREATE TABLE d_part (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE d_part_1 PARTITION OF d_part FOR VALUES FROM (0) TO (1000) USING lsm;
CREATE INDEX d_part_1_v ON d_part_1 (v);
INSERT INTO d SELECT i, 'v' || i, 'w' || i, int4range(i, i + 3) FROM generate_series(1, 300) i;
INSERT INTO d_part SELECT i, 'v' || i FROM generate_series(1, 300) i};
sub make_database
{
	my ($db, $setting) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0");
	$node->safe_psql('postgres', "ALTER DATABASE $db SET lsm.default_index = $setting");
	return;
}
foreach my $made ('btree', 'lsm')
{
	make_database("made_$made", $made);
	$node->safe_psql("made_$made", "CREATE EXTENSION lsmam; $tables");
	my $indexes = $node->safe_psql("made_$made", $methods);
	my $kind = $made eq 'lsm' ? 'lsm_index' : 'btree';
	like($indexes, qr/^$_\|$kind\|$/m, "$made: $_") foreach qw(d_plain d_unique d_expression d_part_1_v);
	like($indexes, qr/^$_$/m, "$made: $_") foreach 'd_btree\|btree\|', 'd_lsm\|lsm_index\|', 'd_heap_id\|btree\|';
	my $dump = dump_of("made_$made");
	append_to_file("$tmp/made_$made.sql", $dump);
	$node->command_ok([ 'pg_dump', '-Fc', '-f', "$tmp/made_$made", $node->connstr("made_$made") ], "$made: pg_dump -Fc");
	foreach my $setting ('btree', 'lsm')
	{
		my $db = "${made}_in_$setting";
		make_database($_, $setting) foreach $db, "${db}_c";
		$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($db), '-f', "$tmp/made_$made.sql" ], "$db: restored by psql");
		$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr("${db}_c"), "$tmp/made_$made" ], "$db: restored by pg_restore");
		foreach my $restored ($db, "${db}_c")
		{
			is($node->safe_psql($restored, $methods), $indexes, "$restored: the same indexes");
			is(dump_of($restored), $dump, "$restored: dumps the same again");
			is($node->safe_psql($restored, $verify =~ s/lsmam\.//r), '', "$restored: lsm_verify");
		}
	}
}

done_testing();
