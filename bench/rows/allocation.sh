# false positives by memory: bits by the size of runs, ribbon, elastic against uniform blocked filters
bench_start "
autovacuum = off
lsm.memtable_size = 64MB
lsm.elastic_memory = $(scaled 660)kB
lsm.elastic_initial_units = 6
max_parallel_workers_per_gather = 0
"
say "false positives by memory: 4 + 2 runs in level 0, two levels"

# A run of level 0 has so many keys, or four times as many; level 1 has 20 times, level 2 100 times as many
unit=$(scaled 4000)
lookups=$(scaled 200000)
names="uniform monkey ribbon mixed elastic less"
parameters() {
	case $1 in
		uniform) echo "bits_per_key = 10" ;;
		monkey) echo "bits_per_key = 10, filter_allocation = monkey" ;;
		ribbon) echo "bits_per_key = 10, filter_allocation = monkey, filter_scheme = ribbon" ;;
		mixed) echo "bits_per_key = 10, filter_allocation = monkey, bottom_filter = ribbon" ;;
		elastic) echo "bits_per_key = 20, filter_scheme = elastic, elastic_units = 12" ;;
		less) echo "bits_per_key = 6, filter_allocation = monkey, bottom_filter = ribbon" ;;
	esac
}
each() {
	local name
	for name in $names; do echo "${1//@/$name}"; done
}
# Keys are even numbers; a run has those of some remainders by 132, so that all lie over each other
rows_of() {
	echo "INSERT INTO q SELECT $(each '2 * i' | paste -sd,) FROM generate_series(0, $unit * 132 - 1) i WHERE i % 132 BETWEEN $1 AND $2;"
	each "SELECT lsm_flush('q_@'::regclass) \\g /dev/null"
}
{
	echo "CREATE TABLE q ($(each '@ int8' | paste -sd,)) USING heap;"
	rows_of 0 99 | head -1
	# what is built goes to level 2
	echo "SET lsm.memtable_size = '1MB';"
	for name in $names; do
		echo "CREATE INDEX q_$name ON q USING lsm ($name) WITH (size_ratio = 4, $(parameters "$name"));"
	done
	echo "RESET lsm.memtable_size;"
	for first in 100 105 110 115; do rows_of $first $((first + 4)); done
	echo "CALL settle('q%', 0);"
} >"$sandbox/load.sql"
sql heap -f "$sandbox/load.sql" >/dev/null

# Level 0 as it is just before its newest four runs become one: the transaction's locks keep the worker off.  Elastic
# filters have as much memory as uniform ones, and learn before they are counted
{
	echo "SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN;"
	each "ALTER INDEX q_@ SET TABLESPACE pg_default;"
	rows_of 120 123
	rows_of 124 127
	for i in 128 129 130 131; do rows_of $i $i; done
	for name in $names; do
		echo "SELECT '   $name: ' || string_agg(runs || ' of ' || entries, ', ' ORDER BY level) FROM lsm_levels('q_$name'::regclass);"
		for round in learn count; do
			echo "SELECT pg_stat_lsm_reset() \\g /dev/null"
			echo "SELECT count(*) FROM generate_series(1, $lookups) g, LATERAL (SELECT 1 FROM q WHERE $name = g::int8 * 7919 % ($unit * 132) * 2 + 1 OFFSET 0) s \\g /dev/null"
		done
		echo "SELECT '@$name', sum(false_positives), round((1000.0 * sum(false_positives) / $lookups)::numeric, 2),
			CASE WHEN '$name' = 'elastic' THEN (SELECT used_bytes FROM lsm_elastic_stats()) ELSE sum(filter_bytes) END,
			round((1000.0 * sum((negatives + false_positives) * expected_fpr) / $lookups)::numeric, 2), sum(keys)
			FROM lsm_filters('q_$name'::regclass);"
	done
	echo "COMMIT;"
} >"$sandbox/ask.sql"
sql heap -f "$sandbox/ask.sql" >"$sandbox/asked"
grep -v '^@' "$sandbox/asked"
sed -n 's/^@//p' "$sandbox/asked" | awk -F'|' '{ printf "   %s: %s false positives of 1000 lookups (%s in theory), %d bytes, %.2f bits per key\n", $1, $3, $5, $4, $4 * 8 / $6 }'
of() { awk -F'|' -v n="@$1" -v f="$2" '$1 == n { print $f }' "$sandbox/asked"; }
for name in monkey mixed ribbon elastic; do
	target=""
	[ $name != monkey ] || target=2.5x
	echo "$(of $name 3) $(of uniform 3)" | report "false positives in as much memory, $name" lower "per 1000" "$target" $name uniform
done
echo "$(of less 4) $(of uniform 4)" | report "memory, ribbon in the last level, fewer false positives" lower B "1.33x" ribbon blocked
echo "$(of less 3) $(of uniform 3)" | report "their false positives" lower "per 1000" "1x" ribbon blocked

# one level: what filters of the last level take at the same rate
sql heap -c "ALTER INDEX q_ribbon SET (bits_per_key = 7.15, filter_allocation = uniform)" -c "SELECT lsm_compact('q_ribbon'::regclass), lsm_compact('q_uniform'::regclass)" >/dev/null
sql heap -c "SELECT format('   one level: %s %s bits, rate %s', filter_scheme, round(bits_per_key::numeric, 2), round(expected_fpr::numeric, 5))
	FROM (SELECT * FROM lsm_filters('q_uniform'::regclass) UNION ALL SELECT * FROM lsm_filters('q_ribbon'::regclass)) s"
echo "$(sql heap -c "SELECT sum(filter_bytes) FROM lsm_filters('q_ribbon'::regclass)") $(sql heap -c "SELECT sum(filter_bytes) FROM lsm_filters('q_uniform'::regclass)")" |
	report "memory at the same rate, ribbon" lower B "1.33x" ribbon blocked
