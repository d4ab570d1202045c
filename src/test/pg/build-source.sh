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

# Nothing may be installed outside of PREFIX.
stays_inside() {
	local outside

	outside=$(make -s -pn install 2>/dev/null |
		sed -nE 's/^(override )?(bindir|libdir|pkglibdir|datadir|includedir|pgxsdir) :?= (.*)/\3/p' |
		grep '^/' | grep -v "^$prefix/" | sort -u)
	[ -z "$outside" ] || { echo "would install into $outside"; return 1; }
}

build_cassert() {
	configure --enable-cassert --enable-debug --with-zlib --with-lz4 --with-zstd &&
		build &&
		stays_inside &&
		build install &&
		build -C contrib/spi install &&
		build -C src/test/isolation all install
}

build_psql() {
	configure --without-zlib &&
		build -C src/backend generated-headers &&
		build -C src/interfaces/libpq &&
		build -C src/bin/psql &&
		cp src/bin/psql/psql "$prefix/bin/"
}

build=$prefix.build
rm -rf "$build" "$prefix"
mkdir -p "$build" "$prefix/bin"
cd "$build"
# no set -e in a condition
if ! "build_$what" >"$prefix.log" 2>&1; then
	tail -30 "$prefix.log"
	exit 1
fi
echo "$version" >"$stamp"
rm -rf "$build"
