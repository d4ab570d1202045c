#!/bin/bash
# src/test/versions/make.sh [RESULTS]: after LSM_CHECK="regress isolation"
# src/test/check.sh on another version than 15 (PG_CONFIG), the difference list
# of that version anew: MAJOR.patch, from what is expected to what was printed.
# Read it line by line before it is committed: it must have texts and plans
# only, never another answer.
set -euo pipefail
cd "$(dirname "$0")/../../.."
results=${1:-build/check-results}
major=$("${PG_CONFIG:-pg_config}" --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
list=src/test/versions/$major.patch
: >"$list"
# compare DIRECTORY RESULT
compare() {
	local name
	name=$(basename "$2")
	[ "$name" != test_setup.out ] || return 0
	diff -U1 --label "a/${1#src/}/$name" --label "b/${1#src/}/$name" "$1/$name" "$2" >>"$list" || true
}
# by name, on whichever server they ran
for name in $(cd "$results" && find regress-? -path '*/results/*.out' -printf '%f\n' | sort -u); do
	compare expected "$(ls "$results"/regress-?/results/"$name" | head -1)"
done
for file in "$results"/isolation/results/*.out; do
	[ ! -e "$file" ] || compare src/test/isolation/expected "$file"
done
echo "$list: $(grep -c '^+++' "$list") files, $(grep -c '^@@' "$list") places"
