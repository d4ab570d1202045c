#!/bin/bash
# src/test/experimental.sh ROOT MAJOR MIRROR: a chroot of sid takes PostgreSQL, and what only it has, from
# experimental.
set -euo pipefail
echo "deb $3 experimental main" >>"$1/etc/apt/sources.list"
printf 'Package: %s\nPin: release a=experimental\nPin-Priority: %s\n\n' "*" 100 \
	"src:postgresql-$2 src:postgresql-common" 990 >"$1/etc/apt/preferences.d/experimental"
