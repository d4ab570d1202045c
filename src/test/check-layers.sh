#!/bin/bash
# The rooms' rules, as tests in TAP:
#   filter needs no PostgreSQL and nothing but libxxhash; sst no PostgreSQL server;
#   arrows point one way, between the rooms above the tree and inside it;
#   no circle of calls between files, nor of includes between headers;
#   sst.h and filter.h are C11 and C++17.
# What has passed is not looked at again until something of it changes.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
cd "$top"

passed=build/layers.passed
key=$(
	{
		"$(find_pg_config)" --version
		find src Makefile \( -name '*.c' -o -name '*.cc' -o -name '*.h' -o -path 'src/test/*circles*' -o -name check-layers.sh -o -name Makefile \) -print0 |
			sort -z | xargs -0 sha1sum
	} | sha1sum
)
if [ "$(head -1 $passed 2>/dev/null)" = "$key" ]; then
	tail -n +2 $passed
	exit 0
fi
said=$(mktemp)
exec 5>&1 >"$said"
# what it says goes out at the end, and is kept if all is well
say_all() {
	cat "$said" >&5
	if [ "$1" -eq 0 ]; then
		mkdir -p build
		{
			echo "$key"
			cat "$said"
		} >$passed
	fi
	rm -f "$said"
}

n=0
failed=0
result() {
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $n - $2"
	else
		echo "not ok $n - $2"
		failed=$((failed + 1))
	fi
}

# room, extended regex of the quoted includes it may use
check_includes() {
	local room=$1 allowed=$2 bad
	bad=$(grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]+"' src/$room/*.[ch] src/$room/*.cc 2>/dev/null |
		grep -vE "\"($allowed)\"")
	[ -z "$bad" ]
	result $? "src/$room includes only what it may"
	[ -z "$bad" ] || echo "$bad" | sed 's/^/# /'
}

# A quoted include without a directory, or with one that is none of our rooms, is the server's
server='[a-z0-9_]+\.h|(access|bootstrap|catalog|commands|common|datatype|executor|foreign|jit|lib|libpq|mb|miscadmin|nodes|optimizer|parser|partitioning|pgstat|port|portability|postmaster|regex|replication|rewrite|statistics|storage|tcop|tsearch|utils)/[A-Za-z0-9_]+\.h'
check_includes filter 'filter/[A-Za-z0-9_]+\.h'
check_includes sst 'sst/[a-z0-9_]+\.h|filter/filter\.h'

# Room, and the rooms below it that it may include and call.  A room includes what it likes
# of its own, and the doors of the libraries.  tree/tree.h, which declares the tree's door, chain.h,
# rows.h, facts.h, reads.h, writes.h and visibility_map.h belong to all.
rooms='
tree/memtable
tree/control	tree/memtable
tree/disk	tree/memtable tree/control
tree/elastic	tree/memtable tree/control tree/disk
tree/read	tree/memtable tree/control tree/disk tree/elastic
tree/compaction	tree/memtable tree/control tree/disk tree/elastic tree/read
tree/write	tree/memtable tree/control tree/disk tree/read tree/compaction
tree	tree/memtable tree/control tree/disk tree/elastic tree/read tree/compaction tree/write
am	TREE
table	am TREE
index	am TREE
ddl	am index TREE
executor	am ddl index TREE
sqlfunc	am ddl index TREE
'
# those above the tree know its door only
tree_rooms='tree/memtable tree/control tree/disk tree/elastic tree/read tree/compaction tree/write tree'

while read -r room below; do
	[ -n "$room" ] || continue
	allowed="tree/tree\.h|tree/chain\.h|tree/rows\.h|tree/facts\.h|tree/reads\.h|tree/writes\.h|tree/visibility_map\.h|sst/sst\.h|filter/filter\.h|filter/radix\.h|$server"
	for other in $room $below; do
		[ "$other" = TREE ] || allowed="$allowed|$other/[a-z0-9_]+\.h"
	done
	check_includes "$room" "$allowed"
done <<<"$rooms"

