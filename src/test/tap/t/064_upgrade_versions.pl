# pg_upgrade between versions: from each to each later one by copy and by link, and step by step through all.  Tables are
# equal to their heap twins, keys have the access method that they had, lsm_verify finds nothing, and all goes on.
# LSM_OLD_INSTALLS names the installations (directories with bin and lib), oldest first; the last step leads to the
# version under test.
use strict;
use warnings;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Spec::Functions qw(rel2abs);

my @old = split ' ', $ENV{LSM_OLD_INSTALLS} // '';
plan(skip_all => 'LSM_OLD_INSTALLS is not set: make check-upgrade does it') unless @old;
lsm_seed();
my $work = PostgreSQL::Test::Utils::tempdir();    # pg_upgrade writes where it is run
my $here = (split /\n/, `which pg_upgrade`)[0] =~ s,/bin/pg_upgrade$,,r;
my @installs = (@old, $here);

sub cluster
{
	my ($name, $install) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, $install eq $here ? () : (install_path => $install));
	# 18's initdb turns checksums on
	my @sums = $install =~ /\b1[5-7]$/ ? () : ('--no-data-checksums');
	$node->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8', @sums ]);
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'lsmam'\nautovacuum = off\nfsync = off\nlsm.memtable_size = 64kB\nlsm.target_file_size = 64kB");
	return $node;
}

sub old_cluster
{
	my ($name, $install) = @_;
	my $old = cluster($name, $install);
	$old->start;
	note($old->safe_psql('postgres', 'CREATE EXTENSION lsmam; SELECT lsm_full_version()'));
	foreach my $x ([ 'h', 'heap' ], [ 'l', 'lsm' ])
	{
		my ($name, $am) = @$x;
		$old->safe_psql('postgres', <<"SQL");
SET default_table_access_method = $am;
CREATE TABLE t_$name (id int PRIMARY KEY, n int, v text, m numeric, at timestamptz, j jsonb, a int[], u uuid);
CREATE INDEX t_${name}_v ON t_$name USING @{[ $am eq 'lsm' ? 'lsm' : 'btree' ]} (v, n);
CREATE INDEX t_${name}_m ON t_$name USING @{[ $am eq 'lsm' ? 'lsm' : 'btree' ]} (m);
CREATE UNIQUE INDEX t_${name}_u ON t_$name (u, id);
CREATE TABLE p_$name (a int, b text, PRIMARY KEY (a, b)) PARTITION BY LIST (a);
CREATE TABLE p1_$name PARTITION OF p_$name FOR VALUES IN (1);
CREATE TABLE p2_$name PARTITION OF p_$name FOR VALUES IN (2);
CREATE TABLE f_$name (id int PRIMARY KEY REFERENCES t_$name);
INSERT INTO t_$name SELECT g, g % 50, 'v' || g % 300, g / 7.0, '2026-01-01'::timestamptz + g * interval '1 hour', jsonb_build_object('g', g), ARRAY[g, -g], md5(g::text)::uuid FROM generate_series(1, 6000) g;
INSERT INTO p_$name SELECT 1 + g % 2, 'b' || g FROM generate_series(1, 2000) g;
INSERT INTO f_$name SELECT g FROM generate_series(1, 500) g;
UPDATE t_$name SET v = 'changed', n = n + 100 WHERE id % 11 = 0;
DELETE FROM t_$name WHERE id > 500 AND id % 5 = 0;
SQL
	}
	$old->safe_psql('postgres', q{SELECT lsm_flush('t_l'), lsm_flush('p1_l'); UPDATE t_l SET v = 'late' WHERE id % 100 = 1; UPDATE t_h SET v = 'late' WHERE id % 100 = 1});
	return $old;
}

my @queries = map { my $t = $_; map { s/%s/$t/gr } ('SELECT * FROM t_%s ORDER BY id', 'SELECT * FROM p_%s ORDER BY a, b', 'SELECT * FROM f_%s ORDER BY id',
		q{SET enable_seqscan = off; SELECT id FROM t_%s WHERE v = 'v7' ORDER BY n, id}, q{SET enable_seqscan = off; SELECT id FROM t_%s WHERE m BETWEEN 10 AND 20 ORDER BY m, id},
		q{SET enable_seqscan = off; SELECT id FROM t_%s WHERE u = md5('77')::uuid ORDER BY id}) } 'h', 'l';
sub answers { my ($node) = @_; return map { $node->safe_psql('postgres', $_) } @queries; }
sub access_methods { my ($node) = @_; return $node->safe_psql('postgres', q{SELECT c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.relname ~ '_[hl](_|$)' ORDER BY 1}); }

