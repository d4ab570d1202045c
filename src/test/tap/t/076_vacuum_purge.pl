# VACUUM takes the entries of dead rows out of lsm indexes: all of them, of heap tables, too, whose row identifiers come
# again; none but those; by writing files anew where they are many, not by an entry for each.  Beside writers, flushes and
# compactions, after crashes at any step, and for CREATE INDEX CONCURRENTLY, which sees the index through the same door.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

lsm_seed();
my $node = lsm_node('purge', conf => "autovacuum = off\nfsync = off\nmax_wal_size = 1GB\nlsm.memtable_size = 1MB\nlsm.target_file_size = 256kB");
lsm_start($node);

sub sql { return $node->safe_psql('postgres', $_[0]); }
sub entries { return sql("SELECT coalesce(sum(entries), 0) FROM lsm_files('$_[0]')"); }
sub sound { my ($table, $what) = @_; is(sql("SELECT * FROM lsm_verify('$table')"), '', "$what: lsm_verify finds nothing"); return; }

sub wal_bytes
{
	my ($statement) = @_;
	my $before = sql('SELECT pg_current_wal_insert_lsn()');
	sql($statement);
	return sql("SELECT pg_current_wal_insert_lsn() - '$before'");
}

# The rows that an index of the table leads to are those that a sequential scan finds.
sub same_by_index
{
	my ($table, $what) = @_;
	my $query = "SELECT count(*), sum(k), sum(hashtext(v)) FROM $table WHERE k >= 0";
	my $seq = sql("SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; $query");
	my $index = sql("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; $query");
	is($index, $seq, "$what: the index finds what the table has");
	return;
}

# ---- many and few ----

