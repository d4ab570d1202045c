# A hot standby reads lsm indexes and tables, whatever DDL replaces them; a cluster whose WAL was thrown away has lsm tables.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# ---- standby ----

my $primary = lsm_node('primary', conf => "max_wal_senders = 5\nhot_standby = on\nautovacuum = off");
$primary->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($primary);
$primary->safe_psql('postgres', q{
CREATE TABLE h (id int, v text, n int) USING heap;
INSERT INTO h SELECT g, 'v' || g % 1000, g % 10 FROM generate_series(1, 20000) g;
CREATE UNIQUE INDEX h_id ON h USING lsm (id);
CREATE INDEX h_v ON h USING lsm (v, n);
CREATE INDEX h_e ON h USING lsm ((id + n)) WHERE n = 3;
CREATE TABLE other (id int) USING heap;
INSERT INTO other SELECT g FROM generate_series(1, 100) g;
CREATE TABLE p (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE p_heap PARTITION OF p FOR VALUES FROM (0) TO (1000) USING heap;
CREATE TABLE p_lsm PARTITION OF p FOR VALUES FROM (1000) TO (2000) USING lsm;
CREATE INDEX ON p USING lsm (id);
INSERT INTO p SELECT g, 'p' || g FROM generate_series(1, 1999) g;
CREATE TABLE l (id int PRIMARY KEY) USING lsm;
INSERT INTO l VALUES (1);
ANALYZE h, other, p;
SELECT lsm_flush('h')});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', q{INSERT INTO h VALUES (30001, 'late', 1)});
$primary->wait_for_catchup($standby);

my @queries = (
	'SELECT v FROM h WHERE id = 77',
	'SELECT id FROM h WHERE id BETWEEN 100 AND 110 ORDER BY id',
	'SELECT id FROM h ORDER BY id DESC LIMIT 3',
	'SELECT min(id), max(id) FROM h',
	q{SELECT count(*) FROM h WHERE v = 'v5' AND n = 5},
	'SELECT count(*) FROM h WHERE id = ANY (ARRAY[1, 2, 30001])',
	'SELECT count(*) FROM h WHERE id + n = 23 AND n = 3',
	'SELECT count(*) FROM h WHERE id < 10 OR v = \'v7\'',
	'SELECT count(h.v), sum(h.id) FROM other LEFT JOIN h USING (id)',
	'SELECT count(*) FROM other o WHERE EXISTS (SELECT FROM h WHERE h.id = o.id)',
	'SELECT v FROM p WHERE id = 500');
my @settings = ('', 'SET enable_seqscan = off', 'SET enable_seqscan = off; SET enable_bitmapscan = off', 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_seqscan = off', 'SET plan_cache_mode = force_generic_plan', 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off');
foreach my $set (@settings)
{
	my $all = "$set;\n" . join ";\n", @queries;
	my ($rc, $out, $err) = $standby->psql('postgres', $all, on_error_stop => 0);
	is($err, '', "standby: no error ($set)");
	is($out, $primary->safe_psql('postgres', $all), "standby: what the primary answers ($set)");
	my ($prc, $plans, $perr) = $standby->psql('postgres', "$set;\n" . join ";\n", map { "EXPLAIN $_" } @queries);
	like($plans, qr/ h_(id|v|e)\b|p_heap_id_idx/, "standby: plans use lsm indexes ($set)");
}
# what is known of keys stays known
like($standby->safe_psql('postgres', 'EXPLAIN (COSTS off) SELECT other.id FROM other LEFT JOIN h USING (id)'), qr/^Seq Scan on other$/, 'standby: the join with a unique key is removed');
is($standby->safe_psql('postgres', 'SELECT * FROM l'), '1', 'standby: an lsm table');
is($standby->safe_psql('postgres', 'SELECT v FROM p WHERE id = 1500'), 'p1500', 'standby: an lsm partition');
is($standby->safe_psql('postgres', q{SELECT sum(entries) FROM lsm_levels('h_id')}), $primary->safe_psql('postgres', q{SELECT sum(entries) FROM lsm_levels('h_id')}), 'standby: lsm_levels');
is($standby->safe_psql('postgres', q{SELECT * FROM lsm_verify('l')}), '', 'standby: lsm_verify');
my ($rc, $out, $err);
foreach my $write (q{SELECT lsm_flush('l')}, q{SELECT lsm_compact('l')}, 'INSERT INTO l VALUES (2)', 'SELECT * FROM l FOR UPDATE')
{
	($rc, $out, $err) = $standby->psql('postgres', $write);
	like($err, qr/ERROR:  cannot execute (lsm_flush\(\)|lsm_compact\(\)|INSERT|SELECT FOR UPDATE) (during recovery|in a read-only transaction)/, "standby: refused: $write");
}
$primary->safe_psql('postgres', 'CREATE UNLOGGED TABLE un (id int PRIMARY KEY) USING lsm');
$primary->wait_for_catchup($standby);
($rc, $out, $err) = $standby->psql('postgres', q{SELECT * FROM un});
like($err, qr/cannot access temporary or unlogged relations? .*during recovery/, 'standby: an unlogged table');
($rc, $out, $err) = $standby->psql('postgres', q{SELECT * FROM lsm_levels('un')});
like($err, qr/cannot access temporary or unlogged relation "un" during recovery/, 'standby: its files');
is($standby->safe_psql('postgres', q{SELECT total_bytes > 0 FROM lsm_sizes WHERE relname = 'l'; SELECT lsm_relation_size('un'), sum(total_bytes) > 0 FROM lsm_schema_sizes}), "t\n0|t", 'standby: sizes, beside one');
my ($statement) = slurp_file("$ENV{LSM_DOCS}/operating.md") =~ /^(SELECT lsm_report\(array_agg.*?;)$/ms;
like($standby->safe_psql('postgres', $statement // 'SELECT 1'), qr/<html/, 'standby: a report of all trees, as docs/operating.md has it');
# what replaces trees, under a session that has them open
{
	my $reader = $standby->background_psql('postgres', on_error_stop => 0);
	my $look = 'SELECT count(*), sum(id) FROM l; SELECT count(*) FROM l WHERE id = 1';
	$reader->query_safe($look);
	foreach my $change ('TRUNCATE l; INSERT INTO l SELECT generate_series(1, 100)', 'VACUUM FULL l', 'ALTER TABLE l ADD c text DEFAULT random()::text',
		'BEGIN; TRUNCATE l; INSERT INTO l VALUES (5); ROLLBACK', 'REINDEX TABLE l', 'INSERT INTO l SELECT generate_series(101, 5000)', q{SELECT lsm_compact('l')},
		"SET allow_in_place_tablespaces = on; CREATE TABLESPACE space LOCATION ''; ALTER INDEX l_pkey SET TABLESPACE space; INSERT INTO l VALUES (6000)",
		'ALTER TABLE l SET TABLESPACE space; INSERT INTO l VALUES (6001)', 'ALTER TABLE l SET TABLESPACE pg_default',
		'DROP TABLE l; CREATE TABLE l (id int PRIMARY KEY) USING lsm; INSERT INTO l VALUES (1)')
	{
		$primary->safe_psql('postgres', $change);
		$primary->wait_for_catchup($standby);
		is($reader->query($look), $primary->safe_psql('postgres', $look), "standby: after $change");
	}
	$reader->quit;
}
$primary->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE postgres');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('copy', 'SELECT id FROM l'), '1', 'standby: a table of a copied database, before the primary has used it');
is($primary->safe_psql('copy', 'SELECT id FROM l; INSERT INTO l VALUES (2)'), '1', 'the primary uses it');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('copy', 'SELECT id FROM l ORDER BY id'), "1\n2", 'standby: and what it has written');

# a session with prepared statements that lives on
my $session = $standby->background_psql('postgres');
my $explain = 'EXPLAIN (COSTS off) EXECUTE s(77)';
$session->query_safe('SET plan_cache_mode = force_generic_plan; PREPARE s(int) AS SELECT v FROM h WHERE id = $1');
like($session->query_safe($explain), qr/Index Scan using h_id on h/, 'a generic plan made in recovery');
is($session->query_safe('EXECUTE s(77)'), 'v77', 'its answer');
$standby->promote;
is($session->query_safe('SELECT count(*) FROM other'), '100', 'promoted: another query is planned first');
is($session->query_safe('EXECUTE s(77)'), 'v77', 'promoted: its answer');
like($session->query_safe($explain), qr/Index Scan using h_id on h/, 'promoted: the plan is made anew, with the index');
is($session->query_safe('EXECUTE s(30001)'), 'late', 'promoted: the index knows what was replayed');
$session->quit;
is($standby->safe_psql('postgres', "SELECT count(*) FROM l; SELECT * FROM lsm_verify('h')"), '1', 'promoted: lsm tables are read');
$standby->stop;
$primary->stop;

# ---- pg_resetwal ----

# no buffer is written before the crash: a metapage that was names no file that is missing
my $node = lsm_node('reset', conf => "autovacuum = off\ncheckpoint_timeout = 1h\nmax_wal_size = 4GB\nbgwriter_lru_maxpages = 0\nshared_buffers = 256MB\nfsync = off\nlsm.compaction_workers = 0");
lsm_start($node);
sub sql { return $node->safe_psql('postgres', $_[0]); }
sql(q{
CREATE ROLE plain;
CREATE TABLE l (id int PRIMARY KEY, v text) USING lsm;
CREATE TABLE whole (id int PRIMARY KEY, v text) USING lsm;
CREATE TABLE h (id int PRIMARY KEY, v text) USING heap;
CREATE INDEX h_v ON h USING lsm (v);
INSERT INTO l SELECT g, md5(g::text) FROM generate_series(1, 8000) g;
INSERT INTO whole SELECT g, md5(g::text) FROM generate_series(1, 500) g;
INSERT INTO h SELECT g, md5(g::text) FROM generate_series(1, 4000) g;
SELECT lsm_flush('h');
INSERT INTO h SELECT g, md5(g::text) FROM generate_series(4001, 8000) g;
GRANT SELECT ON l TO plain;
SELECT lsm_flush('l'), lsm_flush('whole'), lsm_flush('h')});
sql('DELETE FROM l WHERE id % 10 = 0; SELECT lsm_flush(\'l\')');
# these make new rows, with new keys in all files of the index; those after the checkpoint stay in their rows
sql(q{CREATE INDEX l_moves ON l (v) WHERE v IS NULL; UPDATE l SET v = 'updated' WHERE id % 10 = 1; DROP INDEX l_moves; SELECT lsm_flush('l')});
sql('CHECKPOINT');
sql(q{INSERT INTO l SELECT g, 'late ' || g FROM generate_series(8001, 9000) g; UPDATE l SET v = 'late' WHERE id % 10 = 3;
-- the heap forgets these; the index's files have to be written anew, even if a worker has made one level of them
INSERT INTO h SELECT g, md5(g::text) FROM generate_series(8001, 9000) g});
my $before = sql('SELECT count(*), sum(id), md5(string_agg(v, \',\' ORDER BY id)) FROM l');

# compactions replace all files, and only WAL knows
sql(q{SELECT lsm_compact('l'), lsm_compact('h')});
my $live = sql(q{SELECT sum(n) FROM unnest('{l,l_pkey,whole,whole_pkey,h_v}'::regclass[]) r, LATERAL (SELECT count(*) AS n FROM lsm_files(r)) f});
my $tries = 0;
usleep(100_000) while scalar(() = lsm_files_of($node, qr/\.sst$/)) > $live && $tries++ < 1800;
my $next_xid = sql('SELECT pg_current_xact_id()') + 1000;
my @pids = lsm_pids($node);
kill 'KILL', @pids;
lsm_clear_crashed($node, @pids);
# the checkpoint's next transaction is too low for what the files have
command_ok([ 'pg_resetwal', '-f', '-x', $next_xid, '-D', $node->data_dir ], 'pg_resetwal');
my $files = () = lsm_files_of($node, qr/\.sst$/);
$node->start;

($rc, $out, $err) = $node->psql('postgres', 'SELECT * FROM l');
like($err, qr/ERROR:  could not open sorted file .*No such file or directory\nHINT:  Restore the file from a backup.*lsm\.ignore_missing_files/, 'files are missing: an error that says what can be done');
is(scalar(() = lsm_files_of($node, qr/\.sst$/)), $files, 'no file is removed, though the list does not name them');
like(slurp_file($node->logfile), qr/LOG:  files of "pg_lsm.*" that are not in the list of files are kept/, 'the log says so');
is(sql('SELECT count(*) FROM whole'), '500', 'a table that no one has written to is whole');
is(sql('SELECT count(*) FROM h'), '8000', 'heap');

# asked explicitly
($rc, $out, $err) = $node->psql('postgres', q{SET lsm.ignore_missing_files = on; SET enable_indexscan = off; SELECT count(*), sum(id), md5(string_agg(v, ',' ORDER BY id)) FROM l});
is($out, $before, 'lsm.ignore_missing_files: all rows that are in files, in their last state');
my $missing = () = $err =~ /WARNING:  sorted file "[^"]*" is missing, and reading goes on without it\nDETAIL:  The file had \d+ entries/g;
cmp_ok($missing, '>', 0, 'warnings of missing files');
my $found = () = $err =~ /WARNING:  reading sorted file "[^"]*", which is not in the list of files/g;
cmp_ok($found, '>', 0, 'and of those that the list does not name');
($rc, $out, $err) = $node->psql('postgres', q{SET lsm.ignore_missing_files = on; SET client_min_messages = error; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SELECT v FROM l WHERE ctid = (SELECT max(ctid) FROM l WHERE id % 10 = 1 AND id <= 8000)}, on_error_stop => 0);
is($out, 'updated', 'by TID, too');
foreach my $write ('INSERT INTO l VALUES (0)', 'DELETE FROM l', q{UPDATE l SET v = ''}, 'SELECT * FROM l FOR UPDATE', q{SELECT lsm_compact('l')}, 'VACUUM l')
{
	($rc, $out, $err) = $node->psql('postgres', "SET lsm.ignore_missing_files = on; SET client_min_messages = error;\n$write");
	like($err, qr/ERROR:  (cannot write to LSM tree|could not open sorted file)/, "it is for reading: $write");
}
($rc, $out, $err) = $node->psql('postgres', 'SET lsm.ignore_missing_files = on; SET client_min_messages = error; SELECT count(*) FROM l; RESET lsm.ignore_missing_files; SELECT count(*) FROM l', on_error_stop => 0);
like($err, qr/could not open sorted file/, 'switched off it is an error again, in the same session');
($rc, $out, $err) = $node->psql('postgres', 'SET ROLE plain; SET lsm.ignore_missing_files = on');
like($err, qr/permission denied to set parameter/, 'superusers only');
($rc, $out, $err) = $node->psql('postgres', q{SET lsm.ignore_missing_files = on; SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM h WHERE v > ''});
like($err, qr/could not open sorted file.*REINDEX/s, 'an index has to be rebuilt');

# what docs/troubleshooting.md says
sql('REINDEX TABLE h');
is(sql(q{SET enable_seqscan = off; SELECT id FROM h WHERE v = md5('77')}), '77', 'REINDEX of an index of a heap table');
{
	local $ENV{PGOPTIONS} = '-c lsm.ignore_missing_files=on -c client_min_messages=error';
	command_ok([ 'pg_dump', '-f', "$ENV{TESTDIR}/salvaged.sql", '-t', 'l', '-d', $node->connstr('postgres') ], 'pg_dump');
}
sql('DROP TABLE l');
command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', "$ENV{TESTDIR}/salvaged.sql", '-d', $node->connstr('postgres') ], 'restored');
is(sql('SELECT count(*), sum(id), md5(string_agg(v, \',\' ORDER BY id)) FROM l'), $before, 'what was read is a table again');
is(sql("SELECT * FROM lsm_verify('l')"), '', 'which is whole');

# nothing missing: the setting changes nothing
sql(q{INSERT INTO l SELECT g, 'more' FROM generate_series(10001, 12000) g; SELECT lsm_flush('l')});
($rc, $out, $err) = $node->psql('postgres', q{SET lsm.ignore_missing_files = on; SELECT count(*) FROM l WHERE v = 'more'; UPDATE l SET v = 'm' WHERE v = 'more'; SELECT lsm_compact('l')});
is($err, '', 'with all files there, no warning and no restriction');

# one file lost, of several runs: what the others have
sql(q{DELETE FROM l WHERE id % 10 = 2; SELECT lsm_flush('l'); CHECKPOINT});
my ($number, $bytes) = split /\|/, sql(q{SELECT file, bytes FROM lsm_files('l') ORDER BY bytes DESC, file LIMIT 1});
$node->stop;
my ($path) = grep { -s $_ == $bytes } lsm_files_of($node, qr/^0*$number\.sst$/);
unlink $path or die "$path: $!";
$node->start;
($rc, $out, $err) = $node->psql('postgres', 'SET lsm.ignore_missing_files = on; SELECT count(*) >= 0 FROM l');
is("$rc $out", '0 t', 'one file is lost: the others are read');
like($err, qr/WARNING:  sorted file "\Q$path\E" is missing/, 'with a warning') if $path =~ s{.*/(pg_lsm/)}{$1};

# What runs say of one row is settled, whichever of them comes first, and however they are read.  Here a compaction's output
# that no list names has the rows as they were before they were changed; and a file is lost.  (Of level 0 there are too few
# to be compacted.)
foreach my $updates ('in place', 'by new rows')
{
	sql(q{CREATE TABLE s (id int, v int) USING lsm; INSERT INTO s SELECT g, 0 FROM generate_series(1, 2000) g; SELECT lsm_compact('s')});
	sql('CREATE INDEX ON s (v) WHERE v IS NULL') if $updates eq 'by new rows';
	sql(q{UPDATE s SET v = v + 1 WHERE id % 2 = 0; SELECT lsm_flush('s'); DELETE FROM s WHERE id % 3 = 0; SELECT lsm_flush('s');
INSERT INTO s SELECT g, 0 FROM generate_series(100001, 100100) g; SELECT lsm_flush('s'); CHECKPOINT});
	my $settled = 'SELECT count(*), sum(id), sum(v) FROM s WHERE id <= 6000';
	my $right = sql($settled);
	my @runs = split /\n/, sql(q{SELECT file || ' ' || bytes FROM lsm_files('s') ORDER BY file});
	cmp_ok(scalar(@runs), '>=', 4, "updates $updates: there are four runs");
	($number, $bytes) = split / /, $runs[-1];
	$node->stop;
	($path) = grep { -s $_ == $bytes } lsm_files_of($node, qr/^0*$number\.sst$/);
	unlink $path or die "$path: $!";
	($number, $bytes) = split / /, $runs[0];
	($path) = grep { -s $_ == $bytes } lsm_files_of($node, qr/^0*$number\.sst$/);
	system_or_bail('cp', '-p', $path, $path =~ s{[^/]*$}{999998.sst}r);
	$node->start;
	foreach my $how ('', 'SET enable_seqscan = off; SET enable_tidscan = on; ')
	{
		my $query = $how ? 'SELECT count(*), sum(id), sum(v) FROM s WHERE id <= 6000 AND ctid > \'(0,0)\'' : $settled;
		($rc, $out, $err) = $node->psql('postgres', "SET client_min_messages = error; SET lsm.ignore_missing_files = on; $how$query");
		is($out, $right, "updates $updates: runs in no order are settled");
	}
	sql('DROP TABLE s');
}

# Indexes do not forget the rows of a file that comes back.
sql(q{DROP TABLE l; CREATE TABLE l (id int, n int, v text) USING lsm; CREATE INDEX l_lsm ON l USING lsm (id); CREATE INDEX l_btree ON l USING btree (n);
INSERT INTO l SELECT g, g, md5(g::text) FROM generate_series(1, 3000) g; SELECT lsm_flush('l'); CHECKPOINT});
my @by = map { "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(v) FROM l WHERE $_ > 0" } ('id', 'n');
($path) = lsm_files_of($node, qr/\.sst$/);
($number, $bytes) = split /\|/, sql(q{SELECT file, bytes FROM lsm_files('l') ORDER BY bytes DESC, file LIMIT 1});
$node->stop;
($path) = grep { -s $_ == $bytes } lsm_files_of($node, qr/^0*$number\.sst$/);
rename($path, "$path.saved") or die "$path: $!";
$node->start;
foreach my $query (@by, @by, 'VACUUM l', 'VACUUM (INDEX_CLEANUP on) l', 'VACUUM FULL l', 'CLUSTER l USING l_btree')
{
	($rc, $out, $err) = $node->psql('postgres', "SET client_min_messages = error; SET lsm.ignore_missing_files = on; $query");
	if ($query =~ /SELECT/) { cmp_ok($out, '<', 3000, 'by index: rows are missing'); }
	else { like($err, qr/ERROR:  (cannot write to LSM tree|could not open sorted file)/, "it is for reading: $query"); }
}
$node->stop;
rename("$path.saved", $path) or die "$path: $!";
$node->start;
is(sql($_), '3000', 'the file is there again, by index') foreach @by;
sql('UPDATE l SET n = n + 1 WHERE id % 3 = 0; VACUUM l');
is(sql($_), '3000', 'and after an update') foreach @by;
is(sql(q{SELECT * FROM lsm_verify('l')}), '', 'lsm_verify');
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, 'no crash');
$node->stop;
done_testing();
