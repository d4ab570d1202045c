# The part of demo.sh that shows what filters and shared digests do: the same long keys in four indexes that differ
# in their filters only, lookups of the same kind in all of them.  demo.sh has the server; this file is sourced.
#
# The configurations take turns in many short chunks, each round with keys of its own and in another order; times are
# medians of the chunks, counters are means.  49 of 50 keys asked for lie in a sixteenth of the key range: that is what
# elastic filters are for, and the others do not mind.
#
#   DEMO_KEYS=100000  DEMO_KEY_BYTES=1000  DEMO_FILTER_ROUNDS=10

filter_keys=${DEMO_KEYS:-100000}
filter_bytes=${DEMO_KEY_BYTES:-1000}
filter_rounds=${DEMO_FILTER_ROUNDS:-10}
filter_runs=14
filter_small_bits=3.2
filter_results=$results
filter_warm=8
filter_chunk=2000
filter_cold_rounds=5
filter_cold_chunk=300

# Column of the table; index; lsm.hash_sharing
filter_configs="none:none:on alone:blocked:off shared:blocked:on small:small:on elastic:elastic:on"
filter_indexes="none blocked small elastic"

filter_plan="SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off; SET enable_seqscan = off;
SET enable_material = off; SET enable_memoize = off; SET temp_buffers = '64MB'; SET max_parallel_workers_per_gather = 0; SET jit = off;"

