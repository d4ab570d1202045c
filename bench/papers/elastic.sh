#!/bin/bash
# ElasticBF against uniform blocked Bloom filters of the same memory, inside the database:
# false positives (wasted block reads), lookups per second, units on.
#
#   bench/papers/elastic.sh [experiment ...]      bits zero shift time writes rate (default: all)
#
#   ELASTIC_KEYS=999983    keys, a prime
#   ELASTIC_PROBES=300000  lookups per measurement
#   ELASTIC_UNIT_SIZE=512  bytes
#   ELASTIC_UNITS=12       units per segment, of 2 bits per key each
#   ELASTIC_BITS="2 4 6 8 10"
#   ELASTIC_DRAWS=3        places of the hot keys, each warmed up by three rounds (bits)
#   ELASTIC_STATES=1       states of segments are part of the memory; 0: units alone
#   ELASTIC_ROUNDS=15      chunks of each scheme (rate)
#   ELASTIC_CSV=build/elastic.csv
set -uo pipefail
. "$(dirname "$0")/../../src/test/lib.sh"

keys=${ELASTIC_KEYS:-999983}
probes=${ELASTIC_PROBES:-300000}
unit_size=${ELASTIC_UNIT_SIZE:-512}
units=${ELASTIC_UNITS:-12}
csv=${ELASTIC_CSV:-$top/build/elastic.csv}
draws=${ELASTIC_DRAWS:-3}
states=${ELASTIC_STATES:-1}
rounds=${ELASTIC_ROUNDS:-15}
[ $# -gt 0 ] || set -- bits zero shift time writes rate
bits_list=${ELASTIC_BITS:-2 4 6 8 10}
sandbox=
data=

finish() {
	local status=$?
	if [ -n "$data" ] && [ -f "$data/postmaster.pid" ]; then
		stop_server "$data" immediate
	fi
	[ -n "$sandbox" ] && rm -rf "$sandbox"
	exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

sql() {
	as_postgres "$bindir/psql" -X -q -h "$sandbox" -p 65434 -U postgres -d postgres \
		-v ON_ERROR_STOP=1 -At "$@" || exit 1
}

new_sandbox elastic
cd "$sandbox"
install_flavour release >"$sandbox/build.log" 2>&1 || {
	tail -40 "$sandbox/build.log"
	exit 1
}
data=$sandbox/data
server_conf="
jit = off
autovacuum = off
fsync = off
shared_buffers = 512MB
max_wal_size = 8GB
wal_level = minimal
max_wal_senders = 0
lsm.memtable_size = 2MB
lsm.target_file_size = 8MB
lsm.elastic_memory = 64MB
lsm.elastic_unit_size = $unit_size
"
start_server "$data" 65434 || exit 1
mkdir -p "$(dirname "$csv")"
echo "experiment,distribution,layout,zero_percent,bits_per_key,scheme,filter_kb,lookups,filter_probes,false_positives,lookups_per_s,units_on,segments,moved" >"$csv"

sql >/dev/null <<SQL
CREATE EXTENSION lsmam;
ALTER SYSTEM SET max_parallel_workers_per_gather = 0;
ALTER SYSTEM SET enable_seqscan = off;
ALTER SYSTEM SET enable_bitmapscan = off;
ALTER SYSTEM SET enable_hashjoin = off;
ALTER SYSTEM SET enable_mergejoin = off;
ALTER SYSTEM SET enable_memoize = off;
SELECT pg_reload_conf();
-- Draws: 1 the hottest of n; theta 0: uniform
CREATE FUNCTION zipf(n float, theta float) RETURNS bigint LANGUAGE sql VOLATILE AS
\$\$SELECT least(n, floor(CASE WHEN theta = 0 THEN 1 + n * random()
	ELSE ((random() * ((n + 1) ^ (1 - theta) - 1) + 1) ^ (1 / (1 - theta))) END))::bigint\$\$;
-- layout range: the hot keys are neighbours; scattered: anywhere.  Keys are even, absent ones odd.
CREATE FUNCTION draw(probes int, theta float, layout text, zero float, shift bigint)
RETURNS SETOF bigint LANGUAGE sql VOLATILE AS
\$\$SELECT 2 * ((CASE layout WHEN 'range' THEN rank ELSE rank * 48271 END + shift) % $keys) + (random() < zero)::int
	FROM (SELECT zipf($keys, theta) AS rank FROM generate_series(1, probes) OFFSET 0) d\$\$;
CREATE FUNCTION measure(tab text, probes text) RETURNS float LANGUAGE plpgsql AS \$\$
DECLARE start timestamptz := clock_timestamp();
BEGIN
	EXECUTE format('SELECT count(*) FROM %I p CROSS JOIN LATERAL (SELECT 1 FROM %I t WHERE t.id = p.id OFFSET 0) x', probes, tab);
	RETURN extract(epoch FROM clock_timestamp() - start);
END \$\$;
SQL

# load NAME OPTIONS: four runs, whatever memtables hold, of the sizes that a size ratio of 10 makes: 90%, 9%,
# 0.9% and 0.1% of the keys.  The last three are in level 0, one less than makes a compaction.
load() {
	local part key="(k * 7919 % $keys)"
	sql >/dev/null <<SQL
CREATE TABLE $1 (id bigint);
INSERT INTO $1 SELECT 2 * k FROM generate_series(0::bigint, $keys - 1) k WHERE $key % 1000 < 900;
CREATE INDEX $1_id ON $1 USING lsm (id) WITH ($2, compression = none);
SQL
	for part in "900 AND 989" "990 AND 998" "999 AND 999"; do
		sql >/dev/null <<SQL
SET lsm.memtable_size = '64MB';
INSERT INTO $1 SELECT 2 * k FROM generate_series(0::bigint, $keys - 1) k WHERE $key % 1000 BETWEEN $part;
SELECT lsm_flush('$1_id'::regclass);
SQL
	done
}

# until neither compactions nor loads go on
settle() {
	local before= now
	for _ in $(seq 100); do
		now=$(sql -c "SELECT (SELECT string_agg(l::text, ';') FROM lsm_levels('$1_id'::regclass) l), s.units_on, s.units_wanted FROM lsm_elastic_stats() s")
		[ "$now" = "$before" ] && return
		before=$now
		sleep 1.1
	done
}

filter_bytes() { sql -c "SELECT sum(filter_bytes) FROM lsm_files('$1_id'::regclass)"; }

# what states of the elastic index take, counted as part of its memory
state_bytes=0

# elastic_memory BYTES: the memory of elastic filters, and a clean state
elastic_memory() {
	sql >/dev/null <<SQL
ALTER SYSTEM SET lsm.elastic_memory = '$((($1 - state_bytes) / 1024))kB';
SELECT pg_reload_conf();
SQL
	stop_server "$data"
	start_server "$data" 65434
}

# one EXPERIMENT DISTRIBUTION LAYOUT ZERO BITS SCHEME TABLE ROUNDS [SHIFT]: the last of the rounds is
# measured and goes to the csv; prints "false positives, lookups/s"
one() {
	local theta=$2 shift=${9:-0}
	[ "$theta" = uniform ] && theta=0
	for ((round = 1; round <= $8; round++)); do
		sql <<SQL >"$sandbox/one"
CREATE TEMP TABLE probes AS SELECT * FROM draw($probes, $theta, '$3', $4 / 100.0, $shift) AS id;
ANALYZE probes;
SELECT promotions + demotions AS moved0 FROM lsm_elastic_stats() \\gset
SELECT pg_stat_lsm_reset() \\g /dev/null
SELECT measure('$7', 'probes') AS seconds \\gset
SELECT 'row', lookups, filter_probes, filter_false_positives, round(lookups / :seconds), units_on, segments,
	promotions + demotions - :moved0
FROM pg_stat_lsm, lsm_elastic_stats() WHERE relname = '$7_id';
SQL
	done
	IFS='|' read -r _ lookups fprobes false rate on segments moved < <(grep '^row' "$sandbox/one")
	local kb=$(($(filter_bytes "$7") / 1024))
	[ "$6" = blocked ] || kb=$(sql -c "SELECT budget_bytes / 1024 FROM lsm_elastic_stats()")
	echo "$1,$2,$3,$4,$5,$6,$kb,$lookups,$fprobes,$false,$rate,$on,$segments,$moved" >>"$csv"
}

# pair ARGS as one() without SCHEME and TABLE: both, interleaved, for each of $draws places of the
# hot keys; prints sums, their change, and the mean and standard deviation of the draws' changes
pair() {
	local shift=${7:-0} draw sum_b=0 sum_e=0 changes=
	for ((draw = 0; draw < draws; draw++)); do
		[ "$draw" = 0 ] || elastic_memory "$(filter_bytes "b$5")"
		one "$1" "$2" "$3" "$4" "$5" blocked "b$5" 1 $((shift + draw * 102947))
		local bf=$false br=$rate
		one "$1" "$2" "$3" "$4" "$5" elastic e "$6" $((shift + draw * 102947))
		sum_b=$((sum_b + bf)) sum_e=$((sum_e + false))
		changes="$changes $(awk -v b="$bf" -v e="$false" 'BEGIN { print b == 0 ? 0 : 100 * (e / b - 1) }')"
	done
	awk -v e="$1" -v d="$2" -v l="$3" -v z="$4" -v b="$5" -v bf="$sum_b" -v ef="$sum_e" -v br="$br" -v er="$rate" -v on="$on" -v s="$segments" -v m="$moved" -v changes="$changes" \
		'BEGIN { n = split(changes, c, " ")
			for (i = 1; i <= n; i++) { mean += c[i] / n; square += c[i] ^ 2 / n }
			dev = square > mean ^ 2 ? sqrt(square - mean ^ 2) : 0
			printf "%-7s %-8s %-10s %5d %5d %10d %10d %8.1f%% %8.1f +-%4.1f %8.2f %8d %7d\n", e, d, l, z, b, bf, ef, (bf + 0 == 0 ? 0 : 100 * (ef / bf - 1)), mean, dev, on / s, on, m }'
}
header() {
	printf '%-7s %-8s %-10s %5s %5s %10s %10s %9s %15s %8s %8s %7s\n' what access layout zero% bits fp:blocked fp:elastic change 'mean of draws' units/s units moved
}

echo "== loading $keys keys, once for each of $bits_list bits per key and once elastic ($units units of 2 bits)"
for b in $bits_list; do
	load "b$b" "filter_scheme = blocked, bits_per_key = $b"
done
load e "filter_scheme = elastic, bits_per_key = $((units * 2)), elastic_units = $units"
for b in $bits_list; do settle "b$b"; done
settle e
sql -F ' ' -c "SELECT 'levels', * FROM lsm_levels('e_id'::regclass)"
sql -F ' ' -c "SELECT 'states', state_bytes, 'bytes', segments, 'segments' FROM lsm_elastic_stats()"
[ "$states" = 0 ] || state_bytes=$(sql -c "SELECT state_bytes FROM lsm_elastic_stats()")

run_bits() {
	echo "== absent keys, bits per key and skew"
	header
	for b in $bits_list; do
		for layout in scattered range; do
			for theta in uniform 0.99 1.1 1.2; do
				[ "$theta$layout" = uniformrange ] && continue
				elastic_memory "$(filter_bytes "b$b")"
				pair bits "$theta" "$layout" 100 "$b" 4
			done
		done
	done
}

run_zero() {
	echo "== share of absent keys, 6 bits per key"
	header
	for theta in uniform 0.99; do
		for z in 0 25 50 75 100; do
			elastic_memory "$(filter_bytes b6)"
			draws=1 pair zero "$theta" range "$z" 6 4
		done
	done
}

run_shift() {
	echo "== the hot range moves after every fourth round, 6 bits per key, theta 0.99"
	header
	elastic_memory "$(filter_bytes b6)"
	for phase in 0 1 2; do
		for round in 1 2 3 4; do
			draws=1 pair "shift$phase" 0.99 range 100 6 1 $((phase * keys / 3))
		done
	done
}

# the first lookups after a start, in steps
run_time() {
	local theta layout step
	echo "== units on and false positives from the start of the server on, 6 bits per key"
	printf '%-20s %10s %10s %10s %10s %18s\n' access lookups units_on moved segments 'fp/1000 probes'
	for theta in uniform 0.99; do
		for layout in scattered range; do
			[ "$theta$layout" = uniformrange ] && continue
			elastic_memory "$(filter_bytes b6)"
			for ((step = 1; step <= 10; step++)); do
				probes=$((probes / 20)) one time "$theta" "$layout" 100 6 elastic e 1
				printf '%-20s %10d %10d %10d %10d %18.2f\n' "$theta $layout" $((step * (probes / 20))) "$on" "$moved" "$segments" \
					"$(awk -v f="$false" -v p="$fprobes" 'BEGIN { print 1000 * f / p }')"
			done
		done
	done
}

# seconds for the same lookups, schemes in turn, in one session; blocked first
rate_seconds() {
	sql <<SQL
CREATE TEMP TABLE probes AS SELECT * FROM draw($probes, $1, '$2', 1, 0) AS id;
ANALYZE probes;
SELECT measure('$3', 'probes'), measure('e', 'probes') \\g /dev/null
SELECT measure('e', 'probes'), measure('e', 'probes') \\g /dev/null
SELECT 'rate', round(measure('$3', 'probes')::numeric, 4), round(measure('e', 'probes')::numeric, 4) FROM generate_series(1, $rounds);
SQL
}

run_rate() {
	local theta layout b
	echo "== lookups per second, everything in memory, absent keys, $rounds chunks of $probes lookups each, in turn"
	printf '%-6s %-20s %12s %12s %14s %s\n' bits access blocked elastic 'median ratio' quartiles
	for b in 6 10; do
		[[ " $bits_list " == *" $b "* ]] || continue
		for theta in 0 0.99; do
			layout=scattered
			elastic_memory "$(filter_bytes "b$b")"
			rate_seconds "$theta" "$layout" "b$b" | awk -F'|' '$1 == "rate" { print $2, $3, $2 / $3 }' |
				sort -k3,3g | awk -v b="$b" -v a="theta $theta $layout" -v probes="$probes" \
				'{ x[NR] = $3; s1 += $1; s2 += $2 }
				END { printf "%-6s %-20s %12d %12d %14.3f %.3f .. %.3f\n", b, a, NR * probes / s1, NR * probes / s2,
					x[int((NR + 1) / 2)], x[int((NR + 3) / 4)], x[int((3 * NR + 1) / 4)] }'
		done
	done
}

# rounds of writes and reads, one after the other: rows in random order, so that files are replaced
run_writes() {
	local settings name
	echo "== as many rows written as keys looked up: false positives of the reads after each round of writes, 6 bits per key, theta 0.99"
	printf '%-24s %s\n' setting 'false positives per 1000 probes, round by round'
	for settings in "inheritance on:lsm.elastic_inheritance = on" "inheritance off:lsm.elastic_inheritance = off" \
		"policy compaction:lsm.elastic_policy = compaction" blocked; do
		name=${settings%%:*}
		sql -c "ALTER SYSTEM RESET lsm.elastic_inheritance" -c "ALTER SYSTEM RESET lsm.elastic_policy" >/dev/null
		[ "$name" = blocked ] || sql -c "ALTER SYSTEM SET ${settings#*:}" >/dev/null
		elastic_memory "$(filter_bytes b6)"
		sql -c "DROP TABLE IF EXISTS w" >/dev/null
		if [ "$name" = blocked ]; then
			load w "filter_scheme = blocked, bits_per_key = 6"
		else
			load w "filter_scheme = elastic, bits_per_key = $((units * 2)), elastic_units = $units"
		fi
		settle w
		one writes 0.99 range 100 6 "$name" w 3
		printf '%-24s' "$name"
		for round in 1 2 3 4 5 6 7 8; do
			sql >/dev/null -c "INSERT INTO w SELECT 2 * ((i * 7919 + $round * 104729) % $keys) FROM generate_series(1::bigint, $probes / 3) i" \
				-c "SELECT lsm_flush('w_id'::regclass)"
			settle w
			probes=$((probes / 3)) one writes 0.99 range 100 6 "$name" w 1
			awk -v f="$false" -v p="$fprobes" 'BEGIN { printf " %6.2f", 1000 * f / p }'
		done
		echo
	done
	sql -c "ALTER SYSTEM RESET lsm.elastic_inheritance" -c "ALTER SYSTEM RESET lsm.elastic_policy" >/dev/null
}

for experiment in "$@"; do
	"run_$experiment"
done
echo "== $csv"
