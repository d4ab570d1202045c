#!/bin/bash
# make check: all tests on private servers.  The last line is
# "N passed, N failed"; the exit code says whether N failed is 0.
#
#   LSM_CHECK="layers docs install unit regress isolation tap"   what to run (default: all).  Also: unit-plain; versions:
#                                                   regression and isolation tests on 16 to 19
#   LSM_TIER=quick                                  unit tests in their short form, regression tests but for the longest
#   LSM_TIER=check                                  no sanitizers; of the TAP tests those that say so ("# tier: check"), some of
#                                                   which do less then
#   LSM_TIER=rest                                   what that leaves
#   LSM_PART=2/6                                    one of so many parts, of about the same time
#   LSM_BEGIN=n LSM_UNTIL=seconds                   in the order of names, from the n-th job on, what ends by then (see pool.sh)
#   LSM_UNIT="memtable"                             unit tests, by prefix
#   LSM_REGRESS="newest"                            regression tests, by name
#   LSM_ISOLATION="newest"                          isolation tests, by name
#   LSM_TAP="002 005"                               TAP tests, by prefix
#   LSM_JOBS=1                                      jobs at a time (default: one for each processor)
#   LSM_LONG=1                                      long forms
#   LSM_SECOND_OPINION=1                            lsm.second_opinion of the servers
#   LSM_UBSAN=1                                     with a build that reports undefined behaviour
#   LSM_KEEP=1                                      keep the scratch directory
set -uo pipefail
{								# read as a whole: it may be changed while it runs
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/pool.sh"

wanted=${LSM_CHECK:-layers docs install unit regress isolation tap}
# of this run; published as build/check-results at its end
results=$(mktemp -d "${TMPDIR:-/tmp}/lsmam-results.XXXXXX")
chmod 755 "$results"
passed=0
failed=0
sandbox=

# (unit tests look at it)
[ "${LSM_TIER:-}" != quick ] || export LSM_UNIT_SHORT=1

wants() { [[ " $wanted " == *" $1 "* ]]; }

finish() {
	local status=$?
	if [ -n "$sandbox" ]; then
		# tests that still run are sent away before their servers
		if [ -n "$(jobs -pr)" ]; then
			pkill -TERM -f "$sandbox/src/test/tap/t/" 2>/dev/null
			# (some do not listen)
			for _ in 1 2 3 4 5 6 7 8 9 10; do
				[ -n "$(jobs -pr)" ] && sleep 1
			done
			pkill -KILL -f "$sandbox/src/test/tap/t/" 2>/dev/null
			wait
		fi
		mountpoint -q "$sandbox/smalldisk" && umount -l "$sandbox/smalldisk"
		for data in "$sandbox"/{regress-1,regress-2,isolation}/data "$sandbox"/tap/*/tmp_check/*/pgdata; do
			if [ -f "$data/postmaster.pid" ]; then
				stop_server "$data" immediate 2>/dev/null
			fi
		done
		[ -n "${LSM_KEEP:-}" ] && echo "# kept: $sandbox" || rm -rf "$sandbox"
	fi
	mkdir -p "$top/build"
	rm -rf "$top/build/check-results"
	cp -r "$results" "$top/build/check-results" && rm -rf "$results"
	echo "# logs: $top/build/check-results"
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ] && [ $status -eq 0 ] && [ $passed -gt 0 ]
	exit $?
}
trap finish EXIT
trap 'exit 130' INT TERM

section() { echo "=== $1 ($(date +%T))"; }

# tap_results NAME STATUS LOG: counts top-level results; a program that failed without
# saying so counts as one failure
tap_results() {
	local ok bad
	ok=$(grep -cE '^ok\b' "$3")
	bad=$(grep -cE '^not ok\b' "$3")
	if [ "$2" -ne 0 ] && [ "$bad" -eq 0 ]; then
		echo "not ok - $1 (exit code $2)"
		bad=1
	fi
	if [ "$ok" -eq 0 ] && [ "$bad" -eq 0 ] && ! grep -qE '^1\.\.0 # SKIP' "$3"; then
		echo "not ok - $1 ran no test"
		bad=1
	fi
	passed=$((passed + ok))
	failed=$((failed + bad))
	# what a test could not do here, for want of a program, say
	grep -hoE '^1\.\.0 # SKIP .*|^ok [0-9]+ # skip .*|^# (not installed: .|NOT TESTED|[a-z0-9_]+ is not installed).*' "$3" |
		sed -E "s/^(1\.\.0 # SKIP|ok [0-9]+ # skip|#) */# $1: left out: /" | sort | uniq
	if [ "$bad" -gt 0 ]; then
		# what stands under a failure; not what sessions of a test have said
		grep -A14 -E '^not ok' "$3" | grep -E '^not ok|^#' | cut -c1-400 | head -60
		grep -qE '^not ok' "$3" || tail -20 "$3"
	fi
	echo "--- $1: $ok passed, $bad failed, $SECONDS s since start"
}

