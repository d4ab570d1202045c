#!/usr/bin/perl
# make check-docs: what can be checked in the documents by machine, as TAP.
#   - every link into the repository leads to a file, and to a heading in it;
#   - every source file that is named (`keyspace.c`) exists;
#   - every test that is named by number (`028_unique_race`) exists;
#   - every setting of guc.c is in docs/usage.md, with its default;
#   - every page of docs/ is in its index;
#   - README.md has at most 150 lines;
#   - META.json can be read, and its version and file are right; so are the versions of the
#     control file, debian/changelog and CHANGELOG.md;
#   - statements that people are given to run, here, in ops/, bench/ and src/bin/, call our functions
#     with a cast: to an untyped constant or an oid another's overload is the better match;
#   - statements that make statements (\gexec) are run with pg_catalog as search_path, or the names in them are
#     anybody's, and no text of a definition is edited, whose names may look like any syntax;
#   - messages that first-day.md and troubleshooting.md explain are in the sources;
#   - deliberate faults (src/test/mutants) apply to the sources as they are, without fuzz;
#   - lines have at most 80 columns, but in tables, code, links and the
#     measurements of bench/.
use strict;
use warnings;
use File::Basename qw(basename dirname);
use File::Find;
use File::Spec;
use JSON::PP ();

$| = 1;

chdir dirname(__FILE__) . '/../..' or die;

my ($n, $failed) = (0, 0);

sub result
{
	my ($name, @bad) = @_;
	$n++;
	print(@bad ? 'not ok' : 'ok', " $n - $name\n", map { "# $_\n" } @bad);
	$failed++ if @bad;
	return;
}

sub slurp
{
	my ($file) = @_;
	local $/;
	open my $fh, '<:encoding(UTF-8)', $file or die "$file: $!";
	return scalar <$fh>;
}

my (@pages, %file);
find({ no_chdir => 1, wanted => sub {
	$File::Find::prune = 1, return if $_ =~ m{^\./(build|\.git)$};
	return unless -f $_;
	push @pages, substr($_, 2) if /\.md$/;
	$file{ basename($_) } = 1;
} }, '.');
@pages = sort @pages;

# Anchors of a page, as the usual viewers make them of its headings
my %anchors;

