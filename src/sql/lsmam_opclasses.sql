/* lsmam 1.0: operator classes of lsm_index */

-- They mirror btree's of PostgreSQL 15 one to one: same families, strategies,
-- cross-type members and comparison functions.  The planner relies on that: it finds
-- the sort order of an index through btree's family of the same "<".

---- bool_ops ----

CREATE OPERATOR FAMILY bool_ops USING lsm_index;

CREATE OPERATOR CLASS bool_ops
DEFAULT FOR TYPE pg_catalog.bool USING lsm_index FAMILY bool_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.bool, pg_catalog.bool),
	OPERATOR 2 pg_catalog.<= (pg_catalog.bool, pg_catalog.bool),
	OPERATOR 3 pg_catalog.= (pg_catalog.bool, pg_catalog.bool),
	OPERATOR 4 pg_catalog.>= (pg_catalog.bool, pg_catalog.bool),
	OPERATOR 5 pg_catalog.> (pg_catalog.bool, pg_catalog.bool),
	FUNCTION 1 (pg_catalog.bool, pg_catalog.bool) pg_catalog.btboolcmp(pg_catalog.bool, pg_catalog.bool);

---- integer_ops ----

CREATE OPERATOR FAMILY integer_ops USING lsm_index;

CREATE OPERATOR CLASS int2_ops
DEFAULT FOR TYPE pg_catalog.int2 USING lsm_index FAMILY integer_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.int2, pg_catalog.int2),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int2, pg_catalog.int2),
	OPERATOR 3 pg_catalog.= (pg_catalog.int2, pg_catalog.int2),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int2, pg_catalog.int2),
	OPERATOR 5 pg_catalog.> (pg_catalog.int2, pg_catalog.int2),
	FUNCTION 1 (pg_catalog.int2, pg_catalog.int2) pg_catalog.btint2cmp(pg_catalog.int2, pg_catalog.int2);

CREATE OPERATOR CLASS int4_ops
DEFAULT FOR TYPE pg_catalog.int4 USING lsm_index FAMILY integer_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.int4, pg_catalog.int4),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int4, pg_catalog.int4),
	OPERATOR 3 pg_catalog.= (pg_catalog.int4, pg_catalog.int4),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int4, pg_catalog.int4),
	OPERATOR 5 pg_catalog.> (pg_catalog.int4, pg_catalog.int4),
	FUNCTION 1 (pg_catalog.int4, pg_catalog.int4) pg_catalog.btint4cmp(pg_catalog.int4, pg_catalog.int4);

CREATE OPERATOR CLASS int8_ops
DEFAULT FOR TYPE pg_catalog.int8 USING lsm_index FAMILY integer_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.int8, pg_catalog.int8),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int8, pg_catalog.int8),
	OPERATOR 3 pg_catalog.= (pg_catalog.int8, pg_catalog.int8),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int8, pg_catalog.int8),
	OPERATOR 5 pg_catalog.> (pg_catalog.int8, pg_catalog.int8),
	FUNCTION 1 (pg_catalog.int8, pg_catalog.int8) pg_catalog.btint8cmp(pg_catalog.int8, pg_catalog.int8);

ALTER OPERATOR FAMILY integer_ops USING lsm_index ADD
	OPERATOR 1 pg_catalog.< (pg_catalog.int2, pg_catalog.int4),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int2, pg_catalog.int4),
	OPERATOR 3 pg_catalog.= (pg_catalog.int2, pg_catalog.int4),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int2, pg_catalog.int4),
	OPERATOR 5 pg_catalog.> (pg_catalog.int2, pg_catalog.int4),
	FUNCTION 1 (pg_catalog.int2, pg_catalog.int4) pg_catalog.btint24cmp(pg_catalog.int2, pg_catalog.int4),
	OPERATOR 1 pg_catalog.< (pg_catalog.int2, pg_catalog.int8),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int2, pg_catalog.int8),
	OPERATOR 3 pg_catalog.= (pg_catalog.int2, pg_catalog.int8),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int2, pg_catalog.int8),
	OPERATOR 5 pg_catalog.> (pg_catalog.int2, pg_catalog.int8),
	FUNCTION 1 (pg_catalog.int2, pg_catalog.int8) pg_catalog.btint28cmp(pg_catalog.int2, pg_catalog.int8),
	OPERATOR 1 pg_catalog.< (pg_catalog.int4, pg_catalog.int2),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int4, pg_catalog.int2),
	OPERATOR 3 pg_catalog.= (pg_catalog.int4, pg_catalog.int2),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int4, pg_catalog.int2),
	OPERATOR 5 pg_catalog.> (pg_catalog.int4, pg_catalog.int2),
	FUNCTION 1 (pg_catalog.int4, pg_catalog.int2) pg_catalog.btint42cmp(pg_catalog.int4, pg_catalog.int2),
	OPERATOR 1 pg_catalog.< (pg_catalog.int4, pg_catalog.int8),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int4, pg_catalog.int8),
	OPERATOR 3 pg_catalog.= (pg_catalog.int4, pg_catalog.int8),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int4, pg_catalog.int8),
	OPERATOR 5 pg_catalog.> (pg_catalog.int4, pg_catalog.int8),
	FUNCTION 1 (pg_catalog.int4, pg_catalog.int8) pg_catalog.btint48cmp(pg_catalog.int4, pg_catalog.int8),
	OPERATOR 1 pg_catalog.< (pg_catalog.int8, pg_catalog.int2),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int8, pg_catalog.int2),
	OPERATOR 3 pg_catalog.= (pg_catalog.int8, pg_catalog.int2),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int8, pg_catalog.int2),
	OPERATOR 5 pg_catalog.> (pg_catalog.int8, pg_catalog.int2),
	FUNCTION 1 (pg_catalog.int8, pg_catalog.int2) pg_catalog.btint82cmp(pg_catalog.int8, pg_catalog.int2),
	OPERATOR 1 pg_catalog.< (pg_catalog.int8, pg_catalog.int4),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int8, pg_catalog.int4),
	OPERATOR 3 pg_catalog.= (pg_catalog.int8, pg_catalog.int4),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int8, pg_catalog.int4),
	OPERATOR 5 pg_catalog.> (pg_catalog.int8, pg_catalog.int4),
	FUNCTION 1 (pg_catalog.int8, pg_catalog.int4) pg_catalog.btint84cmp(pg_catalog.int8, pg_catalog.int4);

