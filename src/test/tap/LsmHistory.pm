# Histories of transactions that append to lists and read them, and what is wrong with them: as Elle does it
# (Kingsbury, Alvaro: Elle, VLDB 2020).  Each appended number is unique, so a list tells in which order its transactions
# wrote, and what a reader saw of it tells after whom he came and before whom.
package LsmHistory;

use strict;
use warnings;

use Exporter 'import';
our @EXPORT = qw(history_anomalies);

# history_anomalies($level, \%final, @transactions): texts.  level: rc, rr or ser; final: key => [ list at the end ]; a
# transaction: { id, status => ok | fail | unknown, ops => [ [ 'a', key, number ] | [ 'r', key, [ list ] ] ] }.
sub history_anomalies
{
	my ($level, $final, @transactions) = @_;
	my (@wrong, %writer, %position, %last_of);

	foreach my $t (@transactions)
	{
		foreach my $op (grep { $_->[0] eq 'a' } @{ $t->{ops} })
		{
			$writer{ $op->[2] } = $t;
			push @{ $last_of{ $t->{id} }{ $op->[1] } }, $op->[2];
		}
	}
	foreach my $key (sort keys %$final)
	{
		my @list = @{ $final->{$key} };
		my $n = 0;
		foreach my $x (@list)
		{
			push @wrong, "list $key has $x twice" if exists $position{$x};
			$position{$x} = $n++;
			push @wrong, "list $key has $x, which nobody has appended" unless $writer{$x};
			push @wrong, "list $key has $x of transaction $writer{$x}{id}, which was rolled back (G1a)" if $writer{$x} && $writer{$x}{status} eq 'fail';
		}
	}
	# a transaction whose end is unknown has committed if its numbers are there
	foreach my $t (@transactions)
	{
		my @appended = map { $_->[2] } grep { $_->[0] eq 'a' } @{ $t->{ops} };
		my $there = grep { exists $position{$_} } @appended;
		push @wrong, "transaction $t->{id} has committed, and $there of " . @appended . ' of its numbers are there' if $t->{status} eq 'ok' && $there < @appended;
		push @wrong, "transaction $t->{id} is there in part" if $there > 0 && $there < @appended;
		$t->{committed} = $t->{status} eq 'ok' || ($t->{status} eq 'unknown' && @appended > 0 && $there > 0);
	}
	push @wrong, check_reads($_, $final, \%writer, \%last_of) foreach grep { $_->{status} ne 'fail' || 1 } @transactions;
	return @wrong if @wrong;
	return find_cycles($level, $final, \%writer, grep { $_->{committed} } @transactions);
}

