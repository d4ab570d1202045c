#!/bin/bash
# make check-pg PG=17 (or 18): check-pg.sh in the chroot of that version.  What
# it leaves in build/pg there is copied to build/pg-17.
set -uo pipefail
top=$(cd "$(dirname "$0")/../../.." && pwd)
major=${1:?usage: in-chroot.sh MAJOR}
export LSM_CHROOT_PACKAGES="dpkg-dev bzip2 xz-utils python3 bison flex zlib1g-dev"
"$top/src/test/check-chroot.sh" "$major" src/test/pg/check-pg.sh
status=$?
# no chroot, no results
[ $status -ne 2 ] && [ $status -ne 77 ] || exit $status
case $major in
	17) suite=trixie ;;
	*) suite=sid ;;
esac
results=${LSM_CHROOTS:-/var/cache/lsmam}/$suite/work/lsmam/build/pg
rm -rf "$top/build/pg-$major"
mkdir -p "$top/build/pg-$major"
cp -r "$results"/results.* "$top/build/pg-$major/" 2>/dev/null
exit $status
