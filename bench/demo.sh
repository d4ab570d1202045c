#!/bin/bash
# make demo: lsm tables and keys under pgbench, then what filters and shared digests do for lookups of long keys, on a
# throwaway server.
#
#   DEMO_SCALE=10 DEMO_SECONDS=10 DEMO_CLIENTS=2, and those of demo_filters.sh
set -uo pipefail
. "$(dirname "$0")/../src/test/lib.sh"
. "$top/bench/demo_filters.sh"

scale=${DEMO_SCALE:-10}
seconds=${DEMO_SECONDS:-10}
clients=${DEMO_CLIENTS:-2}
sandbox=
data=
step=start

finish() {
	local status=$?
	if [ -n "$data" ] && [ -f "$data/postmaster.pid" ]; then
		stop_server "$data" immediate
	fi
	if [ $status -ne 0 ]; then
		echo "demo FAILED at step: $step"
		[ -f "${data:-}.log" ] && tail -30 "$data.log"
	fi
	[ -n "$sandbox" ] && rm -rf "$sandbox"
	exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m== %s\033[0m\n' "$1"; }
must() { "$@" || exit 1; }

sql() {
	as_postgres "$bindir/psql" -X -h "$sandbox" -p 65433 -U postgres -d demo \
		-v ON_ERROR_STOP=1 "$@"
}
bench() {
	as_postgres "$bindir/pgbench" -h "$sandbox" -p 65433 -U postgres "$@" demo
}

say "Building lsmam (release) into a private copy of PostgreSQL"
step=build
new_sandbox demo
cd "$sandbox"
if ! install_flavour release >"$sandbox/build.log" 2>&1; then
	tail -40 "$sandbox/build.log"
	exit 1
fi

say "Starting a throwaway server"
step="server start"
data=$sandbox/data
server_conf="
lsm.memtable_size = 16MB
shared_buffers = 256MB
max_wal_size = 4GB
lsm.elastic_memory = 1MB
lsm.elastic_unit_size = 256
"
must start_server "$data" 65433
must as_postgres "$bindir/createdb" -h "$sandbox" -p 65433 -U postgres demo
must sql -q -c "CREATE EXTENSION lsmam" \
	-c "ALTER DATABASE demo SET default_table_access_method = lsm" \
	-c "SELECT lsm_full_version()" -At

say "pgbench -i -s $scale: tables USING lsm, primary keys in lsm_index"
step="pgbench -i"
must bench -i -q -s "$scale" 2>&1 | tail -2
[ "${PIPESTATUS[0]}" -eq 0 ] || exit 1
must sql -c "SELECT c.relname, a.amname, pg_size_pretty(lsm_relation_size(c.oid::regclass)) AS size
	FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE a.amname LIKE 'lsm%' ORDER BY c.relname"
keys=$(sql -At -c "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE a.amname = 'lsm_index'") || exit 1
[ "$keys" -ge 3 ] || { echo "the primary keys are not in lsm_index"; exit 1; }

counters() {
	must sql -c "SELECT relname, kind, lookups, digests, filter_probes, filter_negatives AS negatives,
		filter_true_positives AS true_pos, filter_false_positives AS false_pos, memtable_hits AS mem_hits
		FROM pg_stat_lsm WHERE relname LIKE 'pgbench_accounts%' ORDER BY relname"
}

say "Default TPC-B script, $clients clients, $seconds s"
step="TPC-B"
bench -n -c "$clients" -j "$clients" -T "$seconds" -M prepared >"$sandbox/bench.log" 2>&1 || {
	cat "$sandbox/bench.log"
	exit 1
}
grep -E '^(tps|latency average|number of failed)' "$sandbox/bench.log"
tpcb=$(sed -n 's/^tps = \([0-9]*\).*/\1/p' "$sandbox/bench.log")

step="balances"
sum=$(sql -At -c "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)
	AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history)
	AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history)") || exit 1
[ "$sum" = t ] || { echo "balances do not add up"; exit 1; }
echo "balances of accounts, tellers and branches equal the history"

say "Levels"
step="lsm_levels"
must sql -q -c "SELECT lsm_flush('pgbench_accounts'::regclass)" -o /dev/null
must sql -c "SELECT 'pgbench_accounts' AS tree, * FROM lsm_levels('pgbench_accounts'::regclass)
	UNION ALL SELECT 'pgbench_accounts_pkey', * FROM lsm_levels('pgbench_accounts_pkey'::regclass)"

say "Point selects, hash sharing on and off in turn, $clients clients, $seconds s each"
selects=5
for ((i = 0; i < selects; i++)); do
	for sharing in on off; do
		[ $i -gt 0 ] || must sql -q -c "SELECT pg_stat_lsm_reset()" -o /dev/null
		step="SELECT, sharing $sharing"
		PGOPTIONS="-c lsm.hash_sharing=$sharing" bench -n -S -M prepared -c "$clients" -j "$clients" \
			-T $(((seconds + selects - 1) / selects)) >"$sandbox/bench.log" 2>&1 || {
			cat "$sandbox/bench.log"
			exit 1
		}
		sed -n 's/^tps = \([0-9]*\).*/\1/p' "$sandbox/bench.log" >>"$sandbox/tps.$sharing"
		[ $i -gt 0 ] || {
			echo "sharing $sharing:"
			counters
		}
	done
done
median() { sort -n "$1" | sed -n "$(((selects + 1) / 2))p"; }
shared=$(median "$sandbox/tps.on")
unshared=$(median "$sandbox/tps.off")

step="lsm_verify"
say "lsm_verify"
problems=$(sql -At -c "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam,
	LATERAL lsm_verify(c.oid::regclass) v WHERE a.amname = 'lsm'") || exit 1
[ "$problems" = 0 ] || {
	sql -c "SELECT c.relname, v.* FROM pg_class c JOIN pg_am a ON a.oid = c.relam,
		LATERAL lsm_verify(c.oid::regclass) v WHERE a.amname = 'lsm' LIMIT 20"
	exit 1
}
echo "no problem found"

say "Long keys: $filter_keys of $filter_bytes bytes in $filter_runs runs, lookups with four kinds of filters"
filter_experiment

say "A picture of the trees"
step="lsm_report"
report=$filter_results/report.html
sql -At -c "SELECT lsm_report(array_agg(c.oid ORDER BY c.relname)::regclass[]) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE a.amname LIKE 'lsm%' AND c.relpersistence <> 't'" >"$report" || exit 1
grep -q '^</html>$' "$report" || { echo "the page is not complete"; exit 1; }
echo "$(grep -c '^<section ' "$report") trees; open it in a browser: $report"

step="stop"
must stop_server "$data"
if grep -qE 'PANIC|terminated by signal' "$data.log"; then
	echo "the server crashed on the way"
	exit 1
fi

say "Demo finished in $SECONDS s"
cat <<SUMMARY
  TPC-B                         $tpcb transactions/s
  point select, sharing on      $shared transactions/s
  point select, sharing off     $unshared transactions/s
  (medians of $selects turns; a key of 8 bytes is hashed in next to no time, so what differs is noise. Long keys:)

SUMMARY
cat "$filter_results/table.txt"
echo
echo "$filter_plot"
echo "  Levels, files, filters in a browser: $report"
