#!/bin/bash
# make demo: the same loads on heap tables with btree keys and on lsm tables with lsm keys, in turns, on a throwaway server;
# then what filters and shared digests do for lookups of long keys.  The last screen says it in one table.
#
#   DEMO_ROWS=1000000 DEMO_ROUNDS=5 DEMO_SECONDS=2 (of a turn of pgbench; of the queue, one more), and those of demo_filters.sh
#
# While rows with random keys are inserted, shared_buffers and the sizes that belong to it are small, so that an index of
# some seconds' making is to this server what a large one is to others (as rows/uuid-insert.sh does it by BENCH_SCALE).
# For all else everything is in memory.
set -uo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
export BENCH_RESULTS=${DEMO_RESULTS:-$top/build/demo}
export BENCH_ROUNDS=${DEMO_ROUNDS:-5}
. "$top/bench/lib.sh"
. "$top/bench/probes.sh"
. "$top/bench/demo_filters.sh"

row=against
rows=${DEMO_ROWS:-1000000}
added=$((rows / 15))
probes=$((rows / 25))
seconds=${DEMO_SECONDS:-2}
step=start
load=$(cut -d. -f1 /proc/loadavg)

demo_cleanup() {
	local status=$?
	if [ $status -ne 0 ] || [ -e "$sandbox/failed" ]; then
		echo "demo FAILED at step: $step"
	fi
	(exit $status)
	bench_cleanup
}
must() { "$@" || exit 1; }
# same VALUE...: they are
same() { [ "$(printf '%s\n' "$@" | sort -u | wc -l)" -eq 1 ]; }

step=build
say "Building lsmam into a private copy of PostgreSQL (two processors take a minute)"
bench_start "
shared_buffers = 16MB
max_wal_size = 128MB
autovacuum = on
autovacuum_naptime = 10s
synchronous_commit = off
lsm.memtable_size = 8MB
lsm.elastic_memory = 1MB
lsm.elastic_unit_size = 256
"
trap demo_cleanup EXIT
built=$SECONDS

# ---- random keys: h is a heap table, l an lsm table ----

step="random keys"
say "$rows rows with random keys, then $rounds times $added more"
sql heap <<-SQL
	CREATE TABLE made USING heap AS SELECT gen_random_uuid() AS id, i AS a, 'event ' || i || ' of ' || i % 97 AS b
		FROM generate_series(1, $rows) i;
	CREATE TABLE h (id uuid NOT NULL, a int, b text) USING heap;
	INSERT INTO h SELECT * FROM made;
	-- what random inserts keep a btree at
	ALTER TABLE h ADD PRIMARY KEY (id) WITH (fillfactor = 70);
	CREATE TABLE l (id uuid PRIMARY KEY, a int, b text) USING lsm;
	INSERT INTO l SELECT * FROM made;
	CREATE TABLE present USING heap AS SELECT id FROM made WHERE a % 25 = 0;
	CREATE TABLE absent USING heap AS SELECT gen_random_uuid() AS id FROM present;
	VACUUM ANALYZE made, h, l, present, absent;
SQL
settle heap l

wal_at() { sql heap -c "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"; }

# insert TABLE: compactions that are due, a checkpoint and the kernel's writes belong to it
insert() {
	local start settled wal
	sql heap -c CHECKPOINT
	sync
	wal=$(wal_at)
	start=$EPOCHREALTIME
	sql heap -c "INSERT INTO $1 SELECT * FROM made"
	settled=$EPOCHREALTIME
	[ "$1" = h ] || settle heap l
	local checkpoint=$EPOCHREALTIME
	sql heap -c CHECKPOINT
	sync
	echo "$start $settled $checkpoint $EPOCHREALTIME $wal $(wal_at)" |
		awk -v n="$added" '{ print n / ($2 - $1 + $4 - $3), ($6 - $5) / n }' >>"$sandbox/inserts.$1"
}
for ((i = 0; i < rounds; i++)); do
	sql heap -c "TRUNCATE made" -c "INSERT INTO made SELECT gen_random_uuid(), i, 'event ' || i || ' of ' || i % 97
		FROM generate_series(1, $added) i" -c "VACUUM made"
	for table in $([ $((i % 2)) -eq 0 ] && echo l h || echo h l); do
		insert "$table"
	done
done
paste -d' ' "$sandbox/inserts.l" "$sandbox/inserts.h" | tee "$sandbox/inserts" | awk '{ print $1, $3 }' |
	report "rows with random keys inserted" higher rows/s "" lsm heap
awk '{ print $2, $4 }' "$sandbox/inserts" | report "WAL of such a row" lower bytes "" lsm heap

