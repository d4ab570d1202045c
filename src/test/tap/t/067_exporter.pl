# The operators' kit, ops/: prometheus-postgres-exporter with our queries exposes what they name, as a role that is
# in pg_monitor and nothing else; alerts and dashboard ask for nothing else; promtool likes the alerts.  A Prometheus
# that scrapes the exporter answers all that the dashboard asks, and evaluates the alerts.
# packages: prometheus prometheus-postgres-exporter
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

sub free_address
{
	my $free = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
	return '127.0.0.1:' . $free->sockport;
}

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
	my $address = free_address();
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

	# ---- Prometheus, as the dashboard asks it ----

  SKIP:
	{
		skip 'prometheus is not installed', 1 unless -x '/usr/bin/prometheus';
		my $dir = PostgreSQL::Test::Utils::tempdir();
		my $server = free_address();
		append_to_file("$dir/prometheus.yaml", qq(global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["$ops/lsm-alerts.yaml"]
scrape_configs: [{job_name: postgres, static_configs: [{targets: ["$address"]}]}]
));
		my $log = '';
		my $prometheus = IPC::Run::start([ 'prometheus', "--config.file=$dir/prometheus.yaml", "--storage.tsdb.path=$dir/data", "--web.listen-address=$server" ], '>', \$log, '2>', \$log);
		my $ask = sub {
			my $answer = HTTP::Tiny->new(timeout => 10)->get("http://$server/api/v1/$_[0]");
			$prometheus->pump_nb;
			$exporter->pump_nb;
			return JSON::PP->new->decode($answer->{content} =~ /^\{/ ? $answer->{content} : '{}');
		};
		my @wanted = map { my $title = $_->{title}; map { [ "$title: $_->{expr}", $_->{expr} ] } @{ $_->{targets} // [] } } @{ $dashboard->{panels} };
		# false positives, which a ratio of the dashboard divides by
		$node->safe_psql('postgres', 'CREATE TABLE s.work (id int) USING lsm; CREATE INDEX few_bits ON s.work USING lsm (id) WITH (filter_scheme = blocked, bits_per_key = 2)');
		my %said;
		$end = time + $PostgreSQL::Test::Utils::timeout_default;
		do
		{
			$node->safe_psql('postgres', q{INSERT INTO s.work SELECT 2 * g FROM generate_series(1, 300) g; SELECT lsm_flush('s.work'), lsm_flush('s.few_bits');
SET enable_seqscan = off; SELECT count(*) FROM generate_series(1, 300) g, LATERAL (SELECT FROM s.work WHERE id = 2 * g + 1 OFFSET 0) x});
			foreach my $panel (@wanted)
			{
				my ($name, $query) = @$panel;
				# a series is named by all its labels: any value but the interval's
				$query =~ s/\$__rate_interval/10s/g;
				$query =~ s/\$\w+/.*/g;
				$query =~ s/([^\w])/sprintf '%%%02X', ord $1/ge;
				my $answer = $ask->("query?query=$query");
				$said{$name} = ($answer->{status} // 'no answer') ne 'success' ? $answer->{error} // 'no answer' : @{ $answer->{data}{result} } ? 'values' : 'no value';
			}
			usleep(200_000);
		} while ((grep { $_ ne 'values' } values %said) && time < $end);
		is(join("\n", map { "$_: $said{$_}" } grep { $said{$_} ne 'values' } sort keys %said), '', 'Prometheus has values for each query of the dashboard') or diag($log);
		my (@rules, @ill);
		do
		{
			usleep(200_000);
			@rules = map { @{ $_->{rules} } } @{ $ask->('rules')->{data}{groups} // [] };
			@ill = map { "$_->{name}: $_->{health} " . ($_->{lastError} // '') } grep { $_->{health} ne 'ok' } @rules;
		} while ((!@rules || grep { /: unknown/ } @ill) && time < $end);
		is(scalar(@rules), scalar(() = $alerts =~ /alert: /g), 'Prometheus evaluates the alerts');
		is(join("\n", @ill), '', 'all of which can be');
		$prometheus->kill_kill;
	}
	$exporter->kill_kill;
	$node->stop;
}

done_testing();
