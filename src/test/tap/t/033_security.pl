# What roles without rights can do to others: locks, autovacuum, suspended removals, objects
# that lie in wait for CREATE EXTENSION; and who may read the files.
# tier: check
use strict;
use warnings;
use LsmTest;
use LsmTrap;
use File::Find;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

my $node = PostgreSQL::Test::Cluster->new('security');
$node->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8', '--allow-group-access' ], allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'lsmam'
autovacuum_naptime = 1s
checkpoint_timeout = 1h
max_wal_size = 10GB
lsm.memtable_memory = 16MB
lsm.memtable_size = 128kB
lsm.target_file_size = 128kB
log_autovacuum_min_duration = 0
max_connections = 30
deadlock_timeout = 50ms
});
lsm_start($node);
$node->safe_psql('postgres', q{
CREATE ROLE nobody LOGIN; CREATE ROLE owner LOGIN; CREATE ROLE reader LOGIN;
CREATE SCHEMA s AUTHORIZATION owner; GRANT USAGE ON SCHEMA s TO PUBLIC;});

# SQLSTATE and message of the first error, or 'ok'
sub answer
{
	my ($db, $role, $sql) = @_;
	my ($rc, $out, $err) = $node->psql($db, "SET client_min_messages = error; SET lock_timeout = '1s'; SET ROLE $role; $sql",
		extra_params => [ '-v', 'VERBOSITY=verbose' ], on_error_stop => 1);
	return $rc == 0 ? 'ok' : $err =~ /ERROR:\s+(\S+: .*)/ ? $1 : $err;
}

# poll, doing something each time; true if it came about
sub comes
{
	my ($sql, $expected, $meanwhile) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default / 4;
	while (time < $end)
	{
		$meanwhile->() if $meanwhile;
		return 1 if $node->safe_psql('postgres', $sql) eq $expected;
		usleep(200_000);
	}
	return 0;
}

