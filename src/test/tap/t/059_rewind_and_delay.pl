# Replicas as administrators use them.  A former primary that has gone its own way is brought back with pg_rewind, over three
# timelines; a standby is delayed or paused; databases are copied on the primary; a standby is promoted under open sessions,
# with another standby behind it; filters are elastic.  Each heap table and its lsm twins, changed in one transaction, are
# equal to every snapshot on every server, and lsm_verify() finds nothing.
#   LSM_LONG=1         more rounds, and 60 kills of primary and standby at random instants with a failover after each six
#   LSM_KILLS=N        so many
#   LSM_PARTS="..."    of these parts: rewind delay copies promotion elastic kills
#   LSM_SEED=N         repeats the choices
use strict;
use warnings;
use File::Copy;
use LsmTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my %parts = map { $_ => 1 } split ' ', $ENV{LSM_PARTS} // 'rewind delay copies promotion elastic' . (lsm_long() ? ' kills' : '');
lsm_seed();
my $dir = PostgreSQL::Test::Utils::tempdir();

# ---- twins: NAME_h is heap with btree, NAME_l lsm, NAME_x heap with lsm indexes ----

my @kinds = ('h', 'l', 'x');
my %rows = (a => 1500, b => 1500, e => 2000, d1 => 300, d2 => 300, d3 => 300, s1 => 300, s2 => 300, s3 => 300, big => 6000);
my @twins = sort keys %rows;

sub create
{
	my ($name, $from, $to) = @_;
	my $with = $name =~ /^e/ ? "WITH (filter_scheme = elastic, bits_per_key = 24)" : '';
	my $sql = '';
	foreach my $kind (@kinds)
	{
		my ($am, $index) = $kind eq 'l' ? ('lsm', 'lsm') : $kind eq 'x' ? ('heap', 'lsm') : ('heap', 'btree');
		my $w = $index eq 'lsm' ? $with : '';
		$sql .= "CREATE TABLE ${name}_$kind (id int, k int, u uuid, t text) USING $am; CREATE UNIQUE INDEX ${name}_${kind}_id ON ${name}_$kind USING $index (id) $w;"
		  . "CREATE INDEX ${name}_${kind}_k ON ${name}_$kind USING $index (k) INCLUDE (id) $w; CREATE INDEX ${name}_${kind}_u ON ${name}_$kind USING $index (u) $w;"
		  . "INSERT INTO ${name}_$kind SELECT g, g % 97, md5(g::text)::uuid, repeat('v' || g, 1 + g % 20) FROM generate_series($from, $to) g;";
	}
	return $sql;
}

# The same for all three, in a transaction
sub change
{
	my ($name, $what) = @_;
	return 'BEGIN;' . join('', map { (my $sql = $what) =~ s/%s/${name}_$_/g; "$sql;" } @kinds) . (rand() < 0.1 ? "ROLLBACK;\n" : "COMMIT;\n");
}

# Like change(), not rolled back
sub certain { my $sql = change(@_); $sql =~ s/ROLLBACK;\n$/COMMIT;\n/; return $sql; }

my $number = 100_000;

sub random_change
{
	my ($name) = @_;
	my ($way, $a, $n) = (rand(), 1 + int(rand($rows{$name})), ++$number);
	my $b = $a + int(rand(20));
	return $way < 0.3 ? change($name, "INSERT INTO %s SELECT g, g % 97, md5(g::text)::uuid, repeat('w', g % 200) FROM generate_series(${n}0, ${n}0 + @{[int(rand(10))]}) g")
	  : $way < 0.6 ? change($name, "UPDATE %s SET k = (k + 1) % 97, t = left(t, 100) || 'z$n' WHERE id BETWEEN $a AND $b")
	  : $way < 0.7 ? change($name, "DELETE FROM %s WHERE id BETWEEN $a AND $a + 3")
	  : $way < 0.8 ? change($name, "INSERT INTO %s SELECT g, $n % 97, md5('$n')::uuid, 'again' FROM generate_series($a, $b) g ON CONFLICT (id) DO UPDATE SET k = EXCLUDED.k, u = EXCLUDED.u")
	  : $way < 0.85 ? change($name, "UPDATE %s SET t = (SELECT string_agg(md5((g + $n)::text), '') FROM generate_series(1, 200) g) WHERE id = $a")
	  : $way < 0.88 ? change($name, "SAVEPOINT s; DELETE FROM %s WHERE k = @{[$n % 97]}; ROLLBACK TO s; UPDATE %s SET k = 5 WHERE id = $a")
	  : $way < 0.92 ? "SELECT lsm_flush('${name}_l'), lsm_flush('${name}_x_id');\n"
	  : $way < 0.95 ? "VACUUM ${name}_h, ${name}_l, ${name}_x;\n"
	  : $way < 0.97 ? "SELECT lsm_compact('${name}_l'), lsm_compact('${name}_x_k');\n"
	  : $way < 0.975 && $name =~ /^d/ ? certain($name, 'TRUNCATE %s') . certain($name, "INSERT INTO %s SELECT g, $n % 97, NULL, 'after' FROM generate_series(1, 500) g")
	  : $way < 0.98 && $name =~ /^d/ ? 'BEGIN;' . join('', map { "DROP TABLE ${name}_$_;" } @kinds) . create($name, 1, 300) . "COMMIT;\n"
	  : $way < 0.985 ? "DROP INDEX IF EXISTS extra_$name;\nCREATE INDEX extra_$name ON ${name}_l USING lsm (t, k);\n"
	  : $way < 0.99 ? "REINDEX INDEX ${name}_l_u;\n"
	  : "SELECT 1;\n";
}

