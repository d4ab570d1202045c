#!/bin/bash
# Called by packages.sh in the built source tree, by an ordinary user, PostgreSQL 18: installs into
# a prefix of its own, which a server finds by extension_control_path.  Prints TAP.
set -uo pipefail
for build in build-*; do major=${build#build-}; done
bin=/usr/lib/postgresql/$major/bin
prefix=$(mktemp -d)
trap '"$bin/pg_ctl" -D "$prefix/data" -m immediate stop >/dev/null; rm -rf "$prefix"' EXIT
n=0
is() {
	n=$((n + 1))
	[ "$1" = "$2" ] && echo "ok $n - $3" ||
		printf 'not ok %s - %s\n# got: %s\n# not: %s\n' "$n" "$3" "$1" "$2"
}
sql() { psql -XAtq -h "$prefix" -d postgres "$@" 2>&1; }

by_make() {
	make -C "build-$major" -f ../Makefile PG_CONFIG="$bin/pg_config" prefix="$prefix/lsmam" "$1" \
		>>"$prefix/log" 2>&1
}

by_make install
is $? 0 'make install prefix=...'
is "$(cd "$prefix/lsmam" && find . -type f | LC_ALL=C sort | xargs)" \
	"$(xargs <<-'LIST'
		./bin/lsm_pg_upgrade ./lib/postgresql/lsmam.so
		./share/postgresql/extension/lsmam--1.0--1.1.sql ./share/postgresql/extension/lsmam--1.0.sql
		./share/postgresql/extension/lsmam.control
	LIST
	)" 'all is below the prefix'
"$bin/initdb" -D "$prefix/data" -A trust -N >>"$prefix/log" 2>&1
cat >>"$prefix/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$prefix'
extension_control_path = '$prefix/lsmam/share/postgresql:\$system'
dynamic_library_path = '$prefix/lsmam/lib/postgresql:\$libdir'
shared_preload_libraries = 'lsmam'
CONF
"$bin/pg_ctl" -D "$prefix/data" -l "$prefix/log" -w start >/dev/null
is $? 0 'the server starts'
is "$(sql -c 'CREATE EXTENSION lsmam')" '' 'CREATE EXTENSION'
sql -c 'CREATE TABLE t (id int PRIMARY KEY, s text) USING lsm' \
	-c "INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 1000) i"
is "$(sql -c "SELECT lsm_flush('t')" -c "SELECT count(*) FROM t" \
	-c "SELECT count(*) FROM lsm_verify('t')" | xargs)" '1000 0' 'a table is written, flushed and verified'
is "$(sql -c "SELECT extversion = substring(lsm_full_version() FROM '^lsmam (.*?),')
	FROM pg_extension WHERE extname = 'lsmam'")" t 'the library is the one of the prefix'
is "$(ls "/usr/lib/postgresql/$major/lib/lsmam.so" 2>/dev/null)" '' 'the server has no other'
"$bin/pg_ctl" -D "$prefix/data" -w restart -l "$prefix/log" >/dev/null
is "$(sql -c "SELECT s FROM t WHERE id = 42")" 'row 42' 'rows are read after a restart'
by_make uninstall
is "$(find "$prefix/lsmam" -type f)" '' 'make uninstall prefix=... removes all'
echo "1..$n"
