#!/bin/bash
# make check-upgrade: pg_upgrade of lsm tables from PostgreSQL 15 to 17 to 18 and from 15 to 18, by
# copy and by link (TAP 064), and by logical replication (TAP 072).  The programs of 15 and 17 are
# brought to the chroot of 18 with their libraries (island.sh).  As root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${LSM_CHROOTS:-/var/cache/lsmam}
export LSM_CHROOT_PACKAGES=patchelf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "check: programs of 15"
"$here/island.sh" "$work/15"
"$here/check-chroot.sh" 17 src/test/island.sh /tmp/lsmam/island
"$here/check-chroot.sh" 18 true
rm -rf "$cache/sid/opt/lsmam"
mkdir -p "$cache/sid/opt/lsmam"
cp -a "$work/15" "$cache/sid/opt/lsmam/15"
mv "$cache/trixie/tmp/lsmam/island" "$cache/sid/opt/lsmam/17"
chmod -R a+rX "$cache/sid/opt/lsmam"
export LSM_OLD_INSTALLS="/opt/lsmam/15/usr/lib/postgresql/15 /opt/lsmam/17/usr/lib/postgresql/17"
LSM_CHECK=tap LSM_TAP="064 072" "$here/check-chroot.sh" 18
