#!/bin/bash
# use.sh MAJOR: called by packages.sh, as root in a chroot that has the server, the package
# just installed, and a cluster "main" that was never started.  Uses the package as an
# administrator would; replaces and removes it while the server runs.  Prints TAP.
set -uo pipefail
major=$1
name=postgresql-$major-lsmam
data=/var/lib/postgresql/$major/main
conf=/etc/postgresql/$major/main/conf.d/lsmam.conf
log=/var/log/postgresql/postgresql-$major-main.log
n=0

# is GOT WANTED NAME; like GOT REGEX NAME
result() {
	n=$((n + 1))
	[ "$1" -eq 0 ] && echo "ok $n - $2" || echo "not ok $n - $2"
}
is() {
	[ "$1" = "$2" ]
	result $? "$3"
	[ "$1" = "$2" ] || printf '# got: %s\n# not: %s\n' "$1" "$2"
}
like() {
	[[ $1 =~ $2 ]]
	result $? "$3"
	[[ $1 =~ $2 ]] || printf '# got: %s\n# not: %s\n' "$1" "$2"
}
sql() { runuser -u postgres -- psql -XAtq "$@" 2>&1 <&0; }
cluster() { pg_ctlcluster "$major" main "$@" 2>&1; }
# what the server wrote since the file was emptied
start_anew() {
	: >"$log"
	cluster start
}
same_rows='SELECT (SELECT count(*) FROM rows_heap), count(*), count(*) FILTER (WHERE h = l)
  FROM rows_heap h FULL JOIN rows_lsm l USING (id)'
# a row more in both tables; what $same_rows should say then
insert() {
	sql -c "INSERT INTO rows_heap VALUES ($1, 'one more')" -c "INSERT INTO rows_lsm VALUES ($1, 'one more')"
	rows=$(sql -c 'SELECT count(*) FROM rows_heap')
	rows="$rows|$rows|$rows"
}
verified="SELECT count(*) FROM lsm_verify('rows_lsm')"
# the library that the postmaster has mapped, and whether it is still on disk
mapped() { grep -o '/[^ ]*/lsmam\.so.*' "/proc/$(head -1 "$data/postmaster.pid")/maps" | sort -u; }
library=/usr/lib/postgresql/$major/lib/lsmam.so

# a session that reads a row now; and another one at its end, whose test is called NAME
begin_session() {
	rm -f /packages/session
	mkfifo /packages/session
	: >/packages/session.out
	runuser -u postgres -- psql -XAtq </packages/session >/packages/session.out 2>&1 &
	exec 3>/packages/session
	echo "SELECT count(*) FROM rows_lsm WHERE id = 8;" >&3
	until [ -s /packages/session.out ]; do sleep 0.1; done
}
end_session() {
	echo "SELECT count(*) FROM rows_lsm WHERE id = 9;" >&3
	exec 3>&-
	wait
	is "$(cat /packages/session.out)" $'1\n1' "$1"
}

cd /
dpkg -L "$name" | sort >/packages/files
like "$(runuser -u postgres -- "/usr/lib/postgresql/$major/bin/lsm_pg_upgrade" --help)" 'Usage:' \
	'lsm_pg_upgrade is beside pg_upgrade'

# ---- use ----
is "$(cluster start)" '' 'the server starts with the package, not preloaded'
like "$(sql -c 'CREATE EXTENSION lsmam')" \
	'ERROR:  lsmam must be loaded via shared_preload_libraries' 'CREATE EXTENSION says what is missing'
echo "shared_preload_libraries = 'lsmam'" >"$conf"
is "$(cluster restart)" '' 'the server starts, preloaded'
is "$(sql -c 'CREATE EXTENSION lsmam')" '' 'CREATE EXTENSION'
version=$(sql -c 'SELECT lsm_full_version()')
extversion=$(sql -c "SELECT extversion FROM pg_extension WHERE extname = 'lsmam'")
like "$version" "^lsmam ${extversion//./\\.}, " 'the library and the extension have one version'
sql <<'SQL' >/dev/null
CREATE TABLE rows_heap (id int, t text, u uuid);
CREATE TABLE rows_lsm (id int PRIMARY KEY, t text, u uuid) USING lsm;
CREATE INDEX ON rows_lsm USING lsm (t);
INSERT INTO rows_heap SELECT i, 'row ' || i, md5(i::text)::uuid FROM generate_series(1, 5000) i;
INSERT INTO rows_lsm SELECT * FROM rows_heap ORDER BY u;
SELECT lsm_flush('rows_lsm');
UPDATE rows_heap SET t = t || '!' WHERE id % 7 = 0;
UPDATE rows_lsm SET t = t || '!' WHERE id % 7 = 0;
DELETE FROM rows_heap WHERE id % 11 = 0;
DELETE FROM rows_lsm WHERE id % 11 = 0;
SQL
is "$(sql -c "SELECT amname FROM pg_am a JOIN pg_class c ON relam = a.oid
	WHERE relname LIKE 'rows_lsm%' ORDER BY relname")" $'lsm\nlsm_index\nlsm_index' 'table, key and index are ours'
insert 0
is "$(sql -c "$same_rows")" "$rows" 'lsm and heap have the same rows'
like "$(sql -c "EXPLAIN SELECT u FROM rows_lsm WHERE t = 'row 8'")" 'rows_lsm_t_idx' 'the index is used'
is "$(cluster restart)" '' 'restart'
is "$(sql -c "$same_rows")" "$rows" 'the same rows after a restart'
is "$(sql -c "$verified")" 0 'lsm_verify finds nothing'
insert -1
cluster stop -m immediate
is "$(cluster start)" '' 'start after a crash'
is "$(sql -c "$same_rows;$verified")" "$rows"$'\n0' 'the same rows after a crash'

