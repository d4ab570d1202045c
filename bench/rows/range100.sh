# range scans of 100 rows in key order
. "$top/bench/ordered.sh"
ordered_load
say "range scans of 100 rows"
range() {
	echo "SELECT sum(a) FROM generate_series(1, 1000) g,
		LATERAL (SELECT a FROM $1 WHERE id >= g * $((ordered_rows / 1000 - 1)) ORDER BY id LIMIT 100) x;"
}
interleave_sql "100 rows in key order" 1000 us 0.7x lsm heap heap \
	"SET enable_seqscan = off; SET enable_bitmapscan = off;" "$(range l)" "$(range h)"