# ---- a role without rights neither waits for a lock nor is waited for ----
my @functions = qw(lsm_flush lsm_compact lsm_verify lsm_levels lsm_files lsm_filters lsm_advise lsm_relation_size lsm_compression lsm_report lsmam_files lsmam_filter_plan);
{
	$node->safe_psql('postgres', q{
SET ROLE owner;
CREATE TABLE s.l (id int PRIMARY KEY, v text) USING lsm;
CREATE INDEX l_v ON s.l USING lsm (v);
CREATE TABLE s.h (id int PRIMARY KEY, v text) USING heap;
CREATE INDEX h_v ON s.h USING lsm (v);
CREATE TABLE s.plain (id int PRIMARY KEY) USING heap;
CREATE VIEW s.vw AS SELECT 1 AS one;
CREATE SEQUENCE s.seq;
INSERT INTO s.l SELECT i, 'v' || i FROM generate_series(1, 100) i;
GRANT SELECT ON s.l TO reader});
	my $holder = $node->background_psql('postgres', on_error_stop => 1);
	# now, for GRANT locks the table since 18
	$node->safe_psql('postgres', q{GRANT REFERENCES ON s.l TO nobody; CREATE SCHEMA n AUTHORIZATION nobody});
	$holder->query_safe('BEGIN; LOCK TABLE s.l, s.h, s.plain IN ACCESS EXCLUSIVE MODE');
	my (@waited, @allowed);
	foreach my $function (@functions)
	{
		foreach my $relation (qw(l l_v l_pkey h h_v plain plain_pkey vw seq))
		{
			# by name and by OID: neither is allowed to become a lock
			my $oid = $node->safe_psql('postgres', "SELECT 's.$relation'::regclass::oid");
			my $argument = $function eq 'lsm_report' ? "ARRAY[$oid]::regclass[]" : $function eq 'lsmam_filter_plan' ? "$oid, '{bloom}', '{10}', 0" : $oid;
			my $answer = answer('postgres', 'nobody', "SELECT * FROM $function($argument)");
			push @waited, "$function($relation): $answer" if $answer =~ /55P03|57014/;
			push @allowed, "$function($relation): $answer" if $answer eq 'ok';
		}
	}
	is("@waited", '', 'nothing makes a role without rights wait for a lock');
	is("@allowed", '', 'nor is anything allowed to it');
	# who has the right does wait: what we have just seen is not for want of a lock
	like(answer('postgres', 'reader', q{SELECT * FROM lsm_levels('s.l')}), qr/55P03/, 'a reader waits for the lock');
	like(answer('postgres', 'owner', q{SELECT lsm_flush('s.h_v')}), qr/55P03/, 'an owner waits for the lock');
	# a foreign key that may not rebuild the key does not lock its table; since 18 none needs to
	unlike(answer('postgres', 'nobody', 'CREATE TABLE n.fk (r int REFERENCES s.l)'), qr/55P03|ok/, 'nor does a foreign key') if lsm_version() < 18;
	$holder->query_safe('ROLLBACK');

	# rights that go away while the lock is waited for
	$holder->query_safe('BEGIN; LOCK TABLE s.l IN ACCESS EXCLUSIVE MODE; REVOKE SELECT ON s.l FROM reader; ALTER TABLE s.l OWNER TO nobody');
	my @waiters = map {
		my ($role, $sql) = @$_;
		my ($out, $err) = ('', '');
		{ err => \$err, out => \$out, h => IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-c', "SET ROLE $role", '-c', $sql ], '>', \$out, '2>', \$err) };
	} ([ 'reader', q{SELECT * FROM lsm_files('s.l')} ], [ 'owner', q{SELECT lsm_compact('s.l')} ]);
	ok(comes(q{SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation' AND relation = 's.l'::regclass}, 2), 'two wait');
	$holder->query_safe('COMMIT');
	$_->{h}->finish foreach @waiters;
	like(${ $_->{err} }, qr/42501/, 'and are refused when their right has gone') foreach @waiters;
	$holder->quit;
	$node->safe_psql('postgres', 'ALTER TABLE s.l OWNER TO owner; GRANT SELECT ON s.l TO reader');
}

# ---- autovacuum goes on ----
{
	$node->safe_psql('postgres', q{
SET ROLE owner;
CREATE TABLE s.av (id int, v text) USING heap WITH (autovacuum_enabled = off, fillfactor = 20);
CREATE TABLE s.avl (id int, v text) USING heap WITH (autovacuum_enabled = off, fillfactor = 20);
CREATE INDEX avl_id ON s.avl USING lsm (id);
INSERT INTO s.av SELECT i, repeat('x', 200) FROM generate_series(1, 20000) i;
INSERT INTO s.avl SELECT i, repeat('x', 200) FROM generate_series(1, 20000) i;
DELETE FROM s.av WHERE id % 2 = 0;
DELETE FROM s.avl WHERE id % 2 = 0;
ALTER TABLE s.av SET (autovacuum_enabled = on, autovacuum_vacuum_cost_delay = 50, autovacuum_vacuum_cost_limit = 20, autovacuum_analyze_threshold = 1000000000);
ALTER TABLE s.avl SET (autovacuum_enabled = on, autovacuum_vacuum_cost_delay = 50, autovacuum_vacuum_cost_limit = 20, autovacuum_analyze_threshold = 1000000000)});
	my $running = q{SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid IN ('s.av'::regclass, 's.avl'::regclass)};
	ok(comes($running, 2), 'autovacuum works at two heap tables');
	my $log = -s $node->logfile;
	foreach my $function ('lsm_compact', 'lsm_flush', 'lsm_verify')
	{
		answer('postgres', 'nobody', "SELECT * FROM $function('s.$_')") foreach 'av', 'avl', 'avl_id';
	}
	is($node->safe_psql('postgres', $running), 2, 'and still does');
	unlike(substr(slurp_file($node->logfile), $log), qr/canceling autovacuum task/, 'nobody has canceled it');
	# the owner may (and this shows that the test can fail)
	$node->psql('postgres', q{SET ROLE owner; SELECT lsm_compact('s.avl')});
	like(substr(slurp_file($node->logfile), $log), qr/canceling autovacuum task/, 'the owner has it canceled');
	$node->safe_psql('postgres', 'DROP TABLE s.av, s.avl');
}

# ---- autovacuum runs the owner's functions as the owner ----
{
	$node->safe_psql('postgres', q{
SET ROLE owner;
CREATE TABLE s.ran (who name, mark int DEFAULT 0) USING heap; GRANT INSERT ON s.ran TO PUBLIC;
CREATE FUNCTION s.note() RETURNS void LANGUAGE plpgsql VOLATILE AS $$ BEGIN
	INSERT INTO s.ran VALUES (current_user);
	BEGIN ALTER ROLE owner SUPERUSER; EXCEPTION WHEN OTHERS THEN NULL; END;
END $$;
CREATE FUNCTION s.f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM s.note(); RETURN $1; END $$;
CREATE TABLE s.e (id int) USING lsm WITH (autovacuum_enabled = off, autovacuum_analyze_threshold = 10);
CREATE INDEX e_f ON s.e USING lsm (s.f(id)) WHERE s.f(id) > 0;
INSERT INTO s.e SELECT generate_series(1, 200);
DELETE FROM s.e WHERE id % 2 = 0});
	$node->safe_psql('postgres', 'TRUNCATE s.ran; ALTER TABLE s.e SET (autovacuum_enabled = on)');
	ok(comes(q{SELECT autoanalyze_count > 0 AND (SELECT count(*) > 0 FROM s.ran) FROM pg_stat_user_tables WHERE relname = 'e'}, 't'), 'autovacuum analyzes');
	is($node->safe_psql('postgres', q{SELECT DISTINCT who FROM s.ran}), 'owner', 'as the owner');
	is($node->safe_psql('postgres', q{SELECT rolsuper FROM pg_roles WHERE rolname = 'owner'}), 'f', 'who is none the mightier');
	$node->safe_psql('postgres', 'DROP TABLE s.e');
}

# ---- CREATE DATABASE that is denied, or fails, does not keep files of dropped relations ----
sub dropped_goes
{
	my ($meanwhile) = @_;
	my $dirs = q{SELECT coalesce(string_agg(quote_literal(d), ', '), '') FROM pg_ls_dir('pg_lsm') d};
	my $others = $node->safe_psql('postgres', $dirs) || q{''};
	$node->safe_psql('postgres', q{SET ROLE owner; CREATE TABLE s.d (id int) USING lsm; INSERT INTO s.d SELECT generate_series(1, 1000); SELECT lsm_flush('s.d')});

	# what others have dropped may go at any time
	my $its = $node->safe_psql('postgres', "$dirs WHERE d NOT IN ($others)");
	$node->safe_psql('postgres', 'DROP TABLE s.d');
	return $its ne '' && comes("SELECT count(*) FROM pg_ls_dir('pg_lsm') d WHERE d IN ($its)", '0', $meanwhile);
}
{
	$node->safe_psql('postgres', 'CREATE ROLE creator CREATEDB');
	$node->safe_psql('postgres', 'CREATE DATABASE private');
	# which suspends for two checkpoints
	ok(dropped_goes(sub { $node->safe_psql('postgres', 'CHECKPOINT') }), 'files of a dropped table go after CREATE DATABASE');
	ok(dropped_goes(sub { }), 'and without checkpoints when it is over');
	like(answer('postgres', 'nobody', 'CREATE DATABASE x'), qr/42501/, 'CREATE DATABASE is denied');
	ok(dropped_goes(sub { answer('postgres', 'nobody', 'CREATE DATABASE x') }), 'files go while it is denied again and again');
	my @refused = ('CREATE DATABASE x TEMPLATE private', 'CREATE DATABASE x OWNER owner', q{CREATE DATABASE x ENCODING 'LATIN1'});
	isnt(answer('postgres', 'creator', $_), 'ok', "$_ is refused") foreach @refused;
	ok(dropped_goes(sub { answer('postgres', 'creator', $_) foreach @refused }), 'files go while it is refused for other reasons');

	# an error in the midst of copying: the template has a file that cannot be read
	my $oid = $node->safe_psql('postgres', q{SELECT oid FROM pg_database WHERE datname = 'private'});
	my $junk = $node->data_dir . "/base/$oid/junk";
	append_to_file($junk, 'x');
	chmod 0, $junk or die;
	my $copy = 'CREATE DATABASE x TEMPLATE private STRATEGY file_copy';
	isnt(answer('postgres', 'postgres', $copy), 'ok', 'a copy fails');
	ok(dropped_goes(sub { }), 'and suspends nothing afterwards');
	unlink $junk;

	# one that is canceled after a while: it waits for a checkpoint before it copies
	lsm_kill_process($node, 'checkpointer', 'STOP');
	my ($out, $err) = ('', '');
	my $h = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $copy ], '>', \$out, '2>', \$err);
	my $waits = q{FROM pg_stat_activity WHERE query LIKE 'CREATE DATABASE x%' AND wait_event LIKE 'Checkpoint%'};
	my $begun = comes("SELECT count(*) $waits", 1);
	# the worker looks about once per second
	usleep(3_000_000);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) $waits");
	$h->finish;
	lsm_kill_process($node, 'checkpointer', 'CONT');
	ok($begun && $err =~ /canceling statement/, 'a copy is canceled');
	ok(dropped_goes(sub { }), 'and suspends nothing afterwards');

	# one that succeeds does suspend: its copies may not be on disk
	is(answer('postgres', 'creator', 'CREATE DATABASE x'), 'ok', 'CREATE DATABASE');
	$node->safe_psql('postgres', q{SELECT pg_sleep(1.5); SET ROLE owner; CREATE TABLE s.d (id int) USING lsm; INSERT INTO s.d SELECT generate_series(1, 1000); SELECT lsm_flush('s.d')});
	my $before = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_dir('pg_lsm') d WHERE d ~ '^[0-9a-f]{16}$'});
	$node->safe_psql('postgres', 'DROP TABLE s.d; SELECT pg_sleep(3)');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_dir('pg_lsm') d WHERE d ~ '^[0-9a-f]{16}$'}), $before, 'one that succeeds keeps files for the sweep');
	$node->safe_psql('postgres', 'DROP DATABASE x; DROP DATABASE private');
}

