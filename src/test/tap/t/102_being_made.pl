# Keyspaces that are being made while checkpoints go by: no fork names them yet, and the sweep keeps them.  Keyspaces of a
# copied database whose ids come again, since the database is dropped and copied again under the same OID: files that wait to be
# unlinked, on the primary and on a standby, are those of the first one.  An index that has moved twice is whole after the
# second move is rolled back.
# A CREATE DATABASE that fails leaves nothing, wherever it does.
#   LSM_PARTS="..."   of these parts: rollback sweep failed ids
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

my $node = lsm_node('making', conf => "max_wal_senders = 8\nmax_wal_size = 1GB\nwal_keep_size = 1GB\nautovacuum = off\nfsync = off\nallow_in_place_tablespaces = on\ncheckpoint_timeout = 1h\n"
	  . "lsm.memtable_memory = 64MB\nlsm.memtable_size = 64kB\nlsm.target_file_size = 64kB\nlsm.size_ratio = 2\nlsm.compression = none\nlsm.crash_point = '?'");
$node->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($node);
$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION ''");

my %parts = map { $_ => 1 } split ' ', $ENV{LSM_PARTS} // 'rollback sweep failed ids';
my $create = 'CREATE TABLE t (i int, v text) USING lsm; CREATE INDEX t_i ON t USING lsm (i); INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 2000) i; SELECT lsm_flush(\'t\'); INSERT INTO t SELECT i, md5(i::text) FROM generate_series(2001, 2100) i;';
my $rows = 'SELECT count(*), sum(i), count(DISTINCT v) FROM t';
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(v), sum(i) FROM t WHERE i > 0';
my ($right, $right_by_index) = ('2100|2206050|2100', '2100|2206050');

sub whole
{
	my ($server, $db, $what) = @_;
	my ($rc, $out, $err) = $server->psql($db, "$rows; $by_index; SELECT v.* FROM lsm_verify('t') v");
	is("$out$err", "$right\n$right_by_index", $what);
	return;
}

