#!/bin/bash
# src/test/apps/run.sh: the test suites of SQLAlchemy and Django on lsm tables, compared with heap.
#
#   APPS="sqlalchemy django"
#   APPS_SQLALCHEMY, APPS_DJANGO        pytest paths, labels of Django's tests, instead of the selection below
#   APPS_PIP_ARGS                       for pip: an index of your own, a proxy
#   LSM_KEEP=1                          keeps the scratch directory
#
# The source packages come from PyPI into a scratch directory, with a virtual environment there.  One
# throwaway server; the role heap and the role lsm run the same tests in databases of their own, at the
# same time; lsm has default_table_access_method = lsm, keys are lsm indexes, those over text, too.  A test that
# fails under one role only is a difference: it has to be listed, with its reason, in
# src/test/apps/differences.  Tests that fail under both (they want a locale, say) are only counted.
#
# Afterwards every tree that the tests left is read by lsm_verify, and the server's log is searched for
# crashes and internal errors.  The last line is "N passed, N failed".
set -uo pipefail
{								# read as a whole: an hour may pass
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"

sqlalchemy_version=2.0.43
django_version=5.2.6
apps=${APPS:-sqlalchemy django}
sqlalchemy_tests=${APPS_SQLALCHEMY:-test/dialect/postgresql test/dialect/test_suite.py test/sql test/orm test/engine test/ext}
django_tests=${APPS_DJANGO:-queries transactions transaction_hooks select_for_update bulk_create update
	update_only_fields delete delete_regress constraints indexes schema introspection backends get_or_create
	aggregation aggregation_regress annotations basic custom_columns custom_pk datatypes dates
	datetimes db_functions db_typecasts db_utils defer distinct_on_fields empty expressions expressions_case
	expressions_window extra_regress filtered_relation fixtures force_insert_update foreign_object
	generic_relations inspectdb known_related_objects lookup m2m_and_m2o m2m_through many_to_many many_to_one
	max_lengths migrations model_fields model_inheritance multiple_database null_fk
	one_to_one or_lookups ordering postgres_tests prefetch_related raw_query reserved_names reverse_lookup
	save_delete_hooks select_related string_lookup timezones unmanaged_models validation}
passed=0
failed=0
sandbox=

finish() {
	local status=$?
	if [ -n "$sandbox" ]; then
		[ -f "$sandbox/data/postmaster.pid" ] && stop_server "$sandbox/data" immediate 2>/dev/null
		[ -n "${LSM_KEEP:-}" ] && echo "# kept: $sandbox" || rm -rf "$sandbox"
	fi
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ] && [ $status -eq 0 ] && [ $passed -gt 0 ]
	exit $?
}
trap finish EXIT
trap 'exit 130' INT TERM

section() { echo "=== $1 ($(date +%T))"; }
pass() { passed=$((passed + 1)); echo "ok - $1"; }
fail() { failed=$((failed + 1)); echo "not ok - $1"; }
check() { if "${@:2}"; then pass "$1"; else fail "$1"; fi; }

# ---- what is needed ----

new_sandbox apps
results=$sandbox/results
python=$sandbox/venv/bin/python
mkdir "$results"

section "packages"
python3 -m venv "$sandbox/venv" || { fail "python3 -m venv (package python3-venv)"; exit 1; }
# shellcheck disable=SC2086
pip() { "$python" -m pip --disable-pip-version-check -q "$@" ${APPS_PIP_ARGS:-}; }
pip install 'psycopg2-binary<3' 'pytest<9' typing_extensions greenlet asgiref sqlparse tblib &&
	pip download --no-deps --no-binary SQLAlchemy,Django -d "$sandbox" \
		"SQLAlchemy==$sqlalchemy_version" "Django==$django_version" || { fail "packages"; exit 1; }
for archive in "$sandbox"/*.tar.gz; do
	for am in heap lsm; do		# tests write files into the working directory
		mkdir -p "$sandbox/source/$am"
		tar xzf "$archive" -C "$sandbox/source/$am" || { fail "source packages"; exit 1; }
	done
done

section "build"
install_flavour release >"$sandbox/build.log" 2>&1 || { tail -30 "$sandbox/build.log"; fail "build"; exit 1; }

section "server"
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
server_conf="
listen_addresses = '127.0.0.1'
max_prepared_transactions = 20
default_text_search_config = 'pg_catalog.english'
fsync = off
shared_buffers = 256MB"
start_server "$sandbox/data" "$port" || { fail "server"; exit 1; }
export PGHOST=127.0.0.1 PGPORT=$port PGUSER=postgres
sql() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }
# a schema of its own: both suites drop whatever they find in public
for database in template1 postgres; do
	sql -d $database -c 'CREATE SCHEMA lsmam' -c 'CREATE EXTENSION lsmam SCHEMA lsmam' || { fail "extension"; exit 1; }
done
sql -d postgres <<'SQL' || { fail "roles"; exit 1; }
CREATE ROLE heap SUPERUSER LOGIN;
CREATE ROLE lsm SUPERUSER LOGIN;
ALTER ROLE lsm SET default_table_access_method = lsm;
ALTER ROLE lsm SET lsm.constraint_index = lsm;
SQL
for am in heap lsm; do
	for database in "sqlalchemy_$am" "django_$am"; do
		sql -d postgres -c "CREATE DATABASE $database OWNER $am"
		sql -d postgres -c "ALTER DATABASE $database SET default_table_access_method = $am"
	done
	sql -d "sqlalchemy_$am" -c 'CREATE EXTENSION hstore; CREATE EXTENSION citext' \
		-c 'CREATE SCHEMA test_schema; CREATE SCHEMA test_schema_2'
done

# ---- one suite as one role; leaves $results/<suite>.<am>.log, .summary and .failures ----

run_sqlalchemy() {
	local am=$1 out=$results/sqlalchemy.$1
	cd "$sandbox/source/$am/sqlalchemy-$sqlalchemy_version" || return
	# shellcheck disable=SC2086
	PYTHONPATH=lib "$python" -m pytest -q -p no:cacheprovider -p no:logging -rfE --tb=short --maxfail=100000 \
		--basetemp="$sandbox/pytest.$am" \
		--dburi "postgresql+psycopg2://$am@127.0.0.1:$port/sqlalchemy_$am" $sqlalchemy_tests >"$out.log" 2>&1
	tail -1 "$out.log" >"$out.summary"
	sed -nE 's/^(FAILED|ERROR) ([^ ].*)/\2/p' "$out.log" | sed -E 's/ - .*//' | sort -u >"$out.failures"
	grep -q ' passed' "$out.summary"
}