sub anchors
{
	my ($page) = @_;
	return $anchors{$page} if $anchors{$page};
	my (%seen, $code);
	foreach my $line (split /\n/, slurp($page))
	{
		$code = !$code if $line =~ /^\s*```/;
		next if $code || $line !~ /^#+ +(.*?) *$/;
		my $anchor = lc $1;
		$anchor =~ s/\[([^]]*)\]\([^)]*\)/$1/g;
		$anchor =~ s/[^\w\- ]//g;
		$anchor =~ s/ /-/g;
		my $times = $seen{$anchor}++;
		$anchors{$page}{ $times ? "$anchor-$times" : $anchor } = 1;
	}
	return $anchors{$page} //= {};
}

sub without_code
{
	my ($text) = @_;
	$text =~ s/^[ ]*```.*?^[ ]*```$//msg;
	return $text;
}

my (@links, @sources, @tests, @long);
foreach my $page (@pages)
{
	my $text = slurp($page);
	my $prose = without_code($text);
	(my $plain = $prose) =~ s/`[^`\n]*`//g;

	while ($plain =~ /\]\(([^)\s]+)\)/g)
	{
		my $link = $1;
		next if $link =~ /^https?:/;
		my ($path, $anchor) = split /#/, $link, 2;
		my $target = $page;
		if ($path ne '')
		{
			$target = File::Spec->canonpath(dirname($page) . "/$path");
			1 while $target =~ s{[^/]+/\.\./}{};
		}
		if (!-e $target)
		{
			push @links, "$page: $link";
		}
		elsif (defined $anchor && $anchor ne '' && !anchors($target)->{$anchor})
		{
			push @links, "$page: $link: no such heading";
		}
	}
	while ($prose =~ /`(?:[\w.\/]*\/)?(\w+\.(?:c|cc|h|sh|py|pl|pm))`/g)
	{
		my $name = $1;
		# NAME stands for any, postgres.h is the server's
		next if $name =~ /NAME|NNN|^postgres\.h$/;
		push @sources, "$page: $name" unless $file{$name};
	}
	while ($prose =~ /`(\d\d\d_\w+?)(?:\.pl)?`/g)
	{
		push @tests, "$page: $1" unless $file{"$1.pl"};
	}
	next if $page =~ m{^bench/};
	my ($code, $i) = (0, 0);
	foreach my $line (split /\n/, $text)
	{
		$i++;
		if ($line =~ /^\s*```/) { $code = !$code; next; }
		next if $code || length($line) <= 80 || $line =~ /^\s*\|/ || $line =~ /\]\(\S{20,}\)/;
		push @long, "$page:$i: " . length($line) . ' columns';
	}
}
result('links lead to files and headings', @links);
result('source files that are named exist', @sources);
result('tests that are named exist', @tests);
result('lines have at most 80 columns', @long);

my $takes_relation = qr/lsm_(?:verify|flush|compact|levels|files|filters|advise|report|relation_size|table_size|total_relation_size|indexes_size|compression)/;
my @uncast;
foreach my $file ((grep { $_ ne 'CHANGELOG.md' } @pages), sort grep { -f } glob('ops/* bench/*.sh bench/*/* src/bin/*'))
{
	my $text = slurp($file);
	while ($text =~ /\b($takes_relation\(\s*(?:ARRAY\[\s*)?(?:'[^'\n]*'|\$\d+|:'?\w+'?|%\w|(?:\w+\.)?\w*(?:oid|relid))(?!\w|\s*::\s*(?:pg_catalog\.)?regclass))/g)
	{
		push @uncast, "$file: $1";
	}
}
result('our functions are called with a cast to regclass', @uncast);

my @open;
foreach my $page (grep { $_ ne 'CHANGELOG.md' } @pages)
{
	my $text = slurp($page);
	while ($text =~ /^```(?:sql|sh)\n(.*?)^```$/msg)
	{
		# each session is one
		foreach my $session (split /<<'?SQL'?\n/, $1)
		{
			my ($before) = $session =~ /\A(.*?)\\gexec/s or next;
			push @open, "$page: " . (split /\n/, $before)[-1] unless $before =~ /^SET search_path = pg_catalog;$/m;
		}
	}
	push @open, "$page: $1" while $text =~ /((?:replace|substring|substr|overlay|split_part)\((?:[^;`]*?\b)?pg_get_\w+def\()/g;
}
result('statements that make statements have their search_path, and edit no definition', @open);

