#!/bin/bash
# build-source.sh psql|cassert SOURCE PREFIX: builds from PostgreSQL's source package, once.
#
# cassert: PostgreSQL with --enable-cassert, installed in PREFIX, with the isolation tester and what
# pg_regress needs.  -O1: assertions are wanted here, not speed, and -O0 would change what fits the stack.
# psql: that program alone, PREFIX/bin/psql.  Tests are written for the psql of their own version: that of
# 15.19 and later skips to "\." after a failed COPY FROM STDIN.
set -euo pipefail

what=$1
source=$2
prefix=$3
stamp=$prefix/.complete
version="$(cat "$source/.version") upstream"
[ "$(cat "$stamp" 2>/dev/null)" = "$version" ] && exit 0

configure() {
	"$source/configure" --prefix="$prefix" --without-icu --without-llvm --without-readline "$@" \
		CFLAGS="-O1 -g"
}
build() { make -j"${CHECK_PG_JOBS:-2}" -s "$@"; }

build=$prefix.build
rm -rf "$build" "$prefix"
mkdir -p "$build" "$prefix/bin"
cd "$build"
{
	if [ "$what" = cassert ]; then
		configure --enable-cassert --enable-debug --with-zlib --with-lz4 --with-zstd
		build
		# never outside of PREFIX
		test -z "$(make -s -pn install 2>/dev/null |
			sed -nE 's/^(override )?(bindir|libdir|pkglibdir|datadir|includedir|pgxsdir) :?= (.*)/\3/p' |
			grep '^/' | grep -v "^$prefix/")"
		build install
		build -C contrib/spi install
		build -C src/test/isolation all install
	else
		configure --without-zlib
		build -C src/backend generated-headers
		build -C src/interfaces/libpq
		build -C src/bin/psql
		cp src/bin/psql/psql "$prefix/bin/"
	fi
} >"$prefix.log" 2>&1 || {
	tail -30 "$prefix.log"
	exit 1
}
echo "$version" >"$stamp"
rm -rf "$build"
