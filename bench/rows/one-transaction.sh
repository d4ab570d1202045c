# one transaction that keeps the workers from its tables: a migration, a locked table, partitions made and filled; and lists
# whose product is large
bench_start
sql lsm -c "ALTER DATABASE lsm SET lsm.default_index = lsm"
n=$(scaled 300000)
say "one transaction, $n rows"

took() {
	local start=$EPOCHREALTIME
	sql "$1" -o /dev/null -c "$2"
	awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", b - a }'
}
migrate() {
	sql "$1" -c "DROP TABLE IF EXISTS m" -c "CREATE TABLE m (id int PRIMARY KEY, v text)" \
		-c "INSERT INTO m SELECT i, md5(i::text) FROM generate_series(1, $n) i" -c CHECKPOINT
	took "$1" "BEGIN; ALTER TABLE m ADD COLUMN c int; UPDATE m SET c = id; COMMIT"
}
locked() {
	sql "$1" -c "DROP TABLE IF EXISTS l" -c "CREATE TABLE l (id int PRIMARY KEY, v text)" -c CHECKPOINT
	took "$1" "SET lsm.memtable_size = '2MB'; BEGIN; LOCK TABLE l IN EXCLUSIVE MODE; INSERT INTO l SELECT i, md5(i::text) FROM generate_series(1, $n) i; COMMIT"
}
partitions() {
	sql "$1" -c "DROP TABLE IF EXISTS h" -c CHECKPOINT
	took "$1" "BEGIN; CREATE TABLE h (id int PRIMARY KEY, v text) PARTITION BY HASH (id);
		$(for i in 0 1 2 3 4 5 6 7 8 9; do echo "CREATE TABLE h$i PARTITION OF h FOR VALUES WITH (MODULUS 10, REMAINDER $i);"; done)
		INSERT INTO h SELECT i, md5(i::text) || md5((-i)::text) FROM generate_series(1, $((10 * n))) i; COMMIT"
}
interleave "ADD COLUMN and UPDATE" lower s "" lsm heap migrate
interleave "INSERT into a locked table" lower s "" lsm heap locked
interleave "$((10 * n)) rows into 10 partitions just made" lower s "" lsm heap partitions

for am in lsm heap; do
	sql $am -c "CREATE TABLE a (a int, b int, c int)" -c "INSERT INTO a SELECT i % 100, i % 77, i FROM generate_series(1, 10000) i" \
		-c "CREATE INDEX ON a (a, b, c)" -c "VACUUM ANALYZE a"
done
lists() {
	took "$1" "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM a WHERE a = ANY (ARRAY(SELECT generate_series(1, 300)))
		AND b = ANY (ARRAY(SELECT generate_series(1, 300))) AND c = ANY (ARRAY(SELECT generate_series(1, 300)))"
}
interleave "three lists of 300" lower s "" lsm heap lists
