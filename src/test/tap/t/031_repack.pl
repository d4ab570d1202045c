# Tools that rewrite a table beside its users and exchange files in pg_class: pg_repack
# as Debian ships it, and by hand.
# packages: postgresql-NN-repack
use strict;
use warnings;
use IPC::Run;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('main', conf => 'autovacuum = on');
my $have_repack = -x $node->config_data('--bindir') . '/pg_repack';
mkdir $node->basedir . '/space';
lsm_start($node);
$node->safe_psql('postgres', 'CREATE TABLESPACE space LOCATION ' . "'" . $node->basedir . "/space'");

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub crash_and_restart
{
	my @pids = lsm_pids($node);
	$node->stop('immediate');
	lsm_clear_crashed($node, @pids);
	$node->start;
	return;
}

sub no_crash
{
	my ($name) = @_;
	unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, $name);
	return;
}

# ---- pg_repack ----

sub repack
{
	my (@options) = @_;
	my ($out, $err);
	my $ok = IPC::Run::run([ 'pg_repack', '--no-kill-backend', '-h', $node->host, '-p', $node->port, '-d', 'postgres', @options ], '>', \$out, '2>', \$err);
	note("pg_repack @options: $out$err");
	return $ok && $err !~ /ERROR|WARNING/;
}

# A table with what pg_repack has to carry over: long values, dropped columns, several indexes
sub make_table
{
	my ($name, $am, $index) = @_;
	sql(qq{
SET default_table_access_method = $am;
CREATE TABLE $name (gone int, id int, v text, long text, PRIMARY KEY (id));
CREATE INDEX ${name}_v ON $name USING $index (v);
CREATE UNIQUE INDEX ${name}_u ON $name USING $index (id, v) WHERE id > 10;
CREATE INDEX ${name}_e ON $name USING $index (upper(v));
ALTER TABLE $name DROP COLUMN gone;
ALTER TABLE $name ALTER long SET STORAGE EXTERNAL;
INSERT INTO $name SELECT g, 'v' || g % 100, CASE WHEN g % 50 = 0 THEN repeat(md5(g::text), 200) END FROM generate_series(1, 3000) g;
DELETE FROM $name WHERE id % 3 = 0;
UPDATE $name SET v = v || 'x' WHERE id % 7 = 0;
});
	return;
}

sub content { my ($name) = @_; return sql("SELECT count(*), sum(id), md5(string_agg(t::text, ',' ORDER BY id)) FROM $name t"); }
sub am { my ($name) = @_; return sql("SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = '$name'::regclass"); }

sub check_table
{
	my ($name, $am, $before, $what) = @_;
	is(content($name), $before, "$what: rows");
	is(am($name), $am, "$what: access method");
	is(sql("SELECT count(*) FROM lsm_verify('$name')"), '0', "$what: lsm_verify") if $am eq 'lsm';
	is(sql("SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*), min(v) FROM $name WHERE id = 2000; SELECT count(*) FROM $name WHERE v = 'v50'; SELECT count(*) FROM $name WHERE upper(v) = 'V77X'"),
		sql("SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SELECT count(*), min(v) FROM $name WHERE id = 2000; SELECT count(*) FROM $name WHERE v = 'v50'; SELECT count(*) FROM $name WHERE upper(v) = 'V77X'"),
		"$what: indexes");
	my ($rc, $out, $err) = $node->psql('postgres', "INSERT INTO $name (id, v) VALUES (2000, 'double')");
	like($err, qr/duplicate key/, "$what: the key holds");
	sql("VACUUM (FREEZE) $name; ANALYZE $name");
	is(content($name), $before, "$what: rows after VACUUM");
	return;
}