---- oid_ops ----

CREATE OPERATOR FAMILY oid_ops USING lsm_index;

CREATE OPERATOR CLASS oid_ops
DEFAULT FOR TYPE pg_catalog.oid USING lsm_index FAMILY oid_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.oid, pg_catalog.oid),
	OPERATOR 2 pg_catalog.<= (pg_catalog.oid, pg_catalog.oid),
	OPERATOR 3 pg_catalog.= (pg_catalog.oid, pg_catalog.oid),
	OPERATOR 4 pg_catalog.>= (pg_catalog.oid, pg_catalog.oid),
	OPERATOR 5 pg_catalog.> (pg_catalog.oid, pg_catalog.oid),
	FUNCTION 1 (pg_catalog.oid, pg_catalog.oid) pg_catalog.btoidcmp(pg_catalog.oid, pg_catalog.oid);

---- char_ops ----

CREATE OPERATOR FAMILY char_ops USING lsm_index;

CREATE OPERATOR CLASS char_ops
DEFAULT FOR TYPE pg_catalog."char" USING lsm_index FAMILY char_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog."char", pg_catalog."char"),
	OPERATOR 2 pg_catalog.<= (pg_catalog."char", pg_catalog."char"),
	OPERATOR 3 pg_catalog.= (pg_catalog."char", pg_catalog."char"),
	OPERATOR 4 pg_catalog.>= (pg_catalog."char", pg_catalog."char"),
	OPERATOR 5 pg_catalog.> (pg_catalog."char", pg_catalog."char"),
	FUNCTION 1 (pg_catalog."char", pg_catalog."char") pg_catalog.btcharcmp(pg_catalog."char", pg_catalog."char");

---- float_ops ----

CREATE OPERATOR FAMILY float_ops USING lsm_index;

CREATE OPERATOR CLASS float4_ops
DEFAULT FOR TYPE pg_catalog.float4 USING lsm_index FAMILY float_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.float4, pg_catalog.float4),
	OPERATOR 2 pg_catalog.<= (pg_catalog.float4, pg_catalog.float4),
	OPERATOR 3 pg_catalog.= (pg_catalog.float4, pg_catalog.float4),
	OPERATOR 4 pg_catalog.>= (pg_catalog.float4, pg_catalog.float4),
	OPERATOR 5 pg_catalog.> (pg_catalog.float4, pg_catalog.float4),
	FUNCTION 1 (pg_catalog.float4, pg_catalog.float4) pg_catalog.btfloat4cmp(pg_catalog.float4, pg_catalog.float4);

CREATE OPERATOR CLASS float8_ops
DEFAULT FOR TYPE pg_catalog.float8 USING lsm_index FAMILY float_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.float8, pg_catalog.float8),
	OPERATOR 2 pg_catalog.<= (pg_catalog.float8, pg_catalog.float8),
	OPERATOR 3 pg_catalog.= (pg_catalog.float8, pg_catalog.float8),
	OPERATOR 4 pg_catalog.>= (pg_catalog.float8, pg_catalog.float8),
	OPERATOR 5 pg_catalog.> (pg_catalog.float8, pg_catalog.float8),
	FUNCTION 1 (pg_catalog.float8, pg_catalog.float8) pg_catalog.btfloat8cmp(pg_catalog.float8, pg_catalog.float8);

ALTER OPERATOR FAMILY float_ops USING lsm_index ADD
	OPERATOR 1 pg_catalog.< (pg_catalog.float4, pg_catalog.float8),
	OPERATOR 2 pg_catalog.<= (pg_catalog.float4, pg_catalog.float8),
	OPERATOR 3 pg_catalog.= (pg_catalog.float4, pg_catalog.float8),
	OPERATOR 4 pg_catalog.>= (pg_catalog.float4, pg_catalog.float8),
	OPERATOR 5 pg_catalog.> (pg_catalog.float4, pg_catalog.float8),
	FUNCTION 1 (pg_catalog.float4, pg_catalog.float8) pg_catalog.btfloat48cmp(pg_catalog.float4, pg_catalog.float8),
	OPERATOR 1 pg_catalog.< (pg_catalog.float8, pg_catalog.float4),
	OPERATOR 2 pg_catalog.<= (pg_catalog.float8, pg_catalog.float4),
	OPERATOR 3 pg_catalog.= (pg_catalog.float8, pg_catalog.float4),
	OPERATOR 4 pg_catalog.>= (pg_catalog.float8, pg_catalog.float4),
	OPERATOR 5 pg_catalog.> (pg_catalog.float8, pg_catalog.float4),
	FUNCTION 1 (pg_catalog.float8, pg_catalog.float4) pg_catalog.btfloat84cmp(pg_catalog.float8, pg_catalog.float4);

---- numeric_ops ----

CREATE OPERATOR FAMILY numeric_ops USING lsm_index;

