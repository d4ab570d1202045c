#!/bin/bash
# bench/against.sh COMMIT [ROW...]: this tree against an older commit, by CPU time of a backend.
#
# Both are built and installed privately; their servers run at the same time with the same data, and one session of
# each takes turns with the other in chunks of about a second (BENCH_ROUNDS, 15).  What is compared is the CPU time
# that the backends took, so that others on the machine count less; a ratio is the median of those of
# neighbouring chunks, above 1: this tree needs less.  TPC-B: transactions per second.
set -uo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
commit=${1:?usage: bench/against.sh COMMIT [ROW...]}
shift
. "$top/bench/lib.sh"
rounds=${BENCH_ROUNDS:-15}
new_sandbox against

cleanup() {
	local side
	for side in new old; do
		[ ! -f "$sandbox/$side/data/postmaster.pid" ] ||
			as_postgres "$sandbox/$side/$pg_bin/pg_ctl" -D "$sandbox/$side/data" -m immediate stop >/dev/null
	done
	git -C "$top" worktree remove --force "$sandbox/tree" 2>/dev/null
	rm -rf "$sandbox" /tmp/lsm_against.copy
}
trap cleanup EXIT
trap 'exit 130' INT TERM

pg_bin=prefix$("$(find_pg_config)" --bindir)
git -C "$top" worktree add --quiet --detach "$sandbox/tree" "$commit" || exit 1
here=$top
all=$sandbox

# serve SIDE TREE PORT
serve() {
	sandbox=$all/$1 top=$2
	mkdir "$sandbox"
	[ "$(id -u)" -ne 0 ] || chown postgres "$sandbox"
	install_flavour release >"$sandbox/build.log" 2>&1 || {
		tail -30 "$sandbox/build.log"
		exit 1
	}
	cd "$sandbox" || exit 1
	server_conf="
	shared_buffers = 256MB
	max_wal_size = 16GB
	checkpoint_timeout = 1h
	jit = off
	synchronous_commit = off
	default_table_access_method = lsm
	"
	start_server "$sandbox/data" "$3" || exit 1
}
(serve old "$sandbox/tree" 65435) || exit 1
(serve new "$here" 65436) || exit 1

declare -A port_of=([old]=65435 [new]=65436)
ask_side() {
	local side=$1
	shift
	as_postgres "$all/$side/$pg_bin/psql" -X -q -At -v ON_ERROR_STOP=1 -h "$all/$side" -p "${port_of[$side]}" -U postgres "$@" postgres
}

# median LABEL UNIT A B <lines of two numbers, of A and of B: the median of the ratios A / B
median() {
	awk -v label="$1" -v unit="$2" -v a="$3" -v b="$4" '
		function sort(v, n,  i, j, t) {
			for (i = 2; i <= n; i++)
				for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
		}
		{ first[NR] = $1; second[NR] = $2; r[NR] = $1 / $2 }
		END {
			sort(first, NR); sort(second, NR); sort(r, NR)
			m = int((NR + 1) / 2)
			printf "%-44s %s %d %s, %s %d %s: %.3fx (quartiles %.3f..%.3f)\n", label, a, first[m], unit, b, second[m], unit, r[m],
				r[int((NR - 1) / 4) + 1], r[int((NR - 1) * 3 / 4) + 1]
		}'
}

# compare LABEL SETUP STATEMENT
compare() {
	local side i clock
	local -A took=()
	clock="SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)"
	for side in old new; do
		ask_side $side -c "SET client_min_messages = warning" -c "CREATE EXTENSION IF NOT EXISTS lsmam" -c "$2" >/dev/null || exit 1
		ask_side $side -c "VACUUM ANALYZE" || exit 1
		ask_side $side -c "$3" >/dev/null || exit 1
	done
	for ((i = 0; i < rounds; i++)); do
		# who goes first alternates: the second one of a pair finds other caches
		for side in $([ $((i % 2)) -eq 0 ] && echo old new || echo new old); do
			took[$side]=$(ask_side $side -c "SELECT 1" -c "$clock" -c "$3" -c "$clock" | sed -n '2p;$p' |
				awk 'NR == 1 { a = $1 } END { printf "%d", ($1 - a) / 1000 }')
		done
		echo "${took[old]} ${took[new]}"
	done | median "$1" us old new
}

