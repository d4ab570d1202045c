#!/bin/bash
# make deps: installs the Debian packages that a purpose needs, as far as they are missing; says beforehand how much
# that is.  When all packages are there, nothing is done and no network is needed.
#
#   install-deps.sh [TIER] [PACKAGE...]
#
#   build   compiler, server, its headers, four libraries
#   demo    these, and what make demo draws its picture with
#   check   of make check: build, and what its tests use
#   all     of check-all: check, and the programs that tests name in their heads ("# packages: ...")
#   none    the packages alone
#
# No service of these packages is started, now or with the machine, but for servers that were there before.  Services
# that come with a package are started by its script, which asks /usr/sbin/policy-rc.d: ours, while packages are
# installed; one that is there already stays and decides itself.
#
# LSM_DEPS_ROOT: directory instead of / for that file (tests)
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
policy=${LSM_DEPS_ROOT:-}/usr/sbin/policy-rc.d
mark="# of lsmam's install-deps.sh, which removes it"

build=(make gcc g++ libc6-dev postgresql-15 postgresql-server-dev-15 postgresql-client-15
	libicu-dev librocksdb-dev libxxhash-dev liblz4-dev libzstd-dev)
check=(perl locales patch procps python3 rocksdb-tools libipc-run-perl)

# what tests name in their heads, for a server of this version
lab() {
	sed -n 's/^# packages: //p' "$top"/src/test/tap/t/*.pl | tr ' ' '\n' | sed 's/-NN-/-15-/' | sort -u
}

case ${1:-} in
	build) packages=("${build[@]}") ;;
	demo) packages=("${build[@]}" python3-matplotlib) ;;
	check) packages=("${build[@]}" "${check[@]}") ;;
	all) mapfile -t packages < <(printf '%s\n' "${build[@]}" "${check[@]}"; lab) ;;
	none) packages=() ;;
	*)
		echo "deps: usage: install-deps.sh build|demo|check|all|none [PACKAGE...]" >&2
		exit 2
		;;
esac
shift
packages+=("$@")

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

# One at a time: the policy of another would go while we install.
mkdir -p "${LSM_DEPS_ROOT:-}/run"
exec 8>"${LSM_DEPS_ROOT:-}/run/lsmam-deps.lock"
flock 8

undo() {
	if grep -qsF "$mark" "$policy"; then
		rm -f "$policy"
	fi
}
trap undo EXIT
trap 'exit 130' INT TERM HUP

# another program may hold the lock: unattended-upgrades, a second make check
apt() { LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 "$@" 8>&-; }
# The package that has the server's service, if it comes along.
with_server=
dpkg-query -L postgresql-common >/dev/null 2>&1 || [[ " ${missing[*]} " != *" postgresql-15 "* ]] || with_server=postgresql-common
install=(install -q --no-install-recommends "${missing[@]}")

echo "deps: wanted: ${missing[*]}"
# One repository that does not answer may be another's.
apt update -qq || echo "deps: not all lists of packages could be brought up to date"
# It says what it would do, and does nothing.
plan=$(apt --assume-no "${install[@]}" 2>&1) || grep -q '^Need to get' <<<"$plan" || {
	echo "$plan" | tail -20
	exit 1
}
# Some MB in a second come from a mirror, and a package is unpacked and set up in less than one.
awk '
	function megabytes(number, unit) {
		gsub(",", "", number)
		sub("/.*", "", unit)
		return number * (unit == "GB" ? 1000 : unit == "MB" ? 1 : unit == "kB" ? 0.001 : 0.000001)
	}
	/ newly installed, / { count = $1 + $3 }
	/^Need to get / { fetch = megabytes($4, $5) }
	/^After this operation, .* additional / { disk = megabytes($4, $5) }
	END {
		minutes = int((fetch / 4 + count * 0.5) / 60 + 0.5)
		printf "deps: %d packages with what they need, %.0f MB to fetch, %.0f MB on disk; some %s\n", count, fetch, disk,
			(minutes > 1 ? minutes " minutes" : "60 seconds")
	}' <<<"$plan"

if [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
	mkdir -p "$(dirname "$policy")"
	printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
	chmod 755 "$policy"
fi
began=$SECONDS
log=$(mktemp)
if ! apt -y "${install[@]}" >"$log" 2>&1; then
	tail -30 "$log"
	echo "deps: apt-get has failed; all it said: $log"
	exit 1
fi
rm -f "$log"

# A service that came with them does not start with the machine either: it is its user's to enable.
services=()
for package in "${missing[@]}" ${with_server:-}; do
	while read -r file; do
		case $file in
			*@.*) ;;
			*/systemd/system/*.service)
				# it wants to be called by a package's script
				if DPKG_MAINTSCRIPT_PACKAGE=$package deb-systemd-helper disable "${file##*/}" >/dev/null 2>&1; then
					services+=("$(basename "$file" .service)")
				fi
				;;
			/etc/init.d/*) update-rc.d "${file##*/}" disable >/dev/null 2>&1 || true ;;
		esac
	done < <(dpkg-query -L "$package")
done
[ ${#services[@]} -eq 0 ] || echo "deps: not started, and not enabled: ${services[*]}"
echo "deps: installed in $((SECONDS - began)) s"