my @settings;
my $usage = slurp('docs/usage.md');
my $guc = (grep { -f $_ } glob('src/guc.c src/*/guc.c'))[0];
my $source = slurp($guc);
while ($source =~ /DefineCustom(\w+)Variable\("(lsm\.\w+)",.*?&lsm_\w+,\s*([^,;]+),/sg)
{
	my ($type, $name, $default) = ($1, $2, $3);
	next if $name eq 'lsm.crash_point' || $name eq 'lsm.second_opinion' || $name eq 'lsm.directory_tag_bits';
	my ($shown) = $usage =~ /^\| `\Q$name\E` \| ([^|]*?) \|/m;
	if (!defined $shown)
	{
		push @settings, "$name is not in docs/usage.md";
		next;
	}
	my $said = $shown =~ /^(\d+)(kB|MB)$/ ? $1 * ($2 eq 'MB' ? 1024 : 1) : $shown;
	$said = $1 * { ms => 1, s => 1000, min => 60000 }->{$2} if $shown =~ /^(\d+)(ms|s|min)$/;
	$said = { on => 'true', off => 'false' }->{$said} // $said;
	push @settings, "$name: docs/usage.md says $shown, $guc $default"
	  if ($type eq 'Enum' ? $default !~ /_\U$said\E$|_ON_\U$said\E$/
		: $type eq 'Bool' ? $default ne $said
		: $type eq 'String' ? $default ne qq{"$said"} : $default != $said);
}
my $model = `python3 bench/scale_model.py --check docs/scale.md 2>&1`;
result('the table of docs/scale.md is what bench/scale_model.py prints', $? == 0 ? () : $model);

result('settings and their defaults are in docs/usage.md', @settings);

# those of the macros' own definitions have no string
my %waits;
$waits{$_}++ foreach map { slurp($_) =~ /\bLSM_(?:WAIT_EVENT\(|NAP\([^;"]*)"(\w+)"/g } split /\n/, `git ls-files 'src/*.c' 2>/dev/null || find src -name '*.c'`;
my ($events) = slurp('docs/usage.md') =~ /^What processes wait for(.*?)^In `psql`/ms;
my %told = map { $_ => 1 } map { /`(Lsm\w+)`/g } grep { /^\| `Lsm/ } split /\n/, $events;
result('docs/usage.md tells every wait event, and no other',
	(map { "docs/usage.md lacks $_" } grep { !$told{$_} } sort keys %waits),
	(map { "docs/usage.md has $_, which is nowhere" } grep { !$waits{$_} } sort keys %told));

my $index = slurp('docs/README.md');
result('docs/README.md lists every page',
	grep { $_ ne 'docs/README.md' && index($index, '(' . basename($_) . ')') < 0 }
	  grep { m{^docs/} } @pages);

my $lines = () = slurp('README.md') =~ /\n/g;
result('README.md has at most 150 lines', $lines <= 150 ? () : "$lines lines");

my @meta;
my $meta = eval { JSON::PP->new->decode(slurp('META.json')) };
my ($version) = slurp('Makefile') =~ /^LSM_VERSION := (\S+)$/m;
push @meta, "META.json: $@" unless $meta;
if ($meta)
{
	my $provided = $meta->{provides}{lsmam};
	push @meta, "META.json: no file $provided->{file}" unless -f $provided->{file};
	# three numbers there, two here
	push @meta, "META.json: version $_ is not $version" for grep { $_ ne "$version.0" } $meta->{version}, $provided->{version};
}
push @meta, 'lsmam.control: another version'
  unless slurp('lsmam.control') =~ /^default_version = '\Q$version\E'$/m;
my ($packaged) = slurp('debian/changelog') =~ /^lsmam \((\S+)-[^-)]+\)/;
push @meta, "debian/changelog: version $packaged is not $version.0" unless $packaged eq "$version.0";
push @meta, "CHANGELOG.md: the newest is not $version"
  unless slurp('CHANGELOG.md') =~ /^## (\S+?),/m && $1 eq $version;
result('META.json, lsmam.control, debian/changelog, CHANGELOG.md and Makefile agree', @meta);

my $sources = join('', map { slurp($_) } split /\n/, `git ls-files 'src/*.c' 'src/*.cc' 2>/dev/null || find src -name '*.c' -o -name '*.cc'`) =~ s/"\s*\n?\s*(?:PRI\w+\s*|UINT64_FORMAT\s*)?"//gr;
my @told;
foreach my $page ('docs/first-day.md', 'docs/troubleshooting.md')
{
	my ($section) = slurp($page) =~ /^## (?:Ten messages|Messages)\n(.*?)^## /ms;
	foreach my $message ($section =~ /^\| `([^`]+)`/gm)
	{
		# PostgreSQL's own
		next if $message =~ /^(access method "lsm" does not exist|could not access file|missing operator)/;
		my @parts = grep { length > 8 } map { s/^\s+|\s+$//gr }
		  split /\.\.\.|"[^"]*"|\b[NM]\b|\b60\b|pg_lsm\/|: No space left on device|: /, $message =~ s/^could not write sorted file/could not %s %s/r;
		push @told, "$page: $message" if !@parts || grep { index($sources, $_) < 0 } @parts;
	}
}
result('messages that are explained are those of the sources', @told);

result('deliberate faults apply to the sources', grep { system("patch -p1 --dry-run -s -f -F0 <'$_' >/dev/null 2>&1") != 0 } glob('src/test/mutants/*.patch'));

print "1..$n\n";
exit($failed ? 1 : 0);
