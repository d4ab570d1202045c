# The observer: twins (a heap table and an lsm one, changed by the same statements in the same transactions) under random
# changes, DDL, loads, flushes, compactions and VACUUMs, and snapshots that look at them again and again by every plan.  What a
# snapshot sees of a table that it has locked never changes, and is what it sees of the heap twin; a change of READ COMMITTED reaches
# the same rows of both.  Heap is the oracle also for what it does not promise (what an older snapshot sees of a table
# that ALTER TABLE or TRUNCATE has given new files).
#
# One process sends all statements, so that a seed repeats them, but for what a lock's time-out changes.  Each step is one
# action; while it runs, observers look, and the server's workers do what they do.
package LsmObserver;

use strict;
use warnings;

use Exporter 'import';
use File::Path qw(rmtree);
use LsmSession;
use LsmTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(observer_new observer_run observer_wrong observer_counts observer_tables observer_looks
  observer_digests);

# Rows have ids below this; each writer has those of a remainder, so that only updates of whole tables meet other changes.
my $ids = 2400;
my $writers = 3;

# What may happen to a statement: serialization, deadlock, a lock's time-out
my $allowed = qr/^(40001|40P01|55P03)$/;

# keys: which kind the indexes of the lsm twin are; long: texts that agree in more bytes than fences have; am: what the twin is;
# identity: what the stream says of old rows
my %tables = (
	a => { keys => 'lsm_index', long => 1, am => 'lsm', identity => 'USING INDEX %s_id' },
	b => { keys => 'btree', long => 0, am => 'lsm', identity => 'FULL' },
	c => { keys => 'lsm_index', long => 1, am => 'heap', identity => 'DEFAULT' });

sub observer_tables { return sort keys %tables; }

sub pick { return $_[ int(rand(@_)) ]; }

# The table that DDL is about for some steps, and one for a change or a look: those that lock the former would keep DDL off
sub ddl_table { my ($o) = @_; return (observer_tables())[ $o->{step} / 15 % keys %tables ]; }

sub other_table { my ($o) = @_; my $ddl = ddl_table($o); return pick(grep { $_ ne $ddl } observer_tables()); }

