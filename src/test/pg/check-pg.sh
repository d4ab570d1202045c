#!/bin/bash
# make check-pg: PostgreSQL's own regression and isolation tests, all of them, on lsm tables and
# lsm indexes, compared with the same tests on heap and btree.  in-chroot.sh runs it on 17 and 18.
#
#   CHECK_PG_CONFIGS="A B C"    A: lsm tables, btree indexes
#                               B: heap tables, lsm_index for CREATE INDEX
#                               C: lsm tables, lsm_index for keys and CREATE INDEX
#   CHECK_PG_SUITES="regress isolation"
#   CHECK_PG_CASSERT=1          on a PostgreSQL built with --enable-cassert
#   CHECK_PG_BASELINE=1         run the baseline again (it is kept in build/pg)
#   LSM_SECOND_OPINION=10       lsm.second_opinion of the servers
#   CHECK_PG_MIRROR=URL         Debian mirror (default http://deb.debian.org)
#
# Differences from the baseline must be listed in src/test/pg/differences, with their reason
# (compare.py describes the format).  The last line is "N passed, N failed".  What
# differs: build/pg/results.<flavour>/<configuration>/<suite>.diff; lines for the list: .candidates.
set -uo pipefail
{								# read as a whole: an hour may pass
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"

configs=${CHECK_PG_CONFIGS:-A B C}
suites=${CHECK_PG_SUITES:-regress isolation}
cache=$top/build/pg
flavour=${CHECK_PG_CASSERT:+cassert}
flavour=${flavour:-pg}
results=$cache/results.$flavour
passed=0
failed=0
sandbox=

finish() {
	local status=$?
	if [ -n "$sandbox" ]; then
		for data in "$sandbox"/data.*; do
			[ -f "$data/postmaster.pid" ] && stop_server "$data" immediate 2>/dev/null
		done
		[ -n "${LSM_KEEP:-}" ] && echo "# kept: $sandbox" || rm -rf "$sandbox"
	fi
	echo "# results: $results"
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ] && [ $status -eq 0 ] && [ $passed -gt 0 ]
	exit $?
}
trap finish EXIT
trap 'exit 130' INT TERM

section() { echo "=== $1 ($(date +%T))"; }
pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "not ok - $1"; }

# ---- what is needed ----

section "source package"
pg_config=$(find_pg_config)
major=$("$pg_config" --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
"$here/fetch-source.sh" "$cache" "$major" || { fail "source package"; exit 1; }
version=$(cat "$cache/source/.version")
if [ "$flavour" = cassert ]; then
	section "PostgreSQL $version with assertions"
	"$here/build-source.sh" cassert "$cache/source" "$cache/cassert" || { fail "build of PostgreSQL"; exit 1; }
	PG_CONFIG=$cache/cassert/bin/pg_config
fi

section "build"
new_sandbox check-pg
install_flavour "check-$flavour" LSM_TESTING=1 ASSERT=1 >"$sandbox/build.log" 2>&1 || {
	tail -30 "$sandbox/build.log"
	fail "the extension builds"
	exit 1
}
pg_config=$(find_pg_config)
if [ "$flavour" = cassert ]; then
	# its programs look for their libpq
	cp -a "$("$pg_config" --libdir)"/libpq.so* "$sandbox/prefix/"
	export LD_LIBRARY_PATH=$sandbox/prefix
fi
# tests are run by the psql that they were written for
psql_bindir=$bindir
if [ "$flavour" != cassert ] && [ "$version upstream" != "$(cat "$cache/source/.server")" ]; then
	section "psql $version"
	"$here/build-source.sh" psql "$cache/source" "$cache/psql" || { fail "build of psql"; exit 1; }
	cp "$cache/psql/bin/psql" "$sandbox/prefix/"
	psql_bindir=$sandbox/prefix
fi
regress=$sandbox/source/src/test/regress
isolation=$sandbox/source/src/test/isolation
mkdir -p "$sandbox/source/src/test" "$sandbox/modules"
cp -r "$cache/source/src/test/regress" "$cache/source/src/test/isolation" "$sandbox/source/src/test/"

# MODULE SOURCE: a loadable module of the tests
module() {
	gcc -O1 -g -fPIC -shared -fwrapv -fno-strict-aliasing -w -I"$(dirname "$2")" -I"$top/src" \
		-I"$("$pg_config" --includedir-server)" -o "$sandbox/modules/$1.so" "$2"
}
module regress "$cache/source/src/test/regress/regress.c" &&
	module refint "$cache/source/contrib/spi/refint.c" &&
	module autoinc "$cache/source/contrib/spi/autoinc.c" &&
	module implied_index "$here/implied_index.c" || { fail "test modules"; exit 1; }
[ "$(id -u)" -ne 0 ] || chown -R postgres "$sandbox/source" "$sandbox/modules"
mkdir -p "$results"
cd "$sandbox"

# ---- one configuration ----

# settings of the databases that tests run in
settings() {
	case $1 in
	A) echo "default_table_access_method=lsm lsm.constraint_index=btree" ;;
	B) echo "implied_index.enabled=on" ;;
	C) echo "default_table_access_method=lsm lsm.constraint_index=lsm implied_index.enabled=on" ;;
	esac
}

