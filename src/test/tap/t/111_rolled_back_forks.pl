# A fork that goes with a rollback: between the release of the transaction's locks and the unlinking of the fork nobody
# writes to it, whatever has opened it.  What a worker logged there after the ABORT record, no standby and no
# recovery could replay.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $force_parallel = lsm_force_parallel();
my $primary = lsm_node('primary', conf => "allow_in_place_tablespaces = on\nautovacuum = off\nlsm.crash_point = '?'\nfsync = off\nlsm.memtable_size = 64kB\n"
	  . "lsm.compaction_workers = 1\nmax_wal_senders = 5\nhot_standby = on\nmax_wal_size = 1GB\nwal_keep_size = 512MB\ncheckpoint_timeout = 1h\n"
	  . "parallel_setup_cost = 0\nparallel_tuple_cost = 0\nmin_parallel_table_scan_size = 0\nmin_parallel_index_scan_size = 0\nmax_parallel_maintenance_workers = 2");
$primary->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($primary);
$primary->safe_psql('postgres', "CREATE EXTENSION pg_walinspect; CREATE TABLESPACE other LOCATION ''; CREATE TABLE tick (n int) USING heap");
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "lsm.memtable_memory = 6MB\n");
$standby->start;

sub sql { return $primary->safe_psql('postgres', $_[0]); }