CREATE OPERATOR CLASS numeric_ops
DEFAULT FOR TYPE pg_catalog.numeric USING lsm_index FAMILY numeric_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.numeric, pg_catalog.numeric),
	OPERATOR 2 pg_catalog.<= (pg_catalog.numeric, pg_catalog.numeric),
	OPERATOR 3 pg_catalog.= (pg_catalog.numeric, pg_catalog.numeric),
	OPERATOR 4 pg_catalog.>= (pg_catalog.numeric, pg_catalog.numeric),
	OPERATOR 5 pg_catalog.> (pg_catalog.numeric, pg_catalog.numeric),
	FUNCTION 1 (pg_catalog.numeric, pg_catalog.numeric) pg_catalog.numeric_cmp(pg_catalog.numeric, pg_catalog.numeric);

---- text_ops ----

CREATE OPERATOR FAMILY text_ops USING lsm_index;

CREATE OPERATOR CLASS text_ops
DEFAULT FOR TYPE pg_catalog.text USING lsm_index FAMILY text_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.text, pg_catalog.text),
	OPERATOR 2 pg_catalog.<= (pg_catalog.text, pg_catalog.text),
	OPERATOR 3 pg_catalog.= (pg_catalog.text, pg_catalog.text),
	OPERATOR 4 pg_catalog.>= (pg_catalog.text, pg_catalog.text),
	OPERATOR 5 pg_catalog.> (pg_catalog.text, pg_catalog.text),
	FUNCTION 1 (pg_catalog.text, pg_catalog.text) pg_catalog.bttextcmp(pg_catalog.text, pg_catalog.text);

CREATE OPERATOR CLASS name_ops
DEFAULT FOR TYPE pg_catalog.name USING lsm_index FAMILY text_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.name, pg_catalog.name),
	OPERATOR 2 pg_catalog.<= (pg_catalog.name, pg_catalog.name),
	OPERATOR 3 pg_catalog.= (pg_catalog.name, pg_catalog.name),
	OPERATOR 4 pg_catalog.>= (pg_catalog.name, pg_catalog.name),
	OPERATOR 5 pg_catalog.> (pg_catalog.name, pg_catalog.name),
	FUNCTION 1 (pg_catalog.name, pg_catalog.name) pg_catalog.btnamecmp(pg_catalog.name, pg_catalog.name);

-- varchar is binary-coercible to text
CREATE OPERATOR CLASS varchar_ops
FOR TYPE pg_catalog.text USING lsm_index FAMILY text_ops AS
	STORAGE pg_catalog.text;

ALTER OPERATOR FAMILY text_ops USING lsm_index ADD
	OPERATOR 1 pg_catalog.< (pg_catalog.text, pg_catalog.name),
	OPERATOR 2 pg_catalog.<= (pg_catalog.text, pg_catalog.name),
	OPERATOR 3 pg_catalog.= (pg_catalog.text, pg_catalog.name),
	OPERATOR 4 pg_catalog.>= (pg_catalog.text, pg_catalog.name),
	OPERATOR 5 pg_catalog.> (pg_catalog.text, pg_catalog.name),
	FUNCTION 1 (pg_catalog.text, pg_catalog.name) pg_catalog.bttextnamecmp(pg_catalog.text, pg_catalog.name),
	OPERATOR 1 pg_catalog.< (pg_catalog.name, pg_catalog.text),
	OPERATOR 2 pg_catalog.<= (pg_catalog.name, pg_catalog.text),
	OPERATOR 3 pg_catalog.= (pg_catalog.name, pg_catalog.text),
	OPERATOR 4 pg_catalog.>= (pg_catalog.name, pg_catalog.text),
	OPERATOR 5 pg_catalog.> (pg_catalog.name, pg_catalog.text),
	FUNCTION 1 (pg_catalog.name, pg_catalog.text) pg_catalog.btnametextcmp(pg_catalog.name, pg_catalog.text);

---- bpchar_ops ----

CREATE OPERATOR FAMILY bpchar_ops USING lsm_index;

CREATE OPERATOR CLASS bpchar_ops
DEFAULT FOR TYPE pg_catalog.bpchar USING lsm_index FAMILY bpchar_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.bpchar, pg_catalog.bpchar),
	OPERATOR 2 pg_catalog.<= (pg_catalog.bpchar, pg_catalog.bpchar),
	OPERATOR 3 pg_catalog.= (pg_catalog.bpchar, pg_catalog.bpchar),
	OPERATOR 4 pg_catalog.>= (pg_catalog.bpchar, pg_catalog.bpchar),
	OPERATOR 5 pg_catalog.> (pg_catalog.bpchar, pg_catalog.bpchar),
	FUNCTION 1 (pg_catalog.bpchar, pg_catalog.bpchar) pg_catalog.bpcharcmp(pg_catalog.bpchar, pg_catalog.bpchar);

---- text_pattern_ops ----

CREATE OPERATOR FAMILY text_pattern_ops USING lsm_index;

CREATE OPERATOR CLASS text_pattern_ops
FOR TYPE pg_catalog.text USING lsm_index FAMILY text_pattern_ops AS
	OPERATOR 1 pg_catalog.~<~ (pg_catalog.text, pg_catalog.text),
	OPERATOR 2 pg_catalog.~<=~ (pg_catalog.text, pg_catalog.text),
	OPERATOR 3 pg_catalog.= (pg_catalog.text, pg_catalog.text),
	OPERATOR 4 pg_catalog.~>=~ (pg_catalog.text, pg_catalog.text),
	OPERATOR 5 pg_catalog.~>~ (pg_catalog.text, pg_catalog.text),
	FUNCTION 1 (pg_catalog.text, pg_catalog.text) pg_catalog.bttext_pattern_cmp(pg_catalog.text, pg_catalog.text);

