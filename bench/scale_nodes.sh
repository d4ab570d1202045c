#!/bin/bash
# bench/scale_nodes.sh: what bench/scale_model.py reckons with, measured on 1, 2 and 3 servers of this machine
# that share ROWS rows by hash.  Memtables and files are small (4 MB), so that there are levels.
#
#   ROWS=2000000   LOOKUPS=20000   per number of servers
#
# Prints a row for each number of servers, all of them together: bytes and counts, which are the same on a busy machine.
# Rates of lookups are not shown: the servers share processors.  A lookup goes to one server, by its key.
set -euo pipefail
{
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../src/test/lib.sh"
rows=${ROWS:-2000000}
lookups=${LOOKUPS:-20000}
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

load() {	# PORT SERVERS NUMBER: its rows, in an order that is not that of their keys
	sql "$1" <<-SQL
		CREATE EXTENSION lsmam;
		CREATE TABLE t (id bigint PRIMARY KEY, n int, v text) USING lsm;
		SELECT pg_current_wal_insert_lsn() AS begin \\gset
		INSERT INTO t SELECT id, id, md5(id::text) FROM (SELECT g::bigint * 7368787 % $rows AS id FROM generate_series(0, $rows - 1) g) x
		WHERE (hashint8(id) & 2147483647) % $2 = $3;
		SELECT lsm_flush('t');
		CREATE TABLE facts AS SELECT pg_current_wal_insert_lsn() - :'begin'::pg_lsn AS wal;
	SQL
	# until compactions have nothing to do
	until [ "$(sql "$1" <<<"SELECT count(*) FROM pg_stat_lsm_progress")" = 0 ] && sleep 2 &&
		[ "$(sql "$1" <<<"SELECT count(*) FROM pg_stat_lsm_progress")" = 0 ]; do sleep 1; done
}

facts() {	# PORT SERVERS NUMBER: rows, bytes of table, key, WAL; flushed, compacted of table, key; files, filters; probes, blocks read by lookups
	sql "$1" <<-SQL
		CREATE TABLE before AS SELECT relname, filter_probes, blocks_read FROM pg_stat_lsm;
		DO \$\$ DECLARE x bigint; k bigint; BEGIN FOR i IN 1..$lookups LOOP
			k := (i * 7919::bigint) % $rows;
			CONTINUE WHEN (hashint8(k) & 2147483647) % $2 <> $3;
			SELECT n INTO STRICT x FROM t WHERE id = k; END LOOP; END \$\$;
		SELECT (SELECT count(*) FROM t), lsm_relation_size('t'), lsm_relation_size('t_pkey'), (SELECT wal FROM facts),
			t.bytes_flushed, t.bytes_compacted, k.bytes_flushed, k.bytes_compacted,
			(SELECT count(*) FROM lsm_files('t')) + (SELECT count(*) FROM lsm_files('t_pkey')),
			(SELECT sum(filter_bytes) FROM lsm_files('t')) + (SELECT sum(filter_bytes) FROM lsm_files('t_pkey')),
			k.filter_probes - b.filter_probes, k.blocks_read - b.blocks_read
		FROM pg_stat_lsm t, pg_stat_lsm k, before b WHERE t.relname = 't' AND k.relname = 't_pkey' AND b.relname = 't_pkey';
	SQL
}

for servers in 1 2 3; do
	for i in $(seq "$servers"); do
		start_server "$sandbox/n$servers$i" $((7730 + servers * 4 + i))
		load $((7730 + servers * 4 + i)) "$servers" $((i - 1))
	done
	for i in $(seq "$servers"); do
		facts $((7730 + servers * 4 + i)) "$servers" $((i - 1))
	done >"$sandbox/facts"
	python3 - "$servers" "$unit" "$lookups" "$here" "$sandbox/facts" <<-'PY'
		import sys
		servers, unit, lookups = map(int, sys.argv[1:4])
		sys.path.insert(0, sys.argv[4])
		sys.dont_write_bytecode = True
		import scale_model as model
		model.MEMTABLE_BYTES = model.FILE_BYTES = unit * 2**20
		nodes = [[float(x) for x in line.split("|")] for line in open(sys.argv[5])]
		rows, table, key, wal, tf, tc, kf, kc, files, filters, probes, blocks = map(sum, zip(*nodes))
		if servers == 1:
		    print("servers|rows|table, B/row|key, B/row|WAL, B/row|written per byte, table|model|key|model|files|model|bits per key|filters per lookup|blocks of the key per lookup")
		print("|".join([str(servers), "%d" % rows] + ["%.1f" % x for x in (
		    table / rows, key / rows, wal / rows, (tf + tc) / tf, model.amplification(table / servers),
		    (kf + kc) / kf, model.amplification(key / servers))] + ["%d" % files, "%d" % ((table + key) / model.FILE_BYTES)] +
		    ["%.1f" % (4 * filters / rows), "%.2f" % (probes / lookups), "%.2f" % (blocks / lookups)]))
	PY
	for i in $(seq "$servers"); do stop_server "$sandbox/n$servers$i"; done
done
exit 0
}
