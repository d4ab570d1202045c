# What the tests of backups share: twins (heap tables and lsm tables changed in one transaction) under load with flushes,
# compactions and DDL; moments of that load to which a server can be recovered, with what the tables held then; copies
# of data directories; and what is asked of every restored server.
package LsmBackup;

use strict;
use warnings;

use Exporter 'import';
use File::Find;
use File::Path qw(rmtree);
use LsmTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

our @EXPORT = qw(backup_primary backup_load backup_load_end backup_jobs backup_wait_jobs backup_wait_ddl backup_moment
  backup_mark backup_copy_dir backup_new_node backup_recover_to backup_move_tablespace backup_check_restored
  backup_restored backup_keyspace backup_archive_all backup_far);

# Twins: NAME_h, NAME_l.  s lies in another tablespace; d and r are truncated, dropped, moved and indexed by the load;
# files of b are logged in several pieces; still is never changed, so that its files are in WAL before any backup begins.
my @twins = qw(a s d r b still);
my @loaders;
my $restored = 0;
my $far;

sub backup_restored { return $restored; }

sub backup_far { return $far; }

# A server with data checksums and group access, its twins, and a second tablespace
sub backup_primary
{
	my ($name, %opt) = @_;
	my $node = lsm_node($name, initdb => [ '-g', '-k', "--wal-segsize=$opt{segment}" ], conf => qq{
max_wal_senders = 10
max_replication_slots = 10
wal_keep_size = 256MB
max_wal_size = 256MB
hot_standby = on
fsync = off
autovacuum_naptime = 5s
lsm.memtable_size = 64kB
lsm.target_file_size = 64kB
lsm.size_ratio = 3
@{[ $opt{conf} // '' ]}
});
	$node->append_conf('pg_hba.conf', "local replication all trust\n");
	lsm_start($node);
	$far = PostgreSQL::Test::Utils::tempdir();
	$node->safe_psql('postgres', "CREATE TABLESPACE far LOCATION '$far'");
	my $sql = 'CREATE TABLE ledger_h (stream int, n int, PRIMARY KEY (stream, n)) USING heap;
CREATE TABLE ledger_l (stream int, n int, PRIMARY KEY (stream, n)) USING lsm;
CREATE TABLE marks (name text PRIMARY KEY) USING heap;
CREATE UNLOGGED TABLE unlogged_l (id int PRIMARY KEY, v text) USING lsm;
CREATE INDEX ON unlogged_l USING lsm (v);
INSERT INTO unlogged_l SELECT g, md5(g::text) FROM generate_series(1, 3000) g;
CREATE TABLE still2_l (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO still2_l SELECT g, md5(g::text) FROM generate_series(1, 500) g;
CREATE DATABASE template STRATEGY wal_log;
';
	foreach my $t (@twins)
	{
		my $space = $t eq 's' ? 'TABLESPACE far' : '';
		$sql .= create_twins($t, $space) . insert_into($t, 0, 1000);
	}
	$sql .= "CREATE INDEX a_x ON a_h USING lsm (n, k); SELECT lsm_flush('still_l'), lsm_flush('still2_l'), lsm_flush('unlogged_l')";
	$node->safe_psql('postgres', $sql);
	$node->safe_psql('template', q{CREATE EXTENSION lsmam; CREATE TABLE t (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 1500) g; SELECT lsm_flush('t'); INSERT INTO t SELECT -g FROM generate_series(1, 200) g});
	return $node;
}

sub create_twins
{
	my ($t, $space) = @_;
	return "CREATE TABLE ${t}_h (id int PRIMARY KEY, k int, u uuid, n int, v text) USING heap $space;\n"
	  . "CREATE TABLE ${t}_l (id int PRIMARY KEY, k int, u uuid, n int, v text) USING lsm $space;\n"
	  . "CREATE INDEX ${t}_k ON ${t}_l USING lsm (k) $space; CREATE UNIQUE INDEX ${t}_u ON ${t}_l USING lsm (u) $space; CREATE INDEX ${t}_n ON ${t}_l USING lsm (n) INCLUDE (k);\n";
}

sub insert_into
{
	my ($t, $from, $count) = @_;
	return join '', map { "INSERT INTO ${t}_$_ SELECT g, g % 997, md5(g::text)::uuid, g % 50, repeat(md5(g::text), 1 + g % 9) FROM generate_series($from + 1, $from + $count) g;\n" } 'h', 'l';
}

# ---- load ----

# A transaction of the stream: it notes itself in the ledger first, so whoever locks the ledger stops all streams.
sub transaction
{
	my ($stream, $n, $sql) = @_;
	my $end = $stream < 9 && rand() < 0.05 ? 'ROLLBACK' : 'COMMIT';

	# a number is in the ledger once the transaction committed; a rolled back one is done again, empty
	my $note = "INSERT INTO ledger_h VALUES ($stream, $n);\nINSERT INTO ledger_l VALUES ($stream, $n);\n";
	return "BEGIN;\n$note$sql$end;\n" . ($end eq 'ROLLBACK' ? "BEGIN;\n${note}COMMIT;\n" : '');
}

sub change
{
	my ($t, $n) = @_;
	my $a = 1000 + $n * 10;
	my $kind = rand();
	return insert_into($t, $a, 10) . join('', map { "DELETE FROM ${t}_$_ WHERE id <= $a - 3000 AND id > 200;\n" } 'h', 'l') if $kind < 0.5;
	my $id = $n < 300 || rand() < 0.1 ? int(rand(1000)) : $a - int(rand(2500));
	my $sql = $kind < 0.8 ? "UPDATE %s SET n = (n + 1) %% 50, v = v || 'z' WHERE id BETWEEN $id AND $id + 8"
	  : $kind < 0.9 ? "UPDATE %s SET v = repeat(md5(id::text), 300) WHERE id = $id"
	  : "DELETE FROM %s WHERE id BETWEEN $id AND $id + 2";
	return join '', map { sprintf("$sql;\n", "${t}_$_") } 'h', 'l';
}

sub script_of_changes
{
	my ($stream, $t) = @_;
	my $sql = '';
	foreach my $n (1 .. 40_000)
	{
		$sql .= transaction($stream, $n, change($t, $n));
		my $kind = rand();
		$sql .= "SELECT lsm_flush('${t}_l');\n" if $kind < 0.01;
		$sql .= "SELECT lsm_compact('${t}_l');\n" if $kind > 0.997;
		$sql .= "VACUUM ${t}_h, ${t}_l;\n" if $kind > 0.99 && $kind < 0.995;
	}
	return $sql;
}

sub script_of_compactions
{
	my ($stream) = @_;
	my $sql = "SET client_min_messages = warning; SET lsm.target_file_size = '16MB';\n";
	foreach my $n (1 .. 10_000)
	{
		my $text = 'string_agg(md5(g::text || i::text || random()::text), \'\')';
		my $insert = $n % 20 == 1 ? "CREATE TEMP TABLE IF NOT EXISTS more (LIKE b_h) USING heap; TRUNCATE more; INSERT INTO more SELECT $n * 100 + g, g % 997, md5(($n * 100 + g)::text)::uuid, g % 50, (SELECT $text FROM generate_series(1, 50) i WHERE g > 0) FROM generate_series(1001, 3000) g;\nDELETE FROM b_h; DELETE FROM b_l; INSERT INTO b_h TABLE more; INSERT INTO b_l TABLE more;\n" : '';
		$sql .= transaction($stream, $n, $insert . join '', map { "UPDATE b_$_ SET n = n + 1 WHERE id % 37 = $n % 37;\n" } 'h', 'l');
		$sql .= "SELECT lsm_compact('b_l'); SELECT pg_sleep(0.3);\n";
	}
	return $sql;
}

# DDL: of twins together, and of whatever else has files
sub script_of_ddl
{
	my ($stream) = @_;
	my $sql = "SET client_min_messages = error;\n";
	my @ddl = (
		sub { 'TRUNCATE d_h, d_l;' . insert_into('d', $_[0] * 100, 500) },
		sub { 'DROP TABLE r_h, r_l;' . create_twins('r', rand() < 0.3 ? 'TABLESPACE far' : '') . insert_into('r', $_[0] * 100, 300 + int(rand(1000))) },
		sub { my $s = rand() < 0.5 ? 'far' : 'pg_default'; "ALTER TABLE d_l SET TABLESPACE $s; ALTER TABLE d_h SET TABLESPACE $s; ALTER INDEX d_k SET TABLESPACE $s;" . insert_into('d', 1_000_000 + $_[0] * 100, 100) },
		sub { 'DROP INDEX IF EXISTS d_new; CREATE INDEX d_new ON d_l USING lsm (v, n);' . insert_into('d', 2_000_000 + $_[0] * 100, 100) },
		sub { 'REINDEX TABLE d_l; UPDATE d_h SET n = n + 1 WHERE id % 3 = 0; UPDATE d_l SET n = n + 1 WHERE id % 3 = 0;' },
		sub { 'ALTER TABLE r_h ADD COLUMN IF NOT EXISTS e int DEFAULT 7, ALTER n TYPE bigint; ALTER TABLE r_l ADD COLUMN IF NOT EXISTS e int DEFAULT 7, ALTER n TYPE bigint;' },
		sub { 'CREATE TABLE again (id int PRIMARY KEY, v text) USING lsm; INSERT INTO again SELECT g, md5(g::text) FROM generate_series(1, 2000) g; DROP TABLE again;' });
	foreach my $n (1 .. 3000)
	{
		$sql .= transaction($stream, $n, $ddl[ $n % @ddl ]->($n) . "\n");
		$sql .= "VACUUM (FULL) d_l;\n" if $n % 17 == 0;
		$sql .= "CREATE TEMP TABLE own (id int PRIMARY KEY, v text) USING lsm; INSERT INTO own SELECT g, md5(g::text) FROM generate_series(1, 900) g; SELECT lsm_flush('own'); DROP TABLE own;\n" if $n % 3 == 0;
		$sql .= "TRUNCATE unlogged_l; INSERT INTO unlogged_l SELECT g, md5(g::text) FROM generate_series(1, 2000) g; SELECT lsm_flush('unlogged_l');\n" if $n % 5 == 0;
		$sql .= "DROP DATABASE IF EXISTS copied; CREATE DATABASE copied TEMPLATE template STRATEGY " . ($n % 2 ? 'file_copy' : 'wal_log') . ";\n" if $n % 11 == 4;
		$sql .= "SELECT pg_sleep(0.1);\n";
	}
	return $sql;
}

sub backup_load
{
	my ($node) = @_;
	my %scripts = (a => script_of_changes(1, 'a'), s => script_of_changes(2, 's'), b => script_of_compactions(3), ddl => script_of_ddl(9));
	foreach my $name (sort keys %scripts)
	{
		my $file = "$ENV{TESTDIR}/backup_$name.sql";
		unlink $file;
		append_to_file($file, $scripts{$name});
		push @loaders, { pid => lsm_spawn_psql($node, $file, "$file.out"), out => "$file.out" };
	}
	return;
}

# Text about what went wrong with the load, '' if it runs on without errors; it is ended.
sub backup_load_end
{
	my $wrong = '';
	foreach my $loader (@loaders)
	{
		$wrong .= "$loader->{out} ended by itself\n" if waitpid($loader->{pid}, POSIX::WNOHANG()) != 0;
		kill 'TERM', $loader->{pid};
		waitpid($loader->{pid}, 0);
		$wrong .= slurp_file("$loader->{out}.err");
	}
	@loaders = ();
	return $wrong;
}

# Flushes and compactions so far of the trees that the load changes most, and transactions with DDL
sub backup_jobs
{
	my ($node) = @_;
	return split /\|/, $node->safe_psql('postgres', q{SELECT sum(flushes), sum(compactions), (SELECT coalesce(max(n), 0) FROM ledger_h WHERE stream = 9) FROM pg_stat_lsm WHERE relname ~ '^[as]_'});
}

sub wait_for_job
{
	my ($node, $which, $count) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	while ((backup_jobs($node))[$which] < $count)
	{
		die 'the load does not go on: ' . join('', map { slurp_file("$_->{out}.err") } @loaders) if time > $end;
		usleep(20_000);
	}
	return;
}

# Until there have been so many flushes, transactions with DDL
sub backup_wait_jobs { return wait_for_job($_[0], 0, $_[1]); }

sub backup_wait_ddl { return wait_for_job($_[0], 2, $_[1]); }

# ---- moments ----

my $digest = join ' || ', map { "(SELECT '$_ ' || count(*) || ' ' || coalesce(md5(string_agg(t::text, ',' ORDER BY id)), '-') FROM ${_}_h t)" } @twins;
my $ledger = q{SELECT string_agg(stream || ':' || n, ' ' ORDER BY stream) FROM (SELECT stream, max(n) AS n FROM ledger_h GROUP BY stream) m};

sub backup_mark
{
	my ($node, $name) = @_;
	$node->safe_psql('postgres', "INSERT INTO marks VALUES ('$name')");
	return;
}

# A moment at which no transaction of the load is open.  'NAME before' is committed before it, 'NAME at' with it and
# 'NAME after' behind it.
sub backup_moment
{
	my ($node, $name) = @_;
	backup_mark($node, "$name before");
	my $out = $node->safe_psql('postgres', qq{
BEGIN;
LOCK TABLE ledger_h IN SHARE MODE;
INSERT INTO marks VALUES ('$name at');
SELECT $digest;
$ledger;
SELECT pg_current_xact_id();
SELECT pg_create_restore_point('$name');
SELECT pg_current_wal_insert_lsn();
SELECT clock_timestamp() FROM pg_logical_emit_message(false, 'next', 'the record that is replayed last');
COMMIT;
});
	my %moment = (name => $name);
	@moment{qw(digest ledger xid point lsn time)} = split /\n/, $out;
	backup_mark($node, "$name after");
	return \%moment;
}

# All WAL so far is archived.
sub backup_archive_all
{
	my ($node) = @_;
	my $file = $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
	$node->poll_query_until('postgres', "SELECT last_archived_wal >= '$file' FROM pg_stat_archiver") or die 'archiving does not go on';
	return;
}

# ---- restoring ----

# As a tool does that copies file by file: what vanishes between listing and copying is skipped.  `order` sorts the
# names, `between` is called before every file.
sub backup_copy_dir
{
	my ($from, $to, %opt) = @_;
	my (@dirs, @files);
	find({ no_chdir => 1, follow => 0, wanted => sub {
			my $name = substr($File::Find::name, length $from);
			if ($opt{skip} && $name =~ $opt{skip}) { $File::Find::prune = 1 if -d $File::Find::name; return; }
			if (-d $File::Find::name && !-l $File::Find::name) { push @dirs, $name; }
			elsif (-f $File::Find::name && !-l $File::Find::name) { push @files, $name; }
		} }, $from);
	mkdir $to;
	mkdir "$to$_", 0750 foreach sort @dirs;
	@files = $opt{order} ? $opt{order}->(@files) : @files;
	my $n = 0;
	foreach my $file (@files)
	{
		$opt{between}->(++$n, scalar @files) if $opt{between};
		open(my $in, '<:raw', "$from$file") or next;
		open(my $out, '>:raw', "$to$file") or die "$to$file: $!";
		my $data;
		print $out $data while sysread($in, $data, 65536);
		close $out;
		chmod 0640, "$to$file";
	}
	return scalar @files;
}

# In a backup whose tablespace_map names the primary's tablespaces
sub backup_move_tablespace
{
	my ($dir, $from, $to) = @_;
	my $map = slurp_file("$dir/tablespace_map");
	$map =~ s/ \Q$from\E$/ $to/m or die "no $from in $map";
	unlink "$dir/tablespace_map";
	append_to_file("$dir/tablespace_map", $map);
	return;
}

# A node whose data directory is, or will be, there; and how it comes to its configuration
sub backup_new_node
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	mkdir $node->basedir;
	return $node;
}

# Configure the restored data directory, for recovery if `restore` (a restore_command) is given.
sub backup_recover_to
{
	my ($node, %opt) = @_;
	my $data = $node->data_dir;
	chmod 0750, $data;
	my $conf = "\nport = @{[$node->port]}\nunix_socket_directories = '@{[$node->host]}'\narchive_mode = off\nprimary_conninfo = ''\nlog_min_messages = log\n";
	if ($opt{restore})
	{
		$conf .= "restore_command = '$opt{restore}'\n";
		append_to_file("$data/recovery.signal", '') unless -e "$data/recovery.signal" || -e "$data/standby.signal";
	}
	foreach my $setting (sort keys %{ $opt{target} // {} })
	{
		$conf .= "recovery_target_$setting = '$opt{target}{$setting}'\n" if $setting ne 'immediate';
		$conf .= "recovery_target = 'immediate'\n" if $setting eq 'immediate';
	}
	$conf .= "recovery_target_action = promote\n" if $opt{target};
	append_to_file("$data/postgresql.auto.conf", $conf . ($opt{conf} // ''));
	return;
}

# ---- what is asked of every restored server ----

my %paths = (
	sequential => 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET enable_seqscan = on',
	index => 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = on; SET enable_indexscan = on',
	bitmap => 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = on');

# The twins row by row, and by each of the lsm indexes.  Heap tables are read sequentially.
sub twins_sql
{
	my $sql = "SET client_min_messages = warning;\n$paths{sequential};\n";
	foreach my $t (@twins, 'ledger')
	{
		my $key = $t eq 'ledger' ? 'n, stream' : 'id';
		$sql .= "CREATE TEMP TABLE ${t}_m USING heap AS SELECT * FROM ${t}_h;\n";
		$sql .= "SELECT '$t: ' || count(*) || ' rows differ: ' || min(d::text) FROM ((SELECT 1, * FROM (SELECT * FROM ${t}_h EXCEPT ALL SELECT * FROM ${t}_l) h) UNION ALL (SELECT 2, * FROM (SELECT * FROM ${t}_l EXCEPT ALL SELECT * FROM ${t}_h) l)) d HAVING count(*) > 0;\n";
	}
	foreach my $path ('index', 'bitmap')
	{
		$sql .= "$paths{$path};\n";
		foreach my $t (@twins)
		{
			foreach my $query ("id, v FROM %s WHERE id > -1", "k, id FROM %s WHERE k >= 0", "n, k FROM %s WHERE n >= 0", "u, v FROM %s WHERE u >= '00000000-0000-0000-0000-000000000000'")
			{
				my ($l, $m) = map { sprintf "SELECT $query", "${t}_$_" } 'l', 'm';
				$sql .= "SELECT '$t by $path: ' || count(*) || ' rows differ: ' || min(d::text) FROM ((($l) EXCEPT ALL ($m)) UNION ALL (($m) EXCEPT ALL ($l))) d HAVING count(*) > 0;\n";
			}
			$sql .= "SELECT '$t: ' || count(*) || ' rows not found by their key' FROM ${t}_m m WHERE NOT EXISTS (SELECT FROM ${t}_l l WHERE l.u = m.u AND l.id = m.id AND l.v = m.v) HAVING count(*) > 0;\n";
		}
		$sql .= "SELECT 'heap table by lsm index, $path: ' || count(*) FROM ((SELECT n, k FROM a_m) EXCEPT ALL (SELECT n, k FROM a_h WHERE n >= 0)) d HAVING count(*) > 0;\n";
	}
	$sql .= "SELECT 'ledger: transactions of stream ' || stream || ' are missing' FROM ledger_l GROUP BY stream HAVING count(*) <> max(n);\n";
	$sql .= "SELECT 'still: ' || count(*) FROM still_l HAVING count(*) <> 1000; SELECT 'still2: ' || count(*) FROM still2_l HAVING count(*) <> 500;\n";
	$sql .= "SELECT c.relname || ': ' || v.object || ': ' || v.problem FROM pg_class c, lsm_verify(c.oid) v WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'lsm');\n";
	$sql .= "SELECT 'a_x: ' || v.problem FROM lsm_verify('a_x') v;\n";
	return $sql;
}

sub differences
{
	my ($node) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', twins_sql());
	return $out . ($rc != 0 || $err ne '' ? "psql exits with $rc: $err" : '');
}

# The restored server writes, flushes and compacts.
my $go_on = join '', map { my $t = $_; insert_into($t, 5_000_000, 700) . join '', map { "UPDATE ${t}_$_ SET n = 3, v = 'restored' WHERE id % 5 = 0; DELETE FROM ${t}_$_ WHERE id % 7 = 0;\n" } 'h', 'l' } qw(a s d);
$go_on .= "SELECT lsm_flush(c) FROM unnest(ARRAY['a_l', 's_l', 'ledger_l', 'unlogged_l']::regclass[]) c;\n" . insert_into('a', 6_000_000, 300) . "SELECT lsm_compact(c) FROM unnest(ARRAY['a_l', 's_l', 'd_l', 'r_l']::regclass[]) c;\n"
  . "INSERT INTO unlogged_l SELECT g, md5(g::text) FROM generate_series(1, 2500) g; SELECT lsm_flush('unlogged_l'); VACUUM a_h, a_l;\n";

# The mode of every file under pg_lsm
sub modes
{
	my ($node) = @_;
	my %modes;
	find({ no_chdir => 1, wanted => sub { $modes{ (-d $_ ? 'd' : 'f') . sprintf('%o', (stat($_))[2] & 0777) }++; } }, lsm_dir($node));
	return join ' ', sort keys %modes;
}

# Directories whose owner file names no fork that there is.  (Forks of transactions that were open when the WAL ended
# stay, as those of heap tables do.)
sub without_fork
{
	my ($node) = @_;
	my $data = $node->data_dir;
	return grep {
		my $directory = $_;
		my $owners = eval { slurp_file("$directory/owner") } // '';
		my $forks = 0;
		foreach (split /\n/, $owners)
		{
			my ($db, $space, $rel, $backend) = split / /;
			my $file = ($backend < 0 ? '' : "t${backend}_") . $rel;
			$forks += grep { -e "$_/$file" } glob($space == 1663 ? "$data/base/$db" : "$data/pg_tblspc/$space/PG_*/$db");
		}
		$forks == 0;
	} glob(lsm_dir($node) . '/{,pgsql_tmp}????????????????');
}

# Such directories, of dropped and of temporary trees, are removed in the end.
sub orphans
{
	my ($node) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	while (1)
	{
		$node->safe_psql('postgres', 'CHECKPOINT');
		my @left = without_fork($node);
		return join ' ', @left if !@left || time > $end;
		usleep(500_000);
	}
}

# `moment`: the state it must have; `at`: whether the row that the moment's own transaction wrote is there;
# `present`, `absent`: names of marks; `drop`: databases that were not restored; `keep`: the data directory.
sub backup_check_restored
{
	my ($node, $what, %opt) = @_;
	$node->start;
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die "$what: recovery does not end";
	$restored++;
	$node->safe_psql('postgres', "DROP DATABASE IF EXISTS $_") foreach @{ $opt{drop} // [] };
	my $wrong = differences($node);
	$wrong .= $node->safe_psql('postgres', q{SELECT 'unlogged table is not empty' FROM unlogged_l LIMIT 1});
	my %marks = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', 'SELECT name FROM marks');
	my @present = @{ $opt{present} // [] };
	my @absent = @{ $opt{absent} // [] };
	if (my $m = $opt{moment})
	{
		my $digest_now = $node->safe_psql('postgres', "$paths{sequential}; SELECT $digest");
		$wrong .= "the twins are not those of $m->{name}: $digest_now instead of $m->{digest}\n" if $digest_now ne $m->{digest};
		my $ledger_now = $node->safe_psql('postgres', $ledger);
		$wrong .= "the transactions are not those of $m->{name}: $ledger_now instead of $m->{ledger}\n" if $ledger_now ne $m->{ledger};
		push @present, "$m->{name} before";
		push @absent, "$m->{name} after";
		push @{ $opt{at} ? \@present : \@absent }, "$m->{name} at";
	}
	$wrong .= "mark $_ is missing\n" foreach grep { !$marks{$_} } @present;
	$wrong .= "mark $_ is there\n" foreach grep { $marks{$_} } @absent;
	is($wrong, '', "$what: the twins are equal");

	my ($rc, $out, $err) = $node->psql('postgres', $go_on, on_error_stop => 1);
	$wrong = ($rc != 0 ? "psql exits with $rc: " : '') . $err . differences($node);
	$wrong .= 'modes: ' . modes($node) . "\n" if modes($node) ne 'd750 f640';
	my ($copied, undef, $said) = $node->psql('copied', q{SELECT 1 / (count(*) = 1700)::int FROM t; SELECT 1 / (count(*) = 0)::int FROM lsm_verify('t')}, on_error_stop => 1);
	$wrong .= "the copied database differs: $said\n" if $copied == 3;
	# DROP DATABASE was in progress
	$node->safe_psql('postgres', 'DROP DATABASE copied') if $said =~ /cannot connect to invalid database/;
	my $log = join "\n", grep { /WARNING|ERROR|FATAL|PANIC/ && !/the database system is|terminating (?:connection|autovacuum process) due to administrator|database "copied"/ } split /\n/, slurp_file($node->logfile);
	$wrong .= "in the log: $log\n" if $log ne '' && !$opt{log};
	is($wrong, '', "$what: it goes on");
	is(orphans($node), '', "$what: nothing remains of trees that are gone") if $opt{orphans};
	$node->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], "$what: all pages have their checksums") if $opt{checksums};
	rmtree($node->data_dir) unless $opt{keep};
	return;
}

# The directory under pg_lsm of a relation
sub backup_keyspace
{
	my ($node, $relation) = @_;
	my $owner = $node->safe_psql('postgres', "SELECT d.oid || ' ' || CASE c.reltablespace WHEN 0 THEN d.dattablespace ELSE c.reltablespace END || ' ' || pg_relation_filenode(c.oid) FROM pg_class c, pg_database d WHERE c.oid = '$relation'::regclass AND d.datname = current_database()");
	# others may go away meanwhile
	my ($dir) = grep { (eval { slurp_file("$_/owner") } // '') =~ /^$owner /m } glob(lsm_dir($node) . '/????????????????');
	$dir =~ s,.*/,,;
	return $dir;
}

1;
