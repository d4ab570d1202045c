#!/bin/bash
# src/test/versions/make.sh [RESULTS]: after the regression tests have run on
# another version than 15 (PG_CONFIG), the difference list of that version
# anew: MAJOR.patch, from expected/ to the files of results/ that differ.
# Read it line by line before it is committed: it must have texts and plans
# only, never another answer.
set -euo pipefail
cd "$(dirname "$0")/../../.."
results=${1:-build/check-results}/results
major=$("${PG_CONFIG:-pg_config}" --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
list=src/test/versions/$major.patch
: >"$list"
for file in "$results"/*.out; do
	name=$(basename "$file")
	[ "$name" != test_setup.out ] || continue
	diff -U1 --label "a/expected/$name" --label "b/expected/$name" "expected/$name" "$file" >>"$list" || true
done
echo "$list: $(grep -c '^+++' "$list") files, $(grep -c '^@@' "$list") places"
