#!/bin/bash
# make deps: installs the Debian packages that building and testing need, and
# those named as arguments, as far as they are missing.  Says what it does.
# When all packages are there, nothing is done and no network is needed.
set -euo pipefail

packages=(
	make gcc g++ libc6-dev perl
	postgresql-15 postgresql-server-dev-15 postgresql-client-15 locales
	librocksdb-dev libxxhash-dev liblz4-dev libzstd-dev
	rocksdb-tools libipc-run-perl postgresql-15-repack pgbackrest barman
	patroni etcd-server curl
	prometheus prometheus-postgres-exporter
	postgresql-15-cron postgresql-15-hypopg postgresql-15-pgaudit
	postgresql-15-pg-qualstats postgresql-15-pg-stat-kcache
	postgresql-15-pg-wait-sampling postgresql-15-set-user
	postgresql-15-wal2json postgresql-15-pglogical postgresql-15-partman
	postgresql-15-rum postgresql-15-plprofiler
	"$@"
)

missing=()
for package in "${packages[@]}"; do
	status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
	echo "deps: all ${#packages[@]} packages are installed"
	exit 0
fi

if [ "$(id -u)" -ne 0 ]; then
	echo "deps: missing packages: ${missing[*]}" >&2
	echo "deps: install them, or run this as root" >&2
	exit 1
fi

export DEBIAN_FRONTEND=noninteractive
echo "deps: installing with apt-get: ${missing[*]}"
# another program may hold the lock: unattended-upgrades, a second make check
apt-get -o DPkg::Lock::Timeout=600 update -q
apt-get -o DPkg::Lock::Timeout=600 install -q -y --no-install-recommends "${missing[@]}"
