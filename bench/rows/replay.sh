# a streaming standby behind COPY of 10 M rows, inserts with a random key, TPC-B: CPU of replay, and lag at the end
#
# One primary, one standby on the same machine.  Both sides' statements take turns.  CPU is what the standby's startup
# process takes for the WAL of a turn, flushes and compactions that the turn has made due included.  The lag is the time from
# the end of the last statement to the moment when the standby has replayed its WAL.
bench_start "
max_wal_senders = 4
wal_keep_size = 64GB
hot_standby = on
"
say "replay"
standby=$sandbox/standby
standby_port=$((port + 1))
as_postgres "$bindir/pg_basebackup" -h "$sandbox" -p $port -U postgres -D "$standby" -c fast -X stream -R || die "pg_basebackup"
as_postgres tee -a "$standby/postgresql.auto.conf" >/dev/null <<<"port = $standby_port"
as_postgres "$bindir/pg_ctl" -D "$standby" -l "$standby.log" -w -t 120 start >/dev/null || die "the standby did not start"
trap 'stop_server "$standby" immediate; bench_cleanup' EXIT
postmaster=$(head -1 "$standby/postmaster.pid")
startup=$(pgrep -P "$postmaster" -f startup)

# CPU of the startup process, in seconds
cpu() { awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hz }' "/proc/$startup/stat"; }

# caught_up: wait until the standby has replayed what the primary has written
caught_up() {
	local lsn
	lsn=$(sql heap -c "SELECT pg_current_wal_insert_lsn()")
	until [ "$(as_postgres "$bindir/psql" -X -q -At -h "$sandbox" -p $standby_port -U postgres -d heap \
		-c "SELECT pg_last_wal_replay_lsn() >= '$lsn'")" = t ]; do
		sleep 0.02
	done
}

# turn NAME SIDE: runs NAME SIDE
turn() {
	local before ended seen
	caught_up
	before=$(cpu)
	"$1" "$2"
	ended=$EPOCHREALTIME
	caught_up
	seen=$EPOCHREALTIME
	if [ "$2" = lsm ]; then
		drain lsm "${3:-t}"
		caught_up
	fi
	awk -v a="$before" -v b="$(cpu)" -v e="$ended" -v s="$seen" 'BEGIN { printf "%.2f %.2f\n", b - a, s - e }' >"$sandbox/turn.$2"
}

# measure LABEL NAME [TABLE]
measure() {
	local label=$1 i
	: >"$sandbox/cpu.pairs"
	: >"$sandbox/lag.pairs"
	for ((i = 0; i < rounds; i++)); do
		turn "$2" lsm "${3:-t}"
		turn "$2" heap
		paste -d' ' "$sandbox/turn.lsm" "$sandbox/turn.heap" >"$sandbox/turns"
		awk '{ print $1, $3 }' "$sandbox/turns" >>"$sandbox/cpu.pairs"
		awk '{ print $2, $4 }' "$sandbox/turns" >>"$sandbox/lag.pairs"
	done
	report "$label: CPU of replay" lower s 1.0x lsm heap <"$sandbox/cpu.pairs"
	report "$label: lag at the end" lower s "" lsm heap <"$sandbox/lag.pairs"
}

n=$(scaled 10000000)
sql heap -c "COPY (SELECT i, i % 1000, md5(i::text) FROM generate_series(1, $n) i) TO '$sandbox/rows.csv'"
copy_rows() {
	sql "$1" -c "DROP TABLE IF EXISTS t" -c "CREATE TABLE t (id bigint PRIMARY KEY, a int, b text)" -c "COPY t FROM '$sandbox/rows.csv'"
}
measure "COPY of $n rows" copy_rows
rm -f "$sandbox/rows.csv"

m=$(scaled 1000000)
for am in heap lsm; do
	sql $am -c "DROP TABLE t" -c "CREATE TABLE t (id uuid PRIMARY KEY, a int, b text)"
done
insert_uuids() { sql "$1" -c "INSERT INTO t SELECT gen_random_uuid(), i, md5(i::text) FROM generate_series(1, $m) i"; }
measure "$m rows with a random uuid" insert_uuids

for am in heap lsm; do
	sql $am -c "DROP TABLE t"
	bench_pgbench $am -i -q -s "$(scaled 20)" >/dev/null 2>&1 || die "pgbench -i"
	sql $am -c "ALTER DATABASE $am SET synchronous_commit = off"
done
settle lsm pgbench_accounts
transactions=$(scaled 50000)
tpcb() { bench_pgbench "$1" -n -M prepared -c 2 -j 2 -t $((transactions / 2)) >/dev/null 2>&1 || die "pgbench"; }
measure "$transactions transactions of TPC-B" tpcb pgbench_accounts
