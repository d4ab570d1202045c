# What readers see while 12 clients write: transfers between accounts leave the total the same in every statement,
# by every way to scan, index-only included, deadlocks are detected; no child without a parent; indexes
# built and rebuilt CONCURRENTLY meanwhile have every row once.
#   LSM_TRANSACTIONS: of each client (150; long: 3000)
# tier: check
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX ();

my $transactions = $ENV{LSM_TRANSACTIONS} // (lsm_long() ? 3000 : 150);
my $clients = 12;
my $node = lsm_node('consistency', conf => "lsm.memtable_size = 512kB\nautovacuum = off\nfsync = off\ndeadlock_timeout = 20ms\nlog_min_messages = fatal");
lsm_start($node);

sub run_clients
{
	my ($what, @scripts) = @_;
	$node->command_ok([ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $transactions, '--max-tries=1000', (map { ('-f', $_) } @scripts), $node->connstr('postgres') ], $what);
	return;
}

# statements one after the other in a process of its own, until the function given has ended; their errors
sub meanwhile
{
	my ($work, @statements) = @_;
	my $stop = "$ENV{TESTDIR}/stop";
	my $errors = "$ENV{TESTDIR}/meanwhile.err";
	unlink $stop;
	my $pid = fork();
	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open(STDERR, '>', $errors);
		while (!-e $stop)
		{
			foreach my $statement (@statements) { system('psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $statement) unless -e $stop; }
		}
		POSIX::_exit(0);
	}
	$work->();
	append_to_file($stop, 'x');
	waitpid($pid, 0);
	return slurp_file($errors);
}

my @ways = ('seqscan', 'indexscan', 'bitmapscan', 'indexonlyscan');
foreach my $am ('lsm', 'heap')
{
	$node->safe_psql('postgres', qq{
CREATE TABLE acc (id int, balance int, pad text) USING $am;
CREATE UNIQUE INDEX acc_id ON acc USING lsm (id) INCLUDE (balance);
CREATE INDEX acc_b ON acc USING lsm (balance, id);
INSERT INTO acc SELECT i, 100, repeat('p', 50) FROM generate_series(1, 60) i;
CREATE FUNCTION check_total() RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
	way text;
	total text;
BEGIN
	FOREACH way IN ARRAY ARRAY['@{[ join("', '", @ways) ]}'] LOOP
		PERFORM set_config('enable_' || w, CASE WHEN w = way OR (w = 'indexscan' AND way = 'indexonlyscan') THEN 'on' ELSE 'off' END, true)
			FROM unnest(ARRAY['@{[ join("', '", @ways) ]}']) w;
		EXECUTE '/* ' || way || ' */ SELECT count(*) || '' rows, '' || sum(balance) FROM acc WHERE id > 0' INTO total;
		IF total <> '60 rows, 6000' THEN
			RAISE EXCEPTION '% by id finds %', way, total;
		END IF;
		EXECUTE '/* ' || way || ' */ SELECT count(*) || '' rows, '' || sum(balance) FROM acc WHERE balance > -1000000' INTO total;
		IF total <> '60 rows, 6000' THEN
			RAISE EXCEPTION '% by balance finds %', way, total;
		END IF;
	END LOOP;
END \$\$});
	my $transfer = lsm_script('transfer', q{
\set a random(1, 60)
\set b random(1, 60)
\set n random(1, 20)
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE acc SET balance = balance - :n WHERE id = :a;
UPDATE acc SET balance = balance + :n WHERE id = :b;
COMMIT;
});
	# a row is replaced by another one of the same key
	my $replace = lsm_script('replace', q{
\set a random(1, 60)
BEGIN ISOLATION LEVEL REPEATABLE READ;
WITH d AS (DELETE FROM acc WHERE id = :a RETURNING *) INSERT INTO acc SELECT -id, balance, pad FROM d;
UPDATE acc SET id = -id WHERE id = -(:a);
COMMIT;
});
	my $check = lsm_script('check', "BEGIN;\nSELECT check_total();\nCOMMIT;\n");
	my $errors = meanwhile(sub { run_clients("$am: transfers", $transfer, $check, $transfer, $replace); },
		'VACUUM acc', "SELECT lsm_flush(oid::regclass) FROM pg_class WHERE relname IN ('acc_id', 'acc_b') OR relname = 'acc' AND '$am' = 'lsm'", "SELECT lsm_compact('acc_b'), lsm_compact('acc_id')");
	is($errors, '', "$am: maintenance");
	is($node->safe_psql('postgres', 'SELECT count(*), sum(balance) FROM acc'), '60|6000', "$am: total");

	# CREATE INDEX CONCURRENTLY and REINDEX CONCURRENTLY under the same load
	$errors = meanwhile(sub { run_clients("$am: transfers while indexes are built", $transfer, $replace, $check); },
		'CREATE UNIQUE INDEX CONCURRENTLY acc_c ON acc USING lsm (id, balance)', 'REINDEX INDEX CONCURRENTLY acc_b', 'DROP INDEX CONCURRENTLY acc_c', 'REINDEX TABLE CONCURRENTLY acc');
	is($errors, '', "$am: building indexes");
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS acc_c');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_index WHERE indrelid = 'acc'::regclass AND NOT indisvalid}), 0, "$am: all indexes are valid");
	is($node->safe_psql('postgres', 'SELECT check_total()'), '', "$am: total in rebuilt indexes");
	is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('acc')}), '', 'lsm_verify') if $am eq 'lsm';
	$node->safe_psql('postgres', 'DROP TABLE acc; DROP FUNCTION check_total');
}

