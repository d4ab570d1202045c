# TPC-C (sysbench's scripts), 2 warehouses, foreign keys, 2 and 8 threads, synchronous_commit off, and the twelve checks
#
# Debian's package sysbench, and in BENCH_TPCC a copy of https://github.com/Percona-Lab/sysbench-tpcc (not part of this
# repository).  BENCH_SECONDS: of a turn (10).  BENCH_THREADS: "2 8".  BENCH_WAREHOUSES: 2.  BENCH_INDEX=lsm: secondary
# indexes of the lsm tables are lsm_index (lsm.default_index), too.
command -v sysbench >/dev/null || die "there is no sysbench (Debian's package of that name)"
[ -f "${BENCH_TPCC:-}/tpcc.lua" ] || die "BENCH_TPCC is no copy of https://github.com/Percona-Lab/sysbench-tpcc"
bench_start "
autovacuum = on
synchronous_commit = off
max_wal_size = 4GB
"
warehouses=${BENCH_WAREHOUSES:-2}
[ -z "${BENCH_INDEX:-}" ] || sql lsm -c "ALTER DATABASE lsm SET lsm.default_index = $BENCH_INDEX"
# run_tpcc AM COMMAND [options]
run_tpcc() {
	local am=$1 command=$2
	shift 2
	(
		cd "$BENCH_TPCC" || exit 1
		sysbench tpcc.lua --db-driver=pgsql --pgsql-host="$sandbox" --pgsql-port=$port --pgsql-user=postgres --pgsql-db="$am" \
			--tables=1 --scale="$warehouses" --use_fk=1 --trx_level=RC "$@" "$command" 2>&1
	)
}
# check_consistency AM: the specification's twelve conditions
check_consistency() {
	local broken
	broken=$(sql "$1" -f "$top/bench/tpcc_checks.sql" | awk -F'|' '$2 != 0 { printf " %s (%s)", $1, $2 }')
	[ -z "$broken" ] || die "$1: conditions of consistency are broken:$broken"
	echo "   $1: the twelve conditions hold"
}
say "TPC-C: $warehouses warehouses${BENCH_INDEX:+, secondary indexes $BENCH_INDEX}"
for am in heap lsm; do
	run_tpcc $am prepare --threads=1 >"$sandbox/tpcc.log" || {
		tail -5 "$sandbox/tpcc.log" >&2
		die "sysbench prepare"
	}
	sql $am -c "VACUUM ANALYZE" -c CHECKPOINT
	check_consistency $am
done
for threads in ${BENCH_THREADS:-2 8}; do
	one() {
		run_tpcc "$1" run --threads="$threads" --time="${BENCH_SECONDS:-10}" --report-interval=0 |
			sed -n 's/^ *transactions: .*(\([0-9.]*\) per sec.*/\1/p'
	}
	interleave "TPC-C, $threads threads" higher tps 1.0x lsm heap one
done
check_consistency heap
check_consistency lsm
