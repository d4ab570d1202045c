# random-key inserts (uuid primary key), index 8 times shared_buffers, debt drained, autovacuum on
#
# PostgreSQL's defaults and lsm's, set here because BENCH_SCALE scales them with the index.  nbtree's index of 25
# million keys has 1 GB.  lsm inserts a quarter as many again: enough for compactions within level 0, of level 0 into 1, which
# rewrites all of level 1, and of level 1 into 2.  What has been written is printed.
mb() { awk -v n="$1" -v s="$scale" -v least="$2" 'BEGIN { n *= s; printf "%dkB", 1024 * (n < least ? least : n) }'; }
bench_start "
shared_buffers = $(mb 128 1)
autovacuum = on
max_wal_size = $(awk -v s="$scale" 'BEGIN { printf "%dMB", 1024 * s < 48 ? 48 : 1024 * s }')
checkpoint_timeout = 5min
max_parallel_maintenance_workers = 0
lsm.memtable_size = $(mb 64 1)
lsm.memtable_memory = $(mb 256 64)
lsm.target_file_size = $(mb 64 1)
"
say "inserts with a random key"

n=$(scaled 25000000)
rounds=${BENCH_ROUNDS:-3}
declare -A chunk=([lsm]=$((n / 4 / rounds)) [heap]=$((n / 12 / rounds)))

rows_of() { echo "SELECT gen_random_uuid() AS id, i AS a, md5(i::text) AS b FROM generate_series(1, $1) i"; }

# Rows first, then the key: inserting 25 million by key would take heap an hour.  Random inserts fill nbtree's leaves to 70%
# on average, so this is what it is built with: the state that they keep up.  (No leaf splits before it is full, while in an
# index that has grown one insert in a hundred or so splits one: in nbtree's favour.)  lsm's index is built when it fits level 1,
# and gets the last 30% by inserts: level 1 is full, some of it has gone to level 2, and a compaction of level 0 has just been.
# What is measured then is about one cycle: level 0 goes down into level 1 again when it has a third of its bytes.
load() {
	local options= later=0
	if [ "$1" = heap ]; then
		options="WITH (fillfactor = 70)"
	else
		later=$((n * 3 / 10))
	fi
	sql "$1" -c "CREATE TABLE t (id uuid NOT NULL, a int, b text)"
	sql "$1" -c "INSERT INTO t $(rows_of $((n - later)))"
	sql "$1" -c "SET maintenance_work_mem = '256MB'" -c "ALTER TABLE t ADD PRIMARY KEY (id) $options"
	[ $later -eq 0 ] || sql "$1" -c "INSERT INTO t $(rows_of $later)"
	sql "$1" -c "VACUUM ANALYZE t" -c CHECKPOINT
}
loading=$SECONDS
load heap &
heap_load=$!
load lsm || exit 1
wait $heap_load || exit 1
settle lsm t
sync
echo "   $n rows in $((SECONDS - loading)) s; heap: index of $(sql heap -c "SELECT pg_relation_size('t_pkey') / 1048576") MB," \
	"lsm: $(sql lsm -c "SELECT lsm_relation_size('t_pkey'::regclass) / 1048576") MB"
show_levels lsm t_pkey
sql lsm -o /dev/null -c "SELECT pg_stat_lsm_reset()"

wal_of() { sql "$1" -c "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"; }

# A turn: insert rows that were made before; let compactions that are due end (they would run in the other side's turn else),
# and at the end of the last turn flush, too; write everything back, as checkpoints would have done in time, and wait for the kernel.
# All of it counts, but for the second in which we look whether anything else happens.
turn=0
one() {
	local start wal checkpoint
	sql "$1" -c "DROP TABLE IF EXISTS made" -c "CREATE UNLOGGED TABLE made USING heap AS $(rows_of "${chunk[$1]}")" \
		-c "VACUUM made" -c CHECKPOINT
	sync
	wal=$(wal_of "$1")
	start=$EPOCHREALTIME
	sql "$1" -c "INSERT INTO t SELECT * FROM made"
	settled=$EPOCHREALTIME
	if [ "$1" = lsm ] && [ $turn -eq $rounds ]; then
		drain lsm t
	elif [ "$1" = lsm ]; then
		settle lsm t
	fi
	checkpoint=$EPOCHREALTIME
	sql "$1" -c CHECKPOINT
	sync
	echo "$start $settled $checkpoint $EPOCHREALTIME $wal $(wal_of "$1")" |
		awk '{ print $2 - $1 + $4 - $3, $6 - $5 }' >>"$sandbox/turns.$1"
}
while [ $((turn++)) -lt "$rounds" ]; do
	one lsm
	one heap
	for am in lsm heap; do
		tail -n1 "$sandbox/turns.$am" | awk -v n="${chunk[$am]}" -v am=$am \
			'{ printf "   %s %.0f rows/s (%.1f s), %.0f bytes of WAL per row\n", am, n / $1, $1, $2 / n }'
	done
done
show_levels lsm t_pkey
show_written lsm t
sql lsm -c "SELECT '   ' || string_agg(format('%s: %s flushes, %s compactions, stalled %s ms', relname, flushes, compactions,
	round(stall_ms)), '; ' ORDER BY relname) FROM pg_stat_lsm WHERE relname IN ('t', 't_pkey')"

# Debt that one turn leaves is paid in another, so what counts is all turns together
total() {
	awk -v n="${chunk[$1]}" -v what="$2" '{ t += $1; w += $2 } END { print what == "rate" ? n * NR / t : w / n / NR }' "$sandbox/turns.$1"
}
echo "$(total lsm rate) $(total heap rate)" | report "uuid inserts into $n rows" higher rows/s 5x lsm heap
echo "$(total lsm wal) $(total heap wal)" | report "WAL of uuid inserts" lower bytes/row 1.43x lsm heap
