\set VERBOSITY terse
SET client_min_messages = warning;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_indexonlyscan = off;
SET plan_cache_mode = force_generic_plan;
CREATE COLLATION nd (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
\echo == system columns
CREATE TABLE s1 (id int PRIMARY KEY, v int, pad text);
INSERT INTO s1 SELECT g, g, 'p'||g FROM generate_series(1,200) g;
SELECT tableoid::regclass, (ctid IS NOT NULL), xmin::text<>'0', xmax, cmin, id, v FROM s1 WHERE id=5;
SELECT tableoid::regclass, (ctid IS NOT NULL), xmin::text<>'0', xmax, cmin, id, v FROM s1 WHERE id=5;
SELECT tableoid::regclass, (ctid IS NOT NULL), xmin::text<>'0', xmax, cmin, id, v FROM s1 WHERE id=5;
\echo == ctid of hit is that of row
SELECT (SELECT ctid FROM s1 WHERE id=g)=(SELECT ctid FROM (SELECT * FROM s1 OFFSET 0) s WHERE s.id=g) ok, count(*) FROM generate_series(1,200) g GROUP BY 1;
SELECT count(*) FROM generate_series(1,200) g JOIN LATERAL (SELECT ctid c FROM s1 WHERE id=g OFFSET 0) x ON TRUE JOIN s1 ON s1.ctid=x.c AND s1.id=g;
\echo == cross type
PREPARE p2(int2) AS SELECT id,v FROM s1 WHERE id=$1;
PREPARE p8(int8) AS SELECT id,v FROM s1 WHERE id=$1;
EXECUTE p2(7::int2); EXECUTE p8(7); EXECUTE p8(7); EXECUTE p2(7::int2); EXECUTE p8(4294967303); EXECUTE p8(4294967303); EXECUTE p8(-9223372036854775801);
EXECUTE p8(NULL);
SELECT id FROM s1 WHERE id=7 AND id=8;
SELECT id FROM s1 WHERE id=7 AND id>6;
SELECT id FROM s1 WHERE id=7 AND id>7;
SELECT id FROM s1 WHERE id>7 AND id=7;
SELECT id FROM s1 WHERE id=7 AND id=7::int8;
SELECT id FROM s1 WHERE id=7 AND id IN (7,8);
SELECT id FROM s1 WHERE id=any(ARRAY[7,7,NULL,8,7]) ORDER BY id;
SELECT id FROM s1 WHERE id IS NOT NULL AND id=9;
SELECT id FROM s1 WHERE id = 9 AND id IS NULL;
SELECT id FROM s1 WHERE id = 9 ORDER BY id DESC;
\echo == fast defaults, dropped columns
CREATE TABLE s2 (dropme int, x text, y int);
INSERT INTO s2 VALUES (1,'one',1);
ALTER TABLE s2 ADD k numeric DEFAULT 5.50;
ALTER TABLE s2 ADD CONSTRAINT s2k UNIQUE (k);
SELECT * FROM s2 WHERE k=5.5; SELECT * FROM s2 WHERE k=5.5;
ALTER TABLE s2 DROP dropme;
SELECT * FROM s2 WHERE k=5.5; SELECT * FROM s2 WHERE k=5.5;
ALTER TABLE s2 ADD z int DEFAULT 9;
SELECT * FROM s2 WHERE k=5.5; 
INSERT INTO s2 VALUES('two',2,6,10);
SELECT * FROM s2 WHERE k=6; SELECT * FROM s2 WHERE k=6.000;
ALTER TABLE s2 ALTER z SET DEFAULT 11;
UPDATE s2 SET k=5.500 WHERE k=5.5; SELECT * FROM s2 WHERE k=5.5; SELECT * FROM s2 WHERE k=5.5;
ALTER TABLE s2 DROP x; 
SELECT * FROM s2 WHERE k=5.5; SELECT k FROM s2 WHERE k=5.5;
\echo == generated
CREATE TABLE s3 (a int, g int GENERATED ALWAYS AS (a*2) STORED UNIQUE, i int GENERATED ALWAYS AS IDENTITY UNIQUE);
INSERT INTO s3(a) SELECT generate_series(1,50);
SELECT * FROM s3 WHERE g=10; SELECT * FROM s3 WHERE g=10; UPDATE s3 SET a=100 WHERE g=10; SELECT * FROM s3 WHERE g=10; SELECT * FROM s3 WHERE g=200; SELECT * FROM s3 WHERE i=5; SELECT * FROM s3 WHERE i=5;
\echo == float4 = float8, name = text, date = timestamp
CREATE TABLE s4 (f float4 UNIQUE, n name UNIQUE, d date UNIQUE, ts timestamp UNIQUE, o oid UNIQUE, rc regclass UNIQUE);
INSERT INTO s4 VALUES (0.1, 'abc', '2020-01-01','2020-01-01',1259,'pg_class'), (-0.0,'',  '2020-01-02','2020-01-02',1249,'pg_attribute');
SELECT f FROM s4 WHERE f=0.1::float8; SELECT f FROM s4 WHERE f=0.1::float4; SELECT f FROM s4 WHERE f=0.1::float4;SELECT f FROM s4 WHERE f=0.1::float8; SELECT f FROM s4 WHERE f=0::float8;SELECT f FROM s4 WHERE f=(-0.0)::float8;
SELECT n FROM s4 WHERE n='abc'::text; SELECT n FROM s4 WHERE n='abc'::name; SELECT n FROM s4 WHERE n='abc'::text; SELECT n FROM s4 WHERE n='abc  '::text; 
SELECT d FROM s4 WHERE d='2020-01-01'::timestamp; SELECT d FROM s4 WHERE d='2020-01-01'::date; SELECT d FROM s4 WHERE d='2020-01-01 00:00:01'::timestamp; SELECT ts FROM s4 WHERE ts='2020-01-01'::date; SELECT ts FROM s4 WHERE ts='2020-01-01'::date; SELECT ts FROM s4 WHERE ts='2020-01-01 00:00'::timestamptz;
SELECT o FROM s4 WHERE o=1259; SELECT rc FROM s4 WHERE rc='pg_class'::regclass; SELECT rc FROM s4 WHERE rc=1259; SELECT rc FROM s4 WHERE rc=1259;
\echo == index-only scans, spelled
SET enable_indexonlyscan=ON;
CREATE TABLE s5 (k numeric UNIQUE, t text COLLATE nd UNIQUE, c char(8) UNIQUE, f float8 UNIQUE, v int);
INSERT INTO s5 VALUES (1.0,'Abc','x',0,1),(2.50,'Def','y ',1,1);
VACUUM s5;
SELECT k FROM s5 WHERE k=1; SELECT k FROM s5 WHERE k=1; SELECT t FROM s5 WHERE t='ABC'; SELECT t FROM s5 WHERE t='abc';
UPDATE s5 SET k=1.00, t='aBC', f='-0', v=2 WHERE k=1;
SELECT k FROM s5 WHERE k=1; SELECT k FROM s5 WHERE k=1; SELECT t FROM s5 WHERE t='ABC'; SELECT t FROM s5 WHERE t='ABC'; SELECT f FROM s5 WHERE f=0; SELECT f FROM s5 WHERE f=0;
BEGIN; UPDATE s5 SET k=1.000, t='abC', f='0' WHERE k=1; SELECT k FROM s5 WHERE k=1;SELECT t FROM s5 WHERE t='ABC';SELECT f FROM s5 WHERE f=0; ROLLBACK;
SELECT k FROM s5 WHERE k=1; SELECT t FROM s5 WHERE t='ABC'; SELECT f FROM s5 WHERE f=0; 
VACUUM s5;
SELECT k FROM s5 WHERE k=1; SELECT t FROM s5 WHERE t='ABC'; SELECT f FROM s5 WHERE f=0; SELECT *,length(c),octet_length(c) FROM s5 WHERE c='x';
SET enable_indexonlyscan=off;
\echo == A->B->A
CREATE TABLE s6 (id int PRIMARY KEY, v int);
INSERT INTO s6 VALUES (1,0);
SELECT * FROM s6 WHERE id=1;SELECT * FROM s6 WHERE id=1;
DO $$BEGIN FOR i IN 1..300 LOOP UPDATE s6 SET id=3-id, v=v+1; PERFORM * FROM s6 WHERE id=1; PERFORM * FROM s6 WHERE id=2; IF (SELECT count(*) FROM s6 WHERE id=1)+(SELECT count(*) FROM s6 WHERE id=2)<>1 THEN RAISE 'gone'; END IF; END LOOP; END$$;
SELECT * FROM s6 WHERE id=1;SELECT * FROM s6 WHERE id=2;
DO $$BEGIN FOR i IN 1..301 LOOP BEGIN UPDATE s6 SET id=3-id, v=v+1; IF i%3=0 THEN RAISE 'x'; END IF; EXCEPTION WHEN others THEN IF (SELECT count(*) FROM s6 WHERE id=1)+(SELECT count(*) FROM s6 WHERE id=2)<>1 THEN RAISE 'gone'; END IF; END; END LOOP; END$$;
SELECT * FROM s6 WHERE id=1;SELECT * FROM s6 WHERE id=2;
DO $$BEGIN FOR i IN 1..300 LOOP UPDATE s6 SET id=3-id, v=v+1; PERFORM * FROM s6 WHERE id=1; PERFORM * FROM s6 WHERE id=2; IF (SELECT count(*) FROM s6 WHERE id=1)+(SELECT count(*) FROM s6 WHERE id=2)<>1 THEN RAISE 'gone'; END IF; COMMIT; END LOOP; END$$;
SELECT * FROM s6 WHERE id=1;SELECT * FROM s6 WHERE id=2;
\echo == cursor beside updates in the same transaction
BEGIN;
DECLARE c1 SCROLL CURSOR FOR SELECT n, s6.* FROM generate_series(1,4) n LEFT JOIN LATERAL (SELECT * FROM s6 WHERE id=n OFFSET 0) s6 ON TRUE;
FETCH 1 FROM c1;
UPDATE s6 SET id=3-id; UPDATE s6 SET v=-1;
FETCH ALL FROM c1;
MOVE BACKWARD ALL IN c1; FETCH ALL FROM c1;
SELECT * FROM s6 WHERE id=1;SELECT * FROM s6 WHERE id=2;
UPDATE s6 SET id=3-id; DELETE FROM s6; INSERT INTO s6 VALUES (1,77);
MOVE BACKWARD ALL IN c1; FETCH ALL FROM c1;
SELECT * FROM s6 WHERE id=1;
COMMIT;
\echo == functions stable/volatile see own statement or not
CREATE FUNCTION look(i int) RETURNS int stable LANGUAGE sql AS 'select v from s6 where id=i';
CREATE FUNCTION lookv(i int) RETURNS int volatile LANGUAGE sql AS 'select v from s6 where id=i';
UPDATE s6 SET v=v+1 RETURNING look(1), lookv(1), v;
INSERT INTO s6 SELECT g, 1 FROM generate_series(2,5) g RETURNING look(id), lookv(id);
WITH u AS (UPDATE s6 SET v=v+1 WHERE id=3 RETURNING *) SELECT u.v, (SELECT v FROM s6 WHERE id=3) FROM u;
WITH u AS (DELETE FROM s6 WHERE id=3 RETURNING *) SELECT u.v, (SELECT v FROM s6 WHERE id=3), lookv(3) FROM u;
WITH u AS (UPDATE s6 SET id=id+100 WHERE id=4 RETURNING *) SELECT u.id, (SELECT v FROM s6 WHERE id=4), lookv(4), lookv(104) FROM u;
\echo == triggers
CREATE FUNCTION trg() RETURNS TRIGGER LANGUAGE plpgsql AS $$BEGIN
 IF tg_op='UPDATE' THEN
  PERFORM lookv(new.id); 
  new.v = coalesce((SELECT v FROM s6 WHERE id=old.id),-1)*10 + coalesce((SELECT v FROM s6 WHERE id=new.id),-1);
 END IF; return new; END$$;
CREATE TRIGGER tr BEFORE UPDATE ON s6 FOR EACH ROW EXECUTE FUNCTION trg();
CREATE FUNCTION trga() RETURNS TRIGGER LANGUAGE plpgsql AS $$BEGIN
  INSERT INTO s6log SELECT tg_op, (SELECT v FROM s6 WHERE id=old.id), (SELECT v FROM s6 WHERE id=new.id); return NULL; END$$;
CREATE TABLE s6log(op text, o int, n int);
CREATE TRIGGER tra AFTER UPDATE OR DELETE ON s6 FOR EACH ROW EXECUTE FUNCTION trga();
UPDATE s6 SET id=1-id WHERE id IN (1,2,5); SELECT * FROM s6 ORDER BY id; SELECT * FROM s6log; DELETE FROM s6 WHERE id=0; SELECT * FROM s6log;
\echo == trigger that updates the row itself
CREATE FUNCTION trgs() RETURNS TRIGGER LANGUAGE plpgsql AS $$BEGIN UPDATE s6 SET v=v+1 WHERE id=old.id; return new; END$$;
DROP TRIGGER tr ON s6; CREATE TRIGGER trs BEFORE UPDATE ON s6 FOR EACH ROW WHEN (pg_trigger_depth()=0) EXECUTE FUNCTION trgs();
UPDATE s6 SET v=5 WHERE id=-1;
SELECT * FROM s6 WHERE id=-1;
\echo == partitions
CREATE TABLE p (a int, b text, v int, PRIMARY KEY (a,b)) PARTITION BY list (a);
CREATE TABLE p1 (v int, b text NOT NULL, junk int, a int NOT NULL); ALTER TABLE p1 DROP junk;
ALTER TABLE p1 ADD PRIMARY KEY (a,b);
INSERT INTO p1 VALUES (1,'x',1),(2,'y',1);
SELECT * FROM p1 WHERE a=1 AND b='x';SELECT * FROM p1 WHERE a=1 AND b='x';
SELECT * FROM p1 WHERE a=1 AND b='x';
DROP TABLE p; CREATE TABLE p (a int, b text, v int) PARTITION BY list (a);
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1,2);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (3); CREATE UNIQUE INDEX ON p2 USING lsm (b,a); INSERT INTO p VALUES (3,'x',3);
CREATE UNIQUE INDEX ON p1 USING lsm (b,a);
SELECT * FROM p WHERE a=1 AND b='x'; SELECT * FROM p WHERE a=1 AND b='x'; UPDATE p SET a=3 WHERE a=1; SELECT * FROM p WHERE a=1 AND b='x'; 
UPDATE p SET b='q' WHERE a=3; UPDATE p SET a=3 WHERE a=1; SELECT * FROM p WHERE a=1 AND b='x'; SELECT * FROM p WHERE a=3 AND b='q'; SELECT * FROM p WHERE b='x' AND a=3; SELECT * FROM p WHERE b='x' AND a=3; UPDATE p SET a=1 WHERE a=3 AND b='x'; SELECT * FROM p WHERE b='x' AND a IN (1,3);
ALTER TABLE p DETACH PARTITION p1; SELECT * FROM p1 WHERE a=1 AND b='x'; SELECT * FROM p WHERE a=1 AND b='x'; ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1,2,7); SELECT * FROM p WHERE a=1 AND b='x'; 
\echo == swap of tables by renames
CREATE TABLE w1 (id int PRIMARY KEY, v text); CREATE TABLE w2 (id int PRIMARY KEY, v text);
INSERT INTO w1 VALUES (1,'a'),(2,'b'); INSERT INTO w2 VALUES (1,'c'),(3,'d');
PREPARE w AS SELECT * FROM w1 WHERE id=1; EXECUTE w; EXECUTE w; SELECT * FROM w2 WHERE id=1; SELECT * FROM w2 WHERE id=1;
BEGIN; ALTER TABLE w1 RENAME TO w3; ALTER TABLE w2 RENAME TO w1; ALTER TABLE w3 RENAME TO w2; EXECUTE w; SELECT * FROM w2 WHERE id=1; ROLLBACK; EXECUTE w;
ALTER TABLE w1 RENAME TO w3; ALTER TABLE w2 RENAME TO w1; ALTER TABLE w3 RENAME TO w2; EXECUTE w; SELECT * FROM w2 WHERE id=1;
\echo == drop and create in one tx; rollback of truncates
BEGIN; DROP TABLE w1; CREATE TABLE w1 (id int PRIMARY KEY, v text); INSERT INTO w1 VALUES (1,'new'); SELECT * FROM w1 WHERE id=1;SELECT * FROM w1 WHERE id=1; ROLLBACK; SELECT * FROM w1 WHERE id=1;
BEGIN; TRUNCATE w1; SELECT * FROM w1 WHERE id=1; INSERT INTO w1 VALUES (1,'tr'); SELECT * FROM w1 WHERE id=1;SELECT * FROM w1 WHERE id=1; SAVEPOINT s; TRUNCATE w1; INSERT INTO w1 VALUES (1,'tr2'); SELECT * FROM w1 WHERE id=1; ROLLBACK TO s; SELECT * FROM w1 WHERE id=1; ROLLBACK; SELECT * FROM w1 WHERE id=1; SELECT * FROM w1 WHERE id=1;
BEGIN; ALTER TABLE w1 ALTER v TYPE int USING length(v); SELECT * FROM w1 WHERE id=1; UPDATE w1 SET v=55; SELECT * FROM w1 WHERE id=1; ROLLBACK; SELECT * FROM w1 WHERE id=1;
BEGIN; ALTER TABLE w1 ALTER id TYPE numeric; SELECT * FROM w1 WHERE id=1; UPDATE w1 SET id=1.0 WHERE id=1; SELECT * FROM w1 WHERE id=1;  ROLLBACK; SELECT * FROM w1 WHERE id=1;
VACUUM FULL w1; SELECT * FROM w1 WHERE id=1; SELECT * FROM w1 WHERE id=3;
\echo == temp and unlogged
CREATE TEMP TABLE tt (id int PRIMARY KEY, v int); INSERT INTO tt SELECT g,g FROM generate_series(1,10) g; SELECT * FROM tt WHERE id=4; SELECT * FROM tt WHERE id=4; BEGIN; UPDATE tt SET id=40 WHERE id=4; SELECT * FROM tt WHERE id=4; SELECT * FROM tt WHERE id=40; ROLLBACK; SELECT * FROM tt WHERE id=4; SELECT * FROM tt WHERE id=40;
CREATE TEMP TABLE td (id int PRIMARY KEY, v int) ON COMMIT DELETE rows; BEGIN; INSERT INTO td VALUES (1,1); SELECT * FROM td WHERE id=1; SELECT * FROM td WHERE id=1; COMMIT; SELECT * FROM td WHERE id=1; BEGIN; INSERT INTO td VALUES (1,2); SELECT * FROM td WHERE id=1; COMMIT;
CREATE UNLOGGED TABLE ul (id int PRIMARY KEY, v int); INSERT INTO ul SELECT g,g FROM generate_series(1,10) g; SELECT * FROM ul WHERE id=4; ALTER TABLE ul SET LOGGED; SELECT * FROM ul WHERE id=4; SELECT * FROM ul WHERE id=4; UPDATE ul SET v=44 WHERE id=4; ALTER TABLE ul SET UNLOGGED; SELECT * FROM ul WHERE id=4; 
\echo == NULL handling
CREATE TABLE nl (a int, b int, v int, UNIQUE (a,b)); INSERT INTO nl VALUES (1,NULL,1),(1,NULL,2),(NULL,NULL,3),(NULL,NULL,4),(1,1,5);
SELECT * FROM nl WHERE a=1 AND b IS NULL ORDER BY v;SELECT * FROM nl WHERE a=1 AND b IS NULL ORDER BY v; SELECT * FROM nl WHERE a IS NULL AND b IS NULL ORDER BY v; SELECT * FROM nl WHERE a=1 AND b=1;SELECT * FROM nl WHERE a=1 AND b=1; SELECT * FROM nl WHERE a=1 AND b=NULL; SELECT * FROM nl WHERE a=1 ORDER BY v; UPDATE nl SET b=NULL WHERE v=5; SELECT * FROM nl WHERE a=1 AND b=1; SELECT * FROM nl WHERE a=1 AND b IS NULL ORDER BY v; UPDATE nl SET b=1 WHERE v=2; SELECT * FROM nl WHERE a=1 AND b=1; 
SELECT * FROM nl x JOIN nl y ON x.a=y.a AND x.b IS NOT DISTINCT FROM y.b ORDER BY 1,2,3,4,5,6;
CREATE TABLE nd1 (a int, b int, v int, UNIQUE NULLS NOT DISTINCT (a,b)); INSERT INTO nd1 VALUES (1,NULL,1),(NULL,NULL,3),(1,1,5);
SELECT * FROM nd1 WHERE a=1 AND b IS NULL;SELECT * FROM nd1 WHERE a=1 AND b IS NULL; SELECT * FROM nd1 WHERE a IS NULL AND b IS NULL; SELECT * FROM nd1 WHERE a IS NULL AND b IS NULL; INSERT INTO nd1 VALUES (NULL,NULL,9) ON CONFLICT (a,b) DO UPDATE SET v=nd1.v+1 RETURNING *; INSERT INTO nd1 VALUES (NULL,NULL,9); UPDATE nd1 SET a=2 WHERE a IS NULL; SELECT * FROM nd1 WHERE a IS NULL AND b IS NULL; SELECT * FROM nd1 WHERE a=2 AND b IS NULL; INSERT INTO nd1 VALUES (NULL,NULL,10); SELECT * FROM nd1 WHERE a IS NULL AND b IS NULL;
\echo == deferrable
CREATE TABLE df (id int UNIQUE DEFERRABLE, v int); INSERT INTO df VALUES (1,1),(2,2);
SELECT * FROM df WHERE id=1; SELECT * FROM df WHERE id=1; BEGIN; SET CONSTRAINTS ALL DEFERRED; UPDATE df SET id=1 WHERE v=2; SELECT * FROM df WHERE id=1 ORDER BY v;SELECT * FROM df WHERE id=1 ORDER BY v; UPDATE df SET id=2 WHERE v=1; SELECT * FROM df WHERE id=1; SELECT * FROM df WHERE id=2; COMMIT; SELECT * FROM df WHERE id=1; SELECT * FROM df WHERE id=2; UPDATE df SET id=3-id; SELECT * FROM df WHERE id=1; SELECT * FROM df WHERE id=2;
BEGIN; SET CONSTRAINTS ALL DEFERRED; INSERT INTO df VALUES (1,9); COMMIT; SELECT * FROM df WHERE id=1;
\echo == exclude
CREATE TABLE ex (id int, v int, EXCLUDE USING lsm (id WITH =)); INSERT INTO ex VALUES (1,1); INSERT INTO ex VALUES (1,2); SELECT * FROM ex WHERE id=1; SELECT * FROM ex WHERE id=1; UPDATE ex SET id=2; INSERT INTO ex VALUES (1,3); SELECT * FROM ex WHERE id=1; SELECT * FROM ex WHERE id=2; DELETE FROM ex WHERE id=1; INSERT INTO ex VALUES (1,4); SELECT * FROM ex WHERE id=1;
INSERT INTO ex VALUES (1,5) ON CONFLICT DO NOTHING RETURNING *;
\echo == partial
CREATE TABLE pt (id int, act bool, v int); CREATE UNIQUE INDEX ON pt USING lsm (id) WHERE act; INSERT INTO pt VALUES (1,TRUE,1),(1,false,2),(1,false,3); SELECT * FROM pt WHERE id=1 AND act; SELECT * FROM pt WHERE id=1 AND act; UPDATE pt SET act=NOT act WHERE v IN (1,2) AND act; SELECT * FROM pt WHERE id=1 AND act;UPDATE pt SET act=TRUE WHERE v=2;  SELECT * FROM pt WHERE id=1 AND act; SELECT * FROM pt WHERE id=1 AND act; INSERT INTO pt VALUES (1,TRUE,9) ON CONFLICT (id) WHERE act DO UPDATE SET v=pt.v*10 RETURNING *; UPDATE pt SET act=TRUE WHERE v=1; BEGIN; UPDATE pt SET act=false WHERE v=20; UPDATE pt SET act=TRUE WHERE v=3; SELECT * FROM pt WHERE id=1 AND act; ROLLBACK;  SELECT * FROM pt WHERE id=1 AND act;
SELECT * FROM pt WHERE id=1 AND NOT act ORDER BY v;
\echo == expression
CREATE TABLE ep (t text, v int); CREATE UNIQUE INDEX ON ep USING lsm (lower(t)); CREATE UNIQUE INDEX ON ep USING lsm ((v+1)) INCLUDE (t); INSERT INTO ep VALUES ('Abc',1),('dEf',2); SELECT * FROM ep WHERE lower(t)='abc'; SELECT * FROM ep WHERE lower(t)='abc'; UPDATE ep SET t='ABC' WHERE v=1; SELECT * FROM ep WHERE lower(t)='abc'; UPDATE ep SET t='xyz' WHERE v+1=2; SELECT * FROM ep WHERE lower(t)='abc'; SELECT * FROM ep WHERE lower(t)='xyz'; SELECT t FROM ep WHERE v+1=2; SELECT t FROM ep WHERE v+1=2; UPDATE ep SET t='zzz' WHERE v+1=2; SELECT t FROM ep WHERE v+1=2;
\echo == include
SET enable_indexonlyscan=ON;
CREATE TABLE ic (a int, b int, v int, UNIQUE (a) INCLUDE (b)); INSERT INTO ic SELECT g,g,g FROM generate_series(1,20) g; VACUUM ic; SELECT a,b FROM ic WHERE a=3; SELECT a,b FROM ic WHERE a=3; UPDATE ic SET b=33 WHERE a=3; SELECT a,b FROM ic WHERE a=3; SELECT a,b FROM ic WHERE a=3; SELECT a,b FROM ic WHERE a=3 AND b=3; SELECT a,b FROM ic WHERE a=3 AND b=33; SELECT * FROM ic WHERE a=3; SELECT * FROM ic WHERE a=3 AND b=33;
SET enable_indexonlyscan=off;
\echo == inheritance
CREATE TABLE pa (id int PRIMARY KEY, v int); CREATE TABLE ch (w int) INHERITS (pa); ALTER TABLE ch ADD PRIMARY KEY (id); INSERT INTO pa VALUES (1,1); INSERT INTO ch VALUES (1,2,3); SELECT tableoid::regclass,* FROM pa WHERE id=1 ORDER BY 1; SELECT tableoid::regclass,* FROM pa WHERE id=1 ORDER BY 1; UPDATE pa SET v=v+1 WHERE id=1; SELECT tableoid::regclass,* FROM pa WHERE id=1 ORDER BY 1; DELETE FROM only pa WHERE id=1; SELECT tableoid::regclass,* FROM pa WHERE id=1 ORDER BY 1;
\echo == matview
CREATE MATERIALIZED VIEW mv AS SELECT g id, g*2 v FROM generate_series(1,30) g; CREATE UNIQUE INDEX ON mv USING lsm (id); SELECT * FROM mv WHERE id=3; SELECT * FROM mv WHERE id=3; REFRESH MATERIALIZED VIEW mv; SELECT * FROM mv WHERE id=3; SELECT * FROM mv WHERE id=3;
\echo == big toasted keys/rows
CREATE TABLE tk (k text PRIMARY KEY, big text); INSERT INTO tk SELECT repeat(md5(g::text),60), repeat(md5(g::text),3000) FROM generate_series(1,20) g; SELECT sum(length(big)),count(*) FROM generate_series(1,20) g JOIN LATERAL (SELECT * FROM tk WHERE k=repeat(md5(g::text),60) OFFSET 0) x ON TRUE; SELECT sum(length(big)),count(*) FROM generate_series(1,20) g JOIN LATERAL (SELECT * FROM tk WHERE k=repeat(md5(g::text),60) OFFSET 0) x ON TRUE; UPDATE tk SET big=big||'x' WHERE k=repeat(md5('3'),60); SELECT length(big) FROM tk WHERE k=repeat(md5('3'),60); SELECT md5(big) FROM tk WHERE k=repeat(md5('3'),60);
ALTER TABLE tk ALTER k SET STORAGE EXTERNAL; UPDATE tk SET k=k||'y' WHERE k=repeat(md5('3'),60); SELECT length(big) FROM tk WHERE k=repeat(md5('3'),60); SELECT length(big) FROM tk WHERE k=repeat(md5('3'),60)||'y';  SELECT length(big) FROM tk WHERE k=repeat(md5('3'),60)||'y'; 
\echo == zero-ish
CREATE TABLE z (id text PRIMARY KEY); INSERT INTO z VALUES (''),('a'); SELECT * FROM z WHERE id=''; SELECT * FROM z WHERE id=''; SELECT * FROM z WHERE id='a';SELECT * FROM z WHERE id='a';
CREATE TABLE allin (a int, b int, c int, d int, e int, f int, g int, h int, PRIMARY KEY(h,g,f,e,d,c,b,a)); INSERT INTO allin SELECT x,x+1,x+2,x%3,x%5,x%7,0,1 FROM generate_series(1,60) x; SELECT count(*) FROM allin y JOIN allin z USING (a,b,c,d,e,f,g,h); SELECT count(*) FROM allin y JOIN allin z USING (a,b,c,d,e,f,g,h); SELECT * FROM allin WHERE a=5 AND b=6 AND c=7 AND d=2 AND e=0 AND f=5 AND g=0 AND h=1;SELECT * FROM allin WHERE h=1 AND g=0 AND f=5 AND e=0 AND d=2 AND c=7 AND b=6 AND a=5;SELECT * FROM allin WHERE h=1 AND g=0 AND f=5 AND e=0 AND d=2 AND c=7 AND b=7 AND a=5;
CREATE TABLE a1 (id int NOT NULL, v int); CREATE UNIQUE INDEX a1i ON a1 USING lsm (id); INSERT INTO a1 SELECT g,g FROM generate_series(1,100) g;
PREPARE q1 AS SELECT * FROM a1 WHERE id=5 ORDER BY v; EXECUTE q1; EXECUTE q1; EXECUTE q1; SELECT * FROM a1 WHERE id=5; INSERT INTO a1 VALUES (5,50) ON CONFLICT (id) DO UPDATE SET v=5;
ALTER TABLE a1 ADD CONSTRAINT a1c UNIQUE USING INDEX a1i DEFERRABLE INITIALLY DEFERRED;
BEGIN; UPDATE a1 SET id=5 WHERE id=6; EXECUTE q1; SELECT * FROM a1 WHERE id=5 ORDER BY v; DELETE FROM a1 WHERE v=5; EXECUTE q1; SELECT * FROM a1 WHERE id=5; INSERT INTO a1 VALUES (5,500); EXECUTE q1; SELECT * FROM a1 WHERE id=5 ORDER BY v; UPDATE a1 SET id=6 WHERE v=6; EXECUTE q1; COMMIT; EXECUTE q1; SELECT * FROM a1 WHERE id=6;
BEGIN; SET CONSTRAINTS ALL IMMEDIATE; UPDATE a1 SET id=5 WHERE id=6; ROLLBACK; EXECUTE q1;
\echo == types changed without a rewrite
CREATE TABLE b1 (v varchar(10) UNIQUE, n numeric(10,2) UNIQUE, c cidr UNIQUE, t timestamp UNIQUE, d date UNIQUE, x int);
INSERT INTO b1 VALUES ('abc', 1.50, '10.0.0.0/8', '2020-01-01 00:00', '2020-01-01', 1), ('def', 2.5, '10.1.0.0/16', '2020-06-01 00:00', '2020-06-01', 2);
SELECT x FROM b1 WHERE v='abc'; SELECT x FROM b1 WHERE v='abc'; SELECT x FROM b1 WHERE n=1.5; SELECT x FROM b1 WHERE n=1.5; SELECT x FROM b1 WHERE c='10.0.0.0/8'; SELECT x FROM b1 WHERE c='10.0.0.0/8'; SELECT x FROM b1 WHERE t='2020-01-01'; SELECT x FROM b1 WHERE t='2020-01-01';
ALTER TABLE b1 ALTER v TYPE varchar(20); ALTER TABLE b1 ALTER n TYPE numeric(12,2); SELECT x FROM b1 WHERE v='abc';  SELECT x FROM b1 WHERE n=1.500; ALTER TABLE b1 ALTER v TYPE text; SELECT x FROM b1 WHERE v='abc'; SELECT x FROM b1 WHERE v='abc'; ALTER TABLE b1 ALTER n TYPE numeric; ALTER TABLE b1 ALTER c TYPE inet; SELECT x FROM b1 WHERE c='10.0.0.0/8'; SELECT x FROM b1 WHERE c='10.0.0.0/8'; UPDATE b1 SET c='10.0.0.1/8' WHERE x=1; SELECT x FROM b1 WHERE c='10.0.0.0/8'; SELECT x FROM b1 WHERE c='10.0.0.1/8';
SET timezone='UTC'; ALTER TABLE b1 ALTER t TYPE timestamptz; SELECT x FROM b1 WHERE t='2020-01-01 00:00+00'; SELECT x FROM b1 WHERE t='2020-01-01 00:00+00';
SET timezone='America/New_York'; SELECT x FROM b1 WHERE t='2020-01-01 00:00+00'; SELECT x FROM b1 WHERE t='2020-01-01 00:00'; SELECT x FROM b1 WHERE t='2019-12-31 19:00';
SELECT x FROM b1 WHERE d='2020-01-01 05:00+00'::timestamptz; SELECT x FROM b1 WHERE d='2020-01-01 05:00+00'::timestamptz; SELECT x FROM b1 WHERE d='2020-01-01 00:00+00'::timestamptz; SET timezone='UTC'; SELECT x FROM b1 WHERE d='2020-01-01 05:00+00'::timestamptz; SELECT x FROM b1 WHERE d='2020-01-01 00:00+00'::timestamptz; SELECT x FROM b1 WHERE d='2020-01-01 00:00+00'::timestamptz; SET timezone='America/New_York'; SELECT x FROM b1 WHERE d='2020-01-01 00:00+00'::timestamptz; SELECT x FROM b1 WHERE t='2020-01-01'::date; SELECT x FROM b1 WHERE t='2019-12-31 19:00'::timestamp; SELECT x FROM b1 WHERE t='2019-12-31 19:00'::timestamp; SET timezone='UTC'; SELECT x FROM b1 WHERE t='2019-12-31 19:00'::timestamp; SELECT x FROM b1 WHERE t='2020-01-01'::date;
ALTER TABLE b1 ALTER v TYPE text COLLATE nd; SELECT x FROM b1 WHERE v='ABC'; SELECT x FROM b1 WHERE v='Abc'; ALTER TABLE b1 ALTER v TYPE text COLLATE "C"; SELECT x FROM b1 WHERE v='ABC'; SELECT x FROM b1 WHERE v='abc'; 
SELECT x FROM b1 WHERE v='ABC' COLLATE nd;
\echo == enum add value, rename
CREATE TYPE en AS enum ('a','b'); CREATE TABLE e1 (k en PRIMARY KEY, v int); INSERT INTO e1 VALUES ('a',1),('b',2); SELECT * FROM e1 WHERE k='a'; SELECT * FROM e1 WHERE k='a'; ALTER TYPE en RENAME value 'a' TO 'z'; SELECT * FROM e1 WHERE k='z'; ALTER TYPE en ADD value 'a' BEFORE 'z'; SELECT * FROM e1 WHERE k='a'; INSERT INTO e1 VALUES ('a',3); SELECT * FROM e1 WHERE k='a'; SELECT * FROM e1 WHERE k='z';
\echo == composite keys, alter type of composite
CREATE TYPE ct AS (a int, b numeric); CREATE TABLE c1 (k ct UNIQUE, v int); INSERT INTO c1 VALUES ('(1,1.0)',1),('(1,)',2),(NULL,3); SELECT * FROM c1 WHERE k='(1,1)'; SELECT * FROM c1 WHERE k='(1,1.00)'; SELECT * FROM c1 WHERE k=ROW(1,NULL)::ct; SELECT * FROM c1 WHERE k='(1,)'; INSERT INTO c1 VALUES ('(1,)',9) ON CONFLICT (k) DO UPDATE SET v=c1.v+10 RETURNING *;
\echo == row compares
SELECT * FROM c1 WHERE k=(SELECT k FROM c1 WHERE v=1); 
CREATE TABLE r1 (a int, b int, c int, UNIQUE(a,b)); INSERT INTO r1 SELECT g%10,g/10,g FROM generate_series(0,99) g; SELECT * FROM r1 WHERE (a,b)=(3,4); SELECT * FROM r1 WHERE (a,b)=(3,4); SELECT * FROM r1 WHERE (a,b)>=(3,4) AND (a,b)<=(3,4); SELECT * FROM r1 WHERE a=3 AND b IN (4,5,NULL) ORDER BY c; SELECT * FROM r1 WHERE a=3 AND b=4 AND a=4; SELECT * FROM r1 WHERE a=3 AND b=4 AND b=4 AND c=43; SELECT * FROM r1 WHERE a=3 AND b=4 AND c=44; SELECT * FROM r1 WHERE a=3 AND b=4 AND b<5; SELECT * FROM r1 WHERE a=3 AND b=4 AND b<4; SELECT * FROM r1 WHERE a=3 AND b=4 AND a IS NULL; SELECT * FROM r1 WHERE a=3 AND b=4 FOR UPDATE; SELECT * FROM r1 WHERE a=3 AND b=4 LIMIT 0; SELECT EXISTS (SELECT 1 FROM r1 WHERE a=3 AND b=4), EXISTS (SELECT 1 FROM r1 WHERE a=3 AND b=40);
\echo == semi, anti, memoize, not in
SET enable_hashjoin=off; SET enable_mergejoin=off; SET enable_material=off;
SELECT count(*) FROM generate_series(0,200) g WHERE EXISTS (SELECT 1 FROM r1 WHERE a=g%10 AND b=g/10); SELECT count(*) FROM generate_series(0,200) g WHERE NOT EXISTS (SELECT 1 FROM r1 WHERE a=g%10 AND b=g/10); SELECT count(*),sum(c) FROM generate_series(0,400) g JOIN r1 ON a=g%10 AND b=3; SELECT count(*),sum(c) FROM generate_series(0,400) g LEFT JOIN r1 ON a=g%10 AND b=g%13;
reset enable_hashjoin; reset enable_mergejoin; reset enable_material;
\echo == update from, delete using, merge
UPDATE r1 SET c=-r1.c FROM generate_series(0,20) g WHERE r1.a=g%10 AND r1.b=g/10; DELETE FROM r1 USING generate_series(0,5) g WHERE r1.a=g AND r1.b=0; MERGE INTO r1 USING generate_series(0,12) g ON r1.a=g AND r1.b=0 WHEN MATCHED AND c<-7 THEN DELETE WHEN MATCHED THEN UPDATE SET c=99 WHEN NOT MATCHED THEN INSERT VALUES (g,0,g+1000); SELECT * FROM r1 WHERE b=0 ORDER BY a;
\echo == same row twice in on conflict
INSERT INTO r1 VALUES (50,50,1),(50,50,2) ON CONFLICT (a,b) DO UPDATE SET c=9; INSERT INTO r1 VALUES (50,50,1),(50,50,2) ON CONFLICT DO NOTHING; SELECT * FROM r1 WHERE a=50 AND b=50; WITH x AS (INSERT INTO r1 VALUES (51,51,1) RETURNING *) INSERT INTO r1 SELECT * FROM x ON CONFLICT DO NOTHING; SELECT * FROM r1 WHERE a=51 AND b=51;
\echo == swap of keys in one statement by deferred, by case with big offset
UPDATE r1 SET a=a+1000; UPDATE r1 SET a=1009-(a-1000)-1000 WHERE a<1010; SELECT count(*),sum(c) FROM r1; SELECT * FROM r1 WHERE a=4 AND b=4; SELECT * FROM r1 WHERE a=1004 AND b=4;
\echo == subtransactions deep
CREATE TABLE su (id int PRIMARY KEY, v int); INSERT INTO su SELECT g,0 FROM generate_series(1,20) g;
CREATE FUNCTION deep(n int) RETURNS void LANGUAGE plpgsql AS $$BEGIN IF n=0 THEN return; END IF; BEGIN UPDATE su SET id=-id WHERE id=n; UPDATE su SET v=v+n WHERE id=-n; PERFORM deep(n-1); IF (SELECT count(*) FROM su WHERE id=n)<>0 OR (SELECT count(*) FROM su WHERE id=-n)<>1 THEN RAISE 'wrong inside %', n; END IF; IF n%3=0 THEN RAISE EXCEPTION USING errcode='LM001'; END IF; EXCEPTION WHEN sqlstate 'LM001' THEN NULL; END; IF (SELECT count(*) FROM su WHERE id=n) + (SELECT count(*) FROM su WHERE id=-n)<>1 THEN RAISE 'wrong after %', n; END IF; END$$;
BEGIN; SELECT deep(20); SELECT * FROM su ORDER BY id; SELECT count(*) FROM generate_series(-20,20) g JOIN LATERAL (SELECT * FROM su WHERE id=g OFFSET 0) x ON TRUE; ROLLBACK; SELECT count(*),sum(v) FROM generate_series(-20,20) g JOIN LATERAL (SELECT * FROM su WHERE id=g OFFSET 0) x ON TRUE; SELECT deep(20); SELECT count(*),sum(v),sum(id) FROM generate_series(-20,20) g JOIN LATERAL (SELECT * FROM su WHERE id=g OFFSET 0) x ON TRUE;
\echo == a row updated 10,000 times
CREATE TABLE ten (id int PRIMARY KEY, v int, w int); CREATE INDEX ON ten USING lsm (w); INSERT INTO ten VALUES (1,0,0),(2,0,0);
DO $$BEGIN FOR i IN 1..2000 LOOP UPDATE ten SET v=v+1, w=w+(i%3)/2 WHERE id=1; IF i%50=0 THEN UPDATE ten SET id=3 WHERE id=1; PERFORM * FROM ten WHERE id=1; UPDATE ten SET id=1 WHERE id=3; END IF; IF i%1000=0 THEN COMMIT; END IF; END LOOP; END$$;
SELECT * FROM ten WHERE id=1; SELECT * FROM ten WHERE id=1; VACUUM ten; SELECT * FROM ten WHERE id=1; SELECT * FROM ten WHERE id=3;
\echo == held cursor beside changes
BEGIN; DECLARE hc CURSOR WITH HOLD FOR SELECT g, ten.* FROM generate_series(1,3) g LEFT JOIN LATERAL (SELECT * FROM ten WHERE id=g OFFSET 0) ten ON TRUE; COMMIT; UPDATE ten SET id=9 WHERE id=1; FETCH ALL FROM hc; CLOSE hc;
BEGIN; DECLARE wc CURSOR FOR SELECT * FROM ten WHERE id=9; FETCH wc; UPDATE ten SET v=-1 WHERE CURRENT OF wc; SELECT * FROM ten WHERE id=9; UPDATE ten SET id=1 WHERE CURRENT OF wc; SELECT * FROM ten WHERE id=1; DELETE FROM ten WHERE CURRENT OF wc; ROLLBACK; BEGIN; DECLARE wc CURSOR FOR SELECT * FROM ten WHERE id=9 FOR UPDATE; FETCH wc; UPDATE ten SET v=-1 WHERE CURRENT OF wc; FETCH wc; COMMIT; SELECT * FROM ten WHERE id=9;
\echo == stats
CREATE TABLE st (id int PRIMARY KEY, v int); INSERT INTO st SELECT g,g FROM generate_series(1,50) g; SELECT pg_stat_force_next_flush(); SELECT pg_stat_reset_single_table_counters('st'::regclass), pg_stat_reset_single_table_counters('st_pkey'::regclass); 
SELECT v FROM st WHERE id=4;SELECT v FROM st WHERE id=4; SELECT v FROM st WHERE id=4; SELECT v FROM st WHERE id=400; SELECT sum(v) FROM generate_series(1,60) g JOIN LATERAL (SELECT v FROM st WHERE id=g OFFSET 0) x ON TRUE; SELECT pg_stat_force_next_flush(); SELECT idx_scan,idx_tup_read,idx_tup_fetch FROM pg_stat_user_indexes WHERE indexrelname='st_pkey'; SELECT idx_scan,idx_tup_fetch,seq_scan FROM pg_stat_user_tables WHERE relname='st';
\echo == create index concurrently beside
CREATE UNIQUE INDEX CONCURRENTLY stv ON st USING lsm (v); SELECT * FROM st WHERE v=7; SELECT * FROM st WHERE v=7; UPDATE st SET v=8 WHERE id=7; UPDATE st SET v=-v WHERE v=7; SELECT * FROM st WHERE v=7; SELECT * FROM st WHERE v=-7; REINDEX INDEX CONCURRENTLY stv; SELECT * FROM st WHERE v=-7; SELECT * FROM st WHERE v=8; INSERT INTO st VALUES (60,8); DROP INDEX stv; INSERT INTO st VALUES (60,8); CREATE UNIQUE INDEX CONCURRENTLY stv ON st USING lsm (v); INSERT INTO st VALUES (61,8); SELECT * FROM st WHERE v=8 ORDER BY id; DELETE FROM st WHERE id=8; SELECT * FROM st WHERE v=8; INSERT INTO st VALUES (62,8); INSERT INTO st VALUES (62,8) ON CONFLICT DO NOTHING; REINDEX INDEX CONCURRENTLY stv; SELECT * FROM st WHERE v=8;
