#!/bin/bash
# make check-packages [PG="15 17"]: Debian packages for these major versions (15, 17 and 18), each
# in chroots of the release that has that version; or 19, of sid with experimental.  As root.  Builds source and binary
# package as an ordinary user, with the regression tests; lintian; an install into another prefix;
# the autopkgtest; the package in a chroot that has nothing but the server (packages/use.sh).  The
# last line is "N passed, N failed".
#
# Three chroots of each release are kept in LSM_CHROOTS (/var/cache/lsmam): packages-SUITE as
# debootstrap leaves it, -build and -server.  The packages stay in build/packages.
set -uo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
cache=${LSM_CHROOTS:-/var/cache/lsmam}
mirror=${LSM_MIRROR:-http://deb.debian.org/debian}
results=$top/build/packages
version=$(sed -n '1s/^lsmam (\(.*\)-[^-]*) .*/\1/p' "$top/debian/changelog")
passed=0
failed=0
scratch=

finish() {
	[ -z "$scratch" ] || rm -rf "$scratch"
	echo "# packages and logs: $results"
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ] && [ $passed -gt 0 ]
	exit $?
}
trap finish EXIT
trap 'exit 130' INT TERM

# result STATUS NAME [LOG]
result() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
		echo "ok - PostgreSQL $major: $2"
	else
		failed=$((failed + 1))
		echo "not ok - PostgreSQL $major: $2"
		[ -z "${3:-}" ] || tail -30 "$3" | sed 's/^/# /'
	fi
	return "$1"
}