# The standby has replayed all there is.
sub follows
{
	my ($what) = @_;
	my $lsn = sql('INSERT INTO tick VALUES (1); SELECT pg_current_wal_insert_lsn()');
	my $ok = eval { $standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'") };
	ok($ok, "$what: the standby follows");
	return $ok;
}

# Records with pages of the fork, after that place
sub records_of
{
	my ($path, $lsn) = @_;
	# base/DATABASE/FORK, pg_tblspc/TABLESPACE/VERSION/DATABASE/FORK
	my @parts = split m{/}, $path;
	my $fork = join '/', ($parts[0] eq 'base' ? 1663 : $parts[1]), @parts[ -2, -1 ];
	my $end = sql('INSERT INTO tick VALUES (1); SELECT pg_current_wal_flush_lsn()');
	return sql("SELECT string_agg(record_type, ' ' ORDER BY start_lsn) FROM pg_get_wal_records_info('$lsn', '$end') WHERE block_ref ~ 'rel $fork (fork|blk)'");
}

# Two looks of a worker at what it could not lock lie half a second apart.
sub let_workers_look { usleep(1_300_000); return; }

my $rows = q{SELECT i, md5(i::text) || repeat('x', 60) FROM generate_series(%d, %d) i};
my $few = sprintf $rows, 1, 200;
my $many = sprintf $rows, 1001, 3500;
my $count = "SET LOCAL $force_parallel = on; SELECT count(*) > 0 FROM x; SET LOCAL $force_parallel = off";
my $by_index = "SET LOCAL $force_parallel = on; SET LOCAL enable_seqscan = off; SELECT count(*) > 0 FROM x WHERE v > ''; SET LOCAL $force_parallel = off; SET LOCAL enable_seqscan = on";
my $existing = "CREATE TABLE x (id int, v text) USING lsm; CREATE INDEX x_v ON x USING lsm (v); INSERT INTO x $few; SELECT lsm_flush('x')";
my $heap = "CREATE TABLE x (id int, v text) USING heap; INSERT INTO x $few";

# What is there before; what makes the fork; what looks at it in parallel; the relation that has it.  ends: what comes
# after the fork is filled
my %cases = (
	create => { make => "CREATE TABLE x (id int, v text) USING lsm; INSERT INTO x $few", look => $count, of => 'x' },
	create_as => { make => "CREATE TABLE x USING lsm AS $few", look => $count, of => 'x' },
	truncate => { before => $existing, make => "TRUNCATE x; INSERT INTO x $few", look => $count, of => 'x' },
	rewrite => { before => $existing, make => 'ALTER TABLE x ALTER id TYPE bigint', look => $count, of => 'x' },
	tablespace => { before => $existing, make => 'ALTER TABLE x SET TABLESPACE other', look => $count, of => 'x' },
	index => { before => $existing, make => 'CREATE INDEX x_w ON x USING lsm (id, v)', look => 'SET LOCAL enable_bitmapscan = off; ' . $by_index =~ s/v > ''/id > 0/r, of => 'x_w' },
	heap_index => { before => $heap, make => 'CREATE INDEX x_v ON x USING lsm (v)', look => $by_index, of => 'x_v' },
	reindex => { before => $existing, make => 'REINDEX INDEX x_v', look => $by_index, of => 'x_v' },
	index_tablespace => { before => $existing, make => 'ALTER INDEX x_v SET TABLESPACE other', look => $by_index, of => 'x_v' });

foreach my $name (sort keys %cases)
{
	my $case = $cases{$name};
	foreach my $end ('ROLLBACK', 'ROLLBACK TO s')
	{
		my $what = "$name, $end";
		sql($case->{before}) if $case->{before};
		my $before = $case->{before} ? sql('SELECT count(*), sum(hashtext(v)) FROM x') : '';
		my $is_index = $case->{of} ne 'x';
		lsm_hold($primary, 'abort_locks_released', 'backend', 0);
		my $pid = lsm_start_session($primary, 'postgres', 'session', qq{
BEGIN; SELECT txid_current() > 0; SAVEPOINT s; SET LOCAL client_min_messages = error;
$case->{make};
$case->{look};
INSERT INTO x $many;
SELECT '=', pg_relation_filepath('$case->{of}'), pg_current_wal_insert_lsn(), (SELECT coalesce(sum(entries), 0) FROM lsm_levels('$case->{of}'));
$end;
} . ($end eq 'ROLLBACK' ? '' : 'COMMIT;'));
		my $held = lsm_wait_held($primary);
		ok($held, "$what: locks are released") or do { diag(lsm_output('session')); last; };
		let_workers_look();
		my ($path, $lsn, $entries) = lsm_output('session') =~ /^=\|(.*)\|(.*)\|(.*)$/m or die lsm_output('session');
		ok(-s $primary->data_dir . "/$path", "$what: the fork is there still");
		is(records_of($path, $lsn), '', "$what: nothing is written to it");
		cmp_ok($entries, '>=', 2000, "$what: the transaction has flushed for itself");
		lsm_release($primary);
		ok(lsm_ended($pid), "$what: the session ends");
		unlike(lsm_output('session'), qr/ERROR|WARNING/, "$what: without an error");
		is(records_of($path, $lsn), '', "$what: nor later");
		is(-s $primary->data_dir . "/$path" // 0, 0, "$what: the fork is empty, or gone");
		if ($case->{before})
		{
			is(sql('SELECT count(*), sum(hashtext(v)) FROM x'), $before, "$what: rows as before");
			is(sql("SELECT * FROM lsm_verify('x')"), '', "$what: lsm_verify") if $case->{before} eq $existing;
			is(sql("INSERT INTO x $many; SELECT lsm_flush('x'); SELECT count(*) FROM x WHERE v > ''"), "\n2700", "$what: and it goes on") if $case->{before} eq $existing;
			sql('DROP TABLE x');
		}
	}
}
follows('rollbacks');

# ---- CREATE INDEX that fails while processes build it together ----

sql("CREATE TABLE x (id int, v text) USING lsm; INSERT INTO x $few; INSERT INTO x $few; ALTER TABLE x SET (parallel_workers = 2)");
my $lsn = sql('SELECT pg_current_wal_insert_lsn()');
lsm_hold($primary, 'abort_locks_released', 'backend', 0);
my $pid = lsm_start_session($primary, 'postgres', 'session', 'CREATE UNIQUE INDEX x_id ON x USING lsm (id)');
ok(lsm_wait_held($primary), 'a unique index that cannot be: locks are released');
let_workers_look();
lsm_release($primary);
ok(lsm_ended($pid), 'the session ends');
like(lsm_output('session'), qr/ERROR:  could not create unique index/, 'with an error');
sql('DROP TABLE x');
follows('a failing CREATE INDEX');

# ---- PREPARE TRANSACTION ----

foreach my $end ('ROLLBACK PREPARED', 'COMMIT PREPARED')
{
	my $out = sql("BEGIN; CREATE TABLE x (id int, v text) USING lsm; INSERT INTO x $few; $count; INSERT INTO x $many; SELECT '=', pg_relation_filepath('x'); PREPARE TRANSACTION 'two'; SELECT '=', pg_current_wal_insert_lsn()");
	my ($path, $from) = $out =~ /^=\|(.*)\n=\|(.*)$/m;
	let_workers_look();
	is(records_of($path, $from), '', "$end: nothing is written to the fork before");
	sql("$end 'two'");
	is(records_of($path, $from), '', "$end: nor after") if $end =~ /ROLLBACK/;
	is(sql("SELECT count(*) FROM x; INSERT INTO x $many; SELECT count(*) FROM x WHERE v > ''; DROP TABLE x"), "2700\n5200", 'a prepared table') if $end =~ /COMMIT/;
}
follows('prepared transactions');

# ---- an index whose fork a new one took over, and has given back ----

sql($existing);
my $path = sql(q{SELECT pg_relation_filepath('x_v')});
my $session = $primary->background_psql('postgres');
$session->query_safe("BEGIN; ALTER TABLE x ALTER v TYPE varchar; SET LOCAL enable_seqscan = off; SELECT count(*) > 0 FROM x WHERE v > ''; INSERT INTO x $many");
is($session->query_safe(q{SELECT pg_relation_filepath('x_v')}), $path, 'ALTER TYPE has made an index of the old fork');
lsm_hold($primary, 'flush_before_edit', 'worker', $session->query_safe(q{SELECT 'x_v'::regclass::oid}));
$session->query_safe('ROLLBACK');
$session->quit;
lsm_wait_held($primary, 2);

# a worker has the index's lock, or leaves it alone; the second is so, unless the index has been opened since
lsm_hold($primary, 'locks_released', 'backend', 0, second => 1);
$pid = lsm_start_session($primary, 'postgres', 'dropper', 'DROP INDEX x_v');
ok(lsm_wait_held($primary, undef, second => 1), 'DROP INDEX has committed');
my $after = sql('SELECT pg_current_wal_insert_lsn()');
lsm_release($primary);
let_workers_look();
is(records_of($path, $after), '', 'nothing is written to an index after it was dropped');
lsm_release($primary, second => 1);
ok(lsm_ended($pid), 'DROP INDEX ends');
is(lsm_output('dropper'), '', 'without an error');
is(sql(q{SELECT count(*) FROM x; SELECT * FROM lsm_verify('x'); DROP TABLE x}), '200', 'the table');
follows('a fork given back');

# ---- recovery to a point behind all this, of a backup from before ----

sql("CREATE TABLE rows_l (id int, v text) USING lsm; CREATE INDEX ON rows_l USING lsm (v); CREATE TABLE rows_h (id int, v text) USING heap;" . join('', map { "INSERT INTO rows_$_ $few;" } 'l', 'h')
	  . "BEGIN; TRUNCATE rows_l; TRUNCATE rows_h; INSERT INTO rows_l $many; INSERT INTO rows_h $many; SET LOCAL $force_parallel = on; SELECT count(*) FROM rows_l; SET LOCAL $force_parallel = off; INSERT INTO rows_l $many; ROLLBACK; SELECT lsm_flush('rows_l');"
	  . "SELECT pg_create_restore_point('behind'); DELETE FROM rows_l; DELETE FROM rows_h; SELECT pg_switch_wal()");
my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($primary, 'base');
$restored->append_conf('postgresql.conf', "restore_command = 'cp \"@{[$primary->data_dir]}/pg_wal/%f\" \"%p\"'\nrecovery_target_name = 'behind'\nrecovery_target_action = 'promote'\n");
$restored->set_recovery_mode;
$restored->start;
$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'recovery does not end';
is($restored->safe_psql('postgres', 'SELECT count(*) FROM rows_h; SELECT count(*) FROM (SELECT * FROM rows_h EXCEPT ALL SELECT * FROM rows_l) d'), "200\n0", 'a point behind rollbacks: the rows of the heap table');
is($restored->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(v) FROM rows_l WHERE v > ''; SELECT * FROM lsm_verify('rows_l')}), '200', 'a point behind rollbacks: by index, and lsm_verify');
is($restored->safe_psql('postgres', "INSERT INTO rows_l $many; SELECT lsm_flush('rows_l'); SELECT count(*) FROM rows_l"), "\n2700", 'a point behind rollbacks: it goes on');
$restored->stop;
unlike(slurp_file($restored->logfile), qr/TRAP:|PANIC:/, 'a point behind rollbacks: no crash');

