#!/bin/bash
# src/test/island.sh DIRECTORY: this system's PostgreSQL (PG_CONFIG) with lsmam and with the
# libraries that both need, but for the C library: what runs from there on a newer system, too.
# Programs are in DIRECTORY/usr/lib/postgresql/MAJOR/bin.  For tests of pg_upgrade, which wants
# the programs of both versions on one system.  Needs patchelf.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
island=$(realpath -m "${1:?usage: island.sh DIRECTORY}")
new_sandbox island
trap 'rm -rf "$sandbox"' EXIT
install_flavour release >"$sandbox/build.log" 2>&1 || {
	tail -30 "$sandbox/build.log"
	exit 1
}
rm -rf "$island"
mkdir -p "$island/lib"
cp -a "$prefix/usr" "$island/"
# what lies outside (Debian's alternatives)
find "$island/usr" -type l -lname '/*' | while read -r link; do
	cp -rL "$link" "$link.here"
	rm "$link"
	mv "$link.here" "$link"
done
# bitcode and documents
find "$island/usr" -name bitcode -prune -exec rm -rf {} +

elf_files() { find "$1" -type f \( -perm -u+x -o -name '*.so*' \) -exec sh -c 'head -c 4 "$1" | grep -q ELF' _ {} \; -print; }

# newer ones of these take older programs
c_library='^(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|nsl|anl|nss_.*|mvec|BrokenLocale))\.so'
elf_files "$island/usr" | xargs -n 50 ldd 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
	while read -r library; do
		[[ $(basename "$library") =~ $c_library ]] || cp -L "$library" "$island/lib/"
	done
chmod u+w "$island"/lib/*
# RPATH, not RUNPATH: the libraries' own needs are looked for there, too
for file in $(elf_files "$island/usr"); do
	up=$(realpath --relative-to="$(dirname "$file")" "$island/lib")
	patchelf --force-rpath --set-rpath "\$ORIGIN/$up" "$file"
done
for file in "$island"/lib/*; do
	patchelf --force-rpath --set-rpath "\$ORIGIN" "$file"
done
echo "$island: $("$island"/usr/lib/postgresql/*/bin/postgres --version)"