-- varchar is binary-coercible to text
CREATE OPERATOR CLASS varchar_pattern_ops
FOR TYPE pg_catalog.text USING lsm_index FAMILY text_pattern_ops AS
	STORAGE pg_catalog.text;

---- bpchar_pattern_ops ----

CREATE OPERATOR FAMILY bpchar_pattern_ops USING lsm_index;

CREATE OPERATOR CLASS bpchar_pattern_ops
FOR TYPE pg_catalog.bpchar USING lsm_index FAMILY bpchar_pattern_ops AS
	OPERATOR 1 pg_catalog.~<~ (pg_catalog.bpchar, pg_catalog.bpchar),
	OPERATOR 2 pg_catalog.~<=~ (pg_catalog.bpchar, pg_catalog.bpchar),
	OPERATOR 3 pg_catalog.= (pg_catalog.bpchar, pg_catalog.bpchar),
	OPERATOR 4 pg_catalog.~>=~ (pg_catalog.bpchar, pg_catalog.bpchar),
	OPERATOR 5 pg_catalog.~>~ (pg_catalog.bpchar, pg_catalog.bpchar),
	FUNCTION 1 (pg_catalog.bpchar, pg_catalog.bpchar) pg_catalog.btbpchar_pattern_cmp(pg_catalog.bpchar, pg_catalog.bpchar);

---- bytea_ops ----

CREATE OPERATOR FAMILY bytea_ops USING lsm_index;

CREATE OPERATOR CLASS bytea_ops
DEFAULT FOR TYPE pg_catalog.bytea USING lsm_index FAMILY bytea_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.bytea, pg_catalog.bytea),
	OPERATOR 2 pg_catalog.<= (pg_catalog.bytea, pg_catalog.bytea),
	OPERATOR 3 pg_catalog.= (pg_catalog.bytea, pg_catalog.bytea),
	OPERATOR 4 pg_catalog.>= (pg_catalog.bytea, pg_catalog.bytea),
	OPERATOR 5 pg_catalog.> (pg_catalog.bytea, pg_catalog.bytea),
	FUNCTION 1 (pg_catalog.bytea, pg_catalog.bytea) pg_catalog.byteacmp(pg_catalog.bytea, pg_catalog.bytea);

---- uuid_ops ----

CREATE OPERATOR FAMILY uuid_ops USING lsm_index;

CREATE OPERATOR CLASS uuid_ops
DEFAULT FOR TYPE pg_catalog.uuid USING lsm_index FAMILY uuid_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.uuid, pg_catalog.uuid),
	OPERATOR 2 pg_catalog.<= (pg_catalog.uuid, pg_catalog.uuid),
	OPERATOR 3 pg_catalog.= (pg_catalog.uuid, pg_catalog.uuid),
	OPERATOR 4 pg_catalog.>= (pg_catalog.uuid, pg_catalog.uuid),
	OPERATOR 5 pg_catalog.> (pg_catalog.uuid, pg_catalog.uuid),
	FUNCTION 1 (pg_catalog.uuid, pg_catalog.uuid) pg_catalog.uuid_cmp(pg_catalog.uuid, pg_catalog.uuid);

---- datetime_ops ----

CREATE OPERATOR FAMILY datetime_ops USING lsm_index;

CREATE OPERATOR CLASS date_ops
DEFAULT FOR TYPE pg_catalog.date USING lsm_index FAMILY datetime_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.date, pg_catalog.date),
	OPERATOR 2 pg_catalog.<= (pg_catalog.date, pg_catalog.date),
	OPERATOR 3 pg_catalog.= (pg_catalog.date, pg_catalog.date),
	OPERATOR 4 pg_catalog.>= (pg_catalog.date, pg_catalog.date),
	OPERATOR 5 pg_catalog.> (pg_catalog.date, pg_catalog.date),
	FUNCTION 1 (pg_catalog.date, pg_catalog.date) pg_catalog.date_cmp(pg_catalog.date, pg_catalog.date);

CREATE OPERATOR CLASS timestamp_ops
DEFAULT FOR TYPE pg_catalog.timestamp USING lsm_index FAMILY datetime_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.timestamp, pg_catalog.timestamp),
	OPERATOR 2 pg_catalog.<= (pg_catalog.timestamp, pg_catalog.timestamp),
	OPERATOR 3 pg_catalog.= (pg_catalog.timestamp, pg_catalog.timestamp),
	OPERATOR 4 pg_catalog.>= (pg_catalog.timestamp, pg_catalog.timestamp),
	OPERATOR 5 pg_catalog.> (pg_catalog.timestamp, pg_catalog.timestamp),
	FUNCTION 1 (pg_catalog.timestamp, pg_catalog.timestamp) pg_catalog.timestamp_cmp(pg_catalog.timestamp, pg_catalog.timestamp);

CREATE OPERATOR CLASS timestamptz_ops
DEFAULT FOR TYPE pg_catalog.timestamptz USING lsm_index FAMILY datetime_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.timestamptz, pg_catalog.timestamptz),
	OPERATOR 2 pg_catalog.<= (pg_catalog.timestamptz, pg_catalog.timestamptz),
	OPERATOR 3 pg_catalog.= (pg_catalog.timestamptz, pg_catalog.timestamptz),
	OPERATOR 4 pg_catalog.>= (pg_catalog.timestamptz, pg_catalog.timestamptz),
	OPERATOR 5 pg_catalog.> (pg_catalog.timestamptz, pg_catalog.timestamptz),
	FUNCTION 1 (pg_catalog.timestamptz, pg_catalog.timestamptz) pg_catalog.timestamptz_cmp(pg_catalog.timestamptz, pg_catalog.timestamptz);

