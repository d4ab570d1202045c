# sequential scan, count(*) of 10 M rows
. "$top/bench/ordered.sh"
ordered_load
say "sequential scan"
interleave_sql "count(*), $ordered_rows rows" 1000 us 0.8x lsm heap heap "" \
	"SELECT count(*) FROM l;" "SELECT count(*) FROM h;"
