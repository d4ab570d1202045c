-- INSERT ... ON CONFLICT with unique indexes of lsm_index
SET lsm.constraint_index = lsm;
SET default_table_access_method = lsm;
CREATE TABLE oc (id bigint PRIMARY KEY, u text UNIQUE, a int, b int, UNIQUE (a, b));
INSERT INTO oc VALUES (1, 'a', 1, 1), (2, 'b', 1, 2);
-- arbiters: none named, by column, by constraint
INSERT INTO oc VALUES (1, 'z', 9, 9) ON CONFLICT DO NOTHING;
INSERT INTO oc VALUES (9, 'z', 1, 1) ON CONFLICT DO NOTHING;
INSERT INTO oc VALUES (1, 'z', 9, 9) ON CONFLICT (id) DO NOTHING RETURNING *;
INSERT INTO oc VALUES (9, 'b', 9, 9) ON CONFLICT ON CONSTRAINT oc_u_key DO NOTHING RETURNING *;
INSERT INTO oc VALUES (9, 'z', 1, 2) ON CONFLICT (b, a) DO UPDATE SET u = excluded.u || oc.u RETURNING *;
INSERT INTO oc VALUES (1, 'y', 9, 9) ON CONFLICT (id) DO UPDATE SET u = excluded.u WHERE oc.a = 2 RETURNING *;
-- a conflict with an index that is not the arbiter
INSERT INTO oc VALUES (3, 'x', 1, 1) ON CONFLICT (id) DO NOTHING;
INSERT INTO oc VALUES (1, 'zb', 9, 9) ON CONFLICT (id) DO UPDATE SET u = excluded.u;
-- many rows; the same row twice
INSERT INTO oc SELECT i, 'u' || i, i, i FROM generate_series(1, 1000) i ON CONFLICT DO NOTHING;
INSERT INTO oc SELECT i, 'n' || i, -i, i FROM generate_series(500, 1500) i ON CONFLICT (id) DO UPDATE SET u = excluded.u;
SELECT count(*), count(*) FILTER (WHERE u LIKE 'n%'), count(*) FILTER (WHERE a < 0), max(id) FROM oc;
INSERT INTO oc VALUES (5000, 'p', 5000, 1), (5000, 'q', 5000, 2) ON CONFLICT (id) DO NOTHING;
INSERT INTO oc VALUES (5001, 'r', 5001, 1), (5001, 's', 5001, 2) ON CONFLICT (id) DO UPDATE SET u = excluded.u;
SELECT id, u FROM oc WHERE id >= 5000;
-- after flush
SELECT lsm_flush('oc'), lsm_flush('oc_pkey');
INSERT INTO oc VALUES (1, 'f', 0, 0) ON CONFLICT (id) DO UPDATE SET u = excluded.u RETURNING *;
-- in a CTE, in a function, prepared; deleted keys are free; EXPLAIN
WITH i AS (INSERT INTO oc VALUES (1, 'w', 0, 0) ON CONFLICT (id) DO UPDATE SET u = excluded.u RETURNING *) SELECT * FROM i;
CREATE FUNCTION oc_put(bigint, text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text;
BEGIN
	INSERT INTO oc (id, u) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET u = excluded.u || '/' || oc.u RETURNING u INTO r;
	RETURN r;
END $$;
SELECT oc_put(1, 'v'), oc_put(1, 't'), oc_put(7000, 'new'), oc_put(7000, 'old');
PREPARE p AS INSERT INTO oc (id, u) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING;
EXECUTE p (7000, 'p');
EXECUTE p (7001, 'p2');
DELETE FROM oc WHERE id = 7000;
EXECUTE p (7000, 'p3');
SELECT id, u FROM oc WHERE id >= 7000 ORDER BY id;
EXPLAIN (COSTS OFF) INSERT INTO oc (id) VALUES (1) ON CONFLICT (id) DO NOTHING;
SELECT * FROM lsm_verify('oc');
DROP TABLE oc;

-- expression, predicate, several arbiters, INCLUDE, NULLs, numeric, deferrable
CREATE TABLE oc (k text, n numeric, d int UNIQUE DEFERRABLE, x int);
CREATE UNIQUE INDEX oc_lower ON oc USING lsm (lower(k));
CREATE UNIQUE INDEX oc_part ON oc USING lsm (k, n) INCLUDE (x) WHERE n > 0;
INSERT INTO oc VALUES ('Ab', 1.0, 1, 1);
INSERT INTO oc VALUES ('aB', 3, 3, 3) ON CONFLICT (lower(k)) DO UPDATE SET x = oc.x + excluded.x RETURNING *;
INSERT INTO oc VALUES ('Ab', 1.00, 3, 3) ON CONFLICT (k, n) WHERE n > 0 DO UPDATE SET x = oc.x + excluded.x RETURNING *;
INSERT INTO oc VALUES ('Ab', 1.00, 3, 3) ON CONFLICT (k, n) DO NOTHING;
INSERT INTO oc VALUES ('Q', 1.00, 1, 3) ON CONFLICT (d) DO NOTHING;
INSERT INTO oc VALUES ('Q', 1.00, 1, 3) ON CONFLICT DO NOTHING;
INSERT INTO oc VALUES (NULL, NULL, 5, 5) ON CONFLICT (lower(k)) DO NOTHING;
INSERT INTO oc VALUES (NULL, NULL, 6, 6) ON CONFLICT (lower(k)) DO NOTHING;
CREATE UNIQUE INDEX oc_x ON oc USING lsm (x, n) NULLS NOT DISTINCT;
INSERT INTO oc VALUES ('R', NULL, 7, 6) ON CONFLICT (x, n) DO UPDATE SET k = excluded.k RETURNING *;
INSERT INTO oc VALUES ('S', NULL, 8, NULL) ON CONFLICT (x, n) DO NOTHING;
INSERT INTO oc VALUES ('T', NULL, 9, NULL) ON CONFLICT (x, n) DO UPDATE SET k = 'T!' RETURNING *;
SELECT * FROM oc ORDER BY d;
DROP TABLE oc;

-- btree and lsm_index side by side; a heap table
SET lsm.constraint_index = btree;
CREATE TABLE oc (id int PRIMARY KEY, v int);
SET lsm.constraint_index = lsm;
CREATE UNIQUE INDEX ON oc USING lsm (v);
INSERT INTO oc VALUES (1, 1), (2, 2);
INSERT INTO oc VALUES (1, 5), (5, 2), (6, 6) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO oc VALUES (7, 6) ON CONFLICT (v) DO UPDATE SET id = excluded.id RETURNING *;
INSERT INTO oc VALUES (7, 9) ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING *;
DROP TABLE oc;
CREATE TABLE oc (id int, v int) USING heap;
CREATE UNIQUE INDEX oc_id ON oc USING lsm (id);
INSERT INTO oc VALUES (1, 1), (2, 2);
INSERT INTO oc VALUES (1, 5), (3, 2), (NULL, 1), (NULL, 2) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO oc VALUES (1, 5), (4, 2) ON CONFLICT (id) DO UPDATE SET v = excluded.v + oc.v RETURNING *;
DROP INDEX oc_id;
TRUNCATE oc;
CREATE UNIQUE INDEX oc_v ON oc USING lsm (id, v) NULLS NOT DISTINCT;
INSERT INTO oc VALUES (1, 1), (1, NULL), (NULL, 1), (NULL, NULL);
INSERT INTO oc VALUES (1, 1), (1, NULL), (NULL, 1), (NULL, NULL), (2, NULL), (2, NULL) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO oc VALUES (1, 1), (1, NULL), (NULL, 1), (NULL, NULL), (3, NULL)
	ON CONFLICT (id, v) DO UPDATE SET id = coalesce(oc.id, 0) + 10, v = coalesce(oc.v, 0) + 7 RETURNING *;
DELETE FROM oc WHERE id = 2 OR id = 3;
VACUUM oc;
INSERT INTO oc VALUES (2, NULL), (4, NULL), (2, NULL) ON CONFLICT DO NOTHING RETURNING *;
SELECT * FROM oc ORDER BY id, v;
DROP TABLE oc;

-- partitions: keys of their own, other columns, subpartitions, other access methods
CREATE TABLE op (id int, x text, r int, PRIMARY KEY (id, x)) PARTITION BY LIST (id);
CREATE TABLE op1 PARTITION OF op FOR VALUES IN (1);
CREATE TABLE op2 (r int, gone int, x text NOT NULL, id int NOT NULL);
ALTER TABLE op2 DROP COLUMN gone;
ALTER TABLE op ATTACH PARTITION op2 FOR VALUES IN (2);
CREATE TABLE op3 PARTITION OF op FOR VALUES IN (3) PARTITION BY RANGE (x);
CREATE TABLE op3a PARTITION OF op3 FOR VALUES FROM ('a') TO ('m');
CREATE TABLE op3m PARTITION OF op3 FOR VALUES FROM ('m') TO ('z') USING heap;
CREATE UNIQUE INDEX op1_r ON op1 USING lsm (r);
CREATE UNIQUE INDEX op2_r ON op2 USING lsm (r);
CREATE UNIQUE INDEX op3m_r ON op3m USING lsm (r);
INSERT INTO op VALUES (1, 'a', 1), (2, 'a', 1), (3, 'a', 1), (3, 'n', 1);
INSERT INTO op VALUES (1, 'b', 1), (2, 'b', 1), (3, 'b', 1), (3, 'o', 1) ON CONFLICT DO NOTHING RETURNING tableoid::regclass, *;
INSERT INTO op SELECT id, x, r + 10 FROM (SELECT *, random() AS junk FROM op) s ORDER BY id, x, junk
	ON CONFLICT (id, x) DO UPDATE SET r = excluded.r + op.r WHERE excluded.id < 3 OR op.x = 'n'
	RETURNING tableoid::regclass, *, (SELECT count(*) FROM op o WHERE o.id = op.id);
INSERT INTO op VALUES (1, 'c', 12) ON CONFLICT (id, x) DO NOTHING;
INSERT INTO op VALUES (2, 'a', 12) ON CONFLICT ON CONSTRAINT op_pkey DO UPDATE SET r = op.r + 1 RETURNING *;
INSERT INTO op VALUES (2, 'a', 12) ON CONFLICT (id, x) DO UPDATE SET id = 1;
INSERT INTO op VALUES (4, 'a', 12) ON CONFLICT DO NOTHING;
WITH i AS (INSERT INTO op VALUES (2, 'a', 1) ON CONFLICT (id, x) DO UPDATE SET r = 0 RETURNING *),
	j AS (INSERT INTO op VALUES (1, 'a', 1) ON CONFLICT (id, x) DO UPDATE SET r = 0 RETURNING *)
SELECT * FROM i UNION ALL SELECT * FROM j;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) INSERT INTO op VALUES (1, 'a', 7), (2, 'a', 7) ON CONFLICT DO NOTHING \g /dev/null
-- a row trigger, a transition table, another statement inside
CREATE FUNCTION op_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF new.id = 1 THEN
		INSERT INTO op VALUES (2, new.x, new.r) ON CONFLICT (id, x) DO UPDATE SET r = excluded.r;
	END IF;
	RETURN new;