# ---- load: sessions, each with tables of its own ----

my @owned = ([ 'a', 'd1' ], [ 'b', 'e', 'd2' ], [ 'd3', 'big' ]);
my $pause = lsm_long() ? 0.001 : 0.01;
my %loads;
my $scripts = 0;

sub load_start
{
	my ($node) = @_;
	foreach my $names (@owned)
	{
		my $file = "$dir/load" . ++$scripts;
		append_to_file("$file.sql", "SET client_min_messages = warning;\n" . join('', map { random_change($names->[ int(rand(@$names)) ]) . "SELECT pg_sleep($pause);\n" } 1 .. 6000));
		$loads{ $node->name }{ lsm_spawn_psql($node, "$file.sql", "$file.out") } = $file;
	}
	return;
}

# What went wrong, but for the end of the server if it is killed
sub load_stop
{
	my ($node, $killed) = @_;
	my $wrong = '';
	foreach my $pid (keys %{ $loads{ $node->name } })
	{
		my $file = $loads{ $node->name }{$pid};
		$wrong .= "the load has ended early\n" if waitpid($pid, POSIX::WNOHANG()) != 0 && !$killed;
		kill('TERM', $pid);
		waitpid($pid, 0);
		my $err = slurp_file("$file.out.err");
		$wrong .= $err unless $killed && $err !~ /ERROR|PANIC/;
	}
	delete $loads{ $node->name };

	# what the killed clients' backends are doing ends
	$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND query !~ 'kept'}) unless $killed;
	return $wrong;
}

END
{
	# they must not outlive a test that dies
	my $status = $?;
	kill('KILL', map { keys %$_ } values %loads);
	$? = $status;
}

# ---- comparison ----

my @plans = (
	'SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = on',
	'SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = on',
	'SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = on');

sub twin_queries
{
	my ($name) = @_;
	my ($a, $k) = (1 + int(rand($rows{$name})), int(rand(97)));
	return ("SELECT count(*), sum(k), md5(string_agg(t, ',' ORDER BY id)) FROM %s WHERE id > 0",
		"SELECT count(*), sum(id) FROM %s WHERE k = $k", "SELECT id, k, t FROM %s WHERE id = $a",
		"SELECT count(*), sum(id) FROM %s WHERE u = md5('$a')::uuid OR u = md5('@{[$a + 1]}')::uuid OR u = md5('absent$a')::uuid",
		"SELECT count(*), min(k) FROM %s WHERE id = ANY (ARRAY[@{[join ', ', map { 1 + int(rand(2 * $rows{$name})) } 1 .. 8]}])");
}

# NULL where the twins differ is not equal to anything: coalesce
sub comparison
{
	my (@names) = @_;
	my $sql = '';
	foreach my $name (@names)
	{
		foreach my $plan (@plans)
		{
			$sql .= "$plan;\n";
			foreach my $q (twin_queries($name))
			{
				my @answers = map { (my $x = $q) =~ s/%s/${name}_$_/; "(SELECT coalesce(string_agg(q::text, ';' ORDER BY q::text), '') FROM ($x) q)" } @kinds;
				(my $text = $q) =~ s/'/''/g;
				$sql .= "SELECT '$name: $text: ' || left(h, 60) || ' / ' || left(l, 60) || ' / ' || left(x, 60) FROM (SELECT $answers[0] h, $answers[1] l, $answers[2] x OFFSET 0) a WHERE h <> l OR h <> x;\n";
			}
		}
	}
	return $sql;
}

# All that is wrong with the twins, to one snapshot; errors that are expected are not
sub wrong
{
	my ($node, $db, $expected, @names) = @_;
	my ($rc, $out, $err) = $node->psql($db, "BEGIN ISOLATION LEVEL REPEATABLE READ;\n" . comparison(@names) . 'COMMIT;');
	$err = '' if defined $expected && $err =~ $expected;
	return $out . ($err ne '' ? "exit code $rc: $err" : '');
}