# ---- foreign keys: parents come and go, children too ----
my %actions = ('NO ACTION' => 0, 'ON DELETE CASCADE ON UPDATE CASCADE' => 0, 'ON DELETE SET NULL ON UPDATE SET NULL' => 1, 'DEFERRABLE INITIALLY DEFERRED' => 0);
foreach my $action (sort keys %actions)
{
	$node->safe_psql('postgres', qq{
CREATE TABLE parent (id int PRIMARY KEY, n int DEFAULT 0) USING lsm;
CREATE TABLE child (id serial PRIMARY KEY, p int REFERENCES parent @{[ $action eq 'NO ACTION' ? '' : $action ]}) USING lsm;
CREATE INDEX ON child USING lsm (p);
INSERT INTO parent SELECT generate_series(1, 12)});
	my $family = lsm_script('family', q{
\set a random(1, 12)
\set b random(1, 12)
\set dice random(1, 8)
\if :dice <= 3
DO $$ BEGIN INSERT INTO child (p) SELECT :a WHERE EXISTS (SELECT FROM parent WHERE id = :a FOR KEY SHARE); SET CONSTRAINTS ALL IMMEDIATE; EXCEPTION WHEN foreign_key_violation THEN NULL; END $$;
\elif :dice = 4
DO $$ BEGIN DELETE FROM parent WHERE id = :a AND NOT EXISTS (SELECT FROM child WHERE p = :a); SET CONSTRAINTS ALL IMMEDIATE; EXCEPTION WHEN foreign_key_violation THEN NULL; END $$;
\elif :dice = 5
DO $$ BEGIN INSERT INTO parent VALUES (:a) ON CONFLICT (id) DO UPDATE SET n = parent.n + 1; SET CONSTRAINTS ALL IMMEDIATE; EXCEPTION WHEN foreign_key_violation THEN NULL; END $$;
\elif :dice = 6
DO $$ BEGIN UPDATE parent SET n = n + 1 WHERE id IN (:a, :b); SET CONSTRAINTS ALL IMMEDIATE; EXCEPTION WHEN foreign_key_violation THEN NULL; END $$;
\elif :dice = 7
DO $$ BEGIN DELETE FROM child WHERE p = :b; SET CONSTRAINTS ALL IMMEDIATE; EXCEPTION WHEN foreign_key_violation THEN NULL; END $$;
\else
DO $$ BEGIN UPDATE child SET p = :b WHERE p = :a AND EXISTS (SELECT FROM parent WHERE id = :b FOR KEY SHARE); SET CONSTRAINTS ALL IMMEDIATE; EXCEPTION WHEN foreign_key_violation THEN NULL; END $$;
\endif
});
	my $errors = meanwhile(sub { $node->command_ok([ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $transactions, '--max-tries=1000', '--failures-detailed', '-f', $family, $node->connstr('postgres') ], "foreign key, $action"); },
		'VACUUM parent', q{SELECT lsm_flush('child'), lsm_compact('parent')}, 'UPDATE parent SET id = (SELECT 100 + max(id) FROM parent) WHERE id = 5 AND NOT EXISTS (SELECT FROM child WHERE p = 5)');
	$errors =~ s/^.*(violates foreign key|DETAIL|CONTEXT).*\n//mg;
	is($errors, '', "$action: maintenance");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM child c WHERE p IS NOT NULL AND NOT EXISTS (SELECT FROM parent p WHERE p.id = c.p)}), 0, "$action: no child without a parent");
	is($node->safe_psql('postgres', q{SELECT * FROM lsm_verify('child') UNION ALL SELECT * FROM lsm_verify('parent')}), '', 'lsm_verify');
	$node->safe_psql('postgres', 'DROP TABLE parent, child');
}
$node->stop;
done_testing();
