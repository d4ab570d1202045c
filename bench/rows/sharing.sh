# hash sharing on and off in SQL: absent keys, nested loop, 5 populated levels
. "$top/bench/probes.sh"
bench_start "$probes_conf"
say "hash sharing in SQL"

# one KEY_BYTES ROWS
one() {
	local probes query
	probes=$(scaled 100000)
	probes_load "$1" "$(scaled "$2")" "$probes"
	query="SELECT count(l.v) FROM absent JOIN l USING (k);"
	interleave_sql "sharing, absent, $1 B keys" "$probes" us/key "" on off heap "$probes_nested" \
		"SET lsm.hash_sharing = on \\; $query" "SET lsm.hash_sharing = off \\; $query"
}

one 8 4000000
one 64 1000000
one 512 250000
one 1000 120000