step="same rows"
must same $(sql heap -c "SELECT concat_ws(',', count(*), sum(a), sum(hashtext(b))) FROM h
	UNION ALL SELECT concat_ws(',', count(*), sum(a), sum(hashtext(b))) FROM l")

step="size"
sql heap -o /dev/null -c "SELECT lsm_flush('l'::regclass)"
settle heap l
sql heap -c CHECKPOINT
sql heap -c "SELECT lsm_total_relation_size('l'::regclass) / 1048576.0 || ' ' || pg_total_relation_size('h') / 1048576.0" |
	report "size on disk, with the key" lower MB "" lsm heap

step="restart"
sql heap -c "ALTER SYSTEM SET shared_buffers = '512MB'" -c "ALTER SYSTEM SET max_wal_size = '4GB'" \
	-c "ALTER SYSTEM SET lsm.memtable_size = '64MB'"
must stop_server "$data"
must start_server "$data" $port

step="lookups"
say "lookups by key"
lookups="$probes_nested SET enable_seqscan = off;"
# look LABEL KEYS: in a nested loop
look() {
	interleave_sql "$1" "$probes" us "" lsm heap heap "${lookups/SET enable_seqscan = off;/}" \
		"SELECT count(l.a) FROM $2 JOIN l USING (id);" "SELECT count(h.a) FROM $2 JOIN h USING (id);"
}
look "key that is not there" absent
look "key that is there" present
range() {
	echo "SELECT sum(x.a) FROM (SELECT id FROM present LIMIT 1000) p,
		LATERAL (SELECT a FROM $1 WHERE id >= p.id ORDER BY id LIMIT 100) x;"
}
interleave_sql "100 rows in key order" 1000 us "" lsm heap heap "$lookups" "$(range l)" "$(range h)"
interleave_sql "count of all rows" 1000 ms "" lsm heap heap "" "SELECT count(a) FROM l;" "SELECT count(a) FROM h;"

# ---- pgbench: database heap, database lsm ----

step="queue"
say "a queue: fetch the first job, delete it, add one; 4 clients"
for am in heap lsm; do
	sql $am -c "CREATE TABLE q (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload text)" \
		-c "INSERT INTO q (payload) SELECT md5(i::text) FROM generate_series(1, $rows) i" -c "VACUUM ANALYZE q"
done
cat >"$sandbox/queue.sql" <<-'SQL'
	DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
	INSERT INTO q (payload) VALUES ('what is to be done');
SQL
chmod a+r "$sandbox/queue.sql"
one() { tps "$1" -n -M prepared -c 4 -j 2 -T $((seconds + 1)) -f "$sandbox/queue.sql"; }
interleave "jobs of a queue" higher /s "" lsm heap one

step="TPC-B"
say "pgbench's TPC-B, scale 5, 4 clients"
for am in heap lsm; do
	bench_pgbench $am -i -q -s 5 >/dev/null 2>&1 || die "pgbench -i"
done
settle lsm pgbench_accounts
one() { tps "$1" -n -M prepared -c 4 -j 2 -T "$seconds"; }
interleave "TPC-B transactions" higher /s "" lsm heap one

step="lsm_verify"
say "lsm_verify, balances"
must same t "$(sql lsm -c "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)
	AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history)
	AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history)")"
for am in heap lsm; do
	must same "" "$(sql $am -c "SELECT c.relname, v.* FROM pg_class c JOIN pg_am a ON a.oid = c.relam,
		LATERAL lsm_verify(c.oid::regclass) v WHERE a.amname = 'lsm' LIMIT 20")"
done
echo "balances are what the history says, lsm_verify() finds nothing"

say "filters: $filter_keys keys of $filter_bytes bytes in $filter_runs runs"
filter_experiment

step="lsm_report"
report=$results/report.html
sql heap -c "SELECT lsm_report(array_agg(c.oid ORDER BY c.relname)::regclass[]) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE a.amname LIKE 'lsm%' AND c.relpersistence <> 't'" >"$report" || exit 1
grep -q '^</html>$' "$report" || { echo "the page is not complete"; exit 1; }

step="stop"
must stop_server "$data"
if grep -qE 'PANIC|terminated by signal' "$data.log"; then
	echo "the server crashed on the way"
	exit 1
fi
[ ! -e "$sandbox/failed" ] || exit 1

# ---- the last screen: less than 24 lines of 80 columns ----

# demo_table: the summary's lines.  Where half of the neighbouring turns are on either side, or the difference is
# less than what the machine's phases make, what was measured is noise, and not shown.
demo_table() {
	awk -F'\t' '
	function number(x) { return x >= 1000 ? sprintf("%d,%03d", x / 1000, x % 1000) : sprintf(x >= 100 ? "%.0f" : "%.3g", x) }
	/^#/ { next }
	{
		split($5 == "MB" ? "smaller larger" : $5 == "bytes" ? "less more" : "faster slower", words, " ")
		split($3, a, " ")
		split($4, b, " ")
		printf "  %-32s", $2
		if ($9 > 1 && (($7 < 1 && $8 > 1) || ($6 > 0.97 && $6 < 1.03))) {
			print "cannot be told apart from noise"
			next
		}
		times = $6 >= 1 ? $6 : 1 / $6
		printf "%-15s %9s %10s %s\n", sprintf("%.*fx %s", times < 1.1 ? 2 : 1, times, words[$6 >= 1 ? 1 : 2]),
			number(a[2]), number(b[2]), $5
	}' "$results/against.summary"
}

echo
{
	printf '%-49s%10s %10s\n' "lsm against heap and btree, in turns ($built + $((SECONDS - built)) s):" lsm heap
	demo_table
	echo
	cat "$results/savings.txt"
	echo
	echo "Both had the same rows and balances in the end, lsm_verify() found nothing. The"
	echo "first two with an index larger than shared_buffers, the others in memory. Larger"
	echo "tables, more loads, how much turns differ: bench/RESULTS.md"
	[ "$load" -lt "$(nproc)" ] || echo "The machine had other things to do (load $load): some differences may be theirs."
	echo "$filter_plot Levels and files: ${report#"$top"/}"
} | tee "$results/screen.txt"
