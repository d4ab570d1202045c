#!/bin/bash
# bench/scale_nodes.sh: what bench/scale_model.py reckons with, measured on 1, 2 and 3 servers of this machine
# that share ROWS rows by hash.  Memtables and files are small (4 MB), so that there are levels.
#
#   ROWS=2000000   LOOKUPS=100000   per number of servers
#
# Prints, for each number of servers, all of them together: bytes and counts, which are the same on a busy machine; what
# flushes and compactions wrote in the course of filling, and while each row was updated once, in random order; the
# processor time of a lookup, on its server and by way of a front server with postgres_fdw.  Rates are not shown, for the
# servers share the processors of this machine.
set -euo pipefail
{
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../src/test/lib.sh"
rows=${ROWS:-2000000}
lookups=${LOOKUPS:-100000}
unit=4
new_sandbox nodes
trap 'for d in "$sandbox"/n*; do [ -f "$d/postmaster.pid" ] && stop_server "$d" immediate; done; rm -rf "$sandbox"' EXIT
install_flavour release >"$sandbox/build.log" 2>&1 || { tail -30 "$sandbox/build.log"; exit 1; }
server_conf="fsync = off
autovacuum = off
wal_level = replica
max_wal_size = 20GB
checkpoint_timeout = 1h
lsm.memtable_size = ${unit}MB
lsm.memtable_memory = 64MB
lsm.target_file_size = ${unit}MB"
sql() { as_postgres psql -h "$sandbox" -p "$1" -XAtq -v ON_ERROR_STOP=1 postgres; }

settle() {	# until compactions have nothing to do
	until [ "$(sql "$1" <<<"SELECT count(*) FROM pg_stat_lsm_progress")" = 0 ] && sleep 2 &&
		[ "$(sql "$1" <<<"SELECT count(*) FROM pg_stat_lsm_progress")" = 0 ]; do sleep 1; done
}

load() {	# PORT SERVERS NUMBER: its rows, in an order that is not that of their keys
	sql "$1" <<-SQL
		CREATE EXTENSION lsmam;
		CREATE TABLE t (id bigint PRIMARY KEY, n int, v text) USING lsm;
		CREATE TABLE parted (id bigint) PARTITION BY HASH (id);
		SELECT pg_current_wal_insert_lsn() AS begin \\gset
		INSERT INTO t SELECT id, id, md5(id::text) FROM (SELECT g::bigint * 7368787 % $rows AS id FROM generate_series(0, $rows - 1) g) x
		WHERE satisfies_hash_partition('parted'::regclass, $2, $3, id);
		SELECT lsm_flush('t'::regclass);
		CREATE TABLE facts AS SELECT pg_current_wal_insert_lsn() - :'begin'::pg_lsn AS wal;
		-- processor time of a process, seconds
		CREATE FUNCTION seconds(pid text) RETURNS float LANGUAGE sql VOLATILE AS \$\$
			SELECT (f[12]::float + f[13]::float) / $(getconf CLK_TCK)
			FROM string_to_array(substring(pg_read_file('/proc/' || pid || '/stat') from '\\) (.*)'), ' ') f \$\$;
		CREATE VIEW fdw_seconds AS SELECT coalesce(sum(seconds(pid::text)), 0) AS s FROM pg_stat_activity WHERE application_name = 'postgres_fdw';
	SQL
	settle "$1"
}

facts() {	# PORT SERVERS NUMBER: rows, bytes of table, key, WAL; flushed, compacted, flushes of table, key; files, filters; probes, blocks read by lookups, their seconds
	sql "$1" <<-SQL
		CREATE TABLE before AS SELECT relname, filter_probes, blocks_read FROM pg_stat_lsm;
		CREATE TABLE spent (s float);
		DO \$\$ DECLARE x bigint; k bigint; began float := seconds('self'); BEGIN FOR i IN 1..$lookups LOOP
			k := (i * 7919::bigint) % $rows;
			CONTINUE WHEN NOT satisfies_hash_partition('parted'::regclass, $2, $3, k);
			SELECT n INTO STRICT x FROM t WHERE id = k; END LOOP;
			INSERT INTO spent VALUES (seconds('self') - began); END \$\$;
		-- what the loop and the choice of keys cost
		DO \$\$ DECLARE x bigint; k bigint; began float := seconds('self'); BEGIN FOR i IN 1..$lookups LOOP
			k := (i * 7919::bigint) % $rows;
			CONTINUE WHEN NOT satisfies_hash_partition('parted'::regclass, $2, $3, k);
			END LOOP;
			INSERT INTO spent VALUES (began - seconds('self')); END \$\$;
		SELECT (SELECT count(*) FROM t), lsm_relation_size('t'::regclass), lsm_relation_size('t_pkey'::regclass), (SELECT wal FROM facts),
			t.bytes_flushed, t.bytes_compacted, t.flushes, k.bytes_flushed, k.bytes_compacted, k.flushes,
			(SELECT count(*) FROM lsm_files('t'::regclass)) + (SELECT count(*) FROM lsm_files('t_pkey'::regclass)),
			(SELECT sum(filter_bytes) FROM lsm_files('t'::regclass)) + (SELECT sum(filter_bytes) FROM lsm_files('t_pkey'::regclass)),
			k.filter_probes - b.filter_probes, k.blocks_read - b.blocks_read, (SELECT sum(s) FROM spent)
		FROM pg_stat_lsm t, pg_stat_lsm k, before b WHERE t.relname = 't' AND k.relname = 't_pkey' AND b.relname = 't_pkey';
	SQL
}

front() {	# PORTS: seconds of the front server, which is the first, and of all behind it, for so many lookups
	local first=$1 n=$# i=0 port
	{
		echo "CREATE EXTENSION IF NOT EXISTS postgres_fdw; CREATE TABLE all_t (id bigint, n int, v text) PARTITION BY HASH (id);
		CREATE TABLE fdw (s float) PARTITION BY LIST (s);"
		for port in "$@"; do
			echo "CREATE SERVER s$i FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$sandbox', port '$port', dbname 'postgres');
			CREATE USER MAPPING FOR postgres SERVER s$i OPTIONS (user 'postgres');
			CREATE FOREIGN TABLE t$i PARTITION OF all_t FOR VALUES WITH (MODULUS $n, REMAINDER $i) SERVER s$i OPTIONS (table_name 't');
			CREATE FOREIGN TABLE fdw$i (s float) SERVER s$i OPTIONS (table_name 'fdw_seconds');"
			i=$((i + 1))
		done
		local behind="SELECT sum(s) FROM ($(for i in $(seq 0 $((n - 1))); do [ "$i" = 0 ] || echo "UNION ALL"; echo "SELECT s FROM fdw$i"; done)) x"
		# connections are there before
		echo "SELECT s AS front FROM seconds('self') s \\gset
		$behind; $behind \\g /dev/null
		DO \$\$ DECLARE x bigint; BEGIN FOR i IN 1..$n * 20 LOOP SELECT n INTO x FROM all_t WHERE id = i; END LOOP; END \$\$;
		SELECT seconds('self') AS front, ($behind) AS behind \\gset
		DO \$\$ DECLARE x bigint; k bigint; BEGIN FOR i IN 1..$lookups LOOP
			k := (i * 7919::bigint) % $rows; SELECT n INTO STRICT x FROM all_t WHERE id = k; END LOOP; END \$\$;
		SELECT seconds('self') - :front, ($behind) - :behind;"
	} | sql "$first" | tail -1
}

turn() {	# PORT: bytes flushed and compacted, and flushes, of table and key while each row is updated once, in random order
	sql "$1" <<-SQL
		DROP TABLE before;
		CREATE TABLE before AS SELECT relname, bytes_flushed, bytes_compacted, flushes FROM pg_stat_lsm;
		DO \$\$ DECLARE k bigint; BEGIN FOR i IN 0..$rows - 1 LOOP
			k := (i * 6700417::bigint) % $rows; UPDATE t SET n = n + 1 WHERE id = k;
			IF i % 1000 = 0 THEN COMMIT; END IF; END LOOP; END \$\$;
		SELECT lsm_flush('t'::regclass), lsm_flush('t_pkey'::regclass);
	SQL
	settle "$1"
	sql "$1" <<-SQL
		SELECT t.bytes_flushed - a.bytes_flushed, t.bytes_compacted - a.bytes_compacted, t.flushes - a.flushes,
			k.bytes_flushed - b.bytes_flushed, k.bytes_compacted - b.bytes_compacted, k.flushes - b.flushes
		FROM pg_stat_lsm t, before a, pg_stat_lsm k, before b
		WHERE t.relname = 't' AND a.relname = 't' AND k.relname = 't_pkey' AND b.relname = 't_pkey';
	SQL
}

for servers in 1 2 3; do
	ports=$(for i in $(seq "$servers"); do echo $((7730 + servers * 4 + i)); done)
	for port in $ports; do start_server "$sandbox/n$port" "$port"; done
	i=0
	for port in $ports; do load "$port" "$servers" "$i"; i=$((i + 1)); done
	i=0
	for port in $ports; do facts "$port" "$servers" "$i"; i=$((i + 1)); done | grep '|' >"$sandbox/facts"
	# shellcheck disable=SC2086
	front $ports >"$sandbox/front"
	for port in $ports; do turn "$port" | tail -1; done >"$sandbox/turn"
	python3 "$here/scale_facts.py" "$servers" "$unit" "$lookups" "$sandbox/facts" "$sandbox/front" "$sandbox/turn"
	for port in $ports; do stop_server "$sandbox/n$port"; done
done
exit 0
}
