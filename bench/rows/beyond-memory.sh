# 200 million rows by uuid, several times the memory: inserts at the end, keys found and absent (needs a memory cgroup)
#
# Each side has a server of its own, with the same settings, in a memory cgroup whose limit counts the page cache, too:
# BENCH_MEMORY_MB (4096, at scale 1).  Both run, one works.  The load is not limited; after it, nothing is in the page cache.
# REQUIRES: root, 70 GB of disk at scale 1, an hour.
mb() { awk -v n="$1" -v s="$scale" -v least="$2" 'BEGIN { n *= s; printf "%dMB", n < least ? least : n }'; }
settings="
shared_buffers = $(mb 1024 16)
max_wal_size = $(mb 4096 64)
checkpoint_timeout = 5min
max_parallel_maintenance_workers = 0
"
n=$(scaled 200000000)
rounds=${BENCH_ROUNDS:-3}
memory_mb=$(awk -v n="${BENCH_MEMORY_MB:-4096}" -v s="$scale" 'BEGIN { printf "%d", n * s < 128 ? 128 : n * s }')
groups=/sys/fs/cgroup
[ ! -d $groups/memory ] || groups=$groups/memory
declare -A ports=([lsm]=65434 [heap]=65435)

# group_new SIDE: an empty cgroup with the limit
group_new() {
	local group=$groups/lsmam-bench-$1 file=memory.limit_in_bytes
	[ -e "$groups/memory.limit_in_bytes" ] || file=memory.max
	[ -d "$group" ] || mkdir "$group" || die "there is no memory cgroup to be had"
	echo "${memory_mb}M" >"$group/$file" || die "the memory cgroup takes no limit"
}

# The server and all its processes, of which there are none yet, in the group
start_limited() {
	(
		echo $BASHPID >"$groups/lsmam-bench-$1/cgroup.procs" && start_server "$2" "${ports[$1]}"
	) || die "the server did not start"
}

evict() {
	find "$1" -type f -size +64k -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \;
}

rows_of() { echo "SELECT md5('$1' || i)::uuid AS id, i AS a, 'value ' || i AS b FROM generate_series($2::bigint, $3) i"; }

# load SIDE SIZE_FUNCTION.  As in row uuid-insert: nbtree's leaves as full as random inserts leave them; lsm gets the last 30% by inserts.
load() {
	local options= first_bulk=$n loading=$SECONDS
	[ "$1" = lsm ] && first_bulk=$((n * 7 / 10)) || options="WITH (fillfactor = 70)"
	sql "$1" -c "CREATE TABLE t (id uuid NOT NULL, a bigint, b text)" -c "INSERT INTO t $(rows_of '' 1 $first_bulk)"
	sql "$1" -c "SET maintenance_work_mem = '1GB'" -c "ALTER TABLE t ADD PRIMARY KEY (id) $options"
	[ "$1" = heap ] || sql "$1" -c "INSERT INTO t $(rows_of '' $((first_bulk + 1)) "$n")"
	sql "$1" -c "VACUUM ANALYZE t"
	[ "$1" = heap ] || settle lsm t
	sql "$1" -c CHECKPOINT
	echo "   $1: $n rows in $((SECONDS - loading)) s, table and index of $(sql "$1" -c "SELECT format('%s and %s', $2('t') / 1048576, $2('t_pkey') / 1048576)") MB"
}

bench_start "$settings"
say "$n rows by uuid, $memory_mb MB of memory for each side"
load lsm lsm_relation_size
show_levels lsm t_pkey
port=${ports[heap]}
lsm_data=$data
server_new "$sandbox/heap"
load heap pg_relation_size
stop_server "$data"
for side in lsm heap; do group_new $side; done
evict "$lsm_data"
evict "$data"
start_limited lsm "$lsm_data"
start_limited heap "$data"
heap_data=$data
stop_both() {
	local status=$?
	stop_server "$lsm_data" immediate
	stop_server "$heap_data" immediate
	rmdir $groups/lsmam-bench-lsm $groups/lsmam-bench-heap
	data=
	(exit $status)
	bench_cleanup
}
trap stop_both EXIT

