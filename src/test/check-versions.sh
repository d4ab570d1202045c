#!/bin/bash
# check-versions.sh FIRST OTHERS: tests of kinds FIRST (LSM_CHECK) on PostgreSQL
# 15, of kinds OTHERS on 17 and 18 in their chroots.  The last line sums up:
# "N passed, N failed".
#
#   LSM_DEADLINE=seconds    versions that would begin later are left out, which is said.  They
#                           are left out as well if their chroot cannot be made, for want of a
#                           network, say.  Without it both are failures.
set -uo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
first=${1:?usage: check-versions.sh FIRST OTHERS}
others=${2:?usage: check-versions.sh FIRST OTHERS}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0
failed=0
left_out=

# add_up NAME COMMAND...: runs it, and adds its last line to the sums
add_up() {
	local name=$1 status summary
	shift
	"$@" 2>&1 | tee "$log"
	status=${PIPESTATUS[0]}
	[ "$status" -ne 77 ] || return 77
	summary=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -1)
	if [ -z "$summary" ]; then
		echo "not ok - $name ends with a summary (exit code $status)"
		summary="0 passed, 1 failed"
	fi
	passed=$((passed + ${summary%% passed*}))
	summary=${summary#*, }
	failed=$((failed + ${summary%% failed}))
	return 0
}

add_up "PostgreSQL 15" env LSM_CHECK="$first" "$top/src/test/check.sh"
for major in 17 18; do
	if [ -n "${LSM_DEADLINE:-}" ] && [ $SECONDS -gt "$LSM_DEADLINE" ]; then
		echo "# no time is left for PostgreSQL $major"
		left_out+=" $major"
		continue
	fi
	echo "=== PostgreSQL $major, $SECONDS s since start"
	add_up "PostgreSQL $major" env LSM_CHECK="$others" "$top/src/test/check-chroot.sh" $major || {
		left_out+=" $major"
		[ -n "${LSM_DEADLINE:-}" ] || failed=$((failed + 1))
	}
done
[ -z "$left_out" ] || echo "# not tested: PostgreSQL$left_out"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
