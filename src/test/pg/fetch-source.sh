#!/bin/bash
# fetch-source.sh DIR MAJOR: the source package of PostgreSQL MAJOR (15, 17, 18), unpacked in DIR/source.
#
# The newest version not newer than the installed server that a mirror still has is taken, else the oldest
# newer one: older suites ask for nothing that the server does not have.  apt works on lists and a
# sources file of its own in DIR; the system's are not touched.  Nothing is done when DIR/source was made for
# the installed server.
#
# Debian's patches are left out: one of them makes "make install" write to /usr/lib/postgresql
# whatever --prefix says.
set -euo pipefail

mkdir -p "$1/apt/lists/partial" "$1/apt/cache/archives/partial"
dir=$(cd "$1" && pwd)
package=postgresql-$2
server=$(dpkg-query -W -f='${Version}' "$package")
key=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=${CHECK_PG_MIRROR:-http://deb.debian.org}
log=$dir/apt/log

[ "$(cat "$dir/source/.server" 2>/dev/null)" = "$server upstream" ] && exit 0

case $2 in
	15) suites=("debian bookworm" "debian bookworm-updates" "debian-security bookworm-security") ;;
	17) suites=("debian trixie" "debian trixie-updates" "debian-security trixie-security") ;;
	18) suites=("debian sid") ;;
esac
for suite in "${suites[@]}"; do
	echo "deb-src [signed-by=$key] $mirror/${suite% *} ${suite#* } main"
done >"$dir/apt/sources.list"

apt_options=(
	-q
	-o "Dir::Etc::sourcelist=$dir/apt/sources.list"
	-o "Dir::Etc::sourceparts=/dev/null"
	-o "Dir::State::lists=$dir/apt/lists"
	-o "Dir::Cache=$dir/apt/cache"
	-o "Acquire::Check-Valid-Until=false"
)
[ "$(id -u)" -ne 0 ] || apt_options+=(-o "APT::Sandbox::User=root")

apt-get "${apt_options[@]}" update >"$log" 2>&1 || {
	tail -20 "$log"
	exit 1
}

# best first: not newer than the server, descending; then newer ones, ascending
versions=$(apt-cache "${apt_options[@]}" showsrc "$package" | sed -n 's/^Version: //p' | sort -uV)
older=
newer=
for version in $versions; do
	if dpkg --compare-versions "$version" le "$server"; then
		older="$version $older"
	else
		newer="$newer $version"
	fi
done

for version in $older $newer; do
	echo "fetching the source of $package $version (the server is $server)"
	rm -rf "$dir/source" "$dir/unpack"
	mkdir "$dir/unpack"
	if (cd "$dir/unpack" &&
		apt-get "${apt_options[@]}" source --download-only "$package=$version" &&
		dpkg-source --no-check --skip-patches -x "$package"_*.dsc "$dir/source") >>"$log" 2>&1; then
		rm -rf "$dir/unpack" "$dir"/*.orig.tar.*
		echo "$version" >"$dir/source/.version"
		echo "$server upstream" >"$dir/source/.server"
		exit 0
	fi
	echo "the mirror does not have it"
done
tail -20 "$log"
echo "no source package of $package could be fetched"
exit 1