END $$;
CREATE FUNCTION op_stmt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '%', (SELECT array_agg(t ORDER BY t) FROM new_rows t);
	RETURN NULL;
END $$;
CREATE TRIGGER op_row BEFORE INSERT ON op FOR EACH ROW EXECUTE FUNCTION op_row();
CREATE TRIGGER op_ins AFTER INSERT ON op REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION op_stmt();
CREATE TRIGGER op_upd AFTER UPDATE ON op REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION op_stmt();
INSERT INTO op VALUES (1, 'a', 70), (1, 'q', 71), (3, 'q', 72), (2, 'z', 73)
	ON CONFLICT (id, x) DO UPDATE SET r = excluded.r + 1000;
SELECT tableoid::regclass, * FROM op ORDER BY 2, 3;
-- an error inside leaves nothing behind
INSERT INTO op VALUES (1, 'u', 1 / (SELECT 0)) ON CONFLICT DO NOTHING;
INSERT INTO op VALUES (2, 'z', 1) ON CONFLICT DO NOTHING;
DROP TABLE op;
-- operator classes: the parser knows btree's
CREATE TABLE oo (id int PRIMARY KEY, t text COLLATE "C", c bpchar(5), n int) USING lsm;
CREATE UNIQUE INDEX oo_t ON oo USING lsm (t text_pattern_ops);
CREATE UNIQUE INDEX oo_c ON oo USING lsm (c bpchar_pattern_ops, n) WHERE n < 10;
CREATE UNIQUE INDEX oo_e ON oo USING lsm (lower(t) text_pattern_ops);
INSERT INTO oo VALUES (1, 'a', 'c', 1);
INSERT INTO oo VALUES (2, 'a', 'd', 2) ON CONFLICT (t text_pattern_ops) DO UPDATE SET n = oo.n + 1 RETURNING *;
INSERT INTO oo VALUES (2, 'b', 'c', 2) ON CONFLICT (n, c bpchar_pattern_ops) WHERE n < 10 DO UPDATE SET n = 5 RETURNING *;
INSERT INTO oo VALUES (3, 'A', 'e', 1) ON CONFLICT (lower(t) text_pattern_ops) DO NOTHING RETURNING *;
INSERT INTO oo VALUES (1, 'z', 'z', 1) ON CONFLICT (id int4_ops) DO UPDATE SET n = -1 RETURNING *;
WITH w AS (INSERT INTO oo VALUES (1, 'z', 'z', 1) ON CONFLICT (id int4_ops) DO NOTHING RETURNING *) SELECT count(*) FROM w;
EXPLAIN (COSTS OFF) INSERT INTO oo (t) VALUES ('a') ON CONFLICT (t COLLATE "C" text_pattern_ops) DO NOTHING;
INSERT INTO oo VALUES (1, 'z', 'z', 1) ON CONFLICT (t text_ops) DO NOTHING;
INSERT INTO oo VALUES (1, 'z', 'z', 1) ON CONFLICT (id int8_ops) DO NOTHING;
-- in a rule, which is shown as it was written
CREATE VIEW oo_v AS SELECT t, n FROM oo;
CREATE RULE oo_r AS ON INSERT TO oo_v DO INSTEAD
	INSERT INTO oo VALUES (10, new.t, new.t, new.n) ON CONFLICT (t text_pattern_ops) DO UPDATE SET n = excluded.n RETURNING t, n;