SKIP:
{
	skip 'pg_repack is not installed', 1 unless $have_repack;
	sql('CREATE EXTENSION pg_repack');

	# [ access method of the table, the default, of the indexes, relations' way back ]
	foreach my $case ([ 'lsm', 'heap', 'lsm_index' ], [ 'heap', 'lsm', 'btree' ], [ 'heap', 'lsm', 'lsm_index' ], [ 'lsm', 'lsm', 'btree' ])
	{
		my ($am, $default, $index) = @$case;
		my $name = "t_${am}_${default}_$index";
		make_table($name, $am, $index);
		sql("ALTER SYSTEM SET default_table_access_method = $default; SELECT pg_reload_conf()");
		$node->poll_query_until('postgres', 'SHOW default_table_access_method', $default);
		my $before = content($name);
		my $file = sql("SELECT pg_relation_filepath('$name')");
		ok(repack('--no-order', '--table', $name), "$name: pg_repack");
		isnt(sql("SELECT pg_relation_filepath('$name')"), $file, "$name: it has a new file");
		check_table($name, $am, $before, $name);
		sql("SELECT lsm_flush('$name')") if $am eq 'lsm';
		ok(repack('--order-by', 'v, id', '--table', $name), "$name: pg_repack in order");
		ok(repack('--only-indexes', '--table', $name), "$name: pg_repack of its indexes");
		ok(repack('--no-order', '--tablespace', 'space', '--moveidx', '--table', $name), "$name: pg_repack to another tablespace");
		check_table($name, $am, $before, "$name, again");
		if ($am eq 'lsm')
		{
			# whose lock the workers take: also for the file that came from elsewhere
			is(sql("SELECT count(*) FROM pg_stat_lsm WHERE relid = '$name'::regclass"), '1', "$name: in pg_stat_lsm");
		}
		crash_and_restart();
		check_table($name, $am, $before, "$name, after a crash");
	}
	is(sql(q{SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'repack' AND relname ~ '^(table|log|index)_[0-9]'}), '0', 'nothing is left over');
	sql('ALTER SYSTEM RESET default_table_access_method; SELECT pg_reload_conf()');
	$node->poll_query_until('postgres', 'SHOW default_table_access_method', 'heap');

	# beside writers
	make_table('busy', 'lsm', 'lsm_index');
	my $script = lsm_script('busy', q{
\set id random(1, 6000)
\set n random(1, 1000000)
INSERT INTO busy (id, v) VALUES (:id, 'w' || :n) ON CONFLICT (id) DO UPDATE SET v = excluded.v, long = repeat('y', :n % 9000);
DELETE FROM busy WHERE id = :id + 1;
UPDATE busy SET id = id + 10000 WHERE id = :id + 2 AND NOT EXISTS (SELECT FROM busy b WHERE b.id = :id + 10002);
});
	my $seconds = lsm_long() ? 300 : 6;
	my $pgbench = IPC::Run::start([ 'pgbench', '-n', '-c', '3', '-j', '1', '-T', $seconds, '-f', $script, '-h', $node->host, '-p', $node->port, '--max-tries', '100', 'postgres' ], '>', \my $out, '2>', \my $err);
	my $rounds = 0;
	my $end = time + $seconds - 2;
	while (time < $end)
	{
		last unless repack('--no-order', '--wait-timeout', '30', '--table', 'busy');
		$rounds++;
	}
	cmp_ok($rounds, '>', 0, 'pg_repack beside writers');
	$pgbench->finish;
	unlike($err, qr/error|abort/i, 'the writers saw no error') or diag($err);
	is(sql('SELECT count(*) FROM (SELECT id FROM busy GROUP BY id HAVING count(*) > 1) d'), '0', 'no key is there twice');
	is(sql("SELECT count(*) FROM lsm_verify('busy')"), '0', 'lsm_verify finds nothing wrong');

	# the journal of a trigger has seen everything that the table has
	sql(q{
CREATE TABLE journal (n bigserial, op text, id int, v text) USING heap;
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP <> 'INSERT' THEN INSERT INTO journal (op, id) VALUES ('-', OLD.id); END IF;
	IF TG_OP <> 'DELETE' THEN INSERT INTO journal (op, id, v) VALUES ('+', NEW.id, NEW.v); END IF;
	RETURN NULL;
END $$;
TRUNCATE busy;
CREATE TRIGGER keep AFTER INSERT OR UPDATE OR DELETE ON busy FOR EACH ROW EXECUTE FUNCTION keep()});
	$pgbench = IPC::Run::start([ 'pgbench', '-n', '-c', '2', '-j', '1', '-T', $seconds, '-f', $script, '-h', $node->host, '-p', $node->port, '--max-tries', '100', 'postgres' ], '>', \$out, '2>', \$err);
	$end = time + $seconds - 2;
	while (time < $end)
	{
		last unless repack('--no-order', '--wait-timeout', '30', '--table', 'busy');
	}
	$pgbench->finish;
	crash_and_restart();
	is(sql(q{
WITH last AS (SELECT DISTINCT ON (id) id, op, v FROM journal ORDER BY id, n DESC), expected AS (SELECT id, v FROM last WHERE op = '+')
SELECT count(*) FROM ((TABLE expected EXCEPT ALL SELECT id, v FROM busy) UNION ALL (SELECT id, v FROM busy EXCEPT ALL TABLE expected)) d}), '0', 'every row is there as it was written last');
	is(sql("SELECT count(*) FROM lsm_verify('busy')"), '0', 'lsm_verify after a crash');
	no_crash('pg_repack crashes nothing');
}