ALTER OPERATOR FAMILY datetime_ops USING lsm_index ADD
	OPERATOR 1 pg_catalog.< (pg_catalog.date, pg_catalog.timestamp),
	OPERATOR 2 pg_catalog.<= (pg_catalog.date, pg_catalog.timestamp),
	OPERATOR 3 pg_catalog.= (pg_catalog.date, pg_catalog.timestamp),
	OPERATOR 4 pg_catalog.>= (pg_catalog.date, pg_catalog.timestamp),
	OPERATOR 5 pg_catalog.> (pg_catalog.date, pg_catalog.timestamp),
	FUNCTION 1 (pg_catalog.date, pg_catalog.timestamp) pg_catalog.date_cmp_timestamp(pg_catalog.date, pg_catalog.timestamp),
	OPERATOR 1 pg_catalog.< (pg_catalog.date, pg_catalog.timestamptz),
	OPERATOR 2 pg_catalog.<= (pg_catalog.date, pg_catalog.timestamptz),
	OPERATOR 3 pg_catalog.= (pg_catalog.date, pg_catalog.timestamptz),
	OPERATOR 4 pg_catalog.>= (pg_catalog.date, pg_catalog.timestamptz),
	OPERATOR 5 pg_catalog.> (pg_catalog.date, pg_catalog.timestamptz),
	FUNCTION 1 (pg_catalog.date, pg_catalog.timestamptz) pg_catalog.date_cmp_timestamptz(pg_catalog.date, pg_catalog.timestamptz),
	OPERATOR 1 pg_catalog.< (pg_catalog.timestamp, pg_catalog.date),
	OPERATOR 2 pg_catalog.<= (pg_catalog.timestamp, pg_catalog.date),
	OPERATOR 3 pg_catalog.= (pg_catalog.timestamp, pg_catalog.date),
	OPERATOR 4 pg_catalog.>= (pg_catalog.timestamp, pg_catalog.date),
	OPERATOR 5 pg_catalog.> (pg_catalog.timestamp, pg_catalog.date),
	FUNCTION 1 (pg_catalog.timestamp, pg_catalog.date) pg_catalog.timestamp_cmp_date(pg_catalog.timestamp, pg_catalog.date),
	OPERATOR 1 pg_catalog.< (pg_catalog.timestamp, pg_catalog.timestamptz),
	OPERATOR 2 pg_catalog.<= (pg_catalog.timestamp, pg_catalog.timestamptz),
	OPERATOR 3 pg_catalog.= (pg_catalog.timestamp, pg_catalog.timestamptz),
	OPERATOR 4 pg_catalog.>= (pg_catalog.timestamp, pg_catalog.timestamptz),
	OPERATOR 5 pg_catalog.> (pg_catalog.timestamp, pg_catalog.timestamptz),
	FUNCTION 1 (pg_catalog.timestamp, pg_catalog.timestamptz) pg_catalog.timestamp_cmp_timestamptz(pg_catalog.timestamp, pg_catalog.timestamptz),
	OPERATOR 1 pg_catalog.< (pg_catalog.timestamptz, pg_catalog.date),
	OPERATOR 2 pg_catalog.<= (pg_catalog.timestamptz, pg_catalog.date),
	OPERATOR 3 pg_catalog.= (pg_catalog.timestamptz, pg_catalog.date),
	OPERATOR 4 pg_catalog.>= (pg_catalog.timestamptz, pg_catalog.date),
	OPERATOR 5 pg_catalog.> (pg_catalog.timestamptz, pg_catalog.date),
	FUNCTION 1 (pg_catalog.timestamptz, pg_catalog.date) pg_catalog.timestamptz_cmp_date(pg_catalog.timestamptz, pg_catalog.date),
	OPERATOR 1 pg_catalog.< (pg_catalog.timestamptz, pg_catalog.timestamp),
	OPERATOR 2 pg_catalog.<= (pg_catalog.timestamptz, pg_catalog.timestamp),
	OPERATOR 3 pg_catalog.= (pg_catalog.timestamptz, pg_catalog.timestamp),
	OPERATOR 4 pg_catalog.>= (pg_catalog.timestamptz, pg_catalog.timestamp),
	OPERATOR 5 pg_catalog.> (pg_catalog.timestamptz, pg_catalog.timestamp),
	FUNCTION 1 (pg_catalog.timestamptz, pg_catalog.timestamp) pg_catalog.timestamptz_cmp_timestamp(pg_catalog.timestamptz, pg_catalog.timestamp);

---- time_ops ----

CREATE OPERATOR FAMILY time_ops USING lsm_index;

CREATE OPERATOR CLASS time_ops
DEFAULT FOR TYPE pg_catalog.time USING lsm_index FAMILY time_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.time, pg_catalog.time),
	OPERATOR 2 pg_catalog.<= (pg_catalog.time, pg_catalog.time),
	OPERATOR 3 pg_catalog.= (pg_catalog.time, pg_catalog.time),
	OPERATOR 4 pg_catalog.>= (pg_catalog.time, pg_catalog.time),
	OPERATOR 5 pg_catalog.> (pg_catalog.time, pg_catalog.time),
	FUNCTION 1 (pg_catalog.time, pg_catalog.time) pg_catalog.time_cmp(pg_catalog.time, pg_catalog.time);

---- timetz_ops ----

CREATE OPERATOR FAMILY timetz_ops USING lsm_index;

CREATE OPERATOR CLASS timetz_ops
DEFAULT FOR TYPE pg_catalog.timetz USING lsm_index FAMILY timetz_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.timetz, pg_catalog.timetz),
	OPERATOR 2 pg_catalog.<= (pg_catalog.timetz, pg_catalog.timetz),
	OPERATOR 3 pg_catalog.= (pg_catalog.timetz, pg_catalog.timetz),
	OPERATOR 4 pg_catalog.>= (pg_catalog.timetz, pg_catalog.timetz),
	OPERATOR 5 pg_catalog.> (pg_catalog.timetz, pg_catalog.timetz),
	FUNCTION 1 (pg_catalog.timetz, pg_catalog.timetz) pg_catalog.timetz_cmp(pg_catalog.timetz, pg_catalog.timetz);

