#!/bin/bash
# src/test/apps/citus.sh SOURCE DIRECTORY: builds Citus for the test that needs it, 075_citus.
#
# SOURCE is a source tree of Citus that you have; nothing is fetched.  DIRECTORY gets a copy of PostgreSQL's
# files, and Citus is installed into that copy.  Neither SOURCE nor the system is changed.  The last line is
# the command that runs the test.
#
#   PG_CONFIG       of the PostgreSQL that is copied
#   CITUS_CONFIGURE arguments of Citus' configure; without libcurl it sends no statistics home
#
# Citus wants these packages of Debian beside those of `make deps`: libkrb5-dev, liblz4-dev, libzstd-dev.
set -euo pipefail
{								# read as a whole: the build takes minutes
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"

usage="usage: citus.sh SOURCE DIRECTORY"
source=$(cd "${1:?$usage}" && pwd)
mkdir -p "${2:?$usage}"
dir=$(cd "$2" && pwd)
system=$(find_pg_config)
[ -f "$source/src/backend/distributed/citus.control" ] || { echo "$source is no source tree of Citus" >&2; exit 2; }
[ ! -e "$dir/citus" ] || { echo "$dir/citus is there already" >&2; exit 2; }

# PostgreSQL finds its files from where its programs are, pg_config, too
for what in bindir pkglibdir sharedir; do
	path=$("$system" --$what)
	mkdir -p "$dir/pg$(dirname "$path")"
	cp -a "$path" "$dir/pg$(dirname "$path")/"
done
for what in includedir includedir-server; do
	path=$("$system" --$what)
	[ -e "$dir/pg$path" ] && continue
	mkdir -p "$dir/pg$(dirname "$path")"
	ln -s "$path" "$dir/pg$path"
done
pg_config=$dir/pg$("$system" --bindir)/pg_config

# with times, or make would want autoconf
cp -a "$source" "$dir/citus"
cd "$dir/citus"
# Some minor releases of PostgreSQL export a function that Citus defines for releases without it.
name=have_createdb_privilege
if grep -qs "extern bool $name" "$("$pg_config" --includedir-server)/commands/dbcommands.h" &&
	grep -q "^$name(void)" src/include/pg_version_compat.h; then
	grep -rlw "$name" src --include='*.[ch]' | xargs sed -i "s/\b$name\b/citus_$name/g"
fi
# shellcheck disable=SC2086
./configure PG_CONFIG="$pg_config" ${CITUS_CONFIGURE:---without-libcurl} >"$dir/configure.log" 2>&1 ||
	{ tail -20 "$dir/configure.log"; exit 1; }
make -j"$(nproc)" with_llvm=no >"$dir/make.log" 2>&1 || { tail -30 "$dir/make.log"; exit 1; }
make install with_llvm=no >"$dir/install.log" 2>&1 || { tail -30 "$dir/install.log"; exit 1; }
# the servers of a test run as another user
[ "$(id -u)" -ne 0 ] || chmod -R a+rX "$dir/pg"
echo "make check-one T=tap/075 PG_CONFIG=$pg_config"
exit 0
}
