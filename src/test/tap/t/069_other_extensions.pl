# Other extensions in the same server, loaded before lsmam and after it: what they record of
# statements about lsm tables is what they record of the same statements about heap tables, and
# what lsmam adds to statements is there.  Extensions that go past access methods are refused.
# Tests what is installed (docs/extensions.md), and says what is not.
# packages: postgresql-NN-cron postgresql-NN-hypopg postgresql-NN-pgaudit postgresql-NN-pg-qualstats
# packages: postgresql-NN-pg-stat-kcache postgresql-NN-pg-wait-sampling postgresql-NN-set-user
# packages: postgresql-NN-partman postgresql-NN-rum postgresql-NN-plprofiler postgresql-NN-postgis-3
use strict;
use warnings;
use IPC::Run;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

my $node = lsm_node('main', conf => 'autovacuum = off');
my $share = `pg_config --sharedir`;
my $lib = `pg_config --pkglibdir`;
chomp($share, $lib);

sub sql { return $node->safe_psql('postgres', $_[0]); }
sub have { return -e "$share/extension/$_[0].control"; }

# What psql says, errors and all
sub answer
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 0);
	return $out . $err;
}

sub preload
{
	my (@libraries) = @_;
	lsm_set($node, shared_preload_libraries => join(',', @libraries));
	$node->restart;
	return;
}

# Part of the server log, from a place on
sub log_since { return slurp_file($node->logfile, $_[0]); }
sub log_end { return (-s $node->logfile) || 0; }

# ---- libraries that forget others' hooks ----

sub cannot_start
{
	my ($name) = @_;
	my $from = log_end();
	ok(!$node->start(fail_ok => 1), "$name: the server does not start");
	like(log_since($from), qr/FATAL:  lsmam could not request shared memory\n.*DETAIL:.*shmem_request_hook.*\n.*HINT:  Name lsmam last/,
		"$name: and says why");
	return;
}

my $rude = $ENV{LSM_RUDE_SO};
lsm_set($node, shared_preload_libraries => "lsmam,$rude");
$ENV{LSM_RUDE} = 'request';
cannot_start('a library without regard for shmem_request_hook');
$ENV{LSM_RUDE} = 'startup';
my $no_memory = qr/ERROR:  lsmam has no shared memory\n(?:LINE 1:.*\n.*\n)?DETAIL:.*shmem_startup_hook.*\nHINT:  Name lsmam last/;
$node->start;
like(answer('CREATE EXTENSION lsmam'), $no_memory, 'a library without regard for shmem_startup_hook');
like(answer('CREATE TABLE t (id int) USING heap; DROP TABLE t; CHECKPOINT; SELECT 1'), qr/^1$/, 'heap tables are used then');
$node->stop;
lsm_set($node, shared_preload_libraries => "$rude,lsmam");
foreach my $what ('request', 'startup')
{
	$ENV{LSM_RUDE} = $what;
	$node->start;
	is(sql('CREATE EXTENSION IF NOT EXISTS lsmam; CREATE TABLE t (id int PRIMARY KEY) USING lsm; INSERT INTO t VALUES (1); TABLE t; DROP TABLE t'), '1', "lsmam last: $what");
	$node->stop;
}

# with tables from before, and with WAL to be redone
$node->start;
sql('CREATE TABLE t (id int PRIMARY KEY) USING lsm; INSERT INTO t VALUES (1); CREATE TABLE h (id int) USING heap; CREATE INDEX h_id ON h USING lsm (id)');
$node->stop;
lsm_set($node, shared_preload_libraries => "lsmam,$rude");
$node->start;
foreach my $statement ('TABLE t', 'INSERT INTO t VALUES (2)', 'DROP TABLE t', 'INSERT INTO h VALUES (1)', 'VACUUM t', 'CREATE TABLE t2 (id int) USING lsm',
	"SELECT lsm_verify('t')", "SELECT lsm_flush('t')")
{
	like(answer($statement), $no_memory, $statement);
}
unlike(answer($_), qr/server closed|connection/, $_) foreach ('TABLE pg_stat_lsm', q{SELECT * FROM lsmam_trees('{}')}, 'TABLE pg_stat_lsm_levels', 'TABLE pg_stat_lsm_progress', 'SELECT * FROM lsm_elastic_stats()',
	'SELECT pg_stat_lsm_reset()', 'CREATE DATABASE d', 'DROP DATABASE d', 'SELECT lsm_full_version()', 'TABLE lsm_sizes');
$node->stop;
lsm_set($node, shared_preload_libraries => "$rude,lsmam");
$node->start;
is(sql('TABLE t; INSERT INTO h VALUES (1); DROP TABLE h'), '1', 'lsmam last again');
$node->stop('immediate');
lsm_set($node, shared_preload_libraries => "lsmam,$rude");
{
	my $from = log_end();
	ok(!$node->start(fail_ok => 1), 'redo without shared memory');
	like(log_since($from), qr/FATAL:  lsmam has no shared memory/, '... says why it does not begin');
}
delete $ENV{LSM_RUDE};
lsm_set($node, shared_preload_libraries => 'lsmam');
$node->start;
is(sql('TABLE t; DROP TABLE t'), '1', 'nothing was lost');

