#!/bin/bash
# make check-all: everything on PostgreSQL 15, on 16 to 19 in their chroots all that
# depends on the server, and what needs several versions at once.  The last line sums
# up: "N passed, N failed".
#
#   LSM_PART=2/6    one of so many parts, of about the same time
set -uo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0
failed=0

# add_up NAME COMMAND...: runs it, and adds its last line to the sums
add_up() {
	local name=$1 status summary
	shift
	"$@" 2>&1 | tee "$log"
	status=${PIPESTATUS[0]}
	summary=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -1)
	if [ -z "$summary" ]; then
		echo "not ok - $name ends with a summary (exit code $status)"
		summary="0 passed, 1 failed"
	fi
	passed=$((passed + ${summary%% passed*}))
	summary=${summary#*, }
	failed=$((failed + ${summary%% failed}))
}

# the parts of each version are of about the same time; layers and documents belong to the first
first="install unit regress isolation tap"
[[ ${LSM_PART:-1/1} != 1/* ]] || first="layers docs $first"
add_up "PostgreSQL 15" env LSM_CHECK="$first" "$top/src/test/check.sh"
for major in 16 17 18 19; do
	echo "=== PostgreSQL $major, $SECONDS s since start"
	add_up "PostgreSQL $major" env LSM_CHECK="install unit regress isolation tap" "$top/src/test/check-chroot.sh" $major
done
if [[ ${LSM_PART:-1/1} = 1/* ]]; then
	echo "=== between versions, $SECONDS s since start"
	add_up "between versions" env LSM_PART= "$top/src/test/check-upgrade.sh"
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
