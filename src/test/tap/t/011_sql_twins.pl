# Random SQL over all column types, run word for word on four twins (heap or lsm
# tables, btree or lsm indexes).  What psql prints must be the same, errors included.
#   LSM_ROUNDS: scripts (4; long: 200)   LSM_STEPS: statements of a script (60; long: 150)
use strict;
use warnings;
no warnings 'qw';			# the values have commas
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

lsm_seed();
my $rounds = $ENV{LSM_ROUNDS} // (lsm_long() ? 200 : 4);
my $steps  = $ENV{LSM_STEPS}  // (lsm_long() ? 150 : 60);

sub one_of { return $_[ int(rand(@_)) ]; }
sub chance { return rand() < $_[0]; }

# Columns, and values of few classes so that they meet: edges, equal but different ones
my @ints = qw(0 1 2 3 -1 7 7 100 32767 -32768);
my %type = (
	i2 => { sql => 'int2', values => [@ints] },
	i4 => { sql => 'int4', values => [ @ints, qw(2147483647 -2147483648 32768 100000) ] },
	i8 => { sql => 'int8', values => [ @ints, qw(9223372036854775807 -9223372036854775808 2147483648 100000) ] },
	f4 => { sql => 'float4', values => [qw('NaN' 'Infinity' '-Infinity' 0 '-0' 0.1 1.5 1e-40 -1e-45 3e38 16777216 7)] },
	f8 => { sql => 'float8', values => [qw('NaN' 'Infinity' '-Infinity' 0 '-0' 0.1 0.10000000149011612 1.5 1e-300 -1e-320 1e300 7)] },
	n  => { sql => 'numeric', values => [qw('NaN' 'Infinity' '-Infinity' 0 0.000 1.0 1.00 -1.50 1e30 1e-30 -1e30 9999.9999 10000 7 123456789012345678901234567890.123)] },
	tc => { sql => 'text COLLATE "C"', values => [qw('' 'a' 'A' 'ab' 'b' 'a%' 'zz' repeat('q',300) repeat('q',301) repeat('q',9000) repeat('q',9001))] },
	tx => { sql => 'text COLLATE "en-x-icu"', values => [qw('' 'a' 'A' 'ab' 'a-b' 'b' 'B' 'zz' 'Zz' repeat('q',300))] },
	vc => { sql => 'varchar(20)', values => [qw('' 'a' 'A' 'ab' 'b' 'zz')] },
	bp => { sql => 'char(6) COLLATE "C"', values => [qw('' 'a' 'a' 'ab' 'abcdef' 'b')], more => [ "'a  '", "' a'" ] },
	ba => { sql => 'bytea', values => [qw('' '\\x00' '\\x0000' '\\x0001' '\\x00ff' '\\xff' '\\xffff' '\\x61')] },
	da => { sql => 'date', values => [qw('infinity' '-infinity' '2000-01-01' '1999-12-31' '2024-03-10' '5000000-01-01')] },
	ts => { sql => 'timestamp', values => [qw('infinity' '-infinity' '2000-01-01' '1999-12-31T23:59:59.999999' '2024-03-10T02:30' '2024-03-10')] },
	tz => { sql => 'timestamptz', values => [qw('infinity' '-infinity' '2000-01-01' '1999-12-31T23:59:59.999999' '2024-03-10T02:30' '2024-03-10')] },
	ti => { sql => 'time', values => [qw('00:00' '24:00' '12:00' '23:59:59.999999')] },
	tt => { sql => 'timetz', values => [qw('00:00+00' '24:00+00' '12:00+01' '11:00+00' '13:00+02')] },
	iv => { sql => 'interval', values => [qw('1month' '30days' '720hours' '-1month' '0' '1year' '178000000years')] },
	uu => { sql => 'uuid', values => [ map { "'" . ($_ x 8) . '-0000-0000-0000-00000000000' . $_ . "'" } qw(0 1 a f) ] },
	bo => { sql => 'bool', values => [qw(true false)] },
	en => { sql => 'mood', values => [qw('sad' 'ok' 'happy')] },
	na => { sql => 'name', values => [qw('' 'a' 'ab' 'pg_class')] },
	ch => { sql => '"char"', values => [qw('a' 'b' '' '\\200')] },
	oi => { sql => 'oid', values => [qw(0 1 2147483648 4294967295)] });
