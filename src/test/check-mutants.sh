#!/bin/bash
# make check-mutants: deliberate faults are found.  Every src/test/mutants/NAME.patch
# is applied to a copy of the tree, which is built, and the tests that the patch
# names have to fail; without a fault they pass.  The last line is "N passed, N
# failed".
#
# Before its diff a patch says what the fault is, and
#   found by: regress/x tap/094    the cheapest tests of make check that find it, as check-one.sh
#                                  names them; each of them has to
#   only in check-all              the tests are run as make check-all does it
#
#   LSM_MUTANTS="NAME NAME"        these only
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
mutants=$top/src/test/mutants
logs=$top/build/check-mutants
copy=$(mktemp -d "${TMPDIR:-/tmp}/lsmam-mutants.XXXXXX")
running=
passed=0
failed=0

finish() {
	if [ -n "$running" ]; then
		kill -TERM "$running" 2>/dev/null
		wait "$running"
	fi
	rm -rf "$copy"
	echo "# logs: $logs"
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ] && [ $passed -gt 0 ]
	exit $?
}
trap finish EXIT
trap 'exit 130' INT TERM

ok() {
	passed=$((passed + 1))
	echo "ok $((passed + failed)) - $1"
}

not_ok() {
	failed=$((failed + 1))
	echo "not ok $((passed + failed)) - $1"
}

# tests_of NAME: those that find the fault
tests_of() { sed -n '/^--- /q; s/^found by: *//p' "$mutants/$1.patch"; }

only_in_check_all() { sed -n '/^--- /q; p' "$mutants/$1.patch" | grep -q '^only in check-all'; }

# run_tests LOG TEST...: in the copy
run_tests() {
	local log=$1 test status kinds='' seen=' '
	local -x LSM_REGRESS='' LSM_ISOLATION='' LSM_TAP='' LSM_UNIT='' LSM_CHECK LSM_SEED=20261124
	shift
	for test in "$@"; do
		[[ $seen != *" $test "* ]] || continue
		seen+="$test "
		case $test in
			regress/?*) LSM_REGRESS+=" ${test#*/}" kinds+=' regress' ;;
			isolation/?*) LSM_ISOLATION+=" ${test#*/}" kinds+=' isolation' ;;
			tap/?*) LSM_TAP+=" ${test#*/}" kinds+=' tap' ;;
			unit/?*) LSM_UNIT+=" ${test#*/}" kinds+=' unit-plain' ;;
			*) kinds+=" $test" ;;
		esac
	done
	LSM_CHECK=$kinds timeout 900 "$copy/src/test/check.sh" >"$log" 2>&1 &
	running=$!
	wait $running
	status=$?
	running=
	return $status
}

# found NAME TEST: the test fails, and not for want of a program.  What it waits for may never come.
found() {
	local log=$logs/$1.log
	local -x PG_TEST_TIMEOUT_DEFAULT=60 PGISOLATIONTIMEOUT=60
	if run_tests "$log" "$2"; then
		not_ok "$1 is found by $2"
	elif grep -qE '^not ok.* (builds|compile)$' "$log"; then
		not_ok "$1 compiles"
	elif ! tail -1 "$log" | grep -qE ' [1-9][0-9]* failed$'; then
		not_ok "$1: $2 ends"
	else
		ok "$1 is found by $2"
		return
	fi
	tail -20 "$log" | sed 's/^/# /'
}

try_mutant() {
	local name=$1 test
	local -x LSM_TIER=check
	! only_in_check_all "$name" || LSM_TIER=
	if [ -z "$(tests_of "$name")" ]; then
		not_ok "$name names a test"
		return
	fi
	if ! (cd "$copy" && patch -s -p1 --no-backup-if-mismatch) <"$mutants/$name.patch" >"$logs/$name.log" 2>&1; then
		not_ok "$name applies"
		sed 's/^/# /' "$logs/$name.log"
		restore
		return
	fi
	for test in $(tests_of "$name"); do
		found "$name" "$test"
	done
	restore
}

# The copy's sources as they were; what differs is built again, so no time of a file is kept.
restore() {
	local file
	(cd "$copy/pristine" && find src -type f) | while read -r file; do
		cmp -s "$copy/pristine/$file" "$copy/$file" || cp "$copy/pristine/$file" "$copy/$file"
	done
	find "$copy/src" \( -name '*.rej' -o -name '*.orig' \) -delete
}

mkdir -p "$logs"
chmod 755 "$copy"
tar -C "$top" --exclude=./.git --exclude=./build -cf - . | tar -C "$copy" -xf - || exit 1
# what has been built is not built again: its rules name the tree
for flavour in testing unit-plain; do
	mkdir -p "$copy/build"
	[ ! -d "$top/build/$flavour" ] || cp -a "$top/build/$flavour" "$copy/build/"
done
find "$copy/build" -name '*.d' -exec sed -i "s|$top/|$copy/|g" {} +
mkdir "$copy/pristine"
cp -a "$copy/src" "$copy/pristine/"

# without_faults LSM_TIER NAME...: what these mutants name passes
without_faults() {
	local -x LSM_TIER=$1
	local name tests=
	shift
	for name in "$@"; do
		tests+=" $(tests_of "$name")"
	done
	[ -n "${tests// /}" ] || return
	if run_tests "$logs/without.log" $tests; then
		ok "without a fault these tests pass${LSM_TIER:+ in make check}"
	else
		not_ok "without a fault these tests pass${LSM_TIER:+ in make check}"
		grep -E '^not ok' "$logs/without.log" | sed 's/^/# /'
	fi
}

mapfile -t chosen < <(for name in ${LSM_MUTANTS:-$(basename -s .patch "$mutants"/*.patch)}; do echo "$name"; done)
in_check=()
in_check_all=()
for name in "${chosen[@]}"; do
	[ -e "$mutants/$name.patch" ] || {
		echo "there is no mutant \"$name\"" >&2
		exit 2
	}
	if only_in_check_all "$name"; then
		in_check_all+=("$name")
	else
		in_check+=("$name")
	fi
done
without_faults check "${in_check[@]}"
without_faults '' "${in_check_all[@]}"
for name in "${chosen[@]}"; do
	try_mutant "$name"
done
