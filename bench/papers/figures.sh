#!/bin/bash
# bench/papers/figures.sh [fig1 fig5a fig5b fig6 fig7 fig8 fig9]: the figures of "Reducing Bloom Filter CPU
# Overhead in LSM-Trees on Modern Storage Devices" that measure lookups in an LSM tree, on the product's
# tree (bench/tree.sh).  bench/plot.py draws the CSVs.
#
# As in the paper: keys of 512 bytes and 10 bits per key unless they vary.  "State of the art" is
# lsm.hash_sharing = off.  Every run is asked: absent keys by their nature, present ones because they are in the oldest run.
# Runs are of equal size and all overlap, where the paper's levels grow by the size ratio: what a lookup hashes is the same.
#
# Storage: "page cache" is a file system on disk, everything cached; "tmpfs" is /dev/shm, the paper's emulated NVM;
# "disk" stands for the paper's direct I/O.  The product maps its files, so there is no O_DIRECT; before each chunk the
# files are evicted from the page cache, a new session opens them (which reads and verifies the
# filters), and the chunk is so short that few blocks are met twice.
#
# BENCH_ROUNDS, BENCH_SCALE, BENCH_RESULTS as for run.sh.
set -uo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$top/bench/lib.sh"
. "$top/bench/tree.sh"

shared_memory=${BENCH_TMPFS:-/dev/shm}
[ $# -gt 0 ] || set -- fig1 fig5a fig5b fig6 fig7 fig8 fig9
for figure in "$@"; do
	case $figure in
		fig1 | fig5a | fig5b | fig6 | fig7 | fig8 | fig9) ;;
		*) die "there is no figure \"$figure\"" ;;
	esac
done

# storage disk|tmpfs: a server whose data directory is there
storage() {
	if [ "$1" = tmpfs ]; then
		[ "$(stat -f -c %T "$shared_memory")" = tmpfs ] || die "$shared_memory is not a tmpfs"
		memory_sandbox=$(mktemp -d "$shared_memory/lsmam-bench.XXXXXX")
		[ "$(id -u)" -ne 0 ] || chown postgres "$memory_sandbox"
		tree_close
		server_new "$memory_sandbox/data"
		tree_functions
	fi
	medium=$1
}

# tree BYTES RUNS [OPTIONS]: some 12 MB per run, at most 200,000 entries
tree() {
	tree_new "$1" "$(awk -v b="$1" -v s="$scale" 'BEGIN { n = 12e6 / (b + 23); printf "%d", s * (n < 200000 ? n : 200000) }')" "${3:-}"
	tree_grow "$2"
}

# evict: what no process has mapped leaves the page cache
evict() {
	find "$data/pg_lsm" -type f -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \;
}

# reopen SEED: a new session without cached blocks.  What opening a file has read ahead besides its index
# (as much as the device's read_ahead_kb) goes again.
reopen() {
	pipe_close session
	evict
	session_open
	tree_draw 10 0 "$1"
	ask session "SELECT (tree_get('i', 'get'))[1];"
	evict
}

# chunk STORAGE ALPHA SEED on|off: ns per lookup, ns of hashing per lookup, page faults that read
chunk() {
	local clock=1 probes times=1
	probes=$(scaled 50000)
	[ "$4" = on ] || times=$tree_runs
	if [ "$1" = disk ]; then
		clock=2
		probes=$(awk -v a="$2" 'BEGIN { printf "%d", 200 / (a + 0.05) }')
		reopen "$3"
	fi
	sharing "$4"
	tree_draw "$probes" "$2" "$3"
	ask session "SELECT r[$clock], r[3] FROM tree_get('i', 'get') r;"
	local took=$answer
	ask session "SELECT tree_hash($times);"
	echo "${took%|*},$answer,${took#*|}"
}

# point FIGURE X STORAGE ALPHA: both variants in turn, to the CSV and as one line
point() {
	local figure=$1 x=$2 where=$3 alpha=$4 csv=$results/$1.csv i variant
	if [ ! -e "$sandbox/$figure.started" ]; then
		machine_line >"$csv"
		echo "figure,x,storage,alpha,round,sharing,ns,hash_ns,faults" >>"$csv"
		touch "$sandbox/$figure.started"
		printf '\n== %s\n%-10s %-10s %5s %10s %10s %7s %10s %9s\n' "$figure" x storage alpha off/ns on/ns gain hashing faults
	fi
	# what was evicted comes back
	[ "$where" = disk ] || ask session "SELECT tree_walk('i');"
	for ((i = 0; i <= rounds; i++)); do
		for variant in off on; do
			((i % 2)) || variant=$([ $variant = on ] && echo off || echo on)
			# a file, not $(): the pipes' state stays in this shell
			chunk "$where" "$alpha" $i $variant >"$sandbox/chunk"
			# round 0 warms up
			[ $i -eq 0 ] || echo "$figure,$x,$where,$alpha,$i,$variant,$(cat "$sandbox/chunk")" >>"$csv"
		done
	done
	awk -F, -v x="$x" -v s="$where" -v a="$alpha" '
	function median(v, n,  i, j, t) {
		for (i = 2; i <= n; i++)
			for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
		return v[int((n + 1) / 2)]
	}
	$2 == x && $3 == s && $4 == a && $6 == "on" { on[++n] = $7 }
	$2 == x && $3 == s && $4 == a && $6 == "off" { off[++m] = $7; hash[m] = $8; faults[m] = $9 }
	END {
		c = median(off, m); d = median(on, n)
		printf "%-10s %-10s %5s %10.0f %10.0f %6.0f%% %9.1f%% %9.3f\n", x, s, a, c, d, 100 * (c / d - 1), 100 * median(hash, m) / c, median(faults, m)
	}' "$csv"
}

# each figure has two parts: what runs on disk and what runs on tmpfs
fig1() {
	local runs storages="page_cache disk"
	[ "$medium" = disk ] || storages=tmpfs
	tree 512 1
	for runs in 1 2 3 4 5 6 7; do
		[ "$runs" = 1 ] || tree_grow $runs
		for where in $storages; do point fig1 $runs $where 0.5; done
	done
}

fig5a() {
	local bytes
	[ "$medium" = disk ] || return 0
	for bytes in 8 16 32 64 128 256 512 1024; do
		tree $bytes 5
		point fig5a $bytes page_cache 0
	done
}

fig5b() {
	local runs
	[ "$medium" = disk ] || return 0
	tree 512 8
	for runs in 8 9 10 11 12 13 14; do
		[ "$runs" = 8 ] || tree_grow $runs
		point fig5b $runs page_cache 0
	done
}

fig6() {
	local where storages="disk page_cache"
	[ "$medium" = disk ] || storages=tmpfs
	tree 512 5
	for where in $storages; do point fig6 "$where" "$where" 0; done
}

fig7() {
	local bits where storages="disk page_cache"
	[ "$medium" = disk ] || storages=tmpfs
	for bits in 8 10 12 14; do
		tree 512 5 "bits_per_key = $bits"
		for where in $storages; do point fig7 $bits $where 0; done
	done
}

# shares of present keys
alphas() {
	local alpha
	tree 512 5
	for alpha in 0 0.2 0.4 0.6 0.8 1; do point "$1" $alpha "$2" $alpha; done
}
fig8() { [ "$medium" != disk ] || alphas fig8 disk; }
fig9() { [ "$medium" != tmpfs ] || alphas fig9 tmpfs; }

tree_start
for medium in disk tmpfs; do
	storage $medium
	for figure in "$@"; do $figure; done
done
tree_close
