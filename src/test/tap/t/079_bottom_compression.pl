# lsm.bottom_compression under workers: files of the deepest level are of one compression and those above of another,
# rows are those of a heap twin, after a crash amid a compaction into another compression too, and on a standby; a
# damaged block is an error of corrupt data that names the file, for every reader.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

lsm_seed();
my $node = lsm_node('bottom', initdb => [ lsm_no_checksums() ],
	conf => "max_wal_senders = 5\nautovacuum = off\nlsm.memtable_size = '64kB'\nlsm.target_file_size = '64kB'\nlsm.size_ratio = 2\nlsm.bottom_compression = zstd");
$node->append_conf("pg_hba.conf", "local replication all trust\n");
lsm_start($node);
lsm_create_twins($node, 't', 'id int PRIMARY KEY, n int, v text', '(n)');
sub sql { return $node->safe_psql('postgres', $_[0]); }
sub written { return sql("SELECT string_agg(DISTINCT compression, ' ' ORDER BY compression) FROM lsm_compression('$_[0]')"); }
sub both { my ($change) = @_; sql($change =~ s/\bt\b/t_$_/gr) foreach 'h', 'l'; return; }
# the same in each, so that the twins stay twins
my $md5 = q{md5((g * 17)::text) || md5(g::text) || repeat('-', 40)};

# rows that are only added: written once, for the bottom
foreach my $i (0 .. 7)
{
	both("INSERT INTO t SELECT g, g % 100, $md5 FROM generate_series($i * 1000, $i * 1000 + 999) g");
}
sql(q{SELECT lsm_flush('t_l')});
is(written('t_l'), 'zstd', 'rows that are added are at the bottom');
is(lsm_differences($node, 't'), '', 'rows that are added');

# changes of old ones: levels above it
foreach my $i (0 .. 5)
{
	both("UPDATE t SET v = 'u$i' || v WHERE id % 40 = $i");
	sql(q{SELECT lsm_flush('t_l')});
}
ok($node->poll_query_until('postgres', q{SELECT count(*) > 1 FROM lsm_levels('t_l')}), 'there are several levels');
ok($node->poll_query_until('postgres', q{SELECT string_agg(DISTINCT compression, ' ') = 'zstd' FROM lsm_compression('t_l') WHERE level = (SELECT max(level) FROM lsm_levels('t_l'))}),
	'zstd in the deepest level, whoever wrote it');
is(lsm_differences($node, 't'), '', 'rows that are changed');
like(sql(q{BEGIN; LOCK TABLE t_l; UPDATE t_l SET n = n WHERE id = 3; SELECT lsm_flush('t_l'); SELECT string_agg(DISTINCT compression, ' ') FROM lsm_compression('t_l') WHERE level = 0; ROLLBACK}),
	qr/lz4/, 'above it lz4: a change of an old row, which no worker has moved yet');

# a standby reads it; it knows what the files are
my $backup = 'b';
$node->backup($backup);
my $standby = PostgreSQL::Test::Cluster->new('bottom_standby');
$standby->init_from_backup($node, $backup, has_streaming => 1);
$standby->start;
both('DELETE FROM t WHERE id % 50 = 7');
sql(q{SELECT lsm_flush('t_l'); SELECT lsm_compact('t_l')});
is(written('t_l'), 'zstd', 'one compression after lsm_compact');
my $rows = sql(q{SELECT count(*), md5(string_agg(id || v, ',' ORDER BY id)) FROM t_h});
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', q{SELECT count(*), md5(string_agg(id || v, ',' ORDER BY id)) FROM t_l}), $rows, 'the same on a standby');
is($standby->safe_psql('postgres', q{SELECT string_agg(DISTINCT compression, ' ') FROM lsm_compression('t_l')}), 'zstd', 'and it knows the compression');
$standby->stop;

# crashes amid a compaction into another compression: old and new files are read side by side
foreach my $step ([ lz4 => 'compact_file_written:2' ], [ none => 'edit_after_wal' ], [ zstd => 'compact_file_written' ])
{
	my ($to, $point) = @$step;
	my $before = written('t_l');
	my @pids = lsm_pids($node);
	my ($rc, $out, $err) = $node->psql('postgres', "SET lsm.bottom_compression = $to; SET lsm.crash_point = '$point'; SELECT lsm_compact('t_l')");
	isnt($rc, 0, "$point: crashed");
	lsm_restart_after_crash($node, @pids);
	is(lsm_differences($node, 't'), '', "$point: the same rows");
	is(sql(q{SELECT string_agg(object || problem, ' ') FROM lsm_verify('t_l')}), '', "$point: lsm_verify is content");
	sql("SET lsm.bottom_compression = $to; SELECT lsm_compact('t_l')");
	is(written('t_l'), $to, "$before to $to");
	is(sql(q{SELECT count(*), md5(string_agg(id || v, ',' ORDER BY id)) FROM t_l}), $rows, "$to: the same rows");
}

# a damaged block
sql(q{SELECT lsm_flush('t_l')});
my ($number, $bytes) = split /\|/, sql(q{SELECT file, bytes FROM lsm_files('t_l') ORDER BY bytes DESC LIMIT 1});
my ($path) = grep { -s $_ == $bytes } lsm_files_of($node, qr/^0*$number\.sst$/);
ok($path, 'there is a file');
$node->stop;
lsm_flip_bits($path, 2000);
lsm_start($node);
foreach my $query (q{SELECT count(*), sum(length(v)) FROM t_l},
	q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM generate_series(0, 7999) g, LATERAL (SELECT v FROM t_l WHERE id = g OFFSET 0) s WHERE s.v IS NOT NULL},
	q{SET lsm.bottom_compression = lz4; SELECT lsm_compact('t_l')})
{
	my ($rc, $out, $err) = $node->psql('postgres', $query, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	like($err, qr{ERROR:  XX001: .*pg_lsm/.*0*$number\.sst}, "damaged: $query");
	is($out, '', 'and no answer');
}
like(sql(q{SELECT string_agg(object || problem, ' ') FROM lsm_verify('t_l')}), qr/0*$number\.sst/, 'lsm_verify names it');
$node->stop;
done_testing();