# ---- C code that writes to a table as to a heap table ----

sql(qq{CREATE FUNCTION rude_insert(regclass, text, bool) RETURNS void LANGUAGE c STRICT AS '$rude';
CREATE TABLE rude_h (v text) USING heap;
CREATE TABLE rude_l (v text) USING lsm;
CREATE TABLE rude_full (v text) USING lsm;
INSERT INTO rude_full SELECT repeat(md5(g::text), 5) FROM generate_series(1, 2000) g;});
foreach my $together ('false', 'true')
{
	is(sql("SELECT rude_insert('rude_h', 'x', $together); SELECT count(*) > 0 FROM rude_h"), "\nt", "a heap table is written, together $together");
	foreach my $table ('rude_l', 'rude_full')
	{
		like(answer("SELECT rude_insert('$table', 'x', $together)"),
			qr/ERROR:  cannot write to lsm table "$table" as to a heap table\nDETAIL:.*past the table's access method.*\nHINT:  Use ALTER TABLE/,
			"$table is not, together $together");
		# (a worker may have added a page for what is not logged)
		is(sql("SELECT count(*) FROM lsm_verify('$table')"), '0', '... and its pages are its own');
	}
}
is(sql(q{SELECT count(*), count(DISTINCT v) FROM rude_full; SELECT count(*) FROM rude_l; SELECT count(*) FROM lsm_verify('rude_full')}),
	"2000|2000\n0\n0", 'its rows are there');

# ---- extensions that read the main fork ----

