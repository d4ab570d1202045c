# Logical decoding of lsm tables: the same statements in a database of heap tables and in databases of lsm tables decode
# to the same bytes, with test_decoding, pgoutput and wal2json, in their forms: at the end of a transaction, spilled to
# disk, streamed, of two phases, binary, through column lists, row filters and partition roots, from a slot advanced
# halfway, and from one that is as old as the database, after crashes.  A second database of heap tables proves the
# comparison.  Scenarios: decoding/scenarios.sql, and random ones.  Then sessions beside each other: their order made, or
# any, with a ledger: what decodes, applied to the rows of the slot's snapshot, is what the table has in the end.
#   LSM_SEED=...  the random statements of a run
#   LSM_LONG=1    more of them, more load
# packages: postgresql-NN-wal2json
use strict;
use warnings;
use LsmDecode;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Basename;
use POSIX ();

lsm_seed();
my $node = lsm_node('twins', wal_level => 'logical',
	conf => "max_wal_senders = 20\nmax_replication_slots = 60\nmax_prepared_transactions = 30\nlog_min_messages = error\nlsm.memtable_size = 64kB\nautovacuum = off\n" . decode_allow_plugins());
lsm_start($node);
my $out = PostgreSQL::Test::Utils::tempdir();
my @twins = ('lsm', 'lsmb');
my @databases = ('heap', 'heap2', @twins);
my $have_json = -e $node->config_data('--pkglibdir') . '/wal2json.so';
diag('wal2json is not installed') unless $have_json;

# ---- databases ----

