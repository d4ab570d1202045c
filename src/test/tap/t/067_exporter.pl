# The operators' kit, ops/: prometheus-postgres-exporter with our queries exposes what they name, as a role that is
# in pg_monitor and nothing else; alerts and dashboard ask for nothing else; promtool likes the alerts.
use strict;
use warnings;
use LsmTest;
use HTTP::Tiny;
use IO::Socket::INET;
use IPC::Run;
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

my $ops = $ENV{LSM_OPS};

# ---- what the queries name: metric => type ----

my (%promised, $namespace, $column);
foreach (split /\n/, slurp_file("$ops/lsm-queries.yaml"))
{
	if    (/^(\w+):$/)                    { $namespace = $1; }
	elsif (/^    - (\w+):$/)              { $column = $1; }
	elsif (/^        usage: "(\w+)"$/) { $promised{"${namespace}_$column"} = lc $1 unless $1 eq 'LABEL'; }
}
cmp_ok(scalar(keys %promised), '>', 25, 'the queries name metrics');
is(join(' ', grep { ($promised{$_} eq 'counter') != /_total$/ } sort keys %promised), '', 'counters, and only they, end in _total');

# ---- the dashboard ----

my $dashboard = JSON::PP->new->decode(slurp_file("$ops/lsm-dashboard.json"));
my (%ids, @bad, %places);
my %variables = map { $_->{name} => 1 } @{ $dashboard->{templating}{list} };
$variables{__rate_interval} = 1;
like($dashboard->{uid}, qr/^[\w-]{1,40}$/, 'the dashboard has an identifier');
cmp_ok($dashboard->{schemaVersion}, '>=', 36, 'and a version of its form');
my $asked = 0;
foreach my $panel (@{ $dashboard->{panels} })
{
	my ($grid, $title) = @$panel{qw(gridPos title)};
	push @bad, "$title: not the only one with its id" if $ids{ $panel->{id} }++;
	push @bad, "$title: kind" unless $panel->{type} =~ /^(row|timeseries)$/;
	push @bad, "$title: place" if $grid->{x} + $grid->{w} > 24;
	foreach my $x ($grid->{x} .. $grid->{x} + $grid->{w} - 1)
	{
		foreach my $y ($grid->{y} .. $grid->{y} + $grid->{h} - 1) { push @bad, "$title: lies over $places{$x, $y}" if $places{ $x, $y }; $places{ $x, $y } = $title; }
	}
	push @bad, "$title: asks for nothing" if $panel->{type} ne 'row' && !@{ $panel->{targets} };
	foreach my $target (@{ $panel->{targets} // [] })
	{
		$asked++;
		push @bad, "$title: $_ is not exposed" foreach grep { !$promised{$_} } $target->{expr} =~ /\b(lsm_\w+)/g;
		push @bad, "$title: names no metric" unless $target->{expr} =~ /\blsm_/;
		push @bad, "$title: variable $_" foreach grep { !$variables{$_} } $target->{expr} =~ /\$(\w+)/g;
		push @bad, "$title: brackets" if ($target->{expr} =~ tr/(//) != ($target->{expr} =~ tr/)//);
		push @bad, "$title: a rate of what is no counter" if grep { $promised{$_} ne 'counter' } $target->{expr} =~ /rate\((lsm_\w+)/g;
	}
}
is(join("\n", @bad), '', "$asked queries of the dashboard");
my $all = join ' ', map { map { $_->{expr} } @{ $_->{targets} // [] } } @{ $dashboard->{panels} };
is(join(' ', grep { $all !~ /\b$_\b/ } sort keys %promised), '', 'the dashboard shows all metrics');

# ---- the alerts ----

my $alerts = slurp_file("$ops/lsm-alerts.yaml");
my @named = $alerts =~ /\b(lsm_\w+)\b(?!\()/g;
cmp_ok(scalar(@named), '>', 5, 'alerts name metrics');
is(join(' ', grep { !$promised{$_} } @named), '', 'which the queries expose');
my $tests = slurp_file("$ops/lsm-alerts-test.yaml");
is(join(' ', grep { $tests !~ /alertname: $_\n/ } $alerts =~ /alert: (\w+)/g), '', 'each alert has a test');
my $docs = slurp_file("$ENV{LSM_DOCS}/operating.md");
is(join(' ', grep { $docs !~ /`$_`/ } $alerts =~ /alert: (\w+)/g), '', 'and is in docs/operating.md');
SKIP:
{
	skip 'promtool is not installed (apt-get install prometheus)', 2 unless -x '/usr/bin/promtool';
	command_ok([ 'promtool', 'check', 'rules', "$ops/lsm-alerts.yaml" ], 'promtool check rules');
	command_ok([ 'promtool', 'test', 'rules', "$ops/lsm-alerts-test.yaml" ], 'promtool test rules');
}

# ---- the exporter ----

SKIP:
{
	skip 'prometheus-postgres-exporter is not installed', 1 unless -x '/usr/bin/prometheus-postgres-exporter';
	my $node = lsm_node('exporter', conf => 'lsm.compaction_workers = 0');
	lsm_start($node);
	$node->append_conf('pg_hba.conf', 'local all all trust');
	$node->reload;
	$node->safe_psql('postgres', q{
CREATE ROLE monitor LOGIN IN ROLE pg_monitor; CREATE ROLE owner LOGIN; CREATE SCHEMA s AUTHORIZATION owner; SET ROLE owner;
CREATE TABLE s."odd name" (id int PRIMARY KEY, v text) USING lsm;
CREATE TABLE s.never (id int) USING lsm;
INSERT INTO s."odd name" SELECT i, 'v' FROM generate_series(1, 5000) i; SELECT lsm_flush('s."odd name"'), lsm_compact('s."odd name"');
SET enable_seqscan = off; SELECT count(*) FROM generate_series(4000, 6000) g WHERE EXISTS (SELECT FROM s."odd name" WHERE id = g);});
	my $free = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
	my $address = '127.0.0.1:' . $free->sockport;
	$free->close;
	local $ENV{DATA_SOURCE_NAME} = 'user=monitor dbname=postgres sslmode=disable host=' . $node->host . ' port=' . $node->port;
	my ($out, $err) = ('', '');
	my $exporter = IPC::Run::start([ 'prometheus-postgres-exporter', "--web.listen-address=$address", "--extend.query-path=$ops/lsm-queries.yaml", '--disable-settings-metrics' ], '>', \$out, '2>', \$err);
	my ($page, $end) = ('', time + $PostgreSQL::Test::Utils::timeout_default);
	while ($page !~ /^lsm_/m && time < $end)
	{
		my $answer = HTTP::Tiny->new(timeout => 10)->get("http://$address/metrics");
		$page = $answer->{content} if $answer->{success};
		usleep(100_000);
		$exporter->pump_nb;
	}
	my %exposed = $page =~ /^# TYPE (lsm_\w+) (\w+)$/mg;
	is_deeply(\%exposed, \%promised, 'the exporter exposes what the queries name') or diag($err);
	like($page, qr/^pg_exporter_last_scrape_error 0$/m, 'without an error');
	unlike($page, qr/^lsm_.* NaN$/m, 'all of them are numbers');
	unlike($err, qr/level=error/, 'nor does it log one') or diag($err);

	my $labels = 'datname="postgres",kind="table",';
	my %queries = (
		qq(lsm_tree_flushes_total{${labels}relname="odd name",schemaname="s",) => 'SELECT flushes FROM pg_stat_lsm WHERE relname = \'odd name\'',
		qq(lsm_tree_filter_bytes{${labels}relname="odd name",schemaname="s",) => 'SELECT filter_bytes FROM pg_stat_lsm WHERE relname = \'odd name\'',
		qq(lsm_tree_flushes_total{${labels}relname="never",schemaname="s",) => 'SELECT 0',
		qq(lsm_stall_writes_total{${labels}reason="level0",relname="odd name",schemaname="s",) => 'SELECT stalls_level0 FROM pg_stat_lsm WHERE relname = \'odd name\'',
		qq(lsm_elastic_budget_bytes{) => 'SELECT budget_bytes FROM lsm_elastic_stats()',
		qq(lsm_progress_jobs{command="compaction",) => 'SELECT 0');
	my ($level) = split /\n/, $node->safe_psql('postgres', q{SELECT level FROM pg_stat_lsm_levels WHERE relname = 'odd name' AND files > 0});
	$queries{qq(lsm_level_bytes{${labels}level="$level",relname="odd name",schemaname="s",)} = "SELECT bytes FROM pg_stat_lsm_levels WHERE relname = 'odd name' AND level = $level";
	foreach my $metric (sort keys %queries)
	{
		my ($value) = $page =~ /^\Q$metric\E.*\} (\S+)$/m;
		is(defined $value ? $value + 0 : 'nothing', $node->safe_psql('postgres', $queries{$metric}) + 0, $metric);
	}
	$exporter->kill_kill;
	$node->stop;
}

done_testing();