# The statement for both twins, which are called %s; their names differ in the last letter
sub both
{
	my ($t, $sql, $end) = @_;
	return join($end // '; ', map { my $name = "${t}_$_"; $sql =~ s/%s/$name/gr } 'h', 'l');
}

# ---- tables ----

sub key_prefix { my ($t) = @_; return $tables{$t}{long} ? q{repeat('x', 260)} : q{'x'}; }

sub row_values
{
	my ($t, $id, $salt) = @_;

	# some are out of line, but none is too long for an index
	my $v = "CASE WHEN ($id) % 37 = 0 THEN (SELECT string_agg(md5(($id + $salt + i)::text), '') FROM generate_series(1, 72) i) ELSE repeat(md5(($id + $salt)::text), 1 + ($id + $salt) % 8) END";
	return "$id, @{[ key_prefix($t) ]} || lpad(($id)::text, 10, '0'), ($id + $salt) % 50, $v";
}

sub indexes
{
	my ($t) = @_;
	my $sql = '';
	foreach my $twin ('h', 'l')
	{
		my $kind = $twin eq 'h' ? 'btree' : $tables{$t}{keys};
		my $name = "${t}_$twin";
		$sql .= "CREATE UNIQUE INDEX ${name}_id ON $name USING $kind (id); CREATE UNIQUE INDEX ${name}_k ON $name USING $kind (k); CREATE INDEX ${name}_n ON $name USING $kind (n) INCLUDE (id); ";
	}
	return $sql . both($t, "ALTER TABLE %s REPLICA IDENTITY $tables{$t}{identity}") . '; ';
}

sub columns { return '(id int NOT NULL, k text COLLATE "C" NOT NULL, n int NOT NULL, v text)'; }

sub create
{
	my ($t) = @_;
	return "CREATE TABLE ${t}_h @{[columns()]} USING heap; CREATE TABLE ${t}_l @{[columns()]} USING $tables{$t}{am}; " . indexes($t);
}

# Rows of a writer, or (4) of all
sub load
{
	my ($t, $writer, $from, $count, $salt) = @_;
	my $rows = $writer == 4 ? "generate_series($from, $from + $count) g(id)" : "(SELECT g * 4 + $writer AS id FROM generate_series($from / 4, ($from + $count) / 4) g) g";
	return both($t, "INSERT INTO %s (id, k, n, v) SELECT @{[ row_values($t, 'id', $salt) ]} FROM $rows ON CONFLICT (id) DO NOTHING");
}

# ---- what is looked at ----

my %off = map { $_ => "SET LOCAL enable_$_ = off; " } qw(seqscan indexscan indexonlyscan bitmapscan hashjoin mergejoin memoize);
my $plain = 'SET LOCAL max_parallel_workers_per_gather = 0; ';
my $parallel = 'SET LOCAL max_parallel_workers_per_gather = 2; SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL min_parallel_index_scan_size = 0; ';
my $by_index = $off{seqscan} . $off{bitmapscan};
my $by_bitmap = $off{seqscan} . $off{indexscan} . $off{indexonlyscan};
my $by_table = $off{indexscan} . $off{indexonlyscan} . $off{bitmapscan};
my $all_on = 'SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = on; SET LOCAL enable_bitmapscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on; SET LOCAL enable_memoize = on; ';

# [ name, settings, rows of %s (%h: of the heap twin), what of the table that is: looks of one kind see the same ]
my @looks = (
	[ 'table', $by_table, '%s', 'rows' ],
	[ 'index', $by_index, '(SELECT * FROM %s WHERE id >= 0)', 'rows' ],
	[ 'bitmap', $by_bitmap, '(SELECT * FROM %s WHERE id >= 0)', 'rows' ],
	[ 'bitmap of n', $by_bitmap, '(SELECT * FROM %s WHERE n >= 0)', 'rows' ],
	[ 'index of n', $by_index, '(SELECT * FROM %s WHERE n >= 0)', 'rows' ],
	[ 'index of k', $by_index, q{(SELECT * FROM %s WHERE k >= '' ORDER BY k OFFSET 0)}, 'rows' ],
	[ 'backward', $by_index, '(SELECT * FROM %s WHERE id >= 0 ORDER BY id DESC OFFSET 0)', 'rows' ],
	[ 'parallel', $parallel . $by_table, '%s', 'rows' ],
	[ 'parallel index', $parallel . $by_index, '(SELECT * FROM %s WHERE id >= 0)', 'rows' ],
	[ 'parallel bitmap', $parallel . $by_bitmap, '(SELECT * FROM %s WHERE n >= 0)', 'rows' ],
	[ 'list of ids', $by_index, '(SELECT * FROM %s WHERE id = ANY (ARRAY(SELECT id FROM %h)))', 'rows' ],
	[ 'list of texts', $by_index, '(SELECT * FROM %s WHERE k = ANY (ARRAY(SELECT k FROM %h)))', 'rows' ],
	[ 'bitmap of a list', $by_bitmap, '(SELECT * FROM %s WHERE k = ANY (ARRAY(SELECT k FROM %h)))', 'rows' ],
	[ 'join', $by_index . $off{hashjoin} . $off{mergejoin} . $off{memoize}, '(SELECT t.* FROM (SELECT k FROM %h OFFSET 0) o JOIN %s t ON t.k = o.k)', 'rows' ],
	[ 'join by id', $by_index . $off{hashjoin} . $off{mergejoin}, '(SELECT t.* FROM (SELECT id FROM %h OFFSET 0) o JOIN %s t ON t.id = o.id)', 'rows' ],
	[ 'index only', $by_index, '(SELECT n, id FROM %s WHERE n >= 0)', 'n, id' ],
	[ 'index only of k', $by_index, q{(SELECT k FROM %s WHERE k >= '')}, 'k' ],
	[ 'index only by list', $by_index, '(SELECT k FROM %s WHERE k = ANY (ARRAY(SELECT k FROM %h)))', 'k' ],
	[ 'count', '', '(SELECT count(*) FROM %s)', 'count' ],
	[ 'parallel count', $parallel . $by_index, '(SELECT count(*) FROM %s WHERE id >= 0)', 'count' ],
	[ 'first by k', $by_index, '(SELECT * FROM %s ORDER BY k LIMIT 20 OFFSET 30)', 'first by k' ],
	[ 'last by id', $by_index, '(SELECT * FROM %s ORDER BY id DESC LIMIT 20)', 'last by id' ],
	[ 'one n', $by_index, '(SELECT * FROM %s WHERE n = 7 ORDER BY id LIMIT 30)', 'one n' ]);

sub observer_looks { return @looks; }

sub digest { my ($rows) = @_; return "(SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)), 0) AS d FROM $rows t)"; }

# "twin|NAME|what of it|of the heap table|of the other one", which answered() compares
sub look_sql
{
	my ($t, $look) = @_;
	my ($name, $settings, $rows, $what) = @$look;
	my ($h, $l) = map { my $twin = "${t}_$_"; digest($rows =~ s/%s/$twin/gr =~ s/%h/${t}_h/gr) } 'h', 'l';
	return "$all_on$plain$settings SELECT 'twin', '$t by $name', '$what', h.d, l.d FROM $h h, $l l";
}

# The twins as a new snapshot sees them, by each plan; text about what is wrong
sub observer_digests
{
	my ($node, @names) = @_;
	my $session = LsmSession->new($node);
	my $sql = join('; ', map { my $t = $_; map { look_sql($t, $_) } @looks } @names);
	my ($state, @lines) = $session->ask("BEGIN ISOLATION LEVEL REPEATABLE READ; $sql; COMMIT");
	$session->close;
	my (%seen, @wrong);
	push @wrong, "$state: @lines" if $state ne '00000';
	foreach my $line (@lines)
	{
		my (undef, $name, $what, $h, $l) = split /\|/, $line;
		my $key = substr($name, 0, 1) . " $what";
		push @wrong, "$name: heap has $h, lsm has $l" if $h ne $l;
		push @wrong, "$name: $h, before it was $seen{$key}" if ($seen{$key} //= $h) ne $h;
	}
	return join("\n", @wrong);
}

# ---- the state of it all ----

sub observer_new
{
	my ($primary, $standby) = @_;
	my $o = bless { primary => $primary, standby => $standby, dir => PostgreSQL::Test::Utils::tempdir(),
		step => 0, wrong => [], history => [], counts => {}, observers => [], dumps => [] };

	# (the standby must not have its files in the same directory: allow_in_place_tablespaces is on)
	$primary->safe_psql('postgres', q{CREATE TABLESPACE far LOCATION ''});

	# what was out of line stays there
	$primary->safe_psql('postgres', 'CREATE FUNCTION other(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT CASE WHEN length(v) > 2000 THEN md5(v) || substr(v, 33) ELSE md5(v) END $$');
	$primary->safe_psql('postgres', create($_) . load($_, 4, 0, $ids, 0)) foreach observer_tables();
	$primary->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('stream', 'test_decoding')}) if $primary->safe_psql('postgres', 'SHOW wal_level') eq 'logical';
	$o->{writer}[$_] = { number => $_, session => LsmSession->new($primary, begin => "SET lock_timeout = '200ms'") } foreach 0 .. $writers - 1;
	$o->{ddl} = LsmSession->new($primary, begin => "SET lock_timeout = '50ms'; SET client_min_messages = error");
	$o->{maintenance} = LsmSession->new($primary, begin => "SET lock_timeout = '200ms'; SET client_min_messages = error");
	$o->{elder} = LsmSession->new($primary, begin => "SET lock_timeout = '200ms'");
	$o->{gate} = LsmSession->new($primary);
	$o->{sweep} = { session => LsmSession->new($primary) };
	$o->{slow}{$_} = { name => $_, session => LsmSession->new($primary, begin => 'SET client_min_messages = error') } foreach 'concurrent index', 'vacuum';
	return $o;
}

