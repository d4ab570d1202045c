# A session to which statements are sent one by one.  An answer may be waited for at once (ask), or while others are asked
# (send, then answer).
package LsmSession;

use strict;
use warnings;

use IO::Select;
use IPC::Open3;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);

# Of a psql that connects when the first statement is sent
sub new
{
	my ($class, $node, %opt) = @_;
	return bless { node => $node, db => $opt{db} // 'postgres', begin => $opt{begin} // '' }, $class;
}

sub connect
{
	my ($self) = @_;

	# what it complains of is part of the answer
	$self->{pid} = open3($self->{to}, $self->{from}, undef, 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $self->{node}->connstr($self->{db}));
	$self->{to}->autoflush(1);
	$self->{rest} = '';
	print { $self->{to} } "$self->{begin};\n" if $self->{begin} ne '';
	return;
}

# Errors within a transaction that was begun stay: whoever is told 'lost' or of an error begins anew.
sub send
{
	my ($self, $sql) = @_;
	local $SIG{PIPE} = 'IGNORE';
	$self->connect unless $self->{pid};
	$self->{lines} = [];
	$self->{state} = undef;
	$self->{sql} = $sql;
	print { $self->{to} } "$sql;\n\\echo \@ :SQLSTATE\n" or $self->{state} = 'lost';
	return;
}

# True if the answer is there, after so many seconds at the latest
sub ready
{
	my ($self, $seconds) = @_;
	my $end = time + ($seconds // 0);
	until (defined $self->{state})
	{
		while ($self->{rest} =~ s/^([^\n]*)\n//)
		{
			my $line = $1;

			# (psql may connect anew; there is no SQLSTATE then)
			if ($line !~ /^@ (\S*)$/) { push @{ $self->{lines} }, $line; next; }
			$self->{state} = $1 eq '' ? 'lost' : $1;
			return 1;
		}
		my $left = $end - time;
		unless (IO::Select->new($self->{from})->can_read($left > 0 ? $left : 0))
		{
			# or a signal has come, as of a child that has ended
			return 0 if $left <= 0;
			next;
		}
		my $read = sysread($self->{from}, $self->{rest}, 65536, length $self->{rest});
		$self->{state} = 'lost' unless $read;
	}
	return 1;
}

# (SQLSTATE of the first error or 00000, lines); SQLSTATE is 'lost' if the session is gone, whatever was its end
sub answer
{
	my ($self) = @_;
	die join("\n", "no answer to $self->{sql}", @{ $self->{lines} }) unless $self->ready($PostgreSQL::Test::Utils::timeout_default);
	my $state = $self->{state};
	$self->close if $state eq 'lost';
	my @lines = @{ $self->{lines} };
	foreach my $line (@lines)
	{
		return ($1, @lines) if $state ne 'lost' && $line =~ /^ERROR:\s+(\w{5}): /;
		next if $line !~ /^(?:FATAL|PANIC): /;

		# the session has ended: perhaps behind a COMMIT whose answer was on its way
		$self->close if $state ne 'lost';
		return ('lost', @lines);
	}
	return ($state, @lines);
}

sub ask
{
	my ($self, $sql) = @_;
	$self->send($sql);
	return $self->answer;
}

sub close
{
	my ($self) = @_;
	my $pid = delete $self->{pid} or return;
	local $? = 0;
	CORE::close $self->{to};
	CORE::close $self->{from};
	waitpid($pid, 0);
	return;
}

# (not for the end of a statement that waits for others)
sub DESTROY { my ($self) = @_; kill("TERM", $self->{pid}) if $self->{pid}; $self->close; return; }

1;
