# latency of inserts, updates and both at 70% of the peak rate: p99 to worst, and throughput per second
#
# 10 rows per insert, uuid key, a second index; 4 clients, synchronous_commit = off, autovacuum on, PostgreSQL's and lsm's defaults.
# Heap and lsm take turns and get the same rate: 70% of what the slower of them does at full speed.  pgbench counts a
# transaction's latency from when it was due, so a pause costs all that come in it.
# BENCH_SECONDS: of a turn (20).  BENCH_ROUNDS: turns of each (2).  build/bench/latency.series.csv: per second, for plot.py.
bench_start "
autovacuum = on
max_wal_size = 1GB
checkpoint_timeout = 5min
synchronous_commit = off
"
seconds=${BENCH_SECONDS:-20}
rounds=${BENCH_ROUNDS:-2}
series=$results/latency.series.csv
machine_line >"$series"
echo "script,round,am,second,tps,p99_ms" >>"$series"

n=$(scaled 200000)
for am in heap lsm; do
	index=btree
	[ $am = heap ] || index=lsm
	sql $am -c "CREATE TABLE t (id uuid PRIMARY KEY, n int, a bigint, b text)" -c "CREATE INDEX ON t USING $index (a)" \
		-c "INSERT INTO t SELECT md5(i::text)::uuid, i, i * 7919 % 1000003, md5(i::text) FROM generate_series(1, $n) i" \
		-c "VACUUM ANALYZE t" -c CHECKPOINT
done
cat >"$sandbox/insert.sql" <<'SQL'
INSERT INTO t SELECT gen_random_uuid(), 0, (random() * 1e12)::bigint, md5(random()::text) FROM generate_series(1, 10);
SQL
cat >"$sandbox/update.sql" <<SQL
\set i random(1, $n)
UPDATE t SET a = a + 1, b = md5(b) WHERE id = md5((:i)::text)::uuid;
SQL

# scripts of a load
load_of() {
	case $1 in
		mixed) echo "-f $sandbox/insert.sql@1 -f $sandbox/update.sql@4" ;;
		*) echo "-f $sandbox/$1.sql" ;;
	esac
}

# turn LOAD ROUND AM RATE: into $sandbox/turns: p99 p99.9 p99.99 worst, coefficient of variation of the rate
turn() {
	rm -f "$sandbox"/log.*
	# shellcheck disable=SC2046
	bench_pgbench "$3" -n -M prepared -c 4 -j 2 -T "$seconds" -R "$4" -l --log-prefix="$sandbox/log" $(load_of "$1") \
		>/dev/null 2>&1 || die "pgbench"
	cat "$sandbox"/log.* | awk '{ print $3 / 1000, $5 }' | sort -n |
		awk -v load="$1" -v round="$2" -v am="$3" -v series="$series" '
		{ v[++n] = $1; count[$2]++; of[$2, count[$2]] = $1; if (!first || $2 < first) first = $2; if ($2 > last) last = $2 }
		function quantile(q,  i) { i = int(n * q) + 1; return v[i > n ? n : i] }
		END {
			# the first and the last second are parts
			for (s = first + 1; s < last; s++) {
				m++; sum += count[s]; squares += count[s] ^ 2
				at = int(count[s] * 0.99) + 1
				printf "%s,%d,%s,%d,%d,%s\n", load, round, am, s - first, count[s], of[s, (at > count[s] ? count[s] : at)] >>series
			}
			mean = sum / m
			print quantile(0.99), quantile(0.999), quantile(0.9999), v[n], sqrt(squares / m - mean ^ 2) / mean
		}' >>"$sandbox/turns.$1.$3" || die "latencies"
}

for load in insert update mixed; do
	say "$load"
	peak=
	for am in heap lsm; do
		# shellcheck disable=SC2046
		rate=$(tps $am -n -M prepared -c 4 -j 2 -T 5 $(load_of $load))
		echo "   $am: $rate tps at full speed"
		peak=$(echo "$rate ${peak:-$rate}" | awk '{ print $1 < $2 ? $1 : $2 }')
	done
	rate=$(echo "$peak" | awk '{ printf "%d", $1 * 0.7 + 1 }')
	for ((round = 1; round <= rounds; round++)); do
		turn $load $round heap "$rate"
		turn $load $round lsm "$rate"
	done
	column=0
	for what in p99 p99.9 p99.99 worst; do
		column=$((column + 1))
		paste -d' ' <(cut -d' ' -f$column "$sandbox/turns.$load.lsm") <(cut -d' ' -f$column "$sandbox/turns.$load.heap") |
			report "$load at $rate tps, $what" lower ms 1.0x lsm heap
	done
	paste -d' ' <(cut -d' ' -f5 "$sandbox/turns.$load.lsm") <(cut -d' ' -f5 "$sandbox/turns.$load.heap") |
		report "$load at $rate tps, variation of tps" lower "of 1" 1.0x lsm heap
done
