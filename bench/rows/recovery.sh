# a start after a crash: many small tables with VACUUMs, and one table that was filled and updated; the whole start, for
# heap writes out after redo what we write during it
bench_start
say "recovery"

# start_again DATABASE: seconds until the server answers, after a crash; its data is what $sandbox/DATABASE.saved has
start_again() {
	local start
	rm -rf "$sandbox/again"
	cp -a "$sandbox/$1.saved" "$sandbox/again"
	sync
	start=$EPOCHREALTIME
	as_postgres "$bindir/pg_ctl" -D "$sandbox/again" -l "$sandbox/again.log" -w -t 600 start >/dev/null || die "no start"
	awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", b - a }'
	stop_server "$sandbox/again" immediate
}
# load NAME SQL: on a server for each access method, which then crashes
load() {
	local am
	for am in lsm heap; do
		server_new "$sandbox/$1.$am"
		sql $am -c CHECKPOINT
		sql $am -o /dev/null -f - <<<"$2"
		stop_server "$data" immediate
		data=
		rm -rf "$sandbox/$am.saved"
		mv "$sandbox/$1.$am" "$sandbox/$am.saved"
	done
}

n=$(scaled 100)
load many "$(for ((i = 1; i <= n; i++)); do echo "CREATE TABLE t$i (id int PRIMARY KEY, v text);"; done
for r in 1 2 3; do
	for ((i = 1; i <= n; i++)); do
		echo "INSERT INTO t$i SELECT i, 'v' || i FROM generate_series($((r * 50)), $((r * 50 + 49))) i; UPDATE t$i SET v = v || 'x'; VACUUM t$i;"
	done
done)"
interleave "$n tables, three rounds of VACUUM" lower s 0.5x lsm heap start_again

n=$(scaled 400)
one="CREATE TABLE t (id int PRIMARY KEY, v text);
$(for ((i = 1; i <= n; i++)); do
	echo "INSERT INTO t SELECT $((i * 1000)) + i, md5(i::text) || md5((i * 7)::text) FROM generate_series(1, 999) i; UPDATE t SET v = v || 'x' WHERE id BETWEEN $((i * 400)) AND $((i * 400 + 300));"
done)"
load one "$one"
interleave "$((n * 1000)) rows, a third updated" lower s 0.5x lsm heap start_again
load one "SET lsm.memtable_size = '256kB'; SET lsm.target_file_size = '256kB'; $one"
interleave "the same with memtables of 256 kB" lower s 0.5x lsm heap start_again
