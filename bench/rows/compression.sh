# size and CPU of TPC-C's order_line, customer and stock: heap, plain blocks, lz4, zstd at the bottom
bench_start
say "compression: rows as TPC-C makes them"

# Random strings are of 62 characters, 6 bits each: nothing repeats in them, as in TPC-C's
warehouses=$(scaled 4)
[ "$warehouses" -gt 0 ] || warehouses=1
sql lsm <<SQL
CREATE FUNCTION chars(seed bigint) RETURNS text LANGUAGE sql IMMUTABLE
AS \$\$ SELECT translate(encode(sha256(int8send(seed)), 'base64'), '+/=', 'xyz') \$\$;
CREATE FUNCTION word(n int) RETURNS text LANGUAGE sql IMMUTABLE
AS \$\$ SELECT ('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[])[n % 10 + 1] \$\$;
CREATE UNLOGGED TABLE of_order_line USING heap AS
SELECT row_number() OVER (ORDER BY o, d, l) AS k, o % $warehouses + 1 AS ol_w_id, d AS ol_d_id, o AS ol_o_id, l AS ol_number,
	hashint4(o * 31 + l) & 65535 AS ol_i_id, o % $warehouses + 1 AS ol_supply_w_id,
	CASE WHEN o % 10 < 7 THEN timestamp '2026-01-01' + o * interval '1 second' END AS ol_delivery_d, 5 AS ol_quantity,
	CASE WHEN o % 10 < 7 THEN 0 ELSE ((hashint4(o * 37 + l) & 1048575) % 999999) / 100.0 END::numeric(6, 2) AS ol_amount,
	substr(chars(o * 1000 + d * 50 + l), 1, 24)::char(24) AS ol_dist_info
FROM generate_series(1, 3000 * $warehouses) o, generate_series(1, 10) d, generate_series(1, 10) l;
CREATE UNLOGGED TABLE of_customer USING heap AS
SELECT i AS k, i % 3000 + 1 AS c_id, i / 3000 % 10 + 1 AS c_d_id, i / 30000 + 1 AS c_w_id,
	substr(chars(-i * 32 - 1), 1, 8 + i % 9)::varchar(16) AS c_first, 'OE'::char(2) AS c_middle,
	word(i % 1000 / 100) || word(i % 100 / 10) || word(i % 10) AS c_last,
	substr(chars(-i * 32 - 2), 1, 10 + i % 11)::varchar(20) AS c_street_1, substr(chars(-i * 32 - 3), 1, 10 + i % 11)::varchar(20) AS c_street_2,
	substr(chars(-i * 32 - 4), 1, 10 + i % 11)::varchar(20) AS c_city, 'CA'::char(2) AS c_state,
	(lpad((i % 10000)::text, 4, '0') || '11111')::char(9) AS c_zip, lpad((i::bigint * 7919)::text, 16, '0')::char(16) AS c_phone,
	timestamp '2026-01-01' + i * interval '1 ms' AS c_since, CASE WHEN i % 10 = 0 THEN 'BC' ELSE 'GC' END::char(2) AS c_credit,
	50000::numeric(12, 2) AS c_credit_lim, (i % 5000 / 10000.0)::numeric(4, 4) AS c_discount, -10::numeric(12, 2) AS c_balance,
	10::numeric(12, 2) AS c_ytd_payment, 1 AS c_payment_cnt, 0 AS c_delivery_cnt,
	substr((SELECT string_agg(chars(-i * 32 - n), '') FROM generate_series(5, 16) n), 1, 300 + i * 7919 % 200)::varchar(500) AS c_data
FROM generate_series(1, 30000 * $warehouses) i;
CREATE UNLOGGED TABLE of_stock USING heap AS
SELECT i AS k, i % 100000 + 1 AS s_i_id, i / 100000 + 1 AS s_w_id, 10 + (hashint4(i) & 63) AS s_quantity,
	$(for n in 01 02 03 04 05 06 07 08 09 10; do printf 'substr(chars(1000000000000 + i * 16::bigint + %d), 1, 24)::char(24) AS s_dist_%s, ' "$((10#$n))" $n; done)
	0::numeric(8, 0) AS s_ytd, 0 AS s_order_cnt, 0 AS s_remote_cnt,
	substr(chars(1000000000000 + i * 16::bigint + 11), 1, 26 + i % 18)::varchar(50) AS s_data
FROM generate_series(1, 100000 * $warehouses) i;
SQL

settings() {
	case $1 in
		lz4) echo "SET lsm.compression = lz4; SET lsm.bottom_compression = same;" ;;
		*) echo "SET lsm.compression = lz4; SET lsm.bottom_compression = $1;" ;;
	esac
}
# rewrite TABLE COMPRESSION: all files twice, for filters with other bits; as they are then
rewrite() {
	echo "$(settings "$2") SET lsm.bits_per_key = 11; SELECT lsm_compact('$1_$2'::regclass) \\g /dev/null"
	echo "SET lsm.bits_per_key = 10; SELECT lsm_compact('$1_$2'::regclass) \\g /dev/null"
}
scan="SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;"
for t in order_line customer stock; do
	for kind in heap none lz4 zstd; do
		{
			am=lsm
			[ $kind != heap ] || am=heap
			[ $kind = heap ] || settings $kind
			echo "CREATE TABLE ${t}_$kind USING $am AS SELECT * FROM of_$t;"
			[ $kind = heap ] || echo "SELECT lsm_compact('${t}_$kind'::regclass) \\g /dev/null"
			echo "CREATE INDEX ON ${t}_$kind USING lsm (k); VACUUM ANALYZE ${t}_$kind;"
		} | sql lsm
	done
	rows=$(sql lsm -c "SELECT count(*) FROM of_$t")
	size() { sql lsm -c "SELECT lsm_table_size('${t}_$1'::regclass) / 1048576.0"; }
	for kind in none lz4 zstd; do
		echo "$(size $kind) $(size heap)" | report "$t: size, $kind" lower MB "" $kind heap
	done
	points="SELECT count(v) FROM generate_series(1, 20000) g,
		LATERAL (SELECT t AS v FROM ${t}_@ t WHERE k = (g * 7919) % $rows + 1 OFFSET 0) s \\g /dev/null"
	for kind in zstd none; do
		interleave_sql "$t: compaction, $kind" $((rows * 2)) us/row "" $kind lz4 lsm "" "$(rewrite $t $kind)" "$(rewrite $t lz4)"
		interleave_sql "$t: scan, $kind" "$rows" us/row "" $kind lz4 lsm "$scan" \
			"SELECT count(*) FROM ${t}_$kind \\g /dev/null" "SELECT count(*) FROM ${t}_lz4 \\g /dev/null"
		interleave_sql "$t: rows by key, $kind" 20000 us/row "" $kind lz4 lsm "SET enable_seqscan = off; SET enable_bitmapscan = off;" \
			"${points//@/$kind}" "${points//@/lz4}"
	done
	interleave_sql "$t: scan, lz4" "$rows" us/row "" lz4 heap lsm "$scan" \
		"SELECT count(*) FROM ${t}_lz4 \\g /dev/null" "SELECT count(*) FROM ${t}_heap \\g /dev/null"
	interleave_sql "$t: rows by key, lz4" 20000 us/row "" lz4 heap lsm "SET enable_seqscan = off; SET enable_bitmapscan = off;" \
		"${points//@/lz4}" "${points//@/heap}"
done