# filter_settings NAME VALUE ...: for all processes, at once
filter_settings() {
	while [ $# -gt 0 ]; do
		sql heap -c "ALTER SYSTEM SET $1 = '$2'"
		shift 2
	done
	sql heap -c "SELECT pg_reload_conf()" -o /dev/null
}

# filter_functions: the keys, and what is read off before and after a chunk
filter_functions() {
	sql heap <<-SQL
		-- stored keys end with 0, absent ones with 1, so absent ones lie between stored ones
		CREATE FUNCTION demo_key(hash text, odd int) RETURNS text LANGUAGE sql IMMUTABLE AS
			\$\$SELECT hash || repeat('x', $filter_bytes - 33) || odd\$\$;
		-- 49 of 50 in the sixteenth of the keys that begin with 7
		CREATE FUNCTION demo_hash(i bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
			\$\$SELECT CASE WHEN i % 50 = 0 THEN md5(i::text) ELSE '7' || substr(md5(i::text), 2) END\$\$;
		-- ns of CPU time of this backend, or of the wall where the system does not count it
		CREATE FUNCTION demo_clock() RETURNS bigint LANGUAGE sql VOLATILE AS
			\$\$SELECT coalesce(split_part(pg_read_file('/proc/self/schedstat', 0, 100, true), ' ', 1)::bigint,
				(extract(epoch FROM clock_timestamp()) * 1e9)::bigint)\$\$;
		CREATE FUNCTION demo_counters(index text, OUT digests bigint, OUT filters bigint, OUT blocks bigint) LANGUAGE sql VOLATILE AS
			\$\$SELECT digests, filter_probes, blocks_read FROM pg_stat_lsm WHERE relname = index\$\$;
		CREATE TABLE stored USING heap AS SELECT md5(i::text) AS hash, i AS no FROM generate_series(1, $filter_keys) i;
		CREATE TABLE hashes USING heap AS
			SELECT hash, hash LIKE '7%' AS hot, row_number() OVER (PARTITION BY hash LIKE '7%') - 1 AS no FROM stored;
		CREATE UNIQUE INDEX ON hashes USING btree (hot, no);
		VACUUM ANALYZE stored, hashes;
	SQL
}

# Compaction would merge the runs while we look, in each index at another time.  A lock on an index keeps it off:
# tree/bench_tree.c has a function for that
filter_module() {
	must cc -O2 -std=gnu11 -w -D_GNU_SOURCE -fPIC -shared -I"$top/src" -I"$top/bench/tree" \
		-isystem "$("$(find_pg_config)" --includedir-server)" -o "$sandbox/bench_tree.so" "$top/bench/tree/bench_tree.c"
	sql heap -c "CREATE FUNCTION tree_hold(regclass) RETURNS void STRICT LANGUAGE c AS '$sandbox/bench_tree'"
}

# filter_hold: every index's lock, in psql's words
filter_hold() {
	local index
	for index in $filter_indexes; do
		echo "SELECT tree_hold('${index}_key') \\g /dev/null"
	done
}

# Each index gets its rows in $filter_runs flushes, with keys of the whole range in each: runs as a burst of writes leaves
# them, all over each other.  The session that loads has the locks until one that keeps them is waiting
filter_load() {
	local index run
	sql heap \
		-c "CREATE UNLOGGED TABLE none (k text COLLATE \"C\", v int) USING lsm" \
		-c "CREATE UNLOGGED TABLE blocked (LIKE none) USING lsm" \
		-c "CREATE UNLOGGED TABLE small (LIKE none) USING lsm" \
		-c "CREATE UNLOGGED TABLE elastic (LIKE none) USING lsm" \
		-c "CREATE UNIQUE INDEX none_key ON none USING lsm (k) WITH (filter_scheme = none)" \
		-c "CREATE UNIQUE INDEX blocked_key ON blocked USING lsm (k) WITH (filter_scheme = blocked)" \
		-c "CREATE UNIQUE INDEX small_key ON small USING lsm (k) WITH (filter_scheme = blocked, bits_per_key = $filter_small_bits)" \
		-c "CREATE UNIQUE INDEX elastic_key ON elastic USING lsm (k) WITH (filter_scheme = elastic)"
	{
		echo "BEGIN;"
		filter_hold
		for index in $filter_indexes; do
			for ((run = 0; run < filter_runs; run++)); do
				echo "INSERT INTO $index SELECT demo_key(hash, 0), 1 FROM stored WHERE no % $filter_runs = $run;"
				echo "SELECT lsm_flush('$index'::regclass) \\g /dev/null"
			done
		done
		echo "\\! touch $sandbox/loaded"
		cat <<-SQL
			DO \$\$BEGIN
				WHILE NOT EXISTS (SELECT FROM pg_locks WHERE relation = 'none_key'::regclass AND NOT granted) LOOP
					PERFORM pg_sleep(0.01);
				END LOOP;
			END\$\$;
		SQL
		echo "COMMIT;"
	} >"$sandbox/load.sql"
	{
		echo "BEGIN;"
		filter_hold
		echo "\\! touch $sandbox/held"
		echo "SELECT pg_sleep(3600);"
	} >"$sandbox/hold.sql"
	sql heap -f "$sandbox/load.sql" &
	local loader=$!
	while [ ! -e "$sandbox/loaded" ]; do
		kill -0 $loader 2>/dev/null || exit 1
		sleep 0.1
	done
	# it ends with the server
	"${session_command[@]}" -f "$sandbox/hold.sql" >/dev/null 2>&1 &
	local holder=$!
	must wait $loader
	while [ ! -e "$sandbox/held" ]; do
		kill -0 $holder 2>/dev/null || exit 1
		sleep 0.1
	done
}

# filter_asked KIND N: other keys at each call, in psql's words
filter_next=0
filter_asked() {
	local first=$filter_next
	filter_next=$((filter_next + $2))
	case $1 in
		absent) echo "CREATE TEMP TABLE asked AS SELECT demo_key(demo_hash(i), 1) AS k
			FROM generate_series($first, $((first + $2 - 1))) i;" ;;
		present) echo "CREATE TEMP TABLE asked AS SELECT demo_key(hash, 0) AS k FROM generate_series($first, $((first + $2 - 1))) i
			JOIN hashes ON hot = (i % 50 <> 0) AND no = i::bigint * 7919 % CASE WHEN i % 50 <> 0 THEN :hot ELSE :cold END;" ;;
	esac
}