# ---- CREATE EXTENSION into a schema that others have prepared ----
{
	$node->safe_psql('postgres', 'CREATE DATABASE hostile TEMPLATE template0');
	$node->safe_psql('hostile', q{CREATE SCHEMA trap AUTHORIZATION nobody; GRANT USAGE ON SCHEMA trap TO PUBLIC});

	lsm_lay_traps($node, 'hostile', 'nobody');
	# first in the path, and by the session's own path
	foreach my $how ('CREATE EXTENSION lsmam SCHEMA trap', 'SET search_path = trap, pg_catalog, public; CREATE EXTENSION lsmam')
	{
		is(answer('hostile', 'postgres', $how), 'ok', "$how");
		is(lsm_foreign_dependencies($node, 'hostile'), '', 'the extension depends on nothing that is not pg_catalog\'s or its own');
		$node->safe_psql('hostile', 'TRUNCATE trap.ran');
		$node->safe_psql('hostile', q{CREATE TABLE t (id int PRIMARY KEY) USING lsm; INSERT INTO t SELECT generate_series(1, 10)});
		is($node->safe_psql('hostile', q{SELECT relname, kind FROM trap.pg_stat_lsm ORDER BY 1}), "t|table\nt_pkey|index", 'the view works');
		is($node->safe_psql('hostile', q{SELECT count(*) FROM trap.lsm_verify('t'::regclass), trap.lsm_levels('t'::regclass) UNION ALL SELECT count(*) FROM t WHERE id = 5}), "0\n1", 'functions and indexes work');
		is($node->safe_psql('hostile', q{SELECT DISTINCT what, who FROM trap.ran}), '', 'nothing of the hostile code ran');
		$node->safe_psql('hostile', 'DROP TABLE t; DROP EXTENSION lsmam');
	}
	# a function that competes with one of ours by a default: refused, not taken
	$node->safe_psql('hostile', q{SET ROLE nobody; CREATE FUNCTION trap.lsm_stat_trees(i int8 DEFAULT 0) RETURNS TABLE (dbid oid, spcid oid, relfilenode oid) LANGUAGE plpgsql AS $$ BEGIN PERFORM trap.sprung('default'); END $$});
	my $answer = answer('hostile', 'postgres', 'CREATE EXTENSION lsmam SCHEMA trap');
	like($answer, qr/42725|^ok/, 'a function with a default in the way');
	$node->psql('hostile', 'SELECT * FROM trap.pg_stat_lsm');
	is($node->safe_psql('hostile', 'SELECT DISTINCT what FROM trap.ran'), '', '... does not run');
	like(answer('hostile', 'nobody', 'CREATE EXTENSION lsmam SCHEMA trap'), qr/42501|42710/, 'nobody may not create the extension');
	$node->safe_psql('postgres', 'DROP DATABASE hostile');
}

