# Keys that only grow: what is flushed overlaps nothing, and goes down as it is.  Small files that stand side by side are
# written together, in tiers: few files, few bytes written again and again; beside writers, after kill -9.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = lsm_node('small', conf => "autovacuum = off\nfsync = off\nlsm.target_file_size = 1MB\nlsm.compression = 'none'");
lsm_start($node);
sub query { return $node->safe_psql('postgres', $_[0]); }
sub files { return query("SELECT sum(files) FROM lsm_levels('$_[0]')"); }

query(q{CREATE TABLE t (k int, v text) USING lsm; CREATE INDEX t_k ON t USING lsm (k);
	CREATE PROCEDURE grow(first int, last int, rows int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN first .. last LOOP
			INSERT INTO t SELECT i * rows + j, 'value ' || j FROM generate_series(0, rows - 1) j;
			COMMIT;
			PERFORM lsm_flush('t'); PERFORM lsm_flush('t_k');
			COMMIT;
		END LOOP;
	END $$});

sub become_few
{
	my ($what, $most) = @_;
	foreach my $rel ('t', 't_k')
	{
		ok($node->poll_query_until('postgres', "SELECT sum(files) <= $most FROM lsm_levels('$rel')"), "$what: few files of $rel") or diag(files($rel));
		is(query("SELECT count(*) FROM lsm_verify('$rel')"), 0, "$what: $rel verified");
	}
	return is(query('SET enable_seqscan = off; SELECT count(*), sum(k), min(k), max(k) FROM t WHERE k >= 0'), query('SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SELECT count(*), sum(k), min(k), max(k) FROM t'), "$what: rows");
}

# 7 of each of three tiers, and what level 0 has
query('CALL grow(0, 299, 50)');
is(query('SELECT count(*), sum(k) FROM t'), '15000|112492500', 'rows');
become_few('300 flushes', 27);
foreach my $rel ('t', 't_k')
{
	my ($written, $size) = split(/\|/, query("SELECT (SELECT bytes_compacted FROM pg_stat_lsm WHERE relname = '$rel'), (SELECT sum(bytes) FROM lsm_levels('$rel'))"));
	cmp_ok($written, '<', 6 * $size, "$rel: each entry was written a few times ($written, $size)");
	cmp_ok($written, '>', 0, "$rel: but was");
}

# larger ones above them
query('CALL grow(300, 311, 20000)');
become_few('larger files', 60);

# beside a writer that also deletes and comes back, and after kill -9
my $writer = lsm_start_session($node, 'postgres', 'writer', 'CALL grow(400, 480, 40); DELETE FROM t WHERE k % 7 = 0; CALL grow(481, 560, 40)');
my $reads = 0;
while (!lsm_ended($writer, 0.05))
{
	my ($n, $distinct) = split(/\|/, query('SET enable_seqscan = off; SELECT count(k), count(DISTINCT k) FROM t WHERE k BETWEEN 0 AND 14999 AND k % 7 <> 0'));
	is("$n|$distinct", '12857|12857', 'rows beside a writer') if $n != 12857 || $distinct != 12857;
	$reads++;
}
is(lsm_output('writer'), '', "a writer beside $reads scans");
become_few('beside a writer', 90);
query('CALL grow(600, 610, 40)');
$node->stop('immediate');
$node->start;
query('CALL grow(611, 640, 40)');
become_few('after a crash', 90);

$node->stop;
done_testing();
