# The tree alone: bench_tree.c inside a backend, and rocksdb_peer.cc, over the same
# entries in runs that overlap completely.  Both are asked through pipes, in turn.
#
# Times are CPU time of the loop unless said otherwise: everything is in memory, and on a
# busy machine the wall clock counts the others' turns, too.

tree_conf="
shared_buffers = 256MB
lsm.memtable_memory = 1GB
lsm.memtable_size = 900MB
"

# tree_start [settings]: the server, the module, the peers
tree_start() {
	bench_start "$tree_conf ${1:-}"
	peer_build peer -lrocksdb
	tree_module
}

# peer_build NAME [compiler arguments]
peer_build() {
	local name=$1
	shift
	c++ -O2 -g -std=c++17 -Wall -Wextra -Werror -I"$top/bench/tree" -o "$sandbox/rocksdb_$name" \
		"$top/bench/tree/rocksdb_peer.cc" "$@" || die "rocksdb_peer.cc"
}

# release_build: peer "release" with the library that RocksDB's authors build for Java: the same version, without
# assertions (and with the old ABI of strings).  False, with a remark, without Maven or for another processor
release_build() {
	local version jar
	version=$(dpkg-query -W -f '${Version}' librocksdb-dev | sed 's/-.*//')
	jar=$HOME/.m2/repository/org/rocksdb/rocksdbjni/$version/rocksdbjni-$version-linux64.jar
	if [ "$(uname -m)" != x86_64 ] || ! command -v unzip >/dev/null || ! { [ -f "$jar" ] || mvn -q dependency:get -Dtransitive=false \
		"-Dartifact=org.rocksdb:rocksdbjni:$version:jar:linux64" >"$sandbox/mvn.log" 2>&1; }; then
		echo "   no release build of RocksDB: that needs x86_64, Maven and unzip"
		return 1
	fi
	unzip -qo "$jar" librocksdbjni-linux64.so -d "$sandbox" || die "$jar"
	peer_build release -D_GLIBCXX_USE_CXX11_ABI=0 -L"$sandbox" -l:librocksdbjni-linux64.so -Wl,-rpath,"$sandbox"
}

# tree_module: the module for the running server
tree_module() {
	cc -O2 -g -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare \
		-Wno-missing-field-initializers -D_GNU_SOURCE -fPIC -shared -I"$top/src" -I"$top/bench/tree" \
		-isystem "$("$(find_pg_config)" --includedir-server)" \
		-o "$sandbox/bench_tree.so" "$top/bench/tree/bench_tree.c" || die "bench_tree.c"
	tree_functions
}

tree_functions() {
	local function
	for function in "tree_load(regclass, int, int, int, int) RETURNS void" "tree_hold(regclass) RETURNS void" \
		"tree_draw(int, int, float8, bigint, bigint, bigint) RETURNS void" "tree_get(regclass, text) RETURNS float8[]" \
		"tree_walk(regclass) RETURNS bigint" "tree_hash(int) RETURNS float8"; do
		sql heap -c "CREATE FUNCTION $function STRICT LANGUAGE c AS '$sandbox/bench_tree'"
	done
}

# tree_new KEY_BYTES ENTRIES_PER_RUN [INDEX_OPTIONS]: an empty tree i.  The session at pipe "holder" keeps its
# runs apart, and maps no file
tree_new() {
	tree_bytes=$1 tree_n=$2 tree_runs=0
	tree_close
	sql heap -c "DROP TABLE IF EXISTS t" -c "CREATE UNLOGGED TABLE t (k bytea)" \
		-c "CREATE INDEX i ON t USING lsm (k) ${3:+WITH ($3)}"
	pipe_open holder "${session_command[@]}"
	echo "BEGIN;" >&"${pipe_in[holder]}"
	ask holder "SELECT tree_hold('i');"
	session_open
}

tree_close() {
	pipe_close session
	pipe_close holder
}

# tree_grow RUNS: until there are so many runs; everything has been read once
tree_grow() {
	ask session "SELECT tree_load('i', $tree_bytes, $tree_n, $tree_runs, $1 - $tree_runs);"
	tree_runs=$1
	ask session "SELECT tree_walk('i');"
	[ "$answer" = $((tree_n * tree_runs)) ] || die "the tree has $answer entries"
	ask session "SELECT sum(runs) FROM lsm_levels('i'::regclass);"
	[ "$answer" = "$tree_runs" ] || die "the tree has $answer runs instead of $tree_runs"
}

# peer_fill PEER KEY_BYTES ENTRIES_PER_RUN RUNS BITS_PER_KEY
peer_fill() {
	local peer=$1
	shift
	pipe_close "$peer"
	rm -rf "$sandbox/data_$peer"
	pipe_open "$peer" "$sandbox/rocksdb_$peer" "$sandbox/data_$peer" "$@"
	read -r answer <&"${pipe_out[$peer]}" && [ "$answer" = ready ] || {
		cat "$sandbox/$peer.err" >&2
		die "rocksdb_peer did not load"
	}
}

# tree_draw PROBES ALPHA SEED: what is looked for; present keys are the oldest run's, so that every filter is
# asked
tree_draw() { ask session "SELECT tree_draw($tree_bytes, $1, $2, 0, $tree_n, $3);"; }
peer_draw() { ask "$1" "draw $2 $3 0 $tree_n $4"; }

# tree_get HOW: ns per lookup in $answer: complete keys as the peer's (get); in groups as = ANY asks (groups); as an
# index scan asks (cursor)
tree_get() { ask session "SELECT (tree_get('i', '$1'))[1];"; }
peer_get() {
	ask "$1" get
	answer=${answer% *}
}
sharing() { echo "SET lsm.hash_sharing = $1;" >&"${pipe_in[session]}"; }