# ---- files as initdb --allow-group-access wants them, written or replayed ----
sub modes
{
	my ($dir) = @_;
	my (%seen, $n);
	find({ no_chdir => 1, wanted => sub {
		my @st = lstat($_) or return;
		$seen{ (-d _ ? 'directory' : 'file') . sprintf(' %04o', $st[2] & 07777) }++; $n++ } }, $dir);
	note("$dir: " . join(', ', map { "$seen{$_} x $_" } sort keys %seen));
	return join(', ', sort keys %seen);
}
{
	$node->backup('b');
	my $standby = PostgreSQL::Test::Cluster->new('security_standby');
	$standby->init_from_backup($node, 'b', has_streaming => 1);
	# copying the backup has lost them
	chmod_recursive($standby->data_dir, 0750, 0640);
	$standby->start;
	$node->safe_psql('postgres', q{
CREATE TABLE s.files (id int PRIMARY KEY, v text) USING lsm;
SET lsm.filter_scheme = cascade;
INSERT INTO s.files SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT lsm_flush('s.files');
SET lsm.filter_scheme = elastic;
UPDATE s.files SET v = 'x' WHERE id % 10 = 0;
SELECT lsm_compact('s.files');
CREATE INDEX ON s.files USING lsm (v);
CREATE DATABASE template_db;});
	$node->safe_psql('template_db', q{CREATE EXTENSION lsmam; CREATE TABLE t (id int) USING lsm; INSERT INTO t SELECT generate_series(1, 1000); SELECT lsm_flush('t')});
	$node->safe_psql('postgres', 'CREATE DATABASE copy_db TEMPLATE template_db');
	$node->wait_for_catchup($standby);
	ok(scalar(lsm_files_of($node)) > 3, 'there are files');
	is(modes(lsm_dir($node)), 'directory 0750, file 0640', 'modes of what was written');
	ok(scalar(lsm_files_of($standby)) > 3, 'there are files on the standby');
	is(modes(lsm_dir($standby)), 'directory 0750, file 0640', 'modes of what was replayed');
	$standby->stop('immediate');
}
$node->stop;

# without group access nobody else may read
my $closed = lsm_node('security_closed');
lsm_start($closed);
$closed->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY) USING lsm; INSERT INTO t SELECT generate_series(1, 10000); SELECT lsm_compact('t')});
is(modes(lsm_dir($closed)), 'directory 0700, file 0600', 'modes without group access');
$closed->stop;
done_testing();