run_django() {
	local am=$1 out=$results/django.$1
	cd "$sandbox/source/$am/django-$django_version/tests" || return
	cat >"settings_$am.py" <<-PY
		DATABASES = {
		    name: {
		        "ENGINE": "django.db.backends.postgresql",
		        "NAME": "django_$am", "USER": "$am", "HOST": "127.0.0.1", "PORT": "$port",
		        "TEST": {"NAME": "test_${am}_" + name},
		    }
		    for name in ("default", "other")
		}
		SECRET_KEY = "lsmam"
		PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
		DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
		USE_TZ = False
	PY
	# --keepdb: for lsm_verify
	# shellcheck disable=SC2086
	PYTHONPATH=.. "$python" runtests.py --settings="settings_$am" --noinput --keepdb --parallel=1 \
		$django_tests >"$out.log" 2>&1
	grep -E '^(Ran [0-9]+ tests|OK|FAILED)' "$out.log" | tr '\n' ' ' >"$out.summary"
	sed -nE 's/^(FAIL|ERROR): (.*)/\2/p' "$out.log" | sort -u >"$out.failures"
	grep -q '^Ran ' "$out.summary"
}

# listed SUITE TEST: in the file of differences, which has lines "suite test" under a comment with the reason
listed() { grep -qxF -- "$1 $2" "$here/differences"; }

compare() {
	local suite=$1 side test
	for side in "lsm 23" "heap 13"; do
		comm -"${side#* }" "$results/$suite.lsm.failures" "$results/$suite.heap.failures" |
			while read -r test; do
				listed "$suite" "$test" || echo "fails on ${side% *} only: $test"
			done
	done >"$results/$suite.differences"
	cat "$results/$suite.differences"
	echo "# $suite: $(comm -12 "$results/$suite.lsm.failures" "$results/$suite.heap.failures" | wc -l) fail on both"
	[ ! -s "$results/$suite.differences" ]
}

for suite in $apps; do
	section "$suite"
	"run_$suite" heap &
	heap=$!
	"run_$suite" lsm &
	wait $!
	lsm_status=$?
	wait $heap
	heap_status=$?
	for am in heap lsm; do
		echo "# $am: $(cat "$results/$suite.$am.summary")"
	done
	check "$suite finishes on heap" test $heap_status -eq 0
	check "$suite finishes on lsm" test $lsm_status -eq 0
	check "$suite: as on heap" compare "$suite"
done

section "what the tests left"
problems=0
trees=0
for database in $(sql -d postgres -c "SELECT datname FROM pg_database WHERE datname ~ '_lsm|lsm_' AND datallowconn"); do
	trees=$((trees + $(sql -d "$database" -c "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE amname IN ('lsm', 'lsm_index') AND relkind IN ('r', 'm', 'i', 't')")))
	sql -d "$database" -c "SELECT c.oid::regclass, v.* FROM pg_class c JOIN pg_am a ON a.oid = c.relam,
		LATERAL lsmam.lsm_verify(c.oid) v
		WHERE amname IN ('lsm', 'lsm_index') AND relkind IN ('r', 'm', 'i', 't')" >"$results/verify.$database" 2>&1 ||
		problems=$((problems + 1))
	problems=$((problems + $(wc -l <"$results/verify.$database")))
	head -5 "$results/verify.$database"
done
# SQLAlchemy's leave none
[[ " $apps " == *" django "* && $trees -eq 0 ]] && problems=$((problems + 1))
check "lsm_verify finds nothing in $trees trees" test "$problems" -eq 0
grep -E 'PANIC|terminated by signal|ERROR:.*(pg_lsm|unexpected|could not (read|open|write))|WARNING:.*lsm' "$sandbox/data.log" |
	head -20 >"$results/log"
cat "$results/log"
check "no crash, no internal error in the server's log" test ! -s "$results/log"
exit 0
}