# A table whose log pages are more than its TID blocks, and one with none
sql(q{CREATE TABLE wide (id int PRIMARY KEY, v text) USING lsm;
CREATE TABLE flushed (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO wide SELECT g, repeat(md5(g::text), 9) FROM generate_series(1, 400) g;
INSERT INTO flushed SELECT g, 'x' FROM generate_series(1, 20000) g;
SELECT lsm_compact('flushed');
VACUUM wide; VACUUM flushed;});
my $pages_sql = q{(pg_relation_size(t) / 8192)};
foreach my $extension ('pg_prewarm', 'pageinspect', 'pg_visibility', 'pgstattuple', 'pgrowlocks', 'pg_surgery', 'amcheck', 'pg_freespacemap',
	'pg_buffercache', 'pg_walinspect', 'pg_dirtyread', 'pgfincore', 'tsm_system_rows')
{
	if (have($extension)) { sql("CREATE EXTENSION $extension"); }
	else { note("not installed: $extension"); }
}
foreach my $t ('wide', 'flushed', 'flushed_pkey')
{
	my $pages = sql("SELECT pg_relation_size('$t') / 8192");
	is(answer("SELECT pg_prewarm('$t'), pg_prewarm('$t', 'read'), pg_prewarm('$t', 'prefetch')"), "$pages|$pages|$pages", "pg_prewarm of $t");
	my $out = answer("SELECT count(get_raw_page('$t', n::int)) FROM generate_series(0, $pages - 1) n");
	is($out, $pages, "get_raw_page of $t");
	like(answer("SELECT get_raw_page('$t', $pages)"), qr/block number $pages is out of range/, "get_raw_page behind the end of $t");
}
foreach my $t ('wide', 'flushed')
{
	my $tid_blocks = sql("SELECT (max(ctid)::text::point)[0] + 1 FROM $t");
	is(answer("SELECT count(*), sum(all_visible::int) > 0 FROM pg_visibility_map('$t')"), "$tid_blocks|t", "pg_visibility_map of $t");
	is(answer("SELECT all_visible > 0 FROM pg_visibility_map_summary('$t')"), 't', "pg_visibility_map_summary of $t");
	foreach my $call ("pg_visibility('$t')", "pg_visibility('$t', 0)", "pg_check_visible('$t')", "pg_check_frozen('$t')")
	{
		like(answer("SELECT count(*) FROM $call"), qr/ERROR:  cannot read lsm table "$t" as a heap table\nDETAIL:.*\nHINT:  Use pg_visibility_map\(\)/, $call);
	}
	like(answer("SELECT * FROM pgstattuple('$t')"), qr/ERROR:  only heap AM is supported/, "pgstattuple of $t");
	like(answer("SELECT * FROM pgrowlocks('$t')"), qr/ERROR:  only heap AM is supported/, "pgrowlocks of $t");
	like(answer("SELECT heap_force_kill('$t', ARRAY['(0,1)'::tid])"), qr/ERROR:  only heap AM is supported/, "pg_surgery of $t");
	like(answer("SELECT * FROM verify_heapam('$t')"), qr/ERROR:  only heap AM is supported/, "amcheck of $t");
	like(answer("SELECT bt_index_check('${t}_pkey')"), qr/ERROR:  .*(only B-Tree indexes are supported|expected "btree" index)/, "amcheck of ${t}_pkey");
	like(answer("SELECT * FROM pgstatindex('${t}_pkey')"), qr/ERROR:  .*is not a btree index/, "pgstatindex of ${t}_pkey");
	unlike(answer("SELECT count(*) FROM pg_freespace('$t')"), qr/ERROR/, "pg_freespace of $t");
	is(answer("SELECT count(*) FROM (SELECT * FROM $t TABLESAMPLE system_rows(100)) s"), '100', "tsm_system_rows of $t");
	like(answer("SELECT * FROM pg_dirtyread('$t') AS x(id int)"), qr/ERROR:  only heap AM is supported/, "pg_dirtyread of $t") if have('pg_dirtyread');
	unlike(answer("SELECT * FROM pgfincore('$t')"), qr/ERROR/, "pgfincore of $t") if have('pgfincore');

	# as after a crash of the visibility map: index-only scans look at the rows again
	sql("SELECT pg_truncate_visibility_map('$t')");
	is(sql("SELECT all_visible FROM pg_visibility_map_summary('$t')"), '0', "pg_truncate_visibility_map of $t");
	is(sql("SET enable_seqscan = off; SELECT count(id) FROM $t WHERE id > 10"), sql("SELECT count(*) - 10 FROM $t"), '... and its rows');
	sql("VACUUM $t");
	is(answer("SELECT all_visible > 0 FROM pg_visibility_map_summary('$t')"), 't', '... until VACUUM');
}
is(sql(q{SELECT count(*) > 0 FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('wide')}), 't', 'pg_buffercache knows log pages');
my $from = sql('SELECT pg_current_wal_lsn()');
sql(q{INSERT INTO wide VALUES (1001, 'x')});
like(sql("SELECT string_agg(DISTINCT resource_manager, ' ') FROM pg_get_wal_records_info('$from', pg_current_wal_flush_lsn())"), qr/lsmam/,
	'pg_walinspect names records of ours');

# ---- indexes, partitions and a profiler of extensions ----

# What an index of an extension finds on an lsm table, and what a scan of the heap twin finds.  The index sees rows
# from before it and from after it, changes, a rollback, VACUUM and new rows.  What `query` gives must be determined.
sub check_index
{
	my ($name, $columns, $index, $row, $query, $settings) = @_;
	my $on = ($settings // '') . 'SET enable_seqscan = off;';
	my $off = 'SET enable_indexscan = off; SET enable_bitmapscan = off;';
	my @steps = (
		[ 'filled', "INSERT INTO x_X SELECT g, $row FROM generate_series(301, 400) g" ],
		[ 'changed', 'DELETE FROM x_X WHERE id % 3 = 0', 'UPDATE x_X SET id = id + 1000 WHERE id % 7 = 0',
			"BEGIN; INSERT INTO x_X SELECT g + 5000, $row FROM generate_series(1, 50) g; ROLLBACK" ],
		[ 'vacuumed', 'VACUUM x_X', "INSERT INTO x_X SELECT g, $row FROM generate_series(501, 600) g" ]);
	foreach my $x ('h', 'l')
	{
		my $am = $x eq 'h' ? 'heap' : 'lsm';
		sql(qq{CREATE TABLE x_$x (id int PRIMARY KEY, $columns) USING $am;
INSERT INTO x_$x SELECT g, $row FROM generate_series(1, 300) g;
CREATE INDEX x_${x}_i ON x_$x USING $index});
	}
	foreach my $step (@steps)
	{
		my ($when, @statements) = @$step;
		foreach my $statement (@statements)
		{
			sql($statement =~ s/_X/_$_/gr) foreach ('h', 'l');
		}
		like(sql("$on EXPLAIN (COSTS off) " . $query =~ s/_X/_l/gr), qr/Index Scan (using|on) x_l_i/, "$name, $when: is used");
		my $expected = sql($off . $query =~ s/_X/_h/gr);
		cmp_ok(scalar(split /\n/, $expected), '>=', 5, "$name, $when: finds rows");
		is(sql($on . $query =~ s/_X/_l/gr), $expected, "$name, $when: the rows of a heap table");
	}
	is(sql(q{SELECT count(*) FROM lsm_verify('x_l')}), '0', "$name: lsm_verify");
	sql('DROP TABLE x_h, x_l');
	return;
}

foreach my $extension ('vector', 'rum', 'bloom', 'postgis')
{
	if (have($extension)) { sql("CREATE EXTENSION $extension"); }
	else { note("not installed: $extension"); }
}
check_index('bloom', 'a int, b int', 'bloom (a, b)', 'g % 5, g % 7', 'SELECT id FROM x_X WHERE a = 3 AND b = 4 ORDER BY id', 'SET enable_indexscan = off;');
check_index('rum', 'v tsvector', 'rum (v rum_tsvector_ops)', q{to_tsvector('simple', 'a' || g % 5 || ' b' || g % 7)},
	q{SELECT id FROM x_X WHERE v @@ 'a3 & b4' ORDER BY id}) if have('rum');
if (have('vector'))
{
	# hnsw and ivfflat are approximate, unless they look at more than there is
	my $near = q{SELECT round((v <-> '[3.1,4.2,50.3]')::numeric, 4) FROM x_X ORDER BY v <-> '[3.1,4.2,50.3]' LIMIT 20};
	my $row = 'ARRAY[g % 17, g % 23, (g * 37) % 101]::vector';
	check_index('ivfflat', 'v vector(3)', 'ivfflat (v vector_l2_ops) WITH (lists = 1)', $row, $near);
	check_index('hnsw', 'v vector(3)', 'hnsw (v vector_l2_ops) WITH (m = 32, ef_construction = 200)', $row, $near, 'SET hnsw.ef_search = 1000;');
}
if (have('postgis'))
{
	my $point = 'ST_SetSRID(ST_MakePoint(g % 50, g / 50.0), 4326)';
	my $near = 'SELECT round(ST_Distance(v, ST_SetSRID(ST_MakePoint(20.3, 11.1), 4326))::numeric, 4) FROM x_X ORDER BY v <-> ST_SetSRID(ST_MakePoint(20.3, 11.1), 4326) LIMIT 20';
	my $in = 'SELECT id FROM x_X WHERE ST_Intersects(v, ST_MakeEnvelope(10, 3, 14, 9, 4326)) ORDER BY id';
	check_index('gist', 'v geometry(Point, 4326)', 'gist (v)', $point, $near);
	check_index('gist', 'v geometry(Point, 4326)', 'gist (v)', $point, $in);
	check_index('spgist', 'v geometry(Point, 4326)', 'spgist (v)', $point, $in);
	check_index('gist', 'v geography', 'gist (v)', "$point\::geography", 'SELECT id FROM x_X WHERE ST_DWithin(v, ST_MakePoint(20, 3)::geography, 300000) ORDER BY id');
}

if (have('pg_partman'))
{
	my $native = sql(q{SELECT default_version < '5' FROM pg_available_extensions WHERE name = 'pg_partman'}) eq 't' ? q{p_type := 'native', } : '';
	sql(qq{CREATE SCHEMA partman; CREATE EXTENSION pg_partman SCHEMA partman;
SET default_table_access_method = lsm;
CREATE TABLE part (id int NOT NULL, v text) PARTITION BY RANGE (id);
CREATE INDEX ON part USING lsm (id);
SELECT partman.create_parent(p_parent_table := 'public.part', p_control := 'id', p_interval := '1000', $native p_premake := 2, p_start_partition := '0');
INSERT INTO part SELECT g, 'v' || g FROM generate_series(0, 2999) g;
INSERT INTO part SELECT g, 'v' || g FROM generate_series(5000, 5009) g;});
	is(sql(q{SELECT count(*) FROM part_default}), '10', 'pg_partman: rows without a partition');
	sql(q{SET default_table_access_method = lsm; SELECT partman.partition_data_id('public.part', p_batch_count := 10)});
	is(sql(q{SELECT count(*) FROM part_default; SELECT count(*), sum(id) FROM part; SELECT count(*) FROM part WHERE id BETWEEN 5000 AND 5009}),
		"0\n3010|4548545\n10", '... are moved to one');
	sql(q{UPDATE partman.part_config SET retention = '4000', retention_keep_table = false WHERE parent_table = 'public.part';
SET default_table_access_method = lsm; SELECT partman.run_maintenance('public.part')});
	is(sql(q{SELECT min(id), count(*) FROM part}), '1000|2010', '... and dropped by their age');
	is(sql(q{SELECT string_agg(DISTINCT amname, ' ') FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_am a ON a.oid = relam WHERE inhparent = 'part'::regclass}),
		'lsm', '... all of which are lsm');
	is(sql(q{SELECT count(*) FROM pg_inherits, lsm_verify(inhrelid) WHERE inhparent = 'part'::regclass}), '0', '... and verified');
	sql(q{DELETE FROM partman.part_config; DROP TABLE part; DROP EXTENSION pg_partman; DROP SCHEMA partman CASCADE});
}
else { note('not installed: pg_partman'); }

if (have('plprofiler'))
{
	preload('plprofiler', 'lsmam');
	sql(q{CREATE EXTENSION plprofiler; CREATE TABLE profiled (id int PRIMARY KEY) USING lsm;
CREATE FUNCTION profile_me() RETURNS void LANGUAGE plpgsql AS $$BEGIN
	FOR i IN 1..7 LOOP
		INSERT INTO profiled VALUES (i);
	END LOOP;
END$$});
	is(sql(q{SELECT pl_profiler_set_enabled_local(true); SELECT profile_me();
SELECT exec_count FROM pl_profiler_linestats_local() WHERE func_oid = 'profile_me()'::regprocedure AND line_number = 3; SELECT count(*) FROM profiled}) =~ s/^t\n//r, "\n7\n7",
		'plprofiler counts statements on an lsm table');
	sql('DROP TABLE profiled; DROP FUNCTION profile_me(); DROP EXTENSION plprofiler');
	preload('lsmam');
}
else { note('not installed: plprofiler'); }

# ---- tables of extensions ----

lsm_set($node, default_table_access_method => 'lsm', 'lsm.default_index' => 'lsm');
$node->reload;
{
	my $dir = $node->basedir . '/ext';
	my ($first, $second) = ("$share/extension/lsm_guest--1.0.sql", "$share/extension/lsm_guest--1.0--1.1.sql");
	append_to_file("$share/extension/lsm_guest.control", "default_version = '1.0'\nrelocatable = true\n");
	append_to_file($first, "CREATE TABLE guest (id int PRIMARY KEY, v text);\nCREATE TABLE guest_ours (id int) USING lsm;\nCREATE MATERIALIZED VIEW guest_view AS SELECT 1 AS one;\n");
	append_to_file($second, "CREATE TABLE guest_new (id int PRIMARY KEY);\n");
	is(sql(q{SET default_table_access_method = lsm; CREATE EXTENSION lsm_guest; ALTER EXTENSION lsm_guest UPDATE TO '1.1'; CREATE TABLE after_guest (id int);
SELECT relname, amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname ~ 'guest' AND relkind IN ('r', 'm') ORDER BY 1; SHOW default_table_access_method;}),
		"after_guest|lsm\nguest|heap\nguest_new|heap\nguest_ours|lsm\nguest_view|heap\nlsm",
		'tables of extensions are heap unless they say lsm');
	like(answer(q{DROP EXTENSION lsm_guest; SET default_table_access_method = lsm; CREATE EXTENSION lsm_guest VERSION '9'; CREATE TABLE after_error (id int); SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 'after_error'; SHOW default_table_access_method}),
		qr/^lsm\nlsm.*ERROR/s, 'an error in CREATE EXTENSION leaves the setting');
	sql('DROP TABLE after_guest, after_error');
	unlink $first, $second, "$share/extension/lsm_guest.control";
}

# ---- hooks, in both orders ----

my %libraries = (
	pg_stat_statements => 'pg_stat_statements', pgaudit => 'pgaudit', pg_qualstats => 'pg_qualstats',
	pg_stat_kcache => 'pg_stat_kcache', pg_wait_sampling => 'pg_wait_sampling', hypopg => 'hypopg',
	pg_cron => 'pg_cron', set_user => 'set_user', pg_hint_plan => 'pg_hint_plan', pg_show_plans => 'pg_show_plans',
	timescaledb => 'timescaledb', pgsentinel => 'pgsentinel', pg_ivm => 'pg_ivm');
my @order = ('timescaledb', 'pg_stat_statements', 'pg_stat_kcache', 'pgaudit', 'pg_qualstats', 'pg_wait_sampling', 'hypopg', 'pg_cron', 'set_user', 'pg_hint_plan', 'pg_show_plans', 'pgsentinel', 'pg_ivm');
my @found = grep { have($_) && -e "$lib/$libraries{$_}.so" } @order;
note("side by side: auto_explain @found");
note('not installed: ' . join(' ', grep { my $e = $_; !grep { $_ eq $e } @found } @order));
lsm_set($node,
	'default_table_access_method' => 'heap', 'lsm.default_index' => 'btree', 'max_worker_processes' => 30, 'track_io_timing' => 'on',
	'compute_query_id' => 'on', 'log_min_duration_statement' => -1,
	'auto_explain.log_min_duration' => 0, 'auto_explain.log_analyze' => 'on', 'auto_explain.log_timing' => 'off', 'auto_explain.log_nested_statements' => 'on',
	'pg_stat_statements.track' => 'all', 'pg_stat_statements.track_planning' => 'on',
	'pgaudit.log' => 'all', 'pgaudit.log_catalog' => 'off', 'pg_qualstats.sample_rate' => 1, 'pg_qualstats.track_constants' => 'off',
	'cron.database_name' => 'postgres', 'cron.use_background_workers' => 'on', 'timescaledb.telemetry_level' => 'off');

# The same for heap tables p_h, q_h and lsm tables p_l, q_l.  Each with what lsmam has a hook for.
my @twin_statements = (
	q{INSERT INTO q_X SELECT g, 'q' FROM generate_series(1, 100) g},
	q{INSERT INTO p_X SELECT g, g % 100 + 1, 'v' || g FROM generate_series(1, 2000) g},
	q{VACUUM ANALYZE p_X},
	q{INSERT INTO p_X VALUES (1, 1, 'a'), (3001, 1, 'b') ON CONFLICT (id) DO UPDATE SET v = 'conflict'},
	q{INSERT INTO p_X VALUES (2, 1, 'a') ON CONFLICT DO NOTHING},
	q{SELECT id, q FROM p_X WHERE (q, id) > (50, 1000) ORDER BY q, id LIMIT 5},
	q{SELECT v FROM p_X WHERE id = 77},
	q{UPDATE p_X SET v = 'new' WHERE q = 7},
	q{DELETE FROM p_X WHERE id BETWEEN 100 AND 199},
	q{SELECT count(*) FROM p_X JOIN q_X ON q_X.id = p_X.q},
	q{CREATE INDEX p_X_v ON p_X (v)},
	q{DO $$ BEGIN FOR i IN 1..3 LOOP INSERT INTO p_X VALUES (4000 + i, 5, 'loop') ON CONFLICT DO NOTHING; END LOOP; END $$},
	q{DECLARE c CURSOR FOR SELECT * FROM p_X WHERE q = 9 ORDER BY id; FETCH 3 FROM c},
	q{PREPARE get_X AS SELECT v FROM p_X WHERE id = $1; EXECUTE get_X(78)},
	q{MERGE INTO q_X USING (VALUES (1, 'm'), (200, 'n')) s(id, v) ON q_X.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v)},
	q{SELECT count(*), sum(id), md5(string_agg(p_X::text, ',' ORDER BY id)) FROM p_X},
	q{TRUNCATE q_X});

# Who it was does not matter, nor where it took how long
sub as_twin
{
	my ($text, $x) = @_;
	$text =~ s/\b([pq]|get)_$x(_pkey|_v|_q_id_idx)?\b/"${1}_X" . ($2 || '')/ge;
	return $text;
}

# pgaudit's lines: number within the statement, class, command, object, statement
sub audit_lines
{
	my ($log, $x) = @_;
	return join("\n", map { as_twin($_, $x) } grep { /\b(?:[pq]|get)_$x/ } $log =~ /AUDIT: SESSION,\d+,(.*)/g);
}

# Names of nodes are the planner's choice; that there was a plan for each statement is not
sub explained_queries
{
	my ($log, $x) = @_;
	return join("\n", map { as_twin($_, $x) } grep { /\b(?:[pq]|get)_$x/ } $log =~ /duration: [\d.]+ ms  plan:\n\tQuery Text: (.*)/g);
}

sub run_twin
{
	my ($x) = @_;
	my $am = $x eq 'h' ? 'heap' : 'lsm';
	my $ix = $x eq 'h' ? 'btree' : 'lsm';
	sql(qq{CREATE TABLE p_$x (id int PRIMARY KEY, q int, v text) USING $am;
CREATE INDEX p_${x}_q_id_idx ON p_$x USING $ix (q, id);
CREATE TABLE q_$x (id int PRIMARY KEY, v text) USING $am;});
	my $from = log_end();
	my $output = '';
	foreach my $statement (@twin_statements)
	{
		my $text = $statement =~ s/_X/_$x/gr;
		$output .= answer("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; BEGIN; $text; COMMIT") . "\n" unless $text =~ /^VACUUM/;
		$output .= answer($text) if $text =~ /^VACUUM/;
	}
	return { output => as_twin($output, $x), log => log_since($from), x => $x };
}

sub statements_of
{
	my ($x) = @_;
	my $text = sql(qq{SELECT replace(replace(query, chr(10), ' '), chr(9), ' '), calls, rows, plans FROM pg_stat_statements
WHERE query ~ '(p|q|get)_$x' AND query !~ 'pg_stat_statements' ORDER BY query COLLATE "C", calls, rows});
	return join("\n", sort split /\n/, as_twin($text, $x) =~ s/ USING (?:heap|btree|lsm)\b//gr);
}

sub compare_twins
{
	my ($name) = @_;
	my ($heap, $lsm) = (run_twin('h'), run_twin('l'));

	is($lsm->{output}, $heap->{output}, "$name: results");
	unlike($heap->{output} . $lsm->{output}, qr/ERROR|WARNING/, "$name: no error");
	# but for a job of TimescaleDB's, which Debian's build has no license for
	unlike($lsm->{log} =~ s/^.*ERROR:  functionality not supported under the current "apache" license.*$//gmr,
		qr/(?:WARNING|ERROR|FATAL|PANIC):/, "$name: nothing in the log");
	is(explained_queries($lsm->{log}, 'l'), explained_queries($heap->{log}, 'h'), "$name: auto_explain");
	like(explained_queries($lsm->{log}, 'l'), qr/SELECT v FROM p_X WHERE id = 77.*\n/, "$name: auto_explain saw statements");
	like($lsm->{log}, qr/Query Text: .*SELECT v FROM p_l WHERE id = 77.*\n\tIndex Scan using p_l_pkey on p_l .*rows=1.*\n\t  Index Cond: \(id = 77\)/, "$name: auto_explain's plan");
	like($lsm->{log}, qr/Query Text: .*SELECT v FROM p_l WHERE id = 77.*\n(?:\t.*\n)*?\t  LSM: lookups=/, "$name: auto_explain's counters") if lsm_version() >= 18;
	if (grep { $_ eq 'pgaudit' } @found)
	{
		is(audit_lines($lsm->{log}, 'l'), audit_lines($heap->{log}, 'h'), "$name: pgaudit");
		like(audit_lines($lsm->{log}, 'l'), qr/WRITE,UPDATE.*UPDATE p_X/, "$name: pgaudit saw statements");
	}
	is(statements_of('l'), statements_of('h'), "$name: pg_stat_statements");
	like(statements_of('l'), qr/INSERT INTO p_X SELECT .*\|1\|2000\|/, "$name: pg_stat_statements counts rows");
	if (grep { $_ eq 'pg_qualstats' } @found)
	{
		my $quals = q{SELECT lattnum, opno::regoper, count(*) FROM pg_qualstats WHERE lrelid = 'p_X'::regclass GROUP BY 1, 2 ORDER BY 1, 2};
		like(sql($quals =~ s/_X/_l/r), qr/^1\|(pg_catalog\.)?=\|/m, "$name: pg_qualstats knows the key's column");
	}
	if (grep { $_ eq 'pg_stat_kcache' } @found)
	{
		is(sql(q{SELECT count(*) > 0 FROM pg_stat_kcache() k JOIN pg_stat_statements s USING (queryid) WHERE s.query ~ 'UPDATE p_l'}), 't', "$name: pg_stat_kcache");
	}
	is(sql(q{SELECT count(*) FROM lsm_verify('p_l')}), '0', "$name: lsm_verify");
	return;
}

# What lsmam adds by its own hooks
sub check_our_hooks
{
	my ($name) = @_;
	my $off = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';

	like(sql("$off EXPLAIN (COSTS off) SELECT q FROM p_l WHERE (q, id) > (50, 1000) ORDER BY q, id LIMIT 5"), qr/Index Cond: \(ROW\(q, id\) > ROW\(50, 1000\)\)/, "$name: row comparisons");
	like(sql("$off EXPLAIN (ANALYZE, TIMING off, COSTS off) SELECT v FROM p_l WHERE id = 78"), qr/LSM: lookups=/, "$name: EXPLAIN's counters");
	# before 18 not if hypopg has hooked ExplainOneQuery behind lsmam
	like(sql("$off PREPARE counted(int) AS SELECT v FROM p_l WHERE id = \$1; EXPLAIN (ANALYZE, TIMING off, COSTS off) EXECUTE counted(79)"), qr/^LSM: lookups=/m,
		"$name: counters of EXECUTE") if lsm_version() >= 18;
	like(sql("$off EXPLAIN (COSTS off) SELECT id FROM p_l WHERE q = 8"), qr/p_l_q_id_idx/, "$name: get_relation_info");
	sql(q{CREATE TABLE batch (id int PRIMARY KEY) USING lsm; SELECT pg_stat_lsm_reset()});
	sql(q{CREATE TABLE parent (id int PRIMARY KEY) USING lsm; CREATE TABLE child (id int REFERENCES parent) USING lsm; INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1)});
	like(answer('INSERT INTO child VALUES (2)'), qr/violates foreign key/, "$name: foreign keys");
	my $from = log_end();
	sql('DROP TABLE batch, child, parent');
	$node->safe_psql('postgres', 'CREATE DATABASE copy_of_it TEMPLATE lsm_template');
	is($node->safe_psql('copy_of_it', 'SELECT count(*), max(v) FROM t'), '100|v', "$name: CREATE DATABASE");
	sql('DROP DATABASE copy_of_it WITH (FORCE)');
	return;
}

sub check_hypopg
{
	my ($name) = @_;
	sql('CREATE TABLE hypo (id int PRIMARY KEY, v text) USING lsm; INSERT INTO hypo SELECT g, g::text FROM generate_series(1, 3000) g; ANALYZE hypo');

	# auto_explain would ask for the name when hypopg does not answer any more
	like(sql(q{SET auto_explain.log_min_duration = -1; SELECT hypopg_create_index('CREATE INDEX ON hypo (v)'); EXPLAIN SELECT * FROM hypo WHERE v = '77'}),
		qr/Index Scan using "?<\d+>btree_hypo_v/, "$name: hypopg");
	like(answer(q{SELECT hypopg_create_index('CREATE INDEX ON hypo USING lsm_index (v)')}), qr/ERROR:  hypopg: access method "lsm_index" is not supported/, "$name: hypopg refuses lsm_index");
	like(answer(q{SELECT hypopg_create_index('CREATE INDEX ON hypo USING lsm (v)')}), qr/ERROR:.*did not return an IndexAmRoutine/, "$name: hypopg refuses lsm");
	sql('DROP TABLE hypo');
	return;
}

sub check_pg_hint_plan
{
	my ($name) = @_;
	foreach my $hint ('SeqScan(p_l)', 'IndexScan(p_l p_l_pkey)', 'BitmapScan(p_l p_l_pkey)')
	{
		my ($kind) = $hint =~ /^(\w+?)Scan/;
		$kind = { Seq => 'Seq Scan', Index => 'Index Scan', Bitmap => 'Bitmap Heap Scan' }->{$kind};
		like(sql("LOAD 'pg_hint_plan'; /*+ $hint */ EXPLAIN (COSTS off) SELECT v FROM p_l WHERE id < 100"), qr/^\s*$kind (using p_l_pkey )?on p_l/m, "$name: pg_hint_plan, $hint");
	}
	return;
}

sub check_timescaledb
{
	my ($name) = @_;

	# Its hook for utility commands comes with the session's first use of it, mostly before ours, and for indexes of
	# hypertables asks no other: lsm is not known as lsm_index then.
	sql(q{CREATE TABLE metric (ts timestamptz NOT NULL, dev int, v float8) USING lsm;
SELECT create_hypertable('metric', 'ts', chunk_time_interval => interval '1 day');
INSERT INTO metric SELECT '2026-01-01'::timestamptz + g * interval '10 minutes', g % 5, g FROM generate_series(1, 1000) g;
CREATE INDEX ON metric USING lsm_index (dev, ts);});
	is(sql(q{SELECT count(*), sum(v) FROM metric; SELECT count(DISTINCT amname) || min(amname) FROM show_chunks('metric') s JOIN pg_class c ON c.oid = s JOIN pg_am a ON a.oid = relam}),
		"1000|500500\n1lsm", "$name: chunks of a hypertable are lsm");
	is(sql(q{SELECT count(*) FROM show_chunks('metric') s, lsm_verify(s)}), '0', "$name: ... and verified");
	is(sql(q{SELECT dev, count(*) FROM metric WHERE ts >= '2026-01-03' AND dev = 3 GROUP BY 1; SELECT drop_chunks('metric', timestamptz '2026-01-03') IS NOT NULL LIMIT 1; SELECT min(ts)::date >= '2026-01-02' FROM metric; DROP TABLE metric}) =~ s/^(t\n)+/t\n/mr,
		sql(q{SELECT 3, count(*) FROM generate_series(1, 1000) g WHERE '2026-01-01'::timestamptz + g * interval '10 minutes' >= '2026-01-03' AND g % 5 = 3}) . "\nt\nt", "$name: queries, drop_chunks");
	return;
}

sub check_cron
{
	my ($name) = @_;
	sql(q{CREATE TABLE jobs (id int PRIMARY KEY) USING lsm; SELECT cron.schedule('j', '* * * * *', 'INSERT INTO jobs VALUES (1) ON CONFLICT DO NOTHING')});
	is(sql('SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = ' . "'cron.job'::regclass"), 'heap', "$name: pg_cron's table");
	if (lsm_long())
	{
		ok($node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM jobs'), "$name: pg_cron's job writes to an lsm table");
	}
	sql(q{SELECT cron.unschedule('j'); DROP TABLE jobs});
	is(sql('SELECT count(*) FROM cron.job'), '0', "$name: pg_cron's jobs can be removed");
	return;
}

$node->safe_psql('postgres', 'CREATE DATABASE lsm_template');
$node->safe_psql('lsm_template', q{CREATE EXTENSION IF NOT EXISTS lsmam; CREATE TABLE t (id int PRIMARY KEY, v text) USING lsm; INSERT INTO t SELECT g, 'v' FROM generate_series(1, 100) g});
# TimescaleDB's worker goes to all databases that let it
$node->safe_psql('postgres', 'ALTER DATABASE lsm_template ALLOW_CONNECTIONS false');
my %created;

# What is loaded at a time: TimescaleDB first of all, and not beside pg_show_plans, whose 2.1.8 crashes with it on
# PostgreSQL 18 when rows are inserted into a hypertable of heap, also without lsmam
my @installed = @found;
my @together = ([ grep { $_ ne 'timescaledb' } @installed ]);
push @together, [ grep { $_ ne 'pg_show_plans' } @installed ] if grep { $_ eq 'timescaledb' } @installed;
foreach my $set (@together)
{
	@found = @$set;
	my ($timescaledb) = grep { $_ eq 'timescaledb' } @found;
	my @first = $timescaledb ? ('timescaledb') : ();
	my @behind = ('auto_explain', grep { $_ ne 'timescaledb' } @found);
	foreach my $last (0, 1)
	{
		my $name = join(', ', @first, $last ? 'lsmam last' : 'lsmam first');

		preload($last ? (@first, @behind, 'lsmam') : ('lsmam', @first, @behind));
		foreach my $extension (grep { !$created{$_}++ } @found)
		{
			# its tables would be lsm
			sql("SET default_table_access_method = lsm; CREATE EXTENSION $extension");
		}
		sql('SELECT pg_stat_statements_reset()');
		compare_twins($name);
		check_our_hooks($name);
		check_hypopg($name) if grep { $_ eq 'hypopg' } @found;
		check_pg_hint_plan($name) if grep { $_ eq 'pg_hint_plan' } @found;
		check_timescaledb($name) if $timescaledb;
		check_cron($name) if grep { $_ eq 'pg_cron' } @found;
		sql('DROP TABLE p_h, q_h, p_l, q_l');
	}
}
is(sql(q{SELECT count(*) FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND d.classid = 'pg_class'::regclass JOIN pg_am a ON a.oid = c.relam
WHERE d.deptype = 'e' AND amname = 'lsm'}), '0', 'no table of an extension is lsm');

$node->stop;
done_testing();