push @{ $_->{values} }, @{ $_->{more} // [] } for values %type;
my @columns = sort keys %type;

# constants of other types of the same operator family
my %family = (
	i2 => [qw(i2 i4 i8)], i4 => [qw(i2 i4 i8)], i8 => [qw(i2 i4 i8)],
	f4 => [qw(f4 f8)], f8 => [qw(f4 f8)],
	da => [qw(da ts tz)], ts => [qw(da ts tz)], tz => [qw(da ts tz)]);

sub value
{
	my ($c, $null) = @_;
	return 'NULL' if chance($null // 0.1);
	return one_of(@{ $type{$c}{values} });
}

sub constant
{
	my ($c, $null) = @_;
	my $from = $family{$c} && chance(0.6) ? one_of(@{ $family{$c} }) : $c;
	(my $sql = $type{$from}{sql}) =~ s/ COLLATE.*//;
	return '(' . value($from, $null // 0.03) . ")::$sql";
}

# the same type in all, for arrays
sub constants
{
	my ($c) = @_;
	my $from = $family{$c} && chance(0.5) ? one_of(@{ $family{$c} }) : $c;
	(my $sql = $type{$from}{sql}) =~ s/ COLLATE.*//;
	my $n = one_of(0, 1, 2, 3, 3, 6, 12);
	return 'ARRAY[' . join(',', map { value($from, 0.15) } 1 .. $n) . "]::${sql}[]";
}

my @ops = qw(= = = < <= >= >);

sub qual
{
	my ($c) = @_;
	my $dice = int(rand(100));
	return "$c IS NULL" if $dice < 8;
	return "$c IS NOT NULL" if $dice < 12;
	return "$c = ANY (" . constants($c) . ')' if $dice < 30;
	return "$c @{[one_of(@ops)]} ANY (" . constants($c) . ')' if $dice < 35;
	return "$c BETWEEN " . constant($c) . ' AND ' . constant($c) if $dice < 45;
	return "$c IN (" . join(', ', map { constant($c, 0) } 1 .. 3) . ')' if $dice < 50;
	return "$c @{[one_of(@ops)]} (SELECT $c FROM t ORDER BY id LIMIT 1 OFFSET @{[int(rand(50))]})" if $dice < 55;
	return "$c @{[one_of(@ops)]} " . constant($c);
}

# the columns of the indexes that exist now
my %indexes;

sub where
{
	my @names = sort keys %indexes;
	my @cols = @names ? @{ $indexes{ one_of(@names) } } : ();
	@cols = (one_of(@columns)) if !@cols || chance(0.15);
	if (@cols > 1 && chance(0.2))
	{
		return 'ROW(' . join(',', @cols) . ') ' . one_of(qw(< <= >= >)) . ' ROW(' . join(',', map { constant($_) } @cols) . ')';
	}
	my @quals;
	foreach my $c (@cols)
	{
		push @quals, qual($c) if chance(0.75);
		push @quals, qual($c) if chance(0.15);
	}
	push @quals, qual($cols[0]) unless @quals;
	return join(chance(0.06) ? ' OR ' : ' AND ', @quals);
}

sub random_index
{
	my $name = 'x' . int(rand(8));
	my @sql;
	if ($indexes{$name})
	{
		push @sql, "DROP INDEX $name";
		delete $indexes{$name};
	}
	if (chance(0.1))
	{
		my $c = one_of(@columns);
		$indexes{$name} = [$c];
		return (@sql, "CREATE INDEX $name ON t USING " . one_of("hash ($c)", "brin ($c)"));
	}
	my %seen;
	my @cols = grep { !$seen{$_}++ } map { one_of(@columns) } 1 .. one_of(1, 1, 2, 2, 3);
	my @defs = map { "$_ " . one_of('', '', 'DESC', 'ASC NULLS FIRST', 'DESC NULLS LAST') } @cols;
	my $include = chance(0.2) ? ' INCLUDE (' . join(', ', grep { !$seen{$_}++ } (one_of(@columns), 'id')) . ')' : '';
	my $where = chance(0.15) ? " WHERE @{[qual(one_of('i2','i4','i8','bo','tc'))]}" : '';
	$where = '' if $where =~ /SELECT/;
	$indexes{$name} = [@cols];
	push @sql, "CREATE INDEX $name ON t USING :am (" . join(', ', @defs) . ")$include$where";
	return @sql;
}

sub set_list
{
	my %seen;
	return join(', ', map { "$_ = " . (chance(0.2) ? "$_" : value($_)) } grep { !$seen{$_}++ } map { one_of(@columns) } 1 .. one_of(1, 2, 3));
}

my $next_id = 1;
sub insert
{
	my ($n) = @_;
	my @rows;
	push @rows, '(' . join(', ', $next_id++, map { value($_) } @columns) . ')' for 1 .. $n;
	return 'INSERT INTO t (id, ' . join(', ', @columns) . ') VALUES ' . join(', ', @rows);
}

sub id { return 1 + int(rand($next_id)); }

sub write_statement
{
	my $dice = int(rand(100));
	my $u = one_of(0 .. 40);
	return insert(one_of(1, 1, 3, 20)) if $dice < 20;
	return 'UPDATE t SET ' . set_list() . ' WHERE id BETWEEN ' . id() . " AND @{[id()]} AND id % 5 = @{[int(rand(5))]}" if $dice < 32;
	return 'UPDATE t SET ' . set_list() . ' WHERE ' . where() if $dice < 40;
	return 'DELETE FROM t WHERE id = ' . id() if $dice < 48;
	return 'DELETE FROM t WHERE id % 11 = 3 AND ' . where() if $dice < 52;
	return "INSERT INTO u VALUES ($u, @{[value('n')]}, @{[value('tc')]})" if $dice < 60;
	return "INSERT INTO u SELECT g, g, 'g' FROM generate_series($u, $u + 3) g" if $dice < 63;
	return "UPDATE u SET k = k + @{[one_of(-1, 1, 2)]} WHERE k = $u" if $dice < 68;
	return "DELETE FROM u WHERE k = $u" if $dice < 72;
	return "INSERT INTO o VALUES ($u, 'ins') ON CONFLICT (k) DO UPDATE SET v = o.v || 'u' WHERE o.k % 7 <> 0 RETURNING *" if $dice < 78;
	return "INSERT INTO o SELECT g % 30, 'm' FROM generate_series($u, $u + 20) g ON CONFLICT DO NOTHING" if $dice < 81;
	return "MERGE INTO o USING (SELECT g AS k FROM generate_series($u, $u + 5) g) s ON o.k = s.k"
	  . " WHEN MATCHED AND s.k % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = v || 'M' WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'new')" if $dice < 88;
	return "WITH d AS (DELETE FROM u WHERE k BETWEEN $u AND $u + 2 RETURNING *), i AS (INSERT INTO o SELECT k, 'w' FROM d ON CONFLICT (k) DO UPDATE SET v = 'ww' RETURNING k) SELECT count(*) FROM i" if $dice < 92;
	return "SELECT count(*) FROM (SELECT * FROM t WHERE id % 13 = @{[int(rand(13))]} FOR " . one_of('UPDATE', 'SHARE', 'NO KEY UPDATE', 'KEY SHARE') . ') s' if $dice < 97;
	return 'TRUNCATE o' if $dice < 98;
	return "UPDATE t SET big = repeat(md5(id::text), @{[one_of(3, 100, 400)]}) WHERE id % 17 = @{[int(rand(17))]}";
}

my @ways = (
	'',
	'SET enable_seqscan = off; SET enable_bitmapscan = off;',
	'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;',
	'SET enable_seqscan = off; SET enable_sort = off;',
	'SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;',
	'SET enable_hashjoin = off; SET enable_nestloop = off;',
	'SET enable_hashjoin = off; SET enable_mergejoin = off;',
	'SET ' . lsm_force_parallel() . ' = on; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET enable_indexscan = off;');

# equal values may look different, and which of them comes first is open
sub shown
{
	my ($e) = @_;
	return $e =~ /\b(f4|f8|n|bp|iv)\b/ ? "$e = $e" : $e;
}

sub query
{
	my $dice = int(rand(100));
	my $way = one_of(@ways);
	my @names = sort keys %indexes;
	my @cols = @names ? @{ $indexes{ one_of(@names) } } : (one_of(@columns));
	my $sql;
	if    ($dice < 40) { $sql = 'SELECT * FROM t WHERE ' . where() . ' ORDER BY id'; }
	elsif ($dice < 55) { $sql = 'SELECT ' . join(', ', map { shown($_) } @cols) . ' FROM t WHERE ' . where() . ' ORDER BY ' . join(', ', map { "$_ " . one_of('', 'DESC', 'NULLS FIRST') } @cols); }
	elsif ($dice < 65) { $sql = "SELECT @{[shown($cols[0])]} FROM t WHERE " . where() . " ORDER BY $cols[0] @{[one_of('', 'DESC')]} LIMIT 20"; }
	elsif ($dice < 70 && $cols[0] !~ /^(bo|uu|na|ch|ba|tt)$/) { $sql = 'SELECT ' . shown("min($cols[0])") . ', ' . shown("max($cols[0])") . ' FROM t WHERE ' . where(); }
	elsif ($dice < 85) { $sql = "SELECT a.id, b.id FROM t a JOIN t b ON a.$cols[0] = b.$cols[0] WHERE a.id < 30 AND b.id % 3 = 0 ORDER BY 1, 2"; }
	elsif ($dice < 90) { $sql = "SELECT k, (SELECT count(*) FROM t WHERE i4 = k), (SELECT count(*) FROM t WHERE n = k) FROM u ORDER BY 1"; }
	else               { $sql = 'SELECT count(*), sum(id), md5(string_agg(t::text, $$,$$ ORDER BY id)) FROM t'; }
	(my $reset = $way) =~ s/SET (\w+) = \w+/RESET $1/g;
	return "$way $sql; $reset";
}

sub cursor
{
	my $c = one_of(@columns);
	my @sql = ("DECLARE c SCROLL CURSOR FOR SELECT id, i4 FROM t WHERE " . where() . " ORDER BY $c, id");
	my $locked = chance(0.4);
	@sql = ('DECLARE c CURSOR FOR SELECT id, i4 FROM t WHERE id % 3 = 1' . one_of('', ' FOR UPDATE')) if $locked;
	foreach (1 .. 6)
	{
		my $fetch = $locked ? one_of('FETCH c', 'MOVE 3 IN c') :
		  one_of('FETCH c', 'FETCH 5 FROM c', 'FETCH BACKWARD 2 FROM c', 'FETCH LAST FROM c', 'FETCH FIRST FROM c',
			'FETCH RELATIVE -3 FROM c', 'FETCH RELATIVE 0 FROM c', 'FETCH ABSOLUTE 4 FROM c', 'FETCH ABSOLUTE -2 FROM c', 'FETCH PRIOR FROM c');
		# heap and lsm return rows in different orders after updates
		push @sql, $fetch =~ /FETCH c/ && $locked ? 'MOVE c' : $fetch;
		push @sql, one_of('SELECT maintain(0)', 'SELECT maintain(1)', write_statement()) if chance(0.5);
	}
	push @sql, 'CLOSE c';
	return @sql;
}

sub transaction
{
	my @sql = ('BEGIN' . one_of('', '', ' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE'));
	foreach (1 .. one_of(1, 3, 6))
	{
		my $dice = int(rand(10));
		if ($dice < 4) { push @sql, write_statement(); }
		elsif ($dice < 6)
		{
			push @sql, 'SAVEPOINT s', write_statement(), one_of('SELECT maintain(0)', write_statement(), 'SELECT 1/0'),
			  query(), one_of('ROLLBACK TO s', 'ROLLBACK TO s', 'RELEASE s');
		}
		elsif ($dice < 7) { push @sql, cursor(); }
		elsif ($dice < 8) { push @sql, 'SELECT maintain(' . int(rand(2)) . ')'; }
		else              { push @sql, query(); }
	}
	push @sql, one_of('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK');
	return @sql;
}

sub script
{
	my @sql = ('SET lsm.memtable_size = ' . one_of("'64kB'", "'256kB'", "'64MB'"), 'SET DATESTYLE = ISO');
	while (@sql < $steps)
	{
		my $dice = int(rand(100));
		if    ($dice < 25) { push @sql, write_statement(); }
		elsif ($dice < 40) { push @sql, transaction(); }
		elsif ($dice < 47) { push @sql, random_index(); }
		elsif ($dice < 60) { push @sql, 'SELECT maintain(' . int(rand(2)) . ')'; }
		elsif ($dice < 64) { push @sql, one_of('VACUUM t', 'VACUUM u', 'VACUUM o', 'VACUUM FREEZE t', 'VACUUM FULL t', 'ANALYZE t', 'REINDEX TABLE t', 'REINDEX TABLE u', 'REINDEX TABLE CONCURRENTLY t', 'CLUSTER u USING u_pkey'); }
		elsif ($dice < 66) { push @sql, one_of('ALTER TABLE t ADD COLUMN IF NOT EXISTS ex int DEFAULT 5', 'ALTER TABLE t DROP COLUMN IF EXISTS ex', 'ALTER TABLE t ALTER vc TYPE text', 'ALTER TABLE t ALTER vc TYPE varchar(20)'); }
		elsif ($dice < 67) { push @sql, "SET lsm.hash_sharing = @{[one_of('on', 'off')]}"; }
		else               { push @sql, query(); }
	}
	return join(";\n", @sql) . ";\n";
}

my $node = lsm_node('twins', conf => "timezone = 'America/New_York'\nautovacuum = off");
lsm_start($node);
my %twins = (
	hb => [qw(heap btree)], hl => [qw(heap lsm_index)],
	lb => [qw(lsm btree)], ll => [qw(lsm lsm_index)]);
$node->safe_psql('postgres', q{CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')});
foreach my $twin (sort keys %twins)
{
	my ($table, $index) = @{ $twins{$twin} };
	my $list = join(', ', map { "$_ $type{$_}{sql}" } @columns);
	my $maintain = $table eq 'lsm' || $index eq 'lsm_index' ? qq{
PERFORM CASE WHEN full_merge = 1 THEN lsm_compact(c.oid) ELSE lsm_flush(c.oid) END FROM pg_class c JOIN pg_am a ON a.oid = c.relam
 WHERE c.relnamespace = '$twin'::regnamespace AND a.amname IN ('lsm', 'lsm_index');} : '';
	$node->safe_psql('postgres', qq{
CREATE SCHEMA $twin; SET search_path = $twin, public; SET lsm.constraint_index = @{[$index eq 'btree' ? 'btree' : 'lsm']};
CREATE FUNCTION maintain(full_merge int) RETURNS int LANGUAGE plpgsql AS \$\$ BEGIN $maintain RETURN full_merge; END \$\$;
CREATE TABLE t (id int, $list, big text) USING $table;
CREATE TABLE u (k int PRIMARY KEY, n numeric, v text) USING $table;
CREATE UNIQUE INDEX u_nv ON u USING $index (n, v);
CREATE TABLE o (k int PRIMARY KEY, v text) USING $table;});
	# a heap table's key is btree; give it one of ours too
	$node->safe_psql('postgres', "SET search_path = $twin; ALTER TABLE u DROP CONSTRAINT u_pkey; CREATE UNIQUE INDEX u_pkey ON u USING lsm_index (k);"
		  . 'ALTER TABLE o DROP CONSTRAINT o_pkey; ALTER TABLE o ALTER k SET NOT NULL; CREATE UNIQUE INDEX o_pkey ON o USING lsm_index (k)')
	  if $twin eq 'hl';
}

my $failed = 0;
foreach my $round (1 .. $rounds)
{
	my $script = ($round == 1 ? join(";\n", (map { insert(20) } 1 .. 10), map { random_index() } 1 .. 8) . ";\n" : '') . script();
	my %out;
	foreach my $twin (sort keys %twins)
	{
		my $file = "$PostgreSQL::Test::Utils::tmp_check/twin.$twin.sql";
		open my $fh, '>', $file or die;
		print $fh "\\set am $twins{$twin}[1]\n\\set VERBOSITY terse\n\\set ON_ERROR_ROLLBACK @{[$round % 2 ? 'on' : 'off']}\nSET search_path = $twin, public;\n$script";
		close $fh;
		my $text = `psql -XAt -f $file -d '@{[$node->connstr('postgres')]}' 2>&1`;
		$text =~ s/^psql:\S+?:(\d+):/line $1:/mg;
		# btree has nothing to say of order
		$text =~ s/^.*NOTICE:  columns? .* supports? equality only\n//mg;
		# of two that are violated, the older index reports
		$text =~ s/unique constraint "\w+"/unique constraint/g;
		$out{$twin} = $text;
	}
	foreach my $twin (qw(hl lb ll))
	{
		next if $out{$twin} eq $out{hb};
		$failed++;
		my @a = split /\n/, $out{hb};
		my @b = split /\n/, $out{$twin};
		my $i = 0;
		$i++ while defined $a[$i] && defined $b[$i] && $a[$i] eq $b[$i];
		fail("round $round: $twin as hb");
		diag("output line $i:\n hb: " . substr($a[$i] // '(end)', 0, 300) . "\n $twin: " . substr($b[$i] // '(end)', 0, 300));
		# in the test's log directory: both outputs and the script
		foreach my $t ('hb', $twin)
		{
			open my $fh, '>', "$PostgreSQL::Test::Utils::tmp_check/log/011_sql_twins_$t.log" or die;
			print $fh $out{$t};
			close $fh;
		}
		system("cp $PostgreSQL::Test::Utils::tmp_check/twin.$twin.sql $PostgreSQL::Test::Utils::tmp_check/log/011_sql_twins_$twin.sql.log");
	}
	foreach my $twin (qw(hl lb ll))
	{
		my $wrong = $node->safe_psql('postgres', "SELECT c.relname, v.* FROM pg_class c JOIN pg_am a ON a.oid = c.relam, lsm_verify(c.oid) v WHERE c.relnamespace = '$twin'::regnamespace AND c.relkind = 'r' AND a.amname IN ('lsm', 'lsm_index') OR c.relname IN ('t', 'u') AND c.relnamespace = '$twin'::regnamespace AND a.amname = 'lsm'");
		next if $wrong eq '';
		$failed++;
		is($wrong, '', "round $round: lsm_verify of $twin");
	}
	last if $failed;
	diag("$round rounds done") if $round % 20 == 0;
}
is($failed, 0, 'all twins agree');
$node->stop;
done_testing();