! grep -nE 'include[[:space:]]+"lsmam\.h"' src/*/*.[ch] src/*/*/*.[ch]
result $? "no room includes the header above it"

# One vocabulary for all versions of PostgreSQL: src/compat.h has it.  To the rooms that see the
# server's headers it is one of these, and the last: it changes what the others declare.
c_sources() { grep -rnE --include='*.[ch]' --exclude=compat.h --exclude-dir=compat "$@" src bench; }
old_names='RelFileNode[A-Za-z]*|(rel|db|spc)Node|(new_?)?rnodes?|(rd|smgr)_r?node'
old_names+='|RelationSetNewRelfilenode|rd_[a-z]*RelfilenodeSubid|(lsm_)?relation_set_new_filenode'
old_names+='|(Invalid|My)?BackendId|pgprocno|relpath(perm|backend)|IsAutoVacuumWorkerProcess'
old_names+='|vacuum_set_xid_limits|n_dead_tuples|ri_RootToPartitionMap|GetNumConfigOptions'
old_names+='|pg_class_ownercheck|pg_attribute_noreturn|lc_collate_is_c|PageIsVerifiedExtended'
old_names+='|MemoryContextResetAndDeleteChildren|INT64_MODIFIER|F_RANDOM'
old_names+='|RepOriginId|PageSetChecksumInplace|CHECKPOINT_IMMEDIATE|PROGRESS_CLUSTER_[A-Z_]*|bits(8|16|32)'
old_names+='|get_relation_info_hook(_type)?|LWLockRegisterTranche|log_min_duration'
! c_sources -w "$old_names"
result $? "the code speaks the names of src/compat.h, not those of one version"

! c_sources 'PG_VERSION_NUM' | grep -vE '^(src/executor/explain(|_counters|_nodes)\.c|src/(table|index)/(handler|scan|bitmap_scan|sample)\.c|src/test/unit/assertion\.h):'
result $? "versions are looked at in src/compat.h, handlers, scans, samples, EXPLAIN and stand-ins of unit tests only"

late=$(grep -rl '^#include "compat\.h"' src bench | while read -r file; do
	sed '1,/^#include "compat\.h"/d' "$file" | grep -HE --label="$file" "^#include \"($server)\""
done)
[ -z "$late" ]
result $? "src/compat.h comes after the server's headers"
[ -z "$late" ] || echo "$late" | sed 's/^/# /'

for lang in "gcc -x c -std=c11" "g++ -x c++ -std=c++17"; do
	for header in filter/filter.h sst/sst.h; do
		echo "#include \"$header\"" |
			$lang -Wall -Wextra -Werror -pedantic -fsyntax-only -Isrc - 2>&1
		result $? "$header stands alone as ${lang##*=}"
	done
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
compile() {
	local out=$1
	shift
	"$@" -D_GNU_SOURCE -O0 -fPIC -Isrc -c -o "$out" 2>&1
}

server_symbols=$scratch/server
nm -D --defined-only "$("$(find_pg_config)" --bindir)/postgres" | awk '{print $NF}' | sort -u >"$server_symbols"

for room in filter sst; do
	status=0
	for source in src/$room/*.c src/$room/*.cc; do
		[ -e "$source" ] || continue
		object=$scratch/$(basename "$source").o
		case $source in
			*.cc) compile "$object" g++ -std=c++17 "$source" || status=1 ;;
			*) compile "$object" gcc -std=gnu11 "$source" || status=1 ;;
		esac
	done
	result $status "src/$room compiles without PostgreSQL on the include path"

	nm -u "$scratch"/*.o 2>/dev/null | awk 'NF == 2 {print $2}' | sort -u >"$scratch/undefined"
	calls=$(comm -12 "$scratch/undefined" "$server_symbols")
	[ -z "$calls" ]
	result $? "src/$room calls nothing in the server"
	[ -z "$calls" ] || echo "$calls" | sed 's/^/# /'
	mkdir -p "$scratch/rooms/$room"
	for object in "$scratch"/*.o; do
		name=$(basename "$object" .o)
		mv "$object" "$scratch/rooms/$room/${name%.*}.o"
	done
done

# Calls, too: tree.h declares functions of several rooms
includes=$("$(find_pg_config)" --includedir-server)
mkdir "$scratch/made"
make -s -C "$scratch/made" -f "$top/Makefile" PG_CONFIG="$(find_pg_config)" src/sqlfunc/report_page.h >/dev/null
compile_room() {
	local room=$1 source
	mkdir -p "$scratch/rooms/$room"
	for source in src/$room/*.c; do
		gcc -std=gnu11 -w -D_GNU_SOURCE -DLSM_VERSION='""' -O0 -fPIC -Isrc -I"$scratch/made/src" -isystem "$includes" \
			-c -o "$scratch/rooms/$room/$(basename "$source" .c).o" "$source" || return 1
	done
}
status=0
while read -r room below; do
	[ -n "$room" ] || continue
	compile_room "$room" || status=1
	nm --defined-only -g "$scratch/rooms/$room"/*.o | awk -v r="$room" 'NF == 3 {print $3, r}'
done <<<"$rooms" >"$scratch/defined"
result $status "all rooms compile"
sort -o "$scratch/defined" "$scratch/defined"
while read -r room below; do
	[ -n "$room" ] || continue
	may=" $room ${below/TREE/$tree_rooms} "
	calls=$(nm -A -u "$scratch/rooms/$room"/*.o | awk '{n = split($1, p, "/"); print $NF, p[n]}' | sort |
		join - "$scratch/defined" | awk -v may="$may" 'index(may, " " $3 " ") == 0 {print $2, $1, "of", $3}')
	[ -z "$calls" ]
	result $? "src/$room calls only what is below it"
	[ -z "$calls" ] || echo "$calls" | sed 's/^/# /'
done <<<"$rooms"

# Circles: a file = one noun, and knows the files below it.  Where a circle is the honest structure it
# stands here, with its reason; what stands here and is none is wrong, too.
circles='
tree/memtable/epoch tree/memtable/retire	who leaves an epoch destroys the local memtables that waited for its end
'
compile_room .
result $? "the files of src itself compile"
(cd "$scratch/rooms" && find . -name '*.o' -printf '%P\n') | sed 's/\.o$//' | sort >"$scratch/files"
while read -r file; do
	nm --defined-only -g "$scratch/rooms/$file.o" | awk -v f="$file" 'NF == 3 {print $3, f}'
done <"$scratch/files" | sort -k1,1 >"$scratch/defines"
while read -r file; do
	nm -u "$scratch/rooms/$file.o" | awk -v f="$file" '{print $NF, f}'
done <"$scratch/files" | sort -k1,1 | join - "$scratch/defines" | awk '{print $2, $3, $1}' >"$scratch/calls"
[ "$(wc -l <"$scratch/calls")" -gt 1000 ]
result $? "calls between files are known"
src/test/circles.pl <"$scratch/calls" >"$scratch/circles"
grep -v '^	' "$scratch/circles" | sort >"$scratch/found"
cut -f 1 <<<"$circles" | grep . | sort >"$scratch/allowed"
new=$(comm -23 "$scratch/found" "$scratch/allowed")
gone=$(comm -13 "$scratch/found" "$scratch/allowed")
[ -z "$new$gone" ]
result $? "no circle of calls between files, but $(wc -l <"$scratch/allowed") with a reason"
sed 's/^/# circle: /' "$scratch/circles"
[ -z "$gone" ] || echo "$gone" | sed 's/^/# no circle any more: /'

grep -HoE '^[[:space:]]*#[[:space:]]*include[[:space:]]+"[^"]+"' $(find src -name '*.h' -not -path 'src/test/*') |
	sed -E 's,^src/([^:]*):.*"([^"]+)",\1 \2 includes,' >"$scratch/includes"
loops=$(src/test/circles.pl <"$scratch/includes")
[ -z "$loops" ]
result $? "no circle of includes between headers"
[ -z "$loops" ] || echo "$loops" | sed 's/^/# /'

! grep -nE 'pthread_create|std::thread|std::async' -r src --include=*.c --include=*.cc --include=*.h --exclude-dir=test
result $? "no threads"

echo "1..$n"
say_all $failed
[ $failed -eq 0 ]
