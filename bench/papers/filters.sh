#!/bin/bash
# Stand-alone benches of src/filter: no server.
#
# bench/papers/filters.sh quotient           quotient against Bloom filter in RAM, by load factor
# bench/papers/filters.sh cascade [KEYS]     cascade against Bloom filters on storage
# bench/papers/filters.sh elastic [NAME VALUE ..]  ElasticBF's policy against blocked filters and bounds
# bench/papers/filters.sh separability       one Bloom filter against several units of the same bits
#
# BENCH_DIR: a directory on the storage to measure (default: a scratch directory in build/)
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top"

name=${1:-}
source=bench/papers/filter_$name.c
if [ -z "$name" ] || [ ! -e "$source" ]; then
	sed -n '2,/^set/{/^set/d;s/^# \?//;p}' "$0"
	exit 2
fi
shift

out=$top/build/bench
mkdir -p "$out"
gcc -std=gnu11 -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -D_GNU_SOURCE -Isrc -Ibench \
	-o "$out/filter_$name" "$source" src/filter/*.c -lxxhash -lm

echo "# $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(uname -sr), $(date -u +%F), load $(cut -d' ' -f1 /proc/loadavg)"
case $name in
	cascade)
		scratch=$(mktemp -d "${BENCH_DIR:-$out}/filters.XXXXXX")
		trap 'rm -rf "$scratch"' EXIT
		echo "# files on $(df -T "$scratch" | awk 'NR == 2 {print $1 " (" $2 ")"}')"
		"$out/filter_$name" "$scratch" "$@"
		;;
	*) "$out/filter_$name" "$@" ;;
esac
