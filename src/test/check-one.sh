#!/bin/bash
# make check-one T=KIND/NAME: one test, built and run as make check does it.
#
#   regress/newest     sql/newest.sql, after test_setup
#   isolation/newest   src/test/isolation/specs/newest.spec
#   tap/004            src/test/tap/t/004_*.pl, by prefix
#   unit/memtable      src/test/unit/memtable*, by prefix, plain and sanitized
#   layers, docs, install  the checks of that name
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

kind=${1%%/*}
name=${1#*/}

usage() {
	echo "usage: make check-one T=KIND/NAME; $1" >&2
	exit 2
}

# found PATTERN...: a file of these is there
found() {
	local file
	for file in "$@"; do
		[ ! -e "$file" ] || return 0
	done
	usage "there is no test \"$kind/$name\""
}

case $1 in
	regress/?*)
		found "sql/$name.sql"
		export LSM_REGRESS=$name
		;;
	isolation/?*)
		found "src/test/isolation/specs/$name.spec"
		export LSM_ISOLATION=$name
		;;
	tap/?*)
		found "src/test/tap/t/$name"*.pl
		packages=$(sed -n 's/^# packages: //p' "src/test/tap/t/$name"*.pl)
		# shellcheck disable=SC2086
		[ -z "$packages" ] || src/test/install-deps.sh none ${packages//-NN-/-15-} || exit 1
		export LSM_TAP=$name
		;;
	unit/?*)
		found "src/test/unit/$name"*.c "src/test/unit/$name"*.cc
		export LSM_UNIT=$name
		;;
	layers | docs | install) ;;
	*) usage 'KIND is regress, isolation, tap or unit, or T is layers, docs or install' ;;
esac
LSM_CHECK=$kind exec src/test/check.sh