# ---- the files go soon: without a checkpoint, which the sweep waits for ----

my %had = map { $_ => 1 } glob(lsm_dir($primary) . '/*');
my $maker = $primary->background_psql('postgres');
$maker->query_safe("BEGIN; CREATE TABLE x (id int, v text) USING lsm; INSERT INTO x $few");
my @made = grep { !$had{$_} } glob(lsm_dir($primary) . '/*');
cmp_ok(scalar(@made), '>', 0, 'a transaction makes directories');
$maker->query_safe('ROLLBACK');
$maker->quit;
my $limit = time + $PostgreSQL::Test::Utils::timeout_default;
usleep(50_000) while time < $limit && grep { -d } @made;
is(join(' ', grep { -d } @made), '', 'which go with its rollback');

# ---- a table that a session has locked is no worker's to publish in ----

sql($existing);
my $files = q{SELECT string_agg(file::text, ' ' ORDER BY file) FROM lsm_files('x')};
$session = $primary->background_psql('postgres');
$session->query_safe("BEGIN; LOCK TABLE x; INSERT INTO x $many");
my $before = $session->query_safe($files);
let_workers_look();
is($session->query_safe($files), $before, 'nothing becomes part of a table that is locked');
$session->query_safe('COMMIT');
$session->quit;
is(sql(q{SELECT count(*) FROM x; SELECT * FROM lsm_verify('x'); DROP TABLE x}), '2700', 'and nothing is lost');
follows('a locked table');

