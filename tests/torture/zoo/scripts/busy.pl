# Hashes, patterns, evals, closures, signals, children: one line per round.
use strict;
use warnings;
$| = 1;

sub fib { my $n = shift; return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }

sub caught {
	my $n = shift;
	my $result = eval {
		die { code => $n } if $n % 3 == 0;
		return 1 / ($n - $n) if $n % 3 == 1;
		local $SIG{USR1} = sub { die "signal $n\n" };
		kill 'USR1', $$;
		return 5;
	};
	return defined $result ? $result : ref $@ ? $@->{code} : length $@;
}

sub round_of_work {
	my (%table, $errors);
	push @{$table{"k" . $_ * 31 % 401}}, $_ for 1 .. 2000;
	my $text = join ',', map { "$_=" . @{$table{$_}} } sort keys %table;
	(my $changed = $text) =~ s/([13579]+)/'<' . length($1) . '>'/ge;
	$errors += caught($_) for 1 .. 60;
	my $child = `echo \$((6 * 7))`;
	chomp $child;
	print join(' ', length $changed, unpack('%32C*', $text), $errors, $child, fib(14)), "\n";
}

for (1 .. $ARGV[0]) { last if -e 'stop'; round_of_work() }
