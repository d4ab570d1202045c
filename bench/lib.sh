# Shared by the rows of run.sh: a throwaway server of the release flavour,
# interleaved measurements, and their report.
#
# Nothing is compared across runs: A and B take turns in many short chunks, and
# what is reported is the median of the ratios of neighbouring chunks with their quartiles.  Wall
# clock of one run on a busy machine means little, and where its speed has two phases so does the median of
# either side, which falls on one or the other; the ratio of neighbours survives.
#
# BENCH_ROUNDS (per row), BENCH_SCALE (of row counts, 1 = as documented),
# BENCH_RESULTS (directory of the CSV files), BENCH_KEEP=1 (keep the server's directory), BENCH_CONF (more of postgresql.conf)

. "$top/src/test/lib.sh"

rounds=${BENCH_ROUNDS:-9}
scale=${BENCH_SCALE:-1}
results=${BENCH_RESULTS:-$top/build/bench}
port=65434
sandbox=
data=

# also from within $(...): what failed there fails the row
die() {
	echo "bench: $*" >&2
	[ -z "$sandbox" ] || touch "$sandbox/failed"
	exit 1
}

say() { printf '\n== %s\n' "$1"; }

bench_cleanup() {
	local status=$?
	[ -z "$sandbox" ] || [ ! -e "$sandbox/failed" ] || status=1
	if [ -n "$data" ] && [ -f "$data/postmaster.pid" ]; then
		stop_server "$data" immediate
	fi
	if [ $status -ne 0 ] && [ -n "$data" ] && [ -f "$data.log" ]; then
		tail -20 "$data.log" >&2
	fi
	if [ -n "$sandbox" ] && [ -z "${BENCH_KEEP:-}" ]; then
		rm -rf "$sandbox" ${memory_sandbox:+"$memory_sandbox"}
	fi
	exit $status
}

# scaled N: N rows at BENCH_SCALE
scaled() { awk -v n="$1" -v s="$scale" 'BEGIN { printf "%d", n * s }'; }

# bench_start [settings]: build, install privately, start; databases "heap" and
# "lsm" differ in default_table_access_method only
bench_start() {
	new_sandbox bench
	trap bench_cleanup EXIT
	trap 'exit 130' INT TERM
	cd "$sandbox" || exit 1
	install_flavour release >"$sandbox/build.log" 2>&1 || {
		tail -40 "$sandbox/build.log"
		die "the build failed"
	}
	server_conf="
	shared_buffers = 256MB
	max_wal_size = 16GB
	checkpoint_timeout = 1h
	wal_level = replica
	jit = off
	max_parallel_workers_per_gather = 0
	autovacuum = off
	client_min_messages = warning
	${1:-}
	${BENCH_CONF:-}
	"
	server_new "$sandbox/data"
	session_command=(as_postgres "$bindir/psql" -X -q -At -h "$sandbox" -p $port -U postgres -d heap -v ON_ERROR_STOP=1)
	mkdir -p "$results"
}

# server_new DIRECTORY: a new cluster there, and the server that was running stops
server_new() {
	[ -z "$data" ] || stop_server "$data"
	data=$1
	start_server "$data" $port || die "the server did not start"
	local am
	for am in heap lsm; do
		as_postgres "$bindir/createdb" -h "$sandbox" -p $port -U postgres $am || exit 1
		sql $am -c "CREATE EXTENSION lsmam" -c "ALTER DATABASE $am SET default_table_access_method = $am"
		# commits between its looks, so that it holds back no one's horizon
		sql $am <<-'SQL'
			CREATE PROCEDURE settle(tables text, INOUT settled float8) LANGUAGE plpgsql AS $$
			DECLARE
				last timestamptz;
				before text;
				now text;
				busy bool;
			BEGIN
				LOOP
					SELECT string_agg(concat(relname, ' ', flushes, ' ', compactions), ',' ORDER BY relname)
						INTO now FROM pg_stat_lsm WHERE relname LIKE tables;
					SELECT count(*) > 0 INTO busy FROM pg_stat_activity
						WHERE backend_type LIKE 'lsm%' AND wait_event_type IS DISTINCT FROM 'Extension';
					IF last IS NULL OR busy OR now IS DISTINCT FROM before THEN
						last := clock_timestamp();
						before := now;
					END IF;
					EXIT WHEN clock_timestamp() > last + interval '1 second';
					COMMIT;
					PERFORM pg_sleep(0.02);
				END LOOP;
				settled := extract(epoch FROM last);
			END $$;
		SQL
	done
}