# ---- a recovery that goes past all this ----

unlike(slurp_file($standby->logfile), qr/PANIC|FATAL:  .*invalid pages/, 'the standby has found nothing wrong');
lsm_hold($primary, 'abort_locks_released', 'backend', 0);
$pid = lsm_start_session($primary, 'postgres', 'session', qq{BEGIN; CREATE TABLE x (id int, v text) USING lsm; INSERT INTO x $few; $count; INSERT INTO x $many;
SELECT '=', pg_relation_filepath('x'); ROLLBACK});
ok(lsm_wait_held($primary), 'once more');
let_workers_look();
($path) = lsm_output('session') =~ /^=\|(.*)$/m;
my @pids = lsm_pids($primary);
kill 'KILL', @pids;
lsm_release($primary);
lsm_restart_after_crash($primary, @pids);
ok(lsm_ended($pid), 'the session has gone with the server');
is(-s $primary->data_dir . "/$path" // 0, 0, 'no fork is left after a crash');
follows('a crash');

# ---- the log of an older build: the list of files grows when the fork is gone ----

# neither the replay from the last restartpoint nor images of pages make it again
sql('ALTER SYSTEM SET full_page_writes = off');
sql('SELECT pg_reload_conf()');
$primary->poll_query_until('postgres', 'SHOW full_page_writes', 'off') or die;
my $x = "CREATE TABLE x (id int, v text) USING lsm; INSERT INTO x $few; SELECT lsm_flush('x'); INSERT INTO x $few";
$path = sql("$x; SELECT '=', pg_relation_filepath('x')") =~ s/^.*=\|//sr;
sql('CHECKPOINT');
follows('a fork');
$standby->safe_psql('postgres', 'CHECKPOINT');
$standby->stop;
unlink $standby->data_dir . "/$path" or die $!;
$standby->start;
sql("SELECT lsm_flush('x')");
follows('an edit of a fork that is missing');
sql('DROP TABLE x');
follows('and the fork goes');

# ---- a fork gets another keyspace on the primary, while no session of the standby has its tree in memory ----

sql("$existing; CREATE TABLE large (id int, v text) USING lsm; CREATE TABLE large_2 (LIKE large) USING lsm");
sql("ALTER INDEX x_v SET TABLESPACE other");
follows('a moved index');
my $reader = $standby->background_psql('postgres', on_error_stop => 0);
my $look = q{SET enable_seqscan = off; SELECT count(*) FROM x WHERE v > ''};
is($reader->query($look), '200', 'read under the name of its former place');
sql("SET lsm.memtable_size = '8MB'; INSERT INTO large SELECT i, repeat('x', 1000) FROM generate_series(1, 4000) i; INSERT INTO large_2 SELECT * FROM large");
follows('much to be read');
is($standby->safe_psql('postgres', "SELECT count(*) FROM $_"), '4000', 'which leaves no memory for others') foreach 'large', 'large_2';
sql("INSERT INTO x $few; SELECT lsm_flush('x')");
follows('the primary opens it');
is($reader->query($look), '400', 'read under its own');
$reader->quit;

# ---- the end of a transaction raises no error ----

is(sql(q{CREATE TEMPORARY TABLE tmp (i int) USING lsm; INSERT INTO tmp VALUES (1); SET lsm.crash_point = 'temporary_gone!'; DROP TABLE tmp; SET lsm.crash_point = '';
BEGIN; CREATE TEMPORARY TABLE tmp (i int) USING lsm; SET lsm.crash_point = 'temporary_gone!'; COMMIT; DROP TABLE tmp; SET lsm.crash_point = '';
BEGIN; CREATE TEMPORARY TABLE tmp (i int) USING lsm; SET LOCAL lsm.crash_point = 'temporary_gone!'; ROLLBACK;
CREATE TEMPORARY TABLE tmp (i int) USING lsm; INSERT INTO tmp VALUES (2); SELECT * FROM tmp}), '2', 'temporary trees are given back later');

unlike(slurp_file($primary->logfile) . slurp_file($standby->logfile), qr/TRAP:|PANIC:|terminated by signal (?!9)/, 'no crash');
$standby->stop;
$primary->stop;
done_testing();