# probe SIDE PREFIX PROBES: us per key, keys in a nested loop; bytes read from storage per key to a file
probe() {
	port=${ports[$1]}
	sql "$1" >"$sandbox/chunk.out" <<-SQL
		SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;
		SET enable_material = off; SET enable_memoize = off; SET enable_seqscan = off;
		CREATE TEMP TABLE keys USING heap AS SELECT md5('$2' || (random() * $((n - 1)))::bigint + 1)::uuid AS id FROM generate_series(1, $3) i;
		SELECT substring(pg_read_file('/proc/self/io') FROM 'read_bytes: ([0-9]+)') AS before \gset
		\timing on
		SELECT 'found', count(t.b) FROM (SELECT id FROM keys OFFSET 0) p JOIN t USING (id);
		\timing off
		SELECT 'read', substring(pg_read_file('/proc/self/io') FROM 'read_bytes: ([0-9]+)')::bigint - :before;
	SQL
	grep -q "^found|$([ -z "$2" ] && echo "$3" || echo 0)\$" "$sandbox/chunk.out" || die "wrong keys were found"
	awk -F'|' -v n="$3" '$1 == "read" { printf "%.0f\n", $2 / n }' "$sandbox/chunk.out" >>"$sandbox/read.$what.$1"
	sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$sandbox/chunk.out" | awk -v n="$3" '{ print $1 * 1000 / n }'
}
# Absent keys are many for lsm: it reads next to nothing.
declare -A nabsent=([lsm]=$(scaled 200000) [heap]=$(scaled 10000))
one_found() { probe "$1" '' "$(scaled 10000)"; }
one_absent() { probe "$1" absent "${nabsent[$1]}"; }
for what in found absent; do
	# first both fill their caches with what as many keys need
	for side in lsm heap; do
		probe $side "$([ $what = found ] || echo absent)" "$(scaled 50000)" >/dev/null
	done
	rm "$sandbox"/read.$what.*
	rounds=${BENCH_ROUNDS:-7} interleave "$what among $n" lower us/key "$([ $what = found ] && echo 2x || echo 20x)" lsm heap one_$what
	paste -d' ' "$sandbox/read.$what.lsm" "$sandbox/read.$what.heap" | report "bytes read per key, $what" lower bytes "" lsm heap
done

# A turn of inserts, as in row uuid-insert: with the compactions that it owes, and written back
declare -A chunk=([lsm]=$((n / 30)) [heap]=$((n / 1000)))
turn=0
one_insert() {
	local start inserted
	port=${ports[$1]}
	sql "$1" -c "DROP TABLE IF EXISTS made" \
		-c "CREATE UNLOGGED TABLE made USING heap AS $(rows_of "new $turn " 1 "${chunk[$1]}")" -c "VACUUM made" -c CHECKPOINT
	sync
	start=$EPOCHREALTIME
	sql "$1" -c "INSERT INTO t SELECT * FROM made"
	inserted=$EPOCHREALTIME settled=$EPOCHREALTIME
	[ "$1" = heap ] || { [ $turn -eq "$rounds" ] && drain lsm t || settle lsm t; }
	# settle looks for a second longer than it takes
	awk -v a="$settled" -v b="$inserted" 'BEGIN { exit a > b ? 0 : 1 }' || settled=$inserted
	inserted=$EPOCHREALTIME
	sql "$1" -c CHECKPOINT
	sync
	echo "$start $settled $inserted $EPOCHREALTIME" | awk '{ print $2 - $1 + $4 - $3 }' >>"$sandbox/turns.$1"
	tail -n1 "$sandbox/turns.$1" | awk -v n="${chunk[$1]}" -v side="$1" '{ printf "   %s %.0f rows/s (%.1f s)\n", side, n / $1, $1 }'
}
while [ $((turn++)) -lt "$rounds" ]; do
	one_insert lsm
	one_insert heap
done
port=${ports[lsm]}
show_levels lsm t_pkey
# debt that one turn leaves is paid in another: all together
total() { awk -v n="${chunk[$1]}" '{ t += $1 } END { print n * NR / t }' "$sandbox/turns.$1"; }
echo "$(total lsm) $(total heap)" | report "inserts into $n" higher rows/s 20x lsm heap
