# The schemas of four programs that keep their data in PostgreSQL, and the statements they send: etcd's keys in a table of
# revisions (kine), relations between users and objects (OpenFGA), a queue of jobs (River), YCSB's table.  Each runs in a
# database of heap and btree and in one that is all lsm, under en_US.UTF-8: same answers, and no plan, of constants or of
# parameters, has more sequential scans, sorts or filters than heap's.
use strict;
use warnings;
use JSON::PP;
use LsmTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $locpath = PostgreSQL::Test::Utils::tempdir();
my $locale = "LOCALE 'en_US.UTF-8'";
if (system("localedef -i en_US -f UTF-8 $locpath/en_US.UTF-8 >/dev/null 2>&1") == 0)
{
	system("localedef -i C -f UTF-8 $locpath/C.utf8 >/dev/null 2>&1") == 0
	  or system("cp -r /usr/lib/locale/C.utf8 $locpath/") == 0
	  or BAIL_OUT('no C.UTF-8');
	chmod 0755, $locpath;
	$ENV{LOCPATH} = $locpath;
}
else
{
	diag('NOT TESTED for want of localedef or its sources: libc; ICU in its place');
	$locale = q{LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'};
}

my $node = lsm_node('programs', conf => "autovacuum = off\nfsync = off\nmax_parallel_workers_per_gather = 0\ntimezone = UTC");
lsm_start($node);
$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template0 $locale") foreach qw(h l);
$node->safe_psql('l', 'CREATE EXTENSION lsmam');
$node->safe_psql('postgres', "ALTER DATABASE l SET $_") foreach 'default_table_access_method = lsm', 'lsm.default_index = lsm', 'lsm.constraint_index = auto';

# name => [ schema and rows, statements: [ name, types of parameters, statement, parameters... ] ]
# "rolled back": twice, the first time without a trace, so that both kinds of plan are run.
my $kinds = q{(ARRAY['pods','Pods','configmaps','events.k8s.io','leases'])};
my %programs;

$programs{revisions} = [ qq{
CREATE TABLE rev (id bigserial PRIMARY KEY, name text COLLATE "C", made int, gone int, first bigint, prev bigint, lease int, val bytea, old bytea);
CREATE INDEX ON rev (name);
CREATE INDEX ON rev (name, id);
CREATE INDEX ON rev (id, gone);
CREATE INDEX ON rev (prev);
CREATE UNIQUE INDEX rev_name_prev ON rev (name, prev);
CREATE INDEX ON rev (name, id DESC, gone);
INSERT INTO rev (name, made, gone, first, prev, lease, val) VALUES ('compact', 1, 0, 0, 0, 0, '');
-- 3000 keys, three revisions of each third, every seventh deleted in the end
INSERT INTO rev (name, made, gone, first, prev, lease, val)
	SELECT '/registry/' || $kinds\[1 + i % 5] || '/ns-' || i % 7 || '/' || md5(i::text), 1, 0, 0, 0, i % 3, decode(repeat(md5(i::text), 9), 'hex') FROM generate_series(1, 3000) i;
INSERT INTO rev (name, made, gone, first, prev, lease, val, old) SELECT name, 0, 0, id, id, lease, val || '\\x01', val FROM rev WHERE id > 1 AND id % 3 = 0 ORDER BY id;
INSERT INTO rev (name, made, gone, first, prev, lease, val, old) SELECT name, 0, (id % 7 = 0)::int, first, id, lease, val || '\\x02', val FROM rev WHERE id > 3001 ORDER BY id;
UPDATE rev SET prev = 40 WHERE name = 'compact';
}, [
	[ 'head', '', q{SELECT max(id), (SELECT max(prev) FROM rev WHERE name = 'compact') FROM rev}, '' ],
	[ 'one key', 'text, bool', q{WITH i AS (SELECT max(id) FROM rev WHERE name = $1), m AS (SELECT id, name, gone, val FROM rev WHERE id = (SELECT * FROM i) AND (gone = 0 OR $2))
		SELECT * FROM (SELECT max(id) FROM rev) h, (SELECT * FROM m UNION ALL SELECT NULL, NULL, NULL, NULL WHERE NOT EXISTS (SELECT FROM m)) x},
		map { "'/registry/$_', false" } ('pods/ns-5/' . 'e4da3b7fbbce2345d7772b0674a318d5', 'absent', 'Pods/ns-0/' . '8f14e45fceea167a5a36dedd4bea2543') ],
	[ 'one key at a revision', 'text, bigint', q{SELECT id, name, gone, val FROM rev WHERE id = (SELECT max(id) FROM rev WHERE name = $1 AND id <= $2)},
		q{'/registry/pods/ns-5/e4da3b7fbbce2345d7772b0674a318d5', 3500}, q{'/registry/pods/ns-5/e4da3b7fbbce2345d7772b0674a318d5', 2} ],
	(map { my ($what, $at, $limit) = @$_; [ "page of keys$what", 'text, text, bigint', qq{WITH i AS (SELECT DISTINCT ON (name) name AS n, id, gone AS g FROM rev WHERE name >= \$1 AND name < \$2 $at ORDER BY n, id DESC)
		SELECT id, name, first, prev, md5(val) FROM rev JOIN i USING (id) WHERE g = 0 ORDER BY n $limit},
		q{'/registry/Pods/', '/registry/Pods0', 9000}, q{'/registry/', '/registry0', 3600}, q{'/registry/pods/ns-1/5', '/registry/pods0', 3600}, q{'/registry/x', '/registry/y', 4000} ] }
		['', 'AND $3 > 0', 'LIMIT 50'], [' at a revision', 'AND id <= $3', 'LIMIT 50'], [', all of them', 'AND $3 > 0', '']),
	[ 'count', 'text, text', q{SELECT (SELECT max(id) FROM rev), count(id) FROM rev JOIN (SELECT max(id) AS id FROM rev WHERE name >= $1 AND name < $2 GROUP BY name) m USING (id) WHERE gone = 0},
		q{'/registry/Pods/', '/registry/Pods0'}, q{'/registry/leases/ns-3', '/registry/leases/ns-4'} ],
	[ 'changes of a prefix', 'text, text, bigint', q{SELECT id, name, gone, prev, md5(val), md5(old) FROM rev WHERE name >= $1 AND name < $2 AND id > $3 ORDER BY id},
		q{'/registry/pods/', '/registry/pods0', 4900}, q{'/registry/Pods/', '/registry/Pods0', 0} ],
	[ 'changes', 'bigint', q{SELECT id, name, gone, prev FROM rev WHERE id > $1 ORDER BY id LIMIT 500}, 4950, 10 ],
	[ 'create', 'text, bigint, bigint', q{INSERT INTO rev (name, made, gone, first, prev, lease, val, old)
		SELECT $1, 1, 0, (SELECT first FROM rev WHERE id = $2 AND gone = 0), $3, 0, '\x03', (SELECT val FROM rev WHERE id = $2 AND gone = 0)
		WHERE coalesce((SELECT max(id) FROM rev WHERE name = $1), 0) = $2 RETURNING id, first, md5(old)},
		q{'/registry/pods/new', 0, 0}, q{'/registry/pods/new', 5005, 5005}, q{'/registry/pods/new', 0, 5005}, q{'/registry/pods/new', 5006, 0} ],
	[ 'compaction', 'bigint, bigint', q{DELETE FROM rev r USING (SELECT prev AS id FROM rev WHERE name <> 'compact' AND prev <> 0 AND id > $1 AND id <= $2
		UNION ALL SELECT id FROM rev WHERE gone <> 0 AND id > $1 AND id <= $2) x WHERE r.id = x.id}, '0, 4000', '4000, 4020', '4020, 4900' ],
	[ 'compacted until', 'bigint', q{UPDATE rev SET prev = $1 WHERE name = 'compact'}, 4900 ],
	[ 'what is left', '', q{SELECT count(*), md5(string_agg(r::text, ',' ORDER BY id)) FROM rev r}, '' ] ] ];

$programs{relations} = [ q{
CREATE TABLE rel (store text NOT NULL, object_type text NOT NULL, object text NOT NULL, relation text NOT NULL, subject text NOT NULL, subject_type text NOT NULL,
	ulid text NOT NULL, at timestamptz NOT NULL, cond text, PRIMARY KEY (store, object_type, object, relation, subject));
CREATE INDEX ON rel (store, object_type, object, relation, subject) WHERE subject_type = 'user';
CREATE INDEX ON rel (store, object_type, object, relation, subject) WHERE subject_type = 'userset';
CREATE UNIQUE INDEX rel_ulid ON rel (ulid);
CREATE INDEX CONCURRENTLY rel_of_user ON rel (store, subject, relation, object_type, object COLLATE "C");
CREATE TABLE changes (store text, ulid text, object_type text, object text, relation text, subject text, op int, at timestamptz NOT NULL, PRIMARY KEY (store, ulid, object_type));
CREATE TABLE models (store text, model text, type text, definition bytea, PRIMARY KEY (store, model, type));
CREATE TABLE stores (id text PRIMARY KEY, name text NOT NULL, made timestamptz, gone timestamptz);
CREATE TABLE assertions (store text, model text, body bytea, PRIMARY KEY (store, model));
INSERT INTO stores SELECT '01H' || i, 'Store ' || i % 9, timestamptz '2024-01-01' + i * interval '1 h', CASE WHEN i % 5 = 0 THEN timestamptz '2024-06-01' END FROM generate_series(1000, 1400) i;
INSERT INTO models SELECT '01H1001', '01M' || i, t, decode(md5(i || t), 'hex') FROM generate_series(100, 199) i, unnest('{doc,Group,folder}'::text[]) t;
INSERT INTO rel SELECT '01H1001', t, o, r, s, CASE WHEN s LIKE '%#%' THEN 'userset' ELSE 'user' END, '01J' || lpad(i::text, 8, '0'), timestamptz '2024-02-01' + i * interval '1 s', CASE WHEN i % 50 = 0 THEN 'weekday' END
	FROM (SELECT i, (ARRAY['doc','doc','folder','Group'])[1 + i % 4] AS t, (ARRAY['readme-','Readme_','ré','x.y '])[1 + i % 3] || i % 1700 AS o, (ARRAY['viewer','owner','parent'])[1 + i / 7 % 3] AS r,
		CASE WHEN i % 11 = 0 THEN 'Group:g' || i % 40 || '#member' WHEN i % 97 = 0 THEN 'user:*' ELSE 'user:' || (ARRAY['anne','Anne','Zoë','bob-'])[1 + i % 4] || i % 230 END AS s FROM generate_series(1, 9000) i) x
	ON CONFLICT DO NOTHING;
INSERT INTO changes SELECT store, ulid, object_type, object, relation, subject, 0, at FROM rel;
}, [
	[ 'page', 'text, text', q{SELECT object_type, object, relation, subject, ulid FROM rel WHERE store = $1 AND ulid >= $2 ORDER BY ulid LIMIT 51}, q{'01H1001', ''}, q{'01H1001', '01J00004711'} ],
	[ 'of an object', 'text, text, text', q{SELECT relation, subject, ulid FROM rel WHERE store = $1 AND object_type = $2 AND object = $3 ORDER BY ulid LIMIT 21},
		q{'01H1001', 'doc', 'readme-300'}, q{'01H1001', 'doc', 'README-300'} ],
	[ 'users of an object', 'text, text, text, text', q{SELECT subject, ulid FROM rel WHERE store = $1 AND object_type = $2 AND object = $3 AND relation = $4 AND subject LIKE 'user:%' ORDER BY ulid},
		q{'01H1001', 'doc', 'readme-300', 'viewer'} ],
	[ 'objects of a user', 'text, text, text', q{SELECT object, relation FROM rel WHERE store = $1 AND object_type = $2 AND subject = $3 ORDER BY ulid LIMIT 21}, q{'01H1001', 'doc', 'user:anne44'} ],
	[ 'check', 'text, text, text, text, text', q{SELECT ulid, cond FROM rel WHERE store = $1 AND object_type = $2 AND object = $3 AND relation = $4 AND subject = $5 AND subject_type = 'user'},
		q{'01H1001', 'doc', 'readme-300', 'viewer', 'user:anne70'}, q{'01H1001', 'doc', 'readme-300', 'viewer', 'user:Anne70'} ],
	[ 'check on a condition', 'text, text, text, text, text', q{SELECT ulid FROM rel WHERE store = $1 AND object_type = $2 AND object = $3 AND relation = $4 AND subject = $5 AND coalesce(cond, '') IN ('', 'weekday')},
		q{'01H1001', 'doc', 'readme-300', 'viewer', 'user:anne110'} ],
	[ 'usersets', 'text, text, text, text', q{SELECT subject FROM rel WHERE store = $1 AND subject_type = 'userset' AND object_type = $2 AND object = $3 AND relation = $4
		AND (subject LIKE 'Group:%#member' OR subject = 'user:*') ORDER BY subject}, q{'01H1001', 'doc', 'readme-0', 'viewer'}, q{'01H1001', 'folder', 'ré1', 'parent'} ],
	[ 'by user', 'text, text, text, text, text', q{SELECT object, subject, ulid FROM rel WHERE store = $1 AND object_type = $2 AND relation = $3 AND subject IN ($4, $5) ORDER BY object COLLATE "C", subject COLLATE "C"},
		q{'01H1001', 'doc', 'viewer', 'user:anne44', 'user:*'}, q{'01H1001', 'doc', 'viewer', 'user:ANNE44', 'Group:g0#member'} ],
	[ 'by one user', 'text, text, text, text', q{SELECT object, ulid FROM rel WHERE store = $1 AND object_type = $2 AND relation = $3 AND subject = $4 ORDER BY object COLLATE "C"}, q{'01H1001', 'doc', 'viewer', 'user:anne44'} ],
	[ 'by user of some objects', 'text, text, text, text', q{SELECT object FROM rel WHERE store = $1 AND object_type = $2 AND relation = $3 AND subject = $4
		AND object IN ('readme-44', 'readme-504', 'readme-964', 'x.y 0', 'none') ORDER BY object COLLATE "C"}, q{'01H1001', 'doc', 'viewer', 'user:anne44'} ],
	[ 'locks', 'text', q{SELECT object, subject, ulid FROM rel WHERE store = $1 AND (object_type, object, relation, subject, subject_type) IN (('doc', 'readme-300', 'viewer', 'user:anne70', 'user'),
		('doc', 'readme-300', 'owner', 'user:none', 'user'), ('folder', 'ré1', 'parent', 'user:none', 'user')) FOR UPDATE}, q{'01H1001'} ],
	[ 'write', 'text, text', q{INSERT INTO rel VALUES ('01H1001', 'doc', $1, 'owner', 'user:new', 'user', $2, '2025-01-01', NULL), ('01H1001', 'doc', $1, 'viewer', 'user:new', 'user', $2 || 'b', '2025-01-01', NULL)},
		q{'Readme', '01K1'}, q{'readme', '01K2'}, q{'Readme', '01K3'}, q{'rEadme', '01K1'} ],
	[ 'delete', 'text', q{DELETE FROM rel WHERE store = '01H1001' AND (object_type = 'doc' AND object = $1 AND relation = 'owner' AND subject = 'user:new' AND subject_type = 'user'
		OR object_type = 'doc' AND object = $1 AND relation = 'viewer' AND subject = 'user:new' AND subject_type = 'user') RETURNING ulid}, q{'Readme'}, q{'README'} ],
	[ 'changes', 'text, text', q{SELECT ulid, object, op FROM changes WHERE store = $1 AND at < '2030-01-01' AND ulid > $2 ORDER BY ulid LIMIT 50}, q{'01H1001', '01J00000300'} ],
	[ 'changes back', 'text, text', q{SELECT ulid, object, op FROM changes WHERE store = $1 AND at < '2030-01-01' AND object_type = 'folder' AND ulid < $2 ORDER BY ulid DESC LIMIT 50}, q{'01H1001', '01J00004000'} ],
	[ 'latest model', 'text', q{SELECT model, type, definition FROM models WHERE store = $1 ORDER BY model DESC LIMIT 3}, q{'01H1001'} ],
	[ 'models', 'text, text', q{SELECT DISTINCT model FROM models WHERE store = $1 AND model <= $2 ORDER BY model DESC LIMIT 11}, q{'01H1001', '01M150'} ],
	[ 'stores', 'text', q{SELECT id, name FROM stores WHERE gone IS NULL AND id >= $1 ORDER BY id LIMIT 11}, q{''}, q{'01H1200'} ],
	[ 'assertions', 'text, bytea', q{INSERT INTO assertions VALUES ('01H1001', $1, $2) ON CONFLICT (store, model) DO UPDATE SET body = $2 RETURNING model, body, xmax <> 0}, q{'01M150', 'a'}, q{'01M150', 'b'}, q{'01m150', 'c'} ],
	[ 'what is left', '', q{SELECT count(*), md5(string_agg(r::text, ',' ORDER BY ulid COLLATE "C")) FROM rel r}, '' ] ] ];

$programs{jobs} = [ q{
CREATE TYPE job_state AS ENUM ('available', 'cancelled', 'completed', 'discarded', 'retryable', 'running', 'scheduled');
CREATE FUNCTION in_states(bit(8), job_state) RETURNS boolean LANGUAGE sql IMMUTABLE AS
	$$SELECT CASE $2 WHEN 'available' THEN get_bit($1, 7) WHEN 'retryable' THEN get_bit($1, 2) WHEN 'running' THEN get_bit($1, 1) WHEN 'scheduled' THEN get_bit($1, 0) ELSE 0 END = 1$$;
CREATE TABLE job (id bigserial PRIMARY KEY, state job_state NOT NULL DEFAULT 'available', attempt smallint NOT NULL DEFAULT 0, attempted timestamptz, finalized timestamptz, due timestamptz NOT NULL,
	priority smallint NOT NULL DEFAULT 1 CHECK (priority BETWEEN 1 AND 4), args jsonb NOT NULL, errors jsonb[], attempted_by text[], kind text NOT NULL, queue text NOT NULL DEFAULT 'default', tags varchar(255)[], metadata jsonb NOT NULL DEFAULT '{}',
	CHECK ((finalized IS NULL) = (state NOT IN ('cancelled', 'completed', 'discarded'))));
CREATE INDEX ON job (kind);
CREATE INDEX ON job (state, finalized) WHERE finalized IS NOT NULL;
CREATE INDEX ON job (state, queue, priority, due, id);
CREATE INDEX ON job USING gin (args);
ALTER TYPE job_state ADD VALUE 'pending' AFTER 'discarded';
ALTER TABLE job ADD COLUMN key bytea, ADD COLUMN states bit(8);
CREATE UNIQUE INDEX job_key ON job (key) WHERE key IS NOT NULL AND states IS NOT NULL AND in_states(states, state);
CREATE UNLOGGED TABLE leader (name text PRIMARY KEY DEFAULT 'default', id text NOT NULL, until timestamptz NOT NULL);
INSERT INTO job (state, finalized, due, priority, args, kind, queue, tags, attempted, attempt)
	SELECT s, CASE WHEN s IN ('cancelled', 'completed', 'discarded') THEN timestamptz '2024-01-01' + i * interval '1 min' END, timestamptz '2024-01-01' + i % 1000 * interval '1 s', 1 + i % 4,
		jsonb_build_object('n', i, 'who', md5((i % 100)::text)), (ARRAY['Email','email','e-mail','sync','Report'])[1 + i % 5], CASE WHEN i % 6 = 0 THEN 'Other' ELSE 'default' END, ARRAY['t' || i % 3],
		CASE WHEN s = 'running' THEN timestamptz '2024-01-02' + i * interval '1 s' END, (i % 3)::smallint
	FROM (SELECT i, CASE WHEN i % 10 < 6 THEN 'completed' WHEN i % 10 = 6 THEN 'available' WHEN i % 10 = 7 THEN 'scheduled' WHEN i % 50 = 8 THEN 'cancelled' WHEN i % 50 = 18 THEN 'discarded' WHEN i % 50 = 28 THEN 'running' ELSE 'retryable' END::job_state AS s
		FROM generate_series(1, 8000) i) x;
}, [
	[ 'insert', 'int', q{INSERT INTO job (due, args, kind, queue) SELECT unnest(ARRAY['2024-05-01', '2024-05-02']::timestamptz[]), unnest(ARRAY['{"n": 1}', '{"n": 2}']::jsonb[]), 'sync', 'q' || $1 RETURNING id, state, args}, 1, 2 ],
	[ 'insert one of its kind', 'bytea, text', q{INSERT INTO job (due, args, kind, key, states) VALUES ('2024-05-01', '{}', $2, $1, B'11110101')
		ON CONFLICT (key) WHERE key IS NOT NULL AND states IS NOT NULL AND in_states(states, state) DO UPDATE SET kind = job.kind RETURNING id, kind, xmax <> 0}, q{'k1', 'Uniq'}, q{'k1', 'uniq'}, q{'K1', 'Uniq'}, q{'k1', 'Uniq'} ],
	[ 'take jobs', 'text, int, timestamptz', q{WITH locked AS (SELECT * FROM job WHERE state = 'available' AND queue = $1 AND due <= $3 ORDER BY priority, due, id LIMIT $2 FOR UPDATE SKIP LOCKED)
		UPDATE job SET state = 'running', attempt = job.attempt + 1, attempted = $3, attempted_by = array_append(job.attempted_by, 'w1') FROM locked WHERE job.id = locked.id RETURNING job.id, job.priority, job.due},
		q{'default', 20, '2024-01-01 00:10'}, q{'Other', 5, '2024-06-01'}, q{'default', 7, '2024-06-01'}, q{'OTHER', 7, '2024-06-01'} ],
	[ 'finish', 'bigint[], text[]', q{WITH i AS (SELECT unnest($1) AS id, unnest($2)::job_state AS state), u AS (UPDATE job SET state = CASE WHEN job.state = 'running' THEN i.state ELSE job.state END,
		finalized = CASE WHEN job.state = 'running' AND i.state = 'completed' THEN timestamptz '2024-07-01' ELSE finalized END, errors = CASE WHEN i.state = 'retryable' THEN array_append(errors, '{"e": 1}') ELSE errors END
		FROM i WHERE job.id = i.id AND job.state = 'running' RETURNING job.*)
		SELECT id, state, finalized, errors FROM job JOIN i USING (id, state) WHERE NOT EXISTS (SELECT FROM u WHERE u.id = job.id) UNION ALL SELECT id, state, finalized, errors FROM u ORDER BY id},
		q{'{28,78,128,36}', '{completed,retryable,completed,completed}'}, q{'{28,178}', '{completed,retryable}'} ],
	[ 'schedule', 'timestamptz, int', q{WITH s AS (SELECT id, key, priority, due FROM job WHERE state IN ('retryable', 'scheduled') AND priority >= 0 AND queue IS NOT NULL AND due <= $1 ORDER BY priority, due, id LIMIT $2 FOR UPDATE),
		n AS (SELECT *, CASE WHEN key IS NOT NULL THEN row_number() OVER (PARTITION BY key ORDER BY priority, due, id) END AS nr FROM s),
		u AS (UPDATE job SET state = CASE WHEN coalesce(nr, 1) = 1 THEN 'available' ELSE 'discarded' END::job_state FROM n WHERE job.id = n.id RETURNING job.id)
		SELECT job.id, job.due FROM job JOIN u ON u.id = job.id ORDER BY 1}, q{'2024-01-01 00:01', 30}, q{'2024-01-01 00:01', 3}, q{'2023-01-01', 3} ],
	[ 'stuck', 'bigint, timestamptz', q{SELECT id, attempted FROM job WHERE state = 'running' AND id > $1 AND attempted < $2 ORDER BY id LIMIT 10}, q{0, '2025-01-01'}, q{5000, '2024-01-02 02:00'} ],
	[ 'count by state', '', q{SELECT state, count(*) FROM job GROUP BY state ORDER BY state}, '' ],
	[ 'count of queues', 'text[]', q{SELECT queue, count(*) FROM job WHERE queue = ANY ($1) AND state = 'available' GROUP BY queue ORDER BY queue}, q{'{default,Other,other}'} ],
	[ 'list', 'text[], bigint', q{SELECT id, kind, state FROM job WHERE kind = ANY ($1) AND id < $2 ORDER BY id DESC LIMIT 20}, q{'{Email,email}', 9999}, q{'{EMAIL}', 9999} ],
	[ 'list by state and time', 'timestamptz', q{SELECT id, finalized FROM job WHERE state = 'completed' AND finalized IS NOT NULL AND finalized < $1 ORDER BY finalized DESC, id DESC LIMIT 20}, q{'2024-01-03'} ],
	[ 'kinds', 'text', q{SELECT DISTINCT ON (kind) kind FROM job WHERE ($1 = '' OR kind > $1) ORDER BY kind LIMIT 3}, q{''}, q{'email'}, q{'Report'} ],
	[ 'by content', 'jsonb', q{SELECT id FROM job WHERE args @> $1 ORDER BY id}, q{'{"n": 77}'}, q{'{"n": 2}'} ],
	[ 'lead', 'text, timestamptz', q{INSERT INTO leader (id, until) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET until = $2 WHERE leader.id = $1 RETURNING id, until}, q{'a', '2024-01-01'}, q{'b', '2024-01-02'}, q{'a', '2024-01-03'} ],
	[ 'delete old', 'timestamptz, int', q{DELETE FROM job WHERE id IN (SELECT id FROM job WHERE (state = 'cancelled' AND finalized < $1 OR state = 'completed' AND finalized < $1 OR state = 'discarded' AND finalized < $1) ORDER BY id LIMIT $2)},
		q{'2024-01-02', 100}, q{'2024-01-02', 10000} ],
	[ 'what is left', '', q{SELECT count(*), md5(string_agg((j.id, state, attempt, attempted, finalized, due, args, errors, attempted_by, kind, queue, key, states)::text, ',' ORDER BY id)) FROM job j}, '' ] ] ];

$programs{ycsb} = [ q{
CREATE TABLE usertable (YCSB_KEY varchar(64) PRIMARY KEY, field0 varchar(100), field1 varchar(100), field2 varchar(100));
INSERT INTO usertable SELECT 'user' || (i * 7919::bigint * 1000003) % 1000000007, repeat(md5(i::text), 3), md5('b' || i), '' FROM generate_series(1, 5000) i;
}, [
	[ 'read', 'varchar', q{SELECT * FROM usertable WHERE ycsb_key = $1}, q{'user924480757'}, q{'user1'}, q{'USER924480757'} ],
	[ 'scan', 'varchar, int', q{SELECT ycsb_key, field1 FROM usertable WHERE ycsb_key >= $1 ORDER BY ycsb_key LIMIT $2}, q{'user5', 30}, q{'USER5', 30}, q{'zz', 1}, q{'', 3} ],
	[ 'update', 'varchar, varchar', q{UPDATE usertable SET field2 = $2 WHERE ycsb_key = $1 RETURNING field0}, q{'user924480757', 'x'}, q{'user1', 'x'} ],
	[ 'insert', 'varchar', q{INSERT INTO usertable (ycsb_key, field0) VALUES ($1, 'new') ON CONFLICT DO NOTHING RETURNING ycsb_key}, q{'user1'}, q{'user1'}, q{'User1'} ],
	[ 'delete', 'varchar', q{DELETE FROM usertable WHERE ycsb_key = $1 RETURNING field0}, q{'user1'}, q{'user1'} ],
	[ 'what is left', '', q{SELECT count(*), md5(string_agg(u::text, ',' ORDER BY ycsb_key COLLATE "C")) FROM usertable u}, '' ] ] ];

# What psql prints, errors included
sub output
{
	my ($db, $script) = @_;
	my $out = '';
	IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr($db) ], '<', \$script, '>', \$out, '2>&1');
	return $out;
}

