# rows that are ended and cannot go yet: the first of a queue, deleted, 4,000 times in one transaction, and beside an old snapshot
bench_start
n=$(scaled 4000)
say "queue of $((10 * n)) rows, the first $n deleted"
for am in heap lsm; do
	sql heap -c "SET lsm.default_index = $([ $am = lsm ] && echo lsm || echo btree)" \
		-c "CREATE TABLE q_$am (id int PRIMARY KEY, p text) USING $am" \
		-c "CREATE TABLE no_$am (d int, o int, p text, PRIMARY KEY (d, o)) USING $am" \
		-c "INSERT INTO q_$am SELECT i, md5(i::text) FROM generate_series(1, 10 * $n) i" \
		-c "INSERT INTO no_$am SELECT i % 10, i, md5(i::text) FROM generate_series(1, 10 * $n) i" \
		-c "VACUUM ANALYZE q_$am" -c "VACUUM ANALYZE no_$am"
	for kind in "plain:SELECT id INTO first FROM q_$am ORDER BY id LIMIT 1" \
		"skip:SELECT id INTO first FROM q_$am ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED" \
		"min:SELECT min(id) INTO first FROM q_$am"; do
		sql heap -c "CREATE PROCEDURE ${kind%%:*}_$am() LANGUAGE plpgsql AS \$\$
			DECLARE first int;
			BEGIN
				FOR i IN 1 .. $n LOOP
					${kind#*:};
					DELETE FROM q_$am WHERE id = first;
				END LOOP;
			END \$\$"
	done
	sql heap -c "CREATE PROCEDURE orders_$am() LANGUAGE plpgsql AS \$\$
		DECLARE first int;
		BEGIN
			FOR i IN 1 .. $n / 10 LOOP
				FOR di IN 0 .. 9 LOOP
					SELECT o INTO first FROM no_$am WHERE d = di ORDER BY o LIMIT 1 FOR UPDATE;
					DELETE FROM no_$am WHERE d = di AND o = first;
				END LOOP;
				COMMIT;
			END LOOP;
		END \$\$"
done
plans="SET enable_seqscan = off; SET enable_bitmapscan = off; SET synchronous_commit = off;"
for kind in plain skip min; do
	interleave_sql "the first row, deleted, $kind" "$n" us/row 0.83x lsm heap heap "$plans" \
		"BEGIN; CALL ${kind}_lsm(); ROLLBACK;" "BEGIN; CALL ${kind}_heap(); ROLLBACK;"
done
# what earlier rounds have deleted stays: each round passes over more
session_open
ask session "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM q_heap WHERE id < 0;"
rounds=7
interleave_sql "oldest orders, beside an old snapshot" "$n" us/row "" lsm heap heap "$plans" \
	"CALL orders_lsm();" "CALL orders_heap();"
pipe_close session