my $verify = q{SELECT c.relname, v.* FROM pg_class c JOIN pg_am a ON a.oid = c.relam, lsm_verify(c.oid) v
WHERE (a.amname = 'lsm' AND c.relkind = 'r' OR a.amname = 'lsm_index' AND c.relname ~ '_x_') AND c.relpersistence = 'p' AND c.relname ~ '^(};

sub whole
{
	my ($what, $node, $db, @names) = @_;
	@names = @twins unless @names;
	is(wrong($node, $db // 'postgres', undef, @names), '', "$what: the twins are equal");
	is($node->safe_psql($db // 'postgres', $verify . join('|', @names) . ")_'"), '', "$what: lsm_verify");
	return;
}

# Replay stops where nobody has to wait for it: not in the middle of a transaction that has locked a table.
sub pause
{
	my ($node) = @_;
	while (1)
	{
		$node->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
		$node->poll_query_until('postgres', q{SELECT pg_get_wal_replay_pause_state() = 'paused'}) or die 'not paused';
		return if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE backend_type = 'startup' AND mode = 'AccessExclusiveLock'}) == 0;
		$node->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
		usleep(int(rand(100_000)));
	}
}

# Fewer of them where time is short
sub some { return lsm_long() ? @twins : ('a', 'd1', 's1', 's3', $twins[ int(rand(@twins)) ]); }

sub sums
{
	my ($node, $db) = @_;
	return $node->safe_psql($db // 'postgres', join(';', map { my $t = $_; map { "SELECT '${t}_$_', count(*), md5(string_agg(t::text, ';' ORDER BY id)) FROM ${t}_$_ t" } @kinds } @twins));
}

# No transaction is under way on the primary
sub same
{
	my ($what, $primary, $standby) = @_;
	caught_up($primary, $standby);
	is(sums($standby), sums($primary), "$what: " . $standby->name . ' has what ' . $primary->name . ' has');
	return;
}

sub caught_up
{
	my ($primary, $standby) = @_;
	my $lsn = $primary->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	$standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'") 
	  or die $standby->name . ' does not catch up: ' . $standby->safe_psql('postgres', q{SELECT string_agg(backend_type || ' ' || coalesce(wait_event_type, '') || ' ' || coalesce(wait_event, ''), ', ') FROM pg_stat_activity WHERE backend_type IN ('startup', 'walreceiver')});
	return;
}

# ---- servers ----

my $n1 = lsm_node('n1', initdb => ['--data-checksums'], conf => "max_wal_senders = 10\nwal_keep_size = 1GB\nmax_wal_size = 512MB\nhot_standby = on\nfsync = off\nallow_in_place_tablespaces = on\n"
	  . "lsm.memtable_size = 128kB\nlsm.target_file_size = 128kB\nlsm.elastic_unit_size = 64\nlsm.elastic_memory = 1MB\nwal_receiver_status_interval = 1s\nmax_standby_streaming_delay = -1\nhot_standby_feedback = on\nautovacuum_naptime = 5s");
$n1->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($n1);
$n1->safe_psql('postgres', join('', map { create($_, 1, $rows{$_}) } @twins));
$n1->safe_psql('postgres', 'CREATE UNLOGGED TABLE un (id int PRIMARY KEY) USING lsm; INSERT INTO un SELECT generate_series(1, 1000)');
$n1->safe_psql('postgres', 'CREATE DATABASE template_twins');
$n1->safe_psql('template_twins', 'CREATE EXTENSION lsmam;' . join('', map { create($_, 1, 500) } 'd1', 'd2') . "SELECT lsm_flush('d1_l'); " . certain('d1', 'UPDATE %s SET k = 7 WHERE id % 10 = 0'));

sub standby_of
{
	my ($root, $name, $conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$root->backup("for_$name", backup_options => [ '-c', 'fast', '--no-sync' ]);
	$node->init_from_backup($root, "for_$name", has_streaming => 1);
	$node->append_conf('postgresql.conf', $conf) if defined $conf;
	$node->start;
	return $node;
}

sub kill_server
{
	my ($node) = @_;
	my @pids = lsm_pids($node);
	kill('KILL', @pids);
	lsm_clear_crashed($node, @pids);
	return;
}

my $n2 = standby_of($n1, 'n2');
my ($primary, $standby) = ($n1, $n2);
whole('the standby', $standby);

# ---- pg_rewind ----

# What both sides do for themselves, with tables that are nobody else's
sub diverge
{
	my ($node) = @_;
	my $n = ++$number;
	my $db = 'db' . $n;
	$node->safe_psql('postgres', join('', certain('s1', "INSERT INTO %s SELECT g, 1, NULL, 'side $n' FROM generate_series(${n}000, ${n}300) g ON CONFLICT DO NOTHING"),
		certain('s1', "UPDATE %s SET t = 'side $n' WHERE id % 3 = 0"), certain('s1', 'DELETE FROM %s WHERE id % 7 = ' . $n % 7), "SELECT lsm_flush('s1_l');",
		certain('s2', 'TRUNCATE %s'), certain('s2', "INSERT INTO %s SELECT g, $n % 97, NULL, 'truncated $n' FROM generate_series(1, 700) g"),
		'BEGIN;', (map { "DROP TABLE s3_$_;" } @kinds), create('s3', 1, 300 + $n % 100), "COMMIT; SELECT lsm_compact('s1_l'), lsm_compact('a_l'), lsm_compact('a_x_k'), lsm_compact('big_l');",
		"CREATE INDEX side$n ON a_l USING lsm (t); REINDEX TABLE b_l; VACUUM a_l, s1_l, s1_x; CREATE TABLE side_$n (i int PRIMARY KEY) USING lsm; INSERT INTO side_$n SELECT generate_series(1, 2000);",
		'ALTER TABLE s1_l SET TABLESPACE pg_default; VACUUM FULL s2_l, s2_x;'));
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template_twins STRATEGY " . ($n % 2 ? 'file_copy' : 'wal_log'));
	$node->safe_psql($db, certain('d1', 'UPDATE %s SET k = 8 WHERE id % 10 = 1') . "SELECT lsm_compact('d1_l')") if rand() < 0.5;
	return $db;
}

# pg_rewind takes the configuration along: the target keeps its own
sub rewind
{
	my ($what, $target, $source, $online) = @_;
	my @kept = ('postgresql.conf', 'postgresql.auto.conf', 'pg_hba.conf');
	foreach (@kept) { copy($target->data_dir . "/$_", "$dir/$_") or die "copy: $!"; }
	$source->stop unless $online;
	command_ok([ 'pg_rewind', '--no-sync', '-D', $target->data_dir, $online ? ('--source-server', $source->connstr('postgres')) : ('--source-pgdata', $source->data_dir), '--config-file', "$dir/postgresql.conf" ],
		"$what: pg_rewind");
	$source->start unless $online;
	foreach (@kept) { unlink $target->data_dir . "/$_"; copy("$dir/$_", $target->data_dir . "/$_") or die "copy: $!"; }
	$target->enable_streaming($source);
	return;
}

# The standby is promoted while both go on; afterwards the former primary follows.  Roles are exchanged.
sub fail_over
{
	my ($what, %opt) = @_;
	my ($old, $new) = ($primary, $standby);
	load_start($old);
	usleep($opt{usleep} // 700_000);
	$new->promote;
	load_start($new);
	is($new->safe_psql('postgres', 'SELECT count(*) FROM un; INSERT INTO un SELECT generate_series(1, 1000)'), '0', "$what: the unlogged table is empty");
	my @dbs = (diverge($new));
	diverge($old);
	if ($opt{kill})
	{
		kill_server($old);
		is(load_stop($old, 1), '', "$what: the load on the old primary");
	}
	else
	{
		is(load_stop($old), '', "$what: the load on the old primary");
		whole("$what: the old primary", $old, undef, some());
		$old->stop;
	}

	# (the new timeline is in the control file then)
	$new->safe_psql('postgres', 'CHECKPOINT');
	is(load_stop($new), '', "$what: the load on the new primary") unless $opt{online};
	rewind($what, $old, $new, $opt{online});
	is(load_stop($new), '', "$what: the load on the new primary goes on meanwhile") if $opt{online};
	load_start($new);
	push @dbs, diverge($new);
	$old->start;
	is(load_stop($new), '', "$what: the load on the new primary");
	($primary, $standby) = ($new, $old);
	same($what, $primary, $standby);
	foreach my $db (@dbs)
	{
		$primary->safe_psql($db, join(';', map { my $t = $_; map { "SELECT count(*) FROM ${t}_$_ WHERE id = 1" } @kinds } 'd1', 'd2') . '; CHECKPOINT');
		caught_up($primary, $standby);
		whole("$what: the former primary, a copied database", $standby, $db, 'd1', 'd2');
		$primary->safe_psql('postgres', "DROP DATABASE $db");
	}
	whole("$what: the former primary", $standby);
	whole("$what: the new primary", $primary, undef, some());
	return;
}

if ($parts{rewind})
{
	fail_over('killed, online', kill => 1, online => 1);
	fail_over('stopped, offline');
	fail_over('killed, offline', kill => 1) if lsm_long();
	foreach my $round (1 .. (lsm_long() ? 4 : 0))
	{
		fail_over("round $round", kill => rand() < 0.6, online => rand() < 0.6, usleep => int(rand(3_000_000)));
	}
	is($primary->safe_psql('postgres', 'SELECT timeline_id > 2 FROM pg_control_checkpoint()'), 't', 'timelines');
}

# ---- a standby that is delayed, and one that is paused ----

# Names may vanish between their lookup and the lock, as they may with heap tables
my $of_ddl = qr/could not open relation with OID|relation "[a-z0-9_]+" does not exist/;

if ($parts{delay})
{
	my $late = standby_of($primary, 'late', "recovery_min_apply_delay = '1500ms'\nhot_standby_feedback = off\n");
	load_start($primary);
	my ($wrong, $compared, $behind) = ('', 0, 0);
	my $end = time + (lsm_long() ? 30 : 4);
	# until it has been seen behind, too
	while (time < $end || ($behind == 0 && time < $end + $PostgreSQL::Test::Utils::timeout_default))
	{
		$wrong .= wrong($late, 'postgres', $of_ddl, $twins[ int(rand(@twins)) ]);
		$compared++;
		$behind++ if $late->safe_psql('postgres', 'SELECT pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn()') eq 't';
	}
	is($wrong, '', "delayed: the twins are equal, $compared times");
	cmp_ok($behind, '>', 0, "delayed: behind what it has received, $behind times");

	# paused: the same at each look, whatever the primary does
	$late->safe_psql('postgres', 'ALTER SYSTEM SET recovery_min_apply_delay = 0; SELECT pg_reload_conf()');
	pause($late);
	my $paused = sums($late, 'postgres');
	diverge($primary);
	foreach (1 .. 2)
	{
		whole('paused', $late, undef, some());
		is(sums($late), $paused, 'paused: as before');
		last if $_ > 1;
		kill_server($late);
		$late->start;

		# (the pause ends with the server: from wherever it stops again)
		pause($late);
		$paused = sums($late);
		my $db = diverge($primary);
		$primary->safe_psql('postgres', "DROP DATABASE $db");
	}
	is(load_stop($primary), '', 'the load');
	$late->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	same('resumed', $primary, $late);
	whole('resumed', $late, undef, some());

	# paused, then promoted: it stays where it was
	load_start($primary);
	pause($late);
	$paused = sums($late);
	diverge($primary);
	is(load_stop($primary), '', 'the load');
	is(sums($late), $paused, 'paused again: as before');
	$late->promote;
	whole('paused and promoted', $late);
	diverge($late);
	whole('paused, promoted and written to', $late, undef, some());
	$late->stop;
}

# ---- copied databases ----

# What the standby says of a copied database before the primary has opened it
sub copied
{
	my ($what, $node, $db) = @_;
	my @queries = map { my $t = $_; ("'$t all', count(*), sum(k) FROM ${t}_%s", "'$t key', k FROM ${t}_%s WHERE id = 10", "'$t index', count(*) FROM ${t}_%s WHERE k = 7") } 'd1', 'd2';
	my $right = $node->safe_psql($db, join(';', map { 'SELECT ' . s/%s/h/r } @queries));
	foreach my $kind ('l', 'x')
	{
		my ($rc, $out, $err) = $node->psql($db, 'SET enable_seqscan = off;' . join('', map { "SELECT @{[s/%s/$kind/r]};\n" } @queries));
		is("$out$err", $right, "$what: $kind, the right answers");
	}
	return;
}

sub use_copy
{
	my ($node, $db) = @_;
	$node->safe_psql($db, join('', map { my $t = $_; certain($t, 'UPDATE %s SET k = k + 1 WHERE id % 5 = 0') . certain($t, "INSERT INTO %s SELECT g, 7, NULL, 'copy' FROM generate_series(5000, 5400) g ON CONFLICT DO NOTHING") . "SELECT lsm_flush('${t}_l');" } 'd1', 'd2'));
	return;
}

if ($parts{copies})
{
	$primary->safe_psql('postgres', "CREATE TABLESPACE space LOCATION ''");
	foreach my $strategy ('wal_log', 'file_copy')
	{
		$primary->safe_psql('postgres', "CREATE DATABASE c_$strategy TEMPLATE template_twins STRATEGY $strategy");
		$primary->safe_psql('postgres', "CREATE DATABASE u_$strategy TEMPLATE template_twins STRATEGY $strategy");
		$primary->safe_psql('postgres', "CREATE DATABASE n_$strategy TEMPLATE template_twins STRATEGY $strategy");
		$primary->safe_psql('postgres', "CREATE DATABASE cc_$strategy TEMPLATE c_$strategy STRATEGY $strategy");

		# the template's files are replaced
		$primary->safe_psql('template_twins', certain('d1', 'UPDATE %s SET k = k + 1 WHERE id % 11 = 3') . "SELECT lsm_compact('d1_l'), lsm_compact('d1_x_k'); CHECKPOINT");
		caught_up($primary, $standby);
		copied("$strategy: not opened by the primary", $standby, "c_$strategy");
		copied("$strategy: copy of a copy", $standby, "cc_$strategy");
		$primary->safe_psql('postgres', "DROP DATABASE n_$strategy");

		# A standby that replays a copy by files once more copies what the template has become since, as far as that was written
		# out: heap, too (CreateDatabaseUsingFileCopy(), scenario 2).  Behind a restartpoint it does not.
		$standby->safe_psql('postgres', 'CHECKPOINT');
		kill_server($standby);
		$standby->start;
		copied("$strategy: after a crash", $standby, "c_$strategy");
		use_copy($primary, "c_$strategy");
		caught_up($primary, $standby);
		whole("$strategy: opened by the primary", $standby, "c_$strategy", 'd1', 'd2');
		use_copy($primary, "cc_$strategy");
		caught_up($primary, $standby);
		whole("$strategy: copy of a copy, opened by the primary", $standby, "cc_$strategy", 'd1', 'd2');
		$primary->safe_psql('postgres', "DROP DATABASE cc_$strategy");
		caught_up($primary, $standby);
		kill_server($standby) if $strategy eq 'wal_log';
		$standby->start if $strategy eq 'wal_log';
		whole("$strategy: another copy is dropped", $standby, "c_$strategy", 'd1', 'd2');
		copied("$strategy: never opened", $standby, "u_$strategy");

		# moved, one that the primary has opened and one that it has not
		foreach my $db ("c_$strategy", "u_$strategy")
		{
			$primary->safe_psql('postgres', "ALTER DATABASE $db SET TABLESPACE space");
			caught_up($primary, $standby);
			copied("$strategy: $db moved", $standby, $db);
		}
		$primary->safe_psql("c_$strategy", certain('d1', 'UPDATE %s SET k = k + 1 WHERE id % 7 = 0') . "SELECT lsm_compact('d1_l')");
		caught_up($primary, $standby);
		whole("$strategy: moved and opened", $standby, "c_$strategy", 'd1', 'd2');

		# a database takes the OID of one that was copied from the same template
		my $oid = $strategy eq 'wal_log' ? 700_001 : 700_002;
		foreach my $again (1, 2)
		{
			my ($rc, $out, $err) = $primary->psql('postgres', "CREATE DATABASE o_$strategy TEMPLATE template_twins STRATEGY $strategy OID $oid");
			is($err, '', "$strategy: the OID of the database, time $again");
			last if $rc != 0;
			use_copy($primary, "o_$strategy");
			whole("$strategy: the OID, time $again", $primary, "o_$strategy", 'd1', 'd2');
			caught_up($primary, $standby);
			whole("$strategy: the OID, time $again: standby", $standby, "o_$strategy", 'd1', 'd2');
			$primary->safe_psql('template_twins', certain('d1', 'UPDATE %s SET k = k + 1 WHERE id % 11 = 4') . "SELECT lsm_flush('d1_l')");
			$primary->safe_psql('postgres', "DROP DATABASE o_$strategy");
		}
	}

	# a switchover: what the primary never opened is whole where it is promoted
	my $before = $primary->safe_psql('template_twins', 'SELECT count(*) FROM d1_h');
	$primary->stop;
	$standby->promote;
	foreach my $strategy ('wal_log', 'file_copy')
	{
		whole("$strategy: promoted, never opened", $standby, "u_$strategy", 'd1', 'd2');
		use_copy($standby, "u_$strategy");
		$standby->safe_psql("u_$strategy", "SELECT lsm_compact('d1_l')");
		whole("$strategy: promoted, written to", $standby, "u_$strategy", 'd1', 'd2');
		whole("$strategy: promoted, opened before", $standby, "c_$strategy", 'd1', 'd2');
	}
	whole('promoted: the template', $standby, 'template_twins', 'd1', 'd2');
	$primary->enable_streaming($standby);
	$primary->start;
	($primary, $standby) = ($standby, $primary);
	caught_up($primary, $standby);
	whole('a switchover: the former primary', $standby, undef, some());
	whole("$_: a switchover: the former primary", $standby, "u_$_", 'd1', 'd2') foreach 'wal_log', 'file_copy';
	$primary->safe_psql('postgres', "DROP DATABASE $_") foreach map { ("c_$_", "u_$_") } 'wal_log', 'file_copy';
	$primary->safe_psql('postgres', 'DROP TABLESPACE space');
}

# ---- promotion under open sessions ----

# Of a cursor's rows: so many, each on a line
sub fetch
{
	my ($session, $cursor, $rows) = @_;
	my ($out, $error) = $session->query("FETCH $rows FROM $cursor");
	return $error ? "error: $session->{stderr}" : $out;
}

sub promotion
{
	my ($what) = @_;
	my $behind = standby_of($standby, "behind_" . ++$number);

	# Redo would wait for the cursors' pins where heap pages are pruned: nothing is to be pruned while these are open
	$primary->safe_psql('postgres', 'ALTER TABLE big_h SET (autovacuum_enabled = off); ALTER TABLE big_x SET (autovacuum_enabled = off); VACUUM big_h, big_l, big_x');
	caught_up($primary, $standby);
	my %session;
	foreach my $kind (@kinds)
	{
		my $s = $session{$kind} = $standby->background_psql('postgres', on_error_stop => 0);
		$s->query_safe("SET application_name = 'kept'; SET work_mem = '64kB'; BEGIN; DECLARE held CURSOR WITH HOLD FOR SELECT id, k, t FROM big_$kind ORDER BY id; COMMIT");
		$s->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;');
		$s->query_safe("DECLARE by_key NO SCROLL CURSOR FOR SELECT id, k, t FROM big_$kind WHERE id > 0 ORDER BY id; DECLARE back NO SCROLL CURSOR FOR SELECT id, k FROM big_$kind WHERE id < 5000 ORDER BY id DESC");
		$s->query_safe("SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; DECLARE whole CURSOR FOR SELECT id, k, t FROM big_$kind");
		$s->query_safe("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = on; DECLARE bits CURSOR FOR SELECT id, k FROM big_$kind WHERE k BETWEEN 10 AND 40; RESET enable_seqscan; RESET enable_indexscan");
		$s->query_safe("PREPARE p(int) AS SELECT k, t FROM big_$kind WHERE id = \$1");
	}
	my $plan = $session{l}->query('EXPLAIN (COSTS off) SELECT id, k, t FROM big_l WHERE id > 0 ORDER BY id');
	my %first;
	foreach my $kind (@kinds)
	{
		$first{$kind}{$_} = fetch($session{$kind}, $_, 50) foreach 'held', 'by_key', 'back', 'whole', 'bits';
	}

	# redo would wait for them
	my $xmin = $standby->safe_psql('postgres', q{SELECT min(backend_xmin::text::bigint) FROM pg_stat_activity WHERE state = 'idle in transaction'});
	$primary->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_replication WHERE application_name = '" . $standby->name . "' AND backend_xmin::text::bigint <= $xmin") or die 'the primary does not hear of the snapshots';

	my @files = lsm_files_of($standby);

	# the files that the cursors read go on the primary, as far as their snapshots let them
	$primary->safe_psql('postgres', certain('big', "UPDATE %s SET t = t || 'new', k = (k + 50) % 97 WHERE id % 2 = 0") . certain('big', 'DELETE FROM %s WHERE id % 5 = 1') . 'VACUUM big_l;'
		  . "SELECT lsm_compact('big_l'), lsm_compact('big_x_id'), lsm_compact('big_x_k');" . certain('big', "INSERT INTO %s SELECT g, 3, NULL, 'late' FROM generate_series(20001, 20500) g ON CONFLICT DO NOTHING"));
	caught_up($primary, $standby);
	$primary->stop;
	$standby->promote;

	# one who comes now writes at once
	$standby->safe_psql('postgres', certain('big', "INSERT INTO %s SELECT g, 1, md5(g::text)::uuid, 'promoted' FROM generate_series(30001, 31000) g ON CONFLICT DO NOTHING") . certain('big', 'DELETE FROM %s WHERE id % 5 = 2')
		  . "SELECT lsm_flush('big_l'), lsm_compact('big_l'), lsm_compact('big_x_id'), lsm_compact('big_x_k'); VACUUM big_h, big_l, big_x; CHECKPOINT;");
	cmp_ok(scalar(grep { !-e $_ } @files), '>', 5, "$what: files that there were are gone");
	my %rest;
	foreach my $kind (@kinds)
	{
		my $s = $session{$kind};
		foreach my $cursor ('by_key', 'back', 'whole', 'bits', 'held')
		{
			my $all = "$first{$kind}{$cursor}\n" . fetch($s, $cursor, 'ALL');
			$rest{$cursor}{$kind} = $cursor =~ /whole|bits/ ? join("\n", sort split /\n/, $all) : $all;
		}
		$rest{'the snapshot'}{$kind} = $s->query("SELECT count(*), sum(k), md5(string_agg(t, ',' ORDER BY id)) FROM big_$kind");
		$rest{'a prepared statement'}{$kind} = $s->query('EXECUTE p(15); EXECUTE p(30); EXECUTE p(31)');
		$s->query('COMMIT');
		$rest{'held, after the commit'}{$kind} = fetch($s, 'held', 'BACKWARD 100');
		$rest{'after the commit'}{$kind} = $s->query('EXECUTE p(15); EXECUTE p(30); EXECUTE p(30001)');
		$rest{'its own rows'}{$kind} = $s->query("INSERT INTO big_$kind SELECT g, 9, NULL, 'session' FROM generate_series(40001, 40100) g ON CONFLICT DO NOTHING; UPDATE big_$kind SET k = 4 WHERE id BETWEEN 40 AND 60; SELECT count(*), sum(k) FROM big_$kind");
	}
	foreach my $rest (sort keys %rest)
	{
		my %answer = %{ $rest{$rest} };
		my ($lines) = scalar(split /\n/, $answer{h});
		unlike($answer{h}, qr/error/, "$what: $rest: an answer ($lines lines)");
		ok($answer{l} eq $answer{h}, "$what: $rest: lsm table as heap") or diag(difference($answer{h}, $answer{l}));
		ok($answer{x} eq $answer{h}, "$what: $rest: lsm indexes as heap") or diag(difference($answer{h}, $answer{x}));
	}
	$_->quit foreach values %session;
	whole("$what: promoted", $standby, undef, 'big', some());
	same("$what: the one behind", $standby, $behind);
	whole("$what: the one behind", $behind, undef, 'big', some());
	is($behind->safe_psql('postgres', 'SELECT received_tli FROM pg_stat_wal_receiver'), hex(substr($standby->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_lsn())'), 0, 8)), "$what: the one behind is on the new timeline");
	$primary->enable_streaming($standby);
	$primary->start;
	($primary, $standby) = ($standby, $primary);
	$behind->stop;
	same("$what: the former primary", $primary, $standby);
	whole("$what: the former primary", $standby, undef, 'big', some());
	return;
}

sub difference
{
	my ($h, $l) = @_;
	my @h = split /\n/, $h;
	my @l = split /\n/, $l;
	my ($i) = grep { ($h[$_] // 'nothing') ne ($l[$_] // 'nothing') } 0 .. (@h > @l ? $#h : $#l);
	return @h . ' and ' . @l . " lines; line $i: " . substr($h[$i] // 'nothing', 0, 100) . ' / ' . substr($l[$i] // 'nothing', 0, 200);
}

if ($parts{promotion})
{
	promotion("promotion $_") foreach 1 .. (lsm_long() ? 4 : 1);
}

# ---- elastic filters on the standby ----

# Keys that are there and keys that are not, one lookup each
my $lookups = join(';', 'BEGIN ISOLATION LEVEL REPEATABLE READ; SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off',
	map { my $t = $_; ("SELECT count(e.id), sum(e.id) FROM generate_series(1, 4000) i CROSS JOIN LATERAL (SELECT id FROM $t WHERE id = i OFFSET 0) e", "SELECT count(e.id), sum(e.id) FROM generate_series(1, 3000) i CROSS JOIN LATERAL (SELECT id FROM $t WHERE u = md5(i::text)::uuid OFFSET 0) e") } 'e_h', 'e_l', 'e_x') . '; COMMIT';

sub elastic
{
	my ($what, $node) = @_;
	my @answers = split /\n/, $node->safe_psql('postgres', $lookups);
	my @h = @answers[ 0, 1 ];
	is("@answers[2 .. 5]", "@h @h", "$what: elastic filters: lookups as heap's ($h[0])");
	cmp_ok($node->safe_psql('postgres', 'SELECT units_on FROM lsm_elastic_stats()'), '>', 0, "$what: units are on");
	return;
}

if ($parts{elastic})
{
	foreach my $round (1 .. (lsm_long() ? 5 : 1))
	{
		$primary->safe_psql('postgres', join('', map { random_change('e') } 1 .. 150) . "SELECT lsm_flush('e_l'), lsm_flush('e_x_id'), lsm_flush('e_x_u')");
		caught_up($primary, $standby);
		elastic('on the standby', $standby);
		load_start($primary);
		usleep(500_000);
		kill_server($standby);
		$standby->start;
		elastic('after a crash', $standby);
		is(load_stop($primary), '', 'the load');
		$standby->restart;
		elastic('after a restart', $standby);
		caught_up($primary, $standby);
		$primary->stop;
		$standby->promote;
		elastic('promoted', $standby);
		$standby->safe_psql('postgres', join('', map { random_change('e') } 1 .. 150) . "SELECT lsm_compact('e_l'), lsm_compact('e_x_id')");
		elastic('promoted and compacted', $standby);
		whole('elastic, promoted', $standby, undef, 'e');
		$primary->enable_streaming($standby);
		$primary->start;
		($primary, $standby) = ($standby, $primary);
		caught_up($primary, $standby);
		elastic('the former primary', $standby);
	}
}

# ---- kills ----

if ($parts{kills})
{
	my $wanted = $ENV{LSM_KILLS} // 60;
	my %kills;
	my $n = 0;
	while ($n < $wanted)
	{
		load_start($primary);
		usleep(int(rand(2_000_000)));
		my ($victim, $name) = rand() < 0.5 ? ($primary, 'primary') : ($standby, 'standby');
		if ($name eq 'standby' && rand() < 0.3)
		{
			# while it recovers
			kill_server($victim);
			PostgreSQL::Test::Utils::system_log('pg_ctl', '-W', '-s', '-D', $victim->data_dir, '-l', $victim->logfile, 'start');
			usleep(5_000) until lsm_pids($victim);
			usleep(int(rand(400_000)));
			$n++;
			$kills{"$name, recovering"}++;
		}
		kill_server($victim);
		$n++;
		$kills{$name}++;
		$victim->start;
		is(load_stop($primary, $name eq 'primary'), '', "kill $n: the load");
		my $old = q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()};
		$primary->poll_query_until('postgres', $old);
		same("kill $n ($name)", $primary, $standby);
		whole("kill $n ($name): $_->[0]", $_->[1], undef, map { $twins[ int(rand(@twins)) ] } 1 .. 4) foreach [ 'primary', $primary ], [ 'standby', $standby ];
		next if rand() > 1 / 6;
		fail_over("after $n kills", kill => rand() < 0.7, online => rand() < 0.5, usleep => int(rand(1_000_000)));
		$kills{'of a primary before pg_rewind, at most'}++;
	}
	diag("$n kills: " . join(', ', map { "$_: $kills{$_}" } sort keys %kills));
	cmp_ok($n, '>=', $wanted, 'kills');
}

$standby->stop;
$primary->stop;
done_testing();
