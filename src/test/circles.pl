#!/usr/bin/perl
# Circles in a graph.  Input: lines "from to why".  Output: each set of nodes that
# reach each other, on a line, sorted; below it, with a tab, the edges within it.
use strict;
use warnings;

my (%to, %why);
while (my $line = <STDIN>)
{
	my ($from, $to, $why) = split ' ', $line, 3;
	next if !defined $to || $from eq $to;
	$to{$from}{$to} = 1;
	$to{$to} //= {};
	chomp $why;
	$why{"$from $to"}{$why} = 1;
}

# R. Tarjan, "Depth-first search and linear graph algorithms" (1972)
my ($n, %number, %low, @stack, %stacked, @circles) = (0);

sub visit
{
	my ($node) = @_;
	$number{$node} = $low{$node} = $n++;
	push @stack, $node;
	$stacked{$node} = 1;
	foreach my $next (sort keys %{ $to{$node} })
	{
		if (!defined $number{$next})
		{
			visit($next);
			$low{$node} = $low{$next} if $low{$next} < $low{$node};
		}
		elsif ($stacked{$next} && $number{$next} < $low{$node})
		{
			$low{$node} = $number{$next};
		}
	}
	return if $low{$node} != $number{$node};
	my @circle;
	do
	{
		push @circle, pop @stack;
		delete $stacked{ $circle[-1] };
	} while ($circle[-1] ne $node);
	push @circles, [ sort @circle ] if @circle > 1;
	return;
}

no warnings 'recursion';
defined $number{$_} or visit($_) foreach sort keys %to;
foreach my $circle (sort { "@$a" cmp "@$b" } @circles)
{
	print "@$circle\n";
	foreach my $from (@$circle)
	{
		foreach my $to (grep { $to{$from}{$_} } @$circle)
		{
			print "\t$from -> $to: ", join(', ', sort keys %{ $why{"$from $to"} }), "\n";
		}
	}
}