# sql DATABASE [psql arguments]
sql() {
	local database=$1
	shift
	as_postgres "$bindir/psql" -X -q -At -h "$sandbox" -p $port -U postgres -d "$database" \
		-v ON_ERROR_STOP=1 "$@" || die "a statement failed"
}

# bench_pgbench DATABASE [pgbench arguments]
bench_pgbench() {
	local database=$1
	shift
	as_postgres "$bindir/pgbench" -h "$sandbox" -p $port -U postgres "$@" "$database"
}

# tps DATABASE [pgbench arguments]: transactions per second
tps() {
	bench_pgbench "$@" 2>"$sandbox/pgbench.err" |
		sed -n 's/^tps = \([0-9.]*\).*/\1/p'
}

# settle DATABASE TABLE: wait until nothing has been flushed or compacted for a second, of the table or its
# indexes, and no worker is busy; $settled is when the last of it ended, in seconds since 1970
settle() { settled=$(sql "$1" -c "CALL settle('$2%', 0)"); }

# drain DATABASE TABLE: flush, and wait until no compaction is due
drain() {
	sql "$1" -o /dev/null -c "SELECT lsm_flush('$2'::regclass)"
	settle "$1" "$2"
}

# show_levels DATABASE TREE
show_levels() {
	sql "$1" -c "SELECT '   $2: ' || string_agg('L' || level || ' ' || runs || ' runs ' || entries, ', ' ORDER BY level)
		FROM lsm_levels('$2'::regclass)"
}

# show_written DATABASE TABLE: what flushes and compactions have written since the statistics were reset
show_written() {
	sql "$1" -c "SELECT '   ' || string_agg(format('%s: flushed %s MB, compacted %s MB', relname, bytes_flushed / 1048576,
			bytes_compacted / 1048576), '; ' ORDER BY relname)
		FROM pg_stat_lsm WHERE relname LIKE '$2%'"
}

# The machine, its load, commit and settings: first line of every CSV
machine_line() {
	local cpu commit
	cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
	commit=$(git -C "$top" describe --always --dirty 2>/dev/null)
	echo "# cpu=\"$cpu\" cores=$(nproc) load=$(cut -d' ' -f1 /proc/loadavg) commit=$commit date=$(date -u +%FT%TZ)" \
		"settings=\"$(echo "$server_conf" | awk 'NF { gsub(/^[ \t]+/, ""); printf "%s%s", sep, $0; sep = "; " }')\""
}

# report LABEL BETTER UNIT TARGET A B <pairs: appends to the row's CSV and summary (which table.py reads), prints
# how many times A is as good as B.  BETTER is lower or higher; lines are "a b".
# TARGET: "3x", or "below 5120" of A, or "0.8x..1.2x", or nothing.
report() {
	local label=$1 better=$2 unit=$3 target=$4 a=$5 b=$6
	local csv=$results/$row.csv
	if [ ! -e "$sandbox/csv_started" ]; then
		machine_line | tee "$csv" >"$results/$row.summary"
		echo "row,what,round,variant,value,unit" >>"$csv"
		touch "$sandbox/csv_started"
	fi
	tee "$sandbox/pairs" | awk -v row="$row" -v l="$label" -v a="$a" -v b="$b" -v u="$unit" \
		'{ printf "%s,%s,%d,%s,%s,%s\n%s,%s,%d,%s,%s,%s\n", row, l, NR, a, $1, u, row, l, NR, b, $2, u }' >>"$csv"
	awk -v label="$label" -v better="$better" -v unit="$unit" -v target="$target" -v na="$a" -v nb="$b" \
		-v row="$row" -v summary="$results/$row.summary" '
	function sort(v, n,  i, j, t) {
		for (i = 2; i <= n; i++)
			for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
	}
	function quantile(v, n, q) { return v[int((n - 1) * q + 0.5) + 1] }
	function number(x) { return sprintf(x >= 1000 || x <= -1000 ? "%.0f" : "%.4g", x) }
	NF != 2 { missing++; next }
	{ n++; a[n] = $1; b[n] = $2 }
	# what noise has made negative counts in the medians and has no ratio
	$1 > 0 && $2 > 0 { r[++m] = better == "lower" ? $2 / $1 : $1 / $2 }
	END {
		if (missing || m == 0) { print label ": no measurement in " n - m + missing " rounds"; exit 1 }
		sort(a, n); sort(b, n); sort(r, m)
		ma = quantile(a, n, 0.5); mb = quantile(b, n, 0.5)
		# small differences of large numbers: only the medians mean something
		ratio = m == n ? quantile(r, m, 0.5) : better == "lower" ? mb / ma : ma / mb
		printf "%-42s %s %s %s, %s %s %s: %.2fx (quartiles %.2f..%.2f, %d rounds)%s\n", label,
			na, number(ma), unit, nb, number(mb), unit, ratio,
			quantile(r, m, 0.25), quantile(r, m, 0.75), n, target == "" ? "" : "; target " target
		printf "%s\t%s\t%s %s\t%s %s\t%s\t%.2f\t%.2f\t%.2f\t%d\t%s\n", row, label, na, number(ma), nb, number(mb), unit,
			ratio, quantile(r, m, 0.25), quantile(r, m, 0.75), n, target >>summary
	}' "$sandbox/pairs" || touch "$sandbox/failed"
}

