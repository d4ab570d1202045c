# COPY of 10 M rows into a table with a key, compaction debt drained
bench_start
say "COPY"

n=$(scaled 10000000)
sql heap -c "COPY (SELECT i, i % 1000, md5(i::text) FROM generate_series(1, $n) i) TO '$sandbox/rows.csv'"
one() {
	sql "$1" -c "DROP TABLE IF EXISTS t" -c "CREATE TABLE t (id bigint PRIMARY KEY, a int, b text)"
	local start=$EPOCHREALTIME
	sql "$1" -c "COPY t FROM '$sandbox/rows.csv'"
	settled=$EPOCHREALTIME
	[ "$1" = heap ] || drain lsm t
	echo "$start $settled" | awk -v n="$n" '{ printf "%.0f", n / ($2 - $1) }'
}
interleave "COPY, $n rows" higher rows/s 1.0x lsm heap one
show_written lsm t
