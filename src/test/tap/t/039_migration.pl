# docs/migration.md, word for word: its blocks of sh and sql are run in their order, against a database with pgbench's
# tables and others of every kind; what the page says of each section is looked at when its blocks have run.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Basename;
use POSIX ();

my $page = $ENV{LSM_DOCS} // dirname(__FILE__) . '/../../../../docs';
my $node = lsm_node('migration', conf => "autovacuum = off\nfsync = off");
lsm_start($node);
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;
my $work = PostgreSQL::Test::Utils::tempdir();

# ---- the database of the page ----
$node->safe_psql('postgres', 'CREATE DATABASE app');
$node->command_ok([ 'pgbench', '-i', '-q', '-s', 1, 'app' ], 'pgbench -i');
$node->command_ok([ 'pgbench', '-n', '-t', 50, 'app' ], 'pgbench');
$node->safe_psql('app', q{
CREATE SCHEMA shop;
CREATE TYPE shop.state AS ENUM ('new', 'paid', 'sent');
CREATE DOMAIN shop.cents AS int CHECK (VALUE >= 0);
CREATE TABLE customers (id uuid PRIMARY KEY, mail text NOT NULL UNIQUE, country char(2) COLLATE "C", tags text[], profile jsonb, photo bytea, since date, UNIQUE (country, id));
ALTER TABLE customers ALTER photo SET STORAGE EXTERNAL;
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer uuid NOT NULL REFERENCES customers ON DELETE CASCADE, placed timestamptz, memo text, state shop.state,
  amounts numeric[], total shop.cents, doubled int GENERATED ALWAYS AS (total * 2) STORED);
CREATE INDEX orders_placed ON orders (placed);
CREATE INDEX orders_open ON orders (customer, lower(memo)) WHERE state <> 'sent';
CREATE TABLE lines (o bigint REFERENCES orders, n int, sku text, note text, PRIMARY KEY (o, n), UNIQUE (sku, o, n) DEFERRABLE);
CREATE TABLE events (at date, id serial, kind text, body jsonb, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-07-01');
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2026-07-01') TO ('2027-01-01') PARTITION BY RANGE (at);
CREATE TABLE events_2a PARTITION OF events_2 FOR VALUES FROM ('2026-07-01') TO ('2026-10-01');
CREATE TABLE events_2b PARTITION OF events_2 DEFAULT;
CREATE INDEX events_kind ON events (kind);
CREATE TABLE shop."Odd Name" ("k K" int PRIMARY KEY, v text) WITH (fillfactor = 80);
CREATE UNLOGGED TABLE shop.cache (k text PRIMARY KEY, v jsonb);
CREATE TABLE shop.parent (id int UNIQUE); CREATE TABLE shop.child (x int) INHERITS (shop.parent);
CREATE MATERIALIZED VIEW per_country AS SELECT country, count(*) FROM customers GROUP BY 1;
CREATE UNIQUE INDEX ON per_country (country);
CREATE VIEW shop.late AS SELECT id, placed, total FROM orders GROUP BY id;
CREATE SEQUENCE shop.numbers START 1000;
CREATE FUNCTION shop.touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER touch BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION shop.touch();
INSERT INTO customers SELECT md5(g::text)::uuid, 'user' || g || '@example.org', (ARRAY['de','fr','at'])[1 + g % 3], ARRAY['a', 'b' || g], jsonb_build_object('n', g, 'x', repeat('x', g)),
  CASE WHEN g % 50 = 0 THEN convert_to(repeat('photo', 1000), 'UTF8') END, '2026-01-01'::date + g FROM generate_series(1, 300) g;
INSERT INTO orders (customer, placed, memo, state, amounts, total) SELECT md5((1 + g % 300)::text)::uuid, '2026-01-01'::timestamptz + g * interval '1 hour', 'Memo ' || g % 7, (ARRAY['new', 'paid', 'sent'])[1 + g % 3]::shop.state, ARRAY[g, g / 3.0], g
  FROM generate_series(1, 3000) g;
INSERT INTO lines SELECT o, n, 'sku' || (o + n) % 100, CASE n WHEN 1 THEN NULL ELSE 'note ' || o END FROM generate_series(1, 3000) o, generate_series(1, 3) n;
INSERT INTO events (at, kind, body) SELECT '2026-01-01'::date + g % 365, (ARRAY['click', 'view', 'buy'])[1 + g % 3], jsonb_build_object('g', g) FROM generate_series(1, 3000) g;
INSERT INTO shop."Odd Name" SELECT g, 'v' || g FROM generate_series(1, 50) g;
INSERT INTO shop.cache SELECT 'k' || g, '{}' FROM generate_series(1, 50) g;
INSERT INTO shop.parent VALUES (1), (2); INSERT INTO shop.child VALUES (3, 3);
REFRESH MATERIALIZED VIEW per_country;
SELECT nextval('shop.numbers') FROM generate_series(1, 7)});

