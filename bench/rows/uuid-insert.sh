# random-key inserts (uuid primary key), index 8 times shared_buffers, debt drained, autovacuum on
bench_start "
shared_buffers = 16MB
autovacuum = on
max_wal_size = 1GB
checkpoint_timeout = 5min
lsm.memtable_size = 16MB
"
say "inserts with a random key"

# An index of 8 x 16 MB is reached at some 3 M rows; then chunks are measured
n=$(scaled 3000000)
chunk=$(scaled 200000)
for am in heap lsm; do
	sql $am -c "CREATE TABLE t (id uuid PRIMARY KEY, a int, b text)"
	for ((i = 0; i < n; i += chunk)); do
		sql $am -c "INSERT INTO t SELECT gen_random_uuid(), i, md5(i::text) FROM generate_series(1, $chunk) i"
	done
	sql $am -c CHECKPOINT
done
drain lsm t
wal_of() { sql "$1" -c "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"; }
one() {
	local start=$EPOCHREALTIME wal
	wal=$(wal_of "$1")
	sql "$1" -c "INSERT INTO t SELECT gen_random_uuid(), i, md5(i::text) FROM generate_series(1, $chunk) i"
	settled=$EPOCHREALTIME
	[ "$1" = heap ] || drain lsm t
	# checkpoints are part of the price of the random writes; waiting for nothing to happen is not
	local checkpoint=$EPOCHREALTIME
	sql "$1" -c CHECKPOINT
	echo "$start $settled $checkpoint $EPOCHREALTIME" | awk -v n="$chunk" '{ printf "%.0f", n / ($2 - $1 + $4 - $3) }'
	echo "$wal $(wal_of "$1")" | awk -v n="$chunk" '{ printf "%.1f\n", ($2 - $1) / n }' >>"$sandbox/wal.$1"
}
interleave "uuid inserts, $n rows before" higher rows/s 5x lsm heap one
paste -d' ' "$sandbox/wal.lsm" "$sandbox/wal.heap" | report "WAL of uuid inserts" lower bytes/row 1.43x lsm heap
show_written lsm t