sub directories { my ($server) = @_; return sort grep { -d $_ } glob(lsm_dir($server // $node) . '/*'); }

sub new_directories
{
	my ($what) = @_;
	my %before = map { $_ => 1 } directories();
	$what->();
	return grep { !$before{$_} } directories();
}

# Until the sweep has removed an orphan that nobody knew of before: so it would have removed all that are older.
sub sweep
{
	my ($what) = @_;
	my @orphans = new_directories(sub { $node->safe_psql('postgres', 'BEGIN; SAVEPOINT s; CREATE TABLE orphan (i int) USING lsm; ROLLBACK TO s; COMMIT') });
	is(scalar(@orphans), 1, "$what: an orphan");
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	while ((grep { -d $_ } @orphans) && time < $end)
	{
		$node->safe_psql('postgres', 'CHECKPOINT');
		usleep(100_000);
	}
	is(join(' ', grep { -d $_ } @orphans), '', "$what: the sweep removes it");
	return;
}

# Two sessions at a time, each held at its point
my $pair = 0;

sub held_pair
{
	my @makers = @_;
	my (@new, @sessions);
	$pair++;
	foreach my $i (0, 1)
	{
		my ($what, $db, $point, $sql, $says, $ndirectories) = @{ $makers[$i] };
		my @made = new_directories(sub {
			lsm_hold($node, $point, 'backend', 0, second => $i);
			$sessions[$i] = lsm_start_session($node, $db, "maker${pair}_$i", $sql);
			ok(lsm_wait_held($node, undef, second => $i), "$what: $point is reached");
		});
		is(scalar(@made), $ndirectories // 1, "$what: a directory");
		push @new, @made;
	}
	sweep("pair $pair");
	is(join(' ', grep { !-d $_ } @new), '', "pair $pair: what is being made stays");
	foreach my $i (0, 1)
	{
		my ($what, $db, $point, $sql, $says) = @{ $makers[$i] };
		lsm_release($node, second => $i);
		ok(lsm_ended($sessions[$i]), "$what: it comes to an end");
		is(lsm_output("maker${pair}_$i") =~ s/^\n//mgr, "$says\n", "$what: no error");
	}
	return;
}

# ---- two moves ----

# Nobody opens the index between them: its metapage names a fork that is gone already.
if ($parts{rollback})
{
	$node->safe_psql('postgres', 'CREATE DATABASE twice');
	$node->safe_psql('twice', "CREATE EXTENSION lsmam; $create");
	$node->safe_psql('twice', 'ALTER INDEX t_i SET TABLESPACE other');
	$node->safe_psql('twice', q{BEGIN; ALTER INDEX t_i SET TABLESPACE pg_default; INSERT INTO t SELECT 1 + i % 2000, 'gone' FROM generate_series(1, 3000) i; SELECT lsm_flush('t_i'), lsm_compact('t_i'); ROLLBACK});
	whole($node, 'twice', 'the second move is rolled back');
	$node->restart;
	whole($node, 'twice', 'the second move is rolled back: after a restart');
}

# ---- the sweep ----

foreach my $db ('tables', 'indexes', 'origin')
{
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, "CREATE EXTENSION lsmam; $create");
}
if ($parts{sweep})
{
	$node->safe_psql('tables', 'CREATE UNLOGGED TABLE u (i int) USING lsm; INSERT INTO u VALUES (1)');
	$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE origin');
	$node->safe_psql('copied', 'ALTER INDEX t_i SET TABLESPACE other');
	held_pair([ 'SET TABLESPACE of a table', 'tables', 'copy_copied', "ALTER TABLE t SET TABLESPACE other; $rows", $right ],
		[ 'first use of an index that is being moved', 'indexes', 'adopt_copied', "BEGIN; ALTER INDEX t_i SET TABLESPACE other; $by_index; COMMIT", $right_by_index ]);
	held_pair([ 'SET TABLESPACE of a temporary table', 'origin', 'copy_copied', 'CREATE TEMP TABLE own (i int) USING lsm; INSERT INTO own SELECT generate_series(1, 500); SELECT lsm_flush(\'own\'); ALTER TABLE own SET TABLESPACE other; SELECT count(*) FROM own', 500, 2 ],
		[ 'first use of an index that was moved in a copied database', 'copied', 'adopt_copied', $by_index, $right_by_index ]);
	$node->stop('immediate');
	$node->start;
	held_pair([ 'an unlogged table after a crash', 'tables', 'create_owner_written', 'SELECT count(*) FROM u; INSERT INTO u VALUES (1), (2)', 0 ],
		[ 'a new table', 'tables', 'create_dir_made', 'CREATE TABLE n (i int) USING lsm; INSERT INTO n VALUES (1); SELECT i FROM n', 1 ]);
	sweep('afterwards');
	whole($node, $_, "$_: afterwards") foreach 'tables', 'indexes', 'origin', 'copied';
	is($node->safe_psql('tables', 'SELECT count(*) FROM u; SELECT count(*) FROM n'), "2\n1", 'unlogged and new table: afterwards');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'userlock'}), 0, 'no locks are left');
	$node->restart;
	whole($node, $_, "$_: after a restart") foreach 'tables', 'indexes', 'origin', 'copied';
}

# ---- copies that fail ----

# an error, or the end of the session, before, amid and behind the copying of the files
if ($parts{failed})
{
	$node->safe_psql('postgres', 'CREATE DATABASE spread');
	$node->safe_psql('spread', "CREATE EXTENSION lsmam; $create; ALTER INDEX t_i SET TABLESPACE other");
	my $databases = sub { return (directories(), glob($node->data_dir . '/{base/*,pg_tblspc/*/*/*}')); };
	my %before = map { $_ => 1 } $databases->();
	my $nothing_left = sub { is(join(' ', grep { !$before{$_} } $databases->()), '', "$_[0]: nothing is left"); };
	my $oid = 700010;
	foreach my $strategy ('wal_log', 'file_copy')
	{
		my $copy = "CREATE DATABASE failing TEMPLATE spread STRATEGY $strategy OID $oid";
		foreach my $point ('clone_begins', 'clone_begun', 'clone_copied', 'clone_ends')
		{
			my ($rc, $out, $err) = $node->psql('postgres', "SET lsm.crash_point = '$point!';\n$copy");
			like($err, qr/^psql:<stdin>:2: ERROR:  error at crash point $point$/, "$strategy: an error at $point");
			$nothing_left->("$strategy: $point");
			next if $point !~ /begins|copied/;
			lsm_hold($node, $point, 'backend');
			my $session = lsm_start_session($node, 'postgres', 'terminated', "$copy;\nSELECT 1");
			ok(lsm_wait_held($node), "$strategy: $point is reached");
			$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^CREATE DATABASE failing'});
			lsm_release($node);
			ok(lsm_ended($session), 'the session ends');
			like(lsm_output('terminated'), qr/terminating connection due to administrator command/, "$strategy: terminated at $point");
			$nothing_left->("$strategy: $point");
		}
		# a page of the copy that cannot be read: of the list of files, or the metapage
		my $file = $node->data_dir . '/' . $node->safe_psql('spread', q{CHECKPOINT; SELECT pg_relation_filepath('t')});
		foreach my $damaged (unpack('x104 L', slurp_file($file)), 0)
		{
			lsm_flip_bits($file, 8192 * $damaged + 13, 0xff);
			my ($rc, $out, $err) = $node->psql('postgres', 'CREATE DATABASE failing TEMPLATE spread STRATEGY file_copy');
			like($err, qr/^psql:<stdin>:1: ERROR:  invalid page in block $damaged of relation \S+$/, "$strategy: a damaged block $damaged");
			$nothing_left->("$strategy: a damaged block $damaged");
			lsm_flip_bits($file, 8192 * $damaged + 13, 0xff);
		}
		$node->safe_psql('postgres', $copy);
		whole($node, $_, "$strategy: $_") foreach 'failing', 'spread';
		$node->safe_psql('postgres', 'DROP DATABASE failing');
		$before{$_} = 1 foreach $databases->();
		$oid++;
	}
	$node->safe_psql('postgres', 'DROP DATABASE spread');
}

# ---- rows that come again ----

# What was noted of hot keys is the first copy's: the second one gives the same row numbers to other keys.
if ($parts{rollback})
{
	my $copy = 'CREATE DATABASE again TEMPLATE keyed OID 700005';
	my $row = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT id, v FROM k WHERE id = 1';
	$node->safe_psql('postgres', 'CREATE DATABASE keyed');
	$node->safe_psql('keyed', q{CREATE EXTENSION lsmam; CREATE TABLE k (id int NOT NULL, v text) USING lsm; CREATE UNIQUE INDEX k_id ON k USING lsm (id); INSERT INTO k SELECT i, 'first' FROM generate_series(1, 100) i; SELECT lsm_flush('k')});
	$node->safe_psql('postgres', $copy);
	$node->safe_psql('again', "SET enable_seqscan = off; UPDATE k SET v = 'change' WHERE id = 1; UPDATE k SET v = 'changed' WHERE id = 1");
	is($node->safe_psql('again', $row), '1|changed', 'a row is changed in a copy');
	$node->safe_psql('postgres', $_) foreach 'DROP DATABASE again', $copy;
	$node->safe_psql('again', "INSERT INTO k SELECT i, 'other' FROM generate_series(990, 999) i");
	is($node->safe_psql('again', $row), '1|first', 'the second copy has its own');
	is($node->safe_psql('again', "SET enable_seqscan = off; SET enable_bitmapscan = off; UPDATE k SET v = 'second' WHERE id = 1; SELECT id, v FROM k WHERE id IN (1, 999) ORDER BY id; SELECT * FROM lsm_verify('k')"), "1|second\n999|other", 'and changes it');
	$node->safe_psql('postgres', 'DROP DATABASE again');
}

# ---- ids that come again ----

if (!$parts{ids})
{
	$node->stop;
	done_testing();
	exit;
}
$node->safe_psql('postgres', $create =~ s/\bt\b/p/gr =~ s/t_i/p_i/gr);
$node->backup('first', backup_options => [ '-c', 'fast', '--no-sync' ]);
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'first', has_streaming => 1);
$standby->start;
my $copy = 'CREATE DATABASE c TEMPLATE origin OID 700003';

