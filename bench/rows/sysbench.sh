# sysbench's OLTP scripts, 8 tables, 1 and 8 threads, synchronous_commit off
#
# Debian's package sysbench.  BENCH_SECONDS: of a turn (10).  BENCH_THREADS: "1 8".  BENCH_INDEX=lsm: secondary indexes of
# the lsm tables are lsm_index (lsm.default_index), too.
command -v sysbench >/dev/null || die "there is no sysbench (Debian's package of that name)"
bench_start "
autovacuum = on
synchronous_commit = off
max_wal_size = 4GB
"
rows_per_table=$(scaled 100000)
[ -z "${BENCH_INDEX:-}" ] || sql lsm -c "ALTER DATABASE lsm SET lsm.default_index = $BENCH_INDEX"
# run_script AM SCRIPT COMMAND [options]
run_script() {
	local am=$1 script=$2 command=$3
	shift 3
	sysbench "$script" --db-driver=pgsql --pgsql-host="$sandbox" --pgsql-port=$port --pgsql-user=postgres --pgsql-db="$am" \
		--tables=8 --table-size="$rows_per_table" "$@" "$command" 2>&1
}
say "sysbench: 8 tables of $rows_per_table rows${BENCH_INDEX:+, secondary indexes $BENCH_INDEX}"
for am in heap lsm; do
	run_script $am oltp_read_write prepare >"$sandbox/sysbench.log" || {
		tail -5 "$sandbox/sysbench.log" >&2
		die "sysbench prepare"
	}
	sql $am -c "VACUUM ANALYZE" -c CHECKPOINT
done

# those that change nothing first; what is inserted and deleted is at random, as much in both
for script in oltp_point_select oltp_read_only select_random_points select_random_ranges oltp_read_write oltp_write_only \
	oltp_update_index oltp_update_non_index oltp_delete oltp_insert; do
	for threads in ${BENCH_THREADS:-1 8}; do
		one() {
			run_script "$1" "$script" run --threads="$threads" --time="${BENCH_SECONDS:-10}" |
				sed -n 's/^ *transactions: .*(\([0-9.]*\) per sec.*/\1/p'
		}
		target=1.0x
		case $script in *point_select | *insert | *update_index) target=1.1x ;; esac
		interleave "${script#oltp_}, $threads threads" higher tps $target lsm heap one
	done
done
