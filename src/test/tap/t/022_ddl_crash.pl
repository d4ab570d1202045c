# Random DDL and DML of several clients, with savepoints, rollbacks and prepared transactions, while the server
# is killed: the same statements on a heap table (btree and lsm indexes) and on an lsm table in one transaction leave the same,
# all ways to scan agree, nothing fails but what fails on heap, and no directory is left without an owner.
# No unlogged tables: if one is rolled back and the server killed before that is flushed, PostgreSQL 15 finds its init fork
# again beside its main fork, and does not start, heap or not.  And no SET TABLESPACE of heap tables: if rolled back, their
# indexes keep entries of rows that only the copy had.
#   LSM_SEED=...  LSM_KILLS (6; long: 150)
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

lsm_seed();
my $kills = $ENV{LSM_KILLS} // (lsm_long() ? 150 : 6);
my $clients = 3;
my $node = lsm_node('ddlcrash', conf => "log_min_messages = error\nallow_in_place_tablespaces = on\nlsm.memtable_size = 128kB\nlsm.target_file_size = 128kB\n"
	  . "lsm.size_ratio = 3\nmax_prepared_transactions = 10\nmax_wal_size = 256MB\nwal_level = @{[ rand() < 0.5 ? 'minimal' : 'replica' ]}\nmax_wal_senders = 0");
lsm_start($node);
$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION ''");
my $dir = PostgreSQL::Test::Utils::tempdir();

sub pick { return $_[ int(rand(@_)) ]; }

# @: h or l; the client's number is in the names
sub create
{
	my ($c) = @_;
	return ("CREATE TABLE t\@$c (id int PRIMARY KEY, a int, v text) USING AM" . pick('', ' TABLESPACE other'),
		"CREATE INDEX t\@${c}_a ON t\@$c USING IX (a)", "CREATE UNIQUE INDEX t\@${c}_v ON t\@$c USING IX (v, id)",
		"INSERT INTO t\@$c SELECT i, i % 100, 'created ' || i FROM generate_series(1, " . pick(0, 300, 3000) . ") i");
}

sub dml
{
	my ($c) = @_;
	my $from = int(rand(4000));
	my $n = pick(1, 50, 500);
	my $to = $from + $n;
	return pick(
		("INSERT INTO t\@$c (id, a, v) SELECT i, i % 100, 'i' || repeat('x', i % 300) FROM generate_series($from, $to) i ON CONFLICT (id) DO UPDATE SET a = t\@$c.a + 1") x 3,
		"UPDATE t\@$c SET a = a + 1 WHERE id BETWEEN $from AND $to",
		"UPDATE t\@$c SET v = left(v, 200) || 'u' WHERE a = $from % 100",
		"DELETE FROM t\@$c WHERE id BETWEEN $from AND $to",
		"DELETE FROM t\@$c WHERE a = $from % 100");
}

# Of equal keys the same row must stay in both tables, and only lsm has rows in the order of their insertion.
sub unique_again
{
	my ($c) = @_;
	return "DELETE FROM t\@$c o USING t\@$c n WHERE o.id = n.id AND ((o.v, o.a) < (n.v, n.a) OR (o.v, o.a) = (n.v, n.a) AND o.ctid < n.ctid)";
}