foreach my $am ('lsm', 'heap')
{
	my $t = "t_$am";
	sql("CREATE TABLE $t (k int, v text) USING $am; INSERT INTO $t SELECT i, md5(i::text) FROM generate_series(1, 60000) i;
		CREATE INDEX ${t}_k ON $t USING lsm (k); CREATE INDEX ${t}_v ON $t USING lsm (v)");

	# runs above the built level, some in memory
	sql("INSERT INTO $t SELECT i, md5(i::text) FROM generate_series(60001, 90000) i; SELECT lsm_flush('${t}_k'), lsm_flush('${t}_v')");
	sql("INSERT INTO $t SELECT i, md5(i::text) FROM generate_series(90001, 95000) i");

	sql("DELETE FROM $t WHERE k % 2 = 0");
	my $bytes = sql("SELECT sum(bytes) FROM (SELECT bytes FROM lsm_files('${t}_k') UNION ALL SELECT bytes FROM lsm_files('${t}_v')) f");
	my $table_wal = $am eq 'lsm' ? wal_bytes("VACUUM (INDEX_CLEANUP off) $t") : 0;
	my $wal = wal_bytes("VACUUM (INDEX_CLEANUP on) $t");

	# (entries in memory that row identifiers of heap need are deleted by entries)
	sql("SELECT lsm_flush('${t}_k'), lsm_flush('${t}_v')");
	cmp_ok(entries("${t}_$_"), '<', 47_500 + ($am eq 'lsm' ? 1 : 5000), "$am: of $_ no entry of a dead row is left") foreach ('k', 'v');
	cmp_ok($wal, '<', 1.5 * $bytes + ($am eq 'lsm' ? 0 : 20_000_000), "$am: WAL of VACUUM is less than that of the files");
	sound($t, "$am, half");
	same_by_index($t, "$am, half");

	# a row in a hundred: no file is written anew
	my $files = sql("SELECT array_agg(file ORDER BY file) FROM lsm_files('${t}_v')");
	sql("DELETE FROM $t WHERE k % 100 = 1; VACUUM (INDEX_CLEANUP on) $t");
	is(sql("SELECT array_agg(file ORDER BY file) FROM lsm_files('${t}_v') WHERE file = ANY('$files'::int8[])"), $files,
		"$am, few: files stay");
	same_by_index($t, "$am, few");
	is(sql("SET enable_seqscan = off; SELECT count(*) FROM $t WHERE k = 101"), 0, "$am, few: gone");
	sound($t, "$am, few");

	# what has its DELETE gets no second one
	sql("SELECT lsm_flush('${t}_k'), lsm_flush('${t}_v')");
	my $before = entries("${t}_v");
	sql("VACUUM (INDEX_CLEANUP on) $t; SELECT lsm_flush('${t}_v')");
	# a compaction may take DELETE entries away meanwhile
	cmp_ok(entries("${t}_v"), '<=', $before, "$am, few: nothing more to delete");

	# new rows in the place of old ones, and no memory to remember keys in
	sql("INSERT INTO $t SELECT i, md5(i::text) FROM generate_series(1, 95000, 2) i WHERE i % 100 = 1; DELETE FROM $t WHERE k % 40 = 3");
	sql("SET maintenance_work_mem = '1MB'; VACUUM (INDEX_CLEANUP on) $t");
	sound($t, "$am, again");
	same_by_index($t, "$am, again");

	sql("DELETE FROM $t; VACUUM (INDEX_CLEANUP on) $t; SELECT lsm_flush('${t}_k'), lsm_flush('${t}_v'); VACUUM (INDEX_CLEANUP on) $t");
	# nothing is to be vacuumed in an empty heap: DELETE entries stay until the next compaction
	sql("SELECT lsm_compact('${t}_k'), lsm_compact('${t}_v')") if $am eq 'heap';
	is(entries("${t}_$_"), 0, "$am: all rows gone, no entry of $_ left") foreach ('k', 'v');
	sql("INSERT INTO $t VALUES (1, 'x')");
	same_by_index($t, "$am, emptied");
	sql("DROP TABLE $t");
}

# ---- beside writers ----

# Row identifiers of heap come again as soon as VACUUM has returned: an entry left behind would lead to another row.
foreach my $am ('heap', 'lsm')
{
	sql("CREATE TABLE busy (k int, v text) USING $am; CREATE INDEX busy_k ON busy USING lsm (k);
		INSERT INTO busy SELECT i, md5(i::text) FROM generate_series(1, 20000) i; CREATE INDEX busy_v ON busy USING lsm (v)");
	my $script = lsm_script('churn', q{
\set a random(1, 20000)
\set b random(1, 40)
UPDATE busy SET v = md5(random()::text) WHERE k = :a;
DELETE FROM busy WHERE k BETWEEN :a AND :a + :b;
INSERT INTO busy SELECT i, md5(i::text || random()) FROM generate_series(:a, :a + :b) i;
});
	my $seconds = lsm_long() ? 300 : 5;
	my ($out, $err) = ('', '');
	my $load = IPC::Run::start([ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-c', '3', '-T', $seconds, '-f', $script, 'postgres' ],
		'>', \$out, '2>', \$err);
	my $end = time + $seconds;
	my ($rounds, $wrong) = (0, 0);
	while (time < $end || $rounds < 3)
	{
		sql('VACUUM (INDEX_CLEANUP on) busy');
		sql("SELECT lsm_flush('busy_k')") if $rounds % 3 == 1;
		sql("CREATE INDEX CONCURRENTLY again ON busy USING lsm (k, v); DROP INDEX again") if $rounds % 5 == 2;
		my $differs = sql(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off;
			SET LOCAL enable_indexscan = off; CREATE TEMP TABLE seq ON COMMIT DROP AS SELECT k, v FROM busy;
			SET LOCAL enable_indexscan = on; SET LOCAL enable_seqscan = off; CREATE TEMP TABLE ind ON COMMIT DROP AS SELECT k, v FROM busy WHERE k >= 0;
			SET LOCAL enable_seqscan = on;
			SELECT count(*) FROM ((TABLE seq EXCEPT ALL TABLE ind) UNION ALL (TABLE ind EXCEPT ALL TABLE seq)) d; COMMIT});
		$wrong += $differs;
		$rounds++;
	}
	ok($load->finish, "$am: writers went on") or diag($err);
	is($wrong, 0, "$am: index and table agree beside writers, $rounds rounds");
	sql('CREATE INDEX CONCURRENTLY later ON busy USING lsm (v)');
	sound('busy', "$am, busy");
	same_by_index('busy', "$am, busy");
	sql('DROP TABLE busy');
}

# ---- crashes ----

lsm_create_twins($node, 'c', 'k int PRIMARY KEY, v text', '(v)');
my $round = 0;
foreach my $point ('compact_started', 'compact_file_written', 'compact_file_written:3', 'edit_after_wal', 'compact_after_unlink', 'kill', 'kill', 'kill')
{
	$round++;
	sql("TRUNCATE c_h, c_l");
	sql("INSERT INTO c_$_ SELECT i, md5(i::text) FROM generate_series(1, 40000) i") foreach ('h', 'l');
	sql("SELECT lsm_flush('c_l')");
	sql("DELETE FROM c_$_ WHERE k % 3 > 0") foreach ('h', 'l');
	sql('CHECKPOINT') if $round % 2;
	my @pids = lsm_pids($node);
	if ($point eq 'kill')
	{
		my $vacuum = lsm_spawn_psql($node, lsm_script('vacuum', "VACUUM (INDEX_CLEANUP on) c_l;\n"), "$ENV{TESTDIR}/vacuum.out");
		usleep(20_000 + rand(400_000));
		kill('KILL', @pids);
		waitpid($vacuum, 0);
	}
	else
	{
		$node->psql('postgres', "SET lsm.crash_point = '$point'; VACUUM (INDEX_CLEANUP on) c_l");
	}
	lsm_restart_after_crash($node, @pids);
	is(lsm_differences($node, 'c'), '', "$point: nothing lost");
	sql('VACUUM (INDEX_CLEANUP on) c_l');
	is(lsm_differences($node, 'c'), '', "$point: VACUUM again");
	sound('c_l', $point);
}

# ---- canceled ----

sql("TRUNCATE c_h, c_l");
sql("INSERT INTO c_$_ SELECT i, md5(i::text) FROM generate_series(1, 40000) i; DELETE FROM c_$_ WHERE k % 3 > 0") foreach ('h', 'l');
foreach my $ms (5, 20, 60, 150)
{
	$node->psql('postgres', "SET statement_timeout = $ms; VACUUM (INDEX_CLEANUP on) c_l");
	is(lsm_differences($node, 'c'), '', "canceled after $ms ms");
}
sql('VACUUM (INDEX_CLEANUP on) c_l');
sound('c_l', 'canceled');

$node->stop;
done_testing();
