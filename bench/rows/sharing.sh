# hash sharing on and off in SQL: absent keys, nested loop, 5 populated levels
. "$top/bench/probes.sh"
. "$top/bench/tree.sh"
bench_start "$probes_conf"
tree_module
say "hash sharing in SQL"

# probed: digests per lookup of the key's index since the last call
probed() { sql heap -c "SELECT round(digests::numeric / lookups, 3) FROM pg_stat_lsm WHERE relname = 'l_pkey'"; }

# one KEY_BYTES ROWS TARGET: no target where what is expected is a hundredth of the lookup, and noise
one() {
	local probes query hash digests i
	probes=$(scaled 100000)
	probes_load "$1" "$(scaled "$2")" "$probes"
	query="SELECT count(l.v) FROM absent JOIN l USING (k);"

	# what one more digest costs: two in a row against one
	session_open
	ask session "SELECT tree_draw($1, 10000, 0, 0, 1, 1);"
	hash=$(for ((i = 0; i < 9; i++)); do
		ask session "SELECT tree_hash(9) - tree_hash(1);"
		echo "$answer"
	done | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] / 8 }')
	pipe_close session
	sql heap -c "SELECT pg_stat_lsm_reset()" -c "$probes_nested" -c "SET lsm.hash_sharing = off" -c "$query" >/dev/null
	digests=$(probed)

	interleave_sql "sharing in SQL, absent, $1 B" "$probes" us/key "1.0x" on off heap "$probes_nested" \
		"SET lsm.hash_sharing = on \\; $query" "SET lsm.hash_sharing = off \\; $query"
	echo "   a digest of $1 B: $hash ns, digests per lookup without sharing: $digests"
	awk -v h="$hash" -v d="$digests" '{ print ($2 - $1) * 1000, (d - 1) * h }' "$sandbox/pairs" >"$sandbox/saved"
	report "saved against (digests - 1) x hash, $1 B" higher ns "$3" saved expected <"$sandbox/saved"
}

one 8 4000000 ""
one 64 1000000 ""
one 512 250000 0.8x..1.2x
one 1000 120000 0.8x..1.2x
