# PREPARE TRANSACTION with inserts, updates, deletes and row locks of every mode, across a clean restart and
# across kill -9, flushed or not: the locks still hold, and COMMIT PREPARED and ROLLBACK PREPARED
# do what they do to heap.
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('prepared', conf => "max_prepared_transactions = 40\nautovacuum = off\nlog_min_messages = error");
lsm_start($node);

lsm_create_twins($node, 't', 'id int PRIMARY KEY, v text, n int DEFAULT 0', '(v)');
lsm_create_twins($node, 'parent', 'id int PRIMARY KEY, n int');
lsm_create_twins($node, 'child', 'r int');
$node->safe_psql('postgres', "ALTER TABLE child_$_ ADD FOREIGN KEY (r) REFERENCES parent_$_") foreach 'h', 'l';
$node->safe_psql('postgres', qq{
INSERT INTO t_$_ SELECT i, 'v' || i FROM generate_series(1, 400) i;
INSERT INTO parent_$_ SELECT generate_series(1, 100)}) foreach 'h', 'l';

# Changes and locks of transaction `i`: rows 10 i .. 10 i + 9, and new ones
sub prepare
{
	my ($i) = @_;
	my $k = 10 * $i;
	foreach my $t ('h', 'l')
	{
		$node->safe_psql('postgres', qq{
BEGIN;
INSERT INTO t_$t VALUES (1000 + $k, 'new $i'), (1001 + $k, 'new, updated $i'), (1002 + $k, 'new, deleted $i');
UPDATE t_$t SET v = v || '!' WHERE id IN ($k, 1001 + $k);
DELETE FROM t_$t WHERE id IN ($k + 1, 1002 + $k);
UPDATE t_$t SET id = id + 2000 WHERE id = $k + 2;
SAVEPOINT s;
UPDATE t_$t SET v = 'rolled back' WHERE id = $k + 3;
DELETE FROM t_$t WHERE id = $k;
SELECT id FROM t_$t WHERE id = $k + 4 FOR UPDATE;
ROLLBACK TO s;
SAVEPOINT s2;
UPDATE t_$t SET n = n + 1 WHERE id = $k + 9;
RELEASE s2;
SELECT id FROM t_$t WHERE id = $k + 5 FOR KEY SHARE;
SELECT id FROM t_$t WHERE id = $k + 6 FOR SHARE;
SELECT id FROM t_$t WHERE id = $k + 7 FOR NO KEY UPDATE;
SELECT id FROM t_$t WHERE id = $k + 8 FOR UPDATE;
INSERT INTO child_$t VALUES ($i);
PREPARE TRANSACTION 'p${i}_$t'});
	}
	return;
}

