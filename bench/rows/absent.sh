# absent keys: index probe in a nested loop, 5 populated levels
. "$top/bench/probes.sh"
bench_start "$probes_conf"
say "absent keys, probe in a nested loop"

# one KEY_BYTES ROWS
one() {
	local probes
	probes=$(scaled 100000)
	probes_load "$1" "$(scaled "$2")" "$probes"
	interleave_sql "absent, $1 B keys" "$probes" us/key "3x" lsm heap heap "$probes_nested" \
		"SELECT count(l.v) FROM absent JOIN l USING (k);" \
		"SELECT count(h.v) FROM absent JOIN h USING (k);"
}

one 8 4000000
one 64 1000000
one 512 250000
one 1000 120000