# pgbench's TPC-B by four clients, in turns of four seconds: transactions per second
tps_of() {
	as_postgres "$all/$1/$pg_bin/pgbench" -h "$all/$1" -p "${port_of[$1]}" -U postgres -n -M prepared -c 4 -j 4 -T 4 postgres 2>/dev/null |
		sed -n 's/^tps = \([0-9.]*\).*/\1/p'
}
compare_tpcb() {
	local side i
	local -A took=()
	for side in old new; do
		as_postgres "$all/$side/$pg_bin/pgbench" -h "$all/$side" -p "${port_of[$side]}" -U postgres -i -q -s 5 postgres >/dev/null 2>&1 || exit 1
	done
	for ((i = 0; i < rounds; i++)); do
		if [ $((i % 2)) -eq 0 ]; then
			took[new]=$(tps_of new) took[old]=$(tps_of old)
		else
			took[old]=$(tps_of old) took[new]=$(tps_of new)
		fi
		echo "${took[new]} ${took[old]}"
	done | median "TPC-B, scale 5, asynchronous" tps new old
}

wanted() { [ ${#rows[@]} -eq 0 ] || [[ " ${rows[*]} " == *" $1 "* ]]; }
rows=("$@")
kv="DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 100000) g"
uuid="DROP TABLE IF EXISTS u; CREATE TABLE u (id uuid PRIMARY KEY, v int)"

wanted update && compare "20,000 updates of one column by key" "$kv" \
	"DO \$\$ BEGIN FOR i IN 1..20000 LOOP UPDATE t SET v = v + 1 WHERE id = 1 + (i * 7919) % 100000; END LOOP; END \$\$"
wanted hot && compare "20,000 updates of ten rows by key" "$kv" \
	"DO \$\$ BEGIN FOR i IN 1..20000 LOOP UPDATE t SET v = v + 1 WHERE id = 1 + i % 10; IF i % 10 = 0 THEN COMMIT; END IF; END LOOP; END \$\$"
wanted upsert && compare "20,000 upserts of rows that exist" "$kv" \
	"DO \$\$ BEGIN FOR i IN 1..20000 LOOP INSERT INTO t VALUES (1 + (i * 7919) % 100000, 0) ON CONFLICT (id) DO UPDATE SET v = t.v + 1; END LOOP; END \$\$"
wanted insert && compare "30,000 inserts of random uuids, row by row" "$uuid" \
	"DO \$\$ BEGIN FOR i IN 1..30000 LOOP INSERT INTO u VALUES (gen_random_uuid(), i); END LOOP; END \$\$"
wanted batch && compare "200,000 inserts of random uuids, together" "$uuid" \
	"INSERT INTO u SELECT gen_random_uuid(), i FROM generate_series(1, 200000) i"
wanted tpcb && compare_tpcb
big="DROP TABLE IF EXISTS b; CREATE TABLE b (id int PRIMARY KEY, v int, t text);
	INSERT INTO b SELECT (g * 7919::bigint) % 1000003, g, md5(g::text) FROM generate_series(1, 1000000) g"
key="((i * 7919::bigint) % 999983)::int"
# what lies in files
flush="SELECT lsm_flush('b'::regclass), lsm_flush('b_pkey'::regclass)"
wanted found && compare "20,000 point selects of 1 M rows in files" "$big; $flush" \
	"DO \$\$ DECLARE x int; BEGIN FOR i IN 1..20000 LOOP SELECT v INTO x FROM b WHERE id = $key; END LOOP; END \$\$"
wanted absent && compare "50,000 point selects of absent keys" "${big/(g \* 7919::bigint) % 1000003/2 * ((g * 7919::bigint) % 1000003)}; $flush" \
	"DO \$\$ DECLARE x int; BEGIN FOR i IN 1..50000 LOOP SELECT v INTO x FROM b WHERE id = 2 * $key + 1; END LOOP; END \$\$"
wanted range100 && compare "2,000 ranges of 100 keys" "$big; $flush" \
	"DO \$\$ DECLARE x bigint; BEGIN FOR i IN 1..2000 LOOP SELECT sum(v) INTO x FROM b WHERE id BETWEEN $key AND $key + 99; END LOOP; END \$\$"
wanted count && compare "count(*) of 1 M rows" "$big; $flush" "SELECT count(*) FROM b"
wanted copy && compare "COPY of 300,000 rows with a bigint key" \
	"DROP TABLE IF EXISTS c; CREATE TABLE c (id bigint PRIMARY KEY, v int, t text); COPY (SELECT g, g % 1000, md5(g::text) FROM generate_series(1, 300000) g) TO '/tmp/lsm_against.copy'" \
	"TRUNCATE c; COPY c FROM '/tmp/lsm_against.copy'"
wanted select && compare "50,000 point selects" "$kv" \
	"DO \$\$ DECLARE x int; BEGIN FOR i IN 1..50000 LOOP SELECT v INTO x FROM t WHERE id = 1 + (i * 7919) % 100000; END LOOP; END \$\$"
exit 0
