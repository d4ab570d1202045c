# Snapshots of every kind look at twins again and again by every plan, while everything that may happen to tables happens to
# them: see LsmObserver.pm.
#   LSM_STEPS=N           so many steps (300)
#   LSM_LONG=1            rounds of so many steps for LSM_MINUTES (120), the standby restarted again and again in every second one
#   LSM_ABOUT_STANDBY=1   that in each of them
#   LSM_SEED=N            repeats the choices
# tier: check
use strict;
use warnings;
use LsmObserver;
use LsmSession;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(setitimer time ITIMER_REAL);

my $seed = lsm_seed();
my $steps = $ENV{LSM_STEPS} // 300;
my $primary = lsm_node('primary', wal_level => 'logical', conf => "max_wal_senders = 8\nmax_replication_slots = 4\nwal_keep_size = 256MB\nhot_standby = on\nfsync = off\ndeadlock_timeout = 100ms\n"
	  . "lsm.memtable_size = 64kB\nlsm.row_directory_memory = 4kB\nlsm.directory_tag_bits = 4\nlsm.target_file_size = 32kB\nlsm.size_ratio = 3\nautovacuum_naptime = 2s\nhot_standby_feedback = on\nwal_receiver_status_interval = 1s\n"
	  . "wal_retrieve_retry_interval = 100ms\nallow_in_place_tablespaces = on");
$primary->append_conf('pg_hba.conf', "local replication all trust\n");
lsm_start($primary);

# the slot keeps what the standby's snapshots see also while it is away
$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby')});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "primary_slot_name = 'standby'\nmax_standby_streaming_delay = 10s\n");
$standby->start;

# A signal, as of a child that has ended, ends no wait for an answer.
{
	my $session = LsmSession->new($primary);
	$session->ask('SELECT 1');
	local $SIG{ALRM} = sub { };
	setitimer(ITIMER_REAL, 0.01, 0.01);
	my ($state, @lines) = eval { $session->ask('SELECT pg_sleep(0.5), 1') };
	setitimer(ITIMER_REAL, 0);
	is("$state @lines", '00000 |1', 'a session waits for its answer');
}

my $observer = observer_new($primary, $standby);
my $end = time + 60 * ($ENV{LSM_MINUTES} // 120);
my $began = time;
for (my $round = 0; $round == 0 || (lsm_long() && time < $end && observer_wrong($observer) == 0); $round++)
{
	observer_run($observer, $steps, about_standby => $round % 2 == 1 || $ENV{LSM_ABOUT_STANDBY});
}
diag(sprintf('%.0f s; ', time - $began) . join(', ', observer_counts($observer)));
my @wrong = observer_wrong($observer);
is(join("\n", @wrong > 10 ? @wrong[ 0 .. 9 ] : @wrong), '', 'all snapshots see of lsm tables what they see of heap tables, all the time');
$standby->stop;
$primary->stop;
done_testing();