# ---- any other tool ----

sql(q{
CREATE TABLE a (id int PRIMARY KEY, v text) USING lsm;
CREATE TABLE b (id int PRIMARY KEY, v text) USING heap WITH (autovacuum_enabled = off);
INSERT INTO a SELECT g, 'lsm ' || g FROM generate_series(1, 500) g;
INSERT INTO b SELECT g, 'heap ' || g FROM generate_series(1, 500) g});
my $exchange = q{
SET allow_system_table_mods = on;
CREATE TEMP TABLE files AS SELECT oid, relfilenode FROM pg_class WHERE oid IN ('a'::regclass, 'b'::regclass);
UPDATE pg_class c SET relfilenode = f.relfilenode FROM files f WHERE f.oid <> c.oid AND c.oid IN ('a'::regclass, 'b'::regclass);
};
foreach my $locked ('a, b', 'a', 'b')
{
	my ($rc, $out, $err) = $node->psql('postgres', "BEGIN; LOCK TABLE $locked IN ACCESS EXCLUSIVE MODE; $exchange COMMIT", on_error_stop => 0);
	like($err, qr/ERROR:  relation "[ab]" cannot be given the file of a relation with another access method/, "files exchanged with $locked locked: refused");
}
{
	my $many = 'DO $$ BEGIN FOR i IN 1..520 LOOP EXECUTE format(\'CREATE TEMP TABLE many_%s ()\', i); END LOOP; END $$';
	my ($rc, $out, $err) = $node->psql('postgres', "BEGIN; $many; LOCK TABLE a, b IN ACCESS EXCLUSIVE MODE; $exchange COMMIT", on_error_stop => 0);
	like($err, qr/ERROR:  relation "[ab]" cannot be given the file of a relation with another access method/, '... behind so many others that notes of them are not kept: refused');
}
is(sql('SELECT max(v) FROM a UNION ALL SELECT max(v) FROM b'), "lsm 99\nheap 99", 'both tables are as they were');

# two lsm tables may be exchanged, and are then each other
sql(q{CREATE TABLE c (id int PRIMARY KEY, v text) USING lsm; INSERT INTO c SELECT g, 'other ' || g FROM generate_series(1, 500) g});
(my $both_lsm = $exchange) =~ s/'b'::/'c'::/g;
(my $keys = $both_lsm) =~ s/'([ac])'::/'$1_pkey'::/g;
$keys =~ s/files/keyfiles/g;
sql("BEGIN; LOCK TABLE a, c IN ACCESS EXCLUSIVE MODE; $both_lsm; $keys; COMMIT");
is(sql('SELECT v FROM a WHERE id = 99 UNION ALL SELECT v FROM c WHERE id = 99'), "other 99\nlsm 99", 'two lsm tables have exchanged files');
sql('DROP TABLE c; VACUUM a');
sql(q{SELECT lsm_flush('a'), lsm_compact('a')});
is(sql("SELECT count(*) FROM lsm_verify('a')"), '0', 'lsm_verify of one, the other dropped');

