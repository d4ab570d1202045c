# absent keys where the data is larger than the page cache
bench_start "
shared_buffers = 16MB
"
say "larger than memory: absent keys, index probe in a nested loop"

# The limit is kept by evicting, not by a memory cgroup (which would move processes between groups
# that are not ours): each chunk begins with a restarted server and none of its files in the page cache, looks for a
# few keys so that inner pages and filters are there, and ends before a fifth of the index has been
# read.  How much is resident at the end is printed; bytes read from storage are the backend's own (/proc/self/io).
n=$(scaled 10000000)
warm=$(scaled 2000)
probes=$(scaled 4000)
# even keys scattered over 33 bits; h's key is built when the rows are there, which packs its pages
sql heap <<-SQL
	CREATE TABLE h (k bigint, v text);
	INSERT INTO h SELECT i * 2654435761 % 4294967291 * 2, md5(i::text) FROM generate_series(1, $n::bigint) i;
	ALTER TABLE h ADD PRIMARY KEY (k);
	CREATE TABLE l (k bigint PRIMARY KEY, v text) USING lsm;
	INSERT INTO l SELECT * FROM h;
	VACUUM ANALYZE h;
	ANALYZE l;
SQL
drain heap l
sql heap -o /dev/null -c "SELECT lsm_flush('l_pkey'::regclass)" -c CHECKPOINT
settle heap l
show_levels heap l_pkey

# evict: none of the server's files in the page cache; it must not run, for mapped pages stay
evict() {
	find "$data/base" "$data/pg_lsm" -type f -size +64k -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \;
}

# resident TABLE: percent of its index in the page cache
resident() {
	local files
	if [ "$1" = l ]; then
		files=$(sql heap -c "SELECT format('%s/pg_lsm/*/%s.*', current_setting('data_directory'), lpad(to_hex(file), 6, '0')) FROM lsm_files('l_pkey'::regclass)")
	else
		files="$data/$(sql heap -c "SELECT pg_relation_filepath('h_pkey')")*"
	fi
	fincore -b -n -o RES,SIZE $files 2>/dev/null | awk '{ r += $1; s += $2 } END { printf "%.1f\n", 100 * r / s }'
}

# one lsm|heap: us per key; storage bytes per key and residency to files
one() {
	local table=${1:0:1}
	stop_server "$data"
	evict
	start_server "$data" $port || die "the server did not start"
	sql heap >"$sandbox/chunk.out" <<-SQL
		SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;
		SET enable_material = off; SET enable_memoize = off; SET enable_indexonlyscan = off; SET enable_seqscan = off;
		CREATE TEMP TABLE keys AS SELECT (random() * 4294967290)::bigint * 2 + 1 AS k, i FROM generate_series(1, $((warm + probes))) i;
		SELECT 'warm', count(t.v) FROM (SELECT k FROM keys WHERE i <= $warm OFFSET 0) p JOIN $table t USING (k);
		SELECT substring(pg_read_file('/proc/self/io') FROM 'read_bytes: ([0-9]+)') AS before \gset
		\timing on
		SELECT 'found', count(t.v) FROM (SELECT k FROM keys WHERE i > $warm OFFSET 0) p JOIN $table t USING (k);
		\timing off
		SELECT 'read', substring(pg_read_file('/proc/self/io') FROM 'read_bytes: ([0-9]+)')::bigint - :before;
	SQL
	grep -q '^found|0$' "$sandbox/chunk.out" || die "absent keys were found"
	awk -F'|' -v n="$probes" '$1 == "read" { printf "%.0f\n", $2 / n }' "$sandbox/chunk.out" >>"$sandbox/read.$table"
	resident "$table" >>"$sandbox/resident.$table"
	sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$sandbox/chunk.out" | awk -v n="$probes" '{ print $1 * 1000 / n }'
}

interleave "larger than memory, absent" lower us/key 10x lsm heap one
paste -d' ' "$sandbox"/read.{l,h} | report "bytes read per absent key" lower bytes "" lsm heap
paste -d' ' "$sandbox"/resident.{l,h} | report "index in the page cache at the end" lower % "" lsm heap
