# point selects by pgbench (bench/pgbench): present, absent, mixed, Zipf
bench_start
say "point selects by pgbench, prepared, 2 clients"

n=$(scaled 2000000)
for am in heap lsm; do
	sql $am -c "CREATE TABLE t (id bigint PRIMARY KEY, v text)" \
		-c "INSERT INTO t SELECT 2 * i, md5(i::text) FROM generate_series(1, $n) i ORDER BY hashint8(i)" \
		-c "VACUUM ANALYZE t"
done
settle lsm t

# point LABEL SCRIPT [VARIABLE=VALUE]...
point() {
	local label=$1 script=$2 defines=()
	shift 2
	for define in rows="$n" "$@"; do
		defines+=(-D "$define")
	done
	cp "$top/bench/pgbench/$script.sql" "$sandbox/script.sql"
	one() { tps "$1" -n -M prepared -c 2 -j 2 -T "${BENCH_SECONDS:-3}" -f "$sandbox/script.sql" "${defines[@]}"; }
	interleave "$label" higher tps "" lsm heap one
}

point "present keys" present
point "absent keys" absent
point "half of the keys present" mixed alpha=50
point "Zipf 1.1, all present" zipf theta=1.1 alpha=100
point "Zipf 1.1, half present" zipf theta=1.1 alpha=50
