#!/bin/bash
# make debug: the extension with assertions, crash points, -O0 and -g3, built
# in build/debug and installed into a private copy of PostgreSQL's files.  Says
# how to start a server that runs it.
#
#   LSM_DEBUG_DIR   directory of the copy and of the server's data; the server's
#                   user must be able to enter it (default: build/debug-server)
set -uo pipefail
. "$(dirname "$0")/lib.sh"

sandbox=${LSM_DEBUG_DIR:-$top/build/debug-server}
mkdir -p "$sandbox" || exit 1
install_flavour debug LSM_TESTING=1 ASSERT=1 DEBUG=1 || exit 1

run=
if [ "$(id -u)" -eq 0 ]; then
	chown postgres "$sandbox"
	run='runuser -u postgres -- '
	as_postgres test -x "$sandbox" ||
		echo "note: user postgres cannot enter $sandbox; set LSM_DEBUG_DIR"
fi
cat <<TEXT

The debug build is installed under $prefix.
A server of its own, whose socket is in the same directory:

  cd $sandbox
  export PATH=$bindir:\$PATH
  ${run}initdb -D data -A trust
  cat >> data/postgresql.conf <<CONF
  shared_preload_libraries = 'lsmam'
  listen_addresses = ''
  unix_socket_directories = '$sandbox'
  CONF
  ${run}pg_ctl -D data -l log -w start
  ${run}psql -h $sandbox postgres -c 'CREATE EXTENSION lsmam'
  ${run}psql -h $sandbox postgres      # SELECT pg_backend_pid(), then gdb -p
TEXT
