# the tree alone against rocksdb::DB::Get, and sharing on / off, 6 and 14 runs
. "$top/bench/tree.sh"
tree_start
say "the tree alone, ns of CPU per lookup"

measure_on() { tree_get get; }
measure_scan() { tree_get cursor; }
measure_groups() { tree_get groups; }
measure_peer() { peer_get peer; }
measure_release() { peer_get release; }
measure_off() {
	sharing off
	tree_get get
	sharing on
}
declare -A took

# in_turns: on, off, off, on, several times: the same keys, nothing in between; the means in $shared and $unshared
in_turns() {
	local turn variant
	shared=0 unshared=0
	for turn in 1 2 3; do
		for variant in on off off on; do
			"measure_$variant"
			case $variant in
				on) shared=$(awk -v sum="$shared" -v a="$answer" 'BEGIN { print sum + a / 6 }') ;;
				off) unshared=$(awk -v sum="$unshared" -v a="$answer" 'BEGIN { print sum + a / 6 }') ;;
			esac
		done
	done
}

peers=peer
if release_build; then peers="peer release"; fi

# one KEY_BYTES ENTRIES_PER_RUN RUNS SHARING_TARGET
one() {
	local what="$1 B, $3 runs" n probes i alpha order variant peer
	n=$(scaled "$2")
	probes=$(scaled 100000)
	tree_new "$1" "$n"
	tree_grow "$3"
	for peer in $peers; do
		peer_fill "$peer" "$1" "$n" "$3" 10
	done
	rm -f "$sandbox"/pairs.*
	for ((i = 0; i <= rounds; i++)); do
		for alpha in 0 1; do
			tree_draw "$probes" $alpha $i
			for peer in $peers; do
				peer_draw "$peer" "$probes" $alpha $i
			done
			# who comes first finds less in the processor's caches
			if ((i % 2)); then order="on groups $peers scan"; else order="scan $peers groups on"; fi
			for variant in $order; do
				"measure_$variant"
				took[$variant]=$answer
			done
			in_turns
			# round 0 warms up
			[ $i -gt 0 ] || continue
			for peer in $peers; do
				echo "${took[on]} ${took[$peer]}" >>"$sandbox/pairs.$peer.$alpha"
			done
			echo "${took[scan]} ${took[peer]}" >>"$sandbox/pairs.scan.$alpha"
			echo "${took[groups]} ${took[on]}" >>"$sandbox/pairs.groups.$alpha"
			echo "$shared $unshared" >>"$sandbox/pairs.sharing.$alpha"
		done
	done
	report "absent, $what" lower ns "6x" lsm rocksdb <"$sandbox/pairs.peer.0"
	report "found in the oldest run, $what" lower ns "2.5x" lsm rocksdb <"$sandbox/pairs.peer.1"
	if [ "$peers" != peer ]; then
		report "absent, $what, release build" lower ns "4.5x" lsm rocksdb <"$sandbox/pairs.release.0"
		report "found, $what, release build" lower ns "" lsm rocksdb <"$sandbox/pairs.release.1"
	fi
	report "absent, by cursor, $what" lower ns "" lsm rocksdb <"$sandbox/pairs.scan.0"
	report "found, by cursor, $what" lower ns "" lsm rocksdb <"$sandbox/pairs.scan.1"
	report "in groups, absent, $what" lower ns "1.2x" groups single <"$sandbox/pairs.groups.0"
	report "in groups, found, $what" lower ns "" groups single <"$sandbox/pairs.groups.1"
	report "sharing, absent, $what" lower ns "$4" on off <"$sandbox/pairs.sharing.0"
	report "sharing, found, $what" lower ns "" on off <"$sandbox/pairs.sharing.1"
}

# Groups overlap waits for memory: where filters do not fit into the processor's caches there are more of them
# large KEY_BYTES ENTRIES_PER_RUN RUNS
large() {
	local what n probes i alpha order variant
	n=$(scaled "$2")
	what="$1 B, $3 runs of $n"
	probes=$(scaled 100000)
	tree_new "$1" "$n"
	tree_grow "$3"
	rm -f "$sandbox"/pairs.*
	for ((i = 0; i <= rounds; i++)); do
		for alpha in 0 1; do
			tree_draw "$probes" $alpha $i
			if ((i % 2)); then order="on groups"; else order="groups on"; fi
			for variant in $order; do
				"measure_$variant"
				took[$variant]=$answer
			done
			[ $i -gt 0 ] || continue
			echo "${took[groups]} ${took[on]}" >>"$sandbox/pairs.groups.$alpha"
		done
	done
	report "in groups, absent, $what" lower ns "1.2x" groups single <"$sandbox/pairs.groups.0"
	report "in groups, found, $what" lower ns "" groups single <"$sandbox/pairs.groups.1"
}

one 8 400000 6 1.1x
one 64 200000 6 1.1x
one 512 50000 6 1.7x
one 1024 25000 6 2.0x
one 1024 15000 14 2.7x
large 8 3000000 6
tree_close
for peer in $peers; do
	pipe_close "$peer"
done
