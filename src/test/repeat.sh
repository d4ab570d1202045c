#!/bin/bash
# src/test/repeat.sh N COMMAND...: the command N times in a row, by default make check, to find the
# test that fails once in fifty runs.  Prints what failed, and the sums.
#
#   LSM_BESIDE=loops      two busy loops run beside it
#   LSM_BESIDE=compiler   the extension is compiled beside it, again and again, niced
#
# By what it says, a test that fails sometimes is looked for with
#   src/test/repeat.sh 50 make check-one T=tap/094
set -uo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
runs=${1:?usage: repeat.sh N COMMAND...}
shift
[ $# -gt 0 ] || set -- make -C "$top" check
log=$(mktemp)
beside=()
trap 'rm -f "$log"; [ ${#beside[@]} -eq 0 ] || kill "${beside[@]}" 2>/dev/null' EXIT

busy_loop() { while :; do :; done; }
compiler() {
	while :; do
		make -C "$top/build/beside" -f "$top/Makefile" clean all
	done >/dev/null 2>&1
}
case ${LSM_BESIDE:-} in
	loops)
		busy_loop &
		beside+=($!)
		busy_loop &
		beside+=($!)
		;;
	compiler)
		mkdir -p "$top/build/beside"
		(
			renice -n 19 $BASHPID >/dev/null
			export CCACHE_DISABLE=1
			compiler
		) &
		beside+=($!)
		;;
	'') ;;
	*) echo "LSM_BESIDE is loops or compiler" >&2 && exit 2 ;;
esac

bad=0
for ((run = 1; run <= runs; run++)); do
	began=$SECONDS
	if "$@" >"$log" 2>&1; then
		echo "run $run: $(tail -1 "$log"), $((SECONDS - began)) s"
	else
		bad=$((bad + 1))
		echo "run $run fails: $(tail -1 "$log"), $((SECONDS - began)) s"
		grep -A14 -E '^not ok' "$log" | head -60
	fi
done
echo "$((runs - bad)) passed, $bad failed"
[ $bad -eq 0 ]
