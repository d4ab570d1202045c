#!/bin/bash
# make check PG=16 (17, 18, 19): the tests on another major version, in a chroot of the Debian release that
# has it; for 19 that is sid with what experimental has of it, for 16, which none has, bookworm and
# fetch-16.sh.  The chroot is made by debootstrap at the first call and kept in LSM_CHROOTS
# (/var/cache/lsmam); remove it to have it made anew.  LSM_CHECK says what is run; without it
# regress and isolation.  With more arguments: this command instead, in the copy of the sources there.
# As root.  Exit code 77: the chroot could not be made.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
major=${1:?usage: check-chroot.sh MAJOR [COMMAND...]}
shift
case $major in
	16) suite=bookworm ;;
	17) suite=trixie ;;
	18) suite=sid ;;
	19) suite=experimental ;;
	*)
		echo "check: it is not known where PostgreSQL $major could come from; 15 to 19 are" >&2
		exit 2
		;;
esac
[ "$(id -u)" -eq 0 ] || {
	echo "check: PG=$major needs root, to make a chroot" >&2
	exit 1
}
cache=${LSM_CHROOTS:-/var/cache/lsmam}
root=$cache/$suite
mirror=${LSM_MIRROR:-http://deb.debian.org/debian}
debian=${major/16/15}
packages="make gcc g++ libc6-dev perl patch locales diffutils procps
	postgresql-$debian postgresql-server-dev-$debian librocksdb-dev libxxhash-dev liblz4-dev libzstd-dev
	libicu-dev rocksdb-tools libipc-run-perl curl ${LSM_CHROOT_PACKAGES:-}"
# what some TAP tests would be skipped without: what they name in their heads, as for 15, and what 15's release has not
if [[ " ${LSM_CHECK:-} " == *" tap "* ]]; then
	packages+=" $(sed -n "s/^# packages: //p" "$top"/src/test/tap/t/*.pl | sed "s/-NN-/-$major-/g" | tr '\n' ' ')"
	packages+="python3-etcd python3-dnspython chromium"
	for name in pg-hint-plan show-plans timescaledb pgvector; do
		packages+=" postgresql-$major-$name"
	done
	# extensions are built for what Debian has
	[ "$major" -ne 16 ] || packages=$(tr ' ' '\n' <<<"$packages" | grep -v '^postgresql-16-')
	[ "$major" -lt 18 ] || packages+=" postgresql-$major-pgsentinel postgresql-$major-pg-ivm"
fi

# in_chroot COMMAND...: with mounts that end with it
in_chroot() {
	unshare --mount bash -c '
		mount --bind /proc "$0/proc" && mount --rbind /dev "$0/dev" || exit 1
		exec chroot "$@"' "$root" "$root" "$@"
}

if [ ! -x "$root/usr/bin/apt-get" ]; then
	echo "check: making $root, Debian $suite"
	mkdir -p "$cache"
	rm -rf "$root.new"
	debootstrap --variant=minbase --include=ca-certificates "${suite/experimental/sid}" "$root.new" "$mirror" >"$cache/$suite.log" 2>&1 || {
		tail -20 "$cache/$suite.log"
		exit 77
	}
	cp /etc/resolv.conf "$root.new/etc/"
	[ "$suite" != experimental ] || "$top/src/test/experimental.sh" "$root.new" "$major" "$mirror"
	mv "$root.new" "$root"
fi
# packages start no services there
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
missing=
for package in $packages; do
	chroot "$root" dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=" $package"
done
if [ -n "$missing" ]; then
	echo "check: installing in $root:$missing"
	# a mirror may be some weeks behind; few extensions are built for 19 yet, and tests of the others are skipped
	# shellcheck disable=SC2086
	in_chroot env DEBIAN_FRONTEND=noninteractive bash -c '
		apt-get update -q -o Acquire::Check-Valid-Until=false || exit 1
		for package; do
			[[ $package = postgresql-19-* ]] && ! apt-cache show "$package" >/dev/null 2>&1 || there+=("$package")
		done
		apt-get install -q -y --no-install-recommends "${there[@]}"' - $missing >"$cache/$suite.log" 2>&1 || {
		tail -20 "$cache/$suite.log"
		exit 77
	}
fi

[ "$major" -ne 16 ] || "$top/src/test/fetch-16.sh" "$root"

in_chroot true || {
	echo "check: nothing can be run in $root"
	exit 77
}

# Its own copy of the sources, whose objects stay for the next time.  That may be of other sources:
# a file that is not what it was last time is new, however old it is here.
copy=$root/work/lsmam
mkdir -p "$copy" "$copy.new" "$root/tmp/lsmam"
chmod 1777 "$root/tmp" "$root/tmp/lsmam"
tar -C "$top" --exclude=./build --exclude=./.git -cf - . | tar -C "$copy.new" -xmf -
(cd "$copy.new" && find . -type f -print0) | while IFS= read -r -d '' file; do
	! cmp -s "$copy.new/$file" "$copy/$file" || touch -r "$copy/$file" "$copy.new/$file"
done
find "$copy" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
find "$copy.new" -mindepth 1 -maxdepth 1 -exec mv -t "$copy" {} +
rmdir "$copy.new"

echo "check: PostgreSQL $(in_chroot "/usr/lib/postgresql/$major/bin/pg_config" --version | sed 's/^PostgreSQL //'), Debian $suite"
settings=(LSM_CHECK="${LSM_CHECK:-regress isolation}")
for name in LSM_REGRESS LSM_ISOLATION LSM_JOBS LSM_TAP LSM_TAP_TIMEOUT LSM_SEED LSM_LONG LSM_OLD_INSTALLS LSM_KEEP \
	LSM_TIER LSM_PART LSM_STEPS LSM_MINUTES LSM_ABOUT_STANDBY LSM_SECOND_OPINION LSM_POINTS LSM_PARTS \
	CHECK_PG_CONFIGS CHECK_PG_SUITES CHECK_PG_CASSERT CHECK_PG_BASELINE CHECK_PG_MIRROR; do
	[ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
status=0
in_chroot env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TMPDIR=/tmp/lsmam \
	PG_CONFIG="/usr/lib/postgresql/$major/bin/pg_config" "${settings[@]}" \
	bash -c 'cd /work/lsmam && exec "$@"' - "${@:-src/test/check.sh}" || status=$?
[ $# -eq 0 ] || exit $status
rm -rf "$top/build/check-results-$major"
mkdir -p "$top/build"
cp -r "$root/work/lsmam/build/check-results" "$top/build/check-results-$major" 2>/dev/null || true
echo "# logs: $top/build/check-results-$major"
exit $status
