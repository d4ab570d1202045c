#!/bin/bash
# make check-upgrade: pg_upgrade of lsm tables from PostgreSQL 15 to 17 to 18 and from 15 to 18, by
# copy and by link (TAP 064), and by logical replication (TAP 072).  The programs of 15 and 17 are
# brought to the chroot of 18 with their libraries (island.sh).  As root.
#
#   LSM_FROM="15 16" LSM_TO=19    these instead, oldest first
#   LSM_TAP=064                   this test only
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${LSM_CHROOTS:-/var/cache/lsmam}
suites=([16]=bookworm [17]=trixie [18]=sid [19]=experimental)
to=${LSM_TO:-18}
tests=${LSM_TAP:-064 072}
export LSM_CHROOT_PACKAGES=patchelf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

installs=
for major in ${LSM_FROM:-15 17}; do
	if [ "$major" -eq 15 ]; then
		echo "check: programs of 15"
		"$here/island.sh" "$work/15"
	else
		"$here/check-chroot.sh" "$major" src/test/island.sh /tmp/lsmam/island
		mv "$cache/${suites[major]}/tmp/lsmam/island" "$work/$major"
	fi
	installs+=" /opt/lsmam/$major/usr/lib/postgresql/$major"
done
"$here/check-chroot.sh" "$to" true
root=$cache/${suites[to]}
rm -rf "$root/opt/lsmam"
mkdir -p "$root/opt/lsmam"
mv "$work"/* "$root/opt/lsmam/"
chmod -R a+rX "$root/opt/lsmam"
LSM_OLD_INSTALLS=$installs LSM_CHECK=tap LSM_TAP=$tests "$here/check-chroot.sh" "$to"
