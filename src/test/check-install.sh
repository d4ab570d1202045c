#!/bin/bash
# What make install and make uninstall do with files, as TAP: DESTDIR and prefix.  By an ordinary
# user, so that nothing else can be written; nothing is compiled (make -t).
set -uo pipefail
. "$(dirname "$0")/lib.sh"

new_sandbox install
trap 'rm -rf "$sandbox"' EXIT
mkdir "$sandbox/src"
tar -C "$top" --exclude=./build --exclude=./.git --exclude='*.o' --exclude='*.so' -cf - . |
	tar -C "$sandbox/src" -xf -
[ "$(id -u)" -ne 0 ] || chown -R postgres "$sandbox/src"
pg_config=$(find_pg_config)
n=0
failed=0
is() {
	n=$((n + 1))
	if [ "$1" = "$2" ]; then
		echo "ok $n - $3"
	else
		echo "not ok $n - $3"
		diff <(echo "$2") <(echo "$1") | sed 's/^/# /'
		failed=$((failed + 1))
	fi
}
run() { as_postgres make -C "$sandbox/src" PG_CONFIG="$pg_config" "$@" >>"$sandbox/log" 2>&1; }
# below a directory: files, or what the extension should have, for directories of libraries, of
# share and of programs
files() { (cd "$1" && find . ! -type d | LC_ALL=C sort); }
wanted() {
	local file
	{
		echo "$1/lsmam.so"
		for file in lsmam.control lsmam--1.0.sql $(cd "$top/src/sql" && ls lsmam--*--*.sql); do
			echo "$2/extension/$file"
		done
		echo "$3/lsm_pg_upgrade"
	} | sed 's/^/./' | LC_ALL=C sort
}

cd /
run -t all
is $? 0 "the targets can be touched"
run install DESTDIR="$sandbox/src/dest"
is $? 0 "make install DESTDIR=..."
is "$(files "$sandbox/src/dest")" \
	"$(wanted "$("$pg_config" --pkglibdir)" "$("$pg_config" --sharedir)" "$("$pg_config" --bindir)")" \
	"it installs library, scripts and program below DESTDIR, and nothing else"
run uninstall DESTDIR="$sandbox/src/dest"
is "$(files "$sandbox/src/dest")" "" "make uninstall DESTDIR=... removes them"
run install DESTDIR="$sandbox/src/dest" prefix=/opt/lsmam
is "$(files "$sandbox/src/dest")" \
	"$(wanted /opt/lsmam/lib/postgresql /opt/lsmam/share/postgresql /opt/lsmam/bin)" \
	"make install prefix=... DESTDIR=..."
run uninstall DESTDIR="$sandbox/src/dest" prefix=/opt/lsmam
is "$(files "$sandbox/src/dest")" "" "make uninstall prefix=... DESTDIR=... removes them"
# every script between two versions leads on from 1.0
last=$(sed -n "s/^default_version = '\(.*\)'/\1/p" "$top/lsmam.control")
version=1.0
while [ "$version" != "$last" ] && step=$(cd "$top/src/sql" && ls "lsmam--$version--"*.sql 2>/dev/null); do
	version=${step#lsmam--*--}
	version=${version%.sql}
done
is "$version" "$last" "scripts lead from 1.0 to the default version"
[ $failed -eq 0 ] || tail -20 "$sandbox/log" | sed 's/^/# /'
echo "1..$n"
[ $failed -eq 0 ]
