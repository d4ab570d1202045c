#!/bin/bash
# Installs the Debian packages that building and testing need, and those named, that are missing.
# Nothing is done, and no network is needed, when all are there.
set -euo pipefail

packages=(
	make gcc g++ libc6-dev perl
	postgresql-15 postgresql-server-dev-15 postgresql-client-15
	librocksdb-dev libxxhash-dev liblz4-dev libzstd-dev
	rocksdb-tools libipc-run-perl postgresql-15-repack
	"$@"
)

missing=()
for package in "${packages[@]}"; do
	status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
	echo "missing packages: ${missing[*]}" >&2
	echo "install them, or run this as root" >&2
	exit 1
fi

export DEBIAN_FRONTEND=noninteractive
echo "installing: ${missing[*]}"
apt-get update -q
apt-get install -q -y --no-install-recommends "${missing[@]}"