create_database() {
	local config=$1 db=$2 setting
	{
		echo "CREATE DATABASE $db TEMPLATE template0;"
		for setting in "lc_messages='C'" "lc_monetary='C'" "lc_numeric='C'" "lc_time='C'" \
			"bytea_output='hex'" "timezone_abbreviations='Default'"; do
			echo "ALTER DATABASE $db SET $setting;"
		done
		if [ "$config" != baseline ]; then
			echo "\\c $db"
			echo "CREATE EXTENSION lsmam;"
			for setting in $(settings "$config"); do
				echo "ALTER DATABASE $db SET $setting;"
			done
		fi
	} | as_postgres "$bindir/psql" -X -q -v ON_ERROR_STOP=1 -h "$sandbox" -p 65431 -U postgres -d postgres
}

# run_suite CONFIGURATION SUITE RESULTS: in a database of its own
run_suite() {
	local config=$1 suite=$2 out=$3 dir program schedule extra db
	if [ "$suite" = regress ]; then
		dir=$regress
		program=$pgxs_test/regress/pg_regress
		schedule=$regress/parallel_schedule
		db=regression
		extra="--dlpath=$sandbox/modules --max-concurrent-tests=20"
	else
		dir=$isolation
		program=$pgxs_test/isolation/pg_isolation_regress
		schedule=$isolation/isolation_schedule
		db=isolation_regression
		extra=
	fi
	rm -rf "$out/$suite" "$sandbox/out"
	mkdir -p "$out/$suite" "$sandbox/out"
	[ "$(id -u)" -ne 0 ] || chown postgres "$sandbox/out"
	create_database "$config" $db || return 1
	# Rebuilding a key as btree for a foreign key locks out readers, which permutations of
	# alter-table-2 do not expect: the tester cancels what it waits for after this many seconds.
	# PostgreSQL 16 and later wait twice the other variable.
	export PGISOLATIONTIMEOUT=12 PG_TEST_TIMEOUT_DEFAULT=6
	as_postgres "$program" --bindir="$psql_bindir" --host="$sandbox" --port=65431 --user=postgres \
		--inputdir="$dir" --outputdir="$sandbox/out" --schedule="$schedule" \
		--use-existing --dbname=$db $extra >"$out/$suite.log" 2>&1
	cp "$sandbox"/out/results/*.out "$out/$suite/"
	cp "$sandbox/out/regression.diffs" "$out/$suite.regression.diffs" 2>/dev/null
	true
}

server_conf_common="
fsync = off
max_prepared_transactions = 10
log_autovacuum_min_duration = 0
log_lock_waits = on
log_line_prefix = '%m %b[%p] %q%a '
dynamic_library_path = '\$libdir:$sandbox/modules'
"

run_config() {
	local config=$1 out=$results/$1 suite preload bad
	mkdir -p "$out"
	case $config in
	baseline) preload= ;;
	*) preload='lsmam, implied_index' ;;
	esac
	server_conf="$server_conf_common
shared_preload_libraries = '$preload'"
	[ "$config" = baseline ] || [ -z "${LSM_SECOND_OPINION:-}" ] || server_conf+="
lsm.second_opinion = $LSM_SECOND_OPINION"
		initdb_locale=C start_server "$sandbox/data.$config" 65431 || return 1
	for suite in $suites; do
		section "$config, $suite"
		run_suite "$config" "$suite" "$out" || fail "$config: $suite could not be run"
	done
	stop_server "$sandbox/data.$config" || fail "$config: the server stops"
	cp "$sandbox/data.$config.log" "$out/server.log"
	rm -rf "$sandbox/data.$config"
	bad=$(grep -nE 'TRAP:|PANIC:|was terminated by signal|resource was not closed|leak:' "$out/server.log" | head -20)
	if [ -n "$bad" ]; then
		fail "$config: server log is clean"
		echo "$bad" | sed 's/^/# /'
	else
		pass
	fi
}

tests_of() {
	if [ "$1" = regress ]; then
		sed -n 's/^test: *//p' "$regress/parallel_schedule"
	else
		sed -n 's/^test: *//p' "$isolation/isolation_schedule"
	fi | tr ' ' '\n' | grep .
}

baseline_done() {
	local suite
	[ -z "${CHECK_PG_BASELINE:-}" ] || return 1
	[ "$(cat "$results/baseline/version" 2>/dev/null)" = "$("$pg_config" --version) $version" ] || return 1
	for suite in $suites; do
		[ -d "$results/baseline/$suite" ] || return 1
	done
}

if ! baseline_done; then
	run_config baseline || exit 1
	echo "$("$pg_config" --version) $version" >"$results/baseline/version"
fi

for config in $configs; do
	run_config "$config" || { fail "$config: server"; continue; }
	for suite in $suites; do
		dir=$regress
		[ "$suite" = regress ] || dir=$isolation
		if "$here/compare.py" --config "$config" --suite "$suite" --source "$dir" \
			--baseline "$results/baseline/$suite" --results "$results/$config/$suite" \
			--differences "$here/differences" --major "$major" --passed "$results/$config/$suite.log" \
			--report "$results/$config/$suite.diff" --candidates "$results/$config/$suite.candidates" \
			$(tests_of "$suite"); then
			pass
		else
			fail "$config: $suite equals the baseline, but for listed differences"
		fi
	done
done
exit
}