# tap STATUS NAME LOG: results of a script that prints TAP
tap() {
	local ok bad
	ok=$(grep -c '^ok' "$3")
	bad=$(grep -c '^not ok' "$3")
	[ "$1" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
	[ "$bad" -eq 0 ] || grep -A5 '^not ok' "$3" || tail -20 "$3"
	passed=$((passed + ok))
	failed=$((failed + bad))
	echo "--- PostgreSQL $major: $2: $ok passed, $bad failed"
}

# in_chroot ROOT COMMAND...: with the network.  alone ROOT COMMAND...: with processes, network
# and System V memory of its own, that end with it, servers among them
clean_env=(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
	DEBIAN_FRONTEND=noninteractive)
in_chroot() {
	unshare --mount bash -c '
		mount --bind /proc "$0/proc" && mount --rbind /dev "$0/dev" || exit 1
		exec chroot "$@"' "$1" "$1" "${clean_env[@]}" "${@:2}"
}
alone() {
	unshare --mount --pid --ipc --net --fork --kill-child bash -c '
		mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && ip link set lo up || exit 1
		exec chroot "$@"' "$1" "$1" "${clean_env[@]}" "${@:2}"
}
as_builder() {
	alone "$root" runuser -u builder -- env HOME=/home/builder bash -c "cd ~/lsmam-$version && $1"
}
# installs in ROOT what is missing
install_in() {
	in_chroot "$1" bash -c '
		known=$(dpkg-query -W -f="\${db:Status-Status}\n" "$@" 2>/dev/null) &&
			[ "$(sort -u <<<"$known")" = installed ] && exit 0
		apt-get update -q -o Acquire::Check-Valid-Until=false &&
			apt-get install -q -y --no-install-recommends "$@"' - "${@:2}"
}

# Nothing starts in a chroot by itself.  A copy becomes the chroot when it is whole.
make_chroot() {
	local root=$cache/packages-$suite$1
	shift
	if [ ! -d "$root" ]; then
		rm -rf "$root.new"
		if [ "$root" = "$cache/packages-$suite" ]; then
			debootstrap --variant=minbase --include=ca-certificates "${suite/experimental/sid}" "$root.new" "$mirror" || return 1
			cp /etc/resolv.conf "$root.new/etc/"
			[ "$suite" != experimental ] || "$top/src/test/experimental.sh" "$root.new" "$major" "$mirror"
			printf '#!/bin/sh\nexit 101\n' >"$root.new/usr/sbin/policy-rc.d"
			chmod 755 "$root.new/usr/sbin/policy-rc.d"
		else
			cp -a --reflink=auto "$cache/packages-$suite" "$root.new" || return 1
		fi
		mv "$root.new" "$root"
	fi
	[ $# -eq 0 ] || install_in "$root" "$@"
}

check() {
	local logs=$results/$major root deb commit build_depends
	mapfile -t build_depends < <(sed -n '/^Build-Depends:/,/^[^ ]/s/^ \([^ ,]*\).*/\1/p' \
		"$top/debian/control.in" | sed 's/^debhelper-compat$/debhelper/')
	rm -rf "$logs"
	mkdir -p "$logs" "$cache"
	{
		make_chroot "" &&
			make_chroot -build build-essential fakeroot lintian patch "${build_depends[@]}" &&
			make_chroot -server "postgresql-$major"
	} >"$logs/chroots.log" 2>&1 || result 1 "chroots of Debian $suite" "$logs/chroots.log" || return

	# the source, as git would hand it out; without git, as it is here
	root=$cache/packages-$suite-build
	chroot "$root" id builder >/dev/null 2>&1 || chroot "$root" useradd -m builder
	rm -rf "$root"/home/builder/* && mkdir "$root/home/builder/lsmam-$version"
	if commit=$(git -C "$top" stash create 2>/dev/null); then
		git -C "$top" archive "${commit:-HEAD}"
	else
		tar -C "$top" --exclude=./build --exclude=./.git -cf - .
	fi | tar -C "$root/home/builder/lsmam-$version" -xf -
	tar -C "$root/home/builder" --exclude="lsmam-$version/debian" \
		-czf "$root/home/builder/lsmam_$version.orig.tar.gz" "lsmam-$version"
	chroot "$root" chown -R builder: /home/builder

	as_builder 'pg_buildext updatecontrol &&
		env DEB_BUILD_OPTIONS="parallel=$(nproc)" dpkg-buildpackage -us -uc' >"$logs/build.log" 2>&1
	result $? "source and binary package are built, and the regression tests pass" "$logs/build.log" || return
	deb=postgresql-$major-lsmam_$version-1_$(chroot "$root" dpkg --print-architecture).deb
	find "$root/home/builder" -maxdepth 1 -type f -exec cp {} "$logs/" \;
	# the package was never meant for Debian's own archive, so no bug asks for it
	as_builder 'lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs \
		../*.changes' >"$logs/lintian.log" 2>&1
	result $? "lintian has no errors nor warnings" "$logs/lintian.log"

	if [ "$major" -ge 18 ]; then
		as_builder src/test/packages/prefix.sh >"$logs/prefix.log" 2>&1
		tap $? "another prefix" "$logs/prefix.log"
	fi

	# autopkgtest, by an ordinary user, as it says
	{
		alone "$root" dpkg -i "/home/builder/$deb" && as_builder debian/tests/installcheck
	} >"$logs/autopkgtest.log" 2>&1
	result $? "autopkgtest" "$logs/autopkgtest.log"
	alone "$root" dpkg -P "postgresql-$major-lsmam" >>"$logs/autopkgtest.log" 2>&1

	# What a later version would be like: another script, which needs a function of the new library
	as_builder 'src/test/packages/next.sh' >"$logs/next.log" 2>&1
	result $? "a next version is built" "$logs/next.log" || return

	scratch=$cache/packages-$suite-scratch
	rm -rf "$scratch"
	cp -a --reflink=auto "$cache/packages-$suite-server" "$scratch"
	mkdir "$scratch/packages"
	chmod 777 "$scratch/packages"
	cp "$root"/home/builder/postgresql-"$major"-lsmam_*.deb "$top/src/test/packages/use.sh" \
		"$scratch/packages/"
	in_chroot "$scratch" apt-get install -q -y --no-install-recommends "/packages/$deb" \
		>"$logs/install.log" 2>&1
	result $? "installation beside the server" "$logs/install.log" || return
	alone "$scratch" /packages/use.sh "$major" >"$logs/use.log" 2>&1
	tap $? "use, replacement, removal" "$logs/use.log"
	rm -rf "$scratch"
	scratch=
}

major=
[ "$(id -u)" -eq 0 ] || {
	echo "packages: needs root, to make chroots" >&2
	exit 1
}
[ $# -gt 0 ] || set -- 15 17 18
for major; do
	case $major in
		15) suite=bookworm ;;
		17) suite=trixie ;;
		18) suite=sid ;;
		19) suite=experimental ;;
		*)
			result 1 "no Debian release is known to have it; 15, 17, 18 and 19 are"
			continue
			;;
	esac
	echo "=== PostgreSQL $major, Debian $suite ($(date +%T))"
	check
done
