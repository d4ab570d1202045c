#!/bin/bash
# Called by packages.sh in the built source tree: makes the package of a next version, which has one
# function more.
set -euo pipefail
now=$(sed -n "s/^default_version = '\(.*\)'/\1/p" lsmam.control)
sed -i "s/^default_version = .*/default_version = 'next'/" lsmam.control
sed -i 's/^LSM_VERSION := .*/LSM_VERSION := next/' Makefile
echo "CREATE FUNCTION lsm_next() RETURNS int LANGUAGE c AS 'MODULE_PATHNAME';" \
	>"src/sql/lsmam--$now--next.sql"
cat >>src/sqlfunc/functions.c <<'C'

PG_FUNCTION_INFO_V1(lsm_next);

Datum
lsm_next(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(1);
}
C
sed -i '1s/-1)/+next-1)/' debian/changelog
rm -rf debian/.debhelper debian/debhelper-build-stamp debian/files debian/postgresql-*
DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" dpkg-buildpackage -nc -b -us -uc