# interleave_sql LABEL UNITS UNIT TARGET A B DATABASE SETUP SQL_A SQL_B: both statements in
# turn in one session, after a round to warm up; us per UNITS operations of CPU time of the backend, which does all
# the work and waits for nothing: the wall clock would count the turns of others
interleave_sql() {
	local label=$1 units=$2 unit=$3 target=$4 a=$5 b=$6 database=$7 setup=$8 sql_a=$9 sql_b=${10} i
	local clock="SELECT '@' || split_part(pg_read_file('/proc/self/schedstat'), ' ', 1);"
	{
		printf '%s\n%s\n%s\n' "$setup" "$sql_a" "$sql_b"
		for ((i = 0; i < rounds; i++)); do
			printf '%s\n%s\n%s\n' "$clock" "$sql_a" "$clock"
			printf '%s\n%s\n%s\n' "$clock" "$sql_b" "$clock"
		done
	} >"$sandbox/chunk.sql"
	sql "$database" -f "$sandbox/chunk.sql" >"$sandbox/chunk.out"
	sed -n 's/^@//p' "$sandbox/chunk.out" |
		awk -v n="$units" '
			NR % 2 { before = $1; next }
			{ took = ($1 - before) / 1000 / n }
			NR % 4 == 2 { a = took; next }
			{ print a, took }' |
		report "$label" lower "$unit" "$target" "$a" "$b"
}

# interleave LABEL BETTER UNIT TARGET A B COMMAND: runs COMMAND A, COMMAND B in turn; each
# prints one number
interleave() {
	local label=$1 better=$2 unit=$3 target=$4 a=$5 b=$6 command=$7 i
	for ((i = 0; i < rounds; i++)); do
		echo "$($command "$a") $($command "$b")"
	done | report "$label" "$better" "$unit" "$target" "$a" "$b"
}

# pipe_open NAME COMMAND...: runs in the background, $pipe_in[NAME] to write to, $pipe_out[NAME] to read from
declare -A pipe_in pipe_out pipe_pid
pipe_open() {
	local name=$1 in out
	shift
	[ -p "$sandbox/$name.in" ] || mkfifo -m 666 "$sandbox/$name.in" "$sandbox/$name.out"
	"$@" <"$sandbox/$name.in" >"$sandbox/$name.out" 2>"$sandbox/$name.err" &
	pipe_pid[$name]=$!
	exec {in}>"$sandbox/$name.in" {out}<"$sandbox/$name.out"
	pipe_in[$name]=$in
	pipe_out[$name]=$out
}

# pipe_close NAME: by the command to quit; end of file it would not see, for the other pipe's process has inherited the
# descriptors
pipe_close() {
	local name=$1 in=${pipe_in[$1]:-} out=${pipe_out[$1]:-}
	[ -n "$in" ] || return 0
	echo '\q' >&"$in"
	wait "${pipe_pid[$name]}"
	exec {in}>&- {out}<&-
	unset "pipe_in[$name]" "pipe_out[$name]"
}

# ask NAME LINE: its answer of one line in $answer
ask() {
	echo "$2" >&"${pipe_in[$1]}"
	if ! read -r answer <&"${pipe_out[$1]}"; then
		cat "$sandbox/$1.err" >&2
		die "$1 does not answer: $2"
	fi
}

# a session whose state lasts over several questions
session_open() { pipe_open session "${session_command[@]}"; }