INSERT INTO oo_v VALUES ('a', 7) RETURNING *;
SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE rulename = 'oo_r';
-- a btree index that matches is the one that is meant
CREATE UNIQUE INDEX oo_b ON oo USING btree (t text_pattern_ops);
EXPLAIN (COSTS OFF) INSERT INTO oo (t) VALUES ('a') ON CONFLICT (t text_pattern_ops) DO NOTHING;
DROP VIEW oo_v;
DROP TABLE oo;
-- one that has some of the columns, or another expression, is not
CREATE TABLE om (id int, t text COLLATE "C", n int, m int) USING lsm;
CREATE UNIQUE INDEX om_l ON om USING lsm (t text_pattern_ops, n);
CREATE UNIQUE INDEX om_b ON om USING btree (t text_pattern_ops, m);
CREATE UNIQUE INDEX om_id ON om USING btree (id);
CREATE UNIQUE INDEX om_it ON om USING lsm (id, t text_pattern_ops);
EXPLAIN (COSTS OFF) INSERT INTO om VALUES (1, 'x', 1, 1) ON CONFLICT (t text_pattern_ops, n) DO NOTHING;
EXPLAIN (COSTS OFF) INSERT INTO om VALUES (1, 'x', 1, 1) ON CONFLICT (id int4_ops, t text_pattern_ops) DO NOTHING;
EXPLAIN (COSTS OFF) INSERT INTO om VALUES (1, 'x', 1, 1) ON CONFLICT (t text_pattern_ops, m) DO NOTHING;
EXPLAIN (COSTS OFF) INSERT INTO om VALUES (1, 'x', 1, 1) ON CONFLICT (id int4_ops) DO NOTHING;
DROP TABLE om;
-- rows that an index-only scan returns, as a session's first statement: heap is the oracle
RESET default_table_access_method;
CREATE TABLE os (id int PRIMARY KEY, n int) USING lsm;
INSERT INTO os SELECT i, i % 10 FROM generate_series(1, 3000) i;
CREATE INDEX os_n ON os USING lsm (n, id);
VACUUM (ANALYZE) os;
CREATE TABLE oi_l (id int, n int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE oi_l1 PARTITION OF oi_l FOR VALUES FROM (0) TO (20) USING lsm;
CREATE TABLE oi_l2 (n int, id int NOT NULL) USING lsm;
ALTER TABLE oi_l ATTACH PARTITION oi_l2 FOR VALUES FROM (20) TO (100);
CREATE TABLE oi_l3 PARTITION OF oi_l FOR VALUES FROM (100) TO (1500) USING lsm;
CREATE TABLE oi_l4 PARTITION OF oi_l FOR VALUES FROM (1500) TO (10000) USING lsm;
CREATE TABLE oi_p (id int PRIMARY KEY, n int) USING lsm;
CREATE TABLE oi_h (id int PRIMARY KEY, n int) USING heap;
CREATE TABLE oi_hp (id int PRIMARY KEY, n int) USING heap;
INSERT INTO oi_l SELECT i, -i FROM generate_series(1, 40, 3) i;
INSERT INTO oi_p SELECT i, -i FROM generate_series(1, 40, 3) i;
INSERT INTO oi_h SELECT i, -i FROM generate_series(1, 40, 3) i;
INSERT INTO oi_hp SELECT i, -i FROM generate_series(1, 40, 3) i;
ALTER DATABASE :DBNAME SET enable_seqscan = off;
ALTER DATABASE :DBNAME SET enable_bitmapscan = off;
\c -
INSERT INTO oi_l (id) SELECT id FROM os WHERE id < 2500 ON CONFLICT (id) DO NOTHING;
EXPLAIN (COSTS OFF) INSERT INTO oi_l (id) SELECT id FROM os WHERE id < 2500 ON CONFLICT (id) DO NOTHING;
INSERT INTO oi_p (id) SELECT id FROM os WHERE id < 2500 ON CONFLICT (id) DO NOTHING;
INSERT INTO oi_h (id) SELECT id FROM os WHERE id < 2500 ON CONFLICT (id) DO NOTHING;
INSERT INTO oi_hp (id) SELECT id FROM os WHERE id < 2500 ON CONFLICT (id) DO NOTHING;
\c -
INSERT INTO oi_l SELECT id, n FROM os WHERE n < 3 ON CONFLICT (id) DO UPDATE SET n = excluded.n + 1000;
INSERT INTO oi_p SELECT id, n FROM os WHERE n < 3 ON CONFLICT (id) DO UPDATE SET n = excluded.n + 1000;
INSERT INTO oi_h SELECT id, n FROM os WHERE n < 3 ON CONFLICT (id) DO UPDATE SET n = excluded.n + 1000;
INSERT INTO oi_hp SELECT id, n FROM os WHERE n < 3 ON CONFLICT (id) DO UPDATE SET n = excluded.n + 1000;
\c -
-- several nodes, RETURNING, a filter, sub-selects, in WITH, in a function, ended early
WITH l AS (INSERT INTO oi_l SELECT id, n FROM os WHERE n = 4 AND id % 3 > 0 ON CONFLICT (id) DO UPDATE SET n = excluded.n * (SELECT count(id) FROM os WHERE id > 5) RETURNING *),
	p AS (INSERT INTO oi_p SELECT id, n FROM os WHERE n = 4 AND id % 3 > 0 ON CONFLICT (id) DO UPDATE SET n = excluded.n * (SELECT count(id) FROM os WHERE id > 5) RETURNING *),
	h AS (INSERT INTO oi_h SELECT id, n FROM os WHERE n = 4 AND id % 3 > 0 ON CONFLICT (id) DO UPDATE SET n = excluded.n * (SELECT count(id) FROM os WHERE id > 5) RETURNING *),
	hp AS (INSERT INTO oi_hp SELECT id, n FROM os WHERE n = 4 AND id % 3 > 0 ON CONFLICT (id) DO UPDATE SET n = excluded.n * (SELECT count(id) FROM os WHERE id > 5) RETURNING *)
SELECT count(*), count(l), count(p), count(h) FROM hp FULL JOIN h USING (id, n) FULL JOIN l USING (id, n) FULL JOIN p USING (id, n);
INSERT INTO oi_l SELECT id, (SELECT max(o.id) FROM os o WHERE o.n = os.n) FROM os WHERE id IN (SELECT id FROM os WHERE n > 7 AND id < 40) ON CONFLICT (id) DO UPDATE SET n = excluded.n RETURNING *;
INSERT INTO oi_h SELECT id, (SELECT max(o.id) FROM os o WHERE o.n = os.n) FROM os WHERE id IN (SELECT id FROM os WHERE n > 7 AND id < 40) ON CONFLICT (id) DO UPDATE SET n = excluded.n RETURNING *;
INSERT INTO oi_l (id) SELECT id FROM os ORDER BY id LIMIT 7 ON CONFLICT DO NOTHING;
INSERT INTO oi_l (id) SELECT id FROM os WHERE id = ANY (ARRAY[3, 9000]) ON CONFLICT (id) DO UPDATE SET n = 5 RETURNING *;
INSERT INTO oi_h (id) SELECT id FROM os WHERE id = ANY (ARRAY[3, 9000]) ON CONFLICT (id) DO UPDATE SET n = 5 RETURNING *;
(SELECT * FROM oi_l EXCEPT SELECT * FROM oi_h) UNION ALL (SELECT * FROM oi_h EXCEPT SELECT * FROM oi_l);
(SELECT * FROM oi_p EXCEPT SELECT * FROM oi_hp) UNION ALL (SELECT * FROM oi_hp EXCEPT SELECT * FROM oi_p);
ALTER DATABASE :DBNAME RESET enable_seqscan;
ALTER DATABASE :DBNAME RESET enable_bitmapscan;
\c -
DROP TABLE os, oi_l, oi_p, oi_h, oi_hp;
DROP FUNCTION op_row, op_stmt, oc_put;