sub caught_up
{
	my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	return $standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'") || die 'the standby does not catch up';
}

# The epoch of a reader that is held goes on
sub held_reader
{
	my ($server, $name) = @_;
	lsm_hold($server, 'standby_set_taken', 'backend');
	my $reader = lsm_start_session($server, 'postgres', $name, 'SELECT count(*) FROM p');
	ok(lsm_wait_held($server), "$name: a reader is held");
	return $reader;
}

sub files { return map { sprintf('%06d.sst', $_) } split /\n/, $node->safe_psql('c', q{SELECT file FROM lsm_files('t_i')}); }

# on a standby
my @derived = map { s{.*/}{}r } new_directories(sub { $node->safe_psql('postgres', $copy) });
is(scalar(@derived), 2, 'keyspaces of the copy');
my %first = map { $_ => 1 } files();
my $reader = held_reader($standby, 'standby');
# a file that goes, and not as it is to another level
$node->safe_psql('c', q{DELETE FROM t WHERE i % 2 = 0; UPDATE t SET i = i + 1; SELECT lsm_compact('t'), lsm_compact('t_i')});
is(join(' ', grep { $first{$_} } files()), '', 'other files are in the list');
caught_up();
$node->safe_psql('postgres', 'DROP DATABASE c');
$node->safe_psql('postgres', $copy);
caught_up();
lsm_release($standby);
ok(lsm_ended($reader), 'the reader goes on');
$node->safe_psql('postgres', q{INSERT INTO p VALUES (0, 'x'); SELECT lsm_flush('p')});
caught_up();
whole($standby, 'c', 'standby: the second one has its files');
whole($node, 'c', 'primary: so it has here');