my $user_relations = q{FROM pg_class c JOIN pg_am a ON a.oid = c.relam JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname IN ('public', 'shop')};
sub methods_of
{
	my ($db, $kinds) = @_;
	return $node->safe_psql($db, "SELECT string_agg(DISTINCT amname, ',' ORDER BY amname) $user_relations AND relkind IN ($kinds)");
}
sub method_of
{
	my ($db, $relation) = @_;
	return $node->safe_psql($db, "SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = '$relation'::regclass");
}
sub dump_text
{
	my ($db, @options) = @_;
	my ($out, $err) = run_command([ 'pg_dump', @options, $node->connstr($db) ]);
	is($err, '', "pg_dump @options $db");
	return $out;
}
# definitions, but for which kind of index serves what
sub definitions_of
{
	my ($db) = @_;
	return join "\n", sort map { s/ USING (btree|lsm_index) / /r } grep { !/^\\(un)?restrict |^SET default_table_access_method|^CREATE EXTENSION|^COMMENT ON EXTENSION|^--|^$/ }
	  split /\n/, dump_text($db, '--schema-only');
}
my $definitions = definitions_of('app');
sub checksums_of
{
	my ($db) = @_;
	my ($out, $err) = run_command([ 'psql', '-XAtq', '-f', "$work/checksums.sql", $node->connstr($db) ]);
	is($err, '', "checksums of $db");
	return "$out\n";
}