# 0 or 1 for each row and mode: can it be locked?
$node->safe_psql('postgres', q{
CREATE FUNCTION locks(t text, first int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text := '';
	id int;
	mode text;
BEGIN
	FOR id IN SELECT generate_series(first, first + 9) LOOP
		FOREACH mode IN ARRAY ARRAY['KEY SHARE', 'SHARE', 'NO KEY UPDATE', 'UPDATE'] LOOP
			BEGIN
				EXECUTE format('SELECT FROM %I WHERE id = %s FOR %s NOWAIT', t, id, mode);
				RAISE division_by_zero;
			EXCEPTION WHEN division_by_zero THEN result := result || '0';
				WHEN lock_not_available THEN result := result || '1';
			END;
		END LOOP;
	END LOOP;
	RETURN result;
END $$});

# Which rows of the transaction which lock modes can have: of heap, of lsm, and what is right
sub check_locks
{
	my ($i, $when) = @_;
	my (%got, $wrong);
	foreach my $t ('h', 'l')
	{
		$got{$t} = $node->safe_psql('postgres', "SELECT locks('t_$t', 10 * $i)");
	}
	is($got{l}, $got{h}, "$when: locks of transaction $i as in heap");
	# KEY SHARE, SHARE, NO KEY UPDATE, UPDATE against each other, as in the manual
	is(substr($got{l}, 20, 16), '0001001101111111', "$when: row locks of transaction $i");
	return;
}

sub finish
{
	my ($i, $verb) = @_;
	$node->safe_psql('postgres', "$verb PREPARED 'p${i}_$_'") foreach 'h', 'l';
	foreach my $t ('h', 'l')
	{
		is($node->safe_psql('postgres', "SELECT locks('t_$t', 10 * $i)"), '0' x 40, "rows of transaction $i in $t are free after $verb");
	}
	return;
}

sub crash
{
	my @pids = lsm_pids($node);
	lsm_kill_process($node, 'postmaster');
	lsm_restart_after_crash($node, @pids);
	return;
}

my %events = (
	'a restart' => sub { $node->restart },
	'kill -9' => \&crash,
	'a flush and kill -9' => sub { $node->safe_psql('postgres', q{SELECT lsm_flush('t_l'), lsm_flush('t_l_pkey')}); crash(); },
	'a compaction and a restart' => sub { $node->safe_psql('postgres', q{SELECT lsm_compact('t_l'), lsm_compact('t_l_1')}); $node->restart; },
	'VACUUM and kill -9' => sub { $node->safe_psql('postgres', 'VACUUM t_l; VACUUM t_h'); crash(); },
	'a checkpoint and kill -9' => sub { $node->safe_psql('postgres', 'CHECKPOINT'); crash(); },
	'kill -9, a flush and kill -9' => sub { crash(); $node->safe_psql('postgres', q{SELECT lsm_flush('t_l'), lsm_compact('t_l')}); crash(); });

my $i = 0;
foreach my $event (sort keys %events)
{
	my ($commit, $rollback) = ($i + 1, $i + 2);
	$i += 2;
	prepare($_) foreach $commit, $rollback;
	is(lsm_differences($node, qw(t parent child)), '', "$event: prepared");
	$events{$event}->();
	is(lsm_differences($node, qw(t parent child)), '', "$event: still prepared");
	check_locks($_, $event) foreach $commit, $rollback;
	# an update that leaves the key alone goes with KEY SHARE; a delete waits
	my ($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; UPDATE t_l SET n = 5 WHERE id = 10 * $commit + 5; UPDATE t_h SET n = 5 WHERE id = 10 * $commit + 5");
	is($rc, 0, "$event: non-key update of a row locked FOR KEY SHARE");
	($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; DELETE FROM t_l WHERE id = 10 * $commit + 5");
	like($err, qr/lock timeout/, "$event: its deletion waits");
	($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; UPDATE parent_l SET n = 5 WHERE id = $commit; UPDATE parent_h SET n = 5 WHERE id = $commit");
	is($rc, 0, "$event: non-key update of a referenced row");
	($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; DELETE FROM parent_l WHERE id = $commit");
	like($err, qr/lock timeout/, "$event: deletion of a referenced row waits");
	($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; INSERT INTO t_l VALUES (1000 + 10 * $commit)");
	like($err, qr/lock timeout/, "$event: insertion of a prepared key waits");
	finish($commit, 'COMMIT');
	finish($rollback, 'ROLLBACK');
	is(lsm_differences($node, qw(t parent child)), '', "$event: finished");
	crash() if $event =~ /compaction/;
	is($node->safe_psql('postgres', "SELECT v FROM t_l WHERE id = 1001 + 10 * $commit; SELECT count(*) FROM t_l WHERE v = 'new $rollback'"),
		"new, updated $commit!\n0", "$event: by key");
}

# DDL: a table created, one dropped and one truncated in prepared transactions
$node->safe_psql('postgres', q{CREATE TABLE old1 (id int PRIMARY KEY) USING lsm; CREATE TABLE old2 (id int PRIMARY KEY) USING lsm;
INSERT INTO old1 SELECT generate_series(1, 1000); INSERT INTO old2 SELECT generate_series(1, 1000); SELECT lsm_flush('old1'), lsm_flush('old2')});
foreach my $n (1, 2)
{
	$node->safe_psql('postgres', "BEGIN; CREATE TABLE new$n (id int PRIMARY KEY, v text) USING lsm;
		INSERT INTO new$n SELECT i, repeat('x', 500) FROM generate_series(1, 3000) i; TRUNCATE old$n; INSERT INTO old$n VALUES (-1);
		PREPARE TRANSACTION 'ddl$n'");
}
crash();
$node->safe_psql('postgres', q{COMMIT PREPARED 'ddl1'; ROLLBACK PREPARED 'ddl2'; CHECKPOINT});
is($node->safe_psql('postgres', q{SELECT count(*), sum(id) FROM new1; SELECT * FROM old1; SELECT count(*) FROM old2; SELECT to_regclass('new2');
SELECT * FROM lsm_verify('new1'); SELECT * FROM lsm_verify('old1'); SELECT * FROM lsm_verify('old2')}), "3000|4501500\n-1\n1000\n", 'DDL in prepared transactions');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT length(v) FROM new1 WHERE id = 2999'), 500, 'by key');
crash();
is($node->safe_psql('postgres', q{SELECT count(*) FROM new1; SELECT * FROM old1; SELECT count(*) FROM old2}), "3000\n-1\n1000", 'and after another crash');
$node->stop;
done_testing();
