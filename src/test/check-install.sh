#!/bin/bash
# What make install and make uninstall do with files, as TAP: DESTDIR and prefix.  By an ordinary
# user, so that nothing else can be written; nothing is compiled (make -t).  And install-deps.sh, with
# programs that stand in for Debian's: no service is started, and nothing is left of what forbids it.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

new_sandbox install
trap 'rm -rf "$sandbox"' EXIT
mkdir "$sandbox/src"
tar -C "$top" --exclude=./build --exclude=./.git --exclude='*.o' --exclude='*.so' -cf - . |
	tar -C "$sandbox/src" -xf -
[ "$(id -u)" -ne 0 ] || chown -R postgres "$sandbox/src"
pg_config=$(find_pg_config)
n=0
failed=0
is() {
	n=$((n + 1))
	if [ "$1" = "$2" ]; then
		echo "ok $n - $3"
	else
		echo "not ok $n - $3"
		diff <(echo "$2") <(echo "$1") | sed 's/^/# /'
		failed=$((failed + 1))
	fi
}
run() { as_postgres make -C "$sandbox/src" PG_CONFIG="$pg_config" "$@" >>"$sandbox/log" 2>&1; }
# below a directory: files, or what the extension should have, for directories of libraries, of
# share and of programs
files() { (cd "$1" && find . ! -type d | LC_ALL=C sort); }
wanted() {
	local file
	{
		echo "$1/lsmam.so"
		for file in lsmam.control lsmam--1.0.sql $(cd "$top/src/sql" && ls lsmam--*--*.sql); do
			echo "$2/extension/$file"
		done
		echo "$3/lsm_pg_upgrade"
	} | sed 's/^/./' | LC_ALL=C sort
}

cd /
run -t all
is $? 0 "the targets can be touched"
run install DESTDIR="$sandbox/src/dest"
is $? 0 "make install DESTDIR=..."
is "$(files "$sandbox/src/dest")" \
	"$(wanted "$("$pg_config" --pkglibdir)" "$("$pg_config" --sharedir)" "$("$pg_config" --bindir)")" \
	"it installs library, scripts and program below DESTDIR, and nothing else"
run uninstall DESTDIR="$sandbox/src/dest"
is "$(files "$sandbox/src/dest")" "" "make uninstall DESTDIR=... removes them"
run install DESTDIR="$sandbox/src/dest" prefix=/opt/lsmam
is "$(files "$sandbox/src/dest")" \
	"$(wanted /opt/lsmam/lib/postgresql /opt/lsmam/share/postgresql /opt/lsmam/bin)" \
	"make install prefix=... DESTDIR=..."
run uninstall DESTDIR="$sandbox/src/dest" prefix=/opt/lsmam
is "$(files "$sandbox/src/dest")" "" "make uninstall prefix=... DESTDIR=... removes them"
# every script between two versions leads on from 1.0
last=$(sed -n "s/^default_version = '\(.*\)'/\1/p" "$top/lsmam.control")
version=1.0
while [ "$version" != "$last" ] && step=$(cd "$top/src/sql" && ls "lsmam--$version--"*.sql 2>/dev/null); do
	version=${step#lsmam--*--}
	version=${version%.sql}
done
is "$version" "$last" "scripts lead from 1.0 to the default version"

# Stand-ins: no package is installed; apt-get says what its --assume-no says, and what the policy is when it installs.
mkdir -p "$sandbox/stubs" "$sandbox/root"
policy=$sandbox/root/usr/sbin/policy-rc.d
stub() { { echo '#!/bin/bash'; cat; } >"$sandbox/stubs/$1" && chmod 755 "$sandbox/stubs/$1"; }
stub dpkg-query <<<'exit 1'
stub id <<<'echo 0'
stub apt-get <<'SH'
case " $* " in
	*" update "*) exit 0 ;;
	*" --assume-no "*)
		echo "0 upgraded, 3 newly installed, 0 to remove and 1 not upgraded."
		echo "Need to get 1,200 kB/34.5 MB of archives."
		echo "After this operation, 101 MB of additional disk space will be used."
		exit 1
		;;
esac
sleep "${APT_SECONDS:-0}"
"$LSM_DEPS_ROOT/usr/sbin/policy-rc.d" etcd start
echo "policy: $?" >>"$LSM_DEPS_ROOT/said"
[ -z "$INTERRUPT" ] || kill -s "$INTERRUPT" $PPID
[ -z "$INTERRUPT" ] || sleep 0.2
exit ${APT_STATUS:-0}
SH
# deps [VARIABLE=value...]: what it said, what the policy was, and what is left
deps() {
	rm -f "$sandbox/root/said"
	env INTERRUPT= LSM_DEPS_ROOT="$sandbox/root" PATH="$sandbox/stubs:$PATH" "$@" "$top/src/test/install-deps.sh" none one two \
		</dev/null 2>&1 | grep -E '^deps: (wanted|[0-9])'
	cat "$sandbox/root/said"
	ls "$(dirname "$policy")"
}
mkdir -p "$(dirname "$policy")"
said="deps: wanted: one two
deps: 3 packages with what they need, 1 MB to fetch, 101 MB on disk; some 60 seconds
policy: 101"
is "$(deps)" "$said" "install-deps.sh says how much, forbids services to start, and takes that back"
for signal in INT TERM HUP; do
	is "$(deps INTERRUPT=$signal)" "$said" "... when it is interrupted by SIG$signal"
done
is "$(deps APT_STATUS=100)" "$said" "... and when apt-get fails"
# another one that has begun, and whose apt-get ends in the midst of ours
rm -f "$sandbox/root/said"
for seconds in 0.5 1; do
	env INTERRUPT= APT_SECONDS=$seconds LSM_DEPS_ROOT="$sandbox/root" PATH="$sandbox/stubs:$PATH" \
		"$top/src/test/install-deps.sh" none one two </dev/null >/dev/null 2>&1 &
done
wait
is "$(cat "$sandbox/root/said")" "policy: 101
policy: 101" "... and beside another one"
printf '#!/bin/sh\nexit 104\n' >"$policy"
chmod 755 "$policy"
is "$(deps && cat "$policy")" "${said%101}104
policy-rc.d
#!/bin/sh
exit 104" "a policy that was there before stays, and decides"
[ $failed -eq 0 ] || tail -20 "$sandbox/log" | sed 's/^/# /'
echo "1..$n"
[ $failed -eq 0 ]
