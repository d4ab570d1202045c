# Logical decoding compared between databases: a reader of pgoutput's messages, what differs for good
# reasons (xids, positions, oids, times) taken out of the output of plugins, and a ledger that applies
# a stream to nothing and has to arrive at the table.
package LsmDecode;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(decode_allow_plugins decode_pgoutput decode_text decode_json decode_committed decode_applied decode_transactions decode_ledger);

# A line of postgresql.conf: minor releases since November 2026 load output plugins of a list only
sub decode_allow_plugins
{
	return '' unless `postgres --describe-config` =~ /^output_plugin_libraries\t/m;
	return "output_plugin_libraries = 'test_decoding, pgoutput, wal2json, pglogical_output'\n";
}

# Names instead of numbers that differ: the first seen is 1
sub ordinal { my ($seen, $x) = @_; return $seen->{$x} //= 1 + keys %$seen; }

# What a scenario names after its database; and positions and files, which errors tell
sub rename_database { return $_[0] =~ s/_(?:heap2?|lsmb?)\b/_db/gr =~ s,\bLSN [0-9A-F]+/[0-9A-F]+,LSN,gr =~ s,"base/\d+/\d+",a file,gr; }

# ---- pgoutput ----

{
	package LsmDecode::Reader;

	sub new { my ($class, $bytes) = @_; return bless { bytes => $bytes, at => 0 }, $class; }

	sub take
	{
		my ($self, $n) = @_;
		die 'a pgoutput message is too short' if $self->{at} + $n > length $self->{bytes};
		$self->{at} += $n;
		return substr $self->{bytes}, $self->{at} - $n, $n;
	}
	sub int8 { return unpack 'C', $_[0]->take(1); }
	sub int16 { return unpack 'n', $_[0]->take(2); }
	sub int32 { return unpack 'N', $_[0]->take(4); }
	sub skip { $_[0]->take($_[1]); return; }
	sub char { return $_[0]->take(1); }
	sub left { return length($_[0]{bytes}) - $_[0]{at}; }
	sub string
	{
		my ($self) = @_;
		my $end = index $self->{bytes}, "\0", $self->{at};
		die 'a pgoutput string without end' if $end < 0;
		my $string = $self->take($end - $self->{at});
		$self->skip(1);
		return $string;
	}

	# undef is NULL, \'' what TOAST kept
	sub tuple
	{
		my ($self) = @_;
		my @values;
		foreach (1 .. $self->int16)
		{
			my $kind = $self->char;
			push @values, $kind eq 'n' ? undef : $kind eq 'u' ? \'' : $kind =~ /[tb]/ ? $self->take($self->int32) : die "column of kind \"$kind\"";
		}
		return \@values;
	}
}

sub read_relation
{
	my ($in, $s) = @_;
	my $oid = $in->int32;
	my $relation = { name => join('.', $in->string, $in->string), identity => chr $in->int8, columns => [] };
	foreach (1 .. $in->int16)
	{
		my ($key, $name, $type, $mod) = ($in->int8, $in->string, $in->int32, $in->int32);
		push @{ $relation->{columns} }, { key => $key, name => $name, type => $s->{types}{$type} // ($type < 16384 ? $type : 'an own type'), mod => $mod };
	}
	$s->{relations}{$oid} = $relation;
	return { op => 'R', relation => $relation };
}

sub read_change
{
	my ($in, $s, $op) = @_;
	my $oid = $in->int32;
	my $change = { op => $op, relation => $s->{relations}{$oid} // die 'a change of an unknown relation' };
	while ($in->left > 0)
	{
		my $which = $in->char;
		die "a tuple of kind \"$which\"" if $which !~ /[KON]/;
		$change->{$which} = $in->tuple;
	}
	return $change;
}

# One message as a hash: what it says, without positions and times
sub read_message
{
	my ($in, $s) = @_;
	my $op = $in->char;
	my %m = (op => $op);
	my $xid = sub { $m{xid} = $in->int32; };
	if ($op eq 'B') { $in->skip(16); $xid->(); }
	elsif ($op eq 'C') { $m{flags} = $in->int8; $in->skip(24); }
	elsif ($op eq 'O') { $in->skip(8); $m{text} = $in->string; }
	elsif ($op eq 'S') { $xid->(); $m{text} = $in->int8; $s->{streaming} = 1; }
	elsif ($op eq 'E') { $s->{streaming} = 0; }
	elsif ($op eq 'c') { $xid->(); $m{flags} = $in->int8; $in->skip(24); }
	elsif ($op eq 'A') { $xid->(); $m{sub} = $in->int32; $in->skip($in->left); }
	elsif ($op eq 'b') { $in->skip(24); $xid->(); $m{text} = $in->string; }
	elsif ($op =~ /^[PKp]$/) { $m{flags} = $in->int8; $in->skip(24); $xid->(); $m{text} = $in->string; }
	elsif ($op eq 'r') { $m{flags} = $in->int8; $in->skip(32); $xid->(); $m{text} = $in->string; }
	else
	{
		$xid->() if $s->{streaming};
		if ($op eq 'R') { %m = (%m, %{ read_relation($in, $s) }); }
		elsif ($op eq 'Y') { my $oid = $in->int32; $m{text} = $s->{types}{$oid} = join '.', $in->string, $in->string; }
		elsif ($op =~ /^[IUD]$/) { %m = (%m, %{ read_change($in, $s, $op) }); }
		elsif ($op eq 'T')
		{
			my $n = $in->int32;
			$m{flags} = $in->int8;
			$m{text} = join ' ', map { $s->{relations}{ $in->int32 }{name} } 1 .. $n;
		}
		elsif ($op eq 'M')
		{
			$m{flags} = $in->int8;
			$in->skip(8);
			$m{text} = $in->string;
			$m{text} .= ' ' . $in->take($in->int32);
		}
		else { die "a pgoutput message of kind \"$op\""; }
	}
	die "a pgoutput message \"$op\" has " . $in->left . ' bytes too many' if $in->left > 0;
	return \%m;
}

sub show_value
{
	my ($v) = @_;
	return 'NULL' unless defined $v;
	return 'kept' if ref $v;
	return "'" . ($v =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ger) . "'";
}

sub show_message
{
	my ($m) = @_;
	my @parts = ($m->{op}, map({ defined $m->{$_} ? "$_=$m->{$_}" : () } 'xid', 'sub', 'flags', 'text'));
	if (my $r = $m->{relation})
	{
		push @parts, $r->{name};
		push @parts, "identity=$r->{identity}", map { "$_->{name}:$_->{type}:$_->{mod}" . ($_->{key} ? ':key' : '') } @{ $r->{columns} } if $m->{op} eq 'R';
	}
	push @parts, map { my $which = $_; $m->{$which} ? ("$which:", map { show_value($_) } @{ $m->{$which} }) : () } 'K', 'O', 'N';
	return rename_database(join ' ', @parts);
}

# Lines of hex, one a message, to messages
sub decode_messages
{
	my ($text) = @_;
	my %state = (relations => {}, types => {}, streaming => 0);
	return map { read_message(LsmDecode::Reader->new(pack 'H*', $_), \%state) } split /\n/, $text;
}

# Each message told which transaction it is of
sub messages_of
{
	my @messages = decode_messages(@_);
	my ($now, $streamed);
	foreach my $m (@messages)
	{
		# a change in a block has the xid of its subtransaction
		$now = $m->{xid} if defined $m->{xid} && !$streamed;
		$streamed = $m->{op} eq 'S' || $streamed && $m->{op} ne 'E';
		$m->{of} = $now;
	}
	return @messages;
}

# ... and to lines, of the transactions that are wanted
sub decode_pgoutput
{
	my ($text, $wanted) = @_;
	my %xids;
	my @lines;
	foreach my $m (messages_of($text))
	{
		next if $wanted && !$wanted->($m->{of});
		foreach (grep { defined $m->{$_} } 'xid', 'sub') { $m->{$_} = ordinal(\%xids, $m->{$_}); }
		push @lines, show_message($m);
	}
	return @lines;
}

# ---- test_decoding ----

# Lines, each with the transaction it is of, not streamed
sub text_lines
{
	my ($text) = @_;
	my $now;
	return map {
		$now = $1 if /^(?:BEGIN|(?:COMMIT|ROLLBACK) PREPARED .* txid) (\d+)$/;
		{ text => $_, of => $now };
	} split /\n/, $text;
}

sub decode_text
{
	my ($text, $wanted) = @_;
	my %xids;
	# an xid stands behind these words only
	return map { rename_database($_->{text} =~ s/^((?:BEGIN|COMMIT)(?: PREPARED)?|.*\b(?:TXN|txid))(:?) (\d+)/"$1$2 x" . ordinal(\%xids, $3)/er) }
	  grep { !$wanted || $wanted->($_->{of}) } text_lines($text);
}

# ---- what was rolled back ----

# What of a transaction is streamed that was rolled back before it was decoded, or decoded at its PREPARE, ends where
# the decoder first looks into a catalog and sees that: caches decide.  Where blocks end depends on sizes in memory.

# The xids of transactions that were committed, from test_decoding's stream of these
sub decode_committed { my ($text) = @_; return $text =~ /^BEGIN (\d+)$/mg; }

# The changes that are left of pgoutput's stream, blocks or not, in the order of commits: what a subscriber applies
sub decode_applied
{
	my ($text) = @_;
	my (%changes, @lines);
	foreach my $m (messages_of($text))
	{
		my $of = $m->{of};
		if ($m->{op} =~ /^[IUDTM]$/) { push @{ $changes{$of} }, { xid => delete $m->{xid} // $of, line => show_message($m) }; }
		elsif ($m->{op} eq 'A') { $changes{$of} = [ $m->{sub} == $of ? () : grep { $_->{xid} != $m->{sub} } @{ $changes{$of} } ]; }
		elsif ($m->{op} eq 'r') { delete $changes{$of}; }
		elsif ($m->{op} =~ /^[CcK]$/)
		{
			my @left = map { $_->{line} } @{ delete $changes{$of} // [] };
			push @lines, 'transaction', @left if @left;
		}
	}
	return @lines;
}

# ---- wal2json ----

# Transactions of other relations leave empty ones
sub decode_json
{
	my ($text) = @_;
	$text =~ s/^\{"action":"B"\}\n\{"action":"C"\}\n//mg;
	$text =~ s/^\{"change":\[\]\}\n//mg;
	# format 1: one change a line
	return map { rename_database($_) } split /\n/, $text unless $text =~ /^\{"change":\[/;
	$text =~ s/\},\{"kind"/},\n{"kind"/g;
	$text =~ s/^\{"change":\[/$&\n/mg;
	$text =~ s/\]\}$/\n]}/mg;
	return map { rename_database($_) } split /\n/, $text;
}

# ---- for both ----

# The lines of each transaction sorted, for statements whose order of rows is nobody's promise
sub decode_transactions
{
	my (@lines) = @_;
	my (@sorted, @rows);
	foreach (@lines)
	{
		if (/^(?:table |[IUD] |\{"(?:action":"[IUD]"|kind"))/) { push @rows, s/,$//r; next; }
		push @sorted, sort(@rows), $_;
		@rows = ();
	}
	return (@sorted, sort @rows);
}

# Rows by relation and first column, which is the key, as they are when all of the stream has been applied to
# those given; dies of a change that does not fit.  For streams without chunks.
sub decode_ledger
{
	my ($text, $rows) = @_;
	foreach my $m (decode_messages($text))
	{
		if ($m->{op} eq 'T') { delete @{$rows}{ split / /, $m->{text} }; }
		next if $m->{op} !~ /^[IUD]$/;
		my ($r, $n) = ($m->{relation}, $m->{N});
		my $table = $rows->{ $r->{name} } //= {};
		my $old = $m->{K} // $m->{O} // ($m->{op} eq 'U' ? $n : undef);
		my $gone;
		if (defined $old)
		{
			my $key = $old->[0];
			$gone = delete $table->{$key};
			die "$m->{op} of row $key of $r->{name}, which is not there" unless defined $gone;
		}
		next unless defined $n;
		my $key = $n->[0];
		die "$m->{op} makes row $key of $r->{name}, which is there" if defined $table->{$key};
		$table->{$key} = [ map { ref $n->[$_] ? $gone->[$_] : $n->[$_] } 0 .. $#$n ];
	}
	return $rows;
}

1;
