# a queue: fetch the least of 1 M rows, delete it, add one at the end; 4 clients, autovacuum on, in turns of 20 s
#
# BENCH_ROUNDS: turns of each (6).  BENCH_SECONDS: of a turn (20).
bench_start "
autovacuum = on
autovacuum_naptime = 10s
synchronous_commit = off
max_wal_size = 4GB
"
rounds=${BENCH_ROUNDS:-6}
turn=${BENCH_SECONDS:-20}
n=$(scaled 1000000)
say "queue of $n rows, $((rounds * turn)) s of each"
cat >"$sandbox/queue.sql" <<'SQL'
DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
INSERT INTO q (payload) VALUES ('what is to be done');
SQL
chmod a+r "$sandbox/queue.sql"
for am in heap lsm; do
	sql $am -c "SET lsm.default_index = $([ $am = lsm ] && echo lsm || echo btree)" \
		-c "CREATE TABLE q (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload text)" \
		-c "INSERT INTO q (payload) SELECT md5(i::text) FROM generate_series(1, $n) i" -c "VACUUM ANALYZE q"
done
one() { tps "$1" -n -M prepared -c 4 -j 2 -T "$turn" -f "$sandbox/queue.sql"; }
interleave "queue of $n rows, 4 clients" higher tps 1.0x lsm heap one

# rows stay, with another status
cat >"$sandbox/jobs.sql" <<'SQL'
UPDATE jobs SET status = 'done' WHERE id = (SELECT id FROM jobs WHERE status = 'ready' ORDER BY run_at, id LIMIT 1
	FOR UPDATE SKIP LOCKED);
INSERT INTO jobs (status, run_at) VALUES ('ready', now());
SQL
chmod a+r "$sandbox/jobs.sql"
for am in heap lsm; do
	sql $am -c "SET lsm.default_index = $([ $am = lsm ] && echo lsm || echo btree)" -c "DROP TABLE q" \
		-c "CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, status text, run_at timestamptz)" \
		-c "CREATE INDEX jobs_next ON jobs (status, run_at, id)" \
		-c "INSERT INTO jobs (status, run_at) SELECT 'ready', now() + i * interval '1 ms' FROM generate_series(1, $n) i" \
		-c "VACUUM ANALYZE jobs"
done
one() { tps "$1" -n -M prepared -c 4 -j 2 -T "$turn" -f "$sandbox/jobs.sql"; }
interleave "jobs that stay, $n at first, 4 clients" higher tps 1.0x lsm heap one
