-- Triggers, rules, row security, transition tables on an lsm table
CREATE TABLE l (id int PRIMARY KEY, v text, n int) USING lsm;
-- updates of v make new rows, those of n stay in theirs
CREATE INDEX ON l (v) WHERE v IS NULL;
CREATE TABLE log (seq serial, what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log (what) VALUES (format('%s %s %s: %s -> %s', tg_when, tg_op, tg_level,
		CASE WHEN tg_op <> 'INSERT' AND tg_level = 'ROW' THEN old::text END,
		CASE WHEN tg_op <> 'DELETE' AND tg_level = 'ROW' THEN new::text END));
	IF tg_when = 'BEFORE' AND tg_level = 'ROW' AND tg_op <> 'DELETE' THEN
		new.n := coalesce(new.n, 0) + 1;
		RETURN new;
	END IF;
	IF tg_op = 'DELETE' THEN RETURN old; END IF;
	RETURN new;
END $$;
CREATE TRIGGER b BEFORE INSERT OR UPDATE OR DELETE ON l FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON l FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER s AFTER INSERT OR UPDATE OR DELETE ON l FOR EACH STATEMENT EXECUTE FUNCTION note();
INSERT INTO l VALUES (1, 'a'), (2, 'b');
UPDATE l SET v = v || 'x' WHERE id = 1;
DELETE FROM l WHERE id = 2;
SELECT what FROM log ORDER BY seq;
TRUNCATE log;
-- the row is flushed between the change and the deferred trigger
CREATE CONSTRAINT TRIGGER d AFTER UPDATE ON l DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
BEGIN;
UPDATE l SET v = 'deferred' WHERE id = 1;
SELECT lsm_flush('l');
COMMIT;
SELECT what FROM log ORDER BY seq;
TRUNCATE log;
DROP TRIGGER a ON l;
DROP TRIGGER b ON l;
DROP TRIGGER d ON l;
DROP TRIGGER s ON l;
CREATE FUNCTION transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log (what) SELECT 'old ' || string_agg(o::text, ' ' ORDER BY id) FROM oldt o;
	INSERT INTO log (what) SELECT 'new ' || string_agg(n::text, ' ' ORDER BY id) FROM newt n;
	RETURN NULL;
END $$;
CREATE TRIGGER t AFTER UPDATE ON l REFERENCING OLD TABLE AS oldt NEW TABLE AS newt FOR EACH STATEMENT EXECUTE FUNCTION transition();
INSERT INTO l VALUES (5, 'five', 5), (6, 'six', 6);
UPDATE l SET n = n * 2;
SELECT what FROM log ORDER BY seq;
-- a BEFORE trigger that changes the row itself
DROP TRIGGER t ON l;
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE l SET v = 'meddled' WHERE id = old.id;
	RETURN new;
END $$;
CREATE TRIGGER m BEFORE UPDATE ON l FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION meddle();
UPDATE l SET n = 0 WHERE id = 5;
DROP TRIGGER m ON l;
SELECT * FROM l ORDER BY id;
-- row security
CREATE ROLE lsm_regress_user;
GRANT ALL ON l TO lsm_regress_user;
ALTER TABLE l ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON l USING (id < 6) WITH CHECK (id < 100);
SET ROLE lsm_regress_user;
SELECT id FROM l ORDER BY id;
UPDATE l SET n = 77;
INSERT INTO l VALUES (101, 'no');
RESET ROLE;
SELECT id, n FROM l ORDER BY id;
DROP TABLE l, log;
DROP FUNCTION note(), transition(), meddle();
DROP ROLE lsm_regress_user;
-- identity and serial columns
CREATE TABLE l (id int GENERATED ALWAYS AS IDENTITY, s serial, v text) USING lsm;
INSERT INTO l (v) VALUES ('a'), ('b');
SELECT * FROM l ORDER BY id;
DROP TABLE l;