# ---- what is looked at behind a section ----
my %behind = (
	'What a dump says' => sub {
		ok(-s "$work/app.before", 'checksums of the old database');
		my @lines = split /\n/, slurp_file("$work/app.before");
		is(scalar(grep { /^(public\.(orders|events_2a|per_country|pgbench_accounts)|shop\."Odd Name"|shop\.cache)\|\d+\|/ } @lines), 6, 'of tables of each kind');
		like(dump_text('app'), qr/^SET default_table_access_method = heap;$/m, 'a dump of heap tables says heap');
		unlike(dump_text('app', '--no-table-access-method'), qr/default_table_access_method/, '... or nothing');

		# neither in the text format nor in an archive can the default overrule it
		$node->safe_psql('postgres', "CREATE DATABASE $_; ALTER DATABASE $_ SET default_table_access_method = lsm") foreach qw(stays_text stays_archive);
		$node->safe_psql($_, 'CREATE EXTENSION lsmam') foreach qw(stays_text stays_archive);
		append_to_file("$work/stays.sql", dump_text('app'));
		$node->command_ok([ 'psql', '-Xq', '-o', '/dev/null', '-f', "$work/stays.sql", $node->connstr('stays_text') ], 'restored as it is');
		$node->command_ok([ 'pg_dump', '-Fc', '--no-table-access-method', '-f', "$work/stays.dump", $node->connstr('app') ], 'an archive');
		$node->command_ok([ 'pg_restore', '-d', $node->connstr('stays_archive'), "$work/stays.dump" ], 'restored without the option');
		is(methods_of($_, "'r','m'"), 'heap', "$_: heap stays heap") foreach qw(stays_text stays_archive);
	},
	'A new database' => sub {
		foreach my $db ('app_lsm', 'app_lsm2')
		{
			is(methods_of($db, "'r','m'"), 'lsm', "$db: all tables are lsm");
			is(method_of($db, 'pgbench_accounts_pkey'), 'lsm_index', "$db: a key");
			is(method_of($db, 'customers_mail_key'), 'lsm_index', "$db: a key over text");
			# core takes other access methods than btree there since 18
			my $for_core = $node->pg_version < 18 ? 'btree' : 'lsm_index';
			is(method_of($db, 'orders_pkey'), $for_core, "$db: a key that is referenced");
			is(method_of($db, 'events_1_pkey'), $for_core, "$db: a key of a partition");
			is(method_of($db, 'orders_placed'), 'btree', "$db: an index");
			is(definitions_of($db), $definitions, "$db: the same definitions");
		}
		my $dump = dump_text('app_lsm');
		like($dump, qr/^SET default_table_access_method = lsm;$/m, 'a dump of lsm tables says lsm');
		unlike($dump, qr/^CREATE (UNLOGGED )?TABLE[^;]*USING/m, '... and not with USING');
		is(checksums_of('app_lsm2'), slurp_file("$work/app.before"), 'app_lsm2: the same rows');
		is($node->safe_psql('app', 'SELECT count(*) FROM pgbench_accounts'), 100000, 'names are as before');
		# the check can fail
		$node->safe_psql('app_lsm2', q{UPDATE orders SET total = total + 1 WHERE id = 42});
		isnt(checksums_of('app_lsm2'), slurp_file("$work/app.before"), 'a changed row is noticed');
	},
	'Checks' => sub {
		my (undef, $verified, $sizes) = @_;
		like($verified, qr/\(0 rows\)/, 'lsm_verify finds nothing');
		like($sizes, qr/pgbench_accounts\s*\|\s*r\s*\|\s*lsm\s*\|\s*\d+ [kM]B/, 'sizes');
	},
	'pgcopydb' => sub {
		is(methods_of('app_copy', "'r','m'"), 'heap', 'pgcopydb: heap stays heap');
		# it leaves the rows of unlogged tables out
		my ($copied, $before) = map { s/^shop\.cache\|.*\n//mr } checksums_of('app_copy'), slurp_file("$work/app.before");
		is($copied, $before, 'pgcopydb: the same rows');
	},
	'In place' => sub {
		my @outputs = @_;
		is(methods_of('app', "'r','m'"), 'lsm', 'in place: all tables are lsm');
		is(method_of('app', 'pgbench_accounts_pkey'), 'lsm_index', 'a key that was made again');
		is(method_of('app', 'pgbench_tellers_pkey'), 'btree', 'one that was not');
		is(method_of('app', 'orders_placed'), 'lsm_index', 'an index that was replaced');
		is(definitions_of('app'), $definitions, 'in place: the same definitions');
		is($node->safe_psql('app', q{CREATE TABLE events_3 PARTITION OF events FOR VALUES FROM ('2027-01-01') TO ('2028-01-01'); REFRESH MATERIALIZED VIEW per_country;
SELECT count(DISTINCT relam), max(amname) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname IN ('events_3', 'per_country')}), '1|lsm', 'a new partition, a refreshed view');
		my ($rc, $out, $err) = $node->psql('app', 'DELETE FROM orders WHERE id = 42');
		like($err, qr/violates foreign key constraint "lines_o_fkey"/, 'foreign keys are there');
		($rc, $out, $err) = $node->psql('app', 'ALTER TABLE events SET ACCESS METHOD lsm');
		if ($node->pg_version < 17)
		{
			like($err, qr/cannot change access method of a partitioned table/, 'a partitioned table has none');
		}
		else
		{
			is($node->safe_psql('app', q{SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = 'events'::regclass}), 'lsm', 'a partitioned table has one');
		}
		is($node->safe_psql('app', q{SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam, LATERAL lsm_verify(c.oid) WHERE amname IN ('lsm', 'lsm_index') AND relkind IN ('r', 'm', 'i')}), 0, 'in place: lsm_verify');
		# for the way back: of every kind
		$node->safe_psql('app', q{DROP TABLE events_3; DROP INDEX events_kind;
CREATE INDEX events_kind ON events USING lsm (kind COLLATE "C") WITH (bits_per_key = 12);
ALTER TABLE lines DROP CONSTRAINT lines_pkey, ADD CONSTRAINT lines_pkey PRIMARY KEY (o, n) WITH (filter_scheme = bloom, bits_per_key = 12);
DROP INDEX orders_open; CREATE INDEX orders_open ON orders USING lsm (customer, (lower(memo) COLLATE "C") DESC) INCLUDE (total) WHERE state <> 'sent';
CREATE UNIQUE INDEX ON shop."Odd Name" USING lsm ("k K", v text_pattern_ops) WITH (size_ratio = 5); CREATE TABLE shop.heap (i int) USING heap; CREATE INDEX ON shop.heap USING lsm (i)});
	},
	'Back' => sub {
		is(methods_of('app', "'r','m'"), 'heap', 'back: all tables are heap');
		is(methods_of('app', "'i','I'"), 'btree', 'back: indexes');
		is($node->safe_psql('app', q{SELECT count(*) FROM pg_extension WHERE extname = 'lsmam'}), 0, 'back: the extension is gone');
		$node->safe_psql('app', 'DROP TABLE shop.heap');
		is(checksums_of('app'), slurp_file("$work/app.before"), 'back: the same rows');
		is($node->safe_psql('app', q{SET enable_seqscan = off; SELECT count(*) FROM orders o JOIN lines l ON l.o = o.id WHERE o.placed > '2026-02-01'}), 6768, 'back: a join');
		is($node->safe_psql('app', q{SELECT pg_get_indexdef('orders_open'::regclass)}),
			q{CREATE INDEX orders_open ON public.orders USING btree (customer, lower(memo) COLLATE "C" DESC) INCLUDE (total) WHERE (state <> 'sent'::shop.state)}, 'back: an index');
		is($node->safe_psql('app', q{SELECT pg_get_indexdef('events_kind'::regclass)}), q{CREATE INDEX events_kind ON ONLY public.events USING btree (kind COLLATE "C")}, 'back: an index of a partitioned table');
	});

# ---- the page ----
my $section = '';
my @outputs;
my ($kind, $code) = ('', '');
my %seen;
my $can_copy = `pgcopydb --version 2>/dev/null` ne '';

sub run_block
{
	my $file = "$work/block." . ($kind eq 'sh' ? 'sh' : 'sql');
	unlink $file;
	append_to_file($file, $code);
	my @command = $kind eq 'sh' ? ('sh', '-e', $file) : ('psql', '-X', '-v', 'ON_ERROR_STOP=1', '-f', $file, '-d', 'postgres');
	my $output = "$work/output";
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		# pgcopydb ends its process group when it fails
		POSIX::setpgid(0, 0);
		chdir $work;
		open(STDOUT, '>', $output);
		open(STDERR, '>&', \*STDOUT);
		exec(@command) or POSIX::_exit(99);
	}
	waitpid($pid, 0);
	my $status = $?;
	my $text = slurp_file($output);
	my ($first) = $code =~ /^(?!\\c)(.{1,70})/m;
	ok($status == 0 && ($section eq 'pgcopydb' || $text !~ /ERROR|FATAL/), "$section: $first") or diag($text);
	push @outputs, $text;
	return;
}

sub end_section
{
	return unless $seen{$section};
	$behind{$section}->(@outputs);
	@outputs = ();
	return;
}

my $in_block = 0;
foreach my $line (split /\n/, slurp_file("$page/migration.md"))
{
	if ($in_block && $line eq '```')
	{
		$in_block = 0;
	  SKIP:
		{
			skip 'pgcopydb is not installed', 1 if $section eq 'pgcopydb' && !$can_copy;
			# 072_low_downtime does these
			skip 'needs wal_level = logical', 1 if $section eq 'With little downtime';
			$seen{$section}++;
			run_block();
		}
	}
	elsif ($in_block)
	{
		$code .= "$line\n";
	}
	elsif ($line =~ /^```(\w+)$/)
	{
		($kind, $code, $in_block) = ($1, '', 1);
		like($kind, qr/^(sh|sql)$/, 'a block that can be run');
	}
	elsif ($line =~ /^## (.*)/)
	{
		my $next = $1;
		end_section();
		$section = $next;
	}
}
end_section();
foreach my $name (sort keys %behind)
{
	ok($seen{$name}, "section \"$name\" was run") unless $name eq 'pgcopydb' && !$can_copy;
}
$node->stop;
done_testing();