---- interval_ops ----

CREATE OPERATOR FAMILY interval_ops USING lsm_index;

CREATE OPERATOR CLASS interval_ops
DEFAULT FOR TYPE pg_catalog.interval USING lsm_index FAMILY interval_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.interval, pg_catalog.interval),
	OPERATOR 2 pg_catalog.<= (pg_catalog.interval, pg_catalog.interval),
	OPERATOR 3 pg_catalog.= (pg_catalog.interval, pg_catalog.interval),
	OPERATOR 4 pg_catalog.>= (pg_catalog.interval, pg_catalog.interval),
	OPERATOR 5 pg_catalog.> (pg_catalog.interval, pg_catalog.interval),
	FUNCTION 1 (pg_catalog.interval, pg_catalog.interval) pg_catalog.interval_cmp(pg_catalog.interval, pg_catalog.interval);

---- enum_ops ----

CREATE OPERATOR FAMILY enum_ops USING lsm_index;

CREATE OPERATOR CLASS enum_ops
DEFAULT FOR TYPE pg_catalog.anyenum USING lsm_index FAMILY enum_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.anyenum, pg_catalog.anyenum),
	OPERATOR 2 pg_catalog.<= (pg_catalog.anyenum, pg_catalog.anyenum),
	OPERATOR 3 pg_catalog.= (pg_catalog.anyenum, pg_catalog.anyenum),
	OPERATOR 4 pg_catalog.>= (pg_catalog.anyenum, pg_catalog.anyenum),
	OPERATOR 5 pg_catalog.> (pg_catalog.anyenum, pg_catalog.anyenum),
	FUNCTION 1 (pg_catalog.anyenum, pg_catalog.anyenum) pg_catalog.enum_cmp(pg_catalog.anyenum, pg_catalog.anyenum);

---- money_ops ----

CREATE OPERATOR FAMILY money_ops USING lsm_index;

CREATE OPERATOR CLASS money_ops
DEFAULT FOR TYPE pg_catalog.money USING lsm_index FAMILY money_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.money, pg_catalog.money),
	OPERATOR 2 pg_catalog.<= (pg_catalog.money, pg_catalog.money),
	OPERATOR 3 pg_catalog.= (pg_catalog.money, pg_catalog.money),
	OPERATOR 4 pg_catalog.>= (pg_catalog.money, pg_catalog.money),
	OPERATOR 5 pg_catalog.> (pg_catalog.money, pg_catalog.money),
	FUNCTION 1 (pg_catalog.money, pg_catalog.money) pg_catalog.cash_cmp(pg_catalog.money, pg_catalog.money);

---- pg_lsn_ops ----

CREATE OPERATOR FAMILY pg_lsn_ops USING lsm_index;

CREATE OPERATOR CLASS pg_lsn_ops
DEFAULT FOR TYPE pg_catalog.pg_lsn USING lsm_index FAMILY pg_lsn_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.pg_lsn, pg_catalog.pg_lsn),
	OPERATOR 2 pg_catalog.<= (pg_catalog.pg_lsn, pg_catalog.pg_lsn),
	OPERATOR 3 pg_catalog.= (pg_catalog.pg_lsn, pg_catalog.pg_lsn),
	OPERATOR 4 pg_catalog.>= (pg_catalog.pg_lsn, pg_catalog.pg_lsn),
	OPERATOR 5 pg_catalog.> (pg_catalog.pg_lsn, pg_catalog.pg_lsn),
	FUNCTION 1 (pg_catalog.pg_lsn, pg_catalog.pg_lsn) pg_catalog.pg_lsn_cmp(pg_catalog.pg_lsn, pg_catalog.pg_lsn);

---- tid_ops ----

CREATE OPERATOR FAMILY tid_ops USING lsm_index;

CREATE OPERATOR CLASS tid_ops
DEFAULT FOR TYPE pg_catalog.tid USING lsm_index FAMILY tid_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.tid, pg_catalog.tid),
	OPERATOR 2 pg_catalog.<= (pg_catalog.tid, pg_catalog.tid),
	OPERATOR 3 pg_catalog.= (pg_catalog.tid, pg_catalog.tid),
	OPERATOR 4 pg_catalog.>= (pg_catalog.tid, pg_catalog.tid),
	OPERATOR 5 pg_catalog.> (pg_catalog.tid, pg_catalog.tid),
	FUNCTION 1 (pg_catalog.tid, pg_catalog.tid) pg_catalog.bttidcmp(pg_catalog.tid, pg_catalog.tid);

---- xid8_ops ----

CREATE OPERATOR FAMILY xid8_ops USING lsm_index;

CREATE OPERATOR CLASS xid8_ops
DEFAULT FOR TYPE pg_catalog.xid8 USING lsm_index FAMILY xid8_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.xid8, pg_catalog.xid8),
	OPERATOR 2 pg_catalog.<= (pg_catalog.xid8, pg_catalog.xid8),
	OPERATOR 3 pg_catalog.= (pg_catalog.xid8, pg_catalog.xid8),
	OPERATOR 4 pg_catalog.>= (pg_catalog.xid8, pg_catalog.xid8),
	OPERATOR 5 pg_catalog.> (pg_catalog.xid8, pg_catalog.xid8),
	FUNCTION 1 (pg_catalog.xid8, pg_catalog.xid8) pg_catalog.xid8cmp(pg_catalog.xid8, pg_catalog.xid8);