# as tap_results, from the output of pg_regress, which is TAP since 16
regress_results() {
	local ok bad
	ok=$(grep -cE '\.\.\. ok|^ok [0-9]+ +[-+] ' "$3")
	bad=$(grep -cE '\.\.\. (FAILED|failed)|^not ok [0-9]+ +[-+] ' "$3")
	if [ "$2" -ne 0 ] && [ "$bad" -eq 0 ]; then
		bad=1
		tail -20 "$3"
	fi
	passed=$((passed + ok))
	failed=$((failed + bad))
	[ "$bad" -eq 0 ] || grep -E '\.\.\. (FAILED|failed)|^not ok [0-9]+ +[-+] ' "$3"
	echo "--- $1: $ok passed, $bad failed, $SECONDS s since start"
}

# A server that crashed must not go unnoticed even if every query's output is right.
server_log_results() {
	local bad
	bad=$(grep -nE 'TRAP:|PANIC:|was terminated by signal|resource was not closed|leak:|runtime error:' "$2" | head -20)
	if [ -z "$bad" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "not ok - server log of $1 is clean"
		echo "$bad" | sed 's/^/# /'
	fi
}

# tap_wanted: the chosen tests
tap_wanted() {
	local test name t
	for test in "$top"/src/test/tap/t/*.pl; do
		name=$(basename "$test" .pl)
		case ${LSM_TIER:-} in
			check) grep -q '^# tier: check' "$test" || continue ;;
			# those that do less in that tier have more to do
			rest) ! grep -q '^# tier: check' "$test" || grep -q 'lsm_short()' "$test" || continue ;;
		esac
		for t in ${LSM_TAP:-""}; do
			[[ $name != "$t"* ]] || echo "$name"
			[[ $name != "$t"* ]] || break
		done
	done
}

# tap_run NAME: the test, in a directory of its own.  One that takes longer than
# others says so.
tap_run() {
	local limit
	limit=$(sed -n 's/^# may take: \([0-9]*\) s$/\1/p' "$sandbox/src/test/tap/t/$1.pl")
	export TESTDIR=$sandbox/tap/$1
	# since 16
	export TESTDATADIR=$TESTDIR/tmp_check TESTLOGDIR=$TESTDIR/tmp_check/log
	as_postgres mkdir -p "$TESTDIR"
	cd "$TESTDIR" || return
	as_postgres timeout "${LSM_TAP_TIMEOUT:-${limit:-1200}}" perl "$sandbox/src/test/tap/t/$1.pl" >"$results/tap-$1.log" 2>&1
}

# tap_collect NAME STATUS SECONDS: what a test that has ended says
tap_collect() {
	local provoked log bad
	tap_results "$1 ($3 s)" "$2" "$results/tap-$1.log"
	cp "$sandbox/tap/$1"/tmp_check/log/"$1"_*.log "$results/" 2>/dev/null
	# a test may name one message that it provokes
	provoked=$(sed -n 's/^# log may say: //p' "$sandbox/src/test/tap/t/$1.pl")
	for log in "$sandbox/tap/$1"/tmp_check/log/"$1"_*.log; do
		[ -e "$log" ] || continue
		bad=$(grep -nE 'TRAP:|PANIC:|terminated by signal (6|7|11)\b' "$log" |
			grep -vE "${provoked:-^$}" | head -20)
		[ -z "$bad" ] && continue
		echo "not ok - $(basename "$log") shows a crash that the test did not ask for"
		echo "$bad" | sed 's/^/# /'
		failed=$((failed + 1))
	done
	[ -n "${LSM_KEEP:-}" ] || rm -rf "$sandbox/tap/$1"
}

# sql_run regress-1|regress-2|isolation: each on a server of its own, for counters are compared.  The lines of regress's
# schedule go to its two servers in turns; test_setup, which makes what the others use, to both.
sql_run() {
	local kind=$1 inputs=$sandbox/src out=$sandbox/$1 port status
	local -a chosen
	case $1 in
		regress-?)
			kind=regress
			port=6543${1#*-}
			awk -v server="${1#*-}" -v tier="${LSM_TIER:-}" '/make check-quick/ && tier == "quick" { exit }
				/^test:/ && (++n == 1 || n % 2 == server % 2)' "$inputs/test/regress_schedule" >"$out.schedule"
			chosen=(--schedule="$out.schedule" --dbname=regression)
			[ -z "${LSM_REGRESS:-}" ] || chosen=(--dbname=regression test_setup $LSM_REGRESS)
			;;
		isolation)
			inputs+=/test/isolation
			port=65433
			chosen=(--schedule="$inputs/schedule" --dbname=isolation_regression)
			[ -z "${LSM_ISOLATION:-}" ] || chosen=(--dbname=isolation_regression $LSM_ISOLATION)
			;;
	esac
	[ ! -e "$sandbox/locales/en_US.UTF-8" ] || export LOCPATH=$sandbox/locales
	as_postgres mkdir -p "$out"
	start_server "$out/data" "$port" >"$results/$1.log" 2>&1 || return
	as_postgres "$pgxs_test/$kind/pg_${kind/#isolation/isolation_regress}" --bindir="$bindir" \
		--host="$sandbox" --port="$port" --user=postgres --inputdir="$inputs" --outputdir="$out" \
		--load-extension=lsmam "${chosen[@]}" >"$results/$1.log" 2>&1
	status=$?
	stop_server "$out/data"
	return $status
}

# sql_collect JOB STATUS
sql_collect() {
	regress_results "$1" "$2" "$results/$1.log"
	mkdir "$results/$1"
	cp -r "$sandbox/$1/results" "$sandbox/$1/regression.diffs" "$sandbox/$1/data.log" "$results/$1/" 2>/dev/null
	server_log_results "$1" "$sandbox/$1/data.log"
}

# A version's chroot that cannot be made, for want of a network, say, is no failure where
# jobs may be left out.
version_collect() {
	local summary
	cat "$results/$1.log"
	if [ "$2" -eq 77 ] && [ -n "${LSM_UNTIL:-}" ]; then
		echo "# left out: $1"
		left_out=$((left_out + 1))
		return
	fi
	summary=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$results/$1.log" | tail -1)
	[ -n "$summary" ] || summary='0 passed, 1 failed'
	passed=$((passed + ${summary%% passed*}))
	summary=${summary#*, }
	failed=$((failed + ${summary%% failed}))
	echo "--- $1 ($3 s), $SECONDS s since start"
}

# ---- jobs, some at a time: most of what they do is to wait, for servers to start and end ----

jobs_wanted() {
	local kind
	if [ "${LSM_TIER:-}" != rest ]; then
		for kind in layers docs install; do
			! wants $kind || echo $kind
		done
		! { wants unit || wants unit-plain; } || echo unit-plain
		! wants regress || echo regress-1
		! wants regress || [ -n "${LSM_REGRESS:-}" ] || echo regress-2
		! wants isolation || echo isolation
	fi
	[ "${LSM_TIER:-}" = check ] || ! wants unit || echo unit-sanitize
	! wants tap || tap_wanted
	! wants versions || printf '%s\n' version-{16..19}
}

job_run() {
	local began=$SECONDS status
	case $1 in
		layers | install) "$top/src/test/check-$1.sh" >"$results/$1.log" 2>&1 ;;
		docs) "$top/src/test/check-docs.pl" >"$results/$1.log" 2>&1 ;;
		unit-*) "$top/src/test/check-unit.sh" "${1#unit-}" >"$results/$1.log" 2>&1 ;;
		version-*)
			LSM_CHECK="install regress isolation" LSM_TIER='' LSM_PART='' LSM_BEGIN='' LSM_UNTIL='' \
				"$top/src/test/check-chroot.sh" "${1#version-}" >"$results/$1.log" 2>&1
			;;
		regress-? | isolation) sql_run "$1" ;;
		*) tap_run "$1" ;;
	esac
	status=$?
	echo "$status $((SECONDS - began))" >"$results/$1.status"
}

job_collect() {
	local status seconds summary
	read -r status seconds <"$results/$1.status"
	rm -f "$results/$1.status"
	echo "$seconds $(job_form "$1")" >>"$results/times"
	case $1 in
		layers | docs | install | unit-*)
			tap_results "$1 ($seconds s)" "$status" "$results/$1.log"
			[ "$1" != layers ] || grep '^# circle: [^	]' "$results/$1.log"
			;;
		version-*) version_collect "$1" "$status" "$seconds" ;;
		regress-? | isolation) sql_collect "$1" "$status" ;;
		*) tap_collect "$1" "$status" "$seconds" ;;
	esac
}

if wants regress || wants isolation || wants tap; then
	section "build with assertions and crash points"
	new_sandbox check
	flavour=(testing)
	[ -z "${LSM_UBSAN:-}" ] || flavour=(ubsan UBSAN=1)
	if ! install_flavour "${flavour[@]}" LSM_TESTING=1 ASSERT=1 >"$results/build.log" 2>&1; then
		echo "not ok - the extension builds"
		tail -40 "$results/build.log"
		failed=$((failed + 1))
		exit 1
	fi
	passed=$((passed + 1))
	initdb_once
	! { wants regress || wants isolation; } || make_locales "$sandbox/locales"
	# the server's user may be unable to enter the source tree
	mkdir "$sandbox/src"
	cp -r "$top/sql" "$top/expected" "$top/docs" "$top/ops" "$top/src/test" "$top/README.md" "$sandbox/src/"
	# expected/ is PostgreSQL 15's; src/test/versions says what others print
	major=$("$bindir/pg_config" --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
	"$top/src/test/versions/apply.sh" "$sandbox/src" "$major" || failed=$((failed + 1))
	(cd "$top" && grep -rhoE 'LSM_CRASH_POINT\("[a-z_0-9]+"\)' src --include=*.c |
		sed 's/.*"\(.*\)".*/\1/' | sort -u) >"$sandbox/src/crash_points"
	[ "$(id -u)" -ne 0 ] || chown -R postgres "$sandbox/src"
	cd "$sandbox"
fi

server_conf="
fsync = off
jit = off
autovacuum = off
lsm.memtable_memory = 64MB
max_prepared_transactions = 10
log_min_messages = warning
max_connections = 50
"
[ -z "${LSM_SECOND_OPINION:-}" ] || server_conf+="
lsm.second_opinion = $LSM_SECOND_OPINION
"

if wants tap; then
	mkdir -p "$sandbox/tap" "$sandbox/smalldisk"
	[ "$(id -u)" -ne 0 ] || chown postgres "$sandbox/tap" "$sandbox/smalldisk"
	if [ "$(id -u)" -eq 0 ] &&
		mount -t tmpfs -o size=24m,mode=0700,uid="$(id -u postgres)" lsm-smalldisk \
			"$sandbox/smalldisk" 2>/dev/null; then
		export LSM_SMALL_DISK=$sandbox/smalldisk
	fi
	gcc -Wall -Wextra -Werror -O2 -shared -fPIC -o "$sandbox/tap/faults.so" \
		"$top/src/test/tap/faults.c" -ldl || failed=$((failed + 1))
	gcc -Wall -Wextra -Werror -Wno-unused-parameter -O2 -shared -fPIC -o "$sandbox/tap/rude.so" \
		-isystem "$("$(find_pg_config)" --includedir-server)" "$top/src/test/tap/rude.c" || failed=$((failed + 1))
	# 069 makes an extension
	[ "$(id -u)" -ne 0 ] || chown postgres "$("$bindir/pg_config" --sharedir)/extension"
	export PG_REGRESS=$pgxs_test/regress/pg_regress
	export LSM_DOCS=$sandbox/src/docs
	export LSM_OPS=$sandbox/src/ops
	export LSM_FAULTS_SO=$sandbox/tap/faults.so
	export LSM_RUDE_SO=$sandbox/tap/rude.so
	export LSM_CRASH_POINTS=$sandbox/src/crash_points
	export PERL5LIB=$pgxs_test/perl:$sandbox/src/test/tap${PERL5LIB:+:$PERL5LIB}
	# who has which port, among tests that run at the same time
	export PG_TEST_PORT_DIR=$sandbox/tap/ports
fi

if [ -n "$(jobs_wanted)" ]; then
	section "jobs"
	: >"$results/times"
	# not from a process substitution, which bash 5.3 waits for as for a job
	jobs_wanted | jobs_in_order >"$results/jobs"
	run_jobs "${LSM_JOBS:-$(nproc)}" <"$results/jobs"
	[ $left_out -eq 0 ] || echo "# $left_out jobs were left out, for want of time"
fi
exit
}