# ---- a new version while the server runs ----
is "$(mapped)" "$library" 'the postmaster has the library'
next=$(ls /packages/"$name"_*next*.deb)
begin_session
dpkg -i "$next" >/packages/dpkg.log 2>&1
result $? 'a new version is installed under the running server'
is "$(mapped)" "$library (deleted)" 'the server keeps the old library'
end_session 'a session goes on'
is "$(sql -c 'SELECT lsm_full_version()')" "$version" 'a new session has the old library, too'
insert -2
is "$(sql -c "SELECT lsm_flush('rows_lsm')" -c 'SET max_parallel_workers_per_gather = 2' \
	-c 'SET min_parallel_table_scan_size = 0' -c 'SET parallel_setup_cost = 0' -c "$same_rows")" \
	$'\n'"$rows" 'it writes, flushes and reads'
too_new="could not find function \"lsm_next\" in file \"$library\""
like "$(sql -c 'ALTER EXTENSION lsmam UPDATE')" "$too_new" 'ALTER EXTENSION UPDATE needs the new library'
is "$(sql -c "SELECT extversion FROM pg_extension WHERE extname = 'lsmam'" -c "$same_rows")" \
	"$extversion"$'\n'"$rows" 'and changes nothing without it'
sql -c 'CREATE DATABASE other'
like "$(sql -d other -c 'CREATE EXTENSION lsmam')" "$too_new" 'so does CREATE EXTENSION'
is "$(cluster restart)" '' 'restart'
is "$(mapped)" "$library" 'the server has the new library'
like "$(sql -c 'SELECT lsm_full_version()')" '^lsmam next, ' 'and says so'
is "$(sql -c "$same_rows;$verified")" "$rows"$'\n0' 'before ALTER EXTENSION UPDATE, rows are read as ever'
is "$(sql -c 'ALTER EXTENSION lsmam UPDATE' -c 'SELECT lsm_next()')" 1 'ALTER EXTENSION UPDATE'
is "$(sql -c "$same_rows;$verified")" "$rows"$'\n0' 'and after it'
is "$(sql -d other -c 'CREATE EXTENSION lsmam' -c 'SELECT lsm_next()')" 1 'CREATE EXTENSION'
sql -c 'DROP DATABASE other'

# ---- removal while the server runs ----
missing='ERROR:  could not access file "(\$libdir/)?lsmam": No such file or directory'
begin_session
dpkg -r "$name" >>/packages/dpkg.log 2>&1
result $? 'the package is removed under the running server'
end_session 'a session that has used it goes on'
is "$(sql -c 'SELECT count(*) FROM rows_heap')" "${rows%%|*}" 'others read heap tables'
like "$(sql -c 'SELECT count(*) FROM rows_lsm')" "$missing" 'and say of lsm tables what is missing'
like "$(cluster stop; start_anew; cat "$log")" \
	'FATAL:  could not access file "lsmam": No such file or directory' 'it does not start without the library'
rm "$conf"
is "$(cluster start)" '' 'it starts if lsmam is not preloaded, after a clean shutdown'
is "$(sql -c 'SELECT count(*) FROM rows_heap')" "${rows%%|*}" 'heap tables are read'
like "$(sql -c 'SELECT count(*) FROM rows_lsm')" \
	"$missing" 'lsm tables say what is missing'
cluster stop
echo "shared_preload_libraries = 'lsmam'" >"$conf"
dpkg -i "$next" >>/packages/dpkg.log 2>&1
is "$(cluster start)" '' 'the package is back, and the server starts'
is "$(sql -c "$same_rows;$verified")" "$rows"$'\n0' 'with all rows'
insert -3
cluster stop -m immediate
rm "$conf"
like "$(start_anew; cat "$log")" 'FATAL:  resource manager with ID [0-9]+ not registered' \
	'after a crash, the server does not start without lsmam'
echo "shared_preload_libraries = 'lsmam'" >"$conf"
is "$(cluster start)" '' 'with it, it does'
is "$(sql -c "$same_rows;$verified")" "$rows"$'\n0' 'with all rows, again'

# ---- for good ----
is "$(sql -c 'SET client_min_messages = error' -c 'DROP EXTENSION lsmam CASCADE' \
	-c "SELECT count(*) FROM pg_class WHERE relname LIKE 'rows_lsm%'")" 0 \
	'DROP EXTENSION CASCADE drops tables and indexes'
# workers remove the files
for ((i = 0; i < 300; i++)); do
	[ -n "$(find "$data/pg_lsm" -mindepth 2)" ] || break
	sleep 0.1
done
is "$(find "$data/pg_lsm" -mindepth 2)" '' 'and their files'
cluster stop
rm "$conf"
dpkg -P "$name" >>/packages/dpkg.log 2>&1
result $? 'the package is purged'
is "$(cluster start)" '' 'the server starts without it'
is "$(sql -c 'SELECT count(*) FROM rows_heap')" "${rows%%|*}" 'and has its heap tables'
cluster stop
is "$(while read -r path; do [ -d "$path" ] || [ ! -e "$path" ] || echo "$path"; done </packages/files)" '' \
	'no file of the package is left'
is "$(find / -xdev \( -path /proc -o -path /dev -o -path /packages -o -path "$data" \) -prune -o \
	\( -name '*lsmam*' -o -name 'lsm_*' \) -print)" '' 'nor one with its name'
echo "1..$n"