---- network_ops ----

CREATE OPERATOR FAMILY network_ops USING lsm_index;

CREATE OPERATOR CLASS inet_ops
DEFAULT FOR TYPE pg_catalog.inet USING lsm_index FAMILY network_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.inet, pg_catalog.inet),
	OPERATOR 2 pg_catalog.<= (pg_catalog.inet, pg_catalog.inet),
	OPERATOR 3 pg_catalog.= (pg_catalog.inet, pg_catalog.inet),
	OPERATOR 4 pg_catalog.>= (pg_catalog.inet, pg_catalog.inet),
	OPERATOR 5 pg_catalog.> (pg_catalog.inet, pg_catalog.inet),
	FUNCTION 1 (pg_catalog.inet, pg_catalog.inet) pg_catalog.network_cmp(pg_catalog.inet, pg_catalog.inet);

-- cidr is binary-coercible to inet
CREATE OPERATOR CLASS cidr_ops
FOR TYPE pg_catalog.inet USING lsm_index FAMILY network_ops AS
	STORAGE pg_catalog.inet;

---- macaddr_ops ----

CREATE OPERATOR FAMILY macaddr_ops USING lsm_index;

CREATE OPERATOR CLASS macaddr_ops
DEFAULT FOR TYPE pg_catalog.macaddr USING lsm_index FAMILY macaddr_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.macaddr, pg_catalog.macaddr),
	OPERATOR 2 pg_catalog.<= (pg_catalog.macaddr, pg_catalog.macaddr),
	OPERATOR 3 pg_catalog.= (pg_catalog.macaddr, pg_catalog.macaddr),
	OPERATOR 4 pg_catalog.>= (pg_catalog.macaddr, pg_catalog.macaddr),
	OPERATOR 5 pg_catalog.> (pg_catalog.macaddr, pg_catalog.macaddr),
	FUNCTION 1 (pg_catalog.macaddr, pg_catalog.macaddr) pg_catalog.macaddr_cmp(pg_catalog.macaddr, pg_catalog.macaddr);

---- macaddr8_ops ----

CREATE OPERATOR FAMILY macaddr8_ops USING lsm_index;

CREATE OPERATOR CLASS macaddr8_ops
DEFAULT FOR TYPE pg_catalog.macaddr8 USING lsm_index FAMILY macaddr8_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.macaddr8, pg_catalog.macaddr8),
	OPERATOR 2 pg_catalog.<= (pg_catalog.macaddr8, pg_catalog.macaddr8),
	OPERATOR 3 pg_catalog.= (pg_catalog.macaddr8, pg_catalog.macaddr8),
	OPERATOR 4 pg_catalog.>= (pg_catalog.macaddr8, pg_catalog.macaddr8),
	OPERATOR 5 pg_catalog.> (pg_catalog.macaddr8, pg_catalog.macaddr8),
	FUNCTION 1 (pg_catalog.macaddr8, pg_catalog.macaddr8) pg_catalog.macaddr8_cmp(pg_catalog.macaddr8, pg_catalog.macaddr8);

---- bit_ops ----

CREATE OPERATOR FAMILY bit_ops USING lsm_index;

CREATE OPERATOR CLASS bit_ops
DEFAULT FOR TYPE pg_catalog."bit" USING lsm_index FAMILY bit_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog."bit", pg_catalog."bit"),
	OPERATOR 2 pg_catalog.<= (pg_catalog."bit", pg_catalog."bit"),
	OPERATOR 3 pg_catalog.= (pg_catalog."bit", pg_catalog."bit"),
	OPERATOR 4 pg_catalog.>= (pg_catalog."bit", pg_catalog."bit"),
	OPERATOR 5 pg_catalog.> (pg_catalog."bit", pg_catalog."bit"),
	FUNCTION 1 (pg_catalog."bit", pg_catalog."bit") pg_catalog.bitcmp(pg_catalog."bit", pg_catalog."bit");

---- varbit_ops ----

CREATE OPERATOR FAMILY varbit_ops USING lsm_index;

CREATE OPERATOR CLASS varbit_ops
DEFAULT FOR TYPE pg_catalog.varbit USING lsm_index FAMILY varbit_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.varbit, pg_catalog.varbit),
	OPERATOR 2 pg_catalog.<= (pg_catalog.varbit, pg_catalog.varbit),
	OPERATOR 3 pg_catalog.= (pg_catalog.varbit, pg_catalog.varbit),
	OPERATOR 4 pg_catalog.>= (pg_catalog.varbit, pg_catalog.varbit),
	OPERATOR 5 pg_catalog.> (pg_catalog.varbit, pg_catalog.varbit),
	FUNCTION 1 (pg_catalog.varbit, pg_catalog.varbit) pg_catalog.varbitcmp(pg_catalog.varbit, pg_catalog.varbit);

---- oidvector_ops ----

CREATE OPERATOR FAMILY oidvector_ops USING lsm_index;

CREATE OPERATOR CLASS oidvector_ops
DEFAULT FOR TYPE pg_catalog.oidvector USING lsm_index FAMILY oidvector_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.oidvector, pg_catalog.oidvector),
	OPERATOR 2 pg_catalog.<= (pg_catalog.oidvector, pg_catalog.oidvector),
	OPERATOR 3 pg_catalog.= (pg_catalog.oidvector, pg_catalog.oidvector),
	OPERATOR 4 pg_catalog.>= (pg_catalog.oidvector, pg_catalog.oidvector),
	OPERATOR 5 pg_catalog.> (pg_catalog.oidvector, pg_catalog.oidvector),
	FUNCTION 1 (pg_catalog.oidvector, pg_catalog.oidvector) pg_catalog.btoidvectorcmp(pg_catalog.oidvector, pg_catalog.oidvector);

