#!/bin/bash
# src/test/versions/make.sh [RESULTS]: after LSM_CHECK="regress isolation"
# src/test/check.sh on another version than 15 (PG_CONFIG), the difference list
# of that version anew: MAJOR.patch, from what the version before it prints, by
# the lists there are, to what was printed.  A change that older versions print
# too belongs in their lists first.  Read it line by line before it is committed:
# it must have texts and plans only, never another answer.
set -euo pipefail
cd "$(dirname "$0")/../../.."
results=${1:-build/check-results}
major=$("${PG_CONFIG:-pg_config}" --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
list=src/test/versions/$major.patch
# what the version before prints
base=$(mktemp -d)
trap 'rm -rf "$base"' EXIT
mkdir "$base/test"
cp -r expected "$base/"
cp -r src/test/isolation "$base/test/"
src/test/versions/apply.sh "$base" $((major - 1))
: >"$list"
# compare DIRECTORY RESULT
compare() {
	local name
	name=$(basename "$2")
	[ "$name" != test_setup.out ] || return 0
	diff -U1 --label "a/$1/$name" --label "b/$1/$name" "$base/$1/$name" "$2" >>"$list" || true
}
# by name, on whichever server they ran
for name in $(cd "$results" && find regress-? -path '*/results/*.out' -printf '%f\n' | sort -u); do
	compare expected "$(ls "$results"/regress-?/results/"$name" | head -1)"
done
for file in "$results"/isolation/results/*.out; do
	[ ! -e "$file" ] || compare test/isolation/expected "$file"
done
echo "$list: $(grep -c '^+++' "$list") files, $(grep -c '^@@' "$list") places"
