# Tables for scans: h (heap) and l (lsm), filled in the order of the key, then
# vacuumed

ordered_rows=$(scaled 10000000)

ordered_load() {
	bench_start
	sql heap <<-SQL
		CREATE TABLE h (id bigint PRIMARY KEY, a int, b text);
		INSERT INTO h SELECT i, i % 1000, md5(i::text) FROM generate_series(1, $ordered_rows) i;
		CREATE TABLE l (id bigint PRIMARY KEY, a int, b text) USING lsm;
		INSERT INTO l SELECT * FROM h;
		VACUUM ANALYZE h;
		VACUUM ANALYZE l;
	SQL
	settle heap l
}