sub check_cluster
{
	my ($node, $what, $methods, @before) = @_;
	my @now = answers($node);
	my $half = @now / 2;
	is_deeply([ @now[ 0 .. $half - 1 ] ], [ @now[ $half .. $#now ] ], "$what: twins are equal");
	is_deeply(\@now, \@before, "$what: and as they were") if @before;
	is(access_methods($node), $methods, "$what: every index has its access method") if $methods;
	is($node->safe_psql('postgres', join ';', map { "SELECT '$_', * FROM lsm_verify('$_')" } 't_l', 'p1_l', 'p2_l', 'f_l'), '', "$what: lsm_verify");
	return;
}

sub go_on
{
	my ($node, $what) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', q{INSERT INTO t_l (id) VALUES (1)});
	like($err, qr/duplicate key value/, "$what: keys are known");
	($rc, $out, $err) = $node->psql('postgres', q{INSERT INTO f_l VALUES (999999)});
	like($err, qr/foreign key/, "$what: foreign keys hold");
	my $from = 1 + $node->safe_psql('postgres', 'SELECT max(id) FROM t_h');
	foreach my $x ('h', 'l')
	{
		$node->safe_psql('postgres', "INSERT INTO t_$x SELECT $from + g, g % 50, 'n' || g % 300, g / 3.0, '2027-01-01', '{}', '{}', md5(g::text)::uuid FROM generate_series(1, 2000) g; UPDATE t_$x SET n = n + 1 WHERE id % 7 = 0; DELETE FROM t_$x WHERE id > 500 AND id % 13 = 0; INSERT INTO p_$x VALUES (1, 'p' || $from); INSERT INTO t_$x (id, v) VALUES (2, 'again') ON CONFLICT (id) DO UPDATE SET v = excluded.v || $from");
	}
	$node->safe_psql('postgres', q{SELECT lsm_compact('t_l'); VACUUM FREEZE t_l; VACUUM t_h});
	$node->stop('immediate');
	$node->start;
	return;
}

sub upgrade
{
	my ($from, $from_install, $to, $to_install, @more) = @_;
	my $out = '';
	my $ok = IPC::Run::run([ "$to_install/bin/lsm_pg_upgrade", '-b', "$from_install/bin", '-B', "$to_install/bin", '-d', rel2abs($from->data_dir), '-D', rel2abs($to->data_dir),
			'-p', $from->port, '-P', $to->port, '-s', $from->host, @more ], '<', \undef, '>', \$out, '2>&1', init => sub { chdir $work });
	note($out);
	ok($ok, $to->name . ': lsm_pg_upgrade') and return;
	foreach my $log (glob rel2abs($to->data_dir) . '/pg_upgrade_output.d/*/log/*')
	{
		my @lines = split /\n/, slurp_file($log);
		diag(join "\n", $log, @lines[ (@lines > 12 ? -12 : 0) .. -1 ]) if grep { /error|fatal/i } @lines;
	}
	BAIL_OUT('nothing to go on with');
}

# From one cluster, which is running, to a new one; returns that, stopped
sub step
{
	my ($from, $from_install, $name, $install, $mode) = @_;
	my $methods = access_methods($from);
	my @before = answers($from);
	forget_stamps($from, $install);
	my $to = cluster($name, $install);
	$from->stop;
	upgrade($from, $from_install, $to, $install, $mode eq 'link' ? '--link' : ());
	$to->start;
	check_cluster($to, $name, $methods, @before);
	is($to->safe_psql('postgres', q{SHOW server_version}) =~ /^(\d+)/ ? $1 : '', $install =~ /(\d+)$/ ? $1 : '', "$name: it is that version");
	$to->safe_psql('postgres', 'ALTER EXTENSION lsmam UPDATE');
	go_on($to, $name);
	check_cluster($to, "$name, later");
	if ($mode eq 'copy')
	{
		$from->start;
		is_deeply([ answers($from) ], \@before, "$name: the old cluster is as it was");
	}
	return $to;
}

my %knows_stamps;
sub forget_stamps
{
	my ($node, $install) = @_;
	if (!exists $knows_stamps{$install})
	{
		my $probe = cluster('probe_' . keys %knows_stamps, $install);
		$probe->start;
		$knows_stamps{$install} = lsm_knows_stamps($probe);
		$probe->stop;
	}
	lsm_forget_stamps($node, 'postgres', 'template1') if !$knows_stamps{$install};
	return;
}

foreach my $i (0 .. $#installs - 1)
{
	my $version = $installs[$i] =~ /(\d+)$/ ? $1 : '';
	my $old = old_cluster("from_$version", $installs[$i]);
	my $methods = access_methods($old);
	like($methods, qr/f_l_pkey\|lsm_index/, 'a key is lsm_index');
	my $referenced = $version >= 18 ? 'lsm_index' : 'btree';
	like($methods, qr/t_l_pkey\|$referenced/, "one that a foreign key references is $referenced");
	like($methods, qr/t_l_v\|lsm_index/, 'an index is lsm_index');
	check_cluster($old, $old->name);
	go_on($old, $old->name);
	my $linked;
	foreach my $j (reverse $i + 1 .. $#installs)
	{
		my $to = $installs[$j] =~ /(\d+)$/ ? $1 : '';
		step($old, $installs[$i], "from_${version}_to_${to}_copy", $installs[$j], 'copy')->stop;
		# after --link the old cluster must not be started again
		$linked = step($old, $installs[$i], "from_${version}_to_${to}_link", $installs[$j], 'link') if $j == $i + 1;
	}
	next if $i > 0;

	# ---- the others in turn ----
	foreach my $j (1 .. $#installs - 1)
	{
		my $to = $installs[ $j + 1 ] =~ /(\d+)$/ ? $1 : '';
		$linked = step($linked, $installs[$j], "on_to_$to", $installs[ $j + 1 ], 'link');
	}
	$linked->stop;
}
done_testing();