# by hand, without a lock: nothing stops it, and what was meant to be clever can be undone
sql("BEGIN; DROP INDEX IF EXISTS none; $exchange COMMIT");
foreach my $query ('SELECT * FROM a', 'INSERT INTO a VALUES (0)', 'VACUUM a', 'ANALYZE a', "SELECT lsm_compact('a')", 'CREATE INDEX ON a (v)', 'SELECT * FROM a WHERE id = 1')
{
	my ($rc, $out, $err) = $node->psql('postgres', $query);
	like($err, qr/ERROR:  block 0 of file "base.*" of table "a" is not a valid lsm metapage\nDETAIL:  The file has pages of a heap table.*\nHINT:  The rows in the file can be read as a heap table: .*relam = 2 WHERE oid = \d+/, "$query: error, cause and way back");
}
crash_and_restart();
my ($rc, $out, $err) = $node->psql('postgres', 'SELECT * FROM a');
like($err, qr/of table "a" is not a valid lsm metapage/, 'also after a restart');
# the way back, as the hint has it
($err) = $err =~ /run (SET .*?); REINDEX TABLE\./;
sql("$err; REINDEX TABLE a");
is(sql('SELECT count(*), max(v) FROM a'), '500|heap 99', 'the rows are read as a heap table');
sql('ALTER TABLE a SET ACCESS METHOD lsm');
is(sql('SELECT count(*), max(v) FROM a'), '500|heap 99', 'and are an lsm table again');
is(sql("SELECT count(*) FROM lsm_verify('a')"), '0', 'which lsm_verify likes');

# b has the fork of an lsm table, as b. The way back is the same the other way round.
sql(q{SET allow_system_table_mods = on; UPDATE pg_class SET relam = (SELECT oid FROM pg_am WHERE amname = 'lsm') WHERE oid = 'b'::regclass; REINDEX TABLE b});
is(sql('SELECT count(*), max(v) FROM b'), '500|other 99', 'the lsm file is read by an lsm table');
sql('DROP TABLE b');

# ---- forks that are damaged ----

sub break_fork
{
	my ($relation, $how) = @_;
	my $path = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$relation')");
	$node->stop;
	if ($how eq 'empty') { truncate($path, 0) or die "$path: $!"; }
	elsif ($how eq 'zero')
	{
		open my $fh, '+<', $path or die "$path: $!";
		print $fh "\0" x 8192;
		close $fh;
	}
	$node->start;
	return;
}

sql('CREATE INDEX a_v ON a USING lsm (v)');
sql('CHECKPOINT');
break_fork('a_v', 'empty');
($rc, $out, $err) = $node->psql('postgres', "SET enable_seqscan = off; SELECT * FROM a WHERE v = 'heap 99'");
like($err, qr/ERROR:  block 0 of file ".*" of index "a_v" is not a valid lsm metapage\nDETAIL:  The file is empty.\nHINT:  Rebuild the index with REINDEX/, 'an empty fork of an index');
sql('REINDEX INDEX a_v');
is(sql("SET enable_seqscan = off; SELECT id FROM a WHERE v = 'heap 99'"), '99', 'it is rebuilt');
foreach my $how ('zero', 'empty')
{
	break_fork('a', $how);
	foreach my $query ('SELECT * FROM a', 'INSERT INTO a VALUES (0)', 'VACUUM a')
	{
		($rc, $out, $err) = $node->psql('postgres', $query);
		like($err, qr/ERROR:  block 0 of file ".*" of table "a" is not a valid lsm metapage\nDETAIL:  .* empty\.\nHINT:  Restore/, "fork $how: $query");
	}
}
sql('TRUNCATE a');
sql(q{INSERT INTO a VALUES (1, 'new')});
is(sql('TABLE a'), '1|new', 'TRUNCATE makes it a table again');
sql('DROP TABLE a');
no_crash('nothing has crashed');
$node->stop;
done_testing();