sub observer_wrong { my ($o) = @_; return @{ $o->{wrong} }; }

sub observer_counts { my ($o) = @_; return map { "$_: $o->{counts}{$_}" } sort keys %{ $o->{counts} }; }

sub count { my ($o, $what) = @_; $o->{counts}{$what}++; return; }

sub note_history
{
	my ($o, $who, $sql, $state) = @_;
	$sql = substr($sql, 0, 500) . ' ...' if length($sql) > 520;
	push @{ $o->{history} }, "step $o->{step}, $who: $sql" . (defined $state ? " -> $state" : '');
	return;
}

# What is wrong, with what has happened since the step `since`
sub wrong
{
	my ($o, $text, $since) = @_;
	$text = join("\n", (split /\n/, $text)[ 0 .. 29 ], '...') if ($text =~ tr/\n//) > 40;
	push @{ $o->{wrong} }, "step $o->{step}: $text";
	return if @{ $o->{wrong} } > 3;
	append_to_file("$PostgreSQL::Test::Utils::log_path/115_observer_history.log", join("\n", @{ $o->{history} }, '')) if @{ $o->{wrong} } == 1;
	my @since = grep { /^step (\d+)/ && $1 >= $since } @{ $o->{history} };
	@since = @since[ -60 .. -1 ] if @since > 60;
	diag("step $o->{step}: $text\n" . join("\n", @since));
	return;
}

# An answer: whatever is of twins is equal.  Returns the state.
sub answered
{
	my ($o, $who, $since, $seen, $state, @lines) = @_;

	# An older snapshot sees nothing of a heap table that was written anew: what COPY brings is there then.
	my $is_there = $state eq '23505' && $who =~ /^writer/ && "@lines" =~ /unique constraint "[abc]_h_/;
	if ($state ne '00000' && $state !~ $allowed && !$is_there)
	{
		wrong($o, "$who: $state @lines[0 .. ($#lines > 5 ? 5 : $#lines)]", $since) unless $state eq 'lost' && $who =~ /standby/;
	}
	foreach my $line (grep { /^twin\|/ } @lines)
	{
		my (undef, $name, $what, $h, $l) = split /\|/, $line, -1;
		my $key = substr($name, 0, 1) . " $what";
		count($o, 'compared');
		wrong($o, "$who of step $since, $name: heap has $h, lsm has $l", $since) if $h ne $l;
		next unless $seen;
		wrong($o, "$who of step $since, $name: $l, before it was $seen->{$key}", $since) if ($seen->{$key} //= $l) ne $l;
	}
	return $state;
}

# A statement of a session that is not an observer
sub act
{
	my ($o, $who, $session, $sql) = @_;
	my ($state, @lines) = $session->ask($sql);
	note_history($o, $who, $sql, $state);
	answered($o, $who, $o->{step}, undef, $state, @lines);
	return $state eq '00000';
}

# ---- writers ----

sub range { my $from = int(rand($ids)); return "id BETWEEN $from AND " . ($from + int(rand(rand() < 0.2 ? 2000 : 60))); }

# An UPDATE or DELETE of both twins by one statement, that is with one snapshot; what it returns is equal.  %a: a list of
# keys by which rows may be looked up
sub change_twins
{
	my ($t, $change, $where) = @_;
	my ($h, $l) = map { my $name = "${t}_$_"; $change =~ s/%s/$name/gr . " WHERE $where RETURNING id, n, v" } 'h', 'l';
	my $sum = q{(SELECT count(*) || ' ' || coalesce(sum(hashtextextended(x::text, 0)), 0) FROM %s x)};
	return "WITH h AS ($h), l AS ($l) SELECT 'twin', '$t by change', 'change', " . join(', ', map { $sum =~ s/%s/$_/r } 'h', 'l');
}

my @changes = ('UPDATE %s SET n = (n + 1) %% 50', q{UPDATE %s SET v = other(v)}, q{UPDATE %s SET n = (n * 7 + 3) %% 50, v = left(v, 2400) || 'z'}, 'DELETE FROM %s');

sub change_of_writer
{
	my ($t, $writer) = @_;
	my $where = "id % 4 = $writer AND " . range();
	$where = "k = ANY (ARRAY(SELECT k FROM ${t}_h WHERE $where))" if rand() < 0.3;
	return 'SET LOCAL enable_seqscan = ' . pick('on', 'off') . '; ' . change_twins($t, pick(@changes) =~ s/%%/%/gr, $where);
}

sub statement_of_writer
{
	my ($o, $w) = @_;
	my ($t, $number, $step) = ($w->{table}, $w->{number}, $o->{step});
	my $way = rand();
	return load($t, $number, int(rand($ids)), 20 + int(rand(rand() < 0.3 ? 2500 : 200)), $step) if $way < 0.3;
	if ($way < 0.4)
	{
		my $file = "$o->{dir}/copy";
		my $from = int(rand($ids));
		my $rows = "SELECT @{[ row_values($t, 'g * 4 + ' . $number, $step) ]} FROM generate_series($from / 4, $from / 4 + 300) g WHERE NOT EXISTS (SELECT 1 FROM ${t}_h WHERE id = g * 4 + $number)";
		return "COPY ($rows) TO '$file'; " . both($t, "COPY %s (id, k, n, v) FROM '$file'");
	}
	return both($t, "INSERT INTO %s (id, k, n, v) SELECT @{[ row_values($t, 'g * 4 + ' . $number, $step) ]} FROM generate_series(0, 30) g ON CONFLICT (id) DO UPDATE SET n = EXCLUDED.n, v = left(%s.v, 2400) || 'c'") if $way < 0.45;
	return both($t, 'SELECT count(*) FROM (SELECT 1 FROM %s WHERE id % 4 = ' . $number . ' AND ' . range() . ' FOR ' . pick('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE') . ') x') if $way < 0.5;
	return change_of_writer($t, $number) if $way < 0.85;
	return 'SAVEPOINT s; ' . change_of_writer($t, $number) . '; ' . (rand() < 0.5 ? 'ROLLBACK TO s' : 'RELEASE s') . '; ' . change_of_writer($t, $number);
}

sub write_step
{
	my ($o) = @_;
	my $w = pick(@{ $o->{writer} });
	my $who = "writer $w->{number}";
	if ($w->{prepared})
	{
		return if rand() < 0.5;
		act($o, $who, $w->{session}, (rand() < 0.6 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$w->{prepared}'");
		delete $w->{prepared};
		return;
	}
	unless ($w->{open})
	{
		# it may stay for a while with nothing but its transaction id
		act($o, $who, $w->{session}, 'BEGIN ISOLATION LEVEL ' . pick('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE') . (rand() < 0.5 ? '; SELECT pg_current_xact_id()' : ''));
		$w->{open} = 1 + int(rand(5));
		$w->{table} = undef;
		return if rand() < 0.5;
	}
	$w->{table} //= rand() < 0.2 ? ddl_table($o) : other_table($o);
	count($o, 'changes');
	unless (act($o, $who, $w->{session}, statement_of_writer($o, $w)))
	{
		act($o, $who, $w->{session}, 'ROLLBACK');
		$w->{open} = 0;
	}
	finish_writer($o, $w, 1) if $w->{open} && --$w->{open} == 0;
	return;
}

# Commits, or leaves it prepared, or rolls back
sub finish_writer
{
	my ($o, $w, $may_prepare) = @_;
	my $way = $may_prepare ? rand() : 1;
	my $gid = "w$w->{number}_$o->{step}";
	my $done = act($o, "writer $w->{number}", $w->{session}, $way < 0.15 ? "PREPARE TRANSACTION '$gid'" : $way < 0.25 ? 'ROLLBACK' : 'COMMIT');
	$w->{prepared} = $gid if $done && $way < 0.15;
	$w->{open} = 0;
	return;
}

# ---- a statement that has its snapshot and scans later ----

# It waits for the gate before its scan begins, then changes every second row of the table, also of other writers.
sub sweep_step
{
	my ($o) = @_;
	my $s = $o->{sweep};
	if (!$s->{table})
	{
		$s->{table} = other_table($o);
		$s->{since} = $o->{step};
		$o->{gate}->ask('SELECT pg_advisory_lock(115)');
		my $sql = change_twins($s->{table}, pick('UPDATE %s SET n = (n + 1) % 50', q{UPDATE %s SET v = other(v)}), "id % 2 = 0 AND (SELECT pg_advisory_xact_lock_shared(115)) IS NOT NULL");
		note_history($o, 'sweep begins', $sql);
		$s->{session}->send("BEGIN; SET LOCAL enable_seqscan = @{[ pick('on', 'off') ]}; $sql; COMMIT");
		$s->{gated} = 1;
	}
	elsif ($s->{gated} && $o->{step} > $s->{since} + 4) { sweep_go($o); }
	return;
}

sub sweep_go
{
	my ($o) = @_;
	$o->{gate}->ask('SELECT pg_advisory_unlock(115)');
	note_history($o, 'sweep', 'goes on');
	$o->{sweep}{gated} = 0;
	return;
}

# Sees to what has ended by itself.
sub collect
{
	my ($o, $wait) = @_;
	my $s = $o->{sweep};
	if ($s->{table} && !$s->{gated} && ($wait || $s->{session}->ready(0)))
	{
		my ($state, @lines) = $s->{session}->answer;
		note_history($o, 'sweep', 'ends', $state);
		answered($o, 'sweep', $s->{since}, undef, $state, @lines);
		$s->{session}->ask('ROLLBACK') if $state ne '00000';
		count($o, 'sweeps') if $state eq '00000';
		$s->{table} = undef;
	}
	foreach my $slow (grep { $_->{since} && ($wait || $_->{session}->ready(0)) } values %{ $o->{slow} })
	{
		my ($state, @lines) = $slow->{session}->answer;
		note_history($o, $slow->{name}, 'ends', $state);
		answered($o, $slow->{name}, $slow->{since}, undef, $state, @lines);
		count($o, $slow->{name}) if $state eq '00000';
		$slow->{since} = 0;
		next unless $slow->{no_standby};
		caught_up($o) if $o->{standby};
		$slow->{no_standby} = 0;
	}
	return;
}

# ---- DDL ----

# Each command is for both twins, in one transaction where it may be.
sub commands
{
	my ($o) = @_;
	my $end = rand() < 0.25 ? 'ROLLBACK' : 'COMMIT';
	my $step = $o->{step};
	my $change = sub { my ($t) = @_; return both($t, "UPDATE %s SET v = other(v), n = (n + 1) % 50 WHERE id % 3 = $step % 3") };

	# a rewrite of the heap twin, which changes no type: to older snapshots it is empty then, as is the other one
	my $anew = sub { my ($t) = @_; return "ALTER TABLE ${t}_h ALTER v TYPE text USING v || ''" };
	my $refill = sub { my ($t) = @_; return load($t, 4, int(rand(1000)), 2500, $step) };
	return (
		[ 'truncate', sub { my ($t) = @_; return "BEGIN; TRUNCATE ${t}_h, ${t}_l; @{[ $refill->($t) ]}; $end" } ],
		[ 'add column', sub { my ($t) = @_; return 'BEGIN; ' . both($t, 'ALTER TABLE %s ADD COLUMN IF NOT EXISTS extra int DEFAULT ' . $step) . "; $end" } ],
		[ 'drop column', sub { my ($t) = @_; return 'BEGIN; ' . both($t, 'ALTER TABLE %s DROP COLUMN IF EXISTS extra') . "; $end" } ],
		[ 'alter type', sub { my ($t) = @_; my $type = pick('bigint', 'int'); return 'BEGIN; ' . both($t, "ALTER TABLE %s ALTER n TYPE $type USING n + 0") . "; $end" } ],
		[ 'alter type amid changes', sub { my ($t) = @_; return "BEGIN; @{[ $change->($t) ]}; " . both($t, 'ALTER TABLE %s ALTER n TYPE int USING n + 0') . "; @{[ $change->($t) ]}; $end" } ],
		[ 'access method and back', sub { my ($t) = @_; my ($there, $back) = $tables{$t}{am} eq 'lsm' ? ('heap', 'lsm') : ('lsm', 'heap'); return "BEGIN; ALTER TABLE ${t}_l SET ACCESS METHOD $there; ALTER TABLE ${t}_l SET ACCESS METHOD $back; @{[ $anew->($t) ]}; $end" } ],
		[ 'access method', sub { my ($t) = @_; my $there = pick('heap', 'lsm'); return "BEGIN; ALTER TABLE ${t}_l ALTER n TYPE int USING n + 0, SET ACCESS METHOD $there; ALTER TABLE ${t}_h ALTER n TYPE int USING n + 0; $end" } ],
		[ 'tablespace', sub { my ($t) = @_; my $space = pick('far', 'pg_default'); return 'BEGIN; ' . both($t, "ALTER TABLE %s SET TABLESPACE $space; ALTER INDEX %s_id SET TABLESPACE $space; ALTER INDEX %s_n SET TABLESPACE $space") . "; $end" } ],
		[ 'create index', sub { my ($t) = @_; my $kind = $tables{$t}{keys}; return "BEGIN; CREATE INDEX IF NOT EXISTS ${t}_h_v ON ${t}_h (n, v); CREATE INDEX IF NOT EXISTS ${t}_l_v ON ${t}_l USING $kind (n, v); $end" } ],
		[ 'drop index', sub { my ($t) = @_; return 'BEGIN; ' . both($t, 'DROP INDEX IF EXISTS %s_v') . "; $end" } ],
		[ 'reindex', sub { my ($t) = @_; return 'BEGIN; ' . both($t, 'REINDEX TABLE %s') . "; $end" } ],
		[ 'create as', sub { my ($t) = @_; return "BEGIN; CREATE TABLE ${t}_nh USING heap AS SELECT * FROM ${t}_h; CREATE TABLE ${t}_nl USING $tables{$t}{am} AS SELECT * FROM ${t}_l; DROP TABLE ${t}_h, ${t}_l; ALTER TABLE ${t}_nh RENAME TO ${t}_h; ALTER TABLE ${t}_nl RENAME TO ${t}_l; @{[ both($t, 'ALTER TABLE %s ALTER id SET NOT NULL') ]}; @{[ indexes($t) ]} @{[ $change->($t) ]}; $end" } ],
		[ 'create', sub { my ($t) = @_; return "BEGIN; DROP TABLE ${t}_h, ${t}_l; @{[ create($t) ]} @{[ $refill->($t) ]}; @{[ $change->($t) ]}; @{[ $refill->($t) ]}; $end" } ],
		[ 'cluster', sub { my ($t) = @_; return "BEGIN; @{[ $change->($t) ]}; COMMIT; BEGIN; " . both($t, 'CLUSTER %s USING %s_id') . "; $end" } ],
		[ 'cluster amid changes', sub { my ($t) = @_; return "BEGIN; @{[ $change->($t) ]}; " . both($t, 'CLUSTER %s USING %s_id') . "; @{[ $change->($t) ]}; $end" } ],
		[ 'vacuum full', sub { my ($t) = @_; return "BEGIN; @{[ $change->($t) ]}; COMMIT; " . both($t, 'VACUUM FULL %s') } ],
		[ 'many tables', sub { return 'BEGIN; ' . join('; ', map { my $t = $_; $change->($t), both($t, 'ALTER TABLE %s ALTER n TYPE int USING n + 0') } observer_tables()) . "; $end" } ]);
}

# What looks do not show and the stream does: the twins have columns of the same types.
sub column_list { return "(SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '$_[0]'::regclass AND attnum > 0 AND NOT attisdropped)"; }

# Then snapshots that are older look at the table, which they have not locked before; and one that is younger, of which a
# transaction that is older than the command changes rows: what the command, or the jobs that it has set going, take for
# dead to everyone is not.
sub ddl_step
{
	my ($o) = @_;
	my ($name, $sql) = @{ pick(grep { !$o->{about_standby} || $_->[0] !~ /index|cluster|vacuum/ } commands($o)) };
	my $t = ddl_table($o);
	my $elder = rand() < 0.7 && $o->{elder};
	if ($elder)
	{
		observe($o, 'repeatable read');
		act($o, 'elder', $elder, 'BEGIN; SELECT pg_current_xact_id()');
	}
	unless (act($o, 'ddl', $o->{ddl}, $sql->($t)))
	{
		$o->{ddl}->ask('ROLLBACK');
		$elder->ask('ROLLBACK') if $elder;
		count($o, 'commands without their lock');
		return;
	}
	count($o, $name);
	act($o, 'columns', $o->{maintenance}, "SELECT 'twin', '$t by catalog', 'columns', " . join(', ', map { column_list("${t}_$_") } 'h', 'l'));
	my @looking = reverse grep { $_->{kind} !~ /cursor|standby/ && $_->{looks_from} > $o->{step} } @{ $o->{observers} };
	@looking = @looking[ 0, 1 ] if @looking > 2;
	if ($elder)
	{
		push @looking, observe($o, 'repeatable read') // ();
		act($o, 'elder', $elder, change_twins($t, q{UPDATE %s SET v = other(v)}, 'id % 2 = 0') . '; COMMIT') or $elder->ask('ROLLBACK');
		act($o, 'maintenance', $o->{maintenance}, flush_sql($t));
	}
	foreach my $look (1 .. 3)
	{
		look($o, $_, $t) foreach @looking;
		my @ended = grep { !seen($o, $_) } @looking;
		leave($o, @ended);
		@looking = grep { !$_->{left} } @looking;
	}
	leave($o, @looking);
	return;
}

# Indexes that are made beside others wait for older snapshots, VACUUM for pages that somebody has pinned.
sub slow_step
{
	my ($o) = @_;
	my $slow = $o->{slow}{ pick($o->{about_standby} ? () : 'concurrent index', 'vacuum', 'vacuum') };
	return if $slow->{since};
	my $t = other_table($o);
	my $sql = $slow->{name} eq 'vacuum' ? 'VACUUM ' . pick('', '', '(INDEX_CLEANUP on) ', '(FREEZE) ') . "${t}_h, ${t}_l"
	  : pick("REINDEX TABLE CONCURRENTLY ${t}_l", ("CREATE INDEX CONCURRENTLY IF NOT EXISTS ${t}_l_slow ON ${t}_l USING $tables{$t}{keys} (v)", "DROP INDEX CONCURRENTLY IF EXISTS ${t}_l_slow") x 2);
	$slow->{since} = $o->{step};

	# What an older snapshot of a standby sees is in no index that is made so: heap's neither.
	$slow->{no_standby} = $sql =~ /^REINDEX/;
	leave($o, standby_observers($o)) if $slow->{no_standby};
	note_history($o, "$slow->{name} begins", $sql);
	$slow->{session}->send($sql);
	return;
}

# Of what is ours and can be used
sub trees { my ($t) = @_; return "pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname IN ('lsm', 'lsm_index') AND c.relname ~ '^${t}_l' AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indexrelid = c.oid AND NOT i.indisvalid)"; }

sub flush_sql { my ($t) = @_; return 'SELECT lsm_flush(c.oid) FROM ' . trees($t); }

sub maintenance_step
{
	my ($o) = @_;
	my $t = pick(observer_tables());
	my ($name, $sql) = @{ pick([ 'flush', flush_sql($t) ], [ 'flush', flush_sql($t) ], [ 'compact', 'SELECT lsm_compact(c.oid) FROM ' . trees($t) ],
		[ 'analyze', "ANALYZE ${t}_h, ${t}_l" ], [ 'checkpoint', 'CHECKPOINT' ]) };
	count($o, $name) if act($o, 'maintenance', $o->{maintenance}, $sql);
	return;
}

# ---- observers ----

# A session with a snapshot.  It has not touched any table for its first steps: DDL may come between.
sub observe
{
	my ($o, $kind) = @_;
	my $on_standby = $kind =~ /^standby/;
	my $session = LsmSession->new($on_standby ? $o->{standby} : $o->{primary}, begin => "SET lock_timeout = '300ms'");
	my $ob = { kind => $kind, session => $session, since => $o->{step}, seen => {}, looks_from => $o->{step} + int(rand(10)), until => $o->{step} + 5 + int(rand(25)) };
	my $begin = $kind eq 'serializable' ? 'SERIALIZABLE' . pick('', ' READ ONLY') : 'REPEATABLE READ';
	my $sql = "BEGIN ISOLATION LEVEL $begin; SELECT pg_export_snapshot()";
	$sql = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_snapshot()" if $on_standby || $kind eq 'serializable' && $begin eq 'SERIALIZABLE READ ONLY';
	if ($kind =~ /cursor/)
	{
		my $t = $ob->{table} = other_table($o);
		my $held = $kind eq 'held cursor';

		# one that is not read to its end at once stays amid its scan, if rows come in the order of an index
		my ($name, $settings, $rows) = @{ pick(grep { $_->[3] eq 'rows' && ($held || $_->[0] =~ /^(index|backward|list of ids)$/) } @looks) };
		my $order = $name eq 'backward' ? 't.id DESC' : 't.id';
		my ($h, $l) = map { my $twin = "${t}_$_"; "SELECT hashtextextended(t::text, 0), t.id FROM @{[ $rows =~ s/%s/$twin/gr =~ s/%h/${t}_h/gr ]} t ORDER BY $order" } 'h', 'l';
		my $hold = $held ? 'CURSOR WITH HOLD' : 'SCROLL CURSOR';
		$sql = "BEGIN ISOLATION LEVEL REPEATABLE READ; $all_on$plain$settings DECLARE h $hold FOR $h; DECLARE l $hold FOR $l" . ($held ? '; COMMIT' : '');
		$ob->{plan} = $name;
		$ob->{locked}{$t} = 1 if $kind eq 'cursor';
	}
	elsif ($kind eq 'importer')
	{
		my ($exporter) = grep { defined $_->{snapshot} } @{ $o->{observers} };
		return unless $exporter;
		$sql = "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$exporter->{snapshot}'";
		$ob->{since} = $exporter->{since};
	}
	my ($state, @lines) = $session->ask($sql);
	note_history($o, "observer $kind", $sql, $state);
	return if answered($o, $kind, $o->{step}, undef, $state, @lines) ne '00000';
	$ob->{snapshot} = $lines[0] if $kind eq 'repeatable read';
	push @{ $o->{observers} }, $ob;
	count($o, "observer: $kind");
	return $ob;
}

sub look
{
	my ($o, $ob, $t) = @_;
	if ($ob->{kind} =~ /cursor/)
	{
		my $fetch = 'FETCH ' . ($ob->{kind} eq 'cursor' && rand() < 0.3 ? 'BACKWARD ' : 'FORWARD ') . int(rand(700)) . ' FROM';
		$ob->{session}->send("$fetch h; SELECT 'then'; $fetch l");
		return;
	}
	$ob->{table} = $t // other_table($o) if $t || !$ob->{table} || rand() < 0.1;
	$ob->{locked}{ $ob->{table} } = 1;
	my $look = pick(@looks);
	$ob->{session}->send(look_sql($ob->{table}, $look));
	return;
}

# False if the observer has ended
sub seen
{
	my ($o, $ob) = @_;
	my ($state, @lines) = $ob->{session}->answer;
	return 0 if answered($o, $ob->{kind}, $ob->{since}, $ob->{seen}, $state, @lines) ne '00000';
	count($o, "looks: $ob->{kind}");
	return 1 if $ob->{kind} !~ /cursor/;
	my ($h, $l) = map { s/^\n|\n$//gr } split /then/, join("\n", @lines), -1;
	count($o, 'compared');
	wrong($o, "$ob->{kind} of step $ob->{since}, $ob->{table} by $ob->{plan}: rows fetched differ: heap has " . substr($h, 0, 200) . ', lsm has ' . substr($l, 0, 200), $ob->{since}) if $h ne $l;
	return 1;
}

sub leave
{
	my ($o, @leaving) = @_;
	$_->{left} = 1 foreach @leaving;
	$_->{session}->close foreach @leaving;
	$o->{observers} = [ grep { !$_->{left} } @{ $o->{observers} } ];
	return;
}

sub standby_observers { my ($o) = @_; return grep { $_->{kind} =~ /^standby/ } @{ $o->{observers} }; }

# Who is there looks, while the action is done.
sub with_looks
{
	my ($o, $action) = @_;
	my @looking = grep { $_->{looks_from} <= $o->{step} && rand() < 0.5 } @{ $o->{observers} };
	look($o, $_) foreach @looking;
	$action->();
	my @ended = grep { !$_->{left} && !seen($o, $_) } @looking;

	# who could not look for a lock waits for one that recovery waits for: all queries make room
	@ended = (@ended, standby_observers($o)) if grep { $_->{kind} =~ /^standby/ } @ended;
	leave($o, @ended, grep { $_->{until} <= $o->{step} } @{ $o->{observers} });
	return;
}

# ---- pg_dump, logical decoding, a standby that is restarted ----

sub dump_step
{
	my ($o) = @_;
	return if @{ $o->{dumps} } > 2 || grep { !$_->{done} } @{ $o->{dumps} };
	my $dir = "$o->{dir}/dump" . @{ $o->{dumps} };
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		open(STDERR, '>', "$dir.err");
		exec('pg_dump', '-Fd', '-Z0', '-j2', '--lock-wait-timeout=500', '-f', $dir, (map { ('-t', "${_}_h", '-t', "${_}_l") } observer_tables()), $o->{primary}->connstr('postgres')) or POSIX::_exit(99);
	}
	push @{ $o->{dumps} }, { pid => $pid, dir => $dir, since => $o->{step} };
	note_history($o, 'pg_dump', 'begins');
	return;
}

sub dump_ended
{
	my ($o, $dump) = @_;
	my $status = lsm_ended($dump->{pid}) ? $? : die 'pg_dump does not end';
	$dump->{done} = 1;
	my $err = slurp_file("$dump->{dir}.err");
	if ($err ne '')
	{
		# it waits for a lock for a while (as a statement_timeout), its workers do not
		wrong($o, "pg_dump: $err", $dump->{since}) unless $err =~ /could not obtain lock|lock timeout|LOCK TABLE/;

		# the next round has its name again
		rmtree($dump->{dir});
		return;
	}
	my $text = `pg_restore -a -f - '$dump->{dir}' 2>&1`;
	my %rows;
	$rows{$1} = join("\n", sort split /\n/, $2) while $text =~ /^COPY public\.(\w+) [^\n]*\n(.*?)^\\\.$/msg;
	foreach my $t (observer_tables())
	{
		my ($h, $l) = map { $_ // 'nothing' } @rows{ "${t}_h", "${t}_l" };
		count($o, 'compared');
		wrong($o, "pg_dump of step $dump->{since}: $t differs", $dump->{since}) if $h ne $l;
	}
	rmtree($dump->{dir});
	count($o, 'dumps');
	return;
}

# What is decoded of twins differs in their names only.
sub stream_step
{
	my ($o) = @_;
	return if $o->{primary}->safe_psql('postgres', 'SHOW wal_level') ne 'logical';
	my ($state, @lines) = $o->{maintenance}->ask(q{SELECT xid || ' ' || data FROM pg_logical_slot_get_changes('stream', NULL, NULL)});
	my $since = $o->{streamed} // 0;
	$o->{streamed} = $o->{step};
	wrong($o, "stream: $state @lines[0 .. ($#lines > 5 ? 5 : $#lines)]", $since) if $state ne '00000';
	my (%heap, %lsm);
	foreach my $line (@lines)
	{
		next unless $line =~ /^(\d+) table public\.([abc])_([hl]): (.*)$/;
		($3 eq 'h' ? \%heap : \%lsm)->{"$1 $2"}{$4}++;
	}
	my @differ;
	foreach my $of (sort keys %{ { %heap, %lsm } })
	{
		my ($h, $l) = map { $_->{$of} // {} } \%heap, \%lsm;
		$o->{counts}{compared} += keys %$h;
		my ($only_h, $only_l) = (alone($h, $l), alone($l, $h));
		push @differ, "transaction and table $of: $only_h; $only_l" if "$only_h$only_l" ne '00';
	}
	count($o, 'streams');
	return unless @differ;
	append_to_file("$PostgreSQL::Test::Utils::log_path/115_observer_stream.log", join("\n", @lines, ''));
	wrong($o, join("\n", 'stream: heap has alone, lsm has alone:', @differ), $since);
	return;
}

# What one of two counts of changes has more of
sub alone
{
	my ($of, $other) = @_;
	my @alone = grep { $of->{$_} > ($other->{$_} // 0) } sort keys %$of;
	return @alone . (@alone ? ', such as ' . substr($alone[0] =~ s/x{20,}/x.../r, 0, 300) : '');
}

# It is away for some steps, or none.  Then it is looked at as soon as it answers.
sub restart_standby
{
	my ($o) = @_;
	my $standby = $o->{standby};
	leave($o, standby_observers($o));
	my $how = pick('fast', 'immediate', 'kill');
	my @pids = lsm_pids($standby);
	if ($how eq 'kill')
	{
		kill('KILL', $pids[0]);
		lsm_clear_crashed($standby, @pids);
	}
	else { $standby->stop($how); }
	note_history($o, 'standby', "stops: $how");
	foreach (1 .. int(rand(4))) { pick(\&write_step, \&ddl_step, \&maintenance_step)->($o); }
	$standby->start;
	note_history($o, 'standby', 'starts');
	count($o, "restarts: $how");

	# What an index is built of, or a table written anew, is what somebody sees; a standby that was killed may be back at
	# an earlier state than the one that its feedback spoke of, and nothing tells its queries.
	caught_up($o) unless $o->{about_standby};
	observe($o, 'standby') foreach 1 .. 2;
	foreach my $ob (standby_observers($o))
	{
		$ob->{looks_from} = $o->{step};
		foreach my $t (observer_tables())
		{
			$ob->{session}->send(join('; ', map { look_sql($t, $_) } @looks[ 0 .. 9, 15, 19 ]));
			next if seen($o, $ob);
			leave($o, $ob);
			last;
		}
	}
	leave($o, standby_observers($o)) if rand() < 0.5;
	return;
}

sub caught_up
{
	my ($o) = @_;
	my $lsn = $o->{primary}->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	$o->{standby}->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'") or die 'the standby does not follow';
	return;
}

# ---- the run ----

sub observer_step
{
	my ($o) = @_;
	$o->{step}++;
	collect($o, 0);
	my $ddl = ddl_table($o);
	leave($o, grep { $_->{locked}{$ddl} } @{ $o->{observers} });
	my @kinds = ('repeatable read', 'repeatable read', 'serializable', 'cursor', 'held cursor', 'importer', 'importer');
	observe($o, pick(@kinds)) if rand() < 0.4 && @{ $o->{observers} } - standby_observers($o) < 6;
	observe($o, 'standby') if $o->{standby} && rand() < 0.2 && standby_observers($o) < 2 && !$o->{slow}{'concurrent index'}{no_standby};
	my $way = $o->{about_standby} && rand() < 0.1 ? 1 : rand();
	my $action = $way < 0.48 ? \&write_step : $way < 0.66 ? \&ddl_step : $way < 0.78 ? \&maintenance_step : $way < 0.85 ? \&sweep_step : $way < 0.945 ? \&slow_step
	  : $way < 0.97 ? \&stream_step : $way < 0.985 ? \&dump_step : sub { restart_standby($o) if $o->{standby} };
	with_looks($o, sub { $action->($o) });
	sweep_step($o) if $o->{sweep}{gated};
	return;
}

# Everybody ends; what is there in the end is equal, by every plan, here and on the standby.
sub end
{
	my ($o) = @_;
	leave($o, @{ $o->{observers} });
	sweep_go($o) if $o->{sweep}{gated};
	foreach my $w (@{ $o->{writer} })
	{
		finish_writer($o, $w, 0) if $w->{open};
		act($o, "writer $w->{number}", $w->{session}, "COMMIT PREPARED '$w->{prepared}'") if $w->{prepared};
		delete $w->{prepared};
	}
	collect($o, 1);
	dump_ended($o, $_) foreach grep { !$_->{done} } @{ $o->{dumps} };
	$o->{dumps} = [];
	stream_step($o);
	caught_up($o) if $o->{standby};
	my @wrong = map { observer_digests($_, observer_tables()) } $o->{primary}, $o->{standby} // ();
	wrong($o, "in the end: $_", $o->{step} - 30) foreach grep { $_ ne '' } @wrong;
	my $wrong = lsm_differences($o->{primary}, grep { $o->{primary}->safe_psql('postgres', "SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = '${_}_l'::regclass") eq 'lsm' } observer_tables());
	wrong($o, "in the end: $wrong", $o->{step} - 30) if $wrong ne '';
	return;
}

# So many steps, and their end.  about_standby: the standby is restarted again and again, beside commands of which
# its snapshots may see any state
sub observer_run
{
	my ($o, $steps, %opt) = @_;
	$o->{about_standby} = $opt{about_standby};
	return if eval { observer_step($o) foreach 1 .. $steps; end($o); 1 };
	wrong($o, $@ . activity($o), $o->{step} - 10);
	return;
}

# Who does what, and waits for whom
sub activity
{
	my ($o) = @_;
	my $sql = 'SELECT pid, state, wait_event, pg_blocking_pids(pid), left(query, 300) FROM pg_stat_activity WHERE pid <> pg_backend_pid()';
	return join('', map { "\n" . $_->name . ":\n" . ($_->psql('postgres', $sql))[1] } $o->{primary}, $o->{standby} // ());
}

1;
