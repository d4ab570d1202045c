# CREATE INDEX of an lsm table, lsm_index against btree: by one process, and with two workers
bench_start "max_parallel_maintenance_workers = 0
maintenance_work_mem = 256MB"
say "CREATE INDEX"

n=$(scaled 2000000)
sql lsm -c 'CREATE TABLE t (r int, b bigint, s text COLLATE "C", u uuid)' \
	-c "INSERT INTO t SELECT hashint4(i), i, md5(i::text), md5(i::text)::uuid FROM generate_series(1, $n) i" \
	-c "VACUUM (FREEZE, ANALYZE) t"
drain lsm t

# one WHAT COLUMN TARGET
one() {
	interleave_sql "$1, one process" "$n" us/row "$3" lsm_index btree lsm "" \
		"CREATE INDEX x ON t USING lsm_index ($2); DROP INDEX x;" \
		"CREATE INDEX x ON t USING btree ($2); DROP INDEX x;"
	column=$2
	interleave "$1, two workers" lower s "$3" lsm_index btree team
}
# team ACCESS_METHOD: seconds
team() {
	local start=$EPOCHREALTIME end
	sql lsm -c "SET max_parallel_maintenance_workers = 2" -c "CREATE INDEX x ON t USING $1 ($column)"
	end=$EPOCHREALTIME
	sql lsm -c "DROP INDEX x"
	echo "$start $end" | awk '{ printf "%.3f", $2 - $1 }'
}
one "random integers" r 1.0x
one "ascending bigints" b 1.0x
one "text" s 1.0x
one "uuids" u ""
