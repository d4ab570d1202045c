#!/bin/sh
# src/test/versions/apply.sh DIRECTORY MAJOR: what is expected there, PostgreSQL
# 15's, becomes what version MAJOR prints.  Each version's patch is against the
# version before it, so that a difference is listed once, where it began.
set -eu
patches=$(cd "$(dirname "$0")" && pwd)
version=16
while [ "$version" -le "$2" ]; do
	(cd "$1" && patch -s -p1 --no-backup-if-mismatch) <"$patches/$version.patch"
	version=$((version + 1))
done
