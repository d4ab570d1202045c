# Shared by check.sh, demo.sh and the benches: a flavour of lsmam installed into
# a private copy of the PostgreSQL tree, and servers that run from it.
#
# PostgreSQL finds its libraries relative to its binary, so a copy of the tree
# under any prefix works, and flavours (release, testing) never mix with each
# other nor with what is installed in the system.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

find_pg_config() {
	if [ -n "${PG_CONFIG:-}" ]; then
		echo "$PG_CONFIG"
	elif [ -x /usr/lib/postgresql/15/bin/pg_config ]; then
		echo /usr/lib/postgresql/15/bin/pg_config
	else
		command -v pg_config
	fi
}

# As the user that may run servers.  The working directory must be one it can enter.
as_postgres() {
	if [ "$(id -u)" -eq 0 ]; then
		runuser -u postgres -- "$@"
	else
		"$@"
	fi
}

# new_sandbox NAME: a scratch directory that the server's user owns; sets $sandbox
new_sandbox() {
	sandbox=$(mktemp -d "${TMPDIR:-/tmp}/lsmam-$1.XXXXXX")
	chmod 755 "$sandbox"
	if [ "$(id -u)" -eq 0 ]; then
		chown postgres "$sandbox"
	fi
}

# install_flavour NAME [make variables]: builds in build/NAME, installs into
# $sandbox/prefix; sets $bindir, $pgxs_test and PATH
install_flavour() {
	local flavour=$1
	shift
	local pg_config jobs dir
	pg_config=$(find_pg_config)
	jobs=$(nproc)
	mkdir -p "$top/build/$flavour"
	# one at a time in a build directory
	exec 9>"$top/build/$flavour.lock"
	flock 9
	make -C "$top/build/$flavour" -f "$top/Makefile" -j"$jobs" \
		PG_CONFIG="$pg_config" "$@" all || return 1

	prefix=$sandbox/prefix
	for dir in bindir pkglibdir sharedir; do
		dir=$("$pg_config" --$dir)
		mkdir -p "$prefix$(dirname "$dir")"
		cp -a "$dir" "$prefix$(dirname "$dir")/"
	done
	make -C "$top/build/$flavour" -f "$top/Makefile" \
		PG_CONFIG="$pg_config" "$@" install DESTDIR="$prefix" >/dev/null || return 1
	exec 9>&-
	bindir=$prefix$("$pg_config" --bindir)
	pgxs_test=$prefix$(dirname "$("$pg_config" --pgxs)")/../test
	export PATH=$bindir:$PATH
}

# initdb_once: from now on initdb of the private copy makes a cluster of the same options
# once, and copies it afterwards
initdb_once() {
	mv "$bindir/initdb" "$bindir/initdb.real"
	cp "$top/src/test/initdb-once.sh" "$bindir/initdb"
	export LSM_INITDB_CACHE=$sandbox/clusters
	as_postgres mkdir -p "$LSM_INITDB_CACHE"
}

# make_locales DIR: locales of libc, for servers that are started with LOCPATH=DIR, as far as the
# machine can make them
make_locales() {
	local dir=$1 name
	mkdir -p "$dir"
	for name in en_US; do
		localedef -i $name -f UTF-8 "$dir/$name.UTF-8" >/dev/null 2>&1
	done
	# LOCPATH is all that is looked at
	localedef -i C -f UTF-8 "$dir/C.utf8" >/dev/null 2>&1 ||
		cp -r /usr/lib/locale/C.utf8 "$dir/" 2>/dev/null || rm -rf "$dir"/*
	chmod -R a+rX "$dir"
}

# start_server DIR PORT: initdb if need be, start; socket in $sandbox
start_server() {
	local data=$1 port=$2
	if [ ! -d "$data" ]; then
		as_postgres "$bindir/initdb" -D "$data" -U postgres -A trust -N \
			--encoding=UTF8 --locale="${initdb_locale:-C.UTF-8}" >"$data.initdb.log" 2>&1 || {
			cat "$data.initdb.log"
			return 1
		}
		as_postgres tee -a "$data/postgresql.conf" >/dev/null <<-CONF
			shared_preload_libraries = 'lsmam'
			listen_addresses = ''
			unix_socket_directories = '$sandbox'
			port = $port
			${server_conf:-}
		CONF
	fi
	as_postgres "$bindir/pg_ctl" -D "$data" -l "$data.log" -w -t 120 start >/dev/null || {
		tail -50 "$data.log"
		return 1
	}
}

stop_server() {
	as_postgres "$bindir/pg_ctl" -D "$1" -m "${2:-fast}" -w -t 120 stop >/dev/null
}
