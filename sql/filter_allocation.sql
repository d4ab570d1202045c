-- Filters by the place of a file in the tree: filter_allocation and bottom_filter
CREATE TEMP TABLE fa (id int, v int) USING heap;
-- temporary trees are compacted by who flushes them, at once
SET lsm.memtable_size = '256kB';
CREATE INDEX fa_monkey ON fa USING lsm (id) WITH (filter_allocation = monkey, size_ratio = 4);
CREATE INDEX fa_uniform ON fa USING lsm (v) WITH (filter_allocation = uniform, bottom_filter = ribbon, size_ratio = 4);
CREATE PROCEDURE fa_add(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO fa SELECT 2 * i, 2 * i FROM generate_series(0, 49999) i WHERE i % 50 BETWEEN first AND last;
	PERFORM lsm_flush('fa_monkey'), lsm_flush('fa_uniform');
END $$;
CALL fa_add(0, 39);
SELECT lsm_compact('fa_monkey'), lsm_compact('fa_uniform');
CREATE VIEW fa_levels AS
SELECT t, level, filter_scheme, count(*) AS files, sum(keys) AS keys, round((sum(filter_bytes) * 8.0 / sum(keys))::numeric) AS bits
FROM unnest('{fa_monkey,fa_uniform}'::regclass[]) t, lsm_filters(t) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
-- one run: the average, less what is kept for the levels to come
SELECT t, count(DISTINCT level) AS levels, string_agg(DISTINCT filter_scheme, ' ') AS schemes, sum(keys) AS keys,
	bool_and(bits BETWEEN 9 AND 10) AS bits FROM fa_levels GROUP BY 1 ORDER BY 1;
-- small runs above it: more bits, of bloom; ribbon in the deepest level only
CALL fa_add(40, 43);
CALL fa_add(44, 44);
CALL fa_add(45, 45);
SELECT t, level = 0 AS level0, string_agg(DISTINCT filter_scheme, ' ') AS schemes, sum(files) AS files, sum(keys) AS keys,
	min(bits) > 11 AS more_bits, max(bits) < 26 AS not_too_many FROM fa_levels GROUP BY 1, 2 ORDER BY 1, 2;
-- the average holds
SELECT t, sum(filter_bytes) * 8.0 / sum(keys) BETWEEN 9 AND 10.6 AS average
FROM unnest('{fa_monkey,fa_uniform}'::regclass[]) t, lsm_filters(t) GROUP BY 1 ORDER BY 1;
SELECT * FROM lsm_verify('fa_monkey') UNION ALL SELECT * FROM lsm_verify('fa_uniform');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM generate_series(0, 99999) g, LATERAL (SELECT 1 FROM fa WHERE id = g OFFSET 0) s;
SELECT count(*) FROM generate_series(0, 99999) g, LATERAL (SELECT 1 FROM fa WHERE v = g OFFSET 0) s;
-- lsm_advise: what is set is what there is, until another allocation is set
SELECT count(*) AS stale FROM lsm_advise('fa_monkey') WHERE current ~ 'have another';
ALTER INDEX fa_monkey SET (filter_allocation = uniform);
SELECT count(*) AS stale FROM lsm_advise('fa_monkey') WHERE current ~ 'have another';
SELECT lsm_compact('fa_monkey');
SELECT count(*) AS stale FROM lsm_advise('fa_monkey') WHERE current ~ 'have another';
SELECT filter_scheme, round(bits_per_key) AS bits FROM lsm_filters('fa_monkey') GROUP BY 1, 2;
ALTER INDEX fa_monkey RESET (filter_allocation);
ALTER INDEX fa_monkey SET (bottom_filter = ribbon, filter_scheme = quotient);
SELECT lsm_compact('fa_monkey');
SELECT DISTINCT filter_scheme FROM lsm_filters('fa_monkey');
-- quotient filters are merged where the output is one, and built where it is not
CALL fa_add(46, 46);
CALL fa_add(47, 47);
SELECT level = 0 AS level0, string_agg(DISTINCT filter_scheme, ' ') AS schemes FROM lsm_filters('fa_monkey') GROUP BY 1 ORDER BY 1;
SELECT lsm_compact('fa_monkey');
SELECT DISTINCT filter_scheme FROM lsm_filters('fa_monkey');
SELECT count(*) FROM generate_series(0, 99999) g, LATERAL (SELECT 1 FROM fa WHERE id = g OFFSET 0) s;
-- schemes whose memory is another matter have no other filter at the bottom, and elastic no allocation
ALTER INDEX fa_monkey SET (filter_scheme = cascade);
SELECT lsm_compact('fa_monkey');
SELECT DISTINCT filter_scheme FROM lsm_filters('fa_monkey');
ALTER INDEX fa_monkey SET (filter_scheme = elastic, filter_allocation = monkey);
SELECT lsm_compact('fa_monkey');
SELECT DISTINCT filter_scheme FROM lsm_filters('fa_monkey') WHERE segment IS NULL;
ALTER INDEX fa_monkey SET (filter_scheme = none);
SELECT lsm_compact('fa_monkey');
SELECT DISTINCT filter_scheme FROM lsm_filters('fa_monkey');

-- tables follow the settings
SET lsm.bottom_filter = ribbon;
SET lsm.filter_allocation = monkey;
CREATE TEMP TABLE fa_t (id int PRIMARY KEY, v text) USING lsm;
INSERT INTO fa_t SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
SELECT lsm_compact('fa_t');
UPDATE fa_t SET v = 'new' WHERE id % 20 = 0;
SELECT lsm_flush('fa_t');
SELECT level = 0 AS level0, string_agg(DISTINCT filter_scheme, ' ') AS schemes FROM lsm_filters('fa_t') GROUP BY 1 ORDER BY 1;
SELECT count(*), count(*) FILTER (WHERE v = 'new') FROM fa_t;
SELECT lsm_compact('fa_t');
SELECT count(*), count(*) FILTER (WHERE v = 'new') FROM fa_t;
SELECT DISTINCT filter_scheme FROM lsm_filters('fa_t');
SELECT * FROM lsm_verify('fa_t');
RESET lsm.bottom_filter;
RESET lsm.filter_allocation;
RESET lsm.memtable_size;

-- leading parts count as keys
CREATE TEMP TABLE fa_l (a int, b int) USING heap;
CREATE INDEX fa_lead ON fa_l USING lsm (a, b) WITH (filter_scheme = ribbon, filter_allocation = monkey);
INSERT INTO fa_l SELECT i / 2 * 2, i FROM generate_series(1, 30000) i;
SELECT lsm_compact('fa_lead');
SELECT sum(keys) AS keys, sum(filter_bytes) * 8.0 / sum(keys) BETWEEN 9 AND 10.2 AS bits, min(filter_columns) AS columns FROM lsm_filters('fa_lead');
SELECT count(*) FROM generate_series(0, 31000) g, LATERAL (SELECT 1 FROM fa_l WHERE a = g LIMIT 1) s;

-- wrong values
SET lsm.filter_allocation = 'optimal';
SET lsm.bottom_filter = 'bloom';
CREATE INDEX ON fa USING lsm (id) WITH (filter_allocation = some);
CREATE INDEX ON fa USING lsm (id) WITH (bottom_filter = blocked);
DROP VIEW fa_levels;
DROP PROCEDURE fa_add;
DROP TABLE fa, fa_t, fa_l;
