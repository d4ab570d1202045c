# hash sharing on and off in SQL: absent keys, nested loop, 5 populated levels
. "$top/bench/probes.sh"
. "$top/bench/tree.sh"
bench_start "$probes_conf"
tree_module
say "hash sharing in SQL"

# probed: digests per lookup of the key's index since the last call
probed() { sql heap -c "SELECT round(digests::numeric / lookups, 3) FROM pg_stat_lsm WHERE relname = 'l_pkey'"; }

# in_turn KEY_BYTES PROBES: lines "on off hash", us of CPU per lookup and ns per digest more (two in a row against one). A
# turn looks for a tenth of the keys: once untimed, then on, off, off, on. All in one session and within some hundredths of a second,
# since the machine has phases of different speed that last seconds
in_turn() {
	local clock="SELECT '@' || split_part(pg_read_file('/proc/self/schedstat'), ' ', 1);" slice=$(($2 / 10)) i sharing query
	{
		printf '%s\n' "$probes_nested" "SELECT tree_draw($1, 1000, 0, 0, 1, 1);"
		for ((i = 0; i < 10; i++)); do
			echo "CREATE TEMP TABLE slice_$i AS SELECT k FROM absent OFFSET $((i * slice)) LIMIT $slice;"
			echo "ANALYZE slice_$i;"
		done
		for ((i = 0; i < 10 * rounds; i++)); do
			query="SELECT count(l.v) FROM slice_$((i % 10)) JOIN l USING (k);"
			echo "$query"
			for sharing in on off off on; do
				echo "SET lsm.hash_sharing = $sharing;"
				printf '%s\n' "$clock" "$query" "$clock" "SELECT '@$sharing';"
				echo "SELECT '@hash ' || (tree_hash(9) - tree_hash(1)) / 8;"
			done
		done
	} >"$sandbox/chunk.sql"
	sql heap -f "$sandbox/chunk.sql" >"$sandbox/chunk.out"
	sed -n 's/^@//p' "$sandbox/chunk.out" | awk -v n="$slice" '
		$1 ~ /^[0-9]/ { before = now; now = $1; next }
		$1 != "hash" { took[$1] += (now - before) / 2000 / n; next }
		{ hash += $2 / 4 }
		++chunk % 4 == 0 { print took["on"], took["off"], hash; took["on"] = took["off"] = hash = 0 }'
}

# one KEY_BYTES ROWS TARGET: no target where what is expected is a hundredth of the lookup, and noise
one() {
	local probes query digests
	probes=$(scaled 100000)
	probes_load "$1" "$(scaled "$2")" "$probes"
	query="SELECT count(l.v) FROM absent JOIN l USING (k);"
	sql heap -c "SELECT pg_stat_lsm_reset()" -c "$probes_nested" -c "SET lsm.hash_sharing = off" -c "$query" >/dev/null
	digests=$(probed)

	in_turn "$1" "$probes" >"$sandbox/turns"
	awk '{ print $1, $2 }' "$sandbox/turns" | report "sharing in SQL, absent, $1 B" lower us/key "1.0x" on off
	awk -v b="$1" -v d="$digests" '{ h += $3 } END { printf "   a digest of %d B: %.1f ns, digests per lookup without sharing: %s\n", b, h / NR, d }' \
		"$sandbox/turns"
	awk -v d="$digests" '{ print ($2 - $1) * 1000, (d - 1) * $3 }' "$sandbox/turns" >"$sandbox/saved"
	report "saved against (digests - 1) x hash, $1 B" higher ns "$3" saved expected <"$sandbox/saved"
}

one 8 4000000 ""
one 64 1000000 ""
one 512 250000 0.8x..1.2x
one 1000 120000 0.8x..1.2x