# Counts of what a plan has, and the plan in short
sub count_nodes
{
	my ($plan, $n, $short, $depth) = @_;
	my $type = $plan->{'Node Type'};
	$n->{'Seq Scan'}++ if $type eq 'Seq Scan';
	$n->{Sort}++ if $type =~ /Sort/;
	# behind a bitmap: indexes of as many columns cost the same
	$n->{Filter}++ if $plan->{Filter} && $type =~ /^(Index|Index Only|Seq) Scan$/;
	$$short .= ('  ' x $depth) . join(' ', grep { defined } $type, @{$plan}{ 'Index Name', 'Index Cond', 'Filter' }) . "\n";
	count_nodes($_, $n, $short, $depth + 1) foreach @{ $plan->{Plans} // [] };
	return;
}

my $json = JSON::PP->new->relaxed;
my $plans = 0;
foreach my $program (sort keys %programs)
{
	my ($schema, $statements) = @{ $programs{$program} };
	$node->safe_psql($_, "CREATE SCHEMA $program") foreach qw(h l);
	local $ENV{PGOPTIONS} = "-c search_path=$program,public";
	my %made = map { $_ => output($_, $schema) } qw(h l);
	is($made{h}, '', "$program: schema and rows");
	is($made{l}, '', "$program: the same of lsm, without a notice");
	# whatever the worker has flushed and compacted meanwhile
	$node->safe_psql('l', q{SELECT lsm_compact(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE amname IN ('lsm', 'lsm_index') AND relnamespace = current_schema()::regnamespace});
	$node->safe_psql($_, 'VACUUM ANALYZE') foreach qw(h l);
	is($node->safe_psql('l', q{SELECT string_agg(c.relname, ' ') FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relnamespace = current_schema()::regnamespace AND amname NOT IN ('lsm', 'lsm_index', 'gin')}),
		'', "$program: every table and index is lsm");

	my $script = '';
	foreach my $i (0 .. $#$statements)
	{
		my ($name, $types, $sql, @parameters) = @{ $statements->[$i] };
		my @calls = map { $_ eq '' ? "s$i" : "s$i($_)" } @parameters;
		$types = "($types)" if $types ne '';
		$script .= "PREPARE s$i $types AS $sql;\n";
		foreach my $mode ('force_custom_plan', 'force_generic_plan')
		{
			$script .= "SET plan_cache_mode = $mode;\n\\echo == plan $i $mode\nEXPLAIN (FORMAT JSON, COSTS OFF) EXECUTE $calls[0];\n\\echo == answers $i $mode\n";
			$script .= "BEGIN; EXECUTE $_; ROLLBACK;\n" foreach $mode =~ /generic/ ? () : @calls;
			$script .= "EXECUTE $_;\n" foreach $mode =~ /generic/ ? @calls : ();
		}
	}
	# numbers that the rolled back have drawn are the same in both
	my %parts;
	foreach my $db (qw(h l))
	{
		my (undef, @parts) = split /^== (.*)\n/m, output($db, $script);
		$parts{$db} = {@parts};
	}
	foreach my $i (0 .. $#$statements)
	{
		my $name = "$program, $statements->[$i][0]";
		foreach my $mode ('force_custom_plan', 'force_generic_plan')
		{
			my ($h, $l) = map { $parts{$_}{"answers $i $mode"} } qw(h l);
			is($l, $h, "$name: answers, $mode");
			my (%n, %short);
			foreach my $db (qw(h l))
			{
				my $text = $parts{$db}{"plan $i $mode"} // '';
				my $plan = eval { $json->decode($text) };
				if (!$plan) { fail("$name: no plan: $text"); next; }
				$n{$db} = {};
				$short{$db} = '';
				count_nodes($plan->[0]{Plan}, $n{$db}, \$short{$db}, 0);
			}
			my @more = grep { ($n{l}{$_} // 0) > ($n{h}{$_} // 0) } 'Seq Scan', 'Sort', 'Filter';
			ok(!@more, "$name: plan, $mode") or diag("more of: @more\nheap:\n$short{h}lsm:\n$short{l}");
			$plans++;
		}
	}
	is($node->safe_psql('l', q{SELECT c.relname, v.* FROM pg_class c JOIN pg_am a ON a.oid = relam, LATERAL lsm_verify(c.oid) v WHERE amname IN ('lsm', 'lsm_index') AND relnamespace = current_schema()::regnamespace}), '', "$program: lsm_verify");
}
cmp_ok($plans, '>', 80, 'plans were compared');

$node->stop;
done_testing();