# What a transaction read is the beginning of the list, and nothing that was between two writes of another one
sub check_reads
{
	my ($t, $final, $writer, $last_of) = @_;
	my (@wrong, %own);
	foreach my $op (@{ $t->{ops} })
	{
		my ($kind, $key, $what) = @$op;
		if ($kind eq 'a') { push @{ $own{$key} }, $what; next; }
		my @seen = @$what;
		my @mine = @{ $own{$key} // [] };
		my @theirs = @seen;
		foreach my $x (reverse @mine)
		{
			push @wrong, "transaction $t->{id} does not see its own $x in list $key" unless @theirs && $theirs[-1] == $x;
			pop @theirs;
		}
		my @list = @{ $final->{$key} // [] };
		foreach my $i (0 .. $#theirs)
		{
			next if defined $list[$i] && $list[$i] == $theirs[$i];
			push @wrong, "transaction $t->{id} has read [@theirs] of list $key, which is [@list] in the end";
			last;
		}
		next unless @theirs;
		my $of = $writer->{ $theirs[-1] } or next;
		my @all = @{ $last_of->{ $of->{id} }{$key} };
		push @wrong, "transaction $t->{id} has read list $key between two writes of transaction $of->{id} (G1b)" if $of != $t && $all[-1] != $theirs[-1];
	}
	return @wrong;
}

# Who depends on whom: ww (wrote after), wr (read it), rw (read what the other one overwrote).
sub find_cycles
{
	my ($level, $final, $writer, @transactions) = @_;
	my (%edge, @wrong);
	my %known = map { $_->{id} => $_ } @transactions;
	my $add = sub {
		my ($from, $to, $kind) = @_;
		return if !$from || !$to || $from == $to || !$known{ $from->{id} } || !$known{ $to->{id} };
		$edge{ $from->{id} }{ $to->{id} }{$kind} = 1;
	};
	foreach my $key (keys %$final)
	{
		my @list = @{ $final->{$key} };
		$add->($writer->{ $list[ $_ - 1 ] }, $writer->{ $list[$_] }, 'ww') foreach 1 .. $#list;
	}
	foreach my $t (@transactions)
	{
		my %own;
		foreach my $op (@{ $t->{ops} })
		{
			my ($kind, $key, $what) = @$op;
			if ($kind eq 'a') { $own{$what} = 1; next; }
			my @theirs = grep { !$own{$_} } @$what;
			my @list = @{ $final->{$key} // [] };
			$add->($writer->{ $theirs[-1] }, $t, 'wr') if @theirs;
			$add->($t, $writer->{ $list[@theirs] }, 'rw') if @theirs < @list;
		}
	}
	# serializable: no cycle at all.  Repeatable read: none of ww and wr, nor with one rw.  Read committed: none of ww and wr.
	push @wrong, 'a cycle of ' . join(' -> ', @$_) foreach cycle(\%edge, $level eq 'ser' ? { ww => 1, wr => 1, rw => 1 } : { ww => 1, wr => 1 });
	return @wrong if @wrong || $level ne 'rr';
	my $order = order(\%edge);
	foreach my $from (keys %edge)
	{
		foreach my $to (grep { $edge{$from}{$_}{rw} } keys %{ $edge{$from} })
		{
			my $path = reach(\%edge, $order, $to, $from) or next;
			push @wrong, "a cycle with one rw (G-single): $from -rw-> " . join(' -> ', @$path);
			return @wrong;
		}
	}
	return @wrong;
}

sub follow
{
	my ($edge, $from, $kinds) = @_;
	return grep { my $k = $edge->{$from}{$_}; grep { $k->{$_} } keys %$kinds } keys %{ $edge->{$from} // {} };
}

# Places of transactions that are in the order of ww and wr.  REQUIRES: these have no cycle
sub order
{
	my ($edge) = @_;
	my (%in, %order, %to);
	foreach my $from (keys %$edge)
	{
		$in{$from} //= 0;
		$to{$from} = [ follow($edge, $from, { ww => 1, wr => 1 }) ];
		$in{$_}++ foreach @{ $to{$from} };
	}
	my @free = grep { $in{$_} == 0 } keys %in;
	while (defined(my $at = shift @free))
	{
		$order{$at} = keys %order;
		foreach my $next (@{ $to{$at} // [] }) { push @free, $next if --$in{$next} == 0; }
	}
	return \%order;
}

# A path along ww and wr
sub reach
{
	my ($edge, $order, $from, $to) = @_;
	# (those without such an edge are nowhere in the order)
	return unless defined $order->{$from} && defined $order->{$to};
	my %before = ($from => undef);
	my @queue = ($from);
	while (defined(my $at = shift @queue))
	{
		if ($at eq $to)
		{
			my @path;
			for (; defined $at; $at = $before{$at}) { unshift @path, $at; }
			return \@path;
		}
		foreach my $next (follow($edge, $at, { ww => 1, wr => 1 }))
		{
			next if exists $before{$next} || $order->{$next} > $order->{$to};
			$before{$next} = $at;
			push @queue, $next;
		}
	}
	return;
}

# One cycle, if there is one: what is left when everything without an edge in, or out, has gone
sub cycle
{
	my ($edge, $kinds) = @_;
	my (%to, %in);
	foreach my $from (keys %$edge)
	{
		foreach my $next (follow($edge, $from, $kinds)) { $to{$from}{$next} = 1; $in{$next}++; $in{$from} //= 0; }
	}
	my @free = grep { $in{$_} == 0 } keys %in;
	while (defined(my $at = shift @free))
	{
		foreach my $next (keys %{ $to{$at} // {} }) { push @free, $next if --$in{$next} == 0; }
		delete $to{$at};
		delete $in{$at};
	}
	my ($at) = sort keys %in or return;
	my (%seen, @path);
	# each one left has an edge in: walk backwards
	my %from;
	foreach my $x (keys %to) { $from{$_} = $x foreach keys %{ $to{$x} }; }
	until ($seen{$at}++) { unshift @path, $at; $at = $from{$at}; }
	pop @path while @path && $path[-1] ne $at;
	return [ $at, @path ];
}

1;
