# found keys: index probe and row fetch in a nested loop
. "$top/bench/probes.sh"
say "found keys, probe and fetch in a nested loop"

# one COMPRESSION TARGET
one() {
	local probes
	probes=$(scaled 100000)
	probes_load 8 "$(scaled 4000000)" "$probes"
	interleave_sql "found, 8 B keys, compression $1" "$probes" us/key "$2" lsm heap heap "$probes_nested" \
		"SELECT count(l.v) FROM present JOIN l USING (k);" \
		"SELECT count(h.v) FROM present JOIN h USING (k);"
}

bench_start "$probes_conf"
one default 0.8x
sql heap -c "ALTER SYSTEM SET lsm.compression = none" -c "SELECT pg_reload_conf()" >/dev/null
one none 1.2x