# On the primary, in a worker: it has replaced a file of the copy, and waits for the reader to remove them.
my $from = 10_000;

# All over the keys.  (Memtables wait for the reader, too.)
sub insert_until_replaced
{
	my %first = map { $_ => 1 } files();
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $replaced = 0;
	while (!$replaced && time < $end)
	{
		$node->safe_psql('c', "INSERT INTO t SELECT 1 + i * 7919 % 2000, md5(i::text) FROM generate_series($from, $from + 999) i");
		$from += 1000;
		my %now = map { $_ => 1 } files();
		$replaced = grep { !$now{$_} } keys %first;
	}
	ok($replaced, 'a worker has replaced a file');
	$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_lsm_progress') or die 'a job does not end';
	return;
}

sub copy_under_worker
{
	my ($name) = @_;
	my $reader = held_reader($node, $name);
	insert_until_replaced();
	lsm_hold($node, 'unlink_queue', 'worker', 0, second => 1);
	ok(lsm_wait_held($node, undef, second => 1), "$name: files wait to be unlinked");
	$node->safe_psql('postgres', 'DROP DATABASE c');
	$node->safe_psql('postgres', $copy);
	lsm_release($node);
	ok(lsm_ended($reader), "$name: the reader goes on");
	return;
}

copy_under_worker('unlinking');
lsm_release($node, second => 1);
usleep(500_000);
whole($node, 'c', 'primary: the second one has its files');
caught_up();
whole($standby, 'c', 'standby: so it has here');

# What the worker knows of the list of files is that of the first one, too.
copy_under_worker('list');
my $more = 0;
foreach my $i (1 .. 40)
{
	$node->safe_psql('c', "INSERT INTO t VALUES (-$i, 'more $i'); SELECT lsm_flush('t'), lsm_flush('t_i')" . ($i % 8 ? '' : "; SELECT lsm_compact('t'), lsm_compact('t_i')"));
	$more++;
}
my $logged = -s $node->logfile;
my $old_from = $from;
lsm_release($node, second => 1);
insert_until_replaced();
$more += $from - $old_from;
is($node->safe_psql('c', 'SELECT count(*), count(DISTINCT v) FROM t'), join('|', (2100 + $more) x 2), 'list: rows of the second one');
is($node->safe_psql('c', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(v) FROM t WHERE i > -1000'), 2100 + $more, 'list: by index');
is($node->safe_psql('c', q{SELECT * FROM lsm_verify('t')}), '', 'list: lsm_verify');
unlike(substr(slurp_file($node->logfile), $logged), qr/WARNING|ERROR/, 'list: the worker has nothing to complain of');
$standby->stop;
$node->stop;
done_testing();
