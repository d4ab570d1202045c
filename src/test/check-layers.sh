#!/bin/bash
# The rooms' rules (DESIGN, section 3), as tests in TAP:
#   filter needs no PostgreSQL and nothing but libxxhash; sst no PostgreSQL server;
#   arrows point one way: table, index -> tree -> sst, filter;
#   sst.h and filter.h are C11 and C++17.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
cd "$top"

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
check_includes tree "tree/[a-z0-9_]+\.h|sst/sst\.h|filter/filter\.h|$server"
check_includes table "table/[a-z0-9_]+\.h|tree/tree\.h|filter/filter\.h|$server"
check_includes index "index/[a-z0-9_]+\.h|tree/tree\.h|filter/filter\.h|$server"

! grep -nE 'include[[:space:]]+"(lsmam|functions)\.h"' src/*/*.[ch]
result $? "no room includes the headers above it"

# One vocabulary for all versions of PostgreSQL: src/compat.h has it.  To the rooms that see the
# server's headers it is one of these, and the last: it changes what the others declare.
c_sources() { grep -rnE --include='*.[ch]' --exclude=compat.h "$@" src bench; }
old_names='RelFileNode[A-Za-z]*|(rel|db|spc)Node|(new_?)?rnodes?|(rd|smgr)_r?node'
old_names+='|RelationSetNewRelfilenode|rd_[a-z]*RelfilenodeSubid|(lsm_)?relation_set_new_filenode'
old_names+='|(Invalid|My)?BackendId|pgprocno|relpath(perm|backend)|IsAutoVacuumWorkerProcess'
old_names+='|vacuum_set_xid_limits|n_dead_tuples|ri_RootToPartitionMap|GetNumConfigOptions'
old_names+='|pg_class_ownercheck|pg_attribute_noreturn|lc_collate_is_c|PageIsVerifiedExtended'
old_names+='|MemoryContextResetAndDeleteChildren|INT64_MODIFIER|F_RANDOM'
! c_sources -w "$old_names"
result $? "the code speaks the names of src/compat.h, not those of one version"

! c_sources 'PG_VERSION_NUM' | grep -vE '^(src/explain\.c|src/(table|index)/(handler|scan|sample)\.c):'
result $? "versions are looked at in src/compat.h, handlers, scans, samples and EXPLAIN only"

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
	rm -f "$scratch"/*.o
done

! grep -nE 'pthread_create|std::thread|std::async' -r src --include=*.c --include=*.cc --include=*.h --exclude-dir=test
result $? "no threads"

echo "1..$n"
[ $failed -eq 0 ]
