# Versions of rows under everything at once: three sessions with transactions that go on beside flushes,
# compactions, VACUUM FREEZE and kill -9, with savepoints, prepared transactions, old snapshots on the primary and
# on a standby.  Every snapshot has to see the same of heap and of lsm.
use strict;
use warnings;
use LsmSession;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

lsm_seed();
my $rounds = $ENV{LSM_ROUNDS} // (lsm_long() ? 1000 : 40);
my $rows = 120;
my $conf = "max_wal_senders = 8\nwal_keep_size = 256MB\nhot_standby = on\nmax_prepared_transactions = 20\nautovacuum = off\nlsm.memtable_size = 64kB\nlsm.target_file_size = 64kB\nlsm.size_ratio = 3\nmax_standby_streaming_delay = -1\n";
my $node = lsm_node('chaos', conf => $conf);
lsm_start($node);
lsm_create_twins($node, 't', 'id int PRIMARY KEY, k int, n int, v text', '(k)');
$node->safe_psql('postgres', "INSERT INTO t_$_ SELECT i, i, 0, 'v' FROM generate_series(0, $rows - 1) i") foreach 'h', 'l';
$node->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('chaos_standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;

my $same = q{SELECT 'differs ' || count(*) || ' ' || min(x::text) FROM ((SELECT * FROM t_h EXCEPT ALL SELECT * FROM t_l) UNION ALL (SELECT * FROM t_l EXCEPT ALL SELECT * FROM t_h)) x HAVING count(*) > 0};
my @looks = ($same,
	"SET LOCAL enable_seqscan = off; SELECT 'by key ' || id FROM t_h h WHERE NOT EXISTS (SELECT FROM t_l l WHERE l.id = h.id AND l.n = h.n AND l.v = h.v AND l.k = h.k); SET LOCAL enable_seqscan = on");
my @actors = map { { k => $_, session => LsmSession->new($node), open => 0, prepared => undef } } 0 .. 2;
my @old = map { { node => $_, session => undef } } $node, $node, $standby;
my ($np, $wrong) = (0, '');

sub pick { return $_[int(rand(@_))]; }

sub statement
{
	my ($k) = @_;
	my $id = 3 * int(rand($rows / 3)) + $k;
	my $hot = pick($k, $k + 3, $id);
	my $dice = rand();
	return "UPDATE t_X SET n = n + 1 WHERE id = $hot" if $dice < 0.4;
	return "UPDATE t_X SET v = md5(v) || repeat('x', @{[int(rand(400))]}) WHERE id % 3 = $k AND id BETWEEN $id AND $id + 30" if $dice < 0.6;
	return "UPDATE t_X SET k = k + 1, n = n + 1 WHERE id = $hot" if $dice < 0.65;
	return "DELETE FROM t_X WHERE id = $id" if $dice < 0.7;
	return "INSERT INTO t_X VALUES ($id, 1, 1, 'new') ON CONFLICT (id) DO UPDATE SET n = t_X.n + 100" if $dice < 0.85;
	return "SELECT FROM t_X WHERE id = $hot FOR @{[pick('UPDATE', 'KEY SHARE', 'SHARE', 'NO KEY UPDATE')]}" if $dice < 0.95;
	return "UPDATE t_X SET n = n + 1 WHERE id % 3 = $k";
}

sub both { my ($sql) = @_; return join('; ', map { my $s = $sql; $s =~ s/t_X/t_$_/g; $s } 'h', 'l'); }

sub act
{
	my ($a) = @_;
	if (defined $a->{prepared})
	{
		return if rand() < 0.6;
		$a->{session}->ask(pick('COMMIT', 'ROLLBACK') . " PREPARED '$a->{prepared}'");
		$a->{prepared} = undef;
		return;
	}
	my @sql = $a->{open} ? () : ('BEGIN');
	$a->{open} = 1;
	foreach (0 .. int(rand(5)))
	{
		my $dice = rand();
		push @sql, both(statement($a->{k}));
		push @sql, 'SAVEPOINT s', both(statement($a->{k})), both(statement($a->{k})), pick('ROLLBACK TO s', 'RELEASE s', 'ROLLBACK TO s') if $dice < 0.5;
	}
	my $end = rand();
	push @sql, 'COMMIT' if $end < 0.5;
	push @sql, 'ROLLBACK' if $end >= 0.5 && $end < 0.65;
	if ($end >= 0.65 && $end < 0.75) { $a->{prepared} = 'p' . $np++; push @sql, "PREPARE TRANSACTION '$a->{prepared}'"; }
	my ($state, @lines) = $a->{session}->ask(join('; ', @sql));
	$wrong .= "session $a->{k}: $state @lines\n" if $state ne '00000';
	$a->{open} = 0 if $end < 0.75;
	return;
}

sub look
{
	my ($o, $round) = @_;
	if (!$o->{session})
	{
		return if rand() < 0.7;
		$o->{session} = LsmSession->new($o->{node});
		$o->{session}->ask('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t_h');
		return;
	}
	my @got = $o->{session}->ask(pick(@looks));
	my $text = join(' ', map { ref $_ ? @$_ : $_ // '' } @got);
	$wrong .= "round $round: old snapshot of " . $o->{node}->name . ": $text\n" if $text =~ /differs|by key|XX/;
	if (rand() < 0.25 || $text =~ /lost/) { $o->{session}->close; $o->{session} = undef; }
	return;
}

my $end = time + ($ENV{LSM_SECONDS} // (lsm_long() ? 600 : 40));
my $round = 0;
while ($round++ < $rounds && time < $end && $wrong eq '')
{
	act(pick(@actors)) foreach 1 .. 6;
	look($_, $round) foreach @old;
	$node->safe_psql('postgres', pick("SELECT lsm_flush('t_l')", "SELECT lsm_flush('t_l')", "SELECT lsm_compact('t_l')", 'VACUUM t_l', 'VACUUM (FREEZE, INDEX_CLEANUP ON) t_l', "SELECT count(*) FROM t_l", 'SELECT 1', 'CHECKPOINT'));
	my $now = lsm_differences($node, 't');
	$wrong .= "round $round: $now" if $now ne '';
	if (rand() < 0.1)
	{
		$_->{open} = 0 foreach @actors;
		$node->stop('immediate');
		foreach (@actors, @old[0, 1]) { $_->{session}->close if $_->{session}; }
		$_->{session} = LsmSession->new($node) foreach @actors;
		$_->{session} = undef foreach @old[0, 1];
		$node->start;
		my $prepared = $node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts');
		foreach my $a (@actors) { $a->{prepared} = undef if defined $a->{prepared} && $prepared !~ /\b$a->{prepared}\b/; }
		$now = lsm_differences($node, 't');
		$wrong .= "round $round, after a crash: $now" if $now ne '';
	}
}
is($wrong, '', "all snapshots see the same of heap and lsm, in $round rounds");
$node->safe_psql('postgres', "ROLLBACK PREPARED '$_->{prepared}'") foreach grep { defined $_->{prepared} } @actors;
$_->{session}->close foreach grep { $_->{session} } @actors, @old;
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $same), '', 'the standby has the same');
$standby->promote;
is(lsm_differences($standby, 't'), '', 'promoted: the same');
$standby->safe_psql('postgres', "UPDATE t_$_ SET n = n + 1; DELETE FROM t_$_ WHERE id % 7 = 0; UPDATE t_$_ SET n = n + 1") foreach 'h', 'l';
$standby->safe_psql('postgres', "SELECT lsm_compact('t_l'); VACUUM FREEZE t_l");
is(lsm_differences($standby, 't'), '', 'promoted, changed, compacted: the same');
done_testing();