sub ddl
{
	my ($c) = @_;
	my $space = pick('other', 'pg_default');
	return pick(
		[ "TRUNCATE t\@$c" ],
		[ "ALTER TABLE t\@$c ALTER a TYPE " . pick('bigint', 'int', 'numeric') ],
		[ "ALTER TABLE t\@$c ADD COLUMN IF NOT EXISTS x int DEFAULT 5" ],
		[ "ALTER TABLE t\@$c ADD COLUMN IF NOT EXISTS y float8 DEFAULT random() * 0" ],
		[ "ALTER TABLE t\@$c DROP COLUMN IF EXISTS x, DROP COLUMN IF EXISTS y" ],
		[ "ALTER TABLE tl$c SET TABLESPACE $space", dml($c) ],
		[ "ALTER INDEX t\@${c}_a SET TABLESPACE $space" ],
		[ "ALTER TABLE t\@$c DROP CONSTRAINT t\@${c}_pkey", dml($c) =~ s/ ON CONFLICT.*//r, unique_again($c), "ALTER TABLE t\@$c ADD PRIMARY KEY (id)" ],
		[ "DROP INDEX t\@${c}_a", "CREATE INDEX t\@${c}_a ON t\@$c USING IX (a)" ],
		[ "CLUSTER t\@$c USING t\@${c}_pkey" ],
		[ "REINDEX TABLE t\@$c" ],
		[ "DROP TABLE t\@$c", create($c) ],
		[ "ALTER TABLE t\@$c RENAME TO r\@$c", dml($c) =~ s/ INTO t/ INTO r/r =~ s/UPDATE t/UPDATE r/r =~ s/FROM t\@/FROM r\@/r =~ s/ SET a = t\@/ SET a = r\@/r, "ALTER TABLE r\@$c RENAME TO t\@$c" ],
		[ "CREATE TABLE n\@$c USING AM AS SELECT id, a::int AS a, v FROM t\@$c", "DROP TABLE t\@$c", "ALTER TABLE n\@$c RENAME TO t\@$c", "ALTER TABLE t\@$c ADD PRIMARY KEY (id)",
			"CREATE INDEX t\@${c}_a ON t\@$c USING IX (a)", "CREATE UNIQUE INDEX t\@${c}_v ON t\@$c USING IX (v, id)" ],
		[ "CREATE TABLE p\@$c (id int PRIMARY KEY, a int, v text) PARTITION BY RANGE (id)", "CREATE TABLE p\@${c}_1 PARTITION OF p\@$c FOR VALUES FROM (0) TO (1000) USING AM",
			"INSERT INTO p\@$c SELECT i, i, 'p' FROM generate_series(0, 999) i", "UPDATE p\@$c SET a = 0 WHERE id % 2 = 0", "DROP TABLE p\@$c" ],
		[ "CREATE MATERIALIZED VIEW m\@$c USING AM AS SELECT id, v FROM t\@$c", "CREATE UNIQUE INDEX ON m\@$c USING IX (id)", "REFRESH MATERIALIZED VIEW " . pick('', 'CONCURRENTLY ') . "m\@$c", "DROP MATERIALIZED VIEW m\@$c" ]);
}

# The same for h and l
sub both
{
	my (@statements) = @_;
	my @sql;
	foreach my $statement (@statements)
	{
		push @sql, $statement =~ s/\@/h/gr =~ s/USING AM/USING heap/r =~ s/USING IX/'USING ' . pick('btree', 'lsm')/er;
		push @sql, $statement =~ s/\@/l/gr =~ s/USING AM/USING lsm/r =~ s/USING IX/USING lsm/r if $statement =~ /\@/;
	}
	return @sql;
}

sub transaction
{
	my ($c, $n) = @_;
	my @body;
	foreach (1 .. 1 + int(rand(4)))
	{
		my @part = map { rand() < 0.5 ? dml($c) : @{ ddl($c) } } 1 .. 1 + int(rand(2));
		my $dice = rand();
		push @body, $dice < 0.25 ? ('SAVEPOINT s', @part, 'ROLLBACK TO s') : $dice < 0.4 ? ('SAVEPOINT s', @part, 'RELEASE s') : @part;
	}
	my $end = rand();
	return ('BEGIN', both(@body), $end < 0.65 ? 'COMMIT' : $end < 0.85 ? 'ROLLBACK' : ("PREPARE TRANSACTION 'c$c'", 'SELECT pg_sleep(0.02)', pick('COMMIT', 'ROLLBACK') . " PREPARED 'c$c'"));
}

sub alone
{
	my ($c) = @_;
	return pick("VACUUM tl$c", "VACUUM FULL tl$c", "VACUUM (FREEZE) tl$c", "SELECT lsm_flush('tl$c')", "SELECT lsm_compact('tl$c')",
		"SELECT lsm_compact('tl${c}_a')", "REINDEX TABLE CONCURRENTLY tl$c", "REINDEX INDEX tl${c}_v", "CREATE INDEX CONCURRENTLY IF NOT EXISTS tl${c}_c ON tl$c USING lsm (v, a)",
		"DROP INDEX CONCURRENTLY IF EXISTS tl${c}_c", 'CHECKPOINT', "BEGIN; ALTER TABLE tl$c SET ACCESS METHOD heap; ALTER TABLE tl$c SET ACCESS METHOD lsm; COMMIT", "CLUSTER tl$c USING tl${c}_pkey",
		"ALTER TABLE tl$c SET TABLESPACE other", "ALTER TABLE tl$c SET TABLESPACE pg_default", "ALTER INDEX tl${c}_v SET TABLESPACE other");
}

sub write_script
{
	my ($c, $file) = @_;
	open my $fh, '>', $file or die;
	foreach my $n (1 .. 400)
	{
		my @sql = rand() < 0.35 ? alone($c) : transaction($c, $n);
		print $fh join(";\n", @sql), ";\n";
	}
	close $fh;
	return;
}

sub finish_prepared
{
	foreach my $gid (split /\n/, $node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts'))
	{
		$node->safe_psql('postgres', pick('COMMIT', 'ROLLBACK') . " PREPARED '$gid'");
	}
	return;
}

# What may be said without being wrong
my $expected = join('|', 'terminating connection', 'server closed', 'This probably means', 'before or while processing', 'connection to (the )?server', 'the database system',
	'prepared transaction with identifier', 'current transaction is aborted', 'deadlock detected', 'cannot (PREPARE|ALTER|TRUNCATE|CLUSTER|REINDEX|create|drop|change)', 'already exists',
	'does not exist', 'could not create unique index', 'duplicate key', 'pending trigger events', 'is being used by active queries', 'no transaction in progress',
	'LINE \d', 'DETAIL', 'HINT', 'NOTICE', 'CONTEXT', 'WARNING', '\^\s*$', '^\s*$');

my $bad = 0;
my $statements = 0;
$node->safe_psql('postgres', join(";\n", map { both(create($_)) } 1 .. $clients));
foreach my $round (1 .. $kills)
{
	my @psql;
	foreach my $c (1 .. $clients)
	{
		write_script($c, "$dir/script_$c.sql");
		push @psql, lsm_spawn_psql($node, "$dir/script_$c.sql", "$dir/out_$c", '-v', 'ON_ERROR_STOP=0', '-e');
	}
	usleep(300_000 + int(rand(2_500_000)));
	my @pids = lsm_pids($node);
	my $what = pick('postmaster', 'postmaster', 'backend', 'worker', 'checkpointer');
	lsm_kill_process($node, $what) or lsm_kill_process($node, $what = 'postmaster');
	waitpid($_, 0) foreach @psql;
	$what eq 'postmaster' ? lsm_restart_after_crash($node, @pids) : lsm_wait_up($node);

	foreach my $c (1 .. $clients)
	{
		$statements += () = slurp_file("$dir/out_$c") =~ /;$/mg;
		my @odd = grep { $_ !~ $expected } split /\n/, slurp_file("$dir/out_$c.err");
		next unless @odd;
		fail("round $round: no unexpected message");
		diag(join("\n", @odd[ 0 .. ($#odd > 10 ? 10 : $#odd) ]));
		$bad++;
	}
	finish_prepared();
	foreach my $c (1 .. $clients)
	{
		my ($rc, $out, $err) = $node->psql('postgres', qq{
DROP INDEX IF EXISTS tl${c}_c;
SELECT 'columns differ' FROM (SELECT array_agg(attname::text ORDER BY attnum) FILTER (WHERE attrelid = 'th$c'::regclass) h, array_agg(attname::text ORDER BY attnum) FILTER (WHERE attrelid = 'tl$c'::regclass) l
 FROM pg_attribute WHERE attrelid IN ('th$c'::regclass, 'tl$c'::regclass) AND attnum > 0 AND NOT attisdropped) s WHERE h <> l;
SELECT count(*) || ' rows differ' FROM ((SELECT * FROM th$c EXCEPT ALL SELECT * FROM tl$c) UNION ALL (SELECT * FROM tl$c EXCEPT ALL SELECT * FROM th$c)) d HAVING count(*) > 0;
SELECT object || ': ' || problem FROM lsm_verify('tl$c') LIMIT 20;
SET enable_seqscan = off;
SELECT 'by key: ' || count(*) FROM (SELECT id FROM tl$c WHERE id > -100 EXCEPT ALL SELECT id FROM th$c) d HAVING count(*) > 0;
SELECT 'by a: ' || count(*) FROM (SELECT a FROM tl$c WHERE a > -100 EXCEPT ALL SELECT a FROM th$c) d HAVING count(*) > 0;
SELECT 'by v: ' || count(*) FROM (SELECT v FROM tl$c WHERE v > '' EXCEPT ALL SELECT v FROM th$c) d HAVING count(*) > 0;
SELECT 'heap by a: ' || count(*) FROM (SELECT a FROM tl$c EXCEPT ALL SELECT a FROM th$c WHERE a > -100) d HAVING count(*) > 0;
SELECT 'heap by v: ' || count(*) FROM (SELECT v FROM tl$c EXCEPT ALL SELECT v FROM th$c WHERE v > '') d HAVING count(*) > 0;
SELECT object || ': ' || problem FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam, LATERAL lsm_verify(indexrelid) v
 WHERE indrelid = 'th$c'::regclass AND amname = 'lsm_index' LIMIT 20;
});
		if ($rc != 0 || $out ne '' || $err =~ /ERROR|WARNING/)
		{
			fail("round $round, after killing a $what: table of client $c");
			diag("$out\n$err");
			$bad++;
		}
		# what REINDEX CONCURRENTLY has left
		$node->safe_psql('postgres', qq{DO \$\$ DECLARE i regclass; BEGIN FOR i IN SELECT indexrelid FROM pg_index WHERE indrelid = 'tl$c'::regclass AND NOT indisvalid LOOP EXECUTE 'DROP INDEX ' || i; END LOOP; END \$\$});
	}
	last if $bad;
	# columns may have come together and values with them: start over now and then
	$node->safe_psql('postgres', join(";\n", map { ("DROP TABLE th$_, tl$_", both(create($_))) } 1 .. $clients)) if $round % 5 == 0;
}
is($bad, 0, "$kills kills in DDL, $statements statements: nothing lost, nothing too much");
cmp_ok($statements, '>', $kills * 30, 'statements were executed');

# What is left on disk belongs to a main fork, as its owner file or the fork's metapage says: crashed creations
# and copies leave theirs for ever
sub belongs
{
	my ($keyspace, $metapages) = @_;
	return 1 if index($metapages, pack('Q<', hex(substr($keyspace, -16)))) >= 0;
	foreach my $line (split /\n/, eval { slurp_file("$keyspace/owner") } // '')
	{
		my ($db, $space, $file) = split ' ', $line;
		my ($base) = $space == 1663 ? $node->data_dir . '/base' : glob($node->data_dir . "/pg_tblspc/$space/PG_*");
		return 1 if -s "$base/$db/$file";
	}
	return 0;
}
$node->safe_psql('postgres', join(";\n", map { "DROP TABLE th$_, tl$_" } 1 .. $clients));
my @left;
foreach (1 .. 2 * $PostgreSQL::Test::Utils::timeout_default)
{
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $metapages = '';
	foreach my $fork (glob($node->data_dir . '/base/*/*'), glob($node->data_dir . '/pg_tblspc/*/PG_*/*/*'))
	{
		next unless $fork =~ m{/\d+$} && open(my $fh, '<:raw', $fork);
		read($fh, $metapages, 512, length($metapages));
		close $fh;
	}
	@left = grep { m{/[0-9a-f]{16}$} && !belongs($_, $metapages) } glob(lsm_dir($node) . '/*');
	last if !@left;
	usleep(500_000);
}
is("@left", '', 'no directory without a relation');
$node->stop;
done_testing();
