# = ANY with 1,000 keys and a 1,000-row nested loop, against one prepared statement per key
. "$top/bench/ordered.sh"
ordered_load
say "1,000 keys at once"

sql heap <<-SQL
	CREATE TABLE keys AS SELECT (random() * $ordered_rows)::bigint AS id FROM generate_series(1, 1000);
	ANALYZE keys;
SQL
array=$(sql heap -c "SELECT array_agg(id) FROM keys")
{
	for key in $(sql heap -c "SELECT id FROM keys"); do
		echo "EXECUTE one($key);"
	done
} >"$sandbox/singles.sql"
setup="PREPARE one(bigint) AS SELECT a FROM l WHERE id = \$1; SET enable_hashjoin = off; SET enable_mergejoin = off;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan;"

# chunk SQL: milliseconds in a session of its own, best of three
chunk() {
	{
		echo "$setup"
		echo '\o /dev/null'
		for _ in 1 2 3 4; do
			echo "SELECT extract(epoch FROM clock_timestamp()) * 1000 AS start \\gset"
			echo "$1"
			echo "\\o"
			echo "SELECT extract(epoch FROM clock_timestamp()) * 1000 - :start;"
			echo "\\o /dev/null"
		done
	} >"$sandbox/any.sql"
	sql heap -f "$sandbox/any.sql" | sort -n | head -1
}
one() {
	case $1 in
		any) chunk "SELECT sum(a) FROM l WHERE id = ANY ('$array');" ;;
		loop) chunk "SELECT sum(a) FROM keys JOIN l USING (id);" ;;
		singles) chunk "\\i $sandbox/singles.sql" ;;
	esac
}
interleave "= ANY, 1,000 keys" lower ms 10x any singles one
interleave "nested loop, 1,000 rows" lower ms 10x loop singles one
