# private memory of an idle backend that has touched 1 GB of data
bench_start "lsm.compression = none"
say "private memory of an idle backend"

# 1 kB rows: 1 GB, not compressed, so that as much is mapped
n=$(scaled 1000000)
sql heap <<-SQL
	CREATE TABLE l (id bigint PRIMARY KEY, v text) USING lsm;
	INSERT INTO l SELECT i, repeat(md5(i::text), 31) FROM generate_series(1, $n) i;
	SELECT lsm_flush('l'::regclass) \g /dev/null
	SELECT lsm_flush('l_pkey'::regclass) \g /dev/null
	CREATE TABLE h (id bigint PRIMARY KEY, v text);
	INSERT INTO h SELECT * FROM l;
	VACUUM ANALYZE h;
	VACUUM ANALYZE l;
SQL
settle heap l
sql heap -c "SELECT '   l: ' || pg_size_pretty(lsm_relation_size('l'::regclass)) || ', its key ' || pg_size_pretty(lsm_relation_size('l_pkey'::regclass))
	|| '; h: ' || pg_size_pretty(pg_table_size('h')) || ', its key ' || pg_size_pretty(pg_relation_size('h_pkey'))"

# private_kb: two numbers on one line, dirty pages that only the session at pipe "session" has, without shared memory (which
# smaps calls private while only one process has touched it), and its page tables
private_kb() {
	ask session "SELECT pg_backend_pid();"
	awk '/^[0-9a-f]+-[0-9a-f]+ / { shared = /\/dev\/zero|\/SYSV|\/dev\/shm|\/anon_hugepage/ }
		/^Private_Dirty:/ && !shared { kb += $2 }
		END { printf "%d ", kb }' "/proc/$answer/smaps" || die "cannot read /proc/$answer/smaps"
	awk '/^VmPTE:/ { print $2 }' "/proc/$answer/status"
}

# touch_all TABLE: kB of private memory and of page tables that a session has gained in $private and $tables
touch_all() {
	local before after
	session_open
	ask session "SELECT count(*) FROM pg_class WHERE relname = 'none';"
	before=$(private_kb)
	ask session "SET enable_seqscan = off; SELECT count(v) FROM $1 WHERE id > 0;"
	[ "$answer" = "$n" ] || die "$answer rows instead of $n"
	ask session "SET enable_seqscan = on; SELECT count(v) FROM $1;"
	ask session "SELECT count(v) FROM generate_series(1, $n, 10) g JOIN LATERAL (SELECT v FROM $1 WHERE id = g OFFSET 0) x ON true;"
	after=$(private_kb)
	pipe_close session
	private=$(echo "$before $after" | awk '{ print $3 - $1 }')
	tables=$(echo "$before $after" | awk '{ print $4 - $2 }')
}

for ((i = 0; i < rounds && i < 5; i++)); do
	touch_all l
	echo "$private" >>"$sandbox/private.l"
	echo "$tables" >>"$sandbox/tables.l"
	touch_all h
	echo "$private" >>"$sandbox/private.h"
	echo "$tables" >>"$sandbox/tables.h"
done
paste -d' ' "$sandbox"/private.{l,h} | report "private memory gained" lower kB "below 5120" lsm heap
paste -d' ' "$sandbox"/tables.{l,h} | report "page tables gained" lower kB "" lsm heap
