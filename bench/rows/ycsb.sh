# YCSB's workloads a to f with pgbench: load, then zipfian and uniform keys
#
# The table and the statements are those of go-ycsb: a key of text, ten fields of 100 characters.  a: half updates; b: one
# in 20; c: reads; d: reads of what was inserted last, one insert in 20; e: ranges of up to 100 rows, one insert in 20; f:
# half of it reads a row and updates it.  4 clients, synchronous_commit off.  BENCH_SECONDS: of a turn (10).
bench_start "
autovacuum = on
synchronous_commit = off
max_wal_size = 4GB
"
n=$(scaled 1000000)
say "YCSB: $n records"

columns=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf ', field%d varchar(100)' $i; done)
for am in heap lsm; do
	sql $am -c "CREATE TABLE usertable (ycsb_key varchar(64) COLLATE \"C\" PRIMARY KEY$columns)" \
		-c "CREATE FUNCTION field(seed bigint) RETURNS text LANGUAGE sql IMMUTABLE
			AS \$\$ SELECT substr(encode(sha512(int8send(seed)), 'base64') || encode(sha512(int8send(-seed)), 'base64'), 1, 100) \$\$" \
		-c "CREATE SEQUENCE last START $((n + 1))"
done
fields=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf ', field(i * 10 + %d)' $i; done)
key="'user' || lpad((hashint8extended(i, 7) & 9223372036854775807)::text, 19, '0')"
load() {
	local start
	sql "$1" -c "TRUNCATE usertable"
	start=$(date +%s.%N)
	for ((part = 0; part < 10; part++)); do
		sql "$1" -c "INSERT INTO usertable SELECT $key$fields FROM generate_series($n / 10 * $part + 1, $n / 10 * ($part + 1)) i"
	done
	echo "$n $start $(date +%s.%N)" | awk '{ print $1 / ($3 - $2) }'
}
rounds=1 interleave "load" higher rows/s 1.0x lsm heap load
for am in heap lsm; do sql $am -c "VACUUM ANALYZE usertable" -c CHECKPOINT; done

# statement NAME KEYS: one of a script
statement() {
	local draw="random(1, $n)"
	[ "$2" != zipfian ] || draw="random_zipfian(1, $n, 1.01)"
	# zipfian's first keys are anywhere
	local pick="\\set i permute($draw - 1, $n, 42) + 1"
	local where="ycsb_key = ${key//(i,/(:i,}"
	case $1 in
		read) printf '%s\nSELECT * FROM usertable WHERE %s;\n' "$pick" "$where" ;;
		update) printf '%s\n\\set s random(1, 1000000000)\nUPDATE usertable SET field3 = field(:s) WHERE %s;\n' "$pick" "$where" ;;
		latest) printf '\\set i %s - random_zipfian(1, %s, 1.01) + 1\nSELECT * FROM usertable WHERE %s;\n' "$n" "$n" "$where" ;;
		scan) printf '%s\n\\set l random(1, 100)\nSELECT * FROM usertable WHERE %s ORDER BY ycsb_key LIMIT :l;\n' "$pick" "${where/=/>=}" ;;
		modify) printf '%s\n\\set s random(1, 1000000000)\nSELECT * FROM usertable WHERE %s;\nUPDATE usertable SET field3 = field(:s) WHERE %s;\n' \
			"$pick" "$where" "$where" ;;
		insert) printf 'INSERT INTO usertable SELECT %s%s FROM nextval('\''last'\'') i;\n' "$key" "$fields" ;;
	esac >"$sandbox/$1.$2.sql"
	echo "-f $sandbox/$1.$2.sql@$3"
}
for keys in zipfian uniform; do
	for workload in a b c d e f; do
		case $workload in
			a) mix="$(statement read $keys 1) $(statement update $keys 1)" ;;
			b) mix="$(statement read $keys 19) $(statement update $keys 1)" ;;
			c) mix="$(statement read $keys 1)" ;;
			d) mix="$(statement latest $keys 19) $(statement insert $keys 1)" ;;
			e) mix="$(statement scan $keys 19) $(statement insert $keys 1)" ;;
			f) mix="$(statement read $keys 1) $(statement modify $keys 1)" ;;
		esac
		# shellcheck disable=SC2086
		one() { tps "$1" -n -M prepared -c 4 -j 2 -T "${BENCH_SECONDS:-10}" $mix; }
		interleave "$workload, $keys" higher tps 1.0x lsm heap one
	done
done
