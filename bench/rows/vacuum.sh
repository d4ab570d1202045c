# VACUUM after as many updates as there are rows, and after deleting half of them, two indexes: time, WAL, bytes written
#
# Bytes written are those of the device that the data is on, so nothing else may write there.
bench_start "max_wal_size = 64GB"
say "VACUUM"

n=$(scaled 10000000)
# prepare DATABASE: the table anew, VACUUMed, written out
prepare() {
	sql "$1" -c "DROP TABLE IF EXISTS t" -c "CREATE TABLE t (id bigint PRIMARY KEY, u uuid, v text)" \
		-c "INSERT INTO t SELECT i, md5(i::text)::uuid, repeat('x', 50) FROM generate_series(1, $n) i" \
		-c "CREATE INDEX t_u ON t $([ "$1" = lsm ] && echo USING lsm) (u)" -c "VACUUM t"
	written "$1"
}
# what is in memory is written out and compacted; only then a round of VACUUM counts
written() {
	[ "$1" = heap ] || drain lsm t
	sql "$1" -c CHECKPOINT
}
device=$(stat -c %d "$sandbox" | awk '{ printf "%d %d", int($1 / 256), $1 % 256 }')
# megabytes that the device has written since it is there
device_mb() {
	sync
	awk -v device="$device" 'BEGIN { split(device, d) } $1 == d[1] && $2 == d[2] { print $10 / 2048 }' /proc/diskstats
}
# change DATABASE STATEMENT...: how long VACUUM takes, what it logs and what is written after that, to
# $sandbox/DATABASE.{s,mb,disk}.  What lsm leaves to flushes and compactions behind VACUUM counts, and the pages that
# VACUUM has left to the checkpointer.
change() {
	local database=$1 start lsn disk
	shift
	prepare "$database"
	for statement in "$@"; do sql "$database" -c "$statement"; done
	written "$database"
	lsn=$(sql "$database" -c "SELECT pg_current_wal_insert_lsn()")
	disk=$(device_mb)
	start=$EPOCHREALTIME
	sql "$database" -c "VACUUM t"
	settled=$EPOCHREALTIME
	[ "$database" = heap ] || drain lsm t
	echo "$start $settled" | awk '{ printf "%.2f", $2 - $1 }' >"$sandbox/$database.s"
	sql "$database" -c "SELECT round((pg_current_wal_insert_lsn() - '$lsn') / 1048576.0)" >"$sandbox/$database.mb"
	sql "$database" -c CHECKPOINT
	echo "$disk $(device_mb)" | awk '{ printf "%d", $2 - $1 }' >"$sandbox/$database.disk"
}
# rounds of both, and three reports
compare() {
	local what=$1 i
	shift
	for ((i = 0; i < rounds; i++)); do
		change lsm "$@"
		change heap "$@"
		echo "$(cat "$sandbox/lsm.s") $(cat "$sandbox/heap.s")" >>"$sandbox/times"
		echo "$(cat "$sandbox/lsm.mb") $(cat "$sandbox/heap.mb")" >>"$sandbox/logs"
		echo "$(cat "$sandbox/lsm.disk") $(cat "$sandbox/heap.disk")" >>"$sandbox/disks"
	done
	report "VACUUM after $what" lower s 1.0x lsm heap <"$sandbox/times"
	report "WAL of VACUUM after $what" lower MB 1.0x lsm heap <"$sandbox/logs"
	report "bytes written by VACUUM after $what" lower MB 1.0x lsm heap <"$sandbox/disks"
	rm "$sandbox/times" "$sandbox/logs" "$sandbox/disks"
}

compare "deleting half of $n rows" "DELETE FROM t WHERE id % 2 = 0"
compare "$n updates" "UPDATE t SET v = v || 'y'"
compare "$n updates of an indexed column" "UPDATE t SET u = md5(u::text)::uuid"
