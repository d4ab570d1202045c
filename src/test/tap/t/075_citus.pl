# Lsm tables on Citus: docs/citus.md word for word but for addresses; heap and lsm tables, distributed alike, answer alike;
# shards are moved and split under writes, with a ledger of what was acknowledged; coordinator and workers are killed amid
# transactions on several of them.  Builds nothing: it is skipped where Citus is not installed (src/test/apps/citus.sh).
#   LSM_LONG=1  more load, more kills
use strict;
use warnings;
use LsmDecode;
use LsmTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Basename;
use Time::HiRes qw(usleep time);

my $lib = `pg_config --pkglibdir`;
chomp $lib;
plan skip_all => "Citus is not installed ($lib/citus.so; docs/citus.md says how to try it)" unless -e "$lib/citus.so";
srand(lsm_seed());

my $page = slurp_file(($ENV{LSM_DOCS} // dirname(__FILE__) . '/../../../../docs') . '/citus.md');
my %node;
foreach my $name (qw(coordinator worker1 worker2 worker3))
{
	$node{$name} = lsm_node($name, wal_level => 'logical', conf => qq{
shared_preload_libraries = 'citus,lsmam'
citus.node_conninfo = 'sslmode=disable'
citus.enable_statistics_collection = off
citus.max_adaptive_executor_pool_size = 4
citus.shard_count = 8
citus.recover_2pc_interval = 1s
wal_retrieve_retry_interval = 100ms
citus.defer_shard_delete_interval = -1
citus.stat_tenants_track = 'all'
citus.enable_stat_counters = on
max_prepared_transactions = 100
max_connections = 100
max_worker_processes = 24
max_replication_slots = 20
max_wal_senders = 20
max_logical_replication_workers = 12
max_sync_workers_per_subscription = 4
lsm.max_trees = 1024
fsync = off
autovacuum = off
} . (decode_allow_plugins() ? "output_plugin_libraries = 'pgoutput, citus'\n" : ''));
	lsm_set($node{$name}, 'citus.local_hostname' => $node{$name}->host);
	$node{$name}->start;
}
my @workers = @node{qw(worker1 worker2 worker3)};
my $front = $node{coordinator};
sub sql { return $front->safe_psql('postgres', $_[0]); }

# ---- the page ----
$page =~ s/'(\w+)\.example\.org', 5432/"'" . $node{$1}->host . "', " . $node{$1}->port/ge;
my (%blocks, $section);
while ($page =~ /^## (.*?)$|^```sql\n-- on: (.*?)\n(.*?)^```$/gms)
{
	$section = $1, next if defined $1;
	push @{ $blocks{$section} }, [ $2, $3 ];
}
my $blocks_run = 0;

# what the blocks of a section said, one after the other
sub run_section
{
	my ($name) = @_;
	my @said;
	foreach my $block (@{ $blocks{$name} })
	{
		foreach my $where (split /, /, $block->[0])
		{
			my ($out, $err);
			my $rc = $node{$where}->psql('postgres', $block->[1], stdout => \$out, stderr => \$err);
			$err =~ s/^(psql:<stdin>:\d+: )?(NOTICE|DETAIL|HINT|WARNING: +not propagating).*\n?//gm;
			is("$rc $err", '0 ', "$name: a block on $where") or diag $block->[1];
			push @said, $out;
		}
		$blocks_run++;
	}
	return @said;
}


# what is wrong with lsm tables on any node, '' if nothing
sub verified
{
	return join '', map { $_->safe_psql('postgres', q{SELECT c.oid::regclass, v.* FROM pg_class c JOIN pg_am a ON a.oid = relam, lsm_verify(c.oid) v WHERE amname = 'lsm' AND relkind = 'r'}) } $front, @workers;
}

# ---- the page, run ----

run_section('Servers');
my @tables = run_section('Tables');
is($tables[-2], 'lsm, lsm_index, lsm_index', 'shards and their keys have the access method');
like($tables[-1], qr/^100\|2025-03-01 00:07:00\+00\|2025-03-04 10:37:00\+00$/m, 'a partition is columnar, and read beside others');
is(sql(q{SELECT string_agg(DISTINCT result, ',') FROM run_command_on_shards('events_2025', $$SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = '%s'::regclass$$)}), 'columnar', '... on all shards');
is(sql(q{SELECT string_agg(DISTINCT result, ',') FROM run_command_on_shards('events_2026', $$SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = '%s'::regclass$$)}), 'lsm', '... the other one is lsm by default');

my @read = run_section('Reading and writing');
foreach my $where (1 .. 3)
{
	is(scalar(() = $read[$where] =~ /Task Count: 1\n/g), 1, 'a point read is one task') or diag $read[$where];
	like($read[$where], qr/Index Scan using accounts_pkey_\d+ on accounts_\d+.*^branch 0\|2000\nbranch 1\|2000\nbranch 2\|2000\n4000\|4000000$/ms, '... by its key, and all servers answer');
}
my $balances = sql('SELECT count(*), sum(balance) FROM accounts');
is($balances, '4000|4000000', 'ON CONFLICT DO UPDATE and UPDATE: one more, one less');

is(sql(q{SELECT count(*) > 0 FROM citus_stat_tenants WHERE tenant_attribute = '7'}), 't', 'citus_stat_tenants');

my @moved = run_section('Moving and splitting shards');
is(scalar(() = $moved[1] =~ /\|[23]$/gm), 3, 'a new server gets its part') or diag $moved[1];
is(sql('SELECT count(*), sum(balance) FROM accounts'), $balances, 'moved and split: nothing is lost');
is(sql(q{SELECT count(*) FROM citus_shards WHERE table_name = 'accounts'::regclass}), 8 + 2 + 1, 'a tenant on its own makes three of one, a split two');

my @sizes = run_section('Sizes, and balance by size');
like($sizes[0], qr/^\d+ [kM]B$/, 'sizes of shards');
is($sizes[-1] =~ s/.*^(t\|t)\n0$/$1/msr, 't|t', 'counters; lsm_verify finds nothing') or diag $sizes[-1];
like($sizes[-1], qr/^(?:\S+\|\d+\|[1-9]\d*\n){4}/, 'trees of all servers');
is(sql(q{SELECT count(*) FROM shard_sizes WHERE bytes > 10000}), sql(q{SELECT count(*) FROM pg_dist_shard JOIN pg_dist_partition USING (logicalrelid) JOIN shard_sizes USING (shardid) WHERE partmethod = 'h' AND bytes > 10000}), 'sizes by shard');
run_section('Failures');
is($blocks_run, scalar(() = $page =~ /^```sql\n-- on: /gm), 'every block of the page has run');
is(scalar(() = $page =~ /^```sql$/gm), $blocks_run, '... and there are no others');
is(verified(), '', 'lsm_verify, on all servers');
sql('DROP TABLE accounts, journal, branches, events');

# ---- heap and lsm, distributed alike, answer alike ----

# statements with @ for _h and _l
sub pair { my ($statement) = @_; return map { $statement =~ s/\@/_$_/gr =~ s/\bUSING AM\b/USING @{[ $_ eq 'h' ? 'heap' : 'lsm' ]}/gr =~ s/\bINDEX AM\b/USING @{[ $_ eq 'h' ? 'btree' : 'lsm' ]}/gr } 'h', 'l'; }

# What a session says of a script, with names made equal; errors and all.  Rows come in no order.
sub answer
{
	my ($script) = @_;
	my ($rc, $out, $err) = $front->psql('postgres', $script, on_error_stop => 0);
	my $all = join "\n", sort split /\n/, "$out\n" . ($err // '');
	# what only lsm tables say: which keys have become btree
	$all =~ s/^DETAIL: +PostgreSQL supports foreign keys that reference a btree key only.*\n|^.*NOTICE: .* is rebuilt as btree\n?//gm;
	$all =~ s/\n\z//;
	# names of shards; which task failed first
	return $all =~ s/_[hl](?=\b|_)//gr =~ s/_1\d{5}\b//gr =~ s/\b1\d{5}\b/N/gr =~ s/^psql:<stdin>:\d+: //gmr =~ s/while executing command on \S+/while executing/gr;
}

my $set = "SET citus.shard_count = 6; SET citus.enable_repartition_joins = on; SET citus.multi_shard_modify_mode = 'parallel';\n";
my @statements = split /\n---\n/, slurp_file(dirname(__FILE__) . '/../citus/twins.sql');
my $n = 0;
foreach my $statement (@statements)
{
	my ($h, $l) = map { answer("$set\\set ON_ERROR_ROLLBACK off\n$_") } pair($statement);
	$n++;
	my ($name) = $statement =~ /^-- (.*)/;
	is($l, $h, "twins: $name");
	my @wrong = grep { /ERROR/ } split /\n/, $h;
	ok(($name =~ /refused/) == (@wrong > 0), '... ' . ($name =~ /refused/ ? 'which is an error' : 'which is none')) or diag $h;
}
sub twins_differ
{
	my (@names) = @_;
	return join '', map { my $t = $_; map { sql("SELECT '$t $_->[0]', count(*), min(x::text) FROM (SELECT * FROM ${t}_$_->[0] EXCEPT ALL SELECT * FROM ${t}_$_->[1]) x HAVING count(*) > 0") } [ 'h', 'l' ], [ 'l', 'h' ] } @names;
}
is(twins_differ(qw(d e r)), '', 'twins: all rows');
cmp_ok(sql('SELECT count(*) FROM d_l'), '>', 1000, '... and there are many');
is(verified(), '', 'lsm_verify, on all servers');
sql('SET client_min_messages = warning; DROP TABLE d_h, d_l, e_h, e_l, r_h, r_l CASCADE');

# ---- transactions on several servers beside moves, splits and kills ----

# Heap and lsm of the same rows in the same transactions: balances, what was transferred, and rows that come and go
my ($tenants, $ids) = (40, 10);
sql(join ";\n", map { pair($_) } 'SET citus.shard_count = 8; CREATE TABLE bal@ (tenant int, id int, balance bigint NOT NULL, filler text, PRIMARY KEY (tenant, id)) USING AM',
	'CREATE TABLE log@ (tenant int, transfer bigint, amount bigint NOT NULL, PRIMARY KEY (tenant, transfer)) USING AM',
	'CREATE TABLE go@ (tenant int, id int, v text, PRIMARY KEY (tenant, id)) USING AM; CREATE INDEX ON go@ INDEX AM (v)',
	'CREATE TABLE ref@ (id int PRIMARY KEY, n bigint) USING AM');
sql(join ";\n", map { my $t = $_; map { "SELECT create_distributed_table('${t}_$_', 'tenant', colocate_with => '" . ("$t$_" eq 'balh' ? 'none' : 'bal_h') . "')" } 'h', 'l' } qw(bal log go));
sql(join ";\n", map { pair($_) } q{SELECT create_reference_table('ref@')}, "INSERT INTO bal@ SELECT t, i, 1000, repeat('x', 200) FROM generate_series(1, $tenants) t, generate_series(1, $ids) i", 'INSERT INTO ref@ SELECT g, 0 FROM generate_series(1, 20) g');
my $transfers = 0;
my $stop_file = PostgreSQL::Test::Utils::tempdir() . '/stop';

# a script of so many transfers between tenants, which ends when the file is there
sub transfers
{
	my ($n, $session) = @_;
	my $script = '';
	foreach (1 .. $n)
	{
		my $x = ++$transfers;
		# in one order, so that nobody waits in a circle
		my ($a, $b) = sort { $a <=> $b } 1 + int rand($tenants / 2), 1 + $tenants / 2 + int rand($tenants / 2);
		# rows that come and go are a session's own: between DELETE in h and in l the other one may commit
		my ($id, $go) = (1 + int rand $ids, 100 * $session + int rand 30);
		$script .= "\\set stop `test -e $stop_file && echo 1 || echo 0`\n\\if :stop\n\\q\n\\endif\n\\echo transfer $x\nBEGIN;\n" . join ";\n", map({ pair($_) }
			"UPDATE bal@ SET balance = balance - 1 WHERE tenant = $a AND id = $id", "INSERT INTO log@ VALUES ($a, $x, -1)",
			($x % 3 ? "DELETE FROM go@ WHERE tenant = $a AND id = $go" : ()),
			"INSERT INTO go@ VALUES ($a, $go, 'v$x') ON CONFLICT (tenant, id) DO UPDATE SET v = go@.v || ' ' || excluded.v",
			"UPDATE bal@ SET balance = balance + 1 WHERE tenant = $b AND id = $id", "INSERT INTO log@ VALUES ($b, $x, 1)",
			($x % 10 ? () : "UPDATE ref@ SET n = n + 1 WHERE id = $id")), "COMMIT;\n";
	}
	return $script;
}

# Two sessions of transfers beside what is done meanwhile: what was acknowledged, and what was said of the others
sub beside
{
	my ($meanwhile) = @_;
	my (@runs, @acknowledged, @failed);
	unlink $stop_file;
	foreach my $session (1, 2)
	{
		my $file = PostgreSQL::Test::Utils::tempdir() . '/transfers.sql';
		append_to_file($file, transfers(3000, $session));
		# into a file: nobody reads a pipe meanwhile
		my ($out, $err) = map { "$file.$_" } 'out', 'err';
		push @runs, [ IPC::Run::start([ 'psql', '-XAt', '-f', $file, '-d', $front->connstr('postgres') ], '>', $out, '2>', $err), $out, $err ];
	}
	usleep(10_000) until slurp_file($runs[0][1]) =~ /COMMIT/;
	$meanwhile->();
	append_to_file($stop_file, 'stop');
	foreach my $run (@runs)
	{
		eval { $run->[0]->finish };
		my $said = slurp_file($run->[1]);
		while ($said =~ /^transfer (\d+)\n(.*?)(?=^transfer|\z)/gms)
		{
			my ($transfer, $rest) = ($1, $2);
			push @{ $rest =~ /^COMMIT\n/m ? \@acknowledged : \@failed }, $transfer;
		}
	}
	return (\@acknowledged, \@failed, join '', map { slurp_file($_->[2]) } @runs);
}

sub check_ledger
{
	my ($what, $acknowledged, $failed, $errors, $kills) = @_;
	my $list = join ',', 0, @$acknowledged;
	cmp_ok(scalar(@$acknowledged), '>', 0, "$what: transfers were made (" . @$acknowledged . ', ' . @$failed . ' failed)');
	is(join("\n", grep { /ERROR|FATAL/ } split /\n/, $errors), '', "$what: none failed") unless $kills;
	foreach my $t ('h', 'l')
	{
		is(sql("SELECT count(*) FROM (SELECT transfer FROM log_$t WHERE transfer IN ($list) GROUP BY transfer HAVING count(*) = 2 AND sum(amount) = 0) x"), scalar(@$acknowledged), "$what, $t: what was acknowledged is there");
		is(sql("SELECT count(*) FROM (SELECT transfer FROM log_$t GROUP BY transfer HAVING count(*) <> 2) x"), 0, "$what, $t: nothing by half");
		is(sql("SELECT count(*) FROM (SELECT tenant, sum(balance) b FROM bal_$t GROUP BY 1) a LEFT JOIN (SELECT tenant, sum(amount) s FROM log_$t GROUP BY 1) j USING (tenant) WHERE b <> 1000 * $ids + coalesce(s, 0)"), 0, "$what, $t: balances are what was transferred");
	}
	is(twins_differ(qw(bal log go ref)), '', "$what: twins");
	is(verified(), '', "$what: lsm_verify");
	return;
}

# The group of shards of a tenant goes to another worker
sub move
{
	my ($tenant, $mode) = @_;
	sql(qq{SELECT citus_move_shard_placement(s.shardid, s.nodename, s.nodeport, n.nodename, n.nodeport, '$mode')
FROM citus_shards s, LATERAL (SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 AND (nodename, nodeport) <> (s.nodename, s.nodeport) ORDER BY random() LIMIT 1) n
WHERE s.shardid = get_shard_id_for_distribution_column('bal_l', $tenant)});
	return;
}
# It is split, and its halves go to the other workers.  With one half where it was, Citus gets stuck if rows are updated
# (its own defect, of heap tables without lsmam, too).
sub split_shard
{
	my ($tenant, $mode) = @_;
	sql(qq{SELECT citus_split_shard_by_split_points(shardid, ARRAY[((shardminvalue::bigint + shardmaxvalue::bigint) / 2)::text],
(SELECT array_agg(nodeid) FROM pg_dist_node WHERE groupid NOT IN (0, p.groupid)), '$mode')
FROM pg_dist_shard JOIN pg_dist_placement p USING (shardid) WHERE shardid = get_shard_id_for_distribution_column('bal_l', $tenant)});
	return;
}
my @tenant = map { 1 + int rand $tenants } 1 .. 8;
check_ledger('moved with writers waiting', beside(sub { move($tenant[$_], 'block_writes') foreach 0, 1 }));
check_ledger('moved by logical replication', beside(sub { move($tenant[$_], 'force_logical') foreach 2, 3, 2 }));
check_ledger('split with writers waiting', beside(sub { split_shard($tenant[4], 'block_writes') }));
check_ledger('split by logical replication', beside(sub { split_shard($tenant[5], 'force_logical') }));
check_ledger('a tenant gets a shard', beside(sub { sql("SELECT isolate_tenant_to_new_shard('bal_l', $tenant[6], 'CASCADE', shard_transfer_mode => 'block_writes')") }));
check_ledger('a server is emptied and filled', beside(sub { sql(qq{SELECT citus_drain_node('@{[ $node{worker2}->host ]}', @{[ $node{worker2}->port ]}, 'force_logical')});
	is(sql(qq{SELECT count(*) FROM citus_shards WHERE nodeport = @{[ $node{worker2}->port ]} AND citus_table_type = 'distributed'}), 0, 'it is empty');
	sql(qq{SELECT citus_set_node_property('@{[ $node{worker2}->host ]}', @{[ $node{worker2}->port ]}, 'shouldhaveshards', true)});
	sql(q{SELECT rebalance_table_shards(rebalance_strategy => 'by_shard_count', shard_transfer_mode => 'force_logical')});
	cmp_ok(sql(qq{SELECT count(*) FROM citus_shards WHERE nodeport = @{[ $node{worker2}->port ]} AND citus_table_type = 'distributed'}), '>', 0, '... and has shards again') }));
sql('CALL citus_cleanup_orphaned_resources()');

# ---- waits of sessions on several servers ----

# Rows of two servers: locked in the opposite order, and keys inserted in it.  Citus sees who waits for whom.
my ($one, $two) = split /\|/, sql(q{SELECT min(t) FILTER (WHERE p = low), min(t) FILTER (WHERE p = high) FROM (SELECT t, p, min(p) OVER () low, max(p) OVER () high FROM
(SELECT t, (SELECT nodeport FROM citus_shards WHERE shardid = get_shard_id_for_distribution_column('bal_l', t)) p FROM generate_series(1, 40) t) x) y});
foreach my $what ([ 'UPDATE bal@ SET filler = filler WHERE tenant = %d AND id = 1', 'rows' ], [ q{INSERT INTO go@ VALUES (%d, 1000, 'same')}, 'keys' ])
{
	my %said;
	foreach my $t ('_h', '_l')
	{
		my ($first, $second) = map { sprintf $what->[0] =~ s/@/$t/r, $_ } $one, $two;
		my @s = map { $front->background_psql('postgres', on_error_stop => 0) } 1, 2;
		$s[0]->query_safe("BEGIN; $first");
		$s[1]->query_safe("BEGIN; $second");
		$s[0]->query_until(qr/started/, "\\echo started\n$second;\n");
		ok($front->poll_query_until('postgres', 'SELECT count(*) = 1 FROM citus_lock_waits'), "$what->[1] of $t: citus_lock_waits sees who waits");
		$s[1]->query($first);
		$s[0]->query('SELECT 1');
		$_->query('ROLLBACK') foreach @s;
		$said{$t} = join '', map { $_->{stderr} } @s;
		$_->quit foreach @s;
	}
	is(scalar(() = $said{$_} =~ /involved in a distributed deadlock/g), 1, "$what->[1] of $_: a deadlock across servers is found") or diag $said{$_} foreach '_h', '_l';
}

# a local table is distributed while it is written to
sql(join ";\n", map { pair($_) } 'CREATE TABLE late@ (tenant int, id int, v text, PRIMARY KEY (tenant, id)) USING AM', q{INSERT INTO late@ SELECT g % 40, g, 'v' FROM generate_series(1, 4000) g});
my $late = lsm_script('citus_late', "\\set id random(1, 6000)\nBEGIN;\n" . join('', map { "$_;\n" } pair(q{INSERT INTO late@ VALUES (:id % 40, :id, 'new') ON CONFLICT (tenant, id) DO UPDATE SET v = late@.v || '.'}),
	pair('DELETE FROM late@ WHERE tenant = (:id + 7) % 40 AND id = :id + 7')) . "COMMIT;\n");
my ($said, $complained) = ('', '');
my $writer = IPC::Run::start([ 'pgbench', '-n', '-c', 1, '-T', 600, '-f', $late, $front->connstr('postgres') ], '>', \$said, '2>', \$complained);
sql(qq{SELECT create_distributed_table_concurrently('late_$_', 'tenant')}) foreach 'h', 'l';
usleep(500_000);
$writer->signal('INT');
eval { $writer->finish };
unlike($complained, qr/ERROR/, 'a local table is distributed while it is written to');
is(twins_differ('late'), '', '... and all rows are there');
is(sql(q{SELECT count(DISTINCT nodeport) FROM citus_shards WHERE table_name = 'late_l'::regclass}), 3, '... on all workers');

# kill -9
my @victims = map { $node{$_} } qw(worker1 coordinator worker2 coordinator);
@victims = map { (@victims, @workers) } 1 .. 5 if lsm_long();
foreach my $victim (@victims)
{
	my ($acknowledged, $failed, $errors) = beside(sub {
		usleep(300_000 + rand 500_000);
		my @pids = lsm_pids($victim);
		kill 'KILL', $pids[0];
		usleep(rand 200_000);
		lsm_restart_after_crash($victim, @pids);
		usleep(500_000);
	});
	lsm_wait_up($front);
	sql('SELECT recover_prepared_transactions()');
	foreach my $worker (@workers)
	{
		ok($worker->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_prepared_xacts}), 'no transaction stays between its phases') or diag $worker->safe_psql('postgres', 'SELECT * FROM pg_prepared_xacts');
	}
	check_ledger('kill -9 of ' . $victim->name, $acknowledged, $failed, $errors, 1);
}
$_->stop foreach values %node;
done_testing();