# filter_order ROUND: the configurations, beginning with another one every two rounds, forwards and backwards in turn, so
# that of two that ask the same index each is the first as often
filter_order() {
	local all=($filter_configs) i at
	for ((i = 0; i < ${#all[@]}; i++)); do
		at=$(($1 % 2 ? i : ${#all[@]} - 1 - i))
		echo "${all[($1 / 2 + at) % ${#all[@]}]}"
	done
}

# filter_chunk CLOCK KIND STORAGE CONFIG N: in psql's words, a line of the CSV
filter_chunk() {
	local name index sharing
	IFS=: read -r name index sharing <<<"$4"
	cat <<-SQL
		SET lsm.hash_sharing = $sharing;
		SELECT * FROM demo_counters('${index}_key') \gset before_
		SELECT $1 AS clock \gset before_
		SELECT count(t.v) AS found FROM asked JOIN $index t USING (k) \gset
		SELECT $1 AS clock \gset after_
		SELECT * FROM demo_counters('${index}_key') \gset after_
		SELECT '@$3,$2,$name', $5, :found, :after_clock - :before_clock, :after_digests - :before_digests,
			:after_filters - :before_filters, :after_blocks - :before_blocks;
	SQL
}

# How a session begins, in psql's words
filter_session() {
	echo "$filter_plan"
	echo "SELECT count(*) FILTER (WHERE hot) AS hot, count(*) FILTER (WHERE NOT hot) AS cold FROM hashes \\gset"
}

# In the page cache: all configurations in one session
filter_warm() {
	local round kind config
	{
		filter_session
		for ((round = 1; round <= filter_warm + filter_rounds; round++)); do
			for kind in absent present; do
				while read -r config; do
					filter_asked $kind $filter_chunk
					filter_chunk "demo_clock()" $kind memory "$config" $filter_chunk
					echo "DROP TABLE asked;"
				done < <(filter_order $round)
			done
			# units that are wanted come into memory
			[ $round -gt $filter_warm ] || echo "SELECT pg_sleep(0.5);"
			[ $round -ne $filter_warm ] || echo "SELECT '@start';"
		done
	} >"$sandbox/warm.sql"
	sql heap -F, -f "$sandbox/warm.sql" >"$sandbox/warm.out"
	sed -n '1,/^@start/d; s/^@//p' "$sandbox/warm.out" >>"$filter_csv"
}

# filter_directory INDEX: of its files, by what a session has mapped that has looked for an absent key
filter_directory() {
	sql heap -c "SET enable_seqscan = off" -c "SELECT FROM $1 WHERE k = demo_key(md5('1'), 1)" \
		-c "SELECT DISTINCT (regexp_matches(pg_read_file('/proc/self/maps'), '\S*/pg_lsm/[0-9a-f]+', 'g'))[1]"
}

# Not in the page cache: each chunk in a session of its own, which has opened all files and read their filters with
# some lookups before the files leave once more (what a process has mapped stays).  The wall clock, for it is the disk
# that a lookup waits for
filter_cold() {
	local round config name index evict
	declare -A directories
	for index in $filter_indexes; do
		directories[$index]=$(filter_directory "$index")
		[ -d "${directories[$index]}" ] || { echo "no directory of ${index}_key"; exit 1; }
	done
	for ((round = 1; round <= filter_cold_rounds; round++)); do
		while read -r config; do
			IFS=: read -r name index _ <<<"$config"
			evict="\\! find ${directories[$index]} -type f -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \\;"
			{
				filter_session
				printf '%s\n' "$evict"
				filter_asked absent 20
				echo "SELECT count(t.v) FROM asked JOIN $index t USING (k); DROP TABLE asked;"
				filter_asked absent $filter_cold_chunk
				printf '%s\n' "$evict"
				filter_chunk "(extract(epoch FROM clock_timestamp()) * 1e9)::bigint" absent disk "$config" $filter_cold_chunk
			} >"$sandbox/cold.sql"
			sql heap -F, -f "$sandbox/cold.sql" >"$sandbox/cold.out"
			sed -n 's/^@//p' "$sandbox/cold.out" >>"$filter_csv"
		done < <(filter_order $round)
	done
}

# filter_memory CONFIG: kB of filters in memory; elastic: with the states of its segments
filter_memory() {
	case $1 in
		none) echo 0 ;;
		elastic) sql heap -c "SELECT (used_bytes + state_bytes) / 1024 FROM lsm_elastic_stats()" ;;
		*) sql heap -c "SELECT round(sum(filter_bytes) / 1024.0) FROM lsm_files('$1_key'::regclass)" ;;
	esac
}

# The CSV's medians (times) and means (counters), a column per configuration
filter_table() {
	local config name index memory=
	for config in $filter_configs; do
		IFS=: read -r name index _ <<<"$config"
		memory="$memory $name=$(filter_memory "$index")"
	done
	awk -F, -v memory="$memory" -v configs="$filter_configs" -v keys="$filter_keys" -v savings="$filter_results/savings.txt" \
		-v runs="$filter_runs" -v bytes="$filter_bytes" -v small_bits="$filter_small_bits" '
	function sort(v, n,  i, j, t) {
		for (i = 2; i <= n; i++)
			for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
	}
	function median(what,  v, i) {
		for (i = 1; i <= rows[what]; i++) v[i] = times[what, i]
		sort(v, rows[what])
		return v[int((rows[what] + 1) / 2)]
	}
	function line(label, what, sums, format,  i) {
		printf "  %-44s", label
		for (i = 1; i <= n; i++)
			printf "%10s", sprintf(format, sums ? counter[what names[i], sums] / lookups[what names[i]] : median(what names[i]))
		print ""
	}
	BEGIN {
		n = split(configs, names, " ")
		split(memory, sizes, " ")
		for (i = 1; i <= n; i++) { sub(/:.*/, "", names[i]); sub(/.*=/, "", sizes[i]) }
	}
	/^#/ || /^storage/ { next }
	{
		what = $1 "," $2 "," $3
		times[what, ++rows[what]] = $6 / $4 / 1000
		lookups[what] += $4
		for (i = 7; i <= 9; i++) counter[what, i] += $i
		if ($5 != ($2 == "absent" ? 0 : $4)) wrong = 1
	}
	# how many times as long the one takes as the other: the median of the ratios of a round
	function slower(one, other,  v, i) {
		for (i = 1; i <= rows[one]; i++) v[i] = times[one, i] / times[other, i]
		sort(v, rows[one])
		return v[int((rows[one] + 1) / 2)]
	}
	# "3.1x faster", of the other; nothing where half of the rounds are on either side of 1: noise
	function says(one, other,  v, i, n, ratio) {
		n = rows[one]
		for (i = 1; i <= n; i++) v[i] = times[one, i] / times[other, i]
		sort(v, n)
		ratio = v[int((n + 1) / 2)]
		if ((v[int((n - 1) / 4 + 0.5) + 1] < 1 && v[int((n - 1) * 3 / 4 + 0.5) + 1] > 1) || (ratio > 0.97 && ratio < 1.03))
			return "time: noise"
		return sprintf("%.*fx %s", (ratio >= 1 ? ratio : 1 / ratio) < 1.1 ? 2 : 1, ratio >= 1 ? ratio : 1 / ratio,
			ratio >= 1 ? "faster" : "slower")
	}
	function mean(what, counted) { return counter[what, counted] / lookups[what] }
	END {
		if (wrong) { print "an index found what is not there, or did not find what is"; exit 1 }
		printf "  %-44s%10s%10s%10s%10s%10s\n", "filters", "none", "blocked", "blocked", "blocked", "elastic"
		printf "  %-44s%10s%10s%10s%10s%10s\n", "hash sharing", "", "off", "on", "on", "on"
		printf "  %-44s", "filters in memory, kB"
		for (i = 1; i <= n; i++) printf "%10s", sizes[i]
		print "\n  a lookup of an absent key"
		line("  time, files cached, us of CPU", "memory,absent,", 0, "%.2f")
		line("  time, files not cached, us", "disk,absent,", 0, "%.0f")
		line("  digests computed", "memory,absent,", 7, "%.2f")
		line("  filters asked", "memory,absent,", 8, "%.2f")
		line("  blocks read", "memory,absent,", 9, "%.3f")
		print "  a lookup of a present key"
		line("  time, files cached, us of CPU", "memory,present,", 0, "%.2f")
		line("  digests computed", "memory,present,", 7, "%.2f")
		line("  filters asked", "memory,present,", 8, "%.2f")
		line("  blocks read", "memory,present,", 9, "%.2f")
		m = "memory,absent,"; d = "disk,absent,"; p = "memory,present,"
		print "\nWhat there is to see (times are ratios of neighbouring chunks, medians):"
		printf "  none: without filters a lookup reads a block in each of %d runs, %.1f in all, to learn that the key is not there: %.1f times the time that blocked filters make of it, %.0f times where files are not cached.\n",
			runs, mean(m "none", 9), slower(m "none", m "shared"), slower(d "none", d "shared")
		printf "  blocked, sharing off: a filter answers from one cache line, %.2f blocks are read for nothing; but each of %.0f filters hashes the %d bytes of the key again.\n",
			mean(m "alone", 9), mean(m "alone", 8), bytes
		printf "  blocked, sharing on: one digest serves all filters. The same filters are asked and the same blocks read; hashing %.0f times more costs an absent key %+.0f%%, a present one %+.0f%%.\n",
			mean(m "alone", 7) - mean(m "shared", 7), 100 * (slower(m "alone", m "shared") - 1), 100 * (slower(p "alone", p "shared") - 1)
		printf "  blocked, %s kB: where there is memory for %.1f bits per key instead of 10, an absent key is believed to be in %.1f runs, and their blocks are read.\n",
			sizes[4], small_bits, mean(m "small", 9)
		printf "  elastic, %s kB: the same memory, but most of it where lookups are (49 of 50 in a sixteenth of the keys): %.2f blocks instead of %.2f, %.1f times the time of the blocked filters of %s kB where files are cached, %.1f times where they are not.\n",
			sizes[5], mean(m "elastic", 9), mean(m "small", 9), slower(m "elastic", m "small"), sizes[4], slower(d "elastic", d "small")
		printf "A key of %d bytes that is in none of %d sorted files is looked up:\n", bytes, runs >savings
		printf "  without filters: %.1f blocks are read\n", mean(m "none", 9) >savings
		printf "  with a filter for each file: %.2f blocks; %s, from disk %s\n", mean(m "shared", 9),
			says(m "none", m "shared"), says(d "none", d "shared") >savings
		printf "  ... and each filter hashes the key (not once for all %.0f): %s\n", mean(m "alone", 7),
			says(m "shared", m "alone") >savings
		printf "  filters of a third of the memory: %.2f blocks\n", mean(m "small", 9) >savings
		printf "  ... and most of it where lookups are (elastic): %.2f blocks; %s\n", mean(m "elastic", 9),
			says(m "small", m "elastic") >savings
	}' "$filter_csv" | fold -s -w 100
	return "${PIPESTATUS[0]}"
}

# What demo.sh calls
filter_experiment() {
	filter_csv=$filter_results/demo.csv
	mkdir -p "$filter_results"
	echo "# $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), $(date -u +%FT%TZ); $filter_keys keys of $filter_bytes bytes" >"$filter_csv"
	echo "storage,keys,filters,lookups,found,ns,digests,filters_asked,blocks_read" >>"$filter_csv"

	step="loading long keys"
	filter_settings lsm.memtable_size 64MB max_wal_size 4GB
	filter_functions
	filter_module
	filter_load
	filter_settings lsm.elastic_memory 64kB
	sql heap -c "SELECT c.relname AS index, sum(l.runs) AS runs, string_agg(format('L%s: %s', level, entries), ', ' ORDER BY level) AS keys
		FROM pg_class c, lsm_levels(c.oid::regclass) l WHERE c.relname IN ('none_key', 'blocked_key', 'small_key', 'elastic_key') GROUP BY 1 ORDER BY 1"
	step="lookups, files in the page cache"
	filter_warm
	step="lookups, files not in the page cache"
	filter_cold
	step="the table"
	filter_table >"$filter_results/table.txt" || { cat "$filter_results/table.txt"; exit 1; }
	step="the plot"
	if /usr/bin/python3 -c "import matplotlib" 2>/dev/null; then
		filter_plot=$(/usr/bin/python3 "$top/bench/plot.py" -t png "$filter_results" demo) || exit 1
		filter_plot="Picture: ${filter_plot#"$top"/}."
	else
		filter_plot="No picture (python3-matplotlib)."
	fi
}
