# many small tables: CREATE TABLE, TRUNCATE, DROP SCHEMA, VACUUM and ANALYZE of what has hardly changed
bench_start "max_locks_per_transaction = 4000"
sql lsm -c "ALTER DATABASE lsm SET lsm.default_index = lsm"
n=$(scaled 200)
say "$n tables, $((2 * n)) partitions of 1,000 rows"

# took DATABASE SQL: seconds; "-": of what comes in
took() {
	local start=$EPOCHREALTIME
	if [ "$2" = - ]; then sql "$1" -f -; else sql "$1" -o /dev/null -c "$2"; fi
	awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", b - a }'
}
# each PATTERN: the pattern for the tables 1 to n, by semicolons, % for the number
each() { seq "$n" | while read -r i; do printf '%s; ' "${1//%/$i}"; done; }

create() { took "$1" "CREATE SCHEMA s; SET search_path = s; $(each 'CREATE TABLE t_% (id int PRIMARY KEY, k int UNIQUE, v text)')"; }
drop() { took "$1" "DROP SCHEMA s CASCADE"; }
truncate_all() {
	sql "$1" -c "SET search_path = s" -c "BEGIN; $(each "INSERT INTO t_% SELECT i, i, 'v' || i FROM generate_series(1, 50) i") COMMIT"
	took "$1" "SET search_path = s; TRUNCATE $(seq -s, -f 't_%g' "$n")"
}
vacuum_little() {
	sql "$1" -c "SET search_path = s" -c "BEGIN; $(each "INSERT INTO t_% SELECT i, i, 'v' || i FROM generate_series(1, 50) i ON CONFLICT DO NOTHING") COMMIT" \
		-c "BEGIN; $(each "UPDATE t_% SET v = v || 'x' WHERE id <= 4") COMMIT"
	# each is a transaction of its own
	took "$1" - <<<"SET search_path = s; $(each 'VACUUM t_%')"
}
first_vacuum() {
	sql "$1" -c "DROP TABLE IF EXISTS p" -c "CREATE TABLE p (id int, a int, b text) PARTITION BY HASH (id)" \
		-c "DO \$\$ BEGIN FOR i IN 0 .. $((2 * n - 1)) LOOP EXECUTE format('CREATE TABLE p_%s PARTITION OF p FOR VALUES WITH (MODULUS $((2 * n)), REMAINDER %s)', i, i); END LOOP; END \$\$" \
		-c "CREATE INDEX ON p (id)" -c "CREATE INDEX ON p (a)" \
		-c "INSERT INTO p SELECT i, i % 1000, 'v' || i FROM generate_series(1, $((2000 * n))) i"
	took "$1" "VACUUM p"
}
turn=0
vacuum_partitions() {
	turn=$((turn + 1))
	sql "$1" -c "UPDATE p SET b = b || 'x' WHERE id BETWEEN $((turn * 8 * n)) AND $((turn * 8 * n + 8 * n - 1))"
	took "$1" "VACUUM p"
}
analyze() { took "$1" "ANALYZE p"; }

# the schema is there at the end
for ((i = 0; i < rounds; i++)); do
	for am in lsm heap; do
		create $am >"$sandbox/$am.create"
		drop $am >"$sandbox/$am.drop"
	done
	echo "$(cat "$sandbox/lsm.create") $(cat "$sandbox/heap.create")" >>"$sandbox/creates"
	echo "$(cat "$sandbox/lsm.drop") $(cat "$sandbox/heap.drop")" >>"$sandbox/drops"
done
report "CREATE TABLE, $n with two keys" lower s 0.67x lsm heap <"$sandbox/creates"
report "DROP SCHEMA of them" lower s 0.67x lsm heap <"$sandbox/drops"
for am in lsm heap; do create $am >/dev/null; done
interleave "TRUNCATE of them" lower s 0.67x lsm heap truncate_all
interleave "VACUUM of them, 4 rows updated in each" lower s 0.5x lsm heap vacuum_little
interleave "first VACUUM of $((2 * n)) partitions" lower s 0.5x lsm heap first_vacuum
interleave "VACUUM of these, 4 rows updated in each" lower s 0.5x lsm heap vacuum_partitions
interleave "ANALYZE of these" lower s 0.5x lsm heap analyze
