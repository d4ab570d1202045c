#!/bin/bash
# Builds and runs hash_sharing.cc; arguments name the parts (default: all).
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
out=$top/build/bench

for header in xxhash.h isa-l.h openssl/md5.h absl/hash/internal/city.h; do
	if [ ! -e "/usr/include/$header" ]; then
		echo "missing: apt-get install libxxhash-dev libisal-dev libssl-dev libabsl-dev" >&2
		exit 1
	fi
done
mkdir -p "$out"
for source in "$top"/src/filter/*.c; do
	gcc -O2 -std=gnu11 -I"$top/src" -D_GNU_SOURCE -c -o "$out/$(basename "${source%.c}").o" "$source"
done
g++ -O2 -std=c++17 -Wall -Wextra -Wno-deprecated-declarations -D_GNU_SOURCE -I"$top/src" -o "$out/hash_sharing" "$top/bench/papers/hash_sharing.cc" \
	"$out"/*.o -lxxhash -lisal -lcrypto -labsl_city -lm
echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) cores, $(uname -r), $(date +%F)"
exec nice -n 5 "$out/hash_sharing" "$@"