---- array_ops ----

CREATE OPERATOR FAMILY array_ops USING lsm_index;

CREATE OPERATOR CLASS array_ops
DEFAULT FOR TYPE pg_catalog.anyarray USING lsm_index FAMILY array_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.anyarray, pg_catalog.anyarray),
	OPERATOR 2 pg_catalog.<= (pg_catalog.anyarray, pg_catalog.anyarray),
	OPERATOR 3 pg_catalog.= (pg_catalog.anyarray, pg_catalog.anyarray),
	OPERATOR 4 pg_catalog.>= (pg_catalog.anyarray, pg_catalog.anyarray),
	OPERATOR 5 pg_catalog.> (pg_catalog.anyarray, pg_catalog.anyarray),
	FUNCTION 1 (pg_catalog.anyarray, pg_catalog.anyarray) pg_catalog.btarraycmp(pg_catalog.anyarray, pg_catalog.anyarray);

---- range_ops ----

CREATE OPERATOR FAMILY range_ops USING lsm_index;

CREATE OPERATOR CLASS range_ops
DEFAULT FOR TYPE pg_catalog.anyrange USING lsm_index FAMILY range_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.anyrange, pg_catalog.anyrange),
	OPERATOR 2 pg_catalog.<= (pg_catalog.anyrange, pg_catalog.anyrange),
	OPERATOR 3 pg_catalog.= (pg_catalog.anyrange, pg_catalog.anyrange),
	OPERATOR 4 pg_catalog.>= (pg_catalog.anyrange, pg_catalog.anyrange),
	OPERATOR 5 pg_catalog.> (pg_catalog.anyrange, pg_catalog.anyrange),
	FUNCTION 1 (pg_catalog.anyrange, pg_catalog.anyrange) pg_catalog.range_cmp(pg_catalog.anyrange, pg_catalog.anyrange);

---- multirange_ops ----

CREATE OPERATOR FAMILY multirange_ops USING lsm_index;

CREATE OPERATOR CLASS multirange_ops
DEFAULT FOR TYPE pg_catalog.anymultirange USING lsm_index FAMILY multirange_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.anymultirange, pg_catalog.anymultirange),
	OPERATOR 2 pg_catalog.<= (pg_catalog.anymultirange, pg_catalog.anymultirange),
	OPERATOR 3 pg_catalog.= (pg_catalog.anymultirange, pg_catalog.anymultirange),
	OPERATOR 4 pg_catalog.>= (pg_catalog.anymultirange, pg_catalog.anymultirange),
	OPERATOR 5 pg_catalog.> (pg_catalog.anymultirange, pg_catalog.anymultirange),
	FUNCTION 1 (pg_catalog.anymultirange, pg_catalog.anymultirange) pg_catalog.multirange_cmp(pg_catalog.anymultirange, pg_catalog.anymultirange);

---- record_ops ----

CREATE OPERATOR FAMILY record_ops USING lsm_index;

CREATE OPERATOR CLASS record_ops
DEFAULT FOR TYPE pg_catalog.record USING lsm_index FAMILY record_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.record, pg_catalog.record),
	OPERATOR 2 pg_catalog.<= (pg_catalog.record, pg_catalog.record),
	OPERATOR 3 pg_catalog.= (pg_catalog.record, pg_catalog.record),
	OPERATOR 4 pg_catalog.>= (pg_catalog.record, pg_catalog.record),
	OPERATOR 5 pg_catalog.> (pg_catalog.record, pg_catalog.record),
	FUNCTION 1 (pg_catalog.record, pg_catalog.record) pg_catalog.btrecordcmp(pg_catalog.record, pg_catalog.record);

---- jsonb_ops ----

CREATE OPERATOR FAMILY jsonb_ops USING lsm_index;

CREATE OPERATOR CLASS jsonb_ops
DEFAULT FOR TYPE pg_catalog.jsonb USING lsm_index FAMILY jsonb_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.jsonb, pg_catalog.jsonb),
	OPERATOR 2 pg_catalog.<= (pg_catalog.jsonb, pg_catalog.jsonb),
	OPERATOR 3 pg_catalog.= (pg_catalog.jsonb, pg_catalog.jsonb),
	OPERATOR 4 pg_catalog.>= (pg_catalog.jsonb, pg_catalog.jsonb),
	OPERATOR 5 pg_catalog.> (pg_catalog.jsonb, pg_catalog.jsonb),
	FUNCTION 1 (pg_catalog.jsonb, pg_catalog.jsonb) pg_catalog.jsonb_cmp(pg_catalog.jsonb, pg_catalog.jsonb);

---- tsvector_ops ----

CREATE OPERATOR FAMILY tsvector_ops USING lsm_index;

CREATE OPERATOR CLASS tsvector_ops
DEFAULT FOR TYPE pg_catalog.tsvector USING lsm_index FAMILY tsvector_ops AS
	OPERATOR 1 pg_catalog.< (pg_catalog.tsvector, pg_catalog.tsvector),
	OPERATOR 2 pg_catalog.<= (pg_catalog.tsvector, pg_catalog.tsvector),
	OPERATOR 3 pg_catalog.= (pg_catalog.tsvector, pg_catalog.tsvector),
	OPERATOR 4 pg_catalog.>= (pg_catalog.tsvector, pg_catalog.tsvector),
	OPERATOR 5 pg_catalog.> (pg_catalog.tsvector, pg_catalog.tsvector),
	FUNCTION 1 (pg_catalog.tsvector, pg_catalog.tsvector) pg_catalog.tsvector_cmp(pg_catalog.tsvector, pg_catalog.tsvector);