my $space = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$space'");
foreach my $db (@databases)
{
	my $am = $db =~ /lsm/ ? 'lsm' : 'heap';
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql('postgres', "ALTER DATABASE $db SET default_table_access_method = $am");
	$node->safe_psql('postgres', "ALTER DATABASE $db SET lsm.constraint_index = btree") if $db eq 'lsmb';
	$node->safe_psql($db, 'CREATE EXTENSION lsmam');
	$node->safe_psql($db, q{
CREATE FUNCTION noise(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT left(string_agg(md5(seed || ':' || g), '' ORDER BY g), n) FROM generate_series(0, n / 32) g $$;
CREATE FUNCTION each(statement text, first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN first .. last LOOP EXECUTE statement USING i; END LOOP;
END $$;
CREATE FUNCTION churn(VARIADIC relations regclass[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE r regclass;
BEGIN
	FOREACH r IN ARRAY relations LOOP
		IF (SELECT amname FROM pg_am a JOIN pg_class c ON c.relam = a.oid WHERE c.oid = r) = 'lsm' THEN PERFORM lsm_flush(r); PERFORM lsm_compact(r); END IF;
	END LOOP;
END $$});
	# what these have not decoded by the end is all that there ever was
	$node->safe_psql($db, "CREATE PUBLICATION everything FOR ALL TABLES WITH (publish = 'insert, truncate')");
	$node->safe_psql($db, "SELECT pg_create_logical_replication_slot('old_text_$db', 'test_decoding'), pg_create_logical_replication_slot('old_out_$db', 'pgoutput')");
}

# ---- scenarios ----

# Each is a hash: name, schema, flags, setup, body
sub read_scenarios
{
	my ($text) = @_;
	my @scenarios;
	my $part;
	foreach my $line (split /\n/, $text)
	{
		if ($line =~ /^--- (?!body$|peek$)(.*)/)
		{
			my ($name, %flag) = ($1);
			$flag{$2} = 1 while $name =~ s/( (sorted|streamed|inserts|rewrites|rollbacks))$//;
			push @scenarios, { name => $name, schema => sprintf('s%02d', 1 + @scenarios), setup => '', body => '', peeks => 0, %flag };
			$part = 'setup';
			next;
		}
		if ($line eq '--- body') { $part = 'body'; next; }
		$scenarios[-1]{$part} .= "$line\n" if @scenarios;
	}
	return @scenarios;
}

my @slots = ([ 'text', 'test_decoding', 'false' ], [ 'text2', 'test_decoding', 'true' ], [ 'out', 'pgoutput', 'false' ], [ 'out2', 'pgoutput', 'true' ],
	$have_json ? [ 'json', 'wal2json', 'false' ] : ());

# How a slot is looked at: the view's name, slot, logical_decoding_work_mem, options
sub views_of
{
	my ($s) = @_;
	my $text = q{'include-xids', '1', 'skip-empty-xacts', '1'};
	my $out = "'publication_names', '$s->{schema}', 'messages', 'true'";
	return ([ 'text', 'text', '64MB', $text ],
		[ 'text_spilled', 'text', '64kB', $text ],
		[ 'text_local', 'text', '64MB', "$text, 'only-local', '1'" ],
		[ 'text_two_phase', 'text2', '64MB', $text ],
		$s->{rewrites} ? [ 'text_rewrites', 'text', '64MB', "$text, 'include-rewrites', '1'" ] : (),
		[ 'out', 'out', '64MB', "'proto_version', '1', $out" ],
		[ 'out_two_phase', 'out2', '64MB', "'binary', 'true', 'proto_version', '3', 'two_phase', 'on', $out" ],
		$s->{streamed}
		? ([ 'text_streamed', 'text', '64kB', "$text, 'stream-changes', '1'" ],
			[ 'text_two_phase_streamed', 'text2', '64kB', "$text, 'stream-changes', '1'" ],
			[ 'out_streamed', 'out', '64kB', "'proto_version', '2', 'streaming', 'on', 'binary', 'true', $out" ],
			[ 'out_two_phase_streamed', 'out2', '64kB', "'proto_version', '3', 'two_phase', 'on', 'streaming', 'on', $out" ])
		: (),
		(map { [ "out_$_", 'out', '64MB', "'proto_version', '1', 'publication_names', '$_'" ] } $s->{setup} =~ /^CREATE PUBLICATION (\w+)/mg),
		$have_json ? ([ 'json1', 'json', '64MB', q{'format-version', '1', 'include-pk', 'true', 'include-not-null', 'true', 'include-type-oids', 'false', 'include-domain-data-type', 'true'} ],
			[ 'json2', 'json', '64kB', q{'format-version', '2', 'include-pk', 'true', 'include-types', 'true', 'include-typmod', 'true'} ]) : ());
}

sub peek_sql
{
	my ($s, $view, $suffix) = @_;
	my ($name, $slot, $memory, $options) = @$view;
	my $what = $slot =~ /out/ ? q{encode(data, 'hex') FROM pg_logical_slot_peek_binary_changes} : 'data FROM pg_logical_slot_peek_changes';
	return "SET logical_decoding_work_mem = '$memory';\n\\o :dir/$s->{schema}.$name$suffix\nSELECT $what(:'slot_$slot', NULL, NULL, $options);\n\\o /dev/null\n";
}

# psql's script of one
sub script_of
{
	my ($s) = @_;
	my @views = views_of($s);
	my $publish = $s->{inserts} ? q{ WITH (publish = 'insert, truncate')} : '';
	my $create = join ', ', map { "pg_create_logical_replication_slot(:'slot_$_->[0]', '$_->[1]', false, $_->[2])" } @slots;
	my $peeks = 0;
	$s->{views} = [ map { $_->[0] } @views ];
	my $between = sub {
		$peeks++;
		push @{ $s->{views} }, map { "$_.$peeks" } 'text', 'text_two_phase', 'out_two_phase';
		return join '', map { peek_sql($s, $_, ".$peeks") } grep { $_->[0] =~ /^(text|text_two_phase|out_two_phase)$/ } @views;
	};
	(my $body = $s->{body}) =~ s/^--- peek\n/$between->()/mge;
	# halfway is where the slot of an advanced one begins
	my $half = $have_json ? 'json' : 'out';
	return "\\warn === $s->{name}\n\\set schema $s->{schema}\n" . join('', map { "\\set slot_$_->[0] $s->{schema}_$_->[0]_ :db\n" } @slots) . "\\o /dev/null\n"
	  . "SET client_min_messages = warning; CREATE SCHEMA $s->{schema}; SET search_path = $s->{schema}, public;\n$s->{setup}"
	  . "CREATE PUBLICATION $s->{schema} FOR TABLES IN SCHEMA $s->{schema}$publish;\nSELECT $create;\n$body\n"
	  . join('', map { peek_sql($s, $_, '') } @views)
	  . join('', map { "SELECT pg_drop_replication_slot(:'slot_$_->[0]');\n" } @slots);
}

# In all databases at the same time, or in one after the other: then memory is the transaction's alone
sub run_scenarios
{
	my ($round, $together, @scenarios) = @_;
	return unless @scenarios;
	my $file = "$out/$round.sql";
	append_to_file($file, join "\n", map { script_of($_) } @scenarios);
	my %pids;
	foreach my $db (@databases)
	{
		mkdir "$out/$db";
		my ($index, $other) = $db =~ /lsm/ ? ('lsm', 'heap') : ('btree', 'lsm');
		$pids{$db} = fork() // die "fork: $!";
		if ($pids{$db})
		{
			waitpid($pids{$db}, 0) unless $together;
			next;
		}
		open(STDOUT, '>', '/dev/null');
		open(STDERR, '>', "$out/$db/$round.err");
		my %set = (db => $db, dir => "$out/$db", index => $index, other => $other, origin => "origin_$db", map { ("gid$_" => "gid${_}_$db") } 1 .. 9);
		exec('psql', '-XAtq', (map { ('-v', "$_=$set{$_}") } sort keys %set), '-f', $file, '-d', $node->connstr($db)) or POSIX::_exit(99);
	}
	foreach my $db (@databases)
	{
		waitpid($pids{$db}, 0) if $together;
		my ($head, @parts) = split /^=== .*\n/m, slurp_file("$out/$db/$round.err");
		$scenarios[$_]{errors}{$db} = [ map { LsmDecode::rename_database($_) } split /\n/, $parts[$_] // 'not reached' ] foreach 0 .. $#scenarios;
	}
	return;
}

# A relation is described again whenever the walsender's cache was invalidated, which others in the server do, too: the
# same description again says nothing.
sub without_repetitions
{
	my %last;
	return grep { !/^R (\S+)/ || ($last{$1} // '') ne $_ && ($last{$1} = $_) } @_;
}

sub text_of
{
	my ($s, $db, $view) = @_;
	my $file = "$out/$db/$s->{schema}.$view";
	return -e $file ? slurp_file($file) : undef;
}

sub view_of
{
	my ($s, $db, $view) = @_;
	my $text = text_of($s, $db, $view) // return ('nothing');
	return decode_applied($text) if $s->{rollbacks} && $view =~ /^out.*streamed/;
	my %committed = map { $_ => 1 } decode_committed(text_of($s, $db, 'text') // '');
	my $wanted = $s->{rollbacks} && $view =~ /two_phase/ ? sub { $committed{ $_[0] // 0 } } : undef;
	my @lines = $view =~ /^out/ ? without_repetitions(decode_pgoutput($text, $wanted)) : $view =~ /^text/ ? decode_text($text, $wanted) : decode_json($text);
	@lines = rewritten(@lines) if $view =~ /rewrites/;
	return $s->{sorted} ? decode_transactions(@lines) : @lines;
}

# Rows are rewritten in the order in which the table is scanned: a heap has updated ones at its end, an lsm table where they were.
sub rewritten
{
	my (@lines) = @_;
	for (my $from = 0; $from < @lines; $from++)
	{
		my ($table) = $lines[$from] =~ /^(table \S+: INSERT:)/ or next;
		my $to = $from;
		$to++ while $to < $#lines && index($lines[ $to + 1 ], $table) == 0;
		@lines[ $from .. $to ] = sort @lines[ $from .. $to ];
		$from = $to;
	}
	return @lines;
}

# '' if equal, else where not
sub difference
{
	my ($what, $one, $two) = @_;
	foreach my $i (0 .. (@$one > @$two ? $#$one : $#$two))
	{
		my ($x, $y) = ($one->[$i] // '(end)', $two->[$i] // '(end)');
		next if $x eq $y;
		# where long lines begin to differ
		my $at = ($x ^ $y) =~ /^(\0+)/ && length $1 > 300 ? length($1) - 100 : 0;
		return sprintf "%s, line %d of %d and %d, from character %d:\n  %.400s\n  %.400s\n", $what, $i + 1, scalar @$one, scalar @$two, $at, map { length > $at ? substr $_, $at : '' } $x, $y;
	}
	return '';
}

sub compare_scenario
{
	my ($s) = @_;
	my %heap = map { $_ => [ view_of($s, 'heap', $_) ] } @{ $s->{views} };
	my ($changes) = scalar grep { /^table / } @{ $heap{text} };
	# test_decoding does not say what it streams: only where the same is to be streamed
	delete @heap{ grep { /^text.*streamed/ } keys %heap } if $s->{rollbacks};
	cmp_ok($changes, '>', 2, "$s->{name}: $changes changes of heap");
	is(difference('spilled', $heap{text}, $heap{text_spilled}), '', "$s->{name}: a second look, spilled, is the first");
	is(difference('streamed', $heap{out_streamed}, [ decode_applied(text_of($s, 'heap', 'out_two_phase')) ]), '', "$s->{name}: what is streamed comes to the same") if $s->{rollbacks};
	foreach my $db (@databases[ 1 .. $#databases ])
	{
		my $wrong = difference('errors', @{ $s->{errors} }{ 'heap', $db });
		$wrong .= difference($_, $heap{$_}, [ view_of($s, $db, $_) ]) foreach grep { $heap{$_} } @{ $s->{views} };
		ok($wrong eq '', "$s->{name}: $db decodes as heap") or diag($wrong);
	}
	return;
}

# ---- random statements ----

my @rows = (0);
sub pick { return $_[ rand @_ ]; }

sub random_statement
{
	my ($new) = @_;
	my $t = pick('t', 't', 'f', 'i', 'p');
	my $id = 1 + int rand(60);
	my $value = pick(q{'short'}, 'NULL', "noise($id, 50)", "noise($id, 2500)", 'a', "a || 'x'", "repeat('r', 5000)", "noise($id, 9000)");
	(my $plain = $value) =~ s/^a.*/'a'/;
	my $n = int rand(30);
	my $key = $t eq 'i' ? 'k' : 'id';
	my $k = $t eq 'i' ? "'k$id'" : $id;
	return pick(
		"INSERT INTO $t ($key, a, n) VALUES ($k, $plain, $n) ON CONFLICT ($key) DO NOTHING",
		"INSERT INTO $t ($key, a, n) VALUES ($k, $plain, $n) ON CONFLICT ($key) DO UPDATE SET n = excluded.n, a = excluded.a",
		"INSERT INTO $t ($key, a, n) VALUES (" . (rand() < 0.1 ? $k : $t eq 'i' ? "'k@{[ ++$$new ]}'" : ++$$new) . ", $plain, $n)",
		"UPDATE $t SET a = $value WHERE $key = $k",
		"UPDATE $t SET n = n + 1 WHERE $key = $k",
		"UPDATE $t SET n = $n, a = $value WHERE $key = $k",
		"UPDATE $t SET $key = " . ($t eq 'i' ? "'k$n'" : $n) . " WHERE $key = $k",
		"DELETE FROM $t WHERE $key = $k",
		"SELECT 1 FROM $t WHERE $key = $k FOR UPDATE",
		"SELECT each('UPDATE $t SET n = n + 1 WHERE n = $n AND $key = ' || " . ($t eq 'i' ? q{quote_literal('k' || g) || ' AND $1 = 1'} : q{g || ' AND $1 = 1'}) . ", 1, 1) FROM generate_series(1, 60) g",
		"INSERT INTO $t ($key, a, n) SELECT " . ($t eq 'i' ? "'k' || g" : 'g') . ", $plain, g FROM generate_series($$new + 1, $$new + " . ($$new += 1 + int rand(40)) . " - $$new + 8) g ON CONFLICT DO NOTHING");
}

sub random_ddl
{
	my ($new) = @_;
	my $c = 'c' . ++$$new;
	return pick("ALTER TABLE t ADD $c int DEFAULT 5", "ALTER TABLE f ADD $c text DEFAULT 'd'", "ALTER TABLE f ALTER n TYPE " . pick('int', 'bigint'), 'ALTER TABLE t REPLICA IDENTITY ' . pick('FULL', 'DEFAULT'),
		'ALTER TABLE f REPLICA IDENTITY ' . pick('FULL', 'DEFAULT'), 'CLUSTER t USING t_pkey', 'TRUNCATE f', 'TRUNCATE p1, t', 'ANALYZE t', "CREATE INDEX ON t USING :index (n)", "SELECT churn('t', 'f', 'i', 'p1', 'p2')");
}

sub random_scenario
{
	my ($number, $transactions) = @_;
	my $new = 1000;
	my $body = '';
	foreach my $x (1 .. $transactions)
	{
		if (rand() < 0.1) { $body .= pick('VACUUM t, f, i, p', 'VACUUM FULL f', "SELECT churn('t', 'f', 'i', 'p1', 'p2')", 'CHECKPOINT') . ";\n"; next; }
		if (rand() < 0.25) { $body .= random_statement(\$new) . ";\n"; next; }
		$body .= "BEGIN;\n";
		my @open;
		foreach (1 .. 1 + int rand(12))
		{
			my $r = rand();
			if    ($r < 0.12) { push @open, my $name = "sp" . @open; $body .= "SAVEPOINT $name;\n"; }
			elsif ($r < 0.20 && @open) { $body .= "ROLLBACK TO $open[-1];\n"; }
			elsif ($r < 0.26 && @open) { $body .= 'RELEASE ' . pop(@open) . ";\n"; }
			elsif ($r < 0.31) { $body .= random_ddl(\$new) . ";\n"; }
			# an error ends it: that is a case, too
			else { $body .= random_statement(\$new) . ";\n"; }
		}
		my $gid = ":'gid" . (1 + int rand(3)) . q{'};
		$body .= rand() < 0.2 ? "PREPARE TRANSACTION $gid;\n" . pick('COMMIT', 'COMMIT', 'ROLLBACK') . " PREPARED $gid;\n" : pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK') . ";\n";
	}
	return "--- random $number streamed rollbacks\n" . q{
CREATE TABLE t (id int PRIMARY KEY, a text, n int);
CREATE TABLE f (id int PRIMARY KEY, a text, n int);
ALTER TABLE f REPLICA IDENTITY FULL;
CREATE TABLE i (id serial PRIMARY KEY, k text NOT NULL UNIQUE, a text, n int);
ALTER TABLE i REPLICA IDENTITY USING INDEX i_k_key;
CREATE TABLE p (id int PRIMARY KEY, a text, n int) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (30);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (30) TO (MAXVALUE);
INSERT INTO t SELECT g, noise(g, 60 * g), g FROM generate_series(1, 50) g;
INSERT INTO f SELECT * FROM t;
INSERT INTO i (k, a, n) SELECT 'k' || id, a, n FROM t;
INSERT INTO p SELECT * FROM t;
--- body
} . $body;
}

my @scenarios = read_scenarios(slurp_file(dirname(__FILE__) . '/../decoding/scenarios.sql') . join '', map { random_scenario($_, lsm_long() ? 400 : 60) } 1 .. (lsm_long() ? 12 : 2));
if (my $only = $ENV{LSM_SCENARIO}) { @scenarios = grep { $_->{name} =~ /$only/ } @scenarios; }
run_scenarios('together', 1, grep { !$_->{streamed} } @scenarios);
run_scenarios('one by one', 0, grep { $_->{streamed} } @scenarios);
compare_scenario($_) foreach @scenarios;

# ---- all that there ever was, from slots that have never been looked at, after two crashes ----

my @pids = lsm_pids($node);
lsm_kill_process($node, 'postmaster');
lsm_restart_after_crash($node, @pids);
foreach my $db (@databases)
{
	$node->safe_psql($db, 'CREATE TABLE crashed (id int PRIMARY KEY, a text)');
	my $open = $node->background_psql($db);
	$open->query_safe(q{BEGIN; INSERT INTO crashed SELECT g, noise(g, 3000) FROM generate_series(1, 30) g; UPDATE crashed SET a = 'kept?' WHERE id = 3});
	$node->safe_psql($db, qq{BEGIN; INSERT INTO crashed VALUES (100, noise(1, 5000)); PREPARE TRANSACTION 'crash_$db'});
	$node->safe_psql($db, q{INSERT INTO crashed VALUES (101, 'committed')});
	push @pids, $open;
}
# it was never committed
my @open = grep { ref } @pids;
@pids = lsm_pids($node);
lsm_kill_process($node, 'postmaster');
eval { $_->quit } foreach @open;
lsm_restart_after_crash($node, @pids);
my %ever;
foreach my $db (@databases)
{
	$node->safe_psql($db, qq{INSERT INTO crashed VALUES (102, 'after the crash'); COMMIT PREPARED 'crash_$db'; UPDATE crashed SET id = 200 WHERE id = 100});
	foreach my $view ([ 'text', q{data FROM pg_logical_slot_peek_changes}, q{'skip-empty-xacts', '1'} ], [ 'out', q{encode(data, 'hex') FROM pg_logical_slot_peek_binary_changes}, q{'proto_version', '1', 'publication_names', 'everything'} ])
	{
		my ($name, $what, $options) = @$view;
		my $file = "$out/$db/old.$name";
		$node->safe_psql($db, "\\o $file\nSELECT $what('old_${name}_$db', NULL, NULL, $options)");
		my $text = slurp_file($file);
		$ever{$db}{$name} = [ decode_transactions($name eq 'text' ? decode_text($text) : without_repetitions(decode_pgoutput($text))) ];
		next if $db eq 'heap';
		is(difference($name, $ever{heap}{$name}, $ever{$db}{$name}), '', "after crashes, from the beginning: $db decodes as heap, $name");
	}
	next if $db !~ /lsm/;
	is($node->safe_psql($db, q{SELECT c.oid::regclass, v.* FROM pg_class c JOIN pg_am a ON a.oid = c.relam, LATERAL lsm_verify(c.oid) v WHERE amname IN ('lsm', 'lsm_index') AND relkind IN ('r', 'm', 'i') AND relpersistence = 'p'}), '', "$db: lsm_verify");
}
cmp_ok(scalar @{ $ever{heap}{text} }, '>', 15000, 'that is ' . @{ $ever{heap}{text} } . ' lines') unless $ENV{LSM_SCENARIO};
like(join("\n", @{ $ever{heap}{text} }), qr/table public\.crashed: INSERT: id\[integer\]:102/, 'with the last of them');
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal (6|7|11)\b/, 'no crash');
$node->stop;
done_testing();
